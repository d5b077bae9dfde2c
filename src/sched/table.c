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
 * Tables are vacuumed through the relation_vacuum slot of heap's table access
 * method (entry/dispatch.c), and not by core's vacuum(): that forgets what is
 * left to be slept off, takes the limits of vacuum_cost_*, and on PG 15 reads
 * all of pg_class each time to compute pg_database.datfrozenxid.  The guard
 * (base/guard.c), which holds for the whole process, replaces its protection
 * against being entered twice, and open_table() the checks of vacuum_rel().
 *
 * All is done in PortalContext, where core's ANALYZE looks for its memory: as
 * the bootstrap superuser, and as the table's owner where the owner's code may
 * run.
 *
 * Core: postmaster/autovacuum.c, do_autovacuum; commands/vacuum.c, vacuum,
 * vacuum_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
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
#include "base/process.h"
#include "base/ring.h"
#include "engine/vacuum.h"
#include "entry/dispatch.h"
#include "entry/failures.h"
#include "entry/options.h"
#include "sched/table.h"
#include "stats/history.h"
#include "throttle/cost.h"

/*
 * How long to wait for locks that the vacuum of a large table needs when it
 * has begun, in milliseconds.  Among them is the lock of its row in pg_class,
 * at the end, when the vacuum may have taken hours.
 */
#define LONGEST_FOR_LARGE_MS	(10 * 60 * 1000)

/* The database does not change: everything is frozen at once */
static bool freeze_at_once;

/* A ring of buffers for core's code; the engine creates its own */
static BufferAccessStrategy ring = NULL;

/* The name of this worker's database, which does not change meanwhile */
NameData	pv_table_database;

/*
 * Prepare a worker when it starts.  In a template or a database that does not
 * allow connections, everything is frozen at once, and then never again.
 */
void
pv_table_init(void)
{
	HeapTuple	tuple;
	Form_pg_database form;

	MemoryContextSwitchTo(TopMemoryContext);
	ring = pv_vacuum_strategy();
	pv_owner_hook = pv_queue_set_for_owner;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	form = (Form_pg_database) GETSTRUCT(tuple);
	freeze_at_once = form->datistemplate || !form->datallowconn;
	pv_table_database = form->datname;
	ereport(DEBUG1,
			(errmsg_internal("parvacuum: processing database \"%s\"",
							 NameStr(pv_table_database))));
	ReleaseSysCache(tuple);
	CommitTransactionCommand();
}

/*
 * Limit how long this process waits for a lock from now on, in milliseconds: a
 * table's owner can lock its indexes, or the row of a database in pg_database,
 * and could keep all workers waiting.
 */
