/*-------------------------------------------------------------------------
 *
 * pv_launcher.c
 *	  The process that follows the configuration for vacuums in progress.
 *
 * An autovacuum worker that vacuums with parallel workers cannot reload the
 * configuration: settings must not change in parallel mode.  But a table may
 * take hours, and an administrator who finds it too slow, or too greedy, wants
 * new cost limits to reach it now.  So this process reloads in its stead, and
 * publishes the limits in shared memory (pv_shmem.c), where leaders read them
 * between two pages (pv_cost.c).
 *
 * It is one background worker, started at preload once recovery is over, and
 * sleeps until a reload.  It is connected to no database, only so far that
 * pg_stat_activity shows it, and takes no locks but a spinlock.  Without it, where max_worker_processes leaves it no place,
 * new limits reach the next table only.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "pv_cost.h"
#include "pv_launcher.h"
#include "pv_shmem.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"

#define PV_LAUNCHER_TYPE		"parvacuum launcher"

/* Seconds until the postmaster starts it again, should it fail. */
#define RESTART_AFTER			5

/* Has the postmaster start it.  Only while it loads libraries. */
void
pv_launcher_init(void)
{
	BackgroundWorker worker;

	Assert(process_shared_preload_libraries_in_progress);

	if (IsBinaryUpgrade || !IsPostmasterEnvironment)
		return;

	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, PV_LAUNCHER_TYPE);
	snprintf(worker.bgw_type, BGW_MAXLEN, PV_LAUNCHER_TYPE);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_AFTER;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "parvacuum");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "parvacuum_launcher_main");
	RegisterBackgroundWorker(&worker);
}

/* Tells leaders what the configuration says now. */
static void
publish_budget(void)
{
	PvCostBudget budget;

	pv_cost_of_autovacuum(&budget);
	pv_shmem_publish_budget(&budget);
}

/*
 * The launcher.  Handlers that only set flags are there before any signal can
 * arrive; the one that background workers begin with raises FATAL at once.
 */
void
parvacuum_launcher_main(Datum main_arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	publish_budget();
	for (;;)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();

		/* not 0, or the postmaster would forget us if somebody just ended us */
		if (ShutdownRequestPending)
			proc_exit(1);

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			publish_budget();
		}
	}
}
