/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  A scheduler worker.
 *
 * The launcher (sched/launcher.c) starts a worker for one database.  The
 * worker scans the database if a scan is due, takes one table after the other
 * from the database's queue (sched/queue.c), does what each needs
 * (sched/table.c), and ends when the queue is empty or its stay is over.
 *
 *		scan the database, if a scan is due
 *		pop --> do the table --> pop ...
 *		   canceled, or an error: the table waits, and the worker goes on
 *
 * To other processes it is like an autovacuum worker, because it has
 * PROC_IS_AUTOVACUUM: a session that waits for one of its locks cancels it
 * after deadlock_timeout, and DROP DATABASE terminates it.
 *
 *		SIGINT		cancels the table at hand, and nothing else
 *		SIGTERM		ends the worker
 *		SIGHUP		settings are applied before the next table; the cost limit of
 *					the scheduler holds from the next page on
 *
 * Core: postmaster/autovacuum.c, AutoVacWorkerMain, do_autovacuum.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/interrupt.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/process.h"
#include "entry/failures.h"
#include "sched/queue.h"
#include "sched/table.h"
#include "throttle/cost.h"

/* How long to wait for the lock of the row in pg_database, in milliseconds */
#define LONGEST_FOR_DATABASE_MS	1000

/* This worker, in the queue */
static PvWorkerSlot *my_slot = NULL;

static emit_log_hook_type prev_emit_log = NULL;

/*
 * Set what must not depend on the settings of roles and databases, and turn
 * off the limits on statements.
 *
 * No commit waits for its WAL, because on a slow disk that would be most of
 * the time.  A crash may lose statistics that ANALYZE has just written, with
 * the counts that had asked for them.  Until the WAL writer has flushed the
 * commit, no process can set hint bits for XIDs whose status has the same LSN
 * in the commit log.  Sessions set them later, and the engine flushes the WAL
 * (engine/heap_scan.c).
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
		{"stats_fetch_consistency", "none"},
		{"synchronous_commit", "off"}
	};

	SetSessionAuthorization(BOOTSTRAP_SUPERUSERID, true);
	for (size_t i = 0; i < lengthof(fixed); i++)
		SetConfigOption(fixed[i][0], fixed[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	pv_table_limit_lock_waits(PV_LATE_AFTER_MS);
	if (PV_HAS_TRANSACTION_TIMEOUT)
		SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * Keep a warning of ANALYZE out of the log, where the table's owner does not
 * see it: that a statistics object cannot be computed.  Core does not raise it
 * in an autovacuum worker.
 *
 * Core: statistics/extended_stats.c, BuildRelationExtStatistics.
 */
static void
leave_out_statistics_warning(ErrorData *edata)
{
	if (edata->elevel == WARNING &&
		edata->sqlerrcode == ERRCODE_INVALID_OBJECT_DEFINITION)
		edata->output_to_server = false;
	if (prev_emit_log)
		prev_emit_log(edata);
}

/*
 * All tables have been offered, see pv_queue_end_scan().  The lock is released
 * after each batch of entries that were not.
 */
static bool
end_scan(bool complete, bool nothing, int64 used)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		report;

	while (pv_queue_remove_unseen(queues, my_slot->queue))
	{
		pv_queue_unlock();
		queues = pv_queue_lock(LW_EXCLUSIVE);
	}
	report = pv_queue_end_scan(queues, my_slot, complete, nothing, used);
	pv_sched_count(PV_COUNT_SCANS);
	if (!complete)
		pv_sched_count(PV_COUNT_QUEUE_FULL);
	pv_launcher_wake();
	pv_queue_unlock();
	pv_process_clear_cancel();
	return report;
}

