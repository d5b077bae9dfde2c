/*-------------------------------------------------------------------------
 *
 * faults.c
 *	  A library that is preloaded into a server of the tests, and makes system
 *	  calls and allocations fail.
 *
 * The test and all processes of the server map one file, whose path is in the
 * environment.  The test writes into it what is to fail, and reads from it
 * what has failed; PvFaults.pm has the other side.  A fault is due if
 *
 *	- the call is of a kind that is wanted, and for calls on files the path
 *	  matches a pattern,
 *	- the process is wanted: any, one session, or background workers of one
 *	  type,
 *	- as many such calls as wanted have been made before.
 *
 * Then this many calls fail with the error wanted.  Error 0 means that only a
 * part is read or written.  A session begins and ends a fault for itself by an
 * attempt to read the files "pv_begin" and "pv_end", which do not exist: so
 * nothing fails but what it does in between.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Kinds of calls, as in PvFaults.pm */
#define PV_READ		0x0001
#define PV_WRITE	0x0002		/* anywhere in a file */
#define PV_EXTEND	0x0004		/* behind the end of a file, and space for it */
#define PV_TRUNCATE 0x0008
#define PV_SYNC		0x0010
#define PV_OPEN		0x0020
#define PV_CREATE	0x0040
#define PV_SHM		0x0080		/* shm_open(), mmap() of a file */
#define PV_ALLOC	0x0100
#define PV_RENAME	0x0200

enum
{
	DISARMED, ARMED, WAITING_FOR_SESSION
};

/* The file, as the test packs it */
typedef struct Control
{
	int32_t		armed;
	uint32_t	kinds;
	int32_t		pid;			/* 0: any, -1: of the session that begins */
	int32_t		error;
	int32_t		skip;			/* calls that succeed before */
	int32_t		times;			/* calls that fail */
	int32_t		seen;			/* such calls so far */
	int32_t		injected;		/* calls that have failed */
	char		type[96];		/* background workers of this type */
	char		pattern[160];	/* of the path */
	char		what[256];		/* what failed first */
} Control;

static Control *control = NULL;
static int	trace = -1;

/* Of the server; NULL in other programs */
extern char *MyBgworkerEntry __attribute__((weak));
extern volatile uint32_t CritSectionCount __attribute__((weak));

/* bgw_type of a struct BackgroundWorker follows its name */
#define TYPE_OFFSET 96

/* Stacks are written of so many failed calls, since a fault was armed */
#define MAX_TRACED	50

/* Not to be entered again, by allocations of its own */
static __thread bool deciding = false;

/* In glibc: what malloc() and its like are other names of */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

