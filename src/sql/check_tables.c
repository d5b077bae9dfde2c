/*-------------------------------------------------------------------------
 *
 * check_tables.c
 *	  The rows of parvacuum_check() about tables and databases, and
 *	  parvacuum_wraparound().
 *
 * All numbers are those of pg_class, of the cumulative statistics and of the
 * settings, so that no table is opened or locked.  Whether a table needs a
 * vacuum is decided by the rules of autovacuum, as the scheduler does it
 * (sched/candidates.c).  How large tables and indexes are is checked in
 * sql/check_space.c.  The date of wraparound is computed from the rate at which
 * transaction IDs were used (stats/history.c).  It is unknown if the library is
 * not preloaded.
 *
 * Sessions run this, with AccessShareLock on catalogs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>
#include <sys/stat.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_database.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "entry/failures.h"
#include "entry/options.h"
#include "sched/table.h"
#include "sql/call.h"
#include "sql/check.h"
#include "stats/history.h"
#include "throttle/cost.h"

PG_FUNCTION_INFO_V1(parvacuum_wraparound);

/* The server assigns none of the last XIDs.  Core: SetTransactionIdLimit. */
#define XIDS_KEPT_BACK			3000000

/*
 * How far a table's age may exceed the one at which it is vacuumed for it, as
 * a share of the way to the failsafe, until a row says so
 */
#define LATE_SHARE				0.25

/* Dead rows, as a multiple of the threshold, and hours since the last vacuum */
#define NEGLECTED_SCORE			2.0
#define NEGLECTED_MS			(24 * 60 * 60 * 1000)

/* Naptimes that a table may be due before that counts as neglect */
#define FIRST_NAPTIMES			3

/* Vacuums in a row that were not completed, until a row says so */
#define FAILURES				3

/* Days that the vacuum of a whole table may take because of cost limits */
#define LONG_VACUUM_DAYS		1.0
#define TOO_LONG_VACUUM_DAYS	7.0

/* Bytes of the store of dead items for each item, and for each block */
#define STORE_BYTES_PER_ITEM	1.5
#define STORE_BYTES_PER_BLOCK	6.0
#define STORE_MOST_PER_BLOCK	48.0

/* A table that is being checked */
typedef struct Checked
{
	Form_pg_class form;
	const char *name;
	const char *owner;			/* the table that storage parameters are of */
	bool		of_toast;		/* and they are those of its TOAST table */
	AutoVacOpts own;
	PvTableState state;
	PvThresholds thresholds;
	double		due_from;		/* dead rows */
	PvOptions	options;		/* of the table, or a TOAST table's table */
	bool		opted_in;
} Checked;

static int64
xids_left(int64 age)
{
	return Max((int64) (MaxTransactionId >> 1) - XIDS_KEPT_BACK - age, 0);
}

/* Return when an age will be too great; 0 if that is not known. */
static TimestampTz
date_of(int64 age, double rate)
{
	double		usecs = rate <= 0 ? 0 : xids_left(age) / rate * USECS_PER_SEC;
	TimestampTz now = GetCurrentTimestamp();

	return rate <= 0 || usecs >= END_TIMESTAMP - now ? 0 :
		now + (TimestampTz) usecs;
}

/* Return that date as text to follow an age; "" if it is not known. */
static const char *
wraparound_text(int64 age)
{
	double		seconds;
	double		rate = pv_history_xid_rate(&seconds);
	TimestampTz date = date_of(age, rate);

	if (date == 0)
		return "";
	return psprintf("; at %.1f transactions per second, as in the last %.1f hours, they run out about %s (an estimate)",
					rate, seconds / SECS_PER_HOUR, timestamptz_to_str(date));
}

/*
 * Add a row if that age, of transactions or of multixacts, is too great.
 * Return it, or NULL.
 */
static PvAdvice *
check_age(List **rows, Form_pg_class form, bool multixact, int64 age,
		  int64 max_age, int64 failsafe, const char *column,
		  const char *reason, const char *advice)
{
	const char *setting = multixact ? "autovacuum_multixact_freeze_max_age" :
		"autovacuum_freeze_max_age";

	if (age <= max_age + (failsafe - max_age) * LATE_SHARE)
		return NULL;
	return pv_advise(rows, form, age >= failsafe ? PV_CRITICAL : PV_WARNING,
					 "wraparound", setting, reason,
					 psprintf("%s is " INT64_FORMAT " %s old, %s is " INT64_FORMAT ", the failsafe begins at " INT64_FORMAT "%s",
							  column, age,
							  multixact ? "multixacts" : "transactions",
							  setting, max_age, failsafe,
							  multixact ? "" : wraparound_text(age)),
					 advice);
}

