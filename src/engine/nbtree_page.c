/*-------------------------------------------------------------------------
 *
 * nbtree_page.c
 *	  Vacuuming one page of a B-tree.
 *
 * All participants run this.  The caller has the page pinned; the functions
 * here lock it, with a cleanup lock if it is a leaf page.
 *
 * Core: access/nbtree/nbtree.c, btvacuumpage.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "engine/nbtree.h"

/*
 * Return the length of an index.  Another process may be adding a page, which
 * is zeroed until that process locks it.  With the extension lock we do not
 * count the page before that.
 */
BlockNumber
pv_btree_length(Relation indrel)
{
	BlockNumber length;

	LockRelationForExtension(indrel, ExclusiveLock);
	length = RelationGetNumberOfBlocks(indrel);
	UnlockRelationForExtension(indrel, ExclusiveLock);
	return length;
}

/*
 * Copy the heap TIDs of all index tuples of a leaf page, in order, to an array
 * with room for MaxTIDsPerBTreePage.  The caller holds a lock on the page.
 * Return their number, or PV_NBTREE_TOO_MANY_TIDS.
 */
int
pv_nbtree_list_tids(Page page, ItemPointerData *tids)
{
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	int			n = 0;

	for (OffsetNumber off = P_FIRSTDATAKEY(BTPageGetOpaque(page));
		 off <= maxoff; off = OffsetNumberNext(off))
	{
		ItemPointer some;
		int			nheap = pv_nbtree_heap_tids(page, off, &some);

		if (n + nheap > MaxTIDsPerBTreePage)
			return PV_NBTREE_TOO_MANY_TIDS;
		if (nheap == 1)
			tids[n] = *some;	/* the usual case; memcpy() would be slower */
		else
			memcpy(&tids[n], some, nheap * sizeof(ItemPointerData));
		n += nheap;
	}
	return n;
}

/*
 * Describe to core what to remove from a posting list with nheap TIDs, of
 * which ndead are dead, but not all.
 */
static BTVacuumPosting
dead_in_posting(Page page, OffsetNumber off, const bool *dead, int nheap,
				int ndead)
{
	BTVacuumPosting vacposting =
		palloc(offsetof(BTVacuumPostingData, deletetids) +
			   ndead * sizeof(uint16));

	vacposting->itup =
		(IndexTuple) PageGetItem(page, PageGetItemId(page, off));
	vacposting->updatedoffset = off;
	vacposting->ndeletedtids = 0;
	for (int i = 0; i < nheap; i++)
	{
		if (dead[i])
			vacposting->deletetids[vacposting->ndeletedtids++] = i;
	}
	return vacposting;
}

/*
 * Remove index tuples with dead heap TIDs from a page.  There is at least one.
 * The caller holds a cleanup lock.
 */
static void
remove_dead(const PvBtreeScan *scan, Buffer buf, OffsetNumber minoff,
			OffsetNumber maxoff)
{
	Page		page = BufferGetPage(buf);
	const bool *dead = scan->dead;
	OffsetNumber deletable[MaxIndexTuplesPerPage];
	BTVacuumPosting updatable[MaxIndexTuplesPerPage];
	int			ndeletable = 0;
	int			nupdatable = 0;

	for (OffsetNumber off = minoff; off <= maxoff; off = OffsetNumberNext(off))
	{
		ItemPointer tids;
		int			nheap = pv_nbtree_heap_tids(page, off, &tids);
		int			ndead = 0;

		for (int i = 0; i < nheap; i++)
			ndead += dead[i];
		if (ndead == nheap)
			deletable[ndeletable++] = off;
		else if (ndead > 0)
			updatable[nupdatable++] =
				dead_in_posting(page, off, dead, nheap, ndead);
		dead += nheap;
	}

	/* This erases the cycle id, too */
	_bt_delitems_vacuum(scan->indrel, buf, deletable, ndeletable,
						updatable, nupdatable);
	for (int i = 0; i < nupdatable; i++)
		pfree(updatable[i]);
}

