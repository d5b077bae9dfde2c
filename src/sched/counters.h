/*-------------------------------------------------------------------------
 *
 * counters.h
 *	  What the scheduler has done since the server started.
 *
 * The counters are in main shared memory, see pv_queue_counters().  They are
 * read and written without a lock.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COUNTERS_H
#define PV_COUNTERS_H

#include "port/atomics.h"

typedef struct PvSchedulerCounters
{
	pg_atomic_uint64 database_scans;
	pg_atomic_uint64 vacuums;
	pg_atomic_uint64 analyzes;
	pg_atomic_uint64 sweeps;	/* of tables */
	pg_atomic_uint64 not_needed;	/* any more, when the table's turn came */
	pg_atomic_uint64 skipped_horizon;
	pg_atomic_uint64 skipped_window;
	pg_atomic_uint64 skipped_lock;
	pg_atomic_uint64 errors;
	pg_atomic_uint64 queue_full;	/* scans that could not queue all */
	pg_atomic_uint64 no_process;	/* workers that the server had no slot for */
} PvSchedulerCounters;

#endif							/* PV_COUNTERS_H */
