/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  The number of tuples on pages that are skipped, although core would
 *	  read them.
 *
 * Core assumes that a page that it does not read has as many tuples as the
 * table had on average in the last vacuum.  Core skips only long runs of
 * pages, and often none.  We skip single pages as well, and the skipped pages
 * differ from the visited ones: pages that are not changed are full, and pages
 * that are changed all the time may be nearly empty.  The old average would be
 * wrong for them, and the error would grow with each vacuum, because the
 * result is the average for the next one.
 *
 * So a random sample of the pages in short runs is visited like any other
 * page, and the number of tuples on the rest is estimated from the sample:
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
 * The sampling error is random and independent in each vacuum, so it does not
 * add up.  It grows with the differences between pages, but most of these are
 * known: the free space map says how full each page is, and reading that for
 * all skipped pages costs next to nothing.  So the sample is used to find how
 * the number of tuples depends on the free space, as a straight line by least
 * squares, and the line is applied to the free space of the skipped pages.  If
 * the free space map is wrong or empty, the line is horizontal, and the
 * estimate is the mean of the sample.
 *
 * What remains random is the size of the tuples.  If they all have about the
 * same size, a small sample is sufficient.  All visited pages show that, also
 * those that must be visited.  So a participant begins with a large sample,
 * continues with a small one if the pages seen so far are close to a line, and
 * returns to the large one if later pages are not.  The pages skipped under
 * each of the two are estimated separately, by their own sample.
 *
 * Which pages: the table is divided into groups of the same number of blocks.
 * One block of each group, chosen by a hash of the group's number, is in the
 * sample if it is in a short run that is skipped.  So each page has the same
 * chance, every part of the table is represented, participants need not
 * communicate, and the choice is the same if a block is decided about twice.
 *
 * The leader plans and estimates; all participants do the rest.  No locks: the
 * free space map is read without them, as by core.
 *
 * Core: commands/vacuum.c, vac_estimate_reltuples;
 * storage/freespace/freespace.c, fsm_logical_to_physical and
 * GetRecordedFreeSpace.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "storage/bufmgr.h"
#include "storage/fsm_internals.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "engine/sample.h"

/*
 * The sample may always be as large as this fraction of the pages that have to
 * be visited anyway.
 */
#define CHEAP_SHARE				0.0625

/* A small sample is this fraction of a large one */
#define SMALL_PART				0.0625

/*
 * A small sample is sufficient if the standard deviation of pages from the
 * line is at most SAME_SIZE of the tuples on a full page.
 */
#define SAME_SIZE				0.05

/* Bytes of a unit of space in the free space map, and of the smallest tuple */
#define BYTES_PER_SPACE			((double) BLCKSZ / 256)
#define BYTES_PER_TUPLE \
	(MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData))

/* Levels of the free space map */
#define MAP_LEVELS				((SlotsPerFSMPage >= 1626) ? 3 : 4)

/* No group, or no page of the free space map, is known yet */
#define NO_GROUP				PG_UINT64_MAX
#define NO_LEAF					PG_UINT32_MAX

struct PvSampler
{
	Relation	rel;
	const PvSamplePlan *plan;
	PvSampleSize size;
	PvPageSums	seen;			/* pages that were visited for any reason */
	uint64		group;			/* the group whose block is known */
	BlockNumber wanted;
	uint32		leaf;			/* bottom-level page of the free space map,
								 * and its buffer if the page exists */
	Buffer		leafbuf;
};

/*
 * One page of how many must be chosen to have the wanted number of them?  At
 * least one of all, and at most all.
 */
static uint32
one_in(BlockNumber pages, double wanted)
{
	double		every = rint(pages / Max(wanted, 1.0));

	return (uint32) Max(Min(every, (double) pages), 1.0);
}

/*
 * Leader, before launch: choose the number of skippable pages to be visited if
 * all of them were in short runs.
 *
 * In a table with only skippable pages a large sample has "pages" pages.  If
 * only a part of the table is skippable, the square of that fraction gives the
 * same error in relation to the whole.  And if many pages have to be read
 * anyway, some more do not matter.
 */
void
pv_sample_plan(PvSamplePlan *plan, BlockNumber pages, BlockNumber rel_pages,
			   BlockNumber skippable)
{
	double		share = (double) skippable / Max(rel_pages, 1);
	double		large = pages * share * share;
	double		cheap = (rel_pages - skippable) * CHEAP_SHARE;

	memset(plan, 0, sizeof(*plan));
	if (pages == 0 || skippable == 0)
		return;
	plan->every[PV_SAMPLE_LARGE] = one_in(skippable, Max(large, cheap));
	plan->every[PV_SAMPLE_SMALL] =
		one_in(skippable, Max(large * SMALL_PART, cheap));
	plan->seed = pg_prng_uint64(&pg_global_prng_state);
}

