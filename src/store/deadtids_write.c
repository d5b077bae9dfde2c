/*-------------------------------------------------------------------------
 *
 * deadtids_write.c
 *	  Filling the dead-TID store.
 *
 * See store/deadtids.c for the structure, and for why no lock is needed.
 * Every function here works on the caller's own handle, and runs between the
 * barriers that separate writing from reading and resetting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/deadtids.h"

/*
 * If the store was reset since this handle wrote last, drop the chunks of the
 * handle and the entries that it has not published.
 */
static void
notice_reset(PvDeadTids *store)
{
	uint32		generation = pg_atomic_read_u32(&store->shared->generation);

	if (store->generation == generation)
		return;
	store->generation = generation;
	memset(&store->chunk, 0, sizeof(store->chunk));
	memset(&store->spare, 0, sizeof(store->spare));
	store->pending = 0;
}


/*-------------------------------------------------------------------------
 * Memory for segments and leaves
 *-------------------------------------------------------------------------
 */

/*
 * Make sure that a segment of the largest size can be stored, with a leaf.
 * Return false if the store is full.
 *
 * Shared memory is taken now, because it may be used up when it is needed.
 * Local memory is allocated when it is needed, so that a small store is
 * possible.
 */
static bool
secure_room(PvDeadTids *store)
{
	if (pv_chunk_free(&store->chunk) >= PV_DEADTIDS_ROOM ||
		store->spare.next != NULL)
		return true;
	if (store->space.local &&
		pv_space_may_grow(&store->space, PV_DEADTIDS_ROOM))
		return true;

	/* every filling makes progress, whatever the limit is */
	if (pv_space_take(&store->space, PV_DEADTIDS_ROOM,
					  pv_deadtids_num_items(store) == 0,
					  &store->spare))
	{
		/* where the spare chunk follows the current one, leave no gap */
		if (store->chunk.next != NULL &&
			store->chunk.end == store->spare.next)
		{
			store->chunk.end = store->spare.end;
			memset(&store->spare, 0, sizeof(store->spare));
		}
		return true;
	}
	if (pv_deadtids_num_items(store) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of shared memory"),
				 errdetail("The store of dead item identifiers could not get its first %d bytes.",
						   (int) PV_DEADTIDS_ROOM),
				 errhint("Enlarge /dev/shm, or run the command without parallel workers.")));
	return false;
}

/*
 * Make sure that the chunk being filled has this many bytes left.  In a shared
 * store secure_room() has reserved them.
 */
static void
ensure_room(PvDeadTids *store, Size bytes)
{
	if (pv_chunk_free(&store->chunk) >= bytes)
		return;
	if (store->spare.next == NULL && store->space.local)
		(void) pv_space_take(&store->space, bytes, true, &store->spare);
	store->chunk = store->spare;
	memset(&store->spare, 0, sizeof(store->spare));
	if (pv_chunk_free(&store->chunk) < bytes)
		elog(ERROR, "no room for %zu bytes of dead item identifiers", bytes);
}


/*-------------------------------------------------------------------------
 * Directory
 *-------------------------------------------------------------------------
 */

/*
 * Write a leaf with the entries that this participant has not published, and
 * those of an older leaf, if there is one.  Return its size in bytes.
 */
static Size
merge_leaf(PvDeadTids *store, const PvLeaf *older, PvLeaf *leaf)
{
	const uint32 *theirs = older != NULL ? older->entries : NULL;
	uint32		their_segments = older != NULL ? older->present : 0;
	int			n = 0;

	if (their_segments & store->pending)
		elog(ERROR, "segments %u to %u were stored twice",
			 store->leafno * PV_LEAF_SEGMENTS,
			 (store->leafno + 1) * PV_LEAF_SEGMENTS - 1);
	leaf->present = store->pending | their_segments;
	for (int i = 0; i < PV_LEAF_SEGMENTS; i++)
	{
		if (store->pending & ((uint32) 1 << i))
			leaf->entries[n++] = store->entries[i];
		else if (their_segments & ((uint32) 1 << i))
			leaf->entries[n++] = *theirs++;
	}
	return PV_LEAF_BYTES(n);
}

/*
 * Enter the segments that this participant has ended into the directory.  A
 * participant calls this when it is done, before the barrier after which
 * others read.  Never allocates shared memory, but may map extents of others.
 */
void
pv_deadtids_publish(PvDeadTids *store)
{
	pg_atomic_uint32 *place = &store->root[store->leafno];
	uint32		root;
	uint32		new_root;
	PvLeaf	   *leaf;
	Size		bytes;

	notice_reset(store);
	if (store->pending == 0)
		return;
	ensure_room(store, PV_LEAF_BYTES(PV_LEAF_SEGMENTS));
	leaf = (PvLeaf *) store->chunk.next;
	new_root = store->chunk.extent << PV_ROOT_OFFSET_BITS |
		(store->chunk.next - store->chunk.base) / sizeof(uint32);
	root = pg_atomic_read_u32(place);
	do
	{
		pg_read_barrier();		/* pairs with the exchange that wrote it */
		bytes = merge_leaf(store,
						   root != 0 ? pv_deadtids_leaf(store, root) : NULL,
						   leaf);
	} while (!pg_atomic_compare_exchange_u32(place, &root, new_root));
	store->chunk.next += bytes;
	store->pending = 0;
}

