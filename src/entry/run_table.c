/*-------------------------------------------------------------------------
 *
 * run_table.c
 *	  The table of runs of parvacuum_run() and CALL parvacuum().
 *
 * Each run takes a background worker, of which the server has
 * max_worker_processes for everything.  parvacuum.max_runs bounds how many of
 * them the runs of all databases take.  A role that is not a superuser gets
 * one place less, where there is more than one, so that its runs may take
 * hours and other roles can still vacuum.  What counts is the session user,
 * because SET ROLE would change the current one.  There is no finer share:
 * there are few places, and a caller that gets none does not wait for one.
 *
 * A place is held by the caller and by the background leader, and is free when
 * both have given it up.
 *
 * These functions know nothing of processes, so unit tests compile them a
 * second time.  They run under the lock of entry/runs.c, exclusive if they
 * change the table, and walk over its PV_MAX_RUNS places.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "entry/run_table.h"

/* ----------------------------------------------------------------
 *		The caller
 * ----------------------------------------------------------------
 */

static bool
is_taken(const PvRunSlot *run)
{
	return run->caller_pid != 0 || run->leader_pid != 0;
}

/*
 * Counts the places taken, by all and by a role, and returns a free one, or
 * NULL.
 */
static PvRunSlot *
count_runs(PvRunTable *table, Oid role, int *used, int *used_by_role)
{
	PvRunSlot  *free_run = NULL;

	*used = *used_by_role = 0;
	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		PvRunSlot  *run = &table->runs[i];

		if (!is_taken(run))
		{
			if (free_run == NULL)
				free_run = run;
			continue;
		}
		(*used)++;
		*used_by_role += run->role == role;
	}
	return free_run;
}

/*
 * Takes a place for a run, where max_runs are allowed; if that was lowered, no
 * run is ended for it.  The place must be given back by pv_run_table_leave().
 */
PvRunAnswer
pv_run_table_enter(PvRunTable *table, int max_runs,
				   const PvRunRequest *request, PvRunPlace *place)
{
	int			share = request->is_superuser ?
		max_runs : Max(max_runs - 1, 1);
	int			used;
	int			used_by_role;
	PvRunSlot  *run = count_runs(table, request->role, &used, &used_by_role);

	place->token = PV_NO_RUN;
	if (run == NULL || used >= max_runs)
		return PV_RUN_ALL_TAKEN;
	if (used_by_role >= share)
		return PV_RUN_SHARE_TAKEN;

	memset(run, 0, sizeof(*run));
	run->token = ++table->last_token;
	run->caller_pid = request->pid;
	run->role = request->role;
	run->database = request->database;
	run->named = request->relid;
	place->slot = (int) (run - table->runs);
	place->token = run->token;
	return PV_RUN_GRANTED;
}

/* The caller gives its place up, if it holds one. */
void
pv_run_table_leave(PvRunTable *table, PvRunPlace *place, int pid)
{
	PvRunSlot  *run;

	if (place->token == PV_NO_RUN)
		return;
	run = &table->runs[place->slot];
	Assert(run->token == place->token && run->caller_pid == pid);
	run->caller_pid = 0;
	place->token = PV_NO_RUN;
}


/* ----------------------------------------------------------------
 *		The background leader
 * ----------------------------------------------------------------
 */

/* The leader holds the place from now on; NULL if the run is over. */
PvRunSlot *
pv_run_table_attach(PvRunTable *table, const PvRunPlace *place, int pid)
{
	PvRunSlot  *run = &table->runs[place->slot];

	if (run->token != place->token || run->caller_pid == 0)
		return NULL;
	run->leader_pid = pid;
	return run;
}

/*
 * The leader is at this table from now on; toast_parent is that of a TOAST
 * table.
 */
void
pv_run_table_set_relation(PvRunSlot *run, Oid relid, Oid toast_parent)
{
	run->relid = relid;
	run->toast_parent = toast_parent;
}

void
pv_run_table_exit(PvRunSlot *run)
{
	run->leader_pid = 0;
	pv_run_table_set_relation(run, InvalidOid, InvalidOid);
}


/* ----------------------------------------------------------------
 *		Others
 * ----------------------------------------------------------------
 */

/*
 * Is a leader attached, and is it at the table or at its TOAST table, or is
 * that the table that its caller named?
 */
static bool
is_at(const PvRunSlot *run, Oid database, Oid relid)
{
	return run->leader_pid != 0 && run->database == database &&
		OidIsValid(relid) &&
		(run->relid == relid || run->toast_parent == relid ||
		 run->named == relid);
}

static void
show(const PvRunSlot *run, PvRunSeen *seen)
{
	seen->token = run->token;
	seen->pid = run->leader_pid;
	seen->caller_pid = run->caller_pid;
	seen->role = run->role;
}

/*
 * The runs at a table; seen has room for PV_MAX_RUNS.  Returns their number.
 */
int
pv_run_table_find(const PvRunTable *table, Oid database, Oid relid,
				  PvRunSeen *seen)
{
	int			n = 0;

	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		if (is_at(&table->runs[i], database, relid))
			show(&table->runs[i], &seen[n++]);
	}
	return n;
}

/* The run whose leader is this process; false if there is none. */
bool
pv_run_table_find_process(const PvRunTable *table, int pid, PvRunSeen *seen)
{
	for (int i = 0; i < PV_MAX_RUNS && pid > 0; i++)
	{
		if (table->runs[i].leader_pid == pid)
		{
			show(&table->runs[i], seen);
			return true;
		}
	}
	return false;
}

/*
 * The PID of the leader of the run with that token, or 0 if the run is over.
 * If a table is given, also 0 if the run is not at it any more.
 */
int
pv_run_table_process_at(const PvRunTable *table, uint64 token, Oid database,
						Oid relid)
{
	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		const PvRunSlot *run = &table->runs[i];

		if (run->token == token && run->leader_pid != 0 &&
			(!OidIsValid(relid) || is_at(run, database, relid)))
			return run->leader_pid;
	}
	return 0;
}
