/*-------------------------------------------------------------------------
 *
 * pv_queue.c
 *	  What the scheduler's processes share: a queue of tables for each
 *	  database, and who is at work on them.
 *
 *		launcher					runner						session
 *		--------					------						-------
 *		hire a runner	------->	attach
 *		request a scan	------->	begin scan, offer..., end
 *									pop, work, finish
 *		call back		------->	should leave?				enqueue, withdraw,
 *									(its exit gives all back)	look
 *
 * Everything is in main shared memory, of fixed size, under one lightweight lock
 * that is held for a moment only; nothing under it can fail or wait.  A table is
 * an entry of a shared hash table, by database and OID, so it is there once, and
 * whoever pops it is the only one to work on it.  Those that are queued are also
 * in a heap, best first: two for each database, the lanes.
 *
 * Lanes.  Small tables have a lane of their own, so that they are not behind
 * large ones: only so many runners may be on large tables as leave one for small
 * ones (pv_queue_pop).  The last of these places goes to the large table with the
 * highest score of all databases, or one database would keep them while it has any.
 *
 * A database's queue lives as long as there is anything in it or a runner at
 * work.  A runner that exits, whatever the reason, gives its table back: it waits
 * for the next pass, as after an error.  One that ends before it came is told of by
 * the launcher; those of a launcher that is gone, the next one does without.  After
 * a crash the postmaster sets everything up anew, and the next pass finds all that
 * there is to do.
 *
 * The queue full: what finds no place is not forgotten, since it is in the
 * statistics.  The scan offers the best first, and if not all found a place, the
 * runner that finds the queue empty scans again at once.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/float.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "pv_guc.h"
#include "pv_queue.h"

#define LOCK_TRANCHE			"parvacuum_queue"

/* A runner that has not come after so long waits for something, and takes no place
 * from others meanwhile: for its database's lock, which ALTER DATABASE may have.  One
 * that is at a small table for so long may wait for a lock, too. */
#define LATE_AFTER_MS			10000

/* A runner stays no longer than this where there always is something to do: settings of
 * databases and roles are only read by who comes. */
#define LONGEST_STAY_MS			(10 * 60 * 1000)

/* The last place for a large table is kept for the database with the highest score
 * for so long, in which a runner can come there. */
#define KEEP_PLACE_MS			10000

typedef enum PvLane
{
	PV_LANE_SMALL,
	PV_LANE_LARGE,
	PV_NUM_LANES
} PvLane;

/* An entry of the hash table; the key is the first member of the item. */
typedef struct QueueEntry
{
	PvItem		item;
	pairingheap_node heap_node; /* while queued */
	dlist_node	node;			/* in its queue's list, always */
} QueueEntry;

typedef struct DatabaseQueue
{
	Oid			database;		/* invalid: free */
	pairingheap_node *heap[PV_NUM_LANES];
	int			nqueued[PV_NUM_LANES];
	dlist_head	entries;
	bool		scan_requested;
	bool		scanning;
	TimestampTz scanned_at;		/* when the last pass's scan ended; 0: none did */
	int64		scan_used;		/* of the processor, microseconds */
	bool		incomplete;		/* the last scan found no place for all */
	bool		told_full;		/* that was said, and has not changed since */
	bool		goes_on;		/* the scan goes on with what found no place */
	bool		forgotten;		/* what was in vain, for the sake of others: then the
								 * scan goes on after the cursor */
	double		cursor_score;	/* of the last that found place in this pass */
	Oid			cursor_relid;
	bool		vacuumed;		/* something, or looked at all tables, and
								 * pg_database does not know yet */
	int			nrunners;
} DatabaseQueue;

typedef struct Runner
{
	bool		hired;			/* the slot is taken */
	int			pid;			/* 0: it has not come yet */
	uint32		token;			/* of this hiring */
	TimestampTz hired_at;
	int			queue;
	bool		leave;			/* after the table at hand */
	bool		scanning;
	bool		queued_some;	/* in the scan */
	bool		busy;
	TimestampTz busy_since;
	bool		large_allowed;	/* when it took the table it is at */
	bool		on_large;
	PvItemKey	at;				/* while busy */
} Runner;

typedef struct QueueShared
{
	/* atomics; nrunners is written under the lock */
	PvSchedulerCounters counters;
	pg_atomic_uint32 nrunners;

	/* all else is under the lock */
	Latch	   *launcher_latch; /* in shared memory; NULL: no launcher */
	uint32		next_token;
	int			nentries;
	Oid			kept_for;		/* the last place for a large table; invalid: it
								 * is not free, or nobody waits for it */
	TimestampTz kept_since;
	DatabaseQueue queues[PV_MAX_QUEUES];
	Runner		runners[PV_MAX_RUNNERS];
} QueueShared;

static QueueShared *shared = NULL;
static HTAB *entries = NULL;
static LWLock *lock = NULL;

/* This process's place, if it is a runner */
static Runner *me = NULL;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

Size
pv_queue_shmem_size(void)
{
	return add_size(MAXALIGN(sizeof(QueueShared)),
					hash_estimate_size(PV_QUEUE_SIZE, sizeof(QueueEntry)));
}

