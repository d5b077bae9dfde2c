/*-------------------------------------------------------------------------
 *
 * visibility_map.c
 *	  The visibility map of a small table: making it, and counting its bits.
 *
 * Core makes it when the first page is looked at, and tells all sessions at once that
 * it has.  They close the table's files then, this one too, in the midst of its work,
 * and open them again for the rest of the vacuum and for ANALYZE.  On 15 core also reads
 * what it has just written.  So for small tables the map is made here, and sessions are
 * told when the transaction ends.
 *
 * Until then some take it that there is no map.  To them no page is all-visible.  Who
 * changes a page that says it is, and so has to clear a bit of the map, looks at the
 * file again under the lock for extension.  Nobody else may change the map meanwhile,
 * as the vacuum holds ShareUpdateExclusiveLock until the end of the transaction.
 *
 * Core: access/heap/visibilitymap.c, vm_readbuf, vm_extend; utils/cache/inval.c,
 * CacheInvalidateSmgr.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/inval.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "engine/visibility_map.h"

/* The table whose map nobody knows of yet */
static bool invalidation_is_pending = false;
static PvRelFileBackend pending_file;

/*
 * The transaction has committed or been rolled back, and still holds its locks.
 */
static void
invalidate_at_xact_end(XactEvent event, void *arg)
{
	if (invalidation_is_pending && (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT))
	{
		invalidation_is_pending = false;
		CacheInvalidateSmgr(pending_file);
	}
}

/*
 * Tell sessions at the end of the transaction; and of another table of it, now.
 */
static void
report_later(SMgrRelation reln)
{
	if (invalidation_is_pending)
		CacheInvalidateSmgr(pending_file);
	invalidation_is_pending = true;
	pending_file = pv_smgr_file(reln);
}

/*
 * Make the map of a table with so many pages if it is small and has none.  The caller
 * holds ShareUpdateExclusiveLock on it, and waits here for the lock for extension.  A page
 * of zeroes is a map to core, which initializes it when it is pinned.
 */
void
pv_map_make(Relation rel, BlockNumber rel_pages)
{
	static bool registered = false;
	const ForkNumber fork = VISIBILITYMAP_FORKNUM;
	SMgrRelation reln = RelationGetSmgr(rel);

	if (rel_pages == 0 || rel_pages > PV_SMALL_PAGES || RelationUsesLocalBuffers(rel))
		return;
	if (reln->smgr_cached_nblocks[fork] == InvalidBlockNumber && smgrexists(reln, fork))
		(void) smgrnblocks(reln, fork); /* core would ask next */
	if (reln->smgr_cached_nblocks[fork] != InvalidBlockNumber &&
		reln->smgr_cached_nblocks[fork] > 0)
		return;

	/* this may fail, and after what follows they must be told */
	if (!registered)
		RegisterXactCallback(invalidate_at_xact_end, NULL);
	registered = true;

	LockRelationForExtension(rel, ExclusiveLock);
	reln = RelationGetSmgr(rel);
	smgrcreate(reln, fork, true);		/* or open it, if it is there now */
	if (smgrnblocks(reln, fork) == 0)
	{
		ReleaseBuffer(pv_extend_fork(rel, fork));
		report_later(RelationGetSmgr(rel));
	}
	UnlockRelationForExtension(rel, ExclusiveLock);
}

/*
 * How many pages of a table with so many are all-visible, and how many of those
 * all-frozen?  Where they are few, only their bits are looked at: core counts those of a
 * whole page of the map, which for a small table is more work than to read it.
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
			uint8		status = visibilitymap_get_status(rel, blkno, &vmbuffer);

			*all_visible += (status & VISIBILITYMAP_ALL_VISIBLE) != 0;
			*all_frozen += (status & VISIBILITYMAP_ALL_FROZEN) != 0;
		}
		if (BufferIsValid(vmbuffer))
			ReleaseBuffer(vmbuffer);
	}
	*all_visible = Min(*all_visible, rel_pages);
	*all_frozen = Min(*all_frozen, *all_visible);
}
