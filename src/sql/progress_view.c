/*-------------------------------------------------------------------------
 *
 * progress_view.c
 *	  The function behind parvacuum_progress.
 *
 * Sessions run this.  It combines what core shows of each running vacuum, and
 * what our own vacuums show in addition (stats/registry.c).  From the latter
 * it computes when the vacuum will end (stats/eta.c).
 *
 * Rights.  Of a vacuum by another role, core's view shows only the process and
 * the database, except to members of pg_read_all_stats.  So does this
 * function, but it also lets the owner of a table see all vacuums of it.
 *
 * Locks: those of stats/registry.c, each for a moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/progress.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "base/compat.h"
#include "base/process.h"
#include "entry/dispatch.h"
#include "sched/queue.h"
#include "sql/call.h"
#include "stats/registry.h"

PG_FUNCTION_INFO_V1(parvacuum_progress_items);

#define NUM_COLUMNS				35

/* What the rows of a vacuum have in common */
typedef struct Head
{
	const PgBackendStatus *backend;
	PvStartedBy started_by;
	int			caller_pid;		/* 0: none */
	TimestampTz started_at;		/* 0: not known */
} Head;

static void
put_head(PvRow *row, const Head *head, int pid, const PvTrackedPart *part)
{
	pv_put(row, Int32GetDatum(pid));
	pv_put_if(row, part != NULL, Int32GetDatum(part ? part->leader_pid : 0));
	pv_put_if(row, part != NULL, Int32GetDatum(part ? part->participant : 0));
	pv_put_oid(row, head->backend->st_databaseid);
	pv_put_oid(row, head->backend->st_progress_command_target);
	pv_put_text(row, pv_started_by_name[head->started_by],
				GetDatabaseEncoding());
	pv_put_if(row, head->caller_pid != 0, Int32GetDatum(head->caller_pid));
	pv_put_time(row, head->started_at);
}

/*
 * May the current role see the vacuum?  Core: utils/adt/pgstatfuncs.c,
 * HAS_PGSTAT_PERMISSIONS.
 */
static bool
may_see(const PgBackendStatus *backend)
{
	return has_privs_of_role(GetUserId(), backend->st_userid) ||
		pv_may_see_table(backend->st_databaseid,
						 backend->st_progress_command_target);
}

/*
 * Add a phase, in the words of core's view.  Its numbers and PvPhase are the
 * same but for the first one.
 */
static void
put_phase(PvRow *row, const char *first, int64 phase)
{
	static const char *const names[PV_NUM_PHASES] = {
		NULL,
		"scanning heap",
		"vacuuming indexes",
		"vacuuming heap",
		"cleaning up indexes",
		"truncating heap",
		"performing final cleanup",
	};

	StaticAssertStmt((int) PV_PHASE_SCAN == PROGRESS_VACUUM_PHASE_SCAN_HEAP &&
					 (int) PV_PHASE_DONE ==
					 PROGRESS_VACUUM_PHASE_FINAL_CLEANUP,
					 "phases must be numbered as in core");
	pv_put_text(row, phase == 0 ? first :
				phase > 0 && phase < PV_NUM_PHASES ? names[phase] : NULL,
				GetDatabaseEncoding());
}

static void
put_wait_event(PvRow *row, int pid)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	uint32		event = proc ? proc->wait_event_info : 0;

	pv_put_text(row, pgstat_get_wait_event_type(event), GetDatabaseEncoding());
	pv_put_text(row, pgstat_get_wait_event(event), GetDatabaseEncoding());
}

/* Find out who started the vacuum.  One by core's code is not registered. */
static void
find_starter(Head *head)
{
	int			pid = head->backend->st_procpid;
	PvVacuuming vacuum;

	if (pv_shmem_attached() && pv_registry_find_process(pid, &vacuum))
	{
		head->started_by = vacuum.started_by;
		head->caller_pid = vacuum.caller_pid;
	}
	else if (head->backend->st_backendType == B_AUTOVAC_WORKER)
		head->started_by = PV_STARTED_BY_AUTOVACUUM;
	else if (pv_process_is(pid, PV_SCHED_TYPE))
		head->started_by = PV_STARTED_BY_SCHEDULER;
}

/* Add what core's view shows, or what our own vacuum, if any, knows better. */
static void
put_progress(PvRow *row, const int64 *params, const PvTrackedVacuum *ours)
{
	int64		counts[PV_NUM_PROGRESS_COUNTS];
	double		delay_ms = pv_progress_delay_ms(params);
	const char *mode = pv_progress_mode_name(params);

	for (int i = 0; i < PV_NUM_PROGRESS_COUNTS; i++)
		counts[i] = pv_progress_param[i] < 0 ? -1 :
			params[pv_progress_param[i]];
	if (ours != NULL && ours->store_limit > 0)
	{
		counts[PV_MAX_DEAD_TUPLE_BYTES] = ours->store_limit;
		counts[PV_DEAD_TUPLE_BYTES] = ours->store_bytes;
		counts[PV_NUM_DEAD_ITEM_IDS] = ours->store_items;
	}
	if (ours != NULL)
	{
		counts[PV_INDEXES_TOTAL] = ours->nindexes;
		counts[PV_INDEXES_PROCESSED] = ours->indexes_done;
		mode = ours->failsafe ? "failsafe" :
			ours->aggressive ? "aggressive" : "normal";
	}

	put_phase(row, "initializing", params[PROGRESS_VACUUM_PHASE]);
	for (int i = 0; i < PV_NUM_PROGRESS_COUNTS; i++)
		pv_put_if(row, counts[i] >= 0, Int64GetDatum(counts[i]));
	pv_put_if(row, delay_ms >= 0, Float8GetDatum(delay_ms));
	pv_put_text(row, mode, GetDatabaseEncoding());
	pv_put_int8(row, params[PROGRESS_SCAN_BLOCKS_TOTAL]);
	pv_put_int8(row, params[PROGRESS_SCAN_BLOCKS_DONE]);
}

