/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The processes of the scheduler: the launcher, and scheduler workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LAUNCHER_H
#define PV_LAUNCHER_H

#include "postmaster/bgworker.h"

#include "base/settings.h"

/* Their types, as in pg_stat_activity */
#define PV_LAUNCHER_TYPE		"parvacuum launcher"
#define PV_SCHED_TYPE			"parvacuum scheduler worker"

/* The number of scheduler workers that the settings ask for */
#define PV_SCHED_WORKERS_WANTED \
	(pv_guc_scheduler ? pv_guc_scheduler_workers : 0)

extern void pv_launcher_init(void);
extern int	pv_processes_wanted(void);

/* Entry points; the postmaster finds them by name. */
extern PGDLLEXPORT void parvacuum_launcher_main(Datum main_arg);
extern PGDLLEXPORT void parvacuum_sched_main(Datum main_arg);

#endif							/* PV_LAUNCHER_H */
