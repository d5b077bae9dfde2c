/*-------------------------------------------------------------------------
 *
 * deadtids.c
 *	  The dead-TID store: which line pointers of which blocks are dead.
 *
 * The store is a set of TIDs.  It is filled in the order of blocks, then TIDs
 * are looked up in it, then its blocks are read in order.
 *
 * The table is cut into segments of PV_SEGMENT_BLOCKS consecutive blocks.  One
 * participant owns a segment while it fills it: it collects the segment's dead
 * offsets in private memory, packs them when the segment is complete, appends
 * the packed segment to a chunk of memory that no other participant writes to,
 * and has it entered into the directory.  A packed segment is never changed.
 * So the store is ordered by block without a merge or a sort, and readers can
 * share the work by segment number.
 *
 *	  deadtids.c		the rules for both files; creation, reset, figures;
 *						lookups, and reading in order
 *	  deadtids_write.c	filling: room, segments, the directory
 *
 * Example: blocks 256 and 259 are in segment 2.  Block 256 has the dead
 * offsets 3, 9 and 70, block 259 has 5 to 8.  The only other block with dead
 * offsets among the first 4096 is 384, with offset 12.
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
 * The lookup of the TID (259,6) takes these steps:
 *
 *	 1. Its segment is 259 / 128 = 2, whose leaf is root[2 / 32].
 *	 2. Segment 2 is present in the leaf, and is the first entry there.
 *	 3. Block 259 % 128 = 3 is present in the segment, and is the second there.
 *	 4. Its locator is a run, and offset 6 is in the run.
 *
 * store/container.h describes how segments are packed; most are smaller and
 * simpler than the one above.  store/space.c describes the memory that they
 * are in, and its limit.
 *
 * What makes the store fast, besides its encoding: no branch depends on the
 * answer, nor on whether a block is present where about half of them are.
 * Batches overlap their waits for memory.  The directory has entries for
 * present segments only, and an entry can be a segment itself.
 *
 * The store is full when more memory is needed, and either the limit is
 * reached or no memory is available.  pv_deadtids_begin_segment() finds that
 * out: it reserves room for the largest possible segment and a leaf, so that
 * nothing can fail before the end of the segment.  The first segment after
 * creation or a reset is accepted regardless of the limit, from each
 * participant, so that every filling of the store makes progress.  The limit
 * can be exceeded by that much.  The handles are not counted.
 *
 * Concurrency.  Any number of participants may write at the same time, each
 * with a handle and with segments of its own.  The caller's phases (barriers)
 * separate writing, reading and resetting.  No lock is needed:
 *
 * - A chunk has one writer.  No other participant reads it before the barrier,
 *	 except for leaves.
 * - A participant keeps the entries of the segments that it has ended until it
 *	 goes to another leaf, or is done.  Then it writes a leaf with these
 *	 entries and those that others have put into the same leaf before, and
 *	 replaces the root's reference by compare-and-exchange.  A leaf that is
 *	 referred to is never changed: the second participant writes a new leaf,
 *	 and the old one, at most 132 bytes, remains as waste.  The exchange is a
 *	 full barrier, so a participant that finds a leaf also finds its contents.
 * - Readers start after a barrier, which orders all of this before them.
 * - Figures are atomic counters, which are added to once per segment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "store/deadtids.h"

StaticAssertDecl(PV_SPACE_OVERREAD >= PV_CONTAINER_OVERREAD,
				 "a probe may read behind the last container");

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


/*-------------------------------------------------------------------------
 * Creation and end
 *-------------------------------------------------------------------------
 */

/* Return the number of segments of a table. */
static uint32
count_segments(BlockNumber nblocks)
{
	/* rounding up by addition could overflow */
	return nblocks / PV_SEGMENT_BLOCKS + (nblocks % PV_SEGMENT_BLOCKS != 0);
}

/* Return the number of leaves, and of entries of the root, for a table. */
static uint32
count_leaves(BlockNumber nblocks)
{
	return (count_segments(nblocks) + PV_LEAF_SEGMENTS - 1) / PV_LEAF_SEGMENTS;
}

