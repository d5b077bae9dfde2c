/*-------------------------------------------------------------------------
 *
 * reserve.c
 *	  What the vacuums of the cluster share: parallel workers, and entries
 *	  for B-trees that are being vacuumed.
 *
 * Leaders of vacuums run this.  Main shared memory has an atomic counter of
 * each.  No locks.
 *
 * A leader reserves workers before it launches them, and releases them when
 * they have ended.  After an error the end of its transaction releases what is
 * left, also if the process exits, because that aborts the transaction first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#include "base/settings.h"
#include "engine/participant.h"

typedef struct ReservedShared
{
	pg_atomic_uint32 workers_in_use;
	pg_atomic_uint32 btrees_in_use;
} ReservedShared;

static ReservedShared *shared = NULL;

/*
 * The server has as many entries for B-trees that are being vacuumed as it can
 * have backends, because each of core's vacuums needs one at a time.  One of
 * our vacuums takes no more than this share of them, and all together no more
 * than that.
 */
#define BTREES_OF_ONE			Max(MaxBackends / 8, 1)
#define BTREES_OF_ALL			(MaxBackends / 2)

/* This process's part of each */
static int	workers_here = 0;
static int	btrees_here = 0;

Size
pv_reserve_shmem_size(void)
{
	return MAXALIGN(sizeof(ReservedShared));
}

/* Find the counters or initialize them, with AddinShmemInitLock. */
void
pv_reserve_shmem_startup(LWLock *its_lock)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum", sizeof(ReservedShared), &found);
	if (!found)
	{
		pg_atomic_init_u32(&shared->workers_in_use, 0);
		pg_atomic_init_u32(&shared->btrees_in_use, 0);
	}
}

/* Release the entries of this vacuum's B-trees, if it has any. */
void
pv_release_btrees(void)
{
	pg_atomic_fetch_sub_u32(&shared->btrees_in_use, btrees_here);
	btrees_here = 0;
}

/*
 * Release what an error has left.  The event does not matter, because no
 * vacuum of the transaction is open at any of them.
 */
static void
release_at_xact_end(XactEvent event, void *arg)
{
	pv_release_workers(workers_here);
}

/*
 * Add what is wanted to a counter, as far as the limit allows.  Return how
 * much was added.
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
 * Reserve an entry for one more B-tree of this vacuum.  Return false if there
 * is none.  pv_release_btrees() must follow, also after an error.
 */
bool
pv_reserve_btree(void)
{
	if (btrees_here >= BTREES_OF_ONE ||
		reserve(&shared->btrees_in_use, 1, BTREES_OF_ALL) == 0)
		return false;
	btrees_here++;
	return true;
}

/*
 * Reserve up to the wanted number of workers under parvacuum.max_workers.
 * Return the number granted, which may be 0.  If the limit was lowered
 * meanwhile, no worker has to end, but none is granted until enough of them
 * are released.
 */
int
pv_reserve_workers(int wanted)
{
	static bool callback_registered = false;
	int			granted;

	if (!callback_registered)
		RegisterXactCallback(release_at_xact_end, NULL);
	callback_registered = true;
	granted = reserve(&shared->workers_in_use, wanted, pv_guc_max_workers);
	workers_here += granted;
	return granted;
}

/*
 * Release workers reserved by this process.  What the end of the transaction
 * has released is not released twice.
 */
void
pv_release_workers(int n)
{
	n = Min(n, workers_here);
	if (n <= 0)
		return;
	workers_here -= n;
	pg_atomic_fetch_sub_u32(&shared->workers_in_use, n);
}
