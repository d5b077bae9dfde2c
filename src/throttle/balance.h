/*-------------------------------------------------------------------------
 *
 * balance.h
 *	  One account of cost units for all that scheduler workers do.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_BALANCE_H
#define PV_BALANCE_H

#include "port/atomics.h"

/* Read and written by all who pay, without a lock. */
typedef struct PvCostBalance
{
	pg_atomic_uint64 charged_until;	/* microseconds, by the payers' clock: when
									 * all that was done so far will be paid
									 * for */
	pg_atomic_uint64 units;		/* all that was ever charged */
} PvCostBalance;

extern void pv_balance_init(PvCostBalance *account);
extern void pv_balance_change_rate(PvCostBalance *account, int64 old_rate,
								   int64 new_rate, int64 now);
extern int64 pv_balance_charge(PvCostBalance *account, int64 units,
							   int64 units_per_sec, int64 now);

#endif							/* PV_BALANCE_H */
