/*-------------------------------------------------------------------------
 *
 * pvt_simulate.c
 *	  The scheduler for some hours, with many databases and hostile owners.
 *
 * The queue, the policy and the launcher's plans are the real ones.  Simulated
 * are the clock, which advances by a second at a time, the tables and what
 * they need, the time that a vacuum takes, and the processes.  Nothing is
 * random, so each simulation gives the same result.
 *
 * There are two kinds of databases.  In a quiet one a few tables come to need
 * a vacuum at times, with the lowest score there is, and one comes to a
 * dangerous age.  In a hot one there are the same tables, and those of a
 * hostile owner: their threshold is 0 and their scores are huge, their own
 * freeze_max_age is the lowest, each needs a vacuum again as soon as it was
 * vacuumed, some always fail, some are large and take ten minutes, and each
 * minute the owner asks for all of them at the highest priority that he may
 * give.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"

#include "pvt_queue.h"
#include "sched/plan.h"
#include "sched/policy.h"

PG_FUNCTION_INFO_V1(parvacuum_test_simulate);

#define SECOND					INT64CONST(1000000)
#define NAPTIME					(60 * SECOND)
#define MAX_AGE					INT64CONST(200000000)

#define QUIET_TABLES			4	/* of each database; the first comes to a
									 * dangerous age */
#define HOT_TABLES				40
#define FAILING_TABLES			5	/* of them */
#define LARGE_TABLES			2	/* of them, others */

#define SMALL_TAKES				2	/* seconds */
#define LARGE_TAKES				600
#define ADVERSARY				20	/* his role */

typedef struct SimTable
{
	Oid			relid;
	bool		hot;
	bool		failing;
	BlockNumber pages;
	double		dead;
	int64		age;
	TimestampTz comes;			/* to need a vacuum, next */
	TimestampTz needed;			/* since then; 0: it does not */
	TimestampTz done;			/* last; 0: never */
} SimTable;

typedef struct SimDatabase
{
	Oid			oid;
	bool		hot;
	int			ntables;
	SimTable   *tables;
	TimestampTz due;
	TimestampTz hired_at;
} SimDatabase;

typedef struct SimWorker
{
	bool		there;
	SimDatabase *database;
	bool		busy;
	TimestampTz until;
	PvItem		item;
} SimWorker;

typedef struct Sim
{
	int			ndatabases;
	SimDatabase *databases;
	int			nworkers;
	TimestampTz begin;
	PvPlanDatabase *known;		/* to the launcher */
	SimWorker	workers[PV_MAX_SCHED_WORKERS];

	/* what comes of it; in microseconds */
	int64		begun;
	int64		danger;
	int64		quiet;
	int64		beside_hot;
	int64		out_of_order;
} Sim;

static TimestampTz
now(void)
{
	return pvt_queues.now;
}


/* ----------------------------------------------------------------
 *		Tables
 * ----------------------------------------------------------------
 */

static void
make_database(SimDatabase *database, int n, bool hot)
{
	database->oid = n + 1;
	database->hot = hot;
	database->ntables = QUIET_TABLES + (hot ? HOT_TABLES : 0);
	database->tables = palloc0(database->ntables * sizeof(SimTable));
	database->due = now() + n % 60 * SECOND;
	for (int i = 0; i < database->ntables; i++)
	{
		SimTable   *table = &database->tables[i];

		table->relid = 100 + i;
		table->hot = i >= QUIET_TABLES;
		table->failing = i >= database->ntables - FAILING_TABLES && table->hot;
		table->pages = 10;
		if (table->hot && i < QUIET_TABLES + LARGE_TABLES)
			table->pages = PV_LARGE_PAGES;
		if (!hot && i == 1 && n % 7 == 0)
			table->pages = PV_LARGE_PAGES;
		if (i == 0 && n % 5 == 0)
			table->pages = PV_LARGE_PAGES;	/* in danger, and large */
		table->comes = now();
		if (!table->hot)
			table->comes += (600 + (n * 37 + i * 1201) % 5000) * SECOND;
	}
}

