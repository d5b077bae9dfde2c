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
 *		read pg_database if that is due			(sched/databases.c)
 *		take a snapshot of the queue			(sched/queue.c)
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

#include <signal.h>

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

/* That was reported, and no worker was started since */
static bool no_process_reported = false;

/*
 * Milliseconds until the next plan: when workers were started, and while there
 * are none, or one is expected
 */
#define LOOK_AGAIN_MS			200
#define LOOK_FOR_WORKER_MS		1000


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
		processes->scheduler_workers = pv_guc_scheduler_workers;
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

/* The worker could not be started, or has ended before it attached. */
static void
remove_worker(int slot)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	PvWorkerSlot *it = &queues->shared->slots[slot];

	if (it->used && it->token == started[slot].token && it->pid == 0)
		pv_queue_remove_worker(queues, it);
	pv_queue_unlock();
}

/* Has the worker attached?  Also true if it has ended since. */
static bool
has_attached(int slot)
{
	const PvWorkerSlot *it = &pv_queue_lock(LW_SHARED)->shared->slots[slot];
	bool		attached = !it->used || it->token != started[slot].token ||
		it->pid != 0;

	pv_queue_unlock();
	return attached;
}

/* One that was started in that slot: has it attached, or ended before? */
static void
look_after(int slot)
{
	Started    *it = &started[slot];
	pid_t		pid;

	if (has_attached(slot))
		pv_databases_note_success(it->database);
	else if (GetBackgroundWorkerPid(it->handle, &pid) == BGWH_STOPPED)
	{
		remove_worker(slot);
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

/* A slot for a worker of the database, or -1. */
static int
add_worker(Oid database, bool to_scan, bool large, uint32 *token)
{
	PvDatabaseQueue *queue;
	PvQueues   *queues = pv_queue_lock_with(database, true, &queue);
	PvWorkerSlot *slot = queue == NULL ? NULL :
		pv_queue_add_worker(queues, queue, to_scan, large);
	int			n = -1;

	if (slot != NULL)
	{
		n = slot - queues->shared->slots;
		*token = slot->token;
		if (to_scan)
			pv_queue_request_scan(queues, queue);
	}
	pv_queue_unlock();
	return n;
}

/* Starts a worker for a database.  Returns false if the server has no process. */
static bool
launch(Oid database, bool to_scan, bool large, TimestampTz now,
	   int naptime_ms)
{
	uint32		token;
	int			slot = add_worker(database, to_scan, large, &token);
	Started    *it;
	MemoryContext old_context;
	bool		good;

	if (slot < 0)
		return true;
	it = &started[slot];
	if (it->handle != NULL)
		pfree(it->handle);
	it->token = token;
	it->database = database;
	it->started_at = now;
	it->ended = false;
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	good = pv_sched_start(database, slot, token, &it->handle);
	MemoryContextSwitchTo(old_context);
	if (good)
	{
		no_process_reported = false;
		pv_databases_note_start(database, now);
		if (to_scan)
			pv_databases_set_due(database,
								 TimestampTzPlusMilliseconds(now, naptime_ms));
		return true;
	}

	it->handle = NULL;
	remove_worker(slot);
	pg_atomic_fetch_add_u64(&pv_queue_counters()->no_process, 1);
	report_no_process();
	return false;
}

/*
 * Ends the workers that still are at what was cancelled some time ago.
 * Returns whether there is any worker that has not given up what was
 * cancelled.
 */
static bool
end_unresponsive(void)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		any = false;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];

		if (!slot->used || slot->canceled_at == PV_NEVER ||
			!(slot->busy || slot->scanning))
			continue;
		any = true;
		if (TimestampDifferenceExceeds(slot->canceled_at, queues->now,
									   PV_LATE_AFTER_MS))
			(void) kill(slot->pid, SIGTERM);
	}
	pv_queue_unlock();
	return any;
}


/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

