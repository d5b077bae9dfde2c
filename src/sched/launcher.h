/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that follows the configuration, and has databases vacuumed.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LAUNCHER_H
#define PV_LAUNCHER_H

#include "sched/policy.h"

/* The type of its process, as in pg_stat_activity */
#define PV_LAUNCHER_TYPE		"parvacuum launcher"

extern void pv_launcher_init(void);
extern void pv_launcher_processes(PvProcesses *processes);

/* The launcher; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_launcher_main(Datum main_arg);

#endif							/* PV_LAUNCHER_H */
