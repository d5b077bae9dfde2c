/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  Removing dead versions from a B-tree before inserts need the space.
 *
 * An UPDATE that is not HOT leaves a dead version in every index.  An insert
 * that finds its leaf page full looks for such versions before it splits the
 * page, but only if hints say that there are some, or if the UPDATE did not
 * change the indexed columns.  What it does not find stays until the next
 * VACUUM, and by then the page has been split, which cannot be undone.  A
 * sweep visits the leaf pages before the inserts do.
 *
 * A sweep need not be complete: it leaves a page that is split or added
 * meanwhile to the next one.  The participants visit pages in physical order,
 * in ranges that they claim from an atomic counter; engine/sweep_page.c has
 * the work on a page.  The index loses tuples, not pages: VACUUM deletes those
 * that become empty.
 *
 * Only B-trees support deletion outside of VACUUM in this form.  Hash and GiST
 * indexes delete by hints, other access methods not at all.
 *
 * The backend that calls parvacuum_sweep() runs this in its transaction, with
 * parallel workers; versions that its snapshot or an older one might see stay.
 * The backend that calls the procedure has no snapshot except one for each
 * range of pages.  A scheduler worker has no parallel workers, and others
 * ignore its snapshot, as in a vacuum.
 *
 * Locks: RowExclusiveLock on table and index, as for an insert; VACUUM does
 * not conflict with it.  The locks on pages are in engine/sweep_page.c.
 *
 * Discussion: pgsql-hackers, "Deleting older versions in unique indexes to
 * avoid page splits".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/paths.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "storage/spin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/guard.h"
#include "base/process.h"
#include "base/ring.h"
#include "base/settings.h"
#include "engine/claim.h"
#include "engine/pool.h"
#include "engine/sweep.h"
#include "throttle/cost.h"

#define PV_KEY_SHARED			1
#define PV_KEY_USAGE			2

/* Largest size of a range, in pages */
#define RANGE_MAX_PAGES			64

/* Largest distance of reading ahead, for index pages and for heap pages */
#define MAX_LOOKAHEAD			32

/* What all participants share */
typedef struct SweepShared
{
	/* Set before launch, then read-only */
	Oid			indexoid;
	Oid			heapoid;
	PvIdentity	leader_identity;
	PvDispenseShared pages;
	int			ring_kb;		/* of each participant; 0: no ring */

	PvCostShared cost;

	pg_atomic_uint32 leader_gave_up;	/* see base/process.c */

	/* Under the mutex: what the participants that are done have counted */
	slock_t		mutex;
	PvSweepResult sum;
} SweepShared;

/* What a worker has used */
typedef struct SweepUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} SweepUsage;


/*-------------------------------------------------------------------------
 * One participant
 *-------------------------------------------------------------------------
 */

/*
 * Get a current view of the table, because what this session knows of other
 * sessions' snapshots may be old.  If a procedure calls us, there is no
 * snapshot, so take one.
 */
static void
begin_range_snapshot(PvSweep *sweep)
{
	if (sweep->own_snapshots)
		PushActiveSnapshot(GetTransactionSnapshot());
	(void) GetOldestNonRemovableTransactionId(sweep->heaprel);
	sweep->vistest = GlobalVisTestFor(sweep->heaprel);
}

static void
end_range_snapshot(const PvSweep *sweep)
{
	if (!sweep->own_snapshots)
		return;
	PopActiveSnapshot();
	InvalidateCatalogSnapshot();
}

/*
 * Sleep as long as the cost balance requires, with no page locked, no leaf
 * page pinned, and without a snapshot that we can release.  The scheduler's
 * balance is charged at every page.
 */
static void
sleep_off_cost(PvSweep *sweep)
{
	if (pv_cost_uses_balance())
	{
		sweep->counts.usecs_slept += pv_cost_delay();
		return;
	}
	if (!pv_cost_is_owing())
		return;
	end_range_snapshot(sweep);
	sweep->counts.usecs_slept += pv_cost_delay_in_full();
	begin_range_snapshot(sweep);
}

