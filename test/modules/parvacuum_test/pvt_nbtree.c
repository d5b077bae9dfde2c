/*-------------------------------------------------------------------------
 *
 * pvt_nbtree.c
 *	  SQL functions for B-trees: one leaves a page half-dead, as a vacuum does
 *	  that is cancelled while it deletes the page; the other looks at the size
 *	  of the bitmaps of pages.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/index.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "engine/nbtree.h"
#include "engine/nbtree_scan.h"

PG_FUNCTION_INFO_V1(parvacuum_test_leave_half_dead);
PG_FUNCTION_INFO_V1(parvacuum_test_bitmap_room);

/*
 * Core removes the page from its parent, which makes it half-dead, and checks
 * for interrupts before it goes on.
 */
Datum
parvacuum_test_leave_half_dead(PG_FUNCTION_ARGS)
{
	Relation	heaprel = table_open(IndexGetRelation(PG_GETARG_OID(0), false),
									 ShareUpdateExclusiveLock);
	Relation	rel = index_open(PG_GETARG_OID(0), RowExclusiveLock);
	IndexVacuumInfo info = {.index = rel};
	IndexBulkDeleteResult stats = {0};
	BTVacState	vstate = {
		.info = &info,
		.stats = &stats,
		.pagedelcontext = CurrentMemoryContext
	};
	Buffer		buf = ReadBuffer(rel, (BlockNumber) PG_GETARG_INT64(1));

#if PG_VERSION_NUM >= 160000
	info.heaprel = heaprel;
#endif
	LockBufferForCleanup(buf);
	InterruptPending = QueryCancelPending = true;
	_bt_pagedel(rel, buf, &vstate);
	elog(ERROR, "the deletion of a page of \"%s\" was not interrupted",
		 RelationGetRelationName(heaprel));
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
