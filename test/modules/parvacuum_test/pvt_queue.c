/*-------------------------------------------------------------------------
 *
 * pvt_queue.c
 *	  A queue with a clock of its own, on which one process plays all others.
 *
 * sched/queue.c is compiled into this library a second time.  Its data is in
 * this process's memory, and the clock and the settings are arguments.  So one
 * session is as many scheduler workers as there are slots.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "pvt_queue.h"

PvQueues	pvt_queues;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

/* dynahash refuses HASH_ENTER_NULL for tables that allocate by palloc(). */
#if PG_VERSION_NUM >= 190000
static void *
allocate(Size size, void *arg)
#else
static void *
allocate(Size size)
#endif
{
	return MemoryContextAlloc(TopMemoryContext, size);
}

/*
 * An empty hash table.  The first one of a kind serves all queues of this
 * session.
 */
void
pvt_make_hash(HTAB **hash, const char *name, long size, Size keysize,
			  Size entrysize)
{
	HASHCTL		info = {
		.keysize = keysize,
		.entrysize = entrysize,
		.alloc = allocate
	};
	HASH_SEQ_STATUS status;
	void	   *entry;

	if (*hash == NULL)
		*hash = hash_create(name, size, &info,
							HASH_ELEM | HASH_BLOBS | HASH_ALLOC);
	hash_seq_init(&status, *hash);
	while ((entry = hash_seq_search(&status)) != NULL)
		(void) hash_search(*hash, entry, HASH_REMOVE, NULL);
}

void
pvt_queue_set_up(int limit, int nworkers)
{
	if (pvt_queues.shared != NULL)
		pfree(pvt_queues.shared);
	pvt_queues.shared = MemoryContextAlloc(TopMemoryContext,
										   sizeof(PvQueueShared));
	pv_queue_init(pvt_queues.shared);
	pvt_make_hash(&pvt_queues.databases, "databases", PV_MAX_QUEUES,
				  sizeof(Oid), sizeof(PvDatabaseQueue));
	pvt_make_hash(&pvt_queues.entries, "entries", PV_QUEUE_SIZE,
				  sizeof(PvItemKey), sizeof(PvQueueEntry));
	pvt_make_hash(&pvt_queues.owners, "owners", PV_QUEUE_SIZE,
				  sizeof(PvOwnerKey), sizeof(PvOwner));
	pvt_make_hash(&pvt_queues.charges, "charges", PV_MAX_CHARGES,
				  sizeof(Oid), sizeof(PvCharge));
	pvt_queues.now = USECS_PER_DAY;
	pvt_queues.naptime = 60 * USECS_PER_SEC;
	pvt_queues.limit = limit;
	pvt_queues.nworkers = nworkers;
}

/* The worker in that slot. */
PvWorkerSlot *
pvt_queue_worker(int worker)
{
	PvWorkerSlot *slot;

	if (worker < 0 || worker >= PV_MAX_SCHED_WORKERS)
		elog(ERROR, "there is no worker %d", worker);
	slot = &pvt_queues.shared->slots[worker];
	if (!slot->used)
		elog(ERROR, "there is no worker %d", worker);
	return slot;
}


/* ----------------------------------------------------------------
 *		Steps
 * ----------------------------------------------------------------
 */

/* A worker that has attached, or NULL. */
PvWorkerSlot *
pvt_queue_start(Oid database, bool to_scan, bool large)
{
	PvWorkerSlot *slot = pv_queue_add_worker(&pvt_queues, database, to_scan,
											 large);

	if (slot == NULL)
		return NULL;
	slot->pid = PVT_FIRST_PID + (slot - pvt_queues.shared->slots);
	slot->connected = true;
	if (to_scan)
		slot->queue->begun_at = slot->queue->scanned_at = PV_NEVER;
	return slot;
}

bool
pvt_queue_end_scan(PvWorkerSlot *slot, bool complete, int64 used)
{
	while (pv_queue_remove_unseen(&pvt_queues, slot->queue))
		 /* batch by batch */ ;
	return pv_queue_end_scan(&pvt_queues, slot, complete, false, used);
}


/* ----------------------------------------------------------------
 *		Checks
 * ----------------------------------------------------------------
 */

