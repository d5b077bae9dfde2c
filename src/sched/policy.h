/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  Which table needs a vacuum, which goes first, and which database gets a
 *	  worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_POLICY_H
#define PV_POLICY_H

#include "datatype/timestamp.h"
#include "storage/block.h"

/* The time of an event that has not occurred, or is not known. */
#define PV_NEVER				((TimestampTz) 0)

/* A table, materialized view or TOAST table at some moment. */
typedef struct PvTableState
{
	bool		counted;		/* the statistics have it; else there are no
								 * counts */
	double		dead;			/* dead rows by the statistics */
	double		inserted;		/* since the last vacuum */
	double		modified;		/* since the last analyze */
	double		reltuples;		/* of pg_class; negative: never counted */
	BlockNumber pages;			/* of pg_class */
	int64		xid_age;		/* 0: none */
	int64		mxid_age;
	bool		may_analyze;

	/* for sweeps of its B-trees */
	bool		may_sweep;
	bool		splits;			/* B-trees had grown when they were last swept */
	double		versions;		/* that left dead entries, ever */
	double		versions_swept; /* the same when it was last swept; else 0 */
} PvTableState;

/* Its thresholds, by its options and the settings. */
typedef struct PvThresholds
{
	bool		enabled;		/* if not, it is vacuumed only for its age */
	double		vacuum_base;
	double		vacuum_scale;
	double		insert_base;	/* negative: it is not vacuumed for inserts */
	double		insert_scale;
	double		analyze_base;
	double		analyze_scale;
	int64		freeze_max_age;
	int64		multixact_freeze_max_age;
	int64		failsafe_age;
	int64		multixact_failsafe_age;
	int64		danger_age;		/* the server's freeze_max_age, whatever the
								 * table's is */
	int64		multixact_danger_age;
} PvThresholds;

/* Ratios of value to threshold: above 1 there is something to do. */
typedef struct PvScore
{
	double		dead;
	double		inserted;
	double		modified;
	double		xid;
	double		mxid;
	double		entries;		/* dead entries in B-trees, for a sweep */
	double		total;			/* the greatest of those that are to be acted
								 * on, but for the last: a sweep has 0 */
	bool		vacuum;
	bool		analyze;
	bool		sweep;			/* never together with any of these */
	bool		wraparound;		/* vacuum it because of its age */
	bool		danger;			/* its age is too old by the server's
								 * settings, too */
	double		haste;			/* share of the way from that age to that of
								 * the failsafe, if the budget matters */
} PvScore;

/* What the last vacuum of a table has left because of the horizon */
typedef struct PvLeft
{
	TransactionId horizon;		/* at that vacuum; invalid: it left nothing */
	double		dead;			/* score.dead then, or less since */
	bool		for_age;		/* that vacuum was to prevent wraparound */
} PvLeft;

/* What decides which of two tables goes first, see pv_compare_order(). */
typedef struct PvOrder
{
	bool		danger;			/* of wraparound */
	double		age;			/* then the greater of its two age scores */
	bool		urgent;			/* requested so */
	double		charge;			/* worker time of its owner lately, in
								 * microseconds */
	TimestampTz turn;
} PvOrder;

/*
 * From this share of autovacuum_freeze_max_age on, a table is vacuumed for its
 * age, so that core's forced autovacuum has nothing to do.
 */
#define PV_AGE_SHARE			0.9

/* From this size on, in pages, a table is large: 64 MB. */
#define PV_LARGE_PAGES			(64 * 1024 * 1024 / BLCKSZ)

extern void pv_score_table(const PvTableState *state,
						   const PvThresholds *thresholds, PvScore *score);
extern void pv_score_rest(PvScore *score, bool vacuum, bool analyze,
						  bool sweep, BlockNumber pages);
extern bool pv_has_grown(double pages, double pages_before);

extern TimestampTz pv_turn(const PvScore *score, bool requested,
						   TimestampTz needed_since);
extern int	pv_compare_order(const PvOrder *a, const PvOrder *b);
extern double pv_charge_left(double charge, int64 elapsed);
extern bool pv_has_room(int places, int nentries, int of_database,
						int of_owner);

extern bool pv_vacuum_is_useless(const PvScore *score, const PvLeft *left,
								 TransactionId horizon);

/*
 * The launcher ends a worker that is not connected within this time: it waits
 * for the lock of its database, which ALTER DATABASE may hold.  A worker that
 * goes on for so long with what was canceled is ended as well, and none waits
 * longer for a lock of a small table.
 */
#define PV_LATE_AFTER_MS		10000

/* ANALYZE reads no more pages, with the highest statistics target */
#define PV_MOST_SAMPLED			3000000

/* A worker leaves its database after this time, in microseconds */
#define PV_LONGEST_STAY			(10 * INT64CONST(1000000))

extern int	pv_max_large(int nworkers);
extern double pv_longest(double pages, bool for_owner, int64 rate,
						 int nworkers, int64 least);

extern double pv_age_of_database(uint32 then, uint32 next, int max_age);
extern int64 pv_start_again_after(int nfailures);
extern int64 pv_rest_after_scan(int64 used, bool nothing, int64 naptime);

/* A database, as the launcher knows it. */
typedef struct PvDatabase
{
	Oid			oid;
	bool		counted;		/* the statistics have it: it is in use */
	double		age;			/* as pv_age_of_database() has it */

	/* by the queue */
	bool		has_queue;
	TimestampTz due;			/* when it is to be scanned next */
	TimestampTz started_at;		/* when a worker was last started for it */
	TimestampTz not_before;		/* no worker is started before */
	int			nfailures;		/* workers that could not connect, one after
								 * the other */
	bool		scanning;
	int			nworkers;
	bool		expected;		/* one of them is not connected yet */
	bool		has_first;		/* a worker would take a table */
	bool		first_is_large;
	PvOrder		first;			/* its place in the order */
} PvDatabase;

/* All databases, at one moment, and what workers there may be. */
typedef struct PvDatabases
{
	TimestampTz now;
	int			nfree;			/* workers that may be started */
	int			nlarge;			/* places at large tables that are free */
	bool		full;			/* a database without a queue can have none */
	int			nscans;			/* workers started for scans, one after the
								 * other */
	int			n;
	PvDatabase *list;
} PvDatabases;

/* A worker to be started */
typedef struct PvNextWorker
{
	PvDatabase *database;
	bool		to_scan;		/* it is to scan the database first */
	bool		large;			/* it has a place at large tables */
} PvNextWorker;

extern bool pv_next_worker(PvDatabases *all, PvNextWorker *next);

#endif							/* PV_POLICY_H */
