/*-------------------------------------------------------------------------
 *
 * forecast.c
 *	  What a vacuum will cost, computed from what is known of the table.
 *
 * Pure functions: no catalog, no page, no clock, no lock.  engine/survey.c
 * finds out what they need.  docs/monitoring.md describes this model for
 * users, and bench/plan compares it with vacuums.
 *
 * Time: each phase is a sum of work, each kind with a constant in
 * microseconds.  n participants do it in 1 / (1 + EFFICIENCY * (n - 1)) of
 * the time, and a phase cannot be shorter than the largest index that one
 * process vacuums alone.  The time to write WAL is added undivided, because one
 * process at a time writes it.  So are the sleeps for the cost-based delay: the
 * cost units of the phase, divided by the budget of all participants.
 *
 *	 scan	 pages (more if they must be read, or after pages that are skipped),
 *			 tuples, dead tuples (more if they leave no dead item), WAL
 *	 index	 pages, entries, removed entries, WAL; for each index scan
 *	 vacuum	 pages with dead items, dead items, WAL
 *
 * The constants are those of one machine, for a table in memory.  The rates of
 * an earlier vacuum of the table ("past") are better: the model is applied to
 * what that vacuum did, and the ratio of its real to its modelled time
 * corrects each phase.
 *
 * WAL: a number of records with a fixed size and a part for each item, and a
 * full page image for the first change of a page since the last checkpoint.
 * Deletions of B-tree pages, GIN's pending lists and truncation are left out.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "engine/forecast.h"

/* Microseconds of one process; bench/results/plan.md has the measurement */
#define SCAN_PAGE_USECS			1.0
#define SCAN_TUPLE_USECS		0.008
#define SCAN_DEAD_USECS			0.015
#define SCAN_CHAIN_USECS		0.08
#define SCAN_JUMP_USECS			3.0
#define READ_PAGE_USECS			4.0
#define INDEX_PAGE_USECS		1.0
#define INDEX_ENTRY_USECS		0.005
#define INDEX_REMOVED_USECS		0.015
#define VACUUM_PAGE_USECS		1.2
#define VACUUM_ITEM_USECS		0.006
#define WAL_RECORD_USECS		0.3
#define WAL_BYTE_USECS			0.0004

/* ... of the whole vacuum, with and without workers */
#define FIXED_USECS				150.0
#define LAUNCH_USECS			2500.0

/* What a participant adds to the work of one process */
#define EFFICIENCY				0.5

/* Bytes of WAL records, each with its header and reference to a block */
#define PRUNE_RECORD_BYTES		56
#define FREEZE_RECORD_BYTES		80
#define MAP_RECORD_BYTES		64
#define HINT_RECORD_BYTES		50
#define VACUUM_RECORD_BYTES		54
#define INDEX_RECORD_BYTES		54
#define ITEM_BYTES				2
#define IMAGE_HEADER_BYTES		8

/* Heap pages of which one page of the visibility map has the bits */
#define PAGES_PER_MAP_PAGE		((double) BLCKSZ * 4)

/* The same for the free space map, and its pages above those */
#define PAGES_PER_SPACE_PAGE	((double) BLCKSZ / 2)
#define UPPER_SPACE_PAGES		2

/* A shorter phase of an earlier vacuum says nothing about rates */
#define MIN_PAST_MS				0.2

/* WAL and time of one phase */
typedef struct Work
{
	double		usecs;			/* of one process, without WAL */
	double		alone_usecs;	/* of these, the longest that cannot be shared */
	double		wal_usecs;		/* to write WAL, whoever does it */
	double		units;			/* of the cost-based delay */
	double		records;
	double		images;
	double		wal_bytes;
} Work;

/*
 * Add records.  Each has a base, and a number of items in all of them.
 * "images" of them have an image instead of the items.
 */
static void
add_records(Work *work, double records, double base, double items,
			double images, double image_bytes)
{
	double		with_items = records > 0 ?
		Max(records - images, 0) / records : 0;

	work->records += records;
	work->images += images;
	work->wal_bytes += records * base + items * ITEM_BYTES * with_items +
		images * (image_bytes + IMAGE_HEADER_BYTES);
}

/* The cost units for pages that are found or read, of which some are changed */
static double
cost_units(const PvForecastDelay *delay, double pages, double cached,
		   double changed)
{
	return pages * (cached * delay->page_hit +
					(1 - cached) * delay->page_miss) +
		changed * delay->page_dirty;
}

