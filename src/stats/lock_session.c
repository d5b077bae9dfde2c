/*-------------------------------------------------------------------------
 *
 * lock_session.c
 *	  The session whose lock is in the way of a vacuum.
 *
 * A process that vacuums runs this when it has not got the lock of its table,
 * or when it is canceled and still has its locks.  It looks through all locks
 * of the cluster, as pg_locks does, which holds their lightweight locks for a
 * moment.
 *
 * Core: storage/lmgr/lock.c, GetLockStatusData.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/catalog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lock.h"

#include "base/compat.h"
#include "stats/blocker.h"
#include "stats/lock_session.h"

/* Is one of these locks in the way of another one? */
static bool
conflicts(LOCKMASK held, LOCKMODE wanted)
{
	for (LOCKMODE mode = 1; mode <= MaxLockMode; mode++)
	{
		if ((held & LOCKBIT_ON(mode)) && DoLockModesConflict(mode, wanted))
			return true;
	}
	return false;
}

static bool
is_same(const LOCKTAG *a, const LOCKTAG *b)
{
	return memcmp(a, b, sizeof(LOCKTAG)) == 0;
}

/* Say what the session does that has this lock, or waits for it. */
static void
describe(const LockInstanceData *lock, PvLockSession *session)
{
	const PgBackendStatus *status = NULL;

	memset(session, 0, sizeof(*session));
	session->pid = lock->pid;
	session->query = lock->pid == 0 ? "prepared transaction" : "";
	if (lock->pid == 0)
		return;
	pgstat_clear_backend_activity_snapshot();
	status = pv_status_of(lock->pid);
	if (status == NULL)
		return;
	session->role = status->st_userid;
	session->query = pgstat_clip_activity(status->st_activity_raw);
}

/*
 * Set *session to one that has a lock of the relation, a shared one or one of
 * this database, that is in the way of this mode.  Return false if there is
 * none any more.
 */
bool
pv_find_lock_holder(Oid relid, LOCKMODE mode, PvLockSession *session)
{
	LockData   *data = GetLockStatusData();
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, IsSharedRelation(relid) ?
						 InvalidOid : MyDatabaseId, relid);
	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *lock = &data->locks[i];

		if (lock->pid != MyProcPid && is_same(&lock->locktag, &tag) &&
			conflicts(lock->holdMask, mode))
		{
			describe(lock, session);
			return true;
		}
	}
	return false;
}

/* Does this process have a lock that the other one waits for? */
static bool
waits_for_us(const LockInstanceData *waiter, const LockData *data)
{
	if (waiter->waitLockMode == NoLock || waiter->pid == MyProcPid)
		return false;
	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *ours = &data->locks[i];

		if (ours->pid == MyProcPid &&
			is_same(&ours->locktag, &waiter->locktag) &&
			conflicts(ours->holdMask, waiter->waitLockMode))
			return true;
	}
	return false;
}

/*
 * Set *session to the one that has waited longest for a lock that this process
 * has.  Return false if there is none.
 */
bool
pv_find_lock_waiter(PvLockSession *session)
{
	LockData   *data = GetLockStatusData();
	const LockInstanceData *first = NULL;

	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *lock = &data->locks[i];

		if ((first == NULL || lock->waitStart < first->waitStart) &&
			waits_for_us(lock, data))
			first = lock;
	}
	if (first == NULL)
		return false;
	describe(first, session);
	return true;
}
