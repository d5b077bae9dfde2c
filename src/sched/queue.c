/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  What the scheduler's processes share: a queue of tables for each
 *	  database, and who is at work on them.
 *
 *		launcher					worker						session
 *		--------					------						-------
 *		hire a worker	------->	attach
 *		request a scan	------->	begin scan, offer..., end
 *									pop, work, finish
 *		call back		------->	should leave?				enqueue, withdraw,
 *									(its exit gives all back)	look
 *
 * Everything is in main shared memory, of fixed size, under one lightweight lock; nothing
 * under it can fail or wait.  It is held for a moment: for one entry, or for BATCH of them
 * where many are to go; what is added or taken costs the logarithm of what is there, on
 * average.  Only pv_queue_copy() looks at all entries of a database while it shares the lock.
 *
 * A table is an entry of a shared hash table, by database and OID, so it is there once, and
 * whoever pops it is the only one to work on it.  Those that are queued are also
 * in a heap, in the order of pv_compare_ranks(): two for each database, the size classes.
 *
 * Size classes.  Small tables have a size class of their own, so that they are not behind large ones:
 * only so many workers may be on large tables as leave one for small ones (pv_queue_pop).
 * The last of these places goes to the large table that is first of all databases, or one
 * database would keep them while it has any.  A large table in danger of wraparound does
 * not wait for those that are not: such tables have as many places for themselves,
 * whatever the others are used for.
 *
 * A database's queue lives as long as there is anything in it or a worker at
 * work.  A worker that exits, whatever the reason, gives its table back: it waits
 * for the next pass, as after an error.  One that ends before it came is told of by
 * the launcher; those of a launcher that is gone, the next one does without.  After
 * a crash the postmaster sets everything up anew, and the next pass finds all that
 * there is to do.
 *
 * Shares.  Each entry has a holder: what the scan of a database has found there, or the
 * role that has asked for it there.  Where the queue is full, an entry gives way only if
 * its database has more than its share, or to one of the same database.  Within a
 * database, what is asked for may have half of its share; of it the role that has most
 * gives way.  What gives way is the least of its holder: what waits, else the last in the
 * order.  It is never in danger of wraparound, but for the sake of one that is.  The
 * shares are in sched/policy.c.
 *
 * The queue full: what the scan has found and what finds no place is not forgotten, since
 * it is in the statistics.  The scan offers the first first.  If not all found a place,
 * those that follow go on where it ended, one when the queue is empty and one each
 * naptime, until all have had their turn: then it begins anew.  Meanwhile only what is in
 * danger, or asked for, has a second turn, and what finds a place late counts as waiting
 * since these scans began.  This is kept, too, of a database that loses its place in the
 * list of queues (Cycle).
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
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/float.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "base/settings.h"
#include "sched/queue.h"

#define LOCK_TRANCHE			"parvacuum_queue"

/* A worker stays no longer than this where there always is something to do: settings of
 * databases and roles are only read by who comes. */
#define LONGEST_STAY_MS			(10 * 60 * 1000)

/* The last place for a large table is kept for the database with the highest score
 * for so long, in which a worker can come there. */
#define KEEP_PLACE_MS			30000

/* So many entries are dealt with while the lock is held at most, some ten microseconds. */
#define BATCH					64

/* So many databases that have lost their queue can go on where the last scan ended. */
#define MAX_CYCLES				1024

/* Roles that have something in the queue, each counted once for each database. */
#define MAX_REQUESTERS			1024

typedef enum PvSizeClass
{
	PV_SIZE_SMALL,
	PV_SIZE_LARGE,
	PV_NUM_SIZES
} PvSizeClass;

typedef struct HolderKey
{
	Oid			database;
	Oid			role;			/* invalid: what the scan has found */
} HolderKey;

/* Who holds entries of a database's queue. */
typedef struct Holder
{
	HolderKey	key;
	int			nentries;
	pairingheap_node *least;	/* those that are not in work, the first to give way on top */
	dlist_node	node;			/* of a role: in its queue's list */
} Holder;

/* An entry of the hash table; the key is the first member of the item. */
typedef struct QueueEntry
{
	PvItem		item;
	uint32		seen;			/* the last scan of its queue that has */
	bool		placed;			/* it is in the heaps that it belongs to, by state, size class, rank
								 * and holder: none of these is changed then */
	Holder	   *holder;
	pairingheap_node size_node; /* while queued */
	pairingheap_node least_node;	/* while not in work */
	dlist_node	node;			/* in its queue's list, always */
} QueueEntry;

/* How far the scans of a database have come that go on where the last one ended. */
typedef struct Cycle
{
	Oid			database;		/* invalid: none */
	bool		forgotten;		/* what was in vain, for the sake of others: then the
								 * scan goes on after the cursor */
	TimestampTz since;			/* when the first of these scans began; 0: there was none */
	bool		cursor_danger;	/* of the last that found place in them */
	double		cursor_score;
	Oid			cursor_relid;
} Cycle;

typedef struct DatabaseQueue
{
	Oid			database;		/* invalid: free */
	pairingheap_node *heap[PV_NUM_SIZES];
	int			nqueued[PV_NUM_SIZES];
	dlist_head	entries;		/* what the scan that goes on has seen is behind the rest */
	int			nentries;
	int			nrequests;		/* of them have been asked for */
	Holder		found;			/* the scan, as a holder */
	dlist_head	requesters;		/* the roles that hold anything */
	bool		scan_requested;
	bool		scanning;
	uint32		scan;			/* the number of the last one */
	TimestampTz scanned_at;		/* when the last pass's scan ended; 0: none did */
	int64		scan_used;		/* of the processor, microseconds */
	bool		nothing;		/* it found that nothing there has opted in */
	bool		incomplete;		/* the last scan found no place for all */
	bool		reported_full;		/* that was said, and has not changed since */
	bool		goes_on;		/* the scan goes on with what found no place */
	bool		new_pass;		/* it was asked for */
	Cycle		cycle;
	bool		vacuumed;		/* something, or looked at tables, and
								 * pg_database does not know yet */
	int			nworkers;
} DatabaseQueue;

typedef struct SchedWorker
{
	bool		hired;			/* the slot is taken */
	int			pid;			/* 0: it has not come yet */
	uint32		token;			/* of this hiring */
	TimestampTz hired_at;
	int			queue;
	bool		leave;			/* after the table at hand */
	bool		scanning;
	bool		queued_some;	/* in the scan */
	bool		nothing;		/* found by it to have opted in */
	bool		has_begun;		/* any table */
	bool		busy;
	TimestampTz busy_since;
	bool		large_allowed;	/* when it took the table it is at */
	bool		on_large;
	bool		on_danger;		/* it is at one in danger of wraparound */
	PvItemKey	at;				/* while busy */
	bool		looked;			/* the item's score is what it found itself */
	bool		cancel_asked;	/* before that; not for what prevents wraparound */
	TimestampTz canceled_at;	/* what it is at; 0: it was not */
} SchedWorker;

typedef struct QueueShared
{
	/* atomics; nworkers is written under the lock */
	PvSchedulerCounters counters;
	pg_atomic_uint32 nworkers;

	/* all else is under the lock */
	Latch	   *launcher_latch; /* in shared memory; NULL: no launcher */
	uint32		next_token;
	int			nentries;
	Oid			kept_for;		/* the last place for a large table; invalid: it
								 * is not free, or nobody waits for it */
	TimestampTz kept_since;
	int			next_cycle;		/* the place to be used next */
	Cycle		cycles[MAX_CYCLES]; /* of those that have no queue */
	DatabaseQueue queues[PV_MAX_QUEUES];
	SchedWorker		workers[PV_MAX_SCHED_WORKERS];
} QueueShared;

static QueueShared *shared = NULL;
static HTAB *entries = NULL;
static HTAB *requesters = NULL; /* holders that are roles */
static LWLock *lock = NULL;