static void
finish_work(const PvForecastInput *input, Work *work)
{
	if (!input->logged)
		work->records = work->images = work->wal_bytes = 0;
	work->wal_usecs = work->records * WAL_RECORD_USECS +
		work->wal_bytes * WAL_BYTE_USECS;
}

/*
 * Images of pages of the two maps.  It is not known whether they have been
 * changed since the last checkpoint.  They are few, so that this matters for
 * small tables only.  The free space map has no records, but its changes count
 * as hints.  "changed" is the number of heap pages.
 */
static void
map_images(const PvForecastInput *input, double changed, Work *work)
{
	double		images = 0;

	if (!input->full_page_writes || changed < 0.5)
		return;
	if (input->visible_pages + input->item_pages >= 0.5)
		images += Min(ceil(input->rel_pages / PAGES_PER_MAP_PAGE), changed);
	if (input->hints_need_image)
		images += Min(ceil(input->rel_pages / PAGES_PER_SPACE_PAGE), changed) +
			UPPER_SPACE_PAGES;
	add_records(work, 0, 0, 0, images, BLCKSZ);
}

/* The first heap pass */
static void
scan_work(const PvForecastInput *input, Work *work)
{
	const PvForecastPages *heap = &input->heap;
	double		logged_changes = Max(input->dead_pages, input->freeze_pages);
	double		map_only = Max(input->visible_pages - logged_changes, 0);
	double		changed = Max(logged_changes, input->visible_pages);
	double		hints = 0;
	double		freed = input->dead_pages > 0 ?
		input->dead_bytes / input->dead_pages : 0;
	double		images;

	memset(work, 0, sizeof(*work));
	work->usecs = input->scan_pages *
		(SCAN_PAGE_USECS + (1 - heap->cached) * READ_PAGE_USECS) +
		input->jumps * SCAN_JUMP_USECS +
		input->tuples * SCAN_TUPLE_USECS +
		input->dead_tuples * SCAN_DEAD_USECS +
		Max(input->dead_tuples - input->dead_items, 0) * SCAN_CHAIN_USECS;
	work->units = cost_units(&input->delay, input->scan_pages, heap->cached,
							 changed);

	/*
	 * If hint bits are set first, an image is logged for them alone.  A
	 * record of pruning has the image of the page as it is afterwards.
	 */
	if (input->hints_need_image)
		hints = Min(input->hint_pages, changed) * heap->fpi;
	add_records(work, hints, HINT_RECORD_BYTES, 0, hints, heap->image_bytes);
	images = Max(logged_changes * heap->fpi - hints, 0);
	add_records(work, input->freezes_apart ? input->dead_pages :
				logged_changes, PRUNE_RECORD_BYTES, input->dead_tuples,
				images, Max(heap->image_bytes - freed, 0));
	if (input->freezes_apart)
		add_records(work, input->freeze_pages, FREEZE_RECORD_BYTES, 0, 0, 0);
	if (input->unused_apart && input->nindexes == 0)
		add_records(work, input->item_pages, VACUUM_RECORD_BYTES,
					input->dead_items, 0, 0);

	/* bits of the map */
	add_records(work, input->map_in_record ? map_only : input->visible_pages,
				MAP_RECORD_BYTES, 0,
				input->hints_need_image ?
				Max(changed * heap->fpi - hints - images, 0) : 0,
				heap->image_bytes);
	map_images(input, changed, work);
	finish_work(input, work);
}

/* The size of an image of an index page without its removed entries */
static double
image_of_changed(const PvForecastIndex *index, double records)
{
	double		on_page = index->entries / Max(index->pages, 1);
	double		removed = records > 0 ? index->removed / records : 0;

	if (on_page <= 0)
		return index->state.image_bytes;
	return index->state.image_bytes * (1 - Min(removed / on_page, 1));
}

