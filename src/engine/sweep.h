/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  Removing dead versions from a B-tree before inserts need the space.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SWEEP_H
#define PV_SWEEP_H

#include "access/parallel.h"
#include "utils/rel.h"

#include "engine/sweep_result.h"

extern void pv_sweep_index(Relation heaprel, Relation indrel, int nworkers,
						   int buffer_usage_limit, const PvSweepPoll *poll,
						   PvSweepResult *result);

/* Entry point of a worker; the parallel infrastructure finds it by name */
extern PGDLLEXPORT void parvacuum_sweep_worker(dsm_segment *seg, shm_toc *toc);

#endif							/* PV_SWEEP_H */
