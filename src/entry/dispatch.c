/*-------------------------------------------------------------------------
 *
 * dispatch.c
 *	  Decides whether the engine or core vacuums a table.
 *
 * heap's slot (entry/slot.c) leads every vacuum of a heap table here:
 *
 *		VACUUM, autovacuum worker,			scheduler worker
 *		background leader
 *			vacuum() -> vacuum_rel()			|
 *				heap's slot					pv_dispatch_vacuum()
 *					|							|
 *					+----- vacuum_relation() ---+
 *							|
 *		a run, the table's options or the setting want the engine,
 *		and nothing forbids it:				pv_vacuum_rel()
 *		otherwise:							the previous function of the slot
 *
 * This file runs in whichever process vacuums.  The caller holds
 * ShareUpdateExclusiveLock on the relation, has set PROC_IN_VACUUM and pushed
 * a snapshot.  All variables here belong to the process; no lock covers them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"

#include "base/borrowed.h"
#include "base/process.h"
#include "base/settings.h"
#include "engine/vacuum.h"
#include "entry/dispatch.h"
#include "entry/failures.h"
#include "entry/options.h"
#include "stats/history.h"
#include "stats/kept.h"
#include "stats/registry.h"
#include "throttle/cost.h"

/* The next function in the chain of heap's slot */
static PvVacuumFunction previous_vacuum = NULL;

/*
 * Of a background leader.  Core's vacuum() stands between the leader and the
 * slot, and cannot pass these on as arguments.
 */
static PvReportEntry report_to_run = NULL;	/* gets each relation, else NULL */
static bool truncate_is_open = false;	/* the caller has not decided */
static TimestampTz run_deadline = 0;	/* when it ends early; 0: never */
static bool run_yields = false; /* it ends early for sessions that wait */
static PvResult last_result;	/* a TOAST table may follow its table */

PvLeavesAlone pv_dispatch_leaves_alone = NULL;

/* What is known of one relation, and whether the engine takes it */
typedef struct PvChoice
{
	Oid			toast_parent;
	PvOptions	options;		/* of the table, or of a TOAST table's table */
	const char *declined;		/* why the engine leaves it, or NULL */
	TimestampTz deadline;		/* when the vacuum ends early; 0: never */
	bool		served;			/* its access method's function is ours, so
								 * the previous one stands for it */
} PvChoice;


/* ----------------------------------------------------------------
 *		Choosing
 * ----------------------------------------------------------------
 */

/*
 * Return why the engine leaves this relation to core although it is wanted, as
 * a sentence for the user, or NULL if the engine takes it.  The TOAST table of
 * a catalog counts as a catalog.
 */
const char *
pv_dispatch_declines(const FormData_pg_class *form, Oid toast_parent)
{
	if (pv_slot_problem() != NULL)
		return pv_slot_problem();
	if (!pv_guc_engine)
		return "The setting parvacuum.engine is off.";
	if (!IsUnderPostmaster)
		return "The server runs in single-user mode.";
	if (form->relam != HEAP_TABLE_AM_OID)
		return "The table does not use the access method heap.";
	if (form->relpersistence == RELPERSISTENCE_TEMP)
		return "The table is temporary.";
	if (IsCatalogRelationOid(form->oid) ||
		(OidIsValid(toast_parent) && IsCatalogRelationOid(toast_parent)))
		return "The table is a system catalog.";
	if (form->relkind == RELKIND_TOASTVALUE && !OidIsValid(toast_parent))
		return "The table that this TOAST table belongs to cannot be found.";

	return NULL;
}

/*
 * Is the engine wanted for this relation?  A run wants it whatever the options
 * say.  If the caller knows the options of the table, the catalogs are not
 * read, and the engine is wanted.  But it declines a table that has been
 * requested from the scheduler without being enabled.
 */
