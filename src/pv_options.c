/*-------------------------------------------------------------------------
 *
 * pv_options.c
 *	  The options of a table: parvacuum.enabled and its like.
 *
 * One table, option_table[], has every option; parsing, checking, hints and
 * printing go by it.  pv_command.c takes the options out of ALTER TABLE and
 * CREATE TABLE, and here they are stored as the table's security label of our
 * provider:
 *
 *		SECURITY LABEL FOR parvacuum ON TABLE t IS 'enabled=true, workers=4'
 *		... IS 'enabled=true, window="Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00"'
 *
 * That is the one place in the catalogs where a value of ours can be tied to a
 * table: it is transactional, goes away with the table, is dumped by pg_dump,
 * replicated, and no table of ours is needed.  The text is canonical: options
 * in the order of their names, values printed in one way, in quotes if they are
 * text.
 *
 * Who runs this.  Changing: the session that executes the statement, with
 * ShareUpdateExclusiveLock or more on the table, so two changes of one table
 * follow each other; and with a lock of our own until the transaction ends, so
 * that a removal of all waits for them.  Reading: whoever vacuums the table, or looks at
 * parvacuum_tables, at any time and without a lock of its own; what it reads is
 * one row of pg_seclabel by index for the table and each of its ancestors.
 *
 * Core: commands/seclabel.c; access/common/reloptions.c, for the messages.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/parallel.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_seclabel.h"
#include "commands/defrem.h"
#include "commands/seclabel.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "postmaster/bgworker_internals.h"
#include "pv_guc.h"
#include "pv_options.h"
#include "pv_window.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

typedef enum OptionType
{
	OPTION_BOOL,
	OPTION_NUMBER,
	OPTION_TEXT
} OptionType;

typedef struct OptionDef
{
	const char *name;
	OptionType	type;
	const char *valid;			/* for the hint */
	int			min;			/* of a number that is not 0 */
	int			max;
	int			unit;			/* GUC_UNIT_*, or 0 */
	char	   *(*normal_form) (const char *text, const char **detail);	/* of text */
} OptionDef;

static char *window_normal_form(const char *text, const char **detail);

static const OptionDef option_table[PV_NUM_OPTIONS] = {
	[PV_OPTION_BUFFER_USAGE_LIMIT] = {
		.name = "buffer_usage_limit", .type = OPTION_NUMBER,
		.valid = "Valid values are 0 and sizes between \"128kB\" and \"16GB\".",
		.min = PV_MIN_BUFFER_USAGE_LIMIT, .max = PV_MAX_BUFFER_USAGE_LIMIT,
		.unit = GUC_UNIT_KB
	},
	[PV_OPTION_ENABLED] = {
		.name = "enabled", .type = OPTION_BOOL,
		.valid = "Valid values are \"true\" and \"false\"."
	},
	[PV_OPTION_WINDOW] = {
		.name = "window", .type = OPTION_TEXT, .valid = PV_WINDOW_HINT,
		.normal_form = window_normal_form
	},
	[PV_OPTION_WORKERS] = {
		.name = "workers", .type = OPTION_NUMBER,
		.valid = "Valid values are whole numbers between 0 and 1024.",
		.min = 1, .max = MAX_PARALLEL_WORKER_LIMIT
	},
};

StaticAssertDecl(MAX_PARALLEL_WORKER_LIMIT == 1024,
				 "the hint of \"workers\" names its maximum");


/* ----------------------------------------------------------------
 *		Names and values
 * ----------------------------------------------------------------
 */

bool
pv_relkind_has_options(char relkind)
{
	return relkind == RELKIND_RELATION || relkind == RELKIND_MATVIEW ||
		relkind == RELKIND_PARTITIONED_TABLE;
}

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

/* The names of all options, as a hint has them. */
static char *
valid_names(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
		appendStringInfo(&buf, "%s\"%s.%s\"",
						 i == 0 ? "" : i == PV_NUM_OPTIONS - 1 ? ", and " : ", ",
						 PV_NAMESPACE, option_table[i].name);
	return buf.data;
}

