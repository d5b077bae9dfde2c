/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  The vacuum of one heap relation.
 *
 * The leader runs this, from the relation_vacuum slot of the table access
 * method: the table is open and locked with ShareUpdateExclusiveLock, a
 * snapshot is active, the process is marked PROC_IN_VACUUM.
 *
 *	 plan		cutoffs once, indexes, degree; then the pool of participants
 *	 rounds		SCAN	all: prune, freeze, collect dead items, until the
 *						table is through or the store is full
 *				INDEX	all: remove the items from every index
 *				VACUUM HEAP	all: free their line pointers
 *	 CLEANUP	all: index cleanup; the pool and parallel mode end
 *	 leader		cleanup of indexes that parallel mode forbids, truncate, update pg_class, report
 *
 * Between phases the leader is alone, so everything decided here needs no
 * lock.  What is in pg_class changes only after parallel mode has ended, where
 * it may not be written.
 * Core: access/heap/vacuumlazy.c, heap_vacuum_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/multixact.h"
#include "access/nbtree.h"
#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "optimizer/paths.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/autovacuum.h"
#include "storage/freespace.h"
#include "storage/ipc.h"
#include "utils/guc_tables.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/process.h"
#include "base/settings.h"
#include "engine/index_vacuum.h"
#include "engine/pool.h"
#include "engine/truncate.h"
#include "engine/vacuum.h"
#include "engine/visibility_map.h"
#include "engine/worker.h"

/* Pages with dead items, as a fraction of the table, that may be left alone */
#define BYPASS_THRESHOLD_PAGES	0.02

/*
 * All-visible pages that are not all-frozen are all read if they are at most this
 * fraction of those that have to be read
 */
#define CHEAP_FRACTION			0.125

/* Up to so many pages core's rule is good enough */
#define CORES_RULE_PAGES		1024

/* Most bytes the store takes for one block, all told */
#define STORE_BYTES_PER_BLOCK	48
#define STORE_RESERVE_MIN		((Size) 256 * 1024)
#define STORE_RESERVE_MAX		((Size) 16 * 1024 * 1024)

/* A claim of the second pass takes at most so many segments */
#define VACUUM_HEAP_MAX_SEGMENTS		32

/* The leader has scanned so much that its workers must have started */
#define CHECK_ATTACHED_AFTER	16384

typedef struct PvVacuum
{
	Relation	rel;
	VacuumParams *params;
	const PvVacuumOptions *options;
	PvResult   *result;
	bool		verbose;
	bool		instrument;

	PvShared	plan;			/* becomes the pool's shared state */
	PvParticipant leader;
	PvPool		pool;

	bool		do_index_vacuuming;
	bool		do_index_cleanup;
	bool		consider_bypass;
	BlockNumber allvisible_before;	/* by the map, if anything is skipped */
	BlockNumber allfrozen_before;
	int64		store_segments;
	int64		vacuumed_before;	/* items freed in earlier rounds ... */
	int64		vacuumed_pages_before;	/* ... and the pages they were on */
	bool		reported_eager_end;	/* that no more pages are read early */
	BlockNumber fsm_vacuumed;	/* the free space map is up to date below */

	PvCounters	sum;			/* of all participants */
	double		new_live_tuples;
	double		new_rel_tuples;
	PvReportDetails details;

	/* Where we started */
	instr_time	start;
	TimestampTz starttime;
	BufferUsage buffer_usage;
	WalUsage	wal_usage;
} PvVacuum;

static int64
usecs_since(instr_time since)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/*
 * Show how far all have come.
 */
static void
update_progress(PvParticipant *leader)
{
	PvShared   *shared = leader->shared;

	switch (shared->phase)
	{
		case PV_PHASE_SCAN:
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
										 pg_atomic_read_u64(&shared->blocks_passed));
			if (leader->store)
				pv_progress_store(pv_deadtids_memory(leader->store),
								  pv_deadtids_num_items(leader->store),
								  pv_deadtids_limit(leader->store));
			break;
		case PV_PHASE_VACUUM_HEAP:
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
										 pg_atomic_read_u64(&shared->blocks_vacuumed));
			break;
		case PV_PHASE_INDEX:
		case PV_PHASE_CLEANUP:
			pv_index_progress(leader);
			break;
		default:
			break;
	}
}

/*
 * Enough pages have been frozen early: say so once.
 */
static void
report_eager_end(PvVacuum *vac)
{
	PvEagerShared *eager = &vac->leader.shared->eager;

	if (vac->reported_eager_end || eager->nregions == 0 ||
		pg_atomic_read_u32(&eager->successes_left) > 0)
		return;
	vac->reported_eager_end = true;
	ereport(vac->verbose ? INFO : DEBUG2,
			(errmsg("disabling eager scanning after freezing %u eagerly scanned blocks of relation \"%s.%s.%s\"",
					pg_atomic_read_u32(&vac->plan.eager.successes_left),
					vac->leader.errinfo.dbname, vac->leader.errinfo.relnamespace,
					vac->leader.errinfo.relname)));
}

