/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The scheduler's queue of tables.
 *
 * A table is one entry of a hash table, by database and OID.  So it is queued
 * once, and the scheduler worker that takes it is the only one to work on it.
 *
 *		scan, request --> queued --> running --> done: no entry any more
 *						    ^		   |
 *							|		   +-------> waiting
 *							+---------------------+
 *									next scan
 *
 * A database scan offers all tables of the database that need something.  An
 * entry that was not offered is removed at the end, unless a role has
 * requested it.
 *
 * Which table goes first is in sched/policy.c.  The lists of databases and of
 * tables, and the heaps of those that are queued, are in sched/entries.c.
 *
 * All functions here run under the lock, held exclusively unless they take the
 * queue as const.  They know no clock, no process and no setting but those in
 * PvQueues, so that unit tests can compile them a second time.  They raise no
 * errors and allocate only in the hash tables, which have room for all.  Each
 * visits one entry, or up to PV_QUEUE_BATCH of them, and walks over all
 * workers, databases, or owners of a database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "sched/queue.h"

/* Places that a copy visits at a time; most of them may be free */
#define PLACES_AT_ONCE			(16 * PV_QUEUE_BATCH)


/* ----------------------------------------------------------------
 *		Sessions
 * ----------------------------------------------------------------
 */

/*
 * Request a table for a role: item has its key, owner, size and urgency.  An
 * urgent request remains urgent.
 */
PvEnqueueResult
pv_queue_request(PvQueues *queues, const PvItem *item)
{
	PvDatabaseQueue *queue = pv_queue_make(queues, item->key.database);
	PvQueueEntry *entry = queue == NULL ? NULL :
		pv_queue_find_table(queues, item->key.database, item->key.relid);
	bool		running;
	bool		before;

	if (queue != NULL && entry == NULL)
		entry = pv_entry_add(queues, queue, item);
	if (entry == NULL)
		return PV_ENQUEUE_FULL;
	running = entry->item.state == PV_ITEM_RUNNING;
	before = entry->item.requested &&
		(entry->item.urgent || !item->urgent) &&
		(!running || entry->item.again);
	pv_entry_unqueue(entry);
	if (!before)
		pv_entry_set_request(queues, entry, true, item->urgent);
	if (running)
	{
		entry->item.again = true;
		return PV_ENQUEUED_AGAIN;
	}
	entry->item.maybe_held = false;
	pv_entry_enqueue(queues, entry);
	return before ? PV_ENQUEUED_BEFORE : PV_ENQUEUED;
}

/*
 * Give a table up.  If it is queued, it waits for the next database scan.
 * If a worker is at it, *slot is that worker.  A vacuum that prevents
 * wraparound is left alone unless that may be given up as well.
 */
PvWithdrawn
pv_queue_withdraw(PvQueues *queues, Oid database, Oid relid,
				  bool wraparound_too, PvWorkerSlot **slot)
{
	PvQueueEntry *entry = pv_queue_find_table(queues, database, relid);

	if (entry == NULL || entry->item.state == PV_ITEM_WAITING)
		return PV_WITHDRAWN_NOTHING;
	if (entry->item.score.wraparound && !wraparound_too)
		return PV_WITHDRAWN_REFUSED;
	if (entry->item.state == PV_ITEM_RUNNING)
	{
		PvWorkerSlot *slots = queues->shared->slots;

		entry->item.again = false;
		for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
		{
			if (slots[i].entry == entry)
				*slot = &slots[i];
		}
		return PV_WITHDRAWN_RUNNING;
	}
	pv_entry_unqueue(entry);
	pv_entry_set_request(queues, entry, false, false);
	pv_entry_set_state(queues, entry, PV_ITEM_WAITING, PV_WAIT_CANCELED);
	return PV_WITHDRAWN_DONE;
}

