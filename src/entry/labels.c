/*-------------------------------------------------------------------------
 *
 * labels.c
 *	  The options of tables in the catalog: their security labels.
 *
 * The options of a table are stored as its security label of the provider
 * "parvacuum":
 *
 *		SECURITY LABEL FOR parvacuum ON TABLE t IS 'enabled=true, workers=4'
 *
 * A label is the one thing in the catalogs by which an extension can tie a
 * value to a table: it is dropped with the table, and dumped by pg_dump.
 *
 * Who runs this.  Changing: the session that executes the statement, with
 * ShareUpdateExclusiveLock or more on the table, so that two changes of one
 * table follow each other.  The session also holds a lock of our own until the
 * transaction ends, so that all labels are not removed meanwhile.  Reading:
 * any process, at any time, with AccessShareLock on catalogs, and no lock on a
 * table.
 *
 * A vacuum must neither fail nor wait because of options.  It may be the one
 * that prevents wraparound, and without parvacuum it would not read these
 * catalogs.  So a process that vacuums takes locks on them only if they are
 * free, and any error is caught; see pv_labels_read_safely().
 *
 * Core: commands/seclabel.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_seclabel.h"
#include "commands/seclabel.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "entry/options.h"

/* ----------------------------------------------------------------
 *		The label of one table
 * ----------------------------------------------------------------
 */

/*
 * Warn of a label that is not good, or of a window in it that this server
 * cannot use, unless the last warning of this process was of the same table.
 */
static void
warn_of_label(Oid relid, const char *label, bool good, const char *window)
{
	static Oid	warned_of = InvalidOid;
	const char *relname;

	if (good && window == NULL)
	{
		if (warned_of == relid)
			warned_of = InvalidOid;
		return;
	}
	relname = get_rel_name(relid);
	if (warned_of == relid || relname == NULL)
		return;
	warned_of = relid;
	ereport(WARNING,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 good ?
			 errmsg("ignoring the parvacuum option \"window\" of table \"%s\"",
					relname) :
			 errmsg("ignoring the parvacuum options of table \"%s\"", relname),
			 good ?
			 errdetail("This server cannot use its value: \"%s\".", window) :
			 errdetail("Its security label cannot be read: \"%s\".", label),
			 errhint("Set the options again with ALTER TABLE.")));
}

/* Return the label of a table, or NULL. */
char *
pv_label_read(Oid relid)
{
	ObjectAddress address = {RelationRelationId, relid, 0};

	return GetSecurityLabel(&address, PV_NAMESPACE);
}

/*
 * Read what the table says itself.  Its label may have been written into the
 * catalog by hand, or by a later version of parvacuum.  If it is not good, it
 * is ignored with a warning.
 */
void
pv_label_parse(Oid relid, PvOptions *options)
{
	char	   *label = pv_label_read(relid);

	if (label == NULL)
		pv_options_clear(options);
	else
	{
		bool		good = pv_options_parse(label, options);

		warn_of_label(relid, label, good,
					  options->value[PV_OPTION_WINDOW] == 0 ?
					  options->window : NULL);
	}
}

/*
 * Lock all labels of ours in this database, until the transaction ends, or
 * return false if other transactions hold a lock that conflicts, and the
 * caller does not want to wait.  The lock is on an object that does not exist,
 * and nothing else takes it.  A lock on pg_seclabel would make every session
 * wait that drops an object.
 */
static bool
lock_labels(LOCKMODE mode, bool wait)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, SecLabelRelationId,
					   SecLabelRelationId, 0);
	if (LockAcquire(&tag, mode, false, !wait) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	AcceptInvalidationMessages();
	return true;
}

/*
 * Announce, until the transaction ends, that this transaction changes a label,
 * for pv_labels_count().
 */
void
pv_label_announce_change(void)
{
	(void) lock_labels(RowExclusiveLock, true);
}

/* Set the label of a table, or remove it if it is NULL. */
void
pv_label_write(Oid relid, const char *label)
{
	ObjectAddress address = {RelationRelationId, relid, 0};

	pv_label_announce_change();
	SetSecurityLabel(&address, PV_NAMESPACE, label);
}

