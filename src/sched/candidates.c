/*-------------------------------------------------------------------------
 *
 * candidates.c
 *	  Which tables of a database need a vacuum, an analyze or a sweep.
 *
 * A scheduler worker runs this: for all tables, in a scan of its database, and
 * for one table, when its turn has come (recheck).  The input is that of
 * autovacuum, and what follows from it is decided in sched/policy.c.  A
 * database may have many thousands of tables and be scanned every minute, so
 * each of them takes little more than one lookup in the statistics.
 *
 * Core: postmaster/autovacuum.c, do_autovacuum and table_recheck_autovac.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_statistic.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/compat.h"
#include "entry/failures.h"
#include "entry/options.h"
#include "sched/table.h"
#include "stats/history.h"
#include "throttle/cost.h"

/* What a table says about the scheduler, for itself and for its TOAST table */
typedef struct TableOptions
{
	Oid			toast;			/* the key of Scan.options */
	Oid			table;
	bool		sweep;			/* it wants sweeps */
	const char *window;			/* NULL: the setting */
	AutoVacOpts own;
} TableOptions;

/* A scan of all tables */
typedef struct Scan
{
	List	   *found;			/* PvItem */
	Relation	pg_class;
	PvLabels   *labels;			/* the options of parvacuum */
	MemoryContext result;		/* of what is found */
	HTAB	   *options;		/* TableOptions by TOAST table */
} Scan;

/*
 * Return the age of a transaction or multixact; 0 if it is not a normal one,
 * or not past.
 */
static int64
age_of(uint32 then, uint32 first_normal, uint32 next)
{
	int32		age = (int32) (next - then);

	return then >= first_normal && age > 0 ? age : 0;
}

/* Return a table's own value, or that of the setting if it is negative. */
static double
choose(double own, double setting)
{
	return own >= 0 ? own : setting;
}

/* Get the thresholds by settings and storage parameters. */
void
pv_need_thresholds(Form_pg_class form, const AutoVacOpts *own,
				   PvThresholds *limits)
{
	int			most = pv_vacuum_max_threshold(own);
	int			max_age = autovacuum_freeze_max_age;
	int			max_mxid_age = MultiXactMemberFreezeThreshold();

	limits->enabled = own->enabled;
	limits->vacuum_base = choose(own->vacuum_threshold, autovacuum_vac_thresh);
	limits->vacuum_scale = choose(own->vacuum_scale_factor,
								  autovacuum_vac_scale);
	if (most >= 0 && limits->vacuum_base +
		limits->vacuum_scale * Max(form->reltuples, 0) > most)
	{
		limits->vacuum_base = most;
		limits->vacuum_scale = 0;
	}
	limits->insert_base = own->vacuum_ins_threshold >= -1 ?
		own->vacuum_ins_threshold : autovacuum_vac_ins_thresh;
	limits->insert_scale = pv_unfrozen_share(form) *
		choose(own->vacuum_ins_scale_factor, autovacuum_vac_ins_scale);
	limits->analyze_base = choose(own->analyze_threshold,
								  autovacuum_anl_thresh);
	limits->analyze_scale = choose(own->analyze_scale_factor,
								   autovacuum_anl_scale);

	limits->danger_age = max_age;
	limits->freeze_max_age =
		Min(choose(own->freeze_max_age, max_age), max_age);
	limits->failsafe_age = Max(vacuum_failsafe_age, max_age * 1.05);
	limits->multixact_danger_age = max_mxid_age;
	limits->multixact_freeze_max_age =
		Min(choose(own->multixact_freeze_max_age, max_mxid_age), max_mxid_age);
	limits->multixact_failsafe_age = Max(vacuum_multixact_failsafe_age,
										 autovacuum_multixact_freeze_max_age *
										 1.05);
}

/*
 * Get the state of the table of this pg_class row, and when it was last
 * vacuumed or analyzed, or PV_NEVER.
 */
