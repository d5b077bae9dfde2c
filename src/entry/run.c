/*-------------------------------------------------------------------------
 *
 * run.c
 *	  A vacuum in a process of its own, and waiting for it.
 *
 * A vacuum commits and begins transactions, which a function cannot do in its
 * caller's.  So parvacuum_run() and CALL parvacuum() (parvacuum.c) start a
 * background worker, the background leader, and wait for it.  The background leader becomes the caller, as far as rights and settings go,
 * hands the table to core's vacuum(), and leads the parallel workers that the
 * engine then wants.
 *
 *		caller								background leader
 *		------								------
 *		segment: who I am, what to do,
 *		   settings, text, queue
 *		start					 ------->	attach, become the caller
 *										   vacuum(): for each relation
 *		   remembers it			<-- 'b' --	   it is begun
 *		   raises it here		<-- 'N' --	   notices, warnings, infos
 *		   keeps it				<-- 'r' --	   what was done
 *		   adds it to its own	<-- 'd' --	done: blocks and WAL used
 *		   raises it here		<-- 'E' --	or an error, and the end
 *		waits for the exit
 *
 * One queue carries all of it, so everything arrives in the order in which it
 * happened.  The segment is filled before the background leader starts and only read
 * after that; the queue has its own spinlock.
 *
 * Who waits for whom.  The caller sleeps on its latch, and a latch is no lock:
 * the deadlock detector sees nothing.  So a caller that holds a lock in the
 * background leader's way is refused where that shows beforehand (parvacuum.c), and while
 * waiting it looks from time to time whether the background leader waits for it (see
 * check_deadlock).  Whatever ends the caller's wait, an error, a cancel, the
 * end of the session, first terminates the background leader and waits until it is gone.
 * The background leader for its part looks at each table whether its caller is still there.
 *
 * Horizon.  A function's caller holds a snapshot as long as the run lasts, and
 * dead rows that the snapshot might see are not removed, in no table of the
 * database.  The procedure commits first and waits without a snapshot; long
 * runs should use it.
 *
 * The first half of the file is run by the caller, the second by the background leader.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "executor/instrument.h"
#include "libpq/pqformat.h"
#include "libpq/pqmq.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shm_mq.h"
#include "storage/shm_toc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/backend_status.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/ring.h"
#include "base/settings.h"
#include "base/wait.h"
#include "entry/dispatch.h"
#include "entry/run.h"
#include "entry/runs.h"

/* The segment's table of contents. */
#define PV_LEADER_MAGIC			0x70767231
#define PV_KEY_SHARED			1	/* PvLeaderShared */
#define PV_KEY_GUC				2	/* the caller's settings */
#define PV_KEY_LIBRARIES		3	/* the libraries that they may belong to */
#define PV_KEY_TEXT				4	/* the caller's statement */
#define PV_KEY_QUEUE			5	/* shm_mq, background leader to caller */

#define PV_QUEUE_SIZE			((Size) 16384)

/* What the queue carries beside the protocol's own 'E' and 'N'. */
#define PV_MSG_BEGIN			'b' /* Oid: a relation is begun */
#define PV_MSG_RESULT			'r' /* PvRunEntry: and done */
#define PV_MSG_DONE				'd' /* PvUsage: the run is complete */

/* Blocks and WAL that the background leader and its workers used. */
typedef struct PvUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} PvUsage;

/* Set before the background leader starts, then read-only. */
typedef struct PvLeaderShared
{
	int			caller_pid;
	Oid			database_id;
	Oid			session_user_id;
	bool		session_user_is_superuser;
	Oid			role_id;		/* of SET ROLE, or invalid */
	bool		role_is_superuser;
	uint64		query_id;
	PvRunPlace	place;
	PvRequest	request;
} PvLeaderShared;

