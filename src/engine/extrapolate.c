/*-------------------------------------------------------------------------
 *
 * extrapolate.c
 *	  From a random sample of pages to the whole table.
 *
 * Pure functions: no catalog, no page, no clock, no lock.  The survey uses
 * them (engine/survey.c), to find out how many dead rows a table has.  Two
 * sources say something about that, and both may be wrong:
 *
 *	 sample		its error is large if the rows are crowded on a few pages.  An
 *				example is a page that a former UPDATE filled with new rows,
 *				all of which have been updated again.  Such a page alone may
 *				have a tenth of all dead rows.  If the sample has one page of
 *				eight, the result is too high by eight tenths if this page is
 *				in the sample, and too low by one tenth if it is not.
 *
 *	 statistics	they count every row, but may be out of date, or have been lost
 *				in a crash
 *
 * So the count of the statistics is taken as long as the sample does not
 * refute it.  The differences between the sampled pages say how large the
 * error of the sample may be.  They do not say it of pages that the sample has
 * missed, but few pages only can all have been missed.
 *
 * How many pages have dead rows is another question, which crowding does not
 * affect.  The sample alone answers it, unless all pages that have dead rows
 * have about the same number of them.  Then the pages are known as well as the
 * rows are.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "engine/extrapolate.h"

/*
 * An error of more than this number of standard deviations refutes a count;
 * chance alone exceeds it in one of twenty samples
 */
#define SIGMAS					2.0

/*
 * With the same chance, a sample misses all of the pages for which this number
 * of its own pages stands
 */
#define MISSED					3.0

/* For how many pages does one page of the sample stand? */
double
pv_pages_for_each(const PvRowSample *sample)
{
	return sample->sampled > 0 ? sample->pages / sample->sampled : 0;
}

/* Mean square of the deviations from the mean, of "n" numbers */
static double
variance_of(double n, double sum, double squares)
{
	return n > 0 ? Max(squares / n - (sum / n) * (sum / n), 0) : 0;
}

/*
 * Can there be this number of rows on all pages, after what the sample shows?
 * If not, the count is wrong.
 */
bool
pv_count_is_plausible(const PvRowSample *sample, double count)
{
	double		n = sample->sampled;
	double		each = pv_pages_for_each(sample);
	double		estimate = sample->rows * each;
	double		rest = sample->pages - n;
	double		error;

	if (n <= 0)
		return true;
	error = SIGMAS * each *
		sqrt(n * variance_of(n, sample->rows, sample->squares) *
			 Max(rest, 0) / sample->pages);
	return count >= Max(estimate - error, sample->rows) &&
		count <= estimate + error +
		Min(MISSED * each, Max(rest, 0)) * sample->room;
}

/*
 * By what are the sampled numbers of rows, and of pages that have some, to be
 * multiplied?  "count" is what the statistics say about all rows, or -1 if
 * they say nothing.
 */
void
pv_extrapolate(const PvRowSample *sample, double count,
			   double *of_rows, double *of_pages)
{
	double		hits = sample->hits;
	bool		are_alike;

	*of_rows = *of_pages = pv_pages_for_each(sample);
	if (count < 0 || sample->rows <= 0 || hits <= 0 ||
		!pv_count_is_plausible(sample, count))
		return;

	*of_rows = count / sample->rows;
	are_alike = variance_of(hits, sample->rows, sample->squares) <=
		(sample->rows / hits) * (sample->rows / hits);
	if (are_alike)
		*of_pages = Min(*of_rows, sample->pages / hits);

	/* each of these pages has a row at least */
	*of_rows = Max(*of_rows, *of_pages * hits / sample->rows);
}