void
pv_need_state(Form_pg_class form, PvTableState *state, TimestampTz *done_at)
{
	PvCounts	counts = {0};

	memset(state, 0, sizeof(*state));
	/* where nothing is counted, a vacuum does not reset old counts either */
	state->counted = pgstat_track_counts &&
		pv_fetch_counts(form->oid, &counts);
	state->dead = counts.dead;
	state->inserted = counts.inserted;
	state->modified = counts.modified;
	state->versions = counts.versions;
	*done_at = counts.done_at;
	state->reltuples = form->reltuples;
	state->pages = form->relpages;
	state->xid_age = age_of(form->relfrozenxid, FirstNormalTransactionId,
							ReadNextTransactionId());
	state->mxid_age = age_of(form->relminmxid, FirstMultiXactId,
							 ReadNextMultiXactId());
	state->may_analyze = form->relkind != RELKIND_TOASTVALUE &&
		form->oid != StatisticRelationId;
}

/*
 * Find out what the table with these storage parameters needs now; sweep says
 * whether it wants sweeps.  A TOAST table, which has no updates, gets none.
 * With the engine off, parvacuum touches no table.  Return when the table was
 * last vacuumed or analyzed, or PV_NEVER.
 */
static TimestampTz
get_score(Form_pg_class form, const AutoVacOpts *own, bool sweep,
		  PvScore *score)
{
	PvTableState state;
	PvThresholds thresholds;
	PvSweepMark mark;
	PvCostBudget budget;
	TimestampTz done_at;

	pv_need_state(form, &state, &done_at);
	if (sweep && pv_guc_engine && form->relkind != RELKIND_TOASTVALUE &&
		form->relhasindex && form->relam == HEAP_TABLE_AM_OID &&
		!IsCatalogRelationOid(form->oid))
	{
		state.may_sweep = pv_records_sweep_mark(pv_history_lock(),
												MyDatabaseId, form->oid,
												form->relowner, &mark);
		pv_history_unlock();
		state.versions_swept = mark.versions;
		state.splits = mark.splits;
	}
	pv_need_thresholds(form, own, &thresholds);
	pv_score_table(&state, &thresholds, score);
	if (pv_cost_of_table(own, &budget))
		score->haste = 0;
	return done_at;
}

/*
 * The same for an open table.  Of a shared catalog the relation cache may have
 * the row of pg_class of another database, with the age that it has there: it
 * begins with a file of nailed relations, and the file of those that are shared
 * is the same for all databases.
 */
void
pv_need_score_of(Relation rel, const AutoVacOpts *own, bool sweep,
				 PvScore *score)
{
	Oid			relid = RelationGetRelid(rel);
	HeapTuple	tuple;

	if (!rel->rd_rel->relisshared)
	{
		(void) get_score(rel->rd_rel, own, sweep, score);
		return;
	}
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	(void) get_score((Form_pg_class) GETSTRUCT(tuple), own, sweep, score);
	ReleaseSysCache(tuple);
}

/* Is a table with this score bound to the window?  An urgent one is not. */
static bool
is_bound_to(const PvWindow *window, const PvScore *score)
{
	return !window->always && !score->wraparound &&
		score->total < pv_guc_urgent_score;
}

/*
 * Does a table with this score wait for its window?  Set *window to that of
 * the text, or of the setting if the text is NULL or has an unknown time zone.
 */
bool
pv_need_is_outside(const char *text, const PvScore *score, PvWindow *window)
{
	const char *detail;

	if (text != NULL)
		(void) pv_window_parse(text, window, &detail);
	if (text == NULL || detail != NULL)
		*window = pv_guc_parsed_window;
	return is_bound_to(window, score) &&
		!pv_window_is_open(window, time(NULL));
}

/*
 * Return when the open window closes, so that the vacuum of a table with this
 * score must end; 0 if it need not.
 */
TimestampTz
pv_need_deadline(const PvWindow *window, const PvScore *score)
{
	pg_time_t	closes;

	if (!is_bound_to(window, score))
		return 0;
	closes = pv_window_next_change(window, time(NULL));
	return closes == PV_WINDOW_NO_CHANGE ? 0 : time_t_to_timestamptz(closes);
}

/*
 * Leave out of the score what has failed lately (entry/failures.c).  If
 * nothing is left, do not change it, and return what the table waits for, and
 * until which time of day.
 */
