/*-------------------------------------------------------------------------
 *
 * nbtree_bitmap.c
 *	  Bitmaps of B-tree pages to be visited again or deleted.
 *
 * All participants set bits.  The last participant in the index reads and
 * clears them, alone.  Bits are set with atomic operations; there are no
 * locks.  A page beyond the end of a bitmap shares a bit with another page
 * (engine/nbtree.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "engine/nbtree.h"

#define BITS_PER_WORD			32
#define NUM_BITMAPS				2

/*
 * Return the bytes for the bitmaps of an index with this many pages, with a
 * bit for each page, and for some that are added during the vacuum.
 */
Size
pv_nbtree_bitmap_bytes(BlockNumber pages)
{
	uint64		nbits = (uint64) pages + pages / 8 + 1024;

	return NUM_BITMAPS * sizeof(pg_atomic_uint32) *
		(nbits / BITS_PER_WORD + 1);
}

/*
 * Return the number of bits that each bitmap has if both are in that many
 * bytes: a multiple of the bits of a word.
 */
BlockNumber
pv_btree_bitmap_bits(Size bytes)
{
	Size		words = bytes / sizeof(pg_atomic_uint32) / NUM_BITMAPS;

	return (BlockNumber)
		Min(words, MaxBlockNumber / BITS_PER_WORD) * BITS_PER_WORD;
}

/* Set the addresses of the bitmaps, which are in this memory. */
void
pv_btree_find_bitmaps(PvBtreeScan *scan, void *memory)
{
	scan->revisit = memory;
	scan->empty = scan->revisit + scan->btree->nbits / BITS_PER_WORD;
}

void
pv_btree_note_page(const PvBtreeScan *scan, pg_atomic_uint32 *words,
				   BlockNumber blkno)
{
	BlockNumber bit = blkno % scan->btree->nbits;

	pg_atomic_fetch_or_u32(&words[bit / BITS_PER_WORD],
						   (uint32) 1 << bit % BITS_PER_WORD);
}

/*
 * Find the first bit at or after *bit that is set, clear it, and return its
 * position in *bit.  Return false if there is none.
 */
bool
pv_btree_take_bit(const PvBtreeScan *scan, pg_atomic_uint32 *words,
				  BlockNumber *bit)
{
	Size		end = scan->btree->nbits / BITS_PER_WORD;

	for (Size w = *bit / BITS_PER_WORD; w < end; w++)
	{
		uint32		word = pg_atomic_read_u32(&words[w]);

		if (word != 0)
		{
			int			pos = pg_rightmost_one_pos32(word);

			pg_atomic_write_u32(&words[w], word & ~((uint32) 1 << pos));
			*bit = w * BITS_PER_WORD + pos;
			return true;
		}
	}
	return false;
}