static void
check_ages(List **rows, const Checked *table)
{
	const PvThresholds *limits = &table->thresholds;
	const char *advice =
		psprintf(table->form->relpersistence == RELPERSISTENCE_TEMP ?
				 "Only its session can vacuum this temporary table: end that session, or DROP TABLE %s." :
				 "See parvacuum_blockers for what is as old, then VACUUM %s.",
				 table->name);

	check_age(rows, table->form, false, table->state.xid_age,
			  limits->danger_age, limits->failsafe_age, "relfrozenxid",
			  "The table has not been frozen for so long that transaction IDs may run out.",
			  advice);
	if (table->form->relpersistence != RELPERSISTENCE_TEMP)
		advice = psprintf("End sessions whose xact_start in pg_stat_activity is old, in all databases, and prepared transactions, then VACUUM %s.",
						  table->name);
	check_age(rows, table->form, true, table->state.mxid_age,
			  limits->multixact_danger_age, limits->multixact_failsafe_age,
			  "relminmxid",
			  "The table has not been frozen for so long that multixact IDs may run out.",
			  advice);
}

/*
 * Check an age of another database.  Core: access/heap, the failsafe of a
 * vacuum.
 */
static void
check_database(List **rows, Form_pg_database form, bool multixact, int32 age,
			   int max_age, int failsafe_age, const char *column)
{
	int64		failsafe = Max(failsafe_age, max_age * 1.05);
	PvAdvice   *row =
		check_age(rows, NULL, multixact, age, max_age, failsafe, column,
				  "A table of the database has not been frozen for so long that transaction IDs or multixact IDs may run out.",
				  form->datallowconn ?
				  "Connect to that database and call parvacuum_check() there, or VACUUM its tables." :
				  "Allow connections to that database and VACUUM its tables.");

	if (row != NULL)
		row->subject = psprintf("database %s",
								quote_identifier(NameStr(form->datname)));
}

/* Check the ages of the other databases. */
void
pv_check_databases(List **rows)
{
	Relation	pg_database = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(pg_database, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (form->oid == MyDatabaseId || database_is_invalid_form(form))
			continue;
		check_database(rows, form, false,
					   (int32) (ReadNextTransactionId() - form->datfrozenxid),
					   autovacuum_freeze_max_age, vacuum_failsafe_age,
					   "datfrozenxid");
		check_database(rows, form, true,
					   (int32) (ReadNextMultiXactId() - form->datminmxid),
					   autovacuum_multixact_freeze_max_age,
					   vacuum_multixact_failsafe_age, "datminmxid");
	}
	table_endscan(scan);
	table_close(pg_database, AccessShareLock);
}

/*
 * Return when the database was created; 0 if that is not known.  Its copy of
 * this file is never changed.
 */
static TimestampTz
database_created(void)
{
	struct stat st;
	char	   *path = psprintf("%s/PG_VERSION", DatabasePath);

	return stat(path, &st) == 0 ? time_t_to_timestamptz(st.st_mtime) : 0;
}

/*
 * Could the table have had a vacuum by now?  Not in the first naptimes of the
 * server, the database and the table.  The age of the table's rows says since
 * when it has existed at least, if transaction IDs were sampled.
 */
static bool
had_its_chance(const Checked *table)
{
	TimestampTz since = Max(PgStartTime, database_created());

	if (pv_history_exists())
	{
		TimestampTz not_before;
		TimestampTz known = pv_history_known_since(table->state.xid_age,
												   &not_before);

		if (known == 0)
			return false;
		since = Max(since, known);
	}
	return GetCurrentTimestamp() - since >
		FIRST_NAPTIMES * autovacuum_naptime * USECS_PER_SEC;
}

/* Does autovacuum or the scheduler vacuum the table by itself? */
static bool
is_served(const Checked *table)
{
	return AutoVacuumingActive() ||
		(pv_guc_scheduler &&
		 pv_need_is_served(table->form->oid, table->opted_in));
}

