/*-------------------------------------------------------------------------
 *
 * pvt_order.c
 *	  SQL functions that simulate processes and indexes, in the order of
 *	  engine/index_order.c and in that of core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "engine/participant.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(parvacuum_test_order);
PG_FUNCTION_INFO_V1(parvacuum_test_order_of_core);

/* Pages of a shared index that are claimed at a time */
#define RANGE			8

#define MAX_INDEXES		32
#define MAX_PROCESSES	16

typedef struct Simulation
{
	int			nindexes;
	PvUnitState units[MAX_INDEXES];
	int			ends[MAX_INDEXES];
	int			ninside[MAX_INDEXES];	/* processes that share it just now */

	int			nprocesses;
	int			free_at[MAX_PROCESSES]; /* -1: has nothing to do any more */
	int			inside[MAX_PROCESSES];	/* a shared index, or -1 */
	StringInfoData work[MAX_PROCESSES];
} Simulation;

static int *
int_array(Datum datum, int expected)
{
	ArrayType  *array = DatumGetArrayTypeP(datum);

	if (ARR_NDIM(array) != 1 || ARR_HASNULL(array) ||
		ARR_ELEMTYPE(array) != INT4OID || ARR_DIMS(array)[0] != expected)
		elog(ERROR, "one number for each index is wanted");
	return (int *) ARR_DATA_PTR(array);
}

static void
set_up(Simulation *sim, FunctionCallInfo fcinfo)
{
	char	   *kinds = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int		   *pages;
	int		   *ends;

	sim->nindexes = strlen(kinds);
	sim->nprocesses = PG_GETARG_INT32(3);
	if (sim->nindexes > MAX_INDEXES || sim->nprocesses > MAX_PROCESSES ||
		sim->nprocesses < 1)
		elog(ERROR, "too many");
	pages = int_array(PG_GETARG_DATUM(1), sim->nindexes);
	ends = int_array(PG_GETARG_DATUM(2), sim->nindexes);
	for (int i = 0; i < sim->nindexes; i++)
	{
		sim->units[i].kind = kinds[i] == 'l' ? PV_UNIT_LEADER_ONLY :
			kinds[i] == 's' ? PV_UNIT_SINGLE : PV_UNIT_SHARED;
		sim->units[i].begun = false;
		sim->units[i].pages = pages[i];
		sim->ends[i] = ends[i];
		sim->ninside[i] = 0;
	}
	for (int p = 0; p < sim->nprocesses; p++)
	{
		sim->free_at[p] = 0;
		sim->inside[p] = -1;
		initStringInfo(&sim->work[p]);
	}
}

/* The process that becomes free first, or -1 if none does. */
static int
first_free(const Simulation *sim)
{
	int			first = -1;

	for (int p = 0; p < sim->nprocesses; p++)
		if (sim->free_at[p] >= 0 &&
			(first < 0 || sim->free_at[p] < sim->free_at[first]))
			first = p;
	return first;
}

/* A process that shares an index claims a range, or leaves. */
static void
go_on(Simulation *sim, int p)
{
	int			i = sim->inside[p];
	int			claimed = Min(sim->units[i].pages, RANGE);

	sim->units[i].pages -= claimed;
	sim->free_at[p] += claimed;
	if (claimed > 0)
		return;
	sim->inside[p] = -1;
	if (--sim->ninside[i] == 0)
		sim->free_at[p] += sim->ends[i];
}

static void
begin(Simulation *sim, int p, int i)
{
	appendStringInfo(&sim->work[p], "%s%d",
					 sim->work[p].len > 0 ? "," : "", i);
	sim->units[i].begun = true;
	if (sim->units[i].kind == PV_UNIT_SHARED)
	{
		sim->inside[p] = i;
		sim->ninside[i]++;
	}
	else
		sim->free_at[p] += sim->units[i].pages + sim->ends[i];
}

Datum
parvacuum_test_order(PG_FUNCTION_ARGS)
{
	Simulation	sim;
	StringInfoData work;
	int			time = 0;
	int			p;
	Datum		values[2];
	bool		nulls[2] = {false, false};
	TupleDesc	desc;

	set_up(&sim, fcinfo);
	while ((p = first_free(&sim)) >= 0)
	{
		int			next;

		time = Max(time, sim.free_at[p]);
		if (sim.inside[p] >= 0)
			go_on(&sim, p);
		else if ((next = pv_order_next(sim.units, sim.nindexes, p == 0)) >= 0)
			begin(&sim, p, next);
		else
			sim.free_at[p] = -1;
	}
	for (int i = 0; i < sim.nindexes; i++)
		if (!sim.units[i].begun ||
			(sim.units[i].kind == PV_UNIT_SHARED && sim.units[i].pages > 0))
			elog(ERROR, "index %d is left", i);

	initStringInfo(&work);
	for (p = 0; p < sim.nprocesses; p++)
		appendStringInfo(&work, "%s%s", p > 0 ? " | " : "", sim.work[p].data);
	values[0] = CStringGetTextDatum(work.data);
	values[1] = Int32GetDatum(time);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * The leader does first what only it can do, then all take one after the
 * other.
 */
Datum
parvacuum_test_order_of_core(PG_FUNCTION_ARGS)
{
	Simulation	sim;
	int			time = 0;

	set_up(&sim, fcinfo);
	for (int leader_only = 1; leader_only >= 0; leader_only--)
	{
		for (int i = 0; i < sim.nindexes; i++)
		{
			if ((sim.units[i].kind == PV_UNIT_LEADER_ONLY) != leader_only)
				continue;
			sim.free_at[leader_only ? 0 : first_free(&sim)] +=
				sim.units[i].pages + sim.ends[i];
		}
	}
	for (int p = 0; p < sim.nprocesses; p++)
		time = Max(time, sim.free_at[p]);
	PG_RETURN_INT32(time);
}
