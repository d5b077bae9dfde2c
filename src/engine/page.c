/*-------------------------------------------------------------------------
 *
 * page.c
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
#include "access/xlog.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

#include "engine/page.h"

/* The WAL writer is told of new WAL every so many blocks */
#define PACE_EVERY_BLOCKS		64

/* A look at a page's visibility */
typedef struct PageLook
{
	PvVisibility *vis;
	TransactionId settled_xmin; /* the last inserter found visible to all */
} PageLook;

/*
 * Is this tuple plainly live, by its hint bits, and of an inserter that the
 * page's visibility has taken account of already?  Nearly all are.
 */
static inline bool
tuple_is_settled(HeapTupleHeader htup, const PageLook *look)
{
	const uint16 mask = HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID |
	HEAP_XMAX_IS_MULTI | HEAP_MOVED;

	return (htup->t_infomask & mask) == (HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID) &&
		HeapTupleHeaderGetRawXmin(htup) == look->settled_xmin;
}

/*
 * Fold one tuple into what is known of its page.
 */
static void
note_tuple(PvParticipant *self, HeapTuple tuple, Buffer buf, PageLook *look)
{
	PvVisibility *vis = look->vis;
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

	if (vis->all_frozen && heap_tuple_needs_eventual_freeze(htup))
		vis->all_frozen = false;
	if (!TransactionIdIsNormal(xmin))
		return;					/* frozen: nobody conflicts with it */
	if (TransactionIdFollows(xmin, vis->conflict_horizon))
		vis->conflict_horizon = xmin;
	look->settled_xmin = xmin;
}

/*
 * Is every tuple on the page visible to all transactions, now and later?
 * The caller holds a lock on the page, a share lock at least.
 * Core: access/heap/vacuumlazy.c, heap_page_is_all_visible.
 */
void
pv_page_visibility(PvParticipant *self, Buffer buf, BlockNumber blkno,
				   PvVisibility *vis)
{
	PageLook	look = {.vis = vis, .settled_xmin = InvalidTransactionId};
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	HeapTupleData tuple;

	vis->all_visible = true;
	vis->all_frozen = true;
	vis->conflict_horizon = InvalidTransactionId;
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
		if (tuple_is_settled(tuple.t_data, &look))
			continue;

		self->errinfo.offnum = offnum;
		ItemPointerSet(&tuple.t_self, blkno, offnum);
		tuple.t_len = ItemIdGetLength(itemid);
		note_tuple(self, &tuple, buf, &look);
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
			   const PvVisibility *vis)
{
	PvVisibility seen;

	pv_page_visibility(self, buf, blkno, &seen);
	return !vis->all_visible ||
		(seen.all_visible && seen.all_frozen == vis->all_frozen);
}
#endif

/*
 * The map says that a page is all-visible, which the page denies, or the page
 * itself does, which its dead items belie.  Somebody may have been told that
 * rows are not there.  What is left to do is to tell, and to clear both.
 */
static void
repair_visibility(PvParticipant *self, Buffer buf, BlockNumber blkno,
				Buffer vmbuffer)
{
	Page		page = BufferGetPage(buf);

	if (PageIsAllVisible(page))
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page containing LP_DEAD items is marked as all-visible in relation \"%s\" page %u",
						RelationGetRelationName(self->rel), blkno)));
	else
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page is not marked all-visible but visibility map bit is set in relation \"%s\" page %u",
						RelationGetRelationName(self->rel), blkno)));
	PageClearAllVisible(page);
	MarkBufferDirty(buf);
	visibilitymap_clear(self->rel, blkno, vmbuffer, VISIBILITYMAP_VALID_BITS);
}

/*
 * Bring the visibility map in line with what was found on a page.  The caller
 * holds an exclusive lock on it, and a pin on the right page of the map, so what
 * the map says now is what holds.  With has_dead_items, *vis is of a page that is
 * not all-visible.
 * Core: access/heap/vacuumlazy.c (15), lazy_scan_heap and lazy_vacuum_heap_page.
 */
void
pv_page_update_map(PvParticipant *self, Buffer buf, BlockNumber blkno,
				   Buffer vmbuffer, const PvVisibility *vis,
				   bool has_dead_items)
{
	Page		page = BufferGetPage(buf);
	uint8		flags = VISIBILITYMAP_ALL_VISIBLE;
	uint8		old = visibilitymap_get_status(self->rel, blkno, &vmbuffer);
	TransactionId horizon = vis->conflict_horizon;

	if ((old != 0 && !PageIsAllVisible(page)) ||
		(has_dead_items && PageIsAllVisible(page)))
	{
		repair_visibility(self, buf, blkno, vmbuffer);
		old = 0;
	}
	if (!vis->all_visible)
		return;

	if (vis->all_frozen)
		flags |= VISIBILITYMAP_ALL_FROZEN;
	if ((old & flags) == flags)
		return;

	/* With checksums the map's record changes the page's LSN */
	PageSetAllVisible(page);
	MarkBufferDirty(buf);

	/* Setting the all-frozen bit alone conflicts with no snapshot */
	if (old != 0 || (vis->all_frozen && PV_FREEZING_COVERS_MAP))
		horizon = InvalidTransactionId;
	visibilitymap_set(self->rel, blkno, buf, InvalidXLogRecPtr, vmbuffer,
					  horizon, flags);
	self->counters.new_visible_pages += old == 0;
	self->counters.new_visible_frozen_pages += old == 0 && vis->all_frozen;
	self->counters.new_frozen_pages += old != 0;
}

/*
 * Between two pages: now and then have the WAL writer write what we have logged,
 * so that it is on disk by the time a changed page has to leave its buffer, or
 * the WAL buffers are full, and nobody waits for it.
 *
 * The end of our last record it must be.  The place where the next one would begin
 * may be past a page's header that nobody has written yet, and to be told to write
 * that ends the WAL writer in PANIC.
 * Core: access/transam/xlog.c, XLogBackgroundFlush.
 */
void
pv_page_pace_wal(PvParticipant *self)
{
	if (++self->blocks_unpaced < PACE_EVERY_BLOCKS)
		return;
	self->blocks_unpaced = 0;
	if (XactLastRecEnd > self->paced_upto)
	{
		self->paced_upto = XactLastRecEnd;
		XLogSetAsyncXactLSN(XactLastRecEnd);
	}
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
 * Turn dead line pointers of a page into unused ones.
 *
 * Every index must be rid of these items already (or the table have none).
 * The caller holds an exclusive lock on the page, and keeps it.
 * Core: access/heap/vacuumlazy.c (15), lazy_vacuum_heap_page.
 */
void
pv_page_mark_unused(PvParticipant *self, Buffer buf, BlockNumber blkno,
					OffsetNumber *deadoffsets, int ndead)
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
}
