/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Everything that differs between PostgreSQL's major versions.
 *
 * Only this file and base/compat.c name PG_VERSION_NUM.  Callers write the
 * newest signature; where an older server lacks something, it is made up for
 * here.  A difference of a few lines is an inline function below; the work on
 * a heap page, which each major does in its own way, is in base/compat.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COMPAT_H
#define PV_COMPAT_H

#include "access/genam.h"
#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/rmgr.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#if PG_VERSION_NUM >= 170000
#include "storage/read_stream.h"
#endif
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

/*
 * heap_page_prune() got another argument in 15.8 and 16.4, and these releases also
 * cured the endless loop that a horizon moving backwards could cause.  A server
 * older than the headers is refused at start.
 */
#if PG_VERSION_NUM < 150008 || (PG_VERSION_NUM >= 160000 && PG_VERSION_NUM < 160004)
#error "parvacuum needs the headers of PostgreSQL 15.8, 16.4, 17 or 18, or of a later minor release"
#elif PG_VERSION_NUM >= 190000
#error "parvacuum does not know this major version of PostgreSQL"
#elif PG_VERSION_NUM >= 180000
#define PV_MIN_SERVER_VERSION	180000
#elif PG_VERSION_NUM >= 170000
#define PV_MIN_SERVER_VERSION	170000
#elif PG_VERSION_NUM >= 160000
#define PV_MIN_SERVER_VERSION	160004
#else
#define PV_MIN_SERVER_VERSION	150008
#endif

#if PG_VERSION_NUM >= 160000
typedef struct VacuumCutoffs PvCutoffs;
#else
/* PG 16 added struct VacuumCutoffs; this has the same members. */
typedef struct PvCutoffs
{
	TransactionId relfrozenxid;
	MultiXactId relminmxid;
	TransactionId OldestXmin;
	MultiXactId OldestMxact;
	TransactionId FreezeLimit;
	MultiXactId MultiXactCutoff;
} PvCutoffs;
#endif

/* What pruning does to the line pointers of a page. */
typedef struct PvPrunePlan
{
	TransactionId removed_xid;	/* newest XID that goes with the tuples */
	int			nredirected;
	int			ndead;
	int			nunused;
	OffsetNumber *dead;
	OffsetNumber redirected[2 * MaxHeapTuplesPerPage];	/* from, to */
	OffsetNumber unused[MaxHeapTuplesPerPage];
} PvPrunePlan;

static inline bool
pv_plan_changes_page(const PvPrunePlan *plan)
{
	return plan->nredirected > 0 || plan->ndead > 0 || plan->nunused > 0;
}

static inline void
pv_plan_redirect(PvPrunePlan *plan, OffsetNumber from, OffsetNumber to)
{
	plan->redirected[2 * plan->nredirected] = from;
	plan->redirected[2 * plan->nredirected + 1] = to;
	plan->nredirected++;
}

/* PG 16 renamed the plan to freeze one tuple. */
#if PG_VERSION_NUM >= 160000
typedef HeapTupleFreeze PvFreezePlan;
#else
typedef xl_heap_freeze_tuple PvFreezePlan;
#endif

/*
 * From PG 16 on core freezes all that it can on a page where it has to freeze
 * something; before, only that.
 */
#define PV_FREEZES_WHOLE_PAGES	(PG_VERSION_NUM >= 160000)

/*
 * From PG 17 on core's pruning freezes as well, and the line pointers of a table
 * without indexes become unused with it, all in one record.
 */
#define PV_PRUNING_FREEZES		(PG_VERSION_NUM >= 170000)
#define PV_PRUNES_TO_UNUSED		(PG_VERSION_NUM >= 170000)

/*
 * In PG 16 core freezes where pruning has logged an image for whatever reason, to
 * check the record by, too.
 */
#define PV_FREEZES_FOR_CHECKED_IMAGE \
	(PV_FREEZES_WHOLE_PAGES && !PV_PRUNING_FREEZES && wal_consistency_checking[RM_HEAP2_ID])

/*
 * From PG 16 on the record that marks a page all-frozen in the map has no conflict
 * horizon, since the one that froze the page had it.
 */
