/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The scheduler's queues of tables, as its processes and sessions use them.
 *
 *		launcher					worker						session
 *		--------					------						-------
 *		hire a worker	------->	attach
 *		request a scan	------->	begin scan, offer..., end
 *									pop, recheck, finish
 *		call back		------->	should leave?				enqueue, withdraw,
 *									exit						copy, cancel
 *
 * This file owns what the queues need of the server: shared memory, the lock,
 * the launcher's latch, the clock, the current database, and signals.  The
 * queues themselves are in files that know of none of these, and that unit
 * tests compile a second time:
 *
 *		state.h				the structs in shared memory
 *		entries.c			tables, their order, and the roles that ask for them
 *		database_scan.c		queues of databases, and the scans that fill them
 *		large_places.c		places for large tables
 *		slots.c				scheduler workers, and the tables they are at
 *		view.c				what the launcher sees, and asks of workers
 *		requests.c			what sessions ask for
 *
 * What sessions call, and cancels, are in session.c, the other half of this
 * file.
 *
 * Everything is in main shared memory, of fixed size, under one lightweight
 * lock.  Under it nothing fails, waits or is allocated.  It is held for one
 * entry, or for up to PV_QUEUE_BATCH of them where many are to be visited; the
 * walks over all queues and all worker slots are of fixed length.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/settings.h"
#include "sched/database_scan.h"
#include "sched/entries.h"
#include "sched/queue.h"
#include "sched/queue_lock.h"
#include "sched/slots.h"
#include "sched/view.h"

#define LOCK_TRANCHE			"parvacuum_queue"

typedef struct QueueShared
{
	Latch	   *launcher_latch; /* under the lock; NULL: there is no launcher */
	PvQueueShared queues;
} QueueShared;

static QueueShared *shared = NULL;
static PvQueues queues;
static LWLock *lock = NULL;

/* This process's slot, if it is a scheduler worker */
static PvWorkerSlot *my_slot = NULL;


/* ----------------------------------------------------------------
 *		Shared memory and the lock
 * ----------------------------------------------------------------
 */

Size
pv_queue_shmem_size(void)
{
	return add_size(add_size(MAXALIGN(sizeof(QueueShared)),
							 hash_estimate_size(PV_QUEUE_SIZE,
												sizeof(PvQueueEntry))),
					hash_estimate_size(PV_MAX_REQUESTERS, sizeof(PvHolder)));
}

/* Postmaster, when extensions request shared memory. */
void
pv_queue_request_lock(void)
{
	RequestNamedLWLockTranche(LOCK_TRANCHE, 1);
}

/*
 * Finds the shared memory or initializes it.  The caller holds
 * AddinShmemInitLock.
 */
void
pv_queue_shmem_startup(void)
{
	HASHCTL		info;
	bool		found;

	shared = ShmemInitStruct("parvacuum queue", sizeof(QueueShared), &found);
	if (!found)
	{
		shared->launcher_latch = NULL;
		pv_entries_init(&shared->queues);
	}
	queues.shared = &shared->queues;

	info.keysize = sizeof(PvItemKey);
	info.entrysize = sizeof(PvQueueEntry);
	queues.entries = pv_shmem_hash("parvacuum queue entries", PV_QUEUE_SIZE, &info);
	info.keysize = sizeof(PvHolderKey);
	info.entrysize = sizeof(PvHolder);
	queues.requesters = pv_shmem_hash("parvacuum queue requesters", PV_MAX_REQUESTERS,
									  &info);
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
}

PvSchedulerCounters *
pv_queue_counters(void)
{
	return &shared->queues.counters;
}

/* The number of scheduler workers that are attached; takes no lock. */
int
pv_queue_nworkers(void)
{
	return (int) pg_atomic_read_u32(&shared->queues.nattached);
}

/*
 * Acquires the lock, and returns the queues as they are now.  The moment and
 * the settings are those of this call.
 */
PvQueues *
pv_queue_lock(LWLockMode mode)
{
	LWLockAcquire(lock, mode);
	queues.now = pv_now();
	queues.naptime = autovacuum_naptime * USECS_PER_SEC;
	queues.limit = pv_guc_queue_limit;
	return &queues;
}

/*
 * The same, exclusively, with the queue of a database that may not have one
 * yet, or NULL; see pv_scan_make_queue().  While another queue is emptied for
 * it, the lock is released after each batch of entries.
 */
PvQueues *
pv_queue_lock_with(Oid database, bool takes, PvDatabaseQueue **queue)
{
	for (;;)
	{
		bool		again;

		(void) pv_queue_lock(LW_EXCLUSIVE);
		*queue = pv_scan_make_queue(&queues, database, takes, &again);
		if (!again)
			return &queues;
		pv_queue_unlock();
	}
}

void
pv_queue_unlock(void)
{
	LWLockRelease(lock);
}

/* The caller holds the lock. */
void
pv_queue_wake_launcher(void)
{
	if (shared->launcher_latch != NULL)
		SetLatch(shared->launcher_latch);
}


/* ----------------------------------------------------------------
 *		The launcher
 * ----------------------------------------------------------------
 */

