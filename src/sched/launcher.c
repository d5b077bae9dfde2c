/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that follows the configuration, and has databases vacuumed.
 *
 * It is one background worker, started at preload once recovery is over.  It is
 * connected to no database, only so far that it can read pg_database, and that
 * pg_stat_activity shows it.  It publishes the cost units per second that all of the
 * scheduler workers may use together, by the configuration as it is now.
 *
 * And while parvacuum.scheduler is on, it hires workers (sched/worker.c).  Each
 * database is looked at once in autovacuum_naptime, or less often if that takes
 * long: a worker is started there that queues what needs a vacuum and begins with
 * it.  More are added, one by one, as long as the queue lasts, up to
 * parvacuum.scheduler_workers in all databases together; the database that ranks
 * highest (sched/policy.c) gets the next.  Where all are at work and a database needs
 * one and has none, one of those that have several is called back, or the only one
 * of a database that needs it much less.
 *
 * All that others need is in sched/queue.c.  What is here, when each database is due,
 * is worked out again after a restart.  It sleeps until somebody wakes it, a worker
 * is to be added, or a database is due.
 *
 * Core: postmaster/autovacuum.c, AutoVacLauncherMain.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/logicallauncher.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/wait.h"
#include "sched/launcher.h"
#include "sched/queue.h"
#include "sched/worker.h"
#include "throttle/cost.h"

#define PV_LAUNCHER_TYPE		"parvacuum launcher"

/* Seconds until the postmaster starts it again, should it fail. */
#define RESTART_AFTER			5

/* A database that has a worker may get another one after so long: see plan.c. */
#define LOOK_AGAIN_MS			200

/* Where all places are taken it looks so often whether somebody is to leave. */
#define LOOK_FOR_PLACE_MS		1000

/* After so long a worker is started again in a database where one has ended before
 * it came, as it does where the database is gone; twice as long after the next one, and so
 * on, to the longest. */
#define START_AGAIN_AFTER_MS	1000
#define LONGEST_START_AGAIN_MS	60000

/* A database, by what we know of it */
typedef struct Database
{
	PvPlanDatabase known;		/* begins with the OID, which is the key */
	bool		present;		/* when pg_database was last read */
	int			nfailures;		/* workers that have not come, one after the other */
} Database;

/* A worker that we have started and that has not come yet */
typedef struct Started
{
	BackgroundWorkerHandle *handle; /* NULL: none */
	uint32		token;
	Oid			database;
	TimestampTz started_at;
	bool		ended;			/* by us */
} Started;

static HTAB *databases = NULL;
static TimestampTz databases_read_at = 0;
static Started started[PV_MAX_SCHED_WORKERS];

/* No slot was free when a worker was to be started; told once */
static bool no_slot = false;


/* ----------------------------------------------------------------
 *		The configuration
 * ----------------------------------------------------------------
 */

/* Tells workers what the configuration allows them now. */
static void
publish_rate(void)
{
	PvCostBudget budget;
	int64		rate;

	pv_cost_of_autovacuum(&budget);
	if (pv_guc_scheduler_max_cost >= 0)
		rate = pv_guc_scheduler_max_cost;
	else
		rate = budget.delay > 0 ? (int64) (budget.limit * 1000 / budget.delay) : 0;
	pv_cost_set_rate(rate);
}

/*
 * Where nothing is counted, only ages say what needs a vacuum; said once.
 */
static void
report_counts(void)
{
	static bool told = false;
	bool		missing = pv_guc_scheduler && !pgstat_track_counts;

	if (missing && !told)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("parvacuum's scheduler vacuums tables only for their age"),
				 errdetail("Dead rows and changes are not counted."),
				 errhint("Enable the \"track_counts\" setting.")));
	told = missing;
}

/*
 * The processes that the scheduler can have by its settings, the launcher left out.
 */
static int
scheduler_processes(void)
{
	return pv_guc_scheduler ?
		Min(pv_most_workers(pv_guc_scheduler_workers), PV_MAX_SCHED_WORKERS) : 0;
}

