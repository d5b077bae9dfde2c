/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  Removing dead versions from a B-tree before inserts need the space.
 *
 * An UPDATE that is not HOT leaves a dead version in every index.  An insert
 * that finds its leaf page full looks for such versions before it splits the
 * page, but only if hints say that there are some, or if the UPDATE did not
 * change the indexed columns.  What it does not find stays until the next
 * VACUUM, and by then the page has been split, which cannot be undone.  A
 * sweep visits the leaf pages before the inserts do.
 *
 * A sweep need not be complete: it leaves a page that is split or added
 * meanwhile to the next one.  It visits pages in physical order.  The index
 * loses tuples, not pages: VACUUM deletes those that become empty.
 *
 * Only B-trees support deletion outside of VACUUM in this form.  Hash and GiST
 * indexes delete by hints, other access methods not at all.
 *
 * Whoever calls parvacuum_sweep() runs this in its transaction; versions that
 * its snapshot or an older one might see stay.  The caller of the procedure
 * has no snapshot except one for each range of pages.  Others ignore that of a
 * scheduler worker, as in a vacuum.
 *
 * For each leaf page that is at least half full:
 *
 *	 index page    share lock, pin       copy the heap TIDs
 *	               pin                   drop those on all-visible heap pages
 *	 heap pages    share lock, each      which of the others are dead to all?
 *	 index page    write lock, pin       delete those that are still there
 *	 none                                sleep according to vacuum_cost_delay
 *
 * The third and the fourth line are repeated, so that the write lock is held
 * for a few heap pages at a time.  Under that lock core visits the heap pages
 * of what is deleted once more, to find the snapshot conflict horizon for the
 * WAL record.  So we keep their pins until the deletion, and no heap page is
 * read from disk under the write lock.
 *
 * The heap is read through a ring of buffers, as in VACUUM.  The ring loses a
 * buffer whose page is pinned when it returns to it.  So the pins are also
 * released after a number of reads that is smaller than the ring.
 *
 * Why may an index tuple be deleted some time after its heap tuple was found
 * dead?  The heap tuple stays dead to all snapshots, unless its TID is given
 * to another row.  For that VACUUM must have removed all index tuples with
 * this TID.  To remove any from this page it needs a cleanup lock, which it
 * cannot get while we have a pin.  So if there is an index tuple with this TID
 * on the page, it is the one that we saw.  It may have gone, by a split or by
 * an insert's own deletion; then it is not found again.
 *
 * Locks: RowExclusiveLock on table and index, as for an insert; VACUUM does
 * not conflict with it.  Those on pages as listed, and never two at a time
 * except inside core's deletion, which an insert calls in the same way.
 *
 * Core: access/nbtree/nbtutils.c, _bt_killitems, relies on the same argument.
 *
 * Discussion: pgsql-hackers, "Deleting older versions in unique indexes to
 * avoid page splits".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/visibilitymap.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/process.h"
#include "engine/nbtree.h"

/* Pages for which one snapshot is taken, if the caller has none */
#define RANGE_PAGES				64

/* Largest distance of reading ahead, for index pages and for heap pages */
#define MAX_LOOKAHEAD			32

/* A page with more free space than this is not swept, in bytes */
#define ENOUGH_FREE_SPACE		(BLCKSZ / 2)

/* Most heap pages that are visited under one write lock of a leaf page */
#define PAGES_PER_HOLD			32

typedef struct Sweep
{
	Relation	heaprel;
	Relation	indrel;
	BufferAccessStrategy index_ring;
	PvRing		heap_ring;
	GlobalVisState *vistest;
	bool		own_snapshots;	/* one for each range, and none during a sleep */
	Buffer		vmbuffer;
	PvLookahead index_ahead;
	PvLookahead heap_ahead;
	PvSweepResult *counts;

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
	Buffer		pinned[PAGES_PER_HOLD];
	int64		reads_before;	/* reads of this process when the first page
								 * was pinned */
	int64		max_reads;

	/* For core's deletion */
	TM_IndexDelete deltids[MaxTIDsPerBTreePage];
	TM_IndexStatus status[MaxTIDsPerBTreePage];
} Sweep;

/* Is this a leaf page that has tuples, and may they be deleted? */
static bool
is_live_leaf(Page page)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);

	return P_ISLEAF(opaque) && !P_IGNORE(opaque) &&
		!P_INCOMPLETE_SPLIT(opaque) &&
		P_FIRSTDATAKEY(opaque) <= PageGetMaxOffsetNumber(page);
}

/* Return how many blocks this process has read. */
static int64
blocks_read(void)
{
	return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
}

/* Return how many blocks this process has read or found in a buffer. */
static int64
blocks_accessed(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.local_blks_hit +
		blocks_read();
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) a, (ItemPointer) b);
}

