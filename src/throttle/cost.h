/*-------------------------------------------------------------------------
 *
 * cost.h
 *	  Cost-based delay for several processes that vacuum one table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COST_H
#define PV_COST_H

#include "executor/instrument.h"
#include "port/atomics.h"
#include "storage/spin.h"

#include "base/compat.h"
#include "base/reload.h"
#include "throttle/balance.h"

/* What cost-based delay allows the processes of one vacuum. */
typedef struct PvCostBudget
{
	double		delay;			/* milliseconds; 0: no throttling */
	int			limit;			/* cost units per delay, of one process */
	double		scale;			/* what each further process adds: 0 nothing,
								 * 1 as much again */
} PvCostBudget;

typedef struct PvCostShared
{
	/* Under the mutex; only the leader writes */
	slock_t		mutex;
	PvCostBudget budget;
	uint32		nreloads;		/* since the vacuum began */
	PvSettings	settings;		/* as the last of them left them */

	/* Written by the leader before the first phase */
	int			nparticipants;	/* leader and workers launched */
	bool		on_balance;		/* of the scheduler: there is no budget */

	/*
	 * Atomic: how many participants are at work; in the index phases, how many
	 * could be, by the indexes that are not done yet; and how often any of this
	 * has changed
	 */
	pg_atomic_uint32 nactive;
	pg_atomic_uint32 nunits;	/* 0: not an index phase */
	pg_atomic_uint32 epoch;
} PvCostShared;

/* Which cost limits a table has fixed for autovacuum by its own options */
typedef struct PvOwnCosts
{
	bool		delay;
	bool		limit;
} PvOwnCosts;

extern void pv_cost_of_autovacuum(PvCostBudget *budget);
extern void pv_cost_init(PvCostShared *shared, double scale);
extern void pv_cost_keep(PvCostShared *to, PvCostShared *from);
extern void pv_cost_follow_reloads(void);
extern void pv_cost_lead_autovacuum(const PvOwnCosts *own);
extern void pv_cost_begin_indexes(PvCostShared *shared, int nsharers);
extern void pv_cost_index_done(PvCostShared *shared, int nsharers);
extern void pv_cost_begin_work(PvCostShared *shared);
extern void pv_cost_end_work(void);
extern void pv_cost_disable(void);
extern void pv_cost_restore(void);
extern void pv_cost_take_share(void);
extern void pv_cost_refresh(PvCostShared *shared);

extern int64 pv_cost_delay_in_full(void);

extern void pv_cost_open_balance(void);
extern void pv_cost_close_balance(double delay, int limit);
extern void pv_cost_set_rate(int64 rate);
extern int64 pv_cost_rate(void);
extern int64 pv_cost_units(void);
extern Size pv_cost_shmem_size(void);
extern void pv_cost_shmem_startup(void);
extern void pv_cost_charge(void);
extern bool pv_cost_sleep_on(void);
extern void pv_cost_flush(void);
extern void pv_cost_charge_slept(void);

/* Does this process pay from the scheduler's account, now? */
extern bool pv_cost_on_balance;

/* How many scheduler workers the scheduler has; set when the library is loaded. */
typedef int (*PvCountWorkers) (void);
extern PvCountWorkers pv_cost_count_workers;

/* Is this process one of scheduler workers? */
extern bool pv_is_scheduler_worker;

/* Does nobody wait for this vacuum, so that autovacuum's settings are for it? */
static inline bool
pv_is_automatic(void)
{
	return pv_is_scheduler_worker || pv_is_autovacuum_worker();
}

/* What this process works under, and the epoch that its share is of */
extern PvCostShared *pv_cost_current;
extern uint32 pv_cost_epoch;

/* Does this process lead a vacuum that reloads of the configuration reach? */
extern bool pv_cost_follows_reloads;

/* Of so many reloads since the vacuum began this process has the settings */
extern uint32 pv_cost_nreloads;

/*
 * Adapt this process's share if a peer has come or gone or the budget has
 * changed, and have the settings of now; to be called before every delay point, as
 * far as we have a say in that.  Cheap, and safe while a page is locked.
 */
static inline void
pv_cost_poll(void)
{
	if (pv_cost_on_balance)
		pv_cost_charge();
	if (pv_cost_current == NULL)
		return;
	if (pv_cost_follows_reloads)
		pv_cost_refresh(pv_cost_current);
	else if (unlikely(pg_atomic_read_u32(&pv_cost_current->epoch) != pv_cost_epoch))
		pv_cost_take_share();
}

/*
 * Has this process used so many cost units that it has to sleep?
 */
static inline bool
pv_cost_is_owing(void)
{
	return VacuumCostActive && VacuumCostBalance >= pv_vacuum_cost_limit;
}

/*
 * Is there something that pv_cost_poll() would notice?
 */
static inline bool
pv_cost_has_news(void)
{
	return pv_cost_current != NULL &&
		(pv_reload_is_due ||
		 pg_atomic_read_u32(&pv_cost_current->epoch) != pv_cost_epoch);
}

/*
 * The same, and a delay point: only where no page is locked, so that all that is due is
 * slept off.  There may be a long time to sleep, so news interrupt it; what is left of
 * it is for the next time.
 */
static inline void
pv_cost_delay(void)
{
	pv_cost_poll();
	pv_delay_point();
	while (pv_cost_on_balance && pv_cost_sleep_on() && !pv_cost_has_news())
		;
	if (pv_cost_has_news())
		pv_cost_poll();
}

#endif							/* PV_COST_H */
