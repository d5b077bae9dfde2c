/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  Keeps functions of users that a vacuum runs from starting another one.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_GUARD_H
#define PV_GUARD_H

extern bool pv_guard_enter(void);
extern void pv_guard_leave(bool before);
extern void pv_guard_process(void);
extern void pv_guard_check_command(const char *command);
extern void pv_guard_check_function(const char *what);

#endif							/* PV_GUARD_H */
