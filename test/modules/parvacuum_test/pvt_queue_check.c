/*-------------------------------------------------------------------------
 *
 * pvt_queue_check.c
 *	  Checks of a queue: everything in it is compared with everything else.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "pvt_queue.h"


/* ----------------------------------------------------------------
 *		Checks
 * ----------------------------------------------------------------
 */

/* Counts the entries of a heap, and checks that they belong there. */
static int
check_heap(pairingheap_node *node, PvSizeClass size, Oid database)
{
	int			n = 0;

	for (; node != NULL; node = node->next_sibling)
	{
		PvQueueEntry *entry = pairingheap_container(PvQueueEntry,
													queue_node, node);

		pvt_check(entry->item.state == PV_ITEM_QUEUED);
		pvt_check(entry->item.key.database == database);
		pvt_check(pv_entries_size_class(&entry->item) == size);
		for (pairingheap_node *child = node->first_child; child;
			 child = child->next_sibling)
			pvt_check(pv_entries_compare_queued(node, child, NULL) >= 0);
		n += 1 + check_heap(node->first_child, size, database);
	}
	return n;
}

/* The same for the heap of a holder. */
static int
check_least(pairingheap_node *node, const PvHolder *holder)
{
	int			n = 0;

	for (; node != NULL; node = node->next_sibling)
	{
		PvQueueEntry *entry = pairingheap_container(PvQueueEntry,
													holder_node, node);

		pvt_check(entry->item.state != PV_ITEM_RUNNING &&
				  entry->holder == holder);
		for (pairingheap_node *child = node->first_child; child;
			 child = child->next_sibling)
			pvt_check(pv_entries_compare_evictable(node, child, NULL) >= 0);
		n += 1 + check_least(node->first_child, holder);
	}
	return n;
}

/* A holder's number of entries, and its heap, agree with the entries. */
static void
check_holder(PvDatabaseQueue *queue, PvHolder *holder)
{
	dlist_iter	iter;
	int			n = 0,
				nrunning = 0;

	dlist_foreach(iter, &queue->entries)
	{
		PvQueueEntry *entry = dlist_container(PvQueueEntry, node, iter.cur);

		if (entry->holder != holder)
			continue;
		pvt_check(entry->item.role == holder->key.role);
		nrunning += entry->item.state == PV_ITEM_RUNNING;
		n++;
	}
	pvt_check(n == holder->nentries);
	pvt_check(check_least(holder->evictable, holder) == n - nrunning);
	pvt_check(!OidIsValid(queue->database) ||
			  holder->key.database == queue->database);
}

/* Counts the roles in a queue's heap, and the entries that they have. */
static int
check_requesters(PvDatabaseQueue *queue, pairingheap_node *node,
				 int *nrequests)
{
	int			n = 0;

	for (; node != NULL; node = node->next_sibling)
	{
		PvHolder   *holder = pairingheap_container(PvHolder, node, node);

		pvt_check(pv_entries_find_holder(&pvt_queues, queue,
										 holder->key.role) == holder &&
				  holder->nentries > 0);
		check_holder(queue, holder);
		for (pairingheap_node *child = node->first_child; child;
			 child = child->next_sibling)
			pvt_check(pv_entries_compare_requesters(node, child, NULL) >= 0);
		*nrequests += holder->nentries;
		n += 1 + check_requesters(queue, node->first_child, nrequests);
	}
	return n;
}

/* Returns the number of roles. */
static int
check_holders(PvDatabaseQueue *queue)
{
	int			nrequests = 0;
	int			n = check_requesters(queue, queue->requesters, &nrequests);

	check_holder(queue, &queue->found);
	pvt_check(queue->nrequests == nrequests);
	pvt_check(queue->nentries == nrequests + queue->found.nentries);
	return n;
}