/* The caller's hold on a background leader. */
typedef struct PvCall
{
	const PvRequest *request;
	char	   *relname;		/* qualified, for messages */
	PvRunPlace	place;
	dsm_segment *segment;
	BackgroundWorkerHandle *handle; /* NULL before the start */
	shm_mq_handle *queue;		/* NULL when detached */
	MemoryContext message_context;	/* for one message of the background leader */
	ErrorContextCallback *outer_context;
	Oid			current;		/* the relation that is being vacuumed */
	int			pin_waits;		/* consecutive sightings, see check_deadlock */
	bool		done;
	PvUsage		usage;			/* valid when done */
	List	   *entries;		/* PvRunEntry * */
} PvCall;

/* The process of this session's previous run; it may still be exiting. */
static BackgroundWorkerHandle *last_leader = NULL;

/* The background leader's caller, to see whether it is still there. */
static PGPROC *caller_proc = NULL;
static int	caller_pid = 0;


/* ----------------------------------------------------------------
 *		Both sides: who may vacuum, and what it is called
 * ----------------------------------------------------------------
 */

/*
 * May the current role vacuum the table?  VACUUM's rule: its owner, from PG 17 on
 * who has the privilege MAINTAIN, the database's owner unless the table belongs to
 * the whole cluster, a superuser.
 *
 * Core: vacuum.c, vacuum_is_permitted_for_relation, which warns where we raise
 * errors.
 */
bool
pv_may_vacuum(Oid relid, bool is_shared)
{
	return pv_may_maintain(relid, GetUserId()) ||
		(!is_shared && pv_owns_database(MyDatabaseId, GetUserId()));
}

void
pv_refuse_vacuum(int elevel, const char *relname)
{
	ereport(elevel,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to vacuum table \"%s\"", relname),
			 errhint("Only its owner, the owner of the database, a superuser, or from PostgreSQL 17 on a role with the privilege MAINTAIN can vacuum a table.")));
}

/*
 * The table and what VACUUM does with it: all partitions of a partitioned one, from
 * PG 18 on all children of any.
 */
List *
pv_expand_relation(Oid relid, char relkind)
{
	if (relkind == RELKIND_PARTITIONED_TABLE || PV_VACUUMS_CHILDREN)
		return find_all_inheritors(relid, NoLock, NULL);
	return list_make1_oid(relid);
}

/* The qualified name, for messages; of a table that is gone, its OID. */
char *
pv_qualified_relname(Oid relid)
{
	char	   *name = get_rel_name(relid);
	char	   *schema = get_namespace_name(get_rel_namespace(relid));

	if (name == NULL || schema == NULL)
		return psprintf("%u", relid);
	return psprintf("%s.%s", schema, name);
}


/* ----------------------------------------------------------------
 *		The caller: starting, waiting, and stopping
 * ----------------------------------------------------------------
 */

/*
 * Writes down who the caller is, for the background leader to become.  The current user is
 * that of SET ROLE, or the session's: called_from_function() has refused others.
 */
static void
fill_shared(PvLeaderShared *shared, const PvCall *call)
{
	Assert(GetUserId() == GetOuterUserId());

	shared->caller_pid = MyProcPid;
	shared->database_id = MyDatabaseId;
	shared->session_user_id = GetSessionUserId();
	shared->session_user_is_superuser = superuser_arg(GetSessionUserId());
	shared->role_id = GetCurrentRoleId();
	shared->role_is_superuser = OidIsValid(shared->role_id) &&
		superuser_arg(shared->role_id);
	shared->query_id = pgstat_get_my_query_id();
	shared->place = call->place;
	shared->request = *call->request;
}

/*
 * Takes a place among the runs of the cluster, which is kept until the background leader is gone.
 */
