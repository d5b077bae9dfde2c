/*-------------------------------------------------------------------------
 *
 * cancel.c
 *	  Having a vacuum given up: parvacuum_cancel().
 *
 * By its table any vacuum by the engine can be cancelled, whoever has begun it: the scheduler,
 * parvacuum_run() and CALL parvacuum(), a VACUUM command, core's autovacuum.  By its PID a process
 * of the scheduler, or one that vacuums for parvacuum_run() or CALL parvacuum(); for sessions and
 * autovacuum workers there is pg_cancel_backend().
 *
 * Rights.  A scheduler worker is to the server what an autovacuum worker is: it acts for
 * nobody, and what it prevents is everybody's loss.  So its process can be cancelled by those who
 * may cancel autovacuum workers.  Who may vacuum a table may also have the scheduler give that
 * table up, as he could have it give way to a lock; but not a vacuum that prevents wraparound,
 * which does not give way to a lock either.  A process that vacuums for a caller is the
 * caller's, and the rules of pg_cancel_backend() hold.  They hold for a VACUUM command and for an
 * autovacuum worker, too, as they are: who owns the table has no right to another's session.
 *
 * Exactness.  A request names a table, and must not hit a process that is at another one by the
 * time the signal comes.  How that is excluded for scheduler workers is said in sched/queue.c, forget_cancel().
 * For processes that vacuum for a caller, entry/runs.c says it, for all others entry/inprogress.c.
 *
 * Core: storage/ipc/signalfuncs.c, pg_signal_backend.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "entry/dispatch.h"
#include "entry/inprogress.h"
#include "entry/run.h"
#include "entry/runs.h"
#include "sched/queue.h"
#include "sched/worker.h"

PG_FUNCTION_INFO_V1(parvacuum_cancel_pid);
PG_FUNCTION_INFO_V1(parvacuum_cancel_table);
PG_FUNCTION_INFO_V1(parvacuum_cancel_name);


/* ----------------------------------------------------------------
 *		Rights
 * ----------------------------------------------------------------
 */

/* May the current role vacuum the table?  Nobody can if it is gone. */
static bool
may_vacuum(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		may;

	if (!HeapTupleIsValid(tuple))
		return false;
	may = pv_may_vacuum(relid, ((Form_pg_class) GETSTRUCT(tuple))->relisshared);
	ReleaseSysCache(tuple);
	return may;
}

/*
 * May the current role cancel a session of that role, and what vacuums for it?
 * Core: signalfuncs.c, pg_signal_backend.
 */
static bool
may_cancel_session(Oid role)
{
	if (superuser_arg(role))
		return superuser();
	return has_privs_of_role(GetUserId(), role) ||
		has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND);
}

static void
refuse_table(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel a vacuum"),
			 errhint("Only roles that may vacuum the table, and " PV_MAY_SIGNAL_AUTOVACUUM ", can cancel it.")));
}

static void
refuse_wraparound(int elevel, Oid relid)
{
	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel the vacuum of table \"%s\"",
					pv_qualified_relname(relid)),
			 errdetail("It prevents transaction ID wraparound."),
			 errhint("Only " PV_MAY_SIGNAL_AUTOVACUUM " can cancel it.")));
}

static void
refuse_scheduler(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel a process of parvacuum's scheduler"),
			 errhint("Only " PV_MAY_SIGNAL_AUTOVACUUM " can cancel it by its PID.  Roles that may vacuum a table can cancel the vacuum of that table.")));
}

static void
refuse_run(int elevel)
{
	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel a run of parvacuum"),
			 errhint("Only those who may cancel its caller can cancel it.")));
}

static void
refuse_command(int elevel)
{
	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel a VACUUM command"),
			 errhint("Only those who may cancel its session can cancel it.")));
}

static void
refuse_autovacuum(int elevel, Oid relid)
{
	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel the autovacuum of table \"%s\"",
					pv_qualified_relname(relid)),
			 errhint("Only " PV_MAY_SIGNAL_AUTOVACUUM " can cancel it.")));
}


/* ----------------------------------------------------------------
 *		Processes that vacuum for a caller
 * ----------------------------------------------------------------
 */

/* Is it a process of the scheduler? */
static bool
is_scheduler(int pid)
{
	const char *type = GetBackgroundWorkerTypeByPid(pid);

	return type != NULL && strcmp(type, PV_SCHED_TYPE) == 0;
}

/*
 * Cancel a run, if it is still at the table; an invalid OID stands for any.  *refused is set
 * if it is not the current role's to cancel.
 */
