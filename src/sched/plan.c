/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  What the launcher is to do now.
 *
 * The launcher takes a snapshot of its databases and of the queues, and has the
 * plan made of it: a list of actions, in the order in which they are to be
 * carried out.
 *
 *		too many workers		the databases with the most have one leave each
 *		a database needs one	launch, the one that ranks highest first; of those
 *								that workers cannot get to, one at a time
 *		no place is left		databases that are due are scanned by the workers
 *								that they have; and one worker is asked to leave
 *								its database, if another one displaces it; or, if
 *								none will have time soon, one gives up a small
 *								table that takes too long
 *
 * A plan is a function of its snapshot.  It asks no clock and no other process, and
 * changes nothing; the unit tests drive it with snapshots of their own.  Its time
 * is proportional to the number of databases, once for each worker that is launched.
 *
 * How databases rank is in policy.c.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/plan.h"
#include "sched/policy.h"

/*
 * A database that has a worker gets another one after this time, if there still is
 * something in its queue, twice as long for the next, and so on, to the longest:
 * what a process costs to start is little beside the time the queue has lasted.
 */
#define ANOTHER_WORKER_AFTER	INT64CONST(200000)
#define LONGEST_RAMP			INT64CONST(1000000)

/* What is known of the databases while the plan is made */
typedef struct Planner
{
	const PvSnapshot *snapshot;
	PvPlan	   *plan;
	PvQueueSummary *summaries;	/* a copy, as the actions so far leave them */
	const PvPlanDatabase **of_summary;	/* NULL: a database not known yet */
	PvDatabaseState *states;	/* of the databases, as the actions leave them */
	bool		failed_is_tried;	/* a worker is on its way to one that failed */
} Planner;

static void
add_action(Planner *planner, PvActionKind kind, Oid database, bool to_scan,
		   bool takes_queue)
{
	PvPlan	   *plan = planner->plan;
	PvAction   *action = &plan->actions[plan->n++];

	Assert(plan->n <= PV_MAX_ACTIONS);
	action->kind = kind;
	action->database = database;
	action->to_scan = to_scan;
	action->takes_queue = takes_queue;
}

/* How long after the last one was started another may be. */
static int64
ramp(int nworkers)
{
	int64		wait = ANOTHER_WORKER_AFTER;

	for (int i = 1; i < nworkers && wait < LONGEST_RAMP; i++)
		wait *= 2;
	return Min(wait, LONGEST_RAMP);
}

static int
compare_databases(const void *key, const void *element)
{
	Oid			oid = *(const Oid *) key;
	const PvPlanDatabase *database = element;

	if (oid == database->oid)
		return 0;
	return oid < database->oid ? -1 : 1;
}

/* The database of a queue; NULL if the launcher does not know it yet. */
static const PvPlanDatabase *
find_database(const PvSnapshot *snapshot, Oid oid)
{
	return bsearch(&oid, snapshot->databases, snapshot->ndatabases,
				   sizeof(PvPlanDatabase), compare_databases);
}

/*
 * What the policy needs to know of a database; summary is NULL if it has no queue.
 *
 * What a worker waits for before it comes, another would wait for as well.  Where
 * other databases have all queues, a database without one waits until one of them
 * is through, or until it may take one.
 */
static void
describe(const PvSnapshot *snapshot, const PvPlanDatabase *database,
		 const PvQueueSummary *summary, PvDatabaseState *state)
{
	const PvQueueView *view = &snapshot->view;
	bool		must_wait = snapshot->now < database->not_before;

	memset(state, 0, sizeof(*state));
	state->age = database->age;
	state->overdue = database->counted || database->age > 1 ?
		snapshot->now - database->due : -1;
	if (summary != NULL)
	{
		state->top_score = summary->top_score;
		state->top_danger = summary->top_danger;
		state->nqueued = summary->nqueued;
		state->nworkers = summary->nworkers;
		state->scan_pending = summary->scan_pending;
		must_wait |= summary->nexpected > 0;
	}
	else
		must_wait |= view->full && (view->none_to_take || !pv_takes_queue(state));

	/* one more beside others when the queue has lasted for a while, not at once */
	if (state->nworkers > 0 &&
		snapshot->now < database->hired_at + ramp(state->nworkers))
		state->nqueued = 0;
	if (must_wait)
	{
		state->nqueued = 0;
		state->overdue = -1;
	}
}

