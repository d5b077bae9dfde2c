/*-------------------------------------------------------------------------
 *
 * pvt_queue.c
 *	  A queue with a clock of its own, on which one process plays all others.
 *
 * The queue's data structures are compiled into this library a second time.
 * They are in this process's memory, and the clock, the current database and
 * the settings are arguments of theirs.  So one session is as many scheduler
 * workers as there are slots, each with the table that it has taken.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "pvt_queue.h"

PvQueues	pvt_queues;
PvtWorker	pvt_workers[PV_MAX_SCHED_WORKERS];
PvWorkerSlot *pvt_me = NULL;


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
pvt_queue_set_up(int limit)
{
	if (pvt_queues.shared != NULL)
		pfree(pvt_queues.shared);
	pvt_queues.shared = MemoryContextAlloc(TopMemoryContext,
										   sizeof(PvQueueShared));
	pv_entries_init(pvt_queues.shared);
	pvt_make_hash(&pvt_queues.entries, "entries", PV_QUEUE_SIZE, sizeof(PvItemKey),
			  sizeof(PvQueueEntry));
	pvt_make_hash(&pvt_queues.requesters, "requesters", PV_MAX_REQUESTERS,
			  sizeof(PvHolderKey), sizeof(PvHolder));
	pvt_queues.now = USECS_PER_DAY;
	pvt_queues.naptime = autovacuum_naptime * USECS_PER_SEC;
	pvt_queues.limit = limit;
	memset(pvt_workers, 0, sizeof(pvt_workers));
	pvt_me = NULL;
	pv_slots_dismiss_all_pending(&pvt_queues);
}

/* This process plays that worker from now on. */
PvtWorker *
pvt_queue_be(int worker)
{
	if (worker < 0 || worker >= PV_MAX_SCHED_WORKERS ||
		!pvt_workers[worker].attached)
		elog(ERROR, "there is no worker %d", worker);
	pvt_me = &pvt_queues.shared->slots[worker];
	return &pvt_workers[worker];
}


/* ----------------------------------------------------------------
 *		Steps
 * ----------------------------------------------------------------
 */

static PvDatabaseQueue *
make_queue(Oid database, bool takes)
{
	PvDatabaseQueue *queue;
	bool		again;

	do
	{
		queue = pv_scan_make_queue(&pvt_queues, database, takes, &again);
	} while (again);
	return queue;
}

int
pvt_queue_hire(Oid database, bool to_scan, bool takes)
{
	PvDatabaseQueue *queue = make_queue(database, takes);
	int			worker = PV_NO_SLOT;
	uint32		token;

	if (queue != NULL)
		worker = pv_slots_hire(&pvt_queues, queue, to_scan, &token);
	if (worker != PV_NO_SLOT)
	{
		memset(&pvt_workers[worker], 0, sizeof(PvtWorker));
		pvt_workers[worker].token = token;
	}
	return worker;
}

bool
pvt_queue_attach(int worker)
{
	if (pv_slots_attach(&pvt_queues, worker, pvt_workers[worker].token,
						PVT_FIRST_PID + worker) == NULL)
		return false;
	pvt_workers[worker].attached = true;
	return true;
}

void
pvt_queue_leave(int worker)
{
	pvt_queue_be(worker);
	pv_slots_exit(&pvt_queues, pvt_me);
	pvt_workers[worker].attached = false;
}

void
pvt_queue_drop_database(Oid database)
{
	PvDatabaseQueue *queue;
	int			left = PV_QUEUE_SIZE;
	int			n;

	do
	{
		queue = pv_entries_find_queue(&pvt_queues, database);
		if (queue == NULL)
			break;
		left = Min(left, queue->nentries);
		n = pv_scan_drop_some(&pvt_queues, queue);
		left -= n;
	} while (n > 0 && left > 0);
}

void
pvt_queue_end_scan(bool complete, int64 used)
{
	while (pv_scan_remove_unseen(&pvt_queues, pvt_me))
		 /* batch by batch */ ;
	(void) pv_scan_end(&pvt_queues, pvt_me, complete, used);
}

PvRecheck
pvt_queue_recheck(const PvItem *item)
{
	return pv_slots_recheck(&pvt_queues, pvt_me, item);
}

void
pvt_queue_finish(uint8 done, PvWaitReason reason, TransactionId horizon)
{
	if (pvt_me->busy)
		(void) pv_slots_finish(&pvt_queues, pvt_me, done, reason, horizon);
	pv_queue_of(&pvt_queues, pvt_me)->vacuumed |= (done & PV_DONE_VACUUM) != 0;
}

bool
pvt_queue_claim_update(void)
{
	PvDatabaseQueue *queue = pv_queue_of(&pvt_queues, pvt_me);
	bool		over = queue->vacuumed &&
		pv_slots_all_idle(&pvt_queues, queue);

	if (over)
		queue->vacuumed = false;
	return over;
}

PvEnqueueResult
pvt_queue_enqueue(Oid database, Oid relid, BlockNumber pages, double priority,
				  Oid role, bool limited)
{
	PvItem		item = {
		.key = {database, relid},
		.pages = pages,
		.priority = priority,
		.role = role
	};
	PvDatabaseQueue *queue = make_queue(database, false);
	PvEnqueueResult result;

	if (queue == NULL)
		return PV_ENQUEUE_FULL;
	result = pv_request_table(&pvt_queues, queue, &item, limited);
	if (result == PV_ENQUEUE_FULL || result == PV_ENQUEUE_SHARE)
		pv_scan_release_queue(&pvt_queues, queue);
	return result;
}

/* *canceled_pid is the process that would get SIGINT, or 0. */
PvWithdrawn
pvt_queue_withdraw(Oid database, Oid relid, bool wraparound_too,
				   int *canceled_pid)
{
	PvWorkerSlot *cancel;
	PvWithdrawn result = pv_request_withdraw(&pvt_queues, database, relid,
											 wraparound_too, &cancel);

	*canceled_pid = 0;
	if (cancel != NULL)
	{
		*canceled_pid = cancel->pid;
		pv_slots_note_cancel(&pvt_queues, cancel);
	}
	return result;
}

/* With room for a few items only, so that it has to grow in mid-part. */
int
pvt_queue_copy(PvItem **items)
{
	int			room = 1;
	int			n = 0;

	*items = palloc(sizeof(PvItem));
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		int			part = 0;

		while (part < PV_QUEUE_PARTS)
		{
			int			before = part;

			n += pv_entries_copy(&pvt_queues.shared->queues[i], &part,
								 *items + n, room - n);
			if (part == before)
			{
				room *= 2;
				*items = repalloc_huge(*items, room * sizeof(PvItem));
			}
		}
	}
	return n;
}
