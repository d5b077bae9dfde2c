/*-------------------------------------------------------------------------
 *
 * blockers.c
 *	  The function behind parvacuum_blockers: all that holds back the horizon,
 *	  and how to release it.
 *
 * Sessions run this.  The locks are those of stats/blocker.c, and of a table
 * that the caller names.  It needs no preloaded library.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "sql/call.h"
#include "stats/history.h"

PG_FUNCTION_INFO_V1(parvacuum_blockers);

/* How long pg_terminate_backend() waits for the end of the process, in ms */
#define TERMINATE_WAIT			5000

/* Return what the blocker holds back. */
static const char *
what_is_held(const PvBlocker *blocker)
{
	if (!pv_blockers_matter())
		return "nothing on the primary";
	if (blocker->kind == PV_BLOCKER_SLOT_CATALOG)
		return "catalogs";
	if (pv_blocker_affects(blocker, PV_HORIZON_DATA) &&
		(blocker->kind == PV_BLOCKER_FEEDBACK ||
		 blocker->kind == PV_BLOCKER_SLOT_XMIN || RecoveryInProgress()))
		return "all databases";
	return OidIsValid(blocker->database) ? "one database" : "shared catalogs";
}

/* On a standby that sends feedback */
#define NO_FEEDBACK		"ALTER SYSTEM SET hot_standby_feedback = off"
#define STOP_FEEDBACK \
	"/* on the standby: its queries may then be canceled, its logical slots are lost, and slots no longer synchronized; reload it afterwards */ " NO_FEEDBACK

/*
 * Return the statement that releases a slot.  One that a standby uses moves on
 * by itself when the standby's queries end, so do not drop it.  A comment says
 * what is lost.
 */
static char *
release_of_slot(const PvBlocker *blocker)
{
	bool		logical = OidIsValid(blocker->database);
	char	   *drop = psprintf("SELECT pg_catalog.pg_drop_replication_slot(%s)",
								quote_literal_cstr(NameStr(blocker->slot)));
	const char *loss = logical ?
		"/* whoever reads from the slot cannot go on afterwards */ " :
		"/* its standby may have to be set up anew afterwards */ ";

	if (blocker->synced && RecoveryInProgress())
		return psprintf("/* on the primary, which the slot follows */ %s%s",
						loss, drop);
	if (logical && blocker->temporary && blocker->pid != 0)
		return psprintf("%sSELECT pg_catalog.pg_terminate_backend(%d)",
						loss, blocker->pid);
	if (blocker->pid == 0)
		return psprintf("%s%s", loss, drop);
	if (logical)
		return psprintf("%sSELECT pg_catalog.pg_terminate_backend(%d, %d); %s",
						loss, blocker->pid, TERMINATE_WAIT, drop);
	return pstrdup(STOP_FEEDBACK);
}

/*
 * Is this the name that Citus gives to its part of a transaction?  It has the
 * group of the node that began it, the process there, and two numbers.
 */
static bool
is_citus_gid(const char *gid)
{
	int			length = 0;

	return sscanf(gid, "citus_%*u_%*u_%*u_%*u%n", &length) == 0 &&
		length > 0 && gid[length] == '\0';
}

/*
 * ROLLBACK PREPARED works in the database of the transaction only.  There the
 * bytes of its identifier may mean other characters than here, so then there
 * is no statement, unless all are ASCII.
 *
 * Others may have committed their parts of the transaction, and this one would
 * then lack it.  Subscriptions have identifiers that begin with pg_gid_.
 */
static char *
release_of_prepared(const PvBlocker *blocker, const PvBlockerDetails *details)
{
	bool		here = blocker->database == MyDatabaseId;
	bool		ascii = true;

	for (const char *c = details->gid; *c != '\0'; c++)
		ascii = ascii && !IS_HIGHBIT_SET(*c);
	if (!ascii && (!here || strcmp(details->gid, details->name) != 0))
		return NULL;
	return psprintf("%s%sROLLBACK PREPARED %s",
					here ? "" : "/* in its database */ ",
					is_citus_gid(details->gid) ?
					"/* other nodes may have committed it: better call recover_prepared_transactions() of Citus on the node that began it */ " :
					strncmp(details->gid, "pg_gid_", 7) == 0 ?
					"/* of a subscription, which cannot go on if the publisher commits it: better end it there */ " :
					"/* others may have committed their parts: ask the transaction manager first */ ",
					quote_literal_cstr(details->gid));
}

/* Is the process executing something, that can be canceled? */
static bool
is_busy(const PvBlockerDetails *details)
{
	return details->state != NULL &&
		(strcmp(details->state, "active") == 0 ||
		 strcmp(details->state, "fastpath function call") == 0);
}

/*
 * Return a statement that makes the blocker let go, or NULL if there is none,
 * or the caller may not see enough of the blocker to choose.  Functions are
 * named with their schema: a superuser may execute it, and a function of the
 * same name in his search_path could suit the arguments better.
 */
