/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  parvacuum_table_options() and parvacuum_reset_options().
 *
 * The session that calls them runs this.  Locks are those of
 * entry/labels.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "base/guard.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "entry/effective_options.h"
#include "entry/labels.h"
#include "entry/rights.h"

PG_FUNCTION_INFO_V1(parvacuum_table_options);
PG_FUNCTION_INFO_V1(parvacuum_reset_options);

/* A value and its origin for each option, and why the engine declines. */
#define OPTIONS_COLUMNS		(2 * PV_NUM_OPTIONS + 1)

/*
 * parvacuum_table_options(rel): for each option the value that applies to the
 * table and where it comes from, and why the engine would decline the table
 * although it is enabled.  Null if the relation is no table, or no longer
 * exists, since this takes no lock on it.
 */
Datum
parvacuum_table_options(PG_FUNCTION_ARGS)
{
	static const char *const origin_names[] = {
		[PV_ORIGIN_TABLE] = "table",
		[PV_ORIGIN_ANCESTOR] = "ancestor",
		[PV_ORIGIN_SETTING] = "setting",
		[PV_ORIGIN_DEFAULT] = "default",
	};
	Oid			relid = PG_GETARG_OID(0);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Datum		values[OPTIONS_COLUMNS];
	bool		nulls[OPTIONS_COLUMNS];
	PvOptions	effective;
	Form_pg_class form;
	const char *declined = NULL;
	const char *window;
	TupleDesc	desc;
	int			n = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!HeapTupleIsValid(tuple))
		PG_RETURN_NULL();
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (!pv_relkind_has_options(form->relkind))
	{
		ReleaseSysCache(tuple);
		PG_RETURN_NULL();
	}

	pv_options_look_up(relid, form->relispartition, &effective);
	window = effective.window != NULL ? effective.window :
		pv_window_print(&pv_guc_parsed_window);
	if (form->relkind != RELKIND_PARTITIONED_TABLE)
		declined = pv_dispatch_declines(form, InvalidOid);
	ReleaseSysCache(tuple);

	memset(nulls, 0, sizeof(nulls));
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		nulls[n] = effective.origin[i] == PV_ORIGIN_DEFAULT;
		if (i == PV_OPTION_ENABLED || i == PV_OPTION_SWEEP)
			values[n++] = BoolGetDatum(effective.value[i] > 0);
		else if (i == PV_OPTION_WINDOW)
			values[n++] = CStringGetTextDatum(window);
		else
			values[n++] = Int32GetDatum(effective.value[i]);
		values[n++] = CStringGetTextDatum(origin_names[effective.origin[i]]);
	}
	nulls[n] = declined == NULL || effective.value[PV_OPTION_ENABLED] <= 0;
	values[n] = nulls[n] ? (Datum) 0 : CStringGetTextDatum(declined);
	Assert(n == OPTIONS_COLUMNS - 1);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * parvacuum_reset_options(): removes the options of all tables of this
 * database, and returns how many tables had some.  It needs no preloaded
 * library, so that it can be called after parvacuum was removed from
 * shared_preload_libraries.  The owner of one table uses ALTER TABLE ...
 * RESET.
 */
Datum
parvacuum_reset_options(PG_FUNCTION_ARGS)
{
	const char *what = "parvacuum_reset_options()";

	PreventCommandIfReadOnly(what);
	PreventCommandIfParallelMode(what);
	pv_guard_check_function(what);
	pv_check_may_reset_options();
	PG_RETURN_INT32(pv_labels_remove());
}
