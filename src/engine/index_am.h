/*-------------------------------------------------------------------------
 *
 * index_am.h
 *	  Vacuuming and cleaning up one index by its access method.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_INDEX_AM_H
#define PV_INDEX_AM_H

#include "engine/participant.h"

extern void pv_index_process(PvParticipant *self, int i, PvPhase phase,
							 IndexVacuumInfo *ivinfo);
extern void pv_index_keep_result(PvParticipant *self, int i,
								 IndexBulkDeleteResult *after);

#endif							/* PV_INDEX_AM_H */
