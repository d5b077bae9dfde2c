/*-------------------------------------------------------------------------
 *
 * queue_lock.h
 *	  Access to the scheduler's queues under their lock.
 *
 * For queue.c, which defines these functions, and session.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_QUEUE_LOCK_H
#define PV_QUEUE_LOCK_H

#include "storage/lwlock.h"

#include "sched/state.h"

extern PvQueues *pv_queue_lock(LWLockMode mode);
extern PvQueues *pv_queue_lock_with(Oid database, bool takes,
									PvDatabaseQueue **queue);
extern void pv_queue_unlock(void);
extern void pv_queue_wake_launcher(void);

#endif							/* PV_QUEUE_LOCK_H */