/* This process's place, if it is a worker */
static SchedWorker *me = NULL;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

Size
pv_queue_shmem_size(void)
{
	return add_size(add_size(MAXALIGN(sizeof(QueueShared)),
							 hash_estimate_size(PV_QUEUE_SIZE, sizeof(QueueEntry))),
					hash_estimate_size(MAX_REQUESTERS, sizeof(Holder)));
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
		{
			dlist_init(&shared->queues[i].entries);
			dlist_init(&shared->queues[i].requesters);
		}
		pg_atomic_init_u32(&shared->nworkers, 0);
		pg_atomic_init_u64(&shared->counters.database_scans, 0);
		pg_atomic_init_u64(&shared->counters.vacuums, 0);
		pg_atomic_init_u64(&shared->counters.analyzes, 0);
		pg_atomic_init_u64(&shared->counters.not_needed, 0);
		pg_atomic_init_u64(&shared->counters.skipped_horizon, 0);
		pg_atomic_init_u64(&shared->counters.skipped_window, 0);
		pg_atomic_init_u64(&shared->counters.skipped_lock, 0);
		pg_atomic_init_u64(&shared->counters.errors, 0);
		pg_atomic_init_u64(&shared->counters.queue_full, 0);
		pg_atomic_init_u64(&shared->counters.no_process, 0);
	}

	info.keysize = sizeof(PvItemKey);
	info.entrysize = sizeof(QueueEntry);
	entries = ShmemInitHash("parvacuum queue entries", PV_QUEUE_SIZE, PV_QUEUE_SIZE,
							&info, HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	info.keysize = sizeof(HolderKey);
	info.entrysize = sizeof(Holder);
	requesters = ShmemInitHash("parvacuum queue requesters", MAX_REQUESTERS, MAX_REQUESTERS,
							   &info, HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
}

PvSchedulerCounters *
pv_queue_counters(void)
{
	return &shared->counters;
}

/* How many workers have come and are there now; takes no lock. */
int
pv_queue_nworkers(void)
{
	return (int) pg_atomic_read_u32(&shared->nworkers);
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

static PvSizeClass
size_class_of(const PvItem *item)
{
	return item->pages >= PV_LARGE_PAGES ? PV_SIZE_LARGE : PV_SIZE_SMALL;
}

/* What goes first is on top. */
static int
compare_entries(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	return pv_compare_ranks(&pairingheap_const_container(QueueEntry, size_node, a)->item.rank,
							&pairingheap_const_container(QueueEntry, size_node, b)->item.rank);
}

/* What gives way first is on top: what waits, then the last in the order. */
static int
compare_least(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const PvItem *x = &pairingheap_const_container(QueueEntry, least_node, a)->item;
	const PvItem *y = &pairingheap_const_container(QueueEntry, least_node, b)->item;

	if (x->state != y->state)
		return x->state == PV_ITEM_WAITING ? 1 : -1;
	return pv_compare_ranks(&y->rank, &x->rank);
}

/*
 * Core's heap, of which only the root is shared: a pointer to a function is good in its own
 * process only.
 */
static void
add_to_heap(pairingheap_node **root, pairingheap_comparator compare, pairingheap_node *node)
{
	pairingheap heap = {compare, NULL, *root};

	pairingheap_add(&heap, node);
	*root = heap.ph_root;
}

static void
remove_from_heap(pairingheap_node **root, pairingheap_comparator compare, pairingheap_node *node)
{
	pairingheap heap = {compare, NULL, *root};

	pairingheap_remove(&heap, node);
	*root = heap.ph_root;
}

/* Take it out of its heaps, before anything is changed that its places there depend on. */
static void
unplace(DatabaseQueue *queue, QueueEntry *entry)
{
	PvSizeClass		size_class = size_class_of(&entry->item);

	if (!entry->placed)
		return;
	if (entry->item.state == PV_ITEM_QUEUED)
	{
		remove_from_heap(&queue->heap[size_class], compare_entries, &entry->size_node);
		queue->nqueued[size_class]--;
	}
	remove_from_heap(&entry->holder->least, compare_least, &entry->least_node);
	entry->placed = false;
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
	item->worker_pid = 0;
}

/* Give it its state, and put it in the heaps that it belongs to then. */
static void
place(DatabaseQueue *queue, QueueEntry *entry, PvItemState state, PvWaitReason reason)
{
	PvItem	   *item = &entry->item;
	PvSizeClass		size_class = size_class_of(item);

	Assert(!entry->placed);
	set_state(entry, state, reason);
	pv_rank_table(&item->score, item->priority, item->needed_since, item->not_removable, &item->rank);
	if (state == PV_ITEM_RUNNING)
		return;
	if (state == PV_ITEM_QUEUED)
	{
		add_to_heap(&queue->heap[size_class], compare_entries, &entry->size_node);
		queue->nqueued[size_class]++;
	}
	add_to_heap(&entry->holder->least, compare_least, &entry->least_node);
	entry->placed = true;
}

/* Queue one that is asked for, or was while a worker was at it.  It is in no heap. */
static void
enqueue_again(DatabaseQueue *queue, QueueEntry *entry)
{
	entry->item.again = false;
	entry->item.score.total = Max(entry->item.score.total, entry->item.priority);
	if (entry->item.priority > 0)
		entry->item.only_analyze = false;
	place(queue, entry, PV_ITEM_QUEUED, PV_WAIT_NONE);
}

static QueueEntry *
first_of_size(DatabaseQueue *queue, PvSizeClass size_class)
{
	if (queue->heap[size_class] == NULL)
		return NULL;
	return pairingheap_container(QueueEntry, size_node, queue->heap[size_class]);
}

/* Does a go before b?  Each may be NULL. */
static bool
goes_before(const QueueEntry *a, const QueueEntry *b)
{
	return a != NULL &&
		(b == NULL || pv_compare_ranks(&a->item.rank, &b->item.rank) > 0);
}

/* NULL if there is none. */
static QueueEntry *
first_of_queue(DatabaseQueue *queue, bool large_too)
{
	QueueEntry *small = first_of_size(queue, PV_SIZE_SMALL);
	QueueEntry *large = large_too ? first_of_size(queue, PV_SIZE_LARGE) : NULL;

	return goes_before(large, small) ? large : small;
}

/* The queue whose first large table is the first of all; NULL if there is none. */
static DatabaseQueue *
first_with_large(void)
{
	DatabaseQueue *first = NULL;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];

		if (goes_before(first_of_size(queue, PV_SIZE_LARGE),
						first ? first_of_size(first, PV_SIZE_LARGE) : NULL))
			first = queue;
	}
	return first;
}

/* Workers on large tables; of them those on one in danger of wraparound. */
static int
count_large(int *ndanger)
{
	int			nlarge = 0;

	*ndanger = 0;
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		nlarge += worker->hired && worker->on_large;
		*ndanger += worker->hired && worker->on_large && worker->on_danger;
	}
	return nlarge;
}

/*
 * May a worker of this queue begin with a large table if it has one?  That is so if a place is
 * free, and the last one is not kept for another database, of which first is.  It is not
 * kept for long, as nobody may come there.  One in danger of wraparound has
 * a place if those that are as well have not taken as many as there are.
 */
