/*-------------------------------------------------------------------------
 *
 * run.h
 *	  A vacuum in a process of its own: the caller, its background leader, and
 *	  what they share.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_H
#define PV_RUN_H

#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "nodes/pg_list.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/shm_mq.h"

#include "stats/history.h"

/* A table, which stands for its partitions too, and VACUUM's options. */
typedef struct PvRequest
{
	Oid			relid;
	VacuumParams params;
} PvRequest;

/* What pg_stat_activity shows as backend_type. */
#define PV_LEADER_TYPE			"parvacuum background leader"

/* The segment's table of contents. */
#define PV_RUN_MAGIC			0x70767231
#define PV_KEY_SHARED			1	/* PvRunShared */
#define PV_KEY_GUC				2	/* the caller's settings */
#define PV_KEY_LIBRARIES		3	/* the libraries that may define them */
#define PV_KEY_TEXT				4	/* the VACUUM command */
#define PV_KEY_QUEUE			5	/* shm_mq, from the leader to the caller */
#define PV_KEY_REASON			6	/* PvHistoryReason: why the caller ends it */
#define PV_NUM_KEYS				6

/* What the queue carries beside the protocol's own 'E' and 'N'. */
#define PV_MSG_BEGIN			'b' /* Oid: a relation is begun */
#define PV_MSG_RESULT			'r' /* PvRunEntry: and done */
#define PV_MSG_DONE				'd' /* PvUsage: the run is complete */

/* Blocks and WAL that the leader and its workers used. */
typedef struct PvUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} PvUsage;

/* Set before the leader starts, then read-only. */
typedef struct PvRunShared
{
	int			caller_pid;
	Oid			database_id;
	Oid			session_user_id;
	bool		session_user_is_superuser;
	Oid			role_id;		/* of SET ROLE, or invalid */
	bool		role_is_superuser;
	uint64		query_id;
	PvRequest	request;
} PvRunShared;

/* The background leader; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_leader_main(Datum main_arg);

/* The caller's side of one run. */
typedef struct PvCall
{
	const PvRequest *request;
	char	   *relname;		/* qualified, for messages */
	char	   *command;		/* the VACUUM that does the same */
	bool		is_shown;		/* by pg_stat_activity, as a VACUUM */
	bool		waits;			/* does nothing else meanwhile */
	bool		is_counted;		/* among the runs of the cluster */
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

/* Does the leader wait for its caller?  (run_deadlock.c) */
extern void pv_run_check_deadlock(int leader_pid, const char *relname,
								  Oid current, int *pin_waits);

/* Vacuums in another process; a list of PvRunEntry *. */
extern List *pv_run_in_background(const PvRequest *request);

/* Runs that the caller does not wait for (run_begin.c) */
typedef struct PvBegun PvBegun;

/* Runs have numbers; no run has this one. */
#define PV_ANY_RUN				0

extern int	pv_run_begin(const PvRequest *request);
extern PvBegun *pv_run_find(int number);
extern bool pv_run_look(PvBegun *run);
extern List *pv_run_entries(const PvBegun *run);
extern void pv_run_end(PvBegun *run, const ErrorData *reason);

#endif							/* PV_RUN_H */
