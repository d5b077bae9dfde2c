/*-------------------------------------------------------------------------
 *
 * pv_process.c
 *	  What all our background workers have in common.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pv_process.h"

/*
 * Describe a process to the postmaster: one that connects to a database, is not
 * for a standby, and is not started again when it ends.  The type is what
 * pg_stat_activity shows, and also its name; the function is one of ours.
 */
void
pv_process_describe(BackgroundWorker *worker, const char *type,
					const char *function)
{
	memset(worker, 0, sizeof(*worker));
	strlcpy(worker->bgw_name, type, BGW_MAXLEN);
	strlcpy(worker->bgw_type, type, BGW_MAXLEN);
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker->bgw_library_name, "parvacuum", BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
}
