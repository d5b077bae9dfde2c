/*-------------------------------------------------------------------------
 *
 * dispense.c
 *	  Decides which blocks of the claimed ranges the heap scan visits.
 *
 * All participants run this.  They claim ranges of blocks (engine/claim.h).  A
 * claim takes a share of what is left.  The first ranges are large, so that
 * claims are few and reading is sequential.  The last ones are small, so that
 * all participants end at about the same time.  Ranges are whole segments.  A
 * claimed block belongs to one participant alone until the phase ends, reading
 * ahead included.  The reason is the cleanup lock: two processes that wait for
 * a cleanup lock on the same buffer are an error, and a process would wait
 * forever for a pin that another one holds for reading ahead.
 *
 * Within its range a participant reads the visibility map and decides which
 * blocks to visit, some blocks ahead of the one that it is working on, as the
 * reader (engine/reader.c) asks for them:
 *
 *	 range  |..........SSSSSSSSSSSSSSSS........|		S: skippable run
 *	             ^        ^
 *	          visiting   decided, being read
 *
 * The leader has decided for the whole vacuum which blocks are skippable, and
 * how short a run of them is read nevertheless (pv_plan_skipping()).  Core
 * reads all runs of fewer than 32 skippable blocks, for the sake of the
 * kernel's readahead and of relfrozenxid.  Of the runs that we skip and core
 * reads, some pages are visited as a sample (engine/sample.c).
 *
 * With several participants, a run is measured within the range only.  Beyond
 * its borders another participant may just have set the bits.  Cutting a run
 * short only makes us visit some more blocks.  The map may be out of date.
 * The only requirement is that every page that can have an XID older than
 * OldestXmin is visited, or remembered in skippedallvis.
 *
 * No locks.  The shared counters are those of engine/claim.h; the end of the
 * blocks does not change in a heap pass.
 *
 * Core: access/heap/vacuumlazy.c (15), lazy_scan_skip.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "engine/dispense.h"
#include "store/container.h"

/*
 * A page of the visibility map is words behind the page header, with two bits
 * for each block.
 */
#define BLOCKS_PER_WORD			32
#define BLOCKS_PER_MAP_PAGE		((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * 4)

/* Largest distance of reading ahead, in blocks */
#define MAX_LOOKAHEAD			128

/* What to do with a block, according to the visibility map */
typedef enum BlockChoice
{
	BLOCK_VISIT,
	BLOCK_VISIT_EAGERLY,		/* all-visible, but can perhaps be frozen */
	BLOCK_SKIP_VISIBLE,			/* all-visible, not all-frozen */
	BLOCK_SKIP_FROZEN			/* all-frozen */
} BlockChoice;

/*
 * Create a participant's state for the first heap pass, in the current memory
 * context.
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
	scan->long_run_until = InvalidBlockNumber;
	return scan;
}

/* In debug builds: note whether the map, as it is now, allows to skip a block */
static inline void
note_allowed(PvBlockScan *scan, BlockNumber blkno, bool allowed)
{
#ifdef USE_ASSERT_CHECKING
	uint32		i = blkno - scan->range_start;
	uint8		bit = 1 << i % BITS_PER_BYTE;

	if (blkno >= scan->range_end)
		return;
	if (allowed)
		scan->allowed[i / BITS_PER_BYTE] |= bit;
	else
		scan->allowed[i / BITS_PER_BYTE] &= ~bit;
#endif
}

/*
 * Pass blocks without visiting them, from the current one on.  In any case the
 * map must have allowed it when it was read last.
 */
static inline void
pass_until(PvBlockScan *scan, BlockNumber end)
{
#ifdef USE_ASSERT_CHECKING
	for (BlockNumber i = scan->cur - scan->range_start;
		 i < end - scan->range_start; i++)
		Assert(scan->allowed[i / BITS_PER_BYTE] & (1 << i % BITS_PER_BYTE));
#endif
	scan->passed += end - scan->cur;
	scan->cur = end;
}

static inline bool
is_skippable(BlockChoice choice)
{
	return choice == BLOCK_SKIP_VISIBLE || choice == BLOCK_SKIP_FROZEN;
}

/* Decide by the visibility map whether a block may be skipped. */
static BlockChoice
choose_block(PvBlockScan *scan, BlockNumber blkno)
{
	const PvSkipping *skipping = scan->skipping;
	uint8		mapbits = visibilitymap_get_status(scan->rel, blkno,
												   &scan->vmbuffer);
	BlockChoice choice = BLOCK_VISIT;

	/*
	 * The table's last block is always visited.  Knowing whether it has
	 * tuples saves most vacuums a useless attempt at truncation.
	 */
	if (blkno == pg_atomic_read_u32(&scan->shared->end) - 1 ||
		(skipping->all_visible && !(mapbits & VISIBILITYMAP_ALL_VISIBLE)))
		choice = BLOCK_VISIT;
	else if (mapbits & VISIBILITYMAP_ALL_FROZEN)
		choice = skipping->all_frozen ? BLOCK_SKIP_FROZEN : BLOCK_VISIT;
	else if (skipping->all_visible)
		choice = pv_eager_wants(scan->eager, blkno) ? BLOCK_VISIT_EAGERLY :
			BLOCK_SKIP_VISIBLE;

	note_allowed(scan, blkno, is_skippable(choice));
	return choice;
}

