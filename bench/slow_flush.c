/*-------------------------------------------------------------------------
 *
 * slow_flush.c
 *	  Simulate a disk with slow flushes.
 *
 * The library is loaded into the server by LD_PRELOAD.  It replaces fdatasync(),
 * by which the server flushes WAL.  Each call takes at least FLUSH_US microseconds,
 * including the time that the disk itself needs.
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
		 /* interrupted by a signal: sleep again */ ;
	errno = save_errno;
	return rc;
}
