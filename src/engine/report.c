/*-------------------------------------------------------------------------
 *
 * report.c
 *	  What a vacuum reports: the text of VERBOSE and the log.
 *
 * Only the leader runs this, with no page locked, and needs no locks.  In the
 * report at the end, the lines of core's VACUUM on this version come first, in
 * core's order, so that programs that read logs continue to work.  Our own
 * lines follow.
 *
 * VERBOSE also writes lines about the progress from time to time.  A client
 * that does not read its messages delays the leader.
 *
 * Core: access/heap/vacuumlazy.c, heap_vacuum_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/multixact.h"
#include "access/transam.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "base/compat.h"
#include "base/settings.h"
#include "engine/vacuum.h"

/*
 * Append a time for people: the unit is such that two or more digits make
 * sense.
 */
static void
append_time(StringInfo buf, double usecs)
{
	double		secs = usecs / 1e6;

	if (secs < 180)
		appendStringInfo(buf, "%.0f s", secs);
	else if (secs < 180 * 60)
		appendStringInfo(buf, "%.0f min", secs / 60);
	else
		appendStringInfo(buf, "%.1f h", secs / 3600);
}

static void
append_phase(StringInfo buf, const PvVacuumProgress *progress)
{
	const PvTrackedVacuum *tracked = &progress->tracked;
	const PvEtaInput *input = &tracked->eta;
	const char *name = "scanning heap";
	double		done = input->passed;
	double		total = input->blocks;

	if (input->phase == PV_PHASE_VACUUM_HEAP)
	{
		name = "vacuuming heap";
		done = input->vacuumed - progress->vacuumed_before;
		total = input->dead_pages - progress->vacuumed_before;
	}
	else if (tracked->nindexes > 0)
	{
		name = input->phase == PV_PHASE_INDEX ?
			"vacuuming indexes" : "cleaning up indexes";
		done = input->index_done;
		total = input->index_total;
	}
	appendStringInfo(buf, "%s, %.0f %% (%.0f of %.0f blocks", name,
					 total > 0 ? floor(100 * Min(done / total, 1)) : 100,
					 floor(Min(done, total)), total);
	if (tracked->nindexes > 0)
		appendStringInfo(buf, ", %d of %d indexes", tracked->indexes_done,
						 tracked->nindexes);
	appendStringInfoChar(buf, ')');
}

static void
append_expected(StringInfo buf, const PvTrackedVacuum *tracked,
				const PvEta *eta)
{
	/* The second heap pass belongs to an index scan that has been counted */
	int			present = tracked->eta.index_scans +
		(tracked->eta.phase != PV_PHASE_VACUUM_HEAP);

	if (eta->index_scans > 1 && tracked->eta.phase != PV_PHASE_CLEANUP)
		appendStringInfo(buf, ", index scan %d of about %d",
						 Min(present, eta->index_scans), eta->index_scans);
	if (eta->phase_usecs < 0)
		return;
	appendStringInfoString(buf, ", about ");
	append_time(buf, eta->phase_usecs);
	appendStringInfoString(buf, " of this phase");
	if (eta->usecs >= 0)
	{
		appendStringInfoString(buf, " and ");
		append_time(buf, eta->usecs);
		appendStringInfoString(buf, " in all");
	}
	appendStringInfoString(buf, " remain");
}

/*
 * Write a line about the progress, if VERBOSE was given and it is time for
 * one.  The context would say the same again, so there is none.
 */
