/*-------------------------------------------------------------------------
 *
 * phases.c
 *	  What a participant does in each phase, and the entry point of workers;
 *	  what it needs in all of them: error context, counters, the failsafe.
 *
 * Leader and workers both run pv_participate().  Core's parallel
 * infrastructure starts the workers, with the leader's snapshot, settings,
 * user, lock group and PROC_IN_VACUUM, so that a worker's xmin does not hold
 * back other vacuums.
 *
 * With the error callback an error in any process names the block, phase and
 * index.  The failsafe flag is one atomic.  The first participant that sees
 * that the table's XIDs are dangerously old sets it.  The others notice at
 * their next page or index.
 *
 * Locks: ShareUpdateExclusiveLock on the table and RowExclusiveLock on its
 * indexes, as in the leader; members of a lock group do not conflict.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_main.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/transam.h"
#include "commands/dbcommands.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/borrowed.h"
#include "base/process.h"
#include "engine/participant.h"

/*
 * Store the names that an error message needs, while they can be looked up.
 * This allocates in the current memory context.
 */
void
pv_errorinfo_init(PvErrorInfo *info, Relation rel)
{
	info->phase = PV_PHASE_IDLE;
	info->dbname = get_database_name(MyDatabaseId);
	info->relnamespace = get_namespace_name(RelationGetNamespace(rel));
	info->relname = pstrdup(RelationGetRelationName(rel));
	info->indname = NULL;
	info->blkno = InvalidBlockNumber;
	info->offnum = InvalidOffsetNumber;
}

/*
 * Error context callback of every participant.  While the leader waits for
 * those who are at an index, it names none.
 */
void
pv_error_callback(void *arg)
{
	const PvErrorInfo *info = arg;
	const char *doing = info->phase == PV_PHASE_SCAN ? "scanning" :
		info->phase == PV_PHASE_CLEANUP ? "cleaning up" : "vacuuming";

	switch (info->phase)
	{
		case PV_PHASE_SCAN:
		case PV_PHASE_VACUUM_HEAP:
			if (!BlockNumberIsValid(info->blkno))
				errcontext("while %s relation \"%s.%s\"", doing,
						   info->relnamespace, info->relname);
			else if (!OffsetNumberIsValid(info->offnum))
				errcontext("while %s block %u of relation \"%s.%s\"", doing,
						   info->blkno, info->relnamespace, info->relname);
			else
				errcontext("while %s block %u offset %u of relation \"%s.%s\"",
						   doing, info->blkno, info->offnum,
						   info->relnamespace, info->relname);
			break;
		case PV_PHASE_INDEX:
		case PV_PHASE_CLEANUP:
			if (info->indname)
				errcontext("while %s index \"%s\" of relation \"%s.%s\"",
						   doing, info->indname,
						   info->relnamespace, info->relname);
			else
				errcontext("while %s indexes of relation \"%s.%s\"", doing,
						   info->relnamespace, info->relname);
			break;
		case PV_PHASE_TRUNCATE:
			if (BlockNumberIsValid(info->blkno))
				errcontext("while truncating relation \"%s.%s\" to %u blocks",
						   info->relnamespace, info->relname, info->blkno);
			break;
		case PV_PHASE_IDLE:
		case PV_PHASE_DONE:
			break;
	}
}

/*
 * Initialize counters.  The trackers of the oldest XIDs start at the newest
 * possible value and only move back.
 */
void
pv_counters_init(PvCounters *counters, const PvCutoffs *cutoffs)
{
	memset(counters, 0, sizeof(*counters));
	counters->NewRelfrozenXid = cutoffs->OldestXmin;
	counters->NewRelminMxid = cutoffs->OldestMxact;
}

/*
 * Add the counters of one participant to the sum: maximum of nonempty_pages,
 * oldest value of the trackers, sum of everything else.
 */
void
pv_counters_add(PvCounters *sum, const PvCounters *part)
{
#define ADD(name, type, known, summed) sum->name += part->name;
	PV_FIGURES(ADD, PV_NO_FIGURE, PV_NO_FIGURE)
#undef ADD
		sum->covered += part->covered;
	sum->covered_sum += part->covered_sum;
	sum->nonempty_pages = Max(sum->nonempty_pages, part->nonempty_pages);
	pv_sample_add(&sum->sample, &part->sample);
	if (TransactionIdPrecedes(part->NewRelfrozenXid, sum->NewRelfrozenXid))
		sum->NewRelfrozenXid = part->NewRelfrozenXid;
	if (MultiXactIdPrecedes(part->NewRelminMxid, sum->NewRelminMxid))
		sum->NewRelminMxid = part->NewRelminMxid;
	sum->skippedallvis |= part->skippedallvis;
}