static void
take_place(PvCall *call)
{
	Oid			role = GetSessionUserId();
	PvRunAnswer answer = pv_runs_enter(role, superuser_arg(role), call->request->relid,
									   &call->place);

	if (answer == PV_RUN_GRANTED)
		return;
	pv_runs_count_refused();
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many runs of parvacuum to vacuum table \"%s\"",
					call->relname),
			 answer == PV_RUN_ALL_TAKEN ?
			 errdetail("\"parvacuum.max_runs\" allows %d at a time in all databases together.",
					   pv_guc_max_runs) :
			 errdetail("The last of %d places is left to other roles than \"%s\".",
					   pv_guc_max_runs, GetUserNameFromId(role, true)),
			 pv_guc_max_runs > 0 ?
			 errhint("Wait until another run has ended, use VACUUM, or increase \"parvacuum.max_runs\".") :
			 errhint("Use VACUUM, or increase \"parvacuum.max_runs\".")));
}

/* Creates and fills the segment; the transaction's end removes it on error. */
static void
create_segment(PvCall *call)
{
	const char *text = debug_query_string ? debug_query_string : "";
	Size		text_size = strlen(text) + 1;
	Size		guc_size = EstimateGUCStateSpace();
	Size		library_size = EstimateLibraryStateSpace();
	shm_toc_estimator estimator;
	Size		size;
	shm_toc    *toc;
	char	   *space;
	shm_mq	   *queue;

	shm_toc_initialize_estimator(&estimator);
	shm_toc_estimate_chunk(&estimator, sizeof(PvLeaderShared));
	shm_toc_estimate_chunk(&estimator, guc_size);
	shm_toc_estimate_chunk(&estimator, library_size);
	shm_toc_estimate_chunk(&estimator, text_size);
	shm_toc_estimate_chunk(&estimator, PV_QUEUE_SIZE);
	shm_toc_estimate_keys(&estimator, 5);
	size = shm_toc_estimate(&estimator);

	call->segment = dsm_create(size, 0);
	toc = shm_toc_create(PV_LEADER_MAGIC, dsm_segment_address(call->segment),
						 size);

	space = shm_toc_allocate(toc, sizeof(PvLeaderShared));
	fill_shared((PvLeaderShared *) space, call);
	shm_toc_insert(toc, PV_KEY_SHARED, space);

	space = shm_toc_allocate(toc, guc_size);
	SerializeGUCState(guc_size, space);
	shm_toc_insert(toc, PV_KEY_GUC, space);

	space = shm_toc_allocate(toc, library_size);
	SerializeLibraryState(library_size, space);
	shm_toc_insert(toc, PV_KEY_LIBRARIES, space);

	space = shm_toc_allocate(toc, text_size);
	memcpy(space, text, text_size);
	shm_toc_insert(toc, PV_KEY_TEXT, space);

	space = shm_toc_allocate(toc, PV_QUEUE_SIZE);
	queue = shm_mq_create(space, PV_QUEUE_SIZE);
	shm_toc_insert(toc, PV_KEY_QUEUE, space);
	shm_mq_set_receiver(queue, MyProc);
	call->queue = shm_mq_attach(queue, call->segment, NULL);
}

/*
 * Waits until the process of this session's previous run, if there was one, has
 * ended and so given its slot back.  False if there was none.
 */
static bool
last_leader_is_gone(void)
{
	if (last_leader == NULL)
		return false;

	WaitForBackgroundWorkerShutdown(last_leader);
	pfree(last_leader);
	last_leader = NULL;
	return true;
}

/*
 * Waits until a background leader that has told that it is done has let go of everything
 * in the server.  What is left of its exit is the kernel's, which takes the
 * longer the more of shared memory it had mapped, up to a tenth of a second
 * for some gigabytes; nobody has to wait for that.
 */
static void
wait_until_detached(PvCall *call)
{
	Size		len;
	void	   *data;

	while (shm_mq_receive(call->queue, &len, &data, false) == SHM_MQ_SUCCESS)
		;						/* nothing is of interest any more */

	if (last_leader != NULL)
		pfree(last_leader);
	last_leader = call->handle;
	call->handle = NULL;
}

