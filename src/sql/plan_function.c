/*-------------------------------------------------------------------------
 *
 * plan_function.c
 *	  parvacuum_plan().
 *
 * The session that calls it runs this.  It takes AccessShareLock on one table
 * at a time, and releases it.  The table is not locked before the rights are
 * checked, so that no role can lock a table of others.
 *
 * It works in a read-only transaction and in recovery.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "entry/dispatch.h"
#include "entry/options.h"
#include "sql/call.h"
#include "sql/survey.h"
#include "stats/history.h"

PG_FUNCTION_INFO_V1(parvacuum_plan);

enum
{
	ARG_REL,
	ARG_WORKERS,
	ARG_FREEZE,
	ARG_DISABLE_PAGE_SKIPPING
};

/*
 * Translate the arguments into what VACUUM gets from its options.
 *
 * Core: commands/vacuum.c, ExecVacuum.
 */
static void
read_params(FunctionCallInfo fcinfo, VacuumParams *params)
{
	int			workers = pv_workers_arg(fcinfo, ARG_WORKERS);
	bool		freeze;

	pv_check_not_null(fcinfo, ARG_FREEZE, "freeze", PV_HINT_DEFAULT);
	pv_check_not_null(fcinfo, ARG_DISABLE_PAGE_SKIPPING,
					  "disable_page_skipping", PV_HINT_DEFAULT);
	freeze = PG_GETARG_BOOL(ARG_FREEZE);

	memset(params, 0, sizeof(*params));
	params->options = VACOPT_VACUUM;
	if (freeze)
		params->options |= VACOPT_FREEZE;
	if (PG_GETARG_BOOL(ARG_DISABLE_PAGE_SKIPPING))
		params->options |= VACOPT_DISABLE_PAGE_SKIPPING;
	params->freeze_min_age = freeze ? 0 : -1;
	params->freeze_table_age = freeze ? 0 : -1;
	params->multixact_freeze_min_age = freeze ? 0 : -1;
	params->multixact_freeze_table_age = freeze ? 0 : -1;
	params->index_cleanup = VACOPTVALUE_UNSPECIFIED;
	params->nworkers = workers == PV_WORKERS_NOT_GIVEN ? 0 :
		workers == 0 ? -1 : workers;
}

/*
 * Check the kind of a relation and the rights, without a lock on it.  For the
 * named table everything is an error.  Partitions and TOAST tables that are
 * gone are passed over, and those that the role has no rights for, with a
 * warning, as in a run.  Return false then.
 *
 * If a TOAST table is planned because its table is, the rights on that table
 * count, as in VACUUM.  toast_parent is that table, or invalid.
 */
static bool
check_relation(Oid relid, Oid toast_parent, bool named)
{
	Form_pg_class form = pv_class_row(relid);
	int			elevel = named ? ERROR : WARNING;

	if (form == NULL)
	{
		if (named)
			pv_raise_no_relation(relid);
		return false;
	}
	if (!pv_check_relation(form, elevel))
		return false;
	if (pv_may_plan(OidIsValid(toast_parent) ? toast_parent : relid))
		return true;
	pv_refuse_plan(elevel, NameStr(form->relname));
	return false;
}

/* Return why a run would be useless, or NULL if it would not be. */
static const char *
reason_of(const PvSurvey *survey)
{
	TransactionId cutoff = survey->cutoffs.OldestXmin;
	const char *what = "The table cannot be frozen any further.";

	if (RecoveryInProgress())
		return "The server is in recovery.  Only its primary can vacuum the table.";
	if (survey->use == PV_USE_SOME)
		return NULL;
	if (survey->use == PV_USE_NOTHING_TO_DO)
		return "There is nothing to remove, to freeze, or to set all-visible.";

	/* the horizon: what must wait, and how old is it? */
	if (survey->recently_dead >= 0.5)
		what = psprintf("About %.0f dead rows may still be seen.",
						survey->recently_dead);
	else if (survey->young_pages >= 0.5)
		what = psprintf("Rows on about %.0f pages may not be visible to all transactions yet.",
						survey->young_pages);
	return psprintf("%s  The removable cutoff is transaction ID %u, which is %d XIDs old.",
					what, cutoff,
					(int32) (ReadNextTransactionId() - cutoff));
}

