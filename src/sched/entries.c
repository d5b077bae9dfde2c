/*-------------------------------------------------------------------------
 *
 * entries.c
 *	  The tables in the scheduler's queues, their order and their holders.
 *
 * A table is one entry of a hash table, by database and OID.  So it is queued
 * once, and the scheduler worker that takes it is the only one to work on it.
 * Each entry is in up to two heaps:
 *
 *		heap of its queue	queued entries, by pv_compare_ranks(); each
 *							database has one for small and one for large tables
 *		heap of its holder	entries that are not running; on top is the one
 *							that the holder loses first
 *
 * and in two lists of its queue: the list of all entries, by which a database
 * scan finds those that it has not offered (sched/database_scan.c), and one of
 * PV_QUEUE_PARTS parts, by which all entries are copied in small steps.
 *
 * Holders.  Each entry has a holder: the scans of the database, or the role
 * that has asked for the table.  Where the queues are full, a new entry evicts
 * another one if sched/policy.c gives its holder a share that is not used up:
 *
 *		the database of the new entry has	the evicted entry is of
 *		----------------------------------	-----------------------
 *		less than its share					the database with the most entries
 *		its share							the same database
 *
 *		and of that database
 *		requests above their share			the role with the most entries
 *		else								the database's scans
 *
 * From another database, and from a holder beyond its share, an entry is taken
 * wherever the two are in the order; otherwise only if the new one goes before
 * it.  An entry that is queued in danger of wraparound gives way only to
 * another one in danger.
 *
 * These functions run in every process that uses the queue, under its lock,
 * exclusive if they change anything.  They raise no errors, wait for nothing
 * and allocate only in the hash tables, which have room for all.  An entry is
 * added, removed or changed in time that is on average logarithmic in the
 * number of entries, plus a walk over the PV_MAX_QUEUES queues where one has
 * to be found.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "common/hashfn.h"

#include "sched/entries.h"

/* Sets up queues without any entry; the hash tables are the caller's. */
void
pv_entries_init(PvQueueShared *shared)
{
	memset(shared, 0, sizeof(PvQueueShared));
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		PvDatabaseQueue *queue = &shared->queues[i];

		dlist_init(&queue->entries);
		for (int part = 0; part < PV_QUEUE_PARTS; part++)
			dlist_init(&queue->parts[part]);
	}
	pg_atomic_init_u32(&shared->nattached, 0);
	pg_atomic_init_u64(&shared->counters.database_scans, 0);
	pg_atomic_init_u64(&shared->counters.vacuums, 0);
	pg_atomic_init_u64(&shared->counters.analyzes, 0);
	pg_atomic_init_u64(&shared->counters.sweeps, 0);
	pg_atomic_init_u64(&shared->counters.not_needed, 0);
	pg_atomic_init_u64(&shared->counters.skipped_horizon, 0);
	pg_atomic_init_u64(&shared->counters.skipped_window, 0);
	pg_atomic_init_u64(&shared->counters.skipped_lock, 0);
	pg_atomic_init_u64(&shared->counters.errors, 0);
	pg_atomic_init_u64(&shared->counters.queue_full, 0);
	pg_atomic_init_u64(&shared->counters.no_process, 0);
}


/* ----------------------------------------------------------------
 *		Finding
 * ----------------------------------------------------------------
 */

/* The queue of a database, or NULL. */
PvDatabaseQueue *
pv_entries_find_queue(const PvQueues *queues, Oid database)
{
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		if (queues->shared->queues[i].database == database)
			return &queues->shared->queues[i];
	}
	return NULL;
}

/* The entry of a table, or NULL. */
PvQueueEntry *
pv_entries_find(const PvQueues *queues, Oid database, Oid relid)
{
	PvItemKey	key = {database, relid};

	return hash_search(queues->entries, &key, HASH_FIND, NULL);
}

/*
 * The number of entries that all queues may have; also bounds that of queues.
 */
int
pv_entries_limit(const PvQueues *queues)
{
	return Min(PV_QUEUE_SIZE, queues->limit);
}

/* The holder for a role, or NULL; for an invalid OID, that for the scans. */
PvHolder *
pv_entries_find_holder(const PvQueues *queues, PvDatabaseQueue *queue,
					   Oid role)
{
	PvHolderKey key = {queue->database, role};

	if (!OidIsValid(role))
		return &queue->found;
	return hash_search(queues->requesters, &key, HASH_FIND, NULL);
}

