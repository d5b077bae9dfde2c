/*-------------------------------------------------------------------------
 *
 * inprogress.c
 *	  The vacuums by the engine that VACUUM and autovacuum have in progress.
 *
 * parvacuum_cancel() of a table (sql/cancel.c) uses this.  It finds the
 * scheduler's vacuums in its queue (sched/queue.c), and those of
 * parvacuum_run() and CALL parvacuum() among the runs (entry/runs.c).  All
 * other processes that call the engine enter here which table they vacuum.
 * They leave when they are done with it, or on error.
 *
 *		process that vacuums			any session
 *		--------------------			-----------
 *		pv_inprogress_begin
 *		   vacuum						pv_inprogress_find
 *		   vacuum			<-- SIGINT	pv_inprogress_cancel
 *		pv_inprogress_end, or
 *		pv_inprogress_abandon
 *
 * The places are an array in main shared memory.  One lightweight lock covers
 * it and is held for a moment; under it nothing fails, waits or allocates.  A
 * process that finds no free place vacuums without one, and cannot be found.
 *
 * Exactness.  A session that cancels a vacuum checks under the lock that the
 * vacuum still has its place, marks the place as canceled, and sends SIGINT,
 * as pg_cancel_backend() does.  So the PID cannot belong to another process by
 * then.  The process that vacuums also leaves under the lock, and sees the
 * mark.  It then fails with an error even if its vacuum is complete, so that a
 * signal that arrives late hits the statement that was meant.  The error
 * clears a pending cancel.  No signal can arrive after that: kill() had
 * returned before the process left its place, and see clear_cancel().
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

/* Number of vacuums that can be found at a time. */
#define MAX_IN_PROGRESS			256

/* Vacuums of one table, with its TOAST table's. */
#define MAX_OF_TABLE			2

typedef struct Place
{
	int			pid;			/* 0: free */
	PvInProgress vacuum;
	Oid			database;
	Oid			relid;
	Oid			toast_parent;	/* the table of relid if that is a TOAST table */
	bool		canceled;
} Place;

typedef struct InProgressShared
{
	/* all of it is under the lock */
	uint64		last_token;
	Place		places[MAX_IN_PROGRESS];
} InProgressShared;

static InProgressShared *shared = NULL;
static LWLock *lock = NULL;

/*
 * The place of this process while it vacuums, and the place that it had last.
 * An error of the vacuum ends in pv_inprogress_abandon(), and a FATAL one in
 * leave_at_exit().
 */
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

	shared = ShmemInitStruct("parvacuum in progress", sizeof(InProgressShared),
							 &found);
	if (!found)
		memset(shared, 0, sizeof(InProgressShared));
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
}


/* ----------------------------------------------------------------
 *		The process that vacuums
 * ----------------------------------------------------------------
 */

/* Gives the place back, and returns whether the vacuum was canceled. */
static bool
leave(void)
{
	bool		canceled;

	if (me == NULL)
		return false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	canceled = me->canceled;
	me->pid = 0;
	LWLockRelease(lock);
	me = NULL;
	return canceled;
}

/* A FATAL error does not return to the caller of pv_inprogress_begin(). */
static void
leave_at_exit(int code, Datum arg)
{
	(void) leave();
}

/* Returns a free place or NULL.  The caller holds the lock. */
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
 * This process begins to vacuum the table; toast_parent is the table of a
 * TOAST table.  The caller must call pv_inprogress_end() afterwards, or
 * pv_inprogress_abandon() after an error.
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
		me->canceled = false;
		my_last = me;
	}
	LWLockRelease(lock);
}

/*
 * Clears a cancel that was sent to this process.  The signal may have been
 * sent, but not yet delivered.  A pending signal that is not blocked is
 * delivered before sigprocmask() returns (POSIX), so none arrives after this.
 */
static void
clear_cancel(void)
{
	sigprocmask(SIG_SETMASK, &UnBlockSig, NULL);
	QueryCancelPending = false;
}

/* The vacuum is complete.  Raises an error if it was canceled, see the top. */
void
pv_inprogress_end(const char *relname)
{
	if (!leave())
		return;

	clear_cancel();
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling vacuum of table \"%s\" due to user request", relname)));
}

/* The vacuum has failed.  Core clears a pending cancel then, and so do we. */
void
pv_inprogress_abandon(void)
{
	if (leave())
		clear_cancel();
}


/* ----------------------------------------------------------------
 *		Others
 * ----------------------------------------------------------------
 */

/*
 * Is the place taken by a vacuum of the table or of its TOAST table?  The
 * caller holds the lock.
 */
static bool
is_at(const Place *place, Oid database, Oid relid)
{
	return place->pid != 0 && place->database == database &&
		OidIsValid(relid) &&
		(place->relid == relid || place->toast_parent == relid);
}

/*
 * Returns the vacuums of a table and of its TOAST table.  There are at most
 * two at a time, since one process holds the lock of the table, and one that
 * of the TOAST table.
 */
List *
pv_inprogress_find(Oid database, Oid relid)
{
	PvInProgress found[MAX_OF_TABLE];
	List	   *list = NIL;
	int			n = 0;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < MAX_IN_PROGRESS && n < MAX_OF_TABLE; i++)
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

/* Cancels that vacuum.  Returns false if it is over. */
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
			place->canceled |= done;
		}
	}
	LWLockRelease(lock);
	return done;
}
