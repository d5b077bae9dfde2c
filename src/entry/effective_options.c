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
 * A vacuum must neither fail nor wait because of its options.  It may be the
 * one that prevents wraparound, and without parvacuum it would not read these
 * catalogs.  So a process that vacuums takes locks on them only if they are
 * free, and any error is caught in a subtransaction; see
 * pv_options_read_safely().  A session that reads parvacuum_tables reads them
 * in the ordinary way.
 *
 * Any process runs this, for itself.  It takes AccessShareLock on the catalogs
 * that it reads, and no lock on a table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_seclabel.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "base/window.h"
#include "entry/effective_options.h"
#include "entry/option_labels.h"


/* ----------------------------------------------------------------
 *		In the ordinary way
 * ----------------------------------------------------------------
 */

/* The options of a table that says nothing and has no ancestors. */
void
pv_options_default(PvEffectiveOptions *effective)
{
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		effective->value[i] = PV_OPTION_NOT_GIVEN;
		effective->text[i] = NULL;
		effective->origin[i] = PV_ORIGIN_DEFAULT;
	}
	effective->value[PV_OPTION_ENABLED] = pv_guc_enabled;
	effective->origin[PV_OPTION_ENABLED] = PV_ORIGIN_SETTING;
	effective->value[PV_OPTION_SWEEP] = pv_guc_sweep;
	effective->origin[PV_OPTION_SWEEP] = PV_ORIGIN_SETTING;
	effective->value[PV_OPTION_BUFFER_USAGE_LIMIT] = pv_guc_buffer_usage_limit;
	effective->origin[PV_OPTION_BUFFER_USAGE_LIMIT] = PV_ORIGIN_SETTING;
	effective->text[PV_OPTION_WINDOW] = pv_window_print(&pv_guc_parsed_window);
	effective->origin[PV_OPTION_WINDOW] = PV_ORIGIN_SETTING;
}

/* Enters what one table says, where no nearer one has said anything. */
static void
inherit(PvEffectiveOptions *effective, Oid relid, PvOrigin origin)
{
	PvOptions	own;

	pv_options_read(relid, &own);
	for (PvOption i = 0; i < PV_NUM_OPTIONS; i++)
	{
		if (effective->origin[i] <= PV_ORIGIN_ANCESTOR || !own.given[i] ||
			own.unusable[i])
			continue;
		effective->value[i] = own.value[i];
		effective->text[i] = own.text[i];
		effective->origin[i] = origin;
	}
}

/*
 * Finds the options that apply to a table, for a session that looks at them.
 * For a TOAST table the caller passes its table.
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

/*
 * The last attempt to read these failed, and this process has given the
 * warning.
 */
static bool labels_unreadable = false;
static bool parents_unreadable = false;

/*
 * Is this an error after which the transaction must not go on?
 *
 * A cancel is meant for the vacuum.  If this process is out of memory, core
 * may have entered a lock into its local table without the memory that belongs
 * to the entry.  Only the end of the whole transaction removes such an entry;
 * to take the same lock before would crash the process.  Shared memory that is
 * used up has the same code, and leaves no such entry.
 *
 * Core: storage/lmgr/lock.c, LockAcquireExtended, LockReleaseAll.
 */
static bool
must_be_raised(const ErrorData *error)
{
	if (error->sqlerrcode == ERRCODE_OUT_OF_MEMORY)
		return error->message_id == NULL ||
			strcmp(error->message_id, "out of shared memory") != 0;
	return error->sqlerrcode == ERRCODE_QUERY_CANCELED;
}

/*
 * Calls the reader.  Returns false if it fails, with a warning unless the
 * previous attempt failed too.  All errors count the same, whether a catalog
 * is damaged or locked (see lock_if_free).  Only a cancel, and that there is
 * no memory left, are raised again.
 *
 * The reader runs in a subtransaction that is always rolled back.  That
 * releases what an error leaves behind (locks, pins, open relations, LWLocks),
 * and the locks on catalogs, which a long vacuum must not keep.  The result is
 * allocated in the caller's memory context.
 *
 * This is sound where a vacuum reads its options, on all versions.  Core's
 * vacuum_rel() has begun a transaction that is no block, pushed a snapshot,
 * and opened and locked the table; all of this belongs to the outer
 * transaction, and the end of a subtransaction leaves it alone.  The status
 * flags that hide our xmin belong to the top transaction, too, and are not
 * changed.  The reader writes nothing, so no XID is assigned.  Parallel mode,
 * where subtransactions are forbidden, begins later.  So does the progress
 * report, which a rollback would end.
 *
 * Core: pl/plpgsql/src/pl_exec.c, exec_stmt_block; access/transam/xact.c,
 * AbortSubTransaction.
 */
bool
pv_options_read_safely(void (*reader) (void *arg), void *arg, bool *unreadable)
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

	if (error != NULL && must_be_raised(error))
		ReThrowError(error);
	if (error != NULL && !*unreadable)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not read the parvacuum options of tables"),
				 errdetail_internal("%s", error->message),
				 errhint("Until they can be read, tables are vacuumed as if they had none.")));
	*unreadable = error != NULL;
	return error == NULL;
}

/*
 * Locks a catalog and the index by which it is read, or fails if another
 * session holds a lock that conflicts.
 */
void
pv_options_lock_if_free(Oid catalog, Oid index, const char *name)
{
	if (!ConditionalLockRelationOid(catalog, AccessShareLock) ||
		(OidIsValid(index) &&
		 !ConditionalLockRelationOid(index, AccessShareLock)))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("catalog \"%s\" is locked", name),
				 errhint("Wait until the other session has released its lock.")));
}

