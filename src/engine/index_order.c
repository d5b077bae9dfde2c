/*-------------------------------------------------------------------------
 *
 * index_order.c
 *	  The order in which the participants of a vacuum take indexes.
 *
 * A participant that has nothing to do asks here what to take next.  The order
 * is
 *
 *	 1. an index that only the leader may work on, if this is the leader
 *	 2. an index that only one process can work on
 *	 3. a shared index that is not yet begun
 *	 4. a shared index in progress with unclaimed pages: help
 *
 * and the largest index first among those of one kind.
 *
 * Work that cannot be divided begins early, because its process would still be
 * busy when all others are done.  Shared indexes can begin last: all
 * participants work on them, and end together.
 *
 * One process ends a shared index, by the deletion of empty pages, and nobody
 * knows in advance how long that takes.  So the participants begin different
 * shared indexes if there are several, and work on pages of the others goes on
 * meanwhile.  A participant helps where core's would wait.
 *
 * This is logic alone: no shared state, no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "engine/participant.h"

/*
 * Return the position of an index in the list above; 0 if it is not to be
 * taken.
 */
static int
rank_of(const PvUnitState *unit, bool is_leader)
{
	if (unit->begun)
		return unit->kind == PV_UNIT_SHARED && unit->pages > 0 ? 4 : 0;
	switch (unit->kind)
	{
		case PV_UNIT_LEADER_ONLY:
			return is_leader ? 1 : 0;
		case PV_UNIT_SINGLE:
			return 2;
		case PV_UNIT_SHARED:
			return 3;
		case PV_UNIT_LATER:
			break;
	}
	return 0;
}

/*
 * Return the index that a participant should take next, or PV_ORDER_NONE.  Of
 * two equal ones it is the first.
 */
int
pv_order_next(const PvUnitState *units, int nunits, bool is_leader)
{
	int			next = PV_ORDER_NONE;
	int			next_rank = 0;

	for (int i = 0; i < nunits; i++)
	{
		int			rank = rank_of(&units[i], is_leader);

		if (rank != 0 &&
			(next == PV_ORDER_NONE || rank < next_rank ||
			 (rank == next_rank && units[i].pages > units[next].pages)))
		{
			next = i;
			next_rank = rank;
		}
	}
	return next;
}
