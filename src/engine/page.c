/*-------------------------------------------------------------------------
 *
 * page.c
 *	  What both heap passes do to a heap page.
 *
 * Leader and workers run this: the second heap pass for every page that has
 * dead items, and the first one if the table has no indexes.
 *
 * Locks: the caller holds an exclusive lock on the page (a cleanup lock will
 * do) and a pin on the page of the visibility map, so that the map need not be
 * read under the lock.  An exclusive lock is sufficient: a dead line pointer
 * has no storage, so no tuple is moved, and only VACUUM sets dead line
 * pointers unused.  The lock on the heap page is taken before the lock on the
 * page of the visibility map.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "utils/rel.h"

#include "engine/prune.h"

/* Blocks between two calls of XLogSetAsyncXactLSN() */
#define PACE_EVERY_BLOCKS		64

/*
 * Is this tuple live by its hint bits, and was the page's visibility adjusted
 * to its inserter already?  This is so for nearly all tuples.
 */
static inline bool
tuple_is_known_visible(HeapTupleHeader htup, TransactionId known_visible_xmin)
{
	const uint16 mask = HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID |
		HEAP_XMAX_IS_MULTI | HEAP_MOVED;

	return (htup->t_infomask & mask) ==
		(HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID) &&
		HeapTupleHeaderGetRawXmin(htup) == known_visible_xmin;
}

/*
 * Adjust the visibility of a page to one of its tuples.  Remember its inserter
 * if that is visible.
 */
static void
note_tuple(const PvParticipant *self, HeapTuple tuple, Buffer buf,
		   PvVisibility *vis, TransactionId *known_visible_xmin)
{
	TransactionId oldest_xmin = self->shared->plan.cutoffs.OldestXmin;
	HeapTupleHeader htup = tuple->t_data;
	TransactionId xmin = HeapTupleHeaderGetXmin(htup);

	/*
	 * As in the first pass: hinted committed, and older than all snapshots.
	 * Where the current horizon decides, it is asked at the end.
	 */
	if (HeapTupleSatisfiesVacuum(tuple, oldest_xmin, buf) != HEAPTUPLE_LIVE ||
		!HeapTupleHeaderXminCommitted(htup) ||
		(!PV_MAP_BY_HORIZON && !TransactionIdPrecedes(xmin, oldest_xmin)))
	{
		vis->all_visible = false;
		return;
	}

	if (vis->all_frozen && heap_tuple_needs_eventual_freeze(htup))
		vis->all_frozen = false;
	if (!TransactionIdIsNormal(xmin))
		return;					/* frozen: no conflict with any snapshot */
	if (TransactionIdFollows(xmin, vis->conflict_horizon))
		vis->conflict_horizon = xmin;
	*known_visible_xmin = xmin;
}

/*
 * Find the visibility of a page: is every tuple on it visible to all
 * transactions, now and later?  The dead items in "unused" count as unused
 * already.  allow_update says whether the horizon may be computed again.  The
 * caller holds at least a share lock on the page.
 *
 * Core: access/heap/vacuumlazy.c, heap_page_is_all_visible.
 */
void
pv_page_visibility(PvParticipant *self, Buffer buf, BlockNumber blkno,
				   const OffsetNumber *unused, int nunused,
				   bool allow_update, PvVisibility *vis)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	TransactionId known_visible_xmin = InvalidTransactionId;
	HeapTupleData tuple;
	int			nmatched = 0;

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
			if (nmatched < nunused && unused[nmatched] == offnum)
			{
				nmatched++;
				continue;
			}
			/* An index may still point here */
			vis->all_visible = false;
			break;
		}

		tuple.t_data = (HeapTupleHeader) PageGetItem(page, itemid);
		if (tuple_is_known_visible(tuple.t_data, known_visible_xmin))
			continue;

		self->errinfo.offnum = offnum;
		ItemPointerSet(&tuple.t_self, blkno, offnum);
		tuple.t_len = ItemIdGetLength(itemid);
		note_tuple(self, &tuple, buf, vis, &known_visible_xmin);
	}
	self->errinfo.offnum = InvalidOffsetNumber;

	if (PV_MAP_BY_HORIZON && vis->all_visible &&
		TransactionIdIsNormal(vis->conflict_horizon) &&
		!pv_xid_is_removable(self->vistest, vis->conflict_horizon,
							 allow_update))
		vis->all_visible = false;
}

