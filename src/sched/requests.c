/*-------------------------------------------------------------------------
 *
 * requests.c
 *	  What sessions ask of the scheduler's queue.
 *
 * parvacuum_enqueue() has a table queued at a priority, parvacuum_cancel() has
 * a table given up.  These functions run under the queue's lock, held
 * exclusively.  They visit one entry, and walk over the PV_MAX_SCHED_WORKERS
 * slots.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/entries.h"
#include "sched/requests.h"
#include "sched/slots.h"

/*
 * Is the table still to be vacuumed for a role?  From the recheck on, when the
 * worker has seen that the table is not to be put back, the request is being
 * carried out.
 */
static bool
is_requested(const PvQueues *queues, const PvQueueEntry *entry)
{
	const PvWorkerSlot *slot;

	if (entry->item.priority == 0)
		return false;
	if (entry->item.state != PV_ITEM_RUNNING || entry->item.again)
		return true;
	slot = pv_slots_find_at(queues, &entry->item);
	return slot != NULL && !slot->rechecked;
}

/* What a request means for a table that has an entry. */
static PvEnqueueResult
describe_request(const PvQueueEntry *entry, double priority)
{
	if (entry->item.state == PV_ITEM_RUNNING)
		return PV_ENQUEUED_AGAIN;
	if (entry->item.state == PV_ITEM_WAITING)
		return PV_ENQUEUED;
	return priority > entry->item.score.total ? PV_ENQUEUED_HIGHER :
		PV_ENQUEUED_BEFORE;
}

/*
 * A role asks for a table: item has its key, size, priority and role.  A
 * higher priority that was asked for before remains, and with it the role that
 * has asked.  A limited role can have no more entries than its share.
 */
PvEnqueueResult
pv_request_table(PvQueues *queues, PvDatabaseQueue *queue, const PvItem *item,
				 bool limited)
{
	PvQueueEntry *entry = pv_entries_find(queues, item->key.database,
										  item->key.relid);
	PvHolder   *holder = pv_entries_find_holder(queues, queue, item->role);
	bool		keep = entry != NULL && is_requested(queues, entry) &&
		entry->item.priority >= item->priority;
	PvEnqueueResult result = PV_ENQUEUED;

	if (!keep && limited && holder != NULL &&
		(entry == NULL || entry->holder != holder) &&
		holder->nentries >= pv_share_of_role(pv_entries_limit(queues)))
		return PV_ENQUEUE_SHARE;
	if (!keep && !pv_entries_can_hold(queues, queue, item->role))
		return PV_ENQUEUE_FULL;
	if (entry != NULL)
		result = describe_request(entry, item->priority);
	else
		entry = pv_entries_add(queues, queue, item, queues->now);
	if (entry == NULL)
		return PV_ENQUEUE_FULL;

	pv_entries_unplace(queue, entry);
	if (!keep)
		pv_entries_set_request(queues, queue, entry, item->role,
							   item->priority);
	if (entry->item.state == PV_ITEM_RUNNING)
		entry->item.again = true;
	else
		pv_entries_enqueue_again(queues, queue, entry);
	return result;
}

/*
 * A worker is at the table.  Its score may have grown since the table was
 * queued, which the worker sees when it rechecks the table.  Before that, a
 * role that may not cancel what prevents wraparound only leaves a note for the
 * worker, which cancels itself if it may (pv_slots_recheck).  Otherwise the
 * worker is returned: the caller is to send SIGINT to it.
 */
static PvWorkerSlot *
cancel_running(PvQueues *queues, PvQueueEntry *entry, bool wraparound_too)
{
	PvWorkerSlot *slot = pv_slots_find_at(queues, &entry->item);

	entry->item.again = false;
	if (slot != NULL && !slot->rechecked && !wraparound_too)
	{
		slot->cancel_asked = true;
		return NULL;
	}
	return slot;
}

/*
 * Has a table given up.  If it is queued, it waits for the next database scan;
 * if a worker is at it, the worker is cancelled, and *cancel is set if the
 * caller is to do that.  A vacuum that prevents wraparound is left alone
 * unless that may be given up as well.
 */
PvWithdrawn
pv_request_withdraw(PvQueues *queues, Oid database, Oid relid,
					bool wraparound_too, PvWorkerSlot **cancel)
{
	PvQueueEntry *entry = pv_entries_find(queues, database, relid);
	PvDatabaseQueue *queue = pv_entries_find_queue(queues, database);

	*cancel = NULL;
	if (entry == NULL || entry->item.state == PV_ITEM_WAITING)
		return PV_WITHDRAWN_NOTHING;
	if (entry->item.score.wraparound && !wraparound_too)
		return PV_WITHDRAWN_REFUSED;
	if (entry->item.state == PV_ITEM_RUNNING)
	{
		*cancel = cancel_running(queues, entry, wraparound_too);
		return PV_WITHDRAWN_DONE;
	}

	pv_entries_unplace(queue, entry);
	pv_entries_set_request(queues, queue, entry, InvalidOid, 0);
	entry->item.only_analyze = entry->item.only_sweep = false;
	pv_entries_place(queues, queue, entry, PV_ITEM_WAITING, PV_WAIT_CANCELED);
	return PV_WITHDRAWN_DONE;
}
