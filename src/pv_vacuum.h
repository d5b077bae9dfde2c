/*-------------------------------------------------------------------------
 *
 * pv_vacuum.h
 *	  The vacuum of one heap relation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VACUUM_H
#define PV_VACUUM_H

#include "commands/vacuum.h"
#include "utils/relcache.h"

#include "parvacuum.h"
#include "pv_options.h"

extern void pv_vacuum_rel(Relation rel, VacuumParams *params,
						  BufferAccessStrategy bstrategy,
						  const PvEffectiveOptions *options, Oid toast_parent,
						  PvResult *result);

#endif							/* PV_VACUUM_H */
