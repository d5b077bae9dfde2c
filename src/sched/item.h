/*-------------------------------------------------------------------------
 *
 * item.h
 *	  One table in the scheduler's queue.
 *
 * The scan of a database fills in what it finds, the queue (sched/entries.c)
 * the rest.  A worker that takes a table from the queue, and a session that
 * reads the queue, get a copy of this struct.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ITEM_H
#define PV_ITEM_H

#include "datatype/timestamp.h"
#include "storage/block.h"

#include "sched/policy.h"

typedef enum PvItemState
{
	PV_ITEM_QUEUED,
	PV_ITEM_RUNNING,
	PV_ITEM_WAITING				/* until the next scan of the database at
								 * least */
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

typedef struct PvItem
{
	PvItemKey	key;
	Oid			toast_parent;	/* of a TOAST table */
	BlockNumber pages;
	PvScore		score;
	double		priority;		/* of parvacuum_enqueue(), else 0 */
	Oid			role;			/* that has asked for it; invalid: a scan
								 * found it */
	PvRank		rank;			/* its place in the order, as long as it is
								 * queued */
	TimestampTz needed_since;	/* it needs a vacuum, or was last begun */
	TimestampTz done_at;		/* offered: last vacuumed or analyzed, or
								 * PV_NEVER */
	TimestampTz state_since;
	TimestampTz waits_since;	/* for waited_for */
	TimestampTz wait_until;		/* time of day; PV_NEVER: until the next
								 * database scan */
	TransactionId horizon;		/* offered: the horizon now */
	PvLeft		left;			/* by its last vacuum */
	int			worker_pid;		/* while running, else 0 */
	uint8		state;			/* a PvItemState */
	uint8		reason;			/* a PvWaitReason */
	uint8		waited_for;		/* the last of these, also while it is queued
								 * or running again */
	uint8		done;			/* PV_DONE_*: what the last worker has done */
	bool		again;			/* enqueued while it was running */
	bool		not_completed;	/* begun at needed_since, and not completed */
	bool		index_work;		/* offered: a vacuum has something to do in
								 * its indexes, whatever the horizon is */
	bool		only_analyze;	/* as long as a vacuum is useless */
	bool		only_sweep;		/* it was analyzed since the database scan */
} PvItem;

/* What becomes of a table that a role asks for. */
typedef enum PvEnqueueResult
{
	PV_ENQUEUED,
	PV_ENQUEUED_BEFORE,			/* it is queued at no lower a place already */
	PV_ENQUEUED_HIGHER,			/* it was queued at a lower place */
	PV_ENQUEUED_AGAIN,			/* it is being vacuumed, and then queued again */
	PV_ENQUEUE_FULL,			/* there is no room for it */
	PV_ENQUEUE_SHARE			/* the role has asked for as many as it may */
} PvEnqueueResult;

/* What becomes of a request to give up a table. */
typedef enum PvWithdrawn
{
	PV_WITHDRAWN_NOTHING,		/* there was nothing to give up */
	PV_WITHDRAWN_DONE,
	PV_WITHDRAWN_REFUSED		/* its vacuum prevents wraparound */
} PvWithdrawn;

#endif							/* PV_ITEM_H */
