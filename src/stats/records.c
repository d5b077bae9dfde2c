/*-------------------------------------------------------------------------
 *
 * records.c
 *	  The last vacuums and the totals of tables and indexes, as data.
 *
 * This is one block of memory: PvRecords, with numbers and times of the last
 * resets, and then the records of each kind (stats/lru.c).
 *
 * The group of a record is the owner of the table, and, for runs, whether it
 * was completed.  So the vacuums of one owner's tables replace those of others
 * only as long as these have more, and failures replace no successes where
 * there are fewer of them.
 *
 * An image of them, for a file, is a header, the records in use, and a checksum.
 * It can be read into a block of another size.  Any sequence of bytes can be
 * given to pv_records_read_image().
 *
 * This file knows nothing of processes, locks and clocks: the caller holds what
 * covers the memory.  Nothing here fails or allocates memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_crc32c.h"

#include "stats/records.h"

/* "pvac" in memory of either byte order, which the magic number tells apart */
#define IMAGE_MAGIC				0x70766163

/* To be increased when the meaning of any field in the file changes */
#define IMAGE_FORMAT			5

/* What an image begins with */
typedef struct ImageHeader
{
	uint32		magic;
	uint32		format;
	uint32		major;			/* version of PostgreSQL */
	uint32		size[PV_RECORD_KINDS];	/* of a record */
	uint32		count[PV_RECORD_KINDS]; /* records that follow */
	uint64		cluster;		/* its system identifier */
	PvRecords	records;		/* as they are in memory */
} ImageHeader;