PvWaitReason
pv_need_leave_out_failed(Form_pg_class form, BlockNumber pages,
						 PvScore *score, TimestampTz *until)
{
	TimestampTz of_analyze = PV_NEVER;
	TimestampTz of_others = PV_NEVER;
	bool		canceled = false;
	bool		analyze;

	if (score->analyze)
		of_analyze = pv_failures_pause(form->oid, form->relowner, true,
									   score->danger, &canceled);
	if (score->vacuum || score->sweep)
		of_others = pv_failures_pause(form->oid, form->relowner, false,
									  score->danger, &canceled);
	if (of_analyze == PV_NEVER && of_others == PV_NEVER)
		return PV_WAIT_NONE;
	analyze = score->analyze && of_analyze == PV_NEVER;
	if (analyze || ((score->vacuum || score->sweep) && of_others == PV_NEVER))
	{
		pv_score_rest(score, score->vacuum && of_others == PV_NEVER, analyze,
					  score->sweep && of_others == PV_NEVER, pages);
		return PV_WAIT_NONE;
	}
	*until = pv_time_of_day(of_others != PV_NEVER ? of_others : of_analyze);
	return canceled ? PV_WAIT_CANCELED : PV_WAIT_ERROR;
}

/*
 * Does the scheduler leave the table alone for now?  An autovacuum worker asks
 * this of a table that has opted in, which it has locked.  ANALYZE by
 * autovacuum does not come here.
 */
bool
pv_need_leaves_alone(Relation rel, Oid toast_parent,
					 const PvOptions *options)
{
	Form_pg_class form = rel->rd_rel;
	AutoVacOpts own;
	PvScore		score;
	PvWindow	window;
	bool		canceled;

	if (!pv_guc_scheduler || form->relisshared ||
		form->relpersistence == RELPERSISTENCE_TEMP)
		return false;
	pv_options_autovacuum(rel, toast_parent, &own);
	pv_need_score_of(rel, &own, false, &score);
	return !score.danger &&
		(pv_need_is_outside(options->window, &score, &window) ||
		 pv_failures_pause(form->oid, form->relowner, false, false,
						   &canceled) != PV_NEVER);
}

/*
 * Does the scheduler serve the table?  Catalogs are autovacuum's.  If that is
 * off, the scheduler serves all that has come with the server, whoever has
 * opted in.  Else the oldest of them would hold back datfrozenxid.
 */
bool
pv_need_is_served(Oid relid, bool opted_in)
{
	if (relid < FirstNormalObjectId && !AutoVacuumingActive())
		return true;
	return opted_in && !IsCatalogRelationOid(relid);
}

/*
 * Add a table to those found if it needs something.  It is to wait if it is
 * outside of its window.
 */
static void
consider(Scan *scan, Form_pg_class form, Oid toast_parent,
		 const TableOptions *options)
{
	PvScore		score;
	TimestampTz done_at = get_score(form, &options->own, options->sweep,
									&score);
	MemoryContext per_table;
	PvItem	   *item;
	PvWindow	window;
	pg_time_t	opens;

	if (!score.vacuum && !score.analyze && !score.sweep)
		return;

	per_table = MemoryContextSwitchTo(scan->result);
	item = palloc0(sizeof(PvItem));
	scan->found = lappend(scan->found, item);
	MemoryContextSwitchTo(per_table);
	item->key.database = MyDatabaseId;
	item->key.relid = form->oid;
	item->owner = form->relowner;
	item->toast_parent = toast_parent;
	item->pages = form->relpages;
	item->score = score;
	item->tried = score.danger &&
		pv_failures_lately(form->oid, form->relowner, false, true) > 0;
	item->done_at = done_at == PV_NEVER ? PV_NEVER : pv_moment_of(done_at);
	item->reason = pv_need_leave_out_failed(form, item->pages, &item->score,
											&item->wait_until);
	if (item->reason != PV_WAIT_NONE ||
		!pv_need_is_outside(options->window, &item->score, &window))
		return;
	opens = pv_window_next_change(&window, time(NULL));
	item->reason = PV_WAIT_WINDOW;
	item->wait_until = opens == PV_WINDOW_NO_CHANGE ?
		PV_NEVER : time_t_to_timestamptz(opens);
	pv_sched_count(PV_COUNT_SKIPPED_WINDOW);
}

