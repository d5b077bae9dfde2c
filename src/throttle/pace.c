/*-------------------------------------------------------------------------
 *
 * pace.c
 *	  How fast automatic vacuums may be, by what clients feel of them.
 *
 * A busy server that vacuums do not slow down is no reason to slow vacuums
 * down.  So they work and pause in turn, and only the difference counts.  The
 * stretch of clients is the time that they take, to run and to wait, as a
 * multiple of the time that they run.  It does not depend on how much clients
 * ask for.  Harm is the share by which it is larger while vacuums work.
 *
 * The stretch differs from turn to turn by far more than the harm that matters.
 * So the mean of its logarithm is compared, over as many turns as it takes.  A
 * turn of work counts by the mean of parts that are as long as a pause, since
 * the mean of a logarithm depends on how long each was measured.  The
 * rate is halved when harm is above the target beyond its standard error.  It
 * rises when the estimate is below, after a few turns.  Each change begins a
 * new comparison.  If the estimate is wrong, the rate rises a bit too far, and
 * harm that is larger shows the sooner.
 *
 * The rate never falls below the floor, which is what the fixed limits allow,
 * or more for a very old table.  What vacuums make others do later brings it
 * down to that (throttle/wal.c).  When clients do nothing nobody can be harmed,
 * and there are no pauses.
 *
 * This file knows nothing of processes and clocks.  The launcher runs it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "throttle/pace.h"

/* Harm that clients may feel: less than they feel of each other */
#define TARGET					0.05

/* By what the rate changes */
#define FALL					0.5
#define RISE					1.4

/* Turns without evidence of harm after which it rises */
#define LEAST_TURNS				3

/* What a pause still counts when the next one is added: some 15 of them do */
#define FADING					0.93

/* The least variance assumed, as a few turns may be alike by chance */
#define LEAST_VARIANCE			1e-4

/*
 * Share of the rate that must have been used for it to rise.  Below that share
 * of the floor pauses would only cost vacuums time.
 */
#define USED					0.8

/*
 * Turns in which clients do nothing, after which nobody can be harmed: clients
 * that do something every second or two are protected
 */
#define QUIET_TURNS				10

/* Turns without any measure after which the rate is the floor */
#define BLIND_TURNS				5

/*
 * Share of one processor below which clients do nothing, and the least that
 * they are taken to run if they mostly wait
 */
#define LEAST_SHARE				0.005

/* Begin at the floor, with nothing known of clients. */
void
pv_pace_init(PvPace *pace, double floor)
{
	memset(pace, 0, sizeof(*pace));
	pace->rate = pace->floor = floor;
	pace->pauses = true;
	pace->harm = NAN;
	pace->limit = PV_PACE_RISING;
}

/* Return the logarithm of the stretch of these clients. */
static double
stretch_of(const PvClientTimes *clients)
{
	double		run = Max(clients->run, clients->usecs * LEAST_SHARE);

	return log(1 + clients->wait / run);
}

/* Add the value of a turn, when those before count that much less. */
static void
add_turn(PvStretch *stretch, double value, double fading)
{
	double		distance = value - stretch->mean;

	stretch->n = stretch->n * fading + 1;
	stretch->mean += distance / stretch->n;
	stretch->squares = stretch->squares * fading +
		distance * (value - stretch->mean);
}

/* Do clients do nothing? */
bool
pv_are_quiet(const PvClientTimes *clients)
{
	return clients->run + clients->wait < clients->usecs * LEAST_SHARE;
}

/* Vacuums have paused for a turn. */
void
pv_pace_paused(PvPace *pace, const PvClientTimes *clients)
{
	pace->nblind[false] = 0;
	if (!pv_are_quiet(clients))
		add_turn(&pace->paused, stretch_of(clients), FADING);
}

/* Vacuums work, and this is a part of the turn, as long as a pause. */
void
pv_pace_working(PvPace *pace, const PvClientTimes *clients)
{
	if (!pv_are_quiet(clients))
		add_turn(&pace->turn, stretch_of(clients), 1);
}

/* Return the square of the standard error of the mean. */
static double
squared_error(const PvStretch *stretch)
{
	double		variance = stretch->squares / (stretch->n - 1);

	return Max(variance, LEAST_VARIANCE) / stretch->n;
}

/* Set the rate, and begin another comparison. */
static void
change_rate(PvPace *pace, double rate, PvPaceLimit limit)
{
	memset(&pace->working, 0, sizeof(PvStretch));
	pace->rate = Max(rate, pace->floor);
	pace->limit = limit;
	if (limit == PV_PACE_HARM && rate < pace->floor)
		pace->limit = PV_PACE_FLOOR;
}

/* Nobody is harmed: set the rate if vacuums use what they may. */
static void
rise(PvPace *pace, double used)
{
	if (used >= pace->rate * USED)
		change_rate(pace, pace->rate * RISE, PV_PACE_RISING);
	else
		pace->limit = PV_PACE_NOTHING;
}

/*
 * Vacuums have worked for a turn, of which at least one part was measured, and
 * used so many cost units a second.  Set the rate for the next turn.  later is
 * what they make others do later, if that is too much.
 */
void
pv_pace_worked(PvPace *pace, double used, PvPaceLimit later)
{
	PvStretch  *working = &pace->working;
	PvStretch  *paused = &pace->paused;
	bool		quiet = pace->turn.n == 0;
	double		value = pace->turn.mean;
	double		error;

	memset(&pace->turn, 0, sizeof(PvStretch));
	pace->nblind[true] = 0;
	pace->nquiet = quiet ? Min(pace->nquiet + 1, QUIET_TURNS) : 0;
	pace->pauses = pace->nquiet < QUIET_TURNS && used >= pace->floor * USED;
	if (!pace->pauses)
	{
		paused->n *= FADING;	/* what was felt in pauses grows old */
		paused->squares *= FADING;
		pace->harm = NAN;
	}
	if (used < pace->floor * USED)
	{
		pace->limit = PV_PACE_NOTHING;
		return;
	}
	if (later == PV_PACE_STANDBY || (later == PV_PACE_CHECKPOINT && !quiet))
	{
		change_rate(pace, pace->floor, later);
		pace->harm = NAN;
		return;
	}
	if (quiet)
	{
		if (pace->nquiet == QUIET_TURNS)
			rise(pace, used);
		return;
	}
	add_turn(working, value, 1);
	if (working->n < 2 || paused->n < 2)
		return;

	error = sqrt(squared_error(working) + squared_error(paused));
	pace->harm = exp(working->mean - paused->mean) - 1;
	if (pace->harm - error > TARGET)
		change_rate(pace, Min(pace->rate, used) * FALL, PV_PACE_HARM);
	else if (pace->harm < TARGET && working->n >= LEAST_TURNS)
		rise(pace, used);
}

/*
 * What clients feel in this turn is unknown: all who were looked at are gone,
 * or cannot be looked at.  If that goes on, it is back to the floor.
 */
void
pv_pace_blind(PvPace *pace, bool working)
{
	pace->nquiet = 0;
	if (++pace->nblind[working] < BLIND_TURNS)
		return;
	pv_pace_init(pace, pace->floor);
	pace->pauses = false;
	pace->limit = PV_PACE_BLIND;
	pace->nblind[working] = BLIND_TURNS;
}
