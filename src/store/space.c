/*-------------------------------------------------------------------------
 *
 * space.c
 *	  Memory that several processes fill and none gives back: a space made of
 *	  extents.
 *
 *	 extent 0 (home)     extent 1                     extent 2
 *	 |cccc|dddd|....|    |cccccccc|dddddddd|cccc...|  |dddddddddddddd|......|
 *
 * Participants (c and d here) take chunks from the extents, each as many as it
 * needs, and nobody else writes to a chunk that somebody has.  All is forgotten
 * at once, by pv_space_reset(), and the extents serve again.
 *
 * An extent is a DSM segment of its own, or a piece of local memory if there
 * is one process only.  The first, "home", may lie in memory of the caller's,
 * who knows best how much will be needed: no lock is ever taken for chunks from
 * there, since it takes one atomic operation to get one.  An extent is a
 * quarter of what there is already, so they are few: 15 from 1 MB to 20 MB, and
 * 110 for 4 GB.  Whoever finds all of them used up makes the next, under a
 * lightweight lock.  Others in need wait for it meanwhile, and take from what it
 * has made; if each made one, there would be as many extents too many as there
 * are others, each a quarter of all.  Nothing that is locked here waits for who
 * waits for the lock, since the caller holds no lock of a buffer, and what the
 * server locks when it makes a segment it locks for moments.  An error ends in the
 * lock's release, and so does the end of the process; then the next one tries.
 *
 * Why not a DSA, which could do it all?  Its segments are larger than what was
 * asked for, so that what is counted is not what is allocated; and it locks each
 * time that it is asked for memory.
 *
 * Memory is counted by the extent, as it is allocated, with what the caller
 * puts in front.  It stays within the limit, but for those who need the bytes
 * "regardless".
 *
 * Segments are pinned, as participants may leave in any order, and unpinned by
 * the one who leaves last.  Who detaches from the segment that the shared part
 * lies in has left, so nothing stays behind, whether all is done, an error is
 * thrown, or a process ends.
 * Core: utils/mmgr/dsa.c, dsa_release_in_place.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/dsm.h"
#include "store/space.h"

/* Sizes of extents are multiples of these; and small segments are a nuisance. */
#define LOCAL_GRAIN			((Size) 2048)
#define SHARED_GRAIN		((Size) 4096)
#define SEGMENT_MIN_BYTES	((Size) 64 * 1024)
#define GROWTH				4	/* an extent is a quarter of what there is */

/* A chunk is this part of its extent, so that all participants find some. */
#define CHUNK_SHARE			16
#define CHUNK_MAX_BYTES		((Size) 64 * 1024)

/* What an extent has besides what can be used; the rest is for alignment. */
#define EXTENT_OVERHEAD		(PV_SPACE_OVERREAD + PG_CACHE_LINE_SIZE)

/* The number of extents that have been made, or are about to be ready. */
static uint32
count_extents(PvSpaceShared *shared)
{
	return Min(pg_atomic_read_u32(&shared->nextents), PV_MAX_EXTENTS);
}

/*
 * Enter an extent of so many bytes, all to be given out.  Whoever sees the size
 * sees the rest.
 */
static void
enter_extent(PvExtent *extent, dsm_handle handle, Size bytes)
{
	extent->handle = handle;
	pg_atomic_write_u32(&extent->used, PV_SPACE_UNIT);
	pg_write_barrier();			/* pairs with the one in take_from() */
	pg_atomic_write_u32(&extent->size,
						TYPEALIGN_DOWN(PV_SPACE_UNIT, bytes - EXTENT_OVERHEAD));
}

/*
 * Set up the shared part of a space with a limit in bytes.  Counted from the
 * start are "overhead" and home_bytes, the size of the home extent, 0 if there
 * is none.
 */
void
pv_space_init(PvSpaceShared *shared, Size limit, Size overhead, Size home_bytes)
{
	Assert(home_bytes <= PV_EXTENT_MAX_BYTES);
	shared->limit = limit;
	pg_atomic_init_u64(&shared->memory, overhead + home_bytes);
	pg_atomic_init_u32(&shared->users, 0);
	LWLockInitialize(&shared->growing, LWTRANCHE_PARALLEL_QUERY_DSA);
	pg_atomic_init_u32(&shared->nextents, 0);
	for (int i = 0; i < PV_MAX_EXTENTS; i++)
	{
		pg_atomic_init_u32(&shared->extents[i].size, 0);
		pg_atomic_init_u32(&shared->extents[i].used, 0);
		shared->extents[i].handle = DSM_HANDLE_INVALID;
	}
	if (home_bytes > EXTENT_OVERHEAD + PV_SPACE_UNIT)
	{
		enter_extent(&shared->extents[0], DSM_HANDLE_INVALID, home_bytes);
		pg_atomic_write_u32(&shared->nextents, 1);
	}
}

/*
 * Take part in a space that pv_space_init() has set up and nobody else uses.
 * Extents come from the current memory context, and go with it.
 */
void
pv_space_begin_local(PvSpace *space, PvSpaceShared *shared)
{
	memset(space, 0, sizeof(PvSpace));
	space->shared = shared;
	space->local = true;
	space->context = CurrentMemoryContext;
}

