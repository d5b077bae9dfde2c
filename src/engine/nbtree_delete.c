/*-------------------------------------------------------------------------
 *
 * nbtree_delete.c
 *	  What the last participant in a B-tree does alone: leftovers, revisits,
 *	  deletion.
 *
 * The participant that has closed the index runs this, leader or worker.  No
 * other participant visits pages of this index any more.  The reasons for this
 * order are at the top of engine/nbtree.c.
 *
 * Locks: a cleanup lock on each leaf page, as in the ranges; what core's page
 * deletion takes.
 *
 * Core: access/nbtree/nbtree.c, btvacuumscan and btvacuumpage;
 * access/nbtree/nbtpage.c, _bt_pagedel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/clock.h"
#include "base/process.h"
#include "engine/nbtree.h"

static Buffer
read_page(const PvBtreeScan *scan, BlockNumber blkno, BTPageOpaque *opaque)
{
	return pv_nbtree_read_page(scan->indrel, blkno,
							   pv_ring_next(&scan->self->ring), opaque);
}

/*
 * Visit a page that tuples may have been moved to, and the pages to the right
 * of it, as long as they have the cycle id and are before the block end.  From
 * there on the pages will be visited in order.
 */
static void
revisit_from(PvBtreeScan *scan, BlockNumber blkno, BlockNumber end)
{
	while (blkno != P_NONE && blkno < end)
	{
		PvBtreeVisit visit = {.right = P_NONE};
		BTPageOpaque opaque;
		Buffer		buf = read_page(scan, blkno, &opaque);

		/*
		 * Only leaf pages get the cycle id, and only we could have deleted
		 * one
		 */
		if (opaque != NULL && P_ISLEAF(opaque) && !P_IGNORE(opaque) &&
			opaque->btpo_cycleid == scan->btree->cycleid)
		{
			_bt_upgradelockbufcleanup(scan->indrel, buf);
			pv_btree_vacuum_leaf(scan, buf, &visit);
			scan->unit->result.tail.revisits++;
		}
		_bt_relbuf(scan->indrel, buf);
		blkno = visit.right;
	}
}

static bool
page_is_empty(Buffer buf, BTPageOpaque opaque)
{
	return P_FIRSTDATAKEY(opaque) > PageGetMaxOffsetNumber(BufferGetPage(buf));
}

/*
 * If a page is half-dead, left by an interrupted deletion, return the first
 * page to its right that is not half-dead, if that is empty and may be
 * deleted.  Otherwise return P_NONE.
 */
static BlockNumber
empty_page_after(PvBtreeScan *scan, BlockNumber blkno)
{
	BlockNumber at = blkno;

	for (;;)
	{
		BlockNumber next = P_NONE;
		bool		half_dead = false;
		bool		empty = false;
		BTPageOpaque opaque;
		Buffer		buf;

		buf = read_page(scan, at, &opaque);
		if (opaque != NULL && P_ISLEAF(opaque))
		{
			half_dead = P_ISHALFDEAD(opaque);
			empty = !P_IGNORE(opaque) && !P_RIGHTMOST(opaque) &&
				page_is_empty(buf, opaque);
			next = opaque->btpo_next;
		}
		_bt_relbuf(scan->indrel, buf);
		if (!half_dead)
			return empty && at != blkno ? at : P_NONE;
		at = next;
	}
}

/*
 * Delete a page if it is still empty.
 *
 * Core's deletion of a half-dead page goes on with an empty right sibling, but
 * has an assertion that it did not begin with a half-dead page then.  So
 * delete the sibling of a half-dead page first.  If it cannot be deleted,
 * leave the half-dead page for the next vacuum.
 */
static void
delete_page(PvBtreeScan *scan, BlockNumber blkno, BTVacState *vstate)
{
	BTPageOpaque opaque;
	Buffer		buf = read_page(scan, blkno, &opaque);

	if (opaque != NULL && P_ISLEAF(opaque) && P_ISHALFDEAD(opaque))
	{
		BlockNumber sibling;

		_bt_relbuf(scan->indrel, buf);
		sibling = empty_page_after(scan, blkno);
		if (sibling != P_NONE)
		{
			delete_page(scan, sibling, vstate);
			if (empty_page_after(scan, blkno) != P_NONE)
				return;
		}
		buf = read_page(scan, blkno, &opaque);
	}

	if (opaque != NULL && P_ISLEAF(opaque) && !P_ISDELETED(opaque))
	{
		_bt_upgradelockbufcleanup(scan->indrel, buf);
		if (P_ISHALFDEAD(opaque) || page_is_empty(buf, opaque))
		{
			MemoryContext old;

			MemoryContextReset(vstate->pagedelcontext);
			old = MemoryContextSwitchTo(vstate->pagedelcontext);
			_bt_pagedel(scan->indrel, buf, vstate);
			MemoryContextSwitchTo(old);
			return;
		}
	}
	_bt_relbuf(scan->indrel, buf);
}

