/*-------------------------------------------------------------------------
 *
 * pv_sweep.h
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
} PvSweepResult;

extern void pv_sweep_index(Relation heaprel, Relation indrel, int nworkers,
						   PvSweepResult *result);

/* A worker; the parallel infrastructure finds it by name. */
extern PGDLLEXPORT void parvacuum_sweep_worker(dsm_segment *seg, shm_toc *toc);

#endif							/* PV_SWEEP_H */
