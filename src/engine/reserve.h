/*-------------------------------------------------------------------------
 *
 * reserve.h
 *	  What the vacuums of the cluster share: parallel workers, and places for
 *	  B-trees that are being vacuumed.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RESERVE_H
#define PV_RESERVE_H

extern Size pv_reserve_shmem_size(void);
extern void pv_reserve_shmem_startup(void);

/* Shares of parvacuum.max_workers; see engine/reserve.c for when they lapse. */
extern int	pv_reserve_workers(int wanted);
extern void pv_release_workers(int n);
extern int	pv_workers_in_use(void);

/* A B-tree that may be registered as being vacuumed until the transaction ends. */
extern bool pv_reserve_btree(void);
extern void pv_release_btrees(void);

#endif							/* PV_RESERVE_H */
