/*-------------------------------------------------------------------------
 *
 * participant.c
 *	  What all participants share: error context, counters, index units, the
 *	  failsafe.
 *
 * Leader and workers run this.  With the error callback an error in any
 * process names the block, phase and index.  The failsafe flag is one atomic.
 * The first participant that sees that the table's XIDs are dangerously old
 * sets it.  The others notice at their next page or index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "engine/participant.h"

/*
 * Store the names that an error message needs, while they can be looked up.
 * Allocates in the current memory context.
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
 * Context of an error in one of the heap passes.
 */
static void
heap_pass_context(const PvErrorInfo *info, const char *doing)
{
	if (!BlockNumberIsValid(info->blkno))
		errcontext("while %s relation \"%s.%s\"", doing,
				   info->relnamespace, info->relname);
	else if (!OffsetNumberIsValid(info->offnum))
		errcontext("while %s block %u of relation \"%s.%s\"", doing,
				   info->blkno, info->relnamespace, info->relname);
	else
		errcontext("while %s block %u offset %u of relation \"%s.%s\"", doing,
				   info->blkno, info->offnum,
				   info->relnamespace, info->relname);
}

/*
 * Context of an error with an index, or of a leader that waits for those who
 * are at one.
 */
static void
index_pass_context(const PvErrorInfo *info, const char *doing)
{
	if (info->indname)
		errcontext("while %s index \"%s\" of relation \"%s.%s\"", doing,
				   info->indname, info->relnamespace, info->relname);
	else
		errcontext("while %s indexes of relation \"%s.%s\"", doing,
				   info->relnamespace, info->relname);
}

/*
 * Error context callback of every participant.
 */
void
pv_error_callback(void *arg)
{
	const PvErrorInfo *info = arg;

	switch (info->phase)
	{
		case PV_PHASE_SCAN:
			heap_pass_context(info, "scanning");
			break;
		case PV_PHASE_VACUUM_HEAP:
			heap_pass_context(info, "vacuuming");
			break;
		case PV_PHASE_INDEX:
			index_pass_context(info, "vacuuming");
			break;
		case PV_PHASE_CLEANUP:
			index_pass_context(info, "cleaning up");
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
 * Add what this participant has done since the last time to the sums of all.
 */
static void
report_work(PvParticipant *self)
{
	PvShared   *shared = self->shared;
	PvReported *reported = &self->reported;
	PvReported	now = {
		.blocks_read = self->counters.pages_scanned,
		.dead_pages = self->counters.lpdead_item_pages,
		.slept_usecs = pv_cost.slept_usecs - self->slept_before,
	};

	pg_atomic_fetch_add_u64(&shared->blocks_read,
							now.blocks_read - reported->blocks_read);
	pg_atomic_fetch_add_u64(&shared->dead_pages,
							now.dead_pages - reported->dead_pages);
	pg_atomic_fetch_add_u64(&shared->slept_usecs,
							now.slept_usecs - reported->slept_usecs);
	*reported = now;
}

/*
 * This participant begins to work in a phase.
 */
void
pv_show_begin(PvParticipant *self, PvPhase phase)
{
	self->part.phase = phase;
	self->part.indexrelid = InvalidOid;
	self->part.range_start = InvalidBlockNumber;
	self->part.range_end = InvalidBlockNumber;
	self->part.index_blks_visited = 0;
	pv_show(self);
}

/*
 * Let other processes see how far this participant is.  A page may be locked.
 */
void
pv_show(PvParticipant *self)
{
	report_work(self);
	self->part.slept_usecs = self->reported.slept_usecs;
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
	if (self->tick)
		self->tick(self);
}

/*
 * Leader, before launch: initialize the units of index work.
 */
void
pv_units_init(PvIndexUnit *units, int nindexes)
{
	memset(units, 0, nindexes * sizeof(PvIndexUnit));
	for (int i = 0; i < nindexes; i++)
	{
		pg_atomic_init_flag(&units[i].begun);
		pg_atomic_init_u64(&units[i].began_at, 0);
		pg_atomic_init_u64(&units[i].entries_seen, 0);
	}
}

/*
 * Leader, when the workers are gone: copy the results of the indexes, and what
 * remains to be done, to the leader's own memory.  No B-tree is vacuumed by
 * several participants after that; only the progress counters of those that
 * were are kept.
 */
void
pv_units_keep(PvIndexUnit *to, PvIndexUnit *from, int nindexes)
{
	pv_units_init(to, nindexes);
	for (int i = 0; i < nindexes; i++)
	{
		PvBtreeShared *btree = &from[i].btree;

		to[i].kind = from[i].kind;
		to[i].pages = from[i].pages;
		to[i].done = from[i].done;
		to[i].result = from[i].result;
		pv_dispense_init(&to[i].btree.pages,
						 pg_atomic_read_u32(&btree->pages.next),
						 pg_atomic_read_u32(&btree->pages.end), 1, 1, 1);
		pg_atomic_init_u32(&to[i].btree.pages_done,
						   pg_atomic_read_u32(&btree->pages_done));
	}
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

	self->nreloads_checked = pv_cost_reloads_applied();
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
	pv_ring_drop(&self->ring);
	return true;
}