#define PV_FREEZING_COVERS_MAP	(PG_VERSION_NUM >= 160000)

/*
 * The conflict horizon of a record that freezes tuples of a page: the newest XID that
 * a query on a standby must not take for running any more, or InvalidTransactionId
 * if freezing conflicts with no query.
 *
 * From PG 16 on it is newest_xmin, the newest inserter that was not frozen before, if
 * the page is all-visible and all-frozen with this record, apart from its dead items.
 * That is InvalidTransactionId if nothing but xmax is frozen.  Otherwise it is the
 * last XID before OldestXmin.
 *
 * PG 15 freezes what is before FreezeLimit, and logs that.  A page that is frozen whole
 * has newer inserters as well.  Their horizon is the one that core logs when it marks
 * the page all-visible.
 * Core: access/heap/vacuumlazy.c (15, 16), lazy_scan_prune;
 * access/heap/pruneheap.c (17), heap_page_prune_and_freeze.
 */
static inline TransactionId
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

extern bool pv_get_cutoffs(Relation rel, const VacuumParams *params,
						   PvCutoffs *cutoffs);
extern int	pv_core_prune(Relation rel, Buffer buf, PvCutoffs *cutoffs,
						  GlobalVisState *vistest, bool has_indexes,
						  int *nfrozen, OffsetNumber *off_loc);
extern void pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
								TransactionId freeze_horizon,
								PvFreezePlan *frozen, int nfrozen);
extern void pv_log_lp_unused(Relation rel, Buffer buf,
							 OffsetNumber *unused, int nunused);

/* PG 16 renamed what identifies a table's files. */
#if PG_VERSION_NUM >= 160000
typedef RelFileLocatorBackend PvRelFileBackend;
#define pv_smgr_file(reln)		((reln)->smgr_rlocator)
#else
typedef RelFileNodeBackend PvRelFileBackend;
#define pv_smgr_file(reln)		((reln)->smgr_rnode)
#endif

/*
 * Add a page of zeroes to a fork, and pin it.  The caller holds the lock for extension.
 */
static inline Buffer
pv_extend_fork(Relation rel, ForkNumber fork)
{
#if PG_VERSION_NUM >= 160000
	return ExtendBufferedRel(BMR_REL(rel), fork, NULL, EB_SKIP_EXTENSION_LOCK);
#else
	return ReadBufferExtended(rel, fork, P_NEW, RBM_NORMAL, NULL);
#endif
}

/*
 * Have the table's files stay open until the transaction ends when the entry of the
 * relation cache is made anew: it finds them again.
 * Core: utils/rel.h, RelationCloseSmgr, which closes them.
 */
static inline void
pv_keep_files_open(Relation rel)
{
	if (rel->rd_smgr == NULL)
		return;
#if PG_VERSION_NUM >= 170000
	smgrunpin(rel->rd_smgr);
	rel->rd_smgr = NULL;
#else
	smgrclearowner(&rel->rd_smgr, rel->rd_smgr);
#endif
}

/* PG 16 split the working copies of these from the settings. */
#if PG_VERSION_NUM >= 160000
#define pv_vacuum_cost_delay	vacuum_cost_delay
#define pv_vacuum_cost_limit	vacuum_cost_limit
#else
#define pv_vacuum_cost_delay	VacuumCostDelay
#define pv_vacuum_cost_limit	VacuumCostLimit
#endif

/*
 * Have what follows in this session, which is no VACUUM, delayed as its settings
 * say.  Core: commands/vacuum.c, vacuum().
 */
static inline void
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
 * What this autovacuum worker's cost limits are, by the settings and core's
 * balancing.  Takes no lock, or, to log at DEBUG2, a shared one.
 *
 * On 15 core knows the limits as they were when the worker came to the table, and
 * stores them into the variables above by itself, too, whenever it has slept.
 */
#define PV_CORE_RESETS_COSTS	(PG_VERSION_NUM < 160000)

static inline void
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
 * The limit alone, which changes as other autovacuum workers come and go.
 */
static inline int
pv_autovacuum_cost_limit(void)
{
#if PG_VERSION_NUM >= 160000
	AutoVacuumUpdateCostLimit();
#else
	AutoVacuumUpdateDelay();
#endif
	return pv_vacuum_cost_limit;
}

