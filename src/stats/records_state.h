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

static inline Size
runs_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_runs * sizeof(PvHistoryRun));
}

static inline Size
indexes_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_indexes * sizeof(PvHistoryIndex));
}

static inline Size
tables_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_tables * sizeof(PvTableTotals));
}

static inline Size
index_totals_size(const PvRecords *records)
{
	return MAXALIGN((Size) records->max_index_totals * sizeof(PvIndexTotals));
}

static inline PvHistoryRun *
runs_of(const PvRecords *records)
{
	return (PvHistoryRun *) ((char *) records + MAXALIGN(sizeof(PvRecords)));
}

static inline PvHistoryIndex *
indexes_of(const PvRecords *records)
{
	return (PvHistoryIndex *) ((char *) runs_of(records) +
							   runs_size(records));
}

static inline PvLru *
table_lru(const PvRecords *records)
{
	return (PvLru *) ((char *) indexes_of(records) + indexes_size(records));
}

static inline PvTableTotals *
tables_of(const PvRecords *records)
{
	return (PvTableTotals *) ((char *) table_lru(records) +
							  pv_lru_size(records->max_tables));
}

static inline PvLru *
index_lru(const PvRecords *records)
{
	return (PvLru *) ((char *) tables_of(records) + tables_size(records));
}

static inline PvIndexTotals *
index_totals_of(const PvRecords *records)
{
	return (PvIndexTotals *) ((char *) index_lru(records) +
							  pv_lru_size(records->max_index_totals));
}

extern void pv_records_store_run(PvRecords *records, const PvHistoryRun *run);
extern void pv_records_store_index(PvRecords *records,
								   const PvHistoryIndex *index);
extern uint64 pv_records_oldest_run(const PvRecords *records);
extern uint64 pv_records_oldest_index(const PvRecords *records);

#endif							/* PV_RECORDS_STATE_H */
