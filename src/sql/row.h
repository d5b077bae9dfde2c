/*-------------------------------------------------------------------------
 *
 * row.h
 *	  Rows that SQL functions return, column by column.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ROW_H
#define PV_ROW_H

#include "access/tupdesc.h"
#include "datatype/timestamp.h"
#include "fmgr.h"

#include "stats/result.h"

#define PV_MAX_COLUMNS			64

/* A row that is being filled in.  Start with all zero. */
typedef struct PvRow
{
	int			n;				/* columns so far */
	Datum		values[PV_MAX_COLUMNS];
	bool		nulls[PV_MAX_COLUMNS];
	Oid			types[PV_MAX_COLUMNS];	/* 0: not checked; see put_figure() */
} PvRow;

extern void pv_put_if(PvRow *row, bool known, Datum value);
extern void pv_put_nulls(PvRow *row, int n);
extern void pv_put_oid(PvRow *row, Oid value);
extern void pv_put_time(PvRow *row, TimestampTz value);
extern void pv_put_text(PvRow *row, const char *text, int encoding);
extern void pv_put_name(PvRow *row, const char *name, int encoding);
extern void pv_put_figures(PvRow *row, const PvResult *result, bool done);
extern void pv_put_row(PvRow *row, TupleDesc desc, PvRow *inner);
extern void pv_put_sums(PvRow *row, TupleDesc desc, const int64 *sums);
extern void pv_return_row(FunctionCallInfo fcinfo, PvRow *row);
extern Datum pv_row_result(FunctionCallInfo fcinfo, PvRow *row);

static inline void
pv_put(PvRow *row, Datum value)
{
	pv_put_if(row, true, value);
}

static inline void
pv_put_int8(PvRow *row, int64 value)
{
	pv_put_if(row, true, Int64GetDatum(value));
}

/* Microseconds, which are shown as milliseconds */
static inline void
pv_put_ms(PvRow *row, int64 usecs)
{
	pv_put_if(row, true, Float8GetDatum(usecs / 1000.0));
}

#endif							/* PV_ROW_H */