/* Asks the postmaster for the background leader. */
static void
start_leader(PvCall *call)
{
	BackgroundWorker worker;
	MemoryContext old_context;
	bool		registered;

	pv_process_describe(&worker, PV_LEADER_TYPE, "parvacuum_leader_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, PV_LEADER_TYPE " for PID %d",
			 MyProcPid);
	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(call->segment));
	worker.bgw_notify_pid = MyProcPid;

	/* the handle outlives the call, see wait_until_detached() */
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	registered = RegisterDynamicBackgroundWorker(&worker, &call->handle) ||
		(last_leader_is_gone() &&
		 RegisterDynamicBackgroundWorker(&worker, &call->handle));
	MemoryContextSwitchTo(old_context);

	if (!registered)
	{
		pv_runs_count_refused();
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a process to vacuum table \"%s\"",
						call->relname),
				 errdetail("All background worker slots are in use."),
				 errhint("You may need to increase max_worker_processes.")));
	}

	/* so that a background leader that never comes counts as detached */
	shm_mq_set_handle(call->queue, call->handle);
}

/*
 * Ends the background leader, waits until it is gone, and lets go of its place; called when the
 * run ends early, by an error or by the exit of this process.
 *
 * The queue is detached first: a background leader that reports its end into a full queue
 * may be past the point where a signal would stop it.
 */
static void
stop_leader(int code, Datum arg)
{
	PvCall	   *call = (PvCall *) DatumGetPointer(arg);

	HOLD_INTERRUPTS();
	if (call->handle != NULL)
	{
		TerminateBackgroundWorker(call->handle);
		if (call->queue)
			shm_mq_detach(call->queue);
		call->queue = NULL;
		WaitForBackgroundWorkerShutdown(call->handle);
		pfree(call->handle);
		call->handle = NULL;
	}
	pv_runs_leave(&call->place);
	RESUME_INTERRUPTS();
}

/* Says where an error of the background leader, or a cancel of ours, came from. */
static void
add_context(void *arg)
{
	PvCall	   *call = (PvCall *) arg;

	errcontext("while running parvacuum on table \"%s\"", call->relname);
}

/*
 * Raises here what the background leader reported; an error does not return.
 *
 * The background leader's end is no reason for ours, so its FATAL is an ERROR.  Warnings
 * and errors get our context; progress reports do without.
 *
 * Core: parallel.c, HandleParallelMessage.
 */
static void
raise_message(PvCall *call, const char *data, Size len)
{
	ErrorContextCallback *context = error_context_stack;
	MemoryContext old_context = MemoryContextSwitchTo(call->message_context);
	StringInfoData message;
	ErrorData	edata;

	initStringInfo(&message);
	appendBinaryStringInfo(&message, data, len);
	pq_parse_errornotice(&message, &edata);
	edata.elevel = Min(edata.elevel, ERROR);

	if (edata.elevel < WARNING)
		error_context_stack = call->outer_context;
	ThrowErrorData(&edata);
	error_context_stack = context;

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(call->message_context);
}

/* Takes one message from the queue; it may lie at any address there. */
static void
handle_message(PvCall *call, const char *data, Size len)
{
	const char *body = data + 1;

	switch (data[0])
	{
		case 'E':
		case 'N':
			raise_message(call, body, len - 1);
			break;

		case PV_MSG_BEGIN:
			Assert(len - 1 == sizeof(Oid));
			memcpy(&call->current, body, sizeof(Oid));
			call->pin_waits = 0;
			break;

		case PV_MSG_RESULT:
			{
				PvRunEntry *entry = palloc(sizeof(PvRunEntry));

				Assert(len - 1 == sizeof(PvRunEntry));
				memcpy(entry, body, sizeof(PvRunEntry));
				call->entries = lappend(call->entries, entry);
				call->current = InvalidOid;
				break;
			}

		case PV_MSG_DONE:
			Assert(len - 1 == sizeof(PvUsage));
			memcpy(&call->usage, body, sizeof(PvUsage));
			call->done = true;
			break;

		default:
			elog(ERROR, "unrecognized message type from parvacuum background leader: %d",
				 data[0]);
	}
}

/*
 * Does the process wait for a lock that this one holds, itself or by way of
 * others that wait?  Breadth first over who blocks whom.
 */
