/*-------------------------------------------------------------------------
 *
 * progress_index.c
 *	  What is known of the work in indexes, for the progress of a vacuum.
 *
 * The leader runs this, as progress.c.  Nothing here may fail or wait in a
 * vacuum that prevents wraparound.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_statistic.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "engine/progress.h"

/* Duration of the first heap pass after which statistics are looked up */
#define CORRELATION_AFTER_USECS	1000000

/*
 * The share of an index that has been visited in this phase.  Where one process
 * vacuums an index, its pages are not counted.  The entries that it has been
 * asked about show how far it is.
 */
static double
share_visited(const PvParticipant *leader, int i)
{
	PvIndexUnit *unit = &leader->units[i];
	double		entries = leader->indrels[i]->rd_rel->reltuples;
	double		share = 0;

	if (unit->done)
		return 1;
	if (unit->kind == PV_UNIT_SHARED)
		share = (double) pg_atomic_read_u32(&unit->btree.pages_done) /
			Max(pg_atomic_read_u32(&unit->btree.pages.end), 1);
	else if (entries > 0)
		share = pg_atomic_read_u64(&unit->entries_seen) / entries;
	return Min(share, 1.0);
}

/*
 * The share of the entries to be removed from a B-tree in this index scan that
 * have been removed.  The index may be partial, so that it has fewer of them
 * than there are dead items.
 */
static double
share_removed(const PvVacuum *vac, int i)
{
	const PvParticipant *leader = &vac->leader;
	double		rows = leader->rel->rd_rel->reltuples;
	double		entries = leader->indrels[i]->rd_rel->reltuples;
	double		expected = vac->progress.tracked.store_items;

	if (rows > 0 && entries >= 0 && entries < rows)
		expected *= entries / rows;
	if (expected < 1)
		return 1;
	return Min(pg_atomic_read_u64(&leader->units[i].entries_removed) /
			   expected, 1.0);
}

/*
 * The share of an index that has been done in this phase.  What a page costs
 * depends on whether entries are removed from it.  In an index in the order of
 * the heap these pages may all be in one part of it, the first or the last.
 */
static double
share_done(const PvVacuum *vac, int i)
{
	const PvVacuumProgress *progress = &vac->progress;
	const PvIndexUnit *unit = &vac->leader.units[i];
	double		visited = share_visited(&vac->leader, i);
	double		unchanged;

	if (unit->done || unit->kind != PV_UNIT_SHARED ||
		progress->weights == NULL ||
		progress->tracked.eta.phase != PV_PHASE_INDEX)
		return visited;
	unchanged = Min(progress->unchanged_weight / progress->weights[i], 1.0);
	return unchanged * visited + (1 - unchanged) * share_removed(vac, i);
}

/*
 * The work in so many pages of indexes, of which one process must visit
 * "single" alone: what all participants could do in the same time, if there
 * were enough for them.
 *
 * Indexes that one process vacuums alone begin first (engine/index_order.c).
 * How fast one process is, as a part of all, is known only of those that
 * sleep.
 */
static double
work_in_pages(const PvVacuum *vac, double pages, double single)
{
	const PvParticipant *leader = &vac->leader;
	double		scale = leader->shared->cost.budget.scale;
	int			all = vac->pool.nworkers_launched + 1;
	int			busy = Min(all, leader->nindexes);
	double		rate = 1 + scale * (all - 1);

	for (int i = 0; i < leader->nindexes; i++)
	{
		if (leader->units[i].is_btree)
			busy = all;
	}
	if (leader->shared->cost.on_balance || busy == 0)
		return pages;
	pages *= rate / (1 + scale * (busy - 1));
	return vac->progress.tracked.eta.throttled ?
		Max(pages, rate * single) : pages;
}

/*
 * Pages to visit in the indexes in this phase, and pages visited; for the
 * forecast with the weights of the indexes, and without.
 */
void
pv_progress_index_pages(PvVacuum *vac)
{
	const PvParticipant *leader = &vac->leader;
	PvVacuumProgress *progress = &vac->progress;
	PvEtaInput *input = &progress->tracked.eta;
	double		total = 0,
				left = 0,
				single = 0,
				single_left = 0;

	progress->index_total = progress->index_done = 0;
	for (int i = 0; i < leader->nindexes; i++)
	{
		double		pages = leader->units[i].pages;
		double		pages_left;
		double		weight = progress->weights ? progress->weights[i] : 1;

		progress->index_total += pages;
		progress->index_done += pages * share_visited(leader, i);
		pages *= weight;
		pages_left = pages * (1 - share_done(vac, i));
		total += pages;
		left += pages_left;
		if (leader->units[i].kind != PV_UNIT_SHARED)
		{
			single = Max(single, pages);
			single_left = Max(single_left, pages_left);
		}
	}
	input->index_total = work_in_pages(vac, total, single);
	input->index_done = input->index_total -
		work_in_pages(vac, left, single_left);
	input->index_stretch = input->index_total / Max(total, 1);
}

