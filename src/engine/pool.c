/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  The processes that vacuum one table together.
 *
 * Core's parallel infrastructure starts the workers once, and they stay
 * through all phases.  Without workers, or if all DSM segments of the server
 * are in use, everything below is in the leader's memory.
 *
 * One barrier separates the phases.  Its phase number is even while the leader
 * alone is working, deciding what comes next, and odd while all participants
 * work in a phase:
 *
 *	 leader    decide ... publish |A| work ......... |B| sum up, decide ...
 *	 worker    .................. |A| work ......... |B| ...................
 *	 late                             attach, work . |B|
 *	           even (idle)            odd (phase)        even (idle)
 *
 * The leader publishes the phase before it arrives at A.  Between A and B no
 * process writes what others read, except atomics and what belongs to one
 * participant.  The barrier's spinlock makes all of it visible to the others.
 * A worker that comes late sees from the number where it is.  The barrier
 * counts only participants that have attached to it, so fewer workers than
 * planned, or none, are no special case.
 *
 *	 DSM segment:  PvShared | PvSlot[] | PvIndexUnit[] | regions
 *	               store
 *	               text for activity
 *
 * The store grows beyond its reservation, up to its limit, by DSM segments of
 * its own, which are destroyed together with this one.  After an error the end
 * of the transaction destroys the parallel context.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_init.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"

#include "base/process.h"
#include "engine/participant.h"

/* Small numbers are sufficient, because this table of contents is private */
#define PV_KEY_SHARED		1
#define PV_KEY_STORE		2
#define PV_KEY_STATEMENT	3	/* the statement that the leader executes, or
								 * ... */
#define PV_KEY_ACTIVITY		4	/* ... what an autovacuum worker shows as its
								 * activity */

/*
 * Bytes that core adds to what we ask for: its copy of our state, a segment
 * for the session, and a queue for each worker's messages
 */
#define CORES_PART(nworkers) \
	((Size) 320 * 1024 + (Size) (nworkers) * 16 * 1024)

/* Milliseconds between two calls of tick() by a waiting leader */
#define TICK_WHILE_WAITING			100

static void
wait_for_all(PvShared *shared)
{
	pv_process_check_leader();
	BarrierArriveAndWait(&shared->barrier, pv_wait_event[PV_EVENT_BARRIER]);
}

/* Return the bytes of PvShared and of the arrays that follow it. */
static Size
shared_bytes(const PvVacuumPlan *plan)
{
	return MAXALIGN(sizeof(PvShared)) +
		MAXALIGN(plan->nslots * sizeof(PvSlot)) +
		MAXALIGN(plan->nindexes * sizeof(PvIndexUnit)) +
		MAXALIGN(plan->eager.nregions * sizeof(pg_atomic_uint32));
}

/* Find the arrays that follow PvShared, whose plan is set. */
static void
find_shared(PvParticipant *self, PvShared *shared)
{
	const PvVacuumPlan *plan = &shared->plan;
	char	   *next = (char *) shared + MAXALIGN(sizeof(PvShared));

	self->shared = shared;
	self->slot = (PvSlot *) next;
	next += MAXALIGN(plan->nslots * sizeof(PvSlot));
	self->units = (PvIndexUnit *) next;
	next += MAXALIGN(plan->nindexes * sizeof(PvIndexUnit));
	self->eager.plan = &plan->eager;
	self->eager.successes_left = &shared->eager_successes_left;
	self->eager.failures_left = (pg_atomic_uint32 *) next;
}

/*
 * Initialize PvShared and what follows it from the plan, in shared or local
 * memory.  A slot that no worker uses must not change the sums.
 */
