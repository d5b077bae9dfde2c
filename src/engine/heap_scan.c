/*-------------------------------------------------------------------------
 *
 * heap_scan.c
 *	  The first heap pass: prune, freeze, collect dead items.
 *
 * Leader and workers run this, each on ranges of blocks of its own.  Every
 * page is pruned and its old tuples are frozen under a cleanup lock; line
 * pointers left dead go into the store, for the index phase and the second
 * pass.  A page whose cleanup lock cannot be had at once is only looked
 * at, unless the vacuum is aggressive and something on it must be frozen.
 *
 * The store is asked for room before a segment is begun.  If it is full we
 * stop at that border, and the rest of our range is for the next round.
 * Nothing is added to the store while a page is locked.
 *
 * Locks: one heap page at a time, then the page of the visibility map under
 * it, whose pin was taken before.
 * Core: access/heap/vacuumlazy.c, lazy_scan_heap and below.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "storage/freespace.h"
#include "utils/rel.h"

#include "base/wait.h"
#include "engine/heap_scan.h"
#include "engine/prune.h"

/* Progress is added up every so many blocks */
#define PROGRESS_EVERY_BLOCKS	32

/* A participant looks at the table's age every so many blocks; core each 4 GB */
#define FAILSAFE_EVERY_BLOCKS	1024

/* What happens within one call of pv_scan_heap() */
typedef struct HeapScan
{
	PvParticipant *self;
	Buffer		vmbuffer;
	bool		in_segment;
	uint32		segno;
	BlockNumber unreported;		/* blocks passed since progress was added up */
	BlockNumber until_failsafe_check;
} HeapScan;

/*
 * Will the second pass come by this page again?
 */
static bool
will_vacuum_heap(PvParticipant *self)
{
	return self->shared->collect_dead_items && !pv_failsafe_triggered(self);
}

static void
remember_nonempty(PvParticipant *self, BlockNumber blkno)
{
	if (blkno >= self->counters.nonempty_pages)
		self->counters.nonempty_pages = blkno + 1;
}

/*
 * A page's dead items: count them and, if they will be vacuumed, store them.
 * No lock may be held.
 */
static void
collect_dead_items(PvParticipant *self, BlockNumber blkno,
				   const OffsetNumber *deadoffsets, int ndead)
{
	self->counters.lpdead_item_pages++;
	self->counters.lpdead_items += ndead;
	pv_tidstore_count(&self->counters.tidstore, blkno, ndead,
					  deadoffsets[ndead - 1]);
	if (will_vacuum_heap(self))
		pv_deadtids_add_block(self->store, blkno, deadoffsets, ndead);
}

/*
 * Release the page and tell the free space map what it has.
 */
static void
release_and_record_space(PvParticipant *self, Buffer buf, BlockNumber blkno)
{
	Size		freespace = PageGetHeapFreeSpace(BufferGetPage(buf));

	UnlockReleaseBuffer(buf);
	RecordPageWithFreeSpace(self->rel, blkno, freespace);
}

/*
 * A page of zeroes: someone extended the table and did not get to use it.  It
 * stays out of the visibility map, so that a promoted standby finds it too.
 */
static void
finish_new_page(PvParticipant *self, Buffer buf, BlockNumber blkno)
{
	UnlockReleaseBuffer(buf);
	if (GetRecordedFreeSpace(self->rel, blkno) == 0)
		RecordPageWithFreeSpace(self->rel, blkno,
								BLCKSZ - SizeOfPageHeaderData);
}

/*
 * A page with no line pointers is all-visible and all-frozen.  The caller
 * holds an exclusive lock.
 */
static void
finish_empty_page(HeapScan *scan, Buffer buf, BlockNumber blkno)
{
	PvParticipant *self = scan->self;
	Page		page = BufferGetPage(buf);

	if (!PageIsAllVisible(page))
	{
		START_CRIT_SECTION();

		MarkBufferDirty(buf);

		/*
		 * The extension of a table is not logged.  If this page never was, a
		 * record that marks it all-visible could not be replayed.
		 */
		if (RelationNeedsWAL(self->rel) && XLogRecPtrIsInvalid(PageGetLSN(page)))
			log_newpage_buffer(buf, true);
		PageSetAllVisible(page);
		visibilitymap_set(self->rel, blkno, buf, InvalidXLogRecPtr,
						  scan->vmbuffer, InvalidTransactionId,
						  VISIBILITYMAP_ALL_VISIBLE | VISIBILITYMAP_ALL_FROZEN);

		END_CRIT_SECTION();
		self->counters.new_visible_pages++;
		self->counters.new_visible_frozen_pages++;
	}
	release_and_record_space(self, buf, blkno);
}

