/*-------------------------------------------------------------------------
 *
 * cost.h
 *	  Cost-based delay for several processes that vacuum one table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COST_H
#define PV_COST_H

#include "base/compat.h"
#include "base/reload.h"
#include "throttle/cost_autovacuum.h"
#include "throttle/cost_scheduler.h"
#include "throttle/cost_state.h"

extern void pv_cost_init(PvCostShared *shared, double scale);
extern void pv_cost_keep(PvCostShared *to, PvCostShared *from);
extern void pv_cost_follow_reloads(void);
extern void pv_cost_lead_autovacuum(const PvOwnCosts *own);
extern void pv_cost_begin_indexes(PvCostShared *shared, int nsharers);
extern void pv_cost_index_done(PvCostShared *shared, int nsharers);
extern void pv_cost_begin_work(PvCostShared *shared);
extern void pv_cost_end_work(void);
extern void pv_cost_disable(void);
extern void pv_cost_restore(void);
extern void pv_cost_take_share(void);
extern void pv_cost_refresh(PvCostShared *shared);
extern int64 pv_cost_sleep(void);
extern int64 pv_cost_delay_in_full(void);

/* Is this process a scheduler worker? */
extern bool pv_is_scheduler_worker;

/* Does no session wait for this vacuum, so that autovacuum's settings hold? */
static inline bool
pv_is_automatic(void)
{
	return pv_is_scheduler_worker || pv_is_autovacuum_worker();
}

/*
 * The reloads whose settings this process has applied, since its vacuum began.
 */
static inline uint32
pv_cost_reloads_applied(void)
{
	return pv_cost.nreloads;
}

/* Has the budget, or the number of participants at work, changed? */
static inline bool
pv_cost_share_is_stale(void)
{
	return pg_atomic_read_u32(&pv_cost.shared->epoch) != pv_cost.epoch;
}

/*
 * Recomputes this process's share if that is stale, and applies the settings
 * of now.  To be called before every delay point that we can reach.  It is
 * cheap, and a page may be locked.
 */
static inline void
pv_cost_poll(void)
{
	if (pv_cost.mode == PV_COST_SCHEDULER)
		pv_cost_charge();
	if (pv_cost.shared == NULL)
		return;
	if (pv_cost.follows_reloads)
		pv_cost_refresh(pv_cost.shared);
	else if (unlikely(pv_cost_share_is_stale()))
		pv_cost_take_share();
}

/* Has this process used enough cost units to have to sleep? */
static inline bool
pv_cost_is_owing(void)
{
	return VacuumCostActive && VacuumCostBalance >= pv_vacuum_cost_limit;
}

/* Would pv_cost_poll() find something new? */
static inline bool
pv_cost_has_news(void)
{
	return pv_cost.shared != NULL &&
		(pv_reload_is_due || pv_cost_share_is_stale());
}

/* A delay point, and the sleeps that follow in the scheduler's mode */
static inline void
pv_cost_delay_points(void)
{
	pv_delay_point();
	while (pv_cost.mode == PV_COST_SCHEDULER && pv_cost_sleep_on() &&
		   !pv_cost_has_news())
		;
}

/*
 * Polls, and is a delay point.  No page may be locked, because all that is due
 * is slept off.  That may take long, so news interrupt it; the next call
 * sleeps for what is left.  Returns the microseconds slept.
 */
static inline int64
pv_cost_delay(void)
{
	int64		slept = 0;

	pv_cost_poll();
	if (unlikely(pv_cost_is_owing()))
		slept = pv_cost_sleep();
	else
		pv_cost_delay_points();
	if (pv_cost_has_news())
		pv_cost_poll();
	return slept;
}

#endif							/* PV_COST_H */
