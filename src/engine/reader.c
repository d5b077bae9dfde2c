/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reads blocks ahead of the one that is worked on.
 *
 * All participants run this, each with readers of its own.  The caller says which
 * blocks come, one by one, through a function, and gets them pinned, in that order.
 *
 *	 next_block()          pv_reader_next()
 *	  --> | window, being read | --> worked on
 *
 * From PostgreSQL 17 on this is core's read stream, which reads neighbours with one
 * call, pins them ahead, and from 18 on reads asynchronously.  Before, there is a
 * window of block numbers, and the kernel is asked to read those.
 *
 * Blocks must belong to this process alone until they have been worked on: a pin
 * that was taken ahead would be waited for for ever by who wants a cleanup lock.
 *
 * When the ring is dropped, any buffer will do from then on.  A read stream keeps the
 * strategy that it began with, so it is brought to its end first: it gets no more blocks,
 * and those that it has are worked on.  Then another one goes on without a ring.
 *
 * No locks.
 * Core: storage/aio/read_stream.c; storage/buffer/bufmgr.c, PrefetchBuffer.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "engine/reader.h"

/* A run of so many consecutive blocks is left to the kernel's reading ahead */
#define SEQUENTIAL_RUN			128

/* Reading ahead is given up after so many blocks found in shared buffers */
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
	int64		misses;			/* of this process, when last looked */
	int			cached_run;		/* blocks since there was one */
#else
	/* Window of blocks that are to come, oldest first */
	PvLookahead ahead;
	bool		ended;			/* next_block() has said so */
	int			capacity;
	int			head;
	int			nqueued;
	BlockNumber *blocks;
	char	   *about;			/* what next_block() has said of them */
#endif
};

/*
 * Look as far ahead as the table's tablespace is said to reward, but no
 * further than max_distance.
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
 * A block will be visited soon: have it read in the background, if that seems
 * worthwhile.  In a table that is in shared buffers every call would be a
 * futile search, so we stop after a run of those, and start again when a read
 * was needed after all.
 */
void
pv_lookahead_block(PvLookahead *ahead, Relation rel, BlockNumber blkno)
{
	if (ahead->distance <= 1)
		return;

	/* The kernel reads ahead itself, and in larger pieces, in a long run */
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

/*
 * Does the stream read into a ring that was dropped meanwhile?
 */
static inline bool
stream_must_end(const PvReader *reader)
{
	return reader->in_ring && pv_ring_is_dropped(reader->ring);
}

static BlockNumber
next_of_stream(ReadStream *stream, void *private_data, void *per_buffer_data)
{
	PvReader   *reader = private_data;

	if (unlikely(stream_must_end(reader)))
		return InvalidBlockNumber;
	return reader->next_block(reader->arg, per_buffer_data);
}

static void
begin_stream(PvReader *reader)
{
	BufferAccessStrategy strategy = pv_ring_next(reader->ring);

	reader->in_ring = strategy != NULL;
	reader->stream =
		read_stream_begin_relation(READ_STREAM_MAINTENANCE |
								   (reader->batches ? PV_READ_STREAM_BATCHES : 0),
								   strategy, reader->rel, MAIN_FORKNUM,
								   next_of_stream, reader, reader->about_size);
}

static void
begin(PvReader *reader, int max_distance)
{
	begin_stream(reader);
	reader->misses = pgBufferUsage.shared_blks_read;
}

/*
 * Go on with another stream, of which next_block() is asked for what comes after
 * the blocks that it has given.
 */
static void
replace_stream(PvReader *reader)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(GetMemoryChunkContext(reader));

	read_stream_end(reader->stream);
	begin_stream(reader);
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
	if (pgBufferUsage.shared_blks_read == reader->misses)
		reader->cached_run++;
	else
	{
		reader->misses = pgBufferUsage.shared_blks_read;
		reader->cached_run = 0;
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

bool
pv_reader_reads(const PvReader *reader)
{
	return reader->cached_run < CACHED_RUN;
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
	reader->capacity = reader->ahead.distance;
	reader->blocks = palloc(reader->capacity * sizeof(BlockNumber));
	reader->about = palloc(reader->capacity * Max(reader->about_size, 1));
}

static char *
about_of(PvReader *reader, int place)
{
	return reader->about + place * reader->about_size;
}

/*
 * Keep the window full.
 */
static void
fill_window(PvReader *reader)
{
	while (!reader->ended && reader->nqueued < reader->ahead.distance)
	{
		int			place = (reader->head + reader->nqueued) % reader->capacity;
		BlockNumber blkno = reader->next_block(reader->arg, about_of(reader, place));

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
 * The next block, pinned, and what next_block() has said of it, which stays as it
 * is until the next call.  False if there is none.
 */
bool
pv_reader_next(PvReader *reader, Buffer *buf, void **about_block)
{
	int			place;

	fill_window(reader);
	if (reader->nqueued == 0)
		return false;
	place = reader->head;
	reader->head = (reader->head + 1) % reader->capacity;
	reader->nqueued--;

	*about_block = about_of(reader, place);
	*buf = ReadBufferExtended(reader->rel, MAIN_FORKNUM, reader->blocks[place],
							  RBM_NORMAL, pv_ring_next(reader->ring));
	return true;
}

/*
 * Forget what was to come, and ask next_block() anew, also if it has said that
 * there is no more.
 */
void
pv_reader_restart(PvReader *reader)
{
	reader->ended = false;
	reader->nqueued = 0;
}

/*
 * Have blocks had to be read lately, rather than found in shared buffers?
 */
bool
pv_reader_reads(const PvReader *reader)
{
	return reader->ahead.active;
}

/*
 * What was pinned ahead is released.
 */
void
pv_reader_free(PvReader *reader)
{
	pfree(reader->blocks);
	pfree(reader->about);
	pfree(reader);
}

#endif

/*
 * A reader of a relation's main fork, in the current context.  It has a part of
 * the ring; of each block about_size bytes are passed on.  max_distance is where
 * there are no read streams.  batches says that next_block() neither waits nor
 * reads anything, so that the reads of several blocks can be submitted at once.
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
