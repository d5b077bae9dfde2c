/*-------------------------------------------------------------------------
 *
 * run_begin.h
 *	  Vacuums in processes of their own that the caller does not wait for.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_BEGIN_H
#define PV_RUN_BEGIN_H

#include "nodes/pg_list.h"

#include "entry/request.h"

typedef struct PvBegun PvBegun;

/* Runs have numbers; no run has this one. */
#define PV_ANY_RUN				0

extern int	pv_run_begin(const PvRequest *request);
extern PvBegun *pv_run_find(int number);
extern bool pv_run_look(PvBegun *run);
extern List *pv_run_entries(const PvBegun *run);
extern void pv_run_end(PvBegun *run, const ErrorData *reason);

#endif							/* PV_RUN_BEGIN_H */
