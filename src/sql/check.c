/*-------------------------------------------------------------------------
 *
 * check.c
 *	  parvacuum_check(): is anything wrong, and what is to be done about it?
 *
 * Here are the function itself and what concerns the whole server.  Tables and
 * databases are in sql/check_tables.c and sql/check_space.c.  No row means
 * that there is nothing to say.  Each row has the numbers that it was
 * concluded from, so that a reader can judge it.
 *
 * Roles that are not members of pg_read_all_stats get the rows about tables
 * whose owner's privileges they have.
 *
 * Sessions run this.  It takes locks for a moment only, and never waits for
 * the lock of a table.  It needs no preloaded library.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/statvfs.h>

#include "access/multixact.h"
#include "access/xlog.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/dsm_impl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "sched/queue.h"
#include "sql/call.h"
#include "sql/check.h"
#include "stats/history.h"

PG_FUNCTION_INFO_V1(parvacuum_check);

/* A smaller ring waits for the WAL at each page that it reuses */
#define SMALL_RING_KB			2048

/* How long a transaction may hold back the horizon without being mentioned */
#define LONG_HOLD				USECS_PER_HOUR
#define TOO_LONG_HOLD			USECS_PER_DAY

/* Return the name of a relation with its schema, quoted where necessary. */
char *
pv_qualified_name(Form_pg_class form)
{
	char	   *nspname = get_namespace_name(form->relnamespace);

	return quote_qualified_identifier(nspname ? nspname : "?",
									  NameStr(form->relname));
}

/*
 * Add a row about a relation, or without one about the server, and return it.
 * The strings are not copied.
 */
PvAdvice *
pv_advise(List **rows, Form_pg_class form, PvSeverity severity,
		  const char *name, const char *setting, const char *reason,
		  const char *evidence, const char *advice)
{
	PvAdvice   *row = palloc(sizeof(PvAdvice));

	row->severity = severity;
	row->name = name;
	row->subject = form == NULL ? "server" : pv_qualified_name(form);
	row->relid = form == NULL ? InvalidOid : form->oid;
	row->setting = setting;
	row->reason = reason;
	row->evidence = evidence;
	row->advice = advice;
	*rows = lappend(*rows, row);
	return row;
}

/* Return the list of preloaded libraries, for those who may see it. */
static const char *
preloaded_libraries(void)
{
	if (!pv_may_see_settings())
		return NULL;
	return psprintf("shared_preload_libraries = '%s'",
					shared_preload_libraries_string);
}

/*
 * Is the library where it must be?  Returns false if it is not preloaded, so
 * that nothing of its own can be checked.
 */
static bool
check_preload(List **rows)
{
	if (!pv_shmem_attached())
	{
		pv_advise(rows, NULL, PV_CRITICAL, "preload",
				  "shared_preload_libraries",
				  "parvacuum is not preloaded, so PostgreSQL's own VACUUM vacuums all tables.",
				  preloaded_libraries(),
				  pv_built_for_other() != NULL ?
				  "Build and install parvacuum for this server, and restart the server." :
				  "Add parvacuum to the end of shared_preload_libraries and restart the server.");
		return false;
	}
	if (pv_slot_problem() != NULL)
		pv_advise(rows, NULL, PV_CRITICAL, "engine", NULL, pv_slot_problem(),
				  psprintf("PostgreSQL %s",
						   GetConfigOption("server_version", false, false)),
				  "See the WARNING in the server log from the last server start.");
	else if (!pv_slot_is_first())
		pv_advise(rows, NULL, PV_WARNING, "preload_order",
				  "shared_preload_libraries",
				  "A library that is preloaded after parvacuum has taken over the vacuum of heap tables, and may not pass it on.",
				  preloaded_libraries(),
				  "Put parvacuum at the end of shared_preload_libraries and restart the server.");
	if (!pv_guc_engine)
		pv_advise(rows, NULL, PV_WARNING, "engine", "parvacuum.engine",
				  "The engine is switched off, so PostgreSQL's own VACUUM vacuums all tables.",
				  "parvacuum.engine = off", "Set parvacuum.engine to on and reload.");
	return true;
}

/* Is the server older than the release that this library was built for? */
static void
check_minor(List **rows)
{
	int			running = atoi(GetConfigOption("server_version_num", false,
											   false));

	if (running < PV_BUILT_FOR)
		pv_advise(rows, NULL, PV_WARNING, "old_minor", NULL,
				  "The server is an older minor release than the one that parvacuum was compiled for, and misses corrections.",
				  psprintf("the server is %d, parvacuum was compiled for %d",
						   running, PV_BUILT_FOR),
				  "Install the newest minor release of PostgreSQL and restart the server.");
}

