/*-------------------------------------------------------------------------
 *
 * eager.c
 *	  All-visible pages that a normal vacuum reads in order to freeze them.
 *
 * Otherwise they would all be left to the next aggressive vacuum.  This is eager
 * scanning, which PostgreSQL 18 has; before it the server gives no rate of
 * failures, so that nothing is read for this.
 *
 * Two budgets bound it.  At most a fifth of the pages that are all-visible but not
 * all-frozen are frozen by one vacuum.  And where pages turn out too new to be
 * frozen, most of their neighbours will be too: after so many failures the rest of
 * a region is skipped.  Regions begin at another place in each vacuum, so that it
 * is not always the same pages that are tried.
 *
 *	 block 0   first_region
 *	  |............|....4096 blocks....|....4096 blocks....|....
 *	   region 0     region 1            region 2
 *
 * All participants share both budgets: one atomic for the successes, and one for
 * the failures of each region, whoever has which part of it.  Blocks are decided
 * for some time before they are visited, so there can be more of both than the
 * budget has.
 * Core: access/heap/vacuumlazy.c (18), heap_vacuum_eager_scan_setup, lazy_scan_heap.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "common/pg_prng.h"

#include "engine/eager.h"

#define REGION_BLOCKS			4096
#define MAX_SUCCESS_RATE		0.2

/*
 * Leader, before launch, for a vacuum that may skip all-visible pages: decide
 * whether any are read for this.  failure_rate is a share of a region's blocks,
 * unfrozen the number of pages that are all-visible but not all-frozen.
 *
 * The random place does not divide small tables well, and without an XID that has
 * to be frozen by now there is nothing to be spread.
 */
void
pv_eager_plan(PvEagerShared *shared, const PvCutoffs *cutoffs,
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

	shared->first_region = pg_prng_uint32(&pg_global_prng_state) % REGION_BLOCKS;
	shared->nregions = 2 + (rel_pages - shared->first_region) / REGION_BLOCKS;
	shared->failures = (uint32) (failure_rate * REGION_BLOCKS);
	pg_atomic_init_u32(&shared->successes_left, successes);
}

/*
 * Leader, before launch: give each region its budget.  That of the first is in
 * proportion to its size.
 */
void
pv_eager_init_regions(const PvEager *eager)
{
	const PvEagerShared *shared = eager->shared;

	for (uint32 i = 0; i < shared->nregions; i++)
		pg_atomic_init_u32(&eager->failures_left[i], shared->failures);
	if (shared->nregions > 0)
		pg_atomic_init_u32(&eager->failures_left[0],
						   (uint32) ((uint64) shared->failures * shared->first_region / REGION_BLOCKS));
}

static pg_atomic_uint32 *
region_of(const PvEager *eager, BlockNumber blkno)
{
	BlockNumber first = eager->shared->first_region;

	return &eager->failures_left[blkno < first ? 0 : 1 + (blkno - first) / REGION_BLOCKS];
}

/*
 * Is this block, which is all-visible but not all-frozen, to be read?
 */
bool
pv_eager_wants(const PvEager *eager, BlockNumber blkno)
{
	return eager->shared->nregions > 0 &&
		pg_atomic_read_u32(&eager->shared->successes_left) > 0 &&
		pg_atomic_read_u32(region_of(eager, blkno)) > 0;
}

static void
take_one(pg_atomic_uint32 *budget)
{
	uint32		left = pg_atomic_read_u32(budget);

	while (left > 0 && !pg_atomic_compare_exchange_u32(budget, &left, left - 1))
		 /* somebody was faster */ ;
}

/*
 * It was, and could be frozen or not.
 */
void
pv_eager_count(const PvEager *eager, BlockNumber blkno, bool frozen)
{
	take_one(frozen ? &eager->shared->successes_left : region_of(eager, blkno));
}
