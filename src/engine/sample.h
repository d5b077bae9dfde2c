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

#include "storage/block.h"

/* The leader's plan, for all participants; see engine/sample.c */
typedef struct PvSamplePlan
{
	uint32		every;			/* one page of this many; 0: none */
	uint32		asked;			/* of the others that are skipped, the free
								 * space of one of this many is looked up */
	uint64		seed;			/* of this vacuum */
} PvSamplePlan;

/* Pages that were skipped */
typedef struct PvSkippedPages
{
	BlockNumber pages;
	BlockNumber asked;			/* of these, whose free space is known */
	int64		space;			/* sum of the free space of these */
} PvSkippedPages;

/*
 * What a participant knows about pages that are skipped, although core would
 * read them: their number and free space, and sums over those of them that
 * were visited as a sample.  Free space is in bytes, by the free space map.
 */
typedef struct PvSample
{
	PvSkippedPages skipped;
	int64		pages;
	int64		tuples;
	int64		space;
	int64		space_squares;
	int64		products;		/* of tuples and space */
} PvSample;

extern void pv_sample_plan(PvSamplePlan *plan, BlockNumber pages,
						   BlockNumber rel_pages, BlockNumber skippable);
extern bool pv_sample_wants(const PvSamplePlan *plan, BlockNumber blkno);
extern bool pv_sample_asks(const PvSamplePlan *plan, BlockNumber blkno);
extern void pv_sample_add_skipped(PvSkippedPages *sum,
								  const PvSkippedPages *part);
extern void pv_sample_add_page(PvSample *sample, Size space, int64 tuples);
extern void pv_sample_add(PvSample *sum, const PvSample *part);
extern bool pv_sample_estimate(const PvSample *sample, BlockNumber *pages,
							   double *tuples);

#endif							/* PV_SAMPLE_H */