/*
 * Go from a block towards limit as long as whole words of the map say that all
 * of their blocks are all-frozen.  Return the first block that is not passed.
 * Huge tables are all-frozen but for a few pages, and looking at each block
 * would take most of their vacuum.  No lock, as in core's function.
 */
static BlockNumber
pass_frozen_words(PvBlockScan *scan, BlockNumber blkno, BlockNumber limit)
{
	if (!scan->skipping->all_frozen || blkno % BLOCKS_PER_WORD != 0)
		return blkno;
	for (; limit - blkno >= BLOCKS_PER_WORD; blkno += BLOCKS_PER_WORD)
	{
		uint8		mapbits = visibilitymap_get_status(scan->rel, blkno,
													   &scan->vmbuffer);
		const uint64 *words;

		/* If the block is all-frozen, its page of the map is pinned */
		if (!(mapbits & VISIBILITYMAP_ALL_FROZEN))
			break;
		words = (const uint64 *)
			PageGetContents(BufferGetPage(scan->vmbuffer));
		if (words[blkno % BLOCKS_PER_MAP_PAGE / BLOCKS_PER_WORD] !=
			PG_UINT64_MAX)
			break;
		for (BlockNumber i = 0; i < BLOCKS_PER_WORD; i++)
			note_allowed(scan, blkno + i, true);
	}
	return blkno;
}

/*
 * Find the end of the skippable run that begins at a block, but do not look at
 * blocks from limit on.  *some_not_frozen becomes true if a block of the run
 * is not all-frozen.
 */
static BlockNumber
find_run_end(PvBlockScan *scan, BlockNumber blkno, BlockNumber limit,
			 bool *some_not_frozen)
{
	/* The table's last block is always visited */
	BlockNumber last = pg_atomic_read_u32(&scan->shared->end) - 1;

	for (; blkno < limit; blkno++)
	{
		BlockChoice choice;

		blkno = pass_frozen_words(scan, blkno, Min(limit, last));
		if (blkno >= limit)
			break;
		choice = choose_block(scan, blkno);
		if (!is_skippable(choice))
			break;
		*some_not_frozen |= choice == BLOCK_SKIP_VISIBLE;
	}
	return blkno;
}

/*
 * Deal with the skippable run that begins at scan->cur.  Find its end, and
 * either skip the part of it that is in our range, or arrange for it to be
 * visited, completely or as a sample.
 */