#ifdef USE_ASSERT_CHECKING
/*
 * Does the visibility that the first heap pass found agree with the result of
 * pv_page_visibility()?  Each has shortcuts of its own, so servers with
 * assertions compare them, as core's do.
 */
bool
pv_page_agrees(PvParticipant *self, Buffer buf, BlockNumber blkno,
			   const PvVisibility *vis)
{
	PvVisibility seen;

	pv_page_visibility(self, buf, blkno, NULL, 0, false, &seen);
	return !vis->all_visible ||
		(seen.all_visible && seen.all_frozen == vis->all_frozen);
}
#endif

/*
 * Report that a page's bits are wrong.  Queries may have returned wrong
 * results.  Core has other words from PG 19 on, and names the tuple.
 */
static void
warn_of_map(PvParticipant *self, BlockNumber blkno, bool page_is_marked,
			PvMapDoubt doubt)
{
	const char *relname = RelationGetRelationName(self->rel);

	if (!PV_PRUNING_SETS_MAP)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 page_is_marked ?
				 errmsg("page containing LP_DEAD items is marked as all-visible in relation \"%s\" page %u",
						relname, blkno) :
				 errmsg("page is not marked all-visible but visibility map bit is set in relation \"%s\" page %u",
						relname, blkno)));
	else if (!page_is_marked)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page is not marked all-visible but visibility map bit is set"),
				 errcontext("relation \"%s\", page %u", relname, blkno)));
	else
	{
		self->errinfo.offnum = doubt.offnum;
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 doubt.kind == PV_MAP_HAS_DEAD_ITEMS ?
				 errmsg("dead line pointer found on page marked all-visible") :
				 errmsg("tuple not visible to all transactions found on page marked all-visible"),
				 errcontext("relation \"%s\", page %u, tuple %u",
							relname, blkno, doubt.offnum)));
		self->errinfo.offnum = InvalidOffsetNumber;
	}
}

/*
 * Repair a page whose bits are wrong: either the map says that it is
 * all-visible and the page's own bit does not, or the page's own bit is set in
 * spite of the doubt.  Report it and clear both bits.
 *
 * The caller holds an exclusive lock on the page and a pin on the right page
 * of the map, so the map's bits cannot change meanwhile.  The change of the
 * page is not WAL-logged, so it is marked dirty as by a hint: with checksums
 * the first change after a checkpoint logs an image, without which a torn page
 * could not be restored.
 *
 * Core: access/heap/vacuumlazy.c (15), lazy_scan_heap; access/heap/pruneheap.c
 * (19), heap_page_fix_vm_corruption.
 */
void
pv_page_repair_map(PvParticipant *self, Buffer buf, BlockNumber blkno,
				   Buffer vmbuffer, PvMapDoubt doubt)
{
	Page		page = BufferGetPage(buf);
	bool		page_is_marked = PageIsAllVisible(page);

	if (page_is_marked ? doubt.kind == PV_MAP_NO_DOUBT :
		visibilitymap_get_status(self->rel, blkno, &vmbuffer) == 0)
		return;

	warn_of_map(self, blkno, page_is_marked, doubt);
	if (page_is_marked)
	{
		PageClearAllVisible(page);
		MarkBufferDirtyHint(buf, true);
	}
	pv_map_clear(self->rel, blkno, vmbuffer);
}

/*
 * Plan the change of the visibility map for a page, under the same locks.  The
 * caller has repaired the page's bits.
 *
 * Core: access/heap/vacuumlazy.c (15), lazy_scan_heap and
 * lazy_vacuum_heap_page; access/heap/pruneheap.c (19), heap_page_will_set_vm.
 */
void
pv_page_plan_map(PvParticipant *self, Buffer buf, BlockNumber blkno,
				 Buffer vmbuffer, const PvVisibility *vis, PvMapChange *map)
{
	uint8		flags = VISIBILITYMAP_ALL_VISIBLE;

	map->vmbuffer = vmbuffer;
	map->old = visibilitymap_get_status(self->rel, blkno, &vmbuffer);
	map->flags = 0;
	map->horizon = vis->conflict_horizon;

	if (!vis->all_visible)
		return;

	if (vis->all_frozen)
		flags |= VISIBILITYMAP_ALL_FROZEN;
	if ((map->old & flags) == flags)
		return;
	map->flags = flags;

	/*
	 * A record of its own that sets only the all-frozen bit conflicts with no
	 * snapshot
	 */
	if (!PV_PRUNING_SETS_MAP &&
		(map->old != 0 || (vis->all_frozen && PV_FREEZING_COVERS_MAP)))
		map->horizon = InvalidTransactionId;
}

