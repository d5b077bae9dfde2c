/*-------------------------------------------------------------------------
 *
 * command.c
 *	  Options of parvacuum in ALTER TABLE, CREATE TABLE and SECURITY LABEL.
 *
 * Core's parser accepts "SET (parvacuum.enabled, fillfactor = 90)", but core's
 * execution refuses a namespace that it does not know.  Therefore the
 * ProcessUtility hook takes the elements of parvacuum out of a copy of the
 * statement, and passes on what is left:
 *
 *		ALTER TABLE		the options are stored first, under the lock that the
 *						statement takes anyway.  Then core does its part, even
 *						if nothing is left to do: it checks rights, fires event
 *						triggers, and reports what IF EXISTS skips
 *		CREATE TABLE,	core does its part.  When the new table exists, an object
 *		CREATE TABLE	access hook stores the options
 *		AS, CREATE
 *		MATERIALIZED
 *		VIEW
 *		LIKE			a table made LIKE another one INCLUDING ALL gets the
 *						options that the other one has itself
 *
 * The new table is not looked up by its name, so that IF NOT EXISTS does not
 * change a table that existed before.  All of this belongs to the transaction
 * of the statement.  DROP EXTENSION does not remove the options, since a
 * session that installs the extension again wants them.
 *
 * The label provider serves sessions that set the label by hand, and restored
 * dumps.
 *
 * Who runs this.  pv_command_init() runs in the postmaster while libraries are
 * preloaded, the rest in the session that executes the statement.  The
 * variables belong to the process.  Locks: on the table what
 * AlterTableGetLockLevel() says about what is left for core, which is at least
 * ShareUpdateExclusiveLock; and those of entry/labels.c.
 *
 * Core: tcop/utility.c, ProcessUtilitySlow; commands/tablecmds.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_tablespace.h"
#include "commands/extension.h"
#include "commands/seclabel.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/process.h"
#include "entry/dispatch.h"
#include "entry/options.h"
#include "stats/kept.h"

static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type prev_object_access = NULL;

/*
 * The label of the table that the statement in progress is about to create;
 * NULL if it creates none, or has created it.  Core stands between the two
 * hooks and cannot pass it on as an argument.
 */
static const char *new_table_label = NULL;


/* ----------------------------------------------------------------
 *		Which tables can have options
 * ----------------------------------------------------------------
 */

/* Refuse relations that parvacuum never vacuums.  The relation is locked. */
static void
check_can_have_options(Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	char	   *relname = get_rel_name(relid);

	if (relname == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errdetail("It was dropped in the meantime.")));
	if (relkind == RELKIND_TOASTVALUE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot set parvacuum options for TOAST table \"%s\"",
						relname),
				 errhint("A TOAST table follows its table.  Set the options of the table instead.")));
	if (!pv_relkind_has_options(relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot set parvacuum options for \"%s\"", relname),
				 errdetail_relkind_not_supported(relkind),
				 errhint("Only tables, partitioned tables, and materialized views can have them.")));
	if (IsCatalogRelationOid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog", relname),
				 errhint("PostgreSQL's own VACUUM vacuums system catalogs.")));
}

/*
 * The label provider: refuse what ALTER TABLE would have refused.  The caller
 * has checked that the user owns the object, and has locked it.
 */
static void
check_label(const ObjectAddress *object, const char *label)
{
	pv_label_announce_change();
	if (label == NULL)
		return;					/* the label is being removed */

	if (object->classId != RelationRelationId || object->objectSubId != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot set parvacuum options for %s",
						getObjectDescription(object, false)),
				 errhint("Only tables, partitioned tables, and materialized views can have them.")));
	check_can_have_options(object->objectId);
	pv_options_check_label(label);
}


/* ----------------------------------------------------------------
 *		Taking our elements out of a statement
 * ----------------------------------------------------------------
 */

/*
 * Is the element ours?  The namespace "toast.parvacuum" does not exist, and
 * using it is a mistake that deserves a hint.
 */
static bool
is_ours(const DefElem *def)
{
	if (def->defnamespace == NULL)
		return false;
	if (strcmp(def->defnamespace, "toast") == 0 &&
		strncmp(def->defname, PV_NAMESPACE, strlen(PV_NAMESPACE)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("parvacuum has no options for TOAST tables"),
				 errhint("A TOAST table follows its table.  Leave out \"toast.\".")));
	return strcmp(def->defnamespace, PV_NAMESPACE) == 0;
}

/*
 * Remove our elements from the list, and return them as a list of their own,
 * with the namespace as a part of their names.
 */
static List *
take_ours(List **defs)
{
	List	   *ours = NIL;
	ListCell   *lc;

	foreach(lc, *defs)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (!is_ours(def))
			continue;
		def->defname = psprintf("%s.%s", def->defnamespace, def->defname);
		def->defnamespace = NULL;
		ours = lappend(ours, def);
		*defs = foreach_delete_current(*defs, lc);
	}
	return ours;
}

/*
 * Return the option list of a statement that creates a table, for taking our
 * elements out; NULL for every other statement.  EXPLAIN may contain such a
 * statement.
 */
