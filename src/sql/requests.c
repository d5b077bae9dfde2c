/*-------------------------------------------------------------------------
 *
 * requests.c
 *	  What a role may ask for a table: parvacuum_enqueue() has the scheduler
 *	  vacuum it soon, parvacuum_cancel() cancels its vacuum.
 *
 * Given a table, parvacuum_cancel() cancels any vacuum of it by the engine, no
 * matter what started that.  Given a PID, it cancels what a scheduler worker or
 * a background leader is doing; for sessions and autovacuum workers there is
 * pg_cancel_backend().  The signal must not hit a process that has gone on to
 * another table.  sched/queue_shmem.c ensures that for scheduler workers, and
 * stats/registry.c for all others.
 *
 * The session that calls the functions runs this.  It takes no locks but those
 * of the queue and of the registry, for a moment at a time.
 *
 * Core: storage/ipc/signalfuncs.c, pg_signal_backend.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "entry/failures.h"
#include "sched/queue.h"
#include "sql/call.h"
#include "stats/registry.h"

PG_FUNCTION_INFO_V1(parvacuum_enqueue);
PG_FUNCTION_INFO_V1(parvacuum_cancel_pid);
PG_FUNCTION_INFO_V1(parvacuum_cancel_table);
PG_FUNCTION_INFO_V1(parvacuum_cancel_name);

/* One call of parvacuum_enqueue(). */
typedef struct Request
{
	FunctionCallInfo fcinfo;
	bool		urgent;
	bool		limited;		/* the role may not vacuum all tables */
	bool		has_place;		/* there was a place for a relation */
	bool		reported;		/* that there was no place for another one */
} Request;

/* Put a row into the result. */
static void
put_row(Request *request, Oid relid, const char *result)
{
	PvRow		row = {0};

	pv_put_oid(&row, relid);
	pv_put_text(&row, result, GetDatabaseEncoding());
	pv_return_row(request->fcinfo, &row);
}

/*
 * Queue one relation, and put the result into a row.  If the role may have all
 * that it likes, former failures of the relation do not count any more.
 *
 * A full queue is an error if nothing has been queued before.  Otherwise warn
 * once, and queue the other relations if possible.
 */
static void
enqueue_relation(Request *request, Form_pg_class form, Oid toast_parent)
{
	static const char *const words[] = {
		[PV_ENQUEUED] = "queued",
		[PV_ENQUEUED_BEFORE] = "already queued",
		[PV_ENQUEUED_AGAIN] = "being vacuumed, queued again",
		[PV_ENQUEUE_FULL] = "no place",
	};
	PvItem		item = {
		.key = {MyDatabaseId, form->oid},
		.owner = form->relowner,
		.toast_parent = toast_parent,
		.pages = form->relpages,
		.urgent = request->urgent
	};
	PvEnqueueResult result;

	if (!request->limited)
		pv_failures_forget(form->oid, form->relowner, true);
	result = pv_queue_request(pv_queue_lock(LW_EXCLUSIVE), &item);
	pv_launcher_wake();
	pv_queue_unlock();
	if (result != PV_ENQUEUE_FULL)
		request->has_place = true;
	else if (!request->reported)
	{
		request->reported = true;
		ereport(request->has_place ? WARNING : ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("the scheduler's queue is full"),
				 errdetail("Places are kept for the tables of other owners and databases."),
				 errhint("Use parvacuum_run(), or try again later.")));
	}
	put_row(request, form->oid, words[result]);
}

/*
 * Queue a table and its TOAST table.  If the role has no right to vacuum the
 * table, report that at the given level.  Ignore a table that no longer
 * exists.
 */
static void
enqueue_one(Request *request, Oid relid, int elevel)
{
	Form_pg_class form = pv_class_row(relid);

	if (form == NULL)
		return;
	if (!pv_may_vacuum(relid))
	{
		pv_refuse_vacuum(elevel, NameStr(form->relname));
		put_row(request, relid, "permission denied");
		return;
	}
	if (form->relkind != RELKIND_RELATION && form->relkind != RELKIND_MATVIEW)
		return;
	if (form->relpersistence == RELPERSISTENCE_TEMP)
	{
		/* a child of the table named; only its session can vacuum it */
		put_row(request, relid, "temporary");
		return;
	}

	enqueue_relation(request, form, InvalidOid);
	form = pv_class_row(form->reltoastrelid);
	if (form != NULL)
		enqueue_relation(request, form, relid);
}

/* Raise an error if a relation of this kind cannot be queued. */
static void
check_relation(Oid relid)
{
	Form_pg_class form = pv_class_row(relid);

	if (form == NULL)
		pv_raise_no_relation(relid);
	if (form->relkind != RELKIND_RELATION &&
		form->relkind != RELKIND_MATVIEW &&
		form->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or materialized view", NameStr(form->relname)),
				 errhint("A TOAST table is queued with its table.")));
	if (form->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the scheduler cannot vacuum table \"%s\"", NameStr(form->relname)),
				 errdetail("It is temporary."),
				 errhint("Use VACUUM.")));
}

