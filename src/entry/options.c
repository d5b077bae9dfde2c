/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The options of a table: parvacuum.enabled and its like.
 *
 * One table, option_table[], has every option; parsing, checking, hints and
 * printing go by it.  entry/command.c takes the options out of ALTER TABLE and
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
 * A vacuum must not fail or wait for the sake of its options: it may be the one that
 * prevents wraparound, and without parvacuum it would not read these catalogs.  So who
 * vacuums takes locks on them only if they are free, and has any error ended in a
 * subtransaction; see read_safely().
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
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_seclabel.h"
#include "commands/defrem.h"
#include "commands/seclabel.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "port/atomics.h"
#include "postmaster/bgworker_internals.h"
#include "storage/lmgr.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "base/settings.h"
#include "base/window.h"
#include "entry/options.h"
#include "throttle/cost.h"

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
	char	   *(*normal_form) (const char *text, bool *usable,
								const char **detail);	/* of text */
} OptionDef;

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
		.normal_form = pv_window_normal_form
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
 * hint does not say all.  One that another server could use is entered as unusable, with
 * a detail.
 */
static bool
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
	return options->given[i];
}

/*
 * Enters one value, or raises an error.  A value that this server cannot use is an error
 * in ALTER TABLE.  A label may have come from another server, by a dump, and must not keep
 * it from being restored; so there it is worth a warning.
 */
static void
set_value(PvOptions *options, PvOption i, const char *text, bool from_label)
{
	const OptionDef *def = &option_table[i];
	const char *detail;
	bool		valid = enter_value(options, i, text, &detail);

	if (!valid || (options->unusable[i] && !from_label))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s.%s\": \"%s\"",
						PV_NAMESPACE, def->name, text),
				 detail ? errdetail_internal("%s", detail) : 0,
				 errhint("%s", def->valid)));
	if (options->unusable[i])
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
		set_value(options, i, def->arg ? defGetString(def) : "true", false);
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
		options->unusable[i] = more->unusable[i];
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
	set_value(options, i, value, true);
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

/* A label that this process has warned of */
typedef struct WarnedOf
{
	Oid			relid;			/* the key */
	uint32		hash;			/* of the label */
} WarnedOf;

static HTAB *warned_of = NULL;

/*
 * What autovacuum and the scheduler have warned of.  Each of their processes looks at
 * many tables and soon ends, so what one has warned of is kept for the others in main
 * shared memory.  When that is full no more is warned of, or an owner could fill the log.
 */
#define MAX_WARNINGS			256

typedef struct WarningsShared
{
	/* atomics; 0: free */
	pg_atomic_uint32 hashes[MAX_WARNINGS];
} WarningsShared;

static WarningsShared *warnings = NULL;

Size
pv_options_shmem_size(void)
{
	return MAXALIGN(sizeof(WarningsShared));
}

/* Finds it or sets it up.  The caller holds AddinShmemInitLock. */
void
pv_options_shmem_startup(void)
{
	bool		found;

	warnings = ShmemInitStruct("parvacuum warnings", sizeof(WarningsShared), &found);
	for (int i = 0; i < MAX_WARNINGS && !found; i++)
		pg_atomic_init_u32(&warnings->hashes[i], 0);
}

/* Has no process of autovacuum or of the scheduler warned of that?  It has now. */
static bool
is_news_to_all(Oid relid, uint32 hash_of_label)
{
	uint32		hash = hash_combine(hash_combine(MyDatabaseId, relid), hash_of_label);

	hash = Max(hash, 1);
	for (int i = 0; warnings != NULL && i < MAX_WARNINGS; i++)
	{
		uint32		there = 0;

		if (pg_atomic_compare_exchange_u32(&warnings->hashes[i], &there, hash))
			return true;
		if (there == hash)
			return false;
	}
	return false;
}

/*
 * Is the table's label another one than this process has last warned of?  It is from now
 * on what it has warned of.
 */
