/*-------------------------------------------------------------------------
 *
 * hot_chain.c
 *	  Pruning of HOT chains.
 *
 * Leader and workers run this, with a cleanup lock on the page, once for a
 * page on which some tuples in HOT chains are dead.  Each chain is followed
 * from its root:
 *
 *	 root -> dead -> dead -> stays	the root is redirected to what stays
 *	 root -> dead -> dead			the root becomes a dead line pointer
 *	 dead tuples after the root		their line pointers become unused, because
 *									only the chain leads to them
 *
 * A redirected root that leads to no tuple of a chain is damage.  Its index
 * entries would lead to the next row that gets the place of its target.  So it
 * becomes dead, and the entries are removed.
 *
 * Core: access/heap/pruneheap.c, heap_prune_chain.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"

#include "engine/prune.h"

/* Return the tuple at an offset, or NULL if there is none. */
static HeapTupleHeader
tuple_at(Page page, OffsetNumber offnum)
{
	ItemId		itemid;

	if (offnum < FirstOffsetNumber || offnum > PageGetMaxOffsetNumber(page))
		return NULL;
	itemid = PageGetItemId(page, offnum);
	return ItemIdIsNormal(itemid) ?
		(HeapTupleHeader) PageGetItem(page, itemid) : NULL;
}

/*
 * Return the tuple at an offset, if it belongs to the chain of the root and an
 * update of prior_xmax created it, else NULL.  For the first tuple prior_xmax
 * is invalid.
 */
static HeapTupleHeader
next_in_chain(Page page, OffsetNumber root, OffsetNumber offnum,
			  TransactionId prior_xmax)
{
	HeapTupleHeader htup = tuple_at(page, offnum);

	if (htup == NULL ||
		(offnum != root && !HeapTupleHeaderIsHeapOnly(htup)) ||
		(TransactionIdIsValid(prior_xmax) &&
		 HeapTupleHeaderGetXmin(htup) != prior_xmax))
		return NULL;
	return htup;
}

/*
 * Follow the chain of a root over its dead tuples.  The chain begins at
 * offnum, which is the root itself or the target of its redirection.  The line
 * pointers of dead tuples become unused.  Set *stays to the first tuple that
 * stays, or to InvalidOffsetNumber.  Return false if core has to prune the
 * page.  A chain without an end is an error.
 *
 * Dead tuples can follow a tuple that is still visible only if the visibility
 * test was not exact, which is rare.
 */
static bool
follow_chain(PvPagePruneState *state, OffsetNumber root, OffsetNumber offnum,
			 OffsetNumber *stays)
{
	Page		page = BufferGetPage(state->buf);
	TransactionId prior_xmax = InvalidTransactionId;
	HeapTupleHeader htup;
	int			length = 0;

	*stays = InvalidOffsetNumber;
	while ((htup = next_in_chain(page, root, offnum, prior_xmax)) != NULL)
	{
		uint8		action = state->action[offnum];

		if (++length > MaxHeapTuplesPerPage)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("page %u of table \"%s.%s\" has a chain of row versions that does not end",
							state->blkno, state->self->errinfo.relnamespace,
							state->self->errinfo.relname),
					 errhint("Check the table with verify_heapam() of the amcheck extension.")));
		if (action == PV_LP_DEAD_IN_CHAIN && !OffsetNumberIsValid(*stays))
			state->action[offnum] = PV_LP_BECOMES_UNUSED;
		else if (action != PV_LP_STAYS && action != PV_LP_STAYS_RECENTLY_DEAD)
			return false;		/* dead, or in two chains */
		else if (!OffsetNumberIsValid(*stays))
			*stays = offnum;

		if (action == PV_LP_STAYS || !HeapTupleHeaderIsHotUpdated(htup))
			return true;
		prior_xmax = HeapTupleHeaderGetUpdateXid(htup);
		offnum = ItemPointerGetOffsetNumber(&htup->t_ctid);
	}
	return true;
}

/*
 * Set the action for the root of a chain whose first tuples are removed: it is
 * redirected to the first tuple that stays, or becomes dead.
 */
static void
plan_root(PvPagePruneState *state, OffsetNumber root, OffsetNumber stays)
{
	state->action[root] = stays ? PV_LP_BECOMES_REDIRECT : PV_LP_BECOMES_DEAD;
	if (stays)
		pv_plan_redirect(&state->plan, root, stays);
}

