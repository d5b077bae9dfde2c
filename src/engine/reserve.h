/*-------------------------------------------------------------------------
 *
 * reserve.h
 *	  What the vacuums of the cluster share: parallel workers, and entries
 *	  for B-trees that are being
 *
 * vacuumed.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RESERVE_H
#define PV_RESERVE_H

extern Size pv_reserve_shmem_size(void);
extern void pv_reserve_shmem_startup(void);

/*
 * Shares of parvacuum.max_workers; engine/reserve.c says when they are
 * released
 */
extern int	pv_reserve_workers(int wanted);
extern void pv_release_workers(int n);

/*
 * Entry for a B-tree that is being vacuumed, until the end of the transaction
 */
extern bool pv_reserve_btree(void);
extern void pv_release_btrees(void);

#endif							/* PV_RESERVE_H */
