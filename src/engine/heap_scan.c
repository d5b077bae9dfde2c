/*-------------------------------------------------------------------------
 *
 * heap_scan.c
 *	  The first heap pass: prune, freeze, collect dead items.
 *
 * Leader and workers run this, each on its own ranges of blocks.  Every page
 * is pruned and its old tuples are frozen under a cleanup lock.  Line pointers
 * that are left dead go to the store, for the index scan and the second heap
 * pass.  A page whose cleanup lock is not available at once gets a no-prune
 * scan under a share lock, unless the vacuum is aggressive and something on
 * the page must be frozen.
 *
 * The store is asked for room before a segment of blocks is begun.  If it is
 * full, the participant stops at that border, and continues with the rest of
 * its range after the index scan.  Nothing is added to the store while a page
 * is locked.
 *
 * Locks: one heap page at a time, then the page of the visibility map, which
 * was pinned before.
 *
 * Core: access/heap/vacuumlazy.c, lazy_scan_heap and the functions that it
 * calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "storage/freespace.h"
#include "utils/rel.h"

#include "engine/prune.h"

/* Blocks between two updates of the progress counter, if they are visited */
#define PROGRESS_EVERY_BLOCKS	32

/*
 * Blocks between two failsafe checks of a participant; core checks every 4 GB
 */
#define FAILSAFE_EVERY_BLOCKS	1024

/* State of one call of pv_scan_heap() */
typedef struct HeapScan
{
	PvParticipant *self;
	Buffer		vmbuffer;
	bool		in_segment;
	uint32		segno;
	bool		has_visited;	/* at least one block */
	BlockNumber unreported;		/* blocks passed since the last update of the
								 * progress counter */
	BlockNumber until_failsafe_check;
} HeapScan;

static void
release_and_record_space(const PvParticipant *self, Buffer buf,
						 BlockNumber blkno)
{
	Size		freespace = PageGetHeapFreeSpace(BufferGetPage(buf));

	UnlockReleaseBuffer(buf);
	RecordPageWithFreeSpace(self->rel, blkno, freespace);
}

/*
 * Count what stays on a page, and release it.  If the second heap pass will
 * visit the page, it records the free space, and the dead items go to the
 * store.
 */
static void
count_and_release(PvParticipant *self, Buffer buf, BlockNumber blkno,
				  const PvPageResult *found)
{
	PvCounters *counters = &self->counters;
	bool		is_collected = found->lpdead_items > 0 &&
		self->shared->collect_dead_items && !pv_failsafe_triggered(self);

	counters->live_tuples += found->live_tuples;
	counters->tuples_recently_dead += found->recently_dead_tuples;
	counters->dead_items += found->lpdead_items;
	counters->lpdead_item_pages += found->lpdead_items > 0;
	if (found->hastup)
		counters->nonempty_pages = Max(counters->nonempty_pages, blkno + 1);

	if (!is_collected)
	{
		release_and_record_space(self, buf, blkno);
		return;
	}
	UnlockReleaseBuffer(buf);
	pv_deadtids_add_block(self->store, blkno, found->deadoffsets,
						  found->lpdead_items);
}

/*
 * Finish a page without line pointers, which is all-visible and all-frozen.
 * The caller holds an exclusive lock.
 */
static void
finish_empty_page(HeapScan *scan, Buffer buf, BlockNumber blkno)
{
	PvParticipant *self = scan->self;
	Page		page = BufferGetPage(buf);

	if (!PageIsAllVisible(page))
	{
		const PvMapChange map = {
			.vmbuffer = scan->vmbuffer,
			.flags = VISIBILITYMAP_ALL_VISIBLE | VISIBILITYMAP_ALL_FROZEN,
		};

		pv_map_set_empty(self->rel, buf, &map);
		pv_page_count_map(self, &map);
	}
	release_and_record_space(self, buf, blkno);
}

/*
 * Deal with new and empty pages, which need no pruning.  If the page is one of
 * these, release lock and pin and return true.  With share_locked, the lock
 * may be exclusive after false is returned.  Raise an error if a damaged page
 * has more line pointers than the arrays for a page have room for.
 *
 * A new page was added to its table, but never used.  It gets no bit in the
 * visibility map, so that vacuum on a promoted standby finds it too.
 */
