/*-------------------------------------------------------------------------
 *
 * leader.c
 *	  A vacuum in a process of its own: the background leader.
 *
 * The background leader is the process that parvacuum_run() and CALL
 * parvacuum() start.  entry/run.c has the protocol between it and its caller.
 * It connects to the caller's database, acquires the caller's roles and
 * settings, and hands the table to core's vacuum().  That leads to heap's slot
 * and so to the engine (entry/dispatch.c).
 *
 * An error ends the process: bgworker.c sends it to the caller and exits.
 *
 * Locks.  It takes an AccessShareLock on the table while it lists what to
 * vacuum, and gives it back.  All other locks are those of vacuum().
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/instrument.h"
#include "libpq/pqformat.h"
#include "libpq/pqmq.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/shm_mq.h"
#include "storage/shm_toc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/ring.h"
#include "entry/dispatch.h"
#include "entry/relation.h"
#include "entry/rights.h"
#include "entry/run.h"
#include "stats/registry.h"

/* One background leader, for as long as its process lives. */
typedef struct Leader
{
	PvRun		run;			/* first, so that the run's callbacks find us */
	const PvRequest *request;

	/* the caller, to see whether it still exists */
	PGPROC	   *caller_proc;
	int			caller_pid;

	/* what core's vacuum() is called with */
	List	   *relations;		/* VacuumRelation * */
	BufferAccessStrategy strategy;
} Leader;


/* ----------------------------------------------------------------
 *		Becoming the caller
 * ----------------------------------------------------------------
 */

/* The run is over before it has begun. */
static void
refuse_to_run(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not map the shared memory of a parvacuum run"),
			 errhint("The session that asked for it may have ended.")));
}

/* Map the segment, which stays mapped until the process ends. */
static shm_toc *
attach_segment(Datum main_arg, dsm_segment **segment)
{
	shm_toc    *toc = NULL;

	*segment = dsm_attach(DatumGetUInt32(main_arg));
	if (*segment)
		toc = shm_toc_attach(PV_RUN_MAGIC, dsm_segment_address(*segment));
	if (toc == NULL)
		refuse_to_run();
	return toc;
}

/*
 * Attach to the queue.  From here on the caller gets what a client would
 * get.
 */
static void
attach_queue(Leader *leader, shm_toc *toc, dsm_segment *segment)
{
	const PvRunShared *shared = shm_toc_lookup(toc, PV_KEY_SHARED, false);
	shm_mq	   *queue = shm_toc_lookup(toc, PV_KEY_QUEUE, false);

	shm_mq_set_sender(queue, MyProc);
	pq_redirect_to_shm_mq(segment, shm_mq_attach(queue, segment, NULL));

	leader->caller_proc = shm_mq_get_receiver(queue);
	leader->caller_pid = shared->caller_pid;
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

	/* the caller converts the messages for its client */
	SetClientEncoding(GetDatabaseEncoding());
}

/*
 * Set what pg_stat_activity and the log show of this process and of its
 * workers: the VACUUM command by which others know a vacuum.  The setting
 * application_name stays the caller's, but pg_stat_activity shows whose
 * process this is, also while it waits for a lock and is in no other view.
 */
static void
show_activity(shm_toc *toc, const PvRunShared *shared)
{
	/* a copy, since the log may show it when the segment is unmapped */
	debug_query_string =
		MemoryContextStrdup(TopMemoryContext,
							shm_toc_lookup(toc, PV_KEY_TEXT, false));
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
send_message(const Leader *leader, char type, const void *body, Size len)
{
	StringInfoData message;

	if (leader->caller_proc->pid != leader->caller_pid)
		ereport(FATAL,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("terminating background leader of parvacuum because its caller is gone")));

	pq_beginmessage(&message, type);
	pq_sendbytes(&message, body, len);
	pq_endmessage(&message);
}

/* Callback of the run: the vacuum of a relation begins. */
static void
begin_relation(PvRun *run, Oid relid)
{
	send_message((Leader *) run, PV_MSG_BEGIN, &relid, sizeof(relid));
}

/* Callback of the run: the relation has been vacuumed. */
static void
end_relation(PvRun *run, const PvRunEntry *entry)
{
	send_message((Leader *) run, PV_MSG_RESULT, entry, sizeof(*entry));
}

/*
 * Lock the table while we list what to vacuum.  With SKIP_LOCKED, return
 * false after a warning if the table is locked.
 */