/* Find the tables that need something, and queue them. */
static void
scan_database(void)
{
	clock_t		begun = clock();	/* processor time: waits do not count */
	bool		complete = true;
	bool		nothing;
	List	   *found;
	ListCell   *lc;

	pgstat_report_activity(STATE_RUNNING,
						   "autovacuum: looking for tables (parvacuum)");
	StartTransactionCommand();
	MemoryContextSwitchTo(PortalContext);
	found = pv_need_scan(&nothing);
	foreach(lc, found)
	{
		complete &= pv_queue_offer(pv_queue_lock(LW_EXCLUSIVE), my_slot,
								   lfirst(lc));
		pv_queue_unlock();
	}
	CommitTransactionCommand();
	if (end_scan(complete, nothing,
				 (clock() - begun) * USECS_PER_SEC / CLOCKS_PER_SEC))
		ereport(LOG,
				(errmsg("parvacuum's queue is full"),
				 errdetail("%d tables of the database \"%s\" need a vacuum or an analyze.  The database is scanned again when the queue is empty.",
						   list_length(found), NameStr(pv_table_database))));
	MemoryContextReset(PortalContext);
}

/*
 * Log and count an error or a cancel, end the transaction, and make the
 * process ready to go on.  A lock that could not be had is logged only if
 * log_locks is true.  Return what the table is to wait for.  The caller holds
 * interrupts.
 */
static PvWaitReason
clean_up_after_error(bool log_locks)
{
	int			code = geterrcode();
	PvWaitReason reason = code == ERRCODE_QUERY_CANCELED ? PV_WAIT_CANCELED :
		code == ERRCODE_LOCK_NOT_AVAILABLE ? PV_WAIT_LOCK : PV_WAIT_ERROR;

	if (reason != PV_WAIT_LOCK || log_locks)
		EmitErrorReport();

	AbortOutOfAnyTransaction();
	FlushErrorState();
	QueryCancelPending = false;
	if (reason == PV_WAIT_LOCK)
		pv_sched_count(PV_COUNT_SKIPPED_LOCK);
	else if (reason == PV_WAIT_ERROR)
		pv_sched_count(PV_COUNT_ERRORS);
	return reason;
}

/*
 * Make the process go on with the next table after the table at hand, or the
 * scan, failed or was canceled.
 */
static void
recover(PvTableWork *work)
{
	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(PortalContext);
	if (work->full_name)
		errcontext("parvacuum's scheduled %s of table \"%s\"%s",
				   work->item.score.vacuum &&
				   (work->done & PV_DONE_VACUUM) == 0 ? "vacuum" :
				   work->item.score.sweep &&
				   (work->done & PV_DONE_SWEEP) == 0 ? "sweep" : "analyze",
				   work->full_name,
				   my_slot->late ? ", which took too long" : "");
	work->put_back = false;
	work->reason = clean_up_after_error(Log_autovacuum_min_duration >= 0);
	pv_failures_end(work->reason == PV_WAIT_CANCELED ?
					PV_ATTEMPT_CANCELED : PV_ATTEMPT_FAILED);
	(void) pv_queue_lock(LW_EXCLUSIVE);
	if (my_slot->scanning)
		my_slot->queue->scanning = my_slot->scanning = false;
	pv_queue_unlock();
	pv_table_finish(work);
	pv_cost_open_balance();
	RESUME_INTERRUPTS();
}

/*
 * When this worker leaves and anything was vacuumed, or the database was
 * scanned: store in pg_database how old the oldest table is.  As this reads
 * all of pg_class, a database that always has tables queued gets it once in a
 * naptime.  If it fails, a later worker does it.
 */
static void
update_database(void)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	PvDatabaseQueue *queue = my_slot->queue;
	bool		due = queue->vacuumed &&
		(queue->nqueued == 0 ||
		 queues->now - queue->updated_at >= queues->naptime);

	if (due)
	{
		queue->vacuumed = false;
		queue->updated_at = queues->now;
	}
	pv_queue_unlock();
	if (!due)
		return;
	pgstat_report_activity(STATE_RUNNING,
						   "autovacuum: updating pg_database (parvacuum)");
	pv_table_limit_lock_waits(LONGEST_FOR_DATABASE_MS);
	PG_TRY();
	{
		StartTransactionCommand();
		vac_update_datfrozenxid();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(PortalContext);
		(void) clean_up_after_error(false);
		(void) pv_queue_lock(LW_EXCLUSIVE);
		queue->vacuumed = true;
		my_slot->canceled_at = PV_NEVER;
		pv_queue_unlock();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	pv_table_limit_lock_waits(PV_LATE_AFTER_MS);
}

