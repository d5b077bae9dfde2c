/*-------------------------------------------------------------------------
 *
 * pvt_history.c
 *	  The records of the history and the totals, driven from SQL without any
 *	  vacuum.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "stats/records.h"

PG_FUNCTION_INFO_V1(parvacuum_test_lru);
PG_FUNCTION_INFO_V1(parvacuum_test_lru_random);
PG_FUNCTION_INFO_V1(parvacuum_test_records);
PG_FUNCTION_INFO_V1(parvacuum_test_records_add);
PG_FUNCTION_INFO_V1(parvacuum_test_records_sweep);
PG_FUNCTION_INFO_V1(parvacuum_test_records_mark);
PG_FUNCTION_INFO_V1(parvacuum_test_records_reset);
PG_FUNCTION_INFO_V1(parvacuum_test_records_number);
PG_FUNCTION_INFO_V1(parvacuum_test_records_show);
PG_FUNCTION_INFO_V1(parvacuum_test_records_reload);
PG_FUNCTION_INFO_V1(parvacuum_test_records_damage);
PG_FUNCTION_INFO_V1(parvacuum_test_records_endless);

/* The cluster whose images are read. */
#define CLUSTER					UINT64CONST(42)

static PvRecords *records = NULL;

static PvRecords *
new_records(int history_size, int stats_size)
{
	PvRecords  *new = MemoryContextAllocZero(TopMemoryContext,
											 pv_records_size(history_size,
															 stats_size));

	pv_records_init(new, history_size, stats_size, 1);
	return new;
}

/* A table with so many places, each of which has a number. */
static PvLru *
new_lru(int capacity)
{
	PvLru	   *lru = palloc(sizeof(PvLru));

	pv_lru_init(lru, capacity, sizeof(int),
				palloc0(pv_lru_size(capacity, sizeof(int))));
	return lru;
}

/*
 * Uses these relations in turn, of which capital letters are of another group:
 * the places that they get, new ones with "*".
 */
Datum
parvacuum_test_lru(PG_FUNCTION_ARGS)
{
	PvLru	   *lru = new_lru(PG_GETARG_INT32(0));
	char	   *names = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int			n = 0;
	StringInfoData text;

	initStringInfo(&text);
	for (char *name = names; *name != '\0'; name++)
	{
		PvLruKey	key = {1, *name, 0};
		bool		known;
		int		   *place = pv_lru_touch(lru, &key, *name < 'a', &known);

		/* a place that was never used is zero */
		if (*place == 0)
			*place = ++n;
		appendStringInfo(&text, "%c%d%s ", *name, *place - 1,
						 known ? "" : "*");
	}
	appendStringInfo(&text, "evictions: %d", (int) lru->evictions);
	PG_RETURN_TEXT_P(cstring_to_text(text.data));
}

/*
 * Uses random keys of random groups, and compares with arrays of what was used
 * when.  Returns the number of differences.
 */
Datum
parvacuum_test_lru_random(PG_FUNCTION_ARGS)
{
	int			capacity = PG_GETARG_INT32(0);
	int			nkeys = PG_GETARG_INT32(1);
	int			times = PG_GETARG_INT32(2);
	int			ngroups = PG_GETARG_INT32(3);
	PvLru	   *lru = new_lru(capacity);
	int		   *used_at = palloc0(nkeys * sizeof(int)); /* 0: has no place */
	int		   *group_of = palloc0(nkeys * sizeof(int));
	int		   *at_place = palloc0(capacity * sizeof(int));
	int			differences = 0;
	int			n = 0;

	for (int now = 1; now <= times; now++)
	{
		int			i = pg_prng_uint64(&pg_global_prng_state) % nkeys;
		uint64		r = pg_prng_uint64(&pg_global_prng_state);
		int			group = r % 4 == 0 ? (r >> 8) % ngroups : 0;
		PvLruKey	key = {i % 3, i, i % 2};
		int		   *counts = palloc0(ngroups * sizeof(int));
		int			nused = 0;
		int			most = 0;
		int		   *number;
		int			place;
		bool		known;

		for (int j = 0; j < nkeys; j++)
		{
			nused += used_at[j] > 0 ? 1 : 0;
			counts[group_of[j]] += used_at[j] > 0 ? 1 : 0;
		}
		for (int j = 0; j < ngroups; j++)
			most = Max(most, counts[j]);
		number = pv_lru_touch(lru, &key, group, &known);
		if (*number == 0)
			*number = ++n;
		place = *number - 1;
		if (known != (used_at[i] > 0) || place < 0 || place >= capacity ||
			(known && at_place[place] != i) ||
			pv_lru_find(lru, &key) != number)
			differences++;
		else if (!known && nused == capacity)
		{
			int			gone = at_place[place];
			int			older = 0;

			for (int j = 0; j < nkeys; j++)
				older += used_at[j] > 0 && used_at[j] < used_at[gone] &&
					group_of[j] == group_of[gone] ? 1 : 0;
			if (older > 0 ||
				(counts[group] > 0 && counts[group] + 1 >= most ?
				 group_of[gone] != group : counts[group_of[gone]] != most))
				differences++;
			used_at[gone] = 0;
		}
		at_place[place] = i;
		used_at[i] = now;
		group_of[i] = group;
		pfree(counts);
	}
	PG_RETURN_INT32(differences);
}

