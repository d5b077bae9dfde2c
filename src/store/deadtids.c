/*-------------------------------------------------------------------------
 *
 * deadtids.c
 *	  The dead-TID store: which line pointers of which heap blocks are dead.
 *
 * Vacuum's first heap pass writes it, index vacuuming looks every index
 * entry's TID up in it, and the second heap pass reads it in order.
 *
 * The table is cut into segments of PV_SEGMENT_BLOCKS consecutive blocks.  One
 * participant owns a segment while scanning it: it collects the segment's dead
 * offsets in private memory, packs them when the segment is done, appends the
 * packed segment to a chunk of memory that it alone fills, and has it entered
 * into the directory.  A packed segment is never changed.  So the store comes
 * out ordered by block without a merge or a sort, and the second pass can be
 * shared out by segment number.
 *
 * Example: blocks 256 and 259 are in segment 2.  256 has dead offsets 3, 9 and
 * 70, 259 has 5 to 8, and no other block of the first 4096 has any but 384,
 * with the one offset 12.
 *
 *    root              leaf
 *    +---+             +----------+
 *    | *-+------------>| present  |  segments 2 and 3, of 0 to 31
 *    +---+             | *--------+--> layout "ranked", in extent 0 at unit 1:
 *    | 0 |             | *--------+--+
 *    +---+             +----------+  |    present   1001000 ... 0    (128 bits)
 *     ...                            |    below     2
 *                                    |    locators  array at 22; run from 5, length 4
 *                                    |    at 22     array: count 3; 3, 9, 70
 *                                    |
 *                                    +-> layout "inline": block 0; run from 12, length 1
 *
 * The TID (259,6) is found by: segment 259 / 128 = 2, root[2 / 32], segment 2 is
 * present in the leaf and the first there, block 259 % 128 = 3 is present in the
 * segment and the second there, its locator is a run, and 6 is in it.
 *
 * How segments are packed, and that most are smaller and simpler than the one
 * drawn, is described in store/container.h; the memory that they are in, and its
 * limit, in store/space.c.
 *
 * What makes it small and fast, with figures of bench/deadtids/run, for 1,000,000
 * blocks; a flat array has 6 bytes for each TID there, and takes 57 to 965 ns to
 * find one:
 *
 * - Blocks with equal offsets share them, and a segment in which all are equal
 *	 ("uniform") is 40 bytes: 10 equal dead in each block take 0.31 MB in all,
 *	 where the most compact known structure has 28.6.
 * - A locator can be a run, so no container is read: 5 ns, else 8.
 * - A container, a matrix or neither, whatever is smallest: 1.4 bytes for each
 *	 TID of 10 at random in each block, 0.5 for blocks of all kinds.
 * - An array is searched by one comparison of 16 bytes (-DPV_NO_SIMD for what it
 *	 gives): 0.6 to 0.7 of the time that a loop takes.
 * - No branch depends on the answer, nor on whether a block is present where
 *	 half are ("direct"), and batches overlap their waits for memory: 17 ns
 *	 for each of 10 at random, 27 one by one.
 * - The directory has what is there and nothing else, and an entry can be a
 *	 segment ("inline"): one dead in each 1000th block takes 8.7 bytes, 2.8 of them
 *	 for the store as such.
 * - Chunks are taken from extents by one atomic operation, and few: two
 *	 processes load as fast as two that share nothing.
 *
 * The store is full when more memory is needed and the limit is reached, or
 * there is none to be had.  pv_deadtids_begin_segment() finds that out, by making
 * sure of room for the largest segment and a leaf, so that nothing can go wrong
 * between it and the end of the segment.  The first segment of a round is taken
 * regardless of the limit, by each participant: every round gets somewhere, and
 * that is how far the limit can be exceeded.  Not counted are the handles, two
 * kilobytes and the segment being built.
 *
 * Concurrency.  Any number of participants may write at the same time, each
 * with a handle of its own, and segments of its own; the caller's phases
 * (barriers) keep writing, reading and resetting apart.  No lock is needed:
 *
 * - A chunk has one writer, and nobody else looks into it before the barrier,
 *	 with the exception of leaves.
 * - A participant keeps the entries of the segments that it has ended until it
 *	 goes to another leaf, or is done.  Then it writes a leaf with them, and with
 *	 those that others have put into this leaf before, and puts the leaf in place
 *	 by compare-and-exchange.  A leaf that is in place is never changed: who comes
 *	 second writes a new one, and the older remains as waste, 132 bytes at most,
 *	 where ranges of different participants meet in a leaf.  The exchange is a full
 *	 barrier, so whoever finds a leaf finds what is in it.
 * - Readers start after a barrier, which orders all of the above before them.
 * - Figures are atomic counters, added to once per segment.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "store/container.h"
#include "store/deadtids.h"

/* Batches are looked up so many at a time. */
#define BATCH_ITEMS			32

