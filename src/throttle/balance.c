/*-------------------------------------------------------------------------
 *
 * balance.c
 *	  One cost balance for all scheduler workers.
 *
 * Core gives each autovacuum worker a part of the cost limit.  Each sleeps for
 * its own part, after the work, and begins anew with every table.
 *
 * Here all processes charge one balance.  It is a point in time, until which
 * the cost units used so far last at the configured rate.  A process moves it
 * on by the time that its cost units are worth, and sleeps until then.  So the
 * time counts in which processes work, or sleep longer than they wanted to.
 *
 * Scheduler workers and their parallel workers run this between two pages,
 * without a lock.  It is the virtual scheduling form of the generic cell rate
 * algorithm (ITU-T I.371).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "throttle/cost.h"

/* Microseconds that an unused balance saves up: an idle disk gets no faster */
#define MAX_CREDIT				50000

/* The longest wait that is left after a change of the rate, in microseconds */
#define LONGEST_DEBT			3.6e9

/* Set up a balance of which nothing is used. */
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

/* Let nobody who charges go on before that moment of the clock of charges. */
void
pv_balance_pause(PvCostBalance *balance, int64 until)
{
	uint64		old = pg_atomic_read_u64(&balance->charged_until);

	while ((int64) old < until &&
		   !pg_atomic_compare_exchange_u64(&balance->charged_until, &old,
										   until))
		;
}

/*
 * Charge the units that were used.  Return how many microseconds to wait
 * before more is done.  The clock is the caller's, in microseconds.  A rate of
 * 0 is no limit.
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
