/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  The scheduler's queue of tables, and its processes.
 *
 * All of it is in main shared memory, of fixed size, under one lightweight
 * lock.  A caller acquires the lock with pv_queue_lock(), calls functions of
 * sched/queue.c, and releases it.  Under the lock nothing fails or waits, and
 * no memory is allocated.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_QUEUE_H
#define PV_QUEUE_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"

#include "base/settings.h"
#include "sched/policy.h"

/* Places for tables of all databases; shared memory is reserved for them. */
#define PV_QUEUE_SIZE			PV_MAX_QUEUE_LIMIT

/* Databases that the scheduler can serve */
#define PV_MAX_QUEUES			8192

/* Owners whose worker time is known */
#define PV_MAX_CHARGES			2048

/*
 * While the lock is held no more entries than this are visited one after the
 * other.  Where more are to be visited, the lock is released in between.
 */
#define PV_QUEUE_BATCH			64

typedef enum PvItemState
{
	PV_ITEM_QUEUED,
	PV_ITEM_RUNNING,
	PV_ITEM_WAITING				/* for the next scan of the database at least */
} PvItemState;

/* Why an item waits. */
typedef enum PvWaitReason
{
	PV_WAIT_NONE,
	PV_WAIT_WINDOW,				/* outside of parvacuum.window */
	PV_WAIT_LOCK,				/* another process had it locked */
	PV_WAIT_HORIZON,			/* its dead rows may still be visible */
	PV_WAIT_CANCELED,
	PV_WAIT_ERROR
} PvWaitReason;

/* What was done with a table, a set of */
#define PV_DONE_VACUUM			0x01
#define PV_DONE_ANALYZE			0x02
#define PV_DONE_SWEEP			0x04

typedef struct PvItemKey
{
	Oid			database;
	Oid			relid;
} PvItemKey;

/*
 * One table.  A database scan fills in what it finds, sched/queue.c the rest.
 * The worker that takes the table, and a session that reads the queue, get a
 * copy.
 */
typedef struct PvItem
{
	PvItemKey	key;
	Oid			owner;
	Oid			toast_parent;	/* of a TOAST table */
	BlockNumber pages;
	PvScore		score;
	bool		requested;		/* a role has asked for it */
	bool		urgent;			/* ... and to go first */
	bool		again;			/* it was requested while it was running */
	bool		tried;			/* begun, and not completed; offered: its
								 * vacuums have failed lately */
	bool		maybe_held;		/* the horizon has held back its dead rows at
								 * the last vacuum, and may do so still */
	double		charge;			/* copy: of its owner, as in PvOrder */
	TimestampTz turn;			/* as long as it is queued */
	TimestampTz needed_since;	/* it needs something, or was last begun */
	TimestampTz done_at;		/* offered: last vacuumed or analyzed, or
								 * PV_NEVER */
	TimestampTz state_since;
	TimestampTz waits_since;	/* for waited_for */
	TimestampTz wait_until;		/* time of day; PV_NEVER: until the next
								 * database scan */
	PvLeft		left;			/* by its last vacuum */
	int			worker_pid;		/* while running, else 0 */
	uint8		state;			/* a PvItemState */
	uint8		reason;			/* a PvWaitReason */
	uint8		waited_for;		/* the last of these, also while it is queued
								 * or running again */
	uint8		done;			/* PV_DONE_*: what the last worker has done */
} PvItem;

/*
 * Is the table in danger of wraparound?  One that was begun and not completed
 * is in the order of the others, or tables that always fail would come first
 * for ever.
 */
static inline bool
pv_is_in_danger(const PvItem *item)
{
	return item->score.danger && !item->tried;
}

static inline bool
pv_is_large(const PvItem *item)
{
	return item->pages >= PV_LARGE_PAGES;
}

/*
 * Is it to wait for a place at large tables?  A worker finds out first whether
 * the horizon holds it back, which takes no time.
 */
static inline bool
pv_wants_large_place(const PvItem *item)
{
	return pv_is_large(item) && !item->maybe_held;
}

