/*-------------------------------------------------------------------------
 *
 * wraparound.c
 *	  When transaction IDs will run out, if they are used as before.
 *
 * Sessions run this.  The rate is that of the samples in the history
 * (stats/history.c), so it is known only if the library is preloaded.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_database.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "sql/check.h"
#include "sql/row.h"
#include "stats/history.h"

PG_FUNCTION_INFO_V1(parvacuum_wraparound);

/* The server assigns none of the last ones.  Core: SetTransactionIdLimit. */
#define XIDS_KEPT_BACK			3000000

static int64
xids_left(int64 age)
{
	return Max((int64) (MaxTransactionId >> 1) - XIDS_KEPT_BACK - age, 0);
}

/* Return when an age will be too great; 0 if that is not known. */
static TimestampTz
date_of(int64 age, double rate)
{
	double		usecs = rate <= 0 ? 0 : xids_left(age) / rate * USECS_PER_SEC;
	TimestampTz now = GetCurrentTimestamp();

	return rate <= 0 || usecs >= END_TIMESTAMP - now ? 0 :
		now + (TimestampTz) usecs;
}

/* Return what is to be said of it after an age: "" if nothing is known. */
const char *
pv_wraparound_text(int64 age)
{
	double		seconds;
	double		rate = pv_history_xid_rate(&seconds);
	TimestampTz date = date_of(age, rate);

	if (date == 0)
		return "";
	return psprintf("; at %.1f transactions per second, as in the last %.1f hours, they run out about %s (an estimate)",
					rate, seconds / SECS_PER_HOUR, timestamptz_to_str(date));
}

/* parvacuum_wraparound(): return a row for each database. */
Datum
parvacuum_wraparound(PG_FUNCTION_ARGS)
{
	double		seconds;
	double		rate = pv_history_xid_rate(&seconds);
	Relation	pg_database;
	TableScanDesc scan;
	HeapTuple	tuple;

	InitMaterializedSRF(fcinfo, 0);
	pg_database = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(pg_database, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		int64		age = (int32) (ReadNextTransactionId() -
								   form->datfrozenxid);
		TimestampTz date = date_of(age, rate);
		PvRow		row = {0};

		pv_put_oid(&row, form->oid);
		pv_put_name(&row, NameStr(form->datname), GetDatabaseEncoding());
		pv_put_int8(&row, age);
		pv_put_int8(&row, xids_left(age));
		pv_put_if(&row, rate > 0, Float8GetDatum(rate));
		pv_put_if(&row, rate > 0, Float8GetDatum(seconds));
		pv_put_time(&row, date);
		pv_return_row(fcinfo, &row);
	}
	table_endscan(scan);
	table_close(pg_database, AccessShareLock);
	return (Datum) 0;
}
