/*-------------------------------------------------------------------------
 *
 * labels.c
 *	  The options of all tables of a database, for a database scan.
 *
 * A database scan asks for the options of every table.  Owners decide how many
 * labels, partitions and levels of partitions there are.  So each label is
 * parsed once, each ancestor is asked for its own parent once, and what a table
 * costs is a lookup in a hash table.
 *
 * A scheduler worker runs this, for itself.  As in entry/effective_options.c,
 * it takes locks on catalogs only if they are free, and no lock on a table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_seclabel.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "entry/effective_options.h"
#include "entry/labels.h"
#include "entry/option_labels.h"

/* The last attempt to read these failed, and this process has given a warning. */
static bool labels_unreadable = false;
static bool parents_unreadable = false;

struct PvLabels
{
	MemoryContext context;		/* of all that follows */
	HTAB	   *own;			/* LabelEntry: what tables say themselves */
	HTAB	   *inherited;		/* LabelEntry: with what their ancestors say,
								 * of those that a partition was asked for */
	HTAB	   *parents;		/* ParentEntry, of partitions */
	bool		parents_known;
};

typedef struct LabelEntry
{
	Oid			relid;			/* the key */
	PvOptions	options;		/* but for those that are unusable */
} LabelEntry;

typedef struct ParentEntry
{
	Oid			relid;			/* the key */
	Oid			parent;
} ParentEntry;

