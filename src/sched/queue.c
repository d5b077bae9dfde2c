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
 * Which table goes first is in sched/policy.c, and the heaps of queued tables
 * are in sched/entries.c.
 *
 * A database has a queue as long as it has an entry, a worker or a rest after
 * its scan.  How scans fill it is in sched/queue_scan.c.
 *
 * All functions here run under the lock, held exclusively unless they take the
 * queue as const.  They know no clock, no process and no setting but those in
 * PvQueues, so that unit tests can compile them a second time.  They raise no
 * errors and allocate only in the hash tables, which have room for all.  Each
 * visits one entry, or up to PV_QUEUE_BATCH of them, and walks over all
 * workers, queues, or owners of a database.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "sched/queue.h"


/* ----------------------------------------------------------------
 *		Queues of databases
 * ----------------------------------------------------------------
 */

/* The queue of a database, or NULL. */
PvDatabaseQueue *
pv_queue_find(const PvQueues *queues, Oid database)
{
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		if (queues->shared->queues[i].database == database)
			return &queues->shared->queues[i];
	}
	return NULL;
}

/*
 * Removes up to PV_QUEUE_BATCH entries that are not running.  Returns whether
 * there was any.  A scan finds the tables again.
 */
bool
pv_queue_empty_some(PvQueues *queues, PvDatabaseQueue *queue)
{
	bool		any = false;

	for (int i = Min(PV_QUEUE_BATCH, queue->nentries); i > 0; i--)
	{
		PvQueueEntry *entry = dlist_head_element(PvQueueEntry, node,
												 &queue->entries);

		if (entry->item.state != PV_ITEM_RUNNING)
		{
			pv_entry_remove(queues, queue, entry);
			any = true;
			continue;
		}
		dlist_delete(&entry->node);
		dlist_push_tail(&queue->entries, &entry->node);
	}
	return any;
}

/*
 * Is the database to be scanned now?  It is at once if the last scan could not
 * queue all that it had found, and that is done.
 */
bool
pv_queue_wants_scan(const PvDatabaseQueue *queue)
{
	return !queue->scanning &&
		(queue->scan_requested ||
		 (queue->incomplete && queue->nqueued == 0));
}

/* Has a worker scan the database. */
void
pv_queue_request_scan(const PvQueues *queues, PvDatabaseQueue *queue)
{
	if (queue->scan_requested)
		return;
	queue->scan_requested = true;
	queue->requested_at = queues->now;
}

/*
 * How easily a queue can be given to another database: 0 not at all, 1 if a
 * request that waits is lost, 2 if tables are queued, which a scan finds again,
 * 3 if tables wait, 4 if it is empty.  Without from_others nothing is lost.
 */
static int
is_free(const PvDatabaseQueue *queue, bool from_others)
{
	if (queue->nworkers > 0 || pv_queue_wants_scan(queue))
		return 0;
	if (queue->nrequests > 0)
		return from_others && queue->nqueued == 0 ? 1 : 0;
	if (queue->nqueued > 0)
		return from_others ? 2 : 0;
	return queue->nentries > 0 ? 3 : 4;
}

/*
 * A queue for a database that has none, or NULL.  From another database where
 * tables are queued, it is the one whose first table comes last, unless that is
 * in danger.
 */
static PvDatabaseQueue *
find_free_queue(const PvQueues *queues, bool from_others)
{
	int			n = Min(PV_MAX_QUEUES, queues->limit);
	PvDatabaseQueue *best = NULL;
	int			best_free = 0;
	PvOrder		last;

	for (int i = 0; i < n; i++)
	{
		PvDatabaseQueue *queue = &queues->shared->queues[i];
		int			how_free;
		PvOrder		order = {0};

		if (!OidIsValid(queue->database))
			return queue;
		how_free = is_free(queue, from_others);
		if (how_free == 2)
			(void) pv_queue_first(queues, queue, true, &order);
		if (how_free == 0 || how_free < best_free || order.danger ||
			(how_free == best_free &&
			 (how_free != 2 || pv_compare_order(&order, &last) >= 0)))
			continue;
		best = queue;
		best_free = how_free;
		last = order;
	}
	return best;
}

