/*-------------------------------------------------------------------------
 *
 * space.c
 *	  A space: memory that several processes fill, made of extents, and freed
 *	  as a whole.
 *
 *	 extent 0 (home)     extent 1                     extent 2
 *	 |cccc|dddd|....|    |cccccccc|dddddddd|cccc...|  |dddddddddddddd|......|
 *
 * Participants (c and d in the picture) take chunks from the extents.  Only
 * the participant that has taken a chunk writes to it.  pv_space_reset()
 * releases all chunks at once, and the extents are used again.
 *
 * An extent is a DSM segment of its own, or a piece of local memory if there
 * is only one process.  The first one, "home", may be in memory of the caller,
 * which knows best how much will be needed.  Taking a chunk from an existing
 * extent is one atomic operation without a lock.
 *
 * A new extent is a quarter of the memory that the space has already, so
 * extents are few: 110 for 4 GB.  A participant that finds no room in any of
 * them makes the next one, under a lightweight lock.  Others that need room
 * wait for the lock, and then take from the new extent; without it each would
 * make one of a quarter of the memory.  This cannot deadlock: the caller holds
 * no buffer lock, and the locks that the server takes when it creates a DSM
 * segment are held for moments.  After an error the lock is released by the
 * abort, or by the end of the process.
 *
 * A DSA would take a lock for each allocation, and its segments are larger
 * than what was asked for, so the memory counted would not be the memory
 * allocated.
 *
 * Memory is counted by extents, as it is allocated, plus the caller's
 * overhead.  It stays within the limit, except where the caller asks for
 * memory "regardless".  An extent made beyond the limit serves only such
 * requests, also after a reset: else others would fill it, and the next
 * request would exceed the limit again.
 *
 * DSM segments are pinned, because participants may leave in any order, and
 * the last one to leave unpins them.  A participant leaves by detaching from
 * the DSM segment that has the shared part.  So nothing remains after the
 * normal end, an error, or the end of a process.
 * Core: utils/mmgr/dsa.c, dsa_release_in_place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/process.h"
#include "store/space.h"

/*
 * Sizes of extents are multiples of these.  A DSM segment costs system calls
 * and a slot, so small ones are avoided.
 */
#define LOCAL_GRAIN			((Size) 2048)
#define SHARED_GRAIN		((Size) 4096)
#define SEGMENT_MIN_BYTES	((Size) 64 * 1024)
#define GROWTH				4	/* a new extent is 1/GROWTH of the memory */

/* A chunk is this part of its extent, so that all participants get some. */
#define CHUNK_SHARE			16
#define CHUNK_MAX_BYTES		((Size) 64 * 1024)

/* Bytes of an extent that cannot be used: the overread, and alignment. */
#define EXTENT_OVERHEAD		(PV_SPACE_OVERREAD + PG_CACHE_LINE_SIZE)

/* Return the number of extents that exist or are being made. */
static uint32
count_extents(PvSpaceShared *shared)
{
	return Min(pg_atomic_read_u32(&shared->nextents), PV_MAX_EXTENTS);
}

/* Return the share of the memory within the limit that is taken, 0 to 1. */
double
pv_space_share_used(PvSpaceShared *shared)
{
	uint64		memory = pg_atomic_read_u64(&shared->memory);
	double		usable = memory < shared->limit ? shared->limit - memory : 0;
	double		used = 0;

	for (uint32 i = 0; i < count_extents(shared); i++)
	{
		PvExtent   *extent = &shared->extents[i];
		uint32		size = pg_atomic_read_u32(&extent->size);

		pg_read_barrier();		/* pairs with the one in enter_extent() */
		if (size == 0 || extent->is_beyond_limit)
			continue;
		usable += size;
		used += pg_atomic_read_u32(&extent->used);
	}
	return usable > used ? used / usable : 1;
}

/*
 * Enter a new extent of this many bytes, none of which are taken.  A process
 * that sees the size also sees the other fields.
 */
