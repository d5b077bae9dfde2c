/*-------------------------------------------------------------------------
 *
 * view.h
 *	  What the launcher sees of the queues, and what it asks of workers.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VIEW_H
#define PV_VIEW_H

#include "sched/state.h"

extern void pv_view_take(PvQueues *queues, int max_large, PvQueueView *view);
extern bool pv_view_is_busy(const PvQueues *queues, int max_large);
extern bool pv_view_request_scan(PvQueues *queues, Oid database);
extern void pv_view_call_back(PvQueues *queues, Oid database);

#endif							/* PV_VIEW_H */
