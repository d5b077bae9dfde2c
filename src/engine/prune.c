/*-------------------------------------------------------------------------
 *
 * prune.c
 *	  The first pass's work on the tuples of one page: prune and freeze.
 *
 * Leader and workers run this, with a cleanup lock on the page.
 *
 * One pass over the line pointers tells what each tuple is, and collects what
 * is to be done: tuples whose storage goes, tuples to be frozen.  On most pages
 * nearly all tuples have the same inserter, and the dead ones the same
 * deleter; so the last XID of each kind is remembered together with its fate,
 * and a tuple whose hint bits and XID say the same is settled without a call.
 *
 *	 live	xmin hinted committed, the one remembered;	no xmax
 *	 dead	xmin hinted committed;	xmax, the one remembered, deleted it
 *	 other	core's HeapTupleSatisfiesVacuumHorizon() and its freeze plan
 *
 * A dead tuple outside of HOT chains leaves a dead line pointer.  Where dead
 * tuples are in chains, each chain is followed from its root:
 *
 *	 root -> dead -> dead -> stays	the root is redirected to what stays
 *	 root -> dead -> dead			the root becomes a dead line pointer
 *	 dead in between				line pointers of tuples that only the chain
 *									leads to become unused
 *
 * Where no index leads to a dead tuple, PG 17 makes its line pointer unused with
 * the same record.
 *
 * Changes are made with the WAL record that core has for them.  A page with
 * anything out of the ordinary is core's to prune, and looked at again after
 * that: a chain with a dead tuple after one that somebody may still see, a dead
 * tuple that no root leads to.
 *
 * Each tuple is judged once, and what was in progress then may have aborted
 * when the page is changed.  That does no harm here: such a tuple has XIDs that
 * are not before OldestXmin, so it is not frozen, and it keeps the page from
 * being all-visible.  The next vacuum removes it.  (PG 17 does the same; before,
 * core pruned such a page once more.)
 *
 * Freezing is decided for the page.  From PG 16 on all of it is frozen if that makes
 * it all-frozen, and something on it has to be frozen anyway, or an image of the page
 * was logged just now or will be, for pruning or, with checksums, for a hint.  This is
 * core's rule.  The plans of many tuples have a few bytes of WAL together there.  Core
 * also freezes all that can be frozen where there is anything old; so do we.
 *
 * In PG 15 the plan of each tuple takes twelve bytes of WAL, but a record that has an
 * image of the page has no plans.  So where something has to be frozen, the whole page is
 * only if its record will have the image, because nothing is pruned before it.  Otherwise
 * what is older than FreezeLimit is frozen, as by core.
 *
 * Core: access/heap/pruneheap.c, heap_page_prune; access/heap/vacuumlazy.c
 * (15), lazy_scan_prune.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "executor/instrument.h"
#include "utils/rel.h"

#include "engine/prune.h"

/* The tuple's deleter, if it has one, may have committed; nothing is known of
 * the inserter but that it did */
#define NOT_PLAINLY_DELETED \
	(HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI | HEAP_XMAX_LOCK_ONLY | \
	 HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK | HEAP_MOVED)

/* What becomes of a line pointer; from DEAD_IN_CHAIN on, its tuple goes */
enum
{
	STAYS,
	STAYS_RECENTLY_DEAD,		/* in a chain */
	DEAD_IN_CHAIN,				/* to be decided when the chain is followed */
	BECOMES_DEAD,
	BECOMES_REDIRECT,
	BECOMES_UNUSED
};

