/*-------------------------------------------------------------------------
 *
 * pv_cost.h
 *	  Cost-based delay for several processes that vacuum one table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COST_H
#define PV_COST_H

#include "port/atomics.h"

typedef struct PvCostShared
{
	/* Set by the leader before launch, then read-only */
	double		delay;			/* milliseconds; 0: no throttling */
	int			limit;			/* cost units of one participant's full share */
	double		scale;			/* 0: one budget for all; 1: one share each */

	/* Atomic: how many participants are at work, and how often that changed */
	pg_atomic_uint32 nactive;
	pg_atomic_uint32 epoch;
} PvCostShared;

extern void pv_cost_init(PvCostShared *shared, double scale);
extern void pv_cost_begin_work(PvCostShared *shared);
extern void pv_cost_end_work(void);
extern void pv_cost_disable(void);
extern void pv_cost_restore(void);
extern void pv_cost_take_share(void);

/* What this process works under, and the epoch its share was computed in */
extern PvCostShared *pv_cost_current;
extern uint32 pv_cost_epoch;

/*
 * Adapt this process's share if a peer has come or gone.  Cheap enough to be
 * called once per index tuple.
 */
static inline void
pv_cost_poll(void)
{
	if (unlikely(pv_cost_current != NULL &&
				 pg_atomic_read_u32(&pv_cost_current->epoch) != pv_cost_epoch))
		pv_cost_take_share();
}

#endif							/* PV_COST_H */