static bool
scan_new_or_empty(HeapScan *scan, Buffer buf, BlockNumber blkno,
				  bool share_locked)
{
	PvParticipant *self = scan->self;
	Page		page = BufferGetPage(buf);

	if (PageIsNew(page))
	{
		UnlockReleaseBuffer(buf);
		if (GetRecordedFreeSpace(self->rel, blkno) == 0)
			RecordPageWithFreeSpace(self->rel, blkno,
									BLCKSZ - SizeOfPageHeaderData);
		return true;
	}
	if (PageGetMaxOffsetNumber(page) > MaxHeapTuplesPerPage)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of table \"%s.%s\" has %d line pointers, which is more than it has room for",
						blkno, self->errinfo.relnamespace,
						self->errinfo.relname,
						(int) PageGetMaxOffsetNumber(page)),
				 errhint("Check the table with verify_heapam() of the amcheck extension.")));
	if (!PageIsEmpty(page))
		return false;

	if (share_locked)
	{
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		if (!PageIsEmpty(page))
			return false;		/* it was used meanwhile */
	}
	finish_empty_page(scan, buf, blkno);
	return true;
}

/*
 * Check a page's visibility again if some inserters could not be hinted
 * committed because their commit records may not be on disk.  Flush the WAL
 * before.  Otherwise the page would not be set all-visible before the table is
 * changed and vacuumed again.
 *
 * This is mainly for the scheduler's workers, which do not wait for the
 * commits of their ANALYZE commands, but it helps after any commit with
 * synchronous_commit off.  A table rarely needs more than one flush, because
 * only transactions that had ended before the vacuum began need one.
 */
static void
recheck_visibility(PvParticipant *self, Buffer buf, BlockNumber blkno,
				   PvPageResult *found)
{
	if (XLogNeedsFlush(found->commits_end) &&
		BufferGetLSNAtomic(buf) < found->commits_end)
		XLogFlush(found->commits_end);
	pv_page_visibility(self, buf, blkno, NULL, 0, true, &found->vis);
}

/*
 * Prune, freeze and count one page.  The caller holds a cleanup lock and a
 * pin, which are released here.  Return whether the page is all-frozen now.
 */
static bool
scan_prune(HeapScan *scan, Buffer buf, BlockNumber blkno)
{
	PvParticipant *self = scan->self;
	PvCounters *counters = &self->counters;
	PvPageResult found;

	pv_prune_freeze_page(self, buf, blkno, scan->vmbuffer, &found);

	/*
	 * Without indexes nothing points to dead items, so they can be set unused
	 * now
	 */
	if (found.lpdead_items > 0 && self->nindexes == 0)
	{
		counters->lpdead_item_pages++;
		counters->dead_items += found.lpdead_items;
		if (!found.marked_unused)
			pv_page_mark_unused(self, buf, blkno, found.deadoffsets,
								found.lpdead_items);
		found.lpdead_items = 0;
	}
	if (found.lpdead_items > 0)
		found.vis.all_visible = false;
	else if (found.recheck)
		recheck_visibility(self, buf, blkno, &found);
	Assert(pv_page_agrees(self, buf, blkno, &found.vis));
	if (!PV_PRUNING_SETS_MAP)
	{
		PvMapDoubt	doubt = {
			.kind = found.lpdead_items > 0 ?
			PV_MAP_HAS_DEAD_ITEMS : PV_MAP_NO_DOUBT
		};

		pv_page_repair_map(self, buf, blkno, scan->vmbuffer, doubt);
	}
	if (!found.map_is_done)
		pv_page_update_map(self, buf, blkno, scan->vmbuffer, &found.vis);

	count_and_release(self, buf, blkno, &found);
	return found.vis.all_visible && found.vis.all_frozen;
}

/* What a no-prune scan has found on a page */
typedef struct NoPruneResult
{
	PvPageResult page;			/* what is counted of it */
	int			missed_dead_tuples;
	TransactionId relfrozenxid;
	MultiXactId relminmxid;
} NoPruneResult;

/*
 * Examine one tuple of a page that cannot be pruned now.  Return false if an
 * aggressive vacuum has to freeze it.
 */
static bool
noprune_tuple(const PvParticipant *self, Buffer buf, BlockNumber blkno,
			  OffsetNumber offnum, ItemId itemid, NoPruneResult *found)
{
	const PvCutoffs *cutoffs = &self->shared->plan.cutoffs;
	HeapTupleData tuple;

	ItemPointerSet(&tuple.t_self, blkno, offnum);
	tuple.t_data = (HeapTupleHeader) PageGetItem(BufferGetPage(buf), itemid);
	tuple.t_len = ItemIdGetLength(itemid);
	tuple.t_tableOid = RelationGetRelid(self->rel);

	if (pv_tuple_should_freeze(tuple.t_data, cutoffs, &found->relfrozenxid,
							   &found->relminmxid) &&
		self->shared->plan.aggressive)
		return false;

	switch (HeapTupleSatisfiesVacuum(&tuple, cutoffs->OldestXmin, buf))
	{
		case HEAPTUPLE_LIVE:
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			found->page.live_tuples++;
			break;
		case HEAPTUPLE_DEAD:
			found->missed_dead_tuples++;
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			found->page.recently_dead_tuples++;
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			break;
	}
	return true;
}