/* The work on one page */
typedef struct PageExam
{
	PvParticipant *self;
	Buffer		buf;
	BlockNumber blkno;
	PvPageResult *result;

	/*
	 * Core has pruned the page.  Then nothing but OldestXmin says what is dead:
	 * a horizon that has moved on meanwhile could call a tuple dead for ever
	 * that core's pruning keeps.
	 */
	bool		core_pruned;
	int			core_frozen;	/* tuples that it has frozen */

	/*
	 * An image of the page was logged meanwhile, for the sake of a hint, or by
	 * core's pruning.  Where that freezes as well, it has heeded its own.
	 */
	bool		imaged;

	/* What becomes of each line pointer, by offset */
	uint8		fate[MaxHeapTuplesPerPage + 1];
	bool		dead_in_chain;	/* some were DEAD_IN_CHAIN */
	int			ndead_tuples;
	bool		hinted;			/* some got a hint bit here */

	/* The XIDs whose fate is known */
	TransactionId settled_xmin; /* committed, taken account of, stays as it is */
	TransactionId dead_xmax;	/* committed, removable, taken account of in
								 * the conflict horizon */

	/* Trackers for this page; copied out once the page is through */
	TransactionId relfrozenxid;
	MultiXactId relminmxid;

	/*
	 * The same as lists.  Offsets that become dead are in the last of the room,
	 * since they are found in descending order.
	 */
	PvPrunePlan plan;
	OffsetNumber room[MaxHeapTuplesPerPage];
	TransactionId prune_xid;	/* oldest XID that may make more tuples dead */

	int			nfrozen;
	PvFreezePlan frozen[MaxHeapTuplesPerPage];
} PageExam;

/*
 * A live tuple keeps the page all-visible only if its inserter is hinted
 * committed and older than every snapshot.  The hint matters: an inserter that
 * committed asynchronously, or shares a place in the commit log with one that did, may
 * not be on disk yet.  It will be before the page, if the page is changed here; else it
 * can be had there.  So if that is all, it is worth another look.
 */
static void
note_live_xmin(PageExam *exam, HeapTupleHeader htup)
{
	PvVisibility *vis = &exam->result->vis;
	TransactionId xmin = HeapTupleHeaderGetXmin(htup);

	if (!HeapTupleHeaderXminCommitted(htup) &&
		TransactionIdPrecedes(xmin, exam->self->shared->cutoffs.OldestXmin))
	{
		vis->all_visible = false;
		exam->result->look_again = true;
		exam->result->commits_end = Max(exam->result->commits_end,
										TransactionIdGetCommitLSN(xmin));
	}
	else if (!TransactionIdPrecedes(xmin, exam->self->shared->cutoffs.OldestXmin))
		vis->all_visible = false;
	else if (TransactionIdIsNormal(xmin) &&
			 TransactionIdFollows(xmin, vis->conflict_horizon))
		vis->conflict_horizon = xmin;
}

/*
 * Did the tuple's inserter commit, and has nobody else left an XID?
 */
static inline bool
tuple_is_plainly_live(HeapTupleHeader htup)
{
	const uint16 mask = HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID |
	HEAP_XMAX_IS_MULTI | HEAP_MOVED;

	return (htup->t_infomask & mask) == (HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID) &&
		HeapTupleHeaderGetRawXmax(htup) == InvalidTransactionId;
}

/*
 * Is this tuple plainly live, with nothing in its header that freezing would
 * have to change?  Then it needs neither a visibility check nor a freeze plan.
 * False only means that the tuple has to be looked at properly.
 */
static inline bool
tuple_is_settled(PageExam *exam, HeapTupleHeader htup)
{
	const PvCutoffs *cutoffs;
	TransactionId xmin;

	if (!tuple_is_plainly_live(htup))
		return false;

	xmin = HeapTupleHeaderGetXmin(htup);
	if (xmin == exam->settled_xmin)
		return true;
	if (!TransactionIdIsNormal(xmin))
	{
		/* frozen or bootstrapped: nothing to do, whatever the cutoffs are */
		return true;
	}
	cutoffs = &exam->self->shared->cutoffs;
	if (TransactionIdPrecedes(xmin, cutoffs->relfrozenxid) ||
		TransactionIdPrecedes(xmin, cutoffs->FreezeLimit))
		return false;

	/* A new inserter that stays as it is */
	note_live_xmin(exam, htup);
	if (TransactionIdPrecedes(xmin, exam->relfrozenxid))
		exam->relfrozenxid = xmin;
	exam->result->vis.all_frozen = false;
	exam->settled_xmin = xmin;
	return true;
}

/*
 * Does this tuple lack nothing but the hint bit, of an inserter that has it in
 * another tuple of the page?  Then it gets it.  What allowed the hint there, that
 * the commit is on disk or precedes the page's LSN, holds for the whole page.
 */