/* Whether an entry can get that holder. */
bool
pv_entries_can_hold(const PvQueues *queues, PvDatabaseQueue *queue, Oid role)
{
	return pv_entries_find_holder(queues, queue, role) != NULL ||
		hash_get_num_entries(queues->requesters) < PV_MAX_REQUESTERS;
}


/* ----------------------------------------------------------------
 *		The order
 * ----------------------------------------------------------------
 */

PvSizeClass
pv_entries_size_class(const PvItem *item)
{
	return item->pages >= PV_LARGE_PAGES ? PV_SIZE_LARGE : PV_SIZE_SMALL;
}

/* A queue's heaps: the entry that goes first is on top. */
int
pv_entries_compare_queued(const pairingheap_node *a, const pairingheap_node *b,
						  void *arg)
{
	const PvQueueEntry *x = pairingheap_const_container(PvQueueEntry,
														queue_node, a);
	const PvQueueEntry *y = pairingheap_const_container(PvQueueEntry,
														queue_node, b);

	return pv_compare_ranks(&x->item.rank, &y->item.rank);
}

/*
 * A holder's heap: the entry that is evicted first is on top.  Waiting entries
 * come before queued ones, and among equals the last in the order.
 */
int
pv_entries_compare_evictable(const pairingheap_node *a,
							 const pairingheap_node *b, void *arg)
{
	const PvItem *x = &pairingheap_const_container(PvQueueEntry, holder_node,
												   a)->item;
	const PvItem *y = &pairingheap_const_container(PvQueueEntry, holder_node,
												   b)->item;

	if (x->state != y->state)
		return x->state == PV_ITEM_WAITING ? 1 : -1;
	return pv_compare_ranks(&y->rank, &x->rank);
}

/*
 * A queue's roles: on top is the one with the most entries, among equals the
 * one that has had some for the longest time.  Roles without an entry that can
 * be evicted come last.
 */
int
pv_entries_compare_requesters(const pairingheap_node *a,
							  const pairingheap_node *b, void *arg)
{
	const PvHolder *x = pairingheap_const_container(PvHolder, node, a);
	const PvHolder *y = pairingheap_const_container(PvHolder, node, b);

	if ((x->evictable == NULL) != (y->evictable == NULL))
		return x->evictable != NULL ? 1 : -1;
	if (x->nentries != y->nentries)
		return x->nentries > y->nentries ? 1 : -1;
	if (x->joined == y->joined)
		return 0;
	return (int32) (x->joined - y->joined) < 0 ? 1 : -1;
}

/*
 * Core's pairing heap.  Only the root is shared, because the address of the
 * comparison function is valid in one process only.
 */
static void
add_to_heap(pairingheap_node **root, pairingheap_comparator compare,
			pairingheap_node *node)
{
	pairingheap heap = {compare, NULL, *root};

	pairingheap_add(&heap, node);
	*root = heap.ph_root;
}

static void
remove_from_heap(pairingheap_node **root, pairingheap_comparator compare,
				 pairingheap_node *node)
{
	pairingheap heap = {compare, NULL, *root};

	pairingheap_remove(&heap, node);
	*root = heap.ph_root;
}

/* The first queued entry of that size, or NULL. */
PvQueueEntry *
pv_entries_first(const PvDatabaseQueue *queue, PvSizeClass size)
{
	if (queue->heap[size] == NULL)
		return NULL;
	return pairingheap_container(PvQueueEntry, queue_node, queue->heap[size]);
}

/* Does a go before b?  Each may be NULL. */
bool
pv_entries_goes_before(const PvQueueEntry *a, const PvQueueEntry *b)
{
	return a != NULL &&
		(b == NULL || pv_compare_ranks(&a->item.rank, &b->item.rank) > 0);
}

/* The first queued entry, or NULL; large tables are included on demand. */
PvQueueEntry *
pv_entries_first_of_both(const PvDatabaseQueue *queue, bool large_too)
{
	PvQueueEntry *small = pv_entries_first(queue, PV_SIZE_SMALL);
	PvQueueEntry *large = large_too ? pv_entries_first(queue,
													   PV_SIZE_LARGE) : NULL;

	return pv_entries_goes_before(large, small) ? large : small;
}

/*
 * Has the table had its turn, so that it waits for the next database scan?
 * One that waits for its window has not.
 */
