/*-------------------------------------------------------------------------
 *
 * pvt_forecast.c
 *	  SQL functions over the forecast of a vacuum.
 *
 * Numbers come as text, "name=value" pairs separated by blanks; those that are
 * not given are 0.  Indexes are separated by semicolons.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "engine/extrapolate.h"
#include "engine/forecast.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(parvacuum_test_forecast);
PG_FUNCTION_INFO_V1(parvacuum_test_forecast_use);
PG_FUNCTION_INFO_V1(parvacuum_test_extrapolate);

#define MAX_INDEXES		8

/* A number by its name, and where it goes; one of the pointers is set */
typedef struct Field
{
	const char *name;
	double	   *number;
	int		   *integer;
	bool	   *flag;
	int64	   *usecs;
	BlockNumber *pages;
} Field;

static void
set_field(const Field *fields, int nfields, const char *name, double value)
{
	for (int i = 0; i < nfields; i++)
	{
		const Field *f = &fields[i];

		if (strcmp(f->name, name) != 0)
			continue;
		if (f->number)
			*f->number = value;
		if (f->integer)
			*f->integer = (int) value;
		if (f->flag)
			*f->flag = value != 0;
		if (f->usecs)
			*f->usecs = (int64) value;
		if (f->pages)
			*f->pages = (BlockNumber) value;
		return;
	}
	elog(ERROR, "no field \"%s\"", name);
}

static void
read_fields(char *text, const Field *fields, int nfields)
{
	char	   *save;

	for (char *pair = strtok_r(text, " ", &save); pair != NULL;
		 pair = strtok_r(NULL, " ", &save))
	{
		char	   *value = strchr(pair, '=');

		if (value == NULL)
			elog(ERROR, "no value in \"%s\"", pair);
		*value++ = '\0';
		set_field(fields, nfields, pair, atof(value));
	}
}

static void
read_input(char *text, PvForecastInput *in)
{
	const Field fields[] = {
		{"rel_pages",.number = &in->rel_pages},
		{"scan_pages",.number = &in->scan_pages},
		{"jumps",.number = &in->jumps},
		{"tuples",.number = &in->tuples},
		{"dead_tuples",.number = &in->dead_tuples},
		{"dead_pages",.number = &in->dead_pages},
		{"dead_bytes",.number = &in->dead_bytes},
		{"dead_items",.number = &in->dead_items},
		{"item_pages",.number = &in->item_pages},
		{"freeze_pages",.number = &in->freeze_pages},
		{"visible_pages",.number = &in->visible_pages},
		{"hint_pages",.number = &in->hint_pages},
		{"cached",.number = &in->heap.cached},
		{"fpi",.number = &in->heap.fpi},
		{"image_bytes",.number = &in->heap.image_bytes},
		{"vacuums_indexes",.flag = &in->vacuums_indexes},
		{"index_scans",.integer = &in->index_scans},
		{"bypasses",.flag = &in->bypasses},
		{"index_work",.flag = &in->index_work},
		{"logged",.flag = &in->logged},
		{"full_page_writes",.flag = &in->full_page_writes},
		{"map_in_record",.flag = &in->map_in_record},
		{"hints_need_image",.flag = &in->hints_need_image},
		{"freezes_apart",.flag = &in->freezes_apart},
		{"unused_apart",.flag = &in->unused_apart},
		{"workers",.integer = &in->workers},
		{"delay_ms",.number = &in->delay.delay_ms},
		{"limit",.number = &in->delay.limit},
		{"scale",.number = &in->delay.scale},
		{"page_hit",.number = &in->delay.page_hit},
		{"page_miss",.number = &in->delay.page_miss},
		{"page_dirty",.number = &in->delay.page_dirty},
	};

	memset(in, 0, sizeof(*in));
	read_fields(text, fields, lengthof(fields));
}

static void
read_indexes(char *text, PvForecastIndex *indexes, PvForecastInput *in)
{
	char	   *save;

	for (char *one = strtok_r(text, ";", &save); one != NULL;
		 one = strtok_r(NULL, ";", &save))
	{
		PvForecastIndex *index = &indexes[in->nindexes++];
		const Field fields[] = {
			{"pages",.number = &index->pages},
			{"entries",.number = &index->entries},
			{"removed",.number = &index->removed},
			{"hit",.number = &index->hit},
			{"spread",.number = &index->spread},
			{"deletes",.flag = &index->deletes},
			{"together",.flag = &index->together},
			{"cached",.number = &index->state.cached},
			{"fpi",.number = &index->state.fpi},
			{"image_bytes",.number = &index->state.image_bytes},
		};

		if (in->nindexes > MAX_INDEXES)
			elog(ERROR, "too many indexes");
		memset(index, 0, sizeof(*index));
		read_fields(one, fields, lengthof(fields));
	}
	in->indexes = indexes;
}