/*
 * Leader, now and then while it works or waits.  May raise the error of a
 * worker that could not be started.
 */
static void
leader_tick(PvParticipant *leader)
{
	PvVacuum   *vac = leader->tick_arg;

	update_progress(leader);
	pv_cost_refresh(&leader->shared->cost);
	report_eager_end(vac);
	if (leader->counters.scanned_pages >= CHECK_ATTACHED_AFTER)
		pv_pool_check_attached(&vac->pool);
}

/*
 * Note where everything stands at the start.
 */
static void
start_instruments(PvVacuum *vac)
{
	VacuumParams *params = vac->params;

	vac->verbose = (params->options & VACOPT_VERBOSE) != 0;
	vac->instrument = vac->verbose ||
		(pv_is_automatic() && params->log_min_duration >= 0);
	INSTR_TIME_SET_CURRENT(vac->start);
	vac->starttime = GetCurrentTimestamp();
	vac->buffer_usage = pgBufferUsage;
	vac->wal_usage = pgWalUsage;
	if (vac->instrument)
		pg_rusage_init(&vac->details.ru0);
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM,
								  RelationGetRelid(vac->rel));
}

/*
 * Decide what the heap scan may skip.
 *
 * relfrozenxid can advance if no page is skipped that is all-visible but not
 * all-frozen.  So all of these are read, if they are few beside what has to be
 * read anyway.  Otherwise they may be skipped.
 *
 * A table too short for core to skip anything need not be asked for its map.
 *
 * Where little time is at stake, it does not pay to fall behind core, which reads
 * short runs: pages that it freezes, relfrozenxid if all were short, and exact
 * counts of rows.  So small tables, and short runs of pages that are not
 * all-frozen if these are few, are left to core's rule.
 */
static void
plan_skipping(PvVacuum *vac)
{
	PvSkipping *skipping = &vac->plan.skipping;
	BlockNumber rel_pages = vac->plan.rel_pages;
	BlockNumber unfrozen;

	skipping->rule = pv_guc_skip_rule;
	if (skipping->rule == PV_SKIP_ADAPTIVE && rel_pages <= CORES_RULE_PAGES)
		skipping->rule = PV_SKIP_AS_CORE;
	if ((vac->params->options & VACOPT_DISABLE_PAGE_SKIPPING) ||
		(skipping->rule == PV_SKIP_AS_CORE && rel_pages < PV_CORE_SKIP_THRESHOLD))
		return;

	pv_map_count(vac->rel, rel_pages, &vac->allvisible_before, &vac->allfrozen_before);
	unfrozen = vac->allvisible_before - vac->allfrozen_before;

	skipping->all_frozen = true;
	skipping->all_visible = !vac->plan.aggressive &&
		(pv_guc_skip_rule != PV_SKIP_ADAPTIVE ||
		 unfrozen > (rel_pages - vac->allvisible_before) * CHEAP_FRACTION);
	skipping->short_unfrozen_runs = skipping->rule == PV_SKIP_ALL ||
		(skipping->rule == PV_SKIP_ADAPTIVE && unfrozen > CORES_RULE_PAGES);

	/* Where all would be in the sample nothing is gained by deciding page by page */
	pv_sample_plan(&skipping->sample, pv_guc_sample_pages, rel_pages,
				   skipping->all_visible ? vac->allvisible_before : vac->allfrozen_before);
	if (skipping->sample.every[PV_SAMPLE_SMALL] == 1 && skipping->rule == PV_SKIP_ADAPTIVE)
		skipping->rule = PV_SKIP_AS_CORE;
	if (skipping->all_visible)
		pv_eager_plan(&vac->plan.eager, &vac->plan.cutoffs,
					  pv_eager_failure_rate(vac->params), rel_pages, unfrozen);
}

/*
 * Fix what this vacuum is to do: cutoffs first, and the size of the table only
 * after them, or relfrozenxid could pass an XID on a page not seen.
 */
static void
make_plan(PvVacuum *vac)
{
	PvShared   *plan = &vac->plan;
	VacuumParams *params = vac->params;

	plan->relid = RelationGetRelid(vac->rel);
	plan->automatic = pv_is_automatic();
	plan->aggressive = pv_get_cutoffs(vac->rel, params, &plan->cutoffs);
	if (params->options & VACOPT_DISABLE_PAGE_SKIPPING)
		plan->aggressive = true;
	plan->rel_pages = RelationGetNumberOfBlocks(vac->rel);
	plan_skipping(vac);

	vac->do_index_vacuuming = params->index_cleanup != VACOPTVALUE_DISABLED;
	vac->do_index_cleanup = vac->do_index_vacuuming;
	vac->consider_bypass = params->index_cleanup == VACOPTVALUE_AUTO;

	/* to ask pg_index costs something; nobody can add one now */
	if (vac->rel->rd_rel->relhasindex)
		vac_open_indexes(vac->rel, RowExclusiveLock, &vac->leader.nindexes,
						 &vac->leader.indrels);
	plan->nindexes = vac->leader.nindexes;
	plan->collect_dead_items = plan->nindexes > 0 && vac->do_index_vacuuming;
}

