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
#include "engine/nbtree_scan.h"

#define BITS_PER_WORD			32
#define NUM_BITMAPS				2

/*
 * The number of bits of a bitmap for an index with this many pages.  The index
 * may grow somewhat during the vacuum before pages share bits.
 */
BlockNumber
pv_btree_bitmap_bits(BlockNumber pages)
{
	uint64		nbits = (uint64) pages + pages / 8 + 1024;

	return (BlockNumber) Min(nbits, MaxBlockNumber);
}

static Size
words_of(BlockNumber pages)
{
	return (pages + (Size) BITS_PER_WORD - 1) / BITS_PER_WORD;
}

/*
 * Words of shared memory that pv_nbtree_init() needs for an index.
 */
Size
pv_nbtree_bitmap_words(BlockNumber pages)
{
	return NUM_BITMAPS * words_of(pv_btree_bitmap_bits(pages));
}

pg_atomic_uint32 *
pv_btree_revisit_bitmap(const PvBtreeScan *scan)
{
	return scan->self->bitmaps + scan->btree->first_word;
}

pg_atomic_uint32 *
pv_btree_empty_bitmap(const PvBtreeScan *scan)
{
	return pv_btree_revisit_bitmap(scan) + words_of(scan->btree->nbits);
}

void
pv_btree_note_page(const PvBtreeScan *scan, pg_atomic_uint32 *words,
				   BlockNumber blkno)
{
	BlockNumber bit = blkno % scan->btree->nbits;

	pg_atomic_fetch_or_u32(&words[bit / BITS_PER_WORD],
						   (uint32) 1 << bit % BITS_PER_WORD);
}

void
pv_btree_note_if_empty(const PvBtreeScan *scan, BlockNumber blkno,
					   const PvBtreeVisit *visit)
{
	if (visit->empty)
		pv_btree_note_page(scan, pv_btree_empty_bitmap(scan), blkno);
}

/*
 * Find the first bit at or after *bit that is set, clear it, and return its
 * position in *bit.  Returns false if there is none.
 */
bool
pv_btree_take_bit(const PvBtreeScan *scan, pg_atomic_uint32 *words,
				  BlockNumber *bit)
{
	for (Size w = *bit / BITS_PER_WORD; w < words_of(scan->btree->nbits); w++)
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
