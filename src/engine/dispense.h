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

#include "base/settings.h"
#include "engine/claim.h"
#include "engine/eager.h"
#include "engine/reader.h"
#include "engine/sample.h"
#include "store/segment.h"

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
extern void pv_blockscan_learn(PvBlockScan *scan, Size space, int tuples);
extern void pv_blockscan_pause(PvBlockScan *scan);
extern bool pv_blockscan_preview(Relation rel, BlockNumber rel_pages,
								 int participants,
								 const PvSkipping *skipping,
								 const PvEagerPlan *plan,
								 PvSampleSize sample_size,
								 void (*visit) (BlockNumber blkno, void *arg),
								 void *arg);

#endif							/* PV_DISPENSE_H */
