/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  The function behind parvacuum_progress.
 *
 * Sessions run this.  It combines what core shows of each running vacuum, with
 * the numbers that each major version has, and what our own vacuums show in
 * addition (stats/progress.c).  From the latter it computes when the vacuum
 * will end (stats/eta.c).
 *
 * Rights.  Of a vacuum by another role, core's view shows only the process and
 * the database, except to members of pg_read_all_stats.  So does this
 * function, but it also lets the owner of a table see all vacuums of it.
 *
 * Locks: the spinlocks of stats/progress.c and the lock of the runs
 * (entry/runs.c), each for a moment.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

#include "base/compat.h"
#include "base/shmem.h"
#include "entry/rights.h"
#include "entry/runs.h"
#include "sched/worker.h"
#include "stats/progress.h"

PG_FUNCTION_INFO_V1(parvacuum_progress_items);

/* The columns, in the order of the function's declaration */
enum
{
	COL_PID,
	COL_LEADER_PID,
	COL_PARTICIPANT,
	COL_DATID,
	COL_RELID,
	COL_STARTED_BY,
	COL_CALLER_PID,
	COL_STARTED_AT,
	COL_PHASE,
	COL_HEAP_BLKS_TOTAL,
	COL_HEAP_BLKS_SCANNED,
	COL_HEAP_BLKS_VACUUMED,
	COL_INDEX_VACUUM_COUNT,
	COL_MAX_DEAD_TUPLES,
	COL_NUM_DEAD_TUPLES,
	COL_MAX_DEAD_TUPLE_BYTES,
	COL_DEAD_TUPLE_BYTES,
	COL_NUM_DEAD_ITEM_IDS,
	COL_INDEXES_TOTAL,
	COL_INDEXES_PROCESSED,
	COL_DELAY_TIME,
	COL_MODE,
	COL_INDEX_BLKS_TOTAL,
	COL_INDEX_BLKS_VISITED,
	COL_INDEX_SCANS_EXPECTED,
	COL_RATE,
	COL_PHASE_ETA,
	COL_ETA,
	COL_WORKERS,
	COL_DELAY_MS,
	COL_INDEXRELID,
	COL_RANGE_START,
	COL_RANGE_END,
	COL_WAIT_EVENT_TYPE,
	COL_WAIT_EVENT,
	NUM_COLUMNS
};

/* A row that is being filled in; all columns are NULL at first */
typedef struct Row
{
	Datum		values[NUM_COLUMNS];
	bool		nulls[NUM_COLUMNS];
} Row;

static void
set(Row *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

static void
set_int(Row *row, int column, int64 value)
{
	set(row, column, Int64GetDatum(value));
}

static void
set_text(Row *row, int column, const char *value)
{
	if (value != NULL)
		set(row, column, CStringGetTextDatum(value));
}

/* A number that this major version may not have, which is -1 then */
static void
set_int_if_any(Row *row, int column, int64 value)
{
	if (value >= 0)
		set_int(row, column, value);
}

static void
put_row(ReturnSetInfo *rsinfo, Row *row)
{
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values,
						 row->nulls);
}

/*
 * May the current role see the vacuum?
 *
 * Core: utils/adt/pgstatfuncs.c, HAS_PGSTAT_PERMISSIONS.
 */
static bool
may_see(const PgBackendStatus *backend)
{
	return has_privs_of_role(GetUserId(), backend->st_userid) ||
		pv_may_see_table(backend->st_databaseid,
						 backend->st_progress_command_target);
}

/* A phase of a vacuum, as in core's view */
static const char *
phase_of_core(int64 phase)
{
	static const char *const names[] = {
		"initializing",
		"scanning heap",
		"vacuuming indexes",
		"vacuuming heap",
		"cleaning up indexes",
		"truncating heap",
		"performing final cleanup",
	};

	return phase >= 0 && phase < (int64) lengthof(names) ? names[phase] : NULL;
}

/* What a participant does, in the same words */
static const char *
phase_of_part(PvPhase phase)
{
	static const char *const names[PV_NUM_PHASES] = {
		[PV_PHASE_IDLE] = "waiting for others",
		[PV_PHASE_SCAN] = "scanning heap",
		[PV_PHASE_INDEX] = "vacuuming indexes",
		[PV_PHASE_VACUUM_HEAP] = "vacuuming heap",
		[PV_PHASE_CLEANUP] = "cleaning up indexes",
		[PV_PHASE_TRUNCATE] = "truncating heap",
		[PV_PHASE_DONE] = "performing final cleanup",
	};

	return names[phase];
}

static void
set_wait_event(Row *row, int pid)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	uint32		event = proc ? proc->wait_event_info : 0;

	set_text(row, COL_WAIT_EVENT_TYPE, pgstat_get_wait_event_type(event));
	set_text(row, COL_WAIT_EVENT, pgstat_get_wait_event(event));
}