/*
 * The pages this vacuum will have to read, by the visibility map, and those of
 * B-trees if there are so many dead rows that indexes will be vacuumed.
 */
static uint64
pages_of_work(PvVacuum *vac)
{
	uint64		pages = vac->plan.rel_pages;
	double		dead,
				inserted,
				modified;

	pages -= vac->plan.skipping.all_visible ? vac->allvisible_before :
		vac->allfrozen_before;

	if (!vac->do_index_vacuuming ||
		!pv_fetch_counts(vac->rel->rd_rel->relisshared, RelationGetRelid(vac->rel),
						 &dead, &inserted, &modified) ||
		dead <= vac->plan.rel_pages * BYPASS_THRESHOLD_PAGES)
		return pages;

	for (int i = 0; i < vac->leader.nindexes; i++)
	{
		Relation	indrel = vac->leader.indrels[i];

		if (indrel->rd_rel->relam == BTREE_AM_OID)
			pages += RelationGetNumberOfBlocks(indrel);
	}
	return pages;
}

/*
 * The least work that is worth any worker.  Workers come out of what all databases
 * share, so the owner of one does not have autovacuum or the scheduler start them for
 * less than they would by default.
 */
static uint64
min_parallel_pages(void)
{
	if (pv_is_automatic() && pv_guc_min_parallel_pages < PV_DEFAULT_MIN_PARALLEL_PAGES &&
		pv_find_setting("parvacuum.min_parallel_pages")->source >= PGC_S_DATABASE)
		return PV_DEFAULT_MIN_PARALLEL_PAGES;
	return pv_guc_min_parallel_pages;
}

/*
 * How many workers, if the caller has named no number?  As many as the work is
 * worth, or as the table's option says where the work is worth any.  That takes
 * a look around, which cap 0 saves.
 */
static int
workers_by_option_or_work(PvVacuum *vac, int cap)
{
	int			option = vac->options->workers;
	uint64		pages;

	if (option == 0 || cap == 0)
		return 0;
	pages = pages_of_work(vac);
	if (pages < min_parallel_pages())
		return 0;
	return option > 0 ? option :
		pv_workers_for_pages(pages, min_parallel_table_scan_size);
}

/*
 * Decide how many workers to plan for.  A caller who names a number gets it,
 * as far as the limits allow, and is told if they do not.  An autovacuum worker
 * names none: core has it say that it wants no workers.
 */
static int
plan_workers(PvVacuum *vac)
{
	int			named = vac->params->nworkers;
	int			cap = Min(max_parallel_maintenance_workers, pv_guc_max_workers);
	int			nworkers;
	const char *indname;

	if (pv_is_automatic())
	{
		named = 0;
		cap = Min(cap, pv_guc_autovacuum_workers);
	}
	if (named < 0 || vac->plan.rel_pages == 0 || !IsUnderPostmaster)
		return 0;
	if (pv_failsafe_check(&vac->plan.cutoffs))
		return 0;
	if (vac->do_index_vacuuming &&
		!pv_index_allows_workers(&vac->leader, pv_is_automatic(), &indname))
	{
		if (named > 0)
			ereport(NOTICE,
					(errmsg("number of parallel workers for vacuum of \"%s\" is reduced from %d to %d",
							RelationGetRelationName(vac->rel), named, 0),
					 errdetail("The access method of index \"%s\" does not support parallel vacuum.",
							   indname)));
		return 0;
	}

	nworkers = named > 0 ? named : workers_by_option_or_work(vac, cap);
	if (nworkers <= cap)
		return nworkers;

	if (named > 0)
		ereport(NOTICE,
				(errmsg("number of parallel workers for vacuum of \"%s\" is reduced from %d to %d",
						RelationGetRelationName(vac->rel), named, cap),
				 errdetail("max_parallel_maintenance_workers is %d, parvacuum.max_workers is %d.",
						   max_parallel_maintenance_workers, pv_guc_max_workers)));
	return cap;
}

/*
 * Kilobytes that this vacuum may use.
 */
static int
vacuum_work_mem(void)
{
	if (pv_is_automatic() && autovacuum_work_mem != -1)
		return autovacuum_work_mem;
	return maintenance_work_mem;
}

/*
 * Bytes the dead-TID store may take.  If a developer limits it further, items count
 * as six bytes each: the store is so compact that small tables would have no
 * second round.
 */
