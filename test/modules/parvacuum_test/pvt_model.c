/*-------------------------------------------------------------------------
 *
 * pvt_model.c
 *	  A naive set of TIDs, and random blocks, to test the store with.
 *
 * The model is a hash table of blocks with one flag per offset.  All that is
 * added to the store is also added to the model, and pvt_store_check()
 * compares the two in every way in which the store can be read.  A difference
 * is an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pvt_model.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* One block of the model. */
typedef struct ModelBlock
{
	BlockNumber blk;			/* hash key */
	bool		dead[PV_MAX_OFFSET + 1];
} ModelBlock;

struct PvtModel
{
	MemoryContext context;
	HTAB	   *blocks;
	int64		nitems;
};


/*-------------------------------------------------------------------------
 * The model
 *-------------------------------------------------------------------------
 */

/* Make an empty model in a context below the current one. */
static PvtModel *
model_create(void)
{
	PvtModel   *model = palloc0(sizeof(PvtModel));
	HASHCTL		info = {0};

	model->context = AllocSetContextCreate(CurrentMemoryContext,
										   "parvacuum_test model",
										   ALLOCSET_DEFAULT_SIZES);
	info.keysize = sizeof(BlockNumber);
	info.entrysize = sizeof(ModelBlock);
	info.hcxt = model->context;
	model->blocks = hash_create("parvacuum_test model", 1024, &info,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return model;
}

/* Forget a model. */
static void
model_drop(PvtModel *model)
{
	MemoryContextDelete(model->context);
	pfree(model);
}

/* Return the block in the model, or NULL. */
static const ModelBlock *
model_block(const PvtModel *model, BlockNumber blk)
{
	return hash_search(model->blocks, &blk, HASH_FIND, NULL);
}

/* Does the block of the model, or none, have that offset? */
static bool
block_has(const ModelBlock *block, OffsetNumber off)
{
	return block != NULL && off <= PV_MAX_OFFSET && block->dead[off];
}


/*-------------------------------------------------------------------------
 * The store and its model together
 *-------------------------------------------------------------------------
 */

/*
 * Make a store for a table of nblocks blocks with a limit in bytes, and with
 * this number of handles.  A shared one has "reserve" bytes from the start.
 * It exists until pvt_store_drop(), across transactions.
 */
PvtStore *
pvt_store_create(BlockNumber nblocks, Size limit, bool shared, Size reserve,
				 int nhandles)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "parvacuum_test store",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ResourceOwner owner = CurrentResourceOwner;
	PvtStore   *store = palloc0(sizeof(PvtStore));

	store->context = context;
	store->nblocks = nblocks;
	store->handles = palloc0(nhandles * sizeof(PvDeadTids *));
	store->model = model_create();
	if (shared)
	{
		store->shared = palloc_extended(pv_deadtids_shared_size(nblocks,
																reserve),
										MCXT_ALLOC_HUGE);

		/* what it maps is to stay */
		CurrentResourceOwner = NULL;
		store->handles[0] = pv_deadtids_create_shared(store->shared, NULL,
													  nblocks, reserve, limit);
	}
	else
		store->handles[0] = pv_deadtids_create_local(nblocks, limit);
	store->nhandles = 1;
	while (store->nhandles < nhandles)
	{
		if (!shared)
			elog(ERROR, "a local store has one handle");
		store->handles[store->nhandles] = pv_deadtids_attach(store->shared,
															 NULL);
		store->nhandles++;
	}
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(old);
	return store;
}

/* Free a store, its handles and its model. */
void
pvt_store_drop(PvtStore *store)
{
	for (int i = store->nhandles - 1; i >= 0; i--)
		pv_deadtids_detach(store->handles[i]);
	MemoryContextDelete(store->context);
}

/* Have all handles publish what they have. */
void
pvt_store_publish(PvtStore *store)
{
	for (int i = 0; i < store->nhandles; i++)
		pv_deadtids_publish(store->handles[i]);
}

/* Empty the store, through one of its handles, and the model. */
void
pvt_store_reset(PvtStore *store, int handle)
{
	MemoryContext old;

	pv_deadtids_reset(store->handles[handle]);
	old = MemoryContextSwitchTo(store->context);
	model_drop(store->model);
	store->model = model_create();
	MemoryContextSwitchTo(old);
}

/* Add a block of the segment that the handle has begun. */
void
pvt_store_block(PvtStore *store, int handle, BlockNumber blk,
				const OffsetNumber *offsets, int n)
{
	ModelBlock *block;

	pv_deadtids_add_block(store->handles[handle], blk, offsets, n);
	block = hash_search(store->model->blocks, &blk, HASH_ENTER, NULL);
	memset(block->dead, 0, sizeof(block->dead));
	for (int i = 0; i < n; i++)
		block->dead[offsets[i]] = true;
	store->model->nitems += n;
}