static inline bool
tuple_is_settled_but_hint(PageExam *exam, HeapTupleHeader htup)
{
	const uint16 mask = HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID |
	HEAP_XMAX_IS_MULTI | HEAP_MOVED;

	if ((htup->t_infomask & mask) != HEAP_XMAX_INVALID ||
		HeapTupleHeaderGetRawXmax(htup) != InvalidTransactionId ||
		!TransactionIdIsValid(exam->settled_xmin) ||
		HeapTupleHeaderGetRawXmin(htup) != exam->settled_xmin)
		return false;
	htup->t_infomask |= HEAP_XMIN_COMMITTED;
	exam->hinted = true;
	return true;
}

/*
 * Did a single transaction delete or update this tuple, or try to, and did its
 * inserter commit?
 */
static inline bool
tuple_is_plainly_deleted(HeapTupleHeader htup)
{
	return (htup->t_infomask & (HEAP_XMIN_COMMITTED | NOT_PLAINLY_DELETED)) ==
		HEAP_XMIN_COMMITTED;
}

static inline bool
tuple_is_in_chain(HeapTupleHeader htup)
{
	return (htup->t_infomask2 & (HEAP_ONLY_TUPLE | HEAP_HOT_UPDATED)) != 0;
}

/*
 * Its storage goes, and a dead line pointer stays.
 */
static inline void
plan_removal(PageExam *exam, OffsetNumber offnum)
{
	exam->fate[offnum] = BECOMES_DEAD;
	*--exam->plan.dead = offnum;
	*--exam->result->deadoffsets = offnum;
}

/*
 * A dead tuple, whose XIDs have been taken account of.
 */
static inline void
note_dead_tuple(PageExam *exam, HeapTupleHeader htup, OffsetNumber offnum)
{
	exam->ndead_tuples++;
	if (likely(!tuple_is_in_chain(htup)))
		plan_removal(exam, offnum);
	else
	{
		exam->fate[offnum] = DEAD_IN_CHAIN;
		exam->dead_in_chain = true;
	}
}

/*
 * A dead tuple: standbys conflict with who may see it, and others of the same
 * deleter are dead, too.  Nobody has ever seen a tuple that was deleted by its own
 * inserter, so its deleter is no conflict, and is not remembered: others that it has
 * deleted may be one.
 */
static void
note_dead_xids(PageExam *exam, HeapTupleHeader htup)
{
	pv_advance_conflict_horizon(htup, &exam->plan.removed_xid);
	if (tuple_is_plainly_deleted(htup) &&
		HeapTupleHeaderGetXmin(htup) != HeapTupleHeaderGetRawXmax(htup))
		exam->dead_xmax = HeapTupleHeaderGetRawXmax(htup);
}

/*
 * A tuple that may become dead soon: have the next visitor of the page know.
 */
static void
note_prunable(PageExam *exam, HeapTupleHeader htup)
{
	TransactionId xid = HeapTupleHeaderGetUpdateXid(htup);

	if (!TransactionIdIsValid(exam->prune_xid) ||
		TransactionIdPrecedes(xid, exam->prune_xid))
		exam->prune_xid = xid;
	exam->result->vis.all_visible = false;
}

/*
 * Is a tuple that was deleted, or updated, out of sight of every snapshot?
 * What OldestXmin says must hold; beyond it the horizon may have moved on since.
 * Core: access/heap/pruneheap.c, heap_prune_satisfies_vacuum.
 */
static HTSV_Result
tuple_fate(PageExam *exam, HeapTuple tuple)
{
	PvParticipant *self = exam->self;
	TransactionId dead_after;
	HTSV_Result fate = HeapTupleSatisfiesVacuumHorizon(tuple, exam->buf, &dead_after);

	if (fate == HEAPTUPLE_RECENTLY_DEAD &&
		(TransactionIdPrecedes(dead_after, self->shared->cutoffs.OldestXmin) ||
		 (!exam->core_pruned &&
		  GlobalVisTestIsRemovableXid(self->vistest, dead_after))))
		return HEAPTUPLE_DEAD;
	return fate;
}

/*
 * Plan to freeze what is older than the cutoff in a tuple that stays.  False if
 * something is left.
 */
static bool
plan_freezing(PageExam *exam, HeapTupleHeader htup, OffsetNumber offnum,
			  TransactionId cutoff)
{
	PvFreezePlan *plan = &exam->frozen[exam->nfrozen];
	bool		totally_frozen;

	if (pv_prepare_freeze(htup, &exam->self->shared->cutoffs, cutoff, plan,
						  &totally_frozen, &exam->relfrozenxid,
						  &exam->relminmxid))
	{
		plan->offset = offnum;
		exam->nfrozen++;
	}
	return totally_frozen;
}