/*
 * Add a moment that is expected so many microseconds after the measurement,
 * but not in the past.  What is no number, or in thousands of years, is NULL.
 */
static void
put_eta(PvRow *row, TimestampTz as_of, double usecs)
{
	bool		known = usecs >= 0 && usecs <= 1e17;

	pv_put_time(row, !known ? 0 : Max(as_of + (TimestampTz) usecs,
									  GetCurrentTimestamp()));
}

/* Add the columns that only our own vacuums have. */
static void
put_ours(PvRow *row, const PvTrackedVacuum *vacuum, int64 slept_usecs)
{
	PvEta		eta;

	pv_eta(&vacuum->eta, &vacuum->past, &eta);
	pv_put_if(row, eta.index_scans >= 0, Int32GetDatum(eta.index_scans));
	pv_put_if(row, eta.rate >= 0, Float8GetDatum(eta.rate));
	put_eta(row, vacuum->as_of, eta.phase_usecs);
	put_eta(row, vacuum->as_of, eta.usecs);
	pv_put(row, Int32GetDatum(vacuum->workers));
	pv_put_ms(row, slept_usecs);
}

/* Return the row of a participant. */
static void
return_participant(FunctionCallInfo fcinfo, const Head *head,
				   const PvTracked *tracked)
{
	const PvTrackedPart *part = &tracked->part;
	bool		in_range = part->range_end != InvalidBlockNumber;
	PvRow		row = {0};

	put_head(&row, head, tracked->pid, part);
	put_phase(&row, "waiting for others", part->phase);
	pv_put_nulls(&row, 1);
	pv_put_int8(&row, part->heap_blks_scanned);
	pv_put_int8(&row, part->heap_blks_vacuumed);
	pv_put_nulls(&row, 11);		/* to index_blks_total */
	pv_put_int8(&row, part->index_blks_visited);
	pv_put_nulls(&row, 5);		/* to workers */
	pv_put_ms(&row, part->slept_usecs);
	pv_put_oid(&row, part->indexrelid);
	pv_put_if(&row, in_range, Int64GetDatum((int64) part->range_start));
	pv_put_if(&row, in_range, Int64GetDatum((int64) part->range_end));
	put_wait_event(&row, tracked->pid);
	pv_return_row(fcinfo, &row);
}

/*
 * Return the row of a vacuum, and those of its participants.  The time that
 * these have slept is newer than the sum that the leader knows.
 */
static void
return_vacuum(FunctionCallInfo fcinfo, const PgBackendStatus *backend,
			  const PvTracked *tracked, int ntracked)
{
	int			pid = backend->st_procpid;
	Head		head = {.backend = backend};
	const PvTrackedVacuum *ours = NULL;
	int64		slept_usecs = 0;
	PvRow		row = {0};

	if (!may_see(backend))
	{
		pv_put(&row, Int32GetDatum(pid));
		pv_put_nulls(&row, 2);
		pv_put_oid(&row, backend->st_databaseid);
		pv_put_nulls(&row, NUM_COLUMNS - row.n);
		pv_return_row(fcinfo, &row);
		return;
	}

	for (int i = 0; i < ntracked; i++)
	{
		if (tracked[i].pid == pid && tracked[i].leads &&
			tracked[i].vacuum.relid == backend->st_progress_command_target)
			ours = &tracked[i].vacuum;
		if (tracked[i].takes_part && tracked[i].part.leader_pid == pid)
			slept_usecs += tracked[i].part.slept_usecs;
	}
	find_starter(&head);
	if (ours != NULL)
		head.started_at = ours->started_at;

	put_head(&row, &head, pid, NULL);
	put_progress(&row, backend->st_progress_param, ours);
	if (ours != NULL)
		put_ours(&row, ours, Max(slept_usecs, ours->slept_usecs));
	pv_put_nulls(&row, NUM_COLUMNS - 2 - row.n);	/* those of participants */
	put_wait_event(&row, pid);
	pv_return_row(fcinfo, &row);

	for (int i = 0; i < ntracked && ours != NULL; i++)
	{
		if (tracked[i].takes_part && tracked[i].part.leader_pid == pid)
			return_participant(fcinfo, &head, &tracked[i]);
	}
}

/*
 * parvacuum_progress_items(): return one row for each running vacuum, and one
 * for each process that takes part in it.
 */
Datum
parvacuum_progress_items(PG_FUNCTION_ARGS)
{
	int			nbackends = pgstat_fetch_stat_numbackends();
	PvTracked  *tracked;
	int			ntracked = pv_track_read(&tracked);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 1; i <= nbackends; i++)
	{
		const PgBackendStatus *backend = pv_backend_status(i);

		if (backend->st_progress_command == PROGRESS_COMMAND_VACUUM)
			return_vacuum(fcinfo, backend, tracked, ntracked);
	}
	return (Datum) 0;
}
