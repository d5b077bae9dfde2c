/*-------------------------------------------------------------------------
 *
 * parvacuum_bench.h
 *	  Declarations shared by the SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PARVACUUM_BENCH_H
#define PARVACUUM_BENCH_H

#include "fmgr.h"
#include "portability/instr_time.h"
#include "pvb_pattern.h"

extern const PvbPattern *pvb_session_pattern(void);
extern Datum pvb_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls);

/* The current time in seconds, by a clock that all processes share. */
static inline double
pvb_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_DOUBLE(now);
}

#endif							/* PARVACUUM_BENCH_H */
