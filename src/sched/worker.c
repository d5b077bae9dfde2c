/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  A scheduler worker.
 *
 * The launcher (sched/launcher.c) starts it for one database.  It looks for work if
 * it is told to, takes one table after the other from the database's queue
 * (sched/queue.c), does what the table needs, and leaves when the queue is empty or
 * another database needs it more.
 *
 *		scan the database, if it is to be scanned
 *		pop --> do the table (sched/table.c) --> pop ...
 *		   cancelled, an error: the table waits, and the worker goes on
 *
 * To others a worker is like an autovacuum worker.  PROC_IS_AUTOVACUUM makes the
 * lock manager cancel it for the sake of who waits for its lock, and DROP DATABASE
 * end it.  SIGINT cancels the table at hand only; SIGTERM ends the worker; a
 * reload is heeded between two tables, and its cost limits between two pages.
 *
 * Core: postmaster/autovacuum.c, AutoVacWorkerMain, do_autovacuum.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/guard.h"
#include "base/process.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "sched/candidates.h"
#include "sched/queue.h"
#include "sched/table.h"
#include "sched/worker.h"
#include "throttle/cost.h"

/* Milliseconds for which the row of pg_database is waited for */
#define LONGEST_FOR_DATABASE_MS	1000

/*
 * The same for locks that a large table needs, its row of pg_class at the end included: its
 * vacuum may have taken hours by then, and large tables do not take all places anyway
 */
#define LONGEST_FOR_LARGE_MS	(10 * 60 * 1000)

/* For one table; core's ANALYZE looks for it as PortalContext */
static MemoryContext work_context = NULL;

static emit_log_hook_type prev_emit_log = NULL;


/* ----------------------------------------------------------------
 *		Starting
 * ----------------------------------------------------------------
 */

/*
 * Launcher: ask the postmaster for a worker.  False if there is no free slot.
 */
bool
pv_sched_start(Oid database, int worker, uint32 token,
			   BackgroundWorkerHandle **handle)
{
	BackgroundWorker bgworker;

	pv_process_describe(&bgworker, PV_SCHED_TYPE, "parvacuum_sched_main");
	bgworker.bgw_main_arg = Int32GetDatum(worker);
	memcpy(bgworker.bgw_extra, &token, sizeof(token));
	memcpy(bgworker.bgw_extra + sizeof(token), &database, sizeof(database));
	bgworker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&bgworker, handle);
}

/*
 * No commit waits for its WAL, which would be most of the time on a disk that takes a
 * millisecond.  What a crash then takes are new statistics; it takes the counts that had
 * asked for them anyway.  Until the WAL writer comes, within a second by default, nobody can
 * set hints for XIDs that share a place in the commit log with ours: sessions that read set
 * them later, and our engine does not go on without them (look_again() in engine/heap_scan.c).
 *
 * Where nothing is flushed, it costs less to write WAL than to wake the WAL writer.
 */
