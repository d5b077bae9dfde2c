/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  The parts of the main shared memory segment that parvacuum has.
 *
 * Each module that keeps something there registers its part in _PG_init(): how
 * large it is, which lock it wants, and how it is set up.  The postmaster then
 * runs the usual two hooks, and only when the library is preloaded: a server
 * without it has no parts, and pv_shmem_attached() says so.  After a crash the
 * postmaster sets the whole segment up anew.
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

#define MAX_PARTS				8

static PvShmemPart parts[MAX_PARTS];
static int	nparts = 0;
static bool attached = false;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* Asks for the space and the locks.  Postmaster, while it loads libraries. */
static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < nparts; i++)
	{
		RequestAddinShmemSpace(parts[i].size());
		if (parts[i].request_lock)
			parts[i].request_lock();
	}
}

/*
 * Finds the parts or sets them up.  AddinShmemInitLock covers the moment
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

/*
 * Registers a part.  Only while shared_preload_libraries are loaded.
 */
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

/* Installs the hooks, when all parts are registered. */
void
pv_shmem_init(void)
{
	Assert(process_shared_preload_libraries_in_progress);

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

/* Is the shared memory there, that is, was the library preloaded? */
bool
pv_shmem_attached(void)
{
	return attached;
}