/*
 * Scan a page whose cleanup lock is not available: collect items that are dead
 * already, count the tuples, and leave the rest for the next vacuum.  The
 * caller holds a share lock and a pin.  If that was sufficient, release both
 * and return true.
 *
 * Core: access/heap/vacuumlazy.c, lazy_scan_noprune.
 */
static bool
scan_noprune(HeapScan *scan, Buffer buf, BlockNumber blkno)
{
	PvParticipant *self = scan->self;
	PvCounters *counters = &self->counters;
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	bool		enough = true;
	NoPruneResult found = {
		.relfrozenxid = counters->NewRelfrozenXid,
		.relminmxid = counters->NewRelminMxid,
	};

	found.page.deadoffsets = found.page.room;
	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff && enough;
		 offnum = OffsetNumberNext(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);

		if (!ItemIdIsUsed(itemid))
			continue;
		if (ItemIdIsDead(itemid))
		{
			found.page.deadoffsets[found.page.lpdead_items++] = offnum;
			continue;
		}
		found.page.hastup = true;
		if (ItemIdIsRedirected(itemid))
			continue;

		self->errinfo.offnum = offnum;
		enough = noprune_tuple(self, buf, blkno, offnum, itemid, &found);
	}
	self->errinfo.offnum = InvalidOffsetNumber;
	if (!enough)
		return false;

	counters->NewRelfrozenXid = found.relfrozenxid;
	counters->NewRelminMxid = found.relminmxid;

	/*
	 * Without indexes, the dead items would have been set unused under a
	 * cleanup lock.  They count as missed, and prevent truncation.
	 */
	if (self->nindexes == 0 && found.page.lpdead_items > 0)
	{
		found.page.hastup = true;
		found.missed_dead_tuples += found.page.lpdead_items;
		found.page.lpdead_items = 0;
	}

	counters->tuples_missed += found.missed_dead_tuples;
	if (found.missed_dead_tuples > 0)
		counters->missed_dead_pages++;
	count_and_release(self, buf, blkno, &found.page);
	return true;
}

