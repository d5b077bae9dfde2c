/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Everything that differs between PostgreSQL's major versions.
 *
 * Only base/compat and base/compat_heap name PG_VERSION_NUM.  A difference of
 * a few lines is an inline function here.  compat_heap has the changes of heap
 * pages.
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
#include "catalog/catversion.h"
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
#include "storage/proc.h"
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
 * The record that marks a page all-frozen in the map has no conflict horizon:
 * the record that froze the page had it
 */
#define PV_FREEZING_COVERS_MAP	(PG_VERSION_NUM >= 160000)

/* Rings of buffers can have any size */
#define PV_HAS_RING_SIZES		(PG_VERSION_NUM >= 160000)

/* The report of a vacuum has what was frozen */
#define PV_REPORTS_FROZEN		(PG_VERSION_NUM >= 160000)

/* Core's pruning freezes as well, in the same record ... */
#define PV_PRUNING_FREEZES		(PG_VERSION_NUM >= 170000)

/* ... and without indexes makes dead line pointers unused in it */
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

/* A normal vacuum reads some all-visible pages, as long as many get frozen */
#define PV_SCANS_EAGERLY		(PG_VERSION_NUM >= 180000)

/* Core also freezes a page if the image that was logged is for a check only */
#define PV_FREEZES_FOR_CHECKED_IMAGE \
	(PV_FREEZES_WHOLE_PAGES && !PV_PRUNING_FREEZES && \
	 wal_consistency_checking[RM_HEAP2_ID])

/* The records of both heap passes also set a page's bits in the map */
#define PV_PRUNING_SETS_MAP		(PG_VERSION_NUM >= 190000)

/* A page is all-visible by the horizon of the moment, and not by OldestXmin */
#define PV_MAP_BY_HORIZON		(PG_VERSION_NUM >= 190000)

/* A tuple whose insertion is in progress is a reason to look at the page again */
#define PV_INSERTS_ARE_PRUNABLE	(PG_VERSION_NUM >= 190000)

/* The report of a vacuum has the memory of the store of dead items */
#define PV_REPORTS_STORE		(PG_VERSION_NUM >= 190000)

/* Tables have the storage parameter autovacuum_parallel_workers */
#define PV_HAS_AUTOVACUUM_WORKERS	(PG_VERSION_NUM >= 190000)

/* The default size of core's ring, in kilobytes */
#define PV_DEFAULT_RING_KB		(PG_VERSION_NUM >= 170000 ? 2048 : 256)

/* The release whose headers this was compiled with */
#define PV_BUILT_FOR			PG_VERSION_NUM

/* The word for reading a page in the report of a vacuum */
#define PV_READS_ARE_CALLED		(PG_VERSION_NUM >= 180000 ? "reads" : "misses")


/* ----------------------------------------------------------------
 *		Renamed, or with other arguments, by the version that brought it
 * ----------------------------------------------------------------
 */

/*
 * PG 16 added struct VacuumCutoffs, renamed what names the file of a relation,
 * and separated the cost limits in effect from the settings.  It passes the
 * heap relation, and renamed the list of backends, whose numbers begin at 1.
 * It has a flag for the failsafe, notes why a slot was invalidated, and has one
 * function for the owners of all kinds of objects.  It removed the setting
 * vacuum_defer_cleanup_age.
 */
#if PG_VERSION_NUM >= 160000
typedef struct VacuumCutoffs PvCutoffs;
typedef RelFileLocator PvLocator;
#define pv_locator(rel)				((rel)->rd_locator)
#define pv_locator_equals(a, b)		RelFileLocatorEquals(a, b)
#define pv_vacuum_cost_delay		vacuum_cost_delay
#define pv_vacuum_cost_limit		vacuum_cost_limit
#define pv_failsafe_check(cutoffs)	vacuum_xid_failsafe_check(cutoffs)
#define pv_btree_page_is_recyclable(heaprel, page) \
	BTPageIsRecyclable(page, heaprel)
#define pv_backend_status(number) \
	(&pgstat_get_local_beentry_by_index(number)->backendStatus)
#define pv_set_failsafe(active)		(VacuumFailsafeActive = (active))
#define pv_slot_is_invalid(slot) \
	((slot)->data.invalidated != RS_INVAL_NONE)
#define pv_defer_cleanup_age()		0
#define pv_owns_relation(relid, role) \
	object_ownercheck(RelationRelationId, relid, role)
#define pv_owns_database(database, role) \
	object_ownercheck(DatabaseRelationId, database, role)
