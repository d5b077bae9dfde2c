/*-------------------------------------------------------------------------
 *
 * pvt_queue_sql.c
 *	  SQL functions that play launcher, scheduler workers and sessions on a
 *	  queue.
 *
 * After each step everything in the queue is compared with everything else.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "pvt_queue.h"

PG_FUNCTION_INFO_V1(parvacuum_test_queue);
PG_FUNCTION_INFO_V1(parvacuum_test_queue_wait);
PG_FUNCTION_INFO_V1(parvacuum_test_hire);
PG_FUNCTION_INFO_V1(parvacuum_test_attach);
PG_FUNCTION_INFO_V1(parvacuum_test_dismiss);
PG_FUNCTION_INFO_V1(parvacuum_test_launcher);
PG_FUNCTION_INFO_V1(parvacuum_test_exit);
PG_FUNCTION_INFO_V1(parvacuum_test_begin_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_offer);
PG_FUNCTION_INFO_V1(parvacuum_test_end_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_pop);
PG_FUNCTION_INFO_V1(parvacuum_test_put_back);
PG_FUNCTION_INFO_V1(parvacuum_test_finish);
PG_FUNCTION_INFO_V1(parvacuum_test_should_leave);
PG_FUNCTION_INFO_V1(parvacuum_test_claim_update);
PG_FUNCTION_INFO_V1(parvacuum_test_enqueue);
PG_FUNCTION_INFO_V1(parvacuum_test_withdraw);
PG_FUNCTION_INFO_V1(parvacuum_test_cancel);
PG_FUNCTION_INFO_V1(parvacuum_test_is_canceled);
PG_FUNCTION_INFO_V1(parvacuum_test_request_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_call_back);
PG_FUNCTION_INFO_V1(parvacuum_test_leave_place);
PG_FUNCTION_INFO_V1(parvacuum_test_drop_database);
PG_FUNCTION_INFO_V1(parvacuum_test_items);
PG_FUNCTION_INFO_V1(parvacuum_test_summaries);
PG_FUNCTION_INFO_V1(parvacuum_test_rests);

/* A worker has found in its recheck that it was cancelled. */
static bool canceled_itself;

static const char *const reason_names[] = {
	[PV_WAIT_NONE] = "none",
	[PV_WAIT_WINDOW] = "window",
	[PV_WAIT_LOCK] = "lock",
	[PV_WAIT_HORIZON] = "horizon",
	[PV_WAIT_CANCELED] = "canceled",
	[PV_WAIT_ERROR] = "error",
};

static const char *const state_names[] = {
	[PV_ITEM_QUEUED] = "queued",
	[PV_ITEM_RUNNING] = "running",
	[PV_ITEM_WAITING] = "waiting",
};

static PvWaitReason
get_reason(const char *name)
{
	for (size_t i = 0; i < lengthof(reason_names); i++)
	{
		if (strcmp(name, reason_names[i]) == 0)
			return i;
	}
	elog(ERROR, "there is no reason \"%s\"", name);
}

Datum
parvacuum_test_queue(PG_FUNCTION_ARGS)
{
	pvt_queue_set_up(PG_GETARG_INT32(0));
	pvt_queue_check();
	PG_RETURN_VOID();
}

/* The clock advances by that number of seconds. */
Datum
parvacuum_test_queue_wait(PG_FUNCTION_ARGS)
{
	pvt_queues.now += PG_GETARG_INT32(0) * USECS_PER_SEC;
	PG_RETURN_VOID();
}

Datum
parvacuum_test_hire(PG_FUNCTION_ARGS)
{
	int			worker = pvt_queue_hire(PG_GETARG_OID(0), PG_GETARG_BOOL(1),
										PG_GETARG_BOOL(2));

	pvt_queue_check();
	PG_RETURN_INT32(worker);
}

Datum
parvacuum_test_attach(PG_FUNCTION_ARGS)
{
	bool		good = pvt_queue_attach(PG_GETARG_INT32(0));

	pvt_queue_check();
	PG_RETURN_BOOL(good);
}

Datum
parvacuum_test_dismiss(PG_FUNCTION_ARGS)
{
	int			worker = PG_GETARG_INT32(0);

	pv_slots_dismiss(&pvt_queues, worker, pvt_workers[worker].token);
	pvt_queue_check();
	PG_RETURN_VOID();
}

