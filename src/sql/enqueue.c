/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *	  parvacuum_enqueue(): has the scheduler vacuum a table soon.
 *
 * The session that calls it runs this.  It takes no lock but that of the queue
 * (sched/queue.c), for a moment at a time.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/settings.h"
#include "entry/failures.h"
#include "entry/relation.h"
#include "entry/rights.h"
#include "sched/queue.h"
#include "sql/call.h"
#include "sql/row.h"

PG_FUNCTION_INFO_V1(parvacuum_enqueue);

/*
 * Raise an error if the scheduler is off, since the table would stay in the
 * queue.
 */
static void
check_scheduler(void)
{
	if (!pv_guc_scheduler)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the scheduler is not running"),
				 errhint("Set parvacuum.scheduler to on, or use parvacuum_run().")));
}

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
 * Report that there is no place in the queue.  That is an error if nothing has
 * been queued before.  Otherwise warn once, and queue the other relations if
 * possible.
 */
static void
report_no_place(Request *request)
{
	if (request->reported)
		return;
	request->reported = true;
	ereport(request->has_place ? WARNING : ERROR,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("the scheduler's queue is full"),
			 errdetail("Places are kept for the tables of other owners and databases."),
			 errhint("Use parvacuum_run(), or try again later.")));
}

/*
 * Queue one relation, and put the result into a row.  If the role may have all
 * that it likes, former failures of the relation do not count any more.
 */
static void
enqueue_relation(Request *request, Oid relid, Oid owner, Oid toast_parent,
				 BlockNumber pages)
{
	static const char *const words[] = {
		[PV_ENQUEUED] = "queued",
		[PV_ENQUEUED_BEFORE] = "already queued",
		[PV_ENQUEUED_AGAIN] = "being vacuumed, queued again",
		[PV_ENQUEUE_FULL] = "no place",
	};
	PvItem		item = {
		.key = {MyDatabaseId, relid},
		.owner = owner,
		.toast_parent = toast_parent,
		.pages = pages,
		.urgent = request->urgent
	};
	PvEnqueueResult result;

	if (!request->limited)
		pv_failures_forget(relid, owner, true);
	result = pv_queue_request(pv_queue_lock(LW_EXCLUSIVE), &item);
	pv_queue_wake_launcher();
	pv_queue_unlock();
	if (result == PV_ENQUEUE_FULL)
		report_no_place(request);
	else
		request->has_place = true;
	put_row(request, relid, words[result]);
}

/*
 * Queue a table and its TOAST table.  If the role has no right to vacuum the
 * table, report that at the given level.  Ignore a table that no longer
 * exists.
 */
static void
enqueue_one(Request *request, Oid relid, int elevel)
{
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	HeapTuple	toast;
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (!pv_may_vacuum(relid, form->relisshared))
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

	enqueue_relation(request, relid, form->relowner, InvalidOid,
					 form->relpages);
	if (OidIsValid(form->reltoastrelid))
	{
		toast = SearchSysCache1(RELOID, ObjectIdGetDatum(form->reltoastrelid));
		if (HeapTupleIsValid(toast))
		{
			enqueue_relation(request, form->reltoastrelid, form->relowner,
							 relid,
							 ((Form_pg_class) GETSTRUCT(toast))->relpages);
			ReleaseSysCache(toast);
		}
	}
}

/* Raise an error if a relation of this kind cannot be queued. */
static void
check_relation(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errhint("Name the table to be vacuumed.")));
	form = (Form_pg_class) GETSTRUCT(tuple);
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
	ReleaseSysCache(tuple);
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
	pv_check_not_null(fcinfo, 1, "urgent",
					  "Omit the argument to use its default.");
	relid = PG_GETARG_OID(0);
	request.urgent = PG_GETARG_BOOL(1);
	check_scheduler();
	if (request.urgent && request.limited)
		pv_refuse_urgent();
	check_relation(relid);
	InitMaterializedSRF(fcinfo, 0);
	request.fcinfo = fcinfo;

	foreach(lc, pv_expand_relation(relid, get_rel_relkind(relid)))
	{
		CHECK_FOR_INTERRUPTS();
		enqueue_one(&request, lfirst_oid(lc),
					lfirst_oid(lc) == relid ? ERROR : WARNING);
	}
	pv_report_left_out(relid);
	return (Datum) 0;
}
