/*-------------------------------------------------------------------------
 *
 * result.c
 *	  The figures of a vacuum, as data, and who started it, in words.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stats/result.h"

#define ENTRY(name, type, known, summed) \
	{PV_FIGURE_##type, PV_KNOWN_##known, summed, offsetof(PvResult, name)},
#define TIME_ENTRY(phase) \
	{PV_FIGURE_MSECS, PV_KNOWN_ENGINE, false, \
	 offsetof(PvResult, usecs[phase])},

const PvFigure pv_figures[PV_NUM_FIGURES] = {
	PV_FIGURES(ENTRY, ENTRY, TIME_ENTRY)
};

/* Indexed by PvStartedBy */
const char *const pv_started_by_name[] = {
	"command", "autovacuum", "scheduler", "function"
};
