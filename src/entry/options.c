/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The options of a table as values and as text.
 *
 * option_table[] has one row for each option.  Parsing, validation, hints and
 * printing all use it, so a new option is one more row.
 *
 * Options occur as elements of a statement, "SET (parvacuum.workers = 4)", and
 * as the text of a security label (entry/option_labels.c):
 *
 *		enabled=true, workers=4
 *		enabled=true, window="Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00"
 *
 * The text of a label is canonical: options in the order of their names, one
 * way to print each value, and text in double quotes.
 *
 * Nothing here reads a catalog or has a state.  The session that executes the
 * statement runs this, and any process that reads a label.
 *
 * Core: access/common/reloptions.c, for the messages.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "commands/defrem.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "postmaster/bgworker_internals.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/settings.h"
#include "base/window.h"
#include "entry/options.h"

typedef enum OptionType
{
	OPTION_BOOL,
	OPTION_NUMBER,
	OPTION_TEXT
} OptionType;

/* What entering a value comes to. */
typedef enum ValueOutcome
{
	VALUE_VALID,
	VALUE_UNUSABLE,				/* entered, but only other servers can use it */
	VALUE_INVALID				/* not entered */
} ValueOutcome;

typedef struct OptionDef
{
	const char *name;
	OptionType	type;
	const char *valid;			/* for the hint */
	int			min;			/* of a number that is not 0 */
	int			max;
	int			unit;			/* GUC_UNIT_*, or 0 */
	char	   *(*normal_form) (const char *text, bool *usable,
								const char **detail);	/* of text */
} OptionDef;

static const OptionDef option_table[PV_NUM_OPTIONS] = {
	[PV_OPTION_BUFFER_USAGE_LIMIT] = {
		.name = "buffer_usage_limit",
		.type = OPTION_NUMBER,
		.valid = "Valid values are 0 and sizes between \"128kB\" and \"16GB\".",
		.min = PV_MIN_BUFFER_USAGE_LIMIT,
		.max = PV_MAX_BUFFER_USAGE_LIMIT,
		.unit = GUC_UNIT_KB
	},
	[PV_OPTION_ENABLED] = {
		.name = "enabled",
		.type = OPTION_BOOL,
		.valid = "Valid values are \"true\" and \"false\"."
	},
	[PV_OPTION_SWEEP] = {
		.name = "sweep",
		.type = OPTION_BOOL,
		.valid = "Valid values are \"true\" and \"false\"."
	},
	[PV_OPTION_WINDOW] = {
		.name = "window",
		.type = OPTION_TEXT,
		.valid = PV_WINDOW_HINT,
		.normal_form = pv_window_normal_form
	},
	[PV_OPTION_WORKERS] = {
		.name = "workers",
		.type = OPTION_NUMBER,
		.valid = "Valid values are whole numbers between 0 and 1024.",
		.min = 1,
		.max = MAX_PARALLEL_WORKER_LIMIT
	},
};

StaticAssertDecl(MAX_PARALLEL_WORKER_LIMIT == 1024,
				 "the hint of \"workers\" names its maximum");


/* ----------------------------------------------------------------
 *		Names and values
 * ----------------------------------------------------------------
 */

/* The option of that name, or PV_NUM_OPTIONS. */
static PvOption
find_option(const char *name)
{
	PvOption	i;

	for (i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (strcmp(option_table[i].name, name) == 0)
			break;
	}
	return i;
}

/* The names of all options, for a hint. */
static char *
valid_names(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
		appendStringInfo(&buf, "%s\"%s.%s\"",
						 i == 0 ? "" :
						 i == PV_NUM_OPTIONS - 1 ? ", and " : ", ",
						 PV_NAMESPACE, option_table[i].name);
	return buf.data;
}

/*
 * The option that an element of a statement or of a label names, or an error.
 */
static PvOption
known_option(const char *name)
{
	PvOption	i = find_option(name);

	if (i == PV_NUM_OPTIONS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized parameter \"%s.%s\"", PV_NAMESPACE, name),
				 errhint("Valid parameters are %s.", valid_names())));
	return i;
}

/* The name, without the namespace. */
const char *
pv_option_name(PvOption option)
{
	return option_table[option].name;
}

/* Parses a boolean; returns false if the text is none. */
static bool
parse_truth(const char *text, int *value)
{
	bool		truth;

	if (!parse_bool(text, &truth))
		return false;
	*value = truth;
	return true;
}

