/*-------------------------------------------------------------------------
 *
 * records.c
 *	  The last vacuums and the totals of tables and indexes, as data.
 *
 * This is one block of memory with these parts, in this order:
 *
 *		PvRecords			sizes, numbers, times of the last resets
 *		PvHistoryRun[]		ring: the last vacuums
 *		PvHistoryIndex[]	ring: what they did to each index
 *		PvLru				which table has which place in the next part
 *		PvTableTotals[]
 *		PvLru				the same for indexes
 *		PvIndexTotals[]
 *
 * An image is its contents as they are in a file: a header that says what the
 * file is and how long it must be, the records in use, the oldest first, and a
 * checksum.  An image can be read into a block of another size, which then has
 * the newest records.  Any sequence of bytes can be given to
 * pv_records_read_image().
 *
 * This file knows nothing of processes, locks and clocks; the caller holds
 * whatever covers the memory.  Nothing here fails or allocates memory.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_crc32c.h"

#include "stats/records.h"

/* "pvac" in memory of either byte order, which the magic number tells apart */
#define IMAGE_MAGIC				0x70766163

/* To be increased when the meaning of any field in the file changes */
#define IMAGE_FORMAT			1

typedef enum RecordKind
{
	KIND_RUN,
	KIND_INDEX,
	KIND_TABLE,
	KIND_INDEX_TOTALS,
	NKINDS
} RecordKind;

static const uint32 record_size[NKINDS] = {
	[KIND_RUN] = sizeof(PvHistoryRun),
	[KIND_INDEX] = sizeof(PvHistoryIndex),
	[KIND_TABLE] = sizeof(PvTableTotals),
	[KIND_INDEX_TOTALS] = sizeof(PvIndexTotals)
};

typedef struct ImageHeader
{
	uint32		magic;
	uint32		format;
	uint32		major;			/* version of PostgreSQL */
	uint32		size[NKINDS];	/* of a record */
	uint32		count[NKINDS];	/* records that follow */
	uint64		cluster;		/* its system identifier */
	uint64		nruns;			/* these as in PvRecords */
	uint64		nindexes;
	int64		evictions;
	TimestampTz history_reset;
	TimestampTz stats_reset;
} ImageHeader;


/* ----------------------------------------------------------------
 *		The parts
 * ----------------------------------------------------------------
 */

static Size
runs_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_runs * sizeof(PvHistoryRun));
}

static Size
indexes_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_indexes * sizeof(PvHistoryIndex));
}

static Size
tables_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_tables * sizeof(PvTableTotals));
}

static Size
index_totals_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_index_totals * sizeof(PvIndexTotals));
}

static PvHistoryRun *
runs_of(const PvRecords *records)
{
	return (PvHistoryRun *) ((char *) records + MAXALIGN(sizeof(PvRecords)));
}

static PvHistoryIndex *
indexes_of(const PvRecords *records)
{
	return (PvHistoryIndex *) ((char *) runs_of(records) +
							   runs_size(records));
}

static PvLru *
table_lru(const PvRecords *records)
{
	return (PvLru *) ((char *) indexes_of(records) + indexes_size(records));
}

static PvTableTotals *
tables_of(const PvRecords *records)
{
	return (PvTableTotals *) ((char *) table_lru(records) +
							  pv_lru_size(records->max_tables));
}

static PvLru *
index_lru(const PvRecords *records)
{
	return (PvLru *) ((char *) tables_of(records) + tables_size(records));
}

static PvIndexTotals *
index_totals_of(const PvRecords *records)
{
	return (PvIndexTotals *) ((char *) index_lru(records) +
							  pv_lru_size(records->max_index_totals));
}

static void
set_sizes(PvRecords *records, int history_size, int stats_size)
{
	memset(records, 0, sizeof(*records));
	records->max_runs = history_size;
	records->max_indexes = history_size * PV_RECORDS_PER_RUN;
	records->max_tables = stats_size;
	records->max_index_totals = stats_size * PV_TOTALS_PER_TABLE;
}

