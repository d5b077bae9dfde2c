/*-------------------------------------------------------------------------
 *
 * blocker.c
 *	  What holds back the horizon: processes, prepared transactions and
 *	  replication slots.
 *
 * A row that was deleted can be removed when no snapshot can see it any more.
 * Core computes the oldest transaction ID that such a snapshot may depend on,
 * and keeps only the result.  Here the same things are looked at by the same
 * rules, to find out whose they are:
 *
 *		blocker					holds back
 *		------					----------
 *		process, prepared		tables of its database, shared catalogs
 *		transaction
 *		standby feedback		all tables of all databases
 *		xmin of a slot			all tables of all databases
 *		catalog_xmin of a slot	catalogs of all databases
 *
 * These hold back nothing: a process that vacuums (PROC_IN_VACUUM), one that
 * decodes for a slot, as the slot holds for it (PROC_IN_LOGICAL_DECODING), and
 * a base backup, which has neither a snapshot nor a transaction.  A process
 * that executes CREATE INDEX CONCURRENTLY (PROC_IN_SAFE_IC) does hold back.
 *
 * A role sees the sessions that pg_stat_activity would show it.  Of others only
 * the PID is shown, and not whether they are idle.  Prepared transactions
 * and replication slots are shown to all roles by core's views, and so here.
 *
 * Sessions and leaders of vacuums run this.  ProcArrayLock is held in shared
 * mode while processes are looked at, and after that
 * ReplicationSlotControlLock in shared mode.  Under both, nothing fails or is
 * allocated.
 *
 * Core: storage/ipc/procarray.c, ComputeXidHorizons;
 * replication/slot.c, ReplicationSlotsComputeRequiredXmin.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/pg_authid.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "replication/walreceiver.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "stats/history.h"

/* Most bytes of a name in a line of a report */
#define MAX_NAME			64

/* Columns of pg_prepared_xact() */
#define PREPARED_XID		1
#define PREPARED_GID		2
#define PREPARED_AT			3
#define PREPARED_OWNER		4

/* Those of PostgreSQL's states that are tracked */
static const char *const state_names[] = {
	[STATE_IDLE] = "idle",
	[STATE_RUNNING] = "active",
	[STATE_IDLEINTRANSACTION] = "idle in transaction",
	[STATE_FASTPATH] = "fastpath function call",
	[STATE_IDLEINTRANSACTION_ABORTED] = "idle in transaction (aborted)",
	[STATE_DISABLED] = NULL
};

/* Is the blocker a process with a snapshot or transaction of its own? */
static bool
is_process(const PvBlocker *blocker)
{
	return blocker->kind == PV_BLOCKER_PROCESS ||
		blocker->kind == PV_BLOCKER_FEEDBACK;
}

/*
 * Does it matter what holds back horizons here?  On a standby only if that is
 * sent to the primary.
 */
bool
pv_blockers_matter(void)
{
	return !RecoveryInProgress() ||
		(hot_standby_feedback && wal_receiver_status_interval > 0);
}

/* Return the older of transaction and snapshot of the process. */
static TransactionId
held_by(const PGPROC *proc)
{
	return TransactionIdOlder(*(volatile const TransactionId *) &proc->xid,
							  *(volatile const TransactionId *) &proc->xmin);
}

/*
 * Is the prepared transaction one that still exists?  One that has ended
 * leaves its XID behind.  The caller holds ProcArrayLock.
 */
static bool
is_prepared(const PGPROC *proc)
{
	return proc->pgxactoff >= 0 && TransactionIdIsValid(proc->xid) &&
		ProcGlobal->xids[proc->pgxactoff] == proc->xid;
}

/*
 * Is this a parallel worker whose leader has the same snapshot, and so holds
 * back as much?  The leader may end at any time, but the memory of processes is
 * never freed.
 */
static bool
is_shown_by_leader(const PGPROC *proc)
{
	const PGPROC *leader =
		*(PGPROC *volatile const *) &proc->lockGroupLeader;
	TransactionId xmin;

	if (leader == NULL || leader == proc)
		return false;
	if (leader == MyProc)
		return true;
	xmin = held_by(leader);
	return TransactionIdIsValid(xmin) &&
		TransactionIdPrecedesOrEquals(xmin, held_by(proc));
}

/*
 * Set *blocker to a process or prepared transaction, if that holds back.
 * Return the number of blockers, 0 or 1.  The caller holds ProcArrayLock.
 */