/*
 * Sort the TIDs, drop those on heap pages that are all-visible, and have the
 * other heap pages read ahead.
 */
static void
keep_doubtful(Sweep *sweep)
{
	BlockNumber blkno = InvalidBlockNumber;
	bool		all_visible = false;
	int			n = 0;

	qsort(sweep->tids, sweep->ntids, sizeof(ItemPointerData), compare_tids);
	for (int i = 0; i < sweep->ntids; i++)
	{
		if (ItemPointerGetBlockNumber(&sweep->tids[i]) != blkno)
		{
			blkno = ItemPointerGetBlockNumber(&sweep->tids[i]);
			all_visible =
				VM_ALL_VISIBLE(sweep->heaprel, blkno, &sweep->vmbuffer);
			if (!all_visible)
				pv_lookahead_block(&sweep->heap_ahead, sweep->heaprel, blkno);
		}
		if (!all_visible)
			sweep->tids[n++] = sweep->tids[i];
	}
	sweep->ntids = n;
}

/*
 * Is the row at this TID dead to all snapshots, in all its HOT versions?  The
 * caller holds a lock on its page.
 */
static bool
is_dead(const Sweep *sweep, Buffer buf, ItemPointer tid)
{
	SnapshotData nonvacuumable;
	HeapTupleData tuple;
	ItemPointerData at = *tid;

	InitNonVacuumableSnapshot(nonvacuumable, sweep->vistest);
	return ItemPointerGetOffsetNumber(tid) <=
		PageGetMaxOffsetNumber(BufferGetPage(buf)) &&
		!heap_hot_search_buffer(&at, sweep->heaprel, buf, &nonvacuumable,
								&tuple, NULL, true);
}

/*
 * Check the rows of one heap page, that of the TID at position next.  Keep the
 * TIDs of dead rows, and a pin on the page if it has any.  Return the position
 * of the next page's TIDs.
 */
static int
visit_heap_page(Sweep *sweep, int next)
{
	BlockNumber blkno = ItemPointerGetBlockNumber(&sweep->tids[next]);
	int			ndead = sweep->ndead;
	Buffer		buf;

	CHECK_FOR_INTERRUPTS();
	if (sweep->npinned == 0)
		sweep->reads_before = blocks_read();
	buf = ReadBufferExtended(sweep->heaprel, MAIN_FORKNUM, blkno, RBM_NORMAL,
							 pv_ring_next(&sweep->heap_ring));
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	for (; next < sweep->ntids &&
		 ItemPointerGetBlockNumber(&sweep->tids[next]) == blkno; next++)
	{
		if (is_dead(sweep, buf, &sweep->tids[next]))
			sweep->tids[sweep->ndead++] = sweep->tids[next];
	}
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	if (sweep->ndead > ndead)
		sweep->pinned[sweep->npinned++] = buf;
	else
		ReleaseBuffer(buf);
	return next;
}

/*
 * Describe to core what is to be deleted from a page: those of the known dead
 * TIDs that are still there, in page order.  The caller holds a write lock.
 * Return their number.
 */
static int
describe_deletion(Sweep *sweep, Page page)
{
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	int			n = 0;

	for (OffsetNumber off = P_FIRSTDATAKEY(BTPageGetOpaque(page));
		 off <= maxoff; off = OffsetNumberNext(off))
	{
		ItemPointer tids;
		int			nheap = pv_nbtree_heap_tids(page, off, &tids);

		for (int i = 0; i < nheap && n < sweep->ndead; i++)
		{
			if (bsearch(&tids[i], sweep->tids, sweep->ndead,
						sizeof(ItemPointerData), compare_tids) == NULL)
				continue;
			sweep->deltids[n].tid = tids[i];
			sweep->deltids[n].id = n;
			sweep->status[n].idxoffnum = off;
			sweep->status[n].knowndeletable = true;
			sweep->status[n].promising = false;
			sweep->status[n].freespace = 0;
			n++;
		}
	}
	return n;
}

/*
 * Delete what is known to be dead from a leaf page that is pinned, count what
 * that took, and release the pins of the heap pages.  Core accesses these, and
 * nothing else.  Return whether any of it was still there.
 */
static bool
delete_dead(Sweep *sweep, Buffer buf)
{
	PvSweepResult *counts = sweep->counts;
	Page		page = BufferGetPage(buf);
	TM_IndexDeleteOp op = {
		.irel = sweep->indrel,
		.iblknum = BufferGetBlockNumber(buf),
		.deltids = sweep->deltids,
		.status = sweep->status,
	};
	int			ndead;

	_bt_lockbuf(sweep->indrel, buf, BT_WRITE);
	ndead = is_live_leaf(page) ? describe_deletion(sweep, page) : 0;
	if (ndead > 0)
	{
		Size		free_space = PageGetExactFreeSpace(page);
		int64		accessed = blocks_accessed();
		int64		read = blocks_read();

		op.ndeltids = ndead;
		_bt_delitems_delete_check(sweep->indrel, buf, sweep->heaprel, &op);

		counts->tuples_deleted += ndead;
		counts->bytes_freed += PageGetExactFreeSpace(page) - free_space;
		counts->holds++;
		counts->hold_reads += blocks_read() - read;
		counts->pages_per_hold = Max(counts->pages_per_hold,
									 (int) (blocks_accessed() - accessed));
	}
	_bt_unlockbuf(sweep->indrel, buf);

	while (sweep->npinned > 0)
		ReleaseBuffer(sweep->pinned[--sweep->npinned]);
	sweep->ndead = 0;
	return ndead > 0;
}

