/*-------------------------------------------------------------------------
 *
 * pvt_parallel.c
 *	  Several processes fill one store at the same time.
 *
 * Segments are handed out one by one from a counter, so that neighbors belong
 * to different processes, and several processes write the same leaves of the
 * directory.  The contents of a segment depend on its number only, so each
 * process can check the whole store.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pvt_model.h"
#include "storage/barrier.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(parvacuum_test_parallel);
extern PGDLLEXPORT void parvacuum_test_worker(dsm_segment *seg, shm_toc *toc);

#define KEY_SHARED		1
#define KEY_STORE		2
#define ROUNDS			3

/* So little that all take part in making more. */
#define RESERVE			((Size) 8 * 1024)

typedef struct ParallelShared
{
	char		shape[32];
	uint32		nsegments;
	uint64		seed;
	Barrier		barrier;
	pg_atomic_uint32 next_segment;
} ParallelShared;

/* The random numbers of a segment in a round. */
static void
seed_segment(pg_prng_state *prng, const ParallelShared *shared, uint32 segno,
			 int round)
{
	pg_prng_seed(prng, shared->seed + segno * (uint64) ROUNDS + round);
}

/* Take segments and fill them until there are none. */
static void
fill_segments(PvtStore *store, ParallelShared *shared, int round)
{
	const PvtShape *shape = pvt_find_shape(shared->shape);

	for (;;)
	{
		uint32		segno = pg_atomic_fetch_add_u32(&shared->next_segment, 1);
		pg_prng_state prng;

		if (segno >= shared->nsegments)
			break;
		seed_segment(&prng, shared, segno, round);
		if (!pvt_store_fill(store, 0, shape, PV_MAX_OFFSET, segno, &prng))
			elog(ERROR, "store is full at segment %u", segno);
	}
	pvt_store_publish(store);
}

/*
 * Compare the shared store with one that this process fills alone.  Both have
 * the same model if the random numbers are drawn in the same order.
 */
static void
check_segments(PvtStore *store, ParallelShared *shared, int round)
{
	PvtStore   *alone = pvt_store_create(store->nblocks, PV_DEADTIDS_MAX_LIMIT,
										 false, 0, 1);
	PvtModel   *model = store->model;
	const PvtShape *shape = pvt_find_shape(shared->shape);
	pg_prng_state prng;

	for (uint32 segno = 0; segno < shared->nsegments; segno++)
	{
		seed_segment(&prng, shared, segno, round);
		pvt_store_fill(alone, 0, shape, PV_MAX_OFFSET, segno, &prng);
	}
	pvt_store_publish(alone);
	store->model = alone->model;
	pvt_store_check(store, &prng);
	store->model = model;
	pvt_store_drop(alone);
}

/* What leader and workers do: fill and check together, a few rounds. */
static void
participate(PvtStore *store, ParallelShared *shared, bool leader)
{
	for (int round = 0; round < ROUNDS; round++)
	{
		fill_segments(store, shared, round);
		BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
		check_segments(store, shared, round);
		BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
		if (leader && round < ROUNDS - 1)
		{
			pv_deadtids_reset(store->handles[0]);
			pg_atomic_write_u32(&shared->next_segment, 0);
		}
		BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
	}
}

/* Put a handle into a PvtStore with an empty model. */
static PvtStore *
wrap_handle(PvDeadTids *handle, uint32 nsegments)
{
	PvtStore   *store = pvt_store_create(nsegments * PV_SEGMENT_BLOCKS, 0,
										 false, 0, 1);

	pv_deadtids_detach(store->handles[0]);
	store->handles[0] = handle;
	return store;
}

/* Entry point of a worker. */
void
parvacuum_test_worker(dsm_segment *seg, shm_toc *toc)
{
	ParallelShared *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	PvDeadTids *handle;

	/* one that comes after the first round has nothing to do */
	if (BarrierAttach(&shared->barrier) == 0)
	{
		handle = pv_deadtids_attach(shm_toc_lookup(toc, KEY_STORE, false),
									seg);
		participate(wrap_handle(handle, shared->nsegments), shared, false);
		pv_deadtids_detach(handle);
	}
	BarrierDetach(&shared->barrier);
}

/* Set up what is shared; the leader's handle is the result. */
static PvDeadTids *
set_up(ParallelContext *pcxt, const char *shape, int nsegments, uint64 seed,
	   ParallelShared **shared)
{
	BlockNumber nblocks = nsegments * PV_SEGMENT_BLOCKS;
	Size		bytes = pv_deadtids_shared_size(nblocks, RESERVE);
	PvDeadTidsShared *store;

	shm_toc_estimate_chunk(&pcxt->estimator, sizeof(ParallelShared));
	shm_toc_estimate_chunk(&pcxt->estimator, bytes);
	shm_toc_estimate_keys(&pcxt->estimator, 2);
	InitializeParallelDSM(pcxt);

	*shared = shm_toc_allocate(pcxt->toc, sizeof(ParallelShared));
	strlcpy((*shared)->shape, shape, sizeof((*shared)->shape));
	(*shared)->nsegments = nsegments;
	(*shared)->seed = seed;
	BarrierInit(&(*shared)->barrier, 0);
	pg_atomic_init_u32(&(*shared)->next_segment, 0);
	shm_toc_insert(pcxt->toc, KEY_SHARED, *shared);

	store = shm_toc_allocate(pcxt->toc, bytes);
	shm_toc_insert(pcxt->toc, KEY_STORE, store);
	return pv_deadtids_create_shared(store, pcxt->seg, nblocks, RESERVE,
									 PV_DEADTIDS_MAX_LIMIT);
}

/* Run it with this backend as leader.  Returns the items of the last round. */
Datum
parvacuum_test_parallel(PG_FUNCTION_ARGS)
{
	ParallelContext *pcxt;
	ParallelShared *shared;
	PvDeadTids *handle;
	int64		items;

	EnterParallelMode();
	pcxt = CreateParallelContext("parvacuum_test", "parvacuum_test_worker",
								 PG_GETARG_INT32(0));
	handle = set_up(pcxt, text_to_cstring(PG_GETARG_TEXT_PP(1)),
					PG_GETARG_INT32(2), PG_GETARG_INT64(3), &shared);
	BarrierAttach(&shared->barrier);
	LaunchParallelWorkers(pcxt);
	WaitForParallelWorkersToAttach(pcxt);
	participate(wrap_handle(handle, shared->nsegments), shared, true);
	BarrierDetach(&shared->barrier);
	WaitForParallelWorkersToFinish(pcxt);

	items = pv_deadtids_num_items(handle);
	pv_deadtids_detach(handle);
	DestroyParallelContext(pcxt);
	ExitParallelMode();
	PG_RETURN_INT64(items);
}
