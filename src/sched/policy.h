/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  Which table needs a vacuum, which goes first, and which database gets a
 *	  worker.
 *
 * Portions Copyright (c) 2026, parvacuum developers
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

/*
 * Each part is a ratio of value to threshold: above 1 there is something to
 * do.
 */
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
} PvScore;

/* What the last vacuum of a table has left because of the horizon */
typedef struct PvLeft
{
	TransactionId horizon;		/* at that vacuum; invalid: it left nothing */
	double		dead;			/* score.dead then, or less since */
	bool		for_age;		/* that vacuum was to prevent wraparound */
} PvLeft;

/* A table's place in the order in which tables are vacuumed. */
typedef struct PvRank
{
	bool		danger;			/* tables in danger of wraparound go first */
	TimestampTz turn;			/* then the earlier turn */
} PvRank;

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
						  BlockNumber pages);
extern void pv_score_not_analyze(PvScore *score, BlockNumber pages);
extern bool pv_has_grown(double pages, double pages_before);

/* A score, or a priority, counts for no more than this. */
#define PV_MOST_SCORE			4096

/*
 * It is doubled for each of these periods, in microseconds, that the table
 * waits.  So no table is overtaken by one that came to need a vacuum more than
 * PV_LONGEST_LEAD later.
 */
#define PV_DOUBLED_AFTER		(5 * INT64CONST(60000000))
#define PV_LONGEST_LEAD			(12 * PV_DOUBLED_AFTER) /* 4096 is 2 to the
														 * power of 12 */

/*
 * The default of parvacuum_enqueue(), and the highest priority that a role
 * without maintenance rights on all tables can give.
 */
#define PV_DEFAULT_PRIORITY		100
#define PV_MOST_PRIORITY		100

extern void pv_rank_table(const PvScore *score, double priority,
						  TimestampTz needed_since, bool not_completed,
						  PvRank *rank);
extern int	pv_compare_ranks(const PvRank *a, const PvRank *b);
extern double pv_urgency(const PvRank *rank, TimestampTz now);

/* Shares of the queue, in entries. */
extern int	pv_share_of_database(int places, int ndatabases);
extern int	pv_share_of_requests(int share_of_database);
extern int	pv_share_of_role(int places);

extern bool pv_vacuum_is_useless(const PvScore *score, const PvLeft *left,
								 TransactionId horizon);

/*
 * Milliseconds after which the launcher ends a worker that has not attached:
 * it waits for something, such as the lock of its database, which ALTER
 * DATABASE may hold.  A worker waits for no lock of a small table longer than
 * this, and is not expected to be idle soon if it has been at one for so
 * long.  A worker that goes on for so long with what was cancelled is ended as
 * well.
 */
#define PV_LATE_AFTER_MS		10000

/* Milliseconds in which a worker that was ended before it attached is gone. */
#define PV_GONE_WITHIN_MS		5000

/* A worker leaves after this time even if there always is something to do. */
#define PV_LONGEST_STAY_MS		(10 * 60 * 1000)

/* What decides whether a worker of some database may take a large table. */
typedef struct PvLargeState
{
	int			nlarge;			/* workers that have a place, in all databases */
	int			ndanger;		/* of them on one in danger of wraparound */
	int			max_large;		/* as pv_max_large() has it */
	bool		in_danger;		/* the first large table of the database is */
	bool		behind_other;	/* another database has one that goes before
								 * it */
	int64		kept;			/* microseconds that the last place has been
								 * kept for that database */
} PvLargeState;

typedef enum PvLargePlace
{
	PV_LARGE_TAKEN,				/* no: there is no place */
	PV_LARGE_KEPT,				/* no: the last place is for another database */
	PV_LARGE_LAST,				/* yes: the last place */
	PV_LARGE_FREE,				/* yes: there are more places */
	PV_LARGE_DANGER				/* yes: a place for tables in danger */
} PvLargePlace;

extern PvLargePlace pv_large_place(const PvLargeState *state);
extern bool pv_has_large_place(PvLargePlace place);
extern int	pv_max_large(int nworkers);
extern int	pv_count_large(int nworkers, int nplaces, int max_large);
extern int	pv_workers_allowed(int nworkers, int nlarge);
extern int	pv_most_workers(int nworkers);
extern double pv_longest_at_table(double pages, int64 rate, int nworkers,
								  int64 least);
extern double pv_longest_for_owner(double pages, bool analyze, int64 rate,
								   int nworkers, int64 least);

/* Background workers that the settings ask for. */
typedef struct PvProcesses
{
	bool		logical_replication;	/* core's launcher for it */
	int			parallel_workers;	/* max_parallel_workers */
	int			runs;			/* parvacuum.max_runs */
	int			scheduler_workers;
} PvProcesses;

extern int	pv_processes_wanted(const PvProcesses *processes);

/* The rank of a database that needs no worker; others are 0 or higher. */
#define PV_NEEDS_NO_WORKER		(-1.0)

/* A database that is not due, see PvDatabaseState. */
#define PV_NOT_DUE				INT64CONST(-1)

/* What the launcher knows of a database. */
typedef struct PvDatabaseState
{
	double		age;			/* the greater of its two ages, each as a
								 * share of the one that tables are vacuumed
								 * for */
	double		top_score;		/* the urgency of the first queued table; 0:
								 * none is */
	bool		top_danger;		/* that table is in danger of wraparound */
	int			nqueued;
	int			nworkers;
	int64		overdue;		/* microseconds since it was due for a scan;
								 * negative: it is not yet, or PV_NOT_DUE */
	bool		scan_pending;	/* a worker is about to scan it, or does so */
} PvDatabaseState;

extern double pv_age_of_database(uint32 then, uint32 next, int max_age);
extern int	pv_start_again_after(int nfailures);
extern double pv_rank_database(const PvDatabaseState *state);
extern bool pv_takes_queue(const PvDatabaseState *state);
extern int64 pv_rest_after_scan(int64 used);
extern int64 pv_rest_where_nothing(int64 naptime);

/*
 * The highest ranks of the databases that need a worker which another one
 * has.  Begins with zeroes.
 */
typedef struct PvWanting
{
	double		rank[2][2];		/* [to take the only worker][urgent ones only] */
} PvWanting;

extern void pv_want(PvWanting *wanting, const PvDatabaseState *state,
					int64 naptime);
extern bool pv_displaces(const PvWanting *wanting,
						 const PvDatabaseState *other, int64 stayed,
						 int64 naptime);
extern bool pv_gives_rather(const PvDatabaseState *a,
							const PvDatabaseState *b);

#endif							/* PV_POLICY_H */
