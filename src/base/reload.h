/*-------------------------------------------------------------------------
 *
 * reload.h
 *	  Settings that are changed while a table is being vacuumed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RELOAD_H
#define PV_RELOAD_H

#include <signal.h>

#define PV_MAX_FOLLOWED			16

/* What a leader gives its workers after a reload, by the table in reload.c */
typedef struct PvSettings
{
	double		value[PV_MAX_FOLLOWED];
} PvSettings;

/* Has the configuration changed since the leader last read it? */
extern volatile sig_atomic_t pv_reload_is_due;

extern void pv_reload_defer(void);
extern void pv_reload_resume(void);
extern void pv_reload_now(PvSettings *settings);
extern void pv_reload_adopt(const PvSettings *settings);

#endif							/* PV_RELOAD_H */
