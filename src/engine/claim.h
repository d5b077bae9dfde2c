/*-------------------------------------------------------------------------
 *
 * claim.h
 *	  Handing out ranges of units, each to a single process.
 *
 * The units are blocks of a table or of an index, or segments of the store:
 *
 *	 start           next                                   end
 *	 |---------------|--------------------------------------|
 *	  claimed ranges  | 4096 | 4096 | 2048 |...| 128 | 128 |
 *
 * All participants of a vacuum claim.  Each claim is one successful exchange
 * of an atomic counter, so no unit is claimed twice and none is left out.  No
 * lock is needed.  "next" and "end" only grow, so a claim that finds next
 * unchanged has computed its size for what is left now, or for an end that has
 * moved since, which makes the range only smaller.
 *
 * The functions are in a header so that a unit test can replace the operations
 * on the counters, and try every order of the steps of several processes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CLAIM_H
#define PV_CLAIM_H

#include "port/atomics.h"

/* A claim takes this fraction of an equal part for each participant */
#define PV_CLAIM_FRACTION		4

/* What all participants share: where the unclaimed part begins */
typedef struct PvDispenseShared
{
	/* Set by the leader between phases, then read-only */
	uint32		granule;		/* ranges are multiples of this many units */
	uint32		max_range;		/* largest range */
	uint32		participants;	/* expected number of participants */

	pg_atomic_uint32 next;		/* first unclaimed unit */
	pg_atomic_uint32 end;		/* one past the last unit; it only grows */
} PvDispenseShared;

/*
 * Leader, between phases: initialize a dispenser of the units from start to
 * end - 1.
 */
static inline void
pv_dispense_init(PvDispenseShared *shared, uint32 start, uint32 end,
				 uint32 granule, uint32 max_range, int participants)
{
	Assert(granule > 0 && participants > 0);
	shared->granule = granule;
	shared->max_range = Max(max_range, granule);
	shared->participants = participants;
	pg_atomic_init_u32(&shared->next, Min(start, end));
	pg_atomic_init_u32(&shared->end, end);
}

/* Move the end of the units, if the new end is later. */
static inline void
pv_dispense_extend(PvDispenseShared *shared, uint32 end)
{
	uint32		before = pg_atomic_read_u32(&shared->end);

	while (before < end &&
		   !pg_atomic_compare_exchange_u32(&shared->end, &before, end))
		 /* another process was faster */ ;
}

/* Claim the next range [*start, *end).  Return false if nothing is left. */
static inline bool
pv_dispense_claim(PvDispenseShared *shared, uint32 *start, uint32 *end)
{
	uint32		next = pg_atomic_read_u32(&shared->next);
	uint32		size;

	do
	{
		uint32		until = pg_atomic_read_u32(&shared->end);
		uint32		left = until - next;

		if (next >= until)
			return false;
		size = left / (PV_CLAIM_FRACTION * shared->participants);
		size -= size % shared->granule;
		size = Max(size, shared->granule);
		size = Min(size, shared->max_range);
		size = Min(size, left);
	} while (!pg_atomic_compare_exchange_u32(&shared->next, &next,
											 next + size));

	*start = next;
	*end = next + size;
	return true;
}

#endif							/* PV_CLAIM_H */