/* What it needs now. */
static void
score_table(const SimTable *table, PvScore *score)
{
	PvTableState state = {
		.counted = true,
		.reltuples = 1000,
		.pages = table->pages,
		.dead = table->dead,
		.xid_age = table->age
	};
	PvThresholds thresholds = {
		.enabled = true,
		.vacuum_base = 50,
		.insert_base = -1,
		.vacuum_scale = 0.2,
		.analyze_base = 1e9,
		.freeze_max_age = MAX_AGE,
		.multixact_freeze_max_age = MAX_AGE,
		.failsafe_age = 8 * MAX_AGE,
		.multixact_failsafe_age = 8 * MAX_AGE,
		.danger_age = MAX_AGE,
		.multixact_danger_age = MAX_AGE
	};

	if (table->hot)
	{
		thresholds.vacuum_base = thresholds.vacuum_scale = 0;
		thresholds.freeze_max_age = 100000;
	}
	pv_score_table(&state, &thresholds, score);
}

/* Tables whose time has come need a vacuum. */
static void
change_tables(SimDatabase *database)
{
	for (int i = 0; i < database->ntables; i++)
	{
		SimTable   *table = &database->tables[i];

		if (table->needed != 0 || table->comes > now())
			continue;
		table->needed = now();
		if (table->hot)
		{
			table->dead = 1e9;
			table->age = 95000;
		}
		else if (i == 0)
			table->age = (int64) (MAX_AGE * (PV_AGE_SHARE + 0.01));
		else
			table->dead = 251;
	}
}

/* The hostile owner asks for all of his tables. */
static void
enqueue_all(SimDatabase *database)
{
	for (int i = QUIET_TABLES; i < database->ntables; i++)
		(void) pvt_queue_enqueue(database->oid, database->tables[i].relid,
								 database->tables[i].pages, PV_MOST_PRIORITY,
								 ADVERSARY, true);
}

static SimTable *
find_table(SimDatabase *database, Oid relid)
{
	return &database->tables[relid - 100];
}


/* ----------------------------------------------------------------
 *		A worker
 * ----------------------------------------------------------------
 */

static int
compare_items(const void *a, const void *b)
{
	const PvItem *x = a;
	const PvItem *y = b;

	if (x->score.danger != y->score.danger)
		return x->score.danger ? -1 : 1;
	if (x->score.total != y->score.total)
		return x->score.total < y->score.total ? 1 : -1;
	return x->key.relid < y->key.relid ? -1 : x->key.relid > y->key.relid;
}

static void
scan(SimDatabase *database)
{
	PvItem	   *items = palloc0(database->ntables * sizeof(PvItem));
	int			n = 0;
	bool		full = false;

	for (int i = 0; i < database->ntables; i++)
	{
		SimTable   *table = &database->tables[i];

		score_table(table, &items[n].score);
		items[n].key.database = database->oid;
		items[n].key.relid = table->relid;
		items[n].pages = table->pages;
		items[n].done_at = table->done;
		if (items[n].score.vacuum)
			n++;
	}
	qsort(items, n, sizeof(PvItem), compare_items);
	for (int i = 0; i < n; i++)
		full = pv_scan_offer(&pvt_queues, pvt_me, &items[i], full);
	pvt_queue_end_scan(!full, 50000);
	pfree(items);
}

/*
 * A table is begun: counts the queued tables of the same database that should
 * have been begun before it.  A large table may have to wait for a place.
 */
static void
check_order(Sim *sim, const PvItem *begun)
{
	PvItem	   *items;
	int			n = pvt_queue_copy(&items);

	for (int i = 0; i < n; i++)
	{
		const PvItem *other = &items[i];

		if (other->key.database != begun->key.database ||
			other->state != PV_ITEM_QUEUED ||
			(other->pages >= PV_LARGE_PAGES && begun->pages < PV_LARGE_PAGES))
			continue;
		if (other->score.danger && !other->not_completed)
			sim->out_of_order += !begun->score.danger || begun->not_completed;
		else if (!begun->score.danger)
			sim->out_of_order +=
				begun->needed_since - other->needed_since > PV_LONGEST_LEAD;
	}
	pfree(items);
}

