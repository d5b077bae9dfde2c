/*-------------------------------------------------------------------------
 *
 * process.h
 *	  What processes have in common: background workers, waits, the guard
 *	  against functions of owners, and shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PROCESS_H
#define PV_PROCESS_H

#include "port/atomics.h"
#include "postmaster/bgworker.h"
#include "storage/block.h"
#include "storage/lwlock.h"

#include "base/settings.h"

extern const char *pv_process_library(void);
extern void pv_process_describe(BackgroundWorker *worker, const char *type,
								const char *function);
extern bool pv_process_is(int pid, const char *type);
extern void pv_process_lead(pg_atomic_uint32 *flag);
extern void pv_process_give_up(void);
extern void pv_process_work(pg_atomic_uint32 *leader_gave_up,
							void (*work) (void *arg), void *arg);
extern void pv_process_check_leader(void);
extern void pv_process_clear_cancel(void);

/* What a process without work waits for; pg_stat_activity shows it (wait.c) */
enum
{
	PV_EVENT_BARRIER,			/* a participant: for the next phase */
	PV_EVENT_WORKERS,			/* a leader: for its workers */
	PV_EVENT_RUN,				/* a session: for its background leader */
	PV_EVENT_LAUNCHER,			/* the launcher: for something to do */
	PV_NEVENTS
};

extern Size pv_wait_shmem_size(void);
extern void pv_wait_shmem_startup(LWLock *its_lock);
extern void pv_launcher_begin(void);
extern void pv_launcher_wake(void);
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

/* Keeping functions that a vacuum runs from starting another one (guard.c) */
extern bool pv_guard_enter(void);
extern void pv_guard_leave(bool before);
extern void pv_guard_check_command(const char *command);
extern void pv_guard_check_function(const char *what);

/* What pv_become_oneself() restores */
typedef struct PvFormerUser
{
	Oid			userid;
	int			sec_context;
	int			nestlevel;
} PvFormerUser;

extern void pv_become_owner(Oid owner, PvFormerUser *own);
extern void pv_become_oneself(const PvFormerUser *own);

/*
 * Called before a vacuum runs functions of the owner of a table with so many
 * pages, and afterwards unless they fail.  NULL: nothing is called.
 */
typedef void (*PvOwnerHook) (bool begins, BlockNumber pages);
extern PvOwnerHook pv_owner_hook;

/* Shared memory (shmem.c) */

/* The part of one module */
typedef struct PvShmemPart
{
	Size		(*size) (void);
	const char *lock;			/* name of its lock; NULL: it has none */
	void		(*startup) (LWLock *lock);	/* called with AddinShmemInitLock
											 * held */
} PvShmemPart;

extern void pv_shmem_init(const PvShmemPart *all_parts, int n);
extern bool pv_shmem_attached(void);
extern bool pv_dsm_has_room(Size bytes, Size more);

/* Where the C library keeps POSIX shared memory on Linux */
#define PV_SHM_DIR				"/dev/shm"

#endif							/* PV_PROCESS_H */
