/*-------------------------------------------------------------------------
 *
 * dsm.c
 *	  Is there room for more dynamic shared memory?
 *
 * Dynamic shared memory may be in a file system of a fixed size.  In a
 * container, /dev/shm has 64 MB by default.  There a segment that does not fit
 * is an error inside the server, at any point where the store of a vacuum
 * grows.  So we look before, and use less.  Another process may take the
 * memory that we saw; then it is that error nevertheless.
 *
 * Any process may call this at any time.  No lock is needed.
 *
 * Core: storage/ipc/dsm_impl.c, dsm_impl_posix_resize.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifndef WIN32
#include <sys/statvfs.h>
#endif

#include "storage/dsm_impl.h"

#include "base/dsm.h"

/* Where the C library keeps POSIX shared memory on Linux */
#define POSIX_SHM_DIR			"/dev/shm"

/* Left for other processes, which cannot do with less */
#define LEFT_FOR_OTHERS			((Size) 2 * 1024 * 1024)

/*
 * Is there room for that many bytes?  True if that is not known.
 */
bool
pv_dsm_has_room(Size bytes)
{
#ifndef WIN32
	struct statvfs fs;

	if (dynamic_shared_memory_type == DSM_IMPL_POSIX &&
		statvfs(POSIX_SHM_DIR, &fs) == 0 && fs.f_blocks > 0)
		return (uint64) fs.f_bavail * fs.f_frsize >= bytes + LEFT_FOR_OTHERS;
#endif
	return true;
}
