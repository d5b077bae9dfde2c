/*-------------------------------------------------------------------------
 *
 * compat_heap.c
 *	  The changes of a heap page, which each major version of PostgreSQL logs
 *	  in its own way.
 *
 * Leader and workers run this, with a cleanup lock on the page (pruning) or an
 * exclusive lock (removing line pointers, setting the map).
 *
 *		version		WAL records
 *		15, 16		one for pruning, one for freezing, one for line pointers that
 *					become unused; each describes the page as the one before left it
 *		17, 18		one for pruning and freezing together; line pointers that become
 *					unused have a record of the same kind
 *		15 to 18	one of its own for the visibility map
 *		19			as 17, and the same record sets the visibility map; if nothing
 *					else changes, it does only that
 *
 * On 15 to 18 visibilitymap_set() locks the page of the map, and logs.  On 19
 * we lock it, and the bits are set and logged within the critical section.
 *
 * A record that has an image of the page must suffice without the image.
 * While no backup is running, each page of WAL says by XLP_BKP_REMOVABLE that
 * images may be removed from archived WAL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "utils/rel.h"

#include "base/compat_heap.h"

/*
 * Return the conflict horizon of a record that freezes tuples of a page: the
 * newest XID that no query on a standby may consider as running any more, or
 * InvalidTransactionId if freezing conflicts with no query.
 *
 *		version			page is all-frozen			otherwise
 *		15				newest_xmin, at least		the last XID before
 *						the other one				FreezeLimit
 *		16, 17, 18		newest_xmin					the last XID before
 *													OldestXmin
 *		19				newest_frozen				newest_frozen
 *
 * "All-frozen" means all-visible and all-frozen with this record, apart from
 * dead items.  newest_xmin is the newest inserter that was not frozen before;
 * it is InvalidTransactionId if nothing but xmax is frozen.  newest_frozen is
 * the newest inserter that is frozen now.  On 15 core logs FreezeLimit, but a
 * page that we freeze as a whole has newer inserters as well.
 *
 * Core: access/heap/vacuumlazy.c (15, 16), lazy_scan_prune;
 * access/heap/pruneheap.c (17), heap_page_prune_and_freeze;
 * access/heap/heapam.c (19), heap_prepare_freeze_tuple.
 */
TransactionId
pv_freeze_horizon(const PvCutoffs *cutoffs, bool all_frozen,
				  TransactionId newest_xmin, TransactionId newest_frozen)
{
#if PG_VERSION_NUM >= 190000
	return newest_frozen;
#elif PG_VERSION_NUM >= 160000
	TransactionId horizon = cutoffs->OldestXmin;

	TransactionIdRetreat(horizon);
	return all_frozen ? newest_xmin : horizon;
#else
	TransactionId horizon = cutoffs->FreezeLimit;

	TransactionIdRetreat(horizon);
	return all_frozen && TransactionIdFollows(newest_xmin, horizon) ?
		newest_xmin : horizon;
#endif
}

/*
 * Have core prune a page, HOT chains included, and do what else it does in the
 * same record.  The caller holds a cleanup lock.  *off_loc is the offset of the
 * tuple at hand, for error messages.
 */
void
pv_core_prune(Relation rel, Buffer buf, Buffer vmbuffer, PvCutoffs *cutoffs,
			  GlobalVisState *vistest, bool has_indexes, PvCorePruning *done,
			  OffsetNumber *off_loc)
{
#if PG_VERSION_NUM >= 170000
	PruneFreezeResult result;
	TransactionId relfrozenxid = cutoffs->OldestXmin;
	MultiXactId relminmxid = cutoffs->OldestMxact;
	int			options = HEAP_PAGE_PRUNE_FREEZE |
		(has_indexes ? 0 : HEAP_PAGE_PRUNE_MARK_UNUSED_NOW);

	memset(done, 0, sizeof(*done));
#if PG_VERSION_NUM >= 190000
	{
		PruneFreezeParams params = {
			.relation = rel,
			.buffer = buf,
			.vmbuffer = vmbuffer,
			.reason = PRUNE_VACUUM_SCAN,
			.options = options | HEAP_PAGE_PRUNE_SET_VM,
			.vistest = vistest,
			.cutoffs = cutoffs,
		};

		heap_page_prune_and_freeze(&params, &result, off_loc, &relfrozenxid,
								   &relminmxid);
		done->new_visible = result.newly_all_visible;
		done->new_visible_frozen = result.newly_all_visible_frozen;
		done->new_frozen = result.newly_all_frozen;
	}
#else
	heap_page_prune_and_freeze(rel, buf, vistest, options, cutoffs, &result,
							   PRUNE_VACUUM_SCAN, off_loc, &relfrozenxid,
							   &relminmxid);
#endif
	done->nfrozen = result.nfrozen;
	done->ndeleted = result.ndeleted;
#else
	int			nnewlpdead;

	memset(done, 0, sizeof(*done));
	done->ndeleted = heap_page_prune(rel, buf, cutoffs->OldestXmin, vistest,
									 InvalidTransactionId, 0, &nnewlpdead,
									 off_loc);
#endif
}