static void
enter_extent(PvExtent *extent, dsm_handle handle, Size bytes,
			 bool is_beyond_limit)
{
	extent->handle = handle;
	extent->is_beyond_limit = is_beyond_limit;
	pg_atomic_write_u32(&extent->used, PV_SPACE_UNIT);
	pg_write_barrier();			/* pairs with those of readers of the size */
	pg_atomic_write_u32(&extent->size,
						TYPEALIGN_DOWN(PV_SPACE_UNIT,
									   bytes - EXTENT_OVERHEAD));
}

/*
 * Set up the shared part of a space with a limit in bytes.  "overhead" and
 * home_bytes count as allocated; home_bytes is the size of the home extent, 0
 * if there is none.
 */
void
pv_space_init(PvSpaceShared *shared, Size limit, Size overhead,
			  Size home_bytes)
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
		enter_extent(&shared->extents[0], DSM_HANDLE_INVALID, home_bytes,
					 false);
		pg_atomic_write_u32(&shared->nextents, 1);
	}
}

/*
 * Begin to use a space that pv_space_init() has set up, in this process alone.
 * Extents are allocated in the current memory context, and are freed with it.
 */
void
pv_space_begin_local(PvSpace *space, PvSpaceShared *shared)
{
	memset(space, 0, sizeof(PvSpace));
	space->shared = shared;
	space->local = true;
	space->context = CurrentMemoryContext;
}

/* Leave the space.  The last process to leave unpins the DSM segments. */
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

/* Callback for detaching from the DSM segment that has the shared part. */
static void
leave_with_segment(dsm_segment *seg, Datum shared)
{
	leave((PvSpaceShared *) DatumGetPointer(shared));
}

/*
 * Attach to a space that several processes use.  Extents are mapped for the
 * current resource owner.  "home" is the address of the home extent, and seg
 * the DSM segment that has the shared part, NULL if it is in other memory.
 * Raise an error if all processes have left the space.
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
			 errmsg("the other processes of this parallel operation have ended")));
}

/*
 * Unmap the extents that this backend has mapped, also for its other handles.
 * A process that attached with a DSM segment leaves the space when it detaches
 * from that, any other leaves now.  A local space goes with its memory context.
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

/* Release all chunks and keep the memory, while nobody uses the space. */
void
pv_space_reset(PvSpace *space)
{
	for (uint32 i = 0; i < count_extents(space->shared); i++)
		pg_atomic_write_u32(&space->shared->extents[i].used, PV_SPACE_UNIT);
}

/* Map an extent that another participant has made.  Return its address. */
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
	return space->extents[extent] =
		(char *) CACHELINEALIGN(dsm_segment_address(seg));
}


/*-------------------------------------------------------------------------
 * Growing
 *-------------------------------------------------------------------------
 */

/* Return the size of the smallest extent that has this many usable bytes. */
static Size
extent_bytes(const PvSpace *space, Size bytes)
{
	return TYPEALIGN(space->local ? LOCAL_GRAIN : SHARED_GRAIN,
					 bytes + PV_SPACE_UNIT + EXTENT_OVERHEAD);
}

/* Does the limit allow an extent with this many usable bytes? */
bool
pv_space_may_grow(const PvSpace *space, Size bytes)
{
	PvSpaceShared *shared = space->shared;

	return count_extents(shared) < PV_MAX_EXTENTS &&
		pg_atomic_read_u64(&shared->memory) + extent_bytes(space, bytes) <=
		shared->limit;
}

/*
 * Count the memory of a new extent with at least this many usable bytes, or
 * the smallest one that has them.  Return its size, 0 if the limit does not
 * allow one.
 */
static Size
count_memory(PvSpace *space, Size bytes, bool smallest, bool regardless)
{
	PvSpaceShared *shared = space->shared;
	Size		needed = extent_bytes(space, bytes);
	uint64		before = pg_atomic_read_u64(&shared->memory);
	Size		granted;

	do
	{
		Size		room = before < shared->limit ? shared->limit - before : 0;
		Size		wanted = smallest ? 0 : before / GROWTH;

		if (room < needed && !regardless)
			return 0;
		if (!space->local && !smallest)
			wanted = Max(wanted, SEGMENT_MIN_BYTES);
		granted = Min(wanted, room);
		granted = Min(granted, PV_EXTENT_MAX_BYTES);
		granted =
			TYPEALIGN_DOWN(space->local ? LOCAL_GRAIN : SHARED_GRAIN, granted);
		granted = Max(granted, needed);
	} while (!pg_atomic_compare_exchange_u64(&shared->memory, &before,
											 before + granted));
	return granted;
}