static Size
store_limit(void)
{
	int			kilobytes = vacuum_work_mem();

	if (pv_guc_store_limit >= 0)
		kilobytes = Min(kilobytes, pv_guc_store_limit);
	return (Size) kilobytes * 1024;
}

/*
 * Bytes to set aside for the store from the start, by what the statistics say
 * of dead rows.  Having them early matters where shared memory is scarce.
 */
static Size
store_reserve(PvVacuum *vac, Size limit)
{
	uint64		blocks = vac->plan.rel_pages;
	double		dead,
				inserted,
				modified;
	Size		reserve;

	if (pv_fetch_counts(vac->rel->rd_rel->relisshared, RelationGetRelid(vac->rel),
						&dead, &inserted, &modified))
		blocks = Min(blocks, (uint64) dead);
	reserve = Max(blocks * STORE_BYTES_PER_BLOCK, STORE_RESERVE_MIN);
	reserve = Min(Min(reserve, STORE_RESERVE_MAX), limit);
	return Max(reserve, vac->plan.nslots * PV_DEADTIDS_ROOM);
}

/*
 * Each worker's part of the memory, in kB, for access methods that use
 * maintenance_work_mem.
 */
static int
worker_work_mem(PvVacuum *vac, int nworkers)
{
	int			users = 0;

	for (int i = 0; i < vac->leader.nindexes; i++)
		if (vac->leader.indrels[i]->rd_indam->amusemaintenanceworkmem)
			users++;
	users = Min(users, nworkers);
	return vacuum_work_mem() / Max(users, 1);
}

/*
 * Plan each participant's ring of buffers: none, if the caller can do without, or
 * the table.  A size that the caller names comes before the table's.
 */
static void
plan_ring(PvVacuum *vac, BufferAccessStrategy bstrategy, int participants)
{
	int			ring_kb = pv_ring_plan(bstrategy, vac->options->buffer_usage_limit,
									   participants);

	/* A small one costs less to make, and is enough for a small table */
	if (vac->plan.nindexes == 0 && vac->plan.rel_pages * (BLCKSZ / 1024) <= PV_RING_PART_KB)
		ring_kb = Min(ring_kb, Max(PV_RING_PART_KB / participants, BLCKSZ / 1024));
	vac->plan.ring_kb = ring_kb;
}

/*
 * The budget that all participants share.
 */
static void
open_budget(PvVacuum *vac)
{
	if (!pv_is_automatic())
	{
		pv_cost_init(&vac->plan.cost, pv_guc_cost_limit_scale);
		return;
	}
	pv_cost_init(&vac->plan.cost, pv_guc_autovacuum_cost_limit_scale);
	if (pv_is_scheduler_worker)
	{
		/* the scheduler worker has looked at the table's own limits */
		pv_cost_follow_reloads();
		return;
	}
	pv_cost_lead_autovacuum(&vac->options->own_costs);
}

/*
 * Gather the participants, ready to be set to work.
 */
static void
open_pool(PvVacuum *vac, BufferAccessStrategy bstrategy)
{
	PvShared   *plan = &vac->plan;
	PvParticipant *leader = &vac->leader;
	Size		limit = store_limit();
	int			nworkers = plan_workers(vac);
	int			participants = nworkers + 1;

	plan->nslots = participants;
	plan->bitmap_words = pv_index_plan(leader);
	plan_ring(vac, bstrategy, participants);
	plan->maintenance_work_mem_worker = worker_work_mem(vac, nworkers);
	plan->max_dead_items = pv_guc_store_limit < 0 ? PG_INT64_MAX :
		(int64) (limit / sizeof(ItemPointerData));
	open_budget(vac);
	pv_dispense_init(&plan->scan, 0, plan->rel_pages, PV_SEGMENT_BLOCKS,
					 PV_RANGE_MAX_BLOCKS, participants);

	leader->is_leader = true;
	leader->rel = vac->rel;
	pv_ring_create(&leader->ring, plan->ring_kb);
	leader->tick = leader_tick;
	leader->tick_arg = vac;

	pv_pool_create(&vac->pool, leader, pv_participate, plan, nworkers, limit,
				   store_reserve(vac, limit));
	pv_participant_init(leader);
	pv_index_plan_together(leader);

	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, plan->rel_pages);
	if (leader->store)
		pv_progress_store(0, 0, limit);
}

/*
 * Add up what all participants have counted so far.
 */
static void
sum_up(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	pv_counters_init(&vac->sum, &shared->cutoffs);
	for (int i = 0; i < shared->nslots; i++)
		pv_counters_add(&vac->sum, &vac->leader.slot[i].counters);
}

/*
 * Have all participants do one phase, showing it, timing it, and adding up
 * what they counted.
 */
static void
run_phase(PvVacuum *vac, PvPhase phase, int progress_phase)
{
	instr_time	start;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, progress_phase);
	INSTR_TIME_SET_CURRENT(start);
	pv_pool_run_phase(&vac->pool, phase);
	vac->result->usecs[phase] += usecs_since(start);
	sum_up(vac);
}

