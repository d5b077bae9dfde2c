/*-------------------------------------------------------------------------
 *
 * databases.h
 *	  The databases of the cluster, as the launcher knows them.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DATABASES_H
#define PV_DATABASES_H

#include "sched/plan.h"

extern void pv_databases_init(void);
extern PvPlanDatabase *pv_databases_list(int naptime_ms, int *n);
extern void pv_databases_set_due(Oid oid, TimestampTz due);
extern void pv_databases_note_start(Oid oid, TimestampTz now);

/* A worker that was started for the database has attached, or has not. */
extern void pv_databases_note_success(Oid oid);
extern void pv_databases_note_failure(Oid oid);

#endif							/* PV_DATABASES_H */