static void
pass_skippable_run(PvBlockScan *scan)
{
	BlockNumber run_start = scan->cur;
	BlockNumber run_end;
	BlockNumber limit = scan->range_end;
	BlockNumber shortest = scan->skipping->shortest;
	bool		some_not_frozen = false;
	bool		is_long;

	/*
	 * A single participant may look beyond its range, just far enough to know
	 * whether the run is long
	 */
	if (scan->shared->participants == 1)
		limit = Max(limit, Min(run_start + PV_CORE_SKIP_THRESHOLD,
							   pg_atomic_read_u32(&scan->shared->end)));

	run_end = find_run_end(scan, run_start, limit, &some_not_frozen);

	if (some_not_frozen)
		shortest = scan->skipping->shortest_unfrozen;

	/* The continuation of a long run of our previous range is skipped too */
	if (run_end - run_start < shortest &&
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
	if (is_long)
		pass_until(scan, run_end);
	else
		scan->skip_until = run_end;
}

/*
 * Go on in a short run that is skipped, to its end or to a block of the
 * sample.  Return true if there is such a block, at scan->cur.
 */
static bool
pass_short_run(PvBlockScan *scan)
{
	while (scan->cur < scan->skip_until)
	{
		if (pv_sample_wants(&scan->skipping->sample, scan->cur))
			return true;
		scan->skipped.pages++;
		if (pv_sample_asks(&scan->skipping->sample, scan->cur))
		{
			scan->skipped.asked++;
			scan->skipped.space += GetRecordedFreeSpace(scan->rel, scan->cur);
		}
		pass_until(scan, scan->cur + 1);
	}
	return false;
}

/*
 * Callback of the reader: decide which block of the current range is visited
 * next.  There is none at the end of the range, because the next range is not
 * claimed yet.
 */
static BlockNumber
decide_next(void *arg, void *about_block)
{
	PvBlockScan *scan = arg;
	PvScanBlock *block = about_block;

	for (;;)
	{
		BlockChoice choice = BLOCK_VISIT;
		bool		sampled = pass_short_run(scan);

		if (scan->cur >= scan->range_end)
			return InvalidBlockNumber;
		if (!sampled && scan->cur >= scan->visit_until)
			choice = choose_block(scan, scan->cur);
		if (is_skippable(choice))
		{
			pass_skippable_run(scan);
			continue;
		}

		block->sampled = sampled;
		block->space = sampled ?
			GetRecordedFreeSpace(scan->rel, scan->cur) : 0;
		block->blkno = scan->cur++;
		block->passed = scan->passed + 1;
		block->eager = choice == BLOCK_VISIT_EAGERLY;
		block->skipped = scan->skipped;
		scan->passed = 0;
		memset(&scan->skipped, 0, sizeof(scan->skipped));
		return block->blkno;
	}
}

/*
 * Continue with this block of the range.  Nothing is decided about it and the
 * blocks after it.
 */
static void
go_to(PvBlockScan *scan, BlockNumber blkno)
{
	scan->cur = scan->visit_until = scan->skip_until = blkno;
}

/*
 * Claim the next range, after all of the current one has been visited.  Return
 * false if nothing is left.
 */
bool
pv_blockscan_claim(PvBlockScan *scan)
{
	bool		more = pv_dispense_claim(scan->shared, &scan->range_start,
										 &scan->range_end);

	if (!more)
		scan->range_start = scan->range_end =
			pg_atomic_read_u32(&scan->shared->end);
	go_to(scan, scan->range_start);
#ifdef USE_ASSERT_CHECKING
	memset(scan->allowed, 0, sizeof(scan->allowed));
#endif
	if (scan->reader != NULL)
		pv_reader_restart(scan->reader);
	return more;
}

/*
 * Get the next block to visit in the range, pinned.  Return false if there is
 * none.
 */
bool
pv_blockscan_next(PvBlockScan *scan, PvScanBlock *block, Buffer *buf)
{
	void	   *about;

	if (scan->reader == NULL)
		scan->reader = pv_reader_create(scan->rel, scan->ring, MAX_LOOKAHEAD,
										sizeof(PvScanBlock), false,
										decide_next, scan);
	if (!pv_reader_next(scan->reader, buf, &about))
		return false;
	*block = *(PvScanBlock *) about;
	return true;
}

/*
 * Put a block back, so that it is the first of those still to be visited.  The
 * decisions for the blocks after it are discarded.
 */
void
pv_blockscan_put_back(PvBlockScan *scan, const PvScanBlock *block, Buffer buf)
{
	ReleaseBuffer(buf);
	go_to(scan, block->blkno);
	scan->passed = block->passed - 1;
	scan->skipped = block->skipped;
}

/*
 * Return the number of blocks that were passed after the last one that was
 * visited, and add those of them that core would read to *sum.  Call this when
 * no further block was found, or the last one was put back.  It counts each
 * block once.
 */
BlockNumber
pv_blockscan_rest(PvBlockScan *scan, PvSkippedPages *sum)
{
	BlockNumber passed = scan->passed;

	pv_sample_add_skipped(sum, &scan->skipped);
	memset(&scan->skipped, 0, sizeof(scan->skipped));
	scan->passed = 0;
	return passed;
}

/* End the phase: keep the position, but no pin. */
void
pv_blockscan_pause(PvBlockScan *scan)
{
	if (BufferIsValid(scan->vmbuffer))
		ReleaseBuffer(scan->vmbuffer);
	scan->vmbuffer = InvalidBuffer;
	if (scan->reader != NULL)
		pv_reader_free(scan->reader);
	scan->reader = NULL;
}

/*
 * Decide about all blocks without visiting any: call the function for each
 * block that a heap scan by this number of participants would visit.  Returns
 * whether it would skip a page that is all-visible but not all-frozen.
 *
 * It decides as one participant would that claims all ranges.  Eagerly scanned
 * pages count as frozen.  The caller has any lock on the table.
 */
bool
pv_blockscan_preview(Relation rel, BlockNumber rel_pages, int participants,
					 const PvSkipping *skipping, const PvEagerPlan *plan,
					 void (*visit) (BlockNumber blkno, void *arg), void *arg)
{
	PvDispenseShared shared;
	pg_atomic_uint32 successes_left;
	PvEager		eager = {.plan = plan,.successes_left = &successes_left};
	PvBlockScan *scan;
	PvScanBlock block;

	eager.failures_left = palloc((plan->nregions + 1) *
								 sizeof(pg_atomic_uint32));
	pv_eager_init(&eager);
	pv_dispense_init(&shared, 0, rel_pages, PV_SEGMENT_BLOCKS,
					 PV_RANGE_MAX_BLOCKS, participants);
	scan = pv_blockscan_create(rel, NULL, &shared, skipping, &eager);
	while (pv_blockscan_claim(scan))
	{
		CHECK_FOR_INTERRUPTS();
		while (decide_next(scan, &block) != InvalidBlockNumber)
		{
			CHECK_FOR_INTERRUPTS();
			if (block.eager)
				pv_eager_count(&eager, block.blkno, true);
			visit(block.blkno, arg);
		}
	}
	pv_blockscan_pause(scan);
	return scan->skippedallvis;
}
