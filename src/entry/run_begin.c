/*-------------------------------------------------------------------------
 *
 * run_begin.c
 *	  Vacuums in processes of their own that the caller does not wait for.
 *
 * parvacuum_run_cluster() vacuums partitions on this server while other
 * servers vacuum theirs.  So it begins runs, looks after all of them from time
 * to time, and ends each.  Otherwise they are the runs of entry/run.c.
 *
 *		pv_run_begin()		starts a background leader
 *		pv_run_look()		handles its messages; has it ended?
 *		pv_run_entries()	what it has done
 *		pv_run_end()		frees it; a leader that is running is terminated
 *
 * A run may be begun in a subtransaction and looked at in another one, so it
 * belongs to the whole transaction.  If that ends first, be it by an error or
 * by the exit of the session, its resource owner detaches the segment.  The
 * leader is then terminated and waited for, as it is by pv_run_end().
 *
 * The session that began the runs runs this.  It takes no locks.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "entry/run.h"

struct PvBegun
{
	PvCall	   *call;
	MemoryContext context;		/* has all of this */
	int			number;
	TimestampTz looked_at;		/* the last look for a deadlock */
	dlist_node	node;
};

/* The runs of this session that have begun and are not freed */
static dlist_head begun_runs = DLIST_STATIC_INIT(begun_runs);

/* The segment is detached: nothing of the run outlives it. */
static void
end_with_segment(dsm_segment *segment, Datum arg)
{
	PvBegun    *run = (PvBegun *) DatumGetPointer(arg);

	dlist_delete(&run->node);
	pv_call_stop(run->call);
}

/*
 * Start the leader, with everything in the memory of the run, and the segment
 * in that of the transaction.
 */
static void
start_run(PvBegun *run, const PvRequest *request)
{
	MemoryContext old_context = MemoryContextSwitchTo(run->context);
	ResourceOwner old_owner = CurrentResourceOwner;
	PvRequest  *copy = palloc(sizeof(PvRequest));

	*copy = *request;
	run->call = pv_call_make(copy);
	PG_TRY();
	{
		CurrentResourceOwner = TopTransactionResourceOwner;
		pv_call_start(run->call);
		on_dsm_detach(run->call->segment, end_with_segment,
					  PointerGetDatum(run));
		dlist_push_tail(&begun_runs, &run->node);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = old_owner;
		MemoryContextSwitchTo(old_context);
	}
	PG_END_TRY();
}

/*
 * Make a background leader do what is requested.  Return the number of the run
 * at once.
 */
int
pv_run_begin(const PvRequest *request)
{
	static int	last_number = PV_ANY_RUN;
	MemoryContext context = AllocSetContextCreate(TopTransactionContext,
												  "parvacuum run",
												  ALLOCSET_SMALL_SIZES);
	PvBegun    *run = MemoryContextAllocZero(context, sizeof(PvBegun));

	run->context = context;
	run->number = ++last_number;
	PG_TRY();
	{
		start_run(run, request);
	}
	PG_CATCH();
	{
		if (run->call != NULL)
		{
			pv_call_stop(run->call);
			if (run->call->segment != NULL)
				dsm_detach(run->call->segment);
		}
		MemoryContextDelete(context);
		PG_RE_THROW();
	}
	PG_END_TRY();

	run->looked_at = GetCurrentTimestamp();
	return run->number;
}

/* Return the run of that number, or PV_ANY_RUN; NULL if there is none. */
PvBegun *
pv_run_find(int number)
{
	dlist_iter	iter;

	dlist_foreach(iter, &begun_runs)
	{
		PvBegun    *run = dlist_container(PvBegun, node, iter.cur);

		if (number == PV_ANY_RUN || run->number == number)
			return run;
	}
	return NULL;
}

/*
 * Handle what the leader has sent.  Return whether the run has ended.  Raise
 * the leader's errors, and look for a deadlock each time deadlock_timeout has
 * passed.  After an error the run has to be ended.
 */
bool
pv_run_look(PvBegun *run)
{
	MemoryContext old_context = MemoryContextSwitchTo(run->context);
	bool		ended = pv_call_look(run->call);
	TimestampTz now = GetCurrentTimestamp();

	if (!ended &&
		TimestampDifferenceExceeds(run->looked_at, now, DeadlockTimeout))
	{
		run->looked_at = now;
		pv_call_check_deadlock(run->call);
	}
	MemoryContextSwitchTo(old_context);
	return ended;
}

/* Return what the run has done so far: a list of PvRunEntry *. */
List *
pv_run_entries(const PvBegun *run)
{
	return run->call->entries;
}

/*
 * End a run and free it.  If it is still running, the leader puts the reason
 * into the history.
 */
void
pv_run_end(PvBegun *run, const ErrorData *reason)
{
	MemoryContext context = run->context;

	if (reason != NULL && !run->call->leader_failed)
		pv_history_fill_reason(run->call->reason, reason);
	dsm_detach(run->call->segment);
	MemoryContextDelete(context);
}
