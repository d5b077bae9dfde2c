/*-------------------------------------------------------------------------
 *
 * table.c
 *	  What a scheduler worker does with one table.
 *
 *		open --> still needed? --> VACUUM --> ANALYZE --> finish
 *		   not the first any more: put back
 *		   needs nothing any more: forgotten
 *		   locked, dead rows still to be seen: waits
 *
 * VACUUM is one transaction and ANALYZE another.  A small table has both in one,
 * since there a transaction is a good part of all.
 *
 * Tables are vacuumed one by one, by what does it for VACUUM too: heap's slot of the
 * table access method, where entry/dispatch.c dispatches.  But not by core's vacuum(),
 * which at each call forgets what is left to be slept off, and on 15 reads all of
 * pg_class to find pg_database's frozenxid.  The worker does that once, when the queue
 * has been worked off.  Nor are they analyzed by vacuum(): it sets the cost balance to 0
 * before and after, takes the limits of vacuum_cost_* for those of the account (from 16
 * on by VacuumUpdateCosts()), and turns the delay off when it is done.  What vacuum() has
 * against being entered from code of users is here the guard (base/guard.c), which holds
 * for the whole process; and what vacuum_rel() checks once it has a lock is in
 * open_table().
 *
 * A scheduler worker acts as the bootstrap superuser, and as the table's owner where the
 * owner's code may run, as VACUUM does.
 *
 * Core: postmaster/autovacuum.c, do_autovacuum; commands/vacuum.c, vacuum_rel.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "access/genam.h"
#include "access/gin.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_database.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/walwriter.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinval.h"
#include "storage/standby.h"
#include "utils/backend_status.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/process.h"
#include "engine/visibility_map.h"
#include "entry/dispatch.h"
#include "sched/candidates.h"
#include "sched/table.h"
#include "throttle/cost.h"

/* Ages of pg_settings, or 0 where nobody can connect, as in autovacuum */
static int	freeze_min_age;
static int	freeze_table_age;
static int	multixact_freeze_min_age;
static int	multixact_freeze_table_age;

/* What vacuums have logged, up to where the WAL writer knows of it, and since when; see
 * commit_vacuum() */
static XLogRecPtr logged = InvalidXLogRecPtr;
static XLogRecPtr told = InvalidXLogRecPtr;
static TimestampTz told_at = 0;

/* For one table; core's ANALYZE looks for it as PortalContext */
static MemoryContext work_context = NULL;

/* A ring of buffers for what core does; the engine makes its own */
static BufferAccessStrategy ring = NULL;


/*
 * By the settings as they are now: a database that nobody can change is frozen whole,
 * and then never again.
 */
void
pv_table_configure(void)
{
	HeapTuple	tuple;
	Form_pg_database form;
	bool		at_once;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	form = (Form_pg_database) GETSTRUCT(tuple);
	at_once = form->datistemplate || !form->datallowconn;
	ReleaseSysCache(tuple);
	CommitTransactionCommand();

	freeze_min_age = at_once ? 0 : vacuum_freeze_min_age;
	freeze_table_age = at_once ? 0 : vacuum_freeze_table_age;
	multixact_freeze_min_age = at_once ? 0 : vacuum_multixact_freeze_min_age;
	multixact_freeze_table_age = at_once ? 0 : vacuum_multixact_freeze_table_age;
}

/*
 * Somebody has the table locked.
 */
static void
note_locked(Oid relid)
{
	char	   *name = get_rel_name(relid);

	pg_atomic_fetch_add_u64(&pv_queue_counters()->skipped_lock, 1);
	if (Log_autovacuum_min_duration >= 0 && name != NULL)
		ereport(LOG,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("parvacuum's scheduler skipped table \"%s\"", name),
				 errdetail("Somebody has it locked.")));
}

/*
 * Does the TOAST table belong to that table, and is it one?  A table has no parent.
 */