/* Return the bytes of the root.  It has at least one entry. */
static Size
root_bytes(BlockNumber nblocks)
{
	return MAXALIGN(Max(count_leaves(nblocks), 1) * sizeof(pg_atomic_uint32));
}

/*
 * Return the bytes of shared memory that pv_deadtids_create_shared() needs,
 * including "reserve" bytes for packed segments and leaves.
 */
Size
pv_deadtids_shared_size(BlockNumber nblocks, Size reserve)
{
	return MAXALIGN(sizeof(PvDeadTidsShared)) + root_bytes(nblocks) + reserve;
}

/* Return the root of a store, which follows the shared part. */
static pg_atomic_uint32 *
root_of(PvDeadTidsShared *shared)
{
	return (pg_atomic_uint32 *)
		((char *) shared + MAXALIGN(sizeof(PvDeadTidsShared)));
}

/* Mark all leaves as absent. */
static void
clear_root(PvDeadTidsShared *shared)
{
	uint32		nleaves = count_leaves(shared->nblocks);

	for (uint32 i = 0; i < nleaves; i++)
		pg_atomic_init_u32(&root_of(shared)[i], 0);
}

/*
 * Set up the shared part of an empty store, and the root.  "reserve" is the
 * size of the first extent in bytes, 0 if there is none; the limit is in
 * bytes.
 */
static void
init_shared(PvDeadTidsShared *shared, BlockNumber nblocks, Size reserve,
			Size limit)
{
	shared->nblocks = nblocks;
	pg_atomic_init_u32(&shared->generation, 1);
	pg_atomic_init_u64(&shared->items, 0);
	pv_space_init(&shared->space, Min((uint64) limit, PV_DEADTIDS_MAX_LIMIT),
				  pv_deadtids_shared_size(nblocks, 0), reserve);
	clear_root(shared);
}

/* Make a handle, in a new memory context below the current one. */
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

/* Complete a handle whose space is attached already. */
static void
connect_handle(PvDeadTids *store, PvDeadTidsShared *shared)
{
	store->shared = shared;
	store->nsegments = count_segments(shared->nblocks);
	store->generation = pg_atomic_read_u32(&shared->generation);
	store->root = root_of(shared);
}

/*
 * Make an empty store in local memory for a table of nblocks blocks, with a
 * limit in bytes.  The store is allocated in a context below the current one.
 */
PvDeadTids *
pv_deadtids_create_local(BlockNumber nblocks, Size limit)
{
	PvDeadTids *store = make_handle();
	MemoryContext old = MemoryContextSwitchTo(store->context);
	PvDeadTidsShared *shared = palloc(pv_deadtids_shared_size(nblocks, 0));

	init_shared(shared, nblocks, 0, limit);
	pv_space_begin_local(&store->space, &shared->space);
	connect_handle(store, shared);
	MemoryContextSwitchTo(old);
	return store;
}

/*
 * Make a handle on a shared store for this backend.  The store has been
 * created, and no participant is resetting it.  Extents that are added later
 * are mapped for the current resource owner.  Raise an error if all other
 * participants have left the store.
 */
PvDeadTids *
pv_deadtids_attach(PvDeadTidsShared *shared, dsm_segment *seg)
{
	PvDeadTids *store = make_handle();

	pv_space_attach(&store->space, &shared->space,
					(char *) root_of(shared) + root_bytes(shared->nblocks),
					seg);
	connect_handle(store, shared);
	return store;
}

/*
 * Make an empty store for several participants, and a handle on it.
 *
 * "shared" is memory that all of them can reach, of pv_deadtids_shared_size()
 * bytes and aligned for a cache line.  seg is its DSM segment, NULL if it is in
 * other memory.  The store's memory is freed with that segment, or with the
 * last handle.  The limit is in bytes, and includes "reserve".
 */
PvDeadTids *
pv_deadtids_create_shared(PvDeadTidsShared *shared, dsm_segment *seg,
						  BlockNumber nblocks, Size reserve, Size limit)
{
	init_shared(shared, nblocks, reserve, limit);
	return pv_deadtids_attach(shared, seg);
}

