/*-------------------------------------------------------------------------
 *
 * container.h
 *	  How dead items are encoded: the offsets of a block, and the blocks of a
 *	  segment.
 *
 * A container has the dead offsets of one block.  There are three kinds, and
 * the encoder chooses the one that needs the fewest bytes:
 *
 *	array	count, then the offsets
 *	bitmap	first byte of the map, number of bytes, then the bytes
 *	runs	count, then the first offset of each run, then the last of each run
 *
 * Offsets in arrays and runs take one byte each ("narrow") if the largest
 * offset fits, else two ("wide", marked by a bit of the count).  A container
 * does not contain its kind, and has no alignment.
 *
 * A locator has 16 bits, and stands for the offsets of a block.  It is either
 * a short run, or the kind and the place of a container.
 *
 * A segment contains those of PV_SEGMENT_BLOCKS consecutive blocks that have
 * dead items ("present" blocks).  It is packed in one step, and never
 * changed.  Equal containers are stored once.  There are six layouts.  The
 * smallest one is chosen, or a slightly larger one that is faster to read.
 * The layout is not stored in the segment:
 *
 *	inline			one block with one run: 22 bits in the directory, no memory
 *	uniform			all blocks have the same offsets: a bitmap of the present
 *					blocks, one locator, at most one container
 *	ranked			a bitmap of the present blocks, a locator for each of them,
 *					containers
 *	direct			a locator for each block, containers
 *	ranked matrix	a bitmap of the present blocks, a row for each of them
 *	direct matrix	a row for each block
 *
 * The rows of a matrix are bitmaps of equal width.  The direct layouts are
 * faster to read, and larger if few blocks are present.  There an absent block
 * has an empty container or an empty run, whichever the kind of most present
 * blocks is, so that a probe need not branch on whether a block is present.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CONTAINER_H
#define PV_CONTAINER_H

#include "access/htup_details.h"
#include "storage/block.h"
#include "storage/off.h"

/* PV_NO_SIMD builds the portable code where SSE2 would be used. */
#if defined(__SSE2__) && !defined(PV_NO_SIMD)
#include <emmintrin.h>
#define PV_USE_SSE2 1
#endif

#define PV_LOW_BITS(n)			(((uint32) 1 << (n)) - 1)

/*
 * A segment is this many consecutive blocks, a power of two, and begins at a
 * multiple of it.  A store that is full refuses whole segments.
 */
#define PV_SEGMENT_BLOCKS		128
#define PV_SEGMENT_OF(blk)		((blk) / PV_SEGMENT_BLOCKS)


/*-------------------------------------------------------------------------
 * Containers
 *-------------------------------------------------------------------------
 */

typedef enum PvContainerKind
{
	PV_ARRAY,
	PV_BITMAP,
	PV_RUNS
} PvContainerKind;

/* The largest offset that a page can have; larger ones are refused. */
#define PV_MAX_OFFSET			((int) MaxHeapTuplesPerPage)

/* The largest offset of narrow arrays and runs. */
#define PV_NARROW_MAX			255

/* Marks a wide array or wide runs; the other bits are the count. */
#define PV_WIDE					0x80

/* Offset n is bit n % 8 of byte n / 8, so byte 0 has 7 useful bits. */
#define PV_BITMAP_BYTES(first, last)	((last) / 8 - (first) / 8 + 1)
#define PV_BITMAP_MAX_BYTES		(PV_MAX_OFFSET / 8 + 1)

/* Size of each kind in bytes, for n offsets in r runs. */
#define PV_WIDTH(last)			((last) <= PV_NARROW_MAX ? 1 : 2)
#define PV_ARRAY_COST(n, last)	(1 + (n) * PV_WIDTH(last))
#define PV_RUNS_COST(r, last)	(1 + 2 * (r) * PV_WIDTH(last))
#define PV_BITMAP_COST(first, last) (2 + PV_BITMAP_BYTES(first, last))

