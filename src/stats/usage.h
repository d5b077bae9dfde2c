/*-------------------------------------------------------------------------
 *
 * usage.h
 *	  What a piece of work of this process has used.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_USAGE_H
#define PV_USAGE_H

#include "executor/instrument.h"
#include "lib/stringinfo.h"
#include "portability/instr_time.h"
#include "utils/pg_rusage.h"

#include "stats/result.h"

/* The counters and clocks of the process when the work began */
typedef struct PvUsageStart
{
	instr_time	time;
	BufferUsage buffers;
	WalUsage	wal;
	PGRUsage	rusage;			/* only for a report */
} PvUsageStart;

static inline int64
pv_usecs_since(instr_time since)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

extern void pv_usage_start(PvUsageStart *start, bool for_report);
extern void pv_usage_since(const PvUsageStart *start, PvResult *result);
extern void pv_usage_append(StringInfo text, const PvUsageStart *start,
							const PvResult *used, const char *memory);
extern char *pv_usage_text(const PvUsageStart *start);

#endif							/* PV_USAGE_H */
