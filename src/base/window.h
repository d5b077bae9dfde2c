/*-------------------------------------------------------------------------
 *
 * window.h
 *	  Hours of the week in which tables may be vacuumed automatically.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_WINDOW_H
#define PV_WINDOW_H

#include "pgtime.h"

/* The hint for a text that is not a window; the detail is the reason */
#define PV_WINDOW_HINT \
	"Write spans of time such as \"Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00\", then a time zone or none."

/* What pv_window_next_change() returns for a window that never changes */
#define PV_WINDOW_NO_CHANGE		PG_INT64_MAX

#define PV_MINUTES_PER_WEEK		(7 * 24 * 60)

/* A window.  It may be copied within one process, which never unloads zones. */
typedef struct PvWindow
{
	bool		always;			/* the text is empty; there are no minutes */
	uint8		open[PV_MINUTES_PER_WEEK / 8];	/* a bit for each minute, from
												 * Sunday 00:00 on */
	pg_tz	   *zone;			/* NULL: log_timezone */
} PvWindow;

extern char *pv_window_parse(const char *text, PvWindow *window,
							 const char **detail);
extern bool pv_window_is_open(const PvWindow *window, pg_time_t now);
extern pg_time_t pv_window_next_change(const PvWindow *window, pg_time_t now);

#endif							/* PV_WINDOW_H */
