/*-------------------------------------------------------------------------
 *
 * deadtids_file.c
 *	  The dead-TID store in a file: its segments as they are packed, in
 *	  ascending order.
 *
 *	  record			number, layout, bytes, checksum; the packed segment
 *	  ...
 *	  last record		the number END_SEGMENT, without a segment
 *
 * A store is read from the file segment by segment, through the functions that
 * fill it, which check their arguments.  So it may have another limit, and
 * other participants, than the store that was written.  The file is of the
 * same server, so numbers are in its byte order.
 *
 * One participant runs this, while no other uses the store.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_crc32c.h"

#include "store/deadtids.h"

/* The number in the last record, which no segment can have */
#define END_SEGMENT				PG_UINT32_MAX

/* Segments between two looks for an interrupt */
#define SEGMENTS_PER_CHECK		1024

typedef struct Record
{
	uint32		segno;
	uint32		content;		/* layout, and the inline segment; see
								 * PV_LAYOUT_BITS */
	uint32		bytes;			/* of the packed segment that follows */
	pg_crc32c	crc;			/* of all of the above, and of the segment */
} Record;

/* A record that was read, and what follows it */
typedef struct ReadSegment
{
	Record		record;
	uint64		packed[(PV_SEGMENT_MAX_BYTES + PV_CONTAINER_OVERREAD) /
					   sizeof(uint64) + 1];
} ReadSegment;

/* Return the checksum of a record and its segment. */
static pg_crc32c
checksum(const Record *record, const void *packed)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, record, offsetof(Record, crc));
	COMP_CRC32C(crc, packed, record->bytes);
	FIN_CRC32C(crc);
	return crc;
}

/* Write a record and its segment.  Return false if that failed. */
static bool
write_record(Record *record, const void *packed, FILE *file)
{
	record->crc = checksum(record, packed);
	return fwrite(record, sizeof(Record), 1, file) == 1 &&
		(record->bytes == 0 || fwrite(packed, record->bytes, 1, file) == 1);
}

/* Return the number of items in the segments before "end". */
int64
pv_deadtids_count_before(PvDeadTids *store, uint32 end)
{
	int64		items = 0;
	PvDeadTidsIter iter;
	OffsetNumber offsets[PV_MAX_OFFSET];
	BlockNumber blk;
	int			n;

	if (end >= store->nsegments)
		return pv_deadtids_num_items(store);
	for (uint32 segno = 0; segno < end; segno++)
	{
		if (!pv_deadtids_segment_begin(store, segno, &iter))
			continue;
		while (pv_deadtids_segment_next(&iter, &blk, offsets, &n))
			items += n;
	}
	return items;
}

/*
 * Write the segments before "end" to a file.  Return their bytes there; 0, with
 * errno set, if that failed.  Without a file, only count.
 */
uint64
pv_deadtids_write(PvDeadTids *store, uint32 end, FILE *file)
{
	Record		last = {.segno = END_SEGMENT};
	uint64		bytes = sizeof(Record);

	for (uint32 segno = 0; segno < Min(end, store->nsegments); segno++)
	{
		PvDeadTidsIter iter;
		Record		record = {.segno = segno};

		if (segno % SEGMENTS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (!pv_deadtids_segment_begin(store, segno, &iter))
			continue;
		record.content = PV_ENTRY_LAYOUT(iter.entry);
		if (record.content == PV_SEG_INLINE)
			record.content = iter.entry;
		else
			record.bytes = pv_segment_bytes(iter.segment, record.content);
		if (file != NULL && !write_record(&record, iter.segment, file))
			return 0;
		bytes += sizeof(Record) + record.bytes;
	}
	if (file != NULL && !write_record(&last, NULL, file))
		return 0;
	return bytes;
}

/* Read a record and its segment.  Return false if it is damaged. */
static bool
read_record(ReadSegment *read, FILE *file)
{
	Record	   *record = &read->record;

	return fread(record, sizeof(Record), 1, file) == 1 &&
		record->bytes <= PV_SEGMENT_MAX_BYTES &&
		(record->bytes == 0 ||
		 fread(read->packed, record->bytes, 1, file) == 1) &&
		record->crc == checksum(record, read->packed);
}

/* Store a segment that was read.  Return false if the store is full. */
static bool
store_segment(PvDeadTids *store, const ReadSegment *read)
{
	OffsetNumber offsets[PV_MAX_OFFSET];
	BlockNumber blk;
	int			n;
	PvDeadTidsIter iter = {
		.segment = (const char *) read->packed,
		.entry = read->record.content,
		.segno = read->record.segno,
	};

	if (!pv_deadtids_begin_segment(store, read->record.segno))
		return false;
	while (pv_deadtids_segment_next(&iter, &blk, offsets, &n))
		pv_deadtids_add_block(store, blk, offsets, n);
	pv_deadtids_end_segment(store);
	return true;
}

/*
 * Read the segments of a file from number "first" on into an empty store, as
 * many as it has room for.  *end is set to the first segment that was not
 * stored, or to the number of segments.  If the file is damaged, the store may
 * have some of its segments.
 */
PvDeadTidsRead
pv_deadtids_read(PvDeadTids *store, uint32 first, FILE *file, uint32 *end)
{
	ReadSegment *read = palloc0(sizeof(ReadSegment));
	PvDeadTidsRead result = PV_READ_DAMAGED;

	*end = store->nsegments;
	while (read_record(read, file))
	{
		uint32		segno = read->record.segno;

		CHECK_FOR_INTERRUPTS();
		if (segno == END_SEGMENT)
		{
			result = PV_READ_ALL;
			break;
		}
		if (segno < first)
			continue;
		if (segno >= store->nsegments)
			break;
		if (!store_segment(store, read))
		{
			*end = segno;
			result = PV_READ_FULL;
			break;
		}
	}
	pv_deadtids_publish(store);
	pfree(read);
	return result;
}
