/*-------------------------------------------------------------------------
 *
 * run_table.h
 *	  The table of runs of parvacuum_run() and CALL parvacuum().
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RUN_TABLE_H
#define PV_RUN_TABLE_H

#include "base/settings.h"

/* The token of no run. */
#define PV_NO_RUN				UINT64CONST(0)

/* A place in the table, and the run that it was given to. */
typedef struct PvRunPlace
{
	int			slot;
	uint64		token;			/* of this run, never given to another one */
} PvRunPlace;

/* Whether a run gets a place. */
typedef enum PvRunAnswer
{
	PV_RUN_GRANTED,
	PV_RUN_ALL_TAKEN,			/* all places that parvacuum.max_runs allows */
	PV_RUN_SHARE_TAKEN			/* all of them that one role may have */
} PvRunAnswer;

/* What others see of a run. */
typedef struct PvRunSeen
{
	uint64		token;
	int			pid;			/* of the background leader */
	int			caller_pid;		/* 0: the caller is gone */
	Oid			role;			/* the caller's session user */
} PvRunSeen;

typedef struct PvRunSlot
{
	uint64		token;
	int			caller_pid;		/* 0: the caller holds the place no longer */
	int			leader_pid;		/* 0: the leader has not attached, or is gone */
	Oid			role;			/* the caller's session user */
	Oid			database;
	Oid			named;			/* the table that the caller named */
	Oid			relid;			/* the table at hand; invalid: none */
	Oid			toast_parent;	/* of that, if it is a TOAST table */
} PvRunSlot;

/* In shared memory, all of it under one lock. */
typedef struct PvRunTable
{
	uint64		last_token;
	PvRunSlot	runs[PV_MAX_RUNS];
} PvRunTable;

/* A caller that asks for a place. */
typedef struct PvRunRequest
{
	int			pid;
	Oid			database;
	Oid			role;			/* the session user */
	bool		is_superuser;
	Oid			relid;			/* the table that it named */
} PvRunRequest;

extern PvRunAnswer pv_run_table_enter(PvRunTable *table, int max_runs,
									  const PvRunRequest *request,
									  PvRunPlace *place);
extern void pv_run_table_leave(PvRunTable *table, PvRunPlace *place, int pid);

extern PvRunSlot *pv_run_table_attach(PvRunTable *table,
									  const PvRunPlace *place, int pid);
extern void pv_run_table_set_relation(PvRunSlot *run, Oid relid,
									  Oid toast_parent);
extern void pv_run_table_exit(PvRunSlot *run);

extern int	pv_run_table_find(const PvRunTable *table, Oid database, Oid relid,
							  PvRunSeen *seen);
extern bool pv_run_table_find_process(const PvRunTable *table, int pid,
									  PvRunSeen *seen);
extern int	pv_run_table_process_at(const PvRunTable *table, uint64 token,
									Oid database, Oid relid);

#endif							/* PV_RUN_TABLE_H */
