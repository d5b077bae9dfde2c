/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  What a vacuum shows of its progress.
 *
 * The leader runs this, from time to time while it works or waits.  The
 * participants count in atomics of PvShared.  The time of each phase is
 * measured here, and stats/eta.c forecasts the rest from it.
 *
 * Locks: none but the spinlock in stats/registry.c.  pv_progress_show() may
 * run while a page is locked, pv_report_progress() may not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "engine/vacuum.h"
#include "stats/history.h"

/* Least size of a table whose last vacuum is looked up for the forecast */
#define MIN_FORECAST_PAGES		1024

/* How much of the past counts if the rate changes often, in microseconds */
#define MOST_ON_BALANCE			10e6

/* Return the cost units per millisecond of one process, or 0 for no limit. */
static double
allowed_cost(const PvShared *shared)
{
	if (shared->cost.on_balance)
		return pv_cost_fixed_rate() / 1000.0;
	if (shared->cost.budget.delay <= 0)
		return 0;
	return shared->cost.budget.limit / shared->cost.budget.delay;
}

/*
 * Find out what the store has, and which share of its limit that is.
 * Participants take its memory in pieces, most of which is not used at first.
 */
static void
measure_store(PvVacuum *vac, PvTrackedVacuum *tracked)
{
	PvDeadTids *store = vac->leader.store;
	PvEtaInput *input = &tracked->eta;
	double		pages = input->dead_pages - input->vacuumed;
	double		share;

	if (store == NULL)
		return;
	tracked->store_bytes = pv_deadtids_memory(store);
	tracked->store_limit = pv_deadtids_limit(store);
	tracked->store_items = pv_deadtids_num_items(store);
	if (pages > 0)
		input->items_per_page = tracked->store_items / pages;

	share = Min(pv_deadtids_share_used(store),
				pages * PV_STORE_BYTES_PER_BLOCK /
				Max(tracked->store_limit, 1));
	input->store_share =
		Max(share, tracked->store_items / (double) vac->plan.max_dead_items);
}

/*
 * Count all indexes and their pages, and what is done in this phase.  Where one
 * process vacuums an index, its pages are not counted.  The entries that it has
 * been asked about show how far it is.
 */
static void
count_indexes(const PvParticipant *leader, PvTrackedVacuum *tracked)
{
	PvEtaInput *input = &tracked->eta;

	tracked->nindexes = leader->nindexes;
	tracked->indexes_done = pg_atomic_read_u32(&leader->shared->indexes_done);
	input->index_total = input->index_done = 0;
	for (int i = 0; i < leader->nindexes; i++)
	{
		PvIndexUnit *unit = &leader->units[i];
		double		entries = leader->indrels[i]->rd_rel->reltuples;
		double		share = 0;

		if (unit->done)
			share = 1;
		else if (unit->kind == PV_UNIT_SHARED)
			share = (double) pg_atomic_read_u32(&unit->btree.pages_done) /
				Max(pg_atomic_read_u32(&unit->btree.pages.end), 1);
		else if (entries > 0)
			share = pg_atomic_read_u64(&unit->entries_seen) / entries;
		input->index_total += unit->pages;
		input->index_done += unit->pages * Min(share, 1.0);
	}
}

/*
 * Return the pages that phases of this kind have done; of an index phase only
 * those of the present one.
 */
static double
pages_done(const PvEtaInput *input)
{
	switch (input->phase)
	{
		case PV_PHASE_SCAN:
			return input->read;
		case PV_PHASE_INDEX:
		case PV_PHASE_CLEANUP:
			return input->index_done;
		case PV_PHASE_VACUUM_HEAP:
			return input->vacuumed;
		default:
			return 0;
	}
}

/*
 * Add what this phase has done since the last time.  When the cost limit has
 * changed, the measurement begins again, because nothing goes on as before.
 * With the adaptive pace the last seconds count, pauses included.
 */
static void
measure_phase(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvEtaInput *input = &progress->tracked.eta;
	PvEtaMeasure *measure = &input->of[input->phase];
	double		pages = pages_done(input);
	double		allowed = allowed_cost(vac->leader.shared);
	int64		now = pv_usecs_of_machine();

	measure->usecs += now - progress->mark;
	measure->pages += pages - progress->mark_pages;
	if (vac->leader.shared->cost.on_balance &&
		pv_guc_pace == PV_PACE_ADAPTIVE && pages > progress->mark_pages &&
		measure->usecs > MOST_ON_BALANCE)
	{
		measure->pages *= MOST_ON_BALANCE / measure->usecs;
		measure->usecs = MOST_ON_BALANCE;
	}
	if (allowed != progress->allowed_cost)
		memset(input->of, 0, sizeof(input->of));

	progress->allowed_cost = allowed;
	progress->mark = now;
	progress->mark_pages = pages;
}

