/*-------------------------------------------------------------------------
 *
 * pvt_bitmap.c
 *	  SQL functions for the bitmaps of a B-tree's pages
 *	  (engine/nbtree_bitmap.c): one sets and takes their bits, the other is the
 *	  memory that they want.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "engine/nbtree.h"

PG_FUNCTION_INFO_V1(parvacuum_test_btree_bitmaps);
PG_FUNCTION_INFO_V1(parvacuum_test_bitmap_bytes);

/* What the bytes next to the bitmaps contain */
#define GUARD					0x5a

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
 * The number of bits of each bitmap if both have that many bytes.  Raises an
 * error if a bit is lost, is found in the other bitmap, or is outside of the
 * memory of both.  All bits are set, in one of the bitmaps by pages that share
 * them.
 */
Datum
parvacuum_test_btree_bitmaps(PG_FUNCTION_ARGS)
{
	Size		bytes = PG_GETARG_INT64(0);
	PvBtreeScan *scan = palloc0(sizeof(PvBtreeScan));
	char	   *memory = palloc(bytes + 2 * MAXIMUM_ALIGNOF);

	memset(memory, GUARD, bytes + 2 * MAXIMUM_ALIGNOF);
	memset(memory + MAXIMUM_ALIGNOF, 0, bytes);
	scan->btree = palloc0(sizeof(PvBtreeShared));
	scan->btree->nbits = pv_btree_bitmap_bits(bytes);
	pv_btree_find_bitmaps(scan, memory + MAXIMUM_ALIGNOF);

	for (BlockNumber bit = 0; bit < scan->btree->nbits; bit++)
		pv_btree_note_page(scan, scan->revisit, bit);
	for (BlockNumber bit = 0; bit < scan->btree->nbits; bit += 2)
		pv_btree_note_page(scan, scan->empty, bit + scan->btree->nbits);
	take_all(scan, scan->revisit, 1, "revisit");
	take_all(scan, scan->empty, 2, "empty");

	for (int i = 0; i < MAXIMUM_ALIGNOF; i++)
	{
		if (memory[i] != GUARD || memory[MAXIMUM_ALIGNOF + bytes + i] != GUARD)
			elog(ERROR, "a bit is outside of the bitmaps");
	}
	PG_RETURN_INT64(scan->btree->nbits);
}

/*
 * The bytes that the bitmaps of an index with this many pages want.
 */
Datum
parvacuum_test_bitmap_bytes(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pv_nbtree_bitmap_bytes((BlockNumber) PG_GETARG_INT64(0)));
}
