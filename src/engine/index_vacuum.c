/*-------------------------------------------------------------------------
 *
 * index_vacuum.c
 *	  Index vacuuming and index cleanup, shared out among participants.
 *
 * Leader and workers run this.  Every index of the table is a unit of work.  In
 * which order units are taken is decided in engine/index_order.c.  Who begins one sets its
 * atomic flag; what is found is written by the one who began it alone, and read by
 * the leader after the barrier that ends the phase.  A B-tree that is not small
 * all participants can do together, and what is found is written by who does the
 * last of it; see engine/nbtree.c.
 *
 *	 leader, between phases		kind, pages set; begun, done cleared
 *	 participant				begun set -> access method -> istat, done set
 *	 participants, together		begun set by the first -> pv_nbtree_work() ->
 *								istat, done set by the last
 *
 * Index access methods say in which phases a worker may act for them.  What
 * is forbidden to workers the leader does, and does first.
 *
 * An access method that allows no worker in any phase may do what parallel mode
 * forbids even the leader, such as getting a transaction ID.  Its cleanup waits
 * until the workers are gone and parallel mode has ended.  Its bulk deletion cannot
 * wait: see pv_index_allows_workers().
 *
 * An access method keeps its result in memory of the process that ran it,
 * while the next round may be another's.  So the first result is copied into
 * the unit, and from then on the access method gets the unit's to update.  An
 * access method with more to its result than the common struct allows no
 * worker at all, and gets back what it returned.
 * Core: commands/vacuumparallel.c, parallel_vacuum_process_one_index.
 *
 * Locks: RowExclusiveLock on every index, taken by each participant for
 * itself when it opened them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/gin_private.h"
#include "access/nbtree.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "commands/progress.h"
#include "portability/instr_time.h"
#include "optimizer/paths.h"
#include "utils/rel.h"

#include "engine/index_vacuum.h"
#include "engine/nbtree.h"
#include "engine/reserve.h"

/* Smaller B-trees are vacuumed by one participant each, by core's code */
#define MIN_PAGES_TOGETHER		32

/* For sorting units by size */
typedef struct UnitSize
{
	int			unit;
	BlockNumber pages;
} UnitSize;

static int
larger_unit_first(const void *a, const void *b)
{
	const UnitSize *left = a;
	const UnitSize *right = b;

	if (left->pages != right->pages)
		return left->pages > right->pages ? -1 : 1;
	return left->unit - right->unit;
}

/* Could this index be vacuumed by several participants together? */
static bool
is_large_btree(PvParticipant *leader, int i)
{
	return leader->index_pages[i] >= MIN_PAGES_TOGETHER &&
		pv_nbtree_handles(leader->indrels[i]);
}

/*
 * Has the access method been written with parallel vacuum in mind at all?  That it
 * has not is what one gets by saying nothing.
 */
static bool
knows_parallel_vacuum(Relation indrel)
{
	return indrel->rd_indam->amparallelvacuumoptions != VACUUM_OPTION_NO_PARALLEL;
}

/*
 * Does the cleanup run functions of the table's owner?  BRIN computes the expressions of
 * the index, and its predicate, for what it summarizes; of access methods that are not
 * core's nobody knows.  Such functions may do what parallel mode forbids, and before
 * version 18 a block of PL/pgSQL with an EXCEPTION clause is enough.  What they are
 * declared as is their owner's word only.
 */
static bool
cleanup_runs_functions(Relation indrel)
{
	switch (indrel->rd_rel->relam)
	{
		case BTREE_AM_OID:
		case HASH_AM_OID:
		case GIST_AM_OID:
		case GIN_AM_OID:
		case SPGIST_AM_OID:
			return false;
		default:
			return RelationGetIndexExpressions(indrel) != NIL ||
				RelationGetIndexPredicate(indrel) != NIL;
	}
}

/* Must the cleanup of the index wait until parallel mode has ended? */
static bool
cleanup_must_wait(Relation indrel)
{
	return !knows_parallel_vacuum(indrel) || cleanup_runs_functions(indrel);
}