/*
 * Create and pin a DSM segment of this many bytes, and give it the number of
 * an extent.  Return its address, NULL if that is not possible.
 */
static char *
make_segment(PvSpace *space, Size bytes, uint32 *number, dsm_handle *handle)
{
	ResourceOwner old = CurrentResourceOwner;
	dsm_segment *seg;

	if (!pv_dsm_has_room(bytes, 0))
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
 * Make an extent with at least this many usable bytes, or the smallest one that
 * has them.  Return false if that is not possible.  The caller holds the lock
 * "growing", unless the space is local.
 */
static bool
make_extent(PvSpace *space, Size bytes, bool smallest, bool regardless)
{
	PvSpaceShared *shared = space->shared;
	uint32		number;
	dsm_handle	handle = DSM_HANDLE_INVALID;
	Size		granted;
	char	   *base;

	if (count_extents(shared) >= PV_MAX_EXTENTS)
		return false;
	granted = count_memory(space, bytes, smallest, regardless);
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
	enter_extent(&shared->extents[number], handle, granted,
				 pg_atomic_read_u64(&shared->memory) > shared->limit);
	return true;
}


/*-------------------------------------------------------------------------
 * Taking
 *-------------------------------------------------------------------------
 */

/*
 * Take a chunk of at least this many bytes, a multiple of the unit, from an
 * extent.  Return false if it has less left, or is for other requests.
 */
static bool
take_from(PvSpace *space, uint32 number, Size bytes, bool regardless,
		  PvChunk *chunk)
{
	PvExtent   *extent = &space->shared->extents[number];
	Size		size = pg_atomic_read_u32(&extent->size);
	uint32		used;
	Size		wanted;
	Size		taken;

	pg_read_barrier();			/* pairs with the one in enter_extent() */
	if (size == 0 || (extent->is_beyond_limit && !regardless))
		return false;
	wanted = Min(size / CHUNK_SHARE, CHUNK_MAX_BYTES);
	wanted = space->local ? size :
		Max(TYPEALIGN(PV_SPACE_UNIT, wanted), bytes);
	used = pg_atomic_read_u32(&extent->used);
	do
	{
		if (size < used + bytes)
			return false;
		taken = Min(wanted, size - used);
	} while (!pg_atomic_compare_exchange_u32(&extent->used, &used,
											 used + taken));

	chunk->extent = number;
	chunk->base = pv_space_extent(space, number);
	chunk->next = chunk->base + used;
	chunk->end = chunk->next + taken;
	return true;
}

/* Take a chunk from the first extent that has this many bytes left. */
static bool
take_from_any(PvSpace *space, Size bytes, bool regardless, PvChunk *chunk)
{
	for (uint32 i = 0; i < count_extents(space->shared); i++)
	{
		if (take_from(space, i, bytes, regardless, chunk))
			return true;
	}
	return false;
}

/*
 * Take a chunk of at least this many bytes, aligned to a unit.  This may
 * allocate shared memory, so the caller holds no buffer lock.  Return false if
 * the limit would be exceeded, unless the chunk is needed "regardless", and if
 * no memory or no number is left for another extent.
 */
bool
pv_space_take(PvSpace *space, Size bytes, bool regardless, PvChunk *chunk)
{
	PvSpaceShared *shared = space->shared;
	bool		taken;

	bytes = TYPEALIGN(PV_SPACE_UNIT, bytes);
	if (take_from_any(space, bytes, regardless, chunk))
		return true;

	/*
	 * Make an extent, unless another participant has made one by the time
	 * that we have the lock.  Where shared memory is nearly used up, a small
	 * one may be possible still.
	 */
	if (!space->local)
		LWLockAcquire(&shared->growing, LW_EXCLUSIVE);
	do
	{
		taken = take_from_any(space, bytes, regardless, chunk);
	} while (!taken &&
			 (make_extent(space, bytes, false, regardless) ||
			  make_extent(space, bytes, true, regardless)));
	if (!space->local)
		LWLockRelease(&shared->growing);
	return taken;
}
