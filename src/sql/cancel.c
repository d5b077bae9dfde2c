/*-------------------------------------------------------------------------
 *
 * cancel.c
 *	  parvacuum_cancel(): canceling a vacuum.
 *
 * Given a table, it cancels any vacuum of the table by the engine, no matter
 * what started it: the scheduler, parvacuum_run() and CALL parvacuum(), a
 * VACUUM command, core's autovacuum.  Given a PID, it cancels what a scheduler
 * worker or a background leader is doing; for sessions and autovacuum workers
 * there is pg_cancel_backend().  entry/rights.c has the rights.
 *
 * Exactness.  A request names a table, and must not hit a process that has
 * gone on to another table by the time the signal arrives.
 * sched/queue_shmem.c ensures that for scheduler workers, and
 * stats/registry.c for all others.
 *
 * The session that calls the function runs this.
 *
 * Core: storage/ipc/signalfuncs.c, pg_signal_backend.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/builtins.h"

#include "base/process.h"
#include "entry/rights.h"
#include "sched/launcher.h"
#include "sched/queue.h"
#include "sql/call.h"
#include "stats/registry.h"

PG_FUNCTION_INFO_V1(parvacuum_cancel_pid);
PG_FUNCTION_INFO_V1(parvacuum_cancel_table);
PG_FUNCTION_INFO_V1(parvacuum_cancel_name);

/* What became of the vacuums of one kind: bits, since there may be several. */
typedef enum CancelOutcome
{
	CANCEL_NOTHING = 0,
	CANCEL_DONE = 1,
	CANCEL_REFUSED = 2			/* the current role has no right to */
} CancelOutcome;

/* May the current role cancel it? */
static bool
may_cancel(const PvVacuuming *vacuum)
{
	return vacuum->started_by == PV_STARTED_BY_AUTOVACUUM ?
		pv_may_cancel_scheduler() : pv_may_cancel_session(vacuum->role);
}

/* Cancel it if it still is at the table; an invalid OID stands for any. */
static CancelOutcome
cancel(const PvVacuuming *vacuum, Oid relid)
{
	if (!may_cancel(vacuum))
		return CANCEL_REFUSED;
	return pv_registry_cancel(vacuum, MyDatabaseId, relid) ?
		CANCEL_DONE : CANCEL_NOTHING;
}

/*
 * Cancel the scheduler's vacuum of the table; a queued table is taken out of
 * the queue until the next database scan.
 */
static CancelOutcome
cancel_scheduled(Oid relid)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	PvWorkerSlot *slot = NULL;
	PvWithdrawn withdrawn = pv_queue_withdraw(queues, MyDatabaseId, relid,
											  pv_may_cancel_scheduler(),
											  &slot);
	bool		canceled = withdrawn == PV_WITHDRAWN_RUNNING &&
		pv_queue_cancel(queues, slot);

	pv_queue_unlock();
	if (withdrawn == PV_WITHDRAWN_REFUSED)
		return CANCEL_REFUSED;
	return canceled || withdrawn == PV_WITHDRAWN_DONE ?
		CANCEL_DONE : CANCEL_NOTHING;
}

/*
 * Cancel what that scheduler worker does, with a table or scanning its
 * database.  Return false if it does neither.
 */
static bool
cancel_worker(int pid)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		canceled = false;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->pid == pid && (slot->entry != NULL || slot->scanning))
			canceled = pv_queue_cancel(queues, slot);
	}
	pv_queue_unlock();
	return canceled;
}

/*
 * Cancel all vacuums of the table by the engine.  If the current role has no
 * right to cancel one of them that is an error, or a warning if another one
 * was canceled.
 */
static bool
cancel_table(Oid relid)
{
	bool		may_withdraw = pv_may_cancel_scheduler() ||
		pv_may_vacuum_oid(relid);
	CancelOutcome by[PV_STARTED_BY_FUNCTION + 1] = {CANCEL_NOTHING};
	PvVacuuming *vacuums;
	int			n = pv_registry_find(MyDatabaseId, relid, &vacuums);
	bool		done = false;
	int			elevel;

	for (int i = 0; i < n; i++)
	{
		PvStartedBy started_by = vacuums[i].started_by;

		if (started_by != PV_STARTED_BY_SCHEDULER)
			by[started_by] |= cancel(&vacuums[i], relid);
	}
	if (may_withdraw)
		by[PV_STARTED_BY_SCHEDULER] = cancel_scheduled(relid);
	for (size_t i = 0; i < lengthof(by); i++)
		done |= (by[i] & CANCEL_DONE) != 0;
	elevel = done ? WARNING : ERROR;

	if (!done && !may_withdraw)
		pv_refuse_cancel(PV_CANCEL_TABLE, ERROR);
	if (by[PV_STARTED_BY_SCHEDULER] & CANCEL_REFUSED)
		pv_refuse_cancel(PV_CANCEL_WRAPAROUND, elevel);
	if (by[PV_STARTED_BY_FUNCTION] & CANCEL_REFUSED)
		pv_refuse_cancel(PV_CANCEL_RUN, elevel);
	if (by[PV_STARTED_BY_COMMAND] & CANCEL_REFUSED)
		pv_refuse_cancel(PV_CANCEL_COMMAND, elevel);
	if (by[PV_STARTED_BY_AUTOVACUUM] & CANCEL_REFUSED)
		pv_refuse_cancel(PV_CANCEL_AUTOVACUUM, elevel);
	return done;
}

/* What the three functions check first. */
static void
check_call(FunctionCallInfo fcinfo, const char *name)
{
	pv_check_server("parvacuum_cancel()");
	pv_check_not_null(fcinfo, 0, name,
					  "Name a table, or give the PID of a process.");
}

/* parvacuum_cancel(pid) */
Datum
parvacuum_cancel_pid(PG_FUNCTION_ARGS)
{
	int			pid;
	PvVacuuming vacuum;
	CancelOutcome outcome;

	check_call(fcinfo, "pid");
	pid = PG_GETARG_INT32(0);
	if (pv_process_is(pid, PV_SCHED_TYPE))
	{
		if (!pv_may_cancel_scheduler())
			pv_refuse_cancel(PV_CANCEL_WORKER, ERROR);
		PG_RETURN_BOOL(cancel_worker(pid));
	}
	if (!pv_registry_find_process(pid, &vacuum) ||
		vacuum.started_by != PV_STARTED_BY_FUNCTION)
	{
		ereport(WARNING,
				(errmsg("PID %d is not a parvacuum process that vacuums a table", pid)));
		PG_RETURN_BOOL(false);
	}
	outcome = cancel(&vacuum, InvalidOid);
	if (outcome == CANCEL_REFUSED)
		pv_refuse_cancel(PV_CANCEL_RUN, ERROR);
	PG_RETURN_BOOL(outcome == CANCEL_DONE);
}

/* parvacuum_cancel(rel) */
Datum
parvacuum_cancel_table(PG_FUNCTION_ARGS)
{
	check_call(fcinfo, "rel");
	PG_RETURN_BOOL(cancel_table(PG_GETARG_OID(0)));
}

/*
 * parvacuum_cancel(name): a name in quotes could be a number as well as a
 * table, if there were no function with an argument of type text.
 */
Datum
parvacuum_cancel_name(PG_FUNCTION_ARGS)
{
	Datum		relid;

	check_call(fcinfo, "name");
	relid = DirectFunctionCall1(text_regclass, PG_GETARG_DATUM(0));
	PG_RETURN_BOOL(cancel_table(DatumGetObjectId(relid)));
}
