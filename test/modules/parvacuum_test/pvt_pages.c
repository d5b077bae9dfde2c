/*-------------------------------------------------------------------------
 *
 * pvt_pages.c
 *	  A SQL function for the comparison of a primary with its standby, page by
 *	  page, as the setting wal_consistency_checking compares pages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/relation.h"
#include "access/rmgr.h"
#include "access/xlog_internal.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(parvacuum_test_pages);

/*
 * The resource manager whose function masks what may differ in the pages of a
 * relation: hint bits, for instance.  Extensions log whole pages.
 */
static RmgrId
rmgr_of(Relation rel)
{
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
		return RM_HEAP_ID;
	switch (rel->rd_rel->relam)
	{
		case BTREE_AM_OID:
			return RM_BTREE_ID;
		case HASH_AM_OID:
			return RM_HASH_ID;
		case GIN_AM_OID:
			return RM_GIN_ID;
		case GIST_AM_OID:
			return RM_GIST_ID;
		case SPGIST_AM_OID:
			return RM_SPGIST_ID;
		case BRIN_AM_OID:
			return RM_BRIN_ID;
	}
	return RM_GENERIC_ID;
}

/*
 * One row for each page of a fork that has been logged, with a hash of what
 * must be the same wherever its WAL was replayed.  Pages without an LSN only
 * extend the relation.
 */
static void
hash_fork(Relation rel, ForkNumber fork, RmgrId rmgr, ReturnSetInfo *rsinfo)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber nblocks = RelationGetNumberOfBlocksInFork(rel, fork);
	PGAlignedBlock copy;

	for (BlockNumber block = 0; block < nblocks; block++)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, false};
		Buffer		buf;

		CHECK_FOR_INTERRUPTS();
		buf = ReadBufferExtended(rel, fork, block, RBM_NORMAL, strategy);
		LockBuffer(buf, BUFFER_LOCK_SHARE);
		memcpy(copy.data, BufferGetPage(buf), BLCKSZ);
		UnlockReleaseBuffer(buf);
		/* the first page of SP-GiST has a cache, which is not logged */
		if (PageIsNew((Page) copy.data) || (rmgr == RM_SPGIST_ID && block == 0) ||
			PageGetLSN((Page) copy.data) == InvalidXLogRecPtr)
			continue;

		/* core's mask for heap pages leaves nothing of the visibility map */
		if (fork == MAIN_FORKNUM && GetRmgr(rmgr).rm_mask != NULL)
			GetRmgr(rmgr).rm_mask(copy.data, block);
		else
			mask_page_lsn_and_checksum((Page) copy.data);

		values[0] = Int32GetDatum(fork);
		values[1] = Int64GetDatum(block);
		values[2] = hash_any_extended((unsigned char *) copy.data, BLCKSZ,
									  ((uint64) fork << 32) | block);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	FreeAccessStrategy(strategy);
}

/*
 * All logged pages of a relation.  The map of free space is not among them:
 * it is logged in parts only.
 */
Datum
parvacuum_test_pages(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	RmgrId		rmgr = rmgr_of(rel);

	InitMaterializedSRF(fcinfo, 0);
	hash_fork(rel, MAIN_FORKNUM, rmgr, rsinfo);
	if (rmgr == RM_HEAP_ID &&
		smgrexists(RelationGetSmgr(rel), VISIBILITYMAP_FORKNUM))
		hash_fork(rel, VISIBILITYMAP_FORKNUM, rmgr, rsinfo);
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}
