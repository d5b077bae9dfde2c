/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Which table needs a vacuum, which goes first, and which database gets a
 *	  worker.
 *
 * Every constant and every decision of the scheduler is here or in plan.c.
 * These are pure functions: they use no catalogs, statistics, clock or
 * settings, so they can be tested without any of these.  The launcher,
 * scheduler workers and sessions call them.
 *
 * Scores.  A table's score is the greatest of some ratios, each of a count to
 * the threshold at which autovacuum would act on it.  That is the idea of
 * "Prioritization of tables for autovacuum" (Nathan Bossart, pgsql-hackers,
 * 2025).  There are two differences.  Ages count as they are up to the
 * failsafe, and are multiplied beyond it by a factor that begins at 1, so that
 * a score never falls as an age grows.  And unless an age decides, small
 * tables come first among equals, since they delay others the least.
 *
 * The order.  Tables in danger of wraparound come first.  Among the others the
 * score, or the priority that a role has asked for, is a lead: each doubling
 * of it is worth five minutes of waiting, and no more than twelve doublings
 * count.  So each table has a moment at which it is its turn, which does not
 * change while it waits: the time since which it needs a vacuum, less its
 * lead.  The earliest turn goes first.  From this follows a guarantee that
 * owners of tables can take from others neither by thresholds nor by
 * priorities:
 *
 *	  A table is begun before every other table of its database that came to
 *	  need a vacuum, or was last begun, more than an hour later; and, if its
 *	  age is beyond nine tenths of autovacuum_freeze_max_age, before all tables
 *	  that are younger than that.
 *
 * A table in danger that was begun and could not be completed (it was locked,
 * cancelled, failed, or held back by an old snapshot) is in the order of the
 * others, with the greatest lead, until it is done.  Otherwise tables that
 * always fail would come first in each database scan.
 *
 * The server's setting says which age is dangerous.  A table's own
 * autovacuum_freeze_max_age says when it is vacuumed for its age, but does not
 * put it before others.
 *
 * A table that is only to be swept has no lead.  Its turn comes as much later
 * as the greatest lead is long, so it is begun after all tables that came to
 * need a vacuum or an ANALYZE up to an hour later.
 *
 * Sweeps.  Each update that is not HOT adds an entry to each index, and leaves
 * a dead one there.  The pages of a new B-tree are nine tenths full.  So if
 * entries are spread evenly, inserts split pages once a tenth of the rows has
 * been replaced, and a split cannot be undone.  A sweep has to come before
 * that, with some time to spare, and is due at half of it: 50 dead entries and
 * a twentieth of the rows.  Where rows are not replaced evenly, some pages are
 * full earlier.  Splits show that, as growth of the B-trees.  If they have
 * grown between two sweeps, the next one is due at half the threshold.
 *
 * Entries that are dead are those of the versions counted since the last
 * sweep, but no more than rows have died since the last vacuum, whoever
 * vacuumed.  A table that needs a vacuum is vacuumed and not swept.  One that
 * needs an ANALYZE is analyzed, in that order, and is then queued to be swept:
 * a sweep has no part in the lead of an ANALYZE, and does not delay it.  If
 * the rows were never counted, no share of them is known, and there is no
 * sweep before they are.
 *
 * Core: postmaster/autovacuum.c, relation_needs_vacanalyze.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/transam.h"

#include "sched/policy.h"

/* The factor of a score for an age of twice the failsafe's */
#define FAILSAFE_WEIGHT			1e9

/* Pages (10 MB) of a table that has half the advantage of an empty one */
#define SIZE_OF_HALF_ADVANTAGE	(10 * 1024 * 1024 / BLCKSZ)

/*
 * Microseconds for which a database keeps a worker, unless another one needs
 * it for a dangerous age: to move a worker takes the start of a process
 */
#define LEAST_STAY				(5 * INT64CONST(1000000))

/*
 * The only worker of a database is taken by one that is this many times as
 * urgent, and after this part of a naptime
 */
#define DISPLACING_FACTOR		2
#define LEAST_STAY_OF_ONLY		0.25

/*
 * A database that has waited this many microseconds for a scan is as urgent as
 * one of a dangerous age
 */
#define LONGEST_WAIT			(10 * 60 * INT64CONST(1000000))

