/*-------------------------------------------------------------------------
 *
 * state.h
 *	  The scheduler's queues as they are in shared memory.
 *
 * Only the files that implement the queue include this, see sched/queue.c.
 * All others call the functions in queue.h, which acquire the lock.
 *
 * Everything here is protected by the queue's lock, except where a comment
 * says otherwise.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_STATE_H
#define PV_STATE_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "port/atomics.h"
#include "utils/hsearch.h"

#include "base/settings.h"
#include "sched/counters.h"
#include "sched/item.h"
#include "sched/plan.h"
#include "sched/policy.h"

/* Entries of all queues together; shared memory is reserved for this many. */
#define PV_QUEUE_SIZE			PV_MAX_QUEUE_LIMIT

/*
 * While the lock is held no more entries than this are visited one after the
 * other, which takes some ten microseconds.  Where more are to be visited, the
 * lock is released in between.
 */
#define PV_QUEUE_BATCH			64

/*
 * The entries of a queue are divided into this many parts, so that all of them
 * can be copied part by part.  The OID of a table determines its part.
 */
#define PV_QUEUE_PARTS			256

/* Databases without a queue whose scan progress is remembered. */
#define PV_MAX_SAVED_SCANS		1024

/* Roles that have entries, each counted once for each database. */
#define PV_MAX_REQUESTERS		1024

/* Small and large tables are queued apart. */
typedef enum PvSizeClass
{
	PV_SIZE_SMALL,
	PV_SIZE_LARGE,
	PV_NUM_SIZE_CLASSES
} PvSizeClass;

typedef struct PvHolderKey
{
	Oid			database;
	Oid			role;			/* invalid: the scans of the database */
} PvHolderKey;

/* One role, or the scans of a database, and the entries it has in a queue. */
typedef struct PvHolder
{
	PvHolderKey key;
	int			nentries;
	pairingheap_node *evictable;	/* entries that are not running, the first
									 * to be evicted on top */
	uint32		joined;			/* roles: the order in which they came */
	pairingheap_node node;		/* roles: in the queue's heap */
} PvHolder;

/* An entry of the hash table; the key is the first member of the item. */
typedef struct PvQueueEntry
{
	PvItem		item;
	uint32		seen;			/* the last scan of its queue that has offered
								 * it */
	bool		placed;			/* it is in the heaps that its state, size,
								 * rank and holder require; none of these is
								 * changed then */
	PvHolder   *holder;
	pairingheap_node queue_node;	/* while queued */
	pairingheap_node holder_node;	/* while not running */
	dlist_node	node;			/* in its queue's list, always */
	dlist_node	part_node;		/* in one of its queue's parts, always */
} PvQueueEntry;

/*
 * How far the scans of a database have come, where one scan continues from the
 * end of the last one.
 */
typedef struct PvScanProgress
{
	Oid			database;		/* invalid: none */
	bool		evicted;		/* tables that had had their turn were
								 * evicted: the scan then skips all up to the
								 * cursor */
	TimestampTz since;			/* start of the first of these scans, or
								 * PV_NEVER */
	bool		cursor_danger;	/* the last table that these scans have queued */
	double		cursor_score;
	Oid			cursor_relid;
} PvScanProgress;

typedef struct PvDatabaseQueue
{
	Oid			database;		/* invalid: free */
	int			nworkers;

	/* entries */
	pairingheap_node *heap[PV_NUM_SIZE_CLASSES];
	int			nqueued[PV_NUM_SIZE_CLASSES];
	dlist_head	entries;		/* those that the current scan has offered are
								 * behind the others */
	int			nentries;
	dlist_head	parts[PV_QUEUE_PARTS];

	/* holders */
	int			nrequests;		/* entries that a role has asked for */
	PvHolder	found;			/* the scans of the database */
	pairingheap_node *requesters;	/* the roles; the one that is to give up
									 * an entry is on top */
	uint32		next_joined;

	/* database scans */
	bool		scan_requested;
	bool		scanning;
	uint32		scan;			/* number of the last one */
	TimestampTz scanned_at;		/* end of the last requested scan, or PV_NEVER */
	int64		scan_used;		/* microseconds of CPU time that it took */
	bool		nothing;		/* it found that no table has opted in */
	bool		incomplete;		/* the last scan could not queue all it has
								 * found */
	bool		reported_full;	/* that was reported, and has not changed
								 * since */
	bool		goes_on;		/* the current scan continues the last one */
	bool		new_pass;		/* the current scan was requested */
	PvScanProgress progress;
	bool		vacuumed;		/* pg_database is to be updated */
} PvDatabaseQueue;

/* A scheduler worker, or the place of one. */
typedef struct PvWorkerSlot
{
	bool		hired;			/* the slot is in use */
	int			pid;			/* 0: the process has not attached yet */
	uint32		token;			/* identifies this use of the slot */
	TimestampTz hired_at;
	int			queue;			/* index of its database's queue */
	bool		leave;			/* it is to leave after the current table */
	bool		scanning;
	bool		queued_some;	/* the current scan has queued something */
	bool		nothing;		/* the current scan finds that no table has
								 * opted in; only the worker itself uses this */
	bool		has_begun;		/* it has taken a table */

	/* the table that it is at */
	bool		busy;
	TimestampTz busy_since;
	bool		large_allowed;	/* when it took the table */
	bool		on_large;		/* the table is large */
	bool		has_place;		/* ... and the worker has a place for it */
	bool		on_danger;		/* the table is in danger of wraparound */
	PvItemKey	at;
	bool		rechecked;		/* it has rechecked the table */
	bool		cancel_asked;	/* before the recheck, unless that finds that
								 * the vacuum prevents wraparound */
	TimestampTz canceled_at;	/* PV_NEVER: it was not */
} PvWorkerSlot;

typedef struct PvQueueShared
{
	PvSchedulerCounters counters;
	pg_atomic_uint32 nattached; /* written under the lock, read without it */

	uint32		next_token;
	int			nentries;		/* of all queues */
	Oid			kept_for;		/* the database that the last place for a
								 * large table is kept for; invalid: none */
	TimestampTz kept_since;
	int			next_saved;		/* is overwritten next */
	PvScanProgress saved[PV_MAX_SAVED_SCANS];	/* databases without a queue */
	PvDatabaseQueue queues[PV_MAX_QUEUES];
	PvWorkerSlot slots[PV_MAX_SCHED_WORKERS];
} PvQueueShared;

/*
 * The queues, and what their treatment depends on.  The caller sets the moment
 * and the settings each time it acquires the lock.
 */
typedef struct PvQueues
{
	PvQueueShared *shared;
	HTAB	   *entries;		/* PvQueueEntry by PvItemKey */
	HTAB	   *requesters;		/* PvHolder by PvHolderKey */
	TimestampTz now;
	int64		naptime;		/* microseconds */
	int			limit;			/* entries allowed, at most PV_QUEUE_SIZE */
} PvQueues;

/* The queue of a worker's database. */
static inline PvDatabaseQueue *
pv_queue_of(const PvQueues *queues, const PvWorkerSlot *slot)
{
	return &queues->shared->queues[slot->queue];
}

#endif							/* PV_STATE_H */