static void
init_shared(PvParticipant *leader, PvShared *shared, const PvVacuumPlan *plan)
{
	/* the cycle IDs of B-trees must be zero; shared memory may be used memory */
	memset(shared, 0, shared_bytes(plan));
	shared->plan = *plan;
	shared->phase = PV_PHASE_IDLE;
	pv_process_identity(&shared->leader_identity);
	shared->leader_pid = MyProcPid;
	BarrierInit(&shared->barrier, 0);
	pg_atomic_init_u32(&shared->nbusy, 0);
	ConditionVariableInit(&shared->idle);
	pg_atomic_init_u32(&shared->leader_gave_up, 0);
	pg_atomic_init_u32(&shared->failsafe, 0);
	pg_atomic_init_u32(&shared->early_end, PV_END_NONE);
	pg_atomic_init_u32(&shared->nstopped, 0);
	pg_atomic_init_u64(&shared->blocks_passed, 0);
	pg_atomic_init_u64(&shared->blocks_vacuumed, 0);
	pg_atomic_init_u64(&shared->blocks_read, 0);
	pg_atomic_init_u64(&shared->dead_pages, 0);
	pg_atomic_init_u64(&shared->slept_usecs, 0);
	pg_atomic_init_u32(&shared->indexes_done, 0);

	find_shared(leader, shared);
	for (int i = 0; i < plan->nslots; i++)
	{
		pv_counters_init(&leader->slot[i].counters, &plan->cutoffs);
		leader->slot[i].unvisited = plan->rel_pages;
	}
	for (int i = 0; i < plan->nindexes; i++)
	{
		pg_atomic_init_flag(&leader->units[i].begun);
		pg_atomic_init_u64(&leader->units[i].began_at, 0);
		pg_atomic_init_u64(&leader->units[i].entries_seen, 0);
	}
	pv_eager_init(&leader->eager);
}

/*
 * Create PvShared and the store in the leader's own memory, for a leader
 * without workers.
 */
static void
create_local(PvParticipant *leader, const PvVacuumPlan *plan)
{
	PvVacuumPlan alone = *plan;

	alone.nslots = 1;
	init_shared(leader, palloc(shared_bytes(&alone)), &alone);
	if (plan->nindexes > 0)
		leader->store = pv_deadtids_create_local(plan->rel_pages,
												 plan->store_limit);
}

/* Allocate a part of the DSM segment, and enter it under its key. */
static void *
allocate_part(ParallelContext *pcxt, uint64 key, Size size)
{
	void	   *part = shm_toc_allocate(pcxt->toc, size);

	shm_toc_insert(pcxt->toc, key, part);
	return part;
}

static void
estimate_part(ParallelContext *pcxt, Size size)
{
	shm_toc_estimate_chunk(&pcxt->estimator, size);
	shm_toc_estimate_keys(&pcxt->estimator, 1);
}

/* Return the leader's statement, or what it shows as its activity. */
static const char *
activity_text(void)
{
	return debug_query_string ? debug_query_string :
		MyBEEntry->st_activity_raw;
}

/* Fill the DSM segment.  text_size was estimated for the activity text. */
static void
fill_segment(PvPool *pool, const PvVacuumPlan *plan, Size store_reserve,
			 Size text_size)
{
	PvParticipant *leader = pool->leader;
	ParallelContext *pcxt = pool->pcxt;

	init_shared(leader,
				allocate_part(pcxt, PV_KEY_SHARED, shared_bytes(plan)), plan);
	if (plan->nindexes > 0)
	{
		Size		size = pv_deadtids_shared_size(plan->rel_pages,
												   store_reserve);

		leader->store =
			pv_deadtids_create_shared(allocate_part(pcxt, PV_KEY_STORE, size),
									  pcxt->seg, plan->rel_pages,
									  store_reserve, plan->store_limit);
	}
	memcpy(allocate_part(pcxt,
						 debug_query_string ? PV_KEY_STATEMENT :
						 PV_KEY_ACTIVITY,
						 text_size),
		   activity_text(), text_size);
}

/*
 * Make core copy our state for the workers.
 *
 * Before PG 16 cost-based delay uses the variables of the cost settings.  A
 * scheduler worker has values in them that the settings do not accept, so
 * workers, which get the settings, would fail.  So store valid values
 * meanwhile; workers use what is in PvCostShared.
 */
