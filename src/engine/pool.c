/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  The processes that vacuum one table together.
 *
 * The leader creates the pool; workers are started once, by core's parallel
 * infrastructure, and stay through all phases.  If there are to be none, or all
 * of the server's DSM segments are in use, everything below lives in the
 * leader's memory and the same code runs in one process.  Shared memory that
 * the operating system refuses is an error, as everywhere in the server.
 *
 * One barrier orders everything.  Its phase number is even while the leader is
 * alone at work, deciding, and odd while all are in a phase:
 *
 *	 leader    decide ... publish |A| work ......... |B| sum up, decide ...
 *	 worker    .................. |A| work ......... |B| ...................
 *	 late                             attach, work . |B|
 *	           even (idle)            odd (phase)        even (idle)
 *
 * The leader publishes the phase before it arrives at A, and nobody writes
 * what others read between A and B, except atomics and what belongs to one
 * participant; the barrier's spinlock makes all of it visible.  A worker
 * that comes late sees by the number where it is.  Since the barrier counts
 * those who have attached, and no others, fewer workers than planned, or none,
 * need no special case.
 *
 *	 DSM segment:  PvShared | PvSlot[] | PvIndexUnit[] |
 *	               bitmaps of B-trees | regions | store | text for activity
 *
 * The store grows by segments of its own if it outgrows the reserve, up to its
 * limit.  All of it goes away with the DSM segment, on every way out: the
 * parallel context is destroyed on success by us, on error by the end of the
 * transaction, which also gives back our share of parvacuum.max_workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/shm_toc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/rel.h"

#include "base/dsm.h"
#include "base/process.h"
#include "base/wait.h"
#include "engine/pool.h"
#include "engine/reserve.h"

/* Small numbers are enough: the table of contents is ours alone */
#define PV_KEY_SHARED		1
#define PV_KEY_SLOTS		2
#define PV_KEY_UNITS		3
#define PV_KEY_STORE		4
#define PV_KEY_STATEMENT	5	/* that the leader executes, or ... */
#define PV_KEY_ACTIVITY		6	/* ... what an autovacuum worker is doing */
#define PV_KEY_BITMAPS		7
#define PV_KEY_REGIONS		8	/* of eager scanning */

/* Milliseconds between two ticks of a leader that waits for its workers */
#define TICK_WHILE_WAITING			100

static void
wait_for_all(PvShared *shared)
{
	pv_process_check_leader();
	BarrierArriveAndWait(&shared->barrier, pv_wait_event(PV_EVENT_BARRIER));
}

/*
 * Set up the shared part from the plan, in whatever memory it lives.
 */
static void
init_shared(PvShared *shared, const PvShared *plan)
{
	*shared = *plan;
	shared->phase = PV_PHASE_IDLE;
	pv_process_identity(&shared->leader_identity);
	BarrierInit(&shared->barrier, 0);
	pg_atomic_init_u32(&shared->nbusy, 0);
	ConditionVariableInit(&shared->idle);
	pg_atomic_init_u32(&shared->leader_gave_up, 0);
	pg_atomic_init_u32(&shared->failsafe, 0);
	pg_atomic_init_u32(&shared->nstopped, 0);
	pg_atomic_init_u64(&shared->blocks_passed, 0);
	pg_atomic_init_u64(&shared->blocks_vacuumed, 0);
	pg_atomic_init_u32(&shared->indexes_done, 0);
}

/*
 * A slot that nobody ever takes must not spoil the sums.
 */
static void
init_slots(PvSlot *slots, const PvShared *plan)
{
	for (int i = 0; i < plan->nslots; i++)
	{
		pv_counters_init(&slots[i].counters, &plan->cutoffs);
		slots[i].unvisited = plan->rel_pages;
	}
}

static void
init_units(PvIndexUnit *units, int nindexes)
{
	memset(units, 0, nindexes * sizeof(PvIndexUnit));
	for (int i = 0; i < nindexes; i++)
		pg_atomic_init_flag(&units[i].begun);
}

/*
 * The leader alone: the same structures in its own memory.
 */
