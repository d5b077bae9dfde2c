/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  The number of tuples on pages that are skipped, although core would
 *	  read them.
 *
 * Core assumes that a page that it does not read has as many tuples as the
 * table had on average in the last vacuum.  We skip more pages than core, and
 * these differ from the visited ones: pages that are not changed are full, and
 * pages that are changed all the time may be nearly empty.  So a random sample
 * of the pages in short runs is visited like any other page, and the number of
 * tuples on the rest is estimated from the sample:
 *
 *		 |vsssvssvsvlllllllllllllllllllvsssXssvsv|
 *
 *		v  visited as it must be	   s  skipped, in a short run
 *		X  visited as a sample of s	   l  skipped, in a run that core skips too
 *
 *		tuples of v and X, counted
 *		tuples of s, estimated from X
 *		tuples of l, estimated from the old average, as by core
 *
 * The sampling error grows with the differences between pages, but most of
 * these are known from the free space map.  The sample tells how the number of
 * tuples depends on the free space, as a straight line by least squares, and
 * the line is applied to the free space of the skipped pages; of a large table
 * only some are looked up.  If the free space map is wrong or empty, the line
 * is horizontal, and the estimate is the mean of the sample.
 *
 * Which pages: the table is divided into groups of the same number of blocks.
 * One block of each group, chosen by a hash of the group's number, is in the
 * sample if it is in a short run that is skipped.  So each page has the same
 * chance, every part of the table is represented, participants need not
 * communicate, and the choice is the same if a block is decided about twice.
 *
 * The leader plans and estimates; all participants do the rest.  No locks.
 *
 * Core: commands/vacuum.c, vac_estimate_reltuples.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"

#include "engine/dispense.h"

/*
 * The sample may always be as large as this fraction of the pages that have to
 * be visited anyway.
 */
#define CHEAP_SHARE				0.0625

/*
 * Pages of a table whose free space may be looked up.  A lookup costs as much
 * as to read a page in shared buffers.
 */
#define MAX_ASKED				8192

/* Bytes that the smallest tuple takes */
#define BYTES_PER_TUPLE \
	((double) MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData))

/*
 * Leader, before launch: choose the number of skippable pages to be visited if
 * all of them were in short runs.
 *
 * In a table with only skippable pages the sample has "pages" pages.  If only
 * a part of the table is skippable, the square of that fraction gives the same
 * error in relation to the whole.  And if many pages have to be read anyway,
 * some more do not matter.
 */
void
pv_sample_plan(PvSamplePlan *plan, BlockNumber pages, BlockNumber rel_pages,
			   BlockNumber skippable)
{
	double		share = (double) skippable / Max(rel_pages, 1);
	double		wanted = Max(pages * share * share,
							 (rel_pages - skippable) * CHEAP_SHARE);

	memset(plan, 0, sizeof(*plan));
	if (pages == 0 || skippable == 0)
		return;
	plan->every = Max((uint32) rint(skippable / Max(wanted, 1.0)), 1);
	plan->asked = Max(rel_pages / MAX_ASKED, 1);
	plan->seed = pg_prng_uint64(&pg_global_prng_state);
}

/* Is this block, of a short run that is skipped, in the sample? */
bool
pv_sample_wants(const PvSamplePlan *plan, BlockNumber blkno)
{
	uint32		group;

	if (plan->every == 0)
		return false;
	group = blkno / plan->every;
	return blkno % plan->every ==
		hash_bytes_uint32_extended(group, plan->seed) % plan->every;
}

/* Add a page that was visited as a part of the sample. */
void
pv_sample_add_page(PvSample *sample, Size space, int64 tuples)
{
	sample->pages++;
	sample->tuples += tuples;
	sample->space += space;
	sample->space_squares += space * space;
	sample->products += space * tuples;
}

/* Is the free space of this page, which is skipped, to be looked up? */
bool
pv_sample_asks(const PvSamplePlan *plan, BlockNumber blkno)
{
	return plan->every > 0 && murmurhash32(blkno) % plan->asked == 0;
}

/* Add pages that were skipped to the sum. */
void
pv_sample_add_skipped(PvSkippedPages *sum, const PvSkippedPages *part)
{
	sum->pages += part->pages;
	sum->asked += part->asked;
	sum->space += part->space;
}

/* Add what one participant knows to the sum. */
void
pv_sample_add(PvSample *sum, const PvSample *part)
{
	pv_sample_add_skipped(&sum->skipped, &part->skipped);
	sum->pages += part->pages;
	sum->tuples += part->tuples;
	sum->space += part->space;
	sum->space_squares += part->space_squares;
	sum->products += part->products;
}

/*
 * Estimate the live tuples on the pages that were skipped, and return the
 * number of these pages.  Return false if there is no sample.
 *
 * More free space never means more tuples, and a tuple takes a minimum number
 * of bytes.  These bounds limit the effect of a few unusual pages on the slope
 * of the line, which is in tuples for each additional byte of free space.
 */
bool
pv_sample_estimate(const PvSample *sample, BlockNumber *pages, double *tuples)
{
	double		n = sample->pages;
	double		space = sample->space / n;
	double		variance = sample->space_squares / n - space * space;
	double		covariance = sample->products / n - sample->tuples / n * space;
	double		on_a_page = sample->tuples / n;

	*pages = sample->skipped.pages;
	*tuples = 0;
	if (sample->pages == 0)
		return false;
	if (*pages == 0)
		return true;
	if (variance > 0 && sample->skipped.asked > 0)
		on_a_page +=
			Min(Max(covariance / variance, -1 / BYTES_PER_TUPLE), 0) *
			((double) sample->skipped.space / sample->skipped.asked - space);
	*tuples = rint(Min(Max(on_a_page, 0), MaxHeapTuplesPerPage) * *pages);
	return true;
}
