/*-------------------------------------------------------------------------
 *
 * process.h
 *	  What parvacuum's background workers have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PROCESS_H
#define PV_PROCESS_H

#include "port/atomics.h"
#include "postmaster/bgworker.h"

extern const char *pv_process_library(void);
extern void pv_process_describe(BackgroundWorker *worker, const char *type,
								const char *function);
extern bool pv_process_is(int pid, const char *type);
extern void pv_process_lead(pg_atomic_uint32 *flag);
extern void pv_process_give_up(void);
extern void pv_process_work(pg_atomic_uint32 *leader_gave_up,
							void (*work) (void *arg), void *arg);
extern void pv_process_check_leader(void);

#endif							/* PV_PROCESS_H */
