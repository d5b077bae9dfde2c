/*-------------------------------------------------------------------------
 *
 * sweep_result.h
 *	  What a sweep of one index did, and who may end it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SWEEP_RESULT_H
#define PV_SWEEP_RESULT_H

/*
 * What the process that leads a sweep calls between two pages, with no page of
 * the index or the table locked or pinned.  It may raise an error, which ends
 * the sweep.
 */
typedef struct PvSweepPoll
{
	void		(*function) (void *arg);
	void	   *arg;
} PvSweepPoll;

typedef struct PvSweepResult
{
	int			workers_launched;
	int64		pages_total;	/* of the index, at the start */
	int64		pages_visited;	/* leaf pages that were swept */
	int64		pages_changed;
	int64		tuples_deleted; /* heap TIDs */
	int64		bytes_freed;

	/*
	 * For DEBUG1: what was done while a leaf page was locked for writing, and
	 * sleeps
	 */
	int64		holds;
	int			pages_per_hold; /* heap pages, largest number under one lock */
	int64		hold_reads;		/* heap pages read from disk */
	int64		usecs_slept;	/* of all participants together */
} PvSweepResult;

#endif							/* PV_SWEEP_RESULT_H */
