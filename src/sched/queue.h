/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  The scheduler's queues of tables, as its processes and sessions use them.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_QUEUE_H
#define PV_QUEUE_H

#include "sched/counters.h"
#include "sched/item.h"
#include "sched/plan.h"
#include "sched/policy.h"

extern Size pv_queue_shmem_size(void);
extern void pv_queue_request_lock(void);
extern void pv_queue_shmem_startup(void);
extern PvSchedulerCounters *pv_queue_counters(void);
extern int	pv_queue_nworkers(void);

/* The launcher. */
extern void pv_queue_launcher_begin(void);
extern void pv_queue_view(PvQueueView *view, int max_large);
extern bool pv_queue_request_scan(Oid database);
extern int	pv_queue_hire(Oid database, bool to_scan, bool takes_queue,
						  uint32 *token);
extern void pv_queue_dismiss(int worker, uint32 token);
extern bool pv_queue_worker_started(int worker, uint32 token);
extern void pv_queue_call_back(Oid database);
extern bool pv_queue_is_busy(int max_large);
extern void pv_queue_drop_database(Oid database);
extern bool pv_queue_end_unresponsive(void);

/* A scheduler worker. */
extern bool pv_queue_attach(int worker, uint32 token, Oid *database);
extern bool pv_queue_begin_scan(void);
extern bool pv_queue_is_held(const PvItem *item);
extern void pv_queue_offer(const PvItem *item, bool *full);
extern bool pv_queue_end_scan(bool complete, int64 used);
extern void pv_queue_note_nothing(void);
extern void pv_queue_abandon_scan(void);
extern bool pv_queue_pop(int max_large, PvItem *item);
extern bool pv_queue_recheck(const PvItem *item);
extern void pv_queue_leave_place(void);
extern void pv_queue_put_back(const PvItem *item);
extern void pv_queue_finish(const PvItem *item, uint8 done,
							PvWaitReason reason, TransactionId horizon);
extern bool pv_queue_should_leave(void);
extern bool pv_queue_claim_update(bool even_if_busy);
extern void pv_queue_return_update(void);

/* Sessions. */
extern int	pv_queue_copy(Oid database, PvItem **items);
extern bool pv_queue_waits_for_horizon(Oid relid);
extern void pv_queue_large_state(PvLargeState *state);
extern PvEnqueueResult pv_queue_enqueue(Oid relid, Oid toast_parent,
										BlockNumber pages, double priority,
										Oid role, bool limited);
extern int	pv_queue_share_of_role(void);
extern PvWithdrawn pv_queue_withdraw(Oid relid, bool wraparound_too);
extern bool pv_queue_cancel_worker(int pid);

#endif							/* PV_QUEUE_H */
