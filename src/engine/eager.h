/*-------------------------------------------------------------------------
 *
 * eager.h
 *	  Eager scanning: all-visible pages that a normal vacuum reads in order
 *	  to freeze them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_EAGER_H
#define PV_EAGER_H

#include "port/atomics.h"

#include "base/compat.h"
#include "store/segment.h"

/* The leader's plan, for all participants; see engine/eager.c */
typedef struct PvEagerPlan
{
	uint32		nregions;		/* 0: no page is scanned eagerly */
	BlockNumber first_region;	/* size of the first region, in blocks */
	uint32		failures;		/* number allowed in a region of full size */
	uint32		successes;		/* number allowed in the table */
} PvEagerPlan;

/* One participant's view of it */
typedef struct PvEager
{
	const PvEagerPlan *plan;
	pg_atomic_uint32 *successes_left;
	pg_atomic_uint32 *failures_left;	/* by region */
} PvEager;

extern void pv_eager_plan(PvEagerPlan *plan, const PvCutoffs *cutoffs,
						  double failure_rate, BlockNumber rel_pages,
						  BlockNumber unfrozen);
extern void pv_eager_init(const PvEager *eager);
extern bool pv_eager_wants(const PvEager *eager, BlockNumber blkno);
extern void pv_eager_count(const PvEager *eager, BlockNumber blkno,
						   bool frozen);

#endif							/* PV_EAGER_H */