/* Sweep a leaf page that is pinned and whose TIDs were copied. */
static void
sweep_leaf(Sweep *sweep, Buffer buf)
{
	int			next = 0;
	bool		changed = false;

	while (next < sweep->ntids)
	{
		next = visit_heap_page(sweep, next);
		if (sweep->npinned > 0 &&
			(next >= sweep->ntids || sweep->npinned >= sweep->max_pinned ||
			 blocks_read() - sweep->reads_before >= sweep->max_reads))
			changed |= delete_dead(sweep, buf);
	}
	if (changed)
		sweep->counts->pages_changed++;
}

/* Sweep one page of any kind. */
static void
sweep_page(Sweep *sweep, BlockNumber blkno)
{
	BTPageOpaque opaque;
	Buffer		buf =
		pv_nbtree_read_page(sweep->indrel, blkno, sweep->index_ring, &opaque);
	Page		page = BufferGetPage(buf);

	sweep->ntids = 0;
	if (opaque != NULL && is_live_leaf(page) &&
		PageGetExactFreeSpace(page) <= ENOUGH_FREE_SPACE)
		sweep->ntids = pv_nbtree_list_tids(page, sweep->tids);
	_bt_unlockbuf(sweep->indrel, buf);

	if (sweep->ntids > 0)
	{
		sweep->counts->pages_visited++;
		keep_doubtful(sweep);
		sweep_leaf(sweep, buf);
	}
	ReleaseBuffer(buf);
}

/*
 * Get a current view of the table, because what this session knows of other
 * sessions' snapshots may be old.  If a procedure calls us, there is no
 * snapshot, so take one.
 */
static void
begin_range_snapshot(Sweep *sweep)
{
	if (sweep->own_snapshots)
		PushActiveSnapshot(GetTransactionSnapshot());
	(void) GetOldestNonRemovableTransactionId(sweep->heaprel);
	sweep->vistest = GlobalVisTestFor(sweep->heaprel);
}

/* Release the snapshot that was taken for a range. */
static void
end_range_snapshot(const Sweep *sweep)
{
	if (!sweep->own_snapshots)
		return;
	PopActiveSnapshot();
	InvalidateCatalogSnapshot();
}

/*
 * Sleep as long as the cost balance requires, with no page locked, no leaf
 * page pinned, and without a snapshot that we can release.  The scheduler's
 * balance is charged at every page.
 */
static void
sleep_off_cost(Sweep *sweep)
{
	if (pv_cost.mode == PV_COST_SCHEDULER)
	{
		sweep->counts->usecs_slept += pv_cost_delay();
		return;
	}
	if (!pv_cost_is_owing())
		return;
	end_range_snapshot(sweep);
	sweep->counts->usecs_slept += pv_cost_delay_in_full();
	begin_range_snapshot(sweep);
}

/* Sweep the pages of a range. */
static void
sweep_range(Sweep *sweep, BlockNumber start, BlockNumber end,
			const PvSweepPoll *poll)
{
	BlockNumber asked = start;

	begin_range_snapshot(sweep);
	for (BlockNumber blkno = start; blkno < end; blkno++)
	{
		for (; asked < end && asked < blkno + sweep->index_ahead.distance;
			 asked++)
			pv_lookahead_block(&sweep->index_ahead, sweep->indrel, asked);
		sweep_page(sweep, blkno);
		sleep_off_cost(sweep);
		if (poll != NULL)
			poll->function(poll->arg);
	}
	end_range_snapshot(sweep);
}

/*
 * Sweep all pages of a B-tree.
 *
 * The ring of buffers is that of a vacuum of the table.  No more heap pages
 * are pinned than this process's part of all buffers.
 *
 * If there is no snapshot, each range of pages gets its own.  A long sweep
 * then does not prevent the removal of versions that become dead meanwhile,
 * neither here nor in other tables.
 *
 * Core: storage/buffer/bufmgr.c, LimitAdditionalPins.
 */
