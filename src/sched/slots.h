/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  The scheduler workers, and the tables that they are at.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SLOTS_H
#define PV_SLOTS_H

#include "sched/state.h"

/* What a worker does with its table after the recheck. */
typedef enum PvRecheck
{
	PV_RECHECK_GO_ON,
	PV_RECHECK_PUT_BACK,		/* another table of the queue goes first now */
	PV_RECHECK_CANCEL			/* it was cancelled meanwhile */
} PvRecheck;

/* What has become of a cancel that was sent to a worker. */
typedef enum PvCancelState
{
	PV_CANCEL_NONE,				/* there is none, or the worker has obeyed */
	PV_CANCEL_PENDING,
	PV_CANCEL_IGNORED			/* for so long that the process is to be ended */
} PvCancelState;

/* The launcher. */
extern int	pv_slots_hire(PvQueues *queues, PvDatabaseQueue *queue,
						  bool to_scan, uint32 *token);
extern void pv_slots_dismiss(PvQueues *queues, int slot, uint32 token);
extern void pv_slots_dismiss_all_pending(PvQueues *queues);
extern bool pv_slots_has_started(const PvQueues *queues, int slot,
								 uint32 token);

/* A worker. */
extern PvWorkerSlot *pv_slots_attach(PvQueues *queues, int slot, uint32 token,
									 int pid);
extern void pv_slots_exit(PvQueues *queues, PvWorkerSlot *slot);
extern bool pv_slots_pop(PvQueues *queues, PvWorkerSlot *slot, int max_large,
						 PvItem *item);
extern PvRecheck pv_slots_recheck(PvQueues *queues, PvWorkerSlot *slot,
								  const PvItem *item);
extern void pv_slots_put_back(PvQueues *queues, PvWorkerSlot *slot,
							  const PvItem *item);
extern bool pv_slots_finish(PvQueues *queues, PvWorkerSlot *slot,
							uint8 done, PvWaitReason reason,
							TransactionId horizon);
extern bool pv_slots_should_leave(const PvQueues *queues,
								  const PvWorkerSlot *slot);
extern bool pv_slots_all_idle(const PvQueues *queues,
							  const PvDatabaseQueue *queue);

/* Cancels. */
extern PvWorkerSlot *pv_slots_find_at(const PvQueues *queues,
									  const PvItem *item);
extern PvWorkerSlot *pv_slots_find_process(const PvQueues *queues, int pid);
extern void pv_slots_note_cancel(const PvQueues *queues, PvWorkerSlot *slot);
extern PvCancelState pv_slots_cancel_state(const PvQueues *queues,
										   const PvWorkerSlot *slot);

#endif							/* PV_SLOTS_H */