void
pv_table_limit_lock_waits(int ms)
{
	char		value[16];

	if (ms == LockTimeout)
		return;
	snprintf(value, sizeof(value), "%d", ms);
	SetConfigOption("lock_timeout", value, PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * Is the relation still what was queued?  The caller has locked it.  On PG 15
 * a rule _RETURN can have made a view of it under the same OID, which has no
 * access method.  The OID of a dropped table can have been given to any other
 * relation.  parvacuum_enqueue() has checked its caller's rights.
 *
 * Core: commands/vacuum.c, vacuum_rel; commands/analyze.c, analyze_rel.
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

/* Count, record and log that another session has locked the table. */
static void
note_skipped(const PvTableWork *work, bool vacuumed)
{
	Oid			relid = work->item.key.relid;
	const char *name = pv_qualified_relname(relid, false);
	AutoVacOpts own;

	pv_options_autovacuum_of(relid, work->item.toast_parent, &own);
	pv_sched_count(PV_COUNT_SKIPPED_LOCK);
	pv_history_skipped(relid, vacuumed ? PV_WORK_ANALYZE : PV_WORK_VACUUM,
					   ShareUpdateExclusiveLock);
	if (pv_own_log_min_duration(&own, vacuumed) >= 0)
		ereport(LOG,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 vacuumed ?
				 errmsg("parvacuum's scheduler skipped analyze of table \"%s.%s\"", NameStr(pv_table_database), name) :
				 errmsg("parvacuum's scheduler skipped table \"%s.%s\"", NameStr(pv_table_database), name),
				 errdetail("Another session has locked it.")));
}

/*
 * Lock the table with ShareUpdateExclusiveLock and open it: for VACUUM, or
 * only for the ANALYZE after it.  Return NULL if another session has locked
 * it, so that it waits, or if it no longer exists or is not what was queued.
 *
 * Not even an old table's lock is waited for: a few locked tables would make
 * all others wait.  Core's forced autovacuum, which begins when the table is a
 * tenth older, does wait.
 *
 * RelationIdGetRelation() returns NULL for a relation that does not exist,
 * which cannot change while the lock is held.  try_relation_open() would look
 * it up in another cache first, which costs as much again for each table.
 *
 * Core: postmaster/autovacuum.c, table_recheck_autovac; commands/vacuum.c,
 * vacuum_open_relation, vacuum_rel.
 */
static Relation
open_table(PvTableWork *work, bool vacuumed)
{
	const PvItem *item = &work->item;
	Relation	rel;

	if (!ConditionalLockRelationOid(item->key.relid, ShareUpdateExclusiveLock))
	{
		note_skipped(work, vacuumed);
		if (work->reason == PV_WAIT_NONE)
			work->reason = PV_WAIT_LOCK;
		return NULL;
	}
	rel = RelationIdGetRelation(item->key.relid);
	if (RelationIsValid(rel) && !is_as_queued(rel, item))
	{
		RelationClose(rel);
		return NULL;
	}
	if (RelationIsValid(rel))
		pgstat_init_relation(rel);
	return rel;
}

/* Return an age to freeze by: the table's own, or the setting. */
static int
freeze_age(int own, int setting)
{
	return own >= 0 ? own : freeze_at_once ? 0 : setting;
}

/*
 * Choose VACUUM's parameters as autovacuum does.
 * Core: postmaster/autovacuum.c, table_recheck_autovac.
 */
static void
choose_params(PvTableWork *work, Relation rel)
{
	VacuumParams *params = &work->params;
	const AutoVacOpts *own = &work->own;

	params->freeze_min_age =
		freeze_age(own->freeze_min_age, vacuum_freeze_min_age);
	params->freeze_table_age =
		freeze_age(own->freeze_table_age, vacuum_freeze_table_age);
	params->multixact_freeze_min_age =
		freeze_age(own->multixact_freeze_min_age,
				   vacuum_multixact_freeze_min_age);
	params->multixact_freeze_table_age =
		freeze_age(own->multixact_freeze_table_age,
				   vacuum_multixact_freeze_table_age);
	params->is_wraparound = work->item.score.wraparound;

	/* a vacuum to prevent wraparound is aggressive whatever the settings are */
	if (params->is_wraparound)
		params->freeze_table_age = params->multixact_freeze_table_age = 0;
	pv_set_log_min_duration(params, pv_own_log_min_duration(own, false),
							pv_own_log_min_duration(own, true));
	params->truncate = VACOPTVALUE_AUTO;

	params->nworkers = -1;		/* for core's engine, as in autovacuum */
	params->index_cleanup = VACOPTVALUE_UNSPECIFIED;
	pv_plan_reloptions(rel, params);
}

/* A table with cost limits of its own does not use the scheduler's balance. */
static void
choose_budget(const PvTableWork *work)
{
	PvCostBudget budget;

	if (pv_cost_of_table(&work->own, &budget))
		pv_cost_close_balance(budget.delay, budget.limit);
}

/*
 * Show in pg_stat_activity what is done with the table, as autovacuum does.
 * Core: postmaster/autovacuum.c, autovac_report_activity.
 */
static void
show_activity(const PvTableWork *work)
{
	const PvScore *score = &work->item.score;

	pgstat_report_activity(STATE_RUNNING,
						   psprintf("autovacuum:%s%s %s (parvacuum)%s",
									score->vacuum ? " VACUUM" :
									score->sweep ? " SWEEP" : "",
									score->analyze ? " ANALYZE" : "",
									work->name, score->wraparound ?
									" (to prevent wraparound)" : ""));
}

/*
 * Check again what the table needs, with the table locked.  Return false if
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
	pv_options_autovacuum(rel, work->item.toast_parent, &work->own);
	pv_need_score_of(rel, &work->own,
					 work->effective.value[PV_OPTION_SWEEP] > 0, score);

	/* pg_class may have an old size, or one that the owner has made up */
	work->item.pages = RelationGetNumberOfBlocks(rel);
	if (!requested && score->vacuum &&
		pv_vacuum_is_useless(score, &work->item.left,
							 GetOldestNonRemovableTransactionId(rel)) &&
		!pv_indexes_have_work(rel))
	{
		work->held = true;
		pv_score_rest(score, false, score->analyze, false, work->item.pages);
		pv_sched_count(PV_COUNT_SKIPPED_HORIZON);
	}
	if (requested)
	{
		score->vacuum = true;
		score->sweep = false;
	}

	work->reason = pv_need_leave_out_failed(rel->rd_rel, work->item.pages,
											score, &until);

	/* rel has the name at hand, which get_rel_name() would have to look up */
	work->name = psprintf("%s.%s",
						  get_namespace_name(RelationGetNamespace(rel)),
						  RelationGetRelationName(rel));
	work->full_name = psprintf("%s.%s", NameStr(pv_table_database),
							   work->name);
	return score->vacuum || score->analyze || score->sweep;
}

