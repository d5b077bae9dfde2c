/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  The runs of parvacuum_run() and CALL parvacuum() that are in progress.
 *
 * Each run takes a background worker, of which the server has max_worker_processes for
 * everything.  parvacuum.max_runs bounds how many of them the runs of all databases
 * take.  The last place goes to no role that has all the others: a role that is not a
 * superuser has one place less, where there is more than one, so that its runs may
 * take hours and others still get to vacuum.  It is the session's role that
 * counts, since SET ROLE would change the current one.  There is no finer share: the
 * places are few, and nobody waits for one.
 *
 * The places are an array in main shared memory.  One lightweight lock covers it and is
 * held for a moment; under it nothing fails, waits or allocates.
 *
 *		caller							background leader					anybody
 *		------							------					-------
 *		pv_runs_enter
 *		registers the worker	---->	pv_runs_attach
 *										begin, end relation	...	pv_runs_find,
 *										exit: gives its hold	pv_runs_cancel
 *		the worker is gone:
 *		pv_runs_leave
 *
 * Both the caller and the background leader have a hold on the place, and it is free when both
 * have let go.  The caller keeps its hold until the background leader is gone or will never come,
 * whatever ends its wait (entry/run.c).  The background leader's hold ends in its exit, after its
 * transaction was aborted and its locks were released.  If a process dies
 * without an exit the postmaster sets all shared memory up anew.
 *
 * To cancel the run that is at a table: pv_runs_find() says which runs are at it, the
 * caller of that decides whether the current role may cancel each, without any lock, and
 * pv_runs_cancel() signals the one with that token, if it still is at that table.  It
 * does so under the lock, so that the process cannot leave the table, nor end and its
 * PID be another's, between the look and the signal.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "base/settings.h"
#include "entry/runs.h"

#define LOCK_TRANCHE			"parvacuum_runs"

typedef struct Run
{
	uint64		token;
	int			caller_pid;		/* 0: the caller holds it no longer */
	int			leader_pid;		/* 0: it has not come yet, or is gone */
	Oid			role;			/* the caller's session user */
	Oid			database;
	Oid			named;			/* the table that the caller named */
	Oid			relid;			/* that is being vacuumed; invalid: none */
	Oid			toast_parent;	/* of that, if it is a TOAST table */
} Run;

typedef struct RunsShared
{
	pg_atomic_uint64 refused;

	/* all else is under the lock */
	uint64		last_token;
	Run			runs[PV_MAX_RUNS];
} RunsShared;

static RunsShared *shared = NULL;
static LWLock *lock = NULL;

/* This process's run, if it is a background leader */
static Run *me = NULL;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

Size
pv_runs_shmem_size(void)
{
	return MAXALIGN(sizeof(RunsShared));
}

/* Postmaster, when extensions ask for shared memory. */
void
pv_runs_request_lock(void)
{
	RequestNamedLWLockTranche(LOCK_TRANCHE, 1);
}

/* Finds it or sets it up.  The caller holds AddinShmemInitLock. */
void
pv_runs_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum runs", sizeof(RunsShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(RunsShared));
		pg_atomic_init_u64(&shared->refused, 0);
	}
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
}


/* ----------------------------------------------------------------
 *		The caller
 * ----------------------------------------------------------------
 */

/* The caller of this holds the lock. */
static bool
is_taken(const Run *run)
{
	return run->caller_pid != 0 || run->leader_pid != 0;
}

/*
 * Counts the places taken, by all and by a role, and returns a free one, or NULL.  The
 * caller of this holds the lock.
 */
static Run *
count_runs(Oid role, int *used, int *used_by_role)
{
	Run		   *free_run = NULL;

	*used = *used_by_role = 0;
	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		Run		   *run = &shared->runs[i];

		if (!is_taken(run))
		{
			if (free_run == NULL)
				free_run = run;
			continue;
		}
		(*used)++;
		*used_by_role += run->role == role;
	}
	return free_run;
}

/*
 * Takes a place for a run of this session, by the setting as it is now; one that was
 * lowered ends no run.  The role is the session's user, the table that which it named.
 * A place that was granted must be given back by pv_runs_leave().
 */
