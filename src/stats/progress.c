/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  What the processes that vacuum are doing, for others to see.
 *
 * The view parvacuum_progress (sql/progress.c) reads this.  Each process that
 * may take part in a vacuum has a slot in main shared memory: the slot that
 * has the number of the process in the server's array of processes.  So no
 * slot has to be searched for, and there are enough of them.  With
 * parvacuum.track_progress off nothing is allocated, and nothing is written.
 *
 *		leader						worker				session
 *		------						------				-------
 *		pv_track_vacuum,
 *		pv_track_part ...			pv_track_part ...	pv_track_read
 *		pv_track_end				pv_track_end
 *
 * Only its process writes a slot, every few pages.  A spinlock of the slot
 * covers that, and is held for a copy of a few hundred bytes.  So all of this
 * may be done while a page is locked, and cannot fail.  Sessions seldom read.
 * A process that ends without pv_track_end() leaves its slot in an exit
 * callback.  Should even that not happen, then the server restarts, or the PID
 * in the slot is not that of the process that has the number now.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "base/settings.h"
#include "stats/progress.h"

typedef struct Slot
{
	slock_t		mutex;			/* covers the rest */
	PvTracked	tracked;		/* pid 0: free */
} Slot;

typedef struct ProgressShared
{
	int			nslots;			/* never changes */
	Slot		slots[FLEXIBLE_ARRAY_MEMBER];
} ProgressShared;

static ProgressShared *shared = NULL;

/* This process's slot, while it is not free */
static Slot *mine = NULL;

Size
pv_track_shmem_size(void)
{
	if (!pv_guc_track_progress)
		return 0;
	return add_size(offsetof(ProgressShared, slots),
					mul_size(MaxBackends, sizeof(Slot)));
}

/* Finds it or sets it up.  The caller holds AddinShmemInitLock. */
void
pv_track_shmem_startup(void)
{
	bool		found;

	if (!pv_guc_track_progress)
		return;
	shared = ShmemInitStruct("parvacuum progress", pv_track_shmem_size(),
							 &found);
	if (found)
		return;
	shared->nslots = MaxBackends;
	for (int i = 0; i < shared->nslots; i++)
	{
		memset(&shared->slots[i], 0, sizeof(Slot));
		SpinLockInit(&shared->slots[i].mutex);
	}
}


/* ----------------------------------------------------------------
 *		The process that vacuums
 * ----------------------------------------------------------------
 */

/* Can other processes see what this one does? */
static bool
has_slot(void)
{
	return shared != NULL && MyProc != NULL &&
		MyProc - ProcGlobal->allProcs < shared->nslots;
}

static void
end_at_exit(int code, Datum arg)
{
	pv_track_end();
}

/* Take this process's slot, if there is one for it. */
static Slot *
take_slot(void)
{
	static bool watched = false;

	if (mine != NULL)
		return mine;
	if (!has_slot())
		return NULL;
	if (!watched)
		before_shmem_exit(end_at_exit, 0);
	watched = true;

	mine = &shared->slots[MyProc - ProcGlobal->allProcs];
	SpinLockAcquire(&mine->mutex);
	memset(&mine->tracked, 0, sizeof(PvTracked));
	mine->tracked.pid = MyProcPid;
	SpinLockRelease(&mine->mutex);
	return mine;
}

/* This process leads a vacuum, and that is its state. */
void
pv_track_vacuum(const PvTrackedVacuum *vacuum)
{
	Slot	   *slot = take_slot();

	if (slot == NULL)
		return;
	SpinLockAcquire(&slot->mutex);
	slot->tracked.leads = true;
	slot->tracked.vacuum = *vacuum;
	SpinLockRelease(&slot->mutex);
}

/* This process takes part in a vacuum, and that is what it is doing. */
void
pv_track_part(const PvTrackedPart *part)
{
	Slot	   *slot = take_slot();

	if (slot == NULL)
		return;
	SpinLockAcquire(&slot->mutex);
	slot->tracked.takes_part = true;
	slot->tracked.part = *part;
	SpinLockRelease(&slot->mutex);
}

/* This process is done with its vacuum, or was doing none. */
void
pv_track_end(void)
{
	if (mine == NULL)
		return;
	SpinLockAcquire(&mine->mutex);
	memset(&mine->tracked, 0, sizeof(PvTracked));
	SpinLockRelease(&mine->mutex);
	mine = NULL;
}


/* ----------------------------------------------------------------
 *		Others
 * ----------------------------------------------------------------
 */

/*
 * The processes that vacuum, in a new array; returns their number.  Rows of
 * different processes may be some milliseconds apart.
 */
int
pv_track_read(PvTracked **tracked)
{
	int			n = 0;

	*tracked = NULL;
	if (shared == NULL)
		return 0;
	*tracked = palloc(mul_size(shared->nslots, sizeof(PvTracked)));
	for (int i = 0; i < shared->nslots; i++)
	{
		Slot	   *slot = &shared->slots[i];
		PvTracked  *seen = &(*tracked)[n];

		SpinLockAcquire(&slot->mutex);
		*seen = slot->tracked;
		SpinLockRelease(&slot->mutex);
		if (seen->pid != 0 && seen->pid == ProcGlobal->allProcs[i].pid)
			n++;
	}
	return n;
}
