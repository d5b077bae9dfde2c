/*-------------------------------------------------------------------------
 *
 * pv_container.h
 *	  Small sorted sets of line pointer offsets, each encoded in few bytes.
 *
 * A container holds the dead offsets of one heap block.  There are three
 * kinds; the encoder takes whichever needs the fewest bytes:
 *
 *	array	count, then the offsets themselves
 *	bitmap	first byte of the map, number of bytes, then the bytes
 *	runs	count, then the first offset of every run, then the last of every run
 *
 * Offsets in arrays and runs take one byte each ("narrow") when the largest of
 * the set fits, else two ("wide", marked by a bit of the count).  A container
 * does not say which kind it is: whoever refers to it does.  It has no
 * alignment.
 *
 * All sizes and limits that decide between encodings stand in this file.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CONTAINER_H
#define PV_CONTAINER_H

#include "access/htup_details.h"
#include "storage/off.h"

/* PV_NO_SIMD builds the portable code where SSE2 would be used. */
#if defined(__SSE2__) && !defined(PV_NO_SIMD)
#include <emmintrin.h>
#define PV_USE_SSE2 1
#endif

typedef enum PvContainerKind
{
	PV_ARRAY,
	PV_BITMAP,
	PV_RUNS
} PvContainerKind;

/* The largest offset a heap page can have; larger ones are refused. */
#define PV_MAX_OFFSET			((int) MaxHeapTuplesPerPage)

/* The largest offset of narrow arrays and runs. */
#define PV_NARROW_MAX			255

/* Marks a wide array or wide runs; the other bits of the byte are the count. */
#define PV_WIDE					0x80

/* Offset n is bit n % 8 of byte n / 8, so that byte 0 has 7 useful bits. */
#define PV_BITMAP_BYTES(first, last)	((last) / 8 - (first) / 8 + 1)
#define PV_BITMAP_MAX_BYTES		(PV_MAX_OFFSET / 8 + 1)

/* What each kind costs for a set of n offsets in r runs, in bytes. */
#define PV_WIDTH(last)			((last) <= PV_NARROW_MAX ? 1 : 2)
#define PV_ARRAY_COST(n, last)	(1 + (n) * PV_WIDTH(last))
#define PV_RUNS_COST(r, last)	(1 + 2 * (r) * PV_WIDTH(last))
#define PV_BITMAP_COST(first, last) (2 + PV_BITMAP_BYTES(first, last))

/* No container is larger: a bitmap of everything is always possible. */
#define PV_CONTAINER_MAX_BYTES	PV_BITMAP_COST(1, PV_MAX_OFFSET)

/*
 * A probe loads whole vectors, so it may read, but never use, this many bytes
 * behind a container.
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
 * Is off in this bitmap?  Any off may be asked for.  There is no branch on the
 * outcome, because the outcome is what a branch predictor cannot know.
 */
static inline bool
pv_bitmap_probe(const uint8 *c, uint32 off)
{
	uint32		byte = off / 8 - c[0];
	bool		inside = byte < c[1];

	return inside & ((c[2 + (inside ? byte : 0)] >> (off % 8)) & 1);
}

#ifdef PV_USE_SSE2

/*
 * A vector with the low byte of off in every place.  The multiplication spreads
 * it faster than a sequence of unpacking instructions.
 */
static inline __m128i
pv_spread(uint32 off)
{
	return _mm_set1_epi32((int) ((off & 0xFF) * 0x01010101U));
}

/* A mask of those of the count bytes at p, at most 16, that equal off. */
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

/*
 * Is off in these narrow runs?  There are at most 16 of them, because a bitmap
 * of all narrow offsets is smaller than 17.
 */
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

/* Is off in container c of this kind?  Any off may be asked for. */
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

#endif							/* PV_CONTAINER_H */