/*
 * Queued tables, small and large ones apart, so that these can be passed over.
 * ph_compare is of the process that has set it last, which may be gone: it is
 * set before each change.
 */
typedef pairingheap PvHeaps[2];

typedef struct PvOwnerKey
{
	Oid			database;
	Oid			role;
} PvOwnerKey;

/* The tables of one owner in a database. */
typedef struct PvOwner
{
	PvOwnerKey	key;
	PvHeaps		queued;
	int			nqueued;
	int			nentries;
	dlist_node	node;			/* in the list of the database, if he has
								 * anything queued */
} PvOwner;

/* An entry of the hash table; the key is the first member of the item. */
typedef struct PvQueueEntry
{
	PvItem		item;
	struct PvDatabaseQueue *queue;
	int			place;			/* in PvQueueShared.places */
	uint32		seen;			/* the last scan that has offered it */
	PvOwner    *owner;
	bool		gives_way;		/* it is in the lists of those that wait */
	pairingheap *heap;			/* that it is in, while it is queued */
	pairingheap_node heap_node;
	dlist_node	node;			/* in the list of the database */
	dlist_node	wait_node;		/* in that of those that wait */
	dlist_node	wait_node_of_all;	/* the same, of all databases */
} PvQueueEntry;

/* Worker time of an owner of tables, in all databases. */
typedef struct PvCharge
{
	Oid			role;
	double		usecs;			/* at that time */
	TimestampTz at;
} PvCharge;

/* A database that the scheduler has been to, or that has something queued */
typedef struct PvDatabaseQueue
{
	Oid			database;		/* the key of the hash table */
	TimestampTz known_at;		/* that it exists */
	dlist_node	node;			/* in the list of all */
	int			nworkers;
	TimestampTz started_at;		/* when a worker was last started */
	int			nfailures;		/* workers that could not connect, one after
								 * the other */
	TimestampTz failed_at;		/* the last of these */

	/* tables */
	PvHeaps		first;			/* queued, in danger or urgent */
	dlist_head	owners;			/* those that have anything else queued */
	dlist_head	waiting;		/* tables that wait and are not requested */
	dlist_head	entries;		/* those that the current scan has offered are
								 * behind the others */
	int			nentries;
	int			nqueued;

	/* database scans */
	bool		scanning;
	uint32		scan;			/* number of the last one */
	TimestampTz begun_at;		/* of the last one, or PV_NEVER */
	TimestampTz scanned_at;		/* its end */
	int64		scan_used;		/* microseconds of CPU time that it took */
	bool		nothing;		/* it found that no table has opted in */
	bool		incomplete;		/* the last scan could not queue all it has
								 * found */
	bool		reported_full;	/* that was reported, and has not changed
								 * since */
	bool		vacuumed;		/* pg_database is to be updated */
	TimestampTz updated_at;		/* it was last, or PV_NEVER */
} PvDatabaseQueue;

/* How long something may take, see sched/policy.c */
typedef struct PvStage
{
	TimestampTz since;			/* PV_NEVER: it is not in progress */
	double		pages;
	double		longest;		/* microseconds, by the settings since then */
} PvStage;

/* A scheduler worker, or the place of one. */
typedef struct PvWorkerSlot
{
	bool		used;
	int			pid;			/* 0: the process has not attached yet */
	bool		connected;		/* to the database */
	uint32		token;			/* identifies this use of the slot */
	TimestampTz since;
	PvDatabaseQueue *queue;		/* of its database */
	bool		to_scan;		/* it was started for a scan */
	bool		took;			/* it has taken a table */
	bool		scanning;
	bool		queued_some;	/* the current scan has queued something */
	TimestampTz canceled_at;	/* what it is at; PV_NEVER: it was not */

	/* the table that it is at */
	PvQueueEntry *entry;		/* NULL: none */
	bool		large;			/* it has a place at large tables: given by
								 * the launcher, or taken for the table */
	PvStage		at_table;		/* while it is at one */
	PvStage		for_owner;		/* functions of the owner run */
	const volatile int64 *core_phase;	/* the progress of core's vacuum, if it
										 * may run them; else NULL */
	bool		late;			/* it was canceled, as that took too long */
} PvWorkerSlot;

