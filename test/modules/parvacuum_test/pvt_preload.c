/*
 * pvt_preload.c
 *	  What the module does if it is preloaded: like another extension, it takes
 *	  over the vacuum of heap tables and hooks, says when they are called, and
 *	  passes on.
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/rel.h"

#include "base/compat.h"

extern PGDLLEXPORT void _PG_init(void);

static void (*next_vacuum) (Relation rel, PvSlotParams *params,
							BufferAccessStrategy bstrategy);
static object_access_hook_type next_object_access;
static emit_log_hook_type next_emit_log;

static void
say_and_vacuum(Relation rel, PvSlotParams *params, BufferAccessStrategy bstrategy)
{
	ereport(WARNING,
			(errmsg("another library vacuums \"%s\"", RelationGetRelationName(rel))));
	next_vacuum(rel, params, bstrategy);
}

static void
say_what_is_created(ObjectAccessType access, Oid classId, Oid objectId, int subId,
					void *arg)
{
	if (access == OAT_POST_CREATE && classId == RelationRelationId && subId == 0)
		ereport(NOTICE,
				(errmsg("another library sees a new relation")));
	if (next_object_access)
		next_object_access(access, classId, objectId, subId, arg);
}

/* Its own message, of a process that vacuums by itself, tells this one */
static void
say_what_is_logged(ErrorData *edata)
{
	if (edata->elevel == WARNING && MyBackendType == B_BG_WORKER)
		write_stderr("another library sees a message\n");
	if (next_emit_log)
		next_emit_log(edata);
}

/* The page of the slot stays writable. */
static void
take_slot(void)
{
	TableAmRoutine *routine = unconstify(TableAmRoutine *, GetHeapamTableAmRoutine());
	uintptr_t	page_size = sysconf(_SC_PAGESIZE);
	uintptr_t	page = (uintptr_t) &routine->relation_vacuum & ~(page_size - 1);

	if (mprotect((void *) page, page_size, PROT_READ | PROT_WRITE) != 0)
		elog(ERROR, "could not make memory writable: %m");
	next_vacuum = routine->relation_vacuum;
	routine->relation_vacuum = say_and_vacuum;
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	take_slot();
	next_object_access = object_access_hook;
	object_access_hook = say_what_is_created;
	next_emit_log = emit_log_hook;
	emit_log_hook = say_what_is_logged;
}
