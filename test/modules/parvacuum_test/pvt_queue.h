/*-------------------------------------------------------------------------
 *
 * pvt_queue.h
 *	  A queue with a clock of its own, on which one process plays all others.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PVT_QUEUE_H
#define PVT_QUEUE_H

#include "sched/database_scan.h"
#include "sched/entries.h"
#include "sched/large_places.h"
#include "sched/requests.h"
#include "sched/slots.h"
#include "sched/view.h"

/* What a worker's own process knows. */
typedef struct PvtWorker
{
	uint32		token;
	bool		attached;
	PvItem		item;			/* taken last */
} PvtWorker;

extern PvQueues pvt_queues;
extern PvtWorker pvt_workers[PV_MAX_SCHED_WORKERS];

/* The worker that this process plays just now, see pvt_queue_be(). */
extern PvWorkerSlot *pvt_me;

/* The PID of a worker is the number of its slot, and this. */
#define PVT_FIRST_PID			1000

extern void pvt_make_hash(HTAB **hash, const char *name, long size,
						  Size keysize, Size entrysize);

/* An empty queue with that limit; the clock shows a day. */
extern void pvt_queue_set_up(int limit);
extern PvtWorker *pvt_queue_be(int worker);

/*
 * What sched/queue.c and sched/session.c do under the lock, where that is more
 * than a call.
 */
extern int	pvt_queue_hire(Oid database, bool to_scan, bool takes);
extern bool pvt_queue_attach(int worker);
extern void pvt_queue_leave(int worker);
extern void pvt_queue_drop_database(Oid database);
extern void pvt_queue_end_scan(bool complete, int64 used);
extern PvRecheck pvt_queue_recheck(const PvItem *item);
extern void pvt_queue_finish(uint8 done, PvWaitReason reason,
							 TransactionId horizon);
extern bool pvt_queue_claim_update(void);
extern PvEnqueueResult pvt_queue_enqueue(Oid database, Oid relid,
										 BlockNumber pages, double priority,
										 Oid role, bool limited);
extern PvWithdrawn pvt_queue_withdraw(Oid database, Oid relid,
									  bool wraparound_too, int *canceled_pid);
extern int	pvt_queue_copy(PvItem **items);

/* Takes the first table; raises an error if it is not the best one. */
extern bool pvt_queue_pop(int worker, int max_large);

/*
 * Compares everything in the queue; raises an error if anything does not fit.
 */
extern void pvt_queue_check(void);

#define pvt_check(condition) \
	do { \
		if (!(condition)) \
			elog(ERROR, "the queue is broken: not %s", #condition); \
	} while (0)

#endif							/* PVT_QUEUE_H */