/*
 * Would core's VACUUM command start workers for these indexes, if it is given no
 * number?  It does if there are two that it could have one each.
 * Core: commands/vacuumparallel.c, parallel_vacuum_compute_workers.
 */
static bool
core_would_start_workers(PvParticipant *leader)
{
	int			nbulkdel = 0;
	int			ncleanup = 0;

	for (int i = 0; i < leader->nindexes; i++)
	{
		Relation	indrel = leader->indrels[i];
		uint8		options = indrel->rd_indam->amparallelvacuumoptions;

		if ((int64) RelationGetNumberOfBlocks(indrel) < min_parallel_index_scan_size)
			continue;
		if (options & VACUUM_OPTION_PARALLEL_BULKDEL)
			nbulkdel++;
		if (options & (VACUUM_OPTION_PARALLEL_CLEANUP |
					   VACUUM_OPTION_PARALLEL_COND_CLEANUP))
			ncleanup++;
	}
	return Max(nbulkdel, ncleanup) > 1;
}

/*
 * Leader, before anything is planned: may there be workers in a vacuum that comes to
 * the indexes?  If not, *because_of is the index that forbids it.
 *
 * Workers mean parallel mode, from the first heap pass to the index cleanup.  What
 * is forbidden then fails, and it may be part of the bulk deletion of an access method
 * that knows nothing of parallel vacuum.  There is no way around: the dead items are
 * in memory that ends with the workers, so parallel mode cannot be left between two
 * phases.  So we do as core does, and what succeeds with core succeeds with us.  Core
 * has no workers under autovacuum at all.  Otherwise, it is in parallel mode if other
 * indexes are worth workers.
 */
bool
pv_index_allows_workers(PvParticipant *leader, bool automatic,
						const char **because_of)
{
	for (int i = 0; i < leader->nindexes; i++)
	{
		if (knows_parallel_vacuum(leader->indrels[i]))
			continue;
		*because_of = RelationGetRelationName(leader->indrels[i]);
		return !automatic && core_would_start_workers(leader);
	}
	return true;
}

/*
 * Leader, before the pool is made: see how large the indexes are.  Returns the
 * words that the bitmaps of B-trees need.
 */
Size
pv_index_plan(PvParticipant *leader)
{
	Size		words = 0;

	leader->index_pages = palloc(Max(leader->nindexes, 1) * sizeof(BlockNumber));
	for (int i = 0; i < leader->nindexes; i++)
	{
		leader->index_pages[i] = RelationGetNumberOfBlocks(leader->indrels[i]);
		if (is_large_btree(leader, i))
			words += pv_nbtree_bitmap_words(leader->index_pages[i]);
	}
	return words;
}

/*
 * Leader, before launch: set up the B-trees that could be done together.
 */
void
pv_index_plan_together(PvParticipant *leader)
{
	UnitSize   *sizes;
	Size		words = 0;

	leader->units_by_size = palloc(Max(leader->nindexes, 1) * sizeof(int));
	leader->private_istats = palloc0(Max(leader->nindexes, 1) *
									 sizeof(IndexBulkDeleteResult *));
	if (leader->nindexes == 0)
		return;

	sizes = palloc(leader->nindexes * sizeof(UnitSize));
	for (int i = 0; i < leader->nindexes; i++)
	{
		sizes[i].unit = i;
		sizes[i].pages = leader->index_pages[i];
	}
	qsort(sizes, leader->nindexes, sizeof(UnitSize), larger_unit_first);
	for (int order = 0; order < leader->nindexes; order++)
	{
		int			i = sizes[order].unit;
		PvIndexUnit *unit = &leader->units[i];

		leader->units_by_size[order] = i;
		unit->usecs = 0;
		pg_atomic_init_u64(&unit->began_at, 0);
		unit->is_btree = is_large_btree(leader, i);
		if (unit->is_btree)
		{
			pv_nbtree_init(&unit->btree, leader->index_pages[i], words);
			words += pv_nbtree_bitmap_words(leader->index_pages[i]);
		}
	}
	pfree(sizes);
}

