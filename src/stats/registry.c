/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  The vacuums in progress: which process vacuums what, and how far it is.
 *
 * Each process that can take part in a vacuum has a slot in main shared
 * memory, the one with its number in the server's array of processes.  So no
 * slot has to be searched for, and there are enough of them.
 *
 *		process that vacuums			any session
 *		--------------------			-----------
 *		pv_registry_begin
 *		   pv_track_vacuum, _part		pv_track_read
 *		   vacuum						pv_registry_find
 *		   vacuum			<-- SIGINT	pv_registry_cancel
 *		pv_registry_end, or
 *		pv_registry_abandon
 *
 * A background leader enters its run when it starts (pv_registry_lead_run)
 * and leaves at its exit.  In between it is at one table after the other.
 * The session that called for the run counts it in its own slot, until the
 * leader is gone.  Parallel workers only show how far they are.
 *
 * Locks.  One lightweight lock covers who vacuums what and the counts of runs.
 * It is held for a moment, and under it nothing fails, waits or allocates.
 * How far a process is, it writes every few pages, under a spinlock of its
 * slot that is held for a copy of a few hundred bytes.  So that may be done
 * while a page is locked, and cannot fail.
 *
 * Exactness of a cancel.  A session checks under the lock that the process
 * is still at the table, marks the slot as canceled, and sends SIGINT, as
 * pg_cancel_backend() does.  So the PID cannot belong to another process by
 * then.  The process that vacuums also leaves the table under the lock, and
 * sees the mark.  It then fails with an error even if its vacuum is complete,
 * so that a signal that arrives late hits the statement that was meant.  The
 * error clears a pending cancel.  No signal can arrive after that: kill() had
 * returned before the process left, and see clear_cancel().
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "base/settings.h"
#include "stats/registry.h"

#define LOCK_TRANCHE			"parvacuum_registry"

typedef struct Slot
{
	/* under the lock */
	int			pid;			/* the process that used the slot last */
	int			runs;			/* that it has called for */
	Oid			caller;			/* the role that called for them */
	uint64		token;			/* 0: it vacuums nothing */
	PvStartedBy started_by;
	int			caller_pid;		/* of a run; otherwise 0 */
	Oid			role;
	Oid			database;
	Oid			named;			/* of a run, the table that was named */
	Oid			relid;			/* the table at hand; invalid: none */
	Oid			toast_parent;	/* of that, if it is a TOAST table */
	bool		canceled;

	slock_t		mutex;			/* covers the rest */
	PvTracked	tracked;		/* pid 0: there is nothing */
} Slot;

typedef struct RegistryShared
{
	pg_atomic_uint64 refused;
	int			nslots;			/* never changes */
	uint64		last_token;		/* under the lock, like the rest */
	int			nruns;			/* sum of the slots' runs */
	Slot		slots[FLEXIBLE_ARRAY_MEMBER];
} RegistryShared;

static RegistryShared *shared = NULL;
static LWLock *lock = NULL;

/* The slot of this process, once it has used it */
static Slot *mine = NULL;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

Size
pv_registry_shmem_size(void)
{
	return add_size(offsetof(RegistryShared, slots),
					mul_size(MaxBackends, sizeof(Slot)));
}

/* Postmaster, when extensions request shared memory. */
void
pv_registry_request_lock(void)
{
	RequestNamedLWLockTranche(LOCK_TRANCHE, 1);
}

/* Find it or set it up.  The caller holds AddinShmemInitLock. */
void
pv_registry_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum registry", pv_registry_shmem_size(),
							 &found);
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
	if (found)
		return;
	memset(shared, 0, pv_registry_shmem_size());
	pg_atomic_init_u64(&shared->refused, 0);
	shared->nslots = MaxBackends;
	for (int i = 0; i < shared->nslots; i++)
		SpinLockInit(&shared->slots[i].mutex);
}

/* Leave the table, or all that this process does if it vacuums for no run. */
static bool
leave(bool is_exit)
{
	bool		canceled;

	if (mine == NULL || mine->token == 0)
		return false;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	canceled = mine->canceled;
	mine->relid = mine->toast_parent = InvalidOid;
	if (is_exit || mine->caller_pid == 0)
	{
		mine->token = 0;
		mine->canceled = false;
	}
	LWLockRelease(lock);
	return canceled;
}

/* A FATAL error does not return to the caller of pv_registry_begin(). */
static void
leave_at_exit(int code, Datum arg)
{
	pv_track_end();
	(void) leave(true);
}

/*
 * Return the slot of this process, or NULL if it has none.  A process that
 * has never used its slot finds there what the one before it has left.
 */
