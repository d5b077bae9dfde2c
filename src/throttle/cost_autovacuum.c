/*-------------------------------------------------------------------------
 *
 * cost_autovacuum.c
 *	  The budget of an autovacuum worker that leads a vacuum.
 *
 * This budget changes while the worker is at a table, by core's balancing and
 * by reloads.  From PG 16 on core's functions return the current limits.  PG 15
 * differs:
 *
 *	- It stores its own limit and delay over ours whenever an autovacuum worker
 *	  has slept.  So such a leader takes its share by counting each page
 *	  several times, rounded up.
 *	- It does not apply a reload before the next table.  So we put what a reload
 *	  has changed in place of core's values, and divide a limit that autovacuum
 *	  workers share among those that are at work.
 *
 * Only the leader runs this.  A page may be locked.  It takes no lock, except
 * for core's shared one to log at DEBUG2.
 *
 * Core: postmaster/autovacuum.c, autovac_balance_cost (15),
 * AutoVacuumUpdateCostLimit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "utils/guc.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/settings.h"
#include "throttle/cost.h"

/* Refreshes between two counts of the autovacuum workers */
#define REFRESHES_PER_COUNT		256

/* The state of the leader, valid while its mode is PV_COST_AUTOVACUUM */
static struct
{
	double		delay;			/* by the settings and the table's options */

	/* On PG 15 */
	PvCostBudget began_with;	/* by the settings at the start of the table */
	PvCostBudget configured;	/* ... and now */
	PvOwnCosts	owns;			/* what the table's options have fixed */
	int			nworkers;		/* autovacuum workers at work; 0: not counted */
	uint32		nrefreshes;
}			leader;

/* What a page costs by the settings, while each counts several times */
static struct
{
	bool		saved;
	int			hit;
	int			miss;
	int			dirty;
}			page_cost;

/*
 * Get the limits that the configuration gives to autovacuum.  In an autovacuum
 * worker the variables of vacuum_cost_* hold its own limits.
 *
 * Core: postmaster/autovacuum.c, table_recheck_autovac.
 */
void
pv_cost_of_autovacuum(PvCostBudget *budget)
{
	budget->delay = autovacuum_vac_cost_delay >= 0 ?
		autovacuum_vac_cost_delay :
		atof(GetConfigOptionResetString("vacuum_cost_delay"));
	budget->limit = autovacuum_vac_cost_limit > 0 ? autovacuum_vac_cost_limit :
		atoi(GetConfigOptionResetString("vacuum_cost_limit"));
	budget->scale = pv_guc_autovacuum_cost_limit_scale;
}

/*
 * Get the limits of a table with these storage parameters.  Return whether
 * they are its own, and not in the scheduler's budget.  A cost limit without a
 * delay has no effect.
 */
bool
pv_cost_of_table(const AutoVacOpts *options, PvCostBudget *budget)
{
	pv_cost_of_autovacuum(budget);
	if (options->vacuum_cost_limit > 0)
		budget->limit = options->vacuum_cost_limit;
	if (options->vacuum_cost_delay < 0)
		return options->vacuum_cost_limit > 0 && budget->delay > 0;
	budget->delay = options->vacuum_cost_delay;
	return true;
}

/* Look up the limits again after a reload. */
void
pv_cost_autovacuum_reloaded(void)
{
	pv_cost_of_autovacuum(&leader.configured);
	leader.delay = pv_autovacuum_cost_delay();
}

/* Begin the vacuum of a table.  own says which limits no reload changes. */
void
pv_cost_autovacuum_begin(const PvOwnCosts *own)
{
	leader.owns = *own;
	leader.nworkers = 0;
	pv_cost_autovacuum_reloaded();
	leader.began_with = leader.configured;
}

/* On PG 15: put what reloads have changed in place of core's values. */
static void
correct_budget(PvCostBudget *budget)
{
	if (!leader.owns.delay &&
		leader.configured.delay != leader.began_with.delay)
		budget->delay = leader.configured.delay;
	if (!leader.owns.limit &&
		leader.configured.limit != leader.began_with.limit)
	{
		if (leader.nworkers == 0 ||
			++leader.nrefreshes % REFRESHES_PER_COUNT == 0)
			leader.nworkers = pv_count_autovacuum_workers();
		budget->limit = leader.owns.delay ? leader.configured.limit :
			Max(1, leader.configured.limit / leader.nworkers);
	}
}

/* Get the current budget. */
void
pv_cost_autovacuum_budget(PvCostBudget *budget)
{
	budget->delay = leader.delay;
	budget->limit = pv_autovacuum_cost_limit();
	budget->scale = pv_guc_autovacuum_cost_limit_scale;
	if (PV_CORE_RESETS_COSTS)
		correct_budget(budget);
}

/* Multiply what each page costs from now on; 1 restores the settings. */
void
pv_cost_weigh_pages(double times)
{
	if (!page_cost.saved)
	{
		if (times == 1.0)
			return;
		page_cost.hit = VacuumCostPageHit;
		page_cost.miss = VacuumCostPageMiss;
		page_cost.dirty = VacuumCostPageDirty;
	}
	page_cost.saved = (times != 1.0);
	VacuumCostPageHit = (int) ceil(page_cost.hit * times);
	VacuumCostPageMiss = (int) ceil(page_cost.miss * times);
	VacuumCostPageDirty = (int) ceil(page_cost.dirty * times);
}

/*
 * The vacuum of the table has ended, perhaps by an error.  The limits may have
 * changed meanwhile, and an ANALYZE may follow.
 */
void
pv_cost_autovacuum_end(bool failsafe)
{
	double		delay = pv_autovacuum_cost_delay();

	if (!failsafe)
		VacuumCostActive = delay > 0;
}