/* Sweep the pages of a range. */
static void
sweep_range(PvSweep *sweep, BlockNumber start, BlockNumber end)
{
	BlockNumber asked = start;

	begin_range_snapshot(sweep);
	for (BlockNumber blkno = start; blkno < end; blkno++)
	{
		for (; asked < end && asked < blkno + sweep->index_ahead.distance;
			 asked++)
			pv_lookahead_block(&sweep->index_ahead, sweep->indrel, asked);
		pv_sweep_page(sweep, blkno);
		sleep_off_cost(sweep);
		if (sweep->poll != NULL)
			sweep->poll->function(sweep->poll->arg);
	}
	end_range_snapshot(sweep);
}

/* Add the counters of this process to the shared ones. */
static void
add_counts(SweepShared *shared, const PvSweepResult *counts)
{
	PvSweepResult *sum = &shared->sum;

	SpinLockAcquire(&shared->mutex);
	sum->pages_visited += counts->pages_visited;
	sum->pages_changed += counts->pages_changed;
	sum->tuples_deleted += counts->tuples_deleted;
	sum->bytes_freed += counts->bytes_freed;
	sum->holds += counts->holds;
	sum->hold_reads += counts->hold_reads;
	sum->usecs_slept += counts->usecs_slept;
	sum->pages_per_hold = Max(sum->pages_per_hold, counts->pages_per_hold);
	SpinLockRelease(&shared->mutex);
}

/*
 * Decide how many heap pages may be pinned, and how many may be read before
 * the pins are released: no more pins than this process's part of all buffers,
 * and fewer reads than the ring has buffers.
 *
 * Core: storage/buffer/bufmgr.c, LimitAdditionalPins.
 */
static void
limit_pins(PvSweep *sweep, int ring_kb)
{
	int			ring_blocks = ring_kb / (BLCKSZ / 1024);

	sweep->max_pinned =
		Max(1, Min(PV_SWEEP_PAGES_PER_HOLD, NBuffers / MaxBackends));
	sweep->max_reads = ring_kb == 0 ? PG_INT64_MAX : Max(1, ring_blocks / 2);
}

/*
 * Take part in a sweep, and add up what was done.
 *
 * If there is no snapshot, each range of pages gets its own.  A long sweep
 * then does not prevent the removal of versions that become dead meanwhile,
 * neither here nor in other tables.
 */
static void
participate(SweepShared *shared, Relation heaprel, Relation indrel,
			const PvSweepPoll *poll)
{
	PvSweep    *sweep = palloc0(sizeof(PvSweep));
	BlockNumber start,
				end;

	sweep->heaprel = heaprel;
	sweep->indrel = indrel;
	sweep->index_ring = GetAccessStrategy(BAS_BULKREAD);
	pv_ring_create(&sweep->heap_ring, shared->ring_kb);
	limit_pins(sweep, shared->ring_kb);
	sweep->own_snapshots = !ActiveSnapshotSet();
	sweep->poll = poll;
	sweep->vmbuffer = InvalidBuffer;
	pv_lookahead_init(&sweep->index_ahead, indrel, MAX_LOOKAHEAD);
	pv_lookahead_init(&sweep->heap_ahead, heaprel, MAX_LOOKAHEAD);

	pv_cost_begin_work(&shared->cost);
	while (pv_dispense_claim(&shared->pages, &start, &end))
		sweep_range(sweep, start, end);
	pv_cost_end_work();

	if (BufferIsValid(sweep->vmbuffer))
		ReleaseBuffer(sweep->vmbuffer);
	FreeAccessStrategy(sweep->index_ring);
	add_counts(shared, &sweep->counts);
	pfree(sweep);
}

/* Do the work of a worker that has found the shared memory of its leader. */
static void
work_in_sweep(void *arg)
{
	SweepShared *shared = arg;
	Relation	heaprel = table_open(shared->heapoid, RowExclusiveLock);
	Relation	indrel = index_open(shared->indexoid, RowExclusiveLock);

	participate(shared, heaprel, indrel, NULL);
	index_close(indrel, RowExclusiveLock);
	table_close(heaprel, RowExclusiveLock);
}