/*
 * The size in bytes of a block for that many vacuums in the history, and that
 * many tables with totals.
 */
Size
pv_records_size(int history_size, int stats_size)
{
	PvRecords	records;

	set_sizes(&records, history_size, stats_size);
	return MAXALIGN(sizeof(PvRecords)) + runs_size(&records) +
		indexes_size(&records) + pv_lru_size(records.max_tables) +
		tables_size(&records) + pv_lru_size(records.max_index_totals) +
		index_totals_size(&records);
}

/* Initializes a block of pv_records_size() bytes. */
void
pv_records_init(PvRecords *records, int history_size, int stats_size,
				TimestampTz now)
{
	set_sizes(records, history_size, stats_size);
	pv_lru_init(table_lru(records), records->max_tables);
	pv_lru_init(index_lru(records), records->max_index_totals);
	pv_records_reset_history(records, now);
	pv_records_reset_stats(records, now);
}

/* Removes all vacuums from the history; numbers go on. */
void
pv_records_reset_history(PvRecords *records, TimestampTz now)
{
	records->first_run = records->nruns + 1;
	records->first_index = records->nindexes + 1;
	records->history_reset = now;
}

/* Removes all totals. */
void
pv_records_reset_stats(PvRecords *records, TimestampTz now)
{
	pv_lru_clear(table_lru(records));
	pv_lru_clear(index_lru(records));
	records->stats_reset = now;
}

/* The number of tables and indexes that lost their totals to others. */
int64
pv_records_evictions(const PvRecords *records)
{
	return table_lru(records)->evictions + index_lru(records)->evictions;
}


/* ----------------------------------------------------------------
 *		Adding
 * ----------------------------------------------------------------
 */

static void
store_run(PvRecords *records, const PvHistoryRun *run)
{
	if (records->max_runs > 0)
		runs_of(records)[(run->id - 1) % records->max_runs] = *run;
}

static void
store_index(PvRecords *records, const PvHistoryIndex *index)
{
	records->nindexes++;
	if (records->max_indexes > 0)
		indexes_of(records)[(records->nindexes - 1) % records->max_indexes] =
			*index;
}

static void
add_to_table(PvRecords *records, const PvHistoryRun *run)
{
	const PvResult *result = &run->result;
	PvLruKey	key = {run->datid, run->relid};
	PvTableTotals *totals;
	int			place;
	bool		known = pv_lru_touch(table_lru(records), &key, &place);

	totals = &tables_of(records)[place];
	if (!known)
	{
		memset(totals, 0, sizeof(*totals));
		totals->key = key;
	}
	totals->runs++;
	totals->by_core += result->by_engine ? 0 : 1;
	totals->canceled += run->outcome == PV_OUTCOME_CANCELED ||
		run->outcome == PV_OUTCOME_TERMINATED ? 1 : 0;
	totals->errors += run->outcome == PV_OUTCOME_ERROR ? 1 : 0;
	totals->tuples_removed += result->tuples_removed;
	totals->dead_items += result->dead_items;
	totals->pages_scanned += result->pages_scanned;
	totals->pages_removed += result->pages_removed;
	totals->index_scans += result->index_scans;
	totals->elapsed_usecs += result->elapsed_usecs;
	totals->wal_records += result->wal_records;
	totals->wal_fpi += result->wal_fpi;
	totals->wal_bytes += result->wal_bytes;
	totals->buffers_hit += result->buffers_hit;
	totals->buffers_read += result->buffers_read;
	totals->buffers_dirtied += result->buffers_dirtied;
	totals->last_run = run->end_time;
	if (run->outcome == PV_OUTCOME_DONE)
		totals->last_done = run->end_time;
}