/*
 * Leader, after a phase: was every index dealt with?
 */
bool
pv_index_all_done(PvParticipant *leader)
{
	for (int i = 0; i < leader->nindexes; i++)
		if (!leader->units[i].done)
			return false;
	return true;
}

/*
 * May a worker act for this index in this phase?  An index with conditional
 * cleanup has next to nothing to clean up once it has been vacuumed, so the
 * leader does that, as in core.
 */
static bool
worker_may(const IndexAmRoutine *amroutine, PvPhase phase, int index_scans)
{
	uint8		options = amroutine->amparallelvacuumoptions;

	if (phase == PV_PHASE_INDEX)
		return (options & VACUUM_OPTION_PARALLEL_BULKDEL) != 0;
	if (options & VACUUM_OPTION_PARALLEL_CLEANUP)
		return true;
	return (options & VACUUM_OPTION_PARALLEL_COND_CLEANUP) != 0 &&
		index_scans == 0;
}

/*
 * Is this a B-tree whose pages are all to be visited, and by several?  A cleanup
 * visits them only if there was no bulk deletion, and many deleted pages wait for
 * recycling.  In a bulk deletion the B-tree needs a place among those whose splits
 * core watches, which may all be taken.  Then one process does it, by core's code.
 * Core: access/nbtree/nbtree.c, btvacuumcleanup.
 */
static bool
visit_btree(PvParticipant *leader, int i, PvPhase phase)
{
	PvIndexUnit *unit = &leader->units[i];

	if (!unit->is_btree)
		return false;
	if (phase == PV_PHASE_INDEX)
		return pv_reserve_btree();
	return !unit->istat_valid && _bt_vacuum_needs_cleanup(leader->indrels[i]);
}

/* Do several participants do this index together, in this phase? */
static bool
is_shared(const PvIndexUnit *unit)
{
	return unit->kind == PV_UNIT_SHARED;
}

/* How many participants can work on this index at a time? */
static int
count_sharers(PvParticipant *self, const PvIndexUnit *unit)
{
	return is_shared(unit) ? self->shared->nslots : 1;
}

/*
 * About how many pages are visited for an index?  Those that it has.  But a BRIN
 * index, which has few, reads in its cleanup what it has not summarized of the
 * heap.  That may be all of it; if it is little, to have begun early does no harm.
 */
static BlockNumber
pages_to_visit(PvParticipant *leader, int i, PvPhase phase)
{
	if (phase == PV_PHASE_CLEANUP &&
		leader->indrels[i]->rd_rel->relam == BRIN_AM_OID)
		return leader->shared->rel_pages;
	return leader->index_pages[i];
}

/*
 * Leader, between phases: put all indexes up to be taken.  pv_index_end() must
 * follow, on error too.
 */
void
pv_index_prepare(PvParticipant *leader, PvPhase phase)
{
	int			nsharers = 0;

	pg_atomic_write_u32(&leader->shared->indexes_done, 0);

	/* The largest first: there may not be places for all */
	for (int order = 0; order < leader->nindexes; order++)
	{
		int			i = leader->units_by_size[order];
		PvIndexUnit *unit = &leader->units[i];

		if (visit_btree(leader, i, phase))
		{
			unit->kind = PV_UNIT_SHARED;
			pv_nbtree_begin(leader, i, phase);
		}
		else if (phase == PV_PHASE_CLEANUP && cleanup_must_wait(leader->indrels[i]))
			unit->kind = PV_UNIT_LATER;
		else if (worker_may(leader->indrels[i]->rd_indam, phase,
							leader->shared->index_scans))
			unit->kind = PV_UNIT_SINGLE;
		else
			unit->kind = PV_UNIT_LEADER_ONLY;
		unit->pages = pages_to_visit(leader, i, phase);
		unit->done = false;
		pg_atomic_clear_flag(&unit->begun);
		pg_atomic_write_u64(&unit->began_at, 0);
		if (unit->kind != PV_UNIT_LATER)
			nsharers += count_sharers(leader, unit);
	}
	pv_cost_begin_indexes(&leader->shared->cost, nsharers);
}

