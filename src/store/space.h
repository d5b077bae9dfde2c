/*-------------------------------------------------------------------------
 *
 * space.h
 *	  A space: memory that several processes fill, made of extents, and freed
 *	  as a whole.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SPACE_H
#define PV_SPACE_H

#include "storage/dsm.h"
#include "storage/lwlock.h"
#include "utils/resowner.h"

#include "base/use_count.h"

/*
 * A place is the number of an extent and an offset in it, in units.  No place
 * has offset 0, so that 0 can stand for no place.
 */
#define PV_SPACE_UNIT			16
#define PV_EXTENT_NO_BITS		7
#define PV_EXTENT_UNIT_BITS		22
#define PV_PLACE_BITS			(PV_EXTENT_NO_BITS + PV_EXTENT_UNIT_BITS)
#define PV_MAX_EXTENTS			(1 << PV_EXTENT_NO_BITS)
#define PV_EXTENT_MAX_BYTES		((Size) PV_SPACE_UNIT << PV_EXTENT_UNIT_BITS)

/* This many bytes behind a chunk may be read, but not used. */
#define PV_SPACE_OVERREAD		16

/* An extent.  The other fields are valid once the size is not 0. */
typedef struct PvExtent
{
	pg_atomic_uint32 size;		/* bytes that can be used; 0: not ready */
	pg_atomic_uint32 used;		/* bytes taken */
	dsm_handle	handle;			/* DSM_HANDLE_INVALID if it has no DSM segment
								 * of its own */
	bool		is_beyond_limit;	/* only for what is needed regardless */
} PvExtent;

/* What all participants share. */
typedef struct PvSpaceShared
{
	Size		limit;			/* bytes; read-only after creation */
	pg_atomic_uint64 memory;	/* bytes allocated */
	pg_atomic_uint32 users;		/* use count: processes that have attached */
	LWLock		growing;		/* held by the process that makes an extent */
	pg_atomic_uint32 nextents;	/* extents made; may exceed PV_MAX_EXTENTS */
	PvExtent	extents[PV_MAX_EXTENTS];
} PvSpaceShared;

/* A backend's view of a space; private to it. */
typedef struct PvSpace
{
	PvSpaceShared *shared;
	bool		local;			/* extents are in local memory */
	MemoryContext context;		/* of these, if local */
	ResourceOwner owner;		/* of mapped extents, if shared */
	bool		leaves_with_segment;	/* detaching from the DSM segment of
										 * the shared part ends the use */
	char	   *home;			/* the extent without a DSM segment of its own */
	char	   *extents[PV_MAX_EXTENTS];	/* addresses, NULL if not mapped */
} PvSpace;

/* A piece of the space that one participant fills */
typedef struct PvChunk
{
	char	   *next;			/* first free byte; NULL: no chunk */
	char	   *end;			/* end of the chunk */
	char	   *base;			/* beginning of the extent */
	uint32		extent;
} PvChunk;

extern void pv_space_init(PvSpaceShared *shared, Size limit, Size overhead,
						  Size home_bytes);
extern void pv_space_begin_local(PvSpace *space, PvSpaceShared *shared);
extern void pv_space_attach(PvSpace *space, PvSpaceShared *shared, char *home,
							dsm_segment *seg);
extern void pv_space_detach(PvSpace *space);
extern void pv_space_reset(PvSpace *space);
extern bool pv_space_may_grow(const PvSpace *space, Size bytes);
extern bool pv_space_take(PvSpace *space, Size bytes, bool regardless,
						  PvChunk *chunk);
extern double pv_space_share_used(PvSpaceShared *shared);
extern char *pv_space_map(PvSpace *space, uint32 extent);

/* Return the address of an existing extent. */
static inline char *
pv_space_extent(PvSpace *space, uint32 extent)
{
	char	   *base = space->extents[extent];

	return likely(base != NULL) ? base : pv_space_map(space, extent);
}

/* Return the bytes that are free in a chunk. */
static inline Size
pv_chunk_free(const PvChunk *chunk)
{
	return chunk->end - chunk->next;
}

#endif							/* PV_SPACE_H */