/* Postmaster, when extensions ask for shared memory. */
void
pv_queue_request_lock(void)
{
	RequestNamedLWLockTranche(LOCK_TRANCHE, 1);
}

/* Find it or set it up.  The caller holds AddinShmemInitLock. */
void
pv_queue_shmem_startup(void)
{
	HASHCTL		info;
	bool		found;

	shared = ShmemInitStruct("parvacuum queue", sizeof(QueueShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(QueueShared));
		for (int i = 0; i < PV_MAX_QUEUES; i++)
			dlist_init(&shared->queues[i].entries);
		pg_atomic_init_u32(&shared->nrunners, 0);
		pg_atomic_init_u64(&shared->counters.passes, 0);
		pg_atomic_init_u64(&shared->counters.vacuums, 0);
		pg_atomic_init_u64(&shared->counters.analyzes, 0);
		pg_atomic_init_u64(&shared->counters.not_needed, 0);
		pg_atomic_init_u64(&shared->counters.skipped_horizon, 0);
		pg_atomic_init_u64(&shared->counters.skipped_window, 0);
		pg_atomic_init_u64(&shared->counters.skipped_lock, 0);
		pg_atomic_init_u64(&shared->counters.errors, 0);
		pg_atomic_init_u64(&shared->counters.queue_full, 0);
	}

	info.keysize = sizeof(PvItemKey);
	info.entrysize = sizeof(QueueEntry);
	entries = ShmemInitHash("parvacuum queue entries", PV_QUEUE_SIZE, PV_QUEUE_SIZE,
							&info, HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
}

PvSchedulerCounters *
pv_queue_counters(void)
{
	return &shared->counters;
}

/* How many runners have come and are there now; takes no lock. */
int
pv_queue_nrunners(void)
{
	return (int) pg_atomic_read_u32(&shared->nrunners);
}


/* ----------------------------------------------------------------
 *		Queues and their entries; the caller holds the lock
 * ----------------------------------------------------------------
 */

static DatabaseQueue *
find_queue(Oid database)
{
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		if (shared->queues[i].database == database)
			return &shared->queues[i];
	}
	return NULL;
}

static PvLane
lane_of(const PvItem *item)
{
	return item->pages >= PV_LARGE_PAGES ? PV_LANE_LARGE : PV_LANE_SMALL;
}

/* The higher score first, among equals the one that is there for longer. */
static int
compare_entries(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const PvItem *x = &pairingheap_const_container(QueueEntry, heap_node, a)->item;
	const PvItem *y = &pairingheap_const_container(QueueEntry, heap_node, b)->item;

	if (x->score.total != y->score.total)
		return x->score.total > y->score.total ? 1 : -1;
	if (x->state_since != y->state_since)
		return x->state_since < y->state_since ? 1 : -1;
	return 0;
}

/*
 * A lane as core's heap knows it.  Only the root is shared: a pointer to a
 * function is good in its own process only.
 */
static pairingheap
open_lane(DatabaseQueue *queue, PvLane lane)
{
	pairingheap heap = {compare_entries, NULL, queue->heap[lane]};

	return heap;
}

static void
put_in_lane(DatabaseQueue *queue, QueueEntry *entry)
{
	PvLane		lane = lane_of(&entry->item);
	pairingheap heap = open_lane(queue, lane);

	pairingheap_add(&heap, &entry->heap_node);
	queue->heap[lane] = heap.ph_root;
	queue->nqueued[lane]++;
}

static void
take_out_of_lane(DatabaseQueue *queue, QueueEntry *entry)
{
	PvLane		lane = lane_of(&entry->item);
	pairingheap heap = open_lane(queue, lane);

	pairingheap_remove(&heap, &entry->heap_node);
	queue->heap[lane] = heap.ph_root;
	queue->nqueued[lane]--;
}

static QueueEntry *
first_of_lane(DatabaseQueue *queue, PvLane lane)
{
	if (queue->heap[lane] == NULL)
		return NULL;
	return pairingheap_container(QueueEntry, heap_node, queue->heap[lane]);
}

/* NULL if there is none. */
static QueueEntry *
first_of_queue(DatabaseQueue *queue, bool large_too)
{
	QueueEntry *small = first_of_lane(queue, PV_LANE_SMALL);
	QueueEntry *large = large_too ? first_of_lane(queue, PV_LANE_LARGE) : NULL;

	if (small == NULL ||
		(large != NULL && compare_entries(&large->heap_node, &small->heap_node, NULL) > 0))
		return large;
	return small;
}

static double
top_score(DatabaseQueue *queue, bool large_too)
{
	QueueEntry *first = first_of_queue(queue, large_too);

	return first ? first->item.score.total : 0;
}

/* Of a lane's first table; -1 if it is empty, which is less than any score. */
static double
lane_score(DatabaseQueue *queue, PvLane lane)
{
	QueueEntry *first = first_of_lane(queue, lane);

	return first ? first->item.score.total : -1;
}

/*
 * May a runner of this queue begin with a large table if it has one, or is the place
 * kept for another database?  That is not for long, as nobody may come there.
 */
