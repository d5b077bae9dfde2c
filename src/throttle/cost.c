/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  Cost-based delay for several processes that vacuum one table.
 *
 * Leader and workers run this.  The budget is vacuum_cost_limit per
 * vacuum_cost_delay, as the leader has them.  With n participants at work it
 * becomes
 *
 *		limit * (1 + scale * (n - 1))
 *
 * and every one of them sleeps on its own account, under an n-th of that,
 * which is had by sleeping longer.  So at scale 1 each adds a full share, and
 * at scale 0 all of them together do no more I/O than one process would.  A
 * participant that runs out of work says so (pv_cost_end_work), and the others
 * notice at their next pv_cost_poll() and take over its share; otherwise one
 * large index left to one process would be vacuumed at a fraction of the
 * budget.
 *
 * Within an access method only the callback of a bulk deletion polls; in index
 * cleanup a share lasts until the index is done.  So in the index phases n is
 * not the number of those who happen to have begun: it is that of all who can
 * come to have an index, the participants or the indexes not done yet, whichever
 * is less.  It only falls, so shares taken early add up to no more than one.
 *
 * We do not use core's VacuumSharedCostBalance.  There, whoever pushed the
 * common balance over the limit sleeps off what it did itself, while its
 * peers go on, so that n busy processes use up to n budgets; and its pointers
 * into dynamic shared memory dangle after an error.
 * Core: commands/vacuum.c, compute_parallel_delay.
 *
 * An autovacuum worker's budget changes while it works.  Core takes some of it
 * away when another autovacuum worker starts, and gives it back.  And an
 * administrator changes the settings, which the leader then reads by itself
 * (base/reload.c); one that the scheduler has sent does, too.  The leader looks at
 * every page, every few index tuples, and while it waits for its workers, and tells
 * them the new budget and settings.
 *
 * On 15 core stores its own limit and delay over ours whenever an autovacuum
 * worker has slept, and knows nothing of a reload before the next table.  So such a
 * leader takes its share by counting each page several times, rounded up where the
 * scale makes a fraction of it.  What a reload has changed is put back by the next
 * poll; a limit that autovacuum workers share is divided among those there are.
 *
 * The scheduler workers, and the workers they lead, have no budget for each
 * table but one account (throttle/balance.c), carried on from table to table.  They pay
 * at every poll, once there is something worth paying, and it is core's delay
 * point that sleeps, at the next place where that does no harm: its balance and
 * delay are set so that it sleeps as long as the account says.  After that, and
 * where core's code comes to no poll of ours, as in ANALYZE, core sleeps by its
 * limit, at a rate divided among all scheduler workers; a change of the rate reaches it at
 * the next poll, which may be the next table.
 *
 * A sweep (engine/sweep.c) pays for each leaf when it has let go of it.  What one leaf costs
 * may be many times the limit, and core's delay point would forgive most of that, so
 * pv_cost_delay_in_full() sleeps in its place.
 *
 * Locks: a spinlock over the budget.  One atomic counts who is at work,
 * another, changed after it, tells that something changed.  A share that is
 * stale for a while does no harm.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/pmsignal.h"
#include "storage/shmem.h"
#include "utils/guc.h"

#include "base/borrowed.h"
#include "base/settings.h"
#include "throttle/cost.h"

PvCostShared *pv_cost_current = NULL;
uint32		pv_cost_epoch = 0;
bool		pv_cost_follows_reloads = false;
uint32		pv_cost_nreloads = 0;
bool		pv_cost_on_balance = false;
bool		pv_is_scheduler_worker = false;
PvCountWorkers pv_cost_count_workers = NULL;

/*
 * The account of scheduler workers, and the cost units per second that it
 * goes by, 0 for no limit.  Atomics.  The launcher writes the rate at each reload.
 */
typedef struct BalanceShared
{
	PvCostBalance	account;
	pg_atomic_uint64 rate;
} BalanceShared;

static BalanceShared *shared_balance = NULL;

