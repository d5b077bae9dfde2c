/*-------------------------------------------------------------------------
 *
 * run_function.c
 *	  parvacuum_run() and CALL parvacuum(), and runs within a larger one.
 *
 * Both vacuum a table in a process of their own (entry/run.c), with the
 * options of VACUUM.  The procedure waits without a snapshot, and so does the
 * function if its statement reads no table.
 *
 * parvacuum_run_cluster() vacuums partitions on this server in the same way
 * while it has other servers vacuum theirs.  It begins runs and does not wait
 * for them, so it has functions of its own.
 *
 * The session that calls them runs this.  It checks everything that can be
 * wrong before a process is started, and takes no locks before the run is over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "entry/dispatch.h"
#include "entry/run.h"
#include "sql/call.h"

PG_FUNCTION_INFO_V1(parvacuum_run);
PG_FUNCTION_INFO_V1(parvacuum_call);
PG_FUNCTION_INFO_V1(parvacuum_cluster_begin);
PG_FUNCTION_INFO_V1(parvacuum_cluster_ended);
PG_FUNCTION_INFO_V1(parvacuum_cluster_result);
PG_FUNCTION_INFO_V1(parvacuum_cluster_stop);

/* Positions of the arguments, in function and procedure */
enum
{
	ARG_REL,
	ARG_WORKERS,
	ARG_FREEZE,
	ARG_INDEX_CLEANUP,
	ARG_TRUNCATE,
	ARG_ANALYZE,
	ARG_SKIP_LOCKED,
	ARG_DISABLE_PAGE_SKIPPING,
	ARG_VERBOSE,
	ARG_TIME_LIMIT				/* not for sharded tables */
};

/* The type parvacuum_cluster_run has so many more columns, before the others. */
#define PV_CLUSTER_COLUMNS		6


/* ----------------------------------------------------------------
 *		Arguments and checks
 * ----------------------------------------------------------------
 */

/* Add an option to the command if the argument says so; it has no NULL. */
static void
add_if_true(FunctionCallInfo fcinfo, int arg, const char *name,
			StringInfo options, const char *option)
{
	pv_check_not_null(fcinfo, arg, name, PV_HINT_DEFAULT);
	if (PG_GETARG_BOOL(arg))
		appendStringInfo(options, ", %s", option);
}

/*
 * Add VACUUM's INDEX_CLEANUP.  The default 'auto' adds nothing, so that VACUUM
 * asks the table's storage parameter vacuum_index_cleanup first.
 */
static void
add_index_cleanup(FunctionCallInfo fcinfo, StringInfo options)
{
	char	   *given;
	bool		value;

	pv_check_not_null(fcinfo, ARG_INDEX_CLEANUP, "index_cleanup",
					  PV_HINT_DEFAULT);
	given = text_to_cstring(PG_GETARG_TEXT_PP(ARG_INDEX_CLEANUP));
	if (pg_strcasecmp(given, "auto") == 0)
		return;
	if (!parse_bool(given, &value))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for index_cleanup: \"%s\"", given),
				 errhint("Valid values are \"auto\", \"on\", and \"off\".")));
	appendStringInfo(options, ", INDEX_CLEANUP %s", value ? "on" : "off");
}

/* Return when the run ends early, 0 if it does not. */
static TimestampTz
deadline_arg(FunctionCallInfo fcinfo)
{
	TimestampTz now = GetCurrentTimestamp();
	Datum		deadline;

	if (PG_NARGS() <= ARG_TIME_LIMIT || PG_ARGISNULL(ARG_TIME_LIMIT))
		return 0;
	deadline = DirectFunctionCall2(timestamptz_pl_interval,
								   TimestampTzGetDatum(now),
								   PG_GETARG_DATUM(ARG_TIME_LIMIT));
	if (DatumGetTimestampTz(deadline) <= now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time_limit must be greater than zero"),
				 errhint(PV_HINT_DEFAULT)));
	return DatumGetTimestampTz(deadline);
}

