/*-------------------------------------------------------------------------
 *
 * parvacuum.c
 *	  What the server and SQL call; and the map of the engine.
 *
 * parvacuum vacuums ordinary heap tables with several processes in every phase.
 * Tables, WAL and catalogs are what they were; only who does the work differs.
 *
 * How a vacuum comes to us.  Core's vacuum() parses, checks, locks, and opens a
 * transaction for each table, then calls the vacuum of the table's access
 * method.  That slot is ours; everybody who vacuums arrives there:
 *
 *		VACUUM, vacuumdb, autovacuum		parvacuum.c		this file: the SQL functions
 *			|									|			and their checks and rows
 *			|								entry/run.c		starts the background leader, a process
 *			|									|			that calls core's vacuum()
 *		core's vacuum() and vacuum_rel() <------+
 *			|
 *		entry/dispatch.c		the slot; engine or core for this table
 *			|				entry/options.c	what the table says about that
 *			|				entry/command.c	ALTER TABLE ... SET (parvacuum.enabled)
 *			|
 *		engine/vacuum.c		the leader's plan: the phases below, in this order
 *
 * One vacuum.  The leader and its workers, together the participants, run the
 * same function; only the leader decides what comes next.
 *
 *		SCAN		all		engine/heap_scan.c		prune and freeze pages, collect dead items
 *		INDEX		all		engine/index_vacuum.c		remove the index entries of dead items
 *		VACUUM HEAP		all		engine/heap_vacuum.c		dead items to unused, visibility map
 *		CLEANUP		all		engine/index_vacuum.c		what indexes want done at the end
 *		TRUNCATE	leader	engine/truncate.c	empty pages at the end of the table
 *
 * If the store of dead items fills up, SCAN stops at a segment's border for one
 * round of INDEX and VACUUM HEAP, and goes on.  Under the phases:
 *
 *		engine/pool.c		the processes, and what they share
 *		engine/worker.c		what a participant does in each phase
 *		engine/participant.c	counting, and the failsafe
 *		engine/prune.c		what SCAN does to the tuples of a page
 *		engine/page.c		what SCAN and VACUUM HEAP both do to a page
 *		engine/dispense.c	hands out ranges of blocks; what may be skipped
 *		store/deadtids.c	the dead-TID store; store/container.c: its smallest parts;
 *						store/space.c: its memory
 *		throttle/cost.c		cost-based delay of several processes
 *		engine/report.c		error context, texts of VERBOSE and the log
 *
 * And for all of them:
 *
 *		engine/result.h		the phases, and what a vacuum says of itself
 *		base/settings.c		settings
 *		base/guard.c		no vacuum is started from inside another
 *		base/window.c		hours of the week, in settings and options
 *		base/shmem.c		the parts of shared memory, which are registered here
 *		entry/runs.c		the runs of parvacuum_run() in progress, and how many may be
 *		entry/inprogress.c	the vacuums by the engine that VACUUM and autovacuum have begun
 *		sched/launcher.c	the process that follows the configuration for autovacuum,
 *						and has databases vacuumed
 *		sched/worker.c		a scheduler worker; sched/candidates.c: what tables need;
 *						sched/policy.c: what comes first; sched/queue.c: the queues;
 *						throttle/balance.c: the budget; sql/monitor.c: functions
 *		base/dsm.c		whether shared memory is running out
 *		base/compat.c		what differs between server versions
 *
 * Reading order: this file, entry/dispatch.c, engine/vacuum.c, engine/worker.c, engine/heap_scan.c,
 * engine/index_vacuum.c, engine/heap_vacuum.c, then the rest as it is met; entry/run.c stands apart.
 *
 * Who runs this file.  _PG_init() runs in the postmaster when the library is in
 * shared_preload_libraries, and all processes inherit what it did.  Loaded
 * later, by CREATE EXTENSION or LOAD in a session, it defines the settings and
 * touches nothing else: functions that need more say so.  The rest of the file
 * runs in the session that calls parvacuum_run() or CALL parvacuum(): it finds
 * out all that can be wrong before a process is started, has the background leader do it,
 * and shows the result; or that looks at parvacuum_tables.  It takes no locks.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker_internals.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/guard.h"
#include "base/settings.h"
#include "base/shmem.h"
#include "engine/reserve.h"
#include "engine/sweep.h"
#include "entry/command.h"
#include "entry/dispatch.h"
#include "entry/inprogress.h"
#include "entry/options.h"
#include "entry/run.h"
#include "entry/runs.h"
#include "sched/launcher.h"
#include "sched/queue.h"
#include "throttle/cost.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(parvacuum_run);
PG_FUNCTION_INFO_V1(parvacuum_call);
PG_FUNCTION_INFO_V1(parvacuum_sweep);
PG_FUNCTION_INFO_V1(parvacuum_sweep_call);
PG_FUNCTION_INFO_V1(parvacuum_table_options);
PG_FUNCTION_INFO_V1(parvacuum_reset_options);
PG_FUNCTION_INFO_V1(parvacuum_check_preloaded);

/* Positions of the arguments, the same in both SQL forms. */
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
	ARG_VERBOSE
};