/*-------------------------------------------------------------------------
 * Random segments
 *-------------------------------------------------------------------------
 */

/* A random offset. */
static int
random_offset(pg_prng_state *prng, int max_offset)
{
	return pg_prng_uint64_range(prng, FirstOffsetNumber, max_offset);
}

/* One offset. */
static void
shape_one(pg_prng_state *prng, int max_offset, bool *dead)
{
	dead[random_offset(prng, max_offset)] = true;
}

/* One to ten offsets. */
static void
shape_few(pg_prng_state *prng, int max_offset, bool *dead)
{
	int			n = pg_prng_uint64_range(prng, 1, 10);

	while (n-- > 0)
		shape_one(prng, max_offset, dead);
}

/* About half of the offsets. */
static void
shape_half(pg_prng_state *prng, int max_offset, bool *dead)
{
	shape_one(prng, max_offset, dead);
	for (int off = 1; off <= max_offset; off++)
	{
		if (pg_prng_bool(prng))
			dead[off] = true;
	}
}

/* One to four runs, which may overlap. */
static void
shape_runs(pg_prng_state *prng, int max_offset, bool *dead)
{
	int			n = pg_prng_uint64_range(prng, 1, 4);

	while (n-- > 0)
	{
		int			first = random_offset(prng, max_offset);
		int			last = pg_prng_uint64_range(prng, first, max_offset);

		memset(dead + first, true, last - first + 1);
	}
}

/* All offsets up to a random one, as on a page that is dead altogether. */
static void
shape_full(pg_prng_state *prng, int max_offset, bool *dead)
{
	memset(dead + 1, true, random_offset(prng, max_offset));
}

/* Any of the above. */
static void
shape_mixed(pg_prng_state *prng, int max_offset, bool *dead)
{
	switch (pg_prng_uint64_range(prng, 0, 4))
	{
		case 0:
			shape_one(prng, max_offset, dead);
			break;
		case 1:
			shape_few(prng, max_offset, dead);
			break;
		case 2:
			shape_half(prng, max_offset, dead);
			break;
		case 3:
			shape_runs(prng, max_offset, dead);
			break;
		default:
			shape_full(prng, max_offset, dead);
			break;
	}
}

static const PvtShape shapes[] = {
	{"one", 100, shape_one, false},
	{"few", 100, shape_few, false},
	{"half", 100, shape_half, false},
	{"runs", 100, shape_runs, false},
	{"full", 100, shape_full, false},
	{"mixed", 80, shape_mixed, false},
	{"same", 100, shape_mixed, true},
	{"same sparse", 30, shape_few, true},
	{"few sparse", 5, shape_few, false},
	{"half sparse", 20, shape_half, false},
	{"mixed sparse", 10, shape_mixed, false},
	{"rare", 1, shape_mixed, false},
	{"rare one", 1, shape_one, false}
};

/* The shape with this name, or an error. */
const PvtShape *
pvt_find_shape(const char *name)
{
	for (size_t i = 0; i < lengthof(shapes); i++)
	{
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	}
	elog(ERROR, "no shape \"%s\"", name);
}

/* Any shape. */
const PvtShape *
pvt_random_shape(pg_prng_state *prng)
{
	return &shapes[pg_prng_uint64_range(prng, 0, lengthof(shapes) - 1)];
}

/* List the offsets that are set.  Returns their number. */
static int
list_dead(const bool *dead, OffsetNumber *offsets)
{
	int			n = 0;

	for (int off = 1; off <= PV_MAX_OFFSET; off++)
	{
		if (dead[off])
			offsets[n++] = off;
	}
	return n;
}

/*
 * Fill one segment at random, with offsets up to max_offset.  Returns false if
 * the store is full.
 */
bool
pvt_store_fill(PvtStore *store, int handle, const PvtShape *shape,
			   int max_offset, uint32 segno, pg_prng_state *prng)
{
	bool		dead[PV_MAX_OFFSET + 1] = {false};
	OffsetNumber offsets[PV_MAX_OFFSET];

	if (!pv_deadtids_begin_segment(store->handles[handle], segno))
		return false;
	shape->block(prng, max_offset, dead);
	for (int i = 0; i < PV_SEGMENT_BLOCKS; i++)
	{
		uint64		blk = (uint64) segno * PV_SEGMENT_BLOCKS + i;

		if (blk >= store->nblocks)
			break;
		if (pg_prng_uint64_range(prng, 0, 99) >= (uint64) shape->block_percent)
			continue;
		if (!shape->same)
		{
			memset(dead, 0, sizeof(dead));
			shape->block(prng, max_offset, dead);
		}
		pvt_store_block(store, handle, blk, offsets, list_dead(dead, offsets));
	}
	pv_deadtids_end_segment(store->handles[handle]);
	return true;
}


