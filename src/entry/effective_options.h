/*-------------------------------------------------------------------------
 *
 * effective_options.h
 *	  Which options apply to a table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_EFFECTIVE_OPTIONS_H
#define PV_EFFECTIVE_OPTIONS_H

#include "access/htup.h"
#include "utils/rel.h"

#include "entry/options.h"

extern void pv_options_default(PvOptions *options);
extern void pv_options_look_up(Oid relid, bool is_partition,
							   PvOptions *options);
extern Oid	pv_toast_parent(Oid toast);
extern void pv_options_find(Relation rel, Oid *toast_parent,
							PvOptions *options);

/* The storage parameters autovacuum_* */
extern void pv_options_no_autovacuum(AutoVacOpts *options);
extern bool pv_options_read_autovacuum(HeapTuple tuple, TupleDesc desc,
									   AutoVacOpts *options);
extern void pv_options_autovacuum(Relation rel, Oid toast_parent,
								  AutoVacOpts *options);
extern int	pv_options_autovacuum_workers(Relation rel, Oid toast_parent);

#endif							/* PV_EFFECTIVE_OPTIONS_H */
