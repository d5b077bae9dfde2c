/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  Keeping functions that a vacuum runs from starting another vacuum.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_GUARD_H
#define PV_GUARD_H

#include "storage/block.h"

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

#endif							/* PV_GUARD_H */
