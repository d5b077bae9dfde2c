/*-------------------------------------------------------------------------
 *
 * coverage.c
 *	  What the heap scan has come to: which blocks are done, whether that is all
 *	  of them, and how many tuples the table has.
 *
 * Only the leader runs this, between phases.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/progress.h"
#include "commands/vacuum.h"
#include "pgstat.h"
#include "utils/rel.h"

#include "engine/vacuum.h"

/* Return the block before which all blocks have been scanned. */
BlockNumber
pv_scan_done_upto(const PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;
	BlockNumber upto =
		Min(pg_atomic_read_u32(&shared->scan.next), shared->plan.rel_pages);

	for (int i = 0; i < shared->plan.nslots; i++)
		upto = Min(upto, vac->leader.slot[i].unvisited);
	return upto;
}

/*
 * Begin the heap scan where the interrupted vacuum has ended early, because
 * the blocks before are done.
 */
void
pv_scan_go_on(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;
	BlockNumber start = vac->kept.scan.upto;

	pv_dispense_init(&shared->scan, start, shared->plan.rel_pages,
					 PV_SEGMENT_BLOCKS, PV_RANGE_MAX_BLOCKS,
					 shared->plan.nslots);
	pg_atomic_write_u64(&shared->blocks_passed, start);
}

/*
 * Make sure that each block of the table was visited or skipped once, after the
 * last one.  A block that was left out could have an XID that relfrozenxid
 * passes.
 */
void
pv_scan_check_coverage(const PvVacuum *vac)
{
	uint64		end = vac->plan.rel_pages;
	uint64		start = vac->goes_on ? vac->kept.scan.upto : 0;
	uint64		blocks = end - start;

	if (vac->sum.covered != blocks ||
		(blocks > 0 &&
		 vac->sum.covered_sum != blocks * (start + end - 1) / 2))
		elog(ERROR, "heap scan of \"%s\" passed %llu blocks of %llu, or some of them twice",
			 RelationGetRelationName(vac->rel),
			 (unsigned long long) vac->sum.covered,
			 (unsigned long long) blocks);
}

/*
 * Estimate the number of tuples in the table, after the last heap page was
 * seen.
 *
 * Pages that were skipped although core would have read them count as scanned,
 * with the number of tuples that the sample gives for them (engine/sample.c).
 * If there is no sample, because there were only a few such pages, they count
 * like the pages that core skips.
 *
 * The pages that are skipped have as many tuples as those of the whole table
 * had.  An interrupted vacuum that was taken over has counted later than
 * pg_class says.
 */
void
pv_scan_estimate_tuples(PvVacuum *vac)
{
	BlockNumber pages = vac->sum.pages_scanned;
	double		tuples = vac->sum.live_tuples;
	BlockNumber skipped;
	double		on_skipped;

	if (pv_sample_estimate(&vac->sum.sample, &skipped, &on_skipped))
	{
		pages += skipped;
		tuples += on_skipped;
	}
	Assert(vac->sum.pages_scanned + skipped <= vac->plan.rel_pages);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
								 vac->plan.rel_pages);
	if (vac->goes_on)
	{
		pages = Min(pages + vac->kept.scan.pages, vac->plan.rel_pages);
		tuples += vac->kept.scan.tuples;
	}
	if (vac->kept.ref.token != 0 && vac->kept.live_tuples >= 0)
		vac->new_live_tuples = tuples + vac->kept.live_tuples /
			Max(vac->kept.pages, 1) * (vac->plan.rel_pages - pages);
	else
		vac->new_live_tuples =
			vac_estimate_reltuples(vac->rel, vac->plan.rel_pages, pages,
								   tuples);
	vac->new_rel_tuples = Max(vac->new_live_tuples, 0) +
		vac->sum.tuples_recently_dead + vac->sum.tuples_missed;
}