/* Microseconds of the rate that are paid at a time, the shortest sleep, each sleep
 * of core's code that comes to no poll, and the longest sleep: who has to sleep
 * longer asks again, since the rate may have changed */
#define PAYMENT_USECS			5000
#define MIN_SLEEP_USECS			1000
#define UNPOLLED_USECS			50000
#define MAX_SLEEP_USECS			1000000

/* However far its limit is exceeded, core sleeps no more than so many delays.
 * Core: commands/vacuum.c, vacuum_delay_point. */
#define MAX_SLEEP_FACTOR		4

/* What was paid for is to be slept off at core's next delay point.  The balance is
 * this much until then, more than anybody uses between two polls: by that it is
 * told whether core has slept and begun at 0 again. */
static bool sleep_is_due = false;
static bool more_is_due = false;

#define DUE_BALANCE				(1 << 24)

/* What this process had used when its account was settled last */
static BufferUsage settled_usage;

/* A sleep that pays in full: the longest before the settings and the postmaster are
 * looked at again, and how much more than was owed it may have taken and still count
 * for the next one.  A process that was stopped for an hour must not go on for an hour
 * without a sleep. */
#define MAX_NAP_USECS			50000
#define MAX_CREDIT_USECS		100000

/* The failsafe is on in this process: no throttling until the vacuum ends */
static bool disabled = false;

/* The leader's own settings, to be put back by pv_cost_restore() */
static bool saved = false;
static double saved_delay;
static int	saved_limit;

/* What a page counts, where it counts several times */
static bool weighed = false;
static int	page_hit;
static int	page_miss;
static int	page_dirty;

/* Is this process an autovacuum worker that leads? */
static bool leads_autovacuum = false;

/* Its delay, by the settings */
static double autovacuum_delay;

/* On 15: by the settings, when it came to the table and now; which of them its
 * table has fixed, and how many autovacuum workers there are, counted now and then */
static PvCostBudget began_with;
static PvCostBudget configured;
static PvOwnCosts owns;
static int	nautovacuum = 0;
static uint32 nrefreshes = 0;

#define REFRESHES_PER_COUNT		256

Size
pv_cost_shmem_size(void)
{
	return MAXALIGN(sizeof(BalanceShared));
}

/* Finds the account or sets it up.  The caller holds AddinShmemInitLock. */
void
pv_cost_shmem_startup(void)
{
	bool		found;

	shared_balance = ShmemInitStruct("parvacuum account", sizeof(BalanceShared), &found);
	if (!found)
	{
		pv_balance_init(&shared_balance->account);
		pg_atomic_init_u64(&shared_balance->rate, 0);
	}
}

/* The cost units per second that the scheduler may use; 0: no limit. */
int64
pv_cost_rate(void)
{
	return pg_atomic_read_u64(&shared_balance->rate);
}

/* The cost units that the scheduler has used since the server started. */
int64
pv_cost_units(void)
{
	return pg_atomic_read_u64(&shared_balance->account.units);
}

/*
 * Leader, before launch: remember the settings this vacuum runs under.
 */
void
pv_cost_init(PvCostShared *shared, double scale)
{
	SpinLockInit(&shared->mutex);
	shared->budget.delay = VacuumCostActive ? pv_vacuum_cost_delay : 0;
	shared->budget.limit = pv_vacuum_cost_limit;
	shared->budget.scale = scale;
	shared->nparticipants = 1;
	shared->on_balance = false;
	shared->nreloads = 0;
	pv_cost_nreloads = 0;
	pg_atomic_init_u32(&shared->nactive, 0);
	pg_atomic_init_u32(&shared->nunits, 0);
	pg_atomic_init_u32(&shared->epoch, 1);

	saved_delay = pv_vacuum_cost_delay;
	saved_limit = pv_vacuum_cost_limit;
	saved = true;
}

/*
 * What the configuration, as this process knows it, gives autovacuum.  An
 * autovacuum worker's variables of vacuum_cost_* have its own limits in them, so
 * their settings are asked for instead.
 * Core: postmaster/autovacuum.c, table_recheck_autovac.
 */