static bool
choose(Relation rel, const PvKnownTable *known, PvChoice *choice)
{
	bool		enabled;

	memset(choice, 0, sizeof(*choice));
	if (known != NULL)
	{
		choice->deadline = known->deadline;
		choice->toast_parent = known->toast_parent;
		choice->options = *known->options;
	}
	else
	{
		choice->deadline = run_deadline;
		pv_options_find(rel, &choice->toast_parent, &choice->options);
	}

	choice->served = known == NULL || pv_slot_serves(rel);
	enabled = report_to_run != NULL ||
		choice->options.value[PV_OPTION_ENABLED] > 0;
	choice->declined = enabled ?
		pv_dispatch_declines(rel->rd_rel, choice->toast_parent) :
		"parvacuum is not enabled for the table.";
	return enabled || known != NULL;
}

/*
 * Apply what the table's own options say about truncation, for a caller that
 * left it open.  A table that forbids truncation is never truncated.  Core
 * must be given yes or no, while the engine may decide by what there is to
 * gain.
 *
 * Core: commands/vacuum.c, vacuum_rel, which does this for "unspecified".
 */
static void
resolve_truncate(Relation rel, VacuumParams *params, bool for_core)
{
	if (params->truncate != VACOPTVALUE_AUTO)
		return;

	if (!pv_may_truncate(rel))
		params->truncate = VACOPTVALUE_DISABLED;
	else if (for_core)
		params->truncate = VACOPTVALUE_ENABLED;
}


/* ----------------------------------------------------------------
 *		Vacuum by core
 * ----------------------------------------------------------------
 */

/*
 * Let the next function in the chain vacuum the relation, or the function of
 * its access method if that is not ours.  It must be given a decision on
 * truncation.  It does not know the scheduler's cost balance, so charge the
 * time it has slept afterwards.  Nor does it know what a vacuum by the engine
 * has kept, which is not valid when it has begun.
 */
static void
call_previous(Relation rel, VacuumParams *params,
			  BufferAccessStrategy bstrategy, bool served)
{
	pv_kept_begin_vacuum(rel, NULL);
	resolve_truncate(rel, params, true);
	pv_cost_flush();
	if (served)
		previous_vacuum(rel, params, bstrategy);
	else
		table_relation_vacuum(rel, params, bstrategy);
	pv_cost_charge_slept();
}

/*
 * Return the message level at which we say that core vacuums the table
 * although the engine was wanted.  The caller of a run gets a notice, but not
 * for a TOAST table if it had one for the table.
 */
static int
level_of_decline(Relation rel, const VacuumParams *params)
{
	bool		repeats = rel->rd_rel->relkind == RELKIND_TOASTVALUE &&
		OidIsValid(last_result.relid) && !last_result.by_engine;

	if (report_to_run != NULL)
		return repeats ? DEBUG1 : NOTICE;
	return (params->options & VACOPT_VERBOSE) != 0 ? INFO : DEBUG1;
}

/*
 * Log a vacuum by core's code.  In a scheduler worker core logs nothing.  In
 * an autovacuum worker it has logged the vacuum, and we say why we did not do
 * it, but not for each catalog.
 */
static void
log_vacuum_by_core(Relation rel, const VacuumParams *params,
				   const PvUsageStart *usage, const char *why)
{
	const char *dbname = get_database_name(MyDatabaseId);
	const char *nspname = get_namespace_name(RelationGetNamespace(rel));

	if (pv_is_scheduler_worker)
		ereport(LOG,
				(errmsg_internal("automatic vacuum %sof table \"%s.%s.%s\": index scans: %d\n%s",
								 params->is_wraparound ?
								 "to prevent wraparound " : "",
								 dbname, nspname, RelationGetRelationName(rel),
								 pv_index_scans_shown(), pv_usage_text(usage)),
				 errdetail("PostgreSQL's own VACUUM has vacuumed it.  %s",
						   why)));
	else if (!IsCatalogRelation(rel))
		ereport(LOG,
				(errmsg("PostgreSQL's own VACUUM has vacuumed table \"%s.%s.%s\"",
						dbname, nspname, RelationGetRelationName(rel)),
				 errdetail("%s", why)));
}

/*
 * Let core vacuum a table that the engine was wanted for, and measure from
 * outside what that takes.  Say why: before the vacuum to the user who asked
 * for it, or after it in the log.
 */