static List **
creation_options(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return &((CreateStmt *) stmt)->options;
		case T_CreateTableAsStmt:
			return &((CreateTableAsStmt *) stmt)->into->options;
		case T_ExplainStmt:
			{
				Query	   *query =
					castNode(Query, ((ExplainStmt *) stmt)->query);

				return query->utilityStmt == NULL ? NULL :
					creation_options(query->utilityStmt);
			}
		default:
			return NULL;
	}
}


/* ----------------------------------------------------------------
 *		Executing statements
 * ----------------------------------------------------------------
 */

/*
 * Take our elements out of ALTER TABLE, and return them as a list of
 * subcommands that contain nothing else.  A subcommand without elements left
 * is removed: an empty SET () would need an exclusive lock.
 */
static List *
take_changes(AlterTableStmt *stmt)
{
	List	   *changes = NIL;
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		List	   *rest = (List *) cmd->def;
		List	   *ours;

		if (cmd->subtype != AT_SetRelOptions &&
			cmd->subtype != AT_ResetRelOptions)
			continue;
		ours = take_ours(&rest);
		if (ours == NIL)
			continue;

		if (rest == NIL)
			stmt->cmds = foreach_delete_current(stmt->cmds, lc);
		else
		{
			AlterTableCmd *core_cmd = copyObject(cmd);

			core_cmd->def = (Node *) rest;
			lfirst(lc) = core_cmd;
		}
		cmd->def = (Node *) ours;
		changes = lappend(changes, cmd);
	}
	return changes;
}

/* Apply the changes to an array of options, in their order. */
static Datum
apply_changes(Datum options, const List *changes)
{
	ListCell   *lc;

	foreach(lc, changes)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		options = pv_options_change(options, (List *) cmd->def,
									cmd->subtype == AT_ResetRelOptions);
	}
	return options;
}

/*
 * Execute our part of ALTER TABLE, or of a similar statement, and take it out
 * of the statement.
 *
 * The table is looked up and locked here, with the lock that core's part will
 * need.  Then its schema is added to its name, so that core cannot find
 * another table.  The options are checked even if IF EXISTS finds no table.
 */
static void
alter_table(AlterTableStmt *stmt)
{
	List	   *changes = take_changes(stmt);
	Datum		options;
	Oid			relid;

	PreventCommandIfReadOnly(CreateCommandName((Node *) stmt));
	PreventCommandIfParallelMode(CreateCommandName((Node *) stmt));
	relid = RangeVarGetRelidExtended(stmt->relation,
									 AlterTableGetLockLevel(stmt->cmds),
									 stmt->missing_ok ? RVR_MISSING_OK : 0,
									 pv_check_owner, NULL);

	if (!OidIsValid(relid))
		(void) apply_changes((Datum) 0, changes);
	else
	{
		check_can_have_options(relid);
		options = apply_changes(pv_options_of_label(pv_label_read(relid)),
								changes);
		pv_label_write(relid, pv_options_label(options));
		CommandCounterIncrement();
		stmt->relation->schemaname =
			get_namespace_name(get_rel_namespace(relid));
	}
}

/*
 * Return the options of the tables that the new table is LIKE, INCLUDING ALL:
 * those that these tables have themselves.  Core looks the tables up again, in
 * the schema that we found them in, checks that the user may read them, and
 * locks them as we do.
 */
static Datum
options_of_likes(const CreateStmt *stmt)
{
	Datum		options = (Datum) 0;
	ListCell   *lc;

	foreach(lc, stmt->tableElts)
	{
		TableLikeClause *like = lfirst(lc);
		Oid			relid;

		if (!IsA(like, TableLikeClause) ||
			(like->options & CREATE_TABLE_LIKE_ALL) != CREATE_TABLE_LIKE_ALL)
			continue;
		relid = RangeVarGetRelid(like->relation, AccessShareLock, true);
		if (!OidIsValid(relid))
			continue;			/* core raises the error */
		like->relation->schemaname =
			get_namespace_name(get_rel_namespace(relid));
		options = pv_options_merge(options,
								   pv_options_of_label(pv_label_read(relid)));
	}
	return options;
}

/*
 * Return the label of the table that a statement creates, or NULL, and take
 * our elements out of the statement.
 */
static const char *
take_label(Node *stmt)
{
	Datum		likes = IsA(stmt, CreateStmt) ?
		options_of_likes((CreateStmt *) stmt) : (Datum) 0;
	List	   *ours = take_ours(creation_options(stmt));

	return pv_options_label(pv_options_change(likes, ours, false));
}

/* Is any element of the list ours? */
static bool
has_ours(const List *defs)
{
	ListCell   *lc;

	foreach(lc, defs)
	{
		if (is_ours(lfirst_node(DefElem, lc)))
			return true;
	}
	return false;
}

/* Is it an ALTER TABLE with an element of ours? */
static bool
alter_is_ours(Node *stmt)
{
	ListCell   *lc;

	if (!IsA(stmt, AlterTableStmt))
		return false;
	foreach(lc, ((AlterTableStmt *) stmt)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if ((cmd->subtype == AT_SetRelOptions ||
			 cmd->subtype == AT_ResetRelOptions) &&
			has_ours((List *) cmd->def))
			return true;
	}
	return false;
}

