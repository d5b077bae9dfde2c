/*-------------------------------------------------------------------------
 *
 * table.h
 *	  What a scheduler worker does with one table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_TABLE_H
#define PV_TABLE_H

#include "commands/vacuum.h"

#include "entry/options.h"
#include "sched/queue.h"

/* What a scheduler worker knows of the table at hand */
typedef struct PvTableWork
{
	PvWorkerSlot *slot;			/* this worker's */
	PvItem		item;			/* a copy of the queue's */
	VacuumParams params;
	AutoVacOpts own;			/* its storage parameters */
	PvOptions	effective;		/* parvacuum's options in effect */
	TransactionId horizon;		/* oldest nonremovable XID before the vacuum */
	bool		horizon_is_newest;	/* no older snapshot or transaction then */
	bool		held;			/* a vacuum would do nothing, because of the
								 * horizon */
	PvWaitReason reason;		/* what it is to wait for */
	TimestampTz deadline;		/* when its vacuum ends early; 0: never */
	bool		put_back;		/* it is large, and there is no place, or its
								 * vacuum has ended early */
	uint8		done;			/* PV_DONE_* */
	char	   *name;			/* with its schema, for pg_stat_activity */
	char	   *full_name;		/* with database and schema, for the log */
} PvTableWork;

extern NameData pv_table_database;

extern void pv_table_init(void);
extern void pv_table_limit_lock_waits(int ms);
extern void pv_table_do(PvTableWork *work);
extern void pv_table_finish(const PvTableWork *work);

/* sched/sweep_table.c */
extern void pv_sweep_table(Relation rel, const PvTableWork *work,
						   StringInfo text);

#endif							/* PV_TABLE_H */