static bool
waits_for_our_lock(int pid)
{
	List	   *pids = list_make1_int(pid);

	/* the list grows while we walk along it */
	for (int i = 0; i < list_length(pids); i++)
	{
		Datum		blockers = DirectFunctionCall1(pg_blocking_pids,
												   Int32GetDatum(list_nth_int(pids, i)));
		ArrayType  *array = DatumGetArrayTypeP(blockers);
		int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		int32	   *blocker = (int32 *) ARR_DATA_PTR(array);

		for (int j = 0; j < n; j++)
		{
			if (blocker[j] == MyProcPid)
				return true;
			if (blocker[j] != 0)	/* 0 is a prepared transaction */
				pids = list_append_unique_int(pids, blocker[j]);
		}
	}
	list_free(pids);

	return false;
}

/*
 * Does the background leader, or a worker of it, wait for all pins on a page to go, while
 * our own statement reads that table and so may hold one?  No lock shows this.
 *
 * The fields of other processes are read without a lock: what we see may be a
 * moment old, so the caller of this asks twice.
 */
static bool
waits_for_our_pin(int leader_pid, Oid relid)
{
	PGPROC	   *leader = BackendPidGetProc(leader_pid);
	bool		in_use = false;
	Relation	rel;

	if (leader == NULL || !OidIsValid(relid) || !pv_group_waits_for_pin(leader))
		return false;

	rel = RelationIdGetRelation(relid);
	if (RelationIsValid(rel))
	{
		in_use = CheckRelationLockedByMe(rel, AccessShareLock, true);
		RelationClose(rel);
	}
	InvalidateCatalogSnapshot();

	return in_use;
}

/*
 * The deadlock detector cannot see that we wait for the background leader.  So look for it
 * here, each time deadlock_timeout has passed without a word from the background leader.
 */
static void
check_deadlock(PvCall *call)
{
	pid_t		pid;

	if (GetBackgroundWorkerPid(call->handle, &pid) != BGWH_STARTED)
		return;

	if (waits_for_our_lock(pid))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("deadlock detected"),
				 errdetail("Process %d, which vacuums for this session, waits for a lock that this session holds, and this session waits for it.",
						   (int) pid),
				 errhint("Do not use the tables to be vacuumed in the same statement or transaction.")));

	call->pin_waits = waits_for_our_pin(pid, call->current) ?
		call->pin_waits + 1 : 0;
	if (call->pin_waits >= 2)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("deadlock detected"),
				 errdetail("Process %d, which vacuums for this session, waits for a page of a table that this statement reads.",
						   (int) pid),
				 errhint("Do not use the tables to be vacuumed in the same statement or transaction.")));
}

/*
 * Handles messages until the background leader says that it is done.  Fails if it falls
 * silent without that.
 */
static void
wait_for_leader(PvCall *call)
{
	ErrorContextCallback context;

	call->outer_context = error_context_stack;
	context.callback = add_context;
	context.arg = call;
	context.previous = error_context_stack;
	error_context_stack = &context;

	while (!call->done)
	{
		shm_mq_result result;
		Size		len;
		void	   *data;
		int			events;

		CHECK_FOR_INTERRUPTS();

		result = shm_mq_receive(call->queue, &len, &data, true);
		if (result == SHM_MQ_SUCCESS)
		{
			handle_message(call, data, len);
			continue;
		}
		if (result == SHM_MQ_DETACHED)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the process that vacuums table \"%s\" ended without a result",
							call->relname),
					 errhint("More details may be available in the server log.")));

		events = WaitLatch(MyLatch,
						   WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						   DeadlockTimeout, pv_wait_event(PV_EVENT_RUN));
		ResetLatch(MyLatch);
		if (events & WL_TIMEOUT)
			check_deadlock(call);
	}

	wait_until_detached(call);
	error_context_stack = context.previous;
}

/*
 * Has a background leader do what is requested; returns a list of PvRunEntry.  Errors of
 * the background leader are raised here.  On any error the background leader is gone before it goes on.
 */
