/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  What a vacuum shows of its progress.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VACUUM_PROGRESS_H
#define PV_VACUUM_PROGRESS_H

#include "engine/vacuum_state.h"

extern void pv_progress_open(PvVacuum *vac);
extern void pv_progress_begin_phase(PvVacuum *vac, PvPhase phase);
extern void pv_progress_end_phase(PvVacuum *vac);
extern void pv_progress_alone(PvVacuum *vac, PvPhase phase);
extern void pv_progress_show(PvParticipant *leader);
extern void pv_progress_tick(PvVacuum *vac);
extern void pv_progress_line(PvVacuum *vac);

/* engine/progress_index.c */
extern void pv_progress_index_pages(PvVacuum *vac);
extern double pv_progress_index_tuples(const PvParticipant *leader,
									   const PvEtaInput *input);
extern void pv_progress_correlation(PvVacuum *vac);
extern void pv_progress_weigh_indexes(PvVacuum *vac);
extern double pv_progress_index_slowdown(const PvVacuum *vac);

#endif							/* PV_VACUUM_PROGRESS_H */