/* The state of an entry, and the worker that is at it. */
static void
check_entry(PvQueueEntry *entry, int queueno)
{
	PvItem	   *item = &entry->item;
	int			nworkers = 0;

	pvt_check(pv_entries_find(&pvt_queues, item->key.database,
							  item->key.relid) == entry);
	pvt_check(item->key.database ==
			  pvt_queues.shared->queues[queueno].database);
	pvt_check((item->state == PV_ITEM_WAITING) ==
			  (item->reason != PV_WAIT_NONE));
	pvt_check((item->state == PV_ITEM_RUNNING) == (item->worker_pid != 0));
	pvt_check(item->state_since != 0 && item->state_since <= pvt_queues.now);
	pvt_check(item->state == PV_ITEM_RUNNING || !item->again);
	pvt_check(item->state != PV_ITEM_QUEUED ||
			  item->score.total >= item->priority);
	pvt_check((item->priority > 0) == OidIsValid(item->role));
	pvt_check(entry->placed == (item->state != PV_ITEM_RUNNING));
	pvt_check(item->needed_since <= pvt_queues.now);
	pvt_check(item->state != PV_ITEM_WAITING || item->priority == 0 ||
			  item->reason == PV_WAIT_LOCK);
	pvt_check(!item->only_analyze || (item->state != PV_ITEM_WAITING &&
									  TransactionIdIsValid(item->left.horizon)));
	pvt_check(!item->only_analyze || item->state == PV_ITEM_RUNNING ||
			  item->priority == 0);
	pvt_check(!item->only_analyze ||
			  (item->score.analyze && !item->score.vacuum));
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *worker = &pvt_queues.shared->slots[i];

		if (worker->hired && worker->busy &&
			worker->at.database == item->key.database &&
			worker->at.relid == item->key.relid)
		{
			pvt_check(worker->pid == item->worker_pid &&
					  worker->queue == queueno);
			nworkers++;
		}
	}
	pvt_check(nworkers == (item->state == PV_ITEM_RUNNING ? 1 : 0));
}

/* The number of entries in the parts of a queue. */
static int
count_parts(PvDatabaseQueue *queue)
{
	int			n = 0;

	for (int part = 0; part < PV_QUEUE_PARTS; part++)
	{
		dlist_iter	iter;

		dlist_foreach(iter, &queue->parts[part])
		{
			PvQueueEntry *entry = dlist_container(PvQueueEntry, part_node,
												  iter.cur);

			n += entry->item.key.database == queue->database;
		}
	}
	return n;
}

static int
check_queue(int queueno)
{
	PvDatabaseQueue *queue = &pvt_queues.shared->queues[queueno];
	dlist_iter	iter;
	int			n = 0,
				nqueued = 0,
				nworkers = 0,
				nscanning = 0;

	dlist_foreach(iter, &queue->entries)
	{
		PvQueueEntry *entry = dlist_container(PvQueueEntry, node, iter.cur);

		check_entry(entry, queueno);
		nqueued += entry->item.state == PV_ITEM_QUEUED;
		n++;
	}
	for (PvSizeClass size = 0; size < PV_NUM_SIZE_CLASSES; size++)
		pvt_check(check_heap(queue->heap[size], size,
							 queue->database) == queue->nqueued[size]);
	pvt_check(nqueued ==
			  queue->nqueued[PV_SIZE_SMALL] + queue->nqueued[PV_SIZE_LARGE]);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *worker = &pvt_queues.shared->slots[i];

		if (worker->hired && worker->queue == queueno)
		{
			nworkers++;
			nscanning += worker->scanning;
		}
	}
	pvt_check(nworkers == queue->nworkers);
	pvt_check(nscanning == (queue->scanning ? 1 : 0));
	/* a scan is only requested where there is a worker for it */
	pvt_check(nworkers > 0 || !queue->scan_requested);
	pvt_check(OidIsValid(queue->database) || (n == 0 && nworkers == 0));
	pvt_check(n == queue->nentries);
	pvt_check(n == count_parts(queue));
	return n;
}

