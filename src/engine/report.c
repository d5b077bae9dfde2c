/*-------------------------------------------------------------------------
 *
 * report.c
 *	  What a vacuum reports: error context, text of VERBOSE and the log.
 *
 * The error callback runs in leader and workers, so that an error in any
 * process names the block, phase and index.  The leader writes the texts.  The
 * lines of core's VACUUM on this version come first, in core's order, so that
 * programs that read logs continue to work.  Our own lines follow.
 *
 * No locks; everything read here is private to this process.
 *
 * Core: access/heap/vacuumlazy.c, heap_vacuum_rel and vacuum_error_callback.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "engine/report.h"

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
 * VACUUM (VERBOSE): report the begin of the vacuum.
 */
void
pv_report_begin(const PvErrorInfo *info, bool aggressive)
{
	if (aggressive)
		ereport(INFO,
				(errmsg("aggressively vacuuming \"%s.%s.%s\"",
						info->dbname, info->relnamespace, info->relname)));
	else
		ereport(INFO,
				(errmsg("vacuuming \"%s.%s.%s\"",
						info->dbname, info->relnamespace, info->relname)));
}

static double
percent_of(BlockNumber part, BlockNumber whole)
{
	return whole == 0 ? 100.0 : 100.0 * part / whole;
}

/*
 * The first line: which kind of vacuum this was.
 */
static void
append_headline(StringInfo buf, const PvErrorInfo *info,
				const PvResult *result, const PvReportDetails *details)
{
	const char *what;

	if (details->verbose)
		what = "finished vacuuming";
	else if (details->is_wraparound)
		what = details->aggressive ?
			"automatic aggressive vacuum to prevent wraparound of table" :
			"automatic vacuum to prevent wraparound of table";
	else
		what = details->aggressive ?
			"automatic aggressive vacuum of table" : "automatic vacuum of table";

	appendStringInfo(buf, "%s \"%s.%s.%s\": index scans: %d\n", what,
					 info->dbname, info->relnamespace, info->relname,
					 result->index_scans);
}

static void
append_frozen(StringInfo buf, const PvResult *result,
			  const PvReportDetails *details)
{
	appendStringInfo(buf, "frozen: %u pages from table (%.2f%% of total) had %lld tuples frozen\n",
					 details->frozen_pages,
					 percent_of(details->frozen_pages, result->pages_total),
					 (long long) details->tuples_frozen);
}

static void
append_map(StringInfo buf, const PvReportDetails *details)
{
	appendStringInfo(buf, "visibility map: %u pages set all-visible, %u pages set all-frozen (%u were all-visible)\n",
					 details->new_visible_pages,
					 details->new_visible_frozen_pages +
					 details->new_frozen_pages,
					 details->new_frozen_pages);
}

/*
 * Lines about the table's pages and tuples.
 */
static void
append_heap(StringInfo buf, const PvResult *result,
			const PvReportDetails *details)
{
	appendStringInfo(buf, "pages: %u removed, %u remain, %u scanned (%.2f%% of total)",
					 result->pages_removed, details->pages_remaining,
					 result->pages_scanned,
					 percent_of(result->pages_scanned, result->pages_total));
	if (PV_SCANS_EAGERLY)
		appendStringInfo(buf, ", %u eagerly scanned", details->eager_pages);
	appendStringInfoChar(buf, '\n');

	/* what core reports as remaining includes dead tuples */
	appendStringInfo(buf, "tuples: %lld removed, %lld remain, %lld are dead but not yet removable\n",
					 (long long) result->tuples_removed,
					 (long long) (result->tuples_remaining +
								  result->tuples_recently_dead +
								  result->tuples_missed),
					 (long long) result->tuples_recently_dead);
	if (result->tuples_missed > 0)
		appendStringInfo(buf, "tuples missed: %lld dead from %u pages not removed due to cleanup lock contention\n",
						 (long long) result->tuples_missed,
						 details->missed_dead_pages);
	appendStringInfo(buf, "removable cutoff: %u, which was %d XIDs old when operation ended\n",
					 result->oldest_xmin,
					 (int32) (ReadNextTransactionId() - result->oldest_xmin));
	if (TransactionIdIsValid(details->new_relfrozenxid))
		appendStringInfo(buf, "new relfrozenxid: %u, which is %d XIDs ahead of previous value\n",
						 details->new_relfrozenxid,
						 (int32) (details->new_relfrozenxid -
								  details->old_relfrozenxid));
	if (MultiXactIdIsValid(details->new_relminmxid))
		appendStringInfo(buf, "new relminmxid: %u, which is %d MXIDs ahead of previous value\n",
						 details->new_relminmxid,
						 (int32) (details->new_relminmxid -
								  details->old_relminmxid));
	if (PV_REPORTS_FROZEN)
		append_frozen(buf, result, details);
	if (PV_REPORTS_MAP)
		append_map(buf, details);
}

