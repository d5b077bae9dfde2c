/*-------------------------------------------------------------------------
 *
 * kept_view.c
 *	  The functions behind parvacuum_kept: what interrupted vacuums have kept.
 *
 * Sessions run this.  It takes the lock of stats/kept.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "entry/rights.h"
#include "sql/call.h"
#include "sql/row.h"
#include "stats/kept.h"
#include "store/container.h"

PG_FUNCTION_INFO_V1(parvacuum_kept_items);
PG_FUNCTION_INFO_V1(parvacuum_drop_kept);

/*
 * parvacuum_kept_items(): return a row for each table of which dead items are
 * kept and that the current role may see.  A vacuum in progress may have kept
 * them.
 */
Datum
parvacuum_kept_items(PG_FUNCTION_ARGS)
{
	PvKept	   *list;
	int			n;

	pv_check_preloaded("parvacuum_kept");
	InitMaterializedSRF(fcinfo, 0);
	n = pv_kept_list(&list);
	for (int i = 0; i < n; i++)
	{
		const PvKept *kept = &list[i];
		PvRow		row = {0};

		if (!pv_may_see_table(kept->database, kept->relid))
			continue;
		pv_put_oid(&row, kept->database);
		pv_put_oid(&row, kept->relid);
		pv_put_time(&row, kept->since);
		pv_put_int8(&row, (int64) kept->bytes);
		pv_put_int8(&row, kept->items);
		pv_put(&row, Int32GetDatum(kept->nindexes));
		pv_put(&row, Int32GetDatum(kept->ndone));
		pv_put_int8(&row, kept->pages);
		pv_put_int8(&row, kept->scan.goes_on ? kept->scan.upto : kept->pages);
		pv_put_int8(&row, Min((int64) kept->begun * PV_SEGMENT_BLOCKS,
							  kept->pages));
		pv_put(&row, BoolGetDatum(kept->scan.goes_on));
		pv_return_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/* Return the TOAST table of a table, or InvalidOid. */
static Oid
toast_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			toast = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		toast = ((Form_pg_class) GETSTRUCT(tuple))->reltoastrelid;
		ReleaseSysCache(tuple);
	}
	return toast;
}

/*
 * parvacuum_drop_kept(rel): drop what is kept of a table that the current role
 * may vacuum, and of its TOAST table.  Return whether there was anything.
 */
Datum
parvacuum_drop_kept(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	char	   *relname = get_rel_name(relid);
	bool		dropped;
	Oid			toast;

	pv_check_preloaded("parvacuum_drop_kept()");
	if (relname == NULL)
		pv_raise_no_relation(relid);
	if (!pv_may_vacuum_oid(relid))
		pv_refuse_vacuum(ERROR, relname);
	dropped = pv_kept_drop_table(relid);
	toast = toast_of(relid);
	if (OidIsValid(toast))
		dropped |= pv_kept_drop_table(toast);
	PG_RETURN_BOOL(dropped);
}
