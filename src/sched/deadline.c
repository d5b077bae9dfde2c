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
 * The rate of the scheduler counts as it is by then.
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

#include "miscadmin.h"
#include "utils/timeout.h"

#include "base/clock.h"
#include "base/settings.h"
#include "sched/deadline.h"
#include "sched/policy.h"
#include "throttle/cost.h"

typedef struct Stage
{
	volatile bool on;
	volatile TimestampTz since;
	volatile double pages;
	volatile bool analyze;
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

static bool
is_over(void)
{
	TimestampTz now = pv_now();
	int64		rate = pv_cost_rate();
	int			nworkers = pv_guc_scheduler_workers;

	return (at_table.on && now - at_table.since >
			pv_longest_at_table(at_table.pages, rate, nworkers, least())) ||
		(for_owner.on && now - for_owner.since >
		 pv_longest_for_owner(for_owner.pages, for_owner.analyze, rate,
							  nworkers, least()));
}

/* In the handler of SIGALRM. */
static void
look(void)
{
	if (is_over())
		(void) kill(MyProcPid, nsignals++ == 0 ? SIGINT : SIGTERM);
}

void
pv_deadline_init(void)
{
	timeout = RegisterTimeout(USER_TIMEOUT, look);
}

/* The worker begins with a table, whose size it does not know yet. */
void
pv_deadline_begin(void)
{
	nsignals = 0;
	at_table.pages = 0;
	at_table.since = pv_now();
	at_table.on = true;
	enable_timeout_every(timeout,
						 TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													 least() / 1000),
						 PV_LATE_AFTER_MS);
}

/* The table has so many pages, those of its indexes included. */
void
pv_deadline_set_pages(double pages)
{
	at_table.on = false;
	at_table.pages = pages;
	at_table.on = true;
}

/* Functions of the owner of a table of this size may run from now on. */
void
pv_deadline_begin_owner(double pages, bool analyze)
{
	for_owner.pages = pages;
	for_owner.analyze = analyze;
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