static HTAB *
make_table(PvLabels *labels, const char *name, Size entrysize)
{
	HASHCTL		info = {
		.keysize = sizeof(Oid),
		.entrysize = entrysize,
		.hcxt = labels->context
	};

	return hash_create(name, 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
make_tables(PvLabels *labels)
{
	labels->own = make_table(labels, "options of parvacuum",
							 sizeof(LabelEntry));
	labels->inherited = make_table(labels, "options of parvacuum with ancestors",
								   sizeof(LabelEntry));
	labels->parents = make_table(labels, "parents of partitions",
								 sizeof(ParentEntry));
}

/* Enters what one label says that this server can use. */
static void
enter_label(PvLabels *labels, Oid relid, const char *label)
{
	LabelEntry *entry = hash_search(labels->own, &relid, HASH_ENTER, NULL);
	PvOptions  *options = &entry->options;

	pv_options_of_label(relid, label, options);
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		options->given[i] = options->given[i] && !options->unusable[i];
		if (options->given[i] && options->text[i] != NULL)
			options->text[i] = MemoryContextStrdup(labels->context,
												   options->text[i]);
	}
}

/* Reader: all labels of tables. */
static void
read_labels(void *arg)
{
	PvLabels   *labels = arg;
	MemoryContext per_label = AllocSetContextCreate(labels->context,
													"parvacuum label",
													ALLOCSET_SMALL_SIZES);
	MemoryContext outer;
	Relation	seclabel;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	pv_options_lock_if_free(SecLabelRelationId, InvalidOid, "pg_seclabel");
	seclabel = table_open(SecLabelRelationId, AccessShareLock);
	ScanKeyInit(&key[0], Anum_pg_seclabel_provider, BTEqualStrategyNumber,
				F_TEXTEQ, CStringGetTextDatum(PV_NAMESPACE));
	ScanKeyInit(&key[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(seclabel, InvalidOid, false, NULL, 2, key);
	outer = MemoryContextSwitchTo(per_label);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		label = heap_getattr(tuple, Anum_pg_seclabel_label,
										 RelationGetDescr(seclabel), &isnull);
		FormData_pg_seclabel *form =
			(FormData_pg_seclabel *) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (!isnull && form->objsubid == 0)
			enter_label(labels, form->objoid, TextDatumGetCString(label));
		MemoryContextReset(per_label);
	}
	MemoryContextSwitchTo(outer);
	systable_endscan(scan);
	table_close(seclabel, AccessShareLock);
	MemoryContextDelete(per_label);
}

/*
 * Reader: the parents of all partitions; a partition that is being detached
 * has none.
 */
static void
read_parents(void *arg)
{
	PvLabels   *labels = arg;
	Relation	inherits;
	SysScanDesc scan;
	HeapTuple	tuple;

	pv_options_lock_if_free(InheritsRelationId, InvalidOid, "pg_inherits");
	inherits = table_open(InheritsRelationId, AccessShareLock);
	scan = systable_beginscan(inherits, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits form = (Form_pg_inherits) GETSTRUCT(tuple);
		ParentEntry *entry;

		CHECK_FOR_INTERRUPTS();
		if (form->inhdetachpending)
			continue;
		entry = hash_search(labels->parents, &form->inhrelid, HASH_ENTER,
							NULL);
		entry->parent = form->inhparent;
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
}

/*
 * Reads the options of all tables of this database, into a memory context below
 * the current one; pv_labels_free() frees them.  There are none if they cannot
 * be read.
 */
PvLabels *
pv_labels_read(void)
{
	PvLabels   *labels = palloc0(sizeof(PvLabels));

	labels->context = AllocSetContextCreate(CurrentMemoryContext,
											"parvacuum labels",
											ALLOCSET_DEFAULT_SIZES);
	make_tables(labels);
	if (!pv_options_read_safely(read_labels, labels, &labels_unreadable))
	{
		MemoryContextReset(labels->context);
		make_tables(labels);
	}
	if (pv_labels_any(labels))
		labels->parents_known = pv_options_read_safely(read_parents, labels,
													   &parents_unreadable);
	return labels;
}

void
pv_labels_free(PvLabels *labels)
{
	MemoryContextDelete(labels->context);
	pfree(labels);
}

/* Has any table options? */
bool
pv_labels_any(const PvLabels *labels)
{
	return hash_get_num_entries(labels->own) > 0;
}

/* The parent of a partition; of other tables InvalidOid. */
static Oid
parent_of(const PvLabels *labels, Oid relid)
{
	const ParentEntry *entry = hash_search(labels->parents, &relid, HASH_FIND,
										   NULL);

	return entry != NULL ? entry->parent : InvalidOid;
}

/*
 * What a table that has partitions and its ancestors say, or NULL for
 * InvalidOid.  This does not recurse, since owners decide about the depth.
 */
static const PvOptions *
find_inherited(PvLabels *labels, Oid relid)
{
	List	   *path = NIL;
	const LabelEntry *above = NULL;

	while (OidIsValid(relid) &&
		   (above = hash_search(labels->inherited, &relid, HASH_FIND,
								NULL)) == NULL)
	{
		path = lappend_oid(path, relid);
		relid = parent_of(labels, relid);
	}
	for (int i = list_length(path) - 1; i >= 0; i--)
	{
		Oid			next = list_nth_oid(path, i);
		const LabelEntry *own = hash_search(labels->own, &next, HASH_FIND,
											NULL);
		LabelEntry *entry = hash_search(labels->inherited, &next, HASH_ENTER,
										NULL);

		memset(&entry->options, 0, sizeof(PvOptions));
		if (above != NULL)
			entry->options = above->options;
		if (own != NULL)
			pv_options_merge(&entry->options, &own->options);
		above = entry;
	}
	list_free(path);
	return above != NULL ? &above->options : NULL;
}

/*
 * Finds what a table and its ancestors say.  If its ancestors cannot be read, a
 * partition counts as one without options.
 */
void
pv_labels_find(PvLabels *labels, Oid relid, bool is_partition,
			   PvOptions *options)
{
	const LabelEntry *own = hash_search(labels->own, &relid, HASH_FIND, NULL);
	const PvOptions *inherited = NULL;

	memset(options, 0, sizeof(*options));
	if (is_partition && !labels->parents_known)
		return;
	if (is_partition)
		inherited = find_inherited(labels, parent_of(labels, relid));
	if (inherited != NULL)
		*options = *inherited;
	if (own != NULL)
		pv_options_merge(options, &own->options);
}