static void
launcher_exit(int code, Datum arg)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	shared->launcher_latch = NULL;
	pv_queue_unlock();
}

/*
 * This process is the launcher from now on.  Workers that the one before has
 * hired and that have not attached may have ended without any report.
 */
void
pv_queue_launcher_begin(void)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	shared->launcher_latch = &MyProc->procLatch;
	pv_slots_dismiss_all_pending(&queues);
	pv_queue_unlock();
	before_shmem_exit(launcher_exit, 0);
}

/*
 * The state of all queues, where up to max_large workers may be on large
 * tables.
 */
void
pv_queue_view(PvQueueView *view, int max_large)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	pv_view_take(&queues, max_large, view);
	pv_queue_unlock();
}

/* See pv_view_request_scan(). */
bool
pv_queue_request_scan(Oid database)
{
	bool		requested;

	(void) pv_queue_lock(LW_EXCLUSIVE);
	requested = pv_view_request_scan(&queues, database);
	pv_queue_unlock();
	return requested;
}

/*
 * A slot for a worker that is about to be started, or PV_NO_SLOT; a database
 * scan is requested on demand.  The database may take the queue of another one
 * on demand, see pv_scan_free_queue().
 */
int
pv_queue_hire(Oid database, bool to_scan, bool takes_queue, uint32 *token)
{
	PvDatabaseQueue *queue;
	int			slot = PV_NO_SLOT;

	(void) pv_queue_lock_with(database, takes_queue, &queue);
	if (queue != NULL)
		slot = pv_slots_hire(&queues, queue, to_scan, token);
	pv_queue_unlock();
	return slot;
}

/* The worker could not be started, or has ended before it attached. */
void
pv_queue_dismiss(int worker, uint32 token)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	pv_slots_dismiss(&queues, worker, token);
	pv_queue_unlock();
}

/* Has the worker attached?  Also true if it has ended since. */
bool
pv_queue_worker_started(int worker, uint32 token)
{
	bool		started;

	(void) pv_queue_lock(LW_SHARED);
	started = pv_slots_has_started(&queues, worker, token);
	pv_queue_unlock();
	return started;
}

/* Is there anything that another worker could begin with before long? */
bool
pv_queue_is_busy(int max_large)
{
	bool		busy;

	(void) pv_queue_lock(LW_SHARED);
	busy = pv_view_is_busy(&queues, max_large);
	pv_queue_unlock();
	return busy;
}

/* Has one worker of that database leave, for the sake of another database. */
void
pv_queue_call_back(Oid database)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	pv_view_call_back(&queues, database);
	pv_queue_unlock();
}

/* The database was dropped: removes what is queued for it, batch by batch. */
void
pv_queue_drop_database(Oid database)
{
	PvDatabaseQueue *queue;
	int			left = PV_QUEUE_SIZE;	/* to be visited */
	int			n = 0;

	do
	{
		(void) pv_queue_lock(LW_EXCLUSIVE);
		queue = pv_entries_find_queue(&queues, database);
		if (queue != NULL)
		{
			left = Min(left, queue->nentries);
			n = pv_scan_drop_some(&queues, queue);
			left -= n;
		}
		pv_queue_unlock();
	} while (queue != NULL && n > 0 && left > 0);
}


/* ----------------------------------------------------------------
 *		A worker
 * ----------------------------------------------------------------
 */

/*
 * This worker has left its table, or has ended its scan: a cancel that is
 * still to arrive was for that, and must not hit another table.  The lock has
 * been released.
 *
 * A process that cancels a table sends SIGINT while it holds the lock and sees
 * there that the worker is at this table.  The worker has left it with the
 * lock held.  So for each such signal kill() had returned when the worker got
 * the lock, and no other comes before the worker takes another table, under
 * the lock again.  kill() leaves the signal pending, which the kernel may
 * deliver a moment later; but a pending signal that is not blocked is
 * delivered before sigprocmask() returns (POSIX), so its handler has set the
 * flag that is cleared here.  Nothing acts on the flag in between.
 */
static void
forget_cancel(void)
{
	sigprocmask(SIG_SETMASK, &UnBlockSig, NULL);
	QueryCancelPending = false;
}

/* The worker exits, by itself or by an error. */
static void
worker_exit(int code, Datum arg)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	pv_slots_exit(&queues, my_slot);
	pv_queue_wake_launcher();
	pv_queue_unlock();
	my_slot = NULL;
}

/*
 * This process is the worker in that slot.  Returns false if the slot was
 * given away.
 */
bool
pv_queue_attach(int worker, uint32 token, Oid *database)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	my_slot = pv_slots_attach(&queues, worker, token, MyProcPid);
	if (my_slot != NULL)
		*database = pv_queue_of(&queues, my_slot)->database;
	pv_queue_unlock();
	if (my_slot == NULL)
		return false;
	before_shmem_exit(worker_exit, 0);
	return true;
}

/* See pv_scan_begin(). */
bool
pv_queue_begin_scan(void)
{
	bool		begun;

	(void) pv_queue_lock(LW_EXCLUSIVE);
	begun = pv_scan_begin(&queues, my_slot);
	pv_queue_unlock();
	return begun;
}

