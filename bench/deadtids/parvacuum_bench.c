/*-------------------------------------------------------------------------
 *
 * parvacuum_bench.c
 *	  SQL functions that measure the dead-TID store and its contenders.
 *
 * A session has one pattern of dead TIDs, and one sample of TIDs to look up.  Both
 * are made before any measurement, and all contenders use the same ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parvacuum_bench.h"
#include "pvb_contenders.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(parvacuum_bench_pattern);
PG_FUNCTION_INFO_V1(parvacuum_bench_sample);
PG_FUNCTION_INFO_V1(parvacuum_bench_contenders);
PG_FUNCTION_INFO_V1(parvacuum_bench);

/* The pattern and the sample of the session.  NULL before they are made. */
static PvbPattern *pattern = NULL;
static PvbSample *sample = NULL;

/* Return the session's pattern.  Raise an error if there is none. */
const PvbPattern *
pvb_session_pattern(void)
{
	if (pattern == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no pattern"),
				 errhint("Call parvacuum_bench_pattern() first.")));
	return pattern;
}

/* Return values as the result row of a function. */
Datum
pvb_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/* Check that an argument is a number from 1 to max, and return it. */
static int
get_number(const char *name, int64 value, int64 max)
{
	if (value < 1 || value > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 1 and " INT64_FORMAT, name, max)));
	return value;
}

/* Return the kind of pattern that an argument names. */
static PvbKind
get_kind(const char *name)
{
	if (strcmp(name, "fixed") == 0)
		return PVB_FIXED;
	if (strcmp(name, "random") == 0)
		return PVB_RANDOM;
	if (strcmp(name, "mix") == 0)
		return PVB_MIX;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no kind of pattern \"%s\"", name)));
}

static void
forget_sample(void)
{
	PvbSample  *old = sample;

	sample = NULL;
	if (old != NULL)
		pvb_sample_free(old);
}

/* Make the session's pattern, and return the number of its TIDs. */
Datum
parvacuum_bench_pattern(PG_FUNCTION_ARGS)
{
	int			max = MaxHeapTuplesPerPage;
	PvbPattern *old = pattern;
	PvbParams	params;
	MemoryContext caller;

	params.kind = get_kind(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	params.nblocks = get_number("blocks", PG_GETARG_INT64(1), PG_INT32_MAX / 2);
	params.dead = get_number("dead", PG_GETARG_INT32(2), max);
	params.first = get_number("first", PG_GETARG_INT32(3), max);
	params.stride = get_number("stride", PG_GETARG_INT32(4), max);
	params.consecutive = get_number("consecutive", PG_GETARG_INT32(5), params.stride);
	params.gap = get_number("gap", PG_GETARG_INT32(6), PG_INT32_MAX / 2);
	params.lookups = get_number("lookups", PG_GETARG_INT32(7), max);

	forget_sample();
	pattern = NULL;
	if (old != NULL)
		pvb_pattern_free(old);
	caller = MemoryContextSwitchTo(TopMemoryContext);
	pattern = pvb_pattern_make(&params);
	MemoryContextSwitchTo(caller);
	PG_RETURN_INT64(pattern->nitems);
}

/* Draw the session's sample, and return the number of dead TIDs in it. */
Datum
parvacuum_bench_sample(PG_FUNCTION_ARGS)
{
	int			n = get_number("n", PG_GETARG_INT32(0), PG_INT32_MAX);
	MemoryContext caller;

	(void) pvb_session_pattern();
	forget_sample();
	caller = MemoryContextSwitchTo(TopMemoryContext);
	sample = pvb_sample_make(pattern, n, PG_GETARG_INT64(1));
	MemoryContextSwitchTo(caller);
	PG_RETURN_INT64(sample->ndead);
}

/* The names of the contenders. */
Datum
parvacuum_bench_contenders(PG_FUNCTION_ARGS)
{
	ArrayBuildState *names = NULL;

	for (const PvbContender *c = pvb_contenders; c->name != NULL; c++)
		names = accumArrayResult(names, CStringGetTextDatum(c->name), false,
								 TEXTOID, CurrentMemoryContext);
	PG_RETURN_DATUM(makeArrayResult(names, CurrentMemoryContext));
}

/* Return the contender with this name.  Raise an error if there is none. */
static const PvbContender *
find_contender(const char *name)
{
	for (const PvbContender *c = pvb_contenders; c->name != NULL; c++)
	{
		if (strcmp(c->name, name) == 0)
			return c;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("there is no contender \"%s\"", name)));
}

/*
 * Look up the sample in a contender's set with one of its look-up functions.
 * Return the nanoseconds per TID.  Raise an error if the number of hits is wrong.
 */
static double
time_lookups(const PvbContender *contender, void *set,
			 int (*lookup) (void *set, ItemPointerData *tids, int n))
{
	int64		found = 0;
	double		start = pvb_now();
	double		seconds;

	for (int64 i = 0; i < sample->n; i += PVB_BATCH)
	{
		found += lookup(set, sample->tids + i, Min(sample->n - i, PVB_BATCH));
		CHECK_FOR_INTERRUPTS();
	}
	seconds = pvb_now() - start;

	if (found != sample->ndead)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("contender \"%s\" has wrong answers", contender->name),
				 errdetail(INT64_FORMAT " of %d TIDs are dead, it found " INT64_FORMAT ".",
						   sample->ndead, sample->n, found)));
	return seconds * 1e9 / sample->n;
}

/* Measure one contender.  See the SQL script for the result. */
Datum
parvacuum_bench(PG_FUNCTION_ARGS)
{
	const PvbContender *contender = find_contender(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	MemoryContext context;
	MemoryContext caller;
	double		start;
	void	   *set;
	Datum		values[4];
	bool		nulls[4] = {false};

	(void) pvb_session_pattern();
	if (sample == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no sample"),
				 errhint("Call parvacuum_bench_sample() first.")));

	context = AllocSetContextCreate(CurrentMemoryContext, "parvacuum_bench",
									ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);

	start = pvb_now();
	set = contender->load(pattern);
	values[0] = Float8GetDatum((pvb_now() - start) * 1e9 / Max(pattern->nitems, 1));
	values[1] = Float8GetDatum(time_lookups(contender, set, contender->lookup));
	nulls[2] = contender->lookup_batch == NULL;
	if (!nulls[2])
		values[2] = Float8GetDatum(time_lookups(contender, set,
												contender->lookup_batch));
	values[3] = Int64GetDatum(contender->bytes(set));
	if (contender->drop != NULL)
		contender->drop(set);

	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return pvb_row(fcinfo, values, nulls);
}
