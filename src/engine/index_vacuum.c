/*-------------------------------------------------------------------------
 *
 * index_vacuum.c
 *	  Index vacuuming and index cleanup, divided among the participants.
 *
 * Leader and workers run this.  Every index of the table is a unit of work.
 * engine/index_order.c decides in which order units are taken.  The
 * participant that sets the atomic flag of a unit begins it, and alone writes
 * the result, which the leader reads after the barrier that ends the phase.
 * All participants can work together on a B-tree that is not small, and the
 * last of them writes the result (engine/nbtree.c).
 *
 *	 leader, between phases		sets kind and pages; clears begun and done
 *	 one participant			sets begun -> access method -> istat, done
 *	 several participants		the first sets begun -> pv_nbtree_work() ->
 *								the last sets istat, done
 *
 * What access methods do not allow to workers the leader does first.  What
 * parallel mode does not allow even to the leader waits until it has ended
 * (engine/index_am.c).
 *
 * Locks: RowExclusiveLock on every index, taken by each participant.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_process_unsafe_indexes and
 * parallel_vacuum_process_safe_indexes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_am.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "utils/rel.h"

#include "base/clock.h"
#include "base/process.h"
#include "engine/nbtree.h"

/* Smaller B-trees are vacuumed by one participant, with core's code */
#define MIN_PAGES_TOGETHER		32

/* Compare two indexes for qsort_arg(): the larger one first. */
static int
larger_index_first(const void *a, const void *b, void *arg)
{
	const BlockNumber *pages = arg;
	int			left = *(const int *) a;
	int			right = *(const int *) b;

	if (pages[left] != pages[right])
		return pages[left] > pages[right] ? -1 : 1;
	return left - right;
}

/* Can several participants vacuum this index together? */
static bool
is_large_btree(const PvParticipant *leader, int i)
{
	return leader->index_pages[i] >= MIN_PAGES_TOGETHER &&
		leader->indrels[i]->rd_rel->relam == BTREE_AM_OID &&
		leader->indrels[i]->rd_indam->ambulkdelete == btbulkdelete;
}

/*
 * Leader, before the pool is created: read the sizes of the indexes.  Return
 * the bytes that the bitmaps of B-trees need.
 */
Size
pv_index_plan(PvParticipant *leader)
{
	leader->bitmap_bytes = 0;
	leader->index_pages = palloc(leader->nindexes * sizeof(BlockNumber));
	for (int i = 0; i < leader->nindexes; i++)
	{
		leader->index_pages[i] = RelationGetNumberOfBlocks(leader->indrels[i]);
		if (is_large_btree(leader, i))
			leader->bitmap_bytes +=
				pv_nbtree_bitmap_bytes(leader->index_pages[i]);
	}
	return leader->bitmap_bytes;
}

/*
 * Leader, before launch: initialize the units, and the B-trees that several
 * participants can vacuum together.
 */
void
pv_index_plan_together(PvParticipant *leader)
{
	leader->units_by_size = palloc(leader->nindexes * sizeof(int));
	leader->private_istats =
		palloc0(leader->nindexes * sizeof(IndexBulkDeleteResult *));
	for (int i = 0; i < leader->nindexes; i++)
	{
		leader->units_by_size[i] = i;
		if (is_large_btree(leader, i))
			pv_nbtree_init(&leader->units[i].btree);
	}
	qsort_arg(leader->units_by_size, leader->nindexes, sizeof(int),
			  larger_index_first, leader->index_pages);
}

/*
 * Leader, after a phase: was every index processed?  No line pointer may become
 * unused before that, so ask each of them, not a counter.
 */
bool
pv_index_all_done(const PvParticipant *leader)
{
	for (int i = 0; i < leader->nindexes; i++)
		if (!leader->units[i].done)
			return false;
	return true;
}

/*
 * Must all pages of this B-tree be visited, and can several participants do
 * that?
 *
 * A cleanup visits the pages only if there was no bulk deletion and many
 * deleted pages wait for recycling.  A bulk deletion needs an entry in core's
 * array of B-trees that are being vacuumed, which has a limited size.  Without
 * an entry, one process vacuums the index with core's code.
 *
 * Core: access/nbtree/nbtree.c, btvacuumcleanup.
 */
static bool
visit_btree(const PvParticipant *leader, int i, PvPhase phase)
{
	PvIndexUnit *unit = &leader->units[i];

	if (!is_large_btree(leader, i))
		return false;
	if (phase == PV_PHASE_INDEX)
		return pv_reserve_btree();
	return !unit->result.istat_valid &&
		_bt_vacuum_needs_cleanup(leader->indrels[i]);
}