#define PV_RUN_COLUMNS			29
#define PV_SWEEP_COLUMNS		7
#define PV_OPTIONS_COLUMNS		(2 * PV_NUM_OPTIONS + 1)

extern PGDLLEXPORT void _PG_init(void);

/* Called once in each process that loads the library. */
void
_PG_init(void)
{
	pv_guc_init();

	if (!process_shared_preload_libraries_in_progress)
		return;

	pv_shmem_register(pv_reserve_shmem_size, NULL, pv_reserve_shmem_startup);
	pv_shmem_register(pv_cost_shmem_size, NULL, pv_cost_shmem_startup);
	pv_shmem_register(pv_queue_shmem_size, pv_queue_request_lock, pv_queue_shmem_startup);
	pv_shmem_register(pv_runs_shmem_size, pv_runs_request_lock, pv_runs_shmem_startup);
	pv_shmem_register(pv_inprogress_shmem_size, pv_inprogress_request_lock, pv_inprogress_shmem_startup);
	pv_shmem_register(pv_options_shmem_size, NULL, pv_options_shmem_startup);
	pv_shmem_init();
	pv_cost_count_workers = pv_queue_nworkers;
	pv_hook_init();
	pv_command_init();
	pv_launcher_init();
}


/* ----------------------------------------------------------------
 *		Checks that need no table
 * ----------------------------------------------------------------
 */

/*
 * Does something else than the client's own statement call us?
 *
 * A C function is not told.  What gives it away: PL/pgSQL and all that runs
 * queries through SPI is connected to SPI, and a harmless request tells that;
 * a query inside a function of language SQL runs in an executor other than the
 * one of the active portal; a SECURITY DEFINER function has its own security
 * context.
 *
 * Not caught: a SQL function (not SECURITY DEFINER) within a statement whose
 * portal does not show its executor, as INSERT ... SELECT.  That is harmless:
 * the vacuum's transactions are the background leader's own, and the caller's are not
 * touched.  It would only hold back the horizon for longer, or run into the
 * caller's locks, which is checked by itself.
 */
static bool
called_from_function(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	if (SPI_unregister_relation("") != SPI_ERROR_UNCONNECTED)
		return true;

	if (InLocalUserIdChange() || InSecurityRestrictedOperation())
		return true;

	return rsinfo != NULL && IsA(rsinfo, ReturnSetInfo) &&
		ActivePortal != NULL && ActivePortal->queryDesc != NULL &&
		ActivePortal->queryDesc->estate != rsinfo->econtext->ecxt_estate;
}

/*
 * Refuses the function where VACUUM would be refused.
 *
 * Core: xact.c, PreventInTransactionBlock, which has no hints; it comes last
 * for what it knows of pipelines.
 */
static void
check_function_call(FunctionCallInfo fcinfo, const char *what)
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

/* Refuses the procedure where it could not commit. */
static void
check_procedure_call(FunctionCallInfo fcinfo, const char *what)
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

/* An argument that has no meaning for NULL must not be NULL. */
static void
check_not_null(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", name),
				 errhint("Leave it out to have its default.")));
}

static bool
bool_arg(FunctionCallInfo fcinfo, int arg, const char *name)
{
	check_not_null(fcinfo, arg, name);
	return PG_GETARG_BOOL(arg);
}

/*
 * The number of workers as VacuumParams has it: 0 the engine decides, -1 none.
 * A number above what the settings allow is lowered, and a notice says so.
 */