static bool
is_news(Oid relid, const char *label)
{
	uint32		hash = DatumGetUInt32(hash_any((const unsigned char *) label, strlen(label)));
	WarnedOf   *entry;
	bool		found;

	if (pv_is_automatic())
		return is_news_to_all(relid, hash);
	if (warned_of == NULL)
	{
		HASHCTL		info = {.keysize = sizeof(Oid),.entrysize = sizeof(WarnedOf)};

		warned_of = hash_create("labels of parvacuum that were warned of", 16, &info,
								HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(warned_of, &relid, HASH_ENTER, &found);
	if (found && entry->hash == hash)
		return false;
	entry->hash = hash;
	return true;
}

static void
forget_news(Oid relid)
{
	if (warned_of != NULL)
		(void) hash_search(warned_of, &relid, HASH_REMOVE, NULL);
}

/* The first option that this server cannot use, or PV_NUM_OPTIONS. */
static PvOption
first_unusable(const PvOptions *options)
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
 * What the table says itself.  A label that cannot be read, written into the
 * catalog by hand or by a later version, or an option in it that this server cannot
 * use, is worth a warning but stops nobody.
 */
void
pv_options_read(Oid relid, PvOptions *options)
{
	ObjectAddress address = table_address(relid);
	char	   *label = GetSecurityLabel(&address, PV_NAMESPACE);
	char	   *relname;
	PvOption	i;
	bool		readable;

	memset(options, 0, sizeof(*options));
	if (label == NULL)
		return;
	readable = split_label(label, take_if_good, options);
	if (!readable)
		memset(options, 0, sizeof(*options));
	i = first_unusable(options);
	if (readable && i == PV_NUM_OPTIONS)
		forget_news(relid);
	else if (is_news(relid, label))
	{
		relname = get_rel_name(relid);
		if (relname == NULL)
			relname = psprintf("%u", relid);
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 readable ?
				 errmsg("ignoring the parvacuum option \"%s\" of table \"%s\"",
						option_table[i].name, relname) :
				 errmsg("ignoring the parvacuum options of table \"%s\"", relname),
				 readable ?
				 errdetail("This server cannot use its value: \"%s\".", options->text[i]) :
				 errdetail("Its security label cannot be read: \"%s\".", label),
				 errhint("Set the options again with ALTER TABLE.")));
	}
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
 * How many tables of this database have options?  They may be deleted in passing.
 */
static int
visit_labels(bool remove)
{
	LOCKMODE	lockmode = remove ? RowExclusiveLock : AccessShareLock;
	Relation	seclabel = table_open(SecLabelRelationId, lockmode);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;

	ScanKeyInit(&key, Anum_pg_seclabel_provider, BTEqualStrategyNumber,
				F_TEXTEQ, CStringGetTextDatum(PV_NAMESPACE));
	scan = systable_beginscan(seclabel, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (remove)
			CatalogTupleDelete(seclabel, &tuple->t_self);
		n++;
	}
	systable_endscan(scan);
	table_close(seclabel, lockmode);

	return n;
}

/* How many tables of this database have options, as far as this transaction sees. */
int
pv_options_count(void)
{
	return visit_labels(false);
}

/*
 * Removes the options of all tables of this database, and returns how many
 * tables had some.  Waits for those who are changing options, and keeps others
 * from it until the transaction ends; locks no table.
 */
int
pv_options_remove_all(void)
{
	lock_labels(ShareRowExclusiveLock);
	return visit_labels(true);
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
		if (effective->origin[i] <= PV_ORIGIN_ANCESTOR || !own.given[i] || own.unusable[i])
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
pv_options_look_up(Oid relid, bool is_partition, PvEffectiveOptions *effective)
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


/* ----------------------------------------------------------------
 *		Reading for a vacuum, which must neither wait nor fail
 * ----------------------------------------------------------------
 */

/* The last attempt to read these failed, and this process has said so */
static bool labels_unreadable = false;
static bool parents_unreadable = false;

/*
 * Call the reader; false if it fails, with a warning unless it failed the last time, too.
 * Any error is as good as another: a catalog that is damaged, or locked, see
 * lock_if_free().  Only a cancel is passed on.
 *
 * It runs in a subtransaction, which is always rolled back: that releases what an error
 * leaves behind (locks, pins, open relations, LWLocks), and the locks on catalogs, which a
 * long vacuum must not keep.  The result is allocated in the caller's memory context.
 *
 * This is sound where a vacuum reads its options, on all versions.  Core's vacuum_rel()
 * has begun a transaction that is no block, pushed a snapshot, opened and locked the table;
 * all of this is the outer transaction's, and a subtransaction's end leaves it alone.  The
 * status flags that hide our xmin are the top transaction's, too, and are not touched.  The
 * reader writes nothing, so there is no XID.  Parallel mode, where subtransactions are
 * forbidden, begins later, and so does the progress report, which a rollback would end.
 *
 * Core: pl/plpgsql/src/pl_exec.c, exec_stmt_block; access/transam/xact.c,
 * AbortSubTransaction.
 */
static bool
read_safely(void (*reader) (void *arg), void *arg, bool *unreadable)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		reader(arg);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	if (error != NULL && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	if (error != NULL && !*unreadable)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not read the parvacuum options of tables"),
				 errdetail_internal("%s", error->message),
				 errhint("Tables are vacuumed as if they had none until they can be read.")));
	*unreadable = error != NULL;
	return error == NULL;
}

/*
 * Lock a catalog and the index by which it is read, or fail if somebody has locked them
 * against that.
 */
static void
lock_if_free(Oid catalog, Oid index, const char *name)
{
	if (!ConditionalLockRelationOid(catalog, AccessShareLock) ||
		(OidIsValid(index) && !ConditionalLockRelationOid(index, AccessShareLock)))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("catalog \"%s\" is locked", name),
				 errhint("Wait until it is free.")));
}

