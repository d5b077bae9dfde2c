/*-------------------------------------------------------------------------
 *
 * call.c
 *	  What SQL functions check before they do anything.
 *
 * Rights are checked in entry/rights.c.
 *
 * The session that calls the function runs this.  It takes no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "postmaster/bgworker_internals.h"
#include "tcop/pquery.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "sql/call.h"


/* ----------------------------------------------------------------
 *		The server
 * ----------------------------------------------------------------
 */

/*
 * Say how to preload parvacuum, with the line for postgresql.conf.  It keeps
 * the libraries that are preloaded now, which not all roles may see.
 */
static int
hint_to_preload(void)
{
	StringInfoData list;
	bool		present;

	if (pv_built_for_other() != NULL)
		return errhint("Build and install parvacuum for this server, and restart the server.");
	if (!pv_may_see_settings())
		return errhint("Add parvacuum to the end of shared_preload_libraries in postgresql.conf, and restart the server.");

	/* the list is a quoted string in postgresql.conf */
	initStringInfo(&list);
	for (const char *c = shared_preload_libraries_string; *c != '\0'; c++)
	{
		if (*c == '\'' || *c == '\\')
			appendStringInfoChar(&list, *c);
		appendStringInfoChar(&list, *c);
	}
	present = strspn(list.data, " ") < (size_t) list.len;
	return errhint("Put this line into postgresql.conf and restart the server: shared_preload_libraries = '%s%sparvacuum'",
				   present ? list.data : "", present ? ", " : "");
}

/* Raise an error if the library is not preloaded: it has no shared memory. */
void
pv_check_preloaded(const char *what)
{
	if (!pv_shmem_attached())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s requires parvacuum to be preloaded", what),
				 hint_to_preload()));
}

/* Warn if the library is not preloaded. */
void
pv_warn_unless_preloaded(void)
{
	if (!pv_shmem_attached())
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("parvacuum is not preloaded"),
				 errdetail("Until it is, its functions raise an error, and all tables are vacuumed by PostgreSQL's own VACUUM."),
				 hint_to_preload()));
}

/*
 * Raise an error if a function that vacuums, sweeps, queues or cancels cannot
 * do its work on this server, or in this place.
 */
void
pv_check_server(const char *what)
{
	pv_check_preloaded(what);
	pv_guard_check_function(what);
	if (pv_slot_problem() != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s is not available on this server", what),
				 errdetail("%s", pv_slot_problem()),
				 errhint("The server log has a warning about it from the last server start.")));
	if (!IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s cannot be executed in single-user mode", what),
				 errhint("Use VACUUM.")));
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", what),
				 errhint("Execute it on the primary server.")));
	PreventCommandIfParallelMode(what);
}


/* ----------------------------------------------------------------
 *		The place of the call
 * ----------------------------------------------------------------
 */

/*
 * Is the function called by something else than the client's own statement?
 *
 * These are the signs: PL/pgSQL, and everything else that runs queries through
 * SPI, is connected to SPI, which a harmless request shows; a SECURITY DEFINER
 * function has its own security context; a query inside a function of language
 * SQL runs in an executor other than that of the active portal.
 *
 * Not detected: a SQL function (not SECURITY DEFINER) within a statement whose
 * portal does not show its executor, as INSERT ... SELECT.  That only holds
 * back the horizon for longer, or meets locks that are detected separately.
 */
static bool
called_from_function(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	return SPI_unregister_relation("") != SPI_ERROR_UNCONNECTED ||
		InLocalUserIdChange() || InSecurityRestrictedOperation() ||
		(rsinfo != NULL && IsA(rsinfo, ReturnSetInfo) &&
		 ActivePortal != NULL && ActivePortal->queryDesc != NULL &&
		 ActivePortal->queryDesc->estate != rsinfo->econtext->ecxt_estate);
}

/*
 * Refuse the function where VACUUM would be refused.  Core:
 * access/transam/xact.c, PreventInTransactionBlock, which has no hints.  Call
 * it last, for what it knows of pipelines.
 */
void
pv_check_function_call(FunctionCallInfo fcinfo, const char *what)
{
	if (called_from_function(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot be executed from a function", what),
				 errhint("In a procedure, use CALL parvacuum(...).")));
	if (IsTransactionBlock() || IsSubTransaction())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block", what),
				 errhint("End the transaction first, or use a client with autocommit.")));

	PreventInTransactionBlock(true, what);
}

/* Refuse the procedure where it could not commit. */
void
pv_check_procedure_call(FunctionCallInfo fcinfo, const char *what)
{
	CallContext *context = (CallContext *) fcinfo->context;

	if (context == NULL || !IsA(context, CallContext) || context->atomic ||
		IsSubTransaction() ||
		InLocalUserIdChange() || InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block or a function", what),
				 errhint("It commits the transaction, so call it where COMMIT is allowed.")));
}

/*
 * End the transaction, and with it its snapshot and locks; another one begins.
 * A procedure can do that only through SPI.
 */
void
pv_commit_procedure(void)
{
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	SPI_finish();
}