static bool
large_is_allowed(DatabaseQueue *queue, DatabaseQueue *first, int nlarge, int ndanger,
				 int max_large)
{
	QueueEntry *large = first_of_size(queue, PV_SIZE_LARGE);
	TimestampTz now;

	if (large == NULL)
		return nlarge < max_large;
	if (large->item.rank.danger && ndanger < max_large)
		return true;
	if (nlarge != max_large - 1)
	{
		shared->kept_for = InvalidOid;
		return nlarge < max_large;
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

	if (queue == NULL || queue->heap[PV_SIZE_LARGE] == NULL)
		shared->kept_for = InvalidOid;
}


/* ----------------------------------------------------------------
 *		Holders and shares; the caller holds the lock
 * ----------------------------------------------------------------
 */

/* The setting for developers makes the place smaller; there are no more queues. */
static int
places(void)
{
	return Min(PV_QUEUE_SIZE, pv_guc_queue_limit);
}

/* NULL if that role has nothing there. */
static Holder *
find_holder(DatabaseQueue *queue, Oid role)
{
	HolderKey	key = {queue->database, role};

	if (!OidIsValid(role))
		return &queue->found;
	return hash_search(requesters, &key, HASH_FIND, NULL);
}

/* Is there a place for it among the holders? */
static bool
can_hold(DatabaseQueue *queue, Oid role)
{
	return find_holder(queue, role) != NULL ||
		hash_get_num_entries(requesters) < MAX_REQUESTERS;
}

static void
join_holder(DatabaseQueue *queue, QueueEntry *entry, Oid role)
{
	Holder	   *holder = find_holder(queue, role);

	if (holder == NULL)
	{
		HolderKey	key = {queue->database, role};

		holder = hash_search(requesters, &key, HASH_ENTER_NULL, NULL);
		Assert(holder != NULL); /* can_hold() */
		holder->nentries = 0;
		holder->least = NULL;
		dlist_push_tail(&queue->requesters, &holder->node);
	}
	holder->nentries++;
	queue->nrequests += OidIsValid(role);
	entry->holder = holder;
	entry->item.role = role;
}

static void
leave_holder(DatabaseQueue *queue, QueueEntry *entry)
{
	Holder	   *holder = entry->holder;

	holder->nentries--;
	queue->nrequests -= OidIsValid(holder->key.role);
	if (holder->nentries == 0 && holder != &queue->found)
	{
		dlist_delete(&holder->node);
		(void) hash_search(requesters, &holder->key, HASH_REMOVE, NULL);
	}
	entry->holder = NULL;
}

/* It is asked for by that role, or by nobody any more.  It is in no heap. */
static void
set_request(DatabaseQueue *queue, QueueEntry *entry, Oid role, double priority)
{
	Assert(!entry->placed && OidIsValid(role) == (priority > 0));
	if (entry->item.role != role)
	{
		leave_holder(queue, entry);
		join_holder(queue, entry, role);
	}
	entry->item.priority = priority;
}

static void
remove_entry(DatabaseQueue *queue, QueueEntry *entry)
{
	unplace(queue, entry);
	leave_holder(queue, entry);
	dlist_delete(&entry->node);
	queue->nentries--;
	(void) hash_search(entries, &entry->item.key, HASH_REMOVE, NULL);
	shared->nentries--;
}

static QueueEntry *
find_entry(Oid database, Oid relid)
{
	PvItemKey	key = {database, relid};

	return hash_search(entries, &key, HASH_FIND, NULL);
}

/* Of the roles that hold something of a queue that can give way, the one that holds most. */
static Holder *
largest_requester(DatabaseQueue *queue)
{
	Holder	   *largest = NULL;
	dlist_iter	iter;

	dlist_foreach(iter, &queue->requesters)
	{
		Holder	   *holder = dlist_container(Holder, node, iter.cur);

		if (holder->least != NULL && (largest == NULL || holder->nentries > largest->nentries))
			largest = holder;
	}
	return largest;
}

/*
 * The queue is full, and there is a table for this one that a role, or the scan, wants
 * to add.  Who is to give an entry?  NULL if nobody can.  *anyway is set if that is so
 * wherever in the order the two are, since it holds more than its share.
 */
static Holder *
find_giver(DatabaseQueue *queue, Oid role, bool *anyway)
{
	DatabaseQueue *from = queue;
	Holder	   *giver;
	int			ndatabases = 0;
	int			share;
	bool		too_many;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
		ndatabases += shared->queues[i].nentries > 0 || &shared->queues[i] == queue;
	share = pv_share_of_database(places(), ndatabases);
	if (queue->nentries < share)
	{
		for (int i = 0; i < PV_MAX_QUEUES; i++)
		{
			if (shared->queues[i].nentries > Max(share, from->nentries))
				from = &shared->queues[i];
		}
	}

	too_many = from->nrequests + (from == queue && OidIsValid(role)) > pv_share_of_requests(share);
	giver = too_many || from->found.least == NULL ? largest_requester(from) : &from->found;
	if (giver == NULL)
		giver = &from->found;
	*anyway = from != queue ||
		(giver->key.role != role && (too_many || giver == &from->found));
	return giver->least != NULL ? giver : NULL;
}

/* Has it had its turn in this pass, and is to wait for the next?  What waits for its
 * window has not. */
static bool
was_not_removable(const PvItem *item)
{
	return item->state == PV_ITEM_WAITING && item->reason != PV_WAIT_WINDOW;
}

/*
 * It is about to give way.  The scan is to find it again, unless it has had its turn, and what
 * it has waited is not lost: what was done since then comes after it.
 */
static void
note_loss(DatabaseQueue *queue, const QueueEntry *entry)
{
	const PvItem *item = &entry->item;

	queue->cycle.forgotten |= was_not_removable(item);
	if (item->state == PV_ITEM_QUEUED && !OidIsValid(item->role))
	{
		queue->incomplete = true;
		queue->cycle.since = Min(queue->cycle.since, item->needed_since);
	}
}

/*
 * Make room for an item of this rank, if it can be done.  What gives way and was found by
 * a scan is found again.
 */
static void
displace_for(DatabaseQueue *queue, const PvRank *rank, Oid role)
{
	bool		anyway;
	Holder	   *giver = find_giver(queue, role, &anyway);
	DatabaseQueue *from;
	QueueEntry *entry;

	if (giver == NULL)
		return;
	entry = pairingheap_container(QueueEntry, least_node, giver->least);
	if (entry->item.state == PV_ITEM_QUEUED &&
		(anyway ? entry->item.rank.danger && !rank->danger :
		 pv_compare_ranks(rank, &entry->item.rank) <= 0))
		return;
	from = find_queue(entry->item.key.database);
	note_loss(from, entry);
	remove_entry(from, entry);
}

/*
 * A new entry, in its queue's list and in no heap, that needs something since then; NULL if
 * there is no place.
 */
static QueueEntry *
new_entry(DatabaseQueue *queue, const PvItem *item, TimestampTz since)
{
	QueueEntry *entry;
	PvRank		rank;

	if (shared->nentries == places() && item->reason == PV_WAIT_NONE)
	{
		pv_rank_table(&item->score, item->priority, since, false, &rank);
		displace_for(queue, &rank, item->role);
	}
	if (shared->nentries >= places() || !can_hold(queue, item->role))
		return NULL;
	entry = hash_search(entries, &item->key, HASH_ENTER_NULL, NULL);
	if (entry == NULL)
		return NULL;
	entry->item = *item;
	entry->item.state = PV_ITEM_WAITING;
	entry->item.state_since = 0;
	entry->item.needed_since = since;
	entry->item.again = entry->item.only_analyze = entry->item.was_for_age = false;
	entry->item.not_removable = false;
	entry->item.horizon = InvalidTransactionId;
	entry->placed = false;
	entry->seen = queue->scan;
	join_holder(queue, entry, item->role);
	dlist_push_tail(&queue->entries, &entry->node);
	queue->nentries++;
	shared->nentries++;
	return entry;
}

/*
 * A database gives its queue up.  If not all that its scans have found had their turn, note how
 * far they have come; if there is no place for that, what was noted first is forgotten.
 */
static void
save_cycle(DatabaseQueue *queue)
{
	if (!queue->incomplete)
		return;
	queue->cycle.database = queue->database;
	shared->cycles[shared->next_cycle] = queue->cycle;
	shared->next_cycle = (shared->next_cycle + 1) % MAX_CYCLES;
	queue->incomplete = false;
}

/* It has a queue again. */
static void
restore_cycle(DatabaseQueue *queue)
{
	memset(&queue->cycle, 0, sizeof(Cycle));
	queue->incomplete = false;
	for (int i = 0; i < MAX_CYCLES; i++)
	{
		if (shared->cycles[i].database != queue->database)
			continue;
		queue->cycle = shared->cycles[i];
		shared->cycles[i].database = InvalidOid;
		queue->incomplete = true;
	}
}

/*
 * Forget up to BATCH entries of a queue that nobody is at.  False if there are none left.
 */
static bool
forget_some(DatabaseQueue *queue)
{
	for (int i = 0; i < BATCH && !dlist_is_empty(&queue->entries); i++)
	{
		QueueEntry *entry = dlist_head_element(QueueEntry, node, &queue->entries);

		note_loss(queue, entry);
		remove_entry(queue, entry);
	}
	return !dlist_is_empty(&queue->entries);
}

/*
 * A queue for a database that has none.  If all are taken, one that has nothing to do
 * can be given up: its entries only wait, and what they wait for is found out again by
 * the next pass.  For a database that may take one, so can that of another database where nobody is
 * at work, of those the one whose first table is the last in the order, but is not in
 * danger.  NULL if there is none.
 */
static DatabaseQueue *
find_free_queue(bool takes)
{
	int			n = Min(PV_MAX_QUEUES, places());
	DatabaseQueue *idle = NULL;
	DatabaseQueue *last = NULL;

	for (int i = 0; i < n; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];
		QueueEntry *first = first_of_queue(queue, true);

		if (!OidIsValid(queue->database))
			return queue;
		if (queue->nworkers > 0 || queue->scan_requested)
			continue;
		if (first == NULL && idle == NULL)
			idle = queue;
		else if (first != NULL && !first->item.rank.danger &&
				 (last == NULL || goes_before(first_of_queue(last, true), first)))
			last = queue;
	}
	return idle != NULL || !takes ? idle : last;
}

