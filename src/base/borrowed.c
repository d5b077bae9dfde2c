/*-------------------------------------------------------------------------
 *
 * borrowed.c
 *	  State of the server that parvacuum changes although it is not its own.
 *
 * Core offers no function for what is done here.  Each function below says
 * why it is right, on each major version from 15 to 19.  When a new major
 * version appears, its authors of core may have changed any of this, so each
 * argument must be checked again.
 *
 *	State of core					Process				Why
 *	PGPROC.statusFlags				scheduler worker		others treat it as autovacuum
 *	PGPROC.roleId, st_userid		workers, leaders		others see whom it acts for
 *	other processes' PGPROCs		read only, no lock		counts, waits
 *	InitializingParallelWorker		background leader		roles are not looked up
 *	XactReadOnly					leader, worker			owners' functions cannot write
 *	PortalContext					background processes	ANALYZE allocates there
 *	VacuumCostBalance and limit		scheduler worker		core's delay point sleeps for us
 *
 * One more variable of core is replaced in a file of its own: the
 * relation_vacuum slot of heap's table access method, in the room entry/.
 *
 * Not counted as borrowed are variables that core declares for signal
 * handlers and their main loops (QueryCancelPending, InterruptPending,
 * ConfigReloadPending), which background processes set as autovacuum.c does,
 * and what is only read of this process's own state.
 *
 * All of this concerns the process that calls, which needs no lock for it
 * except where a function says so.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/borrowed.h"
#include "base/compat.h"

/*
 * The balance while a sleep is due.  No process uses that many cost units
 * between two delay points.
 */
#define DUE_BALANCE				(1 << 24)


/* ----------------------------------------------------------------
 *		The process array
 * ----------------------------------------------------------------
 */

/*
 * Sets status flags of this process.
 *
 * There are two copies of the flags in shared memory.  A process that computes a
 * snapshot or a horizon reads the copy in ProcGlobal under ProcArrayLock.  So both
 * copies are changed with that lock held exclusively.  On 15 to 19 vacuum_rel()
 * does so with the same two assignments.
 *
 * Core: commands/vacuum.c, vacuum_rel.
 */
static void
set_status(uint8 flags)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags |= flags;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

/*
 * Has others treat this process as an autovacuum worker, until it ends.
 *
 * On 15 to 19 the flag is read in these places:
 *
 *		DeadLockCheck(), ProcSleep()	a waiter cancels the holder of its lock
 *		CountOtherDBBackends()			DROP DATABASE terminates the process
 *		WaitForOlderSnapshots()			CREATE INDEX CONCURRENTLY does not wait
 *										for its snapshots
 *
 * All of that is right for a scheduler worker, which does nothing that an
 * autovacuum worker does not do.  No place concludes from the flag that the
 * process has an entry in autovacuum's shared memory.
 *
 * Core sets the flag before it adds a process to the array, and it is not in
 * PROC_VACUUM_STATE_MASK, so the end of a transaction does not clear it.
 * Core: storage/lmgr/proc.c, InitProcess.
 */
void
pv_show_as_autovacuum(void)
{
	set_status(PROC_IS_AUTOVACUUM);
}

/*
 * Has others ignore the snapshots of this transaction when they compute
 * horizons.  The transaction must not have a snapshot or an XID yet, and may
 * do nothing but vacuum one table.  Its end clears the flag.
 *
 * Core: commands/vacuum.c, vacuum_rel; storage/ipc/procarray.c,
 * ProcArrayEndTransaction.
 */
void
pv_show_in_vacuum(void)
{
	Assert(!TransactionIdIsValid(MyProc->xmin) &&
		   !TransactionIdIsValid(MyProc->xid));
	set_status(PROC_IN_VACUUM);
}

/*
 * Has waiters not cancel this process although it looks like an autovacuum
 * worker, until the transaction ends.  Core sets this flag together with
 * PROC_IN_VACUUM.  A scheduler worker knows only when it has locked the table
 * whether its vacuum is to prevent wraparound.  The flag may be set later,
 * because no horizon depends on it.  On 15 to 19 only ProcSleep() reads it,
 * in the waiting process, after deadlock_timeout.
 *
 * Core: commands/vacuum.c, vacuum_rel; storage/lmgr/proc.c, ProcSleep.
 */