/*
 * Copy up to PV_QUEUE_BATCH items of a database, or of all databases if the
 * OID is invalid, from that place on.  Return their number, and set *place
 * to where to go on: PV_QUEUE_SIZE at the end.
 */
int
pv_queue_copy_some(const PvQueues *queues, Oid database, int *place,
				   PvItem *items)
{
	int			end = Min(*place + PLACES_AT_ONCE, PV_QUEUE_SIZE);
	int			n = 0;

	for (; *place < end && n < PV_QUEUE_BATCH; (*place)++)
	{
		const PvQueueEntry *entry = queues->shared->places[*place];

		if (entry == NULL ||
			(OidIsValid(database) && entry->item.key.database != database))
			continue;
		items[n] = entry->item;
		items[n++].charge = pv_queue_charge(queues, entry->item.owner);
	}
	return n;
}


/* ----------------------------------------------------------------
 *		The launcher
 * ----------------------------------------------------------------
 */

/*
 * Return when the database is to be scanned next: at once if the last scan
 * could not queue all that it had found, and nothing is queued any more.
 */
static TimestampTz
due_at(const PvQueues *queues, const PvDatabaseQueue *queue)
{
	if (queue->incomplete && queue->nqueued == 0)
		return queue->scanned_at;
	return Max(queue->begun_at + queues->naptime, queue->scanned_at +
			   pv_rest_after_scan(queue->scan_used, queue->nothing,
								  queues->naptime));
}

/* Count the workers, or only those that have a place at large tables. */
static int
count_workers(const PvQueues *queues, bool large)
{
	int			n = 0;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		n += slot->used && (slot->large || !large);
	}
	return n;
}

/* Is there a place for another worker at large tables? */
bool
pv_queue_has_large_place(const PvQueues *queues)
{
	return count_workers(queues, true) < pv_max_large(queues->nworkers);
}

/* Set how many workers may be started, and if there is room for databases. */
void
pv_queue_count_free(const PvQueues *queues, PvDatabases *all)
{
	all->now = queues->now;
	all->nfree = queues->nworkers - count_workers(queues, false);
	all->nlarge = pv_max_large(queues->nworkers) -
		count_workers(queues, true);
	all->full = hash_get_num_entries(queues->databases) >= PV_MAX_QUEUES;
}

/* Set what the queue of a database says about it. */
void
pv_queue_describe(const PvQueues *queues, const PvDatabaseQueue *queue,
				  PvDatabase *database)
{
	const PvQueueEntry *first =
		pv_queue_first(queues, queue, pv_queue_has_large_place(queues),
					   &database->first);

	database->started_at = queue->started_at;
	database->nfailures = queue->nfailures;
	database->not_before = queue->nfailures == 0 ? PV_NEVER :
		queue->failed_at + pv_start_again_after(queue->nfailures - 1);

	/* So one that cannot be connected to is not always the longest overdue */
	database->due = Max(due_at(queues, queue), database->not_before);
	database->has_queue = true;
	database->scanning = queue->scanning;
	database->nworkers = queue->nworkers;
	database->expected = false;
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		database->expected |= slot->used && !slot->connected &&
			slot->queue == queue;
	}
	database->has_first = first != NULL;
	database->first_is_large = first != NULL &&
		pv_wants_large_place(&first->item);
}

/*
 * Return a slot for a worker that is about to be started, for a scan or not,
 * or NULL.  It has a place at large tables on demand.
 */
PvWorkerSlot *
pv_queue_add_worker(PvQueues *queues, Oid database, bool to_scan, bool large)
{
	PvQueueShared *shared = queues->shared;
	PvDatabaseQueue *queue = pv_queue_make(queues, database);

	for (int i = 0; i < PV_MAX_SCHED_WORKERS && queue != NULL; i++)
	{
		PvWorkerSlot *slot = &shared->slots[i];

		if (slot->used)
			continue;
		memset(slot, 0, sizeof(*slot));
		slot->used = true;
		slot->token = ++shared->next_token;
		slot->since = queues->now;
		slot->queue = queue;
		slot->to_scan = to_scan;
		slot->large = large && pv_queue_has_large_place(queues);
		queue->nworkers++;
		queue->started_at = queues->now;
		return slot;
	}
	return NULL;
}


