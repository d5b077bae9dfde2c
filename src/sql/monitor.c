/*-------------------------------------------------------------------------
 *
 * monitor.c
 *	  The functions behind parvacuum_queue and parvacuum_scheduler_stats().
 *
 * Sessions run this.  It takes no lock but that of the queue (sched/queue.c),
 * for a moment.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/settings.h"
#include "entry/rights.h"
#include "sched/queue.h"
#include "sql/call.h"
#include "sql/row.h"
#include "stats/registry.h"
#include "throttle/cost.h"

PG_FUNCTION_INFO_V1(parvacuum_queue_items);
PG_FUNCTION_INFO_V1(parvacuum_scheduler_stats);



/* Return what is to be done with the table, as far as is known. */
static const char *
action_name(const PvItem *item)
{
	const char *const names[2][2] = {
		{"sweep", "sweep and analyze"},
		{"vacuum", "vacuum and analyze"}
	};
	bool		vacuum = item->score.vacuum || item->requested;

	if (!vacuum && !item->score.sweep)
		return "analyze";
	return names[vacuum][item->score.analyze];
}

/* Return what the last worker that had the table has done with it, or NULL. */
static const char *
done_name(const PvItem *item)
{
	if (item->done & PV_DONE_VACUUM)
		return item->done & PV_DONE_ANALYZE ? "vacuum and analyze" : "vacuum";
	if (item->done & PV_DONE_SWEEP)
		return item->done & PV_DONE_ANALYZE ? "sweep and analyze" : "sweep";
	return item->done & PV_DONE_ANALYZE ? "analyze" : NULL;
}

/* Return why the table is not vacuumed now, or NULL. */
static const char *
reason_name(const PvItem *item, bool has_large_place)
{
	static const char *const names[] = {
		[PV_WAIT_NONE] = NULL,
		[PV_WAIT_WINDOW] = "window",
		[PV_WAIT_LOCK] = "lock",
		[PV_WAIT_HORIZON] = "horizon",
		[PV_WAIT_CANCELED] = "canceled",
		[PV_WAIT_ERROR] = "error",
	};

	if (item->state == PV_ITEM_QUEUED && pv_wants_large_place(item) &&
		!has_large_place)
		return "large tables";
	return names[item->reason];
}

/* Order the rows: by database, and those queued by their order. */
static int
compare_items(const void *a, const void *b)
{
	const PvItem *x = a;
	const PvItem *y = b;
	PvOrder		of_x = pv_queue_order(x, x->charge);
	PvOrder		of_y = pv_queue_order(y, y->charge);

	if (x->key.database != y->key.database)
		return x->key.database < y->key.database ? -1 : 1;
	if ((x->state == PV_ITEM_QUEUED) != (y->state == PV_ITEM_QUEUED))
		return x->state == PV_ITEM_QUEUED ? -1 : 1;
	return -pv_compare_order(&of_x, &of_y);
}

/*
 * parvacuum_queue_items(): return a row for each table that is queued, being
 * vacuumed, or waiting.
 *
 * Roles that are not members of pg_read_all_stats get the rows of their own
 * database.  pg_class and pg_stat_all_tables show all roles the sizes, ages
 * and counts of all tables there, and scores are computed from these.  They do
 * not get the PID, since pg_stat_progress_vacuum does not show them either
 * which process vacuums which table.
 */
Datum
parvacuum_queue_items(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {
		[PV_ITEM_QUEUED] = "queued",
		[PV_ITEM_RUNNING] = "running",
		[PV_ITEM_WAITING] = "waiting",
	};
	int			encoding = GetDatabaseEncoding();
	bool		sees_all = pv_may_see_all();
	bool		has_large_place;
	PvItem	   *items;
	int			nitems;
	int			position = 0;

	pv_check_preloaded("parvacuum_queue");
	InitMaterializedSRF(fcinfo, 0);

	nitems = pv_queue_copy(sees_all ? InvalidOid : MyDatabaseId, &items);
	has_large_place = pv_queue_has_large_place(pv_queue_lock(LW_SHARED));
	pv_queue_unlock();
	if (nitems > 1)
		qsort(items, nitems, sizeof(PvItem), compare_items);
	for (int i = 0; i < nitems; i++)
	{
		const PvItem *item = &items[i];
		bool		running = item->state == PV_ITEM_RUNNING;
		PvRow		row = {0};

		if (i == 0 || item->key.database != items[i - 1].key.database)
			position = 0;
		pv_put_oid(&row, item->key.database);
		pv_put_oid(&row, item->key.relid);
		pv_put_text(&row, states[item->state], encoding);
		pv_put_text(&row, reason_name(item, has_large_place), encoding);
		pv_put_time(&row, pv_time_of_day(item->state_since));
		pv_put_time(&row, item->wait_until);
		pv_put_if(&row, item->state == PV_ITEM_QUEUED,
				  Int32GetDatum(++position));
		pv_put_if(&row, running && sees_all, Int32GetDatum(item->worker_pid));
		pv_put_text(&row, action_name(item), encoding);
		pv_put_text(&row, done_name(item), encoding);
		pv_put(&row, BoolGetDatum(item->score.wraparound));
		pv_put_text(&row, pv_is_large(item) ? "large" : "small", encoding);
		pv_put(&row, Float8GetDatum(item->score.total));
		pv_put(&row, Float8GetDatum(item->score.dead));
		pv_put(&row, Float8GetDatum(item->score.inserted));
		pv_put(&row, Float8GetDatum(item->score.modified));
		pv_put(&row, Float8GetDatum(item->score.xid));
		pv_put(&row, Float8GetDatum(item->score.mxid));
		pv_put(&row, Float8GetDatum(item->score.entries));
		pv_put(&row, BoolGetDatum(item->requested));
		pv_put(&row, BoolGetDatum(item->urgent));
		pv_put_if(&row, sees_all,
				  Float8GetDatum(item->charge / USECS_PER_SEC));
		pv_put_int8(&row, item->pages);
		pv_return_row(fcinfo, &row);
	}
	return (Datum) 0;
}

/*
 * parvacuum_scheduler_stats(): return what was counted since the server
 * started.  All roles may see it, like pg_stat_database: it has only sums over
 * the cluster, and nothing about a single table or process.
 */
Datum
parvacuum_scheduler_stats(PG_FUNCTION_ARGS)
{
	PvRow		row = {0};

	pv_check_preloaded("parvacuum_scheduler_stats()");
	for (PvCount what = 0; what <= PV_COUNT_QUEUE_FULL; what++)
		pv_put_int8(&row, pv_sched_counted(what));
	pv_put_int8(&row, pv_cost_units());
	pv_put_int8(&row, pv_cost_rate());
	pv_put_int8(&row, pv_sched_counted(PV_COUNT_NO_PROCESS));
	pv_put_int8(&row, pv_registry_runs_refused());
	return pv_row_result(fcinfo, &row);
}
