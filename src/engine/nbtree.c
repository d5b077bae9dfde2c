/*-------------------------------------------------------------------------
 *
 * nbtree.c
 *	  B-trees that several participants vacuum together.
 *
 * Core has one process go through all pages of an index in physical order,
 * follow the right links of pages that were split meanwhile, and delete pages
 * that have become empty as it meets them.  Here any number of participants
 * share the pages of an index, and one of them does the rest:
 *
 *	 RANGES   all   ranges of blocks from one atomic counter: remove index tuples
 *	          |     whose heap items are dead.  No link is followed and no page
 *	          |     deleted; both are noted in bitmaps, "revisit" and "empty".
 *	          v
 *	 the last one to leave, alone:
 *	    LEFTOVERS   pages that the index has grown by since the last range
 *	    REVISITS    pages that splits have moved tuples to
 *	    DELETION    of empty pages; free space map
 *
 * A participant joins an index that is not finished, and leaves it when no range
 * is left.  Who finds that out looks how long the index is by then, and if it has
 * grown, there are ranges again, for all who are there.  Who leaves as the last one closes it: nobody can join any more, and
 * nobody else has a page of it pinned for vacuuming.  The others go on to the
 * next index meanwhile.
 *
 * Is every index tuple visited that pointed to a dead item when all this began?
 * Inserts add none, since nobody makes an index tuple for an item that is dead.
 * So one can escape only by being moved, from a page that has not been visited
 * to one that has, and only a split moves tuples, from the left page, which is
 * split, to the right one, which is new or recycled.  A split takes the vacuum
 * cycle id of this vacuum, which the leader has registered before any page was
 * read, and stamps both pages with it while it holds both locks.  Take the
 * moment when a participant has the cleanup lock on a page L in its range.
 *
 * - L has no stamp: it was not split since the id was registered, or L has been
 *	 visited since, and that visit has removed what there was.  Nothing moved.
 * - L has the stamp: tuples may have moved to L's right sibling R, and from R to
 *	 R's in turn.  Who erases the stamp of L notes R for a revisit before it leaves,
 *	 but for two cases.  R may be ahead in the same range, which is visited in
 *	 order.  Or nobody has claimed R when L has been visited: then whoever claims R
 *	 visits it later than L, or it is a leftover.  If R is in a range that was
 *	 claimed, it is noted, has it been visited or not.
 * - A revisit goes to the right as long as it finds the stamp.  It ends where
 *	 there is none, because who erased it has noted what was to the right of
 *	 that or knew it to be visited later, or the stamp was never there.
 *
 * A page that is split after its visit moves only what was visited.  Leftovers
 * come before revisits: the length of the index is read when all ranges are
 * done, so that a page that is added later is split from a visited one, or from
 * one that waits for its revisit, which goes on to the new page.  The argument
 * does not care in which order the pages are visited; core's README says that
 * they may be visited in any.
 * Core: access/nbtree/README, "VACUUM's linear scan"; nbtree.c, btvacuumscan.
 *
 * Core's page deletion relies on being the only one in an index, so it waits
 * until all ranges are done, and until no revisit is to come that could lead to
 * a page which is deleted.  What the bitmap notes is checked again then, for
 * a page may have got tuples, or may have been deleted together with its left
 * sibling.
 *
 * The bitmaps have a bit for each page that there was when the vacuum began, and
 * some more.  However long the index becomes, its pages are claimed by all.  A page
 * beyond the bitmaps has the bit of another, so that a bit stands for every page
 * whose number leaves the same remainder, and each of them is looked at.  To look
 * at a page in vain does no harm.  So neither bitmap can overflow.
 *
 * Reading goes on from one range to the next without a break.  A range is claimed
 * when the first of its pages is to be read ahead, so that its pages belong to the
 * reader's process before they are pinned.  All of a range that was claimed is
 * visited, in an emergency, too: the process then claims no more.
 *
 * A leaf page's heap TIDs are looked up in the store all at once.
 *
 * Who runs this: leader and workers in the phases INDEX and CLEANUP, but for
 * pv_nbtree_begin() and _end(), by which the leader alone registers the cycle id
 * and ends it: it would outlive a worker's error.
 *
 * Locks: a cleanup lock on each leaf page, as an index-only scan relies on that;
 * the relation extension lock while the length is read, since a page is added
 * in two steps; PvBtreeShared.mutex for the counts.  An error anywhere ends
 * the whole vacuum before heap items are reused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "port/pg_bitutils.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/use_count.h"
#include "base/wait.h"
#include "engine/nbtree.h"

/* Pages that a range has at most, and at least */
#define RANGE_MAX_PAGES			128
#define RANGE_MIN_PAGES			8

