/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  parvacuum_table_options() and parvacuum_reset_options().
 *
 * The session that calls them runs this.  Locks are those of
 * entry/labels.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/process.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "entry/options.h"
#include "sql/call.h"

PG_FUNCTION_INFO_V1(parvacuum_table_options);
PG_FUNCTION_INFO_V1(parvacuum_reset_options);

/*
 * parvacuum_table_options(rel): return for each option the value that applies
 * to the table and where it comes from, and why the engine would decline the
 * table although it is enabled.  Null if the relation is no table, or no
 * longer exists, since this takes no lock on it.
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
	Form_pg_class form = pv_class_row(relid);
	int			encoding = GetDatabaseEncoding();
	PvRow		row = {0};
	PvOptions	effective;
	const char *declined = NULL;
	const char *window;
	const char *detail;
	PvWindow	of_setting;

	if (form == NULL || !pv_relkind_has_options(form->relkind))
		PG_RETURN_NULL();

	pv_options_look_up(relid, form->relispartition, &effective);
	window = effective.window != NULL ? effective.window :
		pv_window_parse(pv_guc_window, &of_setting, &detail);
	if (form->relkind != RELKIND_PARTITIONED_TABLE)
		declined = pv_dispatch_declines(form, InvalidOid);

	/* a value and its origin for each option, and why the engine declines */
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		bool		given = effective.origin[i] != PV_ORIGIN_DEFAULT;

		if (i == PV_OPTION_ENABLED || i == PV_OPTION_SWEEP)
			pv_put_if(&row, given, BoolGetDatum(effective.value[i] > 0));
		else if (i == PV_OPTION_WINDOW)
			pv_put_if(&row, given, CStringGetTextDatum(window));
		else
			pv_put_if(&row, given, Int32GetDatum(effective.value[i]));
		pv_put_text(&row, origin_names[effective.origin[i]], encoding);
	}
	pv_put_text(&row, effective.value[PV_OPTION_ENABLED] > 0 ? declined : NULL,
				encoding);
	return pv_row_result(fcinfo, &row);
}

/*
 * parvacuum_reset_options(): remove the options of all tables of this
 * database, and return how many tables had some.  It needs no preloaded
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
	PG_RETURN_INT32(pv_labels_count(true));
}
