/*-------------------------------------------------------------------------
 *
 * prune.c
 *	  Pruning and freezing one heap page in the first heap pass.
 *
 * Leader and workers run this, with a cleanup lock on the page.
 *
 * One loop over the line pointers classifies each tuple.  On most pages nearly
 * all tuples have the same inserter, and nearly all dead tuples the same
 * deleter.  So the last XID of each kind is remembered, and a tuple with the
 * same XID and the matching hint bits is classified without a function call.
 *
 *	 live	xmin hinted committed and equal to known_live_xmin; no xmax
 *	 dead	xmin hinted committed; xmax equal to known_dead_xmax, a deletion
 *	 other	by HeapTupleSatisfiesVacuumHorizon(), and core's freeze plan
 *
 * A dead tuple that is in no HOT chain leaves a dead line pointer.  HOT chains
 * with dead tuples are followed from their roots (engine/hot_chain.c).  If the
 * table has no indexes, PG 17 sets the line pointers of dead tuples unused
 * with the same WAL record.
 *
 * The changes are logged with core's own WAL record.  Core's function prunes a
 * page on which a chain has a dead tuple after one that is still visible to a
 * transaction, or a dead tuple has no root.  Then it is classified again.
 *
 * Each tuple is classified once.  A transaction that was in progress then may
 * have aborted before the page is changed.  This is harmless: its XID is not
 * older than OldestXmin, so the tuple is not frozen, and keeps the page from
 * being set all-visible.  The next vacuum removes it.  PG 17 does the same;
 * earlier versions prune such a page again.
 *
 * Core: access/heap/pruneheap.c, heap_page_prune; access/heap/vacuumlazy.c
 * (15), lazy_scan_prune.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "executor/instrument.h"

#include "engine/prune.h"

/*
 * Is this inserter older than every snapshot?  Up to PG 18 OldestXmin decides.
 * From PG 19 on the current horizon does, which may be newer.
 */
static bool
inserter_is_past(const PvPagePruneState *state, TransactionId xmin)
{
	if (PV_MAP_BY_HORIZON)
		return !TransactionIdIsNormal(xmin) ||
			pv_xid_is_removable(state->self->vistest, xmin, true);
	return TransactionIdPrecedes(xmin,
								 state->self->shared->plan.cutoffs.OldestXmin);
}

/*
 * Adjust the page's visibility to the inserter of a live tuple.
 *
 * The page stays all-visible only if the inserter is hinted committed and is
 * older than every snapshot.  From PG 19 on that is asked for the newest
 * inserter, when all tuples are known.  The hint is required because the
 * commit record may not be on disk yet, if the inserter committed
 * asynchronously, or if its commit LSN is stored together with that of one
 * that did.  If the page is changed here, WAL guarantees that the commit
 * record is on disk before the page is.  Otherwise the page is checked again
 * after a flush, if nothing else is missing.
 */
static void
note_live_xmin(PvPagePruneState *state, HeapTupleHeader htup)
{
	PvVisibility *vis = &state->result->vis;
	TransactionId xmin = HeapTupleHeaderGetXmin(htup);

	if (!HeapTupleHeaderXminCommitted(htup) && inserter_is_past(state, xmin))
	{
		vis->all_visible = false;
		state->result->recheck = true;
		state->result->commits_end = Max(state->result->commits_end,
										 TransactionIdGetCommitLSN(xmin));
	}
	else if (!HeapTupleHeaderXminCommitted(htup) ||
			 (!PV_MAP_BY_HORIZON && !inserter_is_past(state, xmin)))
		vis->all_visible = false;
	else if (TransactionIdIsNormal(xmin) &&
			 TransactionIdFollows(xmin, vis->conflict_horizon))
		vis->conflict_horizon = xmin;
}

/*
 * If this tuple is plainly live and freezing would not change its header,
 * account for it and return true.  It needs neither a visibility check nor a
 * freeze plan.  If false is returned, the slow path has to classify the tuple.
 */
static inline bool
account_plainly_live(PvPagePruneState *state, HeapTupleHeader htup)
{
	const PvCutoffs *cutoffs = &state->self->shared->plan.cutoffs;
	TransactionId xmin;

	if (!pv_tuple_is_plainly_live(htup))
		return false;

	/* If it is frozen or bootstrapped the cutoffs do not matter */
	xmin = HeapTupleHeaderGetXmin(htup);
	if (xmin == state->known_live_xmin || !TransactionIdIsNormal(xmin))
		return true;
	if (TransactionIdPrecedes(xmin, cutoffs->relfrozenxid) ||
		TransactionIdPrecedes(xmin, cutoffs->FreezeLimit))
		return false;

	/* Another inserter that is not to be frozen */
	note_live_xmin(state, htup);
	if (TransactionIdPrecedes(xmin, state->relfrozenxid))
		state->relfrozenxid = xmin;
	state->result->vis.all_frozen = false;
	state->known_live_xmin = xmin;
	return true;
}

