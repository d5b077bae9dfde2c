/*-------------------------------------------------------------------------
 *
 * versions.c
 *	  The versions of the library, of its file, and of the extensions.
 *
 * A server loads the library once, when it starts.  A package replaces the
 * file at any time, and after the restart each database updates its extensions
 * when somebody says so.  A standby has the extensions of its primary, with a
 * library of its own.  So the extension of a database may be older than the
 * library, which then does what it did for that version, or newer, which
 * parvacuum_check() warns of.
 *
 * Sessions run this, but for pv_versions_init().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/process.h"
#include "base/settings.h"
#include "sql/call.h"

PG_FUNCTION_INFO_V1(parvacuum_check_library);

/* The extensions whose functions are in this library */
const char *const pv_extensions[PV_NUM_EXTENSIONS] = {
	"parvacuum", "parvacuum_cluster"
};

/* The file that was loaded, by the postmaster if the library is preloaded */
static struct stat file;
static bool file_known = false;

/* Note which file the library was loaded from. */
void
pv_versions_init(void)
{
	file_known = stat(pv_process_library(), &file) == 0;
}

/*
 * Compare an extension of this database with the library, without the patch.
 * Return a negative number if the extension is older, a positive one if it is
 * newer, and fill in its version.  Return 0 if it was not created.
 */
int
pv_extension_compare(const char *name, char **version)
{
	Relation	catalog = table_open(ExtensionRelationId, AccessShareLock);
	int			major = 0;
	int			minor = 0;
	int			our_major = 0;
	int			our_minor = 0;
	int			order = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum(name));
	scan = systable_beginscan(catalog, ExtensionNameIndexId, true, NULL, 1,
							  &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, Anum_pg_extension_extversion,
										 RelationGetDescr(catalog), &isnull);

		*version = TextDatumGetCString(value);
		(void) sscanf(*version, "%d.%d", &major, &minor);
		(void) sscanf(PV_VERSION, "%d.%d", &our_major, &our_minor);
		order = major != our_major ? major - our_major : minor - our_minor;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return order;
}

/*
 * May rows have other columns than the library knows, behind all others?  So
 * they may if an extension of this database has another minor version, but not
 * if it has another major one, in which a column may be anything.
 */
bool
pv_columns_may_differ(void)
{
	bool		differ = false;

	for (int i = 0; i < PV_NUM_EXTENSIONS; i++)
	{
		char	   *version;

		if (pv_extension_compare(pv_extensions[i], &version) == 0)
			continue;
		if (atoi(version) != atoi(PV_VERSION))
			return false;
		differ = true;
	}
	return differ;
}

/*
 * For the scripts of CREATE EXTENSION and ALTER EXTENSION UPDATE, which drop
 * the function again: raise an error if the library that is loaded is older
 * than the extension will be, and warn if the library is not preloaded.  That
 * is no error, since it can be preloaded later.
 */
Datum
parvacuum_check_library(PG_FUNCTION_ARGS)
{
	char	   *name = creating_extension ?
		get_extension_name(CurrentExtensionObject) : NULL;
	char	   *version;

	if (name != NULL && pv_extension_compare(name, &version) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" %s requires a newer library than the one that is loaded",
						name, version),
				 errdetail("The server has loaded parvacuum %s.", PV_VERSION),
				 errhint("If the new library is installed, restart the server, so that it is loaded.")));
	pv_warn_unless_preloaded();
	PG_RETURN_VOID();
}

/* Is the file of the library another one by now?  Then fill in evidence. */
bool
pv_library_replaced(const char **evidence)
{
	const char *name = pv_process_library();
	struct stat now;
	bool		gone = stat(name, &now) != 0;

	if (!file_known ||
		(!gone && now.st_dev == file.st_dev && now.st_ino == file.st_ino &&
		 now.st_mtime == file.st_mtime && now.st_size == file.st_size))
		return false;
	*evidence = gone ?
		psprintf("\"%s\": %m; parvacuum %s is loaded", name, PV_VERSION) :
		psprintf("\"%s\" is of %s; parvacuum %s is loaded", name,
				 timestamptz_to_str(time_t_to_timestamptz(now.st_mtime)),
				 PV_VERSION);
	return true;
}
