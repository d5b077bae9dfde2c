/*-------------------------------------------------------------------------
 *
 * sweep_table.c
 *	  The scheduler's sweep of the B-trees of one table.
 *
 * A sweep deletes dead entries before inserts need the space (engine/sweep.c).
 * sched/policy.c says when one is due.  Here the B-trees are swept one after
 * the other, by this process alone.
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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/compat.h"
#include "engine/nbtree.h"
#include "entry/dispatch.h"
#include "entry/failures.h"
#include "sched/table.h"
#include "stats/history.h"

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
	StringInfo	text;			/* for the log: a line for each B-tree */
} TableSweep;

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
 * Called between two pages: give way to a vacuum.  A sweep may take long, and
 * meanwhile no scheduler worker vacuums the table, not even to prevent
 * wraparound.
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
	if (!score.vacuum)
		return;
	pv_failures_end(PV_ATTEMPT_LEFT);	/* this is no failure of the table */
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling sweep of table \"%s\" because it needs a vacuum",
					sweep->work->full_name)));
}

/* Sweep a B-tree, and note what that has done. */
static void
sweep_index(TableSweep *sweep, Relation indrel)
{
	PvSweepPoll poll = {give_way_to_vacuum, sweep};
	PvSweepResult result;
	IndexBulkDeleteResult istat = {0};
	int64		begin = pv_usecs_of_machine();

	pv_sweep_index(sweep->rel, indrel, sweep->buffer_usage_limit, &poll,
				   &result);
	istat.num_pages = (BlockNumber) result.pages_total;
	istat.tuples_removed = result.tuples_deleted;
	pv_history_note_index(indrel, &istat, pv_usecs_since(begin));
	appendStringInfo(sweep->text,
					 "index \"%s\": pages: " INT64_FORMAT " changed, " INT64_FORMAT " visited, " INT64_FORMAT " in total; entries: " INT64_FORMAT " removed\n",
					 RelationGetRelationName(indrel), result.pages_changed,
					 result.pages_visited, result.pages_total,
					 result.tuples_deleted);
}

/*
 * Sweep the B-trees of the table, which is locked and open, but for those that
 * are being built, or that another session has locked: it could keep this
 * process waiting.  The lock on the table keeps its list of indexes as it is.
 * Append a line for each to the text.
 *
 * The versions to be remembered are those counted before the sweep, since it
 * may miss what dies meanwhile.
 */
void
pv_sweep_table(Relation rel, const PvTableWork *work, StringInfo text)
{
	TableSweep	sweep = {
		.rel = rel,
		.work = work,
		.buffer_usage_limit = pv_automatic_buffer_limit(&work->effective),
		.looked_at = GetCurrentTimestamp(),
		.text = text
	};
	PvTableState state;
	PvSweepMark mark = {0};
	TimestampTz done_at;
	ListCell   *lc;

	pv_need_state(rel->rd_rel, &state, &done_at);
	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	indrel = pv_open_unlocked(lfirst_oid(lc),
											  RowExclusiveLock);

		if (indrel == NULL)
			continue;
		if (indrel->rd_rel->relam == BTREE_AM_OID &&
			indrel->rd_index->indisready && indrel->rd_index->indislive)
		{
			compare_size(&sweep, indrel);
			sweep_index(&sweep, indrel);
		}
		index_close(indrel, NoLock);
	}
	mark.versions = state.versions;
	mark.splits = pv_has_grown(sweep.pages, sweep.pages_before);
	pv_history_note_mark(&mark);
}
