/*-------------------------------------------------------------------------
 *
 * use_count.h
 *	  The number of users of something that the last one to leave closes.
 *
 * It is one atomic counter, so no lock is needed.  At 0 it is open and unused.
 * The last user to leave closes it in the same step.  From then on there is no
 * user.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_USE_COUNT_H
#define PV_USE_COUNT_H

#include "port/atomics.h"

#define PV_USE_COUNT_CLOSED			PG_UINT32_MAX

/* Become a user.  Return false if it is closed. */
static inline bool
pv_use_count_enter(pg_atomic_uint32 *use_count)
{
	uint32		inside = pg_atomic_read_u32(use_count);

	do
	{
		if (inside == PV_USE_COUNT_CLOSED)
			return false;
	} while (!pg_atomic_compare_exchange_u32(use_count, &inside, inside + 1));
	return true;
}

/* Leave.  Return true if this was the last user, who has closed it. */
static inline bool
pv_use_count_leave(pg_atomic_uint32 *use_count)
{
	uint32		inside = pg_atomic_read_u32(use_count);

	while (!pg_atomic_compare_exchange_u32(use_count, &inside,
										   inside > 1 ? inside - 1 :
										   PV_USE_COUNT_CLOSED))
		 /* another process has changed it: try again */ ;
	return inside == 1;
}

#endif							/* PV_USE_COUNT_H */
