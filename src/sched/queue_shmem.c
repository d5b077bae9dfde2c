/*-------------------------------------------------------------------------
 *
 * queue_shmem.c
 *	  What the scheduler's queue needs of the server: shared memory, a lock,
 *	  the clock and signals.
 *
 * The launcher, scheduler workers and sessions run this.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "lib/qunique.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/process.h"
#include "sched/queue.h"
#include "throttle/cost.h"

static PvQueues queues;
static LWLock *lock = NULL;

/*
 * This process's slot, if it is a scheduler worker, and whether it had a place
 * at large tables when it acquired the lock
 */
static PvWorkerSlot *my_slot = NULL;
static bool had_place;


/* ----------------------------------------------------------------
 *		Shared memory and the lock
 * ----------------------------------------------------------------
 */

Size
pv_queue_shmem_size(void)
{
	Size		size = MAXALIGN(sizeof(PvQueueShared));

	size = add_size(size, hash_estimate_size(PV_MAX_QUEUES,
											 sizeof(PvDatabaseQueue)));
	size = add_size(size, hash_estimate_size(PV_QUEUE_SIZE,
											 sizeof(PvQueueEntry)));
	size = add_size(size, hash_estimate_size(PV_QUEUE_SIZE, sizeof(PvOwner)));
	return add_size(size, hash_estimate_size(PV_MAX_CHARGES,
											 sizeof(PvCharge)));
}

/*
 * Find the shared memory or initialize it.  The caller holds
 * AddinShmemInitLock.
 */
void
pv_queue_shmem_startup(LWLock *its_lock)
{
	bool		found;

	queues.shared = ShmemInitStruct("parvacuum queue", sizeof(PvQueueShared),
									&found);
	if (!found)
		pv_queue_init(queues.shared);
	queues.databases = pv_shmem_hash("parvacuum queue databases",
									 PV_MAX_QUEUES, sizeof(Oid),
									 sizeof(PvDatabaseQueue));
	queues.entries = pv_shmem_hash("parvacuum queue entries", PV_QUEUE_SIZE,
								   sizeof(PvItemKey), sizeof(PvQueueEntry));
	queues.owners = pv_shmem_hash("parvacuum queue owners", PV_QUEUE_SIZE,
								  sizeof(PvOwnerKey), sizeof(PvOwner));
	queues.charges = pv_shmem_hash("parvacuum queue charges", PV_MAX_CHARGES,
								   sizeof(Oid), sizeof(PvCharge));
	lock = its_lock;
}

void
pv_sched_count(PvCount what)
{
	pg_atomic_fetch_add_u64(&queues.shared->counts[what], 1);
}

uint64
pv_sched_counted(PvCount what)
{
	return pg_atomic_read_u64(&queues.shared->counts[what]);
}

/* Acquire the lock.  Return the queue, with this moment and the settings. */
PvQueues *
pv_queue_lock(LWLockMode mode)
{
	LWLockAcquire(lock, mode);
	queues.now = pv_now();
	queues.naptime = autovacuum_naptime * USECS_PER_SEC;
	queues.limit = Min(PV_QUEUE_SIZE, pv_guc_queue_limit);
	queues.nworkers = pv_guc_scheduler_workers;
	had_place = my_slot != NULL && my_slot->large;
	return &queues;
}

void
pv_queue_unlock(void)
{
	if (had_place && !my_slot->large)
		pv_launcher_wake();
	LWLockRelease(lock);
}

static int
compare_keys(const void *a, const void *b)
{
	const PvItemKey *x = &((const PvItem *) a)->key;
	const PvItemKey *y = &((const PvItem *) b)->key;

	if (x->database != y->database)
		return x->database < y->database ? -1 : 1;
	return x->relid < y->relid ? -1 : x->relid > y->relid;
}

/*
 * Copy the items of one database, or of all databases if the OID is invalid,
 * into a new array, and return their number.  The lock is released now and
 * then, so each item is as it was at some moment during the call.  One that
 * has left the queue and come again meanwhile may be there twice at first.
 */
