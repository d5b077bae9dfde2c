/*-------------------------------------------------------------------------
 *
 * run.c
 *	  A vacuum in a process of its own: the side of the caller.
 *
 * A vacuum commits and begins transactions, which a function cannot do within
 * the transaction of its caller.  Therefore parvacuum_run() and CALL
 * parvacuum() (sql/run_function.c) start a background worker, the background
 * leader (entry/leader.c), and wait for it.
 *
 *		caller								background leader
 *		------								-----------------
 *		segment: identity, command,
 *		   settings, queue
 *		start					 ------->	attach, become the caller
 *										   VACUUM: for each relation
 *		   raises it here		<-- 'N' --	   notices, warnings, infos
 *		   keeps it				<-- 'r' --	   what was done
 *		   adds it to its own	<-- 'd' --	done: blocks and WAL used
 *		   raises it here		<-- 'E' --	or an error, and the end
 *		waits until it is gone
 *
 * The segment is filled before the leader starts and only read after that; the
 * queue has its own spinlock.
 *
 * A caller may have other things to do meanwhile: parvacuum_run_cluster()
 * vacuums partitions on this server while other servers vacuum theirs.  So it
 * begins runs, looks after all of them from time to time, and ends each:
 *
 *		pv_call_begin()		starts a background leader
 *		pv_call_look()		handles its messages; is it done?
 *		pv_call_end()		frees all; a leader that is running is terminated
 *
 * The end of a run.  A run may be begun in a subtransaction and looked at in
 * another one, so it belongs to the whole transaction.  If that ends first, be
 * it by an error or by the exit of the session, its resource owner detaches
 * the segment.  Whoever detaches it first terminates the leader and waits until
 * it is gone.  The leader finds the caller's error in the segment and puts it
 * into the history.
 *
 * Waiting.  The caller sleeps on its latch, and the deadlock detector does not
 * know about latches.  So a caller that holds a lock which the leader needs is
 * refused where that shows beforehand (sql/run_function.c).  A waiting caller
 * checks from time to time whether the leader waits for a lock or a page that
 * the caller holds, or for a session that waits for the caller.
 *
 * Snapshots.  While the caller waits with a snapshot, dead rows that it might
 * see are not removed from any table of the database, and index builds with
 * CONCURRENTLY wait for the caller.  Therefore it waits without one where it
 * can (sql/run_function.c).  Then it is shown in pg_stat_activity as a session
 * that vacuums: other tools wait for transactions, or complain of those that
 * take long, unless their text says VACUUM.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "libpq/pqmq.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shm_toc.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/backend_status.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "entry/dispatch.h"
#include "entry/run.h"
#include "stats/registry.h"

/* Bytes of the queue from the leader to the caller. */
#define QUEUE_SIZE				((Size) 16384)

/* A wait for a pin is a deadlock when it is seen that often. */
#define PIN_WAITS_OF_DEADLOCK	2

/* The runs of this session that have begun and have not ended */
static dlist_head calls = DLIST_STATIC_INIT(calls);


/* ----------------------------------------------------------------
 *		The end
 * ----------------------------------------------------------------
 */

/* Show what this session executes.  The query identifier stays. */
static void
report_activity(const char *text)
{
	uint64		query_id = pgstat_get_my_query_id();

	pgstat_report_activity(STATE_RUNNING, text);
	pgstat_report_query_id(query_id, true);
}

/*
 * Terminate the leader if it is not done, and wait until it is gone.  No longer
 * count the run.  Detach the queue first: a leader that reports its end into a
 * full queue may be past the point where a signal would stop it.
 */
static void
leave(PvCall *call)
{
	HOLD_INTERRUPTS();
	if (call->handle != NULL)
	{
		if (!call->done)
			TerminateBackgroundWorker(call->handle);
		shm_mq_detach(call->queue);
		if (!call->done)
			WaitForBackgroundWorkerShutdown(call->handle);
		pfree(call->handle);
		call->handle = NULL;
	}
	if (call->is_counted)
		pv_registry_end_run();
	call->is_counted = false;
	if (call->waits && debug_query_string != NULL)
		report_activity(debug_query_string);
	RESUME_INTERRUPTS();
}