/*
 * Judge a tuple that is not settled at a glance.
 */
static void
examine_tuple(PageExam *exam, ItemId itemid, HeapTupleHeader htup,
			  OffsetNumber offnum)
{
	PvPageResult *result = exam->result;
	HeapTupleData tuple;

	exam->self->errinfo.offnum = offnum;
	tuple.t_data = htup;
	tuple.t_len = ItemIdGetLength(itemid);
	tuple.t_tableOid = RelationGetRelid(exam->self->rel);
	ItemPointerSet(&tuple.t_self, exam->blkno, offnum);

	switch (tuple_fate(exam, &tuple))
	{
		case HEAPTUPLE_DEAD:
			note_dead_xids(exam, htup);
			note_dead_tuple(exam, htup, offnum);
			return;
		case HEAPTUPLE_LIVE:
			result->live_tuples++;
			if (tuple_is_settled(exam, htup))	/* now that it has its hint */
			{
				result->hastup = true;
				return;
			}
			note_live_xmin(exam, htup);
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			result->recently_dead_tuples++;
			note_prunable(exam, htup);
			if (tuple_is_in_chain(htup))
				exam->fate[offnum] = STAYS_RECENTLY_DEAD;
			break;
		case HEAPTUPLE_DELETE_IN_PROGRESS:

			/*
			 * The deleter will report its deletion when it commits, so until
			 * then the tuple counts as live, as in ANALYZE.
			 */
			result->live_tuples++;
			note_prunable(exam, htup);
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			/* Likewise, the inserter will report it */
			result->vis.all_visible = false;
			break;
	}

	result->hastup = true;
	if (!plan_freezing(exam, htup, offnum, exam->self->shared->cutoffs.FreezeLimit))
		result->vis.all_frozen = false;
}

/* Begin anew with the plan to freeze, and with what it leaves as the oldest. */
static void
forget_freezing(PageExam *exam)
{
	exam->relfrozenxid = exam->self->counters.NewRelfrozenXid;
	exam->relminmxid = exam->self->counters.NewRelminMxid;
	exam->nfrozen = 0;
}

static void
begin_exam(PageExam *exam, OffsetNumber maxoff)
{
	PvPageResult *result = exam->result;

	result->live_tuples = 0;
	result->recently_dead_tuples = 0;
	result->hastup = false;
	result->look_again = false;
	result->commits_end = InvalidXLogRecPtr;
	result->vis.all_visible = true;
	result->vis.all_frozen = true;
	result->vis.conflict_horizon = InvalidTransactionId;
	result->deadoffsets = result->room + lengthof(result->room);

	memset(exam->fate, STAYS, (maxoff + 1) * sizeof(exam->fate[0]));
	exam->dead_in_chain = false;
	exam->ndead_tuples = 0;
	exam->hinted = false;
	exam->settled_xmin = InvalidTransactionId;
	exam->dead_xmax = InvalidTransactionId;
	forget_freezing(exam);
	exam->plan.removed_xid = InvalidTransactionId;
	exam->plan.nredirected = 0;
	exam->plan.nunused = 0;
	exam->plan.dead = exam->room + lengthof(exam->room);
	exam->prune_xid = InvalidTransactionId;
}

/*
 * Look at everything on the page.
 *
 * From the last line pointer to the first: tuples usually lie the other way
 * round, so that this goes up in memory.
 */
static void
examine_tuples(PageExam *exam)
{
	Page		page = BufferGetPage(exam->buf);
	PvPageResult *result = exam->result;
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);

	begin_exam(exam, maxoff);
	for (OffsetNumber offnum = maxoff; offnum >= FirstOffsetNumber;
		 offnum = OffsetNumberPrev(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);
		HeapTupleHeader htup;

		if (!ItemIdIsNormal(itemid))
		{
			/*
			 * A dead one will be unused by the time truncation is thought of,
			 * so it does not count as a tuple in the page's way.
			 */
			if (ItemIdIsDead(itemid))
				*--result->deadoffsets = offnum;
			continue;
		}

		htup = (HeapTupleHeader) PageGetItem(page, itemid);
		if (tuple_is_settled(exam, htup) || tuple_is_settled_but_hint(exam, htup))
		{
			result->live_tuples++;
			result->hastup = true;
		}
		else if (tuple_is_plainly_deleted(htup) &&
				 TransactionIdIsValid(exam->dead_xmax) &&
				 HeapTupleHeaderGetRawXmax(htup) == exam->dead_xmax)
			note_dead_tuple(exam, htup, offnum);
		else
			examine_tuple(exam, itemid, htup, offnum);
	}
	exam->self->errinfo.offnum = InvalidOffsetNumber;
	if (exam->hinted)
		MarkBufferDirtyHint(exam->buf, true);
}

