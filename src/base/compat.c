/*-------------------------------------------------------------------------
 *
 * compat.c
 *	  What each major version of PostgreSQL does in its own way, apart from the
 *	  changes of heap pages (base/compat_heap.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "access/multixact.h"
#include "postmaster/bgworker_internals.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"

#include "base/compat.h"

/* ----------------------------------------------------------------
 *		The server
 * ----------------------------------------------------------------
 */

/* Is that the version of a development snapshot, a beta or a candidate? */
static bool
is_prerelease(const char *version)
{
	return isalpha((unsigned char) version[strspn(version, "0123456789.")]);
}

/*
 * Return NULL if the library can be used in this server, else the version that
 * it was built for.  Pre-releases and the release share the number that the
 * magic block compares, but structures of core may differ between any two.
 */
const char *
pv_built_for_other(void)
{
	static const char built[] = PG_VERSION;
	const char *running = GetConfigOption("server_version", false, false);
	size_t		len = strcspn(built, " (");

	if ((is_prerelease(built) || is_prerelease(running)) &&
		(len != strcspn(running, " (") || strncmp(built, running, len) != 0))
		return built;
	return NULL;
}

/* ----------------------------------------------------------------
 *		Cutoffs
 * ----------------------------------------------------------------
 */

/* Get the cutoffs from core, on any server but a standby. */
static bool
core_cutoffs(Relation rel, const VacuumParams *params, PvCutoffs *cutoffs)
{
#if PG_VERSION_NUM >= 160000
	return vacuum_get_cutoffs(rel, params, cutoffs);
#else
	cutoffs->relfrozenxid = rel->rd_rel->relfrozenxid;
	cutoffs->relminmxid = rel->rd_rel->relminmxid;

	return vacuum_set_xid_limits(rel,
								 params->freeze_min_age,
								 params->freeze_table_age,
								 params->multixact_freeze_min_age,
								 params->multixact_freeze_table_age,
								 &cutoffs->OldestXmin, &cutoffs->OldestMxact,
								 &cutoffs->FreezeLimit,
								 &cutoffs->MultiXactCutoff);
#endif
}

/*
 * Is the vacuum aggressive by the age of relfrozenxid?
 *
 * Core: commands/vacuum.c, vacuum_get_cutoffs.
 */
static bool
is_aggressive_by_age(const VacuumParams *params, TransactionId relfrozenxid)
{
	int			age = params->freeze_table_age >= 0 ?
		params->freeze_table_age : vacuum_freeze_table_age;
	TransactionId limit;

	age = Min(age, autovacuum_freeze_max_age * 0.95);
	limit = ReadNextTransactionId() - age;
	if (!TransactionIdIsNormal(limit))
		limit = FirstNormalTransactionId;
	return TransactionIdPrecedesOrEquals(relfrozenxid, limit);
}

/*
 * Compute the cutoffs of a vacuum.  Return whether it is aggressive.  The
 * leader calls this once, before it reads the size of the relation.  The plan
 * of a vacuum calls it on standbys, too.  There core does not know how many
 * members multixacts have, and takes all multixacts for too old.
 *
 * Core: commands/vacuum.c, vacuum_set_xid_limits (15), vacuum_get_cutoffs;
 * access/transam/multixact.c, MultiXactMemberFreezeThreshold.
 */
bool
pv_get_cutoffs(Relation rel, const VacuumParams *params, PvCutoffs *cutoffs)
{
	bool		aggressive = core_cutoffs(rel, params, cutoffs);

	if (RecoveryInProgress())
	{
		cutoffs->MultiXactCutoff = cutoffs->relminmxid;
		aggressive = is_aggressive_by_age(params, cutoffs->relfrozenxid);
	}
	return aggressive;
}


/* ----------------------------------------------------------------
 *		Cost-based delay
 * ----------------------------------------------------------------
 */

/*
 * Delay what follows in this session, which is not a VACUUM, by the settings
 * of the session.  Core: commands/vacuum.c, vacuum.
 */
void
pv_apply_cost_settings(void)
{
#if PG_VERSION_NUM >= 160000
	VacuumFailsafeActive = false;
	VacuumUpdateCosts();
#else
	VacuumCostActive = VacuumCostDelay > 0;
#endif
}

