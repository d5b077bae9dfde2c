/*-------------------------------------------------------------------------
 *
 * nbtree.c
 *	  B-trees that several participants vacuum together: the protocol and
 *	  the ranges.
 *
 * In core, one process visits all pages of an index in physical order.  It
 * follows the right links of pages that were split meanwhile, and deletes
 * pages that have become empty.  Here participants share the pages, and one of
 * them does the rest:
 *
 *	 RANGES   all   ranges of blocks from one atomic counter: remove index tuples
 *	          |     whose heap items are dead.  No link is followed and no page
 *	          |     deleted; both are noted in bitmaps, "revisit" and "empty".
 *	          v
 *	 the last participant to leave, alone (engine/nbtree_delete.c):
 *	    LEFTOVERS   pages that were added to the index after the last range
 *	    REVISITS    pages that splits have moved tuples to
 *	    DELETION    of empty pages; free space map
 *
 * A participant that finds no range left reads the length of the index again,
 * and if the index has grown, there are more ranges for all.  Otherwise it
 * leaves.  The last one to leave closes the index in the same moment.  From
 * then on none can join it, and none has a page of it pinned for vacuuming.
 *
 * Is every index tuple visited that pointed to a dead item when the index scan
 * began?  Inserts add none, because no index tuple is created for a dead item.
 * So an index tuple can escape only by being moved, from a page that has not
 * been visited to a page that has.  Only a split moves tuples: from the left
 * page, which is split, to the right page, which is new or recycled.  A split
 * takes the vacuum cycle id of this vacuum, which the leader has registered
 * before any page was read, and stores it in both pages while it holds both
 * locks.  Consider the moment in which a participant has the cleanup lock on a
 * page L in its range.
 *
 * - L does not have the cycle id.  Then it was not split since the id was
 *	 registered, or it has been visited since, and that visit has removed what
 *	 there was.  Nothing was moved.
 * - L has the cycle id.  Then tuples may have moved to its right sibling R,
 *	 and from R to its right sibling in turn.  The participant that erases the
 *	 id in L notes R for a revisit before it leaves the index, with two
 *	 exceptions.  Either R comes later in the same range, which is visited in
 *	 order.  Or R is not yet claimed after L has been visited; then R is
 *	 visited later than L by the participant that claims it, or it is a
 *	 leftover.  If R is in a range that was claimed, it is noted, whether it
 *	 has been visited or not.
 * - A revisit goes to the right as long as it finds the cycle id, and ends at
 *	 a page without the id.  Either the id was never there, or the participant
 *	 that erased it has noted the page to the right of that page, or knew that
 *	 it would be visited later.
 *
 * A split after the visit of a page moves only tuples that were visited.
 * Leftovers come before revisits.  The length of the index is read when all
 * ranges are done, so a page that is added after that is split from a page
 * that was visited, or from a page that waits for its revisit, and the revisit
 * goes on to the new page.  The argument does not depend on the order in which
 * pages are visited; core's README says that any order is allowed.
 *
 * Core's page deletion relies on being the only one in an index.  So it waits
 * until all ranges are done, and until no revisit is left that could lead to a
 * page that is deleted.  It checks the pages noted in the bitmap again,
 * because a page may have new tuples by then, or may have been deleted
 * together with its left sibling.
 *
 * The store lends the memory of the bitmaps when the phase begins.  If there
 * is enough, they have a bit for each page of the index, and some more.
 * Otherwise, and where the index grows beyond that, a bit stands for all pages
 * whose number modulo the size of the bitmap is the same, and each of them is
 * visited.  An unnecessary visit does no harm, and no bitmap can overflow.  If
 * there is no memory at all, one process vacuums the index with core's code.
 *
 * A range is claimed when its first page is to be read ahead, so its pages
 * belong to this process before they are pinned.  A range that was claimed is
 * always visited completely, also with the failsafe on; then the process
 * claims no more.
 *
 * Who runs this: leader and workers, in the phases for index vacuuming and
 * cleanup.  Only the leader registers the cycle id and releases it, because
 * the registration outlives a worker's error.
 *
 * Locks: a cleanup lock on each leaf page, because index-only scans rely on
 * it; the relation extension lock while the length is read, because a page is
 * added in two steps; PvBtreeShared.mutex for the counters.  An error anywhere
 * ends the whole vacuum before any heap item is set unused.
 *
 * Core: access/nbtree/README, "VACUUM's linear scan"; access/nbtree/nbtree.c,
 * btvacuumscan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/process.h"
#include "base/use_count.h"
#include "engine/nbtree.h"

/* Largest and smallest size of a range, in pages */
#define RANGE_MAX_PAGES			128
#define RANGE_MIN_PAGES			8

/*
 * A range is claimed before the previous one has been visited only if at least
 * this many pages are left for each participant.  Otherwise nothing would be
 * left for the others near the end.
 */
