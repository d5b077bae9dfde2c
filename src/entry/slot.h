/*-------------------------------------------------------------------------
 *
 * slot.h
 *	  The relation_vacuum slot of heap's table access method.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SLOT_H
#define PV_SLOT_H

#include "commands/vacuum.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat.h"

/* The type of the slot. */
typedef void (*PvVacuumFunction) (Relation rel, PvSlotParams *params,
								  BufferAccessStrategy bstrategy);

extern void pv_slot_take_over(PvVacuumFunction function);
extern bool pv_slot_is_ours(void);
extern bool pv_slot_is_first(void);
extern const char *pv_slot_problem(void);
extern bool pv_slot_serves(Relation rel);
extern void pv_slot_call_previous(Relation rel, VacuumParams *params,
								  BufferAccessStrategy bstrategy);

#endif							/* PV_SLOT_H */