/* Can a database that is due for a scan have no queue? */
bool
pv_queue_is_full(const PvQueues *queues)
{
	return find_free_queue(queues, true) == NULL;
}

/*
 * The queue of a database that may not have one yet.  Returns NULL if there is
 * none.  With *again set one is being emptied: the caller is to release the
 * lock and to call this once more.
 */
PvDatabaseQueue *
pv_queue_make(PvQueues *queues, Oid database, bool from_others, bool *again)
{
	PvDatabaseQueue *queue = pv_queue_find(queues, database);

	*again = false;
	if (queue != NULL)
		return queue;
	queue = find_free_queue(queues, from_others);
	if (queue == NULL)
		return NULL;
	*again = pv_queue_empty_some(queues, queue);
	if (*again)
		return NULL;
	queue->database = database;
	queue->scan_requested = queue->scanning = queue->nothing = false;
	queue->incomplete = queue->reported_full = queue->vacuumed = false;
	queue->scanned_at = PV_NEVER;
	queue->scan_used = 0;
	return queue;
}

/* No scan of the database should be requested before. */
TimestampTz
pv_queue_rests_until(const PvQueues *queues, const PvDatabaseQueue *queue)
{
	return queue->scanned_at +
		(queue->nothing ? pv_rest_where_nothing(queues->naptime) :
		 pv_rest_after_scan(queue->scan_used));
}

/* Frees the queue if nothing needs it any more. */
void
pv_queue_release(PvQueues *queues, PvDatabaseQueue *queue)
{
	if (queue->nworkers == 0 && queue->nentries == 0 &&
		!pv_queue_wants_scan(queue) &&
		pv_queue_rests_until(queues, queue) <= queues->now)
		queue->database = InvalidOid;
}


/* ----------------------------------------------------------------
 *		Requests
 * ----------------------------------------------------------------
 */

/*
 * A role requests a table: item has its key, owner, size, requester and
 * urgency.  An urgent request that was there before remains.  A limited role
 * can have no more requests than its share.
 */
PvEnqueueResult
pv_queue_request(PvQueues *queues, PvDatabaseQueue *queue, const PvItem *item,
				 bool limited)
{
	PvQueueEntry *entry = pv_queue_find_table(queues, item->key.database,
											  item->key.relid);
	const PvOwner *role = pv_entry_find_owner(queues, queue, item->requester);
	bool		is_new = entry == NULL;
	bool		running = entry != NULL &&
		entry->item.state == PV_ITEM_RUNNING;
	bool		before = entry != NULL && entry->requester != NULL &&
		(entry->item.urgent || !item->urgent) &&
		(!running || entry->item.again);

	if (!before && limited && role != NULL &&
		role->nrequests >= pv_share_of_role(queues->limit) &&
		(entry == NULL || entry->requester != role))
		return PV_ENQUEUE_SHARE;
	if (entry == NULL)
		entry = pv_entry_add(queues, queue, item);
	if (entry == NULL)
		return PV_ENQUEUE_FULL;
	pv_entry_unqueue(queue, entry);
	if (!before && !pv_entry_set_request(queues, queue, entry, item))
	{
		if (is_new)
			pv_entry_remove(queues, queue, entry);
		else if (!running)
			pv_entry_enqueue(queues, queue, entry);
		return PV_ENQUEUE_FULL;
	}
	if (running)
	{
		entry->item.again = true;
		return PV_ENQUEUED_AGAIN;
	}
	entry->item.held = false;
	pv_entry_enqueue(queues, queue, entry);
	return before ? PV_ENQUEUED_BEFORE : PV_ENQUEUED;
}

/* The worker that is at the item's table, or NULL. */
static PvWorkerSlot *
find_worker_at(const PvQueues *queues, const PvItem *item)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->used && slot->busy && slot->pid == item->worker_pid)
			return slot;
	}
	return NULL;
}

