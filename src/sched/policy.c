/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  The rules of the scheduler.
 *
 * Every constant of the scheduler is here or in policy.h.  These are pure
 * functions: they use no catalogs, statistics, clock or settings, so they can
 * be tested without any of these.  The rules, with their numbers, are in
 * docs/scheduler.md.
 *
 * A table's score is the greatest of some ratios, each of a count to the
 * threshold at which autovacuum would act on it.  That is the idea of
 * "Prioritization of tables for autovacuum" (Nathan Bossart, pgsql-hackers,
 * 2025).  The server's setting says which age is dangerous: a table's own,
 * lower one makes a vacuum due, but does not put it before others.
 *
 * The pages of a new B-tree are nine tenths full, and each update that is not
 * HOT adds an entry.  So inserts split pages once a tenth of the rows has been
 * replaced, and a split cannot be undone.  A sweep is due at half of it, and
 * at a quarter if the B-trees have grown, since some pages are full earlier
 * where rows are not replaced evenly.
 *
 * Core: postmaster/autovacuum.c, relation_needs_vacanalyze.
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

/* The lead of a table for each doubling of its score, in microseconds */
#define LEAD_OF_DOUBLING		(5 * 60 * INT64CONST(1000000))
#define MOST_SCORE				4096
#define LONGEST_LEAD			(12 * LEAD_OF_DOUBLING)

/* Half of what was charged to an owner is written off in this time */
#define CHARGE_HALF_LIFE		(10 * 60 * INT64CONST(1000000))

/* The longest rest of a database between two scans */
#define LONGEST_REST			(10 * 60 * INT64CONST(1000000))

/*
 * Cost units that a worker may use for each page of a table: some forty times
 * what it takes to read the page and to dirty it.  Where functions of the
 * owner run, each page is read once.
 */
#define MOST_UNITS_OF_PAGE		1000.0
#define MOST_UNITS_FOR_OWNER	25.0

/* Cost units per second that a slow disk allows; no more is counted on */
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
 * After a database scan there is none for this many times the CPU time that it
 * took; where no table has opted in, for this many naptimes
 */
#define REST_FACTOR				50
#define NAPTIMES_WHERE_NOTHING	10

/*
 * A database, and an owner in it, can have this many times the places that
 * would be left to others
 */
#define ROOM_FACTOR				4

/*
 * Whatever others have, an owner may take this share of the free places, as long
 * as more than this share of all places is free
 */
#define ROOM_FOR_ALL			(1.0 / 16)

/*
 * Microseconds until a worker is started again after a failure.  The time
 * doubles with each further failure, up to the longest.
 */
#define START_AGAIN_AFTER		INT64CONST(1000000)
#define LONGEST_START_AGAIN		(60 * INT64CONST(1000000))

/*
 * A database that has a worker gets another one when its queue has lasted for
 * so many microseconds
 */
#define ANOTHER_WORKER_AFTER	INT64CONST(200000)

/*
 * After so many workers that were started for scans, one goes to where a table
 * goes first.  Otherwise very many databases, or long scans, would keep all
 * workers from tables.
 */
#define SCANS_IN_TURN			10

/* Return count / threshold: above 1 only beyond it, and finite if that is 0. */
static double
ratio(double value, double threshold)
{
	if (value <= threshold)
		return threshold > 0 ? value / threshold : 0;
	if (threshold < 1)
		return 1 + value;
	return value / threshold;
}

/* Return the ratio of an age to the one that a table is vacuumed for. */
static double
age_ratio(int64 age, int64 max_age, int64 failsafe_age)
{
	double		score = age / (PV_AGE_SHARE * Max(max_age, 1));

	if (age > failsafe_age)
		score *= 1 + FAILSAFE_WEIGHT * (age - failsafe_age) /
			Max(failsafe_age, 1);
	return score;
}

/* Return which share of the way from one age to another has been gone. */
static double
share_of_way(int64 age, int64 from, int64 to)
{
	return Max(0, Min(1, (double) (age - from) / (to - from)));
}

/* Return how urgent it is what is to be done with a table of this size. */
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
 * Return the dead entries that each B-tree may have: those of the versions
 * since the last sweep, but no more than rows have died since the last vacuum.
 * The counts begin at 0 again when the statistics are reset.
 */
