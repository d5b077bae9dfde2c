/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  The number of tuples on pages that are skipped, although core would
 *	  read them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SAMPLE_H
#define PV_SAMPLE_H

#include "utils/relcache.h"

#include "stats/result.h"

/* A sample is large if tuples differ in size, and small if they do not */
typedef enum PvSampleSize
{
	PV_SAMPLE_LARGE,
	PV_SAMPLE_SMALL
} PvSampleSize;

#define PV_SAMPLE_SIZES			(PV_SAMPLE_SMALL + 1)

/* After so many visited pages a participant chooses the size, again and again */
#define PV_SAMPLE_LEARN_EVERY	16

/* The leader's plan, for all participants; see engine/sample.c */
typedef struct PvSamplePlan
{
	uint32		every[PV_SAMPLE_SIZES]; /* one page of this many; 0: none */
	uint64		seed;			/* of this vacuum */
} PvSamplePlan;

/* Pages that were skipped, by the sample for them */
typedef struct PvSkippedPages
{
	BlockNumber pages[PV_SAMPLE_SIZES];
	int64		space[PV_SAMPLE_SIZES]; /* sum of the free space */
} PvSkippedPages;

/*
 * Sums over visited pages, to find how the number of tuples depends on the
 * free space, which is in the units of the free space map
 */
typedef struct PvPageSums
{
	int64		pages;
	int64		tuples;
	int64		tuple_squares;
	int64		space;
	int64		space_squares;
	int64		products;
} PvPageSums;

/*
 * What a participant knows about pages that are skipped, although core would
 * read them
 */
typedef struct PvSample
{
	PvSkippedPages skipped;
	PvPageSums	visited[PV_SAMPLE_SIZES];
} PvSample;

typedef struct PvSampler PvSampler;

extern void pv_sample_plan(PvSamplePlan *plan, BlockNumber pages,
						   BlockNumber rel_pages, BlockNumber skippable);
extern PvSampler *pv_sampler_create(Relation rel, const PvSamplePlan *plan);
extern void pv_sampler_assume(PvSampler *sampler, PvSampleSize size);
extern bool pv_sampler_wants(PvSampler *sampler, BlockNumber blkno);
extern PvSampleSize pv_sampler_size(const PvSampler *sampler);
extern uint8 pv_sampler_space(PvSampler *sampler, BlockNumber blkno);
extern void pv_sampler_learn(PvSampler *sampler, Size space, int tuples);
extern void pv_sampler_pause(PvSampler *sampler);

extern void pv_sample_add_page(PvPageSums *sums, uint8 space, int64 tuples);
extern void pv_sample_add_skipped(PvSkippedPages *sum,
								  const PvSkippedPages *part);
extern void pv_sample_add(PvSample *sum, const PvSample *part);
extern bool pv_sample_estimate(const PvSample *sample, BlockNumber *pages,
							   double *tuples);

#endif							/* PV_SAMPLE_H */