/* The segment is detached, which ends the run. */
static void
end_with_segment(dsm_segment *segment, Datum arg)
{
	PvCall	   *call = (PvCall *) DatumGetPointer(arg);

	dlist_delete(&call->node);
	leave(call);
}

/*
 * End a run and free it.  If it is still running, the leader puts the reason
 * into the history; it knows its own errors.
 */
void
pv_call_end(PvCall *call, const ErrorData *reason)
{
	if (reason != NULL && !call->leader_failed)
		pv_history_fill_reason(&call->shared->reason, reason);
	dsm_detach(call->segment);
	MemoryContextDelete(call->context);
}


/* ----------------------------------------------------------------
 *		Starting
 * ----------------------------------------------------------------
 */

/*
 * Store the caller's identity, which the leader acquires, and the request.
 * The current user is that of SET ROLE or the session's; sql/call.c has
 * refused all others to callers that wait.  To one that does not, it may also
 * be that of a SECURITY DEFINER function.
 */
static void
fill_shared(PvRunShared *shared, const PvRequest *request, bool waits)
{
	bool		is_definer = GetUserId() != GetOuterUserId();

	Assert(!(waits && is_definer));
	memset(shared, 0, sizeof(*shared));
	shared->caller_pid = MyProcPid;
	shared->database_id = MyDatabaseId;
	shared->session_user_id = GetSessionUserId();
	shared->session_user_is_superuser = superuser_arg(GetSessionUserId());
	shared->role_id = is_definer ? GetUserId() : GetCurrentRoleId();
	shared->role_is_superuser = OidIsValid(shared->role_id) &&
		superuser_arg(shared->role_id);
	shared->query_id = pgstat_get_my_query_id();
	shared->relid = request->relid;
	shared->skip_locked = request->skip_locked;
	shared->truncate_is_open = request->truncate_is_open;
	shared->deadline = request->deadline;
	strcpy(shared->command, request->command);
}

/* Make room in the segment for one item of its table of contents. */
static void *
add_item(shm_toc *toc, uint64 key, Size size)
{
	void	   *space = shm_toc_allocate(toc, size);

	shm_toc_insert(toc, key, space);
	return space;
}

/* Create and fill the segment.  From its end on, the run ends with it. */
static void
create_segment(PvCall *call, const PvRequest *request)
{
	Size		shared_size = offsetof(PvRunShared, command) +
		strlen(request->command) + 1;
	Size		guc_size = EstimateGUCStateSpace();
	Size		library_size = EstimateLibraryStateSpace();
	shm_toc_estimator estimator;
	Size		size;
	shm_toc    *toc;
	shm_mq	   *queue;

	shm_toc_initialize_estimator(&estimator);
	shm_toc_estimate_chunk(&estimator, shared_size);
	shm_toc_estimate_chunk(&estimator, guc_size);
	shm_toc_estimate_chunk(&estimator, library_size);
	shm_toc_estimate_chunk(&estimator, QUEUE_SIZE);
	shm_toc_estimate_keys(&estimator, PV_NUM_KEYS);
	size = shm_toc_estimate(&estimator);

	call->segment = dsm_create(size, 0);
	toc = shm_toc_create(PV_RUN_MAGIC, dsm_segment_address(call->segment),
						 size);
	call->shared = add_item(toc, PV_KEY_SHARED, shared_size);
	fill_shared(call->shared, request, call->waits);
	SerializeGUCState(guc_size, add_item(toc, PV_KEY_GUC, guc_size));
	SerializeLibraryState(library_size,
						  add_item(toc, PV_KEY_LIBRARIES, library_size));
	queue = shm_mq_create(add_item(toc, PV_KEY_QUEUE, QUEUE_SIZE), QUEUE_SIZE);
	shm_mq_set_receiver(queue, MyProc);
	call->queue = shm_mq_attach(queue, call->segment, NULL);

	/* it is called before what shm_mq_attach() has registered */
	on_dsm_detach(call->segment, end_with_segment, PointerGetDatum(call));
	dlist_push_tail(&calls, &call->node);
}