/* The option that an element of a statement or a label names, or an error. */
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

/* A window as it is stored, or NULL and what is wrong with it. */
static char *
window_normal_form(const char *text, const char **detail)
{
	PvWindow	window;

	return pv_window_parse(text, &window, detail) ? pv_window_print(&window) : NULL;
}

/* True or false, or neither: then the result is false. */
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
 * A number; false if the option cannot have it.  parse_int() would round
 * fractions, and make 0, which has a meaning of its own, of "100B".
 */
static bool
parse_number(const OptionDef *def, const char *text, int *value)
{
	double		number;

	if (!parse_real(text, &number, def->unit, NULL) || number != rint(number) ||
		(number != 0 && (number < def->min || number > def->max)))
		return false;
	*value = (int) number;
	return true;
}

/*
 * Enters a value; false if the option cannot have it, with a detail where the
 * hint does not say all.
 */
static bool
enter_value(PvOptions *options, PvOption i, const char *text,
			const char **detail)
{
	const OptionDef *def = &option_table[i];

	*detail = NULL;
	switch (def->type)
	{
		case OPTION_BOOL:
			options->given[i] = parse_truth(text, &options->value[i]);
			break;
		case OPTION_NUMBER:
			options->given[i] = parse_number(def, text, &options->value[i]);
			break;
		case OPTION_TEXT:
			options->text[i] = def->normal_form(text, detail);
			options->given[i] = options->text[i] != NULL;
			break;
	}
	return options->given[i];
}

/* Enters one value, or raises an error. */
static void
set_value(PvOptions *options, PvOption i, const char *text)
{
	const OptionDef *def = &option_table[i];
	const char *detail;

	if (!enter_value(options, i, text, &detail))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s.%s\": \"%s\"",
						PV_NAMESPACE, def->name, text),
				 detail ? errdetail_internal("%s", detail) : 0,
				 errhint("%s", def->valid)));
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
 * SET (...): enters what the elements of a statement say; one without a value
 * is true, as with core's parameters.
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
		set_value(options, i, def->arg ? defGetString(def) : "true");
	}
}

/* RESET (...): takes out what the elements name. */
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

/* Enters more, over what there is. */
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
	}
}


/* ----------------------------------------------------------------
 *		The text of a label
 * ----------------------------------------------------------------
 */

/* Text in quotes; a quote in it is doubled. */
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
				appendStringInfoString(&buf, options->value[i] ? "true" : "false");
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
 * Reads a value in a label, and moves *at to what follows: up to a comma or a
 * blank, or in quotes.  NULL if the last quote is missing.
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
 * Splits 'name=value, name="value"' and hands each pair on; false if it is no
 * such list, or if the receiver says so.
 */
static bool
split_label(const char *label,
			bool (*take) (PvOptions *options, const char *name, const char *value),
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

/* For a label that is being set: errors say what is wrong with it. */
static bool
take_or_fail(PvOptions *options, const char *name, const char *value)
{
	PvOption	i = known_option(name);

	if (options->given[i])
		refuse_repeated(i);
	set_value(options, i, value);
	return true;
}

/* For a label that is in the catalog. */
static bool
take_if_good(PvOptions *options, const char *name, const char *value)
{
	PvOption	i = find_option(name);
	const char *detail;

	return i != PV_NUM_OPTIONS && !options->given[i] &&
		enter_value(options, i, value, &detail);
}

/*
 * Refuses a label that ALTER TABLE would not have made: its owner can set it
 * by hand, and a dump does.
 */
void
pv_options_check_label(const char *label)
{
	PvOptions	options = {0};
	char	   *canonical;

	if (!split_label(label, take_or_fail, &options) ||
		(canonical = pv_options_print(&options)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid security label for parvacuum: \"%s\"", label),
				 errhint("Use ALTER TABLE ... SET (parvacuum.enabled), which makes such a label.")));

	if (strcmp(canonical, label) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("security label for parvacuum is not in canonical form: \"%s\"",
						label),
				 errhint("Write \"%s\".", canonical)));
}


