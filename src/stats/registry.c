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
 *		   pv_track						pv_track_read
 *		   vacuum			<-- SIGINT	pv_registry_cancel
 *		pv_registry_end or _abandon
 *
 * A background leader enters its run when it starts (pv_registry_lead_run)
 * and leaves at its exit.  The session that called for the run counts it in its
 * own slot, until the leader is gone.  Parallel workers only show how far they
 * are.
 *
 * Locks.  One lightweight lock covers who vacuums what and the counts of runs.
 * It is held for a moment, and under it nothing fails, waits or allocates.
 * How far a process is, it writes every few pages, under a spinlock of its
 * slot that is held for a copy of a few hundred bytes.  So that may be done
 * while a page is locked, and cannot fail.
 *
 * Exactness of a cancel.  A session checks under the lock that the process
 * is still at the table, marks the slot as canceled, and sends SIGINT, as
 * pg_cancel_backend() does.  The process that vacuums also leaves the table
 * under the lock, so the PID cannot be that of another process by then, and
 * sees the mark.  It then fails with an error even if its vacuum is complete,
 * so that a signal that arrives late hits the statement that was meant.  The
 * error clears a pending cancel.  No signal can arrive after that: kill() had
 * returned before the process left, and see pv_process_clear_cancel().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "base/process.h"
#include "base/settings.h"
#include "stats/registry.h"

typedef struct Slot
{
	/* under the lock */
	int			runs;			/* that the process has called for */
	Oid			caller;			/* the role that called for them */
	PvVacuuming vacuum;			/* pid: of the process that used the slot
								 * last; token 0: it vacuums nothing */
	Oid			database;
	Oid			named;			/* of a run, the table that was named */
	Oid			toast_parent;	/* of that, if it is a TOAST table */
	bool		canceled;

	slock_t		mutex;			/* covers the rest */
	PvTracked	tracked;		/* pid 0: there is nothing */
} Slot;

typedef struct RegistryShared
{
	pg_atomic_uint64 refused;
	uint64		last_token;		/* under the lock, like the rest */
	int			nruns;			/* sum of the slots' runs */
	Slot		slots[FLEXIBLE_ARRAY_MEMBER];	/* MaxBackends of them */
} RegistryShared;

static RegistryShared *shared = NULL;
static LWLock *lock = NULL;

/* The slot of this process, once it has used it */
static Slot *mine = NULL;

Size
pv_registry_shmem_size(void)
{
	return add_size(offsetof(RegistryShared, slots),
					mul_size(MaxBackends, sizeof(Slot)));
}

/* Find it or set it up.  The caller holds AddinShmemInitLock. */
void
pv_registry_shmem_startup(LWLock *its_lock)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum registry", pv_registry_shmem_size(),
							 &found);
	lock = its_lock;
	if (found)
		return;
	memset(shared, 0, pv_registry_shmem_size());
	pg_atomic_init_u64(&shared->refused, 0);
	for (int i = 0; i < MaxBackends; i++)
		SpinLockInit(&shared->slots[i].mutex);
}