/*
 * Lines about dead items and the indexes that they were removed from.
 */
static void
append_indexes(StringInfo buf, const PvResult *result,
			   const PvReportDetails *details)
{
	const char *what;
	const char *verb;
	BlockNumber pages = details->lpdead_item_pages;
	int64		items = result->dead_items;

	/* If pruning leaves no dead line pointers, there is nothing to count */
	if (details->nindexes == 0 && PV_PRUNES_TO_UNUSED)
		pages = items = 0;

	if (details->failsafe)
		what = "index scan bypassed by failsafe";
	else if (details->bypassed)
		what = "index scan bypassed";
	else if (result->index_scans == 0)
		what = "index scan not needed";
	else
		what = "index scan needed";
	verb = details->failsafe || details->bypassed ?
		"have %lld dead item identifiers\n" :
		"had %lld dead item identifiers removed\n";

	appendStringInfo(buf, "%s: %u pages from table (%.2f%% of total) ", what,
					 pages, percent_of(pages, result->pages_total));
	appendStringInfo(buf, verb, (long long) items);

	for (int i = 0; i < details->nindexes; i++)
	{
		IndexBulkDeleteResult *istat = details->indstats[i];

		if (istat == NULL)
			continue;
		appendStringInfo(buf, "index \"%s\": pages: %u in total, %u newly deleted, %u currently deleted, %u reusable\n",
						 details->indnames[i], istat->num_pages,
						 istat->pages_newly_deleted, istat->pages_deleted,
						 istat->pages_free);
	}
}

/*
 * Lines about resource usage, for all participants together.
 */
static void
append_usage(StringInfo buf, const PvResult *result,
			 const PvReportDetails *details)
{
	double		seconds = result->elapsed_usecs / 1000000.0;
	double		mb_per_page = (double) BLCKSZ / (1024 * 1024);
	double		read_rate = 0;
	double		write_rate = 0;

	if (seconds > 0)
	{
		read_rate = result->buffers_read * mb_per_page / seconds;
		write_rate = result->buffers_dirtied * mb_per_page / seconds;
	}

	if (pv_tracks_delays())
		appendStringInfo(buf, "delay time: %.3f ms\n", pv_delay_ms());
	if (track_io_timing)
		appendStringInfo(buf, "I/O timings: read: %.3f ms, write: %.3f ms\n",
						 details->io_read_ms, details->io_write_ms);
	appendStringInfo(buf, "avg read rate: %.3f MB/s, avg write rate: %.3f MB/s\n",
					 read_rate, write_rate);
	appendStringInfo(buf, "buffer usage: %lld hits, %lld %s, %lld dirtied\n",
					 (long long) result->buffers_hit,
					 (long long) result->buffers_read, PV_READS_ARE_CALLED,
					 (long long) result->buffers_dirtied);
	appendStringInfo(buf, "WAL usage: %lld records, %lld full page images, %llu bytes",
					 (long long) result->wal_records,
					 (long long) result->wal_fpi,
					 (unsigned long long) result->wal_bytes);
	if (details->wal_fpi_bytes >= 0)
		appendStringInfo(buf, ", %lld full page image bytes",
						 (long long) details->wal_fpi_bytes);
	if (details->wal_buffers_full >= 0)
		appendStringInfo(buf, ", %lld buffers full",
						 (long long) details->wal_buffers_full);
	appendStringInfoChar(buf, '\n');
	if (PV_REPORTS_STORE)
		appendStringInfo(buf, "memory usage: dead item storage %.2f MB accumulated across %d %s (limit %.2f MB each)\n",
						 details->store_bytes / (1024.0 * 1024),
						 details->store_resets,
						 details->store_resets == 1 ? "reset" : "resets",
						 details->store_limit / (1024.0 * 1024));
	appendStringInfo(buf, "system usage: %s\n", pg_rusage_show(&details->usage->rusage));
}