/* Another launcher comes. */
Datum
parvacuum_test_launcher(PG_FUNCTION_ARGS)
{
	pv_slots_dismiss_all_pending(&pvt_queues);
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_exit(PG_FUNCTION_ARGS)
{
	pvt_queue_leave(PG_GETARG_INT32(0));
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_begin_scan(PG_FUNCTION_ARGS)
{
	bool		wanted;

	pvt_queue_be(PG_GETARG_INT32(0));
	wanted = pv_scan_begin(&pvt_queues, pvt_me);
	pvt_queue_check();
	PG_RETURN_BOOL(wanted);
}

Datum
parvacuum_test_offer(PG_FUNCTION_ARGS)
{
	PvItem		item = {0};
	bool		full = false;

	pvt_queue_be(PG_GETARG_INT32(0));
	item.key.database = pvt_queues.shared->queues[pvt_me->queue].database;
	item.key.relid = PG_GETARG_OID(1);
	item.score.total = PG_GETARG_FLOAT8(2);
	item.pages = (BlockNumber) PG_GETARG_INT64(3);
	item.reason = get_reason(text_to_cstring(PG_GETARG_TEXT_PP(4)));
	item.horizon = (TransactionId) PG_GETARG_INT32(5);
	item.score.sweep = PG_GETARG_BOOL(12);
	item.score.vacuum = !item.score.sweep;
	item.score.analyze = PG_GETARG_BOOL(6);
	item.score.modified = item.score.analyze ? item.score.total / 10 : 0;
	item.score.wraparound = PG_GETARG_BOOL(7);
	item.score.mxid = PG_GETARG_FLOAT8(8);
	item.score.danger = PG_GETARG_BOOL(9);
	item.done_at = PG_GETARG_BOOL(10) ? pvt_queues.now : 0;
	item.score.dead = PG_GETARG_FLOAT8(11);
	item.score.inserted = PG_GETARG_FLOAT8(13);
	item.index_work = PG_GETARG_BOOL(14);
	full = pv_scan_offer(&pvt_queues, pvt_me, &item, full);
	pvt_queue_check();
	PG_RETURN_BOOL(full);
}

Datum
parvacuum_test_end_scan(PG_FUNCTION_ARGS)
{
	pvt_queue_be(PG_GETARG_INT32(0));
	if (PG_GETARG_BOOL(3))
		pvt_me->nothing = true;
	pvt_queue_end_scan(PG_GETARG_BOOL(1),
					   (int64) (PG_GETARG_FLOAT8(2) * USECS_PER_SEC));
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_pop(PG_FUNCTION_ARGS)
{
	int			worker = PG_GETARG_INT32(0);
	bool		found = pvt_queue_pop(worker, PG_GETARG_INT32(1));

	pvt_queue_check();
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_OID(pvt_workers[worker].item.key.relid);
}

Datum
parvacuum_test_put_back(PG_FUNCTION_ARGS)
{
	PvtWorker  *it = pvt_queue_be(PG_GETARG_INT32(0));
	PvRecheck	recheck;

	it->item.score.total = PG_GETARG_FLOAT8(1);
	it->item.pages = (BlockNumber) PG_GETARG_INT64(2);
	it->item.score.wraparound |= PG_GETARG_BOOL(3);
	recheck = pvt_queue_recheck(&it->item);
	canceled_itself |= recheck == PV_RECHECK_CANCEL;
	if (recheck == PV_RECHECK_PUT_BACK)
		pv_slots_put_back(&pvt_queues, pvt_me, &it->item);
	pvt_queue_check();
	PG_RETURN_BOOL(recheck == PV_RECHECK_PUT_BACK);
}

Datum
parvacuum_test_finish(PG_FUNCTION_ARGS)
{
	pvt_queue_be(PG_GETARG_INT32(0));
	pvt_queue_finish((PG_GETARG_BOOL(3) ? PV_DONE_VACUUM : 0) |
					 (PG_GETARG_BOOL(4) ? PV_DONE_ANALYZE : 0),
					 get_reason(text_to_cstring(PG_GETARG_TEXT_PP(1))),
					 (TransactionId) PG_GETARG_INT32(2));
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_should_leave(PG_FUNCTION_ARGS)
{
	pvt_queue_be(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(pv_slots_should_leave(&pvt_queues, pvt_me));
}

Datum
parvacuum_test_claim_update(PG_FUNCTION_ARGS)
{
	pvt_queue_be(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(pvt_queue_claim_update());
}

Datum
parvacuum_test_enqueue(PG_FUNCTION_ARGS)
{
	static const char *const results[] = {
		[PV_ENQUEUED] = "queued",
		[PV_ENQUEUED_BEFORE] = "before",
		[PV_ENQUEUED_HIGHER] = "higher",
		[PV_ENQUEUED_AGAIN] = "again",
		[PV_ENQUEUE_FULL] = "full",
		[PV_ENQUEUE_SHARE] = "share",
	};
	PvEnqueueResult result;

	result = pvt_queue_enqueue(PG_GETARG_OID(0), PG_GETARG_OID(1),
							   (BlockNumber) PG_GETARG_INT64(3),
							   PG_GETARG_FLOAT8(2), PG_GETARG_OID(4),
							   PG_GETARG_BOOL(5));
	pvt_queue_check();
	PG_RETURN_TEXT_P(cstring_to_text(results[result]));
}

/* What becomes of the request, and the process that gets SIGINT, or 0. */
Datum
parvacuum_test_withdraw(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {
		[PV_WITHDRAWN_NOTHING] = "nothing",
		[PV_WITHDRAWN_DONE] = "done",
		[PV_WITHDRAWN_REFUSED] = "refused",
	};
	PvWithdrawn result;
	int			canceled_pid;

	result = pvt_queue_withdraw(PG_GETARG_OID(0), PG_GETARG_OID(1),
								PG_GETARG_BOOL(2), &canceled_pid);
	pvt_queue_check();
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s, %d", names[result],
											  canceled_pid)));
}

/* By the PID of a worker. */
Datum
parvacuum_test_cancel(PG_FUNCTION_ARGS)
{
	PvWorkerSlot *slot = pv_slots_find_process(&pvt_queues,
											   PG_GETARG_INT32(0));

	pvt_check(slot == NULL || slot->pid == PG_GETARG_INT32(0));
	if (slot != NULL)
		pv_slots_note_cancel(&pvt_queues, slot);
	pvt_queue_check();
	PG_RETURN_BOOL(slot != NULL);
}

/* Has a worker found in its recheck that it was cancelled? */
Datum
parvacuum_test_is_canceled(PG_FUNCTION_ARGS)
{
	bool		canceled = canceled_itself;

	canceled_itself = false;
	PG_RETURN_BOOL(canceled);
}

Datum
parvacuum_test_request_scan(PG_FUNCTION_ARGS)
{
	(void) pv_view_request_scan(&pvt_queues, PG_GETARG_OID(0));
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_call_back(PG_FUNCTION_ARGS)
{
	pv_view_call_back(&pvt_queues, PG_GETARG_OID(0));
	pvt_queue_check();
	PG_RETURN_VOID();
}

/* As pv_queue_leave_place() does. */
Datum
parvacuum_test_leave_place(PG_FUNCTION_ARGS)
{
	pvt_queue_be(PG_GETARG_INT32(0));
	pvt_me->has_place = false;
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_drop_database(PG_FUNCTION_ARGS)
{
	pvt_queue_drop_database(PG_GETARG_OID(0));
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_items(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PvItem	   *items;
	int			nitems = pvt_queue_copy(&items);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < nitems; i++)
	{
		const PvItem *item = &items[i];
		bool		nulls[11] = {0};
		Datum		values[11];

		values[0] = ObjectIdGetDatum(item->key.database);
		values[1] = ObjectIdGetDatum(item->key.relid);
		values[2] = CStringGetTextDatum(state_names[item->state]);
		values[3] = CStringGetTextDatum(reason_names[item->reason]);
		values[4] = Float8GetDatum(item->score.total);
		values[5] = Float8GetDatum(item->priority);
		values[6] = Int32GetDatum(item->worker_pid);
		values[7] = Int64GetDatum((pvt_queues.now - item->state_since) /
								  USECS_PER_SEC);
		values[8] = BoolGetDatum(item->only_analyze);
		values[9] = BoolGetDatum(item->score.vacuum);
		values[10] = BoolGetDatum(item->score.analyze);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 values, nulls);
	}
	return (Datum) 0;
}

Datum
parvacuum_test_summaries(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PvQueueView view;

	pv_view_take(&pvt_queues, PG_GETARG_INT32(0), &view);
	pvt_queue_check();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < view.n; i++)
	{
		bool		nulls[9] = {0};
		Datum		values[9];

		values[0] = ObjectIdGetDatum(view.summaries[i].database);
		values[1] =
			Float8GetDatum(rint(view.summaries[i].top_score * 100) / 100);
		values[2] = Int32GetDatum(view.summaries[i].nqueued);
		values[3] = Int32GetDatum(view.summaries[i].nworkers);
		values[4] = Int32GetDatum(view.summaries[i].nmovable);
		values[5] = Int32GetDatum(view.summaries[i].nexpected);
		values[6] = BoolGetDatum(view.summaries[i].scan_pending);
		values[7] = Int32GetDatum(view.nworkers);
		values[8] = Int32GetDatum(view.nlarge);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 values, nulls);
	}
	return (Datum) 0;
}

Datum
parvacuum_test_rests(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PvQueueView view;

	pv_view_take(&pvt_queues, 1, &view);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < view.n; i++)
	{
		bool		nulls[2] = {0};
		Datum		values[2];

		values[0] = ObjectIdGetDatum(view.summaries[i].database);
		values[1] = Int64GetDatum((view.summaries[i].rests_until -
								   pvt_queues.now) / USECS_PER_SEC);
		nulls[1] = view.summaries[i].rests_until <= pvt_queues.now;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 values, nulls);
	}
	return (Datum) 0;
}
