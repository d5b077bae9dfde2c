/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that follows the configuration, and has databases vacuumed.
 *
 * It is one background worker, registered at preload and started when recovery
 * is over.  It is connected to no database, only so far that it can read
 * pg_database.  It publishes the cost units per second that all scheduler
 * workers may use together, and writes the history file (stats/history.c).
 *
 * Scheduler workers (sched/worker.c) are started in a loop:
 *
 *		cancel, and then end, what takes too long
 *		read pg_database, once in a naptime
 *		look at the queue						(sched/queue.c)
 *		start workers							(sched/policy.c says for what)
 *		wait, until something is due or another process sets the latch
 *
 * Core: postmaster/autovacuum.c, AutoVacLauncherMain.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/interrupt.h"
#include "replication/logicallauncher.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/process.h"
#include "sched/queue.h"
#include "stats/history.h"
#include "throttle/cost.h"
#include "throttle/pace.h"

/* Seconds until the postmaster starts it again, should it fail. */
#define RESTART_AFTER			1

/*
 * Milliseconds until the launcher looks again: when it has started workers,
 * and when a worker is expected, or there was no process for one
 */
#define LOOK_AGAIN_MS			200
#define LOOK_FOR_WORKER_MS		1000

/* The databases, and when they were last read */
static PvDatabases all;
static TimestampTz read_at = PV_NEVER;

/*
 * Return the least that max_worker_processes must be so that everything that
 * the settings ask for gets its processes: all come out of one pool, and the
 * server reserves none.  Those of other extensions and of subscriptions come
 * on top.
 */
int
pv_processes_wanted(void)
{
	return 1 + (max_logical_replication_workers > 0) + max_parallel_workers +
		pv_guc_max_runs + PV_SCHED_WORKERS_WANTED;
}

/* Warn once if max_worker_processes is lower than the settings ask for. */
static void
report_processes(void)
{
	static int	reported = 0;
	int			wanted = pv_processes_wanted();

	if (wanted <= max_worker_processes)
		reported = 0;
	else if (wanted != reported)
	{
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("\"max_worker_processes\" is too low for parvacuum's settings"),
				 errdetail("It is %d, and should be %d at least: for parallel workers (\"max_parallel_workers\" is %d), runs (\"parvacuum.max_runs\" is %d), the scheduler (%d), and launchers.",
						   max_worker_processes, wanted, max_parallel_workers,
						   pv_guc_max_runs, PV_SCHED_WORKERS_WANTED),
				 errhint("Increase \"max_worker_processes\" and restart the server, or lower the others.")));
		reported = wanted;
	}
}

/* Tell scheduler workers what the configuration allows them now. */
static void
follow_configuration(void)
{
	PvCostBudget budget;
	int64		rate = pv_guc_scheduler_max_cost;

	pv_cost_of_autovacuum(&budget);
	if (rate < 0)
		rate = budget.delay > 0 ? budget.limit * 1000 / budget.delay : 0;
	pv_cost_set_fixed_rate(rate);
	report_processes();
}

/*
 * Postmaster: register the launcher, while libraries are preloaded.  If there
 * is no slot for it, core says so.  Scheduler workers have no slots that are
 * kept for them: a static one cannot leave a database without exiting, and
 * keeps its slot only if it exits with an error.
 */
void
pv_launcher_init(void)
{
	BackgroundWorker worker;

	if (IsBinaryUpgrade || !IsPostmasterEnvironment)
		return;

	pv_process_describe(&worker, PV_LAUNCHER_TYPE, "parvacuum_launcher_main");
	worker.bgw_restart_time = RESTART_AFTER;
	RegisterBackgroundWorker(&worker);
}

/* Set what pg_database says about a database. */
static void
note_database(Form_pg_database form, PvDatabase *database)
{
	memset(database, 0, sizeof(PvDatabase));
	database->oid = form->oid;
	database->counted = pgstat_fetch_stat_dbentry(form->oid) != NULL;
	database->age =
		Max(pv_age_of_database(form->datfrozenxid, ReadNextTransactionId(),
							   autovacuum_freeze_max_age),
			pv_age_of_database(form->datminmxid, ReadNextMultiXactId(),
							   MultiXactMemberFreezeThreshold()));
}

/*
 * Remove the queues of databases that are gone, batch by batch.  One that was
 * made after that moment, when pg_database was read, may be of a new database.
 */
