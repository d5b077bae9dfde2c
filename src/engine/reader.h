/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Reading blocks ahead of the one that is worked on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_READER_H
#define PV_READER_H

#include "base/compat.h"
#include "base/ring.h"

/* Reading ahead by hints to the kernel */
typedef struct PvLookahead
{
	int			distance;		/* blocks */
	bool		active;			/* it is of use now */
	int			cached_run;		/* consecutive prefetches that found the block
								 * in shared buffers */
	int64		misses;			/* of this process, at the last check */
	BlockNumber next;			/* the block after the last one */
	int			run;			/* consecutive blocks up to it */
} PvLookahead;

extern void pv_lookahead_init(PvLookahead *ahead, Relation rel,
							  int max_distance);
extern void pv_lookahead_block(PvLookahead *ahead, Relation rel,
							   BlockNumber blkno);

/*
 * Callback: return the next block, or InvalidBlockNumber, and store what the
 * caller has to know about it.  It is called some time before the block is
 * visited, with no lock held.
 */
typedef BlockNumber (*PvNextBlock) (void *arg, void *about_block);

typedef struct PvReader PvReader;

extern PvReader *pv_reader_create(Relation rel, PvRing *ring, int max_distance,
								  Size about_size, bool batches,
								  PvNextBlock next_block, void *arg);
extern bool pv_reader_next(PvReader *reader, Buffer *buf, void **about_block);
extern void pv_reader_restart(PvReader *reader);
extern void pv_reader_free(PvReader *reader);

#endif							/* PV_READER_H */
