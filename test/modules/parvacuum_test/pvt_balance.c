/*-------------------------------------------------------------------------
 *
 * pvt_balance.c
 *	  SQL functions that charge a balance of cost units, with a clock of the
 *	  test.
 *
 * A session has one balance.  Several processes are simulated, except for one
 * function in which background workers charge at the same time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/xact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "throttle/cost.h"

PG_FUNCTION_INFO_V1(parvacuum_test_account);
PG_FUNCTION_INFO_V1(parvacuum_test_charge);
PG_FUNCTION_INFO_V1(parvacuum_test_change_rate);
PG_FUNCTION_INFO_V1(parvacuum_test_account_units);
PG_FUNCTION_INFO_V1(parvacuum_test_payers);
PG_FUNCTION_INFO_V1(parvacuum_test_charge_together);
extern PGDLLEXPORT void parvacuum_test_payer_main(dsm_segment *seg,
												  shm_toc *toc);

#define KEY_SHARED		1
#define MAX_PAYERS		1000

static PvCostBalance session_account;

/* A new account. */
Datum
parvacuum_test_account(PG_FUNCTION_ARGS)
{
	pv_balance_init(&session_account);
	PG_RETURN_VOID();
}

/* Units, rate, the time in microseconds; returns the microseconds to wait. */
Datum
parvacuum_test_charge(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pv_balance_charge(&session_account, PG_GETARG_INT64(0),
									  PG_GETARG_INT64(1), PG_GETARG_INT64(2)));
}

/* The rate until now, that from now on, the time in microseconds. */
Datum
parvacuum_test_change_rate(PG_FUNCTION_ARGS)
{
	pv_balance_change_rate(&session_account, PG_GETARG_INT64(0),
						   PG_GETARG_INT64(1), PG_GETARG_INT64(2));
	PG_RETURN_VOID();
}

Datum
parvacuum_test_account_units(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pg_atomic_read_u64(&session_account.units));
}

/*
 * Processes that all begin at the same time.  Each works for some time, is
 * charged for it, sleeps as long as it has to and some time longer, and begins
 * again, until a number of seconds have passed.  The process whose work ends
 * next is charged next.
 */
Datum
parvacuum_test_payers(PG_FUNCTION_ARGS)
{
	int			npayers = PG_GETARG_INT32(0);
	int64		rate = PG_GETARG_INT64(1);
	int64		units = PG_GETARG_INT64(2);
	int64		work = PG_GETARG_INT64(3);
	int64		oversleep = PG_GETARG_INT64(4);
	int64		end = PG_GETARG_INT32(5) * INT64CONST(1000000);
	int64		done_at[MAX_PAYERS];
	int64		paid[MAX_PAYERS] = {0};
	int64		begin = INT64CONST(1000000000);
	int64		lowest = PG_INT64_MAX,
				highest = 0,
				longest = 0;
	PvCostBalance account;
	Datum		values[4];
	bool		nulls[4] = {0};
	TupleDesc	desc;

	if (npayers < 1 || npayers > MAX_PAYERS || work + oversleep < 1)
		elog(ERROR, "no such payers");
	pv_balance_init(&account);
	for (int i = 0; i < npayers; i++)
		done_at[i] = work;

	for (;;)
	{
		int			next = 0;
		int64		wait;

		for (int i = 1; i < npayers; i++)
		{
			if (done_at[i] < done_at[next])
				next = i;
		}
		if (done_at[next] > end)
			break;
		wait = pv_balance_charge(&account, units, rate, begin + done_at[next]);
		if (wait > 0)
			done_at[next] += wait + oversleep;
		done_at[next] += work;
		paid[next] += units;
		longest = Max(longest, wait);
	}
	for (int i = 0; i < npayers; i++)
	{
		lowest = Min(lowest, paid[i]);
		highest = Max(highest, paid[i]);
	}

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(pg_atomic_read_u64(&account.units));
	values[1] = Int64GetDatum(lowest);
	values[2] = Int64GetDatum(highest);
	values[3] = Int64GetDatum(longest);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

typedef struct PayersShared
{
	PvCostBalance account;
	int			ncharges;
	int64		units;
	int64		rate;
} PayersShared;

static void
charge_often(PayersShared *shared)
{
	for (int i = 0; i < shared->ncharges; i++)
		(void) pv_balance_charge(&shared->account, shared->units,
								 shared->rate, 0);
}

/* Entry point of a worker. */
void
parvacuum_test_payer_main(dsm_segment *seg, shm_toc *toc)
{
	charge_often(shm_toc_lookup(toc, KEY_SHARED, false));
}

/*
 * Several processes charge one balance often, while the clock stands still.
 * Returns the average distance, in microseconds, by which one charge has moved
 * it.
 */
Datum
parvacuum_test_charge_together(PG_FUNCTION_ARGS)
{
	ParallelContext *pcxt;
	PayersShared *shared;
	int64		ncharges;
	int64		before,
				after;

	EnterParallelMode();
	pcxt = CreateParallelContext("parvacuum_test", "parvacuum_test_payer_main",
								 PG_GETARG_INT32(0));
	shm_toc_estimate_chunk(&pcxt->estimator, sizeof(PayersShared));
	shm_toc_estimate_keys(&pcxt->estimator, 1);
	InitializeParallelDSM(pcxt);
	shared = shm_toc_allocate(pcxt->toc, sizeof(PayersShared));
	pv_balance_init(&shared->account);
	shared->ncharges = PG_GETARG_INT32(1);
	shared->units = PG_GETARG_INT64(2);
	shared->rate = PG_GETARG_INT64(3);
	shm_toc_insert(pcxt->toc, KEY_SHARED, shared);

	before = pv_balance_charge(&shared->account, 0, shared->rate, 0);
	LaunchParallelWorkers(pcxt);
	WaitForParallelWorkersToAttach(pcxt);
	charge_often(shared);
	WaitForParallelWorkersToFinish(pcxt);
	after = pv_balance_charge(&shared->account, 0, shared->rate, 0);

	ncharges = (pcxt->nworkers_launched + 1) * (int64) shared->ncharges;
	if (pg_atomic_read_u64(&shared->account.units) !=
		(uint64) (ncharges * shared->units))
		elog(ERROR, "units are lost");
	DestroyParallelContext(pcxt);
	ExitParallelMode();
	PG_RETURN_FLOAT8((after - before) / (double) ncharges);
}
