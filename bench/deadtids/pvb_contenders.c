/*-------------------------------------------------------------------------
 *
 * pvb_contenders.c
 *	  The structures that are measured.
 *
 * Each structure is loaded block by block in ascending order, as a heap scan finds
 * dead items.  Each has a look-up loop of its own, so that the compiler can inline
 * the look-up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef PVB_HAVE_ROARING
#include <roaring/roaring.h>
#endif

#include "lib/integerset.h"
#include "miscadmin.h"
#include "pvb_contenders.h"
#include "utils/memutils.h"

/* TidStore came with PostgreSQL 17. */
#if PG_VERSION_NUM >= 170000
#include "access/tidstore.h"
#define HAVE_TIDSTORE
#endif

/* Loop over the blocks that can have dead items. */
#define FOREACH_BLOCK(blk, pattern) \
	for (BlockNumber blk = 0; blk < (pattern)->params.nblocks; blk += (pattern)->params.gap)

/* A TID as a number, with as few bits for the offset as possible. */
#define OFFSET_BITS		9

StaticAssertDecl(MaxHeapTuplesPerPage < 1 << OFFSET_BITS,
				 "an offset has more bits");

static inline uint64
tid_key(const ItemPointerData *tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << OFFSET_BITS |
		ItemPointerGetOffsetNumberNoCheck(tid);
}


/*-------------------------------------------------------------------------
 * parvacuum's store
 *-------------------------------------------------------------------------
 */

/*
 * The initial size of a shared store.  A vacuum reserves the memory that it
 * expects to need, according to statistics.  Here the reserve is very small, so
 * that memory is counted when it is needed.
 */
#define SHARED_RESERVE	((Size) 16 * 1024)

/* Load the segments from segno up to, but not including, end. */
void
pvb_store_load(PvDeadTids *store, const PvbPattern *pattern,
			   uint32 segno, uint32 end)
{
	BlockNumber gap = pattern->params.gap;
	BlockNumber blk = (segno * PV_SEGMENT_BLOCKS + gap - 1) / gap * gap;

	for (; segno < end; segno++)
	{
		BlockNumber border = Min((segno + 1) * PV_SEGMENT_BLOCKS,
								 pattern->params.nblocks);

		if (!pv_deadtids_begin_segment(store, segno))
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("the store is full at block %u", blk)));
		for (; blk < border; blk += gap)
		{
			const PvbPage *page = pvb_page(pattern, blk);

			if (page->n > 0)
				pv_deadtids_add_block(store, blk, page->offsets, page->n);
		}
		pv_deadtids_end_segment(store);
		CHECK_FOR_INTERRUPTS();
	}
	pv_deadtids_publish(store);
}

static void *
local_load(const PvbPattern *pattern)
{
	PvDeadTids *store = pv_deadtids_create_local(pattern->params.nblocks,
												 PVB_STORE_LIMIT);

	pvb_store_load(store, pattern, 0, pv_deadtids_nsegments(store));
	return store;
}

static void *
shared_load(const PvbPattern *pattern)
{
	BlockNumber nblocks = pattern->params.nblocks;
	Size		bytes = pv_deadtids_shared_size(nblocks, SHARED_RESERVE);
	PvDeadTids *store = pv_deadtids_create_shared(palloc(bytes), NULL, nblocks,
												  SHARED_RESERVE, PVB_STORE_LIMIT);

	pvb_store_load(store, pattern, 0, pv_deadtids_nsegments(store));
	return store;
}

static int
store_lookup(void *set, ItemPointerData *tids, int n)
{
	PvDeadTids *store = set;
	int			found = 0;

	for (int i = 0; i < n; i++)
		found += pv_deadtids_probe(store, &tids[i]);
	return found;
}

static int
store_lookup_batch(void *set, ItemPointerData *tids, int n)
{
	bool		dead[PVB_BATCH];

	return pv_deadtids_probe_batch(set, tids, n, dead);
}

