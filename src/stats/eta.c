/*-------------------------------------------------------------------------
 *
 * eta.c
 *	  How long a vacuum in progress will still take.
 *
 * This is arithmetic only: it reads no clock, no shared memory and no catalog.
 * The leader of a vacuum runs it for the lines of VERBOSE, sessions run it for
 * parvacuum_progress, and the unit tests run it with numbers of their own.
 *
 * What is left is the sum of
 *
 *	 first heap pass	blocks still to be read
 *	 index scans		those expected, without what the present one has done
 *	 second heap pass	pages with dead items, found and still to be found
 *
 * each multiplied by the time that one page takes.  Index cleanup and truncation
 * count as nothing, as they take little time after an index scan.  The time
 * for a page comes from the first of these that is there:
 *
 *	1. if the vacuum is throttled, and sleeps for most of the time: the cost
 *	   units that the pages are expected to be worth, times the time that a
 *	   cost unit has taken in this vacuum
 *	2. the last vacuum of the table: what the phase took in it, times the
 *	   ratio of the times that a page of the first heap pass takes and took
 *
 * As soon as the phase has done something, in any index scan, what it took
 * counts as well, the more the more of the phase is done.  Without 1 and 2 it
 * counts alone, if it is enough to go by.  Otherwise the time is not known,
 * and so is the sum.  A guess would be worse than no answer.
 *
 * The model in 1 knows how many rows are dead and how many entries an index
 * page has.  In an index in the order of the heap the dead rows are together
 * if they are together in the heap, and one of several index scans comes to a
 * part of the index only.  In other indexes they are assumed to be anywhere.
 * Pages that were in shared buffers in the first heap pass are assumed to be
 * there, and dirty, in the second one.
 *
 * Where fewer processes can take part in an index phase than in a heap pass,
 * its pages count for more, as if those that must wait had visited some.
 *
 * The number of index scans is forecast from the memory that the dead items
 * have taken so far, and the share of the table in which they were found.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "stats/eta.h"

/*
 * Least time and least share of the work after which a phase is trusted to go
 * on as it began.  Either is sufficient.
 */
#define MIN_USECS				500000.0
#define MIN_SHARE				0.05

/*
 * Share of the work of a phase for which the time expected beforehand counts as
 * much as the time measured
 */
#define PRIOR_SHARE				0.1

/*
 * Dead rows are taken to be together in the heap if they are on less than this
 * part of the pages on which they would be otherwise
 */
#define CLUSTERED_BELOW			0.9

/* Share of the time that must be spent asleep for the model to be right */
#define MIN_SLEPT_SHARE			0.5

/*
 * The last vacuum tells nothing about this one if its first heap pass was so
 * many times faster or slower: it had other limits of cost, or a cold cache
 */
#define MAX_PAST_RATIO			3.0

static bool
is_known(double value)
{
	return value >= 0;
}

/* The time that a cost unit takes, in microseconds, or PV_ETA_UNKNOWN */
static double
usecs_per_cost(const PvEtaInput *input)
{
	const PvEtaMeasure *scan = &input->of[PV_PHASE_SCAN];

	if (!input->throttled || input->slept_share < MIN_SLEPT_SHARE ||
		scan->cost <= 0)
		return PV_ETA_UNKNOWN;
	return scan->usecs / scan->cost;
}

/*
 * The share of pages that have a dead row, if each row of a page is dead with
 * the same probability
 */
static double
pages_changed(double dead_share, double rows)
{
	return 1 - pow(1 - Max(Min(dead_share, 1.0), 0), rows);
}

/*
 * The cost units of an index page from which nothing is removed.
 */
double
pv_eta_unchanged_page(const PvEtaInput *input)
{
	return input->cost_hit * (1 - input->missed_share) +
		input->cost_miss * input->missed_share;
}

/*
 * The cost of an index page, in one of so many index scans, by the correlation
 * of the index.
 */
