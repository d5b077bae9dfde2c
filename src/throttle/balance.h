/*-------------------------------------------------------------------------
 *
 * balance.h
 *	  One cost balance for all scheduler workers.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_BALANCE_H
#define PV_BALANCE_H

#include "port/atomics.h"

/* Read and written by all processes that charge, without a lock */
typedef struct PvCostBalance
{
	pg_atomic_uint64 charged_until; /* until then the rate is used up; in
									 * microseconds of the callers' clock */
	pg_atomic_uint64 units;		/* all that was ever charged */
} PvCostBalance;

extern void pv_balance_init(PvCostBalance *balance);
extern void pv_balance_change_rate(PvCostBalance *balance, int64 old_rate,
								   int64 new_rate, int64 now);
extern int64 pv_balance_charge(PvCostBalance *balance, int64 units,
							   int64 units_per_sec, int64 now);

#endif							/* PV_BALANCE_H */