/* Count what was planned, when it was done. */
void
pv_page_count_map(PvParticipant *self, const PvMapChange *map)
{
	bool		all_frozen = (map->flags & VISIBILITYMAP_ALL_FROZEN) != 0;

	if (map->flags == 0)
		return;
	self->counters.new_visible_pages += map->old == 0;
	self->counters.new_visible_frozen_pages += map->old == 0 && all_frozen;
	self->counters.new_frozen_pages += map->old != 0;
}

/*
 * Update the visibility map for a page, with a record of its own, under the
 * same conditions.
 */
void
pv_page_update_map(PvParticipant *self, Buffer buf, BlockNumber blkno,
				   Buffer vmbuffer, const PvVisibility *vis)
{
	PvMapChange map;

	pv_page_plan_map(self, buf, blkno, vmbuffer, vis, &map);
	if (map.flags != 0)
		pv_map_set(self->rel, buf, &map);
	pv_page_count_map(self, &map);
}

/*
 * Between two pages: from time to time, have the WAL writer write our WAL, so
 * that this process need not wait for it when a changed page has to leave its
 * buffer or the WAL buffers are full.
 *
 * The position must be the end of our last record.  The position where the
 * next record will begin may be behind a page header that is not written yet,
 * and the WAL writer fails with PANIC if it tries to write up to there.
 *
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
 * Raise an error if an item to be set unused is not a dead line pointer.  Only
 * if the page or the store is corrupt can this happen, and it must not do more
 * damage.
 */
static void
check_items_dead(const PvParticipant *self, Page page, BlockNumber blkno,
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
					 errmsg("line pointer (%u,%u) of table \"%s.%s\" is no longer dead",
							blkno, deadoffsets[i], self->errinfo.relnamespace,
							self->errinfo.relname),
					 errhint("Check the table with verify_heapam() of the amcheck extension.")));
	}
}

/*
 * Set dead line pointers of a page unused.
 *
 * Every index must have been vacuumed of these items, or the table has no
 * indexes.  The caller holds an exclusive lock on the page, and keeps it.
 */
void
pv_page_mark_unused(PvParticipant *self, Buffer buf, BlockNumber blkno,
					OffsetNumber *deadoffsets, int ndead)
{
	const PvMapChange none = {.flags = 0};

	Assert(ndead > 0);
	check_items_dead(self, BufferGetPage(buf), blkno, deadoffsets, ndead);
	pv_set_items_unused(self->rel, buf, deadoffsets, ndead, &none);
}

/*
 * The same in the second heap pass, with the visibility map.  From PG 19 on
 * one record does both.
 *
 * Core: access/heap/vacuumlazy.c, lazy_vacuum_heap_page.
 */
void
pv_page_vacuum(PvParticipant *self, Buffer buf, BlockNumber blkno,
			   Buffer vmbuffer, OffsetNumber *deadoffsets, int ndead)
{
	const PvMapDoubt no_doubt = {PV_MAP_NO_DOUBT};
	PvVisibility vis;

	pv_page_repair_map(self, buf, blkno, vmbuffer, no_doubt);
	if (PV_PRUNING_SETS_MAP)
	{
		PvMapChange map;

		check_items_dead(self, BufferGetPage(buf), blkno, deadoffsets, ndead);
		pv_page_visibility(self, buf, blkno, deadoffsets, ndead, true, &vis);
		pv_page_plan_map(self, buf, blkno, vmbuffer, &vis, &map);
		pv_set_items_unused(self->rel, buf, deadoffsets, ndead, &map);
		pv_page_count_map(self, &map);
	}
	else
	{
		pv_page_mark_unused(self, buf, blkno, deadoffsets, ndead);
		pv_page_visibility(self, buf, blkno, NULL, 0, true, &vis);
		pv_page_update_map(self, buf, blkno, vmbuffer, &vis);
	}
}
