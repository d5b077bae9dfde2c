/*-------------------------------------------------------------------------
 *
 * blockers.c
 *	  The function behind parvacuum_blockers: all that holds back the horizon,
 *	  and how to release it.
 *
 * Sessions run this.  The locks are those of stats/blocker.c, and of a table
 * that the caller names.  It needs no preloaded library.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "base/compat.h"
#include "stats/blocker.h"

PG_FUNCTION_INFO_V1(parvacuum_blockers);

#define BLOCKERS_COLUMNS		14

/* How long pg_terminate_backend() waits for the end of the process, in ms */
#define TERMINATE_WAIT			5000


/* What the blocker holds back, in one of four ways. */
static const char *
what_is_held(const PvBlocker *blocker)
{
	if (blocker->kind == PV_BLOCKER_SLOT_CATALOG)
		return "catalogs";
	if (pv_blocker_affects(blocker, PV_HORIZON_DATA) &&
		(blocker->kind == PV_BLOCKER_FEEDBACK ||
		 blocker->kind == PV_BLOCKER_SLOT_XMIN || RecoveryInProgress()))
		return "all databases";
	return OidIsValid(blocker->database) ? "one database" : "shared catalogs";
}

/*
 * The statement that releases a slot.  One that a standby uses moves on by
 * itself when the standby's queries end, so it is not to be dropped.
 */
static char *
release_of_slot(const PvBlocker *blocker)
{
	char	   *name = quote_literal_cstr(NameStr(blocker->slot));

	if (blocker->pid == 0)
		return psprintf("SELECT pg_drop_replication_slot(%s)", name);
	if (!OidIsValid(blocker->database))
		return pstrdup("/* on the standby, then reload it */ ALTER SYSTEM SET hot_standby_feedback = off");
	return psprintf("SELECT pg_terminate_backend(%d, %d); SELECT pg_drop_replication_slot(%s)",
					blocker->pid, TERMINATE_WAIT, name);
}

/*
 * A statement that makes the blocker let go, or NULL if there is none, or the
 * caller may not see enough of the blocker to choose.
 */
static char *
release_of(const PvBlocker *blocker, const PvBlockerDetails *details)
{
	switch (blocker->kind)
	{
		case PV_BLOCKER_PROCESS:
			if (!details->visible)
				return NULL;
			if (details->state != NULL && strcmp(details->state, "active") == 0)
				return psprintf("SELECT pg_cancel_backend(%d)", blocker->pid);
			return psprintf("SELECT pg_terminate_backend(%d)", blocker->pid);
		case PV_BLOCKER_PREPARED:
			if (details->name == NULL)
				return NULL;
			return psprintf("ROLLBACK PREPARED %s",
							quote_literal_cstr(details->name));
		case PV_BLOCKER_FEEDBACK:
			return pstrdup("/* on the standby, then reload it */ ALTER SYSTEM SET hot_standby_feedback = off");
		case PV_BLOCKER_SLOT_XMIN:
		case PV_BLOCKER_SLOT_CATALOG:
			return release_of_slot(blocker);
		case PV_BLOCKER_NONE:
			break;
	}
	return NULL;
}

/* Sets the next column to a text, or to NULL. */
static void
put_text(Datum *values, bool *nulls, int *n, const char *text)
{
	nulls[*n] = text == NULL;
	values[*n] = text ? CStringGetTextDatum(text) : (Datum) 0;
	(*n)++;
}

static void
put_blocker(ReturnSetInfo *rsinfo, const PvBlocker *blocker)
{
	TimestampTz now = GetCurrentTimestamp();
	char	   *datname = OidIsValid(blocker->database) ?
		get_database_name(blocker->database) : NULL;
	PvBlockerDetails details;
	Datum		values[BLOCKERS_COLUMNS];
	bool		nulls[BLOCKERS_COLUMNS] = {0};
	int			n = 0;

	pv_blocker_look_up(blocker, GetUserId(), &details);
	if (details.gone)
		return;

	values[n++] = CStringGetTextDatum(details.kind);
	nulls[n] = blocker->pid == 0;
	values[n++] = Int32GetDatum(blocker->pid);
	put_text(values, nulls, &n, details.name);
	nulls[n] = details.role == NULL;
	values[n++] = details.role == NULL ? (Datum) 0 :
		DirectFunctionCall1(namein, CStringGetDatum(details.role));
	nulls[n] = !OidIsValid(blocker->database);
	values[n++] = ObjectIdGetDatum(blocker->database);
	nulls[n] = datname == NULL;
	values[n++] = datname == NULL ? (Datum) 0 :
		DirectFunctionCall1(namein, CStringGetDatum(datname));
	put_text(values, nulls, &n, what_is_held(blocker));
	values[n++] = TransactionIdGetDatum(blocker->xmin);
	values[n++] = Int32GetDatum((int32) (ReadNextTransactionId() -
										 blocker->xmin));
	nulls[n] = details.since == 0;
	values[n++] = TimestampTzGetDatum(details.since);
	nulls[n] = details.since == 0;
	values[n++] = details.since == 0 ? (Datum) 0 :
		DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(now),
							TimestampTzGetDatum(Min(details.since, now)));
	put_text(values, nulls, &n, details.state);
	put_text(values, nulls, &n, details.query);
	put_text(values, nulls, &n, release_of(blocker, &details));
	Assert(n == BLOCKERS_COLUMNS);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * Finds the horizon of a table that the caller names.  Returns false if the
 * table has none that others could hold back.
 *
 * Like pg_relation_size(), this locks the table for a moment and needs no
 * rights: nothing of the table is shown.
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
 * parvacuum_blockers(rel): returns one row for each process, prepared
 * transaction and replication slot that holds back the horizon: of the table,
 * or without a table of any.  Not the calling session, whose snapshot every
 * query would show.
 */
Datum
parvacuum_blockers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		of_all = PG_ARGISNULL(0);
	PvHorizon	horizon = PV_HORIZON_SHARED;
	bool		any = of_all ||
		horizon_of_table(PG_GETARG_OID(0), &horizon);
	PvBlocker  *blockers;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	if (!any)
		return (Datum) 0;

	n = pv_blockers_collect(&blockers);
	/* who they are must be what is known now */
	pgstat_clear_backend_activity_snapshot();
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (of_all || pv_blocker_affects(&blockers[i], horizon))
			put_blocker(rsinfo, &blockers[i]);
	}
	return (Datum) 0;
}