static bool
is_scheduler_worker(const PgBackendStatus *backend)
{
	const char *type = NULL;

	if (backend->st_backendType == B_BG_WORKER)
		type = GetBackgroundWorkerTypeByPid(backend->st_procpid);
	return type != NULL && strcmp(type, PV_SCHED_TYPE) == 0;
}

/*
 * Who started the vacuum.  If core's code vacuums the table, or nothing is
 * tracked, leader is NULL, and the process itself tells.
 */
static void
set_started_by(Row *row, const PgBackendStatus *backend,
			   const PvTracked *leader)
{
	PvRunSeen	run;
	PvStartedBy started_by = PV_STARTED_BY_COMMAND;

	if (pv_shmem_attached() && pv_runs_find_process(backend->st_procpid, &run))
	{
		started_by = PV_STARTED_BY_FUNCTION;
		if (run.caller_pid != 0)
			set(row, COL_CALLER_PID, Int32GetDatum(run.caller_pid));
	}
	else if (leader != NULL)
		started_by = leader->vacuum.started_by;
	else if (backend->st_backendType == B_AUTOVAC_WORKER)
		started_by = PV_STARTED_BY_AUTOVACUUM;
	else if (is_scheduler_worker(backend))
		started_by = PV_STARTED_BY_SCHEDULER;
	set_text(row, COL_STARTED_BY, pv_started_by_name[started_by]);
}

/* What core shows of a vacuum on this major version. */
static void
set_core_columns(Row *row, const PgBackendStatus *backend)
{
	const int64 *params = backend->st_progress_param;
	PvCoreProgress core;

	pv_core_progress(params, &core);
	set_text(row, COL_PHASE, phase_of_core(core.phase));
	set_int(row, COL_HEAP_BLKS_TOTAL, core.heap_blks_total);
	set_int(row, COL_HEAP_BLKS_SCANNED, core.heap_blks_scanned);
	set_int(row, COL_HEAP_BLKS_VACUUMED, core.heap_blks_vacuumed);
	set_int(row, COL_INDEX_VACUUM_COUNT, core.index_vacuum_count);
	set_int_if_any(row, COL_MAX_DEAD_TUPLES, core.max_dead_tuples);
	set_int_if_any(row, COL_NUM_DEAD_TUPLES, core.num_dead_tuples);
	set_int_if_any(row, COL_MAX_DEAD_TUPLE_BYTES, core.max_dead_tuple_bytes);
	set_int_if_any(row, COL_DEAD_TUPLE_BYTES, core.dead_tuple_bytes);
	set_int_if_any(row, COL_NUM_DEAD_ITEM_IDS, core.num_dead_item_ids);
	set_int_if_any(row, COL_INDEXES_TOTAL, core.indexes_total);
	set_int_if_any(row, COL_INDEXES_PROCESSED, core.indexes_processed);
	if (core.delay_time_ms >= 0)
		set(row, COL_DELAY_TIME, Float8GetDatum(core.delay_time_ms));
	set_text(row, COL_MODE, core.mode);
	set_int(row, COL_INDEX_BLKS_TOTAL, core.index_blks_total);
	set_int(row, COL_INDEX_BLKS_VISITED, core.index_blks_visited);
}

/*
 * A moment that is expected so many microseconds after the measurement.  It is
 * not in the past, even if the measurement is old.  What is no number, or in
 * thousands of years, is not shown.
 */
static void
set_eta(Row *row, int column, TimestampTz as_of, double usecs)
{
	if (!(usecs >= 0 && usecs <= 1e17))
		return;
	set(row, column,
		TimestampTzGetDatum(Max(as_of + (TimestampTz) usecs,
								GetCurrentTimestamp())));
}

/*
 * What a vacuum of ours shows in addition.  slept_usecs is the sum over the
 * participants that there are, which is newer than that of the leader.
 */
static void
set_our_columns(Row *row, const PvTrackedVacuum *vacuum, int64 slept_usecs)
{
	PvEta		eta;

	set(row, COL_STARTED_AT, TimestampTzGetDatum(vacuum->started_at));
	if (vacuum->store_limit > 0)
	{
		set_int(row, COL_MAX_DEAD_TUPLE_BYTES, vacuum->store_limit);
		set_int(row, COL_DEAD_TUPLE_BYTES, vacuum->store_bytes);
		set_int(row, COL_NUM_DEAD_ITEM_IDS, vacuum->store_items);
	}
	set_int(row, COL_INDEXES_TOTAL, vacuum->nindexes);
	set_int(row, COL_INDEXES_PROCESSED, vacuum->indexes_done);
	set_text(row, COL_MODE, vacuum->failsafe ? "failsafe" :
			 vacuum->aggressive ? "aggressive" : "normal");
	set(row, COL_WORKERS, Int32GetDatum(vacuum->workers));
	set(row, COL_DELAY_MS,
		Float8GetDatum(Max(slept_usecs, vacuum->slept_usecs) / 1000.0));

	pv_eta(&vacuum->eta, &vacuum->past, &eta);
	if (eta.index_scans >= 0)
		set(row, COL_INDEX_SCANS_EXPECTED, Int32GetDatum(eta.index_scans));
	if (eta.rate >= 0)
		set(row, COL_RATE, Float8GetDatum(eta.rate));
	set_eta(row, COL_PHASE_ETA, vacuum->as_of, eta.phase_usecs);
	set_eta(row, COL_ETA, vacuum->as_of, eta.usecs);
}