/* One process less takes part.  The last one gives the segments back. */
static void
leave(PvSpaceShared *shared)
{
	if (!pv_use_count_leave(&shared->users))
		return;
	for (int i = 0; i < PV_MAX_EXTENTS; i++)
	{
		if (shared->extents[i].handle != DSM_HANDLE_INVALID)
			dsm_unpin_segment(shared->extents[i].handle);
	}
}

/* Callback for a process that detaches from the segment of the shared part. */
static void
leave_with_segment(dsm_segment *seg, Datum shared)
{
	leave((PvSpaceShared *) DatumGetPointer(shared));
}

/*
 * Take part in a space that pv_space_init() has set up for several processes.
 * Extents are mapped for the current resource owner.  "home" is the address of
 * the home extent, and seg the segment that the shared part is in, NULL if it
 * is in other memory.
 */
void
pv_space_attach(PvSpace *space, PvSpaceShared *shared, char *home,
				dsm_segment *seg)
{
	memset(space, 0, sizeof(PvSpace));
	space->shared = shared;
	space->owner = CurrentResourceOwner;
	space->home = (char *) CACHELINEALIGN(home);
	space->leaves_with_segment = seg != NULL;
	if (seg != NULL)
		on_dsm_detach(seg, leave_with_segment, PointerGetDatum(shared));
	if (pv_use_count_enter(&shared->users))
		return;
	if (seg != NULL)
		cancel_on_dsm_detach(seg, leave_with_segment, PointerGetDatum(shared));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the vacuum that this process was started for has ended")));
}

/*
 * Unmap what this backend has mapped, for other spaces of its own on the same
 * shared part too.  Who took part with a segment leaves when
 * it detaches from that, others leave now.  A local space goes with its memory
 * context.
 */
void
pv_space_detach(PvSpace *space)
{
	if (space->local)
		return;
	for (int i = 0; i < PV_MAX_EXTENTS; i++)
	{
		dsm_handle	handle = space->shared->extents[i].handle;

		dsm_segment *seg;

		if (space->extents[i] != NULL && handle != DSM_HANDLE_INVALID &&
			(seg = dsm_find_mapping(handle)) != NULL)
			dsm_detach(seg);
		space->extents[i] = NULL;
	}
	if (!space->leaves_with_segment)
		leave(space->shared);
}

/*
 * Forget what is in the space; its memory stays for what comes next.  Called by
 * one participant while nobody else uses it.
 */
void
pv_space_reset(PvSpace *space)
{
	for (uint32 i = 0; i < count_extents(space->shared); i++)
		pg_atomic_write_u32(&space->shared->extents[i].used, PV_SPACE_UNIT);
}

/* Map an extent that another participant has made.  Returns its address. */
char *
pv_space_map(PvSpace *space, uint32 extent)
{
	dsm_handle	handle = space->shared->extents[extent].handle;
	ResourceOwner old = CurrentResourceOwner;
	dsm_segment *seg;

	if (handle == DSM_HANDLE_INVALID)
		return space->extents[extent] = space->home;
	seg = dsm_find_mapping(handle);
	if (seg == NULL)
	{
		CurrentResourceOwner = space->owner;
		seg = dsm_attach(handle);
		CurrentResourceOwner = old;
	}
	if (seg == NULL)
		elog(ERROR, "extent %u has no shared memory", extent);
	return space->extents[extent] = (char *) CACHELINEALIGN(dsm_segment_address(seg));
}


/*-------------------------------------------------------------------------
 * Growing
 *-------------------------------------------------------------------------
 */

/* The smallest extent in which so many bytes can be used. */
static Size
extent_bytes(const PvSpace *space, Size bytes)
{
	return TYPEALIGN(space->local ? LOCAL_GRAIN : SHARED_GRAIN,
					 bytes + PV_SPACE_UNIT + EXTENT_OVERHEAD);
}

/* Does the limit allow for an extent in which so many bytes can be used? */
bool
pv_space_may_grow(const PvSpace *space, Size bytes)
{
	PvSpaceShared *shared = space->shared;

	return count_extents(shared) < PV_MAX_EXTENTS &&
		pg_atomic_read_u64(&shared->memory) + extent_bytes(space, bytes) <= shared->limit;
}

/*
 * Count the memory of a new extent in which so many bytes can be used, or more.
 * Returns its size, 0 if the limit does not allow for one.
 */
static Size
count_memory(PvSpace *space, Size bytes, bool regardless)
{
	PvSpaceShared *shared = space->shared;
	Size		needed = extent_bytes(space, bytes);
	uint64		before = pg_atomic_read_u64(&shared->memory);
	Size		granted;

	do
	{
		Size		room = before < shared->limit ? shared->limit - before : 0;
		Size		wanted = before / GROWTH;

		if (room < needed && !regardless)
			return 0;
		if (!space->local)
			wanted = Max(wanted, SEGMENT_MIN_BYTES);
		granted = Min(wanted, room);
		granted = Min(granted, PV_EXTENT_MAX_BYTES);
		granted = TYPEALIGN_DOWN(space->local ? LOCAL_GRAIN : SHARED_GRAIN, granted);
		granted = Max(granted, needed);
	} while (!pg_atomic_compare_exchange_u64(&shared->memory, &before,
											 before + granted));
	return granted;
}