static int
workers_arg(FunctionCallInfo fcinfo)
{
	int			workers;
	int			cap = Min(max_parallel_maintenance_workers, pv_guc_max_workers);

	if (PG_ARGISNULL(ARG_WORKERS))
		return 0;

	workers = PG_GETARG_INT32(ARG_WORKERS);
	if (workers < 0 || workers > MAX_PARALLEL_WORKER_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of workers must be between 0 and %d",
						MAX_PARALLEL_WORKER_LIMIT),
				 errhint("0 is none.  NULL lets parvacuum decide.")));
	if (workers > cap)
	{
		ereport(NOTICE,
				(errmsg("number of workers lowered from %d to %d", workers, cap),
				 errdetail("max_parallel_maintenance_workers is %d and parvacuum.max_workers is %d.",
						   max_parallel_maintenance_workers,
						   pv_guc_max_workers)));
		workers = cap;
	}

	return workers == 0 ? -1 : workers;
}

/*
 * The words of VACUUM's INDEX_CLEANUP.  'auto' is also the default, and the
 * default of VACUUM asks the table's vacuum_index_cleanup first, so we leave
 * it unspecified.
 */
static VacOptValue
index_cleanup_arg(FunctionCallInfo fcinfo)
{
	static const struct
	{
		const char *word;
		VacOptValue value;
	}			words[] = {
		{"auto", VACOPTVALUE_UNSPECIFIED},
		{"on", VACOPTVALUE_ENABLED},
		{"true", VACOPTVALUE_ENABLED},
		{"1", VACOPTVALUE_ENABLED},
		{"off", VACOPTVALUE_DISABLED},
		{"false", VACOPTVALUE_DISABLED},
		{"0", VACOPTVALUE_DISABLED},
	};
	char	   *given;

	check_not_null(fcinfo, ARG_INDEX_CLEANUP, "index_cleanup");
	given = text_to_cstring(PG_GETARG_TEXT_PP(ARG_INDEX_CLEANUP));
	for (size_t i = 0; i < lengthof(words); i++)
	{
		if (pg_strcasecmp(given, words[i].word) == 0)
			return words[i].value;
	}

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for index_cleanup: \"%s\"", given),
			 errhint("Valid values are \"auto\", \"on\", and \"off\".")));
	return VACOPTVALUE_UNSPECIFIED; /* keep compiler quiet */
}

/*
 * Reads the arguments.  Nothing is looked up in the catalogs here.
 *
 * Core: vacuum.c, ExecVacuum.
 */
static void
read_request(FunctionCallInfo fcinfo, PvRequest *request)
{
	VacuumParams *params = &request->params;
	bool		freeze;

	if (PG_ARGISNULL(ARG_REL))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table to vacuum must not be null"),
				 errhint("Name the table as the first argument.")));

	memset(request, 0, sizeof(*request));
	request->relid = PG_GETARG_OID(ARG_REL);
	freeze = bool_arg(fcinfo, ARG_FREEZE, "freeze");

	params->options = VACOPT_VACUUM | PV_VACOPT_PROCESS_ALL;
	if (freeze)
		params->options |= VACOPT_FREEZE;
	if (bool_arg(fcinfo, ARG_ANALYZE, "analyze"))
		params->options |= VACOPT_ANALYZE;
	if (bool_arg(fcinfo, ARG_SKIP_LOCKED, "skip_locked"))
		params->options |= VACOPT_SKIP_LOCKED;
	if (bool_arg(fcinfo, ARG_DISABLE_PAGE_SKIPPING, "disable_page_skipping"))
		params->options |= VACOPT_DISABLE_PAGE_SKIPPING;
	if (bool_arg(fcinfo, ARG_VERBOSE, "verbose"))
		params->options |= VACOPT_VERBOSE;

	/* -1: the settings and the table's options decide */
	params->freeze_min_age = freeze ? 0 : -1;
	params->freeze_table_age = freeze ? 0 : -1;
	params->multixact_freeze_min_age = freeze ? 0 : -1;
	params->multixact_freeze_table_age = freeze ? 0 : -1;
	pv_default_eager_failure_rate(params);

	params->is_wraparound = false;
	params->log_min_duration = -1;
	params->index_cleanup = index_cleanup_arg(fcinfo);
	params->nworkers = workers_arg(fcinfo);

	/* open: core asks the table, and the engine may skip one that gains little */
	if (PG_ARGISNULL(ARG_TRUNCATE))
		params->truncate = VACOPTVALUE_UNSPECIFIED;
	else if (PG_GETARG_BOOL(ARG_TRUNCATE))
		params->truncate = VACOPTVALUE_ENABLED;
	else
		params->truncate = VACOPTVALUE_DISABLED;
}


