/*-------------------------------------------------------------------------
 *
 * table.c
 *	  What a scheduler worker does with one table.
 *
 *		lock, open --> still needed? --> VACUUM, or a sweep --> commit
 *			--> ANALYZE --> commit
 *		   locked by another session: the table waits
 *		   large after all, and no place for that: put back into the queue
 *		   needs nothing any more: removed from the queue
 *		   dead rows not removable yet: the table waits
 *
 * VACUUM and ANALYZE are a transaction each, as in core, and core's own commit
 * ends them.
 *
 * Tables are vacuumed one by one, through the relation_vacuum slot of heap's
 * table access method, where VACUUM commands arrive as well
 * (entry/dispatch.c).  They do not go through core's vacuum(), for these
 * reasons:
 *
 *	- it sets the cost balance to 0 before and after, so what is still to be
 *	  slept off is lost at each call
 *	- it takes the limits of vacuum_cost_* (from PG 16 on by
 *	  VacuumUpdateCosts()), not those of the scheduler, and turns the delay off
 *	  at the end
 *	- on PG 15 it reads all of pg_class to compute pg_database.datfrozenxid;
 *	  the scheduler worker does that once, when the queue is empty
 *
 * The guard (base/guard.c), which holds for the whole process, replaces
 * vacuum()'s own protection against being entered twice.  open_table()
 * replaces the checks that vacuum_rel() makes after it has locked the table.
 *
 * A scheduler worker acts as the bootstrap superuser, and as the table's owner
 * where the owner's code may run, as VACUUM does.
 *
 * Core: postmaster/autovacuum.c, do_autovacuum; commands/vacuum.c, vacuum,
 * vacuum_rel.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "access/genam.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/ring.h"
#include "engine/index_vacuum.h"
#include "entry/dispatch.h"
#include "entry/effective_options.h"
#include "entry/failures.h"
#include "entry/relation.h"
#include "sched/candidates.h"
#include "sched/deadline.h"
#include "sched/sweep_table.h"
#include "sched/table.h"
#include "sched/table_log.h"
#include "stats/history_run.h"
#include "throttle/cost.h"

/* The ages to freeze by: the settings', or 0 as in autovacuum */
static int	freeze_min_age;
static int	freeze_table_age;
static int	multixact_freeze_min_age;
static int	multixact_freeze_table_age;

/* Memory for one table; core's ANALYZE finds it as PortalContext */
static MemoryContext work_context = NULL;

/* A ring of buffers for core's code; the engine creates its own */
static BufferAccessStrategy ring = NULL;


/*
 * Reads what the following vacuums depend on, when the worker starts and after
 * each reload.  In a database that does not change, a template or one that
 * does not allow connections, everything is frozen at once, and then never
 * again.
 *
 * Core: postmaster/autovacuum.c, do_autovacuum.
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
	multixact_freeze_table_age = at_once ?
		0 : vacuum_multixact_freeze_table_age;
}

/*
 * Is the relation still what was queued?  The caller has locked it.  On PG 15
 * a rule _RETURN can have made a view of it under the same OID, which has no
 * access method.  The OID of a dropped table can have been given to any other
 * relation.
 *
 * Core checks this after it has locked the relation, in vacuum_rel (V) and
 * analyze_rel (A) of commands/, or just before that, in autovacuum's
 * table_recheck_autovac (R):
 *
 *		it exists				V A R	open_table()
 *		rights of the caller	V A		not here: an autovacuum worker is a superuser,
 *										and so are we; parvacuum_enqueue() has
 *										checked its caller's rights
 *		kind of relation		V A		here
 *		partitioned tables		V		here: there is nothing to do
 *		foreign tables			A		here: autovacuum ignores them
 *		temporary tables		V A		here: all of them are other sessions'
 *		pg_statistic			A		analyze_rel() itself
 *		needs it, storage parameters	R	recheck_need()
 *		index_cleanup, truncate, eager freezing	V	choose_params()
 *		the parent of a TOAST table	V	here; V also keeps a lock on the parent
 */
static bool
is_as_queued(Relation rel, const PvItem *item)
{
	Form_pg_class form = rel->rd_rel;

	return (form->relkind == RELKIND_RELATION ||
			form->relkind == RELKIND_MATVIEW ||
			form->relkind == RELKIND_TOASTVALUE) &&
		rel->rd_tableam != NULL &&
		form->relpersistence != RELPERSISTENCE_TEMP &&
		pv_is_toast_of(rel, item->toast_parent);
}