static bool
is_toast_of(Relation rel, Oid toast_parent)
{
	HeapTuple	tuple;
	bool		result = false;

	if (rel->rd_rel->relkind != RELKIND_TOASTVALUE || !OidIsValid(toast_parent))
		return rel->rd_rel->relkind != RELKIND_TOASTVALUE && !OidIsValid(toast_parent);
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(toast_parent));
	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_class) GETSTRUCT(tuple))->reltoastrelid == RelationGetRelid(rel);
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * Is the relation still what was queued, now that it is locked?  A table can have become
 * a view under the same OID on 15, by a rule _RETURN, and has no access method then; and
 * an OID that was given up can be given to anything.
 *
 * Core checks after locking, in vacuum_rel (V) and analyze_rel (A) of commands/, or just
 * before, in autovacuum's table_recheck_autovac (R):
 *
 *		it exists				V A R	open_table()
 *		rights of the caller	V A		not here, as in an autovacuum worker, which is a
 *										superuser; parvacuum_enqueue() checks the caller's
 *		kind of relation		V A		here
 *		partitioned tables		V		here: no work
 *		foreign tables			A		here: autovacuum leaves them alone
 *		temporary tables		V A		here: all of them are other sessions'
 *		shared catalogs			R		here: core's autovacuum vacuums them
 *		pg_statistic			A		analyze_rel() itself
 *		needs it, storage parameters	R		still_needed()
 *		index_cleanup, truncate, eager freezing	V	choose_params()
 *		the parent of a TOAST table	V	here, where V keeps a lock on the parent
 */
static bool
is_as_queued(Relation rel, const PvItem *item)
{
	Form_pg_class form = rel->rd_rel;

	return (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_MATVIEW ||
			form->relkind == RELKIND_TOASTVALUE) &&
		rel->rd_tableam != NULL &&
		form->relpersistence != RELPERSISTENCE_TEMP &&
		!form->relisshared &&
		is_toast_of(rel, item->toast_parent);
}

/*
 * Lock the table and open it.  NULL with *locked set if somebody has it, or if it is
 * gone, or not what was queued.
 *
 * It is not waited for, not for its age either: there is a next pass, and as many locked
 * tables as there are workers would have all others wait.  Core's forced autovacuum, which
 * comes a tenth of the age later, does wait.
 *
 * With the lock held, the relation cache itself can tell whether it is still there;
 * try_relation_open() asks another cache first, which for each table is as much
 * work again.
 */
static Relation
open_table(const PvItem *item, bool *locked)
{
	Relation	rel;

	*locked = !ConditionalLockRelationOid(item->key.relid, ShareUpdateExclusiveLock);
	if (*locked)
	{
		note_locked(item->key.relid);
		return NULL;
	}
	rel = RelationIdGetRelation(item->key.relid);
	if (!RelationIsValid(rel))
		return NULL;
	if (!is_as_queued(rel, item))
	{
		RelationClose(rel);
		return NULL;
	}
	pgstat_init_relation(rel);
	return rel;
}

/*
 * VACUUM's parameters, as autovacuum would have them.
 */
static void
choose_params(PvTableWork *work, Relation rel)
{
	VacuumParams *params = &work->params;
	const AutoVacOpts *own = work->has_options ? &work->options : NULL;
	StdRdOptions *options = (StdRdOptions *) rel->rd_options;

	memset(params, 0, sizeof(*params));
	params->freeze_min_age = own && own->freeze_min_age >= 0 ?
		own->freeze_min_age : freeze_min_age;
	params->freeze_table_age = own && own->freeze_table_age >= 0 ?
		own->freeze_table_age : freeze_table_age;
	params->multixact_freeze_min_age = own && own->multixact_freeze_min_age >= 0 ?
		own->multixact_freeze_min_age : multixact_freeze_min_age;
	params->multixact_freeze_table_age = own && own->multixact_freeze_table_age >= 0 ?
		own->multixact_freeze_table_age : multixact_freeze_table_age;
	params->is_wraparound = work->item.score.wraparound;

	/* what core starts that late is aggressive whatever the settings are */
	if (params->is_wraparound)
		params->freeze_table_age = params->multixact_freeze_table_age = 0;
	params->log_min_duration = own && own->log_min_duration >= 0 ?
		own->log_min_duration : Log_autovacuum_min_duration;
	params->truncate = VACOPTVALUE_AUTO;
	if (!pv_hook_is_called_for(rel))
		pv_hook_resolve_truncate(rel, params, true);

	/* of core's engine, no more than autovacuum asks for; ours makes up its own mind */
	params->nworkers = -1;
	pv_choose_eager_failure_rate(params, rel);

	params->index_cleanup = VACOPTVALUE_AUTO;
	if (options != NULL && options->vacuum_index_cleanup == STDRD_OPTION_VACUUM_INDEX_CLEANUP_ON)
		params->index_cleanup = VACOPTVALUE_ENABLED;
	if (options != NULL && options->vacuum_index_cleanup == STDRD_OPTION_VACUUM_INDEX_CLEANUP_OFF)
		params->index_cleanup = VACOPTVALUE_DISABLED;
}

/*
 * A table with limits of its own is not on the account.  But a limit without a delay
 * says nothing.
 */
