/*-------------------------------------------------------------------------
 *
 * index_vacuum.h
 *	  Index vacuuming and index cleanup, shared out among participants.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_INDEX_H
#define PV_INDEX_H

#include "engine/participant.h"

extern Size pv_index_plan(PvParticipant *leader);
extern int	pv_index_count_units(const PvParticipant *leader, int i,
								 int participants, bool *together);
extern void pv_index_plan_together(PvParticipant *leader);
extern void pv_index_prepare(PvParticipant *leader, PvPhase phase);
extern void pv_index_end(PvParticipant *leader);
extern bool pv_index_all_done(const PvParticipant *leader);
extern void pv_index_progress(PvParticipant *leader);
extern void pv_index_work(PvParticipant *self, PvPhase phase);
extern void pv_index_clean_up_later(PvParticipant *leader);

#endif							/* PV_INDEX_H */