static double
model_index_page(const PvEtaInput *input, int index_scans, double correlation)
{
	double		per_page = input->index_tuples / Max(input->index_pages, 1);
	double		scans = Max(index_scans, 1);
	double		anywhere = pages_changed(input->dead_share / scans, per_page);
	double		in_order = pages_changed(input->dead_share, per_page);
	double		heap_pages = input->dead_pages / Max(input->read, 1) *
		Max(input->to_read, input->read) / Max(input->blocks, 1);
	double		changed;

	/* fewer heap pages than if the dead rows were anywhere in the heap? */
	if (heap_pages <
		CLUSTERED_BELOW * pages_changed(input->dead_share, input->page_rows))
		in_order = Min(in_order, heap_pages);
	changed = correlation * in_order / scans + (1 - correlation) * anywhere;
	return pv_eta_unchanged_page(input) + input->cost_dirty * changed;
}

/*
 * The cost of a page in the second heap pass, with that of the page of the
 * free space map.
 */
static double
model_heap_page(const PvEtaInput *input)
{
	return input->cost_hit + input->cost_hit * (1 - input->missed_share) +
		(input->cost_miss + input->cost_dirty) * input->missed_share;
}

/*
 * The time that a page takes, in microseconds, by a measurement and what was
 * expected before it; or PV_ETA_UNKNOWN.  total is the number of pages that the
 * phase has in all.
 */
static double
combine(const PvEtaMeasure *measure, double total, double beforehand)
{
	double		weight = PRIOR_SHARE * total;

	if (is_known(beforehand) && weight > 0)
		return (measure->usecs + weight * beforehand) /
			(measure->work + weight);
	if (measure->work > 0 && measure->usecs > 0 &&
		(measure->usecs >= MIN_USECS || measure->work >= MIN_SHARE * total))
		return measure->usecs / measure->work;
	return PV_ETA_UNKNOWN;
}

/* The work of an index scan, in pages */
static double
index_work(const PvEtaInput *input)
{
	return input->index_pages * Max(input->index_slowdown, 1.0);
}

/*
 * The time that a page is expected to take in a phase as the last vacuum went,
 * in microseconds, or PV_ETA_UNKNOWN
 */
static double
usecs_as_before(const PvEtaInput *input, const PvEtaPast *past, PvPhase phase)
{
	double		now = combine(&input->of[PV_PHASE_SCAN], input->to_read,
							  PV_ETA_UNKNOWN);
	double		ratio;

	if (!is_known(now) || past->scan_page <= 0)
		return PV_ETA_UNKNOWN;
	ratio = now / past->scan_page;
	if (ratio > MAX_PAST_RATIO || ratio < 1 / MAX_PAST_RATIO)
		return PV_ETA_UNKNOWN;

	if (phase == PV_PHASE_INDEX && past->index_scan > 0)
		return ratio * past->index_scan / Max(index_work(input), 1);
	if (phase == PV_PHASE_VACUUM_HEAP && past->dead_item > 0)
		return ratio * past->dead_item * input->dead_items /
			Max(input->dead_pages, 1);
	return PV_ETA_UNKNOWN;
}

/*
 * The time that a page is expected to take in a phase if nothing is known of
 * the phase itself, in microseconds, or PV_ETA_UNKNOWN
 */
static double
usecs_beforehand(const PvEtaInput *input, const PvEtaPast *past, PvPhase phase,
				 int index_scans)
{
	double		unit = usecs_per_cost(input);

	if (!is_known(unit))
		return usecs_as_before(input, past, phase);
	if (phase == PV_PHASE_INDEX)
		return unit *
			model_index_page(input, index_scans, input->correlation);
	if (phase == PV_PHASE_VACUUM_HEAP)
		return unit * model_heap_page(input);
	return PV_ETA_UNKNOWN;
}

/*
 * The time that a page takes in a phase of later index scans, or in the first
 * heap pass; otherwise as above.
 */
static double
usecs_per_page(const PvEtaInput *input, const PvEtaPast *past, PvPhase phase,
			   double total, int index_scans)
{
	return combine(&input->of[phase], total,
				   usecs_beforehand(input, past, phase, index_scans));
}

/*
 * The time that a page takes in the phase in progress.  What earlier index
 * scans took is expected beforehand.
 */
