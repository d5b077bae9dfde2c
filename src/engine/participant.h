/*-------------------------------------------------------------------------
 *
 * participant.h
 *	  What the participants of one vacuum share, what each has for itself,
 *	  and the pool of their processes.
 *
 * PvShared is the vacuum.  It is in dynamic shared memory if there are
 * workers, and otherwise in the leader's memory.  PvParticipant is one
 * process's view of it, the same for leader and workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PARTICIPANT_H
#define PV_PARTICIPANT_H

#include "access/genam.h"
#include "access/parallel.h"
#include "executor/instrument.h"
#include "storage/barrier.h"
#include "storage/condition_variable.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"
#include "storage/spin.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/ring.h"
#include "engine/dispense.h"
#include "stats/kept.h"
#include "stats/registry.h"
#include "store/deadtids.h"
#include "throttle/cost.h"

/* Which processes can work on an index in a phase */
typedef enum PvUnitKind
{
	PV_UNIT_LEADER_ONLY,		/* the leader */
	PV_UNIT_SINGLE,				/* one process, leader or worker */
	PV_UNIT_SHARED,				/* any number of processes */
	PV_UNIT_LATER				/* none; the leader does it afterwards */
} PvUnitKind;

typedef struct PvUnitState
{
	PvUnitKind	kind;
	bool		begun;			/* by any process, finished or not */
	uint64		pages;			/* to be visited; if a shared index has been
								 * begun, its unclaimed pages */
} PvUnitState;

/* There is nothing to take */
#define PV_ORDER_NONE			(-1)

/* Position of a participant, for the context line of an error */
typedef struct PvErrorInfo
{
	PvPhase		phase;
	char	   *dbname;
	char	   *relnamespace;
	char	   *relname;
	const char *indname;		/* in the index phases */
	BlockNumber blkno;
	OffsetNumber offnum;
} PvErrorInfo;

/* Counters of one participant; the leader adds them up between phases */
typedef struct PvCounters
{
	PV_FIGURES(PV_FIGURE_MEMBER, PV_NO_FIGURE, PV_NO_FIGURE)

	/*
	 * Blocks that the first heap pass has visited or skipped: how many, and
	 * the sum of their numbers
	 */
	uint64		covered;
	uint64		covered_sum;
	BlockNumber nonempty_pages; /* last page with tuples, plus one */
	PvSample	sample;			/* for pages that are skipped, though not by
								 * core */

	/*
	 * Oldest XID and MXID that remain in the pages that this participant
	 * scanned
	 */
	TransactionId NewRelfrozenXid;
	MultiXactId NewRelminMxid;
	bool		skippedallvis;
} PvCounters;

/*
 * A participant's place in shared memory.  Only its owner writes it, before
 * arriving at a barrier.  Only the leader reads it, after that barrier.
 */
typedef struct PvSlot
{
	PvCounters	counters;
	BlockNumber unvisited;		/* first claimed block that is not yet
								 * scanned; the size of the table if there is
								 * none */
	BufferUsage buffer_usage;
	WalUsage	wal_usage;
} PvSlot;

/* Counters of participants that vacuum a B-tree together */
typedef struct PvBtreeCounts
{
	double		tuples_removed;
	double		num_index_tuples;
	BlockNumber pages_deleted;	/* deleted pages found, recyclable or not */
	BlockNumber pages_free;
} PvBtreeCounts;

/* A B-tree that several participants vacuum together; see engine/nbtree.c */
typedef struct PvBtreeShared
{
	/* Set by the leader between phases */
	uint16		cycleid;		/* 0 in an index cleanup */
	BlockNumber nbits;			/* size of each of its bitmaps, in bits */
	PvLoan		bitmaps;		/* their memory, of the store */

	/* Atomics */
	PvDispenseShared pages;
	pg_atomic_uint32 use_count; /* participants in this index */
	pg_atomic_uint32 pages_done;	/* for progress reporting */

	/* Sums over the participants that have left, under the mutex */
	slock_t		mutex;
	PvBtreeCounts counts;
} PvBtreeShared;

