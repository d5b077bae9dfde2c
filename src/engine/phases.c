/*-------------------------------------------------------------------------
 *
 * phases.c
 *	  What a participant does in each phase, and the entry point of workers.
 *
 * Leader and workers both run pv_participate().  Core's parallel
 * infrastructure starts the workers, with the leader's snapshot, settings,
 * user, lock group and PROC_IN_VACUUM, so that a worker's xmin does not hold
 * back other vacuums.
 *
 * Locks: ShareUpdateExclusiveLock on the table and RowExclusiveLock on its
 * indexes, as in the leader; members of a lock group do not conflict.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_main.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "utils/rel.h"

#include "base/borrowed.h"
#include "base/guard.h"
#include "base/process.h"
#include "base/wait.h"
#include "engine/index_vacuum.h"
#include "engine/phases.h"
#include "engine/pool.h"

/* Complete a participant after its shared part and its relations are known. */
void
pv_participant_init(PvParticipant *self)
{
	PvShared   *shared = self->shared;

	/* The horizon is this process's own, the cutoffs are the leader's */
	self->vistest = GlobalVisTestFor(self->rel);
	pv_counters_init(&self->counters, &shared->plan.cutoffs);
	self->part.leader_pid = shared->leader_pid;
	self->part.participant = self->is_leader ? 0 : ParallelWorkerNumber + 1;
	self->slept_before = pv_cost.slept_usecs;
	self->blockscan =
		pv_blockscan_create(self->rel, &self->ring, &shared->scan,
							&shared->plan.skipping, &self->eager);
}

/*
 * Let a test stop all participants, or the leader alone while the workers do
 * all the work.
 */
static void
wait_in_phase(PvParticipant *self, const char *place, const char *of_leader)
{
	pv_wait_point(place, RelationGetRelid(self->rel));
	if (self->is_leader)
		pv_wait_point(of_leader, RelationGetRelid(self->rel));
}

/*
 * Do this participant's part of a phase, and leave the counters where the
 * leader reads them.
 */
void
pv_participate(PvParticipant *self, PvPhase phase)
{
	self->errinfo.phase = phase;
	pv_cost_begin_work(&self->shared->cost);
	pv_show_begin(self, phase);

	switch (phase)
	{
		case PV_PHASE_SCAN:
			wait_in_phase(self, "scan", "leader scan");
			pv_scan_heap(self);
			break;
		case PV_PHASE_INDEX:
		case PV_PHASE_CLEANUP:
			if (phase == PV_PHASE_INDEX)
				wait_in_phase(self, "index", "leader index");
			else
				wait_in_phase(self, "cleanup", "leader cleanup");
			pv_index_work(self, phase);
			break;
		case PV_PHASE_VACUUM_HEAP:
			wait_in_phase(self, "heap", "leader heap");
			pv_vacuum_heap(self);
			break;
		case PV_PHASE_IDLE:
		case PV_PHASE_TRUNCATE:
		case PV_PHASE_DONE:
			elog(ERROR, "unexpected vacuum phase %d", (int) phase);
	}

	pv_cost_end_work();
	self->slot->counters = self->counters;
	self->errinfo.phase = PV_PHASE_IDLE;
	self->part.phase = PV_PHASE_IDLE;
	pv_show(self);
}

/* Do the work of a worker that has found the shared memory of its leader. */
static void
work_in_pool(void *arg)
{
	PvParticipant *self = arg;
	ErrorContextCallback errcallback;

	self->rel = table_open(self->shared->plan.relid, ShareUpdateExclusiveLock);
	vac_open_indexes(self->rel, RowExclusiveLock, &self->nindexes,
					 &self->indrels);
	if (self->nindexes != self->shared->plan.nindexes)
		elog(ERROR, "worker found %d indexes, but the leader found %d",
			 self->nindexes, self->shared->plan.nindexes);
	pv_ring_create(&self->ring, self->shared->plan.ring_kb);
	maintenance_work_mem = self->shared->plan.maintenance_work_mem_worker;

	pv_errorinfo_init(&self->errinfo, self->rel);
	errcallback.callback = pv_error_callback;
	errcallback.arg = &self->errinfo;
	errcallback.previous = error_context_stack;
	error_context_stack = &errcallback;

	pv_participant_init(self);
	pv_pool_work_until_done(self, pv_participate);
	pv_track_end();
	pv_report_rest_of_delays();
	InstrEndParallelQuery(&self->slot->buffer_usage, &self->slot->wal_usage);

	error_context_stack = errcallback.previous;
	pv_pool_detach(self);
	vac_close_indexes(self->nindexes, self->indrels, RowExclusiveLock);
	table_close(self->rel, ShareUpdateExclusiveLock);
}

/* Entry point of a worker. */
void
parvacuum_worker_main(dsm_segment *seg, shm_toc *toc)
{
	PvParticipant self = {0};

	pv_guard_process();

	/* as in the leader (entry/dispatch.c); before 18 it is not inherited */
	(void) pv_forbid_writes();

	InstrStartParallelQuery();
	pv_pool_attach(&self, seg, toc);
	pv_process_work(&self.shared->leader_gave_up, work_in_pool, &self);
}
