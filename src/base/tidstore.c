/*-------------------------------------------------------------------------
 *
 * tidstore.c
 *	  The memory that core's store of dead TIDs would take.
 *
 * A vacuum may leave a few dead items in the indexes if they fit in 32 MB.
 * From PG 17 on core asks its TidStore for its size, so we must know what the
 * TidStore would take for the same items.  Our own store is so compact that
 * indexes would be bypassed too often.
 *
 * A TidStore is a radix tree:
 *
 *		level 2		a node for 256 nodes of level 1
 *		level 1		a node for 256 blocks; a block without dead items is no child
 *		block		up to 3 offsets lie in the node, more are a bitmap
 *
 * A node has one of five sizes, by the number of its children.  A bitmap is as
 * long as its last offset requires.  Levels above these two are negligible.
 * The numbers here are of a machine with 64 bits, and of an index vacuum with
 * one process.
 *
 * Each participant counts the blocks that it scans, in ascending order, and
 * the leader adds these counts up.  No lock is needed.  Units are bytes.
 *
 * Core: access/common/tidstore.c, lib/radixtree.h; access/heap/vacuumlazy.c,
 * lazy_vacuum.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/itemptr.h"

#include "base/tidstore.h"

#define CHILDREN_PER_NODE		256
#define OFFSETS_IN_NODE			3

/* The dead items that an index vacuum may be bypassed for must fit in this */
#define BYPASS_BYTES			(32 * 1024 * 1024)

/* What an allocated chunk takes besides its contents */
#ifdef MEMORY_CONTEXT_CHECKING
#define BYTES_PER_NODE			24
#define BYTES_PER_BITMAP		24
#else
#define BYTES_PER_NODE			8
#define BYTES_PER_BITMAP		0
#endif

/*
 * The smallest size of a node for that many children, as an index of nnodes.
 */
static int
node_kind(int nchildren)
{
	return nchildren <= 4 ? 0 : nchildren <= 16 ? 1 : nchildren <= 32 ? 2 :
		nchildren <= 64 ? 3 : 4;
}

void
pv_tidstore_count_block(PvTidStoreUse *use, BlockNumber blkno, int ndead,
						OffsetNumber last)
{
	BlockNumber child = blkno;

	for (int level = 0; level < PV_TIDSTORE_LEVELS; level++)
	{
		BlockNumber node = child / CHILDREN_PER_NODE;
		bool		is_new = use->nchildren[level] == 0 ||
			use->node[level] != node;

		if (is_new)
		{
			use->node[level] = node;
			use->nchildren[level] = 0;
		}
		else
			use->nnodes[node_kind(use->nchildren[level])]--;
		use->nnodes[node_kind(++use->nchildren[level])]++;
		if (!is_new)
			break;
		child = node;
	}
	if (ndead > OFFSETS_IN_NODE)
		use->bitmap_bytes += 8 + 8 * (last / 64 + 1) + BYTES_PER_BITMAP;
}

void
pv_tidstore_add(PvTidStoreUse *sum, const PvTidStoreUse *part)
{
	for (int i = 0; i < PV_TIDSTORE_SIZES; i++)
		sum->nnodes[i] += part->nnodes[i];
	sum->bitmap_bytes += part->bitmap_bytes;
}

/* Memory for the nodes of one kind, which core allocates in blocks. */
static int64
node_bytes(int kind, int64 nnodes)
{
	static const int node_size[] = {40, 168, 296, 784, 2088};
	static const int block_size[] = {8192, 8192, 16384, 32768, 131072};
	int			per_block = (block_size[kind] - 40) /
		(node_size[kind] + BYTES_PER_NODE);

	return (nnodes + per_block - 1) / per_block * block_size[kind];
}

/*
 * Memory for bitmaps.  Each block is twice as large as the one before, up to a
 * limit that depends on what the vacuum may use.
 */
static int64
bitmap_bytes(int64 needed, Size work_mem)
{
	int64		bytes = 0;
	int64		block = 8 * 1024;
	int64		max_block = 8 * 1024 * 1024;

	while (16 * max_block > (int64) work_mem && max_block > block)
		max_block /= 2;
	while (bytes < needed)
	{
		bytes += block;
		block = Min(2 * block, max_block);
	}
	return bytes;
}

/*
 * Would core take so few dead items for few enough to bypass the indexes, as
 * far as memory is concerned?  Before PG 17 it counts TIDs of six bytes.
 * work_mem is what the vacuum may use, in bytes.
 */
bool
pv_few_enough_to_bypass(const PvTidStoreUse *use, int64 items, Size work_mem)
{
	int64		bytes;

	if (!PV_HAS_TIDSTORE)
		return items < (int64) (BYPASS_BYTES / sizeof(ItemPointerData));

	bytes = bitmap_bytes(use->bitmap_bytes, work_mem);
	for (int i = 0; i < PV_TIDSTORE_SIZES; i++)
		bytes += node_bytes(i, use->nnodes[i]);
	return bytes < BYPASS_BYTES;
}