/* Return what the table waits for in the queue of the scheduler. */
static PvWaitReason
waits_for(Oid relid)
{
	const PvQueueEntry *entry;
	PvWaitReason reason = PV_WAIT_NONE;

	if (!pv_shmem_attached())
		return PV_WAIT_NONE;
	entry = pv_queue_find_table(pv_queue_lock(LW_SHARED), MyDatabaseId, relid);
	if (entry != NULL && entry->item.state == PV_ITEM_WAITING)
		reason = entry->item.reason;
	else if (entry != NULL && entry->item.maybe_held)
		reason = entry->item.waited_for;
	pv_queue_unlock();
	return reason;
}

/*
 * Is the table due for a vacuum, and has not had one for long?  One that has
 * never been vacuumed may have become due just now, so it must have twice as
 * many dead rows as make it due.
 */
static void
check_neglect(List **rows, const Checked *table)
{
	const char *setting = "autovacuum_max_workers";
	const char *reason = "The table has been due for a vacuum for long, and does not get one.";
	const char *advice = "See the log for vacuums that were canceled or skipped, and raise the cost limit or the number of autovacuum workers.";
	PvWaitReason waits;
	TimestampTz last;

	if (table->state.dead < table->due_from * NEGLECTED_SCORE ||
		table->state.dead < 1)
		return;
	last = pv_last_vacuum(table->form->oid);
	if (last != 0 ?
		!TimestampDifferenceExceeds(last, GetCurrentTimestamp(),
									NEGLECTED_MS) :
		!had_its_chance(table))
		return;
	if (pv_is_being_vacuumed(table->form->oid))
		return;
	waits = waits_for(table->form->oid);
	if (waits == PV_WAIT_HORIZON)
	{
		setting = NULL;
		reason = "The table has been due for a vacuum for long, which would be useless, because something may still see its dead rows.";
		advice = "See the column \"release\" of parvacuum_blockers.";
	}
	else if (!table->thresholds.enabled)
	{
		setting = "autovacuum_enabled";
		reason = "The table is due for a vacuum, and autovacuum is off for it.";
		advice = psprintf("ALTER TABLE %s RESET (%sautovacuum_enabled), or VACUUM it regularly.",
						  table->owner, table->of_toast ? "toast." : "");
	}
	else if (!is_served(table))
	{
		setting = "autovacuum";
		advice = "See the rows \"autovacuum\".";
	}
	else if (waits == PV_WAIT_WINDOW)
	{
		setting = "parvacuum.window";
		reason = "The table has been due for a vacuum for long, and waits for its window.";
		advice = "Widen the window, lower parvacuum.urgent_score, or VACUUM the table.";
	}
	pv_advise(rows, table->form, PV_WARNING, "not_vacuumed", setting, reason,
			  psprintf("%.0f dead rows, due from %.0f on; %s%s",
					   table->state.dead, table->due_from,
					   last == 0 ? "no vacuum known" : "last vacuumed ",
					   last == 0 ? "" : timestamptz_to_str(last)), advice);
}

/*
 * Say who was in the way of the last vacuum.  Statements are in the history
 * only, because reports with the evidence are sent to others.
 */
static const char *
session_text(const PvHistoryRun *run)
{
	const char *role = !OidIsValid(run->lock_role) ? NULL :
		GetUserNameFromId(run->lock_role, true);

	if (run->lock_pid == 0)
		return run->lock_query[0] == '\0' ? "" :
			"; because of a prepared transaction";
	return psprintf("; because of PID %d%s", run->lock_pid,
					role == NULL ? "" : psprintf(", role \"%s\"", role));
}

/*
 * Were the last vacuums of the table, one after the other, not completed?  One
 * by somebody who does not appear in the history may have been.
 */