static void
describe_all(Planner *planner)
{
	const PvSnapshot *snapshot = planner->snapshot;
	const PvPlanDatabase *databases = snapshot->databases;

	for (int i = 0; i < snapshot->ndatabases; i++)
		describe(snapshot, &databases[i], NULL, &planner->states[i]);
	for (int i = 0; i < snapshot->view.n; i++)
	{
		const PvPlanDatabase *database = find_database(snapshot,
													   planner->summaries[i].database);

		planner->of_summary[i] = database;
		if (database == NULL)
			continue;
		if (database->failed && planner->summaries[i].nexpected > 0)
			planner->failed_is_tried = true;
		describe(snapshot, database, &planner->summaries[i],
				 &planner->states[database - databases]);
	}
}

static PvDatabaseState *
state_of_summary(Planner *planner, int i)
{
	const PvPlanDatabase *database = planner->of_summary[i];

	return database ? &planner->states[database - planner->snapshot->databases] : NULL;
}

static bool
is_due(const PvDatabaseState *state)
{
	return state->overdue >= 0 && !state->scan_pending;
}

/*
 * Have the database with the most workers that stay give one up.  False if there
 * is none.
 */
static bool
ask_one_to_leave(Planner *planner)
{
	PvQueueSummary *most = NULL;

	for (int i = 0; i < planner->snapshot->view.n; i++)
	{
		PvQueueSummary *summary = &planner->summaries[i];

		if (most == NULL ||
			summary->nworkers - summary->nleaving > most->nworkers - most->nleaving)
			most = summary;
	}
	if (most == NULL || most->nworkers <= most->nleaving)
		return false;
	add_action(planner, PV_ACTION_ASK_TO_LEAVE, most->database, false, false);
	most->nleaving++;
	return true;
}

/*
 * More workers are there than may be: the setting was lowered, or large tables were
 * finished.
 */
static void
reduce_workers(Planner *planner, int allowed)
{
	int			nstaying = planner->snapshot->view.nworkers;

	for (int i = 0; i < planner->snapshot->view.n; i++)
		nstaying -= planner->summaries[i].nleaving;
	while (nstaying > allowed && ask_one_to_leave(planner))
		nstaying--;
}

/*
 * Is it the database's turn?  Workers may be kept from some databases for long, for
 * instance by a session that holds the lock of a database of its own.  One worker at a
 * time tries those, so that they take one place from the others, however many they are.
 */
static bool
may_have_worker(const Planner *planner, int which)
{
	return !(planner->failed_is_tried && planner->snapshot->databases[which].failed);
}

/* The database that should have a worker next; -1 if none needs one. */
static int
choose_database(const Planner *planner)
{
	int			best = -1;
	double		best_rank = -1;

	for (int i = 0; i < planner->snapshot->ndatabases; i++)
	{
		double		rank = pv_rank_database(&planner->states[i]);

		if (rank > best_rank && may_have_worker(planner, i))
		{
			best = i;
			best_rank = rank;
		}
	}
	return best;
}

/* Until it has come the database needs no other one. */
static void
launch(Planner *planner, int which)
{
	PvDatabaseState *state = &planner->states[which];

	add_action(planner, PV_ACTION_LAUNCH, planner->snapshot->databases[which].oid,
			   is_due(state), pv_takes_queue(state));
	state->nworkers++;
	state->nqueued = 0;
	state->overdue = -1;
	planner->failed_is_tried |= planner->snapshot->databases[which].failed;
}

/*
 * No place is left: a database that is due, and has workers that have time, is
 * scanned by one of those.
 */