/*
 * What a worker may use for each page of a table, in cost units, before it
 * gives the table up: some forty times what it takes to read the page and to
 * dirty it.  Where functions of the owner run, each page is read once.
 */
#define MOST_UNITS_OF_PAGE		1000.0
#define MOST_UNITS_FOR_OWNER	25.0

/* ANALYZE reads no more pages, with the highest statistics target */
#define MOST_SAMPLED			3000000

/*
 * The rate that is counted on, in cost units per second, where there is no
 * limit, or a higher one: a slow disk may not allow more
 */
#define RATE_OF_DISK			100000

/*
 * Dead entries in each B-tree at which a sweep is due: so many, and such a
 * share of the table's rows; multiplied by a factor if pages have been split
 */
#define SWEEP_BASE				50
#define SWEEP_SCALE				0.05
#define SWEEP_FACTOR_OF_SPLITS	0.5

/* B-trees have grown if they have more than so many pages, and this share, more */
#define GROWN_PAGES				4
#define GROWN_SHARE				0.02

/*
 * Microseconds for which the last place for a large table is kept for the
 * database whose large table goes first, so that a worker can come there
 */
#define KEEP_PLACE				(30 * INT64CONST(1000000))

/*
 * After a database scan there is none for this many times the CPU time that it
 * took; where no table has opted in, for this many naptimes
 */
#define REST_FACTOR				50
#define NAPTIMES_WHERE_NOTHING	10

/*
 * Of a database's share of the entries, one in this many can be requests; of
 * all entries, one role can ask for one in this many in one database
 */
#define PART_OF_REQUESTS		2
#define PART_OF_ROLE			16

/*
 * Milliseconds until a worker is started again after a failure.  The time
 * doubles with each further failure, up to the longest.
 */
#define START_AGAIN_AFTER_MS	1000
#define LONGEST_START_AGAIN_MS	60000

/*
 * Ranks of databases.  A database that has only queued tables ranks below the
 * first of these, and one that is due for a scan above it.
 */
#define RANK_OF_DUE				1e6

/*
 * Above both is a database whose age is dangerous, or that has waited for
 * LONGEST_WAIT.  Every second that the former waits counts this many times.
 */
#define RANK_OF_AGE				1e9
#define FACTOR_OF_AGE			10

/* Above all is a database that has a table in danger in its queue */
#define RANK_OF_DANGER			1e15

/*
 * The ratio of a count to its threshold: above 1 only if the count exceeds the
 * threshold, and finite for a threshold of 0.
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

/* The ratio of an age to the one at which a table is vacuumed for it. */
static double
age_ratio(int64 age, int64 max_age, int64 failsafe_age)
{
	double		score = age / (PV_AGE_SHARE * Max(max_age, 1));

	if (age > failsafe_age)
		score *= 1 + FAILSAFE_WEIGHT * (age - failsafe_age) /
			Max(failsafe_age, 1);
	return score;
}

/* How urgent is what is to be done with a table of this size? */
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
 * The dead entries that each B-tree may have.  The counts begin at 0 again
 * when the statistics are reset, as by a crash.
 */
static double
dead_entries(const PvTableState *state)
{
	double		swept = state->versions_swept;

	if (swept > state->versions)
		swept = 0;
	return Min(state->versions - swept, state->dead);
}

/*
 * Have B-trees had page splits?  The arguments are their pages now, and when
 * they were last vacuumed or swept.
 */
bool
pv_has_grown(double pages, double pages_before)
{
	return pages - pages_before > Max(GROWN_PAGES, GROWN_SHARE * pages_before);
}

/* What is to be done with a table, and how urgently. */
void
pv_score_table(const PvTableState *state, const PvThresholds *thresholds,
			   PvScore *score)
{
	double		reltuples = Max(state->reltuples, 0);

	memset(score, 0, sizeof(*score));

	score->xid = age_ratio(state->xid_age, thresholds->freeze_max_age,
						   thresholds->failsafe_age);
	score->mxid = age_ratio(state->mxid_age,
							thresholds->multixact_freeze_max_age,
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
		if (state->may_sweep && state->reltuples >= 0)
			score->entries = ratio(dead_entries(state),
								   (SWEEP_BASE + SWEEP_SCALE * reltuples) *
								   (state->splits ?
									SWEEP_FACTOR_OF_SPLITS : 1));
	}

	score->vacuum = score->wraparound || score->dead > 1 ||
		score->inserted > 1;
	score->analyze = score->modified > 1;
	score->sweep = score->entries > 1 && !score->vacuum && !score->analyze;
	score->total = total_score(score, state->pages);
}

