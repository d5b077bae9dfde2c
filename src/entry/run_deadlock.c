/*-------------------------------------------------------------------------
 *
 * run_deadlock.c
 *	  Does the background leader of a run wait for its own caller?
 *
 * The caller sleeps on its latch, and the deadlock detector does not know
 * about latches.  Therefore the caller looks from time to time whether its
 * leader waits for a lock or a page that the caller holds, or for a session
 * that waits for the caller.
 *
 * The session that calls parvacuum_run() or CALL parvacuum() runs this.  It
 * takes the locks of the lock manager's tables for a moment.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/backend_status.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#include "base/borrowed.h"
#include "entry/run.h"
#include "stats/registry.h"

/* A wait for a pin is a deadlock when it is seen that often. */
#define PIN_WAITS_OF_DEADLOCK	2

/*
 * Does the process wait for a lock that this one holds, directly or through
 * other processes that wait?  This is a breadth-first search of the processes
 * that block it.  Return the one that waits for us directly, or 0.
 */
static int
waits_for_our_lock(int pid)
{
	List	   *pids = list_make1_int(pid);

	/* the list grows during this loop */
	for (int i = 0; i < list_length(pids); i++)
	{
		int			waiter = list_nth_int(pids, i);
		Datum		blockers = DirectFunctionCall1(pg_blocking_pids,
												   Int32GetDatum(waiter));
		ArrayType  *array = DatumGetArrayTypeP(blockers);
		int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		int32	   *blocker = (int32 *) ARR_DATA_PTR(array);

		for (int j = 0; j < n; j++)
		{
			if (blocker[j] == MyProcPid)
				return waiter;
			if (blocker[j] != 0)	/* 0 is a prepared transaction */
				pids = list_append_unique_int(pids, blocker[j]);
		}
	}
	list_free(pids);

	return 0;
}

/*
 * Does the leader, or one of its workers, wait for all pins on a page to go
 * away, while our own statement reads that table and so may hold a pin?  No
 * lock shows this.
 *
 * The fields of other processes are read without a lock, and what we see may
 * be out of date by a moment.  So the caller of this asks more than once.
 */
static bool
waits_for_our_pin(int leader_pid)
{
	PGPROC	   *leader = BackendPidGetProc(leader_pid);
	PvVacuuming vacuum;
	bool		in_use = false;
	Relation	rel;

	if (leader == NULL || !pv_group_waits_for_pin(leader) ||
		!pv_registry_find_process(leader_pid, &vacuum) ||
		!OidIsValid(vacuum.relid))
		return false;

	rel = RelationIdGetRelation(vacuum.relid);
	if (RelationIsValid(rel))
	{
		in_use = CheckRelationLockedByMe(rel, AccessShareLock, true);
		RelationClose(rel);
	}
	InvalidateCatalogSnapshot();

	return in_use;
}

/*
 * Raise an error if the leader waits for us, while we wait for it.  It may do
 * so through a process that has locked the table and waits for the end of our
 * transaction: that builds an index with CONCURRENTLY and waits for older
 * snapshots, or it waits for all who had locked a table.
 *
 * pin_waits counts consecutive sightings of a wait for a pin; it is 0 at
 * first.
 */
void
pv_run_check_deadlock(int leader_pid, int *pin_waits)
{
	int			waiter = waits_for_our_lock(leader_pid);

	*pin_waits = waits_for_our_pin(leader_pid) ? *pin_waits + 1 : 0;
	if (waiter == 0 && *pin_waits < PIN_WAITS_OF_DEADLOCK)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 waiter == 0 ?
			 errdetail("Process %d, which vacuums for this session, waits for a page of a table that this statement reads.",
					   leader_pid) :
			 waiter == leader_pid ?
			 errdetail("Process %d, which vacuums for this session, waits for a lock that this session holds.",
					   leader_pid) :
			 errdetail("Process %d, which vacuums for this session, waits for process %d, which waits for the snapshot or a lock of this statement.\nProcess %d: %s",
					   leader_pid, waiter, waiter,
					   pgstat_get_backend_current_activity(waiter, true)),
			 errhint("Do not use the tables to be vacuumed in the same statement or transaction, or use CALL parvacuum(...).")));
}
