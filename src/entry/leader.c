/*-------------------------------------------------------------------------
 *
 * leader.c
 *	  A vacuum in a process of its own: the background leader.
 *
 * This process acquires its caller's roles and settings, and executes a VACUUM
 * command as the caller's session would.  That leads to heap's slot and so to
 * the engine (entry/dispatch.c).  Rights and locks are those of VACUUM.  The
 * protocol between caller and leader is in entry/run.c.
 *
 * An error ends the process: bgworker.c sends it to the caller and exits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "commands/vacuum.h"
#include "libpq/pqformat.h"
#include "libpq/pqmq.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_node.h"
#include "parser/parser.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/shm_toc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/borrowed.h"
#include "base/process.h"
#include "entry/dispatch.h"
#include "entry/run.h"
#include "stats/registry.h"

/* The caller, to see whether it still exists */
static PGPROC *caller_proc;
static int	caller_pid;

/* OIDs of relations that were left for other sessions, in PortalContext */
static List *yielded = NIL;


/* ----------------------------------------------------------------
 *		Becoming the caller
 * ----------------------------------------------------------------
 */

/* Map the segment, which stays mapped until the process ends. */
static shm_toc *
attach_segment(Datum main_arg, dsm_segment **segment)
{
	shm_toc    *toc = NULL;

	*segment = dsm_attach(DatumGetUInt32(main_arg));
	if (*segment)
		toc = shm_toc_attach(PV_RUN_MAGIC, dsm_segment_address(*segment));
	if (toc == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not map the shared memory of a parvacuum run"),
				 errhint("The session that asked for it may have ended.")));
	return toc;
}

/* Attach to the queue.  From here on the caller gets what a client would. */
static void
attach_queue(shm_toc *toc, dsm_segment *segment)
{
	shm_mq	   *queue = shm_toc_lookup(toc, PV_KEY_QUEUE, false);

	shm_mq_set_sender(queue, MyProc);
	pq_redirect_to_shm_mq(segment, shm_mq_attach(queue, segment, NULL));
	caller_proc = shm_mq_get_receiver(queue);
}

/*
 * Connect to the database, and acquire the caller's roles and settings.
 *
 * The process connects as the bootstrap superuser and without the check of
 * datallowconn: the caller is connected, but its role may be one that cannot
 * log in.  Then the caller's roles are installed, and none of this can be seen
 * from SQL.
 *
 * Core: access/transam/parallel.c, ParallelWorkerMain.
 */
static void
become_caller(shm_toc *toc, const PvRunShared *shared)
{
	PvIdentity	caller = {shared->session_user_id, shared->session_user_id};

	BackgroundWorkerInitializeConnectionByOid(shared->database_id, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);

	SetSessionAuthorization(shared->session_user_id,
							shared->session_user_is_superuser);
	SetCurrentRoleId(shared->role_id, shared->role_is_superuser);
	pv_process_show_identity(&caller);

	StartTransactionCommand();
	RestoreLibraryState(shm_toc_lookup(toc, PV_KEY_LIBRARIES, false));
	pv_restore_settings_of_caller(shm_toc_lookup(toc, PV_KEY_GUC, false));
	CommitTransactionCommand();

	/* the settings include "role", which is not that of a definer */
	SetCurrentRoleId(shared->role_id, shared->role_is_superuser);

	/* before PG 17 core lets functions of owners use the caller's path */
	SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_USERSET,
					PGC_S_SESSION);

	/* the caller converts the messages for its client */
	SetClientEncoding(GetDatabaseEncoding());
}

/*
 * Set what pg_stat_activity and the log show of this process and of its
 * workers: the VACUUM command by which others know a vacuum, and whose process
 * this is.  The setting application_name stays the caller's.
 */
static void
show_activity(const PvRunShared *shared)
{
	/* a copy, since the log may show it when the segment is unmapped */
	debug_query_string = MemoryContextStrdup(TopMemoryContext,
											 shared->command);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	pgstat_report_query_id(shared->query_id, true);
	pgstat_report_appname(psprintf("parvacuum run for PID %d",
								   shared->caller_pid));
}


/* ----------------------------------------------------------------
 *		Vacuuming
 * ----------------------------------------------------------------
 */

/*
 * Send a message to the caller.  A caller that stops waiting stops us first.
 * If it is gone without that, its place in the process array is empty or
 * belongs to another process, and this process ends.
 */
static void
send_message(char type, const void *body, Size len)
{
	StringInfoData message;

	if (caller_proc->pid != caller_pid)
		ereport(FATAL,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("terminating background leader of parvacuum because its caller is gone")));

	pq_beginmessage(&message, type);
	pq_sendbytes(&message, body, len);
	pq_endmessage(&message);
}

/*
 * Report a relation that has been vacuumed.  One whose vacuum has ended early
 * for another session is vacuumed again, and reported then.
 */
static void
report_entry(const PvRunEntry *entry)
{
	if (entry->result.ended_early == PV_END_YIELD)
	{
		MemoryContext old_context = MemoryContextSwitchTo(PortalContext);

		yielded = lappend_oid(yielded, entry->result.relid);
		MemoryContextSwitchTo(old_context);
		return;
	}
	send_message(PV_MSG_RESULT, entry, sizeof(*entry));
}