#define CLAIM_AHEAD_PAGES		(4 * RANGE_MAX_PAGES)

/* Pages between two updates of the progress counter */
#define PROGRESS_EVERY_PAGES	16

/* Largest distance of reading ahead, in pages */
#define MAX_LOOKAHEAD			64

/* Fewest bytes for the bitmaps of an index; so many exceed any limit */
#define BITMAPS_LEAST			1024

/* Leader, before launch: initialize the shared part of an index. */
void
pv_nbtree_init(PvBtreeShared *btree)
{
	SpinLockInit(&btree->mutex);
	pv_dispense_init(&btree->pages, 0, 0, RANGE_MIN_PAGES, RANGE_MAX_PAGES, 1);
	pg_atomic_init_u32(&btree->use_count, PV_USE_COUNT_CLOSED);
	pg_atomic_init_u32(&btree->pages_done, 0);
}

/*
 * Leader: make an index available for this phase.  Return false if there is no
 * memory for its bitmaps.  For a bulk deletion this registers its cycle id, so
 * pv_nbtree_end() must be called, also after an error.
 */
bool
pv_nbtree_begin(PvParticipant *leader, int i, PvPhase phase)
{
	PvBtreeShared *btree = &leader->units[i].btree;
	Relation	indrel = leader->indrels[i];
	uint64		bytes = pv_nbtree_bitmap_bytes(leader->index_pages[i]);

	/* its part of what is kept for all bitmaps beside the store */
	Size		kept =
		bytes * leader->shared->plan.bitmap_bytes / leader->bitmap_bytes;

	if (!pv_deadtids_lend(leader->store, bytes, Max(kept, BITMAPS_LEAST),
						  Max(kept / 8, BITMAPS_LEAST), &btree->bitmaps))
		return false;
	btree->nbits = pv_btree_bitmap_bits(btree->bitmaps.bytes);
	if (phase == PV_PHASE_INDEX)
		btree->cycleid = _bt_start_vacuum(indrel);
	memset(&btree->counts, 0, sizeof(btree->counts));
	pv_dispense_init(&btree->pages, BTREE_METAPAGE + 1,
					 pv_btree_length(indrel),
					 RANGE_MIN_PAGES, RANGE_MAX_PAGES,
					 leader->shared->plan.nslots);
	pg_atomic_write_u32(&btree->pages_done, 0);
	pg_atomic_write_u32(&btree->use_count, 0);
	return true;
}

/* Leader: end the phase of an index, also after an error. */
void
pv_nbtree_end(PvParticipant *leader, int i)
{
	PvBtreeShared *btree = &leader->units[i].btree;

	if (btree->cycleid != 0)
		_bt_end_vacuum(leader->indrels[i]);
	btree->cycleid = 0;
}

static BlockNumber
pages_unclaimed(PvDispenseShared *pages)
{
	BlockNumber next = pg_atomic_read_u32(&pages->next);
	BlockNumber end = pg_atomic_read_u32(&pages->end);

	return end > next ? end - next : 0;
}

/*
 * Should this process claim no more pages?  It has some left to visit, and few
 * are unclaimed.
 */
static bool
claims_enough(const PvBtreeScan *scan)
{
	PvDispenseShared *pages = &scan->btree->pages;

	return scan->nread > scan->nvisited &&
		pages_unclaimed(pages) / pages->participants < CLAIM_AHEAD_PAGES;
}

/* Is this index given up, because the index scan is? */
static bool
is_given_up(const PvBtreeScan *scan)
{
	return pv_failsafe_triggered(scan->self) ||
		(scan->bulk_delete && pv_ends_early(scan->self));
}

/*
 * Callback of the reader: return the next page to be read ahead.  It must
 * neither wait nor read anything, so it does not look at the length of the
 * index.
 */
static BlockNumber
next_of_ranges(void *arg, void *about_block)
{
	PvBtreeScan *scan = arg;

	if (scan->to_read >= scan->reading.end)
	{
		PvBtreeRange range;

		if (is_given_up(scan) || claims_enough(scan) ||
			!pv_dispense_claim(&scan->btree->pages, &range.start, &range.end))
			return InvalidBlockNumber;
		scan->reading = range;
		scan->to_read = range.start;
	}
	*(PvBtreeRange *) about_block = scan->reading;
	scan->nread++;
	return scan->to_read++;
}

/*
 * Must the page to the right of a page that was just visited in this range be
 * visited again, because a split may have moved tuples to it?  Not if it will
 * be visited anyway.
 *
 * If the right page was claimed and visited before tuples were moved to it,
 * then the splitting process locked it after that visit, and we locked the
 * left page after the splitting process did.  So we see here that the right
 * page was claimed.
 */