/*
 * Compute this autovacuum worker's cost limits from the settings and core's
 * balancing, and apply them.  This takes no lock, except that from PG 16 on
 * core takes a shared one to log at DEBUG2.
 *
 * On 15 core knows the settings as they were when the worker began the table.
 */
void
pv_autovacuum_cost_settings(double *delay, int *limit)
{
#if PG_VERSION_NUM >= 160000
	bool		active = VacuumCostActive;

	VacuumUpdateCosts();
	VacuumCostActive = active;
#else
	AutoVacuumUpdateDelay();
#endif
	*delay = pv_vacuum_cost_delay;
	*limit = pv_vacuum_cost_limit;
}

/* Return the limit alone, which changes with the number of workers. */
int
pv_autovacuum_cost_limit(void)
{
#if PG_VERSION_NUM >= 160000
	AutoVacuumUpdateCostLimit();
#else
	AutoVacuumUpdateDelay();
#endif
	return pv_vacuum_cost_limit;
}


/* ----------------------------------------------------------------
 *		What VACUUM and ANALYZE do, by settings and options
 * ----------------------------------------------------------------
 */

/*
 * May a vacuum truncate this table if its caller leaves the decision open?
 * PG 18 has a setting for tables without an option.
 */
bool
pv_may_truncate(Relation rel)
{
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;

#if PG_VERSION_NUM >= 190000
	if (options == NULL || options->vacuum_truncate == PG_TERNARY_UNSET)
		return vacuum_truncate;
	return options->vacuum_truncate == PG_TERNARY_TRUE;
#elif PG_VERSION_NUM >= 180000
	if (options == NULL || !options->vacuum_truncate_set)
		return vacuum_truncate;
	return options->vacuum_truncate;
#else
	return options == NULL || options->vacuum_truncate;
#endif
}

/* Return the share of failures that ends eager scanning of a region. */
double
pv_eager_failure_rate(const VacuumParams *params)
{
#if PG_VERSION_NUM >= 180000
	return params->max_eager_freeze_failure_rate;
#else
	return 0;
#endif
}

/*
 * Set that share as the server has it; vacuum() looks at the table's option.
 */
void
pv_default_eager_failure_rate(VacuumParams *params)
{
#if PG_VERSION_NUM >= 180000
	params->max_eager_freeze_failure_rate =
		vacuum_max_eager_freeze_failure_rate;
#endif
}

/* Set that share as the table has it, else the server. */
void
pv_choose_eager_failure_rate(VacuumParams *params, Relation rel)
{
#if PG_VERSION_NUM >= 180000
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;

	pv_default_eager_failure_rate(params);
	if (options != NULL && options->vacuum_max_eager_freeze_failure_rate >= 0)
		params->max_eager_freeze_failure_rate =
			options->vacuum_max_eager_freeze_failure_rate;
#endif
}

/*
 * Return the duration in milliseconds from which on an autovacuum of the table
 * is logged; -1 for no log.  PG 19 has one for VACUUM and one for ANALYZE.
 */
int
pv_log_min_duration(const VacuumParams *params)
{
#if PG_VERSION_NUM >= 190000
	return params->log_vacuum_min_duration;
#else
	return params->log_min_duration;
#endif
}

/*
 * Return the number of index scans of the last vacuum that this process has
 * shown in pg_stat_progress_vacuum.  Core leaves it there when the vacuum has
 * ended.  It is 0 if track_activities is off.
 */
int
pv_index_scans_shown(void)
{
	if (!pgstat_track_activities)
		return 0;
	return MyBEEntry->st_progress_param[PROGRESS_VACUUM_NUM_INDEX_VACUUMS];
}

/* The same as pv_log_min_duration() for an ANALYZE. */
int
pv_log_analyze_min_duration(const VacuumParams *params)
{
#if PG_VERSION_NUM >= 190000
	return params->log_analyze_min_duration;
#else
	return params->log_min_duration;
#endif
}

/* Set no log, for a vacuum that a user has asked for. */
void
pv_set_no_log(VacuumParams *params)
{
#if PG_VERSION_NUM >= 190000
	params->log_vacuum_min_duration = -1;
	params->log_analyze_min_duration = -1;
#else
	params->log_min_duration = -1;
#endif
}