static int
collect_process(const PGPROC *proc, PvBlocker *blocker)
{
	TransactionId xmin = held_by(proc);

	if (!TransactionIdIsValid(xmin) || proc == MyProc ||
		(proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)) ||
		is_shown_by_leader(proc) || (proc->pid == 0 && !is_prepared(proc)))
		return 0;
	memset(blocker, 0, sizeof(*blocker));
	blocker->kind = proc->pid == 0 ? PV_BLOCKER_PREPARED :
		(proc->statusFlags & PROC_AFFECTS_ALL_HORIZONS) ? PV_BLOCKER_FEEDBACK :
		PV_BLOCKER_PROCESS;
	blocker->pid = proc->pid;
	blocker->database = proc->databaseId;
	blocker->role = proc->roleId;
	blocker->xmin = xmin;
	blocker->xid = proc->xid;
	return 1;
}

/*
 * Set blockers[] to a replication slot that holds back, which may be two.
 * Return their number.  The caller holds ReplicationSlotControlLock.
 */
static int
collect_slot(ReplicationSlot *slot, PvBlocker *blockers)
{
	int			n = 0;
	PvBlocker	blocker = {0};
	TransactionId xmin,
				catalog_xmin;
	bool		invalid;

	if (!slot->in_use)
		return 0;
	SpinLockAcquire(&slot->mutex);
	xmin = slot->effective_xmin;
	catalog_xmin = slot->effective_catalog_xmin;
	invalid = pv_slot_is_invalid(slot);
	blocker.pid = pv_slot_pid(slot);
	blocker.database = slot->data.database;
	blocker.inactive_since = pv_slot_inactive_since(slot);
	blocker.synced = pv_slot_is_synced(slot);
	blocker.temporary = slot->data.persistency != RS_PERSISTENT;
	blocker.slot = slot->data.name;
	SpinLockRelease(&slot->mutex);

	if (TransactionIdIsValid(xmin) && !invalid)
	{
		blocker.kind = PV_BLOCKER_SLOT_XMIN;
		blocker.xmin = xmin;
		blockers[n++] = blocker;
	}
	if (TransactionIdIsValid(catalog_xmin) && !invalid)
	{
		blocker.kind = PV_BLOCKER_SLOT_CATALOG;
		blocker.xmin = catalog_xmin;
		blockers[n++] = blocker;
	}
	return n;
}

/*
 * Collect all blockers of all databases except this process in a new array.
 * Return their number.  A process that is ending may have left its transaction
 * ID behind; is_running() and pv_blocker_look_up() tell.
 */
int
pv_blockers_collect(PvBlocker **blockers)
{
	int			nprocs = ProcGlobal->allProcCount + max_prepared_xacts;
	int			nslots = pv_num_slots();
	int			n = 0;

	*blockers = MemoryContextAllocHuge(CurrentMemoryContext,
									   (nprocs + 2 * nslots) *
									   sizeof(PvBlocker));

	/* the PGPROCs of prepared transactions follow the others */
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < nprocs; i++)
		n += collect_process(&ProcGlobal->allProcs[i], *blockers + n);
	LWLockRelease(ProcArrayLock);

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < nslots; i++)
		n += collect_slot(&ReplicationSlotCtl->replication_slots[i],
						  *blockers + n);
	LWLockRelease(ReplicationSlotControlLock);
	return n;
}

/*
 * Return the horizon of a relation that is not a temporary table, which only
 * its own session can see.  Core: storage/ipc/procarray.c,
 * GlobalVisHorizonKindForRel.
 */
PvHorizon
pv_horizon_of(Relation rel)
{
	if (rel->rd_rel->relisshared)
		return PV_HORIZON_SHARED;
	if (IsCatalogRelation(rel) || RelationIsAccessibleInLogicalDecoding(rel))
		return PV_HORIZON_CATALOG;
	return PV_HORIZON_DATA;
}

/*
 * Does the blocker hold back that horizon of this database?  On a standby,
 * where the databases of transactions are not known, each holds back
 * everything.
 */
bool
pv_blocker_affects(const PvBlocker *blocker, PvHorizon horizon)
{
	Assert(blocker->kind != PV_BLOCKER_NONE);
	if (blocker->kind == PV_BLOCKER_PROCESS ||
		blocker->kind == PV_BLOCKER_PREPARED)
		return horizon == PV_HORIZON_SHARED ||
			blocker->database == MyDatabaseId || RecoveryInProgress();
	return blocker->kind != PV_BLOCKER_SLOT_CATALOG ||
		horizon != PV_HORIZON_DATA;
}