/*
 * Visit the pages that were added to the index after the last range.  Return
 * the length of the index.  Do not delete empty ones as long as there are
 * revisits to come: core also deletes an empty right sibling, and a revisit
 * could lead there.
 */
static BlockNumber
visit_leftovers(PvBtreeScan *scan)
{
	BlockNumber blkno = pg_atomic_read_u32(&scan->btree->pages.end);
	BlockNumber length;

	while (blkno < (length = pv_btree_length(scan->indrel)))
	{
		for (; blkno < length; blkno++)
		{
			PvBtreeVisit visit;
			Buffer		buf =
				ReadBufferExtended(scan->indrel, MAIN_FORKNUM, blkno,
								   RBM_NORMAL,
								   pv_ring_next(&scan->self->ring));

			pv_btree_visit_page(scan, blkno, buf, &visit);
			if (visit.right < blkno)
				revisit_from(scan, visit.right, blkno);
			if (visit.empty)
				pv_btree_note_page(scan, scan->empty, blkno);
		}
	}
	return length;
}

/*
 * Visit the pages noted for a revisit.
 *
 * No page will be visited in order any more, so the revisits have no end
 * block.  A page that waits for its revisit may be split, and its tuples moved
 * to a page that was added to the index after its length was read.
 */
static void
revisit_pages(PvBtreeScan *scan, BlockNumber length)
{
	BlockNumber bit = 0;

	while (pv_btree_take_bit(scan, scan->revisit, &bit))
	{
		for (uint64 blkno = bit; blkno < length; blkno += scan->btree->nbits)
			revisit_from(scan, (BlockNumber) blkno, InvalidBlockNumber);
	}
}

/* Delete the pages noted as empty. */
static void
delete_pages(PvBtreeScan *scan, BlockNumber length, BTVacState *vstate)
{
	BlockNumber bit = 0;

	while (pv_btree_take_bit(scan, scan->empty, &bit))
	{
		for (uint64 blkno = bit; blkno < length; blkno += scan->btree->nbits)
			delete_page(scan, (BlockNumber) blkno, vstate);
	}
}

/* Do the part that one process does, and store the result in the unit. */
void
pv_btree_finish(PvBtreeScan *scan)
{
	PvIndexUnit *unit = scan->unit;
	Relation	indrel = scan->indrel;
	IndexBulkDeleteResult stats = unit->result.istat;	/* zeroes at first */
	BTVacState	vstate = {0};
	int64		newly_deleted = stats.pages_newly_deleted;
	int64		start = pv_usecs_of_machine();

	vstate.info = scan->ivinfo;
	vstate.stats = &stats;
	vstate.cycleid = scan->btree->cycleid;
	vstate.pagedelcontext = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum page deletion",
												  ALLOCSET_DEFAULT_SIZES);
	_bt_pendingfsm_init(indrel, &vstate, !scan->bulk_delete);

	pv_wait_point("nbtree finish", RelationGetRelid(scan->self->rel));
	scan->counts = scan->btree->counts;
	stats.num_pages = visit_leftovers(scan);
	revisit_pages(scan, stats.num_pages);
	pv_wait_point("nbtree deletion", RelationGetRelid(scan->self->rel));
	delete_pages(scan, stats.num_pages, &vstate);
	MemoryContextDelete(vstate.pagedelcontext);

	/* _bt_pagedel() relies on a later visit to count pages to the right */
	stats.num_index_tuples = scan->counts.num_index_tuples;
	stats.tuples_removed += scan->counts.tuples_removed;
	stats.pages_free = scan->counts.pages_free;
	stats.pages_deleted = scan->counts.pages_deleted +
		stats.pages_newly_deleted - newly_deleted;
	stats.estimated_count = !scan->bulk_delete;
	_bt_pendingfsm_finalize(indrel, &vstate);
	if (stats.pages_free > 0)
		IndexFreeSpaceMapVacuum(indrel);

	unit->result.istat = stats;
	unit->result.istat_valid = true;
	unit->result.tail.alone_usecs += pv_usecs_since(start);
	unit->result.tail.finished = true;

	/* core's function only stores our counts in the index */
	if (!scan->bulk_delete)
		(void) index_vacuum_cleanup(scan->ivinfo, &unit->result.istat);
}
