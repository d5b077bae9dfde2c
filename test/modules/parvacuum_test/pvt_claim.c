/*-------------------------------------------------------------------------
 *
 * pvt_claim.c
 *	  A SQL function that has several processes claim ranges (engine/claim.h)
 *	  in every order of their steps.
 *
 * A step is one operation on an atomic counter.  Before each step of a process
 * another one may come in and do all that it has to do: claim a range, or move
 * the end.  Between the steps of that one a third process may come in, and so
 * on.  No process is needed for that: the operations are replaced by ones that
 * choose who comes in.  All sequences of choices are tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "pvt_steps.h"

PG_FUNCTION_INFO_V1(parvacuum_test_claim);

/* How often others may come in, and how many units there may be */
#define MAX_GUESTS	3
#define MAX_UNITS	64

/* Steps that others may come in before, in one order */
#define MAX_CHOICES 1024

/* Who comes in before each step: the order that is tried now */
static int	choice[MAX_CHOICES];
static int	nchoices;			/* fixed ones, of which the last is tried */
static int	position;			/* the next step */
static int	guests;				/* how many have come in */

static void come_in(int who);

static void
step(void)
{
	int			who;

	if (guests == MAX_GUESTS)
		return;
	if (position == MAX_CHOICES)
		elog(ERROR, "a process does not come to an end");
	if (position == nchoices)
		choice[nchoices++] = 0;
	who = choice[position++];
	if (who > 0)
	{
		guests++;
		come_in(who);
	}
}

#include "engine/claim.h"

/* What guests do, by their number */
enum
{
	NOBODY, CLAIMER, EXTENDER, WHOS
};

static PvDispenseShared dispenser;
static uint32 extended;			/* the end that an extender asks for */
static uint32 last_end;			/* the latest end so far */
static int	owners[MAX_UNITS];	/* of each unit */

static bool
claim(void)
{
	uint32		start,
				end;

	if (!pv_dispense_claim(&dispenser, &start, &end))
		return false;
	if (start >= end || end > last_end || end - start > dispenser.max_range ||
		((end - start) % dispenser.granule != 0 && end != last_end &&
		 extended == 0))
		elog(ERROR, "the range from %u to %u of %u units was claimed", start, end,
			 last_end);
	for (uint32 unit = start; unit < end; unit++)
	{
		if (owners[unit]++ > 0)
			elog(ERROR, "unit %u was claimed twice", unit);
	}
	return true;
}

static void
extend(void)
{
	last_end = Max(last_end, extended);
	pv_dispense_extend(&dispenser, extended);
}

static void
come_in(int who)
{
	if (who == CLAIMER)
		claim();
	else
		extend();
}

/*
 * One process claims all there is, while others come in by the order that is
 * to be tried.  Then each unit must have been claimed once.
 */
static void
run(uint32 start, uint32 end, uint32 granule, int participants)
{
	position = 0;
	guests = MAX_GUESTS;		/* none while it is initialized */
	last_end = end;
	memset(owners, 0, sizeof(owners));
	pv_dispense_init(&dispenser, start, end, granule, 2 * granule,
					 participants);
	guests = 0;

	while (claim())
		 /* go on */ ;
	guests = MAX_GUESTS;
	while (claim())
		 /* the end has moved after the last claim */ ;
	for (uint32 unit = 0; unit < MAX_UNITS; unit++)
	{
		if (owners[unit] != (unit >= start && unit < last_end))
			elog(ERROR, "unit %u of %u to %u was claimed %d times", unit, start,
				 last_end, owners[unit]);
	}
}

/*
 * Go to the next order.  Returns false if all have been tried.
 */
static bool
next_order(int whos)
{
	nchoices = position;
	while (nchoices > 0 && choice[nchoices - 1] == whos - 1)
		nchoices--;
	if (nchoices == 0)
		return false;
	choice[nchoices - 1]++;
	return true;
}

/*
 * parvacuum_test_claim() returns int
 *
 * Returns the number of orders in which the steps were done.
 */
Datum
parvacuum_test_claim(PG_FUNCTION_ARGS)
{
	int			orders = 0;

	for (uint32 start = 0; start <= 1; start++)
	{
		for (uint32 granule = 1; granule <= 3; granule++)
		{
			for (extended = 0; extended <= 9; extended += 9)
			{
				nchoices = 0;
				do
				{
					run(start, 7, granule, 1 + granule % 2);
					orders++;
				} while (next_order(extended > 0 ? WHOS : EXTENDER));
			}
		}
	}
	PG_RETURN_INT32(orders);
}