#ifdef __GNUC__
#define prefetch(address)	__builtin_prefetch(address)
#else
#define prefetch(address)	((void) (address))
#endif

/* A TID of a batch that is being looked up. */
typedef struct BatchItem
{
	uint32		entry;			/* of the directory */
	const char *segment;		/* undefined if the entry is absent or inline */
} BatchItem;

StaticAssertDecl(PV_SPACE_OVERREAD >= PV_CONTAINER_OVERREAD,
				 "a probe may read behind the last container");


/*-------------------------------------------------------------------------
 * Creation and end
 *-------------------------------------------------------------------------
 */

/* Write zeroes, "absent", to the root, and to nothing else. */
static void
clear_root(pg_atomic_uint32 *root, uint32 nleaves)
{
	for (uint32 i = 0; i < nleaves; i++)
		pg_atomic_init_u32(&root[i], 0);
}

/* Segments of a table, not by PV_SEGMENTS_IN(), whose addition could overflow. */
static uint32
count_segments(BlockNumber nblocks)
{
	return nblocks / PV_SEGMENT_BLOCKS + (nblocks % PV_SEGMENT_BLOCKS != 0);
}

static uint32
count_leaves(BlockNumber nblocks)
{
	return (count_segments(nblocks) + PV_LEAF_SEGMENTS - 1) / PV_LEAF_SEGMENTS;
}

/* Bytes of the root, which has at least one entry. */
static Size
root_bytes(BlockNumber nblocks)
{
	return MAXALIGN(Max(count_leaves(nblocks), 1) * sizeof(pg_atomic_uint32));
}

/*
 * Bytes of shared memory that pv_deadtids_create_shared() needs for a table of
 * nblocks blocks, with "reserve" bytes for what will be stored.
 */
Size
pv_deadtids_shared_size(BlockNumber nblocks, Size reserve)
{
	return MAXALIGN(sizeof(PvDeadTidsShared)) + root_bytes(nblocks) + reserve;
}

/* Where in a shared store its root begins, and where its first extent. */
static pg_atomic_uint32 *
shared_root(PvDeadTidsShared *shared)
{
	return (pg_atomic_uint32 *)
		((char *) shared + MAXALIGN(sizeof(PvDeadTidsShared)));
}

static char *
shared_home(PvDeadTidsShared *shared)
{
	return (char *) shared_root(shared) + root_bytes(shared->nblocks);
}

/* Set up the shared part of an empty store; see the callers for the arguments. */
static void
init_shared(PvDeadTidsShared *shared, BlockNumber nblocks, Size reserve,
			Size limit)
{
	shared->nblocks = nblocks;
	shared->nsegments = count_segments(nblocks);
	shared->nleaves = count_leaves(nblocks);
	pg_atomic_init_u32(&shared->generation, 1);
	pg_atomic_init_u64(&shared->items, 0);
	pg_atomic_init_u64(&shared->segments, 0);
	pv_space_init(&shared->space, Min((uint64) limit, PV_DEADTIDS_MAX_LIMIT),
				  pv_deadtids_shared_size(nblocks, 0), reserve);
}

/*
 * Make a handle, in a new memory context below the current one, without its
 * shared part, root and space.
 */
static PvDeadTids *
make_handle(void)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum dead TIDs",
												  ALLOCSET_DEFAULT_SIZES);
	PvDeadTids *store = MemoryContextAllocZero(context, sizeof(PvDeadTids));

	store->context = context;
	return store;
}

