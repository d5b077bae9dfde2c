/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that follows the configuration, and has databases vacuumed.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LAUNCHER_H
#define PV_LAUNCHER_H

extern void pv_launcher_init(void);

/* The launcher; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_launcher_main(Datum main_arg);

#endif							/* PV_LAUNCHER_H */
