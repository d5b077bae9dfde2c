/*-------------------------------------------------------------------------
 *
 * survey_heap.c
 *	  What is on a sample of heap pages, for the plan of a vacuum.
 *
 * Part of the survey; see engine/survey.c, also for the locks.  Hint bits may
 * be set, as by any reader of a page.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat_heap.h"
#include "engine/survey_state.h"

/*
 * Read a page of a relation, and lock it.  *sum gets what its next change will
 * cost.
 *
 * Core: access/transam/xloginsert.c, XLogCheckBufferNeedsBackup, which in a
 * process that has written no WAL does not know where the last checkpoint is.
 */
Buffer
pv_survey_read_page(Relation rel, BlockNumber blkno, XLogRecPtr redo,
					PvPageState *sum)
{
	bool		cached = BufferIsValid(PrefetchBuffer(rel, MAIN_FORKNUM,
													  blkno).recent_buffer);
	Buffer		buf = ReadBufferExtended(rel, MAIN_FORKNUM, blkno, RBM_NORMAL,
										 NULL);
	Page		page = BufferGetPage(buf);
	PageHeader	header = (PageHeader) page;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	sum->n++;
	sum->cached += cached;
	if (PageIsNew(page))
		return buf;
	sum->fpi += fullPageWrites && RelationNeedsWAL(rel) &&
		PageGetLSN(page) <= redo;
	sum->image_bytes += header->pd_lower >= SizeOfPageHeaderData &&
		header->pd_lower <= header->pd_upper &&
		header->pd_upper <= BLCKSZ ?
		BLCKSZ - (header->pd_upper - header->pd_lower) : BLCKSZ;
	return buf;
}

/* Sums up what the forecast needs to know about pages. */
void
pv_survey_describe_pages(const PvPageState *sum, PvForecastPages *pages)
{
	double		n = Max(sum->n, 1);

	pages->cached = sum->cached / n;
	pages->fpi = sum->fpi / n;
	pages->image_bytes = sum->image_bytes / n;
}

/* What one page has */
typedef struct PageFindings
{
	int			tuples;
	int			dead;
	int			dead_bytes;
	int			recently_dead;
	int			stubs;
	int			nitems;
	bool		all_visible;	/* all tuples that remain */
	bool		young;			/* a live one may not be visible to all */
	bool		freezes;
	bool		lacks_hints;
	OffsetNumber items[MaxHeapTuplesPerPage];
} PageFindings;

/*
 * Look at a tuple.
 *
 * Pruning leaves one dead line pointer for each HOT chain that is dead as a
 * whole, and none for a chain of which the end is alive.  So the tuples at the
 * ends of chains are counted.
 */
static void
look_at_tuple(PvSurveyState *state, Buffer buf, HeapTuple tuple,
			  PageFindings *found)
{
	const PvCutoffs *cutoffs = &state->vac->plan.cutoffs;
	HeapTupleHeader htup = tuple->t_data;
	TransactionId xid = state->oldest_xid;
	MultiXactId mxid = state->oldest_mxid;
	bool		aborted;

	found->tuples++;
	if ((htup->t_infomask & (HEAP_XMIN_COMMITTED | HEAP_XMIN_INVALID)) == 0 ||
		(htup->t_infomask & (HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID)) == 0)
		found->lacks_hints = true;
	switch (HeapTupleSatisfiesVacuum(tuple, cutoffs->OldestXmin, buf))
	{
		case HEAPTUPLE_DEAD:
			found->dead++;
			found->dead_bytes += MAXALIGN(tuple->t_len);
			aborted = HeapTupleHeaderXminInvalid(htup);
			if (!(aborted ? HeapTupleHeaderIsHeapOnly(htup) :
				  HeapTupleHeaderIsHotUpdated(htup)))
				found->items[found->nitems++] =
					ItemPointerGetOffsetNumber(&tuple->t_self);
			return;
		case HEAPTUPLE_RECENTLY_DEAD:
			found->recently_dead++;
			found->all_visible = false;
			break;
		case HEAPTUPLE_LIVE:
			if (!HeapTupleHeaderXminFrozen(htup) &&
				!TransactionIdPrecedes(HeapTupleHeaderGetXmin(htup),
									   cutoffs->OldestXmin))
				found->young = true;
			break;
		default:
			found->young = true;
			break;
	}

	if (found->young)
		found->all_visible = false;
	if (pv_tuple_should_freeze(htup, cutoffs, &xid, &mxid))
		found->freezes = true;
	else
	{
		state->oldest_xid = xid;
		state->oldest_mxid = mxid;
	}
}

