/*-------------------------------------------------------------------------
 *
 * finish.c
 *	  What the heap scan has come to, and what the leader does when its
 *	  workers are gone.
 *
 * Only the leader runs this: pv_scan_*() and pv_finish_phase() between phases,
 * the rest after parallel mode has ended, so transaction IDs can be assigned
 * and pg_class can be updated.
 *
 * Locks: ShareUpdateExclusiveLock on the table, which truncation raises to
 * AccessExclusiveLock for a short time (engine/truncate.c).
 *
 * Core: access/heap/vacuumlazy.c, heap_vacuum_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "utils/inval.h"
#include "utils/rel.h"

#include "engine/vacuum.h"
#include "stats/history.h"
#include "throttle/pace.h"

/* Return the block before which all blocks have been scanned. */
BlockNumber
pv_scan_done_upto(const PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;
	BlockNumber upto =
		Min(pg_atomic_read_u32(&shared->scan.next), shared->plan.rel_pages);

	for (int i = 0; i < shared->plan.nslots; i++)
		upto = Min(upto, vac->leader.slot[i].unvisited);
	return upto;
}

/*
 * Begin the heap scan where the interrupted vacuum has ended early, because
 * the blocks before are done.
 */
void
pv_scan_go_on(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;
	BlockNumber start = vac->kept.scan.upto;

	pv_dispense_init(&shared->scan, start, shared->plan.rel_pages,
					 PV_SEGMENT_BLOCKS, PV_RANGE_MAX_BLOCKS,
					 shared->plan.nslots);
	pg_atomic_write_u64(&shared->blocks_passed, start);
}

/*
 * Make sure that each block of the table was visited or skipped once, after the
 * last one.  A block that was left out could have an XID that relfrozenxid
 * passes.
 */
void
pv_scan_check_coverage(const PvVacuum *vac)
{
	uint64		end = vac->plan.rel_pages;
	uint64		start = vac->goes_on ? vac->kept.scan.upto : 0;
	uint64		blocks = end - start;

	if (vac->sum.covered != blocks ||
		(blocks > 0 &&
		 vac->sum.covered_sum != blocks * (start + end - 1) / 2))
		elog(ERROR, "heap scan of \"%s\" passed %llu blocks of %llu, or some of them twice",
			 RelationGetRelationName(vac->rel),
			 (unsigned long long) vac->sum.covered,
			 (unsigned long long) blocks);
}

/*
 * Estimate the number of tuples in the table, after the last heap page was
 * seen.
 *
 * Pages that were skipped although core would have read them count as scanned,
 * with the number of tuples that the sample gives for them (engine/sample.c).
 * If there is no sample, because there were only a few such pages, they count
 * like the pages that core skips.
 *
 * The pages that are skipped have as many tuples as those of the whole table
 * had.  An interrupted vacuum that was taken over has counted later than
 * pg_class says.
 */
void
pv_scan_estimate_tuples(PvVacuum *vac)
{
	BlockNumber pages = vac->sum.pages_scanned;
	double		tuples = vac->sum.live_tuples;
	BlockNumber skipped;
	double		on_skipped;

	if (pv_sample_estimate(&vac->sum.sample, &skipped, &on_skipped))
	{
		pages += skipped;
		tuples += on_skipped;
	}
	Assert(vac->sum.pages_scanned + skipped <= vac->plan.rel_pages);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
								 vac->plan.rel_pages);
	if (vac->goes_on)
	{
		pages = Min(pages + vac->kept.scan.pages, vac->plan.rel_pages);
		tuples += vac->kept.scan.tuples;
	}
	if (vac->kept.ref.token != 0 && vac->kept.live_tuples >= 0)
		vac->new_live_tuples = tuples + vac->kept.live_tuples /
			Max(vac->kept.pages, 1) * (vac->plan.rel_pages - pages);
	else
		vac->new_live_tuples =
			vac_estimate_reltuples(vac->rel, vac->plan.rel_pages, pages,
								   tuples);
	vac->new_rel_tuples = Max(vac->new_live_tuples, 0) +
		vac->sum.tuples_recently_dead + vac->sum.tuples_missed;
}

/* Update pg_class for indexes with exact counts, and close the indexes. */
void
pv_finish_indexes(PvVacuum *vac)
{
	PvParticipant *leader = &vac->leader;
	int			n = leader->nindexes;

	vac->index_names = palloc(Max(n, 1) * sizeof(char *));
	for (int i = 0; i < n; i++)
	{
		PvIndexResult *index = &leader->units[i].result;
		Relation	indrel = leader->indrels[i];

		vac->index_names[i] = pstrdup(RelationGetRelationName(indrel));

		/* Before the cleanup, some access methods do not know their pages */
		if (!index->istat_valid || vac->ended_early)
			continue;
		pv_history_note_index(indrel, &index->istat, index->usecs);
		if (vac->do_index_cleanup && !pv_failsafe_triggered(leader) &&
			!index->istat.estimated_count)
			pv_update_relstats(indrel, index->istat.num_pages,
							   index->istat.num_index_tuples, 0, 0, false,
							   InvalidTransactionId, InvalidMultiXactId,
							   NULL, NULL);
	}
	vac_close_indexes(n, leader->indrels, NoLock);
}

