/*-------------------------------------------------------------------------
 *
 * run_deadlock.h
 *	  Does the background leader of a run wait for its own caller?
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_DEADLOCK_H
#define PV_RUN_DEADLOCK_H

extern void pv_run_check_deadlock(int leader_pid, const char *relname,
								  Oid current, int *pin_waits);

#endif							/* PV_RUN_DEADLOCK_H */
