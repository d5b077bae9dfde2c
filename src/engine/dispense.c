/*-------------------------------------------------------------------------
 *
 * dispense.c
 *	  Hands out ranges of blocks, and the blocks to visit within a range.
 *
 * All participants run this.  A heap pass is one atomic counter:
 *
 *	 0              next                                   end
 *	 |---------------|--------------------------------------|
 *	  claimed ranges  | 4096 | 4096 | 2048 |...| 128 | 128 |
 *
 * A claim takes a share of what is left: large at first, so that claims are
 * few and reading is sequential, and small towards the end, so that all
 * participants end together.  Ranges are whole segments.  A claimed
 * block belongs to its claimer alone until the phase ends, look-ahead
 * included: two processes waiting for a cleanup lock on one buffer is an
 * error, and a pin that a peer holds for look-ahead would be waited for
 * for ever.
 *
 * Within its range a participant reads the visibility map and decides which
 * blocks to visit, some way ahead of where it is, as the reader (engine/reader.c) asks
 * for them:
 *
 *	 range  |..........SSSSSSSSSSSSSSSS........|		S: skippable run
 *	             ^        ^
 *	          visiting   decided, being read
 *
 * Which blocks are skippable the leader has decided for the whole vacuum: all-
 * frozen ones, and all-visible ones unless they are all to be read so that
 * relfrozenxid can advance (engine/vacuum.c, plan_skipping).  Core reads all runs of
 * fewer than 32 skippable blocks, for the kernel's reading ahead and for
 * relfrozenxid.  With our own reading ahead the first reason is gone on most
 * storage, and where the second does not count, every skippable block is
 * skipped in any but small tables, unless it is to be frozen early (engine/eager.c).
 * But where jumps cost much more time than reading on, as they do with few I/O
 * operations a second, core's rule may still be the faster one.  So a participant
 * measures what it takes to get through a stretch of the table with either rule, and
 * goes by the better; now and then it tries the other one, unless that cannot be
 * faster.  In shared buffers nothing is read and nothing measured.
 *
 * Some pages of short runs that are skipped are visited as a sample, so that the number
 * of tuples on the others can be estimated (engine/sample.c).
 *
 * With peers, a run is measured within the range only, because beyond its
 * borders one of them may just have set the bits; cutting it short only makes us
 * visit some blocks more.  The map may be stale; what matters is only that every
 * page which can hold an XID older than OldestXmin is visited, or remembered
 * in skippedallvis.
 * Core: access/heap/vacuumlazy.c (15), lazy_scan_skip.
 *
 * No locks; "next" and "end" are all that is shared and changes, and they only
 * grow.  In a heap pass the end stays.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "engine/dispense.h"

/*
 * Whether to read short runs is decided anew every so many blocks, by what blocks
 * have taken with either rule.  Now and then a stretch tries the other rule: seldom,
 * if it was MUCH_WORSE, for a trial also sets off the kernel's reading ahead.
 */
#define STRETCH_BLOCKS			512
#define TRIAL_EVERY				16
#define SELDOM_EVERY			128
#define MUCH_WORSE				1.5

/* An average is of about so many stretches */
#define COST_HISTORY			8

/* Reading and visiting a block that needs no vacuum hardly takes less */
#define FASTEST_READ_USECS		5.0

/* A claim takes this share of what would be each participant's part */
#define CLAIM_FRACTION			4

/* Furthest look ahead, in blocks */
#define MAX_LOOKAHEAD			128

/*
 * What a rule has cost: microseconds for each block of the table that was passed,
 * visited or skipped.
 */
typedef struct RuleCost
{
	double		usecs;
	double		fastest;
	int			nstretches;		/* measured, up to COST_HISTORY */
} RuleCost;

struct PvBlockScan
{
	Relation	rel;
	PvDispenseShared *shared;
	const PvSkipping *skipping;
	const PvEager *eager;
	bool		skippedallvis;