static bool
large_is_allowed(DatabaseQueue *queue, int nlarge, int max_large)
{
	double		score = lane_score(queue, PV_LANE_LARGE);
	DatabaseQueue *first = queue;
	TimestampTz now;

	if (score < 0)
		return nlarge < max_large;
	if (nlarge != max_large - 1)
	{
		shared->kept_for = InvalidOid;
		return nlarge < max_large;
	}

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		if (lane_score(&shared->queues[i], PV_LANE_LARGE) > lane_score(first, PV_LANE_LARGE))
			first = &shared->queues[i];
	}
	if (first == queue)
		return true;
	now = GetCurrentTimestamp();
	if (shared->kept_for != first->database || shared->kept_since > now)
	{
		shared->kept_for = first->database;
		shared->kept_since = now;
	}
	return TimestampDifferenceExceeds(shared->kept_since, now, KEEP_PLACE_MS);
}

/* What the place was kept for may be gone, and be there again some day. */
static void
forget_kept_place(void)
{
	DatabaseQueue *queue = OidIsValid(shared->kept_for) ? find_queue(shared->kept_for) : NULL;

	if (queue == NULL || queue->heap[PV_LANE_LARGE] == NULL)
		shared->kept_for = InvalidOid;
}

/* The moment stays that of the last change. */
static void
set_state(QueueEntry *entry, PvItemState state, PvWaitReason reason)
{
	PvItem	   *item = &entry->item;

	if (item->state != state || item->reason != reason || item->state_since == 0)
		item->state_since = GetCurrentTimestamp();
	item->state = state;
	item->reason = reason;
	item->wait_until = 0;
	item->runner_pid = 0;
}

static void
enqueue_entry(DatabaseQueue *queue, QueueEntry *entry)
{
	set_state(entry, PV_ITEM_QUEUED, PV_WAIT_NONE);
	put_in_lane(queue, entry);
}

/* The same for one that is asked for, or was while a runner was at it. */
static void
enqueue_again(DatabaseQueue *queue, QueueEntry *entry)
{
	entry->item.again = false;
	entry->item.score.total = Max(entry->item.score.total, entry->item.priority);
	if (entry->item.priority > 0)
		entry->item.only_analyze = false;
	enqueue_entry(queue, entry);
}

static void
remove_entry(DatabaseQueue *queue, QueueEntry *entry)
{
	if (entry->item.state == PV_ITEM_QUEUED)
		take_out_of_lane(queue, entry);
	dlist_delete(&entry->node);
	(void) hash_search(entries, &entry->item.key, HASH_REMOVE, NULL);
	shared->nentries--;
}

static QueueEntry *
find_entry(Oid database, Oid relid)
{
	PvItemKey	key = {database, relid};

	return hash_search(entries, &key, HASH_FIND, NULL);
}

/* The setting for developers makes the place smaller; there are no more queues. */
static int
places(void)
{
	return Min(PV_QUEUE_SIZE, pv_guc_queue_limit);
}

/*
 * An entry that can be done without for the sake of this item: one that waits and
 * that nobody has asked for, or, if the item prevents wraparound, the last that is
 * queued and does not.  Both are found again by a scan; what somebody has asked for,
 * and does not need a vacuum, is not, but such tables must not keep that one out.
 */
static QueueEntry *
least_entry(const PvItem *item)
{
	QueueEntry *least = NULL;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		dlist_iter	iter;

		dlist_foreach(iter, &shared->queues[i].entries)
		{
			QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

			if (entry->item.state == PV_ITEM_RUNNING ||
				(entry->item.priority > 0 && !item->score.wraparound))
				continue;
			if (entry->item.state == PV_ITEM_WAITING && entry->item.priority == 0)
				return entry;
			if (item->score.wraparound && !entry->item.score.wraparound &&
				(least == NULL || entry->item.score.total < least->item.score.total))
				least = entry;
		}
	}
	return least;
}

/* Has it had its turn in this pass, and is to wait for the next?  What waits for its
 * window has not. */
static bool
was_in_vain(const PvItem *item)
{
	return item->state == PV_ITEM_WAITING && item->reason != PV_WAIT_WINDOW;
}

/* Make room for an item, if it can be done. */
static void
displace_for(const PvItem *item)
{
	QueueEntry *entry = least_entry(item);
	DatabaseQueue *queue;

	if (entry == NULL)
		return;
	queue = find_queue(entry->item.key.database);
	queue->incomplete |= entry->item.state == PV_ITEM_QUEUED;
	queue->forgotten |= was_in_vain(&entry->item);
	remove_entry(queue, entry);
}

/*
 * A new entry, in its queue's list and in no lane; NULL if there is no place.
 */
