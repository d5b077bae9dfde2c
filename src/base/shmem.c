/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  parvacuum's parts of the main shared memory segment.
 *
 * Each module that keeps something there registers its part in _PG_init(): its
 * size, the lock that it needs, and how it is initialized.  The postmaster
 * then runs the two usual hooks, and only if the library is preloaded.  A
 * server without it has no parts, and pv_shmem_attached() is false.  After a
 * crash the postmaster initializes the whole segment again.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "base/shmem.h"

#define MAX_PARTS				16

static PvShmemPart parts[MAX_PARTS];
static int	nparts = 0;
static bool attached = false;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* Requests the space and the locks, in the postmaster. */
static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < nparts; i++)
	{
		if (parts[i].size)
			RequestAddinShmemSpace(parts[i].size());
		if (parts[i].request_lock)
			parts[i].request_lock();
	}
}

/*
 * Finds the parts or initializes them.  AddinShmemInitLock covers the time
 * between the two, as for every module.
 */
static void
startup_shmem(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < nparts; i++)
		parts[i].startup();
	LWLockRelease(AddinShmemInitLock);
	attached = true;
}

/* Registers a part, while shared_preload_libraries are loaded. */
void
pv_shmem_register(Size (*size) (void), void (*request_lock) (void),
				  void (*startup) (void))
{
	Assert(process_shared_preload_libraries_in_progress);

	if (nparts == MAX_PARTS)
		elog(ERROR, "too many parts of shared memory");
	parts[nparts].size = size;
	parts[nparts].request_lock = request_lock;
	parts[nparts].startup = startup;
	nparts++;
}

/* Installs the hooks.  All parts must have been registered. */
void
pv_shmem_init(void)
{
	Assert(process_shared_preload_libraries_in_progress);

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

/* Is the shared memory there?  If so, the library was preloaded. */
bool
pv_shmem_attached(void)
{
	return attached;
}
