/*-------------------------------------------------------------------------
 *
 * pv_page.c
 *	  What both heap passes do to a heap page.
 *
 * Leader and workers run this: the second pass on every page that has dead
 * items, and the first pass itself where the table has no indexes.  The
 * caller holds an exclusive lock (a cleanup lock will do as well) and a pin on
 * the page of the visibility map, so no I/O happens under the lock that could
 * have happened before it.
 *
 * An exclusive lock is enough: a dead line pointer has no storage, so no tuple
 * moves, and only VACUUM makes one unused.  Lock order: heap page, then page of
 * the visibility map.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

#include "pv_page.h"

/* What the tuples of a page allow its bits in the visibility map to be */
typedef struct PageVisibility
{
	bool		all_visible;
	bool		all_frozen;
	TransactionId conflict_horizon; /* newest xmin */
	TransactionId settled_xmin; /* the last inserter found visible to all */
} PageVisibility;

/*
 * Is this tuple plainly live, by its hint bits, and of an inserter that the
 * page's visibility has taken account of already?  Nearly all are.
 */
static inline bool
tuple_is_settled(HeapTupleHeader htup, const PageVisibility *vis)
{
	const uint16 mask = HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID |
	HEAP_XMAX_IS_MULTI | HEAP_MOVED;

	return (htup->t_infomask & mask) == (HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID) &&
		HeapTupleHeaderGetRawXmin(htup) == vis->settled_xmin;
}

/*
 * Fold one tuple into what is known of its page.
 */
static void
note_tuple(PvParticipant *self, HeapTuple tuple, Buffer buf,
		   PageVisibility *vis)
{
	TransactionId oldest_xmin = self->shared->cutoffs.OldestXmin;
	HeapTupleHeader htup = tuple->t_data;
	TransactionId xmin;

	if (HeapTupleSatisfiesVacuum(tuple, oldest_xmin, buf) != HEAPTUPLE_LIVE)
	{
		vis->all_visible = false;
		return;
	}

	/* As in the first pass: hinted committed, and older than all snapshots */
	xmin = HeapTupleHeaderGetXmin(htup);
	if (!HeapTupleHeaderXminCommitted(htup) ||
		!TransactionIdPrecedes(xmin, oldest_xmin))
	{
		vis->all_visible = false;
		return;
	}

	if (TransactionIdFollows(xmin, vis->conflict_horizon))
		vis->conflict_horizon = xmin;
	if (vis->all_frozen && heap_tuple_needs_eventual_freeze(htup))
		vis->all_frozen = false;
	if (TransactionIdIsNormal(xmin))
		vis->settled_xmin = xmin;
}

/*
 * Is every tuple on the page visible to all transactions, now and later?
 * Core: access/heap/vacuumlazy.c, heap_page_is_all_visible.
 */
static void
page_visibility(PvParticipant *self, Buffer buf, BlockNumber blkno,
				PageVisibility *vis)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	HeapTupleData tuple;

	vis->all_visible = true;
	vis->all_frozen = true;
	vis->conflict_horizon = InvalidTransactionId;
	vis->settled_xmin = InvalidTransactionId;
	tuple.t_tableOid = RelationGetRelid(self->rel);

	for (OffsetNumber offnum = FirstOffsetNumber;
		 offnum <= maxoff && vis->all_visible;
		 offnum = OffsetNumberNext(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);

		if (!ItemIdIsUsed(itemid) || ItemIdIsRedirected(itemid))
			continue;
		if (ItemIdIsDead(itemid))
		{
			/* An index may still point here */
			vis->all_visible = false;
			break;
		}

		tuple.t_data = (HeapTupleHeader) PageGetItem(page, itemid);
		if (tuple_is_settled(tuple.t_data, vis))
			continue;

		self->errinfo.offnum = offnum;
		ItemPointerSet(&tuple.t_self, blkno, offnum);
		tuple.t_len = ItemIdGetLength(itemid);
		note_tuple(self, &tuple, buf, vis);
	}
	self->errinfo.offnum = InvalidOffsetNumber;
}

#ifdef USE_ASSERT_CHECKING
/*
 * Does what the first pass says of a page agree with what we would say of it?
 * The two have shortcuts of their own, so assert-enabled servers compare.
 */
bool
pv_page_agrees(PvParticipant *self, Buffer buf, BlockNumber blkno,
			   const PvPageResult *found)
{
	PageVisibility vis;

	page_visibility(self, buf, blkno, &vis);
	return !found->all_visible ||
		(vis.all_visible && vis.all_frozen == found->all_frozen);
}
#endif

/*
 * Set the bits of the visibility map that the page has earned.
 */
static void
set_visibility(PvParticipant *self, Buffer buf, BlockNumber blkno,
			   Buffer vmbuffer)
{
	PageVisibility vis;
	uint8		flags = VISIBILITYMAP_ALL_VISIBLE;
	uint8		old;

	page_visibility(self, buf, blkno, &vis);
	if (!vis.all_visible)
		return;

	/* The heap page is dirty already, so both bits go out together */
	PageSetAllVisible(BufferGetPage(buf));
	if (vis.all_frozen)
		flags |= VISIBILITYMAP_ALL_FROZEN;
	old = visibilitymap_get_status(self->rel, blkno, &vmbuffer);
	if ((old & flags) != flags)
		visibilitymap_set(self->rel, blkno, buf, InvalidXLogRecPtr, vmbuffer,
						  vis.conflict_horizon, flags);
}

/*
 * Refuse to free anything but a dead line pointer.  This cannot happen unless
 * the page or the store is corrupt, and then it must not get worse.
 */
static void
check_items_dead(PvParticipant *self, Page page, BlockNumber blkno,
				 const OffsetNumber *deadoffsets, int ndead)
{
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);

	for (int i = 0; i < ndead; i++)
	{
		if (unlikely(deadoffsets[i] < FirstOffsetNumber ||
					 deadoffsets[i] > maxoff ||
					 !ItemIdIsDead(PageGetItemId(page, deadoffsets[i]))))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("line pointer (%u,%u) of table \"%s.%s\" is not dead any more",
							blkno, deadoffsets[i], self->errinfo.relnamespace,
							self->errinfo.relname),
					 errhint("Check the table with verify_heapam() of the amcheck extension.")));
	}
}

/*
 * Turn dead line pointers of a page into unused ones, and see whether the page
 * can be marked all-visible now.
 *
 * Every index must be rid of these items already (or the table have none).
 * The caller holds an exclusive lock on the heap page, keeps it, and holds a
 * pin on the right page of the visibility map.
 * Core: access/heap/vacuumlazy.c (15), lazy_vacuum_heap_page.
 */
void
pv_page_mark_unused(PvParticipant *self, Buffer buf, BlockNumber blkno,
					Buffer vmbuffer, OffsetNumber *deadoffsets, int ndead)
{
	Page		page = BufferGetPage(buf);

	Assert(ndead > 0);
	check_items_dead(self, page, blkno, deadoffsets, ndead);

	START_CRIT_SECTION();

	for (int i = 0; i < ndead; i++)
		ItemIdSetUnused(PageGetItemId(page, deadoffsets[i]));
	PageTruncateLinePointerArray(page);
	MarkBufferDirty(buf);
	if (RelationNeedsWAL(self->rel))
		pv_log_lp_unused(self->rel, buf, deadoffsets, ndead);

	END_CRIT_SECTION();

	/* Outside the critical section, because it may allocate and do I/O */
	set_visibility(self, buf, blkno, vmbuffer);
}
