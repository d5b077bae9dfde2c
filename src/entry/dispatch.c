/*-------------------------------------------------------------------------
 *
 * dispatch.c
 *	  Takes over the relation_vacuum slot of heap tables, and dispatches.
 *
 * Every VACUUM command, TOAST table and autovacuum worker arrives in core's
 * vacuum_rel(), which parses, checks rights, locks, opens the transaction and
 * then calls one function pointer of the table's access method.  Core has no
 * hook at this place, so we replace the pointer itself:
 *
 *		VACUUM, autovacuum, parvacuum_run()
 *			vacuum() -> vacuum_rel()
 *				heap's routine -> relation_vacuum
 *					pv_relation_vacuum()
 *						wanted, by a run, the table's options or the setting, and
 *						nothing against it: pv_vacuum_rel()
 *						otherwise: the previous pointer
 *
 * The routine is one constant struct of the server, in memory that the loader
 * has made read-only.  pv_hook_init() runs in the postmaster at preload, makes
 * that page writable, stores, and puts the protection back; all processes
 * inherit the page by fork.  Where the system refuses this, a WARNING says so
 * and stock vacuum goes on.  The previous pointer is the next in the chain: it
 * is heap_vacuum_rel(), or another extension that did the same before us.
 *
 * The dispatcher runs in whatever process vacuums: with a run (entry/run.c) or
 * without.  Its caller holds ShareUpdateExclusiveLock on the relation, has set
 * PROC_IN_VACUUM and pushed a snapshot.  All variables here are the process's
 * own, and no lock covers them.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>
#ifndef WIN32
#include <sys/mman.h>
#endif

#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/borrowed.h"
#include "base/compat.h"
#include "base/guard.h"
#include "base/settings.h"
#include "base/shmem.h"
#include "engine/vacuum.h"
#include "entry/dispatch.h"
#include "entry/inprogress.h"
#include "entry/options.h"
#include "throttle/cost.h"

typedef void (*PvVacuumSlot) (Relation rel, struct VacuumParams *params,
							  BufferAccessStrategy bstrategy);

/* What the slot held before us; set once, in the postmaster. */
static PvVacuumSlot previous_vacuum = NULL;

/* Why the slot is not ours; NULL when it is. */
static const char *problem = "The library was not loaded at server start.";

/* The run in progress in this process, or NULL. */
static PvRun *current_run = NULL;

/* What the caller of the slot has told us of a table, or invalid */
static Oid	told_relid = InvalidOid;
static Oid	told_toast_parent;
static const PvEffectiveOptions *told_options;

static void pv_relation_vacuum(Relation rel, struct VacuumParams *params,
							   BufferAccessStrategy bstrategy);


/* ----------------------------------------------------------------
 *		Installing the slot
 * ----------------------------------------------------------------
 */

/*
 * Is this server's minor release one that the engine was compiled for?
 *
 * 15.8 and 16.4 gave heap_page_prune() a further argument, which the magic
 * block does not notice: below them our calls into core would be unsafe.
 */
static bool
check_minor(void)
{
	return atoi(GetConfigOption("server_version_num", false, false)) >=
		PV_MIN_SERVER_VERSION;
}

#ifndef WIN32
/*
 * Finds the protection of the memory at the address, from the kernel's list of
 * our mappings.  False where there is no such list.
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
 * Stores the pointer in the slot, if need be through read-only memory, and
 * returns false with errno where that is refused.
 *
 * The page may hold other variables of the server, so its protection is put
 * back to what it was and never to something stricter; where we cannot find
 * out what it was, the page stays writable.
 */
static bool
store_slot(PvVacuumSlot *slot, PvVacuumSlot value)
{
	Size		page_size = sysconf(_SC_PAGESIZE);
	void	   *page = (void *) ((uintptr_t) slot & ~((uintptr_t) page_size - 1));
	int			prot = PROT_READ | PROT_WRITE;
	bool		known = memory_protection(slot, &prot);
	bool		writable = known && (prot & PROT_WRITE) != 0;

	if (!writable &&
		mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0)
		return false;

	*slot = value;

	if (known && !writable && mprotect(page, page_size, prot) != 0)
		ereport(DEBUG1,
				(errmsg_internal("could not protect heap's routine again: %m")));

	return true;
}
#else
static bool
store_slot(PvVacuumSlot *slot, PvVacuumSlot value)
{
	errno = ENOSYS;
	return false;
}
#endif

