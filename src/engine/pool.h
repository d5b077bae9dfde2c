/*-------------------------------------------------------------------------
 *
 * pool.h
 *	  The processes that vacuum one table together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_POOL_H
#define PV_POOL_H

#include "access/parallel.h"

#include "engine/participant.h"

/* The leader's handle */
typedef struct PvPool
{
	PvParticipant *leader;
	ParallelContext *pcxt;		/* NULL: there are no workers */
	int			nworkers_planned;
	int			nworkers_launched;
	bool		launched;
	bool		attach_checked;
} PvPool;

/*
 * engine/reserve.c: what the vacuums of the cluster share, the workers of
 * parvacuum.max_workers and core's entries for B-trees that are being
 * vacuumed.
 */
extern Size pv_reserve_shmem_size(void);
extern void pv_reserve_shmem_startup(LWLock *its_lock);
extern int	pv_reserve_workers(int wanted);
extern void pv_release_workers(int n);
extern bool pv_reserve_btree(void);
extern void pv_release_btrees(void);

extern void pv_pool_create(PvPool *pool, PvParticipant *leader,
						   const PvVacuumPlan *plan);
extern void pv_pool_launch(PvPool *pool);
extern void pv_pool_run_phase(PvPool *pool, PvPhase phase);
extern void pv_pool_check_attached(PvPool *pool);
extern void pv_pool_end(PvPool *pool);

extern void pv_pool_attach(PvParticipant *self, dsm_segment *seg,
						   shm_toc *toc);
extern void pv_pool_work_until_done(PvParticipant *self);

#endif							/* PV_POOL_H */
