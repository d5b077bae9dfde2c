/*-------------------------------------------------------------------------
 *
 * survey.c
 *	  Finds out what a vacuum of a table would do, without doing it.
 *
 * A session runs this, for parvacuum_plan().  It changes nothing, apart from
 * the hint bits that any reader of a page may set.  It runs no code of the
 * table's owner.
 *
 *	 cutoffs, skipping, workers		the functions of a vacuum (engine/plan.c)
 *	 pages to scan					the decisions of a heap scan
 *									(engine/dispense.c), for each block, by the
 *									visibility map
 *	 what is on these pages			a random sample of them, and the cumulative
 *									statistics
 *	 memory							the sampled pages' dead items, packed as the
 *									store packs them
 *	 time and WAL					engine/forecast.c
 *
 * Two samples are taken: of the pages that are not all-visible, which are the
 * only ones that can have dead rows, and of all-visible pages that are read
 * nevertheless.  If the first sample is the whole, it says how many dead rows
 * there are.  Otherwise the cumulative statistics (n_dead_tup) say that, unless
 * the sample shows that they are wrong (engine/extrapolate.c).  The sample then
 * only says of which kind the dead rows are: removable or not, with an index
 * entry of their own or not.
 *
 * Locks: AccessShareLock on the table and its indexes.  A page that is read is
 * pinned and has a share lock, one at a time.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/multixact.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/settings.h"
#include "engine/dispense.h"
#include "engine/index_vacuum.h"
#include "engine/plan.h"
#include "engine/survey.h"
#include "engine/survey_state.h"
#include "store/deadtids.h"

/*
 * Pages of each kind that are read at most, an even number; at least half as
 * many if there are more
 */
#define SAMPLE_UNSEEN			192 /* heap pages that are not all-visible */
#define SAMPLE_VISIBLE			32	/* all-visible heap pages */


/* ----------------------------------------------------------------
 *		Which pages
 * ----------------------------------------------------------------
 */

/*
 * The sample is full: have each of its pages stand for twice as many pages.
 */
static void
thin_out(PvStratum *stratum)
{
	for (int i = 0; i < stratum->room / 2; i++)
		stratum->blocks[i] =
			stratum->blocks[2 * i + (pg_prng_bool(&pg_global_prng_state))];
	stratum->n = stratum->room / 2;
	stratum->every *= 2;
}

/*
 * Count a page of the stratum, and perhaps keep it for the sample.
 *
 * The sample has one page of each group of "every" consecutive pages of the
 * stratum, so that each part of the table is represented.  Rows that were
 * changed together are together in the table.  Which page of the group it is,
 * is chosen before the group begins.  So a page of the last group, which may be
 * short, has the same chance as any other.  The last pages of a table often
 * differ from the others.
 */
static void
add_to_stratum(PvStratum *stratum, BlockNumber blkno)
{
	uint32		place = stratum->pages % stratum->every;

	if (place == 0 && stratum->n == stratum->room)
	{
		thin_out(stratum);
		place = stratum->pages % stratum->every;
	}
	stratum->pages++;
	if (place == 0)
		stratum->chosen =
			(uint32) pg_prng_uint64_range(&pg_global_prng_state, 0,
										  stratum->every - 1);
	if (place == stratum->chosen)
		stratum->blocks[stratum->n++] = blkno;
}

static void
clear_stratum(PvStratum *stratum, int room)
{
	stratum->pages = 0;
	stratum->n = 0;
	stratum->every = 1;
	stratum->room = room;
	if (stratum->blocks == NULL)
		stratum->blocks = palloc(room * sizeof(BlockNumber));
}

/* Callback of pv_blockscan_preview(): a block that the heap scan would visit */
static void
note_block(BlockNumber blkno, void *arg)
{
	PvSurveyState *state = arg;
	uint8		mapbits = visibilitymap_get_status(state->rel, blkno,
												   &state->vmbuffer);

	/* At first this expects block 0, because InvalidBlockNumber + 1 is 0 */
	if (blkno != state->last_block + 1)
		state->jumps++;
	state->last_block = blkno;
	if (mapbits & VISIBILITYMAP_ALL_VISIBLE)
	{
		add_to_stratum(&state->visible, blkno);
		return;
	}
	add_to_stratum(&state->unseen, blkno);
	if (PV_SEGMENT_OF(blkno) != state->last_segment)
		state->segments++;
	state->last_segment = PV_SEGMENT_OF(blkno);
}

/*
 * Go through the visibility map, and choose the pages of the samples.  Returns
 * whether a page would be skipped that is all-visible but not all-frozen.
 */