/*
 * The tuple at an offset if it belongs to the chain of a root, after an update
 * by prior_xmax; NULL if the chain has ended.  Of the first tuple, prior_xmax is
 * invalid.
 */
static HeapTupleHeader
next_in_chain(Page page, OffsetNumber root, OffsetNumber offnum,
			  TransactionId prior_xmax)
{
	ItemId		itemid;
	HeapTupleHeader htup;

	if (offnum < FirstOffsetNumber || offnum > PageGetMaxOffsetNumber(page))
		return NULL;
	itemid = PageGetItemId(page, offnum);
	if (!ItemIdIsNormal(itemid))
		return NULL;
	htup = (HeapTupleHeader) PageGetItem(page, itemid);
	if (offnum != root && !HeapTupleHeaderIsHeapOnly(htup))
		return NULL;
	if (TransactionIdIsValid(prior_xmax) &&
		HeapTupleHeaderGetXmin(htup) != prior_xmax)
		return NULL;
	return htup;
}

/*
 * Follow the chain of a root that begins at offnum, the root itself or what it
 * is redirected to, over its dead tuples, whose line pointers become unused.
 * Returns false if that is core's to do.  Sets *stays to the first tuple of the
 * chain that stays, 0 if none does.
 *
 * After a tuple that somebody may still see there may be dead ones only if the
 * visibility test was too coarse, which is rare.
 */
static bool
follow_chain(PageExam *exam, OffsetNumber root, OffsetNumber offnum,
			 OffsetNumber *stays)
{
	Page		page = BufferGetPage(exam->buf);
	TransactionId prior_xmax = InvalidTransactionId;
	HeapTupleHeader htup;
	bool		seen = false;

	*stays = InvalidOffsetNumber;
	while ((htup = next_in_chain(page, root, offnum, prior_xmax)) != NULL)
	{
		uint8		fate = exam->fate[offnum];

		if (fate == DEAD_IN_CHAIN && !seen)
			exam->fate[offnum] = BECOMES_UNUSED;
		else if (fate == STAYS || fate == STAYS_RECENTLY_DEAD)
		{
			if (!seen)
				*stays = offnum;
			seen = true;
		}
		else
			return false;		/* dead, or in two chains */

		if (fate == STAYS || !HeapTupleHeaderIsHotUpdated(htup))
			return true;
		prior_xmax = HeapTupleHeaderGetUpdateXid(htup);
		offnum = ItemPointerGetOffsetNumber(&htup->t_ctid);
	}
	return true;
}

/*
 * The root of a chain whose first tuples go leads to what stays, if anything does.
 */
static void
plan_root(PageExam *exam, OffsetNumber root, OffsetNumber stays)
{
	exam->fate[root] = stays ? BECOMES_REDIRECT : BECOMES_DEAD;
	if (stays)
		pv_plan_redirect(&exam->plan, root, stays);
}

/*
 * Plan what becomes of the chain of a root with a tuple of its own.
 */
static bool
prune_chain(PageExam *exam, OffsetNumber root)
{
	OffsetNumber stays;

	if (exam->fate[root] == STAYS || exam->fate[root] == BECOMES_DEAD)
		return true;
	if (!follow_chain(exam, root, root, &stays))
		return false;
	if (exam->fate[root] == BECOMES_UNUSED)
		plan_root(exam, root, stays);
	return true;
}

/*
 * The same for a root that is redirected already.
 */
static bool
prune_redirect(PageExam *exam, OffsetNumber root, OffsetNumber target)
{
	OffsetNumber stays;

	if (!follow_chain(exam, root, target, &stays))
		return false;
	if (stays == target)
		return true;
	if (target > PageGetMaxOffsetNumber(BufferGetPage(exam->buf)) ||
		exam->fate[target] != BECOMES_UNUSED)
		return false;			/* it leads nowhere */
	plan_root(exam, root, stays);
	return true;
}

