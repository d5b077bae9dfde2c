/*-------------------------------------------------------------------------
 *
 * row.c
 *	  Rows that SQL functions return, column by column.
 *
 * Sessions run this.  It takes no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#include "sql/call.h"
#include "stats/history.h"

/* Add a column, NULL unless its value is known. */
void
pv_put_if(PvRow *row, bool known, Datum value)
{
	Assert(row->n < PV_MAX_COLUMNS);
	row->nulls[row->n] = !known;
	row->values[row->n++] = known ? value : (Datum) 0;
}

/* Add n columns that are NULL. */
void
pv_put_nulls(PvRow *row, int n)
{
	while (n-- > 0)
		pv_put_if(row, false, (Datum) 0);
}

void
pv_put_oid(PvRow *row, Oid value)
{
	pv_put_if(row, OidIsValid(value), ObjectIdGetDatum(value));
}

/* Add a time; 0 is shown as NULL. */
void
pv_put_time(PvRow *row, TimestampTz value)
{
	pv_put_if(row, value != 0, TimestampTzGetDatum(value));
}

/* Add a text of some database; an empty one is NULL. */
void
pv_put_text(PvRow *row, const char *text, int encoding)
{
	if (text == NULL || text[0] == '\0')
		pv_put_nulls(row, 1);
	else
		pv_put(row, CStringGetTextDatum(pv_readable(text, encoding)));
}

void
pv_put_name(PvRow *row, const char *name, int encoding)
{
	if (name == NULL || name[0] == '\0')
		pv_put_nulls(row, 1);
	else
	{
		name = pv_readable(name, encoding);
		pv_put(row, DirectFunctionCall1(namein, CStringGetDatum(name)));
	}
}

/*
 * Add a figure, as the type of its column demands.  Bytes of WAL are numeric,
 * as they are in core's views.
 *
 * Figures are columns of types that have names.  The owner of such a type can
 * change its columns, so fit_columns() compares.
 */
static void
put_figure(PvRow *row, PvFigureType type, bool known, int64 value)
{
	Datum		datum = (Datum) 0;
	Oid			column = InvalidOid;

	switch (type)
	{
		case PV_FIGURE_HIDDEN:
			return;
		case PV_FIGURE_BOOL:
			column = BOOLOID;
			datum = BoolGetDatum(value != 0);
			break;
		case PV_FIGURE_INT4:
			column = INT4OID;
			datum = Int32GetDatum((int32) value);
			break;
		case PV_FIGURE_INT8:
			column = INT8OID;
			datum = Int64GetDatum(value);
			break;
		case PV_FIGURE_NUMERIC:
			column = NUMERICOID;
			datum = NumericGetDatum(int64_to_numeric(value));
			break;
		case PV_FIGURE_MSECS:
			column = FLOAT8OID;
			datum = Float8GetDatum(value / 1000.0);
			break;
		case PV_FIGURE_XID:
			column = XIDOID;
			datum = TransactionIdGetDatum((TransactionId) value);
			known &= TransactionIdIsValid((TransactionId) value);
			break;
	}
	row->types[row->n] = column;
	pv_put_if(row, known, datum);
}

/*
 * Add the columns of parvacuum_result after the first.  "done" says whether
 * the vacuum was completed.
 */
void
pv_put_figures(PvRow *row, const PvResult *result, bool done)
{
	PvFigureKnown known = !result->by_engine ? PV_KNOWN_ANY :
		done ? PV_KNOWN_DONE : PV_KNOWN_ENGINE;

	for (int i = 0; i < PV_NUM_FIGURES; i++)
		put_figure(row, pv_figures[i].type, pv_figures[i].known <= known,
				   pv_figure(result, &pv_figures[i]));
}

/*
 * Make the row fit its description.  They may differ if the extension of this
 * database has another minor version than the library: the newer of them has
 * more columns, behind all others.  What the library does not know is NULL.
 */
static void
fit_columns(PvRow *row, TupleDesc desc)
{
	for (int i = 0; i < Min(row->n, desc->natts); i++)
	{
		if (OidIsValid(row->types[i]) &&
			TupleDescAttr(desc, i)->atttypid != row->types[i])
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column %d of a type of extension \"parvacuum\" has been changed",
							i + 1),
					 errhint("Drop the extension and create it again.")));
	}
	if (row->n != desc->natts &&
		(desc->natts > PV_MAX_COLUMNS || !pv_columns_may_differ()))
		elog(ERROR, "row with %d columns instead of %d", row->n, desc->natts);
	pv_put_nulls(row, desc->natts - row->n);
}

/* Return the row as a value of a composite type. */
static Datum
row_datum(TupleDesc desc, PvRow *row)
{
	fit_columns(row, desc);
	return HeapTupleGetDatum(heap_form_tuple(desc, row->values, row->nulls));
}

/* Add a column that is a row itself; desc describes the outer one. */
void
pv_put_row(PvRow *row, TupleDesc desc, PvRow *inner)
{
	TupleDesc	inner_desc;

	/* fit_columns() says why there may be no such column */
	if (row->n >= desc->natts)
	{
		pv_put_nulls(row, 1);
		return;
	}
	inner_desc =
		lookup_rowtype_tupdesc(TupleDescAttr(desc, row->n)->atttypid, -1);
	pv_put(row, row_datum(inner_desc, inner));
	ReleaseTupleDesc(inner_desc);
}

/* Add a column that is a parvacuum_sums, of which index_scans is an int8. */
void
pv_put_sums(PvRow *row, TupleDesc desc, const int64 *sums)
{
	PvRow		inner = {0};

	for (int i = 0; i < PV_NUM_FIGURES; i++)
	{
		PvFigureType type = pv_figures[i].type;

		if (pv_figures[i].summed)
			put_figure(&inner, type == PV_FIGURE_INT4 ? PV_FIGURE_INT8 : type,
					   true, *sums++);
	}
	pv_put_row(row, desc, &inner);
}

/* Add the row, which must have all columns, to the function's result. */
void
pv_return_row(FunctionCallInfo fcinfo, PvRow *row)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	CHECK_FOR_INTERRUPTS();
	fit_columns(row, rsinfo->setDesc);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values,
						 row->nulls);
}

/* Return the row, which must have all columns, as the function's result. */
Datum
pv_row_result(FunctionCallInfo fcinfo, PvRow *row)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return row_datum(BlessTupleDesc(desc), row);
}