/* ----------------------------------------------------------------
 *		The visibility map
 * ----------------------------------------------------------------
 */

#if PG_VERSION_NUM >= 190000

/*
 * Allow lock_map() to be called in a critical section, where memory cannot be
 * allocated.  Locking a buffer may move its pin from a hash table of bufmgr.c
 * into an array, and another one into the table, which might have to grow.
 * Pinning it once more does that here.
 */
static void
prepare_to_lock_map(const PvMapChange *map)
{
	if (map->flags != 0)
	{
		IncrBufferRefCount(map->vmbuffer);
		ReleaseBuffer(map->vmbuffer);
	}
}

/*
 * Lock the page of the map, if the map changes.  The caller holds an exclusive
 * lock on the heap page.  Up to 18, core locked the map in critical sections
 * as well: visibilitymap_set(), called by lazy_scan_new_or_empty().
 */
static void
lock_map(const PvMapChange *map)
{
	if (map->flags != 0)
		LockBuffer(map->vmbuffer, BUFFER_LOCK_EXCLUSIVE);
}

/* Unlock what lock_map() has locked. */
static void
unlock_map(const PvMapChange *map)
{
	if (map->flags != 0)
		LockBuffer(map->vmbuffer, BUFFER_LOCK_UNLOCK);
}

/* Set the bits, and those of the page, in a critical section. */
static void
apply_map(Relation rel, Buffer buf, const PvMapChange *map)
{
	Page		page = BufferGetPage(buf);

	if (map->flags == 0)
		return;
	PageSetAllVisible(page);
	PageClearPrunable(page);
	visibilitymap_set(BufferGetBlockNumber(buf), map->vmbuffer, map->flags,
					  rel->rd_locator);
}

/* Arguments for the record, which is written in the critical section */
#define MAP_TO_LOG(map) \
	((map)->flags != 0 ? (map)->vmbuffer : InvalidBuffer), (map)->flags,

/* Set only a page's bits, with an exclusive lock on the page. */
void
pv_map_set(Relation rel, Buffer buf, const PvMapChange *map)
{
	Assert(map->flags != 0);
	lock_map(map);

	START_CRIT_SECTION();

	MarkBufferDirty(buf);
	apply_map(rel, buf, map);
	if (RelationNeedsWAL(rel))
		log_heap_prune_and_freeze(rel, buf, MAP_TO_LOG(map) map->horizon,
								  false, PRUNE_VACUUM_SCAN, NULL, 0, NULL, 0,
								  NULL, 0, NULL, 0);

	END_CRIT_SECTION();

	unlock_map(map);
}

#else							/* before PG 19 */

/* The map has records of its own, so no other record sets bits there. */
#define prepare_to_lock_map(map)	Assert((map)->flags == 0)
#define lock_map(map)				Assert((map)->flags == 0)
#define unlock_map(map)				((void) 0)
#define apply_map(rel, buf, map)	((void) 0)
#define MAP_TO_LOG(map)

/*
 * Set only a page's bits, with an exclusive lock on the page.  With checksums,
 * the record for the map changes the page's LSN.
 */
void
pv_map_set(Relation rel, Buffer buf, const PvMapChange *map)
{
	PageSetAllVisible(BufferGetPage(buf));
	MarkBufferDirty(buf);
	visibilitymap_set(rel, BufferGetBlockNumber(buf), buf, InvalidXLogRecPtr,
					  map->vmbuffer, map->horizon, map->flags);
}