void
pv_report_progress(PvVacuum *vac)
{
	const PvTrackedVacuum *tracked = &vac->progress.tracked;
	PvErrorInfo *info = &vac->leader.errinfo;
	PvPhase		phase = info->phase;
	StringInfoData buf;
	PvEta		eta;

	if (!vac->verbose || pv_guc_progress_interval == 0 ||
		pv_usecs_since(vac->progress.last_line) <
		pv_guc_progress_interval * INT64CONST(1000000))
		return;
	vac->progress.last_line = pv_usecs_of_machine();

	pv_eta(&tracked->eta, &tracked->past, &eta);
	initStringInfo(&buf);
	append_phase(&buf, &vac->progress);
	append_expected(&buf, tracked, &eta);

	info->phase = PV_PHASE_IDLE;
	ereport(INFO,
			(errmsg("vacuuming \"%s.%s.%s\": %s", info->dbname,
					info->relnamespace, info->relname, buf.data)));
	info->phase = phase;
	pfree(buf.data);
}

static double
percent_of(int64 part, int64 whole)
{
	return whole == 0 ? 100.0 : 100.0 * part / whole;
}

/* Append the first line: which kind of vacuum this was. */
static void
append_headline(StringInfo buf, const PvVacuum *vac)
{
	const PvErrorInfo *info = &vac->leader.errinfo;

	if (vac->verbose)
		appendStringInfoString(buf, "finished vacuuming");
	else
		appendStringInfo(buf, "automatic %svacuum %sof table",
						 vac->plan.aggressive ? "aggressive " : "",
						 vac->params->is_wraparound ?
						 "to prevent wraparound " : "");
	appendStringInfo(buf, " \"%s.%s.%s\": index scans: %lld\n",
					 info->dbname, info->relnamespace, info->relname,
					 (long long) vac->result->index_scans);
}

static void
append_frozen(StringInfo buf, const PvResult *result)
{
	appendStringInfo(buf, "frozen: %lld pages from table (%.2f%% of total) had %lld tuples frozen\n",
					 (long long) result->frozen_pages,
					 percent_of(result->frozen_pages, result->pages_total),
					 (long long) result->tuples_frozen);
}

static void
append_map(StringInfo buf, const PvResult *result)
{
	appendStringInfo(buf, "visibility map: %lld pages set all-visible, %lld pages set all-frozen (%lld were all-visible)\n",
					 (long long) result->new_visible_pages,
					 (long long) (result->new_visible_frozen_pages +
								  result->new_frozen_pages),
					 (long long) result->new_frozen_pages);
}

/* Append lines about the table's pages and tuples. */
static void
append_heap(StringInfo buf, const PvVacuum *vac)
{
	const PvResult *result = vac->result;
	const PvCutoffs *cutoffs = &vac->plan.cutoffs;

	appendStringInfo(buf, "pages: %lld removed, %lld remain, %lld scanned (%.2f%% of total)",
					 (long long) result->pages_removed,
					 (long long) (result->pages_total - result->pages_removed),
					 (long long) result->pages_scanned,
					 percent_of(result->pages_scanned, result->pages_total));
	if (PV_SCANS_EAGERLY)
		appendStringInfo(buf, ", %lld eagerly scanned",
						 (long long) result->eager_pages);
	appendStringInfoChar(buf, '\n');

	/* what core reports as remaining includes dead tuples */
	appendStringInfo(buf, "tuples: %lld removed, %lld remain, %lld are dead but not yet removable\n",
					 (long long) result->tuples_removed,
					 (long long) (result->tuples_remaining +
								  result->tuples_recently_dead +
								  result->tuples_missed),
					 (long long) result->tuples_recently_dead);
	if (result->tuples_missed > 0)
		appendStringInfo(buf, "tuples missed: %lld dead from %lld pages not removed due to cleanup lock contention\n",
						 (long long) result->tuples_missed,
						 (long long) result->missed_dead_pages);
	appendStringInfo(buf, "removable cutoff: %u, which was %d XIDs old when operation ended\n",
					 cutoffs->OldestXmin,
					 (int32) (ReadNextTransactionId() - cutoffs->OldestXmin));
	if (TransactionIdIsValid(vac->new_relfrozenxid))
		appendStringInfo(buf, "new relfrozenxid: %u, which is %d XIDs ahead of previous value\n",
						 vac->new_relfrozenxid,
						 (int32) (vac->new_relfrozenxid -
								  cutoffs->relfrozenxid));
	if (MultiXactIdIsValid(vac->new_relminmxid))
		appendStringInfo(buf, "new relminmxid: %u, which is %d MXIDs ahead of previous value\n",
						 vac->new_relminmxid,
						 (int32) (vac->new_relminmxid -
								  cutoffs->relminmxid));
	if (PV_REPORTS_FROZEN)
		append_frozen(buf, result);
	if (PV_REPORTS_MAP)
		append_map(buf, result);
}