/* How one process finished a B-tree that several had vacuumed together */
typedef struct PvBtreeTail
{
	bool		finished;		/* otherwise the rest is not valid */
	int64		revisits;		/* pages visited again after splits */
	int64		alone_usecs;
} PvBtreeTail;

/* What was done to one index, in all phases so far */
typedef struct PvIndexResult
{
	bool		istat_valid;
	IndexBulkDeleteResult istat;
	int64		usecs;			/* time that it took */
	PvBtreeTail tail;			/* if several participants vacuumed it */
} PvIndexResult;

/* One index of the table, as a unit of work */
typedef struct PvIndexUnit
{
	/* Set by the leader between phases */
	PvUnitKind	kind;			/* which processes can work on it in this
								 * phase */
	BlockNumber pages;			/* estimated number of pages to visit */

	pg_atomic_flag begun;

	/*
	 * When it was begun in this phase, in microseconds of a clock that all
	 * processes share; 0: not yet
	 */
	pg_atomic_uint64 began_at;

	/*
	 * Entries for which one process has called back in this phase; not
	 * counted where several processes work on the unit
	 */
	pg_atomic_uint64 entries_seen;

	/* Written by the participant that completes the unit */
	bool		done;
	PvIndexResult result;

	PvBtreeShared btree;
} PvIndexUnit;

/*
 * What the leader decides before the workers are launched.  Only what may be
 * skipped can change afterwards, before the heap scan.  It has no atomics and
 * no locks, so it can be copied.
 */
typedef struct PvVacuumPlan
{
	Oid			relid;
	PvCutoffs	cutoffs;
	bool		aggressive;
	bool		automatic;		/* autovacuum or the scheduler runs it */
	PvSkipping	skipping;
	PvEagerPlan eager;
	BlockNumber rel_pages;
	int			nindexes;
	int			nslots;			/* leader and planned workers */
	Size		store_limit;	/* bytes that the store may use */
	Size		store_reserve;	/* of these, reserved for it at once */
	Size		bitmap_bytes;	/* kept free beside the store, for the bitmaps
								 * of all B-trees */
	int			maintenance_work_mem_worker;	/* kilobytes */
	int			ring_kb;		/* kilobytes, for each participant; 0: none */
	Oid			locked_too;		/* a table that is not unlocked before the
								 * end; invalid: none */
	bool		must_progress;	/* it ends early in an index scan only when an
								 * index is done */
	int64		max_dead_items; /* for tests: dead items after which an index
								 * scan begins */
} PvVacuumPlan;

/*
 * A vacuum in progress.  The plan and what identifies the leader are set before
 * launch.
 */
typedef struct PvShared
{
	PvVacuumPlan plan;
	PvIdentity	leader_identity;
	int			leader_pid;

	/* Written by the leader between phases, read by all within them */
	PvPhase		phase;
	TimestampTz deadline;		/* when it ends early; 0: never */
	TimestampTz yields_from;	/* from when on it ends early for a session
								 * that waits for the table; 0: never */
	uint32		indexes_before; /* that were done before this phase */
	PvKeptRef	kept;			/* what is kept of the items in the store */
	bool		keeps_indexes;	/* all that is kept is in the store, so an
								 * index that is done is done for good */
	bool		collect_dead_items; /* the heap scan fills the store */
	int			index_scans;	/* complete; 0 again after those of an earlier
								 * vacuum */
	double		reltuples;		/* for index access methods */
	bool		estimated_count;

	Barrier		barrier;

	/*
	 * Atomic number of workers that are in the middle of the phase, and the
	 * condition variable by which the last of them wakes the leader
	 */
	pg_atomic_uint32 nbusy;
	ConditionVariable idle;

	/* Atomics */
	pg_atomic_uint32 leader_gave_up;	/* see base/process.c */
	pg_atomic_uint32 failsafe;	/* the wraparound failsafe has triggered */
	pg_atomic_uint32 early_end; /* PvEarlyEnd */
	pg_atomic_uint32 nstopped;	/* participants that have stopped their heap
								 * scan before its end */
	pg_atomic_uint64 blocks_passed; /* progress of the heap scan */
	pg_atomic_uint64 blocks_vacuumed;	/* progress of the second heap pass */
	pg_atomic_uint64 blocks_read;	/* of those passed */
	pg_atomic_uint64 dead_pages;	/* of those read, that have dead items */
	pg_atomic_uint64 slept_usecs;	/* because of the cost limit */
	pg_atomic_uint32 indexes_done;	/* in this phase */
	pg_atomic_uint32 eager_successes_left;	/* budget of eager scanning, for
											 * the whole table */

	PvCostShared cost;
	PvDispenseShared scan;		/* of heap blocks */
	PvDispenseShared vacuum_heap;	/* of segments of the store */
} PvShared;

