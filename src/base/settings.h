/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The settings of parvacuum: parvacuum.<name> is pv_guc_<name>; and its
 *	  version.
 *
 * Everything outside base/settings.c only reads them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_GUC_H
#define PV_GUC_H

#include <signal.h>

#include "base/window.h"

/*
 * Major, minor, patch.  This is the version's one place.  Whatever else names
 * it is compared with this by scripts/check_style.  The version of the
 * extensions is that of the library without the patch.  CHANGELOG.md says what
 * a new version may change.
 */
#define PV_VERSION				"1.0.0"

/* How fast the scheduler's vacuums may be */
typedef enum PvPaceMode
{
	PV_PACE_FIXED,				/* as the cost limits say */
	PV_PACE_ADAPTIVE			/* or faster, as long as clients do not wait
								 * longer for it */
} PvPaceMode;

/* For the whole cluster; changed by a reload */
extern bool pv_guc_engine;		/* off: core vacuums all tables */
extern int	pv_guc_max_workers; /* workers of all vacuums together */
extern int	pv_guc_max_runs;	/* of parvacuum_run() and CALL parvacuum() */
extern int	pv_guc_autovacuum_workers;	/* of one autovacuum worker */
extern double pv_guc_autovacuum_cost_limit_scale;	/* what each of them adds */
extern bool pv_guc_scheduler;	/* on: vacuum tables that opted in */
extern int	pv_guc_scheduler_workers;	/* scheduler workers at a time */
extern int	pv_guc_scheduler_max_cost;	/* units per second of all of them; 0:
										 * no limit, -1: as autovacuum has it */
extern int	pv_guc_pace;		/* a PvPaceMode */
extern int	pv_guc_keep_limit;	/* kilobytes of kept items; 0: none */
extern int	pv_guc_yield_interval;	/* seconds between two times that a vacuum
									 * ends early for others; 0: never */
extern int	pv_guc_longest_at_table;	/* seconds, see sched/policy.c */
extern int	pv_guc_pace_max_lag;	/* milliseconds, see throttle/wal.c */

extern int	pv_guc_history_size;	/* vacuums in the history; 0: none */
extern int	pv_guc_stats_size;	/* tables with totals; 0: none */

#define PV_MAX_HISTORY_SIZE			100000
#define PV_MAX_STATS_SIZE			100000

#define PV_MAX_SCHED_WORKERS		64
#define PV_MAX_RUNS					256

/* For one session; changed by SET */
extern bool pv_guc_enabled;		/* for tables without that option */
extern bool pv_guc_sweep;		/* the same */
extern int	pv_guc_min_parallel_pages;	/* below which no workers start */
extern int	pv_guc_buffer_usage_limit;	/* kilobytes of all rings of a vacuum;
										 * 0: no limit */
extern int	pv_guc_progress_interval;	/* seconds between two lines of
										 * VERBOSE; 0: none */
extern double pv_guc_urgent_score;	/* from which on a window is ignored */
extern char *pv_guc_window;		/* as the user wrote it */
extern PvWindow pv_guc_parsed_window;

/* For the setting and the table option, as BUFFER_USAGE_LIMIT of PG 16 */
#define PV_MIN_BUFFER_USAGE_LIMIT	128
#define PV_MAX_BUFFER_USAGE_LIMIT	(16 * 1024 * 1024)
#define PV_DEFAULT_BUFFER_USAGE_LIMIT	(16 * 1024)

#define PV_DEFAULT_MIN_PARALLEL_PAGES	4096

/* Shared memory is reserved for that many tables */
#define PV_MAX_QUEUE_LIMIT			32768

/* For developers */
extern int	pv_guc_store_limit; /* kilobytes; -1: maintenance_work_mem */
extern int	pv_guc_shortest_skip;	/* pages; see engine/plan.c; 0: not set */
extern int	pv_guc_sample_pages;	/* see engine/sample.c */
extern int	pv_guc_queue_limit; /* tables that the scheduler may queue */
extern char *pv_guc_wait_at;	/* a place for pv_wait_point(); mostly empty */

extern void pv_guc_init(void);

/* Reloads during a vacuum (reload.c) */

#define PV_MAX_FOLLOWED			16

/* What a leader gives its workers after a reload, by the table in reload.c */
typedef struct PvSettings
{
	double		value[PV_MAX_FOLLOWED];
} PvSettings;

/* Has the configuration changed since the leader last read it? */
extern volatile sig_atomic_t pv_reload_is_due;

extern void pv_reload_defer(void);
extern void pv_reload_resume(void);
extern void pv_reload_now(PvSettings *settings);
extern void pv_reload_adopt(const PvSettings *settings);

#endif							/* PV_GUC_H */