/*
 * Takes the slot over, or warns once why not; the server starts either way.
 * Only while shared_preload_libraries are loaded.
 */
void
pv_hook_init(void)
{
	TableAmRoutine *routine =
	unconstify(TableAmRoutine *, GetHeapamTableAmRoutine());

	Assert(process_shared_preload_libraries_in_progress);

	if (!check_minor())
	{
		problem = "This minor release of PostgreSQL is older than the engine supports.";
		ereport(WARNING,
				(errmsg("parvacuum does not work with PostgreSQL %s",
						GetConfigOption("server_version", false, false)),
				 errdetail("It needs at least 15.8 or 16.4.  Tables are vacuumed by PostgreSQL's own VACUUM."),
				 errhint("Install the newest minor release of PostgreSQL.")));
		return;
	}

	previous_vacuum = routine->relation_vacuum;
	if (!store_slot(&routine->relation_vacuum, pv_relation_vacuum))
	{
		problem = "The operating system did not let parvacuum into the vacuum of heap tables.";
		ereport(WARNING,
				(errmsg("parvacuum could not take over the vacuum of heap tables: %m"),
				 errdetail("Tables are vacuumed by PostgreSQL's own VACUUM."),
				 errhint("A security policy of the system may forbid making memory writable.")));
		return;
	}

	problem = NULL;
}

/* Do vacuums of heap tables pass through us? */
bool
pv_hook_installed(void)
{
	return problem == NULL;
}

/*
 * Is it ours that vacuums this relation, or that chooses who does?  Another access method
 * may have a function of its own, which knows nothing of us.
 */
bool
pv_hook_is_called_for(Relation rel)
{
	return rel->rd_tableam->relation_vacuum == pv_relation_vacuum;
}

/* Why they do not, as a sentence; NULL when they do. */
const char *
pv_hook_problem(void)
{
	return problem;
}


/* ----------------------------------------------------------------
 *		The run of this process
 * ----------------------------------------------------------------
 */

/*
 * From here on the engine is engaged, and every relation vacuumed is reported
 * to the run.  An error in between ends the process, so nothing unhooks it.
 */
void
pv_hook_begin_run(PvRun *run)
{
	Assert(current_run == NULL);
	Assert(pv_hook_installed());

	memset(&run->last, 0, sizeof(run->last));
	current_run = run;
}

void
pv_hook_end_run(void)
{
	current_run = NULL;
}


/*
 * Who is about to call the slot, and knows the options of that table, saves us a look
 * into the catalogs.  They stay the caller's, and hold for one call; the caller has them
 * forgotten if that may not have come here, after an error too.
 */
void
pv_hook_tell_options(Oid relid, Oid toast_parent, const PvEffectiveOptions *options)
{
	told_relid = relid;
	told_toast_parent = toast_parent;
	told_options = options;
}

void
pv_hook_forget_options(void)
{
	told_relid = InvalidOid;
}


/*
 * What to do so that parvacuum is preloaded: a hint with the line for postgresql.conf.
 * The line keeps what is preloaded now, which only some may know.
 * Core: utils/misc/guc.c, GUC_SUPERUSER_ONLY.
 */
static int
hint_to_preload(void)
{
	const char *present = shared_preload_libraries_string;
	StringInfoData list;

	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS))
		return errhint("Add parvacuum to shared_preload_libraries in postgresql.conf, behind what is there, and restart the server.");

	/* The list is text within quotes there */
	initStringInfo(&list);
	for (; present != NULL && *present != '\0'; present++)
	{
		if (*present == '\'' || *present == '\\')
			appendStringInfoChar(&list, *present);
		appendStringInfoChar(&list, *present);
	}
	if (strspn(list.data, " ") < (size_t) list.len)
		appendStringInfoString(&list, ", ");
	else
		resetStringInfo(&list);
	return errhint("Have this line in postgresql.conf and restart the server: shared_preload_libraries = '%sparvacuum'",
				   list.data);
}

/* Is there anything in shared memory to look at?  Otherwise an error. */
void
pv_hook_check_preloaded(const char *what)
{
	if (!pv_shmem_attached())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s requires parvacuum to be preloaded", what),
				 hint_to_preload()));
}

