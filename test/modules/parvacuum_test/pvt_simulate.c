/*-------------------------------------------------------------------------
 *
 * pvt_simulate.c
 *	  The scheduler for some hours, with many databases and hostile owners.
 *
 * The queue and the policy are the real ones.  Simulated
 * are the clock, which advances by a second at a time, the tables and what
 * they need, the time that a vacuum takes, and the processes.  Nothing is
 * random, so each simulation gives the same result.
 *
 * There are two kinds of databases.  In a quiet one a few tables of its owner
 * come to need a vacuum at times, with the lowest score there is, and one
 * comes to a dangerous age.  In a hot one there are the same tables, and those
 * of a hostile owner, who has tables in all hot databases: their threshold is
 * 0 and their scores are huge, their own freeze_max_age is the lowest, each
 * needs a vacuum again as soon as it was vacuumed, some always fail, some are
 * large and take ten minutes, the others take ten seconds, and each minute the
 * owner requests all of them.
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
#include "sched/policy.h"

PG_FUNCTION_INFO_V1(parvacuum_test_simulate);

#define SECOND					INT64CONST(1000000)
#define MAX_AGE					INT64CONST(200000000)

#define QUIET_TABLES			4	/* of each database; the first comes to a
									 * dangerous age */
#define HOT_TABLES				40
#define FAILING_TABLES			5	/* of them */
#define LARGE_TABLES			2	/* of them, others */

#define SMALL_TAKES				2	/* seconds */
#define HOT_TAKES				10
#define LARGE_TAKES				600
#define ADVERSARY				20	/* his role */
#define FIRST_OWNER				100 /* of a quiet table; one for each database */

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
	TimestampTz due;			/* for the first time */
} SimDatabase;

typedef struct SimWorker
{
	bool		there;
	SimDatabase *database;
	PvWorkerSlot *slot;
	TimestampTz until;
	PvItem		item;
} SimWorker;

typedef struct Sim
{
	int			ndatabases;
	SimDatabase *databases;
	int			nworkers;
	int			nscans;
	TimestampTz begin;
	PvDatabase *known;			/* to the launcher */
	SimWorker	workers[PV_MAX_SCHED_WORKERS];

	/* what comes of it; in microseconds */
	int64		begun;
	int64		danger;
	int64		quiet;
	int64		beside_hot;
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
	{
		PvItem		item = {
			.key = {database->oid, database->tables[i].relid},
			.owner = ADVERSARY,
			.pages = database->tables[i].pages
		};

		(void) pv_queue_request(&pvt_queues, &item);
	}
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
	if (x->done_at != y->done_at)
		return x->done_at < y->done_at ? -1 : 1;
	return x->key.relid < y->key.relid ? -1 : x->key.relid > y->key.relid;
}

static void
scan(SimWorker *worker)
{
	SimDatabase *database = worker->database;
	PvItem	   *items = palloc0(database->ntables * sizeof(PvItem));
	int			n = 0;
	bool		complete = true;

	for (int i = 0; i < database->ntables; i++)
	{
		SimTable   *table = &database->tables[i];

		score_table(table, &items[n].score);
		items[n].key.database = database->oid;
		items[n].key.relid = table->relid;
		items[n].owner = table->hot ? ADVERSARY : FIRST_OWNER + database->oid;
		items[n].pages = table->pages;
		items[n].done_at = table->done;
		if (items[n].score.vacuum)
			n++;
	}
	qsort(items, n, sizeof(PvItem), compare_items);
	for (int i = 0; i < n; i++)
		complete &= pv_queue_offer(&pvt_queues, worker->slot, &items[i]);
	(void) pvt_queue_end_scan(worker->slot, complete, 50000);
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

	if (!pv_queue_take(&pvt_queues, worker->slot, &worker->item))
		return false;
	table = find_table(worker->database, worker->item.key.relid);
	score_table(table, &score);
	worker->item.score = score;
	if (worker->item.requested)
		worker->item.score.vacuum = true;
	if (!worker->item.score.vacuum)
		pv_queue_finish(&pvt_queues, worker->slot, 0, PV_WAIT_NONE,
						InvalidTransactionId);
	else if (!pv_queue_recheck(&pvt_queues, worker->slot, &worker->item))
		pv_queue_put_back(&pvt_queues, worker->slot);
	else
	{
		int			takes = !table->hot ? SMALL_TAKES :
			table->pages >= PV_LARGE_PAGES ? LARGE_TAKES : HOT_TAKES;

		note_begin(sim, worker);
		worker->until = now() + takes * SECOND;
	}
	return true;
}

