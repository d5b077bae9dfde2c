/*-------------------------------------------------------------------------
 *
 * table.h
 *	  Which tables need something, and what a worker does with one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_TABLE_H
#define PV_TABLE_H

#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "utils/rel.h"

#include "base/window.h"
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

/* sched/candidates.c */

extern List *pv_need_scan(bool *nothing);
extern void pv_need_state(Form_pg_class form, PvTableState *state,
						  TimestampTz *done_at);
extern void pv_need_thresholds(Form_pg_class form, const AutoVacOpts *own,
							   PvThresholds *limits);
extern void pv_need_score_of(Relation rel, const AutoVacOpts *own, bool sweep,
							 PvScore *score);
extern bool pv_need_is_served(Oid relid, bool opted_in);
extern TimestampTz pv_need_deadline(const PvWindow *window,
									const PvScore *score);
extern bool pv_need_is_outside(const char *text, const PvScore *score,
							   PvWindow *window);
extern PvWaitReason pv_need_leave_out_failed(Form_pg_class form,
											 BlockNumber pages,
											 PvScore *score,
											 TimestampTz *until);
extern bool pv_need_leaves_alone(Relation rel, Oid toast_parent,
								 const PvOptions *options);

#endif							/* PV_TABLE_H */
