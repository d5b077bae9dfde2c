/*-------------------------------------------------------------------------
 *
 * survey_state.h
 *	  What a survey has found out so far.
 *
 * One process uses this, for one table at a time.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SURVEY_STATE_H
#define PV_SURVEY_STATE_H

#include "access/xlogdefs.h"

#include "engine/extrapolate.h"
#include "engine/forecast.h"
#include "engine/vacuum_state.h"
#include "store/container.h"

/* Pages of a relation as the forecast needs them, added up */
typedef struct PvPageState
{
	int			n;
	int			cached;
	int			fpi;
	int64		image_bytes;
} PvPageState;

/* Pages to be scanned of one kind, and the sample of them */
typedef struct PvStratum
{
	BlockNumber pages;			/* all */
	int			room;			/* largest size of the sample */
	uint32		every;			/* pages that one of the sample stands for */
	int			n;				/* in the sample */
	uint32		chosen;			/* of the "every" pages that pass by now */
	BlockNumber *blocks;

	/* Sums over the sample */
	int64		tuples;			/* line pointers with storage */
	int64		dead;			/* removable tuples */
	int64		recently_dead;
	int64		stubs;			/* line pointers that are dead already */
	int64		items;			/* dead line pointers after pruning */
	int64		dead_bytes;		/* of removable tuples */
	int			dead_pages;		/* with removable tuples */
	int			item_pages;
	int			freeze_pages;
	int			visible_pages;	/* all-visible after pruning */
	int			young_pages;	/* where live tuples prevent that */
	int			hint_pages;		/* where hint bits are still to be set */
	PvRowSample gone;			/* dead tuples, removable or not, and dead
								 * line pointers */
	PvPageSums	sums;			/* how alike the pages will be */
} PvStratum;

typedef struct PvSurveyState
{
	Relation	rel;
	PvVacuum   *vac;
	Buffer		vmbuffer;
	XLogRecPtr	redo;
	PvStratum	unseen;			/* not all-visible */
	PvStratum	visible;		/* all-visible */
	BlockNumber last_block;		/* of those that the scan visits */
	uint32		jumps;			/* blocks that do not follow the one before */
	uint32		last_segment;	/* of the last block that is not all-visible */
	uint32		segments;		/* number of segments with such blocks */
	PvPageState state;

	/* The dead items of sampled pages, as one segment of the store */
	PvSegmentBuild *build;

	/* Oldest XIDs that remain on the sampled pages */
	TransactionId oldest_xid;
	MultiXactId oldest_mxid;
} PvSurveyState;


extern Buffer pv_survey_read_page(Relation rel, BlockNumber blkno,
								  XLogRecPtr redo, PvPageState *sum);
extern void pv_survey_describe_pages(const PvPageState *sum,
									 PvForecastPages *pages);
extern void pv_survey_heap_pages(PvSurveyState *state, PvStratum *stratum);
extern void pv_survey_index(PvSurveyState *state, int i,
							const PvForecastInput *input,
							PvForecastIndex *index);

#endif							/* PV_SURVEY_STATE_H */
