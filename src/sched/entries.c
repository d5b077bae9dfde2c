/*-------------------------------------------------------------------------
 *
 * entries.c
 *	  The databases and tables in the scheduler's queue, the owners of tables,
 *	  and their order.
 *
 * A queued entry is in a heap: of the database's first tables if it is in
 * danger of wraparound or urgent, else of its owner's.  The rules of
 * sched/queue.c hold here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/queue.h"


/* ----------------------------------------------------------------
 *		Databases
 * ----------------------------------------------------------------
 */

/* Set up a queue without any entry; the hash tables are the caller's. */
void
pv_queue_init(PvQueueShared *shared)
{
	memset(shared, 0, sizeof(PvQueueShared));
	dlist_init(&shared->databases);
	dlist_init(&shared->waiting);
	for (int i = 0; i < PV_QUEUE_SIZE; i++)
		shared->free_places[i] = PV_QUEUE_SIZE - 1 - i;
	for (int i = 0; i < PV_NCOUNTS; i++)
		pg_atomic_init_u64(&shared->counts[i], 0);
}

/* Return the queue of a database, or NULL. */
PvDatabaseQueue *
pv_queue_find(const PvQueues *queues, Oid database)
{
	return hash_search(queues->databases, &database, HASH_FIND, NULL);
}

/* Return the queue of a database; make it if there is room, else NULL. */
PvDatabaseQueue *
pv_queue_make(PvQueues *queues, Oid database)
{
	PvDatabaseQueue *queue = pv_queue_find(queues, database);

	if (queue != NULL ||
		hash_get_num_entries(queues->databases) >= PV_MAX_QUEUES)
		return queue;
	queue = hash_search(queues->databases, &database, HASH_ENTER, NULL);
	memset(queue, 0, sizeof(PvDatabaseQueue));
	queue->database = database;
	queue->known_at = queues->now;
	dlist_init(&queue->owners);
	dlist_init(&queue->waiting);
	dlist_init(&queue->entries);
	dlist_push_tail(&queues->shared->databases, &queue->node);
	return queue;
}

/*
 * The database is gone.  Remove up to PV_QUEUE_BATCH of its entries, and its
 * queue if there is none left.  Return false if a worker is still there.
 */
bool
pv_queue_drop_some(PvQueues *queues, PvDatabaseQueue *queue)
{
	if (queue->nworkers > 0)
		return false;
	for (int i = Min(PV_QUEUE_BATCH, queue->nentries); i > 0; i--)
		pv_entry_remove(queues, dlist_head_element(PvQueueEntry, node,
												   &queue->entries));
	if (queue->nentries == 0)
	{
		dlist_delete(&queue->node);
		(void) hash_search(queues->databases, &queue->database, HASH_REMOVE,
						   NULL);
	}
	return true;
}


/* ----------------------------------------------------------------
 *		Owners
 * ----------------------------------------------------------------
 */

/* Take the entry from its owner. */
static void
leave_owner(PvQueues *queues, PvQueueEntry *entry)
{
	if (--entry->owner->nentries == 0)
		(void) hash_search(queues->owners, &entry->owner->key, HASH_REMOVE,
						   NULL);
	entry->owner = NULL;
}

/*
 * Set the owner of an entry that is not queued.  There are no more owners than
 * entries, so there is room.
 */
void
pv_entry_set_owner(PvQueues *queues, PvQueueEntry *entry, Oid role)
{
	PvOwnerKey	key = {entry->item.key.database, role};
	bool		found;

	if (entry->owner != NULL)
		leave_owner(queues, entry);
	entry->owner = hash_search(queues->owners, &key, HASH_ENTER, &found);
	if (!found)
	{
		memset(entry->owner->queued, 0, sizeof(PvHeaps));
		entry->owner->nqueued = entry->owner->nentries = 0;
	}
	entry->owner->nentries++;
	entry->item.owner = role;
}

