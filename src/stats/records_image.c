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
#define IMAGE_FORMAT			3

typedef struct ImageHeader
{
	uint32		magic;
	uint32		format;
	uint32		major;			/* version of PostgreSQL */
	uint32		size[PV_RECORD_KINDS];	/* of a record */
	uint32		count[PV_RECORD_KINDS];	/* records that follow */
	uint64		cluster;		/* its system identifier */
	uint64		nruns;			/* as in PvRecords */
	int64		evictions;
	TimestampTz history_reset;
	TimestampTz stats_reset;
	PvTableTotals all;
	uint64		nsamples;
	PvXidSample samples[PV_XID_SAMPLES];
} ImageHeader;

/* The bytes that the records of a kind take. */
static uint64
part_size(const uint32 *count, int kind)
{
	return MAXALIGN64((uint64) count[kind] * pv_record_size[kind]);
}

/* The number of bytes before the checksum, for any counts. */
static uint64
contents_size(const uint32 *count)
{
	uint64		size = MAXALIGN(sizeof(ImageHeader));

	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
		size += part_size(count, kind);
	return size;
}

static void
count_records(const PvRecords *records, uint32 *count)
{
	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
		count[kind] = pv_records_copy(records, kind, NULL);
}

/* The size in bytes of an image of the block as it is. */
Size
pv_records_image_size(const PvRecords *records)
{
	uint32		count[PV_RECORD_KINDS];

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
	memcpy(header.size, pv_record_size, sizeof(pv_record_size));
	count_records(records, header.count);
	header.cluster = cluster;
	header.nruns = records->nruns;
	header.evictions = pv_records_evictions(records);
	header.history_reset = records->history_reset;
	header.stats_reset = records->stats_reset;
	header.all = records->all;
	header.nsamples = records->nsamples;
	memcpy(header.samples, records->samples, sizeof(header.samples));

	memset(image, 0, contents_size(header.count) + sizeof(pg_crc32c));
	memcpy(image, &header, sizeof(header));
	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
	{
		(void) pv_records_copy(records, kind, to);
		to += part_size(header.count, kind);
	}
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
		memcmp(header->size, pv_record_size, sizeof(pv_record_size)) != 0)
		return "Another version of parvacuum or PostgreSQL has written it.";
	if (contents_size(header->count) + sizeof(crc) != size)
		return "It is too short or too long.";
	memcpy(&crc, image + size - sizeof(crc), sizeof(crc));
	if (!EQ_CRC32C(crc, checksum(image, size)))
		return "Its checksum is wrong.";
	if (header->cluster != cluster)
		return "It belongs to another database cluster.";
	if (header->nruns < header->count[PV_RECORD_RUN] ||
		header->nruns > PG_INT64_MAX / 2)
		return "Its numbers contradict each other.";
	return NULL;
}

/* A text that fills its array is ended, whatever the file has there. */
#define END_TEXT(array) ((array)[sizeof(array) - 1] = '\0')

static void
end_texts(PvRecordKind kind, void *record)
{
	if (kind == PV_RECORD_RUN)
	{
		PvHistoryRun *run = record;

		END_TEXT(run->datname.data);
		END_TEXT(run->schemaname.data);
		END_TEXT(run->relname.data);
		END_TEXT(run->blocker_kind.data);
		END_TEXT(run->error);
		END_TEXT(run->blocker);
		END_TEXT(run->lock_query);
	}
	else if (kind == PV_RECORD_INDEX)
		END_TEXT(((PvHistoryIndex *) record)->indexrelname.data);
}

/*
 * Reads an image into a block that has just been initialized.  If there are
 * fewer places, each owner keeps his newest records.  Returns why it cannot be
 * read, as a sentence, or NULL.  In that case the block has not changed.
 */
const char *
pv_records_read_image(PvRecords *records, uint64 cluster, const char *image,
					  Size size)
{
	ImageHeader header;
	const char *problem = problem_of_image(cluster, image, size, &header);
	const char *part = image + MAXALIGN(sizeof(ImageHeader));

	if (problem != NULL)
		return problem;

	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
	{
		uint32		n = records->max[kind] > 0 ? header.count[kind] : 0;

		for (uint32 i = 0; i < n; i++)
		{
			const char *from = part + (Size) i * pv_record_size[kind];
			PvRecordHead head;
			void	   *record;
			bool		known;

			memcpy(&head, from, sizeof(head));
			record = pv_records_touch(records, kind, &head, &known);
			memcpy(record, from, pv_record_size[kind]);
			end_texts(kind, record);
		}
		part += part_size(header.count, kind);
		pv_records_lru(records, kind)->evictions = 0;
	}
	pv_records_lru(records, PV_RECORD_TABLE)->evictions = header.evictions;
	records->nruns = header.nruns;
	records->history_reset = header.history_reset;
	records->stats_reset = header.stats_reset;
	records->all = header.all;
	records->nsamples = header.nsamples;
	memcpy(records->samples, header.samples, sizeof(records->samples));
	return NULL;
}