/*
 * A range is claimed before the one before it has been visited only if so many
 * pages are left for each participant.  Towards the end that would leave nothing to
 * the others.
 */
#define CLAIM_AHEAD_PAGES		(4 * RANGE_MAX_PAGES)

/* How far to read ahead, in pages */
#define MAX_LOOKAHEAD			64

#define BITS_PER_WORD			32
#define NUM_BITMAPS				2

/* Pages that a participant has claimed; of each page to be read, its range */
typedef struct BtreeRange
{
	BlockNumber start;
	BlockNumber end;
} BtreeRange;

/* One participant's work in one index */
typedef struct BtreeScan
{
	PvParticipant *self;
	PvBtreeShared *btree;
	IndexVacuumInfo *ivinfo;
	Relation	indrel;
	bool		bulk_delete;	/* else only empty and deleted pages matter */
	PvReader   *reader;
	BtreeRange	reading;		/* the range that is being read */
	BlockNumber to_read;		/* next of it */
	uint64		nread;			/* pages that the reader was told of */
	uint64		nvisited;		/* and those that were visited */
	PvBtreeCounts counts;

	/* Heap TIDs of the page at hand, and which of them are dead */
	int			ntids;
	ItemPointerData tids[MaxTIDsPerBTreePage];
	bool		dead[MaxTIDsPerBTreePage];
} BtreeScan;

/* What to do with a page after the visit */
typedef struct PageVisit
{
	BlockNumber right;			/* where a split in this vacuum may have moved
								 * tuples to, or P_NONE */
	bool		empty;			/* it is to be deleted */
} PageVisit;


/*-------------------------------------------------------------------------
 * The leader, between phases
 *-------------------------------------------------------------------------
 */

/*
 * Is this an index that this file knows how to vacuum?
 */
bool
pv_nbtree_handles(Relation indrel)
{
	return indrel->rd_rel->relam == BTREE_AM_OID &&
		indrel->rd_indam->ambulkdelete == btbulkdelete;
}

/*
 * How many bits a bitmap of an index of so many pages has.  Some more, so that it may
 * grow during the vacuum and each page still have a bit of its own.
 */
static BlockNumber
bits_for(BlockNumber pages)
{
	uint64		nbits = (uint64) pages + pages / 8 + 1024;

	return (BlockNumber) Min(nbits, MaxBlockNumber);
}

static Size
words_of(BlockNumber pages)
{
	return (pages + (Size) BITS_PER_WORD - 1) / BITS_PER_WORD;
}

/*
 * Words of shared memory that pv_nbtree_init() needs for an index.
 */
Size
pv_nbtree_bitmap_words(BlockNumber pages)
{
	return NUM_BITMAPS * words_of(bits_for(pages));
}

/*
 * Before launch: set up the shared part of an index, which had so many pages
 * when the words for its bitmaps were counted.  They begin at first_word, and
 * are zeroes.
 */
void
pv_nbtree_init(PvBtreeShared *btree, BlockNumber pages, Size first_word)
{
	btree->cycleid = 0;
	memset(&btree->tail, 0, sizeof(btree->tail));
	btree->nbits = bits_for(pages);
	btree->first_word = first_word;
	SpinLockInit(&btree->mutex);
	pv_dispense_init(&btree->pages, 0, 0, RANGE_MIN_PAGES, RANGE_MAX_PAGES, 1);
	pg_atomic_init_u32(&btree->use_count, PV_USE_COUNT_CLOSED);
	pg_atomic_init_u32(&btree->pages_done, 0);
}

/*
 * The length of an index.  Somebody may be adding a page, which is all zeroes
 * until it is locked; the lock makes sure that we do not see it before that.
 */