/*
 * Follow all chains of the page.  False if it is core's to prune.
 */
static bool
prune_chains(PageExam *exam)
{
	Page		page = BufferGetPage(exam->buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);

	for (OffsetNumber root = FirstOffsetNumber; root <= maxoff;
		 root = OffsetNumberNext(root))
	{
		ItemId		itemid = PageGetItemId(page, root);
		bool		ordinary = true;

		if (ItemIdIsRedirected(itemid))
			ordinary = prune_redirect(exam, root, ItemIdGetRedirect(itemid));
		else if (ItemIdIsNormal(itemid) &&
				 !HeapTupleHeaderIsHeapOnly((HeapTupleHeader) PageGetItem(page, itemid)))
			ordinary = prune_chain(exam, root);
		if (!ordinary)
			return false;
	}
	return true;
}

/*
 * What an update that was rolled back has left, no chain may lead to.  False if
 * it leads to something itself.
 */
static bool
prune_stray(PageExam *exam, OffsetNumber offnum)
{
	Page		page = BufferGetPage(exam->buf);
	HeapTupleHeader htup = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, offnum));

	exam->fate[offnum] = BECOMES_UNUSED;
	return HeapTupleHeaderIsHeapOnly(htup) && !HeapTupleHeaderIsHotUpdated(htup);
}

/*
 * List again what becomes dead, in descending order, now that chains were
 * followed, and what becomes unused.  False if a dead tuple was left that is
 * core's to remove.
 */
static bool
list_fates(PageExam *exam)
{
	Page		page = BufferGetPage(exam->buf);
	PvPageResult *result = exam->result;

	exam->plan.dead = exam->room + lengthof(exam->room);
	result->deadoffsets = result->room + lengthof(result->room);

	for (OffsetNumber offnum = PageGetMaxOffsetNumber(page);
		 offnum >= FirstOffsetNumber; offnum = OffsetNumberPrev(offnum))
	{
		if (exam->fate[offnum] == DEAD_IN_CHAIN && !prune_stray(exam, offnum))
			return false;

		if (exam->fate[offnum] == BECOMES_UNUSED)
			exam->plan.unused[exam->plan.nunused++] = offnum;
		else if (exam->fate[offnum] == BECOMES_DEAD)
			plan_removal(exam, offnum);
		else if (ItemIdIsDead(PageGetItemId(page, offnum)))
			*--result->deadoffsets = offnum;
	}
	return true;
}

/*
 * Look at the page and plan what to do.  Returns false if it is core's to prune.
 */
static bool
examine_page(PageExam *exam)
{
	PvPageResult *result = exam->result;

	examine_tuples(exam);
	if (exam->dead_in_chain && (!prune_chains(exam) || !list_fates(exam)))
		return false;
	exam->plan.ndead = exam->room + lengthof(exam->room) - exam->plan.dead;
	result->lpdead_items = result->room + lengthof(result->room) - result->deadoffsets;
	return true;
}

/*
 * Judge the page, after core has pruned it if that is core's to do.
 */
static void
judge_page(PageExam *exam)
{
	PvParticipant *self = exam->self;
	int64		images = pgWalUsage.wal_fpi;
	int			nfrozen;

	for (int tries = 0; !examine_page(exam); tries++)
	{
		exam->imaged |= pgWalUsage.wal_fpi != images;

		/* Each time some transaction may have aborted, but not for ever */
		if (tries > MaxHeapTuplesPerPage)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("page %u of table \"%s.%s\" has dead row versions that cannot be removed",
							exam->blkno, self->errinfo.relnamespace,
							self->errinfo.relname),
					 errhint("Check the table with verify_heapam() of the amcheck extension.")));
		exam->result->ndeleted +=
			pv_core_prune(self->rel, exam->buf, &self->shared->cutoffs,
						  self->vistest, self->nindexes > 0, &nfrozen,
						  &self->errinfo.offnum);
		exam->core_pruned = true;
		exam->core_frozen += nfrozen;
		if (PV_PRUNING_FREEZES)
			images = pgWalUsage.wal_fpi;
	}
	exam->imaged |= pgWalUsage.wal_fpi != images;
}

/*
 * The tuple at an offset, if it stays; otherwise NULL.
 */