/* Only a vacuum, or only an analyze, or neither, is left to be done. */
void
pv_score_rest(PvScore *score, bool vacuum, bool analyze, BlockNumber pages)
{
	score->vacuum = vacuum;
	score->analyze = analyze;
	score->sweep = false;
	score->danger &= vacuum;
	score->wraparound = vacuum && (score->xid > 1 || score->mxid > 1);
	score->total = total_score(score, pages);
}

/* The table is not to be analyzed: if it needs no vacuum, it is only swept. */
void
pv_score_not_analyze(PvScore *score, BlockNumber pages)
{
	score->analyze = false;
	score->sweep = score->entries > 1 && !score->vacuum;
	score->total = total_score(score, pages);
}

/*
 * The turn of a table that has needed something since then; not_completed says
 * that it was begun at that moment and could not be completed.
 */
void
pv_rank_table(const PvScore *score, double priority, TimestampTz needed_since,
			  bool not_completed, PvRank *rank)
{
	double		lead = Max(score->total, priority);

	if (score->danger)
		lead = not_completed ? PV_MOST_SCORE : Max(score->xid, score->mxid);
	rank->danger = score->danger && !not_completed;
	rank->turn = needed_since;
	if (lead > 1)
		rank->turn -=
			(int64) (log2(Min(lead, PV_MOST_SCORE)) * PV_DOUBLED_AFTER);
	else if (score->sweep && lead <= 0)
		rank->turn += PV_LONGEST_LEAD;
}

/*
 * Which table goes first?  Above 0: a; below 0: b.
 *
 * This is the order everywhere: of tables that are begun, of tables that are
 * evicted where the queue is full, and of databases by their first table.
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
 * The score that a table that comes to need a vacuum now would have to have in
 * order to get the same turn: the table's own score, doubled for each five
 * minutes that it has waited.
 */
double
pv_urgency(const PvRank *rank, TimestampTz now)
{
	return exp2(Min(Max((double) (now - rank->turn) / PV_DOUBLED_AFTER, 0),
					1000));
}

/* The entries of one database where there are not enough for all databases. */
int
pv_share_of_database(int places, int ndatabases)
{
	return Max(places / Max(ndatabases, 1), 1);
}

/* The part of them that roles can ask for. */
int
pv_share_of_requests(int share_of_database)
{
	return Max(share_of_database / PART_OF_REQUESTS, 1);
}

/*
 * The entries that a role without maintenance rights on all tables can have in
 * a database.
 */
int
pv_share_of_role(int places)
{
	return Max(places / PART_OF_ROLE, 1);
}

/*-
 * Would another vacuum remove and freeze nothing, because the horizon is where
 * it was at the last one?  That is so unless
 *	- the rows inserted since ask for it, or the dead rows have doubled: those of
 *	  transactions that have aborted can be removed at any time;
 *	- only this one is to prevent wraparound, and so reads all pages, or it is
 *	  for multixacts, which have a horizon of their own.
 *
 * The caller asks whether indexes have work in any case (engine/index_work.c).
 */
bool
pv_vacuum_is_useless(const PvScore *score, const PvLeft *left,
					 TransactionId horizon)
{
	return TransactionIdIsValid(left->horizon) && left->horizon == horizon &&
		score->inserted <= 1 &&
		score->dead - left->dead <= Max(left->dead, 1) &&
		(!score->wraparound || (left->for_age && score->mxid <= 1));
}

/*-
 * May a worker take a large table of its database?
 *
 *		the table is in danger, and fewer workers
 *		than places are on such tables				yes
 *		all places are taken						no
 *		two or more are free						yes
 *		one is free									if no other database has a large
 *													table that goes before it,
 *													or that database has not
 *													come for KEEP_PLACE
 *
 * The place is not kept for long, because a worker may never come there.
 */
