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
extern void pv_progress_alone(PvVacuum *vac, PvPhase phase);
extern void pv_progress_show(PvParticipant *leader);

/* engine/progress_line.c */
extern void pv_progress_line(PvVacuum *vac);

#endif							/* PV_VACUUM_PROGRESS_H */
