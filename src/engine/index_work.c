/*-------------------------------------------------------------------------
 *
 * index_work.c
 *	  Have the indexes of a table anything for a vacuum to do, whatever is dead?
 *
 * Even if a snapshot keeps all dead rows, a vacuum makes GIN empty its pending
 * lists and BRIN summarize ranges.  So it is not useless.  parvacuum_plan()
 * asks here, and so does the scheduler, which leaves a table alone while its
 * dead rows cannot be removed.
 *
 * Sessions and scheduler workers run this.  They hold at least AccessShareLock
 * on the table, and wait for no lock of an index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/brin.h"
#include "access/brin_page.h"
#include "access/genam.h"
#include "access/gin.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "engine/participant.h"

/* The first page of the range map, after the metapage */
#define FIRST_MAP_PAGE			1

/*
 * Does this page of the range map lack the summary of any of its first n
 * ranges?
 */
static bool
lacks_summary(Relation indrel, BlockNumber blkno, int n)
{
	Buffer		buf = ReadBuffer(indrel, blkno);
	RevmapContents *map;
	bool		lacks;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	lacks = !BRIN_IS_REVMAP_PAGE(BufferGetPage(buf));
	map = (RevmapContents *) PageGetContents(BufferGetPage(buf));
	for (int i = 0; !lacks && i < n; i++)
		lacks = !ItemPointerIsValid(&map->rm_tids[i]);
	UnlockReleaseBuffer(buf);
	return lacks;
}

/*
 * Is there a range without a summary?  A vacuum summarizes those that have all
 * their pages.
 *
 * Core: access/brin/brin.c, brinsummarize; brin_revmap.c.
 */
static bool
has_unsummarized_range(Relation indrel, BlockNumber heap_pages)
{
	BrinStatsData stats;
	BlockNumber left;

	brinGetStats(indrel, &stats);
	left = heap_pages / stats.pagesPerRange;
	for (BlockNumber blkno = FIRST_MAP_PAGE; left > 0; blkno++)
	{
		int			n = Min(left, REVMAP_PAGE_MAXITEMS);

		CHECK_FOR_INTERRUPTS();
		/* core counts the pages of the map without the first one */
		if (blkno > stats.revmapNumPages + FIRST_MAP_PAGE ||
			lacks_summary(indrel, blkno, n))
			return true;
		left -= n;
	}
	return false;
}

static bool
has_pending_entries(Relation indrel)
{
	GinStatsData stats;

	ginGetStats(indrel, &stats);
	return stats.nPendingPages > 0;
}

/*
 * Has the index something to do?  The access methods that are ruled out only
 * count their pages if nothing was deleted.  We do not know what methods that
 * are not core's do.  An index that another session has locked has nothing to
 * do now.
 */
static bool
index_has_work(Oid indexrelid, BlockNumber heap_pages)
{
	Oid			relam = GetSysCacheOid1(RELOID, Anum_pg_class_relam,
										ObjectIdGetDatum(indexrelid));
	Relation	indrel;
	bool		has_work;

	if (!OidIsValid(relam) || relam == BTREE_AM_OID || relam == HASH_AM_OID ||
		relam == GIST_AM_OID || relam == SPGIST_AM_OID ||
		!ConditionalLockRelationOid(indexrelid, AccessShareLock))
		return false;
	indrel = index_open(indexrelid, NoLock);
	has_work = indrel->rd_index->indisready &&
		(relam == GIN_AM_OID ? has_pending_entries(indrel) :
		 relam == BRIN_AM_OID ? has_unsummarized_range(indrel, heap_pages) :
		 true);
	index_close(indrel, AccessShareLock);
	return has_work;
}

/*
 * Has any index of the table something to do?  Not if the table's storage
 * parameters keep a vacuum from its indexes.
 */
bool
pv_indexes_have_work(Relation rel)
{
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;
	BlockNumber pages;
	bool		has_work = false;
	ListCell   *lc;

	if (!rel->rd_rel->relhasindex ||
		(options != NULL && options->vacuum_index_cleanup ==
		 STDRD_OPTION_VACUUM_INDEX_CLEANUP_OFF))
		return false;
	pages = RelationGetNumberOfBlocks(rel);
	foreach(lc, RelationGetIndexList(rel))
		has_work = has_work || index_has_work(lfirst_oid(lc), pages);
	return has_work;
}

/*
 * Empty the pending lists of the GIN indexes of a table that the caller has
 * locked.
 *
 * Core: access/gin/ginvacuum.c, ginvacuumcleanup.
 */
void
pv_index_empty_pending_lists(Relation rel)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	indrel = index_open(lfirst_oid(lc), AccessShareLock);
		bool		is_gin = indrel->rd_rel->relam == GIN_AM_OID &&
			indrel->rd_index->indisvalid;

		index_close(indrel, AccessShareLock);
		if (is_gin)
			DirectFunctionCall1(gin_clean_pending_list,
								ObjectIdGetDatum(lfirst_oid(lc)));
	}
}