void
pv_show_against_wraparound(void)
{
	set_status(PROC_VACUUM_FOR_WRAPAROUND);
}

/* The role that this process acts for, as others see it. */
void
pv_process_identity(PvIdentity *identity)
{
	identity->role = MyProc->roleId;
	identity->shown_role = MyBEEntry->st_userid;
}

/*
 * Shows that role as the one that this process acts for, to those who list
 * processes and to those who check whether they may signal it.  The rights of
 * this process do not depend on it.
 *
 * A process that vacuums for a caller is connected as the bootstrap superuser,
 * so only a superuser could stop it.  A parallel worker is connected as the
 * user that its leader has authenticated.  For the workers of an autovacuum
 * worker and of a process without a user that is the bootstrap superuser too,
 * although the leaders themselves show no role or the caller's.  Then the
 * owner of a database could not drop it with FORCE because of such a worker,
 * where its leader would not have been in the way, and the caller of a run
 * could not signal the workers of that run.
 *
 * It is right to store the role on 15 to 19.  Core does so once, when the
 * process has its user, without a lock: the role is an aligned word, which
 * others read without a lock.  They are pg_signal_backend() and
 * TerminateOtherDBBackends(), which compare it with their user, and
 * CountUserBackends(), which leaves background workers out.  Core keeps no
 * copy of it, and the next process that gets this PGPROC sets it anew.
 * st_userid has the protocol of its own that backend_status.h describes.  Core
 * stores it in pgstat_bestart() (15 to 17) or pgstat_bestart_final() (18, 19) and
 * only reads it after that.
 *
 * Core: utils/init/miscinit.c, InitializeSessionUserId;
 * storage/ipc/signalfuncs.c, pg_signal_backend; storage/ipc/procarray.c,
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
 * Counts core's autovacuum workers that are at work on a table, with this
 * process; at least 1.
 *
 * Such a worker has a snapshot; a process that has ended does not.  The
 * scheduler's processes have PROC_IS_AUTOVACUUM as well, but are background
 * workers.  The free list that a PGPROC belongs to distinguishes them.  On 15
 * to 18 it is fixed when the server starts.  The fields of other processes are
 * read without a lock, so the result may be wrong by one for a moment, which
 * does no harm to a share of a cost limit.
 */
int
pv_count_autovacuum_workers(void)
{
	int			n = 0;

	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		const PGPROC *proc = &ProcGlobal->allProcs[i];

		if ((proc->statusFlags & PROC_IS_AUTOVACUUM) != 0 &&
			proc->procgloballist == &ProcGlobal->autovacFreeProcs &&
			TransactionIdIsValid(proc->xmin))
			n++;
	}
	return Max(n, 1);
}

/*
 * Does the process, or a member of the lock group that it leads, wait for
 * another process to release its pin on a buffer?
 *
 * The fields of other processes are read without a lock, as pg_stat_activity
 * does on 15 to 19.  The answer may be a moment old, so a caller that depends
 * on it asks twice.
 */
bool
pv_group_waits_for_pin(const PGPROC *leader)
{
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		const PGPROC *proc = &ProcGlobal->allProcs[i];

		if ((proc == leader || proc->lockGroupLeader == leader) &&
			proc->wait_event_info == PV_WAIT_BUFFER_PIN_EVENT)
			return true;
	}
	return false;
}


/* ----------------------------------------------------------------
 *		This process's session and transaction
 * ----------------------------------------------------------------
 */

