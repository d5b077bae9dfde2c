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
 * records_image.c reads and writes them.
 *
 * This file knows nothing of processes, locks and clocks; the caller holds
 * whatever covers the memory.  Nothing here fails or allocates memory.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stats/records.h"
#include "stats/records_state.h"

/* ----------------------------------------------------------------
 *		The block
 * ----------------------------------------------------------------
 */

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
	memset(&records->all, 0, sizeof(records->all));
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

/* Puts a vacuum, which has its number, into the ring. */
void
pv_records_store_run(PvRecords *records, const PvHistoryRun *run)
{
	if (records->max_runs > 0)
		runs_of(records)[(run->id - 1) % records->max_runs] = *run;
}

/* Puts what a vacuum did to an index into the ring, with the next number. */
void
pv_records_store_index(PvRecords *records, const PvHistoryIndex *index)
{
	records->nindexes++;
	if (records->max_indexes > 0)
		indexes_of(records)[(records->nindexes - 1) % records->max_indexes] =
			*index;
}

/* The totals of a table, which is the most recently used from now on. */
static PvTableTotals *
touch_table(PvRecords *records, Oid datid, Oid relid)
{
	PvLruKey	key = {datid, relid};
	PvTableTotals *totals;
	int			place;
	bool		known = pv_lru_touch(table_lru(records), &key, &place);

	totals = &tables_of(records)[place];
	if (!known)
	{
		memset(totals, 0, sizeof(*totals));
		totals->key = key;
	}
	return totals;
}

/* A sweep that was not completed leaves the mark of the one before. */
static void
add_sweep_to_table(PvRecords *records, const PvHistoryRun *run)
{
	PvTableTotals *totals = touch_table(records, run->datid, run->relid);

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

/*
 * Adds a vacuum or a sweep, which gets the next number, with what it did to
 * indexes.
 */
void
pv_records_add(PvRecords *records, PvHistoryRun *run, PvHistoryIndex *indexes,
			   int nindexes)
{
	run->id = ++records->nruns;
	pv_records_store_run(records, run);
	if (run->action == PV_WORK_SWEEP)
	{
		if (records->max_tables > 0)
			add_sweep_to_table(records, run);
	}
	else
	{
		add_to_totals(&records->all, run);
		if (records->max_tables > 0)
			add_to_totals(touch_table(records, run->datid, run->relid), run);
	}
	for (int i = 0; i < nindexes; i++)
	{
		indexes[i].run = run->id;
		pv_records_store_index(records, &indexes[i]);
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

/* The number of the oldest vacuum that the history still has. */
uint64
pv_records_oldest_run(const PvRecords *records)
{
	if (records->max_runs == 0)
		return records->nruns + 1;
	return oldest(records->nruns, records->first_run, records->max_runs);
}

/* The oldest record of an index whose vacuum the history still has. */
uint64
pv_records_oldest_index(const PvRecords *records)
{
	uint64		n = records->nindexes + 1;

	if (records->max_indexes > 0)
	{
		const PvHistoryIndex *indexes = indexes_of(records);

		n = oldest(records->nindexes, records->first_index,
				   records->max_indexes);
		while (n <= records->nindexes &&
			   indexes[(n - 1) % records->max_indexes].run <
			   pv_records_oldest_run(records))
			n++;
	}
	return n;
}

int
pv_records_copy_runs(const PvRecords *records, PvHistoryRun *to)
{
	int			n = 0;

	for (uint64 i = pv_records_oldest_run(records); i <= records->nruns; i++)
		to[n++] = runs_of(records)[(i - 1) % records->max_runs];
	return n;
}

/* What each vacuum by the engine that was completed had to keep. */
int
pv_records_copy_kept(const PvRecords *records, PvKeptRows *to)
{
	int			n = 0;

	for (uint64 i = pv_records_oldest_run(records); i <= records->nruns; i++)
	{
		const PvHistoryRun *run =
			&runs_of(records)[(i - 1) % records->max_runs];

		if (run->outcome != PV_OUTCOME_DONE || !run->result.by_engine ||
			run->action == PV_WORK_SWEEP)
			continue;
		to[n].datid = run->datid;
		to[n].relid = run->relid;
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
 * The last vacuum of a table by the engine that a session asked for, that was
 * completed and that has scanned pages, or NULL.  Other vacuums sleep for cost
 * limits, so their times say nothing of those of such a vacuum.
 */
const PvHistoryRun *
pv_records_last_run(const PvRecords *records, Oid datid, Oid relid)
{
	uint64		oldest_run = pv_records_oldest_run(records);

	for (uint64 i = records->nruns; i >= oldest_run && i > 0; i--)
	{
		const PvHistoryRun *run =
			&runs_of(records)[(i - 1) % records->max_runs];

		if (run->relid == relid && run->datid == datid &&
			run->action == PV_WORK_VACUUM &&
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

	for (uint64 i = pv_records_oldest_index(records);
		 i <= records->nindexes; i++)
		to[n++] = indexes_of(records)[(i - 1) % records->max_indexes];
	return n;
}

/*
 * Does the table have totals, or can it have them without another one losing
 * its own?
 */
bool
pv_records_has_room(const PvRecords *records, Oid datid, Oid relid)
{
	PvLruKey	key = {datid, relid};

	return pv_lru_find(table_lru(records), &key) >= 0 ||
		!pv_lru_is_full(table_lru(records));
}

/* The mark of a table's last sweep; false if none is known. */
bool
pv_records_sweep_mark(const PvRecords *records, Oid datid, Oid relid,
					  PvSweepMark *mark)
{
	PvLruKey	key = {datid, relid};
	int			place = pv_lru_find(table_lru(records), &key);

	if (place < 0 || tables_of(records)[place].sweeps == 0)
		return false;
	*mark = tables_of(records)[place].mark;
	return true;
}

/*
 * The pages that an index had when it was last vacuumed or swept; 0 if that is
 * not known.
 */
BlockNumber
pv_records_index_pages(const PvRecords *records, Oid datid, Oid indexrelid)
{
	PvLruKey	key = {datid, indexrelid};
	int			place = pv_lru_find(index_lru(records), &key);

	return place < 0 ? 0 : index_totals_of(records)[place].pages_total;
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