/* Has this participant ended the segment, or another one published it? */
static bool
is_stored(PvDeadTids *store, uint32 segno)
{
	return (store->leafno == segno / PV_LEAF_SEGMENTS &&
			(store->pending & ((uint32) 1 << segno % PV_LEAF_SEGMENTS))) ||
		pv_deadtids_entry(store, segno) != 0;
}


/*-------------------------------------------------------------------------
 * Building a segment
 *-------------------------------------------------------------------------
 */

/*
 * Begin a segment.  From now on this participant owns it.  This may allocate
 * shared memory, so the caller holds no buffer lock.  Return false if the
 * store is full; then the caller has to stop before this segment.
 */
bool
pv_deadtids_begin_segment(PvDeadTids *store, uint32 segno)
{
	if (segno >= store->nsegments)
		elog(ERROR, "segment %u is beyond the last of %u", segno,
			 store->nsegments);
	if (store->begun)
		elog(ERROR, "cannot begin segment %u within segment %u", segno,
			 store->segno);
	notice_reset(store);
	if (is_stored(store, segno))
		elog(ERROR, "segment %u was stored already", segno);
	if (store->build == NULL)
		store->build = MemoryContextAlloc(store->context,
										  sizeof(PvSegmentBuild));

	if (store->leafno != segno / PV_LEAF_SEGMENTS)
		pv_deadtids_publish(store);
	if (!secure_room(store))
		return false;

	store->begun = true;
	store->segno = segno;
	pv_segment_start(store->build);
	return true;
}

/*
 * Add a block of the current segment, with its n >= 1 dead offsets in
 * ascending order.  Blocks are added in ascending order, too.  Raise an error
 * if the arguments are impossible.  Never allocates.
 */
void
pv_deadtids_add_block(PvDeadTids *store, BlockNumber blk,
					  const OffsetNumber *offsets, int n)
{
	PvSegmentBuild *build = store->build;

	if (!store->begun)
		elog(ERROR, "block %u is stored outside of a segment", blk);
	if (PV_SEGMENT_OF(blk) != store->segno || blk >= store->shared->nblocks)
		elog(ERROR, "block %u is not in segment %u", blk, store->segno);
	if (build->nblocks > 0 &&
		build->idx[build->nblocks - 1] >= blk % PV_SEGMENT_BLOCKS)
		elog(ERROR, "block %u is stored out of order", blk);
	if (n < 1 || n > PV_MAX_OFFSET)
		elog(ERROR, "block %u has an impossible number of dead items: %d",
			 blk, n);
	if (offsets[0] < FirstOffsetNumber || offsets[n - 1] > PV_MAX_OFFSET)
		elog(ERROR, "block %u has impossible dead items: %u to %u",
			 blk, offsets[0], offsets[n - 1]);
	for (int i = 1; i < n; i++)
	{
		if (offsets[i] <= offsets[i - 1])
			elog(ERROR, "block %u has dead items out of order: %u after %u",
				 blk, offsets[i], offsets[i - 1]);
	}
	pv_segment_add(build, blk % PV_SEGMENT_BLOCKS, offsets, n);
}

/*
 * Pack the segment being built into the chunk being filled, leaving room for a
 * leaf there.  Return the segment's entry.
 */
static uint32
pack_segment(PvDeadTids *store)
{
	PvSegmentPlan plan = pv_segment_plan(store->build);
	PvChunk    *chunk = &store->chunk;
	char	   *out;

	ensure_room(store, PV_SPACE_UNIT + plan.bytes +
				(store->space.local ? 0 : PV_LEAF_BYTES(PV_LEAF_SEGMENTS)));
	if (plan.layout == PV_SEG_INLINE)
		return PV_SEG_INLINE |
			pv_segment_pack_inline(store->build) << PV_LAYOUT_BITS;

	out = (char *) TYPEALIGN(PV_SPACE_UNIT, chunk->next);
	pv_segment_pack(store->build, &plan, out);
	chunk->next = (char *) TYPEALIGN(sizeof(uint32), out + plan.bytes);
	return plan.layout |
		(uint32) ((out - chunk->base) / PV_SPACE_UNIT) << PV_LAYOUT_BITS |
		chunk->extent << (PV_LAYOUT_BITS + PV_EXTENT_UNIT_BITS);
}

/*
 * End the current segment: pack it, and keep its entry for
 * pv_deadtids_publish().  A segment without blocks is not stored.  Never
 * allocates shared memory.
 */
void
pv_deadtids_end_segment(PvDeadTids *store)
{
	uint32		leafno = store->segno / PV_LEAF_SEGMENTS;
	uint32		slot = store->segno % PV_LEAF_SEGMENTS;

	if (!store->begun)
		elog(ERROR, "no segment to end");
	store->begun = false;
	if (store->build->nblocks == 0)
		return;
	Assert(store->pending == 0 || store->leafno == leafno);
	store->leafno = leafno;
	store->entries[slot] = pack_segment(store);
	store->pending |= (uint32) 1 << slot;
	pg_atomic_fetch_add_u64(&store->shared->items, store->build->nitems);
}
