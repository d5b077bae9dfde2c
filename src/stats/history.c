/*-------------------------------------------------------------------------
 *
 * history.c
 *	  The history of vacuums and their totals, in shared memory.
 *
 * These are the records of stats/records.c, in main shared memory, under one
 * lightweight lock.  The lock is held while a record is added, or while all
 * records of a kind are copied.  Under it nothing fails, waits or is
 * allocated.  If parvacuum.history_size and parvacuum.stats_size are 0, there
 * is neither memory nor a lock, and nothing is recorded.
 *
 *		process that vacuums	adds a vacuum when it has ended
 *								(stats/history_run.c)
 *		sessions				copy records for the views, reset
 *		launcher				writes the file while the server runs, and takes
 *								samples of the next transaction ID
 *		postmaster				reads the file at the start, writes it at the end
 *
 * The file (stats/history_file.c) is written when there is something new and
 * a minute has passed since it was last written.  So a crash loses the
 * vacuums of the last minute.  The process that adds the first record after
 * the file was written wakes the launcher.  The launcher holds the lock only
 * to copy the records.  No process that vacuums writes the file, because it
 * would do so while its table is locked.  If the server has no slot for the
 * launcher, the file is written only at the end.
 *
 * An immediate shutdown kills processes, perhaps in the middle of a change.
 * "changing" says so, and then the postmaster keeps the file as it is.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/settings.h"
#include "stats/history.h"

/* Milliseconds from one time that the file is written to the next */
#define WRITE_INTERVAL_MS		60000

/* A rate of transaction IDs is that of this time at least */
#define SHORTEST_RATE_SECONDS	10

typedef struct HistoryShared
{
	/* all of it is under the lock */
	bool		changing;		/* within a change */
	bool		unwritten;		/* something is not in the file */
	TimestampTz written;		/* when the file was written; 0: it was not */
	TimestampTz retry_at;		/* the file is not written before that */
	Latch	   *writer;			/* of the launcher, or NULL */
	PvRecords	records;		/* their arrays follow */
} HistoryShared;

static HistoryShared *shared = NULL;
static LWLock *lock = NULL;


/* ----------------------------------------------------------------
 *		Setting up
 * ----------------------------------------------------------------
 */

static bool
is_wanted(void)
{
	return pv_guc_history_size > 0 || pv_guc_stats_size > 0;
}

Size
pv_history_shmem_size(void)
{
	if (!is_wanted())
		return 0;
	return MAXALIGN(offsetof(HistoryShared, records) +
					pv_records_size(pv_guc_history_size, pv_guc_stats_size));
}

/* Return room for any image of these records, or NULL. */
static char *
allocate_image(void)
{
	return MemoryContextAllocExtended(TopMemoryContext,
									  pv_records_image_room(&shared->records),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
}

/*
 * Write an image of the records.  The caller holds the lock, or is the only
 * process.
 */
static Size
write_image(char *image)
{
	return pv_records_write_image(&shared->records, GetSystemIdentifier(),
								  image);
}

/*
 * Postmaster, at its end: write the file.  There are no other processes any
 * more.  After a crash the records may be damaged, and the file is kept.
 */
static void
write_at_exit(int code, Datum arg)
{
	char	   *image;
	Size		size;

	if (code != 0 || shared == NULL || shared->changing || !shared->unwritten)
		return;
	image = allocate_image();
	if (image == NULL)
		return;
	size = write_image(image);
	pv_records_seal_image(image, size);
	(void) pv_history_file_write(image, size);
}

/*
 * Find the records, or initialize them from the file.  The caller holds
 * AddinShmemInitLock.
 */
void
pv_history_shmem_startup(LWLock *its_lock)
{
	bool		found;

	shared = NULL;
	if (!is_wanted())
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
	pv_history_file_read(&shared->records);
	if (!IsUnderPostmaster)
		on_shmem_exit(write_at_exit, (Datum) 0);
}

/* Is anything recorded? */
bool
pv_history_exists(void)
{
	return shared != NULL;
}


/* ----------------------------------------------------------------
 *		Changes
 * ----------------------------------------------------------------
 */

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
	Latch	   *writer = shared->unwritten ? NULL : shared->writer;

	pg_write_barrier();
	shared->changing = false;
	shared->unwritten = true;
	LWLockRelease(lock);

	/* the latch exists for as long as the server, whoever owns it */
	if (writer != NULL)
		SetLatch(writer);
}