#else
typedef struct PvCutoffs
{
	TransactionId relfrozenxid;
	MultiXactId relminmxid;
	TransactionId OldestXmin;
	MultiXactId OldestMxact;
	TransactionId FreezeLimit;
	MultiXactId MultiXactCutoff;
} PvCutoffs;
typedef RelFileNode PvLocator;
#define pv_locator(rel)				((rel)->rd_node)
#define pv_locator_equals(a, b)		RelFileNodeEquals(a, b)
#define pv_vacuum_cost_delay		VacuumCostDelay
#define pv_vacuum_cost_limit		VacuumCostLimit
#define pv_failsafe_check(cutoffs) \
	vacuum_xid_failsafe_check((cutoffs)->relfrozenxid, (cutoffs)->relminmxid)
#define pv_btree_page_is_recyclable(heaprel, page)	BTPageIsRecyclable(page)
#define pv_backend_status(number) \
	(&pgstat_fetch_stat_local_beentry(number)->backendStatus)
#define pv_set_failsafe(active)		((void) 0)
#define pv_slot_is_invalid(slot) \
	((slot)->data.invalidated_at != InvalidXLogRecPtr && \
	 (slot)->data.restart_lsn == InvalidXLogRecPtr)
#define pv_defer_cleanup_age()		vacuum_defer_cleanup_age
#define pv_owns_relation(relid, role)	pg_class_ownercheck(relid, role)
#define pv_owns_database(database, role) \
	pg_database_ownercheck(database, role)
#endif

/*
 * PG 17 counts the time of shared blocks apart from that of local ones.  It has
 * slots on a standby that follow those of the primary, and notes when a slot
 * became inactive.  It lets extensions name their wait events, and removed
 * old_snapshot_threshold, which forbids truncation.  It runs functions of users
 * with a safe search_path, and has a privilege and a predefined role for
 * vacuuming.
 */
#if PG_VERSION_NUM >= 170000
#define pv_block_read_time(usage)		((usage)->shared_blk_read_time)
#define pv_block_write_time(usage)		((usage)->shared_blk_write_time)
#define pv_slot_is_synced(slot)			((slot)->data.synced)
#define pv_slot_inactive_since(slot)	((slot)->inactive_since)
#define pv_named_wait_event(name)		WaitEventExtensionNew(name)
#define pv_truncation_forbidden()		false
#define pv_restrict_search_path()		RestrictSearchPath()
#define pv_lock_is_held(tag, mode)		LockHeldByMe(tag, mode, false)
#define pv_may_maintain(relid, role) \
	(pg_class_aclcheck(relid, role, ACL_MAINTAIN) == ACLCHECK_OK)
#define pv_may_maintain_all(role)	has_privs_of_role(role, ROLE_PG_MAINTAIN)
#else
#define pv_block_read_time(usage)		((usage)->blk_read_time)
#define pv_block_write_time(usage)		((usage)->blk_write_time)
#define pv_slot_is_synced(slot)			false
#define pv_slot_inactive_since(slot)	0
#define pv_named_wait_event(name)		((void) (name), PG_WAIT_EXTENSION)
#define pv_truncation_forbidden()		(old_snapshot_threshold >= 0)
#define pv_restrict_search_path()		((void) 0)
#define pv_lock_is_held(tag, mode)		LockHeldByMe(tag, mode)
#define pv_may_maintain(relid, role)	pv_owns_relation(relid, role)
#define pv_may_maintain_all(role)		superuser_arg(role)
#endif

/*
 * PG 18 lets a read stream submit several reads at once, and added is_analyze.
 * It counts how often the WAL buffers were full; -1 is not known.  It ends
 * eager scanning of a region at a share of failures, and shows how long a
 * vacuum has slept, if track_cost_delay_timing is on.  It has a predefined role
 * for canceling autovacuum workers, named here as in messages.  Core:
 * storage/ipc/signalfuncs.c, pg_signal_backend.
 */
#if PG_VERSION_NUM >= 180000
#define PV_READ_STREAM_BATCHES			READ_STREAM_USE_BATCHING
#define pv_delay_point()				vacuum_delay_point(false)
#define pv_wal_buffers_full(usage)		((usage)->wal_buffers_full)
#define pv_eager_failure_rate(params) \
	((params)->max_eager_freeze_failure_rate)
#define PV_TRACK_DELAYS					(&track_cost_delay_timing)
#define pv_tracks_delays()				track_cost_delay_timing
#define pv_may_signal_autovacuum() \
	has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_AUTOVACUUM_WORKER)
