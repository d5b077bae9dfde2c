/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Keeping functions that a vacuum runs from starting another vacuum.
 *
 * ANALYZE and the cleanup of a BRIN index run functions that the owner of the
 * table has written, in expressions and predicates.  They were immutable when
 * the index was created, but CREATE OR REPLACE FUNCTION can make them do
 * anything.
 *
 * Neither core nor parvacuum can be entered a second time from there, because
 * both keep state in static variables.  Core's vacuum() refuses that, but the
 * scheduler and the parallel workers do not call it, and it does not know
 * parvacuum's functions.  So a process is guarded while it vacuums or analyzes
 * a table for parvacuum.  In a guarded process:
 *
 *		VACUUM, ANALYZE, REINDEX, CLUSTER	are refused in the ProcessUtility hook
 *		parvacuum_run() and the others		refuse by themselves
 *		any other statement that writes		is refused within a vacuum, because the
 *											transaction is read-only for
 *											statements
 *		what writes nevertheless			is found by its XID, after the
 *											cleanup of the index
 *
 * parvacuum's functions also refuse within any other operation that core runs
 * as the owner of a table: core's own ANALYZE, CREATE INDEX, REFRESH
 * MATERIALIZED VIEW.
 *
 * A scheduler worker and a parallel worker are guarded until they end.  It does
 * no harm if a function catches the error of a refusal, because the refused
 * statement has not begun.
 *
 * Core: commands/vacuum.c, vacuum; tcop/utility.c, CheckRestrictedOperation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "base/compat.h"
#include "base/process.h"

static bool guarded = false;

PvOwnerHook pv_owner_hook = NULL;

/*
 * Guard this process.  Return what pv_guard_leave() has to restore, after an
 * error too, unless the process is guarded until it ends.
 */
bool
pv_guard_enter(void)
{
	bool		before = guarded;

	guarded = true;
	return before;
}

/* Restore what pv_guard_enter() returned. */
void
pv_guard_leave(bool before)
{
	guarded = before;
}

/* Raise core's error if the process is guarded. */
void
pv_guard_check_command(const char *command)
{
	if (guarded)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s cannot be executed from VACUUM or ANALYZE", command),
				 errhint("Do not use it in functions of indexes and statistics objects.")));
}

/*
 * The same for a function of parvacuum that vacuums, sweeps, enqueues, or
 * cancels.  Such a function is also refused where core maintains a table as
 * its owner.
 */
void
pv_guard_check_function(const char *what)
{
	pv_guard_check_command(what);
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot execute %s within security-restricted operation", what),
				 errhint("Do not use it in functions of indexes, statistics objects, and materialized views.")));
}

/*
 * Let functions of a table run as its owner.  They cannot change settings of
 * this process.  An error restores all of it with the transaction.
 *
 * Core: commands/vacuum.c, vacuum_rel.
 */
void
pv_become_owner(Oid owner, PvFormerUser *own)
{
	GetUserIdAndSecContext(&own->userid, &own->sec_context);
	SetUserIdAndSecContext(owner,
						   own->sec_context | SECURITY_RESTRICTED_OPERATION);
	own->nestlevel = NewGUCNestLevel();
	pv_restrict_search_path();
}

/* Undo pv_become_owner(). */
void
pv_become_oneself(const PvFormerUser *own)
{
	AtEOXact_GUC(false, own->nestlevel);
	SetUserIdAndSecContext(own->userid, own->sec_context);
}
