/*-------------------------------------------------------------------------
 *
 * records.h
 *	  The last vacuums and the totals of tables and indexes, as data.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RECORDS_H
#define PV_RECORDS_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"

#include "stats/eta.h"
#include "stats/result.h"

/* Records of relations, of which those used least recently give way (lru.c) */

typedef struct PvLruKey
{
	Oid			database;
	Oid			relid;
	uint64		number;			/* tells several of one relation apart */
} PvLruKey;

/* Who shares the places */
typedef struct PvLruGroup
{
	uint64		key;
	int			count;			/* of its records; 0: this one is free */
	dlist_head	records;		/* the most recently used first */
} PvLruGroup;

typedef struct PvLru
{
	int			capacity;		/* does not change */
	Size		node_size;		/* of a record and what precedes it */
	int			nused;
	int64		evictions;		/* records given up so far */
	char	   *nodes;
	dlist_head *buckets;		/* one for each place */
	PvLruGroup *groups;
} PvLru;

extern Size pv_lru_size(int capacity, Size record_size);
extern void pv_lru_init(PvLru *lru, int capacity, Size record_size,
						void *memory);
extern void pv_lru_clear(PvLru *lru);
extern void *pv_lru_find(const PvLru *lru, const PvLruKey *key);
extern void *pv_lru_touch(PvLru *lru, const PvLruKey *key, uint64 group,
						  bool *known);
extern bool pv_lru_has_room(const PvLru *lru, uint64 group);
extern void *pv_lru_next(const PvLru *lru, const void *record);

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
	PV_OUTCOME_CANCELED,		/* also by a session that waits for a lock */
	PV_OUTCOME_ERROR,
	PV_OUTCOME_TERMINATED,		/* its process ended within it */
	PV_OUTCOME_SKIPPED			/* not begun: another session had a lock */
} PvRunOutcome;

/* The kinds of records */
typedef enum PvRecordKind
{
	PV_RECORD_RUN,				/* PvHistoryRun */
	PV_RECORD_INDEX,			/* PvHistoryIndex */
	PV_RECORD_TABLE,			/* PvTableTotals */
	PV_RECORD_INDEX_TOTALS,		/* PvIndexTotals */
	PV_RECORD_KINDS
} PvRecordKind;

/* What each record begins with */
typedef struct PvRecordHead
{
	PvLruKey	key;			/* the number is that of the row of a run, and
								 * 0 for totals */
	Oid			table;			/* whose owner may see it */
	uint64		group;			/* whose places it uses */
} PvRecordHead;

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

/*
 * The vacuum of one relation, its ANALYZE, or a sweep of its B-trees.  Several
 * of one relation that ended in the same way and did nothing are one record,
 * with what is known of the last one.
 */
typedef struct PvHistoryRun
{
	PvRecordHead head;			/* of the relation */
	uint64		id;				/* 1, 2, ..., for the whole cluster */
	int64		runs;			/* so many; id and the rest are of the last */
	TimestampTz since;			/* the first of them began */
	Oid			owner;			/* of the table */
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
	int			lock_pid;		/* the session that this one gave way to, or
								 * that had the lock; 0: none is known */
	Oid			lock_role;		/* who logged in there; invalid: not known */
	char		lock_query[PV_RECORD_TEXT];
	NameData	blocker_kind;	/* what held back the horizon; empty: unknown */
	char		blocker[PV_RECORD_TEXT];
	int			holder_kind;	/* the same as PvBlockerKind */
	uint64		holder_key;		/* and pv_blocker_key() */
	PvSweepMark mark;			/* of a sweep */
	PvResult	result;
} PvHistoryRun;

/* What a vacuum or a sweep did to one index */
typedef struct PvHistoryIndex
{
	PvRecordHead head;			/* of the index */
	uint64		run;			/* PvHistoryRun.id */
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
	PvRecordHead head;
	int64		runs;			/* all of them */
	int64		by_core;		/* of these, those by core's code */
	int64		canceled;		/* by cancel or termination */
	int64		errors;
	int64		sums[PV_NUM_SUMS];	/* of figures, in the order of the list */
	TimestampTz last_run;		/* ends */
	TimestampTz last_done;		/* 0: never */
	int64		failed;			/* runs since then that were not completed,
								 * also those that were skipped */
	PvRunOutcome last_outcome;
	int64		kept;			/* dead rows that the last one by the engine
								 * that was completed has kept, ... */
	TimestampTz kept_start;		/* ... when it began, ... */
	int			holder_kind;	/* ... and because of what, as in PvHistoryRun */
	uint64		holder_key;
	int64		sweeps;			/* completed */
	TimestampTz last_sweep;		/* 0: never */
	PvSweepMark mark;
} PvTableTotals;

/* Sums over the vacuums and sweeps of one index */
typedef struct PvIndexTotals
{
	PvRecordHead head;
	int64		runs;			/* vacuums */
	int64		sweeps;
	int64		entries_removed;
	int64		pages_newly_deleted;
	int64		usecs;
	BlockNumber pages_total;	/* at the last vacuum or sweep */
	BlockNumber pages_free;		/* at the last vacuum */
	TimestampTz last_run;
} PvIndexTotals;

/* The next transaction ID at some moment, with its epoch */
typedef struct PvXidSample
{
	TimestampTz at;
	uint64		next_xid;
} PvXidSample;

/* So many of them are kept, taken so many milliseconds apart: of one day */
#define PV_XID_SAMPLES			144
#define PV_XID_SAMPLE_MS		(10 * 60 * 1000)

/* The records.  The memory of their tables follows. */
typedef struct PvRecords
{
	PvLru		of[PV_RECORD_KINDS];	/* capacity 0: there are none */
	uint64		nruns;			/* recorded so far, also the newest number */
	PvTableTotals all;			/* of all tables, also those without totals;
								 * since the last reset */
	TimestampTz history_reset;
	TimestampTz stats_reset;
	TimestampTz written;		/* to the file, since the server started */
	uint64		nsamples;		/* taken so far; number n is at n modulo the
								 * size */
	PvXidSample samples[PV_XID_SAMPLES];
} PvRecords;

/* Bytes of a record of each kind */
extern const uint32 pv_record_size[PV_RECORD_KINDS];

extern Size pv_records_size(int history_size, int stats_size);
extern void pv_records_init(PvRecords *records, int history_size,
							int stats_size, TimestampTz now);
extern void pv_records_add(PvRecords *records, PvHistoryRun *run,
						   PvHistoryIndex *indexes, int nindexes);
extern void pv_records_reset_history(PvRecords *records, TimestampTz now);
extern void pv_records_reset_stats(PvRecords *records, TimestampTz now);

extern int	pv_records_copy(const PvRecords *records, PvRecordKind kind,
							void *to);
extern void pv_records_past(const PvRecords *records, Oid datid, Oid relid,
							bool automatic, PvEtaPast *past);
extern bool pv_records_failures(const PvRecords *records, Oid datid, Oid relid,
								PvTableTotals *totals, PvHistoryRun *last);
extern bool pv_records_sweep_mark(const PvRecords *records, Oid datid,
								  Oid relid, Oid owner, PvSweepMark *mark);
extern BlockNumber pv_records_index_pages(const PvRecords *records, Oid datid,
										  Oid indexrelid);

extern Size pv_records_image_room(const PvRecords *records);
extern Size pv_records_write_image(const PvRecords *records, uint64 cluster,
								   char *image);
extern void pv_records_seal_image(char *image, Size size);
extern const char *pv_records_read_image(PvRecords *records, uint64 cluster,
										 const char *image, Size size);

#endif							/* PV_RECORDS_H */
