/*-------------------------------------------------------------------------
 *
 * borrowed.c
 *	  State of the server that parvacuum changes although it is not its own.
 *
 * Core offers no function for what is done here.  Each function below says
 * why it is right, on each major version from 15 to 19.  A new major version
 * may change any of it, so check each argument again.
 *
 *	state of core					process				why
 *	PGPROC.statusFlags				scheduler worker		others treat it as autovacuum
 *	PGPROC.roleId, st_userid		workers, leaders		others see whom it acts for
 *	other processes' PGPROCs		read only, no lock		counts, waits
 *	InitializingParallelWorker		background leader		roles are not looked up
 *	XactReadOnly					leader, worker			owners' functions cannot write
 *	PortalContext					background processes	ANALYZE allocates there
 *	VacuumCostBalance and limit		scheduler worker		core's delay point sleeps for us
 *
 * entry/slot.c replaces one more variable of core, the relation_vacuum slot of
 * heap's table access method.
 *
 * Variables for signal handlers (QueryCancelPending, InterruptPending,
 * ConfigReloadPending) are not listed: background processes set them as
 * autovacuum.c does.
 *
 * A process calls this for itself, and needs no lock except where a function
 * says so.
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


/* ----------------------------------------------------------------
 *		The process array
 * ----------------------------------------------------------------
 */

/*
 * Set status flags of this process, as vacuum_rel() does on 15 to 19.  A
 * process that computes a snapshot or a horizon reads the copy in ProcGlobal
 * under ProcArrayLock, so change both copies with that lock held exclusively.
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
 * Make others treat this process as an autovacuum worker, until it ends.
 *
 * On 15 to 19 the flag is read in these places:
 *
 *		DeadLockCheck(), ProcSleep()	a waiter cancels the holder of its lock
 *		CountOtherDBBackends()			DROP DATABASE terminates the process
 *		WaitForOlderSnapshots()			CREATE INDEX CONCURRENTLY does not wait
 *										for its snapshots
 *
 * All of that is right for a scheduler worker.  No place concludes from the
 * flag that the process has an entry in autovacuum's shared memory.
 *
 * Core sets the flag before it adds a process to the array.  The end of a
 * transaction does not clear it, because it is not in PROC_VACUUM_STATE_MASK.
 * Core: storage/lmgr/proc.c, InitProcess.
 */
void
pv_show_as_autovacuum(void)
{
	set_status(PROC_IS_AUTOVACUUM);
}

/*
 * Make others ignore the snapshots of this transaction when they compute
 * horizons.  The transaction must not have a snapshot or an XID yet, and may
 * only vacuum one table.  Its end clears the flag.
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
 * Keep waiters from canceling this process, although it looks like an
 * autovacuum worker, until the transaction ends.  Core sets this flag together
 * with PROC_IN_VACUUM.  A scheduler worker, which learns it only with the
 * table locked, may set it later, because no horizon depends on it: on 15 to
 * 19 only ProcSleep() reads it, in the waiting process, after
 * deadlock_timeout.
 *
 * Core: commands/vacuum.c, vacuum_rel; storage/lmgr/proc.c, ProcSleep.
 */
void
pv_show_against_wraparound(void)
{
	set_status(PROC_VACUUM_FOR_WRAPAROUND);
}

/* Get the role that this process acts for, as others see it. */
void
pv_process_identity(PvIdentity *identity)
{
	identity->role = MyProc->roleId;
	identity->shown_role = MyBEEntry->st_userid;
}

/*
 * Show that role as the one that this process acts for, to those who list
 * processes and to those who check whether they may signal it.  The rights of
 * this process do not depend on it.
 *
 * A process that vacuums for a caller is connected as the bootstrap superuser,
 * and so are its parallel workers, and those of an autovacuum worker.  Only a
 * superuser could stop them: the caller of a run could not signal its workers,
 * and the owner of a database could not drop it with FORCE because of one.
 *
 * It is right to store the role on 15 to 19.  Core does so once, without a
 * lock: the role is an aligned word.  Its readers take no lock either:
 * pg_signal_backend() and TerminateOtherDBBackends(), which compare it with
 * their user, and CountUserBackends(), which leaves background workers out.
 * Core keeps no copy, and the next process that gets this PGPROC sets it anew.
 * st_userid has the protocol that backend_status.h describes.  Core stores it
 * in pgstat_bestart() (15 to 17) or pgstat_bestart_final() (18, 19), and only
 * reads it after that.
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
 * Count core's autovacuum workers that are at work on a table, this process
 * included; at least 1.
 *
 * Such a worker has a snapshot; a process that has ended does not.  The
 * scheduler's processes have PROC_IS_AUTOVACUUM as well, but their PGPROC
 * belongs to the free list of background workers, which on 15 to 18 is fixed
 * when the server starts.  No lock is taken, so the result may be wrong by one
 * for a moment, which does no harm to a share of a cost limit.
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
 * This takes no lock, as pg_stat_activity does not on 15 to 19.  The answer
 * may be a moment old, so a caller that depends on it asks twice.
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
 * Restore the settings that SerializeGUCState() has written in the process
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
 * If this function fails, the process ends, so the variable need not be
 * restored.
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
 * Make the transaction read-only for statements.  Return whether it was so
 * before.
 *
 * The cleanup of an index may run functions of the table's owner.  If one of
 * them wrote anything, the transaction would get an XID, which the snapshots
 * of others leave out because of PROC_IN_VACUUM.  They would take what it
 * wrote for aborted, and set hint bits that say so for good.
 *
 * XactReadOnly is what SET TRANSACTION READ ONLY sets, on 15 to 19.  The
 * executor and ProcessUtility read it before each statement; VACUUM's own work
 * does not.  Each start of a transaction sets it, and each end of a
 * subtransaction restores it, so nothing has to be restored after an error.
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

/* Restore what pv_forbid_writes() returned. */
void
pv_restore_read_only(bool before)
{
	XactReadOnly = before;
}

/*
 * Give this background process the memory context that only sessions have.
 *
 * On 15 to 19 vacuum() and analyze_rel() make their contexts children of
 * PortalContext.  Core's autovacuum worker sets the variable in the same way.
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
 * and then sets the balance to 0.  These functions are for processes that use
 * the scheduler's balance.  In core's autovacuum workers it also recomputes the
 * limit, and before PG 16 the delay, after the sleep.  Only in core's parallel
 * vacuum is there a shared balance.
 *
 * Core: commands/vacuum.c, vacuum_delay_point.
 * ----------------------------------------------------------------
 */

/* Make core's delay point sleep for usecs whenever units have been used. */
void
pv_set_core_sleep(int64 units, int64 usecs)
{
	pv_vacuum_cost_limit =
		Min(Max(units, 1), PV_DUE_BALANCE / PV_MAX_SLEEP_FACTOR);
	pv_vacuum_cost_delay = usecs / 1000.0;
}

/*
 * Make core's next delay point sleep for PV_MAX_SLEEP_FACTOR times what was
 * set, whatever was used.  The balance exceeds the limit by that factor.
 */
void
pv_make_sleep_due(void)
{
	Assert(VacuumSharedCostBalance == NULL);
	VacuumCostBalance = PV_DUE_BALANCE;
}
