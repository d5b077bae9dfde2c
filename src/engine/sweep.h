/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  Removing dead versions from a B-tree before inserts need the space.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SWEEP_H
#define PV_SWEEP_H

#include "utils/relcache.h"

/*
 * Called between two pages, with no page locked or pinned.  It may raise an
 * error, which ends the sweep.
 */
typedef struct PvSweepPoll
{
	void		(*function) (void *arg);
	void	   *arg;
} PvSweepPoll;

typedef struct PvSweepResult
{
	int64		pages_total;	/* of the index, at the start */
	int64		pages_visited;	/* leaf pages that were swept */
	int64		pages_changed;
	int64		tuples_deleted; /* heap TIDs */
	int64		bytes_freed;

	/* For DEBUG1: what was done under write locks of leaf pages, and sleeps */
	int64		holds;
	int			pages_per_hold; /* heap pages, largest number under one lock */
	int64		hold_reads;		/* heap pages read from disk */
	int64		usecs_slept;
} PvSweepResult;

extern void pv_sweep_index(Relation heaprel, Relation indrel,
						   int buffer_usage_limit, const PvSweepPoll *poll,
						   PvSweepResult *result);

#endif							/* PV_SWEEP_H */