/*
 * The least that max_worker_processes must be so that nobody starves by the settings as
 * they are: all come out of it, who comes first gets a place, and the server keeps none
 * for anybody.  Core's logical replication launcher and this one are there all the
 * time.  Parallel queries may have max_parallel_workers of them, our own parallel workers
 * included.  The scheduler can have more workers than its setting says, where large
 * tables take all others (pv_most_workers).  Other extensions and subscriptions,
 * of which we do not know, come on top.
 */
static int
processes_wanted(void)
{
	int			n = 1 + (max_logical_replication_workers > 0);

	n += max_parallel_workers;
	n += pv_guc_max_runs;
	n += scheduler_processes();
	return n;
}

/*
 * Where there are fewer processes than that, say so: once, and again when a reload
 * has changed the number.
 */
static void
report_processes(void)
{
	static int	told = 0;
	int			wanted = processes_wanted();

	if (wanted <= max_worker_processes)
		told = 0;
	else if (wanted != told)
	{
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("\"max_worker_processes\" is too low for parvacuum's settings"),
				 errdetail("It is %d, and should be %d at least: for parallel workers (\"max_parallel_workers\" is %d), runs (\"parvacuum.max_runs\" is %d), the scheduler (%d), and launchers.",
						   max_worker_processes, wanted, max_parallel_workers, pv_guc_max_runs,
						   scheduler_processes()),
				 errhint("Increase \"max_worker_processes\" and restart the server, or lower the others.")));
		told = wanted;
	}
}

/*
 * Has the postmaster start it.  Only while it loads libraries.
 *
 * Where there is no place for it the postmaster says what all that needs, since nobody
 * else will; core itself only logs that there are too many background workers.
 *
 * The launcher alone has a place that is kept for it.  Dynamic background workers, as
 * workers are, cannot have one.  A static worker, registered here, could wait
 * for a database and run there, but it cannot leave a database without exiting, and one
 * that exits keeps its place only if it exits with an error: a line in the
 * log for each pass over a database.  It would be there whether the
 * scheduler is on, which a reload decides, or not.  So the places of others are
 * bounded instead, by max_parallel_workers and parvacuum.max_runs, and it is said when
 * these sums do not fit.
 */
void
pv_launcher_init(void)
{
	BackgroundWorker worker;

	Assert(process_shared_preload_libraries_in_progress);

	if (IsBinaryUpgrade || !IsPostmasterEnvironment)
		return;

	pv_process_describe(&worker, PV_LAUNCHER_TYPE, "parvacuum_launcher_main");
	worker.bgw_restart_time = RESTART_AFTER;
	RegisterBackgroundWorker(&worker);

	if (!pv_is_registered(PV_LAUNCHER_TYPE))
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("parvacuum's launcher cannot be started"),
				 errdetail("\"max_worker_processes\" is %d, and should be %d at least for the settings as they are.  Without the launcher there is no scheduler.",
						   max_worker_processes, processes_wanted()),
				 errhint("Increase \"max_worker_processes\" and restart the server.")));
}


/* ----------------------------------------------------------------
 *		Databases
 * ----------------------------------------------------------------
 */

static Database *
find_database(Oid oid)
{
	return hash_search(databases, &oid, HASH_FIND, NULL);
}

static void
view_queues(PvQueueView *view)
{
	pv_queue_view(view, pv_max_large(pv_guc_scheduler_workers));
}

static double
age_share(uint32 then, uint32 next, int max_age)
{
	int32		age = (int32) (next - then);

	return age > 0 ? age / (PV_AGE_SHARE * Max(max_age, 1)) : 0;
}

