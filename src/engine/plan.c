/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  What the leader decides before a vacuum begins.
 *
 * Only the leader runs this, before there are workers.  pv_plan_vacuum()
 * decides what is to be done: cutoffs, what the heap scan may skip, whether
 * indexes are vacuumed.  What may be skipped is decided again when an index
 * scan was taken over from an interrupted vacuum.  pv_plan_pool() decides with
 * how many workers and how much memory.  The result is vac->plan, which all
 * participants read.
 *
 * Locks: ShareUpdateExclusiveLock on the table, from the caller;
 * RowExclusiveLock on the indexes, taken here.  The survey for
 * parvacuum_plan() has AccessShareLock on all of them (sql/survey.c).
 *
 * Core: access/heap/vacuumlazy.c, heap_vacuum_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/visibilitymap.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "optimizer/paths.h"
#include "postmaster/autovacuum.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"

#include "base/settings.h"
#include "engine/vacuum.h"

/*
 * All-visible pages that are not all-frozen are all read if their number is at
 * most this fraction of the number of pages that must be read
 */
#define CHEAP_FRACTION			0.125

/* Heap pages whose bits are in one page of the visibility map */
#define MAP_PAGE_BLOCKS			((BLCKSZ - SizeOfPageHeaderData) * 4)

/* Tables with at most this many pages skip by core's rule */
#define CORES_RULE_PAGES		1024

/*
 * Other tables skip even single pages, unless more than half of the pages must
 * be read.  Then they skip runs of at least this many: to read one page or two
 * more takes less time than a jump over them, which ends a larger read.
 */
#define SKIP_THRESHOLD			3

#define STORE_RESERVE_MIN		((Size) 256 * 1024)
#define STORE_RESERVE_MAX		((Size) 16 * 1024 * 1024)

/* Largest part of the memory that is kept for the bitmaps of B-trees */
#define BITMAPS_SHARE			8

/*
 * Decide what the heap scan may skip, by the visibility map as it is now.
 *
 * relfrozenxid can advance if no page is skipped that is all-visible but not
 * all-frozen.  So all of these are read if they are few in comparison with the
 * pages that must be read anyway.  Otherwise they may be skipped.
 *
 * The visibility map of a table that is too short for core to skip anything is
 * not read.
 *
 * Where little time can be saved it is not worth being worse than core.  Core
 * reads short runs of skippable pages, so it freezes their tuples, can advance
 * relfrozenxid if all runs are short, and has exact tuple counts.  So core's
 * rule is used for small tables, for short runs of pages that are not
 * all-frozen if there are few of these, and where a sample would be all pages.
 */
void
pv_plan_skipping(PvVacuum *vac)
{
	PvSkipping *skipping = &vac->plan.skipping;
	BlockNumber rel_pages = vac->plan.rel_pages;
	BlockNumber unfrozen;
	BlockNumber to_read;
	bool		is_set = pv_guc_shortest_skip > 0;

	skipping->shortest = is_set ? pv_guc_shortest_skip :
		PV_CORE_SKIP_THRESHOLD;
	if ((vac->params->options & VACOPT_DISABLE_PAGE_SKIPPING) ||
		rel_pages < skipping->shortest)
		return;

	visibilitymap_count(vac->rel, &vac->allvisible_before,
						&vac->allfrozen_before);
	vac->allvisible_before = Min(vac->allvisible_before, rel_pages);
	vac->allfrozen_before = Min(vac->allfrozen_before,
								vac->allvisible_before);
	unfrozen = vac->allvisible_before - vac->allfrozen_before;

	skipping->all_frozen = true;
	skipping->all_visible = !vac->plan.aggressive &&
		(is_set ||
		 unfrozen > (rel_pages - vac->allvisible_before) * CHEAP_FRACTION);
	to_read = pv_pages_to_read(vac);
	pv_sample_plan(&skipping->sample, pv_guc_sample_pages, rel_pages,
				   rel_pages - to_read);
	if (!is_set && rel_pages > CORES_RULE_PAGES && skipping->sample.every != 1)
		skipping->shortest = to_read > rel_pages / 2 ? SKIP_THRESHOLD : 1;
	skipping->shortest_unfrozen = is_set || unfrozen > CORES_RULE_PAGES ?
		skipping->shortest : PV_CORE_SKIP_THRESHOLD;
}

