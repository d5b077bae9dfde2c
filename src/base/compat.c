/*-------------------------------------------------------------------------
 *
 * compat.c
 *	  What each major version of PostgreSQL does in its own way, to a heap page
 *	  above all.
 *
 * Leader and workers run this, with a cleanup lock on the page (pruning) or an
 * exclusive one (removing line pointers).
 *
 * From PG 17 on pruning and freezing have one WAL record together, which removing
 * line pointers uses as well.  Before, each has its own, and the two describe the page
 * one after the other.  A record that has an image of the page must suffice without it:
 * where no backup is running, each page of WAL says by XLP_BKP_REMOVABLE that images may
 * be taken out of the archive.
 *
 * What must follow the back branches: the oldest_xmin argument of
 * heap_page_prune() (15.8, 16.4), and the format of the records written here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam_xlog.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xloginsert.h"
#include "postmaster/bgworker_internals.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"

#include "base/compat.h"

/*
 * Compute the cutoffs of a vacuum; returns whether it is aggressive.  Leader
 * only, once, and before the relation's size is read.
 * Core: commands/vacuum.c, vacuum_set_xid_limits (15), vacuum_get_cutoffs.
 */
bool
pv_get_cutoffs(Relation rel, const VacuumParams *params, PvCutoffs *cutoffs)
{
#if PG_VERSION_NUM >= 160000
	return vacuum_get_cutoffs(rel, params, cutoffs);
#else
	cutoffs->relfrozenxid = rel->rd_rel->relfrozenxid;
	cutoffs->relminmxid = rel->rd_rel->relminmxid;

	return vacuum_set_xid_limits(rel,
								 params->freeze_min_age,
								 params->freeze_table_age,
								 params->multixact_freeze_min_age,
								 params->multixact_freeze_table_age,
								 &cutoffs->OldestXmin, &cutoffs->OldestMxact,
								 &cutoffs->FreezeLimit,
								 &cutoffs->MultiXactCutoff);
#endif
}

/*
 * Have core prune a page, HOT chains and all; from PG 17 on freeze what it finds
 * worth it as well, and where there are no indexes leave nothing dead, as that goes
 * into the same record.  The caller holds a cleanup lock.  *off_loc follows the tuple
 * being worked on, for error messages.  Returns the number of tuples removed, and
 * sets *nfrozen to that of those frozen.
 */
int
pv_core_prune(Relation rel, Buffer buf, PvCutoffs *cutoffs,
			  GlobalVisState *vistest, bool has_indexes, int *nfrozen,
			  OffsetNumber *off_loc)
{
#if PG_VERSION_NUM >= 170000
	PruneFreezeResult result;
	TransactionId relfrozenxid = cutoffs->OldestXmin;
	MultiXactId relminmxid = cutoffs->OldestMxact;
	int			options = HEAP_PAGE_PRUNE_FREEZE;

	if (!has_indexes)
		options |= HEAP_PAGE_PRUNE_MARK_UNUSED_NOW;
	heap_page_prune_and_freeze(rel, buf, vistest, options, cutoffs, &result,
							   PRUNE_VACUUM_SCAN, off_loc, &relfrozenxid,
							   &relminmxid);
	*nfrozen = result.nfrozen;
	return result.ndeleted;
#else
	int			nnewlpdead;

	*nfrozen = 0;
	return heap_page_prune(rel, buf, cutoffs->OldestXmin, vistest,
						   InvalidTransactionId, 0, &nnewlpdead, off_loc);
#endif
}

#if PG_VERSION_NUM >= 170000

/*
 * Prune and freeze a page as planned, and WAL-log it.  The caller holds a cleanup
 * lock.  Both are in one record, with the newer one of the two conflict horizons.
 * freeze_horizon counts only if there is something to freeze.
 */
void
pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
					TransactionId freeze_horizon, PvFreezePlan *frozen,
					int nfrozen)
{
	TransactionId horizon = plan->removed_xid;

	if (nfrozen > 0 && TransactionIdFollows(freeze_horizon, horizon))
		horizon = freeze_horizon;
	heap_pre_freeze_checks(buf, frozen, nfrozen);

	START_CRIT_SECTION();

	MarkBufferDirty(buf);
	if (pv_plan_changes_page(plan))
		heap_page_prune_execute(buf, false, plan->redirected, plan->nredirected,
								plan->dead, plan->ndead,
								plan->unused, plan->nunused);
	if (nfrozen > 0)
		heap_freeze_prepared_tuples(buf, frozen, nfrozen);
	if (RelationNeedsWAL(rel))
		log_heap_prune_and_freeze(rel, buf, horizon, true, PRUNE_VACUUM_SCAN,
								  frozen, nfrozen,
								  plan->redirected, plan->nredirected,
								  plan->dead, plan->ndead,
								  plan->unused, plan->nunused);

	END_CRIT_SECTION();
}