static void
create_local(PvPool *pool, const PvShared *plan, Size store_limit)
{
	PvParticipant *leader = pool->leader;
	int			nindexes = plan->nindexes;

	leader->shared = palloc0(sizeof(PvShared));
	init_shared(leader->shared, plan);
	leader->shared->nslots = 1;
	leader->slot = palloc0(sizeof(PvSlot));
	init_slots(leader->slot, leader->shared);
	leader->units = palloc(Max(nindexes, 1) * sizeof(PvIndexUnit));
	init_units(leader->units, nindexes);
	leader->bitmaps = palloc_extended(Max(plan->bitmap_words, 1) * sizeof(pg_atomic_uint32),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	leader->eager.shared = &leader->shared->eager;
	leader->eager.failures_left = palloc(Max(plan->eager.nregions, 1) * sizeof(pg_atomic_uint32));
	pv_eager_init_regions(&leader->eager);
	if (nindexes > 0)
		leader->store = pv_deadtids_create_local(plan->rel_pages, store_limit);
}

/*
 * Allocate a part of the DSM segment, zeroed, and enter it under its key.
 */
static void *
allocate_part(ParallelContext *pcxt, uint64 key, Size size)
{
	void	   *part = shm_toc_allocate(pcxt->toc, size);

	memset(part, 0, size);
	shm_toc_insert(pcxt->toc, key, part);
	return part;
}

static void
estimate_part(ParallelContext *pcxt, Size size)
{
	shm_toc_estimate_chunk(&pcxt->estimator, size);
	shm_toc_estimate_keys(&pcxt->estimator, 1);
}

/*
 * What the leader is doing, for workers to show.  An autovacuum worker has no
 * statement, but shows something too.
 */
static const char *
activity_text(void)
{
	return debug_query_string ? debug_query_string : MyBEEntry->st_activity_raw;
}

/*
 * Fill the DSM segment.  text_size is what was estimated for the text.
 */
static void
fill_segment(PvPool *pool, const PvShared *plan, Size store_limit,
			 Size store_reserve, Size text_size)
{
	PvParticipant *leader = pool->leader;
	ParallelContext *pcxt = pool->pcxt;
	int			nindexes = plan->nindexes;

	leader->shared = allocate_part(pcxt, PV_KEY_SHARED, sizeof(PvShared));
	init_shared(leader->shared, plan);
	leader->slot = allocate_part(pcxt, PV_KEY_SLOTS,
								 mul_size(sizeof(PvSlot), plan->nslots));
	init_slots(leader->slot, plan);
	leader->units = allocate_part(pcxt, PV_KEY_UNITS,
								  mul_size(sizeof(PvIndexUnit), nindexes));
	init_units(leader->units, nindexes);
	leader->bitmaps = allocate_part(pcxt, PV_KEY_BITMAPS,
									mul_size(sizeof(pg_atomic_uint32), plan->bitmap_words));
	leader->eager.shared = &leader->shared->eager;
	leader->eager.failures_left = allocate_part(pcxt, PV_KEY_REGIONS,
												mul_size(sizeof(pg_atomic_uint32), plan->eager.nregions));
	pv_eager_init_regions(&leader->eager);
	if (nindexes > 0)
	{
		/* Not zeroed: it may be large, and is mostly for later */
		void	   *store = shm_toc_allocate(pcxt->toc,
											 pv_deadtids_shared_size(plan->rel_pages,
																	 store_reserve));

		shm_toc_insert(pcxt->toc, PV_KEY_STORE, store);
		leader->store = pv_deadtids_create_shared(store, pcxt->seg,
												  plan->rel_pages,
												  store_reserve, store_limit);
	}
	memcpy(allocate_part(pcxt, debug_query_string ? PV_KEY_STATEMENT : PV_KEY_ACTIVITY,
						 text_size),
		   activity_text(), text_size);
}

static void
warn_of_no_room(PvPool *pool)
{
	ereport(WARNING,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("not enough shared memory to vacuum table \"%s\" with parallel workers",
					pool->leader->errinfo.relname),
			 errdetail("It is vacuumed by one process."),
			 errhint("Enlarge /dev/shm.  In a container it has 64 MB unless more is asked for.")));
}

/*
 * Have core copy our state for the workers.  Before PG 16 what a cost delay goes by
 * are the settings themselves; a scheduler worker has stored there what no setting may be, and
 * workers, who are told what to go by, would refuse it.
 */
static void
init_segment(ParallelContext *pcxt)
{
	double		delay = pv_vacuum_cost_delay;
	int			limit = pv_vacuum_cost_limit;

	if (!PV_CORE_RESETS_COSTS || !pv_cost_uses_balance())
	{
		InitializeParallelDSM(pcxt);
		return;
	}
	pv_vacuum_cost_delay = 0;
	pv_vacuum_cost_limit = 1;
	PG_TRY();
	{
		InitializeParallelDSM(pcxt);
	}
	PG_FINALLY();
	{
		pv_vacuum_cost_delay = delay;
		pv_vacuum_cost_limit = limit;
	}
	PG_END_TRY();
}

/*
 * Enter parallel mode and set up everything workers need.  False if no shared
 * memory can be had; then parallel mode has been left again.
 */