/* Put an entry into the lists of those that give way, or take it out. */
static void
list_as_waiting(const PvQueues *queues, PvQueueEntry *entry, bool gives_way)
{
	if (gives_way == entry->gives_way)
		return;
	entry->gives_way = gives_way;
	if (gives_way)
	{
		dlist_push_tail(&entry->queue->waiting, &entry->wait_node);
		dlist_push_tail(&queues->shared->waiting, &entry->wait_node_of_all);
	}
	else
	{
		dlist_delete(&entry->wait_node);
		dlist_delete(&entry->wait_node_of_all);
	}
}

/* Mark the entry as requested, or not any more. */
void
pv_entry_set_request(const PvQueues *queues, PvQueueEntry *entry,
					 bool requested, bool urgent)
{
	entry->item.requested = requested;
	entry->item.urgent = urgent;
	list_as_waiting(queues, entry,
					entry->item.state == PV_ITEM_WAITING && !requested);
}


/* ----------------------------------------------------------------
 *		Charges
 * ----------------------------------------------------------------
 */

static double
charge_left(const PvQueues *queues, const PvCharge *charge)
{
	return pv_charge_left(charge->usecs, queues->now - charge->at);
}

/*
 * Return the worker time of that owner lately, in microseconds: what was
 * charged to him, and that of workers that are at his tables now.
 */
double
pv_queue_charge(const PvQueues *queues, Oid role)
{
	const PvCharge *charge = hash_search(queues->charges, &role, HASH_FIND,
										 NULL);
	double		usecs = charge != NULL ? charge_left(queues, charge) : 0;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->entry != NULL && slot->entry->item.owner == role)
			usecs += Max(queues->now - slot->at_table.since, 0);
	}
	return usecs;
}

/* Make room for another owner: forget the one who was charged least. */
static void
forget_least_charge(PvQueues *queues)
{
	HASH_SEQ_STATUS status;
	PvCharge   *charge;
	double		least = 0;
	Oid			role = InvalidOid;

	hash_seq_init(&status, queues->charges);
	while ((charge = hash_seq_search(&status)) != NULL)
	{
		double		usecs = charge_left(queues, charge);

		if (!OidIsValid(role) || usecs < least)
		{
			role = charge->role;
			least = usecs;
		}
	}
	(void) hash_search(queues->charges, &role, HASH_REMOVE, NULL);
}

/* Charge worker time to an owner. */
void
pv_entry_charge_owner(PvQueues *queues, Oid role, int64 usecs)
{
	PvCharge   *charge = hash_search(queues->charges, &role, HASH_FIND,
									 NULL);

	if (charge == NULL)
	{
		if (hash_get_num_entries(queues->charges) >= PV_MAX_CHARGES)
			forget_least_charge(queues);
		charge = hash_search(queues->charges, &role, HASH_ENTER, NULL);
		charge->usecs = 0;
		charge->at = queues->now;
	}
	charge->usecs = charge_left(queues, charge) + Max(usecs, 0);
	charge->at = queues->now;
}


/* ----------------------------------------------------------------
 *		The order
 * ----------------------------------------------------------------
 */

/* Return its place in the order, if that has been charged to its owner. */
PvOrder
pv_queue_order(const PvItem *item, double charge)
{
	return (PvOrder)
	{
		pv_is_in_danger(item), Max(item->score.xid, item->score.mxid),
			item->urgent, charge, item->turn
	};
}

/*
 * Compare two entries of a heap, which have the same owner, or do not go by
 * that.
 */
static int
compare_queued(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const PvQueueEntry *x =
		pairingheap_const_container(PvQueueEntry, heap_node, a);
	const PvQueueEntry *y =
		pairingheap_const_container(PvQueueEntry, heap_node, b);
	PvOrder		of_x = pv_queue_order(&x->item, 0);
	PvOrder		of_y = pv_queue_order(&y->item, 0);

	return pv_compare_order(&of_x, &of_y);
}

