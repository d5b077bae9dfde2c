/*-------------------------------------------------------------------------
 *
 * pvt_bitmap.c
 *	  SQL functions for the bitmaps of a B-tree's pages
 *	  (engine/nbtree_bitmap.c): one sets and takes their bits, the other looks at
 *	  their size.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "engine/nbtree.h"
#include "engine/nbtree_scan.h"

PG_FUNCTION_INFO_V1(parvacuum_test_btree_bitmaps);
PG_FUNCTION_INFO_V1(parvacuum_test_bitmap_room);

/* What words next to the bitmaps contain */
#define GUARD					0x5a5a5a5a

/*
 * Take all bits of a bitmap, of which each must be set that step is a divisor
 * of.
 */
static void
take_all(const PvBtreeScan *scan, pg_atomic_uint32 *words, BlockNumber step,
		 const char *name)
{
	BlockNumber bit = 0;
	BlockNumber expected = 0;

	for (; pv_btree_take_bit(scan, words, &bit); expected += step)
	{
		if (bit != expected || bit >= scan->btree->nbits)
			elog(ERROR, "%s: bit %u of %u is set, expected is %u",
				 name, bit, scan->btree->nbits, expected);
	}
	if (expected < scan->btree->nbits)
		elog(ERROR, "%s: bit %u of %u is not set",
			 name, expected, scan->btree->nbits);
}

/*
 * The number of bits of each bitmap for an index with this many pages.  Raises
 * an error if a bit is lost, is found in the other bitmap, or is outside of the
 * memory of both.  All bits are set, in one of the bitmaps by pages that share
 * them.
 */
Datum
parvacuum_test_btree_bitmaps(PG_FUNCTION_ARGS)
{
	BlockNumber pages = (BlockNumber) PG_GETARG_INT64(0);
	Size		nwords = pv_nbtree_bitmap_words(pages);
	PvParticipant *self = palloc0(sizeof(PvParticipant));
	PvBtreeScan *scan = palloc0(sizeof(PvBtreeScan));
	const PvBtreeVisit empty = {.right = P_NONE,.empty = true};

	self->bitmaps = palloc0((nwords + 2) * sizeof(pg_atomic_uint32));
	pg_atomic_write_u32(&self->bitmaps[0], GUARD);
	pg_atomic_write_u32(&self->bitmaps[nwords + 1], GUARD);
	scan->self = self;
	scan->btree = palloc0(sizeof(PvBtreeShared));
	scan->btree->nbits = pv_btree_bitmap_bits(pages);
	scan->btree->first_word = 1;

	for (BlockNumber bit = 0; bit < scan->btree->nbits; bit++)
		pv_btree_note_page(scan, pv_btree_revisit_bitmap(scan), bit);
	for (BlockNumber bit = 0; bit < scan->btree->nbits; bit += 2)
		pv_btree_note_if_empty(scan, bit + scan->btree->nbits, &empty);
	take_all(scan, pv_btree_revisit_bitmap(scan), 1, "revisit");
	take_all(scan, pv_btree_empty_bitmap(scan), 2, "empty");

	if (pg_atomic_read_u32(&self->bitmaps[0]) != GUARD ||
		pg_atomic_read_u32(&self->bitmaps[nwords + 1]) != GUARD)
		elog(ERROR, "a bit is outside of the bitmaps");
	PG_RETURN_INT64(scan->btree->nbits);
}

/*
 * parvacuum_test_bitmap_room(): how many bits the memory for both bitmaps of an
 * index has beyond those that they use; the least for many sizes of the index.
 */
Datum
parvacuum_test_bitmap_room(PG_FUNCTION_ARGS)
{
	int64		least = PG_INT64_MAX;

	for (BlockNumber pages = 0; pages < 1000000; pages += 7)
	{
		int64		used = 2 * (int64) pv_btree_bitmap_bits(pages);

		least = Min(least, (int64) pv_nbtree_bitmap_words(pages) * 32 - used);
	}
	PG_RETURN_INT64(least);
}
