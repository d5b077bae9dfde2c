/*-------------------------------------------------------------------------
 *
 * entries.c
 *	  The tables in the scheduler's queue, their owners and their order.
 *
 * A table is one entry of a hash table, by database and OID.  A queued entry
 * is in a heap: of the database's first tables if it is in danger of
 * wraparound or urgent, else of its owner's.  Small and large tables have heaps
 * of their own, so that large ones can be passed over.
 *
 * These functions are the part of sched/queue.c that changes one entry, and
 * obey the rules that are said there.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "sched/queue.h"

/* Places that a copy visits at a time; most of them may be free */
#define PLACES_AT_ONCE			(16 * PV_QUEUE_BATCH)


/* ----------------------------------------------------------------
 *		Owners
 * ----------------------------------------------------------------
 */

PvOwner *
pv_entry_find_owner(const PvQueues *queues, const PvDatabaseQueue *queue,
					Oid role)
{
	PvOwnerKey	key = {queue->database, role};

	return hash_search(queues->owners, &key, HASH_FIND, NULL);
}

/* The owner of tables, or a role that requests some; NULL: there is no room. */
static PvOwner *
make_owner(PvQueues *queues, PvDatabaseQueue *queue, Oid role)
{
	PvOwnerKey	key = {queue->database, role};
	PvOwner    *owner = pv_entry_find_owner(queues, queue, role);

	if (owner != NULL)
		return owner;
	if (hash_get_num_entries(queues->owners) >= PV_MAX_OWNERS)
		return NULL;
	owner = hash_search(queues->owners, &key, HASH_ENTER_NULL, NULL);
	if (owner == NULL)
		return NULL;
	memset(owner->queued, 0, sizeof(owner->queued));
	owner->nentries = owner->nrequests = 0;
	return owner;
}

/* Has the owner anything in his heaps? */
static bool
has_queued(const PvOwner *owner)
{
	return owner->queued[PV_SIZE_SMALL] != NULL ||
		owner->queued[PV_SIZE_LARGE] != NULL;
}

static void
drop_unused_owner(PvQueues *queues, PvOwner *owner)
{
	if (owner->nentries > 0 || owner->nrequests > 0)
		return;
	(void) hash_search(queues->owners, &owner->key, HASH_REMOVE, NULL);
}

/* Sets the owner of an entry that is not queued; false: there is no room. */
bool
pv_entry_set_owner(PvQueues *queues, PvDatabaseQueue *queue,
				   PvQueueEntry *entry, Oid role)
{
	PvOwner    *old = entry->owner;
	PvOwner    *owner = make_owner(queues, queue, role);

	if (owner == NULL)
		return false;
	owner->nentries++;
	entry->owner = owner;
	entry->item.owner = role;
	if (old != NULL)
	{
		old->nentries--;
		drop_unused_owner(queues, old);
	}
	return true;
}

/*
 * Puts an entry into the list of those that give way to others, or takes it
 * out, after its state or its requester has changed.
 */
static void
list_as_waiting(PvDatabaseQueue *queue, PvQueueEntry *entry)
{
	bool		gives_way = entry->item.state == PV_ITEM_WAITING &&
		entry->requester == NULL;

	if (gives_way == entry->gives_way)
		return;
	if (gives_way)
		dlist_push_tail(&queue->waiting, &entry->wait_node);
	else
		dlist_delete(&entry->wait_node);
	entry->gives_way = gives_way;
}

/* The entry is not requested any more. */
void
pv_entry_clear_request(PvQueues *queues, PvDatabaseQueue *queue,
					   PvQueueEntry *entry)
{
	if (entry->requester == NULL)
		return;
	entry->requester->nrequests--;
	queue->nrequests--;
	drop_unused_owner(queues, entry->requester);
	entry->requester = NULL;
	entry->item.requester = InvalidOid;
	entry->item.urgent = false;
	list_as_waiting(queue, entry);
}

bool
pv_entry_set_request(PvQueues *queues, PvDatabaseQueue *queue,
					 PvQueueEntry *entry, const PvItem *request)
{
	PvOwner    *requester = make_owner(queues, queue, request->requester);

	if (requester == NULL)
		return false;
	requester->nrequests++;
	queue->nrequests++;
	pv_entry_clear_request(queues, queue, entry);
	entry->requester = requester;
	entry->item.requester = request->requester;
	entry->item.urgent = request->urgent;
	list_as_waiting(queue, entry);
	return true;
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
 * The worker time of that owner lately, in microseconds: what was charged to
 * him, and that of workers that are at his tables now.
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

		if (slot->used && slot->busy && slot->owner == role)
			usecs += Max(queues->now - slot->busy_since, 0);
	}
	return usecs;
}

/* Makes room for another owner: forgets the one who was charged least. */
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