/*
 * Locks the table with ShareUpdateExclusiveLock and opens it.  Returns NULL if
 * another session has locked it (then *locked is true), or if it no longer
 * exists or is not what was queued.
 *
 * A scheduler worker does not wait for the lock, not even if the table is
 * old.  There will be another database scan, and a few locked tables would
 * make all others wait.  Core's forced autovacuum, which begins when the table
 * is a tenth older, does wait.
 *
 * RelationIdGetRelation() returns NULL for a relation that does not exist,
 * which cannot change while the lock is held.  try_relation_open() would look
 * it up in another cache first, which costs as much again for each table.
 */
static Relation
open_table(const PvItem *item, bool vacuumed, bool *locked)
{
	Relation	rel;

	*locked = !ConditionalLockRelationOid(item->key.relid,
										  ShareUpdateExclusiveLock);
	if (*locked)
	{
		pv_sched_count(PV_COUNT_SKIPPED_LOCK);
		pv_history_skipped(item->key.relid,
						   vacuumed ? PV_WORK_ANALYZE : PV_WORK_VACUUM,
						   ShareUpdateExclusiveLock);
		pv_log_skipped_table(item->key.relid, vacuumed);
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
 * Chooses VACUUM's parameters as autovacuum does.
 * Core: postmaster/autovacuum.c, table_recheck_autovac.
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
	params->multixact_freeze_min_age =
		own && own->multixact_freeze_min_age >= 0 ?
		own->multixact_freeze_min_age : multixact_freeze_min_age;
	params->multixact_freeze_table_age =
		own && own->multixact_freeze_table_age >= 0 ?
		own->multixact_freeze_table_age : multixact_freeze_table_age;
	params->is_wraparound = work->item.score.wraparound;

	/* a vacuum to prevent wraparound is aggressive whatever the settings are */
	if (params->is_wraparound)
		params->freeze_table_age = params->multixact_freeze_table_age = 0;
	pv_choose_log_min_duration(params, own);
	params->truncate = VACOPTVALUE_AUTO;

	/*
	 * no workers if core's engine does it, as in autovacuum; ours decides
	 * itself
	 */
	params->nworkers = -1;
	pv_choose_eager_failure_rate(params, rel);

	params->index_cleanup = VACOPTVALUE_AUTO;
	if (options != NULL &&
		options->vacuum_index_cleanup == STDRD_OPTION_VACUUM_INDEX_CLEANUP_ON)
		params->index_cleanup = VACOPTVALUE_ENABLED;
	if (options != NULL &&
		options->vacuum_index_cleanup == STDRD_OPTION_VACUUM_INDEX_CLEANUP_OFF)
		params->index_cleanup = VACOPTVALUE_DISABLED;
}

/*
 * A table with cost limits of its own does not use the scheduler's balance.
 */
static void
choose_budget(const PvTableWork *work)
{
	PvCostBudget budget;

	if (pv_cost_of_table(work->has_options ? &work->options : NULL, &budget))
		pv_cost_close_balance(budget.delay, budget.limit);
}

/*
 * Shows in pg_stat_activity what is done with the table, in the words of an
 * autovacuum worker, by which others know a vacuum.
 * Core: postmaster/autovacuum.c, autovac_report_activity.
 */
static void
show_activity(const PvTableWork *work)
{
	const PvScore *score = &work->item.score;
	char		activity[2 * NAMEDATALEN + 80];

	snprintf(activity, sizeof(activity), "autovacuum:%s%s %s (parvacuum)%s",
			 score->vacuum ? " VACUUM" : score->sweep ? " SWEEP" : "",
			 score->analyze ? " ANALYZE" : "",
			 work->name,
			 score->wraparound ? " (to prevent wraparound)" : "");
	pgstat_report_activity(STATE_RUNNING, activity);
}

/*
 * Is it outside the table's window now?  A table that a user has asked for
 * does not wait for its window.
 */
static bool
is_outside_window(const PvTableWork *work)
{
	PvWindow	window;

	if (work->item.requested)
		return false;
	pv_need_window(&work->effective, &window);
	return pv_need_is_outside(&window, &work->item.score, time(NULL));
}

/*
 * What the table, which is open, needs by its row of pg_class.  Of a shared
 * catalog the relation cache may have the row of another database, with the age
 * that it has there: it begins with a file of nailed relations, and the file of
 * those that are shared is the same for all databases.
 */
static void
score_table(PvTableWork *work, Relation rel)
{
	const AutoVacOpts *own = work->has_options ? &work->options : NULL;
	bool		sweep = work->effective.value[PV_OPTION_SWEEP] > 0;
	PvScore    *score = &work->item.score;
	HeapTuple	tuple;

	if (!rel->rd_rel->relisshared)
	{
		pv_need_score(rel->rd_rel, own, sweep, score);
		return;
	}
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(rel)));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u",
			 RelationGetRelid(rel));
	pv_need_score((Form_pg_class) GETSTRUCT(tuple), own, sweep, score);
	ReleaseSysCache(tuple);
}