static bool
choose_pages(PvSurveyState *state, PvSampleSize sample_size)
{
	const PvVacuumPlan *plan = &state->vac->plan;
	bool		skippedallvis;

	clear_stratum(&state->unseen, SAMPLE_UNSEEN);
	clear_stratum(&state->visible, SAMPLE_VISIBLE);
	state->last_block = InvalidBlockNumber;
	state->jumps = 0;
	state->last_segment = PG_UINT32_MAX;
	state->segments = 0;
	skippedallvis = pv_blockscan_preview(state->rel, plan->rel_pages,
										 plan->nslots, &plan->skipping,
										 &plan->eager, sample_size,
										 note_block, state);
	if (BufferIsValid(state->vmbuffer))
		ReleaseBuffer(state->vmbuffer);
	state->vmbuffer = InvalidBuffer;
	return skippedallvis;
}


/* ----------------------------------------------------------------
 *		What that means for the table
 * ----------------------------------------------------------------
 */

/* Is the sample all pages of the stratum? */
static bool
is_complete(const PvStratum *stratum)
{
	return (BlockNumber) stratum->n == stratum->pages;
}

/*
 * The number of dead rows according to the cumulative statistics, or -1 if
 * they do not know the table, or if the sample counts all of the rows.
 */
static double
known_dead(const PvSurveyState *state)
{
	double		dead,
				inserted,
				modified;

	if (is_complete(&state->unseen) ||
		!pv_fetch_counts(state->rel->rd_rel->relisshared,
						 RelationGetRelid(state->rel), &dead, &inserted,
						 &modified))
		return -1;
	return dead;
}

/*
 * If the sample has no dead row although the statistics know of some, these
 * are taken for deleted rows, as many on a page as there are rows.
 */
static void
take_statistics(const PvStratum *unseen, double dead, PvForecastInput *input)
{
	double		on_page = Max((double) unseen->tuples / Max(unseen->n, 1), 1);

	if (dead < 0 || unseen->gone.rows > 0 ||
		!pv_count_is_plausible(&unseen->gone, dead))
		return;
	dead = Min(dead, (double) unseen->pages * on_page);
	input->dead_tuples = input->dead_items = dead;
	input->dead_pages = input->item_pages = ceil(dead / on_page);
}

/* What the heap scan will find. */
static void
describe_heap(PvSurveyState *state, PvSurvey *survey)
{
	PvForecastInput *input = &survey->input;
	const PvStratum *unseen = &state->unseen;
	const PvStratum *visible = &state->visible;
	double		scale = pv_pages_for_each(&unseen->gone);
	double		scale_visible = pv_pages_for_each(&visible->gone);
	double		known = known_dead(state);
	double		of_rows,
				of_pages;

	pv_extrapolate(&unseen->gone, known, &of_rows, &of_pages);
	survey->recently_dead = unseen->recently_dead * of_rows;
	input->scan_pages = unseen->pages + visible->pages;
	input->jumps = state->jumps;
	input->tuples = unseen->tuples * scale + visible->tuples * scale_visible;
	input->dead_tuples = unseen->dead * of_rows;
	input->dead_pages = unseen->dead_pages * of_pages;
	input->dead_bytes = unseen->dead_bytes * of_rows;
	input->dead_items = unseen->items * of_rows;
	input->item_pages = unseen->item_pages * of_pages;
	input->freeze_pages = unseen->freeze_pages * scale +
		visible->freeze_pages * scale_visible;
	input->visible_pages = unseen->visible_pages * scale;
	input->hint_pages = unseen->hint_pages * scale;
	survey->young_pages = unseen->young_pages * scale;
	take_statistics(unseen, known, input);
	pv_survey_describe_pages(&state->state, &input->heap);
}

/*
 * Will a small sample be sufficient for the vacuum?  See engine/sample.c.  The
 * pages of each stratum count as many times as they stand for a page.
 */
static bool
tuples_are_alike(const PvSurveyState *state)
{
	PvPageSums	sums = {0};

	pv_sample_add_sums(&sums, &state->unseen.sums, state->unseen.every);
	pv_sample_add_sums(&sums, &state->visible.sums, state->visible.every);
	return sums.pages == 0 || pv_sample_is_uniform(&sums);
}

/*
 * The memory that the store will have, and the number of index scans.  A
 * segment of the store is packed from the dead items of sampled pages.
 */