static QueueEntry *
new_entry(DatabaseQueue *queue, const PvItem *item)
{
	QueueEntry *entry;

	if (shared->nentries == places() && item->reason == PV_WAIT_NONE)
		displace_for(item);
	if (shared->nentries >= places())
		return NULL;
	entry = hash_search(entries, &item->key, HASH_ENTER_NULL, NULL);
	if (entry == NULL)
		return NULL;
	entry->item = *item;
	entry->item.state = PV_ITEM_WAITING;
	entry->item.state_since = 0;
	entry->item.again = entry->item.only_analyze = entry->item.was_for_age = false;
	entry->item.horizon = InvalidTransactionId;
	dlist_push_tail(&queue->entries, &entry->node);
	shared->nentries++;
	return entry;
}

/*
 * A queue for a database that has none.  If all are taken, one that has nothing to do
 * can be given up: its entries only wait, and what they wait for is found out again by
 * the next pass.  NULL if there is none.
 */
static DatabaseQueue *
find_free_queue(void)
{
	int			n = Min(PV_MAX_QUEUES, places());
	DatabaseQueue *idle = NULL;

	for (int i = 0; i < n; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];

		if (!OidIsValid(queue->database))
			return queue;
		if (idle == NULL && queue->nrunners == 0 && !queue->scan_requested &&
			queue->nqueued[PV_LANE_SMALL] + queue->nqueued[PV_LANE_LARGE] == 0)
			idle = queue;
	}
	return idle;
}

/*
 * The queue of a database that may not have one yet.
 */
static DatabaseQueue *
make_queue(Oid database)
{
	DatabaseQueue *queue = find_queue(database);

	if (queue != NULL)
		return queue;
	queue = find_free_queue();
	if (queue != NULL)
	{
		while (!dlist_is_empty(&queue->entries))
			remove_entry(queue, dlist_head_element(QueueEntry, node, &queue->entries));
		queue->database = database;
		queue->scan_requested = queue->scanning = false;
		queue->incomplete = queue->vacuumed = queue->told_full = false;
		queue->scanned_at = queue->scan_used = 0;
	}
	return queue;
}

static TimestampTz
rests_until(const DatabaseQueue *queue)
{
	return queue->scanned_at + pv_rest_after_pass(queue->scan_used);
}

/*
 * Somebody has left.  Give a queue up that has nothing in it and nobody at work, and
 * that need not remember when to look again.  With nobody there the scan that was
 * asked for does not come: it has to be asked for again.
 */
static void
release_queue(DatabaseQueue *queue)
{
	if (queue->nrunners > 0)
		return;
	queue->scan_requested = false;
	if (dlist_is_empty(&queue->entries) && rests_until(queue) <= GetCurrentTimestamp())
		queue->database = InvalidOid;
}

static void
remove_runner(Runner *runner)
{
	DatabaseQueue *queue = &shared->queues[runner->queue];

	runner->hired = false;
	queue->nrunners--;
	if (runner->pid != 0)
		pg_atomic_fetch_sub_u32(&shared->nrunners, 1);
	release_queue(queue);
}

static void
wake_launcher(void)
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
	LWLockAcquire(lock, LW_EXCLUSIVE);
	shared->launcher_latch = NULL;
	LWLockRelease(lock);
}

/*
 * Be the one who is woken.  Runners that the launcher before us has hired and that
 * have not come may have ended, which nobody would tell us of.  Should one come
 * later, it finds its place given away.
 */
void
pv_queue_launcher_begin(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	shared->launcher_latch = &MyProc->procLatch;
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		if (shared->runners[i].hired && shared->runners[i].pid == 0)
			remove_runner(&shared->runners[i]);
	}
	LWLockRelease(lock);
	before_shmem_exit(launcher_exit, 0);
}

/* Has it been hired so long ago, and not come? */
static bool
is_late(const Runner *runner, TimestampTz now)
{
	return runner->pid == 0 &&
		TimestampDifferenceExceeds(runner->hired_at, now, LATE_AFTER_MS);
}

/* Will it have time soon, or leave soon if it is called back? */
static bool
is_free_soon(const Runner *runner, TimestampTz now)
{
	return !runner->on_large &&
		!(runner->busy && TimestampDifferenceExceeds(runner->busy_since, now, LATE_AFTER_MS));
}

/*
 * The state of all queues, where max_large runners at most may be on large tables.  A
 * scan that was requested is not on its way if all who might do it are at what takes
 * long, or about to leave.
 */