static void
drop_queues(TimestampTz begun)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		more;

	for (int i = 0; i < all.n; i++)
	{
		PvDatabaseQueue *queue = pv_queue_find(queues, all.list[i].oid);

		if (queue != NULL)
			queue->known_at = queues->now;
	}
	pv_queue_unlock();

	do
	{
		dlist_mutable_iter iter;

		queues = pv_queue_lock(LW_EXCLUSIVE);
		more = false;
		dlist_foreach_modify(iter, &queues->shared->databases)
		{
			PvDatabaseQueue *queue = dlist_container(PvDatabaseQueue, node,
													 iter.cur);

			more = queue->known_at < begun &&
				pv_queue_drop_some(queues, queue);
			if (more)
				break;
		}
		pv_queue_unlock();
	} while (more);
}

/*
 * Read pg_database, but for databases that a failed DROP DATABASE has left
 * invalid.  If it is locked, the databases remain as they were last read.
 * An error leaves the list incomplete, and ends the launcher.
 */
static void
read_databases(void)
{
	static int	room = 64;
	TimestampTz begun = pv_now();
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	if (!ConditionalLockRelationOid(DatabaseRelationId, AccessShareLock))
	{
		CommitTransactionCommand();
		return;
	}
	if (all.list == NULL)
		all.list = MemoryContextAlloc(TopMemoryContext,
									  room * sizeof(PvDatabase));
	all.n = 0;
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, NoLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (database_is_invalid_form(form))
			continue;
		if (all.n == room)
		{
			all.list = repalloc_huge(all.list, 2 * room * sizeof(PvDatabase));
			room *= 2;
		}
		note_database(form, &all.list[all.n++]);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	read_at = pv_now();
	drop_queues(begun);
}

/*
 * Add what the queue says.  Return false if pg_database is to be read again:
 * there is a queue of an unknown database, or no worker could connect to one,
 * which may be gone.
 */
static bool
describe_databases(void)
{
	const PvQueues *queues = pv_queue_lock(LW_SHARED);
	int			nunknown = hash_get_num_entries(queues->databases);
	bool		any_failed = false;

	pv_queue_count_free(queues, &all);
	for (int i = 0; i < all.n; i++)
	{
		const PvDatabaseQueue *queue = pv_queue_find(queues, all.list[i].oid);

		if (queue == NULL)
			continue;
		nunknown--;
		any_failed |= queue->failed_at >= read_at;
		pv_queue_describe(queues, queue, &all.list[i]);
	}
	pv_queue_unlock();
	return nunknown == 0 && !any_failed;
}

/*
 * Start a worker, which shows its token when it attaches to its slot.  Return
 * false if the server has no process; report that once.
 */
static bool
launch(const PvNextWorker *next)
{
	static bool reported = false;
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	PvWorkerSlot *slot = pv_queue_add_worker(queues, next->database->oid,
											 next->to_scan, next->large);
	uint32		token = slot == NULL ? 0 : slot->token;
	BackgroundWorker worker;

	pv_queue_unlock();
	if (slot == NULL)
		return true;
	pv_process_describe(&worker, PV_SCHED_TYPE, "parvacuum_sched_main");
	worker.bgw_main_arg = Int32GetDatum(slot - queues->shared->slots);
	memcpy(worker.bgw_extra, &token, sizeof(token));
	worker.bgw_notify_pid = MyProcPid;	/* also of the slot's release */
	if (RegisterDynamicBackgroundWorker(&worker, NULL))
	{
		reported = false;
		return true;
	}
	pv_queue_remove_worker(pv_queue_lock(LW_EXCLUSIVE), slot);
	pv_queue_unlock();
	pv_sched_count(PV_COUNT_NO_PROCESS);
	if (!reported)
		ereport(LOG,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("parvacuum's scheduler could not start a process"),
				 errdetail("All background worker slots are in use."),
				 errhint("You may need to increase max_worker_processes.")));
	reported = true;
	return false;
}

/*
 * Is a worker at its table, or at functions of the owner there, for longer
 * than it may be?  If settings change, the longest time that they gave counts.
 */
static bool
is_late(PvStage *stage, bool for_owner, TimestampTz now)
{
	int64		rate = pv_cost_fixed_rate();
	double		longest = pv_longest(stage->pages, for_owner, rate,
									 pv_guc_scheduler_workers,
									 pv_guc_longest_at_table * USECS_PER_SEC);

	stage->longest = Max(stage->longest, longest);
	return stage->since != PV_NEVER && now - stage->since > stage->longest;
}

/*
 * Functions of the owner may run while core's code cleans up indexes.  Then
 * the worker has no place at large tables, as in pv_queue_set_for_owner().
 */
