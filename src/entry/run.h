/*-------------------------------------------------------------------------
 *
 * run.h
 *	  A vacuum in a process of its own: the caller, its background leader, and
 *	  what they share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_H
#define PV_RUN_H

#include "executor/instrument.h"
#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/shm_mq.h"

#include "stats/history.h"

/* A table, which stands for its partitions too, and what is to be executed */
typedef struct PvRequest
{
	Oid			relid;
	bool		skip_locked;
	const char *command;		/* VACUUM of that table, with its options */
	bool		truncate_is_open;	/* they do not decide on truncation */
	TimestampTz deadline;		/* when the run ends early; 0: never */
} PvRequest;

/* What pg_stat_activity shows as backend_type. */
#define PV_LEADER_TYPE			"parvacuum background leader"

/* The segment's table of contents. */
#define PV_RUN_MAGIC			0x70767231
#define PV_KEY_SHARED			1	/* PvRunShared */
#define PV_KEY_GUC				2	/* the caller's settings */
#define PV_KEY_LIBRARIES		3	/* the libraries that may define them */
#define PV_KEY_QUEUE			4	/* shm_mq, from the leader to the caller */
#define PV_NUM_KEYS				4

/* What the queue carries beside the protocol's own 'E' and 'N'. */
#define PV_MSG_RESULT			'r' /* PvRunEntry: a relation is done */
#define PV_MSG_DONE				'd' /* PvUsage: the run is complete */

/* Blocks and WAL that the leader and its workers used. */
typedef struct PvUsage
{
	BufferUsage buffers;
	WalUsage	wal;
} PvUsage;

/* Set before the leader starts, and then read-only but for the reason */
typedef struct PvRunShared
{
	int			caller_pid;
	Oid			database_id;
	Oid			session_user_id;
	bool		session_user_is_superuser;
	Oid			role_id;		/* of SET ROLE, or invalid */
	bool		role_is_superuser;
	uint64		query_id;
	Oid			relid;
	bool		skip_locked;
	bool		truncate_is_open;
	TimestampTz deadline;
	PvHistoryReason reason;		/* why the caller ends the run early */
	char		command[FLEXIBLE_ARRAY_MEMBER];
} PvRunShared;

/* The background leader; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_leader_main(Datum main_arg);

/* The caller's side of one run. */
typedef struct PvCall
{
	int			number;			/* of the run in this session */
	bool		waits;			/* the caller does nothing else meanwhile */
	bool		is_counted;		/* among the runs of the cluster */
	char	   *relname;		/* qualified, for messages */
	MemoryContext context;		/* has all of this */
	dlist_node	node;			/* among the runs of the session */
	dsm_segment *segment;
	PvRunShared *shared;		/* in the segment */
	BackgroundWorkerHandle *handle; /* NULL before the start and after the end */
	shm_mq_handle *queue;
	TimestampTz looked_at;		/* the last look for a deadlock */
	int			pin_waits;		/* consecutive sightings of a wait for a pin */
	bool		done;
	bool		leader_failed;	/* the error that ends the run is its own */
	PvUsage		usage;			/* valid when done */
	List	   *entries;		/* PvRunEntry * */
} PvCall;

/* Runs have numbers; no run has this one. */
#define PV_ANY_RUN				0

extern PvCall *pv_call_begin(const PvRequest *request, bool waits);
extern PvCall *pv_call_find(int number);
extern bool pv_call_look(PvCall *call);
extern void pv_call_end(PvCall *call, const ErrorData *reason);
extern PvCall *pv_call_and_wait(const PvRequest *request);

#endif							/* PV_RUN_H */
