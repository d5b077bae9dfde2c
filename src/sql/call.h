/*-------------------------------------------------------------------------
 *
 * call.h
 *	  What SQL functions check before they do anything, and the rows that
 *	  they return.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CALL_H
#define PV_CALL_H

#include "access/tupdesc.h"
#include "catalog/pg_class.h"
#include "datatype/timestamp.h"
#include "fmgr.h"

#include "stats/result.h"

/* The server. */
extern void pv_check_preloaded(const char *what);
extern void pv_warn_unless_preloaded(void);
extern void pv_check_server(const char *what);

/* The place of the call. */
extern void pv_check_function_call(FunctionCallInfo fcinfo, const char *what);
extern void pv_check_procedure_call(FunctionCallInfo fcinfo,
									const char *what);
extern void pv_commit_procedure(void);

/* The snapshot of the statement that calls a function. */
extern void pv_release_snapshot(FunctionCallInfo fcinfo);
extern void pv_renew_snapshot(void);

/* The number of workers that the caller leaves to the engine. */
#define PV_WORKERS_NOT_GIVEN	(-1)

/* Arguments. */
extern void pv_check_not_null(FunctionCallInfo fcinfo, int arg,
							  const char *name, const char *hint);
extern int	pv_workers_arg(FunctionCallInfo fcinfo, int arg);

#define PV_HINT_DEFAULT			"Omit the argument to use its default."

/* The table. */
extern bool pv_check_relation(Form_pg_class form, int elevel);
extern void pv_raise_no_relation(Oid relid);

/* The versions of the library and of the extensions (versions.c) */

#define PV_NUM_EXTENSIONS		2

extern const char *const pv_extensions[PV_NUM_EXTENSIONS];

extern void pv_versions_init(void);
extern int	pv_extension_compare(const char *name, char **version);
extern bool pv_columns_may_differ(void);
extern bool pv_library_replaced(const char **evidence);

/* Rows that they return, column by column (row.c) */

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

#endif							/* PV_CALL_H */
