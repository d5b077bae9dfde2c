/*-------------------------------------------------------------------------
 *
 * history.h
 *	  The history of vacuums and their totals, in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HISTORY_H
#define PV_HISTORY_H

#include "access/genam.h"
#include "storage/latch.h"
#include "storage/lockdefs.h"
#include "storage/lwlock.h"
#include "utils/relcache.h"

#include "stats/blocker.h"
#include "stats/records.h"

/* Why another process terminates this one, filled in before the signal */
typedef struct PvHistoryReason
{
	int			sqlerrcode;		/* 0: not known */
	char		text[PV_RECORD_TEXT];
} PvHistoryReason;

extern Size pv_history_shmem_size(void);
extern void pv_history_shmem_startup(LWLock *its_lock);

extern bool pv_history_exists(void);
extern void pv_history_add(PvHistoryRun *run, PvHistoryIndex *indexes,
						   int nindexes);
extern void pv_history_reset(bool totals);

extern const PvRecords *pv_history_lock(void);
extern void pv_history_unlock(void);
extern int	pv_history_copy(PvRecordKind kind, void **to);

/* Transaction IDs; 0 if not known */
extern double pv_history_xid_rate(double *seconds);
extern TimestampTz pv_history_known_since(uint64 xid_age);

/* The process that takes samples, and writes the file from time to time. */
extern void pv_history_set_writer(Latch *latch);
extern long pv_history_do_due(void);

/* The vacuum in this process, until it is added (history_run.c) */
extern void pv_history_set_reason(const PvHistoryReason *reason);
extern void pv_history_fill_reason(PvHistoryReason *reason,
								   const ErrorData *edata);
extern void pv_history_begin(Relation rel, PvWork action,
							 PvStartedBy started_by, bool wraparound,
							 const PvResult *result);
extern void pv_history_note_index(Relation index,
								  const IndexBulkDeleteResult *istat,
								  int64 usecs);
extern void pv_history_skipped(Oid relid, PvWork action, LOCKMODE mode);
extern void pv_history_note_mark(const PvSweepMark *mark);
extern void pv_history_note_blocker(const PvBlocker *blocker,
									TimestampTz found_at);
extern void pv_history_done(void);
extern void pv_history_failed(void);

#endif							/* PV_HISTORY_H */
