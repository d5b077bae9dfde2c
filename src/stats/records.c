/*-------------------------------------------------------------------------
 *
 * records.c
 *	  The last vacuums and the totals of tables and indexes, as data.
 *
 * This is one block of memory: PvRecords, with sizes, numbers and times of the
 * last resets, and then, for each kind of record, an array and the PvLru that
 * says which record is at which place (stats/lru.c).
 *
 * The group of a record is the owner of the table, and, for runs, whether it
 * was completed.  So the vacuums of one owner's tables, however many, replace
 * those of others only as long as these have more, and failures replace no
 * successes where there are fewer of them.
 *
 * records_image.c reads and writes the block.
 *
 * This file knows nothing of processes, locks and clocks; the caller holds
 * whatever covers the memory.  Nothing here fails or allocates memory.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "stats/records.h"
#include "stats/records_state.h"

const uint32 pv_record_size[PV_RECORD_KINDS] = {
	[PV_RECORD_RUN] = sizeof(PvHistoryRun),
	[PV_RECORD_INDEX] = sizeof(PvHistoryIndex),
	[PV_RECORD_TABLE] = sizeof(PvTableTotals),
	[PV_RECORD_INDEX_TOTALS] = sizeof(PvIndexTotals)
};

/* ----------------------------------------------------------------
 *		The block
 * ----------------------------------------------------------------
 */

static void
set_sizes(PvRecords *records, int history_size, int stats_size)
{
	memset(records, 0, sizeof(*records));
	records->max[PV_RECORD_RUN] = history_size;
	records->max[PV_RECORD_INDEX] = history_size * PV_RECORDS_PER_RUN;
	records->max[PV_RECORD_TABLE] = stats_size;
	records->max[PV_RECORD_INDEX_TOTALS] = stats_size * PV_TOTALS_PER_TABLE;
}

/* The bytes from the beginning of the block to the PvLru of a kind. */
static Size
offset_of(const PvRecords *records, PvRecordKind kind)
{
	Size		offset = MAXALIGN(sizeof(PvRecords));

	for (int i = 0; i < (int) kind; i++)
		offset += MAXALIGN(pv_lru_size(records->max[i])) +
			MAXALIGN((Size) records->max[i] * pv_record_size[i]);
	return offset;
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
	return offset_of(&records, PV_RECORD_KINDS);
}

/* Which record of this kind is at which place? */
PvLru *
pv_records_lru(const PvRecords *records, PvRecordKind kind)
{
	return (PvLru *) ((char *) records + offset_of(records, kind));
}

static void *
record_at(const PvRecords *records, PvRecordKind kind, int place)
{
	return (char *) pv_records_lru(records, kind) +
		MAXALIGN(pv_lru_size(records->max[kind])) +
		(Size) place * pv_record_size[kind];
}

/* The record with this key, or NULL. */
static const void *
find(const PvRecords *records, PvRecordKind kind, Oid database, Oid relid,
	 uint64 number)
{
	PvLruKey	key = {database, relid, number};
	int			place = pv_lru_find(pv_records_lru(records, kind), &key);

	return place < 0 ? NULL : record_at(records, kind, place);
}

/*
 * The record with this key, which is the last one used of its group from now
 * on.  A new one is all zero but for its head.  There must be records of this
 * kind.
 */
void *
pv_records_touch(PvRecords *records, PvRecordKind kind,
				 const PvRecordHead *head, bool *known)
{
	int			place;
	void	   *record;

	*known = pv_lru_touch(pv_records_lru(records, kind), &head->key,
						  head->group, &place);
	record = record_at(records, kind, place);
	if (!*known)
		memset(record, 0, pv_record_size[kind]);
	memcpy(record, head, sizeof(*head));
	return record;
}

/* Initializes a block of pv_records_size() bytes. */
void
pv_records_init(PvRecords *records, int history_size, int stats_size,
				TimestampTz now)
{
	set_sizes(records, history_size, stats_size);
	for (int kind = 0; kind < PV_RECORD_KINDS; kind++)
		pv_lru_init(pv_records_lru(records, kind), records->max[kind]);
	records->history_reset = records->stats_reset = now;
}