/* May a table be created with options of ours, by WITH or by LIKE? */
static bool
creation_is_ours(Node *stmt)
{
	List	  **options = creation_options(stmt);
	ListCell   *lc;

	if (options == NULL)
		return false;
	if (has_ours(*options))
		return true;
	if (!IsA(stmt, CreateStmt))
		return false;
	foreach(lc, ((CreateStmt *) stmt)->tableElts)
	{
		if (IsA(lfirst(lc), TableLikeClause))
			return true;
	}
	return false;
}

/*
 * Return the name of a command that maintains tables and that PostgreSQL
 * allows in a read-only transaction, or NULL.
 *
 * Core: tcop/utility.c, ClassifyUtilityCommandAsReadOnly.
 */
static const char *
maintenance_command(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_VacuumStmt:
			return ((VacuumStmt *) stmt)->is_vacuumcmd ? "VACUUM" : "ANALYZE";
		case T_ReindexStmt:
			return "REINDEX";
		case PV_T_CLUSTER_STMT:
			return pv_cluster_command(stmt);
		default:
			return NULL;
	}
}

/*
 * The ProcessUtility hook.  Statements within statements come here too, for
 * example those of functions and event triggers.  They must not take the
 * options that are meant for the table of an outer statement, which has them
 * back afterwards, after an error too.  Nor may such statements maintain
 * tables inside a vacuum.
 */
static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest,
				QueryCompletion *qc)
{
	ProcessUtility_hook_type next =
		prev_process_utility ? prev_process_utility : standard_ProcessUtility;
	Node	   *stmt = pstmt->utilityStmt;
	bool		alters = alter_is_ours(stmt);
	bool		creates = creation_is_ours(stmt);
	PlannedStmt *volatile changed =
		alters || creates ? copyObject(pstmt) : pstmt;
	const char *const label =
		creates ? take_label(changed->utilityStmt) : NULL;
	const char *const outer = new_table_label;
	const char *maintenance = maintenance_command(stmt);

	if (maintenance != NULL)
		pv_guard_check_command(maintenance);
	if (alters)
		alter_table((AlterTableStmt *) changed->utilityStmt);

	PG_TRY();
	{
		new_table_label = label;
		next(changed, queryString, readOnlyTree, context, params, queryEnv,
			 dest, qc);
	}
	PG_FINALLY();
	{
		new_table_label = outer;
	}
	PG_END_TRY();
}


/* ----------------------------------------------------------------
 *		What happens to objects
 * ----------------------------------------------------------------
 */

/*
 * A relation was created by the statement that has options for the new table.
 * The first one that can have options is that table.  Its row in pg_class is
 * not visible yet, but the relation cache has it.
 */
static void
label_new_table(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	bool		is_table;

	if (!RelationIsValid(rel))
		return;
	is_table = pv_relkind_has_options(rel->rd_rel->relkind);
	RelationClose(rel);

	if (is_table)
	{
		pv_label_write(relid, new_table_label);
		new_table_label = NULL;
	}
}

/* Report that options stay when our extension is dropped. */
static void
report_kept_options(void)
{
	int			n = pv_labels_count(false);

	if (n > 0)
		ereport(NOTICE,
				(errmsg_plural("parvacuum options of %d table stay",
							   "parvacuum options of %d tables stay",
							   n, n),
				 errdetail("They apply as long as the library is preloaded, also after the extension is created again."),
				 errhint("To remove them, call parvacuum_reset_options() before DROP EXTENSION, or after another CREATE EXTENSION parvacuum.")));
}

/* The object access hook: see new tables, and what is dropped. */
static void
object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId,
			  void *arg)
{
	if (prev_object_access)
		prev_object_access(access, classId, objectId, subId, arg);

	if (subId != 0 || (access != OAT_DROP && access != OAT_POST_CREATE))
		return;

	if (classId == RelationRelationId)
	{
		if (access == OAT_POST_CREATE && new_table_label != NULL)
			label_new_table(objectId);
		if (access == OAT_DROP && pv_label_read(objectId) != NULL)
			pv_label_announce_change();
	}

	/*
	 * Drop what vacuums have kept of a table or a database that is dropped.  A
	 * new database can have the OID of an old one, and a file in a tablespace
	 * would keep that from being dropped.  The rights have been checked.
	 */
	if (classId == DatabaseRelationId || classId == TableSpaceRelationId ||
		(classId == RelationRelationId && access == OAT_DROP))
		(void) pv_kept_drop_object(classId, objectId);

	if (access == OAT_DROP && classId == ExtensionRelationId)
	{
		char	   *name = get_extension_name(objectId);

		if (name != NULL && strcmp(name, PV_NAMESPACE) == 0)
			report_kept_options();
	}
}

/*
 * Install the hooks and the label provider.  Call this only while
 * shared_preload_libraries are loaded.
 */
void
pv_command_init(void)
{
	Assert(process_shared_preload_libraries_in_progress);

	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
	register_label_provider(PV_NAMESPACE, check_label);
}