static void
note_begin(Sim *sim, SimWorker *worker)
{
	SimTable   *table = find_table(worker->database, worker->item.key.relid);
	int64	   *longest = &sim->quiet;

	sim->begun++;
	if (table->hot)
		return;
	if (worker->item.score.danger)
		longest = &sim->danger;
	else if (worker->database->hot)
		longest = &sim->beside_hot;
	if (table->needed != 0)
		*longest = Max(*longest, now() - table->needed);
}

/* Takes a table, if there is one. */
static bool
begin_table(Sim *sim, SimWorker *worker)
{
	PvScore		score;
	SimTable   *table;

	if (!pv_slots_pop(&pvt_queues, pvt_me, pv_max_large(sim->nworkers),
					  &worker->item))
		return false;
	table = find_table(worker->database, worker->item.key.relid);
	score_table(table, &score);
	worker->item.score = score;
	if (worker->item.priority > 0)
		worker->item.score.vacuum = true;
	if (!worker->item.score.vacuum)
		pvt_queue_finish(0, PV_WAIT_NONE, InvalidTransactionId);
	else if (pvt_queue_recheck(&worker->item) == PV_RECHECK_PUT_BACK)
		pv_slots_put_back(&pvt_queues, pvt_me, &worker->item);
	else
	{
		check_order(sim, &worker->item);
		note_begin(sim, worker);
		worker->busy = true;
		worker->until = now() + (table->hot && table->pages >= PV_LARGE_PAGES ?
								 LARGE_TAKES : SMALL_TAKES) * SECOND;
	}
	return true;
}

static void
end_table(SimWorker *worker)
{
	SimTable   *table = find_table(worker->database, worker->item.key.relid);

	worker->busy = false;
	if (!table->failing)
	{
		table->needed = 0;
		table->done = now();
		table->dead = table->age = 0;
		table->comes = table->hot ? now() : now() + 7200 * SECOND;
	}
	pvt_queue_finish(table->failing ? 0 : PV_DONE_VACUUM,
					 table->failing ? PV_WAIT_ERROR : PV_WAIT_NONE,
					 InvalidTransactionId);
}

/*
 * What a worker does in a second: more than one table if they need nothing any
 * more.
 */
static void
run(Sim *sim, int n)
{
	SimWorker  *worker = &sim->workers[n];
	bool		leaves = false;

	if (!worker->there || (worker->busy && worker->until > now()))
		return;
	pvt_queue_be(n);
	if (worker->busy)
		end_table(worker);
	while (!worker->busy && !leaves)
	{
		leaves = pv_slots_should_leave(&pvt_queues, pvt_me);
		if (leaves)
			break;
		if (pv_scan_begin(&pvt_queues, pvt_me))
			scan(worker->database);
		else
			leaves = !begin_table(sim, worker);
	}
	if (leaves)
	{
		pvt_queue_leave(n);
		worker->there = false;
	}
}


/* ----------------------------------------------------------------
 *		The launcher, as launcher.c has it
 * ----------------------------------------------------------------
 */

static double
age_of(const SimDatabase *database)
{
	double		age = 0;

	for (int i = 0; i < database->ntables; i++)
	{
		if (!database->tables[i].hot)
			age = Max(age, database->tables[i].age / (PV_AGE_SHARE * MAX_AGE));
	}
	return age;
}

/* The OIDs of the databases are 1 and so on, so they are in order. */
static void
take_snapshot(const Sim *sim, PvSnapshot *snapshot, PvPlanDatabase *databases)
{
	snapshot->now = now();
	snapshot->naptime = NAPTIME;
	snapshot->nworkers = sim->nworkers;
	snapshot->no_process = false;
	pv_view_take(&pvt_queues, pv_max_large(sim->nworkers), &snapshot->view);
	for (int i = 0; i < sim->ndatabases; i++)
	{
		const SimDatabase *database = &sim->databases[i];

		databases[i].oid = database->oid;
		databases[i].counted = true;
		databases[i].age = age_of(database);
		databases[i].due = database->due;
		databases[i].hired_at = database->hired_at;
		databases[i].not_before = 0;
		databases[i].failed = false;
	}
	snapshot->databases = databases;
	snapshot->ndatabases = sim->ndatabases;
}