/*
 * Has a table given up.  If it is queued, it waits for the next database scan.
 * If a worker is at it, *slot is that worker.  A vacuum that prevents
 * wraparound is left alone unless that may be given up as well.
 */
PvWithdrawn
pv_queue_withdraw(PvQueues *queues, Oid database, Oid relid,
				  bool wraparound_too, PvWorkerSlot **slot)
{
	PvQueueEntry *entry = pv_queue_find_table(queues, database, relid);
	PvDatabaseQueue *queue = pv_queue_find(queues, database);

	if (entry == NULL || entry->item.state == PV_ITEM_WAITING)
		return PV_WITHDRAWN_NOTHING;
	if (entry->item.score.wraparound && !wraparound_too)
		return PV_WITHDRAWN_REFUSED;
	if (entry->item.state == PV_ITEM_RUNNING)
	{
		entry->item.again = false;
		*slot = find_worker_at(queues, &entry->item);
		return *slot != NULL ? PV_WITHDRAWN_RUNNING : PV_WITHDRAWN_NOTHING;
	}
	pv_entry_unqueue(queue, entry);
	pv_entry_clear_request(queues, queue, entry);
	pv_entry_set_state(queues, queue, entry, PV_ITEM_WAITING,
					   PV_WAIT_CANCELED);
	return PV_WITHDRAWN_DONE;
}


/* ----------------------------------------------------------------
 *		Workers
 * ----------------------------------------------------------------
 */

/* The workers, and how many of them have a place at large tables. */
static int
count_workers(const PvQueues *queues, int *nlarge)
{
	int			n = 0;

	*nlarge = 0;
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		n += slot->used;
		*nlarge += slot->used && slot->large;
	}
	return n;
}

/* Is there a place for another worker at large tables? */
bool
pv_queue_has_large_place(const PvQueues *queues)
{
	int			nlarge;

	(void) count_workers(queues, &nlarge);
	return nlarge < pv_max_large(queues->nworkers);
}

/*
 * A slot for a worker that is about to be started, for a scan or not, or NULL.
 * It has a place at large tables on demand.
 */
PvWorkerSlot *
pv_queue_add_worker(PvQueues *queues, PvDatabaseQueue *queue, bool to_scan,
					bool large)
{
	PvQueueShared *shared = queues->shared;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &shared->slots[i];

		if (slot->used)
			continue;
		memset(slot, 0, sizeof(*slot));
		slot->used = true;
		slot->token = ++shared->next_token;
		slot->since = queues->now;
		slot->queue = queue - shared->queues;
		slot->to_scan = to_scan;
		slot->large = large && pv_queue_has_large_place(queues);
		queue->nworkers++;
		return slot;
	}
	return NULL;
}

static void
become_idle(PvQueues *queues, PvWorkerSlot *slot)
{
	if (slot->busy)
		pv_entry_charge_owner(queues, slot->owner,
							  queues->now - slot->busy_since);
	slot->busy = slot->large = slot->danger = false;
	slot->canceled_at = PV_NEVER;
}

/*
 * The worker ends, or was not started.  What it was at, a table or a scan, is
 * left to the next scan.
 */
void
pv_queue_remove_worker(PvQueues *queues, PvWorkerSlot *slot)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);

	if (slot->busy)
		pv_queue_finish(queues, slot, 0, PV_WAIT_ERROR, InvalidTransactionId);
	if (slot->scanning)
		queue->scanning = false;
	if (slot->pid != 0)
		pg_atomic_fetch_sub_u32(&queues->shared->nattached, 1);
	slot->used = false;
	queue->nworkers--;
	if (slot->pid == 0 && queue->nworkers == 0)
		queue->scan_requested = false;	/* it will be due again */
	pv_queue_release(queues, queue);
}

/*
 * All workers are in use: does a table go before this one in a database that
 * has none?
 */