/* Removes all vacuums from the history; numbers go on. */
void
pv_records_reset_history(PvRecords *records, TimestampTz now)
{
	pv_lru_clear(pv_records_lru(records, PV_RECORD_RUN));
	pv_lru_clear(pv_records_lru(records, PV_RECORD_INDEX));
	records->history_reset = now;
}

/* Removes all totals. */
void
pv_records_reset_stats(PvRecords *records, TimestampTz now)
{
	pv_lru_clear(pv_records_lru(records, PV_RECORD_TABLE));
	pv_lru_clear(pv_records_lru(records, PV_RECORD_INDEX_TOTALS));
	memset(&records->all, 0, sizeof(records->all));
	records->stats_reset = now;
}

/* The number of tables and indexes that lost their totals to others. */
int64
pv_records_evictions(const PvRecords *records)
{
	return pv_records_lru(records, PV_RECORD_TABLE)->evictions +
		pv_records_lru(records, PV_RECORD_INDEX_TOTALS)->evictions;
}


/* ----------------------------------------------------------------
 *		Transaction IDs
 * ----------------------------------------------------------------
 */

/* Adds a sample if the last one is so many milliseconds old. */
void
pv_records_sample(PvRecords *records, TimestampTz now, uint64 next_xid,
				  int age_ms)
{
	TimestampTz last = records->nsamples == 0 ? 0 :
		records->samples[(records->nsamples - 1) % PV_XID_SAMPLES].at;
	PvXidSample sample = {now, next_xid};

	if (last == 0 || last > now ||
		TimestampDifferenceExceeds(last, now, age_ms))
		records->samples[records->nsamples++ % PV_XID_SAMPLES] = sample;
}

/*
 * The oldest sample in which that transaction ID had been assigned; all zero if
 * there is none.
 */
PvXidSample
pv_records_oldest_sample(const PvRecords *records, uint64 xid)
{
	PvXidSample none = {0};
	uint64		i = records->nsamples > PV_XID_SAMPLES ?
		records->nsamples - PV_XID_SAMPLES : 0;

	for (; i < records->nsamples; i++)
	{
		const PvXidSample *sample = &records->samples[i % PV_XID_SAMPLES];

		if (sample->next_xid > xid)
			return *sample;
	}
	return none;
}


/* ----------------------------------------------------------------
 *		Adding
 * ----------------------------------------------------------------
 */

/*
 * The number of the row of a run: its own, or one that it has in common with
 * those of the same relation that ended in the same way, if it did nothing.
 * Whatever changes a page writes WAL.  What a vacuum changes in pg_class for
 * the table and its indexes does not count.
 */
static uint64
row_number(const PvHistoryRun *run)
{
	const PvResult *result = &run->result;

	if (result->tuples_removed > 0 || result->dead_items > 0 ||
		result->pages_removed > 0 || result->index_scans > 0 ||
		(run->outcome == PV_OUTCOME_DONE &&
		 result->wal_records > 2 + run->nindexes))
		return run->id;
	return UINT64CONST(1) << 63 | (uint64) (uint32) run->sqlerrcode << 12 |
		run->started_by << 8 | run->action << 4 | run->outcome;
}

/* Adds a run to the history; its head is complete. */
static void
add_to_history(PvRecords *records, PvHistoryRun *run)
{
	PvHistoryRun *row;
	bool		known;

	run->runs = 1;
	run->since = run->start_time;
	row = pv_records_touch(records, PV_RECORD_RUN, &run->head, &known);
	if (known)
	{
		run->runs += row->runs;
		run->since = row->since;
	}
	*row = *run;
}

/*
 * A sweep that was not completed leaves the mark of the one before.
 */
static void
add_sweep(PvTableTotals *totals, const PvHistoryRun *run)
{
	if (run->outcome != PV_OUTCOME_DONE)
		return;
	totals->sweeps++;
	totals->last_sweep = run->end_time;
	totals->mark = run->mark;
}