/*
 * Parses a number; returns false if the option cannot have it.  parse_int()
 * would round fractions, and turn "100B" into 0, which has a meaning of its
 * own.
 */
static bool
parse_number(const OptionDef *def, const char *text, int *value)
{
	double		number;

	if (!parse_real(text, &number, def->unit, NULL) ||
		number != rint(number) ||
		(number != 0 && (number < def->min || number > def->max)))
		return false;
	*value = (int) number;
	return true;
}

/*
 * Enters a value.  *detail says what is wrong with a value that is invalid or
 * unusable, where the hint does not say it all; otherwise it is NULL.
 */
static ValueOutcome
enter_value(PvOptions *options, PvOption i, const char *text,
			const char **detail)
{
	const OptionDef *def = &option_table[i];

	*detail = NULL;
	options->unusable[i] = false;
	switch (def->type)
	{
		case OPTION_BOOL:
			options->given[i] = parse_truth(text, &options->value[i]);
			break;
		case OPTION_NUMBER:
			options->given[i] = parse_number(def, text, &options->value[i]);
			break;
		case OPTION_TEXT:
			{
				bool		usable;

				options->text[i] = def->normal_form(text, &usable, detail);
				options->given[i] = options->text[i] != NULL;
				options->unusable[i] = options->given[i] && !usable;
				break;
			}
	}
	if (!options->given[i])
		return VALUE_INVALID;
	return options->unusable[i] ? VALUE_UNUSABLE : VALUE_VALID;
}

/*
 * Enters a value, or raises an error.  A value that this server cannot use is
 * an error in ALTER TABLE.  A label may have come from another server, in a
 * dump, and must not make the restore fail; there such a value only causes a
 * warning.
 */
static void
set_value(PvOptions *options, PvOption i, const char *text, bool from_label)
{
	const OptionDef *def = &option_table[i];
	const char *detail;
	ValueOutcome outcome = enter_value(options, i, text, &detail);

	if (outcome == VALUE_INVALID ||
		(outcome == VALUE_UNUSABLE && !from_label))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s.%s\": \"%s\"",
						PV_NAMESPACE, def->name, text),
				 detail ? errdetail_internal("%s", detail) : 0,
				 errhint("%s", def->valid)));
	if (outcome == VALUE_UNUSABLE)
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("parameter \"%s.%s\" has no effect on this server: \"%s\"",
						PV_NAMESPACE, def->name, text),
				 errdetail_internal("%s", detail),
				 errhint("Set it again with ALTER TABLE.")));
}

static void
refuse_repeated(PvOption i)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("parameter \"%s.%s\" specified more than once",
					PV_NAMESPACE, option_table[i].name),
			 errhint("Give each parameter one value.")));
}

/*
 * SET (...): enters what the elements of a statement say.  An element without
 * a value means true, as with core's parameters.
 */
void
pv_options_set(PvOptions *options, const List *defs)
{
	bool		seen[PV_NUM_OPTIONS] = {false};
	ListCell   *lc;

	foreach(lc, defs)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		PvOption	i = known_option(def->defname);

		if (seen[i])
			refuse_repeated(i);
		seen[i] = true;
		set_value(options, i, def->arg ? defGetString(def) : "true", false);
	}
}

/* RESET (...): removes the options that the elements name. */
void
pv_options_reset(PvOptions *options, const List *defs)
{
	ListCell   *lc;

	foreach(lc, defs)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		PvOption	i = known_option(def->defname);

		if (def->arg != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("RESET must not include values for parameters"),
					 errhint("Write RESET (%s.%s).", PV_NAMESPACE, def->defname)));
		options->given[i] = false;
	}
}

/* Is any option given? */
bool
pv_options_any(const PvOptions *options)
{
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (options->given[i])
			return true;
	}
	return false;
}

/* The first option whose value this server cannot use, or PV_NUM_OPTIONS. */
PvOption
pv_options_first_unusable(const PvOptions *options)
{
	PvOption	i;

	for (i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (options->unusable[i])
			break;
	}
	return i;
}

/*
 * Enters the options that are given in "more"; they replace those given
 * before.
 */
void
pv_options_merge(PvOptions *options, const PvOptions *more)
{
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (!more->given[i])
			continue;
		options->given[i] = true;
		options->value[i] = more->value[i];
		options->text[i] = more->text[i];
		options->unusable[i] = more->unusable[i];
	}
}