/* Set both as the table has them, else the server. */
void
pv_choose_log_min_duration(VacuumParams *params, const AutoVacOpts *own)
{
#if PG_VERSION_NUM >= 190000
	params->log_vacuum_min_duration =
		own->log_vacuum_min_duration >= 0 ?
		own->log_vacuum_min_duration : Log_autovacuum_min_duration;
	params->log_analyze_min_duration =
		own->log_analyze_min_duration >= 0 ?
		own->log_analyze_min_duration : Log_autoanalyze_min_duration;
#else
	params->log_min_duration = own->log_min_duration >= 0 ?
		own->log_min_duration : Log_autovacuum_min_duration;
#endif
}

/*
 * Return the limit of the threshold of dead rows, which PG 18 added; -1 for no
 * limit.
 */
int
pv_vacuum_max_threshold(const AutoVacOpts *options)
{
#if PG_VERSION_NUM >= 180000
	return options->vacuum_max_threshold >= -1 ?
		options->vacuum_max_threshold : autovacuum_vac_max_thresh;
#else
	return -1;
#endif
}

/*
 * Return the number of workers of an autovacuum by a table's storage
 * parameters, which PG 19 added; -1 if they do not say.  In those of a TOAST
 * table the member has no meaning.
 */
int
pv_autovacuum_parallel_workers(const AutoVacOpts *options)
{
#if PG_VERSION_NUM >= 190000
	return options->autovacuum_parallel_workers;
#else
	return -1;
#endif
}


/* ----------------------------------------------------------------
 *		Statistics, progress, settings
 * ----------------------------------------------------------------
 */

/*
 * Return a table's entry in the cumulative statistics, and whether the caller
 * may free it.
 */
static PgStat_StatTabEntry *
fetch_statistics(bool shared, Oid relid, bool *may_free)
{
#if PG_VERSION_NUM >= 190000
	return pgstat_fetch_stat_tabentry_ext(shared, relid, may_free);
#else
	*may_free = pgstat_fetch_consistency == PGSTAT_FETCH_CONSISTENCY_NONE;
	return pgstat_fetch_stat_tabentry_ext(shared, relid);
#endif
}

/* Return when the table was last vacuumed; 0 if that is not known. */
TimestampTz
pv_last_vacuum(bool shared, Oid relid)
{
	bool		may_free;
	PgStat_StatTabEntry *entry = fetch_statistics(shared, relid, &may_free);
	TimestampTz last;

	if (entry == NULL)
		return 0;
#if PG_VERSION_NUM >= 160000
	last = Max(entry->last_vacuum_time, entry->last_autovacuum_time);
#else
	last = Max(entry->vacuum_timestamp, entry->autovac_vacuum_timestamp);
#endif
	if (may_free)
		pfree(entry);
	return last;
}

/*
 * Get what the cumulative statistics have counted of a table, and when it was
 * last vacuumed or analyzed, 0 if never.  *versions are the row versions that
 * have left dead entries in indexes, since the statistics were reset: of
 * updates that were not HOT, and of deletes.  Return false if the table is not
 * known.  This waits for no other process.  PG 16 renamed the members.
 */
bool
pv_fetch_counts_and_time(bool shared, Oid relid, double *dead,
						 double *inserted, double *modified,
						 double *versions, TimestampTz *done_at)
{
	bool		may_free;
	PgStat_StatTabEntry *entry = fetch_statistics(shared, relid, &may_free);

	if (entry == NULL)
		return false;
	*versions = entry->tuples_updated - entry->tuples_hot_updated +
		entry->tuples_deleted;
#if PG_VERSION_NUM >= 160000
	*dead = entry->dead_tuples;
	*inserted = entry->ins_since_vacuum;
	*modified = entry->mod_since_analyze;
	*done_at =
		Max(Max(entry->last_vacuum_time, entry->last_autovacuum_time),
			Max(entry->last_analyze_time, entry->last_autoanalyze_time));
#else
	*dead = entry->n_dead_tuples;
	*inserted = entry->inserts_since_vacuum;
	*modified = entry->changes_since_analyze;
	*done_at =
		Max(Max(entry->vacuum_timestamp, entry->autovac_vacuum_timestamp),
			Max(entry->analyze_timestamp, entry->autovac_analyze_timestamp));
#endif
	if (may_free)
		pfree(entry);
	return true;
}

bool
pv_fetch_counts(bool shared, Oid relid, double *dead, double *inserted,
				double *modified)
{
	double		versions;
	TimestampTz done_at;

	return pv_fetch_counts_and_time(shared, relid, dead, inserted, modified,
									&versions, &done_at);
}