/*
 * The number of entries of all indexes.  An index of which pg_class does not
 * know it has as many as there are rows.
 */
double
pv_progress_index_tuples(const PvParticipant *leader, const PvEtaInput *input)
{
	double		rows = leader->rel->rd_rel->reltuples;
	double		sum = 0;

	if (rows <= 0)
		rows = input->page_rows * input->blocks;
	for (int i = 0; i < leader->nindexes; i++)
	{
		double		tuples = leader->indrels[i]->rd_rel->reltuples;

		sum += tuples > 0 ? tuples : Max(rows, 0);
	}
	return sum;
}

/*
 * The correlation of an index with the heap, squared as the planner does: that
 * of its first column, 0 if not known.
 *
 * Core: utils/adt/selfuncs.c, btcostestimate.
 */
static double
index_correlation(Relation rel, Relation indrel)
{
	AttrNumber	attnum = indrel->rd_index->indkey.values[0];
	AttStatsSlot slot;
	HeapTuple	tuple;
	double		squared = 0;

	if (attnum <= 0 || indrel->rd_rel->relam != BTREE_AM_OID)
		return 0;
	tuple = SearchSysCache3(STATRELATTINH,
							ObjectIdGetDatum(RelationGetRelid(rel)),
							Int16GetDatum(attnum), BoolGetDatum(false));
	if (!HeapTupleIsValid(tuple))
		return 0;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		if (slot.nnumbers == 1 && fabs(slot.numbers[0]) <= 1)
			squared = slot.numbers[0] * slot.numbers[0];
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return squared;
}

/*
 * Look up the correlation of all indexes, once, in a vacuum that takes some
 * time.  A short one does not need it.  No page may be locked.
 *
 * A vacuum must not fail or wait for the sake of a forecast.  So one that
 * prevents wraparound does without, and others if the catalog is locked.
 */
void
pv_progress_correlation(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	PvEtaInput *input = &progress->tracked.eta;
	PvParticipant *leader = &vac->leader;
	int			n = leader->nindexes;
	double		pages = 0;

	if (progress->correlations || n == 0 || !input->throttled ||
		vac->params->is_wraparound || vac->plan.aggressive ||
		input->of[PV_PHASE_SCAN].usecs < CORRELATION_AFTER_USECS ||
		!ConditionalLockRelationOid(StatisticRelationId, AccessShareLock))
		return;
	progress->correlations =
		MemoryContextAlloc(progress->context, n * sizeof(double));
	for (int i = 0; i < n; i++)
	{
		progress->correlations[i] =
			index_correlation(leader->rel, leader->indrels[i]);
		pages += leader->index_pages[i] * progress->correlations[i];
	}
	input->correlation = pages / Max(input->index_pages, 1);
	UnlockRelationOid(StatisticRelationId, AccessShareLock);
}

/*
 * The weights of the indexes: where more pages are expected to be changed, a
 * page counts for more.  The mean over all pages is 1.
 */
void
pv_progress_weigh_indexes(PvVacuum *vac)
{
	PvVacuumProgress *progress = &vac->progress;
	const PvEtaInput *input = &progress->tracked.eta;
	PvParticipant *leader = &vac->leader;
	double		mean;

	if (progress->correlations == NULL)
		return;
	mean = pv_eta_index_page(input, input->correlation);
	if (mean <= 0)
		return;
	if (progress->weights == NULL)
		progress->weights =
			MemoryContextAlloc(progress->context,
							   leader->nindexes * sizeof(double));
	progress->unchanged_weight = pv_eta_unchanged_page(input) / mean;
	for (int i = 0; i < leader->nindexes; i++)
		progress->weights[i] =
			pv_eta_index_page(input, progress->correlations[i]) / mean;
}

/*
 * By how much an index phase is slower than a heap pass, for want of indexes
 * that the participants can work on.
 */
double
pv_progress_index_slowdown(const PvVacuum *vac)
{
	const PvParticipant *leader = &vac->leader;
	double		single = 0,
				total = 0;

	for (int i = 0; i < leader->nindexes; i++)
	{
		total += leader->index_pages[i];
		if (!leader->units[i].is_btree)
			single = Max(single, leader->index_pages[i]);
	}
	return total > 0 ? work_in_pages(vac, total, single) / total : 1;
}