void
pv_queue_view(PvQueueView *view, int max_large)
{
	TimestampTz now = GetCurrentTimestamp();
	PvQueueSummary of_queue[PV_MAX_QUEUES] = {0};
	int			nfree[PV_MAX_QUEUES] = {0};

	view->n = view->nrunners = view->nlarge = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	forget_kept_place();
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		Runner	   *runner = &shared->runners[i];
		PvQueueSummary *summary = &of_queue[runner->queue];

		if (!runner->hired)
			continue;
		runner->hired_at = Min(runner->hired_at, now);	/* the clock was put back */
		nfree[runner->queue] += is_free_soon(runner, now) && !runner->leave;
		summary->nexpected += runner->pid == 0;
		if (is_late(runner, now))
			continue;
		view->nlarge += runner->on_large;
		view->nrunners++;
		summary->nrunners++;
		summary->nleaving += runner->leave;
		summary->nleaving_soon += runner->leave && is_free_soon(runner, now);
		summary->nmovable += !runner->leave && is_free_soon(runner, now) && runner->pid != 0;
	}
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];
		PvQueueSummary *summary = &of_queue[i];
		bool		large_allowed;

		if (!OidIsValid(queue->database))
			continue;
		large_allowed = large_is_allowed(queue, view->nlarge, max_large);
		summary->database = queue->database;
		summary->top_score = top_score(queue, large_allowed);
		summary->nqueued = queue->nqueued[PV_LANE_SMALL];
		if (large_allowed)
			summary->nqueued += queue->nqueued[PV_LANE_LARGE];
		summary->scan_pending = queue->scanning ||
			(queue->scan_requested && nfree[i] > 0);
		if (summary->scan_pending)
			summary->nmovable = 0;	/* it is to end the scan first */
		queue->scanned_at = Min(queue->scanned_at, now);
		summary->rests_until = rests_until(queue);
		view->summaries[view->n++] = *summary;
	}
	view->full = find_free_queue() == NULL;
	LWLockRelease(lock);
}

/*
 * Have the next runner of the database look for work.  False if there is none, or
 * only such as are at what takes long, or about to leave.
 */
bool
pv_queue_request_scan(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		requested = false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_RUNNERS && !requested; i++)
	{
		Runner	   *runner = &shared->runners[i];
		DatabaseQueue *queue = &shared->queues[runner->queue];

		if (runner->hired && is_free_soon(runner, now) && !runner->leave &&
			queue->database == database)
			queue->scan_requested = requested = true;
	}
	LWLockRelease(lock);
	return requested;
}

/*
 * A place for a runner that is about to be started; -1 if there is none.  It, or
 * another one, is to look for work first if it is hired for that.
 */
int
pv_queue_hire(Oid database, bool to_scan, uint32 *token)
{
	DatabaseQueue *queue;
	int			found = -1;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	queue = make_queue(database);
	for (int i = 0; queue != NULL && found < 0 && i < PV_MAX_RUNNERS; i++)
	{
		Runner	   *runner = &shared->runners[i];

		if (runner->hired)
			continue;
		memset(runner, 0, sizeof(*runner));
		runner->hired = true;
		runner->token = *token = ++shared->next_token;
		runner->hired_at = GetCurrentTimestamp();
		runner->queue = queue - shared->queues;
		queue->nrunners++;
		queue->scan_requested |= to_scan;
		found = i;
	}
	LWLockRelease(lock);
	return found;
}

/* It could not be started, or has ended before it came. */
void
pv_queue_dismiss(int runner, uint32 token)
{
	Runner	   *it = &shared->runners[runner];

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (it->hired && it->token == token && it->pid == 0)
		remove_runner(it);
	LWLockRelease(lock);
}

/* Has it come?  Also true if it has been and gone. */
bool
pv_queue_runner_started(int runner, uint32 token)
{
	Runner	   *it = &shared->runners[runner];
	bool		started;

	LWLockAcquire(lock, LW_SHARED);
	started = !it->hired || it->token != token || it->pid != 0;
	LWLockRelease(lock);
	return started;
}

/* Is anything queued, or waited for? */
bool
pv_queue_is_busy(void)
{
	bool		busy = false;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_MAX_QUEUES && !busy; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];

		busy = OidIsValid(queue->database) &&
			(queue->scan_requested || queue->heap[PV_LANE_SMALL] != NULL ||
			 queue->heap[PV_LANE_LARGE] != NULL);
	}
	LWLockRelease(lock);
	return busy;
}

/*
 * Have one runner of that database leave, for the sake of another database: one
 * that leaves soon, if there is any.
 */
void
pv_queue_call_back(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	Runner	   *found = NULL;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		Runner	   *runner = &shared->runners[i];

		if (!runner->hired || runner->leave || is_late(runner, now) ||
			shared->queues[runner->queue].database != database)
			continue;
		if (found == NULL || (!is_free_soon(found, now) && is_free_soon(runner, now)))
			found = runner;
	}
	if (found != NULL)
		found->leave = true;
	LWLockRelease(lock);
}

/* The database is gone: so is what was queued for it. */
void
pv_queue_drop_database(Oid database)
{
	DatabaseQueue *queue;
	dlist_mutable_iter iter;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	queue = find_queue(database);
	if (queue != NULL)
	{
		dlist_foreach_modify(iter, &queue->entries)
		{
			QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

			if (entry->item.state != PV_ITEM_RUNNING)
				remove_entry(queue, entry);
		}
		queue->scan_requested = false;
		queue->scanned_at = queue->scan_used = 0;
		release_queue(queue);
	}
	LWLockRelease(lock);
}


/* ----------------------------------------------------------------
 *		A runner
 * ----------------------------------------------------------------
 */

static DatabaseQueue *
my_queue(void)
{
	return &shared->queues[me->queue];
}

/*
 * The table at hand is left.  It is forgotten, or waits: at least until the next
 * pass.  Asked for again meanwhile, it is queued again.
 */