/* The largest size of a container: a bitmap of all offsets. */
#define PV_CONTAINER_MAX_BYTES	PV_BITMAP_COST(1, PV_MAX_OFFSET)

/*
 * A probe loads whole vectors, so it may read this many bytes behind a
 * container.  It does not use them.
 */
#define PV_CONTAINER_OVERREAD	16

extern int	pv_container_encode(const OffsetNumber *offsets, int n,
								uint8 *out, PvContainerKind *kind);
extern int	pv_container_decode(PvContainerKind kind, const uint8 *c,
								OffsetNumber *offsets);
extern int	pv_container_bytes(PvContainerKind kind, const uint8 *c);
extern bool pv_container_probe_wide(PvContainerKind kind, const uint8 *c,
									uint32 off);

/*
 * Is off in this bitmap?  Any off is allowed.  Do not branch on the result,
 * which a branch predictor could not predict.
 */
static inline bool
pv_bitmap_probe(const uint8 *c, uint32 off)
{
	uint32		byte = off / 8 - c[0];
	bool		inside = byte < c[1];

	return inside & ((c[2 + (inside ? byte : 0)] >> (off % 8)) & 1);
}

#ifdef PV_USE_SSE2

/* Return a vector with the low byte of off in each element. */
static inline __m128i
pv_spread(uint32 off)
{
	return _mm_set1_epi32((int) ((off & 0xFF) * 0x01010101U));
}

/* Return a mask of the bytes that equal off, among "count" <= 16 bytes. */
static inline uint32
pv_bytes_equal(const uint8 *p, uint32 count, uint32 off)
{
	__m128i		have = _mm_loadu_si128((const __m128i *) p);
	__m128i		want = pv_spread(off);

	return _mm_movemask_epi8(_mm_cmpeq_epi8(have, want)) &
		((1U << count) - 1);
}

/* Is off in this narrow array? */
static inline bool
pv_array_probe_narrow(const uint8 *c, uint32 off)
{
	uint32		n = c[0];
	uint32		hits = pv_bytes_equal(c + 1, Min(n, 16), off);

	for (uint32 i = 16; unlikely(i < n); i += 16)
		hits |= pv_bytes_equal(c + 1 + i, Min(n - i, 16), off);
	return (off <= PV_NARROW_MAX) & (hits != 0);
}

/* Is off in these narrow runs?  17 runs would be larger than a bitmap. */
static inline bool
pv_runs_probe_narrow(const uint8 *c, uint32 off)
{
	uint32		n = c[0];
	__m128i		first = _mm_loadu_si128((const __m128i *) (c + 1));
	__m128i		last = _mm_loadu_si128((const __m128i *) (c + 1 + n));
	__m128i		want = pv_spread(off);
	__m128i		begun = _mm_cmpeq_epi8(_mm_min_epu8(first, want), first);
	__m128i		open = _mm_cmpeq_epi8(_mm_max_epu8(last, want), last);
	uint32		hits = _mm_movemask_epi8(_mm_and_si128(begun, open));

	return (off <= PV_NARROW_MAX) & ((hits & ((1U << n) - 1)) != 0);
}

#else							/* !PV_USE_SSE2 */

/* Is off in this narrow array? */
static inline bool
pv_array_probe_narrow(const uint8 *c, uint32 off)
{
	bool		found = false;

	for (uint32 i = 1; i <= c[0]; i++)
		found |= (c[i] == off);
	return found;
}

/* Is off in these narrow runs? */
static inline bool
pv_runs_probe_narrow(const uint8 *c, uint32 off)
{
	uint32		n = c[0];
	bool		found = false;

	for (uint32 i = 1; i <= n; i++)
		found |= (c[i] <= off) & (off <= c[n + i]);
	return found;
}

#endif							/* PV_USE_SSE2 */

