/*-------------------------------------------------------------------------
 *
 * pvt_plan.c
 *	  SQL functions that make the launcher's plan from a snapshot.
 *
 * Databases and queues are arrays of composite values; see
 * parvacuum_test--1.0.sql.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "sched/plan.h"
#include "sched/policy.h"

PG_FUNCTION_INFO_V1(parvacuum_test_plan);

#define SECOND					INT64CONST(1000000)
#define NOW						(1000000 * SECOND)

static Datum
field(HeapTupleHeader row, const char *name)
{
	bool		isnull;
	Datum		value = GetAttributeByName(row, name, &isnull);

	if (isnull)
		elog(ERROR, "%s is null", name);
	return value;
}

/* The elements of an array of rows. */
static HeapTupleHeader *
rows_of(ArrayType *array, int *n)
{
	Datum	   *elements;
	HeapTupleHeader *rows;

	deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_DOUBLE,
					  &elements, NULL, n);
	rows = palloc(Max(*n, 1) * sizeof(HeapTupleHeader));
	for (int i = 0; i < *n; i++)
		rows[i] = DatumGetHeapTupleHeader(elements[i]);
	return rows;
}

static int64
ago(HeapTupleHeader row, const char *name)
{
	return NOW - (int64) (DatumGetFloat8(field(row, name)) * SECOND);
}

static PvPlanDatabase *
read_databases(ArrayType *array, int *n)
{
	HeapTupleHeader *rows = rows_of(array, n);
	PvPlanDatabase *databases = palloc0(Max(*n, 1) * sizeof(PvPlanDatabase));

	for (int i = 0; i < *n; i++)
	{
		databases[i].oid = DatumGetInt32(field(rows[i], "database"));
		databases[i].counted = DatumGetBool(field(rows[i], "counted"));
		databases[i].age = DatumGetFloat8(field(rows[i], "age"));
		databases[i].due = ago(rows[i], "overdue");
		databases[i].hired_at = ago(rows[i], "stayed");
		databases[i].not_before = ago(rows[i], "may_since");
		databases[i].failed = DatumGetBool(field(rows[i], "failed"));
	}
	return databases;
}

static void
read_queues(ArrayType *array, PvQueueView *view)
{
	HeapTupleHeader *rows = rows_of(array, &view->n);

	for (int i = 0; i < view->n; i++)
	{
		PvQueueSummary *summary = &view->summaries[i];

		summary->database = DatumGetInt32(field(rows[i], "database"));
		summary->top_score = DatumGetFloat8(field(rows[i], "top_score"));
		summary->top_danger = DatumGetBool(field(rows[i], "top_danger"));
		summary->nqueued = DatumGetInt32(field(rows[i], "queued"));
		summary->nworkers = DatumGetInt32(field(rows[i], "workers"));
		summary->nleaving = DatumGetInt32(field(rows[i], "leaving"));
		summary->nleaving_soon = summary->nleaving;
		summary->nmovable = DatumGetInt32(field(rows[i], "movable"));
		summary->nfree = DatumGetInt32(field(rows[i], "free"));
		summary->nexpected = DatumGetInt32(field(rows[i], "expected"));
		summary->scan_pending = DatumGetBool(field(rows[i], "scan_pending"));
		view->nworkers += summary->nworkers;
	}
}

/* The actions, as text, in order. */
Datum
parvacuum_test_plan(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {
		"launch", "request scan", "ask to leave"
	};
	PvSnapshot	snapshot = {0};
	PvPlan		plan;
	ArrayBuildState *actions = NULL;
	Datum		values[2];
	bool		nulls[2] = {0};
	TupleDesc	desc;

	snapshot.now = NOW;
	snapshot.naptime = PG_GETARG_INT32(3) * SECOND;
	snapshot.nworkers = PG_GETARG_INT32(2);
	snapshot.databases = read_databases(PG_GETARG_ARRAYTYPE_P(0),
										&snapshot.ndatabases);
	read_queues(PG_GETARG_ARRAYTYPE_P(1), &snapshot.view);
	snapshot.view.nlarge = PG_GETARG_INT32(4);
	snapshot.view.full = snapshot.view.none_to_take = PG_GETARG_BOOL(5);
	snapshot.no_process = PG_GETARG_BOOL(6);
	pv_plan(&snapshot, &plan);

	for (int i = 0; i < plan.n; i++)
	{
		const PvAction *action = &plan.actions[i];
		char	   *text =
			psprintf("%s %u%s%s", names[action->kind], action->database,
					 action->to_scan ? " to scan" : "",
					 action->takes_queue ? " taking a queue" : "");

		actions = accumArrayResult(actions, CStringGetTextDatum(text), false,
								   TEXTOID, CurrentMemoryContext);
	}
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = actions ? makeArrayResult(actions, CurrentMemoryContext) :
		PointerGetDatum(construct_empty_array(TEXTOID));
	values[1] = BoolGetDatum(plan.satisfied);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
