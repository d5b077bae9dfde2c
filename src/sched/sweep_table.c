/*-------------------------------------------------------------------------
 *
 * sweep_table.c
 *	  The scheduler's sweep of the B-trees of one table.
 *
 * A sweep deletes dead entries before inserts need the space (engine/sweep.c).
 * sched/policy.c says when one is due.  Here the B-trees are swept one after
 * the other, by this process alone, and the sweep is recorded and logged as a
 * vacuum is.
 *
 * A scheduler worker runs this as the owner of the table, in the transaction
 * that has locked the table with ShareUpdateExclusiveLock.  So no vacuum is in
 * progress in the table, and whoever waits for the lock cancels the sweep.
 * When the table comes to need a vacuum, the sweep ends itself with an error,
 * and the next database scan queues the vacuum.  The process has
 * PROC_IN_VACUUM set: its snapshot, which it needs in order to have horizons,
 * does not hold back those of others or its own.  A sweep compares no keys and
 * evaluates no expressions, so nothing here calls code of the owner.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am.h"
#include "lib/stringinfo.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "engine/sweep.h"
#include "entry/dispatch.h"
#include "entry/relation.h"
#include "sched/candidates.h"
#include "sched/table.h"
#include "stats/history.h"
#include "stats/usage.h"

/* Milliseconds after which to look again whether the table needs a vacuum */
#define LOOK_AFTER_MS			1000

/* A sweep in progress */
typedef struct TableSweep
{
	Relation	rel;
	const PvTableWork *work;
	int			buffer_usage_limit; /* kilobytes */
	TimestampTz looked_at;		/* whether the table needs a vacuum */
	double		pages;			/* of the B-trees whose former size is known */
	double		pages_before;	/* at their last vacuum or sweep */
	StringInfoData text;		/* for the log: a line for each B-tree */
} TableSweep;

/* Is it a B-tree that can be swept?  An index that is being built is not. */
static bool
is_sweepable(Relation indrel)
{
	return indrel->rd_rel->relam == BTREE_AM_OID &&
		indrel->rd_index->indisready && indrel->rd_index->indislive;
}

/* Add the size of an index, if that can be compared with an earlier one. */
static void
compare_size(TableSweep *sweep, Relation indrel)
{
	BlockNumber before = pv_records_index_pages(pv_history_lock(),
												MyDatabaseId,
												RelationGetRelid(indrel));

	pv_history_unlock();
	if (before == 0)
		return;
	sweep->pages += RelationGetNumberOfBlocks(indrel);
	sweep->pages_before += before;
}

/*
 * Called between two pages: gives way to a vacuum.  A sweep may take long at a
 * low rate, and while the table is locked and its entry in the queue is taken,
 * no scheduler worker vacuums it, not even to prevent wraparound.
 */
static void
give_way_to_vacuum(void *arg)
{
	TableSweep *sweep = arg;
	TimestampTz now = GetCurrentTimestamp();
	PvScore		score;

	if (!TimestampDifferenceExceeds(sweep->looked_at, now, LOOK_AFTER_MS))
		return;
	sweep->looked_at = now;
	pv_need_score_of(sweep->rel, &sweep->work->own, false, &score);
	if (score.vacuum)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling sweep of table \"%s\" because it needs a vacuum",
						sweep->work->full_name)));
}

static void
sweep_index(TableSweep *sweep, Relation indrel)
{
	PvSweepPoll poll = {give_way_to_vacuum, sweep};
	PvSweepResult result;
	IndexBulkDeleteResult istat = {0};
	int64		begin;

	compare_size(sweep, indrel);
	begin = pv_usecs_of_machine();
	pv_sweep_index(sweep->rel, indrel, sweep->buffer_usage_limit, &poll,
				   &result);
	istat.num_pages = (BlockNumber) result.pages_total;
	istat.tuples_removed = result.tuples_deleted;
	pv_history_note_index(indrel, &istat, pv_usecs_since(begin));
	appendStringInfo(&sweep->text,
					 "index \"%s\": pages: " INT64_FORMAT " changed, " INT64_FORMAT " visited, " INT64_FORMAT " in total; entries: " INT64_FORMAT " removed\n",
					 RelationGetRelationName(indrel), result.pages_changed,
					 result.pages_visited, result.pages_total,
					 result.tuples_deleted);
}

/*
 * Sweep all B-trees but those that another session has locked, such as ALTER
 * INDEX SET TABLESPACE.  Its owner could keep this process waiting, and what
 * is not swept does no harm.  The lock on the table keeps the list as it is.
 */
static void
sweep_indexes(TableSweep *sweep)
{
	List	   *indexes = RelationGetIndexList(sweep->rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Oid			index = lfirst_oid(lc);
		Relation	indrel = pv_open_unlocked(index, RowExclusiveLock);

		if (indrel == NULL)
			continue;
		if (is_sweepable(indrel))
			sweep_index(sweep, indrel);
		index_close(indrel, NoLock);
	}
	list_free(indexes);
}

/*
 * Note what is to be remembered: the versions that were counted before the
 * sweep, since it may have missed those that have died meanwhile.
 */
static void
note_mark(const TableSweep *sweep, double versions)
{
	PvSweepMark mark = {
		.versions = versions,
		.splits = pv_has_grown(sweep->pages, sweep->pages_before)
	};

	pv_history_note_mark(&mark);
}

/*
 * Sweep the B-trees of the table, which is locked and open, and add the
 * sweep to the history, also if it fails.
 */
void
pv_sweep_table(Relation rel, const PvTableWork *work)
{
	TableSweep	sweep = {
		.rel = rel,
		.work = work,
		.looked_at = GetCurrentTimestamp(),
		.buffer_usage_limit = pv_automatic_buffer_limit(&work->effective)
	};
	PvResult	used = {.relid = RelationGetRelid(rel),.by_engine = true};
	PvUsageStart usage;
	PvTableState state;
	TimestampTz done_at;
	int			min_duration = pv_own_log_min_duration(&work->own, false);

	initStringInfo(&sweep.text);
	pv_need_state(rel->rd_rel, &state, &done_at);

	pv_usage_start(&usage, min_duration >= 0);
	pv_history_begin(rel, PV_WORK_SWEEP, PV_STARTED_BY_SCHEDULER, false,
					 &used);
	PG_TRY();
	{
		sweep_indexes(&sweep);
		note_mark(&sweep, state.versions);
		pv_usage_since(&usage, &used);
		pv_history_done();
	}
	PG_CATCH();
	{
		pv_history_failed();
		PG_RE_THROW();
	}
	PG_END_TRY();

	if (min_duration >= 0 && used.elapsed_usecs / 1000 >= min_duration)
		ereport(LOG,
				(errmsg_internal("automatic sweep of table \"%s\"\n%s%s",
								 work->full_name, sweep.text.data,
								 pv_usage_text(&usage))));
}