/* Consider a table, if the scheduler serves it. */
static void
consider_table(Scan *scan, HeapTuple tuple)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	TableOptions options = {.toast = form->reltoastrelid,.table = form->oid};
	PvOptions	ours;

	/* a catalog, which the engine does not vacuum, follows the settings */
	pv_options_default(&ours);
	if (!IsCatalogRelationOid(form->oid))
		pv_labels_find(scan->labels, form->oid, form->relispartition, &ours);
	if (!pv_need_is_served(form->oid, ours.value[PV_OPTION_ENABLED] > 0))
		return;
	options.sweep = ours.value[PV_OPTION_SWEEP] > 0;
	options.window = ours.window;
	pv_options_no_autovacuum(&options.own);
	(void) pv_options_read_autovacuum(tuple, RelationGetDescr(scan->pg_class),
									  &options.own);
	if (OidIsValid(options.toast))
		*(TableOptions *) hash_search(scan->options, &options.toast,
									  HASH_ENTER, NULL) = options;
	consider(scan, form, InvalidOid, &options);
}

/*
 * Consider a TOAST table.  It is scored by itself, but by its table's storage
 * parameters if it has none.  These are in a row of pg_class that may come
 * later, so all tables are considered before.
 */
static void
consider_toast(Scan *scan, HeapTuple tuple)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	const TableOptions *of_table = hash_search(scan->options, &form->oid,
											   HASH_FIND, NULL);
	TableOptions options;

	if (of_table == NULL)
		return;
	options = *of_table;
	(void) pv_options_read_autovacuum(tuple, RelationGetDescr(scan->pg_class),
									  &options.own);
	consider(scan, form, options.table, &options);
}

/*
 * Call the function for each table, or each TOAST table, of the database, in a
 * memory context of its own.
 */
static void
for_each_table(Scan *scan, bool toast, void (*function) (Scan *, HeapTuple))
{
	TableScanDesc desc = table_beginscan_catalog(scan->pg_class, 0, NULL);
	MemoryContext per_table = AllocSetContextCreate(scan->result,
													"parvacuum table",
													ALLOCSET_SMALL_SIZES);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(desc, ForwardScanDirection)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (form->relpersistence == RELPERSISTENCE_TEMP)
			continue;
		if (toast ? form->relkind == RELKIND_TOASTVALUE :
			form->relkind == RELKIND_RELATION ||
			form->relkind == RELKIND_MATVIEW)
		{
			MemoryContextSwitchTo(per_table);
			function(scan, tuple);
			MemoryContextSwitchTo(scan->result);
			MemoryContextReset(per_table);
		}
	}
	table_endscan(desc);
	MemoryContextDelete(per_table);
}

/*
 * Compare two tables by the order in which a scan offers them, of which not
 * all may find room: those in danger, the oldest first, and then those that
 * were done longest ago.
 */
static int
compare_found(const ListCell *a, const ListCell *b)
{
	const PvItem *x = lfirst(a);
	const PvItem *y = lfirst(b);
	double		x_age = Max(x->score.xid, x->score.mxid);
	double		y_age = Max(y->score.xid, y->score.mxid);

	if (x->score.danger != y->score.danger)
		return x->score.danger ? -1 : 1;
	if (x->score.danger && x_age != y_age)
		return x_age > y_age ? -1 : 1;
	if (x->done_at != y->done_at)
		return x->done_at < y->done_at ? -1 : 1;
	return x->key.relid < y->key.relid ? -1 : x->key.relid > y->key.relid;
}

/*
 * Find all tables of this database that need something, the most urgent first,
 * as items for the queue.  If no table has opted in, set *nothing, and do not
 * read pg_class.  The caller is in a transaction; the result is in its memory
 * context.
 */
List *
pv_need_scan(bool *nothing)
{
	Scan		scan = {.result = CurrentMemoryContext};
	HASHCTL		info = {
		.keysize = sizeof(Oid),
		.entrysize = sizeof(TableOptions),
		.hcxt = CurrentMemoryContext
	};

	scan.labels = pv_labels_read();
	*nothing = !pv_guc_enabled && AutoVacuumingActive() && !scan.labels->any;
	if (*nothing)
		return NIL;
	scan.pg_class = table_open(RelationRelationId, AccessShareLock);
	scan.options = hash_create("TOAST tables", 256, &info,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for_each_table(&scan, false, consider_table);
	for_each_table(&scan, true, consider_toast);

	table_close(scan.pg_class, AccessShareLock);
	list_sort(scan.found, compare_found);
	return scan.found;
}