static bool
hire(Sim *sim, SimDatabase *database, bool to_scan, bool takes_queue)
{
	int			n = pvt_queue_hire(database->oid, to_scan, takes_queue);

	if (n < 0 || !pvt_queue_attach(n))
		return false;
	memset(&sim->workers[n], 0, sizeof(SimWorker));
	sim->workers[n].there = true;
	sim->workers[n].database = database;
	database->hired_at = now();
	if (to_scan)
		database->due = now() + NAPTIME;
	return true;
}

static bool
carry_out(Sim *sim, const PvAction *action)
{
	SimDatabase *database = &sim->databases[action->database - 1];

	switch (action->kind)
	{
		case PV_ACTION_LAUNCH:
			return hire(sim, database, action->to_scan, action->takes_queue);
		case PV_ACTION_ASK_TO_LEAVE:
			pv_view_call_back(&pvt_queues, database->oid);
			break;
		case PV_ACTION_REQUEST_SCAN:
			if (pv_view_request_scan(&pvt_queues, database->oid))
				database->due = now() + NAPTIME;
			break;
	}
	return true;
}

static void
launch(Sim *sim)
{
	PvSnapshot	snapshot;
	PvPlan		plan;

	take_snapshot(sim, &snapshot, sim->known);
	pv_plan(&snapshot, &plan);
	for (int i = 0; i < plan.n && carry_out(sim, &plan.actions[i]); i++)
		 /* until a worker finds no place */ ;
}


/* ----------------------------------------------------------------
 *		The simulation
 * ----------------------------------------------------------------
 */

/*
 * Tables that need a vacuum and have waited for longer than any that was
 * begun.
 */
static int
count_never_begun(const Sim *sim)
{
	int			n = 0;

	for (int i = 0; i < sim->ndatabases; i++)
	{
		SimDatabase *database = &sim->databases[i];

		for (int j = 0; j < QUIET_TABLES; j++)
		{
			SimTable   *table = &database->tables[j];
			int64		longest = j == 0 ? sim->danger :
				database->hot ? sim->beside_hot : sim->quiet;

			n += table->needed != 0 && now() - table->needed > longest;
		}
	}
	return n;
}

Datum
parvacuum_test_simulate(PG_FUNCTION_ARGS)
{
	Sim		   *sim = palloc0(sizeof(Sim));
	int			nhot = PG_GETARG_INT32(1);
	int64		seconds = PG_GETARG_INT32(3) * 3600;
	Datum		values[6];
	bool		nulls[6] = {0};
	TupleDesc	desc;

	sim->ndatabases = PG_GETARG_INT32(0);
	sim->nworkers = PG_GETARG_INT32(2);
	pvt_queue_set_up(PG_GETARG_INT32(4));
	sim->databases = palloc0(sim->ndatabases * sizeof(SimDatabase));
	sim->known = palloc(sim->ndatabases * sizeof(PvPlanDatabase));
	for (int i = 0; i < sim->ndatabases; i++)
		make_database(&sim->databases[i], i, i < nhot);

	for (int64 second = 0; second < seconds; second++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < sim->ndatabases; i++)
		{
			change_tables(&sim->databases[i]);
			if (sim->databases[i].hot && second % 60 == 0)
				enqueue_all(&sim->databases[i]);
		}
		launch(sim);
		for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
			run(sim, i);
		if (second % 3600 == 0)
			pvt_queue_check();
		pvt_queues.now += SECOND;
	}

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(sim->begun);
	values[1] = Int32GetDatum(sim->danger / SECOND);
	values[2] = Int32GetDatum(sim->quiet / SECOND);
	values[3] = Int32GetDatum(sim->beside_hot / SECOND);
	values[4] = Int32GetDatum(count_never_begun(sim));
	values[5] = Int32GetDatum(sim->out_of_order);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
