/*-------------------------------------------------------------------------
 *
 * participant.h
 *	  What the participants of one vacuum share, and what each has for itself.
 *
 * PvShared is the vacuum: in dynamic shared memory if there are workers, in
 * the leader's memory otherwise.  PvParticipant is one process's view of it;
 * leader and workers have the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PARTICIPANT_H
#define PV_PARTICIPANT_H

#include "access/genam.h"
#include "executor/instrument.h"
#include "storage/barrier.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/ring.h"
#include "base/tidstore.h"
#include "engine/dispense.h"
#include "engine/index_order.h"
#include "engine/report.h"
#include "engine/result.h"
#include "store/deadtids.h"
#include "throttle/cost.h"

/* What a participant counts; the leader adds them up between phases. */
typedef struct PvCounters
{
	BlockNumber scanned_pages;
	BlockNumber eager_pages;	/* of them, read only to be frozen early */
	BlockNumber frozen_pages;
	BlockNumber new_visible_pages;	/* newly set in the map: all-visible, ... */
	BlockNumber new_visible_frozen_pages;	/* ... both bits at once, ... */
	BlockNumber new_frozen_pages;	/* ... and all-frozen after all-visible */
	BlockNumber lpdead_item_pages;
	BlockNumber missed_dead_pages;
	BlockNumber nonempty_pages; /* last page with tuples, plus one */
	int64		tuples_deleted;
	int64		tuples_frozen;
	int64		lpdead_items;
	int64		live_tuples;
	int64		recently_dead_tuples;
	int64		missed_dead_tuples;
	int64		vacuumed_pages;
	int64		vacuumed_items;
	PvSample	sample;			/* of pages that are skipped, but not by core */
	PvTidStoreUse tidstore;		/* what core would take for the dead items */

	/* Oldest XID and MXID left in what this participant scanned */
	TransactionId NewRelfrozenXid;
	MultiXactId NewRelminMxid;
	bool		skippedallvis;
} PvCounters;

/*
 * A participant's place in shared memory.  Only its owner writes it, before
 * it arrives at a barrier; only the leader reads it, after.
 */
typedef struct PvSlot
{
	PvCounters	counters;
	BlockNumber unvisited;		/* first block of ours that is not yet scanned */
	BufferUsage buffer_usage;
	WalUsage	wal_usage;
} PvSlot;

/* What participants count in a B-tree that they share */
typedef struct PvBtreeCounts
{
	double		tuples_removed;
	double		num_index_tuples;
	BlockNumber pages_deleted;	/* found so, recyclable or not */
	BlockNumber pages_free;
} PvBtreeCounts;

/* A B-tree that several participants vacuum together; see engine/nbtree.c */
typedef struct PvBtreeShared
{
	/* Set by the leader before launch */
	BlockNumber nbits;			/* of each of its bitmaps */
	Size		first_word;		/* where the bitmaps begin */

	/* Set by the leader between phases */
	uint16		cycleid;		/* 0: none, in a cleanup */

	/* Atomics */
	PvDispenseShared pages;
	pg_atomic_uint32 use_count;		/* who takes part */
	pg_atomic_uint32 pages_done;	/* progress */

	/* Sums of those who have left, under the mutex */
	slock_t		mutex;
	PvBtreeCounts counts;

	/* Of all rounds, written by who was the last to leave */
	PvBtreeTail tail;
} PvBtreeShared;

/* One index of the table, as work to be taken */
typedef struct PvIndexUnit
{
	/* Set by the leader before launch */
	bool		is_btree;		/* that several can vacuum together */

	/* Set by the leader between phases */
	PvUnitKind	kind;			/* who can work on it in this phase */
	BlockNumber pages;			/* about as many are to be visited */

	pg_atomic_flag begun;
	pg_atomic_uint64 began_at;	/* in this phase, in microseconds of the clock
								 * that all processes have; 0: not yet */

	/* Written by the one who did it, or the last of it */
	bool		done;
	bool		istat_valid;
	IndexBulkDeleteResult istat;
	int64		usecs;			/* that it took, in all phases */

	PvBtreeShared btree;
} PvIndexUnit;

typedef struct PvShared
{
	/* Set before launch, then read-only */
	Oid			relid;
	PvCutoffs	cutoffs;
	bool		aggressive;
	bool		automatic;		/* nobody waits for it */
	PvSkipping	skipping;
	BlockNumber rel_pages;
	int			nindexes;
	int			nslots;			/* leader and planned workers */
	PvIdentity	leader_identity;
	Size		bitmap_words;	/* of the B-trees that are vacuumed together */
	int			maintenance_work_mem_worker;	/* kB */
	int			ring_kb;		/* of each participant; 0: none */
	int64		max_dead_items; /* a round has about as many, for tests */

	/* Written by the leader between phases, read by all within them */
	PvPhase		phase;
	bool		collect_dead_items; /* SCAN is to fill the store */
	int			index_scans;	/* completed or begun */
	double		reltuples;		/* for index access methods */
	bool		estimated_count;

	Barrier		barrier;

	/*
	 * How many workers are in the midst of the phase, an atomic, and what the
	 * last of them wakes the leader by
	 */
	pg_atomic_uint32 nbusy;
	ConditionVariable idle;

	/* Atomics */
	pg_atomic_uint32 leader_gave_up;	/* see base/process.c */
	pg_atomic_uint32 failsafe;	/* the wraparound failsafe has triggered */
	pg_atomic_uint32 nstopped;	/* participants whose scan the full store stopped */
	pg_atomic_uint64 blocks_passed; /* progress of SCAN */
	pg_atomic_uint64 blocks_vacuumed; /* progress of VACUUM HEAP */
	pg_atomic_uint32 indexes_done;	/* in this phase */

	PvCostShared cost;
	PvEagerShared eager;
	PvDispenseShared scan;		/* of heap blocks */
	PvDispenseShared vacuum_heap;		/* of segments */
} PvShared;

typedef struct PvParticipant
{
	PvShared   *shared;
	PvSlot	   *slot;
	PvIndexUnit *units;			/* in the order of indrels */
	pg_atomic_uint32 *bitmaps;	/* of B-trees */
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
	uint32		nreloads_checked;	/* reloads known when the failsafe was last looked for */
	int			blocks_unpaced; /* since the WAL writer was told of our WAL */
	XLogRecPtr	paced_upto;		/* the last of it that it was told of */

	/*
	 * Leader: results of access methods that keep more than the common struct,
	 * or NULL; indexed as indrels
	 */
	IndexBulkDeleteResult **private_istats;

	/* Leader: pages of each index when the vacuum began, and the largest first */
	BlockNumber *index_pages;
	int		   *units_by_size;

	/* Leader: error context outside of this vacuum, for workers' messages */
	ErrorContextCallback *outer_context;

	/* Leader: called now and then while it works or waits; NULL in workers */
	void		(*tick) (struct PvParticipant *self);
	void	   *tick_arg;
} PvParticipant;

/* Has the wraparound failsafe triggered, here or in a peer? */
static inline bool
pv_failsafe_triggered(PvParticipant *self)
{
	return unlikely(pg_atomic_read_u32(&self->shared->failsafe) != 0);
}

extern void pv_counters_init(PvCounters *counters, const PvCutoffs *cutoffs);
extern void pv_counters_add(PvCounters *sum, const PvCounters *part);
extern bool pv_check_failsafe(PvParticipant *self);

#endif							/* PV_PARTICIPANT_H */
