/*-------------------------------------------------------------------------
 *
 * open_table.c
 *	  A scheduler worker locks and opens its table, unless that is locked.
 *
 * Core: postmaster/autovacuum.c, table_recheck_autovac; commands/vacuum.c,
 * vacuum_open_relation, vacuum_rel.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "entry/effective_options.h"
#include "entry/relation.h"
#include "sched/table.h"
#include "stats/history_run.h"

/*
 * Is the relation still what was queued?  The caller has locked it.  On PG 15
 * a rule _RETURN can have made a view of it under the same OID, which has no
 * access method.  The OID of a dropped table can have been given to any other
 * relation.
 *
 * Core: vacuum_rel and analyze_rel of commands/ check this after they have
 * locked the relation, and the rights of the caller.  We are a superuser, as an
 * autovacuum worker is, and parvacuum_enqueue() has checked its caller's rights.
 */
static bool
is_as_queued(Relation rel, const PvItem *item)
{
	Form_pg_class form = rel->rd_rel;

	return (form->relkind == RELKIND_RELATION ||
			form->relkind == RELKIND_MATVIEW ||
			form->relkind == RELKIND_TOASTVALUE) &&
		rel->rd_tableam != NULL &&
		form->relpersistence != RELPERSISTENCE_TEMP &&
		pv_is_toast_of(rel, item->toast_parent);
}

/*
 * Record and log that another session has locked the table: for VACUUM, or
 * only for the ANALYZE after it.  The table is not locked, so its own parameters
 * are read from its row in pg_class.
 */
static void
note_skipped(Oid relid, bool vacuumed)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	VacuumParams params = {0};
	AutoVacOpts own;
	Form_pg_class form;
	Relation	pg_class;
	const char *schema;
	const char *name;

	pv_sched_count(PV_COUNT_SKIPPED_LOCK);
	pv_history_skipped(relid, vacuumed ? PV_WORK_ANALYZE : PV_WORK_VACUUM,
					   ShareUpdateExclusiveLock);
	if (!HeapTupleIsValid(tuple))
		return;
	pg_class = table_open(RelationRelationId, AccessShareLock);
	pv_options_no_autovacuum(&own);
	(void) pv_options_read_autovacuum(tuple, RelationGetDescr(pg_class), &own);
	table_close(pg_class, AccessShareLock);
	pv_choose_log_min_duration(&params, &own);
	form = (Form_pg_class) GETSTRUCT(tuple);
	schema = get_namespace_name(form->relnamespace);
	name = psprintf("%s.%s.%s", pv_table_database(), schema ? schema : "",
					NameStr(form->relname));
	ReleaseSysCache(tuple);
	if (pv_log_min_duration(&params) >= 0)
		ereport(LOG,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 vacuumed ?
				 errmsg("parvacuum's scheduler skipped analyze of table \"%s\"", name) :
				 errmsg("parvacuum's scheduler skipped table \"%s\"", name),
				 errdetail("Another session has locked it.")));
}

/*
 * Lock the table with ShareUpdateExclusiveLock and open it.  Return NULL if
 * another session has locked it (then *locked is true), or if it no longer
 * exists or is not what was queued.
 *
 * A scheduler worker does not wait for the lock, not even if the table is
 * old.  There will be another database scan, and a few locked tables would
 * make all others wait.  Core's forced autovacuum, which begins when the table
 * is a tenth older, does wait.
 *
 * RelationIdGetRelation() returns NULL for a relation that does not exist,
 * which cannot change while the lock is held.  try_relation_open() would look
 * it up in another cache first, which costs as much again for each table.
 */
Relation
pv_open_table(const PvItem *item, bool vacuumed, bool *locked)
{
	Relation	rel;

	*locked = !ConditionalLockRelationOid(item->key.relid,
										  ShareUpdateExclusiveLock);
	if (*locked)
	{
		note_skipped(item->key.relid, vacuumed);
		return NULL;
	}
	rel = RelationIdGetRelation(item->key.relid);
	if (!RelationIsValid(rel))
		return NULL;
	if (!is_as_queued(rel, item))
	{
		RelationClose(rel);
		return NULL;
	}
	pgstat_init_relation(rel);
	return rel;
}
