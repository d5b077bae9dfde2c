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
#include "catalog/catalog.h"
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
	bool		aggressive;

#if PG_VERSION_NUM >= 160000
	aggressive = vacuum_get_cutoffs(rel, params, cutoffs);
#else
	cutoffs->relfrozenxid = rel->rd_rel->relfrozenxid;
	cutoffs->relminmxid = rel->rd_rel->relminmxid;
	aggressive = vacuum_set_xid_limits(rel,
									   params->freeze_min_age,
									   params->freeze_table_age,
									   params->multixact_freeze_min_age,
									   params->multixact_freeze_table_age,
									   &cutoffs->OldestXmin,
									   &cutoffs->OldestMxact,
									   &cutoffs->FreezeLimit,
									   &cutoffs->MultiXactCutoff);
#endif
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
 * balancing, and apply them.  Return the delay.  This takes no lock, except
 * that from PG 16 on core takes a shared one to log at DEBUG2.
 *
 * On 15 core knows the settings as they were when the worker began the table.
 */
double
pv_autovacuum_cost_delay(void)
{
#if PG_VERSION_NUM >= 160000
	bool		active = VacuumCostActive;

	VacuumUpdateCosts();
	VacuumCostActive = active;
#else
	AutoVacuumUpdateDelay();
#endif
	return pv_vacuum_cost_delay;
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

/* Set that share as the table has it, else as the server has it. */
void
pv_choose_eager_failure_rate(VacuumParams *params, Relation rel)
{
#if PG_VERSION_NUM >= 180000
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;

	params->max_eager_freeze_failure_rate =
		vacuum_max_eager_freeze_failure_rate;
	if (options != NULL && options->vacuum_max_eager_freeze_failure_rate >= 0)
		params->max_eager_freeze_failure_rate =
			options->vacuum_max_eager_freeze_failure_rate;
#endif
}

/*
 * Return the number of index scans of the last vacuum that this process has
 * shown in pg_stat_progress_vacuum, where core leaves it.  It is 0 if
 * track_activities is off.
 */
int
pv_index_scans_shown(void)
{
	if (!pgstat_track_activities)
		return 0;
	return MyBEEntry->st_progress_param[PROGRESS_VACUUM_NUM_INDEX_VACUUMS];
}

/* Set that duration for VACUUM, and for ANALYZE. */
void
pv_set_log_min_duration(VacuumParams *params, int vacuum, int analyze)
{
#if PG_VERSION_NUM >= 190000
	params->log_vacuum_min_duration = vacuum;
	params->log_analyze_min_duration = analyze;
#else
	params->log_min_duration = vacuum;
#endif
}

/*
 * Return the duration in milliseconds from which on an automatic VACUUM or
 * ANALYZE of a table with these storage parameters is logged; -1 for no log.
 */
int
pv_own_log_min_duration(const AutoVacOpts *own, bool analyze)
{
#if PG_VERSION_NUM >= 190000
	if (analyze)
		return own->log_analyze_min_duration >= 0 ?
			own->log_analyze_min_duration : Log_autoanalyze_min_duration;
	return own->log_vacuum_min_duration >= 0 ?
		own->log_vacuum_min_duration : Log_autovacuum_min_duration;
#else
	return own->log_min_duration >= 0 ?
		own->log_min_duration : Log_autovacuum_min_duration;
#endif
}

/* Return the limit of the threshold of dead rows (PG 18); -1 for none. */
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

/* ----------------------------------------------------------------
 *		Statistics, progress, settings
 * ----------------------------------------------------------------
 */

/*
 * Get what the cumulative statistics have counted of a table.  Return false,
 * and zero, if the table is not known.  This waits for no other process.
 */
bool
pv_fetch_counts(Oid relid, PvCounts *counts)
{
	bool		shared = IsSharedRelation(relid);
	bool		may_free;
	TimestampTz analyzed_at;
#if PG_VERSION_NUM >= 190000
	PgStat_StatTabEntry *entry =
		pgstat_fetch_stat_tabentry_ext(shared, relid, &may_free);
#else
	PgStat_StatTabEntry *entry =
		pgstat_fetch_stat_tabentry_ext(shared, relid);

	may_free = pgstat_fetch_consistency == PGSTAT_FETCH_CONSISTENCY_NONE;
#endif

	memset(counts, 0, sizeof(*counts));
	if (entry == NULL)
		return false;
	counts->versions = entry->tuples_updated - entry->tuples_hot_updated +
		entry->tuples_deleted;
#if PG_VERSION_NUM >= 160000
	counts->dead = entry->dead_tuples;
	counts->inserted = entry->ins_since_vacuum;
	counts->modified = entry->mod_since_analyze;
	counts->vacuumed_at =
		Max(entry->last_vacuum_time, entry->last_autovacuum_time);
	analyzed_at = Max(entry->last_analyze_time, entry->last_autoanalyze_time);
#else
	counts->dead = entry->n_dead_tuples;
	counts->inserted = entry->inserts_since_vacuum;
	counts->modified = entry->changes_since_analyze;
	counts->vacuumed_at =
		Max(entry->vacuum_timestamp, entry->autovac_vacuum_timestamp);
	analyzed_at =
		Max(entry->analyze_timestamp, entry->autovac_analyze_timestamp);
#endif
	counts->done_at = Max(counts->vacuumed_at, analyzed_at);
	if (may_free)
		pfree(entry);
	return true;
}

/* Return when the table was last vacuumed, by the statistics; 0 if never. */
TimestampTz
pv_last_vacuum(Oid relid)
{
	PvCounts	counts;

	(void) pv_fetch_counts(relid, &counts);
	return counts.vacuumed_at;
}

/* Report to the statistics; PG 18 has the start time, PG 19 the relation. */
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

/* Show who has started the vacuum, on PG 19. */
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

/* Show the mode of the vacuum, which PG 19 has. */
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
 * Show the progress of the store of dead TIDs.  Before PG 17 the view has
 * numbers of dead tuples only.  Then the maximum is what the limit would hold
 * if all were stored as compactly as those that are there.
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

/* The progress parameter of each count; -1 if this major version has none */
const int	pv_progress_param[PV_NUM_PROGRESS_COUNTS] = {
	PROGRESS_VACUUM_TOTAL_HEAP_BLKS,
	PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
	PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
	PROGRESS_VACUUM_NUM_INDEX_VACUUMS,
#if PG_VERSION_NUM >= 170000
	-1, -1,
	PROGRESS_VACUUM_MAX_DEAD_TUPLE_BYTES,
	PROGRESS_VACUUM_DEAD_TUPLE_BYTES,
	PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS,
	PROGRESS_VACUUM_INDEXES_TOTAL,
	PROGRESS_VACUUM_INDEXES_PROCESSED
#else
	PROGRESS_VACUUM_MAX_DEAD_TUPLES,
	PROGRESS_VACUUM_NUM_DEAD_TUPLES,
	-1, -1, -1, -1, -1
#endif
};

/* Return how long the vacuum has slept, which PG 18 shows; before, -1. */
double
pv_progress_delay_ms(const int64 *params)
{
#if PG_VERSION_NUM >= 180000
	return params[PROGRESS_VACUUM_DELAY_TIME] / 1000000.0;
#else
	return -1;
#endif
}

/* Return the mode of the vacuum, which PG 19 shows; before, NULL. */
const char *
pv_progress_mode_name(const int64 *params)
{
#if PG_VERSION_NUM >= 190000
	switch (params[PROGRESS_VACUUM_MODE])
	{
		case PROGRESS_VACUUM_MODE_NORMAL:
			return "normal";
		case PROGRESS_VACUUM_MODE_AGGRESSIVE:
			return "aggressive";
		case PROGRESS_VACUUM_MODE_FAILSAFE:
			return "failsafe";
	}
#endif
	return NULL;
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
