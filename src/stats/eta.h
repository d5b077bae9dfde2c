/*-------------------------------------------------------------------------
 *
 * eta.h
 *	  How long the rest of a vacuum will take.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ETA_H
#define PV_ETA_H

#include "stats/result.h"

/*
 * An index scan is bypassed if less than this fraction of the pages has dead
 * items, and fewer of these than fit in 32 MB: core's rule before PG 17
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

/* Not known */
#define PV_ETA_UNKNOWN			(-1)

/* What the last vacuum of the table took, in microseconds; 0: not known */
typedef struct PvEtaPast
{
	double		scan_page;		/* a page of the heap scan */
	double		index_scan;
	double		dead_item;		/* an item of the second heap pass */
} PvEtaPast;

/* What a phase has done so far in this vacuum, in all index scans together */
typedef struct PvEtaMeasure
{
	double		usecs;			/* by the clock */
	double		pages;			/* of the table or of indexes */
} PvEtaMeasure;

/* What is known of a vacuum in progress.  All numbers are of this vacuum. */
typedef struct PvEtaInput
{
	PvPhase		phase;

	/* The heap scan */
	double		blocks;			/* of the table */
	double		passed;			/* of these, read or skipped */
	double		to_read;		/* blocks that are not skippable */
	double		read;
	double		dead_pages;		/* pages found that have dead items */
	double		items_per_page; /* dead items on such a page */

	/* Index scans */
	bool		vacuums_indexes;
	bool		may_bypass;
	int			index_scans;	/* completed */
	double		store_share;	/* of the store's limit that is used, 0 to 1 */
	double		index_pages;	/* of all indexes */
	double		index_total;	/* pages to visit in this phase ... */
	double		index_done;		/* ... and visited */
	double		vacuumed;		/* pages that second heap passes have done */

	PvEtaMeasure of[PV_NUM_PHASES];
} PvEtaInput;

/* What is expected */
typedef struct PvEta
{
	double		phase_usecs;	/* left in this phase, or PV_ETA_UNKNOWN */
	double		usecs;			/* left in all, or PV_ETA_UNKNOWN */
	int			index_scans;	/* in all, or PV_ETA_UNKNOWN */
	double		rate;			/* pages per second in this phase, or
								 * PV_ETA_UNKNOWN */
} PvEta;

extern void pv_eta_past(const PvResult *last, PvEtaPast *past);
extern double pv_eta_past_page(const PvEtaPast *past, PvPhase phase,
							   double index_pages, double items_per_page);
extern double pv_eta_usecs(double pages, double usecs_per_page);
extern void pv_eta(const PvEtaInput *input, const PvEtaPast *past,
				   PvEta *eta);

#endif							/* PV_ETA_H */