static BlockNumber
index_length(Relation indrel)
{
	BlockNumber length;

	LockRelationForExtension(indrel, ExclusiveLock);
	length = RelationGetNumberOfBlocks(indrel);
	UnlockRelationForExtension(indrel, ExclusiveLock);
	return length;
}

/*
 * Put an index up for this phase.  For a bulk deletion its cycle id is
 * registered, so the caller must see to it that pv_nbtree_end() is called in
 * any case.
 */
void
pv_nbtree_begin(PvParticipant *leader, int i, PvPhase phase)
{
	PvBtreeShared *btree = &leader->units[i].btree;
	Relation	indrel = leader->indrels[i];

	btree->cycleid = 0;
	if (phase == PV_PHASE_INDEX)
		btree->cycleid = _bt_start_vacuum(indrel);
	memset(&btree->counts, 0, sizeof(btree->counts));
	pv_dispense_init(&btree->pages, BTREE_METAPAGE + 1,
					 index_length(indrel),
					 RANGE_MIN_PAGES, RANGE_MAX_PAGES, leader->shared->nslots);
	pg_atomic_write_u32(&btree->pages_done, 0);
	pg_atomic_write_u32(&btree->use_count, 0);
}

/*
 * Take it down again, on error too.
 */
void
pv_nbtree_end(PvParticipant *leader, int i)
{
	PvBtreeShared *btree = &leader->units[i].btree;

	if (btree->cycleid != 0)
		_bt_end_vacuum(leader->indrels[i]);
	btree->cycleid = 0;
}


/*-------------------------------------------------------------------------
 * Bitmaps, in which bits are set by all and read by the last
 *-------------------------------------------------------------------------
 */

static pg_atomic_uint32 *
revisit_words(BtreeScan *scan)
{
	return scan->self->bitmaps + scan->btree->first_word;
}

static pg_atomic_uint32 *
empty_words(BtreeScan *scan)
{
	return revisit_words(scan) + words_of(scan->btree->nbits);
}

static void
note_page(BtreeScan *scan, pg_atomic_uint32 *words, BlockNumber blkno)
{
	BlockNumber bit = blkno % scan->btree->nbits;

	pg_atomic_fetch_or_u32(&words[bit / BITS_PER_WORD],
						   (uint32) 1 << bit % BITS_PER_WORD);
}

static void
note_if_empty(BtreeScan *scan, BlockNumber blkno, const PageVisit *visit)
{
	if (visit->empty)
		note_page(scan, empty_words(scan), blkno);
}

/*
 * Take the first bit at or after *bit out of a bitmap.  False if there is none.
 */
static bool
take_noted_bit(BtreeScan *scan, pg_atomic_uint32 *words, BlockNumber *bit)
{
	for (Size w = *bit / BITS_PER_WORD; w < words_of(scan->btree->nbits); w++)
	{
		uint32		word = pg_atomic_read_u32(&words[w]);

		if (word != 0)
		{
			int			pos = pg_rightmost_one_pos32(word);

			pg_atomic_write_u32(&words[w], word & ~((uint32) 1 << pos));
			*bit = w * BITS_PER_WORD + pos;
			return true;
		}
	}
	return false;
}


/*-------------------------------------------------------------------------
 * One leaf page
 *-------------------------------------------------------------------------
 */

/*
 * Copy the heap TIDs of all index tuples of a leaf page that is locked, in
 * order, to an array with room for MaxTIDsPerBTreePage.  Returns their number,
 * -1 if there are more than can be.
 */
int
pv_nbtree_list_tids(Page page, ItemPointerData *tids)
{
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	int			n = 0;

	for (OffsetNumber off = P_FIRSTDATAKEY(BTPageGetOpaque(page)); off <= maxoff;
		 off = OffsetNumberNext(off))
	{
		ItemPointer some;
		int			nheap = pv_nbtree_heap_tids(page, off, &some);

		if (n + nheap > MaxTIDsPerBTreePage)
			return -1;
		if (nheap == 1)
			tids[n] = *some;	/* most are, and a call would take longer */
		else
			memcpy(&tids[n], some, nheap * sizeof(ItemPointerData));
		n += nheap;
	}
	return n;
}

/*
 * What core is to remove from a posting list of so many TIDs, ndead of which
 * are dead, though not all.
 */
