/*-------------------------------------------------------------------------
 *
 * pv_shmem.h
 *	  What the cluster's parvacuum processes share, and the count of workers.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SHMEM_H
#define PV_SHMEM_H

extern void pv_shmem_init(void);
extern bool pv_shmem_attached(void);

/* Shares of parvacuum.max_workers; see pv_shmem.c for when they lapse. */
extern int	pv_shmem_reserve_workers(int wanted);
extern void pv_shmem_release_workers(int n);
extern int	pv_shmem_workers_in_use(void);

#endif							/* PV_SHMEM_H */