/*
 * Leader: the phase is over, or the vacuum has failed.
 */
void
pv_index_end(PvParticipant *leader)
{
	for (int i = 0; i < leader->nindexes; i++)
	{
		if (leader->units[i].is_btree)
			pv_nbtree_end(leader, i);
	}
	pv_release_btrees();
}

/*
 * Leader: show how many indexes there are and are done in this phase, and how many
 * pages there are and have been visited of B-trees that are done together.
 */
void
pv_index_progress(PvParticipant *leader)
{
	const int	params[] = {PROGRESS_SCAN_BLOCKS_TOTAL, PROGRESS_SCAN_BLOCKS_DONE};
	int64		values[] = {0, 0};

	for (int i = 0; i < leader->nindexes; i++)
	{
		PvIndexUnit *unit = &leader->units[i];

		if (!is_shared(unit))
			continue;
		values[0] += pg_atomic_read_u32(&unit->btree.pages.end);
		values[1] += pg_atomic_read_u32(&unit->btree.pages_done);
	}
	pgstat_progress_update_multi_param(lengthof(params), params, values);
	pv_progress_indexes(leader->nindexes,
						pg_atomic_read_u32(&leader->shared->indexes_done));
}

/*
 * What the callback keeps between two index tuples.  Where an index has the
 * order of the heap, many of them in a row point to one heap block; then that
 * block's dead items are taken out of the store once, as a bitmap.
 */
typedef struct DeadItemCheck
{
	PvParticipant *self;
	uint32		ncalls;
	BlockNumber blkno;			/* the heap block asked about last */
	int			nasked;			/* how often in a row */
	uint64		dead[(MaxHeapTuplesPerPage + 64) / 64];
} DeadItemCheck;

/* Often enough to come between two naps, as a rule; a power of two */
#define CALLS_PER_POLL			16

/* Taking a block out of the store costs as much as so many probes, about */
#define PROBES_BEFORE_BITMAP	8

static void
fetch_block(DeadItemCheck *check)
{
	OffsetNumber deadoffsets[MaxHeapTuplesPerPage];
	int			ndead = pv_deadtids_get_block(check->self->store, check->blkno,
											  deadoffsets);

	memset(check->dead, 0, sizeof(check->dead));
	for (int i = 0; i < ndead; i++)
		check->dead[deadoffsets[i] / 64] |= UINT64CONST(1) << deadoffsets[i] % 64;
}

/*
 * Is this index tuple's heap item dead?  Called by access methods, for every
 * index tuple.  Core: commands/vacuum.c, vac_tid_reaped.
 */
static bool
dead_item_callback(ItemPointer tid, void *state)
{
	DeadItemCheck *check = state;
	BlockNumber blkno = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber offnum = ItemPointerGetOffsetNumberNoCheck(tid);

	if (++check->ncalls % CALLS_PER_POLL == 0)
		pv_cost_poll();
	if (blkno != check->blkno)
	{
		check->blkno = blkno;
		check->nasked = 0;
	}
	if (check->nasked < PROBES_BEFORE_BITMAP)
	{
		if (++check->nasked == PROBES_BEFORE_BITMAP)
			fetch_block(check);
		return pv_deadtids_probe(check->self->store, tid);
	}
	return offnum <= MaxHeapTuplesPerPage &&
		(check->dead[offnum / 64] >> offnum % 64 & 1) != 0;
}

/*
 * Is the pending list of a GIN index to be emptied now?  GIN does it by itself the
 * first time that a vacuum comes to the index, be it for bulk deletion or, where there
 * was none, for cleanup.  We do it in its place, and in later rounds, too.
 *
 * Later rounds can have dead items whose entries are in the list: rows that were
 * inserted when the first round was over, by a transaction that aborted.  A bulk
 * deletion does not look there, so their line pointers would be freed, and used
 * again, with index entries pointing to them.
 */