	/* Deciding: the rule of the stretch that cur is in */
	BlockNumber stretch;
	bool		read_short_runs;
	int			since_trial;	/* stretches */
	BlockNumber short_skipped;	/* in short runs, in stretches that skip them */
	BlockNumber short_of;		/* blocks in those stretches */

	/* Visiting: what is being measured, and what was */
	RuleCost	skip_cost;		/* short runs are skipped */
	RuleCost	read_cost;		/* short runs are read */
	bool		measuring;
	bool		measured_rule;
	BlockNumber measured_blocks;
	instr_time	measured_since;

	BlockNumber range_start;
	BlockNumber range_end;
	BlockNumber cur;			/* next block of the range to decide about */
	BlockNumber visit_until;	/* blocks before this are visited, though
								 * all-visible */
	BlockNumber skip_until;		/* blocks before this are skipped, but for a
								 * sample: a run that core would read */
	BlockNumber long_run_until; /* where the last skipped run ended, if core
								 * would have skipped it too */
	BlockNumber passed;			/* skipped since the last block decided for */
	PvSkippedPages skipped;		/* of them, those that core would read */
	PvSampler  *sampler;
	Buffer		vmbuffer;

	/* Blocks completed, for pv_blockscan_range_done() */
	BlockNumber done_start;
	BlockNumber done_end;

	PvRing	   *ring;
	PvReader   *reader;			/* of the blocks decided for; NULL between phases */
};

/*
 * Leader, between phases: hand out units start .. end - 1 anew.
 */
void
pv_dispense_init(PvDispenseShared *shared, uint32 start, uint32 end,
				 uint32 granule, uint32 max_range, int participants)
{
	Assert(granule > 0 && participants > 0);
	shared->granule = granule;
	shared->max_range = Max(max_range, granule);
	shared->participants = participants;
	pg_atomic_init_u32(&shared->next, Min(start, end));
	pg_atomic_init_u32(&shared->end, end);
}

/*
 * Hand out units up to this end, if it is later than the one so far.
 */
void
pv_dispense_extend(PvDispenseShared *shared, uint32 end)
{
	uint32		before = pg_atomic_read_u32(&shared->end);

	while (before < end &&
		   !pg_atomic_compare_exchange_u32(&shared->end, &before, end))
		 /* somebody was faster */ ;
}

/*
 * Claim the next range [*start, *end).  False if nothing is left.
 */
bool
pv_dispense_claim(PvDispenseShared *shared, uint32 *start, uint32 *end)
{
	uint32		next = pg_atomic_read_u32(&shared->next);
	uint32		size;

	do
	{
		uint32		until = pg_atomic_read_u32(&shared->end);
		uint32		left = until - next;

		if (next >= until)
			return false;
		size = left / (CLAIM_FRACTION * shared->participants);
		size -= size % shared->granule;
		size = Max(size, shared->granule);
		size = Min(size, shared->max_range);
		size = Min(size, left);
	} while (!pg_atomic_compare_exchange_u32(&shared->next, &next, next + size));

	*start = next;
	*end = next + size;
	return true;
}

/*
 * A participant's view of the first heap pass.  Lives in the current context.
 */
PvBlockScan *
pv_blockscan_create(Relation rel, PvRing *ring, PvDispenseShared *shared,
					const PvSkipping *skipping, const PvEager *eager)
{
	PvBlockScan *scan = palloc0(sizeof(PvBlockScan));

	scan->rel = rel;
	scan->ring = ring;
	scan->shared = shared;
	scan->skipping = skipping;
	scan->eager = eager;
	scan->vmbuffer = InvalidBuffer;
	scan->sampler = pv_sampler_create(rel, &skipping->sample);
	scan->long_run_until = InvalidBlockNumber;
	scan->stretch = InvalidBlockNumber;
	return scan;
}

/*
 * May this block be skipped?  Sets *allfrozen to what the map says of it, and *eager
 * if it may not only because it is to be frozen early.
 */
