/*-------------------------------------------------------------------------
 *
 * compat.c
 *	  What each major version of PostgreSQL does in its own way, above all to a
 *	  heap page.
 *
 * Leader and workers change heap pages here, with a cleanup lock on the page
 * (pruning) or an exclusive lock (removing line pointers).
 *
 *		version		WAL records
 *		15, 16		one for pruning, one for freezing, one for line pointers that
 *					become unused; each describes the page as the one before
 *					left it
 *		17, 18		one for pruning and freezing together; line pointers that become
 *					unused have a record of the same kind
 *
 * A record that has an image of the page must suffice without the image.
 * While no backup is running, each page of WAL says by XLP_BKP_REMOVABLE that
 * images may be removed from archived WAL.
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
#include "utils/acl.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"

#include "base/compat.h"

/* ----------------------------------------------------------------
 *		Heap pages
 * ----------------------------------------------------------------
 */

/*
 * Computes the cutoffs of a vacuum, and returns whether it is aggressive.  The
 * leader calls this once, before it reads the size of the relation.
 *
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
 * The conflict horizon of a record that freezes tuples of a page: the newest
 * XID that no query on a standby may consider as running any more, or
 * InvalidTransactionId if freezing conflicts with no query.
 *
 *		version			page is all-frozen			otherwise
 *		15				newest_xmin, at least		the last XID before
 *						the other one				FreezeLimit
 *		16, 17, 18		newest_xmin					the last XID before
 *													OldestXmin
 *
 * "All-frozen" means all-visible and all-frozen with this record, apart from
 * dead items.  newest_xmin is the newest inserter that was not frozen before;
 * it is InvalidTransactionId if nothing but xmax is frozen.
 *
 * PG 15 freezes what is before FreezeLimit, and logs that.  A page that we
 * freeze as a whole has newer inserters as well; their horizon is the one that
 * core logs when it marks the page all-visible.
 *
 * Core: access/heap/vacuumlazy.c (15, 16), lazy_scan_prune;
 * access/heap/pruneheap.c (17), heap_page_prune_and_freeze.
 */
TransactionId
pv_freeze_horizon(const PvCutoffs *cutoffs, bool all_frozen,
				  TransactionId newest_xmin)
{
#if PG_VERSION_NUM >= 160000
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
 * Has core prune a page, HOT chains included.  From PG 17 on core also freezes
 * what it finds worth freezing, and without indexes leaves nothing dead,
 * because all of that goes into one record.  The caller holds a cleanup lock.
 * *off_loc is the offset of the tuple at hand, for error messages.  Returns
 * the number of tuples removed, and sets *nfrozen to the number of tuples
 * frozen.
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
 * Prunes and freezes a page as planned, and WAL-logs both in one record, with
 * the newer one of the two conflict horizons.  freeze_horizon counts only if
 * there is something to freeze.  The caller holds a cleanup lock.
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
		heap_page_prune_execute(buf, false, plan->redirected,
								plan->nredirected, plan->dead, plan->ndead,
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
 * WAL-logs that line pointers of a page went from dead to unused.  The caller
 * holds an exclusive lock, has made the change and marked the buffer dirty,
 * and is still in its critical section.  The record needs no conflict horizon,
 * because the record that made the items dead had it.
 */
void
pv_log_lp_unused(Relation rel, Buffer buf, OffsetNumber *unused, int nunused)
{
	log_heap_prune_and_freeze(rel, buf, InvalidTransactionId, false,
							  PRUNE_VACUUM_CLEANUP, NULL, 0, NULL, 0, NULL, 0,
							  unused, nunused);
}

#else							/* before PG 17 */

/* WAL-logs changes of line pointers by pruning. */
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
 * Freezes tuples of a page, and WAL-logs that in a record of its own, which
 * makes the change safe against truncation of pg_xact.  PG 16 has a function
 * for all of it.  The record of PG 15 has the XID after the conflict horizon.
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
 * The same on PG 15 and 16.  Pruning and freezing have a record each.  The
 * first one is logged before the second change, so that it describes the page
 * as it is then.
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

/* The same, with the record of PG 15 and 16. */
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


/* ----------------------------------------------------------------
 *		Cost-based delay
 * ----------------------------------------------------------------
 */

/*
 * Has what follows in this session, which is not a VACUUM, delayed by the
 * settings of the session.  Core: commands/vacuum.c, vacuum.
 */
void
pv_apply_cost_settings(void)
{
#if PG_VERSION_NUM >= 160000
	VacuumFailsafeActive = false;
	VacuumUpdateCosts();
#else
	VacuumCostActive = VacuumCostDelay > 0;
#endif
}

/*
 * The cost limits of this autovacuum worker, by the settings and by core's
 * balancing, which are in effect then.  Takes no lock, except that PG 16 and
 * later take a shared one to log at DEBUG2.
 *
 * On 15 core knows the limits as they were when the worker began the table.
 */
void
pv_autovacuum_cost_settings(double *delay, int *limit)
{
#if PG_VERSION_NUM >= 160000
	bool		active = VacuumCostActive;

	VacuumUpdateCosts();
	VacuumCostActive = active;
#else
	AutoVacuumUpdateDelay();
#endif
	*delay = pv_vacuum_cost_delay;
	*limit = pv_vacuum_cost_limit;
}

/*
 * The limit alone, which changes when other autovacuum workers start and end.
 */
int
pv_autovacuum_cost_limit(void)
{
#if PG_VERSION_NUM >= 160000
	AutoVacuumUpdateCostLimit();
#else
	AutoVacuumUpdateDelay();
#endif
	return pv_vacuum_cost_limit;
}


/* ----------------------------------------------------------------
 *		Statistics, progress, settings
 * ----------------------------------------------------------------
 */

/*
 * What the cumulative statistics have counted of a table, and when it was last
 * vacuumed or analyzed, 0 if never.  Returns false if they do not know the
 * table.  Waits for no other process.  PG 16 renamed the members.
 */
bool
pv_fetch_counts_and_time(bool shared, Oid relid, double *dead,
						 double *inserted, double *modified,
						 TimestampTz *done_at)
{
	PgStat_StatTabEntry *entry = pgstat_fetch_stat_tabentry_ext(shared, relid);

	if (entry == NULL)
		return false;
#if PG_VERSION_NUM >= 160000
	*dead = entry->dead_tuples;
	*inserted = entry->ins_since_vacuum;
	*modified = entry->mod_since_analyze;
	*done_at =
		Max(Max(entry->last_vacuum_time, entry->last_autovacuum_time),
			Max(entry->last_analyze_time, entry->last_autoanalyze_time));
#else
	*dead = entry->n_dead_tuples;
	*inserted = entry->inserts_since_vacuum;
	*modified = entry->changes_since_analyze;
	*done_at =
		Max(Max(entry->vacuum_timestamp, entry->autovac_vacuum_timestamp),
			Max(entry->analyze_timestamp, entry->autovac_analyze_timestamp));
#endif
	if (pgstat_fetch_consistency == PGSTAT_FETCH_CONSISTENCY_NONE)
		pfree(entry);
	return true;
}

bool
pv_fetch_counts(bool shared, Oid relid, double *dead, double *inserted,
				double *modified)
{
	TimestampTz done_at;

	return pv_fetch_counts_and_time(shared, relid, dead, inserted, modified,
									&done_at);
}

/*
 * Shows the progress of the store of dead TIDs.  From PG 17 on the view has
 * bytes and numbers of item identifiers.  Before, it has numbers of dead
 * tuples only.  Then the maximum is what the limit would hold if all were
 * stored as compactly as those that are there.
 */
void
pv_progress_store(Size bytes, int64 items, Size limit)
{
#if PG_VERSION_NUM >= 170000
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLE_BYTES, limit);
	pgstat_progress_update_param(PROGRESS_VACUUM_DEAD_TUPLE_BYTES, bytes);
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS, items);
#else
	double		bytes_per_item = sizeof(ItemPointerData);

	if (items > 0)
		bytes_per_item = Min(bytes_per_item, (double) bytes / items);
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLES,
								 Max((int64) (limit / bytes_per_item), items));
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_TUPLES, items);
#endif
}

