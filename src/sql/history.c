/*-------------------------------------------------------------------------
 *
 * history.c
 *	  The functions behind parvacuum_history, parvacuum_stats and their like.
 *
 * Sessions run this.  It copies the records, which takes their lock for a
 * moment (stats/history.c), and leaves out those that the role may not see
 * (entry/rights.c).  Execution of the functions that reset is revoked from
 * PUBLIC, as for those of pg_stat_statements.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "entry/rights.h"
#include "sql/call.h"
#include "stats/blocker.h"
#include "stats/history.h"

PG_FUNCTION_INFO_V1(parvacuum_history_runs);
PG_FUNCTION_INFO_V1(parvacuum_history_indexes);
PG_FUNCTION_INFO_V1(parvacuum_stats_tables);
PG_FUNCTION_INFO_V1(parvacuum_stats_indexes);
PG_FUNCTION_INFO_V1(parvacuum_stats_about);
PG_FUNCTION_INFO_V1(parvacuum_history_reset);
PG_FUNCTION_INFO_V1(parvacuum_stats_reset);

#define MAX_COLUMNS				64


/* ----------------------------------------------------------------
 *		Rows
 * ----------------------------------------------------------------
 */

/* A row that is being filled in, column by column. */
typedef struct Row
{
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS];
	int			n;
} Row;

static void
put(Row *row, Datum value)
{
	row->nulls[row->n] = false;
	row->values[row->n++] = value;
}

static void
put_null(Row *row)
{
	row->nulls[row->n] = true;
	row->values[row->n++] = (Datum) 0;
}

static void
put_oid(Row *row, Oid value)
{
	if (OidIsValid(value))
		put(row, ObjectIdGetDatum(value));
	else
		put_null(row);
}

/* A number; NULL if it is not known. */
static void
put_int8_if(Row *row, bool known, int64 value)
{
	if (known)
		put(row, Int64GetDatum(value));
	else
		put_null(row);
}

static void
put_int8(Row *row, int64 value)
{
	put_int8_if(row, true, value);
}

static void
put_int4_if(Row *row, bool known, int value)
{
	if (known)
		put(row, Int32GetDatum(value));
	else
		put_null(row);
}

static void
put_bool_if(Row *row, bool known, bool value)
{
	if (known)
		put(row, BoolGetDatum(value));
	else
		put_null(row);
}

/* Microseconds, which are shown in milliseconds. */
static void
put_ms_if(Row *row, bool known, int64 usecs)
{
	if (known)
		put(row, Float8GetDatum(usecs / 1000.0));
	else
		put_null(row);
}

static void
put_ms(Row *row, int64 usecs)
{
	put_ms_if(row, true, usecs);
}

/* A time; 0 is shown as NULL. */
static void
put_time(Row *row, TimestampTz value)
{
	if (value != 0)
		put(row, TimestampTzGetDatum(value));
	else
		put_null(row);
}

/* Bytes of WAL are numeric, as they are in core's views. */
static void
put_wal_bytes(Row *row, uint64 bytes)
{
	char		text[32];

	snprintf(text, sizeof(text), UINT64_FORMAT, bytes);
	put(row, DirectFunctionCall3(numeric_in, CStringGetDatum(text),
								 ObjectIdGetDatum(0), Int32GetDatum(-1)));
}

/* A text of some database; an empty one is NULL. */
static void
put_text(Row *row, const char *text, int encoding)
{
	if (text != NULL && text[0] != '\0')
		put(row, CStringGetTextDatum(pv_readable(text, encoding)));
	else
		put_null(row);
}

static void
put_name(Row *row, const NameData *name, int encoding)
{
	const char *text = pv_readable(NameStr(*name), encoding);

	if (text[0] == '\0')
		put_null(row);
	else
		put(row, DirectFunctionCall1(namein, CStringGetDatum(text)));
}

/* Adds the row, which must have all columns, to the function's result. */
static void
return_row(FunctionCallInfo fcinfo, Row *row)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	CHECK_FOR_INTERRUPTS();
	if (row->n != rsinfo->setDesc->natts)
		elog(ERROR, "row with %d columns instead of %d", row->n,
			 rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values,
						 row->nulls);
}

