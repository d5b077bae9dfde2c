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

#include "stats/records_types.h"

/* Bytes of a record of each kind */
extern const uint32 pv_record_size[PV_RECORD_KINDS];

extern Size pv_records_size(int history_size, int stats_size);
extern void pv_records_init(PvRecords *records, int history_size,
							int stats_size, TimestampTz now);
extern void pv_records_add(PvRecords *records, PvHistoryRun *run,
						   PvHistoryIndex *indexes, int nindexes);
extern void pv_records_sample(PvRecords *records, TimestampTz now,
							  uint64 next_xid, int age_ms);
extern PvXidSample pv_records_oldest_sample(const PvRecords *records,
											uint64 xid);
extern void pv_records_reset_history(PvRecords *records, TimestampTz now);
extern void pv_records_reset_stats(PvRecords *records, TimestampTz now);
extern int64 pv_records_evictions(const PvRecords *records);

/* Copies; the arrays must have room for the maximum.  NULL: only the number. */
extern int	pv_records_copy(const PvRecords *records, PvRecordKind kind,
							void *to);
extern int	pv_records_copy_kept(const PvRecords *records, PvKeptRows *to);
extern const PvHistoryRun *pv_records_last_run(const PvRecords *records,
											   Oid datid, Oid relid,
											   bool automatic);
extern bool pv_records_failures(const PvRecords *records, Oid datid, Oid relid,
								PvTableTotals *totals, PvHistoryRun *last);
extern bool pv_records_has_room(const PvRecords *records, Oid datid,
								Oid relid, Oid owner);
extern bool pv_records_sweep_mark(const PvRecords *records, Oid datid,
								  Oid relid, PvSweepMark *mark);
extern BlockNumber pv_records_index_pages(const PvRecords *records, Oid datid,
										  Oid indexrelid);

/* As the contents of a file. */
extern Size pv_records_image_size(const PvRecords *records);
extern Size pv_records_write_image(const PvRecords *records, uint64 cluster,
								   char *image);
extern void pv_records_seal_image(char *image, Size size);
extern const char *pv_records_read_image(PvRecords *records, uint64 cluster,
										 const char *image, Size size);

#endif							/* PV_RECORDS_H */