/*
 * A line about one index, over all index scans and the cleanup.  If several
 * processes shared the index, its time includes the part at the end that one
 * process does alone.
 */
static void
append_index(StringInfo buf, const PvReportDetails *details, int i)
{
	const IndexBulkDeleteResult *istat = details->indstats[i];
	const PvBtreeTail *tail = &details->tails[i];

	appendStringInfo(buf, "index \"%s\": %.0f entries removed, %u pages, took %.3f ms",
					 details->indnames[i], istat->tuples_removed,
					 istat->num_pages,
					 details->indusecs[i] / 1000.0);
	if (tail->finished)
		appendStringInfo(buf, ", vacuumed by several processes, the last %.3f ms by one of them, pages visited again after splits: %lld",
						 tail->alone_usecs / 1000.0,
						 (long long) tail->revisits);
	appendStringInfoChar(buf, '\n');
}

/*
 * A line about the oldest of those that kept dead rows from being removed.
 *
 * The log shows all about it, and VERBOSE what the user may see who gave the
 * command.  This process has the rights of the table's owner meanwhile.
 */
static void
append_blocker(StringInfo buf, const PvReportDetails *details)
{
	/* the list of backends as it is now, should it have been read before */
	pgstat_clear_backend_activity_snapshot();
	appendStringInfoString(buf, "removable cutoff held back by: ");
	pv_blocker_describe(buf, details->blocker,
						details->verbose ? GetOuterUserId() : InvalidOid,
						details->blocker_found_at);
	appendStringInfoChar(buf, '\n');
}

/*
 * The lines that core's VACUUM does not have, or not on this version.
 */
static void
append_engine(StringInfo buf, const PvResult *result,
			  const PvReportDetails *details)
{
	if (result->tuples_recently_dead > 0 &&
		details->blocker->kind != PV_BLOCKER_NONE)
		append_blocker(buf, details);
	if (!PV_REPORTS_FROZEN)
		append_frozen(buf, result, details);
	if (!PV_REPORTS_MAP)
		append_map(buf, details);
	for (int i = 0; i < details->nindexes; i++)
	{
		if (details->indstats[i] != NULL)
			append_index(buf, details, i);
	}
	appendStringInfo(buf, "engine: parvacuum, %d parallel workers launched (planned: %d)\n",
					 result->workers_launched, result->workers_planned);
	appendStringInfo(buf, "phases: heap scan %.3f ms, index vacuum %.3f ms, second heap pass %.3f ms, index cleanup %.3f ms, truncation %.3f ms, exit of workers %.3f ms\n",
					 result->usecs[PV_PHASE_SCAN] / 1000.0,
					 result->usecs[PV_PHASE_INDEX] / 1000.0,
					 result->usecs[PV_PHASE_VACUUM_HEAP] / 1000.0,
					 result->usecs[PV_PHASE_CLEANUP] / 1000.0,
					 result->usecs[PV_PHASE_TRUNCATE] / 1000.0,
					 result->usecs[PV_PHASE_DONE] / 1000.0);
	appendStringInfo(buf, "dead item store: %lld bytes at most, %lld segments, index scans: %d",
					 (long long) result->dead_tuple_bytes,
					 (long long) details->store_segments,
					 result->index_scans);
}

/*
 * Report a finished vacuum: as INFO for VERBOSE, as LOG for autovacuum.
 */
void
pv_report_end(const PvErrorInfo *info, const PvResult *result,
			  const PvReportDetails *details)
{
	StringInfoData buf;

	initStringInfo(&buf);
	append_headline(&buf, info, result, details);
	append_heap(&buf, result, details);
	append_indexes(&buf, result, details);
	append_usage(&buf, result, details);
	append_engine(&buf, result, details);

	ereport(details->verbose ? INFO : LOG,
			(errmsg_internal("%s", buf.data)));
	pfree(buf.data);
}
