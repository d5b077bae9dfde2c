/*-------------------------------------------------------------------------
 *
 * truncate.c
 *	  Truncating empty pages at the end of a table.
 *
 * Only the leader runs this, after its workers are gone and parallel mode has
 * ended: the exclusive lock would not keep out a worker, because the locks of
 * participants of one vacuum do not conflict, and truncation assigns a
 * transaction ID.
 *
 * Locks: AccessExclusiveLock on the table.  It is not waited for long, and
 * released when another session waits for the table.  Under it the pages are
 * read backwards from the end, because there may be new rows since the scan.
 *
 * Core: access/heap/vacuumlazy.c, lazy_truncate_heap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/storage.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "base/process.h"
#include "engine/vacuum.h"

/*
 * Minimum number of empty pages for a truncation, or the reciprocal of their
 * minimum fraction of the table
 */
#define TRUNCATE_MIN_PAGES		1000
#define TRUNCATE_MIN_FRACTION	16

/* Minimum number of pages if the caller leaves the decision to us */
#define TRUNCATE_FEW_PAGES		8

/* Milliseconds */
#define LOCK_TRY_EVERY			50
#define LOCK_GIVE_UP_AFTER		5000
#define WAITER_CHECK_EVERY		20

/* Blocks read ahead, and between two looks at the clock; a power of two */
#define PREFETCH_BLOCKS			((BlockNumber) 32)

/*
 * Are there enough empty pages for a truncation?  It costs a lock, which is
 * replayed on standbys, and a scan of the buffer pool.  With VACOPTVALUE_AUTO
 * a few pages are not worth that, because the next rows will fill them.  With
 * the failsafe on there may be no transaction ID left for it.
 */
static bool
is_worthwhile(const PvVacuum *vac)
{
	BlockNumber freeable = vac->rel_pages - vac->sum.nonempty_pages;

	if (vac->params->truncate == VACOPTVALUE_DISABLED ||
		pv_truncation_forbidden() || pv_failsafe_triggered(&vac->leader))
		return false;
	if (vac->params->truncate == VACOPTVALUE_AUTO &&
		freeable < TRUNCATE_FEW_PAGES)
		return false;
	return freeable > 0 &&
		(freeable >= TRUNCATE_MIN_PAGES ||
		 freeable >= vac->rel_pages / TRUNCATE_MIN_FRACTION);
}

/* Get the exclusive lock, if that is possible within a few seconds. */
static bool
lock_for_truncation(const PvVacuum *vac)
{
	int			waited = 0;

	while (!ConditionalLockRelation(vac->rel, AccessExclusiveLock))
	{
		CHECK_FOR_INTERRUPTS();
		if (waited >= LOCK_GIVE_UP_AFTER)
		{
			ereport(pv_message_level(vac),
					(errmsg("\"%s\": stopping truncate due to conflicting lock request",
							vac->leader.errinfo.relname)));
			return false;
		}
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOCK_TRY_EVERY, WAIT_EVENT_VACUUM_TRUNCATE);
		ResetLatch(MyLatch);
		waited += LOCK_TRY_EVERY;
	}
	return true;
}

/*
 * Does another session wait for the table?  If so, report it.  Ask the lock
 * manager only every WAITER_CHECK_EVERY milliseconds; *last_check is the time
 * of the last check.
 */
static bool
check_for_waiters(const PvVacuum *vac, int64 *last_check)
{
	if (pv_usecs_since(*last_check) < WAITER_CHECK_EVERY * 1000)
		return false;

	*last_check = pv_usecs_of_machine();
	if (!LockHasWaitersRelation(vac->rel, AccessExclusiveLock))
		return false;

	ereport(pv_message_level(vac),
			(errmsg("table \"%s\": suspending truncate due to conflicting lock request",
					vac->leader.errinfo.relname)));
	return true;
}

/*
 * Does the page have any line pointer in use?  A dead one counts, because
 * index entries may still point to it.
 */