/* Do the library, its file and the extensions of this database differ? */
static void
check_versions(List **rows)
{
	const char *evidence;

	if (pv_library_replaced(&evidence))
		pv_advise(rows, NULL, PV_ADVICE, "library_file", NULL,
				  "The file of the library was replaced, and the server goes on with the one that it has loaded.",
				  evidence, "Restart the server.");
	for (int i = 0; i < PV_NUM_EXTENSIONS; i++)
	{
		char	   *version;
		int			order = pv_extension_compare(pv_extensions[i], &version);

		if (order == 0)
			continue;
		evidence = psprintf("extension %s is %s, the library that is loaded is %s",
							pv_extensions[i], version, PV_VERSION);
		if (order < 0)
			pv_advise(rows, NULL, PV_ADVICE, "extension_version", NULL,
					  "The extension of this database is older than the library, and lacks what is new.",
					  evidence,
					  psprintf("ALTER EXTENSION %s UPDATE", pv_extensions[i]));
		else
			pv_advise(rows, NULL, PV_WARNING, "extension_version", NULL,
					  "The extension of this database is newer than the library, so new columns are NULL, and new functions fail.",
					  evidence,
					  psprintf("Install parvacuum %s or later, and restart the server.",
							   version));
	}
}

static void
check_worker_processes(List **rows)
{
	uint64		missed = pv_sched_counted(PV_COUNT_NO_PROCESS);
	int			wanted = pv_processes_wanted();

	if (max_worker_processes >= wanted)
		return;
	pv_advise(rows, NULL, missed > 0 ? PV_WARNING : PV_ADVICE,
			  "worker_processes", "max_worker_processes",
			  "There are fewer places for processes than the settings ask for, so vacuums may get no workers, and runs and the scheduler no process.",
			  psprintf("max_worker_processes is %d, at least %d are asked for: max_parallel_workers %d, parvacuum.max_runs %d, scheduler %d, launchers; the scheduler found no place " UINT64_FORMAT " times",
					   max_worker_processes, wanted, max_parallel_workers,
					   pv_guc_max_runs, PV_SCHED_WORKERS_WANTED, missed),
			  psprintf("Set max_worker_processes to %d or more and restart the server.",
					   wanted));
}

/* Check settings that only the scheduler follows, without a scheduler. */
static void
check_without_scheduler(List **rows)
{
	bool		has_window = pv_guc_window != NULL && pv_guc_window[0] != '\0';
	const char *name = has_window ? "window" : "sweep";

	if (pv_guc_scheduler || (!has_window && !pv_guc_sweep))
		return;
	pv_advise(rows, NULL, PV_ADVICE, "no_effect", "parvacuum.scheduler",
			  "A setting has no effect, because only the scheduler follows it.",
			  psprintf("parvacuum.%s is set, parvacuum.scheduler is off", name),
			  psprintf("Set parvacuum.scheduler to on, or reset parvacuum.%s.",
					   name));
}

/* Is there a background worker of that type? */
static bool
is_running(const char *type)
{
	for (int i = pgstat_fetch_stat_numbackends(); i > 0; i--)
	{
		const PgBackendStatus *status = pv_backend_status(i);

		if (status->st_backendType == B_BG_WORKER &&
			pv_process_is(status->st_procpid, type))
			return true;
	}
	return false;
}

/* Does any process vacuum the table? */
bool
pv_is_being_vacuumed(Oid relid)
{
	for (int i = pgstat_fetch_stat_numbackends(); i > 0; i--)
	{
		const PgBackendStatus *status = pv_backend_status(i);

		if (status->st_progress_command == PROGRESS_COMMAND_VACUUM &&
			status->st_progress_command_target == relid &&
			status->st_databaseid == MyDatabaseId)
			return true;
	}
	return false;
}

/*
 * Check how many members multixacts have.  Core: access/transam/multixact.c,
 * MultiXactMemberFreezeThreshold.
 */
static void
check_members(List **rows)
{
	int			limit = MultiXactMemberFreezeThreshold();

	if (limit >= autovacuum_multixact_freeze_max_age)
		return;
	pv_advise(rows, NULL, limit == 0 ? PV_CRITICAL : PV_WARNING,
			  "wraparound", NULL,
			  "The members of multixacts fill so much of their space that tables are vacuumed early.",
			  psprintf("tables are vacuumed from an age of %d multixacts on, autovacuum_multixact_freeze_max_age is %d",
					   limit, autovacuum_multixact_freeze_max_age),
			  "VACUUM the tables with the oldest relminmxid, in all databases.");
}

/*
 * Does anything vacuum by itself?  The settings have their defaults if the
 * library is not preloaded: there is no scheduler.
 */