/* Is off in container c of this kind?  Any off is allowed. */
static inline bool
pv_container_probe(PvContainerKind kind, const uint8 *c, uint32 off)
{
	if (kind == PV_BITMAP)
		return pv_bitmap_probe(c, off);
	if (unlikely(c[0] & PV_WIDE))
		return pv_container_probe_wide(kind, c, off);
	if (kind == PV_ARRAY)
		return pv_array_probe_narrow(c, off);
	return pv_runs_probe_narrow(c, off);
}


/*-------------------------------------------------------------------------
 * Locators
 *-------------------------------------------------------------------------
 */

/*
 * With PV_LOCATOR_RUN, the rest is the start and the length of a run.  Without
 * it, the rest is the kind of a container and its place in the segment, in
 * steps.
 */
#define PV_LOCATOR_RUN			0x8000
#define PV_LOCATOR_NONE			PV_LOCATOR_RUN
#define PV_RUN_START_BITS		(BLCKSZ <= 8192 ? 8 : BLCKSZ <= 16384 ? 9 : 10)
#define PV_RUN_LENGTH_BITS		(15 - PV_RUN_START_BITS)
#define PV_RUN_MAX_START		((int) PV_LOW_BITS(PV_RUN_START_BITS))
#define PV_RUN_MAX_LENGTH		((int) PV_LOW_BITS(PV_RUN_LENGTH_BITS))
#define PV_RUN_START(loc) \
	(((loc) >> PV_RUN_LENGTH_BITS) & PV_LOW_BITS(PV_RUN_START_BITS))
#define PV_RUN_LENGTH(loc)		((loc) & PV_LOW_BITS(PV_RUN_LENGTH_BITS))

#define PV_LOCATOR_POS_BITS		13
#define PV_LOCATOR_STEP			(BLCKSZ <= 8192 ? 1 : BLCKSZ / 8192)
#define PV_LOCATOR_KIND(loc) \
	((PvContainerKind) (((loc) >> PV_LOCATOR_POS_BITS) & 3))
#define PV_LOCATOR_POS(loc) \
	(((loc) & PV_LOW_BITS(PV_LOCATOR_POS_BITS)) * PV_LOCATOR_STEP)

/* The largest size of a container, rounded up to the step of locators. */
#define PV_CONTAINER_ROOM \
	TYPEALIGN(PV_LOCATOR_STEP, PV_CONTAINER_MAX_BYTES)

/* Is off in the run of this locator? */
static inline bool
pv_run_probe(uint32 locator, uint32 off)
{
	return off - PV_RUN_START(locator) < PV_RUN_LENGTH(locator);
}

/* Is off one of the offsets that this locator of a segment stands for? */
static inline bool
pv_locator_probe(const char *segment, uint32 locator, uint32 off)
{
	if (locator & PV_LOCATOR_RUN)
		return pv_run_probe(locator, off);
	return pv_container_probe(PV_LOCATOR_KIND(locator),
							  (const uint8 *) segment +
							  PV_LOCATOR_POS(locator),
							  off);
}


/*-------------------------------------------------------------------------
 * Segments
 *-------------------------------------------------------------------------
 */

typedef enum PvSegmentLayout
{
	PV_SEG_ABSENT = 0,			/* no blocks, no segment */
	PV_SEG_INLINE,
	PV_SEG_UNIFORM,
	PV_SEG_RANKED_MATRIX,
	PV_SEG_DIRECT_MATRIX,
	PV_SEG_RANKED,
	PV_SEG_DIRECT
} PvSegmentLayout;

/* An inline segment: the block's number, and its locator without the flag. */
#define PV_INLINE_RUN_BITS		15
#define PV_INLINE_BITS			(PV_INLINE_RUN_BITS + 7)

/*
 * The heads of the other layouts.  "present" has a bit for each block.
 * "below" is the number of bits in its first word, so that computing a rank
 * counts the bits of one word only.  The first byte of each row of a matrix
 * has the offsets from base * 8 on.
 */
typedef struct PvUniformSegment
{
	uint64		present[2];
	uint16		locator;		/* followed by the container, if there is one */
} PvUniformSegment;