/* Bulk deletion in all indexes, for all index scans together */
static void
index_work(const PvForecastInput *input, int index_scans, Work *work)
{
	memset(work, 0, sizeof(*work));
	for (int i = 0; i < input->nindexes; i++)
	{
		const PvForecastIndex *index = &input->indexes[i];
		double		changed = Min(index->pages * index->hit, index->removed);
		double		records = Min(changed *
								  (1 + (index_scans - 1) * index->spread),
								  index->removed);
		double		usecs;

		if (!index->deletes)
			continue;

		usecs = index_scans *
			(index->pages * INDEX_PAGE_USECS +
			 index->entries * INDEX_ENTRY_USECS) +
			index->pages * (1 - index->state.cached) * READ_PAGE_USECS +
			index->removed * INDEX_REMOVED_USECS;
		work->usecs += usecs;
		if (!index->together)
			work->alone_usecs = Max(work->alone_usecs, usecs);
		work->units += index_scans *
			cost_units(&input->delay, index->pages, index->state.cached,
					   records / index_scans);
		add_records(work, records, INDEX_RECORD_BYTES, index->removed,
					changed * index->state.fpi,
					image_of_changed(index, records));
	}
	finish_work(input, work);
}

/* The second heap pass */
static void
vacuum_work(const PvForecastInput *input, Work *work)
{
	memset(work, 0, sizeof(*work));
	work->usecs = input->item_pages * VACUUM_PAGE_USECS +
		input->dead_items * VACUUM_ITEM_USECS;
	work->units = cost_units(&input->delay, input->item_pages, 1, 0);
	add_records(work, input->item_pages, VACUUM_RECORD_BYTES,
				input->dead_items, 0, 0);
	if (!input->map_in_record)
		add_records(work, input->item_pages, MAP_RECORD_BYTES, 0, 0, 0);
	finish_work(input, work);
}

/* Add a phase to the forecast. */
static void
add_phase(const PvForecastInput *input, const Work *work, PvPhase phase,
		  PvForecast *forecast)
{
	const PvForecastDelay *delay = &input->delay;
	double		speed = 1 + EFFICIENCY * input->workers;

	forecast->wal_records += work->records;
	forecast->wal_fpi += work->images;
	forecast->wal_bytes += work->wal_bytes;
	forecast->ms[phase] = (Max(work->usecs / speed, work->alone_usecs) +
						   work->wal_usecs) / 1000;
	if (delay->delay_ms > 0 && delay->limit > 0)
		forecast->sleep_ms[phase] =
			work->units / delay->limit * delay->delay_ms /
			(1 + delay->scale * input->workers);
	forecast->ms[phase] += forecast->sleep_ms[phase];
}

/* The model, with the constants. */
static void
apply_model(const PvForecastInput *input, PvForecast *forecast)
{
	Work		work;

	memset(forecast, 0, sizeof(*forecast));
	scan_work(input, &work);
	add_phase(input, &work, PV_PHASE_SCAN, forecast);
	forecast->bypassed = input->vacuums_indexes && input->dead_items > 0 &&
		input->bypasses;
	if (input->vacuums_indexes && input->dead_items > 0 && !input->bypasses)
	{
		forecast->index_scans = Max(input->index_scans, 1);
		index_work(input, forecast->index_scans, &work);
		add_phase(input, &work, PV_PHASE_INDEX, forecast);
		vacuum_work(input, &work);
		add_phase(input, &work, PV_PHASE_VACUUM_HEAP, forecast);
	}
	forecast->ms[PV_PHASE_DONE] =
		(FIXED_USECS + (input->workers > 0 ? LAUNCH_USECS : 0)) / 1000;
}

/*
 * The input that describes an earlier vacuum of the table: what its result
 * says, and what the result does not say is as it is now.  It has not slept.
 * The result has the number of pages that were read, but not whose they were:
 * the same share of each relation is assumed to have been in shared buffers.
 */
