/*-------------------------------------------------------------------------
 *
 * survey.h
 *	  Finds out what a vacuum of a table would do, without doing it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SURVEY_H
#define PV_SURVEY_H

#include "commands/vacuum.h"
#include "utils/relcache.h"

#include "base/compat.h"
#include "engine/vacuum.h"

/* Why a vacuum would be useless */
typedef enum PvUse
{
	PV_USE_SOME,				/* it would not */
	PV_USE_NOTHING_TO_DO,
	PV_USE_HORIZON				/* what there is to do must wait */
} PvUse;

/* Numbers of rows and pages that come from a sample are expected values. */
typedef struct PvSurvey
{
	BlockNumber pages_total;
	BlockNumber pages_to_scan;
	bool		aggressive;
	int			workers;
	PvCutoffs	cutoffs;

	/* At least this; invalid if the value in pg_class stays */
	TransactionId new_relfrozenxid;
	MultiXactId new_relminmxid;

	/* What the heap scan would find */
	double		dead_tuples;	/* removable rows */
	double		recently_dead;	/* rows that are not removable yet */
	double		dead_items;		/* left for an index scan */
	double		item_pages;		/* pages with any */
	double		freeze_pages;	/* pages where something must be frozen */
	double		visible_pages;	/* pages that become all-visible */
	double		young_pages;	/* with rows that may not be visible to all */

	int64		items_kept;		/* by an interrupted vacuum, to be taken over */

	int			nindexes;
	double		index_pages;	/* of all indexes */
	int			index_scans;
	double		store_bytes;	/* memory that the store would have */
	Size		store_limit;

	PvUse		use;
} PvSurvey;

extern void pv_survey(Relation rel, VacuumParams *params,
					  const PvVacuumOptions *options, PvSurvey *survey);

#endif							/* PV_SURVEY_H */
