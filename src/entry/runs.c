/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  The runs of parvacuum_run() and CALL parvacuum() that are in progress.
 *
 * This is the table of runs (entry/run_table.c) in main shared memory, with
 * its lock.  The lock is held for a moment; under it nothing fails, waits or
 * is allocated.
 *
 *		caller					background leader			session
 *		------					-----------------			-------
 *		pv_runs_enter
 *		registers the leader --> pv_runs_attach
 *								begin, end relation	...		pv_runs_find,
 *								exit: gives its hold up		pv_runs_cancel
 *		the leader is gone:
 *		pv_runs_leave
 *
 * Both the caller and the leader hold the place.  The caller keeps its hold
 * until the leader is gone or will never come, whatever ends its wait
 * (entry/run.c).  The leader's hold ends in its exit, after its transaction
 * was aborted and its locks were released.  If a process dies without an exit,
 * the postmaster initializes all shared memory.
 *
 * To cancel the run that is at a table, a session asks pv_runs_find() for the
 * runs at it and decides without any lock whether the current role may cancel
 * each.  Then pv_runs_cancel() signals the run with that token, if it still is
 * at that table.  It does so under the lock, so that the process can neither
 * leave the table, nor end and its PID be given to another one, between the
 * check and the signal.
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

typedef struct RunsShared
{
	pg_atomic_uint64 refused;
	PvRunTable	table;			/* under the lock */
} RunsShared;

static RunsShared *shared = NULL;
static LWLock *lock = NULL;

/* This process's run, if it is a background leader */
static PvRunSlot *my_run = NULL;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

Size
pv_runs_shmem_size(void)
{
	return MAXALIGN(sizeof(RunsShared));
}

/* Postmaster, when extensions request shared memory. */
void
pv_runs_request_lock(void)
{
	RequestNamedLWLockTranche(LOCK_TRANCHE, 1);
}

/*
 * Finds the shared memory or initializes it.  The caller holds
 * AddinShmemInitLock.
 */
void
pv_runs_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum runs", sizeof(RunsShared), &found);
	if (!found)
	{
		memset(&shared->table, 0, sizeof(PvRunTable));
		pg_atomic_init_u64(&shared->refused, 0);
	}
	lock = &GetNamedLWLockTranche(LOCK_TRANCHE)->lock;
}


/* ----------------------------------------------------------------
 *		The caller
 * ----------------------------------------------------------------
 */

/*
 * Takes a place for a run of this session, by the setting as it is now.  role
 * is the session user, relid the table that was named.  A place that was
 * granted must be given back by pv_runs_leave().
 */
PvRunAnswer
pv_runs_enter(Oid role, bool is_superuser, Oid relid, PvRunPlace *place)
{
	PvRunRequest request = {
		.pid = MyProcPid,
		.database = MyDatabaseId,
		.role = role,
		.is_superuser = is_superuser,
		.relid = relid
	};
	PvRunAnswer answer;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	answer = pv_run_table_enter(&shared->table, pv_guc_max_runs,
								&request, place);
	LWLockRelease(lock);
	return answer;
}

/*
 * Gives the place back, if one is held.  The leader must be gone, or never
 * have come.
 */
void
pv_runs_leave(PvRunPlace *place)
{
	if (place->token == PV_NO_RUN)
		return;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	pv_run_table_leave(&shared->table, place, MyProcPid);
	LWLockRelease(lock);
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
	pv_run_table_exit(my_run);
	LWLockRelease(lock);
}

/*
 * Takes the leader's hold on the place; false if the run is over.  To be
 * called before the process connects to a database: then its hold ends after
 * its transaction, whose callback at exit is called first, and before its
 * segment is detached, by which its caller sees that it is gone.
 */
bool
pv_runs_attach(const PvRunPlace *place)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	my_run = pv_run_table_attach(&shared->table, place, MyProcPid);
	LWLockRelease(lock);

	if (my_run == NULL)
		return false;
	before_shmem_exit(leader_exit, 0);
	return true;
}

static void
set_relation(Oid relid, Oid toast_parent)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	pv_run_table_set_relation(my_run, relid, toast_parent);
	LWLockRelease(lock);
}

/*
 * The leader is at this table from now on; toast_parent is that of a TOAST
 * table.
 */
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

/* The runs at a table, in a new array; returns their number. */
int
pv_runs_find(Oid database, Oid relid, PvRunSeen **seen)
{
	int			n;

	*seen = palloc(PV_MAX_RUNS * sizeof(PvRunSeen));
	LWLockAcquire(lock, LW_SHARED);
	n = pv_run_table_find(&shared->table, database, relid, *seen);
	LWLockRelease(lock);
	return n;
}

/* The run whose leader is this process; false if there is none. */
bool
pv_runs_find_process(int pid, PvRunSeen *seen)
{
	bool		found;

	LWLockAcquire(lock, LW_SHARED);
	found = pv_run_table_find_process(&shared->table, pid, seen);
	LWLockRelease(lock);
	return found;
}

/*
 * Cancels the run with that token, as pg_cancel_backend() does; false if it is
 * over.  If a table is given, also false if the run is not at it any more.
 */
bool
pv_runs_cancel(uint64 token, Oid database, Oid relid)
{
	int			pid;
	bool		done;

	LWLockAcquire(lock, LW_SHARED);
	pid = pv_run_table_process_at(&shared->table, token, database, relid);
	done = pid != 0 && kill(pid, SIGINT) == 0;
	LWLockRelease(lock);
	return done;
}
