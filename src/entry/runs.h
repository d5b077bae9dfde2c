/*-------------------------------------------------------------------------
 *
 * runs.h
 *	  The runs of parvacuum_run() and CALL parvacuum() that are in progress.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUNS_H
#define PV_RUNS_H

#include "entry/run_table.h"

extern Size pv_runs_shmem_size(void);
extern void pv_runs_request_lock(void);
extern void pv_runs_shmem_startup(void);

/* The caller. */
extern PvRunAnswer pv_runs_enter(Oid role, bool is_superuser, Oid relid,
								 PvRunPlace *place);
extern void pv_runs_leave(PvRunPlace *place);
extern void pv_runs_count_refused(void);

/* The background leader. */
extern bool pv_runs_attach(const PvRunPlace *place);
extern void pv_runs_begin_relation(Oid relid, Oid toast_parent);
extern void pv_runs_end_relation(void);

/* Others. */
extern uint64 pv_runs_refused(void);
extern int	pv_runs_find(Oid database, Oid relid, PvRunSeen **seen);
extern bool pv_runs_find_process(int pid, PvRunSeen *seen);
extern bool pv_runs_cancel(uint64 token, Oid database, Oid relid);

#endif							/* PV_RUNS_H */
