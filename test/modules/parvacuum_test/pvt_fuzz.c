/*-------------------------------------------------------------------------
 *
 * pvt_fuzz.c
 *	  Fills dead-TID stores at random and compares them with a model.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "pvt_model.h"

PG_FUNCTION_INFO_V1(parvacuum_test_fuzz);

/* Reported with an error, so that the failing turn can be run again. */
typedef struct FuzzContext
{
	uint64		seed;
	int64		turn;
} FuzzContext;

/* Error context callback of parvacuum_test_fuzz(). */
static void
fuzz_context(void *arg)
{
	FuzzContext *fuzz = arg;

	errcontext("fuzzing with seed " INT64_FORMAT ", turn " INT64_FORMAT,
			   (int64) fuzz->seed, fuzz->turn);
}

/*
 * Fill a store at random: random handles fill segments in ascending order,
 * with gaps.  Returns at the end of the table, or when the store is full.
 */
static void
fuzz_fill(PvtStore *store, pg_prng_state *prng)
{
	const PvtShape *shape = pvt_random_shape(prng);
	int			max_offset = pg_prng_uint64_range(prng, 1, PV_MAX_OFFSET);
	int			max_gap = pg_prng_bool(prng) ? 1 : 100;
	int64		segno = 0;

	while (segno < pv_deadtids_nsegments(store->handles[0]))
	{
		int			handle = pg_prng_uint64_range(prng, 0,
												  store->nhandles - 1);

		if (pg_prng_uint64_range(prng, 0, 9) == 0)
			shape = pvt_random_shape(prng);
		if (!pvt_store_fill(store, handle, shape, max_offset, segno, prng))
		{
			if (pv_deadtids_num_items(store->handles[0]) == 0 &&
				store->nhandles == 1)
				elog(ERROR, "an empty store is full");
			break;
		}
		segno += pg_prng_uint64_range(prng, 1, max_gap);
		if (pg_prng_uint64_range(prng, 0, 19) == 0)
			pv_deadtids_publish(store->handles[handle]);
	}
	pvt_store_publish(store);
}

/*
 * Fill, check and reset one store of random size and kind, up to three times.
 */
static void
fuzz_turn(pg_prng_state *prng)
{
	bool		shared = pg_prng_bool(prng);
	int			nhandles = shared ? pg_prng_uint64_range(prng, 1, 4) : 1;
	BlockNumber nblocks = pg_prng_uint64_range(prng, 1, 20000);
	Size		limit = pg_prng_uint64_range(prng, 0, 256) * 1024;
	Size		reserve = shared ? pg_prng_uint64_range(prng, 0,
														64 * 1024) : 0;
	PvtStore   *store = pvt_store_create(nblocks, limit, shared, reserve,
										 nhandles);
	Size		empty = pv_deadtids_memory(store->handles[0]);
	int			fillings = pg_prng_uint64_range(prng, 1, 3);

	while (fillings-- > 0)
	{
		fuzz_fill(store, prng);
		pvt_store_check(store, prng);
		if (pv_deadtids_memory(store->handles[0]) >
			Max(limit, empty) + nhandles * PVT_OVERSHOOT)
			elog(ERROR, "the limit of %zu bytes is exceeded: %zu bytes", limit,
				 pv_deadtids_memory(store->handles[0]));
		pvt_store_reset(store, 0);
		pvt_store_check(store, prng);
	}
	pvt_store_drop(store);
}

/* Run fuzz_turn() for some seconds.  Returns the number of turns. */
Datum
parvacuum_test_fuzz(PG_FUNCTION_ARGS)
{
	TimestampTz end = GetCurrentTimestamp() +
		(int64) (PG_GETARG_FLOAT8(0) * USECS_PER_SEC);
	FuzzContext fuzz = {PG_GETARG_INT64(1), 0};
	ErrorContextCallback callback = {error_context_stack, fuzz_context, &fuzz};
	pg_prng_state prng;

	if (fuzz.seed == 0)
		fuzz.seed = (uint64) GetCurrentTimestamp();
	pg_prng_seed(&prng, fuzz.seed);
	error_context_stack = &callback;
	do
	{
		fuzz.turn++;
		fuzz_turn(&prng);
		CHECK_FOR_INTERRUPTS();
	} while (GetCurrentTimestamp() < end);
	error_context_stack = callback.previous;
	PG_RETURN_INT64(fuzz.turn);
}
