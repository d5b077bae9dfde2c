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
 *	 what is on these pages			a random sample of them
 *	 memory							the sampled pages' dead items, packed as the
 *									store packs them
 *
 * Two samples are taken: of the pages that are not all-visible, which are the
 * only ones that can have dead rows, and of all-visible pages that are read
 * nevertheless.
 *
 * Locks: AccessShareLock on the table and its indexes.  A page that is read is
 * pinned and has a share lock, one at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat_heap.h"
#include "engine/dispense.h"
#include "engine/vacuum.h"
#include "sql/survey.h"
#include "store/container.h"
#include "store/deadtids.h"

/* Pages of each kind that are read at most */
#define SAMPLE_UNSEEN			1024	/* heap pages that are not all-visible */
#define SAMPLE_VISIBLE			128 /* all-visible heap pages */

/* Pages to be scanned of one kind, and the sample of them */
typedef struct Stratum
{
	BlockNumber pages;			/* all */
	int			room;			/* largest size of the sample */
	int			n;				/* in the sample */
	BlockNumber blocks[SAMPLE_UNSEEN];

	/* Sums over the sample */
	int64		dead;			/* removable tuples */
	int64		recently_dead;
	int64		items;			/* dead line pointers after pruning */
	int			item_pages;
	int			freeze_pages;
	int			visible_pages;	/* all-visible after pruning */
	int			young_pages;	/* where live tuples prevent that */
} Stratum;

typedef struct SurveyState
{
	PvVacuum   *vac;
	Buffer		vmbuffer;
	Stratum		unseen;			/* not all-visible */
	Stratum		visible;		/* all-visible */

	/* The dead items of sampled pages, as one segment of the store */
	PvSegmentBuild *build;

	/* Oldest XIDs that remain on the sampled pages */
	TransactionId oldest_xid;
	MultiXactId oldest_mxid;
} SurveyState;

/* What one page has */
typedef struct PageFindings
{
	int			dead;
	int			recently_dead;
	int			nitems;
	bool		all_visible;	/* all tuples that remain */
	bool		young;			/* a live one may not be visible to all */
	bool		freezes;
	OffsetNumber items[MaxHeapTuplesPerPage];
} PageFindings;

/*
 * Callback of pv_blockscan_preview(): count a block that the heap scan would
 * visit, and perhaps keep it for the sample.  Each page has the same chance:
 * when the sample is full, the page takes the place of another one, with a
 * probability that falls as the number of pages grows.
 */
static void
note_block(BlockNumber blkno, void *arg)
{
	SurveyState *state = arg;
	uint8		mapbits = visibilitymap_get_status(state->vac->rel, blkno,
												   &state->vmbuffer);
	Stratum    *stratum = mapbits & VISIBILITYMAP_ALL_VISIBLE ?
		&state->visible : &state->unseen;
	int64		place = stratum->n;

	if (stratum->n < stratum->room)
		stratum->n++;
	else
		place = (int64) pg_prng_uint64_range(&pg_global_prng_state, 0,
											 stratum->pages);
	if (place < stratum->room)
		stratum->blocks[place] = blkno;
	stratum->pages++;
}

/*
 * Look at a tuple.
 *
 * Pruning leaves one dead line pointer for each HOT chain that is dead as a
 * whole, and none for a chain of which the end is alive.  So the tuples at the
 * ends of chains are counted.
 */
static void
look_at_tuple(SurveyState *state, Buffer buf, HeapTuple tuple,
			  PageFindings *found)
{
	const PvCutoffs *cutoffs = &state->vac->plan.cutoffs;
	HeapTupleHeader htup = tuple->t_data;
	TransactionId xid = state->oldest_xid;
	MultiXactId mxid = state->oldest_mxid;
	bool		aborted;

	switch (HeapTupleSatisfiesVacuum(tuple, cutoffs->OldestXmin, buf))
	{
		case HEAPTUPLE_DEAD:
			found->dead++;
			aborted = HeapTupleHeaderXminInvalid(htup);
			if (!(aborted ? HeapTupleHeaderIsHeapOnly(htup) :
				  HeapTupleHeaderIsHotUpdated(htup)))
				found->items[found->nitems++] =
					ItemPointerGetOffsetNumber(&tuple->t_self);
			return;
		case HEAPTUPLE_RECENTLY_DEAD:
			found->recently_dead++;
			break;
		case HEAPTUPLE_LIVE:
			if (!HeapTupleHeaderXminFrozen(htup) &&
				!TransactionIdPrecedes(HeapTupleHeaderGetXmin(htup),
									   cutoffs->OldestXmin))
				found->young = true;
			break;
		default:
			found->young = true;
			break;
	}

	if (pv_tuple_should_freeze(htup, cutoffs, &xid, &mxid))
		found->freezes = true;
	else
	{
		state->oldest_xid = xid;
		state->oldest_mxid = mxid;
	}
}

