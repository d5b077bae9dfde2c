/*-------------------------------------------------------------------------
 *
 * cost_scheduler.c
 *	  The scheduler's cost balance.
 *
 * Scheduler workers and their parallel workers have one balance
 * (throttle/balance.c).  With the adaptive pace autovacuum workers that lead
 * join it.  At a poll they charge what they have used, if it is enough.  Then
 * core's delay point sleeps, where that does no harm (pv_make_sleep_due() in
 * base/borrowed.c).
 *
 * Code of core that comes to no poll of ours, as in ANALYZE, sleeps by core's
 * own limit, which is set to a worker's part of the rate.  A change of the
 * rate takes effect there at the next poll, which may be at the next table.
 *
 * VacuumCostBalance is what was used since the last charge or, while a sleep is
 * due, a constant that no process uses up.  Core sets it to 0 when it has slept.
 *
 * The balance and the rate are atomics in main shared memory, without a lock.
 * With the adaptive pace the launcher changes the rate all the time, and makes
 * all processes pause now and then (throttle/pacer.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "base/borrowed.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "throttle/cost.h"
#include "throttle/pace.h"

/* Least microseconds of the rate that are charged at a time */
#define CHARGE_USECS			5000

/* The shortest sleep, in microseconds */
#define MIN_SLEEP_USECS			1000

/* The longest sleep at a time, in microseconds, as the rate may change */
#define MAX_SLEEP_USECS			1000000

/* Each sleep of core's code that comes to no poll, in microseconds */
#define UNPOLLED_USECS			50000

/* In main shared memory */
typedef struct BalanceShared
{
	PvCostBalance balance;
	pg_atomic_uint64 rate;		/* cost units per second, 0: no limit; written
								 * by the launcher */
	pg_atomic_uint64 fixed_rate;	/* the same with the fixed pace */
	pg_atomic_uint32 npauses;	/* incremented at the begin of each */
	pg_atomic_uint32 nworkers;	/* scheduler workers, and who has joined */
	slock_t		mutex;			/* protects the next one */
	PvPaceShown pace;
} BalanceShared;

static BalanceShared *shared_balance = NULL;

/* The state of this process, valid while its mode is PV_COST_SCHEDULER */
static struct
{
	bool		sleep_is_due;	/* what was charged is to be slept off */
	bool		more_is_due;	/* ... and more than that sleep */
	bool		has_joined;		/* it is an autovacuum worker */
	uint32		npauses;		/* that it has seen */
	BufferUsage flushed;		/* pgBufferUsage at the last flush */
}			me;

Size
pv_cost_shmem_size(void)
{
	return MAXALIGN(sizeof(BalanceShared));
}

/* Find the balance or initialize it.  The caller holds AddinShmemInitLock. */
void
pv_cost_shmem_startup(LWLock *its_lock)
{
	bool		found;

	shared_balance = ShmemInitStruct("parvacuum balance", sizeof(BalanceShared), &found);
	if (!found)
	{
		pv_balance_init(&shared_balance->balance);
		pg_atomic_init_u64(&shared_balance->rate, 0);
		pg_atomic_init_u64(&shared_balance->fixed_rate, 0);
		pg_atomic_init_u32(&shared_balance->npauses, 0);
		pg_atomic_init_u32(&shared_balance->nworkers, 0);
		SpinLockInit(&shared_balance->mutex);
		memset(&shared_balance->pace, 0, sizeof(PvPaceShown));
	}
}

/* Return the scheduler's cost units per second; 0 for no limit. */
int64
pv_cost_rate(void)
{
	return pg_atomic_read_u64(&shared_balance->rate);
}

/* Return the cost units that the scheduler has used since the start. */
int64
pv_cost_units(void)
{
	return pg_atomic_read_u64(&shared_balance->balance.units);
}

/*
 * Launcher: set what pv_cost_rate() returns by the pace.  What was charged at
 * the old rate is waited for as it was.
 */
void
pv_cost_set_rate(int64 rate)
{
	pg_atomic_write_u64(&shared_balance->rate, rate);
}

/* Return the cost units per second that the settings allow; 0 for no limit. */
int64
pv_cost_fixed_rate(void)
{
	return pg_atomic_read_u64(&shared_balance->fixed_rate);
}

/*
 * Launcher: set what pv_cost_fixed_rate() returns, and the rate, unless the
 * pace is adaptive at this moment.
 */
