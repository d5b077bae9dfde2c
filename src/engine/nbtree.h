/*-------------------------------------------------------------------------
 *
 * nbtree.h
 *	  B-trees that several participants vacuum together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_NBTREE_H
#define PV_NBTREE_H

#include "access/nbtree.h"

#include "engine/participant.h"

extern bool pv_nbtree_handles(Relation indrel);
extern Size pv_nbtree_bitmap_words(BlockNumber pages);
extern void pv_nbtree_init(PvBtreeShared *btree, BlockNumber pages,
						   Size first_word);
extern void pv_nbtree_begin(PvParticipant *leader, int i, PvPhase phase);
extern void pv_nbtree_end(PvParticipant *leader, int i);
extern BlockNumber pv_nbtree_pages_left(PvParticipant *self, int i);
extern bool pv_nbtree_work(PvParticipant *self, int i, PvPhase phase,
						   IndexVacuumInfo *ivinfo);

/* For those who visit pages of B-trees for other ends, too */
extern Buffer pv_nbtree_read_page(Relation indrel, BlockNumber blkno,
								  BufferAccessStrategy strategy,
								  BTPageOpaque *opaque);
extern int	pv_nbtree_list_tids(Page page, ItemPointerData *tids);

/* The heap TIDs of an index tuple of a leaf page.  Returns their number. */
static inline int
pv_nbtree_heap_tids(Page page, OffsetNumber off, ItemPointer *tids)
{
	IndexTuple	itup = (IndexTuple) PageGetItem(page, PageGetItemId(page, off));

	if (BTreeTupleIsPosting(itup))
	{
		*tids = BTreeTupleGetPosting(itup);
		return BTreeTupleGetNPosting(itup);
	}
	*tids = &itup->t_tid;
	return 1;
}

#endif							/* PV_NBTREE_H */