/* ----------------------------------------------------------------
 *		Checks of the table
 * ----------------------------------------------------------------
 */

/*
 * Opens the table without a lock, which we must not hold while the background leader
 * works: a lock of ours could be in its way.  The background leader looks again, with one.
 */
static Relation
peek_relation(Oid relid)
{
	Relation	rel;

	AcceptInvalidationMessages();
	rel = RelationIdGetRelation(relid);
	if (!RelationIsValid(rel))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errhint("Name the table that is to be vacuumed.")));
	return rel;
}

/* Is it something to vacuum, in another process, by this role? */
static void
check_relation(Oid relid)
{
	Relation	rel = peek_relation(relid);
	char	   *relname = pstrdup(RelationGetRelationName(rel));
	char		relkind = rel->rd_rel->relkind;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW &&
		relkind != RELKIND_TOASTVALUE && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot vacuum \"%s\"", relname),
				 errdetail_relkind_not_supported(relkind),
				 errhint("Only tables, partitioned tables, materialized views, and TOAST tables can be vacuumed.")));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot vacuum temporary table \"%s\" in another process",
						relname),
				 errdetail("Only the session that has created it can vacuum it."),
				 errhint("Use VACUUM.")));
	if (!pv_may_vacuum(relid, rel->rd_rel->relisshared))
		pv_refuse_vacuum(ERROR, relname);

	RelationClose(rel);
}

/*
 * Refuses a table that this transaction has locked against a vacuum.  Locks on
 * its partitions or through others are found while waiting.
 */
static void
check_not_locked(Oid relid)
{
	Relation	rel = peek_relation(relid);

	if (CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot vacuum table \"%s\" because this session has locked it",
						RelationGetRelationName(rel)),
				 errdetail("The vacuum runs in another process, which would wait for that lock."),
				 errhint("Release the lock first.")));

	RelationClose(rel);
}


/* ----------------------------------------------------------------
 *		Results
 * ----------------------------------------------------------------
 */

/*
 * Puts one row into the result set.  Of a table that core vacuumed only the
 * usage is known; the rest is null.
 */
