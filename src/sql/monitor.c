/*-------------------------------------------------------------------------
 *
 * monitor.c
 *	  The functions behind parvacuum_queue, parvacuum_scheduler_stats() and
 *	  parvacuum_kept.
 *
 * Sessions run this.  It takes the locks of the queue (sched/queue.c) and of
 * what interrupted vacuums have kept (stats/kept.c), for a moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_class.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "base/clock.h"
#include "entry/dispatch.h"
#include "sched/queue.h"
#include "sql/call.h"
#include "stats/kept.h"
#include "stats/registry.h"
#include "store/container.h"
#include "throttle/cost.h"
#include "throttle/pace.h"

PG_FUNCTION_INFO_V1(parvacuum_queue_items);
PG_FUNCTION_INFO_V1(parvacuum_pace);
PG_FUNCTION_INFO_V1(parvacuum_scheduler_stats);
PG_FUNCTION_INFO_V1(parvacuum_kept_items);
PG_FUNCTION_INFO_V1(parvacuum_drop_kept);

/* Return the name of what is to be done with a table, or was done. */
static const char *
work_name(bool vacuum, bool sweep, bool analyze)
{
	if (vacuum)
		return analyze ? "vacuum and analyze" : "vacuum";
	if (sweep)
		return analyze ? "sweep and analyze" : "sweep";
	return analyze ? "analyze" : NULL;
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
	qsort(items, nitems, sizeof(PvItem), compare_items);
	for (int i = 0; i < nitems; i++)
	{
		const PvItem *item = &items[i];
		bool		running = item->state == PV_ITEM_RUNNING;
		const char *action;
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
		action = work_name(item->score.vacuum || item->requested,
						   item->score.sweep, item->score.analyze);
		pv_put_text(&row, action != NULL ? action : "analyze", encoding);
		pv_put_text(&row, work_name(item->done & PV_DONE_VACUUM,
									item->done & PV_DONE_SWEEP,
									item->done & PV_DONE_ANALYZE), encoding);
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

/*
 * parvacuum_pace(): return what limits the rate of the scheduler.  All roles
 * may see it, as it is about the cluster.
 */
Datum
parvacuum_pace(PG_FUNCTION_ARGS)
{
	static const char *const limits[] = {
		[PV_PACE_NOTHING] = "nothing",
		[PV_PACE_RISING] = "rising",
		[PV_PACE_HARM] = "harm",
		[PV_PACE_FLOOR] = "floor",
		[PV_PACE_BLIND] = "blind",
		[PV_PACE_STANDBY] = "standby",
		[PV_PACE_CHECKPOINT] = "checkpoint"
	};
	PvRow		row = {0};
	PvPaceShown shown;

	pv_check_preloaded("parvacuum_pace()");
	shown = pv_cost_pace_shown();
	pv_put_text(&row, shown.is_adaptive ? limits[shown.limit] : "settings",
				GetDatabaseEncoding());
	pv_put_time(&row, shown.is_adaptive ? pv_time_of_day(shown.since) : 0);
	pv_put_int8(&row, pv_cost_rate());
	pv_put_int8(&row, shown.is_adaptive ? (int64) shown.floor :
				pv_cost_fixed_rate());
	pv_put_if(&row, shown.is_adaptive && !isnan(shown.harm),
			  Float8GetDatum(shown.harm));
	return pv_row_result(fcinfo, &row);
}

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

/*
 * parvacuum_drop_kept(rel): drop what is kept of a table that the current role
 * may vacuum, and of its TOAST table.  Return whether there was anything.
 */
Datum
parvacuum_drop_kept(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Form_pg_class form = pv_class_row(relid);
	bool		dropped;

	pv_check_preloaded("parvacuum_drop_kept()");
	if (form == NULL)
		pv_raise_no_relation(relid);
	if (!pv_may_vacuum(relid))
		pv_refuse_vacuum(ERROR, NameStr(form->relname));
	dropped = pv_kept_drop_object(RelationRelationId, relid);
	if (OidIsValid(form->reltoastrelid))
		dropped |= pv_kept_drop_object(RelationRelationId,
									   form->reltoastrelid);
	PG_RETURN_BOOL(dropped);
}