/* Where a process has crashed goes to the file of traces, too. */
static void
trace_crash(int signal_number)
{
	void	   *frames[60];

	dprintf(trace, "-- process %d crashes\n", (int) getpid());
	backtrace_symbols_fd(frames, backtrace(frames, 60), trace);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

__attribute__((constructor))
static void
map_control(void)
{
	const char *path = getenv("PV_FAULTS");
	void	   *frames[4];
	int			fd;
	char		traces[1024];

	if (path == NULL || (fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
		return;
	snprintf(traces, sizeof(traces), "%s.trace", path);
	trace = open(traces, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	(void) backtrace(frames, 4);	/* loads what it needs */
	control = mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED,
				   fd, 0);
	if (control == MAP_FAILED)
		control = NULL;
	close(fd);
	signal(SIGSEGV, trace_crash);
	signal(SIGBUS, trace_crash);
	signal(SIGABRT, trace_crash);
}

/* Is this a process that is wanted? */
static bool
process_matches(void)
{
	if (control->pid != 0 && control->pid != getpid())
		return false;
	if (control->type[0] == '\0')
		return true;
	return &MyBgworkerEntry != NULL && MyBgworkerEntry != NULL &&
		strcmp(MyBgworkerEntry + TYPE_OFFSET, control->type) == 0;
}

/* Count a call that could fail, and decide whether it does. */
static bool
is_due(const char *call, const char *path)
{
	int32_t		n;
	int32_t		before;			/* calls that have failed before */
	void	   *frames[40];
	int			nframes;

	n = __atomic_fetch_add(&control->seen, 1, __ATOMIC_SEQ_CST);
	if (n < control->skip || n - control->skip >= control->times)
		return false;
	before = __atomic_fetch_add(&control->injected, 1, __ATOMIC_SEQ_CST);
	if (before == 0)
		snprintf(control->what, sizeof(control->what), "%s%s of process %d, %s%s",
				 call, &CritSectionCount != NULL && CritSectionCount > 0 ?
				 " in a critical section" : "", (int) getpid(),
				 strerrorname_np(control->error) ?
				 strerrorname_np(control->error) : "short", path);
	/* if every call is to be short, there are thousands */
	if (before < MAX_TRACED)
	{
		nframes = backtrace(frames, 40);
		dprintf(trace, "-- %s%s\n", call, path);
		backtrace_symbols_fd(frames, nframes, trace);
	}
	errno = control->error;
	return true;
}

/* Shall a call of these kinds on a path fail? */
static bool
path_fails(const char *call, uint32_t kinds, const char *path)
{
	bool		fails;
	char		shown[200];

	if (control == NULL || control->armed != ARMED || deciding ||
		(control->kinds & kinds) == 0)
		return false;
	deciding = true;
	snprintf(shown, sizeof(shown), " %s", path);
	fails = process_matches() &&
		fnmatch(control->pattern, path, 0) == 0 && is_due(call, shown);
	deciding = false;
	return fails;
}

/* The same for a descriptor; "end" is where a write ends, 0 if it is none. */
static bool
file_fails(const char *call, uint32_t kinds, int fd, off_t end)
{
	char		link[64],
				path[512];
	ssize_t		length;
	struct stat st;
	int			before = errno;

	if (control == NULL || control->armed != ARMED || deciding || fd < 0)
		return false;
	if (end > 0 && (control->kinds & PV_EXTEND) && fstat(fd, &st) == 0 &&
		S_ISREG(st.st_mode) && end > st.st_size)
		kinds |= PV_EXTEND;
	if ((control->kinds & kinds) == 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	errno = before;
	if (length < 0)
		return false;
	path[length] = '\0';
	return path_fails(call, kinds, path);
}

#define REAL(name) \
	static __typeof__(name) *real = NULL; \
	if (real == NULL) \
		real = (__typeof__(name) *) dlsym(RTLD_NEXT, #name)

/*
 * Half of a buffer, if only a part is to be read or written.  Of one byte there
 * is no part: PostgreSQL would try to write it for ever.
 */
#define FAIL_OR_HALVE(n) \
	do { \
		if (errno != 0) \
			return -1; \
		(n) -= (n) / 2; \
	} while (0)

#define DEFINE_AT(name, kind, buffer, offset) \
ssize_t \
name(int fd, buffer data, size_t size, offset at) \
{ \
	REAL(name); \
	if (file_fails(#name, kind, fd, (kind) == PV_WRITE ? at + (off_t) size : 0)) \
		FAIL_OR_HALVE(size); \
	return real(fd, data, size, at); \
}

DEFINE_AT(pread, PV_READ, void *, off_t)
DEFINE_AT(pread64, PV_READ, void *, off64_t)
DEFINE_AT(pwrite, PV_WRITE, const void *, off_t)
DEFINE_AT(pwrite64, PV_WRITE, const void *, off64_t)

/* A part of several buffers: half of the first one */
#define DEFINE_VECTOR(name, kind, offset) \
ssize_t \
name(int fd, const struct iovec *iov, int n, offset at) \
{ \
	struct iovec first; \
	off_t		end = at; \
	REAL(name); \
	for (int i = 0; i < n; i++) \
		end += iov[i].iov_len; \
	if (file_fails(#name, kind, fd, (kind) == PV_WRITE ? end : 0)) \
	{ \
		first = iov[0]; \
		FAIL_OR_HALVE(first.iov_len); \
		return real(fd, &first, 1, at); \
	} \
	return real(fd, iov, n, at); \
}

DEFINE_VECTOR(preadv, PV_READ, off_t)
DEFINE_VECTOR(preadv64, PV_READ, off64_t)
DEFINE_VECTOR(pwritev, PV_WRITE, off_t)
DEFINE_VECTOR(pwritev64, PV_WRITE, off64_t)

ssize_t
read(int fd, void *data, size_t size)
{
	REAL(read);
	if (file_fails("read", PV_READ, fd, 0))
		FAIL_OR_HALVE(size);
	return real(fd, data, size);
}

ssize_t
write(int fd, const void *data, size_t size)
{
	REAL(write);
	if (file_fails("write", PV_WRITE, fd, 0))
		FAIL_OR_HALVE(size);
	return real(fd, data, size);
}

/* Calls on a descriptor that fail or do not; with their error, or by it */
#define DEFINE_FAILING(name, kind, parameters, arguments, result) \
int \
name parameters \
{ \
	REAL(name); \
	if (file_fails(#name, kind, fd, 0)) \
	{ \
		if (errno == 0) \
			errno = EIO; \
		return result; \
	} \
	return real arguments; \
}

DEFINE_FAILING(ftruncate, PV_TRUNCATE, (int fd, off_t size), (fd, size), -1)
DEFINE_FAILING(ftruncate64, PV_TRUNCATE, (int fd, off64_t size), (fd, size), -1)
DEFINE_FAILING(fallocate, PV_EXTEND, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), -1)
DEFINE_FAILING(fallocate64, PV_EXTEND, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size), -1)
DEFINE_FAILING(posix_fallocate, PV_EXTEND, (int fd, off_t at, off_t size), (fd, at, size), errno)
DEFINE_FAILING(posix_fallocate64, PV_EXTEND, (int fd, off64_t at, off64_t size), (fd, at, size), errno)
DEFINE_FAILING(fsync, PV_SYNC, (int fd), (fd), -1)
DEFINE_FAILING(fdatasync, PV_SYNC, (int fd), (fd), -1)

/* open() and its like, whose third argument is there for a new file only */
#define DEFINE_OPEN(name) \
int \
name(const char *path, int flags, ...) \
{ \
	va_list		arguments; \
	mode_t		mode = 0; \
	REAL(name); \
	va_start(arguments, flags); \
	if (flags & O_CREAT) \
		mode = va_arg(arguments, mode_t); \
	va_end(arguments); \
	if (path_fails(#name, PV_OPEN | (flags & O_CREAT ? PV_CREATE : 0), path)) \
	{ \
		if (errno == 0) \
			errno = EIO; \
		return -1; \
	} \
	return real(path, flags, mode); \
}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)

int
shm_open(const char *path, int flags, mode_t mode)
{
	REAL(shm_open);
	if (path_fails("shm_open", PV_SHM, path))
		return -1;
	return real(path, flags, mode);
}

#define DEFINE_MMAP(name, offset) \
void * \
name(void *at, size_t size, int protection, int flags, int fd, offset from) \
{ \
	REAL(name); \
	if (fd >= 0 && file_fails(#name, PV_SHM, fd, 0)) \
		return MAP_FAILED; \
	return real(at, size, protection, flags, fd, from); \
}

DEFINE_MMAP(mmap, off_t)
DEFINE_MMAP(mmap64, off64_t)

int
rename(const char *from, const char *to)
{
	REAL(rename);
	if (path_fails("rename", PV_RENAME, to))
		return -1;
	return real(from, to);
}

/*
 * stdio, which reads and writes by itself.  A session reads two files that do
 * not exist to begin and to end.
 */
static void
mark(const char *path)
{
	if (control == NULL)
		return;
	if (strcmp(path, "pv_begin") == 0 && control->armed == WAITING_FOR_SESSION)
	{
		if (control->pid == -1)
			control->pid = getpid();
		__atomic_store_n(&control->armed, ARMED, __ATOMIC_SEQ_CST);
	}
	else if (strcmp(path, "pv_end") == 0)
		__atomic_store_n(&control->armed, DISARMED, __ATOMIC_SEQ_CST);
}

#define DEFINE_FOPEN(name) \
FILE * \
name(const char *path, const char *mode) \
{ \
	REAL(name); \
	mark(path); \
	if (path_fails(#name, PV_OPEN | (mode[0] == 'w' ? PV_CREATE : 0), path)) \
		return NULL; \
	return real(path, mode); \
}

DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

size_t
fwrite(const void *data, size_t size, size_t n, FILE *file)
{
	REAL(fwrite);
	if (file_fails("fwrite", PV_WRITE | PV_EXTEND, fileno(file), 0))
		return 0;
	return real(data, size, n, file);
}

size_t
fread(void *data, size_t size, size_t n, FILE *file)
{
	REAL(fread);
	if (file_fails("fread", PV_READ, fileno(file), 0))
		return 0;
	return real(data, size, n, file);
}

int
fclose(FILE *file)
{
	bool		fails = file_fails("fclose", PV_WRITE | PV_EXTEND, fileno(file), 0);
	int			error = errno;
	REAL(fclose);

	if (real(file) != 0 || !fails)
		return fails ? EOF : 0;
	errno = error;
	return EOF;
}

/*
 * Allocation
 */
static bool
allocation_fails(const char *call)
{
	bool		fails;

	if (control == NULL || control->armed != ARMED || deciding ||
		(control->kinds & PV_ALLOC) == 0)
		return false;
	deciding = true;
	fails = process_matches() && is_due(call, "");
	deciding = false;
	return fails;
}

void *
malloc(size_t size)
{
	return allocation_fails("malloc") ? NULL : __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
	return allocation_fails("calloc") ? NULL : __libc_calloc(n, size);
}

void *
realloc(void *old, size_t size)
{
	return allocation_fails("realloc") ? NULL : __libc_realloc(old, size);
}
