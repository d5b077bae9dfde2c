/*-------------------------------------------------------------------------
 *
 * extrapolate.h
 *	  From a random sample of pages to the whole table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_EXTRAPOLATE_H
#define PV_EXTRAPOLATE_H

/*
 * A random sample of pages, and rows of one kind on them.  All are counts, at
 * least 0; "sampled" is at most "pages".
 */
typedef struct PvRowSample
{
	double		pages;			/* of which the sample was taken */
	double		sampled;		/* pages in the sample */
	double		hits;			/* of these, pages with such rows */
	double		rows;			/* such rows in the sample */
	double		squares;		/* sum of the squares of each page's number */
	double		room;			/* most rows that a page can have */
} PvRowSample;

extern double pv_pages_for_each(const PvRowSample *sample);
extern bool pv_count_is_plausible(const PvRowSample *sample, double count);
extern void pv_extrapolate(const PvRowSample *sample, double count,
						   double *of_rows, double *of_pages);

#endif							/* PV_EXTRAPOLATE_H */