/*
 * Release the snapshot of the client's own statement, if the statement can do
 * without it, until pv_renew_snapshot() is called.  Then this session holds
 * back neither the horizon nor an index build, as a procedure that has
 * committed.  An error in between ends the statement, which needs no snapshot
 * for that.  Other snapshots may stay: that of an EXECUTE, or that of a
 * transaction whose isolation level keeps one.
 *
 * A SELECT that reads no table, and whose snapshot is the active one, has no
 * scan that knows its snapshot, and whoever asks for it finds it in the three
 * places that are emptied here.  Nobody else may have it, such as a function
 * that returns its rows one by one.  called_from_function() has returned false.
 *
 * Core: tcop/pquery.c, PortalStart, PortalRunSelect; executor/execMain.c,
 * standard_ExecutorStart.
 */
void
pv_release_snapshot(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	QueryDesc  *statement = ActivePortal ? ActivePortal->queryDesc : NULL;
	ListCell   *lc;

	if (statement == NULL || statement->operation != CMD_SELECT ||
		statement->estate != rsinfo->econtext->ecxt_estate ||
		statement->estate->es_snapshot != statement->snapshot ||
		GetActiveSnapshot() != statement->snapshot ||
		statement->snapshot->regd_count != 2 ||
		statement->snapshot->active_count != 1 ||
		IsolationUsesXactSnapshot())
		return;
	foreach(lc, statement->plannedstmt->rtable)
	{
		if (lfirst_node(RangeTblEntry, lc)->rtekind == RTE_RELATION)
			return;
	}

	PopActiveSnapshot();
	UnregisterSnapshot(statement->estate->es_snapshot);
	UnregisterSnapshot(statement->snapshot);
	statement->estate->es_snapshot = statement->snapshot = InvalidSnapshot;
}

/* Let the rest of such a statement see the database as it is now. */
void
pv_renew_snapshot(void)
{
	QueryDesc  *statement = ActivePortal ? ActivePortal->queryDesc : NULL;

	if (statement == NULL || statement->snapshot != InvalidSnapshot)
		return;
	statement->snapshot = RegisterSnapshot(GetTransactionSnapshot());
	statement->estate->es_snapshot = RegisterSnapshot(statement->snapshot);
	PushActiveSnapshot(statement->snapshot);
}


/* ----------------------------------------------------------------
 *		Arguments
 * ----------------------------------------------------------------
 */

/* Raise an error if an argument is null.  The hint says what to do. */
void
pv_check_not_null(FunctionCallInfo fcinfo, int arg, const char *name,
				  const char *hint)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", name),
				 errhint("%s", hint)));
}

/*
 * Return the number of workers, or PV_WORKERS_NOT_GIVEN if the argument is
 * null.  Lower a number above parvacuum.max_workers, with a notice.
 * max_parallel_maintenance_workers is a default that any user may set, and
 * does not limit a number that the user names.
 */
int
pv_workers_arg(FunctionCallInfo fcinfo, int arg)
{
	int			workers;

	if (PG_ARGISNULL(arg))
		return PV_WORKERS_NOT_GIVEN;
	workers = PG_GETARG_INT32(arg);
	if (workers < 0 || workers > MAX_PARALLEL_WORKER_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of workers must be between 0 and %d",
						MAX_PARALLEL_WORKER_LIMIT),
				 errhint("0 means no workers.  NULL lets parvacuum decide.")));
	if (workers > pv_guc_max_workers)
	{
		ereport(NOTICE,
				(errmsg("number of workers lowered from %d to %d",
						workers, pv_guc_max_workers),
				 errdetail("parvacuum.max_workers is %d.",
						   pv_guc_max_workers)));
		workers = pv_guc_max_workers;
	}
	return workers;
}


/* ----------------------------------------------------------------
 *		The table
 * ----------------------------------------------------------------
 */

/*
 * Report, at the given level, that another process cannot vacuum a relation of
 * this kind, or one that is temporary.  Return false then.
 */
bool
pv_check_relation(Form_pg_class form, int elevel)
{
	if (form->relkind != RELKIND_RELATION &&
		form->relkind != RELKIND_MATVIEW &&
		form->relkind != RELKIND_TOASTVALUE &&
		form->relkind != RELKIND_PARTITIONED_TABLE)
	{
		ereport(elevel,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot vacuum \"%s\"", NameStr(form->relname)),
				 errdetail_relkind_not_supported(form->relkind),
				 errhint("Only tables, partitioned tables, materialized views, and TOAST tables can be vacuumed.")));
		return false;
	}
	if (form->relpersistence == RELPERSISTENCE_TEMP)
	{
		ereport(elevel,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot vacuum temporary table \"%s\" in another process",
						NameStr(form->relname)),
				 errdetail("Only the session that created it can vacuum it."),
				 errhint("Use VACUUM.")));
		return false;
	}
	return true;
}

/* Raise an error: there is no such relation. */
void
pv_raise_no_relation(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("relation with OID %u does not exist", relid),
			 errhint("Name the table to be vacuumed.")));
}