/*
 * If this tuple lacks only the hint bit, and its inserter is hinted in another
 * tuple of the page, set the hint bit and return true.  The condition for the
 * hint, that the commit record is on disk or precedes the page's LSN, holds
 * for the whole page.
 */
static inline bool
account_hintable(PvPagePruneState *state, HeapTupleHeader htup)
{
	const uint16 mask = HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID |
		HEAP_XMAX_IS_MULTI | HEAP_MOVED;

	if ((htup->t_infomask & mask) != HEAP_XMAX_INVALID ||
		HeapTupleHeaderGetRawXmax(htup) != InvalidTransactionId ||
		!TransactionIdIsValid(state->known_live_xmin) ||
		HeapTupleHeaderGetRawXmin(htup) != state->known_live_xmin)
		return false;
	htup->t_infomask |= HEAP_XMIN_COMMITTED;
	state->hinted = true;
	return true;
}

/*
 * Did one transaction delete or update this tuple, or try to, and did its
 * inserter commit?
 */
static inline bool
tuple_is_plainly_deleted(HeapTupleHeader htup)
{
	const uint16 mask = HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID |
		HEAP_XMAX_IS_MULTI | HEAP_XMAX_LOCK_ONLY | HEAP_XMAX_EXCL_LOCK |
		HEAP_XMAX_KEYSHR_LOCK | HEAP_MOVED;

	return (htup->t_infomask & mask) == HEAP_XMIN_COMMITTED;
}

static inline bool
tuple_is_in_chain(HeapTupleHeader htup)
{
	return (htup->t_infomask2 & (HEAP_ONLY_TUPLE | HEAP_HOT_UPDATED)) != 0;
}

/* Account for a dead tuple whose XIDs are already in the conflict horizon. */
static inline void
note_dead_tuple(PvPagePruneState *state, HeapTupleHeader htup,
				OffsetNumber offnum)
{
	state->ndead_tuples++;
	if (likely(!tuple_is_in_chain(htup)))
		pv_plan_removal(state, offnum);
	else
	{
		state->action[offnum] = PV_LP_DEAD_IN_CHAIN;
		state->chains_to_prune = true;
	}
}

/*
 * Account for the XIDs of a dead tuple.  Its removal conflicts with snapshots
 * on standbys that may see it.  Remember the deleter, because other tuples
 * with the same one are dead too.
 *
 * A tuple that was deleted by its own inserter was never visible to another
 * transaction.  So its deleter is not in the conflict horizon, and must not be
 * remembered, because it may be needed there for other tuples.
 */
static void
note_dead_xids(PvPagePruneState *state, HeapTupleHeader htup)
{
	pv_advance_conflict_horizon(htup, &state->plan.removed_xid);
	if (tuple_is_plainly_deleted(htup) &&
		HeapTupleHeaderGetXmin(htup) != HeapTupleHeaderGetRawXmax(htup))
		state->known_dead_xmax = HeapTupleHeaderGetRawXmax(htup);
}

/*
 * Account for a tuple that may become dead soon, or visible to all.  The
 * page's hint for pruning will have the XID that has to end first.
 */
static void
note_prunable(PvPagePruneState *state, TransactionId xid, OffsetNumber offnum)
{
	state->first_prunable = offnum; /* the loop goes downwards */
	if (!TransactionIdIsValid(state->prune_xid) ||
		TransactionIdPrecedes(xid, state->prune_xid))
		state->prune_xid = xid;
	state->result->vis.all_visible = false;
}

/*
 * Return the status of a tuple that needs a visibility check.  A tuple that is
 * dead by OldestXmin must be reported as dead.  Beyond that the process's own
 * horizon decides, which may be newer.
 *
 * Core: access/heap/pruneheap.c, heap_prune_satisfies_vacuum.
 */
