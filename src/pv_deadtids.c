/*-------------------------------------------------------------------------
 *
 * pv_deadtids.c
 *	  The dead-TID store: which line pointers of which heap blocks are dead.
 *
 * Vacuum's first heap pass writes it, index vacuuming looks every index
 * entry's TID up in it, and the second heap pass reads it in order.
 *
 * The table is cut into segments of PV_SEGMENT_BLOCKS consecutive blocks.  One
 * participant owns a segment while scanning it: it collects the segment's dead
 * offsets in private memory, packs them when the segment is done, appends the
 * packed segment to a chunk of memory that it alone fills, and enters it into
 * the directory.  A packed segment is never changed.  So the store comes out
 * ordered by block without a merge or a sort, and the second pass can be
 * shared out by segment number.
 *
 * Example: blocks 256 and 259 are in segment 2.  256 has dead offsets 3, 9 and
 * 70, 259 has 5 to 8, and no other block of the first 32768 has any but 384,
 * with the one offset 12.
 *
 *    root              leaf (256 entries)
 *    +---+             +---+
 *    | *-+------------>| 0 |  0: absent
 *    +---+             | 0 |
 *    | 0 |             | *-+---> layout "ranked", in chunk 0 at unit 0:
 *    +---+             | *-+--+
 *    | 0 |             | 0 |  |    present   1001000 ... 0    (128 bits)
 *     ...              | 0 |  |    below     2
 *                       ...   |    locators  array at 22; run from 5, length 4
 *                             |    at 22     array: count 3; 3, 9, 70
 *                             |
 *                             +--> layout "inline": block 0; run from 12, length 1
 *
 * The TID (259,6) is found by: segment 259 / 128 = 2, root[2 / 256], leaf[2],
 * block 259 % 128 = 3 is present and is the second present one, its locator is
 * a run, and 6 is in it.
 *
 * How segments are packed, and that most are smaller and simpler than the one
 * drawn, is described in pv_container.h.
 *
 * Memory.  Participants take chunks from the area (or from a memory context,
 * if the store is local), small ones at first.  A chunk gets a number; entries
 * name it by that number, and every backend keeps a table of the addresses.
 * Counted is: the shared struct, the root, and every chunk in full, used or
 * not.  Not counted are the handles (fixed, about PV_MAX_CHUNKS pointers and
 * the segment being built) and eight bytes per leaf for its address.
 * pv_deadtids_begin_segment() makes sure that the largest possible segment
 * fits, so that nothing is allocated between it and the end of the segment: if
 * the chunk being filled may be too small, it takes a spare one, which is
 * turned to when a packed segment does not fit in the first any more.
 *
 * The store is full when a chunk is needed and the limit is reached.  The last
 * chunk is cut to what remains below the limit, but no smaller than the largest
 * segment needs, so that is how far the limit can be exceeded.  The first chunk
 * of a round is given regardless of the limit: every round gets somewhere.
 * It is full, too, when the area cannot grow because shared memory is nearly
 * used up; then the area stays as it is until the end, with what it has.
 * pv_deadtids_reset() keeps all chunks, to be taken by number again.
 *
 * Concurrency.  Any number of participants may write at the same time, each
 * with a handle of its own, and segments of its own; the caller's phases
 * (barriers) keep writing, reading and resetting apart.  No lock is needed:
 *
 * - A chunk's number is given out by an atomic counter, so each chunk has one
 *	 writer per round, and no one else looks into it before the barrier, with
 *	 the exception of leaves.
 * - A leaf is shared by the owners of its segments.  Whoever needs one that is
 *	 absent carves it from its own chunk, zeroes it, and puts it into the root by
 *	 compare-and-exchange.  That is a full barrier, so whoever finds the entry
 *	 finds the zeroes, and the chunk's address, in place; the loser takes its
 *	 piece back, as it is the last thing in its chunk.
 * - An entry in a leaf is written by the segment's owner alone.
 * - Readers start after a barrier, which orders all of the above before them.
 * - Figures are atomic counters, added to once per segment.
 *
 * The area's own lock is taken inside dsa_allocate(), once per chunk.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pv_container.h"
#include "pv_deadtids.h"
#include "pv_dsm.h"
#include "utils/memutils.h"

/* Room that a packed segment takes at most. */
#define SEGMENT_ROOM		TYPEALIGN(PV_UNIT_BYTES, PV_SEGMENT_MAX_BYTES)
#define LEAF_BYTES			(PV_LEAF_SEGMENTS * sizeof(pg_atomic_uint32))