static void
check_automatic(List **rows)
{
	if (RecoveryInProgress())
		return;
	if (pv_guc_scheduler && !is_running(PV_LAUNCHER_TYPE))
		pv_advise(rows, NULL, PV_CRITICAL, "scheduler_process",
				  "max_worker_processes",
				  "The scheduler is on, but its launcher is not running.",
				  psprintf("parvacuum.scheduler = on, max_worker_processes = %d",
						   max_worker_processes),
				  "Raise max_worker_processes, restart the server, and see its log.");
	if (!pgstat_track_counts)
		pv_advise(rows, NULL, PV_CRITICAL, "autovacuum", "track_counts",
				  "Nobody counts dead rows, so neither autovacuum nor the scheduler knows which table needs a vacuum.",
				  "track_counts = off", "Set track_counts to on and reload.");
	else if (!AutoVacuumingActive() && !pv_guc_scheduler)
		pv_advise(rows, NULL, PV_CRITICAL, "autovacuum", "autovacuum",
				  "Nothing vacuums tables by itself.",
				  "autovacuum = off, parvacuum.scheduler = off",
				  "Set autovacuum or parvacuum.scheduler to on and reload.");
	else if (!AutoVacuumingActive() && !pv_guc_enabled)
		pv_advise(rows, NULL, PV_WARNING, "autovacuum", "autovacuum",
				  "The scheduler vacuums only system catalogs and tables that opted in, and nothing vacuums the others before they are in danger of wraparound.",
				  "autovacuum = off, parvacuum.scheduler = on, parvacuum.enabled = off",
				  "Set autovacuum or parvacuum.enabled to on and reload.");
}

/*
 * Check dynamic shared memory, which has the dead TIDs of a vacuum with
 * workers.  If its file system is full, the vacuum goes on with less, and does
 * more index scans.
 */
static void
check_shared_memory(List **rows)
{
	uint64		work_mem =
		(uint64) Max(maintenance_work_mem, autovacuum_work_mem) * 1024;
	struct statvfs fs;
	uint64		total;

	if (dynamic_shared_memory_type != DSM_IMPL_POSIX ||
		statvfs(PV_SHM_DIR, &fs) != 0)
		return;
	total = (uint64) fs.f_blocks * fs.f_frsize;
	if (total + (uint64) min_dynamic_shared_memory * 1024 * 1024 >= work_mem)
		return;
	pv_advise(rows, NULL, PV_WARNING, "shared_memory", "maintenance_work_mem",
			  PV_SHM_DIR " is smaller than the memory that one vacuum with workers may use.",
			  psprintf(PV_SHM_DIR " has " UINT64_FORMAT " MB, " UINT64_FORMAT " MB free; maintenance_work_mem or autovacuum_work_mem is " UINT64_FORMAT " MB",
					   total / (1024 * 1024),
					   (uint64) fs.f_bavail * fs.f_frsize / (1024 * 1024),
					   work_mem / (1024 * 1024)),
			  "Enlarge " PV_SHM_DIR " (in a container, its option for the size of shared memory), or lower maintenance_work_mem.");
}

static void
check_ring(List **rows)
{
	int			most_kb = NBuffers / 8 * (BLCKSZ / 1024);
	int			ring_kb = Min(pv_guc_buffer_usage_limit, most_kb);

	if (pv_guc_buffer_usage_limit == 0 || ring_kb >= SMALL_RING_KB)
		return;
	pv_advise(rows, NULL, PV_ADVICE, "ring",
			  most_kb < SMALL_RING_KB ? "shared_buffers" :
			  "parvacuum.buffer_usage_limit",
			  "The ring of buffers is so small that a vacuum waits for the WAL to be flushed each time it reuses a buffer.",
			  psprintf("parvacuum.buffer_usage_limit is %d kB, an eighth of shared_buffers is %d kB",
					   pv_guc_buffer_usage_limit, most_kb),
			  most_kb < SMALL_RING_KB ? "Raise shared_buffers." :
			  "Raise parvacuum.buffer_usage_limit, or reset it to 16 MB.");
}

/* Return the setting that keeps such a blocker from coming back. */
static const char *
setting_for(const PvBlocker *blocker, const PvBlockerDetails *details)
{
	if (blocker->kind == PV_BLOCKER_FEEDBACK ||
		(blocker->kind == PV_BLOCKER_SLOT_XMIN && blocker->pid != 0))
		return "hot_standby_feedback";
	if (blocker->kind == PV_BLOCKER_PROCESS &&
		strcmp(details->kind, "idle in transaction") == 0)
		return "idle_in_transaction_session_timeout";
	return NULL;
}

/*
 * Check what has held back the horizon for long: in time, if that is known, or
 * in transactions.  While an old transaction runs, all snapshots are as old as
 * it is, so there is one row about it, not one about each session.
 */