void
pv_cost_set_fixed_rate(int64 rate)
{
	int64		old_rate = pv_cost_rate();

	pg_atomic_write_u64(&shared_balance->fixed_rate, rate);
	if (shared_balance->pace.is_adaptive || rate == old_rate)
		return;
	pv_cost_set_rate(rate);
	pv_balance_change_rate(&shared_balance->balance, old_rate, rate,
						   pv_usecs_of_machine());
}

/* Does any process use the balance? */
bool
pv_cost_has_workers(void)
{
	return pg_atomic_read_u32(&shared_balance->nworkers) > 0;
}

/* Launcher: let no process charge before that moment of the machine's clock. */
void
pv_cost_pause(int64 until)
{
	pv_balance_pause(&shared_balance->balance, until);
	pg_atomic_fetch_add_u32(&shared_balance->npauses, 1);
}

/*
 * Launcher: show how the rate is set; NULL if it is the fixed one.  usecs is
 * how long the turn took that has just ended.
 */
void
pv_cost_show_pace(const PvPace *pace, int64 usecs)
{
	PvPaceShown shown = shared_balance->pace;	/* only this process writes */

	if (pace != NULL)
	{
		if (!shown.is_adaptive || shown.limit != pace->limit)
			shown.since = pv_now();
		if (pace->limit != PV_PACE_NOTHING)
			shown.usecs += usecs;
		shown.floor = pace->floor;
		shown.harm = pace->harm;
		shown.limit = pace->limit;
	}
	shown.is_adaptive = pace != NULL;
	SpinLockAcquire(&shared_balance->mutex);
	shared_balance->pace = shown;
	SpinLockRelease(&shared_balance->mutex);
}

/* Return what pv_cost_show_pace() was given last. */
PvPaceShown
pv_cost_pace_shown(void)
{
	PvPaceShown shown;

	SpinLockAcquire(&shared_balance->mutex);
	shown = shared_balance->pace;
	SpinLockRelease(&shared_balance->mutex);
	return shown;
}

/* Count one process with the balance more, or less. */
void
pv_cost_count_worker(int change)
{
	pg_atomic_fetch_add_u32(&shared_balance->nworkers, change);
}

/* Charge units by the machine's clock.  Return the microseconds to wait. */
static int64
charge_units(int64 units, int64 rate)
{
	return pv_balance_charge(&shared_balance->balance, units, rate,
							 pv_usecs_of_machine());
}

/* Make core sleep that long for each time it uses a worker's part of the rate. */
static void
set_sleep(int64 rate, int64 usecs)
{
	int			n = (int) pg_atomic_read_u32(&shared_balance->nworkers);

	pv_set_core_sleep(rate * usecs / 1000000 / Max(n, 1), usecs);
}

/*
 * The same, for code that comes to no poll.  In an autovacuum worker core puts
 * its own limit in place of this one when it has slept, so the delay is the one
 * that belongs to that.
 */
static void
set_unpolled_sleep(int64 rate)
{
	PvCostBudget budget;

	set_sleep(rate, UNPOLLED_USECS);
	if (!me.has_joined)
		return;
	pv_cost_of_autovacuum(&budget);
	pv_vacuum_cost_delay = budget.delay;
}

/* The sleep that was due is over. */
static void
end_sleep(int64 rate)
{
	me.sleep_is_due = false;
	set_unpolled_sleep(rate);
}

/* All that was done has been charged. */
static void
begin_counting(int64 rate)
{
	end_sleep(rate);
	VacuumCostBalance = 0;
	VacuumCostActive = rate > 0 && !pv_cost.failsafe;
}

/* Code that polls comes next. */
static void
expect_polls(void)
{
	if (!me.sleep_is_due)
		set_unpolled_sleep(pv_cost_rate());
}

/* Throttle this process by the balance from now on. */
void
pv_cost_open_balance(void)
{
	if (pv_cost.mode == PV_COST_SCHEDULER)
	{
		expect_polls();
		return;
	}
	pv_cost.mode = PV_COST_SCHEDULER;
	begin_counting(pv_cost_rate());
}

/* Leave the balance that pv_cost_join_balance() has joined, if it has. */
bool
pv_cost_leave_balance(void)
{
	if (!me.has_joined)
		return false;
	pv_cost_flush();
	me.has_joined = false;
	pv_cost_count_worker(-1);
	return true;
}

static void
leave_at_exit(int code, Datum arg)
{
	(void) pv_cost_leave_balance();
}

/*
 * Autovacuum worker that leads: use the balance from now on, if the pace is
 * adaptive and the fixed rate is what autovacuum's settings allow.  Return
 * whether that is so.
 */
