/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  Which relations a vacuum of a table includes, their names and locks.
 *
 * Sessions, background leaders and scheduler workers run this, within a
 * transaction.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "entry/relation.h"

/*
 * Returns the OIDs of the table and of the tables that VACUUM includes with
 * it: all partitions of a partitioned table, and from PG 18 on the children of
 * any table.  Takes no locks on them.
 */
List *
pv_expand_relation(Oid relid, char relkind)
{
	if (relkind == RELKIND_PARTITIONED_TABLE || PV_VACUUMS_CHILDREN)
		return find_all_inheritors(relid, NoLock, NULL);
	return list_make1_oid(relid);
}

/* Returns the name of a relation and its schema; false if it is gone. */
static bool
look_up_names(Oid relid, char **schema, char **name)
{
	*name = get_rel_name(relid);
	*schema = get_namespace_name(get_rel_namespace(relid));
	return *name != NULL && *schema != NULL;
}

/*
 * Returns the qualified name of a relation, for messages.  If the relation no
 * longer exists, that is its OID.
 */
char *
pv_qualified_relname(Oid relid)
{
	char	   *schema;
	char	   *name;

	if (!look_up_names(relid, &schema, &name))
		return psprintf("%u", relid);
	return psprintf("%s.%s", schema, name);
}

/* The same as an SQL command has it. */
char *
pv_quoted_relname(Oid relid)
{
	char	   *schema;
	char	   *name;

	if (!look_up_names(relid, &schema, &name))
		return psprintf("%u", relid);
	return quote_qualified_identifier(schema, name);
}

/*
 * Lock and open a table or an index without waiting for the lock.  Returns
 * NULL if another session has a lock that conflicts, or the relation is gone.
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
	HeapTuple	tuple;
	bool		result = false;

	if (rel->rd_rel->relkind != RELKIND_TOASTVALUE ||
		!OidIsValid(toast_parent))
		return rel->rd_rel->relkind != RELKIND_TOASTVALUE &&
			!OidIsValid(toast_parent);
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(toast_parent));
	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_class) GETSTRUCT(tuple))->reltoastrelid ==
			RelationGetRelid(rel);
		ReleaseSysCache(tuple);
	}
	return result;
}
