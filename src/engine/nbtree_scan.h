/*-------------------------------------------------------------------------
 *
 * nbtree_scan.h
 *	  One participant's work in one B-tree.
 *
 * The files that vacuum B-trees share this: engine/nbtree.c (protocol and
 * ranges), engine/nbtree_bitmap.c, engine/nbtree_page.c (one page), and
 * engine/nbtree_delete.c (the end of an index).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_NBTREE_SCAN_H
#define PV_NBTREE_SCAN_H

#include "access/nbtree.h"

#include "engine/participant.h"

/*
 * Pages that a participant has claimed.  The reader keeps the range of each
 * page.
 */
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
	double		removed;		/* entries in the progress counter */
	PvBtreeCounts counts;

	/* Heap TIDs of the current page, and which of them are dead */
	int			ntids;
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
extern void pv_btree_note_if_empty(const PvBtreeScan *scan, BlockNumber blkno,
								   const PvBtreeVisit *visit);
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

#endif							/* PV_NBTREE_SCAN_H */