/*
 * Return how many tables of this database have options, as this transaction
 * sees them.  With remove, remove the options of all, and keep other
 * transactions from changing any until this one ends.  Lock no table.
 *
 * To remove, do not wait for transactions that are changing options.
 * Everybody who changes options or drops a table with options would wait
 * behind this one.
 */
int
pv_labels_count(bool remove)
{
	LOCKMODE	lockmode = remove ? RowExclusiveLock : AccessShareLock;
	Relation	seclabel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;

	if (remove && !lock_labels(ShareRowExclusiveLock, false))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not remove the parvacuum options of all tables"),
				 errdetail("Another transaction has changed or removed options of a table."),
				 errhint("Wait until it has ended, or end its session, which has a lock in pg_locks with classid = 'pg_seclabel'::regclass.")));

	seclabel = table_open(SecLabelRelationId, lockmode);
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


/* ----------------------------------------------------------------
 *		Reading for a vacuum, which must neither wait nor fail
 * ----------------------------------------------------------------
 */

/*
 * Is this an error after which the transaction must not go on?  A cancel is
 * meant for the vacuum.  If this process is out of memory, core may have
 * entered a lock into its local table without the memory that belongs to the
 * entry.  To take the same lock before the end of the whole transaction would
 * crash the process.  Shared memory that is used up has the same code, and
 * leaves no such entry.
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
 * Call the reader.  Return false if it fails, the first time in this process
 * with a warning.  All errors count the same, whether a catalog is damaged or
 * locked.  Only a cancel, and that there is no memory left, are raised again.
 *
 * The reader runs in a subtransaction that is always rolled back.  That
 * releases what an error leaves behind (locks, pins, open relations, LWLocks),
 * and the locks on catalogs, which a long vacuum must not keep.  The result is
 * allocated in the caller's memory context.
 *
 * This is sound where a vacuum reads its options.  The snapshot, the lock on
 * the table, and the status flags that hide our xmin belong to the outer
 * transaction, and the end of a subtransaction leaves them alone.  The reader
 * writes nothing, so no XID is assigned.  Parallel mode, where subtransactions
 * are forbidden, begins later.  So does the progress report, which a rollback
 * would end.
 *
 * Core: pl/plpgsql/src/pl_exec.c, exec_stmt_block; access/transam/xact.c,
 * AbortSubTransaction.
 */
bool
pv_labels_read_safely(void (*reader) (void *arg), void *arg)
{
	static bool warned = false;
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
	if (error != NULL && !warned)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not read the parvacuum options of tables"),
				 errdetail_internal("%s", error->message),
				 errhint("Until they can be read, tables are vacuumed as if they had none.")));
	warned |= error != NULL;
	return error == NULL;
}

/*
 * Lock a catalog and the index by which it is read, or raise an error if
 * another session holds a lock that conflicts.
 */
void
pv_labels_lock_if_free(Oid catalog, Oid index, const char *name)
{
	if (!ConditionalLockRelationOid(catalog, AccessShareLock) ||
		(OidIsValid(index) &&
		 !ConditionalLockRelationOid(index, AccessShareLock)))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("catalog \"%s\" is locked", name),
				 errhint("Wait until the other session has released its lock.")));
}


/* ----------------------------------------------------------------
 *		All labels, for a database scan
 *
 * Owners decide how many labels, partitions and levels of partitions there
 * are.  So each label is parsed once, each ancestor is asked once for its own
 * parent, and what a table costs is a lookup in a hash table.
 * ----------------------------------------------------------------
 */

/* A table with a label, or with a parent */
typedef struct LabelEntry
{
	Oid			relid;			/* the key */
	Oid			parent;			/* of a partition, or of another child */
	bool		complete;		/* the options have those of ancestors */
	PvOptions	options;
} LabelEntry;

/* Return the entry of a table.  A new one says nothing. */
static LabelEntry *
make_entry(PvLabels *labels, Oid relid)
{
	bool		found;
	LabelEntry *entry = hash_search(labels->tables, &relid, HASH_ENTER,
									&found);

	if (!found)
	{
		entry->parent = InvalidOid;
		entry->complete = false;
		pv_options_clear(&entry->options);
	}
	return entry;
}

