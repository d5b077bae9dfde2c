/*-------------------------------------------------------------------------
 *
 * pv_cost.c
 *	  Cost-based delay for several processes that vacuum one table.
 *
 * Leader and workers run this.  The budget is the leader's vacuum_cost_limit
 * per vacuum_cost_delay.  With n participants at work it becomes
 *
 *		limit * (1 + scale * (n - 1))
 *
 * and every one of them sleeps on its own account, under an n-th of that,
 * which is had by sleeping longer.  So at scale 1 each adds a full share, and
 * at scale 0 all of them together do no more I/O than one process would.  A
 * participant that runs out of work says so (pv_cost_end_work), and the others
 * notice at their next pv_cost_poll() and take over its share; otherwise one
 * large index left to one process would be vacuumed at a fraction of the
 * budget.  Within an access method only the callback of a bulk deletion polls,
 * so in index cleanup a share is taken over from one index to the next.
 *
 * We do not use core's VacuumSharedCostBalance.  There, whoever pushed the
 * common balance over the limit sleeps off what it did itself, while its
 * peers go on, so that n busy processes use up to n budgets; and its pointers
 * into dynamic shared memory dangle after an error.
 * Core: commands/vacuum.c, compute_parallel_delay.
 *
 * No locks: one atomic counts who is at work, another, changed after it, tells
 * that it changed.  A share that is stale for a while does no harm.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pv_compat.h"
#include "pv_cost.h"

PvCostShared *pv_cost_current = NULL;
uint32		pv_cost_epoch = 0;

/* The failsafe is on in this process: no throttling until the vacuum ends */
static bool disabled = false;

/* The leader's own settings, to be put back by pv_cost_restore() */
static bool saved = false;
static double saved_delay;
static int	saved_limit;

/*
 * Leader, before launch: remember the settings this vacuum runs under.
 */
void
pv_cost_init(PvCostShared *shared, double scale)
{
	shared->delay = VacuumCostActive ? pv_vacuum_cost_delay : 0;
	shared->limit = pv_vacuum_cost_limit;
	shared->scale = scale;
	pg_atomic_init_u32(&shared->nactive, 0);
	pg_atomic_init_u32(&shared->epoch, 1);

	saved_delay = pv_vacuum_cost_delay;
	saved_limit = pv_vacuum_cost_limit;
	saved = true;
}

/*
 * A participant starts work in a phase.  Paired with pv_cost_end_work().
 */
void
pv_cost_begin_work(PvCostShared *shared)
{
	pg_atomic_fetch_add_u32(&shared->nactive, 1);
	pg_atomic_fetch_add_u32(&shared->epoch, 1);
	pv_cost_current = shared;

	if (shared->delay > 0)
		VacuumCostActive = !disabled;
	pv_cost_take_share();
}

/*
 * A participant has run out of work in this phase and is about to wait.
 */
void
pv_cost_end_work(void)
{
	pg_atomic_fetch_sub_u32(&pv_cost_current->nactive, 1);
	pg_atomic_fetch_add_u32(&pv_cost_current->epoch, 1);
	pv_cost_current = NULL;
}

/*
 * Recompute how much this process may do before it sleeps.
 */
void
pv_cost_take_share(void)
{
	PvCostShared *shared = pv_cost_current;
	int			nactive;

	/* Epoch first: if the count changes after that, we shall be back */
	pv_cost_epoch = pg_atomic_read_u32(&shared->epoch);
	pg_read_barrier();
	if (shared->delay <= 0)
		return;

	nactive = Max(1, (int) pg_atomic_read_u32(&shared->nactive));
	pv_vacuum_cost_limit = shared->limit;
	pv_vacuum_cost_delay = shared->delay * nactive /
		(1.0 + shared->scale * (nactive - 1));
}

/*
 * The failsafe is on: no more sleeping in this process.
 */
void
pv_cost_disable(void)
{
	disabled = true;
	VacuumCostActive = false;
	VacuumCostBalance = 0;
}

/*
 * Leader: put its own settings back, after success and after an error alike.
 */
void
pv_cost_restore(void)
{
	pv_cost_current = NULL;
	disabled = false;
	if (!saved)
		return;
	pv_vacuum_cost_delay = saved_delay;
	pv_vacuum_cost_limit = saved_limit;
	saved = false;
}