/*
 * Add a vacuum, which gets its number, with what it did to indexes.  The
 * caller has checked that there is a history.
 */
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
	TimestampTz now = GetCurrentTimestamp();

	if (shared == NULL)
		return;
	begin_change();
	if (totals)
		pv_records_reset_stats(&shared->records, now);
	else
		pv_records_reset_history(&shared->records, now);
	shared->retry_at = 0;
	end_change();
}


/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

/* Allocate room for so many records, before the lock is taken. */
static void *
room_for(int n, Size size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext,
								  (Size) Max(n, 1) * size);
}

/* Copy all records of a kind. */
int
pv_history_copy(PvRecordKind kind, void **to)
{
	int			n;

	if (shared == NULL)
		return 0;
	*to = room_for(shared->records.max[kind], pv_record_size[kind]);
	LWLockAcquire(lock, LW_SHARED);
	n = pv_records_copy(&shared->records, kind, *to);
	LWLockRelease(lock);
	return n;
}

/*
 * Return in *past what the last vacuum of a table of this database took, of
 * those that are automatic or of those that a session asked for; all zero if
 * none is known.
 */
void
pv_history_past(Oid relid, bool automatic, PvEtaPast *past)
{
	const PvHistoryRun *run;

	memset(past, 0, sizeof(*past));
	if (shared == NULL || shared->records.max[PV_RECORD_RUN] == 0)
		return;
	LWLockAcquire(lock, LW_SHARED);
	run = pv_records_last_run(&shared->records, MyDatabaseId, relid,
							  automatic);
	if (run != NULL)
		pv_eta_past(&run->result, past);
	LWLockRelease(lock);
}

/* Are there totals of tables?  What is known of sweeps is part of them. */
bool
pv_history_has_totals(void)
{
	return shared != NULL && shared->records.max[PV_RECORD_TABLE] > 0;
}

/*
 * Can the next sweep of a table of this database be remembered?  Then *mark is
 * what is remembered of the last one, all zero if there is nothing: the table
 * was not swept, or its totals were reset.
 *
 * If its owner has all places for totals that he can have, and none is this
 * table's, the answer is no.  Where more tables wanted sweeps than there are
 * places, each sweep would make another table lose its mark, and all would be
 * swept over and over.
 */
bool
pv_history_sweep_mark(Oid relid, Oid owner, PvSweepMark *mark)
{
	bool		has_room;

	memset(mark, 0, sizeof(*mark));
	if (!pv_history_has_totals())
		return false;
	LWLockAcquire(lock, LW_SHARED);
	has_room = pv_records_has_room(&shared->records, MyDatabaseId, relid,
								   owner);
	(void) pv_records_sweep_mark(&shared->records, MyDatabaseId, relid, mark);
	LWLockRelease(lock);
	return has_room;
}

/*
 * Return the pages that an index of this database had when it was last
 * vacuumed or swept, or 0.
 */
BlockNumber
pv_history_index_pages(Oid indexrelid)
{
	BlockNumber pages;

	if (!pv_history_has_totals())
		return 0;
	LWLockAcquire(lock, LW_SHARED);
	pages = pv_records_index_pages(&shared->records, MyDatabaseId, indexrelid);
	LWLockRelease(lock);
	return pages;
}

/*
 * Copy what is known of all records, without these, and return when the file
 * was written.  All is zero if nothing is recorded.
 */
TimestampTz
pv_history_info(PvRecords *info)
{
	TimestampTz written;

	memset(info, 0, sizeof(*info));
	if (shared == NULL)
		return 0;
	LWLockAcquire(lock, LW_SHARED);
	*info = shared->records;
	written = shared->written;
	LWLockRelease(lock);
	return written;
}

/*
 * Get the last vacuums of a table of this database, if they were not
 * completed.
 */
bool
pv_history_failures(Oid relid, PvTableTotals *totals, PvHistoryRun *last)
{
	bool		result;

	if (!pv_history_has_totals())
		return false;
	LWLockAcquire(lock, LW_SHARED);
	result = pv_records_failures(&shared->records, MyDatabaseId, relid, totals,
								 last);
	LWLockRelease(lock);
	return result;
}