static void
lock_labels_if_free(void)
{
	pv_options_lock_if_free(SecLabelRelationId, SecLabelObjectIndexId,
							"pg_seclabel");
}

/* What a reader is asked for, and its answer */
typedef struct Request
{
	Relation	rel;			/* or NULL */
	Oid			relid;			/* of a TOAST table: its table, perhaps
								 * invalid */
	bool		is_partition;
	PvEffectiveOptions *effective;
} Request;

/* Reader: the options that apply to a table. */
static void
read_effective(void *arg)
{
	Request    *request = arg;

	lock_labels_if_free();
	if (request->is_partition)
		pv_options_lock_if_free(InheritsRelationId, InheritsRelidSeqnoIndexId,
								"pg_inherits");
	pv_options_look_up(request->relid, request->is_partition,
					   request->effective);
}

/*
 * The same as pv_options_look_up(), for a process that vacuums.  If the
 * catalogs cannot be read the table counts as one without options.
 */
static void
read_or_default(Oid relid, bool is_partition, PvEffectiveOptions *effective)
{
	Request		request = {
		.relid = relid,
		.is_partition = is_partition,
		.effective = effective
	};

	if (!pv_options_read_safely(read_effective, &request, &labels_unreadable))
		pv_options_default(effective);
}

/*
 * The same for an open table; a TOAST table has the options of toast_parent.
 * A catalog has no options, and they are not looked up: pg_seclabel, where we
 * would look, is a catalog too.
 */
void
pv_options_of(Relation rel, Oid toast_parent, PvEffectiveOptions *effective)
{
	if (IsCatalogRelation(rel))
		pv_options_default(effective);
	else if (OidIsValid(toast_parent))
		read_or_default(toast_parent, get_rel_relispartition(toast_parent),
						effective);
	else
		read_or_default(RelationGetRelid(rel), rel->rd_rel->relispartition,
						effective);
}

/*
 * Finds the table that a TOAST table belongs to by its dependency, or returns
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

/*
 * The same by a scan of pg_class.  Nothing depends on catalogs that initdb has
 * made, so their TOAST tables have no dependency.
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

/*
 * Reader: the table that a TOAST table belongs to; the OID stays invalid if it
 * cannot be found.
 */
static void
read_parent(void *arg)
{
	Request    *request = arg;
	Oid			toast = RelationGetRelid(request->rel);

	pv_options_lock_if_free(DependRelationId, DependDependerIndexId,
							"pg_depend");
	request->relid = pv_toast_parent(toast);
	if (!OidIsValid(request->relid))
		request->relid = parent_by_scan(toast);
}

/*
 * The same for an open table of which only that is known.  *toast_parent
 * becomes the table that a TOAST table belongs to; for other tables, and if
 * the table cannot be found, InvalidOid.
 */
void
pv_options_find(Relation rel, Oid *toast_parent, PvEffectiveOptions *effective)
{
	bool		is_toast = rel->rd_rel->relkind == RELKIND_TOASTVALUE;
	Request		request = {.rel = rel};

	*toast_parent = InvalidOid;
	if (is_toast &&
		pv_options_read_safely(read_parent, &request, &parents_unreadable))
		*toast_parent = request.relid;

	if (is_toast &&
		(!OidIsValid(*toast_parent) || IsCatalogRelationOid(*toast_parent)))
		pv_options_default(effective);
	else
		pv_options_of(rel, *toast_parent, effective);
}


/* ----------------------------------------------------------------
 *		Core's storage parameters for autovacuum
 * ----------------------------------------------------------------
 */

/*
 * Reads the storage parameters autovacuum_* in a pg_class row.  Returns false
 * if there are none.
 */
bool
pv_options_read_autovacuum(HeapTuple tuple, TupleDesc desc,
						   AutoVacOpts *options)
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

/* The same for a table that is not open. */
static bool
read_autovacuum_of(Oid relid, AutoVacOpts *options)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		found = false;

	if (HeapTupleIsValid(tuple))
	{
		found = pv_options_read_autovacuum(tuple, RelationGetDescr(pg_class),
										   options);
		ReleaseSysCache(tuple);
	}
	table_close(pg_class, AccessShareLock);
	return found;
}

/*
 * The same for an open table.  A TOAST table without parameters has those of
 * its table.
 *
 * Core: postmaster/autovacuum.c, do_autovacuum and extract_autovac_opts.
 */
bool
pv_options_autovacuum(Relation rel, Oid toast_parent, AutoVacOpts *options)
{
	if (rel->rd_options != NULL)
	{
		*options = ((StdRdOptions *) rel->rd_options)->autovacuum;
		return true;
	}
	return OidIsValid(toast_parent) &&
		read_autovacuum_of(toast_parent, options);
}

/*
 * The number of workers that the storage parameters give an autovacuum of an
 * open table; -1 if they give none.
 *
 * A TOAST table cannot have the parameter, so that of its table applies, whether
 * the TOAST table has other parameters or not.  Core takes it for 0 if it has
 * others; core has no workers for a table with one index anyway.
 */
int
pv_options_autovacuum_workers(Relation rel, Oid toast_parent)
{
	AutoVacOpts options;
	bool		found;

	if (rel->rd_rel->relkind != RELKIND_TOASTVALUE)
		found = pv_options_autovacuum(rel, InvalidOid, &options);
	else
		found = OidIsValid(toast_parent) &&
			read_autovacuum_of(toast_parent, &options);
	return found ? pv_autovacuum_parallel_workers(&options) : -1;
}
