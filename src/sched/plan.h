/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  What the launcher is to do now.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PLAN_H
#define PV_PLAN_H

#include "datatype/timestamp.h"

#include "sched/policy.h"

/* A database, as the launcher knows it. */
typedef struct PvPlanDatabase
{
	Oid			oid;
	bool		counted;		/* the statistics have it: it is in use */
	double		age;			/* as pv_age_of_database() has it */
	TimestampTz due;			/* when it is to be scanned next */
	TimestampTz started_at;		/* when a worker was last started for it */
	TimestampTz not_before;		/* no worker is started before */
	bool		failed;			/* the last worker that was started did not
								 * attach */

	/* by the queue */
	bool		has_queue;
	bool		scanning;
	int			nworkers;
	bool		expected;		/* one of them has not attached yet */
	TimestampTz scan_requested; /* since then, or PV_NEVER */
	bool		has_first;		/* a worker would take a table */
	bool		first_is_large;
	PvOrder		first;			/* its place in the order */
} PvPlanDatabase;

/* All that a plan depends on, at one moment. */
typedef struct PvSnapshot
{
	TimestampTz now;
	int			nfree;			/* workers that may be started */
	int			nlarge;			/* places at large tables that are free */
	bool		full;			/* a database without a queue can have none */
	int			nscans;			/* as the last plan has left it */
	int			n;
	const PvPlanDatabase *databases;
} PvSnapshot;

typedef enum PvActionKind
{
	PV_ACTION_LAUNCH,			/* start a worker for the database */
	PV_ACTION_LAUNCH_TO_SCAN,	/* the same, which is to scan it first */
	PV_ACTION_REQUEST_SCAN,		/* have a worker of the database scan it */
	PV_ACTION_CALL_BACK			/* have a worker of another database leave */
} PvActionKind;

typedef struct PvAction
{
	PvActionKind kind;
	int			which;			/* of the databases */
	bool		large;			/* launch: with a place at large tables */
} PvAction;

typedef struct PvPlan
{
	int			n;
	int			nscans;			/* workers started for scans, one after the
								 * other */
	PvAction   *actions;		/* room for twice the databases, and one */
} PvPlan;

extern void pv_plan(const PvSnapshot *snapshot, PvPlan *plan);

#endif							/* PV_PLAN_H */