/* PG 18 added the start time, and PG 19 passes the relation. */
void
pv_report_vacuum(Relation rel, PgStat_Counter live, PgStat_Counter dead,
				 TimestampTz starttime)
{
#if PG_VERSION_NUM >= 190000
	pgstat_report_vacuum(rel, live, dead, starttime);
#elif PG_VERSION_NUM >= 180000
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 live, dead, starttime);
#else
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 live, dead);
#endif
}

/* PG 19 shows who has started a vacuum, and its mode. */
void
pv_progress_started_by(bool automatic, bool is_wraparound)
{
#if PG_VERSION_NUM >= 190000
	int64		started_by = PROGRESS_VACUUM_STARTED_BY_MANUAL;

	if (automatic && is_wraparound)
		started_by = PROGRESS_VACUUM_STARTED_BY_AUTOVACUUM_WRAPAROUND;
	else if (automatic)
		started_by = PROGRESS_VACUUM_STARTED_BY_AUTOVACUUM;
	pgstat_progress_update_param(PROGRESS_VACUUM_STARTED_BY, started_by);
#endif
}

void
pv_progress_mode(bool aggressive, bool failsafe)
{
#if PG_VERSION_NUM >= 190000
	pgstat_progress_update_param(PROGRESS_VACUUM_MODE,
								 failsafe ? PROGRESS_VACUUM_MODE_FAILSAFE :
								 aggressive ? PROGRESS_VACUUM_MODE_AGGRESSIVE :
								 PROGRESS_VACUUM_MODE_NORMAL);
#endif
}

/*
 * Show the progress of the store of dead TIDs.  From PG 17 on the view has
 * bytes and numbers of item identifiers.  Before, it has numbers of dead
 * tuples only.  Then the maximum is what the limit would hold if all were
 * stored as compactly as those that are there.
 */
void
pv_progress_store(Size bytes, int64 items, Size limit)
{
#if PG_VERSION_NUM >= 170000
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLE_BYTES, limit);
	pgstat_progress_update_param(PROGRESS_VACUUM_DEAD_TUPLE_BYTES, bytes);
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS, items);
#else
	double		bytes_per_item = sizeof(ItemPointerData);

	if (items > 0)
		bytes_per_item = Min(bytes_per_item, (double) bytes / items);
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLES,
								 Max((int64) (limit / bytes_per_item), items));
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_TUPLES, items);
#endif
}

/* Interpret the progress parameters of a process that vacuums. */
void
pv_core_progress(const int64 *params, PvCoreProgress *core)
{
	core->phase = params[PROGRESS_VACUUM_PHASE];
	core->heap_blks_total = params[PROGRESS_VACUUM_TOTAL_HEAP_BLKS];
	core->heap_blks_scanned = params[PROGRESS_VACUUM_HEAP_BLKS_SCANNED];
	core->heap_blks_vacuumed = params[PROGRESS_VACUUM_HEAP_BLKS_VACUUMED];
	core->index_vacuum_count = params[PROGRESS_VACUUM_NUM_INDEX_VACUUMS];
	core->index_blks_total = params[PROGRESS_SCAN_BLOCKS_TOTAL];
	core->index_blks_visited = params[PROGRESS_SCAN_BLOCKS_DONE];

#if PG_VERSION_NUM >= 170000
	core->max_dead_tuples = -1;
	core->num_dead_tuples = -1;
	core->max_dead_tuple_bytes = params[PROGRESS_VACUUM_MAX_DEAD_TUPLE_BYTES];
	core->dead_tuple_bytes = params[PROGRESS_VACUUM_DEAD_TUPLE_BYTES];
	core->num_dead_item_ids = params[PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS];
	core->indexes_total = params[PROGRESS_VACUUM_INDEXES_TOTAL];
	core->indexes_processed = params[PROGRESS_VACUUM_INDEXES_PROCESSED];
#else
	core->max_dead_tuples = params[PROGRESS_VACUUM_MAX_DEAD_TUPLES];
	core->num_dead_tuples = params[PROGRESS_VACUUM_NUM_DEAD_TUPLES];
	core->max_dead_tuple_bytes = -1;
	core->dead_tuple_bytes = -1;
	core->num_dead_item_ids = -1;
	core->indexes_total = -1;
	core->indexes_processed = -1;
#endif

#if PG_VERSION_NUM >= 180000
	core->delay_time_ms = params[PROGRESS_VACUUM_DELAY_TIME] / 1000000.0;
#else
	core->delay_time_ms = -1;
#endif

	core->mode = NULL;
#if PG_VERSION_NUM >= 190000
	switch (params[PROGRESS_VACUUM_MODE])
	{
		case PROGRESS_VACUUM_MODE_NORMAL:
			core->mode = "normal";
			break;
		case PROGRESS_VACUUM_MODE_AGGRESSIVE:
			core->mode = "aggressive";
			break;
		case PROGRESS_VACUUM_MODE_FAILSAFE:
			core->mode = "failsafe";
			break;
	}
#endif
}

