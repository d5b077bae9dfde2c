/*-------------------------------------------------------------------------
 *
 * pv_shmem.c
 *	  The root of parvacuum's shared memory.
 *
 * One small struct in the main segment, requested and set up by the usual two
 * hooks, and only when the library is preloaded: a server without it has no
 * root, and pv_shmem_attached() says so.  The postmaster runs the hooks;
 * leaders of vacuums reserve workers; the launcher publishes the rate that the
 * scheduler's runners share.
 *
 *		workers_in_use		how many workers all leaders have reserved; atomic
 *		account, rate		of the scheduler's runners (pv_account.c); atomics
 *
 * The scheduler's queue (pv_queue.c) and the runs (pv_runs.c) lie beside it.
 *
 * A leader reserves before it launches and releases when its workers are gone.
 * If it leaves by an error instead, the end of its transaction releases what is
 * left, also when the process exits, which aborts the transaction first.  A
 * vacuum of one relation is one transaction, so no reservation outlives it.  A
 * sweep is a part of one, so the end of a subtransaction releases as well: what
 * catches the error may go on for long.
 * After a crash the postmaster sets the whole segment up anew.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "pv_guc.h"
#include "pv_queue.h"
#include "pv_runs.h"
#include "pv_shmem.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

typedef struct PvRootShared
{
	/* atomic */
	pg_atomic_uint32 workers_in_use;
	pg_atomic_uint32 btrees_in_use;
	PvAccount	account;
	pg_atomic_uint64 rate;
} PvRootShared;

static PvRootShared *root = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

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

/* Asks for the space.  Postmaster, while it loads libraries. */
static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(add_size(MAXALIGN(sizeof(PvRootShared)),
									add_size(pv_queue_shmem_size(),
											 pv_runs_shmem_size())));
	pv_queue_request_lock();
	pv_runs_request_lock();
}

/*
 * Finds the root or sets it up.  AddinShmemInitLock covers the moment between
 * the two, as for every module.
 */
static void
startup_shmem(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	root = ShmemInitStruct("parvacuum", sizeof(PvRootShared), &found);
	if (!found)
	{
		pg_atomic_init_u32(&root->workers_in_use, 0);
		pg_atomic_init_u32(&root->btrees_in_use, 0);
		pv_account_init(&root->account);
		pg_atomic_init_u64(&root->rate, 0);
	}
	pv_queue_shmem_startup();
	pv_runs_shmem_startup();
	LWLockRelease(AddinShmemInitLock);
}

/* Installs the hooks.  Only while shared_preload_libraries are loaded. */
void
pv_shmem_init(void)
{
	Assert(process_shared_preload_libraries_in_progress);

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

/* Is there a root, that is, was the library preloaded? */
bool
pv_shmem_attached(void)
{
	return root != NULL;
}

/* Gives the places of this vacuum's B-trees back, if it has any. */
void
pv_shmem_release_btrees(void)
{
	if (btrees_here > 0)
		pg_atomic_fetch_sub_u32(&root->btrees_in_use, btrees_here);
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
			pv_shmem_release_workers(reserved_here);
			pv_shmem_release_btrees();
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
		pv_shmem_release_workers(reserved_here);
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
 * back by pv_shmem_release_btrees(), or when the vacuum's transaction ends.
 */
bool
pv_shmem_reserve_btree(void)
{
	Assert(IsTransactionState());

	if (root == NULL || btrees_here >= BTREES_OF_ONE)
		return false;
	watch_transaction();
	if (reserve(&root->btrees_in_use, 1, BTREES_OF_ALL) == 0)
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
pv_shmem_reserve_workers(int wanted)
{
	int			granted;

	Assert(IsTransactionState());

	if (root == NULL || wanted <= 0)
		return 0;
	watch_transaction();
	granted = reserve(&root->workers_in_use, wanted, pv_guc_max_workers);
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
pv_shmem_release_workers(int n)
{
	n = Min(n, reserved_here);
	if (n <= 0)
		return;

	reserved_here -= n;
	pg_atomic_fetch_sub_u32(&root->workers_in_use, n);
}

/* How many workers the cluster's vacuums hold right now. */
int
pv_shmem_workers_in_use(void)
{
	return root ? (int) pg_atomic_read_u32(&root->workers_in_use) : 0;
}

void
pv_shmem_publish_rate(int64 units_per_sec)
{
	pg_atomic_write_u64(&root->rate, units_per_sec);
}

int64
pv_shmem_rate(void)
{
	return pg_atomic_read_u64(&root->rate);
}

PvAccount *
pv_shmem_account(void)
{
	return &root->account;
}
