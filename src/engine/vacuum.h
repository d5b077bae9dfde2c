/*-------------------------------------------------------------------------
 *
 * vacuum.h
 *	  The vacuum of one heap relation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VACUUM_H
#define PV_VACUUM_H

#include "commands/vacuum.h"
#include "utils/relcache.h"

#include "engine/result.h"
#include "throttle/cost.h"

/* What the table, or its owner's settings, say of its vacuum. */
typedef struct PvVacuumOptions
{
	int			workers;		/* -1: as many as the work is worth */
	int			buffer_usage_limit; /* kilobytes; 0: no ring of buffers */
	PvOwnCosts	own_costs;		/* under an autovacuum worker */
} PvVacuumOptions;

extern void pv_vacuum_rel(Relation rel, VacuumParams *params,
						  BufferAccessStrategy bstrategy,
						  const PvVacuumOptions *options, PvResult *result);

#endif							/* PV_VACUUM_H */
