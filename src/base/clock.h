/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  A clock that nobody can set.
 *
 * It begins with the time of day at which the postmaster has loaded the
 * library, and shows the same in all of its processes.  When the server's clock
 * is set, moments of this clock keep their order and their distance.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CLOCK_H
#define PV_CLOCK_H

#include <math.h>
#include <time.h>

#include "datatype/timestamp.h"
#include "utils/timestamp.h"

/* Microseconds; what the clock shows when the other one shows 0 */
extern TimestampTz pv_clock_base;

extern void pv_clock_init(void);

/*
 * Microseconds since some moment, the same in all processes of the machine.
 * instr_time is not used, because since PostgreSQL 19 each session can choose
 * the clock that it reads.
 */
static inline int64
pv_usecs_of_machine(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

static inline TimestampTz
pv_now(void)
{
	return pv_clock_base + pv_usecs_of_machine();
}

/*
 * By how much the server's clock was set since the start, in microseconds but
 * to whole seconds: so a moment is shown as the same time again and again.
 */
static inline int64
pv_clock_was_set_by(void)
{
	return (int64) rint((GetCurrentTimestamp() - pv_now()) / 1e6) *
		USECS_PER_SEC;
}

/* What the server's clock would have shown then, as it is set now. */
static inline TimestampTz
pv_time_of_day(TimestampTz moment)
{
	return moment + pv_clock_was_set_by();
}

/* The inverse. */
static inline TimestampTz
pv_moment_of(TimestampTz time_of_day)
{
	return time_of_day - pv_clock_was_set_by();
}

#endif							/* PV_CLOCK_H */
