/*-------------------------------------------------------------------------
 *
 * cost_state.h
 *	  What the files of cost-based delay share.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COST_STATE_H
#define PV_COST_STATE_H

#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/spin.h"

#include "base/reload.h"

/* What cost-based delay allows the processes of one vacuum */
typedef struct PvCostBudget
{
	double		delay;			/* milliseconds; 0: no throttling */
	int			limit;			/* cost units per delay, of one process */
	double		scale;			/* what each further process adds: 0 nothing,
								 * 1 as much again */
} PvCostBudget;

/* In the memory that the participants of one vacuum, or sweep, share */
typedef struct PvCostShared
{
	/* Protected by the mutex; only the leader writes */
	slock_t		mutex;
	PvCostBudget budget;
	uint32		nreloads;		/* reloads since the vacuum began */
	PvSettings	settings;		/* the settings after the last one */

	/* Written by the leader before the first phase */
	int			nparticipants;	/* the leader and the workers launched */
	bool		on_balance;		/* the scheduler's balance, not a budget */

	/* Atomics */
	pg_atomic_uint32 nactive;	/* participants at work */
	pg_atomic_uint32 nunits;	/* in an index phase: participants that could
								 * be at work, by the indexes not done yet;
								 * else 0 */
	pg_atomic_uint32 epoch;		/* incremented after each change of the above,
								 * except by the leader before the first phase */
} PvCostShared;

/*
 * By what this process is throttled.  See the table in throttle/cost.c.
 */
typedef enum PvCostMode
{
	PV_COST_BUDGET,
	PV_COST_AUTOVACUUM,
	PV_COST_SCHEDULER
} PvCostMode;

/* The state of this process */
typedef struct PvCostState
{
	PvCostMode	mode;
	bool		failsafe;		/* no throttling until the vacuum ends */

	PvCostShared *shared;		/* while this process is at work, else NULL */
	uint32		epoch;			/* in which its share was computed */

	bool		follows_reloads;	/* leads a vacuum that applies reloads */
	uint32		nreloads;		/* reloads that it has applied, since the
								 * vacuum began */
	int64		slept_usecs;	/* in pv_cost_delay(), ever; only increases */
} PvCostState;

extern PvCostState pv_cost;

#endif							/* PV_COST_STATE_H */