/* Plan the pruning of a chain whose root is a tuple. */
static bool
prune_chain(PvPagePruneState *state, OffsetNumber root)
{
	OffsetNumber stays;

	if (state->action[root] == PV_LP_STAYS ||
		state->action[root] == PV_LP_BECOMES_DEAD)
		return true;
	if (!follow_chain(state, root, root, &stays))
		return false;
	if (state->action[root] == PV_LP_BECOMES_UNUSED)
		plan_root(state, root, stays);
	return true;
}

/* Does a redirected line pointer lead to no tuple of a chain? */
bool
pv_redirect_is_broken(Page page, ItemId root)
{
	HeapTupleHeader htup = tuple_at(page, ItemIdGetRedirect(root));

	return htup == NULL || !HeapTupleHeaderIsHeapOnly(htup);
}

/*
 * Plan the pruning of a chain whose root is a redirected line pointer.
 *
 * A broken redirection may lead to the root of another chain.  If that root
 * stays, both stay: maybe its tuple has lost its mark, and nothing else leads
 * to it.  If it is removed, whatever leads to it has to be removed as well.  A
 * redirection with a length is removed too, as core would take it for a tuple.
 */
static bool
prune_redirect(PvPagePruneState *state, OffsetNumber root)
{
	Page		page = BufferGetPage(state->buf);
	ItemId		itemid = PageGetItemId(page, root);
	OffsetNumber target = ItemIdGetRedirect(itemid);
	OffsetNumber stays;

	if (pv_redirect_is_broken(page, itemid))
	{
		if (tuple_at(page, target) == NULL || ItemIdHasStorage(itemid) ||
			(state->action[target] != PV_LP_STAYS &&
			 state->action[target] != PV_LP_STAYS_RECENTLY_DEAD))
			plan_root(state, root, InvalidOffsetNumber);
		return true;
	}
	if (!follow_chain(state, root, target, &stays))
		return false;
	if (stays == target)
		return true;
	if (state->action[target] != PV_LP_BECOMES_UNUSED)
		return false;			/* it is in two chains */
	plan_root(state, root, stays);
	return true;
}

/* Follow all HOT chains of the page.  Return false if core has to prune it. */
bool
pv_prune_chains(PvPagePruneState *state)
{
	Page		page = BufferGetPage(state->buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);

	for (OffsetNumber root = FirstOffsetNumber; root <= maxoff;
		 root = OffsetNumberNext(root))
	{
		HeapTupleHeader htup = tuple_at(page, root);

		if (htup != NULL)
		{
			if (!HeapTupleHeaderIsHeapOnly(htup) && !prune_chain(state, root))
				return false;
		}
		else if (ItemIdIsRedirected(PageGetItemId(page, root)) &&
				 !prune_redirect(state, root))
			return false;
	}
	return true;
}

/*
 * Remove a tuple of an aborted update, to which no chain leads.  Return false
 * if the tuple has a successor.
 */
static bool
prune_stray(PvPagePruneState *state, OffsetNumber offnum)
{
	HeapTupleHeader htup = tuple_at(BufferGetPage(state->buf), offnum);

	state->action[offnum] = PV_LP_BECOMES_UNUSED;
	return HeapTupleHeaderIsHeapOnly(htup) &&
		!HeapTupleHeaderIsHotUpdated(htup);
}

/*
 * Make the lists of actions again after the chains were followed: line
 * pointers that become dead, in descending order, and those that become
 * unused.  Return false if core has to remove a dead tuple.
 */
bool
pv_list_actions(PvPagePruneState *state)
{
	Page		page = BufferGetPage(state->buf);
	PvPageResult *result = state->result;

	state->plan.dead = state->room + lengthof(state->room);
	result->deadoffsets = result->room + lengthof(result->room);

	for (OffsetNumber offnum = PageGetMaxOffsetNumber(page);
		 offnum >= FirstOffsetNumber; offnum = OffsetNumberPrev(offnum))
	{
		if (state->action[offnum] == PV_LP_DEAD_IN_CHAIN &&
			!prune_stray(state, offnum))
			return false;

		if (state->action[offnum] == PV_LP_BECOMES_UNUSED)
			state->plan.unused[state->plan.nunused++] = offnum;
		else if (state->action[offnum] == PV_LP_BECOMES_DEAD)
			pv_plan_removal(state, offnum);
		else if (ItemIdIsDead(PageGetItemId(page, offnum)))
			*--result->deadoffsets = offnum;
	}
	return true;
}
