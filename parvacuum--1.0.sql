/* parvacuum--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum" to load this file. \quit

-- A schema that has nothing else is there for the views, which all roles may read, so that
-- members of pg_monitor can use them.  What is in another schema is not for us to open.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_namespace n ON d.refobjid OPERATOR(pg_catalog.=) n.oid
                   WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid AND
                         d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid AND
                         n.nspname OPERATOR(pg_catalog.=) pg_catalog.current_schema()) THEN
        EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA %I TO pg_monitor', pg_catalog.current_schema());
    END IF;
END
$$;

-- Refuses a library that is older than the extension, and warns if it is not preloaded, with the
-- line for postgresql.conf.

CREATE FUNCTION parvacuum_check_library() RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C;
SELECT parvacuum_check_library();
DROP FUNCTION parvacuum_check_library();

-- The figures of a vacuum, in the order of PV_FIGURES in src/stats/result.h.  The view of the
-- history and the type of parvacuum_run_cluster() take their columns from here.

CREATE TYPE parvacuum_result AS (
    relid regclass,
    workers_planned int,
    workers_launched int,
    pages_total bigint,
    pages_scanned bigint,
    pages_removed bigint,
    tuples_removed bigint,
    tuples_remaining bigint,
    tuples_remaining_estimated bool,
    tuples_recently_dead bigint,
    tuples_missed bigint,
    dead_items bigint,
    index_scans int,
    dead_tuple_bytes bigint,
    heap_scan_ms double precision,
    index_vacuum_ms double precision,
    heap_vacuum_ms double precision,
    index_cleanup_ms double precision,
    truncate_ms double precision,
    elapsed_ms double precision,
    paced_ms double precision,
    wal_records bigint,
    wal_fpi bigint,
    wal_bytes numeric,
    buffers_hit bigint,
    buffers_read bigint,
    buffers_dirtied bigint,
    oldest_xmin xid,
    relfrozenxid_advanced bool,
    index_scan_bypassed bool,
    items_kept bigint,
    items_taken_over bigint,
    indexes_taken_over int,
    ended_early bool);

COMMENT ON TYPE parvacuum_result IS
'what a vacuum of a table has done, as parvacuum_run() returns it';

-- Those of which there are totals

CREATE TYPE parvacuum_sums AS (
    pages_scanned bigint,
    pages_removed bigint,
    tuples_removed bigint,
    dead_items bigint,
    index_scans bigint,
    elapsed_ms double precision,
    paced_ms double precision,
    wal_records bigint,
    wal_fpi bigint,
    wal_bytes numeric,
    buffers_hit bigint,
    buffers_read bigint,
    buffers_dirtied bigint,
    items_taken_over bigint);

COMMENT ON TYPE parvacuum_sums IS
'what several vacuums have done, all in all';

-- A table of such a type would keep an update of the extension from adding columns.

REVOKE USAGE ON TYPE parvacuum_result, parvacuum_sums FROM PUBLIC;

-- These two check rights themselves, by VACUUM's rules, so all roles may execute them.

CREATE FUNCTION parvacuum_run(
    rel regclass,
    workers int DEFAULT NULL,
    freeze bool DEFAULT false,
    index_cleanup text DEFAULT 'auto',
    truncate bool DEFAULT NULL,
    "analyze" bool DEFAULT false,
    skip_locked bool DEFAULT false,
    disable_page_skipping bool DEFAULT false,
    verbose bool DEFAULT false,
    time_limit interval DEFAULT NULL)
RETURNS SETOF parvacuum_result
AS 'MODULE_PATHNAME', 'parvacuum_run'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000000 ROWS 10;

COMMENT ON FUNCTION parvacuum_run(regclass, int, bool, text, bool, bool, bool, bool, bool, interval) IS
'vacuum a table in parallel, in a process of its own, and return a row for each table and TOAST table vacuumed; tuples_remaining does not include dead rows, which are counted in tuples_recently_dead and tuples_missed, and is an estimate if tuples_remaining_estimated is true; a SELECT that reads no table waits without a snapshot, and the snapshot of any other statement holds back the removal of dead rows during the whole run, as CALL parvacuum() never does';

CREATE PROCEDURE parvacuum(
    rel regclass,
    workers int DEFAULT NULL,
    freeze bool DEFAULT false,
    index_cleanup text DEFAULT 'auto',
    truncate bool DEFAULT NULL,
    "analyze" bool DEFAULT false,
    skip_locked bool DEFAULT false,
    disable_page_skipping bool DEFAULT false,
    verbose bool DEFAULT false,
    time_limit interval DEFAULT NULL)
AS 'MODULE_PATHNAME', 'parvacuum_call'
LANGUAGE C;

COMMENT ON PROCEDURE parvacuum(regclass, int, bool, text, bool, bool, bool, bool, bool, interval) IS
'vacuum a table in parallel, in a process of its own; commits first, waits without a snapshot, and reports each table and TOAST table vacuumed in a notice';

-- What a vacuum would do.  It checks rights itself.

CREATE FUNCTION parvacuum_plan(
    rel regclass,
    workers int DEFAULT NULL,
    freeze bool DEFAULT false,
    disable_page_skipping bool DEFAULT false,
    OUT relid oid,
    OUT relation regclass,
    OUT pages_total bigint,
    OUT pages_to_scan bigint,
    OUT pages_to_skip bigint,
    OUT tuples_to_remove bigint,
    OUT tuples_recently_dead bigint,
    OUT dead_items bigint,
    OUT index_scans int,
    OUT dead_tuple_bytes bigint,
    OUT max_dead_tuple_bytes bigint,
    OUT workers_planned int,
    OUT indexes int,
    OUT heap_scan_ms double precision,
    OUT index_vacuum_ms double precision,
    OUT heap_vacuum_ms double precision,
    OUT elapsed_ms double precision,
    OUT aggressive bool,
    OUT pages_to_freeze bigint,
    OUT oldest_xmin xid,
    OUT freeze_limit xid,
    OUT relfrozenxid xid,
    OUT new_relfrozenxid xid,
    OUT relminmxid xid,
    OUT new_relminmxid xid,
    OUT useless bool,
    OUT reason text,
    OUT items_kept bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_plan'
LANGUAGE C VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT
COST 10000 ROWS 2;

COMMENT ON FUNCTION parvacuum_plan(regclass, int, bool, bool) IS
'what a vacuum of the table would do now, without doing it: one row for the table and one for its TOAST table, or these for each partition; numbers of pages come from the visibility map, numbers of rows from a sample of pages, times from the last vacuum of the table that a session asked for; useless and reason say whether there is nothing that it could do now';

CREATE FUNCTION parvacuum_sweep(
    index regclass,
    OUT pages_total bigint,
    OUT pages_visited bigint,
    OUT pages_changed bigint,
    OUT tuples_deleted bigint,
    OUT bytes_freed bigint,
    OUT elapsed_ms double precision)
AS 'MODULE_PATHNAME', 'parvacuum_sweep'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000000;

COMMENT ON FUNCTION parvacuum_sweep(regclass) IS
'delete dead row versions from the leaf pages of a B-tree, so that insertions need not split the pages; needs no vacuum, runs concurrently with reads and writes, and keeps what the snapshot of this transaction might see';

CREATE PROCEDURE parvacuum_sweep_index(index regclass)
AS 'MODULE_PATHNAME', 'parvacuum_sweep_call'
LANGUAGE C;

COMMENT ON PROCEDURE parvacuum_sweep_index(regclass) IS
'the same as parvacuum_sweep(); commits first, takes a new snapshot every few pages, and has no snapshot while vacuum_cost_delay makes it sleep, so that a long sweep does not hold back the removal of dead rows';

-- The progress of vacuums.  The view is not based on core's view: its columns change between
-- major versions, which would break pg_upgrade.

CREATE FUNCTION parvacuum_progress_items(
    OUT pid int,
    OUT leader_pid int,
    OUT participant int,
    OUT datid oid,
    OUT relid oid,
    OUT started_by text,
    OUT caller_pid int,
    OUT started_at timestamptz,
    OUT phase text,
    OUT heap_blks_total bigint,
    OUT heap_blks_scanned bigint,
    OUT heap_blks_vacuumed bigint,
    OUT index_vacuum_count bigint,
    OUT max_dead_tuples bigint,
    OUT num_dead_tuples bigint,
    OUT max_dead_tuple_bytes bigint,
    OUT dead_tuple_bytes bigint,
    OUT num_dead_item_ids bigint,
    OUT indexes_total bigint,
    OUT indexes_processed bigint,
    OUT delay_time float8,
    OUT mode text,
    OUT index_blks_total bigint,
    OUT index_blks_visited bigint,
    OUT index_scans_expected int,
    OUT rate float8,
    OUT phase_eta timestamptz,
    OUT eta timestamptz,
    OUT workers int,
    OUT delay_ms float8,
    OUT indexrelid oid,
    OUT range_start bigint,
    OUT range_end bigint,
    OUT wait_event_type text,
    OUT wait_event text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_progress_items'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT
ROWS 10;

COMMENT ON FUNCTION parvacuum_progress_items() IS
'the function behind parvacuum_progress: running vacuums and the processes that take part in them';

CREATE VIEW parvacuum_progress AS
SELECT p.pid,
       p.leader_pid,
       p.participant,
       p.datid,
       d.datname,
       p.relid,
       CASE WHEN d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
            THEN p.relid::pg_catalog.regclass END AS relation,
       p.started_by,
       p.caller_pid,
       p.started_at,
       p.phase,
       p.heap_blks_total,
       p.heap_blks_scanned,
       p.heap_blks_vacuumed,
       p.index_vacuum_count,
       p.max_dead_tuples,
       p.num_dead_tuples,
       p.max_dead_tuple_bytes,
       p.dead_tuple_bytes,
       p.num_dead_item_ids,
       p.indexes_total,
       p.indexes_processed,
       p.delay_time,
       p.mode,
       p.index_blks_total,
       p.index_blks_visited,
       p.index_scans_expected,
       p.rate,
       p.phase_eta,
       p.eta,
       p.workers,
       p.delay_ms,
       p.indexrelid,
       CASE WHEN d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
            THEN p.indexrelid::pg_catalog.regclass END AS index_relation,
       p.range_start,
       p.range_end,
       p.wait_event_type,
       p.wait_event
FROM parvacuum_progress_items() p
     LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.datid;

COMMENT ON VIEW parvacuum_progress IS
'running vacuums, as in pg_stat_progress_vacuum, with a forecast of their end; one row per vacuum, where participant is null, and for vacuums by parvacuum one row per process that takes part; for vacuums by other roles only the owner of the table and members of pg_read_all_stats see more than pid and database';

GRANT SELECT ON parvacuum_progress TO PUBLIC;

-- What holds back the horizon.

CREATE FUNCTION parvacuum_blockers(
    rel regclass DEFAULT NULL,
    OUT kind text,
    OUT pid int,
    OUT name text,
    OUT usename name,
    OUT datid oid,
    OUT datname name,
    OUT holds text,
    OUT xmin xid,
    OUT xmin_age int,
    OUT since timestamptz,
    OUT duration interval,
    OUT tuples_kept bigint,
    OUT state text,
    OUT query text,
    OUT release text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_blockers'
LANGUAGE C VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT
ROWS 20;

COMMENT ON FUNCTION parvacuum_blockers(regclass) IS
'what keeps VACUUM from removing dead rows of a table, or without a table those of any: sessions, prepared transactions, standbys and replication slots, the age of what each holds in transactions, the dead rows that the last vacuums kept because of it, and a statement that makes it let go; the calling session is left out';

CREATE VIEW parvacuum_blockers AS
SELECT * FROM parvacuum_blockers(NULL::pg_catalog.regclass);

COMMENT ON VIEW parvacuum_blockers IS
'what keeps VACUUM from removing dead rows: sessions, prepared transactions, standbys and replication slots, the age of what each holds in transactions, the dead rows that the last vacuums kept because of it, and a statement that makes it let go; of sessions of other roles only members of pg_read_all_stats see more than pid, database and age';

GRANT SELECT ON parvacuum_blockers TO PUBLIC;

-- Advice.

CREATE FUNCTION parvacuum_check(
    OUT severity text,
    OUT name text,
    OUT subject text,
    OUT relid oid,
    OUT relation regclass,
    OUT reason text,
    OUT evidence text,
    OUT setting text,
    OUT advice text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_check'
LANGUAGE C VOLATILE PARALLEL RESTRICTED
ROWS 10;

COMMENT ON FUNCTION parvacuum_check() IS
'what should be changed in the server and its settings and about the tables of this database, the most severe first, with the numbers that show it, some of which are estimates and say so; only members of pg_read_all_stats see more than their own tables';

-- Options of tables.  All roles may read them, like reloptions.

CREATE FUNCTION parvacuum_table_options(
    rel regclass,
    OUT buffer_usage_limit int,
    OUT buffer_usage_limit_from text,
    OUT enabled bool,
    OUT enabled_from text,
    OUT sweep bool,
    OUT sweep_from text,
    OUT vacuum_window text,
    OUT vacuum_window_from text,
    OUT workers int,
    OUT workers_from text,
    OUT declined text)
AS 'MODULE_PATHNAME', 'parvacuum_table_options'
LANGUAGE C STABLE PARALLEL SAFE STRICT;

COMMENT ON FUNCTION parvacuum_table_options(regclass) IS
'the parvacuum options that apply to a table, where each comes from, and why parvacuum would leave the table to PostgreSQL''s own VACUUM although it is enabled';

CREATE VIEW parvacuum_tables AS
SELECT c.oid AS relid,
       c.oid::pg_catalog.regclass AS relation,
       o.enabled,
       CASE o.enabled_from WHEN 'setting' THEN s.source ELSE o.enabled_from END AS enabled_from,
       o.workers,
       o.workers_from,
       o.buffer_usage_limit,
       CASE o.buffer_usage_limit_from WHEN 'setting' THEN b.source ELSE o.buffer_usage_limit_from END AS buffer_usage_limit_from,
       o.sweep,
       CASE o.sweep_from WHEN 'setting' THEN p.source ELSE o.sweep_from END AS sweep_from,
       o.vacuum_window,
       CASE o.vacuum_window_from WHEN 'setting' THEN w.source ELSE o.vacuum_window_from END AS vacuum_window_from,
       o.declined
FROM pg_catalog.pg_class c
     CROSS JOIN LATERAL parvacuum_table_options(c.oid::pg_catalog.regclass) o
     LEFT JOIN pg_catalog.pg_settings s ON s.name OPERATOR(pg_catalog.=) 'parvacuum.enabled'
     LEFT JOIN pg_catalog.pg_settings b ON b.name OPERATOR(pg_catalog.=) 'parvacuum.buffer_usage_limit'
     LEFT JOIN pg_catalog.pg_settings p ON p.name OPERATOR(pg_catalog.=) 'parvacuum.sweep'
     LEFT JOIN pg_catalog.pg_settings w ON w.name OPERATOR(pg_catalog.=) 'parvacuum.window'
WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,m}'::"char"[])
  AND c.relnamespace OPERATOR(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace;

COMMENT ON VIEW parvacuum_tables IS
'all tables with the parvacuum options that apply to them, and where each option comes from: table, ancestor, another source of the setting of the same name such as database, or default';

GRANT SELECT ON parvacuum_tables TO PUBLIC;

CREATE FUNCTION parvacuum_reset_options() RETURNS int
AS 'MODULE_PATHNAME', 'parvacuum_reset_options'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION parvacuum_reset_options() IS
'remove the parvacuum options of all tables of this database, and return the number of tables that had any; for the owner of the database and superusers';

-- The scheduler.

CREATE FUNCTION parvacuum_queue_items(
    OUT datid oid,
    OUT relid oid,
    OUT state text,
    OUT reason text,
    OUT since timestamptz,
    OUT until timestamptz,
    OUT "position" int,
    OUT pid int,
    OUT action text,
    OUT done text,
    OUT wraparound bool,
    OUT size_class text,
    OUT score float8,
    OUT dead_score float8,
    OUT insert_score float8,
    OUT analyze_score float8,
    OUT xid_score float8,
    OUT mxid_score float8,
    OUT sweep_score float8,
    OUT requested bool,
    OUT urgent bool,
    OUT owner_seconds float8,
    OUT pages bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_queue_items'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_queue_items() IS
'the tables that the scheduler will vacuum or is vacuuming: for members of pg_read_all_stats in all databases, for other roles in the current database, without pid and owner_seconds';

CREATE VIEW parvacuum_queue AS
SELECT q.datid,
       d.datname,
       q.relid,
       CASE WHEN d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
            THEN q.relid::pg_catalog.regclass END AS relation,
       q.state,
       q.reason,
       q.since,
       q.until,
       q.position,
       q.pid,
       q.action,
       q.done,
       q.wraparound,
       q.size_class,
       q.score,
       q.dead_score,
       q.insert_score,
       q.analyze_score,
       q.xid_score,
       q.mxid_score,
       q.sweep_score,
       q.requested,
       q.urgent,
       q.owner_seconds,
       q.pages
FROM parvacuum_queue_items() q
     LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) q.datid;

COMMENT ON VIEW parvacuum_queue IS
'the tables that the scheduler will vacuum or is vacuuming: their state and its start, their position in the order of the database, the worker time of the owner lately, in seconds, by which owners take turns, the process that vacuums, what is to be done and what was done last, what the table waits for, and its score; the score is the greatest of its parts, each the ratio of a count or an age to the threshold at which a vacuum is due; a table that is only to be swept has 0, and sweep_score says how many thresholds of dead index entries it has; small tables have some advantage; only members of pg_read_all_stats see tables of other databases, pid and owner_seconds';

GRANT SELECT ON parvacuum_queue TO PUBLIC;

CREATE FUNCTION parvacuum_scheduler_stats(
    OUT database_scans bigint,
    OUT vacuums bigint,
    OUT analyzes bigint,
    OUT sweeps bigint,
    OUT not_needed bigint,
    OUT skipped_horizon bigint,
    OUT skipped_window bigint,
    OUT skipped_lock bigint,
    OUT errors bigint,
    OUT queue_full bigint,
    OUT cost_units bigint,
    OUT max_cost bigint,
    OUT no_process bigint,
    OUT runs_refused bigint)
AS 'MODULE_PATHNAME', 'parvacuum_scheduler_stats'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_scheduler_stats() IS
'what the scheduler has done since the server started: scans of databases, tables vacuumed, analyzed and swept, tables that no longer needed anything when their turn came, tables postponed because their dead rows were not removable yet, because they were outside of their window or because they were locked, errors, scans that found the queue full, cost units used, and the cost units per second that are allowed now, 0 for no limit; how often max_worker_processes left no slot for a process of the scheduler, and how many runs of parvacuum_run() and CALL parvacuum() were refused because of that or of parvacuum.max_runs';

CREATE FUNCTION parvacuum_pace(
    OUT limited_by text,
    OUT since timestamptz,
    OUT rate bigint,
    OUT floor bigint,
    OUT harm float8)
AS 'MODULE_PATHNAME', 'parvacuum_pace'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_pace() IS
'what limits the speed of automatic vacuums now: settings (the pace is fixed, or nothing is vacuumed); nothing; rising (the rate is used and rises); harm (clients take longer because of vacuums); floor (they do, but the rate must not be lower); standby (a standby replays too late); checkpoint (a checkpoint would come too soon); or blind (what clients feel cannot be measured); since when; the cost units per second that are allowed now and in any case, 0 for no limit; and the share by which clients take longer';

CREATE FUNCTION parvacuum_cancel(pid int)
RETURNS bool
AS 'MODULE_PATHNAME', 'parvacuum_cancel_pid'
LANGUAGE C VOLATILE CALLED ON NULL INPUT;

COMMENT ON FUNCTION parvacuum_cancel(int) IS
'cancels the vacuum that a process of parvacuum is executing: a scheduler worker, which goes on with another table, or the background leader of a parvacuum_run() or CALL parvacuum(); returns true if there was a vacuum and it was signaled';

CREATE FUNCTION parvacuum_cancel(rel regclass)
RETURNS bool
AS 'MODULE_PATHNAME', 'parvacuum_cancel_table'
LANGUAGE C VOLATILE CALLED ON NULL INPUT;

COMMENT ON FUNCTION parvacuum_cancel(regclass) IS
'cancels all vacuums of a table by parvacuum: by the scheduler, from whose queue the table is removed until the next scan of the database; by a parvacuum_run() or CALL parvacuum() that vacuums the table or was called for it; and by a VACUUM command or an autovacuum worker, which needs the rights of pg_cancel_backend(); returns true if there was any.  A vacuum by PostgreSQL''s own code is not canceled';

-- With this function a quoted string is the name of a table, and not ambiguous.
CREATE FUNCTION parvacuum_cancel(name text)
RETURNS bool
AS 'MODULE_PATHNAME', 'parvacuum_cancel_name'
LANGUAGE C VOLATILE CALLED ON NULL INPUT;

COMMENT ON FUNCTION parvacuum_cancel(text) IS
'the same as parvacuum_cancel(regclass), for the table of that name';

CREATE FUNCTION parvacuum_enqueue(
    rel regclass,
    urgent bool DEFAULT false,
    OUT relid regclass,
    OUT result text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_enqueue'
LANGUAGE C VOLATILE CALLED ON NULL INPUT
ROWS 2;

COMMENT ON FUNCTION parvacuum_enqueue(regclass, bool) IS
'makes the scheduler vacuum a table, or all partitions of a table, whether it needs a vacuum or not, and also outside of its window: first of the tables of its owner, or, if that is urgent, before all but those in danger of wraparound.  A row for each table and TOAST table has the result: queued, already queued, being vacuumed and queued again, no place, permission denied, temporary';

CREATE FUNCTION parvacuum_wraparound(
    OUT datid oid,
    OUT datname name,
    OUT xid_age bigint,
    OUT xids_left bigint,
    OUT xids_per_second double precision,
    OUT rate_seconds double precision,
    OUT wraparound_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_wraparound'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_wraparound() IS
'how many transaction IDs are left to each database until the server assigns no more, and when that would be if no vacuum froze anything and as many were assigned per second as in the last rate_seconds, a day at most: an estimate, NULL if the rate is not known';

-- What vacuums did.

CREATE FUNCTION parvacuum_history_runs(
    OUT run bigint,
    OUT datid oid,
    OUT datname name,
    OUT relid oid,
    OUT schemaname name,
    OUT relname name,
    OUT started_by text,
    OUT userid oid,
    OUT pid int,
    OUT action text,
    OUT runs bigint,
    OUT since timestamptz,
    OUT start_time timestamptz,
    OUT end_time timestamptz,
    OUT outcome text,
    OUT sqlstate text,
    OUT error text,
    OUT lock_pid int,
    OUT lock_userid oid,
    OUT lock_query text,
    OUT blocker_kind text,
    OUT blocker text,
    OUT wraparound bool,
    OUT indexes int,
    OUT by_engine bool,
    OUT result parvacuum_result)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_history_runs'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_history_runs() IS
'the last vacuums, sweeps and ANALYZEs, for parvacuum_history: for members of pg_read_all_stats those of all tables, for other roles those of their own tables in this database';

DO $$
BEGIN
    EXECUTE pg_catalog.format($view$
        CREATE VIEW parvacuum_history AS
        SELECT h.run,
               h.datid,
               h.datname,
               h.relid,
               c.oid::pg_catalog.regclass AS relation,
               h.schemaname,
               h.relname,
               h.started_by,
               h.userid,
               CASE WHEN h.userid IS NOT NULL THEN pg_catalog.pg_get_userbyid(h.userid) END AS usename,
               h.pid,
               h.action,
               h.runs,
               h.since,
               h.start_time,
               h.end_time,
               h.outcome,
               h.sqlstate,
               h.error,
               h.lock_pid,
               CASE WHEN h.lock_userid IS NOT NULL THEN pg_catalog.pg_get_userbyid(h.lock_userid) END AS lock_usename,
               h.lock_query,
               h.blocker_kind,
               h.blocker,
               h.wraparound,
               h.indexes,
               h.by_engine, %s
        FROM parvacuum_history_runs() h
             LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) h.datid
                                               AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
             LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) h.relid AND d.oid IS NOT NULL
        $view$, (SELECT pg_catalog.string_agg(pg_catalog.format('(h.result).%I', a.attname), ', ' ORDER BY a.attnum)
                 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid
                 WHERE c.reltype OPERATOR(pg_catalog.=) 'parvacuum_result'::pg_catalog.regtype::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.<>) 'relid'));
END
$$;

COMMENT ON VIEW parvacuum_history IS
'the last vacuums of tables that parvacuum is enabled for, and what the scheduler did beside that, as action says (vacuum, sweep or analyze), numbered by "run": who asked for each, how it ended (done, canceled, error, terminated or skipped), the session that it gave way to or ended early for, or that had locked the table (lock_...), and what parvacuum_run() returns; those of one table that ended in the same way and did nothing are one row, which has the last of them, their number in runs, and in since when the first began; of the parvacuum.history_size rows each owner of tables has an equal share, if others need theirs; datname, schemaname and relname are names as they were; relation is NULL if the table is gone or in another database; other roles than members of pg_read_all_stats see their own tables in this database';

GRANT SELECT ON parvacuum_history TO PUBLIC;

CREATE FUNCTION parvacuum_history_indexes(
    OUT run bigint,
    OUT datid oid,
    OUT relid oid,
    OUT indexrelid oid,
    OUT indexrelname name,
    OUT entries_removed bigint,
    OUT pages_total bigint,
    OUT pages_newly_deleted bigint,
    OUT pages_deleted bigint,
    OUT pages_reusable bigint,
    OUT elapsed_ms double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_history_indexes'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_history_indexes() IS
'the indexes of the last vacuums and sweeps, for parvacuum_index_history: for members of pg_read_all_stats those of all tables, for other roles those of their own tables in this database';

CREATE VIEW parvacuum_index_history AS
SELECT h.run,
       h.datid,
       d.datname,
       h.relid,
       c.oid::pg_catalog.regclass AS relation,
       h.indexrelid,
       i.oid::pg_catalog.regclass AS index_relation,
       h.indexrelname,
       h.entries_removed,
       h.pages_total,
       h.pages_newly_deleted,
       h.pages_deleted,
       h.pages_reusable,
       h.elapsed_ms
FROM parvacuum_history_indexes() h
     LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) h.datid
     LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) h.relid
                                    AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
     LEFT JOIN pg_catalog.pg_class i ON i.oid OPERATOR(pg_catalog.=) h.indexrelid
                                    AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

COMMENT ON VIEW parvacuum_index_history IS
'what the vacuums and sweeps in parvacuum_history did to each index: entries removed, pages in total, newly deleted, deleted so far and reusable, and the time it took in all phases; at most 32 indexes of each vacuum';

GRANT SELECT ON parvacuum_index_history TO PUBLIC;

CREATE FUNCTION parvacuum_stats_tables(
    OUT datid oid,
    OUT relid oid,
    OUT runs bigint,
    OUT runs_by_core bigint,
    OUT runs_canceled bigint,
    OUT errors bigint,
    OUT last_run timestamptz,
    OUT last_done timestamptz,
    OUT sums parvacuum_sums,
    OUT sweeps bigint,
    OUT last_sweep timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_stats_tables'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_stats_tables() IS
'totals of the vacuums of each table, for parvacuum_stats: for members of pg_read_all_stats those of all tables, for other roles those of their own tables in this database';

CREATE VIEW parvacuum_stats AS
SELECT s.datid,
       d.datname,
       s.relid,
       c.oid::pg_catalog.regclass AS relation,
       s.runs,
       s.runs_by_core,
       s.runs_canceled,
       s.errors,
       s.last_run,
       s.last_done,
       (s.sums).*,
       s.sweeps,
       s.last_sweep
FROM parvacuum_stats_tables() s
     LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.datid
     LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.relid
                                    AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

COMMENT ON VIEW parvacuum_stats IS
'totals of all vacuums of each table since parvacuum_stats_info.stats_reset: their number, of these those by PostgreSQL''s own VACUUM, canceled, and failed, and what they did and used; the last_... columns are the ends of the last one and of the last one that was completed; sweeps, the completed sweeps by the scheduler, are in none of the other columns; for the parvacuum.stats_size tables that were vacuumed last, of which each owner has an equal share, if others need theirs';

GRANT SELECT ON parvacuum_stats TO PUBLIC;

CREATE FUNCTION parvacuum_stats_indexes(
    OUT datid oid,
    OUT relid oid,
    OUT indexrelid oid,
    OUT runs bigint,
    OUT last_run timestamptz,
    OUT entries_removed bigint,
    OUT pages_total bigint,
    OUT pages_newly_deleted bigint,
    OUT pages_reusable bigint,
    OUT elapsed_ms double precision,
    OUT sweeps bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_stats_indexes'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_stats_indexes() IS
'totals of the vacuums of each index, for parvacuum_index_stats: for members of pg_read_all_stats those of all tables, for other roles those of their own tables in this database';

CREATE VIEW parvacuum_index_stats AS
SELECT s.datid,
       d.datname,
       s.relid,
       c.oid::pg_catalog.regclass AS relation,
       s.indexrelid,
       i.oid::pg_catalog.regclass AS index_relation,
       s.runs,
       s.last_run,
       s.entries_removed,
       s.pages_total,
       s.pages_newly_deleted,
       s.pages_reusable,
       s.elapsed_ms,
       s.sweeps
FROM parvacuum_stats_indexes() s
     LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) s.datid
     LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.relid
                                    AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
     LEFT JOIN pg_catalog.pg_class i ON i.oid OPERATOR(pg_catalog.=) s.indexrelid
                                    AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

COMMENT ON VIEW parvacuum_index_stats IS
'totals of all vacuums of each index, and of all sweeps of it by the scheduler, since parvacuum_stats_info.stats_reset: runs and last_run are vacuums, entries_removed and elapsed_ms are of both; pages_total and pages_reusable are those of the last one';

GRANT SELECT ON parvacuum_index_stats TO PUBLIC;

-- What interrupted vacuums have kept.

CREATE FUNCTION parvacuum_kept_items(
    OUT datid oid,
    OUT relid oid,
    OUT since timestamptz,
    OUT bytes bigint,
    OUT items bigint,
    OUT indexes int,
    OUT indexes_done int,
    OUT pages bigint,
    OUT pages_scanned bigint,
    OUT pages_begun bigint,
    OUT ended_early bool)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_kept_items'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_kept_items() IS
'dead items that interrupted vacuums have kept, for parvacuum_kept: for members of pg_read_all_stats those of all tables, for other roles those of their own tables in this database';

CREATE VIEW parvacuum_kept AS
SELECT k.datid,
       d.datname,
       k.relid,
       c.oid::pg_catalog.regclass AS relation,
       k.since,
       k.bytes,
       k.items,
       k.indexes,
       k.indexes_done,
       k.pages,
       k.pages_scanned,
       k.pages_begun,
       k.ended_early
FROM parvacuum_kept_items() k
     LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) k.datid
     LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) k.relid
                                    AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

COMMENT ON VIEW parvacuum_kept IS
'the tables of which dead items are kept, by a vacuum in progress or by one that was interrupted, so that the next vacuum by parvacuum goes on with them: since when, the bytes of their temporary file, how many of the indexes have been vacuumed of them, and on how many pages of the table the second heap pass has begun; any other vacuum of the table drops them, and so does a restart; the setting parvacuum.keep_limit is the most that all files may have';

GRANT SELECT ON parvacuum_kept TO PUBLIC;

CREATE FUNCTION parvacuum_drop_kept(rel regclass)
RETURNS bool
AS 'MODULE_PATHNAME', 'parvacuum_drop_kept'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_drop_kept(regclass) IS
'drop what an interrupted vacuum of a table has kept, so that the next one begins anew; return false if there is nothing';

CREATE FUNCTION parvacuum_stats_about(
    OUT runs bigint,
    OUT dealloc bigint,
    OUT stats_reset timestamptz,
    OUT history_reset timestamptz,
    OUT last_written timestamptz,
    OUT runs_since_reset bigint,
    OUT runs_by_core bigint,
    OUT runs_canceled bigint,
    OUT errors bigint,
    OUT sums parvacuum_sums)
AS 'MODULE_PATHNAME', 'parvacuum_stats_about'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_stats_about() IS
'about parvacuum_history and parvacuum_stats, for parvacuum_stats_info';

CREATE VIEW parvacuum_stats_info AS
SELECT a.runs,
       a.dealloc,
       a.stats_reset,
       a.history_reset,
       a.last_written,
       a.runs_since_reset,
       a.runs_by_core,
       a.runs_canceled,
       a.errors,
       (a.sums).*
FROM parvacuum_stats_about() a;

COMMENT ON VIEW parvacuum_stats_info IS
'about parvacuum_history and parvacuum_stats: the number of vacuums recorded so far, how often a table or index lost its totals to another because parvacuum.stats_size was reached, when totals and history were reset, when they were last written to disk since the server started, and the totals since stats_reset of all tables, including those that have no row in parvacuum_stats any more';

GRANT SELECT ON parvacuum_stats_info TO PUBLIC;

CREATE FUNCTION parvacuum_history_reset() RETURNS void
AS 'MODULE_PATHNAME', 'parvacuum_history_reset'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION parvacuum_history_reset() IS
'remove all vacuums from parvacuum_history and parvacuum_index_history, of all databases';

REVOKE EXECUTE ON FUNCTION parvacuum_history_reset() FROM PUBLIC;

CREATE FUNCTION parvacuum_stats_reset() RETURNS void
AS 'MODULE_PATHNAME', 'parvacuum_stats_reset'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION parvacuum_stats_reset() IS
'remove all totals from parvacuum_stats and parvacuum_index_stats, of all databases';

REVOKE EXECUTE ON FUNCTION parvacuum_stats_reset() FROM PUBLIC;

COMMENT ON EXTENSION parvacuum IS
'vacuum tables with several processes in every phase';
