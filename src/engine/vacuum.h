/*-------------------------------------------------------------------------
 *
 * vacuum.h
 *	  The vacuum of one heap relation, as its leader sees it.
 *
 * One process reads and writes all of this: the leader.  What it shares with
 * workers is in PvShared.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VACUUM_H
#define PV_VACUUM_H

#include "commands/vacuum.h"

#include "engine/participant.h"
#include "stats/history.h"
#include "stats/kept.h"

/* What a table's options, or its owner's settings, say about its vacuum */
typedef struct PvVacuumOptions
{
	int			workers;		/* PV_WORKERS_BY_WORK, or a number */
	int			buffer_usage_limit; /* kilobytes; 0: no ring of buffers */
	PvOwnCosts	own_costs;		/* under an autovacuum worker */
	PvStartedBy started_by;
	TimestampTz deadline;		/* when it ends early; 0: never */
	bool		ends_in_any_case;	/* then, even if nothing can be kept */
	bool		yields;			/* it ends early for sessions that wait for
								 * the table */
	Oid			toast_parent;	/* a TOAST table's table, if that is locked */
	bool		may_keep;		/* every vacuum of the table is one that we
								 * would know of */
} PvVacuumOptions;

/* PvVacuumOptions.workers: as many workers as the work is worth */
#define PV_WORKERS_BY_WORK		(-1)

/* Most bytes that the store takes for one block, all overhead included */
#define PV_STORE_BYTES_PER_BLOCK	48

/* What the leader shows, and measures for a forecast; see engine/progress.c */
typedef struct PvVacuumProgress
{
	PvTrackedVacuum tracked;
	double		began_at;		/* blocks passed when this heap scan began */
	double		vacuumed_before;	/* pages, by earlier second heap passes */
	int64		last_line;		/* of VERBOSE, as pv_usecs_of_machine() */
	int64		mark;			/* when the phase was last measured ... */
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
	BlockNumber rel_pages;		/* size of the table, after a truncation */
	int64		lpdead_before;	/* dead items found before this index scan */
	int			store_resets;	/* how often the store was emptied ... */
	int64		store_bytes;	/* ... and its size then, added up */
	PvKept		kept;			/* what an earlier vacuum has kept, as it was
								 * when this one began; token 0: nothing */
	bool		goes_on;		/* with the heap scan of that one */
	bool		ended_early;	/* before it was complete; see
								 * engine/early_end.c */
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
	int64		paced_before;	/* PvPaceShown.usecs then */
	PvUsageStart usage;
} PvVacuum;

/* Return the level of messages that VERBOSE shows. */
static inline int
pv_message_level(const PvVacuum *vac)
{
	return vac->verbose ? INFO : DEBUG2;
}

extern void pv_vacuum_rel(Relation rel, VacuumParams *params,
						  BufferAccessStrategy bstrategy,
						  const PvVacuumOptions *options, PvResult *result);

/* engine/plan.c: what is decided before */
extern void pv_plan_reloptions(Relation rel, VacuumParams *params);
extern void pv_plan_vacuum(PvVacuum *vac, LOCKMODE index_lock);
extern void pv_plan_skipping(PvVacuum *vac);
extern BlockNumber pv_pages_to_read(const PvVacuum *vac);
extern void pv_plan_pool(PvVacuum *vac, BufferAccessStrategy bstrategy);

/* engine/finish.c: what the heap scan has come to */
extern BlockNumber pv_scan_done_upto(const PvVacuum *vac);
extern void pv_scan_go_on(PvVacuum *vac);
extern void pv_scan_check_coverage(const PvVacuum *vac);
extern void pv_scan_estimate_tuples(PvVacuum *vac);

/* engine/keep.c: dead items that outlive an interrupted vacuum */
extern void pv_keep_items(PvVacuum *vac, BlockNumber upto);
extern bool pv_keep_scanned(PvVacuum *vac, BlockNumber upto);
extern bool pv_keep_end_early(PvVacuum *vac);
extern void pv_keep_end(PvVacuum *vac);
extern bool pv_keep_take_over(PvVacuum *vac);
extern bool pv_keep_collects(const PvKept *kept);
extern void pv_keep_let_go(PvVacuum *vac);
extern bool pv_keep_load(PvVacuum *vac, uint32 *first);
extern void pv_keep_add_scanned(const PvKeptScan *scan, PvCounters *sum);

/* engine/progress.c: what is shown meanwhile */
extern void pv_progress_open(PvVacuum *vac);
extern void pv_progress_begin_phase(PvVacuum *vac, PvPhase phase);
extern void pv_progress_alone(PvVacuum *vac, PvPhase phase);
extern void pv_progress_show(PvParticipant *leader);

/* engine/finish.c, engine/truncate.c: what is done when the workers are gone */
extern void pv_finish_indexes(PvVacuum *vac);
extern void pv_truncate_heap(PvVacuum *vac);
extern void pv_finish_statistics(PvVacuum *vac);
extern void pv_finish_phase(PvVacuum *vac);
extern void pv_finish_result(PvVacuum *vac);

/* engine/report.c: the text of VERBOSE and the log */
extern void pv_report_progress(PvVacuum *vac);
extern void pv_report_end(const PvVacuum *vac);

#endif							/* PV_VACUUM_H */