static void
end_index_phase(int code, Datum leader)
{
	pv_index_end((PvParticipant *) DatumGetPointer(leader));
}

/*
 * The same for a phase of the indexes.  What is registered for it outside of
 * this vacuum is taken back, also if the process ends in it.
 */
static void
run_index_phase(PvVacuum *vac, PvPhase phase, int progress_phase)
{
	Datum		leader = PointerGetDatum(&vac->leader);

	PG_ENSURE_ERROR_CLEANUP(end_index_phase, leader);
	{
		pv_index_prepare(&vac->leader, phase);
		pv_index_progress(&vac->leader);
		run_phase(vac, phase, progress_phase);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_index_phase, leader);
	pv_index_end(&vac->leader);
	pv_progress_indexes(0, 0);
}

static bool
failsafe_is_on(PvVacuum *vac)
{
	return pg_atomic_read_u32(&vac->leader.shared->failsafe) != 0;
}

/*
 * First heap pass, on from where it stopped.  Returns true if the full store
 * stopped it again.
 */
static bool
scan_heap(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	pg_atomic_write_u32(&shared->nstopped, 0);
	if (failsafe_is_on(vac))
		shared->collect_dead_items = false;
	run_phase(vac, PV_PHASE_SCAN, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	report_eager_end(vac);

	if (vac->leader.store)
	{
		PvDeadTids *store = vac->leader.store;

		pv_progress_store(pv_deadtids_memory(store), pv_deadtids_num_items(store),
						  pv_deadtids_limit(store));
		vac->store_segments = Max(vac->store_segments,
								  pv_deadtids_num_segments_used(store));
	}
	return pg_atomic_read_u32(&shared->nstopped) > 0;
}

/*
 * All pages have been seen: compute how many tuples the table has now.
 *
 * Pages that are skipped, but that core would read, count as read, with what the sample
 * of them says.  Without a sample, as they are so few, they count as core counts those
 * that it skips.
 */
static void
estimate_tuples(PvVacuum *vac)
{
	BlockNumber pages = vac->sum.scanned_pages;
	double		tuples = vac->sum.live_tuples;
	BlockNumber skipped;
	double		on_skipped;

	if (pv_sample_estimate(&vac->sum.sample, &skipped, &on_skipped))
	{
		pages += skipped;
		tuples += on_skipped;
	}
	Assert(vac->sum.scanned_pages + skipped <= vac->plan.rel_pages);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
								 vac->plan.rel_pages);
	vac->new_live_tuples =
		vac_estimate_reltuples(vac->rel, vac->plan.rel_pages, pages, tuples);
	vac->new_rel_tuples = Max(vac->new_live_tuples, 0) +
		vac->sum.recently_dead_tuples + vac->sum.missed_dead_tuples;
}

/*
 * Are there so few dead items that vacuuming every index is not worth it?
 * They stay, and the next vacuum finds them again.  What counts is how many
 * pages cannot be made all-visible for their sake.
 * Core: access/heap/vacuumlazy.c, lazy_vacuum.
 */
static bool
bypass_indexes(PvVacuum *vac)
{
	BlockNumber threshold = (BlockNumber) (vac->plan.rel_pages * BYPASS_THRESHOLD_PAGES);

	return vac->consider_bypass &&
		vac->sum.lpdead_item_pages < threshold &&
		pv_few_enough_to_bypass(&vac->sum.tidstore, vac->sum.lpdead_items,
								(Size) vacuum_work_mem() * 1024);
}

/*
 * Second heap pass over everything in the store.  Every index must have been
 * vacuumed completely.
 */
static void
vacuum_heap(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;
	int64		items = pv_deadtids_num_items(vac->leader.store);

	pv_dispense_init(&shared->vacuum_heap, 0, pv_deadtids_nsegments(vac->leader.store),
					 1, VACUUM_HEAP_MAX_SEGMENTS, shared->nslots);
	run_phase(vac, PV_PHASE_VACUUM_HEAP, PROGRESS_VACUUM_PHASE_VACUUM_HEAP);

	/* Each item of the round must have been freed, and nothing else */
	if (vac->sum.vacuumed_items - vac->vacuumed_before != items)
		elog(ERROR, "second heap pass freed %lld of %lld dead items",
			 (long long) (vac->sum.vacuumed_items - vac->vacuumed_before),
			 (long long) items);

	ereport(DEBUG2,
			(errmsg("table \"%s\": removed %lld dead item identifiers in %u pages",
					vac->leader.errinfo.relname, (long long) items,
					(BlockNumber) (vac->sum.vacuumed_pages - vac->vacuumed_pages_before))));
	vac->vacuumed_before = vac->sum.vacuumed_items;
	vac->vacuumed_pages_before = vac->sum.vacuumed_pages;
}

/*
 * Remove the items in the store from all indexes, then from the heap.
 */