/* ----------------------------------------------------------------
 *		Workers
 * ----------------------------------------------------------------
 */

/* The worker leaves its table, whose owner is charged.  Return the entry. */
static PvQueueEntry *
leave_table(PvQueues *queues, PvWorkerSlot *slot)
{
	PvQueueEntry *entry = slot->entry;

	pv_entry_charge_owner(queues, entry->item.owner,
						  queues->now - slot->at_table.since);
	slot->entry = NULL;
	slot->core_phase = NULL;
	slot->large = false;
	slot->for_owner.since = slot->canceled_at = PV_NEVER;
	return entry;
}

/*
 * Remove a worker that ends, or was not started.  What it was at, a table or a
 * scan, is left to the next scan.
 */
void
pv_queue_remove_worker(PvQueues *queues, PvWorkerSlot *slot)
{
	PvDatabaseQueue *queue = slot->queue;

	if (slot->entry != NULL)
		pv_queue_finish(queues, slot, 0, PV_WAIT_ERROR, InvalidTransactionId);
	if (slot->scanning)
		queue->scanning = false;
	slot->used = slot->scanning = false;
	queue->nworkers--;
}

/* Remove a worker that could not connect to its database. */
void
pv_queue_fail_worker(PvQueues *queues, PvWorkerSlot *slot)
{
	slot->queue->nfailures++;
	slot->queue->failed_at = queues->now;
	pv_queue_remove_worker(queues, slot);
}

/*
 * All workers are in use: does a table go before this one in a database that
 * has none?
 */
static bool
is_first_elsewhere(const PvQueues *queues, const PvOrder *order)
{
	bool		has_place = pv_queue_has_large_place(queues);
	dlist_iter	iter;

	if (count_workers(queues, false) < queues->nworkers)
		return false;
	dlist_foreach(iter, &queues->shared->databases)
	{
		const PvDatabaseQueue *queue =
			dlist_container(PvDatabaseQueue, node, iter.cur);
		PvOrder		other;

		if (queue->nworkers == 0 && queue->nqueued > 0 &&
			pv_queue_first(queues, queue, has_place, &other) != NULL &&
			pv_compare_order(&other, order) > 0)
			return true;
	}
	return false;
}

/*
 * The worker takes the first table of its queue.  Return false if there is
 * none for it; else *item is a copy of the table's item.
 *
 * It takes a large table only if the launcher has given it a place for that,
 * as its first one.  So the places go to the first large tables of all
 * databases.  A worker that came for a scan leaves again if the first table is
 * elsewhere.
 */
bool
pv_queue_take(PvQueues *queues, PvWorkerSlot *slot, PvItem *item)
{
	PvOrder		order;
	PvQueueEntry *entry = pv_queue_first(queues, slot->queue, slot->large,
										 &order);

	slot->large = false;
	if (entry == NULL ||
		(slot->to_scan && !slot->took && is_first_elsewhere(queues, &order)))
		return false;
	slot->took = true;
	pv_entry_unqueue(entry);
	pv_entry_set_state(queues, entry, PV_ITEM_RUNNING, PV_WAIT_NONE);
	entry->item.worker_pid = slot->pid;
	slot->entry = entry;
	slot->late = false;
	memset(&slot->at_table, 0, sizeof(PvStage));
	slot->at_table.since = queues->now;
	slot->large = pv_wants_large_place(&entry->item);
	slot->canceled_at = PV_NEVER;
	*item = entry->item;
	return true;
}

/*
 * The worker has rechecked its table, whose size in pg_class, by which it was
 * queued, may be old, or forged by the table's owner.  Return false if it is
 * large and there is no place for that, or was taken only to see whether it is
 * held back.  It is to be put back then, but not before its lock is released:
 * the next worker would find it locked.
 */