static Size
store_bytes(void *set)
{
	return pv_deadtids_memory(set);
}

static void
store_drop(void *set)
{
	pv_deadtids_detach(set);
}


/*-------------------------------------------------------------------------
 * A flat array, searched as in PostgreSQL 15
 *-------------------------------------------------------------------------
 */

typedef struct ArraySet
{
	size_t		n;
	ItemPointerData *tids;
} ArraySet;

static void *
array_load(const PvbPattern *pattern)
{
	ArraySet   *set = palloc0(sizeof(ArraySet));

	set->tids = palloc_extended(pattern->nitems * sizeof(ItemPointerData),
								MCXT_ALLOC_HUGE);
	FOREACH_BLOCK(blk, pattern)
	{
		const PvbPage *page = pvb_page(pattern, blk);

		for (int i = 0; i < page->n; i++)
		{
			ItemPointer tid = &set->tids[set->n++];

			ItemPointerSet(tid, blk, page->offsets[i]);
		}
		CHECK_FOR_INTERRUPTS();
	}
	return set;
}

/* bsearch() comparator: by block, then by offset. */
static int
compare_tids(const void *left, const void *right)
{
	BlockNumber lblk = ItemPointerGetBlockNumberNoCheck((const ItemPointerData *) left);
	BlockNumber rblk = ItemPointerGetBlockNumberNoCheck((const ItemPointerData *) right);
	OffsetNumber loff = ItemPointerGetOffsetNumberNoCheck((const ItemPointerData *) left);
	OffsetNumber roff = ItemPointerGetOffsetNumberNoCheck((const ItemPointerData *) right);

	if (lblk != rblk)
		return lblk < rblk ? -1 : 1;
	if (loff != roff)
		return loff < roff ? -1 : 1;
	return 0;
}

static int
array_lookup(void *set, ItemPointerData *tids, int n)
{
	const ArraySet *array = set;
	int			found = 0;

	if (array->n == 0)
		return 0;
	for (int i = 0; i < n; i++)
	{
		uint64		key = tid_key(&tids[i]);

		/* no search is needed beyond either end */
		if (key < tid_key(&array->tids[0]) ||
			key > tid_key(&array->tids[array->n - 1]))
			continue;
		found += bsearch(&tids[i], array->tids, array->n,
						 sizeof(ItemPointerData), compare_tids) != NULL;
	}
	return found;
}

static Size
array_bytes(void *set)
{
	return ((ArraySet *) set)->n * sizeof(ItemPointerData);
}


/*-------------------------------------------------------------------------
 * Core's IntegerSet: a B-tree of compressed integers
 *-------------------------------------------------------------------------
 */

static void *
intset_load(const PvbPattern *pattern)
{
	IntegerSet *set = intset_create();

	FOREACH_BLOCK(blk, pattern)
	{
		const PvbPage *page = pvb_page(pattern, blk);
		uint64		key = (uint64) blk << OFFSET_BITS;

		for (int i = 0; i < page->n; i++)
			intset_add_member(set, key | page->offsets[i]);
		CHECK_FOR_INTERRUPTS();
	}
	return set;
}

static int
intset_lookup(void *set, ItemPointerData *tids, int n)
{
	int			found = 0;

	for (int i = 0; i < n; i++)
		found += intset_is_member(set, tid_key(&tids[i]));
	return found;
}

static Size
intset_bytes(void *set)
{
	return intset_memory_usage(set);
}


/*-------------------------------------------------------------------------
 * Core's TidStore: a radix tree of blocks, with bitmaps
 *-------------------------------------------------------------------------
 */
#ifdef HAVE_TIDSTORE

static void *
tidstore_load(const PvbPattern *pattern)
{
	TidStore   *set = TidStoreCreateLocal(PVB_STORE_LIMIT, true);

	FOREACH_BLOCK(blk, pattern)
	{
		const PvbPage *page = pvb_page(pattern, blk);

		if (page->n > 0)
			TidStoreSetBlockOffsets(set, blk,
									unconstify(PvbPage *, page)->offsets,
									page->n);
		CHECK_FOR_INTERRUPTS();
	}
	return set;
}

