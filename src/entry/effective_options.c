/*-------------------------------------------------------------------------
 *
 * effective_options.c
 *	  Which options apply to a table.
 *
 * For each option the first of these that says something decides:
 *
 *		the table's own label
 *		the label of its nearest ancestor, if it is a partition
 *		the setting of the same name, if there is one
 *		parvacuum
 *
 * A TOAST table has the options of its table.
 *
 * Any process runs this, for itself.  It takes AccessShareLock on the catalogs
 * that it reads, and no lock on a table.  One that vacuums does not wait for
 * locks, and an error does no harm (entry/labels.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_seclabel.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "entry/options.h"

/* Fill in the options of a table that says nothing and has no ancestors. */
void
pv_options_default(PvOptions *options)
{
	pv_options_clear(options);
	options->value[PV_OPTION_ENABLED] = pv_guc_enabled;
	options->value[PV_OPTION_SWEEP] = pv_guc_sweep;
	options->value[PV_OPTION_BUFFER_USAGE_LIMIT] = pv_guc_buffer_usage_limit;
	options->value[PV_OPTION_WINDOW] = true;
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (i != PV_OPTION_WORKERS)
			options->origin[i] = PV_ORIGIN_SETTING;
	}
}

/*
 * Find the options that apply to a table, for a session that looks at them.
 * For a TOAST table the caller passes its table.
 */
void
pv_options_look_up(Oid relid, bool is_partition, PvOptions *options)
{
	List	   *ancestors = NIL;
	PvOptions	label;
	ListCell   *lc;

	pv_options_default(options);
	pv_label_parse(relid, &label);
	pv_options_inherit(options, &label, PV_ORIGIN_TABLE);
	if (is_partition)
		ancestors = get_partition_ancestors(relid);
	foreach(lc, ancestors)
	{
		pv_label_parse(lfirst_oid(lc), &label);
		pv_options_inherit(options, &label, PV_ORIGIN_ANCESTOR);
	}
}


/* ----------------------------------------------------------------
 *		For a vacuum
 * ----------------------------------------------------------------
 */

/*
 * Find the table that a TOAST table belongs to by its dependency, or return
 * InvalidOid.  pg_class has only the reference in the other direction.
 */
Oid
pv_toast_parent(Oid toast)
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
	scan = systable_beginscan(depend, DependDependerIndexId, true, NULL,
							  3, key);
	while (!OidIsValid(parent) &&
		   HeapTupleIsValid(tuple = systable_getnext(scan)))
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

/* What the reader is asked for, and its answer */
typedef struct Request
{
	Relation	rel;
	Oid			toast_parent;	/* of a TOAST table, as far as it is known */
	PvOptions  *options;
} Request;

/* The reader: look up the options, and the table of a TOAST table. */
static void
read_options(void *arg)
{
	Request    *request = arg;
	Form_pg_class form = request->rel->rd_rel;
	Oid			relid = RelationGetRelid(request->rel);
	bool		is_partition = form->relispartition;

	if (form->relkind == RELKIND_TOASTVALUE)
	{
		if (!OidIsValid(request->toast_parent))
		{
			pv_labels_lock_if_free(DependRelationId, DependDependerIndexId,
								   "pg_depend");
			request->toast_parent = pv_toast_parent(relid);
		}
		relid = request->toast_parent;
		is_partition = OidIsValid(relid) && get_rel_relispartition(relid);
	}
	if (!OidIsValid(relid))
		return;
	pv_labels_lock_if_free(SecLabelRelationId, SecLabelObjectIndexId,
						   "pg_seclabel");
	if (is_partition)
		pv_labels_lock_if_free(InheritsRelationId, InheritsRelidSeqnoIndexId,
							   "pg_inherits");
	pv_options_look_up(relid, is_partition, request->options);
}

/*
 * Find the options that apply to an open table, for a process that vacuums it.
 * *toast_parent is the table that a TOAST table belongs to, if the caller knows
 * it; else it is found as well, and stays invalid if it cannot be found.  If
 * the catalogs cannot be read, the table counts as one without options.
 * Catalogs have no options, and none are looked up for them, since that would
 * read catalogs.
 */
