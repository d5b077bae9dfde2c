/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that follows the configuration, and has databases vacuumed.
 *
 * It is one background worker, registered at preload and started when recovery
 * is over.  It is connected to no database, only so far that it can read
 * pg_database and that pg_stat_activity shows it.  It publishes the cost units
 * per second that all scheduler workers may use together, by the configuration
 * as it is now, and writes the history to its file (stats/history.c).
 *
 * While parvacuum.scheduler is on, it starts scheduler workers
 * (sched/worker.c), in a loop:
 *
 *		look after the workers that were started
 *		take a view of the queues				(sched/queue.c)
 *		read pg_database if that is due			(sched/databases.c)
 *		make a plan, and carry it out			(sched/plan.c)
 *		wait, until something is due or another process sets the latch
 *
 * Each database is scanned once in autovacuum_naptime, or less often if that
 * takes long: a worker is started there that queues what needs a vacuum and
 * begins with it.  More are added, one by one, as long as the queue lasts, up
 * to parvacuum.scheduler_workers in all databases together.  Nothing of what
 * is decided here is written here: which database gets the next worker, and
 * which gives one up, is in sched/plan.c and sched/policy.c.
 *
 * Core: postmaster/autovacuum.c, AutoVacLauncherMain.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/logicallauncher.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/wait.h"
#include "sched/databases.h"
#include "sched/launcher.h"
#include "sched/queue.h"
#include "sched/worker.h"
#include "stats/history.h"
#include "throttle/cost.h"


/* Seconds until the postmaster starts it again, should it fail. */
#define RESTART_AFTER			1

/* A worker that was started and has not attached yet, by its slot */
typedef struct Started
{
	BackgroundWorkerHandle *handle; /* NULL: there is none */
	uint32		token;
	Oid			database;
	TimestampTz started_at;
	bool		ended;			/* by the launcher */
} Started;

static Started started[PV_MAX_SCHED_WORKERS];

/* Since when all launches fail for want of a process; PV_NEVER: they do not */
static TimestampTz no_process_since = PV_NEVER;

/* When a worker was last asked to leave for that reason, or PV_NEVER */
static TimestampTz room_made_at = PV_NEVER;

/* That was reported, and no worker was started since */
static bool no_process_reported = false;

/*
 * What becomes of an action, or of several: then the last of these that occurs
 */
typedef enum ActionResult
{
	ACTION_DONE,
	ACTION_NOT_DONE,			/* the queues are not any more as they were */
	ACTION_NO_PROCESS			/* the server has no slot for another process */
} ActionResult;


/* ----------------------------------------------------------------
 *		The configuration
 * ----------------------------------------------------------------
 */

/* Tells scheduler workers what the configuration allows them now. */
static void
publish_rate(void)
{
	PvCostBudget budget;
	int64		rate;

	pv_cost_of_autovacuum(&budget);
	if (pv_guc_scheduler_max_cost >= 0)
		rate = pv_guc_scheduler_max_cost;
	else
		rate = budget.delay > 0 ?
			(int64) (budget.limit * 1000 / budget.delay) : 0;
	pv_cost_set_rate(rate);
}

/* Warns once if nothing is counted: then only ages say what needs a vacuum. */
static void
report_counts(void)
{
	static bool reported_once = false;
	bool		missing = pv_guc_scheduler && !pgstat_track_counts;

	if (missing && !reported_once)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("parvacuum's scheduler vacuums tables only for their age"),
				 errdetail("Dead rows and changes are not counted."),
				 errhint("Enable the \"track_counts\" setting.")));
	reported_once = missing;
}

/* The processes that the settings ask for. */
void
pv_launcher_processes(PvProcesses *processes)
{
	memset(processes, 0, sizeof(*processes));
	processes->logical_replication = max_logical_replication_workers > 0;
	processes->parallel_workers = max_parallel_workers;
	processes->runs = pv_guc_max_runs;
	if (pv_guc_scheduler)
		processes->scheduler_workers =
			Min(pv_most_workers(pv_guc_scheduler_workers),
				PV_MAX_SCHED_WORKERS);
}