/*-------------------------------------------------------------------------
 * Checks
 *-------------------------------------------------------------------------
 */

/* Probe one TID, of whose block the model has this, and compare. */
static void
check_probe_in(PvDeadTids *handle, const ModelBlock *block, BlockNumber blk,
			   uint32 off)
{
	ItemPointerData tid;
	bool		got;

	ItemPointerSet(&tid, blk, off);
	got = pv_deadtids_probe(handle, &tid);
	if (got != block_has(block, off))
		elog(ERROR, "TID (%u,%u) should %sbe in the store, but is %s",
			 blk, off, got ? "not " : "", got ? "there" : "not there");
}

static void
check_probe(PvtStore *store, PvDeadTids *handle, BlockNumber blk, uint32 off)
{
	check_probe_in(handle, model_block(store->model, blk), blk, off);
}

/* Probe all offsets of a block, also impossible ones. */
static void
check_probe_block(PvtStore *store, PvDeadTids *handle, BlockNumber blk)
{
	const ModelBlock *block = model_block(store->model, blk);

	for (uint32 off = 0; off <= PVT_PROBE_OFFSETS; off++)
		check_probe_in(handle, block, blk, off);
	check_probe_in(handle, block, blk, PG_UINT16_MAX);
}

/*
 * Probe all blocks of the model, offsets and blocks next to them, and others
 * anywhere, also beyond the end of the table.
 */
static void
check_probes(PvtStore *store, PvDeadTids *handle, pg_prng_state *prng)
{
	HASH_SEQ_STATUS scan;
	ModelBlock *block;

	hash_seq_init(&scan, store->model->blocks);
	while ((block = hash_seq_search(&scan)) != NULL)
	{
		check_probe_block(store, handle, block->blk);
		check_probe(store, handle, block->blk - 1,
					random_offset(prng, PV_MAX_OFFSET));
		check_probe(store, handle, block->blk + 1,
					random_offset(prng, PV_MAX_OFFSET));
	}
	for (int i = 0; i < 1000; i++)
		check_probe(store, handle, (BlockNumber) pg_prng_uint64(prng),
					random_offset(prng, PV_MAX_OFFSET));
	check_probe_block(store, handle, 0);
	check_probe_block(store, handle, store->nblocks);
	check_probe_block(store, handle, MaxBlockNumber);
	check_probe_block(store, handle, InvalidBlockNumber);
}

/* Make up n TIDs: near each other, in the table, or anywhere, by turns. */
static void
random_tids(PvtStore *store, ItemPointerData *tids, int n, pg_prng_state *prng)
{
	BlockNumber near = 0;

	for (int i = 0; i < n; i++)
	{
		BlockNumber blk = near + pg_prng_uint64_range(prng, 0, 3);

		if (i % 8 == 0)
			near = blk = pg_prng_uint64_range(prng, 0,
											  Max(store->nblocks, 1) - 1);
		if (i % 64 == 0)
			blk = (BlockNumber) pg_prng_uint64(prng);
		ItemPointerSet(&tids[i], blk, random_offset(prng, PV_MAX_OFFSET + 1));
	}
}

/* Probe batches of several sizes and compare. */
static void
check_batches(PvtStore *store, PvDeadTids *handle, pg_prng_state *prng)
{
	static const int sizes[] = {0, 1, 2, 7, 8, 9, 31, 64, 100, 407, 1358};
	ItemPointerData tids[1358];
	bool		dead[1358];

	for (size_t s = 0; s < lengthof(sizes); s++)
	{
		int			n = sizes[s];
		int			expected = 0;

		random_tids(store, tids, n, prng);
		for (int i = 0; i < n; i++)
			expected +=
				block_has(model_block(store->model,
									  ItemPointerGetBlockNumberNoCheck(&tids[i])),
						  ItemPointerGetOffsetNumberNoCheck(&tids[i]));
		if (pv_deadtids_probe_batch(handle, tids, n, dead) != expected)
			elog(ERROR, "wrong number of dead items in a batch of %d", n);
		for (int i = 0; i < n; i++)
		{
			if (dead[i] != pv_deadtids_probe(handle, &tids[i]))
				elog(ERROR, "wrong answer for TID %d in a batch of %d", i, n);
		}
	}
}

