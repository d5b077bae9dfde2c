/*-------------------------------------------------------------------------
 *
 * blocker_details.c
 *	  Who a blocker of the horizon is: name, role, state and query, as far as
 *	  the viewer may see them.
 *
 * The rule is that of pg_stat_activity: a role sees its own sessions and those
 * of roles whose privileges it has, and members of pg_read_all_stats see all.
 * Of other sessions only the PID is shown, and not whether they are idle.
 * Prepared transactions and replication slots are shown to all roles by core's
 * views, and so here.
 *
 * Sessions and leaders of vacuums run this.  It takes no lock of ours.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "stats/blocker.h"

/* Most bytes of a name in a line of a report */
#define MAX_NAME			64

/* Columns of pg_prepared_xact() */
#define PREPARED_XID		1
#define PREPARED_GID		2
#define PREPARED_AT			3
#define PREPARED_OWNER		4

/*
 * Return a text of some database in the encoding of this one: the text itself,
 * or a copy in the current memory context.  What is not ASCII is replaced if
 * the encodings differ, or if the text is not valid.  Any role can choose such
 * texts, so one that cannot be converted must not make a view or a vacuum
 * fail.
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

static const char *
state_name(BackendState state)
{
	switch (state)
	{
		case STATE_IDLE:
			return "idle";
		case STATE_RUNNING:
			return "active";
		case STATE_IDLEINTRANSACTION:
			return "idle in transaction";
		case STATE_FASTPATH:
			return "fastpath function call";
		case STATE_IDLEINTRANSACTION_ABORTED:
			return "idle in transaction (aborted)";
		default:
			return NULL;		/* not tracked */
	}
}

/*
 * Return the entry of the process in the list of backends, as it was when this
 * transaction first read the list; NULL if there is none.
 */
const PgBackendStatus *
pv_status_of(int pid)
{
	int			n = pgstat_fetch_stat_numbackends();

	for (int i = 1; i <= n; i++)
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
 * May the viewer see a session of that role?
 *
 * Core: utils/adt/pgstatfuncs.c, HAS_PGSTAT_PERMISSIONS.
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

	details->visible = false;
	details->kind = blocker->kind == PV_BLOCKER_FEEDBACK ? "standby feedback" :
		"session";
	if (OidIsValid(blocker->role) && may_see(viewer, blocker->role))
		details->role = readable(GetUserNameFromId(blocker->role, true));
	if (status == NULL)
	{
		details->gone = true;
		return;
	}
	details->visible = may_see(viewer, blocker->role) &&
		may_see(viewer, status->st_userid);
	if (!details->visible)
	{
		details->role = NULL;
		return;
	}
	details->name = readable(pstrdup(status->st_appname));
	details->state = state_name(status->st_state);
	details->query =
		readable(pgstat_clip_activity(status->st_activity_raw));
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
 * Look up what the viewer may see of a blocker.  Strings are allocated in the
 * current memory context.
 */
void
pv_blocker_look_up(const PvBlocker *blocker, Oid viewer,
				   PvBlockerDetails *details)
{
	memset(details, 0, sizeof(*details));
	details->visible = true;
	if (blocker->kind == PV_BLOCKER_PROCESS ||
		blocker->kind == PV_BLOCKER_FEEDBACK)
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
 * the log.  It may also come from a database with another encoding, as names
 * of roles do, and then a client could not be given it.
 */
static void
append_name(StringInfo buf, const char *before, const char *name)
{
	const char *text;
	int			len;

	if (name == NULL || name[0] == '\0')
		return;
	text = pv_readable(name, GetDatabaseEncoding());
	len = pg_mbcliplen(text, strlen(text), MAX_NAME);
	appendStringInfo(buf, "%s \"", before);
	for (int i = 0; i < len; i++)
		appendStringInfoChar(buf, (unsigned char) text[i] < ' ' ||
							 text[i] == '\x7f' ? '?' : text[i]);
	appendStringInfoString(buf, text[len] != '\0' ? "...\"" : "\"");
}

/*
 * Append one line, without a newline, that says who the blocker is.  It was
 * found at that time, and may have ended by the time of the details.
 */
void
pv_blocker_describe(StringInfo buf, const PvBlocker *blocker,
					const PvBlockerDetails *details, TimestampTz found_at)
{
	bool		is_process = blocker->kind == PV_BLOCKER_PROCESS ||
		blocker->kind == PV_BLOCKER_FEEDBACK;
	bool		is_slot = blocker->kind == PV_BLOCKER_SLOT_XMIN ||
		blocker->kind == PV_BLOCKER_SLOT_CATALOG;

	appendStringInfoString(buf, details->kind);
	if (!is_process)
		append_name(buf, "", details->name);
	if (blocker->pid != 0)
		appendStringInfo(buf, ", PID %d", blocker->pid);
	if (is_process)
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
