/*-------------------------------------------------------------------------
 *
 * pv_enqueue.c
 *	  parvacuum_enqueue(): asking the scheduler to vacuum a table soon.
 *
 * A session runs this.  It takes no lock but that of the queue (pv_queue.c), for a
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
#include "miscadmin.h"
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

static void
enqueue_relation(Oid relid, Oid toast_parent, BlockNumber pages, double priority)
{
	bool		limited = !pv_may_maintain_all(GetUserId());

	switch (pv_queue_enqueue(relid, toast_parent, pages, priority, GetUserId(), limited))
	{
		case PV_ENQUEUED:
			break;
		case PV_ENQUEUE_FULL:
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("the scheduler's queue is full"),
					 errhint("Use parvacuum_run(), or try again later.")));
			break;
		case PV_ENQUEUE_SHARE:
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many tables enqueued by role \"%s\"",
							GetUserNameFromId(GetUserId(), false)),
					 errdetail("A role can have %d tables of a database in the scheduler's queue at a time, counting TOAST tables.",
							   pv_queue_share_of_role()),
					 errhint("Use parvacuum_run(), or try again when some of them have been vacuumed.")));
			break;
	}
}

/*
 * Queue a table and its TOAST table; of one that is not the caller's, say so, as
 * an error if it was named.  What is gone is not queued.
 */
static void
enqueue_one(Oid relid, double priority, int elevel)
{
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	HeapTuple	toast;
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (!pv_runner_may_vacuum(relid, form->relisshared))
	{
		pv_runner_refuse(elevel, NameStr(form->relname));
		return;
	}
	if (form->relkind != RELKIND_RELATION && form->relkind != RELKIND_MATVIEW)
		return;
	if (form->relpersistence == RELPERSISTENCE_TEMP)
		return;					/* a child of the one that was named; only its session can */

	enqueue_relation(relid, InvalidOid, form->relpages, priority);
	if (OidIsValid(form->reltoastrelid))
	{
		toast = SearchSysCache1(RELOID, ObjectIdGetDatum(form->reltoastrelid));
		if (HeapTupleIsValid(toast))
		{
			enqueue_relation(form->reltoastrelid, relid,
							 ((Form_pg_class) GETSTRUCT(toast))->relpages, priority);
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

/*
 * Have a table vacuumed as soon as its priority, as a score, comes first, whether
 * it needs it or not.  A table stands for its partitions or children as in VACUUM.
 */
Datum
parvacuum_enqueue(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	double		priority = PG_GETARG_FLOAT8(1);
	ListCell   *lc;

	pv_hook_check_server("parvacuum_enqueue()");
	check_scheduler();
	check_priority(priority, !pv_may_maintain_all(GetUserId()));
	check_relation(relid);

	foreach(lc, pv_runner_expand(relid, get_rel_relkind(relid)))
	{
		CHECK_FOR_INTERRUPTS();
		enqueue_one(lfirst_oid(lc), priority, lfirst_oid(lc) == relid ? ERROR : WARNING);
	}
	PG_RETURN_VOID();
}
