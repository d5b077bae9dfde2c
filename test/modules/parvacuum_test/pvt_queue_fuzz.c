/*-------------------------------------------------------------------------
 *
 * pvt_queue_fuzz.c
 *	  Random steps on a queue, with checks after each.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "pvt_queue.h"

PG_FUNCTION_INFO_V1(parvacuum_test_queue_fuzz);

static pg_prng_state prng;

#define FUZZ_DATABASES		4
#define FUZZ_TABLES			30

static int
up_to(int n)
{
	return (int) pg_prng_uint64_range(&prng, 0, n);
}

static BlockNumber
random_pages(void)
{
	return up_to(3) == 0 ? PV_LARGE_PAGES + up_to(5) : up_to(100);
}

/*
 * A worker that is hired, and attached or not as wanted; -1 if there is none.
 */
static int
random_worker(bool attached)
{
	int			first = up_to(PV_MAX_SCHED_WORKERS - 1);

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		int			worker = (first + i) % PV_MAX_SCHED_WORKERS;

		if (pvt_queues.shared->slots[worker].hired &&
			pvt_workers[worker].attached == attached)
			return worker;
	}
	return -1;
}

static bool
has_slot(void)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		if (!pvt_queues.shared->slots[i].hired)
			return true;
	}
	return false;
}

/* A scan of a few tables, the best first; not always to its end. */
static void
fuzz_scan(int worker)
{
	bool		full = false;
	double		score = 10;

	pvt_queue_be(worker);
	if (pvt_me->busy || !pv_scan_begin(&pvt_queues, pvt_me))
		return;
	for (Oid relid = 1 + up_to(3); relid <= FUZZ_TABLES && !full;
		 relid += 1 + up_to(3))
	{
		Oid			database =
			pvt_queues.shared->queues[pvt_me->queue].database;
		PvItem		item = {.key = {database, relid}};

		score -= up_to(1) * 0.25;
		item.score.total = score;
		item.score.vacuum = true;
		item.score.analyze = up_to(2) == 0;
		item.score.wraparound = up_to(9) == 0;
		item.score.danger = item.score.wraparound && up_to(1) == 0;
		item.done_at = up_to(5) == 0 ? pvt_queues.now : 0;
		item.pages = random_pages();
		item.reason = up_to(5) == 0 ? PV_WAIT_WINDOW : PV_WAIT_NONE;
		item.horizon = 100 + up_to(1);
		item.score.inserted = up_to(3) == 0 ? score : 0;
		item.index_work = up_to(3) == 0;
		full = pv_scan_offer(&pvt_queues, pvt_me, &item, full);
		pvt_queue_check();
	}
	if (up_to(9) == 0)
		pvt_queue_leave(worker);
	else
		pvt_queue_end_scan(!full, up_to(3) * USECS_PER_SEC);
}

/*
 * One table, or a step of what is done with it.  A table that was just taken
 * is still the first, so that a worker whose recheck finds it unchanged does
 * not put it back, over and over.
 */
static void
fuzz_table(int worker, int max_large)
{
	PvtWorker  *it = pvt_queue_be(worker);

	if (!pvt_me->busy)
	{
		if (pvt_queue_pop(worker, max_large) && up_to(1) == 0)
		{
			PvItem		same = it->item;

			pvt_check(pvt_queue_recheck(&same) == PV_RECHECK_GO_ON);
		}
	}
	else if (up_to(3) == 0)
	{
		it->item.pages = random_pages();
		it->item.score.total = Max(up_to(40) / 4.0, it->item.priority);
		if (pvt_queue_recheck(&it->item) == PV_RECHECK_PUT_BACK)
			pv_slots_put_back(&pvt_queues, pvt_me, &it->item);
	}
	else
		pvt_queue_finish(up_to(3), up_to(1) ? PV_WAIT_NONE :
						 PV_WAIT_LOCK + up_to(3), 100 + up_to(1));
}