/*
 * Make a segment of so many bytes that stays until it is unpinned, with a
 * number of its own.  Returns its address, NULL if there can be none.
 */
static char *
make_segment(PvSpace *space, Size bytes, uint32 *number, dsm_handle *handle)
{
	ResourceOwner old = CurrentResourceOwner;
	dsm_segment *seg;

	if (!pv_dsm_has_room(bytes))
		return NULL;
	CurrentResourceOwner = space->owner;
	seg = dsm_create(bytes, DSM_CREATE_NULL_IF_MAXSEGMENTS);
	CurrentResourceOwner = old;
	if (seg == NULL)
		return NULL;
	*number = pg_atomic_fetch_add_u32(&space->shared->nextents, 1);
	if (*number >= PV_MAX_EXTENTS)
	{
		dsm_detach(seg);
		return NULL;
	}
	dsm_pin_segment(seg);
	*handle = dsm_segment_handle(seg);
	return dsm_segment_address(seg);
}

/*
 * Make an extent in which so many bytes can be used, or more.  False if there
 * can be none.  Only one participant is here at a time.
 */
static bool
make_extent(PvSpace *space, Size bytes, bool regardless)
{
	PvSpaceShared *shared = space->shared;
	uint32		number;
	dsm_handle	handle = DSM_HANDLE_INVALID;
	Size		granted;
	char	   *base;

	if (count_extents(shared) >= PV_MAX_EXTENTS)
		return false;
	granted = count_memory(space, bytes, regardless);
	if (granted == 0)
		return false;
	if (space->local)
	{
		base = MemoryContextAllocHuge(space->context, granted);
		number = pg_atomic_fetch_add_u32(&shared->nextents, 1);
	}
	else
		base = make_segment(space, granted, &number, &handle);
	if (base == NULL)
	{
		pg_atomic_fetch_sub_u64(&shared->memory, granted);
		return false;
	}
	space->extents[number] = (char *) CACHELINEALIGN(base);
	enter_extent(&shared->extents[number], handle, granted);
	return true;
}


/*-------------------------------------------------------------------------
 * Taking
 *-------------------------------------------------------------------------
 */

/* How much of an extent of this size a chunk of at least so many bytes takes. */
static Size
chunk_bytes(const PvSpace *space, Size size, Size bytes)
{
	if (space->local)
		return size;
	size = Min(size / CHUNK_SHARE, CHUNK_MAX_BYTES);
	return Max(TYPEALIGN(PV_SPACE_UNIT, size), bytes);
}

/*
 * Take a chunk of at least so many bytes, a number of units, from an extent.
 * False if there are not so many left.
 */
static bool
take_from(PvSpace *space, uint32 number, Size bytes, PvChunk *chunk)
{
	PvExtent   *extent = &space->shared->extents[number];
	Size		size = pg_atomic_read_u32(&extent->size);
	uint32		used;
	Size		taken;

	pg_read_barrier();			/* pairs with the one in enter_extent() */
	used = pg_atomic_read_u32(&extent->used);
	do
	{
		if (size < used + bytes)
			return false;
		taken = Min(chunk_bytes(space, size, bytes), size - used);
	} while (!pg_atomic_compare_exchange_u32(&extent->used, &used, used + taken));

	chunk->extent = number;
	chunk->base = pv_space_extent(space, number);
	chunk->next = chunk->base + used;
	chunk->end = chunk->next + taken;
	return true;
}

/* The same, from whichever extent has so much left. */
static bool
take_from_any(PvSpace *space, Size bytes, PvChunk *chunk)
{
	for (uint32 i = 0; i < count_extents(space->shared); i++)
	{
		if (take_from(space, i, bytes, chunk))
			return true;
	}
	return false;
}

/*
 * All extents were used up: make one and take a chunk from it, unless somebody has
 * made one that serves by the time it is our turn.  False if there can be none.
 */
static bool
grow_and_take(PvSpace *space, Size bytes, bool regardless, PvChunk *chunk)
{
	PvSpaceShared *shared = space->shared;
	bool		taken;

	if (!space->local)
		LWLockAcquire(&shared->growing, LW_EXCLUSIVE);
	do
	{
		taken = take_from_any(space, bytes, chunk);
	} while (!taken && make_extent(space, bytes, regardless));
	if (!space->local)
		LWLockRelease(&shared->growing);
	return taken;
}

/*
 * Take a chunk of at least so many bytes, beginning at a unit.  May allocate
 * shared memory, so hold no buffer lock.  False if that would exceed the limit,
 * unless the chunk is needed "regardless", or if there is no more memory or
 * number for an extent.
 */
bool
pv_space_take(PvSpace *space, Size bytes, bool regardless, PvChunk *chunk)
{
	bytes = TYPEALIGN(PV_SPACE_UNIT, bytes);
	return take_from_any(space, bytes, chunk) ||
		grow_and_take(space, bytes, regardless, chunk);
}