static bool
is_first_elsewhere(const PvQueues *queues, const PvOrder *order)
{
	int			nlarge;
	int			n = count_workers(queues, &nlarge);
	bool		has_place = nlarge < pv_max_large(queues->nworkers);

	for (int i = 0; i < PV_MAX_QUEUES && n >= queues->nworkers; i++)
	{
		const PvDatabaseQueue *queue = &queues->shared->queues[i];
		PvOrder		other;

		if (OidIsValid(queue->database) && queue->nworkers == 0 &&
			queue->nqueued > 0 &&
			pv_queue_first(queues, queue, has_place, &other) != NULL &&
			pv_compare_order(&other, order) > 0)
			return true;
	}
	return false;
}

/*
 * The worker takes the first table of its queue.  Returns false if there is
 * none for it; else *item is a copy of the table's item.
 *
 * It takes a large table only if the launcher has given it a place for that, as
 * its first one.  So the places go to the first large tables of all databases,
 * and not to those where a worker happens to be.  In the same way a worker that
 * came for a scan leaves again if the first table is elsewhere.
 */
bool
pv_queue_take(PvQueues *queues, PvWorkerSlot *slot, PvItem *item)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvOrder		order;
	PvQueueEntry *entry = pv_queue_first(queues, queue, slot->large, &order);

	slot->large = false;
	if (entry == NULL ||
		(slot->to_scan && is_first_elsewhere(queues, &order)))
		return false;
	slot->to_scan = false;
	pv_entry_unqueue(queue, entry);
	pv_entry_set_state(queues, queue, entry, PV_ITEM_RUNNING, PV_WAIT_NONE);
	entry->item.worker_pid = slot->pid;
	slot->busy = true;
	slot->busy_since = queues->now;
	slot->at = entry->item.key;
	slot->owner = entry->item.owner;
	slot->large = pv_size_class(&entry->item) == PV_SIZE_LARGE;
	slot->danger = pv_is_in_danger(&entry->item);
	slot->canceled_at = PV_NEVER;
	*item = entry->item;
	return true;
}

/*
 * The worker has rechecked its table, whose score and size may be others by
 * now: the size in pg_class, by which it was queued, may be old, or forged by
 * the table's owner.  Returns false if the table is large and there is no
 * place for that.  It is to be put back then, but not before its lock is
 * released: the next worker would find it locked.
 */
bool
pv_queue_recheck(PvQueues *queues, PvWorkerSlot *slot, const PvItem *item)
{
	PvQueueEntry *entry = pv_queue_find_table(queues, item->key.database,
											  item->key.relid);
	bool		large = pv_size_class(item) == PV_SIZE_LARGE;
	bool		may = slot->large || pv_queue_has_large_place(queues);

	entry->item.score = item->score;
	entry->item.pages = item->pages;
	entry->item.held = item->held;
	slot->danger = pv_is_in_danger(&entry->item);
	if (large && !may)
		return false;
	slot->large = large;
	return true;
}

/* The table is queued again. */
void
pv_queue_put_back(PvQueues *queues, PvWorkerSlot *slot)
{
	PvQueueEntry *entry = pv_queue_find_table(queues, slot->at.database,
											  slot->at.relid);

	pv_entry_enqueue(queues, pv_queue_of(queues, slot), entry);
	become_idle(queues, slot);
}

/*
 * The worker's table is done, or cannot be done now.  Its entry is removed, or
 * waits for the next database scan at least.  If the table was requested
 * meanwhile, it is queued again.  When a waiting table is found to need
 * something again, it has waited since now.
 *
 * A vacuum fulfils a request.  A vacuum that was cancelled or failed ends it as
 * well.  The request stays if the table was locked before it could be vacuumed.
 */
