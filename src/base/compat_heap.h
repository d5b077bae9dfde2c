/*-------------------------------------------------------------------------
 *
 * compat_heap.h
 *	  What differs between PostgreSQL's major versions in the changes of heap
 *	  pages: pruning, freezing, and the visibility map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COMPAT_HEAP_H
#define PV_COMPAT_HEAP_H

#include "access/htup_details.h"
#include "access/transam.h"

#include "base/compat.h"

/* The plan to freeze one tuple, which PG 16 renamed */
#if PG_VERSION_NUM >= 160000
typedef HeapTupleFreeze PvFreezePlan;
#else
typedef xl_heap_freeze_tuple PvFreezePlan;
#endif

/* What pruning does to the line pointers of a page */
typedef struct PvPrunePlan
{
	TransactionId removed_xid;	/* newest XID of the tuples that are removed */
	int			nredirected;
	int			ndead;
	int			nunused;
	OffsetNumber *dead;
	OffsetNumber redirected[2 * MaxHeapTuplesPerPage];	/* from, to */
	OffsetNumber unused[MaxHeapTuplesPerPage];
} PvPrunePlan;

/* Does the plan change any line pointer? */
static inline bool
pv_plan_changes_page(const PvPrunePlan *plan)
{
	return plan->nredirected > 0 || plan->ndead > 0 || plan->nunused > 0;
}

/* Plan to redirect a line pointer. */
static inline void
pv_plan_redirect(PvPrunePlan *plan, OffsetNumber from, OffsetNumber to)
{
	plan->redirected[2 * plan->nredirected] = from;
	plan->redirected[2 * plan->nredirected + 1] = to;
	plan->nredirected++;
}

/*
 * What a change of a page does to its bits in the visibility map.  The page of
 * the map is pinned.
 */
typedef struct PvMapChange
{
	Buffer		vmbuffer;
	uint8		old;			/* the bits that are set already */
	uint8		flags;			/* the bits to set; 0 is none */
	TransactionId horizon;		/* conflict horizon of setting them */
} PvMapChange;

/* What core's pruning has done to a page */
typedef struct PvCorePruning
{
	int			ndeleted;
	int			nfrozen;
	bool		new_visible;	/* the page is all-visible now, and was not */
	bool		new_visible_frozen; /* ... and all-frozen as well */
	bool		new_frozen;		/* all-frozen now, and was all-visible before */
} PvCorePruning;

/*
 * pv_tuple_should_freeze: does the tuple have an XID or MXID that this vacuum
 * should remove?  Ratchet the trackers back.  PG 16 renamed these functions.
 */
#if PG_VERSION_NUM >= 160000
#define pv_tuple_should_freeze		heap_tuple_should_freeze
#define pv_advance_conflict_horizon HeapTupleHeaderAdvanceConflictHorizon
#else
#define pv_tuple_should_freeze(tuple, cutoffs, relfrozenxid, relminmxid) \
	heap_tuple_would_freeze(tuple, (cutoffs)->FreezeLimit, \
							(cutoffs)->MultiXactCutoff, \
							relfrozenxid, relminmxid)
#define pv_advance_conflict_horizon HeapTupleHeaderAdvanceLatestRemovedXid
#endif

/*
 * Can no snapshot see the row versions that this XID has deleted?  The same
 * question for an inserter is whether all snapshots see what it has inserted.
 * From PG 19 on the caller says whether the horizon may be computed again.
 */
#if PG_VERSION_NUM >= 190000
#define pv_xid_is_removable			GlobalVisTestIsRemovableXid
#else
#define pv_xid_is_removable(vistest, xid, allow_update) \
	GlobalVisTestIsRemovableXid(vistest, xid)
#endif

/*
 * Clear a page's bits in the visibility map.  The caller holds an exclusive
 * lock on the heap page, and no lock on the page of the map.
 */
static inline void
pv_map_clear(Relation rel, BlockNumber blkno, Buffer vmbuffer)
{
#if PG_VERSION_NUM >= 190000
	LockBuffer(vmbuffer, BUFFER_LOCK_EXCLUSIVE);
#endif
	(void) visibilitymap_clear(rel, blkno, vmbuffer, VISIBILITYMAP_VALID_BITS);
#if PG_VERSION_NUM >= 190000
	LockBuffer(vmbuffer, BUFFER_LOCK_UNLOCK);
#endif
}