/*
 * Warns if max_worker_processes is lower than the settings ask for: once, and
 * again when a reload has changed the number.
 */
static void
report_processes(void)
{
	static int	reported = 0;
	PvProcesses processes;
	int			wanted;

	pv_launcher_processes(&processes);
	wanted = pv_processes_wanted(&processes);
	if (wanted <= max_worker_processes)
		reported = 0;
	else if (wanted != reported)
	{
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("\"max_worker_processes\" is too low for parvacuum's settings"),
				 errdetail("It is %d, and should be %d at least: for parallel workers (\"max_parallel_workers\" is %d), runs (\"parvacuum.max_runs\" is %d), the scheduler (%d), and launchers.",
						   max_worker_processes, wanted,
						   processes.parallel_workers, processes.runs,
						   processes.scheduler_workers),
				 errhint("Increase \"max_worker_processes\" and restart the server, or lower the others.")));
		reported = wanted;
	}
}

/*
 * Postmaster: registers the launcher, while libraries are preloaded.
 *
 * If there is no slot for it, the postmaster itself reports what all that
 * needs, since there is no launcher to do it; core only logs that there are
 * too many background workers.
 *
 * Only the launcher has a slot that is kept for it.  Dynamic background
 * workers, as scheduler workers are, cannot have one.  A static worker,
 * registered here, could wait for a database and run there, but it cannot
 * leave a database without exiting, and one that exits keeps its slot only if
 * it exits with an error: a line in the log for each database scan.  It would
 * be there whether the scheduler is on, which a reload decides, or not.  So
 * the slots of others are bounded instead, by max_parallel_workers and
 * parvacuum.max_runs, and it is reported when these sums do not fit.
 */
void
pv_launcher_init(void)
{
	BackgroundWorker worker;

	Assert(process_shared_preload_libraries_in_progress);

	if (IsBinaryUpgrade || !IsPostmasterEnvironment)
		return;

	pv_process_describe(&worker, PV_LAUNCHER_TYPE, "parvacuum_launcher_main");
	worker.bgw_restart_time = RESTART_AFTER;
	RegisterBackgroundWorker(&worker);

	if (!pv_is_registered(PV_LAUNCHER_TYPE))
	{
		PvProcesses processes;

		pv_launcher_processes(&processes);
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("parvacuum's launcher cannot be started"),
				 errdetail("\"max_worker_processes\" is %d, and should be %d at least for the settings as they are.  Without the launcher there is no scheduler.",
						   max_worker_processes,
						   pv_processes_wanted(&processes)),
				 errhint("Increase \"max_worker_processes\" and restart the server.")));
	}
}


/* ----------------------------------------------------------------
 *		Workers that were started
 * ----------------------------------------------------------------
 */

/*
 * Ends a worker that has not attached for long.  It waits for the lock of its
 * database, which a session holds that renames it, for instance.  Meanwhile it
 * has a slot of the server's, which the owner of a few databases could take
 * from all others that way.
 */
static void
end_if_late(Started *it, TimestampTz now)
{
	if (it->ended ||
		!TimestampDifferenceExceeds(it->started_at, now, PV_LATE_AFTER_MS))
		return;
	TerminateBackgroundWorker(it->handle);
	it->ended = true;
}

/* One that was started in that slot: has it attached, or ended before? */
static void
look_after(int slot)
{
	Started    *it = &started[slot];
	pid_t		pid;

	if (pv_queue_worker_started(slot, it->token))
		pv_databases_note_success(it->database);
	else if (GetBackgroundWorkerPid(it->handle, &pid) == BGWH_STOPPED)
	{
		pv_queue_dismiss(slot, it->token);
		pv_databases_note_failure(it->database);
	}
	else
	{
		end_if_late(it, pv_now());
		return;
	}
	pfree(it->handle);
	it->handle = NULL;
}

