/*-------------------------------------------------------------------------
 *
 * pvt_queue.h
 *	  A queue with a clock of its own, on which one process plays all others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PVT_QUEUE_H
#define PVT_QUEUE_H

#include "sched/queue.h"

extern PvQueues pvt_queues;

/* The PID of a worker is the number of its slot, and this. */
#define PVT_FIRST_PID			1000

extern void pvt_make_hash(HTAB **hash, const char *name, long size,
						  Size keysize, Size entrysize);

/* An empty queue with that limit; the clock shows a day. */
extern void pvt_queue_set_up(int limit, int nworkers);
extern PvWorkerSlot *pvt_queue_worker(int worker);

/*
 * What other files do under the lock, where that is more than a call.
 */
extern PvWorkerSlot *pvt_queue_start(Oid database, bool to_scan, bool large);
extern bool pvt_queue_end_scan(PvWorkerSlot *slot, bool complete, int64 used);

/*
 * Compares everything in the queue; raises an error if anything does not fit.
 */
extern void pvt_queue_check(void);

#endif							/* PVT_QUEUE_H */
