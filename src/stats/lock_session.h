/*-------------------------------------------------------------------------
 *
 * lock_session.h
 *	  The session whose lock is in the way of a vacuum.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LOCK_SESSION_H
#define PV_LOCK_SESSION_H

#include "storage/lockdefs.h"

typedef struct PvLockSession
{
	int			pid;			/* 0: a prepared transaction */
	Oid			role;			/* who logged in; invalid: not known */
	const char *query;			/* "" if not known */
} PvLockSession;

extern bool pv_find_lock_holder(Oid relid, LOCKMODE mode,
								PvLockSession *session);
extern bool pv_find_lock_waiter(PvLockSession *session);

#endif							/* PV_LOCK_SESSION_H */
