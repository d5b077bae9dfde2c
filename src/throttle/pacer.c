/*-------------------------------------------------------------------------
 *
 * pacer.c
 *	  The launcher paces automatic vacuums while it waits.
 *
 * With parvacuum.pace = adaptive, as long as there are scheduler workers or an
 * autovacuum worker leads, the launcher looks at clients every few
 * milliseconds.  It lets vacuums work and pause in turn, and sets their rate
 * (throttle/pace.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "throttle/cost.h"
#include "throttle/pace.h"

/* Milliseconds between two looks at the waits of clients */
#define LOOK_MS					2

/* For how long vacuums work and pause, in microseconds */
#define WORK_USECS				130000
#define PAUSE_USECS				50000

/* After a change processes may still be at their last page */
#define SETTLE_USECS			10000

/* Each part that is measured: one of a pause, and three of a turn of work */
#define PART_USECS \
	(PAUSE_USECS - SETTLE_USECS - 2 * LOOK_MS * 1000)

/* The least share of the way to the failsafe that counts as not gone yet */
#define LEAST_REST				1e-3

static PvPace pace;
static double haste = 0;

static struct
{
	bool		is_on;
	bool		working;
	bool		settled;		/* what happens is measured */
	bool		measured;		/* at least one part was */
	bool		lost;			/* at least one could not be */
	int64		since;			/* of this turn */
	int64		part_since;		/* of the part at hand */
	int64		settled_since;
	int64		units;			/* then */
}			turn;

static bool
is_wanted(void)
{
	return pv_guc_pace == PV_PACE_ADAPTIVE && pv_cost_has_workers() &&
		pv_cost_fixed_rate() > 0;
}

static void
begin_turn(bool working, int64 now)
{
	turn.working = working;
	turn.settled = turn.measured = turn.lost = false;
	turn.since = now;
	if (!working)
		pv_cost_pause(now + PAUSE_USECS);
}

/*
 * Set how much of the way from the age that is dangerous to that of the
 * failsafe a table at work has gone.  The lowest rate follows: half way it is
 * twice the fixed one, after nine tenths ten times, and a thousand times in the
 * end.
 */
void
pv_pacer_hurry(double of_way)
{
	haste = of_way;
}

/*
 * Return the rate of turns of work below which vacuums would do less than they
 * must, pauses included.
 */
static double
lowest_rate(void)
{
	return pv_cost_fixed_rate() / Max(1 - haste, LEAST_REST) *
		(pace.pauses ? (double) (WORK_USECS + PAUSE_USECS) / WORK_USECS : 1);
}

/* A part is over.  It is lost if vacuums may have gone on after a pause. */
static void
end_part(int64 now)
{
	PvClientTimes clients;

	if (!pv_clients_end(&clients) ||
		(!turn.working && now - turn.since >= PAUSE_USECS + SETTLE_USECS))
	{
		turn.lost = true;
		return;
	}
	turn.measured = true;
	if (turn.working)
		pv_pace_working(&pace, &clients);
	else
		pv_pace_paused(&pace, &clients);
}

/* Act by what was measured in this turn. */
static void
end_turn(int64 now)
{
	double		used = (pv_cost_units() - turn.units) * 1e6 /
		(now - turn.settled_since);

	pace.floor = lowest_rate();
	pv_wal_look(now);
	if (!turn.measured || (turn.lost && pace.turn.n == 0))
		pv_pace_blind(&pace, turn.working);
	else if (turn.working)
		pv_pace_worked(&pace, used, pv_wal_limit(now));
	pace.rate = Max(pace.rate, pace.floor);
	pv_cost_set_rate((int64) pace.rate);
	pv_cost_show_pace(&pace, now - turn.since);
}

/* Look at clients, and begin another turn when this one is over. */
static void
look(int64 now)
{
	int64		in_turn = now - turn.since;

	if (!turn.settled && in_turn >= SETTLE_USECS)
	{
		turn.settled = true;
		turn.settled_since = turn.part_since = now;
		turn.units = pv_cost_units();
		pv_clients_begin();
	}
	else if (turn.settled)
	{
		pv_clients_sample();
		if (now - turn.part_since >= PART_USECS &&
			(turn.working || !(turn.measured || turn.lost)))
		{
			end_part(now);
			turn.part_since = now;
			if (turn.working)
				pv_clients_begin();
		}
	}
	if (in_turn < (turn.working ? WORK_USECS : PAUSE_USECS))
		return;
	if (turn.settled && now > turn.settled_since)
		end_turn(now);
	begin_turn(!turn.working || !pace.pauses, pv_usecs_of_machine());
}

/* Switch to the adaptive pace, or back to the fixed one. */
static void
switch_pace(bool adaptive, int64 now)
{
	turn.is_on = adaptive;
	if (adaptive)
	{
		pv_pace_init(&pace, lowest_rate());
		pv_cost_show_pace(&pace, 0);
		begin_turn(true, now);
	}
	else
	{
		pv_cost_set_rate(pv_cost_fixed_rate());
		pv_cost_show_pace(NULL, 0);
	}
}

static void
leave_at_exit(int code, Datum arg)
{
	switch_pace(false, 0);
}

/* Launcher: begin with the fixed pace, and leave it at the end. */
void
pv_pacer_begin(void)
{
	switch_pace(false, 0);
	before_shmem_exit(leave_at_exit, 0);
}

/*
 * Launcher: wait for the latch or until the time is over, -1 for never.  This
 * returns early if the pace is to be fixed again.
 */
void
pv_pacer_wait(long timeout_ms)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
	int64		end = pv_usecs_of_machine() + timeout_ms * 1000;
	int			event;

	pv_wal_look(pv_usecs_of_machine());
	if (is_wanted() != turn.is_on)
		switch_pace(!turn.is_on, pv_usecs_of_machine());
	if (!turn.is_on)
	{
		(void) WaitLatch(MyLatch, events | (timeout_ms >= 0 ? WL_TIMEOUT : 0),
						 timeout_ms, pv_wait_event[PV_EVENT_LAUNCHER]);
		return;
	}

	do
	{
		event = WaitLatch(MyLatch, events | WL_TIMEOUT, LOOK_MS,
						  pv_wait_event[PV_EVENT_LAUNCHER]);
		look(pv_usecs_of_machine());
	} while (!(event & WL_LATCH_SET) && is_wanted() &&
			 (timeout_ms < 0 || pv_usecs_of_machine() < end));
}