static void
note_database(Form_pg_database form)
{
	bool		known;
	Database   *database = hash_search(databases, &form->oid, HASH_ENTER, &known);

	if (!known)
	{
		database->known.due = GetCurrentTimestamp();
		database->known.hired_at = database->known.not_before = 0;
		database->known.failed = false;
		database->nfailures = 0;
	}
	database->present = true;
	database->known.counted = pgstat_fetch_stat_dbentry(form->oid) != NULL;
	database->known.age =
		Max(age_share(form->datfrozenxid, ReadNextTransactionId(),
					  autovacuum_freeze_max_age),
			age_share(form->datminmxid, ReadNextMultiXactId(),
					  MultiXactMemberFreezeThreshold()));
}

/* What is not there any more is forgotten, here and with its queue. */
static void
forget_dropped(void)
{
	PvQueueView view;
	HASH_SEQ_STATUS status;
	Database   *database;

	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
	{
		if (!database->present)
			(void) hash_search(databases, &database->known.oid, HASH_REMOVE, NULL);
		else
			database->present = false;
	}

	view_queues(&view);
	for (int i = 0; i < view.n; i++)
	{
		if (find_database(view.summaries[i].database) == NULL)
			pv_queue_drop_database(view.summaries[i].database);
	}
}

/*
 * Read pg_database.  One that a failed DROP DATABASE has left invalid cannot be
 * connected to.
 */
static void
read_databases(void)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (!database_is_invalid_form(form))
			note_database(form);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	forget_dropped();
	CommitTransactionCommand();
	databases_read_at = GetCurrentTimestamp();
}


/* ----------------------------------------------------------------
 *		Workers
 * ----------------------------------------------------------------
 */

/*
 * A worker could not come.  See whether the database is still there, and do not
 * try again at once.
 */
static void
note_failure(Oid oid)
{
	Database   *database = find_database(oid);

	if (database != NULL)
	{
		int			ms = START_AGAIN_AFTER_MS;

		for (int i = 0; i < database->nfailures && ms < LONGEST_START_AGAIN_MS; i++)
			ms *= 2;
		database->nfailures++;
		database->known.failed = true;
		database->known.not_before =
			TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
										Min(ms, LONGEST_START_AGAIN_MS));
	}
	databases_read_at = 0;
}

/*
 * A worker has come.
 */
static void
note_success(Oid oid)
{
	Database   *database = find_database(oid);

	if (database != NULL)
	{
		database->nfailures = 0;
		database->known.failed = false;
	}
}

/*
 * End a worker that has not come for long.  It waits for the lock of its database, which a
 * session holds that renames it, for instance; meanwhile it has a place of the server's,
 * which its owner could take from all others with a few databases.
 */
static void
end_late(Started *it, TimestampTz now)
{
	if (it->ended || !TimestampDifferenceExceeds(it->started_at, now, PV_LATE_AFTER_MS))
		return;
	TerminateBackgroundWorker(it->handle);
	it->ended = true;
}

/*
 * Workers that have ended before they came give their places back.
 */
static void
look_after_started(void)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		pid_t		pid;
		bool		has_come;

		if (started[i].handle == NULL)
			continue;
		has_come = pv_queue_worker_started(i, started[i].token);
		if (!has_come && GetBackgroundWorkerPid(started[i].handle, &pid) == BGWH_STOPPED)
		{
			pv_queue_dismiss(i, started[i].token);
			note_failure(started[i].database);
			has_come = true;
		}
		else if (has_come)
			note_success(started[i].database);
		else
			end_late(&started[i], GetCurrentTimestamp());
		if (has_come)
		{
			pfree(started[i].handle);
			started[i].handle = NULL;
		}
	}
}

/* Has a worker been started that has not come yet? */
static bool
is_any_to_come(void)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		if (started[i].handle != NULL)
			return true;
	}
	return false;
}

/*
 * The worker that was to be started has no place in the server.
 */
static void
report_no_slot(void)
{
	if (!no_slot)
		ereport(LOG,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("parvacuum's scheduler could not start a process"),
				 errdetail("All background worker slots are in use."),
				 errhint("You may need to increase max_worker_processes.")));
}

/*
 * Start a worker for a database.  False if there is no place for it, nor then for
 * another.
 */