/*
 * Add what this participant has done since the last time to the sums of all,
 * and let other processes see how far it is.  A page may be locked.
 */
void
pv_show(PvParticipant *self)
{
	PvShared   *shared = self->shared;
	PvReported	before = self->reported;
	PvReported *now = &self->reported;

	now->blocks_read = self->counters.pages_scanned;
	now->dead_pages = self->counters.lpdead_item_pages;
	now->slept_usecs = pv_cost.slept_usecs;
	pg_atomic_fetch_add_u64(&shared->blocks_read,
							now->blocks_read - before.blocks_read);
	pg_atomic_fetch_add_u64(&shared->dead_pages,
							now->dead_pages - before.dead_pages);
	pg_atomic_fetch_add_u64(&shared->slept_usecs,
							now->slept_usecs - before.slept_usecs);
	self->part.slept_usecs += now->slept_usecs - before.slept_usecs;

	pv_track(NULL, &self->part);
	if (self->show)
		self->show(self);
}

/*
 * The same, and what else a leader does from time to time.  No page may be
 * locked.
 */
void
pv_tick(PvParticipant *self)
{
	pv_show(self);
	pv_look_for_early_end(self);
	if (self->tick)
		self->tick(self);
}

/*
 * Is the failsafe on, or must it be switched on now?  If so, this process no
 * longer sleeps at delay points and no longer uses a ring of buffers.  One
 * participant reports it to the user.
 *
 * Core: access/heap/vacuumlazy.c, lazy_check_wraparound_failsafe.
 */
bool
pv_check_failsafe(PvParticipant *self)
{
	PvShared   *shared = self->shared;
	uint32		expected = 0;

	self->nreloads_checked = pv_cost.nreloads;
	if (!pv_failsafe_triggered(self))
	{
		if (likely(!pv_failsafe_check(&shared->plan.cutoffs)))
			return false;

		if (pg_atomic_compare_exchange_u32(&shared->failsafe, &expected, 1))
			ereport(WARNING,
					(errmsg("bypassing nonessential maintenance of table \"%s.%s.%s\" as a failsafe after %d index scans",
							self->errinfo.dbname, self->errinfo.relnamespace,
							self->errinfo.relname, shared->index_scans),
					 errdetail("The table's relfrozenxid or relminmxid is too far in the past."),
					 errhint("Consider increasing configuration parameter \"maintenance_work_mem\" or \"autovacuum_work_mem\".\n"
							 "You might also need to consider other ways for VACUUM to keep up with the allocation of transaction IDs.")));
	}

	pv_cost_disable();
	self->ring.nparts = 0;
	return true;
}

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
	self->reported.slept_usecs = pv_cost.slept_usecs;
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
	self->part.phase = phase;
	self->part.indexrelid = InvalidOid;
	self->part.range_start = InvalidBlockNumber;
	self->part.range_end = InvalidBlockNumber;
	self->part.index_blks_visited = 0;
	pv_show(self);

	switch (phase)
	{
		case PV_PHASE_SCAN:
			wait_in_phase(self, "scan", "leader scan");
			pv_scan_heap(self);
			break;
		case PV_PHASE_INDEX:
			wait_in_phase(self, "index", "leader index");
			pv_index_work(self, phase);
			break;
		case PV_PHASE_CLEANUP:
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
	pv_pool_work_until_done(self);
	pv_track_end();
	pv_report_rest_of_delays();
	InstrEndParallelQuery(&self->slot->buffer_usage, &self->slot->wal_usage);

	error_context_stack = errcallback.previous;

	/* a segment that stays mapped would be reported as leaked */
	if (self->store)
		pv_deadtids_detach(self->store);
	vac_close_indexes(self->nindexes, self->indrels, RowExclusiveLock);
	table_close(self->rel, ShareUpdateExclusiveLock);
}

/* Entry point of a worker. */
void
parvacuum_worker_main(dsm_segment *seg, shm_toc *toc)
{
	PvParticipant self = {0};

	(void) pv_guard_enter();

	/* as in the leader (entry/dispatch.c); before 18 it is not inherited */
	(void) pv_forbid_writes();

	InstrStartParallelQuery();
	pv_pool_attach(&self, seg, toc);
	pv_process_work(&self.shared->leader_gave_up, work_in_pool, &self);
}