/* Count this one among the runs of the cluster, until the leader is gone. */
static void
count_run(PvCall *call)
{
	Oid			role = GetSessionUserId();
	PvRunAnswer answer = pv_registry_begin_run(role, superuser_arg(role));

	call->is_counted = answer == PV_RUN_GRANTED;
	if (call->is_counted)
		return;
	pv_registry_count_refused();
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many runs of parvacuum to vacuum table \"%s\"",
					call->relname),
			 answer == PV_RUN_ALL_TAKEN ?
			 errdetail("\"parvacuum.max_runs\" allows %d at a time in all databases together.",
					   pv_guc_max_runs) :
			 errdetail("The last of %d places is reserved for roles other than \"%s\".",
					   pv_guc_max_runs, GetUserNameFromId(role, true)),
			 pv_guc_max_runs > 0 ?
			 errhint("Wait until another run has ended, use VACUUM, or increase \"parvacuum.max_runs\".") :
			 errhint("Use VACUUM, or increase \"parvacuum.max_runs\".")));
}

/* Ask the postmaster for the leader. */
static void
start_leader(PvCall *call)
{
	BackgroundWorker worker;

	pv_process_describe(&worker, PV_LEADER_TYPE, "parvacuum_leader_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, PV_LEADER_TYPE " for PID %d",
			 MyProcPid);
	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(call->segment));
	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, &call->handle))
	{
		pv_registry_count_refused();
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a process to vacuum table \"%s\"",
						call->relname),
				 errdetail("All background worker slots are in use."),
				 errhint("You may need to increase max_worker_processes.")));
	}

	/* so that a leader that never starts counts as detached */
	shm_mq_set_handle(call->queue, call->handle);
}

/*
 * Show this session as one that vacuums, with its own statement as a comment,
 * if it waits as such: without a snapshot or a transaction ID.
 */
static void
show_as_vacuum(const PvRequest *request)
{
	if (!TransactionIdIsValid(MyProc->xmin) &&
		!TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		debug_query_string != NULL)
		report_activity(psprintf("%s /* %s */", request->command,
								 debug_query_string));
}