static void
describe_past(const PvForecastInput *now, const PvResult *past,
			  PvForecastIndex *indexes, PvForecastInput *then)
{
	double		pages = now->scan_pages > 0 ?
		past->pages_scanned / now->scan_pages : 1;
	double		dead = now->dead_tuples > 0 ?
		past->tuples_removed / now->dead_tuples : 0;
	double		items = now->dead_items > 0 ?
		past->dead_items / now->dead_items : 0;
	double		visited = past->pages_scanned;

	*then = *now;
	then->scan_pages = past->pages_scanned;
	then->jumps = Min(now->jumps * pages,
					  (double) past->pages_total - past->pages_scanned);
	then->tuples = past->tuples_removed +
		(past->tuples_remaining + past->tuples_recently_dead) *
		(past->pages_scanned / Max((double) past->pages_total, 1));
	then->dead_tuples = past->tuples_removed;
	then->dead_pages = Min(now->dead_pages * dead, then->scan_pages);
	then->dead_items = past->dead_items;
	then->item_pages = Min(now->item_pages * items, then->scan_pages);
	then->freeze_pages = Min(now->freeze_pages, then->scan_pages);
	then->visible_pages = Min(now->visible_pages, then->scan_pages);
	then->bypasses = past->index_scans == 0;
	then->index_scans = past->index_scans;
	then->delay.delay_ms = 0;
	then->workers = past->workers_launched;
	for (int i = 0; i < now->nindexes; i++)
	{
		indexes[i] = now->indexes[i];
		indexes[i].removed *= items;
		if (past->index_scans > 0 && indexes[i].deletes)
			visited += indexes[i].pages;
	}
	then->heap.cached =
		1 - Min(past->buffers_read / Max(visited, 1), 1);
	for (int i = 0; i < now->nindexes; i++)
		indexes[i].state.cached = then->heap.cached;
	then->indexes = indexes;
}

/*
 * The same for the time outside of the phases that are modelled: to launch
 * workers, to clean up, to truncate.
 */
static double
other_factor(const PvResult *past, const PvForecast *model)
{
	double		real_ms = (past->elapsed_usecs -
						   past->usecs[PV_PHASE_SCAN] -
						   past->usecs[PV_PHASE_INDEX] -
						   past->usecs[PV_PHASE_VACUUM_HEAP]) / 1000.0;

	return real_ms > 0 ? real_ms / model->ms[PV_PHASE_DONE] : 1;
}

/*
 * By how much the real time of each phase of an earlier vacuum differs from
 * the model's.  A phase that it did not have, or that was too short to
 * measure, has the factor of the heap scan.
 */
static void
past_factors(const PvForecastInput *input, const PvResult *past,
			 double *factors)
{
	PvForecastIndex *indexes =
		palloc(Max(input->nindexes, 1) * sizeof(PvForecastIndex));
	PvForecastInput then;
	PvForecast	model;
	double		scan = 1;

	describe_past(input, past, indexes, &then);
	apply_model(&then, &model);
	for (PvPhase phase = 0; phase < PV_NUM_PHASES; phase++)
	{
		double		real_ms = past->usecs[phase] / 1000.0;

		factors[phase] = real_ms >= MIN_PAST_MS && model.ms[phase] > 0 ?
			real_ms / model.ms[phase] : scan;
		if (phase == PV_PHASE_SCAN)
			scan = factors[phase];
	}
	factors[PV_PHASE_DONE] = other_factor(past, &model);
	pfree(indexes);
}

/*
 * What a vacuum will cost.  "past" is the result of an earlier vacuum of the
 * same table by the engine, or NULL if none is known.
 */
void
pv_forecast(const PvForecastInput *input, const PvResult *past,
			PvForecast *forecast)
{
	double		factors[PV_NUM_PHASES];

	apply_model(input, forecast);
	if (past != NULL && past->by_engine)
	{
		past_factors(input, past, factors);
		for (PvPhase phase = 0; phase < PV_NUM_PHASES; phase++)
			forecast->ms[phase] = forecast->sleep_ms[phase] +
				(forecast->ms[phase] - forecast->sleep_ms[phase]) *
				factors[phase];
	}
	for (PvPhase phase = 0; phase < PV_NUM_PHASES; phase++)
		forecast->elapsed_ms += forecast->ms[phase];
}

/*
 * Would a vacuum be of any use now?  It is if it removes something, freezes
 * something that is old enough, sets pages all-visible, has work in the cleanup
 * of an index, or is aggressive and so advances relfrozenxid.  "waiting" is how
 * much must wait for the horizon: dead rows that are not removable yet, pages
 * that cannot be set all-visible.
 */
PvUse
pv_forecast_use(const PvForecastInput *input, double waiting,
				bool advances_relfrozenxid)
{
	if (input->dead_tuples >= 0.5 || input->dead_items >= 0.5 ||
		input->freeze_pages >= 0.5 || input->visible_pages >= 0.5 ||
		input->index_work || advances_relfrozenxid)
		return PV_USE_SOME;
	return waiting >= 0.5 ? PV_USE_HORIZON : PV_USE_NOTHING_TO_DO;
}