static int
tidstore_lookup(void *set, ItemPointerData *tids, int n)
{
	int			found = 0;

	for (int i = 0; i < n; i++)
		found += TidStoreIsMember(set, &tids[i]);
	return found;
}

static Size
tidstore_bytes(void *set)
{
	return TidStoreMemoryUsage(set);
}

static void
tidstore_drop(void *set)
{
	TidStoreDestroy(set);
}

#endif							/* HAVE_TIDSTORE */


/*-------------------------------------------------------------------------
 * CRoaring: bitmaps of 32-bit numbers, one for each value of the upper 32 bits
 *-------------------------------------------------------------------------
 */
#ifdef PVB_HAVE_ROARING

typedef struct RoaringSet
{
	int			n;
	roaring_bitmap_t *bitmaps[FLEXIBLE_ARRAY_MEMBER];	/* by a key's upper half */
} RoaringSet;

static void *
roaring_load(const PvbPattern *pattern)
{
	uint64		last = (uint64) pattern->params.nblocks << OFFSET_BITS;
	int			n = (last >> 32) + 1;
	RoaringSet *set = palloc(offsetof(RoaringSet, bitmaps) + n * sizeof(roaring_bitmap_t *));

	set->n = n;
	for (int i = 0; i < n; i++)
		set->bitmaps[i] = roaring_bitmap_create();
	FOREACH_BLOCK(blk, pattern)
	{
		const PvbPage *page = pvb_page(pattern, blk);
		uint64		key = (uint64) blk << OFFSET_BITS;
		uint32		keys[MaxHeapTuplesPerPage];

		for (int i = 0; i < page->n; i++)
			keys[i] = (uint32) key | page->offsets[i];
		roaring_bitmap_add_many(set->bitmaps[key >> 32], page->n, keys);
	}
	for (int i = 0; i < n; i++)
	{
		roaring_bitmap_run_optimize(set->bitmaps[i]);
		roaring_bitmap_shrink_to_fit(set->bitmaps[i]);
	}
	return set;
}

static int
roaring_lookup(void *set, ItemPointerData *tids, int n)
{
	RoaringSet *s = set;
	int			found = 0;

	for (int i = 0; i < n; i++)
	{
		uint64		key = tid_key(&tids[i]);

		found += roaring_bitmap_contains(s->bitmaps[key >> 32], (uint32) key);
	}
	return found;
}

/* The serialized size.  The size in memory is somewhat larger. */
static Size
roaring_bytes(void *set)
{
	RoaringSet *s = set;
	Size		bytes = 0;

	for (int i = 0; i < s->n; i++)
		bytes += roaring_bitmap_portable_size_in_bytes(s->bitmaps[i]);
	return bytes;
}

static void
roaring_drop(void *set)
{
	RoaringSet *s = set;

	for (int i = 0; i < s->n; i++)
		roaring_bitmap_free(s->bitmaps[i]);
}

#endif							/* PVB_HAVE_ROARING */


const PvbContender pvb_contenders[] = {
	{"array", array_load, array_lookup, NULL, array_bytes, NULL},
	{"local", local_load, store_lookup, store_lookup_batch, store_bytes, store_drop},
	{"shared", shared_load, store_lookup, store_lookup_batch, store_bytes, store_drop},
	{"intset", intset_load, intset_lookup, NULL, intset_bytes, NULL},
#ifdef HAVE_TIDSTORE
	{"tidstore", tidstore_load, tidstore_lookup, NULL, tidstore_bytes, tidstore_drop},
#endif
#ifdef PVB_HAVE_ROARING
	{"roaring", roaring_load, roaring_lookup, NULL, roaring_bytes, roaring_drop},
#endif
	{NULL}
};