/*
 * Return what tells the blocker from others of its kind.  PIDs and transaction
 * IDs are used again after a while.
 */
uint64
pv_blocker_key(const PvBlocker *blocker)
{
	const char *name = NameStr(blocker->slot);

	Assert(blocker->kind != PV_BLOCKER_NONE);
	if (blocker->kind == PV_BLOCKER_PREPARED)
		return blocker->xid;
	if (is_process(blocker))
		return blocker->pid;
	return hash_bytes_extended((const unsigned char *) name, strlen(name), 0);
}

/*
 * Does the blocker depend on what is running, so that another transaction can
 * be the cause?  Not if it has that transaction ID itself, and not if it is a
 * slot that nobody uses, which holds on when the transaction ends.
 */
static bool
may_have_cause(const PvBlocker *blocker)
{
	return blocker->kind == PV_BLOCKER_FEEDBACK ||
		(blocker->kind == PV_BLOCKER_PROCESS &&
		 blocker->xid != blocker->xmin) ||
		(blocker->kind == PV_BLOCKER_SLOT_XMIN && blocker->pid != 0);
}

/*
 * Return which of these, a transaction with an XID, makes the blocker as old as
 * it is; NULL if none does.  That transaction may have ended.
 */
const PvBlocker *
pv_blocker_cause(const PvBlocker *blocker, const PvBlocker *blockers, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (blockers[i].xid == blocker->xmin && may_have_cause(blocker))
			return &blockers[i];
	}
	return NULL;
}

/*
 * Is the blocker a transaction that is the cause that one of these holds back
 * that horizon of this database?  It may run in another database.
 */
bool
pv_blocker_is_cause(const PvBlocker *blocker, const PvBlocker *blockers,
					int n, PvHorizon horizon)
{
	if (!TransactionIdIsValid(blocker->xid))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (blockers[i].xmin == blocker->xid && may_have_cause(&blockers[i]) &&
			pv_blocker_affects(&blockers[i], horizon))
			return true;
	}
	return false;
}

/* Does the process still run, if the blocker is one? */
static bool
is_running(const PvBlocker *blocker)
{
	return !is_process(blocker) ||
		BackendPidGetProc(blocker->pid) != NULL;
}

/*
 * Return the oldest blocker of that horizon, or NULL.  Of several that are
 * equally old, it is the one whose own transaction ID that is.
 */
static const PvBlocker *
oldest_blocker(const PvBlocker *blockers, int n, PvHorizon horizon)
{
	const PvBlocker *oldest = NULL;

	for (int i = 0; i < n; i++)
	{
		const PvBlocker *blocker = &blockers[i];

		if (pv_blocker_affects(blocker, horizon) &&
			(oldest == NULL ||
			 TransactionIdPrecedes(blocker->xmin, oldest->xmin) ||
			 (blocker->xmin == oldest->xmin &&
			  blocker->xid == blocker->xmin)) &&
			is_running(blocker))
			oldest = blocker;
	}
	return oldest;
}

/*
 * Find the oldest blocker of that horizon of this database.  Set its kind to
 * PV_BLOCKER_NONE if none is as old as the cutoff that was computed just
 * before: what had held it back then has ended, or nothing had.
 *
 * A snapshot is as old as the oldest transaction with an XID that was running
 * when it was taken, in any database.  So if the blocker only has a snapshot,
 * and that transaction is still running, that transaction is to blame: while
 * it runs, every snapshot is as old.  So are those of a standby, and what it
 * sends as feedback.
 */
void
pv_blocker_find(PvHorizon horizon, TransactionId cutoff, PvBlocker *blocker)
{
	PvBlocker  *blockers;
	int			n = pv_blockers_collect(&blockers);
	const PvBlocker *oldest = oldest_blocker(blockers, n, horizon);
	const PvBlocker *cause;
	TransactionId xmin;

	memset(blocker, 0, sizeof(*blocker));
	if (oldest != NULL)
	{
		cause = pv_blocker_cause(oldest, blockers, n);
		*blocker = cause != NULL && is_running(cause) ? *cause : *oldest;
	}
	pfree(blockers);

	xmin = blocker->xmin;
	if (blocker->kind < PV_BLOCKER_SLOT_XMIN)
		xmin -= pv_defer_cleanup_age();
	if (TransactionIdFollows(xmin, cutoff))
		blocker->kind = PV_BLOCKER_NONE;
}


