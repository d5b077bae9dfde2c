/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Places where a test can have a vacuum wait.
 *
 * Races are tested by stopping a participant at a certain place while something
 * else happens.  A session takes the advisory lock 28790; a vacuum for which
 * parvacuum.wait_at names the place asks for the same lock there, in passing.
 * So it waits until the session lets go, as visibly as for any lock, and can be
 * cancelled.
 *
 * Any participant runs this.  Nobody but a test should set parvacuum.wait_at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"

#include "base/wait.h"

/* As pg_advisory_lock(bigint) takes it */
#define ADVISORY_KEY			28790
#define ADVISORY_BIGINT			1

/*
 * Wait here if this is the place.
 */
void
pv_wait_at(const char *place)
{
	LOCKTAG		tag;

	if (strcmp(pv_guc_wait_at, place) != 0)
		return;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, ADVISORY_KEY, ADVISORY_BIGINT);
	(void) LockAcquire(&tag, ShareLock, false, false);
	(void) LockRelease(&tag, ShareLock, false);
}