/* Fill in everything from which the rest of the vacuum is forecast. */
static void
fill_eta(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvParticipant *leader = &vac->leader;
	PvShared   *shared = leader->shared;
	PvEtaInput *input = &progress->tracked.eta;

	input->passed = pg_atomic_read_u64(&shared->blocks_passed);
	input->read = pg_atomic_read_u64(&shared->blocks_read);
	input->dead_pages = pg_atomic_read_u64(&shared->dead_pages);
	input->vacuumed = pg_atomic_read_u64(&shared->blocks_vacuumed);
	input->index_scans = shared->index_scans;
	input->vacuums_indexes = leader->store != NULL &&
		shared->collect_dead_items && vac->do_index_vacuuming &&
		!pv_failsafe_triggered(leader);
	input->may_bypass = vac->consider_bypass;
	progress->tracked.nindexes = progress->tracked.indexes_done = 0;
	if (input->phase == PV_PHASE_INDEX || input->phase == PV_PHASE_CLEANUP)
		count_indexes(leader, &progress->tracked);
	if (input->phase == PV_PHASE_SCAN)
		measure_store(vac, &progress->tracked);
}

/*
 * Return what the view shows as vacuumed blocks.  Core shows the number of the
 * block that it has come to.  Here all participants are somewhere in the part
 * of the table that was scanned, so its counterpart is the same share of that.
 */
static int64
heap_blocks_vacuumed(const PvVacuum *vac)
{
	const PvEtaInput *input = &vac->progress.tracked.eta;
	double		began_at = vac->progress.began_at;
	double		before = vac->progress.vacuumed_before;
	double		share = 1;

	if (input->dead_pages > before)
		share = Min((input->vacuumed - before) / (input->dead_pages - before),
					1.0);
	return (int64) (began_at + (input->passed - began_at) * share);
}

/* Set the columns of pg_stat_progress_vacuum that the phase changes. */
static void
show_in_core_view(PvVacuum *vac)
{
	const PvTrackedVacuum *tracked = &vac->progress.tracked;
	PvParticipant *leader = &vac->leader;

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
			if (leader->nindexes > 0)
				break;
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
										 (int64) tracked->eta.passed);
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

/* Leader: show the progress of all participants.  A page may be locked. */
void
pv_progress_show(PvParticipant *leader)
{
	PvVacuum   *vac = leader->tick_arg;
	PvTrackedVacuum *tracked = &vac->progress.tracked;

	fill_eta(vac);
	measure_phase(vac);
	show_in_core_view(vac);
	tracked->as_of = GetCurrentTimestamp();

	/* should the vacuum fail before the first heap pass has ended */
	vac->result->pages_scanned = (BlockNumber) tracked->eta.read;
	tracked->slept_usecs = pg_atomic_read_u64(&leader->shared->slept_usecs);
	tracked->failsafe = pv_failsafe_triggered(leader);
	tracked->workers = vac->pool.nworkers_launched;
	pv_track(tracked, NULL);
}

/* Leader, when the pool has been created: begin to show the progress. */
void
pv_progress_open(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvTrackedVacuum *tracked = &progress->tracked;
	PvParticipant *leader = &vac->leader;
	const PvVacuumPlan *plan = &vac->plan;

	tracked->relid = plan->relid;
	if (plan->rel_pages >= MIN_FORECAST_PAGES)
	{
		pv_records_past(pv_history_lock(), MyDatabaseId, plan->relid,
						plan->automatic, &tracked->past);
		pv_history_unlock();
	}
	tracked->started_at = vac->starttime;
	tracked->aggressive = plan->aggressive;
	tracked->eta.blocks = plan->rel_pages;
	tracked->eta.to_read = pv_pages_to_read(vac);
	for (int i = 0; i < leader->nindexes; i++)
		tracked->eta.index_pages += leader->index_pages[i];
	progress->last_line = pv_usecs_of_machine();

	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS,
								 plan->rel_pages);
	if (leader->store)
		pv_progress_store(0, 0, plan->store_limit);
	leader->tick_arg = vac;
	leader->show = pv_progress_show;
}

/* Leader, between phases: a phase begins. */
void
pv_progress_begin_phase(PvVacuum *vac, PvPhase phase)
{
	PvVacuumProgress *progress = &vac->progress;
	PvEtaInput *input = &progress->tracked.eta;

	if (phase == PV_PHASE_SCAN)
	{
		progress->began_at =
			pg_atomic_read_u64(&vac->leader.shared->blocks_passed);
		input->to_read = pv_pages_to_read(vac);
	}
	if (phase == PV_PHASE_VACUUM_HEAP)
		progress->vacuumed_before = input->vacuumed;
	input->phase = phase;
	input->index_done = 0;
	progress->mark = pv_usecs_of_machine();
	progress->mark_pages = pages_done(input);
	pv_progress_show(&vac->leader);
}

/* Leader, when its workers are gone: it does something alone. */
void
pv_progress_alone(PvVacuum *vac, PvPhase phase)
{
	PvTrackedVacuum *tracked = &vac->progress.tracked;

	vac->leader.part.phase = phase;
	tracked->eta.phase = phase;
	tracked->as_of = GetCurrentTimestamp();
	tracked->nindexes = 0;
	tracked->indexes_done = 0;
	pv_track(tracked, &vac->leader.part);
}