static void
put_row(ReturnSetInfo *rsinfo, const PvResult *result)
{
	Datum		values[PV_RUN_COLUMNS];
	bool		nulls[PV_RUN_COLUMNS];
	bool		ours = result->by_engine;
	int			n = 0;

	memset(nulls, 0, sizeof(nulls));

/* known: always, or only of a vacuum by the engine */
#define PUT(value, known) \
	do { nulls[n] = !(known); values[n++] = (value); } while (0)
#define PUT_MSECS(usecs, known) \
	PUT(Float8GetDatum((usecs) / 1000.0), known)

	PUT(ObjectIdGetDatum(result->relid), true);
	PUT(Int32GetDatum(result->workers_planned), ours);
	PUT(Int32GetDatum(result->workers_launched), ours);
	PUT(Int64GetDatum((int64) result->pages_total), ours);
	PUT(Int64GetDatum((int64) result->pages_scanned), ours);
	PUT(Int64GetDatum((int64) result->pages_removed), ours);
	PUT(Int64GetDatum(result->tuples_removed), ours);
	PUT(Int64GetDatum(result->tuples_remaining), ours);
	PUT(BoolGetDatum(result->remaining_estimated), ours);
	PUT(Int64GetDatum(result->tuples_recently_dead), ours);
	PUT(Int64GetDatum(result->tuples_missed), ours);
	PUT(Int64GetDatum(result->dead_items), ours);
	PUT(Int32GetDatum(result->index_scans), ours);
	PUT(Int64GetDatum(result->dead_tuple_bytes), ours);
	PUT_MSECS(result->usecs[PV_PHASE_SCAN], ours);
	PUT_MSECS(result->usecs[PV_PHASE_INDEX], ours);
	PUT_MSECS(result->usecs[PV_PHASE_VACUUM_HEAP], ours);
	PUT_MSECS(result->usecs[PV_PHASE_CLEANUP], ours);
	PUT_MSECS(result->usecs[PV_PHASE_TRUNCATE], ours);
	PUT_MSECS(result->elapsed_usecs, true);
	PUT(Int64GetDatum(result->wal_records), true);
	PUT(Int64GetDatum(result->wal_fpi), true);
	PUT(NumericGetDatum(int64_to_numeric((int64) result->wal_bytes)), true);
	PUT(Int64GetDatum(result->buffers_hit), true);
	PUT(Int64GetDatum(result->buffers_read), true);
	PUT(Int64GetDatum(result->buffers_dirtied), true);
	PUT(TransactionIdGetDatum(result->oldest_xmin), ours);
	PUT(BoolGetDatum(result->relfrozenxid_advanced), ours);
	PUT(BoolGetDatum(result->index_scan_bypassed), ours);
#undef PUT_MSECS
#undef PUT

	Assert(n == PV_RUN_COLUMNS);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * What became of the rows, and why some of them may have stayed, in full sentences.
 */
static char *
describe_rows(const PvResult *result)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "%lld rows were removed, %s%lld remain, and %lld are dead but not yet removable.",
					 (long long) result->tuples_removed,
					 result->remaining_estimated ? "about " : "",
					 (long long) result->tuples_remaining,
					 (long long) result->tuples_recently_dead);
	if (result->tuples_missed > 0)
		appendStringInfo(&buf, "  %lld dead rows were left on pages that were in use.",
						 (long long) result->tuples_missed);
	appendStringInfo(&buf, "  The removable cutoff was transaction ID %u, which is %d XIDs old now.",
					 result->oldest_xmin,
					 (int32) (ReadNextTransactionId() - result->oldest_xmin));
	appendStringInfo(&buf, "  It took %.3f s, with %d workers and %d index scans.",
					 result->elapsed_usecs / 1000000.0,
					 result->workers_launched, result->index_scans);
	return buf.data;
}

/* What the procedure has in place of a row. */
static void
report_entry(const PvRunEntry *entry)
{
	const PvResult *result = &entry->result;
	char	   *relname = pv_qualified_relname(result->relid);

	ereport(NOTICE,
			(OidIsValid(entry->toast_parent) ?
			 errmsg("vacuumed TOAST table \"%s\" of table \"%s\"", relname,
					pv_qualified_relname(entry->toast_parent)) :
			 errmsg("vacuumed table \"%s\"", relname),
			 result->by_engine ?
			 errdetail("%s", describe_rows(result)) :
			 errdetail("PostgreSQL's own VACUUM took %.3f s.",
					   result->elapsed_usecs / 1000000.0),
			 result->by_engine && result->tuples_recently_dead > 0 ?
			 errhint("Old transactions, prepared transactions, replication slots, and standbys can hold back the removable cutoff.") : 0));
}


/* ----------------------------------------------------------------
 *		The SQL functions
 * ----------------------------------------------------------------
 */

/* parvacuum_run(rel, ...): one row for each table vacuumed. */
Datum
parvacuum_run(PG_FUNCTION_ARGS)
{
	const char *what = "parvacuum_run()";
	PvRequest	request;
	ListCell   *lc;

	pv_hook_check_server(what);
	check_function_call(fcinfo, what);
	InitMaterializedSRF(fcinfo, 0);
	read_request(fcinfo, &request);
	check_relation(request.relid);
	check_not_locked(request.relid);

	foreach(lc, pv_run_in_background(&request))
	{
		PvRunEntry *entry = lfirst(lc);

		put_row((ReturnSetInfo *) fcinfo->resultinfo, &entry->result);
	}

	return (Datum) 0;
}

/*
 * Ends the transaction, and with it its snapshot and locks; another one begins.
 * SPI is the only way for a procedure.
 */
static void
commit_procedure(void)
{
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	SPI_finish();
}

/* CALL parvacuum(rel, ...): commits first; one notice for each table. */
Datum
parvacuum_call(PG_FUNCTION_ARGS)
{
	const char *what = "CALL parvacuum()";
	PvRequest	request;
	ListCell   *lc;

	pv_hook_check_server(what);
	check_procedure_call(fcinfo, what);
	read_request(fcinfo, &request);
	check_relation(request.relid);

	commit_procedure();
	check_not_locked(request.relid);

	foreach(lc, pv_run_in_background(&request))
		report_entry(lfirst(lc));

	PG_RETURN_VOID();
}