void
pv_queue_finish(PvQueues *queues, PvWorkerSlot *slot, uint8 done,
				PvWaitReason reason, TransactionId horizon)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvQueueEntry *entry = pv_queue_find_table(queues, slot->at.database,
											  slot->at.relid);
	PvItem	   *item = &entry->item;

	queue->vacuumed |= (done & PV_DONE_VACUUM) != 0;
	item->needed_since = queues->now;
	item->tried = reason != PV_WAIT_NONE && reason != PV_WAIT_WINDOW &&
		reason != PV_WAIT_LOCK && !item->score.sweep;
	if (!item->again &&
		((done & PV_DONE_VACUUM) != 0 || reason != PV_WAIT_LOCK))
		pv_entry_clear_request(queues, queue, entry);
	if (item->again)
		pv_entry_enqueue(queues, queue, entry);
	else if (reason == PV_WAIT_NONE)
		pv_entry_remove(queues, queue, entry);
	else
	{
		/* if it waits for the horizon, it is the vacuum that waits */
		bool		vacuum = reason == PV_WAIT_HORIZON ||
			(item->score.vacuum && (done & PV_DONE_VACUUM) == 0);

		if (!item->held)
		{
			item->left.horizon = reason == PV_WAIT_HORIZON ?
				horizon : InvalidTransactionId;
			item->left.dead = item->score.dead;
			item->left.for_age = item->score.wraparound;
		}
		if (done != 0 || item->held)
			pv_score_rest(&item->score, vacuum, item->score.analyze &&
						  (done & PV_DONE_ANALYZE) == 0, item->pages);
		item->done = done;
		item->held = false;
		pv_entry_set_state(queues, queue, entry, PV_ITEM_WAITING, reason);
	}
	become_idle(queues, slot);
}

/*
 * Is the worker to leave?  Settings of the database and of roles are read only
 * at the start of a process, so none stays for ever.
 */
bool
pv_queue_should_leave(const PvQueues *queues, const PvWorkerSlot *slot,
					  int nworkers)
{
	int			nlarge;

	return slot->leave ||
		count_workers(queues, &nlarge) > nworkers ||
		pv_stay_is_over(queues->now - slot->since);
}

/* Is no worker of the queue at a table? */
bool
pv_queue_all_idle(const PvQueues *queues, const PvDatabaseQueue *queue)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->used && slot->busy && pv_queue_of(queues, slot) == queue)
			return false;
	}
	return true;
}

/*
 * A table in danger of wraparound waits in a database that can have no worker.
 * Has one worker leave that is at none, one at a small table if there is any,
 * unless one is about to leave already.
 */
void
pv_queue_call_back(PvQueues *queues)
{
	PvWorkerSlot *found = NULL;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (!slot->used)
			continue;
		if (slot->leave)
			return;
		if (!slot->danger && (found == NULL || (found->large && !slot->large)))
			found = slot;
	}
	if (found != NULL)
		found->leave = true;
}


/* ----------------------------------------------------------------
 *		Snapshots for the launcher's plans (sched/plan.c)
 * ----------------------------------------------------------------
 */

/* Workers that may be started, and whether other databases can be scanned. */
void
pv_queue_count_free(const PvQueues *queues, PvSnapshot *snapshot)
{
	int			nlarge;

	snapshot->nfree = queues->nworkers - count_workers(queues, &nlarge);
	snapshot->nlarge = pv_max_large(queues->nworkers) - nlarge;
	snapshot->full = pv_queue_is_full(queues);
}

/* Adds what the queue of a database says to what is known of that. */
void
pv_queue_describe(const PvQueues *queues, const PvDatabaseQueue *queue,
				  PvPlanDatabase *database)
{
	const PvQueueEntry *first =
		pv_queue_first(queues, queue, pv_queue_has_large_place(queues),
					   &database->first);

	database->has_queue = true;
	database->scanning = queue->scanning;
	database->nworkers = queue->nworkers;
	if (pv_queue_wants_scan(queue))
		database->scan_requested = queue->scan_requested ?
			queue->requested_at : queue->scanned_at;
	database->has_first = first != NULL;
	database->first_is_large = first != NULL &&
		pv_size_class(&first->item) == PV_SIZE_LARGE;
}
