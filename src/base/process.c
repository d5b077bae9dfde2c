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

#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/backend_status.h"

#include "base/process.h"

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

/* Whom this process acts for, as others see it. */
void
pv_process_identity(PvIdentity *identity)
{
	identity->role = MyProc->roleId;
	identity->shown_role = MyBEEntry->st_userid;
}

/*
 * Show that identity as ours, to those who list processes and to those who ask whether they may
 * signal us.  What this process may do does not depend on it.
 *
 * A process that vacuums for a caller is connected as the bootstrap superuser, whom nobody but a
 * superuser could stop.  A parallel worker is connected as its leader has authenticated.  For an
 * autovacuum worker and for a process of ours without a user that is the bootstrap superuser too,
 * though these themselves show nobody or the caller.  So its owner could not drop a database
 * with FORCE because of a worker, where its leader would not have been in the way, and the
 * caller of a run could not signal the run's own workers.
 *
 * Storing the role is right.  Core does it once, when a process has its user, without a lock:
 * it is an aligned word, which others read without one.  They are pg_signal_backend() and
 * TerminateOtherDBBackends(), which compare it with their user, and CountUserBackends(), which
 * leaves background workers out.  Nobody keeps a copy, and the next process that gets our place
 * sets it anew.
 *
 * Core: miscinit.c, InitializeSessionUserId; signalfuncs.c, pg_signal_backend; procarray.c,
 * TerminateOtherDBBackends.
 */
void
pv_process_show_identity(const PvIdentity *identity)
{
	MyProc->roleId = identity->role;

	PGSTAT_BEGIN_WRITE_ACTIVITY(MyBEEntry);
	MyBEEntry->st_userid = identity->shown_role;
	PGSTAT_END_WRITE_ACTIVITY(MyBEEntry);
}

/*
 * Change what others see of this process in the process array.  The flags are copied
 * there under the lock that those who compute snapshots and horizons hold.
 * Core: commands/vacuum.c, vacuum_rel.
 */
void
pv_process_change_status(uint8 set, uint8 clear)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags = (MyProc->statusFlags | set) & ~clear;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}