/*
 * Set the size that limits the time of this worker at the table, which is open
 * and locked.  Core's code does not tell when it comes to functions of the
 * owner, so the launcher looks at its progress if the cleanup of an index may
 * run any.  A locked index counts as one without pages that may: a sweep does
 * without it, and a vacuum waits for it later.
 */
static void
set_size(Relation rel, bool by_core)
{
	BlockNumber own_pages = RelationGetNumberOfBlocks(rel);
	double		pages = own_pages;
	bool		by_owner = false;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	indrel = pv_open_unlocked(lfirst_oid(lc), AccessShareLock);

		by_owner |= by_core &&
			(indrel == NULL || pv_index_cleanup_must_wait(indrel));
		if (indrel == NULL)
			continue;
		pages += RelationGetNumberOfBlocks(indrel);
		index_close(indrel, AccessShareLock);
	}
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, 0);
	pv_queue_set_pages(pages, !by_owner ? NULL :
					   &MyBEEntry->st_progress_param[PROGRESS_VACUUM_PHASE]);
	if (own_pages >= PV_LARGE_PAGES)
		pv_table_limit_lock_waits(LONGEST_FOR_LARGE_MS);
}

/* Vacuum the table, which is locked and open. */
static void
vacuum_table(PvTableWork *work, Relation rel)
{
	PvKnownTable known = {
		work->item.toast_parent, &work->effective, work->deadline
	};
	bool		complete;
	PvFormerUser own;
	TransactionId next_xid;

	set_size(rel, work->effective.value[PV_OPTION_ENABLED] <= 0 ||
			 pv_dispatch_declines(rel->rd_rel, work->item.toast_parent));
	choose_params(work, rel);
	if (work->params.is_wraparound)
		pv_show_against_wraparound();
	choose_budget(work);
	next_xid = ReadNextTransactionId();
	work->horizon = GetOldestNonRemovableTransactionId(rel);
	work->horizon_is_newest = work->horizon == next_xid;

	pv_become_owner(rel->rd_rel->relowner, &own);
	complete = pv_dispatch_vacuum(rel, &work->params, ring, &known);
	pv_become_oneself(&own);

	pv_cost_open_balance();
	pv_sched_count(PV_COUNT_VACUUMS);
	if (complete)
		work->done |= PV_DONE_VACUUM;
	else
		work->put_back = true;
}

