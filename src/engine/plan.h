/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  What the leader decides before a vacuum begins.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VACUUM_PLAN_H
#define PV_VACUUM_PLAN_H

#include "engine/vacuum_state.h"

/* Most bytes that the store takes for one block, all overhead included */
#define PV_STORE_BYTES_PER_BLOCK	48

extern void pv_plan_reloptions(Relation rel, VacuumParams *params);
extern void pv_plan_vacuum(PvVacuum *vac, LOCKMODE index_lock);
extern void pv_plan_pool(PvVacuum *vac, BufferAccessStrategy bstrategy);

#endif							/* PV_VACUUM_PLAN_H */
