/*-------------------------------------------------------------------------
 *
 * pv_deadtids.h
 *	  The dead-TID store: which line pointers of which heap blocks are dead.
 *
 * See pv_deadtids.c for the structure and its rules.  The store knows nothing
 * of vacuum; it is tested and benchmarked on its own.
 *
 * The first part is what callers need.  The second part is the layout, which
 * is here only because a probe must be inline to be fast.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DEADTIDS_H
#define PV_DEADTIDS_H

#include "parvacuum.h"
#include "port/atomics.h"
#include "pv_container.h"
#include "storage/itemptr.h"
#include "utils/dsa.h"

/* A backend's handle on a store, local or shared. */
typedef struct PvDeadTids PvDeadTids;

/* The part that lives in shared memory, inside the caller's own struct. */
typedef struct PvDeadTidsShared PvDeadTidsShared;

/* Where an iteration over one segment stands; a stack variable. */
typedef struct PvDeadTidsIter PvDeadTidsIter;

/* A larger limit is taken for this one; half of what an entry can address. */
#define PV_DEADTIDS_MAX_LIMIT	((uint64) 8 << 30)

/* Creation and end. */
extern Size pv_deadtids_shared_size(void);
extern PvDeadTids *pv_deadtids_create_local(BlockNumber nblocks, Size limit);
extern PvDeadTids *pv_deadtids_create_shared(PvDeadTidsShared *shared,
											 dsa_area *area,
											 BlockNumber nblocks, Size limit);
extern PvDeadTids *pv_deadtids_attach(PvDeadTidsShared *shared,
									  dsa_area *area);
extern void pv_deadtids_detach(PvDeadTids *store);
extern void pv_deadtids_reset(PvDeadTids *store);

/* Writing, segment by segment. */
extern bool pv_deadtids_begin_segment(PvDeadTids *store, uint32 segno);
extern void pv_deadtids_add_block(PvDeadTids *store, BlockNumber blk,
								  const OffsetNumber *offsets, int n);
extern void pv_deadtids_end_segment(PvDeadTids *store);

/* Reading; see also pv_deadtids_probe() below. */
extern int	pv_deadtids_probe_batch(PvDeadTids *store,
									const ItemPointerData *tids, int n,
									bool *dead);
extern int	pv_deadtids_get_block(PvDeadTids *store, BlockNumber blk,
								  OffsetNumber *offsets);
extern uint32 pv_deadtids_nsegments(PvDeadTids *store);
extern uint32 pv_deadtids_next_segment(PvDeadTids *store, uint32 segno);
extern bool pv_deadtids_segment_begin(PvDeadTids *store, uint32 segno,
									  PvDeadTidsIter *iter);
extern bool pv_deadtids_segment_next(PvDeadTidsIter *iter, BlockNumber *blk,
									 OffsetNumber *offsets, int *n);

/* Figures. */
extern int64 pv_deadtids_num_items(PvDeadTids *store);
extern int64 pv_deadtids_num_segments_used(PvDeadTids *store);
extern Size pv_deadtids_memory(PvDeadTids *store);
extern Size pv_deadtids_max_memory(PvDeadTids *store);
extern Size pv_deadtids_limit(PvDeadTids *store);


/*-------------------------------------------------------------------------
 * The layout.  Nothing below concerns callers.
 *-------------------------------------------------------------------------
 */

/*
 * A directory entry is 32 bits: three for the layout of the segment, the rest
 * for where it is (chunk number and unit in the chunk), or, for PV_SEG_INLINE,
 * for the segment itself.  An absent segment's entry is 0.
 */
typedef enum PvSegmentLayout
{
	PV_SEG_ABSENT = 0,
	PV_SEG_INLINE,				/* one block with one run, in the entry */
	PV_SEG_UNIFORM,				/* all blocks have the same offsets */
	PV_SEG_RANKED_MATRIX,		/* a bitmap per present block */
	PV_SEG_DIRECT_MATRIX,		/* a bitmap per block */
	PV_SEG_RANKED,				/* a locator per present block */
	PV_SEG_DIRECT				/* a locator per block */
} PvSegmentLayout;

