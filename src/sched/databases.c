/*-------------------------------------------------------------------------
 *
 * databases.c
 *	  The databases of the cluster, as the launcher knows them.
 *
 * The launcher reads pg_database once in a naptime, and when a database that
 * it does not know has something queued or a worker could not attach.  What it
 * remembers of each (when it is to be scanned next, when a worker was last
 * started) is in its own memory and is worked out again after a restart.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "utils/backend_status.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/compat.h"
#include "sched/databases.h"
#include "sched/queue.h"

typedef struct Database
{
	PvPlanDatabase known;		/* begins with the OID, which is the key */
	bool		present;		/* when pg_database was last read */
	int			nfailures;		/* workers that have not attached, one after
								 * the other */
} Database;

static HTAB *databases = NULL;

/* When pg_database was last read; PV_NEVER: it is to be read again */
static TimestampTz read_at = PV_NEVER;

void
pv_databases_init(void)
{
	HASHCTL		info = {
		.keysize = sizeof(Oid),
		.entrysize = sizeof(Database)
	};

	databases = hash_create("databases", 64, &info, HASH_ELEM | HASH_BLOBS);
}

static Database *
find_database(Oid oid)
{
	return hash_search(databases, &oid, HASH_FIND, NULL);
}

/* When the database is to be scanned next. */
void
pv_databases_set_due(Oid oid, TimestampTz due)
{
	Database   *database = find_database(oid);

	if (database != NULL)
		database->known.due = due;
}

/* A worker was started for the database. */
void
pv_databases_note_start(Oid oid, TimestampTz now)
{
	Database   *database = find_database(oid);

	if (database != NULL)
		database->known.started_at = now;
}


/* ----------------------------------------------------------------
 *		Reading pg_database
 * ----------------------------------------------------------------
 */

static void
note_database(Form_pg_database form)
{
	bool		found;
	Database   *database = hash_search(databases, &form->oid, HASH_ENTER,
									   &found);

	if (!found)
	{
		memset(&database->known.age, 0, sizeof(PvPlanDatabase) -
			   offsetof(PvPlanDatabase, age));
		database->known.due = pv_now();
		database->nfailures = 0;
	}
	database->present = true;
	database->known.counted = pgstat_fetch_stat_dbentry(form->oid) != NULL;
	database->known.age =
		Max(pv_age_of_database(form->datfrozenxid, ReadNextTransactionId(),
							   autovacuum_freeze_max_age),
			pv_age_of_database(form->datminmxid, ReadNextMultiXactId(),
							   MultiXactMemberFreezeThreshold()));
}

/* Databases that have a queue */
typedef struct Queued
{
	Oid			oid[PV_MAX_QUEUES];
	int			n;
} Queued;

static void
find_queued(Queued *queued)
{
	const PvQueues *queues = pv_queue_lock(LW_SHARED);

	queued->n = 0;
	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		if (OidIsValid(queues->shared->queues[i].database))
			queued->oid[queued->n++] = queues->shared->queues[i].database;
	}
	pv_queue_unlock();
}

/* Removes what is queued for a database that was dropped, batch by batch. */
static void
drop_queue(Oid oid)
{
	bool		any = true;

	while (any)
	{
		PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
		PvDatabaseQueue *queue = pv_queue_find(queues, oid);

		any = queue != NULL && pv_queue_empty_some(queues, queue);
		if (queue != NULL)
		{
			queue->scan_requested = queue->incomplete = false;
			queue->scanned_at = PV_NEVER;
			pv_queue_release(queues, queue);
		}
		pv_queue_unlock();
	}
}

/*
 * Removes the databases that are gone, here and from the queue, if they had
 * something there before pg_database was read.
 */
static void
forget_dropped(const Queued *queued)
{
	HASH_SEQ_STATUS status;
	Database   *database;

	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
	{
		if (!database->present)
			(void) hash_search(databases, &database->known.oid,
							   HASH_REMOVE, NULL);
		else
			database->present = false;
	}
	for (int i = 0; i < queued->n; i++)
	{
		if (find_database(queued->oid[i]) == NULL)
			drop_queue(queued->oid[i]);
	}
}

/*
 * A database that a failed DROP DATABASE has left invalid cannot be connected
 * to, so it is left out.
 */
static void
read_databases(void)
{
	Queued		queued;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	find_queued(&queued);
	pgstat_report_activity(STATE_RUNNING,
						   "autovacuum: reading pg_database (parvacuum)");
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (!database_is_invalid_form(form))
			note_database(form);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	forget_dropped(&queued);
	CommitTransactionCommand();
	pgstat_report_activity(STATE_UNDEFINED, "");
	read_at = pv_now();
}

