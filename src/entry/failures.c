/*-------------------------------------------------------------------------
 *
 * failures.c
 *	  Tables whose automatic vacuum or analyze has failed.
 *
 * A table that has failed is left alone for a while, by the scheduler and by
 * autovacuum: a naptime after the first failure, twice as long after each
 * further one, and no longer than PV_LONGEST_PAUSE.  It makes no difference
 * how it failed: by an error, by a cancel, or by the end of the process.
 * VACUUM and ANALYZE of a table fail and pause apart from each other.
 *
 * Memory is bounded.  A role that has more failing tables than
 * PV_MAX_FAILURES_OF_ROLE in a database has one entry for all others of its
 * tables there.  So it has no effect on what is remembered of other roles'
 * tables, and no more attempts by having more tables.
 *
 * The entries are a hash table in main shared memory under one lightweight
 * lock.  Scheduler workers and autovacuum workers write it, and sessions
 * remove entries.  The attempt at hand is the process's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "storage/ipc.h"

#include "base/clock.h"
#include "base/compat.h"
#include "entry/failures.h"

static HTAB *shared_failures = NULL;
static LWLock *lock = NULL;

/* What this process is at; relid is invalid if there is nothing */
static PvFailureKey attempt;


/* ----------------------------------------------------------------
 *		The table
 * ----------------------------------------------------------------
 */

/* Return the microseconds for which a table is left alone after failures. */
int64
pv_pause_after(int count, int64 naptime, bool danger)
{
	int64		longest = danger ? PV_LONGEST_IN_DANGER : PV_LONGEST_PAUSE;
	int64		pause = naptime;

	for (int i = 1; i < count && pause < longest; i++)
		pause *= 2;
	return Min(pause, longest);
}

/*
 * Remove old entries, of tables for which an attempt was due long ago, and
 * return the number of those that the role has in the database.
 */
static int
remove_old(HTAB *failures, const PvFailureKey *key, TimestampTz now)
{
	HASH_SEQ_STATUS status;
	PvFailure  *failure;
	int			n = 0;

	hash_seq_init(&status, failures);
	while ((failure = hash_seq_search(&status)) != NULL)
	{
		if (now - failure->failed_at > 2 * PV_LONGEST_PAUSE)
			(void) hash_search(failures, &failure->key, HASH_REMOVE, NULL);
		else if (failure->key.role == key->role &&
				 failure->key.database == key->database)
			n++;
	}
	return n;
}

/*
 * Count a failure of the table.  If there is no room for another entry, the
 * failure does not count.
 */
void
pv_failures_add(HTAB *failures, const PvFailureKey *key, bool canceled,
				TimestampTz now)
{
	PvFailureKey actual = *key;
	PvFailure  *failure = hash_search(failures, key, HASH_FIND, NULL);
	bool		found;

	if (failure == NULL &&
		remove_old(failures, key, now) >= PV_MAX_FAILURES_OF_ROLE)
		actual.relid = InvalidOid;	/* all further tables of the role */
	if (failure == NULL &&
		hash_search(failures, &actual, HASH_FIND, NULL) == NULL &&
		hash_get_num_entries(failures) >= PV_MAX_FAILURES)
		return;
	failure = hash_search(failures, &actual, HASH_ENTER_NULL, &found);
	if (failure == NULL)
		return;
	if (!found)
		failure->count = 0;
	failure->count = Min(failure->count + 1, 1000);
	failure->failed_at = now;
	failure->canceled = canceled;
}

/* Return what is known of the table's failures, or NULL. */
const PvFailure *
pv_failures_find(HTAB *failures, const PvFailureKey *key)
{
	PvFailure  *failure = hash_search(failures, key, HASH_FIND, NULL);
	PvFailureKey rest = *key;

	rest.relid = InvalidOid;
	return failure != NULL ? failure :
		hash_search(failures, &rest, HASH_FIND, NULL);
}


/* ----------------------------------------------------------------
 *		Shared memory
 * ----------------------------------------------------------------
 */

/* Return what the table of failures needs of shared memory. */
Size
pv_failures_shmem_size(void)
{
	return hash_estimate_size(PV_MAX_FAILURES, sizeof(PvFailure));
}

