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
#include "storage/lwlock.h"

#include "stats/records.h"

extern Size pv_history_shmem_size(void);
extern void pv_history_shmem_startup(LWLock *its_lock);

extern bool pv_history_exists(void);
extern bool pv_history_has_totals(void);
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

/* The file that keeps it while the server is down (history_file.c) */
extern bool pv_history_file_write(const char *image, Size size);
extern void pv_history_file_read(PvRecords *records);

#endif							/* PV_HISTORY_H */