static void
add_to_index(PvRecords *records, const PvHistoryRun *run,
			 const PvHistoryIndex *index)
{
	PvLruKey	key = {index->datid, index->indexrelid};
	PvIndexTotals *totals;
	int			place;
	bool		known = pv_lru_touch(index_lru(records), &key, &place);

	totals = &index_totals_of(records)[place];
	if (!known)
	{
		memset(totals, 0, sizeof(*totals));
		totals->key = key;
	}
	totals->relid = index->relid;
	totals->runs++;
	totals->entries_removed += index->entries_removed;
	totals->pages_newly_deleted += index->pages_newly_deleted;
	totals->usecs += index->usecs;
	totals->pages_total = index->pages_total;
	totals->pages_free = index->pages_free;
	totals->last_run = run->end_time;
}

/*
 * Adds a vacuum, which gets the next number, with what it did to indexes.
 */
void
pv_records_add(PvRecords *records, PvHistoryRun *run, PvHistoryIndex *indexes,
			   int nindexes)
{
	run->id = ++records->nruns;
	store_run(records, run);
	if (records->max_tables > 0)
		add_to_table(records, run);
	for (int i = 0; i < nindexes; i++)
	{
		indexes[i].run = run->id;
		store_index(records, &indexes[i]);
		if (records->max_index_totals > 0)
			add_to_index(records, run, &indexes[i]);
	}
}


/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

/*
 * The number of the oldest record that a ring still has, when n have been
 * added to it.  It is n + 1 if the ring has none.
 */
static uint64
oldest(uint64 n, uint64 first, int size)
{
	return n > (uint64) size ? Max(first, n - size + 1) : first;
}

static uint64
oldest_run(const PvRecords *records)
{
	if (records->max_runs == 0)
		return records->nruns + 1;
	return oldest(records->nruns, records->first_run, records->max_runs);
}

/* The oldest record of an index whose vacuum the history still has. */
static uint64
oldest_index(const PvRecords *records)
{
	uint64		n = records->nindexes + 1;

	if (records->max_indexes > 0)
	{
		const PvHistoryIndex *indexes = indexes_of(records);

		n = oldest(records->nindexes, records->first_index,
				   records->max_indexes);
		while (n <= records->nindexes &&
			   indexes[(n - 1) % records->max_indexes].run <
			   oldest_run(records))
			n++;
	}
	return n;
}

int
pv_records_copy_runs(const PvRecords *records, PvHistoryRun *to)
{
	int			n = 0;

	for (uint64 i = oldest_run(records); i <= records->nruns; i++)
		to[n++] = runs_of(records)[(i - 1) % records->max_runs];
	return n;
}

/*
 * The last vacuum of a table by the engine that a session asked for, that was
 * completed and that has scanned pages, or NULL.  Other vacuums sleep for cost
 * limits, so their times say nothing of those of such a vacuum.
 */
const PvHistoryRun *
pv_records_last_run(const PvRecords *records, Oid datid, Oid relid)
{
	for (uint64 i = records->nruns; i >= oldest_run(records) && i > 0; i--)
	{
		const PvHistoryRun *run =
			&runs_of(records)[(i - 1) % records->max_runs];

		if (run->relid == relid && run->datid == datid &&
			run->outcome == PV_OUTCOME_DONE && run->result.by_engine &&
			(run->started_by == PV_STARTED_BY_COMMAND ||
			 run->started_by == PV_STARTED_BY_FUNCTION) &&
			run->result.pages_scanned > 0)
			return run;
	}
	return NULL;
}

int
pv_records_copy_indexes(const PvRecords *records, PvHistoryIndex *to)
{
	int			n = 0;

	for (uint64 i = oldest_index(records); i <= records->nindexes; i++)
		to[n++] = indexes_of(records)[(i - 1) % records->max_indexes];
	return n;
}

