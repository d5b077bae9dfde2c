/*-------------------------------------------------------------------------
 *
 * cancel.c
 *	  parvacuum_cancel(): cancelling a vacuum.
 *
 * Given a table, it cancels any vacuum of the table by the engine, no matter
 * what started it: the scheduler, parvacuum_run() and CALL parvacuum(), a
 * VACUUM command, core's autovacuum.  Given a PID, it cancels what a scheduler
 * worker or a background leader is doing; for sessions and autovacuum workers
 * there is pg_cancel_backend().  entry/rights.c has the rights.
 *
 * Exactness.  A request names a table, and must not hit a process that has
 * gone on to another table by the time the signal arrives.  These places
 * ensure that: for scheduler workers sched/queue_shmem.c, for background
 * leaders entry/runs.c, for all others entry/inprogress.c.
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
#include "postmaster/bgworker.h"
#include "utils/builtins.h"

#include "entry/inprogress.h"
#include "entry/relation.h"
#include "entry/rights.h"
#include "entry/runs.h"
#include "sched/queue.h"
#include "sched/worker.h"
#include "sql/call.h"

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

/* Is it a process of the scheduler? */
static bool
is_scheduler(int pid)
{
	const char *type = GetBackgroundWorkerTypeByPid(pid);

	return type != NULL && strcmp(type, PV_SCHED_TYPE) == 0;
}

/*
 * Cancels a run if it is still vacuuming the table; an invalid OID stands for
 * any table.
 */
static CancelOutcome
cancel_run(const PvRunSeen *seen, Oid relid)
{
	if (!pv_may_cancel_session(seen->role))
		return CANCEL_REFUSED;
	return pv_runs_cancel(seen->token, MyDatabaseId, relid) ?
		CANCEL_DONE : CANCEL_NOTHING;
}

/* Cancels the runs that vacuum the table, or were asked to. */
static CancelOutcome
cancel_runs(Oid relid)
{
	PvRunSeen  *seen;
	int			n = pv_runs_find(MyDatabaseId, relid, &seen);
	CancelOutcome outcome = CANCEL_NOTHING;

	for (int i = 0; i < n; i++)
		outcome |= cancel_run(&seen[i], relid);
	return outcome;
}

/*
 * Cancels the VACUUM commands, or the autovacuum workers, that vacuum the
 * table with the engine.
 */
static CancelOutcome
cancel_in_progress(List *vacuums, bool autovacuum)
{
	CancelOutcome outcome = CANCEL_NOTHING;
	ListCell   *lc;

	foreach(lc, vacuums)
	{
		PvInProgress *vacuum = lfirst(lc);

		if (vacuum->autovacuum != autovacuum)
			continue;
		if (!(autovacuum ? pv_may_cancel_scheduler() :
			  pv_may_cancel_session(vacuum->role)))
			outcome |= CANCEL_REFUSED;
		else if (pv_inprogress_cancel(vacuum))
			outcome |= CANCEL_DONE;
	}
	return outcome;
}

/*
 * Cancels the scheduler's vacuum of the table; a queued table is taken out of
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
 * Cancels what that scheduler worker does, with a table or scanning its
 * database.  Returns false if it does neither.
 */
static bool
cancel_worker(int pid)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		canceled = false;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->used && slot->pid == pid && (slot->busy || slot->scanning))
			canceled = pv_queue_cancel(queues, slot);
	}
	pv_queue_unlock();
	return canceled;
}

/*
 * Cancels all vacuums of the table by the engine.  If the current role has no
 * right to cancel one of them that is an error, or a warning if another one
 * was canceled.
 */
static bool
cancel_table(Oid relid)
{
	bool		may_withdraw = pv_may_cancel_scheduler() ||
		pv_may_vacuum_oid(relid);
	List	   *vacuums = pv_inprogress_find(MyDatabaseId, relid);
	CancelOutcome runs = cancel_runs(relid);
	CancelOutcome commands = cancel_in_progress(vacuums, false);
	CancelOutcome autovacuums = cancel_in_progress(vacuums, true);
	CancelOutcome scheduled = CANCEL_NOTHING;
	bool		done;
	int			elevel;

	if (may_withdraw)
		scheduled = cancel_scheduled(relid);
	done = ((runs | commands | autovacuums | scheduled) & CANCEL_DONE) != 0;
	elevel = done ? WARNING : ERROR;

	if (!done && !may_withdraw)
		pv_refuse_cancel_table();
	if (scheduled & CANCEL_REFUSED)
		pv_refuse_cancel_wraparound(elevel, pv_qualified_relname(relid));
	if (runs & CANCEL_REFUSED)
		pv_refuse_cancel_run(elevel);
	if (commands & CANCEL_REFUSED)
		pv_refuse_cancel_command(elevel);
	if (autovacuums & CANCEL_REFUSED)
		pv_refuse_cancel_autovacuum(elevel, pv_qualified_relname(relid));
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
	PvRunSeen	seen;
	CancelOutcome outcome;

	check_call(fcinfo, "pid");
	pid = PG_GETARG_INT32(0);
	if (is_scheduler(pid))
	{
		if (!pv_may_cancel_scheduler())
			pv_refuse_cancel_scheduler();
		PG_RETURN_BOOL(cancel_worker(pid));
	}
	if (!pv_runs_find_process(pid, &seen))
	{
		ereport(WARNING,
				(errmsg("PID %d is not a parvacuum process that vacuums a table", pid)));
		PG_RETURN_BOOL(false);
	}
	outcome = cancel_run(&seen, InvalidOid);
	if (outcome == CANCEL_REFUSED)
		pv_refuse_cancel_run(ERROR);
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
