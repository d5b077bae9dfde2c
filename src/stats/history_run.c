/*-------------------------------------------------------------------------
 *
 * history_run.c
 *	  The vacuum in this process, until it is added to the history.
 *
 * The process that vacuums runs this: the leader, not its workers.
 *
 *		pv_history_begin		names, times, who asked for it
 *		pv_history_note_...		what was done to each index, and the rest
 *		pv_history_done			all is well: add it
 *		pv_history_failed		in PG_CATCH, with the error: add it
 *
 * What needs the catalogs is looked up at the beginning.  An error is recorded
 * where it is caught, and not at the end of the transaction.  Only there is the
 * error's text at hand, and the result, which the vacuum fills in as it
 * proceeds, still on the stack.  Adding a record takes one lightweight lock and
 * copies memory.  So it is safe in parallel mode, in a transaction that is about
 * to abort, and while interrupts are held.
 *
 * A FATAL error never gets to a PG_CATCH.  It ends the process from within the
 * function that raised it, and a callback adds the record, while the stack is
 * still there.  The text of such an error is in the log only.  A background
 * leader, however, may be terminated because of an error of its caller, who
 * stores that error in memory that both share.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "stats/history.h"

/* The vacuum of this process; valid while is_open */
static bool is_open = false;
static PvHistoryRun run;
static PvHistoryIndex indexes[PV_RECORD_MAX_INDEXES];
static const PvResult *progress;	/* what the vacuum fills in */
static MemoryContext caller_context;
static PvUsageStart usage;
static bool is_empty_toast;

/* Why this process is terminated, should it be */
static const PvHistoryReason *end_reason = NULL;

static void
set_name(NameData *to, const char *name)
{
	if (name != NULL)
		namestrcpy(to, name);
}

/* Copy as much of a text as there is room for, without half characters. */
static void
set_text(char *to, const char *text)
{
	int			len = strlen(text);

	if (len >= PV_RECORD_TEXT)
		len = pg_mbcliplen(text, len, PV_RECORD_TEXT - 1);
	memcpy(to, text, len);
	to[len] = '\0';
}

/* ----------------------------------------------------------------
 *		The session that is in the way
 *
 * It is looked for among all locks of the cluster, as pg_locks has them, which
 * holds their lightweight locks for a moment.  Core: storage/lmgr/lock.c,
 * GetLockStatusData.
 * ----------------------------------------------------------------
 */

/* Does the lock stand in the way of another one with that tag and mode? */
static bool
conflicts(const LockInstanceData *lock, const LOCKTAG *tag, LOCKMODE wanted)
{
	if (memcmp(&lock->locktag, tag, sizeof(LOCKTAG)) != 0)
		return false;
	for (LOCKMODE mode = 1; mode <= MaxLockMode; mode++)
	{
		if ((lock->holdMask & LOCKBIT_ON(mode)) &&
			DoLockModesConflict(mode, wanted))
			return true;
	}
	return false;
}

/* Note what the session does that has this lock, or waits for it. */
static void
note_session(const LockInstanceData *lock)
{
	const PgBackendStatus *status;

	run.lock_pid = lock->pid;
	if (lock->pid == 0)
	{
		set_text(run.lock_query, "prepared transaction");
		return;
	}
	pgstat_clear_backend_activity_snapshot();
	status = pv_status_of(lock->pid);
	if (status != NULL)
	{
		run.lock_role = status->st_userid;
		set_text(run.lock_query,
				 pgstat_clip_activity(status->st_activity_raw));
	}
}

/*
 * Note a session that has a lock of the relation, a shared one or one of this
 * database, that is in the way of this mode, if there still is one.
 */
static void
note_lock_holder(Oid relid, LOCKMODE mode)
{
	LockData   *data = GetLockStatusData();
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, IsSharedRelation(relid) ?
						 InvalidOid : MyDatabaseId, relid);
	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *lock = &data->locks[i];

		if (lock->pid != MyProcPid && conflicts(lock, &tag, mode))
		{
			note_session(lock);
			return;
		}
	}
}

/* Does this process have a lock that the other one waits for? */
static bool
waits_for_us(const LockInstanceData *waiter, const LockData *data)
{
	if (waiter->waitLockMode == NoLock || waiter->pid == MyProcPid)
		return false;
	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *ours = &data->locks[i];

		if (ours->pid == MyProcPid &&
			conflicts(ours, &waiter->locktag, waiter->waitLockMode))
			return true;
	}
	return false;
}

static bool
is_index(const LOCKTAG *tag)
{
	return tag->locktag_type == LOCKTAG_RELATION &&
		get_rel_relkind(tag->locktag_field2) == RELKIND_INDEX;
}

