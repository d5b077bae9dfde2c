/*-------------------------------------------------------------------------
 *
 * eager.c
 *	  Eager scanning: all-visible pages that a normal vacuum reads in order
 *	  to freeze them.
 *
 * Without it all of these pages are left to the next aggressive vacuum.  It
 * came with PostgreSQL 18; older servers define no failure rate, so no page is
 * scanned eagerly.
 *
 * Two budgets limit it.  One vacuum freezes at most a fifth of the pages that
 * are all-visible but not all-frozen.  And a page that is too new to be frozen
 * usually has neighbors that are too new as well, so after a number of
 * failures the rest of a region is skipped.  The regions begin at another
 * random block in each vacuum, so that other pages are tried.
 *
 *	 block 0   first_region
 *	  |............|....4096 blocks....|....4096 blocks....|....
 *	   region 0     region 1            region 2
 *
 * All participants share both budgets: one atomic for the successes, and one
 * for the failures of each region, whichever participant scans it.  Blocks are
 * chosen some time before they are visited, so both budgets can be exceeded a
 * little.
 *
 * No locks.
 *
 * Core: access/heap/vacuumlazy.c (18), heap_vacuum_eager_scan_setup and
 * lazy_scan_heap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "common/pg_prng.h"

#include "engine/dispense.h"

#define REGION_BLOCKS			4096
#define MAX_SUCCESS_RATE		0.2

/*
 * Leader, before launch, for a vacuum that may skip all-visible pages: decide
 * whether pages are scanned eagerly.  failure_rate is a fraction of a region's
 * blocks.  unfrozen is the number of pages that are all-visible but not
 * all-frozen.
 *
 * A small table is not scanned eagerly, because the random first block does
 * not divide it well.  Neither is a table without an XID that is old enough to
 * be frozen: it has no freezing work that could be spread over several
 * vacuums.
 */
void
pv_eager_plan(PvEagerPlan *plan, const PvCutoffs *cutoffs,
			  double failure_rate, BlockNumber rel_pages, BlockNumber unfrozen)
{
	uint32		successes = (uint32) (unfrozen * MAX_SUCCESS_RATE);
	bool		some_are_old =
		(TransactionIdIsNormal(cutoffs->relfrozenxid) &&
		 TransactionIdPrecedes(cutoffs->relfrozenxid, cutoffs->FreezeLimit)) ||
		(MultiXactIdIsValid(cutoffs->relminmxid) &&
		 MultiXactIdPrecedes(cutoffs->relminmxid, cutoffs->MultiXactCutoff));

	if (failure_rate <= 0 || rel_pages < 2 * REGION_BLOCKS || !some_are_old ||
		successes == 0)
		return;

	plan->first_region = pg_prng_uint32(&pg_global_prng_state) % REGION_BLOCKS;
	plan->nregions = 2 + (rel_pages - plan->first_region) / REGION_BLOCKS;
	plan->failures = (uint32) (failure_rate * REGION_BLOCKS);
	plan->successes = successes;
}

/*
 * Leader, before launch: initialize both budgets.  The first region's is in
 * proportion to its size.
 */
void
pv_eager_init(const PvEager *eager)
{
	const PvEagerPlan *plan = eager->plan;

	pg_atomic_init_u32(eager->successes_left, plan->successes);
	for (uint32 i = 0; i < plan->nregions; i++)
		pg_atomic_init_u32(&eager->failures_left[i], plan->failures);
	if (plan->nregions > 0)
		pg_atomic_init_u32(&eager->failures_left[0],
						   (uint32) ((uint64) plan->failures *
									 plan->first_region / REGION_BLOCKS));
}

static pg_atomic_uint32 *
region_of(const PvEager *eager, BlockNumber blkno)
{
	BlockNumber first = eager->plan->first_region;

	return &eager->failures_left[blkno < first ? 0 :
								 1 + (blkno - first) / REGION_BLOCKS];
}

/* Is this block, which is all-visible but not all-frozen, to be scanned? */
bool
pv_eager_wants(const PvEager *eager, BlockNumber blkno)
{
	return eager->plan->nregions > 0 &&
		pg_atomic_read_u32(eager->successes_left) > 0 &&
		pg_atomic_read_u32(region_of(eager, blkno)) > 0;
}

/* Count an eagerly scanned block, by whether it could be frozen. */
void
pv_eager_count(const PvEager *eager, BlockNumber blkno, bool frozen)
{
	pg_atomic_uint32 *budget =
		frozen ? eager->successes_left : region_of(eager, blkno);
	uint32		left = pg_atomic_read_u32(budget);

	while (left > 0 &&
		   !pg_atomic_compare_exchange_u32(budget, &left, left - 1))
		 /* another process was faster */ ;
}
