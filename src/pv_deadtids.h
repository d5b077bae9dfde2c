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
#define PV_LAYOUT_BITS			3
#define PV_UNIT_NO_BITS			18
#define PV_CHUNK_NO_BITS		11
#define PV_UNIT_BYTES			32	/* alignment of segments and leaves */
#define PV_MAX_CHUNKS			(1 << PV_CHUNK_NO_BITS)
#define PV_CHUNK_LIMIT_BYTES	((Size) PV_UNIT_BYTES << PV_UNIT_NO_BITS)

#define PV_ENTRY_LAYOUT(entry)	((PvSegmentLayout) ((entry) & PV_LOW_BITS(PV_LAYOUT_BITS)))
#define PV_ENTRY_INLINE(entry)	((entry) >> PV_LAYOUT_BITS)
#define PV_ENTRY_CHUNK(entry)	((entry) >> (PV_LAYOUT_BITS + PV_UNIT_NO_BITS))
#define PV_ENTRY_PLACE(entry) \
	((Size) (((entry) >> PV_LAYOUT_BITS) & PV_LOW_BITS(PV_UNIT_NO_BITS)) * PV_UNIT_BYTES)

/* Entries in one second-level piece of the directory. */
#define PV_LEAF_SEGMENTS		256

StaticAssertDecl(PV_LAYOUT_BITS + PV_UNIT_NO_BITS + PV_CHUNK_NO_BITS == 32,
				 "an entry is 32 bits");
StaticAssertDecl(PV_LAYOUT_BITS + PV_INLINE_BITS <= 32,
				 "an entry can be an inline segment");

/* A chunk that this participant fills; base is NULL if there is none. */
typedef struct PvArena
{
	char	   *base;
	char	   *next;			/* free from here */
	char	   *end;			/* to here */
	uint32		chunkno;
} PvArena;

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
	bool		begun;			/* is there a segment begun? */
	uint32		segno;			/* its number */
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
};

/* Probe when an address that it needs is not known yet. */
extern bool pv_deadtids_probe_slow(PvDeadTids *store, ItemPointer tid);

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
		return (entry != 0) & pv_inline_probe(PV_ENTRY_INLINE(entry), idx, off);
	chunk = store->chunks[PV_ENTRY_CHUNK(entry)];
	if (unlikely(chunk == NULL))
		return pv_deadtids_probe_slow(store, tid);
	return pv_segment_probe(chunk + PV_ENTRY_PLACE(entry),
							PV_ENTRY_LAYOUT(entry), idx, off);
}

#endif							/* PV_DEADTIDS_H */
