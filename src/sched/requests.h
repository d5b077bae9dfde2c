/*-------------------------------------------------------------------------
 *
 * requests.h
 *	  What sessions ask of the scheduler's queue.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_REQUESTS_H
#define PV_REQUESTS_H

#include "sched/state.h"

extern PvEnqueueResult pv_request_table(PvQueues *queues,
										PvDatabaseQueue *queue,
										const PvItem *item, bool limited);
extern PvWithdrawn pv_request_withdraw(PvQueues *queues, Oid database,
									   Oid relid, bool wraparound_too,
									   PvWorkerSlot **cancel);

#endif							/* PV_REQUESTS_H */