static void
describe_store(PvSurveyState *state, PvSurvey *survey)
{
	PvForecastInput *input = &survey->input;
	PvVacuum   *vac = state->vac;
	const PvSegmentBuild *build = state->build;
	Size		limit = survey->store_limit;
	int64		max_items = pv_plan_max_dead_items();
	double		segments,
				at_a_time,
				blocks,
				items,
				bytes,
				fillings;

	if (!input->vacuums_indexes)
		return;
	blocks = Max(state->unseen.pages, 1) / (double) Max(state->segments, 1);
	segments = state->segments *
		(1 - pow(Max(1 - input->item_pages / Max(state->unseen.pages, 1), 0),
				 blocks));
	segments = input->item_pages < 0.5 ? 0 : Max(segments, 1);
	blocks = Min(input->item_pages / Max(segments, 1), PV_SEGMENT_BLOCKS);
	items = input->dead_items / Max(segments, 1);
	if (build->nblocks > 0)
		bytes = pv_segment_plan(build).bytes *
			Min(blocks / build->nblocks, PV_SEGMENT_BLOCKS);
	else
		bytes = blocks * (PV_BITMAP_MAX_BYTES + 2);

	/* with a limit for tests, the store also counts as full by its items */
	at_a_time = Min(segments, Max(ceil(max_items / Max(items, 1)), 1));
	survey->store_bytes =
		pv_deadtids_forecast(vac->plan.rel_pages, vac->plan.nslots == 1,
							 pv_plan_store_reserve(vac, limit), limit,
							 at_a_time, bytes, &fillings);
	if (at_a_time > 0)
		fillings *= segments / at_a_time;
	input->index_scans = (int) Max(ceil(fillings), 1);
}

/*
 * Are there so few dead items that the indexes are bypassed?
 *
 * See bypass_indexes() in engine/vacuum.c.
 */
static bool
is_bypassed(const PvSurveyState *state, const PvForecastInput *input)
{
	const PvVacuum *vac = state->vac;
	double		item_pages = rint(input->item_pages);

	return vac->consider_bypass && input->index_scans <= 1 && item_pages > 0 &&
		pv_few_enough_to_bypass(vac->plan.rel_pages, item_pages,
								input->dead_items);
}

static void
describe_indexes(PvSurveyState *state, PvSurvey *survey)
{
	PvParticipant *leader = &state->vac->leader;
	PvForecastIndex *indexes = palloc0(Max(leader->nindexes, 1) *
									   sizeof(PvForecastIndex));

	survey->nindexes = survey->input.nindexes = leader->nindexes;
	survey->input.indexes = indexes;
	for (int i = 0; i < leader->nindexes; i++)
	{
		survey->index_units += pv_index_count_units(leader, i,
													state->vac->plan.nslots,
													&indexes[i].together);
		pv_survey_index(state, i, &survey->input, &indexes[i]);
	}
}

/* What is written to WAL, and how fast the vacuum may be. */
static void
describe_server(const PvSurveyState *state, PvForecastInput *input)
{
	input->logged = RelationNeedsWAL(state->rel);
	input->full_page_writes = fullPageWrites;
	input->map_in_record = PV_PRUNING_SETS_MAP;
	input->hints_need_image = XLogHintBitIsNeeded();
	input->freezes_apart = !PV_PRUNING_FREEZES;
	input->unused_apart = !PV_PRUNES_TO_UNUSED;
	input->delay.delay_ms = VacuumCostDelay;
	input->delay.limit = VacuumCostLimit;
	input->delay.scale = pv_guc_cost_limit_scale;
	input->delay.page_hit = VacuumCostPageHit;
	input->delay.page_miss = VacuumCostPageMiss;
	input->delay.page_dirty = VacuumCostPageDirty;
}

/*
 * What relfrozenxid and relminmxid become, at least.
 *
 * They stay if an all-visible page is skipped that is not all-frozen.  Else
 * everything older than the freeze cutoffs is frozen.  If the sample is all
 * that is scanned, the oldest XIDs that remain are known.
 */
static void
describe_freezing(const PvSurveyState *state, bool skippedallvis,
				  PvSurvey *survey)
{
	const PvCutoffs *cutoffs = &survey->cutoffs;
	bool		complete = is_complete(&state->unseen) &&
		is_complete(&state->visible);
	TransactionId xid = complete ? state->oldest_xid : cutoffs->FreezeLimit;
	MultiXactId mxid = complete ? state->oldest_mxid :
		cutoffs->MultiXactCutoff;

	survey->new_relfrozenxid = InvalidTransactionId;
	survey->new_relminmxid = InvalidMultiXactId;
	if (skippedallvis)
		return;
	if (TransactionIdPrecedes(cutoffs->relfrozenxid, xid))
		survey->new_relfrozenxid = xid;
	if (MultiXactIdPrecedes(cutoffs->relminmxid, mxid))
		survey->new_relminmxid = mxid;
}

/*
 * Is the table so old that all of it must be frozen, while relfrozenxid has
 * come to the horizon?  Then each vacuum to prevent wraparound is useless
 * until what holds back the horizon lets go.  If the user asked for that kind of
 * vacuum, it says nothing about the age.
 */