/* Return how many participants can work on this index at a time. */
static int
count_sharers(const PvParticipant *self, const PvIndexUnit *unit)
{
	return unit->kind == PV_UNIT_SHARED ? self->shared->plan.nslots : 1;
}

/*
 * May a worker process this index in this phase?  An index with conditional
 * cleanup has next to nothing to clean up after a bulk deletion, so the leader
 * does that, as in core.
 */
static bool
worker_allowed(Relation indrel, const PvIndexUnit *unit, PvPhase phase)
{
	uint8		any_of = VACUUM_OPTION_PARALLEL_CLEANUP;

	if (phase == PV_PHASE_INDEX)
		any_of = VACUUM_OPTION_PARALLEL_BULKDEL;
	else if (!unit->result.istat_valid)
		any_of |= VACUUM_OPTION_PARALLEL_COND_CLEANUP;
	return (indrel->rd_indam->amparallelvacuumoptions & any_of) != 0;
}

/*
 * Leader, between phases: make all indexes available.  pv_index_end() must
 * follow, also after an error.
 */
void
pv_index_prepare(PvParticipant *leader, PvPhase phase)
{
	int			nsharers = 0;

	leader->shared->indexes_before = 0;

	/* The largest first, because there may not be enough for all */
	for (int order = 0; order < leader->nindexes; order++)
	{
		int			i = leader->units_by_size[order];
		PvIndexUnit *unit = &leader->units[i];
		Relation	indrel = leader->indrels[i];

		if (phase == PV_PHASE_INDEX && leader->index_is_done != NULL &&
			leader->index_is_done[i])
		{
			unit->kind = PV_UNIT_SINGLE;
			unit->done = true;
			(void) pg_atomic_test_set_flag(&unit->begun);
			leader->shared->indexes_before++;
			continue;
		}
		if (visit_btree(leader, i, phase) && pv_nbtree_begin(leader, i, phase))
			unit->kind = PV_UNIT_SHARED;
		else if (phase == PV_PHASE_CLEANUP &&
				 pv_index_cleanup_must_wait(indrel))
			unit->kind = PV_UNIT_LATER;
		else if (worker_allowed(indrel, unit, phase))
			unit->kind = PV_UNIT_SINGLE;
		else
			unit->kind = PV_UNIT_LEADER_ONLY;

		/* The cleanup of BRIN reads what is not summarized of the heap */
		unit->pages = phase == PV_PHASE_CLEANUP &&
			indrel->rd_rel->relam == BRIN_AM_OID ?
			leader->shared->plan.rel_pages : leader->index_pages[i];
		unit->done = false;
		pg_atomic_clear_flag(&unit->begun);
		pg_atomic_write_u64(&unit->began_at, 0);
		pg_atomic_write_u64(&unit->entries_seen, 0);
		if (unit->kind != PV_UNIT_LATER)
			nsharers += count_sharers(leader, unit);
	}
	pg_atomic_write_u32(&leader->shared->indexes_done,
						leader->shared->indexes_before);
	pv_cost_begin_indexes(&leader->shared->cost, nsharers);
}

/* Leader: the phase has ended, or the vacuum has failed. */
void
pv_index_end(PvParticipant *leader)
{
	for (int i = 0; i < leader->nindexes; i++)
		pv_nbtree_end(leader, i);
	pv_release_btrees();
}

/*
 * Leader: report how many indexes there are and how many are done in this
 * phase, and the same for the pages of B-trees that several participants
 * vacuum together.
 */
void
pv_index_progress(PvParticipant *leader)
{
	const int	params[] = {
		PROGRESS_SCAN_BLOCKS_TOTAL, PROGRESS_SCAN_BLOCKS_DONE
	};
	int64		values[] = {0, 0};

	for (int i = 0; i < leader->nindexes; i++)
	{
		PvIndexUnit *unit = &leader->units[i];

		if (unit->kind != PV_UNIT_SHARED)
			continue;
		values[0] += pg_atomic_read_u32(&unit->btree.pages.end);
		values[1] += pg_atomic_read_u32(&unit->btree.pages_done);
	}
	pgstat_progress_update_multi_param(lengthof(params), params, values);
	pv_progress_indexes(leader->nindexes,
						pg_atomic_read_u32(&leader->shared->indexes_done));
}

/*
 * Process an index, or a part of it, and note it if that completes the index.
 */