static bool
page_is_in_use(PvVacuum *vac, BlockNumber blkno)
{
	Buffer		buf;
	Page		page;
	bool		in_use = false;

	buf = ReadBufferExtended(vac->rel, MAIN_FORKNUM, blkno, RBM_NORMAL,
							 pv_ring_next(&vac->leader.ring));
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buf);
	if (!PageIsNew(page) && !PageIsEmpty(page))
	{
		OffsetNumber maxoff = PageGetMaxOffsetNumber(page);

		for (OffsetNumber offnum = FirstOffsetNumber;
			 offnum <= maxoff && !in_use; offnum = OffsetNumberNext(offnum))
			in_use = ItemIdIsUsed(PageGetItemId(page, offnum));
	}
	UnlockReleaseBuffer(buf);
	return in_use;
}

/*
 * Return the number of pages that must stay, reading backwards from the end
 * under the exclusive lock.  Stop early and set *suspended if another session
 * waits for the lock.  There are no delay points, because the lock must be
 * held as briefly as possible.
 */
static BlockNumber
count_pages_to_keep(PvVacuum *vac, bool *suspended)
{
	BlockNumber keep = vac->rel_pages;
	BlockNumber prefetched = keep;
	int64		last_check = pv_usecs_of_machine();

	pv_wait_point("truncate", RelationGetRelid(vac->rel));
	while (keep > vac->sum.nonempty_pages)
	{
		CHECK_FOR_INTERRUPTS();
		if (keep % PREFETCH_BLOCKS == 0 &&
			check_for_waiters(vac, &last_check))
		{
			*suspended = true;
			return keep;
		}
		/* Read ahead in forward order, which the kernel handles better */
		if (keep <= prefetched)
		{
			prefetched = (keep - 1) / PREFETCH_BLOCKS * PREFETCH_BLOCKS;
			for (BlockNumber blkno = prefetched; blkno < keep; blkno++)
				(void) PrefetchBuffer(vac->rel, MAIN_FORKNUM, blkno);
		}
		if (page_is_in_use(vac, keep - 1))
			break;
		keep--;
	}
	return keep;
}

/*
 * Truncate empty pages at the end of the table, if that is wanted and
 * worthwhile.  An error leaves the table as it was.
 */
void
pv_truncate_heap(PvVacuum *vac)
{
	PvErrorInfo *errinfo = &vac->leader.errinfo;
	bool		suspended;
	BlockNumber keep;
	int64		start;

	vac->rel_pages = vac->plan.rel_pages;
	if (!is_worthwhile(vac))
		return;
	start = pv_usecs_of_machine();
	pv_progress_alone(vac, PV_PHASE_TRUNCATE);
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_TRUNCATE);
	errinfo->phase = PV_PHASE_TRUNCATE;

	do
	{
		suspended = false;
		errinfo->blkno = vac->sum.nonempty_pages;
		if (!lock_for_truncation(vac))
			break;

		/* If the table has grown, the old pages may have new rows, too */
		if (RelationGetNumberOfBlocks(vac->rel) != vac->rel_pages)
			keep = vac->rel_pages;
		else
			keep = count_pages_to_keep(vac, &suspended);
		errinfo->blkno = keep;

		if (keep >= vac->rel_pages)
		{
			UnlockRelation(vac->rel, AccessExclusiveLock);
			break;
		}
		RelationTruncate(vac->rel, keep);

		/* Other sessions see the new size when they get their lock */
		UnlockRelation(vac->rel, AccessExclusiveLock);
		ereport(pv_message_level(vac),
				(errmsg("table \"%s\": truncated %u to %u pages",
						errinfo->relname, vac->rel_pages, keep)));
		vac->rel_pages = keep;
	} while (suspended && keep > vac->sum.nonempty_pages);

	errinfo->phase = PV_PHASE_IDLE;
	errinfo->blkno = InvalidBlockNumber;
	vac->result->pages_removed = vac->plan.rel_pages - vac->rel_pages;
	vac->result->usecs[PV_PHASE_TRUNCATE] = pv_usecs_since(start);
}