/*
 * The queue of a database that may not have one yet; NULL if there is none, or, with *again
 * set, not yet.
 */
static DatabaseQueue *
make_queue(Oid database, bool takes, bool *again)
{
	DatabaseQueue *queue = find_queue(database);

	*again = false;
	if (queue != NULL)
		return queue;
	queue = find_free_queue(takes);
	if (queue == NULL)
		return NULL;
	*again = forget_some(queue);
	if (*again)
		return NULL;
	if (OidIsValid(queue->database))
		save_cycle(queue);
	queue->database = queue->found.key.database = database;
	queue->scan_requested = queue->scanning = false;
	queue->vacuumed = queue->reported_full = queue->nothing = false;
	restore_cycle(queue);
	queue->scanned_at = queue->scan_used = 0;
	return queue;
}

/* The same; it acquires the lock, and lets others have it while there is much to forget. */
static DatabaseQueue *
lock_and_make_queue(Oid database, bool takes)
{
	for (;;)
	{
		DatabaseQueue *queue;
		bool		again;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		queue = make_queue(database, takes, &again);
		if (!again)
			return queue;
		LWLockRelease(lock);
	}
}

static TimestampTz
rests_until(const DatabaseQueue *queue)
{
	return queue->scanned_at +
		(queue->nothing ? pv_rest_where_nothing(autovacuum_naptime * USECS_PER_SEC) :
		 pv_rest_after_scan(queue->scan_used));
}

/*
 * Somebody has left.  Give a queue up that has nothing in it and nobody at work, and
 * that need not remember when to look again.  With nobody there the scan that was
 * asked for does not come: it has to be asked for again.
 */
static void
release_queue(DatabaseQueue *queue)
{
	if (queue->nworkers > 0)
		return;
	queue->scan_requested = false;
	if (dlist_is_empty(&queue->entries) && rests_until(queue) <= GetCurrentTimestamp())
	{
		save_cycle(queue);
		queue->database = InvalidOid;
	}
}

static void
remove_worker(SchedWorker *worker)
{
	DatabaseQueue *queue = &shared->queues[worker->queue];

	worker->hired = false;
	queue->nworkers--;
	if (worker->pid != 0)
		pg_atomic_fetch_sub_u32(&shared->nworkers, 1);
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
 * Be the one who is woken.  Workers that the launcher before us has hired and that
 * have not come may have ended, which nobody would tell us of.  Should one come
 * later, it finds its place given away.
 */
void
pv_queue_launcher_begin(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	shared->launcher_latch = &MyProc->procLatch;
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		if (shared->workers[i].hired && shared->workers[i].pid == 0)
			remove_worker(&shared->workers[i]);
	}
	LWLockRelease(lock);
	before_shmem_exit(launcher_exit, 0);
}

/*
 * Was it hired long ago, and has neither come nor gone?  The launcher has ended it, since it
 * was late; so it cannot be ended, and does not count.  Until then it counts, or there
 * would be more processes than are allowed while those that are ended go.
 */
static bool
is_stuck(const SchedWorker *worker, TimestampTz now)
{
	return worker->pid == 0 &&
		TimestampDifferenceExceeds(worker->hired_at, now,
								   PV_LATE_AFTER_MS + PV_GONE_WITHIN_MS);
}

/* Will it have time soon, or leave soon if it is called back? */
static bool
is_free_soon(const SchedWorker *worker, TimestampTz now)
{
	return !worker->on_large &&
		!(worker->busy && TimestampDifferenceExceeds(worker->busy_since, now, PV_LATE_AFTER_MS));
}

/* Is it at a small table, and not to give it up already? */
static bool
is_at_small(const SchedWorker *worker)
{
	return worker->busy && !worker->on_large && worker->canceled_at == 0;
}

/* Since when, for the time that it may take?  One in danger of wraparound has longer. */
static TimestampTz
at_small_since(const SchedWorker *worker)
{
	return worker->on_danger ?
		TimestampTzPlusMilliseconds(worker->busy_since, PV_MORE_IN_DANGER_MS) :
		worker->busy_since;
}

/*
 * The state of all queues, where max_large workers at most may be on large tables.  A
 * scan that was requested is not on its way if all who might do it are at what takes
 * long, or about to leave.
 */
void
pv_queue_view(PvQueueView *view, int max_large)
{
	TimestampTz now = GetCurrentTimestamp();
	PvQueueSummary of_queue[PV_MAX_QUEUES] = {0};
	DatabaseQueue *first_large;
	int			ndanger = 0;

	view->n = view->nworkers = view->nlarge = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	forget_kept_place();
	first_large = first_with_large();
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];
		PvQueueSummary *summary = &of_queue[worker->queue];

		if (!worker->hired)
			continue;
		worker->hired_at = Min(worker->hired_at, now);	/* the clock was put back */
		summary->nfree += is_free_soon(worker, now) && !worker->leave;
		summary->nexpected += worker->pid == 0;
		if (is_stuck(worker, now))
			continue;
		view->nlarge += worker->on_large;
		ndanger += worker->on_large && worker->on_danger;
		view->nworkers++;
		summary->nworkers++;
		if (is_at_small(worker) &&
			(summary->small_since == 0 || at_small_since(worker) < summary->small_since))
			summary->small_since = at_small_since(worker);
		summary->nleaving += worker->leave;
		summary->nleaving_soon += worker->leave && is_free_soon(worker, now);
		summary->nmovable += !worker->leave && is_free_soon(worker, now) && worker->pid != 0;
	}
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];
		PvQueueSummary *summary = &of_queue[i];
		QueueEntry *first;
		bool		large_allowed;

		if (!OidIsValid(queue->database))
			continue;
		large_allowed = large_is_allowed(queue, first_large, view->nlarge, ndanger, max_large);
		first = first_of_queue(queue, large_allowed);
		summary->database = queue->database;
		summary->top_score = first ? pv_urgency(&first->item.rank, now) : 0;
		summary->top_danger = first != NULL && first->item.rank.danger;
		summary->nqueued = queue->nqueued[PV_SIZE_SMALL];
		if (large_allowed)
			summary->nqueued += queue->nqueued[PV_SIZE_LARGE];
		summary->scan_pending = queue->scanning ||
			(queue->scan_requested && summary->nfree > 0);
		if (summary->scan_pending)
			summary->nmovable = 0;	/* it is to end the scan first */
		queue->scanned_at = Min(queue->scanned_at, now);
		summary->rests_until = rests_until(queue);
		view->summaries[view->n++] = *summary;
	}
	view->full = find_free_queue(false) == NULL;
	view->none_to_take = find_free_queue(true) == NULL;
	LWLockRelease(lock);
}

