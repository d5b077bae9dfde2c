/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  The vacuum of one heap relation: the main path, read from the top
 *	  down.
 *
 * The leader runs this, from the relation_vacuum slot of the table access
 * method.  The table is open and locked with ShareUpdateExclusiveLock, a
 * snapshot is active, and the process is marked PROC_IN_VACUUM.  src/README
 * has a picture of the phases.
 *
 * The leader is alone between two phases, so what is decided here needs no
 * lock.  pg_class is updated after parallel mode has ended, because parallel
 * mode forbids it.
 *
 * Core: access/heap/vacuumlazy.c, heap_vacuum_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/progress.h"
#include "pgstat.h"
#include "storage/freespace.h"
#include "storage/ipc.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/process.h"
#include "base/settings.h"
#include "engine/vacuum.h"
#include "throttle/pace.h"

/*
 * Most segments that a participant claims at once in the second heap pass.  If
 * the vacuum is interrupted, what was claimed is not taken over.
 */
#define VACUUM_HEAP_MAX_SEGMENTS		8

/*
 * Number of pages after which the leader makes sure that its workers have
 * started.  They have had time for that by then.
 */
#define CHECK_ATTACHED_AFTER	16384

static void vacuum_together(PvVacuum *vac, BufferAccessStrategy bstrategy);
static void open_pool(PvVacuum *vac, BufferAccessStrategy bstrategy);
static void finish_kept_items(PvVacuum *vac);
static bool end_early(PvVacuum *vac, bool is_kept);
static bool scan_heap(PvVacuum *vac);
static void vacuum_indexes_and_heap(PvVacuum *vac);
static void vacuum_indexes(PvVacuum *vac);
static bool vacuum_index_scan(PvVacuum *vac, uint32 end);
static bool vacuum_heap(PvVacuum *vac, uint32 end);
static void vacuum_free_space_map(PvVacuum *vac);
static void clean_up_indexes(PvVacuum *vac);
static void end_pool(PvVacuum *vac);
static void run_phase(PvVacuum *vac, PvPhase phase, int progress_phase);
static void run_index_phase(PvVacuum *vac, PvPhase phase, int progress_phase);
static void leader_tick(PvParticipant *leader);
static void report_eager_end(PvVacuum *vac);

/*
 * Vacuum one heap relation, and report what was done in *result.
 *
 * The caller provides lock, snapshot and transaction as for the
 * relation_vacuum slot.  params->nworkers is -1 for no workers, 0 to leave the
 * number to us, or the number that the user gave.  params->truncate may be
 * VACOPTVALUE_AUTO.  bstrategy may be NULL, which means no ring of buffers;
 * otherwise our own rings replace it.  After an error, the abort of the
 * transaction ends the workers and destroys the shared memory.
 */
void
pv_vacuum_rel(Relation rel, VacuumParams *params,
			  BufferAccessStrategy bstrategy,
			  const PvVacuumOptions *options, PvResult *result)
{
	PvVacuum   *vac = palloc0(sizeof(PvVacuum));
	ErrorContextCallback errcallback;

	memset(result, 0, sizeof(*result));
	result->relid = RelationGetRelid(rel);
	result->by_engine = true;
	vac->rel = rel;
	vac->params = params;
	vac->options = options;
	vac->result = result;
	vac->new_live_tuples = -1;
	vac->verbose = (params->options & VACOPT_VERBOSE) != 0;
	vac->instrument = vac->verbose ||
		(pv_is_automatic() && pv_log_min_duration(params) >= 0);
	vac->starttime = GetCurrentTimestamp();
	vac->paced_before = pv_cost_pace_shown().usecs;
	pv_usage_start(&vac->usage, vac->instrument);
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, result->relid);
	pv_progress_started_by(pv_is_automatic(), params->is_wraparound);

	pv_errorinfo_init(&vac->leader.errinfo, rel);
	errcallback.callback = pv_error_callback;
	errcallback.arg = &vac->leader.errinfo;
	errcallback.previous = error_context_stack;
	error_context_stack = &errcallback;
	vac->leader.outer_context = errcallback.previous;

	pv_plan_vacuum(vac, RowExclusiveLock);
	pv_finish_phase(vac);
	pv_progress_mode(vac->plan.aggressive, false);
	if (vac->verbose)
		ereport(INFO,
				(errmsg("%svacuuming \"%s.%s.%s\"",
						vac->plan.aggressive ? "aggressively " : "",
						vac->leader.errinfo.dbname,
						vac->leader.errinfo.relnamespace,
						vac->leader.errinfo.relname)));

	PG_TRY();
	{
		vacuum_together(vac, bstrategy);
		pv_finish_phase(vac);	/* the adaptive pace ends below */
	}
	PG_FINALLY();
	{
		pv_process_give_up();
		pv_cost_restore();
	}
	PG_END_TRY();

	pv_finish_indexes(vac);
	if (!vac->ended_early)
		pv_truncate_heap(vac);
	error_context_stack = errcallback.previous;

	if (!vac->ended_early)
		pv_finish_statistics(vac);
	pgstat_progress_end_command();
	pv_track_end();
	pv_finish_result(vac);
	pv_report_end(vac);
}