/*
 * Chunk sizes.  The smallest holds the largest segment, a leaf, what probes
 * may read behind the last container, and what is lost by alignment; and an
 * area would round up a request of less than three pages.  A participant's
 * chunks grow with what it has taken, so that a small table's store is small;
 * the largest is a fraction of the limit, so that participants fill it about
 * evenly.
 */
#define CHUNK_GRAIN			4096
#define CHUNK_MIN_BYTES \
	Max(TYPEALIGN(CHUNK_GRAIN, \
				  SEGMENT_ROOM + LEAF_BYTES + PV_CONTAINER_OVERREAD + \
				  PG_CACHE_LINE_SIZE), 3 * CHUNK_GRAIN)
#define CHUNK_GROWTH		8	/* an eighth of what was taken */
#define CHUNK_LIMIT_SHARE	256
#define CHUNK_MAX_FLOOR		(64 * 1024)

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

StaticAssertDecl(sizeof(pg_atomic_uint32) == sizeof(uint32),
				 "a leaf is read as plain numbers");


/*-------------------------------------------------------------------------
 * Creation and end
 *-------------------------------------------------------------------------
 */

/* Bytes of shared memory that pv_deadtids_create_shared() needs. */
Size
pv_deadtids_shared_size(void)
{
	return sizeof(PvDeadTidsShared);
}

/*
 * Make a handle, in a new memory context below the current one, for a store
 * whose shared part is or will be set up.
 */
static PvDeadTids *
make_handle(dsa_area *area)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum dead TIDs",
												  ALLOCSET_DEFAULT_SIZES);
	PvDeadTids *store = MemoryContextAllocZero(context, sizeof(PvDeadTids));

	store->context = context;
	store->area = area;
	store->chunks = MemoryContextAllocZero(context,
										   PV_MAX_CHUNKS * sizeof(char *));
	return store;
}

/* Bytes of the root, which has at least one entry. */
static Size
root_bytes(const PvDeadTidsShared *shared)
{
	return Max(shared->nleaves, 1) * sizeof(pg_atomic_uint32);
}

/*
 * Set up the shared part, which is zeroed, for a table of nblocks blocks and
 * a limit in bytes.  The root is still to be made.
 */
static void
init_shared(PvDeadTidsShared *shared, BlockNumber nblocks, Size limit)
{
	Size		max_chunk;

	limit = Min((uint64) limit, PV_DEADTIDS_MAX_LIMIT);
	max_chunk = Max(limit / CHUNK_LIMIT_SHARE, CHUNK_MAX_FLOOR);
	max_chunk = TYPEALIGN_DOWN(CHUNK_GRAIN, max_chunk);

	shared->nblocks = nblocks;
	/* not PV_SEGMENTS_IN(), whose addition could overflow */
	shared->nsegments = nblocks / PV_SEGMENT_BLOCKS +
		(nblocks % PV_SEGMENT_BLOCKS != 0);
	shared->nleaves = (shared->nsegments + PV_LEAF_SEGMENTS - 1) / PV_LEAF_SEGMENTS;
	shared->limit = limit;
	shared->max_chunk = Min(max_chunk, PV_CHUNK_LIMIT_BYTES);
	pg_atomic_init_u32(&shared->generation, 1);
	pg_atomic_init_u32(&shared->next_chunk, 0);
	pg_atomic_init_u64(&shared->memory,
					   sizeof(PvDeadTidsShared) + root_bytes(shared));
	pg_atomic_init_u64(&shared->items, 0);
	pg_atomic_init_u64(&shared->segments, 0);
}