void
pv_cost_of_autovacuum(PvCostBudget *budget)
{
	budget->delay = autovacuum_vac_cost_delay >= 0 ? autovacuum_vac_cost_delay :
		atof(GetConfigOptionResetString("vacuum_cost_delay"));
	budget->limit = autovacuum_vac_cost_limit > 0 ? autovacuum_vac_cost_limit :
		atoi(GetConfigOptionResetString("vacuum_cost_limit"));
	budget->scale = pv_guc_autovacuum_cost_limit_scale;
}

/*
 * Leader of a vacuum that nobody waits for: have reloads reach it.
 */
void
pv_cost_follow_reloads(void)
{
	pv_reload_defer();
	pv_cost_follows_reloads = true;
}

/*
 * The same, and it is an autovacuum worker: follow core's balancing as well.  own
 * says what no reload changes.
 */
void
pv_cost_lead_autovacuum(const PvOwnCosts *own)
{
	int			limit;

	owns = *own;
	nautovacuum = 0;
	pv_cost_of_autovacuum(&began_with);
	configured = began_with;
	pv_autovacuum_cost_settings(&autovacuum_delay, &limit);

	pv_cost_follow_reloads();
	leads_autovacuum = true;
}

static bool
same_budget(const PvCostBudget *a, const PvCostBudget *b)
{
	return a->delay == b->delay && a->limit == b->limit && a->scale == b->scale;
}

/*
 * On 15, where core learns of a reload at the next table: put what it has changed in
 * place of what core allows.  A limit that autovacuum workers share is divided among
 * those there are.
 */
static void
correct_budget(PvCostBudget *budget)
{
	if (!owns.delay && configured.delay != began_with.delay)
		budget->delay = configured.delay;
	if (!owns.limit && configured.limit != began_with.limit)
	{
		if (nautovacuum == 0 || ++nrefreshes % REFRESHES_PER_COUNT == 0)
			nautovacuum = pv_count_autovacuum_workers();
		budget->limit = owns.delay ? configured.limit :
			Max(1, configured.limit / nautovacuum);
	}
}

/*
 * Count pages so many times from now on, or once again.
 */
static void
weigh_pages(double times)
{
	if (!weighed)
	{
		page_hit = VacuumCostPageHit;
		page_miss = VacuumCostPageMiss;
		page_dirty = VacuumCostPageDirty;
	}
	weighed = (times != 1.0);
	VacuumCostPageHit = (int) ceil(page_hit * times);
	VacuumCostPageMiss = (int) ceil(page_miss * times);
	VacuumCostPageDirty = (int) ceil(page_dirty * times);
}

/*
 * Leader: read what has changed in the configuration, and tell the workers.
 */
static void
take_reload(PvCostShared *shared)
{
	PvSettings	settings;
	double		working_delay = pv_vacuum_cost_delay;
	int			working_limit = pv_vacuum_cost_limit;
	int			limit;

	/* Settings are not to be taken for what they were weighed to, nor left so */
	if (weighed)
		weigh_pages(1.0);
	pv_reload_now(&settings);

	/* On 15 these are settings as well; a sleep may be arranged in them */
	if (pv_cost_on_balance)
	{
		pv_vacuum_cost_delay = working_delay;
		pv_vacuum_cost_limit = working_limit;
	}

	SpinLockAcquire(&shared->mutex);
	shared->settings = settings;
	pv_cost_nreloads = ++shared->nreloads;
	SpinLockRelease(&shared->mutex);
	pg_atomic_fetch_add_u32(&shared->epoch, 1);

	if (leads_autovacuum)
	{
		pv_cost_of_autovacuum(&configured);
		pv_autovacuum_cost_settings(&autovacuum_delay, &limit);
	}
}

/*
 * Leader that is an autovacuum worker: find out what the budget is by now.
 */
