/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  The vacuums in progress: which process vacuums what, and how far it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_REGISTRY_H
#define PV_REGISTRY_H

#include "datatype/timestamp.h"
#include "storage/lwlock.h"

#include "stats/eta.h"

/* Whether a run of parvacuum_run() or CALL parvacuum() may begin */
typedef enum PvRunAnswer
{
	PV_RUN_GRANTED,
	PV_RUN_ALL_TAKEN,			/* all that parvacuum.max_runs allows */
	PV_RUN_SHARE_TAKEN			/* all of them that one role may have */
} PvRunAnswer;

/* What others see of a vacuum, or of a run with all its vacuums */
typedef struct PvVacuuming
{
	uint64		token;			/* identifies it; never used again */
	int			slot;
	int			pid;
	Oid			relid;			/* the table at hand; invalid: none */
	PvStartedBy started_by;
	int			caller_pid;		/* of a run; otherwise 0 */
	Oid			role;			/* that logged in to the process, or to the
								 * session that called for the run */
} PvVacuuming;

/* A vacuum, as its leader sees it */
typedef struct PvTrackedVacuum
{
	Oid			relid;
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

/* What a session gets to see of how far one process is */
typedef struct PvTracked
{
	int			pid;
	bool		leads;			/* vacuum is valid */
	PvTrackedVacuum vacuum;
	bool		takes_part;		/* part is valid */
	PvTrackedPart part;
} PvTracked;

extern Size pv_registry_shmem_size(void);
extern void pv_registry_shmem_startup(LWLock *its_lock);

/* The session that calls for a run */
extern PvRunAnswer pv_registry_begin_run(Oid role, bool is_superuser);
extern void pv_registry_end_run(void);
extern void pv_registry_count_refused(void);

/* Its background leader */
extern void pv_registry_lead_run(Oid role, int caller_pid, Oid database,
								 Oid named);

/* The process that vacuums */
extern void pv_registry_begin(Oid relid, Oid toast_parent,
							  PvStartedBy started_by);
extern void pv_registry_end(const char *relname);
extern void pv_registry_abandon(void);
extern void pv_track(const PvTrackedVacuum *vacuum,
					 const PvTrackedPart *part);
extern void pv_track_end(void);

/* Any session */
extern uint64 pv_registry_runs_refused(void);
extern int	pv_registry_find(Oid relid, PvVacuuming **found);
extern bool pv_registry_find_process(int pid, PvVacuuming *found);
extern bool pv_registry_cancel(const PvVacuuming *vacuum, Oid relid);
extern int	pv_track_read(PvTracked **tracked);

#endif							/* PV_REGISTRY_H */