/* Connect a handle to its shared part, which is complete, and to the root. */
static void
connect_handle(PvDeadTids *store, PvDeadTidsShared *shared,
			   pg_atomic_uint32 *root)
{
	store->shared = shared;
	store->root = root;
	store->nsegments = shared->nsegments;
	store->leaves = MemoryContextAllocZero(store->context,
										   Max(shared->nleaves, 1) * sizeof(uint32 *));
	store->generation = pg_atomic_read_u32(&shared->generation);
}

/* Write zeroes, "absent", to n entries of the directory. */
static void
clear_entries(pg_atomic_uint32 *entries, uint32 n)
{
	for (uint32 i = 0; i < n; i++)
		pg_atomic_init_u32(&entries[i], 0);
}

/*
 * Make an empty store in local memory for a table of nblocks blocks, with a
 * limit in bytes.  It lives in a context below the current one.
 */
PvDeadTids *
pv_deadtids_create_local(BlockNumber nblocks, Size limit)
{
	PvDeadTids *store = make_handle(NULL);
	PvDeadTidsShared *shared;
	pg_atomic_uint32 *root;

	shared = MemoryContextAllocZero(store->context, sizeof(PvDeadTidsShared));
	init_shared(shared, nblocks, limit);
	root = MemoryContextAlloc(store->context, root_bytes(shared));
	clear_entries(root, shared->nleaves);
	connect_handle(store, shared, root);
	return store;
}

/*
 * Make an empty store for several participants.  "shared" is zeroed memory of
 * pv_deadtids_shared_size() bytes that all of them can reach; all else comes
 * from the area, which must outlive the store.  The limit is in bytes.
 */
PvDeadTids *
pv_deadtids_create_shared(PvDeadTidsShared *shared, dsa_area *area,
						  BlockNumber nblocks, Size limit)
{
	PvDeadTids *store = make_handle(area);
	pg_atomic_uint32 *root;

	init_shared(shared, nblocks, limit);
	shared->root = dsa_allocate(area, root_bytes(shared));
	root = dsa_get_address(area, shared->root);
	clear_entries(root, shared->nleaves);
	connect_handle(store, shared, root);
	return store;
}

/*
 * Make one more handle on a shared store, for the participant that this
 * backend is.  The store must have been created, and not be in mid-reset.
 */
PvDeadTids *
pv_deadtids_attach(PvDeadTidsShared *shared, dsa_area *area)
{
	PvDeadTids *store = make_handle(area);

	connect_handle(store, shared, dsa_get_address(area, shared->root));
	return store;
}

/*
 * Free a handle, and with it all of a local store.  A shared store's memory
 * stays until its area goes.
 */
void
pv_deadtids_detach(PvDeadTids *store)
{
	MemoryContextDelete(store->context);
}

/*
 * Forget all items, and keep the chunks for the next round.  Called by one
 * participant while no other uses the store; they find out by the generation.
 */
void
pv_deadtids_reset(PvDeadTids *store)
{
	PvDeadTidsShared *shared = store->shared;

	if (store->begun)
		elog(ERROR, "cannot reset the dead-TID store within segment %u",
			 store->segno);
	clear_entries(store->root, shared->nleaves);
	pg_atomic_write_u32(&shared->next_chunk, 0);
	pg_atomic_write_u64(&shared->items, 0);
	pg_atomic_write_u64(&shared->segments, 0);
	pg_write_barrier();
	pg_atomic_write_u32(&shared->generation,
						pg_atomic_read_u32(&shared->generation) + 1);
}

/*
 * If the store was reset since this handle was used last, forget addresses of
 * leaves and the chunk being filled.
 */
static void
notice_reset(PvDeadTids *store)
{
	uint32		generation = pg_atomic_read_u32(&store->shared->generation);

	if (store->generation == generation)
		return;
	store->generation = generation;
	memset(store->leaves, 0, store->shared->nleaves * sizeof(uint32 *));
	memset(&store->arena, 0, sizeof(store->arena));
	memset(&store->spare, 0, sizeof(store->spare));
	store->taken = 0;
}