static HTSV_Result
tuple_status(const PvPagePruneState *state, HeapTuple tuple)
{
	PvParticipant *self = state->self;
	TransactionId dead_after;
	HTSV_Result action =
		HeapTupleSatisfiesVacuumHorizon(tuple, state->buf, &dead_after);

	if (action == HEAPTUPLE_RECENTLY_DEAD &&
		(TransactionIdPrecedes(dead_after,
							   self->shared->plan.cutoffs.OldestXmin) ||
		 (!state->core_pruned &&
		  pv_xid_is_removable(self->vistest, dead_after, true))))
		return HEAPTUPLE_DEAD;
	return action;
}

/* Classify a tuple by a full visibility check. */
static void
classify_tuple(PvPagePruneState *state, ItemId itemid, HeapTupleHeader htup,
			   OffsetNumber offnum)
{
	PvPageResult *result = state->result;
	HeapTupleData tuple;

	state->self->errinfo.offnum = offnum;
	tuple.t_data = htup;
	tuple.t_len = ItemIdGetLength(itemid);
	tuple.t_tableOid = RelationGetRelid(state->self->rel);
	ItemPointerSet(&tuple.t_self, state->blkno, offnum);

	switch (tuple_status(state, &tuple))
	{
		case HEAPTUPLE_DEAD:
			note_dead_xids(state, htup);
			note_dead_tuple(state, htup, offnum);
			return;
		case HEAPTUPLE_LIVE:
			result->live_tuples++;
			result->hastup = true;
			/* It may have its hint now */
			if (account_plainly_live(state, htup))
				return;
			note_live_xmin(state, htup);
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			result->recently_dead_tuples++;
			note_prunable(state, HeapTupleHeaderGetUpdateXid(htup), offnum);
			if (tuple_is_in_chain(htup))
				state->action[offnum] = PV_LP_STAYS_RECENTLY_DEAD;
			break;
		case HEAPTUPLE_DELETE_IN_PROGRESS:

			/*
			 * The deleter reports the deletion to the statistics when it
			 * commits.  Until then the tuple counts as live, as in ANALYZE.
			 */
			result->live_tuples++;
			note_prunable(state, HeapTupleHeaderGetUpdateXid(htup), offnum);
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			/* Likewise, the inserter will report it */
			result->vis.all_visible = false;
			if (PV_INSERTS_ARE_PRUNABLE)
				note_prunable(state, HeapTupleHeaderGetXmin(htup), offnum);
			break;
	}

	result->hastup = true;
	if (!pv_plan_freezing(state, htup, offnum,
						  state->self->shared->plan.cutoffs.FreezeLimit))
		result->vis.all_frozen = false;
}

static void
begin_page(PvPagePruneState *state, OffsetNumber maxoff)
{
	PvPageResult *result = state->result;

	memset(result, 0, offsetof(PvPageResult, room));
	result->vis.all_visible = true;
	result->vis.all_frozen = true;
	result->deadoffsets = result->room + lengthof(result->room);

	memset(state->action, PV_LP_STAYS,
		   (maxoff + 1) * sizeof(state->action[0]));
	state->chains_to_prune = false;
	state->ndead_tuples = 0;
	state->hinted = false;
	state->known_live_xmin = InvalidTransactionId;
	state->known_dead_xmax = InvalidTransactionId;
	pv_forget_freezing(state);
	state->plan.removed_xid = InvalidTransactionId;
	state->plan.nredirected = 0;
	state->plan.nunused = 0;
	state->plan.dead = state->room + lengthof(state->room);
	state->prune_xid = InvalidTransactionId;
	state->first_prunable = InvalidOffsetNumber;
	state->last_dead_item = InvalidOffsetNumber;
}

/*
 * Classify everything on the page, and plan its pruning.  Return false if core
 * has to prune it.
 *
 * Tuples are usually stored in the opposite order of their line pointers.  So
 * the loop goes from the last line pointer to the first, in order to access
 * memory at increasing addresses.
 */
