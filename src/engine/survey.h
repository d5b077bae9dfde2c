/*-------------------------------------------------------------------------
 *
 * survey.h
 *	  Finds out what a vacuum of a table would do, without doing it.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SURVEY_H
#define PV_SURVEY_H

#include "commands/vacuum.h"
#include "utils/relcache.h"

#include "base/compat.h"
#include "engine/forecast.h"
#include "engine/vacuum_options.h"

typedef struct PvSurvey
{
	BlockNumber pages_total;
	BlockNumber pages_to_scan;
	bool		aggressive;
	PvCutoffs	cutoffs;

	/* At least this; invalid if the value in pg_class stays */
	TransactionId new_relfrozenxid;
	MultiXactId new_relminmxid;

	double		recently_dead;	/* rows that are not removable yet */
	double		young_pages;	/* with rows that may not be visible to all */
	bool		stuck;			/* too old, but nothing older can be frozen */
	int			nindexes;
	int			index_units;	/* pieces of work in each index scan */
	Size		store_bytes;	/* memory that the store will have */
	Size		store_limit;
	PvForecastInput input;
	PvForecast	forecast;
	PvUse		use;
} PvSurvey;

extern void pv_survey(Relation rel, VacuumParams *params,
					  const PvVacuumOptions *options, const PvResult *past,
					  PvSurvey *survey);

#endif							/* PV_SURVEY_H */
