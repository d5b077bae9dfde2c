/*-------------------------------------------------------------------------
 *
 * database_scan.c
 *	  The queue of a database, and the scans that fill it.
 *
 * A database has a queue as long as there is an entry in it or a scheduler
 * worker is hired for it, and until its rest after a scan is over.  There are
 * PV_MAX_QUEUES queues.
 *
 * A database scan offers all tables that need something, the first in the
 * order first.  An entry that was not offered needs nothing any more, and is
 * removed at the end, unless a role has asked for it.
 *
 * Where the queues are full, tables that could not be queued are not lost,
 * since the statistics still have them.  If a scan could not queue all that it
 * found, the next ones continue where it ended, until all tables have had
 * their turn; then a scan begins anew.
 *
 *		a scan comes				when the launcher requests it; and at once if
 *									the last one was incomplete and the queue
 *									is empty
 *		while scans continue		a table that has had its turn waits, unless a
 *									role asks for it, or it is in danger of
 *									wraparound and was not tried before
 *		a table queued late			has waited since the first of these scans
 *
 * How far these scans have come (PvScanProgress) is also kept for a database
 * that loses its queue.
 *
 * These functions run under the queue's lock, held exclusively where anything
 * is changed.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/float.h"

#include "sched/database_scan.h"
#include "sched/entries.h"


/* ----------------------------------------------------------------
 *		Queues of databases
 * ----------------------------------------------------------------
 */

/*
 * The database gives its queue up.  If not all that its scans have found had
 * their turn, remember how far they have come, in place of the oldest such
 * record.
 */
static void
save_progress(PvQueueShared *shared, PvDatabaseQueue *queue)
{
	if (!queue->incomplete)
		return;
	queue->progress.database = queue->database;
	shared->saved[shared->next_saved] = queue->progress;
	shared->next_saved = (shared->next_saved + 1) % PV_MAX_SAVED_SCANS;
	queue->incomplete = false;
}

/*
 * The database has a queue again.  This reads PV_MAX_SAVED_SCANS records of
 * some forty bytes that follow each other, which takes some microseconds.
 */
static void
restore_progress(PvQueueShared *shared, PvDatabaseQueue *queue)
{
	memset(&queue->progress, 0, sizeof(PvScanProgress));
	queue->incomplete = false;
	for (int i = 0; i < PV_MAX_SAVED_SCANS; i++)
	{
		if (shared->saved[i].database != queue->database)
			continue;
		queue->progress = shared->saved[i];
		shared->saved[i].database = InvalidOid;
		queue->incomplete = true;
	}
}

/*
 * Evicts up to PV_QUEUE_BATCH entries of a queue without workers.  Returns
 * false if none is left.
 */
static bool
evict_some(PvQueues *queues, PvDatabaseQueue *queue)
{
	for (int i = 0;
		 i < PV_QUEUE_BATCH && !dlist_is_empty(&queue->entries); i++)
		pv_entries_evict(queues, queue,
						 dlist_head_element(PvQueueEntry, node,
											&queue->entries));
	return !dlist_is_empty(&queue->entries);
}

/*-
 * A queue for a database that has none, or NULL; it may have to be emptied.
 *
 *		a free queue
 *		else one without workers in which all entries wait: the next scan of that
 *		database finds out again what they wait for
 *		else, if the database takes one, a queue without workers whose first table
 *		is not in danger: that whose first table is the last in the order
 *
 * The walk is over PV_MAX_QUEUES queues.
 */
PvDatabaseQueue *
pv_scan_free_queue(const PvQueues *queues, bool takes)
{
	int			n = Min(PV_MAX_QUEUES, pv_entries_limit(queues));
	PvDatabaseQueue *idle = NULL;
	PvDatabaseQueue *last = NULL;

	for (int i = 0; i < n; i++)
	{
		PvDatabaseQueue *queue = &queues->shared->queues[i];
		PvQueueEntry *first = pv_entries_first_of_both(queue, true);

		if (!OidIsValid(queue->database))
			return queue;
		if (queue->nworkers > 0 || queue->scan_requested)
			continue;
		if (first == NULL && idle == NULL)
			idle = queue;
		else if (first != NULL && !first->item.rank.danger &&
				 (last == NULL ||
				  pv_entries_goes_before(pv_entries_first_of_both(last, true),
										 first)))
			last = queue;
	}
	return idle != NULL || !takes ? idle : last;
}

/*
 * The queue of a database that may not have one yet.  Returns NULL if there is
 * none.  With *again set one is being emptied: the caller is to release the
 * lock and to call this once more.
 */
PvDatabaseQueue *
pv_scan_make_queue(PvQueues *queues, Oid database, bool takes, bool *again)
{
	PvDatabaseQueue *queue = pv_entries_find_queue(queues, database);

	*again = false;
	if (queue != NULL)
		return queue;
	queue = pv_scan_free_queue(queues, takes);
	if (queue == NULL)
		return NULL;
	*again = evict_some(queues, queue);
	if (*again)
		return NULL;
	if (OidIsValid(queue->database))
		save_progress(queues->shared, queue);
	queue->database = queue->found.key.database = database;
	queue->scan_requested = queue->scanning = false;
	queue->vacuumed = queue->reported_full = queue->nothing = false;
	restore_progress(queues->shared, queue);
	queue->scanned_at = PV_NEVER;
	queue->scan_used = 0;
	return queue;
}