/* Choose the first entry of two heaps, if it goes before *first. */
static void
choose(const PvHeaps heaps, bool large_too, double charge,
	   PvQueueEntry **first, PvOrder *order)
{
	for (int large = 0; large <= large_too; large++)
	{
		PvQueueEntry *entry;
		PvOrder		of_entry;

		if (pairingheap_is_empty(&heaps[large]))
			continue;
		entry = pairingheap_container(PvQueueEntry, heap_node,
									  heaps[large].ph_root);
		of_entry = pv_queue_order(&entry->item, charge);
		if (*first != NULL && pv_compare_order(&of_entry, order) <= 0)
			continue;
		*first = entry;
		*order = of_entry;
	}
}

/*
 * Return the table that a worker of the database would take now, with a place
 * at large tables or without, and its position in the order, or NULL.
 */
PvQueueEntry *
pv_queue_first(const PvQueues *queues, const PvDatabaseQueue *queue,
			   bool large_too, PvOrder *order)
{
	PvQueueEntry *first = NULL;
	dlist_iter	iter;

	choose(queue->first, large_too, 0, &first, order);
	if (first != NULL)
		return first;
	dlist_foreach(iter, unconstify(dlist_head *, &queue->owners))
	{
		const PvOwner *owner = dlist_container(PvOwner, node, iter.cur);

		if (large_too || !pairingheap_is_empty(&owner->queued[0]))
			choose(owner->queued, large_too,
				   pv_queue_charge(queues, owner->key.role), &first, order);
	}
	return first;
}


/* ----------------------------------------------------------------
 *		Entries
 * ----------------------------------------------------------------
 */

/* Return the entry of a table, or NULL. */
PvQueueEntry *
pv_queue_find_table(const PvQueues *queues, Oid database, Oid relid)
{
	PvItemKey	key = {database, relid};

	return hash_search(queues->entries, &key, HASH_FIND, NULL);
}

/*
 * Set the state of a table, and since when it is in it.  A table that waits
 * has done so since it came to wait for this reason, also if it was queued and
 * begun again in between.  One that is queued may have been put back.
 */
void
pv_entry_set_state(const PvQueues *queues, PvQueueEntry *entry,
				   PvItemState state, PvWaitReason reason)
{
	PvItem	   *item = &entry->item;

	if (state == PV_ITEM_WAITING && item->waited_for != reason)
	{
		item->waited_for = reason;
		item->waits_since = queues->now;
	}
	item->state_since = state == PV_ITEM_WAITING ? item->waits_since :
		state == PV_ITEM_QUEUED ? item->needed_since : queues->now;
	item->state = state;
	item->reason = reason;
	item->wait_until = PV_NEVER;
	item->worker_pid = 0;
	list_as_waiting(queues, entry,
					state == PV_ITEM_WAITING && !item->requested);
}

/*
 * Take an entry out of its heap, if it is in one: before anything changes that
 * its place there depends on.  The address of the comparison function is valid
 * in one process only, so each sets its own.
 */
void
pv_entry_unqueue(PvQueueEntry *entry)
{
	PvDatabaseQueue *queue = entry->queue;
	pairingheap *heap = entry->heap;

	if (heap == NULL)
		return;
	heap->ph_compare = compare_queued;
	pairingheap_remove(heap, &entry->heap_node);
	queue->nqueued--;
	if (heap != &queue->first[0] && heap != &queue->first[1] &&
		--entry->owner->nqueued == 0)
		dlist_delete(&entry->owner->node);
	entry->heap = NULL;
}