PvRunAnswer
pv_runs_enter(Oid role, bool is_superuser, Oid relid, PvRunPlace *place)
{
	PvRunAnswer answer = PV_RUN_GRANTED;
	int			share = is_superuser ? pv_guc_max_runs : Max(pv_guc_max_runs - 1, 1);
	int			used;
	int			used_by_role;
	Run		   *run;

	place->token = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	run = count_runs(role, &used, &used_by_role);
	if (run == NULL || used >= pv_guc_max_runs)
		answer = PV_RUN_ALL_TAKEN;
	else if (used_by_role >= share)
		answer = PV_RUN_SHARE_TAKEN;
	else
	{
		memset(run, 0, sizeof(*run));
		run->token = ++shared->last_token;
		run->caller_pid = MyProcPid;
		run->role = role;
		run->database = MyDatabaseId;
		run->named = relid;
		place->slot = (int) (run - shared->runs);
		place->token = run->token;
	}
	LWLockRelease(lock);
	return answer;
}

/*
 * Lets go of the place, if one is held.  The background leader must be gone, or never have come.
 */
void
pv_runs_leave(PvRunPlace *place)
{
	if (place->token == 0)
		return;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(shared->runs[place->slot].token == place->token);
	Assert(shared->runs[place->slot].caller_pid == MyProcPid);
	shared->runs[place->slot].caller_pid = 0;
	LWLockRelease(lock);
	place->token = 0;
}

/* A run could not be started, for want of a place or of a process. */
void
pv_runs_count_refused(void)
{
	pg_atomic_fetch_add_u64(&shared->refused, 1);
}


/* ----------------------------------------------------------------
 *		The background leader
 * ----------------------------------------------------------------
 */

static void
leader_exit(int code, Datum arg)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	me->leader_pid = 0;
	me->relid = me->toast_parent = InvalidOid;
	LWLockRelease(lock);
}

/*
 * Takes the background leader's hold on the place; false if the run is over.  To be called before
 * the process connects to a database: then its hold ends after its transaction, whose
 * callback at exit is called first, and before its segment is detached, by which its
 * caller sees that it is gone.
 */
bool
pv_runs_attach(const PvRunPlace *place)
{
	Run		   *run = &shared->runs[place->slot];
	bool		valid;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	valid = run->token == place->token && run->caller_pid != 0;
	if (valid)
		run->leader_pid = MyProcPid;
	LWLockRelease(lock);

	if (valid)
	{
		me = run;
		before_shmem_exit(leader_exit, 0);
	}
	return valid;
}

static void
set_relation(Oid relid, Oid toast_parent)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	me->relid = relid;
	me->toast_parent = toast_parent;
	LWLockRelease(lock);
}

/* The background leader is at this table from now on; the parent is that of a TOAST table. */
void
pv_runs_begin_relation(Oid relid, Oid toast_parent)
{
	set_relation(relid, toast_parent);
}

void
pv_runs_end_relation(void)
{
	set_relation(InvalidOid, InvalidOid);
}


/* ----------------------------------------------------------------
 *		Others
 * ----------------------------------------------------------------
 */

uint64
pv_runs_refused(void)
{
	return pg_atomic_read_u64(&shared->refused);
}

/*
 * Is a background leader there, and is it at the table, or at its TOAST table, or was the table what
 * its caller named?  The caller of this holds the lock.
 */
static bool
is_at(const Run *run, Oid database, Oid relid)
{
	return run->leader_pid != 0 && run->database == database && OidIsValid(relid) &&
		(run->relid == relid || run->toast_parent == relid || run->named == relid);
}

static void
show(const Run *run, PvRunSeen *seen)
{
	seen->token = run->token;
	seen->pid = run->leader_pid;
	seen->role = run->role;
}

/* The runs at a table, see the top; returns how many there are. */
int
pv_runs_find(Oid database, Oid relid, PvRunSeen **seen)
{
	int			n = 0;

	*seen = palloc(PV_MAX_RUNS * sizeof(PvRunSeen));
	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		if (is_at(&shared->runs[i], database, relid))
			show(&shared->runs[i], &(*seen)[n++]);
	}
	LWLockRelease(lock);
	return n;
}

/* The run that this process works for; false if it is not a background leader. */
bool
pv_runs_find_process(int pid, PvRunSeen *seen)
{
	bool		found = false;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_MAX_RUNS && pid > 0 && !found; i++)
	{
		found = shared->runs[i].leader_pid == pid;
		if (found)
			show(&shared->runs[i], seen);
	}
	LWLockRelease(lock);
	return found;
}

/*
 * Cancels the run with that token, as pg_cancel_backend() does; false if it is over.  If
 * a table is given, also false if the run is not at it any more.
 */
bool
pv_runs_cancel(uint64 token, Oid database, Oid relid)
{
	bool		done = false;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		Run		   *run = &shared->runs[i];

		if (run->token == token && run->leader_pid != 0 &&
			(!OidIsValid(relid) || is_at(run, database, relid)))
			done = kill(run->leader_pid, SIGINT) == 0;
	}
	LWLockRelease(lock);
	return done;
}
