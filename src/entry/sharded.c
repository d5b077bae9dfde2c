/*-------------------------------------------------------------------------
 *
 * sharded.c
 *	  Tables of which a vacuum on this server leaves out a part.
 *
 * There are two kinds.  A table that Citus has sharded is an empty shell on
 * this server: its rows are in the shards, which are tables of their own on
 * this server or on others.  And a partitioned table may have partitions that
 * are foreign tables, which VACUUM skips.
 *
 * The session that calls parvacuum_run(), parvacuum_plan() or
 * parvacuum_enqueue() runs this, at the end.  It reads catalogs that all roles
 * may read, and does not check rights.
 *
 * Locks.  Nothing is locked but the catalog of Citus, and that for a moment.
 * To lock partitions would be to wait for whoever changes one of them, for the
 * sake of a notice.  So partitions may be dropped or attached meanwhile.  A
 * partition that is gone is none, and the answer is as old as the moment in
 * which the list of partitions was read.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "entry/relation.h"
#include "entry/sharded.h"

/*
 * The catalog of Citus that has one row for each table with shards, be it a
 * distributed, a reference or a local table of Citus.  Shards are not in it.
 */
#define CITUS_CATALOG			"pg_dist_partition"
#define CITUS_TABLE_COLUMN		"logicalrelid"
#define CITUS_TABLE_ATTNUM		1

/* What is left out */
typedef enum PvSharding
{
	PV_NOT_SHARDED,
	PV_SHARDED_BY_CITUS,		/* everything: the table is a shell */
	PV_FOREIGN_PARTITIONS		/* the partitions that are foreign tables */
} PvSharding;

/*
 * Is this the catalog of Citus as we know it?  Where there is no Citus, an
 * administrator may have given that name to anything.
 */
static bool
is_citus_catalog(Relation catalog)
{
	Form_pg_attribute column;

	if (catalog->rd_rel->relkind != RELKIND_RELATION ||
		RelationGetNumberOfAttributes(catalog) < CITUS_TABLE_ATTNUM)
		return false;
	column = TupleDescAttr(RelationGetDescr(catalog), CITUS_TABLE_ATTNUM - 1);
	return strcmp(NameStr(column->attname), CITUS_TABLE_COLUMN) == 0 &&
		(column->atttypid == REGCLASSOID || column->atttypid == OIDOID);
}

static bool
is_in_citus_catalog(Relation catalog, Oid relid)
{
	ScanKeyData key;
	SysScanDesc scan;
	bool		found;

	ScanKeyInit(&key, CITUS_TABLE_ATTNUM, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	return found;
}

static bool
is_sharded_by_citus(Oid relid)
{
	Oid			catalog_id = get_relname_relid(CITUS_CATALOG,
											   PG_CATALOG_NAMESPACE);
	Relation	catalog = OidIsValid(catalog_id) ?
		try_relation_open(catalog_id, AccessShareLock) : NULL;
	bool		sharded;

	if (catalog == NULL)
		return false;
	sharded = is_citus_catalog(catalog) && is_in_citus_catalog(catalog, relid);
	relation_close(catalog, AccessShareLock);
	return sharded;
}

/*
 * Is this a partitioned table with foreign partitions, at any level?  Children
 * of an ordinary table do not count: it has rows of its own, and only from
 * PG 18 on VACUUM includes its children.
 */
static bool
has_foreign_partitions(Oid relid)
{
	ListCell   *lc;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return false;
	foreach(lc, pv_expand_relation(relid, RELKIND_PARTITIONED_TABLE))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_FOREIGN_TABLE)
			return true;
	}
	return false;
}

/*
 * What does a vacuum of the table on this server leave out?  A partitioned
 * table of Citus is one of Citus.
 */
static PvSharding
sharding_of(Oid relid)
{
	if (is_sharded_by_citus(relid))
		return PV_SHARDED_BY_CITUS;
	return has_foreign_partitions(relid) ?
		PV_FOREIGN_PARTITIONS : PV_NOT_SHARDED;
}

/* What became of the part that was left out */
static int
left_out_message(PvLeftOutBy by, bool citus, const char *relname)
{
	switch (by)
	{
		case PV_LEFT_OUT_BY_RUN:
			return citus ?
				errmsg("shards of table \"%s\" were not vacuumed", relname) :
				errmsg("foreign partitions of table \"%s\" were not vacuumed", relname);
		case PV_LEFT_OUT_BY_PLAN:
			return citus ?
				errmsg("shards of table \"%s\" are not in the plan", relname) :
				errmsg("foreign partitions of table \"%s\" are not in the plan", relname);
		case PV_LEFT_OUT_BY_ENQUEUE:
			return citus ?
				errmsg("shards of table \"%s\" were not queued", relname) :
				errmsg("foreign partitions of table \"%s\" were not queued", relname);
	}
	return 0;
}

/* What to do for that part */
static int
left_out_hint(PvLeftOutBy by, bool citus)
{
	switch (by)
	{
		case PV_LEFT_OUT_BY_RUN:
			return citus ?
				errhint("Use parvacuum_run_cluster() of the extension parvacuum_cluster to vacuum its shards.") :
				errhint("Use parvacuum_run_cluster() of the extension parvacuum_cluster to vacuum the tables on other PostgreSQL servers as well.");
		case PV_LEFT_OUT_BY_PLAN:
			return citus ?
				errhint("Call parvacuum_plan() for the shards, on the nodes that have them.") :
				errhint("Call parvacuum_plan() on the servers that have these tables.");
		case PV_LEFT_OUT_BY_ENQUEUE:
			return citus ?
				errhint("Call parvacuum_enqueue() for the shards, on the nodes that have them.") :
				errhint("Call parvacuum_enqueue() on the servers that have these tables.");
	}
	return 0;
}

/*
 * Says what a function had to leave out of the table that the caller named,
 * since its result looks as if it was about the whole table.  It is called
 * last, so that a call that fails has only its error.
 */
void
pv_report_left_out(Oid relid, PvLeftOutBy by)
{
	PvSharding	sharding = sharding_of(relid);
	bool		citus = sharding == PV_SHARDED_BY_CITUS;

	if (sharding == PV_NOT_SHARDED)
		return;
	ereport(NOTICE,
			(left_out_message(by, citus, pv_qualified_relname(relid)),
			 citus ?
			 errdetail("The table is managed by Citus, and on this server it is an empty shell.") :
			 errdetail("VACUUM skips foreign tables."),
			 left_out_hint(by, citus)));
}
