/*-------------------------------------------------------------------------
 *
 * pvt_nbtree.c
 *	  A SQL function that leaves a page of a B-tree as a vacuum does that is
 *	  cancelled while it deletes that page.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

PG_FUNCTION_INFO_V1(parvacuum_test_leave_half_dead);

/*
 * Core takes the page out of its parent, which makes it half-dead, and looks for
 * interrupts before it goes on.
 */
Datum
parvacuum_test_leave_half_dead(PG_FUNCTION_ARGS)
{
	Relation	rel = index_open(PG_GETARG_OID(0), ShareUpdateExclusiveLock);
	IndexVacuumInfo info = {.index = rel};
	IndexBulkDeleteResult stats = {0};
	BTVacState	vstate = {.info = &info,.stats = &stats,.pagedelcontext = CurrentMemoryContext};
	Buffer		buf = ReadBuffer(rel, (BlockNumber) PG_GETARG_INT64(1));

	LockBufferForCleanup(buf);
	InterruptPending = QueryCancelPending = true;
	_bt_pagedel(rel, buf, &vstate);
	elog(ERROR, "the deletion was not interrupted");
}