bool
pv_queue_recheck(PvQueues *queues, PvWorkerSlot *slot, const PvItem *item)
{
	PvItem	   *known = &slot->entry->item;
	bool		may = slot->large ||
		(!known->maybe_held && pv_queue_has_large_place(queues));

	known->score = item->score;
	known->pages = item->pages;
	known->maybe_held = false;
	if (pv_is_large(item) && !may)
		return false;
	slot->large = pv_is_large(item);
	return true;
}

/* Queue the table again. */
void
pv_queue_put_back(PvQueues *queues, PvWorkerSlot *slot)
{
	pv_entry_enqueue(queues, leave_table(queues, slot));
}

/*
 * The worker's table is done, or cannot be done now.  Its entry is removed, or
 * waits for the next database scan at least, or is queued again if it was
 * requested meanwhile.
 *
 * A vacuum ends a request, also one that was canceled or failed.  The request
 * stays if the table was locked before.
 *
 * horizon is the one before the vacuum, if it was begun.
 */
void
pv_queue_finish(PvQueues *queues, PvWorkerSlot *slot, uint8 done,
				PvWaitReason reason, TransactionId horizon)
{
	PvQueueEntry *entry = leave_table(queues, slot);
	PvItem	   *item = &entry->item;

	entry->queue->vacuumed |= (done & PV_DONE_VACUUM) != 0;
	item->needed_since = queues->now;
	item->tried = reason != PV_WAIT_NONE && reason != PV_WAIT_WINDOW &&
		(reason != PV_WAIT_LOCK || TransactionIdIsValid(horizon)) &&
		!item->score.sweep;
	if (!item->again &&
		((done & PV_DONE_VACUUM) != 0 || reason != PV_WAIT_LOCK))
		pv_entry_set_request(queues, entry, false, false);
	if (item->again)
		pv_entry_enqueue(queues, entry);
	else if (reason == PV_WAIT_NONE)
		pv_entry_remove(queues, entry);
	else
	{
		/* if it waits for the horizon, it is the vacuum that waits */
		bool		vacuum = reason == PV_WAIT_HORIZON ||
			(item->score.vacuum && (done & PV_DONE_VACUUM) == 0);

		if (TransactionIdIsValid(horizon))
		{
			item->left.horizon = reason == PV_WAIT_HORIZON ?
				horizon : InvalidTransactionId;
			item->left.dead = item->score.dead;
			item->left.for_age = item->score.wraparound;
		}
		if (done != 0 || reason == PV_WAIT_HORIZON)
			pv_score_rest(&item->score, vacuum, item->score.analyze &&
						  (done & PV_DONE_ANALYZE) == 0, false, item->pages);
		item->done = done;
		item->maybe_held = false;
		pv_entry_set_state(queues, entry, PV_ITEM_WAITING, reason);
	}
}

/*
 * Is the worker to leave?  Settings of the database and of roles are read only
 * at the start of a process, so none stays for ever.
 */
bool
pv_queue_should_leave(const PvQueues *queues, const PvWorkerSlot *slot)
{
	return count_workers(queues, false) > queues->nworkers ||
		queues->now - slot->since > PV_LONGEST_STAY;
}


/* ----------------------------------------------------------------
 *		Database scans
 * ----------------------------------------------------------------
 */

/*
 * If a scan is due, begin it, and return true: the worker must end it.  One
 * that was not started for that takes a table first, or databases whose scans
 * are long would have time for nothing else.
 */
bool
pv_queue_begin_scan(PvQueues *queues, PvWorkerSlot *slot)
{
	PvDatabaseQueue *queue = slot->queue;

	if (queue->scanning || queues->now < due_at(queues, queue) ||
		(!slot->to_scan && !slot->took))
		return false;
	queue->begun_at = queues->now;
	queue->scanning = slot->scanning = true;
	queue->incomplete = false;
	slot->queued_some = false;
	slot->canceled_at = PV_NEVER;
	queue->scan++;
	return true;
}

