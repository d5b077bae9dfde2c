/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Which table needs a vacuum, which first, and which database.
 *
 * Pure functions: no catalogs, no statistics, no clock, no settings, so that
 * they can be tested without any of these.  The scheduler's processes call them.
 *
 * A table's score is the greatest of some ratios, each of a count to the
 * threshold at which autovacuum would act on it.  That is the idea of
 * "Prioritization of tables for autovacuum" (Nathan Bossart, pgsql-hackers,
 * 2025).  Two things are done otherwise.  The ages count as they are up to the
 * failsafe, and are multiplied beyond it, by a factor that begins at 1: so a
 * score never falls as an age grows.  And where it is not about age, small
 * tables come first among equals, since they make nobody wait.
 *
 * The order.  Tables in danger of wraparound come first.  Among others the score, or the
 * priority that somebody has asked for, is a lead: every doubling of it is worth five
 * minutes of waiting, and twelve doublings are the most.  So each table has a moment that
 * does not change while it waits, when its turn is: that since when it needs a vacuum, less
 * its lead.  The earliest goes first.  What follows is the guarantee that owners can
 * neither by thresholds nor by priorities take from others:
 *
 *	  A table is begun before every other of its database that came to need a vacuum, or
 *	  that was last begun, more than an hour later; and, if it is past nine tenths of
 *	  autovacuum_freeze_max_age, before all that are not.
 *
 * One in danger that was begun and could not be done (locked, cancelled, failed, or held back by an
 * old snapshot) is in the order of the others, with the greatest lead, until it
 * is done: otherwise tables that always fail would come first in each pass.
 *
 * How old is dangerous is the server's setting.  A table's own autovacuum_freeze_max_age
 * says when it is to be vacuumed for its age, but does not put it before others.
 *
 * Core: postmaster/autovacuum.c, relation_needs_vacanalyze.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "sched/policy.h"

/* How much the score grows with an age that is twice the failsafe's */
#define FAILSAFE_WEIGHT			1e9

/* A table of so many pages has half the advantage of an empty one: 10 MB */
#define SIZE_OF_HALF_ADVANTAGE	(10 * 1024 * 1024 / BLCKSZ)

/* To take a worker from a database costs some 100 ms, for two processes from start to end;
 * so unless it is for a dangerous age not before so many microseconds */
#define LEAST_STAY				(5 * INT64CONST(1000000))

/* The only one is taken by a database that is so many times as urgent, and not before such
 * a part of a naptime */
#define DISPLACING_FACTOR		2
#define LEAST_STAY_OF_ONLY		0.25

/* Microseconds that are as bad to wait for a look as an age that is dangerous */
#define LONGEST_WAIT			(10 * 60 * INT64CONST(1000000))

/* The vacuum of a small table with its indexes takes hardly more cost units: forty times
 * what it takes to read and dirty all pages of the table */
#define MOST_UNITS_OF_SMALL		(PV_LARGE_PAGES * 100.0 * 10)

/* After a pass there is none for so many times what it has used; where nothing has opted
 * in, for so many naptimes */
#define REST_FACTOR				50
#define NAPTIMES_WHERE_NOTHING	10

/* Of a database's share of the queue, the part that can be asked for; of the whole queue, the
 * part that one role can ask for in one database */
#define PART_OF_REQUESTS		2
#define PART_OF_ROLE			16

/* Ranks of databases: what is queued is below, what is to be looked at is above */
#define RANK_OF_DUE				1e6

/* and above both a dangerous age, and a wait that is as bad; so is the wait of a database of a
 * dangerous age after so many times less */
#define RANK_OF_AGE				1e9
#define FACTOR_OF_AGE			10

/* and above all a table in danger that could be begun with now */
#define RANK_OF_DANGER			1e15

/*
 * A count in relation to its threshold, above 1 only if it exceeds it, and
 * finite where the threshold is 0.
 */
