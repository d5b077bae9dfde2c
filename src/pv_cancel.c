/*-------------------------------------------------------------------------
 *
 * pv_cancel.c
 *	  Having a vacuum given up: parvacuum_cancel().
 *
 * Two kinds of processes can be cancelled: runners of the scheduler, and the processes that
 * vacuum for parvacuum_run() and CALL parvacuum().  VACUUM and core's autovacuum are left
 * alone; pg_cancel_backend() is for them.
 *
 * Rights.  A runner of the scheduler is to the server what an autovacuum worker is: it acts for
 * nobody, and what it prevents is everybody's loss.  So its process can be cancelled by those who
 * may cancel autovacuum workers.  Who may vacuum a table may also have the scheduler give that
 * table up, as he could have it give way to a lock; but not a vacuum that prevents wraparound,
 * which does not give way to a lock either.  A process that vacuums for a caller is the
 * caller's, and the rules of pg_cancel_backend() hold.
 *
 * Exactness.  A request names a table, and must not hit a process that is at another one by the
 * time the signal comes.  How that is excluded for runners is said in pv_queue.c, forget_cancel().
 * A process that vacuums for a caller ends when it is cancelled, whatever table it is at,
 * since its caller gets the error; see cancel_run() for what is left to chance there.
 *
 * Core: storage/ipc/signalfuncs.c, pg_signal_backend.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "pv_compat.h"
#include "pv_hook.h"
#include "pv_queue.h"
#include "pv_runner.h"
#include "pv_sched.h"

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
	may = pv_runner_may_vacuum(relid, ((Form_pg_class) GETSTRUCT(tuple))->relisshared);
	ReleaseSysCache(tuple);
	return may;
}

/*
 * May the current role cancel a process that vacuums for a caller?
 * Core: signalfuncs.c, pg_signal_backend.
 */
static bool
may_cancel_run(const PgBackendStatus *status)
{
	if (superuser_arg(status->st_userid))
		return superuser();
	return has_privs_of_role(GetUserId(), status->st_userid) ||
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
					pv_runner_relname(relid)),
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


/* ----------------------------------------------------------------
 *		Processes that vacuum for a caller
 * ----------------------------------------------------------------
 */

/* Is it our background worker of that type? */
static bool
is_of_type(int pid, const char *type)
{
	const char *its_type = GetBackgroundWorkerTypeByPid(pid);

	return its_type != NULL && strcmp(its_type, type) == 0;
}

/* What core knows of the process now; NULL if it is gone. */
static const PgBackendStatus *
status_of(int pid)
{
	pgstat_clear_backend_activity_snapshot();
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const PgBackendStatus *status = pv_backend_status(i);

		if (status->st_procpid == pid)
			return status;
	}
	return NULL;
}

static bool
is_at(const PgBackendStatus *status, Oid relid)
{
	return status->st_databaseid == MyDatabaseId &&
		status->st_progress_command == PROGRESS_COMMAND_VACUUM &&
		status->st_progress_command_target == relid;
}

/*
 * Cancel a run, if it is one and at the table; an invalid OID stands for any.  *refused is set
 * if it is not the current role's to cancel.
 *
 * Looked at right before the signal, as in pg_cancel_backend(), and with the same gap: what ends
 * between the look and the signal may be another process by then, if the system gives its PID
 * away that soon; and a run of several tables may be at the next one.
 */
static bool
cancel_run(int pid, Oid relid, bool *refused)
{
	const PgBackendStatus *status = status_of(pid);

	if (status == NULL || !is_of_type(pid, PV_RUNNER_TYPE) ||
		(OidIsValid(relid) && !is_at(status, relid)))
		return false;
	if (!may_cancel_run(status))
	{
		*refused = true;
		return false;
	}
	if (kill(pid, SIGINT) == 0)
		return true;
	ereport(WARNING,
			(errmsg("could not send signal to process %d: %m", pid)));
	return false;
}

/* Cancel the runs that are at the table. */
static bool
cancel_runs(Oid relid, bool *refused)
{
	List	   *pids = NIL;
	ListCell   *lc;
	bool		done = false;

	pgstat_clear_backend_activity_snapshot();
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const PgBackendStatus *status = pv_backend_status(i);

		if (is_at(status, relid))
			pids = lappend_int(pids, status->st_procpid);
	}
	foreach(lc, pids)
		done |= cancel_run(lfirst_int(lc), relid, refused);
	return done;
}


/* ----------------------------------------------------------------
 *		SQL functions
 * ----------------------------------------------------------------
 */

Datum
parvacuum_cancel_pid(PG_FUNCTION_ARGS)
{
	int			pid = PG_GETARG_INT32(0);
	bool		refused = false;
	bool		done;

	pv_hook_check_server("parvacuum_cancel()");
	if (is_of_type(pid, PV_SCHED_TYPE))
	{
		if (!pv_may_signal_autovacuum())
			refuse_scheduler();
		PG_RETURN_BOOL(pv_queue_cancel_runner(pid));
	}
	if (!is_of_type(pid, PV_RUNNER_TYPE))
	{
		ereport(WARNING,
				(errmsg("PID %d is not a process of parvacuum that vacuums", pid)));
		PG_RETURN_BOOL(false);
	}
	done = cancel_run(pid, InvalidOid, &refused);
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
	bool		refused = false;
	bool		done;

	pv_hook_check_server("parvacuum_cancel()");
	if (!may_withdraw && !has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND))
		refuse_table();

	done = cancel_runs(relid, &refused);
	if (may_withdraw)
		withdrawn = pv_queue_withdraw(relid, may_all);
	done |= withdrawn == PV_WITHDRAWN_DONE;

	if (!done && !may_withdraw)
		refuse_table();
	if (withdrawn == PV_WITHDRAWN_REFUSED)
		refuse_wraparound(done ? WARNING : ERROR, relid);
	if (refused)
		refuse_run(done ? WARNING : ERROR);
	return done;
}

Datum
parvacuum_cancel_table(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(cancel_table(PG_GETARG_OID(0)));
}

/*
 * A name in quotes could be a number as well as a table, if there were no function
 * that takes text.
 */
Datum
parvacuum_cancel_name(PG_FUNCTION_ARGS)
{
	Datum		relid = DirectFunctionCall1(text_regclass, PG_GETARG_DATUM(0));

	PG_RETURN_BOOL(cancel_table(DatumGetObjectId(relid)));
}