bool
pv_entries_had_turn(const PvItem *item)
{
	return item->state == PV_ITEM_WAITING && item->reason != PV_WAIT_WINDOW;
}


/* ----------------------------------------------------------------
 *		Holders
 * ----------------------------------------------------------------
 */

/* Moves a role to its place among the roles, after a change. */
static void
reorder_requester(PvDatabaseQueue *queue, PvHolder *holder)
{
	if (holder == &queue->found)
		return;
	remove_from_heap(&queue->requesters, pv_entries_compare_requesters,
					 &holder->node);
	add_to_heap(&queue->requesters, pv_entries_compare_requesters,
				&holder->node);
}

/*
 * Gives an entry its holder; pv_entries_can_hold() has said that there can be
 * one.
 */
static void
join_holder(const PvQueues *queues, PvDatabaseQueue *queue,
			PvQueueEntry *entry, Oid role)
{
	PvHolder   *holder = pv_entries_find_holder(queues, queue, role);

	if (holder == NULL)
	{
		PvHolderKey key = {queue->database, role};

		holder = hash_search(queues->requesters, &key, HASH_ENTER_NULL, NULL);
		Assert(holder != NULL);
		holder->nentries = 0;
		holder->evictable = NULL;
		holder->joined = queue->next_joined++;
		add_to_heap(&queue->requesters, pv_entries_compare_requesters,
					&holder->node);
	}
	holder->nentries++;
	queue->nrequests += OidIsValid(role);
	entry->holder = holder;
	entry->item.role = role;
	reorder_requester(queue, holder);
}

static void
leave_holder(const PvQueues *queues, PvDatabaseQueue *queue,
			 PvQueueEntry *entry)
{
	PvHolder   *holder = entry->holder;

	holder->nentries--;
	queue->nrequests -= OidIsValid(holder->key.role);
	if (holder->nentries == 0 && holder != &queue->found)
	{
		remove_from_heap(&queue->requesters, pv_entries_compare_requesters,
						 &holder->node);
		(void) hash_search(queues->requesters, &holder->key,
						   HASH_REMOVE, NULL);
	}
	else
		reorder_requester(queue, holder);
	entry->holder = NULL;
}

/*
 * The entry is requested by that role with that priority; with an invalid OID
 * and 0 it is not requested any more.  It is in no heap.
 */
void
pv_entries_set_request(const PvQueues *queues, PvDatabaseQueue *queue,
					   PvQueueEntry *entry, Oid role, double priority)
{
	Assert(!entry->placed && OidIsValid(role) == (priority > 0));
	if (entry->item.role != role)
	{
		leave_holder(queues, queue, entry);
		join_holder(queues, queue, entry, role);
	}
	entry->item.priority = priority;
}


/* ----------------------------------------------------------------
 *		State of an entry
 * ----------------------------------------------------------------
 */

/*
 * Takes an entry out of its heaps.  To be called before anything is changed
 * that its places there depend on.
 */
void
pv_entries_unplace(PvDatabaseQueue *queue, PvQueueEntry *entry)
{
	PvSizeClass size = pv_entries_size_class(&entry->item);
	PvHolder   *holder = entry->holder;

	if (!entry->placed)
		return;
	if (entry->item.state == PV_ITEM_QUEUED)
	{
		remove_from_heap(&queue->heap[size], pv_entries_compare_queued,
						 &entry->queue_node);
		queue->nqueued[size]--;
	}
	remove_from_heap(&holder->evictable, pv_entries_compare_evictable,
					 &entry->holder_node);
	if (holder->evictable == NULL)
		reorder_requester(queue, holder);
	entry->placed = false;
}

/*
 * The time is that since which the table is in this state.  A table that waits
 * has done so since it came to wait for this reason, also if it was queued and
 * begun again in between.  One that is queued may have been put back.
 */
static void
set_state(PvItem *item, PvItemState state, PvWaitReason reason,
		  TimestampTz now)
{
	if (state == PV_ITEM_WAITING && item->waited_for != reason)
	{
		item->waited_for = reason;
		item->waits_since = now;
	}
	item->state_since = state == PV_ITEM_WAITING ? item->waits_since :
		state == PV_ITEM_QUEUED ? item->needed_since : now;
	item->state = state;
	item->reason = reason;
	item->wait_until = PV_NEVER;
	item->worker_pid = 0;
}

