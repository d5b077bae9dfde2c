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

/* The queues of this many databases can have something in them at a time. */
#define PV_MAX_QUEUES			128

/* The most that parvacuum.scheduler_workers can be, and one. */
#define PV_MAX_SCHED_WORKERS			65

/* What the launcher sees of one database's queue. */
typedef struct PvQueueSummary
{
	Oid			database;
	double		top_score;		/* the urgency of the first of them */
	bool		top_danger;		/* that one is in danger of wraparound */
	int			nqueued;		/* that could be begun with now */
	int			nworkers;		/* but for those that cannot be ended */
	int			nleaving;		/* of them have been called back, ... */
	int			nleaving_soon;	/* ... and are not at what takes long */
	int			nmovable;		/* of them could be called back, and leave soon */
	int			nfree;			/* stay, and have time for a scan soon */
	int			nexpected;		/* have not come yet */
	bool		scan_pending;
	TimestampTz small_since;	/* one has been at a small table, for longest; 0: none */
	TimestampTz rests_until;	/* there should be no other scan before */
} PvQueueSummary;

/* All queues at a moment. */
typedef struct PvQueueView
{
	PvQueueSummary summaries[PV_MAX_QUEUES];
	int			n;
	int			nworkers;		/* but for those that cannot be ended */
	int			nlarge;			/* on large tables */
	bool		full;			/* who has no queue can have none ... */
	bool		none_to_take;	/* ... not even that of another database */
} PvQueueView;

/* A database, as the launcher knows it. */
typedef struct PvPlanDatabase
{
	Oid			oid;
	bool		counted;		/* by the statistics: it is in use */
	double		age;			/* as in PvDatabaseState */
	TimestampTz due;			/* when it is to be scanned next */
	TimestampTz hired_at;		/* when a worker was started last */
	TimestampTz not_before;		/* no worker is started before */
	bool		failed;			/* the last one that was started did not come */
} PvPlanDatabase;

/* All that a plan depends on, at one moment. */
typedef struct PvSnapshot
{
	TimestampTz now;
	int64		naptime;		/* microseconds */
	int			nworkers;		/* parvacuum.scheduler_workers */
	int64		longest_at_small;	/* as pv_longest_at_small() has it */
	PvQueueView view;
	int			ndatabases;
	const PvPlanDatabase *databases;	/* in the order of their OIDs */
} PvSnapshot;

typedef enum PvActionKind
{
	PV_ACTION_LAUNCH,			/* start a worker for the database */
	PV_ACTION_REQUEST_SCAN,		/* have a worker that is there scan it */
	PV_ACTION_ASK_TO_LEAVE,		/* have one of its workers leave */
	PV_ACTION_CANCEL_LONGEST	/* cancel the small table that takes the longest */
} PvActionKind;

typedef struct PvAction
{
	PvActionKind kind;
	Oid			database;
	bool		to_scan;		/* launched: it is to scan the database first */
	bool		takes_queue;	/* launched: it may take another one's queue */
} PvAction;

/* A plan has no more actions than this. */
#define PV_MAX_ACTIONS			(2 * PV_MAX_SCHED_WORKERS + PV_MAX_QUEUES)

typedef struct PvPlan
{
	int			n;
	bool		satisfied;		/* no database needs a worker that has none */
	PvAction	actions[PV_MAX_ACTIONS];
} PvPlan;

extern void pv_plan(const PvSnapshot *snapshot, PvPlan *plan);

#endif							/* PV_PLAN_H */
