/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reads blocks ahead of the one that is worked on.
 *
 * All participants run this, each with its own readers.  The caller's callback
 * returns the block numbers one by one, and the caller gets these blocks
 * pinned, in the same order.
 *
 *	 next_block()          pv_reader_next()
 *	  --> | window, being read | --> worked on
 *
 * From PostgreSQL 17 on, the reader is core's read stream, which reads
 * neighbouring blocks with one call, pins blocks ahead, and from 18 on reads
 * asynchronously.  Before 17 it is a window of block numbers, which the kernel
 * is asked to read.
 *
 * Blocks must belong to this process alone until they have been worked on.
 * Another process that wants a cleanup lock would wait forever for a pin that
 * was taken ahead.
 *
 * When the ring is dropped, any buffer may be used from then on.  But a read
 * stream keeps the strategy that it began with.  So it is brought to its end
 * first: it gets no more blocks, and those that it has are worked on.  Then
 * another stream continues without a ring.
 *
 * No locks.
 *
 * Core: storage/aio/read_stream.c; storage/buffer/bufmgr.c, PrefetchBuffer.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "engine/dispense.h"

/* A run of this many consecutive blocks is left to the kernel's readahead */
#define SEQUENTIAL_RUN			128

/* Reading ahead stops after this many blocks found in shared buffers */
#define CACHED_RUN				64

struct PvReader
{
	Relation	rel;
	PvRing	   *ring;
	PvNextBlock next_block;
	void	   *arg;
	Size		about_size;
	bool		batches;

#if PV_HAS_READ_STREAMS
	ReadStream *stream;
	bool		in_ring;		/* the stream reads into a ring */
#else
	/* Window of blocks to be returned, oldest first */
	PvLookahead ahead;
	bool		ended;			/* next_block() returned no block */
	int			head;
	int			nqueued;
	BlockNumber *blocks;
	char	   *about;			/* what next_block() stored for them */
#endif
};

/*
 * Set the distance of reading ahead: what the tablespace's settings recommend,
 * but at most max_distance.
 */
void
pv_lookahead_init(PvLookahead *ahead, Relation rel, int max_distance)
{
	int			io_concurrency =
		get_tablespace_maintenance_io_concurrency(rel->rd_rel->reltablespace);

	ahead->distance = Min(Max(io_concurrency, 1), max_distance);
	ahead->active = io_concurrency > 0;
	ahead->cached_run = 0;
	ahead->misses = pgBufferUsage.shared_blks_read;
	ahead->next = InvalidBlockNumber;
	ahead->run = 0;
}

/*
 * Have a block that will be visited soon read in the background, if that seems
 * worthwhile.
 *
 * If the table is in shared buffers, every call is a useless lookup.  So
 * reading ahead stops after a run of such lookups, and begins again after a
 * block had to be read.
 */
void
pv_lookahead_block(PvLookahead *ahead, Relation rel, BlockNumber blkno)
{
	if (ahead->distance <= 1)
		return;

	/* In a long run the kernel reads ahead by itself, and in larger pieces */
	ahead->run = blkno == ahead->next ? ahead->run + 1 : 0;
	ahead->next = blkno + 1;
	if (ahead->run >= SEQUENTIAL_RUN)
		return;

	if (!ahead->active)
	{
		if (pgBufferUsage.shared_blks_read == ahead->misses)
			return;
		ahead->active = true;
		ahead->cached_run = 0;
	}

	if (BufferIsValid(PrefetchBuffer(rel, MAIN_FORKNUM, blkno).recent_buffer))
		ahead->cached_run++;
	else
		ahead->cached_run = 0;
	if (ahead->cached_run >= CACHED_RUN)
	{
		ahead->active = false;
		ahead->misses = pgBufferUsage.shared_blks_read;
	}
}

#if PV_HAS_READ_STREAMS

/* Does the stream read into a ring that was dropped meanwhile? */
static inline bool
stream_must_end(const PvReader *reader)
{
	return reader->in_ring && reader->ring->nparts == 0;
}

static BlockNumber
next_of_stream(ReadStream * stream, void *private_data, void *per_buffer_data)
{
	PvReader   *reader = private_data;

	if (unlikely(stream_must_end(reader)))
		return InvalidBlockNumber;
	return reader->next_block(reader->arg, per_buffer_data);
}

