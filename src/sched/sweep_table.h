/*-------------------------------------------------------------------------
 *
 * sweep_table.h
 *	  The scheduler's sweep of the B-trees of one table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SWEEP_TABLE_H
#define PV_SWEEP_TABLE_H

#include "utils/rel.h"

#include "entry/options.h"

extern void pv_sweep_table(Relation rel, const PvOptions *options,
						   const AutoVacOpts *parameters,
						   const char *full_name);

#endif							/* PV_SWEEP_TABLE_H */
