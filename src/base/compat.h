/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Everything that differs between PostgreSQL's major versions.
 *
 * Only base/compat and base/compat_heap name PG_VERSION_NUM.  A difference of
 * a few lines is an inline function here.  compat_heap has the changes of heap
 * pages.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COMPAT_H
#define PV_COMPAT_H

#include "access/genam.h"
#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/rmgr.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "replication/slot.h"
#include "storage/bufmgr.h"
#if PG_VERSION_NUM >= 170000
#include "storage/read_stream.h"
#endif
#include "storage/shmem.h"
#include "storage/smgr.h"
#include "storage/standby.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

/*
 * 15.8 and 16.4 gave heap_page_prune() another argument, and fixed the endless
 * loop that a horizon moving backwards could cause.  A server older than its
 * headers is refused at start.
 */
#if PG_VERSION_NUM < 150008 || \
	(PG_VERSION_NUM >= 160000 && PG_VERSION_NUM < 160004)
#error "parvacuum needs the headers of PostgreSQL 15.8, 16.4, 17, 18 or 19, or of a later minor release"
#elif PG_VERSION_NUM >= 200000 && !defined(PV_TRY_NEXT_MAJOR)
#error "parvacuum does not know this major version of PostgreSQL; src/README says how to try it"
#elif PG_VERSION_NUM >= 190000
#define PV_MIN_SERVER_VERSION	190000
#elif PG_VERSION_NUM >= 180000
#define PV_MIN_SERVER_VERSION	180000
#elif PG_VERSION_NUM >= 170000
#define PV_MIN_SERVER_VERSION	170000
#elif PG_VERSION_NUM >= 160000
#define PV_MIN_SERVER_VERSION	160004
#else
#define PV_MIN_SERVER_VERSION	150008
#endif


extern const char *pv_built_for_other(void);


/* ----------------------------------------------------------------
 *		Feature flags
 *
 * Each is 0 or 1, and may be used in #if and in code.
 * ----------------------------------------------------------------
 */

/* Core's delay point overwrites an autovacuum worker's cost limit and delay */
#define PV_CORE_RESETS_COSTS	(PG_VERSION_NUM < 160000)

/* Core freezes all that it can on a page where it has to freeze something */
#define PV_FREEZES_WHOLE_PAGES	(PG_VERSION_NUM >= 160000)

/*
 * The record that marks a page all-frozen in the visibility map has no
 * conflict horizon, because the record that froze the page had it
 */
#define PV_FREEZING_COVERS_MAP	(PG_VERSION_NUM >= 160000)

/* Rings of buffers can have any size */
#define PV_HAS_RING_SIZES		(PG_VERSION_NUM >= 160000)

/* The report of a vacuum has what was frozen */
#define PV_REPORTS_FROZEN		(PG_VERSION_NUM >= 160000)

/* Core's pruning freezes as well, in the same record */
#define PV_PRUNING_FREEZES		(PG_VERSION_NUM >= 170000)

/*
 * ... and without indexes dead line pointers become unused in that record, too
 */
#define PV_PRUNES_TO_UNUSED		(PG_VERSION_NUM >= 170000)

/* Core's store of dead TIDs is a TidStore */
#define PV_HAS_TIDSTORE			(PG_VERSION_NUM >= 170000)

/* There are read streams */
#define PV_HAS_READ_STREAMS		(PG_VERSION_NUM >= 170000)

/* There is the setting transaction_timeout */
#define PV_HAS_TRANSACTION_TIMEOUT	(PG_VERSION_NUM >= 170000)

/* VACUUM of a table vacuums its inheritance children, too */
#define PV_VACUUMS_CHILDREN		(PG_VERSION_NUM >= 180000)

/* The report of a vacuum has what was set in the visibility map */
#define PV_REPORTS_MAP			(PG_VERSION_NUM >= 180000)

/*
 * A normal vacuum reads some all-visible pages, until too large a share of a
 * region's pages could not be frozen
 */
#define PV_SCANS_EAGERLY		(PG_VERSION_NUM >= 180000)

/*
 * In PG 16 core freezes a page if pruning has logged an image of it for any
 * reason, to check the record by included
 */
#define PV_FREEZES_FOR_CHECKED_IMAGE \
	(PV_FREEZES_WHOLE_PAGES && !PV_PRUNING_FREEZES && \
	 wal_consistency_checking[RM_HEAP2_ID])

