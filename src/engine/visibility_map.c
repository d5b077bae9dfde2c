/*-------------------------------------------------------------------------
 *
 * visibility_map.c
 *	  The visibility map of a small table: creating it, and counting its
 *	  bits.
 *
 * The leader runs this.  Core creates the map when the first page is to be
 * set, and sends an invalidation to all sessions at once.  They close the
 * table's files then, including this session in the middle of its work, and
 * open them again for the rest of the vacuum and for ANALYZE.  On 15 core also
 * reads what it has just written.  So the map of a small table is created
 * here, and the invalidation is sent at the end of the transaction.
 *
 * Until then other sessions may assume that there is no map.  For them no page
 * is all-visible.  A session that changes a page whose own bit says
 * all-visible must clear a bit of the map; it looks at the file again, under
 * the relation extension lock.  No other process may set bits in the map
 * meanwhile, because the vacuum holds ShareUpdateExclusiveLock until the end
 * of the transaction.
 *
 * Core: access/heap/visibilitymap.c, vm_readbuf and vm_extend;
 * utils/cache/inval.c, CacheInvalidateSmgr.
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

/* A pending invalidation, for a table with a new map */
static bool invalidation_is_pending = false;
static PvRelFileBackend pending_file;

/*
 * The transaction has committed or aborted, and still holds its locks.
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
 * Send the invalidation at the end of the transaction.  If one is pending for
 * another table of the transaction, that is sent now.
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
 * Create the map of a table with this many pages, if the table is small and
 * has none.
 *
 * The caller holds ShareUpdateExclusiveLock on the table.  This waits for the
 * relation extension lock.  A zeroed page is a valid map for core, which
 * initializes it when it is pinned.
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

	/* this may fail, and after the extension there must be no failure */
	if (!registered)
		RegisterXactCallback(invalidate_at_xact_end, NULL);
	registered = true;

	LockRelationForExtension(rel, ExclusiveLock);
	reln = RelationGetSmgr(rel);
	smgrcreate(reln, fork, true);		/* or open it, if it exists by now */
	if (smgrnblocks(reln, fork) == 0)
	{
		ReleaseBuffer(pv_extend_fork(rel, fork));
		report_later(RelationGetSmgr(rel));
	}
	UnlockRelationForExtension(rel, ExclusiveLock);
}

/*
 * Count the pages of a table that are all-visible, and those of them that are
 * all-frozen.
 *
 * For a small table the bits of its pages are read one by one.  Core counts
 * the bits of a whole page of the map, which is more work than reading a small
 * table.
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
