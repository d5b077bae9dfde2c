/*-------------------------------------------------------------------------
 *
 * pvt_queue_sql.c
 *	  SQL functions on a queue: each is a step of the launcher, of a scheduler
 *	  worker or of a session.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "pvt_queue.h"

PG_FUNCTION_INFO_V1(parvacuum_test_queue);
PG_FUNCTION_INFO_V1(parvacuum_test_queue_wait);
PG_FUNCTION_INFO_V1(parvacuum_test_start);
PG_FUNCTION_INFO_V1(parvacuum_test_exit);
PG_FUNCTION_INFO_V1(parvacuum_test_begin_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_offer);
PG_FUNCTION_INFO_V1(parvacuum_test_end_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_take);
PG_FUNCTION_INFO_V1(parvacuum_test_recheck);
PG_FUNCTION_INFO_V1(parvacuum_test_finish);
PG_FUNCTION_INFO_V1(parvacuum_test_should_leave);
PG_FUNCTION_INFO_V1(parvacuum_test_enqueue);
PG_FUNCTION_INFO_V1(parvacuum_test_withdraw);
PG_FUNCTION_INFO_V1(parvacuum_test_items);
PG_FUNCTION_INFO_V1(parvacuum_test_owner_charge);

static const char *const reasons[] = {
	[PV_WAIT_NONE] = "none",
	[PV_WAIT_WINDOW] = "window",
	[PV_WAIT_LOCK] = "lock",
	[PV_WAIT_HORIZON] = "horizon",
	[PV_WAIT_CANCELED] = "canceled",
	[PV_WAIT_ERROR] = "error",
};

static PvWaitReason
reason_of(const char *name)
{
	for (size_t i = 0; i < lengthof(reasons); i++)
	{
		if (strcmp(reasons[i], name) == 0)
			return (PvWaitReason) i;
	}
	elog(ERROR, "there is no reason %s", name);
}

static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

Datum
parvacuum_test_queue(PG_FUNCTION_ARGS)
{
	pvt_queue_set_up(PG_GETARG_INT32(0), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

Datum
parvacuum_test_queue_wait(PG_FUNCTION_ARGS)
{
	pvt_queues.now += (int64) (PG_GETARG_FLOAT8(0) * USECS_PER_SEC);
	PG_RETURN_VOID();
}

/* The number of a worker's slot; -1 if there is none. */
Datum
parvacuum_test_start(PG_FUNCTION_ARGS)
{
	PvWorkerSlot *slot = pvt_queue_start(PG_GETARG_OID(0),
										 PG_GETARG_BOOL(1), PG_GETARG_BOOL(2));

	PG_RETURN_INT32(slot == NULL ? -1 : slot - pvt_queues.shared->slots);
}

Datum
parvacuum_test_exit(PG_FUNCTION_ARGS)
{
	pv_queue_remove_worker(&pvt_queues, pvt_queue_worker(PG_GETARG_INT32(0)));
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_begin_scan(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pv_queue_begin_scan(&pvt_queues,
									   pvt_queue_worker(PG_GETARG_INT32(0))));
}

Datum
parvacuum_test_offer(PG_FUNCTION_ARGS)
{
	PvWorkerSlot *slot = pvt_queue_worker(PG_GETARG_INT32(0));
	PvItem		item = {
		.key = {slot->queue->database, PG_GETARG_OID(1)},
		.owner = PG_GETARG_OID(2),
		.pages = (BlockNumber) PG_GETARG_INT64(4),
		.reason = reason_of(text_arg(fcinfo, 5))
	};
	bool		fits;

	item.score.total = PG_GETARG_FLOAT8(3);
	item.score.dead = item.score.total;
	item.score.vacuum = PG_GETARG_BOOL(6);
	item.score.analyze = PG_GETARG_BOOL(7);
	item.score.modified = item.score.analyze ? item.score.total : 0;
	item.score.xid = PG_GETARG_FLOAT8(8);
	item.score.danger = item.score.wraparound = item.score.xid > 1;
	item.tried = PG_GETARG_BOOL(9);
	fits = pv_queue_offer(&pvt_queues, slot, &item);
	pvt_queue_check();
	PG_RETURN_BOOL(fits);
}

Datum
parvacuum_test_end_scan(PG_FUNCTION_ARGS)
{
	bool		report =
		pvt_queue_end_scan(pvt_queue_worker(PG_GETARG_INT32(0)),
						   PG_GETARG_BOOL(1), 0);

	pvt_queue_check();
	PG_RETURN_BOOL(report);
}

/* The OID of the table that the worker has taken; 0 if there is none for it. */
Datum
parvacuum_test_take(PG_FUNCTION_ARGS)
{
	PvItem		item;
	bool		taken = pv_queue_take(&pvt_queues,
									  pvt_queue_worker(PG_GETARG_INT32(0)),
									  &item);

	pvt_queue_check();
	PG_RETURN_OID(taken ? item.key.relid : InvalidOid);
}

