/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Names of our waits, and places where a test can stop a vacuum.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_WAIT_H
#define PV_WAIT_H

#include "storage/lwlock.h"

#include "base/settings.h"

/* What a process without work waits for; pg_stat_activity shows it */
enum
{
	PV_EVENT_BARRIER,			/* a participant: for the next phase */
	PV_EVENT_WORKERS,			/* a leader: for its workers */
	PV_EVENT_RUN,				/* a session: for its background leader */
	PV_EVENT_LAUNCHER,			/* the launcher: for something to do */
	PV_NEVENTS
};

extern void pv_wait_shmem_startup(LWLock *its_lock);
extern uint32 pv_wait_event[PV_NEVENTS];
extern void pv_wait_at(const char *place, Oid relid);

/*
 * A place where a test can stop this process, which vacuums this table.  No
 * page may be locked.
 */
static inline void
pv_wait_point(const char *place, Oid relid)
{
	if (unlikely(pv_guc_wait_at[0] != '\0'))
		pv_wait_at(place, relid);
}

#endif							/* PV_WAIT_H */
