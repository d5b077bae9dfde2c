/*-------------------------------------------------------------------------
 *
 * vacuum_options.h
 *	  What a table's options, or its owner's settings, say about its vacuum.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VACUUM_OPTIONS_H
#define PV_VACUUM_OPTIONS_H

#include "stats/result.h"
#include "throttle/cost.h"

typedef struct PvVacuumOptions
{
	int			workers;		/* PV_WORKERS_BY_WORK, or a number */
	int			buffer_usage_limit; /* kilobytes; 0: no ring of buffers */
	PvOwnCosts	own_costs;		/* under an autovacuum worker */
	PvStartedBy started_by;
} PvVacuumOptions;

/* PvVacuumOptions.workers: as many workers as the work is worth */
#define PV_WORKERS_BY_WORK		(-1)

#endif							/* PV_VACUUM_OPTIONS_H */
