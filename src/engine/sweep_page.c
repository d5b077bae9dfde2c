/*-------------------------------------------------------------------------
 *
 * sweep_page.c
 *	  The sweep of one page of a B-tree.
 *
 * All participants of a sweep run this (engine/sweep.c).  For each leaf page
 * that is at least half full:
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
 * WAL record.  So we keep the pins of at most PV_SWEEP_PAGES_PER_HOLD heap
 * pages until the deletion, and no heap page is read from disk under the write
 * lock.
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
 * Locks: as listed, and never two at a time except inside core's deletion,
 * which an insert calls in the same way.
 *
 * Core: access/nbtree/nbtutils.c, _bt_killitems, relies on the same argument.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/visibilitymap.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "engine/nbtree.h"
#include "engine/sweep.h"

/* A page with more free space than this is not swept, in bytes */
#define ENOUGH_FREE_SPACE		(BLCKSZ / 2)

/*
 * Is this a leaf page from which tuples may be deleted, and does it have any?
 */
static bool
is_live_leaf(Page page)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);

	return P_ISLEAF(opaque) && !P_IGNORE(opaque) &&
		!P_INCOMPLETE_SPLIT(opaque) &&
		P_FIRSTDATAKEY(opaque) <= PageGetMaxOffsetNumber(page);
}

/*
 * Copy the heap TIDs of a page if it is to be swept.  The caller holds a lock
 * on it.
 */
static bool
copy_tids(PvSweep *sweep, Page page)
{
	if (!is_live_leaf(page) || PageGetExactFreeSpace(page) > ENOUGH_FREE_SPACE)
		return false;
	sweep->ntids = pv_nbtree_list_tids(page, sweep->tids);
	return sweep->ntids > 0;
}

/* Blocks read by this process, and blocks found in shared buffers or read */
static int64
blocks_read(void)
{
	return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
}

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
keep_doubtful(PvSweep *sweep)
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
is_dead(const PvSweep *sweep, Buffer buf, ItemPointer tid)
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
visit_heap_page(PvSweep *sweep, int next)
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
 */
static void
describe_deletion(PvSweep *sweep, Buffer buf, TM_IndexDeleteOp *op)
{
	Page		page = BufferGetPage(buf);
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
	op->irel = sweep->indrel;
	op->iblknum = BufferGetBlockNumber(buf);
	op->bottomup = false;
	op->bottomupfreespace = 0;
	op->ndeltids = n;
	op->deltids = sweep->deltids;
	op->status = sweep->status;
}

/*
 * Delete from a leaf page, and count what that took.  The caller holds a pin
 * and a write lock.  Core accesses the heap pages of what is deleted, and
 * nothing else.
 */
static void
delete_described(PvSweep *sweep, Buffer buf, TM_IndexDeleteOp *op)
{
	Page		page = BufferGetPage(buf);
	Size		free_space = PageGetExactFreeSpace(page);
	int64		accessed = blocks_accessed();
	int64		read = blocks_read();
	int			ndead = op->ndeltids;

	_bt_delitems_delete_check(sweep->indrel, buf, sweep->heaprel, op);

	sweep->counts.tuples_deleted += ndead;
	sweep->counts.bytes_freed += PageGetExactFreeSpace(page) - free_space;
	sweep->counts.holds++;
	sweep->counts.hold_reads += blocks_read() - read;
	sweep->counts.pages_per_hold = Max(sweep->counts.pages_per_hold,
									   (int) (blocks_accessed() - accessed));
}

/*
 * Delete what is known to be dead from a leaf page that is pinned, and release
 * the pins of the heap pages.  Return whether any of it was still there.
 */
static bool
delete_dead(PvSweep *sweep, Buffer buf)
{
	TM_IndexDeleteOp op = {.ndeltids = 0};
	bool		deletes;

	_bt_lockbuf(sweep->indrel, buf, BT_WRITE);
	if (is_live_leaf(BufferGetPage(buf)))
		describe_deletion(sweep, buf, &op);
	deletes = op.ndeltids > 0;
	if (deletes)
		delete_described(sweep, buf, &op);
	_bt_unlockbuf(sweep->indrel, buf);

	while (sweep->npinned > 0)
		ReleaseBuffer(sweep->pinned[--sweep->npinned]);
	sweep->ndead = 0;
	return deletes;
}

/* Sweep a leaf page that is pinned and whose TIDs were copied. */
static void
sweep_leaf(PvSweep *sweep, Buffer buf)
{
	int			next = 0;
	bool		changed = false;

	sweep->ndead = 0;
	while (next < sweep->ntids)
	{
		next = visit_heap_page(sweep, next);
		if (sweep->npinned > 0 &&
			(next >= sweep->ntids || sweep->npinned >= sweep->max_pinned ||
			 blocks_read() - sweep->reads_before >= sweep->max_reads))
			changed |= delete_dead(sweep, buf);
	}
	if (changed)
		sweep->counts.pages_changed++;
}

/* Sweep one page of any kind. */
void
pv_sweep_page(PvSweep *sweep, BlockNumber blkno)
{
	BTPageOpaque opaque;
	Buffer		buf =
		pv_nbtree_read_page(sweep->indrel, blkno, sweep->index_ring, &opaque);
	bool		visit = opaque != NULL && copy_tids(sweep, BufferGetPage(buf));

	_bt_unlockbuf(sweep->indrel, buf);

	if (visit)
	{
		sweep->counts.pages_visited++;
		keep_doubtful(sweep);
		sweep_leaf(sweep, buf);
	}
	ReleaseBuffer(buf);
}