static void
leave_table(PvWaitReason reason, TransactionId horizon)
{
	DatabaseQueue *queue = my_queue();
	QueueEntry *entry = find_entry(me->at.database, me->at.relid);

	if (entry->item.again)
		enqueue_again(queue, entry);
	else if (reason == PV_WAIT_NONE)
		remove_entry(queue, entry);
	else
	{
		set_state(entry, PV_ITEM_WAITING, reason);
		entry->item.horizon = horizon;
		if (!entry->item.only_analyze)
			entry->item.was_for_age = entry->item.score.wraparound;
		entry->item.only_analyze = false;
		if (reason != PV_WAIT_LOCK)
			entry->item.priority = 0;
	}
	me->busy = me->on_large = false;
}

/*
 * The runner leaves, by itself or by an error that ends it.  A table that it was
 * at waits for the next pass; so does a scan.
 */
static void
runner_exit(int code, Datum arg)
{
	DatabaseQueue *queue = my_queue();

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (me->busy)
		leave_table(PV_WAIT_ERROR, InvalidTransactionId);
	if (me->scanning)
		queue->scanning = false;
	remove_runner(me);
	wake_launcher();
	LWLockRelease(lock);
	me = NULL;
}

/* Come to one's place.  False if it was given away meanwhile. */
bool
pv_queue_attach(int runner, uint32 token, Oid *database)
{
	Runner	   *it = &shared->runners[runner];
	bool		good;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	good = it->hired && it->token == token && it->pid == 0;
	if (good)
	{
		it->pid = MyProcPid;
		pg_atomic_fetch_add_u32(&shared->nrunners, 1);
		*database = shared->queues[it->queue].database;
		me = it;
	}
	LWLockRelease(lock);
	if (good)
		before_shmem_exit(runner_exit, 0);
	return good;
}

/*
 * Is it on this runner to look for work now?  If so it has to end what it begins
 * here.  That is so if the launcher wants it, or when the queue is empty and the
 * last scan did not find place for all.  Then it goes on with those that did not.
 */
bool
pv_queue_begin_scan(void)
{
	DatabaseQueue *queue = my_queue();
	bool		wanted;
	dlist_iter	iter;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	wanted = queue->scan_requested ||
		(queue->incomplete && queue->heap[PV_LANE_SMALL] == NULL &&
		 queue->heap[PV_LANE_LARGE] == NULL);
	if (queue->scanning)
		wanted = false;
	if (wanted)
	{
		queue->goes_on = !queue->scan_requested;
		if (!queue->goes_on)
		{
			queue->forgotten = false;
			queue->cursor_score = get_float8_infinity();
			queue->cursor_relid = InvalidOid;
		}
		queue->scan_requested = false;
		queue->scanning = me->scanning = true;
		queue->incomplete = me->queued_some = false;
		dlist_foreach(iter, &queue->entries)
			dlist_container(QueueEntry, node, iter.cur)->item.seen = false;
	}
	LWLockRelease(lock);
	return wanted;
}

/*
 * The scan goes on: is the table to wait for the next pass?  If it has been in vain in this
 * one, and if that may have been forgotten, because it comes before the last that found
 * place.  Only then, as it is also true of those whose score has grown since: of all that
 * are left, where ages do.
 */
static bool
had_its_turn(const DatabaseQueue *queue, const PvItem *item, const QueueEntry *entry)
{
	if (!queue->goes_on)
		return false;
	if (entry != NULL)
		return was_in_vain(&entry->item);
	if (!queue->forgotten)
		return false;
	if (item->score.total != queue->cursor_score)
		return item->score.total > queue->cursor_score;
	return item->key.relid <= queue->cursor_relid;
}

/*
 * Would a vacuum of it be in vain?  With the horizon where it was, nothing that the last one
 * has left can be removed now, nor anything be frozen; what aborted since can wait as well.
 * But one that was not to prevent wraparound may not have looked everywhere, and multixacts
 * go by another horizon.
 */
static bool
is_in_vain(const PvItem *known, const PvItem *item)
{
	return (known->reason == PV_WAIT_HORIZON || known->only_analyze) &&
		TransactionIdIsValid(known->horizon) && known->horizon == item->horizon &&
		(!item->score.wraparound || (known->was_for_age && item->score.mxid <= 1));
}

/*
 * One table that the scan has found, with its score, to be queued, or to wait
 * for item->reason until item->wait_until.  What is known of it already gets the
 * new score.  What would be vacuumed in vain goes on waiting, or is only analyzed.
 * *full is set if there was no place; for what only waits, some is left.
 */