static void
sweep_pages(Relation heaprel, Relation indrel, int buffer_usage_limit,
			const PvSweepPoll *poll, PvSweepResult *result)
{
	Sweep	   *sweep = palloc0(sizeof(Sweep));
	BlockNumber pages = (BlockNumber) result->pages_total;
	BufferAccessStrategy asked_for = pv_vacuum_strategy();
	int			ring_kb = pv_ring_plan(asked_for, buffer_usage_limit, 1);

	FreeAccessStrategy(asked_for);
	sweep->heaprel = heaprel;
	sweep->indrel = indrel;
	sweep->index_ring = GetAccessStrategy(BAS_BULKREAD);
	pv_ring_create(&sweep->heap_ring, ring_kb);
	sweep->max_pinned = Max(1, Min(PAGES_PER_HOLD, NBuffers / MaxBackends));
	sweep->max_reads = ring_kb == 0 ? PG_INT64_MAX :
		Max(1, ring_kb / (BLCKSZ / 1024) / 2);
	sweep->own_snapshots = !ActiveSnapshotSet();
	sweep->vmbuffer = InvalidBuffer;
	sweep->counts = result;
	pv_lookahead_init(&sweep->index_ahead, indrel, MAX_LOOKAHEAD);
	pv_lookahead_init(&sweep->heap_ahead, heaprel, MAX_LOOKAHEAD);

	for (BlockNumber start = BTREE_METAPAGE + 1; start < pages;
		 start += Min(RANGE_PAGES, pages - start))
		sweep_range(sweep, start, start + Min(RANGE_PAGES, pages - start),
					poll);

	if (BufferIsValid(sweep->vmbuffer))
		ReleaseBuffer(sweep->vmbuffer);
	FreeAccessStrategy(sweep->index_ring);
	pfree(sweep);
}

/* Raise an error if this index cannot be swept. */
static void
check_index(Relation heaprel, Relation indrel)
{
	if (IsCatalogRelation(heaprel) || RELATION_IS_OTHER_TEMP(indrel) ||
		heaprel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot sweep index \"%s\"", RelationGetRelationName(indrel)),
				 errdetail("Catalogs, temporary tables of other sessions, and tables of access methods other than heap are not swept."),
				 errhint("VACUUM removes dead versions from their indexes.")));
	if (!indrel->rd_index->indisready || !indrel->rd_index->indislive)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot sweep index \"%s\"", RelationGetRelationName(indrel)),
				 errdetail("The index is being built or dropped."),
				 errhint("Wait until that has finished, or REINDEX the index.")));
}

/*
 * Sweep a B-tree under the session's cost limits.  A scheduler worker has set
 * its own before, and keeps them.
 */
static void
sweep_btree(Relation heaprel, Relation indrel, int buffer_usage_limit,
			const PvSweepPoll *poll, PvSweepResult *result)
{
	bool		before = pv_guard_enter();
	PvCostShared cost;

	if (!pv_is_scheduler_worker)
	{
		pv_apply_cost_settings();
		VacuumCostBalance = 0;
	}
	PG_TRY();
	{
		pv_cost_init(&cost, 1.0);
		pv_cost_begin_work(&cost);
		sweep_pages(heaprel, indrel, buffer_usage_limit, poll, result);
		pv_cost_end_work();
	}
	PG_FINALLY();
	{
		pv_cost_restore();
		if (!pv_is_scheduler_worker)
			VacuumCostActive = false;
		pv_guard_leave(before);
	}
	PG_END_TRY();
}

/*
 * Remove dead versions from a B-tree.
 *
 * buffer_usage_limit is the table's option, in kilobytes.  poll may be NULL.
 * The caller has locked the table and the index with RowExclusiveLock, and has
 * checked permissions under these locks.  For an index of another access
 * method there is only a notice.
 */
void
pv_sweep_index(Relation heaprel, Relation indrel, int buffer_usage_limit,
			   const PvSweepPoll *poll, PvSweepResult *result)
{
	memset(result, 0, sizeof(*result));
	result->pages_total = RelationGetNumberOfBlocks(indrel);
	check_index(heaprel, indrel);
	if (indrel->rd_rel->relam == BTREE_AM_OID)
	{
		sweep_btree(heaprel, indrel, buffer_usage_limit, poll, result);
		ereport(DEBUG1,
				(errmsg_internal("sweep of index \"%s\": deleted under " INT64_FORMAT " write locks of leaf pages, at most %d heap pages under one lock, " INT64_FORMAT " reads under all of them, slept " INT64_FORMAT " us",
								 RelationGetRelationName(indrel),
								 result->holds,
								 result->pages_per_hold, result->hold_reads,
								 result->usecs_slept)));
	}
	else
		ereport(NOTICE,
				(errmsg("index \"%s\" is not a B-tree, so there is nothing to sweep",
						RelationGetRelationName(indrel)),
				 errdetail("Its access method, \"%s\", has no deletion outside of VACUUM.",
						   get_am_name(indrel->rd_rel->relam))));
}
