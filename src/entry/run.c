/*-------------------------------------------------------------------------
 *
 * run.c
 *	  A vacuum in a process of its own: the side of the caller.
 *
 * A vacuum commits and begins transactions, which a function cannot do within
 * the transaction of its caller.  Therefore parvacuum_run() and CALL
 * parvacuum() (sql/run_function.c) start a background worker, the background
 * leader (entry/leader.c), and wait for it.  The leader acquires the caller's
 * rights and settings, passes the table to core's vacuum(), and leads the
 * parallel workers that the engine then uses.
 *
 *		caller								background leader
 *		------								-----------------
 *		segment: identity, request,
 *		   settings, text, queue
 *		start					 ------->	attach, become the caller
 *										   vacuum(): for each relation
 *		   remembers it			<-- 'b' --	   it is begun
 *		   raises it here		<-- 'N' --	   notices, warnings, infos
 *		   keeps it				<-- 'r' --	   what was done
 *		   adds it to its own	<-- 'd' --	done: blocks and WAL used
 *		   raises it here		<-- 'E' --	or an error, and the end
 *		waits until it is detached
 *
 * One queue carries all of it, so everything arrives in the order in which it
 * happened.  The segment is filled before the leader starts and only read
 * after that; the queue has its own spinlock.
 *
 * Waiting.  The caller sleeps on its latch, and the deadlock detector does not
 * know about latches.  So a caller that holds a lock which the leader needs is
 * refused where that shows beforehand (sql/run_function.c), and a waiting
 * caller checks from time to time whether the leader waits for it
 * (entry/run_deadlock.c). Whatever ends the caller's wait, be it an error, a
 * cancel, or the end of the session, first terminates the leader and waits
 * until it is gone.  The leader finds the error in the segment and puts it
 * into the history.  It checks at each table whether its caller still exists.
 *
 * Snapshots.  While the caller waits with a snapshot, dead rows that it might
 * see are not removed from any table of the database, and index builds with
 * CONCURRENTLY wait for the caller.  Therefore it waits without one where it
 * can (sql/run_function.c).  Then it is shown in pg_stat_activity as what it
 * is, a session that vacuums: other tools wait for transactions, or complain
 * of those that take long, unless their text says VACUUM.
 *
 * A caller that has other things to do meanwhile does not wait here: see
 * entry/run_begin.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/instrument.h"
#include "lib/stringinfo.h"
#include "libpq/pqmq.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shm_mq.h"
#include "storage/shm_toc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

#include "base/compat.h"
#include "base/process.h"
#include "base/ring.h"
#include "base/settings.h"
#include "base/wait.h"
#include "entry/dispatch.h"
#include "entry/relation.h"
#include "entry/rights.h"
#include "entry/run.h"
#include "stats/registry.h"

/* Bytes of the queue from the leader to the caller. */
#define QUEUE_SIZE				((Size) 16384)


/*
 * The leader of this session's previous run, which may still be exiting.  It
 * is kept across transactions, see wait_until_detached(); an error does no
 * harm, since all that is done with it is to wait for its end.
 */
static BackgroundWorkerHandle *last_leader = NULL;


/* ----------------------------------------------------------------
 *		Starting
 * ----------------------------------------------------------------
 */

