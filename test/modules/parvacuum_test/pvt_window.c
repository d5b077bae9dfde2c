/*-------------------------------------------------------------------------
 *
 * pvt_window.c
 *	  SQL functions that show windows, at any time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "base/window.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(parvacuum_test_window);
PG_FUNCTION_INFO_V1(parvacuum_test_window_is_open);
PG_FUNCTION_INFO_V1(parvacuum_test_window_next_change);

/* The window that the first argument is, or an error. */
static void
get_window(FunctionCallInfo fcinfo, PvWindow *window)
{
	const char *detail;

	(void) pv_window_parse(text_to_cstring(PG_GETARG_TEXT_PP(0)), window,
						   &detail);
	if (detail != NULL)
		elog(ERROR, "%s", detail);
}

/* The window in its normal form, or the complaint about it. */
Datum
parvacuum_test_window(PG_FUNCTION_ARGS)
{
	PvWindow	window;
	PvWindow	again;
	const char *detail;
	char	   *normal;

	normal = pv_window_parse(text_to_cstring(PG_GETARG_TEXT_PP(0)), &window,
							 &detail);
	if (detail != NULL)
		PG_RETURN_TEXT_P(cstring_to_text(detail));

	if (strcmp(pv_window_parse(normal, &again, &detail), normal) != 0)
		elog(ERROR, "normal form \"%s\" cannot be read: %s", normal, detail);
	if (memcmp(&window, &again, sizeof(window)) != 0)
		elog(ERROR, "normal form \"%s\" is another window", normal);
	PG_RETURN_TEXT_P(cstring_to_text(normal));
}

Datum
parvacuum_test_window_is_open(PG_FUNCTION_ARGS)
{
	PvWindow	window;
	pg_time_t	now;

	get_window(fcinfo, &window);
	now = timestamptz_to_time_t(PG_GETARG_TIMESTAMPTZ(1));
	PG_RETURN_BOOL(pv_window_is_open(&window, now));
}

/* Null where it never changes. */
Datum
parvacuum_test_window_next_change(PG_FUNCTION_ARGS)
{
	PvWindow	window;
	pg_time_t	change;

	get_window(fcinfo, &window);
	change =
		pv_window_next_change(&window,
							  timestamptz_to_time_t(PG_GETARG_TIMESTAMPTZ(1)));
	if (change == PV_WINDOW_NO_CHANGE)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(time_t_to_timestamptz(change));
}
