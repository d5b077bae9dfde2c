/*-------------------------------------------------------------------------
 *
 * pvt_plan.c
 *	  SQL functions that make the launcher's plan from a snapshot.
 *
 * The databases are an array of composite values; see parvacuum_test--1.0.sql.
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
#include "utils/array.h"
#include "utils/builtins.h"

#include "sched/plan.h"
#include "sched/policy.h"

PG_FUNCTION_INFO_V1(parvacuum_test_plan);

#define SECOND					INT64CONST(1000000)
#define NOW						(1000000 * SECOND)

/* Now plus or minus so many seconds; PV_NEVER if the element is NULL. */
static TimestampTz
ago(HeapTupleHeader row, const char *name)
{
	bool		isnull;
	Datum		value = GetAttributeByName(row, name, &isnull);

	return isnull ? PV_NEVER : NOW - (int64) (DatumGetFloat8(value) * SECOND);
}

static Datum
field(HeapTupleHeader row, const char *name)
{
	bool		isnull;
	Datum		value = GetAttributeByName(row, name, &isnull);

	if (isnull)
		elog(ERROR, "%s is null", name);
	return value;
}

static void
read_database(HeapTupleHeader row, PvPlanDatabase *database)
{
	memset(database, 0, sizeof(*database));
	database->oid = DatumGetInt32(field(row, "database"));
	database->counted = DatumGetBool(field(row, "counted"));
	database->age = DatumGetFloat8(field(row, "age"));
	database->due = ago(row, "overdue");
	database->not_before = ago(row, "may_since");
	database->started_at = ago(row, "stayed");
	database->failed = DatumGetBool(field(row, "failed"));
	database->nworkers = DatumGetInt32(field(row, "workers"));
	database->expected = DatumGetBool(field(row, "expected"));
	database->scan_requested = ago(row, "requested");
	database->first.turn = ago(row, "turn");
	database->has_first = database->first.turn != PV_NEVER;
	database->first.charge = DatumGetFloat8(field(row, "charge"));
	database->first.age = DatumGetFloat8(field(row, "danger"));
	database->first.danger = database->first.age > 0;
	database->first_is_large = DatumGetBool(field(row, "large"));
}

/* The actions, as text, in order. */
Datum
parvacuum_test_plan(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {
		"launch", "launch to scan", "request scan", "call back for"
	};
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	PvSnapshot	snapshot = {
		.now = NOW,
		.nfree = PG_GETARG_INT32(1),
		.nlarge = PG_GETARG_INT32(2)
	};
	PvPlanDatabase *databases;
	PvPlan		plan;
	ArrayBuildState *actions = NULL;
	Datum	   *elements;

	deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_DOUBLE,
					  &elements, NULL, &snapshot.n);
	databases = palloc(Max(snapshot.n, 1) * sizeof(PvPlanDatabase));
	for (int i = 0; i < snapshot.n; i++)
		read_database(DatumGetHeapTupleHeader(elements[i]), &databases[i]);
	snapshot.databases = databases;
	pv_plan(&snapshot, &plan);

	for (int i = 0; i < plan.n; i++)
	{
		const PvAction *action = &plan.actions[i];
		char	   *text = psprintf("%s %u%s", names[action->kind],
									databases[action->which].oid,
									action->large ? ", large" : "");

		actions = accumArrayResult(actions, CStringGetTextDatum(text), false,
								   TEXTOID, CurrentMemoryContext);
	}
	PG_RETURN_DATUM(actions ? makeArrayResult(actions, CurrentMemoryContext) :
					PointerGetDatum(construct_empty_array(TEXTOID)));
}
