/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  What the processes that vacuum are doing, for others to see.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PROGRESS_H
#define PV_PROGRESS_H

#include "datatype/timestamp.h"

#include "stats/eta.h"

/* A vacuum, as its leader sees it */
typedef struct PvTrackedVacuum
{
	Oid			relid;
	PvStartedBy started_by;
	TimestampTz started_at;
	TimestampTz as_of;			/* when the rest was true */
	bool		aggressive;
	bool		failsafe;
	int			workers;		/* launched */
	int			nindexes;		/* in this phase; 0: it is about the heap */
	int			indexes_done;
	int64		store_bytes;
	int64		store_limit;
	int64		store_items;
	int64		slept_usecs;	/* by all, also workers that have ended */
	PvEtaInput	eta;
	PvEtaPast	past;			/* of the last vacuum of the table */
} PvTrackedVacuum;

/* A participant's part of a vacuum */
typedef struct PvTrackedPart
{
	int			leader_pid;
	int			participant;	/* 0 is the leader */
	PvPhase		phase;
	int64		heap_blks_scanned;	/* by this process, read or skipped */
	int64		heap_blks_vacuumed;
	int64		index_blks_visited; /* of B-trees that several processes
									 * vacuum, in this phase */
	Oid			indexrelid;		/* the index at hand, or invalid */
	BlockNumber range_start;	/* the claimed blocks of table or index, ... */
	BlockNumber range_end;		/* ... or invalid */
	int64		slept_usecs;	/* for cost limits, in this vacuum */
} PvTrackedPart;

/* What a session gets to see of one process */
typedef struct PvTracked
{
	int			pid;
	bool		leads;			/* vacuum is valid */
	PvTrackedVacuum vacuum;
	bool		takes_part;		/* part is valid */
	PvTrackedPart part;
} PvTracked;

extern Size pv_track_shmem_size(void);
extern void pv_track_shmem_startup(void);

/* The process that vacuums */
extern void pv_track_vacuum(const PvTrackedVacuum *vacuum);
extern void pv_track_part(const PvTrackedPart *part);
extern void pv_track_end(void);

/* Any session */
extern int	pv_track_read(PvTracked **tracked);

#endif							/* PV_PROGRESS_H */
