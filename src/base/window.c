/*-------------------------------------------------------------------------
 *
 * window.c
 *	  Hours of the week in which tables may be vacuumed automatically.
 *
 * The text of a window is a list of spans, with a time zone for all of them:
 *
 *		Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin
 *
 * A span is open from the minute in which a clock on the wall begins to show
 * the first time, until the minute in which it begins to show the second.
 *
 *	- A span that does not end later than it begins continues into the next
 *	  day, and belongs to the day on which it begins.
 *	- When the clock is put forward, the times that it does not show are not
 *	  open.  When it is put back, the times that it shows twice are open twice.
 *	- Without days a span is open every day.
 *	- Without a time zone the window has log_timezone, which is the same for
 *	  the whole server, while each session has its own TimeZone.
 *	- An empty text is always open, and "never" is never open.
 *
 * Every process runs this when it reads settings, also the postmaster.  So
 * nothing here looks at a clock, a catalog, or shared memory, takes a lock, or
 * raises an error other than out of memory.  Each process reads the file of a
 * time zone once.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "parser/scansup.h"

#include "base/window.h"

#define DAYS_PER_WEEK		7
#define MINUTES_PER_DAY		(HOURS_PER_DAY * MINS_PER_HOUR)
#define MINUTES_PER_WEEK	(DAYS_PER_WEEK * MINUTES_PER_DAY)

/*
 * The longest time between two changes is two weeks and an hour, because a
 * span on one day of the week may fall into an hour that the clock does not
 * show
 */
#define LONGEST_WAIT		(15 * SECS_PER_DAY)

static const char *const day_names[DAYS_PER_WEEK] = {
	"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"
};


/* ----------------------------------------------------------------
 *		Parsing
 *
 * Each function reads at *at, and moves it behind what it has read.  It
 * returns false if something else is there.
 * ----------------------------------------------------------------
 */

static void
skip_blanks(const char **at)
{
	while (scanner_isspace(**at))
		(*at)++;
}

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Set *detail to what is expected at that place.  Return false. */
static bool
complain(const char *expected, const char *at, const char **detail)
{
	if (*at == '\0')
		*detail = psprintf(_("%s is expected at its end."), expected);
	else
		*detail = psprintf(_("%s is expected at \"%s\"."), expected, at);
	return false;
}

/* Read a character, with or without blanks around it. */
static bool
read_char(const char **at, char c)
{
	skip_blanks(at);
	if (**at != c)
		return false;
	(*at)++;
	skip_blanks(at);
	return true;
}

/* Read the English name of a day, or its first three letters. */
static bool
read_day(const char **at, int *day)
{
	const char *end = *at;
	size_t		len;

	while (is_letter(*end))
		end++;
	len = end - *at;

	for (*day = 0; *day < DAYS_PER_WEEK; (*day)++)
	{
		const char *name = day_names[*day];

		if ((len == 3 || len == strlen(name)) &&
			pg_strncasecmp(*at, name, len) == 0)
		{
			*at = end;
			return true;
		}
	}
	return false;
}

/* Read a time of day, as a minute that is not greater than last. */
static bool
read_time(const char **at, int *minute, int last)
{
	const char *p = *at;
	int			hours = 0;

	while (is_digit(*p) && p - *at < 2)
		hours = hours * 10 + (*p++ - '0');
	if (p == *at || p[0] != ':' ||
		!is_digit(p[1]) || !is_digit(p[2]) || is_digit(p[3]))
		return false;
	*minute = (p[1] - '0') * 10 + (p[2] - '0');
	if (*minute >= MINS_PER_HOUR)
		return false;
	*minute += hours * MINS_PER_HOUR;
	*at = p + 3;
	return *minute <= last;
}

/* Read a span: days, if there are any, and times. */
static bool
read_span(const char **at, PvWindowSpan *span, const char **detail)
{
	const char *start;

	span->first_day = 0;
	span->days = DAYS_PER_WEEK;
	if (is_letter(**at))
	{
		int			last_day;

		if (!read_day(at, &span->first_day))
			return complain(_("A day of the week"), *at, detail);
		last_day = span->first_day;
		if (read_char(at, '-') && !read_day(at, &last_day))
			return complain(_("A day of the week"), *at, detail);
		skip_blanks(at);
		span->days =
			(last_day - span->first_day + DAYS_PER_WEEK) % DAYS_PER_WEEK + 1;
		if (span->days == DAYS_PER_WEEK)
			span->first_day = 0;
	}

	start = *at;
	if (!read_time(at, &span->begin, MINUTES_PER_DAY - 1))
		return complain(_("A time from 00:00 to 23:59"), start, detail);
	if (!read_char(at, '-'))
		return complain(_("A hyphen"), *at, detail);
	start = *at;
	if (!read_time(at, &span->end, MINUTES_PER_DAY))
		return complain(_("A time from 00:00 to 24:00"), start, detail);
	if (span->end == 0)
		span->end = MINUTES_PER_DAY;
	skip_blanks(at);
	return true;
}

