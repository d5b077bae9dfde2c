/*-------------------------------------------------------------------------
 *
 * sweep_page.h
 *	  The sweep of one page of a B-tree.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SWEEP_PAGE_H
#define PV_SWEEP_PAGE_H

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/tableam.h"

#include "engine/reader.h"
#include "engine/sweep_result.h"

/* Most heap pages that are visited under one write lock of a leaf page */
#define PV_SWEEP_PAGES_PER_HOLD		32

/* One participant's sweep */
typedef struct PvSweep
{
	Relation	heaprel;
	Relation	indrel;
	BufferAccessStrategy index_ring;
	PvRing		heap_ring;
	GlobalVisState *vistest;
	bool		own_snapshots;	/* one for each range, and none during a sleep */
	const PvSweepPoll *poll;	/* or NULL */
	Buffer		vmbuffer;
	PvLookahead index_ahead;
	PvLookahead heap_ahead;
	PvSweepResult counts;

	/*
	 * The current leaf page: the heap TIDs to be checked, sorted.  Those
	 * found dead since the last deletion are stored over TIDs that have been
	 * checked.
	 */
	int			ntids;
	int			ndead;
	ItemPointerData tids[MaxTIDsPerBTreePage];

	/* Pins of the heap pages of dead TIDs, and when to release them */
	int			npinned;
	int			max_pinned;
	Buffer		pinned[PV_SWEEP_PAGES_PER_HOLD];
	int64		reads_before;	/* reads of this process when the first page
								 * was pinned */
	int64		max_reads;

	/* For core's deletion */
	TM_IndexDelete deltids[MaxTIDsPerBTreePage];
	TM_IndexStatus status[MaxTIDsPerBTreePage];
} PvSweep;

extern void pv_sweep_page(PvSweep *sweep, BlockNumber blkno);

#endif							/* PV_SWEEP_PAGE_H */
