/*-------------------------------------------------------------------------
 *
 * rights.c
 *	  Checks of rights: the roles that may vacuum, see and cancel.
 *
 * All rules are the server's own, applied to what parvacuum adds:
 *
 *		what							roles that may
 *		----							--------------
 *		vacuum, sweep, queue a table	those that may VACUUM it: its owner, from
 *										PG 17 on roles with MAINTAIN on it, the
 *										owner of the database unless the table
 *										is shared, superusers
 *		see the plan of a vacuum		the same, its owner in any case, members of
 *										pg_read_all_stats
 *		set the options of a table		its owner, as for ALTER TABLE
 *		remove all options				owner of the database, superusers
 *		make urgent requests, and end	superusers, from PG 17 on members of
 *		pauses of tables				pg_maintain
 *		take all places for runs		superusers (count_run() in run.c)
 *		see tables of other databases,	members of pg_read_all_stats
 *		and PIDs
 *		see what was done to a table	the same, its owner in its own database
 *		see the statement of a session	the same, those that have the privileges
 *		that was in the way				of its role
 *		cancel a scheduler worker by	those that may cancel an autovacuum worker:
 *		its PID, a vacuum that			superusers, from PG 18 on members of
 *		prevents wraparound, or an		pg_signal_autovacuum_worker
 *		autovacuum worker
 *		cancel the scheduler's other	the same, and those that may vacuum the
 *		vacuums of a table				table
 *		cancel a run, or a VACUUM		those that may pg_cancel_backend() the
 *		command							session
 *
 * What is shown of a session that holds back the horizon is decided in
 * stats/blocker.c, by the same rule as in pg_stat_activity.
 *
 * A scheduler worker is to the server what an autovacuum worker is: it acts
 * for no role, and what it prevents harms all.  A role that may vacuum a table
 * may also make the scheduler give up that table, just as it could by waiting
 * for a lock on it.  That does not include a vacuum that prevents wraparound,
 * which does not give way to a lock either.  The owner of a table has no
 * rights over the session of another role.
 *
 * All functions check the current role of this process.  They only read
 * catalogs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/catalog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "entry/dispatch.h"


/* ----------------------------------------------------------------
 *		Tables
 * ----------------------------------------------------------------
 */

/*
 * May the current role vacuum the table?
 *
 * Core: commands/vacuum.c, vacuum_is_permitted_for_relation, which warns where
 * we raise errors.
 */
bool
pv_may_vacuum(Oid relid)
{
	return pv_may_maintain(relid, GetUserId()) ||
		(!IsSharedRelation(relid) &&
		 pv_owns_database(MyDatabaseId, GetUserId()));
}

/* Report, at the given level, that the current role may not vacuum a table. */
void
pv_refuse_vacuum(int elevel, const char *relname)
{
	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to vacuum table \"%s\"", relname),
			 errhint("Only its owner, the owner of the database, a superuser, or from PostgreSQL 17 on a role with the privilege MAINTAIN can vacuum a table.")));
}

/*
 * May the current role see what a vacuum of the table would do?  That shows
 * no rows, but numbers of them, as the cumulative statistics do.
 */
bool
pv_may_plan(Oid relid)
{
	return pv_may_see_all() || pv_owns_relation(relid, GetUserId()) ||
		pv_may_vacuum(relid);
}

/* Report, at the given level, that the current role may not see that plan. */
void
pv_refuse_plan(int elevel, const char *relname)
{
	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to plan a vacuum of table \"%s\"",
					relname),
			 errhint("Only roles that may vacuum the table, and members of pg_read_all_stats, can do that.")));
}

/*
 * Raise an error if the table is not the current role's.  This is a callback
 * of RangeVarGetRelidExtended(): no role may lock a table that it does not
 * own.  Core: commands/tablecmds.c, RangeVarCallbackForAlterRelation, which
 * checks the rest when core executes its part of the statement.
 */
