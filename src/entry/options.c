/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The options of a table as values and as text.
 *
 * Options occur as elements of a statement, "SET (parvacuum.workers = 4)", and
 * as the text of a security label (entry/labels.c):
 *
 *		enabled=true, workers=4
 *		enabled=true, window="Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00"
 *
 * Between the two they are an array of the same form as pg_class.reloptions,
 * with the names in full, "parvacuum.workers=4".  Core parses and checks that,
 * as it does for the options of an operator class.
 *
 * The text of a label is canonical: options in the order of their names, one
 * way to print each value, and a window in double quotes.  So a label is good
 * if it is the same when its values are printed again.
 *
 * Any process runs this.  Nothing here reads a catalog or has a state.
 *
 * Core: access/common/reloptions.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/reloptions.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "postmaster/bgworker_internals.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/settings.h"
#include "base/window.h"
#include "entry/options.h"

/* The names in full, and without the namespace */
#define PREFIX					PV_NAMESPACE "."

static const char *const names[PV_NUM_OPTIONS] = {
	[PV_OPTION_BUFFER_USAGE_LIMIT] = PREFIX "buffer_usage_limit",
	[PV_OPTION_ENABLED] = PREFIX "enabled",
	[PV_OPTION_SWEEP] = PREFIX "sweep",
	[PV_OPTION_WINDOW] = PREFIX "window",
	[PV_OPTION_WORKERS] = PREFIX "workers",
};

/* What core makes of an array of options */
typedef struct Reloptions
{
	int32		vl_len_;		/* varlena header (do not touch directly!) */
	int			value[PV_NUM_OPTIONS];	/* of a string its offset in this
										 * struct, or 0 */
} Reloptions;

#define OFFSET_OF(option) \
	(offsetof(Reloptions, value) + (option) * sizeof(int))

/* Return an option's name, without the namespace. */
const char *
pv_option_name(PvOption option)
{
	return names[option] + strlen(PREFIX);
}

/* Can a relation of this kind have options of its own? */
bool
pv_relkind_has_options(char relkind)
{
	return relkind == RELKIND_RELATION || relkind == RELKIND_MATVIEW ||
		relkind == RELKIND_PARTITIONED_TABLE;
}

/* Fill in that no option is given. */
void
pv_options_clear(PvOptions *options)
{
	options->window = NULL;
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		options->value[i] = PV_OPTION_NOT_GIVEN;
		options->origin[i] = PV_ORIGIN_DEFAULT;
	}
}

/*
 * Enter options that are given in labels, where no nearer label has given
 * them.  They come from the given origin, or from farther away.  A window that
 * this server cannot use counts as not given.
 */
void
pv_options_inherit(PvOptions *options, const PvOptions *more, PvOrigin origin)
{
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (options->origin[i] <= PV_ORIGIN_ANCESTOR ||
			more->origin[i] > PV_ORIGIN_ANCESTOR ||
			(i == PV_OPTION_WINDOW && more->value[i] == 0))
			continue;
		options->value[i] = more->value[i];
		options->origin[i] = Max(origin, more->origin[i]);
		if (i == PV_OPTION_WINDOW)
			options->window = more->window;
	}
}


/* ----------------------------------------------------------------
 *		Values
 * ----------------------------------------------------------------
 */

/*
 * Parse a size in kilobytes.  parse_int() would round fractions, and turn
 * "100B" into 0, which has a meaning of its own.
 */
static bool
parse_limit(const char *text, int *kilobytes)
{
	double		size;

	if (!parse_real(text, &size, GUC_UNIT_KB, NULL) || size != rint(size) ||
		(size != 0 && (size < PV_MIN_BUFFER_USAGE_LIMIT ||
					   size > PV_MAX_BUFFER_USAGE_LIMIT)))
		return false;
	*kilobytes = (int) size;
	return true;
}

/* Raise an error for the value of an option. */
static void
raise_invalid(PvOption option, const char *text, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for parameter \"%s\": \"%s\"",
					names[option], text),
			 detail ? errdetail_internal("%s", detail) : 0));
}

/* Validator of core; text is NULL for the default. */
static void
check_limit(const char *text)
{
	int			kilobytes;

	if (text != NULL && !parse_limit(text, &kilobytes))
		raise_invalid(PV_OPTION_BUFFER_USAGE_LIMIT, text, NULL);
}

/* The same. */
static void
check_window(const char *text)
{
	const char *detail = NULL;
	PvWindow	window;

	if (text != NULL)
		(void) pv_window_parse(text, &window, &detail);
	if (detail != NULL)
		raise_invalid(PV_OPTION_WINDOW, text, detail);
}