List *
pv_run_in_background(const PvRequest *request)
{
	PvCall	   *call = palloc0(sizeof(PvCall));

	call->request = request;
	call->relname = pv_qualified_relname(request->relid);
	call->message_context = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum message",
												  ALLOCSET_SMALL_SIZES);

	PG_ENSURE_ERROR_CLEANUP(stop_leader, PointerGetDatum(call));
	{
		take_place(call);
		create_segment(call);

		/* do not let a catalog lookup of ours hold back the horizon */
		InvalidateCatalogSnapshot();

		start_leader(call);
		wait_for_leader(call);
		pv_runs_leave(&call->place);
	}
	PG_END_ENSURE_ERROR_CLEANUP(stop_leader, PointerGetDatum(call));

	dsm_detach(call->segment);

	/* the statement that called us shows the whole run's work */
	InstrAccumParallelQuery(&call->usage.buffers, &call->usage.wal);

	return call->entries;
}


/* ----------------------------------------------------------------
 *		The background leader: becoming the caller
 * ----------------------------------------------------------------
 */

/* The run is over before it began. */
static void
refuse_to_run(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not map the shared memory of a parvacuum run"),
			 errhint("The session that asked for it may have ended.")));
}

/* Maps the segment; it stays mapped until the process ends. */
static shm_toc *
attach_segment(Datum main_arg, dsm_segment **segment)
{
	shm_toc    *toc = NULL;

	*segment = dsm_attach(DatumGetUInt32(main_arg));
	if (*segment)
		toc = shm_toc_attach(PV_LEADER_MAGIC, dsm_segment_address(*segment));
	if (toc == NULL)
		refuse_to_run();
	return toc;
}

/* From here on the caller gets what a client would. */
static void
attach_queue(shm_toc *toc, dsm_segment *segment)
{
	PvLeaderShared *shared = shm_toc_lookup(toc, PV_KEY_SHARED, false);
	shm_mq	   *queue = shm_toc_lookup(toc, PV_KEY_QUEUE, false);

	shm_mq_set_sender(queue, MyProc);
	pq_redirect_to_shm_mq(segment, shm_mq_attach(queue, segment, NULL));

	caller_proc = shm_mq_get_receiver(queue);
	caller_pid = shared->caller_pid;
}

/*
 * Connects to the database, and takes over the caller's roles and settings.
 *
 * We connect as the bootstrap superuser and without the check of datallowconn:
 * the caller is connected, and its role may be one that cannot log in.  Then
 * its roles are installed, and none of this can be seen from SQL.
 *
 * Core: parallel.c, ParallelWorkerMain.
 */
static void
become_caller(shm_toc *toc, const PvLeaderShared *shared)
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

	/* messages go to the caller, which converts them for its client */
	SetClientEncoding(GetDatabaseEncoding());
}

/* What pg_stat_activity and the log show of us. */
static void
show_activity(shm_toc *toc, const PvLeaderShared *shared)
{
	const PvRequest *request = &shared->request;
	const char *text;
	char	   *activity;

	StartTransactionCommand();
	activity = psprintf("parvacuum: VACUUM%s %s",
						request->params.options & VACOPT_ANALYZE ? " ANALYZE" : "",
						pv_qualified_relname(request->relid));
	pgstat_report_activity(STATE_RUNNING, activity);
	pgstat_report_query_id(shared->query_id, true);
	CommitTransactionCommand();

	/* a copy, since the log may show it when the segment is gone already */
	text = shm_toc_lookup(toc, PV_KEY_TEXT, false);
	if (text[0] != '\0')
		debug_query_string = MemoryContextStrdup(TopMemoryContext, text);
}


/* ----------------------------------------------------------------
 *		The background leader: vacuuming
 * ----------------------------------------------------------------
 */

/*
 * Sends to the caller.  A caller that leaves stops us first; should one be gone
 * without that, its place in the process array is empty or another's, and
 * there is no use in going on.
 */
