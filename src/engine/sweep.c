/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  Dead versions out of a B-tree, before inserts need the space.
 *
 * An UPDATE that is not HOT leaves a version behind in every index.  An insert
 * that finds its leaf page full looks for such versions before it splits the
 * page, but only where the hints say that there are some, or where the UPDATE
 * did not change the indexed columns.  What it does not find stays until the
 * next VACUUM, and by then the page has been split; splits are for ever.  A
 * sweep goes through the leaf pages ahead of the inserts.
 * Thread: "Deleting older versions in unique indexes to avoid page splits".
 *
 * For each leaf page that is at least half full:
 *
 *	 index page    share lock, pin       copy the heap TIDs
 *	               pin                   leave out those of all-visible heap pages;
 *	 heap pages    share lock, each      which are dead to everybody?
 *	 index page    write lock, pin       delete those that are still there
 *	 none                                sleep, as vacuum_cost_delay says
 *
 * The third and fourth line are repeated, so that the write lock is held for a few
 * heap pages at a time.  Core looks at the heap pages of what is deleted once more,
 * under that lock, because the record of the deletion must tell standbys which
 * snapshots it conflicts with.  So we keep the pins of MAX_PAGES_PER_HOLD heap pages
 * at most, delete what they tell, and go on.  Core then finds these pages in shared
 * buffers, and no heap page is read from disk under the write lock.
 *
 * The heap is read through a ring of buffers, as VACUUM reads it.  A page that the
 * ring has taken up and that is pinned when the ring comes round to it is lost to the
 * ring.  So pins are also released after a number of reads that is less than a ring.
 *
 * Why what was found dead can be deleted later: dead to everybody it remains,
 * unless its TID is given to another row in between.  For that VACUUM must have
 * removed all index tuples with this TID, and to remove any from this page it
 * needs a cleanup lock, which it does not get while we have a pin.  So an index
 * tuple with this TID which is on the page is the one we saw.  It may have
 * gone, by a split or an insert's own deletion; then it is not found again.
 * Core: access/nbtree/nbtutils.c, _bt_killitems, relies on the same.
 *
 * A sweep needs no order and no completeness: a page that is split or added
 * meanwhile is a matter for the next one.  Pages are visited in physical order,
 * in ranges that participants take from an atomic counter.  The index loses
 * tuples, not pages; pages that become empty VACUUM deletes.
 *
 * Only B-trees know deletion outside of VACUUM in this form.  Hash and GiST
 * indexes delete by hints, other access methods do not.
 *
 * Who runs this: the backend that calls parvacuum_sweep(), in its transaction,
 * and parallel workers; versions that its snapshot or an older one might see
 * stay.  Or the one that calls the procedure, in a transaction that has no
 * snapshot but for each range of pages in turn.
 *
 * Locks: RowExclusiveLock on table and index, as an insert has them, which
 * VACUUM does not conflict with; page locks as drawn, and never two at a time
 * but inside core's deletion, which an insert calls in the same way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/paths.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/guard.h"
#include "base/process.h"
#include "base/ring.h"
#include "base/settings.h"
#include "engine/dispense.h"
#include "engine/nbtree.h"
#include "engine/pool.h"
#include "engine/reserve.h"
#include "engine/sweep.h"
#include "throttle/cost.h"

#define PV_KEY_SHARED			1
#define PV_KEY_USAGE			2

/* Pages that a range has at most */
#define RANGE_MAX_PAGES			64

/* How far to read ahead, in index pages and in heap pages */
#define MAX_LOOKAHEAD			32

/* Heap pages at most that are looked at during one hold of a leaf's write lock */
#define MAX_PAGES_PER_HOLD		32

/* A page with more free space than this needs no help, in bytes */
#define ENOUGH_FREE_SPACE		(BLCKSZ / 2)

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

	/* Sums, each participant's added when it is done */
	pg_atomic_uint64 pages_visited;
	pg_atomic_uint64 pages_changed;
	pg_atomic_uint64 tuples_deleted;
	pg_atomic_uint64 bytes_freed;
	pg_atomic_uint64 holds;
	pg_atomic_uint64 hold_reads;
	pg_atomic_uint64 usecs_slept;

	/* See base/process.c */
	pg_atomic_uint32 leader_gave_up;

	/* The maximum over all participants */
	pg_atomic_uint32 pages_per_hold;
} SweepShared;