/* What a participant has added to the sums in PvShared already */
typedef struct PvReported
{
	BlockNumber blocks_read;
	BlockNumber dead_pages;
	int64		slept_usecs;	/* with what was slept before the vacuum */
} PvReported;

typedef struct PvParticipant
{
	PvShared   *shared;
	PvSlot	   *slot;			/* its own; the leader's is the first of all */
	PvIndexUnit *units;			/* in the order of indrels */
	bool		is_leader;

	Relation	rel;
	int			nindexes;
	Relation   *indrels;
	PvRing		ring;
	GlobalVisState *vistest;
	PvDeadTids *store;			/* NULL if the table has no indexes */
	PvEager		eager;
	PvBlockScan *blockscan;
	PvCounters	counters;
	PvErrorInfo errinfo;
	PvTrackedPart part;			/* for parvacuum_progress */
	PvReported	reported;
	TimestampTz looked_at;		/* the last look for waiting sessions ... */
	TimestampTz waiting_since;	/* ... and since when there have been any */
	uint32		nreloads_checked;	/* number of reloads known at the last
									 * failsafe check */
	int			blocks_unpaced; /* blocks since the last call of
								 * XLogSetAsyncXactLSN() */
	XLogRecPtr	paced_upto;		/* the position given in that call */

	/*
	 * Leader: results of access methods that return more than the common
	 * struct, or NULL; indexed like indrels
	 */
	IndexBulkDeleteResult **private_istats;

	/*
	 * Leader: pages of each index when the vacuum began, which of them are
	 * done, what follows from the pages, and the indexes in order of size,
	 * the largest first
	 */
	BlockNumber *index_pages;
	bool	   *index_is_done;	/* for what an earlier vacuum has kept; NULL:
								 * no such index */
	Size		bitmap_bytes;	/* that the bitmaps of their B-trees need */
	int		   *units_by_size;

	/* Leader: error context outside of this vacuum, for workers' messages */
	ErrorContextCallback *outer_context;

	/*
	 * Leader: called from time to time while it works or waits; NULL in
	 * workers.  tick() may report and raise errors, so no page may be locked.
	 * show() only shows the progress, which takes no locks but spinlocks.
	 */
	void		(*tick) (struct PvParticipant *self);
	void		(*show) (struct PvParticipant *self);
	void	   *tick_arg;
} PvParticipant;

/*
 * Has the wraparound failsafe triggered, in this process or another
 * participant?
 */
static inline bool
pv_failsafe_triggered(const PvParticipant *self)
{
	return unlikely(pg_atomic_read_u32(&self->shared->failsafe) != 0);
}

/*
 * Does the vacuum end early?  The failsafe comes first.  Once a participant has
 * seen this, it stays so until the end of the phase.
 */