static double
ratio(double value, double threshold)
{
	if (value <= threshold)
		return threshold > 0 ? value / threshold : 0;
	if (threshold < 1)
		return 1 + value;
	return value / threshold;
}

/*
 * An age in relation to that at which the table has to be vacuumed.
 */
static double
age_ratio(int64 age, int64 max_age, int64 failsafe_age)
{
	double		score = age / (PV_AGE_SHARE * Max(max_age, 1));

	if (age > failsafe_age)
		score *= 1 + FAILSAFE_WEIGHT * (age - failsafe_age) / Max(failsafe_age, 1);
	return score;
}

/*
 * How urgent is what is to be done?
 */
static double
total_score(const PvScore *score, BlockNumber pages)
{
	double		need = 0;

	if (score->vacuum)
		need = Max(score->dead, score->inserted);
	if (score->analyze)
		need = Max(need, score->modified);
	need *= 1 + 1 / (1 + (double) pages / SIZE_OF_HALF_ADVANTAGE);
	return score->vacuum ? Max(need, Max(score->xid, score->mxid)) : need;
}

/*
 * What is to be done with a table, and how urgently.
 */
void
pv_score_table(const PvTableState *state, const PvThresholds *thresholds,
			   PvScore *score)
{
	double		reltuples = Max(state->reltuples, 0);

	memset(score, 0, sizeof(*score));

	score->xid = age_ratio(state->xid_age, thresholds->freeze_max_age,
						   thresholds->failsafe_age);
	score->mxid = age_ratio(state->mxid_age, thresholds->multixact_freeze_max_age,
							thresholds->multixact_failsafe_age);
	score->wraparound = score->xid > 1 || score->mxid > 1;
	score->danger = age_ratio(state->xid_age, thresholds->danger_age,
							  thresholds->failsafe_age) > 1 ||
		age_ratio(state->mxid_age, thresholds->multixact_danger_age,
				  thresholds->multixact_failsafe_age) > 1;

	if (state->counted && thresholds->enabled)
	{
		score->dead = ratio(state->dead, thresholds->vacuum_base +
							thresholds->vacuum_scale * reltuples);
		if (thresholds->insert_base >= 0)
			score->inserted = ratio(state->inserted, thresholds->insert_base +
									thresholds->insert_scale * reltuples);
		if (state->may_analyze)
			score->modified = ratio(state->modified, thresholds->analyze_base +
									thresholds->analyze_scale * reltuples);
	}

	score->vacuum = score->wraparound || score->dead > 1 || score->inserted > 1;
	score->analyze = score->modified > 1;
	score->total = total_score(score, state->pages);
}

/*
 * A vacuum of it would be in vain: it is only to be analyzed, if that.
 */
void
pv_score_only_analyze(PvScore *score, BlockNumber pages)
{
	score->vacuum = score->wraparound = score->danger = false;
	score->total = total_score(score, pages);
}

/*
 * When is a table's turn that has needed something since then?  not_removable says that it was
 * begun at that moment and could not be done.
 */
void
pv_rank_table(const PvScore *score, double priority, TimestampTz needed_since,
			  bool not_removable, PvRank *rank)
{
	double		lead = Max(score->total, priority);

	if (score->danger)
		lead = not_removable ? PV_MOST_SCORE : Max(score->xid, score->mxid);
	rank->danger = score->danger && !not_removable;
	rank->turn = needed_since;
	if (lead > 1)
		rank->turn -= (int64) (log2(Min(lead, PV_MOST_SCORE)) * PV_DOUBLED_AFTER);
}

/*
 * Which table goes first?  Above 0: a; below: b.
 *
 * This is the order everywhere: of what is begun, of what gives way where the queue is full,
 * and of databases among which one has to be chosen.
 */
int
pv_compare_ranks(const PvRank *a, const PvRank *b)
{
	if (a->danger != b->danger)
		return a->danger ? 1 : -1;
	if (a->turn != b->turn)
		return a->turn < b->turn ? 1 : -1;
	return 0;
}