static void
init_segment(ParallelContext *pcxt)
{
	double		delay = pv_vacuum_cost_delay;
	int			limit = pv_vacuum_cost_limit;

	if (!PV_CORE_RESETS_COSTS || pv_cost.mode != PV_COST_SCHEDULER)
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
 * Is there room for the parts estimated so far, for what core adds, and for
 * that many bytes?
 */
static bool
has_room(ParallelContext *pcxt, Size bytes)
{
	return pv_dsm_has_room(add_size(shm_toc_estimate(&pcxt->estimator), bytes),
						   CORES_PART(pcxt->nworkers));
}

/*
 * Enter parallel mode and create everything that workers need.  If there is no
 * shared memory, leave it again and return false.  If memory is scarce,
 * reserve less for the store than was planned.
 */
static bool
create_shared(PvPool *pool, const PvVacuumPlan *plan)
{
	ParallelContext *pcxt;
	Size		text_size = strlen(activity_text()) + 1;
	Size		store_reserve = plan->store_reserve;
	Size		least = plan->nslots * PV_DEADTIDS_ROOM;

	EnterParallelMode();
	pcxt = CreateParallelContext(pv_process_library(), "parvacuum_worker_main",
								 pool->nworkers_planned);

	/* Our context would be misleading in a worker's message */
	pcxt->error_context_stack = pool->leader->outer_context;

	estimate_part(pcxt, shared_bytes(plan));
	estimate_part(pcxt, text_size);
	if (plan->nindexes > 0)
	{
		while (store_reserve > least &&
			   !has_room(pcxt, pv_deadtids_shared_size(plan->rel_pages,
													   store_reserve)))
			store_reserve = Max(store_reserve / 2, least);
		estimate_part(pcxt,
					  pv_deadtids_shared_size(plan->rel_pages, store_reserve));
	}
	if (has_room(pcxt, 0))
		init_segment(pcxt);
	else
		ereport(WARNING,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("not enough shared memory to vacuum table \"%s\" with parallel workers",
						pool->leader->errinfo.relname),
				 errdetail("It is vacuumed by one process."),
				 errhint("Enlarge /dev/shm or \"min_dynamic_shared_memory\".  In a container the default size of /dev/shm is 64 MB.")));

	/* No workers are possible without a segment, or while interrupts are held */
	if (pcxt->seg == NULL || pcxt->nworkers == 0)
	{
		DestroyParallelContext(pcxt);
		ExitParallelMode();
		return false;
	}

	pool->pcxt = pcxt;
	fill_segment(pool, plan, store_reserve, text_size);
	return true;
}

/* Leader: create the pool for a planned vacuum, without starting workers. */
void
pv_pool_create(PvPool *pool, PvParticipant *leader, const PvVacuumPlan *plan)
{
	pool->leader = leader;
	pool->nworkers_planned = plan->nslots - 1;

	if (pool->nworkers_planned == 0 || !create_shared(pool, plan))
		create_local(leader, plan);
	BarrierAttach(&leader->shared->barrier);
}

/*
 * Start the workers, if there are to be any and they have not been started, as
 * many as parvacuum.max_workers and the server allow, but do not wait for
 * them.
 */
void
pv_pool_launch(PvPool *pool)
{
	PvShared   *shared = pool->leader->shared;
	int			granted;

	if (pool->launched || pool->pcxt == NULL)
		return;
	pool->launched = true;
	granted = pv_reserve_workers(pool->pcxt->nworkers);
	pv_process_lead(&shared->leader_gave_up);
	ReinitializeParallelWorkers(pool->pcxt, granted);
	LaunchParallelWorkers(pool->pcxt);
	pool->nworkers_launched = pool->pcxt->nworkers_launched;
	shared->cost.nparticipants = pool->nworkers_launched + 1;
	pv_release_workers(granted - pool->nworkers_launched);
}

/*
 * Raise an error if a worker has failed to start, which would otherwise be
 * noticed only at the end.  Core waits here for workers that are still
 * starting, so call this when they have had time to start.
 */
void
pv_pool_check_attached(PvPool *pool)
{
	if (pool->attach_checked || pool->pcxt == NULL)
		return;
	pool->attach_checked = true;
	WaitForParallelWorkersToAttach(pool->pcxt);
}

/*
 * Leader, after its own part of the phase: call tick() for progress and cost
 * limits, until no worker is in the middle of its part.  Do this before the
 * barrier, which a process cannot leave for a moment.  A worker that begins
 * only now finds nothing left to do, or nothing that takes long.
 */