/*
 * New and empty pages need no pruning.  Returns true if the page was one of
 * these; then lock and pin are gone.  With share_locked, the lock may have
 * become exclusive when false is returned.
 */
static bool
scan_new_or_empty(HeapScan *scan, Buffer buf, BlockNumber blkno,
				  bool share_locked)
{
	Page		page = BufferGetPage(buf);

	if (PageIsNew(page))
	{
		finish_new_page(scan->self, buf, blkno);
		return true;
	}
	if (!PageIsEmpty(page))
		return false;

	if (share_locked)
	{
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		if (!PageIsEmpty(page))
			return false;		/* somebody used it meanwhile */
	}
	finish_empty_page(scan, buf, blkno);
	return true;
}

/*
 * Look at a page again on which some inserters could not be hinted committed, since their
 * commits may not be on disk yet: have them there, or the page would wait for its place in
 * the visibility map until its table changes again.  This is for scheduler workers,
 * who do not wait for the commits of their ANALYZEs; those of sessions with
 * synchronous_commit off gain as well.  It is rarely needed more than once in a table, as
 * it is only for transactions that had ended when the vacuum began.
 */
static void
look_again(PvParticipant *self, Buffer buf, BlockNumber blkno, PvPageResult *found)
{
	if (XLogNeedsFlush(found->commits_end) &&
		BufferGetLSNAtomic(buf) < found->commits_end)
		XLogFlush(found->commits_end);
	pv_page_visibility(self, buf, blkno, &found->vis);
}

/*
 * Prune, freeze and count one page.  Cleanup lock and pin held on entry,
 * neither on return.  Says whether it is all-frozen now.
 */
static bool
scan_prune(HeapScan *scan, Buffer buf, BlockNumber blkno)
{
	PvParticipant *self = scan->self;
	PvCounters *counters = &self->counters;
	PvPageResult found;
	bool		dead_items_stay;

	pv_prune_freeze_page(self, buf, blkno, &found);

	counters->tuples_deleted += found.ndeleted;
	counters->live_tuples += found.live_tuples;
	counters->recently_dead_tuples += found.recently_dead_tuples;
	if (found.hastup)
		remember_nonempty(self, blkno);

	/* Without indexes nothing points to dead items, so they can go now */
	dead_items_stay = found.lpdead_items > 0 && self->nindexes > 0;
	if (found.lpdead_items > 0 && !dead_items_stay)
	{
		counters->lpdead_item_pages++;
		counters->lpdead_items += found.lpdead_items;
		if (!found.marked_unused)
			pv_page_mark_unused(self, buf, blkno, found.deadoffsets, found.lpdead_items);
	}
	if (dead_items_stay)
		found.vis.all_visible = false;
	else if (found.look_again)
		look_again(self, buf, blkno, &found);
	Assert(pv_page_agrees(self, buf, blkno, &found.vis));
	pv_page_update_map(self, buf, blkno, scan->vmbuffer, &found.vis, dead_items_stay);

	pv_blockscan_learn(self->blockscan, PageGetHeapFreeSpace(BufferGetPage(buf)),
					   found.live_tuples + found.recently_dead_tuples);
	if (dead_items_stay && will_vacuum_heap(self))
		UnlockReleaseBuffer(buf);	/* the second pass records its space */
	else
		release_and_record_space(self, buf, blkno);

	if (dead_items_stay)
		collect_dead_items(self, blkno, found.deadoffsets, found.lpdead_items);
	return found.vis.all_visible && found.vis.all_frozen;
}

/* What can be told of a page without a cleanup lock */
typedef struct PageGlance
{
	bool		hastup;
	int			live_tuples;
	int			recently_dead_tuples;
	int			missed_dead_tuples;
	int			lpdead_items;
	TransactionId relfrozenxid;
	MultiXactId relminmxid;
	OffsetNumber deadoffsets[MaxHeapTuplesPerPage];
} PageGlance;

/*
 * Look at one tuple of a page that cannot be pruned now.  False if an
 * aggressive vacuum has to freeze it.
 */
