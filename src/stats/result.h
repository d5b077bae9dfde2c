/*-------------------------------------------------------------------------
 *
 * result.h
 *	  The phases of a vacuum, who started it, and its result.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RESULT_H
#define PV_RESULT_H

#include "storage/block.h"

/* What all participants are doing; only the leader changes it */
typedef enum PvPhase
{
	PV_PHASE_IDLE = 0,			/* between phases, or not yet begun */
	PV_PHASE_SCAN,				/* first heap pass */
	PV_PHASE_INDEX,				/* bulk deletion in indexes */
	PV_PHASE_VACUUM_HEAP,		/* second heap pass */
	PV_PHASE_CLEANUP,			/* index cleanup */
	PV_PHASE_TRUNCATE,			/* leader only */
	PV_PHASE_DONE				/* workers exit */
} PvPhase;

/* Number of elements of an array that is indexed by PvPhase */
#define PV_NUM_PHASES			(PV_PHASE_DONE + 1)

/* Whose process leads a vacuum */
typedef enum PvStartedBy
{
	PV_STARTED_BY_COMMAND = 0,	/* a session's VACUUM */
	PV_STARTED_BY_AUTOVACUUM,	/* a worker of core's autovacuum */
	PV_STARTED_BY_SCHEDULER,	/* a scheduler worker */
	PV_STARTED_BY_FUNCTION		/* a background leader */
} PvStartedBy;

/* What was done to a table */
typedef enum PvWork
{
	PV_WORK_VACUUM = 0,
	PV_WORK_SWEEP,				/* of its B-trees, by the scheduler */
	PV_WORK_ANALYZE				/* by the scheduler */
} PvWork;

/*
 * What one vacuum of one heap relation did.  pv_vacuum_rel() fills it in,
 * parvacuum_run() returns it as a row, and VERBOSE shows it as text.  Block
 * and tuple counts are plain numbers, times are microseconds, memory is bytes.
 * Of a sweep or an ANALYZE by the scheduler, only the usage is known.
 */
typedef struct PvResult
{
	Oid			relid;			/* the relation vacuumed */
	bool		by_engine;		/* false: vacuumed by core, only the usage is
								 * known */
	int			workers_planned;
	int			workers_launched;
	BlockNumber pages_total;	/* at the start */
	BlockNumber pages_scanned;
	BlockNumber pages_removed;	/* by truncation */
	int64		tuples_removed;
	int64		tuples_remaining;	/* live tuples */
	bool		remaining_estimated;	/* pages were skipped */
	int64		tuples_recently_dead;	/* still visible to some snapshot */
	int64		tuples_missed;	/* dead, on pages pinned by other processes */
	int64		dead_items;		/* LP_DEAD items collected */
	int			index_scans;
	int64		dead_tuple_bytes;	/* most memory that the store used */
	int64		usecs[PV_NUM_PHASES];
	int64		elapsed_usecs;
	int64		wal_records;
	int64		wal_fpi;
	uint64		wal_bytes;
	int64		buffers_hit;
	int64		buffers_read;
	int64		buffers_dirtied;
	TransactionId oldest_xmin;
	bool		relfrozenxid_advanced;
	bool		index_scan_bypassed;
} PvResult;

#endif							/* PV_RESULT_H */
