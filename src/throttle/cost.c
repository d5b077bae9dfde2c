/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  Cost-based delay for several processes that vacuum one table.
 *
 * A process is throttled in one of three modes (PvCostMode):
 *
 *	mode			process						what it may use
 *
 *	BUDGET			leader and workers of a		a share of the budget of the
 *					VACUUM or a run; a sweep;	vacuum: vacuum_cost_limit, or
 *					workers of an autovacuum	the table's own limit, and what
 *					worker; scheduler worker	the further participants add
 *					at a table with its own
 *					cost limits
 *	AUTOVACUUM		autovacuum worker that		the same, but core's balancing
 *					leads						and reloads change the budget
 *													(throttle/cost_autovacuum.c)
 *	SCHEDULER		scheduler worker and its	the cost balance of the scheduler
 *					workers; with the adaptive	(throttle/cost_scheduler.c)
 *					pace autovacuum worker that
 *					leads, and its workers
 *
 *	mode			who sleeps
 *
 *	all				core's delay point (vacuum_delay_point()), by its variables for
 *					the limit and the delay, which are set here
 *	BUDGET, sweep	pv_cost_delay_in_full() below
 *
 * The budget is a limit of cost units for each delay, as the leader has them.
 * With n participants at work it becomes
 *
 *		limit * (1 + scale * (n - 1))
 *
 * and each of them has an n-th of that, with a cost balance of its own.
 * Longer sleeps make a share smaller.  When a participant runs out of work, the
 * others take over its share at their next pv_cost_poll().  Otherwise a large
 * index that is left to one process would be vacuumed at a fraction of the
 * budget.
 *
 * In index cleanup no access method polls, so a share lasts until the index is
 * done.  So in the index phases n is not the number of participants at work,
 * but of those that can still get an index: the participants or the indexes
 * not done yet, whichever is less.  It only falls, so shares that were taken
 * early add up to no more than one budget.
 *
 * We do not use core's VacuumSharedCostBalance.  There a process sleeps only
 * for what it has done itself, so that n busy processes use up to n budgets.
 * And its pointers into dynamic shared memory dangle after an error.
 *
 * A leader whose vacuum no session waits for applies reloads (base/reload.c).
 * It looks for them at every page, every few index tuples, and while it waits
 * for its workers, and gives the workers the new budget and settings.  A share
 * that is stale for a moment does no harm.
 *
 * Core: commands/vacuum.c, compute_parallel_delay.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/pmsignal.h"

#include "base/clock.h"
#include "throttle/cost.h"

PvCostState pv_cost = {.mode = PV_COST_BUDGET};
bool		pv_is_scheduler_worker = false;

/* The longest sleep without a look at settings and postmaster, microseconds */
#define MAX_NAP_USECS			50000

/*
 * How much of a sleep that took longer than owed counts for the next one, in
 * microseconds and in cost units: a process may have been stopped for an hour
 */
#define MAX_CREDIT_USECS		100000
#define MAX_CREDIT_UNITS		(1 << 24)

/* The leader's own settings, which pv_cost_restore() restores */
static struct
{
	bool		valid;
	double		delay;
	int			limit;
}			saved;


/* ----------------------------------------------------------------
 *		The shared part
 * ----------------------------------------------------------------
 */

/*
 * Leader, before launch: initialize the shared part, with the limits that are
 * in effect in this process.
 */
void
pv_cost_init(PvCostShared *shared, double scale)
{
	SpinLockInit(&shared->mutex);
	shared->budget.delay = VacuumCostActive ? pv_vacuum_cost_delay : 0;
	shared->budget.limit = pv_vacuum_cost_limit;
	shared->budget.scale = scale;
	shared->nparticipants = 1;
	shared->on_balance = pv_cost.mode == PV_COST_SCHEDULER;
	shared->nreloads = 0;
	pv_cost.nreloads = 0;
	pg_atomic_init_u32(&shared->nactive, 0);
	pg_atomic_init_u32(&shared->nunits, 0);
	pg_atomic_init_u32(&shared->epoch, 1);

	saved.delay = pv_vacuum_cost_delay;
	saved.limit = pv_vacuum_cost_limit;
	saved.valid = true;
}

/* Make every process that uses the shared part look at it again. */
static void
increment_epoch(PvCostShared *shared)
{
	pg_atomic_fetch_add_u32(&shared->epoch, 1);
}

/*
 * Leader, between phases: let nsharers processes share the budget in the next
 * phase, one for each index, or more if several can vacuum one together.
 */
void
pv_cost_begin_indexes(PvCostShared *shared, int nsharers)
{
	pg_atomic_write_u32(&shared->nunits, nsharers);
}

/*
 * A participant has finished an index, on which nsharers could work.  After
 * the last index there is no limit of this kind.
 */
