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

extern void pv_deadline_init(void);
extern void pv_deadline_begin(void);
extern void pv_deadline_set_pages(double pages);
extern void pv_deadline_begin_owner(double pages, bool analyze);
extern void pv_deadline_end_owner(void);
extern bool pv_deadline_has_passed(void);
extern void pv_deadline_end(void);

#endif							/* PV_DEADLINE_H */