static bool
plan_pruning(PvPagePruneState *state)
{
	Page		page = BufferGetPage(state->buf);
	PvPageResult *result = state->result;
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);

	begin_page(state, maxoff);
	for (OffsetNumber offnum = maxoff; offnum >= FirstOffsetNumber;
		 offnum = OffsetNumberPrev(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);
		HeapTupleHeader htup;

		if (!ItemIdIsNormal(itemid))
		{
			/*
			 * A dead line pointer will be unused before truncation is
			 * considered, so it does not prevent truncation.
			 */
			if (ItemIdIsDead(itemid))
			{
				*--result->deadoffsets = offnum;
				state->last_dead_item = Max(state->last_dead_item, offnum);
			}
			else if (ItemIdIsRedirected(itemid) &&
					 pv_redirect_is_broken(page, itemid))
				state->chains_to_prune = true;
			continue;
		}

		htup = (HeapTupleHeader) PageGetItem(page, itemid);
		if (account_plainly_live(state, htup) || account_hintable(state, htup))
		{
			result->live_tuples++;
			result->hastup = true;
		}
		else if (tuple_is_plainly_deleted(htup) &&
				 TransactionIdIsValid(state->known_dead_xmax) &&
				 HeapTupleHeaderGetRawXmax(htup) == state->known_dead_xmax)
			note_dead_tuple(state, htup, offnum);
		else
			classify_tuple(state, itemid, htup, offnum);
	}
	state->self->errinfo.offnum = InvalidOffsetNumber;
	if (state->hinted)
		MarkBufferDirtyHint(state->buf, true);

	if (state->chains_to_prune &&
		(!pv_prune_chains(state) || !pv_list_actions(state)))
		return false;
	state->plan.ndead = state->room + lengthof(state->room) - state->plan.dead;
	result->lpdead_items = result->room + lengthof(result->room) -
		result->deadoffsets;
	return true;
}

/*
 * Make the plan for the page.  Let core prune it first, where that is
 * necessary.
 */
static void
plan_page(PvPagePruneState *state)
{
	PvParticipant *self = state->self;
	int64		images = pgWalUsage.wal_fpi;
	PvCorePruning done;

	for (int tries = 0; !plan_pruning(state); tries++)
	{
		state->imaged |= pgWalUsage.wal_fpi != images;

		/* Each attempt may meet another aborted transaction, but not forever */
		if (tries > MaxHeapTuplesPerPage)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("page %u of table \"%s.%s\" has dead row versions that cannot be removed",
							state->blkno, self->errinfo.relnamespace,
							self->errinfo.relname),
					 errhint("Check the table with verify_heapam() of the amcheck extension.")));
		pv_core_prune(self->rel, state->buf, state->vmbuffer,
					  &self->shared->plan.cutoffs, self->vistest,
					  self->nindexes > 0, &done, &self->errinfo.offnum);
		state->core_pruned = true;
		state->core_frozen += done.nfrozen;
		self->counters.tuples_removed += done.ndeleted;
		self->counters.new_visible_pages += done.new_visible;
		self->counters.new_visible_frozen_pages += done.new_visible_frozen;
		self->counters.new_frozen_pages += done.new_frozen;
		if (PV_PRUNING_FREEZES)
			images = pgWalUsage.wal_fpi;
	}
	state->imaged |= pgWalUsage.wal_fpi != images;
	if (PV_MAP_BY_HORIZON && state->result->vis.all_visible &&
		!inserter_is_past(state, state->result->vis.conflict_horizon))
		state->result->vis.all_visible = false;
}

/*
 * Plan to freeze the whole page if that is cheap.  Otherwise plan to freeze as
 * much as possible, from PG 16 on, if something has to be frozen.
 */
static void
consider_freezing_more(PvPagePruneState *state)
{
	PvVisibility *vis = &state->result->vis;

	/* An inserter that is visible to all may be too new to be frozen */
	if (vis->all_visible &&
		(!PV_MAP_BY_HORIZON || !TransactionIdIsNormal(vis->conflict_horizon) ||
		 TransactionIdPrecedes(vis->conflict_horizon,
							   state->self->shared->plan.cutoffs.OldestXmin)))
	{
		if (vis->all_frozen || !pv_freezing_page_is_cheap(state) ||
			pv_plan_freezing_page(state, true))
			return;
		plan_page(state);
	}
	if (PV_FREEZES_WHOLE_PAGES && state->nfrozen > 0)
		(void) pv_plan_freezing_page(state, false);
}

/*
 * Find something on the page that an all-visible page must not have.  Core
 * reports what it finds first: the last line pointer that was dead before,
 * else the first one that becomes dead or whose tuple is not visible to all.
 * In a table without indexes dead line pointers do no harm, because they are
 * set unused now.
 */