/* To be called first by a function that returns rows. */
static void
begin_rows(FunctionCallInfo fcinfo, const char *what)
{
	pv_check_preloaded(what);
	InitMaterializedSRF(fcinfo, 0);
}


/* ----------------------------------------------------------------
 *		The history
 * ----------------------------------------------------------------
 */

static const char *
started_by_name(PvStartedBy started_by)
{
	switch (started_by)
	{
		case PV_STARTED_BY_COMMAND:
			return "command";
		case PV_STARTED_BY_AUTOVACUUM:
			return "autovacuum";
		case PV_STARTED_BY_SCHEDULER:
			return "scheduler";
		case PV_STARTED_BY_FUNCTION:
			return "function";
	}
	return NULL;
}

static const char *
action_name(PvWork action)
{
	switch (action)
	{
		case PV_WORK_VACUUM:
			return "vacuum";
		case PV_WORK_SWEEP:
			return "sweep";
		case PV_WORK_ANALYZE:
			return "analyze";
	}
	return NULL;
}

static const char *
outcome_name(PvRunOutcome outcome)
{
	switch (outcome)
	{
		case PV_OUTCOME_DONE:
			return "done";
		case PV_OUTCOME_CANCELED:
			return "canceled";
		case PV_OUTCOME_ERROR:
			return "error";
		case PV_OUTCOME_TERMINATED:
			return "terminated";
		case PV_OUTCOME_SKIPPED:
			return "skipped";
	}
	return NULL;
}

/*
 * The columns of parvacuum_run(), but for the first.  What only the engine
 * counts is NULL if core vacuumed, and what is known at the end only is NULL
 * if the vacuum failed.  A sweep and an ANALYZE have only the usage.
 */
static void
put_result(Row *row, const PvHistoryRun *run)
{
	const PvResult *result = &run->result;
	bool		ours = result->by_engine && run->action == PV_WORK_VACUUM;
	bool		done = run->outcome == PV_OUTCOME_DONE;

	put(row, BoolGetDatum(result->by_engine));
	put_int4_if(row, ours, result->workers_planned);
	put_int4_if(row, ours, result->workers_launched);
	put_int8_if(row, ours, result->pages_total);
	put_int8_if(row, ours, result->pages_scanned);
	put_int8_if(row, ours, result->pages_removed);
	put_int8_if(row, ours, result->tuples_removed);
	put_int8_if(row, ours && done, result->tuples_remaining);
	put_bool_if(row, ours && done, result->remaining_estimated);
	put_int8_if(row, ours, result->tuples_recently_dead);
	put_int8_if(row, ours, result->tuples_missed);
	put_int8_if(row, ours, result->dead_items);
	put_int4_if(row, ours, result->index_scans);
	put_int8_if(row, ours && done, result->dead_tuple_bytes);
	put_ms_if(row, ours, result->usecs[PV_PHASE_SCAN]);
	put_ms_if(row, ours, result->usecs[PV_PHASE_INDEX]);
	put_ms_if(row, ours, result->usecs[PV_PHASE_VACUUM_HEAP]);
	put_ms_if(row, ours, result->usecs[PV_PHASE_CLEANUP]);
	put_ms_if(row, ours, result->usecs[PV_PHASE_TRUNCATE]);
	put_ms(row, result->elapsed_usecs);
	put_int8(row, result->wal_records);
	put_int8(row, result->wal_fpi);
	put_wal_bytes(row, result->wal_bytes);
	put_int8(row, result->buffers_hit);
	put_int8(row, result->buffers_read);
	put_int8(row, result->buffers_dirtied);
	if (ours && TransactionIdIsValid(result->oldest_xmin))
		put(row, TransactionIdGetDatum(result->oldest_xmin));
	else
		put_null(row);
	put_bool_if(row, ours && done, result->relfrozenxid_advanced);
	put_bool_if(row, ours && done, result->index_scan_bypassed);
}