static inline bool
pv_ends_early(const PvParticipant *self)
{
	uint32		end = pg_atomic_read_u32(&self->shared->early_end);

	return unlikely(end != PV_END_NONE) && !pv_failsafe_triggered(self);
}

/* engine/early_end.c */
extern void pv_look_for_early_end(PvParticipant *self);
extern void pv_forbid_early_end(PvShared *shared);

/* engine/phases.c */
extern void pv_errorinfo_init(PvErrorInfo *info, Relation rel);
extern void pv_error_callback(void *arg);
extern void pv_show(PvParticipant *self);
extern void pv_tick(PvParticipant *self);

extern void pv_counters_init(PvCounters *counters, const PvCutoffs *cutoffs);
extern void pv_counters_add(PvCounters *sum, const PvCounters *part);
extern bool pv_check_failsafe(PvParticipant *self);
extern void pv_participant_init(PvParticipant *self);
extern void pv_participate(PvParticipant *self, PvPhase phase);
extern PGDLLEXPORT void parvacuum_worker_main(dsm_segment *seg, shm_toc *toc);

/* engine/heap_scan.c, engine/heap_vacuum.c: the heap passes */
extern void pv_scan_heap(PvParticipant *self);
extern void pv_vacuum_heap(PvParticipant *self);

/* engine/index_order.c: the order in which participants take indexes */
extern int	pv_order_next(const PvUnitState *units, int nunits,
						  bool is_leader);

/* engine/index_vacuum.c: the indexes shared out among participants */
extern Size pv_index_plan(PvParticipant *leader);
extern void pv_index_plan_together(PvParticipant *leader);
extern void pv_index_prepare(PvParticipant *leader, PvPhase phase);
extern void pv_index_end(PvParticipant *leader);
extern bool pv_index_all_done(const PvParticipant *leader);
extern void pv_index_progress(PvParticipant *leader);
extern void pv_index_work(PvParticipant *self, PvPhase phase);
extern void pv_index_clean_up_later(PvParticipant *leader);

/* engine/index_am.c: what parallel mode allows; one index, by its method */
extern bool pv_index_allows_workers(const PvParticipant *leader,
									bool automatic, const char **because_of);
extern bool pv_index_cleanup_must_wait(Relation indrel);
extern void pv_index_process(PvParticipant *self, int i, PvPhase phase,
							 IndexVacuumInfo *ivinfo);

/* engine/index_work.c: what there is to do, whatever is dead */
extern bool pv_indexes_have_work(Relation rel);
extern void pv_index_empty_pending_lists(Relation rel);

/* The processes that vacuum one table together (pool.c) */

/* The leader's handle */
typedef struct PvPool
{
	PvParticipant *leader;
	ParallelContext *pcxt;		/* NULL: there are no workers */
	int			nworkers_planned;
	int			nworkers_launched;
	bool		launched;
	bool		attach_checked;
} PvPool;

/*
 * engine/reserve.c: what the vacuums of the cluster share, the workers of
 * parvacuum.max_workers and core's entries for B-trees that are being
 * vacuumed.
 */
extern Size pv_reserve_shmem_size(void);
extern void pv_reserve_shmem_startup(LWLock *its_lock);
extern int	pv_reserve_workers(int wanted);
extern void pv_release_workers(int n);
extern bool pv_reserve_btree(void);
extern void pv_release_btrees(void);

extern void pv_pool_create(PvPool *pool, PvParticipant *leader,
						   const PvVacuumPlan *plan);
extern void pv_pool_launch(PvPool *pool);
extern void pv_pool_run_phase(PvPool *pool, PvPhase phase);
extern void pv_pool_check_attached(PvPool *pool);
extern void pv_pool_end(PvPool *pool);

extern void pv_pool_attach(PvParticipant *self, dsm_segment *seg,
						   shm_toc *toc);
extern void pv_pool_work_until_done(PvParticipant *self);

#endif							/* PV_PARTICIPANT_H */
