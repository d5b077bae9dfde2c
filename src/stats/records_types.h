/*-------------------------------------------------------------------------
 *
 * records_types.h
 *	  What is recorded of vacuums, tables and indexes.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RECORDS_TYPES_H
#define PV_RECORDS_TYPES_H

#include "datatype/timestamp.h"

#include "stats/lru.h"
#include "stats/result.h"

/* Bytes of a text in a record, with the terminating zero; more is cut off */
#define PV_RECORD_TEXT			256

/* Most indexes of one vacuum that have a record */
#define PV_RECORD_MAX_INDEXES	32

/* Records of indexes that there is room for, for each vacuum or table */
#define PV_RECORDS_PER_RUN		4
#define PV_TOTALS_PER_TABLE		3

/* How a vacuum ended */
typedef enum PvRunOutcome
{
	PV_OUTCOME_DONE = 0,
	PV_OUTCOME_CANCELED,
	PV_OUTCOME_ERROR,
	PV_OUTCOME_TERMINATED		/* its process ended within it */
} PvRunOutcome;

/*
 * What the scheduler remembers of the last sweep of a table, to know when the
 * next one is due (sched/policy.c)
 */
typedef struct PvSweepMark
{
	double		versions;		/* row versions that had left dead entries, by
								 * the cumulative statistics */
	bool		splits;			/* the B-trees had grown */
} PvSweepMark;

/* The vacuum of one relation, or a sweep of its B-trees */
typedef struct PvHistoryRun
{
	uint64		id;				/* 1, 2, ..., for the whole cluster */
	Oid			datid;
	Oid			relid;
	Oid			userid;			/* invalid: nobody asked for it */
	int			pid;
	int			encoding;		/* of the names and texts */
	NameData	datname;		/* names as they were */
	NameData	schemaname;
	NameData	relname;
	PvStartedBy started_by;
	PvWork		action;
	PvRunOutcome outcome;
	bool		wraparound;
	int			nindexes;		/* of these, the first PV_RECORD_MAX_INDEXES
								 * have records */
	TimestampTz start_time;
	TimestampTz end_time;
	int			sqlerrcode;		/* 0: none is known */
	char		error[PV_RECORD_TEXT];
	NameData	blocker_kind;	/* what held back the horizon; empty: unknown */
	char		blocker[PV_RECORD_TEXT];
	int			holder_kind;	/* the same as PvBlockerKind */
	uint64		holder_key;		/* and pv_blocker_key() */
	PvSweepMark mark;			/* of a sweep */
	PvResult	result;
} PvHistoryRun;

/* The dead rows that the last vacuum of a table had to keep */
typedef struct PvKeptRows
{
	Oid			datid;
	Oid			relid;
	uint64		run;			/* PvHistoryRun.id */
	TimestampTz start_time;
	int			holder_kind;	/* because of what, as in PvHistoryRun */
	uint64		holder_key;
	int64		tuples;
} PvKeptRows;

/* What a vacuum or a sweep did to one index */
typedef struct PvHistoryIndex
{
	uint64		run;			/* PvHistoryRun.id */
	Oid			datid;
	Oid			relid;			/* the table */
	Oid			indexrelid;
	int			encoding;		/* of the name */
	NameData	indexrelname;
	PvWork		action;
	int64		entries_removed;
	BlockNumber pages_total;
	BlockNumber pages_newly_deleted;	/* these are not known of a sweep */
	BlockNumber pages_deleted;
	BlockNumber pages_free;
	int64		usecs;
} PvHistoryIndex;

/* Sums over the vacuums of one table, and what is known of its sweeps */
typedef struct PvTableTotals
{
	PvLruKey	key;
	int64		runs;			/* all of them */
	int64		by_core;		/* of these, those by core's code */
	int64		canceled;		/* by cancel or termination */
	int64		errors;
	int64		tuples_removed;
	int64		dead_items;
	int64		pages_scanned;
	int64		pages_removed;
	int64		index_scans;
	int64		elapsed_usecs;
	int64		wal_records;
	int64		wal_fpi;
	uint64		wal_bytes;
	int64		buffers_hit;
	int64		buffers_read;
	int64		buffers_dirtied;
	TimestampTz last_run;		/* ends */
	TimestampTz last_done;		/* 0: never */
	int64		sweeps;			/* completed */
	TimestampTz last_sweep;		/* 0: never */
	PvSweepMark mark;
} PvTableTotals;

/* Sums over the vacuums and sweeps of one index */
typedef struct PvIndexTotals
{
	PvLruKey	key;
	Oid			relid;			/* the table */
	int64		runs;			/* vacuums */
	int64		sweeps;
	int64		entries_removed;
	int64		pages_newly_deleted;
	int64		usecs;
	BlockNumber pages_total;	/* at the last vacuum or sweep */
	BlockNumber pages_free;		/* at the last vacuum */
	TimestampTz last_run;
} PvIndexTotals;

/*
 * All of it.  The arrays follow this header in memory, which has no pointers.
 *
 * Vacuums and indexes are numbered through.  A record with number n has the
 * place (n - 1) modulo the size of its ring, so it replaces the oldest one.
 */
typedef struct PvRecords
{
	/* do not change; 0: there are none of the kind */
	int			max_runs;
	int			max_indexes;
	int			max_tables;
	int			max_index_totals;

	uint64		nruns;			/* recorded so far, also the newest number */
	uint64		first_run;		/* since the last reset */
	uint64		nindexes;
	uint64		first_index;
	PvTableTotals all;			/* of all tables, also those without totals;
								 * since the last reset */
	TimestampTz history_reset;
	TimestampTz stats_reset;
} PvRecords;

#endif							/* PV_RECORDS_TYPES_H */
