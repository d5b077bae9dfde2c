/*-------------------------------------------------------------------------
 *
 * blocker.c
 *	  What holds back the horizon: processes, prepared transactions and
 *	  replication slots.
 *
 * A row that was deleted can be removed when no snapshot can see it any more.
 * Core computes the oldest transaction ID that such a snapshot may depend on,
 * and keeps only the result.  Here the same things are looked at by the same
 * rules, to find out whose they are:
 *
 *		blocker					holds back
 *		------					----------
 *		process, prepared		tables of its database, shared catalogs
 *		transaction
 *		standby feedback		all tables of all databases
 *		xmin of a slot			all tables of all databases
 *		catalog_xmin of a slot	catalogs of all databases
 *
 * These hold back nothing: a process that vacuums (PROC_IN_VACUUM), one that
 * decodes for a slot, as the slot holds for it (PROC_IN_LOGICAL_DECODING), and
 * a base backup, which has neither a snapshot nor a transaction.  A process
 * that executes CREATE INDEX CONCURRENTLY (PROC_IN_SAFE_IC) does hold back.
 *
 * Sessions and leaders of vacuums run this.  ProcArrayLock is held in shared
 * mode while processes are looked at, and after that
 * ReplicationSlotControlLock in shared mode.  Under both, nothing fails or is
 * allocated.
 *
 * Core: storage/ipc/procarray.c, ComputeXidHorizons;
 * replication/slot.c, ReplicationSlotsComputeRequiredXmin.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "stats/blocker.h"

/* The blockers that were found so far, in an array that has room for all */
typedef struct Collection
{
	PvBlocker  *blockers;
	int			n;
} Collection;

/* Return the older of two transaction IDs, of which any may be invalid. */
static TransactionId
older(TransactionId a, TransactionId b)
{
	if (!TransactionIdIsValid(a))
		return b;
	if (!TransactionIdIsValid(b))
		return a;
	return TransactionIdPrecedes(a, b) ? a : b;
}

/*
 * Return what the process holds back: the older of its transaction and
 * snapshot.
 */
static TransactionId
held_by(const PGPROC *proc)
{
	return older(*(volatile const TransactionId *) &proc->xid,
				 *(volatile const TransactionId *) &proc->xmin);
}

/*
 * Is the prepared transaction one that still exists?  One that has ended
 * leaves its XID behind.  The caller holds ProcArrayLock.
 */
static bool
is_prepared(const PGPROC *proc)
{
	return proc->pgxactoff >= 0 && TransactionIdIsValid(proc->xid) &&
		ProcGlobal->xids[proc->pgxactoff] == proc->xid;
}

/*
 * Is this a parallel worker whose leader has the same snapshot, and so holds
 * back as much?  The leader may end at any time.  Then what is read here is of
 * no use, but does no harm, since the memory of processes is never freed.
 */
static bool
is_shown_by_leader(const PGPROC *proc)
{
	const PGPROC *leader =
		*(PGPROC *volatile const *) &proc->lockGroupLeader;
	TransactionId xmin;

	if (leader == NULL || leader == proc)
		return false;
	if (leader == MyProc)
		return true;
	xmin = held_by(leader);
	return TransactionIdIsValid(xmin) &&
		TransactionIdPrecedesOrEquals(xmin, held_by(proc));
}

/* Add a process or prepared transaction.  The caller holds ProcArrayLock. */
static void
collect_process(const PGPROC *proc, Collection *collection)
{
	TransactionId xmin = held_by(proc);
	PvBlocker	blocker = {0};

	if (!TransactionIdIsValid(xmin) || proc == MyProc ||
		(proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)) ||
		is_shown_by_leader(proc) || (proc->pid == 0 && !is_prepared(proc)))
		return;
	blocker.kind = proc->pid == 0 ? PV_BLOCKER_PREPARED :
		(proc->statusFlags & PROC_AFFECTS_ALL_HORIZONS) ? PV_BLOCKER_FEEDBACK :
		PV_BLOCKER_PROCESS;
	blocker.pid = proc->pid;
	blocker.database = proc->databaseId;
	blocker.role = proc->roleId;
	blocker.xmin = xmin;
	blocker.xid = proc->xid;
	collection->blockers[collection->n++] = blocker;
}

