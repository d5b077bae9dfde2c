/*-------------------------------------------------------------------------
 *
 * process.c
 *	  What parvacuum's background workers have in common.
 *
 * When a leader fails, or is canceled or terminated, the end of its
 * transaction sends SIGTERM to its parallel workers, and waits for them.  In
 * core such a worker logs "terminating connection due to administrator
 * command".  Each autovacuum that gives way to a lock would cause that.
 *
 * So our leaders set a flag in shared memory before the error leaves our code
 * or the process begins to exit.  If the SIGTERM handler of a worker finds it
 * set, the worker acts as if it were canceled: where it next serves
 * interrupts, an error unwinds its stack.  pv_process_work() catches the
 * error, and the worker ends without a message.  If the flag is not set,
 * SIGTERM does what it does in core.
 *
 * If a function of a user catches the cancel, the worker ends where it would
 * next wait for others, or by a second SIGTERM.  A worker that has not reached
 * our code yet ends as in core.
 *
 * Core: access/transam/parallel.c, DestroyParallelContext; tcop/postgres.c,
 * ProcessInterrupts; postmaster/bgworker.c, StartBackgroundWorker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <signal.h>

#include "common/string.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"

#include "base/compat.h"
#include "base/process.h"

/*
 * Clear a cancel that was sent to this process, but perhaps not yet delivered.
 * A pending signal that is not blocked is delivered before sigprocmask()
 * returns (POSIX), so none arrives after this.
 */
void
pv_process_clear_cancel(void)
{
	sigprocmask(SIG_SETMASK, &UnBlockSig, NULL);
	QueryCancelPending = false;
}

/*
 * Return the path of this library, as core knows it.  A process that is to run
 * a function of the library then finds it among those that it has, and needs
 * no file.  By its name it would be looked for in dynamic_library_path, and a
 * package may remove or replace the file while the server is running.
 *
 * Core: utils/fmgr/dfmgr.c, load_external_function, internal_load_library.
 */
const char *
pv_process_library(void)
{
	static char inside = 0;
	Dl_info		info;

	return dladdr(&inside, &info) != 0 ? info.dli_fname : "parvacuum";
}

/*
 * Describe a background worker that connects to a database.  It runs a
 * function of this library, not on a standby, and is not restarted.  Its type,
 * which pg_stat_activity shows, is also its name.
 */
void
pv_process_describe(BackgroundWorker *worker, const char *type,
					const char *function)
{
	const char *library = pv_process_library();

	memset(worker, 0, sizeof(*worker));
	strlcpy(worker->bgw_name, type, BGW_MAXLEN);
	strlcpy(worker->bgw_type, type, BGW_MAXLEN);
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	/* The postmaster truncates it, and replaces what is not ASCII. */
	strlcpy(worker->bgw_library_name,
			pg_is_ascii(library) &&
			strlen(library) < sizeof(worker->bgw_library_name) ?
			library : "parvacuum", sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
}

/* Is that process a background worker of this type? */
bool
pv_process_is(int pid, const char *type)
{
	const char *its_type = GetBackgroundWorkerTypeByPid(pid);

	return its_type != NULL && strcmp(its_type, type) == 0;
}

/* Leader: its flag, while the flag is mapped and there are workers */
static pg_atomic_uint32 *led_by_flag = NULL;

/*
 * Leader: set its flag, unless its workers have ended.  Call this on every way
 * out of our code.
 */
void
pv_process_give_up(void)
{
	if (led_by_flag != NULL)
		pg_atomic_write_u32(led_by_flag, 1);
	led_by_flag = NULL;
}

/* The process exits: give up, if that has not been done. */
static void
give_up_at_exit(int code, Datum arg)
{
	pv_process_give_up();
}

/*
 * Leader: register the flag for the workers that are about to be launched;
 * NULL when they have ended.
 */
void
pv_process_lead(pg_atomic_uint32 *flag)
{
	static bool registered = false;

	/* It stays registered: only the latest callback could be canceled */
	if (!registered)
		before_shmem_exit(give_up_at_exit, (Datum) 0);
	registered = true;
	led_by_flag = flag;
}

/*
 * Parallel worker: its leader's flag, while the flag is mapped, and whether
 * the handler has seen it set
 */
static pg_atomic_uint32 *volatile leader_flag = NULL;
static volatile sig_atomic_t saw_leader_give_up = false;

/*
 * Handler of SIGTERM in a parallel worker: a cancel if the leader has given
 * up, but only the first time.
 */
static void
leave_or_die(SIGNAL_ARGS)
{
	pg_atomic_uint32 *flag = leader_flag;
	int			save_errno = errno;

	if (flag == NULL || saw_leader_give_up || proc_exit_inprogress ||
		pg_atomic_read_u32(flag) == 0)
	{
		die(PV_SIGNAL_ARGS_PASSED);
		return;
	}
	saw_leader_give_up = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/* The process exits within its work, and the flag is about to be unmapped. */
static void
forget_leader(int code, Datum arg)
{
	leader_flag = NULL;
}

/*
 * Parallel worker, before it waits for others and when its work is done: raise
 * the cancel again if the leader has given up.  A function of a user may have
 * caught the first one, or it came too late to be noticed.
 */
void
pv_process_check_leader(void)
{
	CHECK_FOR_INTERRUPTS();
	if (saw_leader_give_up)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling parallel worker because its leader has given up")));
}

/*
 * Parallel worker: do the work, and end the process without a message if the
 * leader gives up meanwhile.  The flag is in the segment of the parallel
 * context.
 */
void
pv_process_work(pg_atomic_uint32 *leader_gave_up, void (*work) (void *arg),
				void *arg)
{
	/* It runs before core unmaps the segment; see pv_process_lead() */
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
		if (!saw_leader_give_up || geterrcode() != ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();

		/* End as a background worker does after an error, but report nothing */
		error_context_stack = NULL;
		HOLD_INTERRUPTS();
		FlushErrorState();
		proc_exit(0);
	}
	PG_END_TRY();
	leader_flag = NULL;
}
