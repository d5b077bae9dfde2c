/*-------------------------------------------------------------------------
 *
 * table_log.c
 *	  What the scheduler logs about one table.
 *
 * The scheduler's work is in the log as autovacuum's is, and under the same
 * settings and storage parameters, log_autovacuum_min_duration and in PG 19
 * log_autoanalyze_min_duration.  Core's code logs nothing of its work in a
 * background worker, so that we do:
 *
 *		VACUUM by the engine	engine/report.c
 *		VACUUM by core			entry/dispatch.c
 *		ANALYZE					here
 *		a table is locked		here
 *		errors					sched/worker.c adds the table
 *
 * Every message names database, schema and table.  Scheduler workers run this,
 * within a transaction.
 *
 * Core: commands/analyze.c, do_analyze_rel; postmaster/autovacuum.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "entry/effective_options.h"
#include "sched/table_log.h"

/*
 * The name of this worker's database.  It does not change as long as the worker
 * is connected to it.
 */
static char *database = NULL;

/*
 * To be called once, outside of a transaction: looks the name up, and logs
 * that this worker begins, at the level at which autovacuum does.
 */
void
pv_log_begin(void)
{
	StartTransactionCommand();
	database = MemoryContextStrdup(TopMemoryContext,
								   get_database_name(MyDatabaseId));
	ereport(DEBUG1,
			(errmsg_internal("parvacuum: processing database \"%s\"",
							 database)));
	CommitTransactionCommand();
}

const char *
pv_log_database(void)
{
	return database;
}

/* Returns the name of an open relation with database and schema. */
char *
pv_full_relname(Relation rel)
{
	return psprintf("%s.%s.%s", database,
					get_namespace_name(RelationGetNamespace(rel)),
					RelationGetRelationName(rel));
}

/*
 * Is it to be logged that a table was skipped?  The table is not locked, so
 * its own parameters are read from its row in pg_class.
 */
static bool
logs_skipped_table(HeapTuple tuple)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	AutoVacOpts options;
	VacuumParams params;
	bool		found;

	found = pv_options_read_autovacuum(tuple, RelationGetDescr(pg_class),
									   &options);
	table_close(pg_class, AccessShareLock);
	memset(&params, 0, sizeof(params));
	pv_choose_log_min_duration(&params, found ? &options : NULL);
	return pv_log_min_duration(&params) >= 0;
}

/*
 * Logs that another session has locked the table: for VACUUM, or only for the
 * ANALYZE after it.
 */
void
pv_log_skipped_table(Oid relid, bool vacuumed)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	const char *schema;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	schema = get_namespace_name(form->relnamespace);
	if (schema != NULL && logs_skipped_table(tuple))
	{
		name = psprintf("%s.%s.%s", database, schema, NameStr(form->relname));
		ereport(LOG,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 vacuumed ?
				 errmsg("parvacuum's scheduler skipped analyze of table \"%s\"", name) :
				 errmsg("parvacuum's scheduler skipped table \"%s\"", name),
				 errdetail("Another session has locked it.")));
	}
	ReleaseSysCache(tuple);
}

/* Logs an ANALYZE that has ended, if it took long enough. */
void
pv_log_analyze(Relation rel, const VacuumParams *params,
			   const PvUsageStart *usage)
{
	int			min_duration = pv_log_analyze_min_duration(params);
	PvResult	used = {0};

	if (min_duration < 0)
		return;
	pv_usage_since(usage, &used);
	if (used.elapsed_usecs / 1000 >= min_duration)
		ereport(LOG,
				(errmsg_internal("automatic analyze of table \"%s\"\n%s",
								 pv_full_relname(rel),
								 pv_usage_text(usage))));
}