/* No records, of these sizes. */
Datum
parvacuum_test_records(PG_FUNCTION_ARGS)
{
	records = new_records(PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/* Adds a run of a table with so many indexes, which have as many pages. */
static void
add_run(PvHistoryRun *run, int nindexes)
{
	PvHistoryIndex indexes[PV_RECORD_MAX_INDEXES];

	memset(&indexes, 0, sizeof(indexes));
	run->head.key.database = 1;
	run->result.by_engine = true;
	for (int i = 0; i < nindexes; i++)
	{
		indexes[i].head.key.database = 1;
		indexes[i].head.table = run->head.key.relid;
		indexes[i].head.key.relid = run->head.key.relid * 100 + i;
		indexes[i].action = run->action;
		indexes[i].entries_removed = 10;
		indexes[i].pages_total = nindexes;
	}
	pv_records_add(records, run, indexes, nindexes);
}

/* So many vacuums of a table with so many indexes, at this time. */
Datum
parvacuum_test_records_add(PG_FUNCTION_ARGS)
{
	for (int n = 0; n < PG_GETARG_INT32(3); n++)
	{
		PvHistoryRun run;

		memset(&run, 0, sizeof(run));
		run.head.key.relid = PG_GETARG_OID(0);
		run.owner = PG_GETARG_OID(4);
		run.start_time = run.end_time = PG_GETARG_INT32(2);
		run.outcome = PG_GETARG_OID(0) % 4;
		run.result.tuples_removed = PG_GETARG_INT32(5);
		add_run(&run, PG_GETARG_INT32(1));
	}
	PG_RETURN_VOID();
}

/* A sweep of such a table, completed or not, and what it leaves. */
Datum
parvacuum_test_records_sweep(PG_FUNCTION_ARGS)
{
	PvHistoryRun run;

	memset(&run, 0, sizeof(run));
	run.head.key.relid = PG_GETARG_OID(0);
	run.action = PV_WORK_SWEEP;
	run.result.wal_records = 100;
	run.end_time = PG_GETARG_INT32(2);
	run.mark.versions = PG_GETARG_FLOAT8(3);
	run.mark.splits = PG_GETARG_BOOL(4);
	run.outcome = PG_GETARG_BOOL(5) ? PV_OUTCOME_DONE : PV_OUTCOME_ERROR;
	add_run(&run, PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/* What the last sweep has left, and the size of the table's first index. */
Datum
parvacuum_test_records_mark(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	PvSweepMark mark;
	BlockNumber pages = pv_records_index_pages(records, 1, relid * 100);
	bool		has_room = pv_records_sweep_mark(records, 1, relid, 0, &mark);

	if (mark.versions == 0)
		PG_RETURN_TEXT_P(cstring_to_text(psprintf("none%s, %u",
												  has_room ?
												  "" : " and no room",
												  pages)));
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%g:%s, %u", mark.versions,
											  mark.splits ? "t" : "f",
											  pages)));
}

Datum
parvacuum_test_records_reset(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_BOOL(0))
		pv_records_reset_history(records, 2);
	if (PG_GETARG_BOOL(1))
		pv_records_reset_stats(records, 3);
	PG_RETURN_VOID();
}

/* As if so many vacuums had been recorded. */
Datum
parvacuum_test_records_number(PG_FUNCTION_ARGS)
{
	records->nruns = (uint64) PG_GETARG_INT64(0);
	pv_records_reset_history(records, 2);
	PG_RETURN_VOID();
}

/* All records of a kind in new memory. */
static void *
copy_of(PvRecordKind kind, int *n)
{
	void	   *copy = palloc((Size) (records->of[kind].capacity + 1) *
							  pv_record_size[kind]);

	*n = pv_records_copy(records, kind, copy);
	return copy;
}

/* The sum of the rows removed */
static int
tuples_removed(const PvTableTotals *totals)
{
	const int64 *sum = totals->sums;

	for (int i = 0; i < PV_NUM_FIGURES; i++)
	{
		if (pv_figures[i].offset == offsetof(PvResult, tuples_removed))
			return (int) *sum;
		sum += pv_figures[i].summed ? 1 : 0;
	}
	return -1;
}

