/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  A scheduler worker.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SCHED_H
#define PV_SCHED_H

#include "postmaster/bgworker.h"

/* What pg_stat_activity shows as backend_type */
#define PV_SCHED_TYPE			"parvacuum scheduler worker"

extern bool pv_sched_start(Oid database, int worker, uint32 token,
						   BackgroundWorkerHandle **handle);

/* Entry point; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_sched_main(Datum main_arg);

#endif							/* PV_SCHED_H */
