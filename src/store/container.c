/*-------------------------------------------------------------------------
 *
 * container.c
 *	  How dead items are encoded: the offsets of a block, and the blocks of a
 *	  segment.
 *
 * store/container.h describes the formats, and has the probes.  Nothing here
 * allocates memory, takes a lock, or knows where a segment is stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "port/pg_bitutils.h"

#include "store/container.h"

/* Counts and lengths of bitmaps must fit in their byte, or in its bits. */
StaticAssertDecl(PV_BITMAP_MAX_BYTES <= PG_UINT8_MAX,
				 "a bitmap's length must fit in a byte");
StaticAssertDecl(PV_CONTAINER_MAX_BYTES / 2 < PV_WIDE,
				 "a wide array's count must leave the wide bit free");
StaticAssertDecl(PV_BITMAP_COST(1, PV_NARROW_MAX) <
				 PV_ARRAY_COST(PV_WIDE, PV_NARROW_MAX),
				 "a narrow array's count must leave the wide bit free");
StaticAssertDecl(PV_BITMAP_COST(1, PV_NARROW_MAX) <
				 PV_RUNS_COST(17, PV_NARROW_MAX),
				 "narrow runs must fit in one vector");
StaticAssertDecl(PV_SEGMENT_BLOCKS * PV_CONTAINER_ROOM +
				 PV_RANKED_HEAD_BYTES(PV_SEGMENT_BLOCKS) <=
				 (1 << PV_LOCATOR_POS_BITS) * PV_LOCATOR_STEP,
				 "a locator must reach every container");


/*-------------------------------------------------------------------------
 * Containers
 *-------------------------------------------------------------------------
 */

/* Return element i of an unaligned array of one- or two-byte offsets. */
static inline uint32
get_element(const uint8 *p, bool wide, int i)
{
	uint16		value;

	if (!wide)
		return p[i];
	memcpy(&value, p + 2 * i, sizeof(value));
	return value;
}

/* Set what get_element() returns. */
static inline void
set_element(uint8 *p, bool wide, int i, uint32 value)
{
	uint16		value16 = (uint16) value;

	if (wide)
		memcpy(p + 2 * i, &value16, sizeof(value16));
	else
		p[i] = (uint8) value;
}

/* Count the runs of consecutive numbers in n >= 1 offsets. */
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

/* Write the offsets as a bitmap without the empty bytes at both ends. */
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

/* Write the offsets as runs; "runs" is count_runs() of them. */
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
 * PV_CONTAINER_MAX_BYTES, and set *kind.  Return the bytes written.  The
 * offsets ascend within 1 .. PV_MAX_OFFSET.  Among kinds of equal size the one
 * that is probed fastest is chosen.
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

/* Return the size of a container in bytes, as pv_container_encode() did. */
int
pv_container_bytes(PvContainerKind kind, const uint8 *c)
{
	int			width = (c[0] & PV_WIDE) ? 2 : 1;
	int			count = c[0] & ~PV_WIDE;

	if (kind == PV_BITMAP)
		return 2 + c[1];
	return 1 + count * width * (kind == PV_RUNS ? 2 : 1);
}

/*
 * Write the offsets that the bytes of a bitmap stand for; the first of them is
 * byte number "base" of the map.  Return the number of offsets.
 */
static int
decode_bits(const uint8 *bits, int bytes, int base, OffsetNumber *offsets)
{
	int			n = 0;

	for (int byte = 0; byte < bytes; byte++)
	{
		for (uint8 left = bits[byte]; left != 0; left &= left - 1)
			offsets[n++] = (base + byte) * 8 + pg_rightmost_one_pos32(left);
	}
	return n;
}

/*
 * Write the offsets of a container, ascending, to an array with room for
 * PV_MAX_OFFSET of them.  Return their number.
 */