static void
vacuum_dead_items(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	if (bypass_indexes(vac))
		vac->do_index_vacuuming = false;
	else if (!pv_check_failsafe(&vac->leader))
	{
		shared->reltuples = vac->rel->rd_rel->reltuples;
		shared->estimated_count = true;
		run_index_phase(vac, PV_PHASE_INDEX, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
		if (!failsafe_is_on(vac) && !pv_index_all_done(&vac->leader))
			elog(ERROR, "not every index of \"%s\" was vacuumed",
				 RelationGetRelationName(vac->rel));
		shared->index_scans++;
		pgstat_progress_update_param(PROGRESS_VACUUM_NUM_INDEX_VACUUMS,
									 shared->index_scans);

		/* In an emergency some index may not have been vacuumed */
		if (!failsafe_is_on(vac))
			vacuum_heap(vac);
	}
}

/*
 * One round, if there is anything to do.  The store is empty afterwards, and
 * its memory is at the disposal of whoever needs it first in the next.
 */
static void
vacuum_indexes_and_heap(PvVacuum *vac)
{
	PvDeadTids *store = vac->leader.store;

	if (store == NULL)
		return;
	if (pv_deadtids_num_items(store) > 0)
		vacuum_dead_items(vac);
	vac->result->dead_tuple_bytes = pv_deadtids_max_memory(store);
	pv_deadtids_reset(store);
}

/*
 * Make space found so far visible in the upper levels of the free space map:
 * everything below the first block that somebody has yet to scan.
 */
static void
vacuum_free_space_map(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;
	BlockNumber upto = Min(pg_atomic_read_u32(&shared->scan.next), shared->rel_pages);

	for (int i = 0; i < shared->nslots; i++)
		upto = Min(upto, vac->leader.slot[i].unvisited);
	if (upto > vac->fsm_vacuumed)
		FreeSpaceMapVacuumRange(vac->rel, vac->fsm_vacuumed, upto);
	vac->fsm_vacuumed = upto;
}

/*
 * Give every index its chance to clean up, whether or not it was vacuumed.
 */
static void
clean_up_indexes(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	if (vac->plan.nindexes == 0 || !vac->do_index_cleanup || failsafe_is_on(vac))
		return;

	shared->reltuples = vac->new_rel_tuples;
	shared->estimated_count = vac->sum.scanned_pages < vac->plan.rel_pages;
	run_index_phase(vac, PV_PHASE_CLEANUP, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
}

/*
 * Let the workers go, and wait until they are gone: the kernel takes its time to
 * unmap the shared buffers that they have touched.
 */
static void
end_pool(PvVacuum *vac)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	pv_pool_end(&vac->pool);
	vac->result->usecs[PV_PHASE_DONE] = usecs_since(start);
}

/*
 * Clean up what had to wait for the end of parallel mode.
 */
static void
clean_up_indexes_later(PvVacuum *vac)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	pv_index_clean_up_later(&vac->leader);
	vac->result->usecs[PV_PHASE_CLEANUP] += usecs_since(start);
}

/*
 * Everything that participants do together.
 */
static void
vacuum_together(PvVacuum *vac, BufferAccessStrategy bstrategy)
{
	bool		more;

	open_pool(vac, bstrategy);
	(void) pv_check_failsafe(&vac->leader);
	do
	{
		more = scan_heap(vac);
		if (more)
			vac->consider_bypass = false;	/* this is not the only round */
		else
			estimate_tuples(vac);
		vacuum_indexes_and_heap(vac);
		vacuum_free_space_map(vac);
	} while (more);

	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
								 vac->plan.rel_pages);
	clean_up_indexes(vac);

	vac->result->workers_planned = vac->pool.nworkers_planned;
	vac->result->workers_launched = vac->pool.nworkers_launched;
	vac->result->index_scans = vac->leader.shared->index_scans;
	end_pool(vac);
	clean_up_indexes_later(vac);
}

/*
 * Cut off empty pages at the end, if that is wanted and worthwhile.
 */
static void
truncate_heap(PvVacuum *vac)
{
	PvTruncation trunc;
	instr_time	start;

	trunc.rel = vac->rel;
	trunc.bstrategy = pv_ring_next(&vac->leader.ring);
	trunc.errinfo = &vac->leader.errinfo;
	trunc.elevel = vac->verbose ? INFO : DEBUG2;
	trunc.rel_pages = vac->plan.rel_pages;
	trunc.nonempty_pages = vac->sum.nonempty_pages;

	/* In an emergency there may be no transaction ID left to do it with */
	if (!failsafe_is_on(vac) &&
		pv_truncation_worthwhile(&trunc, vac->params->truncate))
	{
		INSTR_TIME_SET_CURRENT(start);
		pv_truncate_heap(&trunc);
		vac->result->usecs[PV_PHASE_TRUNCATE] = usecs_since(start);
	}
	vac->details.pages_remaining = trunc.rel_pages;
	vac->result->pages_removed = vac->plan.rel_pages - trunc.rel_pages;
}

