/*-------------------------------------------------------------------------
 *
 * history.h
 *	  The history of vacuums and their totals, in shared memory.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HISTORY_H
#define PV_HISTORY_H

#include "storage/latch.h"

#include "stats/eta.h"
#include "stats/records.h"

/* About all records */
typedef struct PvHistoryInfo
{
	uint64		nruns;			/* vacuums recorded so far */
	int64		evictions;		/* tables and indexes that lost their totals */
	TimestampTz history_reset;
	TimestampTz stats_reset;
	TimestampTz written;		/* to the file; 0: not since the start */
	PvTableTotals all;			/* of all tables since stats_reset */
} PvHistoryInfo;

extern Size pv_history_shmem_size(void);
extern void pv_history_request_lock(void);
extern void pv_history_shmem_startup(void);

extern bool pv_history_exists(void);
extern bool pv_history_keeps_runs(void);
extern void pv_history_add(PvHistoryRun *run, PvHistoryIndex *indexes,
						   int nindexes);
extern void pv_history_reset_runs(void);
extern void pv_history_reset_totals(void);

/* Copies in a new array; they return the number of its elements. */
extern int	pv_history_copy(PvRecordKind kind, void **to);
extern bool pv_history_failures(Oid relid, PvTableTotals *totals,
								PvHistoryRun *last);
extern int	pv_history_kept(PvKeptRows **kept);
extern bool pv_history_sweep_mark(Oid relid, Oid owner, PvSweepMark *mark);
extern BlockNumber pv_history_index_pages(Oid indexrelid);
extern void pv_history_past(Oid relid, bool automatic, PvEtaPast *past);
extern void pv_history_info(PvHistoryInfo *info);

/* Transaction IDs; 0 if not known */
extern double pv_history_xid_rate(double *seconds);
extern TimestampTz pv_history_known_since(uint64 xid_age);

/* The process that takes samples, and writes the file from time to time. */
extern void pv_history_set_writer(Latch *latch);
extern long pv_history_do_due(void);

#endif							/* PV_HISTORY_H */
