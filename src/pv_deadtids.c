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
 *	root			  leaf (256 entries)
 *	+---+			  +---+
 *	| *-+------------>| 0 |  0: absent
 *	+---+			  | 0 |
 *	| 0 |			  | *-+---> layout "ranked", chunk 0, unit 32:
 *	+---+			  | *-+--+
 *	| 0 |			  | 0 |  |		present	  1001000 ... 0	  (128 bits)
 *	 ...			  | 0 |  |		below	  2
 *					   ...	 |		locators  array at 22, run 5 length 4
 *							 |		at 22	  array: count 3; 3, 9, 70
 *							 |
 *							 +----> layout "inline": block 0, run 12 length 1
 *
 * The TID (259,6) is found by: segment 259 / 128 = 2, root[2 / 256], leaf[2],
 * block 259 % 128 = 3 is present and is the second present one, its locator is
 * a run, and 6 is in it.
 *
 * Equal containers of a segment are stored once.  Real tables are regular, so
 * packing looks for more: if all present blocks have the same offsets, the
 * segment is "uniform", one locator and at most one container; if most have
 * many, it is a "matrix", one bitmap per block, all of the same width, and no
 * locators.  "Direct" forms of both have room for all 128 blocks instead of
 * ranking the present ones; they are larger when few are present, and faster
 * to read.  choose_layout() takes the smallest, or nearly so.
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

#include "common/hashfn.h"
#include "port/pg_bitutils.h"
#include "pv_container.h"
#include "pv_deadtids.h"
#include "utils/memutils.h"

/* The largest packed segment: a matrix of the widest rows. */
#define MATRIX_HEAD_BYTES	(offsetof(PvRankedMatrix, matrix) + sizeof(PvMatrix))
#define SEGMENT_MAX_BYTES \
	TYPEALIGN(PV_UNIT_BYTES, \
			  MATRIX_HEAD_BYTES + PV_SEGMENT_BLOCKS * PV_BITMAP_MAX_BYTES)

/* Where containers begin in the layouts that have locators. */
#define UNIFORM_HEAD_BYTES \
	TYPEALIGN(PV_LOCATOR_STEP, \
			  offsetof(PvUniformSegment, locator) + sizeof(uint16))
#define RANKED_HEAD_BYTES(n) \
	TYPEALIGN(PV_LOCATOR_STEP, \
			  offsetof(PvRankedSegment, locators) + (n) * sizeof(uint16))

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
				  SEGMENT_MAX_BYTES + LEAF_BYTES + PV_CONTAINER_OVERREAD + \
				  PG_CACHE_LINE_SIZE), 3 * CHUNK_GRAIN)
#define CHUNK_GROWTH		8	/* an eighth of what was taken */
#define CHUNK_LIMIT_SHARE	256
#define CHUNK_MAX_FLOOR		(64 * 1024)

/*
 * The direct form of a layout is taken if it is at most this much larger than
 * the ranked one, in bytes.
 */
#define DIRECT_SLACK		64

/* Batches are looked up so many at a time. */
#define BATCH_ITEMS			32

#ifdef __GNUC__
#define prefetch(address)	__builtin_prefetch(address)
#else
#define prefetch(address)	((void) (address))
#endif

/* What a container takes at most among others. */
#define CONTAINER_ROOM		TYPEALIGN(PV_LOCATOR_STEP, PV_CONTAINER_MAX_BYTES)

/* The segment being built.  Positions are relative to "containers". */
struct PvSegmentBuild
{
	bool		begun;
	uint32		segno;
	int			nblocks;		/* present blocks so far */
	int64		nitems;
	int			min_byte;		/* smallest and largest offset, divided by 8 */
	int			max_byte;
	uint8		idx[PV_SEGMENT_BLOCKS]; /* each present block's number */
	uint16		locators[PV_SEGMENT_BLOCKS];	/* and its locator */
	uint16		known[2 * PV_SEGMENT_BLOCKS];	/* hash table of containers:
												 * locator + 1, or 0 */
	int			used;			/* bytes of containers */
	uint8		containers[PV_SEGMENT_BLOCKS * CONTAINER_ROOM];
};

