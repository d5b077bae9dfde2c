/*-------------------------------------------------------------------------
 *
 * pv_compat.h
 *	  Everything that differs between PostgreSQL's major versions.
 *
 * Only this file and pv_compat.c name PG_VERSION_NUM.  Callers write the
 * newest signature; where an older server lacks something, it is made up for
 * here.  A difference of a few lines is an inline function below; the work on
 * a heap page, which each major does in its own way, is in pv_compat.c.
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
#include "access/visibilitymap.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM < 150008 || PG_VERSION_NUM >= 160000
#error "parvacuum needs the headers of PostgreSQL 15.8 or a later 15"
#endif

/*
 * heap_page_prune() got another argument in 15.8, and that release also cured
 * the endless loop that a horizon moving backwards could cause.  A server
 * older than the headers is refused at start.
 */
#define PV_MIN_SERVER_VERSION	150008

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
typedef xl_heap_freeze_tuple PvFreezePlan;

extern bool pv_get_cutoffs(Relation rel, const VacuumParams *params,
						   PvCutoffs *cutoffs);
extern int	pv_core_prune(Relation rel, Buffer buf, TransactionId OldestXmin,
						  GlobalVisState *vistest, OffsetNumber *off_loc);
extern void pv_prune_and_freeze(Relation rel, Buffer buf, PvPrunePlan *plan,
								TransactionId freeze_cutoff,
								PvFreezePlan *frozen, int nfrozen, bool image);
extern void pv_log_lp_unused(Relation rel, Buffer buf,
							 OffsetNumber *unused, int nunused);

/* PG 16 split the working copies of these from the settings. */
#define pv_vacuum_cost_delay	VacuumCostDelay
#define pv_vacuum_cost_limit	VacuumCostLimit

/*
 * What core's balancing allows this autovacuum worker now.  On 15 core stores
 * that into the variables above by itself, too, whenever the worker has slept.
 * Takes no lock.
 */
#define PV_CORE_RESETS_COSTS	true

static inline void
pv_autovacuum_cost_settings(double *delay, int *limit)
{
	AutoVacuumUpdateDelay();
	*delay = VacuumCostDelay;
	*limit = VacuumCostLimit;
}

extern bool pv_setting_is_cluster_wide(const char *name);

/* PG 18 added an argument. */
#define pv_delay_point()		vacuum_delay_point()

/*
 * Does this tuple hold an XID or MXID that this vacuum should remove?
 * Ratchets the trackers back.  PG 16 renamed heap_tuple_would_freeze().
 */
static inline bool
pv_tuple_should_freeze(HeapTupleHeader tuple, const PvCutoffs *cutoffs,
					   TransactionId *NoFreezePageRelfrozenXid,
					   MultiXactId *NoFreezePageRelminMxid)
{
	return heap_tuple_would_freeze(tuple, cutoffs->FreezeLimit,
								   cutoffs->MultiXactCutoff,
								   NoFreezePageRelfrozenXid,
								   NoFreezePageRelminMxid);
}

/*
 * Plan to remove from a tuple that stays all XIDs older than freeze_cutoff, and
 * old MXIDs.  False if nothing is to be done.  Ratchets the trackers back.  PG 16
 * decides for the whole page.
 */
static inline bool
pv_prepare_freeze(HeapTupleHeader tuple, const PvCutoffs *cutoffs,
				  TransactionId freeze_cutoff, PvFreezePlan *plan,
				  bool *totally_frozen, TransactionId *relfrozenxid,
				  MultiXactId *relminmxid)
{
	return heap_prepare_freeze_tuple(tuple, cutoffs->relfrozenxid,
									 cutoffs->relminmxid, freeze_cutoff,
									 cutoffs->MultiXactCutoff, plan,
									 totally_frozen, relfrozenxid, relminmxid);
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
}

/* PG 16 renamed this. */
static inline void
pv_advance_conflict_horizon(HeapTupleHeader htup, TransactionId *xid)
{
	HeapTupleHeaderAdvanceLatestRemovedXid(htup, xid);
}

static inline bool
pv_failsafe_check(const PvCutoffs *cutoffs)
{
	return vacuum_xid_failsafe_check(cutoffs->relfrozenxid,
									 cutoffs->relminmxid);
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

extern void pv_ring_create(PvRing *ring, int size_kb);

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

static inline bool
pv_is_autovacuum_worker(void)
{
	return MyBackendType == B_AUTOVAC_WORKER;
}

/*
 * What the statistics have counted of a table, without waiting for anybody; false
 * if they do not know it.  PG 16 renamed the members.
 */
static inline bool
pv_fetch_counts(bool shared, Oid relid, double *dead, double *inserted,
				double *modified)
{
	PgStat_StatTabEntry *entry = pgstat_fetch_stat_tabentry_ext(shared, relid);

	if (entry == NULL)
		return false;
	*dead = entry->n_dead_tuples;
	*inserted = entry->inserts_since_vacuum;
	*modified = entry->changes_since_analyze;
	if (pgstat_fetch_consistency == PGSTAT_FETCH_CONSISTENCY_NONE)
		pfree(entry);
	return true;
}

/* PG 16 added heaprel. */
static inline void
pv_ivinfo_init(IndexVacuumInfo *info, Relation index, Relation heaprel,
			   double num_heap_tuples, bool estimated_count,
			   BufferAccessStrategy bstrategy)
{
	memset(info, 0, sizeof(*info));
	info->index = index;
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
						hasindex, frozenxid, minmulti,
						frozenxid_updated, minmulti_updated, false);
}

/* PG 18 added the start time. */
static inline void
pv_report_vacuum(Oid relid, bool shared, PgStat_Counter live,
				 PgStat_Counter dead, TimestampTz starttime)
{
	pgstat_report_vacuum(relid, shared, live, dead);
}

/*
 * Progress of the store.  PG 17 shows bytes and item identifiers; before, the
 * view has numbers of dead tuples only, so the capacity is what the limit would
 * hold if all were stored as tightly as those there are.
 */
static inline void
pv_progress_store(Size bytes, int64 items, Size limit)
{
	double		bytes_per_item = sizeof(ItemPointerData);

	if (items > 0)
		bytes_per_item = Min(bytes_per_item, (double) bytes / items);
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLES,
								 Max((int64) (limit / bytes_per_item), items));
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_TUPLES, items);
}

/*
 * The dead items that an index vacuum may be skipped for must fit in 32 MB.
 * PG 17 asks its store for bytes; before, the rule counts TIDs of six bytes.
 */
static inline bool
pv_store_small_enough_to_bypass(Size bytes, int64 items)
{
	return items < (int64) (32 * 1024 * 1024 / sizeof(ItemPointerData));
}

/* PG 16 added an argument. */
static inline bool
pv_btree_page_is_recyclable(Relation heaprel, Page page)
{
	return BTPageIsRecyclable(page);
}

/* PG 17 removed old_snapshot_threshold, which forbids truncation. */
static inline bool
pv_truncation_forbidden(void)
{
	return old_snapshot_threshold >= 0;
}

#endif							/* PV_COMPAT_H */