static bool
hire(Database *database, bool to_scan, bool takes_queue)
{
	uint32		token;
	int			worker = pv_queue_hire(database->known.oid, to_scan, takes_queue, &token);
	MemoryContext old_context;
	bool		good;

	if (worker < 0)
		return false;
	if (started[worker].handle != NULL)
		pfree(started[worker].handle);
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	good = pv_sched_start(database->known.oid, worker, token, &started[worker].handle);
	MemoryContextSwitchTo(old_context);
	started[worker].token = token;
	started[worker].database = database->known.oid;
	started[worker].started_at = GetCurrentTimestamp();
	started[worker].ended = false;

	if (!good)
	{
		started[worker].handle = NULL;
		pv_queue_dismiss(worker, token);
		pg_atomic_fetch_add_u64(&pv_queue_counters()->no_process, 1);
		report_no_slot();
	}
	no_slot = !good;
	return good;
}

/*
 * Where a pass takes long, the next one is due later.
 */
static void
let_rest(const PvQueueView *view)
{
	for (int i = 0; i < view->n; i++)
	{
		const PvQueueSummary *summary = &view->summaries[i];
		Database   *database = find_database(summary->database);

		if (database != NULL)
			database->known.due = Max(database->known.due, summary->rests_until);
	}
}

static int
compare_oids(const void *a, const void *b)
{
	Oid			left = ((const PvPlanDatabase *) a)->oid;
	Oid			right = ((const PvPlanDatabase *) b)->oid;

	return left == right ? 0 : left < right ? -1 : 1;
}

static int64
longest_at_small(void)
{
	return pv_longest_at_small(pv_cost_rate(), pv_guc_scheduler_workers);
}

/*
 * What there is now.  The list of databases is allocated.
 */
static void
take_snapshot(PvSnapshot *snapshot, TimestampTz now, int naptime_ms)
{
	HASH_SEQ_STATUS status;
	Database   *database;
	PvPlanDatabase *list;
	int			n = 0;

	snapshot->now = now;
	snapshot->naptime = naptime_ms * INT64CONST(1000);
	snapshot->nworkers = pv_guc_scheduler_workers;
	snapshot->longest_at_small = longest_at_small();
	view_queues(&snapshot->view);
	let_rest(&snapshot->view);

	list = palloc(Max(hash_get_num_entries(databases), 1) * sizeof(PvPlanDatabase));
	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
		list[n++] = database->known;
	qsort(list, n, sizeof(PvPlanDatabase), compare_oids);
	snapshot->databases = list;
	snapshot->ndatabases = n;
}

/*
 * Carry out one action.  False if there is no place for a worker, nor then for
 * another.
 */
static bool
carry_out(const PvAction *action, TimestampTz now, int naptime_ms)
{
	Database   *database = find_database(action->database);
	TimestampTz next = TimestampTzPlusMilliseconds(now, naptime_ms);

	switch (action->kind)
	{
		case PV_ACTION_ASK_TO_LEAVE:
			pv_queue_call_back(action->database);
			break;
		case PV_ACTION_REQUEST_SCAN:
			if (pv_queue_request_scan(action->database))
				database->known.due = next;
			break;
		case PV_ACTION_CANCEL_LONGEST:
			pv_queue_cancel_longest(action->database, now - longest_at_small());
			break;
		case PV_ACTION_LAUNCH:
			if (!hire(database, action->to_scan, action->takes_queue))
				return false;
			database->known.hired_at = now;
			if (action->to_scan)
				database->known.due = next;
			break;
	}
	return true;
}

/*
 * Start workers where they are needed, and have others leave.  False if a database
 * needs one and there is no place for it.
 */
static bool
distribute_workers(TimestampTz now, int naptime_ms)
{
	PvSnapshot	snapshot;
	PvPlan		plan;
	bool		good = true;

	take_snapshot(&snapshot, now, naptime_ms);
	pv_plan(&snapshot, &plan);
	for (int i = 0; i < plan.n && good; i++)
		good = carry_out(&plan.actions[i], now, naptime_ms);
	pfree(unconstify(PvPlanDatabase *, snapshot.databases));
	return good && plan.satisfied;
}

