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

/* What cost-based delay allows the processes of one vacuum. */
typedef struct PvCostBudget
{
	double		delay;			/* milliseconds; 0: no throttling */
	int			limit;			/* cost units per delay, of one process */
	double		scale;			/* what each further process adds: 0 nothing,
								 * 1 as much again */
} PvCostBudget;

extern void pv_shmem_init(void);
extern bool pv_shmem_attached(void);

/* Shares of parvacuum.max_workers; see pv_shmem.c for when they lapse. */
extern int	pv_shmem_reserve_workers(int wanted);
extern void pv_shmem_release_workers(int n);
extern int	pv_shmem_workers_in_use(void);

/* A B-tree that may be registered as being vacuumed until the transaction ends. */
extern bool pv_shmem_reserve_btree(void);

/*
 * What the configuration gives autovacuum now, while a vacuum in progress may
 * have begun with something else.  Written by the launcher at each reload; safe
 * to read at any moment.
 */
extern void pv_shmem_publish_budget(const PvCostBudget *budget);
extern bool pv_shmem_read_budget(PvCostBudget *budget);

/*
 * The account of the scheduler's runners, and the cost units per second that it
 * goes by, 0 for no limit; the launcher publishes them as above.
 */
extern void pv_shmem_publish_rate(int64 units_per_sec);
extern int64 pv_shmem_rate(void);
extern PvAccount *pv_shmem_account(void);

#endif							/* PV_SHMEM_H */