/* Complete a handle whose space is connected already. */
static void
connect_handle(PvDeadTids *store, PvDeadTidsShared *shared,
			   pg_atomic_uint32 *root)
{
	store->shared = shared;
	store->nsegments = shared->nsegments;
	store->generation = pg_atomic_read_u32(&shared->generation);
	store->root = root;
}

/*
 * Make an empty store in local memory for a table of nblocks blocks, with a
 * limit in bytes.  It lives in a context below the current one.
 */
PvDeadTids *
pv_deadtids_create_local(BlockNumber nblocks, Size limit)
{
	PvDeadTids *store = make_handle();
	MemoryContext old = MemoryContextSwitchTo(store->context);
	PvDeadTidsShared *shared = palloc(sizeof(PvDeadTidsShared));
	pg_atomic_uint32 *root = palloc(root_bytes(nblocks));

	init_shared(shared, nblocks, 0, limit);
	clear_root(root, shared->nleaves);
	pv_space_begin_local(&store->space, &shared->space);
	connect_handle(store, shared, root);
	MemoryContextSwitchTo(old);
	return store;
}

/*
 * Make one more handle on a shared store, for the participant that this
 * backend is.  The store must have been created, and not be in mid-reset.  What
 * it grows by is mapped for the current resource owner.
 */
PvDeadTids *
pv_deadtids_attach(PvDeadTidsShared *shared, dsm_segment *seg)
{
	PvDeadTids *store = make_handle();

	pv_space_attach(&store->space, &shared->space, shared_home(shared), seg);
	connect_handle(store, shared, shared_root(shared));
	return store;
}

/*
 * Make an empty store for several participants, in pv_deadtids_shared_size()
 * bytes of memory, aligned for a cache line, that all of them can reach; seg is
 * the segment that it is in, NULL if it is in other memory.  The store's memory
 * goes with the segment, or with the last handle.  The limit is in bytes, and
 * "reserve" counts.
 */
PvDeadTids *
pv_deadtids_create_shared(PvDeadTidsShared *shared, dsm_segment *seg,
						  BlockNumber nblocks, Size reserve, Size limit)
{
	init_shared(shared, nblocks, reserve, limit);
	clear_root(shared_root(shared), shared->nleaves);
	return pv_deadtids_attach(shared, seg);
}

/* Free a handle, and with it all of a local store. */
void
pv_deadtids_detach(PvDeadTids *store)
{
	pv_space_detach(&store->space);
	MemoryContextDelete(store->context);
}

/*
 * Forget all items, and keep the memory for the next round.  Called by one
 * participant while no other uses the store; they find out by the generation.
 */
void
pv_deadtids_reset(PvDeadTids *store)
{
	PvDeadTidsShared *shared = store->shared;

	if (store->begun)
		elog(ERROR, "cannot reset the dead-TID store within segment %u",
			 store->segno);
	clear_root(store->root, shared->nleaves);
	pv_space_reset(&store->space);
	pg_atomic_write_u64(&shared->items, 0);
	pg_atomic_write_u64(&shared->segments, 0);
	pg_write_barrier();
	pg_atomic_write_u32(&shared->generation,
						pg_atomic_read_u32(&shared->generation) + 1);
}

/*
 * If the store was reset since this handle wrote last, forget the chunks it
 * had, and what it has not published.
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
 * If the spare chunk begins where the other ends, make one of them, so that no
 * rest remains unused between them.
 */
static void
join_chunks(PvDeadTids *store)
{
	if (store->chunk.next == NULL || store->chunk.end != store->spare.next)
		return;
	store->chunk.end = store->spare.end;
	memset(&store->spare, 0, sizeof(store->spare));
}

/*
 * Make sure that the largest segment can be stored, with a leaf.  False if the
 * store is full.
 *
 * Shared memory is taken now, because it may be used up when it is needed.  Local
 * memory is not, so a store of a few kilobytes is possible; it is there
 * as long as the limit has not been reached.
 */
