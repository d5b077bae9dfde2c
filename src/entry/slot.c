/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  Replaces the relation_vacuum slot of heap's table access method.
 *
 * Core has no hook between VACUUM's own checks and the vacuum of a table.
 * Its vacuum_rel() parses, checks rights, locks the table, begins a
 * transaction, and then calls one function pointer of the table access
 * method.  parvacuum replaces that pointer, so every vacuum of a heap table
 * comes here: VACUUM commands, TOAST tables, autovacuum workers, and the
 * background leaders of parvacuum_run().
 *
 * The pointer is a member of a constant struct of the server, in memory that
 * the loader has made read-only.  pv_slot_take_over() runs in the postmaster
 * while shared_preload_libraries are loaded.  It makes the page writable,
 * stores the pointer, and restores the protection; all processes inherit the
 * page by fork.  If the operating system refuses that, a WARNING says so and
 * PostgreSQL's own VACUUM goes on.
 *
 * The previous pointer is the next function in the chain.  It is
 * heap_vacuum_rel(), or the function of another extension that replaced the
 * pointer before us.
 *
 * The variables are set once, in the postmaster, and inherited.
 *
 * Portions Copyright (c) 2026, parvacuum developers
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
#include "utils/rel.h"

#include "base/compat.h"
#include "entry/slot.h"

/* What the slot held before; set in the postmaster. */
static PvVacuumFunction previous_vacuum = NULL;

/* What it holds now. */
static PvVacuumFunction our_vacuum = NULL;

/* Why the slot is not ours, as a sentence; NULL if it is. */
static const char *problem = "The library was not loaded at server start.";

/*
 * Does the engine support the minor release of this server?  15.8 and 16.4
 * gave heap_page_prune() another argument.  The magic block of the library
 * does not notice that, so in an older server our calls of core would be
 * unsafe.
 */
static bool
minor_is_supported(void)
{
	return atoi(GetConfigOption("server_version_num", false, false)) >=
		PV_MIN_SERVER_VERSION;
}

/*
 * Find the protection of the memory at an address, in the kernel's list of the
 * mappings of this process.  Return false if there is no such list.
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

		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) != 3)
			continue;			/* the rest of a long line */
		if ((unsigned long) address < start || (unsigned long) address >= end)
			continue;

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
 * loaded.
 */
void
pv_slot_take_over(PvVacuumFunction function)
{
	TableAmRoutine *routine =
		unconstify(TableAmRoutine *, GetHeapamTableAmRoutine());

	Assert(process_shared_preload_libraries_in_progress);

	if (!minor_is_supported())
	{
		problem = "This minor release of PostgreSQL is older than the engine supports.";
		ereport(WARNING,
				(errmsg("parvacuum does not work with PostgreSQL %s",
						GetConfigOption("server_version", false, false)),
				 errdetail("It needs at least 15.8 or 16.4.  Tables are vacuumed by PostgreSQL's own VACUUM."),
				 errhint("Install the newest minor release of PostgreSQL.")));
		return;
	}

	our_vacuum = function;
	previous_vacuum = routine->relation_vacuum;
	if (!store_slot(&routine->relation_vacuum, function))
	{
		problem = "The operating system did not let parvacuum take over the vacuum of heap tables.";
		ereport(WARNING,
				(errmsg("parvacuum could not take over the vacuum of heap tables: %m"),
				 errdetail("Tables are vacuumed by PostgreSQL's own VACUUM."),
				 errhint("A security policy of the system may forbid making memory writable.")));
		return;
	}

	problem = NULL;
}

/* Do vacuums of heap tables come to us? */
bool
pv_slot_is_ours(void)
{
	return problem == NULL;
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

/* Return the reason why they do not, as a sentence; NULL if they do. */
const char *
pv_slot_problem(void)
{
	return problem;
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

/* Call the next function in the chain. */
void
pv_slot_call_previous(Relation rel, VacuumParams *params,
					  BufferAccessStrategy bstrategy)
{
	previous_vacuum(rel, params, bstrategy);
}
