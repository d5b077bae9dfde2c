/*-------------------------------------------------------------------------
 *
 * option_labels.c
 *	  The options of a table in the catalog: its security label.
 *
 * The options of a table are stored as its security label of the provider
 * "parvacuum":
 *
 *		SECURITY LABEL FOR parvacuum ON TABLE t IS 'enabled=true, workers=4'
 *
 * A security label is the one place in the catalogs where an extension can tie
 * a value to a table.  It is transactional, is dropped with the table, is
 * dumped by pg_dump and is replicated, and parvacuum needs no tables of its
 * own.
 *
 * Who runs this.  Changing: the session that executes the statement, with
 * ShareUpdateExclusiveLock or more on the table, so that two changes of one
 * table follow each other.  The session also holds a lock of our own until the
 * transaction ends, so that all labels are not removed meanwhile.  Reading:
 * any process that vacuums the table or reads parvacuum_tables, at any time.
 * It takes no lock but those of the catalog, and reads one row of pg_seclabel
 * by index.
 *
 * Core: commands/seclabel.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_seclabel.h"
#include "commands/seclabel.h"
#include "common/hashfn.h"
#include "datatype/timestamp.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "entry/option_labels.h"
#include "throttle/cost.h"

/* How long the removal of all labels waits if lock_timeout is 0 */
#define REMOVAL_TIMEOUT			"5s"

/* How long it waits before it asks for the lock again, in milliseconds */
#define REMOVAL_POLL			50

/*
 * Can a relation of this kind have options?  TOAST tables have those of their
 * tables.
 */
bool
pv_relkind_has_options(char relkind)
{
	return relkind == RELKIND_RELATION || relkind == RELKIND_MATVIEW ||
		relkind == RELKIND_PARTITIONED_TABLE;
}


/* ----------------------------------------------------------------
 *		Warnings, not too many
 * ----------------------------------------------------------------
 */

/* The label of a table that this process has warned of last */
typedef struct WarnedOf
{
	Oid			relid;			/* the key */
	uint32		hash;			/* of the label */
} WarnedOf;

static HTAB *warned_of = NULL;

/*
 * The owners of whose tables autovacuum and the scheduler have warned.  Each of
 * their processes reads the options of many tables and soon ends, so they share
 * the list, in main shared memory.  Within an hour they warn of one table of
 * each owner.  So no owner can fill the log, and none can use up the warnings
 * of others, unless more owners than there are places have such tables.
 */
#define MAX_WARNED_OWNERS		256

typedef struct WarningsShared
{
	/* atomics, each the hash of database and owner, then a time in seconds */
	pg_atomic_uint64 owners[MAX_WARNED_OWNERS];
} WarningsShared;

static WarningsShared *warnings = NULL;

Size
pv_labels_shmem_size(void)
{
	return MAXALIGN(sizeof(WarningsShared));
}

/* Finds it or sets it up.  The caller holds AddinShmemInitLock. */
void
pv_labels_shmem_startup(void)
{
	bool		found;

	warnings = ShmemInitStruct("parvacuum warnings", sizeof(WarningsShared),
							   &found);
	for (int i = 0; i < MAX_WARNED_OWNERS && !found; i++)
		pg_atomic_init_u64(&warnings->owners[i], 0);
}

/*
 * Returns whether autovacuum and the scheduler have not warned of a table of
 * this owner within the last hour, and notes that this process warns now, in
 * place of the oldest warning.  If two processes do that at once, one of them
 * warns.
 */
static bool
note_shared_warning(Oid owner)
{
	uint32		hash = hash_combine(murmurhash32(MyDatabaseId), owner);
	uint32		now = (uint32) time(NULL);
	uint64		oldest = 0;
	int			place = -1;

	for (int i = 0; warnings != NULL && i < MAX_WARNED_OWNERS; i++)
	{
		uint64		noted = pg_atomic_read_u64(&warnings->owners[i]);
		bool		same = (uint32) (noted >> 32) == hash;

		if (same && now - (uint32) noted < SECS_PER_HOUR)
			return false;
		if (same || place < 0 || (uint32) noted < (uint32) oldest)
		{
			oldest = noted;
			place = i;
		}
		if (same)
			break;
	}
	return place >= 0 &&
		pg_atomic_compare_exchange_u64(&warnings->owners[place], &oldest,
									   (uint64) hash << 32 | now);
}

/*
 * Returns whether a warning about this label of a table of that owner is due,
 * and notes it.  A session warns unless its last warning for the table was of
 * the same label.
 */