static bool
block_is_skippable(PvBlockScan *scan, BlockNumber blkno, bool *allfrozen,
				   bool *eager)
{
	uint8		mapbits = visibilitymap_get_status(scan->rel, blkno,
												   &scan->vmbuffer);
	bool		allvis = (mapbits & VISIBILITYMAP_ALL_VISIBLE) != 0;

	*allfrozen = (mapbits & VISIBILITYMAP_ALL_FROZEN) != 0;
	*eager = false;

	/*
	 * The table's last block is always visited: knowing whether it has tuples
	 * spares most vacuums a futile attempt at truncation.
	 */
	if (blkno == pg_atomic_read_u32(&scan->shared->end) - 1)
		return false;
	if (!scan->skipping->all_visible)
		return scan->skipping->all_frozen && *allfrozen;
	*eager = allvis && !*allfrozen && pv_eager_wants(scan->eager, blkno);
	return allvis && !*eager;
}

/*
 * Would reading short runs take more time than all that is done now, even if the
 * storage were as fast as can be?  Then it need not be tried.  The fastest stretch
 * counts, since any other may have waited for something else.
 */
static bool
reading_is_hopeless(PvBlockScan *scan)
{
	double		short_share = (double) scan->short_skipped / Max(scan->short_of, 1);

	return short_share * FASTEST_READ_USECS >= scan->skip_cost.fastest;
}

/*
 * A new stretch begins: are short runs to be read in it?  Not before it is known
 * what skipping them takes, nor in shared buffers, where nothing is read.
 */
static bool
choose_rule(PvBlockScan *scan)
{
	double		reading = scan->read_cost.usecs;
	double		skipping = scan->skip_cost.usecs;
	bool		best = reading < skipping;
	bool		clear = Max(reading, skipping) > MUCH_WORSE * Min(reading, skipping);

	if (scan->skipping->rule != PV_SKIP_ADAPTIVE || !pv_reader_reads(scan->reader) ||
		scan->skip_cost.nstretches < COST_HISTORY || reading_is_hopeless(scan))
		return false;
	if (scan->read_cost.nstretches == 0)
		return true;
	if (++scan->since_trial < (clear ? SELDOM_EVERY : TRIAL_EVERY))
		return best;
	scan->since_trial = 0;
	return !best;
}

/*
 * Keep to one rule in a stretch, and to its end in a short run.
 */
static void
enter_stretch(PvBlockScan *scan)
{
	BlockNumber stretch = scan->cur / STRETCH_BLOCKS;

	if (stretch == scan->stretch)
		return;
	scan->stretch = stretch;
	scan->read_short_runs = choose_rule(scan);

	/* What short runs there are now counts for more than what there were */
	if (!scan->read_short_runs)
	{
		scan->short_skipped /= 2;
		scan->short_of = scan->short_of / 2 + STRETCH_BLOCKS;
	}
}

/*
 * A block is about to be visited: measure what blocks take, rule by rule, as long
 * as they are read.
 */
static void
measure(PvBlockScan *scan, const PvScanBlock *block)
{
	instr_time	now,
				taken;
	RuleCost   *cost;
	double		usecs;
	bool		reads = pv_reader_reads(scan->reader);

	if (scan->skipping->rule != PV_SKIP_ADAPTIVE || (!scan->measuring && !reads))
		return;
	scan->measured_blocks += block->passed;
	if (scan->measuring && scan->measured_rule == block->short_runs_read &&
		scan->measured_blocks < STRETCH_BLOCKS)
		return;

	INSTR_TIME_SET_CURRENT(now);
	if (scan->measuring && reads)
	{
		cost = scan->measured_rule ? &scan->read_cost : &scan->skip_cost;
		taken = now;
		INSTR_TIME_SUBTRACT(taken, scan->measured_since);
		usecs = INSTR_TIME_GET_DOUBLE(taken) * 1000000.0 / scan->measured_blocks;
		cost->fastest = cost->nstretches == 0 ? usecs : Min(cost->fastest, usecs);
		cost->nstretches = Min(cost->nstretches + 1, COST_HISTORY);
		cost->usecs += (usecs - cost->usecs) / cost->nstretches;
	}
	scan->measuring = reads;
	scan->measured_rule = block->short_runs_read;
	scan->measured_blocks = 0;
	scan->measured_since = now;
}