/* Enter what one label says.  Only a vacuum of the table warns of it. */
static void
enter_label(PvLabels *labels, Oid relid, Datum value)
{
	char	   *label = TextDatumGetCString(value);
	PvOptions	options;

	(void) pv_options_parse(label, &options);
	pv_options_inherit(&make_entry(labels, relid)->options, &options,
					   PV_ORIGIN_TABLE);
	pfree(label);
	labels->any = true;
}

/* Read all labels of tables. */
static void
read_labels(void *arg)
{
	PvLabels   *labels = arg;
	Relation	seclabel;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	pv_labels_lock_if_free(SecLabelRelationId, InvalidOid, "pg_seclabel");
	seclabel = table_open(SecLabelRelationId, AccessShareLock);
	ScanKeyInit(&key[0], Anum_pg_seclabel_provider, BTEqualStrategyNumber,
				F_TEXTEQ, CStringGetTextDatum(PV_NAMESPACE));
	ScanKeyInit(&key[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(seclabel, InvalidOid, false, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		label = heap_getattr(tuple, Anum_pg_seclabel_label,
										 RelationGetDescr(seclabel), &isnull);
		FormData_pg_seclabel *form =
			(FormData_pg_seclabel *) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (!isnull && form->objsubid == 0)
			enter_label(labels, form->objoid, label);
	}
	systable_endscan(scan);
	table_close(seclabel, AccessShareLock);
}

/* Read the parents of partitions, but not of those that are being detached. */
static void
read_parents(void *arg)
{
	PvLabels   *labels = arg;
	Relation	inherits;
	SysScanDesc scan;
	HeapTuple	tuple;

	pv_labels_lock_if_free(InheritsRelationId, InvalidOid, "pg_inherits");
	inherits = table_open(InheritsRelationId, AccessShareLock);
	scan = systable_beginscan(inherits, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits form = (Form_pg_inherits) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (!form->inhdetachpending)
			make_entry(labels, form->inhrelid)->parent = form->inhparent;
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
}

/*
 * Read the options of all tables of this database, into the current memory
 * context.  If they cannot be read, no table has any.  If only the parents of
 * partitions cannot be read, partitions inherit nothing.
 */
PvLabels *
pv_labels_read(void)
{
	PvLabels   *labels = palloc0(sizeof(PvLabels));
	HASHCTL		info = {
		.keysize = sizeof(Oid),
		.entrysize = sizeof(LabelEntry),
		.hcxt = CurrentMemoryContext
	};

	labels->tables = hash_create("options of parvacuum", 64, &info,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	labels->readable = pv_labels_read_safely(read_labels, labels);
	labels->any |= !labels->readable;
	labels->inherits = labels->readable && labels->any &&
		pv_labels_read_safely(read_parents, labels);
	return labels;
}

/*
 * Have the options of a partition include those of its ancestors, and return
 * its entry, or NULL.  This does not recurse, since owners decide about the
 * depth.
 */
static LabelEntry *
complete_entry(PvLabels *labels, Oid relid)
{
	List	   *path = NIL;
	LabelEntry *entry;
	LabelEntry *above;

	while ((entry = hash_search(labels->tables, &relid, HASH_FIND, NULL)) &&
		   !entry->complete)
	{
		path = lappend(path, entry);
		relid = entry->parent;
	}
	above = entry;
	for (int i = list_length(path) - 1; i >= 0; i--)
	{
		entry = list_nth(path, i);
		if (above != NULL)
			pv_options_inherit(&entry->options, &above->options,
							   PV_ORIGIN_ANCESTOR);
		entry->complete = true;
		above = entry;
	}
	list_free(path);
	return above;
}

/* Enter what a table says and, if it is a partition, what its ancestors say. */
void
pv_labels_find(PvLabels *labels, Oid relid, bool is_partition,
			   PvOptions *options)
{
	const LabelEntry *entry;

	if (!labels->readable)
		return;
	entry = is_partition && labels->inherits ?
		complete_entry(labels, relid) :
		hash_search(labels->tables, &relid, HASH_FIND, NULL);
	if (entry != NULL)
		pv_options_inherit(options, &entry->options, PV_ORIGIN_TABLE);
}
