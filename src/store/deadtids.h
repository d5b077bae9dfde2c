/*-------------------------------------------------------------------------
 *
 * deadtids.h
 *	  The dead-TID store: which line pointers of which blocks are dead.
 *
 * See store/deadtids.c for the structure and its rules.  The first part is the
 * interface.  The second part is the layout, which is in a header only because
 * a probe must be inline to be fast.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DEADTIDS_H
#define PV_DEADTIDS_H

#include "port/atomics.h"
#include "storage/itemptr.h"

#include "store/container.h"
#include "store/space.h"

/* A backend's handle on a store, local or shared. */
typedef struct PvDeadTids PvDeadTids;

/* What all handles share. */
typedef struct PvDeadTidsShared PvDeadTidsShared;

/* The state of reading one segment; a variable on the caller's stack. */
typedef struct PvDeadTidsIter PvDeadTidsIter;

/* A larger limit is reduced to this one: half of what an entry can address. */
#define PV_DEADTIDS_MAX_LIMIT	((uint64) 4 << 30)

/* Bytes that a participant reserves when it begins a segment. */
#define PV_DEADTIDS_ROOM \
	(PV_SPACE_UNIT + PV_SEGMENT_MAX_BYTES + PV_LEAF_BYTES(PV_LEAF_SEGMENTS))

/* Memory that the store lends, and takes back with the next reset. */
typedef struct PvLoan
{
	uint32		extent;
	uint32		offset;			/* in the extent */
	Size		bytes;
} PvLoan;

/* Creation and end. */
extern Size pv_deadtids_shared_size(BlockNumber nblocks, Size reserve);
extern PvDeadTids *pv_deadtids_create_local(BlockNumber nblocks, Size limit);
extern PvDeadTids *pv_deadtids_create_shared(PvDeadTidsShared *shared,
											 dsm_segment *seg,
											 BlockNumber nblocks, Size reserve,
											 Size limit);
extern PvDeadTids *pv_deadtids_attach(PvDeadTidsShared *shared,
									  dsm_segment *seg);
extern void pv_deadtids_detach(PvDeadTids *store);
extern void pv_deadtids_reset(PvDeadTids *store);
extern bool pv_deadtids_lend(PvDeadTids *store, Size bytes, Size regardless,
							 Size least, PvLoan *loan);
extern void *pv_deadtids_lent(PvDeadTids *store, const PvLoan *loan);

/* Writing, segment by segment. */
extern bool pv_deadtids_begin_segment(PvDeadTids *store, uint32 segno);
extern void pv_deadtids_add_block(PvDeadTids *store, BlockNumber blk,
								  const OffsetNumber *offsets, int n);
extern void pv_deadtids_end_segment(PvDeadTids *store);
extern void pv_deadtids_publish(PvDeadTids *store);

/* Reading; see also pv_deadtids_probe() below. */
extern int	pv_deadtids_probe_batch(PvDeadTids *store,
									const ItemPointerData *tids, int n,
									bool *dead);
extern int	pv_deadtids_get_block(PvDeadTids *store, BlockNumber blk,
								  OffsetNumber *offsets);
extern uint32 pv_deadtids_nsegments(PvDeadTids *store);
extern bool pv_deadtids_segment_begin(PvDeadTids *store, uint32 segno,
									  PvDeadTidsIter *iter);
extern bool pv_deadtids_segment_next(PvDeadTidsIter *iter, BlockNumber *blk,
									 OffsetNumber *offsets, int *n);

/* Writing to a file, and reading it; see store/deadtids_file.c. */
typedef enum PvDeadTidsRead
{
	PV_READ_ALL,				/* up to the end of the file */
	PV_READ_FULL,				/* the store is full */
	PV_READ_DAMAGED
} PvDeadTidsRead;

extern int64 pv_deadtids_count_before(PvDeadTids *store, uint32 end);
extern uint64 pv_deadtids_write(PvDeadTids *store, uint32 end, FILE *file);
extern PvDeadTidsRead pv_deadtids_read(PvDeadTids *store, uint32 first,
									   FILE *file, uint32 *end);

/* Figures. */
extern int64 pv_deadtids_num_items(PvDeadTids *store);
extern Size pv_deadtids_memory(PvDeadTids *store);
extern double pv_deadtids_share_used(PvDeadTids *store);
extern Size pv_deadtids_limit(PvDeadTids *store);


/*-------------------------------------------------------------------------
 * The layout.  Callers of the interface need nothing of what follows.
 *-------------------------------------------------------------------------
 */

/*
 * An entry of a leaf has 32 bits.  Three are the layout of the segment.  The
 * rest is its place in the space, or with PV_SEG_INLINE the segment itself.
 */
#define PV_LAYOUT_BITS			3
#define PV_ENTRY_LAYOUT(entry) \
	((PvSegmentLayout) ((entry) & PV_LOW_BITS(PV_LAYOUT_BITS)))
#define PV_ENTRY_INLINE(entry)	((entry) >> PV_LAYOUT_BITS)

StaticAssertDecl(PV_LAYOUT_BITS + PV_PLACE_BITS == 32, "an entry is 32 bits");
StaticAssertDecl(PV_LAYOUT_BITS + PV_INLINE_BITS <= 32,
				 "an entry can be an inline segment");

