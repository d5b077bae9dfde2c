/*-------------------------------------------------------------------------
 *
 * pv_container.c
 *	  Small sorted sets of line pointer offsets: encoding and decoding.
 *
 * The formats are described in pv_container.h, where the probes of the common
 * kinds are too.  Nothing here allocates, locks, or knows where a container
 * is stored; every participant may run it on memory of its own, or on memory
 * that no one changes any more.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "pv_container.h"

/* Counts and bitmap lengths must fit the byte, and the bits, they have. */
StaticAssertDecl(PV_BITMAP_MAX_BYTES <= PG_UINT8_MAX,
				 "a bitmap's length must fit in a byte");
StaticAssertDecl(PV_CONTAINER_MAX_BYTES / 2 < PV_WIDE,
				 "a wide array's count must leave the wide bit free");
StaticAssertDecl(PV_BITMAP_COST(1, PV_NARROW_MAX) < PV_ARRAY_COST(PV_WIDE, PV_NARROW_MAX),
				 "a narrow array's count must leave the wide bit free");
StaticAssertDecl(PV_BITMAP_COST(1, PV_NARROW_MAX) < PV_RUNS_COST(17, PV_NARROW_MAX),
				 "narrow runs must fit in one vector");

/* Element i of an array of one- or two-byte offsets at p, which is unaligned. */
static inline uint32
get_element(const uint8 *p, bool wide, int i)
{
	uint16		value;

	if (!wide)
		return p[i];
	memcpy(&value, p + 2 * i, sizeof(value));
	return value;
}

/* Counterpart of get_element(). */
static inline void
set_element(uint8 *p, bool wide, int i, uint32 value)
{
	uint16		value16 = (uint16) value;

	if (wide)
		memcpy(p + 2 * i, &value16, sizeof(value16));
	else
		p[i] = (uint8) value;
}

/* In how many runs of consecutive numbers do the n >= 1 offsets fall? */
static int
count_runs(const OffsetNumber *offsets, int n)
{
	int			runs = 1;

	for (int i = 1; i < n; i++)
		runs += (offsets[i] != offsets[i - 1] + 1);
	return runs;
}

/* Write the offsets as an array. */
static void
encode_array(const OffsetNumber *offsets, int n, uint8 *out)
{
	bool		wide = offsets[n - 1] > PV_NARROW_MAX;

	out[0] = n | (wide ? PV_WIDE : 0);
	for (int i = 0; i < n; i++)
		set_element(out + 1, wide, i, offsets[i]);
}

/* Write the offsets as a bitmap that leaves out empty bytes at both ends. */
static void
encode_bitmap(const OffsetNumber *offsets, int n, uint8 *out)
{
	int			base = offsets[0] / 8;

	out[0] = base;
	out[1] = PV_BITMAP_BYTES(offsets[0], offsets[n - 1]);
	memset(out + 2, 0, out[1]);
	for (int i = 0; i < n; i++)
		out[2 + offsets[i] / 8 - base] |= 1 << (offsets[i] % 8);
}

/* Write the offsets as runs, of which there are so many. */
static void
encode_runs(const OffsetNumber *offsets, int n, int runs, uint8 *out)
{
	bool		wide = offsets[n - 1] > PV_NARROW_MAX;
	uint8	   *first = out + 1;
	uint8	   *last = first + runs * (wide ? 2 : 1);
	int			run = 0;

	out[0] = runs | (wide ? PV_WIDE : 0);
	set_element(first, wide, 0, offsets[0]);
	for (int i = 1; i < n; i++)
	{
		if (offsets[i] == offsets[i - 1] + 1)
			continue;
		set_element(last, wide, run++, offsets[i - 1]);
		set_element(first, wide, run, offsets[i]);
	}
	set_element(last, wide, run, offsets[n - 1]);
}

/*
 * Write the smallest container of n >= 1 offsets to out, which has room for
 * PV_CONTAINER_MAX_BYTES, and set *kind.  Returns the bytes written.
 *
 * The caller has checked that the offsets ascend within 1 .. PV_MAX_OFFSET.
 * Of kinds of equal size the one that is probed fastest is taken.
 */
int
pv_container_encode(const OffsetNumber *offsets, int n, uint8 *out,
					PvContainerKind *kind)
{
	OffsetNumber last = offsets[n - 1];
	int			runs = count_runs(offsets, n);
	int			array_cost = PV_ARRAY_COST(n, last);
	int			runs_cost = PV_RUNS_COST(runs, last);
	int			bitmap_cost = PV_BITMAP_COST(offsets[0], last);

	if (bitmap_cost <= Min(array_cost, runs_cost))
	{
		encode_bitmap(offsets, n, out);
		*kind = PV_BITMAP;
		return bitmap_cost;
	}
	if (runs_cost <= array_cost)
	{
		encode_runs(offsets, n, runs, out);
		*kind = PV_RUNS;
		return runs_cost;
	}
	encode_array(offsets, n, out);
	*kind = PV_ARRAY;
	return array_cost;
}

/* Bytes that the container takes, as pv_container_encode() returned them. */
int
pv_container_bytes(PvContainerKind kind, const uint8 *c)
{
	int			width = (c[0] & PV_WIDE) ? 2 : 1;
	int			count = c[0] & ~PV_WIDE;

	if (kind == PV_BITMAP)
		return 2 + c[1];
	return 1 + count * width * (kind == PV_RUNS ? 2 : 1);
}

/* Bitmap part of pv_container_decode(). */
static int
decode_bitmap(const uint8 *c, OffsetNumber *offsets)
{
	int			n = 0;

	for (int byte = 0; byte < c[1]; byte++)
	{
		for (uint8 bits = c[2 + byte]; bits != 0; bits &= bits - 1)
			offsets[n++] = (c[0] + byte) * 8 + pg_rightmost_one_pos32(bits);
	}
	return n;
}

/*
 * Write the offsets of a container, ascending, to an array with room for
 * PV_MAX_OFFSET of them.  Returns their number.
 */
int
pv_container_decode(PvContainerKind kind, const uint8 *c,
					OffsetNumber *offsets)
{
	bool		wide = (c[0] & PV_WIDE) != 0;
	int			count = c[0] & ~PV_WIDE;
	int			n = 0;

	if (kind == PV_BITMAP)
		return decode_bitmap(c, offsets);
	for (int i = 0; i < count; i++)
	{
		uint32		first = get_element(c + 1, wide, i);
		uint32		last = first;

		if (kind == PV_RUNS)
			last = get_element(c + 1, wide, count + i);
		while (first <= last)
			offsets[n++] = first++;
	}
	return n;
}

/*
 * Is off in this wide array or these wide runs?  Only pages of more than
 * PV_NARROW_MAX line pointers have such containers, so it is kept simple.
 */
bool
pv_container_probe_wide(PvContainerKind kind, const uint8 *c, uint32 off)
{
	int			count = c[0] & ~PV_WIDE;
	bool		found = false;

	for (int i = 0; i < count; i++)
	{
		uint32		first = get_element(c + 1, true, i);
		uint32		last = first;

		if (kind == PV_RUNS)
			last = get_element(c + 1, true, count + i);
		found |= (first <= off) & (off <= last);
	}
	return found;
}