/* Mark the entry as seen by the current scan. */
static void
mark_seen(PvQueueEntry *entry)
{
	entry->seen = entry->queue->scan;
	dlist_move_tail(&entry->queue->entries, &entry->node);
}

/* Give the entry of a table that is offered the new score, and queue it. */
static void
update_entry(PvQueues *queues, PvQueueEntry *entry, const PvItem *item)
{
	PvItem	   *known = &entry->item;

	pv_entry_unqueue(entry);
	if (known->owner != item->owner)
		pv_entry_set_owner(queues, entry, item->owner);
	known->score = item->score;
	known->tried |= item->tried;
	known->pages = item->pages;
	known->toast_parent = item->toast_parent;
	known->left.dead = Min(known->left.dead, item->score.dead);
	known->maybe_held = TransactionIdIsValid(known->left.horizon) &&
		!known->requested;
	if (item->reason == PV_WAIT_NONE || known->requested)
	{
		/* the time outside of its window does not count as waiting */
		if (known->reason == PV_WAIT_WINDOW)
			known->needed_since = queues->now;
		pv_entry_enqueue(queues, entry);
	}
	else
	{
		pv_entry_set_state(queues, entry, PV_ITEM_WAITING, item->reason);
		known->wait_until = item->wait_until;
	}
}

/*
 * The current scan offers a table, with its score, to be queued, or to wait
 * for item->reason until item->wait_until.  Those that wait get no more than
 * half of all places.  Return false if there is no room for one that is to be
 * queued.
 */
bool
pv_queue_offer(PvQueues *queues, PvWorkerSlot *slot, const PvItem *item)
{
	PvDatabaseQueue *queue = slot->queue;
	PvQueueEntry *entry = pv_queue_find_table(queues, item->key.database,
											  item->key.relid);
	bool		waits = item->reason != PV_WAIT_NONE;
	int			before = queues->shared->nentries;

	if (entry != NULL)
		mark_seen(entry);
	else if (!waits || before < queues->limit / 2)
		entry = pv_entry_add(queues, queue, item);
	slot->queued_some |= !waits && queues->shared->nentries > before;
	if (entry == NULL)
		return waits;
	if (entry->item.state != PV_ITEM_RUNNING)
		update_entry(queues, entry, item);
	else
		entry->item.score.haste = item->score.haste;
	return true;
}

/*
 * All tables have been offered.  Visit up to PV_QUEUE_BATCH entries that were
 * not, which come first in the list, and remove them; those that a role has
 * requested are queued.  Return false if none is left.
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
		mark_seen(entry);
		if (entry->item.state == PV_ITEM_RUNNING)
			continue;
		if (!entry->item.requested)
			pv_entry_remove(queues, entry);
		else if (entry->item.state == PV_ITEM_WAITING)
			pv_entry_enqueue(queues, entry);
	}
	return true;
}

/*
 * The scan ends.  complete says that all it has found is queued or waits,
 * nothing that no table has opted in, and used is the CPU time it took, in
 * microseconds.  If it has queued nothing new, another scan at once would not
 * do better.  Return whether to report that the queue is full: once, until a
 * scan is complete again.
 */
bool
pv_queue_end_scan(PvQueues *queues, PvWorkerSlot *slot, bool complete,
				  bool nothing, int64 used)
{
	PvDatabaseQueue *queue = slot->queue;
	bool		report = !complete && !queue->reported_full;

	queue->scanning = slot->scanning = false;
	queue->vacuumed |= !nothing;
	queue->scanned_at = queues->now;
	queue->scan_used = used;
	queue->nothing = nothing;
	queue->incomplete = !complete && slot->queued_some;
	queue->reported_full = !complete;
	return report;
}