/* ----------------------------------------------------------------
 *		The text of a label
 * ----------------------------------------------------------------
 */

/* Appends text in double quotes; a double quote in it is doubled. */
static void
append_quoted(StringInfo buf, const char *text)
{
	appendStringInfoChar(buf, '"');
	for (; *text != '\0'; text++)
	{
		if (*text == '"')
			appendStringInfoChar(buf, '"');
		appendStringInfoChar(buf, *text);
	}
	appendStringInfoChar(buf, '"');
}

/* The canonical text, or NULL where no option is given. */
char *
pv_options_print(const PvOptions *options)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (!options->given[i])
			continue;
		appendStringInfo(&buf, "%s%s=", buf.len > 0 ? ", " : "",
						 option_table[i].name);
		switch (option_table[i].type)
		{
			case OPTION_BOOL:
				appendStringInfoString(&buf,
									   options->value[i] ? "true" : "false");
				break;
			case OPTION_NUMBER:
				appendStringInfo(&buf, "%d", options->value[i]);
				break;
			case OPTION_TEXT:
				append_quoted(&buf, options->text[i]);
				break;
		}
	}
	return buf.len > 0 ? buf.data : NULL;
}

#define BLANKS		" \t\n\r\f"

/*
 * Reads a value in a label, and moves *at behind it.  The value ends at a
 * comma or a blank, or is in double quotes.  Returns NULL if the closing quote
 * is missing.
 */
static char *
read_value(const char **at)
{
	const char *p = *at;
	StringInfoData buf;

	if (*p != '"')
	{
		*at += strcspn(p, "," BLANKS);
		return pnstrdup(p, *at - p);
	}

	initStringInfo(&buf);
	for (p++; p[0] != '"' || p[1] == '"'; p++)
	{
		if (*p == '\0')
			return NULL;
		if (*p == '"')
			p++;
		appendStringInfoChar(&buf, *p);
	}
	*at = p + 1;
	return buf.data;
}

/*
 * Splits a text like 'name=value, name="value"', and passes each pair to the
 * function.  Returns false if the text is no such list, or if the function
 * returns false.
 */
static bool
split_label(const char *label,
			bool (*take) (PvOptions *options, const char *name,
						  const char *value),
			PvOptions *options)
{
	const char *at = label;

	do
	{
		char	   *name;
		char	   *value;
		size_t		len;

		at += strspn(at, BLANKS);
		len = strcspn(at, "=,\"" BLANKS);
		if (at[len] != '=')
			return false;
		name = pnstrdup(at, len);
		at += len + 1;

		value = read_value(&at);
		at += strspn(at, BLANKS);
		if (value == NULL || (*at != ',' && *at != '\0') ||
			!take(options, name, value))
			return false;
	} while (*at++ == ',');
	return true;
}

/* For a label that is being set: raises an error that says what is wrong. */
static bool
take_or_raise(PvOptions *options, const char *name, const char *value)
{
	PvOption	i = known_option(name);

	if (options->given[i])
		refuse_repeated(i);
	set_value(options, i, value, true);
	return true;
}

/*
 * For a label that is in the catalog: returns false if the pair is not valid.
 */
static bool
take_if_valid(PvOptions *options, const char *name, const char *value)
{
	PvOption	i = find_option(name);
	const char *detail;

	return i != PV_NUM_OPTIONS && !options->given[i] &&
		enter_value(options, i, value, &detail) != VALUE_INVALID;
}

/*
 * Refuses a label that ALTER TABLE would not have made.  The owner of a table
 * can set its label by hand, and a restored dump sets it.
 */
void
pv_options_check_label(const char *label)
{
	PvOptions	options = {0};
	char	   *canonical;

	if (!split_label(label, take_or_raise, &options) ||
		(canonical = pv_options_print(&options)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid security label for parvacuum: \"%s\"", label),
				 errhint("Use ALTER TABLE ... SET (parvacuum.enabled), which sets the label.")));

	if (strcmp(canonical, label) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("security label for parvacuum is not in canonical form: \"%s\"",
						label),
				 errhint("Write \"%s\".", canonical)));
}

/*
 * Parses a label that is in the catalog.  Returns false if it cannot be read;
 * then no option is given.
 */
bool
pv_options_parse_label(const char *label, PvOptions *options)
{
	bool		readable;

	memset(options, 0, sizeof(*options));
	readable = split_label(label, take_if_valid, options);
	if (!readable)
		memset(options, 0, sizeof(*options));
	return readable;
}