static void
refresh_budget(PvCostShared *shared)
{
	PvCostBudget budget;

	budget.delay = autovacuum_delay;
	budget.limit = pv_autovacuum_cost_limit();
	budget.scale = pv_guc_autovacuum_cost_limit_scale;
	if (PV_CORE_RESETS_COSTS)
		correct_budget(&budget);

	if (!same_budget(&budget, &shared->budget))
	{
		SpinLockAcquire(&shared->mutex);
		shared->budget = budget;
		SpinLockRelease(&shared->mutex);
		pg_atomic_fetch_add_u32(&shared->epoch, 1);
	}
}

/*
 * Leader of a vacuum that nobody waits for: find out what holds for it by now, and
 * take its share, also because core may have stored its own values.  Takes no lock
 * but spinlocks, so it may be called with a page locked.
 */
void
pv_cost_refresh(PvCostShared *shared)
{
	if (!pv_cost_follows_reloads)
		return;
	if (unlikely(pv_reload_is_due))
		take_reload(shared);
	if (leads_autovacuum)
		refresh_budget(shared);
	if (pv_cost_current != NULL &&
		(leads_autovacuum || pg_atomic_read_u32(&shared->epoch) != pv_cost_epoch))
		pv_cost_take_share();
}

/*
 * Leader, between phases: in the next one so many processes can work at a time,
 * one for each index, or more where several do one together.
 */
void
pv_cost_begin_indexes(PvCostShared *shared, int nsharers)
{
	pg_atomic_write_u32(&shared->nunits, nsharers);
}

/*
 * Whoever has done an index, which so many could work on.  The last one ends the
 * counting.
 */
void
pv_cost_index_done(PvCostShared *shared, int nsharers)
{
	pg_atomic_fetch_sub_u32(&shared->nunits, nsharers);
	pg_atomic_fetch_add_u32(&shared->epoch, 1);
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
	if (shared->on_balance)
		pv_cost_open_balance();
	pv_cost_refresh(shared);
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
	if (weighed)
		weigh_pages(1.0);
}

