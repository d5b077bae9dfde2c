/*-------------------------------------------------------------------------
 *
 * deadline.h
 *	  How long a scheduler worker may be at one table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DEADLINE_H
#define PV_DEADLINE_H

#include "utils/rel.h"

extern void pv_deadline_init(void);
extern void pv_deadline_for_locks(int ms);
extern void pv_deadline_begin(void);
extern void pv_deadline_set_size(Relation rel, bool by_core);
extern void pv_deadline_begin_owner(BlockNumber pages, bool analyze);
extern void pv_deadline_end_owner(void);
extern bool pv_deadline_has_passed(void);
extern void pv_deadline_end(void);

#endif							/* PV_DEADLINE_H */