/*
 * Look at all line pointers of a page, which is locked.  A broken page may
 * have more of them than any page can have.
 */
static void
look_at_page(SurveyState *state, Buffer buf, PageFindings *found)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber maxoff = Min(PageGetMaxOffsetNumber(page),
							  MaxHeapTuplesPerPage);

	memset(found, 0, offsetof(PageFindings, items));
	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff;
		 offnum = OffsetNumberNext(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);
		HeapTupleData tuple;

		if (ItemIdIsDead(itemid))
			found->items[found->nitems++] = offnum;
		if (!ItemIdIsNormal(itemid))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, itemid);
		tuple.t_len = ItemIdGetLength(itemid);
		tuple.t_tableOid = RelationGetRelid(state->vac->rel);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buf), offnum);
		look_at_tuple(state, buf, &tuple, found);
	}
	found->all_visible = !PageIsNew(page) && found->recently_dead == 0 &&
		!found->young;
}

/*
 * Read the pages of a sample, and add them up.  Return the number of pages for
 * which one page of the sample stands.
 */
static double
sample_pages(SurveyState *state, Stratum *stratum)
{
	for (int i = 0; i < stratum->n; i++)
	{
		Buffer		buf;
		PageFindings found;

		CHECK_FOR_INTERRUPTS();
		buf = ReadBuffer(state->vac->rel, stratum->blocks[i]);
		LockBuffer(buf, BUFFER_LOCK_SHARE);
		look_at_page(state, buf, &found);
		UnlockReleaseBuffer(buf);

		stratum->dead += found.dead;
		stratum->recently_dead += found.recently_dead;
		stratum->items += found.nitems;
		stratum->item_pages += found.nitems > 0;
		stratum->freeze_pages += found.freezes;
		stratum->visible_pages += found.all_visible &&
			(found.nitems == 0 || state->vac->plan.nindexes == 0);
		stratum->young_pages += found.young;
		if (found.nitems > 0 && state->build->nblocks < PV_SEGMENT_BLOCKS)
			pv_segment_add(state->build, state->build->nblocks, found.items,
						   found.nitems);
	}
	return stratum->n > 0 ? (double) stratum->pages / stratum->n : 0;
}

/* Estimate what the heap scan will find, from samples. */
static void
describe_heap(SurveyState *state, PvSurvey *survey)
{
	const Stratum *unseen = &state->unseen;
	double		scale = sample_pages(state, &state->unseen);
	double		visible_scale = sample_pages(state, &state->visible);

	survey->dead_tuples = unseen->dead * scale;
	survey->recently_dead = unseen->recently_dead * scale;
	survey->dead_items = unseen->items * scale;
	survey->item_pages = unseen->item_pages * scale;
	survey->visible_pages = unseen->visible_pages * scale;
	survey->young_pages = unseen->young_pages * scale;
	survey->freeze_pages = unseen->freeze_pages * scale +
		state->visible.freeze_pages * visible_scale;
}

/*
 * Find out which memory the store of dead items will have, and the number of
 * index scans.  With workers some memory is set aside for it in any case.
 */
static void
describe_index_scans(const SurveyState *state, PvSurvey *survey)
{
	const PvVacuum *vac = state->vac;
	const PvSegmentBuild *build = state->build;
	Size		reserve = vac->plan.nslots == 1 ? 0 : vac->plan.store_reserve;
	double		bytes = 0;
	double		fillings;

	survey->nindexes = vac->plan.nindexes;
	if (vac->kept.ref.token != 0 && !vac->kept.stale &&
		vac->do_index_vacuuming && survey->nindexes > 0)
		survey->items_kept = vac->kept.items;
	for (int i = 0; i < survey->nindexes; i++)
		survey->index_pages += vac->leader.index_pages[i];
	if (!vac->do_index_vacuuming || survey->nindexes == 0 ||
		survey->dead_items < 0.5 || pv_failsafe_check(&survey->cutoffs))
		return;

	if (build->nblocks > 0)
		bytes = survey->item_pages * pv_segment_plan(build).bytes /
			build->nblocks;
	survey->store_bytes =
		pv_deadtids_shared_size(survey->pages_total, reserve) +
		Max(bytes - reserve, 0);
	survey->store_bytes =
		Min(survey->store_bytes, (double) survey->store_limit);

	/* with a limit for tests, the store also counts as full by its items */
	fillings = Max(bytes / Max(survey->store_limit, 1),
				   survey->dead_items / vac->plan.max_dead_items);
	if (!(vac->consider_bypass && fillings <= 1 &&
		  pv_few_enough_to_bypass(survey->pages_total,
								  rint(survey->item_pages),
								  survey->dead_items)))
		survey->index_scans = (int) Max(ceil(fillings), 1);
}

