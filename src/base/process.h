/*-------------------------------------------------------------------------
 *
 * process.h
 *	  What all our background workers have in common.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PROCESS_H
#define PV_PROCESS_H

#include "port/atomics.h"
#include "postmaster/bgworker.h"

/* Whom a process acts for, as others see it; an invalid OID stands for nobody. */
typedef struct PvIdentity
{
	Oid			role;			/* who may signal it goes by that */
	Oid			shown_role;		/* in pg_stat_activity */
} PvIdentity;

extern void pv_process_describe(BackgroundWorker *worker, const char *type,
								const char *function);
extern void pv_process_identity(PvIdentity *identity);
extern void pv_process_show_identity(const PvIdentity *identity);

/* Changes what others see of this process in the process array: PROC_* flags. */
extern void pv_process_change_status(uint8 set, uint8 clear);
extern void pv_process_lead(pg_atomic_uint32 *flag);
extern void pv_process_give_up(void);
extern void pv_process_work(pg_atomic_uint32 *leader_gave_up,
							void (*work) (void *arg), void *arg);
extern void pv_process_check_leader(void);

#endif							/* PV_PROCESS_H */