int
pv_records_copy_tables(const PvRecords *records, PvTableTotals *to)
{
	const PvLru *lru = table_lru(records);
	int			n = 0;

	for (int i = lru->oldest; i >= 0; i = pv_lru_newer(lru, i))
		to[n++] = tables_of(records)[i];
	return n;
}

int
pv_records_copy_index_totals(const PvRecords *records, PvIndexTotals *to)
{
	const PvLru *lru = index_lru(records);
	int			n = 0;

	for (int i = lru->oldest; i >= 0; i = pv_lru_newer(lru, i))
		to[n++] = index_totals_of(records)[i];
	return n;
}


/* ----------------------------------------------------------------
 *		Images
 * ----------------------------------------------------------------
 */

/* The number of bytes before the checksum, for any counts. */
static uint64
contents_size(const uint32 *count)
{
	uint64		size = MAXALIGN(sizeof(ImageHeader));

	for (int kind = 0; kind < NKINDS; kind++)
		size += MAXALIGN64((uint64) count[kind] * record_size[kind]);
	return size;
}

static void
count_records(const PvRecords *records, uint32 *count)
{
	count[KIND_RUN] = records->nruns + 1 - oldest_run(records);
	count[KIND_INDEX] = records->nindexes + 1 - oldest_index(records);
	count[KIND_TABLE] = table_lru(records)->nused;
	count[KIND_INDEX_TOTALS] = index_lru(records)->nused;
}

/* The size in bytes of an image of the block as it is. */
Size
pv_records_image_size(const PvRecords *records)
{
	uint32		count[NKINDS];

	count_records(records, count);
	return contents_size(count) + sizeof(pg_crc32c);
}

/*
 * Writes an image, of pv_records_image_size() bytes, but not its checksum, so
 * that the caller need not hold a lock for as long.  cluster identifies the
 * cluster that the OIDs belong to.  Returns the size.
 */
Size
pv_records_write_image(const PvRecords *records, uint64 cluster, char *image)
{
	ImageHeader header;
	char	   *to = image + MAXALIGN(sizeof(ImageHeader));

	memset(&header, 0, sizeof(header));
	header.magic = IMAGE_MAGIC;
	header.format = IMAGE_FORMAT;
	header.major = PG_MAJORVERSION_NUM;
	memcpy(header.size, record_size, sizeof(record_size));
	count_records(records, header.count);
	header.cluster = cluster;
	header.nruns = records->nruns;
	header.nindexes = records->nindexes;
	header.evictions = pv_records_evictions(records);
	header.history_reset = records->history_reset;
	header.stats_reset = records->stats_reset;

	memset(image, 0, contents_size(header.count) + sizeof(pg_crc32c));
	memcpy(image, &header, sizeof(header));
	(void) pv_records_copy_runs(records, (PvHistoryRun *) to);
	to += MAXALIGN((Size) header.count[KIND_RUN] * record_size[KIND_RUN]);
	(void) pv_records_copy_indexes(records, (PvHistoryIndex *) to);
	to += MAXALIGN((Size) header.count[KIND_INDEX] * record_size[KIND_INDEX]);
	(void) pv_records_copy_tables(records, (PvTableTotals *) to);
	to += MAXALIGN((Size) header.count[KIND_TABLE] * record_size[KIND_TABLE]);
	(void) pv_records_copy_index_totals(records, (PvIndexTotals *) to);
	return contents_size(header.count) + sizeof(pg_crc32c);
}

static pg_crc32c
checksum(const char *image, Size size)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, image, size - sizeof(pg_crc32c));
	FIN_CRC32C(crc);
	return crc;
}

/* Adds the checksum to an image. */
void
pv_records_seal_image(char *image, Size size)
{
	pg_crc32c	crc = checksum(image, size);

	memcpy(image + size - sizeof(crc), &crc, sizeof(crc));
}

