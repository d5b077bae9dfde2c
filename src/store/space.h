/*-------------------------------------------------------------------------
 *
 * space.h
 *	  Memory that several processes fill and none gives back: a space made of
 *	  extents.
 *
 * See store/space.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SPACE_H
#define PV_SPACE_H

#include "storage/dsm.h"
#include "storage/lwlock.h"
#include "utils/resowner.h"

#include "base/use_count.h"
#include "store/segment.h"

/*
 * A place is the number of an extent and an offset in it, in units.  No place
 * has offset 0, so that 0 can mean "nowhere".
 */
#define PV_SPACE_UNIT			16
#define PV_EXTENT_NO_BITS		7
#define PV_EXTENT_UNIT_BITS		22
#define PV_PLACE_BITS			(PV_EXTENT_NO_BITS + PV_EXTENT_UNIT_BITS)
#define PV_MAX_EXTENTS			(1 << PV_EXTENT_NO_BITS)
#define PV_EXTENT_MAX_BYTES		((Size) PV_SPACE_UNIT << PV_EXTENT_UNIT_BITS)

/* This many bytes behind a chunk may be read, though not used. */
#define PV_SPACE_OVERREAD		16

/* An extent; what is in it is known once its size is. */
typedef struct PvExtent
{
	pg_atomic_uint32 size;		/* bytes that can be used; 0: not ready */
	pg_atomic_uint32 used;		/* bytes given out */
	dsm_handle	handle;			/* DSM_HANDLE_INVALID: no segment of its own */
} PvExtent;

/* What all participants share. */
typedef struct PvSpaceShared
{
	Size		limit;			/* bytes; read-only after creation */
	pg_atomic_uint64 memory;	/* bytes */
	pg_atomic_uint32 users;		/* a use count: processes that take part */
	LWLock		growing;		/* held by who makes an extent */
	pg_atomic_uint32 nextents;	/* extents made; may exceed PV_MAX_EXTENTS */
	PvExtent	extents[PV_MAX_EXTENTS];
} PvSpaceShared;

/* A backend's view of it. */
typedef struct PvSpace
{
	PvSpaceShared *shared;
	bool		local;			/* extents are in local memory */
	MemoryContext context;		/* which is this */
	ResourceOwner owner;		/* of mapped extents, if shared */
	bool		leaves_with_segment;	/* of the shared part */
	char	   *home;			/* the extent without a segment of its own */
	char	   *extents[PV_MAX_EXTENTS];	/* addresses, NULL where unknown */
} PvSpace;

/* A piece of the space that one participant fills; next is NULL if none. */
typedef struct PvChunk
{
	char	   *next;			/* free from here */
	char	   *end;			/* to here */
	char	   *base;			/* where the extent begins */
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
extern char *pv_space_map(PvSpace *space, uint32 extent);

/* The address of an extent that has been made. */
static inline char *
pv_space_extent(PvSpace *space, uint32 extent)
{
	char	   *base = space->extents[extent];

	return likely(base != NULL) ? base : pv_space_map(space, extent);
}

/* Bytes that are free in a chunk. */
static inline Size
pv_chunk_free(const PvChunk *chunk)
{
	return chunk->end - chunk->next;
}

#endif							/* PV_SPACE_H */