static void
choose_synchronous_commit(void)
{
	SetConfigOption("synchronous_commit", enableFsync ? "off" : "local",
					PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * From now on wait at most this many milliseconds for a lock.  The table itself is not
 * waited for at all.  But an owner can also lock indexes, or rows of pg_database, and may
 * have as many of them as there are workers.
 *
 * This is called outside of transactions only, so nothing but this sets it back.
 */
static void
wait_for_locks(int ms)
{
	static int	current = -1;
	char		value[16];

	if (ms == current)
		return;
	current = ms;
	snprintf(value, sizeof(value), "%d", ms);
	SetConfigOption("lock_timeout", value, PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * Settings of users are not for us, nor are limits on statements.
 */
static void
fix_settings(void)
{
	static const char *const fixed[][2] = {
		{"search_path", ""},
		{"zero_damaged_pages", "false"},
		{"statement_timeout", "0"},
		{"role", "none"},
		{"default_transaction_read_only", "off"},
		{"idle_in_transaction_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"stats_fetch_consistency", "none"}
	};

	for (size_t i = 0; i < lengthof(fixed); i++)
		SetConfigOption(fixed[i][0], fixed[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	wait_for_locks(PV_LATE_AFTER_MS);
	if (PV_HAS_TRANSACTION_TIMEOUT)
		SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * ANALYZE warns of each statistics object that it cannot compute, for instance because a
 * column has a statistics target of 0, but not in an autovacuum worker: nobody reads that
 * who could do anything about it, and the log would have it in each pass.
 *
 * Core: statistics/extended_stats.c, BuildRelationExtStatistics.
 */
static void
leave_out_statistics_warning(ErrorData *edata)
{
	if (edata->elevel == WARNING && edata->sqlerrcode == ERRCODE_INVALID_OBJECT_DEFINITION)
		edata->output_to_server = false;
	if (prev_emit_log)
		prev_emit_log(edata);
}


/* ----------------------------------------------------------------
 *		Looking for work
 * ----------------------------------------------------------------
 */

/*
 * Find the tables that need something, and queue them.  What finds no place is
 * found again when there is place.
 */
static void
scan_database(void)
{
	clock_t		begun = clock();	/* waiting does not count */
	PvFound		found;
	bool		full = false;

	pgstat_report_activity(STATE_RUNNING, "parvacuum: looking for tables to vacuum");
	StartTransactionCommand();
	MemoryContextSwitchTo(work_context);
	pv_need_scan(&found);
	for (int i = 0; i < found.n; i++)
		pv_queue_offer(&found.items[i], &full);
	CommitTransactionCommand();
	if (pv_queue_end_scan(!full, (clock() - begun) * USECS_PER_SEC / CLOCKS_PER_SEC))
		ereport(LOG,
				(errmsg("parvacuum's queue is full"),
				 errdetail("%d tables of the database need a vacuum or an analyze.  Those that found no place are looked for again when the queue is empty.",
						   found.n)));
	MemoryContextReset(work_context);
}


/* ----------------------------------------------------------------
 *		Doing what there is to do
 * ----------------------------------------------------------------
 */

/*
 * Something failed or was cancelled: tell the log, and be ready to go on.  Returns what a table
 * is to wait for then.  The caller has interrupts held.
 */
static PvWaitReason
clean_up_after_error(bool report_locks)
{
	int			code = geterrcode();
	PvWaitReason reason = PV_WAIT_ERROR;

	if (code == ERRCODE_QUERY_CANCELED)
		reason = PV_WAIT_CANCELED;
	else if (code == ERRCODE_LOCK_NOT_AVAILABLE)
		reason = PV_WAIT_LOCK;

	if (reason != PV_WAIT_LOCK || report_locks)
		EmitErrorReport();

	/* have the WAL writer flush what a vacuum has logged */
	if (XactLastRecEnd != 0)
		XLogSetAsyncXactLSN(XactLastRecEnd);
	AbortOutOfAnyTransaction();
	FlushErrorState();
	QueryCancelPending = false;
	return reason;
}

/* Count what has become of a table, or of a scan. */
static void
count_failure(PvWaitReason reason)
{
	PvSchedulerCounters *counters = pv_queue_counters();

	if (reason == PV_WAIT_LOCK)
		pg_atomic_fetch_add_u64(&counters->skipped_lock, 1);
	else if (reason == PV_WAIT_ERROR)
		pg_atomic_fetch_add_u64(&counters->errors, 1);
}

/*
 * The table at hand, or the scan, failed or was cancelled: go on with the next one.
 */
static void
recover(PvTableWork *work)
{
	PvWaitReason reason;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(work_context);
	if (work->name)
		errcontext("parvacuum's scheduled vacuum of table \"%s\"", work->name);
	reason = clean_up_after_error(Log_autovacuum_min_duration >= 0);
	count_failure(reason);
	pv_queue_abandon_scan();
	pv_queue_finish(&work->item, work->vacuumed, reason, InvalidTransactionId);
	pv_cost_open_balance();
	pv_hook_forget_options();
	RESUME_INTERRUPTS();
}

/*
 * Have pg_database know how old the oldest table is now, once in a pass: when the
 * queue has been worked off, or, if that takes long, when the next pass begins.
 *
 * That may fail or be cancelled, or the database's row may be locked.  Then the next pass does
 * it, and this process goes on.
 */
static void
finish_pass(bool even_if_busy)
{
	if (!pv_queue_claim_update(even_if_busy))
		return;
	pgstat_report_activity(STATE_RUNNING, "parvacuum: updating pg_database");
	wait_for_locks(LONGEST_FOR_DATABASE_MS);
	PG_TRY();
	{
		StartTransactionCommand();
		vac_update_datfrozenxid();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(work_context);
		count_failure(clean_up_after_error(false));
		pv_queue_return_update();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	wait_for_locks(PV_LATE_AFTER_MS);
}

/*
 * Look for work if it is on us to do so, or take the first table of the queue.
 * False if there is none for this worker.
 */
static bool
next_step(void)
{
	PvTableWork work = {0};
	bool		to_scan = pv_queue_begin_scan();

	if (!to_scan && !pv_queue_pop(pv_max_large(pv_guc_scheduler_workers), &work.item))
		return false;

	/* what the pass before has left to do */
	if (to_scan)
		finish_pass(true);

	wait_for_locks(!to_scan && work.item.pages >= PV_LARGE_PAGES ?
				   LONGEST_FOR_LARGE_MS : PV_LATE_AFTER_MS);

	PG_TRY();
	{
		if (to_scan)
			scan_database();
		else
			pv_table_do(&work, work_context);
	}
	PG_CATCH();
	{
		recover(&work);
	}
	PG_END_TRY();
	MemoryContextReset(work_context);
	return true;
}


/* ----------------------------------------------------------------
 *		The worker
 * ----------------------------------------------------------------
 */

/*
 * What core's code does here is to have as much memory as autovacuum.
 */
static void
choose_work_mem(void)
{
	const char *value = autovacuum_work_mem >= 0 ?
		GetConfigOption("autovacuum_work_mem", false, false) :
		GetConfigOptionResetString("maintenance_work_mem");

	SetConfigOption("maintenance_work_mem", value, PGC_SUSET, PGC_S_SESSION);
}

/*
 * Sleep on, if something is still to be slept off.  A cancel that comes meanwhile was for
 * a table that is done.
 */
static bool
is_asleep(void)
{
	bool		asleep;

	HOLD_CANCEL_INTERRUPTS();
	asleep = pv_cost_sleep_on();
	RESUME_CANCEL_INTERRUPTS();
	return asleep;
}

/* All that follows from the configuration; when it is reloaded, again. */
static void
apply_configuration(void)
{
	pv_table_configure();
	choose_work_mem();
	choose_synchronous_commit();
}

static void
apply_reload(void)
{
	double		cost_delay;
	int			cost_limit;

	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;

	/* On 15 these are settings as well; a sleep may be arranged in them */
	cost_delay = pv_vacuum_cost_delay;
	cost_limit = pv_vacuum_cost_limit;
	ProcessConfigFile(PGC_SIGHUP);
	pv_vacuum_cost_delay = cost_delay;
	pv_vacuum_cost_limit = cost_limit;
	apply_configuration();
}

/*
 * The worker.  Handlers that only set flags are there before any signal can
 * arrive; the one that background workers begin with raises FATAL at once, in
 * critical sections too.
 */
void
parvacuum_sched_main(Datum main_arg)
{
	uint32		token;
	Oid			hired_for;
	Oid			database;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	memcpy(&token, MyBgworkerEntry->bgw_extra, sizeof(token));
	memcpy(&hired_for, MyBgworkerEntry->bgw_extra + sizeof(token), sizeof(hired_for));
	BackgroundWorkerInitializeConnectionByOid(hired_for, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	if (!pv_queue_attach(DatumGetInt32(main_arg), token, &database))
		return;
	Assert(database == hired_for);

	/* functions of indexes are to start nothing here */
	pv_guard_process();
	prev_emit_log = emit_log_hook;
	emit_log_hook = leave_out_statistics_warning;

	/* for who waits for a lock of ours, or drops the database */
	pv_process_change_status(PROC_IS_AUTOVACUUM, 0);
	fix_settings();
	apply_configuration();
	work_context = AllocSetContextCreate(TopMemoryContext, "parvacuum table",
										 ALLOCSET_DEFAULT_SIZES);
	PortalContext = work_context;
	pv_is_scheduler_worker = true;
	pv_cost_open_balance();

	for (;;)
	{
		/* A cancel is for a table, and there is none at hand */
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
		apply_reload();
		if (!pv_guc_scheduler || pv_queue_should_leave())
			break;
		if (!is_asleep() && !next_step())
			break;
	}
	pv_table_flush_log();
	finish_pass(false);
	pv_cost_flush();
}
