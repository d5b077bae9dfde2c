/*-------------------------------------------------------------------------
 *
 * index_order.c
 *	  In which order the participants of a vacuum take indexes.
 *
 * Each participant asks here what to do next, whenever it has nothing to do.  The
 * answer follows from what its peers have begun by then, so nobody waits for
 * anybody.  First comes
 *
 *	 1. an index that only the leader may work on, if this is the leader
 *	 2. an index that only one process can work on
 *	 3. a shared index that nobody has begun
 *	 4. a shared index in progress, of which pages are left: help
 *
 * and among those of one kind the largest.
 *
 * Why this is no slower than one process for each index, as core has it.  As long as
 * an index is left that nobody has begun, each participant begins one.  That is
 * what core's participants do.  Who finds none does not wait, but helps.
 *
 * Work that cannot be divided must begin early: an index of one process that begins
 * last keeps its process busy when all others are done.  Shared indexes can
 * begin last, since all participants work on them then, and end together.  A
 * process that is busy with another index is not needed for their end (engine/nbtree.c).
 *
 * Shared indexes have an end that is one process's, the deletion of empty pages.  How
 * much that will be nobody knows before.  So the participants begin different
 * ones, where there are several, and the end of one goes along with the others' pages.
 *
 * The leader begins with what nobody can do in its place.  So that does not wait
 * for what a worker could have done.
 *
 * This is logic alone: no shared state, no locks.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "engine/index_order.h"

/* The place of an index in the list above; 0 if it is not to be taken. */
static int
rank_of(const PvUnitState *unit, bool is_leader)
{
	switch (unit->kind)
	{
		case PV_UNIT_LEADER_ONLY:
			return !unit->begun && is_leader ? 1 : 0;
		case PV_UNIT_SINGLE:
			return !unit->begun ? 2 : 0;
		case PV_UNIT_SHARED:
			if (!unit->begun)
				return 3;
			return unit->pages > 0 ? 4 : 0;
		case PV_UNIT_LATER:
			return 0;
	}
	return 0;
}

/*
 * Which index is a participant to take next?  -1 if there is nothing left for it.  Of
 * two that are alike, the first.
 */
int
pv_order_next(const PvUnitState *units, int nunits, bool is_leader)
{
	int			next = -1;
	int			next_rank = 0;

	for (int i = 0; i < nunits; i++)
	{
		int			rank = rank_of(&units[i], is_leader);

		if (rank == 0)
			continue;
		if (next < 0 || rank < next_rank ||
			(rank == next_rank && units[i].pages > units[next].pages))
		{
			next = i;
			next_rank = rank;
		}
	}
	return next;
}
