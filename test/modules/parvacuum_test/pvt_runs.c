/*-------------------------------------------------------------------------
 *
 * pvt_runs.c
 *	  The table of runs, driven from SQL without any process.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "entry/run_table.h"

PG_FUNCTION_INFO_V1(parvacuum_test_runs);
PG_FUNCTION_INFO_V1(parvacuum_test_run_enter);
PG_FUNCTION_INFO_V1(parvacuum_test_run_leave);
PG_FUNCTION_INFO_V1(parvacuum_test_run_attach);
PG_FUNCTION_INFO_V1(parvacuum_test_run_at);
PG_FUNCTION_INFO_V1(parvacuum_test_run_exit);
PG_FUNCTION_INFO_V1(parvacuum_test_runs_find);
PG_FUNCTION_INFO_V1(parvacuum_test_runs_process);
PG_FUNCTION_INFO_V1(parvacuum_test_run_cancel);

static PvRunTable table;
static int	max_runs;

/* The place of a run, wherever it is. */
static PvRunPlace
place_of(int64 token)
{
	PvRunPlace	place = {
		.slot = 0,
		.token = token
	};

	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		if (table.runs[i].token == (uint64) token)
			place.slot = i;
	}
	return place;
}

/* The run whose leader has this PID. */
static PvRunSlot *
run_of(int pid)
{
	for (int i = 0; i < PV_MAX_RUNS; i++)
	{
		if (table.runs[i].leader_pid == pid)
			return &table.runs[i];
	}
	elog(ERROR, "no leader %d", pid);
}

/* No runs, and the number that is allowed. */
Datum
parvacuum_test_runs(PG_FUNCTION_ARGS)
{
	memset(&table, 0, sizeof(table));
	max_runs = PG_GETARG_INT32(0);
	PG_RETURN_VOID();
}

/* The token, 0 if all places are taken, or -1 if the role's are. */
Datum
parvacuum_test_run_enter(PG_FUNCTION_ARGS)
{
	PvRunRequest request = {
		.pid = PG_GETARG_INT32(0),
		.database = PG_GETARG_OID(1),
		.role = PG_GETARG_OID(2),
		.is_superuser = PG_GETARG_BOOL(3),
		.relid = PG_GETARG_OID(4)
	};
	PvRunPlace	place;
	PvRunAnswer answer = pv_run_table_enter(&table, max_runs, &request,
											&place);

	PG_RETURN_INT64(answer == PV_RUN_SHARE_TAKEN ? -1 : (int64) place.token);
}

Datum
parvacuum_test_run_leave(PG_FUNCTION_ARGS)
{
	PvRunPlace	place = place_of(PG_GETARG_INT64(1));

	pv_run_table_leave(&table, &place, PG_GETARG_INT32(0));
	pv_run_table_leave(&table, &place, PG_GETARG_INT32(0)); /* once is enough */
	PG_RETURN_VOID();
}

Datum
parvacuum_test_run_attach(PG_FUNCTION_ARGS)
{
	PvRunPlace	place = place_of(PG_GETARG_INT64(1));

	PG_RETURN_BOOL(pv_run_table_attach(&table, &place,
									   PG_GETARG_INT32(0)) != NULL);
}

/* At this table, with this parent; at 0: at none. */
Datum
parvacuum_test_run_at(PG_FUNCTION_ARGS)
{
	bool		at_one = OidIsValid(PG_GETARG_OID(1));

	pv_run_table_set_relation(run_of(PG_GETARG_INT32(0)), PG_GETARG_OID(1),
							  at_one ? PG_GETARG_OID(2) : InvalidOid);
	PG_RETURN_VOID();
}

Datum
parvacuum_test_run_exit(PG_FUNCTION_ARGS)
{
	pv_run_table_exit(run_of(PG_GETARG_INT32(0)));
	PG_RETURN_VOID();
}

/* The runs at a table, as token:pid:role. */
Datum
parvacuum_test_runs_find(PG_FUNCTION_ARGS)
{
	PvRunSeen	seen[PV_MAX_RUNS];
	int			n = pv_run_table_find(&table, PG_GETARG_OID(0),
									  PG_GETARG_OID(1), seen);
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

	if (!pv_run_table_find_process(&table, PG_GETARG_INT32(0), &seen))
		PG_RETURN_NULL();
	PG_RETURN_INT64(seen.token);
}

/* The process that is to be signalled; null: none. */
Datum
parvacuum_test_run_cancel(PG_FUNCTION_ARGS)
{
	int			pid = pv_run_table_process_at(&table, PG_GETARG_INT64(0),
											  PG_GETARG_OID(1),
											  PG_GETARG_OID(2));

	if (pid == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32(pid);
}