/*
 * parvacuum_history_runs(): returns the rows of the history.
 */
Datum
parvacuum_history_runs(PG_FUNCTION_ARGS)
{
	void	   *copy;
	const PvHistoryRun *runs;
	int			nruns;
	bool		all = pv_may_see_all(); /* the sessions of others, too */

	begin_rows(fcinfo, "parvacuum_history");
	nruns = pv_history_copy(PV_RECORD_RUN, &copy);
	runs = copy;
	for (int i = 0; i < nruns; i++)
	{
		const PvHistoryRun *run = &runs[i];
		bool		done = run->outcome == PV_OUTCOME_DONE;
		Row			row = {.n = 0};

		if (!pv_may_see_table(run->head.key.database, run->head.key.relid))
			continue;
		put_int8(&row, (int64) run->id);
		put_oid(&row, run->head.key.database);
		put_name(&row, &run->datname, run->encoding);
		put_oid(&row, run->head.key.relid);
		put_name(&row, &run->schemaname, run->encoding);
		put_name(&row, &run->relname, run->encoding);
		put_text(&row, started_by_name(run->started_by), run->encoding);
		put_oid(&row, run->userid);
		put(&row, Int32GetDatum(run->pid));
		put_text(&row, action_name(run->action), run->encoding);
		put_int8(&row, run->runs);
		put_time(&row, run->since);
		put_time(&row, run->start_time);
		put_time(&row, run->end_time);
		put_text(&row, outcome_name(run->outcome), run->encoding);
		put_text(&row, run->sqlerrcode != 0 ?
				 unpack_sql_state(run->sqlerrcode) : NULL, run->encoding);
		put_text(&row, run->error, run->encoding);
		put_int4_if(&row, run->lock_pid != 0, run->lock_pid);
		put_oid(&row, run->lock_role);
		put_text(&row, pv_may_see_session(run->lock_role) ?
				 run->lock_query : NULL, run->encoding);
		put_text(&row, all ? NameStr(run->blocker_kind) : NULL, run->encoding);
		put_text(&row, all ? run->blocker : NULL, run->encoding);
		put(&row, BoolGetDatum(run->wraparound));
		put_int4_if(&row, run->result.by_engine && done, run->nindexes);
		put_result(&row, run);
		return_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/*
 * parvacuum_history_indexes(): returns a row for each index that a vacuum in
 * the history has vacuumed or cleaned up, or a sweep has swept.
 */
Datum
parvacuum_history_indexes(PG_FUNCTION_ARGS)
{
	void	   *copy;
	const PvHistoryIndex *indexes;
	int			nindexes;

	begin_rows(fcinfo, "parvacuum_index_history");
	nindexes = pv_history_copy(PV_RECORD_INDEX, &copy);
	indexes = copy;
	for (int i = 0; i < nindexes; i++)
	{
		const PvHistoryIndex *index = &indexes[i];
		bool		vacuumed = index->action == PV_WORK_VACUUM;
		Row			row = {.n = 0};

		if (!pv_may_see_table(index->head.key.database, index->relid))
			continue;
		put_int8(&row, (int64) index->run);
		put_oid(&row, index->head.key.database);
		put_oid(&row, index->relid);
		put_oid(&row, index->head.key.relid);
		put_name(&row, &index->indexrelname, index->encoding);
		put_int8(&row, index->entries_removed);
		put_int8(&row, index->pages_total);
		put_int8_if(&row, vacuumed, index->pages_newly_deleted);
		put_int8_if(&row, vacuumed, index->pages_deleted);
		put_int8_if(&row, vacuumed, index->pages_free);
		put_ms(&row, index->usecs);
		return_row(fcinfo, &row);
	}
	return (Datum) 0;
}


/* ----------------------------------------------------------------
 *		Totals
 * ----------------------------------------------------------------
 */

/* Vacuums, and how they ended. */
static void
put_counts(Row *row, const PvTableTotals *totals)
{
	put_int8(row, totals->runs);
	put_int8(row, totals->by_core);
	put_int8(row, totals->canceled);
	put_int8(row, totals->errors);
}

/* What they did and used. */
static void
put_sums(Row *row, const PvTableTotals *totals)
{
	put_int8(row, totals->tuples_removed);
	put_int8(row, totals->dead_items);
	put_int8(row, totals->pages_scanned);
	put_int8(row, totals->pages_removed);
	put_int8(row, totals->index_scans);
	put_ms(row, totals->elapsed_usecs);
	put_int8(row, totals->wal_records);
	put_int8(row, totals->wal_fpi);
	put_wal_bytes(row, totals->wal_bytes);
	put_int8(row, totals->buffers_hit);
	put_int8(row, totals->buffers_read);
	put_int8(row, totals->buffers_dirtied);
}

/* parvacuum_stats_tables(): returns a row for each table with totals. */
Datum
parvacuum_stats_tables(PG_FUNCTION_ARGS)
{
	void	   *copy;
	const PvTableTotals *tables;
	int			ntables;

	begin_rows(fcinfo, "parvacuum_stats");
	ntables = pv_history_copy(PV_RECORD_TABLE, &copy);
	tables = copy;
	for (int i = 0; i < ntables; i++)
	{
		const PvTableTotals *totals = &tables[i];
		Row			row = {.n = 0};

		if (!pv_may_see_table(totals->head.key.database,
							  totals->head.key.relid))
			continue;
		put_oid(&row, totals->head.key.database);
		put_oid(&row, totals->head.key.relid);
		put_counts(&row, totals);
		put_time(&row, totals->last_run);
		put_time(&row, totals->last_done);
		put_sums(&row, totals);
		put_int8(&row, totals->sweeps);
		put_time(&row, totals->last_sweep);
		return_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* parvacuum_stats_indexes(): returns a row for each index with totals. */
Datum
parvacuum_stats_indexes(PG_FUNCTION_ARGS)
{
	void	   *copy;
	const PvIndexTotals *indexes;
	int			nindexes;

	begin_rows(fcinfo, "parvacuum_index_stats");
	nindexes = pv_history_copy(PV_RECORD_INDEX_TOTALS, &copy);
	indexes = copy;
	for (int i = 0; i < nindexes; i++)
	{
		const PvIndexTotals *totals = &indexes[i];
		Row			row = {.n = 0};

		if (!pv_may_see_table(totals->head.key.database, totals->relid))
			continue;
		put_oid(&row, totals->head.key.database);
		put_oid(&row, totals->relid);
		put_oid(&row, totals->head.key.relid);
		put_int8(&row, totals->runs);
		put_time(&row, totals->last_run);
		put_int8(&row, totals->entries_removed);
		put_int8(&row, totals->pages_total);
		put_int8(&row, totals->pages_newly_deleted);
		put_int8(&row, totals->pages_free);
		put_ms(&row, totals->usecs);
		put_int8(&row, totals->sweeps);
		return_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/*
 * parvacuum_stats_about(): returns when history and totals were reset, and
 * what was lost.  All roles may see it: there is nothing about a single table.
 */
Datum
parvacuum_stats_about(PG_FUNCTION_ARGS)
{
	PvHistoryInfo info;
	TupleDesc	desc;
	Row			row = {.n = 0};

	pv_check_preloaded("parvacuum_stats_info");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	pv_history_info(&info);
	put_int8(&row, (int64) info.nruns);
	put_int8(&row, info.evictions);
	put_time(&row, info.stats_reset);
	put_time(&row, info.history_reset);
	put_time(&row, info.written);
	put_counts(&row, &info.all);
	put_sums(&row, &info.all);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  row.values,
													  row.nulls)));
}

Datum
parvacuum_history_reset(PG_FUNCTION_ARGS)
{
	pv_check_preloaded("parvacuum_history_reset()");
	pv_history_reset_runs();
	PG_RETURN_VOID();
}

Datum
parvacuum_stats_reset(PG_FUNCTION_ARGS)
{
	pv_check_preloaded("parvacuum_stats_reset()");
	pv_history_reset_totals();
	PG_RETURN_VOID();
}