static BTVacuumPosting
dead_in_posting(Page page, OffsetNumber off, const bool *dead, int nheap,
				int ndead)
{
	BTVacuumPosting vacposting = palloc(offsetof(BTVacuumPostingData, deletetids) +
										ndead * sizeof(uint16));

	vacposting->itup = (IndexTuple) PageGetItem(page, PageGetItemId(page, off));
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
 * Remove the dead, of which there are some, from a page that is locked for
 * cleanup.
 */
static void
remove_dead(BtreeScan *scan, Buffer buf, OffsetNumber minoff, OffsetNumber maxoff)
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
			updatable[nupdatable++] = dead_in_posting(page, off, dead, nheap, ndead);
		dead += nheap;
	}

	/* This erases the cycle id, too */
	_bt_delitems_vacuum(scan->indrel, buf, deletable, ndeletable,
						updatable, nupdatable);
	for (int i = 0; i < nupdatable; i++)
		pfree(updatable[i]);
}

/*
 * Vacuum a leaf page that is locked for cleanup.
 */
static void
vacuum_leaf(BtreeScan *scan, Buffer buf, PageVisit *visit)
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
		scan->ntids = pv_nbtree_list_tids(page, scan->tids);
		if (scan->ntids < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" has a page with too many entries",
							RelationGetRelationName(scan->indrel)),
					 errhint("Check the index with amcheck, and REINDEX it.")));
		ndead = pv_deadtids_probe_batch(scan->self->store, scan->tids,
										scan->ntids, scan->dead);
		scan->counts.tuples_removed += ndead;
		scan->counts.num_index_tuples += scan->ntids - ndead;
	}

	/* Otherwise posting lists are not looked into, and count as one */
	else
		scan->counts.num_index_tuples += maxoff + 1 - minoff;

	if (ndead > 0)
	{
		remove_dead(scan, buf, minoff, maxoff);
		maxoff = PageGetMaxOffsetNumber(page);
	}

	/* So that no one comes again; a hint, like core's */
	else if (stamped)
	{
		opaque->btpo_cycleid = 0;
		MarkBufferDirtyHint(buf, true);
	}

	visit->empty = minoff > maxoff;
}

/*
 * Lock a page for reading.  Sets *opaque to NULL for a page of zeroes.
 */
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

/*
 * After a nap, if one is due, read a page and lock it.
 */
Buffer
pv_nbtree_read_page(Relation indrel, BlockNumber blkno,
					BufferAccessStrategy strategy, BTPageOpaque *opaque)
{
	Buffer		buf;

	pv_cost_delay();

	/* _bt_getbuf() would not take a page of zeroes */
	buf = ReadBufferExtended(indrel, MAIN_FORKNUM, blkno, RBM_NORMAL, strategy);
	lock_page(indrel, buf, opaque);
	return buf;
}

/* A page out of order, pinned. */
static Buffer
read_buffer(BtreeScan *scan, BlockNumber blkno)
{
	return ReadBufferExtended(scan->indrel, MAIN_FORKNUM, blkno, RBM_NORMAL,
							  pv_ring_next(&scan->self->ring));
}

static Buffer
read_page(BtreeScan *scan, BlockNumber blkno, BTPageOpaque *opaque)
{
	return pv_nbtree_read_page(scan->indrel, blkno,
							   pv_ring_next(&scan->self->ring), opaque);
}

/*
 * Visit a page of any kind for the first time, and nap, if one is due.  It is
 * pinned on entry, not on return.
 * Core: access/nbtree/nbtree.c, btvacuumpage.
 */
static void
visit_page(BtreeScan *scan, BlockNumber blkno, Buffer buf, PageVisit *visit)
{
	BTPageOpaque opaque;

	lock_page(scan->indrel, buf, &opaque);
	visit->right = P_NONE;
	visit->empty = false;
	if (opaque == NULL || pv_btree_page_is_recyclable(scan->self->rel, BufferGetPage(buf)))
	{
		RecordFreeIndexPage(scan->indrel, blkno);
		scan->counts.pages_deleted++;
		scan->counts.pages_free++;
	}
	else if (P_ISDELETED(opaque))
		scan->counts.pages_deleted++;
	else if (P_ISHALFDEAD(opaque))
		visit->empty = true;	/* an interrupted vacuum has left it so */
	else if (P_ISLEAF(opaque))
	{
		_bt_upgradelockbufcleanup(scan->indrel, buf);
		vacuum_leaf(scan, buf, visit);
	}
	_bt_relbuf(scan->indrel, buf);
	pv_cost_delay();
}