/*
 * Second level of the directory: which of PV_LEAF_SEGMENTS consecutive
 * segments are present, and the entries of these
 */
#define PV_LEAF_SEGMENTS		32

typedef struct PvLeaf
{
	uint32		present;
	uint32		entries[FLEXIBLE_ARRAY_MEMBER];
} PvLeaf;

#define PV_LEAF_BYTES(n) \
	(offsetof(PvLeaf, entries) + (n) * sizeof(uint32))

/*
 * First level: the place of each leaf, as the number of its extent and the
 * offset there.  0 if there is no leaf.
 */
#define PV_ROOT_OFFSET_BITS		(32 - PV_EXTENT_NO_BITS)
#define PV_ROOT_EXTENT(root)	((root) >> PV_ROOT_OFFSET_BITS)
#define PV_ROOT_OFFSET(root) \
	((Size) ((root) & PV_LOW_BITS(PV_ROOT_OFFSET_BITS)) * sizeof(uint32))

StaticAssertDecl(PV_EXTENT_MAX_BYTES / sizeof(uint32) <=
				 1 << PV_ROOT_OFFSET_BITS,
				 "the root must reach every leaf");

/* A handle; private to its backend. */
struct PvDeadTids
{
	PvDeadTidsShared *shared;	/* local memory, if the store is local */
	uint32		nsegments;
	uint32		generation;		/* of the store when it was last written to */
	pg_atomic_uint32 *root;		/* first level of the directory */
	PvSpace		space;

	/* Writing.  One of the two has room for the current segment. */
	PvChunk		chunk;			/* is being filled */
	PvChunk		spare;			/* is filled next */
	bool		begun;			/* is there a current segment? */
	uint32		segno;			/* its number */
	PvSegmentBuild *build;		/* NULL before the first segment */

	/* Segments of one leaf that are not in the directory yet. */
	uint32		leafno;
	uint32		pending;		/* a bit for each of them */
	uint32		entries[PV_LEAF_SEGMENTS];	/* by position in the leaf */

	MemoryContext context;		/* of the handle, and of a local store */
};

struct PvDeadTidsShared
{
	/* Set at creation, then read-only. */
	BlockNumber nblocks;

	/* Changed by a reset only, when no other participant uses the store. */
	pg_atomic_uint32 generation;

	/* A counter, added to once per segment. */
	pg_atomic_uint64 items;

	/* The root follows this, and in a shared store the first extent. */
	PvSpaceShared space;
};

struct PvDeadTidsIter
{
	const char *segment;		/* NULL for PV_SEG_INLINE */
	uint32		entry;
	uint32		segno;
	int			next;			/* the block to read next */
};

/* Return the leaf that an entry of the root refers to. */
static inline const PvLeaf *
pv_deadtids_leaf(PvDeadTids *store, uint32 root)
{
	const char *extent = pv_space_extent(&store->space, PV_ROOT_EXTENT(root));

	return (const PvLeaf *) (extent + PV_ROOT_OFFSET(root));
}

/* Return the directory's entry for a segment, 0 if it is absent. */
static inline uint32
pv_deadtids_entry(PvDeadTids *store, uint32 segno)
{
	uint32		bit = (uint32) 1 << segno % PV_LEAF_SEGMENTS;
	const PvLeaf *leaf;
	uint32		root;

	if (unlikely(segno >= store->nsegments))
		return 0;
	root = pg_atomic_read_u32(&store->root[segno / PV_LEAF_SEGMENTS]);
	if (root == 0)
		return 0;
	leaf = pv_deadtids_leaf(store, root);

	/* where all segments are present, no count is needed */
	if (leaf->present == PG_UINT32_MAX)
		return leaf->entries[segno % PV_LEAF_SEGMENTS];
	if (!(leaf->present & bit))
		return 0;
	return leaf->entries[pv_popcount64(leaf->present & (bit - 1))];
}

/* Return the address of a segment whose entry is neither absent nor inline. */
static inline const char *
pv_deadtids_segment(PvDeadTids *store, uint32 entry)
{
	uint32		place = entry >> PV_LAYOUT_BITS;

	return pv_space_extent(&store->space, place >> PV_EXTENT_UNIT_BITS) +
		(Size) (place & PV_LOW_BITS(PV_EXTENT_UNIT_BITS)) * PV_SPACE_UNIT;
}

/*
 * Is this TID in the store?  Any TID is allowed, including those of blocks
 * beyond the end of the table.  Only after all writers are done.
 */
static inline bool
pv_deadtids_probe(PvDeadTids *store, ItemPointer tid)
{
	BlockNumber blk = ItemPointerGetBlockNumberNoCheck(tid);
	uint32		off = ItemPointerGetOffsetNumberNoCheck(tid);
	uint32		idx = blk % PV_SEGMENT_BLOCKS;
	uint32		entry = pv_deadtids_entry(store, PV_SEGMENT_OF(blk));

	if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
		return (entry != 0) &
			pv_inline_probe(PV_ENTRY_INLINE(entry), idx, off);
	return pv_segment_probe(pv_deadtids_segment(store, entry),
							PV_ENTRY_LAYOUT(entry), idx, off);
}

#endif							/* PV_DEADTIDS_H */
