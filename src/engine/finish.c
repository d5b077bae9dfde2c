/*-------------------------------------------------------------------------
 *
 * finish.c
 *	  What the leader does when its workers are gone.
 *
 * Only the leader runs this.  Parallel mode has ended, so transaction IDs can
 * be assigned and pg_class can be updated.
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

#include "engine/dispense.h"
#include "engine/finish.h"
#include "engine/progress.h"
#include "engine/truncate.h"
#include "stats/history_run.h"

/*
 * Update pg_class for indexes with exact counts, keep what the report needs of
 * each index, and close the indexes.
 */
void
pv_finish_indexes(PvVacuum *vac)
{
	PvParticipant *leader = &vac->leader;
	PvReportDetails *details = &vac->details;
	int			n = leader->nindexes;

	details->nindexes = n;
	details->indnames = palloc(Max(n, 1) * sizeof(char *));
	details->indstats = palloc0(Max(n, 1) * sizeof(IndexBulkDeleteResult *));
	details->indusecs = palloc0(Max(n, 1) * sizeof(int64));
	details->tails = palloc0(Max(n, 1) * sizeof(PvBtreeTail));

	for (int i = 0; i < n; i++)
	{
		IndexBulkDeleteResult *istat = &leader->units[i].result.istat;

		details->indnames[i] =
			pstrdup(RelationGetRelationName(leader->indrels[i]));
		if (!leader->units[i].result.istat_valid)
			continue;
		details->indstats[i] = istat;
		details->indusecs[i] = leader->units[i].result.usecs;
		details->tails[i] = leader->units[i].result.tail;
		pv_history_note_index(leader->indrels[i], istat, details->indusecs[i]);
		if (vac->do_index_cleanup && !pv_failsafe_triggered(&vac->leader) &&
			!istat->estimated_count)
			pv_update_relstats(leader->indrels[i], istat->num_pages,
							   istat->num_index_tuples, 0, 0, false,
							   InvalidTransactionId, InvalidMultiXactId,
							   NULL, NULL);
	}
	vac_close_indexes(n, leader->indrels, NoLock);
}

/*
 * Truncate empty pages at the end of the table, if that is wanted and
 * worthwhile.
 */
