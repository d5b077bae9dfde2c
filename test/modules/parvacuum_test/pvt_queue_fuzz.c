/*-------------------------------------------------------------------------
 *
 * pvt_queue_fuzz.c
 *	  Random steps on a queue, after each of which everything is checked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "pvt_queue.h"

PG_FUNCTION_INFO_V1(parvacuum_test_queue_fuzz);

#define DATABASES				4
#define OWNERS					5
#define TABLES					40	/* of each database */
#define WORKERS					6

static pg_prng_state prng;

static int
up_to(int n)
{
	return (int) pg_prng_uint64_range(&prng, 0, n);
}

static bool
one_in(int n)
{
	return up_to(n - 1) == 0;
}

static Oid
random_database(void)
{
	return 1 + up_to(DATABASES - 1);
}

static void
random_item(PvItem *item, Oid database, Oid relid)
{
	memset(item, 0, sizeof(*item));
	item->key.database = database;
	item->key.relid = relid;
	item->owner = 10 + (one_in(20) ? up_to(OWNERS - 1) : (int) relid % OWNERS);
	item->pages = one_in(4) ? PV_LARGE_PAGES + up_to(5) : up_to(100);
	item->score.total = item->score.dead = 1 + up_to(10);
	item->score.vacuum = !one_in(4);
	item->score.analyze = !item->score.vacuum || one_in(3);
	if (item->score.vacuum && one_in(10))
	{
		item->score.xid = 1 + up_to(100) / 100.0;
		item->score.wraparound = item->score.danger = item->score.xid > 1;
	}
}

static PvWorkerSlot *
random_worker(void)
{
	int			first = up_to(PV_MAX_SCHED_WORKERS - 1);

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		PvWorkerSlot *slot =
			&pvt_queues.shared->slots[(first + i) % PV_MAX_SCHED_WORKERS];

		if (slot->used)
			return slot;
	}
	return NULL;
}

static int
count_workers(void)
{
	int			n = 0;

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
		n += pvt_queues.shared->slots[i].used;
	return n;
}

/* A scan of a few tables, not always to its end. */
static void
scan(PvWorkerSlot *slot)
{
	bool		complete = true;

	if (one_in(2))
		slot->queue->begun_at = slot->queue->scanned_at = PV_NEVER;
	if (slot->entry != NULL || !pv_queue_begin_scan(&pvt_queues, slot))
		return;
	for (Oid relid = 1 + up_to(3); relid <= TABLES; relid += 1 + up_to(3))
	{
		PvItem		item;

		random_item(&item, slot->queue->database, relid);
		item.reason = one_in(6) ? PV_WAIT_WINDOW : PV_WAIT_NONE;
		complete &= pv_queue_offer(&pvt_queues, slot, &item);
	}
	if (one_in(10))
		pv_queue_remove_worker(&pvt_queues, slot);
	else
		(void) pvt_queue_end_scan(slot, complete, up_to(3) * USECS_PER_SEC);
}

/* A worker takes a table, finds it changed, or ends with it. */
static void
work(PvWorkerSlot *slot)
{
	PvItem		item;

	if (slot->entry == NULL)
		(void) pv_queue_take(&pvt_queues, slot, &item);
	else if (one_in(3))
	{
		random_item(&item, slot->entry->item.key.database, slot->entry->item.key.relid);
		if (!pv_queue_recheck(&pvt_queues, slot, &item))
			pv_queue_put_back(&pvt_queues, slot);
	}
	else if (one_in(3))
		slot->large = false;
	else
		pv_queue_finish(&pvt_queues, slot, up_to(3), up_to(PV_WAIT_ERROR),
						100 + up_to(1));
}

static void
request(void)
{
	PvItem		item;

	random_item(&item, random_database(), 1 + up_to(TABLES - 1));
	item.score = (PvScore)
	{
		0
	};
	item.urgent = one_in(5);
	(void) pv_queue_request(&pvt_queues, &item);
}

static void
step(void)
{
	PvWorkerSlot *slot = random_worker();
	PvWorkerSlot *running;

	pvt_queues.now += up_to(20) * USECS_PER_SEC;
	switch (up_to(9))
	{
		case 0:
			if (count_workers() < WORKERS)
				(void) pvt_queue_start(random_database(), one_in(2),
									   one_in(2));
			break;
		case 1:
			if (slot != NULL && one_in(3))
				pv_queue_remove_worker(&pvt_queues, slot);
			break;
		case 2:
			(void) pv_queue_withdraw(&pvt_queues, random_database(),
									 1 + up_to(TABLES - 1), one_in(2),
									 &running);
			break;
		case 3:
			request();
			break;
		case 4:
			if (slot != NULL)
				scan(slot);
			break;
		default:
			if (slot != NULL)
				work(slot);
			break;
	}
}

/* The arguments are the number of steps, a seed, and the places of the queue. */
Datum
parvacuum_test_queue_fuzz(PG_FUNCTION_ARGS)
{
	int			steps = PG_GETARG_INT32(0);
	int			taken = 0;

	pg_prng_seed(&prng, PG_GETARG_INT64(1));
	pvt_queue_set_up(PG_GETARG_INT32(2), WORKERS / 2);
	for (int i = 0; i < steps; i++)
	{
		CHECK_FOR_INTERRUPTS();
		step();
		pvt_queue_check();
		for (int j = 0; j < PV_MAX_SCHED_WORKERS; j++)
			taken += pvt_queues.shared->slots[j].entry != NULL;
	}
	PG_RETURN_INT32(taken);
}
