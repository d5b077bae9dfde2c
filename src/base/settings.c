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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "postmaster/bgworker_internals.h"
#include "utils/guc_tables.h"

#include "base/settings.h"

/* Each of these has its default until pv_guc_init() */
bool		pv_guc_engine = true;
int			pv_guc_max_workers = 8;
int			pv_guc_max_runs = 4;
int			pv_guc_autovacuum_workers = 2;
double		pv_guc_autovacuum_cost_limit_scale = 0.0;
bool		pv_guc_scheduler = false;
int			pv_guc_scheduler_workers = 3;
int			pv_guc_scheduler_max_cost = -1;
int			pv_guc_pace = PV_PACE_FIXED;
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
int			pv_guc_sample_pages = 512;
int			pv_guc_queue_limit = PV_MAX_QUEUE_LIMIT;
int			pv_guc_keep_limit = 1024 * 1024;
int			pv_guc_yield_interval = 60;
int			pv_guc_longest_at_table = 600;
int			pv_guc_pace_max_lag = 10000;
char	   *pv_guc_wait_at = "";
static char *shown_version = PV_VERSION;

/* Flags of the settings for tests and developers */
#define DEVELOPER_FLAGS		(GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE)

/* A setting without hooks; its variable has the default */
typedef struct Setting
{
	const char *name;
	enum config_type type;
	GucContext	context;
	int			flags;
	union
	{
		bool	   *flag;
		int		   *number;
		double	   *real;
		char	  **text;
	}			variable;
	double		min;			/* of numbers */
	double		max;
	const char *what;
	const char *more;
} Setting;