static inline HeapTupleHeader
staying_tuple(PageExam *exam, OffsetNumber offnum)
{
	Page		page = BufferGetPage(exam->buf);
	ItemId		itemid = PageGetItemId(page, offnum);

	if (!ItemIdIsNormal(itemid) || exam->fate[offnum] >= DEAD_IN_CHAIN)
		return NULL;
	return (HeapTupleHeader) PageGetItem(page, itemid);
}

/*
 * Plan to freeze every tuple that stays.  False if not all can be frozen, or,
 * before PG 16, if there are multixacts: there a plan would replace them even by
 * new ones.
 *
 * The page is all-visible but for its dead items, so every inserter is older than
 * OldestXmin.
 */
static bool
plan_freezing_all(PageExam *exam)
{
	PvParticipant *self = exam->self;
	OffsetNumber maxoff = PageGetMaxOffsetNumber(BufferGetPage(exam->buf));

	forget_freezing(exam);
	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff;
		 offnum = OffsetNumberNext(offnum))
	{
		HeapTupleHeader htup = staying_tuple(exam, offnum);

		if (htup == NULL)
			continue;
		if (tuple_is_plainly_live(htup))
		{
			if (!HeapTupleHeaderXminFrozen(htup))
			{
				pv_prepare_freeze_xmin(htup, &exam->frozen[exam->nfrozen]);
				exam->frozen[exam->nfrozen++].offset = offnum;
			}
			continue;
		}
		self->errinfo.offnum = offnum;
		if (((htup->t_infomask & HEAP_XMAX_IS_MULTI) && !PV_FREEZES_WHOLE_PAGES) ||
			!plan_freezing(exam, htup, offnum, self->shared->cutoffs.OldestXmin))
			return false;
	}
	self->errinfo.offnum = InvalidOffsetNumber;
	exam->result->vis.all_frozen = true;
	return true;
}

/*
 * Plan to freeze all that can be on a page where something has to be, as core does
 * from PG 16 on.  That may turn out to be everything.
 */
static void
plan_freezing_more(PageExam *exam)
{
	PvParticipant *self = exam->self;
	PvVisibility *vis = &exam->result->vis;
	OffsetNumber maxoff = PageGetMaxOffsetNumber(BufferGetPage(exam->buf));
	bool		all_frozen = true;

	forget_freezing(exam);
	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff;
		 offnum = OffsetNumberNext(offnum))
	{
		HeapTupleHeader htup = staying_tuple(exam, offnum);

		if (htup == NULL)
			continue;
		self->errinfo.offnum = offnum;
		all_frozen &= plan_freezing(exam, htup, offnum, self->shared->cutoffs.OldestXmin);
	}
	self->errinfo.offnum = InvalidOffsetNumber;
	vis->all_frozen = vis->all_visible && all_frozen;
}

/*
 * Will the next WAL record of a change to this page hold an image of it?  Core's answer
 * is of the process's last record, so that one which has logged nothing yet, or
 * nothing since the last checkpoint began, is told no.  Nothing but the number of bytes
 * depends on this.
 */
static bool
image_is_due(Buffer buf)
{
	return XLogCheckBufferNeedsBackup(buf) ||
		(fullPageWrites && PageGetLSN(BufferGetPage(buf)) <= GetRedoRecPtr());
}

/*
 * Do the page's hints say something else than they will?
 */
static inline bool
hints_change(PageExam *exam)
{
	Page		page = BufferGetPage(exam->buf);

	return ((PageHeader) page)->pd_prune_xid != exam->prune_xid || PageIsFull(page);
}

/*
 * Where no index leads to them, dead items need not stay dead for a moment.
 */
static inline bool
frees_dead_items(PageExam *exam)
{
	return PV_PRUNES_TO_UNUSED && exam->self->nindexes == 0 &&
		exam->result->lpdead_items > 0;
}

/*
 * Will the page be logged, for what is planned or for its hints?
 */
static bool
page_will_be_logged(PageExam *exam)
{
	return RelationNeedsWAL(exam->self->rel) &&
		(pv_plan_changes_page(&exam->plan) || frees_dead_items(exam) ||
		 (XLogHintBitIsNeeded() && hints_change(exam)));
}

/*
 * Is there an image for whose sake core freezes a page, in a record of its own?  One
 * that has just been logged; or one that the record of pruning will have, to be
 * checked by.
 */