/* What a worker used */
typedef struct SweepUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} SweepUsage;

/* One participant's sweep */
typedef struct Sweep
{
	Relation	heaprel;
	Relation	indrel;
	BufferAccessStrategy index_ring;
	PvRing		heap_ring;
	GlobalVisState *vistest;
	bool		own_snapshots;	/* one for each range, and none during a sleep */
	Buffer		vmbuffer;
	PvLookahead index_ahead;
	PvLookahead heap_ahead;
	PvSweepResult counts;

	/*
	 * The leaf at hand: the heap TIDs in question, sorted.  Those found dead since the
	 * last deletion take the place of those that have been looked up.
	 */
	int			ntids;
	int			ndead;
	ItemPointerData tids[MaxTIDsPerBTreePage];

	/* Pins of the heap pages that these are on, and when to let go of them */
	int			npinned;
	int			max_pinned;
	Buffer		pinned[MAX_PAGES_PER_HOLD];
	int64		reads_before;	/* by this process, when the first was pinned */
	int64		max_reads;

	/* For core's deletion */
	TM_IndexDelete deltids[MaxTIDsPerBTreePage];
	TM_IndexStatus status[MaxTIDsPerBTreePage];
} Sweep;


/*-------------------------------------------------------------------------
 * One leaf page
 *-------------------------------------------------------------------------
 */

/*
 * Is this a leaf that tuples may be deleted from, and has any?
 */
static bool
is_live_leaf(Page page)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);

	return P_ISLEAF(opaque) && !P_IGNORE(opaque) && !P_INCOMPLETE_SPLIT(opaque) &&
		P_FIRSTDATAKEY(opaque) <= PageGetMaxOffsetNumber(page);
}

/*
 * Copy the heap TIDs of a page that is locked, if it is worth a look.
 */
static bool
copy_tids(Sweep *sweep, Page page)
{
	if (!is_live_leaf(page) || PageGetExactFreeSpace(page) > ENOUGH_FREE_SPACE)
		return false;
	sweep->ntids = pv_nbtree_list_tids(page, sweep->tids);
	return sweep->ntids > 0;
}

/* Blocks that this process has read, and those that it found or read. */
static int64
blocks_read(void)
{
	return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
}

static int64
blocks_accessed(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.local_blks_hit + blocks_read();
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) a, (ItemPointer) b);
}

/*
 * Sort the TIDs, leave out those of heap pages where every row is visible to
 * everybody, and have the other pages read in the background.
 */
static void
keep_doubtful(Sweep *sweep)
{
	BlockNumber blkno = InvalidBlockNumber;
	bool		all_visible = false;
	int			n = 0;

	qsort(sweep->tids, sweep->ntids, sizeof(ItemPointerData), compare_tids);
	for (int i = 0; i < sweep->ntids; i++)
	{
		if (ItemPointerGetBlockNumber(&sweep->tids[i]) != blkno)
		{
			blkno = ItemPointerGetBlockNumber(&sweep->tids[i]);
			all_visible = VM_ALL_VISIBLE(sweep->heaprel, blkno, &sweep->vmbuffer);
			if (!all_visible)
				pv_lookahead_block(&sweep->heap_ahead, sweep->heaprel, blkno);
		}
		if (!all_visible)
			sweep->tids[n++] = sweep->tids[i];
	}
	sweep->ntids = n;
}

/*
 * Is the row at this TID dead to everybody, in all its HOT versions?  Its page
 * is locked.
 */
static bool
is_dead(Sweep *sweep, Buffer buf, ItemPointer tid)
{
	SnapshotData nonvacuumable;
	HeapTupleData tuple;
	ItemPointerData at = *tid;

	InitNonVacuumableSnapshot(nonvacuumable, sweep->vistest);
	return ItemPointerGetOffsetNumber(tid) <= PageGetMaxOffsetNumber(BufferGetPage(buf)) &&
		!heap_hot_search_buffer(&at, sweep->heaprel, buf, &nonvacuumable, &tuple,
								NULL, true);
}

