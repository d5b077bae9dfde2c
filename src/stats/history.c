/*-------------------------------------------------------------------------
 *
 * history.c
 *	  The history of vacuums and their totals, in shared memory.
 *
 * These are the records of stats/records.c, in main shared memory, under one
 * lightweight lock.  The lock is held while a record is added, or while all
 * records of a kind are copied.  Under it nothing fails, waits or is
 * allocated.  If parvacuum.history_size and parvacuum.stats_size are 0, there
 * is no memory, and nothing is recorded.
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
 * the file was written wakes the launcher.  The launcher holds the lock, in
 * shared mode, only to copy the records.  No process that vacuums writes the
 * file, because it would do so while its table is locked.  If the server has no
 * slot for the launcher, the file is written only at the end.
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

#include "base/clock.h"
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
	Latch	   *writer;			/* of the launcher, or NULL */
	PvRecords	records;		/* their arrays follow */
} HistoryShared;

static HistoryShared *shared = NULL;

/* Those of a server where nothing is recorded */
static const PvRecords no_records;

static LWLock *lock = NULL;


/* ----------------------------------------------------------------
 *		Setting up
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

/*
 * Write the file, and take note whether that was possible.  The launcher runs
 * this, and the postmaster at its end, when there are no other processes any
 * more.
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
	good = pv_history_file_write(image, size);
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

/* After a crash the records may be damaged, and the file is kept. */
static void
write_at_exit(int code, Datum arg)
{
	if (code == 0 && shared != NULL && !shared->changing && shared->unwritten)
		write_file();
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

/* Are there totals of tables?  What is known of sweeps is part of them. */
bool
pv_history_has_totals(void)
{
	return shared != NULL &&
		shared->records.of[PV_RECORD_TABLE].capacity > 0;
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
	const PvRecords *records = pv_history_lock();
	uint64		i = records->nsamples > PV_XID_SAMPLES ?
		records->nsamples - PV_XID_SAMPLES : 0;
	PvXidSample sample = {0};

	for (; i < records->nsamples && sample.next_xid <= xid; i++)
		sample = records->samples[i % PV_XID_SAMPLES];
	pv_history_unlock();
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
 * Launcher: take a sample and write the file if these are due.  Return the
 * milliseconds until one of them will be due, or -1 if there is no history.
 */
long
pv_history_do_due(void)
{
	static TimestampTz not_before = 0;	/* when the file may be written again */
	TimestampTz now = pv_now();

	if (shared == NULL)
		return -1;
	take_sample(PV_XID_SAMPLE_MS);

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