/* The account's clock, which nobody sets. */
static int64
now_usecs(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

/*
 * Launcher: have scheduler workers work at another rate, in units per second; 0 is
 * no limit.
 */
void
pv_cost_set_rate(int64 rate)
{
	int64		old_rate = pv_cost_rate();

	if (rate == old_rate)
		return;
	pg_atomic_write_u64(&shared_balance->rate, rate);
	pv_balance_change_rate(&shared_balance->account, old_rate, rate, now_usecs());
}

/*
 * Among how many is the budget divided?
 */
static int
count_sharers(PvCostShared *shared)
{
	int			nunits = (int) pg_atomic_read_u32(&shared->nunits);

	if (nunits > 0)
		return Min(nunits, shared->nparticipants);
	return Max(1, (int) pg_atomic_read_u32(&shared->nactive));
}

/*
 * From its next sleep on core's code, if it comes to no poll, is to sleep so long
 * each time that it keeps to a scheduler worker's part of the rate.
 */
static void
sleep_unpolled(int64 rate, int64 usecs)
{
	int64		limit = rate * usecs / 1000000 / Max(pv_cost_count_workers(), 1);

	pv_vacuum_cost_limit = Min(Max(limit, 1), DUE_BALANCE / MAX_SLEEP_FACTOR);
	pv_vacuum_cost_delay = usecs / 1000.0;
}

/*
 * All that was done is paid for.
 */
static void
begin_charge(int64 rate)
{
	sleep_is_due = false;
	VacuumCostBalance = 0;
	VacuumCostActive = rate > 0 && !disabled;
	sleep_unpolled(rate, UNPOLLED_USECS);
}

/*
 * From now on this process pays from the scheduler's account; it may do so
 * already.
 */
void
pv_cost_open_balance(void)
{
	if (pv_cost_on_balance)
		return;
	pv_cost_on_balance = true;
	begin_charge(pv_cost_rate());
}

/*
 * Leave it, for a table that has limits of its own.
 */
void
pv_cost_close_balance(double delay, int limit)
{
	pv_cost_on_balance = false;
	sleep_is_due = false;
	VacuumCostBalance = 0;
	pv_vacuum_cost_delay = delay;
	pv_vacuum_cost_limit = limit;
	VacuumCostActive = delay > 0;
}

/* Core sets the balance back when it has slept. */
static bool
is_still_to_sleep(void)
{
	return sleep_is_due && VacuumCostBalance >= DUE_BALANCE;
}

/*
 * Pay for what was done since the last time, if it is worth it, and arrange for
 * the sleep that it costs.  Cheap, and safe while a page is locked.
 */
void
pv_cost_charge(void)
{
	int64		rate = pv_cost_rate();
	int64		wait;

	VacuumCostActive = rate > 0 && !disabled;
	if (!VacuumCostActive)
	{
		more_is_due = false;
		return;
	}
	if (is_still_to_sleep())
		return;
	if (sleep_is_due)
	{
		sleep_is_due = false;
		sleep_unpolled(rate, UNPOLLED_USECS);
	}
	if (!more_is_due && VacuumCostBalance < rate * PAYMENT_USECS / 1000000)
		return;

	wait = pv_balance_charge(&shared_balance->account, VacuumCostBalance, rate,
							 now_usecs());
	more_is_due = wait > MAX_SLEEP_USECS;
	if (wait < MIN_SLEEP_USECS)
	{
		VacuumCostBalance = 0;
		return;
	}
	sleep_is_due = true;
	VacuumCostBalance = DUE_BALANCE;
	sleep_unpolled(rate, Min(wait, MAX_SLEEP_USECS) / MAX_SLEEP_FACTOR);
}

/*
 * Sleep on, after a delay point with no page locked, if still something is owed: where the
 * rate is low a page may cost more than the longest sleep.  False if nothing is, or if core
 * would not sleep, because it has an interrupt to serve first.
 */
bool
pv_cost_sleep_on(void)
{
	if (!more_is_due || !pv_cost_on_balance || is_still_to_sleep())
		return false;
	pv_cost_charge();
	pv_delay_point();
	return true;
}

/* What these blocks cost. */
static int64
units_of(const BufferUsage *usage)
{
	return usage->shared_blks_hit * VacuumCostPageHit +
		usage->shared_blks_read * VacuumCostPageMiss +
		usage->shared_blks_dirtied * VacuumCostPageDirty;
}

/*
 * After code that did not poll: charge what core has slept off meanwhile, for others
 * to know, a second of the rate at most.  The account was settled before it.
 */
void
pv_cost_charge_slept(void)
{
	int64		rate = pv_cost_rate();
	int64		slept;

	if (!pv_cost_on_balance || !VacuumCostActive || sleep_is_due)
		return;
	slept = units_of(&pgBufferUsage) - units_of(&settled_usage) - VacuumCostBalance;
	if (slept > 0)
		(void) pv_balance_charge(&shared_balance->account, Min(slept, rate), rate,
								 now_usecs());
}

/*
 * Charge the rest, and leave it to the next payment to wait for it, however small
 * that is.
 */
void
pv_cost_flush(void)
{
	int64		rate = pv_cost_rate();
	int64		units = VacuumCostBalance;

	if (!pv_cost_on_balance)
		return;
	if (is_still_to_sleep())
		units -= DUE_BALANCE;
	more_is_due = pv_balance_charge(&shared_balance->account, units, rate,
									now_usecs()) >= MIN_SLEEP_USECS;
	begin_charge(rate);
	settled_usage = pgBufferUsage;
}

/*
 * Have the settings that the leader has, and recompute how much this process may do
 * before it sleeps.
 */
void
pv_cost_take_share(void)
{
	PvCostShared *shared = pv_cost_current;
	PvCostBudget budget;
	PvSettings	settings;
	uint32		nreloads;
	double		times;			/* as long as one process alone would sleep */
	int			n;

	/* Epoch first: if anything changes after that, we shall be back */
	pv_cost_epoch = pg_atomic_read_u32(&shared->epoch);
	pg_read_barrier();
	SpinLockAcquire(&shared->mutex);
	budget = shared->budget;
	nreloads = shared->nreloads;
	if (nreloads != pv_cost_nreloads)
		settings = shared->settings;
	SpinLockRelease(&shared->mutex);

	if (nreloads != pv_cost_nreloads)
		pv_reload_adopt(&settings);
	pv_cost_nreloads = nreloads;
	if (pv_cost_on_balance)
		return;

	VacuumCostActive = budget.delay > 0 && !disabled;
	if (VacuumCostActive)
	{
		n = count_sharers(shared);
		times = n / (1.0 + budget.scale * (n - 1));
		if (PV_CORE_RESETS_COSTS && leads_autovacuum)
		{
			weigh_pages(times);
			times = 1.0;
		}
		pv_vacuum_cost_limit = budget.limit;
		pv_vacuum_cost_delay = budget.delay * times;
	}
}

/*
 * The failsafe is on: no more sleeping in this process, and others are to notice.
 */
void
pv_cost_disable(void)
{
	/* Who has a long time to sleep wakes up */
	if (!disabled && pv_cost_current != NULL)
		pg_atomic_fetch_add_u32(&pv_cost_current->epoch, 1);

	disabled = true;
	pv_set_failsafe(true);
	VacuumCostActive = false;
	VacuumCostBalance = 0;
}

/*
 * Sleep once for what is owed, and take off the balance what the time slept is worth.
 * It is measured, since a signal ends a sleep early and the kernel lets it last longer.
 * So the balance may become negative.  Returns the microseconds slept.
 */
static int64
nap(double usecs_per_unit)
{
	int64		begin = now_usecs();
	double		owed = VacuumCostBalance * usecs_per_unit;
	double		paid;			/* in cost units */
	int64		slept;

	pgstat_report_wait_start(WAIT_EVENT_VACUUM_DELAY);
	pg_usleep((long) Max(Min(owed, MAX_NAP_USECS), 1));
	pgstat_report_wait_end();

	/* As core's delay point; a sleep of microseconds cannot wait for a latch */
	if (IsUnderPostmaster && !PostmasterIsAlive())
		exit(1);

	slept = now_usecs() - begin;
	paid = Min(slept, owed + MAX_CREDIT_USECS) / usecs_per_unit;
	VacuumCostBalance -= (int) Min(paid, VacuumCostBalance + DUE_BALANCE);
	return slept;
}

/*
 * A delay point that forgives nothing: sleep until all cost units used so far are paid
 * for, however many.  Core's sleeps for four delays at most, which is too little where
 * a process comes to no delay point for long, as it holds a pin.  For a process that
 * has a budget, not the scheduler's account.  Only where no page is locked or pinned
 * that others wait for.  Returns the microseconds slept.
 */
int64
pv_cost_delay_in_full(void)
{
	int64		slept = 0;

	Assert(!pv_cost_on_balance);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		pv_cost_poll();
		if (!pv_cost_is_owing())
			return slept;
		slept += nap(pv_vacuum_cost_delay * 1000 / pv_vacuum_cost_limit);
	}
}

/*
 * Leader: put its own settings back, after success and after an error alike.
 * An autovacuum worker's may have changed meanwhile, and an ANALYZE may follow.
 */
void
pv_cost_restore(void)
{
	if (weighed)
		weigh_pages(1.0);
	if (saved && !pv_cost_on_balance)
	{
		pv_vacuum_cost_delay = saved_delay;
		pv_vacuum_cost_limit = saved_limit;
	}
	if (pv_cost_follows_reloads)
		pv_reload_resume();
	if (leads_autovacuum)
	{
		pv_autovacuum_cost_settings(&saved_delay, &saved_limit);
		if (!disabled)
			VacuumCostActive = saved_delay > 0;
	}

	pv_cost_current = NULL;
	pv_cost_follows_reloads = false;
	leads_autovacuum = false;
	if (disabled)
		pv_set_failsafe(false);
	disabled = false;
	saved = false;
}