/*
 * Append lines about dead items and the indexes that they were removed from.
 */
static void
append_indexes(StringInfo buf, const PvVacuum *vac)
{
	const PvParticipant *leader = &vac->leader;
	const PvResult *result = vac->result;
	bool		failsafe = pv_failsafe_triggered(leader);
	bool		bypassed = failsafe || !vac->do_index_vacuuming;
	const char *what = failsafe ? "bypassed by failsafe" :
		bypassed ? "bypassed" :
		result->index_scans == 0 ? "not needed" : "needed";
	int64		pages = result->lpdead_item_pages;
	int64		items = result->dead_items;

	/* If pruning leaves no dead line pointers, there is nothing to count */
	if (leader->nindexes == 0 && PV_PRUNES_TO_UNUSED)
		pages = items = 0;

	appendStringInfo(buf, "index scan %s: %lld pages from table (%.2f%% of total) %s %lld dead item identifiers%s\n",
					 what, (long long) pages,
					 percent_of(pages, result->pages_total),
					 bypassed ? "have" : "had", (long long) items,
					 bypassed ? "" : " removed");
	for (int i = 0; i < leader->nindexes; i++)
	{
		const PvIndexResult *index = &leader->units[i].result;

		if (index->istat_valid)
			appendStringInfo(buf, "index \"%s\": pages: %u in total, %u newly deleted, %u currently deleted, %u reusable\n",
							 vac->index_names[i], index->istat.num_pages,
							 index->istat.pages_newly_deleted,
							 index->istat.pages_deleted,
							 index->istat.pages_free);
	}
}

/* Append lines about resource usage, for all participants together. */
static void
append_usage(StringInfo buf, const PvVacuum *vac)
{
	const double mb = 1024.0 * 1024;
	Size		limit = vac->plan.store_limit + vac->plan.bitmap_bytes;
	const char *memory = "";

	if (pv_tracks_delays())
		appendStringInfo(buf, "delay time: %.3f ms\n",
						 pv_progress_delay_ms(MyBEEntry->st_progress_param));
	if (PV_REPORTS_STORE)
		memory = psprintf("memory usage: dead item storage %.2f MB accumulated across %d %s (limit %.2f MB each)\n",
						  vac->store_bytes / mb, vac->store_resets,
						  vac->store_resets == 1 ? "reset" : "resets",
						  limit / mb);
	pv_usage_append(buf, &vac->usage, vac->result, memory);
	appendStringInfoChar(buf, '\n');
}

/*
 * Append a line about one index, over all index scans and the cleanup, if there
 * were any.  If several processes shared the index, its time includes the part
 * at the end that one process does alone.
 */
static void
append_index(StringInfo buf, const char *name, const PvIndexResult *index)
{
	if (!index->istat_valid)
		return;
	appendStringInfo(buf, "index \"%s\": %.0f entries removed, %u pages, took %.3f ms",
					 name, index->istat.tuples_removed,
					 index->istat.num_pages, index->usecs / 1000.0);
	if (index->tail.finished)
		appendStringInfo(buf, ", vacuumed by several processes, the last %.3f ms by one of them, pages visited again after splits: %lld",
						 index->tail.alone_usecs / 1000.0,
						 (long long) index->tail.revisits);
	appendStringInfoChar(buf, '\n');
}

