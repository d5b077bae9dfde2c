/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Keeps code of users that runs inside a vacuum from starting another.
 *
 * A vacuum and an ANALYZE run functions that the owner of the table has written:
 * ANALYZE evaluates index expressions, predicates, and the expressions of
 * statistics objects; the cleanup of a BRIN index summarizes pages, and so
 * evaluates its expressions and its predicate.  These functions were immutable
 * when the index was created, but CREATE OR REPLACE can make them anything.
 *
 * Neither core nor parvacuum can be entered a second time from there.  Core keeps
 * the memory context of ANALYZE in a static variable, and parvacuum the state of
 * the cost-based delay, the options of the table at hand, and the run in progress.
 * Core's vacuum() refuses to be entered twice, but the scheduler and the parallel
 * workers do not go through it, and it knows nothing of parvacuum's functions.
 *
 * So a process is guarded while it vacuums or analyzes a table for parvacuum, and
 * while it is:
 *
 *		VACUUM, ANALYZE, REINDEX, CLUSTER	are refused, in the ProcessUtility hook
 *		parvacuum_run() and its like		refuse by themselves
 *		whatever else writes				is refused inside a vacuum by the engine, whose
 *											transaction is read-only for statements, and
 *											must not have got an XID (engine/index_vacuum.c)
 *
 * All these functions refuse within any other operation that core runs as the owner of
 * a table as well: core's own ANALYZE, CREATE INDEX, REFRESH MATERIALIZED VIEW.
 *
 * A scheduler worker and a parallel worker are guarded for their whole life, since
 * they execute no statements but those of such functions.  Who is guarded for a
 * while restores, after an error too, what was before.  A function that catches the
 * error of a refusal changes nothing here: the refused statement has not entered.
 *
 * Who runs this: every process, for itself.  The variable is its own.
 *
 * Core: commands/vacuum.c, vacuum; tcop/utility.c, CheckRestrictedOperation.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/guard.h"

static bool guarded = false;

/*
 * Guard this process.  Returns what pv_guard_leave() is to restore, which must be
 * called after an error too.
 */
bool
pv_guard_enter(void)
{
	bool		before = guarded;

	guarded = true;
	return before;
}

void
pv_guard_leave(bool before)
{
	guarded = before;
}

/*
 * Guard this process until it ends.
 */
void
pv_guard_process(void)
{
	guarded = true;
}

/*
 * Raise core's error if the process is guarded.
 */
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
 * The same for a function of parvacuum that vacuums, sweeps, queues, or cancels; and
 * an error where core maintains a table as its owner.
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