/*
 * parvacuum_enqueue(rel, urgent): have a table vacuumed soon, whether it needs
 * a vacuum or not.  As in VACUUM, a table stands for its partitions or
 * children.  Return a row for each of them, and for their TOAST tables.
 */
Datum
parvacuum_enqueue(PG_FUNCTION_ARGS)
{
	Request		request = {.limited = !pv_may_request_urgently()};
	Oid			relid;
	ListCell   *lc;

	pv_check_server("parvacuum_enqueue()");
	pv_check_not_null(fcinfo, 0, "rel", "Name the table to be vacuumed.");
	pv_check_not_null(fcinfo, 1, "urgent", PV_HINT_DEFAULT);
	relid = PG_GETARG_OID(0);
	request.urgent = PG_GETARG_BOOL(1);
	if (!pv_guc_scheduler)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the scheduler is not running"),
				 errhint("Set parvacuum.scheduler to on, or use parvacuum_run().")));
	if (request.urgent && request.limited)
		pv_refuse_urgent();
	check_relation(relid);
	InitMaterializedSRF(fcinfo, 0);
	request.fcinfo = fcinfo;

	foreach(lc, pv_expand_relation(relid, get_rel_relkind(relid)))
		enqueue_one(&request, lfirst_oid(lc),
					lfirst_oid(lc) == relid ? ERROR : WARNING);
	pv_report_left_out(relid);
	return (Datum) 0;
}

/*
 * Cancel a vacuum if it still is at the table; an invalid OID stands for any.
 * Return whether it was.  Set *refused if the current role has no right to.
 */
static bool
cancel(const PvVacuuming *vacuum, Oid relid, bool *refused)
{
	if (vacuum->started_by == PV_STARTED_BY_AUTOVACUUM ?
		pv_may_signal_autovacuum() : pv_may_cancel_session(vacuum->role))
		return pv_registry_cancel(vacuum, relid);
	*refused = true;
	return false;
}

/*
 * The same with the scheduler's vacuum of the table; a queued table is taken
 * out of the queue until the next database scan.
 */
static bool
cancel_scheduled(Oid relid, bool wraparound_too, bool *refused)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	PvWorkerSlot *slot = NULL;
	PvWithdrawn withdrawn = pv_queue_withdraw(queues, MyDatabaseId, relid,
											  wraparound_too, &slot);
	bool		canceled = withdrawn == PV_WITHDRAWN_RUNNING &&
		pv_queue_cancel(queues, slot);

	pv_queue_unlock();
	*refused = withdrawn == PV_WITHDRAWN_REFUSED;
	return canceled || withdrawn == PV_WITHDRAWN_DONE;
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
	bool		may_signal = pv_may_signal_autovacuum();
	bool		may_withdraw = may_signal ||
		(pv_class_row(relid) != NULL && pv_may_vacuum(relid));
	bool		refused[PV_STARTED_BY_FUNCTION + 1] = {false};
	PvVacuuming *vacuums;
	int			n = pv_registry_find(relid, &vacuums);
	bool		done = false;
	int			elevel;

	for (int i = 0; i < n; i++)
	{
		PvStartedBy started_by = vacuums[i].started_by;

		if (started_by != PV_STARTED_BY_SCHEDULER)
			done |= cancel(&vacuums[i], relid, &refused[started_by]);
	}
	if (may_withdraw)
		done |= cancel_scheduled(relid, may_signal,
								 &refused[PV_STARTED_BY_SCHEDULER]);
	elevel = done ? WARNING : ERROR;

	if (!done && !may_withdraw)
		pv_refuse_cancel(PV_CANCEL_TABLE, ERROR);
	if (refused[PV_STARTED_BY_SCHEDULER])
		pv_refuse_cancel(PV_CANCEL_WRAPAROUND, elevel);
	if (refused[PV_STARTED_BY_FUNCTION])
		pv_refuse_cancel(PV_CANCEL_RUN, elevel);
	if (refused[PV_STARTED_BY_COMMAND])
		pv_refuse_cancel(PV_CANCEL_COMMAND, elevel);
	if (refused[PV_STARTED_BY_AUTOVACUUM])
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
	bool		canceled;
	bool		refused = false;

	check_call(fcinfo, "pid");
	pid = PG_GETARG_INT32(0);
	if (pv_process_is(pid, PV_SCHED_TYPE))
	{
		if (!pv_may_signal_autovacuum())
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
	canceled = cancel(&vacuum, InvalidOid, &refused);
	if (refused)
		pv_refuse_cancel(PV_CANCEL_RUN, ERROR);
	PG_RETURN_BOOL(canceled);
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
