/*-------------------------------------------------------------------------
 *
 * pvb_pattern.h
 *	  Patterns of dead TIDs, and samples of TIDs to look up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PVB_PATTERN_H
#define PVB_PATTERN_H

#include "access/htup_details.h"
#include "storage/itemptr.h"

typedef enum PvbKind
{
	PVB_FIXED,
	PVB_RANDOM,
	PVB_MIX
} PvbKind;

/* The arguments of parvacuum_bench_pattern(). */
typedef struct PvbParams
{
	PvbKind		kind;
	BlockNumber nblocks;
	int			dead;
	int			first;
	int			stride;
	int			consecutive;
	BlockNumber gap;
	int			lookups;
} PvbParams;

/* The dead items of a page: in ascending order, and as a bitmap. */
typedef struct PvbPage
{
	int			n;
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	uint64		bits[MaxHeapTuplesPerPage / 64 + 1];
} PvbPage;

typedef struct PvbPattern
{
	PvbParams	params;
	int			page_bits;		/* number of pages is 2^page_bits */
	PvbPage    *pages;
	int64		nitems;
} PvbPattern;

typedef struct PvbSample
{
	int			n;
	int64		ndead;
	ItemPointerData *tids;
} PvbSample;

extern PvbPattern *pvb_pattern_make(const PvbParams *params);
extern void pvb_pattern_free(PvbPattern *pattern);
extern PvbSample *pvb_sample_make(const PvbPattern *pattern, int n, uint64 seed);
extern void pvb_sample_free(PvbSample *sample);

/* The dead items of a block.  The block number is a multiple of "gap". */
static inline const PvbPage *
pvb_page(const PvbPattern *pattern, BlockNumber blk)
{
	/* Fibonacci hashing, so that the pages of a segment all differ */
	uint64		hash = (uint32) (blk * UINT64CONST(2654435769));

	return &pattern->pages[hash >> (32 - pattern->page_bits)];
}

#endif							/* PVB_PATTERN_H */
