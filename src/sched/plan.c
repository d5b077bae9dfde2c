/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  What the launcher is to do now.
 *
 * The launcher takes a snapshot of its databases and of the queues, and makes
 * a plan from it: a list of actions, in the order in which they are to be
 * carried out.
 *
 *	too many workers		the databases with the most workers have one leave
 *							each
 *	a database needs one	launch, the highest rank first; of the databases
 *							that workers cannot connect to, one at a time
 *	no more are allowed		each database that is due is scanned by a worker
 *							that it has; and one worker is asked to leave its
 *							database if another database displaces it
 *
 * The number of workers is limited by the setting, and where the server has no
 * slot for another process, by that of workers there are.  In the second case
 * the launcher learns of it when it starts one, and plans again.
 *
 * A plan is a function of its snapshot.  It asks no clock and no other
 * process, and changes nothing; the unit tests drive it with snapshots of
 * their own.  It takes O(n log n) time for n databases.
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
 * A database that has a worker gets another one after this time, in
 * microseconds, if there still is something in its queue, twice as long for
 * the next, and so on, up to the longest.  A process costs little to start
 * compared to the time the queue has lasted by then.
 */
#define ANOTHER_WORKER_AFTER	INT64CONST(200000)
#define LONGEST_RAMP			INT64CONST(1000000)

/*
 * Microseconds until the next plan: at the least, and if a database needs a
 * worker and can have none.
 */
#define LOOK_AGAIN				INT64CONST(200000)
#define LOOK_FOR_WORKER			(PV_LOOK_FOR_WORKER_MS * INT64CONST(1000))

/* What is known of the databases while the plan is made */
typedef struct Planner
{
	const PvSnapshot *snapshot;
	PvPlan	   *plan;
	PvQueueSummary summaries[PV_MAX_QUEUES];	/* as the actions so far leave
												 * them */
	const PvPlanDatabase *of_summary[PV_MAX_QUEUES];	/* NULL: a database that
														 * the launcher does not
														 * know yet */
	PvDatabaseState *states;	/* of the databases, as the actions leave them */
	bool		failed_is_tried;	/* a worker is on its way to one that
									 * failed */
} Planner;

static void
add_action(Planner *planner, PvActionKind kind, Oid database)
{
	PvPlan	   *plan = planner->plan;
	PvAction   *action = &plan->actions[plan->n++];

	Assert(plan->n <= PV_MAX_ACTIONS);
	action->kind = kind;
	action->database = database;
	action->to_scan = action->takes_queue = false;
}


/* ----------------------------------------------------------------
 *		The databases
 * ----------------------------------------------------------------
 */

/* Microseconds between two workers of a database. */
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
 * What the policy needs to know of a database; summary is NULL if it has no
 * queue.
 *
 * While a worker is expected no other is started, because what the first one
 * waits for before it attaches, the other would wait for as well.  Where other
 * databases have all queues, a database without one waits until a queue is
 * free, or until it may take one.
 */
static void
describe(const PvSnapshot *snapshot, const PvPlanDatabase *database,
		 const PvQueueSummary *summary, PvDatabaseState *state)
{
	const PvQueueView *view = &snapshot->view;
	bool		must_wait = snapshot->now < database->not_before;

	memset(state, 0, sizeof(*state));
	state->age = database->age;
	state->overdue = PV_NOT_DUE;
	if (database->counted || database->age > 1)
		state->overdue = snapshot->now - database->due;
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
		must_wait |= view->full &&
			(view->none_to_take || !pv_takes_queue(state));

	/*
	 * one more beside others when the queue has lasted for a while, not at
	 * once
	 */
	if (state->nworkers > 0 &&
		snapshot->now < database->hired_at + ramp(state->nworkers))
		state->nqueued = 0;
	if (must_wait)
	{
		state->nqueued = 0;
		state->overdue = PV_NOT_DUE;
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
		const PvQueueSummary *summary = &planner->summaries[i];
		const PvPlanDatabase *database = find_database(snapshot,
													   summary->database);

		planner->of_summary[i] = database;
		if (database == NULL)
			continue;
		if (database->failed && summary->nexpected > 0)
			planner->failed_is_tried = true;
		describe(snapshot, database, summary,
				 &planner->states[database - databases]);
	}
}

