/*-------------------------------------------------------------------------
 *
 * dispense.h
 *	  The blocks that the heap scan visits within the claimed ranges.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DISPENSE_H
#define PV_DISPENSE_H

#include "utils/relcache.h"

#include "base/compat.h"
#include "engine/claim.h"
#include "engine/reader.h"
#include "engine/sample.h"

/* Largest range, in blocks */
#define PV_RANGE_MAX_BLOCKS		4096

/* Core reads runs of fewer skippable blocks than this */
#define PV_CORE_SKIP_THRESHOLD	32

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
typedef struct PvBlockScan PvBlockScan;

extern PvBlockScan *pv_blockscan_create(Relation rel, PvRing *ring,
										PvDispenseShared *shared,
										const PvSkipping *skipping,
										const PvEager *eager);
extern bool pv_blockscan_claim(PvBlockScan *scan);
extern bool pv_blockscan_next(PvBlockScan *scan, PvScanBlock *block,
							  Buffer *buf);
extern void pv_blockscan_put_back(PvBlockScan *scan, const PvScanBlock *block,
								  Buffer buf);
extern BlockNumber pv_blockscan_position(const PvBlockScan *scan);
extern void pv_blockscan_range(const PvBlockScan *scan,
							   BlockNumber *start, BlockNumber *end);
extern bool pv_blockscan_skippedallvis(const PvBlockScan *scan);
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

#endif							/* PV_DISPENSE_H */