void
pv_options_find(Relation rel, Oid *toast_parent, PvOptions *options)
{
	Request		request = {
		.rel = rel,
		.toast_parent = *toast_parent,
		.options = options
	};

	pv_options_default(options);
	if (IsCatalogRelation(rel))
		return;
	if (!pv_labels_read_safely(read_options, &request))
		pv_options_default(options);
	*toast_parent = request.toast_parent;
}


/* ----------------------------------------------------------------
 *		Core's storage parameters for autovacuum
 * ----------------------------------------------------------------
 */

/* Set the parameters of a table that has none of its own: core's defaults. */
void
pv_options_no_autovacuum(AutoVacOpts *options)
{
	static StdRdOptions *none = NULL;

	if (none == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(TopMemoryContext);

		none = (StdRdOptions *) heap_reloptions(RELKIND_RELATION, (Datum) 0,
												false);
		MemoryContextSwitchTo(old_context);
	}
	*options = none->autovacuum;
}

/*
 * Read the storage parameters autovacuum_* in a pg_class row.  If there are
 * none, leave the options as they are, and return false.
 */
bool
pv_options_read_autovacuum(HeapTuple tuple, TupleDesc desc,
						   AutoVacOpts *options)
{
	StdRdOptions *all;

	/* before PG 16 a table can become a view, whose options are others */
	if (heap_attisnull(tuple, Anum_pg_class_reloptions, desc) ||
		((Form_pg_class) GETSTRUCT(tuple))->relkind == RELKIND_VIEW)
		return false;
	all = (StdRdOptions *) extractRelOptions(tuple, desc, NULL);
	if (all == NULL)
		return false;
	*options = all->autovacuum;
	pfree(all);
	return true;
}

/* The same for a table that is not open, and may no longer exist. */
static bool
read_autovacuum_of(Oid relid, AutoVacOpts *options)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Relation	pg_class;
	bool		any;

	if (!HeapTupleIsValid(tuple))
		return false;
	pg_class = table_open(RelationRelationId, AccessShareLock);
	any = pv_options_read_autovacuum(tuple, RelationGetDescr(pg_class),
									 options);
	table_close(pg_class, AccessShareLock);
	ReleaseSysCache(tuple);
	return any;
}

/*
 * Get the parameters of a table that is not open, and may no longer exist.  A
 * TOAST table without any has those of its table.
 */
void
pv_options_autovacuum_of(Oid relid, Oid toast_parent, AutoVacOpts *options)
{
	pv_options_no_autovacuum(options);
	if (!read_autovacuum_of(relid, options))
		(void) read_autovacuum_of(toast_parent, options);
}

/*
 * The same for an open table.  Core: postmaster/autovacuum.c, do_autovacuum
 * and extract_autovac_opts.
 */
void
pv_options_autovacuum(Relation rel, Oid toast_parent, AutoVacOpts *options)
{
	pv_options_no_autovacuum(options);
	if (rel->rd_options != NULL)
		*options = ((StdRdOptions *) rel->rd_options)->autovacuum;
	else
		(void) read_autovacuum_of(toast_parent, options);
}

/*
 * Return the number of workers that the storage parameters give an autovacuum
 * of an open table; -1 if they give none.
 *
 * A TOAST table cannot have the parameter, so that of its table applies, whether
 * the TOAST table has other parameters or not.  Core takes it for 0 if it has
 * others; core has no workers for a table with one index anyway.
 */
int
pv_options_autovacuum_workers(Relation rel, Oid toast_parent)
{
	AutoVacOpts options;

	if (rel->rd_rel->relkind != RELKIND_TOASTVALUE)
		pv_options_autovacuum(rel, InvalidOid, &options);
	else
		pv_options_autovacuum_of(toast_parent, InvalidOid, &options);
	return pv_autovacuum_parallel_workers(&options);
}
