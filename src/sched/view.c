/*-------------------------------------------------------------------------
 *
 * view.c
 *	  What the launcher sees of the queues, and what it asks of workers.
 *
 * The launcher decides by a view of all queues, which is taken at one moment
 * (sched/plan.c).  What it then asks of the workers of a database is addressed
 * to the one that can do it soonest, as they are by then.
 *
 * These functions run under the queue's lock, exclusive unless they take their
 * argument as const.  They walk over the PV_MAX_SCHED_WORKERS slots, the
 * PV_MAX_QUEUES queues, or both, and over no entries.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "sched/database_scan.h"
#include "sched/entries.h"
#include "sched/large_places.h"
#include "sched/view.h"

/*
 * Was it hired long ago, and has neither attached nor ended?  The launcher has
 * ended it because it was late.  Until it should be gone it counts, or there
 * would be more processes than are allowed; after that it does not.
 */
static bool
is_stuck(const PvQueues *queues, const PvWorkerSlot *slot)
{
	return slot->pid == 0 &&
		TimestampDifferenceExceeds(slot->hired_at, queues->now,
								   PV_LATE_AFTER_MS + PV_GONE_WITHIN_MS);
}

/* Will it be idle soon, or leave soon if it is called back? */
static bool
is_free_soon(const PvQueues *queues, const PvWorkerSlot *slot)
{
	return !slot->on_large &&
		!(slot->busy &&
		  TimestampDifferenceExceeds(slot->busy_since, queues->now,
									 PV_LATE_AFTER_MS));
}

static void
add_worker(const PvQueues *queues, const PvWorkerSlot *slot, PvQueueView *view,
		   PvQueueSummary *summary)
{
	bool		free_soon = is_free_soon(queues, slot);

	summary->nfree += free_soon && !slot->leave;
	summary->nexpected += slot->pid == 0;
	if (is_stuck(queues, slot))
		return;
	view->nlarge += slot->on_large;
	view->nworkers++;
	summary->nworkers++;
	summary->nleaving += slot->leave;
	summary->nleaving_soon += slot->leave && free_soon;
	summary->nmovable += !slot->leave && free_soon && slot->pid != 0;
}

/*
 * A requested scan is on its way only if a worker can do it that will be idle
 * soon and is not about to leave.
 */
static void
describe_queue(const PvQueues *queues, const PvDatabaseQueue *queue,
			   bool large_allowed, PvQueueSummary *summary)
{
	PvQueueEntry *first = pv_entries_first_of_both(queue, large_allowed);

	summary->database = queue->database;
	summary->top_score = first ? pv_urgency(&first->item.rank,
											queues->now) : 0;
	summary->top_danger = first != NULL && first->item.rank.danger;
	summary->nqueued = queue->nqueued[PV_SIZE_SMALL];
	if (large_allowed)
		summary->nqueued += queue->nqueued[PV_SIZE_LARGE];
	summary->scan_pending = queue->scanning ||
		(queue->scan_requested && summary->nfree > 0);
	if (summary->scan_pending)
		summary->nmovable = 0;	/* they are to end the scan first */
	summary->rests_until = pv_scan_rests_until(queues, queue);
}

/*
 * The state of all queues, where up to max_large workers may be on large
 * tables.  This needs the lock exclusively, since it corrects the place that
 * is kept for a large table.
 */
void
pv_view_take(PvQueues *queues, int max_large, PvQueueView *view)
{
	PvQueueShared *shared = queues->shared;
	PvQueueSummary of_queue[PV_MAX_QUEUES] = {0};
	PvLargeUse	use;

	view->n = view->nworkers = view->nlarge = 0;
	pv_large_drop_kept_place(queues);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &shared->slots[i];

		if (!slot->hired)
			continue;
		add_worker(queues, slot, view, &of_queue[slot->queue]);
	}
	pv_large_get_use(queues, max_large, &use);
	view->nlarge = pv_count_large(view->nlarge, use.nlarge, max_large);
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		PvDatabaseQueue *queue = &shared->queues[i];

		if (!OidIsValid(queue->database))
			continue;
		describe_queue(queues, queue, pv_large_ask(queues, queue, &use),
					   &of_queue[i]);
		view->summaries[view->n++] = of_queue[i];
	}
	view->full = pv_scan_free_queue(queues, false) == NULL;
	view->none_to_take = pv_scan_free_queue(queues, true) == NULL;
}

/*
 * Is there anything that another worker could begin with before long, where up
 * to max_large workers may be on large tables?  A large table that waits for a
 * place does not count, since the worker that gives up a place wakes the
 * launcher.
 */
bool
pv_view_is_busy(const PvQueues *queues, int max_large)
{
	PvLargeUse	use;

	pv_large_get_use(queues, max_large, &use);
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		const PvDatabaseQueue *queue = &queues->shared->queues[i];
		const PvQueueEntry *large = pv_entries_first(queue, PV_SIZE_LARGE);

		if (OidIsValid(queue->database) &&
			(queue->scan_requested || queue->heap[PV_SIZE_SMALL] != NULL ||
			 (large != NULL &&
			  (use.nlarge < max_large ||
			   (large->item.rank.danger && use.ndanger < max_large)))))
			return true;
	}
	return false;
}

/*
 * Has the next worker of the database scan it.  Returns false if there is none
 * that will be idle soon and stays.
 */
bool
pv_view_request_scan(PvQueues *queues, Oid database)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];
		PvDatabaseQueue *queue = pv_queue_of(queues, slot);

		if (slot->hired && is_free_soon(queues, slot) && !slot->leave &&
			queue->database == database)
		{
			queue->scan_requested = true;
			return true;
		}
	}
	return false;
}

/*
 * Has one worker of that database leave, for the sake of another database: one
 * that can leave soon, if there is any.
 */
void
pv_view_call_back(PvQueues *queues, Oid database)
{
	PvWorkerSlot *found = NULL;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (!slot->hired || slot->leave || is_stuck(queues, slot) ||
			pv_queue_of(queues, slot)->database != database)
			continue;
		if (found == NULL ||
			(!is_free_soon(queues, found) && is_free_soon(queues, slot)))
			found = slot;
	}
	if (found != NULL)
		found->leave = true;
}