#define PV_LAYOUT_BITS			3
#define PV_UNIT_NO_BITS			18
#define PV_CHUNK_NO_BITS		11
#define PV_UNIT_BYTES			32	/* alignment of segments and leaves */
#define PV_MAX_CHUNKS			(1 << PV_CHUNK_NO_BITS)
#define PV_CHUNK_LIMIT_BYTES	((Size) PV_UNIT_BYTES << PV_UNIT_NO_BITS)

#define PV_LOW_BITS(n)			(((uint32) 1 << (n)) - 1)
#define PV_ENTRY_LAYOUT(entry)	((PvSegmentLayout) ((entry) & PV_LOW_BITS(PV_LAYOUT_BITS)))
#define PV_ENTRY_CHUNK(entry)	((entry) >> (PV_LAYOUT_BITS + PV_UNIT_NO_BITS))
#define PV_ENTRY_PLACE(entry) \
	((Size) (((entry) >> PV_LAYOUT_BITS) & PV_LOW_BITS(PV_UNIT_NO_BITS)) * PV_UNIT_BYTES)

/* Entries in one second-level piece of the directory. */
#define PV_LEAF_SEGMENTS		256

/*
 * A locator is 16 bits and says which offsets a block has: either a short run
 * of offsets, itself (start and length; length 0 for none), or the kind of a
 * container and its distance from the start of the segment, in steps.
 */
#define PV_LOCATOR_RUN			0x8000
#define PV_RUN_START_BITS		(BLCKSZ <= 8192 ? 8 : BLCKSZ <= 16384 ? 9 : 10)
#define PV_RUN_LENGTH_BITS		(15 - PV_RUN_START_BITS)
#define PV_RUN_MAX_START		((int) PV_LOW_BITS(PV_RUN_START_BITS))
#define PV_RUN_MAX_LENGTH		((int) PV_LOW_BITS(PV_RUN_LENGTH_BITS))
#define PV_LOCATOR_NONE			PV_LOCATOR_RUN
#define PV_LOCATOR_POS_BITS		13
#define PV_LOCATOR_STEP			(BLCKSZ <= 8192 ? 1 : BLCKSZ / 8192)
#define PV_LOCATOR_KIND(loc)	((PvContainerKind) (((loc) >> PV_LOCATOR_POS_BITS) & 3))
#define PV_LOCATOR_POS(loc)		(((loc) & PV_LOW_BITS(PV_LOCATOR_POS_BITS)) * PV_LOCATOR_STEP)

/*
 * What a segment of each layout begins with.  "present" has a bit for each
 * block; "below" is the number of bits in its first word, so that a rank needs
 * only one count.  Rows of a matrix are "stride" bytes, of which the first
 * holds offsets base * 8 and up.
 */
typedef struct PvUniformSegment
{
	uint64		present[2];
	uint16		locator;		/* then the container, if it has one */
} PvUniformSegment;

typedef struct PvRankedSegment
{
	uint64		present[2];
	uint16		below;
	uint16		locators[FLEXIBLE_ARRAY_MEMBER];	/* then the containers */
} PvRankedSegment;

typedef struct PvDirectSegment
{
	uint16		locators[PV_SEGMENT_BLOCKS];	/* then the containers */
} PvDirectSegment;

typedef struct PvMatrix
{
	uint8		base;
	uint8		stride;			/* then the rows */
} PvMatrix;

typedef struct PvRankedMatrix
{
	uint64		present[2];
	uint16		below;
	PvMatrix	matrix;
} PvRankedMatrix;

StaticAssertDecl(PV_SEGMENT_BLOCKS == 128, "a presence bitmap is two words");

/* A chunk that this participant fills; base is NULL if there is none. */
typedef struct PvArena
{
	char	   *base;
	char	   *next;			/* free from here */
	char	   *end;			/* to here */
	uint32		chunkno;
} PvArena;