static void
lock_labels_if_free(void)
{
	lock_if_free(SecLabelRelationId, SecLabelObjectIndexId, "pg_seclabel");
}

/* What is asked of a reader, and its answer */
typedef struct Question
{
	Relation	rel;			/* or NULL */
	Oid			relid;			/* of a TOAST table: its table, perhaps invalid */
	bool		is_partition;
	PvEffectiveOptions *effective;
	HTAB	   *labelled;
} Question;

static void
read_effective(void *arg)
{
	Question   *question = arg;

	lock_labels_if_free();
	if (question->is_partition)
		lock_if_free(InheritsRelationId, InheritsRelidSeqnoIndexId, "pg_inherits");
	pv_options_look_up(question->relid, question->is_partition, question->effective);
}

/*
 * The same as pv_options_look_up(), but for who vacuums; as if there were no options if they
 * cannot be read.
 */
void
pv_options_effective(Oid relid, bool is_partition,
					 PvEffectiveOptions *effective)
{
	Question	question = {.relid = relid,.is_partition = is_partition,
	.effective = effective};

	if (!read_safely(read_effective, &question, &labels_unreadable))
		pv_options_default(effective);
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

/*
 * The table that a TOAST table belongs to by its dependency, or InvalidOid.  pg_class
 * points only the other way.
 */
static Oid
parent_by_dependency(Oid toast)
{
	Relation	depend;
	ScanKeyData key[3];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			parent = InvalidOid;

	ScanKeyInit(&key[0], Anum_pg_depend_classid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_objid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(toast));
	ScanKeyInit(&key[2], Anum_pg_depend_objsubid, BTEqualStrategyNumber,
				F_INT4EQ, Int32GetDatum(0));

	depend = table_open(DependRelationId, AccessShareLock);
	scan = systable_beginscan(depend, DependDependerIndexId, true, NULL, 3, key);
	while (!OidIsValid(parent) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->refclassid == RelationRelationId &&
			form->deptype == DEPENDENCY_INTERNAL)
			parent = form->refobjid;
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	return parent;
}

/*
 * The same by a look at all tables.  Nothing depends on catalogs that initdb has made, so
 * their TOAST tables have no dependency.
 */
static Oid
parent_by_scan(Oid toast)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			parent = InvalidOid;

	ScanKeyInit(&key, Anum_pg_class_reltoastrelid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(toast));
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		parent = ((Form_pg_class) GETSTRUCT(tuple))->oid;
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return parent;
}

static void
read_parent(void *arg)
{
	Question   *question = arg;
	Oid			toast = RelationGetRelid(question->rel);

	lock_if_free(DependRelationId, DependDependerIndexId, "pg_depend");
	question->relid = parent_by_dependency(toast);
	if (!OidIsValid(question->relid))
		question->relid = parent_by_scan(toast);
}

/*
 * The same of an open table of which nothing is known yet.  *toast_parent is the table that a
 * TOAST table belongs to, InvalidOid of other tables and if that cannot be found.
 */
void
pv_options_find(Relation rel, Oid *toast_parent, PvEffectiveOptions *effective)
{
	bool		is_toast = rel->rd_rel->relkind == RELKIND_TOASTVALUE;
	Question	question = {.rel = rel};

	*toast_parent = InvalidOid;
	if (is_toast && read_safely(read_parent, &question, &parents_unreadable))
		*toast_parent = question.relid;

	if (is_toast && (!OidIsValid(*toast_parent) || IsCatalogRelationOid(*toast_parent)))
		pv_options_default(effective);
	else
		pv_options_of(rel, *toast_parent, effective);
}

static void
read_labelled(void *arg)
{
	Question   *question = arg;
	Relation	seclabel;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	lock_labels_if_free();
	seclabel = table_open(SecLabelRelationId, AccessShareLock);
	ScanKeyInit(&key[0], Anum_pg_seclabel_provider, BTEqualStrategyNumber,
				F_TEXTEQ, CStringGetTextDatum(PV_NAMESPACE));
	ScanKeyInit(&key[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(seclabel, InvalidOid, false, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		(void) hash_search(question->labelled,
						   &((FormData_pg_seclabel *) GETSTRUCT(tuple))->objoid,
						   HASH_ENTER, NULL);
	systable_endscan(scan);
	table_close(seclabel, AccessShareLock);
}

static HTAB *
make_table_of_oids(void)
{
	HASHCTL		info = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid),
	.hcxt = CurrentMemoryContext};

	return hash_create("tables with options of parvacuum", 64, &info,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * The OIDs of all tables that say something themselves, as a hash table for the
 * caller to destroy; none if that cannot be read.
 */
HTAB *
pv_options_labelled(void)
{
	Question	question = {.labelled = make_table_of_oids()};

	if (!read_safely(read_labelled, &question, &labels_unreadable))
	{
		hash_destroy(question.labelled);
		question.labelled = make_table_of_oids();
	}
	return question.labelled;
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
