/*-------------------------------------------------------------------------
 *
 * inprogress.c
 *	  The vacuums by the engine that VACUUM and autovacuum have in progress.
 *
 * This is for parvacuum_cancel() of a table (sql/cancel.c).  The scheduler's processes
 * are found by its queue (sched/queue.c), those of parvacuum_run() and CALL parvacuum() by
 * their runs (entry/runs.c).  All others that call the engine enter here what table they
 * are at, and leave when they are done with it, or on error.
 *
 *		process that vacuums			anybody
 *		--------------------			-------
 *		pv_inprogress_begin
 *		   vacuum						pv_inprogress_find
 *		   vacuum				<-- ^C	pv_inprogress_cancel
 *		pv_inprogress_end, or
 *		pv_inprogress_abandon
 *
 * The places are an array in main shared memory.  One lightweight lock covers it and is
 * held for a moment; under it nothing fails, waits or allocates.  Who finds no place goes
 * on without one, and is not found.
 *
 * Exactness.  Who cancels looks under the lock whether the vacuum is still in its place,
 * notes there that it is cancelled, and sends SIGINT, as pg_cancel_backend() does.  So
 * the PID cannot be another process's by then.  The process that vacuums leaves under the
 * lock as well, and finds the note.  It then fails with an error even if its vacuum is
 * complete, and so a signal that comes late hits the statement that was meant.  The error
 * clears what is pending, and no signal can come after that: kill() had returned
 * before the process left, and see forget_signal().
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
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "entry/inprogress.h"

#define LOCK_TRANCHE			"parvacuum_in_progress"

/* Vacuums that can be found at a time. */
#define MAX_IN_PROGRESS			256

typedef struct Place
{
	int			pid;			/* 0: free */
	PvInProgress vacuum;
	Oid			database;
	Oid			relid;
	Oid			toast_parent;	/* of that, if it is a TOAST table */
	bool		cancelled;
} Place;

typedef struct InProgressShared
{
	/* all of it is under the lock */
	uint64		last_token;
	Place		places[MAX_IN_PROGRESS];
} InProgressShared;

static InProgressShared *shared = NULL;
static LWLock *lock = NULL;

/* This process's place while it vacuums, and the one it had last. */
static Place *me = NULL;
static Place *my_last = NULL;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

Size
pv_inprogress_shmem_size(void)
{
	return MAXALIGN(sizeof(InProgressShared));
}

/* Postmaster, when extensions ask for shared memory. */
void
pv_inprogress_request_lock(void)
{
	RequestNamedLWLockTranche(LOCK_TRANCHE, 1);
}

/* Finds it or sets it up.  The caller holds AddinShmemInitLock. */
void
pv_inprogress_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum in progress", sizeof(InProgressShared), &found);
	if (!found)
		memset(shared, 0, sizeof(InProgressShared));
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
}


/* ----------------------------------------------------------------
 *		The process that vacuums
 * ----------------------------------------------------------------
 */

/* Gives the place back, and returns whether the vacuum was cancelled. */
static bool
leave(void)
{
	bool		cancelled;

	if (me == NULL)
		return false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	cancelled = me->cancelled;
	me->pid = 0;
	LWLockRelease(lock);
	me = NULL;
	return cancelled;
}

/* A FATAL error does not come back to who called us. */
static void
leave_at_exit(int code, Datum arg)
{
	(void) leave();
}

/* The caller of this holds the lock. */
static Place *
free_place(void)
{
	if (my_last != NULL && my_last->pid == 0)
		return my_last;
	for (int i = 0; i < MAX_IN_PROGRESS; i++)
	{
		if (shared->places[i].pid == 0)
			return &shared->places[i];
	}
	return NULL;
}

/*
 * This process begins to vacuum the table; the parent is that of a TOAST table.
 * pv_inprogress_end() must follow, or after an error pv_inprogress_abandon().
 */
void
pv_inprogress_begin(Oid relid, Oid toast_parent, bool autovacuum)
{
	static bool watched = false;

	Assert(me == NULL);
	if (!watched)
		before_shmem_exit(leave_at_exit, 0);
	watched = true;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	me = free_place();
	if (me != NULL)
	{
		me->pid = MyProcPid;
		me->vacuum.token = ++shared->last_token;
		me->vacuum.role = MyProc->roleId;
		me->vacuum.autovacuum = autovacuum;
		me->database = MyDatabaseId;
		me->relid = relid;
		me->toast_parent = toast_parent;
		me->cancelled = false;
		my_last = me;
	}
	LWLockRelease(lock);
}

/*
 * The signal may not have been delivered yet, though it was sent.  A pending signal that
 * is not blocked is delivered before sigprocmask() returns (POSIX), so nothing comes
 * after this.
 */
static void
forget_signal(void)
{
	sigprocmask(SIG_SETMASK, &UnBlockSig, NULL);
	QueryCancelPending = false;
}

/* The vacuum is over.  An error if it was cancelled, see the top. */
void
pv_inprogress_end(const char *relname)
{
	if (!leave())
		return;

	forget_signal();
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling vacuum of table \"%s\" due to user request", relname)));
}

/* The vacuum has failed.  Core forgets a cancel that is pending then, and so do we. */
void
pv_inprogress_abandon(void)
{
	if (leave())
		forget_signal();
}


/* ----------------------------------------------------------------
 *		Others
 * ----------------------------------------------------------------
 */

/* Is somebody at the table, or at its TOAST table?  The caller holds the lock. */
static bool
is_at(const Place *place, Oid database, Oid relid)
{
	return place->pid != 0 && place->database == database && OidIsValid(relid) &&
		(place->relid == relid || place->toast_parent == relid);
}

/*
 * The vacuums of a table, with its TOAST table's: two at a time at most, since the
 * table's lock is held by one process, and the TOAST table's by another.
 */
List *
pv_inprogress_find(Oid database, Oid relid)
{
	PvInProgress found[2];
	List	   *list = NIL;
	int			n = 0;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < MAX_IN_PROGRESS && n < (int) lengthof(found); i++)
	{
		if (is_at(&shared->places[i], database, relid))
			found[n++] = shared->places[i].vacuum;
	}
	LWLockRelease(lock);

	for (int i = 0; i < n; i++)
	{
		PvInProgress *copy = palloc(sizeof(PvInProgress));

		*copy = found[i];
		list = lappend(list, copy);
	}
	return list;
}

/* Cancels that vacuum; false if it is over. */
bool
pv_inprogress_cancel(const PvInProgress *vacuum)
{
	bool		done = false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_IN_PROGRESS && !done; i++)
	{
		Place	   *place = &shared->places[i];

		if (place->pid != 0 && place->vacuum.token == vacuum->token)
		{
			done = kill(place->pid, SIGINT) == 0;
			place->cancelled |= done;
		}
	}
	LWLockRelease(lock);
	return done;
}
