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

#include "pv_account.h"

extern void pv_shmem_init(void);
extern bool pv_shmem_attached(void);

/* Shares of parvacuum.max_workers; see pv_shmem.c for when they lapse. */
extern int	pv_shmem_reserve_workers(int wanted);
extern void pv_shmem_release_workers(int n);
extern int	pv_shmem_workers_in_use(void);

/* A B-tree that may be registered as being vacuumed until the transaction ends. */
extern bool pv_shmem_reserve_btree(void);
extern void pv_shmem_release_btrees(void);

/*
 * The account of the scheduler's runners, and the cost units per second that it
 * goes by, 0 for no limit.  The launcher writes that at each reload.
 */
extern void pv_shmem_publish_rate(int64 units_per_sec);
extern int64 pv_shmem_rate(void);
extern PvAccount *pv_shmem_account(void);

#endif							/* PV_SHMEM_H */