/*
 * The record that prunes and freezes a page also sets its bits in the
 * visibility map, and so does the record that makes its dead line pointers
 * unused
 */
#define PV_PRUNING_SETS_MAP		(PG_VERSION_NUM >= 190000)

/*
 * A page is all-visible if no snapshot may consider its newest inserter as
 * running at this moment, even if that one is newer than OldestXmin
 */
#define PV_MAP_BY_HORIZON		(PG_VERSION_NUM >= 190000)

/* A tuple whose insertion is in progress is a reason to look at the page again */
#define PV_INSERTS_ARE_PRUNABLE	(PG_VERSION_NUM >= 190000)

/* The report of a vacuum has the memory of the store of dead items */
#define PV_REPORTS_STORE		(PG_VERSION_NUM >= 190000)

/* Tables have the storage parameter autovacuum_parallel_workers */
#define PV_HAS_AUTOVACUUM_WORKERS	(PG_VERSION_NUM >= 190000)

/* The default size of core's ring, in kilobytes */
#define PV_DEFAULT_RING_KB		(PG_VERSION_NUM >= 170000 ? 2048 : 256)

/* The release whose headers this was compiled with, as a number */
#define PV_BUILT_FOR			PG_VERSION_NUM

/* The word for reading a page in the report of a vacuum */
#define PV_READS_ARE_CALLED		(PG_VERSION_NUM >= 180000 ? "reads" : "misses")


/* ----------------------------------------------------------------
 *		Types
 * ----------------------------------------------------------------
 */

#if PG_VERSION_NUM >= 160000
typedef struct VacuumCutoffs PvCutoffs;
#else
/* PG 16 added struct VacuumCutoffs; this has the same members. */
typedef struct PvCutoffs
{
	TransactionId relfrozenxid;
	MultiXactId relminmxid;
	TransactionId OldestXmin;
	MultiXactId OldestMxact;
	TransactionId FreezeLimit;
	MultiXactId MultiXactCutoff;
} PvCutoffs;
#endif

/* PG 18 lets a read stream submit several reads at once. */
#if PG_VERSION_NUM >= 180000
#define PV_READ_STREAM_BATCHES	READ_STREAM_USE_BATCHING
#else
#define PV_READ_STREAM_BATCHES	0
#endif

/* PG 17 and 19 renamed the wait for the pins of others. */
#if PG_VERSION_NUM >= 190000
#define PV_WAIT_BUFFER_PIN_EVENT	WAIT_EVENT_BUFFER_CLEANUP
#elif PG_VERSION_NUM >= 170000
#define PV_WAIT_BUFFER_PIN_EVENT	PG_WAIT_BUFFERPIN
#else
#define PV_WAIT_BUFFER_PIN_EVENT	PG_WAIT_BUFFER_PIN
#endif

/* What the vacuum function of a table access method gets; PG 19 made it const. */
#if PG_VERSION_NUM >= 190000
typedef const VacuumParams PvSlotParams;
#else
typedef VacuumParams PvSlotParams;
#endif

/* PG 19 passes the sender of a signal, and has a type for its handlers. */
#if PG_VERSION_NUM >= 190000
#define PV_SIGNAL_ARGS_PASSED	postgres_signal_arg, pg_siginfo
#define PV_SIG_IGN				PG_SIG_IGN
#else
#define PV_SIGNAL_ARGS_PASSED	postgres_signal_arg
#define PV_SIG_IGN				SIG_IGN
#endif

/* PG 19 put what belongs to the type of a setting into a union. */
#if PG_VERSION_NUM >= 190000
#define PV_SETTING_BOOL(setting)	(&(setting)->_bool)
#define PV_SETTING_INT(setting)		(&(setting)->_int)
#define PV_SETTING_REAL(setting)	(&(setting)->_real)
#define PV_SETTING_ENUM(setting)	(&(setting)->_enum)
#define PV_ENUM_RECORD(setting)		(setting)
#else
#define PV_SETTING_BOOL(setting)	((struct config_bool *) (setting))
#define PV_SETTING_INT(setting)		((struct config_int *) (setting))
#define PV_SETTING_REAL(setting)	((struct config_real *) (setting))
#define PV_SETTING_ENUM(setting)	((struct config_enum *) (setting))
#define PV_ENUM_RECORD(setting)		PV_SETTING_ENUM(setting)
#endif

