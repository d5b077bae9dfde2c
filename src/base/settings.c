/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The settings of parvacuum.
 *
 * pv_guc_init() runs in the postmaster if the library is preloaded, else in
 * the session that calls one of our functions.
 *
 *	process					values
 *
 *	sessions, autovacuum	the postmaster's, and what they have SET
 *	scheduler worker		the postmaster's, with those of the database
 *	background leader		its caller's (entry/run.c)
 *	parallel worker			its leader's
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "postmaster/bgworker_internals.h"
#include "utils/guc.h"

#include "base/settings.h"
#include "base/version.h"

bool		pv_guc_engine = true;
int			pv_guc_max_workers = 8;
int			pv_guc_max_runs = 4;
int			pv_guc_autovacuum_workers = 2;
double		pv_guc_autovacuum_cost_limit_scale = 0.0;
bool		pv_guc_scheduler = false;
int			pv_guc_scheduler_workers = 3;
int			pv_guc_scheduler_max_cost = -1;
int			pv_guc_history_size = 1000;
int			pv_guc_stats_size = 5000;
bool		pv_guc_enabled = false;
bool		pv_guc_sweep = false;
int			pv_guc_min_parallel_pages = PV_DEFAULT_MIN_PARALLEL_PAGES;
int			pv_guc_buffer_usage_limit = PV_DEFAULT_BUFFER_USAGE_LIMIT;
int			pv_guc_progress_interval = 5;
double		pv_guc_urgent_score = 100.0;
char	   *pv_guc_window = "";
PvWindow	pv_guc_parsed_window = {.always = true};
int			pv_guc_store_limit = -1;
int			pv_guc_shortest_skip = 0;
int			pv_guc_sample_pages = PV_DEFAULT_SAMPLE_PAGES;
int			pv_guc_queue_limit = PV_MAX_QUEUE_LIMIT;
int			pv_guc_keep_limit = 1024 * 1024;
int			pv_guc_yield_interval = 60;
int			pv_guc_longest_at_table = 600;
char	   *pv_guc_wait_at = "";
static char *shown_version = PV_VERSION;

/* Accept 0 and sizes for which core makes a ring. */
static bool
pv_guc_check_buffer_usage_limit(int *newval, void **extra, GucSource source)
{
	if (*newval == 0 || *newval >= PV_MIN_BUFFER_USAGE_LIMIT)
		return true;
	GUC_check_errdetail("\"parvacuum.buffer_usage_limit\" must be 0 or between %d kB and %d kB.",
						PV_MIN_BUFFER_USAGE_LIMIT, PV_MAX_BUFFER_USAGE_LIMIT);
	return false;
}

/*
 * Check the text of a window.  This also runs in the postmaster, which has
 * time zones, but no catalogs.
 */
static bool
pv_guc_check_window(char **newval, void **extra, GucSource source)
{
	PvWindow	window;
	const char *detail;

	(void) pv_window_parse(*newval, &window, &detail);
	if (detail == NULL)
		return true;
	GUC_check_errdetail("%s", detail);
	GUC_check_errhint(PV_WINDOW_HINT);
	return false;
}

/* Store the parsed window.  The text has been checked. */
static void
pv_guc_assign_window(const char *newval, void *extra)
{
	const char *detail;

	(void) pv_window_parse(newval, &pv_guc_parsed_window, &detail);
}