/* Create the table, or attach to it. */
void
pv_failures_shmem_startup(LWLock *its_lock)
{
	shared_failures = pv_shmem_hash("parvacuum failures", PV_MAX_FAILURES,
									sizeof(PvFailureKey), sizeof(PvFailure));
	lock = its_lock;
}


/* ----------------------------------------------------------------
 *		Attempts
 * ----------------------------------------------------------------
 */

/* The process exits in the middle of an attempt. */
static void
attempt_exit(int code, Datum arg)
{
	pv_failures_end(PV_ATTEMPT_FAILED);
}

/*
 * This process is about to vacuum, sweep or analyze the table, which is open.
 * pv_failures_end() must follow, also after an error.
 */
void
pv_failures_begin(Relation rel, bool analyze)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(attempt_exit, 0);
	registered = true;
	attempt = (PvFailureKey)
	{
		MyDatabaseId, rel->rd_rel->relowner, RelationGetRelid(rel), analyze
	};
}

/* That has ended.  If there was no attempt, nothing happens. */
void
pv_failures_end(PvAttempt how)
{
	if (OidIsValid(attempt.relid) && how != PV_ATTEMPT_LEFT &&
		(how != PV_ATTEMPT_DONE || hash_get_num_entries(shared_failures) > 0))
	{
		LWLockAcquire(lock, LW_EXCLUSIVE);
		if (how == PV_ATTEMPT_DONE)
			(void) hash_search(shared_failures, &attempt, HASH_REMOVE, NULL);
		else
			pv_failures_add(shared_failures, &attempt,
							how == PV_ATTEMPT_CANCELED, pv_now());
		LWLockRelease(lock);
	}
	attempt.relid = InvalidOid;
}

/*
 * Forget that a vacuum of the table has failed; or its ANALYZE as well, and the
 * failures that count for all tables of the role.
 */
void
pv_failures_forget(Oid relid, Oid role, bool analyze_too)
{
	PvFailureKey key = {MyDatabaseId, role, relid, 0};

	if (hash_get_num_entries(shared_failures) == 0)
		return;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (key.analyze = 0; key.analyze <= analyze_too; key.analyze++)
	{
		key.relid = relid;
		(void) hash_search(shared_failures, &key, HASH_REMOVE, NULL);
		key.relid = InvalidOid;
		if (analyze_too)
			(void) hash_search(shared_failures, &key, HASH_REMOVE, NULL);
	}
	LWLockRelease(lock);
}

/*
 * Return how often vacuums and sweeps of the table, or its ANALYZE, have failed
 * in a row; 0 if the last failure was hours ago.  With any_of_role, a table
 * without an entry has that of all further tables of its role.  Unlike the
 * queue's, these entries stay when the owner resets the table's options.
 */
int
pv_failures_lately(Oid relid, Oid role, bool analyze, bool any_of_role)
{
	PvFailureKey key = {MyDatabaseId, role, relid, analyze};
	const PvFailure *failure;
	int			count = 0;

	LWLockAcquire(lock, LW_SHARED);
	failure = any_of_role ? pv_failures_find(shared_failures, &key) :
		hash_search(shared_failures, &key, HASH_FIND, NULL);
	if (failure != NULL &&
		pv_now() - failure->failed_at < 2 * PV_LONGEST_PAUSE)
		count = failure->count;
	LWLockRelease(lock);
	return count;
}

/*
 * Is the table to be left alone because it has failed?  Return until when, by
 * pv_now(), or 0; and whether it was canceled.  A table in danger of
 * wraparound does not wait for the failures of others.
 */
TimestampTz
pv_failures_pause(Oid relid, Oid role, bool analyze, bool danger,
				  bool *canceled)
{
	PvFailureKey key = {MyDatabaseId, role, relid, analyze};
	const PvFailure *failure;
	TimestampTz until = 0;

	if (hash_get_num_entries(shared_failures) == 0)
		return 0;
	LWLockAcquire(lock, LW_SHARED);
	failure = danger ? hash_search(shared_failures, &key, HASH_FIND, NULL) :
		pv_failures_find(shared_failures, &key);
	if (failure != NULL)
	{
		until = failure->failed_at +
			pv_pause_after(failure->count,
						   autovacuum_naptime * USECS_PER_SEC, danger);
		*canceled = failure->canceled;
	}
	LWLockRelease(lock);
	return until > pv_now() ? until : 0;
}
