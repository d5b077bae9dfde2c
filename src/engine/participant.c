/*-------------------------------------------------------------------------
 *
 * participant.c
 *	  What all participants share: counters, index units, the failsafe.
 *
 * Leader and workers run this.  The failsafe flag is one atomic.  The first
 * participant that sees that the table's XIDs are dangerously old sets it.
 * The others notice at their next page or index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"

#include "engine/participant.h"

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
	sum->covered += part->covered;
	sum->covered_sum += part->covered_sum;
	sum->scanned_pages += part->scanned_pages;
	sum->eager_pages += part->eager_pages;
	sum->frozen_pages += part->frozen_pages;
	sum->new_visible_pages += part->new_visible_pages;
	sum->new_visible_frozen_pages += part->new_visible_frozen_pages;
	sum->new_frozen_pages += part->new_frozen_pages;
	sum->lpdead_item_pages += part->lpdead_item_pages;
	sum->missed_dead_pages += part->missed_dead_pages;
	sum->nonempty_pages = Max(sum->nonempty_pages, part->nonempty_pages);
	sum->tuples_deleted += part->tuples_deleted;
	sum->tuples_frozen += part->tuples_frozen;
	sum->lpdead_items += part->lpdead_items;
	sum->live_tuples += part->live_tuples;
	sum->recently_dead_tuples += part->recently_dead_tuples;
	sum->missed_dead_tuples += part->missed_dead_tuples;
	sum->vacuumed_pages += part->vacuumed_pages;
	sum->vacuumed_items += part->vacuumed_items;
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
		.blocks_read = self->counters.scanned_pages,
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
	pv_track_part(&self->part);
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