/* Run all phases that the participants take part in. */
static void
vacuum_together(PvVacuum *vac, BufferAccessStrategy bstrategy)
{
	bool		more;

	open_pool(vac, bstrategy);
	(void) pv_check_failsafe(&vac->leader);
	finish_kept_items(vac);
	for (more = true; more && !vac->ended_early;)
	{
		more = scan_heap(vac);
		if (more && pv_ends_early(&vac->leader) &&
			end_early(vac, pv_keep_scanned(vac, pv_scan_done_upto(vac))))
			break;

		if (more)
			vac->consider_bypass = false;	/* there are several index scans */
		else
		{
			pv_scan_check_coverage(vac);
			pv_scan_estimate_tuples(vac);
		}
		vacuum_indexes_and_heap(vac);
		vacuum_free_space_map(vac);
	}
	if (!vac->ended_early)
	{
		pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
									 vac->plan.rel_pages);
		clean_up_indexes(vac);
		pv_kept_drop(&vac->kept.ref);
	}
	else if (vac->sum.vacuumed_pages > 0)
		FreeSpaceMapVacuumRange(vac->rel, 0, vac->plan.rel_pages);
	end_pool(vac);
}

/*
 * Create the pool of participants.  Its workers are launched with the first
 * phase.
 *
 * Each participant has a full cost limit of its own, except in automatic
 * vacuums.  A scheduler worker has looked at the table's own limits before.
 */
static void
open_pool(PvVacuum *vac, BufferAccessStrategy bstrategy)
{
	const PvVacuumPlan *plan = &vac->plan;
	PvParticipant *leader = &vac->leader;
	PvShared   *shared;

	pv_plan_pool(vac, bstrategy);
	leader->is_leader = true;
	leader->rel = vac->rel;
	pv_ring_create(&leader->ring, plan->ring_kb);

	pv_pool_create(&vac->pool, leader, plan);
	shared = leader->shared;
	shared->collect_dead_items =
		plan->nindexes > 0 && vac->do_index_vacuuming;
	pv_cost_init(&shared->cost, pv_is_automatic() ?
				 pv_guc_autovacuum_cost_limit_scale : 1.0);
	if (pv_is_scheduler_worker)
		pv_cost_follow_reloads();
	else if (pv_is_automatic())
		pv_cost_lead_autovacuum(&shared->cost, &vac->options->own_costs);

	/*
	 * If the vacuum before has let another session have the table, the
	 * interval begins now, when this one has it again
	 */
	shared->deadline = vac->options->deadline;
	if (vac->options->yields && pv_guc_yield_interval > 0)
		shared->yields_from = vac->kept.yielded_at == 0 ? vac->starttime :
			TimestampTzPlusMilliseconds(vac->starttime,
										pv_guc_yield_interval * 1000.0);
	pv_dispense_init(&shared->scan, 0, plan->rel_pages,
					 PV_SEGMENT_BLOCKS, PV_RANGE_MAX_BLOCKS, plan->nslots);
	pv_participant_init(leader);
	pv_index_plan_together(leader);

	leader->tick = leader_tick;
	pv_progress_open(vac);
}