typedef struct PvSegmentBuild PvSegmentBuild;

/*
 * The handle.  What probes use comes first: addresses of things that do not
 * move as long as the generation lasts.
 */
struct PvDeadTids
{
	PvDeadTidsShared *shared;	/* local memory, if the store is local */
	uint32		nsegments;
	uint32		generation;		/* the one that "leaves" belongs to */
	const uint32 **leaves;		/* NULL where unknown or absent */
	const char **chunks;		/* by number; NULL where unknown */

	/* Writing.  Room for the segment begun is in one of the two. */
	PvArena		arena;
	PvArena		spare;			/* the next, when the first is nearly full */
	Size		taken;			/* bytes of chunks taken in this generation */
	PvSegmentBuild *build;		/* NULL before the first segment */

	/* Memory */
	pg_atomic_uint32 *root;		/* first level of the directory */
	dsa_area   *area;			/* NULL if the store is local */
	MemoryContext context;		/* of the handle; a local store's memory too */
};

struct PvDeadTidsShared
{
	/* Set at creation, then read-only. */
	BlockNumber nblocks;
	uint32		nsegments;
	uint32		nleaves;
	Size		limit;			/* bytes */
	Size		max_chunk;		/* bytes */
	dsa_pointer root;			/* unused in a local store */

	/* Changed by the leader while it is alone. */
	pg_atomic_uint32 generation;

	/* Counters, each added to once per segment or chunk. */
	pg_atomic_uint32 next_chunk;	/* the number the next taker gets */
	pg_atomic_uint64 memory;	/* bytes */
	pg_atomic_uint64 items;
	pg_atomic_uint64 segments;

	/*
	 * Chunks by number, written by the participant that got the number, and
	 * not changed any more.  Size 0: no chunk has been made for this number.
	 */
	uint32		chunk_bytes[PV_MAX_CHUNKS];
	dsa_pointer chunk[PV_MAX_CHUNKS];	/* unused in a local store */
};

struct PvDeadTidsIter
{
	const char *segment;		/* NULL for PV_SEG_INLINE */
	uint32		entry;
	uint32		segno;
	int			next;			/* the block to look at next */
	int			rank;			/* how many present blocks were passed */
};

/* Probe when an address that it needs is not known yet. */
extern bool pv_deadtids_probe_slow(PvDeadTids *store, ItemPointer tid);

/* Is this block of a segment present? */
static inline bool
pv_present(const uint64 *present, uint32 idx)
{
	return (present[idx / 64] >> (idx % 64)) & 1;
}

/*
 * The number of bits in a word.  Inline, because with a call in the midst of
 * it a probe of any layout would have to save its registers.
 */
static inline uint32
pv_popcount64(uint64 word)
{
	word -= (word >> 1) & UINT64CONST(0x5555555555555555);
	word = (word & UINT64CONST(0x3333333333333333)) +
		((word >> 2) & UINT64CONST(0x3333333333333333));
	word = (word + (word >> 4)) & UINT64CONST(0x0F0F0F0F0F0F0F0F);
	return (word * UINT64CONST(0x0101010101010101)) >> 56;
}

/* The number of present blocks before this one. */
static inline uint32
pv_rank(const uint64 *present, uint32 below, uint32 idx)
{
	uint64		word = present[idx / 64] & ((UINT64CONST(1) << (idx % 64)) - 1);

	return pv_popcount64(word) + (idx < 64 ? 0 : below);
}

/* Is off in the run that this locator is? */
static inline bool
pv_run_probe(uint32 locator, uint32 off)
{
	uint32		start = (locator >> PV_RUN_LENGTH_BITS) & PV_LOW_BITS(PV_RUN_START_BITS);

	return off - start < (locator & PV_LOW_BITS(PV_RUN_LENGTH_BITS));
}