/*
 * Checks again what the table needs, with the table locked.  Returns false if
 * it needs nothing any more, or if it has opted out.
 */
static bool
recheck_need(PvTableWork *work, Relation rel)
{
	PvScore    *score = &work->item.score;
	bool		requested = work->item.requested;
	TimestampTz until;

	pv_options_find(rel, &work->item.toast_parent, &work->effective);
	if (!requested &&
		!pv_need_is_served(RelationGetRelid(rel),
						   work->effective.value[PV_OPTION_ENABLED] > 0))
		return false;
	work->has_options = pv_options_autovacuum(rel, work->item.toast_parent,
											  &work->options);
	score_table(work, rel);

	/* pg_class may have an old size, or one that the owner has made up */
	work->item.pages = RelationGetNumberOfBlocks(rel);
	if (work->item.held)
		work->item.held =
			pv_vacuum_is_useless(score, &work->item.left,
								 GetOldestNonRemovableTransactionId(rel)) &&
			!pv_indexes_have_work(rel);
	if (work->item.held)
		pv_score_rest(score, false, score->analyze, work->item.pages);
	if (requested)
	{
		score->vacuum = true;
		score->sweep = false;
	}

	work->failed = pv_need_leave_out_failed(rel->rd_rel, work->item.pages,
											score, &until);

	/* rel has the name at hand, which get_rel_name() would have to look up */
	work->name = psprintf("%s.%s",
						  get_namespace_name(RelationGetNamespace(rel)),
						  RelationGetRelationName(rel));
	work->full_name = pv_full_relname(rel);
	return score->vacuum || score->analyze || score->sweep;
}

/* What become_oneself() restores */
typedef struct OwnIdentity
{
	Oid			userid;
	int			sec_context;
	int			nestlevel;
} OwnIdentity;

/*
 * Has functions of indexes run as the owner of the table.  They cannot change
 * settings of this process.  An error restores all of it with the transaction.
 *
 * Core: commands/vacuum.c, vacuum_rel.
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

/* Vacuums the table, which is locked and open. */
static void
vacuum_table(PvTableWork *work, Relation rel)
{
	PvKnownTable known = {work->item.toast_parent, &work->effective};
	OwnIdentity own;
	TransactionId next_xid;

	pv_deadline_set_size(rel, work->effective.value[PV_OPTION_ENABLED] <= 0 ||
						 pv_dispatch_declines(rel->rd_rel,
											  work->item.toast_parent));
	choose_params(work, rel);
	if (work->params.is_wraparound)
		pv_show_against_wraparound();
	choose_budget(work);
	next_xid = ReadNextTransactionId();
	work->horizon = GetOldestNonRemovableTransactionId(rel);
	work->horizon_is_newest = work->horizon == next_xid;

	become_owner(rel, &own);
	pv_dispatch_vacuum(rel, &work->params, ring, &known);
	become_oneself(&own);

	pv_cost_open_balance();
	work->done |= PV_DONE_VACUUM;
	pv_sched_count(PV_COUNT_VACUUMS);
}

/* Sweeps the B-trees of the table, which is locked and open. */
static void
sweep_table(PvTableWork *work, Relation rel)
{
	OwnIdentity own;

	pv_deadline_set_size(rel, false);
	choose_budget(work);
	become_owner(rel, &own);
	pv_sweep_table(rel, &work->effective,
				   work->has_options ? &work->options : NULL,
				   work->full_name);
	become_oneself(&own);

	pv_cost_open_balance();
	work->done |= PV_DONE_SWEEP;
	pv_sched_count(PV_COUNT_SWEEPS);
}

