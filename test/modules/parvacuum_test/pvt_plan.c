/*-------------------------------------------------------------------------
 *
 * pvt_plan.c
 *	  SQL functions that say what the launcher does with databases.
 *
 * The databases are an array of composite values; see parvacuum_test--1.0.sql.
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
read_database(HeapTupleHeader row, PvDatabase *database)
{
	memset(database, 0, sizeof(*database));
	database->oid = DatumGetInt32(field(row, "database"));
	database->counted = DatumGetBool(field(row, "counted"));
	database->age = DatumGetFloat8(field(row, "age"));
	database->due = ago(row, "overdue");
	database->not_before = ago(row, "may_since");
	database->started_at = ago(row, "stayed");
	database->nfailures = DatumGetBool(field(row, "failed"));
	database->nworkers = DatumGetInt32(field(row, "workers"));
	database->expected = DatumGetBool(field(row, "expected"));
	database->first.turn = ago(row, "turn");
	database->has_first = database->first.turn != PV_NEVER;
	database->first.charge = DatumGetFloat8(field(row, "charge"));
	database->first.age = DatumGetFloat8(field(row, "danger"));
	database->first.danger = database->first.age > 0;
	database->first_is_large = DatumGetBool(field(row, "large"));
}

static void
add(ArrayBuildState *actions, const char *format, Oid database)
{
	(void) accumArrayResult(actions,
							CStringGetTextDatum(psprintf(format, database)),
							false, TEXTOID, CurrentMemoryContext);
}

/* What it does, as text, in order. */
Datum
parvacuum_test_plan(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	PvDatabases all = {
		.now = NOW,
		.nfree = PG_GETARG_INT32(1),
		.nlarge = PG_GETARG_INT32(2)
	};
	PvNextWorker next;
	ArrayBuildState *actions = initArrayResult(TEXTOID, CurrentMemoryContext,
											   false);
	Datum	   *elements;

	deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_DOUBLE,
					  &elements, NULL, &all.n);
	all.list = palloc(Max(all.n, 1) * sizeof(PvDatabase));
	for (int i = 0; i < all.n; i++)
		read_database(DatumGetHeapTupleHeader(elements[i]), &all.list[i]);
	while (pv_next_worker(&all, &next))
		add(actions, next.to_scan ? next.large ? "launch to scan %u, large" :
			"launch to scan %u" : next.large ? "launch %u, large" : "launch %u",
			next.database->oid);
	PG_RETURN_DATUM(makeArrayResult(actions, CurrentMemoryContext));
}
