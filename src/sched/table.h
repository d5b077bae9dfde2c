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

/* What is done with one table */
typedef struct PvTableWork
{
	PvItem		item;			/* a copy */
	VacuumParams params;
	bool		has_options;
	AutoVacOpts options;		/* the table's autovacuum_* */
	PvEffectiveOptions effective;	/* and those of parvacuum */
	TransactionId horizon;		/* before the vacuum */
	bool		nobody_looks;	/* then there was no older snapshot or transaction */
	bool		vacuumed;
	char	   *name;			/* qualified, for messages */
} PvTableWork;

/* By the settings as they are now, for all tables that follow. */
extern void pv_table_configure(void);

/* All memory is allocated in the context. */
extern void pv_table_do(PvTableWork *work, MemoryContext context);

/* When the worker ends. */
extern void pv_table_flush_log(void);

#endif							/* PV_TABLE_H */
