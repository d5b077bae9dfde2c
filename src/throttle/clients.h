/*-------------------------------------------------------------------------
 *
 * clients.h
 *	  How long the server makes clients wait.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CLIENTS_H
#define PV_CLIENTS_H

/* What clients have spent, in microseconds of all together */
typedef struct PvClientTimes
{
	double		usecs;			/* for so long they were looked at */
	double		run;			/* computing */
	double		wait;			/* waiting for a processor, or in the server */
} PvClientTimes;

extern void pv_clients_begin(void);
extern void pv_clients_sample(void);
extern bool pv_clients_end(PvClientTimes *times);

#endif							/* PV_CLIENTS_H */