/*
 * WAL-log that line pointers of a page went from dead to unused.  The caller
 * holds an exclusive lock, has made the change and marked the buffer dirty, and
 * is still in its critical section.  The record carries no conflict horizon:
 * the one that made the items dead did.
 */
void
pv_log_lp_unused(Relation rel, Buffer buf, OffsetNumber *unused, int nunused)
{
	log_heap_prune_and_freeze(rel, buf, InvalidTransactionId, false,
							  PRUNE_VACUUM_CLEANUP, NULL, 0, NULL, 0, NULL, 0,
							  unused, nunused);
}

#else							/* before PG 17 */

/*
 * WAL-log changes of line pointers.
 */
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
 * Freeze a page and WAL-log that by itself.  The record makes the change safe
 * against truncation of pg_xact.  PG 16 has a function for all of it.  The record of
 * PG 15 has the XID after the conflict horizon.
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
		XLogRecPtr	recptr = log_heap_freeze(rel, buf, cutoff, frozen, nfrozen);

		PageSetLSN(page, recptr);
	}

	END_CRIT_SECTION();
#endif
}

/*
 * Prune and freeze a page as planned, and WAL-log it.  The caller holds a cleanup
 * lock.
 *
 * Pruning and freezing have a record each, and each is logged before the next
 * change, so that it describes the page as it is then.
 */
void
pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
					TransactionId freeze_horizon, PvFreezePlan *frozen,
					int nfrozen)
{
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

/*
 * WAL-log that line pointers of a page went from dead to unused.  The caller
 * holds an exclusive lock, has made the change and marked the buffer dirty, and
 * is still in its critical section.  The record carries no conflict horizon:
 * the one that made the items dead did.
 */
void
pv_log_lp_unused(Relation rel, Buffer buf, OffsetNumber *unused, int nunused)
{
	xl_heap_vacuum xlrec;
	XLogRecPtr	recptr;

	xlrec.nunused = nunused;

	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfHeapVacuum);
	XLogRegisterBuffer(0, buf, REGBUF_STANDARD);
	XLogRegisterBufData(0, (char *) unused, nunused * sizeof(OffsetNumber));

	recptr = XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_VACUUM);
	PageSetLSN(BufferGetPage(buf), recptr);
}

#endif							/* before PG 17 */

/*
 * Plan each participant's ring of buffers, in kilobytes; 0 for none.  bstrategy is what
 * the caller of a vacuum has, and limit what holds for the table where the caller has
 * not asked for a size.  All together take an eighth of shared buffers at most, as core
 * has it for one ring.
 */
int
pv_ring_plan(BufferAccessStrategy bstrategy, int limit, int participants)
{
	int			asked = pv_ring_asked_for(bstrategy);

	if (asked >= 0)
		limit = asked;
	if (bstrategy == NULL || limit == 0)
		return 0;
	limit = Min(limit, NBuffers / 8 * (BLCKSZ / 1024));

	/* of less than a block core makes none */
	return Max(limit / participants, BLCKSZ / 1024);
}

/*
 * Make a ring of about so many kilobytes, 0 for none.  A part of it is a ring
 * of core's.
 */
void
pv_ring_create(PvRing *ring, int size_kb)
{
	memset(ring, 0, sizeof(*ring));
	if (size_kb == 0)
		return;

#if PG_VERSION_NUM >= 160000
	ring->nparts = 1;
	ring->parts = palloc(sizeof(BufferAccessStrategy));
	ring->parts[0] = GetAccessStrategyWithSize(BAS_VACUUM, size_kb);
#else
	ring->nparts = Max(1, size_kb / PV_RING_PART_KB);
	ring->parts = palloc(ring->nparts * sizeof(BufferAccessStrategy));
	for (int i = 0; i < ring->nparts; i++)
		ring->parts[i] = GetAccessStrategy(BAS_VACUUM);
#endif
}

/*
 * A setting, or NULL if the server does not know the name.  PG 16 has a function for
 * that; on 15 the two settings that had other names long ago are not found by these.
 */
struct config_generic *
pv_find_setting(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, DEBUG5);
#else
	struct config_generic **settings = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
	{
		if (pg_strcasecmp(settings[i]->name, name) == 0)
			return settings[i];
	}
	return NULL;
#endif
}

/*
 * Has the postmaster a background worker of that type?  RegisterBackgroundWorker()
 * does not tell.  Postmaster only.
 */
bool
pv_is_registered(const char *type)
{
#if PG_VERSION_NUM >= 180000
	dlist_iter	iter;

	dlist_foreach(iter, &BackgroundWorkerList)
	{
		RegisteredBgWorker *worker = dlist_container(RegisteredBgWorker, rw_lnode, iter.cur);
#else
	slist_iter	iter;

	slist_foreach(iter, &BackgroundWorkerList)
	{
		RegisteredBgWorker *worker = slist_container(RegisteredBgWorker, rw_lnode, iter.cur);
#endif

		if (strcmp(worker->rw_worker.bgw_type, type) == 0)
			return true;
	}
	return false;
}