/*
 * Is there as much to do as before the vacuum, because dead rows are not
 * removable yet?
 */
static bool
horizon_is_in_the_way(PvTableWork *work, Relation rel)
{
	PvScore		after;
	int			max_age = autovacuum_freeze_max_age;

	if (work->item.held)
		return true;
	if ((work->done & PV_DONE_VACUUM) == 0)
		return false;
	if (work->has_options && work->options.freeze_max_age >= 0)
		max_age = Min(max_age, work->options.freeze_max_age);
	if (work->item.score.wraparound &&
		(int32) (ReadNextTransactionId() - work->horizon) >
		PV_AGE_SHARE * max_age)
		return true;
	if (work->item.score.dead <= 1 || work->horizon_is_newest)
		return false;
	pv_need_score(rel->rd_rel, work->has_options ? &work->options : NULL,
				  false, &after);
	return after.dead > 1;
}

/*
 * Commit a vacuum.  The scheduler worker does not wait for its WAL otherwise.
 * But a transaction with an XID has locked the table against readers, to
 * truncate it, and a standby keeps that lock until it has replayed the commit
 * record.
 */
static void
commit_vacuum(void)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ForceSyncCommit();
	CommitTransactionCommand();
}

/*
 * See pv_queue_recheck().  The launcher is woken where this worker has given up
 * a place for a large table.
 */
static bool
keeps_place(const PvTableWork *work)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);
	bool		was_large = work->slot->large;
	bool		goes_on = pv_queue_recheck(queues, work->slot, &work->item);

	if (was_large && !work->slot->large)
		pv_queue_wake_launcher();
	pv_queue_unlock();
	return goes_on;
}

/*
 * The table is done, or cannot be done now, see pv_queue_finish().  If it was
 * put back before an error came, it is left alone.  The launcher is woken if
 * another worker may take a large table now, because it does not look for that
 * by itself.
 */
void
pv_table_finish(const PvTableWork *work, PvWaitReason reason,
				TransactionId horizon)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);

	if (work->slot->large)
		pv_queue_wake_launcher();
	if (work->slot->busy)
		pv_queue_finish(queues, work->slot, work->done, reason, horizon);
	pv_queue_unlock();
	pv_queue_forget_cancel();
}

/* How the first transaction has ended */
typedef enum VacuumOutcome
{
	OUTCOME_DONE,				/* vacuumed or swept, if that was needed;
								 * ANALYZE is next */
	OUTCOME_SKIPPED,			/* nothing is to be done now */
	OUTCOME_PUT_BACK			/* it is large, and there is no place */
} VacuumOutcome;

/*
 * The first transaction: checks what the table needs, and vacuums it or sweeps
 * its B-trees.  *reason is set to what the table is to wait for, if it is to wait.
 *
 * PROC_IN_VACUUM is set before there is a snapshot, so that others ignore the
 * xmin of this transaction, as in core's vacuum_rel().
 */
static VacuumOutcome
recheck_and_vacuum(PvTableWork *work, PvWaitReason *reason)
{
	const PvScore *score = &work->item.score;
	VacuumOutcome outcome = OUTCOME_SKIPPED;
	PvAttempt	attempt = PV_ATTEMPT_LEFT;
	Relation	rel;
	bool		locked;

	*reason = PV_WAIT_NONE;
	StartTransactionCommand();
	pv_show_in_vacuum();
	PushActiveSnapshot(GetTransactionSnapshot());
	CHECK_FOR_INTERRUPTS();
	MemoryContextSwitchTo(work_context);

	rel = open_table(&work->item, false, &locked);
	if (rel != NULL)
		pv_failures_begin(rel, false);
	if (locked)
		*reason = PV_WAIT_LOCK;
	else if (rel == NULL || !recheck_need(work, rel))
	{
		if (rel != NULL && work->item.held)
			*reason = PV_WAIT_HORIZON;
		pv_sched_count(PV_COUNT_NOT_NEEDED);
	}
	else if (work->failed != PV_WAIT_NONE)
		*reason = work->failed;
	else if (is_outside_window(work))
	{
		*reason = PV_WAIT_WINDOW;
		pv_sched_count(PV_COUNT_SKIPPED_WINDOW);
	}
	else if (!keeps_place(work))
		outcome = OUTCOME_PUT_BACK;
	else
	{
		outcome = OUTCOME_DONE;
		show_activity(work);
		if (score->vacuum || score->sweep)
			attempt = PV_ATTEMPT_DONE;
		if (score->vacuum)
			vacuum_table(work, rel);
		else if (score->sweep)
			sweep_table(work, rel);
		if (horizon_is_in_the_way(work, rel))
			*reason = PV_WAIT_HORIZON;
	}

	if (rel != NULL)
		relation_close(rel, NoLock);
	PopActiveSnapshot();
	commit_vacuum();
	pv_failures_end(attempt);
	return outcome;
}

