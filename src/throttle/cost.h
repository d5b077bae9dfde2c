/*-------------------------------------------------------------------------
 *
 * cost.h
 *	  Cost-based delay for several processes that vacuum one table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COST_H
#define PV_COST_H

#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/spin.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/settings.h"

/* What the processes of one vacuum may use */
typedef struct PvCostBudget
{
	double		delay;			/* milliseconds; 0: no throttling */
	int			limit;			/* cost units per delay, of one process */
	double		scale;			/* share that each further process adds */
} PvCostBudget;

/* In the memory that the participants of one vacuum share; a sweep has one */
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
	pg_atomic_uint32 nunits;	/* in an index phase: participants that the
								 * indexes not done yet could use; else 0 */
	pg_atomic_uint32 epoch;		/* incremented after each change of the above,
								 * except by the leader before the first phase */
} PvCostShared;

/* What throttles this process; see the table in throttle/cost.c */
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
	uint32		nreloads;		/* applied since the vacuum began */
	int64		slept_usecs;	/* in pv_cost_delay(), ever; only increases */
} PvCostState;

extern PvCostState pv_cost;

/* Which cost limits a table has fixed for autovacuum by its own options */
typedef struct PvOwnCosts
{
	bool		delay;
	bool		limit;
} PvOwnCosts;

extern void pv_cost_init(PvCostShared *shared, double scale);
extern void pv_cost_follow_reloads(void);
extern void pv_cost_lead_autovacuum(PvCostShared *shared,
									const PvOwnCosts *own);
extern void pv_cost_begin_indexes(PvCostShared *shared, int nsharers);
extern void pv_cost_index_done(PvCostShared *shared, int nsharers);
extern void pv_cost_begin_work(PvCostShared *shared);
extern void pv_cost_end_work(void);
extern void pv_cost_disable(void);
extern void pv_cost_restore(void);
extern void pv_cost_take_share(void);
extern void pv_cost_refresh(PvCostShared *shared);
extern int64 pv_cost_sleep(void);
extern int64 pv_cost_delay_in_full(void);

/* throttle/cost_autovacuum.c: the budget of an autovacuum worker that leads */
extern void pv_cost_of_autovacuum(PvCostBudget *budget);
extern bool pv_cost_of_table(const AutoVacOpts *options, PvCostBudget *budget);
extern void pv_cost_autovacuum_begin(const PvOwnCosts *own);
extern void pv_cost_autovacuum_reloaded(void);
extern void pv_cost_autovacuum_budget(PvCostBudget *budget);
extern void pv_cost_weigh_pages(double times);
extern void pv_cost_autovacuum_end(bool failsafe);

/* throttle/balance.c: one cost balance of several processes */
typedef struct PvCostBalance
{
	pg_atomic_uint64 charged_until; /* until then the rate is used up; in
									 * microseconds of the callers' clock */
	pg_atomic_uint64 units;		/* all that was ever charged */
} PvCostBalance;

extern void pv_balance_init(PvCostBalance *balance);
extern void pv_balance_change_rate(PvCostBalance *balance, int64 old_rate,
								   int64 new_rate, int64 now);
extern void pv_balance_pause(PvCostBalance *balance, int64 until);
extern int64 pv_balance_charge(PvCostBalance *balance, int64 units,
							   int64 units_per_sec, int64 now);

/* throttle/cost_scheduler.c: that of the scheduler */
extern Size pv_cost_shmem_size(void);
extern void pv_cost_shmem_startup(LWLock *its_lock);
extern int64 pv_cost_rate(void);
extern int64 pv_cost_units(void);
extern void pv_cost_set_rate(int64 rate);
extern int64 pv_cost_fixed_rate(void);
extern void pv_cost_set_fixed_rate(int64 rate);
extern bool pv_cost_has_workers(void);
extern void pv_cost_pause(int64 until);
extern void pv_cost_count_worker(int change);

extern void pv_cost_open_balance(void);
extern bool pv_cost_join_balance(void);
extern bool pv_cost_leave_balance(void);
extern void pv_cost_close_balance(double delay, int limit);
extern void pv_cost_charge(void);
extern bool pv_cost_sleep_on(void);
extern void pv_cost_flush(void);
extern void pv_cost_charge_slept(void);

/* Is this process a scheduler worker? */
extern bool pv_is_scheduler_worker;

/* Does no session wait for this vacuum, so that autovacuum's settings hold? */
static inline bool
pv_is_automatic(void)
{
	return pv_is_scheduler_worker || pv_is_autovacuum_worker();
}

/* Has the budget, or the number of participants at work, changed? */
static inline bool
pv_cost_share_is_stale(void)
{
	return pg_atomic_read_u32(&pv_cost.shared->epoch) != pv_cost.epoch;
}

/*
 * Apply the current settings and share.  Call this before every delay point
 * that we can reach.  It is cheap, and a page may be locked.
 */
static inline void
pv_cost_poll(void)
{
	if (pv_cost.mode == PV_COST_SCHEDULER)
		pv_cost_charge();
	if (pv_cost.shared == NULL)
		return;
	if (pv_cost.follows_reloads)
		pv_cost_refresh(pv_cost.shared);
	else if (unlikely(pv_cost_share_is_stale()))
		pv_cost_take_share();
}

/* Has this process used so many cost units that it must sleep? */
static inline bool
pv_cost_is_owing(void)
{
	return VacuumCostActive && VacuumCostBalance >= pv_vacuum_cost_limit;
}

/* Would pv_cost_poll() find something new? */
static inline bool
pv_cost_has_news(void)
{
	return pv_cost.shared != NULL &&
		(pv_reload_is_due || pv_cost_share_is_stale());
}

/* Pass a delay point, and in the scheduler's mode sleep on if that is due. */
static inline void
pv_cost_delay_points(void)
{
	pv_delay_point();
	while (pv_cost.mode == PV_COST_SCHEDULER && pv_cost_sleep_on() &&
		   !pv_cost_has_news())
		;
}

/*
 * Poll, then sleep for all that is due.  No page may be locked.  The sleep may
 * be long, so news interrupt it, and the next call sleeps for the rest.
 * Return the microseconds slept.
 */
static inline int64
pv_cost_delay(void)
{
	int64		slept = 0;

	pv_cost_poll();
	if (unlikely(pv_cost_is_owing()))
		slept = pv_cost_sleep();
	else
		pv_cost_delay_points();
	if (pv_cost_has_news())
		pv_cost_poll();
	return slept;
}

#endif							/* PV_COST_H */
