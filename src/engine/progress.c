/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  What a vacuum shows of its progress.
 *
 * The leader runs this, from time to time while it works or waits.  It shows
 *
 *	 pg_stat_progress_vacuum	core's columns of this major version
 *	 parvacuum_progress			the same, and what stats/progress.h has
 *	 INFO lines					with VERBOSE, every parvacuum.progress_interval
 *
 * It adds up nothing itself: the participants count in atomics of PvShared.
 * It measures the time of each phase, from which stats/eta.c forecasts the
 * rest.  When the cost limit changes, the measurements begin anew, because
 * nothing goes on as it did before.
 *
 * Locks: none but the spinlock in stats/progress.c.  pv_progress_show() may
 * run while a page is locked, pv_progress_tick() may not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "engine/index_vacuum.h"
#include "engine/plan.h"
#include "engine/progress.h"
#include "stats/history.h"

/* Least number of pages that tell something about the rest of the table */
#define MIN_SAMPLE_PAGES		32

/* Least size of a table whose last vacuum is looked up for the forecast */
#define MIN_FORECAST_PAGES		1024


/* ----------------------------------------------------------------
 *		What is known of this vacuum
 * ----------------------------------------------------------------
 */

/*
 * Cost units per millisecond of one process, or 0 for no limit.
 */
static double
allowed_cost(const PvShared *shared)
{
	if (shared->cost.on_balance)
		return pv_cost_rate() / 1000.0;
	if (shared->cost.budget.delay <= 0)
		return 0;
	return shared->cost.budget.limit / shared->cost.budget.delay;
}

/*
 * The rows that index entries point to: how many there are on a page, and which
 * share of them in the whole table is dead.  Pages that are skipped have no
 * dead rows.  All of this is as on the leader's own pages.
 */
static void
measure_rows(const PvParticipant *leader, PvEtaInput *input)
{
	const PvCounters *counters = &leader->counters;
	double		pages = counters->scanned_pages;
	double		dead = counters->lpdead_items;
	double		rows = dead + counters->live_tuples;
	double		known = leader->rel->rd_rel->reltuples;

	if (pages < MIN_SAMPLE_PAGES || rows <= 0)
		return;
	input->page_rows = rows / pages;
	if (known <= 0)
		known = input->page_rows * input->blocks;
	input->dead_share =
		dead / pages * Max(input->to_read, input->read) / known;
}

/*
 * The store: what it has, and which share of its limit that is.  Participants
 * take its memory in pieces, most of which is not used at first.
 */
static void
measure_store(PvVacuum *vac, PvTrackedVacuum *tracked)
{
	PvDeadTids *store = vac->leader.store;
	double		pages = tracked->eta.dead_pages -
		vac->progress.dead_pages_before;
	double		share;

	if (store == NULL)
		return;
	tracked->store_bytes = pv_deadtids_memory(store);
	tracked->store_limit = pv_deadtids_limit(store);
	tracked->store_items = pv_deadtids_num_items(store);
	tracked->eta.dead_items =
		vac->progress.dead_items_before + tracked->store_items;

	share = Min(pv_deadtids_share_used(store),
				pages * PV_STORE_BYTES_PER_BLOCK /
				Max(tracked->store_limit, 1));
	tracked->eta.store_share =
		Max(share, tracked->store_items / (double) vac->plan.max_dead_items);
}

/*
 * The work that the present phase has done, in all index scans so far.
 */
static double
work_so_far(const PvVacuum *vac, PvPhase phase)
{
	PvShared   *shared = vac->leader.shared;

	switch (phase)
	{
		case PV_PHASE_SCAN:
			return pg_atomic_read_u64(&shared->blocks_read);
		case PV_PHASE_INDEX:
		case PV_PHASE_CLEANUP:
			return vac->progress.tracked.eta.index_done;
		case PV_PHASE_VACUUM_HEAP:
			return pg_atomic_read_u64(&shared->blocks_vacuumed);
		default:
			return 0;
	}
}

/*
 * Begin to measure the present phase from here.
 */
static void
set_mark(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvShared   *shared = vac->leader.shared;

	INSTR_TIME_SET_CURRENT(progress->mark);
	progress->mark_work = work_so_far(vac, progress->tracked.eta.phase);
	progress->mark_cost = pg_atomic_read_u64(&shared->cost_units);
	progress->mark_slept = pv_cost.slept_usecs;
	progress->allowed_cost = allowed_cost(shared);
}

/*
 * What this phase has done since the mark, alone and together with what it has
 * done before.
 */
static void
measure_phase(PvVacuum *vac, PvEtaInput *input)
{
	const PvVacuumProgress *progress = &vac->progress;
	PvEtaMeasure *present = &input->present;
	PvEtaMeasure *sum = &input->of[input->phase];

	present->usecs = pv_usecs_since(progress->mark);
	present->work = work_so_far(vac, input->phase) - progress->mark_work;
	present->cost = pg_atomic_read_u64(&vac->leader.shared->cost_units) -
		progress->mark_cost;
	*sum = progress->before[input->phase];
	sum->usecs += present->usecs;
	sum->work += present->work;
	sum->cost += present->cost;
}