static void
tick_while_workers_work(PvParticipant *leader)
{
	PvShared   *shared = leader->shared;

	ConditionVariablePrepareToSleep(&shared->idle);
	while (pg_atomic_read_u32(&shared->nbusy) > 0)
	{
		pv_tick(leader);
		(void) ConditionVariableTimedSleep(&shared->idle, TICK_WHILE_WAITING,
										   pv_wait_event[PV_EVENT_WORKERS]);
	}
	ConditionVariableCancelSleep();
}

/*
 * Run one phase with all participants.  On return it is complete, and the
 * leader is alone again.
 */
void
pv_pool_run_phase(PvPool *pool, PvPhase phase)
{
	PvParticipant *leader = pool->leader;
	PvShared   *shared = leader->shared;

	shared->phase = phase;
	pv_pool_launch(pool);
	wait_for_all(shared);
	pv_participate(leader, phase);

	/* an error in the following is one of this phase, too */
	leader->errinfo.phase = phase;
	pv_pool_check_attached(pool);
	tick_while_workers_work(leader);
	wait_for_all(shared);
	leader->errinfo.phase = PV_PHASE_IDLE;
	shared->phase = PV_PHASE_IDLE;
}

/*
 * Leader: end the workers, and parallel mode with them, and add their usage to
 * ours.  Copy what is shared to local memory, because the results are needed
 * later.  No other process uses it any more, so it can be copied as it is.
 */
void
pv_pool_end(PvPool *pool)
{
	PvParticipant *leader = pool->leader;
	Size		bytes = shared_bytes(&leader->shared->plan);

	if (leader->store)
		pv_deadtids_detach(leader->store);
	leader->store = NULL;
	if (pool->pcxt == NULL)
		return;

	leader->shared->phase = PV_PHASE_DONE;
	wait_for_all(leader->shared);
	WaitForParallelWorkersToFinish(pool->pcxt);
	for (int i = 0; i < pool->nworkers_launched; i++)
		InstrAccumParallelQuery(&leader->slot[i + 1].buffer_usage,
								&leader->slot[i + 1].wal_usage);
	find_shared(leader, memcpy(palloc(bytes), leader->shared, bytes));

	pv_process_lead(NULL);
	DestroyParallelContext(pool->pcxt);
	ExitParallelMode();
	pv_release_workers(pool->nworkers_launched);
	pool->pcxt = NULL;
}

/*
 * Worker: find everything in the DSM segment, and show the role that the
 * leader acts for.  The caller fills in the relations.
 */
void
pv_pool_attach(PvParticipant *self, dsm_segment *seg, shm_toc *toc)
{
	find_shared(self, shm_toc_lookup(toc, PV_KEY_SHARED, false));
	self->slot += ParallelWorkerNumber + 1;
	pv_process_show_identity(&self->shared->leader_identity);
	if (self->shared->plan.nindexes > 0)
		self->store =
			pv_deadtids_attach(shm_toc_lookup(toc, PV_KEY_STORE, false), seg);

	debug_query_string = shm_toc_lookup(toc, PV_KEY_STATEMENT, true);
	pgstat_report_activity(STATE_RUNNING,
						   debug_query_string ? debug_query_string :
						   shm_toc_lookup(toc, PV_KEY_ACTIVITY, true));
}

/*
 * Worker: take part in every phase from now on, until the leader has ended the
 * pool.
 */
void
pv_pool_work_until_done(PvParticipant *self)
{
	PvShared   *shared = self->shared;

	if (BarrierAttach(&shared->barrier) % 2 == 0)
		wait_for_all(shared);	/* no phase is in progress */
	while (shared->phase != PV_PHASE_DONE)
	{
		pg_atomic_fetch_add_u32(&shared->nbusy, 1);
		pv_participate(self, shared->phase);
		if (pg_atomic_sub_fetch_u32(&shared->nbusy, 1) == 0)
			ConditionVariableBroadcast(&shared->idle);
		wait_for_all(shared);	/* the phase ends */
		wait_for_all(shared);	/* another begins */
	}
	BarrierDetach(&shared->barrier);
}