/* No scan of the database should be requested before. */
TimestampTz
pv_scan_rests_until(const PvQueues *queues, const PvDatabaseQueue *queue)
{
	return queue->scanned_at +
		(queue->nothing ? pv_rest_where_nothing(queues->naptime) :
		 pv_rest_after_scan(queue->scan_used));
}

/*
 * A worker has left, or was not hired.  Frees the queue if it has no worker,
 * no entry and no rest to remember.  Without workers the scan that was
 * requested is not done, so it has to be requested again.
 */
void
pv_scan_release_queue(PvQueues *queues, PvDatabaseQueue *queue)
{
	if (queue->nworkers > 0)
		return;
	queue->scan_requested = false;
	if (dlist_is_empty(&queue->entries) &&
		pv_scan_rests_until(queues, queue) <= queues->now)
	{
		save_progress(queues->shared, queue);
		queue->database = InvalidOid;
	}
}

/*
 * The database was dropped.  Removes up to PV_QUEUE_BATCH entries; those that
 * a worker is at go to the end of the list.  Returns the number of entries
 * visited.
 */
int
pv_scan_drop_some(PvQueues *queues, PvDatabaseQueue *queue)
{
	int			n = Min(PV_QUEUE_BATCH, queue->nentries);

	for (int i = 0; i < n; i++)
	{
		PvQueueEntry *entry = dlist_head_element(PvQueueEntry, node,
												 &queue->entries);

		if (entry->item.state != PV_ITEM_RUNNING)
			pv_entries_remove(queues, queue, entry);
		else
		{
			dlist_delete(&entry->node);
			dlist_push_tail(&queue->entries, &entry->node);
		}
	}
	queue->scan_requested = queue->nothing = queue->incomplete = false;
	queue->scanned_at = PV_NEVER;
	queue->scan_used = 0;
	pv_scan_release_queue(queues, queue);
	return n;
}


/* ----------------------------------------------------------------
 *		A scan
 * ----------------------------------------------------------------
 */

/* Is a scan of the database to be done now? */
static bool
is_scan_wanted(const PvDatabaseQueue *queue)
{
	return !queue->scanning &&
		(queue->scan_requested ||
		 (queue->incomplete && queue->heap[PV_SIZE_SMALL] == NULL &&
		  queue->heap[PV_SIZE_LARGE] == NULL));
}

/*
 * If a scan is wanted, this worker begins it, and must end or abandon it.
 * Returns whether it has begun one.
 */
bool
pv_scan_begin(PvQueues *queues, PvWorkerSlot *slot)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvScanProgress *progress = &queue->progress;

	if (!is_scan_wanted(queue))
		return false;
	queue->goes_on = queue->incomplete;
	if (!queue->goes_on)
	{
		progress->evicted = false;
		progress->since = queues->now;
		progress->cursor_danger = true;
		progress->cursor_score = get_float8_infinity();
		progress->cursor_relid = InvalidOid;
	}
	queue->new_pass = queue->scan_requested;
	queue->scan_requested = queue->incomplete = false;
	queue->scanning = slot->scanning = true;
	slot->queued_some = slot->nothing = false;
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

/* Does an item come before the last one that was queued, or is it that one? */
static bool
is_up_to_cursor(const PvScanProgress *progress, const PvItem *item)
{
	if (item->score.danger != progress->cursor_danger)
		return item->score.danger;
	if (item->score.total != progress->cursor_score)
		return item->score.total > progress->cursor_score;
	return item->key.relid <= progress->cursor_relid;
}

/*-
 * Does a table wait until scans begin anew?  entry is NULL if it has none.
 *
 *		it has an entry			if it has had its turn, and no role asks for it;
 *								one in danger only if it was tried before
 *		in danger				no
 *		done since they began	yes
 *		up to the cursor		if entries that had had their turn were evicted:
 *								it may be one of those
 *
 * Only then does the cursor count, because a table can also be before it by a
 * score that has grown since; where ages grow that is true of all that are
 * left.
 */
static bool
is_left_out(const PvDatabaseQueue *queue, const PvItem *item,
			const PvQueueEntry *entry)
{
	const PvScanProgress *progress = &queue->progress;

	if (!queue->goes_on)
		return false;
	if (entry != NULL)
		return pv_entries_had_turn(&entry->item) &&
			entry->item.priority == 0 &&
			(entry->item.not_completed || !item->score.danger);
	if (item->score.danger)
		return false;
	return (item->done_at != PV_NEVER && item->done_at >= progress->since) ||
		(progress->evicted && is_up_to_cursor(progress, item));
}

/*
 * Does the horizon keep a vacuum of the table from all that it is needed for?
 * The caller finds out whether its indexes have something else to do.
 */