static const Setting settings[] = {
	{"parvacuum.version", PGC_STRING, PGC_INTERNAL,
		GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE,
		{.text = &shown_version}, 0, 0,
	"Shows the version of the library that is loaded.", NULL},

	/* for the whole cluster */
	{"parvacuum.engine", PGC_BOOL, PGC_SIGHUP, 0,
		{.flag = &pv_guc_engine}, 0, 0,
		"Enables parvacuum's engine.",
	"If it is off, PostgreSQL's own VACUUM vacuums all tables, whatever else is set."},
	{"parvacuum.max_workers", PGC_INT, PGC_SIGHUP, 0,
		{.number = &pv_guc_max_workers}, 0, MAX_PARALLEL_WORKER_LIMIT,
		"Sets the maximum number of parallel workers of all of parvacuum's vacuums together.",
	"They are taken from max_parallel_workers and max_worker_processes."},
	{"parvacuum.max_runs", PGC_INT, PGC_SIGHUP, 0,
		{.number = &pv_guc_max_runs}, 0, PV_MAX_RUNS,
		"Sets the maximum number of concurrent runs of parvacuum_run() and CALL parvacuum().",
	"They are taken from max_worker_processes.  If there are several, roles that are not superusers can use all but one."},
	{"parvacuum.autovacuum_workers", PGC_INT, PGC_SIGHUP, 0,
		{.number = &pv_guc_autovacuum_workers}, 0, MAX_PARALLEL_WORKER_LIMIT,
		"Sets the maximum number of parallel workers of one autovacuum worker.",
	"If it is 0, an autovacuum worker vacuums alone."},
	{"parvacuum.autovacuum_cost_limit_scale", PGC_REAL, PGC_SIGHUP, 0,
		{.real = &pv_guc_autovacuum_cost_limit_scale}, 0.0, 1.0,
		"Sets the share of an autovacuum worker's cost limit that each of its parallel workers adds.",
	"At 1 each process has a full limit of its own, as it has in a VACUUM command; at 0 all processes share one."},
	{"parvacuum.scheduler", PGC_BOOL, PGC_SIGHUP, 0,
		{.flag = &pv_guc_scheduler}, 0, 0,
		"Starts the scheduler, which vacuums and analyzes the tables that parvacuum is enabled for.",
	"It does what autovacuum does, by autovacuum's settings, and can replace autovacuum or run beside it."},
	{"parvacuum.scheduler_workers", PGC_INT, PGC_SIGHUP, 0,
		{.number = &pv_guc_scheduler_workers}, 1, PV_MAX_SCHED_WORKERS,
		"Sets the number of tables that the scheduler vacuums at a time.",
	"Its workers are taken from max_worker_processes.  Large tables get all of them but one."},
	{"parvacuum.scheduler_max_cost", PGC_INT, PGC_SIGHUP, 0,
		{.number = &pv_guc_scheduler_max_cost}, -1, INT_MAX,
		"Sets the cost units per second that all processes of the scheduler may use together.",
	"0 means no limit; -1 means what autovacuum_vacuum_cost_limit and autovacuum_vacuum_cost_delay allow.  Autovacuum itself may use the same in addition."},
	{"parvacuum.longest_at_table", PGC_INT, PGC_SIGHUP, GUC_UNIT_S,
		{.number = &pv_guc_longest_at_table}, 1, INT_MAX / 1000,
		"Sets the time that a scheduler worker may spend on a table in any case.",
	"It has more for a large table."},
	{"parvacuum.pace_max_lag", PGC_INT, PGC_SIGHUP, GUC_UNIT_MS,
		{.number = &pv_guc_pace_max_lag}, 0, INT_MAX,
		"Sets the lag of a standby from which on automatic vacuums are no faster than cost limits allow.",
	"It applies to the adaptive pace; 0 means that standbys do not slow vacuums down."},
	{"parvacuum.keep_limit", PGC_INT, PGC_SIGHUP, GUC_UNIT_KB,
		{.number = &pv_guc_keep_limit}, 0, MAX_KILOBYTES,
		"Sets the disk space for the dead items that vacuums keep in case they are interrupted.",
	"It is for all tables of the cluster together; 0 means that nothing is kept."},
	{"parvacuum.yield_interval", PGC_INT, PGC_SIGHUP, GUC_UNIT_S,
		{.number = &pv_guc_yield_interval}, 0, 86400,
		"Sets the least time for which a vacuum works before it lets another session have its table again.",
	"It applies to vacuums that prevent wraparound and to parvacuum_run(); 0 means that they never let others have the table."},

	/* the sizes of shared memory */
	{"parvacuum.history_size", PGC_INT, PGC_POSTMASTER, 0,
		{.number = &pv_guc_history_size}, 0, PV_MAX_HISTORY_SIZE,
		"Sets the number of vacuums that the history keeps.",
	"0 means that no memory is set aside for it."},
	{"parvacuum.stats_size", PGC_INT, PGC_POSTMASTER, 0,
		{.number = &pv_guc_stats_size}, 0, PV_MAX_STATS_SIZE,
		"Sets the number of tables for which totals of their vacuums are kept.",
	"0 means that no memory is set aside for them."},

	/* for one session */
	{"parvacuum.enabled", PGC_BOOL, PGC_USERSET, 0,
		{.flag = &pv_guc_enabled}, 0, 0,
		"Enables parvacuum for tables without the option parvacuum.enabled.",
	"Autovacuum uses the value of the server or the database, not that of a role."},
	{"parvacuum.sweep", PGC_BOOL, PGC_USERSET, 0,
		{.flag = &pv_guc_sweep}, 0, 0,
		"Lets the scheduler sweep the B-trees of tables without the option parvacuum.sweep.",
	"It sweeps tables that parvacuum is enabled for, between their vacuums, if they have many updates that are not HOT."},
	{"parvacuum.min_parallel_pages", PGC_INT, PGC_USERSET, GUC_UNIT_BLOCKS,
		{.number = &pv_guc_min_parallel_pages}, 0, INT_MAX,
		"Sets the amount of work below which a vacuum starts no parallel workers.",
	"The unit is pages to be read.  It has no effect if the caller gives a number of workers."},
	{"parvacuum.progress_interval", PGC_INT, PGC_USERSET, GUC_UNIT_S,
		{.number = &pv_guc_progress_interval}, 0, 3600,
		"Sets the time between two messages about the progress of a vacuum with VERBOSE.",
	"0 means no such messages."},
	{"parvacuum.urgent_score", PGC_REAL, PGC_USERSET, 0,
		{.real = &pv_guc_urgent_score}, 1.0, 1e9,
		"Sets the score from which the scheduler vacuums a table outside of its window as well.",
	"Tables that must be vacuumed to prevent wraparound never wait for a window."},

	/* for tests and developers; SHOW ALL and pg_settings leave them out */
	{"parvacuum.store_limit", PGC_INT, PGC_SUSET, GUC_UNIT_KB | DEVELOPER_FLAGS,
		{.number = &pv_guc_store_limit}, -1, MAX_KILOBYTES,
		"Sets the maximum memory for the dead row pointers of one vacuum.",
	"The maximum is maintenance_work_mem, or autovacuum_work_mem; -1 means that value."},
	{"parvacuum.shortest_skip", PGC_INT, PGC_SUSET, DEVELOPER_FLAGS,
		{.number = &pv_guc_shortest_skip}, 0, INT_MAX,
		"Sets the number of consecutive pages without need of vacuum from which on they are skipped.",
	"PostgreSQL's own VACUUM skips runs of 32 pages and more; 0 means to decide by the table."},
	{"parvacuum.sample_pages", PGC_INT, PGC_SUSET, DEVELOPER_FLAGS,
		{.number = &pv_guc_sample_pages}, 0, INT_MAX,
		"Sets how many skipped pages are read, at most, to estimate the number of rows on the others.",
	"They are pages that PostgreSQL's own VACUUM would read; 0 means none, which gives wrong estimates."},
	{"parvacuum.queue_limit", PGC_INT, PGC_SIGHUP, DEVELOPER_FLAGS,
		{.number = &pv_guc_queue_limit}, 1, PV_MAX_QUEUE_LIMIT,
		"Sets the maximum number of tables in the scheduler's queues.",
	NULL},
	{"parvacuum.wait_at", PGC_STRING, PGC_SUSET, DEVELOPER_FLAGS,
		{.text = &pv_guc_wait_at}, 0, 0,
		"Sets the place where a vacuum waits for advisory lock 28790.",
	"For tests only."}
};