/*
 * Look up the rows of one heap page, that of the first TID from here on.  The TIDs of
 * the dead are kept, and the page stays pinned if it has any.  Returns where the next
 * page's TIDs begin.
 */
static int
visit_heap_page(Sweep *sweep, int next)
{
	BlockNumber blkno = ItemPointerGetBlockNumber(&sweep->tids[next]);
	int			ndead = sweep->ndead;
	Buffer		buf;

	CHECK_FOR_INTERRUPTS();
	if (sweep->npinned == 0)
		sweep->reads_before = blocks_read();
	buf = ReadBufferExtended(sweep->heaprel, MAIN_FORKNUM, blkno, RBM_NORMAL,
							 pv_ring_next(&sweep->heap_ring));
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	for (; next < sweep->ntids &&
		 ItemPointerGetBlockNumber(&sweep->tids[next]) == blkno; next++)
	{
		if (is_dead(sweep, buf, &sweep->tids[next]))
			sweep->tids[sweep->ndead++] = sweep->tids[next];
	}
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	if (sweep->ndead > ndead)
		sweep->pinned[sweep->npinned++] = buf;
	else
		ReleaseBuffer(buf);
	return next;
}

/*
 * Describe to core what is to be deleted from a page that is locked for
 * writing: of the TIDs known to be dead, those that are there, in page order.
 */
static void
describe_deletion(Sweep *sweep, Buffer buf, TM_IndexDeleteOp *op)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	int			n = 0;

	for (OffsetNumber off = P_FIRSTDATAKEY(BTPageGetOpaque(page)); off <= maxoff;
		 off = OffsetNumberNext(off))
	{
		ItemPointer tids;
		int			nheap = pv_nbtree_heap_tids(page, off, &tids);

		for (int i = 0; i < nheap && n < sweep->ndead; i++)
		{
			if (bsearch(&tids[i], sweep->tids, sweep->ndead, sizeof(ItemPointerData),
						compare_tids) == NULL)
				continue;
			sweep->deltids[n].tid = tids[i];
			sweep->deltids[n].id = n;
			sweep->status[n].idxoffnum = off;
			sweep->status[n].knowndeletable = true;
			sweep->status[n].promising = false;
			sweep->status[n].freespace = 0;
			n++;
		}
	}
	op->irel = sweep->indrel;
	op->iblknum = BufferGetBlockNumber(buf);
	op->bottomup = false;
	op->bottomupfreespace = 0;
	op->ndeltids = n;
	op->deltids = sweep->deltids;
	op->status = sweep->status;
}

/*
 * Delete from a leaf that is pinned and locked for writing, and note what that took.
 * Core visits the heap pages of what is deleted, and nothing else.
 */
static void
delete_described(Sweep *sweep, Buffer buf, TM_IndexDeleteOp *op)
{
	Page		page = BufferGetPage(buf);
	Size		free_space = PageGetExactFreeSpace(page);
	int64		accessed = blocks_accessed();
	int64		read = blocks_read();
	int			ndead = op->ndeltids;

	_bt_delitems_delete_check(sweep->indrel, buf, sweep->heaprel, op);

	sweep->counts.tuples_deleted += ndead;
	sweep->counts.bytes_freed += PageGetExactFreeSpace(page) - free_space;
	sweep->counts.holds++;
	sweep->counts.hold_reads += blocks_read() - read;
	sweep->counts.pages_per_hold = Max(sweep->counts.pages_per_hold,
									   (int) (blocks_accessed() - accessed));
}

/*
 * Delete what is known to be dead from a leaf that is pinned, and let go of the heap
 * pages that it is on.  Was any of it still there?
 */
static bool
delete_dead(Sweep *sweep, Buffer buf)
{
	TM_IndexDeleteOp op = {.ndeltids = 0};
	bool		deletes;

	_bt_lockbuf(sweep->indrel, buf, BT_WRITE);
	if (is_live_leaf(BufferGetPage(buf)))
		describe_deletion(sweep, buf, &op);
	deletes = op.ndeltids > 0;
	if (deletes)
		delete_described(sweep, buf, &op);
	_bt_unlockbuf(sweep->indrel, buf);

	while (sweep->npinned > 0)
		ReleaseBuffer(sweep->pinned[--sweep->npinned]);
	sweep->ndead = 0;
	return deletes;
}