#define ENTRY(name, type, known, summed) \
	{PV_FIGURE_##type, PV_KNOWN_##known, summed, offsetof(PvResult, name)},
#define TIME_ENTRY(phase) \
	{PV_FIGURE_MSECS, PV_KNOWN_ENGINE, false, \
	 offsetof(PvResult, usecs[phase])},

const PvFigure pv_figures[PV_NUM_FIGURES] = {
	PV_FIGURES(ENTRY, ENTRY, TIME_ENTRY)
};

/* Indexed by PvStartedBy */
const char *const pv_started_by_name[] = {
	"command", "autovacuum", "scheduler", "function"
};

const uint32 pv_record_size[PV_RECORD_KINDS] = {
	[PV_RECORD_RUN] = sizeof(PvHistoryRun),
	[PV_RECORD_INDEX] = sizeof(PvHistoryIndex),
	[PV_RECORD_TABLE] = sizeof(PvTableTotals),
	[PV_RECORD_INDEX_TOTALS] = sizeof(PvIndexTotals)
};

/* Return how many records of a kind there can be. */
static int
capacity_of(PvRecordKind kind, int history_size, int stats_size)
{
	static const int times[] = {1, PV_RECORDS_PER_RUN, 1, PV_TOTALS_PER_TABLE};

	return times[kind] * (kind < PV_RECORD_TABLE ? history_size : stats_size);
}

/* Return the bytes of a block for so many vacuums and tables with totals. */
Size
pv_records_size(int history_size, int stats_size)
{
	Size		size = MAXALIGN(sizeof(PvRecords));

	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
		size += MAXALIGN(pv_lru_size(capacity_of(kind, history_size,
												 stats_size),
									 pv_record_size[kind]));
	return size;
}

/* Initialize a block of pv_records_size() bytes. */
void
pv_records_init(PvRecords *records, int history_size, int stats_size,
				TimestampTz now)
{
	char	   *memory = (char *) records + MAXALIGN(sizeof(PvRecords));

	memset(records, 0, sizeof(*records));
	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
	{
		int			capacity = capacity_of(kind, history_size, stats_size);

		pv_lru_init(&records->of[kind], capacity, pv_record_size[kind],
					memory);
		memory += MAXALIGN(pv_lru_size(capacity, pv_record_size[kind]));
	}
	records->history_reset = records->stats_reset = now;
}

/* Return the record with this key, or NULL. */
static const void *
find(const PvRecords *records, PvRecordKind kind, Oid database, Oid relid,
	 uint64 number)
{
	PvLruKey	key = {database, relid, number};

	return pv_lru_find(&records->of[kind], &key);
}

/*
 * Return the record with this key, which is the last one used of its group
 * from now on.  A new one is all zero but for its head.  There must be records
 * of this kind.
 */
static void *
touch(PvRecords *records, PvRecordKind kind, const PvRecordHead *head)
{
	bool		known;
	void	   *record = pv_lru_touch(&records->of[kind], &head->key,
									  head->group, &known);

	if (!known)
		memset(record, 0, pv_record_size[kind]);
	memcpy(record, head, sizeof(*head));
	return record;
}

/* Remove all vacuums from the history; numbers go on. */
void
pv_records_reset_history(PvRecords *records, TimestampTz now)
{
	pv_lru_clear(&records->of[PV_RECORD_RUN]);
	pv_lru_clear(&records->of[PV_RECORD_INDEX]);
	records->history_reset = now;
}

/* Remove all totals. */
void
pv_records_reset_stats(PvRecords *records, TimestampTz now)
{
	pv_lru_clear(&records->of[PV_RECORD_TABLE]);
	pv_lru_clear(&records->of[PV_RECORD_INDEX_TOTALS]);
	memset(&records->all, 0, sizeof(records->all));
	records->stats_reset = now;
}


/* ----------------------------------------------------------------
 *		Adding
 * ----------------------------------------------------------------
 */

/*
 * Return the number of the row of a run: its own, or one that it has in common
 * with those of the same relation that ended in the same way, if it did
 * nothing.  Whatever changes a page writes WAL.  What a vacuum changes in
 * pg_class for the table and its indexes does not count.
 */
static uint64
row_number(const PvHistoryRun *run)
{
	const PvResult *result = &run->result;

	if (result->tuples_removed > 0 || result->pages_removed > 0 ||
		result->index_scans > 0 || result->ended_early != PV_END_NONE ||
		(run->outcome == PV_OUTCOME_DONE &&
		 result->wal_records > 2 + run->nindexes))
		return run->id;
	return UINT64CONST(1) << 63 | (uint64) (uint32) run->sqlerrcode << 12 |
		run->started_by << 8 | run->action << 4 | run->outcome;
}

/* Add a run to the history; its head is complete. */
static void
add_to_history(PvRecords *records, PvHistoryRun *run)
{
	PvHistoryRun *row = touch(records, PV_RECORD_RUN, &run->head);

	run->since = row->runs == 0 ? run->start_time : row->since;
	run->runs = row->runs + 1;
	*row = *run;
}

/* Was this a vacuum by the engine that was completed? */
static bool
is_complete(const PvHistoryRun *run)
{
	return run->action == PV_WORK_VACUUM && run->outcome == PV_OUTCOME_DONE &&
		run->result.by_engine;
}

static void
add_to_totals(PvTableTotals *totals, const PvHistoryRun *run)
{
	bool		done = run->outcome == PV_OUTCOME_DONE;
	int64	   *sum = totals->sums;

	totals->last_outcome = run->outcome;
	totals->failed = done ? 0 : totals->failed + 1;
	if (run->outcome == PV_OUTCOME_SKIPPED)
		return;
	totals->runs++;
	totals->by_core += !run->result.by_engine;
	totals->canceled += run->outcome == PV_OUTCOME_CANCELED ||
		run->outcome == PV_OUTCOME_TERMINATED;
	totals->errors += run->outcome == PV_OUTCOME_ERROR;
	for (int i = 0; i < PV_NUM_FIGURES; i++)
	{
		if (pv_figures[i].summed)
			*sum++ += pv_figure(&run->result, &pv_figures[i]);
	}
	totals->last_run = run->end_time;
	if (done)
		totals->last_done = run->end_time;
	if (is_complete(run))
	{
		totals->kept = run->result.tuples_recently_dead;
		totals->kept_start = run->start_time;
		totals->holder_kind = run->holder_kind;
		totals->holder_key = run->holder_key;
	}
}

static void
add_to_index(PvIndexTotals *totals, const PvHistoryRun *run,
			 const PvHistoryIndex *index)
{
	totals->entries_removed += index->entries_removed;
	totals->usecs += index->usecs;
	totals->pages_total = index->pages_total;
	if (index->action == PV_WORK_SWEEP)
	{
		totals->sweeps++;
		return;
	}
	totals->runs++;
	totals->pages_newly_deleted += index->pages_newly_deleted;
	totals->pages_free = index->pages_free;
	totals->last_run = run->end_time;
}

/* Return the totals of what that record is about, as touch() does. */
static void *
touch_totals(PvRecords *records, PvRecordKind kind, PvRecordHead head,
			 Oid owner)
{
	head.key.number = 0;
	head.group = owner;
	return touch(records, kind, &head);
}

/*
 * Add a vacuum or a sweep to the totals of its table.  A sweep that was not
 * completed leaves the mark of the one before.
 */
static void
add_to_table(PvRecords *records, const PvHistoryRun *run)
{
	PvTableTotals *totals;

	if (run->action == PV_WORK_ANALYZE)
		return;
	if (run->action == PV_WORK_VACUUM)
		add_to_totals(&records->all, run);
	if (records->of[PV_RECORD_TABLE].capacity == 0)
		return;
	totals = touch_totals(records, PV_RECORD_TABLE, run->head, run->owner);
	if (run->action == PV_WORK_VACUUM)
		add_to_totals(totals, run);
	else if (run->outcome == PV_OUTCOME_DONE)
	{
		totals->sweeps++;
		totals->last_sweep = run->end_time;
		totals->mark = run->mark;
	}
}

/*
 * Add a run, which gets the next number, with what it did to indexes.  The
 * heads have the relations; this completes them.
 */
void
pv_records_add(PvRecords *records, PvHistoryRun *run, PvHistoryIndex *indexes,
			   int nindexes)
{
	run->id = ++records->nruns;
	run->head.key.number = row_number(run);
	run->head.table = run->head.key.relid;
	run->head.group = (uint64) run->owner << 1 |
		(run->outcome != PV_OUTCOME_DONE);
	if (records->of[PV_RECORD_RUN].capacity > 0)
		add_to_history(records, run);
	add_to_table(records, run);
	for (int i = 0; i < nindexes; i++)
	{
		PvHistoryIndex *index = &indexes[i];

		index->run = run->id;
		index->head.key.number = run->head.key.number;
		index->head.group = run->head.group;
		if (records->of[PV_RECORD_INDEX].capacity > 0)
			memcpy(touch(records, PV_RECORD_INDEX, &index->head), index,
				   sizeof(*index));
		if (records->of[PV_RECORD_INDEX_TOTALS].capacity > 0)
			add_to_index(touch_totals(records, PV_RECORD_INDEX_TOTALS,
									  index->head, run->owner), run, index);
	}
}


/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

/* Does the history still have the run that this index belongs to? */
static bool
has_run(const PvRecords *records, const void *record)
{
	const PvHistoryIndex *index = record;
	const PvHistoryRun *run =
		find(records, PV_RECORD_RUN, index->head.key.database,
			 index->head.table, index->head.key.number);

	return run != NULL && run->id == index->run;
}

/*
 * Copy all records of a kind, owner by owner, for each of them the oldest
 * first, to an array that has room for its capacity.  Return their number.
 */
int
pv_records_copy(const PvRecords *records, PvRecordKind kind, void *to)
{
	const void *record = NULL;
	int			n = 0;

	while ((record = pv_lru_next(&records->of[kind], record)) != NULL)
	{
		if (kind == PV_RECORD_INDEX && !has_run(records, record))
			continue;
		memcpy((char *) to + (Size) n * pv_record_size[kind], record,
			   pv_record_size[kind]);
		n++;
	}
	return n;
}

/*
 * Set *past to what the last vacuum of a table by the engine took that has
 * scanned pages and done all of its work itself, all zero if there is none: of
 * the automatic ones, or of those that a session asked for.  These have other
 * cost limits, so their times say nothing about each other.
 */
void
pv_records_past(const PvRecords *records, Oid datid, Oid relid,
				bool automatic, PvEtaPast *past)
{
	const PvHistoryRun *run = NULL;
	const PvHistoryRun *last = NULL;

	while ((run = pv_lru_next(&records->of[PV_RECORD_RUN], run)) != NULL)
	{
		if (run->head.key.relid == relid && run->head.key.database == datid &&
			is_complete(run) &&
			(run->started_by == PV_STARTED_BY_AUTOVACUUM ||
			 run->started_by == PV_STARTED_BY_SCHEDULER) == automatic &&
			run->result.pages_scanned > 0 &&
			run->result.ended_early == PV_END_NONE &&
			run->result.items_taken_over == 0 &&
			(last == NULL || run->id > last->id))
			last = run;
	}
	memset(past, 0, sizeof(*past));
	if (last != NULL)
		pv_eta_past(&last->result, past);
}

/*
 * Was the last vacuum of the table not completed?  Then set *totals to its
 * totals, and *last to the last run that failed, all zero if the history has
 * none any more.
 */
bool
pv_records_failures(const PvRecords *records, Oid datid, Oid relid,
					PvTableTotals *totals, PvHistoryRun *last)
{
	const PvTableTotals *found = find(records, PV_RECORD_TABLE, datid, relid,
									  0);
	const PvHistoryRun *run = NULL;

	memset(last, 0, sizeof(*last));
	if (found == NULL || found->failed == 0)
		return false;
	*totals = *found;
	while ((run = pv_lru_next(&records->of[PV_RECORD_RUN], run)) != NULL)
	{
		if (run->head.key.relid == relid && run->head.key.database == datid &&
			run->action == PV_WORK_VACUUM &&
			run->outcome == found->last_outcome && run->id > last->id)
			*last = *run;
	}
	return true;
}

/*
 * Can the next sweep of a table be remembered?  Then *mark is what is
 * remembered of the last one, all zero if there is nothing: the table was not
 * swept, or its totals were reset.
 *
 * If its owner has all places for totals that he can have, and none is this
 * table's, the answer is no.  Otherwise each sweep would make another table
 * lose its mark, and all would be swept over and over.
 */
bool
pv_records_sweep_mark(const PvRecords *records, Oid datid, Oid relid,
					  Oid owner, PvSweepMark *mark)
{
	const PvTableTotals *totals = find(records, PV_RECORD_TABLE, datid, relid,
									   0);

	memset(mark, 0, sizeof(*mark));
	if (totals == NULL)
		return pv_lru_has_room(&records->of[PV_RECORD_TABLE], owner);
	*mark = totals->mark;
	return true;
}

/* Return the pages of an index when it was last vacuumed or swept; 0: unknown. */
BlockNumber
pv_records_index_pages(const PvRecords *records, Oid datid, Oid indexrelid)
{
	const PvIndexTotals *totals = find(records, PV_RECORD_INDEX_TOTALS, datid,
									   indexrelid, 0);

	return totals == NULL ? 0 : totals->pages_total;
}


/* ----------------------------------------------------------------
 *		Images
 * ----------------------------------------------------------------
 */

/*
 * Return the number of bytes of so many records of a kind in an image.  They
 * are aligned, since all records have members of 64 bits.
 */
static uint64
part_size(PvRecordKind kind, uint64 count)
{
	return count * pv_record_size[kind];
}

/* Return the number of bytes that any image of this block may take. */
Size
pv_records_image_room(const PvRecords *records)
{
	Size		size = MAXALIGN(sizeof(ImageHeader)) + sizeof(pg_crc32c);

	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
		size += part_size(kind, records->of[kind].capacity);
	return size;
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

/* Write an image of a cluster, but for its checksum, and return its size. */
Size
pv_records_write_image(const PvRecords *records, uint64 cluster, char *image)
{
	ImageHeader *header = (ImageHeader *) image;
	Size		size = MAXALIGN(sizeof(ImageHeader));

	memset(image, 0, size);
	header->magic = IMAGE_MAGIC;
	header->format = IMAGE_FORMAT;
	header->major = PG_MAJORVERSION_NUM;
	memcpy(header->size, pv_record_size, sizeof(pv_record_size));
	header->cluster = cluster;
	header->records = *records;
	header->records.written = 0;
	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
	{
		header->count[kind] = pv_records_copy(records, kind, image + size);
		size += part_size(kind, header->count[kind]);
	}
	return size + sizeof(pg_crc32c);
}

/* Add the checksum to an image of that size, which needs no lock. */
void
pv_records_seal_image(char *image, Size size)
{
	pg_crc32c	crc = checksum(image, size);

	memcpy(image + size - sizeof(crc), &crc, sizeof(crc));
}

/* Return why this is not an image that we can read, or NULL. */
static const char *
problem_of_image(uint64 cluster, const char *image, Size size,
				 ImageHeader *header)
{
	uint64		expected = MAXALIGN(sizeof(ImageHeader)) + sizeof(pg_crc32c);
	pg_crc32c	crc;

	if (size < expected)
		return "It is too short.";
	memcpy(header, image, sizeof(*header));
	if (header->magic != IMAGE_MAGIC)
		return "It is not a history of parvacuum.";
	if (header->format != IMAGE_FORMAT ||
		header->major != PG_MAJORVERSION_NUM ||
		memcmp(header->size, pv_record_size, sizeof(pv_record_size)) != 0)
		return "Another version of parvacuum or PostgreSQL has written it.";
	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
		expected += part_size(kind, header->count[kind]);
	if (size != expected)
		return "It is too short or too long.";
	memcpy(&crc, image + size - sizeof(crc), sizeof(crc));
	if (!EQ_CRC32C(crc, checksum(image, size)))
		return "Its checksum is wrong.";
	if (header->cluster != cluster)
		return "It belongs to another database cluster.";
	if (header->records.nruns < header->count[PV_RECORD_RUN] ||
		header->records.nruns > PG_INT64_MAX / 2)
		return "Its numbers contradict each other.";
	return NULL;
}

#define END_TEXT(array) ((array)[sizeof(array) - 1] = '\0')
#define REPAIR_ENUM(value, last, other) \
	((value) = (unsigned) (value) <= (last) ? (value) : (other))

/*
 * End texts that fill their array, and replace values that readers use as an
 * index, whatever a file has there.
 */
static void
repair(PvRecordKind kind, void *record)
{
	PvHistoryRun *run = record;
	PvHistoryIndex *index = record;
	PvTableTotals *totals = record;

	if (kind == PV_RECORD_RUN)
	{
		END_TEXT(run->datname.data);
		END_TEXT(run->schemaname.data);
		END_TEXT(run->relname.data);
		END_TEXT(run->blocker_kind.data);
		END_TEXT(run->error);
		END_TEXT(run->blocker);
		END_TEXT(run->lock_query);
		REPAIR_ENUM(run->started_by, PV_STARTED_BY_FUNCTION,
					PV_STARTED_BY_COMMAND);
		REPAIR_ENUM(run->action, PV_WORK_ANALYZE, PV_WORK_VACUUM);
		REPAIR_ENUM(run->outcome, PV_OUTCOME_SKIPPED, PV_OUTCOME_ERROR);
	}
	else if (kind == PV_RECORD_INDEX)
	{
		END_TEXT(index->indexrelname.data);
		REPAIR_ENUM(index->action, PV_WORK_ANALYZE, PV_WORK_VACUUM);
	}
	else if (kind == PV_RECORD_TABLE)
		REPAIR_ENUM(totals->last_outcome, PV_OUTCOME_SKIPPED,
					PV_OUTCOME_ERROR);
}

/*
 * Read an image into a block that has just been initialized.  If there are
 * fewer places, each owner keeps his newest records.  Return why it cannot be
 * read, as a sentence, or NULL.  In the former case the block has not changed.
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

	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
	{
		bool		wanted = records->of[kind].capacity > 0;

		for (uint32 i = 0; wanted && i < header.count[kind]; i++)
		{
			const char *at = from + (Size) i * pv_record_size[kind];
			PvRecordHead head;
			void	   *record;

			memcpy(&head, at, sizeof(head));
			record = touch(records, kind, &head);
			memcpy(record, at, pv_record_size[kind]);
			repair(kind, record);
		}
		from += part_size(kind, header.count[kind]);
		records->of[kind].evictions = header.records.of[kind].evictions;
	}
	memcpy(header.records.of, records->of, sizeof(records->of));
	*records = header.records;
	return NULL;
}
