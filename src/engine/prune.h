/*-------------------------------------------------------------------------
 *
 * prune.h
 *	  Pruning and freezing one heap page in the first heap pass, and
 *	  what both heap passes do to a page.
 *
 * The heap scan calls pv_prune_freeze_page().  engine/prune.c,
 * engine/hot_chain.c and engine/freeze.c share the rest.  What is called for
 * each tuple is inline.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PRUNE_H
#define PV_PRUNE_H

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat_heap.h"
#include "engine/participant.h"

/* Pages, in both heap passes (page.c) */

/* Which bits of the visibility map the tuples of a page allow */
typedef struct PvVisibility
{
	bool		all_visible;
	bool		all_frozen;		/* meaningful only if all_visible */
	TransactionId conflict_horizon; /* newest xmin that is not frozen */
} PvVisibility;

/* What a page has that no all-visible page may have */
typedef enum PvMapDoubtKind
{
	PV_MAP_NO_DOUBT,
	PV_MAP_HAS_DEAD_ITEMS,
	PV_MAP_HAS_INVISIBLE		/* a row version that not all may see */
} PvMapDoubtKind;

typedef struct PvMapDoubt
{
	PvMapDoubtKind kind;
	OffsetNumber offnum;		/* where that is, if known; for messages */
} PvMapDoubt;

extern void pv_page_mark_unused(PvParticipant *self, Buffer buf,
								BlockNumber blkno,
								OffsetNumber *deadoffsets, int ndead);
extern void pv_page_vacuum(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   Buffer vmbuffer, OffsetNumber *deadoffsets,
						   int ndead);
extern void pv_page_visibility(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, const OffsetNumber *unused,
							   int nunused, bool allow_update,
							   PvVisibility *vis);
extern void pv_page_plan_map(PvParticipant *self, Buffer buf,
							 BlockNumber blkno, Buffer vmbuffer,
							 const PvVisibility *vis, PvMapChange *map);
extern void pv_page_repair_map(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, Buffer vmbuffer,
							   PvMapDoubt doubt);
extern void pv_page_count_map(PvParticipant *self, const PvMapChange *map);
extern void pv_page_update_map(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, Buffer vmbuffer,
							   const PvVisibility *vis);

extern void pv_page_pace_wal(PvParticipant *self);

#ifdef USE_ASSERT_CHECKING
extern bool pv_page_agrees(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   const PvVisibility *vis);
#endif

/* What was found on one heap page, and what was done to it */
typedef struct PvPageResult
{
	/* Each attempt begins with zeroes in everything before room */
	int			live_tuples;
	int			recently_dead_tuples;
	bool		hastup;			/* the page prevents truncation */
	PvVisibility vis;			/* as it will be without the dead items */
	bool		recheck;		/* a hint bit could not be set yet ... */
	XLogRecPtr	commits_end;	/* ... because WAL is not flushed up to here */
	int			lpdead_items;
	bool		marked_unused;	/* the dead items are already unused */
	bool		map_is_done;	/* the visibility map is up to date */
	OffsetNumber *deadoffsets;	/* ascending; points into room */
	OffsetNumber room[MaxHeapTuplesPerPage];
} PvPageResult;

/*
 * Line pointer action: what becomes of a line pointer.  From
 * PV_LP_DEAD_IN_CHAIN on, the tuple's storage is freed.
 */
typedef enum PvLinePointerAction
{
	PV_LP_STAYS,
	PV_LP_STAYS_RECENTLY_DEAD,	/* in a HOT chain */
	PV_LP_DEAD_IN_CHAIN,		/* decided when the HOT chain is followed */
	PV_LP_BECOMES_DEAD,
	PV_LP_BECOMES_REDIRECT,
	PV_LP_BECOMES_UNUSED
} PvLinePointerAction;

