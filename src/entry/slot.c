/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  Replaces the relation_vacuum slot of heap's table access method.
 *
 * Core has no hook between VACUUM's own checks and the vacuum of a table, but
 * its vacuum_rel() calls one function pointer of the table access method.
 * parvacuum replaces that pointer, so every vacuum of a heap table comes to
 * it.
 *
 * The pointer is a member of a constant struct of the server, in memory that
 * the loader has made read-only.  pv_slot_take_over() runs in the postmaster
 * while shared_preload_libraries are loaded.  It makes the page writable,
 * stores the pointer, and restores the protection; all processes inherit the
 * page, and the variables here, by fork.  If the operating system refuses
 * that, a WARNING says so and PostgreSQL's own VACUUM goes on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "access/tableam.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/guc.h"

#include "entry/dispatch.h"

/* What the slot holds now. */
static PvVacuumFunction our_vacuum = NULL;

/* Why the slot is not ours, as a sentence; NULL if it is. */
static const char *problem = "The library was not loaded at server start.";

/*
 * Find the protection of the memory at an address, in the kernel's list of the
 * mappings of this process.  Return false if it is not known.
 */
static bool
memory_protection(const void *address, int *prot)
{
	FILE	   *maps = AllocateFile("/proc/self/maps", "r");
	char		line[MAXPGPATH];
	bool		found = false;

	if (maps == NULL)
		return false;

	while (!found && fgets(line, sizeof(line), maps) != NULL)
	{
		unsigned long start;
		unsigned long end;
		char		mode[5];

		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) != 3 ||
			(unsigned long) address < start || (unsigned long) address >= end)
			continue;			/* another one, or the rest of a long line */
		*prot = (mode[0] == 'r' ? PROT_READ : 0) |
			(mode[1] == 'w' ? PROT_WRITE : 0) |
			(mode[2] == 'x' ? PROT_EXEC : 0);
		found = true;
	}
	FreeFile(maps);
	return found;
}

/*
 * Store the pointer in the slot, through read-only memory if necessary.
 * Return false, with errno set, if that is refused.
 *
 * The page may hold other variables of the server.  So restore its former
 * protection, and nothing stricter.  If that is not known, the page stays
 * writable.
 */
static bool
store_slot(PvVacuumFunction *slot, PvVacuumFunction value)
{
	Size		page_size = sysconf(_SC_PAGESIZE);
	void	   *page =
		(void *) ((uintptr_t) slot & ~((uintptr_t) page_size - 1));
	int			prot = PROT_READ | PROT_WRITE;
	bool		known = memory_protection(slot, &prot);
	bool		writable = known && (prot & PROT_WRITE) != 0;

	if (!writable &&
		mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0)
		return false;

	*slot = value;

	if (known && !writable && mprotect(page, page_size, prot) != 0)
		ereport(DEBUG1,
				(errmsg_internal("could not restore the memory protection of heap's routine: %m")));
	return true;
}

/*
 * Take the slot over, or warn once that this is not possible; the server
 * starts in either case.  Call this only while shared_preload_libraries are
 * loaded.  Return the next function in the chain, heap_vacuum_rel() or that of
 * an extension that has replaced it before us.
 *
 * 15.8 and 16.4 gave heap_page_prune() another argument.  The magic block of
 * the library does not notice that, so in an older server our calls of core
 * would be unsafe.
 */
PvVacuumFunction
pv_slot_take_over(PvVacuumFunction function)
{
	TableAmRoutine *routine =
		unconstify(TableAmRoutine *, GetHeapamTableAmRoutine());
	PvVacuumFunction previous = routine->relation_vacuum;

	Assert(process_shared_preload_libraries_in_progress);

	if (atoi(GetConfigOption("server_version_num", false, false)) <
		PV_MIN_SERVER_VERSION)
	{
		problem = "This minor release of PostgreSQL is older than the engine supports.";
		ereport(WARNING,
				(errmsg("parvacuum does not work with PostgreSQL %s",
						GetConfigOption("server_version", false, false)),
				 errdetail("It needs at least 15.8 or 16.4.  Tables are vacuumed by PostgreSQL's own VACUUM."),
				 errhint("Install the newest minor release of PostgreSQL.")));
		return previous;
	}

	our_vacuum = function;
	if (!store_slot(&routine->relation_vacuum, function))
	{
		problem = "The operating system did not let parvacuum take over the vacuum of heap tables.";
		ereport(WARNING,
				(errmsg("parvacuum could not take over the vacuum of heap tables: %m"),
				 errdetail("Tables are vacuumed by PostgreSQL's own VACUUM."),
				 errhint("A security policy of the system may forbid making memory writable.")));
	}
	else
		problem = NULL;
	return previous;
}

/*
 * Return the reason why vacuums of heap tables do not come to us, as a
 * sentence; NULL if they do.
 */
const char *
pv_slot_problem(void)
{
	return problem;
}

/*
 * Do they come to us first?  If not, a library that was preloaded after us has
 * taken the slot over, and may or may not pass them on.
 */
bool
pv_slot_is_first(void)
{
	return GetHeapamTableAmRoutine()->relation_vacuum == our_vacuum;
}

/*
 * Is the vacuum function of the relation's access method ours?  Another access
 * method may have a function of its own, which knows nothing of parvacuum.
 */
bool
pv_slot_serves(Relation rel)
{
	return rel->rd_tableam->relation_vacuum == our_vacuum;
}
