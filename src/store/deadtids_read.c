/*-------------------------------------------------------------------------
 *
 * deadtids_read.c
 *	  Lookups in the dead-TID store, one by one and in batches, and reading its
 *	  blocks in order.
 *
 * See store/deadtids.c for the structure.  A lookup of one TID is inline, in
 * store/deadtids.h.  Everything here runs after the barrier that ends writing,
 * so nothing that is read can change, and no lock is needed.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/container.h"
#include "store/deadtids.h"

/* Batches are looked up in groups of this many TIDs. */
#define BATCH_ITEMS			32

#ifdef __GNUC__
#define prefetch(address)	__builtin_prefetch(address)
#else
#define prefetch(address)	((void) (address))
#endif

/* A TID of a batch that is being looked up. */
typedef struct BatchItem
{
	uint32		entry;			/* the directory's entry; 0 if absent */
	const char *segment;		/* NULL if the entry is absent or inline */
} BatchItem;

/*
 * Return the number of segments of the table, all of which the directory
 * covers.
 */
uint32
pv_deadtids_nsegments(PvDeadTids *store)
{
	return store->nsegments;
}

/*
 * Return the first segment at or after segno that has dead items, or the
 * number of segments if there is none.
 */
uint32
pv_deadtids_next_segment(PvDeadTids *store, uint32 segno)
{
	while (segno < store->nsegments)
	{
		uint32		leafno = segno / PV_LEAF_SEGMENTS;

		if (pg_atomic_read_u32(&store->root[leafno]) == 0)
			segno = (leafno + 1) * PV_LEAF_SEGMENTS;
		else if (pv_deadtids_entry(store, segno) != 0)
			return segno;
		else
			segno++;
	}
	return store->nsegments;
}

/* Prepare to read the blocks of a segment.  Return false if it has none. */
bool
pv_deadtids_segment_begin(PvDeadTids *store, uint32 segno,
						  PvDeadTidsIter *iter)
{
	iter->entry = pv_deadtids_entry(store, segno);
	if (iter->entry == 0)
		return false;
	iter->segment = NULL;
	if (PV_ENTRY_LAYOUT(iter->entry) != PV_SEG_INLINE)
		iter->segment = pv_deadtids_segment(store, iter->entry);
	iter->segno = segno;
	iter->next = 0;
	return true;
}

/* Write the dead offsets of block idx of a segment.  Return their number. */
static int
decode_block(const PvDeadTidsIter *iter, int idx, OffsetNumber *offsets)
{
	PvSegmentLayout layout = PV_ENTRY_LAYOUT(iter->entry);

	if (layout == PV_SEG_INLINE)
		return pv_inline_decode(PV_ENTRY_INLINE(iter->entry), idx, offsets);
	return pv_segment_decode(iter->segment, layout, idx, offsets);
}

/*
 * Get the next block that has dead items, and its dead offsets, ascending, in
 * an array with room for PV_MAX_OFFSET.  Return false at the end of the
 * segment.
 */
bool
pv_deadtids_segment_next(PvDeadTidsIter *iter, BlockNumber *blk,
						 OffsetNumber *offsets, int *n)
{
	while (iter->next < PV_SEGMENT_BLOCKS)
	{
		int			idx = iter->next++;

		*n = decode_block(iter, idx, offsets);
		if (*n > 0)
		{
			*blk = iter->segno * PV_SEGMENT_BLOCKS + idx;
			return true;
		}
	}
	return false;
}

/*
 * Get the dead offsets of one block, ascending, in an array with room for
 * PV_MAX_OFFSET.  Return their number, 0 if there are none.
 */
int
pv_deadtids_get_block(PvDeadTids *store, BlockNumber blk,
					  OffsetNumber *offsets)
{
	PvDeadTidsIter iter;

	if (!pv_deadtids_segment_begin(store, PV_SEGMENT_OF(blk), &iter))
		return 0;
	return decode_block(&iter, blk % PV_SEGMENT_BLOCKS, offsets);
}

/*
 * Is offset off of block idx of a segment dead?  "segment" is its address,
 * which is not used if the segment is absent or inline.
 */
static inline bool
probe_entry(uint32 entry, const char *segment, uint32 idx, uint32 off)
{
	if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
		return (entry != 0) &
			pv_inline_probe(PV_ENTRY_INLINE(entry), idx, off);
	return pv_segment_probe(segment, PV_ENTRY_LAYOUT(entry), idx, off);
}

/*
 * First step of a batch: find the segments of the TIDs, and prefetch the
 * address that a probe of each will read first.
 */
static void
batch_find_segments(PvDeadTids *store, const ItemPointerData *tids, int n,
					BatchItem *items)
{
	for (int i = 0; i < n; i++)
	{
		BlockNumber blk = ItemPointerGetBlockNumberNoCheck(&tids[i]);
		uint32		entry = pv_deadtids_entry(store, PV_SEGMENT_OF(blk));

		items[i].entry = entry;
		items[i].segment = NULL;
		if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
			continue;
		items[i].segment = pv_deadtids_segment(store, entry);
		prefetch(pv_segment_first_read(items[i].segment,
									   PV_ENTRY_LAYOUT(entry),
									   blk % PV_SEGMENT_BLOCKS));
	}
}

/* Second step: prefetch the address that each probe will read next. */
static void
batch_find_rows(const ItemPointerData *tids, int n, const BatchItem *items)
{
	for (int i = 0; i < n; i++)
	{
		BlockNumber blk = ItemPointerGetBlockNumberNoCheck(&tids[i]);
		OffsetNumber off = ItemPointerGetOffsetNumberNoCheck(&tids[i]);
		PvSegmentLayout layout = PV_ENTRY_LAYOUT(items[i].entry);

		if (layout > PV_SEG_INLINE)
			prefetch(pv_segment_next_read(items[i].segment, layout,
										  blk % PV_SEGMENT_BLOCKS, off));
	}
}

/* Third step: probe.  Return the number of dead TIDs. */
static int
batch_probe(const ItemPointerData *tids, int n, const BatchItem *items,
			bool *dead)
{
	int			found = 0;

	for (int i = 0; i < n; i++)
	{
		BlockNumber blk = ItemPointerGetBlockNumberNoCheck(&tids[i]);

		dead[i] = probe_entry(items[i].entry, items[i].segment,
							  blk % PV_SEGMENT_BLOCKS,
							  ItemPointerGetOffsetNumberNoCheck(&tids[i]));
		found += dead[i];
	}
	return found;
}

/*
 * Look up n TIDs at once.  Set dead[i] to whether tids[i] is in the store.
 * Return the number of TIDs that are.
 *
 * The TIDs may point anywhere in the table, and a lookup in a large store is
 * two or three reads of memory, each of which depends on the one before.
 * Taking each step for many TIDs at a time makes these reads overlap.
 */
int
pv_deadtids_probe_batch(PvDeadTids *store, const ItemPointerData *tids, int n,
						bool *dead)
{
	int			found = 0;
	BatchItem	items[BATCH_ITEMS];

	for (int i = 0; i < n; i += BATCH_ITEMS)
	{
		int			some = Min(n - i, BATCH_ITEMS);

		batch_find_segments(store, tids + i, some, items);
		batch_find_rows(tids + i, some, items);
		found += batch_probe(tids + i, some, items, dead + i);
	}
	return found;
}
