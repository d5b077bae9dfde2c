/*-------------------------------------------------------------------------
 *
 * pv_cancel.c
 *	  Having a vacuum given up: parvacuum_cancel().
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


/* Has the role the right to vacuum the table, or to cancel anything? */
static bool
may_cancel(Oid relid)
{
	HeapTuple	tuple;
	bool		may;

	if (superuser() || has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND))
		return true;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	may = pv_runner_may_vacuum(relid, ((Form_pg_class) GETSTRUCT(tuple))->relisshared);
	ReleaseSysCache(tuple);
	return may;
}

static void
refuse_cancel(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel a vacuum"),
			 errhint("Only who may vacuum the table, or a member of pg_signal_backend, can cancel it.")));
}

static void
refuse_cancel_run(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel a run of parvacuum"),
			 errhint("Only those who may cancel its caller can cancel it.")));
}

/*
 * Refuse who may not cancel this process, at a table or at none.  A runner of the
 * scheduler is nobody's; one of parvacuum_run() is its caller's, as for
 * pg_cancel_backend().
 */
static void
check_may_cancel(const PgBackendStatus *status, Oid relid)
{
	const char *type = GetBackgroundWorkerTypeByPid(status->st_procpid);

	if (type == NULL || strcmp(type, PV_RUNNER_TYPE) != 0)
	{
		if (!may_cancel(relid))
			refuse_cancel();
	}
	else if ((superuser_arg(status->st_userid) && !superuser()) ||
			 (!has_privs_of_role(GetUserId(), status->st_userid) &&
			  !has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND)))
		refuse_cancel_run();
}

/* Is it one of our processes that vacuum? */
static bool
is_runner(int pid)
{
	const char *type = GetBackgroundWorkerTypeByPid(pid);

	return type != NULL &&
		(strcmp(type, PV_SCHED_TYPE) == 0 || strcmp(type, PV_RUNNER_TYPE) == 0);
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

/* Its table is given up; a runner of the scheduler goes on with the next. */
static bool
cancel_process(int pid)
{
	if (kill(pid, SIGINT) == 0)
		return true;
	ereport(WARNING,
			(errmsg("could not send signal to process %d: %m", pid)));
	return false;
}

Datum
parvacuum_cancel_pid(PG_FUNCTION_ARGS)
{
	int			pid = PG_GETARG_INT32(0);
	const PgBackendStatus *status = status_of(pid);
	Oid			database = InvalidOid;
	Oid			relid = InvalidOid;

	pv_hook_check_server("parvacuum_cancel()");
	if (status == NULL || !is_runner(pid))
	{
		ereport(WARNING,
				(errmsg("PID %d is not a process of parvacuum that vacuums", pid)));
		PG_RETURN_BOOL(false);
	}
	if (!pv_queue_runner_of(pid, &database, &relid) || database != MyDatabaseId)
		relid = InvalidOid;
	check_may_cancel(status, relid);
	PG_RETURN_BOOL(cancel_process(pid));
}

/*
 * Whoever of ours is at the table stops; queued, it is taken out of the queue until
 * the next pass.
 */
static bool
cancel_table(Oid relid)
{
	int			runner_pid;
	bool		done;

	pv_hook_check_server("parvacuum_cancel()");
	if (!may_cancel(relid))
		refuse_cancel();

	done = pv_queue_withdraw(relid, &runner_pid);
	if (runner_pid != 0)
		done = cancel_process(runner_pid);

	pgstat_clear_backend_activity_snapshot();
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const PgBackendStatus *status = pv_backend_status(i);

		if (status->st_databaseid != MyDatabaseId ||
			status->st_progress_command != PROGRESS_COMMAND_VACUUM ||
			status->st_progress_command_target != relid ||
			status->st_procpid == runner_pid || !is_runner(status->st_procpid))
			continue;
		check_may_cancel(status, relid);
		done |= cancel_process(status->st_procpid);
	}
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