static bool
create_shared(PvPool *pool, const PvShared *plan, Size store_limit,
			  Size store_reserve)
{
	ParallelContext *pcxt;
	Size		text_size = strlen(activity_text()) + 1;

	EnterParallelMode();
	pcxt = CreateParallelContext("parvacuum", "parvacuum_worker_main",
								 pool->nworkers_planned);

	/* A worker's message has the worker's context; ours would mislead */
	pcxt->error_context_stack = pool->leader->outer_context;

	estimate_part(pcxt, sizeof(PvShared));
	estimate_part(pcxt, mul_size(sizeof(PvSlot), plan->nslots));
	estimate_part(pcxt, mul_size(sizeof(PvIndexUnit), plan->nindexes));
	estimate_part(pcxt, mul_size(sizeof(pg_atomic_uint32), plan->bitmap_words));
	estimate_part(pcxt, mul_size(sizeof(pg_atomic_uint32), plan->eager.nregions));
	if (plan->nindexes > 0)
		estimate_part(pcxt, pv_deadtids_shared_size(plan->rel_pages, store_reserve));
	estimate_part(pcxt, text_size);
	if (!pv_dsm_has_room(shm_toc_estimate(&pcxt->estimator)))
		warn_of_no_room(pool);
	else
		init_segment(pcxt);

	/* Without a segment, or with interrupts held, there can be no workers */
	if (pcxt->seg == NULL || pcxt->nworkers == 0)
	{
		DestroyParallelContext(pcxt);
		ExitParallelMode();
		return false;
	}

	pool->pcxt = pcxt;
	fill_segment(pool, plan, store_limit, store_reserve, text_size);

	return true;
}

/*
 * Leader: create the pool for a vacuum as planned, with up to nworkers workers.
 * store_limit and store_reserve are bytes: the most the store may take, and
 * what is set aside for it at once.  Workers are not started yet.
 */
void
pv_pool_create(PvPool *pool, PvParticipant *leader, PvPhaseFunction work,
			   const PvShared *plan, int nworkers, Size store_limit,
			   Size store_reserve)
{
	memset(pool, 0, sizeof(*pool));
	pool->leader = leader;
	pool->work = work;
	pool->nworkers_planned = nworkers;

	if (nworkers == 0 ||
		!create_shared(pool, plan, store_limit, store_reserve))
		create_local(pool, plan, store_limit);
	BarrierAttach(&leader->shared->barrier);
}

/*
 * How many workers are so many pages worth?  One more for every tripling of the
 * threshold, which is in pages too, as for scans.
 * Core: optimizer/path/allpaths.c, compute_parallel_worker.
 */
int
pv_workers_for_pages(uint64 pages, int threshold_pages)
{
	uint64		threshold = Max(threshold_pages, 1);
	int			nworkers = 0;

	for (; pages >= threshold; threshold *= 3)
		nworkers++;
	return nworkers;
}

/*
 * Start the workers of a parallel context, as many as parvacuum.max_workers and
 * the server allow.  Returns how many; whoever ends them releases as many.
 */
int
pv_launch_workers(ParallelContext *pcxt, PvCostShared *cost)
{
	int			granted = pv_reserve_workers(pcxt->nworkers);

	ReinitializeParallelWorkers(pcxt, granted);
	LaunchParallelWorkers(pcxt);
	cost->nparticipants = pcxt->nworkers_launched + 1;
	pv_release_workers(granted - pcxt->nworkers_launched);
	return pcxt->nworkers_launched;
}

/*
 * Start the workers, in the background, if there are to be any.
 */
static void
launch(PvPool *pool)
{
	pool->launched = true;
	if (pool->pcxt == NULL)
		return;
	pv_process_lead(&pool->leader->shared->leader_gave_up);
	pool->nworkers_launched = pv_launch_workers(pool->pcxt,
												&pool->leader->shared->cost);
}

/*
 * Make sure that every worker which was started has come up.  One that did not
 * would otherwise show only when all is done.  Core waits here for those
 * that are still starting, so call it when there has been time for that.
 */
void
pv_pool_check_attached(PvPool *pool)
{
	if (pool->attach_checked || pool->pcxt == NULL)
		return;
	pool->attach_checked = true;
	if (pool->nworkers_launched > 0)
		WaitForParallelWorkersToAttach(pool->pcxt);
}

/*
 * Leader, with its own part of the phase done: look after the rest, progress
 * and cost limits above all, until no worker is in the midst of its part.  A
 * barrier cannot be left now and then, so this comes before it.  A worker that
 * begins only now finds nothing to do, or nothing that takes long.
 */
static void
tick_while_workers_work(PvPool *pool)
{
	PvParticipant *leader = pool->leader;
	PvShared   *shared = leader->shared;

	if (pool->nworkers_launched == 0)
		return;

	ConditionVariablePrepareToSleep(&shared->idle);
	while (pg_atomic_read_u32(&shared->nbusy) > 0)
	{
		leader->tick(leader);
		(void) ConditionVariableTimedSleep(&shared->idle, TICK_WHILE_WAITING,
										   pv_wait_event(PV_EVENT_WORKERS));
	}
	ConditionVariableCancelSleep();
}

