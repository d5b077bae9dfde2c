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

/* What other processes see of a vacuum in progress. */
typedef struct PvInProgress
{
	uint64		token;			/* identifies this vacuum; never used again */
	Oid			role;			/* the role that the process was authenticated
								 * as */
	bool		autovacuum;		/* the process is an autovacuum worker */
} PvInProgress;

extern Size pv_inprogress_shmem_size(void);
extern void pv_inprogress_request_lock(void);
extern void pv_inprogress_shmem_startup(void);

/* The process that vacuums. */
extern void pv_inprogress_begin(Oid relid, Oid toast_parent, bool autovacuum);
extern void pv_inprogress_end(const char *relname);
extern void pv_inprogress_abandon(void);

/* Any session; a list of PvInProgress *. */
extern List *pv_inprogress_find(Oid database, Oid relid);
extern bool pv_inprogress_cancel(const PvInProgress *vacuum);

#endif							/* PV_INPROGRESS_H */