/* Return the VACUUM command that does what is requested. */
static char *
vacuum_command(const PvRequest *request)
{
	const VacuumParams *params = &request->params;
	static const struct
	{
		uint32		bit;
		const char *name;
	}			flags[] = {
		{VACOPT_FREEZE, "FREEZE"},
		{VACOPT_ANALYZE, "ANALYZE"},
		{VACOPT_VERBOSE, "VERBOSE"},
		{VACOPT_SKIP_LOCKED, "SKIP_LOCKED"},
		{VACOPT_DISABLE_PAGE_SKIPPING, "DISABLE_PAGE_SKIPPING"},
	};
	StringInfoData options;

	initStringInfo(&options);
	for (size_t i = 0; i < lengthof(flags); i++)
	{
		if (params->options & flags[i].bit)
			appendStringInfo(&options, ", %s", flags[i].name);
	}
	if (params->index_cleanup != VACOPTVALUE_UNSPECIFIED)
		appendStringInfo(&options, ", INDEX_CLEANUP %s",
						 params->index_cleanup == VACOPTVALUE_ENABLED ?
						 "on" : "off");
	if (params->truncate != VACOPTVALUE_UNSPECIFIED)
		appendStringInfo(&options, ", TRUNCATE %s",
						 params->truncate == VACOPTVALUE_ENABLED ?
						 "on" : "off");
	if (params->nworkers != 0)
		appendStringInfo(&options, ", PARALLEL %d",
						 Max(params->nworkers, 0));
	return psprintf("VACUUM %s%s%s%s",
					options.len > 0 ? "(" : "",
					options.len > 0 ? options.data + strlen(", ") : "",
					options.len > 0 ? ") " : "",
					pv_quoted_relname(request->relid));
}

/*
 * Store the caller's identity, which the leader acquires.  The current user
 * is that of SET ROLE or the session's; sql/call.c has refused all others to
 * callers that wait.  To one that does not, the current user may also be that
 * of a SECURITY DEFINER function.
 */
static void
fill_shared(PvRunShared *shared, const PvCall *call)
{
	bool		is_definer = GetUserId() != GetOuterUserId();

	Assert(!(call->waits && is_definer));

	shared->caller_pid = MyProcPid;
	shared->database_id = MyDatabaseId;
	shared->session_user_id = GetSessionUserId();
	shared->session_user_is_superuser = superuser_arg(GetSessionUserId());
	shared->role_id = is_definer ? GetUserId() : GetCurrentRoleId();
	shared->role_is_superuser = OidIsValid(shared->role_id) &&
		superuser_arg(shared->role_id);
	shared->query_id = pgstat_get_my_query_id();
	shared->request = *call->request;
}

/*
 * Count this one among the runs of the cluster, until the leader is gone.
 */