/*-------------------------------------------------------------------------
 * Chunks
 *-------------------------------------------------------------------------
 */

/*
 * Count bytes for a new chunk of at most "wanted" bytes.  Returns how many it
 * may have, 0 if the limit has been reached; "regardless" is for a caller who
 * must get something.
 */
static Size
reserve_memory(PvDeadTidsShared *shared, Size wanted, bool regardless)
{
	uint64		before = pg_atomic_read_u64(&shared->memory);
	Size		granted;

	do
	{
		Size		room = before < shared->limit ? shared->limit - before : 0;

		if (room == 0 && !regardless)
			return 0;
		room = TYPEALIGN_DOWN(CHUNK_GRAIN, room);
		granted = Max(Min(wanted, room), CHUNK_MIN_BYTES);
	} while (!pg_atomic_compare_exchange_u64(&shared->memory, &before,
											 before + granted));
	return granted;
}

/*
 * See to it that the area does not try to grow where it cannot.  The segment
 * that it would add is as large as half of what it has, or the first ones,
 * of one and two megabytes.
 * Core: utils/mmgr/dsa.c, make_new_segment.
 */
static void
stop_growth_without_room(PvDeadTids *store)
{
	Size		next_segment = Max(pg_atomic_read_u64(&store->shared->memory) / 2,
								   2 * 1024 * 1024);

	if (!pv_dsm_has_room(next_segment))
		dsa_set_size_limit(store->area, 0);
}

/*
 * Allocate chunk number chunkno with so many bytes, which are counted already.
 * False if the area has reached a limit of its own; what was counted is given
 * back.
 */
static bool
make_chunk(PvDeadTids *store, uint32 chunkno, Size bytes)
{
	PvDeadTidsShared *shared = store->shared;

	if (store->area == NULL)
	{
		/* aligned, so that segments touch as few cache lines as they can */
		char	   *chunk = MemoryContextAlloc(store->context, bytes);

		store->chunks[chunkno] = (char *) CACHELINEALIGN(chunk);
		bytes -= PG_CACHE_LINE_SIZE;
	}
	else
	{
		dsa_pointer chunk;

		stop_growth_without_room(store);
		chunk = dsa_allocate_extended(store->area, bytes, DSA_ALLOC_NO_OOM);
		if (!DsaPointerIsValid(chunk))
		{
			pg_atomic_fetch_sub_u64(&shared->memory, bytes);
			return false;
		}
		shared->chunk[chunkno] = chunk;
	}
	shared->chunk_bytes[chunkno] = bytes;
	return true;
}

/* Find the address of a chunk and remember it. */
static const char *
map_chunk(PvDeadTids *store, uint32 chunkno)
{
	if (!DsaPointerIsValid(store->shared->chunk[chunkno]))
		elog(ERROR, "dead-TID store has no chunk %u", chunkno);
	store->chunks[chunkno] = dsa_get_address(store->area,
											 store->shared->chunk[chunkno]);
	return store->chunks[chunkno];
}

/* The address of a chunk. */
static inline const char *
chunk_address(PvDeadTids *store, uint32 chunkno)
{
	const char *chunk = store->chunks[chunkno];

	return likely(chunk != NULL) ? chunk : map_chunk(store, chunkno);
}

/* The address of what an entry, not an inline one, refers to. */
static inline const char *
entry_address(PvDeadTids *store, uint32 entry)
{
	return chunk_address(store, PV_ENTRY_CHUNK(entry)) + PV_ENTRY_PLACE(entry);
}

/*
 * Take the next chunk number, and make a chunk for it if it has none from an
 * earlier round; it becomes the spare one.  Numbers without a chunk are passed
 * over once the limit is reached, as there may be chunks behind them.  Returns
 * false if there are no more; the round's first taker gets a chunk in any case,
 * or an error.
 */