#define PV_MAY_SIGNAL_AUTOVACUUM \
	"roles with privileges of pg_signal_autovacuum_worker"
#else
#define PV_READ_STREAM_BATCHES			0
#define pv_delay_point()				vacuum_delay_point()
#define pv_wal_buffers_full(usage)		INT64CONST(-1)
#define pv_eager_failure_rate(params)	0.0
#define PV_TRACK_DELAYS					NULL
#define pv_tracks_delays()				false
#define pv_may_signal_autovacuum()		superuser()
#define PV_MAY_SIGNAL_AUTOVACUUM		"superusers"
#endif

/*
 * PG 19 made the parameters of a table access method's vacuum const, and
 * CLUSTER a kind of REPACK.  It passes the sender of a signal, and has a type
 * for its handlers.  It has what belongs to the type of a setting in a union,
 * and counts the bytes of full page images; -1 is not known.  It has replication
 * slots of its own for REPACK, and keeps the number of the process that uses a
 * slot.  VACUUM and ANALYZE have a duration each for the log.  It has a storage
 * parameter for the workers of an autovacuum; -1 is not set.  Among the
 * parameters of a TOAST table it has no meaning.
 */
#if PG_VERSION_NUM >= 190000
typedef const VacuumParams PvSlotParams;
#define PV_T_CLUSTER_STMT				T_RepackStmt
#define PV_SIGNAL_ARGS_PASSED			postgres_signal_arg, pg_siginfo
#define PV_SIG_IGN						PG_SIG_IGN
#define PV_SETTING_BOOL(setting)		(&(setting)->_bool)
#define PV_SETTING_INT(setting)			(&(setting)->_int)
#define PV_SETTING_REAL(setting)		(&(setting)->_real)
#define pv_wal_fpi_bytes(usage)			((int64) (usage)->wal_fpi_bytes)
#define pv_num_slots() \
	(max_replication_slots + max_repack_replication_slots)
#define pv_slot_pid(slot) \
	((slot)->active_proc == INVALID_PROC_NUMBER ? 0 : \
	 GetPGProcByNumber((slot)->active_proc)->pid)
#define pv_log_min_duration(params)		((params)->log_vacuum_min_duration)
#define pv_autovacuum_parallel_workers(options) \
	((options)->autovacuum_parallel_workers)
#else
typedef VacuumParams PvSlotParams;
#define PV_T_CLUSTER_STMT				T_ClusterStmt
#define PV_SIGNAL_ARGS_PASSED			postgres_signal_arg
#define PV_SIG_IGN						SIG_IGN
#define PV_SETTING_BOOL(setting)		((struct config_bool *) (setting))
#define PV_SETTING_INT(setting)			((struct config_int *) (setting))
#define PV_SETTING_REAL(setting)		((struct config_real *) (setting))
#define pv_wal_fpi_bytes(usage)			INT64CONST(-1)
#define pv_num_slots()					max_replication_slots
#define pv_slot_pid(slot)				((slot)->active_pid)
#define pv_log_min_duration(params)		((params)->log_min_duration)
#define pv_autovacuum_parallel_workers(options) (-1)
#endif

/* PG 17 and 19 renamed the wait for the pins of others. */
#if PG_VERSION_NUM >= 190000
#define PV_WAIT_BUFFER_PIN_EVENT	WAIT_EVENT_BUFFER_CLEANUP
#elif PG_VERSION_NUM >= 170000
#define PV_WAIT_BUFFER_PIN_EVENT	PG_WAIT_BUFFERPIN
#else
#define PV_WAIT_BUFFER_PIN_EVENT	PG_WAIT_BUFFER_PIN
#endif

extern bool pv_get_cutoffs(Relation rel, const VacuumParams *params,
						   PvCutoffs *cutoffs);

/* PG 17 replaced IsAutoVacuumWorkerProcess(). */
#define pv_is_autovacuum_worker()		(MyBackendType == B_AUTOVAC_WORKER)

/*
 * PG 16 added heaprel, and PG 19 is_autovacuum, between its beta 2 and its
 * release candidate.
 */