static bool
glance_at_tuple(PvParticipant *self, Buffer buf, BlockNumber blkno,
				OffsetNumber offnum, ItemId itemid, PageGlance *glance)
{
	const PvCutoffs *cutoffs = &self->shared->cutoffs;
	HeapTupleData tuple;

	ItemPointerSet(&tuple.t_self, blkno, offnum);
	tuple.t_data = (HeapTupleHeader) PageGetItem(BufferGetPage(buf), itemid);
	tuple.t_len = ItemIdGetLength(itemid);
	tuple.t_tableOid = RelationGetRelid(self->rel);

	if (pv_tuple_should_freeze(tuple.t_data, cutoffs, &glance->relfrozenxid,
							   &glance->relminmxid) &&
		self->shared->aggressive)
		return false;

	switch (HeapTupleSatisfiesVacuum(&tuple, cutoffs->OldestXmin, buf))
	{
		case HEAPTUPLE_LIVE:
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			glance->live_tuples++;
			break;
		case HEAPTUPLE_DEAD:
			glance->missed_dead_tuples++;
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			glance->recently_dead_tuples++;
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			break;
	}
	return true;
}

/*
 * Look at a whole page under a share lock.  False as above.
 */
static bool
glance_at_page(PvParticipant *self, Buffer buf, BlockNumber blkno,
			   PageGlance *glance)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	bool		enough = true;

	glance->hastup = false;
	glance->live_tuples = 0;
	glance->recently_dead_tuples = 0;
	glance->missed_dead_tuples = 0;
	glance->lpdead_items = 0;
	glance->relfrozenxid = self->counters.NewRelfrozenXid;
	glance->relminmxid = self->counters.NewRelminMxid;

	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff && enough;
		 offnum = OffsetNumberNext(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);

		if (!ItemIdIsUsed(itemid))
			continue;
		if (ItemIdIsDead(itemid))
		{
			glance->deadoffsets[glance->lpdead_items++] = offnum;
			continue;
		}
		glance->hastup = true;
		if (ItemIdIsRedirected(itemid))
			continue;

		self->errinfo.offnum = offnum;
		enough = glance_at_tuple(self, buf, blkno, offnum, itemid, glance);
	}
	self->errinfo.offnum = InvalidOffsetNumber;
	return enough;
}

/*
 * Make do without a cleanup lock: collect items that are dead already, count
 * the tuples, leave the rest for the next vacuum.  Share lock and pin held on
 * entry.  Returns true if that was enough; then both are gone.
 * Core: access/heap/vacuumlazy.c, lazy_scan_noprune.
 */
static bool
scan_noprune(HeapScan *scan, Buffer buf, BlockNumber blkno)
{
	PvParticipant *self = scan->self;
	PvCounters *counters = &self->counters;
	PageGlance	glance;

	if (!glance_at_page(self, buf, blkno, &glance))
		return false;

	counters->NewRelfrozenXid = glance.relfrozenxid;
	counters->NewRelminMxid = glance.relminmxid;
	counters->live_tuples += glance.live_tuples;
	counters->recently_dead_tuples += glance.recently_dead_tuples;

	/*
	 * Without indexes, dead items would have been removed on the spot had we
	 * got the lock.  They are missed, and keep the page from truncation.
	 */
	if (self->nindexes == 0 && glance.lpdead_items > 0)
	{
		glance.hastup = true;
		glance.missed_dead_tuples += glance.lpdead_items;
		glance.lpdead_items = 0;
	}

	counters->missed_dead_tuples += glance.missed_dead_tuples;
	if (glance.missed_dead_tuples > 0)
		counters->missed_dead_pages++;
	if (glance.hastup)
		remember_nonempty(self, blkno);

	if (glance.lpdead_items > 0 && will_vacuum_heap(self))
		UnlockReleaseBuffer(buf);
	else
		release_and_record_space(self, buf, blkno);
	if (glance.lpdead_items > 0)
		collect_dead_items(self, blkno, glance.deadoffsets,
						   glance.lpdead_items);
	return true;
}

/*
 * Process one block, pinned on entry, not on return.
 */
static void
visit_block(HeapScan *scan, const PvScanBlock *block, Buffer buf)
{
	PvParticipant *self = scan->self;
	BlockNumber blkno = block->blkno;
	bool		all_frozen;

	self->counters.scanned_pages++;
	self->counters.eager_pages += block->eager;
	self->errinfo.blkno = blkno;

	/* Before the lock: it may extend the map, which is I/O */
	visibilitymap_pin(self->rel, blkno, &scan->vmbuffer);

	if (!ConditionalLockBufferForCleanup(buf))
	{
		LockBuffer(buf, BUFFER_LOCK_SHARE);
		if (scan_new_or_empty(scan, buf, blkno, true) ||
			scan_noprune(scan, buf, blkno))
			return;

		/* Aggressive: wait for those who hold a pin */
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		LockBufferForCleanup(buf);
	}

	if (scan_new_or_empty(scan, buf, blkno, false))
		return;
	all_frozen = scan_prune(scan, buf, blkno);
	if (block->eager)
		pv_eager_count(&self->eager, blkno, all_frozen);
}