/*
 * Have all participants do one phase.  On return it is complete, and the
 * leader is alone again.
 */
void
pv_pool_run_phase(PvPool *pool, PvPhase phase)
{
	PvParticipant *leader = pool->leader;
	PvShared   *shared = leader->shared;

	shared->phase = phase;
	if (!pool->launched)
		launch(pool);

	wait_for_all(shared);
	pool->work(leader, phase);
	pv_pool_check_attached(pool);
	tick_while_workers_work(pool);
	wait_for_all(shared);

	shared->phase = PV_PHASE_IDLE;
}

/*
 * Send the workers home and add what they used to what we used.
 */
static void
dismiss_workers(PvPool *pool)
{
	PvParticipant *leader = pool->leader;

	leader->shared->phase = PV_PHASE_DONE;
	wait_for_all(leader->shared);
	WaitForParallelWorkersToFinish(pool->pcxt);

	for (int i = 0; i < pool->nworkers_launched; i++)
		InstrAccumParallelQuery(&leader->slot[i + 1].buffer_usage,
								&leader->slot[i + 1].wal_usage);
}

/*
 * Leader: end the pool, and parallel mode with it.  What must outlive shared
 * memory, the results of the indexes, is copied to local memory first.
 */
void
pv_pool_end(PvPool *pool)
{
	PvParticipant *leader = pool->leader;
	Size		units_size = leader->nindexes * sizeof(PvIndexUnit);
	PvShared   *shared;
	PvIndexUnit *units;

	if (leader->store)
		pv_deadtids_detach(leader->store);
	leader->store = NULL;
	if (pool->pcxt == NULL)
		return;

	dismiss_workers(pool);

	units = palloc(Max(units_size, 1));
	memcpy(units, leader->units, units_size);
	shared = palloc(sizeof(PvShared));
	memcpy(shared, leader->shared, sizeof(PvShared));

	pv_process_lead(NULL);
	DestroyParallelContext(pool->pcxt);
	ExitParallelMode();
	pv_release_workers(pool->nworkers_launched);

	pool->pcxt = NULL;
	leader->units = units;
	leader->shared = shared;
	leader->slot = NULL;
}

/*
 * Worker: find everything in the DSM segment, and show whom the leader acts for.  The
 * caller fills in the relations.
 */
void
pv_pool_attach(PvParticipant *self, dsm_segment *seg, shm_toc *toc)
{
	PvSlot	   *slots = shm_toc_lookup(toc, PV_KEY_SLOTS, false);

	self->shared = shm_toc_lookup(toc, PV_KEY_SHARED, false);
	pv_process_show_identity(&self->shared->leader_identity);
	self->slot = &slots[ParallelWorkerNumber + 1];
	self->units = shm_toc_lookup(toc, PV_KEY_UNITS, false);
	self->bitmaps = shm_toc_lookup(toc, PV_KEY_BITMAPS, false);
	self->eager.shared = &self->shared->eager;
	self->eager.failures_left = shm_toc_lookup(toc, PV_KEY_REGIONS, false);
	if (self->shared->nindexes > 0)
		self->store = pv_deadtids_attach(shm_toc_lookup(toc, PV_KEY_STORE, false),
										 seg);

	debug_query_string = shm_toc_lookup(toc, PV_KEY_STATEMENT, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string ? debug_query_string :
						   shm_toc_lookup(toc, PV_KEY_ACTIVITY, true));
}

/*
 * Worker: let go of what pv_pool_attach() attached to.  Segments of the store
 * that are still mapped when the worker's transaction ends count as leaked.
 */
void
pv_pool_detach(PvParticipant *self)
{
	if (self->store)
		pv_deadtids_detach(self->store);
}

/*
 * Worker: take part in every phase from now on, until the leader is done.
 */
void
pv_pool_work_until_done(PvParticipant *self, PvPhaseFunction work)
{
	PvShared   *shared = self->shared;
	bool		in_phase = BarrierAttach(&shared->barrier) % 2 != 0;

	if (!in_phase)
		wait_for_all(shared);

	while (shared->phase != PV_PHASE_DONE)
	{
		pg_atomic_fetch_add_u32(&shared->nbusy, 1);
		work(self, shared->phase);
		if (pg_atomic_sub_fetch_u32(&shared->nbusy, 1) == 0)
			ConditionVariableBroadcast(&shared->idle);
		wait_for_all(shared);	/* the phase ends */
		wait_for_all(shared);	/* another begins */
	}
	BarrierDetach(&shared->barrier);
}