void
pv_finish_truncation(PvVacuum *vac)
{
	PvTruncation trunc;
	instr_time	start;

	trunc.rel = vac->rel;
	trunc.bstrategy = pv_ring_next(&vac->leader.ring);
	trunc.errinfo = &vac->leader.errinfo;
	trunc.elevel = vac->verbose ? INFO : DEBUG2;
	trunc.rel_pages = vac->plan.rel_pages;
	trunc.nonempty_pages = vac->sum.nonempty_pages;

	/*
	 * With the failsafe on there may be no transaction ID left for a
	 * truncation
	 */
	if (!pv_failsafe_triggered(&vac->leader) &&
		pv_truncation_worthwhile(&trunc, vac->params->truncate))
	{
		INSTR_TIME_SET_CURRENT(start);
		pv_progress_alone(vac, PV_PHASE_TRUNCATE);
		pv_truncate_heap(&trunc);
		vac->result->usecs[PV_PHASE_TRUNCATE] = pv_usecs_since(start);
	}
	vac->details.pages_remaining = trunc.rel_pages;
	vac->result->pages_removed = vac->plan.rel_pages - trunc.rel_pages;
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
	PvReportDetails *details = &vac->details;
	BlockNumber rel_pages = details->pages_remaining;
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

	/* What was seen cannot be older than the values in pg_class */
	Assert(!TransactionIdIsValid(new_relfrozenxid) ||
		   new_relfrozenxid == vac->plan.cutoffs.OldestXmin ||
		   TransactionIdPrecedesOrEquals(vac->plan.aggressive ?
										 vac->plan.cutoffs.FreezeLimit :
										 vac->plan.cutoffs.relfrozenxid,
										 new_relfrozenxid));
	Assert(!MultiXactIdIsValid(new_relminmxid) ||
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
	allvisible = Min(allvisible, rel_pages);
	allfrozen = Min(allfrozen, allvisible);

	pv_update_relstats(vac->rel, rel_pages, vac->new_live_tuples, allvisible,
					   allfrozen, details->nindexes > 0, new_relfrozenxid,
					   new_relminmxid, &frozenxid_updated, &minmulti_updated);
	pv_report_vacuum(vac->rel, Max(vac->new_live_tuples, 0),
					 vac->sum.recently_dead_tuples +
					 vac->sum.missed_dead_tuples,
					 vac->starttime);

	details->old_relfrozenxid = vac->plan.cutoffs.relfrozenxid;
	details->old_relminmxid = vac->plan.cutoffs.relminmxid;
	details->new_relfrozenxid = frozenxid_updated ? new_relfrozenxid :
		InvalidTransactionId;
	details->new_relminmxid = minmulti_updated ? new_relminmxid :
		InvalidMultiXactId;
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
	result->pages_scanned = vac->sum.scanned_pages;
	result->tuples_removed = vac->sum.tuples_deleted;
	result->tuples_recently_dead = vac->sum.recently_dead_tuples;
	result->tuples_missed = vac->sum.missed_dead_tuples;
	result->dead_items = vac->sum.lpdead_items;
	result->oldest_xmin = vac->plan.cutoffs.OldestXmin;

	if (result->tuples_recently_dead > 0 && !vac->blocker_noted &&
		vac->blocker.kind != PV_BLOCKER_NONE)
	{
		pv_history_note_blocker(&vac->blocker, vac->starttime);
		vac->blocker_noted = true;
	}
}

/*
 * Fill in the result of the whole vacuum.
 */
void
pv_finish_result(PvVacuum *vac)
{
	PvResult   *result = vac->result;
	BufferUsage buffers = {0};
	WalUsage	wal = {0};

	pv_finish_phase(vac);
	pv_usage_since(&vac->usage, result);
	result->tuples_remaining = (int64) Max(vac->new_live_tuples, 0);
	result->remaining_estimated = vac->sum.scanned_pages < vac->plan.rel_pages;
	result->index_scan_bypassed = vac->plan.nindexes > 0 &&
		vac->sum.lpdead_items > 0 &&
		(!vac->do_index_vacuuming || pv_failsafe_triggered(&vac->leader));

	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &vac->usage.buffers);
	WalUsageAccumDiff(&wal, &pgWalUsage, &vac->usage.wal);
	vac->details.io_read_ms =
		INSTR_TIME_GET_MILLISEC(pv_block_read_time(&buffers));
	vac->details.io_write_ms =
		INSTR_TIME_GET_MILLISEC(pv_block_write_time(&buffers));
	vac->details.wal_buffers_full = pv_wal_buffers_full(&wal);
	vac->details.wal_fpi_bytes = pv_wal_fpi_bytes(&wal);
}

/*
 * Report the vacuum if the user asked for that, or to the server log if
 * autovacuum's settings do.
 */
void
pv_finish_report(PvVacuum *vac)
{
	PvReportDetails *details = &vac->details;
	int			min_duration = pv_log_min_duration(vac->params);

	if (!vac->instrument ||
		!(vac->verbose || min_duration == 0 ||
		  vac->result->elapsed_usecs / 1000 >= min_duration))
		return;

	details->aggressive = vac->plan.aggressive;
	details->is_wraparound = vac->params->is_wraparound;
	details->verbose = vac->verbose;
	details->failsafe = pv_failsafe_triggered(&vac->leader);
	details->bypassed = !vac->do_index_vacuuming;
	details->eager_pages = vac->sum.eager_pages;
	details->frozen_pages = vac->sum.frozen_pages;
	details->tuples_frozen = vac->sum.tuples_frozen;
	details->new_visible_pages = vac->sum.new_visible_pages;
	details->new_visible_frozen_pages = vac->sum.new_visible_frozen_pages;
	details->new_frozen_pages = vac->sum.new_frozen_pages;
	details->lpdead_item_pages = vac->sum.lpdead_item_pages;
	details->missed_dead_pages = vac->sum.missed_dead_pages;
	details->store_segments = vac->store_segments;
	details->store_resets = vac->store_resets;
	details->store_bytes = vac->store_bytes;
	details->store_limit = vac->store_limit;
	details->usage = &vac->usage;
	details->blocker = &vac->blocker;
	details->blocker_found_at = vac->starttime;
	pv_report_end(&vac->leader.errinfo, vac->result, details);
}
