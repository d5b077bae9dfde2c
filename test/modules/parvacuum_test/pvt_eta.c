/*-------------------------------------------------------------------------
 *
 * pvt_eta.c
 *	  SQL functions that forecast the rest of a vacuum, from numbers of the
 *	  test.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"

#include "stats/eta.h"

PG_FUNCTION_INFO_V1(parvacuum_test_eta);
PG_FUNCTION_INFO_V1(parvacuum_test_eta_past);

#define ITEMS_PER_PAGE	10

/* A number of the row, 0 if it is null */
static double
number(HeapTupleHeader row, const char *name)
{
	bool		isnull;
	Datum		value = GetAttributeByName(row, name, &isnull);

	return isnull ? 0 : DatumGetFloat8(value);
}

static void
read_measure(HeapTupleHeader row, const char *phase, PvEtaMeasure *measure)
{
	measure->usecs = number(row, psprintf("%s_s", phase)) * 1e6;
	measure->pages = number(row, psprintf("%s_work", phase));
}

static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values,
											 nulls));
}

/*
 * parvacuum_test_eta(vacuum): the state of a vacuum, and the seconds that a
 * page took in the last one.  Returns the seconds left in the phase and in all,
 * the index scans, and the pages per second.
 */
Datum
parvacuum_test_eta(PG_FUNCTION_ARGS)
{
	HeapTupleHeader row = PG_GETARG_HEAPTUPLEHEADER(0);
	PvEtaInput	input = {0};
	PvEtaPast	past = {0};
	PvEta		eta;
	Datum		values[4];
	bool		nulls[4];

	input.phase = (PvPhase) number(row, "phase");
	input.blocks = number(row, "blocks");
	input.passed = number(row, "passed");
	input.to_read = number(row, "to_read");
	input.read = number(row, "read");
	input.dead_pages = number(row, "dead_pages");
	input.items_per_page = ITEMS_PER_PAGE;
	input.store_share = number(row, "store_share");
	input.vacuums_indexes = number(row, "index_pages") > 0;
	input.may_bypass = number(row, "may_bypass") > 0;
	input.index_scans = (int) number(row, "index_scans");
	input.index_pages = input.index_total = number(row, "index_pages");
	input.index_done = number(row, "index_done");
	input.vacuumed = number(row, "vacuumed");
	read_measure(row, "scan", &input.of[PV_PHASE_SCAN]);
	read_measure(row, "index", &input.of[PV_PHASE_INDEX]);
	read_measure(row, "heap", &input.of[PV_PHASE_VACUUM_HEAP]);
	past.scan_page = number(row, "past_scan_s") * 1e6;
	past.index_scan = number(row, "past_index_s") * 1e6 * input.index_pages;
	past.dead_item = number(row, "past_heap_s") * 1e6 / ITEMS_PER_PAGE;

	pv_eta(&input, &past, &eta);
	nulls[0] = eta.phase_usecs < 0;
	values[0] = Float8GetDatum(eta.phase_usecs / 1e6);
	nulls[1] = eta.usecs < 0;
	values[1] = Float8GetDatum(eta.usecs / 1e6);
	nulls[2] = eta.index_scans < 0;
	values[2] = Int32GetDatum(eta.index_scans);
	nulls[3] = eta.rate < 0;
	values[3] = Float8GetDatum(eta.rate);
	return make_row(fcinfo, values, nulls);
}

/*
 * parvacuum_test_eta_past(scanned, scan_usecs, index_scans, index_usecs,
 * dead_items, heap_usecs, pages, index_pages, items): what the last vacuum
 * tells of the time of so many pages of each phase.
 */
Datum
parvacuum_test_eta_past(PG_FUNCTION_ARGS)
{
	PvResult	last = {0};
	PvEtaPast	past;
	Datum		values[3];
	bool		nulls[3] = {0};

	last.pages_scanned = (BlockNumber) PG_GETARG_INT64(0);
	last.usecs[PV_PHASE_SCAN] = PG_GETARG_INT64(1);
	last.index_scans = PG_GETARG_INT32(2);
	last.usecs[PV_PHASE_INDEX] = PG_GETARG_INT64(3);
	last.dead_items = PG_GETARG_INT64(4);
	last.usecs[PV_PHASE_VACUUM_HEAP] = PG_GETARG_INT64(5);
	pv_eta_past(&last, &past);
	for (int i = 0; i < 3; i++)
		values[i] =
			Float8GetDatum(pv_eta_usecs(PG_GETARG_FLOAT8(6),
										pv_eta_past_page(&past,
														 PV_PHASE_SCAN + i,
														 PG_GETARG_FLOAT8(7),
														 PG_GETARG_FLOAT8(8))));
	return make_row(fcinfo, values, nulls);
}
