/*-------------------------------------------------------------------------
 *
 * deadline.c
 *	  How long a scheduler worker may be at one table.
 *
 * Functions of a table's owner run in ANALYZE, and in the cleanup of an index
 * whose access method evaluates expressions.  They may sleep, or never end.
 * An owner can also hold the pin of a page that the vacuum has to wait for, or
 * have it sleep by a cost limit of his.  So each table has a deadline, by its
 * size, and so has what the owner's functions do there (sched/policy.c).
 *
 *		begin					begin_owner				end_owner		end
 *		  |---- pages: engine -----|---- functions ---------|----  ... ---|
 *		  |<-------------------- pv_longest_at_table() ------------------>|
 *								   |<pv_longest_for_owner()>|
 *
 * A timeout of this process comes when the least time is over, and again and
 * again after PV_LATE_AFTER_MS.  When a deadline has passed, it cancels the
 * table.  A function can catch that, so the next time it ends the process.
 * If settings change meanwhile, the longest deadline that they gave counts.
 *
 * Scheduler workers run this.  The variables are the process's own.  The
 * signal handler reads them, so what it must not see half changed is off
 * meanwhile.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/genam.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/timeout.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/settings.h"
#include "engine/index_vacuum.h"
#include "entry/relation.h"
#include "sched/deadline.h"
#include "sched/policy.h"
#include "sched/queue.h"
#include "throttle/cost.h"

/*
 * How long to wait for locks that the vacuum of a large table needs when it
 * has begun, in milliseconds.  Among them is the lock of its row in pg_class,
 * at the end, when the vacuum may have taken hours.
 */
#define LONGEST_FOR_LARGE_MS	(10 * 60 * 1000)

typedef struct Stage
{
	volatile bool on;
	volatile TimestampTz since;
	volatile double pages;
	volatile bool analyze;
	volatile double longest;	/* the longest deadline so far, microseconds */
} Stage;

static Stage at_table;
static Stage for_owner;

static TimeoutId timeout;

/* How often the signal handler has cancelled or ended what goes on */
static volatile sig_atomic_t nsignals = 0;

static int64
least(void)
{
	return pv_guc_longest_at_table * USECS_PER_SEC;
}

/*
 * Is a stage over that may take this long by the present settings?  In
 * microseconds.
 */
static bool
has_ended(Stage *stage, double longest)
{
	stage->longest = Max(stage->longest, longest);
	return pv_now() - stage->since > stage->longest;
}

static bool
is_over(void)
{
	int64		rate = pv_cost_rate();
	int			nworkers = pv_guc_scheduler_workers;

	return (at_table.on &&
			has_ended(&at_table,
					  pv_longest_at_table(at_table.pages, rate, nworkers,
										  least()))) ||
		(for_owner.on &&
		 has_ended(&for_owner,
				   pv_longest_for_owner(for_owner.pages, for_owner.analyze,
										rate, nworkers, least())));
}

/* In the handler of SIGALRM. */
static void
look(void)
{
	if (is_over())
		(void) kill(MyProcPid, nsignals++ == 0 ? SIGINT : SIGTERM);
}

/* The engine comes to functions of the owner, or has run them. */
static void
owner_hook(bool begins, BlockNumber pages)
{
	if (begins)
		pv_deadline_begin_owner(pages, false);
	else
		pv_deadline_end_owner();
}

/* To be called once, when the worker starts. */
void
pv_deadline_init(void)
{
	timeout = RegisterTimeout(USER_TIMEOUT, look);
	pv_owner_hook = owner_hook;
}

/*
 * Limits how long this process waits for a lock from now on, in milliseconds.
 * It does not wait for the table itself.  But a table's owner can lock its
 * indexes, or the row of a database in pg_database, and could keep all workers
 * waiting.
 */
void
pv_deadline_for_locks(int ms)
{
	char		value[16];

	if (ms == LockTimeout)
		return;
	snprintf(value, sizeof(value), "%d", ms);
	SetConfigOption("lock_timeout", value, PGC_SUSET, PGC_S_OVERRIDE);
}

/* The worker begins with a table, whose size it does not know yet. */
void
pv_deadline_begin(void)
{
	nsignals = 0;
	at_table.pages = 0;
	at_table.longest = 0;
	at_table.since = pv_now();
	at_table.on = true;
	enable_timeout_every(timeout,
						 TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													 least() / 1000),
						 PV_LATE_AFTER_MS);
}

/*
 * Returns the pages of an index.  Sets *runs_functions if its cleanup may run
 * functions of the owner.  An index that is locked counts as one without pages
 * that may run them: a sweep does without it, and a vacuum waits for it later,
 * as long as its deadline allows.  The caller has locked the table.
 */
static BlockNumber
index_pages(Oid index, bool *runs_functions)
{
	Relation	indrel = pv_open_unlocked(index, AccessShareLock);
	BlockNumber pages;

	*runs_functions = true;
	if (indrel == NULL)
		return 0;
	pages = RelationGetNumberOfBlocks(indrel);
	*runs_functions = pv_index_cleanup_must_wait(indrel);
	index_close(indrel, AccessShareLock);
	return pages;
}

/*
 * The worker is to vacuum or sweep the table, which is open.  If that and its
 * indexes are large, it has more time, and from now on also for locks.  Core's
 * code does not tell when it comes to functions of the owner, so the table has
 * no place for a large one if there may be any.
 */
void
pv_deadline_set_size(Relation rel, bool by_core)
{
	BlockNumber own_pages = RelationGetNumberOfBlocks(rel);
	double		pages = own_pages;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		bool		runs_functions;

		pages += index_pages(lfirst_oid(lc), &runs_functions);
		if (by_core && runs_functions)
			pv_queue_leave_place();
	}
	at_table.on = false;
	at_table.pages = pages;
	at_table.on = true;
	if (own_pages >= PV_LARGE_PAGES)
		pv_deadline_for_locks(LONGEST_FOR_LARGE_MS);
}

/*
 * Functions of the owner of a table of this size may run from now on.  They
 * hold no place for a large table.
 */
void
pv_deadline_begin_owner(BlockNumber pages, bool analyze)
{
	pv_queue_leave_place();
	for_owner.pages = pages;
	for_owner.analyze = analyze;
	for_owner.longest = 0;
	for_owner.since = pv_now();
	for_owner.on = true;
}

void
pv_deadline_end_owner(void)
{
	for_owner.on = false;
}

/* Was the table at hand cancelled because a deadline had passed? */
bool
pv_deadline_has_passed(void)
{
	return nsignals > 0;
}

/* The worker has left its table. */
void
pv_deadline_end(void)
{
	at_table.on = for_owner.on = false;
	disable_timeout(timeout, false);
}