/* Process one block.  It is pinned on entry, and released here. */
static void
visit_block(HeapScan *scan, const PvScanBlock *block, Buffer buf)
{
	PvParticipant *self = scan->self;
	BlockNumber blkno = block->blkno;
	bool		all_frozen;

	self->counters.pages_scanned++;
	self->counters.eager_pages += block->eager;
	self->errinfo.blkno = blkno;

	/* Before the lock: it may extend the map, which takes I/O */
	visibilitymap_pin(self->rel, blkno, &scan->vmbuffer);

	if (!ConditionalLockBufferForCleanup(buf))
	{
		LockBuffer(buf, BUFFER_LOCK_SHARE);
		if (scan_new_or_empty(scan, buf, blkno, true) ||
			scan_noprune(scan, buf, blkno))
			return;

		/* Aggressive: wait for the other pins to be released */
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
 * Process one block, and add it to the sample if it was chosen for that,
 * together with the blocks that were skipped before it.
 */
static void
scan_block(HeapScan *scan, const PvScanBlock *block, Buffer buf)
{
	PvCounters *counters = &scan->self->counters;
	int64		before = counters->live_tuples;

	visit_block(scan, block, buf);
	pv_sample_add_skipped(&counters->sample.skipped, &block->skipped);
	if (block->sampled)
		pv_sample_add_page(&counters->sample, block->space,
						   counters->live_tuples - before);
}

/*
 * Enter the segment that the block is in, and leave the previous one.  Return
 * whether this participant must stop before the block instead.
 *
 * It stops if the store has no room for the segment, or had none for another
 * participant.  Then there will be another index scan, and this participant
 * should not do the rest of the heap scan alone.  It also stops if the vacuum
 * ends early.  Still, every participant that finds room does at least one
 * segment.
 */
static bool
must_stop(HeapScan *scan, BlockNumber blkno)
{
	PvDeadTids *store = scan->self->store;
	PvShared   *shared = scan->self->shared;
	uint32		segno = PV_SEGMENT_OF(blkno);

	if (scan->has_visited && scan->segno == segno)
		return false;
	if (scan->in_segment)
	{
		pv_deadtids_end_segment(store);
		scan->in_segment = false;
		if (pg_atomic_read_u32(&shared->nstopped) > 0 ||
			pv_deadtids_num_items(store) >= shared->plan.max_dead_items)
			return true;
	}
	if (scan->has_visited && pv_ends_early(scan->self))
		return true;

	if (shared->collect_dead_items)
		scan->in_segment = pv_deadtids_begin_segment(store, segno);
	scan->segno = segno;
	return shared->collect_dead_items && !scan->in_segment;
}

/*
 * Do what is due between two pages.  No page is locked.  "passed" blocks were
 * visited or skipped since the last time, those before "end".
 *
 * The progress is shown after some blocks, after each sleep, because under a
 * low cost limit a few blocks may take minutes, and at the end of each range,
 * because it may have been skipped as a whole.
 */
static void
between_blocks(HeapScan *scan, BlockNumber passed, BlockNumber end,
			   bool range_ends)
{
	PvParticipant *self = scan->self;
	uint64		start = (uint64) end - passed;
	bool		slept = pv_cost_delay() > 0;

	/* The configuration may have been reloaded because of the failsafe */
	if (scan->until_failsafe_check <= passed || pv_failsafe_triggered(self) ||
		self->nreloads_checked != pv_cost.nreloads)
	{
		(void) pv_check_failsafe(self);
		scan->until_failsafe_check = FAILSAFE_EVERY_BLOCKS;
	}
	else
		scan->until_failsafe_check -= passed;

	/* The leader compares the sums of all participants with the table */
	self->counters.covered += passed;
	self->counters.covered_sum += (start + end - 1) * passed / 2;

	scan->unreported += passed;
	if (scan->unreported < PROGRESS_EVERY_BLOCKS && !slept && !range_ends)
		return;
	pg_atomic_fetch_add_u64(&self->shared->blocks_passed, scan->unreported);
	self->part.heap_blks_scanned += scan->unreported;
	scan->unreported = 0;
	self->part.range_start = self->blockscan->range_start;
	self->part.range_end = self->blockscan->range_end;
	pv_tick(self);
}

/*
 * No block of the range is left, or the scan stops before a block that was put
 * back.  Count the blocks that were skipped at the end.  If there is no second
 * heap pass, update the upper levels of the free space map.
 */
static void
end_range(HeapScan *scan)
{
	PvParticipant *self = scan->self;
	PvBlockScan *blockscan = self->blockscan;
	BlockNumber passed;

	if (blockscan->range_start == blockscan->range_end)
		return;					/* none was claimed yet */
	passed = pv_blockscan_rest(blockscan, &self->counters.sample.skipped);
	between_blocks(scan, passed, blockscan->cur, true);

	if (self->nindexes == 0)
		FreeSpaceMapVacuumRange(self->rel, blockscan->range_start,
								blockscan->range_end);
}

/*
 * Take part in the first heap pass, until no block is left, the store is full,
 * or the vacuum ends early.
 */
void
pv_scan_heap(PvParticipant *self)
{
	HeapScan	scan = {
		.self = self,
		.vmbuffer = InvalidBuffer,
		.until_failsafe_check = FAILSAFE_EVERY_BLOCKS,
	};
	PvScanBlock block;
	Buffer		buf;
	bool		stopped = false;

	do
	{
		while (pv_blockscan_next(self->blockscan, &block, &buf))
		{
			if (must_stop(&scan, block.blkno))
			{
				pv_blockscan_put_back(self->blockscan, &block, buf);
				stopped = true;
				break;
			}
			scan_block(&scan, &block, buf);
			scan.has_visited = true;
			pv_page_pace_wal(self);
			between_blocks(&scan, block.passed, block.blkno + 1, false);
		}
		end_range(&scan);
		stopped |= scan.has_visited && pv_ends_early(self);
	} while (!stopped && pv_blockscan_claim(self->blockscan));

	if (stopped)
		pg_atomic_fetch_add_u32(&self->shared->nstopped, 1);
	if (scan.in_segment)
		pv_deadtids_end_segment(self->store);
	if (self->shared->collect_dead_items)
		pv_deadtids_publish(self->store);
	if (BufferIsValid(scan.vmbuffer))
		ReleaseBuffer(scan.vmbuffer);
	pv_blockscan_pause(self->blockscan);

	self->counters.skippedallvis |= self->blockscan->skippedallvis;
	self->slot->unvisited =
		self->blockscan->cur < self->blockscan->range_end ?
		self->blockscan->cur : self->shared->plan.rel_pages;
	self->errinfo.blkno = InvalidBlockNumber;
}