void
pv_queue_offer(const PvItem *item, bool *full)
{
	DatabaseQueue *queue = my_queue();
	PvWaitReason reason = item->reason;
	QueueEntry *entry;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = find_entry(item->key.database, item->key.relid);
	if (had_its_turn(queue, item, entry))
	{
		if (entry != NULL)
			entry->item.seen = true;
		LWLockRelease(lock);
		return;
	}
	if (entry == NULL &&
		(reason == PV_WAIT_NONE || shared->nentries < places() / 2))
	{
		entry = new_entry(queue, item);
		*full |= (entry == NULL && reason == PV_WAIT_NONE);
	}
	if (!*full)
	{
		queue->cursor_score = item->score.total;
		queue->cursor_relid = item->key.relid;
	}
	if (entry != NULL && entry->item.state == PV_ITEM_RUNNING)
		entry->item.seen = true;
	else if (entry != NULL)
	{
		PvItem	   *known = &entry->item;
		bool		in_vain = reason == PV_WAIT_NONE && is_in_vain(known, item);

		if (known->state == PV_ITEM_QUEUED)
			take_out_of_lane(queue, entry);
		known->seen = true;
		known->score = item->score;
		known->only_analyze = in_vain && item->score.analyze && known->priority == 0;
		if (known->only_analyze)
			pv_score_only_analyze(&known->score, item->pages);
		else if (in_vain)
			reason = PV_WAIT_HORIZON;
		if (in_vain)
			pg_atomic_fetch_add_u64(&shared->counters.skipped_horizon, 1);
		known->score.total = Max(known->score.total, known->priority);
		known->pages = item->pages;
		known->toast_parent = item->toast_parent;
		if (reason == PV_WAIT_NONE || known->priority > 0)
		{
			enqueue_entry(queue, entry);
			me->queued_some = true;
		}
		else
		{
			set_state(entry, PV_ITEM_WAITING, reason);
			known->wait_until = item->wait_until;
		}
	}
	LWLockRelease(lock);
}

/* The scan has failed: it is for the next pass to try again. */
void
pv_queue_abandon_scan(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (me->scanning)
		my_queue()->scanning = me->scanning = false;
	LWLockRelease(lock);
}

/*
 * All has been offered, and not all found place unless it is complete.  What is
 * known and was not offered needs nothing any more, or is gone, unless somebody
 * has asked for it.  If nothing at all found place, because other databases have
 * taken it or what waits, it is for the next pass to try again, not at once.
 * The scan has used so many microseconds of the processor; if it has only gone on, it
 * is no new pass, and puts none off.
 * Returns whether the log is to be told that the queue is full: once in a row,
 * whichever runners find it so.
 */
bool
pv_queue_end_scan(bool complete, int64 used)
{
	DatabaseQueue *queue = my_queue();
	dlist_mutable_iter iter;
	bool		tell;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	dlist_foreach_modify(iter, &queue->entries)
	{
		QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

		if (entry->item.seen || entry->item.state == PV_ITEM_RUNNING)
			continue;
		if (entry->item.priority == 0)
			remove_entry(queue, entry);
		else if (entry->item.state == PV_ITEM_WAITING)
			enqueue_again(queue, entry);
	}
	queue->scanning = me->scanning = false;
	if (!queue->goes_on)
	{
		queue->vacuumed = true;
		queue->scanned_at = GetCurrentTimestamp();
		queue->scan_used = used;
	}
	queue->incomplete = !complete && me->queued_some;
	tell = !complete && !queue->told_full;
	queue->told_full = !complete;
	pg_atomic_fetch_add_u64(&shared->counters.passes, 1);
	if (!complete)
		pg_atomic_fetch_add_u64(&shared->counters.queue_full, 1);
	wake_launcher();
	LWLockRelease(lock);
	return tell;
}

/*
 * Take the table with the highest score; a large one only while less than
 * max_large runners, of all databases, are on large ones, and the last place for
 * such is not for another database.  False if there is nothing.
 */
bool
pv_queue_pop(int max_large, PvItem *item)
{
	DatabaseQueue *queue = my_queue();
	QueueEntry *best;
	int			nlarge = 0;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
		nlarge += shared->runners[i].hired && shared->runners[i].on_large;

	me->large_allowed = large_is_allowed(queue, nlarge, max_large);
	best = first_of_queue(queue, me->large_allowed);
	if (best != NULL)
	{
		take_out_of_lane(queue, best);
		set_state(best, PV_ITEM_RUNNING, PV_WAIT_NONE);
		best->item.runner_pid = MyProcPid;
		me->busy = true;
		me->busy_since = best->item.state_since;
		me->on_large = lane_of(&best->item) == PV_LANE_LARGE;
		if (me->on_large)
			shared->kept_for = InvalidOid;
		me->at = best->item.key;
		*item = best->item;
	}
	LWLockRelease(lock);
	return best != NULL;
}

/*
 * The table at hand has another score than when it was queued, or has become
 * large.  If it is not the first any more, put it back.  False if it still is,
 * among those that this runner may take: else it would get it again, and again.
 */
bool
pv_queue_put_back(const PvItem *item)
{
	DatabaseQueue *queue = my_queue();
	QueueEntry *entry;
	bool		put_back;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = find_entry(item->key.database, item->key.relid);
	put_back = top_score(queue, me->large_allowed) > item->score.total ||
		(item->pages >= PV_LARGE_PAGES && !me->on_large);
	entry->item.score = item->score;
	entry->item.pages = item->pages;
	entry->item.only_analyze = item->only_analyze;
	if (put_back)
	{
		enqueue_again(queue, entry);
		me->busy = me->on_large = false;
	}
	LWLockRelease(lock);
	return put_back;
}

