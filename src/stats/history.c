/*-------------------------------------------------------------------------
 *
 * history.c
 *	  The history of vacuums and their totals, in shared memory, and the file
 *	  that keeps them while the server is down.
 *
 * These are the records of stats/records.c, in main shared memory, under one
 * lightweight lock.  Under it nothing fails, waits or is allocated; who writes
 * the file holds it, in shared mode, only to copy the records.  If
 * parvacuum.history_size and parvacuum.stats_size are 0, there is no memory, and
 * nothing is recorded.
 *
 *		process that vacuums	adds a vacuum when it has ended
 *								(stats/history_run.c)
 *		sessions				copy records for the views, reset
 *		launcher				writes the file while the server runs, and takes
 *								samples of the next transaction ID
 *		postmaster				reads the file at the start, also after a crash,
 *								and writes it at the end
 *
 * The file is written when there is something new and a minute has passed since
 * it was last written.  So a crash loses the vacuums of the last minute.  The
 * process that adds the first record after the file was written wakes the
 * launcher.  No process that vacuums writes the file, because it would do so
 * while its table is locked.  If the server has no slot for the launcher, the
 * file is written only at the end.
 *
 * It is written under another name, flushed, and renamed.  So there is a
 * complete file at any time, also after a crash of the system.  A file that
 * cannot be read is no reason not to start.  It is renamed, so that nothing is
 * lost, and the history begins anew.
 *
 * The server's own statistics of the last shutdown are in the same directory.
 * A base backup includes it, so a standby has the history of its primary as it
 * was then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/transam.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/settings.h"
#include "stats/history.h"

#define HISTORY_FILE	PGSTAT_STAT_PERMANENT_DIRECTORY "/parvacuum.stat"
#define NEW_FILE		HISTORY_FILE ".tmp"
#define BAD_FILE		HISTORY_FILE ".bad"

/* More than the largest settings need */
#define MAX_FILE_SIZE	((off_t) 1024 * 1024 * 1024)

/* Milliseconds from one time that the file is written to the next */
#define WRITE_INTERVAL_MS		60000

/* A rate of transaction IDs is that of this time at least */
#define SHORTEST_RATE_SECONDS	10

typedef struct HistoryShared
{
	/* all of this is under the lock */
	bool		changing;		/* within a change, in which an immediate
								 * shutdown may kill the process */
	bool		unwritten;		/* something is not in the file */
	PvRecords	records;		/* their arrays follow */
} HistoryShared;

static HistoryShared *shared = NULL;

static LWLock *lock = NULL;

/* The records of a server where nothing is recorded */
static const PvRecords no_records;


/* ----------------------------------------------------------------
 *		The file
 * ----------------------------------------------------------------
 */

/*
 * Replace the file by an image.  If that fails, log the reason, keep the former
 * file, and return false.
 */
static bool
replace_file(const char *image, Size size)
{
	FILE	   *file;
	bool		good;

	/* what a crash or somebody else has left under this name is of no use */
	(void) unlink(NEW_FILE);
	errno = 0;
	file = AllocateFile(NEW_FILE, PG_BINARY_W);
	good = file != NULL && fwrite(image, 1, size, file) == size;
	if (file != NULL && FreeFile(file) != 0)
		good = false;
	if (!good)
	{
		if (errno == 0)
			errno = ENOSPC;
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", NEW_FILE)));
	}
	if (!good || durable_rename(NEW_FILE, HISTORY_FILE, LOG) != 0)
	{
		(void) unlink(NEW_FILE);
		return false;
	}
	return true;
}

/*
 * Read the file into new memory, and set *size.  Return NULL if there is no
 * file, or if it could not be read; then *problem says why.  Open nothing but
 * a file: a pipe, for instance, could keep the server from starting.
 */
static char *
read_file(Size *size, const char **problem)
{
	struct stat st;
	FILE	   *file = NULL;
	char	   *image;

	*problem = NULL;
	if (stat(HISTORY_FILE, &st) != 0)
	{
		if (errno != ENOENT)
			*problem = psprintf("It could not be found: %m.");
		return NULL;
	}
	if (!S_ISREG(st.st_mode))
		*problem = "It is not a regular file.";
	else if (st.st_size > MAX_FILE_SIZE)
		*problem = "It is too large.";
	else if ((file = AllocateFile(HISTORY_FILE, PG_BINARY_R)) == NULL)
		*problem = psprintf("It could not be opened: %m.");
	if (*problem != NULL)
		return NULL;

	*size = (Size) st.st_size;
	image = palloc_extended(*size + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	errno = 0;
	if (image == NULL)
		*problem = "There is not enough memory to read it.";
	else if (fread(image, 1, *size, file) != *size)
		*problem = errno == 0 ? "It could not be read." :
			psprintf("It could not be read: %m.");
	FreeFile(file);
	return *problem == NULL ? image : NULL;
}

/*
 * Give a file that cannot be used another name, and log why.  durable_rename()
 * would open the file, which may be just what is not possible.
 */
static void
keep_aside(const char *problem)
{
	bool		kept = rename(HISTORY_FILE, BAD_FILE) == 0;

	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("could not use parvacuum's history in file \"%s\"",
					HISTORY_FILE),
			 errdetail("%s  The history begins anew.", problem),
			 kept ? errhint("The file is kept as \"%s\".", BAD_FILE) :
			 errhint("The new history replaces the file, which could not be renamed to \"%s\": %m",
					 BAD_FILE)));
}