static PvDatabaseState *
state_of_summary(const Planner *planner, int i)
{
	const PvPlanDatabase *database = planner->of_summary[i];

	return database ?
		&planner->states[database - planner->snapshot->databases] : NULL;
}

static bool
is_due(const PvDatabaseState *state)
{
	return state->overdue >= 0 && !state->scan_pending;
}

/*
 * May the database have a worker now?  Workers may be kept from some databases
 * for long, for instance by a session that holds the lock of a database of its
 * own.  One worker at a time tries those, so that they take one slot from the
 * others, however many they are.
 */
static bool
may_have_worker(const Planner *planner, int which)
{
	return !(planner->failed_is_tried &&
			 planner->snapshot->databases[which].failed);
}


/* ----------------------------------------------------------------
 *		Too many workers
 * ----------------------------------------------------------------
 */

/*
 * Has the database with the most workers that stay give one up.  False if no
 * worker stays.
 */
static bool
ask_one_to_leave(Planner *planner)
{
	PvQueueSummary *most = NULL;

	for (int i = 0; i < planner->snapshot->view.n; i++)
	{
		PvQueueSummary *summary = &planner->summaries[i];

		if (most == NULL ||
			summary->nworkers - summary->nleaving >
			most->nworkers - most->nleaving)
			most = summary;
	}
	if (most == NULL || most->nworkers <= most->nleaving)
		return false;
	add_action(planner, PV_ACTION_ASK_TO_LEAVE, most->database);
	most->nleaving++;
	return true;
}

/*
 * There are more workers than are allowed, because the setting was lowered or
 * large tables are done.
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


/* ----------------------------------------------------------------
 *		A database needs a worker
 * ----------------------------------------------------------------
 */

/* A database that needs a worker */
typedef struct Ranked
{
	double		rank;
	int			which;
} Ranked;

/* The highest rank first; among equals in the order of the OIDs. */
static int
compare_ranked(const void *a, const void *b)
{
	const Ranked *x = a;
	const Ranked *y = b;

	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	return x->which < y->which ? -1 : x->which > y->which;
}

/* Until the worker has attached the database needs no other one. */
static void
launch(Planner *planner, int which)
{
	const PvPlanDatabase *database = &planner->snapshot->databases[which];
	PvDatabaseState *state = &planner->states[which];
	PvAction   *action;

	add_action(planner, PV_ACTION_LAUNCH, database->oid);
	action = &planner->plan->actions[planner->plan->n - 1];
	action->to_scan = is_due(state);
	action->takes_queue = pv_takes_queue(state);
	state->nworkers++;
	state->nqueued = 0;
	state->overdue = PV_NOT_DUE;
	planner->failed_is_tried |= database->failed;
}

/*
 * Launches up to that number of workers, one for each database that needs
 * one.  Returns whether a database is left that needs one and may have it.
 */
static bool
launch_workers(Planner *planner, int nfree)
{
	const PvSnapshot *snapshot = planner->snapshot;
	Ranked	   *ranked = palloc(Max(snapshot->ndatabases, 1) * sizeof(Ranked));
	bool		some_left = false;
	int			n = 0;

	for (int i = 0; i < snapshot->ndatabases; i++)
	{
		double		rank = pv_rank_database(&planner->states[i]);

		if (rank >= 0)
			ranked[n++] = (Ranked)
		{
			rank, i
		};
	}
	qsort(ranked, n, sizeof(Ranked), compare_ranked);
	for (int i = 0; i < n && !some_left; i++)
	{
		if (!may_have_worker(planner, ranked[i].which))
			continue;
		some_left = nfree-- <= 0;
		if (!some_left)
			launch(planner, ranked[i].which);
	}
	pfree(ranked);
	return some_left;
}