static inline void
pv_ivinfo_init(IndexVacuumInfo *info, Relation index, Relation heaprel,
			   bool automatic, double num_heap_tuples, bool estimated_count,
			   BufferAccessStrategy bstrategy)
{
	memset(info, 0, sizeof(*info));
	info->index = index;
#if PG_VERSION_NUM >= 160000
	info->heaprel = heaprel;
#endif
#if PG_VERSION_NUM >= 190000 && CATALOG_VERSION_NO >= 202610061
	info->is_autovacuum = automatic;
#endif
	info->estimated_count = estimated_count;
	info->message_level = DEBUG2;
	info->num_heap_tuples = num_heap_tuples;
	info->strategy = bstrategy;
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
pv_shmem_hash(const char *name, int size, Size keysize, Size entrysize)
{
	HASHCTL		info = {.keysize = keysize,.entrysize = entrysize};

#if PG_VERSION_NUM >= 190000
	return ShmemInitHash(name, size, &info, HASH_ELEM | HASH_BLOBS);
#else
	return ShmemInitHash(name, size, size, &info,
						 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
#endif
}


/* What the cumulative statistics have of a table */
typedef struct PvCounts
{
	double		dead;
	double		inserted;		/* since the last vacuum */
	double		modified;		/* since the last ANALYZE */
	double		versions;		/* that have left dead entries in indexes: by
								 * updates that were not HOT, and by deletes */
	TimestampTz vacuumed_at;	/* 0: never */
	TimestampTz done_at;		/* vacuumed or analyzed */
} PvCounts;

extern bool pv_fetch_counts(Oid relid, PvCounts *counts);
extern TimestampTz pv_last_vacuum(Oid relid);
extern struct config_generic *pv_find_setting(const char *name);


/* ----------------------------------------------------------------
 *		Other behaviour: cost-based delay, progress, waits
 * ----------------------------------------------------------------
 */

/* A process waits for the content of a buffer by an LWLock before PG 19 */
#if PG_VERSION_NUM < 190000
#define PG_WAIT_BUFFER			PG_WAIT_LWLOCK
#endif

extern void pv_apply_cost_settings(void);
extern double pv_autovacuum_cost_delay(void);
extern int	pv_autovacuum_cost_limit(void);

/*
 * Report the rest of how long a parallel worker has slept, when it ends.  It
 * has reported the other part to its leader now and then.
 */
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

/* The counts in core's view of a vacuum, from its first to its last version */
typedef enum PvProgressCount
{
	PV_HEAP_BLKS_TOTAL,
	PV_HEAP_BLKS_SCANNED,
	PV_HEAP_BLKS_VACUUMED,
	PV_INDEX_VACUUM_COUNT,
	PV_MAX_DEAD_TUPLES,
	PV_NUM_DEAD_TUPLES,
	PV_MAX_DEAD_TUPLE_BYTES,
	PV_DEAD_TUPLE_BYTES,
	PV_NUM_DEAD_ITEM_IDS,
	PV_INDEXES_TOTAL,
	PV_INDEXES_PROCESSED,
	PV_NUM_PROGRESS_COUNTS
} PvProgressCount;

extern const int pv_progress_param[PV_NUM_PROGRESS_COUNTS];
extern double pv_progress_delay_ms(const int64 *params);
extern const char *pv_progress_mode_name(const int64 *params);

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

/*
 * Is this the session of a client, or a parallel worker of one?  Not if it runs
 * a VACUUM.  Nothing keeps the processes from ending meanwhile.
 */
static inline bool
pv_is_client(const PGPROC *proc)
{
	const PGPROC *leader = *(PGPROC *const volatile *) &proc->lockGroupLeader;
	const PGPROC *session = leader != NULL ? leader : proc;
#if PG_VERSION_NUM >= 190000
	bool		regular = session->backendType == B_BACKEND;
#elif PG_VERSION_NUM >= 180000
	bool		regular = session->isRegularBackend;
#else
	bool		regular = !session->isBackgroundWorker;
#endif

	return regular && session->databaseId != InvalidOid &&
		!(session->statusFlags & (PROC_IS_AUTOVACUUM | PROC_IN_VACUUM));
}

/* ----------------------------------------------------------------
 *		Other behaviour: what VACUUM and ANALYZE do, by settings and options
 * ----------------------------------------------------------------
 */

extern bool pv_may_truncate(Relation rel);
extern void pv_choose_eager_failure_rate(VacuumParams *params, Relation rel);
extern void pv_set_log_min_duration(VacuumParams *params, int vacuum,
									int analyze);
extern int	pv_own_log_min_duration(const AutoVacOpts *own, bool analyze);
extern int	pv_vacuum_max_threshold(const AutoVacOpts *options);

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

#endif							/* PV_COMPAT_H */
