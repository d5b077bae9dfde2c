/*-------------------------------------------------------------------------
 *
 * table.h
 *	  What a scheduler worker does with one table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
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
	bool		has_options;
	AutoVacOpts options;		/* the table's options autovacuum_* */
	PvOptions	effective;		/* parvacuum's options in effect */
	TransactionId horizon;		/* oldest nonremovable XID before the vacuum */
	bool		horizon_is_newest;	/* no older snapshot or transaction then */
	PvWaitReason failed;		/* what it needs has failed lately: for what
								 * it waits */
	uint8		done;			/* PV_DONE_* */
	char	   *name;			/* with its schema, for pg_stat_activity */
	char	   *full_name;		/* with database and schema, for the log */
} PvTableWork;

extern void pv_table_configure(void);
extern void pv_table_finish(const PvTableWork *work, PvWaitReason reason,
							TransactionId horizon);
extern void pv_table_do(PvTableWork *work, MemoryContext context);

#endif							/* PV_TABLE_H */
