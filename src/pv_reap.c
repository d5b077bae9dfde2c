/*-------------------------------------------------------------------------
 *
 * pv_reap.c
 *	  The second heap pass: dead line pointers become unused.
 *
 * Leader and workers run this, each on ranges of the store's segments.  It
 * begins only when every index has been rid of every item of the round, and
 * nothing is added to the store meanwhile, so it is read without locks.
 *
 * Locks: one heap page at a time, exclusively; the page of the visibility map
 * under it, whose pin was taken before.
 * Core: access/heap/vacuumlazy.c, lazy_vacuum_heap_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/freespace.h"
#include "utils/rel.h"

#include "pv_page.h"
#include "pv_reap.h"

/* Most pages decided for ahead of the one being worked on */
#define MAX_LOOKAHEAD	32

/* A page to visit, and what to free on it */
typedef struct ReapBlock
{
	BlockNumber blkno;
	int			ndead;
	OffsetNumber deadoffsets[MaxHeapTuplesPerPage];
} ReapBlock;

/* One participant's way through the store */
typedef struct HeapReap
{
	PvParticipant *self;
	Buffer		vmbuffer;

	/* Claimed segments, and the one being read */
	uint32		segno;
	uint32		end;
	bool		in_segment;
	PvDeadTidsIter iter;

	/* Window of blocks read from the store and asked for, oldest first */
	PvLookahead ahead;
	int			head;
	int			nqueued;
	ReapBlock	queue[MAX_LOOKAHEAD];
} HeapReap;

/*
 * Get the next block with dead items in the claimed segments.
 */
static bool
next_block(HeapReap *reap, ReapBlock *block)
{
	PvDeadTids *store = reap->self->store;

	for (;;)
	{
		if (reap->in_segment &&
			pv_deadtids_segment_next(&reap->iter, &block->blkno,
									 block->deadoffsets, &block->ndead))
			return true;
		if (reap->segno >= reap->end)
		{
			reap->in_segment = false;
			return false;
		}
		reap->in_segment = pv_deadtids_segment_begin(store, reap->segno++,
													 &reap->iter);
	}
}

/*
 * Keep the window full, as far as the claimed segments go.
 */
static void
fill_window(HeapReap *reap)
{
	while (reap->nqueued < reap->ahead.distance)
	{
		ReapBlock  *block = &reap->queue[(reap->head + reap->nqueued) % MAX_LOOKAHEAD];

		if (!next_block(reap, block))
			return;
		reap->nqueued++;
		pv_lookahead_block(&reap->ahead, reap->self->rel, block->blkno);
	}
}

/*
 * Free the dead items of one page.
 */
static void
reap_block(HeapReap *reap, ReapBlock *block)
{
	PvParticipant *self = reap->self;
	BlockNumber blkno = block->blkno;
	PvVisibility vis;
	Buffer		buf;
	Size		freespace;

	self->errinfo.blkno = blkno;
	visibilitymap_pin(self->rel, blkno, &reap->vmbuffer);
	buf = ReadBufferExtended(self->rel, MAIN_FORKNUM, blkno, RBM_NORMAL,
							 pv_ring_next(&self->ring));
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	pv_page_mark_unused(self, buf, blkno, block->deadoffsets, block->ndead);
	pv_page_visibility(self, buf, blkno, &vis);
	pv_page_update_map(self, buf, blkno, reap->vmbuffer, &vis, false);
	freespace = PageGetHeapFreeSpace(BufferGetPage(buf));
	UnlockReleaseBuffer(buf);
	RecordPageWithFreeSpace(self->rel, blkno, freespace);

	self->counters.reaped_pages++;
	self->counters.reaped_items += block->ndead;
}

/*
 * Work through the claimed segments.
 */
static void
reap_range(HeapReap *reap)
{
	for (fill_window(reap); reap->nqueued > 0; fill_window(reap))
	{
		pv_cost_poll();
		pv_delay_point();
		pv_page_pace_wal(reap->self);
		reap_block(reap, &reap->queue[reap->head]);
		reap->head = (reap->head + 1) % MAX_LOOKAHEAD;
		reap->nqueued--;
	}
}

/*
 * Take part in the second heap pass, until no segment is left.
 */
void
pv_reap_heap(PvParticipant *self)
{
	HeapReap   *reap = palloc0(sizeof(HeapReap));

	reap->self = self;
	reap->vmbuffer = InvalidBuffer;
	pv_lookahead_init(&reap->ahead, self->rel, MAX_LOOKAHEAD);

	while (pv_dispense_claim(&self->shared->reap, &reap->segno, &reap->end))
	{
		int64		before = self->counters.reaped_pages;

		reap_range(reap);
		pg_atomic_fetch_add_u64(&self->shared->blocks_reaped,
								self->counters.reaped_pages - before);
		if (self->tick)
			self->tick(self);
	}

	if (BufferIsValid(reap->vmbuffer))
		ReleaseBuffer(reap->vmbuffer);
	pfree(reap);
	self->errinfo.blkno = InvalidBlockNumber;
}