/*-------------------------------------------------------------------------
 * Ranges
 *-------------------------------------------------------------------------
 */

static BlockNumber
pages_unclaimed(PvDispenseShared *pages)
{
	BlockNumber next = pg_atomic_read_u32(&pages->next);
	BlockNumber end = pg_atomic_read_u32(&pages->end);

	return end > next ? end - next : 0;
}

/*
 * Has the process something claimed that it has not yet visited, and is so little left
 * that it had better not claim more?
 */
static bool
claims_enough(BtreeScan *scan)
{
	PvDispenseShared *pages = &scan->btree->pages;

	return scan->nread > scan->nvisited &&
		pages_unclaimed(pages) / pages->participants < CLAIM_AHEAD_PAGES;
}

/*
 * The reader wants to know what comes next; it is some pages ahead.  Here nobody
 * may wait, nor read anything, so the length of the index is not looked at.
 */
static BlockNumber
next_of_ranges(void *arg, void *about_block)
{
	BtreeScan  *scan = arg;

	if (scan->to_read >= scan->reading.end)
	{
		BtreeRange	range;

		if (pv_failsafe_triggered(scan->self) || claims_enough(scan) ||
			!pv_dispense_claim(&scan->btree->pages, &range.start, &range.end))
			return InvalidBlockNumber;
		scan->reading = range;
		scan->to_read = range.start;
	}
	*(BtreeRange *) about_block = scan->reading;
	scan->nread++;
	return scan->to_read++;
}

/*
 * Must a page be visited again, to which a split may have moved tuples from a page
 * that has just been visited, in this range?  Not if it will be visited yet.
 *
 * If it was claimed, and visited, before tuples came to it, the process that split
 * the left page had its lock after that visit, and we had the left page's lock after
 * that process.  So we see here that it was claimed.
 */
static bool
needs_revisit(BtreeScan *scan, BlockNumber right, BlockNumber visited,
			  const BtreeRange *range)
{
	if (right == P_NONE || (right > visited && right < range->end))
		return false;
	return right < pg_atomic_read_u32(&scan->btree->pages.next);
}

/*
 * Visit the next page that was read.
 */
static void
visit_in_order(BtreeScan *scan, Buffer buf, const BtreeRange *range)
{
	PvParticipant *self = scan->self;
	BlockNumber blkno = BufferGetBlockNumber(buf);
	PageVisit	visit;

	if (blkno == range->start)
		pv_wait_point("nbtree range");
	visit_page(scan, blkno, buf, &visit);
	scan->nvisited++;
	if (needs_revisit(scan, visit.right, blkno, range))
		note_page(scan, revisit_words(scan), visit.right);
	note_if_empty(scan, blkno, &visit);

	if (blkno + 1 == range->end)
	{
		pg_atomic_fetch_add_u32(&scan->btree->pages_done,
								range->end - range->start);
		if (self->tick)
			self->tick(self);
		if (scan->bulk_delete)
			(void) pv_check_failsafe(self);
	}
}

/*
 * Are there pages that nobody has claimed, perhaps because the index has grown?
 */
static bool
pages_are_left(BtreeScan *scan)
{
	PvDispenseShared *pages = &scan->btree->pages;

	if (pv_failsafe_triggered(scan->self))
		return false;
	if (pages_unclaimed(pages) == 0)
		pv_dispense_extend(pages, index_length(scan->indrel));
	return pages_unclaimed(pages) > 0;
}

/*
 * Take part in the ranges until none is left, nor has the index grown.
 */
static void
scan_ranges(BtreeScan *scan)
{
	Buffer		buf;
	void	   *range;

	while (pages_are_left(scan))
	{
		pv_reader_restart(scan->reader);
		while (pv_reader_next(scan->reader, &buf, &range))
			visit_in_order(scan, buf, range);
	}
	Assert(scan->nread == scan->nvisited);
}

/*
 * Leave the index, adding what we have counted.  Returns true to the last one,
 * who has closed it.
 */