static void
do_unit(PvParticipant *self, int i, PvPhase phase)
{
	PvShared   *shared = self->shared;
	PvIndexUnit *unit = &self->units[i];
	Relation	indrel = self->indrels[i];
	IndexVacuumInfo ivinfo;
	uint64		unset = 0;
	bool		completed = true;

	(void) pv_cost_delay();
	pv_ivinfo_init(&ivinfo, indrel, self->rel, shared->plan.automatic,
				   shared->reltuples, shared->estimated_count,
				   pv_ring_next(&self->ring));
	self->errinfo.indname = RelationGetRelationName(indrel);
	self->part.indexrelid = RelationGetRelid(indrel);
	pv_show(self);

	/* Of several participants, the first one counts */
	(void) pg_atomic_compare_exchange_u64(&unit->began_at, &unset,
										  pv_usecs_of_machine());
	if (phase == PV_PHASE_INDEX)
		pv_wait_point(RelationGetRelationName(indrel),
					  RelationGetRelid(self->rel));
	if (unit->kind != PV_UNIT_SHARED)
		pv_index_process(self, i, phase, &ivinfo);
	else
		completed = pv_nbtree_work(self, i, phase, &ivinfo);
	self->errinfo.indname = NULL;
	self->part.indexrelid = InvalidOid;
	if (!completed)
		return;					/* another participant will complete it */

	unit->result.usecs += pv_usecs_since(pg_atomic_read_u64(&unit->began_at));
	unit->done = true;

	/*
	 * An access method that is not core's may delete in a transaction, or in
	 * its cleanup, so its entries may not be gone for good.
	 */
	if (phase == PV_PHASE_INDEX && shared->keeps_indexes &&
		indrel->rd_rel->relam < FirstNormalObjectId)
		pv_kept_index_done(&shared->kept, indrel);
	pg_atomic_fetch_add_u32(&shared->indexes_done, 1);
	pv_cost_index_done(&shared->cost, count_sharers(self, unit));
}

/*
 * Return the index that this participant should take next, or PV_ORDER_NONE.
 * states has room for all indexes.
 */
static int
next_unit(PvParticipant *self, PvUnitState *states)
{
	for (int i = 0; i < self->nindexes; i++)
	{
		PvIndexUnit *unit = &self->units[i];
		PvUnitState *state = &states[i];

		state->kind = unit->kind;
		state->begun = !pg_atomic_unlocked_test_flag(&unit->begun);
		state->pages = unit->pages;
		if (unit->kind == PV_UNIT_SHARED && state->begun)
			state->pages = pv_nbtree_pages_left(self, i);
	}
	return pv_order_next(states, self->nindexes, self->is_leader);
}

/* Take part in an index phase, until nothing is left to be taken. */
void
pv_index_work(PvParticipant *self, PvPhase phase)
{
	PvUnitState *states = palloc(self->nindexes * sizeof(PvUnitState));
	int			i;

	while ((i = next_unit(self, states)) != PV_ORDER_NONE)
	{
		/* After an unfinished index scan there is no second heap pass */
		if (phase == PV_PHASE_INDEX &&
			(pv_check_failsafe(self) || pv_ends_early(self)))
			break;

		/* If another participant was faster, ask again */
		if (!states[i].begun &&
			!pg_atomic_test_set_flag(&self->units[i].begun))
			continue;
		do_unit(self, i, phase);
		pv_tick(self);
	}
	pfree(states);

	/* Notice a failsafe that triggered during the last unit, too */
	if (phase == PV_PHASE_INDEX)
		(void) pv_check_failsafe(self);
}

/*
 * Leader, after parallel mode has ended: clean up the indexes that had to wait
 * for that, unless index cleanup is not done at all.  Those that run functions
 * of the table's owner are among them.
 */
void
pv_index_clean_up_later(PvParticipant *leader)
{
	PvShared   *shared = leader->shared;
	int			nlater = 0;

	for (int i = 0; i < leader->nindexes; i++)
		nlater += leader->units[i].kind == PV_UNIT_LATER;
	if (nlater == 0)
		return;

	/* This process has the whole budget now */
	shared->cost.nparticipants = 1;
	pv_cost_begin_indexes(&shared->cost, nlater);
	pv_cost_begin_work(&shared->cost);
	leader->errinfo.phase = PV_PHASE_CLEANUP;
	if (pv_owner_hook)
		pv_owner_hook(true, shared->plan.rel_pages);
	for (int i = 0; i < leader->nindexes; i++)
	{
		if (leader->units[i].kind != PV_UNIT_LATER)
			continue;
		pv_index_progress(leader);
		do_unit(leader, i, PV_PHASE_CLEANUP);
	}
	if (pv_owner_hook)
		pv_owner_hook(false, 0);
	leader->errinfo.phase = PV_PHASE_IDLE;
	pv_cost_end_work();
	pv_progress_indexes(0, 0);
}
