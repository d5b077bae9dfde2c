/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  What the launcher is to do now.
 *
 * The launcher takes a snapshot of its databases and of the queue, and makes a
 * plan from it: a list of actions, in the order in which they are to be
 * carried out.  The rules are in sched/policy.c.
 *
 *		a database with workers is due		one of them is to scan it
 *		a database needs a worker			one is started, for the first first
 *		no more workers are allowed			one leaves its database for a table in
 *											danger of wraparound
 *
 * A database gets one worker at a time.  If it needs more, it still does when
 * the launcher plans again, a moment later.
 *
 * A plan is a function of its snapshot.  It asks no clock and no other
 * process, and changes nothing.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/plan.h"

/*
 * A database that has a worker gets another one when its queue has lasted for
 * so many microseconds
 */
#define ANOTHER_WORKER_AFTER	INT64CONST(200000)

/*
 * Of workers that are started where databases are due for scans and others
 * have tables queued, one in so many and one goes to the latter
 */
#define SCANS_IN_TURN			10

/* A database that needs a worker */
typedef struct Need
{
	int			which;
	const PvPlanDatabase *database;
	bool		danger;			/* it has a table in danger of wraparound */
	bool		large;			/* the worker gets a place at large tables */
	TimestampTz to_scan;		/* it should have been scanned since then;
								 * PV_NEVER: it need not be */
} Need;

static bool
is_due(const PvSnapshot *snapshot, const PvPlanDatabase *database)
{
	return (database->counted || database->age > 1) && !database->scanning &&
		snapshot->now >= database->due;
}

static bool
describe_need(const PvSnapshot *snapshot, int which, Need *need)
{
	const PvPlanDatabase *database = &snapshot->databases[which];

	need->which = which;
	need->database = database;
	need->large = false;
	need->danger = database->has_first && database->first.danger;
	need->to_scan = database->scan_requested;
	if (need->to_scan == PV_NEVER && database->nworkers == 0 &&
		is_due(snapshot, database))
		need->to_scan = database->due;
	if (!database->has_queue && snapshot->full)
		return false;
	if (database->nworkers > 0 &&
		snapshot->now - database->started_at < ANOTHER_WORKER_AFTER)
		return false;
	return !database->expected && snapshot->now >= database->not_before &&
		(need->to_scan != PV_NEVER || database->has_first);
}

/*
 * Which database gets a worker first: one with a table in danger, one that is
 * to be scanned, and among these one of a dangerous age, one whose first table
 * goes first.
 */
static int
compare_needs(const void *a, const void *b)
{
	const Need *x = a;
	const Need *y = b;
	bool		x_scan = !x->danger && x->to_scan != PV_NEVER;
	bool		y_scan = !y->danger && y->to_scan != PV_NEVER;
	int			order;

	if (x->danger != y->danger)
		return x->danger ? -1 : 1;
	if (x_scan != y_scan)
		return x_scan ? -1 : 1;
	if (x_scan)
	{
		bool		x_old = x->database->age > 1;
		bool		y_old = y->database->age > 1;

		if (x_old != y_old)
			return x_old ? -1 : 1;
		order = x->to_scan < y->to_scan ? 1 : x->to_scan > y->to_scan ? -1 : 0;
	}
	else
		order = pv_compare_order(&x->database->first, &y->database->first);
	return order != 0 ? -order : x->which - y->which;
}

static void
add_action(PvPlan *plan, PvActionKind kind, int which)
{
	plan->actions[plan->n++] = (PvAction)
	{
		kind, which, false
	};
}

/*
 * Marks the needs whose workers get a place at large tables: the first large
 * tables of all databases, whichever of these gets its worker first.
 */
static void
give_places(Need *needs, int n, int nplaces)
{
	for (int place = 0; place < nplaces; place++)
	{
		Need	   *first = NULL;

		for (int i = 0; i < n; i++)
		{
			Need	   *need = &needs[i];

			if (need->database->has_first && need->database->first_is_large &&
				!need->large && !need->database->failed &&
				(first == NULL ||
				 pv_compare_order(&need->database->first,
								  &first->database->first) > 0))
				first = need;
		}
		if (first == NULL)
			break;
		first->large = true;
	}
}

/* The need whose first table goes first of all, or the first one. */
static int
first_by_table(const Need *needs, int n)
{
	int			first = 0;

	for (int i = 1; i < n; i++)
	{
		if (needs[i].database->has_first &&
			(!needs[first].database->has_first ||
			 pv_compare_order(&needs[i].database->first,
							  &needs[first].database->first) > 0))
			first = i;
	}
	return first;
}

/*
 * Launches a worker for one of the needs, and removes that.  It is the first
 * one, but after some scans that where a table goes first.  Otherwise very many
 * databases, or long scans, would keep all workers from these tables.
 */
static void
launch(PvPlan *plan, Need *needs, int *n)
{
	bool		in_turn = plan->nscans >= SCANS_IN_TURN && !needs[0].danger;
	int			chosen = in_turn ? first_by_table(needs, *n) : 0;
	bool		to_scan = needs[chosen].to_scan != PV_NEVER &&
		!(in_turn && needs[chosen].database->has_first);

	add_action(plan, to_scan ? PV_ACTION_LAUNCH_TO_SCAN : PV_ACTION_LAUNCH,
			   needs[chosen].which);
	plan->actions[plan->n - 1].large = needs[chosen].large;
	if (!needs[chosen].danger)
		plan->nscans = to_scan ? plan->nscans + 1 : 0;
	memmove(&needs[chosen], &needs[chosen + 1],
			(--(*n) - chosen) * sizeof(Need));
}

/*
 * Workers may be kept from a database for long, for instance by a session that
 * holds the lock of a database of its own.  One worker at a time tries the
 * databases that have failed, so that they take one place from the others,
 * however many they are.  Returns the number of needs that are left.
 */
static int
leave_out_failed(Need *needs, int n, bool failed_is_tried)
{
	int			left = 0;

	for (int i = 0; i < n; i++)
	{
		if (needs[i].database->failed && failed_is_tried)
			continue;
		failed_is_tried |= needs[i].database->failed;
		needs[left++] = needs[i];
	}
	return left;
}

void
pv_plan(const PvSnapshot *snapshot, PvPlan *plan)
{
	Need	   *needs = palloc(Max(snapshot->n, 1) * sizeof(Need));
	int			nfree = snapshot->nfree;
	bool		failed_is_tried = false;
	int			n = 0;

	plan->n = 0;
	plan->actions = palloc((2 * snapshot->n + 1) * sizeof(PvAction));
	for (int i = 0; i < snapshot->n; i++)
	{
		const PvPlanDatabase *database = &snapshot->databases[i];

		if (database->nworkers > 0 && database->scan_requested == PV_NEVER &&
			is_due(snapshot, database))
			add_action(plan, PV_ACTION_REQUEST_SCAN, i);
		failed_is_tried |= database->failed && database->expected;
		n += describe_need(snapshot, i, &needs[n]);
	}
	qsort(needs, n, sizeof(Need), compare_needs);
	n = leave_out_failed(needs, n, failed_is_tried);
	give_places(needs, n, snapshot->nlarge);
	plan->nscans = snapshot->nscans;
	while (n > 0 && nfree-- > 0)
		launch(plan, needs, &n);
	for (int i = 0; i < n && needs[i].danger; i++)
	{
		/* a worker of the database itself takes the table next */
		if (needs[i].database->nworkers > 0)
			continue;
		add_action(plan, PV_ACTION_CALL_BACK, needs[i].which);
		break;
	}
	pfree(needs);
}
