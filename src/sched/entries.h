/*-------------------------------------------------------------------------
 *
 * entries.h
 *	  The tables in the scheduler's queues, their order and their holders.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ENTRIES_H
#define PV_ENTRIES_H

#include "sched/state.h"

extern void pv_entries_init(PvQueueShared *shared);

/* Finding. */
extern PvDatabaseQueue *pv_entries_find_queue(const PvQueues *queues,
											  Oid database);
extern PvQueueEntry *pv_entries_find(const PvQueues *queues, Oid database,
									 Oid relid);
extern PvHolder *pv_entries_find_holder(const PvQueues *queues,
										PvDatabaseQueue *queue, Oid role);
extern int	pv_entries_limit(const PvQueues *queues);

/* The order. */
extern PvSizeClass pv_entries_size_class(const PvItem *item);
extern PvQueueEntry *pv_entries_first(const PvDatabaseQueue *queue,
									  PvSizeClass size);
extern PvQueueEntry *pv_entries_first_of_both(const PvDatabaseQueue *queue,
											  bool large_too);
extern bool pv_entries_goes_before(const PvQueueEntry *a,
								   const PvQueueEntry *b);
extern bool pv_entries_had_turn(const PvItem *item);
extern int	pv_entries_compare_queued(const pairingheap_node *a,
									  const pairingheap_node *b, void *arg);
extern int	pv_entries_compare_evictable(const pairingheap_node *a,
										 const pairingheap_node *b, void *arg);
extern int	pv_entries_compare_requesters(const pairingheap_node *a,
										  const pairingheap_node *b,
										  void *arg);

/* Changes. */
extern bool pv_entries_can_hold(const PvQueues *queues, PvDatabaseQueue *queue,
								Oid role);
extern PvQueueEntry *pv_entries_add(PvQueues *queues, PvDatabaseQueue *queue,
									const PvItem *item, TimestampTz since);
extern void pv_entries_unplace(PvDatabaseQueue *queue, PvQueueEntry *entry);
extern void pv_entries_place(const PvQueues *queues, PvDatabaseQueue *queue,
							 PvQueueEntry *entry, PvItemState state,
							 PvWaitReason reason);
extern void pv_entries_enqueue_again(const PvQueues *queues,
									 PvDatabaseQueue *queue,
									 PvQueueEntry *entry);
extern void pv_entries_set_request(const PvQueues *queues,
								   PvDatabaseQueue *queue, PvQueueEntry *entry,
								   Oid role, double priority);
extern void pv_entries_remove(PvQueues *queues, PvDatabaseQueue *queue,
							  PvQueueEntry *entry);
extern void pv_entries_evict(PvQueues *queues, PvDatabaseQueue *queue,
							 PvQueueEntry *entry);

/* Copies. */
extern int	pv_entries_copy(const PvDatabaseQueue *queue, int *part,
							PvItem *items, int room);

#endif							/* PV_ENTRIES_H */