void
pvt_queue_check(void)
{
	int			n = 0;
	int			nworkers = 0;
	int			nholders = 0;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		nholders += check_holders(&pvt_queues.shared->queues[i]);
		for (int j = 0; j < i; j++)
			pvt_check(!OidIsValid(pvt_queues.shared->queues[i].database) ||
					  pvt_queues.shared->queues[i].database !=
					  pvt_queues.shared->queues[j].database);
		n += check_queue(i);
	}
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
		nworkers += pvt_queues.shared->slots[i].hired &&
			pvt_queues.shared->slots[i].pid != 0;
	pvt_check(n == pvt_queues.shared->nentries &&
			  n == hash_get_num_entries(pvt_queues.entries));
	pvt_check(nholders == hash_get_num_entries(pvt_queues.requesters));
	pvt_check(n <= Min(PV_QUEUE_SIZE, pvt_queues.limit));
	pvt_check(nworkers ==
			  (int) pg_atomic_read_u32(&pvt_queues.shared->nattached));
}


/* ----------------------------------------------------------------
 *		The order
 * ----------------------------------------------------------------
 */

/*
 * The first large table that is queued, of all databases if queue is NULL;
 * NULL if there is none.
 */
static PvQueueEntry *
best_large(PvDatabaseQueue *queue)
{
	PvQueueEntry *best = NULL;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		dlist_iter	iter;

		if (queue != NULL && queue != &pvt_queues.shared->queues[i])
			continue;
		dlist_foreach(iter, &pvt_queues.shared->queues[i].entries)
		{
			PvQueueEntry *entry = dlist_container(PvQueueEntry, node,
												  iter.cur);

			if (entry->item.state == PV_ITEM_QUEUED &&
				entry->item.pages >= PV_LARGE_PAGES &&
				pv_entries_goes_before(entry, best))
				best = entry;
		}
	}
	return best;
}

/*
 * The best table that the worker may take, found by looking at all entries;
 * NULL if there is none.
 */
static PvQueueEntry *
find_best(int worker, int max_large)
{
	PvDatabaseQueue *queue =
		&pvt_queues.shared->queues[pvt_queues.shared->slots[worker].queue];
	dlist_iter	iter;
	PvQueueEntry *best = NULL;
	PvQueueEntry *large = best_large(queue);
	bool		allowed = pv_large_is_allowed(&pvt_queues, queue, max_large);
	PvLargeUse	use;
	int			nlarge;
	int			ndanger;

	pv_large_get_use(&pvt_queues, max_large, &use);
	nlarge = use.nlarge;
	ndanger = use.ndanger;
	pvt_check(!allowed || nlarge < max_large ||
			  (large != NULL && large->item.rank.danger &&
			   ndanger < max_large));
	pvt_check(allowed || nlarge >= max_large ||
			  (nlarge == max_large - 1 &&
			   !pv_entries_goes_before(large, best_large(NULL))));
	pvt_check(allowed || large == NULL || !large->item.rank.danger ||
			  ndanger >= max_large);
	dlist_foreach(iter, &queue->entries)
	{
		PvQueueEntry *entry = dlist_container(PvQueueEntry, node, iter.cur);

		if (entry->item.state == PV_ITEM_QUEUED &&
			(entry->item.pages < PV_LARGE_PAGES || allowed) &&
			pv_entries_goes_before(entry, best))
			best = entry;
	}
	return best;
}

/* Takes the first table, which must be the best one. */
bool
pvt_queue_pop(int worker, int max_large)
{
	PvtWorker  *it = pvt_queue_be(worker);
	PvQueueEntry *best = find_best(worker, max_large);
	PvRank		rank = {0};

	if (best != NULL)
		rank = best->item.rank;
	if (!pv_slots_pop(&pvt_queues, pvt_me, max_large, &it->item))
	{
		pvt_check(best == NULL);
		return false;
	}
	pvt_check(best != NULL && pv_compare_ranks(&it->item.rank, &rank) == 0);
	return true;
}