/*
 * Read what may be the name of a time zone, one word, up to the end of the
 * text.
 */
static bool
read_zone(const char *at, char name[TZ_STRLEN_MAX + 1])
{
	size_t		len = 0;

	if (!is_letter(*at))
		return false;
	while (is_letter(at[len]) || is_digit(at[len]) ||
		   (at[len] != '\0' && strchr("_/+-", at[len]) != NULL))
		len++;
	if (len > TZ_STRLEN_MAX)
		return false;
	memcpy(name, at, len);
	name[len] = '\0';

	at += len;
	skip_blanks(&at);
	return *at == '\0';
}

/* Core: timezone/pgtz.h, which is not installed.  *canonname may not be NULL. */
extern int	pg_open_tzfile(const char *name, char *canonname);

/*
 * Is this a rule that defines a zone, such as "FOO+1", rather than a name?
 * Such a rule has a number, as some names have.
 */
static bool
is_rule(const char *name)
{
	char		canonname[TZ_STRLEN_MAX + 1];
	int			file;

	if (strpbrk(name, "0123456789") == NULL)
		return false;
	file = pg_open_tzfile(name, canonname);
	if (file >= 0)
		close(file);
	return file < 0;
}

/*
 * Return the time zone of that name, or NULL if this server has none.
 *
 * Core keeps each zone that it was ever asked for, some 20 kB, until the
 * process ends.  There are only as many names as files, but the owners of
 * tables could make up rules without end.
 */
static pg_tz *
find_zone(const char *name)
{
	pg_tz	   *zone = is_rule(name) ? NULL : pg_tzset(name);

	return zone != NULL && pg_tz_acceptable(zone) ? zone : NULL;
}

/* Is this word the whole text? */
static bool
is_word(const char *text, const char *word)
{
	if (pg_strncasecmp(text, word, strlen(word)) != 0)
		return false;
	text += strlen(word);
	skip_blanks(&text);
	return *text == '\0';
}

/*
 * Parse the text of a window, except for its time zone, whose name is copied;
 * it is empty if there is none.
 */
static bool
read_window(const char *text, PvWindow *window, char zone[TZ_STRLEN_MAX + 1],
			const char **detail)
{
	zone[0] = '\0';
	memset(window, 0, sizeof(*window));

	skip_blanks(&text);
	window->always = *text == '\0';
	if (window->always || is_word(text, "never"))
		return true;

	do
	{
		if (window->nspans == PV_WINDOW_MAX_SPANS)
		{
			*detail = psprintf(_("It has more than %d spans."),
							   PV_WINDOW_MAX_SPANS);
			return false;
		}
		if (!read_span(&text, &window->spans[window->nspans++], detail))
			return false;
	} while (read_char(&text, ','));

	if (*text != '\0' && !read_zone(text, zone))
		return complain(_("A comma or the name of a time zone"), text, detail);
	return true;
}

/*
 * Parse the text of a window.  If it is not a window, return false, set
 * *detail to the reason, a translated and allocated sentence, and leave
 * *window undefined.
 */
bool
pv_window_parse(const char *text, PvWindow *window, const char **detail)
{
	char		zone[TZ_STRLEN_MAX + 1];

	if (!read_window(text, window, zone, detail))
		return false;
	if (zone[0] != '\0')
	{
		window->zone = find_zone(zone);
		if (window->zone == NULL)
			return complain(_("A comma or the name of a time zone"), zone, detail);
	}
	return true;
}


/* ----------------------------------------------------------------
 *		Printing
 * ----------------------------------------------------------------
 */

/* Print the window with that name of a time zone; NULL for none. */
static char *
print_with_zone(const PvWindow *window, const char *zone)
{
	StringInfoData buf;

	initStringInfo(&buf);
	if (!window->always && window->nspans == 0)
		appendStringInfoString(&buf, "never");
	for (int i = 0; i < window->nspans; i++)
	{
		const PvWindowSpan *span = &window->spans[i];
		int			last_day = (span->first_day + span->days - 1) %
			DAYS_PER_WEEK;

		if (i > 0)
			appendStringInfoString(&buf, ", ");
		if (span->days == 1)
			appendStringInfo(&buf, "%.3s ", day_names[span->first_day]);
		else if (span->days < DAYS_PER_WEEK)
			appendStringInfo(&buf, "%.3s-%.3s ", day_names[span->first_day],
							 day_names[last_day]);
		appendStringInfo(&buf, "%02d:%02d-%02d:%02d",
						 span->begin / MINS_PER_HOUR,
						 span->begin % MINS_PER_HOUR,
						 span->end / MINS_PER_HOUR, span->end % MINS_PER_HOUR);
	}
	if (zone != NULL)
		appendStringInfo(&buf, " %s", zone);
	return buf.data;
}

