/*-------------------------------------------------------------------------
 *
 * cost_autovacuum.h
 *	  The budget of an autovacuum worker that leads a vacuum.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COST_AUTOVACUUM_H
#define PV_COST_AUTOVACUUM_H

#include "utils/rel.h"

#include "throttle/cost_state.h"

/* Which cost limits a table has fixed for autovacuum by its own options */
typedef struct PvOwnCosts
{
	bool		delay;
	bool		limit;
} PvOwnCosts;

extern void pv_cost_of_autovacuum(PvCostBudget *budget);
extern bool pv_cost_of_table(const AutoVacOpts *options, PvCostBudget *budget);
extern void pv_cost_autovacuum_begin(const PvOwnCosts *own);
extern void pv_cost_autovacuum_reloaded(void);
extern void pv_cost_autovacuum_budget(PvCostBudget *budget);
extern void pv_cost_weigh_pages(double times);
extern void pv_cost_autovacuum_end(bool failsafe);

#endif							/* PV_COST_AUTOVACUUM_H */