/*
 * Finish the index scan of an earlier vacuum that was interrupted
 * (engine/keep.c).  If its items do not fit into the store, do that part by
 * part.  If that vacuum has ended early by itself, go on with its heap scan,
 * too, and collect more items before the index scan if it had not begun.
 */
static void
finish_kept_items(PvVacuum *vac)
{
	PvParticipant *leader = &vac->leader;
	const PvKept *kept = &vac->kept;
	uint32		next = kept->begun;
	bool		loaded;

	if (!pv_keep_take_over(vac))
		return;
	loaded = pv_keep_load(vac, &next);
	if (vac->goes_on && pv_keep_collects(kept) &&
		(kept->items == 0 || (loaded && next >= kept->nsegments)))
	{
		vac->consider_bypass = false;
		pv_keep_let_go(vac);
		pv_scan_go_on(vac);
		return;
	}
	while (loaded && vacuum_index_scan(vac, next))
	{
		pv_deadtids_reset(leader->store);
		loaded = pv_keep_load(vac, &next);
	}
	if (leader->store)
		pv_deadtids_reset(leader->store);
	if (vac->ended_early)
		return;
	pv_keep_end(vac);

	/* The forecast of the heap scan must not count what was taken over */
	leader->shared->index_scans = 0;
	if (vac->goes_on)
	{
		pv_scan_go_on(vac);
		return;
	}

	/*
	 * Pages without dead items may be all-visible now, and need not be read.
	 * The plan of what is scanned eagerly stays.
	 */
	pv_plan_skipping(vac);
	leader->shared->plan.skipping = vac->plan.skipping;
}

/*
 * End the vacuum early if what it has done is kept, or if it has to end in any
 * case.  Otherwise it goes on.  Return whether it ends.
 */
static bool
end_early(PvVacuum *vac, bool is_kept)
{
	PvShared   *shared = vac->leader.shared;
	const PvErrorInfo *info = &vac->leader.errinfo;

	vac->ended_early = is_kept ||
		(vac->options->ends_in_any_case &&
		 pg_atomic_read_u32(&shared->early_end) == PV_END_TIME);
	if (!vac->ended_early)
		pv_forbid_early_end(shared);
	else if (!is_kept)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("vacuum of table \"%s.%s.%s\" ends early and keeps nothing of what it has done",
						info->dbname, info->relnamespace, info->relname),
				 errhint("Allow more time, or consider increasing \"parvacuum.keep_limit\".")));
	return vac->ended_early;
}

/*
 * First heap pass.  It continues where the previous call stopped.  Returns
 * true if it stopped again, because the store is full or the vacuum ends early.
 */