/* ----------------------------------------------------------------
 *		The catalog
 * ----------------------------------------------------------------
 */

static ObjectAddress
table_address(Oid relid)
{
	ObjectAddress address;

	ObjectAddressSet(address, RelationRelationId, relid);
	return address;
}

/*
 * What the table says itself.  A label that cannot be read, written into the
 * catalog by hand or by a later version, is worth a warning but stops nobody.
 */
void
pv_options_read(Oid relid, PvOptions *options)
{
	ObjectAddress address = table_address(relid);
	char	   *label = GetSecurityLabel(&address, PV_NAMESPACE);
	char	   *relname;

	memset(options, 0, sizeof(*options));
	if (label == NULL || split_label(label, take_if_good, options))
		return;

	memset(options, 0, sizeof(*options));
	relname = get_rel_name(relid);
	ereport(WARNING,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("ignoring the parvacuum options of table \"%s\"",
					relname ? relname : psprintf("%u", relid)),
			 errdetail("Its security label cannot be read: \"%s\".", label),
			 errhint("Set the options again with ALTER TABLE.")));
}

/*
 * A lock on all labels of ours in this database, until the transaction ends.  It
 * is a lock that nobody else takes, on an object that does not exist: one on
 * pg_seclabel would have everybody wait who drops anything.
 */
static void
lock_labels(LOCKMODE mode)
{
	LockDatabaseObject(SecLabelRelationId, SecLabelRelationId, 0, mode);
}

/*
 * Who is about to change a label announces that until his transaction ends, so
 * that pv_options_remove_all() can wait for it.
 */
void
pv_options_announce_change(void)
{
	lock_labels(RowExclusiveLock);
}

/* A relation is about to be dropped; with it goes its label, if it has one. */
void
pv_options_announce_drop(Oid relid)
{
	ObjectAddress address = table_address(relid);

	if (GetSecurityLabel(&address, PV_NAMESPACE) != NULL)
		pv_options_announce_change();
}

/* Stores what the table is to say; for later commands to see. */
void
pv_options_write(Oid relid, const PvOptions *options)
{
	ObjectAddress address = table_address(relid);

	pv_options_announce_change();
	SetSecurityLabel(&address, PV_NAMESPACE, pv_options_print(options));
}

/*
 * Removes the options of all tables of this database, and returns how many
 * tables had some.  Waits for those who are changing options, and keeps others
 * from it until the transaction ends; locks no table.
 */
int
pv_options_remove_all(void)
{
	Relation	seclabel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;

	lock_labels(ShareRowExclusiveLock);
	seclabel = table_open(SecLabelRelationId, RowExclusiveLock);
	ScanKeyInit(&key, Anum_pg_seclabel_provider, BTEqualStrategyNumber,
				F_TEXTEQ, CStringGetTextDatum(PV_NAMESPACE));
	scan = systable_beginscan(seclabel, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		CatalogTupleDelete(seclabel, &tuple->t_self);
		n++;
	}
	systable_endscan(scan);
	table_close(seclabel, RowExclusiveLock);

	return n;
}

/*
 * The OIDs of all tables that say something themselves, as a hash table for the
 * caller to destroy.
 */