static void
begin(PvReader *reader, int max_distance)
{
	BufferAccessStrategy strategy = pv_ring_next(reader->ring);

	reader->in_ring = strategy != NULL;
	reader->stream =
		read_stream_begin_relation(READ_STREAM_MAINTENANCE |
								   (reader->batches ?
									PV_READ_STREAM_BATCHES : 0),
								   strategy, reader->rel, MAIN_FORKNUM,
								   next_of_stream, reader, reader->about_size);
}

/*
 * Continue with another stream, which gets the blocks after those that
 * next_block() has already returned.
 */
static void
replace_stream(PvReader *reader)
{
	MemoryContext oldcontext =
		MemoryContextSwitchTo(GetMemoryChunkContext(reader));

	read_stream_end(reader->stream);
	begin(reader, 0);
	MemoryContextSwitchTo(oldcontext);
}

bool
pv_reader_next(PvReader *reader, Buffer *buf, void **about_block)
{
	*buf = read_stream_next_buffer(reader->stream, about_block);
	if (unlikely(!BufferIsValid(*buf) && stream_must_end(reader)))
	{
		replace_stream(reader);
		*buf = read_stream_next_buffer(reader->stream, about_block);
	}
	return BufferIsValid(*buf);
}

void
pv_reader_restart(PvReader *reader)
{
	if (stream_must_end(reader))
		replace_stream(reader);
	else
		read_stream_reset(reader->stream);
}

void
pv_reader_free(PvReader *reader)
{
	read_stream_end(reader->stream);
	pfree(reader);
}

#else							/* a window */

static void
begin(PvReader *reader, int max_distance)
{
	pv_lookahead_init(&reader->ahead, reader->rel, max_distance);
	reader->blocks = palloc(reader->ahead.distance * sizeof(BlockNumber));
	reader->about = palloc(reader->ahead.distance * reader->about_size);
}

static char *
about_of(const PvReader *reader, int place)
{
	return reader->about + place * reader->about_size;
}

/* Keep the window full. */
static void
fill_window(PvReader *reader)
{
	while (!reader->ended && reader->nqueued < reader->ahead.distance)
	{
		int			place = (reader->head + reader->nqueued) %
			reader->ahead.distance;
		BlockNumber blkno =
			reader->next_block(reader->arg, about_of(reader, place));

		if (blkno == InvalidBlockNumber)
			reader->ended = true;
		else
		{
			reader->blocks[place] = blkno;
			reader->nqueued++;
			pv_lookahead_block(&reader->ahead, reader->rel, blkno);
		}
	}
}

/*
 * Get the next block, pinned, and what next_block() stored for it, which is
 * valid until the next call.  Returns false if there is none.
 */
bool
pv_reader_next(PvReader *reader, Buffer *buf, void **about_block)
{
	int			place;

	fill_window(reader);
	if (reader->nqueued == 0)
		return false;
	place = reader->head;
	reader->head = (reader->head + 1) % reader->ahead.distance;
	reader->nqueued--;

	*about_block = about_of(reader, place);
	*buf = ReadBufferExtended(reader->rel, MAIN_FORKNUM, reader->blocks[place],
							  RBM_NORMAL, pv_ring_next(reader->ring));
	return true;
}

/*
 * Discard the window and call next_block() again, also if it returned no block
 * before.
 */
void
pv_reader_restart(PvReader *reader)
{
	reader->ended = false;
	reader->nqueued = 0;
}

/* Free the reader, and release what was pinned ahead. */
void
pv_reader_free(PvReader *reader)
{
	pfree(reader->blocks);
	pfree(reader->about);
	pfree(reader);
}

#endif

/*
 * Create a reader of a relation's main fork, in the current memory context.
 *
 * It uses this participant's ring.  about_size is the number of bytes that
 * next_block() stores for each block.  max_distance is used where there are no
 * read streams.  batches says that next_block() neither waits nor reads
 * anything, so that reads of several blocks can be submitted together.
 */
PvReader *
pv_reader_create(Relation rel, PvRing *ring, int max_distance, Size about_size,
				 bool batches, PvNextBlock next_block, void *arg)
{
	PvReader   *reader = palloc0(sizeof(PvReader));

	reader->rel = rel;
	reader->ring = ring;
	reader->next_block = next_block;
	reader->arg = arg;
	reader->about_size = MAXALIGN(about_size);
	reader->batches = batches;
	begin(reader, max_distance);
	return reader;
}