static double
dead_entries(const PvTableState *state)
{
	double		swept = state->versions_swept <= state->versions ?
		state->versions_swept : 0;

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

/* Find out what is to be done with a table, and how urgently. */
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
	score->haste = Max(share_of_way(state->xid_age, thresholds->danger_age,
									thresholds->failsafe_age),
					   share_of_way(state->mxid_age,
									thresholds->multixact_danger_age,
									thresholds->multixact_failsafe_age));

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
	score->sweep = score->entries > 1 && !score->vacuum;
	score->total = total_score(score, state->pages);
}

/* Leave this of what is to be done. */
void
pv_score_rest(PvScore *score, bool vacuum, bool analyze, bool sweep,
			  BlockNumber pages)
{
	score->vacuum = vacuum;
	score->analyze = analyze;
	score->sweep = sweep;
	score->danger &= vacuum;
	score->haste *= vacuum;
	score->wraparound = vacuum && (score->xid > 1 || score->mxid > 1);
	score->total = total_score(score, pages);
}

/* Return the turn of a table that has needed something since then. */
TimestampTz
pv_turn(const PvScore *score, bool requested, TimestampTz needed_since)
{
	double		counts = requested ? MOST_SCORE : Min(score->total,
													  MOST_SCORE);

	if (counts > 1)
		return needed_since - (int64) (log2(counts) * LEAD_OF_DOUBLING);
	return needed_since + (counts > 0 ? 0 : LONGEST_LEAD);
}

/* Compare two tables: a goes first if the result is above 0. */
int
pv_compare_order(const PvOrder *a, const PvOrder *b)
{
	if (a->danger != b->danger)
		return a->danger ? 1 : -1;
	if (a->danger && a->age != b->age)
		return a->age > b->age ? 1 : -1;
	if (a->urgent != b->urgent)
		return a->urgent ? 1 : -1;
	if (!a->danger && !a->urgent && a->charge != b->charge)
		return a->charge < b->charge ? 1 : -1;
	if (a->turn != b->turn)
		return a->turn < b->turn ? 1 : -1;
	return 0;
}

/* Return what is left of a charge after so many microseconds. */
double
pv_charge_left(double charge, int64 elapsed)
{
	return charge * exp2(-(double) Max(elapsed, 0) / CHARGE_HALF_LIFE);
}

/*
 * May a database that has so many entries get another one, for an owner who
 * has so many of these?  nentries of all places are taken.
 */