/*
 * Have the next worker of the database look for work.  False if there is none, or
 * only such as are at what takes long, or about to leave.
 */
bool
pv_queue_request_scan(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		requested = false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS && !requested; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];
		DatabaseQueue *queue = &shared->queues[worker->queue];

		if (worker->hired && is_free_soon(worker, now) && !worker->leave &&
			queue->database == database)
			queue->scan_requested = requested = true;
	}
	LWLockRelease(lock);
	return requested;
}

/*
 * A place for a worker that is about to be started; -1 if there is none.  It, or
 * another one, is to look for work first if it is hired for that.  The database may
 * take the queue of another one, as pv_takes_queue() has it.
 */
int
pv_queue_hire(Oid database, bool to_scan, bool takes_queue, uint32 *token)
{
	DatabaseQueue *queue = lock_and_make_queue(database, takes_queue);
	int			found = -1;

	for (int i = 0; queue != NULL && found < 0 && i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (worker->hired)
			continue;
		memset(worker, 0, sizeof(*worker));
		worker->hired = true;
		worker->token = *token = ++shared->next_token;
		worker->hired_at = GetCurrentTimestamp();
		worker->queue = queue - shared->queues;
		queue->nworkers++;
		queue->scan_requested |= to_scan;
		found = i;
	}
	LWLockRelease(lock);
	return found;
}

/* It could not be started, or has ended before it came. */
void
pv_queue_dismiss(int worker, uint32 token)
{
	SchedWorker	   *it = &shared->workers[worker];

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (it->hired && it->token == token && it->pid == 0)
		remove_worker(it);
	LWLockRelease(lock);
}

/* Has it come?  Also true if it has been and gone. */
bool
pv_queue_worker_started(int worker, uint32 token)
{
	SchedWorker	   *it = &shared->workers[worker];
	bool		started;

	LWLockAcquire(lock, LW_SHARED);
	started = !it->hired || it->token != token || it->pid != 0;
	LWLockRelease(lock);
	return started;
}

/*
 * Is there anything that another worker could begin with before long, where max_large workers
 * at most may be on large tables?  A large table that waits for one of them to end is
 * nothing: who ends wakes the launcher.
 */
bool
pv_queue_is_busy(int max_large)
{
	bool		busy = false;
	int			ndanger;
	int			nlarge;

	LWLockAcquire(lock, LW_SHARED);
	nlarge = count_large(&ndanger);
	for (int i = 0; i < PV_MAX_QUEUES && !busy; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];
		QueueEntry *large = first_of_size(queue, PV_SIZE_LARGE);

		busy = OidIsValid(queue->database) &&
			(queue->scan_requested || queue->heap[PV_SIZE_SMALL] != NULL ||
			 (large != NULL && (nlarge < max_large ||
								(large->item.rank.danger && ndanger < max_large))));
	}
	LWLockRelease(lock);
	return busy;
}

/*
 * Have one worker of that database leave, for the sake of another database: one
 * that leaves soon, if there is any.
 */
void
pv_queue_call_back(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	SchedWorker	   *found = NULL;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (!worker->hired || worker->leave || is_stuck(worker, now) ||
			shared->queues[worker->queue].database != database)
			continue;
		if (found == NULL || (!is_free_soon(found, now) && is_free_soon(worker, now)))
			found = worker;
	}
	if (found != NULL)
		found->leave = true;
	LWLockRelease(lock);
}

/*
 * Forget up to BATCH entries of a database that nobody is at; those in work go to the end of the
 * list.  Returns how many it has looked at.
 */
static int
drop_some(DatabaseQueue *queue)
{
	int			n = Min(BATCH, queue->nentries);

	for (int i = 0; i < n; i++)
	{
		QueueEntry *entry = dlist_head_element(QueueEntry, node, &queue->entries);

		if (entry->item.state != PV_ITEM_RUNNING)
			remove_entry(queue, entry);
		else
		{
			dlist_delete(&entry->node);
			dlist_push_tail(&queue->entries, &entry->node);
		}
	}
	return n;
}

/* The database is gone: so is what was queued for it. */
void
pv_queue_drop_database(Oid database)
{
	DatabaseQueue *queue;
	int			left = PV_QUEUE_SIZE;	/* to be looked at */
	int			n = 0;

	do
	{
		LWLockAcquire(lock, LW_EXCLUSIVE);
		queue = find_queue(database);
		if (queue != NULL)
		{
			left = Min(left, queue->nentries);
			n = drop_some(queue);
			left -= n;
			queue->scan_requested = false;
			queue->scanned_at = queue->scan_used = 0;
			queue->nothing = false;
			queue->incomplete = false;
			release_queue(queue);
		}
		LWLockRelease(lock);
	} while (queue != NULL && n > 0 && left > 0);
}


/* ----------------------------------------------------------------
 *		A worker
 * ----------------------------------------------------------------
 */

static DatabaseQueue *
my_queue(void)
{
	return &shared->queues[me->queue];
}

/*
 * This worker has left its table, or has ended its scan: a cancel that is still to come was
 * for that, and must not hit another table.  The lock has been released.
 *
 * Who cancels a table sends SIGINT while he holds the lock and sees there that the worker is
 * at this table.  The worker has left it with the lock held.  So for each such signal kill()
 * had returned when the worker got the lock, and no other comes before the worker takes
 * another table, under the lock again.  kill() leaves the signal pending, which the kernel may
 * deliver a moment later; but a pending signal that is not blocked is delivered before
 * sigprocmask() returns (POSIX), so its handler has set the flag that is cleared here.
 * Nothing heeds the flag in between.
 */
static void
forget_cancel(void)
{
	sigprocmask(SIG_SETMASK, &UnBlockSig, NULL);
	QueryCancelPending = false;
}

/*
 * The table at hand is left.  It is forgotten, or waits: at least until the next
 * pass.  Asked for again meanwhile, it is queued again.  Where it waits, and is needed again,
 * it is as one that has come to need something now.
 */
static void
leave_table(PvWaitReason reason, TransactionId horizon)
{
	DatabaseQueue *queue = my_queue();
	QueueEntry *entry = find_entry(me->at.database, me->at.relid);
	PvItem	   *item = &entry->item;

	item->needed_since = GetCurrentTimestamp();
	item->not_removable = reason != PV_WAIT_NONE && reason != PV_WAIT_WINDOW;
	if (item->again)
		enqueue_again(queue, entry);
	else if (reason == PV_WAIT_NONE)
		remove_entry(queue, entry);
	else
	{
		item->horizon = horizon;
		if (!item->only_analyze)
		{
			item->was_for_age = item->score.wraparound;
			item->left_dead = item->score.dead;
		}
		item->only_analyze = false;
		if (reason != PV_WAIT_LOCK)
			set_request(queue, entry, InvalidOid, 0);
		place(queue, entry, PV_ITEM_WAITING, reason);
	}

	/* the launcher does not look by itself who waits for a place for large tables */
	if (me->on_large)
		wake_launcher();
	me->busy = me->on_large = me->on_danger = false;
	me->canceled_at = 0;
}

