/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  What the scheduler's processes share: a queue of tables for each
 *	  database, and who is at work on them.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_QUEUE_H
#define PV_QUEUE_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "nodes/pg_list.h"

#include "base/settings.h"
#include "sched/plan.h"
#include "sched/policy.h"

/*
 * Milliseconds after which a worker that has not come waits for something, such as its
 * database's lock, which ALTER DATABASE may have: the launcher ends it.  One that is at a
 * small table for so long may wait for a lock, too; it waits for a lock no longer than this.
 * One that goes on for so long with what was cancelled is ended as well.
 */
#define PV_LATE_AFTER_MS		10000

/* A small table in danger of wraparound may take this many milliseconds longer. */
#define PV_MORE_IN_DANGER_MS	(90 * 60 * 1000)

/* Milliseconds in which a worker that was ended before it came is gone. */
#define PV_GONE_WITHIN_MS		5000

/* Tables in all queues together. */
#define PV_QUEUE_SIZE			PV_MAX_QUEUE_LIMIT

typedef enum PvItemState
{
	PV_ITEM_QUEUED,
	PV_ITEM_RUNNING,
	PV_ITEM_WAITING				/* not to be done in this pass */
} PvItemState;

/* Why an item waits. */
typedef enum PvWaitReason
{
	PV_WAIT_NONE,
	PV_WAIT_WINDOW,				/* outside of parvacuum.window */
	PV_WAIT_LOCK,				/* somebody had it locked */
	PV_WAIT_HORIZON,			/* what is dead may still be seen */
	PV_WAIT_CANCELED,
	PV_WAIT_ERROR
} PvWaitReason;

typedef struct PvItemKey
{
	Oid			database;
	Oid			relid;
} PvItemKey;

/* One table in the queue.  A copy of it is what its worker works by. */
typedef struct PvItem
{
	PvItemKey	key;
	Oid			toast_parent;	/* of a TOAST table */
	BlockNumber pages;
	PvScore		score;
	double		priority;		/* of parvacuum_enqueue(), else 0 */
	Oid			role;			/* that has asked for it; invalid: the scan found it */
	PvRank		rank;			/* its place in the order, as long as it is queued */
	TimestampTz needed_since;	/* or since it was begun last */
	TimestampTz done_at;		/* offered: vacuumed or analyzed last; 0: never */
	TimestampTz state_since;
	TimestampTz wait_until;		/* 0: until the next pass at least */
	TransactionId horizon;		/* waiting, or only to be analyzed: of the vacuum
								 * that left dead rows; offered: the one of now */
	double		left_dead;		/* waiting for the horizon: score.dead then, or less */
	int			worker_pid;		/* running */
	uint8		state;			/* a PvItemState */
	uint8		reason;			/* a PvWaitReason */
	bool		again;			/* enqueued while it was running */
	bool		not_removable;		/* begun at needed_since, and could not be done */
	bool		was_for_age;	/* that vacuum was to prevent wraparound */
	bool		only_analyze;	/* as long as the horizon is the same */
} PvItem;

/* What has become of a request to have something given up. */
typedef enum PvWithdrawn
{
	PV_WITHDRAWN_NOTHING,		/* there was nothing to give up */
	PV_WITHDRAWN_DONE,
	PV_WITHDRAWN_REFUSED		/* it prevents wraparound */
} PvWithdrawn;

/* Counted since the server started; read without a lock. */
typedef struct PvSchedulerCounters
{
	pg_atomic_uint64 database_scans;
	pg_atomic_uint64 vacuums;
	pg_atomic_uint64 analyzes;
	pg_atomic_uint64 not_needed;	/* any more, when their turn came */
	pg_atomic_uint64 skipped_horizon;
	pg_atomic_uint64 skipped_window;
	pg_atomic_uint64 skipped_lock;
	pg_atomic_uint64 errors;
	pg_atomic_uint64 queue_full;	/* passes that found no place for all */
	pg_atomic_uint64 no_process;	/* workers that the server had no slot for */
} PvSchedulerCounters;

/* What becomes of a table that somebody asks for. */
typedef enum PvEnqueueResult
{
	PV_ENQUEUED,
	PV_ENQUEUED_BEFORE,			/* it is in the queue at no lower a place */
	PV_ENQUEUED_HIGHER,			/* it was in the queue at a lower place */
	PV_ENQUEUED_AGAIN,			/* it is being vacuumed, and queued again then */
	PV_ENQUEUE_FULL,			/* there is no place for it */
	PV_ENQUEUE_SHARE			/* the role has asked for as many as it may */
} PvEnqueueResult;

extern Size pv_queue_shmem_size(void);
extern void pv_queue_request_lock(void);
extern void pv_queue_shmem_startup(void);
extern PvSchedulerCounters *pv_queue_counters(void);
extern int	pv_queue_nworkers(void);

/* The launcher. */
extern void pv_queue_launcher_begin(void);
extern void pv_queue_view(PvQueueView *view, int max_large);
extern bool pv_queue_request_scan(Oid database);
extern int	pv_queue_hire(Oid database, bool to_scan, bool takes_queue, uint32 *token);
extern void pv_queue_dismiss(int worker, uint32 token);
extern bool pv_queue_worker_started(int worker, uint32 token);
extern void pv_queue_call_back(Oid database);
extern bool pv_queue_is_busy(int max_large);
extern void pv_queue_drop_database(Oid database);
extern bool pv_queue_end_unresponsive(void);
extern void pv_queue_cancel_longest(Oid database, TimestampTz since);

/* A worker. */
extern bool pv_queue_attach(int worker, uint32 token, Oid *database);
extern bool pv_queue_begin_scan(void);
extern void pv_queue_offer(const PvItem *item, bool *full);
extern bool pv_queue_end_scan(bool complete, int64 used);
extern void pv_queue_note_nothing(void);
extern void pv_queue_abandon_scan(void);
extern bool pv_queue_pop(int max_large, PvItem *item);
extern bool pv_queue_gives_way(const PvItem *item);
extern void pv_queue_put_back(const PvItem *item);
extern void pv_queue_finish(const PvItem *item, bool vacuumed, PvWaitReason reason,
							TransactionId horizon);
extern bool pv_queue_should_leave(void);
extern bool pv_queue_pass_is_over(bool even_if_busy);
extern void pv_queue_pass_is_not_over(void);

/* Sessions. */
extern List *pv_queue_copy(Oid database, int *nlarge);
extern PvEnqueueResult pv_queue_enqueue(Oid relid, Oid toast_parent, BlockNumber pages,
										double priority, Oid role, bool limited);
extern int	pv_queue_share_of_role(void);
extern PvWithdrawn pv_queue_withdraw(Oid relid, bool wraparound_too);
extern bool pv_queue_cancel_worker(int pid);

#endif							/* PV_QUEUE_H */
