/*-------------------------------------------------------------------------
 *
 * dispatch.h
 *	  Heap's slot for vacuums, who vacuums a table, the engine or core, and
 *	  which roles may have it vacuumed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DISPATCH_H
#define PV_DISPATCH_H

#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "storage/bufmgr.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "entry/options.h"
#include "stats/result.h"

/* One relation that a run has vacuumed. */
typedef struct PvRunEntry
{
	Oid			toast_parent;	/* the table of a TOAST table, else invalid */
	PvResult	result;
} PvRunEntry;

/* Called at the end of each vacuum of a run, in its transaction */
typedef void (*PvReportEntry) (const PvRunEntry *entry);

/* What a caller that is not core knows of the table that it vacuums. */
typedef struct PvKnownTable
{
	Oid			toast_parent;	/* the table of a TOAST table, else invalid */
	const PvOptions *options;	/* of the table, or of toast_parent */
	TimestampTz deadline;		/* when its vacuum ends early; 0: never */
} PvKnownTable;

/*
 * Set by the scheduler: does it leave this table, which has opted in, alone
 * for now?
 */
typedef bool (*PvLeavesAlone) (Relation rel, Oid toast_parent,
							   const PvOptions *options);
extern PvLeavesAlone pv_dispatch_leaves_alone;

extern void pv_dispatch_init(void);
extern int	pv_automatic_buffer_limit(const PvOptions *options);
extern const char *pv_dispatch_declines(const FormData_pg_class *form,
										Oid toast_parent);
extern bool pv_dispatch_vacuum(Relation rel, VacuumParams *params,
							   BufferAccessStrategy bstrategy,
							   const PvKnownTable *known);
extern void pv_dispatch_for_run(PvReportEntry report, bool truncate_is_open,
								TimestampTz deadline, bool yields);

/* The relation_vacuum slot of heap's table access method (slot.c) */
typedef void (*PvVacuumFunction) (Relation rel, PvSlotParams *params,
								  BufferAccessStrategy bstrategy);

extern PvVacuumFunction pv_slot_take_over(PvVacuumFunction function);
extern const char *pv_slot_problem(void);
extern bool pv_slot_is_first(void);
extern bool pv_slot_serves(Relation rel);

/* Relations by OID and name (relation.c) */

extern Form_pg_class pv_class_row(Oid relid);
extern List *pv_expand_relation(Oid relid, char relkind);
extern char *pv_qualified_relname(Oid relid, bool quoted);
extern Relation pv_open_unlocked(Oid relid, LOCKMODE lockmode);
extern bool pv_is_toast_of(Relation rel, Oid toast_parent);
extern void pv_report_left_out(Oid relid);

/* Checks of rights: the roles that may vacuum, see and cancel (rights.c) */

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

#endif							/* PV_DISPATCH_H */