static bool
warn_now(Oid relid, Oid owner, const char *label)
{
	uint32		hash = hash_bytes((const unsigned char *) label,
								  strlen(label));
	WarnedOf   *entry;
	bool		found;

	if (pv_is_automatic())
		return note_shared_warning(owner);
	if (warned_of == NULL)
	{
		HASHCTL		info = {
			.keysize = sizeof(Oid),
			.entrysize = sizeof(WarnedOf)
		};

		warned_of = hash_create("labels of parvacuum that were warned of", 16,
								&info, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(warned_of, &relid, HASH_ENTER, &found);
	if (found && entry->hash == hash)
		return false;
	entry->hash = hash;
	return true;
}

/* The label is in order: another warning about this table is due. */
static void
forget_warning(Oid relid)
{
	if (warned_of != NULL)
		(void) hash_search(warned_of, &relid, HASH_REMOVE, NULL);
}


/* ----------------------------------------------------------------
 *		Reading and writing
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
 * Warns, if that is due, of a label that cannot be read, or of an option in it
 * that is unusable.
 */
static void
warn_of_label(Oid relid, const char *label, bool readable, PvOption unusable,
			  const PvOptions *options)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return;					/* it is being dropped */
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (warn_now(relid, form->relowner, label))
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 readable ?
				 errmsg("ignoring the parvacuum option \"%s\" of table \"%s\"",
						pv_option_name(unusable), NameStr(form->relname)) :
				 errmsg("ignoring the parvacuum options of table \"%s\"",
						NameStr(form->relname)),
				 readable ?
				 errdetail("This server cannot use its value: \"%s\".",
						   options->text[unusable]) :
				 errdetail("Its security label cannot be read: \"%s\".", label),
				 errhint("Set the options again with ALTER TABLE.")));
	ReleaseSysCache(tuple);
}

/*
 * Parses the label of a table.  It may have been written into the catalog by
 * hand, or by a later version of parvacuum.  If it cannot be read, or has an
 * option that this server cannot use, that causes a warning and no error.
 */
void
pv_options_of_label(Oid relid, const char *label, PvOptions *options)
{
	bool		readable = pv_options_parse_label(label, options);
	PvOption	unusable = pv_options_first_unusable(options);

	if (readable && unusable == PV_NUM_OPTIONS)
		forget_warning(relid);
	else
		warn_of_label(relid, label, readable, unusable, options);
}

/* Reads what the table says itself. */
void
pv_options_read(Oid relid, PvOptions *options)
{
	ObjectAddress address = table_address(relid);
	char	   *label = GetSecurityLabel(&address, PV_NAMESPACE);

	memset(options, 0, sizeof(*options));
	if (label != NULL)
		pv_options_of_label(relid, label, options);
}

/*
 * Locks all labels of ours in this database, until the transaction ends, or
 * returns false if other transactions hold a lock that conflicts, and the
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
 * Announces, until the transaction ends, that this transaction changes a
 * label, for pv_options_remove_all().
 */
void
pv_options_announce_change(void)
{
	(void) lock_labels(RowExclusiveLock, true);
}

/*
 * The same for a relation that is about to be dropped.  If it has a label,
 * that is dropped too.
 */
void
pv_options_announce_drop(Oid relid)
{
	ObjectAddress address = table_address(relid);

	if (GetSecurityLabel(&address, PV_NAMESPACE) != NULL)
		pv_options_announce_change();
}

/* Stores what the table says from now on; later commands see it. */
void
pv_options_write(Oid relid, const PvOptions *options)
{
	ObjectAddress address = table_address(relid);

	pv_options_announce_change();
	SetSecurityLabel(&address, PV_NAMESPACE, pv_options_print(options));
}

/*
 * Counts the tables of this database that have options, as this transaction
 * sees them.  With remove, also deletes their labels.
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

/*
 * Returns how many tables of this database have options, as this transaction
 * sees them.
 */
int
pv_options_count(void)
{
	return visit_labels(false);
}

/*
 * Removes the options of all tables of this database, and returns how many
 * tables had some.  Keeps other transactions from changing any until this one
 * ends.  Locks no table.
 *
 * Waits no longer than lock_timeout for transactions that are changing options.
 * It asks again and again instead of queueing up, where everybody who changes
 * options or drops a table with options would wait behind it.  Sessions without
 * the library delete labels unannounced; core waits for these.
 */
int
pv_options_remove_all(void)
{
	int			nestlevel = NewGUCNestLevel();
	int			removed;

	if (LockTimeout == 0)
		(void) set_config_option("lock_timeout", REMOVAL_TIMEOUT,
								 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
	for (int waited = 0; !lock_labels(ShareRowExclusiveLock, false);
		 waited += REMOVAL_POLL)
	{
		if (waited >= LockTimeout)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not remove the parvacuum options of all tables"),
					 errdetail("Another transaction has changed or removed options of a table."),
					 errhint("Wait until it has ended, or end its session, which has a lock in pg_locks with classid = 'pg_seclabel'::regclass.")));
		pg_usleep(REMOVAL_POLL * 1000L);
		CHECK_FOR_INTERRUPTS();
	}
	removed = visit_labels(true);
	AtEOXact_GUC(false, nestlevel);
	return removed;
}
