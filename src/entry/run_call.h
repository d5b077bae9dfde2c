/*-------------------------------------------------------------------------
 *
 * run_call.h
 *	  A vacuum in a process of its own: what the caller has of one run.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_CALL_H
#define PV_RUN_CALL_H

#include "nodes/pg_list.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/shm_mq.h"

#include "entry/request.h"
#include "entry/run_segment.h"
#include "entry/runs.h"

/* The caller's side of one run. */
typedef struct PvCall
{
	const PvRequest *request;
	char	   *relname;		/* qualified, for messages */
	char	   *command;		/* the VACUUM that does the same */
	bool		is_shown;		/* by pg_stat_activity, as a VACUUM */
	bool		waits;			/* does nothing else meanwhile */
	PvRunPlace	place;
	dsm_segment *segment;
	BackgroundWorkerHandle *handle; /* NULL before the start and after the end */
	shm_mq_handle *queue;		/* NULL when detached */
	PvHistoryReason *reason;	/* why the run ends early, in the segment */
	MemoryContext message_context;	/* for one message of the leader */
	ErrorContextCallback *outer_context;
	Oid			current;		/* the relation that is being vacuumed */
	int			pin_waits;		/* see pv_run_check_deadlock() */
	bool		done;
	bool		leader_failed;	/* the error that ends the run is its own */
	PvUsage		usage;			/* valid when done */
	List	   *entries;		/* PvRunEntry * */
} PvCall;

extern PvCall *pv_call_make(const PvRequest *request);
extern void pv_call_start(PvCall *call);
extern bool pv_call_look(PvCall *call);
extern void pv_call_check_deadlock(PvCall *call);
extern void pv_call_stop(PvCall *call);

#endif							/* PV_RUN_CALL_H */
