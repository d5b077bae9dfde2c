/*-------------------------------------------------------------------------
 *
 * pvt_use_count.c
 *	  A SQL function that has two processes use a count (base/use_count.h) in
 *	  every order of their steps.
 *
 * A step is one operation on the atomic counter.  Before each step of one
 * process, the other one may come in and do all that it has to do.  No process
 * is needed for that: the operations are replaced by ones that count the steps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "pvt_steps.h"

PG_FUNCTION_INFO_V1(parvacuum_test_use_count);

/* The step before which the other process comes in, and what it does */
static int	steps_left;
static void (*other) (void);

static pg_atomic_uint32 count;

static void
step(void)
{
	void		(*comes) (void) = other;

	if (other == NULL || steps_left-- > 0)
		return;
	other = NULL;
	comes();
}

#include "base/use_count.h"

/* Who is in, and how often it was closed */
static int	inside;
static int	closed;

static void
enter(void)
{
	if (pv_use_count_enter(&count))
		inside++;
}

static void
leave(void)
{
	if (pv_use_count_leave(&count))
		closed++;
	inside--;
}

/*
 * One process does "first", and the other one "second" before the given step of
 * it, with "users" inside at the beginning.  Then all leave.  Returns whether
 * the other process came in before the end of the first, and raises an error
 * if the count was closed at another moment than that in which the last one
 * left.
 */
static bool
run(int users, void (*first) (void), void (*second) (void), int before)
{
	bool		came_in;

	pg_atomic_init_u32(&count, 0);
	other = NULL;
	inside = closed = 0;
	for (int i = 0; i < users; i++)
		enter();

	steps_left = before;
	other = second;
	first();
	came_in = other == NULL;
	other = NULL;

	if (closed != (inside == 0))
		elog(ERROR, "%d users, the other comes before step %d: %d are inside, and it was closed %d times",
			 users, before + 1, inside, closed);
	while (inside > 0)
		leave();
	if (closed != 1 || pv_use_count_enter(&count))
		elog(ERROR, "%d users, the other comes before step %d: it was closed %d times",
			 users, before + 1, closed);
	return came_in;
}

/*
 * parvacuum_test_use_count() returns int
 *
 * Returns the number of orders in which the steps were done.
 */
Datum
parvacuum_test_use_count(PG_FUNCTION_ARGS)
{
	int			orders = 0;

	for (int users = 1; users <= 3; users++)
	{
		for (int before = 0; run(users, leave, enter, before); before++)
			orders++;
		for (int before = 0; run(users, enter, leave, before); before++)
			orders++;
		for (int before = 0; users > 1 && run(users, leave, leave, before); before++)
			orders++;
	}
	PG_RETURN_INT32(orders);
}