/*
 * Look at all line pointers of a page, which is locked.  A broken page may have
 * more of them than any page can have.
 */
static void
look_at_page(PvSurveyState *state, Buffer buf, PageFindings *found)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = Min(PageGetMaxOffsetNumber(page),
							  MaxHeapTuplesPerPage);

	memset(found, 0, offsetof(PageFindings, items));
	found->all_visible = true;
	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff;
		 offnum = OffsetNumberNext(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);
		HeapTupleData tuple;

		if (ItemIdIsDead(itemid))
		{
			found->stubs++;
			found->items[found->nitems++] = offnum;
		}
		if (!ItemIdIsNormal(itemid))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, itemid);
		tuple.t_len = ItemIdGetLength(itemid);
		tuple.t_tableOid = RelationGetRelid(state->rel);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buf), offnum);
		look_at_tuple(state, buf, &tuple, found);
	}
}

/* Add the findings on one page to those of the sample. */
static void
add_findings(const PvSurveyState *state, const PageFindings *found,
			 PvStratum *stratum)
{
	PvRowSample *gone = &stratum->gone;
	double		rows = found->dead + found->recently_dead + found->stubs;

	stratum->tuples += found->tuples;
	stratum->dead += found->dead;
	stratum->dead_bytes += found->dead_bytes;
	stratum->recently_dead += found->recently_dead;
	stratum->items += found->nitems;
	stratum->dead_pages += found->dead > 0;
	stratum->item_pages += found->nitems > 0;
	stratum->freeze_pages += found->freezes;
	stratum->hint_pages += found->lacks_hints;
	stratum->visible_pages += found->all_visible &&
		(found->nitems == 0 || state->vac->plan.nindexes == 0);
	stratum->young_pages += found->young;
	gone->hits += rows > 0;
	gone->rows += rows;
	gone->squares += rows * rows;
	gone->room = Max(gone->room, found->tuples + found->stubs);
}

/*
 * Read one page of a sample, and add it up.
 *
 * A vacuum learns from the page as it is after pruning how alike the pages are
 * (engine/sample.c), and nothing from new and empty pages.  So the space of the
 * tuples that it will remove counts as free.
 */
static void
sample_page(PvSurveyState *state, PvStratum *stratum, BlockNumber blkno)
{
	Buffer		buf = pv_survey_read_page(state->rel, blkno, state->redo,
										  &state->state);
	Page		page = BufferGetPage(buf);
	bool		is_used = !PageIsNew(page) && !PageIsEmpty(page);
	PageFindings found;
	Size		space;

	look_at_page(state, buf, &found);
	if (PageIsNew(page))
		found.all_visible = false;
	space = is_used ? PageGetHeapFreeSpace(page) + found.dead_bytes : 0;
	UnlockReleaseBuffer(buf);

	add_findings(state, &found, stratum);
	if (is_used)
		pv_sample_add_page(&stratum->sums,
						   (uint8) (Min(space, BLCKSZ - 1) * 256 / BLCKSZ),
						   found.tuples - found.dead);
	if (found.nitems > 0 && state->build->nblocks < PV_SEGMENT_BLOCKS)
		pv_segment_add(state->build, state->build->nblocks, found.items,
					   found.nitems);
}

/* Read the pages of a sample, which are in the order of the table. */
void
pv_survey_heap_pages(PvSurveyState *state, PvStratum *stratum)
{
	for (int i = 0; i < stratum->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		sample_page(state, stratum, stratum->blocks[i]);
	}
	stratum->gone.pages = stratum->pages;
	stratum->gone.sampled = stratum->n;
}
