/*-------------------------------------------------------------------------
 *
 * large_places.c
 *	  How many scheduler workers may be on large tables, and which.
 *
 * The number of workers on large tables is limited so that one is left for
 * small tables.  The last of these places is for the large table that is first
 * of all databases, or one database would hold them all as long as it has
 * any.  A large table in danger of wraparound does not wait for those that are
 * not: there are as many places for such tables alone.  The rules are in
 * sched/policy.c, pv_large_place().
 *
 * A worker has its place while it vacuums or sweeps the pages of the table.
 * Functions of the table's owner, which ANALYZE and the cleanup of an index
 * run, may take as long as they like up to a limit, so it gives the place up
 * before.  It still is at a large table then, and another worker may be
 * started for small ones.
 *
 * These functions run under the queue's lock, held exclusively where they
 * change anything.  They walk over the PV_MAX_SCHED_WORKERS slots and the
 * PV_MAX_QUEUES queues, and over no entries.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/entries.h"
#include "sched/large_places.h"

/*
 * Counts the workers on large tables, and finds the large table that goes
 * first.
 */
void
pv_large_get_use(const PvQueues *queues, int max_large, PvLargeUse *use)
{
	memset(use, 0, sizeof(*use));
	use->max_large = max_large;
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		use->nlarge += slot->hired && slot->has_place;
		use->ndanger += slot->hired && slot->has_place && slot->on_danger;
	}
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		const PvDatabaseQueue *queue = &queues->shared->queues[i];

		if (pv_entries_goes_before(pv_entries_first(queue, PV_SIZE_LARGE),
								   use->first ?
								   pv_entries_first(use->first,
													PV_SIZE_LARGE) : NULL))
			use->first = queue;
	}
}

/* May a worker of the queue take a large table, and why? */
static PvLargePlace
large_place(const PvQueues *queues, const PvDatabaseQueue *queue,
			const PvLargeUse *use)
{
	const PvQueueShared *shared = queues->shared;
	const PvQueueEntry *large = pv_entries_first(queue, PV_SIZE_LARGE);
	PvLargeState state = {
		.nlarge = use->nlarge,
		.ndanger = use->ndanger,
		.max_large = use->max_large,
		.in_danger = large != NULL && large->item.rank.danger,
		.behind_other = large != NULL && use->first != queue
	};

	if (state.behind_other && shared->kept_for == use->first->database)
		state.kept = queues->now - shared->kept_since;
	return pv_large_place(&state);
}

/* May a worker of the queue take a large table? */
bool
pv_large_is_allowed(const PvQueues *queues, const PvDatabaseQueue *queue,
					int max_large)
{
	PvLargeUse	use;

	pv_large_get_use(queues, max_large, &use);
	return pv_has_large_place(large_place(queues, queue, &use));
}

/*
 * The same, for a worker that is about to take a table, or for the launcher's
 * view.  If the answer is that the last place is for another database, it is
 * kept for that one from now on.
 */
bool
pv_large_ask(PvQueues *queues, const PvDatabaseQueue *queue,
			 const PvLargeUse *use)
{
	PvQueueShared *shared = queues->shared;
	PvLargePlace place = large_place(queues, queue, use);

	if (place == PV_LARGE_FREE || place == PV_LARGE_TAKEN)
		shared->kept_for = InvalidOid;
	else if (place == PV_LARGE_KEPT &&
			 shared->kept_for != use->first->database)
	{
		shared->kept_for = use->first->database;
		shared->kept_since = queues->now;
	}
	return pv_has_large_place(place);
}

/*
 * Gives up the place that is kept, if the database that it is kept for has no
 * large table queued any more.
 */
void
pv_large_drop_kept_place(PvQueues *queues)
{
	PvQueueShared *shared = queues->shared;
	PvDatabaseQueue *queue = NULL;

	if (OidIsValid(shared->kept_for))
		queue = pv_entries_find_queue(queues, shared->kept_for);
	if (queue == NULL || queue->heap[PV_SIZE_LARGE] == NULL)
		shared->kept_for = InvalidOid;
}
