/*-------------------------------------------------------------------------
 *
 * dispatch.h
 *	  Heap's slot for vacuums, and who vacuums a table: the engine or core.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DISPATCH_H
#define PV_DISPATCH_H

#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "nodes/pg_list.h"
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

#endif							/* PV_DISPATCH_H */