/* Return the number of pages that the heap scan has to read. */
BlockNumber
pv_pages_to_read(const PvVacuum *vac)
{
	return vac->plan.rel_pages -
		(vac->plan.skipping.all_visible ? vac->allvisible_before :
		 vac->allfrozen_before);
}

/*
 * Set what VACUUM finds in the table's own storage parameters.  index_cleanup
 * remains if it is not VACOPTVALUE_UNSPECIFIED.
 *
 * Core: commands/vacuum.c, vacuum_rel.
 */
void
pv_plan_reloptions(Relation rel, VacuumParams *params)
{
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;
	int			value = options != NULL ? (int) options->vacuum_index_cleanup :
		(int) STDRD_OPTION_VACUUM_INDEX_CLEANUP_AUTO;

	pv_choose_eager_failure_rate(params, rel);
	if (params->index_cleanup != VACOPTVALUE_UNSPECIFIED)
		return;
	params->index_cleanup =
		value == STDRD_OPTION_VACUUM_INDEX_CLEANUP_ON ? VACOPTVALUE_ENABLED :
		value == STDRD_OPTION_VACUUM_INDEX_CLEANUP_OFF ?
		VACOPTVALUE_DISABLED : VACOPTVALUE_AUTO;
}

/*
 * Decide what this vacuum has to do.
 *
 * The cutoffs come first, the size of the table second.  The other way round,
 * relfrozenxid could advance past an XID on a page that is not scanned.
 *
 * The indexes are opened with index_lock.
 */
void
pv_plan_vacuum(PvVacuum *vac, LOCKMODE index_lock)
{
	PvVacuumPlan *plan = &vac->plan;
	VacuumParams *params = vac->params;

	plan->relid = RelationGetRelid(vac->rel);
	(void) pv_kept_find(vac->rel, &vac->kept);
	plan->automatic = pv_is_automatic();
	plan->aggressive = pv_get_cutoffs(vac->rel, params, &plan->cutoffs);
	pv_blocker_find(pv_horizon_of(vac->rel), plan->cutoffs.OldestXmin,
					&vac->blocker);
	if (params->options & VACOPT_DISABLE_PAGE_SKIPPING)
		plan->aggressive = true;
	plan->rel_pages = RelationGetNumberOfBlocks(vac->rel);
	pv_plan_skipping(vac);
	if (plan->skipping.all_visible)
		pv_eager_plan(&plan->eager, &plan->cutoffs,
					  pv_eager_failure_rate(params), plan->rel_pages,
					  vac->allvisible_before - vac->allfrozen_before);

	vac->do_index_vacuuming = params->index_cleanup != VACOPTVALUE_DISABLED;
	vac->do_index_cleanup = vac->do_index_vacuuming;
	vac->consider_bypass = params->index_cleanup == VACOPTVALUE_AUTO;

	/* this saves a scan of pg_index; no other session can add an index now */
	if (vac->rel->rd_rel->relhasindex)
		vac_open_indexes(vac->rel, index_lock, &vac->leader.nindexes,
						 &vac->leader.indrels);
	plan->nindexes = vac->leader.nindexes;
}

/* Return the number of dead tuples by the statistics, -1 if there are none. */
static double
dead_tuples(const PvVacuum *vac)
{
	PvCounts	counts;

	return pv_fetch_counts(RelationGetRelid(vac->rel), &counts) ?
		counts.dead : -1;
}

/*
 * Return the number of pages that this vacuum has to read.  The visibility map
 * gives the number for the heap, and has pages itself.  The pages of B-trees
 * are added if the statistics show enough dead tuples that there will be an
 * index scan, or if one is left from an earlier vacuum.
 */
