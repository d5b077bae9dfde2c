/*-------------------------------------------------------------------------
 *
 * balance.c
 *	  One cost balance for all scheduler workers.
 *
 * Core gives each autovacuum worker a part of the cost limit.  Each sleeps for
 * its own part, after the work, and begins anew with every table.  So the time
 * that the work takes does not count, and what is left at the end of a table
 * is lost.
 *
 * Here all processes charge one balance.  It is a point in time, until which
 * the cost units used so far last at the configured rate.  A process moves it
 * on by the time that its cost units are worth, and sleeps until then.  So any
 * number of processes share one rate, and the time counts in which they work,
 * or sleep longer than they wanted to.
 *
 * An unused balance saves up 50 ms at most, because a disk that was idle is no
 * faster for it.
 *
 * Scheduler workers and their parallel workers run this between two pages.  No
 * lock is needed: there is one compare-and-exchange.  It is the virtual
 * scheduling form of the generic cell rate algorithm (ITU-T I.371).
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "throttle/cost.h"

/* Microseconds that an unused balance saves up */
#define MAX_CREDIT				50000

/* The longest wait that is left after a change of the rate, in microseconds */
#define LONGEST_DEBT			3.6e9

void
pv_balance_init(PvCostBalance *balance)
{
	pg_atomic_init_u64(&balance->charged_until, 0);
	pg_atomic_init_u64(&balance->units, 0);
}

/*
 * Change the rate, in units per second; 0 is no limit.  The new rate also
 * holds for what was charged and is still to be waited for, so that processes
 * do not wait at the old, slow rate.  now is by the clock of
 * pv_balance_charge().
 */
void
pv_balance_change_rate(PvCostBalance *balance, int64 old_rate, int64 new_rate,
					   int64 now)
{
	uint64		old = pg_atomic_read_u64(&balance->charged_until);
	double		owed;

	do
	{
		owed = (int64) old - now;
		if (owed <= 0)
			return;
		owed = old_rate > 0 && new_rate > 0 ? owed * old_rate / new_rate : 0;
	} while (!pg_atomic_compare_exchange_u64(&balance->charged_until, &old,
											 now + (int64) Min(owed,
															   LONGEST_DEBT)));
}

/*
 * Charge the units that were used.  Return how many microseconds to wait
 * before more is done, 0 for none.  The clock is the caller's, in
 * microseconds.  A rate of 0 is no limit.
 */
int64
pv_balance_charge(PvCostBalance *balance, int64 units, int64 units_per_sec,
				  int64 now)
{
	uint64		old;
	uint64		charged_until;

	pg_atomic_fetch_add_u64(&balance->units, units);
	if (units_per_sec <= 0)
		return 0;

	old = pg_atomic_read_u64(&balance->charged_until);
	do
	{
		charged_until = Max((int64) old, now - MAX_CREDIT) +
			units * INT64CONST(1000000) / units_per_sec;
	} while (!pg_atomic_compare_exchange_u64(&balance->charged_until, &old,
											 charged_until));
	return Max((int64) charged_until - now, 0);
}
