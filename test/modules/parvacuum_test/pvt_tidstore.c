/*-------------------------------------------------------------------------
 *
 * pvt_tidstore.c
 *	  A SQL function that compares the rule for a bypass of indexes with that
 *	  of core, which depends on the memory of core's own store.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#if PG_VERSION_NUM >= 170000
#include "access/tidstore.h"
#endif
#include "funcapi.h"
#include "base/compat.h"
#include "base/tidstore.h"

PG_FUNCTION_INFO_V1(parvacuum_test_bypass);

/*
 * The offset of the last dead item of the nth block: all alike, or scattered.
 */
static OffsetNumber
last_offset(int n, int ndead, int last, bool jitter)
{
	return jitter ?
		ndead + (int) ((int64) n * 7919 % (last - ndead + 1)) : last;
}

static BlockNumber
block_number(int n, int every, bool jitter)
{
	int			shift = jitter ? (int) ((int64) n * 104729 % every) : 0;

	return (BlockNumber) (n * every + shift);
}

#if PG_VERSION_NUM >= 170000

/* Makes ndead offsets in ascending order, of which the highest is "last". */
static void
make_offsets(OffsetNumber *offsets, int ndead, OffsetNumber last)
{
	for (int i = 0; i < ndead; i++)
		offsets[i] = last - ndead + 1 + i;
}

static int64
blocks_of_core(int every, int ndead, int last, bool jitter, Size work_mem)
{
	OffsetNumber offsets[MaxOffsetNumber];
	TidStore   *store = TidStoreCreateLocal(work_mem, true);
	int			n = 0;

	while (TidStoreMemoryUsage(store) < 32 * 1024 * 1024)
	{
		make_offsets(offsets, ndead, last_offset(n, ndead, last, jitter));
		TidStoreSetBlockOffsets(store, block_number(n, every, jitter),
								offsets, ndead);
		n++;
	}
	TidStoreDestroy(store);
	return n;
}

#else

static int64
blocks_of_core(int every, int ndead, int last, bool jitter, Size work_mem)
{
	return (32 * 1024 * 1024 / 6 + ndead - 1) / ndead;
}

#endif

Datum
parvacuum_test_bypass(PG_FUNCTION_ARGS)
{
	int			every = PG_GETARG_INT32(0);
	int			ndead = PG_GETARG_INT32(1);
	int			last = PG_GETARG_INT32(2);
	bool		jitter = PG_GETARG_BOOL(3);
	Size		work_mem = (Size) PG_GETARG_INT32(4) * 1024 * 1024;
	PvTidStoreUse use = {0};
	int			n = 0;
	Datum		values[2];
	bool		nulls[2] = {false, false};
	TupleDesc	desc;

	while (pv_few_enough_to_bypass(&use, (int64) n * ndead, work_mem))
	{
		pv_tidstore_count(&use, block_number(n, every, jitter), ndead,
						  last_offset(n, ndead, last, jitter));
		n++;
	}
	values[0] = Int64GetDatum(blocks_of_core(every, ndead, last, jitter,
											 work_mem));
	values[1] = Int64GetDatum(n);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