typedef struct PvRankedSegment
{
	uint64		present[2];
	uint16		below;
	uint16		locators[FLEXIBLE_ARRAY_MEMBER];	/* followed by the
													 * containers */
} PvRankedSegment;

typedef struct PvDirectSegment
{
	uint16		locators[PV_SEGMENT_BLOCKS];	/* followed by the containers */
} PvDirectSegment;

typedef struct PvMatrix
{
	uint8		base;
	uint8		stride;			/* bytes of a row; the rows follow */
} PvMatrix;

typedef struct PvRankedMatrix
{
	uint64		present[2];
	uint16		below;
	PvMatrix	matrix;
} PvRankedMatrix;

StaticAssertDecl(PV_SEGMENT_BLOCKS == 128, "a presence bitmap is two words");

/* Where containers or rows begin. */
#define PV_UNIFORM_HEAD_BYTES \
	TYPEALIGN(PV_LOCATOR_STEP, \
			  offsetof(PvUniformSegment, locator) + sizeof(uint16))
#define PV_RANKED_HEAD_BYTES(n) \
	TYPEALIGN(PV_LOCATOR_STEP, \
			  offsetof(PvRankedSegment, locators) + (n) * sizeof(uint16))
#define PV_MATRIX_HEAD_BYTES \
	(offsetof(PvRankedMatrix, matrix) + sizeof(PvMatrix))

/* The largest size of a segment: a matrix of the widest rows. */
#define PV_SEGMENT_MAX_BYTES \
	(PV_MATRIX_HEAD_BYTES + PV_SEGMENT_BLOCKS * PV_BITMAP_MAX_BYTES)

/* A direct layout is chosen if it is at most this many bytes larger. */
#define PV_DIRECT_SLACK(ranked)	Max(64, (ranked) / 8)

/* Size of an empty container; it is valid as any kind. */
#define PV_EMPTY_BYTES			2

/* A segment being built; locators are relative to "containers". */
typedef struct PvSegmentBuild
{
	int			nblocks;		/* present blocks so far */
	int64		nitems;
	int			min_byte;		/* smallest and largest offset, divided by 8 */
	int			max_byte;
	uint8		idx[PV_SEGMENT_BLOCKS]; /* each present block's number */
	uint16		locators[PV_SEGMENT_BLOCKS];	/* and its locator */
	uint16		known[2 * PV_SEGMENT_BLOCKS];	/* hash table of containers:
												 * locator + 1, or 0 */
	int			used;			/* bytes of containers */
	uint8		containers[PV_SEGMENT_BLOCKS * PV_CONTAINER_ROOM];
} PvSegmentBuild;

/* How a segment is to be packed. */
typedef struct PvSegmentPlan
{
	PvSegmentLayout layout;
	int			bytes;
	int			head;			/* position of the containers; 0 for a matrix */
} PvSegmentPlan;

extern void pv_segment_start(PvSegmentBuild *build);
extern void pv_segment_add(PvSegmentBuild *build, uint32 idx,
						   const OffsetNumber *offsets, int n);
extern PvSegmentPlan pv_segment_plan(const PvSegmentBuild *build);
extern void pv_segment_pack(const PvSegmentBuild *build,
							const PvSegmentPlan *plan, char *out);
extern uint32 pv_segment_pack_inline(const PvSegmentBuild *build);
extern int	pv_segment_bytes(const char *segment, PvSegmentLayout layout);
extern int	pv_segment_decode(const char *segment, PvSegmentLayout layout,
							  uint32 idx, OffsetNumber *offsets);
extern int	pv_inline_decode(uint32 bits, uint32 idx, OffsetNumber *offsets);

/* Is this block of a segment present? */
static inline bool
pv_present(const uint64 *present, uint32 idx)
{
	return (present[idx / 64] >> (idx % 64)) & 1;
}

/*
 * Return the number of bits in a word.  Inline, because a probe of any layout
 * would have to save its registers around a call.
 */
