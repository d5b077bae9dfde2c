/*-------------------------------------------------------------------------
 *
 * run_segment.h
 *	  What the caller of a run and its background leader share.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_SEGMENT_H
#define PV_RUN_SEGMENT_H

#include "executor/instrument.h"

#include "entry/request.h"
#include "entry/runs.h"
#include "stats/history_run.h"

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
	PvRunPlace	place;
	PvRequest	request;
} PvRunShared;

/* The background leader; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_leader_main(Datum main_arg);

#endif							/* PV_RUN_SEGMENT_H */
