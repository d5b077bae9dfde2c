/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  Removing dead versions from a B-tree before inserts need the space.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SWEEP_H
#define PV_SWEEP_H

#include "access/nbtree.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "utils/rel.h"

#include "engine/reader.h"

/*
 * Called between two pages by the process that leads a sweep, with no page
 * locked or pinned.  It may raise an error, which ends the sweep.
 */
typedef struct PvSweepPoll
{
	void		(*function) (void *arg);
	void	   *arg;
} PvSweepPoll;

typedef struct PvSweepResult
{
	int			workers_launched;
	int64		pages_total;	/* of the index, at the start */
	int64		pages_visited;	/* leaf pages that were swept */
	int64		pages_changed;
	int64		tuples_deleted; /* heap TIDs */
	int64		bytes_freed;

	/* For DEBUG1: what was done under write locks of leaf pages, and sleeps */
	int64		holds;
	int			pages_per_hold; /* heap pages, largest number under one lock */
	int64		hold_reads;		/* heap pages read from disk */
	int64		usecs_slept;	/* of all participants together */
} PvSweepResult;

extern void pv_sweep_index(Relation heaprel, Relation indrel, int nworkers,
						   int buffer_usage_limit, const PvSweepPoll *poll,
						   PvSweepResult *result);

/* Entry point of a worker; the parallel infrastructure finds it by name */
extern PGDLLEXPORT void parvacuum_sweep_worker(dsm_segment *seg, shm_toc *toc);


/*-------------------------------------------------------------------------
 * What engine/sweep.c and engine/sweep_page.c share.
 *-------------------------------------------------------------------------
 */

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
	 * found dead since the last deletion overwrite TIDs that were checked.
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

/* engine/sweep_page.c */
extern void pv_sweep_page(PvSweep *sweep, BlockNumber blkno);

#endif							/* PV_SWEEP_H */
