/*-------------------------------------------------------------------------
 *
 * records_image.c
 *	  The last vacuums and the totals, as contents of a file.
 *
 * An image is what records.c has in memory, as it is in a file: a header that
 * says what the file is and how long it must be, the records in use, the oldest
 * first, and a checksum.  An image can be read into a block of another size,
 * which then has the newest records.  Any sequence of bytes can be given to
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
#include "stats/records_state.h"

/* "pvac" in memory of either byte order, which the magic number tells apart */
#define IMAGE_MAGIC				0x70766163

/* To be increased when the meaning of any field in the file changes */
#define IMAGE_FORMAT			2

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
	PvTableTotals all;
} ImageHeader;

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
	count[KIND_RUN] = records->nruns + 1 - pv_records_oldest_run(records);
	count[KIND_INDEX] = records->nindexes + 1 -
		pv_records_oldest_index(records);
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
	header.all = records->all;

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
		header->nruns > PG_INT64_MAX / 2 ||
		header->nindexes < header->count[KIND_INDEX] ||
		header->nindexes > PG_INT64_MAX / 2)
		return "Its numbers contradict each other.";
	return NULL;
}

/* A text that fills its array is ended, whatever the file has there. */
#define END_TEXT(array) ((array)[sizeof(array) - 1] = '\0')

static void
end_texts_of_run(PvHistoryRun *run)
{
	END_TEXT(run->datname.data);
	END_TEXT(run->schemaname.data);
	END_TEXT(run->relname.data);
	END_TEXT(run->blocker_kind.data);
	END_TEXT(run->error);
	END_TEXT(run->blocker);
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
		end_texts_of_run(&run);
		pv_records_store_run(records, &run);
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
		END_TEXT(index.indexrelname.data);
		pv_records_store_index(records, &index);
	}
	from += MAXALIGN((Size) header.count[KIND_INDEX] *
					 record_size[KIND_INDEX]);

	read_totals(records, &header, from);
	records->history_reset = header.history_reset;
	records->stats_reset = header.stats_reset;
	records->all = header.all;
	return NULL;
}
