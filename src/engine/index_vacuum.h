/*-------------------------------------------------------------------------
 *
 * index_vacuum.h
 *	  Index vacuuming and index cleanup.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_INDEX_H
#define PV_INDEX_H

#include "engine/participant.h"

/* engine/index_vacuum.c: the indexes shared out among participants */
extern Size pv_index_plan(PvParticipant *leader);
extern void pv_index_plan_together(PvParticipant *leader);
extern void pv_index_prepare(PvParticipant *leader, PvPhase phase);
extern void pv_index_end(PvParticipant *leader);
extern bool pv_index_all_done(const PvParticipant *leader);
extern void pv_index_progress(PvParticipant *leader);
extern void pv_index_work(PvParticipant *self, PvPhase phase);
extern void pv_index_clean_up_later(PvParticipant *leader);

/* engine/index_am.c: what parallel mode allows; one index, by its method */
extern bool pv_index_allows_workers(const PvParticipant *leader,
									bool automatic, const char **because_of);
extern bool pv_index_cleanup_must_wait(Relation indrel);
extern void pv_index_process(PvParticipant *self, int i, PvPhase phase,
							 IndexVacuumInfo *ivinfo);

/* engine/index_work.c: what there is to do, whatever is dead */
extern bool pv_indexes_have_work(Relation rel);
extern void pv_index_empty_pending_lists(Relation rel);

#endif							/* PV_INDEX_H */
