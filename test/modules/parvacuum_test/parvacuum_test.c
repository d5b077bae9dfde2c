/*-------------------------------------------------------------------------
 *
 * parvacuum_test.c
 *	  SQL functions that drive the dead-TID store and compare it with a model.
 *
 * A session has one store at a time, local or shared.  Each handle on it acts
 * as one participant.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pvt_model.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(parvacuum_test_container);
PG_FUNCTION_INFO_V1(parvacuum_test_all_containers);
PG_FUNCTION_INFO_V1(parvacuum_test_create);
PG_FUNCTION_INFO_V1(parvacuum_test_reset);
PG_FUNCTION_INFO_V1(parvacuum_test_begin);
PG_FUNCTION_INFO_V1(parvacuum_test_block);
PG_FUNCTION_INFO_V1(parvacuum_test_end);
PG_FUNCTION_INFO_V1(parvacuum_test_publish);
PG_FUNCTION_INFO_V1(parvacuum_test_fill);
PG_FUNCTION_INFO_V1(parvacuum_test_check);
PG_FUNCTION_INFO_V1(parvacuum_test_probe);
PG_FUNCTION_INFO_V1(parvacuum_test_layout);
PG_FUNCTION_INFO_V1(parvacuum_test_figures);

/* The session's store; NULL before parvacuum_test_create(). */
static PvtStore *session_store = NULL;

/* The session's store, or an error. */
static PvtStore *
get_store(void)
{
	if (session_store == NULL)
		elog(ERROR, "there is no store");
	return session_store;
}

/* The number of a handle of the session's store, given as an argument. */
static int
get_handle(FunctionCallInfo fcinfo, int arg)
{
	int			handle = PG_GETARG_INT32(arg);

	if (handle < 0 || handle >= get_store()->nhandles)
		elog(ERROR, "there is no handle %d", handle);
	return handle;
}

/*
 * An int[] argument as offsets, in *offsets.  Returns their number.  The
 * elements need not be valid offsets, but fit in 16 bits.
 */
static int
get_offsets(FunctionCallInfo fcinfo, int arg, OffsetNumber **offsets)
{
	Datum	   *elements;
	int			n;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), INT4OID, sizeof(int32), true,
					  TYPALIGN_INT, &elements, NULL, &n);
	*offsets = palloc(Max(n, 1) * sizeof(OffsetNumber));
	for (int i = 0; i < n; i++)
		(*offsets)[i] = (OffsetNumber) DatumGetInt32(elements[i]);
	return n;
}


/*-------------------------------------------------------------------------
 * Containers
 *-------------------------------------------------------------------------
 */

/* Check one container.  Returns its kind and size as text. */
Datum
parvacuum_test_container(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"array", "bitmap", "runs"};
	OffsetNumber *offsets;
	int			n = get_offsets(fcinfo, 0, &offsets);
	PvContainerKind kind;
	int			bytes;

	pvt_check_container(offsets, n, &kind, &bytes);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s, %d bytes", names[kind],
											  bytes)));
}

/*
 * Check all containers of one run, of two offsets, and of all offsets but one.
 * Returns their number.
 */
Datum
parvacuum_test_all_containers(PG_FUNCTION_ARGS)
{
	OffsetNumber offsets[PV_MAX_OFFSET];
	PvContainerKind kind;
	int			bytes;
	int64		checked = 0;

	for (int first = 1; first <= PV_MAX_OFFSET; first++)
	{
		for (int last = first; last <= PV_MAX_OFFSET; last++)
		{
			OffsetNumber pair[2] = {first, last};

			for (int i = 0; i <= last - first; i++)
				offsets[i] = first + i;
			pvt_check_container(offsets, last - first + 1, &kind, &bytes);
			if (last > first)
				pvt_check_container(pair, 2, &kind, &bytes);
			checked += 1 + (last > first);
		}
		CHECK_FOR_INTERRUPTS();
	}
	for (int gap = 1; gap <= PV_MAX_OFFSET; gap++)
	{
		for (int i = 0; i < PV_MAX_OFFSET - 1; i++)
			offsets[i] = i + 1 + (i + 1 >= gap);
		pvt_check_container(offsets, PV_MAX_OFFSET - 1, &kind, &bytes);
		checked++;
	}
	PG_RETURN_INT64(checked);
}


/*-------------------------------------------------------------------------
 * The session's store
 *-------------------------------------------------------------------------
 */

/*
 * Drop the session's store, if there is one; also a callback for the session's
 * end.
 */
static void
drop_store(int code, Datum arg)
{
	PvtStore   *store = session_store;

	session_store = NULL;
	if (store != NULL)
		pvt_store_drop(store);
}

