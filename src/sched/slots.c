/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  The scheduler workers, and the tables that they are at.
 *
 *		free --hire--> hired --attach--> attached --exit--> free
 *						 |
 *						 +--dismiss--> free
 *
 * The launcher hires a worker for a database before it starts the process,
 * which finds its slot by number and token.  If the process ends before it
 * attaches, the launcher dismisses it.  A new launcher does not know the
 * workers that its predecessor hired, so it dismisses those that have not
 * attached; should one still come, its token is not valid any more.
 *
 * An attached worker is idle, or scans its database, or is at a table (busy).
 * When it exits, for whatever reason, the table at hand waits for the next
 * database scan, as after an error.  After a crash the postmaster initializes
 * all shared memory, and the next scans find what there is to do.
 *
 * These functions run under the queue's lock, held exclusively where anything
 * is changed.  Each walks over the PV_MAX_SCHED_WORKERS slots, the
 * PV_MAX_QUEUES queues, or both, and over no entries.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/timestamp.h"

#include "sched/database_scan.h"
#include "sched/entries.h"
#include "sched/large_places.h"
#include "sched/slots.h"


/* ----------------------------------------------------------------
 *		Hiring
 * ----------------------------------------------------------------
 */

/*
 * Takes a slot for a worker that is about to be started; PV_NO_SLOT if there
 * is none.  A database scan is requested on demand; this worker or another one
 * does it.
 */
int
pv_slots_hire(PvQueues *queues, PvDatabaseQueue *queue, bool to_scan,
			  uint32 *token)
{
	PvQueueShared *shared = queues->shared;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &shared->slots[i];

		if (slot->hired)
			continue;
		memset(slot, 0, sizeof(*slot));
		slot->hired = true;
		slot->token = *token = ++shared->next_token;
		slot->hired_at = queues->now;
		slot->queue = queue - shared->queues;
		queue->nworkers++;
		queue->scan_requested |= to_scan;
		return i;
	}
	return PV_NO_SLOT;
}

static void
free_slot(PvQueues *queues, PvWorkerSlot *slot)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);

	slot->hired = false;
	queue->nworkers--;
	pv_scan_release_queue(queues, queue);
}

/* The process could not be started, or has ended before it attached. */
void
pv_slots_dismiss(PvQueues *queues, int slot, uint32 token)
{
	PvWorkerSlot *it = &queues->shared->slots[slot];

	if (it->hired && it->token == token && it->pid == 0)
		free_slot(queues, it);
}

/* There is a new launcher. */
void
pv_slots_dismiss_all_pending(PvQueues *queues)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->hired && slot->pid == 0)
			free_slot(queues, slot);
	}
}

/* Has the worker attached?  Also true if it has ended since. */
bool
pv_slots_has_started(const PvQueues *queues, int slot, uint32 token)
{
	const PvWorkerSlot *it = &queues->shared->slots[slot];

	return !it->hired || it->token != token || it->pid != 0;
}

/* The process has come; NULL if its slot was given away. */
PvWorkerSlot *
pv_slots_attach(PvQueues *queues, int slot, uint32 token, int pid)
{
	PvWorkerSlot *it = &queues->shared->slots[slot];

	if (!it->hired || it->token != token || it->pid != 0)
		return NULL;
	it->pid = pid;
	pg_atomic_fetch_add_u32(&queues->shared->nattached, 1);
	return it;
}


/* ----------------------------------------------------------------
 *		Tables
 * ----------------------------------------------------------------
 */

static void
become_idle(PvWorkerSlot *slot)
{
	slot->busy = slot->on_large = slot->has_place = slot->on_danger = false;
	slot->canceled_at = PV_NEVER;
}

/*
 * The worker takes the first table of its queue; a large one only if there is
 * a place for it, where up to max_large workers of all databases may be on
 * large tables.  Returns false if there is none; else *item is a copy of the
 * table's item.
 */
