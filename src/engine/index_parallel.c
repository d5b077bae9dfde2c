/*-------------------------------------------------------------------------
 *
 * index_parallel.c
 *	  What parallel mode allows with the indexes of a table.
 *
 * Workers mean parallel mode from the first heap pass to the index cleanup.
 * An access method that allows no worker in any phase may do things that
 * parallel mode forbids even to the leader, such as assigning a transaction
 * ID:
 *
 *	 cleanup			waits until the workers are gone and parallel mode has ended
 *	 bulk deletion	cannot wait, so there may have to be no workers: see
 *					pv_index_allows_workers()
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "catalog/pg_am.h"
#include "commands/vacuum.h"
#include "optimizer/paths.h"
#include "utils/rel.h"

#include "engine/index_vacuum.h"

/*
 * Does the access method support parallel vacuum in any way?  One that defines
 * nothing does not.
 */
bool
pv_index_knows_parallel_vacuum(Relation indrel)
{
	return indrel->rd_indam->amparallelvacuumoptions !=
		VACUUM_OPTION_NO_PARALLEL;
}

/*
 * Does the cleanup run functions of the table's owner?
 *
 * BRIN evaluates the expressions and the predicate of the index for what it
 * summarizes.  We do not know what access methods that are not core's do.
 * Such functions may do what parallel mode forbids; before PG 18 a PL/pgSQL
 * block with an EXCEPTION clause is sufficient.  Do not rely on how the owner
 * has declared them.
 */
static bool
cleanup_runs_functions(Relation indrel)
{
	switch (indrel->rd_rel->relam)
	{
		case BTREE_AM_OID:
		case HASH_AM_OID:
		case GIST_AM_OID:
		case GIN_AM_OID:
		case SPGIST_AM_OID:
			return false;
		default:
			return RelationGetIndexExpressions(indrel) != NIL ||
				RelationGetIndexPredicate(indrel) != NIL;
	}
}

/* Must the cleanup of the index wait until parallel mode has ended? */
bool
pv_index_cleanup_must_wait(Relation indrel)
{
	return !pv_index_knows_parallel_vacuum(indrel) ||
		cleanup_runs_functions(indrel);
}

/*
 * May a worker process this index in this phase?  An index with conditional
 * cleanup has next to nothing to clean up after a bulk deletion, so the leader
 * does that, as in core.
 */
bool
pv_index_worker_allowed(const IndexAmRoutine *amroutine, PvPhase phase,
						int index_scans)
{
	uint8		options = amroutine->amparallelvacuumoptions;

	if (phase == PV_PHASE_INDEX)
		return (options & VACUUM_OPTION_PARALLEL_BULKDEL) != 0;
	if (options & VACUUM_OPTION_PARALLEL_CLEANUP)
		return true;
	return (options & VACUUM_OPTION_PARALLEL_COND_CLEANUP) != 0 &&
		index_scans == 0;
}

/*
 * Would core's VACUUM command start workers for these indexes, if no number is
 * given?  It does if at least two indexes are worth a worker.
 *
 * Core: commands/vacuumparallel.c, parallel_vacuum_compute_workers.
 */
static bool
core_would_start_workers(const PvParticipant *leader)
{
	int			nbulkdel = 0;
	int			ncleanup = 0;

	for (int i = 0; i < leader->nindexes; i++)
	{
		Relation	indrel = leader->indrels[i];
		uint8		options = indrel->rd_indam->amparallelvacuumoptions;

		if ((int64) RelationGetNumberOfBlocks(indrel) <
			min_parallel_index_scan_size)
			continue;
		if (options & VACUUM_OPTION_PARALLEL_BULKDEL)
			nbulkdel++;
		if (options & (VACUUM_OPTION_PARALLEL_CLEANUP |
					   VACUUM_OPTION_PARALLEL_COND_CLEANUP))
			ncleanup++;
	}
	return Max(nbulkdel, ncleanup) > 1;
}

/*
 * Leader, before anything is planned: may a vacuum that comes to the indexes
 * have workers?  If not, set *because_of to the name of the index that forbids
 * it.
 *
 * The bulk deletion of an access method that does not support parallel vacuum
 * may do what parallel mode forbids, and then fails.  We cannot leave parallel
 * mode before it, because the dead items are in memory that ends with the
 * workers.  So the rule is that what succeeds in core must succeed here.
 * Under autovacuum, core has no workers at all.  Otherwise core is in parallel
 * mode for such an index, too, if other indexes are worth workers.
 */
bool
pv_index_allows_workers(const PvParticipant *leader, bool automatic,
						const char **because_of)
{
	for (int i = 0; i < leader->nindexes; i++)
	{
		if (pv_index_knows_parallel_vacuum(leader->indrels[i]))
			continue;
		*because_of = RelationGetRelationName(leader->indrels[i]);
		return !automatic && core_would_start_workers(leader);
	}
	return true;
}