static bool
secure_room(PvDeadTids *store)
{
	if (pv_chunk_free(&store->chunk) >= PV_DEADTIDS_ROOM || store->spare.next != NULL)
		return true;
	if (store->space.local && pv_space_may_grow(&store->space, PV_DEADTIDS_ROOM))
		return true;

	/* every round gets somewhere, whatever the limit is */
	if (pv_space_take(&store->space, PV_DEADTIDS_ROOM,
					  pv_deadtids_num_segments_used(store) == 0, &store->spare))
	{
		join_chunks(store);
		return true;
	}
	if (pv_deadtids_num_segments_used(store) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of shared memory"),
				 errdetail("The store of dead item identifiers could not get its first %d bytes.",
						   (int) PV_DEADTIDS_ROOM),
				 errhint("Enlarge /dev/shm, or vacuum without parallel workers.")));
	return false;
}

/*
 * See to it that the chunk being filled has so many bytes.  In a shared store
 * secure_room() has made sure of them.
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
 * Write a leaf with the segments that this participant has not published, and
 * those of an older leaf, if there is one.  Returns its size.
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
 * Enter the segments that this participant has ended into the directory.  To be
 * called when it is done, before the barrier after which others read.  Never
 * allocates shared memory; it may have to map what others have allocated.
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
		bytes = merge_leaf(store, root != 0 ? pv_deadtids_leaf(store, root) : NULL, leaf);
	} while (!pg_atomic_compare_exchange_u32(place, &root, new_root));
	store->chunk.next += bytes;
	store->pending = 0;
}

/* Keep the entry of a segment that was just ended, until it is published. */
static void
add_entry(PvDeadTids *store, uint32 segno, uint32 entry)
{
	uint32		slot = segno % PV_LEAF_SEGMENTS;

	Assert(store->pending == 0 || store->leafno == segno / PV_LEAF_SEGMENTS);
	store->leafno = segno / PV_LEAF_SEGMENTS;
	store->entries[slot] = entry;
	store->pending |= (uint32) 1 << slot;
}

/* Has this segment been ended by this participant, or published by another? */
static bool
is_stored(PvDeadTids *store, uint32 segno)
{
	if (store->leafno == segno / PV_LEAF_SEGMENTS &&
		(store->pending & ((uint32) 1 << segno % PV_LEAF_SEGMENTS)))
		return true;
	return pv_deadtids_entry(store, segno) != 0;
}


/*-------------------------------------------------------------------------
 * Building a segment
 *-------------------------------------------------------------------------
 */

/*
 * Begin a segment: from now on this participant owns it.  The room it needs at
 * worst is reserved, which may allocate, so hold no buffer lock.
 *
 * Returns false if the store is full.  Then nothing has changed, and the
 * caller has to stop at this border.
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

/* Raise an error if pv_deadtids_add_block()'s arguments are impossible. */
static void
check_block(const PvDeadTids *store, BlockNumber blk,
			const OffsetNumber *offsets, int n)
{
	const PvSegmentBuild *build = store->build;

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
}

/*
 * Add a block of the begun segment, with its n >= 1 dead offsets in ascending
 * order.  Blocks must ascend too.  Never allocates.
 */
void
pv_deadtids_add_block(PvDeadTids *store, BlockNumber blk,
					  const OffsetNumber *offsets, int n)
{
	check_block(store, blk, offsets, n);
	pv_segment_add(store->build, blk % PV_SEGMENT_BLOCKS, offsets, n);
}

/*
 * Pack the segment being built into the chunk being filled, where room for a
 * leaf is left.  Returns the segment's entry.
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
 * Finish the begun segment: pack it, and remember it for pv_deadtids_publish().
 * One without blocks leaves no trace.  Never allocates shared memory.
 */
void
pv_deadtids_end_segment(PvDeadTids *store)
{
	if (!store->begun)
		elog(ERROR, "no segment to end");
	store->begun = false;
	if (store->build->nblocks == 0)
		return;
	add_entry(store, store->segno, pack_segment(store));
	pg_atomic_fetch_add_u64(&store->shared->items, store->build->nitems);
	pg_atomic_fetch_add_u64(&store->shared->segments, 1);
}


/*-------------------------------------------------------------------------
 * Reading
 *-------------------------------------------------------------------------
 */

