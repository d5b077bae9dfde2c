/*-------------------------------------------------------------------------
 *
 * history_run.h
 *	  The vacuum in this process, until it is added to the history.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HISTORY_RUN_H
#define PV_HISTORY_RUN_H

#include "access/genam.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

#include "stats/blocker.h"
#include "stats/records.h"

/*
 * Why another process terminates this one, which fills it in before it sends
 * the signal.
 */
typedef struct PvHistoryReason
{
	int			sqlerrcode;		/* 0: not known */
	char		text[PV_RECORD_TEXT];
} PvHistoryReason;

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

#endif							/* PV_HISTORY_RUN_H */
