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
 * raises an error other than out of memory.
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

/* Enough for two spans on each day */
#define MAX_SPANS			16

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
	*detail = *at == '\0' ?
		psprintf(_("%s is expected at its end."), expected) :
		psprintf(_("%s is expected at \"%s\"."), expected, at);
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

/* Add the minutes of a span that begins on each of some days. */
static void
add_minutes(PvWindow *window, int first_day, int days, int begin, int end)
{
	int			length = end - begin + (end > begin ? 0 : MINUTES_PER_DAY);

	for (int day = first_day; day < first_day + days; day++)
	{
		for (int i = 0; i < length;)
		{
			int			minute = (day * MINUTES_PER_DAY + begin + i) %
				PV_MINUTES_PER_WEEK;
			bool		whole = minute % 8 == 0 && length - i >= 8;

			window->open[minute / 8] |= whole ? 0xFF : 1 << minute % 8;
			i += whole ? 8 : 1;
		}
	}
}

/* Read a span: days or none, and times.  Append its normal form. */
static bool
read_span(const char **at, PvWindow *window, StringInfo normal,
		  const char **detail)
{
	int			first_day = 0;
	int			days = DAYS_PER_WEEK;
	int			begin,
				end;
	const char *start;

	if (is_letter(**at))
	{
		int			last_day;

		if (!read_day(at, &first_day))
			return complain(_("A day of the week"), *at, detail);
		last_day = first_day;
		if (read_char(at, '-') && !read_day(at, &last_day))
			return complain(_("A day of the week"), *at, detail);
		skip_blanks(at);
		days = (last_day - first_day + DAYS_PER_WEEK) % DAYS_PER_WEEK + 1;
		if (days == 1)
			appendStringInfo(normal, "%.3s ", day_names[first_day]);
		else if (days < DAYS_PER_WEEK)
			appendStringInfo(normal, "%.3s-%.3s ", day_names[first_day],
							 day_names[last_day]);
	}

	start = *at;
	if (!read_time(at, &begin, MINUTES_PER_DAY - 1))
		return complain(_("A time from 00:00 to 23:59"), start, detail);
	if (!read_char(at, '-'))
		return complain(_("A hyphen"), *at, detail);
	start = *at;
	if (!read_time(at, &end, MINUTES_PER_DAY))
		return complain(_("A time from 00:00 to 24:00"), start, detail);
	if (end == 0)
		end = MINUTES_PER_DAY;
	skip_blanks(at);

	appendStringInfo(normal, "%02d:%02d-%02d:%02d",
					 begin / MINS_PER_HOUR, begin % MINS_PER_HOUR,
					 end / MINS_PER_HOUR, end % MINS_PER_HOUR);
	add_minutes(window, first_day, days, begin, end);
	return true;
}

/* Read what may be the name of a time zone, one word, to the text's end. */
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
 * Parse the text of a window, and return its normal form in new memory.  Texts
 * of the same spans, written in different ways, have the same normal form.
 *
 * If the text is not a window, return NULL, and set *detail to the reason, a
 * translated sentence in new memory.  If this server does not know the time
 * zone, set *detail as well, but return the text, with the name as it is
 * written, because another server may know it.  Otherwise *detail is NULL.
 */
char *
pv_window_parse(const char *text, PvWindow *window, const char **detail)
{
	char		zone[TZ_STRLEN_MAX + 1];
	int			nspans = 0;
	StringInfoData normal;

	*detail = NULL;
	memset(window, 0, sizeof(*window));
	initStringInfo(&normal);

	skip_blanks(&text);
	window->always = *text == '\0';
	if (window->always)
		return normal.data;
	if (is_word(text, "never"))
		return pstrdup("never");

	do
	{
		if (++nspans > MAX_SPANS)
		{
			*detail = psprintf(_("It has more than %d spans."), MAX_SPANS);
			return NULL;
		}
		if (nspans > 1)
			appendStringInfoString(&normal, ", ");
		if (!read_span(&text, window, &normal, detail))
			return NULL;
	} while (read_char(&text, ','));

	if (*text == '\0')
		return normal.data;
	if (!read_zone(text, zone))
	{
		complain(_("A comma or the name of a time zone"), text, detail);
		return NULL;
	}
	window->zone = find_zone(zone);
	if (window->zone == NULL)
		*detail = psprintf(_("This server has no time zone \"%s\"."), zone);
	appendStringInfo(&normal, " %s", window->zone == NULL ? zone :
					 pg_get_timezone_name(window->zone));
	return normal.data;
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

/* Return the minute of the week, from Sunday on, that the clock shows. */
static int
minute_of_week(const struct pg_tm *tm)
{
	return (tm->tm_wday * HOURS_PER_DAY + tm->tm_hour) * MINS_PER_HOUR +
		tm->tm_min;
}

/* Is that minute open, counted from the beginning of any week? */
static bool
is_open_minute(const PvWindow *window, int minute)
{
	minute %= PV_MINUTES_PER_WEEK;
	return (window->open[minute / 8] & (1 << minute % 8)) != 0;
}

/* Is the window open at that time? */
bool
pv_window_is_open(const PvWindow *window, pg_time_t now)
{
	return window->always ||
		is_open_minute(window,
					   minute_of_week(pg_localtime(&now, zone_of(window))));
}

/*
 * Return when the window opens, if it is closed now, or closes, if it is open;
 * PV_WINDOW_NO_CHANGE if it never does.
 *
 * The loop visits the times at which that may be: the next minute that
 * differs, or the time when the clock is put forward or back, if that is
 * earlier.
 */
pg_time_t
pv_window_next_change(const PvWindow *window, pg_time_t now)
{
	const pg_tz *zone = zone_of(window);
	bool		open = pv_window_is_open(window, now);
	pg_time_t	t = now;

	if (window->always)
		return PV_WINDOW_NO_CHANGE;

	while (t < now + LONGEST_WAIT)
	{
		struct pg_tm *tm = pg_localtime(&t, zone);
		int			minute = minute_of_week(tm);
		int			wait = 1;
		pg_time_t	boundary;
		long int	gmtoff;
		int			isdst;

		while (wait < PV_MINUTES_PER_WEEK &&
			   is_open_minute(window, minute + wait) == open)
			wait++;
		wait = wait * SECS_PER_MINUTE - tm->tm_sec;
		if (pg_next_dst_boundary(&t, &gmtoff, &isdst, &boundary,
								 &gmtoff, &isdst, zone) == 1)
			t = Min(t + wait, boundary);
		else
			t += wait;
		if (pv_window_is_open(window, t) != open)
			return t;
	}
	return PV_WINDOW_NO_CHANGE;
}