/*
 * How long must a run be to be skipped, if some of it is not all-frozen or if all
 * is?
 */
static BlockNumber
shortest_skip(PvBlockScan *scan, bool some_not_frozen)
{
	if (scan->skipping->rule == PV_SKIP_AS_CORE ||
		(some_not_frozen && !scan->skipping->short_unfrozen_runs))
		return PV_CORE_SKIP_THRESHOLD;
	return scan->read_short_runs ? PV_CORE_SKIP_THRESHOLD : 1;
}

/*
 * A skippable run begins at scan->cur.  Find its end, and either skip what of
 * it lies in our range or arrange for it to be visited, all or as a sample.
 */
static void
pass_skippable_run(PvBlockScan *scan)
{
	BlockNumber run_start = scan->cur;
	BlockNumber run_end = scan->cur;
	BlockNumber limit = scan->range_end;
	bool		some_not_frozen = false;
	bool		is_long;
	bool		allfrozen,
				eager;

	/* Alone we may look on, just so far as to know whether the run is long */
	if (scan->shared->participants == 1)
		limit = Max(limit, Min(run_start + PV_CORE_SKIP_THRESHOLD,
							   pg_atomic_read_u32(&scan->shared->end)));

	while (run_end < limit &&
		   block_is_skippable(scan, run_end, &allfrozen, &eager))
	{
		some_not_frozen |= !allfrozen;
		pv_delay_point();
		run_end++;
	}

	/* What continues a long run of our previous range is skipped too */
	if (run_end - run_start < shortest_skip(scan, some_not_frozen) &&
		run_start != scan->long_run_until)
	{
		scan->visit_until = run_end;
		return;
	}

	if (some_not_frozen)
		scan->skippedallvis = true;
	is_long = run_end - run_start >= PV_CORE_SKIP_THRESHOLD ||
		run_start == scan->long_run_until;
	run_end = Min(run_end, scan->range_end);
	scan->long_run_until = is_long ? run_end : InvalidBlockNumber;
	if (!is_long)
	{
		scan->short_skipped += run_end - run_start;
		scan->skip_until = run_end;
		return;
	}
	scan->passed += run_end - run_start;
	scan->cur = run_end;
}

/*
 * Go on in a short run that is skipped, to its end or to a block of the sample.  True
 * if there is one: scan->cur.
 */
static bool
pass_short_run(PvBlockScan *scan)
{
	for (; scan->cur < scan->skip_until; scan->cur++)
	{
		PvSampleSize size = pv_sampler_size(scan->sampler);

		if (pv_sampler_wants(scan->sampler, scan->cur))
			return true;
		scan->passed++;
		scan->skipped.pages[size]++;
		scan->skipped.space[size] += pv_sampler_space(scan->sampler, scan->cur);
	}
	return false;
}

/*
 * Decide for the next block to visit in the current range, some time before it is.
 * None at its end: the next range is not ours yet.
 */
static BlockNumber
decide_next(void *arg, void *about_block)
{
	PvBlockScan *scan = arg;
	PvScanBlock *block = about_block;
	bool		allfrozen,
				eager,
				sampled;

	for (;;)
	{
		eager = false;
		sampled = pass_short_run(scan);
		if (scan->cur >= scan->range_end)
			return InvalidBlockNumber;
		if (!sampled)
		{
			enter_stretch(scan);
			if (scan->cur >= scan->visit_until &&
				block_is_skippable(scan, scan->cur, &allfrozen, &eager))
			{
				pass_skippable_run(scan);
				continue;
			}
		}

		block->sampled = sampled;
		block->sample_size = pv_sampler_size(scan->sampler);
		block->space = sampled ? pv_sampler_space(scan->sampler, scan->cur) : 0;
		block->blkno = scan->cur++;
		block->passed = scan->passed + 1;
		block->short_runs_read = scan->read_short_runs;
		block->eager = eager;
		block->skipped = scan->skipped;
		scan->passed = 0;
		memset(&scan->skipped, 0, sizeof(scan->skipped));
		return block->blkno;
	}
}