/*
 * Microseconds that the leader has slept in the first heap pass since the
 * measurement began.
 */
static double
slept_in_scan(const PvVacuum *vac)
{
	const PvVacuumProgress *progress = &vac->progress;
	double		slept = progress->slept_before;

	if (progress->tracked.eta.phase == PV_PHASE_SCAN)
		slept += pv_cost.slept_usecs - progress->mark_slept;
	return slept;
}

/*
 * The cost limit has changed: what was measured is of no use.
 */
static void
forget_measurements(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;

	memset(progress->before, 0, sizeof(progress->before));
	memset(progress->tracked.eta.of, 0, sizeof(progress->tracked.eta.of));
	progress->slept_before = 0;
	set_mark(vac);
}

/*
 * Fill in everything from which the rest of the vacuum is forecast.
 */
static void
fill_eta(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvParticipant *leader = &vac->leader;
	PvShared   *shared = leader->shared;
	PvEtaInput *input = &progress->tracked.eta;
	double		scan_usecs;

	input->passed = pg_atomic_read_u64(&shared->blocks_passed);
	input->read = pg_atomic_read_u64(&shared->blocks_read);
	input->dead_pages = pg_atomic_read_u64(&shared->dead_pages);
	input->vacuumed = pg_atomic_read_u64(&shared->blocks_vacuumed);
	input->vacuum_done = input->vacuumed - progress->vacuumed_before;
	input->index_scans = shared->index_scans;
	input->vacuums_indexes = leader->store != NULL &&
		shared->collect_dead_items && vac->do_index_vacuuming &&
		!pv_failsafe_triggered(leader);
	input->may_bypass = vac->consider_bypass;
	input->throttled = allowed_cost(shared) > 0 && VacuumCostActive;
	if (input->phase == PV_PHASE_INDEX || input->phase == PV_PHASE_CLEANUP)
		pv_progress_index_pages(vac);
	if (input->phase == PV_PHASE_SCAN)
	{
		measure_store(vac, &progress->tracked);
		measure_rows(leader, input);
		input->index_tuples = pv_progress_index_tuples(leader, input);
		if (input->index_scans == 0 && input->read > 0)
			input->missed_share =
				Min(pg_atomic_read_u64(&shared->blocks_missed) / input->read,
					1.0);
	}

	if (progress->allowed_cost != allowed_cost(shared))
		forget_measurements(vac);
	measure_phase(vac, input);

	scan_usecs = input->of[PV_PHASE_SCAN].usecs;
	input->slept_share = scan_usecs > 0 ? slept_in_scan(vac) / scan_usecs : 0;
	input->cost_hit = VacuumCostPageHit;
	input->cost_miss = VacuumCostPageMiss;
	input->cost_dirty = VacuumCostPageDirty;
	input->index_slowdown = pv_progress_index_slowdown(vac);
}


/* ----------------------------------------------------------------
 *		pg_stat_progress_vacuum, and parvacuum_progress
 * ----------------------------------------------------------------
 */

/*
 * Core shows the number of the block that it has come to in the second heap
 * pass.  Here all participants are somewhere in the part of the table that was
 * scanned, so its counterpart is the same share of that part.
 */
static int64
heap_blocks_vacuumed(const PvVacuum *vac)
{
	const PvEtaInput *input = &vac->progress.tracked.eta;
	double		share = 1;

	if (input->vacuum_total > 0)
		share = Min(input->vacuum_done / input->vacuum_total, 1.0);
	return (int64) (input->began_at +
					(input->passed - input->began_at) * share);
}

static void
show_in_core_view(const PvVacuum *vac)
{
	const PvTrackedVacuum *tracked = &vac->progress.tracked;
	PvParticipant *leader = (PvParticipant *) &vac->leader;
	int			param;

	if (pv_failsafe_triggered(leader))
		pv_progress_mode(vac->plan.aggressive, true);
	switch (tracked->eta.phase)
	{
		case PV_PHASE_SCAN:
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
										 (int64) tracked->eta.passed);
			if (leader->store)
				pv_progress_store(tracked->store_bytes, tracked->store_items,
								  tracked->store_limit);
			if (leader->nindexes == 0)
			{
				param = PROGRESS_VACUUM_HEAP_BLKS_VACUUMED;
				pgstat_progress_update_param(param,
											 (int64) tracked->eta.passed);
			}
			break;
		case PV_PHASE_VACUUM_HEAP:
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
										 heap_blocks_vacuumed(vac));
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
 * Leader: show the progress of all participants.  A page may be locked.
 */