/* What is counted since the server started. */
typedef enum PvCount
{
	PV_COUNT_SCANS,				/* of databases */
	PV_COUNT_VACUUMS,
	PV_COUNT_ANALYZES,
	PV_COUNT_SWEEPS,
	PV_COUNT_NOT_NEEDED,		/* tables that needed nothing any more */
	PV_COUNT_SKIPPED_HORIZON,
	PV_COUNT_SKIPPED_WINDOW,
	PV_COUNT_SKIPPED_LOCK,
	PV_COUNT_ERRORS,
	PV_COUNT_QUEUE_FULL,		/* scans that could not queue all they found */
	PV_COUNT_NO_PROCESS,		/* workers for which the server had no process */
	PV_NCOUNTS
} PvCount;

/* Everything is protected by the lock, but for atomics. */
typedef struct PvQueueShared
{
	pg_atomic_uint64 counts[PV_NCOUNTS];
	uint32		next_token;
	int			nentries;
	PvQueueEntry *places[PV_QUEUE_SIZE];	/* NULL: free */
	int			free_places[PV_QUEUE_SIZE]; /* those free, and last freed last */
	dlist_head	databases;		/* PvDatabaseQueue */
	dlist_head	waiting;		/* as in PvDatabaseQueue, of all databases */
	PvWorkerSlot slots[PV_MAX_SCHED_WORKERS];
} PvQueueShared;

/*
 * The queue, and what its treatment depends on.  The caller sets the moment
 * and the settings each time it acquires the lock.
 */
typedef struct PvQueues
{
	PvQueueShared *shared;
	HTAB	   *databases;		/* PvDatabaseQueue by OID */
	HTAB	   *entries;		/* PvQueueEntry by PvItemKey */
	HTAB	   *owners;			/* PvOwner by PvOwnerKey */
	HTAB	   *charges;		/* PvCharge by role */
	TimestampTz now;
	int64		naptime;		/* microseconds */
	int			limit;			/* places that may be used */
	int			nworkers;		/* workers that there may be */
} PvQueues;

/* What becomes of a table that a role asks for. */
typedef enum PvEnqueueResult
{
	PV_ENQUEUED,
	PV_ENQUEUED_BEFORE,			/* it was requested already */
	PV_ENQUEUED_AGAIN,			/* it is being vacuumed, and then queued again */
	PV_ENQUEUE_FULL				/* there is no room for it */
} PvEnqueueResult;

/* What becomes of a request to give up a table. */
typedef enum PvWithdrawn
{
	PV_WITHDRAWN_NOTHING,		/* there was nothing to give up */
	PV_WITHDRAWN_DONE,
	PV_WITHDRAWN_REFUSED,		/* its vacuum prevents wraparound */
	PV_WITHDRAWN_RUNNING		/* its worker is to be canceled */
} PvWithdrawn;

/* sched/queue.c: functions to be called under the lock */
extern void pv_queue_count_free(const PvQueues *queues, PvDatabases *all);
extern void pv_queue_describe(const PvQueues *queues,
							  const PvDatabaseQueue *queue,
							  PvDatabase *database);
extern PvEnqueueResult pv_queue_request(PvQueues *queues, const PvItem *item);
extern PvWithdrawn pv_queue_withdraw(PvQueues *queues, Oid database, Oid relid,
									 bool wraparound_too, PvWorkerSlot **slot);
extern int	pv_queue_copy_some(const PvQueues *queues, Oid database,
							   int *place, PvItem *items);
extern bool pv_queue_has_large_place(const PvQueues *queues);
extern PvWorkerSlot *pv_queue_add_worker(PvQueues *queues, Oid database,
										 bool to_scan, bool large);
extern void pv_queue_remove_worker(PvQueues *queues, PvWorkerSlot *slot);
extern void pv_queue_fail_worker(PvQueues *queues, PvWorkerSlot *slot);
extern bool pv_queue_take(PvQueues *queues, PvWorkerSlot *slot, PvItem *item);
extern bool pv_queue_recheck(PvQueues *queues, PvWorkerSlot *slot,
							 const PvItem *item);
