/*-------------------------------------------------------------------------
 *
 * run.h
 *	  A vacuum in a process of its own, and waiting for it.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUNNER_H
#define PV_RUNNER_H

#include "commands/vacuum.h"
#include "nodes/pg_list.h"

/* What pg_stat_activity shows as backend_type. */
#define PV_RUNNER_TYPE			"parvacuum runner"

/* What is to be done: a table, with its partitions, and VACUUM's options. */
typedef struct PvRequest
{
	Oid			relid;
	VacuumParams params;
} PvRequest;

/* In the process that wants it done; a list of PvRunEntry *. */
extern List *pv_runner_run(const PvRequest *request);

/* In both processes. */
extern bool pv_runner_may_vacuum(Oid relid, bool is_shared);
extern void pv_runner_refuse(int elevel, const char *relname);
extern List *pv_runner_expand(Oid relid, char relkind);
extern char *pv_runner_relname(Oid relid);

/* The runner; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_runner_main(Datum main_arg);

#endif							/* PV_RUNNER_H */
