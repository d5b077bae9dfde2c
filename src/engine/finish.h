/*-------------------------------------------------------------------------
 *
 * finish.h
 *	  What the leader does when its workers are gone, and what it reports.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_FINISH_H
#define PV_FINISH_H

#include "engine/vacuum_state.h"

extern void pv_finish_indexes(PvVacuum *vac);
extern void pv_finish_truncation(PvVacuum *vac);
extern void pv_finish_statistics(PvVacuum *vac);
extern void pv_finish_phase(PvVacuum *vac);
extern void pv_finish_result(PvVacuum *vac);

/* The text of VERBOSE and the log (report.c) */
extern void pv_report_begin(const PvVacuum *vac);
extern void pv_report_end(const PvVacuum *vac);

#endif							/* PV_FINISH_H */