/* PG 19 made CLUSTER a kind of REPACK. */
#if PG_VERSION_NUM >= 190000
#define PV_T_CLUSTER_STMT		T_RepackStmt
#else
#define PV_T_CLUSTER_STMT		T_ClusterStmt
#endif

/* PG 16 separated the values that are in effect from the settings. */
#if PG_VERSION_NUM >= 160000
#define pv_vacuum_cost_delay	vacuum_cost_delay
#define pv_vacuum_cost_limit	vacuum_cost_limit
#else
#define pv_vacuum_cost_delay	VacuumCostDelay
#define pv_vacuum_cost_limit	VacuumCostLimit
#endif


/* ----------------------------------------------------------------
 *		Renamed, or with other arguments
 * ----------------------------------------------------------------
 */

extern bool pv_get_cutoffs(Relation rel, const VacuumParams *params,
						   PvCutoffs *cutoffs);

/* PG 18 added is_analyze. */
#if PG_VERSION_NUM >= 180000
#define pv_delay_point()		vacuum_delay_point(false)
#else
#define pv_delay_point()		vacuum_delay_point()
#endif

/* PG 16 passes struct VacuumCutoffs. */
static inline bool
pv_failsafe_check(const PvCutoffs *cutoffs)
{
#if PG_VERSION_NUM >= 160000
	return vacuum_xid_failsafe_check(cutoffs);
#else
	return vacuum_xid_failsafe_check(cutoffs->relfrozenxid,
									 cutoffs->relminmxid);
#endif
}

/* PG 16 added heaprel. */
static inline void
pv_ivinfo_init(IndexVacuumInfo *info, Relation index, Relation heaprel,
			   double num_heap_tuples, bool estimated_count,
			   BufferAccessStrategy bstrategy)
{
	memset(info, 0, sizeof(*info));
	info->index = index;
#if PG_VERSION_NUM >= 160000
	info->heaprel = heaprel;
#endif
	info->analyze_only = false;
	info->report_progress = false;
	info->estimated_count = estimated_count;
	info->message_level = DEBUG2;
	info->num_heap_tuples = num_heap_tuples;
	info->strategy = bstrategy;
}

/* PG 16 added heaprel. */
static inline bool
pv_btree_page_is_recyclable(Relation heaprel, Page page)
{
#if PG_VERSION_NUM >= 160000
	return BTPageIsRecyclable(page, heaprel);
#else
	return BTPageIsRecyclable(page);
#endif
}

/* PG 18 added num_all_frozen_pages. */
static inline void
pv_update_relstats(Relation rel, BlockNumber num_pages, double num_tuples,
				   BlockNumber num_all_visible_pages,
				   BlockNumber num_all_frozen_pages, bool hasindex,
				   TransactionId frozenxid, MultiXactId minmulti,
				   bool *frozenxid_updated, bool *minmulti_updated)
{
	vac_update_relstats(rel, num_pages, num_tuples, num_all_visible_pages,
#if PG_VERSION_NUM >= 180000
						num_all_frozen_pages,
#endif
						hasindex, frozenxid, minmulti,
						frozenxid_updated, minmulti_updated, false);
}

extern void pv_report_vacuum(Relation rel, PgStat_Counter live,
							 PgStat_Counter dead, TimestampTz starttime);

/* Return the name of the command of a statement of type PV_T_CLUSTER_STMT. */
static inline const char *
pv_cluster_command(const Node *stmt)
{
#if PG_VERSION_NUM >= 190000
	if (((const RepackStmt *) stmt)->command != REPACK_COMMAND_CLUSTER)
		return "REPACK";
#endif
	return "CLUSTER";
}

