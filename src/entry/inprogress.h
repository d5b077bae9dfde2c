/*-------------------------------------------------------------------------
 *
 * inprogress.h
 *	  The vacuums by the engine that VACUUM and autovacuum have in progress.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_INPROGRESS_H
#define PV_INPROGRESS_H

#include "nodes/pg_list.h"

/* What others see of a vacuum in progress. */
typedef struct PvInProgress
{
	uint64		token;			/* of this vacuum, never given to another */
	Oid			role;			/* that the process has authenticated as */
	bool		autovacuum;		/* it is a worker of core's autovacuum */
} PvInProgress;

extern Size pv_inprogress_shmem_size(void);
extern void pv_inprogress_request_lock(void);
extern void pv_inprogress_shmem_startup(void);

/* The process that vacuums. */
extern void pv_inprogress_begin(Oid relid, Oid toast_parent, bool autovacuum);
extern void pv_inprogress_end(const char *relname);
extern void pv_inprogress_abandon(void);

/* Others; a list of PvInProgress *. */
extern List *pv_inprogress_find(Oid database, Oid relid);
extern bool pv_inprogress_cancel(const PvInProgress *vacuum);

#endif							/* PV_INPROGRESS_H */