int
pv_queue_copy(Oid database, PvItem **items)
{
	int			room = PV_QUEUE_BATCH;
	int			place = 0;
	int			n = 0;

	*items = palloc(room * sizeof(PvItem));
	while (place < PV_QUEUE_SIZE)
	{
		if (n + PV_QUEUE_BATCH > room)
		{
			room *= 2;
			*items = repalloc_huge(*items, room * sizeof(PvItem));
		}
		n += pv_queue_copy_some(pv_queue_lock(LW_SHARED), database, &place,
								*items + n);
		pv_queue_unlock();
	}
	qsort(*items, n, sizeof(PvItem), compare_keys);
	return qunique(*items, n, sizeof(PvItem), compare_keys);
}


/* ----------------------------------------------------------------
 *		A worker
 * ----------------------------------------------------------------
 */

/* The worker exits, by itself or by an error. */
static void
worker_exit(int code, Datum arg)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	if (my_slot->connected)
		pv_queue_remove_worker(&queues, my_slot);
	else
		pv_queue_fail_worker(&queues, my_slot);
	pv_launcher_wake();
	pv_queue_unlock();
	pv_cost_count_worker(-1);
	my_slot = NULL;
}

/*
 * Attach this process as the worker in that slot, before it connects to the
 * database, so that it leaves the slot after its transaction has released all
 * locks.  Return NULL if the slot was given away.  While it is attached, others
 * change only large, late, canceled_at and the stages there, under the lock, so
 * it may read the rest without.
 */
PvWorkerSlot *
pv_queue_attach(int slot, uint32 token)
{
	PvWorkerSlot *it = &pv_queue_lock(LW_EXCLUSIVE)->shared->slots[slot];

	if (it->used && it->token == token && it->pid == 0)
	{
		it->pid = MyProcPid;
		it->since = queues.now;
		my_slot = it;
	}
	pv_queue_unlock();
	if (my_slot != NULL)
	{
		pv_cost_count_worker(1);
		before_shmem_exit(worker_exit, 0);
	}
	return my_slot;
}

/* This worker is connected to its database, where its stay begins. */
void
pv_queue_set_connected(void)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	my_slot->connected = true;
	my_slot->since = queues.now;
	my_slot->queue->nfailures = 0;
	pv_queue_unlock();
}

/*
 * Note the pages of this worker's table, indexes included, and where in shared
 * memory the phase of core's vacuum is, if that may run functions of the owner.
 */
void
pv_queue_set_pages(double pages, const volatile int64 *core_phase)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	my_slot->at_table.pages = pages;
	my_slot->core_phase = core_phase;
	pv_queue_unlock();
}

/*
 * Functions of the owner of a table of this size may run from now on, or not
 * any more.  They may take long, so this worker does not count as one at a
 * large table then.
 */
void
pv_queue_set_for_owner(bool begins, BlockNumber pages)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	my_slot->for_owner = (PvStage)
	{
		begins ? queues.now : PV_NEVER, pages, 0
	};
	my_slot->large &= !begins;
	pv_queue_unlock();
}

/*
 * Cancel what a worker does; the caller holds the lock exclusively.  A
 * function of the table's owner may catch the error, so wake the launcher,
 * which ends the process if it is still there after a while.  Return false if
 * the process has died, which restarts the server.
 *
 * This must not hit another table.  The worker leaves its table, or ends its
 * scan, with the lock held, so kill() had returned by then.  When it has
 * released the lock it calls pv_process_clear_cancel(), and no other signal
 * comes before it takes another table, under the lock again.
 */
bool
pv_queue_cancel(const PvQueues *q, PvWorkerSlot *slot)
{
	if (kill(slot->pid, SIGINT) != 0)
		return false;
	if (slot->canceled_at == PV_NEVER)
		slot->canceled_at = q->now;
	pv_launcher_wake();
	return true;
}
