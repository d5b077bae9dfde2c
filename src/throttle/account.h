/*-------------------------------------------------------------------------
 *
 * account.h
 *	  One account of cost units for all that the scheduler's runners do.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ACCOUNT_H
#define PV_ACCOUNT_H

#include "port/atomics.h"

/* Read and written by all who pay, without a lock. */
typedef struct PvAccount
{
	pg_atomic_uint64 paid_until;	/* microseconds, by the payers' clock: when
									 * all that was done so far will be paid
									 * for */
	pg_atomic_uint64 units;		/* all that was ever charged */
} PvAccount;

extern void pv_account_init(PvAccount *account);
extern void pv_account_change_rate(PvAccount *account, int64 old_rate,
								   int64 new_rate, int64 now);
extern int64 pv_account_charge(PvAccount *account, int64 units,
							   int64 units_per_sec, int64 now);

#endif							/* PV_ACCOUNT_H */
