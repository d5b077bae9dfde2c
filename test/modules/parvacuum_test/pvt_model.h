/*-------------------------------------------------------------------------
 *
 * pvt_model.h
 *	  A naive set of TIDs, and random blocks, to test the store with.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PVT_MODEL_H
#define PVT_MODEL_H

#include "common/pg_prng.h"
#include "store/deadtids.h"

/* Every offset that a TID can have is probed up to here, and the largest. */
#define PVT_PROBE_OFFSETS	(2 * PV_MAX_OFFSET)

/*
 * The bytes by which each handle may exceed a store's limit, or the size of an
 * empty store: room for the largest segment, rounded up to the size of an
 * allocation.
 */
#define PVT_OVERSHOOT \
	TYPEALIGN(4096, PV_SEGMENT_BLOCKS * PV_BITMAP_MAX_BYTES + 512)

/* A store under test, the handles on it, and what it should contain. */
typedef struct PvtModel PvtModel;

typedef struct PvtStore
{
	MemoryContext context;
	PvDeadTidsShared *shared;	/* NULL if the store is local */
	BlockNumber nblocks;
	int			nhandles;
	PvDeadTids **handles;
	PvtModel   *model;
} PvtStore;

/* How a random segment looks. */
typedef struct PvtShape
{
	const char *name;
	int			block_percent;	/* how many blocks are present */
	void		(*block) (pg_prng_state *prng, int max_offset, bool *dead);
	bool		same;			/* all blocks have the same offsets */
} PvtShape;

extern PvtStore *pvt_store_create(BlockNumber nblocks, Size limit, bool shared,
								  Size reserve, int nhandles);
extern void pvt_store_drop(PvtStore *store);
extern void pvt_store_publish(PvtStore *store);
extern void pvt_store_reset(PvtStore *store, int handle);
extern void pvt_store_block(PvtStore *store, int handle, BlockNumber blk,
							const OffsetNumber *offsets, int n);
extern bool pvt_store_fill(PvtStore *store, int handle, const PvtShape *shape,
						   int max_offset, uint32 segno, pg_prng_state *prng);
extern int64 pvt_store_check(PvtStore *store, pg_prng_state *prng);

extern const PvtShape *pvt_find_shape(const char *name);
extern const PvtShape *pvt_random_shape(pg_prng_state *prng);

extern void pvt_check_container(const OffsetNumber *offsets, int n,
								PvContainerKind *kind, int *bytes);

#endif							/* PVT_MODEL_H */