static void
vacuum_declined(Relation rel, VacuumParams *params,
				BufferAccessStrategy bstrategy, const PvChoice *choice,
				PvResult *result)
{
	int			log_min = pv_is_automatic() ? pv_log_min_duration(params) : -1;
	PvUsageStart usage;

	ereport(level_of_decline(rel, params),
			(errmsg("PostgreSQL's own VACUUM vacuums table \"%s\"",
					RelationGetRelationName(rel)),
			 errdetail("%s", choice->declined)));

	pv_usage_start(&usage, log_min >= 0);
	call_previous(rel, params, bstrategy, choice->served);
	result->relid = RelationGetRelid(rel);
	pv_usage_since(&usage, result);

	if (log_min >= 0 && result->elapsed_usecs / 1000 >= log_min)
		log_vacuum_by_core(rel, params, &usage, choice->declined);
}


/* ----------------------------------------------------------------
 *		Vacuum by the engine
 * ----------------------------------------------------------------
 */

/* Return the lower of two limits in kilobytes, of which 0 means no limit. */
static int
lower_limit(int a, int b)
{
	if (a == 0 || b == 0)
		return Max(a, b);
	return Min(a, b);
}

/*
 * Return the most shared buffers, in kilobytes, that a vacuum of a table with
 * these options may use as its ring if no session waits for it.  What the
 * owner of a database sets for the database can only lower the default, and
 * the owner of a table can only lower the result.
 */
int
pv_automatic_buffer_limit(const PvOptions *options)
{
	int			limit = pv_guc_buffer_usage_limit;

	if (pv_find_setting("parvacuum.buffer_usage_limit")->source >=
		PGC_S_DATABASE)
		limit = lower_limit(limit, PV_DEFAULT_BUFFER_USAGE_LIMIT);
	return lower_limit(options->value[PV_OPTION_BUFFER_USAGE_LIMIT], limit);
}

/* Who has started the vacuum that this process leads? */
static PvStartedBy
started_by(void)
{
	if (report_to_run != NULL)
		return PV_STARTED_BY_FUNCTION;
	if (pv_is_scheduler_worker)
		return PV_STARTED_BY_SCHEDULER;
	return pv_is_autovacuum_worker() ? PV_STARTED_BY_AUTOVACUUM :
		PV_STARTED_BY_COMMAND;
}

/*
 * Translate the options of the table for the engine.  An autovacuum worker
 * applies the cost limits that the table's own storage parameters fix.  From
 * PG 19 on a storage parameter also gives the number of workers of a vacuum by
 * autovacuum or the scheduler, where our option does not.
 *
 * Core cancels an automatic vacuum for others, unless it prevents wraparound.
 * That and a run end early for others.  A VACUUM command does neither.
 */
static void
set_vacuum_options(Relation rel, const VacuumParams *params,
				   const PvChoice *choice, PvVacuumOptions *options)
{
	bool		is_run = report_to_run != NULL;
	AutoVacOpts parameters;
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, choice->toast_parent);
	memset(options, 0, sizeof(*options));
	options->started_by = started_by();
	options->may_keep = pv_slot_is_first();
	options->deadline = choice->deadline;
	options->ends_in_any_case = is_run;
	options->yields = is_run ? run_yields : params->is_wraparound;
	if (is_run && pv_lock_is_held(&tag, ShareUpdateExclusiveLock))
		options->toast_parent = choice->toast_parent;
	options->workers = choice->options.value[PV_OPTION_WORKERS];
	options->buffer_usage_limit =
		choice->options.value[PV_OPTION_BUFFER_USAGE_LIMIT];
	if (pv_is_automatic())
	{
		if (PV_HAS_AUTOVACUUM_WORKERS &&
			options->workers == PV_WORKERS_BY_WORK)
			options->workers =
				pv_options_autovacuum_workers(rel, choice->toast_parent);
		options->buffer_usage_limit =
			pv_automatic_buffer_limit(&choice->options);
	}
	if (pv_is_autovacuum_worker())
	{
		pv_options_autovacuum(rel, choice->toast_parent, &parameters);
		options->own_costs.delay = parameters.vacuum_cost_delay >= 0;
		options->own_costs.limit = parameters.vacuum_cost_limit > 0;
	}
}

