/*-------------------------------------------------------------------------
 *
 * records.h
 *	  The last vacuums and the totals of tables and indexes, as data.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RECORDS_H
#define PV_RECORDS_H

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

/* The vacuum of one relation */
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
	PvResult	result;
} PvHistoryRun;

/* What a vacuum did to one index */
typedef struct PvHistoryIndex
{
	uint64		run;			/* PvHistoryRun.id */
	Oid			datid;
	Oid			relid;			/* the table */
	Oid			indexrelid;
	int			encoding;		/* of the name */
	NameData	indexrelname;
	int64		entries_removed;
	BlockNumber pages_total;
	BlockNumber pages_newly_deleted;
	BlockNumber pages_deleted;
	BlockNumber pages_free;
	int64		usecs;
} PvHistoryIndex;

/* Sums over the vacuums of one table */
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
} PvTableTotals;

/* Sums over the vacuums of one index */
typedef struct PvIndexTotals
{
	PvLruKey	key;
	Oid			relid;			/* the table */
	int64		runs;
	int64		entries_removed;
	int64		pages_newly_deleted;
	int64		usecs;
	BlockNumber pages_total;	/* the last vacuum's */
	BlockNumber pages_free;
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
	TimestampTz history_reset;
	TimestampTz stats_reset;
} PvRecords;

extern Size pv_records_size(int history_size, int stats_size);
extern void pv_records_init(PvRecords *records, int history_size,
							int stats_size, TimestampTz now);
extern void pv_records_add(PvRecords *records, PvHistoryRun *run,
						   PvHistoryIndex *indexes, int nindexes);
extern void pv_records_reset_history(PvRecords *records, TimestampTz now);
extern void pv_records_reset_stats(PvRecords *records, TimestampTz now);
extern int64 pv_records_evictions(const PvRecords *records);

/* Copies, oldest first; the arrays must have room for the maximum. */
extern int	pv_records_copy_runs(const PvRecords *records, PvHistoryRun *to);
extern int	pv_records_copy_indexes(const PvRecords *records,
									PvHistoryIndex *to);
extern const PvHistoryRun *pv_records_last_run(const PvRecords *records,
											   Oid datid, Oid relid);
extern int	pv_records_copy_tables(const PvRecords *records,
								   PvTableTotals *to);
extern int	pv_records_copy_index_totals(const PvRecords *records,
										 PvIndexTotals *to);

/* As the contents of a file. */
extern Size pv_records_image_size(const PvRecords *records);
extern Size pv_records_write_image(const PvRecords *records, uint64 cluster,
								   char *image);
extern void pv_records_seal_image(char *image, Size size);
extern const char *pv_records_read_image(PvRecords *records, uint64 cluster,
										 const char *image, Size size);

#endif							/* PV_RECORDS_H */
