/* parvacuum--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum" to load this file. \quit

-- Warns if the library is not preloaded, with the line for postgresql.conf

CREATE FUNCTION parvacuum_check_preloaded() RETURNS void
AS 'MODULE_PATHNAME', 'parvacuum_check_preloaded'
LANGUAGE C;
SELECT parvacuum_check_preloaded();
DROP FUNCTION parvacuum_check_preloaded();

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
    OUT relid regclass,
    OUT workers_planned int,
    OUT workers_launched int,
    OUT pages_total bigint,
    OUT pages_scanned bigint,
    OUT pages_removed bigint,
    OUT tuples_removed bigint,
    OUT tuples_remaining bigint,
    OUT tuples_remaining_estimated bool,
    OUT tuples_recently_dead bigint,
    OUT tuples_missed bigint,
    OUT dead_items bigint,
    OUT index_scans int,
    OUT dead_tuple_bytes bigint,
    OUT heap_scan_ms double precision,
    OUT index_vacuum_ms double precision,
    OUT heap_vacuum_ms double precision,
    OUT index_cleanup_ms double precision,
    OUT truncate_ms double precision,
    OUT elapsed_ms double precision,
    OUT wal_records bigint,
    OUT wal_fpi bigint,
    OUT wal_bytes numeric,
    OUT buffers_hit bigint,
    OUT buffers_read bigint,
    OUT buffers_dirtied bigint,
    OUT oldest_xmin xid,
    OUT relfrozenxid_advanced bool,
    OUT index_scan_bypassed bool)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_run'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000000 ROWS 10;

COMMENT ON FUNCTION parvacuum_run(regclass, int, bool, text, bool, bool, bool, bool, bool) IS
'vacuum a table in parallel, in a process of its own, and return a row for each table and TOAST table vacuumed; tuples_remaining does not include dead rows, which are counted in tuples_recently_dead and tuples_missed, and is an estimate if tuples_remaining_estimated is true; the caller''s snapshot holds back the removal of dead rows during the whole run, so use CALL parvacuum() for long runs';

CREATE PROCEDURE parvacuum(
    rel regclass,
    workers int DEFAULT NULL,
    freeze bool DEFAULT false,
    index_cleanup text DEFAULT 'auto',
    truncate bool DEFAULT NULL,
    "analyze" bool DEFAULT false,
    skip_locked bool DEFAULT false,
    disable_page_skipping bool DEFAULT false,
    verbose bool DEFAULT false)
AS 'MODULE_PATHNAME', 'parvacuum_call'
LANGUAGE C;

COMMENT ON PROCEDURE parvacuum(regclass, int, bool, text, bool, bool, bool, bool, bool) IS
'vacuum a table in parallel, in a process of its own; commits first, waits without a snapshot, and reports each table and TOAST table vacuumed in a notice';

CREATE FUNCTION parvacuum_sweep(
    index regclass,
    workers int DEFAULT NULL,
    OUT workers_launched int,
    OUT pages_total bigint,
    OUT pages_visited bigint,
    OUT pages_changed bigint,
    OUT tuples_deleted bigint,
    OUT bytes_freed bigint,
    OUT elapsed_ms double precision)
AS 'MODULE_PATHNAME', 'parvacuum_sweep'
LANGUAGE C VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
COST 1000000;

COMMENT ON FUNCTION parvacuum_sweep(regclass, int) IS
'delete dead row versions from the leaf pages of a B-tree, so that insertions need not split the pages; needs no vacuum, runs concurrently with reads and writes, and keeps what the snapshot of this transaction might see';

CREATE PROCEDURE parvacuum_sweep_index(index regclass)
AS 'MODULE_PATHNAME', 'parvacuum_sweep_call'
LANGUAGE C;

COMMENT ON PROCEDURE parvacuum_sweep_index(regclass) IS
'the same as parvacuum_sweep(), by one process; commits first, takes a new snapshot every few pages, and has no snapshot while vacuum_cost_delay makes it sleep, so that a long sweep does not hold back the removal of dead rows';

-- The progress of vacuums, with the pages of B-trees.  The view is not based on core's
-- view: its columns change between major versions, which would break pg_upgrade.

CREATE VIEW parvacuum_progress AS
SELECT pid,
       datid,
       relid,
       CASE param1 WHEN 0 THEN 'initializing'
                   WHEN 1 THEN 'scanning heap'
                   WHEN 2 THEN 'vacuuming indexes'
                   WHEN 3 THEN 'vacuuming heap'
                   WHEN 4 THEN 'cleaning up indexes'
                   WHEN 5 THEN 'truncating heap'
                   WHEN 6 THEN 'performing final cleanup' END AS phase,
       param2 AS heap_blks_total,
       param3 AS heap_blks_scanned,
       param4 AS heap_blks_vacuumed,
       param5 AS index_vacuum_count,
       param16 AS index_blks_total,
       param17 AS index_blks_visited
FROM pg_catalog.pg_stat_get_progress_info('VACUUM');

COMMENT ON VIEW parvacuum_progress IS
'running vacuums, as in pg_stat_progress_vacuum, and the number of pages visited in this phase in the B-trees that several processes vacuum together; for vacuums by other roles only members of pg_read_all_stats see more than pid and datid';

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
    OUT state text,
    OUT query text,
    OUT release text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_blockers'
LANGUAGE C VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT
ROWS 20;

COMMENT ON FUNCTION parvacuum_blockers(regclass) IS
'what keeps VACUUM from removing dead rows of a table, or without a table those of any: sessions, prepared transactions, standbys and replication slots, the age of what each holds in transactions, and a statement that makes it let go; the calling session is left out';

CREATE VIEW parvacuum_blockers AS
SELECT * FROM parvacuum_blockers(NULL::pg_catalog.regclass);

COMMENT ON VIEW parvacuum_blockers IS
'what keeps VACUUM from removing dead rows: sessions, prepared transactions, standbys and replication slots, the age of what each holds in transactions, and a statement that makes it let go; of sessions of other roles only members of pg_read_all_stats see more than pid, database and age';

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
'what should be changed in the server and its settings and about the tables of this database, the most severe first, with the numbers that show it; no row means that nothing is wrong; only members of pg_read_all_stats see more than their own tables';

-- Options of tables.  All roles may read them, like reloptions.

CREATE FUNCTION parvacuum_table_options(
    rel regclass,
    OUT buffer_usage_limit int,
    OUT buffer_usage_limit_from text,
    OUT enabled bool,
    OUT enabled_from text,
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
SELECT c.oid::pg_catalog.regclass AS relid,
       o.enabled,
       CASE o.enabled_from WHEN 'setting' THEN s.source ELSE o.enabled_from END AS enabled_from,
       o.workers,
       o.workers_from,
       o.buffer_usage_limit,
       CASE o.buffer_usage_limit_from WHEN 'setting' THEN b.source ELSE o.buffer_usage_limit_from END AS buffer_usage_limit_from,
       o.vacuum_window,
       CASE o.vacuum_window_from WHEN 'setting' THEN w.source ELSE o.vacuum_window_from END AS vacuum_window_from,
       o.declined
FROM pg_catalog.pg_class c
     CROSS JOIN LATERAL parvacuum_table_options(c.oid::pg_catalog.regclass) o
     LEFT JOIN pg_catalog.pg_settings s ON s.name OPERATOR(pg_catalog.=) 'parvacuum.enabled'
     LEFT JOIN pg_catalog.pg_settings b ON b.name OPERATOR(pg_catalog.=) 'parvacuum.buffer_usage_limit'
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
    OUT pid int,
    OUT action text,
    OUT wraparound bool,
    OUT size_class text,
    OUT score float8,
    OUT dead_score float8,
    OUT insert_score float8,
    OUT analyze_score float8,
    OUT xid_score float8,
    OUT mxid_score float8,
    OUT priority float8,
    OUT pages bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_queue_items'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;

COMMENT ON FUNCTION parvacuum_queue_items() IS
'the tables that the scheduler will vacuum or is vacuuming: for members of pg_read_all_stats in all databases, for other roles in the current database and without pid';

CREATE VIEW parvacuum_queue AS
SELECT d.datname,
       CASE WHEN d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
            THEN q.relid::pg_catalog.regclass END AS "table",
       q.*
FROM parvacuum_queue_items() q
     LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) q.datid;

COMMENT ON VIEW parvacuum_queue IS
'the tables that the scheduler will vacuum or is vacuuming: their state and its start, the process that vacuums, what the table waits for, and its score; the score is the greatest of its parts, each the ratio of a count or an age to the threshold at which a vacuum is due; small tables have some advantage; only members of pg_read_all_stats see tables of other databases and pid';

GRANT SELECT ON parvacuum_queue TO PUBLIC;

CREATE FUNCTION parvacuum_scheduler_stats(
    OUT database_scans bigint,
    OUT vacuums bigint,
    OUT analyzes bigint,
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
'what the scheduler has done since the server started: scans of databases, tables vacuumed and analyzed, tables that no longer needed a vacuum when their turn came, tables postponed because their dead rows were not removable yet, because they were outside of their window or because they were locked, errors, scans that found the queue full, cost units used, and the cost units per second that are allowed now, 0 for no limit; how often max_worker_processes left no slot for a process of the scheduler, and how many runs of parvacuum_run() and CALL parvacuum() were refused because of that or of parvacuum.max_runs';

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
    priority float8 DEFAULT 100,
    OUT relid regclass,
    OUT result text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_enqueue'
LANGUAGE C VOLATILE CALLED ON NULL INPUT
ROWS 2;

COMMENT ON FUNCTION parvacuum_enqueue(regclass, float8) IS
'makes the scheduler vacuum a table, or all partitions of a table, as if this priority were its score, whether it needs a vacuum or not, and also outside of its window; tables in danger of wraparound come first.  A row for each table and TOAST table has the result: queued, already queued (a higher priority is not lowered), priority raised, being vacuumed and queued again, no place, permission denied, temporary';

COMMENT ON EXTENSION parvacuum IS
'vacuum tables with several processes in every phase';
