/*-------------------------------------------------------------------------
 *
 * report.h
 *	  What a vacuum reports: error context, text of VERBOSE and the log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_REPORT_H
#define PV_REPORT_H

#include "access/genam.h"
#include "lib/stringinfo.h"
#include "storage/block.h"
#include "storage/off.h"
#include "utils/relcache.h"

#include "stats/blocker.h"
#include "stats/result.h"
#include "stats/usage.h"

/* Position of a participant, for the context line of an error */
typedef struct PvErrorInfo
{
	PvPhase		phase;
	char	   *dbname;
	char	   *relnamespace;
	char	   *relname;
	const char *indname;		/* in the index phases */
	BlockNumber blkno;
	OffsetNumber offnum;
} PvErrorInfo;

/* How one process finished a B-tree that several had vacuumed together */
typedef struct PvBtreeTail
{
	bool		finished;		/* otherwise the rest is not valid */
	int64		revisits;		/* pages visited again after splits */
	int64		alone_usecs;
} PvBtreeTail;

/* What the text of a finished vacuum needs in addition to its PvResult */
typedef struct PvReportDetails
{
	bool		aggressive;
	bool		is_wraparound;
	bool		verbose;		/* INFO; otherwise LOG */
	bool		failsafe;
	int			nindexes;
	char	  **indnames;
	IndexBulkDeleteResult **indstats;	/* elements may be NULL */
	int64	   *indusecs;		/* from the first process's begin to the last
								 * one's end */
	PvBtreeTail *tails;			/* of each index */
	BlockNumber pages_remaining;
	BlockNumber eager_pages;	/* these as in PvCounters */
	BlockNumber frozen_pages;
	int64		tuples_frozen;
	BlockNumber new_visible_pages;
	BlockNumber new_visible_frozen_pages;
	BlockNumber new_frozen_pages;
	BlockNumber lpdead_item_pages;
	BlockNumber missed_dead_pages;
	int64		store_segments;
	int			store_resets;	/* these as in PvVacuum */
	int64		store_bytes;
	Size		store_limit;
	TransactionId old_relfrozenxid;
	TransactionId new_relfrozenxid; /* invalid if not advanced */
	MultiXactId old_relminmxid;
	MultiXactId new_relminmxid; /* invalid if not advanced */
	bool		bypassed;		/* by the 2 % rule or by INDEX_CLEANUP off */
	double		io_read_ms;		/* if track_io_timing is on */
	double		io_write_ms;
	int64		wal_buffers_full;	/* -1 if not counted on this version */
	int64		wal_fpi_bytes;	/* likewise */
	const PvBlocker *blocker;	/* what held back OldestXmin */
	TimestampTz blocker_found_at;
	const PvUsageStart *usage;
} PvReportDetails;

extern void pv_errorinfo_init(PvErrorInfo *info, Relation rel);
extern void pv_error_callback(void *arg);
extern void pv_report_begin(const PvErrorInfo *info, bool aggressive);
extern void pv_report_end(const PvErrorInfo *info, const PvResult *result,
						  const PvReportDetails *details);

#endif							/* PV_REPORT_H */