static void
check_failures(List **rows, const Checked *table)
{
	static const struct
	{
		const char *name;
		const char *reason;
		const char *verb;
		const char *advice;
	}			kinds[] = {
		[PV_OUTCOME_CANCELED] = {"canceled",
			"The vacuums of the table are canceled, so its dead rows stay.",
			"not completed, the last one was canceled",
		"See lock_query in parvacuum_history.  Have sessions take strong locks of the table less often, or vacuum it in a window without them.  VACUUM by a session does not give way."},
		[PV_OUTCOME_ERROR] = {"failing",
			"The vacuums of the table fail, so its dead rows stay.",
			"not completed, the last one failed",
		"Correct what the error names.  An index that cannot be vacuumed can be rebuilt by REINDEX, or dropped."},
		[PV_OUTCOME_TERMINATED] = {"canceled",
			"The vacuums of the table are terminated, so its dead rows stay.",
			"not completed, the last one was terminated",
		"Find out who terminates these processes: an administrator, a script against long transactions, or the system for want of memory."},
		[PV_OUTCOME_SKIPPED] = {"skipped",
			"The table is always locked when it is to be vacuumed, so its dead rows stay.",
			"not completed, the last one was skipped",
		"See lock_query in parvacuum_history.  End the session that has the lock, or have it lock the table for a shorter time."}
	};
	PvTableTotals totals;
	PvHistoryRun last;
	const char *error;
	const char *session;
	const PvThresholds *limits = &table->thresholds;
	bool		in_danger;
	bool		failed;

	failed = pv_records_failures(pv_history_lock(), MyDatabaseId,
								 table->form->oid, &totals, &last);
	pv_history_unlock();
	if (!failed || totals.failed < FAILURES)
		return;
	if (last.id != 0 && pv_last_vacuum(table->form->oid) > last.end_time)
		return;
	error = last.error[0] == '\0' ? "" :
		psprintf(": %s", pv_readable(last.error, last.encoding));
	in_danger = table->state.xid_age > limits->danger_age ||
		table->state.mxid_age > limits->multixact_danger_age;
	if (table->state.pages == 0 && table->state.dead < 1 &&
		table->state.inserted < 1 && !in_danger)
		return;					/* it was truncated */
	session = session_text(&last);
	pv_advise(rows, table->form, in_danger ? PV_CRITICAL : PV_WARNING,
			  kinds[totals.last_outcome].name, NULL,
			  kinds[totals.last_outcome].reason,
			  psprintf(INT64_FORMAT " vacuums in a row were %s%s%s%s",
					   totals.failed, kinds[totals.last_outcome].verb,
					   last.id == 0 ? "" :
					   psprintf(" at %s",
								timestamptz_to_str(last.end_time)),
					   error, session),
			  totals.last_outcome == PV_OUTCOME_CANCELED && *session == '\0' ?
			  "No session waited for the table: find out who cancels its vacuums, or which statement_timeout does." :
			  kinds[totals.last_outcome].advice);
}

/* Does the scheduler's ANALYZE of the table fail? */
static void
check_analyze(List **rows, const Checked *table)
{
	int			n = !pv_shmem_attached() ? 0 :
		pv_failures_lately(table->form->oid, table->form->relowner, true,
						   false);

	if (n >= FAILURES)
		pv_advise(rows, table->form, PV_WARNING, "failing", NULL,
				  "ANALYZE of the table fails, so its statistics are old.",
				  psprintf("%d in a row were not completed", n),
				  "See the errors in parvacuum_history.  Most come from functions in indexes or in extended statistics.");
}

/* Has the table options of its own that have no effect? */
static void
check_options(List **rows, const Checked *table)
{
	const PvOptions *options = &table->options;

	if (!pv_shmem_attached() ||
		table->form->relkind == RELKIND_TOASTVALUE)
		return;
	for (PvOption option = 0; option < PV_NUM_OPTIONS; option++)
	{
		bool		by_engine = option == PV_OPTION_WORKERS ||
			option == PV_OPTION_BUFFER_USAGE_LIMIT;

		if (option == PV_OPTION_ENABLED ||
			options->origin[option] != PV_ORIGIN_TABLE ||
			(option == PV_OPTION_SWEEP && options->value[option] <= 0) ||
			(table->opted_in && (by_engine || pv_guc_scheduler)))
			continue;
		pv_advise(rows, table->form, PV_ADVICE, "no_effect",
				  table->opted_in ? "parvacuum.scheduler" :
				  "parvacuum.enabled",
				  by_engine ?
				  "The table has an option that only runs by parvacuum's functions follow." :
				  "The table has an option that has no effect.",
				  psprintf("parvacuum.%s is set, parvacuum.%s is off",
						   pv_option_name(option),
						   table->opted_in ? "scheduler" : "enabled"),
				  table->opted_in ?
				  "Set parvacuum.scheduler to on: autovacuum does not follow this option." :
				  psprintf("ALTER TABLE %s SET (parvacuum.enabled), or RESET (parvacuum.%s) if no run is to follow it.",
						   table->name, pv_option_name(option)));
	}
}