static PvMapDoubt
doubt_of(const PvPagePruneState *state)
{
	OffsetNumber prunable = state->first_prunable;
	const OffsetNumber *dead = state->plan.dead;
	PvMapDoubt	doubt = {PV_MAP_NO_DOUBT, prunable};

	if (OffsetNumberIsValid(prunable))
		doubt.kind = PV_MAP_HAS_INVISIBLE;
	if (state->plan.ndead > 0 &&
		(!OffsetNumberIsValid(prunable) || dead[0] < prunable))
	{
		doubt.kind = PV_MAP_HAS_DEAD_ITEMS;
		doubt.offnum = dead[0];
	}
	if (OffsetNumberIsValid(state->last_dead_item) &&
		!pv_frees_dead_items(state))
	{
		doubt.kind = PV_MAP_HAS_DEAD_ITEMS;
		doubt.offnum = state->last_dead_item;
	}
	return doubt;
}

/*
 * Repair the page's bits before its changes are planned, as core does from PG
 * 19 on.  The image that this may log is a reason to freeze the page.
 */
static void
repair_map(PvPagePruneState *state)
{
	int64		images = pgWalUsage.wal_fpi;

	if (!PV_PRUNING_SETS_MAP)
		return;
	pv_page_repair_map(state->self, state->buf, state->blkno, state->vmbuffer,
					   doubt_of(state));
	state->imaged |= pgWalUsage.wal_fpi != images;
}

/*
 * Plan to set the visibility map in the record that changes the page, if that
 * can be done.  What has to be rechecked waits until the page is changed.
 */
static void
plan_map(PvPagePruneState *state, PvMapChange *map)
{
	PvPageResult *result = state->result;

	map->flags = 0;
	if (!PV_PRUNING_SETS_MAP)
		return;

	if (result->lpdead_items > 0 && !result->marked_unused)
		result->vis.all_visible = false;
	else if (result->recheck)
		return;
	pv_page_plan_map(state->self, state->buf, state->blkno, state->vmbuffer,
					 &result->vis, map);
	result->map_is_done = true;
}

/*
 * Apply the plan to the page and log it, or set only the page's hints: the XID
 * from which on pruning may be worthwhile, and that it may have free space.
 */
static void
change_page(PvPagePruneState *state, const PvMapChange *map)
{
	Page		page = BufferGetPage(state->buf);
	const PvVisibility *vis = &state->result->vis;
	bool		more_than_hints = pv_plan_changes_page(&state->plan) ||
		state->nfrozen > 0 || map->flags != 0;
	TransactionId freeze_horizon;

	if (!more_than_hints && !pv_page_hints_change(state))
		return;
	freeze_horizon = pv_freeze_horizon(&state->self->shared->plan.cutoffs,
									   vis->all_visible && vis->all_frozen,
									   vis->conflict_horizon,
									   state->newest_frozen);
	((PageHeader) page)->pd_prune_xid = state->prune_xid;
	PageClearFull(page);
	if (more_than_hints)
		pv_prune_and_freeze(state->self->rel, state->buf, &state->plan,
							freeze_horizon, state->frozen, state->nfrozen,
							map);
	else
		MarkBufferDirtyHint(state->buf, true);
	pv_page_count_map(state->self, map);
}

/*
 * Prune one heap page and freeze old tuples on it.
 *
 * The caller holds a pin and a cleanup lock, and keeps both, and a pin on the
 * page of the visibility map.  From PG 19 on the map is updated with the page,
 * unless the result says that this has to be done later.  The participant's
 * trackers NewRelfrozenXid and NewRelminMxid move back to the oldest values
 * that remain on the page.
 */
void
pv_prune_freeze_page(PvParticipant *self, Buffer buf, BlockNumber blkno,
					 Buffer vmbuffer, PvPageResult *result)
{
	PvPagePruneState state;
	PvPrunePlan *plan = &state.plan;
	PvMapChange map;

	memset(&state, 0, offsetof(PvPagePruneState, action));
	state.self = self;
	state.buf = buf;
	state.blkno = blkno;
	state.vmbuffer = vmbuffer;
	state.result = result;

	plan_page(&state);
	repair_map(&state);
	consider_freezing_more(&state);
	if (pv_frees_dead_items(&state))
	{
		memcpy(plan->unused + plan->nunused, result->deadoffsets,
			   result->lpdead_items * sizeof(OffsetNumber));
		plan->nunused += result->lpdead_items;
		plan->ndead = 0;
		result->marked_unused = true;
	}
	plan_map(&state, &map);
	change_page(&state, &map);

	self->counters.tuples_removed += state.ndead_tuples;
	self->counters.frozen_pages += state.nfrozen + state.core_frozen > 0;
	self->counters.tuples_frozen += state.nfrozen + state.core_frozen;
	self->counters.NewRelfrozenXid = state.relfrozenxid;
	self->counters.NewRelminMxid = state.relminmxid;
}
