/*-------------------------------------------------------------------------
 *
 * queue_databases.c
 *	  The queues of databases, and what the launcher sees of them.
 *
 * A database has a queue as long as it has an entry, a worker or a rest after
 * its scan.  These functions are a part of sched/queue.c, and obey the rules
 * that are said there.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>

#include "sched/queue.h"

/* Set up a queue without any entry; the hash tables are the caller's. */
void
pv_queue_init(PvQueueShared *shared)
{
	memset(shared, 0, sizeof(PvQueueShared));
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		dlist_init(&shared->queues[i].owners);
		dlist_init(&shared->queues[i].waiting);
		dlist_init(&shared->queues[i].entries);
	}
	for (int i = 0; i < PV_QUEUE_SIZE; i++)
		shared->free_places[i] = PV_QUEUE_SIZE - 1 - i;
	pg_atomic_init_u32(&shared->nattached, 0);
	for (int i = 0; i < PV_NCOUNTS; i++)
		pg_atomic_init_u64(&shared->counts[i], 0);
}


/* ----------------------------------------------------------------
 *		Queues of databases
 * ----------------------------------------------------------------
 */

/* Return the queue of a database, or NULL. */
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
 * Remove up to PV_QUEUE_BATCH entries that are not running.  Return whether
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

/* Have a worker scan the database. */
void
pv_queue_request_scan(const PvQueues *queues, PvDatabaseQueue *queue)
{
	if (queue->scan_requested)
		return;
	queue->scan_requested = true;
	queue->requested_at = queues->now;
}

/*
 * Return a queue for a database that has none, or NULL.  It is taken from a
 * database without workers that has nothing queued or requested, first from
 * one where no table waits; with from_others else from the one whose first
 * table comes last, unless that is in danger or there are requests.  A scan
 * finds its tables again.  A request that waits for a lock is lost only if
 * there is no other queue.
 */
static PvDatabaseQueue *
find_free_queue(const PvQueues *queues, bool from_others)
{
	int			n = Min(PV_MAX_QUEUES, queues->limit);
	PvDatabaseQueue *last = NULL;
	PvOrder		last_order = {0};

	for (int i = 0; i < n; i++)
	{
		PvDatabaseQueue *queue = &queues->shared->queues[i];
		bool		in_use = queue->nqueued > 0 || queue->nrequests > 0;
		PvOrder		order = {.charge = in_use ? 0 : DBL_MAX,
		.turn = queue->nentries == 0};

		if (!OidIsValid(queue->database))
			return queue;
		if (queue->nworkers > 0 || pv_queue_wants_scan(queue) ||
			(in_use && !from_others) ||
			(queue->nqueued > 0 && queue->nrequests > 0))
			continue;
		(void) pv_queue_first(queues, queue, true, &order);
		if (!order.danger &&
			(last == NULL || pv_compare_order(&order, &last_order) < 0))
		{
			last = queue;
			last_order = order;
		}
	}
	return last;
}

/*
 * Return the queue of a database that may not have one yet, or NULL if there
 * is none.  With *again set one is being emptied: release the lock and call
 * this once more.
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
	queue->scanned_at = queue->updated_at = PV_NEVER;
	queue->scan_used = 0;
	return queue;
}

/* No scan of the database should be requested before. */
static TimestampTz
rests_until(const PvQueues *queues, const PvDatabaseQueue *queue)
{
	return queue->scanned_at +
		(queue->nothing ? pv_rest_where_nothing(queues->naptime) :
		 pv_rest_after_scan(queue->scan_used));
}

/* Free the queue if nothing needs it any more. */
void
pv_queue_release(PvQueues *queues, PvDatabaseQueue *queue)
{
	if (queue->nworkers == 0 && queue->nentries == 0 &&
		!pv_queue_wants_scan(queue) &&
		rests_until(queues, queue) <= queues->now)
		queue->database = InvalidOid;
}


/* ----------------------------------------------------------------
 *		The launcher
 * ----------------------------------------------------------------
 */

/* Count the workers, and how many of them have a place at large tables. */
int
pv_queue_count_workers(const PvQueues *queues, int *nlarge)
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

	(void) pv_queue_count_workers(queues, &nlarge);
	return nlarge < pv_max_large(queues->nworkers);
}

/*
 * Count the workers that may be started, and find out whether other databases
 * can be scanned.
 */
void
pv_queue_count_free(const PvQueues *queues, PvDatabases *all)
{
	int			nlarge;

	all->nfree = queues->nworkers - pv_queue_count_workers(queues, &nlarge);
	all->nlarge = pv_max_large(queues->nworkers) - nlarge;
	all->full = find_free_queue(queues, true) == NULL;
}

/*
 * Add what the queue of a database says to what is known of that.  Where a
 * scan takes long, the next one is due later.
 */
void
pv_queue_describe(const PvQueues *queues, const PvDatabaseQueue *queue,
				  PvDatabase *database)
{
	const PvQueueEntry *first =
		pv_queue_first(queues, queue, pv_queue_has_large_place(queues),
					   &database->first);

	database->due = Max(database->due, rests_until(queues, queue));
	database->has_queue = true;
	database->scanning = queue->scanning;
	database->nworkers = queue->nworkers;
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		database->expected |= slot->used && slot->pid == 0 &&
			pv_queue_of(queues, slot) == queue;
	}
	if (pv_queue_wants_scan(queue))
		database->scan_requested = queue->scan_requested ?
			queue->requested_at : queue->scanned_at;
	database->has_first = first != NULL;
	database->first_is_large = first != NULL && pv_is_large(&first->item);
}

/*
 * Return a slot for a worker that is about to be started, for a scan or not,
 * or NULL.  It has a place at large tables on demand.
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
		if (to_scan)
			pv_queue_request_scan(queues, queue);
		return slot;
	}
	return NULL;
}

/*
 * Make one worker leave if a table in danger of wraparound waits in a database
 * that can have no worker: one that is at none, else one at a small table,
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