static bool
needs_revisit(const PvBtreeScan *scan, BlockNumber right, BlockNumber visited,
			  const PvBtreeRange *range)
{
	if (right == P_NONE || (right > visited && right < range->end))
		return false;
	return right < pg_atomic_read_u32(&scan->btree->pages.next);
}

/* Visit the next page that was read. */
static void
visit_in_order(PvBtreeScan *scan, Buffer buf, const PvBtreeRange *range)
{
	PvParticipant *self = scan->self;
	BlockNumber blkno = BufferGetBlockNumber(buf);
	PvBtreeVisit visit;

	if (blkno == range->start)
		pv_wait_point("nbtree range", RelationGetRelid(self->rel));
	pv_btree_visit_page(scan, blkno, buf, &visit);
	scan->nvisited++;
	if (needs_revisit(scan, visit.right, blkno, range))
		pv_btree_note_page(scan, scan->revisit, visit.right);
	if (visit.empty)
		pv_btree_note_page(scan, scan->empty, blkno);

	if (++scan->unreported >= PROGRESS_EVERY_PAGES || blkno + 1 == range->end)
	{
		pg_atomic_fetch_add_u32(&scan->btree->pages_done, scan->unreported);
		self->part.index_blks_visited += scan->unreported;
		self->part.range_start = range->start;
		self->part.range_end = range->end;
		scan->unreported = 0;
		pv_tick(self);
	}
	if (blkno + 1 == range->end && scan->bulk_delete)
		(void) pv_check_failsafe(self);
}

/* Are there unclaimed pages?  If not, look whether the index has grown. */
static bool
find_more_pages(PvBtreeScan *scan)
{
	PvDispenseShared *pages = &scan->btree->pages;

	if (is_given_up(scan))
		return false;
	if (pages_unclaimed(pages) == 0)
		pv_dispense_extend(pages, pv_btree_length(scan->indrel));
	return pages_unclaimed(pages) > 0;
}

/* Take part in the ranges until none is left and the index has not grown. */
static void
scan_ranges(PvBtreeScan *scan)
{
	Buffer		buf;
	void	   *range;

	while (find_more_pages(scan))
	{
		pv_reader_restart(scan->reader);
		while (pv_reader_next(scan->reader, &buf, &range))
			visit_in_order(scan, buf, range);
	}
	Assert(scan->nread == scan->nvisited);
}

/*
 * Leave the index and add our counters to the shared ones.  Return true if
 * this was the last participant in the index, which has closed it.
 */
static bool
leave(PvBtreeScan *scan)
{
	PvBtreeShared *btree = scan->btree;

	SpinLockAcquire(&btree->mutex);
	btree->counts.tuples_removed += scan->counts.tuples_removed;
	btree->counts.num_index_tuples += scan->counts.num_index_tuples;
	btree->counts.pages_deleted += scan->counts.pages_deleted;
	btree->counts.pages_free += scan->counts.pages_free;
	SpinLockRelease(&btree->mutex);

	return pv_use_count_leave(&btree->use_count);
}

/*
 * Return the number of unclaimed pages of an index.  If it is not 0, another
 * participant is of use.
 */
BlockNumber
pv_nbtree_pages_left(const PvParticipant *self, int i)
{
	PvBtreeShared *btree = &self->units[i].btree;

	/* With the failsafe on no more ranges are claimed */
	if (pv_failsafe_triggered(self) ||
		pg_atomic_read_u32(&btree->use_count) == PV_USE_COUNT_CLOSED)
		return 0;
	return pages_unclaimed(&btree->pages);
}

/*
 * Take part in vacuuming a B-tree.  Return true to the participant that has
 * completed it.
 */
bool
pv_nbtree_work(PvParticipant *self, int i, PvPhase phase,
			   IndexVacuumInfo *ivinfo)
{
	PvBtreeShared *btree = &self->units[i].btree;
	PvBtreeScan *scan;
	bool		finisher;

	if (!pv_use_count_enter(&btree->use_count))
		return false;

	scan = palloc0(sizeof(PvBtreeScan));
	scan->self = self;
	scan->unit = &self->units[i];
	scan->btree = btree;
	scan->ivinfo = ivinfo;
	scan->indrel = self->indrels[i];
	scan->bulk_delete = phase == PV_PHASE_INDEX;
	pv_btree_find_bitmaps(scan,
						  pv_deadtids_lent(self->store, &btree->bitmaps));
	scan->reader = pv_reader_create(scan->indrel, &self->ring, MAX_LOOKAHEAD,
									sizeof(PvBtreeRange), true, next_of_ranges,
									scan);

	scan_ranges(scan);
	pv_reader_free(scan->reader);
	finisher = leave(scan) && !is_given_up(scan);
	if (finisher)
		pv_btree_finish(scan);
	pfree(scan);
	return finisher;
}
