/*-------------------------------------------------------------------------
 *
 * database_scan.h
 *	  The queue of a database, and the scans that fill it.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DATABASE_SCAN_H
#define PV_DATABASE_SCAN_H

#include "sched/state.h"

/* Queues of databases. */
extern PvDatabaseQueue *pv_scan_free_queue(const PvQueues *queues, bool takes);
extern PvDatabaseQueue *pv_scan_make_queue(PvQueues *queues, Oid database,
										   bool takes, bool *again);
extern void pv_scan_release_queue(PvQueues *queues, PvDatabaseQueue *queue);
extern int	pv_scan_drop_some(PvQueues *queues, PvDatabaseQueue *queue);
extern TimestampTz pv_scan_rests_until(const PvQueues *queues,
									   const PvDatabaseQueue *queue);

/* A scan, by a worker of the database. */
extern bool pv_scan_begin(PvQueues *queues, PvWorkerSlot *slot);
extern bool pv_scan_is_held(const PvQueues *queues, const PvItem *item);
extern bool pv_scan_offer(PvQueues *queues, PvWorkerSlot *slot,
						  const PvItem *item, bool full);
extern bool pv_scan_remove_unseen(PvQueues *queues, PvWorkerSlot *slot);
extern bool pv_scan_end(PvQueues *queues, PvWorkerSlot *slot, bool complete,
						int64 used);
extern void pv_scan_abandon(PvQueues *queues, PvWorkerSlot *slot);

#endif							/* PV_DATABASE_SCAN_H */