/* PG 16 has a flag of its own for the failsafe. */
static inline void
pv_set_failsafe(bool active)
{
#if PG_VERSION_NUM >= 160000
	VacuumFailsafeActive = active;
#endif
}

/* A setting, or NULL if the server does not know the name. */
extern struct config_generic *pv_find_setting(const char *name);

extern bool pv_is_registered(const char *type);

/* PG 18 vacuums a table's children with it, not only a partitioned table's. */
#define PV_VACUUMS_CHILDREN		(PG_VERSION_NUM >= 180000)

/* PG 17 added a setting. */
#define PV_HAS_TRANSACTION_TIMEOUT	(PG_VERSION_NUM >= 170000)

/* Does a commit without an XID wake the WAL writer for each page of WAL? */
#define PV_COMMIT_WAKES_WAL_WRITER	(PG_VERSION_NUM < 170000)

/* PG 18 added an argument. */
#if PG_VERSION_NUM >= 180000
#define pv_delay_point()		vacuum_delay_point(false)
#else
#define pv_delay_point()		vacuum_delay_point()
#endif

/*
 * PG 18 shows how long a vacuum has slept, if it is told to.  A parallel worker
 * reports that to its leader now and then, and the rest when it ends.
 */
#if PG_VERSION_NUM >= 180000
#define PV_TRACK_DELAYS			(&track_cost_delay_timing)
#define pv_tracks_delays()		track_cost_delay_timing
#define pv_delay_ms() \
	(MyBEEntry->st_progress_param[PROGRESS_VACUUM_DELAY_TIME] / 1000000.0)
#else
#define PV_TRACK_DELAYS			NULL
#define pv_tracks_delays()		false
#define pv_delay_ms()			0.0
#endif

/*
 * What a report of a vacuum has: PG 16 added what was frozen, PG 18 what was set in
 * the visibility map, and another word for reading a page.
 */
#define PV_REPORTS_FROZEN		(PG_VERSION_NUM >= 160000)
#define PV_REPORTS_MAP			(PG_VERSION_NUM >= 180000)
#define PV_READS_ARE_CALLED		(PG_VERSION_NUM >= 180000 ? "reads" : "misses")

static inline void
pv_report_rest_of_delays(void)
{
#if PG_VERSION_NUM >= 180000
	if (parallel_vacuum_worker_delay_ns > 0)
		pgstat_progress_parallel_incr_param(PROGRESS_VACUUM_DELAY_TIME,
											parallel_vacuum_worker_delay_ns);
#endif
}

/*
 * Does this tuple hold an XID or MXID that this vacuum should remove?
 * Ratchets the trackers back.  PG 16 renamed heap_tuple_would_freeze().
 */
static inline bool
pv_tuple_should_freeze(HeapTupleHeader tuple, const PvCutoffs *cutoffs,
					   TransactionId *NoFreezePageRelfrozenXid,
					   MultiXactId *NoFreezePageRelminMxid)
{
#if PG_VERSION_NUM >= 160000
	return heap_tuple_should_freeze(tuple, cutoffs, NoFreezePageRelfrozenXid,
									NoFreezePageRelminMxid);
#else
	return heap_tuple_would_freeze(tuple, cutoffs->FreezeLimit,
								   cutoffs->MultiXactCutoff,
								   NoFreezePageRelfrozenXid,
								   NoFreezePageRelminMxid);
#endif
}

/*
 * Plan to remove from a tuple that stays all XIDs older than freeze_cutoff, which
 * is FreezeLimit or OldestXmin, and old MXIDs.  False if nothing is to be done.
 * Ratchets the trackers back.
 *
 * PG 16 plans for OldestXmin in any case, says whether the plan has to be carried
 * out, and has trackers for both cases.
 */