/*
 * The score that a table would have to have, needed only now, to be in the place of this
 * one: its own score, doubled for each five minutes.
 */
double
pv_urgency(const PvRank *rank, TimestampTz now)
{
	return exp2(Min(Max((double) (now - rank->turn) / PV_DOUBLED_AFTER, 0), 1000));
}

/*
 * Of a queue with so many places, in which so many databases have something: how many are
 * a database's where they do not suffice for all?
 */
int
pv_share_of_database(int places, int ndatabases)
{
	return Max(places / Max(ndatabases, 1), 1);
}

/* How many of those are for what somebody has asked for, where all are taken? */
int
pv_share_of_requests(int share_of_database)
{
	return Max(share_of_database / PART_OF_REQUESTS, 1);
}

/* How many can a role ask for in one database, unless it may do maintenance for all? */
int
pv_share_of_role(int places)
{
	return Max(places / PART_OF_ROLE, 1);
}

/*
 * A vacuum has left dead rows that may still be seen; both are ratios to the threshold.  Is it worth another one
 * with the horizon where it was?  What has died since may be of transactions that
 * have aborted, which nobody sees.  If it is not, that was in vain, and so often as
 * the dead rows double.
 */
bool
pv_has_died_anew(double dead, double left_dead)
{
	return dead - left_dead > Max(left_dead, 1);
}

/*
 * Of so many workers how many may be on large tables: all but one, for small ones.
 */
int
pv_max_large(int nworkers)
{
	return Max(nworkers - 1, 1);
}

/*
 * How many workers may there be while so many are on large tables?  One for small ones
 * always: also where the only one is on a large table, and where several are and the
 * setting was lowered.
 */
int
pv_workers_allowed(int nworkers, int nlarge)
{
	return Max(nworkers, nlarge + 1);
}

/*
 * How many workers can there be at most?  All but one are on large tables, as many again
 * on large tables in danger of wraparound, and there is one for small ones.
 */
int
pv_most_workers(int nworkers)
{
	return pv_workers_allowed(nworkers, 2 * pv_max_large(nworkers));
}

/*
 * For how many microseconds may a worker be at a small table while others wait and no worker
 * has time?  For ten minutes; and, where the rate, in cost units per second, is so low that
 * this is not long, for what all small tables of so many workers should be done in.
 */
int64
pv_longest_at_small(int64 rate, int nworkers)
{
	double		by_rate = rate > 0 ? MOST_UNITS_OF_SMALL * 1e6 * nworkers / rate : 0;

	return Max((int64) by_rate, LONGEST_WAIT);
}

/*
 * How dangerous is it that nobody is there?  Above 1 it is: that is also where the first table
 * has waited for longer than the lead that any other can have.
 */
static double
danger_of_database(const PvDatabaseState *state)
{
	double		waited = state->scan_pending ? 0 : (double) state->overdue / LONGEST_WAIT;
	double		danger = Max(state->age, waited);

	/* nobody knows how many tables there are in danger; but they may all wait for an old
	 * snapshot to end, so others are not behind such databases for ever */
	if (state->age > 1 && waited > 0)
		danger = state->age + FACTOR_OF_AGE * waited;
	if (state->nqueued > 0 && state->top_score > 1)
		danger = Max(danger, log2(state->top_score) * PV_DOUBLED_AFTER /
					 (PV_LONGEST_LEAD + LONGEST_WAIT));
	return danger;
}

/*
 * How much a database deserves its next worker.  Negative: it needs none.
 *
 * First those where a table in danger waits.  Then those whose age is dangerous, or that
 * have waited for a look, or a table of theirs for a worker, for as long as is.  Then
 * each that is to be looked at, since what is urgent there is not known before; the
 * longer overdue, the sooner.  Then by the first table in its queue, the less the more
 * workers are there already, so that one busy database does not keep the others waiting.
 */