static bool
must_empty_pending_list(Relation indrel, PvPhase phase, const IndexBulkDeleteResult *istat)
{
	return indrel->rd_indam->ambulkdelete == ginbulkdelete &&
		(phase == PV_PHASE_INDEX || istat == NULL);
}

/*
 * Empty it.  All that is in the list by now has to go; what is inserted meanwhile need
 * not.  GIN's own code goes after that as well, until the list is empty, unless it is
 * in an autovacuum worker.  That may be without end, where somebody inserts as fast.  So
 * we do it only where core does: for a VACUUM that somebody waits for, the first time.
 * What autovacuum's and the scheduler's parallel workers do is as what autovacuum does.
 *
 * Returns what GIN is to go on counting from, so that it does not begin anew.
 * Core: access/gin/ginfast.c, ginInsertCleanup; ginvacuum.c, ginbulkdelete.
 */
static IndexBulkDeleteResult *
empty_pending_list(PvParticipant *self, Relation indrel, IndexBulkDeleteResult *istat)
{
	bool		full_clean = istat == NULL && !self->shared->automatic;
	GinState	ginstate;

	if (istat == NULL)
		istat = palloc0(sizeof(IndexBulkDeleteResult));
	initGinState(&ginstate, indrel);
	ginInsertCleanup(&ginstate, full_clean, false, true, istat);
	return istat;
}

/*
 * Keep what an access method returned, in the unit.
 */
static void
keep_result(PvParticipant *self, int i, IndexBulkDeleteResult *after)
{
	PvIndexUnit *unit = &self->units[i];

	unit->istat_valid = (after != NULL);
	if (after == NULL || after == &unit->istat)
		return;

	unit->istat = *after;
	if (!knows_parallel_vacuum(self->indrels[i]))
		self->private_istats[i] = after;
	else
		pfree(after);
}

/*
 * Raise an error if a function of the index has written anything.  There was no XID
 * before the index was begun with.
 *
 * The transaction is read-only for statements (entry/dispatch.c), but not for all functions
 * of the server that write.  What has got an XID here must not be committed: see there.
 * Access methods of core assign none while they vacuum.
 */
static void
check_nothing_written(Relation indrel)
{
	if (indrel->rd_rel->relam < FirstNormalObjectId &&
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("functions of index \"%s\" must not write during VACUUM",
						RelationGetRelationName(indrel)),
				 errhint("Have the expressions and the predicate of the index call functions that are immutable.")));
}

/*
 * Have the access method vacuum or clean up one index.
 */
static void
process_unit(PvParticipant *self, int i, PvPhase phase, IndexVacuumInfo *ivinfo)
{
	PvIndexUnit *unit = &self->units[i];
	IndexBulkDeleteResult *istat = unit->istat_valid ? &unit->istat : NULL;
	IndexBulkDeleteResult *after;
	DeadItemCheck check = {.self = self,.blkno = InvalidBlockNumber};
	bool		had_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());

	if (self->is_leader && self->private_istats[i] != NULL)
		istat = self->private_istats[i];

	if (must_empty_pending_list(self->indrels[i], phase, istat))
		istat = empty_pending_list(self, self->indrels[i], istat);
	if (phase == PV_PHASE_INDEX)
		after = index_bulk_delete(ivinfo, istat, dead_item_callback, &check);
	else
		after = index_vacuum_cleanup(ivinfo, istat);
	if (!had_xid)
		check_nothing_written(self->indrels[i]);

	keep_result(self, i, after);
}

/*
 * Take part in an index that several do together.  True to who did the last of
 * it.  A cleanup ends with core's, which only writes down what we have counted.
 */