/*
 * Update the table's row in pg_class and its cumulative statistics.
 *
 * If pages were skipped as all-visible, the XIDs on them are not known, so
 * relfrozenxid and relminmxid keep their values.
 */
void
pv_finish_statistics(PvVacuum *vac)
{
	BlockNumber allvisible,
				allfrozen;
	TransactionId new_relfrozenxid = vac->sum.NewRelfrozenXid;
	MultiXactId new_relminmxid = vac->sum.NewRelminMxid;
	bool		frozenxid_updated,
				minmulti_updated;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	pv_progress_alone(vac, PV_PHASE_DONE);
	if (vac->sum.skippedallvis)
	{
		Assert(!vac->plan.aggressive);
		new_relfrozenxid = InvalidTransactionId;
		new_relminmxid = InvalidMultiXactId;
	}

	/*
	 * What was seen cannot be older than the values in pg_class.  If an
	 * earlier vacuum has seen a part of the table, its cutoffs were older
	 * than ours.
	 */
	Assert(vac->goes_on || !TransactionIdIsValid(new_relfrozenxid) ||
		   new_relfrozenxid == vac->plan.cutoffs.OldestXmin ||
		   TransactionIdPrecedesOrEquals(vac->plan.aggressive ?
										 vac->plan.cutoffs.FreezeLimit :
										 vac->plan.cutoffs.relfrozenxid,
										 new_relfrozenxid));
	Assert(vac->goes_on || !MultiXactIdIsValid(new_relminmxid) ||
		   new_relminmxid == vac->plan.cutoffs.OldestMxact ||
		   MultiXactIdPrecedesOrEquals(vac->plan.aggressive ?
									   vac->plan.cutoffs.MultiXactCutoff :
									   vac->plan.cutoffs.relminmxid,
									   new_relminmxid));

	/*
	 * Workers may have created or extended the visibility map.  Core sends an
	 * invalidation message then, and this process asks the kernel for the
	 * length of the file again after it has processed that message.
	 */
	if (vac->result->workers_launched > 0)
		AcceptInvalidationMessages();
	visibilitymap_count(vac->rel, &allvisible, &allfrozen);
	allvisible = Min(allvisible, vac->rel_pages);
	allfrozen = Min(allfrozen, allvisible);

	pv_update_relstats(vac->rel, vac->rel_pages, vac->new_live_tuples,
					   allvisible, allfrozen, vac->leader.nindexes > 0,
					   new_relfrozenxid, new_relminmxid, &frozenxid_updated,
					   &minmulti_updated);
	pv_report_vacuum(vac->rel, Max(vac->new_live_tuples, 0),
					 vac->sum.tuples_recently_dead +
					 vac->sum.tuples_missed,
					 vac->starttime);

	if (frozenxid_updated)
		vac->new_relfrozenxid = new_relfrozenxid;
	if (minmulti_updated)
		vac->new_relminmxid = new_relminmxid;
	vac->result->relfrozenxid_advanced = frozenxid_updated;
}

/*
 * Fill in the part of the result that is known after each phase: the history
 * has it also if the vacuum fails later.  So it gets what kept dead rows as
 * soon as there are any.
 */
void
pv_finish_phase(PvVacuum *vac)
{
	PvResult   *result = vac->result;

	result->pages_total = vac->plan.rel_pages;
	if (pv_cost.mode == PV_COST_SCHEDULER)
		result->paced_usecs = pv_cost_pace_shown().usecs - vac->paced_before;
#define COPY(name, type, known, summed) result->name = vac->sum.name;
	PV_FIGURES(COPY, PV_NO_FIGURE, PV_NO_FIGURE)
#undef COPY
		result->oldest_xmin = vac->plan.cutoffs.OldestXmin;

	if (result->tuples_recently_dead > 0 && !vac->blocker_noted &&
		vac->blocker.kind != PV_BLOCKER_NONE)
	{
		pv_history_note_blocker(&vac->blocker, vac->starttime);
		vac->blocker_noted = true;
	}
}

/* Fill in the result of the whole vacuum. */
void
pv_finish_result(PvVacuum *vac)
{
	PvResult   *result = vac->result;

	pv_finish_phase(vac);
	if (vac->ended_early)
	{
		result->ended_early =
			pg_atomic_read_u32(&vac->leader.shared->early_end);
		vac->new_live_tuples = vac->rel->rd_rel->reltuples;
	}
	pv_usage_since(&vac->usage, result);
	result->paced_usecs = Min(result->paced_usecs, result->elapsed_usecs);
	result->tuples_remaining = (int64) Max(vac->new_live_tuples, 0);
	result->remaining_estimated = vac->ended_early ||
		vac->sum.pages_scanned < vac->plan.rel_pages;
	result->index_scan_bypassed = vac->plan.nindexes > 0 &&
		vac->sum.dead_items > 0 &&
		(!vac->do_index_vacuuming || pv_failsafe_triggered(&vac->leader));
}