/* A TID of a batch that is being looked up. */
typedef struct BatchItem
{
	uint32		entry;			/* of the directory */
	const char *segment;		/* undefined if the entry is absent or inline */
} BatchItem;

/* How a segment is to be packed. */
typedef struct PackPlan
{
	PvSegmentLayout layout;
	Size		bytes;
	int			head;			/* where containers begin; 0 for a matrix */
} PackPlan;

StaticAssertDecl(PV_SEGMENT_BLOCKS * CONTAINER_ROOM +
				 RANKED_HEAD_BYTES(PV_SEGMENT_BLOCKS) <=
				 (1 << PV_LOCATOR_POS_BITS) * PV_LOCATOR_STEP,
				 "a locator must reach every container");
StaticAssertDecl(PV_LAYOUT_BITS + PV_UNIT_NO_BITS + PV_CHUNK_NO_BITS == 32,
				 "an entry is 32 bits");
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

	if (store->build != NULL && store->build->begun)
		elog(ERROR, "cannot reset the dead-TID store within segment %u",
			 store->build->segno);
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
		dsa_pointer chunk = dsa_allocate_extended(store->area, bytes,
												  DSA_ALLOC_NO_OOM);

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
 * earlier round; it becomes the spare one.  Numbers without a chunk are passed over once the limit is
 * reached, as there may be chunks behind them.  Returns false if there are no
 * more; the round's first taker gets a chunk in any case, or an error.
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
	PvSegmentBuild *build = store->build;

	if (segno >= store->nsegments)
		elog(ERROR, "segment %u is beyond the last of %u", segno,
			 store->nsegments);
	if (build == NULL)
		build = store->build = MemoryContextAllocZero(store->context,
													  sizeof(PvSegmentBuild));
	if (build->begun)
		elog(ERROR, "cannot begin segment %u within segment %u", segno,
			 build->segno);
	notice_reset(store);
	if (find_entry(store, segno) != 0)
		elog(ERROR, "segment %u was stored already", segno);
	if (!has_room(store, SEGMENT_MAX_BYTES + LEAF_BYTES) &&
		store->spare.base == NULL && !take_chunk(store))
		return false;

	build->begun = true;
	build->segno = segno;
	build->nblocks = 0;
	build->nitems = 0;
	build->min_byte = PV_BITMAP_MAX_BYTES;
	build->max_byte = 0;
	build->used = 0;
	memset(build->known, 0, sizeof(build->known));
	return true;
}

