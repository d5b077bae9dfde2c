/*-------------------------------------------------------------------------
 *
 * visibility_map.c
 *	  Counts the bits in a table's visibility map.
 *
 * The leader does this, before the first phase and when the table's statistics
 * are written.  The caller holds ShareUpdateExclusiveLock on the table, so that no
 * other vacuum sets bits.  Sessions that change pages may clear some and, from
 * PG 19 on, sessions that read pages may set all-visible bits.  So what is
 * returned is as old as the moment in which each bit is read.  No locks, as in
 * core.
 *
 * Core: access/heap/visibilitymap.c, visibilitymap_count.
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