bool
pv_has_room(int places, int nentries, int of_database, int of_owner)
{
	double		left = places - nentries;
	double		for_database = ROOM_FACTOR * left;

	return (left > places * ROOM_FOR_ALL && of_owner < left * ROOM_FOR_ALL) ||
		(of_database < for_database &&
		 of_owner < ROOM_FACTOR * (for_database - of_database));
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

/*
 * Return the number of workers that may be at large tables: one is left for
 * small ones.
 */
int
pv_max_large(int nworkers)
{
	return Max(nworkers - 1, 1);
}

/*
 * Return how many microseconds one of so many workers may be at a table with
 * so many pages, indexes included, or at functions of its owner there.  The
 * rate, in cost units per second, is that of all workers, 0: no limit.
 */
double
pv_longest(double pages, bool for_owner, int64 rate, int nworkers, int64 least)
{
	double		units = pages *
		(for_owner ? MOST_UNITS_FOR_OWNER : MOST_UNITS_OF_PAGE);

	if (rate <= 0 || rate > RATE_OF_DISK)
		rate = RATE_OF_DISK;
	return least + units * 1e6 * nworkers / rate;
}

/*
 * Return the age of a database with this datfrozenxid or datminmxid, as a
 * share of the one that its tables are vacuumed for.
 */
double
pv_age_of_database(uint32 then, uint32 next, int max_age)
{
	int32		age = (int32) (next - then);

	return age > 0 ? age / (PV_AGE_SHARE * Max(max_age, 1)) : 0;
}

/*
 * Return the microseconds until a worker is started again after one that could
 * not connect, and that number of other failures.
 */
int64
pv_start_again_after(int nfailures)
{
	return Min(START_AGAIN_AFTER << Min(nfailures, 6), LONGEST_START_AGAIN);
}

/*
 * Return the microseconds without a scan of the database after one that has
 * taken this CPU time, or has found that no table has opted in.
 */
int64
pv_rest_after_scan(int64 used, bool nothing, int64 naptime)
{
	if (nothing)
		return Max(Min(naptime * NAPTIMES_WHERE_NOTHING, LONGEST_REST),
				   naptime);
	return Min(Max(used, 0), LONGEST_REST / REST_FACTOR) * REST_FACTOR;
}

/*
 * Since when a worker should have come to scan the database, or PV_NEVER.  One
 * that is there already begins the scan when it is done with its table.  What
 * was never scanned is due since a moment just after PV_NEVER.
 */
static TimestampTz
to_scan_since(const PvDatabases *all, const PvDatabase *database)
{
	bool		in_use = database->counted || database->age > 1;
	TimestampTz since = database->due +
		(database->nworkers > 0 ? ANOTHER_WORKER_AFTER : 0);

	return in_use && !database->scanning && all->now >= since ?
		Max(since, PV_NEVER + 1) : PV_NEVER;
}

/* Is its first table in danger of wraparound? */
static bool
in_danger(const PvDatabase *database)
{
	return database->has_first && database->first.danger;
}

/*
 * Does the database need a worker?  It gets one at a time.  A session that
 * holds its lock may keep workers waiting for long, so only one at a time
 * tries the databases that have failed.
 */
static bool
needs_worker(const PvDatabases *all, const PvDatabase *database,
			 bool failed_is_tried)
{
	return !database->expected && all->now >= database->not_before &&
		(database->has_queue || !all->full) &&
		(database->nfailures == 0 || !failed_is_tried) &&
		(database->nworkers == 0 ||
		 all->now - database->started_at >= ANOTHER_WORKER_AFTER) &&
		(database->has_first || to_scan_since(all, database) != PV_NEVER);
}

/* Does the first table of a go before that of b? */
static bool
table_goes_first(const PvDatabase *a, const PvDatabase *b)
{
	return a->has_first &&
		(!b->has_first || pv_compare_order(&a->first, &b->first) > 0);
}

/* Does database a get a worker before b?  See rule 6. */
static bool
goes_first(const PvDatabases *all, const PvDatabase *a, const PvDatabase *b)
{
	TimestampTz a_scan = in_danger(a) ? PV_NEVER : to_scan_since(all, a);
	TimestampTz b_scan = in_danger(b) ? PV_NEVER : to_scan_since(all, b);

	if (in_danger(a) != in_danger(b))
		return in_danger(a);
	if ((a_scan != PV_NEVER) != (b_scan != PV_NEVER))
		return a_scan != PV_NEVER;
	if (a_scan == PV_NEVER)
		return table_goes_first(a, b);
	if ((a->age > 1) != (b->age > 1))
		return a->age > 1;
	return a_scan < b_scan;
}

/*
 * Is the first table of this database among the first large tables of all,
 * for which there are places?
 */
static bool
gets_large_place(const PvDatabases *all, const PvDatabase *database)
{
	int			nbefore = 0;

	if (!database->has_first || !database->first_is_large ||
		database->nfailures > 0)
		return false;
	for (int i = 0; i < all->n; i++)
	{
		const PvDatabase *other = &all->list[i];

		nbefore += other->first_is_large && other->nfailures == 0 &&
			table_goes_first(other, database) &&
			needs_worker(all, other, true);
	}
	return nbefore < all->nlarge;
}

/*
 * Find the next worker to be started, which is then expected.  Return false if
 * there is none.
 */
bool
pv_next_worker(PvDatabases *all, PvNextWorker *next)
{
	bool		failed_is_tried = false;
	bool		in_turn;
	PvDatabase *first = NULL;
	PvDatabase *first_by_table = NULL;

	if (all->nfree <= 0)
		return false;
	for (int i = 0; i < all->n; i++)
		failed_is_tried |= all->list[i].nfailures > 0 && all->list[i].expected;
	for (int i = 0; i < all->n; i++)
	{
		PvDatabase *database = &all->list[i];

		if (!needs_worker(all, database, failed_is_tried))
			continue;
		if (first == NULL || goes_first(all, database, first))
			first = database;
		if (first_by_table == NULL ||
			table_goes_first(database, first_by_table))
			first_by_table = database;
	}
	if (first == NULL)
		return false;

	in_turn = all->nscans >= SCANS_IN_TURN && !in_danger(first) &&
		first_by_table->has_first;
	next->database = in_turn ? first_by_table : first;
	next->to_scan = !in_turn &&
		to_scan_since(all, next->database) != PV_NEVER;
	next->large = gets_large_place(all, next->database);

	if (!in_danger(next->database))
		all->nscans = next->to_scan ? all->nscans + 1 : 0;
	all->nfree--;
	all->nlarge -= next->large;
	next->database->expected = true;
	return true;
}