static bool
has_image_of_core(PageExam *exam)
{
	if (!PV_FREEZES_WHOLE_PAGES)
		return false;
	return exam->imaged ||
		(PV_FREEZES_FOR_CHECKED_IMAGE && RelationNeedsWAL(exam->self->rel) &&
		 pv_plan_changes_page(&exam->plan));
}

/*
 * Is it cheap to freeze the whole page, rather than nothing or a part of it?  The rules
 * are at the top of this file.
 */
static bool
freezing_all_is_cheap(PageExam *exam)
{
	bool		must_freeze = exam->nfrozen > 0;

	if (PV_FREEZES_WHOLE_PAGES)
		return must_freeze || has_image_of_core(exam) ||
			(page_will_be_logged(exam) && image_is_due(exam->buf));

	return must_freeze &&
		(!RelationNeedsWAL(exam->self->rel) ||
		 (!pv_plan_changes_page(&exam->plan) && image_is_due(exam->buf)));
}

/*
 * Plan to freeze the whole page if that is cheap, and otherwise, from PG 16 on, as much
 * as can be where something has to be frozen.
 */
static void
consider_freezing_more(PageExam *exam)
{
	PvVisibility *vis = &exam->result->vis;

	if (vis->all_visible)
	{
		if (vis->all_frozen || !freezing_all_is_cheap(exam) || plan_freezing_all(exam))
			return;
		judge_page(exam);
	}
	if (PV_FREEZES_WHOLE_PAGES && exam->nfrozen > 0)
		plan_freezing_more(exam);
}

/*
 * The dead items become unused with the rest.
 */
static void
plan_to_unused(PageExam *exam)
{
	PvPageResult *result = exam->result;
	PvPrunePlan *plan = &exam->plan;

	memcpy(plan->unused + plan->nunused, result->deadoffsets,
		   result->lpdead_items * sizeof(OffsetNumber));
	plan->nunused += result->lpdead_items;
	plan->ndead = 0;
	result->marked_unused = true;
}

/*
 * Have the page's hints say what a later visitor might prune, and that it may
 * be worth it.
 */
static void
update_hints(PageExam *exam)
{
	Page		page = BufferGetPage(exam->buf);

	((PageHeader) page)->pd_prune_xid = exam->prune_xid;
	PageClearFull(page);
}

/*
 * Do what is planned.
 */
static void
change_page(PageExam *exam)
{
	const PvVisibility *vis = &exam->result->vis;
	TransactionId freeze_horizon;

	freeze_horizon = pv_freeze_horizon(&exam->self->shared->cutoffs,
									   vis->all_visible && vis->all_frozen,
									   vis->conflict_horizon);
	update_hints(exam);
	pv_prune_and_freeze(exam->self->rel, exam->buf, &exam->plan,
						freeze_horizon, exam->frozen, exam->nfrozen);
}

/*
 * Prune one heap page, and freeze what is old on it.
 *
 * The caller holds a pin and a cleanup lock, and keeps both.  The participant's
 * trackers NewRelfrozenXid and NewRelminMxid are moved back to the oldest value
 * that stays on the page.
 */
void
pv_prune_freeze_page(PvParticipant *self, Buffer buf, BlockNumber blkno,
					 PvPageResult *result)
{
	PageExam	exam;

	exam.self = self;
	exam.buf = buf;
	exam.blkno = blkno;
	exam.result = result;
	exam.core_pruned = false;
	exam.core_frozen = 0;
	exam.imaged = false;
	result->ndeleted = 0;

	judge_page(&exam);
	consider_freezing_more(&exam);
	result->marked_unused = false;
	if (frees_dead_items(&exam))
		plan_to_unused(&exam);
	if (pv_plan_changes_page(&exam.plan) || exam.nfrozen > 0)
		change_page(&exam);
	else if (hints_change(&exam))
	{
		update_hints(&exam);
		MarkBufferDirtyHint(buf, true);
	}

	result->ndeleted += exam.ndead_tuples;
	self->counters.frozen_pages += exam.nfrozen + exam.core_frozen > 0;
	self->counters.tuples_frozen += exam.nfrozen + exam.core_frozen;
	self->counters.NewRelfrozenXid = exam.relfrozenxid;
	self->counters.NewRelminMxid = exam.relminmxid;
}
