/*-------------------------------------------------------------------------
 *
 * pvt_policy.c
 *	  SQL functions that score tables of given properties.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "sched/policy.h"

PG_FUNCTION_INFO_V1(parvacuum_test_score);
PG_FUNCTION_INFO_V1(parvacuum_test_sweep);
PG_FUNCTION_INFO_V1(parvacuum_test_has_grown);
PG_FUNCTION_INFO_V1(parvacuum_test_danger);
PG_FUNCTION_INFO_V1(parvacuum_test_longest);
PG_FUNCTION_INFO_V1(parvacuum_test_turn);
PG_FUNCTION_INFO_V1(parvacuum_test_goes_first);
PG_FUNCTION_INFO_V1(parvacuum_test_has_room);
PG_FUNCTION_INFO_V1(parvacuum_test_charge_left);
PG_FUNCTION_INFO_V1(parvacuum_test_rest);
PG_FUNCTION_INFO_V1(parvacuum_test_is_useless);
PG_FUNCTION_INFO_V1(parvacuum_test_policy);

/* A row of the function's type; none of its columns is NULL. */
static Datum
row_of(FunctionCallInfo fcinfo, Datum *values)
{
	bool		nulls[MaxTupleAttributeNumber] = {0};
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values,
											 nulls));
}

/* All parts of the score; the arguments are those of the two structs. */
Datum
parvacuum_test_score(PG_FUNCTION_ARGS)
{
	PvTableState state = {0};
	PvThresholds thresholds = {0};
	PvScore		score;
	Datum		values[9];
	int			arg = 0;
	int			n = 0;

	state.dead = PG_GETARG_FLOAT8(arg++);
	state.inserted = PG_GETARG_FLOAT8(arg++);
	state.modified = PG_GETARG_FLOAT8(arg++);
	state.reltuples = PG_GETARG_FLOAT8(arg++);
	state.pages = (BlockNumber) PG_GETARG_INT64(arg++);
	state.xid_age = PG_GETARG_INT64(arg++);
	state.mxid_age = PG_GETARG_INT64(arg++);
	state.counted = PG_GETARG_BOOL(arg++);
	state.may_analyze = PG_GETARG_BOOL(arg++);
	thresholds.enabled = PG_GETARG_BOOL(arg++);
	thresholds.vacuum_base = PG_GETARG_FLOAT8(arg++);
	thresholds.vacuum_scale = PG_GETARG_FLOAT8(arg++);
	thresholds.insert_base = PG_GETARG_FLOAT8(arg++);
	thresholds.insert_scale = PG_GETARG_FLOAT8(arg++);
	thresholds.analyze_base = PG_GETARG_FLOAT8(arg++);
	thresholds.analyze_scale = PG_GETARG_FLOAT8(arg++);
	thresholds.freeze_max_age = PG_GETARG_INT64(arg++);
	thresholds.multixact_freeze_max_age = PG_GETARG_INT64(arg++);
	thresholds.failsafe_age = PG_GETARG_INT64(arg++);
	thresholds.multixact_failsafe_age = PG_GETARG_INT64(arg++);

	/* all of it must be overwritten */
	memset(&score, 0x7f, sizeof(score));
	pv_score_table(&state, &thresholds, &score);

	values[n++] = Float8GetDatum(score.dead);
	values[n++] = Float8GetDatum(score.inserted);
	values[n++] = Float8GetDatum(score.modified);
	values[n++] = Float8GetDatum(score.xid);
	values[n++] = Float8GetDatum(score.mxid);
	values[n++] = Float8GetDatum(score.total);
	values[n++] = BoolGetDatum(score.vacuum);
	values[n++] = BoolGetDatum(score.analyze);
	values[n++] = BoolGetDatum(score.wraparound);
	return row_of(fcinfo, values);
}

/*
 * Is a table of these counts to be swept, and when is its turn, in minutes,
 * if it needs that since 0?
 */
Datum
parvacuum_test_sweep(PG_FUNCTION_ARGS)
{
	PvTableState state = {
		.counted = true,
		.may_analyze = true,
		.versions = PG_GETARG_FLOAT8(0),
		.versions_swept = PG_GETARG_FLOAT8(1),
		.dead = PG_GETARG_FLOAT8(2),
		.modified = PG_GETARG_FLOAT8(3),
		.reltuples = PG_GETARG_FLOAT8(4),
		.splits = PG_GETARG_BOOL(5),
		.may_sweep = PG_GETARG_BOOL(6)
	};
	PvThresholds thresholds = {
		.enabled = PG_GETARG_BOOL(7),
		.vacuum_base = 50,
		.vacuum_scale = 0.2,
		.insert_base = -1,
		.analyze_base = 50,
		.analyze_scale = 0.1,
		.freeze_max_age = 200000000,
		.multixact_freeze_max_age = 400000000,
		.failsafe_age = 1600000000,
		.multixact_failsafe_age = 1600000000
	};
	PvScore		score;
	Datum		values[6];
	int			n = 0;

	pv_score_table(&state, &thresholds, &score);
	if (PG_GETARG_BOOL(8))
		pv_score_rest(&score, score.vacuum, false, score.sweep, state.pages);
	values[n++] = Float8GetDatum(score.entries);
	values[n++] = Float8GetDatum(score.total);
	values[n++] = BoolGetDatum(score.sweep);
	values[n++] = BoolGetDatum(score.vacuum);
	values[n++] = BoolGetDatum(score.analyze);
	values[n++] = Float8GetDatum(pv_turn(&score, false, 0) / 60e6);
	return row_of(fcinfo, values);
}

