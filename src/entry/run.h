/*-------------------------------------------------------------------------
 *
 * run.h
 *	  A vacuum in a process of its own: the side of the caller.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_H
#define PV_RUN_H

#include "nodes/pg_list.h"

#include "entry/request.h"

/* Vacuums in another process; a list of PvRunEntry *. */
extern List *pv_run_in_background(const PvRequest *request);

#endif							/* PV_RUN_H */