/* ----------------------------------------------------------------
 *		No more workers are allowed
 * ----------------------------------------------------------------
 */

/*
 * Each database that is due is scanned by a worker that has time, if it has
 * one.
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
		add_action(planner, PV_ACTION_REQUEST_SCAN, summary->database);
		state->scan_pending = true;
		summary->nmovable = 0;	/* they are to end the scan first */
	}
}

/*
 * Has one worker leave that can do so soon, unless one does already.  It is
 * taken for a database without workers; or for one that is due, and whose
 * workers have no time.
 */
static void
make_room(Planner *planner)
{
	const PvSnapshot *snapshot = planner->snapshot;
	const PvPlanDatabase *victim = NULL;
	const PvDatabaseState *state_of_victim = NULL;
	PvWanting	wanting = {{{0}}};

	for (int i = 0; i < snapshot->ndatabases; i++)
	{
		const PvDatabaseState *state = &planner->states[i];

		if ((state->nworkers == 0 || is_due(state)) &&
			may_have_worker(planner, i))
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
		if ((victim == NULL || pv_gives_rather(state, state_of_victim)) &&
			pv_displaces(&wanting, state,
						 snapshot->now - planner->of_summary[i]->hired_at,
						 snapshot->naptime))
		{
			victim = planner->of_summary[i];
			state_of_victim = state;
		}
	}
	if (victim != NULL)
		add_action(planner, PV_ACTION_ASK_TO_LEAVE, victim->oid);
}


/* ----------------------------------------------------------------
 *		The plan
 * ----------------------------------------------------------------
 */

void
pv_plan(const PvSnapshot *snapshot, PvPlan *plan)
{
	int			nworkers = snapshot->view.nworkers;
	int			allowed = pv_workers_allowed(snapshot->nworkers,
											 snapshot->view.nlarge);
	Planner		planner = {
		.snapshot = snapshot,
		.plan = plan
	};
	bool		some_leave;

	if (snapshot->no_process)
		allowed = Min(allowed, nworkers);
	plan->n = 0;
	memcpy(planner.summaries, snapshot->view.summaries,
		   snapshot->view.n * sizeof(PvQueueSummary));
	planner.states =
		palloc(Max(snapshot->ndatabases, 1) * sizeof(PvDatabaseState));
	describe_all(&planner);

	reduce_workers(&planner, allowed);
	some_leave = plan->n > 0;
	if (launch_workers(&planner, allowed - nworkers))
	{
		request_scans(&planner);
		if (!some_leave)
			make_room(&planner);
		plan->satisfied = false;
	}
	else						/* others of that kind may wait for one that
								 * is tried */
		plan->satisfied = !planner.failed_is_tried;
	pfree(planner.states);
}

/*-
 * The time of the launcher's next plan, if the launcher is not woken before.
 * The databases are as the actions have left them.  The time is at most a
 * naptime from now, and earlier
 *
 *		for a database that is due before
 *		while another worker could begin with something
 *		while a worker is expected
 *
 * but not before the moment from which another worker can be started.
 */
TimestampTz
pv_plan_next(const PvOutcome *outcome, TimestampTz now, int64 naptime,
			 const PvPlanDatabase *databases, int ndatabases)
{
	TimestampTz soon =
		now + (outcome->satisfied ? LOOK_AGAIN : LOOK_FOR_WORKER);
	TimestampTz next = now + naptime;

	for (int i = 0; i < ndatabases; i++)
	{
		if (databases[i].counted || databases[i].age > 1)
			next = Min(next, Max(databases[i].due, soon));
	}
	if (outcome->busy)
		next = Min(next, soon);
	if (outcome->expected)
		next = Min(next, now + LOOK_FOR_WORKER);
	return next;
}