/* A step of the launcher or of a session. */
static void
fuzz_others(void)
{
	PvQueueView view;
	Oid			database = 1 + up_to(FUZZ_DATABASES - 1);
	Oid			relid = 1 + up_to(FUZZ_TABLES - 1);
	int			worker;
	int			canceled_pid;
	bool		has_queue,
				has_place,
				takes;

	switch (up_to(9))
	{
		case 0:
		case 1:
			pv_view_take(&pvt_queues, up_to(3), &view);
			has_queue = pv_entries_find_queue(&pvt_queues, database) != NULL;
			has_place = has_slot();
			takes = up_to(3) == 0;
			worker = pvt_queue_hire(database, up_to(1), takes);
			pvt_check((worker >= 0) == (has_place &&
										(has_queue || !view.full ||
										 (takes && !view.none_to_take))));
			break;
		case 2:
			worker = random_worker(false);
			if (worker >= 0 && up_to(3) == 0)
				pv_slots_dismiss(&pvt_queues, worker,
								 pvt_workers[worker].token);
			else if (worker >= 0)
				pvt_check(pvt_queue_attach(worker));
			break;
		case 3:
			(void) pv_view_request_scan(&pvt_queues, database);
			break;
		case 4:
			pv_view_call_back(&pvt_queues, database);
			break;
		case 5:
			if (up_to(9) == 0)
				pvt_queue_drop_database(database);
			break;
		case 6:
			(void) pvt_queue_enqueue(database, relid, random_pages(),
									 1 + up_to(20), 10 + up_to(3), up_to(1));
			break;
		case 7:
			(void) pvt_queue_withdraw(database, relid, up_to(1),
									  &canceled_pid);
			break;
		case 8:
			if (up_to(9) == 0)
				pv_slots_dismiss_all_pending(&pvt_queues);
			pv_view_take(&pvt_queues, up_to(3), &view);
			pvt_check(view.nlarge <= view.nworkers);
			break;
		case 9:
			pvt_queues.now += up_to(10) * USECS_PER_SEC;
			break;
	}
}

/*
 * Works a database's queue off, as far as its worker may: the last place for a
 * large table can be kept for another database.
 */
static void
fuzz_work_off(Oid database)
{
	int			steps = 0;
	int			worker = pvt_queue_hire(database, true, false);

	if (worker < 0)
	{
		pvt_check(pv_entries_find_queue(&pvt_queues, database) == NULL &&
				  pv_scan_free_queue(&pvt_queues, false) == NULL);
		return;
	}
	pvt_check(pvt_queue_attach(worker));
	pvt_queue_be(worker);
	pvt_check(pv_scan_begin(&pvt_queues, pvt_me));
	pvt_queue_end_scan(true, 0);
	while (pvt_queue_pop(worker, 1))
	{
		pvt_queue_finish(PV_DONE_VACUUM, PV_WAIT_NONE, 0);
		pvt_check(++steps <= FUZZ_TABLES);
	}
	pvt_check(!pv_scan_begin(&pvt_queues, pvt_me));
	pvt_queue_leave(worker);
}

/*
 * All workers exit, those at a table too, and the launcher.  What is left can
 * be worked off by others, and then the queues are free.
 */
static void
fuzz_end(void)
{
	PvQueueView view;
	int			worker;

	while ((worker = random_worker(true)) >= 0)
		pvt_queue_leave(worker);
	pv_slots_dismiss_all_pending(&pvt_queues);
	pv_view_take(&pvt_queues, 1, &view);
	pvt_queue_check();
	pvt_check(view.nworkers == 0 && view.nlarge == 0);
	for (int round = 0; round < FUZZ_DATABASES; round++)
	{
		for (Oid database = 1; database <= FUZZ_DATABASES; database++)
			fuzz_work_off(database);
	}
	pvt_queue_check();
	pv_view_take(&pvt_queues, 1, &view);
	pvt_check(pvt_queues.shared->nentries == 0 && view.n == 0);
}

/*
 * A number of random steps with a limit on the queue's size, and checks after
 * each.  They follow from the seed.
 */
Datum
parvacuum_test_queue_fuzz(PG_FUNCTION_ARGS)
{
	int			steps = PG_GETARG_INT32(0);
	int			npopped = 0;

	pg_prng_seed(&prng, PG_GETARG_INT64(1));
	pvt_queue_set_up(PG_GETARG_INT32(2));
	for (int i = 0; i < steps; i++)
	{
		int			worker = random_worker(true);

		CHECK_FOR_INTERRUPTS();
		if (worker < 0 || up_to(1) == 0)
			fuzz_others();
		else if (up_to(30) == 0)
			pvt_queue_leave(worker);
		else if (up_to(3) == 0)
			fuzz_scan(worker);
		else
		{
			fuzz_table(worker, up_to(3));
			npopped++;
		}
		pvt_queue_check();
	}
	fuzz_end();
	PG_RETURN_INT32(npopped);
}