/* Start a background leader that does what is requested. */
PvCall *
pv_call_begin(const PvRequest *request, bool waits)
{
	static int	last_number = PV_ANY_RUN;
	MemoryContext context = AllocSetContextCreate(TopTransactionContext,
												  "parvacuum run",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	ResourceOwner old_owner = CurrentResourceOwner;
	PvCall	   *call = palloc0(sizeof(PvCall));

	call->number = ++last_number;
	call->waits = waits;
	call->context = context;
	call->relname = pv_qualified_relname(request->relid, false);
	call->looked_at = GetCurrentTimestamp();
	PG_TRY();
	{
		CurrentResourceOwner = TopTransactionResourceOwner;
		create_segment(call, request);
		count_run(call);

		/* our own catalog lookups must not hold back the horizon */
		InvalidateCatalogSnapshot();

		if (waits)
			show_as_vacuum(request);
		start_leader(call);
	}
	PG_CATCH();
	{
		CurrentResourceOwner = old_owner;
		if (call->segment != NULL)
			dsm_detach(call->segment);
		MemoryContextSwitchTo(old_context);
		MemoryContextDelete(context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	CurrentResourceOwner = old_owner;
	MemoryContextSwitchTo(old_context);
	return call;
}

/* Return the run of that number, or PV_ANY_RUN; NULL if there is none. */
PvCall *
pv_call_find(int number)
{
	dlist_iter	iter;

	dlist_foreach(iter, &calls)
	{
		PvCall	   *call = dlist_container(PvCall, node, iter.cur);

		if (number == PV_ANY_RUN || call->number == number)
			return call;
	}
	return NULL;
}


/* ----------------------------------------------------------------
 *		Does the leader wait for its caller?
 *
 * This takes the locks of the lock manager's tables for a moment.
 * ----------------------------------------------------------------
 */

/*
 * Does the process wait for a lock that this one holds, directly or through
 * other processes that wait?  This is a breadth-first search of the processes
 * that block it.  Return the one that waits for us directly, or 0.
 */
static int
waits_for_our_lock(int pid)
{
	List	   *pids = list_make1_int(pid);

	/* the list grows during this loop */
	for (int i = 0; i < list_length(pids); i++)
	{
		int			waiter = list_nth_int(pids, i);
		Datum		blockers = DirectFunctionCall1(pg_blocking_pids,
												   Int32GetDatum(waiter));
		ArrayType  *array = DatumGetArrayTypeP(blockers);
		int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		int32	   *blocker = (int32 *) ARR_DATA_PTR(array);

		for (int j = 0; j < n; j++)
		{
			if (blocker[j] == MyProcPid)
				return waiter;
			if (blocker[j] != 0)	/* 0 is a prepared transaction */
				pids = list_append_unique_int(pids, blocker[j]);
		}
	}
	return 0;
}

/*
 * Does the leader, or one of its workers, wait for all pins on a page to go
 * away, while our own statement reads that table and so may hold a pin?  No
 * lock shows this.
 *
 * The fields of other processes are read without a lock, and what we see may
 * be out of date by a moment.  So the caller of this asks more than once.
 */
static bool
waits_for_our_pin(int leader_pid)
{
	PGPROC	   *leader = BackendPidGetProc(leader_pid);
	PvVacuuming vacuum;
	bool		in_use = false;
	Relation	rel;

	if (leader == NULL || !pv_group_waits_for_pin(leader) ||
		!pv_registry_find_process(leader_pid, &vacuum) ||
		!OidIsValid(vacuum.relid))
		return false;

	rel = RelationIdGetRelation(vacuum.relid);
	if (RelationIsValid(rel))
	{
		in_use = CheckRelationLockedByMe(rel, AccessShareLock, true);
		RelationClose(rel);
	}
	InvalidateCatalogSnapshot();
	return in_use;
}

/*
 * Raise an error if the leader waits for us, while we wait for it.  It may do
 * so through a process that has locked the table and waits for the end of our
 * transaction: that builds an index with CONCURRENTLY and waits for older
 * snapshots, or it waits for all who had locked a table.
 */
static void
raise_deadlock(PvCall *call, int leader_pid)
{
	int			waiter = waits_for_our_lock(leader_pid);

	call->pin_waits = waits_for_our_pin(leader_pid) ? call->pin_waits + 1 : 0;
	if (waiter == 0 && call->pin_waits < PIN_WAITS_OF_DEADLOCK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 waiter == 0 ?
			 errdetail("Process %d, which vacuums for this session, waits for a page of a table that this statement reads.",
					   leader_pid) :
			 waiter == leader_pid ?
			 errdetail("Process %d, which vacuums for this session, waits for a lock that this session holds.",
					   leader_pid) :
			 errdetail("Process %d, which vacuums for this session, waits for process %d, which waits for the snapshot or a lock of this statement.\nProcess %d: %s",
					   leader_pid, waiter, waiter,
					   pgstat_get_backend_current_activity(waiter, true)),
			 errhint("Do not use the tables to be vacuumed in the same statement or transaction, or use CALL parvacuum(...).")));
}

/* Look for a deadlock each time deadlock_timeout has passed. */
static void
check_deadlock(PvCall *call)
{
	TimestampTz now = GetCurrentTimestamp();
	pid_t		pid;

	if (!TimestampDifferenceExceeds(call->looked_at, now, DeadlockTimeout))
		return;
	call->looked_at = now;
	if (GetBackgroundWorkerPid(call->handle, &pid) == BGWH_STARTED)
	{
		/* what pg_blocking_pids() allocates grows with max_connections */
		MemoryContext look = AllocSetContextCreate(call->context,
												   "parvacuum deadlock check",
												   ALLOCSET_DEFAULT_SIZES);
		MemoryContext old_context = MemoryContextSwitchTo(look);

		raise_deadlock(call, pid);
		MemoryContextSwitchTo(old_context);
		MemoryContextDelete(look);
	}
}


/* ----------------------------------------------------------------
 *		Waiting
 * ----------------------------------------------------------------
 */

/* Add the context of the leader's errors, and of a cancel of the caller. */
static void
add_context(void *arg)
{
	PvCall	   *call = (PvCall *) arg;

	errcontext("while running parvacuum on table \"%s\"", call->relname);
}

/*
 * Raise here what the leader reported; do not return after an error.
 *
 * The leader's end is no reason for ours, so its FATAL becomes an ERROR.
 * Warnings and errors get our context; progress messages do without.  If the
 * caller does other things meanwhile, an error of the leader must not look like
 * one that WHEN OTHERS of PL/pgSQL does not catch.
 *
 * Core: access/transam/parallel.c, HandleParallelMessage.
 */
static void
raise_message(PvCall *call, const char *data, Size len)
{
	ErrorContextCallback *context = error_context_stack;
	MemoryContext of_message = AllocSetContextCreate(CurrentMemoryContext,
													 "parvacuum message",
													 ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(of_message);
	StringInfoData message;
	ErrorData	edata;

	initStringInfo(&message);
	appendBinaryStringInfo(&message, data, len);
	pq_parse_errornotice(&message, &edata);
	edata.elevel = Min(edata.elevel, ERROR);

	if (edata.elevel == ERROR)
		call->leader_failed = true;
	if (!call->waits && (edata.sqlerrcode == ERRCODE_QUERY_CANCELED ||
						 edata.sqlerrcode == ERRCODE_ASSERT_FAILURE))
		edata.sqlerrcode = ERRCODE_OPERATOR_INTERVENTION;
	if (edata.elevel < WARNING)
		error_context_stack = context->previous;
	ThrowErrorData(&edata);
	error_context_stack = context;

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(of_message);
}

/* Handle one message from the queue; the data may have any alignment. */
static void
handle_message(PvCall *call, const char *data, Size len)
{
	const char *body = data + 1;
	PvRunEntry *entry;

	switch (data[0])
	{
		case 'E':
		case 'N':
			raise_message(call, body, len - 1);
			break;

		case PV_MSG_RESULT:
			Assert(len - 1 == sizeof(PvRunEntry));
			entry = palloc(sizeof(PvRunEntry));
			memcpy(entry, body, sizeof(PvRunEntry));
			call->entries = lappend(call->entries, entry);
			break;

		case PV_MSG_DONE:
			Assert(len - 1 == sizeof(PvUsage));
			memcpy(&call->usage, body, sizeof(PvUsage));
			call->done = true;
			break;

		default:
			elog(ERROR, "unrecognized message type from background leader of parvacuum: %d",
				 data[0]);
	}
}

/* Handle the messages that have come. */
static void
handle_messages(PvCall *call)
{
	while (!call->done)
	{
		Size		len;
		void	   *data;
		shm_mq_result result;

		CHECK_FOR_INTERRUPTS();

		result = shm_mq_receive(call->queue, &len, &data, true);
		if (result == SHM_MQ_WOULD_BLOCK)
			break;
		if (result == SHM_MQ_DETACHED)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the process that vacuums table \"%s\" ended without a result",
							call->relname),
					 errhint("More details may be available in the server log.")));
		handle_message(call, data, len);
	}
}