/* Entry point of a worker. */
void
parvacuum_sweep_worker(dsm_segment *seg, shm_toc *toc)
{
	SweepShared *shared = shm_toc_lookup(toc, PV_KEY_SHARED, false);
	SweepUsage *usage = shm_toc_lookup(toc, PV_KEY_USAGE, false);

	usage += ParallelWorkerNumber;
	pv_process_show_identity(&shared->leader_identity);
	pv_guard_process();
	InstrStartParallelQuery();
	pv_process_work(&shared->leader_gave_up, work_in_sweep, shared);
	InstrEndParallelQuery(&usage->buffers, &usage->wal);
}


/*-------------------------------------------------------------------------
 * The sweep
 *-------------------------------------------------------------------------
 */

/*
 * Return the size of each participant's ring of buffers in kilobytes, as for a
 * vacuum of the table.
 */
static int
plan_ring(int limit, int participants)
{
	BufferAccessStrategy asked_for = pv_vacuum_strategy();
	int			size_kb = pv_ring_plan(asked_for, limit, participants);

	FreeAccessStrategy(asked_for);
	return size_kb;
}

static void
init_shared(SweepShared *shared, Relation heaprel, Relation indrel,
			BlockNumber pages, int nworkers, int buffer_usage_limit)
{
	memset(shared, 0, sizeof(SweepShared));
	shared->indexoid = RelationGetRelid(indrel);
	shared->heapoid = RelationGetRelid(heaprel);
	pv_process_identity(&shared->leader_identity);
	pv_dispense_init(&shared->pages, BTREE_METAPAGE + 1, pages, 1,
					 RANGE_MAX_PAGES, nworkers + 1);
	shared->ring_kb = plan_ring(buffer_usage_limit, nworkers + 1);
	pv_cost_init(&shared->cost, 1.0);
	pg_atomic_init_u32(&shared->leader_gave_up, 0);
	SpinLockInit(&shared->mutex);
	shared->sum.pages_total = pages;
}

/* Sweep without workers. */
static void
sweep_alone(Relation heaprel, Relation indrel, BlockNumber pages,
			int buffer_usage_limit, const PvSweepPoll *poll,
			PvSweepResult *result)
{
	SweepShared shared;

	init_shared(&shared, heaprel, indrel, pages, 0, buffer_usage_limit);
	participate(&shared, heaprel, indrel, poll);
	*result = shared.sum;
}

/* Sweep with workers. */
static void
sweep_parallel(Relation heaprel, Relation indrel, BlockNumber pages,
			   int nworkers, int buffer_usage_limit, const PvSweepPoll *poll,
			   PvSweepResult *result)
{
	ParallelContext *pcxt;
	SweepShared *shared;
	SweepUsage *usage;
	int			nlaunched = 0;

	EnterParallelMode();
	pcxt = CreateParallelContext("parvacuum", "parvacuum_sweep_worker", nworkers);
	shm_toc_estimate_chunk(&pcxt->estimator, sizeof(SweepShared));
	shm_toc_estimate_chunk(&pcxt->estimator, nworkers * sizeof(SweepUsage));
	shm_toc_estimate_keys(&pcxt->estimator, 2);
	InitializeParallelDSM(pcxt);

	shared = shm_toc_allocate(pcxt->toc, sizeof(SweepShared));
	init_shared(shared, heaprel, indrel, pages, nworkers, buffer_usage_limit);
	shm_toc_insert(pcxt->toc, PV_KEY_SHARED, shared);
	usage = shm_toc_allocate(pcxt->toc, nworkers * sizeof(SweepUsage));
	memset(usage, 0, nworkers * sizeof(SweepUsage));
	shm_toc_insert(pcxt->toc, PV_KEY_USAGE, usage);

	/* Without a segment or workers, all is done in this process */
	pv_process_lead(&shared->leader_gave_up);
	if (pcxt->nworkers > 0)
		nlaunched = pv_launch_workers(pcxt, &shared->cost);
	participate(shared, heaprel, indrel, poll);
	WaitForParallelWorkersToFinish(pcxt);
	pv_process_lead(NULL);

	for (int i = 0; i < nlaunched; i++)
		InstrAccumParallelQuery(&usage[i].buffers, &usage[i].wal);
	*result = shared->sum;
	result->workers_launched = nlaunched;
	DestroyParallelContext(pcxt);
	ExitParallelMode();
	pv_release_workers(nlaunched);
}