/*
 * The same for a page without line pointers.  The extension of a table is not
 * WAL-logged.  If the page never was, replay of a record that marks it
 * all-visible would fail.
 */
void
pv_map_set_empty(Relation rel, Buffer buf, const PvMapChange *map)
{
	START_CRIT_SECTION();

	MarkBufferDirty(buf);
	if (RelationNeedsWAL(rel) &&
		XLogRecPtrIsInvalid(PageGetLSN(BufferGetPage(buf))))
		log_newpage_buffer(buf, true);
	pv_map_set(rel, buf, map);

	END_CRIT_SECTION();
}

#endif							/* before PG 19 */


/* ----------------------------------------------------------------
 *		Pruning and freezing, and line pointers that become unused
 * ----------------------------------------------------------------
 */

#if PG_VERSION_NUM >= 170000

/*
 * Prune and freeze a page as planned, from PG 19 on set its bits in the
 * visibility map, and WAL-log all that in one record, with the newest of the
 * conflict horizons.  freeze_horizon counts only if there is something to
 * freeze.  The caller holds a cleanup lock.
 *
 * One page of the map has the bits of 256 MB of the table, in which all
 * processes of a vacuum work at the same time.  So it is locked only when the
 * heap page has been changed, which takes longer than all that follows.  Core
 * locks it before the critical section.
 */
void
pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
					TransactionId freeze_horizon, PvFreezePlan *frozen,
					int nfrozen, const PvMapChange *map)
{
	TransactionId horizon = plan->removed_xid;

	if (map->flags != 0 && TransactionIdFollows(map->horizon, horizon))
		horizon = map->horizon;
	if (nfrozen > 0 && TransactionIdFollows(freeze_horizon, horizon))
		horizon = freeze_horizon;
	heap_pre_freeze_checks(buf, frozen, nfrozen);
	prepare_to_lock_map(map);

	START_CRIT_SECTION();

	MarkBufferDirty(buf);
	if (pv_plan_changes_page(plan))
		heap_page_prune_execute(buf, false, plan->redirected,
								plan->nredirected, plan->dead, plan->ndead,
								plan->unused, plan->nunused);
	if (nfrozen > 0)
		heap_freeze_prepared_tuples(buf, frozen, nfrozen);
	lock_map(map);
	apply_map(rel, buf, map);
	if (RelationNeedsWAL(rel))
		log_heap_prune_and_freeze(rel, buf, MAP_TO_LOG(map) horizon, true,
								  PRUNE_VACUUM_SCAN, frozen, nfrozen,
								  plan->redirected, plan->nredirected,
								  plan->dead, plan->ndead,
								  plan->unused, plan->nunused);

	END_CRIT_SECTION();

	unlock_map(map);
}

/*
 * WAL-log that line pointers of a page went from dead to unused, and from PG 19
 * on what that allows to set in the visibility map.  The record that made them
 * dead had the conflict horizon.
 */
static void
log_items_unused(Relation rel, Buffer buf, OffsetNumber *unused, int nunused,
				 const PvMapChange *map)
{
	TransactionId horizon =
		map->flags != 0 ? map->horizon : InvalidTransactionId;

	log_heap_prune_and_freeze(rel, buf, MAP_TO_LOG(map) horizon, false,
							  PRUNE_VACUUM_CLEANUP, NULL, 0, NULL, 0, NULL, 0,
							  unused, nunused);
}

#else							/* before PG 17 */

/* WAL-log changes of line pointers by pruning. */
static void
log_prune(Relation rel, Buffer buf, const PvPrunePlan *plan)
{
	xl_heap_prune xlrec;
	XLogRecPtr	recptr;

#if PG_VERSION_NUM >= 160000
	xlrec.snapshotConflictHorizon = plan->removed_xid;
	xlrec.isCatalogRel = RelationIsAccessibleInLogicalDecoding(rel);
#else
	xlrec.latestRemovedXid = plan->removed_xid;
#endif
	xlrec.nredirected = plan->nredirected;
	xlrec.ndead = plan->ndead;

	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfHeapPrune);
	XLogRegisterBuffer(0, buf, REGBUF_STANDARD);
	if (plan->nredirected > 0)
		XLogRegisterBufData(0, (char *) plan->redirected,
							2 * plan->nredirected * sizeof(OffsetNumber));
	if (plan->ndead > 0)
		XLogRegisterBufData(0, (char *) plan->dead,
							plan->ndead * sizeof(OffsetNumber));
	if (plan->nunused > 0)
		XLogRegisterBufData(0, (char *) plan->unused,
							plan->nunused * sizeof(OffsetNumber));

	/* NB: PageSetLSN() is a macro that evaluates its argument twice */
	recptr = XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_PRUNE);
	PageSetLSN(BufferGetPage(buf), recptr);
}