/*
 * Update pg_class for indexes whose numbers are exact, and keep what the
 * report wants to know of them; then close them.
 */
static void
finish_indexes(PvVacuum *vac)
{
	PvParticipant *leader = &vac->leader;
	PvReportDetails *details = &vac->details;
	int			n = leader->nindexes;

	details->nindexes = n;
	details->indnames = palloc(Max(n, 1) * sizeof(char *));
	details->indstats = palloc0(Max(n, 1) * sizeof(IndexBulkDeleteResult *));
	details->indusecs = palloc0(Max(n, 1) * sizeof(int64));
	details->tails = palloc0(Max(n, 1) * sizeof(PvBtreeTail));

	for (int i = 0; i < n; i++)
	{
		IndexBulkDeleteResult *istat = &leader->units[i].istat;

		details->indnames[i] = pstrdup(RelationGetRelationName(leader->indrels[i]));
		if (!leader->units[i].istat_valid)
			continue;
		details->indstats[i] = istat;
		details->indusecs[i] = leader->units[i].usecs;
		details->tails[i] = leader->units[i].btree.tail;
		if (vac->do_index_cleanup && !failsafe_is_on(vac) && !istat->estimated_count)
			pv_update_relstats(leader->indrels[i], istat->num_pages,
							   istat->num_index_tuples, 0, 0, false,
							   InvalidTransactionId, InvalidMultiXactId,
							   NULL, NULL);
	}
	vac_close_indexes(n, leader->indrels, NoLock);
}

/*
 * Write the table's own statistics: pg_class once, and the cumulative ones.
 * XIDs on pages that were skipped as all-visible are not known, so then
 * relfrozenxid and relminmxid stay as they are.
 */
static void
update_statistics(PvVacuum *vac)
{
	PvReportDetails *details = &vac->details;
	BlockNumber rel_pages = details->pages_remaining;
	BlockNumber allvisible,
				allfrozen;
	TransactionId new_relfrozenxid = vac->sum.NewRelfrozenXid;
	MultiXactId new_relminmxid = vac->sum.NewRelminMxid;
	bool		frozenxid_updated,
				minmulti_updated;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	if (vac->sum.skippedallvis)
	{
		Assert(!vac->plan.aggressive);
		new_relfrozenxid = InvalidTransactionId;
		new_relminmxid = InvalidMultiXactId;
	}

	/* Aggressive or not, what we have seen cannot be older than it was */
	Assert(!TransactionIdIsValid(new_relfrozenxid) ||
		   new_relfrozenxid == vac->plan.cutoffs.OldestXmin ||
		   TransactionIdPrecedesOrEquals(vac->plan.aggressive ?
										 vac->plan.cutoffs.FreezeLimit :
										 vac->plan.cutoffs.relfrozenxid,
										 new_relfrozenxid));
	Assert(!MultiXactIdIsValid(new_relminmxid) ||
		   new_relminmxid == vac->plan.cutoffs.OldestMxact ||
		   MultiXactIdPrecedesOrEquals(vac->plan.aggressive ?
									   vac->plan.cutoffs.MultiXactCutoff :
									   vac->plan.cutoffs.relminmxid,
									   new_relminmxid));

	/*
	 * Workers may have created or extended the visibility map.  Core sends an
	 * invalidation message then, and this process asks the kernel for the
	 * length of the file again after it has processed that message.
	 */
	if (vac->result->workers_launched > 0)
		AcceptInvalidationMessages();
	pv_map_count(vac->rel, rel_pages, &allvisible, &allfrozen);

	pv_update_relstats(vac->rel, rel_pages, vac->new_live_tuples, allvisible,
					   allfrozen, details->nindexes > 0, new_relfrozenxid,
					   new_relminmxid, &frozenxid_updated, &minmulti_updated);
	pv_report_vacuum(RelationGetRelid(vac->rel), vac->rel->rd_rel->relisshared,
					 Max(vac->new_live_tuples, 0),
					 vac->sum.recently_dead_tuples + vac->sum.missed_dead_tuples,
					 vac->starttime);

	details->old_relfrozenxid = vac->plan.cutoffs.relfrozenxid;
	details->old_relminmxid = vac->plan.cutoffs.relminmxid;
	details->new_relfrozenxid = frozenxid_updated ? new_relfrozenxid : InvalidTransactionId;
	details->new_relminmxid = minmulti_updated ? new_relminmxid : InvalidMultiXactId;
	vac->result->relfrozenxid_advanced = frozenxid_updated;
}

/*
 * Fill in what the whole vacuum did.
 */
