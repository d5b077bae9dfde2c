/*-------------------------------------------------------------------------
 *
 * heap_vacuum.c
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

#include "engine/heap_vacuum.h"
#include "engine/page.h"

/* Most pages read ahead of the one being worked on */
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
	PvReader   *reader;
} HeapReap;

/*
 * Get the next block with dead items in the claimed segments.  This waits for
 * nothing, and reads nothing but the store.
 */
static BlockNumber
next_block(void *arg, void *about_block)
{
	HeapReap   *reap = arg;
	ReapBlock  *block = about_block;
	PvDeadTids *store = reap->self->store;

	for (;;)
	{
		if (reap->in_segment &&
			pv_deadtids_segment_next(&reap->iter, &block->blkno,
									 block->deadoffsets, &block->ndead))
			return block->blkno;
		if (reap->segno >= reap->end)
		{
			reap->in_segment = false;
			return InvalidBlockNumber;
		}
		reap->in_segment = pv_deadtids_segment_begin(store, reap->segno++,
													 &reap->iter);
	}
}

/*
 * Free the dead items of one page, pinned on entry, not on return.
 */
static void
reap_block(HeapReap *reap, ReapBlock *block, Buffer buf)
{
	PvParticipant *self = reap->self;
	BlockNumber blkno = block->blkno;
	PvVisibility vis;
	Size		freespace;

	self->errinfo.blkno = blkno;
	visibilitymap_pin(self->rel, blkno, &reap->vmbuffer);
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
	Buffer		buf;
	void	   *about;

	while (pv_reader_next(reap->reader, &buf, &about))
	{
		reap_block(reap, about, buf);
		pv_cost_delay();
		pv_page_pace_wal(reap->self);
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
	reap->reader = pv_reader_create(self->rel, &self->ring, MAX_LOOKAHEAD,
									sizeof(ReapBlock), true, next_block, reap);

	while (pv_dispense_claim(&self->shared->reap, &reap->segno, &reap->end))
	{
		int64		before = self->counters.reaped_pages;

		pv_reader_restart(reap->reader);
		reap_range(reap);
		pg_atomic_fetch_add_u64(&self->shared->blocks_reaped,
								self->counters.reaped_pages - before);
		if (self->tick)
			self->tick(self);
	}

	if (BufferIsValid(reap->vmbuffer))
		ReleaseBuffer(reap->vmbuffer);
	pv_reader_free(reap->reader);
	pfree(reap);
	self->errinfo.blkno = InvalidBlockNumber;
}