/*
 * Sweep a leaf that is pinned and whose TIDs in question are known.
 */
static void
sweep_leaf(Sweep *sweep, Buffer buf)
{
	int			next = 0;
	bool		changed = false;

	sweep->ndead = 0;
	while (next < sweep->ntids)
	{
		next = visit_heap_page(sweep, next);
		if (sweep->npinned > 0 &&
			(next >= sweep->ntids || sweep->npinned >= sweep->max_pinned ||
			 blocks_read() - sweep->reads_before >= sweep->max_reads))
			changed |= delete_dead(sweep, buf);
	}
	if (changed)
		sweep->counts.pages_changed++;
}

/*
 * Sweep one page of any kind.
 */
static void
sweep_page(Sweep *sweep, BlockNumber blkno)
{
	BTPageOpaque opaque;
	Buffer		buf = pv_nbtree_read_page(sweep->indrel, blkno, sweep->index_ring,
										  &opaque);
	bool		visit = opaque != NULL && copy_tids(sweep, BufferGetPage(buf));

	_bt_unlockbuf(sweep->indrel, buf);

	if (visit)
	{
		sweep->counts.pages_visited++;
		keep_doubtful(sweep);
		sweep_leaf(sweep, buf);
	}
	ReleaseBuffer(buf);
}


/*-------------------------------------------------------------------------
 * One participant
 *-------------------------------------------------------------------------
 */

/*
 * See the table as of now: what this session knows of others' snapshots may be old.
 * Where there is no snapshot, because a procedure calls us, take one.
 */
static void
begin_looking(Sweep *sweep)
{
	if (sweep->own_snapshots)
		PushActiveSnapshot(GetTransactionSnapshot());
	(void) GetOldestNonRemovableTransactionId(sweep->heaprel);
	sweep->vistest = GlobalVisTestFor(sweep->heaprel);
}

static void
end_looking(Sweep *sweep)
{
	if (!sweep->own_snapshots)
		return;
	PopActiveSnapshot();
	InvalidateCatalogSnapshot();
}

/*
 * Sleep until all that was done is paid for, with no page locked, no leaf pinned, and
 * without the snapshot that is ours to give up.
 */
static void
pay(Sweep *sweep)
{
	if (!pv_cost_is_owing())
		return;
	end_looking(sweep);
	sweep->counts.usecs_slept += pv_cost_delay_in_full();
	begin_looking(sweep);
}

/*
 * Sweep the pages of a range.
 */
static void
sweep_range(Sweep *sweep, BlockNumber start, BlockNumber end)
{
	BlockNumber asked = start;

	begin_looking(sweep);
	for (BlockNumber blkno = start; blkno < end; blkno++)
	{
		for (; asked < end && asked < blkno + sweep->index_ahead.distance; asked++)
			pv_lookahead_block(&sweep->index_ahead, sweep->indrel, asked);
		sweep_page(sweep, blkno);
		pay(sweep);
	}
	end_looking(sweep);
}

/*
 * Have the sums and the maximum include what this process has done.
 */
static void
add_counts(SweepShared *shared, const PvSweepResult *counts)
{
	uint32		most = pg_atomic_read_u32(&shared->pages_per_hold);

	pg_atomic_fetch_add_u64(&shared->pages_visited, counts->pages_visited);
	pg_atomic_fetch_add_u64(&shared->pages_changed, counts->pages_changed);
	pg_atomic_fetch_add_u64(&shared->tuples_deleted, counts->tuples_deleted);
	pg_atomic_fetch_add_u64(&shared->bytes_freed, counts->bytes_freed);
	pg_atomic_fetch_add_u64(&shared->holds, counts->holds);
	pg_atomic_fetch_add_u64(&shared->hold_reads, counts->hold_reads);
	pg_atomic_fetch_add_u64(&shared->usecs_slept, counts->usecs_slept);
	while (most < (uint32) counts->pages_per_hold &&
		   !pg_atomic_compare_exchange_u32(&shared->pages_per_hold, &most,
										   (uint32) counts->pages_per_hold))
		;
}

