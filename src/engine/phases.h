/*-------------------------------------------------------------------------
 *
 * phases.h
 *	  What a participant does in each phase, and the entry point of workers.
 *
 * pv_index_work() is in engine/index_vacuum.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PHASES_H
#define PV_PHASES_H

#include "storage/dsm.h"
#include "storage/shm_toc.h"

#include "engine/participant.h"

extern void pv_participate(PvParticipant *self, PvPhase phase);
extern void pv_participant_init(PvParticipant *self);
extern PGDLLEXPORT void parvacuum_worker_main(dsm_segment *seg, shm_toc *toc);

/* engine/heap_scan.c, engine/heap_vacuum.c: the heap passes */
extern void pv_scan_heap(PvParticipant *self);
extern void pv_vacuum_heap(PvParticipant *self);

#endif							/* PV_PHASES_H */