static inline bool
pv_prepare_freeze(HeapTupleHeader tuple, const PvCutoffs *cutoffs,
				  TransactionId freeze_cutoff, PvFreezePlan *plan,
				  bool *totally_frozen, TransactionId *relfrozenxid,
				  MultiXactId *relminmxid)
{
#if PG_VERSION_NUM >= 160000
	HeapPageFreeze page = {
		.FreezePageRelfrozenXid = *relfrozenxid,
		.FreezePageRelminMxid = *relminmxid,
		.NoFreezePageRelfrozenXid = *relfrozenxid,
		.NoFreezePageRelminMxid = *relminmxid
	};
	bool		planned = heap_prepare_freeze_tuple(tuple, cutoffs, &page, plan,
													totally_frozen);

	if (page.freeze_required || freeze_cutoff == cutoffs->OldestXmin)
	{
		*relfrozenxid = page.FreezePageRelfrozenXid;
		*relminmxid = page.FreezePageRelminMxid;
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

/*
 * The same for a tuple that has nothing but an inserter, which is committed.
 */
static inline void
pv_prepare_freeze_xmin(HeapTupleHeader tuple, PvFreezePlan *plan)
{
	plan->xmax = InvalidTransactionId;
	plan->t_infomask = tuple->t_infomask | HEAP_XMIN_FROZEN;
	plan->t_infomask2 = tuple->t_infomask2;
	plan->frzflags = 0;
#if PG_VERSION_NUM >= 160000
	plan->checkflags = 0;
#endif
}

/* PG 16 renamed this. */
static inline void
pv_advance_conflict_horizon(HeapTupleHeader htup, TransactionId *xid)
{
#if PG_VERSION_NUM >= 160000
	HeapTupleHeaderAdvanceConflictHorizon(htup, xid);
#else
	HeapTupleHeaderAdvanceLatestRemovedXid(htup, xid);
#endif
}

static inline bool
pv_failsafe_check(const PvCutoffs *cutoffs)
{
#if PG_VERSION_NUM >= 160000
	return vacuum_xid_failsafe_check(cutoffs);
#else
	return vacuum_xid_failsafe_check(cutoffs->relfrozenxid,
									 cutoffs->relminmxid);
#endif
}

/*
 * A ring of buffers, of one participant.  PG 16 added rings of any size; 15 has
 * one size of 256 kB, so a larger ring is several of them, used in turn.
 */
#define PV_RING_PART_KB			256

typedef struct PvRing
{
	int			nparts;			/* 0: no ring */
	int			next;
	BufferAccessStrategy *parts;
} PvRing;

/*
 * The ring that vacuum() is called with where no caller has asked for one: none, if
 * vacuum_buffer_usage_limit says so, which PG 16 added.
 */
static inline BufferAccessStrategy
pv_vacuum_strategy(void)
{
#if PG_VERSION_NUM >= 160000
	return GetAccessStrategyWithSize(BAS_VACUUM, VacuumBufferUsageLimit);
#else
	return GetAccessStrategy(BAS_VACUUM);
#endif
}

extern int	pv_ring_plan(BufferAccessStrategy bstrategy, int limit,
						 int participants);
extern void pv_ring_create(PvRing *ring, int size_kb);

/* Any buffer from now on. */
static inline void
pv_ring_drop(PvRing *ring)
{
	ring->nparts = 0;
}

/* The same as if there had never been a ring. */
static inline bool
pv_ring_is_dropped(const PvRing *ring)
{
	return ring->nparts == 0;
}

/*
 * Kilobytes of the ring that the caller of a vacuum has asked for, by
 * BUFFER_USAGE_LIMIT or vacuum_buffer_usage_limit; -1 if nobody has, and before
 * PG 16, where nobody can.
 */
static inline int
pv_ring_asked_for(BufferAccessStrategy bstrategy)
{
#if PG_VERSION_NUM >= 170000
	const int	default_kb = 2048;
#elif PG_VERSION_NUM >= 160000
	const int	default_kb = 256;
#endif
#if PG_VERSION_NUM >= 160000
	int			kb = GetAccessStrategyBufferCount(bstrategy) * (BLCKSZ / 1024);

	if (bstrategy != NULL && kb != Min(default_kb, NBuffers / 8 * (BLCKSZ / 1024)))
		return kb;
#endif
	return -1;
}

/*
 * What to read the next block with: NULL for any buffer.
 */
static inline BufferAccessStrategy
pv_ring_next(PvRing *ring)
{
	if (ring->nparts == 0)
		return NULL;
	if (++ring->next >= ring->nparts)
		ring->next = 0;
	return ring->parts[ring->next];
}

/* PG 17 has read streams, which PG 18 lets submit several reads at once. */
#define PV_HAS_READ_STREAMS		(PG_VERSION_NUM >= 170000)
#if PG_VERSION_NUM >= 180000
#define PV_READ_STREAM_BATCHES	READ_STREAM_USE_BATCHING
#else
#define PV_READ_STREAM_BATCHES	0
#endif

static inline bool
pv_is_autovacuum_worker(void)
{
	return MyBackendType == B_AUTOVAC_WORKER;
}

/*
 * What the statistics have counted of a table, and when it was vacuumed or analyzed last, 0 if
 * never, without waiting for anybody; false if they do not know it.  PG 16 renamed the members.
 */
static inline bool
pv_fetch_counts_and_time(bool shared, Oid relid, double *dead, double *inserted,
						 double *modified, TimestampTz *done_at)
{
	PgStat_StatTabEntry *entry = pgstat_fetch_stat_tabentry_ext(shared, relid);

	if (entry == NULL)
		return false;
#if PG_VERSION_NUM >= 160000
	*dead = entry->dead_tuples;
	*inserted = entry->ins_since_vacuum;
	*modified = entry->mod_since_analyze;
	*done_at = Max(Max(entry->last_vacuum_time, entry->last_autovacuum_time),
				   Max(entry->last_analyze_time, entry->last_autoanalyze_time));
#else
	*dead = entry->n_dead_tuples;
	*inserted = entry->inserts_since_vacuum;
	*modified = entry->changes_since_analyze;
	*done_at = Max(Max(entry->vacuum_timestamp, entry->autovac_vacuum_timestamp),
				   Max(entry->analyze_timestamp, entry->autovac_analyze_timestamp));
#endif
	if (pgstat_fetch_consistency == PGSTAT_FETCH_CONSISTENCY_NONE)
		pfree(entry);
	return true;
}

static inline bool
pv_fetch_counts(bool shared, Oid relid, double *dead, double *inserted,
				double *modified)
{
	TimestampTz done_at;

	return pv_fetch_counts_and_time(shared, relid, dead, inserted, modified, &done_at);
}

/* PG 16 added heaprel. */
static inline void
pv_ivinfo_init(IndexVacuumInfo *info, Relation index, Relation heaprel,
			   double num_heap_tuples, bool estimated_count,
			   BufferAccessStrategy bstrategy)
{
	memset(info, 0, sizeof(*info));
	info->index = index;
#if PG_VERSION_NUM >= 160000
	info->heaprel = heaprel;
#endif
	info->analyze_only = false;
	info->report_progress = false;
	info->estimated_count = estimated_count;
	info->message_level = DEBUG2;
	info->num_heap_tuples = num_heap_tuples;
	info->strategy = bstrategy;
}

/* PG 18 added num_all_frozen_pages. */
static inline void
pv_update_relstats(Relation rel, BlockNumber num_pages, double num_tuples,
				   BlockNumber num_all_visible_pages,
				   BlockNumber num_all_frozen_pages, bool hasindex,
				   TransactionId frozenxid, MultiXactId minmulti,
				   bool *frozenxid_updated, bool *minmulti_updated)
{
	vac_update_relstats(rel, num_pages, num_tuples, num_all_visible_pages,
#if PG_VERSION_NUM >= 180000
						num_all_frozen_pages,
#endif
						hasindex, frozenxid, minmulti,
						frozenxid_updated, minmulti_updated, false);
}

/* PG 18 added the start time. */
static inline void
pv_report_vacuum(Oid relid, bool shared, PgStat_Counter live,
				 PgStat_Counter dead, TimestampTz starttime)
{
#if PG_VERSION_NUM >= 180000
	pgstat_report_vacuum(relid, shared, live, dead, starttime);
#else
	pgstat_report_vacuum(relid, shared, live, dead);
#endif
}

/*
 * Progress of the store.  PG 17 shows bytes and item identifiers; before, the
 * view has numbers of dead tuples only, so the capacity is what the limit would
 * hold if all were stored as tightly as those there are.
 */
static inline void
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

/* PG 17 shows how many indexes a phase has, and has done. */
static inline void
pv_progress_indexes(int64 total, int64 done)
{
#if PG_VERSION_NUM >= 170000
	const int	params[] = {PROGRESS_VACUUM_INDEXES_TOTAL, PROGRESS_VACUUM_INDEXES_PROCESSED};
	int64		values[] = {total, done};

	pgstat_progress_update_multi_param(lengthof(params), params, values);
#endif
}

/*
 * What PG 17's TidStore would take for the same dead items.  Its memory decides whether
 * indexes are bypassed; ours is so compact that they would be bypassed too often.
 *
 * It is a radix tree.  A node of its lowest level stands for 256 blocks, one of the next
 * for 256 of these nodes.  It has one of five sizes, by the number of its children; a
 * block without dead items is no child.  Up to three dead offsets of a block lie in the
 * node; more are a bitmap, as long as the last one needs.  What each process counts,
 * of blocks in ascending order, is added up.  Levels above these two are next to
 * nothing.  Machines are taken to have 64 bits, and the index vacuum to have one
 * process.
 * Core: access/common/tidstore.c, lib/radixtree.h.
 */
#define PV_TIDSTORE_LEVELS		2
#define PV_TIDSTORE_SIZES		5
#define PV_TIDSTORE_CHILDREN	256

typedef struct PvTidStoreUse
{
	BlockNumber node[PV_TIDSTORE_LEVELS];	/* the last one's number ... */
	int			nchildren[PV_TIDSTORE_LEVELS];	/* ... and what it has so far */
	int64		nnodes[PV_TIDSTORE_SIZES];
	int64		bitmap_bytes;
} PvTidStoreUse;

#if PG_VERSION_NUM >= 170000

/* What a chunk has besides its contents */
#ifdef MEMORY_CONTEXT_CHECKING
#define PV_TIDSTORE_PER_NODE	24
#define PV_TIDSTORE_PER_BITMAP	24
#else
#define PV_TIDSTORE_PER_NODE	8
#define PV_TIDSTORE_PER_BITMAP	0
#endif

/* The smallest size of a node for so many children */
static inline int
pv_tidstore_size(int nchildren)
{
	return nchildren <= 4 ? 0 : nchildren <= 16 ? 1 : nchildren <= 32 ? 2 :
		nchildren <= 64 ? 3 : 4;
}

/* Memory for so many nodes of one size, which is allocated in blocks */
static inline int64
pv_tidstore_node_bytes(int size, int64 nnodes)
{
	static const int node_size[] = {40, 168, 296, 784, 2088};
	static const int block_size[] = {8192, 8192, 16384, 32768, 131072};
	int			per_block = (block_size[size] - 40) /
		(node_size[size] + PV_TIDSTORE_PER_NODE);

	return (nnodes + per_block - 1) / per_block * block_size[size];
}

/* Memory for bitmaps: each block is twice as large as the one before, up to a limit */
static inline int64
pv_tidstore_bitmap_bytes(int64 needed, Size work_mem)
{
	int64		bytes = 0;
	int64		block = 8 * 1024;
	int64		max_block = 8 * 1024 * 1024;

	while (16 * max_block > (int64) work_mem && max_block > block)
		max_block /= 2;
	while (bytes < needed)
	{
		bytes += block;
		block = Min(2 * block, max_block);
	}
	return bytes;
}
#endif

/* A block has so many dead items, the last of them at this offset. */
static inline void
pv_tidstore_count(PvTidStoreUse *use, BlockNumber blkno, int ndead,
				  OffsetNumber last)
{
#if PG_VERSION_NUM >= 170000
	BlockNumber child = blkno;

	for (int level = 0; level < PV_TIDSTORE_LEVELS; level++)
	{
		BlockNumber node = child / PV_TIDSTORE_CHILDREN;
		bool		is_new = use->nchildren[level] == 0 || use->node[level] != node;

		if (is_new)
		{
			use->node[level] = node;
			use->nchildren[level] = 0;
		}
		else
			use->nnodes[pv_tidstore_size(use->nchildren[level])]--;
		use->nnodes[pv_tidstore_size(++use->nchildren[level])]++;
		if (!is_new)
			break;
		child = node;
	}
	if (ndead > 3)
		use->bitmap_bytes += 8 + 8 * (last / 64 + 1) + PV_TIDSTORE_PER_BITMAP;
#endif
}

static inline void
pv_tidstore_add(PvTidStoreUse *sum, const PvTidStoreUse *part)
{
	for (int i = 0; i < PV_TIDSTORE_SIZES; i++)
		sum->nnodes[i] += part->nnodes[i];
	sum->bitmap_bytes += part->bitmap_bytes;
}

/*
 * The dead items that an index vacuum may be skipped for must fit in 32 MB.
 * PG 17 asks its store for bytes; before, the rule counts TIDs of six bytes.
 * work_mem is what the vacuum may use, in bytes.
 */
#define PV_BYPASS_BYTES			(32 * 1024 * 1024)

static inline bool
pv_few_enough_to_bypass(const PvTidStoreUse *use, int64 items, Size work_mem)
{
#if PG_VERSION_NUM >= 170000
	int64		bytes = pv_tidstore_bitmap_bytes(use->bitmap_bytes, work_mem);

	for (int i = 0; i < PV_TIDSTORE_SIZES; i++)
		bytes += pv_tidstore_node_bytes(i, use->nnodes[i]);
	return bytes < PV_BYPASS_BYTES;
#else
	return items < (int64) (PV_BYPASS_BYTES / sizeof(ItemPointerData));
#endif
}

/* PG 16 added an argument. */
static inline bool
pv_btree_page_is_recyclable(Relation heaprel, Page page)
{
#if PG_VERSION_NUM >= 160000
	return BTPageIsRecyclable(page, heaprel);
#else
	return BTPageIsRecyclable(page);
#endif
}

/* PG 17 removed old_snapshot_threshold, which forbids truncation. */
static inline bool
pv_truncation_forbidden(void)
{
#if PG_VERSION_NUM >= 170000
	return false;
#else
	return old_snapshot_threshold >= 0;
#endif
}

/*
 * May a vacuum that leaves it open truncate this table?  PG 18 asks a setting where
 * the table says nothing.
 */
static inline bool
pv_may_truncate(Relation rel)
{
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;

#if PG_VERSION_NUM >= 180000
	if (options == NULL || !options->vacuum_truncate_set)
		return vacuum_truncate;
#endif
	return options == NULL || options->vacuum_truncate;
}

/*
 * PG 18 has a normal vacuum read some all-visible pages, until so large a share of
 * a region's pages could not be frozen.
 */
#define PV_SCANS_EAGERLY		(PG_VERSION_NUM >= 180000)

static inline double
pv_eager_failure_rate(const VacuumParams *params)
{
#if PG_VERSION_NUM >= 180000
	return params->max_eager_freeze_failure_rate;
#else
	return 0;
#endif
}

/* The same, as the server has it; vacuum() asks the table. */
static inline void
pv_default_eager_failure_rate(VacuumParams *params)
{
#if PG_VERSION_NUM >= 180000
	params->max_eager_freeze_failure_rate = vacuum_max_eager_freeze_failure_rate;
#endif
}

/* And as the table or the server has it. */
static inline void
pv_choose_eager_failure_rate(VacuumParams *params, Relation rel)
{
#if PG_VERSION_NUM >= 180000
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;

	pv_default_eager_failure_rate(params);
	if (options != NULL && options->vacuum_max_eager_freeze_failure_rate >= 0)
		params->max_eager_freeze_failure_rate = options->vacuum_max_eager_freeze_failure_rate;
#endif
}

/* PG 18 limits the threshold of dead rows; -1 is no limit.  NULL: no options. */
static inline int
pv_vacuum_max_threshold(const AutoVacOpts *options)
{
#if PG_VERSION_NUM >= 180000
	return options != NULL && options->vacuum_max_threshold >= -1 ?
		options->vacuum_max_threshold : autovacuum_vac_max_thresh;
#else
	return -1;
#endif
}

/* PG 18 counts inserts by the share of the table that is not frozen. */
static inline double
pv_unfrozen_share(Form_pg_class form)
{
#if PG_VERSION_NUM >= 180000
	if (form->relpages > 0 && form->relallfrozen > 0)
		return 1 - Min(form->relallfrozen, form->relpages) / (double) form->relpages;
#endif
	return 1;
}

/* PG 16 has one function for the owners of all objects. */
static inline bool
pv_owns_relation(Oid relid, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, role);
#else
	return pg_class_ownercheck(relid, role);
#endif
}

/*
 * PG 17 made it a privilege to vacuum a table, which its owner has unless it was
 * revoked.
 */
static inline bool
pv_may_maintain(Oid relid, Oid role)
{
#if PG_VERSION_NUM >= 170000
	return pg_class_aclcheck(relid, role, ACL_MAINTAIN) == ACLCHECK_OK;
#else
	return pv_owns_relation(relid, role);
#endif
}

/*
 * May the role maintain all tables?  PG 17 has a predefined role for that; before, it is a
 * matter of superusers.
 */
static inline bool
pv_may_maintain_all(Oid role)
{
#if PG_VERSION_NUM >= 170000
	return has_privs_of_role(role, ROLE_PG_MAINTAIN);
#else
	return superuser_arg(role);
#endif
}

static inline bool
pv_owns_database(Oid database, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, role);
#else
	return pg_database_ownercheck(database, role);
#endif
}