/* Add a replication slot.  The caller holds ReplicationSlotControlLock. */
static void
collect_slot(ReplicationSlot *slot, Collection *collection)
{
	PvBlocker	blocker = {0};
	TransactionId xmin,
				catalog_xmin;
	bool		invalid;

	if (!slot->in_use)
		return;
	SpinLockAcquire(&slot->mutex);
	xmin = slot->effective_xmin;
	catalog_xmin = slot->effective_catalog_xmin;
	invalid = pv_slot_is_invalid(slot);
	blocker.pid = pv_slot_pid(slot);
	blocker.database = slot->data.database;
	blocker.inactive_since = pv_slot_inactive_since(slot);
	blocker.synced = pv_slot_is_synced(slot);
	blocker.temporary = slot->data.persistency != RS_PERSISTENT;
	blocker.slot = slot->data.name;
	SpinLockRelease(&slot->mutex);

	if (invalid)
		return;
	if (TransactionIdIsValid(xmin))
	{
		blocker.kind = PV_BLOCKER_SLOT_XMIN;
		blocker.xmin = xmin;
		collection->blockers[collection->n++] = blocker;
	}
	if (TransactionIdIsValid(catalog_xmin))
	{
		blocker.kind = PV_BLOCKER_SLOT_CATALOG;
		blocker.xmin = catalog_xmin;
		collection->blockers[collection->n++] = blocker;
	}
}

/*
 * Return the number of PGPROCs; those of prepared transactions follow the
 * others.
 */
static int
num_processes(void)
{
	return ProcGlobal->allProcCount + max_prepared_xacts;
}

/*
 * Collect all blockers of all databases except this process, in an array in
 * the current memory context.  Return their number.  A process that is ending
 * may have left its transaction ID behind; is_running() and
 * pv_blocker_look_up() tell.
 */
int
pv_blockers_collect(PvBlocker **blockers)
{
	int			nprocs = num_processes();
	int			nslots = pv_num_slots();
	Collection	collection = {0};

	collection.blockers = MemoryContextAllocHuge(CurrentMemoryContext,
												 (nprocs + 2 * nslots) *
												 sizeof(PvBlocker));

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < nprocs; i++)
		collect_process(&ProcGlobal->allProcs[i], &collection);
	LWLockRelease(ProcArrayLock);

	if (nslots > 0)
	{
		LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
		for (int i = 0; i < nslots; i++)
			collect_slot(&ReplicationSlotCtl->replication_slots[i],
						 &collection);
		LWLockRelease(ReplicationSlotControlLock);
	}
	*blockers = collection.blockers;
	return collection.n;
}

/*
 * Return the horizon of a relation that is not a temporary table, which only
 * its own session can see.  Core: storage/ipc/procarray.c,
 * GlobalVisHorizonKindForRel.
 */
PvHorizon
pv_horizon_of(Relation rel)
{
	if (rel->rd_rel->relisshared)
		return PV_HORIZON_SHARED;
	if (IsCatalogRelation(rel) || RelationIsAccessibleInLogicalDecoding(rel))
		return PV_HORIZON_CATALOG;
	return PV_HORIZON_DATA;
}

/*
 * Does the blocker hold back that horizon of this database?  On a standby,
 * where the databases of transactions are not known, each holds back
 * everything.
 */
bool
pv_blocker_affects(const PvBlocker *blocker, PvHorizon horizon)
{
	switch (blocker->kind)
	{
		case PV_BLOCKER_PROCESS:
		case PV_BLOCKER_PREPARED:
			return horizon == PV_HORIZON_SHARED ||
				blocker->database == MyDatabaseId || RecoveryInProgress();
		case PV_BLOCKER_FEEDBACK:
		case PV_BLOCKER_SLOT_XMIN:
			return true;
		case PV_BLOCKER_SLOT_CATALOG:
			return horizon != PV_HORIZON_DATA;
		case PV_BLOCKER_NONE:
			break;
	}
	return false;
}

/*
 * Return what tells the blocker from others of its kind: a PID, the
 * transaction ID of a prepared transaction, or a hash of the name of a slot.
 * PIDs and transaction IDs are used again after a while.
 */
uint64
pv_blocker_key(const PvBlocker *blocker)
{
	const char *name;

	switch (blocker->kind)
	{
		case PV_BLOCKER_PROCESS:
		case PV_BLOCKER_FEEDBACK:
			return blocker->pid;
		case PV_BLOCKER_PREPARED:
			return blocker->xid;
		case PV_BLOCKER_SLOT_XMIN:
		case PV_BLOCKER_SLOT_CATALOG:
			name = NameStr(blocker->slot);
			return hash_bytes_extended((const unsigned char *) name,
									   strlen(name), 0);
		case PV_BLOCKER_NONE:
			break;
	}
	return 0;
}