static void
look_at_core(PvWorkerSlot *slot, TimestampTz now)
{
	if (slot->core_phase == NULL)
		return;
	if (*slot->core_phase != PROGRESS_VACUUM_PHASE_INDEX_CLEANUP)
		slot->for_owner.since = PV_NEVER;
	else if (slot->for_owner.since == PV_NEVER)
	{
		slot->for_owner = (PvStage) {now, slot->at_table.pages, 0};
		slot->large = false;
	}
}

/*
 * Cancel what takes too long.  End workers that still are at what was canceled
 * some time ago, since a function may have caught the cancel, and those that
 * still wait for the lock of their database.  Free the slots of workers that
 * have not attached by then: they may have ended without any report, if the
 * launcher before has started them.  Tell the pacer how urgent the tables at
 * work are.  Return whether there is any worker.
 */
static bool
look_at_workers(void)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		any = false;
	double		haste = 0;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot = &queues->shared->slots[i];
		bool		connecting = slot->used && !slot->connected;
		TimestampTz since = connecting ? slot->since : slot->canceled_at;

		any |= slot->used;
		if (slot->entry != NULL && !slot->entry->item.tried)
			haste = Max(haste, slot->entry->item.score.haste);
		if (!connecting && slot->entry == NULL && !slot->scanning)
			continue;
		look_at_core(slot, queues->now);
		if (since == PV_NEVER && slot->entry != NULL &&
			(is_late(&slot->at_table, false, queues->now) ||
			 is_late(&slot->for_owner, true, queues->now)))
		{
			slot->late = true;
			(void) pv_queue_cancel(queues, slot);
		}
		if (since == PV_NEVER ||
			!TimestampDifferenceExceeds(since, queues->now, PV_LATE_AFTER_MS))
			continue;
		if (slot->pid != 0)
			(void) kill(slot->pid, SIGTERM);
		else
			pv_queue_fail_worker(queues, slot);
	}
	pv_queue_unlock();
	pv_pacer_hurry(haste);
	return any;
}

/*
 * Return the milliseconds until a database is due, or less if a worker is
 * expected or may be added.
 */
static long
next_due(void)
{
	TimestampTz next = all.now + autovacuum_naptime * USECS_PER_SEC;

	for (int i = 0; i < all.n; i++)
	{
		const PvDatabase *database = &all.list[i];

		if (database->has_first && database->nworkers > 0 && all.nfree > 0)
			return LOOK_AGAIN_MS;
		if (database->expected)
			next = all.now;
		else if (database->counted || database->age > 1)
			next = Min(next, Max(database->due, database->not_before));
	}
	return Max(TimestampDifferenceMilliseconds(all.now, next),
			   LOOK_FOR_WORKER_MS);
}

/*
 * Start the workers that are due.  Return the milliseconds until the launcher
 * is to look again, if no other process sets its latch before.
 */
static long
schedule(void)
{
	PvNextWorker next;
	long		longest = autovacuum_naptime * 1000;

	if (TimestampDifferenceExceeds(read_at, pv_now(),
								   autovacuum_naptime * 1000))
		read_databases();
	if (!describe_databases())
	{
		read_databases();
		(void) describe_databases();
	}

	while (pv_next_worker(&all, &next))
	{
		if (!launch(&next))
			return LOOK_FOR_WORKER_MS;
		longest = LOOK_AGAIN_MS;
	}
	return Min(longest, next_due());
}

/* Make this process the launcher. */
static void
begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, PV_SIG_IGN);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	SetConfigOption("stats_fetch_consistency", "none", PGC_SUSET,
					PGC_S_OVERRIDE);
	pv_launcher_begin();
	ereport(DEBUG1, (errmsg_internal("parvacuum launcher started")));
	pv_pacer_begin();
	follow_configuration();
}

/* Return the sooner of two times to wait, of which -1 means for ever. */
static long
sooner(long a, long b)
{
	if (a < 0 || b < 0)
		return Max(a, b);
	return Min(a, b);
}

/*
 * The launcher.  Its signal handlers only set flags; the one that background
 * workers begin with raises FATAL at once.
 */
void
parvacuum_launcher_main(Datum main_arg)
{
	begin();
	for (;;)
	{
		/* first, as an owner's function may have made the rest impossible */
		bool		any = look_at_workers();
		long		timeout = pv_guc_scheduler ? schedule() : -1;

		if (any)
			timeout = sooner(timeout, LOOK_FOR_WORKER_MS);
		timeout = sooner(timeout, pv_history_do_due());

		pv_pacer_wait(timeout);
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