bool
pv_scan_is_held(const PvQueues *queues, const PvItem *item)
{
	PvQueueEntry *entry = pv_entries_find(queues, item->key.database,
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
	bool		held = reason == PV_WAIT_NONE && !item->index_work &&
		pv_scan_is_held(queues, item);

	pv_entries_unplace(queue, entry);
	known->score = item->score;
	known->only_sweep = false;
	known->only_analyze = held && item->score.analyze && known->priority == 0;
	if (known->only_analyze)
		pv_score_rest(&known->score, false, true, item->pages);
	else if (held)
		reason = PV_WAIT_HORIZON;
	if (held)
	{
		known->left.dead = Min(known->left.dead, item->score.dead);
		pg_atomic_fetch_add_u64(&queues->shared->counters.skipped_horizon, 1);
	}
	known->score.total = Max(known->score.total, known->priority);
	known->pages = item->pages;
	known->toast_parent = item->toast_parent;
	if (reason == PV_WAIT_NONE || known->priority > 0)
	{
		/* the time outside of its window does not count as waiting */
		if (known->reason == PV_WAIT_WINDOW)
			known->needed_since = queues->now;
		pv_entries_place(queues, queue, entry, PV_ITEM_QUEUED, PV_WAIT_NONE);
		slot->queued_some = true;
	}
	else
	{
		pv_entries_place(queues, queue, entry, PV_ITEM_WAITING, reason);
		known->wait_until = item->wait_until;
	}
}

/*
 * The current scan offers a table, with its score, to be queued, or to wait
 * for item->reason until item->wait_until.  Tables that wait take no more than
 * half of all entries.  full says that there was no room for an earlier one:
 * then no table gets a new entry.  Returns full, or true if there is no room
 * for this one.
 */
bool
pv_scan_offer(PvQueues *queues, PvWorkerSlot *slot, const PvItem *item,
			  bool full)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvScanProgress *progress = &queue->progress;
	PvQueueEntry *entry = pv_entries_find(queues, item->key.database,
										  item->key.relid);

	if (entry != NULL)
		mark_seen(queue, entry);
	if (is_left_out(queue, item, entry))
		return full;
	if (entry == NULL && !full &&
		(item->reason == PV_WAIT_NONE ||
		 queues->shared->nentries < pv_entries_limit(queues) / 2))
	{
		TimestampTz since = queues->now;

		/* it may have found no room, or was evicted, since these scans began */
		if (queue->goes_on && progress->since != PV_NEVER)
			since = Min(since, progress->since);
		entry = pv_entries_add(queues, queue, item, since);
		full = entry == NULL && item->reason == PV_WAIT_NONE;
	}
	if (!full)
	{
		progress->cursor_danger = item->score.danger;
		progress->cursor_score = item->score.total;
		progress->cursor_relid = item->key.relid;
	}
	if (entry != NULL && entry->item.state != PV_ITEM_RUNNING)
		update_entry(queues, slot, entry, item);
	return full;
}

/*
 * All tables have been offered.  Visits up to PV_QUEUE_BATCH entries that were
 * not, which come first in the list, and removes them, since they need nothing
 * any more; those that a role has asked for are queued.  Returns false if none
 * is left.
 */
bool
pv_scan_remove_unseen(PvQueues *queues, PvWorkerSlot *slot)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);

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
		if (entry->item.priority == 0)
			pv_entries_remove(queues, queue, entry);
		else if (entry->item.state == PV_ITEM_WAITING)
		{
			pv_entries_unplace(queue, entry);
			pv_entries_enqueue_again(queues, queue, entry);
		}
	}
	return true;
}

/*
 * The scan ends.  complete says that all it has found is queued or waits, used
 * is the CPU time it took, in microseconds.
 *
 * Only a scan that was requested counts for when the next one is due.  If
 * nothing at all could be queued, because other databases or waiting tables
 * have taken all entries, another scan at once would not do better.  Returns
 * whether it is to be reported that the queue is full: once, until a scan is
 * complete again.
 */
bool
pv_scan_end(PvQueues *queues, PvWorkerSlot *slot, bool complete, int64 used)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvSchedulerCounters *counters = &queues->shared->counters;
	bool		report;

	queue->scanning = slot->scanning = false;
	if (queue->new_pass)
	{
		queue->vacuumed |= !slot->nothing;
		queue->scanned_at = queues->now;
		queue->scan_used = used;
		queue->nothing = slot->nothing;
	}
	queue->incomplete |= !complete && slot->queued_some;
	report = !complete && !queue->reported_full;
	queue->reported_full = !complete;
	pg_atomic_fetch_add_u64(&counters->database_scans, 1);
	if (!complete)
		pg_atomic_fetch_add_u64(&counters->queue_full, 1);
	return report;
}

/* The scan has failed, or its worker exits; it is left to the next one. */
void
pv_scan_abandon(PvQueues *queues, PvWorkerSlot *slot)
{
	if (slot->scanning)
		pv_queue_of(queues, slot)->scanning = slot->scanning = false;
}
