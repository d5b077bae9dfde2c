/*-------------------------------------------------------------------------
 *
 * pv_monitor.c
 *	  Looking at the scheduler, and telling it what to do.
 *
 * Sessions run this: the functions behind parvacuum_queue and its like.  They take
 * no locks but that of the queue (pv_queue.c), for a moment.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "pv_compat.h"
#include "pv_guc.h"
#include "pv_hook.h"
#include "pv_queue.h"
#include "pv_runner.h"
#include "pv_sched.h"
#include "pv_shmem.h"

PG_FUNCTION_INFO_V1(parvacuum_queue_items);
PG_FUNCTION_INFO_V1(parvacuum_scheduler_stats);
PG_FUNCTION_INFO_V1(parvacuum_cancel_pid);
PG_FUNCTION_INFO_V1(parvacuum_cancel_table);
PG_FUNCTION_INFO_V1(parvacuum_cancel_name);

#define QUEUE_COLUMNS			18
#define STATS_COLUMNS			11


/* ----------------------------------------------------------------
 *		Looking
 * ----------------------------------------------------------------
 */

/* What is to be done with it, as far as is known. */
static const char *
action_name(const PvItem *item)
{
	bool		vacuum = item->score.vacuum || item->priority > 0;

	if (vacuum && item->score.analyze)
		return "vacuum and analyze";
	return vacuum ? "vacuum" : "analyze";
}

/* Why it is not begun with, or NULL. */
static const char *
reason_name(const PvItem *item, bool lane_is_full)
{
	static const char *const names[] = {
		[PV_WAIT_NONE] = NULL,
		[PV_WAIT_WINDOW] = "window",
		[PV_WAIT_LOCK] = "lock",
		[PV_WAIT_HORIZON] = "horizon",
		[PV_WAIT_CANCELED] = "canceled",
		[PV_WAIT_ERROR] = "error",
	};

	if (item->state == PV_ITEM_QUEUED && lane_is_full &&
		item->pages >= PV_LARGE_PAGES)
		return "large tables";
	return names[item->reason];
}

/*
 * One row for each table that is queued, worked on, or waits.
 */
Datum
parvacuum_queue_items(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {
		[PV_ITEM_QUEUED] = "queued",
		[PV_ITEM_RUNNING] = "running",
		[PV_ITEM_WAITING] = "waiting",
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *items = NIL;
	ListCell   *lc;
	int			nlarge = 0;

	pv_hook_check_preloaded("parvacuum_queue");
	InitMaterializedSRF(fcinfo, 0);

	items = pv_queue_copy();
	foreach(lc, items)
	{
		PvItem	   *item = lfirst(lc);

		nlarge += item->state == PV_ITEM_RUNNING && item->pages >= PV_LARGE_PAGES;
	}

	foreach(lc, items)
	{
		PvItem	   *item = lfirst(lc);
		bool		running = item->state == PV_ITEM_RUNNING;
		const char *reason = reason_name(item, nlarge >= pv_max_large(pv_guc_scheduler_workers));
		Datum		values[QUEUE_COLUMNS];
		bool		nulls[QUEUE_COLUMNS] = {0};
		int			n = 0;

		values[n++] = ObjectIdGetDatum(item->key.database);
		values[n++] = ObjectIdGetDatum(item->key.relid);
		values[n++] = CStringGetTextDatum(states[item->state]);
		nulls[n] = reason == NULL;
		values[n++] = reason ? CStringGetTextDatum(reason) : (Datum) 0;
		values[n++] = TimestampTzGetDatum(item->state_since);
		nulls[n] = item->wait_until == 0;
		values[n++] = TimestampTzGetDatum(item->wait_until);
		nulls[n] = !running;
		values[n++] = Int32GetDatum(item->runner_pid);
		values[n++] = CStringGetTextDatum(action_name(item));
		values[n++] = BoolGetDatum(item->score.wraparound);
		values[n++] = CStringGetTextDatum(item->pages >= PV_LARGE_PAGES ? "large" : "small");
		values[n++] = Float8GetDatum(item->score.total);
		values[n++] = Float8GetDatum(item->score.dead);
		values[n++] = Float8GetDatum(item->score.inserted);
		values[n++] = Float8GetDatum(item->score.modified);
		values[n++] = Float8GetDatum(item->score.xid);
		values[n++] = Float8GetDatum(item->score.mxid);
		nulls[n] = item->priority == 0;
		values[n++] = Float8GetDatum(item->priority);
		values[n++] = Int64GetDatum(item->pages);
		Assert(n == QUEUE_COLUMNS);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * What was counted since the server started.
 */
Datum
parvacuum_scheduler_stats(PG_FUNCTION_ARGS)
{
	PvSchedulerCounters *counters;
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {0};
	TupleDesc	desc;
	int			n = 0;

	pv_hook_check_preloaded("parvacuum_scheduler_stats()");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	counters = pv_queue_counters();
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->passes));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->vacuums));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->analyzes));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->not_needed));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->skipped_horizon));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->skipped_window));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->skipped_lock));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->errors));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&counters->queue_full));
	values[n++] = Int64GetDatum(pg_atomic_read_u64(&pv_shmem_account()->units));
	values[n++] = Int64GetDatum(pv_shmem_rate());
	Assert(n == STATS_COLUMNS);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}


/* ----------------------------------------------------------------
 *		Cancelling
 * ----------------------------------------------------------------
 */

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
