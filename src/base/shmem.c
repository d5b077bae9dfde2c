/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  parvacuum's parts of the main shared memory segment, and room for more
 *	  dynamic shared memory.
 *
 * Each module that keeps something there has a part: its size, the lock that
 * it needs, and how it is initialized.  Without preloading there are no parts,
 * and pv_shmem_attached() is false.  After a crash the postmaster initializes
 * the whole segment again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/statvfs.h>

#include "miscadmin.h"
#include "storage/dsm_impl.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/freepage.h"

#include "base/process.h"

static const PvShmemPart *parts;
static int	nparts;
static bool attached = false;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* Request the space and the locks, in the postmaster. */
static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < nparts; i++)
	{
		RequestAddinShmemSpace(parts[i].size());
		if (parts[i].lock)
			RequestNamedLWLockTranche(parts[i].lock, 1);
	}
}

/*
 * Find the parts or initialize them.  AddinShmemInitLock covers the time
 * between the two, as for every module.
 */
static void
startup_shmem(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < nparts; i++)
		parts[i].startup(parts[i].lock == NULL ? NULL :
						 &GetNamedLWLockTranche(parts[i].lock)->lock);
	LWLockRelease(AddinShmemInitLock);
	attached = true;
}

/* Install the hooks, while shared_preload_libraries are loaded. */
void
pv_shmem_init(const PvShmemPart *all_parts, int n)
{
	Assert(process_shared_preload_libraries_in_progress);

	parts = all_parts;
	nparts = n;
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


/* ----------------------------------------------------------------
 *		Room for more dynamic shared memory
 *
 * The server takes a segment from what min_dynamic_shared_memory has set aside
 * in main shared memory, if a large enough piece is free there.  Otherwise it
 * makes a file, which may be in a small file system: in a container, /dev/shm
 * has 64 MB by default.  A segment that does not fit is an error inside the
 * server, wherever the store of a vacuum grows.  So we look before, and use
 * less.  If another process takes what we saw, there is that error
 * nevertheless.
 *
 * Core: storage/ipc/dsm.c, dsm_create; storage/ipc/dsm_impl.c,
 * dsm_impl_posix_resize.
 * ----------------------------------------------------------------
 */

/* Left there for other processes, which cannot do with less */
#define LEFT_FOR_OTHERS			((Size) 2 * 1024 * 1024)

/* Has main shared memory a free piece of that many bytes? */
static bool
main_memory_has_room(Size bytes)
{
	static FreePageManager *pages = NULL;
	bool		found = true;
	Size		largest;

	if (min_dynamic_shared_memory == 0 || !IsUnderPostmaster)
		return false;
	if (pages == NULL)
		pages = ShmemInitStruct("Preallocated DSM",
								(Size) min_dynamic_shared_memory * 1024 * 1024,
								&found);
	if (!found)
		elog(ERROR, "the memory of min_dynamic_shared_memory was not found");

	LWLockAcquire(DynamicSharedMemoryControlLock, LW_SHARED);
	largest = fpm_largest(pages);
	LWLockRelease(DynamicSharedMemoryControlLock);
	return bytes <= largest * FPM_PAGE_SIZE;
}

/*
 * Is there room for a segment of that many bytes, and for "more" bytes, which
 * the server needs with it?  Return true if that is not known.  This may take
 * a lightweight lock.
 */
bool
pv_dsm_has_room(Size bytes, Size more)
{
	struct statvfs fs;

	if (dynamic_shared_memory_type == DSM_IMPL_POSIX &&
		statvfs(PV_SHM_DIR, &fs) == 0 && fs.f_blocks > 0)
		return (uint64) fs.f_bavail * fs.f_frsize >=
			bytes + Max(more, LEFT_FOR_OTHERS) ||
			main_memory_has_room(bytes + more);
	return true;
}