/*
 * Analyze the table, or sweep its B-trees.  Add that to the history, also if
 * it fails, and log it if it has taken long.  The guard protects analyze_rel()
 * from being entered twice, as vacuum() does in core.
 */
static void
do_recorded(PvTableWork *work, Relation rel, bool analyze)
{
	PvResult	used = {.relid = RelationGetRelid(rel),.by_engine = !analyze};
	VacuumParams params = {.options = VACOPT_ANALYZE};
	int			min_duration = pv_own_log_min_duration(&work->own, analyze);
	StringInfoData text;
	PvUsageStart usage;

	initStringInfo(&text);
	pv_usage_start(&usage, min_duration >= 0);
	pv_history_begin(rel, analyze ? PV_WORK_ANALYZE : PV_WORK_SWEEP,
					 PV_STARTED_BY_SCHEDULER, false, &used);
	PG_TRY();
	{
		if (analyze)
			analyze_rel(used.relid, NULL, &params, NIL, false, ring);
		else
			pv_sweep_table(rel, work, &text);
		pv_usage_since(&usage, &used);
		pv_history_done();
	}
	PG_CATCH();
	{
		pv_history_failed();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (min_duration >= 0 && used.elapsed_usecs / 1000 >= min_duration)
		ereport(LOG,
				(errmsg_internal("automatic %s of table \"%s\"\n%s%s",
								 analyze ? "analyze" : "sweep",
								 work->full_name, text.data,
								 pv_usage_text(&usage))));
}

/* Sweep the B-trees of the table, which is locked and open. */
static void
sweep_table(PvTableWork *work, Relation rel)
{
	PvFormerUser own;

	set_size(rel, false);
	choose_budget(work);
	pv_become_owner(rel->rd_rel->relowner, &own);
	do_recorded(work, rel, false);
	pv_become_oneself(&own);

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

	if (work->held)
		return true;
	if ((work->done & PV_DONE_VACUUM) == 0)
		return false;
	if (work->own.freeze_max_age >= 0)
		max_age = Min(max_age, work->own.freeze_max_age);
	if (work->item.score.wraparound &&
		(int32) (ReadNextTransactionId() - work->horizon) >
		PV_AGE_SHARE * max_age)
		return true;
	if (work->item.score.dead <= 1 || work->horizon_is_newest)
		return false;
	pv_need_score_of(rel, &work->own, false, &after);
	return after.dead > 1;
}

/*
 * The table is done, or cannot be done now, or is to be put back; see
 * pv_queue_finish().  It may have left the worker before an error came.
 */
void
pv_table_finish(const PvTableWork *work)
{
	PvQueues   *queues = pv_queue_lock(LW_EXCLUSIVE);

	if (work->slot->entry != NULL && work->put_back)
	{
		pv_queue_put_back(queues, work->slot);
		pv_launcher_wake();
	}
	else if (work->slot->entry != NULL)
		pv_queue_finish(queues, work->slot, work->done, work->reason,
						work->horizon);
	pv_queue_unlock();
	LockReleaseSession(USER_LOCKMETHOD);	/* of functions of the owner */
	pv_process_clear_cancel();
}

/*
 * Is the table, which is open, to be vacuumed, swept or analyzed now?  If not,
 * set what it waits for, or that it is to be put back.
 */
static bool
may_begin(PvTableWork *work, Relation rel)
{
	PvWindow	window;

	if (!recheck_need(work, rel))
	{
		if (work->held)
			work->reason = PV_WAIT_HORIZON;
		else
			pv_sched_count(PV_COUNT_NOT_NEEDED);
		return false;
	}
	if (work->reason != PV_WAIT_NONE)
		return false;
	if (!work->item.requested &&
		pv_need_is_outside(work->effective.window, &work->item.score, &window))
	{
		work->reason = PV_WAIT_WINDOW;
		pv_sched_count(PV_COUNT_SKIPPED_WINDOW);
		return false;
	}
	if (!work->item.requested)
		work->deadline = pv_need_deadline(&window, &work->item.score);
	work->put_back = !pv_queue_recheck(pv_queue_lock(LW_EXCLUSIVE),
									   work->slot, &work->item);
	pv_queue_unlock();
	return !work->put_back;
}

/*
 * The first transaction: check what the table needs, and vacuum it or sweep
 * its B-trees.  Return whether ANALYZE may follow.  PROC_IN_VACUUM is set
 * before there is a snapshot, as in core's vacuum_rel().
 *
 * A vacuum with an XID has locked the table against readers, to truncate it,
 * and a standby keeps that lock until it has replayed the commit record, so
 * that is flushed.
 */
static bool
recheck_and_vacuum(PvTableWork *work)
{
	const PvScore *score = &work->item.score;
	bool		begins = false;
	Relation	rel;

	StartTransactionCommand();
	pv_show_in_vacuum();
	PushActiveSnapshot(GetTransactionSnapshot());
	CHECK_FOR_INTERRUPTS();
	MemoryContextSwitchTo(PortalContext);

	rel = open_table(work, false);
	if (rel != NULL)
	{
		pv_failures_begin(rel, false);
		begins = may_begin(work, rel);
	}
	else if (work->reason == PV_WAIT_NONE)
		pv_sched_count(PV_COUNT_NOT_NEEDED);
	if (begins)
	{
		show_activity(work);
		if (score->vacuum)
			vacuum_table(work, rel);
		else if (score->sweep)
			sweep_table(work, rel);
		if (horizon_is_in_the_way(work, rel))
			work->reason = PV_WAIT_HORIZON;
	}

	if (rel != NULL)
		relation_close(rel, NoLock);
	PopActiveSnapshot();
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ForceSyncCommit();
	CommitTransactionCommand();
	pv_failures_end(begins && (score->vacuum || score->sweep) ?
					PV_ATTEMPT_DONE : PV_ATTEMPT_LEFT);
	return begins;
}

/* Analyze the table, which is locked and open. */
static void
analyze_table(PvTableWork *work, Relation rel)
{
	PvFormerUser own;

	set_size(rel, false);
	pv_queue_set_for_owner(true, Min(RelationGetNumberOfBlocks(rel),
									 PV_MOST_SAMPLED));
	choose_budget(work);
	pv_cost_flush();
	do_recorded(work, rel, true);
	pv_queue_set_for_owner(false, 0);
	/* as the ANALYZE of an autovacuum worker does, which this is not */
	if ((work->done & PV_DONE_VACUUM) == 0)
	{
		pv_become_owner(rel->rd_rel->relowner, &own);
		pv_index_empty_pending_lists(rel);
		pv_become_oneself(&own);
	}
	work->done |= PV_DONE_ANALYZE;
	pv_cost_charge_slept();
	pv_cost_open_balance();
	pv_sched_count(PV_COUNT_ANALYZES);
}

/* The second transaction: ANALYZE, unless the table is locked meanwhile. */
static void
analyze(PvTableWork *work)
{
	Relation	rel;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(PortalContext);
	rel = open_table(work, (work->done & PV_DONE_VACUUM) != 0);
	if (rel != NULL)
	{
		pv_failures_begin(rel, true);
		analyze_table(work, rel);
		relation_close(rel, NoLock);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	pv_failures_end(PV_ATTEMPT_DONE);
}

/*
 * Do what the table needs, and sleep off what is left of its cost when no
 * lock is held any more.
 */
void
pv_table_do(PvTableWork *work)
{
	if (recheck_and_vacuum(work) && work->item.score.analyze)
		analyze(work);

	/* A cancel that comes now was for this table, which is done */
	QueryCancelPending = false;
	pv_table_finish(work);
	(void) pgstat_report_stat(false);
	pv_cost_poll();
	pv_delay_point();
}