/* Has a worker of the database scan it, if there still is one. */
static void
request_scan(Oid database, TimestampTz now, int naptime_ms)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	PvDatabaseQueue *queue = pv_queue_find(queues, database);
	bool		requested = queue != NULL && queue->nworkers > 0;

	if (requested)
		pv_queue_request_scan(queues, queue);
	pv_queue_unlock();
	if (requested)
		pv_databases_set_due(database,
							 TimestampTzPlusMilliseconds(now, naptime_ms));
}

/*
 * Carries out a plan.  Returns the milliseconds until the next one.  When the
 * server has no process for a worker, it has none for the next one either.
 */
static long
carry_out(const PvPlan *plan, const PvSnapshot *snapshot, int naptime_ms)
{
	long		again = naptime_ms;
	bool		no_process = false;

	for (int i = 0; i < plan->n; i++)
	{
		const PvAction *action = &plan->actions[i];
		Oid			database = snapshot->databases[action->which].oid;

		switch (action->kind)
		{
			case PV_ACTION_LAUNCH:
			case PV_ACTION_LAUNCH_TO_SCAN:
				if (!no_process)
					no_process = !launch(database, action->kind ==
										 PV_ACTION_LAUNCH_TO_SCAN,
										 action->large, snapshot->now,
										 naptime_ms);
				again = Min(again, no_process ? LOOK_FOR_WORKER_MS :
							LOOK_AGAIN_MS);
				break;
			case PV_ACTION_REQUEST_SCAN:
				request_scan(database, snapshot->now, naptime_ms);
				again = Min(again, LOOK_FOR_WORKER_MS);
				break;
			case PV_ACTION_CALL_BACK:
				pv_queue_call_back(pv_queue_lock(LW_EXCLUSIVE));
				pv_queue_unlock();
				break;
		}
	}
	return no_process ? LOOK_FOR_WORKER_MS : again;
}

/* See pv_queue_count_free(). */
static void
count_free(PvSnapshot *snapshot)
{
	pv_queue_count_free(pv_queue_lock(LW_SHARED), snapshot);
	pv_queue_unlock();
}

/*
 * Milliseconds until a database is due, or one that could not be connected to
 * is tried again; or sooner, if a worker is expected, or if a database may get
 * another one in a moment.
 */
static long
next_due(const PvSnapshot *snapshot)
{
	TimestampTz next = PG_INT64_MAX;
	long		soon = LOOK_FOR_WORKER_MS;

	for (int i = 0; i < snapshot->n; i++)
	{
		const PvPlanDatabase *database = &snapshot->databases[i];

		if (database->counted || database->age > 1)
			next = Min(next, Max(database->due, database->not_before));
		if (database->expected)
			next = Min(next, snapshot->now);
		if (database->has_first && database->nworkers > 0 &&
			snapshot->nfree > 0)
			soon = LOOK_AGAIN_MS;
	}
	if (soon == LOOK_AGAIN_MS)
		return soon;
	return Max(TimestampDifferenceMilliseconds(snapshot->now, next), soon);
}

/*
 * Makes a plan, and carries it out.  Returns the milliseconds until the next
 * plan, if no other process sets the latch before, as a worker does that ends.
 */
static long
schedule(void)
{
	int			naptime_ms = autovacuum_naptime * 1000;
	static int	nscans = 0;
	PvSnapshot	snapshot = {.nscans = nscans};
	PvPlan		plan;
	PvPlanDatabase *databases;
	long		again;

	look_after_started();
	databases = pv_databases_list(naptime_ms, &snapshot.n);
	snapshot.databases = databases;
	/* after that, so that databases that are new are due already */
	snapshot.now = pv_now();
	count_free(&snapshot);
	pv_plan(&snapshot, &plan);
	nscans = plan.nscans;
	again = carry_out(&plan, &snapshot, naptime_ms);
	pfree(plan.actions);
	pfree(databases);

	databases = pv_databases_list(naptime_ms, &snapshot.n);
	snapshot.databases = databases;
	count_free(&snapshot);
	again = Min(again, next_due(&snapshot));
	pfree(databases);
	return again;
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
		if (end_unresponsive())
			timeout = sooner(timeout, LOOK_FOR_WORKER_MS);
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
