/*-------------------------------------------------------------------------
 *
 * pv_compat.c
 *	  What each major version of PostgreSQL does in its own way, to a heap page
 *	  above all.
 *
 * Leader and workers run this, with a cleanup lock on the page (pruning) or an
 * exclusive one (removing line pointers).
 *
 * On PostgreSQL 15 pruning and freezing have a WAL record each.
 *
 * What must follow the back branches: the oldest_xmin argument of
 * heap_page_prune() (15.8), and the format of the records written here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam_xlog.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xloginsert.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"

#include "pv_compat.h"

/*
 * Compute the cutoffs of a vacuum; returns whether it is aggressive.  Leader
 * only, once, and before the relation's size is read.
 * Core: commands/vacuum.c, vacuum_set_xid_limits.
 */
bool
pv_get_cutoffs(Relation rel, const VacuumParams *params, PvCutoffs *cutoffs)
{
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
}

/*
 * Have core prune a page, HOT chains and all.  The caller holds a cleanup lock.
 * *off_loc follows the tuple being worked on, for error messages.  Returns the
 * number of tuples removed.
 */
int
pv_core_prune(Relation rel, Buffer buf, TransactionId OldestXmin,
			  GlobalVisState *vistest, OffsetNumber *off_loc)
{
	int			nnewlpdead;

	return heap_page_prune(rel, buf, OldestXmin, vistest, InvalidTransactionId, 0,
						   &nnewlpdead, off_loc);
}

/*
 * WAL-log changes of line pointers.  With an image, the record holds the page
 * as it is now, whatever else was done to it.
 */
static void
log_prune(Buffer buf, const PvPrunePlan *plan, TransactionId conflict_horizon,
		  bool image)
{
	xl_heap_prune xlrec;
	XLogRecPtr	recptr;

	xlrec.latestRemovedXid = conflict_horizon;
	xlrec.nredirected = plan->nredirected;
	xlrec.ndead = plan->ndead;

	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfHeapPrune);
	XLogRegisterBuffer(0, buf, REGBUF_STANDARD | (image ? REGBUF_FORCE_IMAGE : 0));
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

/* Carry out freeze plans. */
static void
execute_freeze(Page page, PvFreezePlan *plans, int nplans)
{
	for (int i = 0; i < nplans; i++)
	{
		ItemId		itemid = PageGetItemId(page, plans[i].offset);

		heap_execute_freeze_tuple((HeapTupleHeader) PageGetItem(page, itemid),
								  &plans[i]);
	}
}

/*
 * WAL-log a page that was pruned and frozen, as an image.  Standbys conflict with
 * both.
 */
static void
log_image(Buffer buf, const PvPrunePlan *plan, TransactionId freeze_cutoff)
{
	TransactionId horizon = freeze_cutoff;

	TransactionIdRetreat(horizon);
	if (TransactionIdIsValid(plan->removed_xid) &&
		TransactionIdFollows(plan->removed_xid, horizon))
		horizon = plan->removed_xid;
	log_prune(buf, plan, horizon, true);
}

/*
 * Prune and freeze a page as planned, and WAL-log it, in a critical section.  The
 * caller holds a cleanup lock and has marked the buffer dirty.
 *
 * Pruning and freezing have a record each, and each is logged before the next
 * change, so that it describes the page as it is then; unless there is to be an
 * image of the page, which shows both.  The freeze record makes the change safe
 * against truncation of pg_xact.
 */
void
pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
					TransactionId freeze_cutoff, PvFreezePlan *frozen,
					int nfrozen, bool image)
{
	Page		page = BufferGetPage(buf);
	bool		logged = RelationNeedsWAL(rel);

	Assert(CritSectionCount > 0);
	if (pv_plan_changes_page(plan))
	{
		heap_page_prune_execute(buf, plan->redirected, plan->nredirected,
								plan->dead, plan->ndead,
								plan->unused, plan->nunused);
		if (logged && !image)
			log_prune(buf, plan, plan->removed_xid, false);
	}
	if (nfrozen > 0)
	{
		execute_freeze(page, frozen, nfrozen);
		if (logged && !image)
		{
			XLogRecPtr	recptr = log_heap_freeze(rel, buf, freeze_cutoff,
												 frozen, nfrozen);

			PageSetLSN(page, recptr);
		}
	}
	if (logged && image)
		log_image(buf, plan, freeze_cutoff);
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

	ring->nparts = Max(1, size_kb / PV_RING_PART_KB);
	ring->parts = palloc(ring->nparts * sizeof(BufferAccessStrategy));
	for (int i = 0; i < ring->nparts; i++)
		ring->parts[i] = GetAccessStrategy(BAS_VACUUM);
}

/*
 * Is the setting the same for all databases and roles, as far as this process
 * knows?  Then a change of the configuration files changes it here, too.
 */
bool
pv_setting_is_cluster_wide(const char *name)
{
	struct config_generic **settings = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
	{
		if (strcmp(settings[i]->name, name) == 0)
			return settings[i]->reset_source < PGC_S_GLOBAL;
	}
	return false;
}