/* The same for CREATE EXTENSION, which is no error: the rest can be done later. */
void
pv_hook_warn_if_not_preloaded(void)
{
	if (!pv_shmem_attached())
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("parvacuum is not preloaded"),
				 errdetail("Until it is, its functions raise an error, and all tables are vacuumed by PostgreSQL's own VACUUM."),
				 hint_to_preload()));
}

/* Can the function do what it is for, on this server and in this place?  Otherwise an error. */
void
pv_hook_check_server(const char *what)
{
	pv_hook_check_preloaded(what);
	pv_guard_check_function(what);
	if (!pv_hook_installed())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s is not available on this server", what),
				 errdetail("%s", pv_hook_problem()),
				 errhint("The server's log has a warning about it from the last start.")));
	if (!IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s cannot be executed in single-user mode", what),
				 errhint("Use VACUUM.")));
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", what),
				 errhint("Execute it on the primary server.")));
	PreventCommandIfParallelMode(what);
}


/* ----------------------------------------------------------------
 *		The dispatcher
 * ----------------------------------------------------------------
 */

/*
 * Why the engine leaves this relation to core although it is wanted: a sentence
 * for the user, or NULL when the engine takes it.  This is the one place that
 * decides.  A TOAST table shares its table's fate where a catalog is concerned.
 */
const char *
pv_hook_declines(Form_pg_class form, Oid toast_parent)
{
	if (!pv_hook_installed())
		return pv_hook_problem();
	if (!pv_guc_engine)
		return "The setting parvacuum.engine is off.";
	if (!IsUnderPostmaster)
		return "The server runs in single-user mode.";
	if (form->relam != HEAP_TABLE_AM_OID)
		return "The table does not use the access method heap.";
	if (form->relpersistence == RELPERSISTENCE_TEMP)
		return "The table is temporary.";
	if (IsCatalogRelationOid(form->oid) ||
		(OidIsValid(toast_parent) && IsCatalogRelationOid(toast_parent)))
		return "The table is a system catalog.";
	if (form->relkind == RELKIND_TOASTVALUE && !OidIsValid(toast_parent))
		return "The table that this TOAST table belongs to cannot be found.";

	return NULL;
}

/* What is to be done with one relation. */
typedef struct PvChoice
{
	Oid			toast_parent;
	PvEffectiveOptions options; /* of the table, or of a TOAST table's table */
	bool		wanted;			/* the engine is to vacuum it */
	const char *declined;		/* wanted, but why not */
} PvChoice;

/*
 * Finds out who vacuums this relation.  A run wants the engine whatever the
 * options say.  Whose TOAST table that of a catalog is only a run wants to know:
 * pg_depend, where we would look, is a catalog too.
 */
static void
choose(Relation rel, PvChoice *choice)
{
	memset(choice, 0, sizeof(*choice));
	if (told_relid == RelationGetRelid(rel))
	{
		choice->toast_parent = told_toast_parent;
		choice->options = *told_options;
		pv_hook_forget_options();
	}
	else if (current_run == NULL && IsCatalogRelation(rel))
		pv_options_default(&choice->options);
	else
		pv_options_find(rel, &choice->toast_parent, &choice->options);

	choice->wanted = current_run != NULL ||
		choice->options.value[PV_OPTION_ENABLED] > 0;
	if (choice->wanted)
		choice->declined = pv_hook_declines(rel->rd_rel, choice->toast_parent);
}

/*
 * What the table's own options say about truncation, for a caller who left it
 * open.  A table that forbids it stays untouched; core must be told yes or no,
 * while the engine may decide by what there is to gain.
 *
 * Core: vacuum.c, vacuum_rel, which does this for "unspecified".
 */
void
pv_hook_resolve_truncate(Relation rel, VacuumParams *params, bool for_core)
{
	if (params->truncate != VACOPTVALUE_AUTO)
		return;

	if (!pv_may_truncate(rel))
		params->truncate = VACOPTVALUE_DISABLED;
	else if (for_core)
		params->truncate = VACOPTVALUE_ENABLED;
}

/*
 * Has the next in the chain vacuum the relation.  It must be told whether to
 * truncate.  It polls nowhere, so the scheduler's account is told afterwards what
 * was slept for in there.
 */
