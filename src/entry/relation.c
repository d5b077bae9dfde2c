/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  Which relations a vacuum of a table includes or leaves out, their names
 *	  and locks.
 *
 * Sessions, background leaders and scheduler workers run this, within a
 * transaction.  It reads catalogs that all roles may read, and checks no
 * rights.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "entry/dispatch.h"

/* Return a copy of the relation's row in pg_class, or NULL if it is gone. */
Form_pg_class
pv_class_row(Oid relid)
{
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));

	return HeapTupleIsValid(tuple) ? (Form_pg_class) GETSTRUCT(tuple) : NULL;
}

/*
 * Return the OIDs of the table and of the tables that VACUUM includes with it:
 * all partitions of a partitioned table, and from PG 18 on the children of any
 * table.  They are not locked, so some of them may be dropped meanwhile.
 */
List *
pv_expand_relation(Oid relid, char relkind)
{
	if (relkind == RELKIND_PARTITIONED_TABLE || PV_VACUUMS_CHILDREN)
		return find_all_inheritors(relid, NoLock, NULL);
	return list_make1_oid(relid);
}

/*
 * Return the qualified name of a relation, quoted as in an SQL command or as
 * it is; or its OID if it is gone.
 */
char *
pv_qualified_relname(Oid relid, bool quoted)
{
	char	   *name = get_rel_name(relid);
	char	   *schema = get_namespace_name(get_rel_namespace(relid));

	if (name == NULL || schema == NULL)
		return psprintf("%u", relid);
	return quoted ? quote_qualified_identifier(schema, name) :
		psprintf("%s.%s", schema, name);
}

/*
 * Lock and open a table or an index without waiting for the lock.  Return NULL
 * if another session has a conflicting lock, or the relation is gone.
 */
Relation
pv_open_unlocked(Oid relid, LOCKMODE lockmode)
{
	Relation	rel;

	if (!ConditionalLockRelationOid(relid, lockmode))
		return NULL;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
		UnlockRelationOid(relid, lockmode);
	return rel;
}

/*
 * Is the relation a TOAST table of that table, or not a TOAST table if
 * toast_parent is InvalidOid?
 */
bool
pv_is_toast_of(Relation rel, Oid toast_parent)
{
	Form_pg_class parent;

	if (rel->rd_rel->relkind != RELKIND_TOASTVALUE)
		return !OidIsValid(toast_parent);
	parent = pv_class_row(toast_parent);
	return parent != NULL && parent->reltoastrelid == RelationGetRelid(rel);
}


/* ----------------------------------------------------------------
 *		What a vacuum on this server leaves out
 *
 * A table that Citus has sharded is an empty shell here: its rows are in the
 * shards, which are tables of their own on this server or on others.  And a
 * partitioned table may have partitions that are foreign tables, which VACUUM
 * skips.
 * ----------------------------------------------------------------
 */

/* The catalog that has a row for each table with shards, not for shards */
#define CITUS_CATALOG			"pg_dist_partition"
#define CITUS_TABLE_COLUMN		"logicalrelid"
#define CITUS_TABLE_ATTNUM		1

/*
 * Is this really the catalog of Citus?  Where there is no Citus, an
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

/* Does the catalog have a row for the table? */
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

/* Is the table sharded by Citus? */
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
 * Report what a function had to leave out of the table that the caller named,
 * because its result looks as if it were about the whole table.  A partitioned
 * table of Citus is one of Citus.  Call this last, so that a call that fails
 * has only its error.
 */
void
pv_report_left_out(Oid relid)
{
	bool		citus = is_sharded_by_citus(relid);

	if (!citus && !has_foreign_partitions(relid))
		return;
	ereport(NOTICE,
			(errmsg("%s of table \"%s\" are left out",
					citus ? "shards" : "foreign partitions",
					pv_qualified_relname(relid, false)),
			 citus ?
			 errdetail("The table is managed by Citus, and on this server it is an empty shell.") :
			 errdetail("VACUUM skips foreign tables."),
			 errhint("Call the function on the servers that have them, or use parvacuum_run_cluster() of the extension parvacuum_cluster.")));
}