/* The row of a participant. */
static void
put_participant(ReturnSetInfo *rsinfo, const Row *vacuum,
				const PvTracked *tracked)
{
	const PvTrackedPart *part = &tracked->part;
	Row			row;

	memset(row.nulls, true, sizeof(row.nulls));
	for (int column = COL_DATID; column <= COL_STARTED_AT; column++)
	{
		row.values[column] = vacuum->values[column];
		row.nulls[column] = vacuum->nulls[column];
	}
	set(&row, COL_PID, Int32GetDatum(tracked->pid));
	set(&row, COL_LEADER_PID, Int32GetDatum(part->leader_pid));
	set(&row, COL_PARTICIPANT, Int32GetDatum(part->participant));
	set_text(&row, COL_PHASE, phase_of_part(part->phase));
	set_int(&row, COL_HEAP_BLKS_SCANNED, part->heap_blks_scanned);
	set_int(&row, COL_HEAP_BLKS_VACUUMED, part->heap_blks_vacuumed);
	set_int(&row, COL_INDEX_BLKS_VISITED, part->index_blks_visited);
	set(&row, COL_DELAY_MS, Float8GetDatum(part->slept_usecs / 1000.0));
	if (OidIsValid(part->indexrelid))
		set(&row, COL_INDEXRELID, ObjectIdGetDatum(part->indexrelid));
	if (part->range_end != InvalidBlockNumber)
	{
		set_int(&row, COL_RANGE_START, part->range_start);
		set_int(&row, COL_RANGE_END, part->range_end);
	}
	set_wait_event(&row, tracked->pid);
	put_row(rsinfo, &row);
}

/* Does this process take part in the vacuum of that leader? */
static bool
takes_part(const PvTracked *tracked, int leader_pid)
{
	return tracked->takes_part && tracked->part.leader_pid == leader_pid;
}

/* The row of a vacuum, and those of its participants. */
static void
put_vacuum(ReturnSetInfo *rsinfo, const PgBackendStatus *backend,
		   const PvTracked *tracked, int ntracked)
{
	int			pid = backend->st_procpid;
	Oid			relid = backend->st_progress_command_target;
	const PvTracked *leader = NULL;
	int64		slept_usecs = 0;
	Row			row;

	memset(row.nulls, true, sizeof(row.nulls));
	set(&row, COL_PID, Int32GetDatum(pid));
	set(&row, COL_DATID, ObjectIdGetDatum(backend->st_databaseid));
	if (!may_see(backend))
	{
		put_row(rsinfo, &row);
		return;
	}

	for (int i = 0; i < ntracked; i++)
	{
		if (tracked[i].pid == pid && tracked[i].leads &&
			tracked[i].vacuum.relid == relid)
			leader = &tracked[i];
		if (takes_part(&tracked[i], pid))
			slept_usecs += tracked[i].part.slept_usecs;
	}
	set(&row, COL_RELID, ObjectIdGetDatum(relid));
	set_started_by(&row, backend, leader);
	set_core_columns(&row, backend);
	if (leader != NULL)
		set_our_columns(&row, &leader->vacuum, slept_usecs);
	set_wait_event(&row, pid);
	put_row(rsinfo, &row);

	for (int i = 0; i < ntracked && leader != NULL; i++)
	{
		if (takes_part(&tracked[i], pid))
			put_participant(rsinfo, &row, &tracked[i]);
	}
}

/*
 * parvacuum_progress_items(): returns one row for each running vacuum, and one
 * for each process that takes part in it.
 */
Datum
parvacuum_progress_items(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			nbackends = pgstat_fetch_stat_numbackends();
	PvTracked  *tracked;
	int			ntracked = pv_track_read(&tracked);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 1; i <= nbackends; i++)
	{
		const PgBackendStatus *backend = pv_backend_status(i);

		if (backend != NULL &&
			backend->st_progress_command == PROGRESS_COMMAND_VACUUM)
			put_vacuum(rsinfo, backend, tracked, ntracked);
	}
	return (Datum) 0;
}