/*
 * Restores the settings that SerializeGUCState() has written in the process
 * that this one acts for.  A transaction must be in progress, and the role and
 * the session user must be installed.
 *
 * The variable InitializingParallelWorker is true meanwhile, as in
 * ParallelWorkerMain().  It has these readers:
 *
 *	check_session_authorization(),		15 to 19: they take the OIDs that are
 *	check_role()						installed, and do not look up the names,
 *										which may have changed
 *	check_transaction_read_only()		15 to 19: any value is accepted
 *	check_transaction_isolation()		18, 19: any value is accepted
 *	assign_client_encoding()			asks only in a real parallel worker
 *	InitializeSessionUserId()			runs before this
 *
 * If this function fails the process ends, so the variable is not restored
 * then.
 *
 * Core: access/transam/parallel.c, ParallelWorkerMain; commands/variable.c.
 */
void
pv_restore_settings_of_caller(char *settings)
{
	Assert(!InitializingParallelWorker);
	InitializingParallelWorker = true;
	RestoreGUCState(settings);
	InitializingParallelWorker = false;
}

/*
 * Makes the transaction read-only for statements, and returns whether it was.
 *
 * The cleanup of an index may run functions of the table's owner.  If one of
 * them wrote anything, the transaction would get an XID, which the snapshots
 * of others leave out because of PROC_IN_VACUUM: others would take what it
 * wrote for aborted, and set hint bits that say so for ever.
 *
 * XactReadOnly is what SET TRANSACTION READ ONLY sets, on 15 to 19 alike.  The
 * executor and ProcessUtility read it before each statement; VACUUM's own work
 * does not read it.  Each start of a transaction sets it, and each end of a
 * subtransaction restores it.  So after an error nothing has to be restored.
 *
 * Core: storage/ipc/procarray.c, GetSnapshotData; executor/execMain.c,
 * ExecCheckXactReadOnly; tcop/utility.c, PreventCommandIfReadOnly.
 */
bool
pv_forbid_writes(void)
{
	bool		before = XactReadOnly;

	XactReadOnly = true;
	return before;
}

/* Restores what pv_forbid_writes() returned. */
void
pv_restore_read_only(bool before)
{
	XactReadOnly = before;
}

/*
 * Gives this background process the memory context that only sessions have.
 *
 * vacuum() and analyze_rel() make their contexts children of PortalContext, on
 * 15 to 19.  Core's own autovacuum worker sets the variable in the same way.
 * Core: postmaster/autovacuum.c, do_autovacuum.
 */
void
pv_set_portal_context(MemoryContext context)
{
	PortalContext = context;
}


/* ----------------------------------------------------------------
 *		Sleeps of core's delay point
 *
 * On 15 to 19 vacuum_delay_point() sleeps if VacuumCostActive and the balance
 * has reached the limit, for
 *
 *		Min(delay * balance / limit, delay * PV_MAX_SLEEP_FACTOR)
 *
 * and then sets the balance to 0.  It also recomputes the limit, but only in
 * core's autovacuum workers; these functions are for scheduler workers and
 * their parallel workers.  Core must not have a shared balance, which it has
 * only in its own parallel vacuum.
 *
 * Core: commands/vacuum.c, vacuum_delay_point.
 * ----------------------------------------------------------------
 */

/* Has core's delay point sleep for usecs whenever units were used. */
void
pv_set_core_sleep(int64 units, int64 usecs)
{
	pv_vacuum_cost_limit =
		Min(Max(units, 1), DUE_BALANCE / PV_MAX_SLEEP_FACTOR);
	pv_vacuum_cost_delay = usecs / 1000.0;
}

/*
 * Has core's next delay point sleep, for PV_MAX_SLEEP_FACTOR times what was
 * set, whatever was used.  The balance is larger than the limit by that
 * factor.
 */
void
pv_make_sleep_due(void)
{
	Assert(VacuumSharedCostBalance == NULL);
	VacuumCostBalance = DUE_BALANCE;
}

/* Is it still to sleep?  Core sets the balance to 0 when it has slept. */
bool
pv_sleep_is_due(void)
{
	return VacuumCostBalance >= DUE_BALANCE;
}

/* The part of the balance that stands for the sleep, not for units used. */
int64
pv_balance_of_sleep(void)
{
	return pv_sleep_is_due() ? DUE_BALANCE : 0;
}
