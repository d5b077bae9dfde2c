/*-------------------------------------------------------------------------
 *
 * slow_flush.c
 *	  A disk that takes its time to flush, for a machine whose disk does not.
 *
 * Loaded into the server by LD_PRELOAD.  Each fdatasync(), which is how WAL gets to
 * the disk, takes FLUSH_US microseconds at least; what the disk itself takes counts.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

int			fdatasync(int fd);

int
fdatasync(int fd)
{
	static int	(*next) (int);
	struct timespec end;
	const char *least = getenv("FLUSH_US");
	int			rc;
	int			save_errno;

	if (next == NULL)
		next = (int (*) (int)) dlsym(RTLD_NEXT, "fdatasync");

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += 1000 * (least ? atol(least) : 0);
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;

	rc = next(fd);
	save_errno = errno;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		 /* a signal; go on */ ;
	errno = save_errno;
	return rc;
}
