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

/* NULL if the database is not known. */
PvPlanDatabase *
pv_databases_find(Oid oid)
{
	Database   *database = find_database(oid);

	return database ? &database->known : NULL;
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
		database->known.due = pv_now();
		database->known.hired_at = database->known.not_before = PV_NEVER;
		database->known.failed = false;
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

/* Removes the databases that are gone, here and from the queues. */
static void
forget_dropped(const PvQueueView *view)
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
	for (int i = 0; i < view->n; i++)
	{
		if (find_database(view->summaries[i].database) == NULL)
			pv_queue_drop_database(view->summaries[i].database);
	}
}

/*
 * A database that a failed DROP DATABASE has left invalid cannot be connected
 * to, so it is left out.
 */
static void
read_databases(const PvQueueView *view)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

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
	forget_dropped(view);
	CommitTransactionCommand();
	pgstat_report_activity(STATE_UNDEFINED, "");
	read_at = pv_now();
}

/*
 * Nothing is due later than one naptime from now, even if the naptime was
 * longer before; except for databases that rest, see pv_databases_let_rest().
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
		database->known.hired_at = Min(database->known.hired_at, latest);
		database->known.not_before = Min(database->known.not_before, latest);
	}
}

/* Has a database something queued that is newer than our list? */
static bool
knows_all_queues(const PvQueueView *view)
{
	for (int i = 0; i < view->n; i++)
	{
		if (view->summaries[i].nqueued > 0 &&
			find_database(view->summaries[i].database) == NULL)
			return false;
	}
	return true;
}

/* Reads pg_database if that is due. */
void
pv_databases_refresh(const PvQueueView *view, int naptime_ms)
{
	TimestampTz now = pv_now();

	bring_forward(TimestampTzPlusMilliseconds(now, naptime_ms));
	if (TimestampDifferenceExceeds(read_at, now, naptime_ms) ||
		!knows_all_queues(view))
		read_databases(view);
}


/* ----------------------------------------------------------------
 *		What happens to them
 * ----------------------------------------------------------------
 */

/* Where a scan takes long, the next one is due later. */
void
pv_databases_let_rest(const PvQueueView *view)
{
	for (int i = 0; i < view->n; i++)
	{
		const PvQueueSummary *summary = &view->summaries[i];
		Database   *database = find_database(summary->database);

		if (database != NULL)
			database->known.due = Max(database->known.due,
									  summary->rests_until);
	}
}

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

/* All databases, in the order of their OIDs, in a new array. */
const PvPlanDatabase *
pv_databases_list(int *n)
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
