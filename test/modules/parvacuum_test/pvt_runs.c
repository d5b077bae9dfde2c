/*-------------------------------------------------------------------------
 *
 * pvt_runs.c
 *	  The registry of runs, driven from SQL without any process: the source is
 *	  compiled in here with stand-ins for shared memory, PIDs and signals.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* What stands for the server. */
static Oid	database_of_test;
static int	pid_of_test;
static int	signalled_pid;
static LWLockPadded lock_of_test;

int			pv_guc_max_runs;

static void *
allocate(Size size, bool *found)
{
	*found = false;
	return MemoryContextAlloc(TopMemoryContext, size);
}

#define MyDatabaseId database_of_test
#define MyProcPid pid_of_test
#define kill(pid, signal) (signalled_pid = (pid), 0)
#define before_shmem_exit(function, arg) ((void) (function))
#define ShmemInitStruct(name, size, found) allocate(size, found)
#define GetNamedLWLockTranche(name) (&lock_of_test)
#include "entry/runs.c"
#undef MyDatabaseId
#undef MyProcPid

PG_FUNCTION_INFO_V1(parvacuum_test_runs);
PG_FUNCTION_INFO_V1(parvacuum_test_run_enter);
PG_FUNCTION_INFO_V1(parvacuum_test_run_leave);
PG_FUNCTION_INFO_V1(parvacuum_test_run_attach);
PG_FUNCTION_INFO_V1(parvacuum_test_run_at);
PG_FUNCTION_INFO_V1(parvacuum_test_run_exit);
PG_FUNCTION_INFO_V1(parvacuum_test_runs_find);
PG_FUNCTION_INFO_V1(parvacuum_test_runs_process);
PG_FUNCTION_INFO_V1(parvacuum_test_run_cancel);

/* The place of a run, wherever it is. */
static PvRunPlace
place_of(int64 token)
{
	PvRunPlace	place = {.slot = 0,.token = token};

	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		if (shared->runs[i].token == (uint64) token)
			place.slot = i;
	}
	return place;
}

/* Become the background leader with this PID. */
static void
become(int pid)
{
	me = NULL;
	pid_of_test = pid;
	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		if (shared->runs[i].leader_pid == pid)
			me = &shared->runs[i];
	}
	if (me == NULL)
		elog(ERROR, "no background leader %d", pid);
}

/* None, and so many allowed. */
Datum
parvacuum_test_runs(PG_FUNCTION_ARGS)
{
	LWLockInitialize(&lock_of_test.lock, LWTRANCHE_FIRST_USER_DEFINED);
	pv_runs_shmem_startup();
	pv_guc_max_runs = PG_GETARG_INT32(0);
	PG_RETURN_VOID();
}

/* The token, 0 if all places are taken, or -1 if the role's are. */
Datum
parvacuum_test_run_enter(PG_FUNCTION_ARGS)
{
	PvRunPlace	place;
	PvRunAnswer answer;

	pid_of_test = PG_GETARG_INT32(0);
	database_of_test = PG_GETARG_OID(1);
	answer = pv_runs_enter(PG_GETARG_OID(2), PG_GETARG_BOOL(3), PG_GETARG_OID(4), &place);
	PG_RETURN_INT64(answer == PV_RUN_SHARE_TAKEN ? -1 : (int64) place.token);
}

Datum
parvacuum_test_run_leave(PG_FUNCTION_ARGS)
{
	PvRunPlace	place = place_of(PG_GETARG_INT64(1));

	pid_of_test = PG_GETARG_INT32(0);
	pv_runs_leave(&place);
	pv_runs_leave(&place);		/* once is enough */
	PG_RETURN_VOID();
}

Datum
parvacuum_test_run_attach(PG_FUNCTION_ARGS)
{
	PvRunPlace	place = place_of(PG_GETARG_INT64(1));

	pid_of_test = PG_GETARG_INT32(0);
	PG_RETURN_BOOL(pv_runs_attach(&place));
}

/* At this table, with this parent; at 0: at none. */
Datum
parvacuum_test_run_at(PG_FUNCTION_ARGS)
{
	become(PG_GETARG_INT32(0));
	if (OidIsValid(PG_GETARG_OID(1)))
		pv_runs_begin_relation(PG_GETARG_OID(1), PG_GETARG_OID(2));
	else
		pv_runs_end_relation();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_run_exit(PG_FUNCTION_ARGS)
{
	become(PG_GETARG_INT32(0));
	leader_exit(0, (Datum) 0);
	PG_RETURN_VOID();
}

/* The runs at a table, as token:pid:role. */
Datum
parvacuum_test_runs_find(PG_FUNCTION_ARGS)
{
	PvRunSeen  *seen;
	int			n = pv_runs_find(PG_GETARG_OID(0), PG_GETARG_OID(1), &seen);
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%s%d:%d:%u", i > 0 ? " " : "",
						 (int) seen[i].token, seen[i].pid, seen[i].role);
	PG_RETURN_TEXT_P(cstring_to_text(text.data));
}

/* The token of a process's run; null: none. */
Datum
parvacuum_test_runs_process(PG_FUNCTION_ARGS)
{
	PvRunSeen	seen;

	if (!pv_runs_find_process(PG_GETARG_INT32(0), &seen))
		PG_RETURN_NULL();
	PG_RETURN_INT64(seen.token);
}

/* The process that was signalled; null: none. */
Datum
parvacuum_test_run_cancel(PG_FUNCTION_ARGS)
{
	bool		done;

	signalled_pid = 0;
	done = pv_runs_cancel(PG_GETARG_INT64(0), PG_GETARG_OID(1), PG_GETARG_OID(2));
	if (done != (signalled_pid != 0))
		elog(ERROR, "signalled %d, but said %d", signalled_pid, done);
	if (!done)
		PG_RETURN_NULL();
	PG_RETURN_INT32(signalled_pid);
}