bool
pv_slots_pop(PvQueues *queues, PvWorkerSlot *slot, int max_large, PvItem *item)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvQueueEntry *first;
	PvLargeUse	use;

	pv_large_get_use(queues, max_large, &use);
	slot->large_allowed = pv_large_ask(queues, queue, &use);
	first = pv_entries_first_of_both(queue, slot->large_allowed);
	if (first == NULL)
		return false;

	pv_entries_unplace(queue, first);
	pv_entries_place(queues, queue, first, PV_ITEM_RUNNING, PV_WAIT_NONE);
	first->item.worker_pid = slot->pid;
	slot->busy = slot->has_begun = true;
	slot->busy_since = first->item.state_since;
	slot->on_large = slot->has_place =
		pv_entries_size_class(&first->item) == PV_SIZE_LARGE;
	slot->on_danger = first->item.rank.danger;
	if (slot->on_large)
		queues->shared->kept_for = InvalidOid;
	slot->at = first->item.key;
	slot->rechecked = slot->cancel_asked = false;
	slot->canceled_at = PV_NEVER;
	*item = first->item;
	return true;
}

/*
 * The worker has rechecked its table, whose score and size may be others by
 * now.  If the table is not the first any more, or is large, it is to be put
 * back, but not before its lock is released: the next worker would find it
 * locked.  It still counts as the first among those that this worker may take,
 * or it would get this table again and again.  The size in pg_class, by which
 * it was queued, may be old, or forged by the table's owner.  One that is not
 * large gives up its place.
 *
 * A cancel by a role that may not cancel what prevents wraparound is carried
 * out here if it turns out that this vacuum does not.
 */
PvRecheck
pv_slots_recheck(PvQueues *queues, PvWorkerSlot *slot, const PvItem *item)
{
	PvQueueEntry *entry = pv_entries_find(queues, item->key.database,
										  item->key.relid);
	PvQueueEntry *first = pv_entries_first_of_both(pv_queue_of(queues, slot),
												   slot->large_allowed);
	PvRank		rank;

	entry->item.score = item->score;
	entry->item.pages = item->pages;
	entry->item.only_analyze = item->only_analyze;

	/*
	 * by the worker's copy: later requests do not make this vacuum more
	 * urgent
	 */
	pv_rank_table(&item->score, item->priority, entry->item.needed_since,
				  entry->item.not_completed, &rank);
	slot->on_danger = rank.danger;
	slot->rechecked = true;
	if (slot->cancel_asked && !item->score.wraparound)
		return PV_RECHECK_CANCEL;
	if ((first != NULL && pv_compare_ranks(&first->item.rank, &rank) > 0) ||
		(item->pages >= PV_LARGE_PAGES && !slot->on_large))
		return PV_RECHECK_PUT_BACK;
	if (item->pages < PV_LARGE_PAGES)
		slot->on_large = slot->has_place = false;
	return PV_RECHECK_GO_ON;
}

/*
 * The table is queued again, with the worker's score: another one goes first,
 * or the table was analyzed and is now to be swept.
 */
void
pv_slots_put_back(PvQueues *queues, PvWorkerSlot *slot, const PvItem *item)
{
	PvQueueEntry *entry = pv_entries_find(queues, item->key.database,
										  item->key.relid);

	entry->item.score = item->score;
	entry->item.only_sweep = item->only_sweep;
	pv_entries_enqueue_again(queues, pv_queue_of(queues, slot), entry);
	become_idle(slot);
}

/*
 * What is left to be done with a table that waits.  If it waits for the
 * horizon, it is the vacuum that waits.
 */
static void
leave_rest(PvItem *item, uint8 done, PvWaitReason reason)
{
	bool		vacuum = reason == PV_WAIT_HORIZON ||
		(item->score.vacuum && (done & PV_DONE_VACUUM) == 0);

	if (done != 0 || item->only_analyze)
		pv_score_rest(&item->score, vacuum,
					  item->score.analyze && (done & PV_DONE_ANALYZE) == 0,
					  item->pages);
	item->done = done;
}

/*
 * The worker's table is done, or cannot be done now.  Its entry is removed, or
 * waits for the next database scan at least; if the table was requested
 * meanwhile, it is queued again.  When a waiting table is found to need
 * something again, it has waited since now.  A sweep that was not completed
 * says nothing of a vacuum, and must not count against one that the table's
 * age demands later.
 *
 * A vacuum fulfils a request.  A vacuum that was cancelled or failed ends the
 * request as well.  The request stays if the table was locked before it could
 * be vacuumed.
 *
 * Returns whether the table was large, so that another worker may take one.
 */