static void
look_after_started(void)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		if (started[i].handle != NULL)
			look_after(i);
	}
}

/* Was a worker started that has not attached yet? */
static bool
is_any_expected(void)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		if (started[i].handle != NULL)
			return true;
	}
	return false;
}

/* The server had no slot for a worker. */
static void
report_no_process(void)
{
	if (!no_process_reported)
		ereport(LOG,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("parvacuum's scheduler could not start a process"),
				 errdetail("All background worker slots are in use."),
				 errhint("You may need to increase max_worker_processes.")));
	no_process_reported = true;
}

/* Starts a worker for a database. */
static ActionResult
launch(const PvAction *action, TimestampTz now)
{
	uint32		token;
	int			slot = pv_queue_hire(action->database, action->to_scan,
									 action->takes_queue, &token);
	Started    *it;
	MemoryContext old_context;
	bool		good;

	if (slot == PV_NO_SLOT)
		return ACTION_NOT_DONE;
	it = &started[slot];
	if (it->handle != NULL)
		pfree(it->handle);
	it->token = token;
	it->database = action->database;
	it->started_at = now;
	it->ended = false;
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	good = pv_sched_start(action->database, slot, token, &it->handle);
	MemoryContextSwitchTo(old_context);
	if (good)
	{
		no_process_reported = false;
		return ACTION_DONE;
	}

	it->handle = NULL;
	pv_queue_dismiss(slot, token);
	pg_atomic_fetch_add_u64(&pv_queue_counters()->no_process, 1);
	report_no_process();
	return ACTION_NO_PROCESS;
}


/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

static ActionResult
carry_out(const PvAction *action, TimestampTz now, int naptime_ms)
{
	PvPlanDatabase *database = pv_databases_find(action->database);
	ActionResult result = ACTION_DONE;
	bool		scans = false;

	switch (action->kind)
	{
		case PV_ACTION_ASK_TO_LEAVE:
			pv_queue_call_back(action->database);
			break;
		case PV_ACTION_REQUEST_SCAN:
			scans = pv_queue_request_scan(action->database);
			break;
		case PV_ACTION_LAUNCH:
			result = launch(action, now);
			if (result == ACTION_DONE)
			{
				database->hired_at = now;
				scans = action->to_scan;
			}
			break;
	}
	if (scans)
		database->due = TimestampTzPlusMilliseconds(now, naptime_ms);
	return result;
}

/*
 * Makes a plan for the snapshot and carries it out.  When the server has no
 * slot for a worker, it has none for the next one either, but all that is no
 * launch is still to be done.
 *
 * Returns ACTION_DONE if all actions succeeded and no database is left without
 * a worker that it needs.
 */
static ActionResult
carry_out_plan(const PvSnapshot *snapshot, int naptime_ms)
{
	PvPlan		plan;
	ActionResult result;

	pv_plan(snapshot, &plan);
	result = plan.satisfied ? ACTION_DONE : ACTION_NOT_DONE;
	for (int i = 0; i < plan.n; i++)
	{
		ActionResult of_action;

		if (result == ACTION_NO_PROCESS &&
			plan.actions[i].kind == PV_ACTION_LAUNCH)
			continue;
		of_action = carry_out(&plan.actions[i], snapshot->now, naptime_ms);
		result = Max(result, of_action);
	}
	return result;
}

/*
 * Starts workers where they are needed, and has others leave.  Returns whether
 * each database that needs a worker has one.
 *
 * If the server has had no slot for another process for a while, the workers
 * that there are have to suffice.  Then a second plan is made, by which they
 * scan what is due, and one leaves its database if another one displaces it.
 * When that worker is gone its slot is free, as soon as the postmaster has
 * noticed; so this is not done again before the next naptime: others might
 * take that slot, and one worker after the other would leave.
 */
