/*-------------------------------------------------------------------------
 *
 * vacuum_state.h
 *	  What the leader knows about a vacuum in progress.
 *
 * One process writes and reads this: the leader.  What it shares with workers
 * is in PvShared.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VACUUM_STATE_H
#define PV_VACUUM_STATE_H

#include "commands/vacuum.h"

#include "engine/pool.h"
#include "engine/vacuum_options.h"
#include "stats/blocker.h"
#include "stats/usage.h"

/* What the leader shows, and measures for a forecast; see engine/progress.c */
typedef struct PvVacuumProgress
{
	PvTrackedVacuum tracked;
	double		began_at;		/* blocks passed when this heap scan began */
	double		vacuumed_before;	/* pages, by earlier second heap passes */
	instr_time	last_line;		/* of VERBOSE */
	instr_time	mark;			/* when the phase was last measured ... */
	double		mark_pages;		/* ... the pages that it had done, ... */
	double		allowed_cost;	/* ... and the cost units per millisecond; 0:
								 * no limit */
} PvVacuumProgress;

typedef struct PvVacuum
{
	Relation	rel;
	VacuumParams *params;
	const PvVacuumOptions *options;
	PvResult   *result;
	bool		verbose;
	bool		instrument;

	PvVacuumPlan plan;			/* copied to shared memory when the pool is
								 * created */
	PvParticipant leader;
	PvPool		pool;

	bool		do_index_vacuuming;
	bool		do_index_cleanup;
	bool		consider_bypass;
	BlockNumber allvisible_before;	/* by the map, if anything is skipped */
	BlockNumber allfrozen_before;
	int64		store_segments;
	int64		lpdead_before;	/* dead items found before this index scan */
	int			store_resets;	/* how often the store was emptied ... */
	int64		store_bytes;	/* ... and its size then, added up */
	int64		vacuumed_before;	/* items set unused by earlier index
									 * scans' heap passes ... */
	int64		vacuumed_pages_before;	/* ... and the pages they were on */
	bool		reported_eager_end; /* the end of eager scanning was reported */
	BlockNumber fsm_vacuumed;	/* the free space map is vacuumed below this
								 * block */

	PvBlocker	blocker;		/* what held back OldestXmin, for the report */
	bool		blocker_noted;	/* the history has it */
	PvVacuumProgress progress;
	PvCounters	sum;			/* of all participants */
	double		new_live_tuples;
	double		new_rel_tuples;
	char	  **index_names;	/* for the report, when they are closed */
	TransactionId new_relfrozenxid; /* invalid if not advanced */
	MultiXactId new_relminmxid; /* likewise */

	/* State at the start */
	TimestampTz starttime;
	PvUsageStart usage;
} PvVacuum;

#endif							/* PV_VACUUM_STATE_H */