static void
choose_budget(const PvTableWork *work)
{
	PvCostBudget budget;

	if (!work->has_options ||
		(work->options.vacuum_cost_delay < 0 && work->options.vacuum_cost_limit <= 0))
		return;

	pv_cost_of_autovacuum(&budget);
	if (work->options.vacuum_cost_delay >= 0)
		budget.delay = work->options.vacuum_cost_delay;
	else if (budget.delay <= 0)
		return;
	if (work->options.vacuum_cost_limit > 0)
		budget.limit = work->options.vacuum_cost_limit;
	pv_cost_close_balance(budget.delay, budget.limit);
}

/*
 * Say what is going on, in pg_stat_activity.
 */
static void
show_activity(const PvTableWork *work)
{
	const PvScore *score = &work->item.score;
	char		activity[2 * NAMEDATALEN + 64];

	snprintf(activity, sizeof(activity), "parvacuum: %s%s%s %s%s",
			 score->vacuum ? "VACUUM" : "",
			 score->vacuum && score->analyze ? " " : "",
			 score->analyze ? "ANALYZE" : "",
			 work->name,
			 score->wraparound ? " (to prevent wraparound)" : "");
	pgstat_report_activity(STATE_RUNNING, activity);
}

/*
 * Has its window closed, or was it given another?  Who has asked for the table does not
 * mind.
 */
static bool
is_outside_window(const PvTableWork *work)
{
	PvWindow	window;

	if (work->item.priority > 0)
		return false;
	pv_need_window(&work->effective, &window);
	return pv_need_is_outside(&window, &work->item.score, time(NULL));
}

/*
 * Look again at what the table needs now.  False if it is nothing, or has opted out.
 */
static bool
still_needed(PvTableWork *work, Relation rel)
{
	PvScore    *score = &work->item.score;

	pv_options_of(rel, work->item.toast_parent, &work->effective);
	if (work->item.priority == 0 && work->effective.value[PV_OPTION_ENABLED] <= 0)
		return false;
	work->has_options = pv_options_autovacuum(rel, work->item.toast_parent, &work->options);
	pv_need_score(rel->rd_rel, work->has_options ? &work->options : NULL, score);

	/* pg_class does not know the size of what was never vacuumed */
	work->item.pages = RelationGetNumberOfBlocks(rel);
	if (work->item.only_analyze)
		work->item.only_analyze = GetOldestNonRemovableTransactionId(rel) == work->item.horizon;
	if (work->item.only_analyze)
	{
		work->horizon = work->item.horizon;
		pv_score_only_analyze(score, work->item.pages);
	}
	if (work->item.priority > 0)
	{
		score->vacuum = true;
		score->total = Max(score->total, work->item.priority);
	}

	/* rel has its name at hand; the cache that others would ask has it not */
	work->name = psprintf("%s.%s", get_namespace_name(RelationGetNamespace(rel)),
						  RelationGetRelationName(rel));
	return score->vacuum || score->analyze;
}

/* Who we are while we act as the owner of a table */
typedef struct OwnIdentity
{
	Oid			userid;
	int			sec_context;
	int			nestlevel;
} OwnIdentity;

/*
 * Functions of indexes run as the owner of the table, who can change no setting of ours.
 */
static void
become_owner(Relation rel, OwnIdentity *own)
{
	GetUserIdAndSecContext(&own->userid, &own->sec_context);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   own->sec_context | SECURITY_RESTRICTED_OPERATION);
	own->nestlevel = NewGUCNestLevel();
	pv_restrict_search_path();
}

static void
become_oneself(const OwnIdentity *own)
{
	AtEOXact_GUC(false, own->nestlevel);
	SetUserIdAndSecContext(own->userid, own->sec_context);
}

/*
 * What VACUUM does with a table that it has opened and locked.
 */
static void
vacuum_table(PvTableWork *work, Relation rel)
{
	OwnIdentity own;
	TransactionId next_xid;

	choose_params(work, rel);
	if (work->params.is_wraparound)
		pv_process_change_status(PROC_VACUUM_FOR_WRAPAROUND, 0);
	choose_budget(work);
	next_xid = ReadNextTransactionId();
	work->horizon = GetOldestNonRemovableTransactionId(rel);
	work->nobody_looks = work->horizon == next_xid;

	become_owner(rel, &own);
	pv_hook_tell_options(RelationGetRelid(rel), work->item.toast_parent, &work->effective);
	table_relation_vacuum(rel, &work->params, ring);
	pv_hook_forget_options();
	become_oneself(&own);

	pv_cost_open_balance();
	work->vacuumed = true;
	pg_atomic_fetch_add_u64(&pv_queue_counters()->vacuums, 1);
}