/* Translate the arguments into a VACUUM command. */
static void
read_request(FunctionCallInfo fcinfo, PvRequest *request)
{
	StringInfoData options;
	int			workers;

	pv_check_not_null(fcinfo, ARG_REL, "rel", "Name the table to be vacuumed.");
	initStringInfo(&options);
	add_if_true(fcinfo, ARG_FREEZE, "freeze", &options, "FREEZE");
	add_if_true(fcinfo, ARG_ANALYZE, "analyze", &options, "ANALYZE");
	add_if_true(fcinfo, ARG_VERBOSE, "verbose", &options, "VERBOSE");
	add_if_true(fcinfo, ARG_SKIP_LOCKED, "skip_locked", &options,
				"SKIP_LOCKED");
	add_if_true(fcinfo, ARG_DISABLE_PAGE_SKIPPING, "disable_page_skipping",
				&options, "DISABLE_PAGE_SKIPPING");
	add_index_cleanup(fcinfo, &options);
	if (!PG_ARGISNULL(ARG_TRUNCATE))
		appendStringInfo(&options, ", TRUNCATE %s",
						 PG_GETARG_BOOL(ARG_TRUNCATE) ? "on" : "off");
	workers = pv_workers_arg(fcinfo, ARG_WORKERS);
	if (workers != PV_WORKERS_NOT_GIVEN)
		appendStringInfo(&options, ", PARALLEL %d", workers);

	request->relid = PG_GETARG_OID(ARG_REL);
	request->skip_locked = PG_GETARG_BOOL(ARG_SKIP_LOCKED);
	request->truncate_is_open = PG_ARGISNULL(ARG_TRUNCATE);
	request->deadline = deadline_arg(fcinfo);
	request->command = options.len == 0 ?
		psprintf("VACUUM %s", pv_qualified_relname(request->relid, true)) :
		psprintf("VACUUM (%s) %s", options.data + 2,
				 pv_qualified_relname(request->relid, true));
}

/*
 * Raise an error if this role cannot vacuum the relation, in another process.
 * With unlocked, also refuse a table that this transaction has locked against
 * a vacuum.  Locks on its partitions, or that block the leader through other
 * sessions, are detected while waiting (entry/run.c).
 *
 * The table is opened without a lock, which could block the background leader.
 * VACUUM checks the table again, with a lock.
 */
static void
check_relation(Oid relid, bool unlocked)
{
	Relation	rel;

	AcceptInvalidationMessages();
	rel = RelationIdGetRelation(relid);
	if (!RelationIsValid(rel))
		pv_raise_no_relation(relid);
	(void) pv_check_relation(rel->rd_rel, ERROR);
	if (!pv_may_vacuum(relid))
		pv_refuse_vacuum(ERROR, RelationGetRelationName(rel));
	if (unlocked &&
		CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot vacuum table \"%s\" because this session has locked it",
						RelationGetRelationName(rel)),
				 errdetail("The vacuum runs in another process, which would wait for that lock."),
				 errhint("Release the lock first.")));
	RelationClose(rel);
}


/* ----------------------------------------------------------------
 *		parvacuum_run() and CALL parvacuum()
 * ----------------------------------------------------------------
 */

/* Return a row: so many columns that are NULL, the relation, its figures. */
static void
return_result(FunctionCallInfo fcinfo, int before, Datum relation,
			  const PvResult *result)
{
	PvRow		row = {0};

	pv_put_nulls(&row, before);
	row.types[before] = before == 0 ? REGCLASSOID : TEXTOID;
	pv_put(&row, relation);
	pv_put_figures(&row, result, true);
	pv_return_row(fcinfo, &row);
}

/* Describe in full sentences what became of the rows, and why some stayed. */
static char *
describe_rows(const PvResult *result)
{
	TransactionId cutoff = (TransactionId) result->oldest_xmin;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, INT64_FORMAT " rows were removed, %s" INT64_FORMAT " remain, and " INT64_FORMAT " are dead but not yet removable.",
					 result->tuples_removed,
					 result->remaining_estimated ? "about " : "",
					 result->tuples_remaining, result->tuples_recently_dead);
	if (result->tuples_missed > 0)
		appendStringInfo(&buf, "  " INT64_FORMAT " dead rows were left on pages that were in use.",
						 result->tuples_missed);
	appendStringInfo(&buf, "  The removable cutoff was transaction ID %u, which is %d XIDs old now.",
					 cutoff, (int32) (ReadNextTransactionId() - cutoff));
	appendStringInfo(&buf, "  It took %.3f s, with " INT64_FORMAT " workers and " INT64_FORMAT " index scans.",
					 result->elapsed_usecs / 1000000.0,
					 result->workers_launched, result->index_scans);
	return buf.data;
}

/* Report a table in a notice: what the procedure has instead of a row. */
static void
report_entry(const PvRunEntry *entry)
{
	const PvResult *result = &entry->result;
	char	   *relname = pv_qualified_relname(result->relid, false);

	ereport(NOTICE,
			(OidIsValid(entry->toast_parent) ?
			 errmsg("vacuumed TOAST table \"%s\" of table \"%s\"", relname,
					pv_qualified_relname(entry->toast_parent, false)) :
			 errmsg("vacuumed table \"%s\"", relname),
			 result->by_engine ?
			 errdetail("%s", describe_rows(result)) :
			 errdetail("PostgreSQL's own VACUUM took %.3f s.",
					   result->elapsed_usecs / 1000000.0),
			 result->by_engine && result->tuples_recently_dead > 0 ?
			 errhint("Old transactions, prepared transactions, replication slots, and standbys can hold back the removable cutoff.") : 0));
}