/*
 * Freeze tuples of a page, and WAL-log that in a record of its own, which
 * makes the change safe against truncation of pg_xact.  PG 16 has a function
 * for it.  The record of PG 15 has the XID after the conflict horizon.
 */
static void
freeze_and_log(Relation rel, Buffer buf, TransactionId freeze_horizon,
			   PvFreezePlan *frozen, int nfrozen)
{
#if PG_VERSION_NUM >= 160000
	heap_freeze_execute_prepared(rel, buf, freeze_horizon, frozen, nfrozen);
#else
	Page		page = BufferGetPage(buf);
	TransactionId cutoff = freeze_horizon;

	TransactionIdAdvance(cutoff);

	START_CRIT_SECTION();

	MarkBufferDirty(buf);
	for (int i = 0; i < nfrozen; i++)
	{
		ItemId		itemid = PageGetItemId(page, frozen[i].offset);

		heap_execute_freeze_tuple((HeapTupleHeader) PageGetItem(page, itemid),
								  &frozen[i]);
	}
	if (RelationNeedsWAL(rel))
	{
		XLogRecPtr	recptr =
			log_heap_freeze(rel, buf, cutoff, frozen, nfrozen);

		PageSetLSN(page, recptr);
	}

	END_CRIT_SECTION();
#endif
}

/*
 * The same on PG 15 and 16, where pruning is logged before the page is frozen,
 * so that the record describes the page as it is then.
 */
void
pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
					TransactionId freeze_horizon, PvFreezePlan *frozen,
					int nfrozen, const PvMapChange *map)
{
	Assert(map->flags == 0);
	if (pv_plan_changes_page(plan))
	{
		START_CRIT_SECTION();

		MarkBufferDirty(buf);
		heap_page_prune_execute(buf, plan->redirected, plan->nredirected,
								plan->dead, plan->ndead,
								plan->unused, plan->nunused);
		if (RelationNeedsWAL(rel))
			log_prune(rel, buf, plan);

		END_CRIT_SECTION();
	}
	if (nfrozen > 0)
		freeze_and_log(rel, buf, freeze_horizon, frozen, nfrozen);
}

/* The same, with the record of PG 15 and 16. */
static void
log_items_unused(Relation rel, Buffer buf, OffsetNumber *unused, int nunused,
				 const PvMapChange *map)
{
	xl_heap_vacuum xlrec = {.nunused = nunused};
	XLogRecPtr	recptr;

	Assert(map->flags == 0);

	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfHeapVacuum);
	XLogRegisterBuffer(0, buf, REGBUF_STANDARD);
	XLogRegisterBufData(0, (char *) unused, nunused * sizeof(OffsetNumber));

	recptr = XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_VACUUM);
	PageSetLSN(BufferGetPage(buf), recptr);
}

#endif							/* before PG 17 */

/*
 * Set dead line pointers of a page unused and, from PG 19 on, its bits in the
 * visibility map.  The caller holds an exclusive lock, and has checked that
 * the items are dead.
 *
 * Core: access/heap/vacuumlazy.c, lazy_vacuum_heap_page.
 */
void
pv_set_items_unused(Relation rel, Buffer buf, OffsetNumber *unused,
					int nunused, const PvMapChange *map)
{
	Page		page = BufferGetPage(buf);

	lock_map(map);

	START_CRIT_SECTION();

	for (int i = 0; i < nunused; i++)
		ItemIdSetUnused(PageGetItemId(page, unused[i]));
	PageTruncateLinePointerArray(page);
	apply_map(rel, buf, map);
	MarkBufferDirty(buf);
	if (RelationNeedsWAL(rel))
		log_items_unused(rel, buf, unused, nunused, map);

	END_CRIT_SECTION();

	unlock_map(map);
}