/*
 * The table at hand is done, or cannot be done now.
 */
void
pv_queue_finish(const PvItem *item, bool vacuumed, PvWaitReason reason,
				TransactionId horizon)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* it may have been put back before an error came */
	Assert(!me->busy || item->key.relid == me->at.relid);
	if (me->busy)
		leave_table(reason, horizon);
	my_queue()->vacuumed |= vacuumed;
	LWLockRelease(lock);
}

/*
 * Is this runner wanted elsewhere, or has it been here for long?  Then another one, with the
 * database's settings of now, goes on; it, or somebody who is here, sees to a scan first.
 */
bool
pv_queue_should_leave(void)
{
	bool		leave;

	LWLockAcquire(lock, LW_SHARED);
	leave = me->leave ||
		(!my_queue()->scan_requested &&
		 TimestampDifferenceExceeds(me->hired_at, GetCurrentTimestamp(), LONGEST_STAY_MS));
	LWLockRelease(lock);
	return leave;
}

/*
 * Has the queue been worked off, and nobody is at work on the rest of it, or does
 * that not matter?  Then one runner is told so, also if there was nothing to vacuum: the
 * oldest table may have been dropped.
 */
bool
pv_queue_pass_is_over(bool even_if_busy)
{
	DatabaseQueue *queue = my_queue();
	bool		over;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	over = queue->vacuumed;
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		Runner	   *runner = &shared->runners[i];

		if (!even_if_busy && runner->hired && runner->busy && runner->queue == me->queue)
			over = false;
	}
	if (over)
		queue->vacuumed = false;
	LWLockRelease(lock);
	return over;
}

/* Who was told so could not end the pass; it is left to the next one. */
void
pv_queue_pass_is_not_over(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	my_queue()->vacuumed = true;
	LWLockRelease(lock);
}


/* ----------------------------------------------------------------
 *		Sessions
 * ----------------------------------------------------------------
 */

/* All items as they are now, a list of PvItem *. */
List *
pv_queue_copy(void)
{
	PvItem	   *items = palloc_extended(PV_QUEUE_SIZE * sizeof(PvItem), MCXT_ALLOC_HUGE);
	List	   *list = NIL;
	int			n = 0;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		dlist_iter	iter;

		dlist_foreach(iter, &shared->queues[i].entries)
			items[n++] = dlist_container(QueueEntry, node, iter.cur)->item;
	}
	LWLockRelease(lock);

	for (int i = 0; i < n; i++)
		list = lappend(list, &items[i]);
	return list;
}

/*
 * Put a table of this database in its queue, or to another place there.  False
 * if there is no place.
 */
bool
pv_queue_enqueue(Oid relid, Oid toast_parent, BlockNumber pages, double priority)
{
	PvItem		item = {.key = {MyDatabaseId, relid}, .toast_parent = toast_parent,
	.pages = pages};
	DatabaseQueue *queue;
	QueueEntry *entry = NULL;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	queue = make_queue(MyDatabaseId);
	if (queue != NULL)
	{
		entry = find_entry(MyDatabaseId, relid);
		if (entry == NULL)
			entry = new_entry(queue, &item);
	}
	if (entry != NULL)
	{
		entry->item.priority = priority;
		if (entry->item.state == PV_ITEM_RUNNING)
			entry->item.again = true;
		else
		{
			if (entry->item.state == PV_ITEM_QUEUED)
				take_out_of_lane(queue, entry);
			enqueue_again(queue, entry);
		}
		wake_launcher();
	}
	LWLockRelease(lock);
	return entry != NULL;
}

/*
 * Take a table of this database out of its queue, until the next pass finds it
 * again.  If a runner is at it, *runner_pid says who, else it is 0.  False if the
 * table is neither.
 */
bool
pv_queue_withdraw(Oid relid, int *runner_pid)
{
	QueueEntry *entry;
	bool		found = false;

	*runner_pid = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = find_entry(MyDatabaseId, relid);
	if (entry != NULL && entry->item.state == PV_ITEM_RUNNING)
	{
		*runner_pid = entry->item.runner_pid;
		entry->item.again = false;
		found = true;
	}
	else if (entry != NULL && entry->item.state == PV_ITEM_QUEUED)
	{
		take_out_of_lane(find_queue(MyDatabaseId), entry);
		set_state(entry, PV_ITEM_WAITING, PV_WAIT_CANCELED);
		entry->item.priority = 0;
		entry->item.only_analyze = false;
		found = true;
	}
	LWLockRelease(lock);
	return found;
}

/* Is that process a runner, and what is it at?  Invalid OIDs: nothing. */
bool
pv_queue_runner_of(int pid, Oid *database, Oid *relid)
{
	bool		found = false;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_MAX_RUNNERS && !found; i++)
	{
		Runner	   *runner = &shared->runners[i];

		if (!runner->hired || runner->pid != pid)
			continue;
		found = true;
		*database = runner->busy ? runner->at.database : InvalidOid;
		*relid = runner->busy ? runner->at.relid : InvalidOid;
	}
	LWLockRelease(lock);
	return found;
}