static void
read_past(char *text, PvResult *past)
{
	const Field fields[] = {
		{"by_engine",.flag = &past->by_engine},
		{"pages_total",.pages = &past->pages_total},
		{"pages_scanned",.pages = &past->pages_scanned},
		{"pages_read",.usecs = &past->buffers_read},
		{"tuples_remaining",.usecs = &past->tuples_remaining},
		{"tuples_removed",.usecs = &past->tuples_removed},
		{"dead_items",.usecs = &past->dead_items},
		{"index_scans",.integer = &past->index_scans},
		{"workers_launched",.integer = &past->workers_launched},
		{"elapsed_usecs",.usecs = &past->elapsed_usecs},
		{"scan_usecs",.usecs = &past->usecs[PV_PHASE_SCAN]},
		{"index_usecs",.usecs = &past->usecs[PV_PHASE_INDEX]},
		{"vacuum_usecs",.usecs = &past->usecs[PV_PHASE_VACUUM_HEAP]},
	};

	memset(past, 0, sizeof(*past));
	read_fields(text, fields, lengthof(fields));
}

/*
 * parvacuum_test_forecast(input, indexes, past): the forecast.
 */
Datum
parvacuum_test_forecast(PG_FUNCTION_ARGS)
{
	PvForecastIndex indexes[MAX_INDEXES];
	PvForecastInput input;
	PvResult	past;
	PvForecast	forecast;
	TupleDesc	desc;
	Datum		values[10];
	bool		nulls[10] = {0};
	int			n = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	read_input(text_to_cstring(PG_GETARG_TEXT_PP(0)), &input);
	read_indexes(text_to_cstring(PG_GETARG_TEXT_PP(1)), indexes, &input);
	if (!PG_ARGISNULL(2))
		read_past(text_to_cstring(PG_GETARG_TEXT_PP(2)), &past);
	pv_forecast(&input, PG_ARGISNULL(2) ? NULL : &past, &forecast);

	values[n++] = Int32GetDatum(forecast.index_scans);
	values[n++] = BoolGetDatum(forecast.bypassed);
	values[n++] = Float8GetDatum(forecast.wal_records);
	values[n++] = Float8GetDatum(forecast.wal_fpi);
	values[n++] = Float8GetDatum(forecast.wal_bytes);
	values[n++] = Float8GetDatum(forecast.ms[PV_PHASE_SCAN]);
	values[n++] = Float8GetDatum(forecast.ms[PV_PHASE_INDEX]);
	values[n++] = Float8GetDatum(forecast.ms[PV_PHASE_VACUUM_HEAP]);
	values[n++] = Float8GetDatum(forecast.ms[PV_PHASE_DONE]);
	values[n++] = Float8GetDatum(forecast.elapsed_ms);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * parvacuum_test_forecast_use(input, recently_dead, advances_relfrozenxid):
 * why the vacuum would be useless, or null.
 */
Datum
parvacuum_test_forecast_use(PG_FUNCTION_ARGS)
{
	PvForecastInput input;

	read_input(text_to_cstring(PG_GETARG_TEXT_PP(0)), &input);
	switch (pv_forecast_use(&input, PG_GETARG_FLOAT8(1), PG_GETARG_BOOL(2)))
	{
		case PV_USE_SOME:
			break;
		case PV_USE_NOTHING_TO_DO:
			PG_RETURN_TEXT_P(cstring_to_text("nothing to do"));
		case PV_USE_HORIZON:
			PG_RETURN_TEXT_P(cstring_to_text("horizon"));
	}
	PG_RETURN_NULL();
}

/*
 * parvacuum_test_extrapolate(pages, rows_of_sampled_pages, room, count): is
 * the count plausible, and what are the rows and the pages with rows of the
 * whole table?
 */
Datum
parvacuum_test_extrapolate(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(1);
	const float8 *rows = (const float8 *) ARR_DATA_PTR(array);
	PvRowSample sample = {
		.pages = PG_GETARG_FLOAT8(0),
		.room = PG_GETARG_FLOAT8(2),
	};
	TupleDesc	desc;
	double		of_rows;
	double		of_pages;
	Datum		values[3];
	bool		nulls[3] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	sample.sampled = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	for (int i = 0; i < (int) sample.sampled; i++)
	{
		sample.hits += rows[i] > 0;
		sample.rows += rows[i];
		sample.squares += rows[i] * rows[i];
	}
	pv_extrapolate(&sample, PG_GETARG_FLOAT8(3), &of_rows, &of_pages);
	values[0] = BoolGetDatum(pv_count_is_plausible(&sample,
												   PG_GETARG_FLOAT8(3)));
	values[1] = Float8GetDatum(sample.rows * of_rows);
	values[2] = Float8GetDatum(sample.hits * of_pages);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
