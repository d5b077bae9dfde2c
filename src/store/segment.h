/*-------------------------------------------------------------------------
 *
 * segment.h
 *	  The unit in which heap blocks are stored and handed out.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SEGMENT_H
#define PV_SEGMENT_H

#include "storage/block.h"

/*
 * A segment is a fixed run of heap blocks: the unit in which blocks are handed
 * out, in which dead items are stored, and at whose borders a heap scan may
 * stop when the store is full.  It must be a power of two.
 */
#define PV_SEGMENT_BLOCKS		128
#define PV_SEGMENT_OF(blk)		((blk) / PV_SEGMENT_BLOCKS)

#endif							/* PV_SEGMENT_H */