static void
check_horizon(List **rows)
{
	TimestampTz now = GetCurrentTimestamp();
	TransactionId next = ReadNextTransactionId();
	PvBlocker  *blockers;
	int			n = pv_blockers_matter() ? pv_blockers_collect(&blockers) : 0;

	pgstat_clear_backend_activity_snapshot();
	for (int i = 0; i < n; i++)
	{
		int32		age = pv_blocker_cause(&blockers[i], blockers, n) ? 0 :
			(int32) (next - blockers[i].xmin);
		PvBlockerDetails details;
		TimestampTz since;
		TimestampTz not_before;
		TimestampTz held_for;
		StringInfoData who;
		bool		warn;

		CHECK_FOR_INTERRUPTS();
		pv_blocker_look_up(&blockers[i], InvalidOid, &details);
		if (details.gone)
			continue;

		/* a transaction may be older than the snapshot that it has now */
		since = not_before = 0;
		if (pv_history_exists())
			since = pv_history_known_since((int32) (next - blockers[i].xmin),
										   &not_before);
		if (details.since != 0)
			since = Max(details.since, not_before);
		held_for = since == 0 ? 0 : now - since;
		warn = age > autovacuum_freeze_max_age / 2 ||
			held_for >= TOO_LONG_HOLD;
		if (!warn && age <= autovacuum_freeze_max_age / 4 &&
			held_for < LONG_HOLD)
			continue;
		initStringInfo(&who);
		pv_blocker_describe(&who, &blockers[i], &details, now);
		pv_advise(rows, NULL, warn ? PV_WARNING : PV_ADVICE, "horizon",
				  setting_for(&blockers[i], &details),
				  blockers[i].kind == PV_BLOCKER_SLOT_CATALOG ?
				  "Dead rows of system catalogs cannot be removed, and these cannot be frozen, because logical decoding may need them." :
				  "Dead rows cannot be removed and tables cannot be frozen, because something may still see them.",
				  psprintf("%s; %d transactions old", who.data,
						   (int32) (next - blockers[i].xmin)),
				  "See the column \"release\" of parvacuum_blockers.");
	}
	if (pv_defer_cleanup_age() > 0 && !RecoveryInProgress())
		pv_advise(rows, NULL, PV_ADVICE, "horizon",
				  "vacuum_defer_cleanup_age",
				  "All dead rows are kept for longer than needed.",
				  psprintf("vacuum_defer_cleanup_age = %d",
						   pv_defer_cleanup_age()),
				  "Set vacuum_defer_cleanup_age to 0, and use hot_standby_feedback or a replication slot.");
}

/* Check all that concerns the server. */
static void
check_server(List **rows)
{
	if (check_preload(rows))
	{
		check_worker_processes(rows);
		check_without_scheduler(rows);
		check_ring(rows);
	}
	check_automatic(rows);
	check_minor(rows);
	check_versions(rows);
	check_shared_memory(rows);
	check_horizon(rows);
}

/* Order the rows: the most severe first. */
static int
compare_advice(const ListCell *a, const ListCell *b)
{
	const PvAdvice *x = lfirst(a);
	const PvAdvice *y = lfirst(b);
	int			order;

	if (x->severity != y->severity)
		return x->severity < y->severity ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order != 0 ? order : strcmp(x->subject, y->subject);
}

/* parvacuum_check(): return a row for each thing that should be changed. */
Datum
parvacuum_check(PG_FUNCTION_ARGS)
{
	static const char *const severities[] = {
		[PV_CRITICAL] = "critical",
		[PV_WARNING] = "warning",
		[PV_ADVICE] = "advice",
	};
	int			encoding = GetDatabaseEncoding();
	List	   *rows = NIL;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	/* what is running must be what is running now */
	pgstat_clear_backend_activity_snapshot();
	if (pv_may_see_all())
		check_server(&rows);

	/* nothing can be done about tables on a standby */
	if (!RecoveryInProgress())
	{
		if (pv_may_see_all())
		{
			check_members(&rows);
			pv_check_databases(&rows);
		}
		pv_check_tables(&rows);
	}
	list_sort(rows, compare_advice);

	foreach(lc, rows)
	{
		const PvAdvice *advice = lfirst(lc);
		PvRow		row = {0};

		pv_put_text(&row, severities[advice->severity], encoding);
		pv_put_text(&row, advice->name, encoding);
		pv_put_text(&row, advice->subject, encoding);
		pv_put_oid(&row, advice->relid);
		pv_put_oid(&row, advice->relid);
		pv_put_text(&row, advice->reason, encoding);
		pv_put_text(&row, advice->evidence, encoding);
		pv_put_text(&row, advice->setting, encoding);
		pv_put_text(&row, advice->advice, encoding);
		pv_return_row(fcinfo, &row);
	}
	return (Datum) 0;
}