/*
 * Does the blocker depend on what is running, so that another transaction can
 * be the cause?  Not if it has that transaction ID itself, and not if it is a
 * slot that nobody uses, which holds on when the transaction ends.
 */
static bool
may_have_cause(const PvBlocker *blocker)
{
	switch (blocker->kind)
	{
		case PV_BLOCKER_PROCESS:
			return blocker->xid != blocker->xmin;
		case PV_BLOCKER_FEEDBACK:
			return true;
		case PV_BLOCKER_SLOT_XMIN:
			return blocker->pid != 0;
		default:
			return false;
	}
}

/*
 * Is one of these, a transaction with an XID, the cause that the blocker is as
 * old as it is?
 */
bool
pv_blocker_has_cause(const PvBlocker *blocker, const PvBlocker *blockers,
					 int n)
{
	if (!may_have_cause(blocker))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (blockers[i].xid == blocker->xmin)
			return true;
	}
	return false;
}

/*
 * Is the blocker a transaction that is the cause that one of these holds back
 * that horizon of this database?  It may run in another database.
 */
bool
pv_blocker_is_cause(const PvBlocker *blocker, const PvBlocker *blockers,
					int n, PvHorizon horizon)
{
	if (!TransactionIdIsValid(blocker->xid))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (blockers[i].xmin == blocker->xid && may_have_cause(&blockers[i]) &&
			pv_blocker_affects(&blockers[i], horizon))
			return true;
	}
	return false;
}

/* Does the process still run, if the blocker is one? */
static bool
is_running(const PvBlocker *blocker)
{
	return (blocker->kind != PV_BLOCKER_PROCESS &&
			blocker->kind != PV_BLOCKER_FEEDBACK) ||
		BackendPidGetProc(blocker->pid) != NULL;
}

/*
 * Return the blocker of that horizon that is to blame, or NULL.  A long
 * transaction keeps the snapshots of all that begin after it as old as itself.
 * So of several that are equally old, it is the one whose own transaction ID
 * that is.
 */
static const PvBlocker *
oldest_blocker(const PvBlocker *blockers, int n, PvHorizon horizon)
{
	const PvBlocker *oldest = NULL;

	for (int i = 0; i < n; i++)
	{
		const PvBlocker *blocker = &blockers[i];

		if (pv_blocker_affects(blocker, horizon) &&
			(oldest == NULL ||
			 TransactionIdPrecedes(blocker->xmin, oldest->xmin) ||
			 (blocker->xmin == oldest->xmin &&
			  blocker->xid == blocker->xmin)) &&
			is_running(blocker))
			oldest = blocker;
	}
	return oldest;
}

/* Return the transaction that has this ID and is still running, or NULL. */
static const PvBlocker *
transaction_with(TransactionId xid, const PvBlocker *blockers, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (blockers[i].xid == xid && is_running(&blockers[i]))
			return &blockers[i];
	}
	return NULL;
}

/*
 * Find the oldest blocker of that horizon of this database.  Return false if
 * none is as old as the cutoff that was computed just before: what had held it
 * back then has ended, or nothing had.
 *
 * A snapshot is as old as the oldest transaction with an XID that was running
 * when it was taken, in any database.  So if the blocker only has a snapshot,
 * and that transaction is still running, that transaction is to blame: while
 * it runs, every snapshot is as old.  So are those of a standby, which sees
 * the same transactions, and what it sends as feedback.
 */
bool
pv_blocker_find(PvHorizon horizon, TransactionId cutoff, PvBlocker *blocker)
{
	PvBlocker  *blockers;
	int			n = pv_blockers_collect(&blockers);
	const PvBlocker *oldest = oldest_blocker(blockers, n, horizon);
	const PvBlocker *cause = NULL;
	TransactionId xmin;

	memset(blocker, 0, sizeof(*blocker));
	if (oldest != NULL && may_have_cause(oldest))
		cause = transaction_with(oldest->xmin, blockers, n);
	if (cause != NULL)
		oldest = cause;
	if (oldest != NULL)
		*blocker = *oldest;
	pfree(blockers);

	xmin = blocker->xmin;
	if (blocker->kind < PV_BLOCKER_SLOT_XMIN)
		xmin -= pv_defer_cleanup_age();
	if (TransactionIdFollows(xmin, cutoff))
		blocker->kind = PV_BLOCKER_NONE;
	return blocker->kind != PV_BLOCKER_NONE;
}
