/*-------------------------------------------------------------------------
 *
 * eta.h
 *	  How long a vacuum in progress will still take.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ETA_H
#define PV_ETA_H

#include "stats/result.h"

/*
 * An index scan is bypassed if less than this fraction of the pages has dead
 * items, and there are fewer dead items than this: as many as fit in 32 MB, six
 * bytes each, which is core's rule before PG 17
 */
#define PV_BYPASS_THRESHOLD_PAGES	0.02
#define PV_BYPASS_THRESHOLD_ITEMS	(INT64CONST(32) * 1024 * 1024 / 6)

/* Are so many dead items, on so many pages of a table, few enough for that? */
static inline bool
pv_few_enough_to_bypass(BlockNumber rel_pages, double item_pages,
						double dead_items)
{
	BlockNumber threshold =
		(BlockNumber) (rel_pages * PV_BYPASS_THRESHOLD_PAGES);

	return item_pages < threshold && dead_items < PV_BYPASS_THRESHOLD_ITEMS;
}

/* What a phase has done so far in this vacuum, in all index scans together */
typedef struct PvEtaMeasure
{
	double		usecs;			/* time that it took, of all participants
								 * together: by the clock */
	double		work;			/* heap or index pages */
	double		cost;			/* cost units that these pages were worth */
} PvEtaMeasure;

/*
 * What the last vacuum of the table took, in microseconds; 0 if that is not
 * known.  Only their proportions are used.
 */
typedef struct PvEtaPast
{
	double		scan_page;		/* a page of the first heap pass */
	double		index_scan;		/* an index scan */
	double		dead_item;		/* an item of the second heap pass */
} PvEtaPast;

/* What is known of a vacuum in progress.  All numbers are of this vacuum. */
typedef struct PvEtaInput
{
	PvPhase		phase;

	/* The first heap pass, all its parts together */
	double		blocks;			/* of the table */
	double		passed;			/* of these, read or skipped */
	double		to_read;		/* blocks that are not skippable */
	double		read;			/* blocks read */
	double		dead_pages;		/* pages found that have dead items */
	double		dead_items;		/* on these pages */
	double		dead_share;		/* of the rows that index entries point to, in
								 * the whole table, 0 to 1 */
	double		page_rows;		/* rows that index entries point to, dead or
								 * not, on a heap page */
	double		missed_share;	/* of the blocks, that were not in shared
								 * buffers, 0 to 1 */

	/* The store */
	double		store_share;	/* used of its limit, 0 to 1 */
	double		store_before;	/* the same when earlier index scans began,
								 * added up */
	double		began_at;		/* blocks passed when it was empty */

	/* Indexes, in one index scan */
	bool		vacuums_indexes;
	bool		may_bypass;
	int			index_scans;	/* completed */
	double		index_pages;	/* of all indexes */
	double		index_tuples;	/* entries, all indexes */
	double		correlation;	/* share of the index pages that are in the
								 * order of the heap, 0 to 1 */
	double		index_slowdown; /* by how much an index phase is slower than a
								 * heap pass, as fewer processes can take part
								 * in it; 1 or more */
	double		index_total;	/* pages to visit in this phase, weighted, and
								 * times such a factor, ... */
	double		index_done;		/* ... and visited */
	double		index_stretch;	/* that factor, in this phase */

	/* The second heap pass, all its parts together */
	double		vacuumed;		/* pages */
	double		vacuum_total;	/* pages to vacuum in this phase, ... */
	double		vacuum_done;	/* ... and vacuumed */

	PvEtaMeasure of[PV_NUM_PHASES];
	PvEtaMeasure present;		/* of the phase, in this index scan alone */

	/* Cost-based delay */
	bool		throttled;
	double		slept_share;	/* of the leader's time in heap passes and
								 * index phases, 0 to 1 */
	double		cost_hit;		/* cost units of a page, as the settings say */
	double		cost_miss;
	double		cost_dirty;
} PvEtaInput;

/* Not known */
#define PV_ETA_UNKNOWN			(-1)

/* What is expected */
typedef struct PvEta
{
	double		phase_usecs;	/* left in this phase, or PV_ETA_UNKNOWN */
	double		usecs;			/* left in all, or PV_ETA_UNKNOWN */
	int			index_scans;	/* in all, or PV_ETA_UNKNOWN */
	double		rate;			/* pages per second in this phase, or
								 * PV_ETA_UNKNOWN */
} PvEta;

extern double pv_eta_index_page(const PvEtaInput *input, double correlation);
extern double pv_eta_unchanged_page(const PvEtaInput *input);
extern void pv_eta(const PvEtaInput *input, const PvEtaPast *past,
				   PvEta *eta);

#endif							/* PV_ETA_H */
