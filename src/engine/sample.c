/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  How many tuples there are on pages that are skipped, but that core would read.
 *
 * Core takes it that a page that it does not read has as many tuples as the table had
 * on average when it was last vacuumed.  It skips long runs of pages only, and often
 * none.  We skip single pages as well, and what is skipped differs from what is
 * visited: pages that nobody changes are full, and those that are changed all the time
 * may be nearly empty.  To give all the old average would be wrong, by more with each
 * vacuum, as the result is the next one's average.
 *
 * So a random sample of the short runs' pages is visited like any other page, and the
 * rest of them is given what the sample has:
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
 * The error of the sample is a matter of chance, and new in each vacuum: it does not
 * add up.  It grows with how much pages differ.  But most of that difference is known:
 * of each page the free space map says how full it is, and to read it of all skipped
 * pages costs next to nothing.  So the sample is used to learn how the number of
 * tuples depends on the space (a straight line, by least squares), and the line is
 * applied to the space of the skipped pages.  Where the free space map is wrong or
 * says nothing, the line is level, and the mean of the sample is left.
 *
 * What is left to chance is how large tuples are, and where they are all about equal
 * a small sample will do.  All visited pages tell of that, those too that have to be
 * visited.  So a participant begins with a large sample, goes on with a small one if
 * the pages that it has seen lie close to a line, and comes back if others do not.  The
 * two parts of what it has skipped are estimated each by its own sample.
 *
 * Which pages: the table is cut into groups of equally many blocks, and one block of
 * each, drawn by a hash of the group's number, is in the sample if it is in a short run
 * that is skipped.  So each page has the same chance, every region has its part, each
 * participant knows without asking the others, and a block that is decided for twice is
 * decided for in the same way.
 *
 * The leader plans and estimates; all participants do the rest.  No locks: the free
 * space map is read without, as by core.
 * Core: commands/vacuum.c, vac_estimate_reltuples; storage/freespace/freespace.c,
 * fsm_logical_to_physical, GetRecordedFreeSpace.
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
 * The sample may also be so large in comparison to the pages that have to be visited
 * anyway.
 */
#define CHEAP_SHARE				0.0625

/* A small sample is this part of a large one */
#define SMALL_PART				0.0625

/*
 * Whether it will do is decided every so many pages.  They may differ from the line by
 * so much of what a full page has; that is the standard deviation.
 */
#define LEARN_EVERY				16
#define SAME_SIZE				0.05

/* Bytes of a unit of space in the free space map, and of the smallest tuple */
#define BYTES_PER_SPACE			((double) BLCKSZ / 256)
#define BYTES_PER_TUPLE			(MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData))

/* Levels of the free space map */
#define MAP_LEVELS				((SlotsPerFSMPage >= 1626) ? 3 : 4)

struct PvSampler
{
	Relation	rel;
	const PvSamplePlan *plan;
	PvSampleSize size;
	PvPageSums	seen;			/* pages that were visited for any reason */
	uint64		group;			/* whose block is known */
	BlockNumber wanted;
	uint32		leaf;			/* page of the free space map, of those with
								 * heap pages, and its buffer if it is there */
	Buffer		leafbuf;
};

/*
 * Of how many pages must one be chosen to have this number of them?  At least of one, and
 * at most of all.
 */
static uint32
one_in(BlockNumber pages, double wanted)
{
	double		every = rint(pages / Max(wanted, 1.0));

	return (uint32) Max(Min(every, (double) pages), 1.0);
}

/*
 * Leader, before launch: choose how many of the skippable pages are to be visited, if
 * all of them were in short runs.  In a table that has no others a large sample has
 * "pages".  Where only a part of the table is skippable, its square's part gives the
 * same error in relation to the whole.  And where many pages have to be read, some more
 * do not matter.
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
	plan->every[PV_SAMPLE_SMALL] = one_in(skippable, Max(large * SMALL_PART, cheap));
	plan->seed = pg_prng_uint64(&pg_global_prng_state);
}

/*
 * Lives in the current context.
 */
PvSampler *
pv_sampler_create(Relation rel, const PvSamplePlan *plan)
{
	PvSampler  *sampler = palloc0(sizeof(PvSampler));

	sampler->rel = rel;
	sampler->plan = plan;
	sampler->size = PV_SAMPLE_LARGE;
	sampler->group = PG_UINT64_MAX;
	sampler->leaf = PG_UINT32_MAX;
	sampler->leafbuf = InvalidBuffer;
	return sampler;
}

/*
 * Is this block, of a short run that is skipped, to be visited all the same?
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
			hash_bytes_uint32_extended((uint32) sampler->group, sampler->plan->seed) % every;
	}
	return blkno == sampler->wanted;
}

/*
 * What sample is there of the block that was just asked for?
 */
PvSampleSize
pv_sampler_size(const PvSampler *sampler)
{
	return sampler->size;
}

