/*-------------------------------------------------------------------------
 *
 * dispense.h
 *	  Hands out ranges of blocks, and the blocks to visit within a range.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DISPENSE_H
#define PV_DISPENSE_H

#include "port/atomics.h"
#include "utils/relcache.h"

#include "base/settings.h"
#include "engine/eager.h"
#include "engine/reader.h"
#include "engine/sample.h"
#include "store/segment.h"

/* Largest range, in blocks */
#define PV_RANGE_MAX_BLOCKS		4096

/* What all participants share: where the unclaimed part begins */
typedef struct PvDispenseShared
{
	/* Set by the leader between phases, then read-only */
	uint32		granule;		/* ranges are multiples of this many units */
	uint32		max_range;		/* largest range */
	uint32		participants;	/* expected number of participants */

	pg_atomic_uint32 next;		/* first unclaimed unit */
	pg_atomic_uint32 end;		/* one past the last unit; it only grows */
} PvDispenseShared;

extern void pv_dispense_init(PvDispenseShared *shared, uint32 start,
							 uint32 end, uint32 granule, uint32 max_range,
							 int participants);
extern void pv_dispense_extend(PvDispenseShared *shared, uint32 end);
extern bool pv_dispense_claim(PvDispenseShared *shared,
							  uint32 *start, uint32 *end);

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
	bool		short_unfrozen_runs;	/* also in runs that core reads */
	PvSkipRule	rule;			/* minimum length of a run */
	PvSamplePlan sample;		/* pages to be visited in runs that core reads */
} PvSkipping;

/* A block that the first heap pass visits */
typedef struct PvScanBlock
{
	BlockNumber blkno;
	BlockNumber passed;			/* blocks skipped before it, plus itself */
	bool		short_runs_read;	/* the rule under which it was chosen */
	bool		eager;			/* skippable, but scanned eagerly */
	bool		sampled;		/* skippable, but chosen for the sample */
	PvSampleSize sample_size;	/* if sampled: its sample, and its */
	uint8		space;			/* space according to the free space map */
	PvSkippedPages skipped;		/* pages before it that core would read */
} PvScanBlock;

/* One participant's progress through its ranges */
typedef struct PvBlockScan PvBlockScan;

extern PvBlockScan *pv_blockscan_create(Relation rel, PvRing *ring,
										PvDispenseShared *shared,
										const PvSkipping *skipping,
										const PvEager *eager);
extern bool pv_blockscan_next(PvBlockScan *scan, PvScanBlock *block,
							  Buffer *buf);
extern void pv_blockscan_put_back(PvBlockScan *scan, const PvScanBlock *block,
								  Buffer buf);
extern bool pv_blockscan_range_done(PvBlockScan *scan,
									BlockNumber *start, BlockNumber *end);
extern BlockNumber pv_blockscan_position(const PvBlockScan *scan);
extern void pv_blockscan_range(const PvBlockScan *scan,
							   BlockNumber *start, BlockNumber *end);
extern bool pv_blockscan_skippedallvis(const PvBlockScan *scan);
extern void pv_blockscan_skipped_rest(PvBlockScan *scan, PvSkippedPages *sum);
extern void pv_blockscan_learn(PvBlockScan *scan, Size space, int tuples);
extern void pv_blockscan_pause(PvBlockScan *scan);

#endif							/* PV_DISPENSE_H */
