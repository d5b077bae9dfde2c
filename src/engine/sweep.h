/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  Dead versions out of a B-tree, before inserts need the space.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SWEEP_H
#define PV_SWEEP_H

#include "access/parallel.h"
#include "utils/rel.h"

/* What one sweep of one index did. */
typedef struct PvSweepResult
{
	int			workers_launched;
	int64		pages_total;	/* of the index, when the sweep began */
	int64		pages_visited;	/* leaves that were worth a look */
	int64		pages_changed;
	int64		tuples_deleted; /* heap TIDs */
	int64		bytes_freed;

	/* For DEBUG1: what was done while a leaf was locked for writing, and naps */
	int64		holds;
	int			pages_per_hold; /* of the heap, the most in one */
	int64		hold_reads;		/* of the heap, from disk */
	int64		usecs_slept;	/* of all participants together */
} PvSweepResult;

extern void pv_sweep_index(Relation heaprel, Relation indrel, int nworkers,
						   int buffer_usage_limit, PvSweepResult *result);

/* A worker; the parallel infrastructure finds it by name. */
extern PGDLLEXPORT void parvacuum_sweep_worker(dsm_segment *seg, shm_toc *toc);

#endif							/* PV_SWEEP_H */