static void
count_run(PvCall *call)
{
	Oid			role = GetSessionUserId();
	PvRunAnswer answer = pv_registry_begin_run(role,
											   pv_may_take_all_runs(role));

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

/* The leader is gone, or never came. */
static void
uncount_run(PvCall *call)
{
	if (call->is_counted)
		pv_registry_end_run();
	call->is_counted = false;
}

/*
 * Create and fill the segment.  On error the end of the transaction removes
 * it.
 */
static void
create_segment(PvCall *call)
{
	Size		text_size;
	Size		guc_size = EstimateGUCStateSpace();
	Size		library_size = EstimateLibraryStateSpace();
	shm_toc_estimator estimator;
	Size		size;
	shm_toc    *toc;
	char	   *space;
	shm_mq	   *queue;

	call->command = vacuum_command(call->request);
	text_size = strlen(call->command) + 1;

	shm_toc_initialize_estimator(&estimator);
	shm_toc_estimate_chunk(&estimator, sizeof(PvRunShared));
	shm_toc_estimate_chunk(&estimator, guc_size);
	shm_toc_estimate_chunk(&estimator, library_size);
	shm_toc_estimate_chunk(&estimator, text_size);
	shm_toc_estimate_chunk(&estimator, QUEUE_SIZE);
	shm_toc_estimate_chunk(&estimator, sizeof(PvHistoryReason));
	shm_toc_estimate_keys(&estimator, PV_NUM_KEYS);
	size = shm_toc_estimate(&estimator);

	call->segment = dsm_create(size, 0);
	toc = shm_toc_create(PV_RUN_MAGIC, dsm_segment_address(call->segment),
						 size);

	space = shm_toc_allocate(toc, sizeof(PvRunShared));
	fill_shared((PvRunShared *) space, call);
	shm_toc_insert(toc, PV_KEY_SHARED, space);

	space = shm_toc_allocate(toc, guc_size);
	SerializeGUCState(guc_size, space);
	shm_toc_insert(toc, PV_KEY_GUC, space);

	space = shm_toc_allocate(toc, library_size);
	SerializeLibraryState(library_size, space);
	shm_toc_insert(toc, PV_KEY_LIBRARIES, space);

	space = shm_toc_allocate(toc, text_size);
	memcpy(space, call->command, text_size);
	shm_toc_insert(toc, PV_KEY_TEXT, space);

	call->reason = shm_toc_allocate(toc, sizeof(PvHistoryReason));
	memset(call->reason, 0, sizeof(PvHistoryReason));
	shm_toc_insert(toc, PV_KEY_REASON, call->reason);

	space = shm_toc_allocate(toc, QUEUE_SIZE);
	queue = shm_mq_create(space, QUEUE_SIZE);
	shm_toc_insert(toc, PV_KEY_QUEUE, space);
	shm_mq_set_receiver(queue, MyProc);
	call->queue = shm_mq_attach(queue, call->segment, NULL);
}

/*
 * Wait until the leader of this session's previous run, if there was one, has
 * ended and so has freed its slot.  Return false if there was none.
 */
static bool
wait_for_last_leader(void)
{
	if (last_leader == NULL)
		return false;

	WaitForBackgroundWorkerShutdown(last_leader);
	pfree(last_leader);
	last_leader = NULL;
	return true;
}

/* Ask the postmaster for the leader. */
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
		(wait_for_last_leader() &&
		 RegisterDynamicBackgroundWorker(&worker, &call->handle));
	MemoryContextSwitchTo(old_context);

	if (!registered)
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

/* Show what this session executes.  The query identifier stays. */
static void
report_activity(const char *text)
{
	uint64		query_id = pgstat_get_my_query_id();

	pgstat_report_activity(STATE_RUNNING, text);
	pgstat_report_query_id(query_id, true);
}

/*
 * Show this session as one that vacuums, with its own statement as a comment,
 * if it waits as such: without a snapshot or a transaction ID.
 */
static void
show_as_vacuum(PvCall *call)
{
	if (TransactionIdIsValid(MyProc->xmin) ||
		TransactionIdIsValid(GetTopTransactionIdIfAny()) ||
		debug_query_string == NULL)
		return;
	report_activity(psprintf("%s /* %s */", call->command,
							 debug_query_string));
	call->is_shown = true;
}

static void
show_statement(PvCall *call)
{
	if (call->is_shown)
		report_activity(debug_query_string);
	call->is_shown = false;
}

/* Describe a call before it is started. */
PvCall *
pv_call_make(const PvRequest *request)
{
	PvCall	   *call = palloc0(sizeof(PvCall));

	call->request = request;
	call->relname = pv_qualified_relname(request->relid);
	call->message_context = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum message",
												  ALLOCSET_SMALL_SIZES);
	return call;
}

/* Start the leader.  After an error the caller calls pv_call_stop(). */
void
pv_call_start(PvCall *call)
{
	count_run(call);
	create_segment(call);

	/* our own catalog lookups must not hold back the horizon */
	InvalidateCatalogSnapshot();

	if (call->waits)
		show_as_vacuum(call);
	start_leader(call);
}


/* ----------------------------------------------------------------
 *		Waiting
 * ----------------------------------------------------------------
 */

/*
 * End the leader, wait until it is gone, and no longer count the run.  Call
 * this when the run ends early, by an error or by the exit of this process.
 * Detach the queue first: a leader that reports its end into a full queue may
 * be past the point where a signal would stop it.
 */
void
pv_call_stop(PvCall *call)
{
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
	uncount_run(call);
	show_statement(call);
	RESUME_INTERRUPTS();
}

static void
stop_leader(int code, Datum arg)
{
	pv_call_stop((PvCall *) DatumGetPointer(arg));
}

/*
 * Wait until a leader that has reported its end has released everything in
 * the server.  The rest of its exit is the kernel's work, which takes longer
 * the more shared memory the process had mapped.  The caller does not wait for
 * that.
 */