/*
 * The worker leaves, by itself or by an error that ends it.  A table that it was
 * at waits for the next pass; so does a scan.
 */
static void
worker_exit(int code, Datum arg)
{
	DatabaseQueue *queue = my_queue();

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (me->busy)
		leave_table(PV_WAIT_ERROR, InvalidTransactionId);
	if (me->scanning)
		queue->scanning = false;
	remove_worker(me);
	wake_launcher();
	LWLockRelease(lock);
	me = NULL;
}

/* Come to one's place.  False if it was given away meanwhile. */
bool
pv_queue_attach(int worker, uint32 token, Oid *database)
{
	SchedWorker	   *it = &shared->workers[worker];
	bool		good;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	good = it->hired && it->token == token && it->pid == 0;
	if (good)
	{
		it->pid = MyProcPid;
		pg_atomic_fetch_add_u32(&shared->nworkers, 1);
		*database = shared->queues[it->queue].database;
		me = it;
	}
	LWLockRelease(lock);
	if (good)
		before_shmem_exit(worker_exit, 0);
	return good;
}

/*
 * Is it on this worker to look for work now?  If so it has to end what it begins
 * here.  That is so if the launcher wants it, or when the queue is empty and the
 * last scan did not find place for all.  Where it did not, this one goes on with those
 * that had none.
 */
bool
pv_queue_begin_scan(void)
{
	DatabaseQueue *queue = my_queue();
	bool		wanted;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	wanted = queue->scan_requested ||
		(queue->incomplete && queue->heap[PV_SIZE_SMALL] == NULL &&
		 queue->heap[PV_SIZE_LARGE] == NULL);
	if (queue->scanning)
		wanted = false;
	if (wanted)
	{
		queue->goes_on = queue->incomplete;
		if (!queue->goes_on)
		{
			queue->cycle.forgotten = false;
			queue->cycle.since = GetCurrentTimestamp();
			queue->cycle.cursor_danger = true;
			queue->cycle.cursor_score = get_float8_infinity();
			queue->cycle.cursor_relid = InvalidOid;
		}
		queue->new_pass = queue->scan_requested;
		queue->scan_requested = false;
		queue->scanning = me->scanning = true;
		me->canceled_at = 0;
		queue->incomplete = me->queued_some = me->nothing = false;
		queue->scan++;
	}
	LWLockRelease(lock);
	return wanted;
}

/* The scan that goes on has seen it. */
static void
see(DatabaseQueue *queue, QueueEntry *entry)
{
	entry->seen = queue->scan;
	dlist_delete(&entry->node);
	dlist_push_tail(&queue->entries, &entry->node);
}

/* Is an item before, or at, the last that found place? */
static bool
is_before_cursor(const Cycle *cycle, const PvItem *item)
{
	if (item->score.danger != cycle->cursor_danger)
		return item->score.danger;
	if (item->score.total != cycle->cursor_score)
		return item->score.total > cycle->cursor_score;
	return item->key.relid <= cycle->cursor_relid;
}

/*
 * The scan goes on: is the table to wait until it begins anew?  If it was done since it began, or
 * has been in vain; also if that may have been forgotten, because it comes before the last that
 * found place.  Only then, as it is also true of those whose score has grown since: of all that
 * are left, where ages do.  One in danger waits only where it is known to have been begun in
 * vain, and what was asked for does not wait.
 */
static bool
had_its_turn(const DatabaseQueue *queue, const PvItem *item, const QueueEntry *entry)
{
	if (!queue->goes_on)
		return false;
	if (entry != NULL)
		return was_not_removable(&entry->item) && entry->item.priority == 0 &&
			(entry->item.not_removable || !item->score.danger);
	if (item->score.danger)
		return false;
	return (item->done_at != 0 && item->done_at >= queue->cycle.since) ||
		(queue->cycle.forgotten && is_before_cursor(&queue->cycle, item));
}

/*
 * Would a vacuum of it be in vain?  With the horizon where it was, nothing that the last one
 * has left can be removed now, nor anything be frozen; unless much has died since, which may be
 * of transactions that have aborted.
 * But one that was not to prevent wraparound may not have looked everywhere, and multixacts
 * go by another horizon.
 */
static bool
is_not_removable(const PvItem *known, const PvItem *item)
{
	return (known->reason == PV_WAIT_HORIZON || known->only_analyze) &&
		TransactionIdIsValid(known->horizon) && known->horizon == item->horizon &&
		!pv_has_died_anew(item->score.dead, known->left_dead) &&
		(!item->score.wraparound || (known->was_for_age && item->score.mxid <= 1));
}

/*
 * What is known already is offered again, and gets the new score.  What would be vacuumed in
 * vain goes on waiting, or is only analyzed.
 */
static void
update_entry(DatabaseQueue *queue, QueueEntry *entry, const PvItem *item)
{
	PvItem	   *known = &entry->item;
	PvWaitReason reason = item->reason;
	bool		not_removable = reason == PV_WAIT_NONE && is_not_removable(known, item);

	unplace(queue, entry);
	known->score = item->score;
	known->only_analyze = not_removable && item->score.analyze && known->priority == 0;
	if (known->only_analyze)
		pv_score_only_analyze(&known->score, item->pages);
	else if (not_removable)
		reason = PV_WAIT_HORIZON;
	if (not_removable)
	{
		known->left_dead = Min(known->left_dead, item->score.dead);
		pg_atomic_fetch_add_u64(&shared->counters.skipped_horizon, 1);
	}
	known->score.total = Max(known->score.total, known->priority);
	known->pages = item->pages;
	known->toast_parent = item->toast_parent;
	if (reason == PV_WAIT_NONE || known->priority > 0)
	{
		/* it does not wait for its turn while it waits for its window */
		if (known->reason == PV_WAIT_WINDOW)
			known->needed_since = GetCurrentTimestamp();
		place(queue, entry, PV_ITEM_QUEUED, PV_WAIT_NONE);
		me->queued_some = true;
	}
	else
	{
		place(queue, entry, PV_ITEM_WAITING, reason);
		known->wait_until = item->wait_until;
	}
}

/*
 * One table that the scan has found, with its score, to be queued, or to wait
 * for item->reason until item->wait_until.  *full is set if there was no place, and then none
 * is looked for any more; for what only waits, some is left.
 */
void
pv_queue_offer(const PvItem *item, bool *full)
{
	DatabaseQueue *queue = my_queue();
	QueueEntry *entry;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = find_entry(item->key.database, item->key.relid);
	if (entry != NULL)
		see(queue, entry);
	if (had_its_turn(queue, item, entry))
	{
		LWLockRelease(lock);
		return;
	}
	if (entry == NULL && !*full &&
		(item->reason == PV_WAIT_NONE || shared->nentries < places() / 2))
	{
		TimestampTz since = GetCurrentTimestamp();

		/* it may have found no place for so long, or lost it */
		if (queue->goes_on && queue->cycle.since != 0)
			since = Min(since, queue->cycle.since);
		entry = new_entry(queue, item, since);
		*full |= (entry == NULL && item->reason == PV_WAIT_NONE);
	}
	if (!*full)
	{
		queue->cycle.cursor_danger = item->score.danger;
		queue->cycle.cursor_score = item->score.total;
		queue->cycle.cursor_relid = item->key.relid;
	}
	if (entry != NULL && entry->item.state != PV_ITEM_RUNNING)
		update_entry(queue, entry, item);
	LWLockRelease(lock);
}