bool
pv_slots_finish(PvQueues *queues, PvWorkerSlot *slot, uint8 done,
				PvWaitReason reason, TransactionId horizon)
{
	PvDatabaseQueue *queue = pv_queue_of(queues, slot);
	PvQueueEntry *entry = pv_entries_find(queues, slot->at.database,
										  slot->at.relid);
	PvItem	   *item = &entry->item;
	bool		was_large = slot->on_large;

	item->needed_since = queues->now;
	item->not_completed = reason != PV_WAIT_NONE &&
		reason != PV_WAIT_WINDOW && !item->score.sweep;
	if (item->again)
		pv_entries_enqueue_again(queues, queue, entry);
	else if (reason == PV_WAIT_NONE)
		pv_entries_remove(queues, queue, entry);
	else
	{
		if (!item->only_analyze)
		{
			item->left.horizon = reason == PV_WAIT_HORIZON ?
				horizon : InvalidTransactionId;
			item->left.dead = item->score.dead;
			item->left.for_age = item->score.wraparound;
		}
		leave_rest(item, done, reason);
		item->only_analyze = item->only_sweep = false;
		if ((done & PV_DONE_VACUUM) != 0 || reason != PV_WAIT_LOCK)
			pv_entries_set_request(queues, queue, entry, InvalidOid, 0);
		pv_entries_place(queues, queue, entry, PV_ITEM_WAITING, reason);
	}
	become_idle(slot);
	return was_large;
}

/*
 * The worker ends; what it was at, a table or a scan, is left to the next
 * scan.
 */
void
pv_slots_exit(PvQueues *queues, PvWorkerSlot *slot)
{
	if (slot->busy)
		(void) pv_slots_finish(queues, slot, 0, PV_WAIT_ERROR,
							   InvalidTransactionId);
	pv_scan_abandon(queues, slot);
	pg_atomic_fetch_sub_u32(&queues->shared->nattached, 1);
	free_slot(queues, slot);
}

/*
 * Is the worker to leave?  If it was called back, as soon as it has taken one
 * table, so that each worker that is started makes progress.  Otherwise after
 * PV_LONGEST_STAY_MS, unless a scan is requested: settings of the database and
 * of roles are read only at the start of a process, so another one takes over.
 */
bool
pv_slots_should_leave(const PvQueues *queues, const PvWorkerSlot *slot)
{
	const PvDatabaseQueue *queue = pv_queue_of(queues, slot);

	if (slot->leave &&
		(slot->has_begun || pv_entries_first_of_both(queue, true) == NULL))
		return true;
	return !queue->scan_requested &&
		TimestampDifferenceExceeds(slot->hired_at, queues->now,
								   PV_LONGEST_STAY_MS);
}

/* Is no worker of the queue at a table? */
bool
pv_slots_all_idle(const PvQueues *queues, const PvDatabaseQueue *queue)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->hired && slot->busy && pv_queue_of(queues, slot) == queue)
			return false;
	}
	return true;
}


/* ----------------------------------------------------------------
 *		Cancels
 * ----------------------------------------------------------------
 */

/* The worker that is at the item's table, or NULL. */
PvWorkerSlot *
pv_slots_find_at(const PvQueues *queues, const PvItem *item)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->hired && slot->busy && slot->pid == item->worker_pid)
			return slot;
	}
	return NULL;
}

/*
 * The worker with that PID, if it is at a table or scans its database, or
 * NULL.
 */
PvWorkerSlot *
pv_slots_find_process(const PvQueues *queues, int pid)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (slot->hired && slot->pid == pid && (slot->busy || slot->scanning))
			return slot;
	}
	return NULL;
}

/* SIGINT was sent to the worker. */
void
pv_slots_note_cancel(const PvQueues *queues, PvWorkerSlot *slot)
{
	if (slot->canceled_at == PV_NEVER)
		slot->canceled_at = queues->now;
}

/* Has the worker given up what was cancelled? */
PvCancelState
pv_slots_cancel_state(const PvQueues *queues, const PvWorkerSlot *slot)
{
	if (!slot->hired || slot->pid == 0 || slot->canceled_at == PV_NEVER ||
		!(slot->busy || slot->scanning))
		return PV_CANCEL_NONE;
	return TimestampDifferenceExceeds(slot->canceled_at, queues->now,
									  PV_LATE_AFTER_MS) ?
		PV_CANCEL_IGNORED : PV_CANCEL_PENDING;
}