/*
 * Print the window into an allocated string.  Texts of the same window,
 * written in different ways, give the same string, which parses as the same
 * window.
 */
char *
pv_window_print(const PvWindow *window)
{
	return print_with_zone(window, window->zone != NULL ?
						   pg_get_timezone_name(window->zone) : NULL);
}

/*
 * Return what pv_window_print() makes of the text.  If it is not a window,
 * return NULL, and set *detail to the reason.  If this server does not know
 * the time zone, keep its name as it is written, because another server may
 * know it.  Then *usable is false, and *detail is the reason.
 */
char *
pv_window_normal_form(const char *text, bool *usable, const char **detail)
{
	PvWindow	window;
	char		zone[TZ_STRLEN_MAX + 1];

	*usable = false;
	if (!read_window(text, &window, zone, detail))
		return NULL;
	if (zone[0] != '\0')
	{
		window.zone = find_zone(zone);
		if (window.zone == NULL)
		{
			*detail = psprintf(_("This server has no time zone \"%s\"."), zone);
			return print_with_zone(&window, zone);
		}
	}
	*usable = true;
	return pv_window_print(&window);
}


/* ----------------------------------------------------------------
 *		Looking up a time
 * ----------------------------------------------------------------
 */

static const pg_tz *
zone_of(const PvWindow *window)
{
	return window->zone != NULL ? window->zone : log_timezone;
}

/* Return the minutes for which one span is open. */
static int
span_minutes(const PvWindowSpan *span)
{
	return span->end - span->begin +
		(span->end > span->begin ? 0 : MINUTES_PER_DAY);
}

/*
 * Return the minute of the week, from Sunday on, that a clock on the wall
 * shows.
 */
static int
minute_of_week(const struct pg_tm *tm)
{
	return (tm->tm_wday * HOURS_PER_DAY + tm->tm_hour) * MINS_PER_HOUR +
		tm->tm_min;
}

/* Return the minutes from the second argument to the first, within a week. */
static int
minutes_after(int minute, int earlier)
{
	return (minute - earlier + MINUTES_PER_WEEK) % MINUTES_PER_WEEK;
}

/* Is the window open at that time? */
bool
pv_window_is_open(const PvWindow *window, pg_time_t now)
{
	int			minute;

	if (window->always || window->nspans == 0)
		return window->always;
	minute = minute_of_week(pg_localtime(&now, zone_of(window)));

	for (int i = 0; i < window->nspans; i++)
	{
		const PvWindowSpan *span = &window->spans[i];

		for (int day = span->first_day; day < span->first_day + span->days;
			 day++)
		{
			int			begin = day * MINUTES_PER_DAY + span->begin;

			if (minutes_after(minute, begin % MINUTES_PER_WEEK) <
				span_minutes(span))
				return true;
		}
	}
	return false;
}

/*
 * Return the minutes, at least 1, until the clock shows a time at which a span
 * begins or ends.
 */
static int
minutes_to_edge(const PvWindow *window, int minute)
{
	int			result = MINUTES_PER_WEEK;

	for (int i = 0; i < window->nspans; i++)
	{
		const PvWindowSpan *span = &window->spans[i];

		for (int day = span->first_day; day < span->first_day + span->days;
			 day++)
		{
			int			begin = day * MINUTES_PER_DAY + span->begin;
			int			edges[2];

			edges[0] = begin;
			edges[1] = begin + span_minutes(span);
			for (size_t e = 0; e < lengthof(edges); e++)
			{
				int			wait =
					minutes_after(edges[e] % MINUTES_PER_WEEK, minute);

				if (wait > 0)
					result = Min(result, wait);
			}
		}
	}
	return result;
}

/*
 * Return when the window opens, if it is closed now, or closes, if it is open;
 * PV_WINDOW_NO_CHANGE if it never does.
 *
 * The loop visits the times at which that may be: the next edge of a span, for
 * a clock that is not put forward or back, or the time when the clock is put
 * forward or back, if that is earlier.
 */
pg_time_t
pv_window_next_change(const PvWindow *window, pg_time_t now)
{
	const pg_tz *zone = zone_of(window);
	bool		open = pv_window_is_open(window, now);
	pg_time_t	t = now;

	if (window->nspans == 0)
		return PV_WINDOW_NO_CHANGE;

	while (t < now + LONGEST_WAIT)
	{
		struct pg_tm *tm = pg_localtime(&t, zone);
		pg_time_t	edge = t - tm->tm_sec +
			(pg_time_t) minutes_to_edge(window, minute_of_week(tm)) *
			SECS_PER_MINUTE;
		pg_time_t	boundary;
		long int	gmtoff;
		int			isdst;

		if (pg_next_dst_boundary(&t, &gmtoff, &isdst, &boundary,
								 &gmtoff, &isdst, zone) == 1)
			edge = Min(edge, boundary);
		t = edge;
		if (pv_window_is_open(window, t) != open)
			return t;
	}
	return PV_WINDOW_NO_CHANGE;
}