/* The scan finds that nothing in this database has opted in, so there is nothing to look for. */
void
pv_queue_note_nothing(void)
{
	me->nothing = true;			/* only this process looks at it */
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
 * What is known and was not offered needs nothing any more, or is gone, unless somebody has
 * asked for it.  Of such entries, which come first in the list, up to BATCH are looked at.
 * False if there are none left.
 */
static bool
forget_unseen(DatabaseQueue *queue)
{
	for (int i = 0; i < BATCH; i++)
	{
		QueueEntry *entry;

		if (dlist_is_empty(&queue->entries))
			return false;
		entry = dlist_head_element(QueueEntry, node, &queue->entries);
		if (entry->seen == queue->scan)
			return false;
		see(queue, entry);
		if (entry->item.state == PV_ITEM_RUNNING)
			continue;
		if (entry->item.priority == 0)
			remove_entry(queue, entry);
		else if (entry->item.state == PV_ITEM_WAITING)
		{
			unplace(queue, entry);
			enqueue_again(queue, entry);
		}
	}
	return true;
}

/*
 * All has been offered, and not all found place unless it is complete.  If nothing at all
 * found place, because other databases have
 * taken it or what waits, it is for the next pass to try again, not at once.
 * The scan has used so many microseconds of the processor; if nobody had asked for it, it
 * is no new pass, and puts none off.
 * Returns whether the log is to be told that the queue is full: once in a row,
 * whichever workers find it so.
 */
bool
pv_queue_end_scan(bool complete, int64 used)
{
	DatabaseQueue *queue = my_queue();
	bool		tell;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	while (forget_unseen(queue))
	{
		LWLockRelease(lock);
		LWLockAcquire(lock, LW_EXCLUSIVE);
	}
	queue->scanning = me->scanning = false;
	if (queue->new_pass)
	{
		queue->vacuumed |= !me->nothing;
		queue->scanned_at = GetCurrentTimestamp();
		queue->scan_used = used;
		queue->nothing = me->nothing;
	}
	queue->incomplete |= !complete && me->queued_some;
	tell = !complete && !queue->reported_full;
	queue->reported_full = !complete;
	pg_atomic_fetch_add_u64(&shared->counters.database_scans, 1);
	if (!complete)
		pg_atomic_fetch_add_u64(&shared->counters.queue_full, 1);
	wake_launcher();
	LWLockRelease(lock);
	forget_cancel();
	return tell;
}

/*
 * Take the first table in the order; a large one only while less than
 * max_large workers, of all databases, are on large ones, and the last place for
 * such is not for another database, or if it is in danger.  False if there is nothing.
 */
bool
pv_queue_pop(int max_large, PvItem *item)
{
	DatabaseQueue *queue = my_queue();
	QueueEntry *best;
	int			nlarge;
	int			ndanger;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	nlarge = count_large(&ndanger);
	me->large_allowed = large_is_allowed(queue, first_with_large(), nlarge, ndanger, max_large);
	best = first_of_queue(queue, me->large_allowed);
	if (best != NULL)
	{
		unplace(queue, best);
		place(queue, best, PV_ITEM_RUNNING, PV_WAIT_NONE);
		best->item.worker_pid = MyProcPid;
		me->busy = me->has_begun = true;
		me->busy_since = best->item.state_since;
		me->on_large = size_class_of(&best->item) == PV_SIZE_LARGE;
		me->on_danger = best->item.rank.danger;
		if (me->on_large)
			shared->kept_for = InvalidOid;
		me->at = best->item.key;
		me->looked = me->cancel_asked = false;
		me->canceled_at = 0;
		*item = best->item;
	}
	LWLockRelease(lock);
	return best != NULL;
}

/*
 * The table at hand has another score than when it was queued, or has become
 * large.  Is it not the first any more?  Then it is to be put back, once it is not locked
 * any more, or who takes it next would find it locked.  False if it still is the first
 * among those that this worker may take: else it would get it again, and again.
 * If it was to be cancelled, and it turns out that it may be, it is at the next check for
 * interrupts.
 */
bool
pv_queue_gives_way(const PvItem *item)
{
	DatabaseQueue *queue = my_queue();
	QueueEntry *entry;
	QueueEntry *first;
	PvRank		rank;
	bool		cancel;
	bool		gives_way;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = find_entry(item->key.database, item->key.relid);
	first = first_of_queue(queue, me->large_allowed);
	cancel = me->cancel_asked && !item->score.wraparound;
	entry->item.score = item->score;
	entry->item.pages = item->pages;
	entry->item.only_analyze = item->only_analyze;

	/* by the worker's copy: what was asked for since does not make this vacuum more urgent */
	pv_rank_table(&item->score, item->priority, entry->item.needed_since, entry->item.not_removable,
				  &rank);
	me->on_danger = rank.danger;
	gives_way = !cancel &&
		((first != NULL && pv_compare_ranks(&first->item.rank, &rank) > 0) ||
		 (item->pages >= PV_LARGE_PAGES && !me->on_large));
	me->looked = true;
	LWLockRelease(lock);
	if (cancel)
		InterruptPending = QueryCancelPending = true;
	return gives_way;
}

/* Put the table at hand back into the queue. */
void
pv_queue_put_back(const PvItem *item)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	enqueue_again(my_queue(), find_entry(item->key.database, item->key.relid));
	me->busy = me->on_large = me->on_danger = false;
	me->canceled_at = 0;
	LWLockRelease(lock);
	forget_cancel();
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
	forget_cancel();
}

/*
 * Is this worker wanted elsewhere, or has it been here for long?  Then another one, with the
 * database's settings of now, goes on; it, or somebody who is here, sees to a scan first.
 * It begins with one table at least, so that whoever comes brings the queue on.
 */
bool
pv_queue_should_leave(void)
{
	bool		leave;

	LWLockAcquire(lock, LW_SHARED);
	leave = (me->leave &&
			 (me->has_begun || first_of_queue(my_queue(), true) == NULL)) ||
		(!my_queue()->scan_requested &&
		 TimestampDifferenceExceeds(me->hired_at, GetCurrentTimestamp(), LONGEST_STAY_MS));
	LWLockRelease(lock);
	return leave;
}

/*
 * Has the queue been worked off, and nobody is at work on the rest of it, or does
 * that not matter?  Then one worker is told so, also if there was nothing to vacuum: the
 * oldest table may have been dropped.
 */
bool
pv_queue_pass_is_over(bool even_if_busy)
{
	DatabaseQueue *queue = my_queue();
	bool		over;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	over = queue->vacuumed;
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (!even_if_busy && worker->hired && worker->busy && worker->queue == me->queue)
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

/*
 * Copies the items of one database, or of all if the OID is invalid, as far as whole
 * queues fit, and returns how many there are.  Those of one database are as they are at one
 * moment: the lock is taken for each queue by itself, so that nobody waits for all of them.
 */
static int
copy_items(Oid database, PvItem *items, int size, int *nlarge)
{
	int			n = 0;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		DatabaseQueue *queue = &shared->queues[i];
		dlist_iter	iter;

		LWLockAcquire(lock, LW_SHARED);
		if (!OidIsValid(database) || queue->database == database)
		{
			if (n + queue->nentries <= size)
			{
				int			at = n;

				dlist_foreach(iter, &queue->entries)
					items[at++] = dlist_container(QueueEntry, node, iter.cur)->item;
			}
			n += queue->nentries;
		}
		LWLockRelease(lock);
	}

	*nlarge = 0;
	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
		*nlarge += shared->workers[i].hired && shared->workers[i].on_large;
	LWLockRelease(lock);
	return n;
}

/*
 * The items of one database, or of all if the OID is invalid, as they are now: a list
 * of PvItem *.  Also the number of workers at large tables, in all databases.
 *
 * The first look only counts, so that memory is allocated without the lock, and for no
 * more than there is.  A queue that has grown by more than the margin meanwhile is
 * looked at again.
 */