Datum
parvacuum_test_has_grown(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pv_has_grown(PG_GETARG_FLOAT8(0), PG_GETARG_FLOAT8(1)));
}

/*
 * Is a table of these ages in danger, and how much haste is needed?  Its own
 * limits come first, then those of the server.
 */
Datum
parvacuum_test_danger(PG_FUNCTION_ARGS)
{
	PvTableState state = {
		.xid_age = PG_GETARG_INT64(0),
		.mxid_age = PG_GETARG_INT64(1)
	};
	PvThresholds thresholds = {
		.failsafe_age = 1600000000,
		.multixact_failsafe_age = 1600000000
	};
	PvScore		score;
	Datum		values[3];

	thresholds.freeze_max_age = PG_GETARG_INT64(2);
	thresholds.multixact_freeze_max_age = PG_GETARG_INT64(3);
	thresholds.danger_age = PG_GETARG_INT64(4);
	thresholds.multixact_danger_age = PG_GETARG_INT64(5);
	pv_score_table(&state, &thresholds, &score);
	values[0] = BoolGetDatum(score.wraparound);
	values[1] = BoolGetDatum(score.danger);
	values[2] = Float8GetDatum(score.haste);
	return row_of(fcinfo, values);
}

/* The turn of a table of that score that needs it since 0, in minutes. */
Datum
parvacuum_test_turn(PG_FUNCTION_ARGS)
{
	PvScore		score = {.total = PG_GETARG_FLOAT8(0)};

	PG_RETURN_FLOAT8(pv_turn(&score, PG_GETARG_BOOL(1), 0) / 60e6);
}

/* Which of two tables goes first: 1 the first, -1 the second, 0 either. */
Datum
parvacuum_test_goes_first(PG_FUNCTION_ARGS)
{
	PvOrder		order[2];

	for (int i = 0; i < 2; i++)
	{
		order[i].age = PG_GETARG_FLOAT8(4 * i);
		order[i].danger = order[i].age > 0;
		order[i].urgent = PG_GETARG_BOOL(4 * i + 1);
		order[i].charge = PG_GETARG_FLOAT8(4 * i + 2);
		order[i].turn = (TimestampTz) (PG_GETARG_FLOAT8(4 * i + 3) * 60e6);
	}
	PG_RETURN_INT32(pv_compare_order(&order[0], &order[1]));
}

Datum
parvacuum_test_has_room(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pv_has_room(PG_GETARG_INT32(0), PG_GETARG_INT32(1),
							   PG_GETARG_INT32(2), PG_GETARG_INT32(3)));
}

/* Both in seconds. */
Datum
parvacuum_test_charge_left(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(pv_charge_left(PG_GETARG_FLOAT8(0) * 1e6,
									(int64) (PG_GETARG_FLOAT8(1) * 1e6)) /
					 1e6);
}

/* How long a worker may be at a table, and owner's functions run; seconds. */
Datum
parvacuum_test_longest(PG_FUNCTION_ARGS)
{
	double		pages = PG_GETARG_FLOAT8(0);
	int64		rate = PG_GETARG_INT64(1);
	int			nworkers = PG_GETARG_INT32(2);
	int64		least = PG_GETARG_INT32(3) * USECS_PER_SEC;
	Datum		values[3];

	values[0] = Float8GetDatum(pv_longest(pages, false, rate, nworkers,
										  least) / USECS_PER_SEC);
	values[1] = Float8GetDatum(pv_longest(pages, true, rate, nworkers,
										  least) / USECS_PER_SEC);
	values[2] = Float8GetDatum(pv_longest(Min(pages, PV_MOST_SAMPLED), true,
										  rate, nworkers, least) /
							   USECS_PER_SEC);
	return row_of(fcinfo, values);
}

Datum
parvacuum_test_rest(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pv_rest_after_scan(PG_GETARG_INT64(0), false, 0));
}

/* The constants of the policy. */
Datum
parvacuum_test_policy(PG_FUNCTION_ARGS)
{
	Datum		values[2];

	values[0] = Float8GetDatum(PV_AGE_SHARE);
	values[1] = Int64GetDatum(PV_LARGE_PAGES);
	return row_of(fcinfo, values);
}

/* Would a vacuum be useless after one at the horizon 100? */
Datum
parvacuum_test_is_useless(PG_FUNCTION_ARGS)
{
	PvScore		score = {
		.dead = PG_GETARG_FLOAT8(1),
		.inserted = PG_GETARG_FLOAT8(2),
		.mxid = PG_GETARG_FLOAT8(4),
		.wraparound = PG_GETARG_BOOL(3) || PG_GETARG_FLOAT8(4) > 1
	};
	PvLeft		left = {100, 2, PG_GETARG_BOOL(5)};

	PG_RETURN_BOOL(pv_vacuum_is_useless(&score, &left, PG_GETARG_INT32(0)));
}
