/*-------------------------------------------------------------------------
 *
 * window.h
 *	  Hours of the week in which work may be done without being asked for.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_WINDOW_H
#define PV_WINDOW_H

#include "pgtime.h"

/* Enough for two on each day. */
#define PV_WINDOW_MAX_SPANS		16

/* The hint for a text that is no window; errdetail() has what is wrong with it. */
#define PV_WINDOW_HINT \
	"Write spans of time such as \"Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00\", then a time zone or none."

/* What pv_window_next_change() says of a window that never changes. */
#define PV_WINDOW_NO_CHANGE		PG_INT64_MAX

/* A span of time that begins on each of some consecutive days. */
typedef struct PvWindowSpan
{
	int			first_day;		/* 0 is Sunday */
	int			days;			/* how many, from that one on; 7: every day */
	int			begin;			/* minute of the day, from 0 to 1439 */
	int			end;			/* from 1 to 1440; of the next day unless it is
								 * later than begin */
} PvWindowSpan;

/*
 * A window.  It may be copied, but within one process only, as time zones are
 * loaded by each for itself.  They are never unloaded.
 */
typedef struct PvWindow
{
	bool		always;			/* open whenever; there are no spans */
	int			nspans;			/* none: never open */
	PvWindowSpan spans[PV_WINDOW_MAX_SPANS];
	pg_tz	   *zone;			/* NULL: that of the server's log */
} PvWindow;

extern bool pv_window_parse(const char *text, PvWindow *window,
							const char **detail);
extern char *pv_window_print(const PvWindow *window);
extern char *pv_window_normal_form(const char *text, bool *usable, const char **detail);
extern bool pv_window_is_open(const PvWindow *window, pg_time_t now);
extern pg_time_t pv_window_next_change(const PvWindow *window, pg_time_t now);

#endif							/* PV_WINDOW_H */