static bool
cancel_run(const PvRunSeen *seen, Oid relid, bool *refused)
{
	if (may_cancel_session(seen->role))
		return pv_runs_cancel(seen->token, MyDatabaseId, relid);
	*refused = true;
	return false;
}

/* Cancel the runs that are at the table. */
static bool
cancel_runs(Oid relid, bool *refused)
{
	PvRunSeen  *seen;
	int			n = pv_runs_find(MyDatabaseId, relid, &seen);
	bool		done = false;

	for (int i = 0; i < n; i++)
		done |= cancel_run(&seen[i], relid, refused);
	return done;
}


/* ----------------------------------------------------------------
 *		VACUUM commands and autovacuum workers
 * ----------------------------------------------------------------
 */

/* What the current role may not cancel. */
typedef struct Refused
{
	bool		run;
	bool		command;
	bool		autovacuum;
} Refused;

/* Cancel those that are at the table with the engine. */
static bool
cancel_in_progress(Oid relid, Refused *refused)
{
	List	   *vacuums = pv_inprogress_find(MyDatabaseId, relid);
	bool		done = false;
	ListCell   *lc;

	foreach(lc, vacuums)
	{
		PvInProgress *vacuum = lfirst(lc);

		if (vacuum->autovacuum ? pv_may_signal_autovacuum() :
			may_cancel_session(vacuum->role))
			done |= pv_inprogress_cancel(vacuum);
		else if (vacuum->autovacuum)
			refused->autovacuum = true;
		else
			refused->command = true;
	}
	return done;
}


/* ----------------------------------------------------------------
 *		SQL functions
 * ----------------------------------------------------------------
 */

static void
check_not_null(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("what to cancel must not be null"),
				 errhint("Name a table, or give the PID of a process.")));
}

Datum
parvacuum_cancel_pid(PG_FUNCTION_ARGS)
{
	int			pid;
	PvRunSeen	seen;
	bool		refused = false;
	bool		done;

	pv_hook_check_server("parvacuum_cancel()");
	check_not_null(fcinfo);
	pid = PG_GETARG_INT32(0);
	if (is_scheduler(pid))
	{
		if (!pv_may_signal_autovacuum())
			refuse_scheduler();
		PG_RETURN_BOOL(pv_queue_cancel_worker(pid));
	}
	if (!pv_runs_find_process(pid, &seen))
	{
		ereport(WARNING,
				(errmsg("PID %d is not a process of parvacuum that vacuums", pid)));
		PG_RETURN_BOOL(false);
	}
	done = cancel_run(&seen, InvalidOid, &refused);
	if (refused)
		refuse_run(ERROR);
	PG_RETURN_BOOL(done);
}

/*
 * Whoever of ours is at the table stops; queued, it is taken out of the queue until
 * the next pass.  What the current role may not cancel is an error; where it could cancel
 * something else, a warning.
 */
static bool
cancel_table(Oid relid)
{
	bool		may_all = pv_may_signal_autovacuum();
	bool		may_withdraw = may_all || may_vacuum(relid);
	PvWithdrawn withdrawn = PV_WITHDRAWN_NOTHING;
	Refused		refused = {false};
	bool		done;

	done = cancel_runs(relid, &refused.run);
	done |= cancel_in_progress(relid, &refused);
	if (may_withdraw)
		withdrawn = pv_queue_withdraw(relid, may_all);
	done |= withdrawn == PV_WITHDRAWN_DONE;

	if (!done && !may_withdraw)
		refuse_table();
	if (withdrawn == PV_WITHDRAWN_REFUSED)
		refuse_wraparound(done ? WARNING : ERROR, relid);
	if (refused.run)
		refuse_run(done ? WARNING : ERROR);
	if (refused.command)
		refuse_command(done ? WARNING : ERROR);
	if (refused.autovacuum)
		refuse_autovacuum(done ? WARNING : ERROR, relid);
	return done;
}

Datum
parvacuum_cancel_table(PG_FUNCTION_ARGS)
{
	pv_hook_check_server("parvacuum_cancel()");
	check_not_null(fcinfo);
	PG_RETURN_BOOL(cancel_table(PG_GETARG_OID(0)));
}

/*
 * A name in quotes could be a number as well as a table, if there were no function
 * that takes text.
 */
Datum
parvacuum_cancel_name(PG_FUNCTION_ARGS)
{
	Datum		relid;

	pv_hook_check_server("parvacuum_cancel()");
	check_not_null(fcinfo);
	relid = DirectFunctionCall1(text_regclass, PG_GETARG_DATUM(0));
	PG_RETURN_BOOL(cancel_table(DatumGetObjectId(relid)));
}