static uint64
pages_of_work(const PvVacuum *vac)
{
	uint64		pages = (uint64) pv_pages_to_read(vac) +
		vac->plan.rel_pages / MAP_PAGE_BLOCKS;

	if (!vac->do_index_vacuuming ||
		(vac->kept.ref.token == 0 &&
		 dead_tuples(vac) <= vac->plan.rel_pages * PV_BYPASS_THRESHOLD_PAGES))
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
 * Number of pages below which no worker is launched.
 *
 * Workers come out of a pool that all databases share.  So the owner of a
 * database cannot have autovacuum or the scheduler launch workers for less
 * work than the default setting does.
 */
static uint64
min_parallel_pages(void)
{
	if (pv_is_automatic() &&
		pv_guc_min_parallel_pages < PV_DEFAULT_MIN_PARALLEL_PAGES &&
		pv_find_setting("parvacuum.min_parallel_pages")->source >=
		PGC_S_DATABASE)
		return PV_DEFAULT_MIN_PARALLEL_PAGES;
	return pv_guc_min_parallel_pages;
}

/*
 * Return the number of workers if the caller gave none: the number that the
 * work is worth, or the table's option if the work is worth any workers.  To
 * find out takes several lookups, which are not done if cap is 0.
 *
 * As for scans, the work is worth one more worker each time that its number of
 * pages is tripled.
 *
 * Core: optimizer/path/allpaths.c, compute_parallel_worker.
 */
static int
workers_by_option_or_work(const PvVacuum *vac, int cap)
{
	int			option = vac->options->workers;
	uint64		threshold = Max(min_parallel_table_scan_size, 1);
	int			nworkers = 0;
	uint64		pages;

	if (option == 0 || cap == 0)
		return 0;
	pages = pages_of_work(vac);
	if (pages < min_parallel_pages())
		return 0;
	if (option != PV_WORKERS_BY_WORK)
		return option;
	for (; pages >= threshold; threshold *= 3)
		nworkers++;
	return nworkers;
}

/*
 * Decide how many workers to plan for.
 *
 * A caller who gives a number gets it as far as the limits allow, and a notice
 * if they do not.  max_parallel_maintenance_workers limits what nobody has
 * asked for, and VACUUM (PARALLEL) as in core.  Any user may set it, so it
 * does not limit the argument of a function.
 *
 * An autovacuum worker gives no number.  Up to PG 18 core sets -1 for it, and
 * that is not taken to mean that it wants no workers.  From PG 19 on core sets
 * what the storage parameter of the table says, or 0; that is in the options
 * where the table has no option of ours.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_compute_workers.
 */
static int
plan_workers(PvVacuum *vac)
{
	int			named = vac->params->nworkers;
	int			cap = Min(max_parallel_maintenance_workers,
						  pv_guc_max_workers);
	int			nworkers;
	const char *indname = NULL;

	if (pv_is_automatic())
	{
		named = 0;
		cap = Min(cap, pv_guc_autovacuum_workers);
	}
	else if (named > 0 && vac->options->started_by == PV_STARTED_BY_FUNCTION)
		cap = pv_guc_max_workers;
	if (named < 0 || vac->plan.rel_pages == 0 || !IsUnderPostmaster)
		return 0;
	if (pv_failsafe_check(&vac->plan.cutoffs))
		return 0;
	if (vac->do_index_vacuuming &&
		!pv_index_allows_workers(&vac->leader, pv_is_automatic(), &indname))
		cap = 0;
	nworkers = named > 0 ? named : workers_by_option_or_work(vac, cap);
	if (nworkers <= cap)
		return nworkers;

	if (named > 0)
		ereport(NOTICE,
				(errmsg("number of parallel workers for vacuum of \"%s\" is reduced from %d to %d",
						RelationGetRelationName(vac->rel), named, cap),
				 indname ?
				 errdetail("The access method of index \"%s\" does not support parallel vacuum.",
						   indname) :
				 errdetail("max_parallel_maintenance_workers is %d, parvacuum.max_workers is %d.",
						   max_parallel_maintenance_workers,
						   pv_guc_max_workers)));
	return cap;
}

/* Return the memory that this vacuum may use, in kilobytes. */
static int
vacuum_work_mem(void)
{
	if (pv_is_automatic() && autovacuum_work_mem != -1)
		return autovacuum_work_mem;
	return maintenance_work_mem;
}

/*
 * Return the memory to reserve for the store at the start, in bytes.  It is
 * estimated from the number of dead tuples in the statistics.  An early
 * reservation matters where shared memory is scarce.
 */
static Size
store_reserve(const PvVacuum *vac, Size limit)
{
	uint64		blocks = vac->plan.rel_pages;
	double		dead = dead_tuples(vac);
	Size		reserve;

	if (dead >= 0)
		blocks = Min(blocks, (uint64) dead);
	reserve = Max(blocks * PV_STORE_BYTES_PER_BLOCK, STORE_RESERVE_MIN);
	reserve = Min(Min(reserve, STORE_RESERVE_MAX), limit);
	return Max(reserve, vac->plan.nslots * PV_DEADTIDS_ROOM);
}

/*
 * Decide how much memory the store of dead items may use, in bytes, and how
 * much of it is kept for the bitmaps of B-trees.  They get more if the store
 * leaves more.  This reads the sizes of the indexes.
 *
 * The setting parvacuum.store_limit reduces the memory for tests.  Each item
 * counts six bytes then, because the store is too compact for a small table to
 * need a second index scan otherwise.
 */
static void
plan_store(PvVacuum *vac)
{
	PvVacuumPlan *plan = &vac->plan;
	bool		is_set = pv_guc_store_limit >= 0;
	Size		bytes = (Size) 1024 *
		(is_set ? Min(vacuum_work_mem(), pv_guc_store_limit) :
		 vacuum_work_mem());
	Size		bitmap_bytes = pv_index_plan(&vac->leader);

	plan->bitmap_bytes = vac->do_index_vacuuming ?
		Min(bitmap_bytes, bytes / BITMAPS_SHARE) : 0;
	plan->store_limit = bytes - plan->bitmap_bytes;
	plan->store_reserve = store_reserve(vac, plan->store_limit);
	plan->max_dead_items = is_set ?
		(int64) (bytes / sizeof(ItemPointerData)) : PG_INT64_MAX;
}

/*
 * Decide the size of the pool of participants, and what each participant gets.
 * For its ring of buffers the caller's strategy comes first, then the table's
 * option.
 */
void
pv_plan_pool(PvVacuum *vac, BufferAccessStrategy bstrategy)
{
	PvVacuumPlan *plan = &vac->plan;
	int			nworkers = plan_workers(vac);
	int			mem_users = 0;

	plan->nslots = nworkers + 1;
	plan->ring_kb = pv_ring_plan(bstrategy, vac->options->buffer_usage_limit,
								 plan->nslots);
	/* A small ring is cheaper to create and sufficient for a small table */
	if (plan->nindexes == 0 &&
		plan->rel_pages <= PV_RING_PART_KB / (BLCKSZ / 1024))
		plan->ring_kb = Min(plan->ring_kb, Max(PV_RING_PART_KB / plan->nslots,
											   BLCKSZ / 1024));
	plan_store(vac);

	/* Some access methods use maintenance_work_mem */
	for (int i = 0; i < plan->nindexes; i++)
		mem_users += vac->leader.indrels[i]->rd_indam->amusemaintenanceworkmem;
	plan->maintenance_work_mem_worker =
		vacuum_work_mem() / Max(Min(mem_users, nworkers), 1);
	plan->locked_too = vac->options->toast_parent;
	plan->must_progress = vac->kept.idle > 0;
}