static void
fill_result(PvVacuum *vac)
{
	PvResult   *result = vac->result;
	BufferUsage buffers = {0};
	WalUsage	wal = {0};

	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &vac->buffer_usage);
	WalUsageAccumDiff(&wal, &pgWalUsage, &vac->wal_usage);

	result->relid = RelationGetRelid(vac->rel);
	result->by_engine = true;
	result->pages_total = vac->plan.rel_pages;
	result->pages_scanned = vac->sum.scanned_pages;
	result->tuples_removed = vac->sum.tuples_deleted;
	result->tuples_remaining = (int64) Max(vac->new_live_tuples, 0);
	result->remaining_estimated = vac->sum.scanned_pages < vac->plan.rel_pages;
	result->tuples_recently_dead = vac->sum.recently_dead_tuples;
	result->tuples_missed = vac->sum.missed_dead_tuples;
	result->dead_items = vac->sum.lpdead_items;
	result->wal_records = wal.wal_records;
	result->wal_fpi = wal.wal_fpi;
	result->wal_bytes = wal.wal_bytes;
	result->buffers_hit = buffers.shared_blks_hit + buffers.local_blks_hit;
	result->buffers_read = buffers.shared_blks_read + buffers.local_blks_read;
	result->buffers_dirtied = buffers.shared_blks_dirtied + buffers.local_blks_dirtied;
	vac->details.io_read_ms = INSTR_TIME_GET_MILLISEC(pv_block_read_time(&buffers));
	vac->details.io_write_ms = INSTR_TIME_GET_MILLISEC(pv_block_write_time(&buffers));
	vac->details.wal_buffers_full = pv_wal_buffers_full(&wal);
	result->oldest_xmin = vac->plan.cutoffs.OldestXmin;
	result->index_scan_bypassed = vac->plan.nindexes > 0 &&
		vac->sum.lpdead_items > 0 &&
		(!vac->do_index_vacuuming || failsafe_is_on(vac));
	result->elapsed_usecs = usecs_since(vac->start);
}

/*
 * Tell whoever wants to know.
 */
static void
report(PvVacuum *vac)
{
	PvReportDetails *details = &vac->details;
	int			min_duration = vac->params->log_min_duration;

	if (!vac->instrument ||
		!(vac->verbose || min_duration == 0 ||
		  vac->result->elapsed_usecs / 1000 >= min_duration))
		return;

	details->aggressive = vac->plan.aggressive;
	details->is_wraparound = vac->params->is_wraparound;
	details->verbose = vac->verbose;
	details->failsafe = failsafe_is_on(vac);
	details->bypassed = !vac->do_index_vacuuming;
	details->eager_pages = vac->sum.eager_pages;
	details->frozen_pages = vac->sum.frozen_pages;
	details->tuples_frozen = vac->sum.tuples_frozen;
	details->new_visible_pages = vac->sum.new_visible_pages;
	details->new_visible_frozen_pages = vac->sum.new_visible_frozen_pages;
	details->new_frozen_pages = vac->sum.new_frozen_pages;
	details->lpdead_item_pages = vac->sum.lpdead_item_pages;
	details->missed_dead_pages = vac->sum.missed_dead_pages;
	details->store_segments = vac->store_segments;
	pv_report_end(&vac->leader.errinfo, vac->result, details);
}

/*
 * Vacuum one heap relation, and say in *result what was done.
 *
 * Lock, snapshot and transaction are the caller's, as for the relation_vacuum
 * slot.  params->nworkers is -1 for none, 0 to let us decide, or the number
 * that the user named; params->truncate may be VACOPTVALUE_AUTO.  bstrategy
 * may be NULL: no ring of buffers; otherwise it is replaced by rings of our own.
 * On error the transaction's abort ends workers and shared memory.
 */
void
pv_vacuum_rel(Relation rel, VacuumParams *params,
			  BufferAccessStrategy bstrategy,
			  const PvVacuumOptions *options, PvResult *result)
{
	PvVacuum   *vac = palloc0(sizeof(PvVacuum));
	ErrorContextCallback errcallback;

	memset(result, 0, sizeof(*result));
	vac->rel = rel;
	vac->params = params;
	vac->options = options;
	vac->result = result;
	start_instruments(vac);

	pv_errorinfo_init(&vac->leader.errinfo, rel);
	errcallback.callback = pv_error_callback;
	errcallback.arg = &vac->leader.errinfo;
	errcallback.previous = error_context_stack;
	error_context_stack = &errcallback;
	vac->leader.outer_context = errcallback.previous;

	make_plan(vac);
	if (vac->verbose)
		pv_report_begin(&vac->leader.errinfo, vac->plan.aggressive);

	PG_TRY();
	{
		vacuum_together(vac, bstrategy);
	}
	PG_FINALLY();
	{
		pv_process_give_up();
		pv_cost_restore();
	}
	PG_END_TRY();

	finish_indexes(vac);
	truncate_heap(vac);
	error_context_stack = errcallback.previous;

	update_statistics(vac);
	pgstat_progress_end_command();
	fill_result(vac);
	report(vac);
}