/*
 * Handle what the leader has sent.  Return whether it is done; then it is gone.
 * Raise its errors, and an error if it ends without being done or waits for
 * this session.  After an error the run has to be ended.
 */
bool
pv_call_look(PvCall *call)
{
	MemoryContext old_context = MemoryContextSwitchTo(call->context);
	ErrorContextCallback context = {
		.callback = add_context,
		.arg = call,
		.previous = error_context_stack
	};

	error_context_stack = &context;
	handle_messages(call);
	if (!call->done)
		check_deadlock(call);
	else if (call->handle != NULL)
	{
		/* it has nothing to do any more but to end */
		WaitForBackgroundWorkerShutdown(call->handle);
		leave(call);

		/* the calling statement shows the work of the whole run */
		InstrAccumParallelQuery(&call->usage.buffers, &call->usage.wal);
	}
	error_context_stack = context.previous;
	MemoryContextSwitchTo(old_context);
	return call->done;
}

/*
 * Have a background leader do what is requested, and wait until it is done.
 * After an error it is gone before the error is passed on.
 */
PvCall *
pv_call_and_wait(const PvRequest *request)
{
	PvCall	   *call = pv_call_begin(request, true);

	PG_TRY();
	{
		while (!pv_call_look(call))
		{
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 DeadlockTimeout, pv_wait_event[PV_EVENT_RUN]);
			ResetLatch(MyLatch);
		}
	}
	PG_CATCH();
	{
		MemoryContext old_context = MemoryContextSwitchTo(call->context);
		ErrorData  *reason = CopyErrorData();

		MemoryContextSwitchTo(old_context);
		pv_call_end(call, reason);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return call;
}