static char *
release_of(const PvBlocker *blocker, const PvBlockerDetails *details)
{
	switch (blocker->kind)
	{
		case PV_BLOCKER_PROCESS:
			if (!details->visible)
				return NULL;
			return psprintf("SELECT pg_catalog.%s(%d)",
							is_busy(details) ? "pg_cancel_backend" :
							"pg_terminate_backend", blocker->pid);
		case PV_BLOCKER_PREPARED:
			return release_of_prepared(blocker, details);
		case PV_BLOCKER_FEEDBACK:
			return details->visible ? pstrdup(STOP_FEEDBACK) : NULL;
		case PV_BLOCKER_SLOT_XMIN:
		case PV_BLOCKER_SLOT_CATALOG:
			return release_of_slot(blocker);
		case PV_BLOCKER_NONE:
			break;
	}
	return NULL;
}

/*
 * Sum up what was kept because of the blocker, in vacuums that have started
 * since it holds back: before, its PID or transaction ID may have been that of
 * another.  Leave out tables that the caller may not see.
 */
static int64
kept_because_of(const PvTableTotals *tables, int n, const PvBlocker *blocker,
				const PvBlockerDetails *details)
{
	uint64		key = pv_blocker_key(blocker);
	int64		sum = 0;

	for (int i = 0; i < n; i++)
	{
		const PvTableTotals *totals = &tables[i];

		if (totals->holder_kind == (int) blocker->kind &&
			totals->holder_key == key &&
			totals->kept_start >= details->began &&
			pv_may_see_table(totals->head.key.database, totals->head.table))
			sum += totals->kept;
	}
	return sum;
}

static void
return_blocker(FunctionCallInfo fcinfo, const PvBlocker *blocker,
			   const PvTableTotals *tables, int ntables)
{
	int			encoding = GetDatabaseEncoding();
	TimestampTz now = GetCurrentTimestamp();
	char	   *datname = OidIsValid(blocker->database) ?
		get_database_name(blocker->database) : NULL;
	PvBlockerDetails details;
	PvRow		row = {0};

	pv_blocker_look_up(blocker, GetUserId(), &details);
	if (details.gone)
		return;

	pv_put_text(&row, details.kind, encoding);
	pv_put_if(&row, blocker->pid != 0, Int32GetDatum(blocker->pid));
	pv_put_text(&row, details.name, encoding);
	pv_put_name(&row, details.role, encoding);
	pv_put_oid(&row, blocker->database);
	pv_put_name(&row, datname, encoding);
	pv_put_text(&row, what_is_held(blocker), encoding);
	pv_put(&row, TransactionIdGetDatum(blocker->xmin));
	pv_put(&row, Int32GetDatum((int32) (ReadNextTransactionId() -
										blocker->xmin)));
	pv_put_time(&row, details.since);
	pv_put_if(&row, details.since != 0,
			  DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(now),
								  TimestampTzGetDatum(Min(details.since,
														  now))));
	pv_put_if(&row, pv_history_exists() && pv_guc_stats_size > 0 &&
			  details.visible,
			  Int64GetDatum(kept_because_of(tables, ntables, blocker,
											&details)));
	pv_put_text(&row, details.state, encoding);
	pv_put_text(&row, details.query, encoding);
	pv_put_text(&row, release_of(blocker, &details), encoding);
	pv_return_row(fcinfo, &row);
}

/*
 * Find the horizon of a table that the caller names.  Return false if the
 * table has none that others could hold back.  Like pg_relation_size(), this
 * locks the table for a moment and needs no rights: nothing of the table is
 * shown.
 */
static bool
horizon_of_table(Oid relid, PvHorizon *horizon)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		local;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table with OID %u does not exist", relid)));
	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) &&
		rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or materialized view",
						RelationGetRelationName(rel))));
	*horizon = pv_horizon_of(rel);
	local = rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP;
	relation_close(rel, AccessShareLock);
	return !local;
}

/*
 * parvacuum_blockers(rel): return a row for each process, prepared transaction
 * and replication slot that holds back the horizon: of the table, or without a
 * table of any.  Leave out the calling session, whose snapshot every query
 * would show.
 *
 * For a table, show a transaction of another database too if snapshots in this
 * database are old because of it.  Ending the sessions with these snapshots
 * would not help, because new snapshots are as old.
 */
Datum
parvacuum_blockers(PG_FUNCTION_ARGS)
{
	bool		of_all = PG_ARGISNULL(0);
	PvHorizon	horizon = PV_HORIZON_SHARED;
	bool		any = of_all ||
		horizon_of_table(PG_GETARG_OID(0), &horizon);
	PvBlocker  *blockers;
	void	   *tables = NULL;
	int			ntables;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	if (!any)
		return (Datum) 0;

	n = pv_blockers_collect(&blockers);
	ntables = pv_history_copy(PV_RECORD_TABLE, &tables);
	/* who they are must be what is known now */
	pgstat_clear_backend_activity_snapshot();
	for (int i = 0; i < n; i++)
	{
		if (of_all || pv_blocker_affects(&blockers[i], horizon) ||
			pv_blocker_is_cause(&blockers[i], blockers, n, horizon))
			return_blocker(fcinfo, &blockers[i], tables, ntables);
	}
	return (Datum) 0;
}
