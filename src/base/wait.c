/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Names of our waits, how the launcher is woken up, and places where a
 *	  test can stop a vacuum.
 *
 * From PG 17 on pg_stat_activity shows these names in wait_event, with the
 * type "Extension".  Before, they all are "Extension".  Sleeps of cost-based
 * delay are core's VacuumDelay, on all versions.
 *
 * Tests of races stop a participant at a certain place.  A session takes the
 * advisory lock 28790, or that number with the OID of a table.  A vacuum for
 * which parvacuum.wait_at names the place asks for both locks there, and
 * releases them at once.  So it waits until the session releases its lock,
 * visibly and without regard to lock_timeout, and can be canceled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "base/compat.h"
#include "base/process.h"

/* As pg_advisory_lock() takes it: as a bigint, or as the first of two int */
#define ADVISORY_KEY			28790
#define ADVISORY_BIGINT			1
#define ADVISORY_TWO_INTS		2

static const char *const event_names[PV_NEVENTS] = {
	[PV_EVENT_BARRIER] = "ParvacuumBarrier",
	[PV_EVENT_WORKERS] = "ParvacuumWorkers",
	[PV_EVENT_RUN] = "ParvacuumRun",
	[PV_EVENT_LAUNCHER] = "ParvacuumLauncher"
};

/* The wait events as core has them; child processes inherit them */
uint32		pv_wait_event[PV_NEVENTS];

/*
 * In main shared memory: the latch of the last launcher, NULL before the first
 * one.  It exists for as long as the server, whoever owns it.
 */
static Latch *volatile *launcher_latch = NULL;

Size
pv_wait_shmem_size(void)
{
	return MAXALIGN(sizeof(Latch *));
}

/*
 * Define the names, in the postmaster, each time that shared memory is
 * initialized.  Core has a limited number of them, and later another extension
 * may have used them up.  A vacuum must not fail for want of a name.
 */
void
pv_wait_shmem_startup(LWLock *its_lock)
{
	bool		found;

	for (int i = 0; i < PV_NEVENTS; i++)
		pv_wait_event[i] = pv_named_wait_event(event_names[i]);
	launcher_latch = ShmemInitStruct("parvacuum launcher", pv_wait_shmem_size(),
									 &found);
	if (!found)
		*launcher_latch = NULL;
}

/* This process is the launcher from now on. */
void
pv_launcher_begin(void)
{
	*launcher_latch = MyLatch;
}

/* Wake the launcher up, if there is any. */
void
pv_launcher_wake(void)
{
	Latch	   *latch = *launcher_latch;

	if (latch != NULL)
		SetLatch(latch);
}

/* Wait here if this is the place that parvacuum.wait_at names. */
void
pv_wait_at(const char *place, Oid relid)
{
	int			lock_timeout = LockTimeout;
	LOCKTAG		tag[2];

	if (strcmp(pv_guc_wait_at, place) != 0)
		return;
	SET_LOCKTAG_ADVISORY(tag[0], MyDatabaseId, 0, ADVISORY_KEY,
						 ADVISORY_BIGINT);
	SET_LOCKTAG_ADVISORY(tag[1], MyDatabaseId, ADVISORY_KEY, relid,
						 ADVISORY_TWO_INTS);
	PG_TRY();
	{
		LockTimeout = 0;
		for (int i = 0; i < 2; i++)
		{
			(void) LockAcquire(&tag[i], ShareLock, false, false);
			(void) LockRelease(&tag[i], ShareLock, false);
		}
	}
	PG_CATCH();
	{
		LockTimeout = lock_timeout;
		PG_RE_THROW();
	}
	PG_END_TRY();
	LockTimeout = lock_timeout;
}
