/*-------------------------------------------------------------------------
 *
 * index_order.c
 *	  The order in which the participants of a vacuum take indexes.
 *
 * A participant that has nothing to do asks here what to take next.  The
 * answer depends on what the others have begun by then, so no participant
 * waits for another.  The order is
 *
 *	 1. an index that only the leader may work on, if this is the leader
 *	 2. an index that only one process can work on
 *	 3. a shared index that is not yet begun
 *	 4. a shared index in progress with unclaimed pages: help
 *
 * and the largest index first among those of one kind.
 *
 * This is not slower than one process for each index, as in core.  As long as
 * there are indexes that are not begun, each participant begins one, as core's
 * participants do.  After that a participant does not wait, but helps.
 *
 * Work that cannot be divided must begin early: if an index of one process
 * begins last, that process is still busy when all others are done.  Shared
 * indexes can begin last, because all participants work on them then and end
 * together.  The end of a shared index does not need a participant that is
 * busy with another index (engine/nbtree.c).
 *
 * The end of a shared index, the deletion of empty pages, is done by one
 * process, and the amount of that work is not known in advance.  So the
 * participants begin different shared indexes if there are several.  The end
 * of one index then runs at the same time as work on pages of the others.
 *
 * The leader begins with what no other process can do.  So this work does not
 * wait behind work that a worker could have done.
 *
 * This is logic alone: no shared state, no locks.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "engine/index_order.h"

/* The position of an index in the list above; 0 if it is not to be taken. */
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
 * The index that a participant should take next, or PV_ORDER_NONE.  Of two
 * equal ones it is the first.
 */
int
pv_order_next(const PvUnitState *units, int nunits, bool is_leader)
{
	int			next = PV_ORDER_NONE;
	int			next_rank = 0;

	for (int i = 0; i < nunits; i++)
	{
		int			rank = rank_of(&units[i], is_leader);

		if (rank == 0)
			continue;
		if (next == PV_ORDER_NONE || rank < next_rank ||
			(rank == next_rank && units[i].pages > units[next].pages))
		{
			next = i;
			next_rank = rank;
		}
	}
	return next;
}