void
pv_progress_show(PvParticipant *leader)
{
	PvVacuum   *vac = leader->tick_arg;
	PvTrackedVacuum *tracked = &vac->progress.tracked;
	bool		in_indexes = tracked->eta.phase == PV_PHASE_INDEX ||
		tracked->eta.phase == PV_PHASE_CLEANUP;

	fill_eta(vac);
	show_in_core_view(vac);
	tracked->as_of = GetCurrentTimestamp();

	/* should the vacuum fail before the first heap pass has ended */
	vac->result->pages_scanned = (BlockNumber) tracked->eta.read;
	tracked->slept_usecs =
		pg_atomic_read_u64(&leader->shared->slept_usecs);
	tracked->failsafe = pv_failsafe_triggered(leader);
	tracked->workers = vac->pool.nworkers_launched;
	tracked->nindexes = in_indexes ? leader->nindexes : 0;
	tracked->indexes_done = in_indexes ?
		pg_atomic_read_u32(&leader->shared->indexes_done) : 0;
	pv_track_vacuum(tracked);
}

/*
 * What the last vacuum of the table took, for the forecast.  Small tables are
 * vacuumed before it could be used.
 */
static PvEtaPast
past_of(const PvVacuumPlan *plan)
{
	PvEtaPast	past = {0};
	PvResult	last;

	if (plan->rel_pages < MIN_FORECAST_PAGES ||
		!pv_history_last_run(plan->relid, &last))
		return past;
	past.scan_page = (double) last.usecs[PV_PHASE_SCAN] / last.pages_scanned;
	if (last.index_scans > 0)
		past.index_scan = (double) last.usecs[PV_PHASE_INDEX] /
			last.index_scans;
	if (last.dead_items > 0)
		past.dead_item = (double) last.usecs[PV_PHASE_VACUUM_HEAP] /
			last.dead_items;
	return past;
}

/*
 * Leader, when the pool has been created: begin to show the progress.
 */
void
pv_progress_open(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvTrackedVacuum *tracked = &progress->tracked;
	PvParticipant *leader = &vac->leader;
	const PvVacuumPlan *plan = &vac->plan;
	BlockNumber skippable = 0;

	if (plan->skipping.all_visible)
		skippable = vac->allvisible_before;
	else if (plan->skipping.all_frozen)
		skippable = vac->allfrozen_before;

	tracked->relid = plan->relid;
	tracked->started_by = vac->options->started_by;
	tracked->past = past_of(plan);
	tracked->started_at = vac->starttime;
	tracked->aggressive = plan->aggressive;
	tracked->eta.blocks = plan->rel_pages;
	tracked->eta.to_read = plan->rel_pages - Min(skippable, plan->rel_pages);
	for (int i = 0; i < leader->nindexes; i++)
		tracked->eta.index_pages += leader->index_pages[i];
	progress->context = CurrentMemoryContext;
	INSTR_TIME_SET_CURRENT(progress->last_line);

	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS,
								 plan->rel_pages);
	if (leader->store)
		pv_progress_store(0, 0, vac->store_limit);
	leader->tick_arg = vac;
	leader->show = pv_progress_show;
}

/*
 * Leader, between phases: a phase begins.
 */
void
pv_progress_begin_phase(PvVacuum *vac, PvPhase phase)
{
	PvVacuumProgress *progress = &vac->progress;
	PvEtaInput *input = &progress->tracked.eta;

	if (phase == PV_PHASE_SCAN)
	{
		input->began_at =
			pg_atomic_read_u64(&vac->leader.shared->blocks_passed);
		input->store_before += input->store_share;
	}
	if (phase == PV_PHASE_VACUUM_HEAP)
	{
		progress->vacuumed_before = input->vacuumed;
		input->vacuum_total = input->dead_pages - progress->dead_pages_before;
	}
	if (phase == PV_PHASE_INDEX)
		pv_progress_weigh_indexes(vac);
	input->phase = phase;
	input->index_done = 0;
	set_mark(vac);
	pv_progress_show(&vac->leader);
}

/*
 * Leader, between phases: the phase has ended.
 */
void
pv_progress_end_phase(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvEtaInput *input = &progress->tracked.eta;
	PvPhase		phase = input->phase;

	pv_progress_show(&vac->leader);
	progress->before[phase] = input->of[phase];
	progress->slept_before = slept_in_scan(vac);
	if (phase == PV_PHASE_VACUUM_HEAP)
	{
		progress->dead_pages_before = input->dead_pages;
		progress->dead_items_before = input->dead_items;
		progress->vacuumed_before = input->vacuumed;
	}
}

/*
 * Leader, when its workers are gone: it does something alone.
 */
void
pv_progress_alone(PvVacuum *vac, PvPhase phase)
{
	PvTrackedVacuum *tracked = &vac->progress.tracked;

	vac->leader.part.phase = phase;
	pv_track_part(&vac->leader.part);
	tracked->eta.phase = phase;
	tracked->as_of = GetCurrentTimestamp();
	tracked->nindexes = 0;
	tracked->indexes_done = 0;
	pv_track_vacuum(tracked);
}

/*
 * Leader, from time to time, after pv_progress_show(): what must not be done
 * while a page is locked.
 */
void
pv_progress_tick(PvVacuum *vac)
{
	pv_progress_correlation(vac);
	pv_progress_line(vac);
}
