/*-------------------------------------------------------------------------
 *
 * queue_scan.c
 *	  A database scan fills the scheduler's queue.
 *
 * It offers all tables of the database that need something.  An entry that was
 * not offered needs nothing any more, and is removed at the end, unless a role
 * has requested it.  A table that finds no room is found again by a later
 * scan, which comes at once when nothing of the database is queued any more.
 *
 * These functions are a part of sched/queue.c, and obey the rules that are said
 * there.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/queue.h"

/*
 * If a scan is to be done, this worker begins it, and must end it.  Returns
 * whether it has begun one.
 */
bool
pv_queue_begin_scan(PvQueues *queues, PvWorkerSlot *slot)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);

	if (!pv_queue_wants_scan(queue))
		return false;
	queue->new_pass = queue->scan_requested;
	queue->scan_requested = false;
	queue->scanning = slot->scanning = true;
	slot->queued_some = false;
	slot->canceled_at = PV_NEVER;
	queue->scan++;
	return true;
}

/* The current scan has seen the entry. */
static void
mark_seen(PvDatabaseQueue *queue, PvQueueEntry *entry)
{
	entry->seen = queue->scan;
	dlist_delete(&entry->node);
	dlist_push_tail(&queue->entries, &entry->node);
}

/*
 * Does the horizon keep a vacuum of the table from all that it is needed for?
 * The caller finds out whether its indexes have something else to do.
 */
bool
pv_queue_is_held(const PvQueues *queues, const PvItem *item)
{
	PvQueueEntry *entry = pv_queue_find_table(queues, item->key.database,
											  item->key.relid);

	return entry != NULL &&
		pv_vacuum_is_useless(&item->score, &entry->item.left, item->horizon);
}

/*
 * A table that has an entry is offered: the entry gets the new score.  If a
 * vacuum would remove nothing, the table goes on waiting, or is only analyzed.
 */
static void
update_entry(PvQueues *queues, PvWorkerSlot *slot, PvQueueEntry *entry,
			 const PvItem *item)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvItem	   *known = &entry->item;
	PvWaitReason reason = item->reason;
	bool		requested = entry->requester != NULL;
	bool		held = reason == PV_WAIT_NONE && !item->index_work &&
		pv_queue_is_held(queues, item);

	pv_entry_unqueue(queue, entry);
	if (known->owner != item->owner)
		(void) pv_entry_set_owner(queues, queue, entry, item->owner);
	known->score = item->score;
	known->pages = item->pages;
	known->toast_parent = item->toast_parent;
	known->held = held && item->score.analyze && !requested;
	if (held)
	{
		known->left.dead = Min(known->left.dead, item->score.dead);
		pg_atomic_fetch_add_u64(&queues->shared->counters.skipped_horizon, 1);
		if (known->held)
			pv_score_rest(&known->score, false, true, item->pages);
		else
			reason = PV_WAIT_HORIZON;
	}
	if (reason == PV_WAIT_NONE || requested)
	{
		/* the time outside of its window does not count as waiting */
		if (known->reason == PV_WAIT_WINDOW)
			known->needed_since = queues->now;
		pv_entry_enqueue(queues, queue, entry);
	}
	else
	{
		pv_entry_set_state(queues, queue, entry, PV_ITEM_WAITING, reason);
		known->wait_until = item->wait_until;
	}
}

/*
 * The current scan offers a table, with its score, to be queued, or to wait
 * for item->reason until item->wait_until.  Those that wait get no more than
 * half of all places.  Returns false if there is no room for one that is to be
 * queued.
 */
bool
pv_queue_offer(PvQueues *queues, PvWorkerSlot *slot, const PvItem *item)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvQueueEntry *entry = pv_queue_find_table(queues, item->key.database,
											  item->key.relid);
	bool		waits = item->reason != PV_WAIT_NONE;

	if (entry != NULL)
		mark_seen(queue, entry);
	else if (!waits || queues->shared->nentries < queues->limit / 2)
	{
		int			before = queues->shared->nentries;

		entry = pv_entry_add(queues, queue, item);
		slot->queued_some |= !waits && queues->shared->nentries > before;
	}
	if (entry == NULL)
		return waits;
	if (entry->item.state != PV_ITEM_RUNNING)
		update_entry(queues, slot, entry, item);
	return true;
}

/*
 * All tables have been offered.  Visits up to PV_QUEUE_BATCH entries that were
 * not, which come first in the list, and removes them, since they need nothing
 * any more; those that a role has requested are queued.  Returns false if none
 * is left.
 */
bool
pv_queue_remove_unseen(PvQueues *queues, PvDatabaseQueue *queue)
{
	for (int i = 0; i < PV_QUEUE_BATCH; i++)
	{
		PvQueueEntry *entry;

		if (dlist_is_empty(&queue->entries))
			return false;
		entry = dlist_head_element(PvQueueEntry, node, &queue->entries);
		if (entry->seen == queue->scan)
			return false;
		mark_seen(queue, entry);
		if (entry->item.state == PV_ITEM_RUNNING)
			continue;
		if (entry->requester == NULL)
			pv_entry_remove(queues, queue, entry);
		else if (entry->item.state == PV_ITEM_WAITING)
			pv_entry_enqueue(queues, queue, entry);
	}
	return true;
}

/*
 * The scan ends, or has failed.  complete says that all it has found is queued
 * or waits, nothing that no table has opted in, and used is the CPU time it
 * took, in microseconds.
 *
 * Only a scan that was requested counts for when the next one is due.  If
 * nothing could be queued without pushing out tables that wait, another scan
 * at once would not do better.  Returns
 * whether it is to be reported that the queue is full: once, until a scan is
 * complete again.
 */
bool
pv_queue_end_scan(PvQueues *queues, PvWorkerSlot *slot, bool complete,
				  bool nothing, int64 used)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvSchedulerCounters *counters = &queues->shared->counters;
	bool		report = !complete && !queue->reported_full;

	queue->scanning = slot->scanning = false;
	if (queue->new_pass)
	{
		queue->vacuumed |= !nothing;
		queue->scanned_at = queues->now;
		queue->scan_used = used;
		queue->nothing = nothing;
	}
	queue->incomplete = !complete && slot->queued_some;
	queue->reported_full = !complete;
	pg_atomic_fetch_add_u64(&counters->database_scans, 1);
	if (!complete)
		pg_atomic_fetch_add_u64(&counters->queue_full, 1);
	return report;
}