/*
 * The second transaction: ANALYZE.  Returns false if another session has
 * locked the table meanwhile.  The guard protects analyze_rel() from being
 * entered twice, as vacuum() does in core.
 *
 * Core: commands/vacuum.c, vacuum.
 */
static bool
analyze_table(PvTableWork *work)
{
	bool		vacuumed = (work->done & PV_DONE_VACUUM) != 0;
	OwnIdentity own;
	VacuumParams params;
	PvUsageStart usage;
	PvResult	used = {0};
	Relation	rel;
	bool		locked;

	memset(&params, 0, sizeof(params));
	params.options = VACOPT_ANALYZE;
	pv_choose_log_min_duration(&params,
							   work->has_options ? &work->options : NULL);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(work_context);
	rel = open_table(&work->item, vacuumed, &locked);
	if (rel != NULL)
	{
		pv_failures_begin(rel, true);
		pv_deadline_set_size(rel, false);
		pv_deadline_begin_owner(RelationGetNumberOfBlocks(rel), true);
		choose_budget(work);
		pv_cost_flush();
		pv_usage_start(&usage,
					   pv_log_analyze_min_duration(&params) >= 0);
		pv_history_begin_scheduled(rel, PV_WORK_ANALYZE, &used);
		PG_TRY();
		{
			analyze_rel(work->item.key.relid, NULL, &params, NIL, false, ring);
			pv_usage_since(&usage, &used);
			pv_history_done();
		}
		PG_CATCH();
		{
			pv_history_failed();
			PG_RE_THROW();
		}
		PG_END_TRY();
		pv_log_analyze(rel, &params, &usage);
		pv_deadline_end_owner();
		/* as the ANALYZE of an autovacuum worker does, which this is not */
		if (!vacuumed)
		{
			become_owner(rel, &own);
			pv_index_empty_pending_lists(rel);
			become_oneself(&own);
		}
		work->done |= PV_DONE_ANALYZE;
		relation_close(rel, NoLock);
		pv_cost_charge_slept();
		pv_cost_open_balance();
		pv_sched_count(PV_COUNT_ANALYZES);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	pv_failures_end(PV_ATTEMPT_DONE);
	return !locked;
}

/*
 * Does what the table needs, and sleeps off what is left of its cost when no
 * lock is held any more.  All memory is allocated in the context.
 */
void
pv_table_do(PvTableWork *work, MemoryContext context)
{
	PvWaitReason reason;
	VacuumOutcome outcome;

	work_context = context;
	if (ring == NULL)
	{
		/* it outlives the table */
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		ring = pv_vacuum_strategy();
		MemoryContextSwitchTo(old);
	}
	outcome = recheck_and_vacuum(work, &reason);
	if (outcome == OUTCOME_PUT_BACK)
	{
		pv_queue_put_back(pv_queue_lock(LW_EXCLUSIVE), work->slot);
		pv_queue_wake_launcher();
		pv_queue_unlock();
		pv_queue_forget_cancel();
		return;
	}
	if (outcome == OUTCOME_DONE && work->item.score.analyze &&
		!analyze_table(work) && reason == PV_WAIT_NONE)
		reason = PV_WAIT_LOCK;

	/* A cancel that comes now was for this table, which is done */
	QueryCancelPending = false;
	pv_table_finish(work, reason, work->horizon);
	(void) pgstat_report_stat(false);
	pv_cost_poll();
	pv_delay_point();
}