static bool
lock_for_look(const PvRequest *request)
{
	if ((request->params.options & VACOPT_SKIP_LOCKED) == 0)
		LockRelationOid(request->relid, AccessShareLock);
	else if (!ConditionalLockRelationOid(request->relid, AccessShareLock))
	{
		ereport(WARNING,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("skipping vacuum of table \"%s\" because it is locked",
						pv_qualified_relname(request->relid))));
		return false;
	}
	return true;
}

/*
 * Return one item for core's vacuum(), or NULL if the table no longer
 * exists.  It has the OID, so that a table that is renamed in the meantime
 * stays the same table, and the name for the warning that it could not be
 * opened.
 */
static VacuumRelation *
vacuum_item(Oid relid)
{
	char	   *name = get_rel_name(relid);
	char	   *schema = get_namespace_name(get_rel_namespace(relid));

	if (name == NULL || schema == NULL)
		return NULL;
	return makeVacuumRelation(makeRangeVar(schema, name, -1), relid, NIL);
}

/*
 * List what to vacuum: the table, and its partitions or children, which
 * vacuum() does not look for itself if it is given an OID.  The partitioned
 * table stays in the list, for ANALYZE.  Takes an AccessShareLock on the table
 * and give it back: vacuum() finds what changes afterwards, table by table.
 *
 * The table named must exist, and the caller must have the right to vacuum
 * it.  A partition without that right is left out with core's warning.
 *
 * Core: commands/vacuum.c, expand_vacuum_rel.
 */
static List *
list_relations(const PvRequest *request)
{
	List	   *relations = NIL;
	List	   *oids;
	ListCell   *lc;
	HeapTuple	tuple;
	Form_pg_class form;

	if (!lock_for_look(request))
		return NIL;

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(request->relid));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u no longer exists",
						request->relid),
				 errhint("It was dropped when the vacuum was about to begin.")));
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (!pv_may_vacuum(request->relid, form->relisshared))
		pv_refuse_vacuum(ERROR, NameStr(form->relname));

	oids = pv_expand_relation(request->relid, form->relkind);
	ReleaseSysCache(tuple);

	foreach(lc, oids)
	{
		VacuumRelation *item = vacuum_item(lfirst_oid(lc));

		if (item)
			relations = lappend(relations, item);
	}
	UnlockRelationOid(request->relid, AccessShareLock);

	return relations;
}

/* Call core's vacuum(); within the run. */
static void
call_vacuum(void *arg)
{
	Leader	   *leader = arg;
	VacuumParams params = leader->request->params;

	pv_vacuum(leader->relations, &params, leader->strategy, PortalContext);
}

/*
 * Let core vacuum all of it, in transactions of its own, and report each
 * relation through the run.  vacuum() must be entered within a transaction,
 * and leaves within another one.  Its arguments must outlive both.  It keeps
 * its own data under PortalContext, which only sessions have.
 */
static void
vacuum_relations(Leader *leader)
{
	MemoryContext old_context;

	pv_set_portal_context(AllocSetContextCreate(TopMemoryContext,
												"parvacuum run",
												ALLOCSET_DEFAULT_SIZES));

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();

	old_context = MemoryContextSwitchTo(PortalContext);
	leader->relations = list_relations(leader->request);
	leader->strategy = pv_vacuum_strategy();
	MemoryContextSwitchTo(old_context);

	if (leader->relations != NIL)
		pv_dispatch_run(&leader->run, call_vacuum, leader);

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
	Leader		leader = {0};
	PvUsage		usage;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	CurrentMemoryContext = AllocSetContextCreate(TopMemoryContext,
												 "parvacuum background leader",
												 ALLOCSET_DEFAULT_SIZES);

	toc = attach_segment(main_arg, &segment);
	shared = shm_toc_lookup(toc, PV_KEY_SHARED, false);
	pv_registry_lead_run(shared->session_user_id, shared->caller_pid,
						 shared->database_id, shared->request.relid);
	attach_queue(&leader, toc, segment);
	pv_history_set_reason(shm_toc_lookup(toc, PV_KEY_REASON, false));

	leader.request = &shared->request;
	leader.run.begin_relation = begin_relation;
	leader.run.end_relation = end_relation;
	leader.run.truncate_is_open =
		shared->request.params.truncate == VACOPTVALUE_UNSPECIFIED;

	become_caller(toc, shared);
	show_activity(toc, shared);

	memset(&usage, 0, sizeof(usage));
	InstrStartParallelQuery();
	vacuum_relations(&leader);
	InstrEndParallelQuery(&usage.buffers, &usage.wal);

	send_message(&leader, PV_MSG_DONE, &usage, sizeof(usage));
}