/*
 * Have core parse an array of options.  With validate, raise an error for what
 * is not valid.
 */
static Reloptions *
parse_array(Datum array, bool validate)
{
	static relopt_enum_elt_def truths[] = {
		{"true", true}, {"t", true}, {"on", true}, {"yes", true},
		{"y", true}, {"1", true}, {"false", false}, {"f", false},
		{"off", false}, {"no", false}, {"n", false}, {"0", false},
		{NULL}
	};
	static const char *const valid_truths =
		gettext_noop("Valid values are \"true\" and \"false\".");
	local_relopts core;

	init_local_reloptions(&core, sizeof(Reloptions));
	add_local_string_reloption(&core, names[PV_OPTION_BUFFER_USAGE_LIMIT],
							   NULL, NULL, check_limit, NULL,
							   OFFSET_OF(PV_OPTION_BUFFER_USAGE_LIMIT));
	add_local_enum_reloption(&core, names[PV_OPTION_ENABLED], NULL, truths,
							 PV_OPTION_NOT_GIVEN, valid_truths,
							 OFFSET_OF(PV_OPTION_ENABLED));
	add_local_enum_reloption(&core, names[PV_OPTION_SWEEP], NULL, truths,
							 PV_OPTION_NOT_GIVEN, valid_truths,
							 OFFSET_OF(PV_OPTION_SWEEP));
	add_local_string_reloption(&core, names[PV_OPTION_WINDOW], NULL, NULL,
							   check_window, NULL,
							   OFFSET_OF(PV_OPTION_WINDOW));
	add_local_int_reloption(&core, names[PV_OPTION_WORKERS], NULL,
							PV_OPTION_NOT_GIVEN, 0, MAX_PARALLEL_WORKER_LIMIT,
							OFFSET_OF(PV_OPTION_WORKERS));
	return build_local_reloptions(&core, array, validate);
}

/* Return the text of an option that core has parsed, or NULL. */
static const char *
text_of(const Reloptions *parsed, PvOption option)
{
	int			offset = parsed->value[option];

	return offset == 0 ? NULL : (const char *) parsed + offset;
}

/*
 * Read the options in an array, leaving out those that are invalid.  Without
 * validation core has accepted numbers that are out of bounds.
 */
static void
read_array(Datum array, PvOptions *options)
{
	const Reloptions *parsed = parse_array(array, false);
	const char *limit = text_of(parsed, PV_OPTION_BUFFER_USAGE_LIMIT);
	const char *window = text_of(parsed, PV_OPTION_WINDOW);
	const char *detail;
	PvWindow	unused;

	memcpy(options->value, parsed->value, sizeof(options->value));
	if (options->value[PV_OPTION_WORKERS] < 0 ||
		options->value[PV_OPTION_WORKERS] > MAX_PARALLEL_WORKER_LIMIT)
		options->value[PV_OPTION_WORKERS] = PV_OPTION_NOT_GIVEN;
	if (limit == NULL ||
		!parse_limit(limit, &options->value[PV_OPTION_BUFFER_USAGE_LIMIT]))
		options->value[PV_OPTION_BUFFER_USAGE_LIMIT] = PV_OPTION_NOT_GIVEN;
	options->window = window == NULL ? NULL :
		pv_window_parse(window, &unused, &detail);
	options->value[PV_OPTION_WINDOW] = options->window == NULL ?
		PV_OPTION_NOT_GIVEN : detail == NULL;
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
		options->origin[i] = options->value[i] == PV_OPTION_NOT_GIVEN ?
			PV_ORIGIN_DEFAULT : PV_ORIGIN_TABLE;
}


/* ----------------------------------------------------------------
 *		The elements of a statement
 * ----------------------------------------------------------------
 */

/* Error context callback: tell which options and values there are. */
static void
add_hint(void *arg)
{
	if (geterrcode() == ERRCODE_INVALID_PARAMETER_VALUE)
		errhint("Valid are \"parvacuum.enabled\" and \"parvacuum.sweep\" with true or false, \"parvacuum.workers\" with 0 to %d, \"parvacuum.buffer_usage_limit\" with 0 or 128kB to 16GB, and \"parvacuum.window\" with text such as 'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00'.",
				MAX_PARALLEL_WORKER_LIMIT);
}

/*
 * Return the options after SET (...) or RESET (...), whose elements have the
 * names in full.  SET raises an error for unknown names and invalid values.  An
 * element without a value means true, as with core's parameters.
 */
