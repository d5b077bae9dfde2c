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

/* This many databases can have a queue at a time. */
#define PV_MAX_QUEUES			128

/* The highest value of parvacuum.scheduler_workers, and one. */
#define PV_MAX_SCHED_WORKERS			65

/* Where a worker's slot is expected: there is none. */
#define PV_NO_SLOT				(-1)

/* What the launcher sees of one database's queue. */
typedef struct PvQueueSummary
{
	Oid			database;
	double		top_score;		/* the urgency of the first table */
	bool		top_danger;		/* that table is in danger of wraparound */
	int			nqueued;		/* tables that could be begun with now */
	bool		scan_pending;
	TimestampTz rests_until;	/* no scan should be requested before */

	/* workers */
	int			nworkers;		/* but for those that cannot be ended */
	int			nleaving;		/* of them, called back */
	int			nleaving_soon;	/* of these, not at a table that takes long */
	int			nmovable;		/* could be called back, and leave soon */
	int			nfree;			/* stay, and have time for a scan soon */
	int			nexpected;		/* have not attached yet */
} PvQueueSummary;

/* All queues at one moment. */
typedef struct PvQueueView
{
	PvQueueSummary summaries[PV_MAX_QUEUES];
	int			n;
	int			nworkers;		/* but for those that cannot be ended */
	int			nlarge;			/* on large tables, as pv_count_large() has it */
	bool		full;			/* a database without a queue can have none
								 * ... */
	bool		none_to_take;	/* ... not even that of another database */
} PvQueueView;

/* A database, as the launcher knows it. */
typedef struct PvPlanDatabase
{
	Oid			oid;
	bool		counted;		/* the statistics have it: it is in use */
	double		age;			/* as in PvDatabaseState */
	TimestampTz due;			/* when it is to be scanned next */
	TimestampTz hired_at;		/* when a worker was last started for it */
	TimestampTz not_before;		/* no worker is started before */
	bool		failed;			/* the last worker that was started did not
								 * attach */
} PvPlanDatabase;

/* All that a plan depends on, at one moment. */
typedef struct PvSnapshot
{
	TimestampTz now;
	int64		naptime;		/* microseconds */
	int			nworkers;		/* parvacuum.scheduler_workers */
	bool		no_process;		/* the server has no slot for another process */
	PvQueueView view;
	int			ndatabases;
	const PvPlanDatabase *databases;	/* in the order of their OIDs */
} PvSnapshot;

typedef enum PvActionKind
{
	PV_ACTION_LAUNCH,			/* start a worker for the database */
	PV_ACTION_REQUEST_SCAN,		/* have a worker of the database scan it */
	PV_ACTION_ASK_TO_LEAVE		/* have one of its workers leave */
} PvActionKind;

typedef struct PvAction
{
	PvActionKind kind;
	Oid			database;
	bool		to_scan;		/* launch: it is to scan the database first */
	bool		takes_queue;	/* launch: it may take another database's
								 * queue */
} PvAction;

/* A plan has no more actions than this. */
#define PV_MAX_ACTIONS			(2 * PV_MAX_SCHED_WORKERS + PV_MAX_QUEUES)

typedef struct PvPlan
{
	int			n;
	bool		satisfied;		/* each database that needs a worker has one */
	PvAction	actions[PV_MAX_ACTIONS];
} PvPlan;

extern void pv_plan(const PvSnapshot *snapshot, PvPlan *plan);

/*
 * Milliseconds until the launcher's next plan, if a database needs a worker
 * and can have none, or if a worker is expected.
 */
#define PV_LOOK_FOR_WORKER_MS	1000

/* What is left when the actions have been carried out. */
typedef struct PvOutcome
{
	bool		satisfied;		/* as the plan has it, and all actions
								 * succeeded */
	bool		busy;			/* another worker could begin with something */
	bool		expected;		/* a worker was started and has not attached */
} PvOutcome;

extern TimestampTz pv_plan_next(const PvOutcome *outcome, TimestampTz now,
								int64 naptime, const PvPlanDatabase *databases,
								int ndatabases);

#endif							/* PV_PLAN_H */