PvLargePlace
pv_large_place(const PvLargeState *state)
{
	if (state->in_danger && state->ndanger < state->max_large)
		return PV_LARGE_DANGER;
	if (state->nlarge >= state->max_large)
		return PV_LARGE_TAKEN;
	if (state->nlarge < state->max_large - 1)
		return PV_LARGE_FREE;
	if (state->behind_other && state->kept < KEEP_PLACE)
		return PV_LARGE_KEPT;
	return PV_LARGE_LAST;
}

bool
pv_has_large_place(PvLargePlace place)
{
	return place != PV_LARGE_TAKEN && place != PV_LARGE_KEPT;
}

/*
 * The workers that may be on large tables: all but one, which is left for
 * small tables.
 */
int
pv_max_large(int nworkers)
{
	return Max(nworkers - 1, 1);
}

/*
 * Of the workers at large tables, those for which others may be started: all
 * that have a place, and of the others, which run functions of the owner, no
 * more than there could be with a place.  nplaces of nworkers have one.
 */
int
pv_count_large(int nworkers, int nplaces, int max_large)
{
	return Max(nplaces, Min(nworkers, 2 * max_large));
}

/*
 * The workers that are allowed while nlarge of them are at large tables, as
 * pv_count_large() has it.  There always is one for small tables: also if the
 * only one is at a large table, or if several are and the setting was lowered.
 */
int
pv_workers_allowed(int nworkers, int nlarge)
{
	return Max(nworkers, nlarge + 1);
}

/*
 * The workers that there can be at most: all but one on large tables, as many
 * again on large tables in danger of wraparound, and one for small tables.
 */
int
pv_most_workers(int nworkers)
{
	return pv_workers_allowed(nworkers, 2 * pv_max_large(nworkers));
}

/*
 * The time in which one of so many workers can use so many cost units, and
 * what there is in any case.  The rate of all of them is in cost units per
 * second, 0: no limit.  All times are in microseconds.
 */
static double
time_for(double units, int64 rate, int nworkers, int64 least)
{
	if (rate <= 0 || rate > RATE_OF_DISK)
		rate = RATE_OF_DISK;
	return least + units * 1e6 * nworkers / rate;
}

/* How long may a worker be at a table with so many pages, indexes included? */
double
pv_longest_at_table(double pages, int64 rate, int nworkers, int64 least)
{
	return time_for(pages * MOST_UNITS_OF_PAGE, rate, nworkers, least);
}

/*
 * How long may functions of the table's owner run, in ANALYZE or in the
 * cleanup of an index?
 */
double
pv_longest_for_owner(double pages, bool analyze, int64 rate, int nworkers,
					 int64 least)
{
	if (analyze)
		pages = Min(pages, MOST_SAMPLED);
	return time_for(pages * MOST_UNITS_FOR_OWNER, rate, nworkers, least);
}

/*
 * The least that max_worker_processes must be so that each of these gets its
 * processes: all come out of one pool, the first that asks gets a slot, and
 * the server reserves none.  Core's logical replication launcher and
 * parvacuum's launcher are always there.  Parallel queries can have
 * max_parallel_workers of them, parvacuum's parallel workers included.  Those
 * of other extensions and of subscriptions, which are not known, come on top.
 */
int
pv_processes_wanted(const PvProcesses *processes)
{
	return 1 + processes->logical_replication + processes->parallel_workers +
		processes->runs + processes->scheduler_workers;
}

/*
 * The age of a database with this datfrozenxid or datminmxid, as a share of
 * the one that its tables are vacuumed for.
 */
double
pv_age_of_database(uint32 then, uint32 next, int max_age)
{
	int32		age = (int32) (next - then);

	return age > 0 ? age / (PV_AGE_SHARE * Max(max_age, 1)) : 0;
}

/*
 * Milliseconds after which a worker is started again in a database where one
 * has ended before it attached, as it does where the database is gone; after
 * that number of other failures, one after the other.
 */
int
pv_start_again_after(int nfailures)
{
	int			ms = START_AGAIN_AFTER_MS;

	for (int i = 0; i < nfailures && ms < LONGEST_START_AGAIN_MS; i++)
		ms *= 2;
	return Min(ms, LONGEST_START_AGAIN_MS);
}

