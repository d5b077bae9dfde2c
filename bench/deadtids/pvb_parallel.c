/*-------------------------------------------------------------------------
 *
 * pvb_parallel.c
 *	  Scaling of the store: one process and two processes.
 *
 * The participants are the calling backend and a parallel worker.  They claim
 * ranges of segments from an atomic counter, as the participants of a vacuum do,
 * and load them.  Then they claim ranges again, and read the store as the second
 * heap pass does.  A barrier separates the two parts.  If one process is measured,
 * the worker is started but stays idle, so that both cases use the same memory.
 *
 * Two processes never halve a time.  So the same work can be done with a local
 * store for each participant.  Then the participants share only the counter, and
 * the ratio of two processes to one is that of the machine.
 *
 * A process that waits for a lock sleeps, and the kernel counts how often a
 * process goes to sleep.  So every wait of the loading processes is counted,
 * however short.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "parvacuum_bench.h"
#include "pvb_contenders.h"
#include "storage/barrier.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(parvacuum_bench_parallel);
extern PGDLLEXPORT void parvacuum_bench_worker(dsm_segment *seg, shm_toc *toc);

#define KEY_SHARED		1
#define KEY_STORE		2

/* Segments of a range: the largest range of a vacuum. */
#define RANGE_SEGMENTS	32

/* Reserve of the store, as in a vacuum that expects dead items. */
#define STORE_BYTES_PER_BLOCK	48
#define STORE_RESERVE_MAX		((Size) 16 * 1024 * 1024)

typedef struct ParallelShared
{
	/* Set before the worker is launched. */
	PvbParams	params;
	int			processes;
	bool		own_stores;

	Barrier		barrier;
	pg_atomic_uint32 next_load; /* segments */
	pg_atomic_uint32 next_read;
	pg_atomic_uint64 nread;		/* items */
	pg_atomic_uint64 waits;

	/* Times at which each participant began and ended loading and reading. */
	double		times[2][4];
} ParallelShared;

