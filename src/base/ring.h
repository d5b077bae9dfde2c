/*-------------------------------------------------------------------------
 *
 * ring.h
 *	  Rings of shared buffers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RING_H
#define PV_RING_H

#include "storage/bufmgr.h"

/* Kilobytes of core's only kind of ring on PG 15 */
#define PV_RING_PART_KB			256

/* A ring of one participant: one or more of core's rings, used in turn */
typedef struct PvRing
{
	int			nparts;			/* 0: use any buffer */
	int			next;			/* the part that was used last */
	BufferAccessStrategy *parts;
} PvRing;

extern BufferAccessStrategy pv_vacuum_strategy(void);
extern int	pv_ring_plan(BufferAccessStrategy bstrategy, int limit,
						 int participants);
extern void pv_ring_create(PvRing *ring, int size_kb);

/* Return the strategy to read the next block with; NULL for any buffer. */
static inline BufferAccessStrategy
pv_ring_next(PvRing *ring)
{
	if (ring->nparts == 0)
		return NULL;
	if (++ring->next >= ring->nparts)
		ring->next = 0;
	return ring->parts[ring->next];
}

#endif							/* PV_RING_H */