/*
 * Is there as much to do as before because what is dead may still be seen?
 */
static bool
horizon_is_in_the_way(PvTableWork *work, Relation rel)
{
	PvScore		after;
	int			max_age = autovacuum_freeze_max_age;

	if (work->item.only_analyze)
		return true;
	if (!work->vacuumed)
		return false;
	if (work->has_options && work->options.freeze_max_age >= 0)
		max_age = Min(max_age, work->options.freeze_max_age);
	if (work->item.score.wraparound &&
		(int32) (ReadNextTransactionId() - work->horizon) > PV_AGE_SHARE * max_age)
		return true;
	if (work->item.score.dead <= 1 || work->nobody_looks)
		return false;
	pv_need_score(rel->rd_rel, work->has_options ? &work->options : NULL, &after);
	return after.dead > 1;
}

/*
 * Can the transaction of the vacuum be the ANALYZE's too?
 *
 * Not for long, since somebody may wait for the lock; nor if it prevents wraparound, as
 * who has waited for that does not cancel what comes after it.  Not if it has an XID:
 * others have left that out of their snapshots, and to them what it writes now would
 * look aborted; and standbys keep the lock for a truncation until it commits.  Nor for
 * a catalog, whose vacuum may have to remove the relation cache's file.
 */
static bool
is_analyzed_at_once(const PvTableWork *work)
{
	return work->item.score.analyze && !work->item.score.wraparound &&
		work->item.pages <= PV_SMALL_PAGES &&
		!TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		!IsCatalogRelationOid(work->item.key.relid);
}

/*
 * Tell others and standbys now of rows of catalogs that were updated in place, which the
 * commit would.  Then there is nothing left for it to tell.
 *
 * Core: xact.c, RecordTransactionCommit, for a transaction without an XID, and inval.c,
 * AtEOXact_Inval.
 */
static void
send_invalidations(void)
{
	SharedInvalidationMessage *messages;
	bool		init_file;
	int			n = xactGetCommittedInvalidationMessages(&messages, &init_file);

	if (n > 0)
	{
		if (XLogLogicalInfoActive())
			LogLogicalInvalidations();
		if (XLogStandbyInfoActive())
			LogStandbyInvalidations(n, messages, init_file);
		AtEOXact_Inval(true);
	}
}

/*
 * Have the transaction be an ordinary one from here on.  Others did not heed our xmin, so
 * there must be none while that changes.
 *
 * Rows of pg_class were updated in place, and stay so, whatever becomes of the transaction.
 * It might fail now, so others are told here: else standbys would not be before 18, and
 * before 15.16, 16.12 and 17.8 nobody would.
 */
static void
end_vacuum_in_transaction(void)
{
	InvalidateCatalogSnapshot();
	Assert(!TransactionIdIsValid(MyProc->xmin) && !TransactionIdIsValid(MyProc->xid));
	pv_process_change_status(0, PROC_IN_VACUUM | PROC_VACUUM_FOR_WRAPAROUND);
	send_invalidations();
	AcceptInvalidationMessages();
}

/*
 * Commit a vacuum.
 *
 * With an XID, standbys hold the lock for a truncation until they have the commit, so it
 * is flushed at once.
 *
 * Without one, before 17 each such commit wakes the WAL writer if a page of WAL is full:
 * for a small table that is a tenth of all.  So the WAL writer hears of it, as since then,
 * when there is as much as it flushes at one time, and also when it is to look by itself;
 * and of the rest when this process ends.
 *
 * Core: xlog.c, XLogSetAsyncXactLSN of 17.
 */
static void
commit_vacuum(void)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ForceSyncCommit();
	else if (PV_COMMIT_WAKES_WAL_WRITER)
	{
		TimestampTz now = GetCurrentTimestamp();

		send_invalidations();
		logged = Max(logged, XactLastRecEnd);
		XactLastRecEnd = 0;
		if (logged > told &&
			(logged - told >= (uint64) WalWriterFlushAfter * XLOG_BLCKSZ ||
			 TimestampDifferenceExceeds(told_at, now, WalWriterDelay)))
		{
			XactLastRecEnd = told = logged;
			told_at = now;
		}
	}
	CommitTransactionCommand();
}

/*
 * The first transaction: look again, and vacuum.  Returns what the table is to
 * wait for, if for anything.  *go_on is false if nothing else is to be done.
 *
 * PROC_IN_VACUUM is set before there is a snapshot, so that others do not heed our
 * xmin; see core's vacuum_rel.  Whether it is to prevent wraparound, so that others do not
 * cancel it, is known only after the look.
 */