static void
call_previous(Relation rel, VacuumParams *params, BufferAccessStrategy bstrategy)
{
	pv_hook_resolve_truncate(rel, params, true);
	pv_cost_flush();
	previous_vacuum(rel, params, bstrategy);
	pv_cost_charge_slept();
}

/*
 * Has the next in the chain vacuum the relation, and measures from outside
 * what that took: time in microseconds, blocks, WAL.
 */
static void
vacuum_by_core(Relation rel, VacuumParams *params,
			   BufferAccessStrategy bstrategy, PvResult *result)
{
	BufferUsage buffers_before = pgBufferUsage;
	WalUsage	wal_before = pgWalUsage;
	BufferUsage buffers;
	WalUsage	wal;
	instr_time	start;
	instr_time	elapsed;

	memset(&buffers, 0, sizeof(buffers));
	memset(&wal, 0, sizeof(wal));
	INSTR_TIME_SET_CURRENT(start);

	call_previous(rel, params, bstrategy);

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, start);
	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &buffers_before);
	WalUsageAccumDiff(&wal, &pgWalUsage, &wal_before);

	memset(result, 0, sizeof(*result));
	result->relid = RelationGetRelid(rel);
	result->by_engine = false;
	result->elapsed_usecs = INSTR_TIME_GET_MICROSEC(elapsed);
	result->wal_records = wal.wal_records;
	result->wal_fpi = wal.wal_fpi;
	result->wal_bytes = wal.wal_bytes;
	result->buffers_hit = buffers.shared_blks_hit;
	result->buffers_read = buffers.shared_blks_read;
	result->buffers_dirtied = buffers.shared_blks_dirtied;
}

/*
 * At which level is it said that core vacuums the table although the engine was
 * wanted?  The caller of a run is always told: fast was promised.  Of a TOAST
 * table nothing is said when its table's notice has just said it.
 */
static int
level_of_decline(const PvChoice *choice, const VacuumParams *params)
{
	if (current_run != NULL)
	{
		const PvResult *last = &current_run->last.result;
		bool		told = OidIsValid(choice->toast_parent) &&
		last->relid == choice->toast_parent && !last->by_engine;

		return told ? DEBUG1 : NOTICE;
	}
	return (params->options & VACOPT_VERBOSE) != 0 ? INFO : DEBUG1;
}

/* Is there a log of autovacuum for it? */
static bool
has_log(const VacuumParams *params)
{
	return pv_is_automatic() && params->log_min_duration >= 0;
}

/*
 * Has core vacuum a table that the engine was wanted for, and says why: before,
 * to who asked for the vacuum, or beside what autovacuum's log has of it.  A
 * log need not say of every catalog that it is one.
 */
static void
vacuum_declined(Relation rel, VacuumParams *params,
				BufferAccessStrategy bstrategy, const PvChoice *choice,
				PvResult *result)
{
	ereport(level_of_decline(choice, params),
			(errmsg("PostgreSQL's own VACUUM vacuums table \"%s\"",
					RelationGetRelationName(rel)),
			 errdetail("%s", choice->declined)));

	vacuum_by_core(rel, params, bstrategy, result);

	if (has_log(params) && !IsCatalogRelation(rel) &&
		result->elapsed_usecs / 1000 >= params->log_min_duration)
		ereport(LOG,
				(errmsg("PostgreSQL's own VACUUM has vacuumed table \"%s.%s.%s\"",
						get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel)),
				 errdetail("%s", choice->declined)));
}

/* The lower of two limits of kilobytes, of which 0 is none. */
static int
lower_limit(int a, int b)
{
	if (a == 0 || b == 0)
		return Max(a, b);
	return Min(a, b);
}

/*
 * The most of shared buffers that a vacuum goes round in which nobody waits for, in
 * kilobytes.  What the owner of a database sets for it can only lower the default.
 */
static int
automatic_limit(void)
{
	if (pv_find_setting("parvacuum.buffer_usage_limit")->source < PGC_S_DATABASE)
		return pv_guc_buffer_usage_limit;
	return lower_limit(pv_guc_buffer_usage_limit, PV_DEFAULT_BUFFER_USAGE_LIMIT);
}

/*
 * What the options of the table mean for the engine; of a TOAST table, those of
 * its parent.  An autovacuum worker goes by the cost limits that the table's own
 * storage parameters fix.
 *
 * A vacuum that nobody waits for takes no more of shared buffers from others than the
 * setting allows, whatever the owner of the table says.
 */