static bool
scan_heap(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	pg_atomic_write_u32(&shared->nstopped, 0);
	if (pv_failsafe_triggered(&vac->leader))
		shared->collect_dead_items = false;
	run_phase(vac, PV_PHASE_SCAN, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	report_eager_end(vac);

	/* One that ends early may stop when the others have done all that is left */
	return pg_atomic_read_u32(&shared->nstopped) > 0 &&
		pv_scan_done_upto(vac) < vac->plan.rel_pages;
}

/*
 * Remove the dead items collected so far, if there are any, from all indexes,
 * then from the heap.  The store is empty afterwards, and its memory can be
 * used by any participant in the next heap scan.
 *
 * If they are so few that an index scan is not worth it, they stay in the
 * table, and the next vacuum finds them again.  The rule counts pages, because
 * a page with dead items cannot be set all-visible.
 *
 * Core: access/heap/vacuumlazy.c, lazy_vacuum.
 */
static void
vacuum_indexes_and_heap(PvVacuum *vac)
{
	PvDeadTids *store = vac->leader.store;
	int64		items = vac->sum.dead_items;

	/* Core counts where dead items were found, even if it leaves them */
	if (vac->plan.nindexes > 0 && items != vac->lpdead_before)
	{
		vac->lpdead_before = items;
		vac->store_resets++;
		if (store)
			vac->store_bytes += pv_deadtids_memory(store);
	}
	if (store == NULL)
		return;
	if (pv_deadtids_num_items(store) > 0)
	{
		if (vac->consider_bypass &&
			pv_few_enough_to_bypass(vac->plan.rel_pages,
									vac->sum.lpdead_item_pages, items))
			vac->do_index_vacuuming = false;
		else if (!pv_check_failsafe(&vac->leader))
		{
			pv_keep_items(vac, pv_scan_done_upto(vac));
			if (vacuum_index_scan(vac, pv_deadtids_nsegments(store)))
				pv_keep_end(vac);
		}
	}
	vac->result->dead_tuple_bytes = pv_deadtids_memory(store);
	pv_deadtids_reset(store);
}

/*
 * Remove the items in the store, which are in the segments before "end", from
 * all indexes and then from the heap.  Return false if that is not complete:
 * because of the failsafe, or because the vacuum ends early.
 */
static bool
vacuum_index_scan(PvVacuum *vac, uint32 end)
{
	PvParticipant *leader = &vac->leader;
	PvShared   *shared = leader->shared;

	vacuum_indexes(vac);
	while (pv_ends_early(leader))
	{
		if (end_early(vac, pv_keep_end_early(vac)))
			return false;
		vacuum_indexes(vac);	/* again, because some were left out */
	}

	/* The index scan is complete; count it if this vacuum had a part in it */
	if (shared->indexes_before != (uint32) leader->nindexes)
	{
		shared->index_scans++;
		vac->result->index_scans++;
		pgstat_progress_update_param(PROGRESS_VACUUM_NUM_INDEX_VACUUMS,
									 vac->result->index_scans);
	}

	/* With the failsafe on, some indexes may not have been vacuumed */
	if (pv_failsafe_triggered(leader))
		return false;
	if (vacuum_heap(vac, end))
		return true;
	if (!pv_failsafe_triggered(leader))
	{
		/* If it is not kept any more, the next heap scan finds what is left */
		(void) pv_keep_end_early(vac);
		vac->ended_early = true;
	}
	return false;
}

/*
 * Remove the items in the store from all indexes.  If the failsafe triggers
 * meanwhile, or the vacuum ends early, some of them are left out.
 */
static void
vacuum_indexes(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	shared->reltuples = vac->rel->rd_rel->reltuples;
	shared->estimated_count = true;
	run_index_phase(vac, PV_PHASE_INDEX, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
	if (!pv_failsafe_triggered(&vac->leader) &&
		!pv_ends_early(&vac->leader) && !pv_index_all_done(&vac->leader))
		elog(ERROR, "not every index of \"%s\" was vacuumed",
			 RelationGetRelationName(vac->rel));
}

/*
 * Second heap pass, for all items in the store, which are in the segments
 * before "end".  Every index must have been vacuumed completely.  Return false
 * if the vacuum ends early before all are unused.
 */
static bool
vacuum_heap(PvVacuum *vac, uint32 end)
{
	PvShared   *shared = vac->leader.shared;
	int64		items = pv_deadtids_num_items(vac->leader.store);
	int64		items_before = vac->sum.vacuumed_items;
	int64		pages_before = vac->sum.vacuumed_pages;

	pv_dispense_init(&shared->vacuum_heap, 0, end, 1,
					 VACUUM_HEAP_MAX_SEGMENTS, shared->plan.nslots);
	run_phase(vac, PV_PHASE_VACUUM_HEAP, PROGRESS_VACUUM_PHASE_VACUUM_HEAP);

	/* Exactly the items in the store must have been set unused */
	if (vac->sum.vacuumed_items - items_before < items &&
		pg_atomic_read_u32(&shared->early_end) != PV_END_NONE)
		return false;
	if (vac->sum.vacuumed_items - items_before != items)
		elog(ERROR, "second heap pass freed %lld of %lld dead items",
			 (long long) (vac->sum.vacuumed_items - items_before),
			 (long long) items);

	ereport(DEBUG2,
			(errmsg("table \"%s\": removed %lld dead item identifiers in %u pages",
					vac->leader.errinfo.relname, (long long) items,
					(BlockNumber) (vac->sum.vacuumed_pages - pages_before))));
	return true;
}

/*
 * Update the upper levels of the free space map for the part of the table in
 * which every block has been scanned.  Without indexes this was done in the
 * first heap pass.
 */
static void
vacuum_free_space_map(PvVacuum *vac)
{
	BlockNumber upto = pv_scan_done_upto(vac);

	if (vac->plan.nindexes == 0)
		return;
	if (upto > vac->fsm_vacuumed)
		FreeSpaceMapVacuumRange(vac->rel, vac->fsm_vacuumed, upto);
	vac->fsm_vacuumed = upto;
}

/* Index cleanup, for all indexes, whether they were vacuumed or not. */
static void
clean_up_indexes(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	if (vac->plan.nindexes == 0 || !vac->do_index_cleanup ||
		pv_failsafe_triggered(&vac->leader))
		return;

	shared->reltuples = vac->new_rel_tuples;
	shared->estimated_count = vac->sum.pages_scanned < vac->plan.rel_pages;
	run_index_phase(vac, PV_PHASE_CLEANUP,
					PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
}

/*
 * End the workers and wait for their exit.  The exit takes time, because the
 * kernel unmaps the shared buffers that the worker has used.  Then clean up
 * the indexes that had to wait for the end of parallel mode.
 */
static void
end_pool(PvVacuum *vac)
{
	int64		start = pv_usecs_of_machine();

	pv_pool_end(&vac->pool);
	vac->result->usecs[PV_PHASE_DONE] = pv_usecs_since(start);

	start = pv_usecs_of_machine();
	pv_index_clean_up_later(&vac->leader);
	vac->result->usecs[PV_PHASE_CLEANUP] += pv_usecs_since(start);
}

/*
 * Have all participants do one phase: show it in the progress view, measure
 * its time, and add up the counters afterwards.
 */
static void
run_phase(PvVacuum *vac, PvPhase phase, int progress_phase)
{
	PvShared   *shared = vac->leader.shared;
	int64		start;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, progress_phase);
	pv_progress_begin_phase(vac, phase);
	start = pv_usecs_of_machine();
	pv_pool_run_phase(&vac->pool, phase);
	vac->result->usecs[phase] += pv_usecs_since(start);
	pv_progress_show(&vac->leader);

	pv_counters_init(&vac->sum, &shared->plan.cutoffs);
	for (int i = 0; i < shared->plan.nslots; i++)
		pv_counters_add(&vac->sum, &vac->leader.slot[i].counters);
	if (vac->goes_on)
		pv_keep_add_scanned(&vac->kept.scan, &vac->sum);
	vac->result->workers_planned = vac->pool.nworkers_planned;
	vac->result->workers_launched = vac->pool.nworkers_launched;
	pv_finish_phase(vac);
}

static void
end_index_phase(int code, Datum leader)
{
	pv_index_end((PvParticipant *) DatumGetPointer(leader));
}

/*
 * Run a phase that works on indexes.  What the leader has registered
 * outside of this vacuum for the phase is released in any case, also if the
 * process exits.
 */
static void
run_index_phase(PvVacuum *vac, PvPhase phase, int progress_phase)
{
	Datum		leader = PointerGetDatum(&vac->leader);

	/* here, because it adds a callback for the exit of the process */
	pv_pool_launch(&vac->pool);
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

/*
 * Report once that no more pages are scanned eagerly, because enough of them
 * have been frozen.
 */
static void
report_eager_end(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	if (vac->reported_eager_end || shared->plan.eager.nregions == 0 ||
		pg_atomic_read_u32(&shared->eager_successes_left) > 0)
		return;
	vac->reported_eager_end = true;
	ereport(pv_message_level(vac),
			(errmsg("disabling eager scanning after freezing %u eagerly scanned blocks of relation \"%s.%s.%s\"",
					vac->plan.eager.successes,
					vac->leader.errinfo.dbname,
					vac->leader.errinfo.relnamespace,
					vac->leader.errinfo.relname)));
}

/*
 * The leader calls this from time to time while it works or waits.  Raises an
 * error if a worker could not be started.
 */
static void
leader_tick(PvParticipant *leader)
{
	PvVacuum   *vac = leader->tick_arg;

	pv_cost_refresh(&leader->shared->cost);
	pv_report_progress(vac);
	report_eager_end(vac);
	if (leader->counters.pages_scanned >= CHECK_ATTACHED_AFTER)
		pv_pool_check_attached(&vac->pool);
}