/* Why this is not an image that we can read, or NULL. */
static const char *
problem_of_image(uint64 cluster, const char *image, Size size,
				 ImageHeader *header)
{
	pg_crc32c	crc;

	if (size < MAXALIGN(sizeof(ImageHeader)) + sizeof(crc))
		return "It is too short.";
	memcpy(header, image, sizeof(*header));
	if (header->magic != IMAGE_MAGIC)
		return "It is not a history of parvacuum.";
	if (header->format != IMAGE_FORMAT ||
		header->major != PG_MAJORVERSION_NUM ||
		memcmp(header->size, record_size, sizeof(record_size)) != 0)
		return "Another version of parvacuum or PostgreSQL has written it.";
	if (contents_size(header->count) + sizeof(crc) != size)
		return "It is too short or too long.";
	memcpy(&crc, image + size - sizeof(crc), sizeof(crc));
	if (!EQ_CRC32C(crc, checksum(image, size)))
		return "Its checksum is wrong.";
	if (header->cluster != cluster)
		return "It belongs to another database cluster.";
	if (header->nruns < header->count[KIND_RUN] ||
		header->nindexes < header->count[KIND_INDEX])
		return "Its numbers contradict each other.";
	return NULL;
}

/* The totals of an image, oldest first, so that the newest remain. */
static void
read_totals(PvRecords *records, const ImageHeader *header, const char *from)
{
	int			place;

	for (uint32 i = 0; i < header->count[KIND_TABLE]; i++)
	{
		PvTableTotals totals;

		memcpy(&totals, from + (Size) i * sizeof(totals), sizeof(totals));
		if (records->max_tables == 0)
			break;
		(void) pv_lru_touch(table_lru(records), &totals.key, &place);
		tables_of(records)[place] = totals;
	}
	from += MAXALIGN((Size) header->count[KIND_TABLE] *
					 record_size[KIND_TABLE]);
	for (uint32 i = 0; i < header->count[KIND_INDEX_TOTALS]; i++)
	{
		PvIndexTotals totals;

		memcpy(&totals, from + (Size) i * sizeof(totals), sizeof(totals));
		if (records->max_index_totals == 0)
			break;
		(void) pv_lru_touch(index_lru(records), &totals.key, &place);
		index_totals_of(records)[place] = totals;
	}
	table_lru(records)->evictions = header->evictions;
	index_lru(records)->evictions = 0;
}

/*
 * Reads an image into a block that has just been initialized.  Returns why it
 * cannot be read, as a sentence, or NULL.  In that case the block has not
 * changed.
 */
const char *
pv_records_read_image(PvRecords *records, uint64 cluster, const char *image,
					  Size size)
{
	ImageHeader header;
	const char *problem = problem_of_image(cluster, image, size, &header);
	const char *from = image + MAXALIGN(sizeof(ImageHeader));

	if (problem != NULL)
		return problem;

	for (uint32 i = 0; i < header.count[KIND_RUN]; i++)
	{
		PvHistoryRun run;

		memcpy(&run, from + (Size) i * sizeof(run), sizeof(run));
		run.id = header.nruns - header.count[KIND_RUN] + i + 1;
		store_run(records, &run);
	}
	records->nruns = header.nruns;
	records->first_run = header.nruns - header.count[KIND_RUN] + 1;
	from += MAXALIGN((Size) header.count[KIND_RUN] * record_size[KIND_RUN]);

	records->nindexes = header.nindexes - header.count[KIND_INDEX];
	records->first_index = records->nindexes + 1;
	for (uint32 i = 0; i < header.count[KIND_INDEX]; i++)
	{
		PvHistoryIndex index;

		memcpy(&index, from + (Size) i * sizeof(index), sizeof(index));
		store_index(records, &index);
	}
	from += MAXALIGN((Size) header.count[KIND_INDEX] *
					 record_size[KIND_INDEX]);

	read_totals(records, &header, from);
	records->history_reset = header.history_reset;
	records->stats_reset = header.stats_reset;
	return NULL;
}
