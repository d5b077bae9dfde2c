/*-------------------------------------------------------------------------
 *
 * large_places.h
 *	  How many scheduler workers may be on large tables, and which.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LARGE_PLACES_H
#define PV_LARGE_PLACES_H

#include "sched/state.h"

/* The workers that have a place at a large table, and the limit for them. */
typedef struct PvLargeUse
{
	int			nlarge;
	int			ndanger;		/* of them on a table in danger of wraparound */
	int			max_large;
	const PvDatabaseQueue *first;	/* has the large table that is first of
									 * all; NULL: none is queued */
} PvLargeUse;

extern void pv_large_get_use(const PvQueues *queues, int max_large,
							 PvLargeUse *use);
extern bool pv_large_is_allowed(const PvQueues *queues,
								const PvDatabaseQueue *queue, int max_large);
extern bool pv_large_ask(PvQueues *queues, const PvDatabaseQueue *queue,
						 const PvLargeUse *use);
extern void pv_large_drop_kept_place(PvQueues *queues);

#endif							/* PV_LARGE_PLACES_H */