extern void pv_queue_put_back(PvQueues *queues, PvWorkerSlot *slot);
extern void pv_queue_finish(PvQueues *queues, PvWorkerSlot *slot, uint8 done,
							PvWaitReason reason, TransactionId horizon);
extern bool pv_queue_should_leave(const PvQueues *queues,
								  const PvWorkerSlot *slot);
extern bool pv_queue_begin_scan(PvQueues *queues, PvWorkerSlot *slot);
extern bool pv_queue_offer(PvQueues *queues, PvWorkerSlot *slot,
						   const PvItem *item);
extern bool pv_queue_remove_unseen(PvQueues *queues, PvDatabaseQueue *queue);
extern bool pv_queue_end_scan(PvQueues *queues, PvWorkerSlot *slot,
							  bool complete, bool nothing, int64 used);

/* sched/entries.c: databases, and one entry, under the lock as well */
extern void pv_queue_init(PvQueueShared *shared);
extern PvDatabaseQueue *pv_queue_find(const PvQueues *queues, Oid database);
extern PvDatabaseQueue *pv_queue_make(PvQueues *queues, Oid database);
extern bool pv_queue_drop_some(PvQueues *queues, PvDatabaseQueue *queue);

extern PvQueueEntry *pv_queue_find_table(const PvQueues *queues, Oid database,
										 Oid relid);
extern PvQueueEntry *pv_queue_first(const PvQueues *queues,
									const PvDatabaseQueue *queue, bool large,
									PvOrder *order);
extern PvOrder pv_queue_order(const PvItem *item, double charge);
extern double pv_queue_charge(const PvQueues *queues, Oid role);
extern void pv_entry_charge_owner(PvQueues *queues, Oid role, int64 usecs);
extern void pv_entry_set_owner(PvQueues *queues, PvQueueEntry *entry,
							   Oid role);
extern void pv_entry_set_request(const PvQueues *queues, PvQueueEntry *entry,
								 bool requested, bool urgent);
extern void pv_entry_set_state(const PvQueues *queues, PvQueueEntry *entry,
							   PvItemState state, PvWaitReason reason);
extern void pv_entry_unqueue(PvQueueEntry *entry);
extern void pv_entry_enqueue(const PvQueues *queues, PvQueueEntry *entry);
extern void pv_entry_remove(PvQueues *queues, PvQueueEntry *entry);
extern PvQueueEntry *pv_entry_add(PvQueues *queues, PvDatabaseQueue *queue,
								  const PvItem *item);

/* sched/queue_shmem.c: the lock and the processes */
extern Size pv_queue_shmem_size(void);
extern void pv_queue_shmem_startup(LWLock *its_lock);

extern PvQueues *pv_queue_lock(LWLockMode mode);
extern void pv_queue_unlock(void);
extern int	pv_queue_copy(Oid database, PvItem **items);
extern void pv_sched_count(PvCount what);
extern uint64 pv_sched_counted(PvCount what);

extern PvWorkerSlot *pv_queue_attach(int slot, uint32 token);
extern void pv_queue_set_connected(void);
extern void pv_queue_set_pages(double pages,
							   const volatile int64 *core_phase);
extern void pv_queue_set_for_owner(bool begins, BlockNumber pages);
extern bool pv_queue_cancel(const PvQueues *queues, PvWorkerSlot *slot);

/* The processes (launcher.c, worker.c) */

/* Their types, as in pg_stat_activity */
#define PV_LAUNCHER_TYPE		"parvacuum launcher"
#define PV_SCHED_TYPE			"parvacuum scheduler worker"

/* The number of scheduler workers that the settings ask for */
#define PV_SCHED_WORKERS_WANTED \
	(pv_guc_scheduler ? pv_guc_scheduler_workers : 0)

extern void pv_launcher_init(void);
extern int	pv_processes_wanted(void);

/* Entry points; the postmaster finds them by name. */
extern PGDLLEXPORT void parvacuum_launcher_main(Datum main_arg);
extern PGDLLEXPORT void parvacuum_sched_main(Datum main_arg);

#endif							/* PV_QUEUE_H */