Datum
pv_options_change(Datum array, List *defs, bool reset)
{
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = add_hint
	};

	if (!reset)
	{
		error_context_stack = &context;
		(void) parse_array(transformRelOptions((Datum) 0, defs, NULL, NULL,
											   false, false), true);
		error_context_stack = context.previous;
	}
	return transformRelOptions(array, defs, NULL, NULL, false, reset);
}

/* Return the options of both arrays; those of the second one replace others. */
Datum
pv_options_merge(Datum array, Datum more)
{
	return transformRelOptions(array, untransformRelOptions(more), NULL, NULL,
							   false, false);
}


/* ----------------------------------------------------------------
 *		The text of a label
 * ----------------------------------------------------------------
 */

/* Return the canonical text, or NULL where no option is given. */
static char *
print_options(const PvOptions *options)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (options->origin[i] == PV_ORIGIN_DEFAULT)
			continue;
		appendStringInfo(&buf, "%s%s=", buf.len > 0 ? ", " : "",
						 pv_option_name(i));
		if (i == PV_OPTION_WINDOW)
			appendStringInfo(&buf, "\"%s\"", options->window);
		else if (i == PV_OPTION_ENABLED || i == PV_OPTION_SWEEP)
			appendStringInfoString(&buf,
								   options->value[i] ? "true" : "false");
		else
			appendStringInfo(&buf, "%d", options->value[i]);
	}
	return buf.len > 0 ? buf.data : NULL;
}

/* Return the label for an array of options, or NULL if it has none. */
char *
pv_options_label(Datum array)
{
	PvOptions	options;

	read_array(array, &options);
	return print_options(&options);
}

/*
 * Make an array of a label such as 'workers=1, window="never"'.  Return zero
 * if the text is no such list.  Values are not checked.
 */
static Datum
split_label(const char *label)
{
	ArrayBuildState *state = NULL;
	const char *at = label;

	for (;;)
	{
		int			name_len = strcspn(at, "=");
		const char *value = at + name_len + 1;
		bool		quoted;
		int			len;

		if (at[name_len] == '\0')
			return (Datum) 0;
		quoted = *value == '"';
		value += quoted;
		len = strcspn(value, quoted ? "\"" : ",");
		state = accumArrayResult(state,
								 CStringGetTextDatum(psprintf("%s%.*s=%.*s",
															  PREFIX,
															  name_len, at,
															  len, value)),
								 false, TEXTOID, CurrentMemoryContext);
		at = value + len;
		if (quoted && *at++ != '"')
			return (Datum) 0;
		if (*at == '\0')
			return makeArrayResult(state, CurrentMemoryContext);
		if (strncmp(at, ", ", 2) != 0)
			return (Datum) 0;
		at += 2;
	}
}

/*
 * Parse a label, with the given function to compare texts.  Return false if it
 * is not what ALTER TABLE would have made; then no option is given.  What core
 * allocates is freed, as owners decide how many labels there are.
 */
static bool
parse_label(const char *label, PvOptions *options,
			int (*compare) (const char *, const char *))
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum label",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	const char *canonical;
	bool		good;

	read_array(split_label(label), options);
	canonical = print_options(options);
	good = canonical != NULL && compare(canonical, label) == 0;
	MemoryContextSwitchTo(caller);
	if (!good)
		pv_options_clear(options);
	else if (options->window != NULL)
		options->window = pstrdup(options->window);
	MemoryContextDelete(context);
	return good;
}

/*
 * Parse a label that is in the catalog.  A time zone that the server has
 * learned since then may be written in another case.
 */
bool
pv_options_parse(const char *label, PvOptions *options)
{
	return parse_label(label, options, pg_strcasecmp);
}

/* Return the options of a label, or zero if there are none or it is not good. */
Datum
pv_options_of_label(const char *label)
{
	PvOptions	options;

	return label != NULL && pv_options_parse(label, &options) ?
		split_label(label) : (Datum) 0;
}

/*
 * Refuse a label that ALTER TABLE would not have made.  The owner of a table
 * can set its label by hand, and a restored dump sets it.  A dump may have come
 * from another server, and must not fail because this one does not know a time
 * zone, so that causes a warning only.
 */
void
pv_options_check_label(const char *label)
{
	PvOptions	options;

	if (!parse_label(label, &options, strcmp))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid security label for parvacuum: \"%s\"", label),
				 errhint("Use ALTER TABLE ... SET (parvacuum.enabled), which sets the label.")));
	if (options.value[PV_OPTION_WINDOW] == 0)
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("parameter \"%s\" has no effect on this server: \"%s\"",
						names[PV_OPTION_WINDOW], options.window),
				 errdetail("This server does not know its time zone."),
				 errhint("Set it again with ALTER TABLE.")));
}
