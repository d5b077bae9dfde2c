/*-------------------------------------------------------------------------
 *
 * tidstore.h
 *	  The memory that core's store of dead TIDs would take.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_TIDSTORE_H
#define PV_TIDSTORE_H

#include "storage/block.h"
#include "storage/off.h"

#include "base/compat.h"

#define PV_TIDSTORE_LEVELS		2
#define PV_TIDSTORE_SIZES		5

/* What is counted while blocks with dead items come in ascending order */
typedef struct PvTidStoreUse
{
	BlockNumber node[PV_TIDSTORE_LEVELS];	/* number of the last node ... */
	int			nchildren[PV_TIDSTORE_LEVELS];	/* ... and its children so far */
	int64		nnodes[PV_TIDSTORE_SIZES];
	int64		bitmap_bytes;
} PvTidStoreUse;

extern void pv_tidstore_count_block(PvTidStoreUse *use, BlockNumber blkno,
									int ndead, OffsetNumber last);
extern void pv_tidstore_add(PvTidStoreUse *sum, const PvTidStoreUse *part);
extern bool pv_few_enough_to_bypass(const PvTidStoreUse *use, int64 items,
									Size work_mem);

/* Counts a block with ndead dead items, the last of them at that offset. */
static inline void
pv_tidstore_count(PvTidStoreUse *use, BlockNumber blkno, int ndead,
				  OffsetNumber last)
{
	if (PV_HAS_TIDSTORE)
		pv_tidstore_count_block(use, blkno, ndead, last);
}

#endif							/* PV_TIDSTORE_H */
