/*-------------------------------------------------------------------------
 *
 * ring.c
 *	  Rings of shared buffers.
 *
 * Each participant of a vacuum reads pages into a ring of buffers of its own.
 * The leader plans their size.
 *
 * PG 15 has rings of one size only, 256 kB, so there a larger ring is several
 * of core's, used in turn.
 *
 * Core: storage/buffer/freelist.c, GetAccessStrategyWithSize.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/compat.h"
#include "base/ring.h"

#define KB_PER_BLOCK			(BLCKSZ / 1024)

/*
 * Return the ring that core's vacuum() gets if the caller has not asked for
 * one.  It is NULL, no ring, if vacuum_buffer_usage_limit is 0, a setting that
 * PG 16 added.
 */
BufferAccessStrategy
pv_vacuum_strategy(void)
{
#if PV_HAS_RING_SIZES
	return GetAccessStrategyWithSize(BAS_VACUUM, VacuumBufferUsageLimit);
#else
	return GetAccessStrategy(BAS_VACUUM);
#endif
}

/*
 * Plan the ring of each participant.  Return its size in kilobytes; 0 for
 * none.
 *
 * bstrategy is what the caller of the vacuum has given.  If its size is not
 * core's default, the caller has asked for that size, by BUFFER_USAGE_LIMIT or
 * vacuum_buffer_usage_limit (PG 16).  Otherwise limit, the table's size, counts.
 * All rings together have an eighth of shared buffers at most, which is core's
 * limit for one ring.
 */
int
pv_ring_plan(BufferAccessStrategy bstrategy, int limit, int participants)
{
	int			largest = NBuffers / 8 * KB_PER_BLOCK;
#if PV_HAS_RING_SIZES
	int			asked = GetAccessStrategyBufferCount(bstrategy) * KB_PER_BLOCK;

	if (bstrategy != NULL && asked != Min(PV_DEFAULT_RING_KB, largest))
		limit = asked;
#endif
	if (bstrategy == NULL || limit == 0)
		return 0;
	limit = Min(limit, largest);

	/* core makes no ring of less than a block */
	return Max(limit / participants, KB_PER_BLOCK);
}

/*
 * Create a ring of about that many kilobytes, in the current memory context; 0
 * for none.
 */
void
pv_ring_create(PvRing *ring, int size_kb)
{
	memset(ring, 0, sizeof(*ring));
	if (size_kb == 0)
		return;

	ring->nparts = PV_HAS_RING_SIZES ? 1 : Max(1, size_kb / PV_RING_PART_KB);
	ring->parts = palloc(ring->nparts * sizeof(BufferAccessStrategy));
	for (int i = 0; i < ring->nparts; i++)
#if PV_HAS_RING_SIZES
		ring->parts[i] = GetAccessStrategyWithSize(BAS_VACUUM, size_kb);
#else
		ring->parts[i] = GetAccessStrategy(BAS_VACUUM);
#endif
}
