/*-------------------------------------------------------------------------
 *
 * table_log.h
 *	  What the scheduler logs about one table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_TABLE_LOG_H
#define PV_TABLE_LOG_H

#include "commands/vacuum.h"
#include "utils/rel.h"

#include "stats/usage.h"

extern void pv_log_begin(void);
extern const char *pv_log_database(void);
extern char *pv_full_relname(Relation rel);
extern void pv_log_skipped_table(Oid relid, bool vacuumed);
extern void pv_log_analyze(Relation rel, const VacuumParams *params,
						   const PvUsageStart *usage);

#endif							/* PV_TABLE_LOG_H */