/* Is off among the offsets that this locator of a segment stands for? */
static inline bool
pv_locator_probe(const char *segment, uint32 locator, uint32 off)
{
	if (locator & PV_LOCATOR_RUN)
		return pv_run_probe(locator, off);
	return pv_container_probe(PV_LOCATOR_KIND(locator),
							  (const uint8 *) segment + PV_LOCATOR_POS(locator),
							  off);
}

/* Is off in this row of a matrix?  No branch on the outcome. */
static inline bool
pv_matrix_probe(const PvMatrix *matrix, uint32 row, uint32 off)
{
	uint32		byte = off / 8 - matrix->base;
	bool		inside = byte < matrix->stride;
	const uint8 *bits = (const uint8 *) (matrix + 1) + row * matrix->stride;

	return inside & ((bits[inside ? byte : 0] >> (off % 8)) & 1);
}

/* Is off of block idx in the segment that is this entry? */
static inline bool
pv_inline_probe(uint32 entry, uint32 idx, uint32 off)
{
	return (PV_ENTRY_LAYOUT(entry) == PV_SEG_INLINE) &
		((entry >> (PV_LAYOUT_BITS + 15)) == idx) &
		pv_run_probe(entry >> PV_LAYOUT_BITS, off);
}

/*
 * Is offset off of block idx, counted from the segment's first, among those of
 * this segment?  Its layout is not inline.
 */
static inline bool
pv_segment_probe(const char *segment, PvSegmentLayout layout, uint32 idx,
				 uint32 off)
{
	const uint64 *present = (const uint64 *) segment;
	uint32		locator;
	bool		found = true;

	if (layout == PV_SEG_DIRECT)
		locator = ((const PvDirectSegment *) segment)->locators[idx];
	else if (layout == PV_SEG_DIRECT_MATRIX)
		return pv_matrix_probe((const PvMatrix *) segment, idx, off);
	else if (layout == PV_SEG_UNIFORM)
	{
		locator = ((const PvUniformSegment *) segment)->locator;
		found = pv_present(present, idx);
	}
	else if (!pv_present(present, idx))
		return false;
	else
	{
		const PvRankedSegment *ranked = (const PvRankedSegment *) segment;
		uint32		rank = pv_rank(present, ranked->below, idx);

		if (layout == PV_SEG_RANKED_MATRIX)
			return pv_matrix_probe(&((const PvRankedMatrix *) segment)->matrix,
								   rank, off);
		locator = ranked->locators[rank];
	}
	return found & pv_locator_probe(segment, locator, off);
}

/*
 * Is this TID in the store?  Any TID may be asked for, those of blocks beyond
 * the table's end too.  Only after all writers are done.
 */
static inline bool
pv_deadtids_probe(PvDeadTids *store, ItemPointer tid)
{
	BlockNumber blk = ItemPointerGetBlockNumberNoCheck(tid);
	uint32		off = ItemPointerGetOffsetNumberNoCheck(tid);
	uint32		segno = PV_SEGMENT_OF(blk);
	uint32		idx = blk % PV_SEGMENT_BLOCKS;
	const uint32 *leaf;
	const char *chunk;
	uint32		entry;

	if (unlikely(segno >= store->nsegments))
		return false;
	leaf = store->leaves[segno / PV_LEAF_SEGMENTS];
	if (unlikely(leaf == NULL || store->generation !=
				 pg_atomic_read_u32(&store->shared->generation)))
		return pv_deadtids_probe_slow(store, tid);
	entry = leaf[segno % PV_LEAF_SEGMENTS];
	if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
		return pv_inline_probe(entry, idx, off);
	chunk = store->chunks[PV_ENTRY_CHUNK(entry)];
	if (unlikely(chunk == NULL))
		return pv_deadtids_probe_slow(store, tid);
	return pv_segment_probe(chunk + PV_ENTRY_PLACE(entry),
							PV_ENTRY_LAYOUT(entry), idx, off);
}

#endif							/* PV_DEADTIDS_H */