#define check(condition) \
	do { \
		if (!(condition)) \
			elog(ERROR, "the queue is broken: not %s", #condition); \
	} while (0)

/* What should be found in a queue, or of an owner in it */
typedef struct Counts
{
	int			nentries;
	int			nqueued;
} Counts;

static void
count(const PvDatabaseQueue *queue, Oid owner, Counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	for (int i = 0; i < pvt_queues.limit; i++)
	{
		const PvQueueEntry *entry = pvt_queues.shared->places[i];

		if (entry == NULL || entry->item.key.database != queue->database)
			continue;
		if (!OidIsValid(owner) || entry->item.owner == owner)
		{
			counts->nentries++;
			counts->nqueued += entry->item.state == PV_ITEM_QUEUED;
		}
	}
}

static void
check_entry(int place, const PvQueueEntry *entry)
{
	const PvItem *item = &entry->item;
	const PvDatabaseQueue *queue = pv_queue_find(&pvt_queues,
												 item->key.database);

	check(entry->place == place);
	check(queue != NULL && entry->queue == queue);
	check(pv_queue_find_table(&pvt_queues, item->key.database,
							  item->key.relid) == entry);
	check(entry->owner->key.role == item->owner);
	check((entry->heap != NULL) == (item->state == PV_ITEM_QUEUED));
	check((item->worker_pid != 0) == (item->state == PV_ITEM_RUNNING));
	check(entry->gives_way == (item->state == PV_ITEM_WAITING && !item->requested));
	check((item->reason != PV_WAIT_NONE) == (item->state == PV_ITEM_WAITING));
	if (item->state == PV_ITEM_RUNNING)
	{
		const PvWorkerSlot *slot =
			pvt_queue_worker(item->worker_pid - PVT_FIRST_PID);

		check(slot->entry == entry);
		check(slot->queue == queue);
	}
}

/* No queued table that could be taken goes before the first one. */
static void
check_first(const PvDatabaseQueue *queue)
{
	PvOrder		order;
	bool		large_too = pv_queue_has_large_place(&pvt_queues);
	const PvQueueEntry *first = pv_queue_first(&pvt_queues, queue, large_too,
											   &order);

	for (int i = 0; i < pvt_queues.limit; i++)
	{
		const PvQueueEntry *entry = pvt_queues.shared->places[i];
		PvOrder		other;

		if (entry == NULL || entry->heap == NULL ||
			entry->item.key.database != queue->database ||
			(entry->item.pages >= PV_LARGE_PAGES && !large_too))
			continue;
		other = pv_queue_order(&entry->item,
							   pv_queue_charge(&pvt_queues,
											   entry->item.owner));
		check(first != NULL);
		check(pv_compare_order(&other, &order) <= 0 ||
			  (order.danger && other.danger) ||
			  (first->item.urgent && other.urgent));
		check(!other.danger || order.danger);
		check(!other.danger || other.age <= order.age);
	}
}

static void
check_queue(PvDatabaseQueue *queue)
{
	Counts		counts;
	dlist_iter	iter;
	int			nworkers = 0;

	count(queue, InvalidOid, &counts);
	check(queue->nentries == counts.nentries);
	check(queue->nqueued == counts.nqueued);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &pvt_queues.shared->slots[i];

		nworkers += slot->used && slot->queue == queue;
	}
	check(queue->nworkers == nworkers);
	dlist_foreach(iter, &queue->owners)
	{
		const PvOwner *owner = dlist_container(PvOwner, node, iter.cur);

		count(queue, owner->key.role, &counts);
		check(owner->nentries == counts.nentries);
		check(owner->nqueued > 0 && owner->nqueued <= counts.nqueued);
	}
	check_first(queue);
}

void
pvt_queue_check(void)
{
	const PvQueueShared *shared = pvt_queues.shared;
	bool	   *seen = palloc0(PV_QUEUE_SIZE);
	dlist_iter	iter;
	int			n = 0;

	for (int i = 0; i < pvt_queues.limit; i++)
	{
		if (shared->places[i] != NULL)
		{
			check_entry(i, shared->places[i]);
			seen[i] = true;
			n++;
		}
	}
	check(n == shared->nentries);
	check(n == hash_get_num_entries(pvt_queues.entries));
	check(n <= pvt_queues.limit);
	for (int i = PV_QUEUE_SIZE - pvt_queues.limit; i < PV_QUEUE_SIZE - n; i++)
	{
		check(!seen[shared->free_places[i]]);
		seen[shared->free_places[i]] = true;
	}
	dlist_foreach(iter, &pvt_queues.shared->databases)
		check_queue(dlist_container(PvDatabaseQueue, node, iter.cur));
	pfree(seen);
}