/*
 * Add a relation to a list for vacuum(), unless it is gone.  The name is for the
 * warning that it could not be opened.
 */
static List *
add_relation(List *relations, Oid relid)
{
	char	   *name = get_rel_name(relid);
	char	   *schema = get_namespace_name(get_rel_namespace(relid));

	if (name == NULL || schema == NULL)
		return relations;
	return lappend(relations,
				   makeVacuumRelation(makeRangeVar(schema, name, -1), relid,
									  NIL));
}

/*
 * List what to vacuum: the table, and its partitions or children, which
 * vacuum() does not look for itself if it is given an OID.  With the OID the
 * table stays the same one if it is renamed meanwhile, and no right to use its
 * schema is needed.  The partitioned table stays in the list, for ANALYZE.  A
 * partition that the caller may not vacuum is left out with core's warning.
 * With SKIP_LOCKED, return NIL after a warning if the table is locked.
 *
 * Core: commands/vacuum.c, expand_vacuum_rel.
 */
static List *
list_relations(const PvRunShared *run)
{
	List	   *relations = NIL;
	ListCell   *lc;
	Form_pg_class form;

	if (!run->skip_locked)
		LockRelationOid(run->relid, AccessShareLock);
	else if (!ConditionalLockRelationOid(run->relid, AccessShareLock))
	{
		ereport(WARNING,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("skipping vacuum of table \"%s\" because it is locked",
						pv_qualified_relname(run->relid, false))));
		return NIL;
	}
	form = pv_class_row(run->relid);
	if (form == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u no longer exists", run->relid),
				 errhint("It was dropped when the vacuum was about to begin.")));
	if (!pv_may_vacuum(run->relid))
		pv_refuse_vacuum(ERROR, NameStr(form->relname));
	foreach(lc, pv_expand_relation(run->relid, form->relkind))
		relations = add_relation(relations, lfirst_oid(lc));
	UnlockRelationOid(run->relid, AccessShareLock);
	return relations;
}

/*
 * Return the relations that were left for other sessions, in a list like that
 * of list_relations().  These sessions have waited already, so they get the
 * table before this process does.
 */
static List *
take_yielded(void)
{
	MemoryContext old_context = MemoryContextSwitchTo(PortalContext);
	List	   *relations = NIL;
	ListCell   *lc;

	foreach(lc, yielded)
		relations = add_relation(relations, lfirst_oid(lc));
	list_free(yielded);
	yielded = NIL;
	MemoryContextSwitchTo(old_context);
	return relations;
}

/*
 * Execute the VACUUM command, on the relations that its table stands for.
 * vacuum() must be entered within a transaction, and leaves within another
 * one.  What it works on must outlive both, so that is under PortalContext,
 * which only sessions have.
 */
static void
execute(const PvRunShared *run)
{
	MemoryContext old_context;
	VacuumStmt *vacuum;
	RawStmt    *statement;
	ParseState *state;

	pv_set_portal_context(AllocSetContextCreate(TopMemoryContext,
												"parvacuum run",
												ALLOCSET_DEFAULT_SIZES));

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	old_context = MemoryContextSwitchTo(PortalContext);
	statement = linitial_node(RawStmt, raw_parser(debug_query_string,
												  RAW_PARSE_DEFAULT));
	state = make_parsestate(NULL);
	vacuum = castNode(VacuumStmt, statement->stmt);
	vacuum->rels = list_relations(run);
	MemoryContextSwitchTo(old_context);
	while (vacuum->rels != NIL)
	{
		ExecVacuum(state, vacuum, true);
		vacuum->rels = take_yielded();
	}
	CommitTransactionCommand();
}

/*
 * The background leader.
 *
 * The handler of SIGTERM that background workers start with raises FATAL at
 * once, in critical sections too.  So replace it, before signals are
 * unblocked, by one that sets an interrupt.  SIGHUP stays ignored: the
 * settings are those of the caller's statement.  SIGINT cancels, as in a
 * session.
 */
void
parvacuum_leader_main(Datum main_arg)
{
	dsm_segment *segment;
	shm_toc    *toc;
	const PvRunShared *shared;
	PvUsage		usage;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	CurrentMemoryContext = AllocSetContextCreate(TopMemoryContext,
												 "parvacuum background leader",
												 ALLOCSET_DEFAULT_SIZES);

	toc = attach_segment(main_arg, &segment);
	shared = shm_toc_lookup(toc, PV_KEY_SHARED, false);
	pv_registry_lead_run(shared->session_user_id, shared->caller_pid,
						 shared->database_id, shared->relid);
	attach_queue(toc, segment);
	pv_history_set_reason(&shared->reason);

	caller_pid = shared->caller_pid;
	pv_dispatch_for_run(report_entry, shared->truncate_is_open,
						shared->deadline, !shared->skip_locked);

	become_caller(toc, shared);
	show_activity(shared);

	InstrStartParallelQuery();
	execute(shared);
	InstrEndParallelQuery(&usage.buffers, &usage.wal);

	send_message(PV_MSG_DONE, &usage, sizeof(usage));
}
