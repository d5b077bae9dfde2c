/*-------------------------------------------------------------------------
 *
 * nbtree.h
 *	  B-trees that several participants vacuum together, and sweeps of
 *	  B-trees.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_NBTREE_H
#define PV_NBTREE_H

#include "access/nbtree.h"

#include "engine/participant.h"

extern Size pv_nbtree_bitmap_bytes(BlockNumber pages);
extern void pv_nbtree_init(PvBtreeShared *btree);
extern bool pv_nbtree_begin(PvParticipant *leader, int i, PvPhase phase);
extern void pv_nbtree_end(PvParticipant *leader, int i);
extern BlockNumber pv_nbtree_pages_left(const PvParticipant *self, int i);
extern bool pv_nbtree_work(PvParticipant *self, int i, PvPhase phase,
						   IndexVacuumInfo *ivinfo);

/* engine/nbtree_page.c, for sweeps as well: reading one page */
extern Buffer pv_nbtree_read_page(Relation indrel, BlockNumber blkno,
								  BufferAccessStrategy strategy,
								  BTPageOpaque *opaque);

/* pv_nbtree_list_tids(): the page has more than MaxTIDsPerBTreePage */
#define PV_NBTREE_TOO_MANY_TIDS	(-1)

extern int	pv_nbtree_list_tids(Page page, ItemPointerData *tids);

/* Get the heap TIDs of an index tuple of a leaf page.  Return their number. */
static inline int
pv_nbtree_heap_tids(Page page, OffsetNumber off, ItemPointer *tids)
{
	IndexTuple	itup =
		(IndexTuple) PageGetItem(page, PageGetItemId(page, off));

	if (BTreeTupleIsPosting(itup))
	{
		*tids = BTreeTupleGetPosting(itup);
		return BTreeTupleGetNPosting(itup);
	}
	*tids = &itup->t_tid;
	return 1;
}

/* A range of pages that was claimed; the reader keeps it for each page */
typedef struct PvBtreeRange
{
	BlockNumber start;
	BlockNumber end;
} PvBtreeRange;

/* One participant's work in one index */
typedef struct PvBtreeScan
{
	PvParticipant *self;
	PvIndexUnit *unit;
	PvBtreeShared *btree;
	IndexVacuumInfo *ivinfo;
	Relation	indrel;
	bool		bulk_delete;	/* else only empty and deleted pages matter */
	pg_atomic_uint32 *revisit;	/* bitmap of pages to be visited again */
	pg_atomic_uint32 *empty;	/* bitmap of pages to be deleted */
	PvReader   *reader;
	PvBtreeRange reading;		/* the range that is being read */
	BlockNumber to_read;		/* its next page */
	uint64		nread;			/* pages given to the reader */
	uint64		nvisited;		/* pages visited */
	uint32		unreported;		/* of these, not in the progress counter yet */
	PvBtreeCounts counts;

	/* Heap TIDs of the current page, and which of them are dead */
	ItemPointerData tids[MaxTIDsPerBTreePage];
	bool		dead[MaxTIDsPerBTreePage];
} PvBtreeScan;

/* What to do with a page after the visit */
typedef struct PvBtreeVisit
{
	BlockNumber right;			/* a split in this vacuum may have moved
								 * tuples there; or P_NONE */
	bool		empty;			/* the page is to be deleted */
} PvBtreeVisit;

/* engine/nbtree_bitmap.c */
extern BlockNumber pv_btree_bitmap_bits(Size bytes);
extern void pv_btree_find_bitmaps(PvBtreeScan *scan, void *memory);
extern void pv_btree_note_page(const PvBtreeScan *scan,
							   pg_atomic_uint32 *words, BlockNumber blkno);
extern bool pv_btree_take_bit(const PvBtreeScan *scan, pg_atomic_uint32 *words,
							  BlockNumber *bit);

/* engine/nbtree_page.c */
extern BlockNumber pv_btree_length(Relation indrel);
extern void pv_btree_vacuum_leaf(PvBtreeScan *scan, Buffer buf,
								 PvBtreeVisit *visit);
extern void pv_btree_visit_page(PvBtreeScan *scan, BlockNumber blkno,
								Buffer buf, PvBtreeVisit *visit);

/* engine/nbtree_delete.c */
extern void pv_btree_finish(PvBtreeScan *scan);

/* engine/sweep.c: removing dead versions before inserts need the space */

/*
 * Called between two pages, with no page locked or pinned.  It may raise an
 * error, which ends the sweep.
 */
typedef struct PvSweepPoll
{
	void		(*function) (void *arg);
	void	   *arg;
} PvSweepPoll;

typedef struct PvSweepResult
{
	int64		pages_total;	/* of the index, at the start */
	int64		pages_visited;	/* leaf pages that were swept */
	int64		pages_changed;
	int64		tuples_deleted; /* heap TIDs */
	int64		bytes_freed;

	/* For DEBUG1: what was done under write locks of leaf pages, and sleeps */
	int64		holds;
	int			pages_per_hold; /* heap pages, largest number under one lock */
	int64		hold_reads;		/* heap pages read from disk */
	int64		usecs_slept;
} PvSweepResult;

extern void pv_sweep_index(Relation heaprel, Relation indrel,
						   int buffer_usage_limit, const PvSweepPoll *poll,
						   PvSweepResult *result);

#endif							/* PV_NBTREE_H */