/* parvacuum_run(rel, ...): return one row for each table vacuumed. */
Datum
parvacuum_run(PG_FUNCTION_ARGS)
{
	const char *what = "parvacuum_run()";
	PvRequest	request;
	PvCall	   *call;
	ListCell   *lc;

	pv_check_server(what);
	pv_check_function_call(fcinfo, what);
	InitMaterializedSRF(fcinfo, 0);
	read_request(fcinfo, &request);
	check_relation(request.relid, true);

	pv_release_snapshot(fcinfo);
	call = pv_call_and_wait(&request);
	pv_renew_snapshot();

	foreach(lc, call->entries)
	{
		PvRunEntry *entry = lfirst(lc);

		return_result(fcinfo, 0, ObjectIdGetDatum(entry->result.relid),
					  &entry->result);
	}
	pv_call_end(call, NULL);
	pv_report_left_out(request.relid);

	return (Datum) 0;
}

/* CALL parvacuum(rel, ...): commit first; one notice for each table. */
Datum
parvacuum_call(PG_FUNCTION_ARGS)
{
	const char *what = "CALL parvacuum()";
	PvRequest	request;
	PvCall	   *call;
	ListCell   *lc;

	pv_check_server(what);
	pv_check_procedure_call(fcinfo, what);
	read_request(fcinfo, &request);
	check_relation(request.relid, false);

	pv_commit_procedure();
	check_relation(request.relid, true);

	call = pv_call_and_wait(&request);
	foreach(lc, call->entries)
		report_entry(lfirst(lc));
	pv_call_end(call, NULL);
	pv_report_left_out(request.relid);

	PG_RETURN_VOID();
}


/* ----------------------------------------------------------------
 *		What parvacuum_run_cluster() calls
 * ----------------------------------------------------------------
 */

/*
 * The functions of parvacuum_cluster have a search path of their own.  For
 * names that are shown, the session's default is in effect, as it is in the
 * sessions on other servers.  Return what ends that.
 */
static int
use_default_search_path(void)
{
	int			nest_level = NewGUCNestLevel();

	(void) set_config_option("search_path",
							 GetConfigOptionResetString("search_path"),
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	return nest_level;
}

/* Return the run whose number is given. */
static PvCall *
run_arg(FunctionCallInfo fcinfo)
{
	int			number = PG_GETARG_INT32(0);
	PvCall	   *run = number == PV_ANY_RUN ? NULL : pv_call_find(number);

	if (run == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("this transaction has no run with the number %d",
						number),
				 errhint("Call parvacuum_run_cluster() instead of this function.")));
	return run;
}

/*
 * parvacuum_cluster_begin(rel, ...): begin to vacuum a table and return the
 * number of the run.
 *
 * It may be called in a transaction block and by other functions.  What the
 * caller's transaction has locked by then is refused, and a deadlock that comes
 * later is detected.
 */
Datum
parvacuum_cluster_begin(PG_FUNCTION_ARGS)
{
	PvRequest	request;

	pv_check_server("parvacuum_run_cluster()");
	read_request(fcinfo, &request);
	check_relation(request.relid, true);
	PG_RETURN_INT32(pv_call_begin(&request, false)->number);
}

/* parvacuum_cluster_ended(run): has it ended?  Its error is raised here. */
Datum
parvacuum_cluster_ended(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pv_call_look(run_arg(fcinfo)));
}

/*
 * parvacuum_cluster_result(run): return a row for each table that was
 * vacuumed, without TOAST tables, and free the run.
 */
Datum
parvacuum_cluster_result(PG_FUNCTION_ARGS)
{
	PvCall	   *run = run_arg(fcinfo);
	int			nest_level;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	nest_level = use_default_search_path();
	foreach(lc, run->entries)
	{
		PvRunEntry *entry = lfirst(lc);
		Datum		relid = ObjectIdGetDatum(entry->result.relid);
		char	   *name;

		if (OidIsValid(entry->toast_parent))
			continue;
		name = DatumGetCString(DirectFunctionCall1(regclassout, relid));
		return_result(fcinfo, PV_CLUSTER_COLUMNS, CStringGetTextDatum(name),
					  &entry->result);
	}
	AtEOXact_GUC(true, nest_level);
	pv_call_end(run, NULL);

	return (Datum) 0;
}

/*
 * parvacuum_cluster_stop(run, sqlstate, message): end a run, or if the number
 * is 0, all runs that this session has begun and not ended.  The reason is for
 * the history.
 */
Datum
parvacuum_cluster_stop(PG_FUNCTION_ARGS)
{
	int			number = PG_GETARG_INT32(0);
	ErrorData	reason = {0};
	char	   *state = text_to_cstring(PG_GETARG_TEXT_PP(1));
	PvCall	   *run;

	reason.message = text_to_cstring(PG_GETARG_TEXT_PP(2));
	reason.sqlerrcode = strlen(state) == 5 ?
		MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]) :
		ERRCODE_INTERNAL_ERROR;

	while ((run = pv_call_find(number)) != NULL)
		pv_call_end(run, &reason);

	PG_RETURN_VOID();
}
