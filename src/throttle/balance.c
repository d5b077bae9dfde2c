/*-------------------------------------------------------------------------
 *
 * balance.c
 *	  One account of cost units for all that scheduler workers do.
 *
 * Core gives each autovacuum worker a part of the budget, and has each sleep
 * off its part alone, after the work, beginning anew with every table.  So time
 * spent working is not paid with, and what is left over at a table's end is
 * forgotten.  Here all draw on one account.  It is a moment in time: until when
 * everything done so far is paid for at the configured rate.  Who has done work
 * moves it on by what that costs, and sleeps until then.  Whoever comes next
 * finds it moved, so n processes share one rate whoever they are, and time that
 * passes while they work, or oversleep, counts.
 *
 * An account that nobody used does not save up more than a moment's credit:
 * a disk that was idle is no faster for it.
 *
 * Scheduler workers and their parallel workers run this, between two pages.  No lock: one
 * compare-and-exchange.  This is the virtual scheduling form of the generic cell
 * rate algorithm (ITU-T I.371).
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "throttle/balance.h"

/* Microseconds of idling that may be caught up with */
#define MAX_CREDIT				50000

/* and that a change of the rate leaves at most to be waited for: an hour */
#define LONGEST_DEBT			3.6e9

void
pv_balance_init(PvCostBalance *account)
{
	pg_atomic_init_u64(&account->charged_until, 0);
	pg_atomic_init_u64(&account->units, 0);
}

/*
 * From now on another rate holds, in units per second: also for what is still to be
 * paid for, or who has a slow rate behind him would wait at a fast one.  The clock is
 * that of pv_balance_charge(); 0 is no limit.
 */
void
pv_balance_change_rate(PvCostBalance *account, int64 old_rate, int64 new_rate, int64 now)
{
	uint64		old = pg_atomic_read_u64(&account->charged_until);
	double		owed;

	do
	{
		owed = (int64) old - now;
		if (owed <= 0)
			return;
		owed = old_rate > 0 && new_rate > 0 ? owed * old_rate / new_rate : 0;
	} while (!pg_atomic_compare_exchange_u64(&account->charged_until, &old,
											 now + (int64) Min(owed, LONGEST_DEBT)));
}

/*
 * Charge for work that was done.  Returns the microseconds to wait before more
 * is done, 0 if there is no need to.  The clock is the caller's, in microseconds;
 * a rate of 0 is no limit.
 */
int64
pv_balance_charge(PvCostBalance *account, int64 units, int64 units_per_sec, int64 now)
{
	uint64		old;
	uint64		charged_until;

	pg_atomic_fetch_add_u64(&account->units, units);
	if (units_per_sec <= 0)
		return 0;

	old = pg_atomic_read_u64(&account->charged_until);
	do
	{
		charged_until = Max((int64) old, now - MAX_CREDIT) +
			units * INT64CONST(1000000) / units_per_sec;
	} while (!pg_atomic_compare_exchange_u64(&account->charged_until, &old,
											 charged_until));
	return Max((int64) charged_until - now, 0);
}
