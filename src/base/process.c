/*-------------------------------------------------------------------------
 *
 * process.c
 *	  What all our background workers have in common.
 *
 * A leader that fails, or is cancelled or ended, has core end its parallel
 * workers: the end of its transaction sends each of them SIGTERM, and waits.  In
 * core such a worker says "terminating connection due to administrator command"
 * in the log, though nobody has told it to.  An autovacuum that gives way to a
 * lock would cause that every time.
 *
 * So our leaders say that they have given up, by a flag in shared memory, before
 * the error leaves our code or the process begins to end.  A worker of ours has
 * a SIGTERM handler that looks at the flag.  If it is set, the worker behaves as
 * if it had been cancelled: at the next place where interrupts are served an
 * error unwinds its stack.  pv_process_work() catches that error, and the worker
 * ends without a word.  Without the flag SIGTERM is what it is in core.
 *
 * Nobody waits for anything new by that.  The leader sets a flag and goes on;
 * core sends the signal and waits as ever.  A worker is reached wherever SIGTERM
 * would reach it, also while it waits for a lock, for a cleanup lock or at a
 * barrier, since a cancel interrupts all of these.  An error that is not this
 * cancel is reported as ever.  Should code of users catch the cancel, the worker
 * ends where it would next wait for others, or by a second SIGTERM.  A worker
 * that has not come to our code yet ends as in core.
 *
 * Core: access/transam/parallel.c, DestroyParallelContext; tcop/postgres.c,
 * ProcessInterrupts; postmaster/bgworker.c, StartBackgroundWorker.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
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

/* Leader: its flag, while that is mapped and there are workers */
static pg_atomic_uint32 *led_by_flag = NULL;

/*
 * Leader, in whatever way it leaves its workers: if it is not known by now that they have
 * ended well, tell them.
 */
void
pv_process_give_up(void)
{
	if (led_by_flag != NULL)
		pg_atomic_write_u32(led_by_flag, 1);
	led_by_flag = NULL;
}

static void
give_up_at_exit(int code, Datum arg)
{
	pv_process_give_up();
}

/*
 * Leader: this is the flag for the workers that are about to be launched, or NULL when
 * they have ended.
 */
void
pv_process_lead(pg_atomic_uint32 *flag)
{
	static bool registered = false;

	/* It stays, since it could be taken back only while it is the latest one */
	if (!registered)
		before_shmem_exit(give_up_at_exit, (Datum) 0);
	registered = true;
	led_by_flag = flag;
}

/* Parallel worker: its leader's flag, while that is mapped, and whether we have heeded it */
static pg_atomic_uint32 *volatile leader_flag = NULL;
static volatile sig_atomic_t must_leave = false;

/*
 * SIGTERM in a parallel worker: a cancel if the leader has given up, but only once.
 */
static void
leave_or_die(SIGNAL_ARGS)
{
	pg_atomic_uint32 *flag = leader_flag;
	int			save_errno = errno;

	if (flag == NULL || must_leave || proc_exit_inprogress ||
		pg_atomic_read_u32(flag) == 0)
	{
		die(postgres_signal_arg);
		return;
	}
	must_leave = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/* The process ends within its work, and the flag is about to be unmapped. */
static void
forget_leader(int code, Datum arg)
{
	leader_flag = NULL;
}

/*
 * Parallel worker, before it waits for others and when its work is done: has it been told
 * to leave, and is here all the same?  Then somebody has caught the cancel, or it comes
 * too late to be noticed.
 */
void
pv_process_check_leader(void)
{
	CHECK_FOR_INTERRUPTS();
	if (must_leave)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling parallel worker because its leader has given up")));
}

/*
 * Parallel worker: do the work, and end the process without a word if the leader gives
 * up meanwhile.  The flag is in the segment of the parallel context.
 */
void
pv_process_work(pg_atomic_uint32 *leader_gave_up, void (*work) (void *arg),
				void *arg)
{
	/*
	 * This runs before the callback of core's that unmaps the segment.  It stays
	 * registered: it cannot be taken back if another one has come after it.
	 */
	before_shmem_exit(forget_leader, (Datum) 0);
	leader_flag = leader_gave_up;
	pqsignal(SIGTERM, leave_or_die);

	PG_TRY();
	{
		work(arg);
		pqsignal(SIGTERM, die);
		pv_process_check_leader();
	}
	PG_CATCH();
	{
		if (!must_leave || geterrcode() != ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();

		/* As core ends a background worker after an error, but for the report */
		error_context_stack = NULL;
		HOLD_INTERRUPTS();
		FlushErrorState();
		proc_exit(0);
	}
	PG_END_TRY();
	leader_flag = NULL;
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