/* Return how often this process has gone to sleep. */
static int64
count_waits(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

/* Load ranges of segments until none is left. */
static void
load_ranges(PvDeadTids *store, const PvbPattern *pattern, ParallelShared *shared)
{
	uint32		nsegments = pv_deadtids_nsegments(store);
	int64		waits = count_waits();
	uint32		segno;

	while ((segno = pg_atomic_fetch_add_u32(&shared->next_load,
											RANGE_SEGMENTS)) < nsegments)
		pvb_store_load(store, pattern, segno,
					   Min(segno + RANGE_SEGMENTS, nsegments));
	pg_atomic_fetch_add_u64(&shared->waits, count_waits() - waits);
}

/* Read the segments from segno to before end.  Return the number of items. */
static int64
read_segments(PvDeadTids *store, uint32 segno, uint32 end)
{
	int64		nitems = 0;

	for (; segno < end; segno++)
	{
		PvDeadTidsIter iter;
		BlockNumber blk;
		OffsetNumber offsets[MaxHeapTuplesPerPage];
		int			n;

		if (!pv_deadtids_segment_begin(store, segno, &iter))
			continue;
		while (pv_deadtids_segment_next(&iter, &blk, offsets, &n))
			nitems += n;
	}
	return nitems;
}

/*
 * Read ranges of a shared store until none is left, or all of a store of one's
 * own.
 */
static void
read_ranges(PvDeadTids *store, ParallelShared *shared)
{
	uint32		nsegments = pv_deadtids_nsegments(store);
	uint32		segno;
	int64		nread = 0;

	if (shared->own_stores)
		nread = read_segments(store, 0, nsegments);
	else
	{
		while ((segno = pg_atomic_fetch_add_u32(&shared->next_read,
												RANGE_SEGMENTS)) < nsegments)
			nread += read_segments(store, segno,
								   Min(segno + RANGE_SEGMENTS, nsegments));
	}
	pg_atomic_fetch_add_u64(&shared->nread, nread);
}

/* The work of the leader (me = 0) and of the worker (me = 1). */
static void
participate(PvDeadTids *store, const PvbPattern *pattern,
			ParallelShared *shared, int me)
{
	bool		active = me < shared->processes;

	BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
	shared->times[me][0] = pvb_now();
	if (active)
		load_ranges(store, pattern, shared);
	shared->times[me][1] = pvb_now();

	BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
	shared->times[me][2] = pvb_now();
	if (active)
		read_ranges(store, shared);
	shared->times[me][3] = pvb_now();
	BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
}

/* Milliseconds from the first begin, times[][i], to the last end, times[][i + 1]. */
static double
elapsed(const ParallelShared *shared, int i)
{
	double		began = shared->times[0][i];
	double		ended = shared->times[0][i + 1];

	for (int p = 1; p < shared->processes; p++)
	{
		began = Min(began, shared->times[p][i]);
		ended = Max(ended, shared->times[p][i + 1]);
	}
	return (ended - began) * 1000;
}

/* Entry point of the worker. */
void
parvacuum_bench_worker(dsm_segment *seg, shm_toc *toc)
{
	ParallelShared *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	PvbPattern *pattern = pvb_pattern_make(&shared->params);
	PvDeadTids *store;

	if (shared->own_stores)
		store = pv_deadtids_create_local(shared->params.nblocks, PVB_STORE_LIMIT);
	else
		store = pv_deadtids_attach(shm_toc_lookup(toc, KEY_STORE, false), seg);
	participate(store, pattern, shared, 1);
	pv_deadtids_detach(store);
}

/* Set up the shared state.  Return the leader's handle of the store. */
static PvDeadTids *
set_up(ParallelContext *pcxt, const PvbPattern *pattern, int processes,
	   bool own_stores, ParallelShared **shared)
{
	BlockNumber nblocks = pattern->params.nblocks;
	Size		reserve = Min((Size) nblocks * STORE_BYTES_PER_BLOCK,
							  STORE_RESERVE_MAX);
	Size		bytes = pv_deadtids_shared_size(nblocks, reserve);
	PvDeadTidsShared *store;

	shm_toc_estimate_chunk(&pcxt->estimator, sizeof(ParallelShared));
	shm_toc_estimate_chunk(&pcxt->estimator, bytes);
	shm_toc_estimate_keys(&pcxt->estimator, 2);
	InitializeParallelDSM(pcxt);

	*shared = shm_toc_allocate(pcxt->toc, sizeof(ParallelShared));
	(*shared)->params = pattern->params;
	(*shared)->processes = processes;
	(*shared)->own_stores = own_stores;
	BarrierInit(&(*shared)->barrier, 2);
	pg_atomic_init_u32(&(*shared)->next_load, 0);
	pg_atomic_init_u32(&(*shared)->next_read, 0);
	pg_atomic_init_u64(&(*shared)->nread, 0);
	pg_atomic_init_u64(&(*shared)->waits, 0);
	shm_toc_insert(pcxt->toc, KEY_SHARED, *shared);

	store = shm_toc_allocate(pcxt->toc, bytes);
	shm_toc_insert(pcxt->toc, KEY_STORE, store);
	if (own_stores)
		return pv_deadtids_create_local(nblocks, PVB_STORE_LIMIT);
	return pv_deadtids_create_shared(store, pcxt->seg, nblocks, reserve,
									 PVB_STORE_LIMIT);
}

/* Measure the scaling.  See the SQL script for the result. */
Datum
parvacuum_bench_parallel(PG_FUNCTION_ARGS)
{
	const PvbPattern *pattern = pvb_session_pattern();
	int			processes = PG_GETARG_INT32(0);
	ParallelContext *pcxt;
	ParallelShared *shared;
	PvDeadTids *store;
	int64		nread;
	Datum		values[3];
	bool		nulls[3] = {false};

	if (processes < 1 || processes > 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("processes must be 1 or 2")));

	EnterParallelMode();
	pcxt = CreateParallelContext("parvacuum_bench", "parvacuum_bench_worker",
								 1);
	store = set_up(pcxt, pattern, processes, PG_GETARG_BOOL(1), &shared);
	LaunchParallelWorkers(pcxt);
	if (pcxt->nworkers_launched < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no parallel worker could be started"),
				 errhint("You may need to increase max_worker_processes or max_parallel_workers.")));
	participate(store, pattern, shared, 0);
	WaitForParallelWorkersToFinish(pcxt);

	nread = pg_atomic_read_u64(&shared->nread);
	values[0] = Float8GetDatum(elapsed(shared, 0));
	values[1] = Float8GetDatum(elapsed(shared, 2));
	values[2] = Int64GetDatum(pg_atomic_read_u64(&shared->waits));
	pv_deadtids_detach(store);
	DestroyParallelContext(pcxt);
	ExitParallelMode();

	if (nread != pattern->nitems)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("the store has " INT64_FORMAT " items, of " INT64_FORMAT " loaded",
						nread, pattern->nitems)));
	return pvb_row(fcinfo, values, nulls);
}