int
pv_container_decode(PvContainerKind kind, const uint8 *c,
					OffsetNumber *offsets)
{
	bool		wide = (c[0] & PV_WIDE) != 0;
	int			count = c[0] & ~PV_WIDE;
	int			n = 0;

	if (kind == PV_BITMAP)
		return decode_bits(c + 2, c[1], c[0], offsets);
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

/* Is off in this wide array or these wide runs, which are rare? */
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


/*-------------------------------------------------------------------------
 * Building a segment
 *-------------------------------------------------------------------------
 */

/* Begin a segment without blocks. */
void
pv_segment_start(PvSegmentBuild *build)
{
	build->nblocks = 0;
	build->nitems = 0;
	build->min_byte = PV_BITMAP_MAX_BYTES;
	build->max_byte = 0;
	build->used = 0;
	memset(build->known, 0, sizeof(build->known));
}

/*
 * Return the locator of the container of this many bytes that was written
 * behind those collected so far.  If an equal one was collected before, refer
 * to that one, else add the new one.
 */
static uint16
intern_container(PvSegmentBuild *build, PvContainerKind kind, int bytes)
{
	const uint8 *c = build->containers + build->used;
	uint32		mask = lengthof(build->known) - 1;
	uint32		slot = hash_bytes(c, bytes) & mask;
	uint16		locator;

	for (; build->known[slot] != 0; slot = (slot + 1) & mask)
	{
		const uint8 *other;

		locator = build->known[slot] - 1;
		other = build->containers + PV_LOCATOR_POS(locator);
		if (PV_LOCATOR_KIND(locator) == kind &&
			pv_container_bytes(kind, other) == bytes &&
			memcmp(other, c, bytes) == 0)
			return locator;
	}
	locator = kind << PV_LOCATOR_POS_BITS | build->used / PV_LOCATOR_STEP;
	build->known[slot] = locator + 1;
	build->used += TYPEALIGN(PV_LOCATOR_STEP, bytes);
	return locator;
}

/* Make the locator for the dead offsets of a block. */
static uint16
make_locator(PvSegmentBuild *build, const OffsetNumber *offsets, int n)
{
	PvContainerKind kind;
	int			bytes;

	if (offsets[n - 1] - offsets[0] == n - 1 && n <= PV_RUN_MAX_LENGTH &&
		offsets[0] <= PV_RUN_MAX_START)
		return PV_LOCATOR_RUN | offsets[0] << PV_RUN_LENGTH_BITS | n;
	bytes = pv_container_encode(offsets, n,
								build->containers + build->used, &kind);
	return intern_container(build, kind, bytes);
}

/*
 * Add block idx of the segment, with its n >= 1 dead offsets.  The caller has
 * checked that blocks and offsets are valid and ascend.
 */
void
pv_segment_add(PvSegmentBuild *build, uint32 idx, const OffsetNumber *offsets,
			   int n)
{
	build->idx[build->nblocks] = idx;
	build->locators[build->nblocks] = make_locator(build, offsets, n);
	build->min_byte = Min(build->min_byte, offsets[0] / 8);
	build->max_byte = Max(build->max_byte, offsets[n - 1] / 8);
	build->nblocks++;
	build->nitems += n;
}


/*-------------------------------------------------------------------------
 * Packing a segment
 *-------------------------------------------------------------------------
 */

/* Do all present blocks have the same offsets? */
static bool
is_uniform(const PvSegmentBuild *build)
{
	for (int i = 1; i < build->nblocks; i++)
	{
		if (build->locators[i] != build->locators[0])
			return false;
	}
	return true;
}

/* Plan a layout with locators: its head, then the containers. */
static PvSegmentPlan
plan_locators(const PvSegmentBuild *build, PvSegmentLayout layout, int head)
{
	return (PvSegmentPlan) {layout, head + build->used, head};
}

/* Plan a matrix of nrows rows behind a head of "head" bytes. */
static PvSegmentPlan
plan_matrix(const PvSegmentBuild *build, PvSegmentLayout layout, int head,
			int nrows)
{
	int			stride = build->max_byte - build->min_byte + 1;

	return (PvSegmentPlan) {layout, head + nrows * stride, 0};
}

/* Return the better one of a ranked plan and the corresponding direct one. */
static PvSegmentPlan
better_plan(PvSegmentPlan ranked, PvSegmentPlan direct)
{
	return direct.bytes <= ranked.bytes + PV_DIRECT_SLACK(ranked.bytes) ?
		direct : ranked;
}

/* Decide how to pack a segment that has at least one block. */
PvSegmentPlan
pv_segment_plan(const PvSegmentBuild *build)
{
	PvSegmentPlan direct;
	PvSegmentPlan locators;
	PvSegmentPlan matrix;

	if (build->nblocks == 1 && (build->locators[0] & PV_LOCATOR_RUN))
		return (PvSegmentPlan) {PV_SEG_INLINE, 0, 0};
	if (is_uniform(build))
		return plan_locators(build, PV_SEG_UNIFORM, PV_UNIFORM_HEAD_BYTES);

	direct = plan_locators(build, PV_SEG_DIRECT, sizeof(PvDirectSegment));
	if (build->nblocks < PV_SEGMENT_BLOCKS && build->used > 0)
		direct.bytes += PV_EMPTY_BYTES;
	locators = better_plan(plan_locators(build, PV_SEG_RANKED,
										 PV_RANKED_HEAD_BYTES(build->nblocks)),
						   direct);
	matrix = better_plan(plan_matrix(build, PV_SEG_RANKED_MATRIX,
									 PV_MATRIX_HEAD_BYTES, build->nblocks),
						 plan_matrix(build, PV_SEG_DIRECT_MATRIX,
									 sizeof(PvMatrix), PV_SEGMENT_BLOCKS));
	return matrix.bytes <= locators.bytes ? matrix : locators;
}

/* Set the bits of the present blocks.  Return the number in the first word. */
static int
pack_present(const PvSegmentBuild *build, uint64 *present)
{
	present[0] = present[1] = 0;
	for (int i = 0; i < build->nblocks; i++)
		present[build->idx[i] / 64] |= UINT64CONST(1) << (build->idx[i] % 64);
	return pv_popcount64(present[0]);
}

/* Adjust a locator of the segment being built to the moved containers. */
static uint16
moved_locator(uint16 locator, int distance)
{
	return (locator & PV_LOCATOR_RUN) ? locator :
		locator + distance / PV_LOCATOR_STEP;
}

/*
 * Return the locator for absent blocks of a direct segment.  It is of the kind
 * that most present blocks have.  If that is a container, it is the empty one
 * behind all others.
 */
static uint16
absent_locator(const PvSegmentBuild *build, int head)
{
	int			count[PV_RUNS + 2] = {0};
	int			most = PV_RUNS + 1; /* no container */

	for (int i = 0; i < build->nblocks; i++)
	{
		uint16		locator = build->locators[i];

		count[locator & PV_LOCATOR_RUN ? PV_RUNS + 1 :
			  PV_LOCATOR_KIND(locator)]++;
	}
	for (int kind = 0; kind <= PV_RUNS; kind++)
	{
		if (count[kind] > count[most])
			most = kind;
	}
	if (most > PV_RUNS)
		return PV_LOCATOR_NONE;
	return most << PV_LOCATOR_POS_BITS |
		(head + build->used) / PV_LOCATOR_STEP;
}

/* Pack a segment as locators and containers, into zeroed memory. */
static void
pack_locators(const PvSegmentBuild *build, const PvSegmentPlan *plan,
			  char *out)
{
	bool		is_ranked = plan->layout == PV_SEG_RANKED;
	uint16	   *locators;

	memcpy(out + plan->head, build->containers, build->used);
	if (plan->layout == PV_SEG_UNIFORM)
	{
		PvUniformSegment *uniform = (PvUniformSegment *) out;

		pack_present(build, uniform->present);
		uniform->locator = moved_locator(build->locators[0], plan->head);
		return;
	}
	if (is_ranked)
	{
		PvRankedSegment *ranked = (PvRankedSegment *) out;

		ranked->below = pack_present(build, ranked->present);
		locators = ranked->locators;
	}
	else
	{
		uint16		absent = absent_locator(build, plan->head);

		locators = ((PvDirectSegment *) out)->locators;
		for (int i = 0; i < PV_SEGMENT_BLOCKS; i++)
			locators[i] = absent;
	}
	for (int i = 0; i < build->nblocks; i++)
	{
		int			place = is_ranked ? i : build->idx[i];

		locators[place] = moved_locator(build->locators[i], plan->head);
	}
}

/* Write the offsets that a locator stands for.  Return their number. */
static int
decode_locator(const char *segment, uint32 locator, OffsetNumber *offsets)
{
	if (!(locator & PV_LOCATOR_RUN))
		return pv_container_decode(PV_LOCATOR_KIND(locator),
								   (const uint8 *) segment +
								   PV_LOCATOR_POS(locator),
								   offsets);
	for (uint32 i = 0; i < PV_RUN_LENGTH(locator); i++)
		offsets[i] = PV_RUN_START(locator) + i;
	return PV_RUN_LENGTH(locator);
}

/* Pack a segment as a matrix, into zeroed memory. */
static void
pack_matrix(const PvSegmentBuild *build, const PvSegmentPlan *plan, char *out)
{
	bool		is_ranked = plan->layout == PV_SEG_RANKED_MATRIX;
	PvMatrix   *matrix = (PvMatrix *) out;
	uint8	   *rows;

	if (is_ranked)
	{
		PvRankedMatrix *ranked = (PvRankedMatrix *) out;

		ranked->below = pack_present(build, ranked->present);
		matrix = &ranked->matrix;
	}
	matrix->base = build->min_byte;
	matrix->stride = build->max_byte - build->min_byte + 1;
	rows = (uint8 *) (matrix + 1);
	for (int i = 0; i < build->nblocks; i++)
	{
		OffsetNumber offsets[PV_MAX_OFFSET];
		int			n = decode_locator((const char *) build->containers,
									   build->locators[i], offsets);
		uint8	   *row = rows +
			(is_ranked ? i : build->idx[i]) * matrix->stride;

		for (int j = 0; j < n; j++)
			row[offsets[j] / 8 - matrix->base] |= 1 << (offsets[j] % 8);
	}
}

/*
 * Pack a segment as planned, if it is not inline.  "out" has room for the
 * plan's bytes, and is aligned for uint64.
 */
void
pv_segment_pack(const PvSegmentBuild *build, const PvSegmentPlan *plan,
				char *out)
{
	memset(out, 0, plan->bytes);
	if (plan->head != 0)
		pack_locators(build, plan, out);
	else
		pack_matrix(build, plan, out);
}

/* Pack a segment that was planned to be inline, into PV_INLINE_BITS bits. */
uint32
pv_segment_pack_inline(const PvSegmentBuild *build)
{
	return (uint32) build->idx[0] << PV_INLINE_RUN_BITS |
		(build->locators[0] & ~PV_LOCATOR_RUN);
}

/* Return where the containers of these locators end; "head" if none. */
static int
end_of_containers(const char *segment, const uint16 *locators, int n, int head)
{
	int			end = head;

	for (int i = 0; i < n; i++)
	{
		const uint8 *c = (const uint8 *) segment + PV_LOCATOR_POS(locators[i]);

		if (locators[i] & PV_LOCATOR_RUN)
			continue;
		end = Max(end, (int) PV_LOCATOR_POS(locators[i]) +
				  pv_container_bytes(PV_LOCATOR_KIND(locators[i]), c));
	}
	return end;
}

/* Return the size of a packed segment in bytes; 0 if it is inline. */
int
pv_segment_bytes(const char *segment, PvSegmentLayout layout)
{
	const PvUniformSegment *uniform = (const PvUniformSegment *) segment;
	const PvRankedSegment *ranked = (const PvRankedSegment *) segment;
	const PvDirectSegment *direct = (const PvDirectSegment *) segment;
	int			n = PV_SEGMENT_BLOCKS;

	if (layout == PV_SEG_RANKED || layout == PV_SEG_RANKED_MATRIX)
		n = pv_popcount64(ranked->present[0]) +
			pv_popcount64(ranked->present[1]);
	switch (layout)
	{
		case PV_SEG_ABSENT:
		case PV_SEG_INLINE:
			break;
		case PV_SEG_UNIFORM:
			return end_of_containers(segment, &uniform->locator, 1,
									 PV_UNIFORM_HEAD_BYTES);
		case PV_SEG_RANKED:
			return end_of_containers(segment, ranked->locators, n,
									 PV_RANKED_HEAD_BYTES(n));
		case PV_SEG_DIRECT:
			return end_of_containers(segment, direct->locators, n,
									 sizeof(PvDirectSegment));
		case PV_SEG_RANKED_MATRIX:
			return PV_MATRIX_HEAD_BYTES +
				n * ((const PvRankedMatrix *) segment)->matrix.stride;
		case PV_SEG_DIRECT_MATRIX:
			return sizeof(PvMatrix) + n * ((const PvMatrix *) segment)->stride;
	}
	return 0;
}

/*
 * Write the offsets of block idx of an inline segment, ascending.  Return
 * their number, 0 if the block is absent.
 */
int
pv_inline_decode(uint32 bits, uint32 idx, OffsetNumber *offsets)
{
	if (bits >> PV_INLINE_RUN_BITS != idx)
		return 0;
	return decode_locator(NULL, bits | PV_LOCATOR_RUN, offsets);
}

/*
 * The same for a segment that is not inline.  The array has room for
 * PV_MAX_OFFSET.
 */
int
pv_segment_decode(const char *segment, PvSegmentLayout layout, uint32 idx,
				  OffsetNumber *offsets)
{
	const PvRankedSegment *ranked = (const PvRankedSegment *) segment;
	const PvMatrix *matrix = NULL;
	uint32		row = idx;
	uint16		locator = PV_LOCATOR_NONE;

	if (layout == PV_SEG_DIRECT)
		locator = ((const PvDirectSegment *) segment)->locators[idx];
	else if (layout == PV_SEG_DIRECT_MATRIX)
		matrix = (const PvMatrix *) segment;
	else if (!pv_present(ranked->present, idx))
		return 0;
	else if (layout == PV_SEG_UNIFORM)
		locator = ((const PvUniformSegment *) segment)->locator;
	else
	{
		row = pv_rank(ranked->present, ranked->below, idx);
		if (layout == PV_SEG_RANKED_MATRIX)
			matrix = &((const PvRankedMatrix *) segment)->matrix;
		else
			locator = ranked->locators[row];
	}
	if (matrix == NULL)
		return decode_locator(segment, locator, offsets);
	return decode_bits(pv_matrix_row(matrix, row), matrix->stride,
					   matrix->base, offsets);
}