void
pv_cost_index_done(PvCostShared *shared, int nsharers)
{
	pg_atomic_fetch_sub_u32(&shared->nunits, nsharers);
	increment_epoch(shared);
}

/* Return the number of processes that share the budget. */
static int
count_sharers(PvCostShared *shared)
{
	int			nunits = (int) pg_atomic_read_u32(&shared->nunits);

	if (nunits > 0)
		return Min(nunits, shared->nparticipants);
	return Max(1, (int) pg_atomic_read_u32(&shared->nactive));
}


/* ----------------------------------------------------------------
 *		Reloads, and the budget of an autovacuum worker
 * ----------------------------------------------------------------
 */

/* Leader of a vacuum that no session waits for: apply reloads from now on. */
void
pv_cost_follow_reloads(void)
{
	pv_reload_defer();
	pv_cost.follows_reloads = true;
}

/*
 * The same, for an autovacuum worker, before it launches parallel workers.
 * With the adaptive pace it may use the scheduler's balance.  Otherwise its
 * budget also follows core's balancing.  own says which limits no reload
 * changes.
 */
void
pv_cost_lead_autovacuum(PvCostShared *shared, const PvOwnCosts *own)
{
	pv_cost_autovacuum_begin(own);
	pv_cost_follow_reloads();
	shared->on_balance =
		!own->delay && !own->limit && pv_cost_join_balance();
	if (!shared->on_balance)
		pv_cost.mode = PV_COST_AUTOVACUUM;
}

/* Leader: read the configuration again, and give it to the workers. */
static void
apply_reload(PvCostShared *shared)
{
	PvSettings	settings;
	double		working_delay = pv_vacuum_cost_delay;
	int			working_limit = pv_vacuum_cost_limit;

	/* What was multiplied is not a setting, and must not stay */
	pv_cost_weigh_pages(1.0);
	pv_reload_now(&settings);

	/* On PG 15 these are settings, too; they hold the sleep that is due */
	if (pv_cost.mode == PV_COST_SCHEDULER)
	{
		pv_vacuum_cost_delay = working_delay;
		pv_vacuum_cost_limit = working_limit;
	}

	SpinLockAcquire(&shared->mutex);
	shared->settings = settings;
	pv_cost.nreloads = ++shared->nreloads;
	SpinLockRelease(&shared->mutex);
	increment_epoch(shared);

	if (pv_cost.mode == PV_COST_AUTOVACUUM)
		pv_cost_autovacuum_reloaded();
}

/* Leader that is an autovacuum worker: store the current budget. */
static void
refresh_budget(PvCostShared *shared)
{
	PvCostBudget budget;

	pv_cost_autovacuum_budget(&budget);
	if (budget.delay != shared->budget.delay ||
		budget.limit != shared->budget.limit ||
		budget.scale != shared->budget.scale)
	{
		SpinLockAcquire(&shared->mutex);
		shared->budget = budget;
		SpinLockRelease(&shared->mutex);
		increment_epoch(shared);
	}
}

/*
 * Leader of a vacuum that no session waits for: find out what holds for it
 * now, and take its share.  An autovacuum worker always takes it, because core
 * may have stored its own values.  A page may be locked.
 */
void
pv_cost_refresh(PvCostShared *shared)
{
	bool		is_autovacuum = pv_cost.mode == PV_COST_AUTOVACUUM;

	if (!pv_cost.follows_reloads)
		return;
	if (unlikely(pv_reload_is_due))
		apply_reload(shared);
	if (is_autovacuum)
		refresh_budget(shared);
	if (pv_cost.shared != NULL && (is_autovacuum || pv_cost_share_is_stale()))
		pv_cost_take_share();
}


/* ----------------------------------------------------------------
 *		A participant at work
 * ----------------------------------------------------------------
 */

/* Begin to work in a phase.  pv_cost_end_work() must follow. */
void
pv_cost_begin_work(PvCostShared *shared)
{
	pg_atomic_fetch_add_u32(&shared->nactive, 1);
	increment_epoch(shared);
	pv_cost.shared = shared;
	if (shared->on_balance)
		pv_cost_open_balance();
	pv_cost_refresh(shared);
	pv_cost_take_share();
}

/* Note that this participant has no work left, and is about to wait. */
void
pv_cost_end_work(void)
{
	pg_atomic_fetch_sub_u32(&pv_cost.shared->nactive, 1);
	increment_epoch(pv_cost.shared);
	pv_cost.shared = NULL;
	pv_cost_weigh_pages(1.0);
}

/*
 * Apply the leader's settings, and recompute how much this process may do
 * before it sleeps.
 */
