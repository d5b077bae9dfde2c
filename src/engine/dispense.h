/*-------------------------------------------------------------------------
 *
 * dispense.h
 *	  The blocks that the heap scan visits within the claimed ranges,
 *	  and how they are read ahead.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DISPENSE_H
#define PV_DISPENSE_H

#include "utils/relcache.h"

#include "base/compat.h"
#include "base/ring.h"
#include "engine/claim.h"

/* Reading blocks ahead (reader.c) */

/* Reading ahead by hints to the kernel */
typedef struct PvLookahead
{
	int			distance;		/* blocks */
	bool		active;			/* it is of use now */
	int			cached_run;		/* consecutive prefetches that found the block
								 * in shared buffers */
	int64		misses;			/* of this process, at the last check */
	BlockNumber next;			/* the block after the last one */
	int			run;			/* consecutive blocks up to it */
} PvLookahead;

extern void pv_lookahead_init(PvLookahead *ahead, Relation rel,
							  int max_distance);
extern void pv_lookahead_block(PvLookahead *ahead, Relation rel,
							   BlockNumber blkno);

/*
 * Callback: return the next block, or InvalidBlockNumber, and store what the
 * caller has to know about it.  It is called some time before the block is
 * visited, with no lock held.
 */
typedef BlockNumber (*PvNextBlock) (void *arg, void *about_block);

typedef struct PvReader PvReader;

extern PvReader *pv_reader_create(Relation rel, PvRing *ring, int max_distance,
								  Size about_size, bool batches,
								  PvNextBlock next_block, void *arg);
extern bool pv_reader_next(PvReader *reader, Buffer *buf, void **about_block);
extern void pv_reader_restart(PvReader *reader);
extern void pv_reader_free(PvReader *reader);

/* Largest range, in blocks */
#define PV_RANGE_MAX_BLOCKS		4096

/* Core reads runs of fewer skippable blocks than this */
#define PV_CORE_SKIP_THRESHOLD	32

/* The leader's plan, for all participants; see engine/sample.c */
typedef struct PvSamplePlan
{
	uint32		every;			/* one page of this many; 0: none */
	uint32		asked;			/* of the others that are skipped, the free
								 * space of one of this many is looked up */
	uint64		seed;			/* of this vacuum */
} PvSamplePlan;

/* Pages that were skipped */
typedef struct PvSkippedPages
{
	BlockNumber pages;
	BlockNumber asked;			/* of these, whose free space is known */
	int64		space;			/* sum of the free space of these */
} PvSkippedPages;

/*
 * What a participant knows about pages that are skipped, although core would
 * read them: their number and free space, and sums over those of them that
 * were visited as a sample.  Free space is in bytes, by the free space map.
 */
typedef struct PvSample
{
	PvSkippedPages skipped;
	int64		pages;
	int64		tuples;
	int64		space;
	int64		space_squares;
	int64		products;		/* of tuples and space */
} PvSample;

/*
 * What the first heap pass may skip; the leader's decision for all
 * participants
 */
typedef struct PvSkipping
{
	bool		all_frozen;		/* all-frozen blocks */
	bool		all_visible;	/* also blocks that are only all-visible */
	uint32		shortest;		/* runs of fewer blocks are read */
	uint32		shortest_unfrozen;	/* the same for runs of which some blocks
									 * are only all-visible */
	PvSamplePlan sample;		/* pages to be visited in runs that core reads */
} PvSkipping;

/* The leader's plan of eager scanning; see engine/eager.c */
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

/* A block that the first heap pass visits */
typedef struct PvScanBlock
{
	BlockNumber blkno;
	BlockNumber passed;			/* blocks skipped before it, plus itself */
	bool		eager;			/* skippable, but scanned eagerly */
	bool		sampled;		/* skippable, but chosen for the sample */
	Size		space;			/* if sampled: its free space */
	PvSkippedPages skipped;		/* pages before it that core would read */
} PvScanBlock;

/* One participant's progress through its ranges */
typedef struct PvBlockScan
{
	Relation	rel;
	PvDispenseShared *shared;
	const PvSkipping *skipping;
	const PvEager *eager;
	bool		skippedallvis;	/* a skipped page was not all-frozen */
	BlockNumber range_start;	/* the range that was claimed last */
	BlockNumber range_end;
	BlockNumber cur;			/* next block of the range to decide about */
	BlockNumber visit_until;	/* blocks before this are visited, although
								 * all-visible */
	BlockNumber skip_until;		/* blocks before this are skipped, except for
								 * a sample */
	BlockNumber long_run_until; /* end of the last skipped run, if core would
								 * have skipped it too */
	BlockNumber passed;			/* skipped since the last block to be visited */
	PvSkippedPages skipped;		/* of these, the pages that core would read */
	Buffer		vmbuffer;

#ifdef USE_ASSERT_CHECKING
	/* A bit for each block of the range that the map allows to skip */
	uint8		allowed[PV_RANGE_MAX_BLOCKS / BITS_PER_BYTE];
#endif

	PvRing	   *ring;
	PvReader   *reader;			/* of the blocks to be visited; NULL between
								 * phases */
} PvBlockScan;

extern PvBlockScan *pv_blockscan_create(Relation rel, PvRing *ring,
										PvDispenseShared *shared,
										const PvSkipping *skipping,
										const PvEager *eager);
extern bool pv_blockscan_claim(PvBlockScan *scan);
extern bool pv_blockscan_next(PvBlockScan *scan, PvScanBlock *block,
							  Buffer *buf);
extern void pv_blockscan_put_back(PvBlockScan *scan, const PvScanBlock *block,
								  Buffer buf);
extern BlockNumber pv_blockscan_rest(PvBlockScan *scan, PvSkippedPages *sum);
extern void pv_blockscan_pause(PvBlockScan *scan);
extern bool pv_blockscan_preview(Relation rel, BlockNumber rel_pages,
								 int participants,
								 const PvSkipping *skipping,
								 const PvEagerPlan *plan,
								 void (*visit) (BlockNumber blkno, void *arg),
								 void *arg);

/* engine/eager.c: all-visible pages that are read to freeze them */
extern void pv_eager_plan(PvEagerPlan *plan, const PvCutoffs *cutoffs,
						  double failure_rate, BlockNumber rel_pages,
						  BlockNumber unfrozen);
extern void pv_eager_init(const PvEager *eager);
extern bool pv_eager_wants(const PvEager *eager, BlockNumber blkno);
extern void pv_eager_count(const PvEager *eager, BlockNumber blkno,
						   bool frozen);

/*
 * engine/sample.c: the tuples on pages that are skipped, although core would
 * read them
 */
extern void pv_sample_plan(PvSamplePlan *plan, BlockNumber pages,
						   BlockNumber rel_pages, BlockNumber skippable);
extern bool pv_sample_wants(const PvSamplePlan *plan, BlockNumber blkno);
extern bool pv_sample_asks(const PvSamplePlan *plan, BlockNumber blkno);
extern void pv_sample_add_skipped(PvSkippedPages *sum,
								  const PvSkippedPages *part);
extern void pv_sample_add_page(PvSample *sample, Size space, int64 tuples);
extern void pv_sample_add(PvSample *sum, const PvSample *part);
extern bool pv_sample_estimate(const PvSample *sample, BlockNumber *pages,
							   double *tuples);

#endif							/* PV_DISPENSE_H */