/*
 * Where a page that has the space of heap pages is in the free space map: each upper
 * page comes before the pages below it.
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
 * Pin the page of the free space map, if there is one.  The map is no more than a hint,
 * so what is broken is taken for empty, and what comes into being now is not looked for.
 */
static void
enter_leaf(PvSampler *sampler, uint32 leaf)
{
	SMgrRelation reln = RelationGetSmgr(sampler->rel);
	BlockNumber blkno = leaf_block(leaf);

	pv_sampler_pause(sampler);
	sampler->leaf = leaf;
	if (!smgrexists(reln, FSM_FORKNUM) || blkno >= smgrnblocks(reln, FSM_FORKNUM))
		return;
	sampler->leafbuf = ReadBufferExtended(sampler->rel, FSM_FORKNUM, blkno,
										  RBM_ZERO_ON_ERROR, NULL);
}

/*
 * How much space does a page have, in the free space map's units?
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
	return fsm_get_avail(BufferGetPage(sampler->leafbuf), blkno % SlotsPerFSMPage);
}

/*
 * Keep no pin.
 */
void
pv_sampler_pause(PvSampler *sampler)
{
	if (BufferIsValid(sampler->leafbuf))
		ReleaseBuffer(sampler->leafbuf);
	sampler->leafbuf = InvalidBuffer;
	sampler->leaf = PG_UINT32_MAX;
}

/*
 * Fit a line: what a unit more of space means in tuples.  Returns the mean square of
 * what pages differ from it.
 *
 * More space never means more tuples, and a tuple takes some bytes at least.  So what
 * a few odd pages can say of the slope is bounded.
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
		*slope = Min(Max(covariance / space_variance, -BYTES_PER_SPACE / BYTES_PER_TUPLE), 0);
	return tuple_variance - 2 * *slope * covariance + *slope * *slope * space_variance;
}

/*
 * Do pages have about as many tuples as their line says?
 */
static bool
are_close_to_line(const PvPageSums *sums)
{
	double		slope;
	double		deviation = sqrt(Max(fit_line(sums, &slope), 0));
	double		on_full_page = (sums->tuples - slope * sums->space) / sums->pages;

	return deviation <= SAME_SIZE * on_full_page;
}

/*
 * A page was visited, for whatever reason, that has so many bytes of free space and so
 * many tuples, dead ones included if they take space: choose anew what sample is
 * needed.
 */
void
pv_sampler_learn(PvSampler *sampler, Size space, int tuples)
{
	const uint32 *every = sampler->plan->every;
	PvSampleSize size;

	if (every[PV_SAMPLE_LARGE] == every[PV_SAMPLE_SMALL])
		return;
	pv_sample_add_page(&sampler->seen, (uint8) (space * 256 / BLCKSZ), tuples);
	if (sampler->seen.pages % LEARN_EVERY != 0)
		return;
	size = are_close_to_line(&sampler->seen) ? PV_SAMPLE_SMALL : PV_SAMPLE_LARGE;
	if (size != sampler->size)
		sampler->group = PG_UINT64_MAX;
	sampler->size = size;
}

/*
 * Add a page to sums.
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
 * Add pages that were skipped to those that were before.
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
 * Add what one participant knows to what others do.
 */
void
pv_sample_add(PvSample *sum, const PvSample *part)
{
	pv_sample_add_skipped(&sum->skipped, &part->skipped);
	for (int size = 0; size < PV_SAMPLE_SIZES; size++)
	{
		PvPageSums *to = &sum->visited[size];
		const PvPageSums *from = &part->visited[size];

		to->pages += from->pages;
		to->tuples += from->tuples;
		to->tuple_squares += from->tuple_squares;
		to->space += from->space;
		to->space_squares += from->space_squares;
		to->products += from->products;
	}
}

/*
 * Tuples on so many pages with so much space together, by a sample of their like.
 */
static double
estimate(const PvPageSums *sample, BlockNumber pages, int64 space)
{
	double		n = sample->pages;
	double		slope;
	double		on_a_page;

	(void) fit_line(sample, &slope);
	on_a_page = sample->tuples / n + slope * ((double) space / pages - sample->space / n);
	return Min(Max(on_a_page, 0), MaxHeapTuplesPerPage) * pages;
}

/*
 * The pages that were skipped, and the live tuples on them.  False if there is no
 * sample.  A part that has none, as it has only a few pages, is given the other's.
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
		int			by = visited[size].pages > 0 ? size : PV_SAMPLE_SIZES - 1 - size;

		*pages += skipped;
		if (visited[by].pages > 0 && skipped > 0)
			*tuples += estimate(&visited[by], skipped, sample->skipped.space[size]);
	}
	*tuples = rint(*tuples);
	return visited[PV_SAMPLE_LARGE].pages + visited[PV_SAMPLE_SMALL].pages > 0;
}