static void
wait_until_detached(PvCall *call)
{
	Size		len;
	void	   *data;

	while (shm_mq_receive(call->queue, &len, &data, false) == SHM_MQ_SUCCESS)
		;						/* ignore what is left */

	if (last_leader != NULL)
		pfree(last_leader);
	last_leader = call->handle;
	call->handle = NULL;
}

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
 * caller does other things meanwhile, a cancel of the leader is not one of the
 * caller, and must not look like one.
 *
 * Core: access/transam/parallel.c, HandleParallelMessage.
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

	if (edata.elevel == ERROR)
		call->leader_failed = true;
	if (!call->waits && edata.sqlerrcode == ERRCODE_QUERY_CANCELED)
		edata.sqlerrcode = ERRCODE_OPERATOR_INTERVENTION;
	if (edata.elevel < WARNING)
		error_context_stack = call->outer_context;
	ThrowErrorData(&edata);
	error_context_stack = context;

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(call->message_context);
}

/* Handle one message from the queue; the data may have any alignment. */
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
			elog(ERROR, "unrecognized message type from background leader of parvacuum: %d",
				 data[0]);
	}
}

/*
 * Look for a deadlock.  Call this each time deadlock_timeout has passed
 * without a message from the leader.
 */
void
pv_call_check_deadlock(PvCall *call)
{
	pid_t		pid;

	if (GetBackgroundWorkerPid(call->handle, &pid) == BGWH_STARTED)
		pv_run_check_deadlock(pid, call->relname, call->current,
							  &call->pin_waits);
}

/*
 * Handle the messages that have come.  Return whether the leader is done; then
 * it is gone.  Fails if it detaches without being done.
 */
bool
pv_call_look(PvCall *call)
{
	ErrorContextCallback context;

	call->outer_context = error_context_stack;
	context.callback = add_context;
	context.arg = call;
	context.previous = error_context_stack;
	error_context_stack = &context;

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

	if (call->done && call->handle != NULL)
	{
		wait_until_detached(call);
		uncount_run(call);

		/* the calling statement shows the work of the whole run */
		InstrAccumParallelQuery(&call->usage.buffers, &call->usage.wal);
	}
	error_context_stack = context.previous;
	return call->done;
}

/* Wait until the leader is done. */
static void
wait_for_leader(PvCall *call)
{
	ErrorContextCallback context = {
		.callback = add_context,
		.arg = call,
		.previous = error_context_stack
	};

	while (!pv_call_look(call))
	{
		int			events;

		error_context_stack = &context;
		CHECK_FOR_INTERRUPTS();
		events = WaitLatch(MyLatch,
						   WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						   DeadlockTimeout, pv_wait_event(PV_EVENT_RUN));
		ResetLatch(MyLatch);
		if (events & WL_TIMEOUT)
			pv_call_check_deadlock(call);
		error_context_stack = context.previous;
	}
}

/*
 * In PG_CATCH: store the error that ends the run, for the leader, which is
 * terminated next.  The leader knows its own errors.
 */
static void
leave_reason(PvCall *call)
{
	MemoryContext old_context;
	ErrorData  *edata;

	if (call->leader_failed)
		return;
	old_context = MemoryContextSwitchTo(call->message_context);
	edata = CopyErrorData();
	pv_history_fill_reason(call->reason, edata);
	FreeErrorData(edata);
	MemoryContextSwitchTo(old_context);
}

/*
 * Let a background leader do what is requested; return a list of
 * PvRunEntry.  Errors of the leader are raised here.  On any error the leader
 * is gone before the error is passed on.
 */
List *
pv_run_in_background(const PvRequest *request)
{
	PvCall	   *call = pv_call_make(request);

	call->waits = true;
	PG_ENSURE_ERROR_CLEANUP(stop_leader, PointerGetDatum(call));
	{
		pv_call_start(call);
		PG_TRY();
		{
			wait_for_leader(call);
		}
		PG_CATCH();
		{
			leave_reason(call);
			PG_RE_THROW();
		}
		PG_END_TRY();
		show_statement(call);
	}
	PG_END_ENSURE_ERROR_CLEANUP(stop_leader, PointerGetDatum(call));

	dsm_detach(call->segment);

	return call->entries;
}