/* ----------------------------------------------------------------
 *		Describing
 * ----------------------------------------------------------------
 */

/*
 * Return a text of some database in the encoding of this one: the text itself,
 * or a copy.  What is not ASCII is replaced if the encodings differ, or if the
 * text is not valid.  Any role can choose such texts, which must not make a view
 * or a vacuum fail.
 */
const char *
pv_readable(const char *text, int encoding)
{
	char	   *copy;

	if (encoding == GetDatabaseEncoding() &&
		pg_verify_mbstr(encoding, text, strlen(text), true))
		return text;
	copy = pstrdup(text);
	for (char *c = copy; *c != '\0'; c++)
	{
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	}
	return copy;
}

/*
 * Return the entry of the process in the list of backends, as it was when this
 * transaction first read the list; NULL if there is none.
 */
const PgBackendStatus *
pv_status_of(int pid)
{
	for (int i = pgstat_fetch_stat_numbackends(); i > 0; i--)
	{
		const PgBackendStatus *status = pv_backend_status(i);

		if (status->st_procpid == pid)
			return status;
	}
	return NULL;
}

/* Return a text that may come from another database, in valid characters. */
static const char *
readable(const char *text)
{
	return text == NULL ? NULL : pv_readable(text, GetDatabaseEncoding());
}

/*
 * May the viewer see a session of that role?  Core: utils/adt/pgstatfuncs.c,
 * HAS_PGSTAT_PERMISSIONS.
 */
static bool
may_see(Oid viewer, Oid role)
{
	return !OidIsValid(viewer) ||
		has_privs_of_role(viewer, ROLE_PG_READ_ALL_STATS) ||
		(OidIsValid(role) && has_privs_of_role(viewer, role));
}

/*
 * Look up a process.  The list of backends may be later than the blocker was
 * found.  By then the PID may be that of a session of another role, so the
 * viewer must have the privileges of that one, too.
 */
static void
look_up_process(const PvBlocker *blocker, Oid viewer,
				PvBlockerDetails *details)
{
	const PgBackendStatus *status = pv_status_of(blocker->pid);
	bool		may = may_see(viewer, blocker->role);

	details->gone = status == NULL;
	details->visible = may && !details->gone &&
		may_see(viewer, status->st_userid);
	details->kind = blocker->kind == PV_BLOCKER_FEEDBACK ? "standby feedback" :
		"session";
	if (OidIsValid(blocker->role) &&
		(details->visible || (details->gone && may)))
		details->role = readable(GetUserNameFromId(blocker->role, true));
	if (!details->visible)
		return;
	details->name = readable(pstrdup(status->st_appname));
	details->state = state_names[status->st_state];
	details->query = readable(pgstat_clip_activity(status->st_activity_raw));
	details->began = status->st_proc_start_timestamp;
	if (blocker->kind == PV_BLOCKER_FEEDBACK)
		return;

	details->since = status->st_xact_start_timestamp;
	details->began = Max(details->began, details->since);
	if (status->st_backendType != B_BACKEND &&
		status->st_backendType != B_WAL_SENDER)
		details->kind = "background process";
	else if (status->st_state == STATE_IDLEINTRANSACTION ||
			 status->st_state == STATE_IDLEINTRANSACTION_ABORTED)
		details->kind = "idle in transaction";
}

/* Take the name and the time from one row of pg_prepared_xact(). */
static void
take_prepared(HeapTupleHeader row, PvBlockerDetails *details)
{
	bool		isnull;
	Datum		owner = GetAttributeByNum(row, PREPARED_OWNER, &isnull);

	details->gid =
		TextDatumGetCString(GetAttributeByNum(row, PREPARED_GID, &isnull));
	details->name = readable(details->gid);
	details->since =
		DatumGetTimestampTz(GetAttributeByNum(row, PREPARED_AT, &isnull));
	details->began = details->since;
	details->role =
		readable(GetUserNameFromId(DatumGetObjectId(owner), true));
}

/*
 * Look up a prepared transaction.  Only a function that returns a set knows
 * their identifiers.  Call it until it has returned all.
 */