/*
 * Create a sampler in the current memory context.
 */
PvSampler *
pv_sampler_create(Relation rel, const PvSamplePlan *plan)
{
	PvSampler  *sampler = palloc0(sizeof(PvSampler));

	sampler->rel = rel;
	sampler->plan = plan;
	sampler->size = PV_SAMPLE_LARGE;
	sampler->group = NO_GROUP;
	sampler->leaf = NO_LEAF;
	sampler->leafbuf = InvalidBuffer;
	return sampler;
}

/*
 * Continue with this size of the sample.
 */
void
pv_sampler_assume(PvSampler *sampler, PvSampleSize size)
{
	if (size != sampler->size)
		sampler->group = NO_GROUP;
	sampler->size = size;
}

/*
 * Is this block, of a short run that is skipped, in the sample?
 */
bool
pv_sampler_wants(PvSampler *sampler, BlockNumber blkno)
{
	uint32		every = sampler->plan->every[sampler->size];

	if (every == 0)
		return false;
	if (blkno / every != sampler->group)
	{
		sampler->group = blkno / every;
		sampler->wanted = sampler->group * every +
			hash_bytes_uint32_extended((uint32) sampler->group,
									   sampler->plan->seed) %
			every;
	}
	return blkno == sampler->wanted;
}

/*
 * Which sample is for the block asked about last?
 */
PvSampleSize
pv_sampler_size(const PvSampler *sampler)
{
	return sampler->size;
}

/*
 * The position in the free space map of the page that has the space of heap
 * pages.  Each upper-level page comes before the pages below it.
 */
static BlockNumber
leaf_block(uint32 leaf)
{
	BlockNumber before = 0;

	for (int level = 0; level < MAP_LEVELS; level++)
	{
		before += leaf + 1;
		leaf /= SlotsPerFSMPage;
	}
	return before - 1;
}

/*
 * Pin a page of the free space map, if it exists.  The map is only a hint, so
 * a broken page is taken as empty, and a map that is created now is not
 * noticed.
 */
static void
enter_leaf(PvSampler *sampler, uint32 leaf)
{
	SMgrRelation reln = RelationGetSmgr(sampler->rel);
	BlockNumber blkno = leaf_block(leaf);

	pv_sampler_pause(sampler);
	sampler->leaf = leaf;
	if (!smgrexists(reln, FSM_FORKNUM) ||
		blkno >= smgrnblocks(reln, FSM_FORKNUM))
		return;
	sampler->leafbuf = ReadBufferExtended(sampler->rel, FSM_FORKNUM, blkno,
										  RBM_ZERO_ON_ERROR, NULL);
}

/*
 * The free space of a page in the units of the free space map.
 */
uint8
pv_sampler_space(PvSampler *sampler, BlockNumber blkno)
{
	uint32		leaf = blkno / SlotsPerFSMPage;

	if (sampler->plan->every[sampler->size] == 0)
		return 0;
	if (leaf != sampler->leaf)
		enter_leaf(sampler, leaf);
	if (!BufferIsValid(sampler->leafbuf))
		return 0;
	return fsm_get_avail(BufferGetPage(sampler->leafbuf),
						 blkno % SlotsPerFSMPage);
}

/*
 * Release the pin.
 */
void
pv_sampler_pause(PvSampler *sampler)
{
	if (BufferIsValid(sampler->leafbuf))
		ReleaseBuffer(sampler->leafbuf);
	sampler->leafbuf = InvalidBuffer;
	sampler->leaf = NO_LEAF;
}

/*
 * Fit a line and set *slope: the number of tuples for each additional unit of
 * free space.  Returns the mean square of the deviations of pages from the
 * line.
 *
 * More free space never means more tuples, and a tuple takes a minimum number
 * of bytes.  These bounds limit the effect of a few unusual pages on the
 * slope.
 */