/* Read the file, if there is one, into records that are new. */
static void
read_history(PvRecords *records)
{
	const char *problem;
	Size		size;
	char	   *image = read_file(&size, &problem);

	if (image != NULL)
	{
		problem = pv_records_read_image(records, GetSystemIdentifier(),
										image, size);
		pfree(image);
	}
	if (problem != NULL)
		keep_aside(problem);
}

/*
 * Write the file.  The launcher runs this, and the postmaster at its end, when
 * there are no other processes any more.
 */
static void
write_file(void)
{
	char	   *image =
		MemoryContextAllocExtended(TopMemoryContext,
								   pv_records_image_room(&shared->records),
								   MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	bool		alone = !IsUnderPostmaster;
	bool		good;
	Size		size;

	if (image == NULL)
		return;
	if (!alone)
		LWLockAcquire(lock, LW_SHARED);
	size = pv_records_write_image(&shared->records, GetSystemIdentifier(),
								  image);
	shared->unwritten = false;	/* who sets it has the lock exclusively */
	if (!alone)
		LWLockRelease(lock);
	pv_records_seal_image(image, size);
	good = replace_file(image, size);
	pfree(image);

	if (!alone)
		LWLockAcquire(lock, LW_EXCLUSIVE);
	if (good)
		shared->records.written = GetCurrentTimestamp();
	else
		shared->unwritten = true;
	if (!alone)
		LWLockRelease(lock);
}

/* After a crash the records may be damaged, and the file is kept as it is. */
static void
write_at_exit(int code, Datum arg)
{
	if (code == 0 && shared != NULL && !shared->changing && shared->unwritten)
		write_file();
}


/* ----------------------------------------------------------------
 *		Setting up, and changes
 * ----------------------------------------------------------------
 */

/* Return 0 if nothing is recorded. */
Size
pv_history_shmem_size(void)
{
	if (pv_guc_history_size == 0 && pv_guc_stats_size == 0)
		return 0;
	return MAXALIGN(offsetof(HistoryShared, records) +
					pv_records_size(pv_guc_history_size, pv_guc_stats_size));
}

/* Find the records or set them up.  The caller holds AddinShmemInitLock. */
void
pv_history_shmem_startup(LWLock *its_lock)
{
	bool		found;

	shared = NULL;
	if (pv_history_shmem_size() == 0)
		return;

	shared = ShmemInitStruct("parvacuum history", pv_history_shmem_size(),
							 &found);
	lock = its_lock;
	if (found)
		return;

	memset(shared, 0, offsetof(HistoryShared, records));
	pv_records_init(&shared->records, pv_guc_history_size, pv_guc_stats_size,
					GetCurrentTimestamp());
	if (IsBinaryUpgrade)
		return;
	read_history(&shared->records);
	if (!IsUnderPostmaster)
		on_shmem_exit(write_at_exit, (Datum) 0);
}

/* Is anything recorded? */
bool
pv_history_exists(void)
{
	return shared != NULL;
}

static void
begin_change(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	shared->changing = true;
	pg_write_barrier();
}

/* If this is the first change that is not in the file, wake the launcher. */
static void
end_change(void)
{
	bool		was_written = !shared->unwritten;

	pg_write_barrier();
	shared->changing = false;
	shared->unwritten = true;
	LWLockRelease(lock);
	if (was_written)
		pv_launcher_wake();
}

/* Add a vacuum with what it did to indexes, where pv_history_exists(). */
void
pv_history_add(PvHistoryRun *run, PvHistoryIndex *indexes, int nindexes)
{
	begin_change();
	pv_records_add(&shared->records, run, indexes, nindexes);
	end_change();
}

/* Remove the vacuums from the history, or all totals. */
void
pv_history_reset(bool totals)
{
	if (shared == NULL)
		return;
	begin_change();
	if (totals)
		pv_records_reset_stats(&shared->records, GetCurrentTimestamp());
	else
		pv_records_reset_history(&shared->records, GetCurrentTimestamp());
	end_change();
}


/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

/*
 * Lock the records for reading.  Nothing may fail until pv_history_unlock().
 * If nothing is recorded, they are empty.
 */
const PvRecords *
pv_history_lock(void)
{
	if (shared == NULL)
		return &no_records;
	LWLockAcquire(lock, LW_SHARED);
	return &shared->records;
}

void
pv_history_unlock(void)
{
	if (shared != NULL)
		LWLockRelease(lock);
}

/* Return the number of records of a kind, and them in a new array. */
int
pv_history_copy(PvRecordKind kind, void **to)
{
	int			n;

	if (shared == NULL)
		return 0;
	*to = MemoryContextAllocHuge(CurrentMemoryContext,
								 (Size) shared->records.of[kind].capacity *
								 pv_record_size[kind]);
	LWLockAcquire(lock, LW_SHARED);
	n = pv_records_copy(&shared->records, kind, *to);
	LWLockRelease(lock);
	return n;
}


/* ----------------------------------------------------------------
 *		Transaction IDs, and the file while the server runs
 * ----------------------------------------------------------------
 */

static uint64
next_xid(void)
{
	return U64FromFullTransactionId(ReadNextFullTransactionId());
}

/* Take a sample if the last one is so many milliseconds old. */
static void
take_sample(int age_ms)
{
	PvRecords  *records = &shared->records;
	PvXidSample sample = {GetCurrentTimestamp(), next_xid()};
	TimestampTz last;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	last = records->samples[(records->nsamples - 1) % PV_XID_SAMPLES].at;
	if (records->nsamples == 0 || last > sample.at ||
		TimestampDifferenceExceeds(last, sample.at, age_ms))
		records->samples[records->nsamples++ % PV_XID_SAMPLES] = sample;
	LWLockRelease(lock);
}

/*
 * Return the oldest sample since then that is after that transaction ID, all
 * zero if there is none.  Set *before to when the last one before it was taken,
 * or 0.
 */
static PvXidSample
oldest_sample(uint64 xid, TimestampTz since, TimestampTz *before)
{
	const PvRecords *records = pv_history_lock();
	uint64		i = records->nsamples > PV_XID_SAMPLES ?
		records->nsamples - PV_XID_SAMPLES : 0;
	PvXidSample found = {0};

	*before = 0;
	for (; i < records->nsamples && found.at == 0; i++)
	{
		const PvXidSample *sample = &records->samples[i % PV_XID_SAMPLES];

		if (sample->next_xid > xid && sample->at >= since)
			found = *sample;
		else
			*before = sample->at;
	}
	pv_history_unlock();
	return found;
}

/*
 * Return the transaction IDs assigned per second in the last *seconds, a day at
 * most; 0 if that is not known.
 */
double
pv_history_xid_rate(double *seconds)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz before;
	PvXidSample oldest = oldest_sample(0, now - USECS_PER_DAY -
									   PV_XID_SAMPLE_MS * 1000, &before);

	*seconds = (now - oldest.at) / (double) USECS_PER_SEC;
	if (oldest.at == 0 || *seconds < SHORTEST_RATE_SECONDS ||
		oldest.next_xid > next_xid())
		return 0;
	return (next_xid() - oldest.next_xid) / *seconds;
}

/*
 * Return since when, at least, a transaction ID of that age has existed, and
 * set *not_before to when it did not exist yet; 0 if that is not known.
 */
TimestampTz
pv_history_known_since(uint64 xid_age, TimestampTz *not_before)
{
	uint64		next = next_xid();

	return oldest_sample(next > xid_age ? next - xid_age : 0, 0,
						 not_before).at;
}

/*
 * Launcher: take a sample and write the file if these are due; the first time
 * a sample is.  Return the milliseconds until one of them will be due, or -1 if
 * there is no history.
 */
long
pv_history_do_due(void)
{
	static int	sample_ms = 0;	/* the age at which another is taken */
	static TimestampTz not_before = 0;	/* when the file may be written again */
	TimestampTz now = pv_now();

	if (shared == NULL)
		return -1;
	take_sample(sample_ms);
	sample_ms = PV_XID_SAMPLE_MS;

	/* without the lock, since there is mostly nothing to do */
	if (!shared->unwritten)
		return PV_XID_SAMPLE_MS;
	if (now >= not_before)
	{
		not_before = now + WRITE_INTERVAL_MS * INT64CONST(1000);
		write_file();
	}
	return (not_before - now) / 1000 + 1;
}
