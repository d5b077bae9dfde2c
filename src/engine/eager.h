/*-------------------------------------------------------------------------
 *
 * eager.h
 *	  All-visible pages that a normal vacuum reads in order to freeze them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_EAGER_H
#define PV_EAGER_H

#include "port/atomics.h"

#include "base/compat.h"
#include "store/segment.h"

/* The plan of a vacuum; see engine/eager.c */
typedef struct PvEagerShared
{
	/* Set before launch, then read-only */
	uint32		nregions;		/* 0: no page is read for this */
	BlockNumber first_region;	/* size of the first one, in blocks */
	uint32		failures;		/* so many are allowed in a whole region */

	pg_atomic_uint32 successes_left;
} PvEagerShared;

/* One participant's view of it */
typedef struct PvEager
{
	PvEagerShared *shared;
	pg_atomic_uint32 *failures_left;	/* by region */
} PvEager;

extern void pv_eager_plan(PvEagerShared *shared, const PvCutoffs *cutoffs,
						  double failure_rate, BlockNumber rel_pages,
						  BlockNumber unfrozen);
extern void pv_eager_init_regions(const PvEager *eager);
extern bool pv_eager_wants(const PvEager *eager, BlockNumber blkno);
extern void pv_eager_count(const PvEager *eager, BlockNumber blkno, bool frozen);

#endif							/* PV_EAGER_H */
