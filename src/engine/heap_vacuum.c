/*-------------------------------------------------------------------------
 *
 * heap_vacuum.c
 *	  The second heap pass: dead line pointers become unused.
 *
 * Leader and workers run this, each on its own ranges of the store's segments.
 * It begins when every index has been vacuumed of every item in the store.
 * Nothing is added to the store meanwhile, so it is read without locks.
 *
 * Locks: one heap page at a time, exclusively, then the page of the visibility
 * map, which was pinned before.
 *
 * Core: access/heap/vacuumlazy.c, lazy_vacuum_heap_rel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/freespace.h"
#include "utils/rel.h"

#include "base/process.h"
#include "engine/prune.h"

/* Largest distance of reading ahead, in pages */
#define MAX_LOOKAHEAD	32

/* Blocks between two updates of the progress counter */
#define PROGRESS_EVERY_BLOCKS	32

/* A page to visit, and its dead items */
typedef struct VacuumBlock
{
	BlockNumber blkno;
	int			ndead;
	OffsetNumber deadoffsets[MaxHeapTuplesPerPage];
} VacuumBlock;

/* One participant's progress through the store */
typedef struct HeapVacuum
{
	PvParticipant *self;
	Buffer		vmbuffer;
	int			unreported;		/* blocks vacuumed since the last update of
								 * the progress counter */

	/* Claimed segments, and the segment that is being read */
	uint32		segno;
	uint32		end;
	bool		in_segment;
	PvDeadTidsIter iter;
	PvReader   *reader;
} HeapVacuum;

/*
 * Callback of the reader: return the next block with dead items in the claimed
 * segments.  It neither waits nor reads anything but the store.
 */
static BlockNumber
next_block(void *arg, void *about_block)
{
	HeapVacuum *vac = arg;
	VacuumBlock *block = about_block;
	PvDeadTids *store = vac->self->store;

	for (;;)
	{
		if (vac->in_segment &&
			pv_deadtids_segment_next(&vac->iter, &block->blkno,
									 block->deadoffsets, &block->ndead))
			return block->blkno;
		if (vac->segno >= vac->end)
		{
			vac->in_segment = false;
			return InvalidBlockNumber;
		}
		vac->in_segment = pv_deadtids_segment_begin(store, vac->segno++,
													&vac->iter);
	}
}

/*
 * Set the dead items of one page unused.  The page is pinned on entry, and
 * released here.
 */
static void
vacuum_block(HeapVacuum *vac, VacuumBlock *block, Buffer buf)
{
	PvParticipant *self = vac->self;
	BlockNumber blkno = block->blkno;
	Size		freespace;

	self->errinfo.blkno = blkno;
	visibilitymap_pin(self->rel, blkno, &vac->vmbuffer);
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	pv_page_vacuum(self, buf, blkno, vac->vmbuffer, block->deadoffsets,
				   block->ndead);
	freespace = PageGetHeapFreeSpace(BufferGetPage(buf));
	UnlockReleaseBuffer(buf);
	RecordPageWithFreeSpace(self->rel, blkno, freespace);

	self->counters.vacuumed_pages++;
	self->counters.vacuumed_items += block->ndead;
}

/* Add the blocks vacuumed since the last time to the progress. */
static void
count_vacuumed(HeapVacuum *vac)
{
	PvParticipant *self = vac->self;

	pg_atomic_fetch_add_u64(&self->shared->blocks_vacuumed, vac->unreported);
	self->part.heap_blks_vacuumed += vac->unreported;
	vac->unreported = 0;
	pv_tick(self);
}

/*
 * Take part in the second heap pass, until no segment is left or the vacuum
 * ends early.  Show the progress as the heap scan does.
 */
void
pv_vacuum_heap(PvParticipant *self)
{
	HeapVacuum *vac = palloc0(sizeof(HeapVacuum));
	Buffer		buf;
	void	   *about;

	vac->self = self;
	vac->vmbuffer = InvalidBuffer;
	vac->reader = pv_reader_create(self->rel, &self->ring, MAX_LOOKAHEAD,
								   sizeof(VacuumBlock), true, next_block, vac);

	while (!pv_ends_early(self) &&
		   pv_dispense_claim(&self->shared->vacuum_heap, &vac->segno,
							 &vac->end))
	{
		/* Before the first page: what has begun nobody may take over */
		pv_kept_begin_segments(&self->shared->kept, vac->end);
		if (unlikely(pv_guc_wait_at[0] != '\0'))
			pv_wait_at(psprintf("segment %u", vac->segno),
					   RelationGetRelid(self->rel));
		self->part.range_start = vac->segno * PV_SEGMENT_BLOCKS;
		self->part.range_end = vac->end * PV_SEGMENT_BLOCKS;
		pv_reader_restart(vac->reader);
		while (pv_reader_next(vac->reader, &buf, &about))
		{
			bool		slept;

			vacuum_block(vac, about, buf);
			slept = pv_cost_delay() > 0;
			pv_page_pace_wal(self);
			if (++vac->unreported >= PROGRESS_EVERY_BLOCKS || slept)
				count_vacuumed(vac);
		}
		count_vacuumed(vac);
	}

	if (BufferIsValid(vac->vmbuffer))
		ReleaseBuffer(vac->vmbuffer);
	pv_reader_free(vac->reader);
	pfree(vac);
	self->errinfo.blkno = InvalidBlockNumber;
}