/* PG 19 has shared hash tables of fixed sizes only. */
static inline HTAB *
pv_shmem_hash(const char *name, int size, HASHCTL *info)
{
#if PG_VERSION_NUM >= 190000
	return ShmemInitHash(name, size, info, HASH_ELEM | HASH_BLOBS);
#else
	return ShmemInitHash(name, size, size, info,
						 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
#endif
}

/* Return the bytes of full page images, which PG 19 counts; before, -1. */
static inline int64
pv_wal_fpi_bytes(const WalUsage *usage)
{
#if PG_VERSION_NUM >= 190000
	return usage->wal_fpi_bytes;
#else
	return -1;
#endif
}

/* PG 17 counts the time of shared blocks apart from that of local ones. */
static inline instr_time
pv_block_read_time(const BufferUsage *usage)
{
#if PG_VERSION_NUM >= 170000
	return usage->shared_blk_read_time;
#else
	return usage->blk_read_time;
#endif
}

static inline instr_time
pv_block_write_time(const BufferUsage *usage)
{
#if PG_VERSION_NUM >= 170000
	return usage->shared_blk_write_time;
#else
	return usage->blk_write_time;
#endif
}

/*
 * Return how often the WAL buffers were full, which PG 18 counts; before, -1.
 */
static inline int64
pv_wal_buffers_full(const WalUsage *usage)
{
#if PG_VERSION_NUM >= 180000
	return usage->wal_buffers_full;
#else
	return -1;
#endif
}

/* PG 17 replaced IsAutoVacuumWorkerProcess(). */
static inline bool
pv_is_autovacuum_worker(void)
{
	return MyBackendType == B_AUTOVAC_WORKER;
}

/* PG 16 renamed the list of backends, whose numbers begin at 1. */
static inline const PgBackendStatus *
pv_backend_status(int number)
{
#if PG_VERSION_NUM >= 160000
	return &pgstat_get_local_beentry_by_index(number)->backendStatus;
#else
	return &pgstat_fetch_stat_local_beentry(number)->backendStatus;
#endif
}

/* PG 19 has replication slots of its own for REPACK. */
static inline int
pv_num_slots(void)
{
#if PG_VERSION_NUM >= 190000
	return max_replication_slots + max_repack_replication_slots;
#else
	return max_replication_slots;
#endif
}

extern int	pv_slot_pid(const ReplicationSlot *slot);
extern bool pv_slot_is_invalid(const ReplicationSlot *slot);

/* PG 17 has slots on a standby that follow those of the primary. */
static inline bool
pv_slot_is_synced(const ReplicationSlot *slot)
{
#if PG_VERSION_NUM >= 170000
	return slot->data.synced;
#else
	return false;
#endif
}

/* PG 17 notes when a slot became inactive; before, 0. */
static inline TimestampTz
pv_slot_inactive_since(const ReplicationSlot *slot)
{
#if PG_VERSION_NUM >= 170000
	return slot->inactive_since;
#else
	return 0;
#endif
}

/*
 * PG 16 removed the setting vacuum_defer_cleanup_age, by which rows are kept
 * for longer.
 */
static inline int
pv_defer_cleanup_age(void)
{
#if PG_VERSION_NUM >= 160000
	return 0;
#else
	return vacuum_defer_cleanup_age;
#endif
}

extern bool pv_fetch_counts_and_time(bool shared, Oid relid, double *dead,
									 double *inserted, double *modified,
									 double *versions, TimestampTz *done_at);
extern TimestampTz pv_last_vacuum(bool shared, Oid relid);
extern bool pv_fetch_counts(bool shared, Oid relid, double *dead,
							double *inserted, double *modified);
extern struct config_generic *pv_find_setting(const char *name);
extern bool pv_is_registered(const char *type);


/* ----------------------------------------------------------------
 *		Other behaviour: cost-based delay, progress, waits
 * ----------------------------------------------------------------
 */

extern void pv_apply_cost_settings(void);
extern void pv_autovacuum_cost_settings(double *delay, int *limit);
extern int	pv_autovacuum_cost_limit(void);

/* PG 16 has a flag of its own for the failsafe. */
static inline void
pv_set_failsafe(bool active)
{
#if PG_VERSION_NUM >= 160000
	VacuumFailsafeActive = active;
#endif
}

/*
 * PG 18 shows how long a vacuum has slept, if track_cost_delay_timing is on.
 * A parallel worker reports that to its leader now and then, and the rest when
 * it ends.
 */
#if PG_VERSION_NUM >= 180000
#define PV_TRACK_DELAYS			(&track_cost_delay_timing)
#define pv_tracks_delays()		track_cost_delay_timing
#define pv_delay_ms() \
	(MyBEEntry->st_progress_param[PROGRESS_VACUUM_DELAY_TIME] / 1000000.0)
#else
#define PV_TRACK_DELAYS			NULL
#define pv_tracks_delays()		false
#define pv_delay_ms()			0.0
#endif

static inline void
pv_report_rest_of_delays(void)
{
#if PG_VERSION_NUM >= 180000
	if (parallel_vacuum_worker_delay_ns > 0)
		pgstat_progress_parallel_incr_param(PROGRESS_VACUUM_DELAY_TIME,
											parallel_vacuum_worker_delay_ns);
#endif
}

extern int	pv_index_scans_shown(void);
extern void pv_progress_store(Size bytes, int64 items, Size limit);

/*
 * What core's view shows of a vacuum.  A number that this major version does
 * not have is -1, a text is NULL.
 */
typedef struct PvCoreProgress
{
	int64		phase;
	int64		heap_blks_total;
	int64		heap_blks_scanned;
	int64		heap_blks_vacuumed;
	int64		index_vacuum_count;
	int64		max_dead_tuples;	/* these two before PG 17 */
	int64		num_dead_tuples;
	int64		max_dead_tuple_bytes;	/* from here on since PG 17 */
	int64		dead_tuple_bytes;
	int64		num_dead_item_ids;
	int64		indexes_total;
	int64		indexes_processed;
	double		delay_time_ms;	/* since PG 18 */
	const char *mode;			/* since PG 19 */

	/* Ours, which core's view does not show */
	int64		index_blks_total;
	int64		index_blks_visited;
} PvCoreProgress;

extern void pv_core_progress(const int64 *params, PvCoreProgress *core);

extern void pv_progress_started_by(bool automatic, bool is_wraparound);
extern void pv_progress_mode(bool aggressive, bool failsafe);

/* PG 17 shows how many indexes a phase has, and how many are done. */
static inline void
pv_progress_indexes(int64 total, int64 done)
{
#if PG_VERSION_NUM >= 170000
	const int	params[] = {
		PROGRESS_VACUUM_INDEXES_TOTAL,
		PROGRESS_VACUUM_INDEXES_PROCESSED,
	};
	int64		values[] = {total, done};

	pgstat_progress_update_multi_param(lengthof(params), params, values);
#endif
}

/* PG 17 lets extensions name their wait events. */
static inline uint32
pv_named_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}