/*
 * The same, and count it where the number of tuples is to be estimated, with the
 * blocks that were skipped before it.
 */
static void
scan_block(HeapScan *scan, const PvScanBlock *block, Buffer buf)
{
	PvCounters *counters = &scan->self->counters;
	int64		before = counters->live_tuples;

	visit_block(scan, block, buf);
	pv_sample_add_skipped(&counters->sample.skipped, &block->skipped);
	if (block->sampled)
		pv_sample_add_page(&counters->sample.visited[block->sample_size],
						   block->space, counters->live_tuples - before);
}

/*
 * Enter the segment that the block lies in, leaving the previous one.  False
 * if the store has no room for it, or none for a peer: then there will be
 * another round anyway, and nobody should do the rest of this one alone.
 * Every participant that finds room does at least one segment, though.
 */
static bool
enter_segment(HeapScan *scan, BlockNumber blkno)
{
	uint32		segno = PV_SEGMENT_OF(blkno);

	if (scan->in_segment && scan->segno == segno)
		return true;
	if (scan->in_segment)
	{
		pv_deadtids_end_segment(scan->self->store);
		scan->in_segment = false;
		if (pg_atomic_read_u32(&scan->self->shared->nstopped) > 0 ||
			pv_deadtids_num_items(scan->self->store) >=
			scan->self->shared->max_dead_items)
			return false;
	}
	scan->in_segment = pv_deadtids_begin_segment(scan->self->store, segno);
	scan->segno = segno;
	return scan->in_segment;
}

/*
 * Housekeeping between two pages; no page is locked.
 */
static void
between_blocks(HeapScan *scan, BlockNumber passed)
{
	PvParticipant *self = scan->self;

	pv_cost_delay();

	/* A reload may have been made for the failsafe's sake */
	if (--scan->until_failsafe_check == 0 || pv_failsafe_triggered(self) ||
		self->nreloads_checked != pv_cost_reloads_applied())
	{
		(void) pv_check_failsafe(self);
		scan->until_failsafe_check = FAILSAFE_EVERY_BLOCKS;
	}

	pv_page_pace_wal(self);
	scan->unreported += passed;
	if (scan->unreported >= PROGRESS_EVERY_BLOCKS)
	{
		pg_atomic_fetch_add_u64(&self->shared->blocks_passed, scan->unreported);
		scan->unreported = 0;
		if (self->tick)
			self->tick(self);
	}
}

/*
 * Without a second pass, the upper levels of the free space map learn about
 * new space here, range by range.
 */
static void
vacuum_fsm_of_range(PvParticipant *self)
{
	BlockNumber start,
				end;

	if (pv_blockscan_range_done(self->blockscan, &start, &end) &&
		self->nindexes == 0)
		FreeSpaceMapVacuumRange(self->rel, start, end);
}

/*
 * Take part in the first heap pass, until no block is left or the store is
 * full.
 */
void
pv_scan_heap(PvParticipant *self)
{
	HeapScan	scan = {.self = self, .vmbuffer = InvalidBuffer};
	PvScanBlock block;
	Buffer		buf;

	scan.until_failsafe_check = FAILSAFE_EVERY_BLOCKS;
	if (self->is_leader)
		pv_wait_point("leader scan");
	pv_wait_point("scan");

	while (pv_blockscan_next(self->blockscan, &block, &buf))
	{
		vacuum_fsm_of_range(self);
		if (self->shared->collect_dead_items &&
			!enter_segment(&scan, block.blkno))
		{
			pv_blockscan_put_back(self->blockscan, &block, buf);
			pg_atomic_fetch_add_u32(&self->shared->nstopped, 1);
			break;
		}
		scan_block(&scan, &block, buf);
		between_blocks(&scan, block.passed);
	}

	if (scan.in_segment)
		pv_deadtids_end_segment(self->store);
	if (self->shared->collect_dead_items)
		pv_deadtids_publish(self->store);
	if (BufferIsValid(scan.vmbuffer))
		ReleaseBuffer(scan.vmbuffer);
	pv_blockscan_skipped_rest(self->blockscan, &self->counters.sample.skipped);
	pv_blockscan_pause(self->blockscan);

	pg_atomic_fetch_add_u64(&self->shared->blocks_passed, scan.unreported);
	self->counters.skippedallvis |= pv_blockscan_skippedallvis(self->blockscan);
	self->slot->unvisited = pv_blockscan_position(self->blockscan);
	self->errinfo.blkno = InvalidBlockNumber;
}