static PvWaitReason
look_and_vacuum(PvTableWork *work, bool *go_on, bool *put_back)
{
	PvWaitReason reason = PV_WAIT_NONE;
	Relation	rel;
	bool		locked;

	*go_on = *put_back = false;
	StartTransactionCommand();
	pv_process_change_status(PROC_IN_VACUUM, 0);
	PushActiveSnapshot(GetTransactionSnapshot());
	CHECK_FOR_INTERRUPTS();
	MemoryContextSwitchTo(work_context);

	rel = open_table(&work->item, &locked);
	if (locked)
		reason = PV_WAIT_LOCK;
	else if (rel == NULL || !still_needed(work, rel))
	{
		if (rel != NULL && work->item.only_analyze)
			reason = PV_WAIT_HORIZON;
		pg_atomic_fetch_add_u64(&pv_queue_counters()->not_needed, 1);
	}
	else if (is_outside_window(work))
	{
		reason = PV_WAIT_WINDOW;
		pg_atomic_fetch_add_u64(&pv_queue_counters()->skipped_window, 1);
	}
	else if (pv_queue_recheck(&work->item))
		*put_back = true;
	else
	{
		*go_on = true;
		show_activity(work);
		if (work->item.score.vacuum)
			vacuum_table(work, rel);
		if (horizon_is_in_the_way(work, rel))
			reason = PV_WAIT_HORIZON;
	}

	if (rel != NULL)
		relation_close(rel, NoLock);
	PopActiveSnapshot();
	if (*go_on && is_analyzed_at_once(work))
		end_vacuum_in_transaction();
	else
		commit_vacuum();
	return reason;
}

/*
 * What was inserted into a GIN index may wait in its pending list.  A vacuum empties that;
 * so does autovacuum's ANALYZE, but core does not know that we are like it.
 *
 * Core: access/gin/ginvacuum.c, ginvacuumcleanup.
 */
static void
empty_pending_lists(Relation rel)
{
	OwnIdentity own;
	ListCell   *lc;

	become_owner(rel, &own);
	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	indrel = index_open(lfirst_oid(lc), AccessShareLock);
		bool		is_gin = indrel->rd_rel->relam == GIN_AM_OID && indrel->rd_index->indisvalid;

		index_close(indrel, AccessShareLock);
		if (is_gin)
			DirectFunctionCall1(gin_clean_pending_list, ObjectIdGetDatum(lfirst_oid(lc)));
	}
	become_oneself(&own);
}

/*
 * The second, or the rest of the first: ANALYZE.  False if somebody has the table locked
 * meanwhile.  The guard is what analyze_rel() needs instead of core's vacuum() around it.
 */
static bool
analyze_table(PvTableWork *work)
{
	VacuumParams params;
	Relation	rel;
	bool		locked;

	memset(&params, 0, sizeof(params));
	params.options = VACOPT_ANALYZE;
	params.log_min_duration = work->has_options && work->options.log_min_duration >= 0 ?
		work->options.log_min_duration : Log_autovacuum_min_duration;

	if (!IsTransactionState())
		StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(work_context);
	rel = open_table(&work->item, &locked);
	if (rel != NULL)
	{
		choose_budget(work);
		pv_cost_flush();
		analyze_rel(work->item.key.relid, NULL, &params, NIL, false, ring);
		if (!work->vacuumed)
			empty_pending_lists(rel);
		relation_close(rel, NoLock);
		pv_cost_charge_slept();
		pv_cost_open_balance();
		pg_atomic_fetch_add_u64(&pv_queue_counters()->analyzes, 1);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return !locked;
}

/*
 * Do what the table needs, and pay for it when no lock is held.
 */
void
pv_table_do(PvTableWork *work, MemoryContext context)
{
	PvWaitReason reason;
	bool		go_on,
				put_back;

	work_context = context;
	if (ring == NULL)
		ring = pv_vacuum_strategy();
	reason = look_and_vacuum(work, &go_on, &put_back);
	if (put_back)
	{
		pv_queue_put_back(&work->item);
		return;
	}
	if (go_on && work->item.score.analyze && !analyze_table(work) && reason == PV_WAIT_NONE)
		reason = PV_WAIT_LOCK;

	/* A late signal was for this table, which is done */
	QueryCancelPending = false;
	pv_queue_finish(&work->item, work->vacuumed, reason, work->horizon);
	(void) pgstat_report_stat(false);
	pv_cost_poll();
	pv_delay_point();
}

/*
 * The worker ends: have the WAL writer flush what it has not heard of.
 */
void
pv_table_flush_log(void)
{
	if (logged > told)
		XLogSetAsyncXactLSN(logged);
}