static void
end_table(SimWorker *worker)
{
	SimTable   *table = find_table(worker->database, worker->item.key.relid);

	if (!table->failing)
	{
		table->needed = 0;
		table->done = now();
		table->dead = table->age = 0;
		table->comes = table->hot ? now() : now() + 7200 * SECOND;
	}
	pv_queue_finish(&pvt_queues, worker->slot,
					table->failing ? 0 : PV_DONE_VACUUM,
					table->failing ? PV_WAIT_ERROR : PV_WAIT_NONE,
					InvalidTransactionId);
}

/*
 * What a worker does in a second: more than one table if they need nothing any
 * more.
 */
static void
run(Sim *sim, SimWorker *worker)
{
	bool		leaves = false;

	if (!worker->there || (worker->slot->entry != NULL && worker->until > now()))
		return;
	if (worker->slot->entry != NULL)
		end_table(worker);
	while (worker->slot->entry == NULL && !leaves)
	{
		leaves = pv_queue_should_leave(&pvt_queues, worker->slot);
		if (leaves)
			break;
		if (pv_queue_begin_scan(&pvt_queues, worker->slot))
			scan(worker);
		else
			leaves = !begin_table(sim, worker);
	}
	if (leaves)
	{
		pv_queue_remove_worker(&pvt_queues, worker->slot);
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
describe_databases(const Sim *sim, PvDatabases *all)
{
	pv_queue_count_free(&pvt_queues, all);
	for (int i = 0; i < sim->ndatabases; i++)
	{
		const SimDatabase *database = &sim->databases[i];
		const PvDatabaseQueue *queue = pv_queue_find(&pvt_queues,
													 database->oid);
		PvDatabase *known = &sim->known[i];

		memset(known, 0, sizeof(*known));
		known->oid = database->oid;
		known->counted = true;
		known->age = age_of(database);
		known->due = database->due;
		if (queue != NULL)
			pv_queue_describe(&pvt_queues, queue, known);
	}
	all->list = sim->known;
	all->n = sim->ndatabases;
}

static void
start(Sim *sim, SimDatabase *database, bool to_scan, bool large)
{
	PvWorkerSlot *slot = pvt_queue_start(database->oid, to_scan, large);
	SimWorker  *worker;

	if (slot == NULL)
		return;
	worker = &sim->workers[slot - pvt_queues.shared->slots];
	memset(worker, 0, sizeof(SimWorker));
	worker->there = true;
	worker->slot = slot;
	worker->database = database;
}

static void
launch(Sim *sim)
{
	PvDatabases all = {.nscans = sim->nscans};
	PvNextWorker next;

	describe_databases(sim, &all);
	while (pv_next_worker(&all, &next))
		start(sim, &sim->databases[next.database - all.list], next.to_scan,
			  next.large);
	sim->nscans = all.nscans;
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
	Datum		values[5];
	bool		nulls[5] = {0};
	TupleDesc	desc;

	sim->ndatabases = PG_GETARG_INT32(0);
	sim->nworkers = PG_GETARG_INT32(2);
	pvt_queue_set_up(PG_GETARG_INT32(4), sim->nworkers);
	sim->databases = palloc0(sim->ndatabases * sizeof(SimDatabase));
	sim->known = palloc(sim->ndatabases * sizeof(PvDatabase));
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
			run(sim, &sim->workers[i]);
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
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