bool
pv_cost_join_balance(void)
{
	static bool leaves_at_exit = false;

	if (pv_guc_pace != PV_PACE_ADAPTIVE || pv_guc_scheduler_max_cost >= 0 ||
		pv_cost_fixed_rate() == 0)
		return false;
	if (!leaves_at_exit)
		before_shmem_exit(leave_at_exit, 0);
	leaves_at_exit = true;
	me.has_joined = true;
	pv_cost_count_worker(1);
	pv_launcher_wake();
	pv_cost_open_balance();
	return true;
}

/* Leave the balance, for a table with limits of its own. */
void
pv_cost_close_balance(double delay, int limit)
{
	pv_cost.mode = PV_COST_BUDGET;
	me.sleep_is_due = false;
	VacuumCostBalance = 0;
	pv_vacuum_cost_delay = delay;
	pv_vacuum_cost_limit = limit;
	VacuumCostActive = delay > 0;
}

/* Is there a sleep that core's delay point has not made yet? */
static bool
is_still_to_sleep(void)
{
	return me.sleep_is_due && VacuumCostBalance >= PV_DUE_BALANCE;
}

/*
 * Charge what was used since the last time, if it is enough, and arrange the
 * sleep that it costs.  This is cheap, and a page may be locked.
 */
void
pv_cost_charge(void)
{
	int64		rate = pv_cost_rate();
	int64		wait;
	uint32		npauses;

	VacuumCostActive = rate > 0 && !pv_cost.failsafe;
	if (!VacuumCostActive)
	{
		me.more_is_due = false;
		return;
	}
	if (is_still_to_sleep())
		return;
	if (me.sleep_is_due)
		end_sleep(rate);
	npauses = pg_atomic_read_u32(&shared_balance->npauses);
	if (!me.more_is_due && npauses == me.npauses &&
		VacuumCostBalance < rate * CHARGE_USECS / 1000000)
		return;

	me.npauses = npauses;
	wait = charge_units(VacuumCostBalance, rate);
	me.more_is_due = wait > MAX_SLEEP_USECS;
	if (wait < MIN_SLEEP_USECS)
	{
		VacuumCostBalance = 0;
		return;
	}
	me.sleep_is_due = true;
	set_sleep(rate, Min(wait, MAX_SLEEP_USECS) / PV_MAX_SLEEP_FACTOR);
	pv_make_sleep_due();
}

/*
 * Sleep again if more is due, after a delay point with no page locked.  Return
 * false if nothing is due, or if core would not sleep because it has an
 * interrupt to serve first.
 */
bool
pv_cost_sleep_on(void)
{
	if (pv_cost.mode != PV_COST_SCHEDULER || is_still_to_sleep())
		return false;
	if (me.sleep_is_due)
		end_sleep(pv_cost_rate());
	if (!me.more_is_due)
		return false;
	pv_cost_charge();
	pv_delay_point();
	return true;
}

/*
 * Charge the rest, however small it is.  The next charge waits for it.  Code of
 * core that comes next sleeps by the fixed rate.
 */
void
pv_cost_flush(void)
{
	int64		rate = pv_cost_rate();
	int64		fixed_rate = pv_cost_fixed_rate();
	int64		units = VacuumCostBalance;

	if (pv_cost.mode != PV_COST_SCHEDULER)
		return;
	if (is_still_to_sleep())
		units -= PV_DUE_BALANCE;
	me.more_is_due = charge_units(units, rate) >= MIN_SLEEP_USECS;
	/* the launcher may not have seen yet that there is no limit any more */
	begin_counting(fixed_rate > 0 ? rate : 0);
	set_unpolled_sleep(fixed_rate);
	me.flushed = pgBufferUsage;
}

/* Return what these blocks cost. */
static int64
cost_of(const BufferUsage *usage)
{
	return usage->shared_blks_hit * VacuumCostPageHit +
		usage->shared_blks_read * VacuumCostPageMiss +
		usage->shared_blks_dirtied * VacuumCostPageDirty;
}

/*
 * Charge what core has slept off in code that did not poll, but no more than
 * the fixed rate allows in a second.  Call pv_cost_flush() before that code.
 */
void
pv_cost_charge_slept(void)
{
	int64		rate = pv_cost_rate();
	int64		slept;

	if (pv_cost.mode != PV_COST_SCHEDULER || !VacuumCostActive ||
		me.sleep_is_due)
		return;
	slept = cost_of(&pgBufferUsage) - cost_of(&me.flushed) - VacuumCostBalance;
	if (slept > 0)
		(void) charge_units(Min(slept, pv_cost_fixed_rate()), rate);
	expect_polls();
}
