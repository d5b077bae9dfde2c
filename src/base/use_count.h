/*-------------------------------------------------------------------------
 *
 * use_count.h
 *	  Who is inside something that the last one to leave closes.
 *
 * One atomic counter: 0 is open and empty.  Whoever leaves as the last one has
 * closed it in the same moment, so nobody can be inside any more, and nobody
 * comes after that.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_USE_COUNT_H
#define PV_USE_COUNT_H

#include "port/atomics.h"

#define PV_USE_COUNT_CLOSED			PG_UINT32_MAX

/* Go in.  False if it is closed. */
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

/* Leave.  True to the last one, who has closed it. */
static inline bool
pv_use_count_leave(pg_atomic_uint32 *use_count)
{
	uint32		inside = pg_atomic_read_u32(use_count);

	while (!pg_atomic_compare_exchange_u32(use_count, &inside,
										   inside > 1 ? inside - 1 : PV_USE_COUNT_CLOSED))
		 /* somebody was faster */ ;
	return inside == 1;
}

#endif							/* PV_USE_COUNT_H */