static void
request_scans(Planner *planner)
{
	for (int i = 0; i < planner->snapshot->view.n; i++)
	{
		PvQueueSummary *summary = &planner->summaries[i];
		PvDatabaseState *state = state_of_summary(planner, i);

		if (state == NULL || !is_due(state) || summary->nfree == 0)
			continue;
		add_action(planner, PV_ACTION_REQUEST_SCAN, summary->database, false, false);
		state->scan_pending = true;
		summary->nmovable = 0;	/* it is to end the scan first */
	}
}

/*
 * No place is left for a database that needs a worker: have one leave that can do
 * so soon, unless one does already.  A worker is taken for a database without any;
 * or for one that is due, whose workers have no time.
 */
static void
make_place(Planner *planner)
{
	const PvSnapshot *snapshot = planner->snapshot;
	PvWanting	wanting = {{{0}}};
	int			victim = -1;

	for (int i = 0; i < snapshot->ndatabases; i++)
	{
		const PvDatabaseState *state = &planner->states[i];

		if ((state->nworkers == 0 || is_due(state)) && may_have_worker(planner, i))
			pv_want(&wanting, state, snapshot->naptime);
	}
	for (int i = 0; i < snapshot->view.n; i++)
	{
		const PvQueueSummary *summary = &planner->summaries[i];
		const PvDatabaseState *state = state_of_summary(planner, i);

		if (summary->nleaving_soon > 0)
			return;
		if (summary->nmovable == 0 || state == NULL)
			continue;
		if ((victim < 0 || pv_gives_rather(state, state_of_summary(planner, victim))) &&
			pv_displaces(&wanting, state,
						 snapshot->now - planner->of_summary[i]->hired_at,
						 snapshot->naptime))
			victim = i;
	}
	if (victim >= 0)
		add_action(planner, PV_ACTION_ASK_TO_LEAVE, planner->summaries[victim].database,
				   false, false);
}

/*
 * No worker has time soon.  One that has been at a small table for too long gives it up:
 * the table's owner may have written functions that never end, and may have as many such
 * tables as there are workers.
 */
static void
end_longest(Planner *planner)
{
	const PvSnapshot *snapshot = planner->snapshot;
	const PvQueueSummary *longest = NULL;

	for (int i = 0; i < snapshot->view.n; i++)
	{
		const PvQueueSummary *summary = &planner->summaries[i];

		if (summary->nfree > 0 || summary->nleaving_soon > 0 || summary->nexpected > 0)
			return;
		if (summary->small_since != 0 &&
			(longest == NULL || summary->small_since < longest->small_since))
			longest = summary;
	}
	if (longest != NULL &&
		snapshot->now - longest->small_since > snapshot->longest_at_small)
		add_action(planner, PV_ACTION_CANCEL_LONGEST, longest->database, false, false);
}

/*
 * Make a plan.
 */
void
pv_plan(const PvSnapshot *snapshot, PvPlan *plan)
{
	int			allowed = pv_workers_allowed(snapshot->nworkers, snapshot->view.nlarge);
	int			nworkers = snapshot->view.nworkers;
	PvQueueSummary summaries[PV_MAX_QUEUES];
	const PvPlanDatabase *of_summary[PV_MAX_QUEUES];
	Planner		planner = {snapshot, plan, summaries, of_summary, NULL, false};
	int			which;

	plan->n = 0;
	plan->satisfied = true;
	memcpy(summaries, snapshot->view.summaries, sizeof(summaries));
	planner.states = palloc(Max(snapshot->ndatabases, 1) * sizeof(PvDatabaseState));
	describe_all(&planner);

	reduce_workers(&planner, allowed);
	while ((which = choose_database(&planner)) >= 0 && nworkers < allowed)
	{
		launch(&planner, which);
		nworkers++;
	}
	if (which >= 0)
	{
		bool		some_leave = plan->n > 0 &&
			plan->actions[0].kind == PV_ACTION_ASK_TO_LEAVE;

		request_scans(&planner);
		if (!some_leave)
		{
			make_place(&planner);
			end_longest(&planner);
		}
		plan->satisfied = false;
	}
	else if (planner.failed_is_tried)
		plan->satisfied = false;	/* others of that kind wait for it */
	pfree(planner.states);
}