static void
add_to_totals(PvTableTotals *totals, const PvHistoryRun *run)
{
	const PvResult *result = &run->result;

	if (run->outcome == PV_OUTCOME_SKIPPED)
	{
		totals->last_outcome = run->outcome;
		totals->failed++;
		return;
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
	totals->last_outcome = run->outcome;
	totals->failed++;
	if (run->outcome == PV_OUTCOME_DONE)
	{
		totals->last_done = run->end_time;
		totals->failed = 0;
	}
}

static void
add_to_index(PvIndexTotals *totals, const PvHistoryRun *run,
			 const PvHistoryIndex *index)
{
	totals->relid = index->relid;
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

/* The head of the totals of what a record is about. */
static PvRecordHead
head_of_totals(const PvRecordHead *record, Oid owner)
{
	PvRecordHead head = *record;

	head.key.number = 0;
	head.group = owner;
	return head;
}

/* Adds a vacuum or a sweep to the totals of its table. */
static void
add_to_table(PvRecords *records, const PvHistoryRun *run)
{
	PvRecordHead head = head_of_totals(&run->head, run->owner);
	PvTableTotals *totals;
	bool		known;

	if (run->action == PV_WORK_ANALYZE)
		return;
	if (run->action == PV_WORK_VACUUM)
		add_to_totals(&records->all, run);
	if (records->max[PV_RECORD_TABLE] == 0)
		return;
	totals = pv_records_touch(records, PV_RECORD_TABLE, &head, &known);
	if (run->action == PV_WORK_SWEEP)
		add_sweep(totals, run);
	else
		add_to_totals(totals, run);
}

/*
 * Adds a run, which gets the next number, with what it did to indexes.  The
 * heads have the relations; this completes them.
 */
void
pv_records_add(PvRecords *records, PvHistoryRun *run, PvHistoryIndex *indexes,
			   int nindexes)
{
	bool		known;

	run->id = ++records->nruns;
	run->head.key.number = row_number(run);
	run->head.group = (uint64) run->owner << 1 |
		(run->outcome != PV_OUTCOME_DONE ? 1 : 0);
	if (records->max[PV_RECORD_RUN] > 0)
		add_to_history(records, run);
	add_to_table(records, run);
	for (int i = 0; i < nindexes; i++)
	{
		PvHistoryIndex *index = &indexes[i];
		PvRecordHead head = head_of_totals(&index->head, run->owner);

		index->run = run->id;
		index->head.key.number = run->head.key.number;
		index->head.group = run->head.group;
		if (records->max[PV_RECORD_INDEX] > 0)
			memcpy(pv_records_touch(records, PV_RECORD_INDEX, &index->head,
									&known), index, sizeof(*index));
		if (records->max[PV_RECORD_INDEX_TOTALS] > 0)
			add_to_index(pv_records_touch(records, PV_RECORD_INDEX_TOTALS,
										  &head, &known), run, index);
	}
}


/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

/* Does the history still have the run that this index belongs to? */
static bool
has_run(const PvRecords *records, const PvHistoryIndex *index)
{
	const PvHistoryRun *run =
		find(records, PV_RECORD_RUN, index->head.key.database, index->relid,
			 index->head.key.number);

	return run != NULL && run->id == index->run;
}

/*
 * Copies all records of a kind, owner by owner, for each of them the oldest
 * first, and returns their number.  If "to" is NULL they are only counted.
 */
int
pv_records_copy(const PvRecords *records, PvRecordKind kind, void *to)
{
	const PvLru *lru = pv_records_lru(records, kind);
	int			n = 0;

	for (int i = pv_lru_next(lru, -1); i >= 0; i = pv_lru_next(lru, i))
	{
		const void *record = record_at(records, kind, i);

		if (kind == PV_RECORD_INDEX && !has_run(records, record))
			continue;
		if (to != NULL)
			memcpy((char *) to + (Size) n * pv_record_size[kind], record,
				   pv_record_size[kind]);
		n++;
	}
	return n;
}

/* Was this a vacuum by the engine that was completed? */
static bool
is_complete(const PvHistoryRun *run)
{
	return run->action == PV_WORK_VACUUM && run->outcome == PV_OUTCOME_DONE &&
		run->result.by_engine;
}

/* What each vacuum by the engine that was completed had to keep. */
int
pv_records_copy_kept(const PvRecords *records, PvKeptRows *to)
{
	const PvLru *lru = pv_records_lru(records, PV_RECORD_RUN);
	int			n = 0;

	for (int i = 0; i < lru->nused; i++)
	{
		const PvHistoryRun *run = record_at(records, PV_RECORD_RUN, i);

		if (!is_complete(run))
			continue;
		to[n].datid = run->head.key.database;
		to[n].relid = run->head.key.relid;
		to[n].run = run->id;
		to[n].start_time = run->start_time;
		to[n].holder_kind = run->holder_kind;
		to[n].holder_key = run->holder_key;
		to[n].tuples = run->result.tuples_recently_dead;
		n++;
	}
	return n;
}

/*
 * Return the last vacuum of a table by the engine that was completed and has
 * scanned pages, or NULL: of those that autovacuum or the scheduler began, or
 * of those that a session asked for.  The former have other cost limits than
 * the latter, so their times say nothing about each other.
 */
const PvHistoryRun *
pv_records_last_run(const PvRecords *records, Oid datid, Oid relid,
					bool automatic)
{
	const PvLru *lru = pv_records_lru(records, PV_RECORD_RUN);
	const PvHistoryRun *last = NULL;

	for (int i = 0; i < lru->nused; i++)
	{
		const PvHistoryRun *run = record_at(records, PV_RECORD_RUN, i);

		if (run->head.key.relid == relid && run->head.key.database == datid &&
			is_complete(run) &&
			(run->started_by == PV_STARTED_BY_AUTOVACUUM ||
			 run->started_by == PV_STARTED_BY_SCHEDULER) == automatic &&
			run->result.pages_scanned > 0 &&
			(last == NULL || run->id > last->id))
			last = run;
	}
	return last;
}

/*
 * Was the last vacuum of the table not completed?  Then sets *totals to its
 * totals, and *last to the last run that failed, all zero if the history has
 * none any more.
 */
bool
pv_records_failures(const PvRecords *records, Oid datid, Oid relid,
					PvTableTotals *totals, PvHistoryRun *last)
{
	const PvTableTotals *found = find(records, PV_RECORD_TABLE, datid, relid,
									  0);
	const PvLru *lru = pv_records_lru(records, PV_RECORD_RUN);

	memset(last, 0, sizeof(*last));
	if (found == NULL || found->failed == 0)
		return false;
	*totals = *found;
	for (int i = 0; i < lru->nused; i++)
	{
		const PvHistoryRun *run = record_at(records, PV_RECORD_RUN, i);

		if (run->head.key.relid == relid && run->head.key.database == datid &&
			run->action == PV_WORK_VACUUM &&
			run->outcome == found->last_outcome && run->id > last->id)
			*last = *run;
	}
	return true;
}

/*
 * Does the table have totals, or can it have them without another one of its
 * owner losing its own?
 */
bool
pv_records_has_room(const PvRecords *records, Oid datid, Oid relid, Oid owner)
{
	return find(records, PV_RECORD_TABLE, datid, relid, 0) != NULL ||
		pv_lru_has_room(pv_records_lru(records, PV_RECORD_TABLE), owner);
}

/* The mark of a table's last sweep; false if none is known. */
bool
pv_records_sweep_mark(const PvRecords *records, Oid datid, Oid relid,
					  PvSweepMark *mark)
{
	const PvTableTotals *totals = find(records, PV_RECORD_TABLE, datid, relid,
									   0);

	if (totals == NULL || totals->sweeps == 0)
		return false;
	*mark = totals->mark;
	return true;
}

/*
 * The pages that an index had when it was last vacuumed or swept; 0 if that is
 * not known.
 */
BlockNumber
pv_records_index_pages(const PvRecords *records, Oid datid, Oid indexrelid)
{
	const PvIndexTotals *totals = find(records, PV_RECORD_INDEX_TOTALS, datid,
									   indexrelid, 0);

	return totals == NULL ? 0 : totals->pages_total;
}