/*
 * Scan the database if this worker is to do so, else take the first table of
 * the queue.  Return false if there is no table for this worker.
 */
static bool
next_step(void)
{
	static PvTableWork work;	/* static, as it is read after an error */
	PvQueues   *queues;
	bool		to_scan;
	bool		any;

	memset(&work, 0, sizeof(work));
	work.slot = my_slot;
	queues = pv_queue_lock(LW_EXCLUSIVE);
	to_scan = pv_queue_begin_scan(queues, my_slot);
	any = to_scan || pv_queue_take(queues, my_slot, &work.item);
	pv_queue_unlock();
	if (!any)
		return false;

	pv_table_limit_lock_waits(PV_LATE_AFTER_MS);

	PG_TRY();
	{
		if (to_scan)
			scan_database();
		else
			pv_table_do(&work);
	}
	PG_CATCH();
	{
		recover(&work);
	}
	PG_END_TRY();
	MemoryContextReset(PortalContext);
	return true;
}

/* Give core's code here as much memory as in an autovacuum worker. */
static void
choose_work_mem(void)
{
	const char *value = autovacuum_work_mem >= 0 ?
		GetConfigOption("autovacuum_work_mem", false, false) :
		GetConfigOptionResetString("maintenance_work_mem");

	SetConfigOption("maintenance_work_mem", value, PGC_SUSET, PGC_S_SESSION);
}

/*
 * Sleep, for a second at most, if something is still to be slept off, and
 * return whether it was so.  A cancel that comes meanwhile was for a table
 * that is done.
 */
static bool
sleep_on(void)
{
	bool		slept;

	HOLD_CANCEL_INTERRUPTS();
	slept = pv_cost_sleep_on();
	RESUME_CANCEL_INTERRUPTS();
	return slept;
}

/* Apply the settings, if they were changed. */
static void
apply_reload(void)
{
	double		cost_delay;
	int			cost_limit;

	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;

	/* On PG 15 these are settings, too; they hold the sleep that is due */
	cost_delay = pv_vacuum_cost_delay;
	cost_limit = pv_vacuum_cost_limit;
	ProcessConfigFile(PGC_SIGHUP);
	pv_vacuum_cost_delay = cost_delay;
	pv_vacuum_cost_limit = cost_limit;
	choose_work_mem();
}

/*
 * Entry point of a scheduler worker.
 *
 * The signal handlers are installed before signals are unblocked.  A
 * background worker begins with a handler of SIGTERM that raises FATAL at
 * once, even in a critical section.
 */
void
parvacuum_sched_main(Datum main_arg)
{
	uint32		token;
	bool		leaves;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	memcpy(&token, MyBgworkerEntry->bgw_extra, sizeof(token));
	my_slot = pv_queue_attach(DatumGetInt32(main_arg), token);
	if (my_slot == NULL)
		return;
	BackgroundWorkerInitializeConnectionByOid(my_slot->queue->database,
											  InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	pv_queue_set_connected();

	/* functions of indexes must not start another vacuum here */
	(void) pv_guard_enter();
	prev_emit_log = emit_log_hook;
	emit_log_hook = leave_out_statistics_warning;

	pv_show_as_autovacuum();
	pgstat_report_activity(STATE_RUNNING, "autovacuum: starting (parvacuum)");
	fix_settings();
	choose_work_mem();
	pv_set_portal_context(AllocSetContextCreate(TopMemoryContext,
												"parvacuum table",
												ALLOCSET_DEFAULT_SIZES));
	pv_table_init();
	pv_is_scheduler_worker = true;
	pv_cost_open_balance();

	for (;;)
	{
		/* A cancel is for a table, and there is no table at hand */
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
		apply_reload();
		leaves = pv_queue_should_leave(pv_queue_lock(LW_SHARED), my_slot);
		pv_queue_unlock();
		if (leaves || !pv_guc_scheduler || (!sleep_on() && !next_step()))
			break;
	}
	update_database();
	pv_cost_flush();
}
