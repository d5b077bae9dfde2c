/*-------------------------------------------------------------------------
 *
 * records_state.h
 *	  Where the parts of the block of records are, for records*.c alone.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RECORDS_STATE_H
#define PV_RECORDS_STATE_H

#include "stats/records_types.h"

extern PvLru *pv_records_lru(const PvRecords *records, PvRecordKind kind);
extern void *pv_records_touch(PvRecords *records, PvRecordKind kind,
							  const PvRecordHead *head, bool *known);

#endif							/* PV_RECORDS_STATE_H */