/* Raise an error if this index cannot be swept. */
static void
check_index(Relation heaprel, Relation indrel)
{
	if (IsCatalogRelation(heaprel) || RELATION_IS_OTHER_TEMP(indrel) ||
		heaprel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot sweep index \"%s\"", RelationGetRelationName(indrel)),
				 errdetail("Catalogs, temporary tables of other sessions, and tables of access methods other than heap are not swept."),
				 errhint("VACUUM removes dead versions from their indexes.")));
	if (!indrel->rd_index->indisready || !indrel->rd_index->indislive)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot sweep index \"%s\"", RelationGetRelationName(indrel)),
				 errdetail("The index is being built or dropped."),
				 errhint("Wait until that has finished, or REINDEX the index.")));
}

/*
 * Return the number of workers.  If "wanted" is negative, the size of the
 * index decides.
 */
static int
plan_workers(Relation indrel, BlockNumber pages, int wanted)
{
	if (RelationUsesLocalBuffers(indrel) || IsInParallelMode())
		return 0;
	if (wanted < 0)
		wanted = Min(pv_workers_for_pages(pages, min_parallel_index_scan_size),
					 max_parallel_maintenance_workers);
	return Min(wanted, pv_guc_max_workers);
}

/*
 * Sweep a B-tree under the session's cost limits.  A scheduler worker has set
 * its own before, and keeps them.
 */
static void
sweep_btree(Relation heaprel, Relation indrel, BlockNumber pages, int nworkers,
			int buffer_usage_limit, const PvSweepPoll *poll,
			PvSweepResult *result)
{
	bool		before = pv_guard_enter();

	if (!pv_is_scheduler_worker)
	{
		pv_apply_cost_settings();
		VacuumCostBalance = 0;
	}
	PG_TRY();
	{
		if (nworkers > 0)
			sweep_parallel(heaprel, indrel, pages, nworkers,
						   buffer_usage_limit, poll, result);
		else
			sweep_alone(heaprel, indrel, pages, buffer_usage_limit, poll,
						result);
	}
	PG_FINALLY();
	{
		pv_process_give_up();
		pv_cost_restore();
		if (!pv_is_scheduler_worker)
			VacuumCostActive = false;
		pv_guard_leave(before);
	}
	PG_END_TRY();
}

/*
 * Remove dead versions from a B-tree.
 *
 * nworkers is the number of workers as far as the limits allow; if it is
 * negative, the size of the index decides.  buffer_usage_limit is the table's
 * option, in kilobytes.  poll may be NULL.  The caller has locked the table
 * and the index with RowExclusiveLock, and has checked permissions under these
 * locks.  For an index of another access method there is only a notice.
 */
void
pv_sweep_index(Relation heaprel, Relation indrel, int nworkers,
			   int buffer_usage_limit, const PvSweepPoll *poll,
			   PvSweepResult *result)
{
	BlockNumber pages = RelationGetNumberOfBlocks(indrel);

	memset(result, 0, sizeof(*result));
	result->pages_total = pages;
	check_index(heaprel, indrel);
	if (indrel->rd_rel->relam == BTREE_AM_OID)
	{
		sweep_btree(heaprel, indrel, pages,
					plan_workers(indrel, pages, nworkers), buffer_usage_limit,
					poll, result);
		ereport(DEBUG1,
				(errmsg_internal("sweep of index \"%s\": deleted under " INT64_FORMAT " write locks of leaf pages, at most %d heap pages under one lock, " INT64_FORMAT " reads under all of them, slept " INT64_FORMAT " us",
								 RelationGetRelationName(indrel),
								 result->holds,
								 result->pages_per_hold, result->hold_reads,
								 result->usecs_slept)));
	}
	else
		ereport(NOTICE,
				(errmsg("index \"%s\" is not a B-tree, so there is nothing to sweep",
						RelationGetRelationName(indrel)),
				 errdetail("Its access method, \"%s\", has no deletion outside of VACUUM.",
						   get_am_name(indrel->rd_rel->relam))));
}