static Oid
index_arg(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the index must not be null"),
				 errhint("Name an index.")));
	return PG_GETARG_OID(0);
}

/* What may be swept: an index, by those who may vacuum its table, which is returned. */
static Oid
check_index(Oid indexoid)
{
	char		relkind = get_rel_relkind(indexoid);
	Oid			relid = IndexGetRelation(indexoid, true);
	char	   *relname;

	if (relkind == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", indexoid),
				 errhint("pg_indexes lists the indexes that there are.")));
	if (relkind != RELKIND_INDEX || !OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot sweep \"%s\"", get_rel_name(indexoid)),
				 errdetail_relkind_not_supported(relkind),
				 errhint("Only indexes can be swept, and of partitioned ones those of the partitions.")));
	relname = get_rel_name(relid);
	if (!pv_may_vacuum(relid, IsSharedRelation(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to sweep an index of table \"%s\"", relname),
				 errhint("Only who may vacuum the table can do that.")));
	return relid;
}

/* The same, and that it is still the index of that table. */
static void
check_index_again(Oid indexoid, Oid heapoid)
{
	if (check_index(indexoid) != heapoid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not find the table of index \"%s\"",
						get_rel_name(indexoid)),
				 errdetail("The index was dropped meanwhile, and another one created."),
				 errhint("Try again.")));
}

/*
 * Sweep an index, which has been found to be that of the table.  That may have been in
 * another transaction, so all is checked again before anything is locked, since nobody
 * may lock what he has no right to.  And once more with the locks, since it may have been
 * another one's by then, or another kind of relation under the same OID.
 *
 * Core: access/brin/brin.c, brin_summarize_range.
 */
static void
sweep(Oid indexoid, Oid heapoid, int workers, PvSweepResult *result)
{
	Relation	heaprel;
	Relation	indrel;
	PvEffectiveOptions options;

	check_index_again(indexoid, heapoid);
	heaprel = table_open(heapoid, RowExclusiveLock);
	indrel = index_open(indexoid, RowExclusiveLock);
	check_index_again(indexoid, heapoid);

	/* a TOAST table has no options of its own, so the setting holds for it */
	pv_options_look_up(heapoid, heaprel->rd_rel->relispartition, &options);
	pv_sweep_index(heaprel, indrel, workers,
				   options.value[PV_OPTION_BUFFER_USAGE_LIMIT], result);
	index_close(indrel, RowExclusiveLock);
	table_close(heaprel, RowExclusiveLock);
}

/*
 * CALL parvacuum_sweep_index(index): the same in a transaction of its own, without
 * a snapshot that holds anything back for long, and so without workers, who
 * would need one.
 */
Datum
parvacuum_sweep_call(PG_FUNCTION_ARGS)
{
	const char *what = "CALL parvacuum_sweep_index()";
	Oid			indexoid;
	Oid			heapoid;
	PvSweepResult result;

	pv_hook_check_server(what);
	check_procedure_call(fcinfo, what);
	indexoid = index_arg(fcinfo);
	heapoid = check_index(indexoid);

	commit_procedure();

	/* others keep the first snapshot to the end */
	XactIsoLevel = XACT_READ_COMMITTED;
	sweep(indexoid, heapoid, 0, &result);
	ereport(NOTICE,
			(errmsg("swept index \"%s\": " INT64_FORMAT " entries deleted from " INT64_FORMAT " of " INT64_FORMAT " pages, " INT64_FORMAT " bytes freed",
					get_rel_name(indexoid), result.tuples_deleted,
					result.pages_changed, result.pages_total,
					result.bytes_freed)));

	/* and what follows in a procedure is to have its own */
	commit_procedure();
	PG_RETURN_VOID();
}

