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
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "base/compat.h"
#include "base/wait.h"
#include "engine/truncate.h"

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
 * a few pages are not worth that, because the next rows will fill them.
 */
bool
pv_truncation_worthwhile(const PvTruncation *trunc, VacOptValue wanted)
{
	BlockNumber freeable = trunc->rel_pages - trunc->nonempty_pages;

	if (wanted == VACOPTVALUE_DISABLED || pv_truncation_forbidden())
		return false;
	if (wanted == VACOPTVALUE_AUTO && freeable < TRUNCATE_FEW_PAGES)
		return false;
	return freeable > 0 &&
		(freeable >= TRUNCATE_MIN_PAGES ||
		 freeable >= trunc->rel_pages / TRUNCATE_MIN_FRACTION);
}

/* Get the exclusive lock, if that is possible within a few seconds. */
static bool
lock_for_truncation(const PvTruncation *trunc)
{
	int			waited = 0;

	while (!ConditionalLockRelation(trunc->rel, AccessExclusiveLock))
	{
		CHECK_FOR_INTERRUPTS();
		if (waited >= LOCK_GIVE_UP_AFTER)
		{
			ereport(trunc->elevel,
					(errmsg("\"%s\": stopping truncate due to conflicting lock request",
							trunc->errinfo->relname)));
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
check_for_waiters(const PvTruncation *trunc, instr_time *last_check)
{
	instr_time	now,
				elapsed;

	INSTR_TIME_SET_CURRENT(now);
	elapsed = now;
	INSTR_TIME_SUBTRACT(elapsed, *last_check);
	if (INSTR_TIME_GET_MILLISEC(elapsed) < WAITER_CHECK_EVERY)
		return false;

	*last_check = now;
	if (!LockHasWaitersRelation(trunc->rel, AccessExclusiveLock))
		return false;

	ereport(trunc->elevel,
			(errmsg("table \"%s\": suspending truncate due to conflicting lock request",
					trunc->errinfo->relname)));
	return true;
}

/*
 * Read ahead so that blkno and the blocks before it are read in forward order,
 * which the kernel handles better than the reverse.
 */
static void
prefetch_down_to(const PvTruncation *trunc, BlockNumber blkno,
				 BlockNumber *prefetched)
{
	BlockNumber first = blkno - blkno % PREFETCH_BLOCKS;

	if (*prefetched <= blkno)
		return;
	for (BlockNumber b = first; b <= blkno; b++)
		(void) PrefetchBuffer(trunc->rel, MAIN_FORKNUM, b);
	*prefetched = first;
}

/*
 * Does the page have any line pointer in use?  A dead one counts, because
 * index entries may still point to it.
 */
static bool
page_is_in_use(const PvTruncation *trunc, BlockNumber blkno)
{
	Buffer		buf;
	Page		page;
	bool		in_use = false;

	buf = ReadBufferExtended(trunc->rel, MAIN_FORKNUM, blkno, RBM_NORMAL,
							 trunc->bstrategy);
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
count_pages_to_keep(PvTruncation *trunc, bool *suspended)
{
	BlockNumber keep = trunc->rel_pages;
	BlockNumber prefetched = InvalidBlockNumber;
	instr_time	last_check;

	INSTR_TIME_SET_CURRENT(last_check);
	pv_wait_point("truncate", RelationGetRelid(trunc->rel));
	while (keep > trunc->nonempty_pages)
	{
		CHECK_FOR_INTERRUPTS();
		if (keep % PREFETCH_BLOCKS == 0 &&
			check_for_waiters(trunc, &last_check))
		{
			*suspended = true;
			return keep;
		}
		prefetch_down_to(trunc, keep - 1, &prefetched);
		if (page_is_in_use(trunc, keep - 1))
			break;
		keep--;
	}
	return keep;
}

/*
 * Try to truncate empty pages at the end of the table.  On return rel_pages is
 * the table's new size.  An error leaves the table as it was.
 */
void
pv_truncate_heap(PvTruncation *trunc)
{
	bool		suspended;
	BlockNumber keep;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_TRUNCATE);
	trunc->errinfo->phase = PV_PHASE_TRUNCATE;

	do
	{
		suspended = false;
		trunc->errinfo->blkno = trunc->nonempty_pages;
		if (!lock_for_truncation(trunc))
			break;

		/* If the table has grown, the old pages may have new rows, too */
		if (RelationGetNumberOfBlocks(trunc->rel) != trunc->rel_pages)
			keep = trunc->rel_pages;
		else
			keep = count_pages_to_keep(trunc, &suspended);
		trunc->errinfo->blkno = keep;

		if (keep >= trunc->rel_pages)
		{
			UnlockRelation(trunc->rel, AccessExclusiveLock);
			break;
		}
		RelationTruncate(trunc->rel, keep);

		/* Other sessions see the new size when they get their lock */
		UnlockRelation(trunc->rel, AccessExclusiveLock);
		ereport(trunc->elevel,
				(errmsg("table \"%s\": truncated %u to %u pages",
						trunc->errinfo->relname, trunc->rel_pages, keep)));
		trunc->rel_pages = keep;
	} while (suspended && keep > trunc->nonempty_pages);

	trunc->errinfo->phase = PV_PHASE_IDLE;
	trunc->errinfo->blkno = InvalidBlockNumber;
}