static bool
take_chunk(PvDeadTids *store)
{
	PvDeadTidsShared *shared = store->shared;
	Size		wanted = store->taken / CHUNK_GROWTH;
	uint32		chunkno;
	char	   *base;

	wanted = Min(TYPEALIGN(CHUNK_GRAIN, wanted), shared->max_chunk);
	for (;;)
	{
		Size		bytes;

		if (pg_atomic_read_u32(&shared->next_chunk) >= PV_MAX_CHUNKS)
			return false;
		chunkno = pg_atomic_fetch_add_u32(&shared->next_chunk, 1);
		if (chunkno >= PV_MAX_CHUNKS)
			return false;
		if (shared->chunk_bytes[chunkno] != 0)
			break;
		bytes = reserve_memory(shared, wanted, chunkno == 0);
		if (bytes != 0 && make_chunk(store, chunkno, bytes))
			break;
		if (chunkno == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory"),
					 errdetail("The store of dead item identifiers could not get its first %zu bytes.",
							   bytes)));
	}

	base = unconstify(char *, chunk_address(store, chunkno));
	store->spare.chunkno = chunkno;
	store->spare.base = base;
	store->spare.next = base;
	store->spare.end = base + shared->chunk_bytes[chunkno] - PV_CONTAINER_OVERREAD;
	store->taken += shared->chunk_bytes[chunkno];
	return true;
}

/* Is there room for so many bytes in the chunk being filled? */
static bool
has_room(const PvDeadTids *store, Size bytes)
{
	return store->arena.end - store->arena.next >= bytes;
}

/* The entry for something at this place in the chunk being filled. */
static uint32
arena_entry(const PvDeadTids *store, const char *place, PvSegmentLayout layout)
{
	uint32		unit = (place - store->arena.base) / PV_UNIT_BYTES;

	return layout |
		unit << PV_LAYOUT_BITS |
		store->arena.chunkno << (PV_LAYOUT_BITS + PV_UNIT_NO_BITS);
}


/*-------------------------------------------------------------------------
 * Directory
 *-------------------------------------------------------------------------
 */

/*
 * The address of a leaf, which is remembered; NULL if it is absent, which is
 * not.  In the root the layout bits of an entry say only that it is one.
 */
static const uint32 *
find_leaf(PvDeadTids *store, uint32 leafno)
{
	if (store->leaves[leafno] == NULL)
	{
		uint32		entry = pg_atomic_read_u32(&store->root[leafno]);

		if (entry == 0)
			return NULL;
		pg_read_barrier();		/* pairs with the exchange in make_leaf() */
		store->leaves[leafno] = (const uint32 *) entry_address(store, entry);
	}
	return store->leaves[leafno];
}

/*
 * The directory's entry for a segment; any segment number may be asked for.
 * The caller has called notice_reset().
 */
static inline uint32
find_entry(PvDeadTids *store, uint32 segno)
{
	const uint32 *leaf;

	if (unlikely(segno >= store->nsegments))
		return 0;
	leaf = store->leaves[segno / PV_LEAF_SEGMENTS];
	if (unlikely(leaf == NULL))
		leaf = find_leaf(store, segno / PV_LEAF_SEGMENTS);
	return leaf != NULL ? leaf[segno % PV_LEAF_SEGMENTS] : 0;
}

/* Find or make a leaf.  The chunk being filled has room for it. */
static pg_atomic_uint32 *
make_leaf(PvDeadTids *store, uint32 leafno)
{
	const uint32 *leaf = find_leaf(store, leafno);

	if (leaf == NULL)
	{
		uint32		expected = 0;
		uint32		entry = arena_entry(store, store->arena.next, PV_SEG_DIRECT);

		clear_entries((pg_atomic_uint32 *) store->arena.next, PV_LEAF_SEGMENTS);
		if (pg_atomic_compare_exchange_u32(&store->root[leafno],
										   &expected, entry))
			store->arena.next += LEAF_BYTES;
		leaf = find_leaf(store, leafno);
	}
	return (pg_atomic_uint32 *) unconstify(uint32 *, leaf);
}