/*
 * Returns the setting, or NULL if the server does not know its name.  PG 16
 * has a function for that.  On 15 the few settings that were renamed long ago
 * are not found by their old names.
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
 * Has the postmaster registered a background worker of that type?  Only for
 * the postmaster, because RegisterBackgroundWorker() does not return that.
 */
bool
pv_is_registered(const char *type)
{
#if PG_VERSION_NUM >= 180000
	dlist_iter	iter;

	dlist_foreach(iter, &BackgroundWorkerList)
	{
		RegisteredBgWorker *worker =
			dlist_container(RegisteredBgWorker, rw_lnode, iter.cur);
#else
	slist_iter	iter;

	slist_foreach(iter, &BackgroundWorkerList)
	{
		RegisteredBgWorker *worker =
			slist_container(RegisteredBgWorker, rw_lnode, iter.cur);
#endif

		if (strcmp(worker->rw_worker.bgw_type, type) == 0)
			return true;
	}
	return false;
}


/* ----------------------------------------------------------------
 *		Rights
 * ----------------------------------------------------------------
 */

/* PG 16 has one function for the owners of all kinds of objects. */
bool
pv_owns_relation(Oid relid, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, role);
#else
	return pg_class_ownercheck(relid, role);
#endif
}

bool
pv_owns_database(Oid database, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, role);
#else
	return pg_database_ownercheck(database, role);
#endif
}

/*
 * May the role vacuum the table?  From PG 17 on that is a privilege, which the
 * owner has unless it was revoked.
 */
bool
pv_may_maintain(Oid relid, Oid role)
{
#if PG_VERSION_NUM >= 170000
	return pg_class_aclcheck(relid, role, ACL_MAINTAIN) == ACLCHECK_OK;
#else
	return pv_owns_relation(relid, role);
#endif
}

/*
 * May the role vacuum all tables?  PG 17 has a predefined role for that;
 * before, only superusers may.
 */
bool
pv_may_maintain_all(Oid role)
{
#if PG_VERSION_NUM >= 170000
	return has_privs_of_role(role, ROLE_PG_MAINTAIN);
#else
	return superuser_arg(role);
#endif
}

/*
 * May the current role cancel an autovacuum worker?  PG 18 has a predefined
 * role for that.  Core: storage/ipc/signalfuncs.c, pg_signal_backend.
 */
bool
pv_may_signal_autovacuum(void)
{
#if PG_VERSION_NUM >= 180000
	return has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_AUTOVACUUM_WORKER);
#else
	return superuser();
#endif
}