/* ----------------------------------------------------------------
 *		Other behaviour: what VACUUM and ANALYZE do, by settings and options
 * ----------------------------------------------------------------
 */

/* PG 17 removed old_snapshot_threshold, which forbids truncation. */
static inline bool
pv_truncation_forbidden(void)
{
#if PG_VERSION_NUM >= 170000
	return false;
#else
	return old_snapshot_threshold >= 0;
#endif
}

extern bool pv_may_truncate(Relation rel);
extern double pv_eager_failure_rate(const VacuumParams *params);
extern void pv_choose_eager_failure_rate(VacuumParams *params, Relation rel);
extern int	pv_log_min_duration(const VacuumParams *params);
extern int	pv_log_analyze_min_duration(const VacuumParams *params);
extern void pv_choose_log_min_duration(VacuumParams *params,
									   const AutoVacOpts *own);
extern int	pv_vacuum_max_threshold(const AutoVacOpts *options);
extern int	pv_autovacuum_parallel_workers(const AutoVacOpts *options);

/*
 * Return the share of a table that is not frozen, by which PG 18 weighs
 * inserts.
 */
static inline double
pv_unfrozen_share(Form_pg_class form)
{
#if PG_VERSION_NUM >= 180000
	if (form->relpages > 0 && form->relallfrozen > 0)
		return 1 -
			Min(form->relallfrozen, form->relpages) / (double) form->relpages;
#endif
	return 1;
}

/* PG 17 runs functions of users with a safe search_path. */
static inline void
pv_restrict_search_path(void)
{
#if PG_VERSION_NUM >= 170000
	RestrictSearchPath();
#endif
}


/* ----------------------------------------------------------------
 *		Rights
 * ----------------------------------------------------------------
 */

extern bool pv_owns_relation(Oid relid, Oid role);
extern bool pv_owns_database(Oid database, Oid role);
extern bool pv_may_maintain(Oid relid, Oid role);
extern bool pv_may_maintain_all(Oid role);
extern bool pv_may_signal_autovacuum(void);

/* The roles for which pv_may_signal_autovacuum() is true, for messages */
#if PG_VERSION_NUM >= 180000
#define PV_MAY_SIGNAL_AUTOVACUUM "roles with privileges of pg_signal_autovacuum_worker"
#else
#define PV_MAY_SIGNAL_AUTOVACUUM "superusers"
#endif

#endif							/* PV_COMPAT_H */