HTAB *
pv_options_labelled(void)
{
	HASHCTL		info = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid)};
	HTAB	   *labelled = hash_create("tables with options of parvacuum", 64, &info,
									   HASH_ELEM | HASH_BLOBS);
	Relation	seclabel = table_open(SecLabelRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_seclabel_provider, BTEqualStrategyNumber,
				F_TEXTEQ, CStringGetTextDatum(PV_NAMESPACE));
	ScanKeyInit(&key[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(seclabel, InvalidOid, false, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		(void) hash_search(labelled, &((FormData_pg_seclabel *) GETSTRUCT(tuple))->objoid,
						   HASH_ENTER, NULL);
	systable_endscan(scan);
	table_close(seclabel, AccessShareLock);
	return labelled;
}

/*
 * What holds where no table says anything.
 */
void
pv_options_default(PvEffectiveOptions *effective)
{
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		effective->value[i] = -1;
		effective->text[i] = NULL;
		effective->origin[i] = PV_ORIGIN_DEFAULT;
	}
	effective->value[PV_OPTION_ENABLED] = pv_guc_enabled;
	effective->origin[PV_OPTION_ENABLED] = PV_ORIGIN_SETTING;
	effective->value[PV_OPTION_BUFFER_USAGE_LIMIT] = pv_guc_buffer_usage_limit;
	effective->origin[PV_OPTION_BUFFER_USAGE_LIMIT] = PV_ORIGIN_SETTING;
	effective->text[PV_OPTION_WINDOW] = pv_window_print(&pv_guc_parsed_window);
	effective->origin[PV_OPTION_WINDOW] = PV_ORIGIN_SETTING;
}

/*
 * Enters what one table says where no nearer one has said anything.
 */
static void
inherit(PvEffectiveOptions *effective, Oid relid, PvOrigin origin)
{
	PvOptions	own;

	pv_options_read(relid, &own);
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (effective->origin[i] <= PV_ORIGIN_ANCESTOR || !own.given[i])
			continue;
		effective->value[i] = own.value[i];
		effective->text[i] = own.text[i];
		effective->origin[i] = origin;
	}
}

/*
 * What holds for a table: for each option its own word, else that of its
 * nearest ancestor, else the setting's.  Of a TOAST table ask for its table.
 */
void
pv_options_effective(Oid relid, bool is_partition,
					 PvEffectiveOptions *effective)
{
	pv_options_default(effective);
	inherit(effective, relid, PV_ORIGIN_TABLE);
	if (is_partition)
	{
		ListCell   *lc;

		foreach(lc, get_partition_ancestors(relid))
			inherit(effective, lfirst_oid(lc), PV_ORIGIN_ANCESTOR);
	}
}

/*
 * The same of an open table; a TOAST table goes by its table's.  A catalog has no options,
 * and is not asked for them: pg_seclabel, where we would look, is a catalog too.
 */
void
pv_options_of(Relation rel, Oid toast_parent, PvEffectiveOptions *effective)
{
	if (IsCatalogRelation(rel))
		pv_options_default(effective);
	else if (OidIsValid(toast_parent))
		pv_options_effective(toast_parent, get_rel_relispartition(toast_parent), effective);
	else
		pv_options_effective(RelationGetRelid(rel), rel->rd_rel->relispartition, effective);
}


/* ----------------------------------------------------------------
 *		Core's, for autovacuum
 * ----------------------------------------------------------------
 */

/*
 * The storage parameters autovacuum_* in a pg_class row.  False if it has none.
 */
bool
pv_options_read_autovacuum(HeapTuple tuple, TupleDesc desc, AutoVacOpts *options)
{
	StdRdOptions *all;

	if (heap_attisnull(tuple, Anum_pg_class_reloptions, desc))
		return false;
	all = (StdRdOptions *) extractRelOptions(tuple, desc, NULL);
	if (all == NULL)
		return false;
	*options = all->autovacuum;
	pfree(all);
	return true;
}

/*
 * The same of an open table; a TOAST table that has none goes by its table's.
 * Core: postmaster/autovacuum.c, do_autovacuum and extract_autovac_opts.
 */
bool
pv_options_autovacuum(Relation rel, Oid toast_parent, AutoVacOpts *options)
{
	Relation	pg_class;
	HeapTuple	tuple;
	bool		found = false;

	if (rel->rd_options != NULL)
	{
		*options = ((StdRdOptions *) rel->rd_options)->autovacuum;
		return true;
	}
	if (!OidIsValid(toast_parent))
		return false;

	pg_class = table_open(RelationRelationId, AccessShareLock);
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(toast_parent));
	if (HeapTupleIsValid(tuple))
	{
		found = pv_options_read_autovacuum(tuple, RelationGetDescr(pg_class), options);
		ReleaseSysCache(tuple);
	}
	table_close(pg_class, AccessShareLock);
	return found;
}