/*
 * The worker finds that its table has so many pages, and puts it back if it
 * has to.
 */
Datum
parvacuum_test_recheck(PG_FUNCTION_ARGS)
{
	PvWorkerSlot *slot = pvt_queue_worker(PG_GETARG_INT32(0));
	PvItem		item = slot->entry->item;
	bool		goes_on;

	item.pages = (BlockNumber) PG_GETARG_INT64(1);
	goes_on = pv_queue_recheck(&pvt_queues, slot, &item);
	if (!goes_on)
		pv_queue_put_back(&pvt_queues, slot);
	pvt_queue_check();
	PG_RETURN_BOOL(goes_on);
}

Datum
parvacuum_test_finish(PG_FUNCTION_ARGS)
{
	char	   *done = text_arg(fcinfo, 2);
	uint8		flags = 0;

	if (strstr(done, "vacuum") != NULL)
		flags |= PV_DONE_VACUUM;
	if (strstr(done, "analyze") != NULL)
		flags |= PV_DONE_ANALYZE;
	pv_queue_finish(&pvt_queues, pvt_queue_worker(PG_GETARG_INT32(0)), flags,
					reason_of(text_arg(fcinfo, 1)), PG_GETARG_INT32(3));
	pvt_queue_check();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_should_leave(PG_FUNCTION_ARGS)
{
	int			nworkers = pvt_queues.nworkers;
	bool		leaves;

	pvt_queues.nworkers = PG_GETARG_INT32(1);
	leaves = pv_queue_should_leave(&pvt_queues,
								   pvt_queue_worker(PG_GETARG_INT32(0)));
	pvt_queues.nworkers = nworkers;
	PG_RETURN_BOOL(leaves);
}

Datum
parvacuum_test_enqueue(PG_FUNCTION_ARGS)
{
	static const char *const results[] = {
		[PV_ENQUEUED] = "queued",
		[PV_ENQUEUED_BEFORE] = "before",
		[PV_ENQUEUED_AGAIN] = "again",
		[PV_ENQUEUE_FULL] = "full"
	};
	PvItem		item = {
		.key = {PG_GETARG_OID(0), PG_GETARG_OID(1)},
		.owner = PG_GETARG_OID(2),
		.pages = 1,
		.urgent = PG_GETARG_BOOL(3)
	};
	PvEnqueueResult result = pv_queue_request(&pvt_queues, &item);

	pvt_queue_check();
	PG_RETURN_TEXT_P(cstring_to_text(results[result]));
}

/* The last argument says that a vacuum to prevent wraparound may be withdrawn. */
Datum
parvacuum_test_withdraw(PG_FUNCTION_ARGS)
{
	static const char *const results[] = {
		[PV_WITHDRAWN_NOTHING] = "nothing",
		[PV_WITHDRAWN_DONE] = "done",
		[PV_WITHDRAWN_REFUSED] = "refused",
		[PV_WITHDRAWN_RUNNING] = "running"
	};
	PvWorkerSlot *slot;
	PvWithdrawn result = pv_queue_withdraw(&pvt_queues, PG_GETARG_OID(0),
										   PG_GETARG_OID(1), PG_GETARG_BOOL(2),
										   &slot);

	pvt_queue_check();
	PG_RETURN_TEXT_P(cstring_to_text(results[result]));
}

Datum
parvacuum_test_items(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"queued", "running", "waiting"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PvItem		items[PV_QUEUE_BATCH];
	int			place = 0;

	InitMaterializedSRF(fcinfo, 0);
	while (place < PV_QUEUE_SIZE)
	{
		int			nitems = pv_queue_copy_some(&pvt_queues, InvalidOid, &place,
												items);

		for (int i = 0; i < nitems; i++)
		{
			const PvItem *item = &items[i];
			Datum		values[9];
			bool		nulls[9] = {0};
			int			n = 0;

			values[n++] = ObjectIdGetDatum(item->key.database);
			values[n++] = ObjectIdGetDatum(item->key.relid);
			values[n++] = ObjectIdGetDatum(item->owner);
			values[n++] = CStringGetTextDatum(states[item->state]);
			values[n++] = CStringGetTextDatum(reasons[item->reason]);
			values[n++] = BoolGetDatum(item->requested);
			values[n++] = BoolGetDatum(item->score.vacuum);
			values[n++] = BoolGetDatum(item->score.analyze);
			values[n++] = Float8GetDatum((double) (pvt_queues.now -
												   item->state_since) /
										 USECS_PER_SEC);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
								 nulls);
		}
	}
	return (Datum) 0;
}

/* What is charged to an owner, in seconds. */
Datum
parvacuum_test_owner_charge(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(pv_queue_charge(&pvt_queues, PG_GETARG_OID(0)) /
					 USECS_PER_SEC);
}