static inline uint32
pv_popcount64(uint64 word)
{
	word -= (word >> 1) & UINT64CONST(0x5555555555555555);
	word = (word & UINT64CONST(0x3333333333333333)) +
		((word >> 2) & UINT64CONST(0x3333333333333333));
	word = (word + (word >> 4)) & UINT64CONST(0x0F0F0F0F0F0F0F0F);
	return (word * UINT64CONST(0x0101010101010101)) >> 56;
}

/* Return the number of present blocks before this one. */
static inline uint32
pv_rank(const uint64 *present, uint32 below, uint32 idx)
{
	uint64		word = present[idx / 64] &
		((UINT64CONST(1) << (idx % 64)) - 1);

	return pv_popcount64(word) + (idx < 64 ? 0 : below);
}

/* Return a row of a matrix. */
static inline const uint8 *
pv_matrix_row(const PvMatrix *matrix, uint32 row)
{
	return (const uint8 *) (matrix + 1) + row * matrix->stride;
}

/* Is off in this row of a matrix?  Do not branch on the result. */
static inline bool
pv_matrix_probe(const PvMatrix *matrix, uint32 row, uint32 off)
{
	uint32		byte = off / 8 - matrix->base;
	bool		inside = byte < matrix->stride;
	const uint8 *bits = pv_matrix_row(matrix, row);

	return inside & ((bits[inside ? byte : 0] >> (off % 8)) & 1);
}

/* Is off of block idx in this inline segment? */
static inline bool
pv_inline_probe(uint32 bits, uint32 idx, uint32 off)
{
	return (bits >> PV_INLINE_RUN_BITS == idx) & pv_run_probe(bits, off);
}

/* Is off of block idx in this segment, which is not inline? */
static inline bool
pv_segment_probe(const char *segment, PvSegmentLayout layout, uint32 idx,
				 uint32 off)
{
	const uint64 *present = (const uint64 *) segment;
	uint32		locator;
	bool		found = true;

	if (layout == PV_SEG_DIRECT)
		locator = ((const PvDirectSegment *) segment)->locators[idx];
	else if (layout == PV_SEG_DIRECT_MATRIX)
		return pv_matrix_probe((const PvMatrix *) segment, idx, off);
	else if (layout == PV_SEG_UNIFORM)
	{
		locator = ((const PvUniformSegment *) segment)->locator;
		found = pv_present(present, idx);
	}
	else if (!pv_present(present, idx))
		return false;
	else
	{
		const PvRankedSegment *ranked = (const PvRankedSegment *) segment;
		uint32		rank = pv_rank(present, ranked->below, idx);

		if (layout == PV_SEG_RANKED_MATRIX)
			return pv_matrix_probe(&((const PvRankedMatrix *) segment)->matrix,
								   rank, off);
		locator = ranked->locators[rank];
	}
	return found & pv_locator_probe(segment, locator, off);
}

/* Return the address that pv_segment_probe() reads first, to be prefetched. */
static inline const void *
pv_segment_first_read(const char *segment, PvSegmentLayout layout, uint32 idx)
{
	if (layout == PV_SEG_DIRECT)
		return &((const PvDirectSegment *) segment)->locators[idx];
	return segment;
}

/*
 * Return the address that pv_segment_probe() reads next.  Leave out the ranked
 * layouts, where there is mostly nothing more to fetch.
 */
static inline const void *
pv_segment_next_read(const char *segment, PvSegmentLayout layout, uint32 idx,
					 uint32 off)
{
	if (layout == PV_SEG_DIRECT)
	{
		uint32		locator =
			((const PvDirectSegment *) segment)->locators[idx];

		if (!(locator & PV_LOCATOR_RUN))
			return segment + PV_LOCATOR_POS(locator);
	}
	else if (layout == PV_SEG_DIRECT_MATRIX)
	{
		const PvMatrix *matrix = (const PvMatrix *) segment;

		return pv_matrix_row(matrix, idx) + off / 8 - matrix->base;
	}
	return segment;
}

#endif							/* PV_CONTAINER_H */