/*
 * Has something been queued for a database that is newer than our list?
 */
static bool
knows_all_queues(void)
{
	PvQueueView view;

	view_queues(&view);
	for (int i = 0; i < view.n; i++)
	{
		if (view.summaries[i].nqueued > 0 &&
			find_database(view.summaries[i].database) == NULL)
			return false;
	}
	return true;
}

/*
 * Nothing is due later than one naptime from now, though it was longer before, or
 * the clock was put back, unless it rests.
 */
static void
bring_forward(TimestampTz latest)
{
	HASH_SEQ_STATUS status;
	Database   *database;

	databases_read_at = Min(databases_read_at, latest);
	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
	{
		database->known.due = Min(database->known.due, latest);
		database->known.hired_at = Min(database->known.hired_at, latest);
		database->known.not_before = Min(database->known.not_before, latest);
	}
}

/*
 * Do what is to be done now.  Returns the milliseconds after which to look again,
 * if nobody wakes us before.
 */
static long
schedule(void)
{
	TimestampTz now = GetCurrentTimestamp();
	int			naptime_ms = autovacuum_naptime * 1000;
	TimestampTz next;
	TimestampTz soon;
	HASH_SEQ_STATUS status;
	Database   *database;

	look_after_started();
	bring_forward(TimestampTzPlusMilliseconds(now, naptime_ms));
	if (TimestampDifferenceExceeds(databases_read_at, now, naptime_ms) ||
		!knows_all_queues())
	{
		read_databases();
		now = GetCurrentTimestamp();	/* what is new there is due already */
	}
	next = TimestampTzPlusMilliseconds(now, naptime_ms);
	soon = TimestampTzPlusMilliseconds(now, distribute_workers(now, naptime_ms) ?
									   LOOK_AGAIN_MS : LOOK_FOR_PLACE_MS);

	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
	{
		if (database->known.counted || database->known.age > 1)
			next = Min(next, Max(database->known.due, soon));
	}
	if (pv_queue_is_busy(pv_max_large(pv_guc_scheduler_workers)))
		next = Min(next, soon);
	if (is_any_to_come())
		next = Min(next, TimestampTzPlusMilliseconds(now, LOOK_FOR_PLACE_MS));
	return TimestampDifferenceMilliseconds(now, next);
}


/* ----------------------------------------------------------------
 *		The launcher
 * ----------------------------------------------------------------
 */

static void
begin(void)
{
	HASHCTL		info = {.keysize = sizeof(Oid),.entrysize = sizeof(Database)};

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	databases = hash_create("databases", 64, &info, HASH_ELEM | HASH_BLOBS);
	SetConfigOption("stats_fetch_consistency", "none", PGC_SUSET, PGC_S_OVERRIDE);
	pv_queue_launcher_begin();
	publish_rate();
	report_counts();
	report_processes();
}

/*
 * The launcher.  Handlers that only set flags are there before any signal can
 * arrive; the one that background workers begin with raises FATAL at once.
 */
void
parvacuum_launcher_main(Datum main_arg)
{
	begin();
	for (;;)
	{
		long		timeout = pv_guc_scheduler ? schedule() : -1;
		int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

		/* whether the scheduler is on or not */
		if (pv_queue_end_unresponsive())
			timeout = timeout < 0 ? LOOK_FOR_PLACE_MS : Min(timeout, LOOK_FOR_PLACE_MS);

		(void) WaitLatch(MyLatch, events | (timeout >= 0 ? WL_TIMEOUT : 0), timeout,
						 pv_wait_event(PV_EVENT_LAUNCHER));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();

		/* not 0, or the postmaster would forget us if somebody just ended us */
		if (ShutdownRequestPending)
			proc_exit(1);

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			publish_rate();
			report_counts();
			report_processes();
		}
	}
}
