/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  What a piece of work of this process has used.
 *
 * The text has the lines that core logs of an autovacuum worker's work.  Core
 * logs nothing of what a background worker does.
 *
 * Core: access/heap/vacuumlazy.c, heap_vacuum_rel; commands/analyze.c,
 * do_analyze_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"

#include "base/compat.h"
#include "stats/history.h"

/* Begin to measure; for a report also processor time, by system calls. */
void
pv_usage_start(PvUsageStart *start, bool for_report)
{
	if (for_report)
		pg_rusage_init(&start->rusage);
	start->buffers = pgBufferUsage;
	start->wal = pgWalUsage;
	start->time = pv_usecs_of_machine();
}

/* Set what the result has of time, buffers and WAL to what was used since. */
void
pv_usage_since(const PvUsageStart *start, PvResult *result)
{
	BufferUsage buffers = {0};
	WalUsage	wal = {0};

	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &start->buffers);
	WalUsageAccumDiff(&wal, &pgWalUsage, &start->wal);
	result->elapsed_usecs = pv_usecs_since(start->time);
	result->wal_records = wal.wal_records;
	result->wal_fpi = wal.wal_fpi;
	result->wal_bytes = wal.wal_bytes;
	result->buffers_hit = buffers.shared_blks_hit + buffers.local_blks_hit;
	result->buffers_read = buffers.shared_blks_read + buffers.local_blks_read;
	result->buffers_dirtied = buffers.shared_blks_dirtied +
		buffers.local_blks_dirtied;
}

static double
megabytes_per_second(int64 blocks, int64 usecs)
{
	return usecs <= 0 ? 0 :
		(double) blocks * BLCKSZ / (1024 * 1024) / (usecs / 1000000.0);
}

/*
 * Append lines about what was used since then, as core's VACUUM has them.  Call
 * pv_usage_start() for a report before.  "used" is from pv_usage_since(), and
 * "memory" a line of its own, or empty.
 */
void
pv_usage_append(StringInfo text, const PvUsageStart *start,
				const PvResult *used, const char *memory)
{
	BufferUsage buffers = {0};
	WalUsage	wal = {0};

	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &start->buffers);
	WalUsageAccumDiff(&wal, &pgWalUsage, &start->wal);
	if (track_io_timing)
	{
		instr_time	read = pv_block_read_time(&buffers);
		instr_time	write = pv_block_write_time(&buffers);

		appendStringInfo(text, "I/O timings: read: %.3f ms, write: %.3f ms\n",
						 INSTR_TIME_GET_MILLISEC(read),
						 INSTR_TIME_GET_MILLISEC(write));
	}
	appendStringInfo(text, "avg read rate: %.3f MB/s, avg write rate: %.3f MB/s\n",
					 megabytes_per_second(used->buffers_read,
										  used->elapsed_usecs),
					 megabytes_per_second(used->buffers_dirtied,
										  used->elapsed_usecs));
	appendStringInfo(text, "buffer usage: %lld hits, %lld %s, %lld dirtied\n",
					 (long long) used->buffers_hit,
					 (long long) used->buffers_read, PV_READS_ARE_CALLED,
					 (long long) used->buffers_dirtied);
	appendStringInfo(text, "WAL usage: %lld records, %lld full page images, %lld bytes",
					 (long long) used->wal_records, (long long) used->wal_fpi,
					 (long long) used->wal_bytes);
	if (pv_wal_fpi_bytes(&wal) >= 0)
		appendStringInfo(text, ", %lld full page image bytes",
						 (long long) pv_wal_fpi_bytes(&wal));
	if (pv_wal_buffers_full(&wal) >= 0)
		appendStringInfo(text, ", %lld buffers full",
						 (long long) pv_wal_buffers_full(&wal));
	appendStringInfo(text, "\n%ssystem usage: %s", memory,
					 pg_rusage_show(&start->rusage));
}

/* Return these lines in new memory. */
char *
pv_usage_text(const PvUsageStart *start)
{
	PvResult	used = {0};
	StringInfoData text;

	pv_usage_since(start, &used);
	initStringInfo(&text);
	pv_usage_append(&text, start, &used, "");
	return text.data;
}