/*
 * Let the engine vacuum the relation.  Meanwhile the transaction is read-only
 * for statements, as pv_forbid_writes() explains.  A function of the table's
 * owner that writes despite this is found by its XID, in engine/index_am.c.
 * An error ends the transaction, and with it the read-only state.
 */
static void
vacuum_by_engine(Relation rel, VacuumParams *params,
				 BufferAccessStrategy bstrategy, const PvChoice *choice,
				 PvResult *result)
{
	PvVacuumOptions options;
	bool		read_only;

	set_vacuum_options(rel, params, choice, &options);
	read_only = pv_forbid_writes();
	pv_vacuum_rel(rel, params, bstrategy, &options, result);
	pv_restore_read_only(read_only);
}


/* ----------------------------------------------------------------
 *		The dispatcher
 * ----------------------------------------------------------------
 */

/*
 * Is the vacuum to be in the history?  Core's vacuums of catalogs and
 * temporary tables are there only if a run or the scheduler asked for them.
 */
static bool
is_recorded(Relation rel, const PvChoice *choice)
{
	return choice->declined == NULL || report_to_run != NULL ||
		pv_is_scheduler_worker ||
		(!IsCatalogRelation(rel) &&
		 rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP);
}

/*
 * Vacuum a relation that the engine was wanted for, with the engine or not,
 * and add the vacuum to the history, also if it fails.
 */