/*
 * May the current role cancel an autovacuum worker?  PG 18 has a role for that.
 * Core: signalfuncs.c, pg_signal_backend.
 */
static inline bool
pv_may_signal_autovacuum(void)
{
#if PG_VERSION_NUM >= 180000
	return has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_AUTOVACUUM_WORKER);
#else
	return superuser();
#endif
}

/* Who that is, for messages. */
#if PG_VERSION_NUM >= 180000
#define PV_MAY_SIGNAL_AUTOVACUUM "roles with privileges of pg_signal_autovacuum_worker"
#else
#define PV_MAY_SIGNAL_AUTOVACUUM "superusers"
#endif

/* PG 17 tells reads of shared blocks from those of local ones. */
static inline instr_time
pv_block_read_time(const BufferUsage *usage)
{
#if PG_VERSION_NUM >= 170000
	return usage->shared_blk_read_time;
#else
	return usage->blk_read_time;
#endif
}

static inline instr_time
pv_block_write_time(const BufferUsage *usage)
{
#if PG_VERSION_NUM >= 170000
	return usage->shared_blk_write_time;
#else
	return usage->blk_write_time;
#endif
}

/* How often the WAL buffers were full, which PG 18 counts; before, -1. */
static inline int64
pv_wal_buffers_full(const WalUsage *usage)
{
#if PG_VERSION_NUM >= 180000
	return usage->wal_buffers_full;
#else
	return -1;
#endif
}

