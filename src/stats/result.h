/*-------------------------------------------------------------------------
 *
 * result.h
 *	  The phases of a vacuum, who started it, and its result.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RESULT_H
#define PV_RESULT_H

#include "storage/block.h"

/* What all participants are doing; only the leader changes it */
typedef enum PvPhase
{
	PV_PHASE_IDLE = 0,			/* between phases, or not yet begun */
	PV_PHASE_SCAN,				/* first heap pass */
	PV_PHASE_INDEX,				/* bulk deletion in indexes */
	PV_PHASE_VACUUM_HEAP,		/* second heap pass */
	PV_PHASE_CLEANUP,			/* index cleanup */
	PV_PHASE_TRUNCATE,			/* leader only */
	PV_PHASE_DONE				/* workers exit */
} PvPhase;

/* Number of elements of an array that is indexed by PvPhase */
#define PV_NUM_PHASES			(PV_PHASE_DONE + 1)

/* Whose process leads a vacuum */
typedef enum PvStartedBy
{
	PV_STARTED_BY_COMMAND = 0,	/* a session's VACUUM */
	PV_STARTED_BY_AUTOVACUUM,	/* a worker of core's autovacuum */
	PV_STARTED_BY_SCHEDULER,	/* a scheduler worker */
	PV_STARTED_BY_FUNCTION		/* a background leader */
} PvStartedBy;

/* Why a vacuum ends before it is complete; see engine/early_end.c */
typedef enum PvEarlyEnd
{
	PV_END_NONE = 0,
	PV_END_TIME,				/* its time is over */
	PV_END_YIELD				/* another session waits for the table */
} PvEarlyEnd;

/* What was done to a table */
typedef enum PvWork
{
	PV_WORK_VACUUM = 0,
	PV_WORK_SWEEP,				/* of its B-trees, by the scheduler */
	PV_WORK_ANALYZE				/* by the scheduler */
} PvWork;

/*
 * The figures of a vacuum, each of them once.  Everything that counts, adds
 * up, reports, stores or shows figures expands this list.
 *
 *		COUNTER		each participant counts it, and the leader adds them up
 *		FIGURE		only the leader knows it
 *		TIME		the time of a phase
 *
 * All are int64, and times are microseconds.  pages_total is the size at the
 * start, pages_removed what truncation took, tuples_remaining live tuples,
 * estimated if pages were skipped.  tuples_recently_dead may still be seen by
 * a snapshot, tuples_missed are dead on pages that others had pinned.
 * new_visible_frozen_pages are also new_visible_pages, new_frozen_pages were
 * all-visible before.  vacuumed_... are of the second heap pass.  items_kept are
 * dead items that the next vacuum takes over if this one fails.
 * items_taken_over were kept so by an earlier vacuum, which was done with
 * indexes_taken_over of the indexes.  paced_usecs is the time in which the
 * adaptive pace was what limited automatic vacuums.  ended_early is PvEarlyEnd.
 *
 * The second column is the type in SQL, HIDDEN if VERBOSE alone shows it.  The
 * order is that of the SQL type parvacuum_result.  The third column says
 * whether the figure is known of any vacuum, of those by the engine, or only
 * of those that it completed.  The fourth one says whether the totals have its
 * sum, as then does the SQL type parvacuum_sums.
 */