/*
 * Note who has waited longest for a lock that this process has.  Return false
 * if nobody waits.
 *
 * If the process was canceled, only sessions that have waited for
 * deadlock_timeout count, since no others can have canceled it.  If it was not,
 * those that wait for an index do not count.  The caller is in a transaction
 * then, as this reads the catalog caches.
 */
static bool
note_lock_waiter(bool canceled)
{
	TimestampTz since = GetCurrentTimestamp() -
		DeadlockTimeout * INT64CONST(1000);
	LockData   *data = GetLockStatusData();
	const LockInstanceData *first = NULL;

	for (int i = 0; i < data->nelements; i++)
	{
		const LockInstanceData *lock = &data->locks[i];

		if ((first == NULL || lock->waitStart < first->waitStart) &&
			lock->waitStart != 0 && waits_for_us(lock, data) &&
			(canceled ? lock->waitStart <= since : !is_index(&lock->locktag)))
			first = lock;
	}
	if (first != NULL)
		note_session(first);
	return first != NULL;
}


/* ----------------------------------------------------------------
 *		The vacuum
 * ----------------------------------------------------------------
 */

static void
add_run(PvRunOutcome outcome)
{
	run.outcome = outcome;
	run.end_time = GetCurrentTimestamp();
	run.result = *progress;

	/* of a failed vacuum, what this process has used; its workers are gone */
	if (outcome != PV_OUTCOME_DONE)
		pv_usage_since(&usage, &run.result);
	pv_history_add(&run, indexes, Min(run.nindexes, PV_RECORD_MAX_INDEXES));
}

/* A planned stop may reach this process as an error of another one. */
static PvRunOutcome
outcome_of_error(int sqlerrcode)
{
	if (sqlerrcode == ERRCODE_QUERY_CANCELED)
		return PV_OUTCOME_CANCELED;
	return sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
		sqlerrcode == ERRCODE_CRASH_SHUTDOWN ||
		sqlerrcode == ERRCODE_DATABASE_DROPPED ? PV_OUTCOME_TERMINATED :
		PV_OUTCOME_ERROR;
}

/* The process ends within a vacuum. */
static void
add_at_exit(int code, Datum arg)
{
	PvRunOutcome outcome = PV_OUTCOME_TERMINATED;

	if (!is_open)
		return;
	if (end_reason != NULL && end_reason->sqlerrcode != 0)
	{
		pg_read_barrier();
		run.sqlerrcode = end_reason->sqlerrcode;
		strlcpy(run.error, end_reason->text, sizeof(run.error));
		outcome = outcome_of_error(run.sqlerrcode);
	}
	add_run(outcome);
}

/*
 * Say where another process stores why it terminates this one.  That memory
 * must stay until the callbacks of before_shmem_exit() have run.
 */
void
pv_history_set_reason(const PvHistoryReason *reason)
{
	end_reason = reason;
}

/* The other process: store the error that is its reason. */
void
pv_history_fill_reason(PvHistoryReason *reason, const ErrorData *edata)
{
	if (edata->message != NULL)
		set_text(reason->text, edata->message);
	pg_write_barrier();
	reason->sqlerrcode = edata->sqlerrcode;
}

/* Note what is known of a relation, and who does something to it. */
static void
begin_run(const FormData_pg_class *form, PvWork action, PvStartedBy started_by)
{
	is_open = false;
	memset(&run, 0, sizeof(run));
	run.head.key.database = MyDatabaseId;
	run.head.key.relid = form->oid;
	run.owner = form->relowner;
	if (started_by == PV_STARTED_BY_COMMAND ||
		started_by == PV_STARTED_BY_FUNCTION)
		run.userid = GetOuterUserId();
	run.pid = MyProcPid;
	run.encoding = GetDatabaseEncoding();
	set_name(&run.datname, get_database_name(MyDatabaseId));
	set_name(&run.schemaname, get_namespace_name(form->relnamespace));
	set_name(&run.relname, NameStr(form->relname));
	run.action = action;
	run.started_by = started_by;
	run.start_time = GetCurrentTimestamp();
}

/*
 * Begin a vacuum of the relation, which is open and locked, or what the
 * scheduler does beside vacuums.  It fills in *result by the time that it calls
 * pv_history_done().  The caller is in a transaction; this reads the catalog
 * caches.
 */
void
pv_history_begin(Relation rel, PvWork action, PvStartedBy started_by,
				 bool wraparound, const PvResult *result)
{
	static bool watched = false;

	if (!pv_history_exists())
		return;
	if (!watched)
		before_shmem_exit(add_at_exit, (Datum) 0);
	watched = true;

	begin_run(rel->rd_rel, action, started_by);
	run.wraparound = wraparound;
	is_empty_toast = rel->rd_rel->relkind == RELKIND_TOASTVALUE &&
		RelationGetNumberOfBlocks(rel) == 0;
	progress = result;
	caller_context = CurrentMemoryContext;
	pv_usage_start(&usage, false);
	is_open = true;
}