/*
 * Append a line about the oldest of those that kept dead rows from being
 * removed.  The log shows all about it, and VERBOSE what the user may see who
 * gave the command.  This process has the rights of the table's owner
 * meanwhile.
 */
static void
append_blocker(StringInfo buf, const PvVacuum *vac)
{
	PvBlockerDetails details;

	/* the list of backends as it is now, should it have been read before */
	pgstat_clear_backend_activity_snapshot();
	pv_blocker_look_up(&vac->blocker,
					   vac->verbose ? GetOuterUserId() : InvalidOid, &details);
	appendStringInfoString(buf, "removable cutoff held back by: ");
	pv_blocker_describe(buf, &vac->blocker, &details, vac->starttime);
	appendStringInfoChar(buf, '\n');
}

/*
 * Append the lines that core's VACUUM does not have, or not on this version.
 */
static void
append_engine(StringInfo buf, const PvVacuum *vac)
{
	const PvResult *result = vac->result;

	if (result->tuples_recently_dead > 0 &&
		vac->blocker.kind != PV_BLOCKER_NONE)
		append_blocker(buf, vac);
	if (!PV_REPORTS_FROZEN)
		append_frozen(buf, result);
	if (!PV_REPORTS_MAP)
		append_map(buf, result);
	for (int i = 0; i < vac->leader.nindexes; i++)
		append_index(buf, vac->index_names[i], &vac->leader.units[i].result);
	appendStringInfo(buf, "engine: parvacuum, %lld parallel workers launched (planned: %lld)\n",
					 (long long) result->workers_launched,
					 (long long) result->workers_planned);
	if (result->items_taken_over > 0)
		appendStringInfo(buf, "taken over from an interrupted vacuum: %lld dead item identifiers, %lld of %d indexes were done\n",
						 (long long) result->items_taken_over,
						 (long long) result->indexes_taken_over,
						 vac->leader.nindexes);
	if (result->paced_usecs > 0)
		appendStringInfo(buf, "pace: limited for %.3f ms so that clients and standbys are not harmed\n",
						 result->paced_usecs / 1000.0);
	if (result->ended_early != PV_END_NONE)
		appendStringInfo(buf, "ended early: %s\n",
						 result->ended_early == PV_END_YIELD ?
						 "another session waits for the table" :
						 "the time is over");
	appendStringInfo(buf, "phases: heap scan %.3f ms, index vacuum %.3f ms, second heap pass %.3f ms, index cleanup %.3f ms, truncation %.3f ms, exit of workers %.3f ms\n",
					 result->usecs[PV_PHASE_SCAN] / 1000.0,
					 result->usecs[PV_PHASE_INDEX] / 1000.0,
					 result->usecs[PV_PHASE_VACUUM_HEAP] / 1000.0,
					 result->usecs[PV_PHASE_CLEANUP] / 1000.0,
					 result->usecs[PV_PHASE_TRUNCATE] / 1000.0,
					 result->usecs[PV_PHASE_DONE] / 1000.0);
	appendStringInfo(buf, "dead item store: %lld bytes at most",
					 (long long) result->dead_tuple_bytes);
}

/*
 * Report a finished vacuum: as INFO if the user asked for that, or as LOG if
 * autovacuum's settings do.
 */
void
pv_report_end(const PvVacuum *vac)
{
	int			min_duration = pv_log_min_duration(vac->params);
	StringInfoData buf;

	if (!vac->instrument ||
		!(vac->verbose || min_duration == 0 ||
		  vac->result->elapsed_usecs / 1000 >= min_duration))
		return;

	initStringInfo(&buf);
	append_headline(&buf, vac);
	append_heap(&buf, vac);
	append_indexes(&buf, vac);
	append_usage(&buf, vac);
	append_engine(&buf, vac);

	ereport(vac->verbose ? INFO : LOG,
			(errmsg_internal("%s", buf.data)));
	pfree(buf.data);
}