static Slot *
take_slot(void)
{
	int			number;

	if (mine != NULL)
		return mine;
	if (shared == NULL || MyProc == NULL)
		return NULL;
	number = MyProc - ProcGlobal->allProcs;
	if (number >= shared->nslots)
		return NULL;

	mine = &shared->slots[number];
	LWLockAcquire(lock, LW_EXCLUSIVE);
	shared->nruns -= mine->runs;
	memset(mine, 0, offsetof(Slot, mutex));
	mine->pid = MyProcPid;
	LWLockRelease(lock);
	return mine;
}

/*
 * Return the slot of this process for a vacuum, which it will leave at its
 * exit.  pv_registry_begin_run() cannot do that: it is called where callbacks
 * at exit come and go.
 */
static Slot *
take_slot_to_vacuum(void)
{
	static bool watched = false;
	Slot	   *slot = take_slot();

	if (slot != NULL && !watched)
	{
		before_shmem_exit(leave_at_exit, 0);
		watched = true;
	}
	return slot;
}


/* ----------------------------------------------------------------
 *		Runs
 * ----------------------------------------------------------------
 */

/*
 * Count a run that this session is about to start, if the setting as it is
 * now allows one more.  role is the session user, because SET ROLE would
 * change the current one.  A run that was granted must be ended by
 * pv_registry_end_run().
 *
 * Each run takes a background worker, of which the server has
 * max_worker_processes for everything.  A role that is not a superuser gets
 * one place less, where there is more than one, so that its runs may take
 * hours and other roles can still vacuum.
 */
PvRunAnswer
pv_registry_begin_run(Oid role, bool is_superuser)
{
	int			share = is_superuser ?
		pv_guc_max_runs : Max(pv_guc_max_runs - 1, 1);
	Slot	   *slot = take_slot();
	int			used_by_role = 0;
	PvRunAnswer answer = PV_RUN_GRANTED;

	if (slot == NULL)
		elog(ERROR, "this process cannot start a run");
	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->nslots && shared->nruns < pv_guc_max_runs; i++)
	{
		if (shared->slots[i].caller == role)
			used_by_role += shared->slots[i].runs;
	}
	if (shared->nruns >= pv_guc_max_runs)
		answer = PV_RUN_ALL_TAKEN;
	else if (used_by_role >= share)
		answer = PV_RUN_SHARE_TAKEN;
	else
	{
		shared->nruns++;
		slot->runs++;
		slot->caller = role;
	}
	LWLockRelease(lock);
	return answer;
}

/* The background leader of a run of this session is gone, or never came. */
void
pv_registry_end_run(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(mine->runs > 0);
	mine->runs--;
	shared->nruns--;
	LWLockRelease(lock);
}

/* A run could not be started, for want of a place or of a process. */
void
pv_registry_count_refused(void)
{
	pg_atomic_fetch_add_u64(&shared->refused, 1);
}

uint64
pv_registry_runs_refused(void)
{
	return pg_atomic_read_u64(&shared->refused);
}

/* Set what identifies a new vacuum or run.  The caller holds the lock. */
static void
identify(PvStartedBy started_by, Oid role, Oid database)
{
	mine->token = ++shared->last_token;
	mine->started_by = started_by;
	mine->role = role;
	mine->database = database;
	mine->canceled = false;
}

/*
 * This process leads a run for that session, which named that table.  To be
 * called before the process connects to a database.  Then it leaves after its
 * transaction, whose callback at exit is called first, and before its segment
 * is detached, by which its caller sees that it is gone.
 */
void
pv_registry_lead_run(Oid role, int caller_pid, Oid database, Oid named)
{
	if (take_slot_to_vacuum() == NULL)
		elog(ERROR, "this process cannot lead a run");
	LWLockAcquire(lock, LW_EXCLUSIVE);
	identify(PV_STARTED_BY_FUNCTION, role, database);
	mine->caller_pid = caller_pid;
	mine->named = named;
	LWLockRelease(lock);
}


/* ----------------------------------------------------------------
 *		The process that vacuums
 * ----------------------------------------------------------------
 */

/*
 * This process begins to vacuum the table; toast_parent is the table of a
 * TOAST table.  The caller must call pv_registry_end() afterwards, or
 * pv_registry_abandon() after an error.
 */
void
pv_registry_begin(Oid relid, Oid toast_parent, PvStartedBy started_by)
{
	if (take_slot_to_vacuum() == NULL)
		return;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (mine->caller_pid == 0)
		identify(started_by, MyProc->roleId, MyDatabaseId);
	mine->relid = relid;
	mine->toast_parent = toast_parent;
	LWLockRelease(lock);
}

/*
 * Clear a cancel that was sent to this process.  The signal may have been
 * sent, but not yet delivered.  A pending signal that is not blocked is
 * delivered before sigprocmask() returns (POSIX), so none arrives after this.
 */
static void
clear_cancel(void)
{
	sigprocmask(SIG_SETMASK, &UnBlockSig, NULL);
	QueryCancelPending = false;
}