static void
set_vacuum_options(Relation rel, const PvChoice *choice, PvVacuumOptions *options)
{
	AutoVacOpts parameters;

	memset(options, 0, sizeof(*options));
	options->workers = choice->options.value[PV_OPTION_WORKERS];
	options->buffer_usage_limit = choice->options.value[PV_OPTION_BUFFER_USAGE_LIMIT];
	if (pv_is_automatic())
		options->buffer_usage_limit = lower_limit(options->buffer_usage_limit,
												  automatic_limit());
	if (pv_is_autovacuum_worker() &&
		pv_options_autovacuum(rel, choice->toast_parent, &parameters))
	{
		options->own_costs.delay = parameters.vacuum_cost_delay >= 0;
		options->own_costs.limit = parameters.vacuum_cost_limit > 0;
	}
}

/*
 * Is this vacuum to be found by parvacuum_cancel() among those of VACUUM and autovacuum?
 * Runs and the scheduler's vacuums are found in other ways.
 */
static bool
is_of_core(void)
{
	return current_run == NULL && !pv_is_scheduler_worker;
}

/*
 * Have the engine vacuum the relation.
 *
 * The transaction is made a read-only one meanwhile, as far as statements are concerned.
 * The cleanup of a BRIN index runs functions of the table's owner.  If one of these wrote
 * anything, the transaction would get an XID, which the snapshots of others leave out,
 * since the process has PROC_IN_VACUUM set: they would take what it wrote for aborted,
 * and leave hints that say so for ever.  What can write even so is found by its XID, in
 * engine/index_vacuum.c.  An error ends the transaction, and with it this.
 *
 * Core: storage/ipc/procarray.c, GetSnapshotData; executor/execMain.c,
 * ExecCheckXactReadOnly; tcop/utility.c, PreventCommandIfReadOnly.
 */
static void
vacuum_by_engine(Relation rel, VacuumParams *params, BufferAccessStrategy bstrategy,
				 const PvChoice *choice, PvResult *result)
{
	PvVacuumOptions options;

	set_vacuum_options(rel, choice, &options);
	if (is_of_core())
		pv_inprogress_begin(RelationGetRelid(rel), choice->toast_parent,
							MyBackendType == B_AUTOVAC_WORKER);
	PG_TRY();
	{
		bool		read_only = pv_forbid_writes();

		pv_vacuum_rel(rel, params, bstrategy, &options, result);
		pv_restore_read_only(read_only);
		pv_inprogress_end(RelationGetRelationName(rel));
	}
	PG_CATCH();
	{
		pv_inprogress_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Vacuum one relation, with the engine or by the next in the chain.
 */
static void
vacuum_relation(Relation rel, VacuumParams *params, BufferAccessStrategy bstrategy)
{
	PvRun	   *run = current_run;
	PvRunEntry	entry;
	PvChoice	choice;

	/* the switch works without a look at the catalogs; a run is to hear why */
	if (run == NULL && !pv_guc_engine)
	{
		call_previous(rel, params, bstrategy);
		return;
	}

	choose(rel, &choice);
	if (!choice.wanted)
	{
		call_previous(rel, params, bstrategy);
		return;
	}

	if (run != NULL)
		run->begin_relation(RelationGetRelid(rel), choice.toast_parent);
	entry.toast_parent = choice.toast_parent;

	if (choice.declined == NULL)
	{
		if (run != NULL && run->truncate_is_open && params->truncate == VACOPTVALUE_ENABLED)
			params->truncate = VACOPTVALUE_AUTO;
		pv_hook_resolve_truncate(rel, params, false);
		vacuum_by_engine(rel, params, bstrategy, &choice, &entry.result);
	}
	else
		vacuum_declined(rel, params, bstrategy, &choice, &entry.result);

	if (run != NULL)
	{
		run->last = entry;
		run->end_relation(&run->last);
	}
}

/*
 * What stands in heap's slot.  Locks and transaction are core's, see the top.
 */
static void
pv_relation_vacuum(Relation rel, struct VacuumParams *params,
				   BufferAccessStrategy bstrategy)
{
	bool		before = pv_guard_enter();

	PG_TRY();
	{
		vacuum_relation(rel, params, bstrategy);
	}
	PG_FINALLY();
	{
		pv_guard_leave(before);
	}
	PG_END_TRY();
}