static bool
distribute_workers(PvSnapshot *snapshot, int naptime_ms)
{
	ActionResult result = carry_out_plan(snapshot, naptime_ms);

	if (result != ACTION_NO_PROCESS)
		no_process_since = room_made_at = PV_NEVER;
	else if (no_process_since == PV_NEVER)
		no_process_since = snapshot->now;
	else if (TimestampDifferenceExceeds(no_process_since, snapshot->now,
										PV_LOOK_FOR_WORKER_MS) &&
			 (room_made_at == PV_NEVER ||
			  TimestampDifferenceExceeds(room_made_at, snapshot->now,
										 naptime_ms)))
	{
		pv_queue_view(&snapshot->view, pv_max_large(pv_guc_scheduler_workers));
		snapshot->no_process = true;
		(void) carry_out_plan(snapshot, naptime_ms);
		room_made_at = snapshot->now;
	}
	return result == ACTION_DONE;
}

/*
 * Takes a view of the queues, makes a plan, and carries it out.  Returns the
 * milliseconds until the next plan, if no other process sets the latch before.
 */
static long
schedule(void)
{
	int			naptime_ms = autovacuum_naptime * 1000;
	PvSnapshot	snapshot = {0};
	PvOutcome	outcome = {0};
	TimestampTz next;

	look_after_started();
	pv_queue_view(&snapshot.view, pv_max_large(pv_guc_scheduler_workers));
	pv_databases_refresh(&snapshot.view, naptime_ms);
	pv_databases_let_rest(&snapshot.view);

	/* after that, so that databases that are new are due already */
	snapshot.now = pv_now();
	snapshot.naptime = naptime_ms * INT64CONST(1000);
	snapshot.nworkers = pv_guc_scheduler_workers;
	snapshot.databases = pv_databases_list(&snapshot.ndatabases);
	outcome.satisfied = distribute_workers(&snapshot, naptime_ms);
	pfree(unconstify(PvPlanDatabase *, snapshot.databases));

	outcome.expected = is_any_expected();
	outcome.busy = pv_queue_is_busy(pv_max_large(pv_guc_scheduler_workers));
	snapshot.databases = pv_databases_list(&snapshot.ndatabases);
	next = pv_plan_next(&outcome, snapshot.now, snapshot.naptime,
						snapshot.databases, snapshot.ndatabases);
	pfree(unconstify(PvPlanDatabase *, snapshot.databases));
	return TimestampDifferenceMilliseconds(snapshot.now, next);
}


/* ----------------------------------------------------------------
 *		The process
 * ----------------------------------------------------------------
 */

static void
follow_configuration(void)
{
	publish_rate();
	report_counts();
	report_processes();
}

static void
begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, PV_SIG_IGN);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	pv_databases_init();
	SetConfigOption("stats_fetch_consistency", "none", PGC_SUSET,
					PGC_S_OVERRIDE);
	pv_queue_launcher_begin();
	pv_history_set_writer(MyLatch);
	ereport(DEBUG1, (errmsg_internal("parvacuum launcher started")));
	follow_configuration();
}

/* The sooner of two times to wait, of which -1 means for ever. */
static long
sooner(long a, long b)
{
	if (a < 0 || b < 0)
		return Max(a, b);
	return Min(a, b);
}

/*
 * The launcher.  Signal handlers that only set flags are installed before any
 * signal can arrive; the one that background workers begin with raises FATAL
 * at once.
 */
void
parvacuum_launcher_main(Datum main_arg)
{
	begin();
	for (;;)
	{
		long		timeout = pv_guc_scheduler ? schedule() : -1;
		int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

		/* whether the scheduler is on or not */
		if (pv_queue_end_unresponsive())
			timeout = sooner(timeout, PV_LOOK_FOR_WORKER_MS);
		timeout = sooner(timeout, pv_history_do_due());

		(void) WaitLatch(MyLatch, events | (timeout >= 0 ? WL_TIMEOUT : 0),
						 timeout, pv_wait_event(PV_EVENT_LAUNCHER));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();

		/* with 0 the postmaster would not start the launcher again */
		if (ShutdownRequestPending)
			proc_exit(1);

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			follow_configuration();
		}
	}
}
