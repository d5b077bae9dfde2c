/*-------------------------------------------------------------------------
 *
 * dsm.c
 *	  How much dynamic shared memory can still be had.
 *
 * Where it lies in a file system of fixed size, as in a container, whose
 * /dev/shm has 64 MB if nobody asks for more, a segment that does not fit is an
 * error inside the server, at whatever point the store of a vacuum grows.  So we
 * look first, and do with less.  Somebody else may take what we saw; then it is
 * that error after all.
 *
 * Any process may ask, at any time; no lock.
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

/* Left for others, who cannot do with less */
#define LEFT_FOR_OTHERS			((Size) 2 * 1024 * 1024)

/* Is there room for so many bytes?  Where nobody can tell, there is. */
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