/*
 * All of the current range has been visited: claim the next one.
 */
static bool
claim_range(PvBlockScan *scan)
{
	bool		more;

	if (scan->done_end != scan->range_start)
		scan->done_start = scan->range_start;
	scan->done_end = scan->range_end;
	more = pv_dispense_claim(scan->shared, &scan->range_start, &scan->range_end);
	if (!more)
		scan->range_start = scan->range_end = pg_atomic_read_u32(&scan->shared->end);
	scan->cur = scan->visit_until = scan->skip_until = scan->range_start;
	return more;
}

/*
 * The next block to visit, pinned.  False if there is none.
 */
bool
pv_blockscan_next(PvBlockScan *scan, PvScanBlock *block, Buffer *buf)
{
	void	   *about;

	if (scan->reader == NULL)
		scan->reader = pv_reader_create(scan->rel, scan->ring, MAX_LOOKAHEAD,
										sizeof(PvScanBlock), false, decide_next, scan);
	while (!pv_reader_next(scan->reader, buf, &about))
	{
		if (!claim_range(scan))
			return false;
		pv_reader_restart(scan->reader);
	}
	*block = *(PvScanBlock *) about;
	measure(scan, block);
	return true;
}

/*
 * Not now: the block is the first of those that are yet to be visited.  What was
 * decided for those after it is forgotten.
 */
void
pv_blockscan_put_back(PvBlockScan *scan, const PvScanBlock *block, Buffer buf)
{
	ReleaseBuffer(buf);
	scan->cur = scan->skip_until = block->blkno;
	scan->passed = block->passed - 1;
	scan->skipped = block->skipped;
}

/*
 * Have blocks been completed since the last call?  Then return their bounds.
 * If they were several ranges apart from each other, it is the last.
 */
bool
pv_blockscan_range_done(PvBlockScan *scan, BlockNumber *start, BlockNumber *end)
{
	if (scan->done_start == scan->done_end)
		return false;
	*start = scan->done_start;
	*end = scan->done_end;
	scan->done_start = scan->done_end;
	return true;
}

/*
 * The first block that is ours and not yet visited, or the end of the table; when
 * no further one was found or the last one was put back.
 */
BlockNumber
pv_blockscan_position(PvBlockScan *scan)
{
	return scan->cur;
}

/*
 * Did we skip a page that is all-visible but not all-frozen?
 */
bool
pv_blockscan_skippedallvis(PvBlockScan *scan)
{
	return scan->skippedallvis;
}

/*
 * Add what was skipped, of what core would read, after the last block that was
 * visited.  When no further one was found or the last one was put back.
 */
void
pv_blockscan_skipped_rest(PvBlockScan *scan, PvSkippedPages *sum)
{
	pv_sample_add_skipped(sum, &scan->skipped);
	memset(&scan->skipped, 0, sizeof(scan->skipped));
}

/*
 * A page was visited that has so many bytes of free space and so many tuples: what is
 * learned of the table bears on how many pages are visited as a sample.
 */
void
pv_blockscan_learn(PvBlockScan *scan, Size space, int tuples)
{
	pv_sampler_learn(scan->sampler, space, tuples);
}

/*
 * The phase ends: keep our place, but no pin.
 */
void
pv_blockscan_pause(PvBlockScan *scan)
{
	if (BufferIsValid(scan->vmbuffer))
		ReleaseBuffer(scan->vmbuffer);
	scan->vmbuffer = InvalidBuffer;
	pv_sampler_pause(scan->sampler);
	if (scan->reader != NULL)
		pv_reader_free(scan->reader);
	scan->reader = NULL;
	scan->measuring = false;	/* other phases come between */
}
