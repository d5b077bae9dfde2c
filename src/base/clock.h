/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  A clock that nobody can set.
 *
 * It starts at the time of day when the postmaster loads the library, and
 * shows the same in all of its processes.  Setting the server's clock does not
 * change the order and the distance of its moments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CLOCK_H
#define PV_CLOCK_H

#include <math.h>
#include <time.h>

#include "datatype/timestamp.h"
#include "utils/timestamp.h"

/* What the clock shows when pv_usecs_of_machine() is 0, in microseconds */
extern TimestampTz pv_clock_base;

extern void pv_clock_init(void);

/*
 * Return microseconds since some moment, the same for all processes.
 * instr_time will not do: from PG 19 on each session can choose the clock that
 * it reads.
 */
static inline int64
pv_usecs_of_machine(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

/* Return the microseconds since pv_usecs_of_machine() has returned "begin". */
static inline int64
pv_usecs_since(int64 begin)
{
	return pv_usecs_of_machine() - begin;
}

/* Return what the clock shows. */
static inline TimestampTz
pv_now(void)
{
	return pv_clock_base + pv_usecs_of_machine();
}

/*
 * Return by how many microseconds the server's clock was set since the start.
 * They are whole seconds, so that a moment is always shown as the same time.
 */
static inline int64
pv_clock_was_set_by(void)
{
	return (int64) rint((GetCurrentTimestamp() - pv_now()) / 1e6) *
		USECS_PER_SEC;
}

/* Return what the server's clock, as it is set now, would have shown then. */
static inline TimestampTz
pv_time_of_day(TimestampTz moment)
{
	return moment + pv_clock_was_set_by();
}

/* The inverse of pv_time_of_day(). */
static inline TimestampTz
pv_moment_of(TimestampTz time_of_day)
{
	return time_of_day - pv_clock_was_set_by();
}

#endif							/* PV_CLOCK_H */