/*
 * Does the store of dead items have room for those that will be there when the
 * table is due?  If not, each index is scanned several times.  Core needs six
 * bytes for each item before PG 17, and as much as the engine since.
 */
static void
check_memory(List **rows, const Checked *table)
{
	double		items = Max(table->state.dead, table->due_from);
	double		limit = 1024.0 * (autovacuum_work_mem >= 0 ?
								  autovacuum_work_mem : maintenance_work_mem);
	double		blocks = Min(items, table->state.pages);
	double		bytes;

	if (!table->form->relhasindex)
		return;
	if (table->opted_in || PV_HAS_TIDSTORE)
		bytes = Min(items * STORE_BYTES_PER_ITEM +
					blocks * STORE_BYTES_PER_BLOCK,
					blocks * STORE_MOST_PER_BLOCK);
	else
	{
		bytes = items * sizeof(ItemPointerData);
		limit = Min(limit, MaxAllocSize);
	}
	if (bytes <= limit)
		return;
	pv_advise(rows, table->form, PV_ADVICE, "maintenance_memory",
			  autovacuum_work_mem >= 0 ? "autovacuum_work_mem" :
			  "maintenance_work_mem",
			  "The dead rows of this table do not fit into the memory for them, so its indexes are scanned several times.",
			  psprintf("%.0f dead rows when a vacuum is due take %.0f MB, the limit is %.0f MB: %.0f index scans",
					   items, bytes / (1024 * 1024), limit / (1024 * 1024),
					   ceil(bytes / limit)),
			  psprintf("Set it to %.0f MB or more, or let vacuums come earlier (autovacuum_vacuum_scale_factor).",
					   ceil(bytes / (1024 * 1024))));
}

/*
 * Check how long it takes to freeze the whole table within the cost limits, if
 * each page is read and changed.
 */
static void
check_cost(List **rows, const Checked *table)
{
	const char *setting = "autovacuum_vacuum_cost_limit";
	PvCostBudget budget;
	bool		has_limits = pv_cost_of_table(&table->own, &budget);
	double		rate = budget.delay > 0 ?
		budget.limit * 1000.0 / budget.delay : 0;	/* units per second */
	double		days;

	if (table->opted_in && pv_guc_scheduler && !has_limits)
	{
		setting = "parvacuum.scheduler_max_cost";
		if (pv_guc_scheduler_max_cost >= 0)
			rate = pv_guc_scheduler_max_cost;
	}
	if (rate <= 0)
		return;
	days = (double) table->state.pages *
		(VacuumCostPageMiss + VacuumCostPageDirty) / rate / (24 * 60 * 60);
	if (days <= LONG_VACUUM_DAYS)
		return;
	pv_advise(rows, table->form,
			  days > TOO_LONG_VACUUM_DAYS ? PV_WARNING : PV_ADVICE,
			  "cost_limits", setting,
			  "Within the cost limits, the vacuum that freezes this table takes days.",
			  psprintf("%u pages at %d cost units each, %.0f cost units per second: %.1f days",
					   table->state.pages,
					   VacuumCostPageMiss + VacuumCostPageDirty, rate,
					   days),
			  "Raise the cost limit, for all tables or as a storage parameter of this one.");
}

/*
 * Read the options of a table.  Those of a TOAST table are its own storage
 * parameters.  Without any it follows the table that it belongs to, as it does
 * in the rest.
 */