void
pv_check_owner(const RangeVar *relation, Oid relid, Oid oldrelid, void *arg)
{
	if (OidIsValid(relid) && !pv_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)),
					   relation->relname);
}


/* ----------------------------------------------------------------
 *		Runs, the scheduler's queue, settings and options
 * ----------------------------------------------------------------
 */

/* May the current role make urgent requests, and end pauses of tables? */
bool
pv_may_request_urgently(void)
{
	return pv_may_maintain_all(GetUserId());
}

/* Raise an error: the current role may not make an urgent request. */
void
pv_refuse_urgent(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to have a table vacuumed before others"),
			 errhint("Only superusers, and from PostgreSQL 17 on members of pg_maintain, can make urgent requests.")));
}

/*
 * May the current role see what the scheduler does in all databases, and with
 * which process?  Core: utils/adt/pgstatfuncs.c, HAS_PGSTAT_PERMISSIONS.
 */
bool
pv_may_see_all(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/* May the current role see what a session of that role executes? */
bool
pv_may_see_session(Oid role)
{
	return pv_may_see_all() ||
		(OidIsValid(role) && has_privs_of_role(GetUserId(), role));
}

/*
 * May the current role see what was done to a table, of any database?  Only
 * the catalogs of this one say who its owner is.  A table that is gone has
 * none.
 */
bool
pv_may_see_table(Oid database, Oid relid)
{
	HeapTuple	tuple;
	Oid			owner;

	if (pv_may_see_all())
		return true;
	if (database != MyDatabaseId)
		return false;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return false;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return has_privs_of_role(GetUserId(), owner);
}

/*
 * May the current role see the values of all settings?  Core:
 * utils/misc/guc.c, GUC_SUPERUSER_ONLY.
 */
bool
pv_may_see_settings(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

/* Raise an error if the current role may not remove all tables' options. */
void
pv_check_may_reset_options(void)
{
	if (!pv_owns_database(MyDatabaseId, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to reset the parvacuum options of all tables"),
				 errhint("Only the owner of the database and superusers can do that.  The owner of a table can use ALTER TABLE ... RESET.")));
}


/* ----------------------------------------------------------------
 *		Canceling
 * ----------------------------------------------------------------
 */

/*
 * May the current role cancel a session of that role, and what vacuums for it?
 *
 * Core: storage/ipc/signalfuncs.c, pg_signal_backend.
 */
bool
pv_may_cancel_session(Oid role)
{
	if (superuser_arg(role))
		return superuser();
	return has_privs_of_role(GetUserId(), role) ||
		has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND);
}

/* Report, at the given level, that the role may not cancel such a thing. */
void
pv_refuse_cancel(PvCancelKind kind, int elevel)
{
	static const struct
	{
		const char *what;
		const char *hint;
	}			texts[] = {
		[PV_CANCEL_TABLE] = {"a vacuum",
		"Only roles that may vacuum the table, and " PV_MAY_SIGNAL_AUTOVACUUM ", can cancel it."},
		[PV_CANCEL_WRAPAROUND] = {"a vacuum that prevents wraparound",
		"Only " PV_MAY_SIGNAL_AUTOVACUUM " can cancel it."},
		[PV_CANCEL_WORKER] = {"a scheduler worker of parvacuum",
		"Only " PV_MAY_SIGNAL_AUTOVACUUM " can cancel it by its PID.  Roles that may vacuum a table can cancel the vacuum of that table."},
		[PV_CANCEL_RUN] = {"a run of parvacuum",
		"Only roles that may cancel its caller can cancel it."},
		[PV_CANCEL_COMMAND] = {"a VACUUM command",
		"Only roles that may cancel its session can cancel it."},
		[PV_CANCEL_AUTOVACUUM] = {"an autovacuum",
		"Only " PV_MAY_SIGNAL_AUTOVACUUM " can cancel it."},
	};

	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to cancel %s", texts[kind].what),
			 errhint("%s", texts[kind].hint)));
}
