/*-------------------------------------------------------------------------
 *
 * pvb_pattern.c
 *	  Patterns of dead TIDs, and samples of TIDs to look up.
 *
 * A pattern is a small pool of pages, and a rule that maps a block to a page of
 * the pool.  The pages stay in the processor's cache, as do the offsets that
 * pruning has just found.  So loading a pattern costs little more than the
 * contender's own work.  A pattern depends on its parameters only, so that every
 * process can make a copy of its own.
 *
 * A sample is drawn at random from the TIDs that an index would have: all offsets
 * of all blocks, up to the largest offset of the pattern.  For the processor's
 * caches this is the same as looking up all TIDs in random order, but it takes
 * less time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pvb_pattern.h"

/* Number of pages in the pool of a random pattern, as a power of two. */
#define POOL_BITS		12

#define PATTERN_SEED	20260101

/* Raise an error if the parameters are inconsistent. */
static void
check_params(const PvbParams *p)
{
	int64		largest = p->first + (int64) ((p->dead - 1) / p->consecutive) * p->stride +
		(p->dead - 1) % p->consecutive;

	if (p->kind != PVB_FIXED)
		largest = p->dead;
	if (largest > p->lookups || p->lookups > MaxHeapTuplesPerPage)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("pattern has impossible offsets"),
				 errdetail("The largest dead offset is " INT64_FORMAT ", the largest one looked up %d, and that of a page at most %d.",
						   largest, p->lookups, (int) MaxHeapTuplesPerPage)));
}

/* Add an offset to a page.  Offsets must be added in ascending order. */
static void
add_offset(PvbPage *page, int off)
{
	page->offsets[page->n++] = off;
	page->bits[off / 64] |= UINT64CONST(1) << (off % 64);
}

/* Fill a page with n offsets up to max.  All such sets are equally likely. */
static void
fill_at_random(PvbPage *page, int n, int max, pg_prng_state *prng)
{
	for (int off = 1; off <= max; off++)
	{
		if (pg_prng_uint64_range(prng, 0, max - off) < n - page->n)
			add_offset(page, off);
	}
}

/*
 * The number of dead items of a page of a mix.  It is uniformly distributed on a
 * logarithmic scale.
 */
static int
random_number(int max, pg_prng_state *prng)
{
	if (pg_prng_bool(prng))
		return 0;
	return (int) pow(max + 1, pg_prng_double(prng));
}

/* Fill one page of the pool. */
static void
fill_page(PvbPage *page, const PvbParams *p, pg_prng_state *prng)
{
	if (p->kind == PVB_MIX)
		fill_at_random(page, random_number(p->dead, prng), p->lookups, prng);
	else if (p->kind == PVB_RANDOM)
		fill_at_random(page, p->dead, p->lookups, prng);
	else
	{
		for (int i = 0; i < p->dead; i++)
			add_offset(page, p->first + i / p->consecutive * p->stride +
					   i % p->consecutive);
	}
}

/* Make a pattern in the current memory context. */
PvbPattern *
pvb_pattern_make(const PvbParams *params)
{
	PvbPattern *pattern = palloc(sizeof(PvbPattern));
	pg_prng_state prng;

	check_params(params);
	pg_prng_seed(&prng, PATTERN_SEED);
	pattern->params = *params;
	pattern->page_bits = params->kind == PVB_FIXED ? 0 : POOL_BITS;
	pattern->pages = palloc0(sizeof(PvbPage) << pattern->page_bits);
	for (int i = 0; i < 1 << pattern->page_bits; i++)
		fill_page(&pattern->pages[i], params, &prng);

	pattern->nitems = 0;
	for (BlockNumber blk = 0; blk < params->nblocks; blk += params->gap)
		pattern->nitems += pvb_page(pattern, blk)->n;
	return pattern;
}

void
pvb_pattern_free(PvbPattern *pattern)
{
	pfree(pattern->pages);
	pfree(pattern);
}

/* Is this TID in the pattern? */
static bool
is_dead(const PvbPattern *pattern, BlockNumber blk, OffsetNumber off)
{
	return blk % pattern->params.gap == 0 &&
		(pvb_page(pattern, blk)->bits[off / 64] >> (off % 64) & 1) != 0;
}

/* Draw n TIDs in the current memory context. */
PvbSample *
pvb_sample_make(const PvbPattern *pattern, int n, uint64 seed)
{
	PvbSample  *sample = palloc(sizeof(PvbSample));
	pg_prng_state prng;

	pg_prng_seed(&prng, seed);
	sample->n = n;
	sample->ndead = 0;
	sample->tids = palloc_extended(n * sizeof(ItemPointerData), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		BlockNumber blk = pg_prng_uint64_range(&prng, 0, pattern->params.nblocks - 1);
		OffsetNumber off = pg_prng_uint64_range(&prng, 1, pattern->params.lookups);

		ItemPointerSet(&sample->tids[i], blk, off);
		sample->ndead += is_dead(pattern, blk, off);
		CHECK_FOR_INTERRUPTS();
	}
	return sample;
}

void
pvb_sample_free(PvbSample *sample)
{
	pfree(sample->tids);
	pfree(sample);
}