/*
 * Gives an entry its state, and puts it into the heaps that this state
 * requires.
 */
void
pv_entries_place(const PvQueues *queues, PvDatabaseQueue *queue,
				 PvQueueEntry *entry, PvItemState state, PvWaitReason reason)
{
	PvItem	   *item = &entry->item;
	PvSizeClass size = pv_entries_size_class(item);
	bool		was_empty = entry->holder->evictable == NULL;

	Assert(!entry->placed);
	set_state(item, state, reason, queues->now);
	pv_rank_table(&item->score, item->priority, item->needed_since,
				  item->not_completed, &item->rank);
	if (state == PV_ITEM_RUNNING)
		return;
	if (state == PV_ITEM_QUEUED)
	{
		add_to_heap(&queue->heap[size], pv_entries_compare_queued,
					&entry->queue_node);
		queue->nqueued[size]++;
	}
	add_to_heap(&entry->holder->evictable, pv_entries_compare_evictable,
				&entry->holder_node);
	if (was_empty)
		reorder_requester(queue, entry->holder);
	entry->placed = true;
}

/*
 * Queues an entry that is requested, or was while a worker was at it.  The
 * entry is in no heap.
 */
void
pv_entries_enqueue_again(const PvQueues *queues, PvDatabaseQueue *queue,
						 PvQueueEntry *entry)
{
	entry->item.again = false;
	entry->item.score.total = Max(entry->item.score.total,
								  entry->item.priority);
	if (entry->item.priority > 0)
		entry->item.only_analyze = entry->item.only_sweep = false;
	pv_entries_place(queues, queue, entry, PV_ITEM_QUEUED, PV_WAIT_NONE);
}

void
pv_entries_remove(PvQueues *queues, PvDatabaseQueue *queue,
				  PvQueueEntry *entry)
{
	pv_entries_unplace(queue, entry);
	leave_holder(queues, queue, entry);
	dlist_delete(&entry->node);
	dlist_delete(&entry->part_node);
	queue->nentries--;
	(void) hash_search(queues->entries, &entry->item.key, HASH_REMOVE, NULL);
	queues->shared->nentries--;
}


/* ----------------------------------------------------------------
 *		Eviction
 * ----------------------------------------------------------------
 */

/*
 * Removes an entry for the sake of others.  A later scan finds the table
 * again, unless it has had its turn, and the time that it has waited is kept:
 * tables that were vacuumed since then come after it.
 */
void
pv_entries_evict(PvQueues *queues, PvDatabaseQueue *queue, PvQueueEntry *entry)
{
	const PvItem *item = &entry->item;

	queue->progress.evicted |= pv_entries_had_turn(item);
	if (item->state == PV_ITEM_QUEUED && !OidIsValid(item->role))
	{
		queue->incomplete = true;
		queue->progress.since = Min(queue->progress.since, item->needed_since);
	}
	pv_entries_remove(queues, queue, entry);
}

/* The role that is the first to give up an entry, or NULL if none can. */
static PvHolder *
largest_requester(const PvDatabaseQueue *queue)
{
	PvHolder   *largest;

	if (queue->requesters == NULL)
		return NULL;
	largest = pairingheap_container(PvHolder, node, queue->requesters);
	return largest->evictable != NULL ? largest : NULL;
}

/*
 * The queues are full, and a role, or a scan, has a table for this one.
 * Returns the holder that is to give up an entry, or NULL.  *anyway is set if
 * it is to give it up wherever the two are in the order.
 */
static PvHolder *
find_giver(const PvQueues *queues, PvDatabaseQueue *queue, Oid role,
		   bool *anyway)
{
	PvDatabaseQueue *all = queues->shared->queues;
	PvDatabaseQueue *from = queue;
	PvHolder   *giver;
	int			ndatabases = 0;
	int			share;
	bool		too_many;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
		ndatabases += all[i].nentries > 0 || &all[i] == queue;
	share = pv_share_of_database(pv_entries_limit(queues), ndatabases);
	if (queue->nentries < share)
	{
		for (int i = 0; i < PV_MAX_QUEUES; i++)
		{
			if (all[i].nentries > Max(share, from->nentries))
				from = &all[i];
		}
	}

	too_many =
		from->nrequests + (from == queue &&
						   OidIsValid(role)) > pv_share_of_requests(share);
	giver = too_many ||
		from->found.evictable == NULL ? largest_requester(from) : &from->found;
	if (giver == NULL)
		giver = &from->found;
	*anyway = from != queue ||
		(giver->key.role != role && (too_many || giver == &from->found));
	return giver->evictable != NULL ? giver : NULL;
}

