/*-------------------------------------------------------------------------
 *
 * eta.c
 *	  How long the rest of a vacuum will take.
 *
 * Pure functions: no clock, no lock, no shared state.  Sessions run them for
 * parvacuum_progress and parvacuum_plan(), and a leader for VERBOSE.
 *
 * For each phase, the rest is the number of pages left times the time that a
 * page takes:
 *
 *	 - as in this vacuum, once the phase has done enough, in any index scan
 *	 - else as in the last vacuum of the table, times the ratio of the times
 *	   that a page of the heap scan takes now and took then
 *	 - not known if there is no such vacuum, or if it was more than three times
 *	   as fast or as slow.  Then the sum is not known either.
 *
 * A plan has no time of its own, so there the ratio is 1.  Index cleanup and
 * truncation count as nothing, as they take little time after an index scan.
 *
 * The number of index scans follows from how often the dead items have filled
 * the store so far, and from the share of the table in which they were found.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "stats/eta.h"

/*
 * A phase has done enough to go by after this time, or after this share of its
 * work
 */
#define MIN_USECS				500000.0
#define MIN_SHARE				0.05

/* Share of the heap scan after which the number of index scans is forecast */
#define MIN_SCANNED				0.01

/*
 * The last vacuum tells nothing about this one if its heap scan was so many
 * times faster or slower: it had other limits of cost, or a cold cache
 */
#define MAX_PAST_RATIO			3.0

/* Set *past to what a vacuum took. */
void
pv_eta_past(const PvResult *last, PvEtaPast *past)
{
	memset(past, 0, sizeof(*past));
	if (last->pages_scanned > 0)
		past->scan_page = (double) last->usecs[PV_PHASE_SCAN] /
			last->pages_scanned;
	if (last->index_scans > 0)
		past->index_scan = (double) last->usecs[PV_PHASE_INDEX] /
			last->index_scans;
	if (last->index_scans > 0 && last->dead_items > 0)
		past->dead_item = (double) last->usecs[PV_PHASE_VACUUM_HEAP] /
			last->dead_items;
}

/*
 * Return the microseconds that a page of a phase took in the last vacuum, or
 * PV_ETA_UNKNOWN.  It is assumed to have visited as many index pages in each
 * index scan, and to have found as many dead items on a heap page, as this one.
 */
double
pv_eta_past_page(const PvEtaPast *past, PvPhase phase, double index_pages,
				 double items_per_page)
{
	double		usecs = 0;

	if (phase == PV_PHASE_SCAN)
		usecs = past->scan_page;
	else if (phase == PV_PHASE_INDEX && index_pages > 0)
		usecs = past->index_scan / index_pages;
	else if (phase == PV_PHASE_VACUUM_HEAP)
		usecs = past->dead_item * items_per_page;
	return usecs > 0 ? usecs : PV_ETA_UNKNOWN;
}

/* Return the microseconds that so many pages take, or PV_ETA_UNKNOWN. */
double
pv_eta_usecs(double pages, double usecs_per_page)
{
	if (pages <= 0)
		return 0;
	return usecs_per_page >= 0 ? pages * usecs_per_page : PV_ETA_UNKNOWN;
}

/*
 * Return the number of blocks that the heap scan still has to read.  More than
 * were thought to be skippable may turn out not to be.
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

/* Return the share of the heap scan that is done, 0 to 1. */
static double
share_scanned(const PvEtaInput *input)
{
	double		left = blocks_to_read(input);

	return left > 0 ? input->read / (input->read + left) : 1;
}

/* Return the number of index scans in all, or PV_ETA_UNKNOWN. */
static int
expected_index_scans(const PvEtaInput *input)
{
	double		done = share_scanned(input);
	double		fillings = input->index_scans;

	if (!input->vacuums_indexes)
		return input->index_scans;
	if (done < MIN_SCANNED)
		return PV_ETA_UNKNOWN;
	if (input->phase == PV_PHASE_SCAN)
	{
		if (input->may_bypass && input->index_scans == 0 &&
			pv_few_enough_to_bypass((BlockNumber) input->blocks,
									input->dead_pages / done,
									input->items_per_page *
									input->dead_pages / done))
			return 0;
		fillings += input->store_share;
	}
	else if (input->phase == PV_PHASE_INDEX)
		fillings++;
	return (int) ceil(Min(fillings / done, 1e6));
}