void
pv_entry_charge_owner(PvQueues *queues, Oid role, int64 usecs)
{
	bool		found;
	PvCharge   *charge = hash_search(queues->charges, &role, HASH_FIND,
									 &found);

	if (!found)
	{
		if (hash_get_num_entries(queues->charges) >= PV_MAX_CHARGES)
			forget_least_charge(queues);
		charge = hash_search(queues->charges, &role, HASH_ENTER_NULL, NULL);
		if (charge == NULL)
			return;
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

/* Its place in the order, where that has been charged to its owner. */
PvOrder
pv_queue_order(const PvItem *item, double charge)
{
	return (PvOrder)
	{
		pv_is_in_danger(item), Max(item->score.xid, item->score.mxid),
			item->urgent, charge, item->turn
	};
}

/* The entries of a heap have the same owner, or do not go by that. */
static int
compare_queued(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	PvOrder		x = pv_queue_order(&pairingheap_const_container(PvQueueEntry,
																heap_node,
																a)->item,
								   0);
	PvOrder		y = pv_queue_order(&pairingheap_const_container(PvQueueEntry,
																heap_node,
																b)->item,
								   0);

	return pv_compare_order(&x, &y);
}

/* The first entry of a heap, or NULL. */
static PvQueueEntry *
first_of(pairingheap_node *root)
{
	return root == NULL ? NULL :
		pairingheap_container(PvQueueEntry, heap_node, root);
}

/* The entry becomes the first one if it goes before that. */
static void
choose(PvQueueEntry *entry, double charge, PvQueueEntry **first,
	   PvOrder *order)
{
	PvOrder		of_entry = pv_queue_order(&entry->item, charge);

	if (*first != NULL && pv_compare_order(&of_entry, order) <= 0)
		return;
	*first = entry;
	*order = of_entry;
}

/*
 * The table that a worker of the database would take now, with a place at
 * large tables or without, and its position in the order, or NULL.
 */
PvQueueEntry *
pv_queue_first(const PvQueues *queues, const PvDatabaseQueue *queue,
			   bool large_too, PvOrder *order)
{
	PvQueueEntry *first = NULL;
	dlist_iter	iter;

	for (int size = 0; size < PV_NUM_SIZE_CLASSES; size++)
	{
		PvQueueEntry *entry = first_of(queue->first[size]);

		if (entry != NULL && (size == PV_SIZE_SMALL || large_too))
			choose(entry, 0, &first, order);
	}
	if (first != NULL)
		return first;

	dlist_foreach(iter, unconstify(dlist_head *, &queue->owners))
	{
		const PvOwner *owner = dlist_container(PvOwner, node, iter.cur);
		PvQueueEntry *small = first_of(owner->queued[PV_SIZE_SMALL]);
		PvQueueEntry *large = large_too ?
			first_of(owner->queued[PV_SIZE_LARGE]) : NULL;
		double		charge;

		if (small == NULL && large == NULL)
			continue;
		charge = pv_queue_charge(queues, owner->key.role);
		if (small != NULL)
			choose(small, charge, &first, order);
		if (large != NULL)
			choose(large, charge, &first, order);
	}
	return first;
}


/* ----------------------------------------------------------------
 *		Entries
 * ----------------------------------------------------------------
 */

/* The entry of a table, or NULL. */
PvQueueEntry *
pv_queue_find_table(const PvQueues *queues, Oid database, Oid relid)
{
	PvItemKey	key = {database, relid};

	return hash_search(queues->entries, &key, HASH_FIND, NULL);
}

/*
 * The time is that since which the table is in this state.  A table that waits
 * has done so since it came to wait for this reason, also if it was queued and
 * begun again in between.  One that is queued may have been put back.
 */
void
pv_entry_set_state(const PvQueues *queues, PvDatabaseQueue *queue,
				   PvQueueEntry *entry, PvItemState state, PvWaitReason reason)
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
	list_as_waiting(queue, entry);
}

/*
 * Takes an entry out of its heap, if it is in one: before anything changes that
 * its place there depends on.  Core's pairing heap is used with a root of ours,
 * because the address of the comparison function is valid in one process only.
 */
void
pv_entry_unqueue(PvDatabaseQueue *queue, PvQueueEntry *entry)
{
	pairingheap heap = {compare_queued, NULL, NULL};
	bool		was_queued;

	if (entry->heap == NULL)
		return;
	was_queued = has_queued(entry->owner);
	heap.ph_root = *entry->heap;
	pairingheap_remove(&heap, &entry->heap_node);
	*entry->heap = heap.ph_root;
	entry->heap = NULL;
	queue->nqueued--;
	if (was_queued && !has_queued(entry->owner))
		dlist_delete(&entry->owner->node);
}

void
pv_entry_enqueue(const PvQueues *queues, PvDatabaseQueue *queue,
				 PvQueueEntry *entry)
{
	PvItem	   *item = &entry->item;
	PvSizeClass size = pv_size_class(item);
	pairingheap heap = {compare_queued, NULL, NULL};

	Assert(entry->heap == NULL);
	pv_entry_set_state(queues, queue, entry, PV_ITEM_QUEUED, PV_WAIT_NONE);
	item->again = false;
	item->turn = pv_turn(&item->score, OidIsValid(item->requester),
						 item->needed_since);
	if (pv_is_in_danger(item) || item->urgent)
		entry->heap = &queue->first[size];
	else
	{
		if (!has_queued(entry->owner))
			dlist_push_tail(&queue->owners, &entry->owner->node);
		entry->heap = &entry->owner->queued[size];
	}
	heap.ph_root = *entry->heap;
	pairingheap_add(&heap, &entry->heap_node);
	*entry->heap = heap.ph_root;
	queue->nqueued++;
}

void
pv_entry_remove(PvQueues *queues, PvDatabaseQueue *queue, PvQueueEntry *entry)
{
	PvQueueShared *shared = queues->shared;

	pv_entry_unqueue(queue, entry);
	pv_entry_clear_request(queues, queue, entry);
	entry->owner->nentries--;
	drop_unused_owner(queues, entry->owner);
	if (entry->gives_way)
		dlist_delete(&entry->wait_node);
	dlist_delete(&entry->node);
	queue->nentries--;
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
	const PvOwner *owner = pv_entry_find_owner(queues, queue, item->owner);
	int			n = queues->shared->nentries;

	if (n >= queues->limit)
		return false;
	return item->score.danger ||
		pv_has_room(queues->limit, n, queue->nentries,
					owner != NULL ? owner->nentries : 0);
}

/*
 * Makes room: a table that waits gives way to one that is to be queued, one of
 * the same database first, and the one that came last, or each would push out
 * the next that a scan offers.  The next scan finds it again.
 */
static bool
make_room(PvQueues *queues, PvDatabaseQueue *queue)
{
	PvDatabaseQueue *all = queues->shared->queues;

	if (dlist_is_empty(&queue->waiting) &&
		queues->shared->nentries < queues->limit)
		return false;
	for (int i = 0; i < PV_MAX_QUEUES && dlist_is_empty(&queue->waiting); i++)
	{
		if (!dlist_is_empty(&all[i].waiting))
			queue = &all[i];
	}
	if (dlist_is_empty(&queue->waiting))
		return false;
	pv_entry_remove(queues, queue,
					dlist_tail_element(PvQueueEntry, wait_node,
									   &queue->waiting));
	return true;
}

/*
 * Adds an entry for a table that has needed something since now, which is not
 * queued yet.  Returns NULL if there is no room for it.
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
	entry = hash_search(queues->entries, &item->key, HASH_ENTER_NULL, NULL);
	if (entry == NULL)
		return NULL;
	entry->owner = entry->requester = NULL;
	entry->gives_way = false;
	if (!pv_entry_set_owner(queues, queue, entry, item->owner))
	{
		(void) hash_search(queues->entries, &item->key, HASH_REMOVE, NULL);
		return NULL;
	}
	entry->item = *item;
	entry->item.state = PV_ITEM_WAITING;
	entry->item.requester = InvalidOid;
	entry->item.urgent = entry->item.again = entry->item.held = false;
	entry->item.tried = false;
	entry->item.needed_since = queues->now;
	entry->item.left.horizon = InvalidTransactionId;
	entry->item.waited_for = PV_WAIT_NONE;
	entry->item.done = 0;
	entry->item.worker_pid = 0;
	entry->heap = NULL;
	entry->seen = queue->scan;
	dlist_push_tail(&queue->entries, &entry->node);
	queue->nentries++;
	shared->nentries++;
	entry->place = shared->free_places[PV_QUEUE_SIZE - shared->nentries];
	shared->places[entry->place] = entry;
	return entry;
}

/*
 * Copies up to PV_QUEUE_BATCH items of a database, or of all databases if the
 * OID is invalid, from that place on.  Returns their number, and sets *place
 * to where to go on: PV_QUEUE_SIZE at the end.  If the lock is released between
 * two calls, a table that gets another place meanwhile may be copied twice.
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
 *		The shared memory
 * ----------------------------------------------------------------
 */

/* Sets up a queue without any entry; the hash tables are the caller's. */
void
pv_queue_init(PvQueueShared *shared)
{
	PvSchedulerCounters *counters = &shared->counters;

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
	pg_atomic_init_u64(&counters->database_scans, 0);
	pg_atomic_init_u64(&counters->vacuums, 0);
	pg_atomic_init_u64(&counters->analyzes, 0);
	pg_atomic_init_u64(&counters->sweeps, 0);
	pg_atomic_init_u64(&counters->not_needed, 0);
	pg_atomic_init_u64(&counters->skipped_horizon, 0);
	pg_atomic_init_u64(&counters->skipped_window, 0);
	pg_atomic_init_u64(&counters->skipped_lock, 0);
	pg_atomic_init_u64(&counters->errors, 0);
	pg_atomic_init_u64(&counters->queue_full, 0);
	pg_atomic_init_u64(&counters->no_process, 0);
}
