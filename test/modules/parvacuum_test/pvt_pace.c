/*-------------------------------------------------------------------------
 *
 * pvt_pace.c
 *	  The controller of the pace on a simulated machine.
 *
 * Clients take longer the faster vacuums are: by the controller's target at a
 * rate that is given for each part of the simulation, and by the square of the
 * rate otherwise.  What is measured in a turn differs from that at random.
 * A standby replays so much of it a second, and the rest later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

#include "throttle/pace.h"

PG_FUNCTION_INFO_V1(parvacuum_test_pace);
PG_FUNCTION_INFO_V1(parvacuum_test_wait);

#define TARGET		0.05

/* Seconds of each part that is measured, three in a turn of work, and of all */
#define PART		0.04
#define NPARTS		3
#define BOTH		0.18

/* A random number with the mean 0 and the deviation 1 */
static double
deviate(pg_prng_state *state)
{
	double		sum = 0;

	for (int i = 0; i < 12; i++)
		sum += pg_prng_double(state);
	return sum - 6;
}

static PvClientTimes
times(double run, double stretch, double noise, pg_prng_state *state)
{
	PvClientTimes result;

	result.usecs = PART * 1e6;
	result.run = run * PART;
	stretch *= exp(noise * deviate(state) * sqrt(NPARTS));
	result.wait = result.run * Max(stretch - 1, 0);
	return result;
}

/* Wait for so many microseconds as if for a page that is read. */
Datum
parvacuum_test_wait(PG_FUNCTION_ARGS)
{
	pgstat_report_wait_start(PG_WAIT_IO);
	pg_usleep(PG_GETARG_INT32(0));
	pgstat_report_wait_end();
	PG_RETURN_VOID();
}

/*
 * The floor, the rate at which the machine works without limit, for each part
 * of the simulation the rate at which harm is at the target (0: no clients,
 * negative: nothing can be measured), the noise, the seconds of each part, the
 * seed, of clients the microseconds a second that they run and their stretch,
 * and what a standby can replay in a second (0: there is none), of which the lag
 * must not be longer than 10 seconds.  Returns a row for each second.
 */
Datum
parvacuum_test_pace(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	double		floor = PG_GETARG_FLOAT8(0);
	double		fastest = PG_GETARG_FLOAT8(1);
	double		noise = PG_GETARG_FLOAT8(3);
	int			seconds = PG_GETARG_INT32(4);
	double		run = PG_GETARG_FLOAT8(6);
	double		stretch = PG_GETARG_FLOAT8(7);
	double		replay = PG_GETARG_FLOAT8(8);
	double		lag = 0;
	double		t = 0;
	pg_prng_state state;
	PvPace		pace;
	Datum	   *parts;
	int			nparts;

	InitMaterializedSRF(fcinfo, 0);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), FLOAT8OID, 8,
					  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &parts, NULL, &nparts);
	pg_prng_seed(&state, PG_GETARG_INT32(5));
	pv_pace_init(&pace, floor);
	for (int i = 0; i < nparts * seconds; i++)
	{
		double		place = DatumGetFloat8(parts[i / seconds]);
		double		sum = 0;
		double		harm = 0;
		int			n = 0;
		Datum		values[7];
		bool		nulls[7] = {0};

		for (; t < i + 1; t += BOTH)
		{
			double		used = Min(pace.rate, fastest);
			double		truth = place <= 0 ? 0 :
				TARGET * (used / place) * (used / place);
			PvPaceLimit later = lag > 10 ? PV_PACE_STANDBY : PV_PACE_NOTHING;
			PvClientTimes clients;

			n++;
			sum += used;
			harm += truth;
			if (replay > 0)
				lag = Max(lag + (used / replay - 1) * BOTH, 0);
			if (place < 0)
			{
				pv_pace_blind(&pace, true);
				pv_pace_blind(&pace, false);
				continue;
			}
			for (int part = 0; part < NPARTS; part++)
			{
				clients = times(run, stretch * (1 + truth), noise, &state);
				if (place == 0)
					clients.run = clients.wait = 0;
				pv_pace_working(&pace, &clients);
			}
			pv_pace_worked(&pace, used, later);
			clients = times(run, stretch, noise, &state);
			if (pace.pauses)
				pv_pace_paused(&pace, &clients);
		}
		values[0] = Int32GetDatum(i + 1);
		values[1] = Int32GetDatum(i / seconds + 1);
		values[2] = Float8GetDatum(sum / n);
		values[3] = Float8GetDatum(harm / n);
		values[4] = Int32GetDatum(pace.limit);
		values[5] = BoolGetDatum(!isnan(pace.harm));
		values[6] = Float8GetDatum(lag);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
