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

#include "engine/vacuum_options.h"
#include "stats/result.h"

extern void pv_vacuum_rel(Relation rel, VacuumParams *params,
						  BufferAccessStrategy bstrategy,
						  const PvVacuumOptions *options, PvResult *result);

#endif							/* PV_VACUUM_H */