/*
 * Return what the phases of a vacuum will take in *usecs, if they take as long
 * as in the last vacuum that a session asked for, and the sum; each of them
 * may be PV_ETA_UNKNOWN.
 */
static double
plan_times(Relation rel, const PvSurvey *survey, double *usecs)
{
	const double pages[PV_NUM_PHASES] = {
		[PV_PHASE_SCAN] = survey->pages_to_scan,
		[PV_PHASE_INDEX] = survey->index_scans * survey->index_pages,
		[PV_PHASE_VACUUM_HEAP] =
		survey->index_scans > 0 ? survey->item_pages : 0,
	};
	double		items = survey->dead_items / Max(survey->item_pages, 1);
	double		sum = 0;
	PvEtaPast	past;

	pv_records_past(pv_history_lock(), MyDatabaseId, RelationGetRelid(rel),
					false, &past);
	pv_history_unlock();
	for (PvPhase phase = PV_PHASE_SCAN; phase <= PV_PHASE_VACUUM_HEAP; phase++)
	{
		usecs[phase] =
			pv_eta_usecs(pages[phase],
						 pv_eta_past_page(&past, phase, survey->index_pages,
										  items));
		sum = sum < 0 || usecs[phase] < 0 ? PV_ETA_UNKNOWN :
			sum + usecs[phase];
	}
	return sum;
}

/* Add a number; known says whether there is a survey. */
static void
put_count(PvRow *row, bool known, double value)
{
	pv_put_if(row, known, Int64GetDatum((int64) rint(value)));
}

/* Add a time, which may be PV_ETA_UNKNOWN, in milliseconds. */
static void
put_usecs(PvRow *row, bool known, double usecs)
{
	pv_put_if(row, known && usecs >= 0, Float8GetDatum(usecs / 1000));
}

static void
put_xid(PvRow *row, bool known, TransactionId xid)
{
	pv_put_if(row, known && TransactionIdIsValid(xid),
			  TransactionIdGetDatum(xid));
}

/*
 * Return one row.  survey is NULL if the engine would not vacuum the table, or
 * could not look at it; then there is a reason.
 */
static void
return_plan(FunctionCallInfo fcinfo, Relation rel, const PvSurvey *survey,
			const char *reason)
{
	static const PvSurvey none;
	const PvSurvey *s = survey != NULL ? survey : &none;
	bool		known = survey != NULL;
	double		usecs[PV_NUM_PHASES] = {0};
	double		elapsed = known ? plan_times(rel, s, usecs) : PV_ETA_UNKNOWN;
	PvRow		row = {0};

	pv_put_oid(&row, RelationGetRelid(rel));
	pv_put_oid(&row, RelationGetRelid(rel));
	put_count(&row, known, s->pages_total);
	put_count(&row, known, s->pages_to_scan);
	put_count(&row, known, s->pages_total - s->pages_to_scan);
	put_count(&row, known, s->dead_tuples);
	put_count(&row, known, s->recently_dead);
	put_count(&row, known, s->dead_items);
	pv_put_if(&row, known, Int32GetDatum(s->index_scans));
	put_count(&row, known, s->store_bytes);
	put_count(&row, known, (double) s->store_limit);
	pv_put_if(&row, known, Int32GetDatum(s->workers));
	pv_put_if(&row, known, Int32GetDatum(s->nindexes));
	put_usecs(&row, known, usecs[PV_PHASE_SCAN]);
	put_usecs(&row, known, usecs[PV_PHASE_INDEX]);
	put_usecs(&row, known, usecs[PV_PHASE_VACUUM_HEAP]);
	put_usecs(&row, known, elapsed);
	pv_put_if(&row, known, BoolGetDatum(s->aggressive));
	put_count(&row, known, s->freeze_pages);
	put_xid(&row, known, s->cutoffs.OldestXmin);
	put_xid(&row, known, s->cutoffs.FreezeLimit);
	put_xid(&row, known, s->cutoffs.relfrozenxid);
	put_xid(&row, known, s->new_relfrozenxid);
	put_xid(&row, known, s->cutoffs.relminmxid);
	put_xid(&row, known, s->new_relminmxid);
	pv_put(&row, BoolGetDatum(reason != NULL));
	pv_put_text(&row, reason, GetDatabaseEncoding());
	put_count(&row, known, s->items_kept);
	pv_return_row(fcinfo, &row);
}