static double
usecs_per_page_now(const PvEtaInput *input, const PvEtaPast *past,
				   double total)
{
	const PvEtaMeasure *all = &input->of[input->phase];
	PvEtaMeasure earlier = {
		.usecs = Max(all->usecs - input->present.usecs, 0),
		.work = Max(all->work - input->present.work, 0),
	};

	return combine(&input->present, total,
				   combine(&earlier, total,
						   usecs_beforehand(input, past, input->phase,
											input->index_scans + 1)));
}

/*
 * Blocks that the first heap pass still has to read.  More than were thought
 * to be skippable may turn out not to be.
 */
static double
blocks_to_read(const PvEtaInput *input)
{
	double		left = input->blocks - input->passed;

	if (left <= 0)
		return 0;
	if (input->read < input->to_read)
		return Min(input->to_read - input->read, left);
	return input->passed > 0 ? left * input->read / input->passed : left;
}

/* The part of the first heap pass that is still to be done, 0 to 1 */
static double
share_left(const PvEtaInput *input)
{
	double		left = blocks_to_read(input);

	return left > 0 ? left / (input->read + left) : 0;
}

/*
 * The share of the store's limit that the whole table would take, by what was
 * found so far; or 0
 */
static double
store_for_all(const PvEtaInput *input)
{
	double		done = 1 - share_left(input);

	return done > 0 ? (input->store_before + input->store_share) / done : 0;
}

/*
 * The share at which the store is full.  Participants stop when it has no room
 * for another segment.
 */
static double
full_share(const PvEtaInput *input)
{
	double		full = 1;

	if (input->phase != PV_PHASE_SCAN && share_left(input) > 0)
		full = input->store_share;
	else if (input->index_scans > 0)
		full = input->store_before / input->index_scans;
	return Max(Min(full, 1.0), 0.5);
}

/*
 * Is the number of pages with dead items so low that no index will be vacuumed?
 */
static bool
expects_bypass(const PvEtaInput *input)
{
	return input->may_bypass && input->index_scans == 0 &&
		(input->phase == PV_PHASE_SCAN || input->phase == PV_PHASE_CLEANUP) &&
		input->dead_pages < PV_BYPASS_THRESHOLD_PAGES * input->passed;
}

/* The number of index scans in all, or PV_ETA_UNKNOWN. */
static int
expected_index_scans(const PvEtaInput *input)
{
	double		left = share_left(input);
	double		need;
	int			present;

	if (!input->vacuums_indexes)
		return 0;

	/* the present scan, if its phases have begun */
	present = input->phase == PV_PHASE_INDEX ||
		(input->phase == PV_PHASE_VACUUM_HEAP && input->index_scans == 0);
	if (left <= 0 && input->phase != PV_PHASE_SCAN)
		return input->index_scans + present;
	if (1 - left < MIN_SHARE / 5)
		return PV_ETA_UNKNOWN;
	if (expects_bypass(input))
		return 0;
	if (input->dead_pages > 0 && store_for_all(input) <= 0)
		return PV_ETA_UNKNOWN;

	need = left * store_for_all(input);
	if (input->phase == PV_PHASE_SCAN)
		need += input->store_share;
	return input->index_scans + present +
		(int) ceil(Min(need / full_share(input), 1e6));
}

/* The time left of the first heap pass until the store is full or it ends */
static double
scan_left(const PvEtaInput *input, double page)
{
	double		blocks = blocks_to_read(input);
	double		left = share_left(input);
	double		room = Max(full_share(input) - input->store_share, 0);

	/* the store may be full earlier */
	if (input->vacuums_indexes && room < left * store_for_all(input))
		blocks *= room / (left * store_for_all(input));
	return blocks * page;
}

/* The time left in the present phase, or PV_ETA_UNKNOWN */
static double
phase_left(const PvEtaInput *input, const PvEtaPast *past)
{
	double		total,
				left,
				page;

	switch (input->phase)
	{
		case PV_PHASE_SCAN:
			page = usecs_per_page(input, past, PV_PHASE_SCAN,
								  input->to_read, 1);
			return is_known(page) ? scan_left(input, page) : PV_ETA_UNKNOWN;
		case PV_PHASE_INDEX:
		case PV_PHASE_CLEANUP:
			total = input->index_total;
			left = total - input->index_done;
			break;
		case PV_PHASE_VACUUM_HEAP:
			total = input->vacuum_total;
			left = total - input->vacuum_done;
			break;
		default:
			return PV_ETA_UNKNOWN;
	}
	if (total <= 0 || left <= 0)
		return 0;
	page = usecs_per_page_now(input, past, total);
	return is_known(page) ? left * page : PV_ETA_UNKNOWN;
}

