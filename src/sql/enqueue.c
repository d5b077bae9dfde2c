/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *	  parvacuum_enqueue(): asking the scheduler to vacuum a table soon.
 *
 * A session runs this.  It takes no lock but that of the queue (sched/queue.c), for a
 * moment at a time.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "entry/run.h"
#include "sched/queue.h"

PG_FUNCTION_INFO_V1(parvacuum_enqueue);

static void
check_scheduler(void)
{
	if (!pv_guc_scheduler)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the scheduler is not running"),
				 errhint("Set parvacuum.scheduler to on, or use parvacuum_run().")));
}

static void
check_priority(double priority, bool limited)
{
	if (!(priority > 0) || isinf(priority))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("priority must be a number greater than 0"),
				 errhint("It is compared to the scores in parvacuum_queue.")));
	if (limited && priority > PV_MOST_PRIORITY)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to give a priority above %d", PV_MOST_PRIORITY),
				 errhint("Only superusers, and from PostgreSQL 17 on members of pg_maintain, can give a higher one.")));
}

/* One call of parvacuum_enqueue(). */
typedef struct Request
{
	ReturnSetInfo *rsinfo;
	double		priority;
	bool		limited;		/* the role has a share of the queue */
	bool		has_place;		/* a relation has been given one */
	bool		told;			/* that another has found none */
} Request;

/* A row of the result. */
static void
put_row(Request *request, Oid relid, const char *result)
{
	Datum		values[] = {ObjectIdGetDatum(relid), CStringGetTextDatum(result)};
	bool		nulls[lengthof(values)] = {false};

	tuplestore_putvalues(request->rsinfo->setResult, request->rsinfo->setDesc,
						 values, nulls);
}

/*
 * There is no place.  That is an error if there was none for any relation before, and
 * nothing has been queued; then the rest is queued if it can be, after a warning.
 */
static void
report_no_place(Request *request, PvEnqueueResult why)
{
	int			elevel = request->has_place ? WARNING : ERROR;

	if (request->told)
		return;
	request->told = true;
	if (why == PV_ENQUEUE_FULL)
		ereport(elevel,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("the scheduler's queue is full"),
				 errhint("Use parvacuum_run(), or try again later.")));
	else
		ereport(elevel,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many tables enqueued by role \"%s\"",
						GetUserNameFromId(GetUserId(), false)),
				 errdetail("A role can have %d tables of a database in the scheduler's queue at a time, counting TOAST tables.",
						   pv_queue_share_of_role()),
				 errhint("Use parvacuum_run(), or try again when some of them have been vacuumed.")));
}

static void
enqueue_relation(Request *request, Oid relid, Oid toast_parent, BlockNumber pages)
{
	static const char *const words[] = {
		[PV_ENQUEUED] = "queued",
		[PV_ENQUEUED_BEFORE] = "already queued",
		[PV_ENQUEUED_HIGHER] = "priority raised",
		[PV_ENQUEUED_AGAIN] = "being vacuumed, queued again",
		[PV_ENQUEUE_FULL] = "no place",
		[PV_ENQUEUE_SHARE] = "no place",
	};
	PvEnqueueResult result = pv_queue_enqueue(relid, toast_parent, pages, request->priority,
											  GetUserId(), request->limited);

	if (result == PV_ENQUEUE_FULL || result == PV_ENQUEUE_SHARE)
		report_no_place(request, result);
	else
		request->has_place = true;
	put_row(request, relid, words[result]);
}

/*
 * Queue a table and its TOAST table; of one that is not the caller's, say so, as
 * an error if it was named.  What is gone is not queued.
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
		/* a child of the one that was named; only its session can vacuum it */
		put_row(request, relid, "temporary");
		return;
	}

	enqueue_relation(request, relid, InvalidOid, form->relpages);
	if (OidIsValid(form->reltoastrelid))
	{
		toast = SearchSysCache1(RELOID, ObjectIdGetDatum(form->reltoastrelid));
		if (HeapTupleIsValid(toast))
		{
			enqueue_relation(request, form->reltoastrelid, relid,
							 ((Form_pg_class) GETSTRUCT(toast))->relpages);
			ReleaseSysCache(toast);
		}
	}
}

/* The kinds of relations that can be queued, and not others. */
static void
check_relation(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errhint("Name the table.")));
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (form->relkind != RELKIND_RELATION && form->relkind != RELKIND_MATVIEW &&
		form->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or materialized view", NameStr(form->relname)),
				 errhint("A TOAST table is queued with its table.")));
	if (form->relisshared || form->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the scheduler cannot vacuum table \"%s\"", NameStr(form->relname)),
				 errdetail(form->relisshared ? "It is shared by all databases." : "It is temporary."),
				 errhint("Use VACUUM.")));
	ReleaseSysCache(tuple);
}

static void
check_not_null(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", name),
				 errhint("Name a table.  The priority can be left out.")));
}

/*
 * Have a table vacuumed as soon as its priority, as a score, comes first, whether
 * it needs it or not.  A table stands for its partitions or children as in VACUUM.
 * Returns a row for each of them, and for their TOAST tables.
 */
Datum
parvacuum_enqueue(PG_FUNCTION_ARGS)
{
	Request		request = {.limited = !pv_may_maintain_all(GetUserId())};
	Oid			relid;
	ListCell   *lc;

	pv_hook_check_server("parvacuum_enqueue()");
	check_not_null(fcinfo, 0, "rel");
	check_not_null(fcinfo, 1, "priority");
	relid = PG_GETARG_OID(0);
	request.priority = PG_GETARG_FLOAT8(1);
	check_scheduler();
	check_priority(request.priority, request.limited);
	check_relation(relid);
	InitMaterializedSRF(fcinfo, 0);
	request.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	foreach(lc, pv_expand_relation(relid, get_rel_relkind(relid)))
	{
		CHECK_FOR_INTERRUPTS();
		enqueue_one(&request, lfirst_oid(lc), lfirst_oid(lc) == relid ? ERROR : WARNING);
	}
	return (Datum) 0;
}
