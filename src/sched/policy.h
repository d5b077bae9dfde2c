/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  Which table needs a vacuum, which first, and which database.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_POLICY_H
#define PV_POLICY_H

#include "datatype/timestamp.h"
#include "storage/block.h"

/* What a table, or matview, or TOAST table is like at some moment. */
typedef struct PvTableState
{
	bool		counted;		/* the statistics know it; else no counts */
	double		dead;			/* rows dead by the statistics */
	double		inserted;		/* since the last vacuum */
	double		modified;		/* since the last analyze */
	double		reltuples;		/* of pg_class; negative: never counted */
	BlockNumber pages;			/* of pg_class */
	int64		xid_age;		/* 0: none */
	int64		mxid_age;
	bool		may_analyze;
} PvTableState;

/* What its options and the settings say. */
typedef struct PvThresholds
{
	bool		enabled;		/* else only for its age */
	double		vacuum_base;
	double		vacuum_scale;
	double		insert_base;	/* negative: not for inserts */
	double		insert_scale;
	double		analyze_base;
	double		analyze_scale;
	int64		freeze_max_age;
	int64		multixact_freeze_max_age;
	int64		failsafe_age;
	int64		multixact_failsafe_age;
	int64		danger_age;		/* the server's freeze_max_age, whatever the table's is */
	int64		multixact_danger_age;
} PvThresholds;

/* Each part is a ratio of value to threshold: above 1 there is something to do. */
typedef struct PvScore
{
	double		dead;
	double		inserted;
	double		modified;
	double		xid;
	double		mxid;
	double		total;			/* the greatest of what is to be done */
	bool		vacuum;
	bool		analyze;
	bool		wraparound;		/* because of its age, whatever else */
	bool		danger;			/* and that by the server's settings, too */
} PvScore;

/*
 * A table's place in the order in which tables are vacuumed.
 */
typedef struct PvRank
{
	bool		danger;			/* before all that are not in danger of wraparound */
	TimestampTz turn;			/* among the others of its class: the earlier, the sooner */
} PvRank;

/* From this share of autovacuum_freeze_max_age on, a table is vacuumed for its
 * age, so that core's forced autovacuum has nothing to do. */
#define PV_AGE_SHARE			0.9

/* Pages of a table that is not small: 64 MB. */
#define PV_LARGE_PAGES			(64 * 1024 * 1024 / BLCKSZ)

extern void pv_score_table(const PvTableState *state,
						   const PvThresholds *thresholds, PvScore *score);
extern void pv_score_only_analyze(PvScore *score, BlockNumber pages);

/* A score, or a priority, counts for no more than this ... */
#define PV_MOST_SCORE			4096

/* ... and so often doubled for this, in microseconds, by waiting.  So no table is overtaken
 * by one that came to need a vacuum more than PV_LONGEST_LEAD later. */
#define PV_DOUBLED_AFTER		(5 * INT64CONST(60000000))
#define PV_LONGEST_LEAD			(12 * PV_DOUBLED_AFTER)	/* 4096 is 2 to the power of 12 */

/* The priority of who names none, and the highest for who may not do maintenance for all. */
#define PV_DEFAULT_PRIORITY		100
#define PV_MOST_PRIORITY		100

extern void pv_rank_table(const PvScore *score, double priority, TimestampTz needed_since,
						  bool not_removable, PvRank *rank);
extern int	pv_compare_ranks(const PvRank *a, const PvRank *b);
extern double pv_urgency(const PvRank *rank, TimestampTz now);

/* Shares of the queue, in entries. */
extern int	pv_share_of_database(int places, int ndatabases);
extern int	pv_share_of_requests(int share_of_database);
extern int	pv_share_of_role(int places);

extern bool pv_has_died_anew(double dead, double left_dead);
extern int	pv_max_large(int nworkers);
extern int	pv_workers_allowed(int nworkers, int nlarge);
extern int	pv_most_workers(int nworkers);
extern int64 pv_longest_at_small(int64 rate, int nworkers);

/* What the launcher knows of a database. */
typedef struct PvDatabaseState
{
	double		age;			/* the greater of its ages, each as a share of the
								 * one it is vacuumed for */
	double		top_score;		/* the urgency of the first that is queued; 0: nothing
								 * is */
	bool		top_danger;		/* that one is in danger of wraparound */
	int			nqueued;
	int			nworkers;
	int64		overdue;		/* microseconds since its pass was due, or
								 * negative */
	bool		scan_pending;	/* a worker is on the way to look */
} PvDatabaseState;

extern double pv_rank_database(const PvDatabaseState *state);
extern bool pv_takes_queue(const PvDatabaseState *state);
extern int64 pv_rest_after_scan(int64 used);
extern int64 pv_rest_where_nothing(int64 naptime);

/*
 * The highest ranks of the databases that want a worker which another one has: where
 * it is the only one there, or not; of all of them, or of the urgent ones.  Begins
 * with zeroes.
 */
typedef struct PvWanting
{
	double		rank[2][2];
} PvWanting;

extern void pv_want(PvWanting *wanting, const PvDatabaseState *state, int64 naptime);
extern bool pv_displaces(const PvWanting *wanting, const PvDatabaseState *other,
						 int64 stayed, int64 naptime);
extern bool pv_gives_rather(const PvDatabaseState *a, const PvDatabaseState *b);

#endif							/* PV_POLICY_H */