/* A table and its TOAST table; PG 16 lets the table be left out. */
#if PG_VERSION_NUM >= 160000
#define PV_VACOPT_PROCESS_ALL	(VACOPT_PROCESS_MAIN | VACOPT_PROCESS_TOAST)
#else
#define PV_VACOPT_PROCESS_ALL	VACOPT_PROCESS_TOAST
#endif

/* PG 16 added vac_context: what lives until the end of the command. */
static inline void
pv_vacuum(List *relations, VacuumParams *params, BufferAccessStrategy bstrategy,
		  MemoryContext vac_context)
{
#if PG_VERSION_NUM >= 160000
	vacuum(relations, params, bstrategy, vac_context, true);
#else
	vacuum(relations, params, bstrategy, true);
#endif
}

/* PG 17 has code of users run with a search path that is safe. */
static inline void
pv_restrict_search_path(void)
{
#if PG_VERSION_NUM >= 170000
	RestrictSearchPath();
#endif
}

/* PG 17 renamed this. */
#if PG_VERSION_NUM >= 170000
#define PV_WAIT_BUFFER_PIN_EVENT	PG_WAIT_BUFFERPIN
#else
#define PV_WAIT_BUFFER_PIN_EVENT	PG_WAIT_BUFFER_PIN
#endif

#endif							/* PV_COMPAT_H */