/* See pv_scan_is_held(). */
bool
pv_queue_is_held(const PvItem *item)
{
	bool		held;

	held = pv_scan_is_held(pv_queue_lock(LW_SHARED), item);
	pv_queue_unlock();
	return held;
}

/*
 * A table that the scan has found, see pv_scan_offer().  *full is false before
 * the first one, and is set when a table could not be queued.
 */
void
pv_queue_offer(const PvItem *item, bool *full)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	*full = pv_scan_offer(&queues, my_slot, item, *full);
	pv_queue_unlock();
}

/* The scan finds that no table has opted in. */
void
pv_queue_note_nothing(void)
{
	my_slot->nothing = true;
}

/* The scan has failed; it is left to the next one. */
void
pv_queue_abandon_scan(void)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	pv_scan_abandon(&queues, my_slot);
	pv_queue_unlock();
}

/*
 * All tables have been offered, see pv_scan_end().  The lock is released after
 * each batch of entries that were not.
 */
bool
pv_queue_end_scan(bool complete, int64 used)
{
	bool		report;

	(void) pv_queue_lock(LW_EXCLUSIVE);
	while (pv_scan_remove_unseen(&queues, my_slot))
	{
		pv_queue_unlock();
		(void) pv_queue_lock(LW_EXCLUSIVE);
	}
	report = pv_scan_end(&queues, my_slot, complete, used);
	pv_queue_wake_launcher();
	pv_queue_unlock();
	forget_cancel();
	return report;
}

/* See pv_slots_pop(). */
bool
pv_queue_pop(int max_large, PvItem *item)
{
	bool		found;

	(void) pv_queue_lock(LW_EXCLUSIVE);
	found = pv_slots_pop(&queues, my_slot, max_large, item);
	pv_queue_unlock();
	return found;
}

/*
 * See pv_slots_recheck().  If the table was cancelled meanwhile, the next
 * check for interrupts raises the error.
 */
bool
pv_queue_recheck(const PvItem *item)
{
	PvRecheck	recheck;
	bool		was_large = my_slot->on_large;

	(void) pv_queue_lock(LW_EXCLUSIVE);
	recheck = pv_slots_recheck(&queues, my_slot, item);
	if (was_large && !my_slot->on_large)
		pv_queue_wake_launcher();
	pv_queue_unlock();
	if (recheck == PV_RECHECK_CANCEL)
		InterruptPending = QueryCancelPending = true;
	return recheck == PV_RECHECK_PUT_BACK;
}

/*
 * This worker is about to run functions of the table's owner, which may take
 * long.  If it has a place for a large table, it gives that up.
 */
void
pv_queue_leave_place(void)
{
	if (!my_slot->has_place)
		return;					/* only this process changes it */
	(void) pv_queue_lock(LW_EXCLUSIVE);
	my_slot->has_place = false;
	pv_queue_wake_launcher();
	pv_queue_unlock();
}

/* Puts the current table back into the queue. */
void
pv_queue_put_back(const PvItem *item)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	pv_slots_put_back(&queues, my_slot, item);
	pv_queue_unlock();
	forget_cancel();
}

/*
 * The current table is done, or cannot be done now, see pv_slots_finish().  If
 * it was put back before an error came, it is left alone.  The launcher is
 * woken if another worker may take a large table now, because it does not look
 * for that by itself.
 */
void
pv_queue_finish(const PvItem *item, uint8 done, PvWaitReason reason,
				TransactionId horizon)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	Assert(!my_slot->busy || item->key.relid == my_slot->at.relid);
	if (my_slot->busy &&
		pv_slots_finish(&queues, my_slot, done, reason, horizon))
		pv_queue_wake_launcher();
	pv_queue_of(&queues, my_slot)->vacuumed |= (done & PV_DONE_VACUUM) != 0;
	pv_queue_unlock();
	forget_cancel();
}

/* See pv_slots_should_leave(). */
bool
pv_queue_should_leave(void)
{
	bool		leave;

	(void) pv_queue_lock(LW_SHARED);
	leave = pv_slots_should_leave(&queues, my_slot);
	pv_queue_unlock();
	return leave;
}

/*
 * Is pg_database to be updated, since the queue has been worked off?  The
 * answer is yes for one worker, which must do it or call
 * pv_queue_return_update().  Other workers of the database must be idle,
 * unless that does not matter.  It is so after each requested scan, even if
 * nothing was vacuumed: the oldest table may have been dropped.
 */
bool
pv_queue_claim_update(bool even_if_busy)
{
	PvDatabaseQueue *queue = pv_queue_of(&queues, my_slot);
	bool		over;

	(void) pv_queue_lock(LW_EXCLUSIVE);
	over = queue->vacuumed &&
		(even_if_busy || pv_slots_all_idle(&queues, queue));
	if (over)
		queue->vacuumed = false;
	pv_queue_unlock();
	return over;
}

/* The worker could not update pg_database; it is left to the next scan. */
void
pv_queue_return_update(void)
{
	(void) pv_queue_lock(LW_EXCLUSIVE);
	pv_queue_of(&queues, my_slot)->vacuumed = true;
	pv_queue_unlock();
}
