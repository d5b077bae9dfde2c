/*-------------------------------------------------------------------------
 *
 * dsm.c
 *	  Is there room for more dynamic shared memory?
 *
 * The server takes a segment from what min_dynamic_shared_memory has set aside
 * in main shared memory, if a piece is free there that is large enough.
 * Otherwise it makes a file, which may be in a file system of a fixed size.  In
 * a container, /dev/shm has 64 MB by default.  There a segment that does not
 * fit is an error inside the server, at any point where the store of a vacuum
 * grows.  So we look before, and use less.  Another process may take the
 * memory that we saw; then it is that error nevertheless.
 *
 * Any process of the server may call this at any time that it could take a
 * lightweight lock.
 *
 * Core: storage/ipc/dsm.c, dsm_create; storage/ipc/dsm_impl.c,
 * dsm_impl_posix_resize.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifndef WIN32
#include <sys/statvfs.h>
#endif

#include "miscadmin.h"
#include "storage/dsm_impl.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/freepage.h"

#include "base/dsm.h"

/* Where the C library keeps POSIX shared memory on Linux */
#define POSIX_SHM_DIR			"/dev/shm"

/* Left there for other processes, which cannot do with less */
#define LEFT_FOR_OTHERS			((Size) 2 * 1024 * 1024)

/*
 * Has main shared memory a free piece of that many bytes?
 */
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
 * the server needs with it?  True if that is not known.
 */
bool
pv_dsm_has_room(Size bytes, Size more)
{
#ifndef WIN32
	struct statvfs fs;

	if (dynamic_shared_memory_type == DSM_IMPL_POSIX &&
		statvfs(POSIX_SHM_DIR, &fs) == 0 && fs.f_blocks > 0)
		return (uint64) fs.f_bavail * fs.f_frsize >=
			bytes + Max(more, LEFT_FOR_OTHERS) ||
			main_memory_has_room(bytes + more);
#endif
	return true;
}