/* Enter a packed segment into the directory. */
static void
publish_segment(PvDeadTids *store, uint32 segno, uint32 entry)
{
	pg_atomic_uint32 *leaf = make_leaf(store, segno / PV_LEAF_SEGMENTS);

	Assert(pg_atomic_read_u32(&leaf[segno % PV_LEAF_SEGMENTS]) == 0);
	pg_atomic_write_u32(&leaf[segno % PV_LEAF_SEGMENTS], entry);
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
	if (find_entry(store, segno) != 0)
		elog(ERROR, "segment %u was stored already", segno);
	if (store->build == NULL)
		store->build = MemoryContextAlloc(store->context,
										  sizeof(PvSegmentBuild));

	if (!has_room(store, SEGMENT_ROOM + LEAF_BYTES) &&
		store->spare.base == NULL && !take_chunk(store))
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
 * Pack the segment being built into the chunk being filled, and leave room for
 * a leaf if there is none yet.  Returns the segment's entry.
 */
static uint32
pack_segment(PvDeadTids *store)
{
	PvSegmentPlan plan = pv_segment_plan(store->build);
	Size		bytes = TYPEALIGN(PV_UNIT_BYTES, plan.bytes);
	Size		with_leaf = bytes;
	char	   *out;

	if (find_leaf(store, store->segno / PV_LEAF_SEGMENTS) == NULL)
		with_leaf += LEAF_BYTES;
	if (!has_room(store, with_leaf))
	{
		store->arena = store->spare;
		store->spare.base = NULL;
	}
	Assert(has_room(store, with_leaf));
	if (plan.layout == PV_SEG_INLINE)
		return PV_SEG_INLINE |
			pv_segment_pack_inline(store->build) << PV_LAYOUT_BITS;

	out = store->arena.next;
	store->arena.next += bytes;
	pv_segment_pack(store->build, &plan, out);
	return arena_entry(store, out, plan.layout);
}

/*
 * Finish the begun segment: pack it and put it into the directory.  One
 * without blocks leaves no trace.  Never allocates; it may have to map memory
 * that another participant has allocated.
 */
void
pv_deadtids_end_segment(PvDeadTids *store)
{
	if (!store->begun)
		elog(ERROR, "no segment to end");
	store->begun = false;
	if (store->build->nblocks == 0)
		return;
	publish_segment(store, store->segno, pack_segment(store));
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
	notice_reset(store);
	while (segno < store->nsegments)
	{
		uint32		leafno = segno / PV_LEAF_SEGMENTS;

		if (pg_atomic_read_u32(&store->root[leafno]) == 0)
			segno = (leafno + 1) * PV_LEAF_SEGMENTS;
		else if (find_entry(store, segno) != 0)
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
	notice_reset(store);
	iter->entry = find_entry(store, segno);
	if (iter->entry == 0)
		return false;
	iter->segment = NULL;
	if (PV_ENTRY_LAYOUT(iter->entry) != PV_SEG_INLINE)
		iter->segment = entry_address(store, iter->entry);
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
 * Look a TID up whatever is known already, and see to it that the next probe
 * of its segment knows all it needs.
 */
bool
pv_deadtids_probe_slow(PvDeadTids *store, ItemPointer tid)
{
	BlockNumber blk = ItemPointerGetBlockNumberNoCheck(tid);
	const char *segment = NULL;
	uint32		entry;

	notice_reset(store);
	entry = find_entry(store, PV_SEGMENT_OF(blk));
	if (PV_ENTRY_LAYOUT(entry) > PV_SEG_INLINE)
		segment = entry_address(store, entry);
	return probe_entry(entry, segment, blk % PV_SEGMENT_BLOCKS,
					   ItemPointerGetOffsetNumberNoCheck(tid));
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
		uint32		entry = find_entry(store, PV_SEGMENT_OF(blk));

		items[i].entry = entry;
		if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
			continue;
		items[i].segment = entry_address(store, entry);
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

	notice_reset(store);
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
	return pg_atomic_read_u64(&store->shared->memory);
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
	return store->shared->limit;
}
