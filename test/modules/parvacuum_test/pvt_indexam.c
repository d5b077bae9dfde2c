/*-------------------------------------------------------------------------
 *
 * pvt_indexam.c
 *	  Index access methods whose indexes are empty: two that do not support
 *	  parallel vacuum, and assign transaction IDs; and one that supports it,
 *	  and says how much memory it may use.
 *
 * Without parallel vacuum the result of a bulk deletion is larger than the
 * common struct, and the next bulk deletion and the cleanup must get the same
 * memory back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/parallel.h"
#include "access/xact.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/pathnodes.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(parvacuum_test_xid_in_cleanup);
PG_FUNCTION_INFO_V1(parvacuum_test_xid_in_bulkdelete);
PG_FUNCTION_INFO_V1(parvacuum_test_uses_memory);

#define MAGIC		0x70767431

typedef struct OwnResult
{
	IndexBulkDeleteResult common;
	uint32		magic;
	int			ndeletions;
} OwnResult;

static IndexBuildResult *
build(Relation heap, Relation index, struct IndexInfo *info)
{
	return palloc0(sizeof(IndexBuildResult));
}

static void
build_empty(Relation index)
{
}

static bool
insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
	   Relation heap, IndexUniqueCheck check, bool unchanged,
	   struct IndexInfo *info)
{
	return false;
}

static IndexBulkDeleteResult *
bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			IndexBulkDeleteCallback callback, void *arg)
{
	OwnResult  *own = (OwnResult *) stats;

	if (own == NULL)
	{
		own = palloc0(sizeof(OwnResult));
		own->magic = MAGIC;
	}
	if (own->magic != MAGIC)
		elog(ERROR, "bulk deletion got another's result");
	own->ndeletions++;
	return &own->common;
}

static IndexBulkDeleteResult *
bulk_delete_with_xid(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					 IndexBulkDeleteCallback callback, void *arg)
{
	(void) GetCurrentTransactionId();
	return bulk_delete(info, stats, callback, arg);
}

static IndexBulkDeleteResult *
clean_up_with_xid(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	OwnResult  *own = (OwnResult *) stats;

	if (own != NULL && own->magic != MAGIC)
		elog(ERROR, "cleanup got another's result");
	ereport(WARNING,
			(errmsg("cleanup of \"%s\" after %d bulk deletions, for %.0f rows",
					RelationGetRelationName(info->index),
					own ? own->ndeletions : 0, info->num_heap_tuples)));
	(void) GetCurrentTransactionId();
	if (own == NULL)
		return NULL;
	own->common.num_index_tuples = 100 + own->ndeletions;
	return &own->common;
}

/*
 * This takes long enough for each participant to get one of several indexes.
 */
static IndexBulkDeleteResult *
bulk_delete_with_memory(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
						IndexBulkDeleteCallback callback, void *arg)
{
	ereport(WARNING,
			(errmsg("bulk deletion by a %s with %d kB",
					IsParallelWorker() ? "worker" : "leader",
					maintenance_work_mem)));
	pg_usleep(1000000L);
	return stats ? stats : palloc0(sizeof(IndexBulkDeleteResult));
}

static IndexBulkDeleteResult *
no_clean_up(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	return stats;
}

static void
estimate_cost(struct PlannerInfo *root, struct IndexPath *path,
			  double loop_count, Cost *startup, Cost *total,
			  Selectivity *selectivity, double *correlation, double *pages)
{
	*startup = *total = 1e10;
	*selectivity = 1;
	*correlation = 0;
	*pages = 0;
}

static bytea *
no_options(Datum options, bool validate)
{
	return NULL;
}

static bool
is_valid(Oid opclass)
{
	return true;
}

static IndexScanDesc
begin_scan(Relation index, int nkeys, int norderbys)
{
	elog(ERROR, "this index cannot be searched");
}

static void
rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
	   int norderbys)
{
	elog(ERROR, "this index cannot be searched");
}

static void
end_scan(IndexScanDesc scan)
{
}

#define ROUTINE(...) \
	{ \
		.type = T_IndexAmRoutine, \
		.ambuild = build, \
		.ambuildempty = build_empty, \
		.aminsert = insert, \
		.amcostestimate = estimate_cost, \
		.amoptions = no_options, \
		.amvalidate = is_valid, \
		.ambeginscan = begin_scan, \
		.amrescan = rescan, \
		.amendscan = end_scan, \
		__VA_ARGS__ \
	}

static const IndexAmRoutine xid_in_cleanup =
ROUTINE(.ambulkdelete = bulk_delete,.amvacuumcleanup = clean_up_with_xid);
static const IndexAmRoutine xid_in_bulkdelete =
ROUTINE(.ambulkdelete = bulk_delete_with_xid,
		.amvacuumcleanup = clean_up_with_xid);
static const IndexAmRoutine uses_memory =
ROUTINE(.ambulkdelete = bulk_delete_with_memory,
		.amvacuumcleanup = no_clean_up,.amusemaintenanceworkmem = true,
		.amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL);

/*
 * PostgreSQL 19 keeps the pointer; earlier versions copy the struct, and free it.
 */
static Datum
routine_for_core(const IndexAmRoutine *routine)
{
#if PG_VERSION_NUM >= 190000
	return PointerGetDatum(routine);
#else
	IndexAmRoutine *copy = makeNode(IndexAmRoutine);

	*copy = *routine;
	return PointerGetDatum(copy);
#endif
}

Datum
parvacuum_test_xid_in_cleanup(PG_FUNCTION_ARGS)
{
	return routine_for_core(&xid_in_cleanup);
}

Datum
parvacuum_test_xid_in_bulkdelete(PG_FUNCTION_ARGS)
{
	return routine_for_core(&xid_in_bulkdelete);
}

Datum
parvacuum_test_uses_memory(PG_FUNCTION_ARGS)
{
	return routine_for_core(&uses_memory);
}
