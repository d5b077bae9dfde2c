/*-------------------------------------------------------------------------
 *
 * usage.h
 *	  What a piece of work of this process has used.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_USAGE_H
#define PV_USAGE_H

#include "executor/instrument.h"
#include "lib/stringinfo.h"
#include "utils/pg_rusage.h"

#include "base/clock.h"
#include "stats/result.h"

/* The counters and clocks of the process when the work began */
typedef struct PvUsageStart
{
	int64		time;			/* as pv_usecs_of_machine() */
	BufferUsage buffers;
	WalUsage	wal;
	PGRUsage	rusage;			/* only for a report */
} PvUsageStart;

extern void pv_usage_start(PvUsageStart *start, bool for_report);
extern void pv_usage_since(const PvUsageStart *start, PvResult *result);
extern void pv_usage_append(StringInfo text, const PvUsageStart *start,
							const PvResult *used, const char *memory);
extern char *pv_usage_text(const PvUsageStart *start);

#endif							/* PV_USAGE_H */