/* Plan the vacuum of one table, which is open and locked. */
static void
plan_relation(FunctionCallInfo fcinfo, Relation rel,
			  const VacuumParams *params)
{
	VacuumParams own = *params;
	PvVacuumOptions options = {.started_by = PV_STARTED_BY_FUNCTION};
	PvOptions	effective;
	Oid			toast_parent = InvalidOid;
	const char *declined;
	const char *reason = NULL;
	PvSurvey	survey;

	pv_options_find(rel, &toast_parent, &effective);
	declined = pv_dispatch_declines(rel->rd_rel, toast_parent);
	if (declined != NULL)
		reason = psprintf("PostgreSQL's own VACUUM would vacuum the table.  %s",
						  declined);
	else if (RecoveryInProgress() && !RelationNeedsWAL(rel))
		reason = "The server is in recovery.  It has no contents of unlogged tables.";
	if (reason != NULL)
	{
		return_plan(fcinfo, rel, NULL, reason);
		return;
	}
	options.workers = effective.value[PV_OPTION_WORKERS];
	options.buffer_usage_limit = effective.value[PV_OPTION_BUFFER_USAGE_LIMIT];
	pv_survey(rel, &own, &options, &survey);
	return_plan(fcinfo, rel, &survey, reason_of(&survey));
}

/*
 * Plan the vacuum of one relation, and of its TOAST table.  A partitioned
 * table has no row, because its partitions have theirs.  See check_relation()
 * for toast_parent and "named".
 */
static void
plan_with_toast(FunctionCallInfo fcinfo, Oid relid, Oid toast_parent,
				bool named, const VacuumParams *params)
{
	Relation	rel;
	Oid			toastrelid;

	if (!check_relation(relid, toast_parent, named) ||
		get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		return;
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
	{
		if (named)
			pv_raise_no_relation(relid);
		return;
	}

	/* It may have changed while this session waited for the lock */
	toastrelid = rel->rd_rel->reltoastrelid;
	if (check_relation(relid, toast_parent, named) && rel->rd_tableam != NULL)
		plan_relation(fcinfo, rel, params);
	relation_close(rel, AccessShareLock);
	if (OidIsValid(toastrelid))
		plan_with_toast(fcinfo, toastrelid, relid, false, params);
}

/* parvacuum_plan(): return a row for each table that would be vacuumed. */
Datum
parvacuum_plan(PG_FUNCTION_ARGS)
{
	VacuumParams params;
	Oid			relid;
	List	   *relids;
	ListCell   *lc;
	MemoryContext of_table;
	MemoryContext before;

	pv_check_preloaded("parvacuum_plan()");
	InitMaterializedSRF(fcinfo, 0);
	pv_check_not_null(fcinfo, ARG_REL, "rel", "Name the table to be vacuumed.");
	read_params(fcinfo, &params);
	relid = PG_GETARG_OID(ARG_REL);
	(void) check_relation(relid, InvalidOid, true);

	relids = pv_expand_relation(relid, get_rel_relkind(relid));
	of_table = AllocSetContextCreate(CurrentMemoryContext,
									 "parvacuum plan of a table",
									 ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(of_table);
	foreach(lc, relids)
	{
		CHECK_FOR_INTERRUPTS();
		plan_with_toast(fcinfo, lfirst_oid(lc), InvalidOid,
						lfirst_oid(lc) == relid, &params);
		MemoryContextReset(of_table);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(of_table);
	pv_report_left_out(relid);
	return (Datum) 0;
}
