/*-------------------------------------------------------------------------
 *
 * index_parallel.h
 *	  What parallel mode allows with the indexes of a table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_INDEX_PARALLEL_H
#define PV_INDEX_PARALLEL_H

#include "engine/participant.h"

extern bool pv_index_allows_workers(const PvParticipant *leader,
									bool automatic, const char **because_of);
extern bool pv_index_knows_parallel_vacuum(Relation indrel);
extern bool pv_index_cleanup_must_wait(Relation indrel);
extern bool pv_index_worker_allowed(const IndexAmRoutine *amroutine,
									PvPhase phase, int index_scans);

#endif							/* PV_INDEX_PARALLEL_H */
