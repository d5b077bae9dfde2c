/*-------------------------------------------------------------------------
 *
 * history_views.c
 *	  The functions behind parvacuum_history, parvacuum_stats and their like.
 *
 * Sessions run this.  It copies the records, which takes their lock for a
 * moment (stats/history.c), and leaves out those that the role may not see
 * (entry/rights.c).  Execution of the functions that reset is revoked from
 * PUBLIC, as for those of pg_stat_statements.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "funcapi.h"

#include "entry/dispatch.h"
#include "sql/call.h"
#include "stats/history.h"

PG_FUNCTION_INFO_V1(parvacuum_history_runs);
PG_FUNCTION_INFO_V1(parvacuum_history_indexes);
PG_FUNCTION_INFO_V1(parvacuum_stats_tables);
PG_FUNCTION_INFO_V1(parvacuum_stats_indexes);
PG_FUNCTION_INFO_V1(parvacuum_stats_about);
PG_FUNCTION_INFO_V1(parvacuum_history_reset);
PG_FUNCTION_INFO_V1(parvacuum_stats_reset);

/* Add the columns of a record; desc describes the row. */
typedef void (*PutRecord) (PvRow *row, TupleDesc desc, const void *record);

/* Return a row for each record of a kind that the current role may see. */
static Datum
show_records(FunctionCallInfo fcinfo, const char *what, PvRecordKind kind,
			 PutRecord put)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	void	   *records;
	int			n;

	pv_check_preloaded(what);
	InitMaterializedSRF(fcinfo, 0);
	n = pv_history_copy(kind, &records);
	for (int i = 0; i < n; i++)
	{
		const PvRecordHead *head = (PvRecordHead *)
			((char *) records + (Size) i * pv_record_size[kind]);
		PvRow		row = {0};

		if (!pv_may_see_table(head->key.database, head->table))
			continue;
		put(&row, rsinfo->setDesc, head);
		pv_return_row(fcinfo, &row);
	}
	return (Datum) 0;
}


/* ----------------------------------------------------------------
 *		The history
 * ----------------------------------------------------------------
 */

static void
put_run(PvRow *row, TupleDesc desc, const void *record)
{
	static const char *const actions[] = {"vacuum", "sweep", "analyze"};
	static const char *const outcomes[] = {
		"done", "canceled", "error", "terminated", "skipped"
	};
	const PvHistoryRun *run = record;
	int			encoding = run->encoding;
	bool		all = pv_may_see_all(); /* the sessions of others, too */
	bool		done = run->outcome == PV_OUTCOME_DONE;
	PvResult	result = run->result;
	PvRow		figures = {0};

	pv_put_int8(row, run->id);
	pv_put_oid(row, run->head.key.database);
	pv_put_name(row, NameStr(run->datname), encoding);
	pv_put_oid(row, run->head.key.relid);
	pv_put_name(row, NameStr(run->schemaname), encoding);
	pv_put_name(row, NameStr(run->relname), encoding);
	pv_put_text(row, pv_started_by_name[run->started_by], encoding);
	pv_put_oid(row, run->userid);
	pv_put(row, Int32GetDatum(run->pid));
	pv_put_text(row, actions[run->action], encoding);
	pv_put_int8(row, run->runs);
	pv_put_time(row, run->since);
	pv_put_time(row, run->start_time);
	pv_put_time(row, run->end_time);
	pv_put_text(row, outcomes[run->outcome], encoding);
	pv_put_text(row, run->sqlerrcode != 0 ?
				unpack_sql_state(run->sqlerrcode) : NULL, encoding);
	pv_put_text(row, run->error, encoding);
	pv_put_if(row, run->lock_pid != 0, Int32GetDatum(run->lock_pid));
	pv_put_oid(row, run->lock_role);
	pv_put_text(row, pv_may_see_session(run->lock_role) ?
				run->lock_query : NULL, encoding);
	pv_put_text(row, all ? NameStr(run->blocker_kind) : NULL, encoding);
	pv_put_text(row, all ? run->blocker : NULL, encoding);
	pv_put(row, BoolGetDatum(run->wraparound));
	pv_put_if(row, result.by_engine && done, Int32GetDatum(run->nindexes));
	pv_put(row, BoolGetDatum(result.by_engine));

	/* a sweep and an ANALYZE have only what was used */
	result.by_engine &= run->action == PV_WORK_VACUUM;
	figures.types[0] = REGCLASSOID;
	pv_put_oid(&figures, run->head.key.relid);
	pv_put_figures(&figures, &result, done);
	pv_put_row(row, desc, &figures);
}

Datum
parvacuum_history_runs(PG_FUNCTION_ARGS)
{
	return show_records(fcinfo, "parvacuum_history", PV_RECORD_RUN, put_run);
}