static bool
leave(BtreeScan *scan)
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


/*-------------------------------------------------------------------------
 * The last one, alone
 *-------------------------------------------------------------------------
 */

/*
 * Visit a page that tuples may have been moved to, and those to the right of
 * it, as long as they are stamped and before the block end, where a visit in
 * order is still to come.
 */
static void
revisit_from(BtreeScan *scan, BlockNumber blkno, BlockNumber end)
{
	while (blkno != P_NONE && blkno < end)
	{
		PageVisit	visit = {.right = P_NONE};
		BTPageOpaque opaque;
		Buffer		buf = read_page(scan, blkno, &opaque);

		/* Stamped pages are leaves; nobody but us could have deleted one */
		if (opaque != NULL && P_ISLEAF(opaque) && !P_IGNORE(opaque) &&
			opaque->btpo_cycleid == scan->btree->cycleid)
		{
			_bt_upgradelockbufcleanup(scan->indrel, buf);
			vacuum_leaf(scan, buf, &visit);
			scan->btree->tail.revisits++;
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
 * If a page is half-dead, as an interrupted deletion has left it: the first to its
 * right that is not, if that is empty and may be deleted.  Otherwise P_NONE.
 */
static BlockNumber
empty_page_after(BtreeScan *scan, BlockNumber blkno)
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
			empty = !P_IGNORE(opaque) && !P_RIGHTMOST(opaque) && page_is_empty(buf, opaque);
			next = opaque->btpo_next;
		}
		_bt_relbuf(scan->indrel, buf);
		if (!half_dead)
			return empty && at != blkno ? at : P_NONE;
		at = next;
	}
}

/*
 * Delete a page, if it is still empty.
 *
 * Core goes on with an empty right sibling, but assert-enabled it does not expect to
 * have begun with a half-dead page then.  So the sibling of such a page is deleted
 * first, and if that cannot be, an assert-enabled server leaves the page for the next
 * vacuum.
 * Core: access/nbtree/nbtpage.c, _bt_pagedel.
 */