List *
pv_queue_copy(Oid database, int *nlarge)
{
	PvItem	   *items = NULL;
	List	   *list = NIL;
	int			size = 0;
	int			n;

	while ((n = copy_items(database, items, size, nlarge)) > size)
	{
		if (items != NULL)
			pfree(items);
		size = n + n / 8 + 8;
		items = palloc(size * sizeof(PvItem));
	}

	for (int i = 0; i < n; i++)
		list = lappend(list, &items[i]);
	return list;
}

/* The worker that is at the entry's table, if one is. */
static SchedWorker *
worker_of(const QueueEntry *entry)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (worker->hired && worker->busy && worker->pid == entry->item.worker_pid)
			return worker;
	}
	return NULL;
}

/*
 * Is it still to come what somebody has asked for?  A request that is being done is none
 * any more, once the worker has seen that it does not have to give way.
 */
static bool
is_requested(const QueueEntry *entry)
{
	const SchedWorker *worker;

	if (entry->item.priority == 0)
		return false;
	if (entry->item.state != PV_ITEM_RUNNING || entry->item.again)
		return true;
	worker = worker_of(entry);
	return worker != NULL && !worker->looked;
}

/* What is to be told of a request for a table that is in the queue. */
static PvEnqueueResult
describe_request(const QueueEntry *entry, double priority)
{
	if (entry->item.state == PV_ITEM_RUNNING)
		return PV_ENQUEUED_AGAIN;
	if (entry->item.state == PV_ITEM_WAITING)
		return PV_ENQUEUED;
	return priority > entry->item.score.total ? PV_ENQUEUED_HIGHER : PV_ENQUEUED_BEFORE;
}

/*
 * What pv_queue_enqueue() does under the lock, in the queue of this database.  A higher
 * priority that somebody has asked for remains, and with it who has asked.
 */
static PvEnqueueResult
request(DatabaseQueue *queue, const PvItem *item, bool limited)
{
	QueueEntry *entry = find_entry(item->key.database, item->key.relid);
	Holder	   *holder = find_holder(queue, item->role);
	bool		keep = entry != NULL && is_requested(entry) &&
		entry->item.priority >= item->priority;
	PvEnqueueResult result = PV_ENQUEUED;

	if (!keep && limited && holder != NULL && (entry == NULL || entry->holder != holder) &&
		holder->nentries >= pv_share_of_role(places()))
		return PV_ENQUEUE_SHARE;
	if (!keep && !can_hold(queue, item->role))
		return PV_ENQUEUE_FULL;
	if (entry != NULL)
		result = describe_request(entry, item->priority);
	else
		entry = new_entry(queue, item, GetCurrentTimestamp());
	if (entry == NULL)
		return PV_ENQUEUE_FULL;

	unplace(queue, entry);
	if (!keep)
		set_request(queue, entry, item->role, item->priority);
	if (entry->item.state == PV_ITEM_RUNNING)
		entry->item.again = true;
	else
		enqueue_again(queue, entry);
	wake_launcher();
	return result;
}

/*
 * A role asks for a table of this database: put it in its queue, or to another place there.
 * If it is limited it can have no more than its share.
 */
PvEnqueueResult
pv_queue_enqueue(Oid relid, Oid toast_parent, BlockNumber pages, double priority, Oid role,
				 bool limited)
{
	PvItem		item = {.key = {MyDatabaseId, relid}, .toast_parent = toast_parent,
	.pages = pages, .priority = priority, .role = role};
	DatabaseQueue *queue = lock_and_make_queue(MyDatabaseId, false);
	PvEnqueueResult result = PV_ENQUEUE_FULL;

	if (queue != NULL)
	{
		result = request(queue, &item, limited);
		if (result == PV_ENQUEUE_FULL || result == PV_ENQUEUE_SHARE)
			release_queue(queue);
	}
	LWLockRelease(lock);
	return result;
}

/* How many tables of a database a role can ask for at a time, if it is limited. */
int
pv_queue_share_of_role(void)
{
	return pv_share_of_role(places());
}

/*
 * Cancel what a worker is at.  A function of the table's owner may catch that and go on,
 * so the launcher is told, and ends the process if it is still there after a while.  The
 * caller holds the lock exclusively.
 */
static bool
cancel_worker(SchedWorker *worker)
{
	if (kill(worker->pid, SIGINT) != 0)
		return false;
	if (worker->canceled_at == 0)
		worker->canceled_at = GetCurrentTimestamp();
	wake_launcher();
	return true;
}

/*
 * Launcher: end the workers that still are at what was cancelled some time ago.  Returns
 * whether any is left that is to be ended later.
 */
bool
pv_queue_end_unresponsive(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		any = false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (!worker->hired || worker->pid == 0 || worker->canceled_at == 0 ||
			!(worker->busy || worker->scanning))
			continue;
		any = true;
		if (TimestampDifferenceExceeds(worker->canceled_at, now, PV_LATE_AFTER_MS))
			(void) kill(worker->pid, SIGTERM);
	}
	LWLockRelease(lock);
	return any;
}

/*
 * Launcher: cancel the small table of that database that a worker has been at for longest, if
 * that is since this time or before.
 */
void
pv_queue_cancel_longest(Oid database, TimestampTz since)
{
	SchedWorker	   *longest = NULL;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (worker->hired && is_at_small(worker) &&
			shared->queues[worker->queue].database == database &&
			at_small_since(worker) <= since &&
			(longest == NULL || at_small_since(worker) < at_small_since(longest)))
			longest = worker;
	}
	if (longest != NULL)
		(void) cancel_worker(longest);
	LWLockRelease(lock);
}

/*
 * Cancel what a worker does with its table.  False if its process has just died, which
 * restarts the server.  The caller holds the lock exclusively; see forget_cancel().
 *
 * What is queued may have become older since, which the worker sees when it looks again.
 * Before that, who may not cancel what prevents wraparound has the worker cancel itself if
 * it finds that it does not (pv_queue_gives_way).
 */
static bool
cancel_running(QueueEntry *entry, bool wraparound_too)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (!worker->hired || worker->pid != entry->item.worker_pid)
			continue;
		if (!worker->looked && !wraparound_too)
			worker->cancel_asked = true;
		else if (!cancel_worker(worker))
			return false;
	}
	entry->item.again = false;
	return true;
}

/*
 * Have a table of this database given up: take it out of its queue, until the next pass
 * finds it again, or cancel what a worker does with it.  What prevents wraparound is left
 * alone unless the caller may give that up, too.
 */
PvWithdrawn
pv_queue_withdraw(Oid relid, bool wraparound_too)
{
	QueueEntry *entry;
	PvWithdrawn result = PV_WITHDRAWN_NOTHING;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = find_entry(MyDatabaseId, relid);
	if (entry != NULL && entry->item.state != PV_ITEM_WAITING)
	{
		if (entry->item.score.wraparound && !wraparound_too)
			result = PV_WITHDRAWN_REFUSED;
		else if (entry->item.state == PV_ITEM_RUNNING)
			result = cancel_running(entry, wraparound_too) ?
				PV_WITHDRAWN_DONE : PV_WITHDRAWN_NOTHING;
		else
		{
			DatabaseQueue *queue = find_queue(MyDatabaseId);

			unplace(queue, entry);
			set_request(queue, entry, InvalidOid, 0);
			entry->item.only_analyze = false;
			place(queue, entry, PV_ITEM_WAITING, PV_WAIT_CANCELED);
			result = PV_WITHDRAWN_DONE;
		}
	}
	LWLockRelease(lock);
	return result;
}

/*
 * Cancel what that worker does, with a table or looking for tables.  False if it does
 * neither, or is no worker.
 */
bool
pv_queue_cancel_worker(int pid)
{
	bool		result = false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (worker->hired && worker->pid == pid && (worker->busy || worker->scanning))
			result = cancel_worker(worker);
	}
	LWLockRelease(lock);
	return result;
}
