/*-------------------------------------------------------------------------
 *
 * pvt_space.c
 *	  Several processes need more memory of one space at the same moment; how
 *	  much memory the store will need.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "store/deadtids.h"
#include "store/space.h"
#include "storage/barrier.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(parvacuum_test_run_dry);
PG_FUNCTION_INFO_V1(parvacuum_test_refill);
extern PGDLLEXPORT void parvacuum_test_space_worker(dsm_segment *seg,
													shm_toc *toc);

#define KEY_SHARED		1

/*
 * The memory that counts as allocated already: a new extent is a quarter of
 * it, so it takes some time to make one, and it has room for four of these
 * chunks.
 */
#define ALLOCATED		((Size) 32 * 1024 * 1024)
#define CHUNK_BYTES		((Size) 2000 * 1024)

#define MAX_TIMES		20

typedef struct DryShared
{
	Barrier		barrier;
	int			times;
	PvSpaceShared spaces[MAX_TIMES];
} DryShared;

/*
 * Each is in a space as long as it is needed, so that its memory is given
 * back.
 */
static void
take_chunks(DryShared *shared)
{
	for (int i = 0; i < shared->times; i++)
	{
		PvSpace    *space = palloc(sizeof(PvSpace));
		PvChunk		chunk;

		pv_space_attach(space, &shared->spaces[i], NULL, NULL);
		BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
		if (!pv_space_take(space, CHUNK_BYTES, false, &chunk))
			elog(ERROR, "there is no more memory");
		memset(chunk.next, i, CHUNK_BYTES);
		BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
		pv_space_detach(space);
	}
}

/* Entry point of a worker. */
void
parvacuum_test_space_worker(dsm_segment *seg, shm_toc *toc)
{
	DryShared  *shared = shm_toc_lookup(toc, KEY_SHARED, false);

	if (BarrierAttach(&shared->barrier) == 0)
		take_chunks(shared);
	BarrierDetach(&shared->barrier);
}

Datum
parvacuum_test_run_dry(PG_FUNCTION_ARGS)
{
	ParallelContext *pcxt;
	DryShared  *shared;
	int			nextents = 0;

	if (PG_GETARG_INT32(1) > MAX_TIMES)
		elog(ERROR, "at most %d times", MAX_TIMES);
	EnterParallelMode();
	pcxt = CreateParallelContext("parvacuum_test",
								 "parvacuum_test_space_worker",
								 PG_GETARG_INT32(0));
	shm_toc_estimate_chunk(&pcxt->estimator, sizeof(DryShared));
	shm_toc_estimate_keys(&pcxt->estimator, 1);
	InitializeParallelDSM(pcxt);
	shared = shm_toc_allocate(pcxt->toc, sizeof(DryShared));
	BarrierInit(&shared->barrier, 0);
	shared->times = PG_GETARG_INT32(1);
	for (int i = 0; i < shared->times; i++)
		pv_space_init(&shared->spaces[i], (Size) 1024 * 1024 * 1024,
					  ALLOCATED, 0);
	shm_toc_insert(pcxt->toc, KEY_SHARED, shared);

	BarrierAttach(&shared->barrier);
	LaunchParallelWorkers(pcxt);
	if (pcxt->nworkers_launched < pcxt->nworkers)
		elog(ERROR, "there are not enough workers");
	WaitForParallelWorkersToAttach(pcxt);
	while (BarrierParticipants(&shared->barrier) <= pcxt->nworkers)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
	take_chunks(shared);
	BarrierDetach(&shared->barrier);
	WaitForParallelWorkersToFinish(pcxt);
	for (int i = 0; i < shared->times; i++)
		nextents += pg_atomic_read_u32(&shared->spaces[i].nextents);
	DestroyParallelContext(pcxt);
	ExitParallelMode();
	PG_RETURN_INT32(nextents);
}

Datum
parvacuum_test_refill(PG_FUNCTION_ARGS)
{
	const Size	limit = (Size) 1024 * 1024;
	PvSpaceShared *shared = palloc(sizeof(PvSpaceShared));
	PvSpace    *space = palloc(sizeof(PvSpace));
	PvChunk		chunk;

	pv_space_init(shared, limit, limit / 4, 0);
	pv_space_begin_local(space, shared);
	for (int i = 0; i < PG_GETARG_INT32(0); i++)
	{
		pv_space_reset(space);
		while (pv_space_take(space, 8 * 1024, false, &chunk))
			continue;
		if (pv_space_share_used(shared) > 1)
			elog(ERROR, "more than all memory is in use");
		if (!pv_space_take(space, limit / 8, true, &chunk))
			elog(ERROR, "there is no more memory");
	}
	PG_RETURN_INT64((int64) pg_atomic_read_u64(&shared->memory) - (int64) limit);
}