void
pv_cost_take_share(void)
{
	PvCostShared *shared = pv_cost.shared;
	PvCostBudget budget;
	PvSettings	settings;
	uint32		nreloads;
	double		times;			/* as long as one process alone would sleep */
	int			n;

	/* The epoch first, so that a later change brings us here again */
	pv_cost.epoch = pg_atomic_read_u32(&shared->epoch);
	pg_read_barrier();
	SpinLockAcquire(&shared->mutex);
	budget = shared->budget;
	nreloads = shared->nreloads;
	if (nreloads != pv_cost.nreloads)
		settings = shared->settings;
	SpinLockRelease(&shared->mutex);

	if (nreloads != pv_cost.nreloads)
		pv_reload_adopt(&settings);
	pv_cost.nreloads = nreloads;
	if (pv_cost.mode == PV_COST_SCHEDULER)
		return;

	VacuumCostActive = budget.delay > 0 && !pv_cost.failsafe;
	if (!VacuumCostActive)
		return;
	n = count_sharers(shared);
	times = n / (1.0 + budget.scale * (n - 1));
	if (PV_CORE_RESETS_COSTS && pv_cost.mode == PV_COST_AUTOVACUUM)
	{
		/* Core would overwrite the delay */
		pv_cost_weigh_pages(times);
		times = 1.0;
	}
	pv_vacuum_cost_limit = budget.limit;
	pv_vacuum_cost_delay = budget.delay * times;
}

/* The failsafe is on: do not sleep any more until the vacuum ends. */
void
pv_cost_disable(void)
{
	/* Processes that have long to sleep wake up and notice it */
	if (!pv_cost.failsafe && pv_cost.shared != NULL)
		increment_epoch(pv_cost.shared);

	pv_cost.failsafe = true;
	pv_set_failsafe(true);
	VacuumCostActive = false;
	VacuumCostBalance = 0;
}

/*
 * Leader: restore its own settings, after an error too.  Those of an
 * autovacuum worker may have changed meanwhile.
 */
void
pv_cost_restore(void)
{
	pv_cost_weigh_pages(1.0);
	if (pv_cost_leave_balance())
		pv_cost.mode = PV_COST_AUTOVACUUM;
	if (saved.valid && pv_cost.mode != PV_COST_SCHEDULER)
	{
		pv_vacuum_cost_delay = saved.delay;
		pv_vacuum_cost_limit = saved.limit;
	}
	if (pv_cost.follows_reloads)
		pv_reload_resume();
	if (pv_cost.mode == PV_COST_AUTOVACUUM)
	{
		pv_cost_autovacuum_end(pv_cost.failsafe);
		pv_cost.mode = PV_COST_BUDGET;
	}

	pv_cost.shared = NULL;
	pv_cost.follows_reloads = false;
	if (pv_cost.failsafe)
		pv_set_failsafe(false);
	pv_cost.failsafe = false;
	saved.valid = false;
}

/*
 * Sleep at a delay point where that is due, and count the time.  Return the
 * microseconds slept.
 */
int64
pv_cost_sleep(void)
{
	int64		begin = pv_usecs_of_machine();
	int64		slept;

	pv_cost_delay_points();
	slept = pv_usecs_since(begin);
	pv_cost.slept_usecs += slept;
	return slept;
}

/*
 * Sleep once for what is owed, or for some of it, for one unit at least.
 * Subtract from the balance what the time slept is worth.  A signal may end a
 * sleep early, and the kernel may prolong it, so the balance may become
 * negative.  Return the microseconds slept.
 */
static int64
nap(double usecs_per_unit)
{
	int64		begin = pv_usecs_of_machine();
	double		owed = VacuumCostBalance * usecs_per_unit;
	double		worth;			/* of the sleep, in cost units */
	int64		slept;

	pgstat_report_wait_start(WAIT_EVENT_VACUUM_DELAY);
	pg_usleep((long) Max(Min(owed, Max(MAX_NAP_USECS, usecs_per_unit)), 1));
	pgstat_report_wait_end();

	/* As in core's delay point; so short a sleep cannot wait for a latch */
	if (IsUnderPostmaster && !PostmasterIsAlive())
		exit(1);

	slept = pv_usecs_since(begin);
	worth = Min(slept, owed + MAX_CREDIT_USECS) / usecs_per_unit;
	VacuumCostBalance -=
		(int) Min(worth, VacuumCostBalance + MAX_CREDIT_UNITS);
	return slept;
}

/*
 * Sleep until all cost units used so far are slept off.  A sweep does so after
 * it has released a leaf, which may have cost many times the limit; core's
 * delay point would forgive what is worth more than four delays.  This is for
 * a process that has a budget.  It must not hold a lock or a pin that others
 * wait for.  Return the microseconds slept.
 *
 * Core: commands/vacuum.c, vacuum_delay_point.
 */
int64
pv_cost_delay_in_full(void)
{
	int64		slept = 0;

	Assert(pv_cost.mode != PV_COST_SCHEDULER);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		pv_cost_poll();
		if (!pv_cost_is_owing())
			return slept;
		slept += nap(pv_vacuum_cost_delay * 1000 / pv_vacuum_cost_limit);
	}
}