static void
look_up_prepared(const PvBlocker *blocker, PvBlockerDetails *details)
{
	LOCAL_FCINFO(fcinfo, 0);
	FmgrInfo	flinfo;
	ReturnSetInfo rsinfo = {.type = T_ReturnSetInfo};
	MemoryContext of_row = AllocSetContextCreate(CurrentMemoryContext,
												 "parvacuum prepared transaction",
												 ALLOCSET_SMALL_SIZES);

	details->kind = "prepared transaction";
	details->gone = true;
	fmgr_info(F_PG_PREPARED_XACT, &flinfo);
	rsinfo.econtext = CreateStandaloneExprContext();
	rsinfo.allowedModes = SFRM_ValuePerCall;
	InitFunctionCallInfoData(*fcinfo, &flinfo, 0, InvalidOid, NULL,
							 (Node *) &rsinfo);
	for (;;)
	{
		MemoryContext old_context;
		HeapTupleHeader row;
		Datum		result;
		bool		isnull;

		rsinfo.returnMode = SFRM_ValuePerCall;
		rsinfo.isDone = ExprSingleResult;
		fcinfo->isnull = false;
		MemoryContextReset(of_row);
		old_context = MemoryContextSwitchTo(of_row);
		result = FunctionCallInvoke(fcinfo);
		MemoryContextSwitchTo(old_context);
		if (rsinfo.isDone != ExprMultipleResult)
			break;
		row = DatumGetHeapTupleHeader(result);
		result = GetAttributeByNum(row, PREPARED_XID, &isnull);
		if (DatumGetTransactionId(result) == blocker->xid)
		{
			take_prepared(row, details);
			details->gone = false;
		}
	}
	FreeExprContext(rsinfo.econtext, true);
	MemoryContextDelete(of_row);
}

/*
 * Look up what the viewer may see of a blocker.  Strings live as long as the
 * blocker and the current memory context.
 */
void
pv_blocker_look_up(const PvBlocker *blocker, Oid viewer,
				   PvBlockerDetails *details)
{
	memset(details, 0, sizeof(*details));
	details->visible = true;
	if (is_process(blocker))
		look_up_process(blocker, viewer, details);
	else if (blocker->kind == PV_BLOCKER_PREPARED)
		look_up_prepared(blocker, details);
	else
	{
		details->kind = blocker->kind == PV_BLOCKER_SLOT_XMIN ? "slot xmin" :
			"slot catalog_xmin";
		details->name = NameStr(blocker->slot);
		details->state = blocker->pid != 0 ? "active" : "inactive";
		details->since = blocker->inactive_since;
	}
}

/*
 * Append a name in quotes, with a word before it, if it is known.  Others may
 * have chosen the name, so shorten it, and do not let it begin a new line of
 * the log.
 */
static void
append_name(StringInfo buf, const char *before, const char *name)
{
	int			len;

	if (name == NULL || name[0] == '\0')
		return;
	len = pg_mbcliplen(name, strlen(name), MAX_NAME);
	appendStringInfo(buf, "%s \"", before);
	for (int i = 0; i < len; i++)
		appendStringInfoChar(buf, (unsigned char) name[i] < ' ' ||
							 name[i] == '\x7f' ? '?' : name[i]);
	appendStringInfoString(buf, name[len] != '\0' ? "...\"" : "\"");
}

/*
 * Append who the blocker is, without a newline.  It was found at that time, and
 * may have ended by the time of the details.
 */
void
pv_blocker_describe(StringInfo buf, const PvBlocker *blocker,
					const PvBlockerDetails *details, TimestampTz found_at)
{
	bool		is_slot = blocker->kind >= PV_BLOCKER_SLOT_XMIN;

	appendStringInfoString(buf, details->kind);
	if (!is_process(blocker))
		append_name(buf, "", details->name);
	if (blocker->pid != 0)
		appendStringInfo(buf, ", PID %d", blocker->pid);
	if (is_process(blocker))
		append_name(buf, ", application", details->name);
	append_name(buf, ", role", details->role);
	if (is_slot)
		appendStringInfo(buf, ", %s", details->state);
	if (details->gone)
		appendStringInfoString(buf, ", which has ended");
	else if (blocker->kind == PV_BLOCKER_PROCESS && details->visible &&
			 (details->since == 0 || details->since > found_at))
		appendStringInfoString(buf, ", whose transaction has ended");
	else if (details->since != 0)
		appendStringInfo(buf, "%s since %s", is_slot ? "" : ",",
						 timestamptz_to_str(details->since));
}
