/*-------------------------------------------------------------------------
 *
 * pace.h
 *	  How fast automatic vacuums may be, by what clients feel of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PACE_H
#define PV_PACE_H

#include "datatype/timestamp.h"

/* What clients have spent, in microseconds of all together */
typedef struct PvClientTimes
{
	double		usecs;			/* for so long they were looked at */
	double		run;			/* computing */
	double		wait;			/* waiting for a processor, or in the server */
} PvClientTimes;

/* throttle/clients.c */
extern void pv_clients_begin(void);
extern void pv_clients_sample(void);
extern bool pv_clients_end(PvClientTimes *times);

/* The stretch of clients in some turns, as a logarithm */
typedef struct PvStretch
{
	double		n;				/* turns; those long ago count less */
	double		mean;
	double		squares;		/* sum of squared distances from the mean */
} PvStretch;

/* What limits the rate */
typedef enum PvPaceLimit
{
	PV_PACE_NOTHING,			/* vacuums do not use what they may */
	PV_PACE_RISING,				/* they do, and the rate rises */
	PV_PACE_HARM,				/* clients wait longer because of vacuums */
	PV_PACE_FLOOR,				/* they do, but the rate cannot fall */
	PV_PACE_BLIND,				/* nothing can be measured: the floor */
	PV_PACE_STANDBY,			/* a standby replays too late: the floor */
	PV_PACE_CHECKPOINT			/* a checkpoint would come too soon: the floor */
} PvPaceLimit;

/* The controller */
typedef struct PvPace
{
	double		rate;			/* cost units a second while vacuums work */
	double		floor;			/* the rate is not lower; set by the caller */
	bool		pauses;			/* the next turn may be a pause */
	int			nquiet;			/* turns in which clients did nothing, in a row */
	int			nblind[2];		/* turns of a kind without any measure, in a row */
	PvStretch	turn;			/* in parts of the turn of work at hand */
	PvStretch	working;
	PvStretch	paused;
	double		harm;			/* share by which clients take longer; NaN: not
								 * known */
	PvPaceLimit limit;
} PvPace;

/* throttle/pace.c */
extern void pv_pace_init(PvPace *pace, double floor);
extern bool pv_are_quiet(const PvClientTimes *clients);
extern void pv_pace_paused(PvPace *pace, const PvClientTimes *clients);
extern void pv_pace_working(PvPace *pace, const PvClientTimes *clients);
extern void pv_pace_worked(PvPace *pace, double used, PvPaceLimit later);
extern void pv_pace_blind(PvPace *pace, bool working);

/* throttle/wal.c */
extern void pv_wal_look(int64 now);
extern PvPaceLimit pv_wal_limit(int64 now);

/* throttle/pacer.c */
extern void pv_pacer_begin(void);
extern void pv_pacer_hurry(double haste);
extern void pv_pacer_wait(long timeout_ms);

/* What others may know of it */
typedef struct PvPaceShown
{
	bool		is_adaptive;	/* at this moment; the rest is valid then */
	double		floor;
	double		harm;
	PvPaceLimit limit;
	TimestampTz since;			/* ... it limits the rate, by our clock */
	int64		usecs;			/* since the start, with any limit but
								 * PV_PACE_NOTHING */
} PvPaceShown;

/* throttle/cost_scheduler.c */
extern void pv_cost_show_pace(const PvPace *pace, int64 usecs);
extern PvPaceShown pv_cost_pace_shown(void);

#endif							/* PV_PACE_H */
