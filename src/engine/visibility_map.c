/*-------------------------------------------------------------------------
 *
 * visibility_map.c
 *	  Reading the bits in a table's visibility map.
 *
 * The leader counts them, before the first phase and when the table's
 * statistics are written.  All participants pass runs of them in the first
 * heap pass.  The caller holds ShareUpdateExclusiveLock on the table, so that
 * no other vacuum sets bits.  But sessions that change pages may clear some
 * and, from PG 19 on, sessions that read pages may set all-visible bits.  No
 * locks, as in core.
 *
 * Core: access/heap/visibilitymap.c, visibilitymap_count and
 * visibilitymap_get_status.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "storage/bufmgr.h"

#include "engine/dispense.h"

/*
 * A page of the map is an array of words behind the page header, with two bits
 * for each block.  The order of the bytes in a word does not matter here,
 * because all of them have to be the same.
 */
#define BLOCKS_PER_WORD			32
#define WORDS_PER_PAGE			(PV_MAP_PAGE_BLOCKS / BLOCKS_PER_WORD)
#define BITS_OF_WORD(flags)		((flags) * UINT64CONST(0x5555555555555555))

StaticAssertDecl(PV_MAP_PAGE_BLOCKS ==
				 (BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * 4 &&
				 PV_MAP_PAGE_BLOCKS % BLOCKS_PER_WORD == 0,
				 "a page of the map is a page header and words");

/*
 * Count the pages of a table of rel_pages pages that are all-visible, and
 * those of them that are all-frozen.
 *
 * Core's function counts all bits of each page of the map.  For a small table
 * that is more work than reading the table, so look only at the bits of its
 * own pages.
 */
void
pv_map_count(Relation rel, BlockNumber rel_pages,
			 BlockNumber *all_visible, BlockNumber *all_frozen)
{
	Buffer		vmbuffer = InvalidBuffer;

	*all_visible = *all_frozen = 0;
	if (rel_pages > PV_SMALL_PAGES)
		visibilitymap_count(rel, all_visible, all_frozen);
	else
	{
		for (BlockNumber blkno = 0; blkno < rel_pages; blkno++)
		{
			uint8		status =
				visibilitymap_get_status(rel, blkno, &vmbuffer);

			*all_visible += (status & VISIBILITYMAP_ALL_VISIBLE) != 0;
			*all_frozen += (status & VISIBILITYMAP_ALL_FROZEN) != 0;
		}
		if (BufferIsValid(vmbuffer))
			ReleaseBuffer(vmbuffer);
	}
	*all_visible = Min(*all_visible, rel_pages);
	*all_frozen = Min(*all_frozen, *all_visible);
}

/*
 * Go from blkno towards limit as long as whole words of the map say that all
 * of their blocks are all-visible or, if "frozen", all-frozen as well.  Return
 * the first block that has not been passed, which is blkno itself if that is
 * less than a word away.  Set *some_not_frozen if a block was passed that is
 * not all-frozen.
 */
BlockNumber
pv_map_pass_words(Relation rel, BlockNumber blkno, BlockNumber limit,
				  bool frozen, bool *some_not_frozen, Buffer *vmbuffer)
{
	const uint64 all_frozen = BITS_OF_WORD(VISIBILITYMAP_VALID_BITS);
	const uint64 wanted = frozen ? all_frozen :
		BITS_OF_WORD(VISIBILITYMAP_ALL_VISIBLE);

	if (blkno % BLOCKS_PER_WORD != 0)
		return blkno;
	while (blkno < limit && limit - blkno >= BLOCKS_PER_WORD)
	{
		uint32		first = blkno % PV_MAP_PAGE_BLOCKS / BLOCKS_PER_WORD;
		uint32		end = Min(first + (limit - blkno) / BLOCKS_PER_WORD,
							  WORDS_PER_PAGE);
		uint32		word = first;
		uint64		common = all_frozen;
		const uint64 *words;

		/* pins the page of the map, if there is one */
		(void) visibilitymap_get_status(rel, blkno, vmbuffer);
		if (!BufferIsValid(*vmbuffer))
			break;
		words = (const uint64 *) PageGetContents(BufferGetPage(*vmbuffer));
		for (; word < end; word++)
		{
			uint64		bits = words[word];

			if ((bits & wanted) != wanted)
				break;
			common &= bits;
		}
		*some_not_frozen |= common != all_frozen;
		blkno += (word - first) * BLOCKS_PER_WORD;
		if (word < end)
			break;
	}
	return blkno;
}
