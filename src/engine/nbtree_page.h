/*-------------------------------------------------------------------------
 *
 * nbtree_page.h
 *	  Reading one page of a B-tree.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_NBTREE_PAGE_H
#define PV_NBTREE_PAGE_H

#include "access/nbtree.h"

extern Buffer pv_nbtree_read_page(Relation indrel, BlockNumber blkno,
								  BufferAccessStrategy strategy,
								  BTPageOpaque *opaque);

/*
 * Result of pv_nbtree_list_tids() if the page has more than
 * MaxTIDsPerBTreePage
 */
#define PV_NBTREE_TOO_MANY_TIDS	(-1)

extern int	pv_nbtree_list_tids(Page page, ItemPointerData *tids);

/* The heap TIDs of an index tuple of a leaf page.  Returns their number. */
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

#endif							/* PV_NBTREE_PAGE_H */