/* Leave the table, or all that this process does if it vacuums for no run. */
static bool
leave(bool is_exit)
{
	bool		canceled;

	if (mine == NULL || mine->vacuum.token == 0)
		return false;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	canceled = mine->canceled;
	mine->vacuum.relid = mine->toast_parent = InvalidOid;
	if (is_exit || mine->vacuum.caller_pid == 0)
	{
		mine->vacuum.token = 0;
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
 * Take the slot of this process, which may have what the process before has
 * left.  Only auxiliary processes have none, and these do not vacuum.
 */
static void
take_slot(void)
{
	int			number = MyProc - ProcGlobal->allProcs;

	if (mine != NULL)
		return;
	Assert(number < MaxBackends);
	mine = &shared->slots[number];
	LWLockAcquire(lock, LW_EXCLUSIVE);
	shared->nruns -= mine->runs;
	memset(mine, 0, offsetof(Slot, mutex));
	mine->vacuum.slot = number;
	mine->vacuum.pid = MyProcPid;
	LWLockRelease(lock);
}

/*
 * Take it for a vacuum, and leave it at the exit.  pv_registry_begin_run()
 * cannot do that: it is called where callbacks at exit come and go.
 */
static void
take_slot_to_vacuum(void)
{
	static bool watched = false;

	take_slot();
	if (!watched)
		before_shmem_exit(leave_at_exit, 0);
	watched = true;
}


/* ----------------------------------------------------------------
 *		Runs
 * ----------------------------------------------------------------
 */

/*
 * Count a run that this session is about to start, if the setting allows one
 * more.  role is the session user, because SET ROLE would change the current
 * one.  A run that was granted must be ended by pv_registry_end_run().
 *
 * A role that is not a superuser gets one place less, where there is more than
 * one, so that its runs may take hours and other roles can still vacuum.
 */
PvRunAnswer
pv_registry_begin_run(Oid role, bool is_superuser)
{
	int			share = is_superuser ?
		pv_guc_max_runs : Max(pv_guc_max_runs - 1, 1);
	int			used_by_role = 0;
	PvRunAnswer answer = PV_RUN_GRANTED;

	take_slot();
	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < MaxBackends; i++)
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
		mine->runs++;
		mine->caller = role;
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
	mine->vacuum.token = ++shared->last_token;
	mine->vacuum.started_by = started_by;
	mine->vacuum.role = role;
	mine->database = database;
	mine->canceled = false;
}

/*
 * This process leads a run for that session, which named that table.  Call this
 * before the process connects to a database.  Then it leaves after its
 * transaction, whose callback at exit is called first, and before the process
 * ends, by which its caller sees that it is gone.
 */
void
pv_registry_lead_run(Oid role, int caller_pid, Oid database, Oid named)
{
	take_slot_to_vacuum();
	LWLockAcquire(lock, LW_EXCLUSIVE);
	identify(PV_STARTED_BY_FUNCTION, role, database);
	mine->vacuum.caller_pid = caller_pid;
	mine->named = named;
	LWLockRelease(lock);
}


/* ----------------------------------------------------------------
 *		The process that vacuums
 * ----------------------------------------------------------------
 */

/*
 * Begin to vacuum the table; toast_parent is the table that a TOAST table
 * belongs to.  Call pv_registry_end() afterwards, or pv_registry_abandon()
 * after an error.
 */
void
pv_registry_begin(Oid relid, Oid toast_parent, PvStartedBy started_by)
{
	take_slot_to_vacuum();
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (mine->vacuum.caller_pid == 0)
		identify(started_by, MyProc->roleId, MyDatabaseId);
	mine->vacuum.relid = relid;
	mine->toast_parent = toast_parent;
	LWLockRelease(lock);
}

/* The vacuum is complete.  Raise an error if it was canceled, see the top. */
void
pv_registry_end(const char *relname)
{
	if (!leave(false))
		return;

	pv_process_clear_cancel();
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
		pv_process_clear_cancel();
}

/* Show the vacuum that this process leads, and its part; NULL: as before. */
void
pv_track(const PvTrackedVacuum *vacuum, const PvTrackedPart *part)
{
	take_slot_to_vacuum();
	SpinLockAcquire(&mine->mutex);
	mine->tracked.pid = MyProcPid;
	if (vacuum != NULL)
	{
		mine->tracked.leads = true;
		mine->tracked.vacuum = *vacuum;
	}
	if (part != NULL)
	{
		mine->tracked.takes_part = true;
		mine->tracked.part = *part;
	}
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
 * Does the slot's process vacuum the table of this database or its TOAST table,
 * or is that the table that its run was called for?  An invalid OID stands for
 * any table.  The caller holds the lock.
 */
static bool
is_at(const Slot *slot, Oid relid)
{
	return slot->vacuum.token != 0 &&
		(!OidIsValid(relid) ||
		 (slot->database == MyDatabaseId &&
		  (slot->vacuum.relid == relid || slot->toast_parent == relid ||
		   slot->named == relid)));
}

/* Return the number of vacuums of a table, and those in a new array. */
int
pv_registry_find(Oid relid, PvVacuuming **found)
{
	int			n = 0;

	*found = palloc(mul_size(MaxBackends, sizeof(PvVacuuming)));
	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < MaxBackends && OidIsValid(relid); i++)
	{
		if (is_at(&shared->slots[i], relid))
			(*found)[n++] = shared->slots[i].vacuum;
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
	for (int i = 0; i < MaxBackends && !done; i++)
	{
		const Slot *slot = &shared->slots[i];

		done = slot->vacuum.token != 0 && slot->vacuum.pid == pid;
		if (done)
			*found = slot->vacuum;
	}
	LWLockRelease(lock);
	return done;
}

/* Cancel that vacuum or run if it is_at() the table; else return false. */
bool
pv_registry_cancel(const PvVacuuming *vacuum, Oid relid)
{
	Slot	   *slot = &shared->slots[vacuum->slot];
	bool		done;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	done = slot->vacuum.token == vacuum->token &&
		is_at(slot, relid) && kill(slot->vacuum.pid, SIGINT) == 0;
	slot->canceled |= done;
	LWLockRelease(lock);
	return done;
}

/* Return how many processes show how far they are, and that in a new array. */
int
pv_track_read(PvTracked **tracked)
{
	int			n = 0;

	*tracked = NULL;
	if (shared == NULL)
		return 0;
	*tracked = palloc(mul_size(MaxBackends, sizeof(PvTracked)));
	for (int i = 0; i < MaxBackends; i++)
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