/*
 * How many heap pages may be pinned, and how many read before they are released?  No
 * more pins than this process's part of all buffers, and fewer reads than the ring
 * has buffers.
 * Core: storage/buffer/bufmgr.c, LimitAdditionalPins.
 */
static void
limit_pins(Sweep *sweep, int ring_kb)
{
	int			ring_blocks = ring_kb / (BLCKSZ / 1024);

	sweep->max_pinned = Max(1, Min(MAX_PAGES_PER_HOLD, NBuffers / MaxBackends));
	sweep->max_reads = ring_kb == 0 ? PG_INT64_MAX : Max(1, ring_blocks / 2);
}

/*
 * Take part in a sweep, and add up what was done.  Where there is no snapshot each range
 * of pages gets one of its own: a long sweep then does not keep from being deleted what
 * dies meanwhile, neither here nor elsewhere.
 */
static void
participate(SweepShared *shared, Relation heaprel, Relation indrel)
{
	Sweep	   *sweep = palloc0(sizeof(Sweep));
	BlockNumber start,
				end;

	sweep->heaprel = heaprel;
	sweep->indrel = indrel;
	sweep->index_ring = GetAccessStrategy(BAS_BULKREAD);
	pv_ring_create(&sweep->heap_ring, shared->ring_kb);
	limit_pins(sweep, shared->ring_kb);
	sweep->own_snapshots = !ActiveSnapshotSet();
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

/*
 * All that a worker does once it has found what it shares with its leader.
 */
static void
work_in_sweep(void *arg)
{
	SweepShared *shared = arg;
	Relation	heaprel = table_open(shared->heapoid, RowExclusiveLock);
	Relation	indrel = index_open(shared->indexoid, RowExclusiveLock);

	participate(shared, heaprel, indrel);
	index_close(indrel, RowExclusiveLock);
	table_close(heaprel, RowExclusiveLock);
}

/*
 * Entry point of a worker.
 */
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
 * The ring of buffers of each participant, in kilobytes, as a vacuum of the table would
 * have it by its options.
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
	pv_cost_init(&shared->cost, pv_guc_cost_limit_scale);
	pg_atomic_init_u64(&shared->pages_visited, 0);
	pg_atomic_init_u64(&shared->pages_changed, 0);
	pg_atomic_init_u64(&shared->tuples_deleted, 0);
	pg_atomic_init_u64(&shared->bytes_freed, 0);
	pg_atomic_init_u64(&shared->holds, 0);
	pg_atomic_init_u64(&shared->hold_reads, 0);
	pg_atomic_init_u64(&shared->usecs_slept, 0);
	pg_atomic_init_u32(&shared->leader_gave_up, 0);
	pg_atomic_init_u32(&shared->pages_per_hold, 0);
}

/* What all participants have done. */
static void
read_sums(SweepShared *shared, PvSweepResult *result)
{
	result->pages_visited = pg_atomic_read_u64(&shared->pages_visited);
	result->pages_changed = pg_atomic_read_u64(&shared->pages_changed);
	result->tuples_deleted = pg_atomic_read_u64(&shared->tuples_deleted);
	result->bytes_freed = pg_atomic_read_u64(&shared->bytes_freed);
	result->holds = pg_atomic_read_u64(&shared->holds);
	result->hold_reads = pg_atomic_read_u64(&shared->hold_reads);
	result->usecs_slept = pg_atomic_read_u64(&shared->usecs_slept);
	result->pages_per_hold = pg_atomic_read_u32(&shared->pages_per_hold);
}

/*
 * Sweep without workers.
 */
static void
sweep_alone(Relation heaprel, Relation indrel, BlockNumber pages,
			int buffer_usage_limit, PvSweepResult *result)
{
	SweepShared shared;

	init_shared(&shared, heaprel, indrel, pages, 0, buffer_usage_limit);
	participate(&shared, heaprel, indrel);
	read_sums(&shared, result);
}

/*
 * Sweep with workers.
 */