static void
read_options(Checked *table, HeapTuple tuple, TupleDesc desc)
{
	Form_pg_class form = table->form;
	HeapTuple	parent = NULL;
	bool		has_own;

	table->owner = table->name;
	pv_options_no_autovacuum(&table->own);
	has_own = pv_options_read_autovacuum(tuple, desc, &table->own);
	if (form->relkind == RELKIND_TOASTVALUE)
	{
		parent = SearchSysCache1(RELOID, pv_toast_parent(form->oid));
		if (!HeapTupleIsValid(parent))
			return;
		form = (Form_pg_class) GETSTRUCT(parent);
		table->of_toast = has_own;
		table->owner = pv_qualified_name(form);
		if (!has_own)
			(void) pv_options_read_autovacuum(parent, desc, &table->own);
	}
	if (pv_shmem_attached())
	{
		pv_options_look_up(form->oid, form->relispartition, &table->options);
		table->opted_in = table->options.value[PV_OPTION_ENABLED] > 0;
	}
	if (parent != NULL)
		ReleaseSysCache(parent);
}

/*
 * Is there nobody who vacuums the table by itself?  If the setting is off there
 * are many, and check_automatic() in sql/check.c says so.
 */
static void
check_served(List **rows, const Checked *table)
{
	if (is_served(table) || !pv_guc_scheduler || !pv_guc_enabled ||
		table->form->relkind == RELKIND_TOASTVALUE)
		return;
	pv_advise(rows, table->form, PV_WARNING, "autovacuum",
			  "parvacuum.enabled",
			  "Nothing vacuums this table before it is in danger of wraparound.",
			  "autovacuum = off, parvacuum.scheduler = on, parvacuum.enabled is false for the table",
			  psprintf("ALTER TABLE %s SET (parvacuum.enabled), or set autovacuum to on.",
					   table->owner));
}

static void
check_table(List **rows, HeapTuple tuple, TupleDesc desc)
{
	Checked		table = {.form = (Form_pg_class) GETSTRUCT(tuple)};
	TimestampTz done_at;

	table.name = pv_qualified_name(table.form);
	read_options(&table, tuple, desc);
	pv_need_state(table.form, &table.state, &done_at);
	pv_need_thresholds(table.form, &table.own, &table.thresholds);
	table.due_from = table.thresholds.vacuum_base +
		table.thresholds.vacuum_scale * Max(table.state.reltuples, 0);
	check_ages(rows, &table);
	if (table.form->relpersistence == RELPERSISTENCE_TEMP)
		return;
	check_failures(rows, &table);
	check_analyze(rows, &table);
	check_options(rows, &table);
	check_served(rows, &table);
	check_neglect(rows, &table);
	check_memory(rows, &table);
	check_cost(rows, &table);
	pv_check_free_space(rows, table.form);
}

/*
 * Check all tables and indexes of this database that the current role may see.
 * Of temporary tables, which come and go, only the ages matter to others.
 */
void
pv_check_tables(List **rows)
{
	bool		sees_all = pv_may_see_all();
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(pg_class, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (!sees_all && !has_privs_of_role(GetUserId(), form->relowner))
			continue;
		if (form->relkind == RELKIND_INDEX)
		{
			if (form->relpersistence != RELPERSISTENCE_TEMP)
				pv_check_index(rows, form);
		}
		else if (RELKIND_HAS_TABLE_AM(form->relkind))
			check_table(rows, tuple, RelationGetDescr(pg_class));
	}
	table_endscan(scan);
	table_close(pg_class, AccessShareLock);
}

/* parvacuum_wraparound(): return a row for each database. */
Datum
parvacuum_wraparound(PG_FUNCTION_ARGS)
{
	double		seconds;
	double		rate = pv_history_xid_rate(&seconds);
	Relation	pg_database;
	TableScanDesc scan;
	HeapTuple	tuple;

	InitMaterializedSRF(fcinfo, 0);
	pg_database = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(pg_database, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		int64		age = (int32) (ReadNextTransactionId() -
								   form->datfrozenxid);
		TimestampTz date = date_of(age, rate);
		PvRow		row = {0};

		if (database_is_invalid_form(form))
			continue;
		pv_put_oid(&row, form->oid);
		pv_put_name(&row, NameStr(form->datname), GetDatabaseEncoding());
		pv_put_int8(&row, age);
		pv_put_int8(&row, xids_left(age));
		pv_put_if(&row, rate > 0, Float8GetDatum(rate));
		pv_put_if(&row, rate > 0, Float8GetDatum(seconds));
		pv_put_time(&row, date);
		pv_return_row(fcinfo, &row);
	}
	table_endscan(scan);
	table_close(pg_database, AccessShareLock);
	return (Datum) 0;
}