static bool
is_stuck(const VacuumParams *params, const PvSurvey *survey)
{
	const PvCutoffs *cutoffs = &survey->cutoffs;

	return survey->aggressive &&
		(params->options &
		 (VACOPT_FREEZE | VACOPT_DISABLE_PAGE_SKIPPING)) == 0 &&
		TransactionIdPrecedesOrEquals(cutoffs->OldestXmin,
									  cutoffs->relfrozenxid) &&
		TransactionIdPrecedes(cutoffs->OldestXmin, ReadNextTransactionId());
}


/* ----------------------------------------------------------------
 *		The survey
 * ----------------------------------------------------------------
 */

/*
 * What VACUUM finds in the table's own storage parameters.
 *
 * Core: commands/vacuum.c, vacuum_rel.
 */
static void
resolve_params(Relation rel, VacuumParams *params)
{
	const StdRdOptions *options = (const StdRdOptions *) rel->rd_options;
	int			value = options != NULL ? (int) options->vacuum_index_cleanup :
		(int) STDRD_OPTION_VACUUM_INDEX_CLEANUP_AUTO;

	pv_choose_eager_failure_rate(params, rel);
	if (params->index_cleanup != VACOPTVALUE_UNSPECIFIED)
		return;
	params->index_cleanup =
		value == STDRD_OPTION_VACUUM_INDEX_CLEANUP_ON ? VACOPTVALUE_ENABLED :
		value == STDRD_OPTION_VACUUM_INDEX_CLEANUP_OFF ?
		VACOPTVALUE_DISABLED : VACOPTVALUE_AUTO;
}

/*
 * Find out what a vacuum of the table would do.  The caller holds
 * AccessShareLock on it, and has a snapshot.  params->index_cleanup may be
 * VACOPTVALUE_UNSPECIFIED, and params->nworkers is as for pv_vacuum_rel().
 * "past" is the last vacuum of the table by the engine that a session asked
 * for, or NULL.
 *
 * Allocates in the current memory context.  Raises a notice if fewer workers
 * are allowed than params ask for.
 */
void
pv_survey(Relation rel, VacuumParams *params, const PvVacuumOptions *options,
		  const PvResult *past, PvSurvey *survey)
{
	PvVacuum   *vac = palloc0(sizeof(PvVacuum));
	PvSurveyState state = {.rel = rel,.vac = vac,.vmbuffer = InvalidBuffer};
	PvForecastInput *input = &survey->input;
	bool		skippedallvis;

	memset(survey, 0, sizeof(*survey));
	resolve_params(rel, params);
	vac->rel = rel;
	vac->params = params;
	vac->options = options;
	pv_plan_vacuum(vac, AccessShareLock);
	input->workers = pv_plan_workers(vac);
	vac->plan.nslots = input->workers + 1;
	vac->plan.bitmap_bytes = pv_plan_bitmap_bytes(vac);

	survey->pages_total = input->rel_pages = vac->plan.rel_pages;
	survey->aggressive = vac->plan.aggressive;
	survey->cutoffs = vac->plan.cutoffs;
	survey->store_limit = pv_plan_store_limit() - vac->plan.bitmap_bytes;
	state.redo = GetRedoRecPtr();
	state.oldest_xid = survey->cutoffs.OldestXmin;
	state.oldest_mxid = survey->cutoffs.OldestMxact;
	state.build = palloc(sizeof(PvSegmentBuild));
	pv_segment_start(state.build);

	skippedallvis = choose_pages(&state, PV_SAMPLE_SMALL);
	pv_survey_heap_pages(&state, &state.unseen);
	pv_survey_heap_pages(&state, &state.visible);
	survey->pages_to_scan = state.unseen.pages + state.visible.pages;

	input->vacuums_indexes = vac->do_index_vacuuming &&
		vac->plan.nindexes > 0 && !pv_failsafe_check(&survey->cutoffs);
	describe_heap(&state, survey);
	describe_store(&state, survey);
	input->bypasses = is_bypassed(&state, input);
	input->index_work = input->vacuums_indexes && pv_indexes_have_work(rel);
	describe_indexes(&state, survey);
	describe_server(&state, input);
	describe_freezing(&state, skippedallvis, survey);

	/* tuples of different sizes: a vacuum will visit more pages as a sample */
	if (!tuples_are_alike(&state))
	{
		(void) choose_pages(&state, PV_SAMPLE_LARGE);
		survey->pages_to_scan = state.unseen.pages + state.visible.pages;
		input->tuples *= survey->pages_to_scan / Max(input->scan_pages, 1);
		input->scan_pages = survey->pages_to_scan;
		input->jumps = state.jumps;
	}

	pv_forecast(input, past, &survey->forecast);
	survey->stuck = is_stuck(params, survey);
	survey->use =
		pv_forecast_use(input, survey->recently_dead + survey->young_pages +
						survey->stuck,
						survey->aggressive &&
						TransactionIdIsValid(survey->new_relfrozenxid));
	vac_close_indexes(vac->leader.nindexes, vac->leader.indrels,
					  AccessShareLock);
}