/*
 * Return the number of pages that are left in the phase in progress.  The heap
 * scan may have to stop because the store is full.
 */
static double
left_in_phase(const PvEtaInput *input)
{
	double		left = blocks_to_read(input);
	double		fillings = input->index_scans + input->store_share;

	if (input->phase == PV_PHASE_VACUUM_HEAP)
		return input->dead_pages - input->vacuumed;
	if (input->phase != PV_PHASE_SCAN)
		return input->index_total - input->index_done;
	if (input->vacuums_indexes && fillings > 0)
		left = Min(left, Max(1 - input->store_share, 0) *
				   input->read / fillings);
	return left;
}

/*
 * Return the number of pages that are left in a phase, with those of later
 * index scans.
 */
static double
left_in_all(const PvEtaInput *input, PvPhase phase, int index_scans)
{
	if (phase == PV_PHASE_SCAN)
		return blocks_to_read(input);
	if (phase == PV_PHASE_INDEX)
		return input->index_pages * (index_scans - input->index_scans) -
			(input->phase == PV_PHASE_INDEX ? input->index_done : 0);
	if (index_scans > 0 && input->vacuums_indexes)
		return input->dead_pages / share_scanned(input) - input->vacuumed;
	return input->phase == PV_PHASE_VACUUM_HEAP ? left_in_phase(input) : 0;
}

/* Return the microseconds that a page of a phase takes, or PV_ETA_UNKNOWN. */
static double
usecs_per_page(const PvEtaInput *input, const PvEtaPast *past, PvPhase phase)
{
	const double totals[PV_NUM_PHASES] = {
		[PV_PHASE_SCAN] = input->to_read,
		[PV_PHASE_INDEX] = input->index_pages,
		[PV_PHASE_VACUUM_HEAP] = input->dead_pages,
		[PV_PHASE_CLEANUP] = input->index_total,
	};
	const PvEtaMeasure *own = &input->of[phase];
	double		then,
				ratio;

	if (own->pages > 0 && (own->usecs >= MIN_USECS ||
						   own->pages >= MIN_SHARE * totals[phase]))
		return own->usecs / own->pages;
	if (phase == PV_PHASE_SCAN || past->scan_page <= 0)
		return PV_ETA_UNKNOWN;

	then = pv_eta_past_page(past, phase, input->index_pages,
							input->items_per_page);
	ratio = usecs_per_page(input, past, PV_PHASE_SCAN) / past->scan_page;
	if (then < 0 || ratio > MAX_PAST_RATIO || ratio < 1 / MAX_PAST_RATIO)
		return PV_ETA_UNKNOWN;
	return ratio * then;
}

/* Return the time that the rest of all phases takes, or PV_ETA_UNKNOWN. */
static double
all_left(const PvEtaInput *input, const PvEtaPast *past, int index_scans)
{
	double		sum = 0;

	for (PvPhase phase = PV_PHASE_SCAN; phase <= PV_PHASE_VACUUM_HEAP; phase++)
	{
		double		usecs =
			pv_eta_usecs(left_in_all(input, phase, index_scans),
						 usecs_per_page(input, past, phase));

		if (usecs < 0)
			return PV_ETA_UNKNOWN;
		sum += usecs;
	}
	return sum;
}

/*
 * Forecast what is left of a vacuum.  The times in *eta count from the moment
 * at which the input was true.
 */
void
pv_eta(const PvEtaInput *input, const PvEtaPast *past, PvEta *eta)
{
	const PvEtaMeasure *own = &input->of[input->phase];

	eta->rate = own->usecs > 0 ? own->pages / own->usecs * 1e6 :
		PV_ETA_UNKNOWN;
	eta->index_scans = expected_index_scans(input);
	eta->phase_usecs = eta->usecs = PV_ETA_UNKNOWN;
	if (input->phase < PV_PHASE_SCAN || input->phase > PV_PHASE_CLEANUP)
		return;

	eta->phase_usecs =
		pv_eta_usecs(left_in_phase(input),
					 usecs_per_page(input, past, input->phase));
	if (input->phase == PV_PHASE_CLEANUP)
		eta->usecs = eta->phase_usecs;
	else if (eta->index_scans != PV_ETA_UNKNOWN)
		eta->usecs = all_left(input, past, eta->index_scans);
}