/* The work on one page */
typedef struct PvPagePruneState
{
	PvParticipant *self;
	Buffer		buf;
	BlockNumber blkno;
	Buffer		vmbuffer;		/* the page of the visibility map, pinned */
	PvPageResult *result;

	/*
	 * Core has pruned the page.  Only OldestXmin decides from then on which
	 * tuples are dead.  This process's own horizon may have advanced
	 * meanwhile, and a tuple that is dead by it, but not by core's pruning,
	 * would be found again and again.
	 */
	bool		core_pruned;
	int			core_frozen;	/* tuples frozen by core's pruning */

	/*
	 * A full-page image was logged since we came to the page, for a hint bit
	 * or by core's pruning.  If core's pruning freezes, it has already taken
	 * its own image into account.
	 */
	bool		imaged;

	/* The action for each line pointer, by offset */
	uint8		action[MaxHeapTuplesPerPage + 1];
	bool		chains_to_prune;	/* some are PV_LP_DEAD_IN_CHAIN, or a
									 * redirect is broken */
	int			ndead_tuples;
	bool		hinted;			/* some hint bits were set */

	/* XIDs with known status */
	TransactionId known_live_xmin;	/* committed, accounted for, not to be
									 * frozen */
	TransactionId known_dead_xmax;	/* committed, removable, in the conflict
									 * horizon */

	/* Trackers for this page; copied to the counters when the page is done */
	TransactionId relfrozenxid;
	MultiXactId relminmxid;
	TransactionId newest_frozen;	/* newest inserter that will be frozen */

	/*
	 * The actions as lists.  The offsets of line pointers that become dead
	 * are at the end of room, because they are found in descending order.
	 */
	PvPrunePlan plan;
	OffsetNumber room[MaxHeapTuplesPerPage];
	TransactionId prune_xid;	/* oldest XID that may make more tuples dead */

	/* Offsets that no all-visible page has */
	OffsetNumber first_prunable;	/* a tuple that not all may see */
	OffsetNumber last_dead_item;	/* a line pointer that was dead before */

	int			nfrozen;
	PvFreezePlan frozen[MaxHeapTuplesPerPage];
} PvPagePruneState;

/* engine/prune.c */
extern void pv_prune_freeze_page(PvParticipant *self, Buffer buf,
								 BlockNumber blkno, Buffer vmbuffer,
								 PvPageResult *result);

/* engine/hot_chain.c */
extern bool pv_redirect_is_broken(Page page, ItemId root);
extern bool pv_prune_chains(PvPagePruneState *state);
extern bool pv_list_actions(PvPagePruneState *state);

/* engine/freeze.c */
extern bool pv_freezing_page_is_cheap(const PvPagePruneState *state);
extern bool pv_plan_freezing_page(PvPagePruneState *state, bool whole);

/*
 * Did the tuple's inserter commit, and has no other transaction stored an XID
 * in it?
 */
static inline bool
pv_tuple_is_plainly_live(HeapTupleHeader htup)
{
	const uint16 mask = HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID |
		HEAP_XMAX_IS_MULTI | HEAP_MOVED;

	return (htup->t_infomask & mask) ==
		(HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID) &&
		HeapTupleHeaderGetRawXmax(htup) == InvalidTransactionId;
}

/* Plan to free the tuple's storage and leave a dead line pointer. */
static inline void
pv_plan_removal(PvPagePruneState *state, OffsetNumber offnum)
{
	state->action[offnum] = PV_LP_BECOMES_DEAD;
	*--state->plan.dead = offnum;
	*--state->result->deadoffsets = offnum;
}

/* Discard the freeze plan, and what it leaves as the oldest XIDs. */
static inline void
pv_forget_freezing(PvPagePruneState *state)
{
	state->relfrozenxid = state->self->counters.NewRelfrozenXid;
	state->relminmxid = state->self->counters.NewRelminMxid;
	state->newest_frozen = InvalidTransactionId;
	state->nfrozen = 0;
}

/*
 * Plan to freeze what is older than the cutoff in a tuple that stays.  Return
 * false if something in the tuple remains unfrozen.
 */
static inline bool
pv_plan_freezing(PvPagePruneState *state, HeapTupleHeader htup,
				 OffsetNumber offnum, TransactionId cutoff)
{
	PvFreezePlan *plan = &state->frozen[state->nfrozen];
	bool		totally_frozen;

	if (pv_prepare_freeze(htup, &state->self->shared->plan.cutoffs, cutoff,
						  plan, &totally_frozen, &state->relfrozenxid,
						  &state->relminmxid, &state->newest_frozen))
	{
		plan->offset = offnum;
		state->nfrozen++;
	}
	return totally_frozen;
}

/* Will the page's hints change? */
static inline bool
pv_page_hints_change(const PvPagePruneState *state)
{
	Page		page = BufferGetPage(state->buf);

	return ((PageHeader) page)->pd_prune_xid != state->prune_xid ||
		PageIsFull(page);
}

/* Will dead items be set unused at once, because the table has no indexes? */
static inline bool
pv_frees_dead_items(const PvPagePruneState *state)
{
	return PV_PRUNES_TO_UNUSED && state->self->nindexes == 0 &&
		state->result->lpdead_items > 0;
}

#endif							/* PV_PRUNE_H */
