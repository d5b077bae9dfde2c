/*-------------------------------------------------------------------------
 *
 * pvt_eta.c
 *	  SQL function that forecasts the rest of a vacuum, from numbers of the
 *	  test.
 *
 * Portions Copyright (c) 2026, parvacuum developers
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
	measure->work = number(row, psprintf("%s_work", phase));
	measure->cost = number(row, psprintf("%s_cost", phase));
}

/*
 * The state of a vacuum, and seconds for a page that the last vacuum
 * took; returns seconds left in the phase and in all, and index scans.
 */
Datum
parvacuum_test_eta(PG_FUNCTION_ARGS)
{
	HeapTupleHeader row = PG_GETARG_HEAPTUPLEHEADER(0);
	PvEtaInput	input = {0};
	PvEtaPast	past = {0};
	PvEta		eta;
	Datum		values[3];
	bool		nulls[3];
	TupleDesc	desc;

	input.phase = (PvPhase) number(row, "phase");
	input.blocks = number(row, "blocks");
	input.passed = number(row, "passed");
	input.to_read = number(row, "to_read");
	input.read = number(row, "read");
	input.dead_pages = number(row, "dead_pages");
	input.dead_items = number(row, "dead_pages") * 10;
	input.dead_share = number(row, "dead_share");
	input.page_rows = number(row, "page_rows");
	input.missed_share = number(row, "missed_share");
	input.store_share = number(row, "store_share");
	input.store_before = number(row, "store_before");
	input.vacuums_indexes = number(row, "index_pages") > 0;
	input.may_bypass = number(row, "may_bypass") > 0;
	input.index_scans = (int) number(row, "index_scans");
	input.index_pages = number(row, "index_pages");
	input.index_tuples = number(row, "index_tuples");
	input.correlation = number(row, "correlation");
	input.index_slowdown = number(row, "index_slowdown");
	input.index_total = input.index_pages * Max(input.index_slowdown, 1.0);
	input.index_done = number(row, "index_done");
	input.vacuumed = number(row, "vacuumed");
	input.vacuum_total = number(row, "vacuum_total");
	input.vacuum_done = number(row, "vacuum_done");
	read_measure(row, "scan", &input.of[PV_PHASE_SCAN]);
	read_measure(row, "index", &input.of[PV_PHASE_INDEX]);
	read_measure(row, "heap", &input.of[PV_PHASE_VACUUM_HEAP]);
	if (input.index_scans == 0 || input.phase == PV_PHASE_SCAN)
		input.present = input.of[input.phase];
	input.throttled = number(row, "slept_share") > 0;
	input.slept_share = number(row, "slept_share");
	input.cost_hit = 1;
	input.cost_miss = 2;
	input.cost_dirty = 20;
	past.scan_page = number(row, "past_scan_s") * 1e6;
	past.index_scan = number(row, "past_index_s") * 1e6 * input.index_pages;
	past.dead_item = number(row, "past_heap_s") * 1e6 / 10;

	pv_eta(&input, &past, &eta);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	nulls[0] = eta.phase_usecs < 0;
	values[0] = Float8GetDatum(eta.phase_usecs / 1e6);
	nulls[1] = eta.usecs < 0;
	values[1] = Float8GetDatum(eta.usecs / 1e6);
	nulls[2] = eta.index_scans < 0;
	values[2] = Int32GetDatum(eta.index_scans);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