static const struct config_enum_entry pace_modes[] = {
	{"fixed", PV_PACE_FIXED, false},
	{"adaptive", PV_PACE_ADAPTIVE, false},
	{NULL, 0, false}
};

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

/*
 * Define a setting.  Those that decide how much shared memory there is can be
 * PGC_POSTMASTER only while libraries are preloaded.  If the library is loaded
 * later, there is no shared memory, and they have no effect.
 */
static void
define_setting(const Setting *s)
{
	GucContext	context = s->context;

	if (context == PGC_POSTMASTER &&
		!process_shared_preload_libraries_in_progress)
		context = PGC_SIGHUP;
	switch (s->type)
	{
		case PGC_BOOL:
			DefineCustomBoolVariable(s->name, s->what, s->more,
									 s->variable.flag, *s->variable.flag,
									 context, s->flags, NULL, NULL, NULL);
			break;
		case PGC_INT:
			DefineCustomIntVariable(s->name, s->what, s->more,
									s->variable.number, *s->variable.number,
									(int) s->min, (int) s->max,
									context, s->flags, NULL, NULL, NULL);
			break;
		case PGC_REAL:
			DefineCustomRealVariable(s->name, s->what, s->more,
									 s->variable.real, *s->variable.real,
									 s->min, s->max,
									 context, s->flags, NULL, NULL, NULL);
			break;
		default:
			DefineCustomStringVariable(s->name, s->what, s->more,
									   s->variable.text, *s->variable.text,
									   context, s->flags, NULL, NULL, NULL);
	}
}

/*
 * Define all settings, and reserve the prefix, so that a misspelled name is an
 * error.
 */
void
pv_guc_init(void)
{
	for (size_t i = 0; i < lengthof(settings); i++)
		define_setting(&settings[i]);

	DefineCustomIntVariable("parvacuum.buffer_usage_limit",
							"Sets the size of the ring of shared buffers that all processes of one vacuum use together.",
							"It is limited to an eighth of shared buffers; 0 means no limit.",
							&pv_guc_buffer_usage_limit,
							PV_DEFAULT_BUFFER_USAGE_LIMIT,
							0, PV_MAX_BUFFER_USAGE_LIMIT,
							PGC_USERSET, GUC_UNIT_KB,
							pv_guc_check_buffer_usage_limit, NULL, NULL);

	DefineCustomStringVariable("parvacuum.window",
							   "Sets the hours of the week in which tables may be vacuumed automatically.",
							   "For example \"Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin\"; an empty string means always, \"never\" means never.",
							   &pv_guc_window, "",
							   PGC_USERSET, 0,
							   pv_guc_check_window, pv_guc_assign_window,
							   NULL);

	DefineCustomEnumVariable("parvacuum.pace",
							 "Sets how fast automatic vacuums are.",
							 "\"fixed\" is as fast as the cost limits allow; \"adaptive\" is faster, as long as that does not make clients wait longer.",
							 &pv_guc_pace, PV_PACE_FIXED, pace_modes,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);

	MarkGUCPrefixReserved("parvacuum");
}
