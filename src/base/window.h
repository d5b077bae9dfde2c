/*-------------------------------------------------------------------------
 *
 * window.h
 *	  Hours of the week in which tables may be vacuumed automatically.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_WINDOW_H
#define PV_WINDOW_H

#include "pgtime.h"

/* Enough for two spans on each day */
#define PV_WINDOW_MAX_SPANS		16

/* The hint for a text that is not a window; the detail is the reason */
#define PV_WINDOW_HINT \
	"Write spans of time such as \"Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00\", then a time zone or none."

/* What pv_window_next_change() returns for a window that never changes */
#define PV_WINDOW_NO_CHANGE		PG_INT64_MAX

/* A span of time that begins on each of some consecutive days */
typedef struct PvWindowSpan
{
	int			first_day;		/* 0 is Sunday */
	int			days;			/* number of days from first_day on; 7: every
								 * day */
	int			begin;			/* minute of the day, from 0 to 1439 */
	int			end;			/* from 1 to 1440; of the next day unless it
								 * is later than begin */
} PvWindowSpan;

/*
 * A window.  It may be copied within one process, which loads its own time
 * zones and never unloads them.
 */
typedef struct PvWindow
{
	bool		always;			/* always open; there are no spans */
	int			nspans;			/* 0: never open, unless always */
	PvWindowSpan spans[PV_WINDOW_MAX_SPANS];
	pg_tz	   *zone;			/* NULL: log_timezone */
} PvWindow;

extern bool pv_window_parse(const char *text, PvWindow *window,
							const char **detail);
extern char *pv_window_print(const PvWindow *window);
extern char *pv_window_normal_form(const char *text, bool *usable,
								   const char **detail);
extern bool pv_window_is_open(const PvWindow *window, pg_time_t now);
extern pg_time_t pv_window_next_change(const PvWindow *window, pg_time_t now);

#endif							/* PV_WINDOW_H */
