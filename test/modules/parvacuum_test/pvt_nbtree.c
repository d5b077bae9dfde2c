/*-------------------------------------------------------------------------
 *
 * pvt_nbtree.c
 *	  A SQL function that leaves a page of a B-tree half-dead, as a vacuum does
 *	  that is canceled while it deletes the page.
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

PG_FUNCTION_INFO_V1(parvacuum_test_leave_half_dead);

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