/*
 * Nothing is due later than one naptime from now, even if the naptime was
 * longer before; except for databases that rest, see add_queue().
 */
static void
bring_forward(TimestampTz latest)
{
	HASH_SEQ_STATUS status;
	Database   *database;

	read_at = Min(read_at, latest);
	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
	{
		database->known.due = Min(database->known.due, latest);
		database->known.not_before = Min(database->known.not_before, latest);
		database->known.started_at = Min(database->known.started_at, latest);
	}
}

/* ----------------------------------------------------------------
 *		What happens to them
 * ----------------------------------------------------------------
 */

/*
 * Another worker is not started at once, and pg_database is read again,
 * because the database may be gone.
 */
void
pv_databases_note_failure(Oid oid)
{
	Database   *database = find_database(oid);

	if (database != NULL)
	{
		int			delay_ms = pv_start_again_after(database->nfailures);

		database->known.failed = true;
		database->known.not_before =
			TimestampTzPlusMilliseconds(pv_now(), delay_ms);
		database->known.due = database->known.not_before;
		database->nfailures++;
	}
	read_at = PV_NEVER;
}

void
pv_databases_note_success(Oid oid)
{
	Database   *database = find_database(oid);

	if (database != NULL)
	{
		database->nfailures = 0;
		database->known.failed = false;
	}
}

static int
compare_oids(const void *a, const void *b)
{
	Oid			left = ((const PvPlanDatabase *) a)->oid;
	Oid			right = ((const PvPlanDatabase *) b)->oid;

	return left == right ? 0 : left < right ? -1 : 1;
}

/*
 * Adds what the queue says of a database.  Where a scan takes long, the next
 * one is due later.
 */
static void
add_queue(const PvQueues *queues, const PvDatabaseQueue *queue,
		  PvPlanDatabase *database)
{
	pv_queue_describe(queues, queue, database);
	database->due = Max(database->due, pv_queue_rests_until(queues, queue));
	pv_databases_set_due(database->oid, database->due);
}

/*
 * Adds what the queue says of all databases in the list.  Returns false if
 * there is a database with tables in the queue that is not in the list.
 */
static bool
add_queues(PvPlanDatabase *list, int n)
{
	const PvQueues *queues = pv_queue_lock(LW_SHARED);
	const PvQueueShared *shared = queues->shared;
	bool		complete = true;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		const PvDatabaseQueue *queue = &shared->queues[i];
		PvPlanDatabase key = {.oid = queue->database};
		PvPlanDatabase *database = bsearch(&key, list, n,
										   sizeof(PvPlanDatabase),
										   compare_oids);

		if (database != NULL)
			add_queue(queues, queue, database);
		else if (OidIsValid(queue->database) && queue->nqueued > 0)
			complete = false;
	}
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		const PvWorkerSlot *slot = &shared->slots[i];
		PvPlanDatabase key = {.oid = shared->queues[slot->queue].database};
		PvPlanDatabase *database = slot->used && slot->pid == 0 ?
			bsearch(&key, list, n, sizeof(PvPlanDatabase), compare_oids) :
			NULL;

		if (database != NULL)
			database->expected = true;
	}
	pv_queue_unlock();
	return complete;
}

static PvPlanDatabase *
copy_known(int *n)
{
	PvPlanDatabase *list = palloc(Max(hash_get_num_entries(databases), 1) *
								  sizeof(PvPlanDatabase));
	HASH_SEQ_STATUS status;
	Database   *database;

	*n = 0;
	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
		list[(*n)++] = database->known;
	qsort(list, *n, sizeof(PvPlanDatabase), compare_oids);
	return list;
}

/*
 * All databases as they are now, in the order of their OIDs, in a new array.
 * Reads pg_database if that is due, or if one has something queued that is
 * newer than our list.
 */
PvPlanDatabase *
pv_databases_list(int naptime_ms, int *n)
{
	TimestampTz now = pv_now();
	PvPlanDatabase *list;

	bring_forward(TimestampTzPlusMilliseconds(now, naptime_ms));
	if (TimestampDifferenceExceeds(read_at, now, naptime_ms))
		read_databases();
	list = copy_known(n);
	if (!add_queues(list, *n))
	{
		pfree(list);
		read_databases();
		list = copy_known(n);
		(void) add_queues(list, *n);
	}
	return list;
}