/* ----------------------------------------------------------------
 *		Transaction IDs
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
	last = records->nsamples == 0 ? 0 :
		records->samples[(records->nsamples - 1) % PV_XID_SAMPLES].at;
	if (last == 0 || last > sample.at ||
		TimestampDifferenceExceeds(last, sample.at, age_ms))
		records->samples[records->nsamples++ % PV_XID_SAMPLES] = sample;
	LWLockRelease(lock);
}

/*
 * Return the oldest sample in which that transaction ID had been assigned, all
 * zero if there is none.
 */
static PvXidSample
oldest_sample(uint64 xid)
{
	PvXidSample sample = {0};
	uint64		i;

	if (shared == NULL)
		return sample;
	LWLockAcquire(lock, LW_SHARED);
	i = shared->records.nsamples > PV_XID_SAMPLES ?
		shared->records.nsamples - PV_XID_SAMPLES : 0;
	for (; i < shared->records.nsamples && sample.next_xid <= xid; i++)
		sample = shared->records.samples[i % PV_XID_SAMPLES];
	LWLockRelease(lock);
	if (sample.next_xid <= xid)
		memset(&sample, 0, sizeof(sample));
	return sample;
}

/*
 * Return the transaction IDs that were assigned per second in the last
 * *seconds, a day at most; 0 if that is not known.
 */
double
pv_history_xid_rate(double *seconds)
{
	PvXidSample oldest = oldest_sample(0);
	TimestampTz now = GetCurrentTimestamp();

	*seconds = (now - oldest.at) / (double) USECS_PER_SEC;
	if (oldest.at == 0 || *seconds < SHORTEST_RATE_SECONDS)
		return 0;
	return (next_xid() - oldest.next_xid) / *seconds;
}

/*
 * Return since when, at least, something has existed whose oldest transaction
 * ID has that age; 0 if that is not known.
 */
TimestampTz
pv_history_known_since(uint64 xid_age)
{
	uint64		next = next_xid();

	return oldest_sample(next > xid_age ? next - xid_age : 0).at;
}


/* ----------------------------------------------------------------
 *		The file, while the server runs
 * ----------------------------------------------------------------
 */

/* The launcher has this latch from now on; take a first sample. */
void
pv_history_set_writer(Latch *latch)
{
	if (shared == NULL)
		return;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	shared->writer = latch;
	LWLockRelease(lock);
	take_sample(0);
}

/*
 * Copy the records for the file, if they are to be written now.  Otherwise
 * set *wait to the milliseconds until then, or to -1 if there is nothing to
 * write.
 */
static bool
take_image(char *image, Size *size, long *wait)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		taken = false;

	*wait = -1;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (shared->unwritten && now < shared->retry_at &&
		shared->retry_at - now <= WRITE_INTERVAL_MS * INT64CONST(1000))
		*wait = TimestampDifferenceMilliseconds(now, shared->retry_at) + 1;
	else if (shared->unwritten)
	{
		shared->retry_at = TimestampTzPlusMilliseconds(now,
													   WRITE_INTERVAL_MS);
		taken = image != NULL;
		shared->unwritten = !taken;
		if (taken)
			*size = write_image(image);
		else
			*wait = WRITE_INTERVAL_MS;
	}
	LWLockRelease(lock);
	return taken;
}

/* Note whether the file was written. */
static void
note_written(bool good)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (good)
		shared->written = GetCurrentTimestamp();
	else
		shared->unwritten = true;
	LWLockRelease(lock);
}

/*
 * Write the file if that is due.  Return the milliseconds until it will be
 * due, or -1 if there is nothing to write.
 */
static long
write_if_due(void)
{
	char	   *image;
	Size		size;
	long		wait;

	/* without the lock first, since there is mostly nothing to do */
	if (!shared->unwritten)
		return -1;
	image = allocate_image();
	if (take_image(image, &size, &wait))
	{
		bool		good;

		pv_records_seal_image(image, size);
		good = pv_history_file_write(image, size);
		note_written(good);
		if (!good)
			wait = WRITE_INTERVAL_MS;
	}
	if (image != NULL)
		pfree(image);
	return wait;
}

/*
 * Launcher: take a sample and write the file if these are due.  Return the
 * milliseconds until one of them will be due, or -1 if there is no history.
 */
long
pv_history_do_due(void)
{
	long		wait;

	if (shared == NULL)
		return -1;
	take_sample(PV_XID_SAMPLE_MS);
	wait = write_if_due();
	return wait < 0 ? PV_XID_SAMPLE_MS : Min(wait, PV_XID_SAMPLE_MS);
}