/* Number of segments of the table: what the directory covers. */
uint32
pv_deadtids_nsegments(PvDeadTids *store)
{
	return store->nsegments;
}

/*
 * The first segment at or after segno that has dead items, or the number of
 * segments if there is none.
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

/*
 * Prepare to read a segment's blocks.  Returns false if it has none.  Only
 * after all writers are done.
 */
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

/* Write the offsets of block idx of a segment.  Returns their number. */
static int
decode_block(const PvDeadTidsIter *iter, int idx, OffsetNumber *offsets)
{
	PvSegmentLayout layout = PV_ENTRY_LAYOUT(iter->entry);

	if (layout == PV_SEG_INLINE)
		return pv_inline_decode(PV_ENTRY_INLINE(iter->entry), idx, offsets);
	return pv_segment_decode(iter->segment, layout, idx, offsets);
}

/*
 * Get the next block that has dead items, and those, ascending, into an array
 * with room for MaxHeapTuplesPerPage.  Returns false at the segment's end.
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
 * Get the dead items of one block, ascending, into an array with room for
 * MaxHeapTuplesPerPage.  Returns their number, 0 if there are none.
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
 * The answer for offset off of block idx of a segment, whose address is not
 * needed if it is absent or inline.
 */
static inline bool
probe_entry(uint32 entry, const char *segment, uint32 idx, uint32 off)
{
	if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
		return (entry != 0) & pv_inline_probe(PV_ENTRY_INLINE(entry), idx, off);
	return pv_segment_probe(segment, PV_ENTRY_LAYOUT(entry), idx, off);
}

/*
 * First step of a batch: find the segments of the TIDs, and fetch what will be
 * read first in each.
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
		if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
			continue;
		items[i].segment = pv_deadtids_segment(store, entry);
		prefetch(pv_segment_first_read(items[i].segment,
									   PV_ENTRY_LAYOUT(entry),
									   blk % PV_SEGMENT_BLOCKS));
	}
}

/* Second step: fetch what will be read next. */
static void
batch_find_rows(const ItemPointerData *tids, int n, const BatchItem *items)
{
	for (int i = 0; i < n; i++)
	{
		BlockNumber blk = ItemPointerGetBlockNumberNoCheck(&tids[i]);
		PvSegmentLayout layout = PV_ENTRY_LAYOUT(items[i].entry);

		if (layout > PV_SEG_INLINE)
			prefetch(pv_segment_next_read(items[i].segment, layout,
										  blk % PV_SEGMENT_BLOCKS,
										  ItemPointerGetOffsetNumberNoCheck(&tids[i])));
	}
}

/* Third step: the answers.  Returns how many are dead. */
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
 * Look n TIDs up at once; dead[i] is set to whether tids[i] is in the store.
 * Returns the number of those that are.
 *
 * TIDs of an index page point anywhere in the table, and a lookup in a large
 * store is two or three reads of memory, of which each needs the one before.
 * So the steps are taken for many TIDs at a time, to have those reads overlap.
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


/*-------------------------------------------------------------------------
 * Figures.  Anybody may ask at any time; while others write, the answer may
 * be a little old.
 *-------------------------------------------------------------------------
 */

/* Dead items stored since the last reset, in finished segments. */
int64
pv_deadtids_num_items(PvDeadTids *store)
{
	return pg_atomic_read_u64(&store->shared->items);
}

/* Segments stored since the last reset. */
int64
pv_deadtids_num_segments_used(PvDeadTids *store)
{
	return pg_atomic_read_u64(&store->shared->segments);
}

/* Memory of the store in bytes, as the top of this file says. */
Size
pv_deadtids_memory(PvDeadTids *store)
{
	return pg_atomic_read_u64(&store->shared->space.memory);
}

/*
 * The most memory that the store has had, in bytes.  As nothing is given back
 * before the end, that is what it has now.
 */
Size
pv_deadtids_max_memory(PvDeadTids *store)
{
	return pv_deadtids_memory(store);
}

/* The limit in bytes that is kept to: that of creation, or the largest. */
Size
pv_deadtids_limit(PvDeadTids *store)
{
	return store->shared->space.limit;
}
