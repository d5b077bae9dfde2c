/*-------------------------------------------------------------------------
 *
 * sweep_function.c
 *	  parvacuum_sweep() and CALL parvacuum_sweep_index(): sweeps of a B-tree
 *	  (engine/sweep.c).
 *
 * The session that calls them runs this.  It takes RowExclusiveLock on the
 * table and the index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/clock.h"
#include "base/compat.h"
#include "engine/nbtree.h"
#include "entry/dispatch.h"
#include "entry/options.h"
#include "sql/call.h"

PG_FUNCTION_INFO_V1(parvacuum_sweep);
PG_FUNCTION_INFO_V1(parvacuum_sweep_call);

/*
 * Raise an error if the relation cannot be swept: it must be an index, of the
 * given table if that is valid, and the role must have the right to vacuum its
 * table.  Return the table.
 */
static Oid
check_index(Oid indexoid, Oid heapoid)
{
	char		relkind = get_rel_relkind(indexoid);
	Oid			relid = IndexGetRelation(indexoid, true);

	if (relkind == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", indexoid),
				 errhint("pg_indexes lists the existing indexes.")));
	if (relkind != RELKIND_INDEX || !OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot sweep \"%s\"", get_rel_name(indexoid)),
				 errdetail_relkind_not_supported(relkind),
				 errhint("Only indexes can be swept; of a partitioned index, those of its partitions.")));
	if (!pv_may_vacuum(relid))
		pv_refuse_vacuum(ERROR, get_rel_name(relid));
	if (OidIsValid(heapoid) && relid != heapoid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not find the table of index \"%s\"",
						get_rel_name(indexoid)),
				 errdetail("The index was dropped in the meantime, and another one was created."),
				 errhint("Try again.")));
	return relid;
}

/*
 * Sweep an index that was found to belong to the table.  That may have been
 * in another transaction, and no role may lock what it has no right to, so
 * check everything again before the locks.  Check it once more with the locks:
 * by then the OID may be that of the index of another table, or of another
 * kind of relation.
 *
 * Core: access/brin/brin.c, brin_summarize_range.
 */
static void
sweep(Oid indexoid, Oid heapoid, PvSweepResult *result)
{
	Relation	heaprel;
	Relation	indrel;
	PvOptions	options;

	(void) check_index(indexoid, heapoid);
	heaprel = table_open(heapoid, RowExclusiveLock);
	indrel = index_open(indexoid, RowExclusiveLock);
	(void) check_index(indexoid, heapoid);

	/* a TOAST table has no options of its own, so the setting applies to it */
	pv_options_look_up(heapoid, heaprel->rd_rel->relispartition, &options);
	pv_sweep_index(heaprel, indrel,
				   options.value[PV_OPTION_BUFFER_USAGE_LIMIT], NULL, result);
	index_close(indrel, RowExclusiveLock);
	table_close(heaprel, RowExclusiveLock);
}

/*
 * CALL parvacuum_sweep_index(index): sweep a B-tree in transactions of its
 * own, without a snapshot that holds anything back for long.
 */
Datum
parvacuum_sweep_call(PG_FUNCTION_ARGS)
{
	const char *what = "CALL parvacuum_sweep_index()";
	Oid			indexoid;
	Oid			heapoid;
	PvSweepResult result;

	pv_check_server(what);
	pv_check_procedure_call(fcinfo, what);
	pv_check_not_null(fcinfo, 0, "index", "Name an index.");
	indexoid = PG_GETARG_OID(0);
	heapoid = check_index(indexoid, InvalidOid);

	pv_commit_procedure();

	/* other isolation levels keep the first snapshot to the end */
	XactIsoLevel = XACT_READ_COMMITTED;
	sweep(indexoid, heapoid, &result);
	ereport(NOTICE,
			(errmsg("swept index \"%s\": " INT64_FORMAT " entries deleted from " INT64_FORMAT " of " INT64_FORMAT " pages, " INT64_FORMAT " bytes freed",
					get_rel_name(indexoid), result.tuples_deleted,
					result.pages_changed, result.pages_total,
					result.bytes_freed)));

	/* a procedure that goes on gets a transaction of its own */
	pv_commit_procedure();
	PG_RETURN_VOID();
}

/* parvacuum_sweep(index): sweep a B-tree, in this transaction. */
Datum
parvacuum_sweep(PG_FUNCTION_ARGS)
{
	Oid			indexoid;
	Oid			heapoid;
	PvSweepResult result;
	int64		start;
	PvRow		row = {0};

	pv_check_server("parvacuum_sweep()");
	pv_check_not_null(fcinfo, 0, "index", "Name an index.");
	indexoid = PG_GETARG_OID(0);
	heapoid = check_index(indexoid, InvalidOid);

	start = pv_usecs_of_machine();
	sweep(indexoid, heapoid, &result);

	pv_put_int8(&row, result.pages_total);
	pv_put_int8(&row, result.pages_visited);
	pv_put_int8(&row, result.pages_changed);
	pv_put_int8(&row, result.tuples_deleted);
	pv_put_int8(&row, result.bytes_freed);
	pv_put_ms(&row, pv_usecs_since(start));
	return pv_row_result(fcinfo, &row);
}