static void
vacuum_recorded(Relation rel, VacuumParams *params,
				BufferAccessStrategy bstrategy, const PvChoice *choice,
				PvResult *result)
{
	if (is_recorded(rel, choice))
		pv_history_begin(rel, PV_WORK_VACUUM, started_by(),
						 params->is_wraparound, result);
	if (pv_is_autovacuum_worker())
		pv_failures_begin(rel, false);

	PG_TRY();
	{
		/* parvacuum_cancel() leaves core's vacuums alone, if not of a run */
		if (report_to_run != NULL || choice->declined == NULL)
			pv_registry_begin(RelationGetRelid(rel), choice->toast_parent,
							  started_by());
		if (choice->declined == NULL)
			vacuum_by_engine(rel, params, bstrategy, choice, result);
		else
			vacuum_declined(rel, params, bstrategy, choice, result);
		pv_registry_end(RelationGetRelationName(rel));
	}
	PG_CATCH();
	{
		pv_registry_abandon();
		pv_history_failed();
		if (pv_is_autovacuum_worker())
			pv_failures_end(geterrcode() == ERRCODE_QUERY_CANCELED ?
							PV_ATTEMPT_CANCELED : PV_ATTEMPT_FAILED);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pv_history_done();
	if (pv_is_autovacuum_worker())
		pv_failures_end(PV_ATTEMPT_DONE);
	else if (!pv_is_scheduler_worker)
		pv_failures_forget(RelationGetRelid(rel), rel->rd_rel->relowner,
						   false);
}

/*
 * Does this process, an autovacuum worker, leave the table alone because the
 * scheduler does so: outside of the table's window, or after a failure?  The
 * table needs the same as before then.  A vacuum that prevents wraparound is
 * core's to decide on.
 */
static bool
is_left_to_scheduler(Relation rel, const VacuumParams *params,
					 const PvChoice *choice)
{
	if (!pv_is_autovacuum_worker() || params->is_wraparound ||
		!pv_dispatch_leaves_alone(rel, choice->toast_parent,
								  &choice->options))
		return false;
	ereport(DEBUG1,
			(errmsg_internal("autovacuum leaves table \"%s\" alone, as parvacuum's scheduler does",
							 RelationGetRelationName(rel))));
	return true;
}

/*
 * Is this the TOAST table of a table that this run has left for others?  They
 * wait until vacuum() is done with both.
 */
static bool
follows_left_table(Relation rel, const PvChoice *choice)
{
	return report_to_run != NULL &&
		rel->rd_rel->relkind == RELKIND_TOASTVALUE &&
		last_result.ended_early != PV_END_NONE &&
		choice->toast_parent == last_result.relid;
}

/*
 * Vacuum one relation, with the engine or with the next function in the chain.
 * known may be NULL.  Return false if the vacuum has ended early, or was not
 * begun because it would have.
 */
static bool
vacuum_relation(Relation rel, VacuumParams *params,
				BufferAccessStrategy bstrategy, const PvKnownTable *known)
{
	bool		is_run = report_to_run != NULL;
	PvRunEntry	entry;
	PvChoice	choice;
	bool		is_late;

	/*
	 * "off" works without reading catalogs.  Only a run and the scheduler,
	 * which knows the options, report the reason.
	 */
	if ((!is_run && known == NULL && !pv_guc_engine) ||
		!choose(rel, known, &choice))
	{
		call_previous(rel, params, bstrategy, true);
		return true;
	}

	if (is_left_to_scheduler(rel, params, &choice))
		return true;

	memset(&entry, 0, sizeof(entry));
	entry.toast_parent = choice.toast_parent;
	is_late = choice.deadline != 0 && GetCurrentTimestamp() >= choice.deadline;
	if (is_late || follows_left_table(rel, &choice))
	{
		entry.result.relid = RelationGetRelid(rel);
		entry.result.by_engine = true;
		entry.result.ended_early = PV_END_TIME;
		if (is_run && is_late)
			report_to_run(&entry);
		return false;
	}

	if (choice.declined == NULL)
	{
		if (truncate_is_open && params->truncate == VACOPTVALUE_ENABLED)
			params->truncate = VACOPTVALUE_AUTO;
		resolve_truncate(rel, params, false);
	}
	vacuum_recorded(rel, params, bstrategy, &choice, &entry.result);

	if (is_run)
	{
		last_result = entry.result;
		report_to_run(&entry);
	}
	return entry.result.ended_early == PV_END_NONE;
}

/* The same, guarded against functions of the owner that vacuum (guard.c). */
static bool
guarded_vacuum(Relation rel, VacuumParams *params,
			   BufferAccessStrategy bstrategy, const PvKnownTable *known)
{
	bool		before = pv_guard_enter();
	volatile bool complete = false;

	PG_TRY();
	{
		complete = vacuum_relation(rel, params, bstrategy, known);
	}
	PG_FINALLY();
	{
		pv_guard_leave(before);
	}
	PG_END_TRY();
	return complete;
}

/* This is what stands in heap's slot. */
static void
vacuum_from_slot(Relation rel, PvSlotParams *params,
				 BufferAccessStrategy bstrategy)
{
	VacuumParams own = *params;

	(void) guarded_vacuum(rel, &own, bstrategy, NULL);
}

/* Take heap's slot.  Call this only while libraries are preloaded. */
void
pv_dispatch_init(void)
{
	previous_vacuum = pv_slot_take_over(vacuum_from_slot);
}

/*
 * Vacuum a table for a caller that is not core's vacuum_rel(), and that has
 * done what the slot expects.  params->truncate may be VACOPTVALUE_AUTO.
 * Return false if the vacuum has ended early.
 */
bool
pv_dispatch_vacuum(Relation rel, VacuumParams *params,
				   BufferAccessStrategy bstrategy, const PvKnownTable *known)
{
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID || pv_slot_problem() != NULL ||
		pv_slot_serves(rel))
		return guarded_vacuum(rel, params, bstrategy, known);

	/* whoever has taken the slot after us comes first, and may call us */
	pv_kept_begin_vacuum(rel, NULL);
	resolve_truncate(rel, params, true);
	table_relation_vacuum(rel, params, bstrategy);
	return true;
}

/*
 * From now on, have each relation that this process vacuums vacuumed by the
 * engine, if possible, and reported.
 */
void
pv_dispatch_for_run(PvReportEntry report, bool is_open, TimestampTz deadline,
					bool yields)
{
	Assert(pv_slot_problem() == NULL);
	report_to_run = report;
	truncate_is_open = is_open;
	run_deadline = deadline;
	run_yields = yields;
}