/*
 * Record that the scheduler has not got the lock of a table in this mode, but
 * not if another vacuum has it.  The caller is in a transaction; this reads the
 * catalog caches, and the locks of all sessions.
 */
void
pv_history_skipped(Oid relid, PvWork action, LOCKMODE mode)
{
	HeapTuple	tuple;
	PGPROC	   *holder;

	if (!pv_history_exists())
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return;
	begin_run((Form_pg_class) GETSTRUCT(tuple), action,
			  PV_STARTED_BY_SCHEDULER);
	ReleaseSysCache(tuple);
	run.outcome = PV_OUTCOME_SKIPPED;
	run.end_time = run.start_time;
	note_lock_holder(relid, mode);
	holder = BackendPidGetProc(run.lock_pid);
	if (holder == NULL || (holder->statusFlags & PROC_IN_VACUUM) == 0)
		pv_history_add(&run, NULL, 0);
}

/*
 * Note what was done to an index, which is open, once for each.  Of a sweep
 * only the size and the entries removed are known.
 */
void
pv_history_note_index(Relation index, const IndexBulkDeleteResult *istat,
					  int64 usecs)
{
	PvHistoryIndex *record;

	if (!is_open || run.nindexes++ >= PV_RECORD_MAX_INDEXES)
		return;
	record = &indexes[run.nindexes - 1];
	memset(record, 0, sizeof(*record));
	record->head.key.database = run.head.key.database;
	record->head.key.relid = RelationGetRelid(index);
	record->head.table = run.head.key.relid;
	record->encoding = run.encoding;
	set_name(&record->indexrelname, RelationGetRelationName(index));
	record->action = run.action;
	record->entries_removed = (int64) istat->tuples_removed;
	record->pages_total = istat->num_pages;
	record->pages_newly_deleted = istat->pages_newly_deleted;
	record->pages_deleted = istat->pages_deleted;
	record->pages_free = istat->pages_free;
	record->usecs = usecs;
}

/* Note what is to be remembered of a sweep if it is completed. */
void
pv_history_note_mark(const PvSweepMark *mark)
{
	run.mark = *mark;
}

/*
 * Note what held back the horizon when the vacuum began, and describe it as it
 * is now.  The caller is in a transaction; this reads the catalog caches.
 */
void
pv_history_note_blocker(const PvBlocker *blocker, TimestampTz found_at)
{
	PvBlockerDetails details;
	StringInfoData text;

	if (!is_open)
		return;

	/* the list of backends as it is now, should it have been read before */
	pgstat_clear_backend_activity_snapshot();
	pv_blocker_look_up(blocker, InvalidOid, &details);
	run.holder_kind = blocker->kind;
	run.holder_key = pv_blocker_key(blocker);
	set_name(&run.blocker_kind, details.kind);
	initStringInfo(&text);
	pv_blocker_describe(&text, blocker, &details, found_at);
	set_text(run.blocker, text.data);
	pfree(text.data);
}

/* The vacuum is complete; most TOAST tables are empty and not recorded. */
void
pv_history_done(void)
{
	if (!is_open)
		return;

	/* closed first, so that an error here does not lead to another entry */
	is_open = false;
	if (progress->ended_early == PV_END_YIELD)
		(void) note_lock_waiter(false);
	if (!is_empty_toast)
		add_run(PV_OUTCOME_DONE);
}

/*
 * The vacuum has failed with the error that is being handled.  Call this in
 * PG_CATCH; the error stays as it is.
 */
void
pv_history_failed(void)
{
	MemoryContext old_context;
	ErrorData  *edata;

	if (!is_open)
		return;

	/* closed first, so that an error here does not lead here again */
	is_open = false;
	old_context = MemoryContextSwitchTo(caller_context);
	edata = CopyErrorData();
	run.sqlerrcode = edata->sqlerrcode;
	if (edata->message != NULL)
		set_text(run.error, edata->message);
	FreeErrorData(edata);

	/*
	 * An automatic vacuum that was canceled has given way to that session.
	 * The error says "user request" of any signal.  Core:
	 * storage/lmgr/proc.c, ProcSleep.
	 */
	if (run.sqlerrcode == ERRCODE_QUERY_CANCELED && !run.wraparound &&
		(run.started_by == PV_STARTED_BY_SCHEDULER ||
		 run.started_by == PV_STARTED_BY_AUTOVACUUM) &&
		note_lock_waiter(true))
		set_text(run.error, "gave way to a session that waits for a lock");
	MemoryContextSwitchTo(old_context);

	add_run(outcome_of_error(run.sqlerrcode));
}