/* Raise an error if add_block's arguments are impossible. */
static void
check_block(const PvDeadTids *store, BlockNumber blk,
			const OffsetNumber *offsets, int n)
{
	const PvSegmentBuild *build = store->build;

	if (build == NULL || !build->begun)
		elog(ERROR, "block %u is stored outside of a segment", blk);
	if (PV_SEGMENT_OF(blk) != build->segno || blk >= store->shared->nblocks)
		elog(ERROR, "block %u is not in segment %u", blk, build->segno);
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
 * The locator of the container that stands at the end of those collected, and
 * has so many bytes.  If an equal one is among them, the result refers to
 * that, else the new one is kept.
 */
static uint16
intern_container(PvSegmentBuild *build, PvContainerKind kind, int bytes)
{
	const uint8 *c = build->containers + build->used;
	uint32		mask = lengthof(build->known) - 1;
	uint32		slot = hash_bytes(c, bytes) & mask;
	uint16		locator;

	for (; build->known[slot] != 0; slot = (slot + 1) & mask)
	{
		const uint8 *other;

		locator = build->known[slot] - 1;
		other = build->containers + PV_LOCATOR_POS(locator);
		if (PV_LOCATOR_KIND(locator) == kind &&
			pv_container_bytes(kind, other) == bytes &&
			memcmp(other, c, bytes) == 0)
			return locator;
	}
	locator = kind << PV_LOCATOR_POS_BITS | build->used / PV_LOCATOR_STEP;
	build->known[slot] = locator + 1;
	build->used += TYPEALIGN(PV_LOCATOR_STEP, bytes);
	return locator;
}

/* The locator for these offsets of the segment being built. */
static uint16
make_locator(PvSegmentBuild *build, const OffsetNumber *offsets, int n)
{
	PvContainerKind kind;
	int			bytes;

	if (offsets[n - 1] - offsets[0] == n - 1 && n <= PV_RUN_MAX_LENGTH &&
		offsets[0] <= PV_RUN_MAX_START)
		return PV_LOCATOR_RUN | offsets[0] << PV_RUN_LENGTH_BITS | n;
	bytes = pv_container_encode(offsets, n,
								build->containers + build->used, &kind);
	return intern_container(build, kind, bytes);
}

/*
 * Add a block of the begun segment, with its n >= 1 dead offsets in ascending
 * order.  Blocks must ascend too.  Never allocates.
 */
void
pv_deadtids_add_block(PvDeadTids *store, BlockNumber blk,
					  const OffsetNumber *offsets, int n)
{
	PvSegmentBuild *build = store->build;

	check_block(store, blk, offsets, n);
	build->idx[build->nblocks] = blk % PV_SEGMENT_BLOCKS;
	build->locators[build->nblocks] = make_locator(build, offsets, n);
	build->min_byte = Min(build->min_byte, offsets[0] / 8);
	build->max_byte = Max(build->max_byte, offsets[n - 1] / 8);
	build->nblocks++;
	build->nitems += n;
}


/*-------------------------------------------------------------------------
 * Packing a segment
 *-------------------------------------------------------------------------
 */

/* Do all present blocks have the same offsets? */
static bool
is_uniform(const PvSegmentBuild *build)
{
	for (int i = 1; i < build->nblocks; i++)
	{
		if (build->locators[i] != build->locators[0])
			return false;
	}
	return true;
}

/* A plan for this layout, with room for the containers behind the head. */
static PackPlan
plan_locators(const PvSegmentBuild *build, PvSegmentLayout layout, int head)
{
	PackPlan	plan = {layout, head + build->used, head};

	return plan;
}

/* A plan for a matrix of so many rows behind a head of so many bytes. */
static PackPlan
plan_matrix(const PvSegmentBuild *build, PvSegmentLayout layout, int head,
			int nrows)
{
	int			stride = build->max_byte - build->min_byte + 1;
	PackPlan	plan = {layout, head + nrows * stride, 0};

	return plan;
}

/* Of two plans that differ in ranking blocks or not, the better one. */
static PackPlan
better_plan(PackPlan ranked, PackPlan direct)
{
	return direct.bytes <= ranked.bytes + DIRECT_SLACK ? direct : ranked;
}

/* Decide how to pack a segment that has blocks. */
static PackPlan
choose_layout(const PvSegmentBuild *build)
{
	static const PackPlan in_entry = {PV_SEG_INLINE, 0, 0};
	PackPlan	locators;
	PackPlan	matrix;

	if (build->nblocks == 1 && (build->locators[0] & PV_LOCATOR_RUN))
		return in_entry;
	if (is_uniform(build))
		return plan_locators(build, PV_SEG_UNIFORM, UNIFORM_HEAD_BYTES);

	locators = better_plan(plan_locators(build, PV_SEG_RANKED,
										 RANKED_HEAD_BYTES(build->nblocks)),
						   plan_locators(build, PV_SEG_DIRECT,
										 sizeof(PvDirectSegment)));
	matrix = better_plan(plan_matrix(build, PV_SEG_RANKED_MATRIX,
									 MATRIX_HEAD_BYTES, build->nblocks),
						 plan_matrix(build, PV_SEG_DIRECT_MATRIX,
									 sizeof(PvMatrix), PV_SEGMENT_BLOCKS));
	return matrix.bytes <= locators.bytes ? matrix : locators;
}

/* The locator of block idx in a segment of the direct layout. */
static inline const uint16 *
direct_locator(const char *segment, uint32 idx)
{
	return &((const PvDirectSegment *) segment)->locators[idx];
}

/* The entry that is a segment of one block with one run. */
static uint32
inline_entry(const PvSegmentBuild *build)
{
	return PV_SEG_INLINE |
		(build->locators[0] & ~PV_LOCATOR_RUN) << PV_LAYOUT_BITS |
		(uint32) build->idx[0] << (PV_LAYOUT_BITS + 15);
}

/* Set the bits of the present blocks.  Returns how many are in the first word. */
static int
pack_present(const PvSegmentBuild *build, uint64 *present)
{
	present[0] = present[1] = 0;
	for (int i = 0; i < build->nblocks; i++)
		present[build->idx[i] / 64] |= UINT64CONST(1) << (build->idx[i] % 64);
	return pv_popcount64(present[0]);
}

/* A locator of the segment being built, as it is when containers have moved. */
static uint16
moved_locator(uint16 locator, int distance)
{
	return (locator & PV_LOCATOR_RUN) ? locator : locator + distance / PV_LOCATOR_STEP;
}

/* Pack a segment as locators and containers, to zeroed memory. */
static void
pack_locators(const PvSegmentBuild *build, const PackPlan *plan, char *out)
{
	bool		is_ranked = plan->layout == PV_SEG_RANKED;
	uint16	   *locators;

	memcpy(out + plan->head, build->containers, build->used);
	if (plan->layout == PV_SEG_UNIFORM)
	{
		PvUniformSegment *uniform = (PvUniformSegment *) out;

		pack_present(build, uniform->present);
		uniform->locator = moved_locator(build->locators[0], plan->head);
		return;
	}
	if (is_ranked)
	{
		PvRankedSegment *ranked = (PvRankedSegment *) out;

		ranked->below = pack_present(build, ranked->present);
		locators = ranked->locators;
	}
	else
	{
		locators = ((PvDirectSegment *) out)->locators;
		for (int i = 0; i < PV_SEGMENT_BLOCKS; i++)
			locators[i] = PV_LOCATOR_NONE;
	}
	for (int i = 0; i < build->nblocks; i++)
	{
		int			place = is_ranked ? i : build->idx[i];

		locators[place] = moved_locator(build->locators[i], plan->head);
	}
}

/* Write to offsets what a locator stands for.  Returns their number. */
static int
decode_locator(const char *segment, uint32 locator, OffsetNumber *offsets)
{
	int			first;
	int			n;

	if (!(locator & PV_LOCATOR_RUN))
		return pv_container_decode(PV_LOCATOR_KIND(locator),
								   (const uint8 *) segment + PV_LOCATOR_POS(locator),
								   offsets);
	first = (locator >> PV_RUN_LENGTH_BITS) & PV_LOW_BITS(PV_RUN_START_BITS);
	n = locator & PV_LOW_BITS(PV_RUN_LENGTH_BITS);
	for (int i = 0; i < n; i++)
		offsets[i] = first + i;
	return n;
}

/* Pack a segment as a matrix, to zeroed memory. */
static void
pack_matrix(const PvSegmentBuild *build, const PackPlan *plan, char *out)
{
	bool		is_ranked = plan->layout == PV_SEG_RANKED_MATRIX;
	PvMatrix   *matrix = (PvMatrix *) out;
	uint8	   *rows;

	if (is_ranked)
	{
		PvRankedMatrix *ranked = (PvRankedMatrix *) out;

		ranked->below = pack_present(build, ranked->present);
		matrix = &ranked->matrix;
	}
	matrix->base = build->min_byte;
	matrix->stride = build->max_byte - build->min_byte + 1;
	rows = (uint8 *) (matrix + 1);
	for (int i = 0; i < build->nblocks; i++)
	{
		OffsetNumber offsets[PV_MAX_OFFSET];
		int			n = decode_locator((const char *) build->containers,
									   build->locators[i], offsets);
		uint8	   *row = rows + (is_ranked ? i : build->idx[i]) * matrix->stride;

		for (int j = 0; j < n; j++)
			row[offsets[j] / 8 - matrix->base] |= 1 << (offsets[j] % 8);
	}
}

/*
 * Pack the segment being built into the chunk being filled, and leave room for
 * a leaf if there is none yet.  Returns the segment's entry.
 */
static uint32
pack_segment(PvDeadTids *store)
{
	const PvSegmentBuild *build = store->build;
	PackPlan	plan = choose_layout(build);
	Size		bytes = TYPEALIGN(PV_UNIT_BYTES, plan.bytes);
	Size		with_leaf = bytes;
	char	   *out;

	if (find_leaf(store, build->segno / PV_LEAF_SEGMENTS) == NULL)
		with_leaf += LEAF_BYTES;
	if (!has_room(store, with_leaf))
	{
		store->arena = store->spare;
		store->spare.base = NULL;
	}
	Assert(has_room(store, with_leaf));
	if (plan.layout == PV_SEG_INLINE)
		return inline_entry(build);

	out = store->arena.next;
	store->arena.next += bytes;
	memset(out, 0, bytes);
	if (plan.head != 0)
		pack_locators(build, &plan, out);
	else
		pack_matrix(build, &plan, out);
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
	PvSegmentBuild *build = store->build;

	if (build == NULL || !build->begun)
		elog(ERROR, "no segment to end");
	build->begun = false;
	if (build->nblocks == 0)
		return;
	publish_segment(store, build->segno, pack_segment(store));
	pg_atomic_fetch_add_u64(&store->shared->items, build->nitems);
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
	iter->rank = 0;
	return true;
}

/* Write a matrix row's offsets.  Returns their number. */
static int
decode_row(const PvMatrix *matrix, int row, OffsetNumber *offsets)
{
	const uint8 *bits = (const uint8 *) (matrix + 1) + row * matrix->stride;
	int			n = 0;

	for (int byte = 0; byte < matrix->stride; byte++)
	{
		for (uint8 left = bits[byte]; left != 0; left &= left - 1)
			offsets[n++] = (matrix->base + byte) * 8 + pg_rightmost_one_pos32(left);
	}
	return n;
}

/* Write the offsets of block idx of a segment.  Returns their number. */
static int
decode_block(PvDeadTidsIter *iter, int idx, OffsetNumber *offsets)
{
	const char *segment = iter->segment;
	PvSegmentLayout layout = PV_ENTRY_LAYOUT(iter->entry);

	if (layout == PV_SEG_INLINE)
	{
		if (iter->entry >> (PV_LAYOUT_BITS + 15) != idx)
			return 0;
		return decode_locator(NULL,
							  PV_LOCATOR_RUN | iter->entry >> PV_LAYOUT_BITS,
							  offsets);
	}
	if (layout == PV_SEG_DIRECT_MATRIX)
		return decode_row((const PvMatrix *) segment, idx, offsets);
	if (layout == PV_SEG_DIRECT)
		return decode_locator(segment, *direct_locator(segment, idx), offsets);

	/* all others begin with the presence bitmap */
	if (!pv_present((const uint64 *) segment, idx))
		return 0;
	if (layout == PV_SEG_UNIFORM)
		return decode_locator(segment,
							  ((const PvUniformSegment *) segment)->locator,
							  offsets);
	if (layout == PV_SEG_RANKED_MATRIX)
		return decode_row(&((const PvRankedMatrix *) segment)->matrix,
						  iter->rank++, offsets);
	return decode_locator(segment,
						  ((const PvRankedSegment *) segment)->locators[iter->rank++],
						  offsets);
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
	uint32		idx = blk % PV_SEGMENT_BLOCKS;
	PvSegmentLayout layout;

	if (!pv_deadtids_segment_begin(store, PV_SEGMENT_OF(blk), &iter))
		return 0;

	layout = PV_ENTRY_LAYOUT(iter.entry);
	if (layout == PV_SEG_RANKED || layout == PV_SEG_RANKED_MATRIX)
	{
		const PvRankedSegment *ranked = (const PvRankedSegment *) iter.segment;

		iter.rank = pv_rank(ranked->present, ranked->below, idx);
	}
	return decode_block(&iter, idx, offsets);
}

/*
 * Look a TID up whatever is known already, and see to it that the next probe
 * of its segment knows all it needs.
 */
bool
pv_deadtids_probe_slow(PvDeadTids *store, ItemPointer tid)
{
	BlockNumber blk = ItemPointerGetBlockNumberNoCheck(tid);
	uint32		off = ItemPointerGetOffsetNumberNoCheck(tid);
	uint32		entry;

	notice_reset(store);
	entry = find_entry(store, PV_SEGMENT_OF(blk));
	if (PV_ENTRY_LAYOUT(entry) <= PV_SEG_INLINE)
		return pv_inline_probe(entry, blk % PV_SEGMENT_BLOCKS, off);
	return pv_segment_probe(entry_address(store, entry), PV_ENTRY_LAYOUT(entry),
							blk % PV_SEGMENT_BLOCKS, off);
}

/*
 * First step of a batch: find the segments of the TIDs, and fetch what will be
 * looked at first in each.
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
		if (PV_ENTRY_LAYOUT(entry) == PV_SEG_DIRECT)
			prefetch(direct_locator(items[i].segment, blk % PV_SEGMENT_BLOCKS));
		else
			prefetch(items[i].segment);
	}
}

/*
 * Second step: what was fetched tells where in the segment the row or the
 * container of the block is; fetch that.  Where present blocks are ranked there
 * are few of them, so mostly there is nothing to fetch; that is left out.
 */
static void
batch_find_rows(const ItemPointerData *tids, int n, const BatchItem *items)
{
	for (int i = 0; i < n; i++)
	{
		const char *segment = items[i].segment;
		uint32		idx = ItemPointerGetBlockNumberNoCheck(&tids[i]) % PV_SEGMENT_BLOCKS;

		if (PV_ENTRY_LAYOUT(items[i].entry) == PV_SEG_DIRECT)
		{
			uint32		locator = *direct_locator(segment, idx);

			if (!(locator & PV_LOCATOR_RUN))
				prefetch(segment + PV_LOCATOR_POS(locator));
		}
		else if (PV_ENTRY_LAYOUT(items[i].entry) == PV_SEG_DIRECT_MATRIX)
		{
			uint32		off = ItemPointerGetOffsetNumberNoCheck(&tids[i]);
			const PvMatrix *matrix = (const PvMatrix *) segment;

			prefetch((const char *) (matrix + 1) + idx * matrix->stride +
					 off / 8 - matrix->base);
		}
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
		uint32		idx = ItemPointerGetBlockNumberNoCheck(&tids[i]) % PV_SEGMENT_BLOCKS;
		uint32		off = ItemPointerGetOffsetNumberNoCheck(&tids[i]);
		PvSegmentLayout layout = PV_ENTRY_LAYOUT(items[i].entry);

		if (layout <= PV_SEG_INLINE)
			dead[i] = pv_inline_probe(items[i].entry, idx, off);
		else
			dead[i] = pv_segment_probe(items[i].segment, layout, idx, off);
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
