/*-------------------------------------------------------------------------
 *
 * rights.h
 *	  Checks of rights: the roles that may vacuum, see and cancel.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RIGHTS_H
#define PV_RIGHTS_H

#include "nodes/primnodes.h"

/* Tables. */
extern bool pv_may_vacuum(Oid relid);
extern void pv_refuse_vacuum(int elevel, const char *relname);
extern bool pv_may_plan(Oid relid);
extern void pv_refuse_plan(int elevel, const char *relname);
extern void pv_check_owner(const RangeVar *relation, Oid relid, Oid oldrelid,
						   void *arg);

/* Runs, the scheduler's queue, settings and options. */
extern bool pv_may_request_urgently(void);
extern void pv_refuse_urgent(void);
extern bool pv_may_see_all(void);
extern bool pv_may_see_session(Oid role);
extern bool pv_may_see_table(Oid database, Oid relid);
extern bool pv_may_see_settings(void);
extern void pv_check_may_reset_options(void);

/* Canceling. */
typedef enum PvCancelKind
{
	PV_CANCEL_TABLE,			/* any vacuum of a table */
	PV_CANCEL_WRAPAROUND,		/* one by the scheduler */
	PV_CANCEL_WORKER,			/* a scheduler worker, by its PID */
	PV_CANCEL_RUN,
	PV_CANCEL_COMMAND,
	PV_CANCEL_AUTOVACUUM
} PvCancelKind;

extern bool pv_may_cancel_session(Oid role);
extern void pv_refuse_cancel(PvCancelKind kind, int elevel);

#endif							/* PV_RIGHTS_H */