static void
delete_page(BtreeScan *scan, BlockNumber blkno, BTVacState *vstate)
{
	BTPageOpaque opaque;
	Buffer		buf = read_page(scan, blkno, &opaque);
	MemoryContext old;

	if (opaque != NULL && P_ISLEAF(opaque) && P_ISHALFDEAD(opaque))
	{
		BlockNumber sibling;

		_bt_relbuf(scan->indrel, buf);
		sibling = empty_page_after(scan, blkno);
		if (sibling != P_NONE)
		{
			delete_page(scan, sibling, vstate);
#ifdef USE_ASSERT_CHECKING
			if (empty_page_after(scan, blkno) != P_NONE)
				return;
#endif
		}
		buf = read_page(scan, blkno, &opaque);
	}

	if (opaque != NULL && P_ISLEAF(opaque) && !P_ISDELETED(opaque))
	{
		_bt_upgradelockbufcleanup(scan->indrel, buf);
		if (P_ISHALFDEAD(opaque) || page_is_empty(buf, opaque))
		{
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
 * Visit the pages that the index has grown by since the last range.  Those that
 * are empty stay as long as there are revisits to come: core deletes an empty
 * right sibling along, and that could be a page to which a revisit leads.
 * Returns the length of the index.
 */
static BlockNumber
visit_leftovers(BtreeScan *scan)
{
	BlockNumber blkno = pg_atomic_read_u32(&scan->btree->pages.end);
	BlockNumber length;

	while (blkno < (length = index_length(scan->indrel)))
	{
		for (; blkno < length; blkno++)
		{
			PageVisit	visit;

			visit_page(scan, blkno, read_buffer(scan, blkno), &visit);
			if (visit.right < blkno)
				revisit_from(scan, visit.right, blkno);
			note_if_empty(scan, blkno, &visit);
		}
	}
	return length;
}

/*
 * Nothing is visited in order any more.  So there is no end: a page that waits
 * here may be split, and its tuples moved to a page that the index has grown by
 * since its length was read.
 */
static void
revisit_pages(BtreeScan *scan, BlockNumber length)
{
	BlockNumber bit = 0;

	while (take_noted_bit(scan, revisit_words(scan), &bit))
	{
		for (uint64 blkno = bit; blkno < length; blkno += scan->btree->nbits)
			revisit_from(scan, (BlockNumber) blkno, InvalidBlockNumber);
	}
}

/*
 * Delete the pages that were empty.
 */
static void
delete_pages(BtreeScan *scan, BlockNumber length, BTVacState *vstate)
{
	BlockNumber bit = 0;

	while (take_noted_bit(scan, empty_words(scan), &bit))
	{
		for (uint64 blkno = bit; blkno < length; blkno += scan->btree->nbits)
			delete_page(scan, (BlockNumber) blkno, vstate);
	}
}

/*
 * Do what is to be done by one process, and leave the result in the unit.
 */
static void
finish(BtreeScan *scan, PvIndexUnit *unit)
{
	Relation	indrel = scan->indrel;
	IndexBulkDeleteResult stats = {0};
	BTVacState	vstate = {0};
	int64		newly_deleted;
	instr_time	start;
	instr_time	now;

	INSTR_TIME_SET_CURRENT(start);
	if (unit->istat_valid)
		stats = unit->istat;
	newly_deleted = stats.pages_newly_deleted;

	vstate.info = scan->ivinfo;
	vstate.stats = &stats;
	vstate.cycleid = scan->btree->cycleid;
	vstate.pagedelcontext = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum page deletion",
												  ALLOCSET_DEFAULT_SIZES);
	_bt_pendingfsm_init(indrel, &vstate, !scan->bulk_delete);

	pv_wait_point("nbtree finish");
	scan->counts = scan->btree->counts;
	stats.num_pages = visit_leftovers(scan);
	revisit_pages(scan, stats.num_pages);
	pv_wait_point("nbtree deletion");
	delete_pages(scan, stats.num_pages, &vstate);
	MemoryContextDelete(vstate.pagedelcontext);

	/* _bt_pagedel() leaves it to a later visit to count pages to the right */
	stats.num_index_tuples = scan->counts.num_index_tuples;
	stats.tuples_removed += scan->counts.tuples_removed;
	stats.pages_free = scan->counts.pages_free;
	stats.pages_deleted = scan->counts.pages_deleted +
		stats.pages_newly_deleted - newly_deleted;
	stats.estimated_count = !scan->bulk_delete;
	_bt_pendingfsm_finalize(indrel, &vstate);
	if (stats.pages_free > 0)
		IndexFreeSpaceMapVacuum(indrel);

	unit->istat = stats;
	unit->istat_valid = true;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	unit->btree.tail.alone_usecs += INSTR_TIME_GET_MICROSEC(now);
	unit->btree.tail.finished = true;
}

/*
 * Pages of an index that nobody has claimed yet, so that one more could be of use.
 */
BlockNumber
pv_nbtree_pages_left(PvParticipant *self, int i)
{
	PvBtreeShared *btree = &self->units[i].btree;

	/* In an emergency nobody claims any more */
	if (pv_failsafe_triggered(self) ||
		pg_atomic_read_u32(&btree->use_count) == PV_USE_COUNT_CLOSED)
		return 0;
	return pages_unclaimed(&btree->pages);
}

/*
 * Take part in vacuuming a B-tree that the leader has put up.  Returns true to
 * who has finished it.
 */
bool
pv_nbtree_work(PvParticipant *self, int i, PvPhase phase,
			   IndexVacuumInfo *ivinfo)
{
	PvIndexUnit *unit = &self->units[i];
	BtreeScan  *scan;
	bool		finisher;

	if (!pv_use_count_enter(&unit->btree.use_count))
		return false;

	scan = palloc0(sizeof(BtreeScan));
	scan->self = self;
	scan->btree = &unit->btree;
	scan->ivinfo = ivinfo;
	scan->indrel = self->indrels[i];
	scan->bulk_delete = phase == PV_PHASE_INDEX;
	scan->reader = pv_reader_create(scan->indrel, &self->ring, MAX_LOOKAHEAD,
									sizeof(BtreeRange), true, next_of_ranges,
									scan);

	scan_ranges(scan);
	pv_reader_free(scan->reader);
	finisher = leave(scan) && !pv_failsafe_triggered(self);
	if (finisher)
		finish(scan, unit);
	pfree(scan);
	return finisher;
}