/*
 * How dangerous is it that the database has no worker?  Above 1 it is; also
 * when its first table has waited for longer than the lead that any other
 * table can have.
 */
static double
danger_of_database(const PvDatabaseState *state)
{
	double		waited = state->scan_pending ?
		0 : (double) state->overdue / LONGEST_WAIT;
	double		danger = Max(state->age, waited);

	/*
	 * It is not known how many tables there are in danger.  But they may all
	 * wait for an old snapshot to end, so other databases do not come after
	 * such ones for ever.
	 */
	if (state->age > 1 && waited > 0)
		danger = state->age + FACTOR_OF_AGE * waited;
	if (state->nqueued > 0 && state->top_score > 1)
		danger = Max(danger, log2(state->top_score) * PV_DOUBLED_AFTER /
					 (PV_LONGEST_LEAD + LONGEST_WAIT));
	return danger;
}

/*-
 * The rank of a database among those that need another worker.  Negative: it
 * needs none.
 *
 *		1	a table in danger of wraparound is queued
 *		2	it has no worker, and its age is dangerous, or it has waited for a
 *			scan, or one of its tables for a worker, for LONGEST_WAIT
 *		3	it is due for a scan, the longest overdue first.  Only the scan
 *			shows what is urgent there.
 *		4	by the urgency of the first table in its queue, divided by the
 *			number of its workers, so that a busy database does not keep others
 *			waiting
 */
double
pv_rank_database(const PvDatabaseState *state)
{
	double		danger = danger_of_database(state);
	double		rank = PV_NEEDS_NO_WORKER;

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
 * All queues are in use: may the database have the queue of another one that
 * has tables queued and no worker?
 */
bool
pv_takes_queue(const PvDatabaseState *state)
{
	return danger_of_database(state) > 1;
}

/*
 * Microseconds without a scan of the database after one that has taken this
 * CPU time, also in microseconds.  The time of scans is lost for vacuums, and
 * where there are very many tables a naptime may be short compared to it.
 */
int64
pv_rest_after_scan(int64 used)
{
	return Min(Max(used, 0), LONGEST_WAIT / REST_FACTOR) * REST_FACTOR;
}

/*
 * The same after a scan that has found that no table has opted in.  When one
 * does, it is noticed this much later at most.
 */
int64
pv_rest_where_nothing(int64 naptime)
{
	return Max(Min(naptime * NAPTIMES_WHERE_NOTHING, LONGEST_WAIT), naptime);
}

/*
 * A database needs a worker that another one has: remembers it, if it ranks
 * higher than those so far.  To take the only worker of another database, it
 * counts as due only if it should have been scanned more than a naptime ago.
 */
void
pv_want(PvWanting *wanting, const PvDatabaseState *state, int64 naptime)
{
	PvDatabaseState hardly_due = *state;
	bool		urgent = state->age > 1 ||
		(state->nqueued > 0 && state->top_danger);
	double		rank[2];

	if (state->overdue <= naptime)
		hardly_due.overdue = PV_NOT_DUE;
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
 * Does one of the databases that need a worker take one from this other one,
 * which has had it for stayed microseconds?  It does if it ranks higher than
 * the other will rank without that worker, or the other would get it back at
 * once; and clearly higher, if it is the only one.  Unless it is urgent, it
 * does so only after some time, because moving a worker takes the start of a
 * process.
 */
bool
pv_displaces(const PvWanting *wanting, const PvDatabaseState *other,
			 int64 stayed, int64 naptime)
{
	PvDatabaseState without = *other;
	bool		only_one = other->nworkers == 1;
	double		least = only_one ? naptime * LEAST_STAY_OF_ONLY : 0;
	bool		must_be_urgent = stayed < Max(LEAST_STAY, least);

	without.nworkers--;
	without.nqueued = without.top_score > 0;
	without.top_danger &= without.nqueued > 0;
	without.overdue = PV_NOT_DUE;
	return wanting->rank[only_one][must_be_urgent] >
		(only_one ? DISPLACING_FACTOR : 1) *
		Max(pv_rank_database(&without), 0);
}

/*
 * Is it the first of these two databases that gives up a worker?  It is the
 * one with more workers, else the one that is not in danger, else the one with
 * the lower score.
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