/*
 * Find out what relfrozenxid and relminmxid become, at least.
 *
 * They stay if an all-visible page is skipped that is not all-frozen.  Else
 * everything older than the freeze cutoffs is frozen.  If the sample is all
 * that is scanned, the oldest XIDs that remain are known.
 */
static void
describe_freezing(const SurveyState *state, bool skippedallvis,
				  PvSurvey *survey)
{
	const PvCutoffs *cutoffs = &survey->cutoffs;
	bool		complete = state->unseen.pages <= SAMPLE_UNSEEN &&
		state->visible.pages <= SAMPLE_VISIBLE;
	TransactionId xid = complete ? state->oldest_xid : cutoffs->FreezeLimit;
	MultiXactId mxid = complete ? state->oldest_mxid :
		cutoffs->MultiXactCutoff;

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
 * until what holds back the horizon lets go.  If the user asked for that kind
 * of vacuum, it says nothing about the age.
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

/*
 * Would a vacuum be of any use now?  It is if it removes something, freezes
 * something that is old enough, sets pages all-visible, has work in the
 * cleanup of an index, or is aggressive and so advances relfrozenxid.
 * Otherwise there may be dead rows that are not removable yet, pages that
 * cannot be set all-visible, or an age that cannot be reduced, all because of
 * the horizon.
 */
static PvUse
use_of(Relation rel, const VacuumParams *params, const PvSurvey *survey)
{
	if (survey->dead_tuples >= 0.5 || survey->dead_items >= 0.5 ||
		survey->freeze_pages >= 0.5 || survey->visible_pages >= 0.5 ||
		(survey->aggressive && TransactionIdIsValid(survey->new_relfrozenxid)))
		return PV_USE_SOME;
	if (params->index_cleanup != VACOPTVALUE_DISABLED &&
		!pv_failsafe_check(&survey->cutoffs) && pv_indexes_have_work(rel))
		return PV_USE_SOME;
	return survey->recently_dead >= 0.5 || survey->young_pages >= 0.5 ||
		is_stuck(params, survey) ? PV_USE_HORIZON : PV_USE_NOTHING_TO_DO;
}

/*
 * Find out what a vacuum of the table would do.  The caller holds
 * AccessShareLock on it, and has a snapshot.  params->index_cleanup may be
 * VACOPTVALUE_UNSPECIFIED, and params->nworkers is as for pv_vacuum_rel().
 *
 * Allocates in the current memory context.  Raises a notice if fewer workers
 * are allowed than params ask for.
 */
void
pv_survey(Relation rel, VacuumParams *params, const PvVacuumOptions *options,
		  PvSurvey *survey)
{
	PvVacuum   *vac = palloc0(sizeof(PvVacuum));
	PvVacuumPlan *plan = &vac->plan;
	SurveyState state = {.vac = vac,.vmbuffer = InvalidBuffer};
	bool		skippedallvis;	/* one that is not all-frozen is skipped */

	memset(survey, 0, sizeof(*survey));
	pv_plan_reloptions(rel, params);
	vac->rel = rel;
	vac->params = params;
	vac->options = options;
	pv_plan_vacuum(vac, AccessShareLock);
	pv_plan_pool(vac, NULL);

	survey->workers = plan->nslots - 1;
	survey->pages_total = plan->rel_pages;
	survey->aggressive = plan->aggressive;
	survey->cutoffs = plan->cutoffs;
	survey->store_limit = plan->store_limit;
	state.oldest_xid = plan->cutoffs.OldestXmin;
	state.oldest_mxid = plan->cutoffs.OldestMxact;
	state.build = palloc(sizeof(PvSegmentBuild));
	pv_segment_start(state.build);
	state.unseen.room = SAMPLE_UNSEEN;
	state.visible.room = SAMPLE_VISIBLE;

	skippedallvis = pv_blockscan_preview(rel, plan->rel_pages, plan->nslots,
										 &plan->skipping, &plan->eager,
										 note_block, &state);
	if (BufferIsValid(state.vmbuffer))
		ReleaseBuffer(state.vmbuffer);

	survey->pages_to_scan = state.unseen.pages + state.visible.pages;
	describe_heap(&state, survey);
	describe_index_scans(&state, survey);
	describe_freezing(&state, skippedallvis, survey);
	survey->use = use_of(rel, params, survey);
	vac_close_indexes(vac->leader.nindexes, vac->leader.indrels,
					  AccessShareLock);
}