static bool
process_together(PvParticipant *self, int i, PvPhase phase, IndexVacuumInfo *ivinfo)
{
	PvIndexUnit *unit = &self->units[i];

	if (!pv_nbtree_work(self, i, phase, ivinfo))
		return false;
	if (phase == PV_PHASE_CLEANUP)
		keep_result(self, i, index_vacuum_cleanup(ivinfo, &unit->istat));
	return true;
}

static uint64
now_usecs(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

/* This process begins with the index; the first of those that share it counts. */
static void
note_begin(PvIndexUnit *unit)
{
	uint64		unset = 0;

	if (pg_atomic_read_u64(&unit->began_at) == 0)
		(void) pg_atomic_compare_exchange_u64(&unit->began_at, &unset, now_usecs());
}

/* This process has done the last of the index. */
static void
note_end(PvIndexUnit *unit)
{
	unit->usecs += now_usecs() - pg_atomic_read_u64(&unit->began_at);
}

/*
 * Do an index, or a part of it, and note it if that completes the index.
 */
static void
do_unit(PvParticipant *self, int i, PvPhase phase)
{
	PvShared   *shared = self->shared;
	PvIndexUnit *unit = &self->units[i];
	Relation	indrel = self->indrels[i];
	IndexVacuumInfo ivinfo;
	bool		completed = true;

	pv_cost_delay();
	pv_ivinfo_init(&ivinfo, indrel, self->rel, shared->reltuples,
				   shared->estimated_count, pv_ring_next(&self->ring));
	self->errinfo.indname = RelationGetRelationName(indrel);
	note_begin(unit);
	if (is_shared(unit))
		completed = process_together(self, i, phase, &ivinfo);
	else
		process_unit(self, i, phase, &ivinfo);
	if (completed)
		note_end(unit);
	self->errinfo.indname = NULL;
	if (!completed)
		return;					/* one of those who are still at it will */

	unit->done = true;
	pg_atomic_fetch_add_u32(&shared->indexes_done, 1);
	pv_cost_index_done(&shared->cost, count_sharers(self, unit));
}

/*
 * What is this participant to take next?  -1 if there is nothing.  states has room
 * for all indexes.
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
		if (is_shared(unit) && state->begun)
			state->pages = pv_nbtree_pages_left(self, i);
	}
	return pv_order_next(states, self->nindexes, self->is_leader);
}

/*
 * Take part in an index phase, until nothing is left to be taken.
 */
void
pv_index_work(PvParticipant *self, PvPhase phase)
{
	PvUnitState *states = palloc(Max(self->nindexes, 1) * sizeof(PvUnitState));
	int			i;

	while ((i = next_unit(self, states)) >= 0)
	{
		/* A round left unfinished forbids the second heap pass */
		if (phase == PV_PHASE_INDEX && pv_check_failsafe(self))
			break;

		/* Somebody may have been faster; then ask again */
		if (!states[i].begun && !pg_atomic_test_set_flag(&self->units[i].begun))
			continue;
		do_unit(self, i, phase);
		if (self->tick)
			self->tick(self);
	}
	pfree(states);

	/* Notice an emergency that arose during the last unit, too */
	if (phase == PV_PHASE_INDEX)
		(void) pv_check_failsafe(self);
}

/*
 * Leader, when parallel mode has ended: clean up the indexes that had to wait for
 * that, if the cleanup has come to indexes at all.
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

	/* The whole budget is ours now */
	shared->cost.nparticipants = 1;
	pv_cost_begin_indexes(&shared->cost, nlater);
	pv_cost_begin_work(&shared->cost);
	leader->errinfo.phase = PV_PHASE_CLEANUP;
	for (int i = 0; i < leader->nindexes; i++)
	{
		if (leader->units[i].kind != PV_UNIT_LATER)
			continue;
		pv_index_progress(leader);
		do_unit(leader, i, PV_PHASE_CLEANUP);
	}
	leader->errinfo.phase = PV_PHASE_IDLE;
	pv_cost_end_work();
	pv_progress_indexes(0, 0);
}