/* Define the settings of an administrator, for the whole cluster. */
static void
define_cluster_settings(void)
{
	DefineCustomStringVariable("parvacuum.version",
							   "Shows the version of the library that is loaded.",
							   NULL,
							   &shown_version,
							   PV_VERSION,
							   PGC_INTERNAL,
							   GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE,
							   NULL, NULL, NULL);

	DefineCustomBoolVariable("parvacuum.engine",
							 "Enables parvacuum's engine.",
							 "If it is off, PostgreSQL's own VACUUM vacuums all tables, whatever else is set.",
							 &pv_guc_engine,
							 true,
							 PGC_SIGHUP,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.max_workers",
							"Sets the maximum number of parallel workers of all of parvacuum's vacuums together.",
							"They are taken from max_parallel_workers and max_worker_processes.",
							&pv_guc_max_workers,
							8, 0, MAX_PARALLEL_WORKER_LIMIT,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.max_runs",
							"Sets the maximum number of concurrent runs of parvacuum_run() and CALL parvacuum().",
							"They are taken from max_worker_processes.  If there are several, roles that are not superusers can use all but one.",
							&pv_guc_max_runs,
							4, 0, PV_MAX_RUNS,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.autovacuum_workers",
							"Sets the maximum number of parallel workers of one autovacuum worker.",
							"If it is 0, an autovacuum worker vacuums alone.",
							&pv_guc_autovacuum_workers,
							2, 0, MAX_PARALLEL_WORKER_LIMIT,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);

	DefineCustomRealVariable("parvacuum.autovacuum_cost_limit_scale",
							 "Sets the share of an autovacuum worker's cost limit that each of its parallel workers adds.",
							 "At 1 each process has a full limit of its own, as it has in a VACUUM command; at 0 all processes share one.",
							 &pv_guc_autovacuum_cost_limit_scale,
							 0.0, 0.0, 1.0,
							 PGC_SIGHUP,
							 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("parvacuum.scheduler",
							 "Starts the scheduler, which vacuums and analyzes the tables that parvacuum is enabled for.",
							 "It does what autovacuum does, by autovacuum's settings, and can replace autovacuum or run beside it.",
							 &pv_guc_scheduler,
							 false,
							 PGC_SIGHUP,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.scheduler_workers",
							"Sets the number of tables that the scheduler vacuums at a time.",
							"Its workers are taken from max_worker_processes.  Large tables get all of them but one.",
							&pv_guc_scheduler_workers,
							3, 1, PV_MAX_SCHEDULER_WORKERS,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.scheduler_max_cost",
							"Sets the cost units per second that all processes of the scheduler may use together.",
							"0 means no limit; -1 means what autovacuum_vacuum_cost_limit and autovacuum_vacuum_cost_delay allow.  Autovacuum itself may use the same in addition.",
							&pv_guc_scheduler_max_cost,
							-1, -1, INT_MAX,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.longest_at_table",
							"Sets the time that a scheduler worker may spend on a table in any case.",
							"It has more for a large table.",
							&pv_guc_longest_at_table,
							600, 1, INT_MAX / 1000,
							PGC_SIGHUP,
							GUC_UNIT_S,
							NULL, NULL, NULL);
}

/*
 * Define the settings that decide how much shared memory there is.  They can
 * be PGC_POSTMASTER only while libraries are preloaded.  If the library is
 * loaded later, there is no shared memory, and they have no effect.
 */
static void
define_sizes(void)
{
	GucContext	context = process_shared_preload_libraries_in_progress ?
		PGC_POSTMASTER : PGC_SIGHUP;

	DefineCustomIntVariable("parvacuum.keep_limit",
							"Sets the disk space for the dead items that vacuums keep in case they are interrupted.",
							"It is for all tables of the cluster together; 0 means that nothing is kept.",
							&pv_guc_keep_limit,
							1024 * 1024, 0, MAX_KILOBYTES,
							PGC_SIGHUP,
							GUC_UNIT_KB,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.yield_interval",
							"Sets the least time for which a vacuum works before it lets another session have its table again.",
							"It applies to vacuums that prevent wraparound and to parvacuum_run(); 0 means that they never let others have the table.",
							&pv_guc_yield_interval,
							60, 0, 86400,
							PGC_SIGHUP,
							GUC_UNIT_S,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.history_size",
							"Sets the number of vacuums that the history keeps.",
							"0 means that no memory is set aside for it.",
							&pv_guc_history_size,
							1000, 0, PV_MAX_HISTORY_SIZE,
							context,
							0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.stats_size",
							"Sets the number of tables for which totals of their vacuums are kept.",
							"0 means that no memory is set aside for them.",
							&pv_guc_stats_size,
							5000, 0, PV_MAX_STATS_SIZE,
							context,
							0,
							NULL, NULL, NULL);
}

/* Define the settings of a session, for its own vacuums. */
static void
define_session_settings(void)
{
	DefineCustomBoolVariable("parvacuum.enabled",
							 "Enables parvacuum for tables without the option parvacuum.enabled.",
							 "Autovacuum uses the value of the server or the database, not that of a role.",
							 &pv_guc_enabled,
							 false,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("parvacuum.sweep",
							 "Lets the scheduler sweep the B-trees of tables without the option parvacuum.sweep.",
							 "It sweeps tables that parvacuum is enabled for, between their vacuums, if they have many updates that are not HOT.",
							 &pv_guc_sweep,
							 false,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.min_parallel_pages",
							"Sets the amount of work below which a vacuum starts no parallel workers.",
							"The unit is pages to be read.  It has no effect if the caller gives a number of workers.",
							&pv_guc_min_parallel_pages,
							PV_DEFAULT_MIN_PARALLEL_PAGES, 0, INT_MAX,
							PGC_USERSET,
							GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.buffer_usage_limit",
							"Sets the size of the ring of shared buffers that all processes of one vacuum use together.",
							"It is limited to an eighth of shared buffers; 0 means no limit.",
							&pv_guc_buffer_usage_limit,
							PV_DEFAULT_BUFFER_USAGE_LIMIT,
							0, PV_MAX_BUFFER_USAGE_LIMIT,
							PGC_USERSET,
							GUC_UNIT_KB,
							pv_guc_check_buffer_usage_limit, NULL, NULL);

	DefineCustomIntVariable("parvacuum.progress_interval",
							"Sets the time between two messages about the progress of a vacuum with VERBOSE.",
							"0 means no such messages.",
							&pv_guc_progress_interval,
							5, 0, 3600,
							PGC_USERSET,
							GUC_UNIT_S,
							NULL, NULL, NULL);

	DefineCustomRealVariable("parvacuum.urgent_score",
							 "Sets the score from which the scheduler vacuums a table outside of its window as well.",
							 "Tables that must be vacuumed to prevent wraparound never wait for a window.",
							 &pv_guc_urgent_score,
							 100.0, 1.0, 1e9,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomStringVariable("parvacuum.window",
							   "Sets the hours of the week in which tables may be vacuumed automatically.",
							   "For example \"Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin\"; an empty string means always, \"never\" means never.",
							   &pv_guc_window,
							   "",
							   PGC_USERSET,
							   0,
							   pv_guc_check_window, pv_guc_assign_window,
							   NULL);
}

/*
 * Define the settings for tests and developers.  SHOW ALL and pg_settings leave
 * them out.
 */
#define DEVELOPER_FLAGS		(GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE)

static void
define_developer_settings(void)
{
	DefineCustomIntVariable("parvacuum.store_limit",
							"Sets the maximum memory for the dead row pointers of one vacuum.",
							"The maximum is maintenance_work_mem, or autovacuum_work_mem; -1 means that value.",
							&pv_guc_store_limit,
							-1, -1, MAX_KILOBYTES,
							PGC_USERSET,
							GUC_UNIT_KB | DEVELOPER_FLAGS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.shortest_skip",
							"Sets the number of consecutive pages without need of vacuum from which on they are skipped.",
							"PostgreSQL's own VACUUM skips runs of 32 pages and more; 0 means to decide by the table.",
							&pv_guc_shortest_skip,
							0, 0, INT_MAX,
							PGC_USERSET,
							DEVELOPER_FLAGS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.sample_pages",
							"Sets how many skipped pages are read, at most, to estimate the number of rows on the others.",
							"They are pages that PostgreSQL's own VACUUM would read; 0 means none, which gives wrong estimates.",
							&pv_guc_sample_pages,
							PV_DEFAULT_SAMPLE_PAGES, 0, INT_MAX,
							PGC_USERSET,
							DEVELOPER_FLAGS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("parvacuum.queue_limit",
							"Sets the maximum number of tables in the scheduler's queues.",
							NULL,
							&pv_guc_queue_limit,
							PV_MAX_QUEUE_LIMIT, 1, PV_MAX_QUEUE_LIMIT,
							PGC_SIGHUP,
							DEVELOPER_FLAGS,
							NULL, NULL, NULL);

	DefineCustomStringVariable("parvacuum.wait_at",
							   "Sets the place where a vacuum waits for advisory lock 28790.",
							   "For tests only.",
							   &pv_guc_wait_at,
							   "",
							   PGC_SUSET,
							   DEVELOPER_FLAGS,
							   NULL, NULL, NULL);
}

/*
 * Define all settings, and reserve the prefix, so that a misspelled name is an
 * error.
 */
void
pv_guc_init(void)
{
	define_cluster_settings();
	define_sizes();
	define_session_settings();
	define_developer_settings();

	MarkGUCPrefixReserved("parvacuum");
}