/* Makes room for an item of this rank, if the shares allow that. */
static void
evict_for(PvQueues *queues, PvDatabaseQueue *queue, const PvRank *rank,
		  Oid role)
{
	bool		anyway;
	PvHolder   *giver = find_giver(queues, queue, role, &anyway);
	PvQueueEntry *entry;

	if (giver == NULL)
		return;
	entry = pairingheap_container(PvQueueEntry, holder_node, giver->evictable);
	if (entry->item.state == PV_ITEM_QUEUED &&
		(anyway ? entry->item.rank.danger && !rank->danger :
		 pv_compare_ranks(rank, &entry->item.rank) <= 0))
		return;
	pv_entries_evict(queues,
					 pv_entries_find_queue(queues, entry->item.key.database),
					 entry);
}

/* The part of a queue that the entry of a table is in. */
static uint32
part_of(Oid relid)
{
	return murmurhash32(relid) % PV_QUEUE_PARTS;
}

/*
 * Adds an entry for a table that has needed something since then, in its
 * queue's lists but in no heap.  Returns NULL if there is no room for it.
 */
PvQueueEntry *
pv_entries_add(PvQueues *queues, PvDatabaseQueue *queue, const PvItem *item,
			   TimestampTz since)
{
	PvQueueShared *shared = queues->shared;
	PvQueueEntry *entry;
	PvRank		rank;

	if (shared->nentries == pv_entries_limit(queues) &&
		item->reason == PV_WAIT_NONE)
	{
		pv_rank_table(&item->score, item->priority, since, false, &rank);
		evict_for(queues, queue, &rank, item->role);
	}
	if (shared->nentries >= pv_entries_limit(queues) ||
		!pv_entries_can_hold(queues, queue, item->role))
		return NULL;
	entry = hash_search(queues->entries, &item->key, HASH_ENTER_NULL, NULL);
	if (entry == NULL)
		return NULL;
	entry->item = *item;
	entry->item.state = PV_ITEM_WAITING;
	entry->item.state_since = PV_NEVER;
	entry->item.needed_since = since;
	entry->item.again = false;
	entry->item.only_analyze = entry->item.only_sweep = false;
	entry->item.not_completed = false;
	entry->item.left.horizon = InvalidTransactionId;
	entry->item.waited_for = PV_WAIT_NONE;
	entry->item.done = 0;
	entry->placed = false;
	entry->seen = queue->scan;
	join_holder(queues, queue, entry, item->role);
	dlist_push_tail(&queue->entries, &entry->node);
	dlist_push_tail(&queue->parts[part_of(item->key.relid)],
					&entry->part_node);
	queue->nentries++;
	shared->nentries++;
	return entry;
}


/* ----------------------------------------------------------------
 *		Copies
 * ----------------------------------------------------------------
 */

/* Copies one part; -1 if it does not fit. */
static int
copy_part(const dlist_head *part, PvItem *items, int room)
{
	dlist_iter	iter;
	int			n = 0;

	dlist_foreach(iter, unconstify(dlist_head *, part))
	{
		if (n == room)
			return -1;
		items[n++] = dlist_container(PvQueueEntry, part_node, iter.cur)->item;
	}
	return n;
}

/*
 * Copies the items of a queue, part by part from *part on, until
 * PV_QUEUE_BATCH have been copied, there is no more room, or no part is left.
 * Returns their number, and sets *part to where to go on: PV_QUEUE_PARTS at
 * the end.
 *
 * A part is copied as a whole, under one lock, and a table always has the same
 * part.  So a caller that releases the lock between two calls gets no table
 * twice, and misses none that has an entry all the time.
 */
int
pv_entries_copy(const PvDatabaseQueue *queue, int *part, PvItem *items,
				int room)
{
	int			n = 0;

	if (queue->nentries == 0)
		*part = PV_QUEUE_PARTS;
	while (*part < PV_QUEUE_PARTS && n < PV_QUEUE_BATCH)
	{
		int			copied = copy_part(&queue->parts[*part], items + n,
									   room - n);

		if (copied < 0)
			break;
		n += copied;
		(*part)++;
	}
	return n;
}