/* Replace the session's store by a new one. */
Datum
parvacuum_test_create(PG_FUNCTION_ARGS)
{
	static bool registered = false;
	BlockNumber nblocks = PG_GETARG_INT64(0);
	Size		limit = PG_GETARG_INT64(1);
	bool		shared = PG_GETARG_BOOL(2);
	Size		reserve = PG_GETARG_INT64(3);
	int			nhandles = PG_GETARG_INT32(4);

	if (!registered)
		before_shmem_exit(drop_store, 0);
	registered = true;
	drop_store(0, 0);
	session_store = pvt_store_create(nblocks, limit, shared, reserve,
									 nhandles);
	PG_RETURN_VOID();
}

/* Remove all items from the store. */
Datum
parvacuum_test_reset(PG_FUNCTION_ARGS)
{
	pvt_store_reset(get_store(), get_handle(fcinfo, 0));
	PG_RETURN_VOID();
}

/* Begin a segment.  False if the store is full. */
Datum
parvacuum_test_begin(PG_FUNCTION_ARGS)
{
	uint32		segno = PG_GETARG_INT64(0);
	int			handle = get_handle(fcinfo, 1);

	PG_RETURN_BOOL(pv_deadtids_begin_segment(get_store()->handles[handle],
											 segno));
}

/* Add a block to the current segment. */
Datum
parvacuum_test_block(PG_FUNCTION_ARGS)
{
	BlockNumber blk = PG_GETARG_INT64(0);
	OffsetNumber *offsets;
	int			n = get_offsets(fcinfo, 1, &offsets);

	pvt_store_block(get_store(), get_handle(fcinfo, 2), blk, offsets, n);
	PG_RETURN_VOID();
}

/* End the current segment. */
Datum
parvacuum_test_end(PG_FUNCTION_ARGS)
{
	int			handle = get_handle(fcinfo, 0);

	pv_deadtids_end_segment(get_store()->handles[handle]);
	PG_RETURN_VOID();
}

/* Publish the segments that the handle has ended. */
Datum
parvacuum_test_publish(PG_FUNCTION_ARGS)
{
	int			handle = get_handle(fcinfo, 0);

	pv_deadtids_publish(get_store()->handles[handle]);
	PG_RETURN_VOID();
}

/*
 * Fill segments at random, and publish them.  Returns the number of segments
 * that were filled before the store was full.
 */
Datum
parvacuum_test_fill(PG_FUNCTION_ARGS)
{
	PvtStore   *store = get_store();
	const PvtShape *shape =
		pvt_find_shape(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	uint32		first = PG_GETARG_INT64(1);
	int64		count = PG_GETARG_INT64(2);
	int			handle = get_handle(fcinfo, 4);
	pg_prng_state prng;
	int64		done = 0;

	pg_prng_seed(&prng, PG_GETARG_INT64(3));
	while (done < count && pvt_store_fill(store, handle, shape, PV_MAX_OFFSET,
										  first + done, &prng))
		done++;
	pv_deadtids_publish(store->handles[handle]);
	PG_RETURN_INT64(done);
}

/*
 * Publish all segments and compare the store with the model.  Returns the
 * items.
 */
Datum
parvacuum_test_check(PG_FUNCTION_ARGS)
{
	pg_prng_state prng;

	pvt_store_publish(get_store());
	pg_prng_seed(&prng, 0);
	PG_RETURN_INT64(pvt_store_check(get_store(), &prng));
}

/* Look up one TID. */
Datum
parvacuum_test_probe(PG_FUNCTION_ARGS)
{
	int			handle = get_handle(fcinfo, 2);
	ItemPointerData tid;

	ItemPointerSet(&tid, (BlockNumber) PG_GETARG_INT64(0),
				   (OffsetNumber) PG_GETARG_INT32(1));
	PG_RETURN_BOOL(pv_deadtids_probe(get_store()->handles[handle], &tid));
}

/* The layout of a segment. */
Datum
parvacuum_test_layout(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"absent", "inline", "uniform",
	"ranked matrix", "direct matrix", "ranked", "direct"};
	PvDeadTids *handle = get_store()->handles[get_handle(fcinfo, 1)];
	PvDeadTidsIter iter;

	if (!pv_deadtids_segment_begin(handle, PG_GETARG_INT64(0), &iter))
		PG_RETURN_TEXT_P(cstring_to_text("absent"));
	PG_RETURN_TEXT_P(cstring_to_text(names[PV_ENTRY_LAYOUT(iter.entry)]));
}

/* The store's figures as a row. */
Datum
parvacuum_test_figures(PG_FUNCTION_ARGS)
{
	PvDeadTids *handle = get_store()->handles[get_handle(fcinfo, 0)];
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(pv_deadtids_num_items(handle));
	values[1] = Int64GetDatum(pv_deadtids_memory(handle));
	values[2] = Int64GetDatum(pv_deadtids_limit(handle));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values,
													  nulls)));
}
