/*-------------------------------------------------------------------------
 *
 * index_am.c
 *	  What parallel mode allows with the indexes of a table; vacuuming and
 *	  cleaning up one index by its access method.
 *
 * Leader and workers run this, each for the indexes that it has taken
 * (engine/index_vacuum.c).
 *
 * An access method returns its result in memory of its process, but another
 * process may do the next index scan.  So the first result is copied to the
 * unit, and from then on the access method updates the unit's copy.  One that
 * returns more than the common struct allows no worker at all, and gets back
 * what it returned.
 *
 * Workers mean parallel mode from the first heap pass to the index cleanup.
 * An access method that allows no worker in any phase may do things that
 * parallel mode forbids even to the leader, such as assigning a transaction
 * ID:
 *
 *	 cleanup			waits until the workers are gone and parallel mode has ended
 *	 bulk deletion	cannot wait, so there may have to be no workers: see
 *					pv_index_allows_workers()
 *
 * Locks: RowExclusiveLock on the index.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_process_one_index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/gin_private.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "commands/vacuum.h"
#include "optimizer/paths.h"
#include "utils/rel.h"

#include "engine/participant.h"

/*
 * State of the callback between two index tuples.  Where many consecutive ones
 * point to one heap block, as in an index with about the order of the heap,
 * the dead items of that block are fetched from the store once, as a bitmap.
 */
typedef struct DeadItemCheck
{
	PvParticipant *self;
	PvIndexUnit *unit;
	uint32		ncalls;
	BlockNumber blkno;			/* the heap block of the last call */
	int			nasked;			/* number of consecutive calls for it */
	uint64		dead[(MaxHeapTuplesPerPage + 64) / 64];
} DeadItemCheck;

/* Calls between two polls of the cost limits, a power of two */
#define CALLS_PER_POLL			16

/* Calls between two updates of the progress, a power of two */
#define CALLS_PER_SHOW			4096

/* Probes that cost about as much as fetching a block from the store */
#define PROBES_BEFORE_BITMAP	8

/*
 * Does the access method support parallel vacuum in any way?  One that defines
 * nothing does not.
 */
static bool
knows_parallel_vacuum(Relation indrel)
{
	return indrel->rd_indam->amparallelvacuumoptions !=
		VACUUM_OPTION_NO_PARALLEL;
}

/*
 * Does the cleanup run functions of the table's owner?
 *
 * BRIN evaluates the expressions and the predicate of the index for what it
 * summarizes, and the "canonical" function of a range type.  We do not know
 * what access methods that are not core's do.  Such functions may do what
 * parallel mode forbids; before PG 18 a PL/pgSQL block with an EXCEPTION clause
 * is sufficient.  Do not rely on how the owner has declared them.
 */
static bool
cleanup_runs_functions(Relation indrel)
{
	switch (indrel->rd_rel->relam)
	{
		case BTREE_AM_OID:
		case HASH_AM_OID:
		case GIST_AM_OID:
		case GIN_AM_OID:
		case SPGIST_AM_OID:
			return false;
		default:
			for (int i = 0; i < indrel->rd_index->indnkeyatts; i++)
			{
				if (indrel->rd_opcintype[i] == ANYRANGEOID)
					return true;
			}
			/* RelationGetIndexExpressions() would call the functions */
			return !heap_attisnull(indrel->rd_indextuple,
								   Anum_pg_index_indexprs, NULL) ||
				!heap_attisnull(indrel->rd_indextuple,
								Anum_pg_index_indpred, NULL);
	}
}

/* Must the cleanup of the index wait until parallel mode has ended? */
bool
pv_index_cleanup_must_wait(Relation indrel)
{
	return !knows_parallel_vacuum(indrel) ||
		cleanup_runs_functions(indrel);
}

/*
 * Would core's VACUUM command start workers for these indexes, if no number is
 * given?  It does if at least two indexes are worth a worker.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_compute_workers.
 */
static bool
core_would_start_workers(const PvParticipant *leader)
{
	int			nbulkdel = 0;
	int			ncleanup = 0;

	for (int i = 0; i < leader->nindexes; i++)
	{
		Relation	indrel = leader->indrels[i];
		uint8		options = indrel->rd_indam->amparallelvacuumoptions;

		if ((int64) RelationGetNumberOfBlocks(indrel) <
			min_parallel_index_scan_size)
			continue;
		if (options & VACUUM_OPTION_PARALLEL_BULKDEL)
			nbulkdel++;
		if (options & (VACUUM_OPTION_PARALLEL_CLEANUP |
					   VACUUM_OPTION_PARALLEL_COND_CLEANUP))
			ncleanup++;
	}
	return Max(nbulkdel, ncleanup) > 1;
}

/*
 * Leader, before anything is planned: may a vacuum that comes to the indexes
 * have workers?  If not, set *because_of to the name of the index that forbids
 * it.
 *
 * A bulk deletion cannot wait until parallel mode has ended, because the dead
 * items are in memory that ends with the workers.  So the rule is that what
 * succeeds in core must succeed here.  Under autovacuum, core has no workers
 * at all.  Otherwise core is in parallel mode for such an index, too, if other
 * indexes are worth workers.
 */
bool
pv_index_allows_workers(const PvParticipant *leader, bool automatic,
						const char **because_of)
{
	for (int i = 0; i < leader->nindexes; i++)
	{
		if (knows_parallel_vacuum(leader->indrels[i]))
			continue;
		if (!automatic && core_would_start_workers(leader))
			return true;
		*because_of = RelationGetRelationName(leader->indrels[i]);
		return false;
	}
	return true;
}