static void
put_index(PvRow *row, TupleDesc desc, const void *record)
{
	const PvHistoryIndex *index = record;
	bool		vacuumed = index->action == PV_WORK_VACUUM;

	pv_put_int8(row, index->run);
	pv_put_oid(row, index->head.key.database);
	pv_put_oid(row, index->head.table);
	pv_put_oid(row, index->head.key.relid);
	pv_put_name(row, NameStr(index->indexrelname), index->encoding);
	pv_put_int8(row, index->entries_removed);
	pv_put_int8(row, index->pages_total);
	pv_put_if(row, vacuumed, Int64GetDatum(index->pages_newly_deleted));
	pv_put_if(row, vacuumed, Int64GetDatum(index->pages_deleted));
	pv_put_if(row, vacuumed, Int64GetDatum(index->pages_free));
	pv_put_ms(row, index->usecs);
}

/*
 * parvacuum_history_indexes(): return a row for each index that a vacuum in
 * the history has vacuumed or cleaned up, or a sweep has swept.
 */
Datum
parvacuum_history_indexes(PG_FUNCTION_ARGS)
{
	return show_records(fcinfo, "parvacuum_index_history", PV_RECORD_INDEX,
						put_index);
}


/* ----------------------------------------------------------------
 *		Totals
 * ----------------------------------------------------------------
 */

/* Add the number of vacuums, and of these how many ended in which way. */
static void
put_counts(PvRow *row, const PvTableTotals *totals)
{
	pv_put_int8(row, totals->runs);
	pv_put_int8(row, totals->by_core);
	pv_put_int8(row, totals->canceled);
	pv_put_int8(row, totals->errors);
}

static void
put_table(PvRow *row, TupleDesc desc, const void *record)
{
	const PvTableTotals *totals = record;

	pv_put_oid(row, totals->head.key.database);
	pv_put_oid(row, totals->head.key.relid);
	put_counts(row, totals);
	pv_put_time(row, totals->last_run);
	pv_put_time(row, totals->last_done);
	pv_put_sums(row, desc, totals->sums);
	pv_put_int8(row, totals->sweeps);
	pv_put_time(row, totals->last_sweep);
}

Datum
parvacuum_stats_tables(PG_FUNCTION_ARGS)
{
	return show_records(fcinfo, "parvacuum_stats", PV_RECORD_TABLE, put_table);
}

static void
put_index_totals(PvRow *row, TupleDesc desc, const void *record)
{
	const PvIndexTotals *totals = record;

	pv_put_oid(row, totals->head.key.database);
	pv_put_oid(row, totals->head.table);
	pv_put_oid(row, totals->head.key.relid);
	pv_put_int8(row, totals->runs);
	pv_put_time(row, totals->last_run);
	pv_put_int8(row, totals->entries_removed);
	pv_put_int8(row, totals->pages_total);
	pv_put_int8(row, totals->pages_newly_deleted);
	pv_put_int8(row, totals->pages_free);
	pv_put_ms(row, totals->usecs);
	pv_put_int8(row, totals->sweeps);
}

Datum
parvacuum_stats_indexes(PG_FUNCTION_ARGS)
{
	return show_records(fcinfo, "parvacuum_index_stats",
						PV_RECORD_INDEX_TOTALS, put_index_totals);
}

/*
 * parvacuum_stats_about(): return when history and totals were reset, and
 * what was lost.  All roles may see it: there is nothing about a single table.
 */
Datum
parvacuum_stats_about(PG_FUNCTION_ARGS)
{
	PvRecords	info;
	TupleDesc	desc;
	PvRow		row = {0};

	pv_check_preloaded("parvacuum_stats_info");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	info = *pv_history_lock();
	pv_history_unlock();
	pv_put_int8(&row, info.nruns);
	pv_put_int8(&row, info.of[PV_RECORD_TABLE].evictions +
				info.of[PV_RECORD_INDEX_TOTALS].evictions);
	pv_put_time(&row, info.stats_reset);
	pv_put_time(&row, info.history_reset);
	pv_put_time(&row, info.written);
	put_counts(&row, &info.all);
	pv_put_sums(&row, desc, info.all.sums);
	return pv_row_result(fcinfo, &row);
}

Datum
parvacuum_history_reset(PG_FUNCTION_ARGS)
{
	pv_check_preloaded("parvacuum_history_reset()");
	pv_history_reset(false);
	PG_RETURN_VOID();
}

Datum
parvacuum_stats_reset(PG_FUNCTION_ARGS)
{
	pv_check_preloaded("parvacuum_stats_reset()");
	pv_history_reset(true);
	PG_RETURN_VOID();
}
