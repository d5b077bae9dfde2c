/*-------------------------------------------------------------------------
 *
 * survey_index.c
 *	  What is in the indexes of a table, for the plan of a vacuum.
 *
 * Part of the survey; see engine/survey.c, also for the locks.  Of each index
 * a few pages are read.  In a B-tree they show whether the index has the order
 * of the table: then dead rows that are together in the table are together in
 * the index as well, on few pages.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "engine/survey_state.h"

/* Pages that are read of each index */
#define SAMPLE_INDEX			16

/*
 * An index has a predicate.  The expression is not looked at, because core
 * simplifies it then, which may run functions of the owner.
 */
static bool
is_partial(Relation indrel)
{
	return !heap_attisnull(indrel->rd_indextuple, Anum_pg_index_indpred, NULL);
}

/* Which part of the table do the entries of an index page point to? */
typedef struct Spread
{
	int			leaves;			/* pages looked at */
	double		hit;			/* sum of the chances to have an entry to be
								 * removed */
	double		share;			/* sum of the shares of the table */
} Spread;

/* Sum up one page, by the number of heap blocks and the distance of the outer */
static void
add_spread(const PvForecastInput *input, double blocks, double distance,
		   Spread *spread)
{
	double		rel_pages = Max(input->rel_pages, 1);
	double		share = Min(input->item_pages / rel_pages, 1);

	spread->leaves++;
	spread->hit += 1 - pow(1 - share, Min(blocks, rel_pages));
	spread->share += Min(distance / rel_pages, 1);
}

/*
 * Look at the heap TIDs on a leaf of a B-tree, which is locked.  An index in
 * about the order of the table has few blocks on each leaf.  A page that is
 * none of a B-tree is passed over.
 *
 * Core: access/nbtree/nbtpage.c, _bt_checkpage, which raises an error.
 */
static void
look_at_leaf(const PvForecastInput *input, Page page, Spread *spread)
{
	BTPageOpaque opaque;
	BlockNumber lowest = MaxBlockNumber,
				highest = 0,
				last = InvalidBlockNumber;
	OffsetNumber maxoff;
	int			changes = 0;

	if (PageIsNew(page) ||
		PageGetSpecialSize(page) != MAXALIGN(sizeof(BTPageOpaqueData)))
		return;
	opaque = BTPageGetOpaque(page);
	if (!P_ISLEAF(opaque) || P_IGNORE(opaque))
		return;
	maxoff = PageGetMaxOffsetNumber(page);
	for (OffsetNumber offnum = P_FIRSTDATAKEY(opaque); offnum <= maxoff;
		 offnum = OffsetNumberNext(offnum))
	{
		IndexTuple	itup = (IndexTuple)
			PageGetItem(page, PageGetItemId(page, offnum));
		bool		is_posting = BTreeTupleIsPosting(itup);
		int			n = is_posting ? BTreeTupleGetNPosting(itup) : 1;

		for (int i = 0; i < n; i++)
		{
			ItemPointer tid = is_posting ? BTreeTupleGetPostingN(itup, i) :
				&itup->t_tid;
			BlockNumber blkno = ItemPointerGetBlockNumberNoCheck(tid);

			changes += blkno != last;
			last = blkno;
			lowest = Min(lowest, blkno);
			highest = Max(highest, blkno);
		}
	}
	if (changes > 0)
		add_spread(input, changes, (double) highest - lowest, spread);
}

/*
 * Read a sample of the pages of an index.
 */
static void
sample_index(PvSurveyState *state, Relation indrel, BlockNumber pages,
			 const PvForecastInput *input, PvForecastIndex *index)
{
	BlockNumber first = indrel->rd_rel->relam == BTREE_AM_OID ?
		BTREE_METAPAGE + 1 : 0;
	BlockNumber n = pages > first ? Min(pages - first, SAMPLE_INDEX) : 0;
	PvPageState sum = {0};
	Spread		spread = {0};

	for (BlockNumber k = 0; k < n; k++)
	{
		double		place = (k + pg_prng_double(&pg_global_prng_state)) / n;
		BlockNumber blkno = first + (BlockNumber) (place * (pages - first));
		Buffer		buf;

		CHECK_FOR_INTERRUPTS();
		buf = pv_survey_read_page(indrel, Min(blkno, pages - 1), state->redo,
								  &sum);
		if (first > 0)
			look_at_leaf(input, BufferGetPage(buf), &spread);
		UnlockReleaseBuffer(buf);
	}
	pv_survey_describe_pages(&sum, &index->state);

	/* elsewhere entries are taken to be in random order */
	if (spread.leaves == 0)
		add_spread(input, index->entries / Max(pages, 1),
				   input->rel_pages, &spread);
	index->hit = spread.hit / spread.leaves;
	index->spread = spread.share / spread.leaves;
}

/* What an index scan will find in one index. */
void
pv_survey_index(PvSurveyState *state, int i, const PvForecastInput *input,
				PvForecastIndex *index)
{
	Relation	indrel = state->vac->leader.indrels[i];
	BlockNumber pages = state->vac->leader.index_pages[i];
	double		rows = state->rel->rd_rel->reltuples;
	double		density = input->scan_pages > 0 ?
		input->tuples / input->scan_pages : 0;

	if (rows <= 0)
		rows = density * state->vac->plan.rel_pages;
	index->pages = pages;
	index->entries = indrel->rd_rel->reltuples;
	if (index->entries <= 0 && !is_partial(indrel))
		index->entries = rows;
	index->entries = Max(index->entries, 0);
	index->removed = input->dead_items;
	if (is_partial(indrel) && rows > 0)
		index->removed *= Min(index->entries / rows, 1);
	index->deletes = indrel->rd_rel->relam != BRIN_AM_OID;

	sample_index(state, indrel, pages, input, index);
}
