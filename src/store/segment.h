/*-------------------------------------------------------------------------
 *
 * segment.h
 *	  The unit in which the blocks of a table are stored.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SEGMENT_H
#define PV_SEGMENT_H

#include "storage/block.h"

/*
 * A segment is this many consecutive blocks, beginning at a multiple of their
 * number.  One participant stores all dead items of a segment at a time, and a
 * store that is full refuses whole segments.  The number must be a power of
 * two.
 */
#define PV_SEGMENT_BLOCKS		128
#define PV_SEGMENT_OF(blk)		((blk) / PV_SEGMENT_BLOCKS)

#endif							/* PV_SEGMENT_H */
