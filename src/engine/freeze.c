/*-------------------------------------------------------------------------
 *
 * freeze.c
 *	  Whether to freeze a whole page, and the freeze plans for that.
 *
 * Leader and workers run this, with a cleanup lock on the page.
 *
 *	 PG 16 on	A page is frozen as a whole if it becomes all-frozen by that, and
 *				either something on it has to be frozen anyway, or a full-page
 *				image of it was just logged or will be: for pruning or, with
 *				checksums, for a hint bit.  Where something has to be frozen
 *				but the page cannot become all-frozen, everything that can be
 *				is frozen.  Core has the same rules.
 *	 PG 15		A page is frozen as a whole if something on it has to be frozen,
 *				it becomes all-frozen, and the freeze record has a full-page
 *				image, because nothing is pruned before it.  Otherwise what is
 *				older than FreezeLimit is frozen, as by core.
 *
 * The reason for the difference is the size of the WAL record.  From PG 16 on
 * the freeze plans of many tuples share a few bytes.  In PG 15 the plan of
 * each tuple has twelve bytes, but a record with a full-page image has no
 * plans.
 *
 * Core: access/heap/vacuumlazy.c (16), lazy_scan_prune;
 * access/heap/pruneheap.c (17), heap_page_prune_and_freeze.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"

#include "engine/prune.h"

/*
 * Plan to freeze everything that can be frozen in tuples that stay.  The page
 * may become all-frozen by that.
 *
 * With "whole" the page is all-visible except for its dead items, so every
 * inserter is older than OldestXmin.  Return false then if some tuple cannot
 * be frozen completely or, before PG 16, has a multixact, because freezing
 * would replace it by a new multixact there.
 */
bool
pv_plan_freezing_page(PvPagePruneState *state, bool whole)
{
	PvParticipant *self = state->self;
	PvVisibility *vis = &state->result->vis;
	Page		page = BufferGetPage(state->buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	bool		all_frozen = true;

	pv_forget_freezing(state);
	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff;
		 offnum = OffsetNumberNext(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);
		HeapTupleHeader htup;

		if (!ItemIdIsNormal(itemid) ||
			state->action[offnum] >= PV_LP_DEAD_IN_CHAIN)
			continue;
		htup = (HeapTupleHeader) PageGetItem(page, itemid);
		if (whole && pv_tuple_is_plainly_live(htup))
		{
			if (!HeapTupleHeaderXminFrozen(htup))
			{
				pv_prepare_freeze_xmin(htup, &state->frozen[state->nfrozen],
									   &state->newest_frozen);
				state->frozen[state->nfrozen++].offset = offnum;
			}
			continue;
		}
		self->errinfo.offnum = offnum;
		all_frozen &= (PV_FREEZES_WHOLE_PAGES ||
					   !(htup->t_infomask & HEAP_XMAX_IS_MULTI)) &&
			pv_plan_freezing(state, htup, offnum,
							 self->shared->plan.cutoffs.OldestXmin);
		if (whole && !all_frozen)
			return false;
	}
	self->errinfo.offnum = InvalidOffsetNumber;
	vis->all_frozen = vis->all_visible && all_frozen;
	return true;
}

/*
 * Will the next WAL record of a change to this page have a full-page image?
 *
 * Core's function answers for the last record of this process.  It says no in
 * a process that has logged nothing yet, or nothing since the last checkpoint
 * began.  So compare the page's LSN with the current redo pointer as well.  A
 * wrong answer only costs bytes.
 */
static bool
image_is_due(Buffer buf)
{
	return XLogCheckBufferNeedsBackup(buf) ||
		(fullPageWrites && PageGetLSN(BufferGetPage(buf)) <= GetRedoRecPtr());
}

/*
 * Is it cheap to freeze the whole page, compared with freezing nothing or a
 * part of it?  The rules are at the top of this file.
 */
bool
pv_freezing_page_is_cheap(const PvPagePruneState *state)
{
	bool		must_freeze = state->nfrozen > 0;
	bool		is_logged = RelationNeedsWAL(state->self->rel);
	bool		is_changed = pv_plan_changes_page(&state->plan);

	if (!PV_FREEZES_WHOLE_PAGES)
		return must_freeze &&
			(!is_logged || (!is_changed && image_is_due(state->buf)));

	/* Core freezes in a record of its own if an image was logged or will be */
	if (must_freeze || state->imaged ||
		(PV_FREEZES_FOR_CHECKED_IMAGE && is_logged && is_changed))
		return true;

	/* Will a record be logged, for the plan or for the page's hints? */
	return is_logged &&
		(is_changed || pv_frees_dead_items(state) ||
		 (XLogHintBitIsNeeded() && pv_page_hints_change(state))) &&
		image_is_due(state->buf);
}
