/*-------------------------------------------------------------------------
 *
 * forecast.h
 *	  What a vacuum will cost, computed from what is known of the table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_FORECAST_H
#define PV_FORECAST_H

#include "stats/result.h"

/*
 * The pages of a relation that a vacuum reads: the share of them that is in
 * shared buffers, the share that needs an image in WAL with its next change,
 * and the size of such an image in bytes
 */
typedef struct PvForecastPages
{
	double		cached;			/* 0..1 */
	double		fpi;			/* 0..1 */
	double		image_bytes;
} PvForecastPages;

/* One index */
typedef struct PvForecastIndex
{
	double		pages;
	double		entries;
	double		removed;		/* of these, in all index scans together */
	double		hit;			/* 0..1: share of pages with any of these */
	double		spread;			/* 0..1: how much of the table the entries of
								 * one page point to */
	bool		deletes;		/* it is visited in an index scan */
	bool		together;		/* by several participants at the same time */
	PvForecastPages state;
} PvForecastIndex;

/* The cost-based delay; milliseconds and cost units */
typedef struct PvForecastDelay
{
	double		delay_ms;		/* 0: none */
	double		limit;
	double		scale;			/* what each further participant adds */
	double		page_hit;
	double		page_miss;
	double		page_dirty;
} PvForecastDelay;

/* What is known before the vacuum; numbers are expected values */
typedef struct PvForecastInput
{
	/* The heap scan */
	double		rel_pages;
	double		scan_pages;
	double		jumps;			/* of these, after pages that are skipped */
	double		tuples;			/* on these, dead ones included */
	double		dead_tuples;	/* of these, removable */
	double		dead_pages;		/* pages with any */
	double		dead_bytes;		/* what they take */
	double		dead_items;		/* left for an index scan */
	double		item_pages;		/* pages with any */
	double		freeze_pages;	/* pages where something must be frozen */
	double		visible_pages;	/* pages that become all-visible */
	double		hint_pages;		/* pages without all hint bits */
	PvForecastPages heap;

	/* Indexes */
	int			nindexes;
	const PvForecastIndex *indexes;
	bool		vacuums_indexes;
	int			index_scans;	/* if they are not bypassed */
	bool		bypasses;
	bool		index_work;		/* their cleanup has something to do */

	/* WAL: what this server writes */
	bool		logged;			/* the table is not unlogged */
	bool		full_page_writes;
	bool		map_in_record;	/* bits of the map need no record of their own */
	bool		hints_need_image;	/* bits of the map, and hint bits, count
									 * as changes of the page */
	bool		freezes_apart;	/* freezing needs a record of its own */
	bool		unused_apart;	/* so do dead items without an index */

	int			workers;
	PvForecastDelay delay;
} PvForecastInput;

typedef struct PvForecast
{
	int			index_scans;
	bool		bypassed;
	double		wal_records;
	double		wal_fpi;
	double		wal_bytes;
	double		ms[PV_NUM_PHASES];	/* PV_PHASE_DONE: outside of phases */
	double		sleep_ms[PV_NUM_PHASES];	/* of these, for cost limits */
	double		elapsed_ms;
} PvForecast;

/* Why a run would be useless */
typedef enum PvUse
{
	PV_USE_SOME,				/* it would not */
	PV_USE_NOTHING_TO_DO,
	PV_USE_HORIZON				/* what there is to do must wait */
} PvUse;

extern void pv_forecast(const PvForecastInput *input, const PvResult *past,
						PvForecast *forecast);
extern PvUse pv_forecast_use(const PvForecastInput *input,
							 double waiting, bool advances_relfrozenxid);

#endif							/* PV_FORECAST_H */