/* Free a handle.  A local store is freed with its handle. */
void
pv_deadtids_detach(PvDeadTids *store)
{
	pv_space_detach(&store->space);
	MemoryContextDelete(store->context);
}

/*
 * Remove all items, and keep the memory for the next filling.  One participant
 * calls this while no other uses the store.  The others notice it by the
 * generation, when they write again.
 */
void
pv_deadtids_reset(PvDeadTids *store)
{
	PvDeadTidsShared *shared = store->shared;

	if (store->begun)
		elog(ERROR, "cannot reset the dead-TID store within segment %u",
			 store->segno);
	clear_root(shared);
	pv_space_reset(&store->space);
	pg_atomic_write_u64(&shared->items, 0);
	pg_write_barrier();
	pg_atomic_write_u32(&shared->generation,
						pg_atomic_read_u32(&shared->generation) + 1);
}

/*
 * Lend memory, zeroed, which the next reset takes back.  Lend less than
 * "bytes" if the limit or the available memory does not allow more.  Up to
 * "regardless" bytes may exceed the limit.  Return false if not even "least"
 * bytes are available.  One participant calls this while no other writes.
 */
bool
pv_deadtids_lend(PvDeadTids *store, Size bytes, Size regardless, Size least,
				 PvLoan *loan)
{
	PvChunk		chunk;

	bytes = Min(bytes, PV_EXTENT_MAX_BYTES / 2);
	while (!pv_space_take(&store->space, bytes, bytes <= regardless, &chunk))
	{
		if (bytes <= least)
			return false;
		bytes = Max(bytes / 2, least);
	}
	loan->extent = chunk.extent;
	loan->offset = (uint32) (chunk.next - chunk.base);
	loan->bytes = bytes;
	memset(chunk.next, 0, bytes);
	return true;
}

/* Return the address of lent memory in this process. */
void *
pv_deadtids_lent(PvDeadTids *store, const PvLoan *loan)
{
	return pv_space_extent(&store->space, loan->extent) + loan->offset;
}


/*-------------------------------------------------------------------------
 * Figures, at any time; while others write, they may be a little old
 *-------------------------------------------------------------------------
 */

/* Return the number of dead items in the segments that are finished. */
int64
pv_deadtids_num_items(PvDeadTids *store)
{
	return pg_atomic_read_u64(&store->shared->items);
}

/* Return the memory of the store in bytes.  None is given back before the end. */
Size
pv_deadtids_memory(PvDeadTids *store)
{
	return pg_atomic_read_u64(&store->shared->space.memory);
}

/* Return the share of the limit that participants have taken, 0 to 1. */
double
pv_deadtids_share_used(PvDeadTids *store)
{
	return pv_space_share_used(&store->shared->space);
}

/* Return the limit in bytes. */
Size
pv_deadtids_limit(PvDeadTids *store)
{
	return store->shared->space.limit;
}


/*-------------------------------------------------------------------------
 * Reading, after the barrier that ends writing
 *-------------------------------------------------------------------------
 */

/* Return the number of segments of the table. */
uint32
pv_deadtids_nsegments(PvDeadTids *store)
{
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
		uint32		entry = items[i].entry;
		uint32		off = ItemPointerGetOffsetNumberNoCheck(&tids[i]);
		uint32		idx = ItemPointerGetBlockNumberNoCheck(&tids[i]) %
			PV_SEGMENT_BLOCKS;

		if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
			dead[i] = (entry != 0) &
				pv_inline_probe(PV_ENTRY_INLINE(entry), idx, off);
		else
			dead[i] = pv_segment_probe(items[i].segment,
									   PV_ENTRY_LAYOUT(entry), idx, off);
		found += dead[i];
	}
	return found;
}

/*
 * Look up n TIDs at once.  Set dead[i] to whether tids[i] is in the store.
 * Return the number of TIDs that are.
 *
 * A lookup in a large store is two or three reads of memory, each of which
 * depends on the one before.  Taking each step for many TIDs at a time makes
 * these reads overlap.
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