#define PV_FIGURES(COUNTER, FIGURE, TIME) \
	FIGURE(workers_planned, INT4, ENGINE, false) \
	FIGURE(workers_launched, INT4, ENGINE, false) \
	FIGURE(pages_total, INT8, ENGINE, false) \
	COUNTER(pages_scanned, INT8, ENGINE, true) \
	FIGURE(pages_removed, INT8, ENGINE, true) \
	COUNTER(tuples_removed, INT8, ENGINE, true) \
	FIGURE(tuples_remaining, INT8, DONE, false) \
	FIGURE(remaining_estimated, BOOL, DONE, false) \
	COUNTER(tuples_recently_dead, INT8, ENGINE, false) \
	COUNTER(tuples_missed, INT8, ENGINE, false) \
	COUNTER(dead_items, INT8, ENGINE, true) \
	FIGURE(index_scans, INT4, ENGINE, true) \
	FIGURE(dead_tuple_bytes, INT8, DONE, false) \
	TIME(PV_PHASE_SCAN) \
	TIME(PV_PHASE_INDEX) \
	TIME(PV_PHASE_VACUUM_HEAP) \
	TIME(PV_PHASE_CLEANUP) \
	TIME(PV_PHASE_TRUNCATE) \
	FIGURE(elapsed_usecs, MSECS, ANY, true) \
	FIGURE(paced_usecs, MSECS, ENGINE, true) \
	FIGURE(wal_records, INT8, ANY, true) \
	FIGURE(wal_fpi, INT8, ANY, true) \
	FIGURE(wal_bytes, NUMERIC, ANY, true) \
	FIGURE(buffers_hit, INT8, ANY, true) \
	FIGURE(buffers_read, INT8, ANY, true) \
	FIGURE(buffers_dirtied, INT8, ANY, true) \
	FIGURE(oldest_xmin, XID, ENGINE, false) \
	FIGURE(relfrozenxid_advanced, BOOL, DONE, false) \
	FIGURE(index_scan_bypassed, BOOL, DONE, false) \
	FIGURE(items_kept, INT8, ENGINE, false) \
	FIGURE(items_taken_over, INT8, ENGINE, true) \
	FIGURE(indexes_taken_over, INT4, ENGINE, false) \
	FIGURE(ended_early, BOOL, ENGINE, false) \
	COUNTER(eager_pages, HIDDEN, ENGINE, false) \
	COUNTER(frozen_pages, HIDDEN, ENGINE, false) \
	COUNTER(tuples_frozen, HIDDEN, ENGINE, false) \
	COUNTER(new_visible_pages, HIDDEN, ENGINE, false) \
	COUNTER(new_visible_frozen_pages, HIDDEN, ENGINE, false) \
	COUNTER(new_frozen_pages, HIDDEN, ENGINE, false) \
	COUNTER(lpdead_item_pages, HIDDEN, ENGINE, false) \
	COUNTER(missed_dead_pages, HIDDEN, ENGINE, false) \
	COUNTER(live_tuples, HIDDEN, ENGINE, false) \
	COUNTER(vacuumed_pages, HIDDEN, ENGINE, false) \
	COUNTER(vacuumed_items, HIDDEN, ENGINE, false)

/* Members of a struct, and what is left out */
#define PV_FIGURE_MEMBER(name, type, known, summed) int64 name;
#define PV_NO_FIGURE(...)

/*
 * What one vacuum of one heap relation did.  pv_vacuum_rel() fills it in.  Of
 * a vacuum by core's code, and of a sweep or an ANALYZE by the scheduler, only
 * what was used is known.
 */
typedef struct PvResult
{
	Oid			relid;			/* the relation vacuumed */
	bool		by_engine;		/* false: by core */
	int64		usecs[PV_NUM_PHASES];
				PV_FIGURES(PV_FIGURE_MEMBER, PV_FIGURE_MEMBER, PV_NO_FIGURE)
} PvResult;

/* How a figure is shown in SQL */
typedef enum PvFigureType
{
	PV_FIGURE_HIDDEN = 0,
	PV_FIGURE_BOOL,
	PV_FIGURE_INT4,
	PV_FIGURE_INT8,
	PV_FIGURE_NUMERIC,
	PV_FIGURE_MSECS,			/* float8, in milliseconds */
	PV_FIGURE_XID
} PvFigureType;

/* Of which vacuums a figure is known */
typedef enum PvFigureKnown
{
	PV_KNOWN_ANY = 0,
	PV_KNOWN_ENGINE,			/* by the engine */
	PV_KNOWN_DONE				/* by the engine, and completed */
} PvFigureKnown;

/* A figure, as data */
typedef struct PvFigure
{
	PvFigureType type;
	PvFigureKnown known;
	bool		summed;
	Size		offset;			/* in PvResult */
} PvFigure;

#define PV_COUNT_FIGURE(...)	+1
#define PV_COUNT_SUM(name, type, known, summed) +(summed)

/* Number of figures, and of those that the totals have */
#define PV_NUM_FIGURES \
	(0 PV_FIGURES(PV_COUNT_FIGURE, PV_COUNT_FIGURE, PV_COUNT_FIGURE))
#define PV_NUM_SUMS \
	(0 PV_FIGURES(PV_COUNT_SUM, PV_COUNT_SUM, PV_NO_FIGURE))

/* In stats/records.c */
extern const PvFigure pv_figures[];
extern const char *const pv_started_by_name[];

/* The value of a figure. */
static inline int64
pv_figure(const PvResult *result, const PvFigure *figure)
{
	return *(const int64 *) ((const char *) result + figure->offset);
}

#endif							/* PV_RESULT_H */