static void
sweep_parallel(Relation heaprel, Relation indrel, BlockNumber pages,
			   int nworkers, int buffer_usage_limit, PvSweepResult *result)
{
	ParallelContext *pcxt;
	SweepShared *shared;
	SweepUsage *usage;

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

	/* There may be no segment, or no workers, and all is done here */
	pv_process_lead(&shared->leader_gave_up);
	if (pcxt->nworkers > 0)
		result->workers_launched = pv_launch_workers(pcxt, &shared->cost);
	participate(shared, heaprel, indrel);
	WaitForParallelWorkersToFinish(pcxt);
	pv_process_lead(NULL);

	for (int i = 0; i < result->workers_launched; i++)
		InstrAccumParallelQuery(&usage[i].buffers, &usage[i].wal);
	read_sums(shared, result);
	DestroyParallelContext(pcxt);
	ExitParallelMode();
	pv_release_workers(result->workers_launched);
}

/*
 * Raise an error if this index cannot be swept at all.
 */
static void
check_index(Relation heaprel, Relation indrel)
{
	if (IsCatalogRelation(heaprel) || RELATION_IS_OTHER_TEMP(indrel) ||
		heaprel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot sweep index \"%s\"", RelationGetRelationName(indrel)),
				 errdetail("Catalogs, temporary tables of other sessions, and tables of other access methods than heap are not swept."),
				 errhint("VACUUM removes dead versions from their indexes.")));
	if (!indrel->rd_index->indisready || !indrel->rd_index->indislive)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot sweep index \"%s\"", RelationGetRelationName(indrel)),
				 errdetail("The index is being built or dropped."),
				 errhint("Wait for that, or REINDEX it.")));
}

/*
 * How many workers, if so many are wanted, or, if that is negative, as many as
 * the size is worth?
 */
static int
plan_workers(Relation indrel, BlockNumber pages, int wanted)
{
	if (RelationUsesLocalBuffers(indrel) || IsInParallelMode())
		return 0;
	if (wanted < 0)
		wanted = pv_workers_for_pages(pages, min_parallel_index_scan_size);
	return Min(wanted, Min(max_parallel_maintenance_workers, pv_guc_max_workers));
}

/*
 * Sweep a B-tree, under the session's cost limits.
 */
static void
sweep_btree(Relation heaprel, Relation indrel, BlockNumber pages, int nworkers,
			int buffer_usage_limit, PvSweepResult *result)
{
	bool		before = pv_guard_enter();

	pv_apply_cost_settings();
	VacuumCostBalance = 0;
	PG_TRY();
	{
		if (nworkers > 0)
			sweep_parallel(heaprel, indrel, pages, nworkers, buffer_usage_limit,
						   result);
		else
			sweep_alone(heaprel, indrel, pages, buffer_usage_limit, result);
	}
	PG_FINALLY();
	{
		pv_process_give_up();
		pv_cost_restore();
		VacuumCostActive = false;
		pv_guard_leave(before);
	}
	PG_END_TRY();
}

/*
 * Remove dead versions from a B-tree, with so many workers, or if that is
 * negative as many as its size is worth, as far as the limits allow.
 * buffer_usage_limit is what the table's options say, in kilobytes.  The caller
 * has locked the table and the index with RowExclusiveLock, and checked with these
 * locks that it may.  Another kind of index is left as it is, with a notice.
 */
void
pv_sweep_index(Relation heaprel, Relation indrel, int nworkers,
			   int buffer_usage_limit, PvSweepResult *result)
{
	BlockNumber pages = RelationGetNumberOfBlocks(indrel);

	memset(result, 0, sizeof(*result));
	result->pages_total = pages;
	check_index(heaprel, indrel);
	if (indrel->rd_rel->relam == BTREE_AM_OID)
	{
		sweep_btree(heaprel, indrel, pages, plan_workers(indrel, pages, nworkers),
					buffer_usage_limit, result);
		ereport(DEBUG1,
				(errmsg_internal("sweep of index \"%s\": deleted under " INT64_FORMAT " holds of a leaf's lock, with %d heap pages in one at most and " INT64_FORMAT " reads in all, and slept for " INT64_FORMAT " us",
								 RelationGetRelationName(indrel), result->holds,
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