static void
send_message(char type, const void *body, Size len)
{
	StringInfoData message;

	if (caller_proc->pid != caller_pid)
		ereport(FATAL,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("terminating parvacuum background leader because its caller is gone")));

	pq_beginmessage(&message, type);
	pq_sendbytes(&message, body, len);
	pq_endmessage(&message);
}

static void
begin_relation(Oid relid, Oid toast_parent)
{
	pv_runs_begin_relation(relid, toast_parent);
	send_message(PV_MSG_BEGIN, &relid, sizeof(relid));
}

static void
end_relation(const PvRunEntry *entry)
{
	pv_runs_end_relation();
	send_message(PV_MSG_RESULT, entry, sizeof(*entry));
}

/*
 * Locks the table for a look at it, if asked so only when it is free: a busy
 * one is then skipped with a warning.
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
 * One item for core's vacuum(): by OID, so that a table renamed meanwhile is
 * the same table, with the name for the warnings that it could not be opened.
 * NULL when the table is gone already.
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
 * Lists what to vacuum: the table, and its partitions or children, which vacuum()
 * would not look for itself when it is given an OID.  The partitioned table stays in
 * the list, for ANALYZE.  Looks with an AccessShareLock on the table and gives it
 * back: what changes then is found by vacuum(), table by table.
 *
 * The table named must exist and be the caller's to vacuum; a partition that
 * is not is left out with core's warning.
 *
 * Core: vacuum.c, expand_vacuum_rel.
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

/*
 * Has core vacuum all of it, in transactions of its own, and reports each
 * relation through the run.  vacuum() wants to be entered within a transaction
 * and leaves within another one; what it is given must outlive them, and it
 * keeps its own data under PortalContext, which only sessions have.
 */
static void
vacuum_relations(const PvRequest *request)
{
	VacuumParams params = request->params;
	PvRun		run = {.begin_relation = begin_relation,
		.end_relation = end_relation,
	.truncate_is_open = params.truncate == VACOPTVALUE_UNSPECIFIED};
	MemoryContext old_context;
	BufferAccessStrategy strategy;
	List	   *relations;

	pv_set_portal_context(AllocSetContextCreate(TopMemoryContext,
												"parvacuum run",
												ALLOCSET_DEFAULT_SIZES));

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();

	old_context = MemoryContextSwitchTo(PortalContext);
	relations = list_relations(request);
	strategy = pv_vacuum_strategy();
	MemoryContextSwitchTo(old_context);

	if (relations != NIL)
	{
		pv_hook_begin_run(&run);
		pv_vacuum(relations, &params, strategy, PortalContext);
		pv_hook_end_run();
	}

	CommitTransactionCommand();
}

/*
 * The background leader.  An error ends it: bgworker.c sends it to the caller and exits.
 *
 * SIGTERM becomes an interrupt before any signal can arrive; the handler that
 * background workers begin with raises FATAL at once, in critical sections
 * too.  SIGHUP stays ignored: settings are those of the caller's statement.
 * SIGINT cancels, as in a session.
 */
void
parvacuum_leader_main(Datum main_arg)
{
	dsm_segment *segment;
	shm_toc    *toc;
	PvLeaderShared *shared;
	PvUsage		usage;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	CurrentMemoryContext = AllocSetContextCreate(TopMemoryContext,
												 "parvacuum background leader",
												 ALLOCSET_DEFAULT_SIZES);

	toc = attach_segment(main_arg, &segment);
	shared = shm_toc_lookup(toc, PV_KEY_SHARED, false);
	if (!pv_runs_attach(&shared->place))
		refuse_to_run();
	attach_queue(toc, segment);

	become_caller(toc, shared);
	show_activity(toc, shared);

	memset(&usage, 0, sizeof(usage));
	InstrStartParallelQuery();
	vacuum_relations(&shared->request);
	InstrEndParallelQuery(&usage.buffers, &usage.wal);

	send_message(PV_MSG_DONE, &usage, sizeof(usage));
}