double
pv_rank_database(const PvDatabaseState *state)
{
	double		danger = danger_of_database(state);
	double		rank = -1;

	if (state->nqueued > 0)
		rank = Min(state->top_score, RANK_OF_DUE) / (1 + state->nworkers);
	if (state->overdue >= 0 && !state->scan_pending)
		rank = Max(rank, RANK_OF_DUE + state->overdue / 1e6);
	if (rank >= 0 && state->nworkers == 0 && danger > 1)
		rank += RANK_OF_AGE * danger;
	if (state->nqueued > 0 && state->top_danger)
		rank += RANK_OF_DANGER * Max(state->age, 1) / (1 + state->nworkers);
	return rank;
}

/*
 * All places in the list of queues are taken: may a database have that of another one, which
 * has something queued and no worker?
 */
bool
pv_takes_queue(const PvDatabaseState *state)
{
	return danger_of_database(state) > 1;
}

/*
 * For how long after a pass, which has used the processor for so long, is there to be no
 * other?  Both in microseconds.  What passes use is lost for vacuums, and where tables are
 * very many a naptime may be little beside it.
 */
int64
pv_rest_after_scan(int64 used)
{
	return Min(Max(used, 0), LONGEST_WAIT / REST_FACTOR) * REST_FACTOR;
}

/*
 * The same after a pass that has found a database in which nothing has opted in.  So late it
 * is noticed at most that something has.
 */
int64
pv_rest_where_nothing(int64 naptime)
{
	return Max(Min(naptime * NAPTIMES_WHERE_NOTHING, LONGEST_WAIT), naptime);
}

/*
 * A database wants a worker that another one has: remember it, if it ranks higher than
 * those so far.  Where it would take the only one, that it is due counts only if it
 * should have been scanned more than a naptime ago.
 */
void
pv_want(PvWanting *wanting, const PvDatabaseState *state, int64 naptime)
{
	PvDatabaseState hardly_due = *state;
	bool		urgent = state->age > 1 || (state->nqueued > 0 && state->top_danger);
	double		rank[2];

	if (state->overdue <= naptime)
		hardly_due.overdue = -1;
	rank[false] = pv_rank_database(state);
	rank[true] = pv_rank_database(&hardly_due);
	for (int of_only_one = 0; of_only_one < 2; of_only_one++)
	{
		double	   *best = wanting->rank[of_only_one];

		best[false] = Max(best[false], rank[of_only_one]);
		if (urgent)
			best[true] = Max(best[true], rank[of_only_one]);
	}
}

/*
 * Does one of the databases that want a worker take one that another has, for stayed
 * microseconds now?  If it ranks higher than the other will without it: else that
 * would have it back at once; and not before the other has had some time, since to change
 * costs the start of a process, unless it is urgent.  The only one it must rank clearly
 * higher for.
 */
bool
pv_displaces(const PvWanting *wanting, const PvDatabaseState *other, int64 stayed,
			 int64 naptime)
{
	PvDatabaseState without = *other;
	bool		only_one = other->nworkers == 1;
	bool		must_be_urgent = stayed < Max(LEAST_STAY, only_one ? naptime * LEAST_STAY_OF_ONLY : 0);

	without.nworkers--;
	without.nqueued = without.top_score > 0;
	without.top_danger &= without.nqueued > 0;
	without.overdue = -1;
	return wanting->rank[only_one][must_be_urgent] >
		(only_one ? DISPLACING_FACTOR : 1) * Max(pv_rank_database(&without), 0);
}

/*
 * Would one of these two databases rather give a worker away?  That with more, or by
 * what is queued.
 */
bool
pv_gives_rather(const PvDatabaseState *a, const PvDatabaseState *b)
{
	if (a->nworkers != b->nworkers)
		return a->nworkers > b->nworkers;
	if ((a->age > 1 || a->top_danger) != (b->age > 1 || b->top_danger))
		return b->age > 1 || b->top_danger;
	return a->top_score < b->top_score;
}