/* The vacuum is complete.  Raise an error if it was canceled, see the top. */
void
pv_registry_end(const char *relname)
{
	if (!leave(false))
		return;

	clear_cancel();
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling vacuum of table \"%s\" due to user request", relname)));
}

/* The vacuum has failed.  Core clears a pending cancel then, and so do we. */
void
pv_registry_abandon(void)
{
	pv_track_end();
	if (leave(false))
		clear_cancel();
}

/* Take the spinlock of what this process shows, or return NULL. */
static PvTracked *
lock_tracked(void)
{
	if (!pv_guc_track_progress || take_slot_to_vacuum() == NULL)
		return NULL;
	SpinLockAcquire(&mine->mutex);
	mine->tracked.pid = MyProcPid;
	return &mine->tracked;
}

/* This process leads a vacuum, and that is its state. */
void
pv_track_vacuum(const PvTrackedVacuum *vacuum)
{
	PvTracked  *tracked = lock_tracked();

	if (tracked == NULL)
		return;
	tracked->leads = true;
	tracked->vacuum = *vacuum;
	SpinLockRelease(&mine->mutex);
}

/* This process takes part in a vacuum, and that is what it is doing. */
void
pv_track_part(const PvTrackedPart *part)
{
	PvTracked  *tracked = lock_tracked();

	if (tracked == NULL)
		return;
	tracked->takes_part = true;
	tracked->part = *part;
	SpinLockRelease(&mine->mutex);
}

/* This process is done with its vacuum, or was doing none. */
void
pv_track_end(void)
{
	if (mine == NULL)
		return;
	SpinLockAcquire(&mine->mutex);
	memset(&mine->tracked, 0, sizeof(PvTracked));
	SpinLockRelease(&mine->mutex);
}


/* ----------------------------------------------------------------
 *		Others
 * ----------------------------------------------------------------
 */

/*
 * Does the slot's process vacuum the table or its TOAST table, or is that the
 * table that its run was called for?  An invalid OID stands for any table.
 * The caller holds the lock.
 */
static bool
is_at(const Slot *slot, Oid database, Oid relid)
{
	return slot->token != 0 &&
		(!OidIsValid(relid) ||
		 (slot->database == database &&
		  (slot->relid == relid || slot->toast_parent == relid ||
		   slot->named == relid)));
}

static void
show(const Slot *slot, PvVacuuming *seen)
{
	seen->token = slot->token;
	seen->slot = slot - shared->slots;
	seen->pid = slot->pid;
	seen->relid = slot->relid;
	seen->started_by = slot->started_by;
	seen->caller_pid = slot->caller_pid;
	seen->role = slot->role;
}

/* Return the number of vacuums of a table, and those in a new array. */
int
pv_registry_find(Oid database, Oid relid, PvVacuuming **found)
{
	int			n = 0;

	*found = palloc(mul_size(shared->nslots, sizeof(PvVacuuming)));
	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < shared->nslots && OidIsValid(relid); i++)
	{
		if (is_at(&shared->slots[i], database, relid))
			show(&shared->slots[i], &(*found)[n++]);
	}
	LWLockRelease(lock);
	return n;
}

/* Find what that process vacuums; return false if it does not. */
bool
pv_registry_find_process(int pid, PvVacuuming *found)
{
	bool		done = false;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < shared->nslots && !done; i++)
	{
		const Slot *slot = &shared->slots[i];

		done = slot->token != 0 && slot->pid == pid;
		if (done)
			show(slot, found);
	}
	LWLockRelease(lock);
	return done;
}

/*
 * Cancel that vacuum, or that run if it still is at the table; an invalid OID
 * stands for any table.  Return false if it is over.
 */
bool
pv_registry_cancel(const PvVacuuming *vacuum, Oid database, Oid relid)
{
	Slot	   *slot = &shared->slots[vacuum->slot];
	bool		done;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	done = slot->token == vacuum->token && is_at(slot, database, relid) &&
		kill(slot->pid, SIGINT) == 0;
	slot->canceled |= done;
	LWLockRelease(lock);
	return done;
}

/*
 * Return the number of processes that show how far they are, and what they
 * show in a new array.  Rows of different processes may be some milliseconds
 * apart.
 */
int
pv_track_read(PvTracked **tracked)
{
	int			n = 0;

	*tracked = NULL;
	if (shared == NULL)
		return 0;
	*tracked = palloc(mul_size(shared->nslots, sizeof(PvTracked)));
	for (int i = 0; i < shared->nslots; i++)
	{
		Slot	   *slot = &shared->slots[i];
		PvTracked  *seen = &(*tracked)[n];

		SpinLockAcquire(&slot->mutex);
		*seen = slot->tracked;
		SpinLockRelease(&slot->mutex);
		if (seen->pid != 0 && seen->pid == ProcGlobal->allProcs[i].pid)
			n++;
	}
	return n;
}