/*
 * Return the setting, or NULL if the server does not know its name.  On 15 the
 * few settings that were renamed long ago are not found by their old names.
 */
struct config_generic *
pv_find_setting(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, DEBUG5);
#else
	struct config_generic **settings = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
	{
		if (pg_strcasecmp(settings[i]->name, name) == 0)
			return settings[i];
	}
	return NULL;
#endif
}

/*
 * Has the postmaster registered a background worker of that type?  Only for
 * the postmaster, because RegisterBackgroundWorker() does not return that.
 */
bool
pv_is_registered(const char *type)
{
#if PG_VERSION_NUM >= 180000
	dlist_iter	iter;

	dlist_foreach(iter, &BackgroundWorkerList)
	{
		RegisteredBgWorker *worker =
			dlist_container(RegisteredBgWorker, rw_lnode, iter.cur);
#else
	slist_iter	iter;

	slist_foreach(iter, &BackgroundWorkerList)
	{
		RegisteredBgWorker *worker =
			slist_container(RegisteredBgWorker, rw_lnode, iter.cur);
#endif

		if (strcmp(worker->rw_worker.bgw_type, type) == 0)
			return true;
	}
	return false;
}

/*
 * Return the process that uses a replication slot, whose spinlock the caller
 * holds; 0 if there is none.  PG 19 keeps the number of the process.
 */
int
pv_slot_pid(const ReplicationSlot *slot)
{
#if PG_VERSION_NUM >= 190000
	return slot->active_proc == INVALID_PROC_NUMBER ? 0 :
		GetPGProcByNumber(slot->active_proc)->pid;
#else
	return slot->active_pid;
#endif
}

/*
 * Has the slot been invalidated, so that it holds back nothing?  The caller
 * holds its spinlock.
 */
bool
pv_slot_is_invalid(const ReplicationSlot *slot)
{
#if PG_VERSION_NUM >= 160000
	return slot->data.invalidated != RS_INVAL_NONE;
#else
	return slot->data.invalidated_at != InvalidXLogRecPtr &&
		slot->data.restart_lsn == InvalidXLogRecPtr;
#endif
}


/* ----------------------------------------------------------------
 *		Rights
 * ----------------------------------------------------------------
 */

/* PG 16 has one function for the owners of all kinds of objects. */
bool
pv_owns_relation(Oid relid, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, role);
#else
	return pg_class_ownercheck(relid, role);
#endif
}

bool
pv_owns_database(Oid database, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, role);
#else
	return pg_database_ownercheck(database, role);
#endif
}

/* May the role vacuum the table?  From PG 17 on that is a privilege. */
bool
pv_may_maintain(Oid relid, Oid role)
{
#if PG_VERSION_NUM >= 170000
	return pg_class_aclcheck(relid, role, ACL_MAINTAIN) == ACLCHECK_OK;
#else
	return pv_owns_relation(relid, role);
#endif
}

/* May the role vacuum all tables?  PG 17 has a predefined role for that. */
bool
pv_may_maintain_all(Oid role)
{
#if PG_VERSION_NUM >= 170000
	return has_privs_of_role(role, ROLE_PG_MAINTAIN);
#else
	return superuser_arg(role);
#endif
}

/*
 * May the current role cancel an autovacuum worker?  PG 18 has a predefined
 * role for that.  Core: storage/ipc/signalfuncs.c, pg_signal_backend.
 */
bool
pv_may_signal_autovacuum(void)
{
#if PG_VERSION_NUM >= 180000
	return has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_AUTOVACUUM_WORKER);
#else
	return superuser();
#endif
}
