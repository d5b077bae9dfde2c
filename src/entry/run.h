/*-------------------------------------------------------------------------
 *
 * run.h
 *	  A vacuum in a process of its own, and waiting for it.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_BACKGROUND_RUN_H
#define PV_BACKGROUND_RUN_H

#include "commands/vacuum.h"
#include "nodes/pg_list.h"

/* What pg_stat_activity shows as backend_type. */
#define PV_LEADER_TYPE			"parvacuum background leader"

/* What is to be done: a table, with its partitions, and VACUUM's options. */
typedef struct PvRequest
{
	Oid			relid;
	VacuumParams params;
} PvRequest;

/* In the process that wants it done; a list of PvRunEntry *. */
extern List *pv_run_in_background(const PvRequest *request);

/* In both processes. */
extern bool pv_may_vacuum(Oid relid, bool is_shared);
extern void pv_refuse_vacuum(int elevel, const char *relname);
extern List *pv_expand_relation(Oid relid, char relkind);
extern char *pv_qualified_relname(Oid relid);

/* The background leader; the postmaster finds it by name. */
extern PGDLLEXPORT void parvacuum_leader_main(Datum main_arg);

#endif							/* PV_BACKGROUND_RUN_H */
