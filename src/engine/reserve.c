/*-------------------------------------------------------------------------
 *
 * reserve.c
 *	  What the vacuums of the cluster share: parallel workers, and places for
 *	  B-trees that are being vacuumed.
 *
 * Two atomic counters in main shared memory say how many of each all vacuums
 * have reserved.  Leaders of vacuums and sweeps run this.
 *
 * A leader reserves workers before it launches them, and releases them when
 * they are gone.  If it leaves by an error instead, the end of its transaction
 * releases what is left, also when the process exits, which aborts the
 * transaction first.  A vacuum of one relation is one transaction, so no
 * reservation outlives it.  A sweep is a part of a transaction, so the end of a
 * subtransaction releases as well: the code that catches the error may go on
 * for long.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#include "base/settings.h"
#include "engine/reserve.h"

typedef struct ReservedShared
{
	/* atomic */
	pg_atomic_uint32 workers_in_use;
	pg_atomic_uint32 btrees_in_use;
} ReservedShared;

static ReservedShared *shared = NULL;

/*
 * The server has as many places for B-trees that are being vacuumed as it can have
 * backends, since core needs one for each.  A vacuum that registers several at a
 * time takes this share of them at most, and all such vacuums together this.
 */
#define BTREES_OF_ONE			Max(MaxBackends / 8, 1)
#define BTREES_OF_ALL			(MaxBackends / 2)

/* Our part of btrees_in_use */
static int	btrees_here = 0;

/*
 * Our part of workers_in_use, the subtransaction that reserved it, and whether
 * its end and that of the transaction are watched.
 */
static int	reserved_here = 0;
static SubTransactionId reserved_in = InvalidSubTransactionId;
static bool callback_registered = false;

Size
pv_reserve_shmem_size(void)
{
	return MAXALIGN(sizeof(ReservedShared));
}

/* Finds the counters or sets them up.  The caller holds AddinShmemInitLock. */
void
pv_reserve_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum", sizeof(ReservedShared), &found);
	if (!found)
	{
		pg_atomic_init_u32(&shared->workers_in_use, 0);
		pg_atomic_init_u32(&shared->btrees_in_use, 0);
	}
}

/* Gives the places of this vacuum's B-trees back, if it has any. */
void
pv_release_btrees(void)
{
	if (btrees_here > 0)
		pg_atomic_fetch_sub_u32(&shared->btrees_in_use, btrees_here);
	btrees_here = 0;
}

/* The transaction is over, and so is every vacuum that it ran. */
static void
release_at_xact_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			pv_release_workers(reserved_here);
			pv_release_btrees();
			break;
		default:
			break;
	}
}

/*
 * A subtransaction has failed, and its workers are gone.  If it is one within
 * that which reserved, that goes on.
 */
static void
release_at_subxact_end(SubXactEvent event, SubTransactionId mySubid,
					   SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && mySubid == reserved_in)
		pv_release_workers(reserved_here);
}

static void
watch_transaction(void)
{
	if (callback_registered)
		return;
	RegisterXactCallback(release_at_xact_end, NULL);
	RegisterSubXactCallback(release_at_subxact_end, NULL);
	callback_registered = true;
}

/*
 * Adds to a count what is wanted, or what the limit allows, and returns that.
 */
static int
reserve(pg_atomic_uint32 *in_use, int wanted, int limit)
{
	uint32		used = pg_atomic_read_u32(in_use);
	int			granted;

	do
	{
		granted = Min(wanted, limit - (int) used);
		if (granted <= 0)
			return 0;
	} while (!pg_atomic_compare_exchange_u32(in_use, &used,
											 used + (uint32) granted));
	return granted;
}

/*
 * Reserves a place for one more B-tree of this vacuum, if there is one.  All are given
 * back by pv_release_btrees(), or when the vacuum's transaction ends.
 */
bool
pv_reserve_btree(void)
{
	Assert(IsTransactionState());

	if (shared == NULL || btrees_here >= BTREES_OF_ONE)
		return false;
	watch_transaction();
	if (reserve(&shared->btrees_in_use, 1, BTREES_OF_ALL) == 0)
		return false;
	btrees_here++;
	return true;
}

/*
 * Reserves up to the wanted number of workers under parvacuum.max_workers and
 * returns how many were granted, possibly none.
 *
 * A limit that was lowered meanwhile takes no workers from anybody: it only
 * grants none until enough are released.
 */
int
pv_reserve_workers(int wanted)
{
	int			granted;

	Assert(IsTransactionState());

	if (shared == NULL || wanted <= 0)
		return 0;
	watch_transaction();
	granted = reserve(&shared->workers_in_use, wanted, pv_guc_max_workers);
	if (granted == 0)
		return 0;

	reserved_here += granted;
	reserved_in = GetCurrentSubTransactionId();
	return granted;
}

/*
 * Gives back workers reserved here.  What the end of the transaction has
 * already given back is not given back twice.
 */
void
pv_release_workers(int n)
{
	n = Min(n, reserved_here);
	if (n <= 0)
		return;

	reserved_here -= n;
	pg_atomic_fetch_sub_u32(&shared->workers_in_use, n);
}

/* How many workers the cluster's vacuums hold right now. */
int
pv_workers_in_use(void)
{
	return shared ? (int) pg_atomic_read_u32(&shared->workers_in_use) : 0;
}
