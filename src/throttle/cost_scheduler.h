/*-------------------------------------------------------------------------
 *
 * cost_scheduler.h
 *	  The scheduler's cost balance.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COST_SCHEDULER_H
#define PV_COST_SCHEDULER_H

#include "throttle/cost_state.h"

/* Returns how many scheduler workers there are; set in _PG_init(). */
typedef int (*PvCountWorkers) (void);
extern PvCountWorkers pv_cost_count_workers;

extern Size pv_cost_shmem_size(void);
extern void pv_cost_shmem_startup(void);
extern int64 pv_cost_rate(void);
extern int64 pv_cost_units(void);
extern void pv_cost_set_rate(int64 rate);

extern void pv_cost_open_balance(void);
extern void pv_cost_close_balance(double delay, int limit);
extern void pv_cost_charge(void);
extern bool pv_cost_sleep_on(void);
extern void pv_cost_flush(void);
extern void pv_cost_charge_slept(void);

/* Is this process throttled by the scheduler's balance now? */
static inline bool
pv_cost_uses_balance(void)
{
	return pv_cost.mode == PV_COST_SCHEDULER;
}

#endif							/* PV_COST_SCHEDULER_H */
