/*-------------------------------------------------------------------------
 *
 * session.c
 *	  What sessions do with the scheduler's queues, and cancels.
 *
 * The other half of queue.h, see sched/queue.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"

#include "base/settings.h"
#include "sched/database_scan.h"
#include "sched/entries.h"
#include "sched/large_places.h"
#include "sched/queue.h"
#include "sched/queue_lock.h"
#include "sched/requests.h"
#include "sched/slots.h"
#include "sched/view.h"


/* ----------------------------------------------------------------
 *		Copies and requests
 * ----------------------------------------------------------------
 */

/* A copy that grows */
typedef struct Copy
{
	PvItem	   *items;
	int			n;
	int			room;
} Copy;

/*
 * Adds one queue, if it is that of the database, or if the OID is invalid.
 * Memory is allocated without the lock, and for no more than there is.
 */
static void
copy_queue(int which, Oid database, Copy *copy)
{
	int			part = 0;

	while (part < PV_QUEUE_PARTS)
	{
		int			before = part;
		PvDatabaseQueue *queue =
			&pv_queue_lock(LW_SHARED)->shared->queues[which];

		if (OidIsValid(database) && queue->database != database)
			part = PV_QUEUE_PARTS;
		else
			copy->n += pv_entries_copy(queue, &part, copy->items + copy->n,
									   copy->room - copy->n);
		pv_queue_unlock();
		if (part == before)
		{
			copy->room *= 2;
			copy->items = repalloc_huge(copy->items,
										copy->room * sizeof(PvItem));
		}
	}
}

/*
 * Copies the items of one database, or of all databases if the OID is invalid,
 * into a new array, and returns their number.  The time that this takes is
 * proportional to that number, plus one visit of each queue.  The lock is
 * released after each PV_QUEUE_BATCH items, so each item is as it was at some
 * moment during the call.
 */
int
pv_queue_copy(Oid database, PvItem **items)
{
	Copy		copy = {.room = PV_QUEUE_BATCH};

	copy.items = palloc(copy.room * sizeof(PvItem));
	for (int i = 0; i < PV_MAX_QUEUES; i++)
		copy_queue(i, database, &copy);
	*items = copy.items;
	return copy.n;
}

/*
 * Does that table of the current database wait until a vacuum of it is not
 * useless any more?
 */
bool
pv_queue_waits_for_horizon(Oid relid)
{
	PvQueueEntry *entry = pv_entries_find(pv_queue_lock(LW_SHARED),
										  MyDatabaseId, relid);
	bool		waits = entry != NULL &&
		entry->item.state == PV_ITEM_WAITING &&
		entry->item.reason == PV_WAIT_HORIZON;

	pv_queue_unlock();
	return waits;
}

/* What decides whether any more workers may be on large tables. */
void
pv_queue_large_state(PvLargeState *state)
{
	PvLargeUse	use;

	pv_large_get_use(pv_queue_lock(LW_SHARED),
					 pv_max_large(pv_guc_scheduler_workers), &use);
	pv_queue_unlock();
	memset(state, 0, sizeof(*state));
	state->nlarge = use.nlarge;
	state->ndanger = use.ndanger;
	state->max_large = use.max_large;
}

/*
 * A role asks for a table of the current database: queues it, or raises it in
 * its queue.  A limited role can have no more entries than its share.
 */
PvEnqueueResult
pv_queue_enqueue(Oid relid, Oid toast_parent, BlockNumber pages,
				 double priority, Oid role, bool limited)
{
	PvItem		item = {
		.key = {MyDatabaseId, relid},
		.toast_parent = toast_parent,
		.pages = pages,
		.priority = priority,
		.role = role
	};
	PvEnqueueResult result = PV_ENQUEUE_FULL;
	PvDatabaseQueue *queue;
	PvQueues   *queues = pv_queue_lock_with(MyDatabaseId, false, &queue);

	if (queue != NULL)
	{
		result = pv_request_table(queues, queue, &item, limited);
		if (result == PV_ENQUEUE_FULL || result == PV_ENQUEUE_SHARE)
			pv_scan_release_queue(queues, queue);
		else
			pv_queue_wake_launcher();
	}
	pv_queue_unlock();
	return result;
}

/*
 * The number of tables of a database that a limited role can ask for at a
 * time.
 */
int
pv_queue_share_of_role(void)
{
	return pv_share_of_role(Min(PV_QUEUE_SIZE, pv_guc_queue_limit));
}


/* ----------------------------------------------------------------
 *		Cancels
 * ----------------------------------------------------------------
 */

/*
 * Cancels what a worker does.  A function of the table's owner may catch the
 * error and go on, so the launcher is woken, which ends the process if it is
 * still there after a while.  Returns false if the process has just died,
 * which restarts the server.  The caller holds the lock exclusively, see
 * forget_cancel() in queue.c.
 */
static bool
cancel_worker(const PvQueues *queues, PvWorkerSlot *slot)
{
	if (kill(slot->pid, SIGINT) != 0)
		return false;
	pv_slots_note_cancel(queues, slot);
	pv_queue_wake_launcher();
	return true;
}

/* Has a table of the current database given up, see pv_request_withdraw(). */
PvWithdrawn
pv_queue_withdraw(Oid relid, bool wraparound_too)
{
	PvWithdrawn result;
	PvWorkerSlot *cancel;
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);

	result = pv_request_withdraw(queues, MyDatabaseId, relid, wraparound_too,
								 &cancel);
	if (cancel != NULL && !cancel_worker(queues, cancel))
		result = PV_WITHDRAWN_NOTHING;
	pv_queue_unlock();
	return result;
}

/*
 * Cancels what that process does, with a table or scanning its database.
 * Returns false if it does neither, or is no scheduler worker.
 */
bool
pv_queue_cancel_worker(int pid)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	PvWorkerSlot *slot = pv_slots_find_process(queues, pid);
	bool		result = slot != NULL && cancel_worker(queues, slot);

	pv_queue_unlock();
	return result;
}

/*
 * Launcher: ends the workers that still are at what was cancelled some time
 * ago.  Returns whether there is any worker that has not given up what was
 * cancelled.
 */
bool
pv_queue_end_unresponsive(void)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		any = false;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];
		PvCancelState state = pv_slots_cancel_state(queues, slot);

		any |= state != PV_CANCEL_NONE;
		if (state == PV_CANCEL_IGNORED)
			(void) kill(slot->pid, SIGTERM);
	}
	pv_queue_unlock();
	return any;
}
