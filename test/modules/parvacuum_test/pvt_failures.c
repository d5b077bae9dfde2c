/*-------------------------------------------------------------------------
 *
 * pvt_failures.c
 *	  Tests of what is remembered of failing tables (entry/failures.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#include "entry/failures.h"
#include "pvt_queue.h"

PG_FUNCTION_INFO_V1(parvacuum_test_fail);
PG_FUNCTION_INFO_V1(parvacuum_test_failures);
PG_FUNCTION_INFO_V1(parvacuum_test_pause);

/* The tests' clock */
#define NOW						INT64CONST(1000000000000)

static HTAB *
get_table(void)
{
	static HTAB *failures = NULL;

	if (failures == NULL)
		pvt_make_hash(&failures, "failures", PV_MAX_FAILURES,
					  sizeof(PvFailureKey), sizeof(PvFailure));
	return failures;
}

Datum
parvacuum_test_fail(PG_FUNCTION_ARGS)
{
	PvFailureKey key = {1, PG_GETARG_OID(0), 0, 0};
	TimestampTz now = NOW - PG_GETARG_INT32(4) * USECS_PER_SEC;

	for (int rel = PG_GETARG_INT32(1); rel <= PG_GETARG_INT32(2); rel++)
	{
		key.relid = rel;
		for (int i = 0; i < PG_GETARG_INT32(3); i++)
			pv_failures_add(get_table(), &key, false, now);
	}
	PG_RETURN_VOID();
}

Datum
parvacuum_test_failures(PG_FUNCTION_ARGS)
{
	PvFailureKey key = {1, PG_GETARG_OID(0), PG_GETARG_INT32(1), 0};
	const PvFailure *failure = pv_failures_find(get_table(), &key);

	PG_RETURN_INT32(failure ? failure->count : 0);
}

Datum
parvacuum_test_pause(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8((double) pv_pause_after(PG_GETARG_INT32(0),
											 PG_GETARG_INT32(1) *
											 USECS_PER_SEC,
											 PG_GETARG_BOOL(2)) /
					 USECS_PER_SEC);
}