static double
fit_line(const PvPageSums *sums, double *slope)
{
	double		n = sums->pages;
	double		tuples = sums->tuples / n;
	double		space = sums->space / n;
	double		tuple_variance = sums->tuple_squares / n - tuples * tuples;
	double		space_variance = sums->space_squares / n - space * space;
	double		covariance = sums->products / n - tuples * space;

	*slope = 0;
	if (space_variance > 0)
		*slope = Min(Max(covariance / space_variance,
						 -BYTES_PER_SPACE / BYTES_PER_TUPLE),
					 0);
	return tuple_variance - 2 * *slope * covariance +
		*slope * *slope * space_variance;
}

/*
 * Do pages have about as many tuples as the line says?  Then a small sample is
 * sufficient.
 */
static bool
is_uniform(const PvPageSums *sums)
{
	double		slope;
	double		deviation = sqrt(Max(fit_line(sums, &slope), 0));
	double		on_full_page = (sums->tuples - slope * sums->space) /
		sums->pages;

	return deviation <= SAME_SIZE * on_full_page;
}

/*
 * Learn from a page that was visited for any reason, and choose the size of
 * the sample again.  space is its free space in bytes; tuples includes dead
 * tuples that take space.
 */
void
pv_sampler_learn(PvSampler *sampler, Size space, int tuples)
{
	const uint32 *every = sampler->plan->every;

	if (every[PV_SAMPLE_LARGE] == every[PV_SAMPLE_SMALL])
		return;
	pv_sample_add_page(&sampler->seen, (uint8) (space * 256 / BLCKSZ), tuples);
	if (sampler->seen.pages % PV_SAMPLE_LEARN_EVERY != 0)
		return;
	pv_sampler_assume(sampler, is_uniform(&sampler->seen) ?
					  PV_SAMPLE_SMALL : PV_SAMPLE_LARGE);
}

/*
 * Add a page to the sums.
 */
void
pv_sample_add_page(PvPageSums *sums, uint8 space, int64 tuples)
{
	sums->pages++;
	sums->tuples += tuples;
	sums->tuple_squares += tuples * tuples;
	sums->space += space;
	sums->space_squares += (int64) space * space;
	sums->products += space * tuples;
}

/*
 * Add sums over pages to others.
 */
static void
add_sums(PvPageSums *to, const PvPageSums *from)
{
	to->pages += from->pages;
	to->tuples += from->tuples;
	to->tuple_squares += from->tuple_squares;
	to->space += from->space;
	to->space_squares += from->space_squares;
	to->products += from->products;
}

/*
 * Add skipped pages to a sum.
 */
void
pv_sample_add_skipped(PvSkippedPages *sum, const PvSkippedPages *part)
{
	for (int size = 0; size < PV_SAMPLE_SIZES; size++)
	{
		sum->pages[size] += part->pages[size];
		sum->space[size] += part->space[size];
	}
}

/*
 * Add what one participant knows to the sum.
 */
void
pv_sample_add(PvSample *sum, const PvSample *part)
{
	pv_sample_add_skipped(&sum->skipped, &part->skipped);
	for (int size = 0; size < PV_SAMPLE_SIZES; size++)
		add_sums(&sum->visited[size], &part->visited[size]);
}

/*
 * Estimate the tuples on a number of pages with the given total free space, by
 * a sample.
 */
static double
estimate(const PvPageSums *sample, BlockNumber pages, int64 space)
{
	double		n = sample->pages;
	double		slope;
	double		on_a_page;

	(void) fit_line(sample, &slope);
	on_a_page = sample->tuples / n +
		slope * ((double) space / pages - sample->space / n);
	return Min(Max(on_a_page, 0), MaxHeapTuplesPerPage) * pages;
}

/*
 * Estimate the live tuples on the pages that were skipped, and return the
 * number of these pages.  Returns false if there is no sample.  If only one of
 * the two parts has a sample, because the other has only a few pages, that
 * sample is used for both.
 */
bool
pv_sample_estimate(const PvSample *sample, BlockNumber *pages, double *tuples)
{
	const PvPageSums *visited = sample->visited;

	*pages = 0;
	*tuples = 0;
	for (int size = 0; size < PV_SAMPLE_SIZES; size++)
	{
		BlockNumber skipped = sample->skipped.pages[size];
		int			by = visited[size].pages > 0 ? size :
			PV_SAMPLE_SIZES - 1 - size;

		*pages += skipped;
		if (visited[by].pages > 0 && skipped > 0)
			*tuples +=
				estimate(&visited[by], skipped, sample->skipped.space[size]);
	}
	*tuples = rint(*tuples);
	return visited[PV_SAMPLE_LARGE].pages + visited[PV_SAMPLE_SMALL].pages > 0;
}