/* Vacuum a leaf page.  The caller holds a cleanup lock. */
void
pv_btree_vacuum_leaf(PvBtreeScan *scan, Buffer buf, PvBtreeVisit *visit)
{
	BTCycleId	cycleid = scan->btree->cycleid;
	Page		page = BufferGetPage(buf);
	BTPageOpaque opaque = BTPageGetOpaque(page);
	OffsetNumber minoff = P_FIRSTDATAKEY(opaque);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	bool		stamped = cycleid != 0 && opaque->btpo_cycleid == cycleid;
	int			ndead = 0;

	if (stamped && !(opaque->btpo_flags & BTP_SPLIT_END) &&
		!P_RIGHTMOST(opaque))
		visit->right = opaque->btpo_next;

	if (scan->bulk_delete)
	{
		int			ntids = pv_nbtree_list_tids(page, scan->tids);

		if (ntids == PV_NBTREE_TOO_MANY_TIDS)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" has a page with too many entries",
							RelationGetRelationName(scan->indrel)),
					 errhint("Check the index with amcheck, and REINDEX it.")));
		ndead = pv_deadtids_probe_batch(scan->self->store, scan->tids, ntids,
										scan->dead);
		scan->counts.tuples_removed += ndead;
		scan->counts.num_index_tuples += ntids - ndead;
	}

	/* Otherwise posting lists are not examined, and each counts as one tuple */
	else
		scan->counts.num_index_tuples += maxoff + 1 - minoff;

	if (ndead > 0)
	{
		remove_dead(scan, buf, minoff, maxoff);
		maxoff = PageGetMaxOffsetNumber(page);
	}

	/* So that no other visit follows; a hint, as in core */
	else if (stamped)
	{
		opaque->btpo_cycleid = 0;
		MarkBufferDirtyHint(buf, true);
	}

	visit->empty = minoff > maxoff;
}

/* Lock a page for reading.  Set *opaque to NULL for a zeroed page. */
static void
lock_page(Relation indrel, Buffer buf, BTPageOpaque *opaque)
{
	_bt_lockbuf(indrel, buf, BT_READ);
	*opaque = NULL;
	if (!PageIsNew(BufferGetPage(buf)))
	{
		_bt_checkpage(indrel, buf);
		*opaque = BTPageGetOpaque(BufferGetPage(buf));
	}
}

/* Pass a delay point, then read a page and lock it. */
Buffer
pv_nbtree_read_page(Relation indrel, BlockNumber blkno,
					BufferAccessStrategy strategy, BTPageOpaque *opaque)
{
	Buffer		buf;

	(void) pv_cost_delay();

	/* _bt_getbuf() would not accept a zeroed page */
	buf = ReadBufferExtended(indrel, MAIN_FORKNUM, blkno, RBM_NORMAL,
							 strategy);
	lock_page(indrel, buf, opaque);
	return buf;
}

/*
 * Visit a page of any kind for the first time, and then sleep if that is due.
 * The page is pinned on entry, and released here.
 */
void
pv_btree_visit_page(PvBtreeScan *scan, BlockNumber blkno, Buffer buf,
					PvBtreeVisit *visit)
{
	BTPageOpaque opaque;

	lock_page(scan->indrel, buf, &opaque);
	visit->right = P_NONE;
	visit->empty = false;
	if (opaque == NULL ||
		pv_btree_page_is_recyclable(scan->self->rel, BufferGetPage(buf)))
	{
		RecordFreeIndexPage(scan->indrel, blkno);
		scan->counts.pages_deleted++;
		scan->counts.pages_free++;
	}
	else if (P_ISDELETED(opaque))
		scan->counts.pages_deleted++;
	else if (P_ISHALFDEAD(opaque))
		visit->empty = true;	/* left by an interrupted vacuum */
	else if (P_ISLEAF(opaque))
	{
		_bt_upgradelockbufcleanup(scan->indrel, buf);
		pv_btree_vacuum_leaf(scan, buf, visit);
	}
	_bt_relbuf(scan->indrel, buf);
	(void) pv_cost_delay();
}
