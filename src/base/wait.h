/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Names of our waits, and places where a test can stop a vacuum.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_WAIT_H
#define PV_WAIT_H

#include "storage/lwlock.h"

#include "base/settings.h"

/* What a process waits for; pg_stat_activity shows it (see base/wait.c) */
typedef enum PvWaitEvent
{
	PV_EVENT_BARRIER,
	PV_EVENT_WORKERS,
	PV_EVENT_RUN,
	PV_EVENT_LAUNCHER,
	PV_NEVENTS
} PvWaitEvent;

extern void pv_wait_shmem_startup(LWLock *its_lock);
extern uint32 pv_wait_event(PvWaitEvent event);
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

/* The same for a place that has a number. */
static inline void
pv_wait_point_number(const char *place, uint32 number, Oid relid)
{
	if (unlikely(pv_guc_wait_at[0] != '\0'))
		pv_wait_at(psprintf("%s %u", place, number), relid);
}

#endif							/* PV_WAIT_H */
