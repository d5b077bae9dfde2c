/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  A clock that nobody can set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/clock.h"

TimestampTz pv_clock_base = 0;

/* Start the clock, in the postmaster. */
void
pv_clock_init(void)
{
	pv_clock_base = GetCurrentTimestamp() - pv_usecs_of_machine();
}