/* Compare one block that the iteration gave. */
static void
check_block(PvtStore *store, BlockNumber blk,
			const OffsetNumber *offsets, int n)
{
	ModelBlock *block = hash_search(store->model->blocks, &blk,
									HASH_FIND, NULL);
	OffsetNumber expected[PV_MAX_OFFSET];

	if (block == NULL)
		elog(ERROR, "block %u should not be in the store", blk);
	if (n != list_dead(block->dead, expected) ||
		memcmp(offsets, expected, n * sizeof(OffsetNumber)) != 0)
		elog(ERROR, "block %u has wrong dead items", blk);
}

/* Read the whole store in order and compare. */
static void
check_iteration(PvtStore *store, PvDeadTids *handle)
{
	int64		nblocks = 0;
	int64		next = 0;
	uint32		nsegments = pv_deadtids_nsegments(handle);
	PvDeadTidsIter iter;

	for (uint32 segno = 0; segno < nsegments; segno++)
	{
		OffsetNumber offsets[PV_MAX_OFFSET];
		BlockNumber blk;
		int			n;

		if (!pv_deadtids_segment_begin(handle, segno, &iter))
			continue;
		while (pv_deadtids_segment_next(&iter, &blk, offsets, &n))
		{
			if (blk < next || blk / PV_SEGMENT_BLOCKS != segno)
				elog(ERROR, "block %u of segment %u comes out of order", blk, segno);
			next = (int64) blk + 1;
			check_block(store, blk, offsets, n);
			nblocks++;
		}
		if (pv_deadtids_segment_next(&iter, &blk, offsets, &n))
			elog(ERROR, "segment %u goes on after its end", segno);
	}
	if (pv_deadtids_segment_begin(handle, nsegments, &iter))
		elog(ERROR, "a segment beyond the end is present");
	if (nblocks != hash_get_num_entries(store->model->blocks))
		elog(ERROR, "the iteration gave " INT64_FORMAT " blocks of %ld",
			 nblocks, hash_get_num_entries(store->model->blocks));
}

/* Ask for blocks one by one, in the table and beyond it, and compare. */
static void
check_single_blocks(PvtStore *store, PvDeadTids *handle)
{
	uint64		end = Min((uint64) store->nblocks + 300, 5000);

	for (uint64 blk = 0; blk < end; blk++)
	{
		OffsetNumber offsets[PV_MAX_OFFSET];
		int			n = pv_deadtids_get_block(handle, blk, offsets);

		if (n > 0)
			check_block(store, blk, offsets, n);
		else if (model_block(store->model, blk) != NULL)
			elog(ERROR, "block " UINT64_FORMAT " should be in the store", blk);
	}
}

/*
 * Compare the store with the model, through every handle.  Returns the number
 * of items; a difference is an error.
 */
int64
pvt_store_check(PvtStore *store, pg_prng_state *prng)
{
	for (int i = 0; i < store->nhandles; i++)
	{
		PvDeadTids *handle = store->handles[i];

		check_probes(store, handle, prng);
		check_batches(store, handle, prng);
		check_iteration(store, handle);
		check_single_blocks(store, handle);
		if (pv_deadtids_num_items(handle) != store->model->nitems)
			elog(ERROR, "wrong number of items");
	}
	return store->model->nitems;
}

/*
 * Encode offsets, and check that decoding and probing return them, with
 * garbage behind the container.  Sets the kind and the size.
 */
void
pvt_check_container(const OffsetNumber *offsets, int n, PvContainerKind *kind,
					int *bytes)
{
	uint8		c[PV_CONTAINER_MAX_BYTES + PV_CONTAINER_OVERREAD];
	OffsetNumber decoded[PV_MAX_OFFSET];
	int			next = 0;

	*bytes = pv_container_encode(offsets, n, c, kind);
	memset(c + *bytes, offsets[0] + 1, sizeof(c) - *bytes);
	if (*bytes > PV_CONTAINER_MAX_BYTES ||
		*bytes != pv_container_bytes(*kind, c))
		elog(ERROR, "container has a wrong size");
	if (pv_container_decode(*kind, c, decoded) != n ||
		memcmp(offsets, decoded, n * sizeof(OffsetNumber)) != 0)
		elog(ERROR, "container is decoded wrongly");
	for (uint32 off = 0; off <= PVT_PROBE_OFFSETS; off++)
	{
		bool		expected = next < n && offsets[next] == off;

		next += expected;
		if (pv_container_probe(*kind, c, off) != expected)
			elog(ERROR, "offset %u should %sbe in the container", off,
				 expected ? "" : "not ");
	}
	if (pv_container_probe(*kind, c, PG_UINT16_MAX))
		elog(ERROR, "container has the largest offset");
}