extern TransactionId pv_freeze_horizon(const PvCutoffs *cutoffs,
									   bool all_frozen,
									   TransactionId newest_xmin,
									   TransactionId newest_frozen);
extern void pv_core_prune(Relation rel, Buffer buf, Buffer vmbuffer,
						  PvCutoffs *cutoffs, GlobalVisState *vistest,
						  bool has_indexes, PvCorePruning *done,
						  OffsetNumber *off_loc);
extern void pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
								TransactionId freeze_horizon,
								PvFreezePlan *frozen, int nfrozen,
								const PvMapChange *map);
extern void pv_set_items_unused(Relation rel, Buffer buf,
								OffsetNumber *unused, int nunused,
								const PvMapChange *map);
extern void pv_map_set(Relation rel, Buffer buf, const PvMapChange *map);

/*
 * The same for a page without line pointers.  From PG 19 on the record gets an
 * image of a page that was never logged.
 */
#if PG_VERSION_NUM >= 190000
#define pv_map_set_empty			pv_map_set
#else
extern void pv_map_set_empty(Relation rel, Buffer buf, const PvMapChange *map);
#endif

/*
 * Plan to remove from a tuple that stays all XIDs older than freeze_cutoff,
 * which is FreezeLimit or OldestXmin, and old MXIDs.  Return false if there is
 * nothing to do.  Ratchet the trackers back, and *newest_frozen, the newest
 * inserter to be frozen, forward (from PG 19 on).
 *
 * From PG 16 on core plans for OldestXmin in any case, reports whether the
 * plan has to be executed, and has trackers for both cases.
 */
static inline bool
pv_prepare_freeze(HeapTupleHeader tuple, const PvCutoffs *cutoffs,
				  TransactionId freeze_cutoff, PvFreezePlan *plan,
				  bool *totally_frozen, TransactionId *relfrozenxid,
				  MultiXactId *relminmxid, TransactionId *newest_frozen)
{
#if PG_VERSION_NUM >= 160000
	HeapPageFreeze page = {
		.FreezePageRelfrozenXid = *relfrozenxid,
		.FreezePageRelminMxid = *relminmxid,
		.NoFreezePageRelfrozenXid = *relfrozenxid,
		.NoFreezePageRelminMxid = *relminmxid,
#if PG_VERSION_NUM >= 190000
		.FreezePageConflictXid = *newest_frozen
#endif
	};
	bool		planned =
		heap_prepare_freeze_tuple(tuple, cutoffs, &page, plan, totally_frozen);

	if (page.freeze_required || freeze_cutoff == cutoffs->OldestXmin)
	{
		*relfrozenxid = page.FreezePageRelfrozenXid;
		*relminmxid = page.FreezePageRelminMxid;
#if PG_VERSION_NUM >= 190000
		*newest_frozen = page.FreezePageConflictXid;
#endif
		return planned;
	}
	*relfrozenxid = page.NoFreezePageRelfrozenXid;
	*relminmxid = page.NoFreezePageRelminMxid;
	if (planned)
		*totally_frozen = false;
	return false;
#else
	return heap_prepare_freeze_tuple(tuple, cutoffs->relfrozenxid,
									 cutoffs->relminmxid, freeze_cutoff,
									 cutoffs->MultiXactCutoff, plan,
									 totally_frozen, relfrozenxid, relminmxid);
#endif
}

/* The same for a tuple with nothing but an inserter, which is committed. */
static inline void
pv_prepare_freeze_xmin(HeapTupleHeader tuple, PvFreezePlan *plan,
					   TransactionId *newest_frozen)
{
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple);

	if (TransactionIdIsNormal(xmin) &&
		TransactionIdFollows(xmin, *newest_frozen))
		*newest_frozen = xmin;
	plan->xmax = InvalidTransactionId;
	plan->t_infomask = tuple->t_infomask | HEAP_XMIN_FROZEN;
	plan->t_infomask2 = tuple->t_infomask2;
	plan->frzflags = 0;
#if PG_VERSION_NUM >= 160000
	plan->checkflags = 0;
#endif
}

#endif							/* PV_COMPAT_HEAP_H */