/*
 * The time left for index scans that have not begun, and for the second heap
 * pass, without the phase in progress; or PV_ETA_UNKNOWN.
 */
static double
later_phases(const PvEtaInput *input, const PvEtaPast *past, int index_scans)
{
	double		scans = index_scans - input->index_scans;
	double		found = input->dead_pages;
	double		heap_pages,
				page;
	double		usecs = 0;

	if (input->phase == PV_PHASE_INDEX)
		scans--;
	if (scans > 0)
	{
		page = usecs_per_page(input, past, PV_PHASE_INDEX, index_work(input),
							  index_scans);
		if (!is_known(page))
			return PV_ETA_UNKNOWN;
		usecs += scans * index_work(input) * page;
	}

	if (share_left(input) < 1)
		found /= 1 - share_left(input);
	heap_pages = found - input->vacuumed;
	if (input->phase == PV_PHASE_VACUUM_HEAP)
		heap_pages -= input->vacuum_total - input->vacuum_done;
	if (index_scans > 0 && heap_pages >= 1 &&
		(scans > 0 || input->phase == PV_PHASE_INDEX))
	{
		page = usecs_per_page(input, past, PV_PHASE_VACUUM_HEAP, found,
							  index_scans);
		if (!is_known(page))
			return PV_ETA_UNKNOWN;
		usecs += heap_pages * page;
	}
	return usecs;
}

/* The time left for the rest of the first heap pass, or PV_ETA_UNKNOWN */
static double
all_scans_left(const PvEtaInput *input, const PvEtaPast *past)
{
	double		blocks = blocks_to_read(input);
	double		page;

	if (blocks <= 0)
		return 0;
	page = usecs_per_page(input, past, PV_PHASE_SCAN, input->to_read, 1);
	return is_known(page) ? blocks * page : PV_ETA_UNKNOWN;
}

/* The time left in all, or PV_ETA_UNKNOWN */
static double
all_left(const PvEtaInput *input, const PvEtaPast *past, const PvEta *eta)
{
	double		scans,
				later;

	if (input->phase == PV_PHASE_CLEANUP)
		return eta->phase_usecs;
	if (!is_known(eta->phase_usecs) || eta->index_scans == PV_ETA_UNKNOWN)
		return PV_ETA_UNKNOWN;

	scans = all_scans_left(input, past);
	later = later_phases(input, past, eta->index_scans);
	if (!is_known(scans) || !is_known(later))
		return PV_ETA_UNKNOWN;

	/* in the first heap pass, what is left of it includes this part */
	return scans + later +
		(input->phase == PV_PHASE_SCAN ? 0 : eta->phase_usecs);
}

/*
 * The cost units of an index page that are expected, by the correlation of the
 * index with the heap.
 */
double
pv_eta_index_page(const PvEtaInput *input, double correlation)
{
	int			index_scans = expected_index_scans(input);

	return model_index_page(input, Max(index_scans, 1), correlation);
}

/*
 * Forecast what is left of a vacuum.  past is what the last vacuum of the same
 * table took.  The times in *eta count from the moment at which the
 * input was true.
 */
void
pv_eta(const PvEtaInput *input, const PvEtaPast *past, PvEta *eta)
{
	const PvEtaMeasure *measure = &input->of[input->phase];

	eta->rate = measure->usecs > 0 ? measure->work / measure->usecs * 1e6 :
		PV_ETA_UNKNOWN;
	if (input->phase == PV_PHASE_INDEX || input->phase == PV_PHASE_CLEANUP)
		eta->rate /= Max(input->index_stretch, 1.0);
	eta->index_scans = expected_index_scans(input);
	eta->phase_usecs = phase_left(input, past);
	eta->usecs = all_left(input, past, eta);
}