/* Queue an entry that is not in a heap. */
void
pv_entry_enqueue(const PvQueues *queues, PvQueueEntry *entry)
{
	PvDatabaseQueue *queue = entry->queue;
	PvItem	   *item = &entry->item;
	bool		large = pv_wants_large_place(item);

	Assert(entry->heap == NULL);
	pv_entry_set_state(queues, entry, PV_ITEM_QUEUED, PV_WAIT_NONE);
	item->again = false;
	item->turn = pv_turn(&item->score, item->requested, item->needed_since);
	if (pv_is_in_danger(item) || item->urgent)
		entry->heap = &queue->first[large];
	else
	{
		if (entry->owner->nqueued++ == 0)
			dlist_push_tail(&queue->owners, &entry->owner->node);
		entry->heap = &entry->owner->queued[large];
	}
	entry->heap->ph_compare = compare_queued;
	pairingheap_add(entry->heap, &entry->heap_node);
	queue->nqueued++;
}

/* Remove an entry, whatever its state is. */
void
pv_entry_remove(PvQueues *queues, PvQueueEntry *entry)
{
	PvQueueShared *shared = queues->shared;

	pv_entry_unqueue(entry);
	list_as_waiting(queues, entry, false);
	leave_owner(queues, entry);
	dlist_delete(&entry->node);
	entry->queue->nentries--;
	shared->places[entry->place] = NULL;
	shared->free_places[PV_QUEUE_SIZE - shared->nentries] = entry->place;
	shared->nentries--;
	(void) hash_search(queues->entries, &entry->item.key, HASH_REMOVE, NULL);
}

/*
 * May another entry be added for that owner?  Danger of wraparound takes the
 * last places.
 */
static bool
has_room(const PvQueues *queues, const PvDatabaseQueue *queue,
		 const PvItem *item)
{
	PvOwnerKey	key = {queue->database, item->owner};
	const PvOwner *owner = hash_search(queues->owners, &key, HASH_FIND, NULL);
	int			n = queues->shared->nentries;

	if (n >= queues->limit)
		return false;
	return item->score.danger ||
		pv_has_room(queues->limit, n, queue->nentries,
					owner != NULL ? owner->nentries : 0);
}

/*
 * Make room: remove a table that waits, one of the same database first, and
 * the one that came last, or each would push out the next that a scan offers.
 */
static bool
make_room(PvQueues *queues, PvDatabaseQueue *queue)
{
	PvQueueShared *shared = queues->shared;
	PvQueueEntry *entry;

	if (!dlist_is_empty(&queue->waiting))
		entry = dlist_tail_element(PvQueueEntry, wait_node, &queue->waiting);
	else if (shared->nentries >= queues->limit &&
			 !dlist_is_empty(&shared->waiting))
		entry = dlist_tail_element(PvQueueEntry, wait_node_of_all,
								   &shared->waiting);
	else
		return false;
	pv_entry_remove(queues, entry);
	return true;
}

/*
 * Add an entry for a table that has needed something since now, which is not
 * queued yet.  Return NULL if there is no room for it.
 */
PvQueueEntry *
pv_entry_add(PvQueues *queues, PvDatabaseQueue *queue, const PvItem *item)
{
	PvQueueShared *shared = queues->shared;
	PvQueueEntry *entry;

	if (!has_room(queues, queue, item) &&
		(item->reason != PV_WAIT_NONE || !make_room(queues, queue) ||
		 !has_room(queues, queue, item)))
		return NULL;
	entry = hash_search(queues->entries, &item->key, HASH_ENTER, NULL);
	memset(entry, 0, sizeof(PvQueueEntry));
	entry->item.key = item->key;
	entry->item.pages = item->pages;
	entry->item.toast_parent = item->toast_parent;
	entry->item.score = item->score;
	entry->item.state = PV_ITEM_WAITING;
	entry->item.needed_since = queues->now;
	entry->queue = queue;
	pv_entry_set_owner(queues, entry, item->owner);
	entry->seen = queue->scan;
	dlist_push_tail(&queue->entries, &entry->node);
	queue->nentries++;
	shared->nentries++;
	entry->place = shared->free_places[PV_QUEUE_SIZE - shared->nentries];
	shared->places[entry->place] = entry;
	return entry;
}