/* parvacuum_sweep(index, workers): dead versions out of a B-tree, here and now. */
Datum
parvacuum_sweep(PG_FUNCTION_ARGS)
{
	const char *what = "parvacuum_sweep()";
	Oid			indexoid;
	Oid			heapoid;
	int			workers;
	PvSweepResult result;
	instr_time	start;
	instr_time	now;
	TupleDesc	desc;
	Datum		values[PV_SWEEP_COLUMNS];
	bool		nulls[PV_SWEEP_COLUMNS] = {false};
	int			n = 0;

	pv_hook_check_server(what);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	indexoid = index_arg(fcinfo);
	heapoid = check_index(indexoid);
	workers = workers_arg(fcinfo);

	/* as VacuumParams has it; for a sweep less than none is as many as it likes */
	workers = workers == 0 ? -1 : Max(workers, 0);

	INSTR_TIME_SET_CURRENT(start);
	sweep(indexoid, heapoid, workers, &result);
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);

	values[n++] = Int32GetDatum(result.workers_launched);
	values[n++] = Int64GetDatum(result.pages_total);
	values[n++] = Int64GetDatum(result.pages_visited);
	values[n++] = Int64GetDatum(result.pages_changed);
	values[n++] = Int64GetDatum(result.tuples_deleted);
	values[n++] = Int64GetDatum(result.bytes_freed);
	values[n++] = Float8GetDatum(INSTR_TIME_GET_MILLISEC(now));
	Assert(n == PV_SWEEP_COLUMNS);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * parvacuum_table_options(rel): what holds for a table, a value and where it
 * comes from for each option, and why the engine would decline it all the same.
 * All null for what is no table; a table that nobody has locked may be gone.
 */
Datum
parvacuum_table_options(PG_FUNCTION_ARGS)
{
	static const char *const origin_names[] = {
		[PV_ORIGIN_TABLE] = "table",
		[PV_ORIGIN_ANCESTOR] = "ancestor",
		[PV_ORIGIN_SETTING] = "setting",
		[PV_ORIGIN_DEFAULT] = "default",
	};
	Oid			relid = PG_GETARG_OID(0);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Datum		values[PV_OPTIONS_COLUMNS];
	bool		nulls[PV_OPTIONS_COLUMNS];
	PvEffectiveOptions effective;
	Form_pg_class form;
	const char *declined = NULL;
	TupleDesc	desc;
	int			n = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!HeapTupleIsValid(tuple))
		PG_RETURN_NULL();
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (!pv_relkind_has_options(form->relkind))
	{
		ReleaseSysCache(tuple);
		PG_RETURN_NULL();
	}

	pv_options_look_up(relid, form->relispartition, &effective);
	if (form->relkind != RELKIND_PARTITIONED_TABLE)
		declined = pv_hook_declines(form, InvalidOid);
	ReleaseSysCache(tuple);

	memset(nulls, 0, sizeof(nulls));
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		nulls[n] = effective.origin[i] == PV_ORIGIN_DEFAULT;
		if (i == PV_OPTION_ENABLED)
			values[n++] = BoolGetDatum(effective.value[i] > 0);
		else if (effective.text[i] != NULL)
			values[n++] = CStringGetTextDatum(effective.text[i]);
		else
			values[n++] = Int32GetDatum(effective.value[i]);
		values[n++] = CStringGetTextDatum(origin_names[effective.origin[i]]);
	}
	nulls[n] = declined == NULL || effective.value[PV_OPTION_ENABLED] <= 0;
	values[n] = nulls[n] ? (Datum) 0 : CStringGetTextDatum(declined);
	Assert(n == PV_OPTIONS_COLUMNS - 1);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * parvacuum_reset_options(): remove the options of all tables of this database, and
 * return how many tables had some.  It is for those who may vacuum all of them: the
 * owner of the database, and superusers.  Owners of some have ALTER TABLE for these.
 * It needs no preloaded library, and is what remains to be done without one.
 */
Datum
parvacuum_reset_options(PG_FUNCTION_ARGS)
{
	const char *what = "parvacuum_reset_options()";

	PreventCommandIfReadOnly(what);
	PreventCommandIfParallelMode(what);
	pv_guard_check_function(what);
	if (!pv_owns_database(MyDatabaseId, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to reset the parvacuum options of all tables"),
				 errhint("Only the owner of the database and superusers can do that.  The owner of a table can use ALTER TABLE ... RESET.")));
	PG_RETURN_INT32(pv_options_remove_all());
}

/* For the script of CREATE EXTENSION, which drops it again. */
Datum
parvacuum_check_preloaded(PG_FUNCTION_ARGS)
{
	pv_hook_warn_if_not_preloaded();
	PG_RETURN_VOID();
}