/* Vacuums as number:table, indexes as number:index, then totals. */
Datum
parvacuum_test_records_show(PG_FUNCTION_ARGS)
{
	StringInfoData text;
	int			n;
	const PvHistoryRun *runs = copy_of(PV_RECORD_RUN, &n);
	const PvHistoryIndex *indexes;
	const PvTableTotals *tables;
	const PvIndexTotals *totals;

	initStringInfo(&text);
	for (int i = 0; i < n; i++)
	{
		appendStringInfo(&text, "%d:%u", (int) runs[i].id,
						 runs[i].head.key.relid);
		if (runs[i].runs > 1)
			appendStringInfo(&text, "x%d since %d", (int) runs[i].runs,
							 (int) runs[i].since);
		appendStringInfoChar(&text, ' ');
	}
	appendStringInfoString(&text, "/ ");
	indexes = copy_of(PV_RECORD_INDEX, &n);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%d:%u ", (int) indexes[i].run,
						 indexes[i].head.key.relid);
	appendStringInfoString(&text, "/ ");
	tables = copy_of(PV_RECORD_TABLE, &n);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%u:%d,%d,%d,%d,%d,%d,%d ",
						 tables[i].head.key.relid,
						 (int) tables[i].runs, (int) tables[i].canceled,
						 (int) tables[i].errors, (int) tables[i].failed,
						 tuples_removed(&tables[i]),
						 (int) tables[i].last_run, (int) tables[i].last_done);
	appendStringInfoString(&text, "/ ");
	totals = copy_of(PV_RECORD_INDEX_TOTALS, &n);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%u:%d,%d,%d ", totals[i].head.key.relid,
						 (int) totals[i].runs, (int) totals[i].entries_removed,
						 (int) totals[i].last_run);
	appendStringInfo(&text, "/ %d %d %d", (int) (records->of[PV_RECORD_TABLE].evictions +
												 records->of[PV_RECORD_INDEX_TOTALS].evictions),
					 (int) records->history_reset,
					 (int) records->stats_reset);
	PG_RETURN_TEXT_P(cstring_to_text(text.data));
}

static char *
make_image(Size *size)
{
	Size		room = pv_records_image_room(records);
	char	   *image = palloc(room);

	*size = pv_records_write_image(records, CLUSTER, image);
	pv_records_seal_image(image, *size);
	if (*size > room)
		elog(ERROR, "an image has no room");
	return image;
}

/* As if the server had been restarted with these sizes; what was wrong. */
Datum
parvacuum_test_records_reload(PG_FUNCTION_ARGS)
{
	PvRecords  *new = new_records(PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	Size		size;
	char	   *image = make_image(&size);
	const char *problem = pv_records_read_image(new, PG_GETARG_INT64(2),
												image, size);

	records = new;
	if (problem == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(problem));
}

/*
 * Changes or cuts off an image at each position, and returns how many of these
 * images were read nevertheless, or have changed the records.
 */
Datum
parvacuum_test_records_damage(PG_FUNCTION_ARGS)
{
	PvRecords  *new = new_records(records->of[PV_RECORD_RUN].capacity,
								  records->of[PV_RECORD_TABLE].capacity);
	Size		size;
	char	   *image = make_image(&size);
	int			n = 0;

	for (Size i = 0; i < size; i++)
	{
		image[i] ^= 0x40;
		n += pv_records_read_image(new, CLUSTER, image, size) == NULL ? 1 : 0;
		image[i] ^= 0x40;
		n += pv_records_read_image(new, CLUSTER, image, i) == NULL ? 1 : 0;
	}
	n += new->nruns > 0 ? 1 : 0;
	PG_RETURN_INT32(n);
}

/* Is this text longer than its array? */
#define IS_ENDLESS(array) (memchr(array, '\0', sizeof(array)) == NULL)

/*
 * An image whose texts have no end and whose values are absurd, with the right
 * checksum.  Returns how many
 * of them are still so after it was read.
 */
Datum
parvacuum_test_records_endless(PG_FUNCTION_ARGS)
{
	PvHistoryRun run;
	PvHistoryIndex index;
	PvTableTotals totals;
	Size		size;
	char	   *image;
	int			n = 0;

	records = new_records(1, 1);
	memset(&run, 'x', sizeof(run));
	memset(&run.result, 0, sizeof(run.result));
	memset(&index, 'x', sizeof(index));
	index.head.table = run.head.key.relid;
	pv_records_add(records, &run, &index, 1);
	image = make_image(&size);
	records = new_records(1, 1);
	if (pv_records_read_image(records, CLUSTER, image, size) != NULL ||
		pv_records_copy(records, PV_RECORD_RUN, &run) != 1 ||
		pv_records_copy(records, PV_RECORD_INDEX, &index) != 1 ||
		pv_records_copy(records, PV_RECORD_TABLE, &totals) != 1)
		elog(ERROR, "the image was not read");
	n += IS_ENDLESS(run.datname.data) + IS_ENDLESS(run.schemaname.data) +
		IS_ENDLESS(run.relname.data) + IS_ENDLESS(run.blocker_kind.data) +
		IS_ENDLESS(run.error) + IS_ENDLESS(run.blocker) +
		IS_ENDLESS(run.lock_query) + IS_ENDLESS(index.indexrelname.data);
	n += (unsigned) run.started_by > PV_STARTED_BY_FUNCTION;
	n += (unsigned) run.action > PV_WORK_ANALYZE;
	n += (unsigned) run.outcome > PV_OUTCOME_SKIPPED;
	n += (unsigned) index.action > PV_WORK_ANALYZE;
	n += (unsigned) totals.last_outcome > PV_OUTCOME_SKIPPED;
	PG_RETURN_INT32(n);
}