/* Fetch the dead items of the block at hand as a bitmap. */
static void
fetch_block(DeadItemCheck *check)
{
	OffsetNumber deadoffsets[MaxHeapTuplesPerPage];
	int			ndead = pv_deadtids_get_block(check->self->store, check->blkno,
											  deadoffsets);

	memset(check->dead, 0, sizeof(check->dead));
	for (int i = 0; i < ndead; i++)
		check->dead[deadoffsets[i] / 64] |=
			UINT64CONST(1) << deadoffsets[i] % 64;
}

/*
 * Is the heap item of this index tuple dead?  Access methods call this for
 * every index tuple.
 *
 * Core: commands/vacuum.c, vac_tid_reaped.
 */
static bool
dead_item_callback(ItemPointer tid, void *state)
{
	DeadItemCheck *check = state;
	BlockNumber blkno = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber offnum = ItemPointerGetOffsetNumberNoCheck(tid);

	if (++check->ncalls % CALLS_PER_POLL == 0)
		pv_cost_poll();
	if (check->ncalls % CALLS_PER_SHOW == 0)
	{
		pg_atomic_fetch_add_u64(&check->unit->entries_seen, CALLS_PER_SHOW);
		pv_show(check->self);
	}
	if (blkno != check->blkno)
	{
		check->blkno = blkno;
		check->nasked = 0;
	}
	if (check->nasked < PROBES_BEFORE_BITMAP)
	{
		if (++check->nasked == PROBES_BEFORE_BITMAP)
			fetch_block(check);
		return pv_deadtids_probe(check->self->store, tid);
	}
	return offnum <= MaxHeapTuplesPerPage &&
		(check->dead[offnum / 64] >> offnum % 64 & 1) != 0;
}

/*
 * If this is a GIN index whose pending list is to be emptied now, do that.
 * Return the result so far, in which GIN then continues to count, so that it
 * does not begin again.
 *
 * GIN does it by itself the first time that a vacuum comes to the index, in
 * the bulk deletion, or in the cleanup if there was no bulk deletion.  We do
 * it instead, and also in later index scans.  The minor releases of autumn
 * 2026 do it in every bulk deletion; then little is left for them.
 *
 * A later index scan can have dead items with entries in the pending list, for
 * rows that were inserted after the first index scan by a transaction that
 * aborted.  The bulk deletion does not visit the list.  So the line pointers
 * would be set unused, and used again, while index entries point to them.
 *
 * What is in the list now must go; what is inserted meanwhile need not.
 * Outside of an autovacuum worker, GIN's code continues until the list is
 * empty, which may take forever if other sessions insert fast enough.  So we
 * ask for this only where core does: in a VACUUM command, the first time.
 * Parallel workers of autovacuum and of the scheduler behave like autovacuum.
 *
 * Core: access/gin/ginfast.c, ginInsertCleanup; access/gin/ginvacuum.c,
 * ginbulkdelete.
 */
static IndexBulkDeleteResult *
empty_pending_list(const PvParticipant *self, Relation indrel, PvPhase phase,
				   IndexBulkDeleteResult *istat)
{
	bool		full_clean = istat == NULL && !self->shared->plan.automatic;
	GinState	ginstate;

	if (indrel->rd_indam->ambulkdelete != ginbulkdelete ||
		(phase != PV_PHASE_INDEX && istat != NULL))
		return istat;
	if (istat == NULL)
		istat = palloc0(sizeof(IndexBulkDeleteResult));
	initGinState(&ginstate, indrel);
	ginInsertCleanup(&ginstate, full_clean, false, true, istat);
	return istat;
}

/*
 * Raise an error if a function of the index has written something.  The caller
 * had no XID before.
 *
 * The transaction is read-only (entry/dispatch.c), which stops SQL statements,
 * but not all functions of the server that write.  A transaction that has got
 * an XID here must not be committed; entry/dispatch.c says why.  Core's access
 * methods assign no XID while they vacuum.
 */
static void
check_nothing_written(Relation indrel)
{
	if (indrel->rd_rel->relam < FirstNormalObjectId &&
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("functions of index \"%s\" must not write during VACUUM",
						RelationGetRelationName(indrel)),
				 errhint("Use only immutable functions in the expressions and the predicate of the index.")));
}

/*
 * Let the access method vacuum or clean up one index, and store its result in
 * the unit.
 */
void
pv_index_process(PvParticipant *self, int i, PvPhase phase,
				 IndexVacuumInfo *ivinfo)
{
	PvIndexUnit *unit = &self->units[i];
	Relation	indrel = self->indrels[i];
	IndexBulkDeleteResult *istat =
		unit->result.istat_valid ? &unit->result.istat : NULL;
	DeadItemCheck check = {
		.self = self,
		.unit = unit,
		.blkno = InvalidBlockNumber,
	};
	bool		had_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());

	if (self->is_leader && self->private_istats[i] != NULL)
		istat = self->private_istats[i];

	/* Only the bulk deletion comes to polls of ours, in its callback */
	pv_cost_flush();
	istat = empty_pending_list(self, indrel, phase, istat);
	if (phase != PV_PHASE_INDEX)
		istat = index_vacuum_cleanup(ivinfo, istat);
	pv_cost_charge_slept();
	if (phase == PV_PHASE_INDEX)
		istat = index_bulk_delete(ivinfo, istat, dead_item_callback, &check);
	if (!had_xid)
		check_nothing_written(indrel);

	unit->result.istat_valid = istat != NULL;
	if (istat == NULL || istat == &unit->result.istat)
		return;
	unit->result.istat = *istat;
	if (knows_parallel_vacuum(indrel))
		pfree(istat);
	else
		self->private_istats[i] = istat;
}
