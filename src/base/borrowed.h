/*-------------------------------------------------------------------------
 *
 * borrowed.h
 *	  State of the server that parvacuum changes although it is not its own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_BORROWED_H
#define PV_BORROWED_H

#include "storage/proc.h"
#include "utils/palloc.h"

/* The role that a process acts for, or InvalidOid */
typedef struct PvIdentity
{
	Oid			role;			/* decides who may signal the process */
	Oid			shown_role;		/* in pg_stat_activity */
} PvIdentity;

/* What others see of this process in the process array */
extern void pv_show_as_autovacuum(void);
extern void pv_show_in_vacuum(void);
extern void pv_show_against_wraparound(void);
extern void pv_process_identity(PvIdentity *identity);
extern void pv_process_show_identity(const PvIdentity *identity);

/* What this process sees of others there */
extern int	pv_count_autovacuum_workers(void);
extern bool pv_group_waits_for_pin(const PGPROC *leader);

/* The state of this process's session and transaction */
extern void pv_restore_settings_of_caller(char *settings);
extern bool pv_forbid_writes(void);
extern void pv_restore_read_only(bool before);
extern void pv_set_portal_context(MemoryContext context);

/*
 * The sleeps of core's delay point.  However far its limit is exceeded, it
 * sleeps for at most this many delays.
 */
#define PV_MAX_SLEEP_FACTOR		4

/*
 * The balance while a sleep is due: more cost units than any process uses
 * between two delay points
 */
#define PV_DUE_BALANCE			(1 << 24)

extern void pv_set_core_sleep(int64 units, int64 usecs);
extern void pv_make_sleep_due(void);

#endif							/* PV_BORROWED_H */
