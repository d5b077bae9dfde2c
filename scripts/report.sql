-- What scripts/report shows, as one line of JSON.  Only pg_catalog is in the search path;
-- the views of parvacuum are named with the schema of the extension.
--
-- The texts of queries are left out, since a report is often sent to others.  "<" is
-- escaped, so that no name of a table ends the element of HTML that the JSON is put into.
--
-- Settings of a database or a role must not change that, or the values: the owner of a
-- database is no friend of everybody who reports on it.  So strings with a backslash are
-- written as E'', whose meaning no setting changes.

\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
SET search_path = pg_catalog;
SET client_encoding = 'UTF8';
SET timezone = 'UTC';
SET DateStyle = 'ISO';
SET extra_float_digits = 1;

SELECT count(*) = 1 AS installed,
       coalesce(max(quote_ident(n.nspname)), '') AS pv
FROM pg_extension e
     JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'parvacuum'
\gset

SELECT :'pv' = '' OR has_schema_privilege((SELECT extnamespace FROM pg_extension WHERE extname = 'parvacuum'), 'USAGE') AS usable
\gset

\if :usable
\else
DO $$
BEGIN
    RAISE EXCEPTION 'permission denied for the schema of parvacuum'
        USING HINT = (SELECT format('Use GRANT USAGE ON SCHEMA %s TO pg_monitor, in the database "%s".', extnamespace::regnamespace, current_database())
                      FROM pg_extension WHERE extname = 'parvacuum');
END
$$;
\endif

\if :installed
\else
DO $$
BEGIN
    RAISE EXCEPTION 'parvacuum is not installed in the database "%"', current_database()
        USING HINT = 'Connect to another database, or use CREATE EXTENSION parvacuum.';
END
$$;
\endif

WITH about AS (
    SELECT extract(epoch FROM now()) * 1000 AS at,
           current_setting('server_version') AS server_version,
           current_setting('cluster_name') AS cluster_name,
           current_database() AS datname,
           current_user AS usename,
           pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
           current_setting('autovacuum_freeze_max_age')::bigint AS freeze_max_age,
           current_setting('vacuum_failsafe_age')::bigint AS failsafe_age,
           current_setting('autovacuum_multixact_freeze_max_age')::bigint AS multixact_freeze_max_age,
           current_setting('vacuum_multixact_failsafe_age')::bigint AS multixact_failsafe_age
), runs AS (
    SELECT h.run,
           h.datname,
           h.schemaname,
           h.relname,
           extract(epoch FROM h.start_time) * 1000 AS start_ms,
           extract(epoch FROM h.end_time) * 1000 AS end_ms,
           h.started_by,
           h.outcome,
           h.runs,
           h.error,
           h.blocker_kind,
           h.blocker,
           h.by_engine,
           h.workers_launched,
           h.pages_total,
           h.pages_scanned,
           h.tuples_removed,
           h.tuples_recently_dead,
           h.index_scans,
           h.elapsed_ms,
           ARRAY[h.heap_scan_ms, h.index_vacuum_ms, h.heap_vacuum_ms, h.index_cleanup_ms, h.truncate_ms] AS phases_ms
    FROM :pv.parvacuum_history h
    WHERE h.datname = current_database()
      AND h.action = 'vacuum'
    ORDER BY h.run DESC
    LIMIT 1000
), left_out AS (
    SELECT count(*) FILTER (WHERE h.datname = current_database() AND h.action = 'vacuum') AS runs,
           count(*) FILTER (WHERE h.datname IS DISTINCT FROM current_database()) AS of_other_databases,
           count(*) FILTER (WHERE h.datname = current_database() AND h.action <> 'vacuum') AS of_other_kinds,
           (SELECT count(*) FROM :pv.parvacuum_blockers) AS blockers,
           (SELECT count(*) FROM :pv.parvacuum_queue) AS queue,
           (SELECT count(*) FROM :pv.parvacuum_index_stats s JOIN pg_class i ON i.oid = s.indexrelid WHERE s.datname = current_database()) AS indexes,
           (SELECT count(*) FROM pg_class c WHERE c.relkind IN ('r', 'm', 't')) AS wraparound,
           (SELECT count(*) FROM pg_database) AS databases
    FROM :pv.parvacuum_history h
), running AS (
    SELECT p.pid,
           p.datname,
           p.relid,
           p.relation::text AS relation,
           p.phase,
           p.heap_blks_total,
           p.heap_blks_scanned,
           p.heap_blks_vacuumed,
           p.workers,
           extract(epoch FROM p.started_at) * 1000 AS start_ms,
           extract(epoch FROM p.eta) * 1000 AS eta_ms
    FROM :pv.parvacuum_progress p
    WHERE p.participant IS NULL
    ORDER BY p.started_at
), blockers AS (
    SELECT b.kind,
           b.pid,
           b.name,
           b.usename,
           b.datname,
           b.holds,
           b.xmin_age,
           extract(epoch FROM b.duration) AS seconds,
           b.state,
           b.release
    FROM :pv.parvacuum_blockers b
    ORDER BY b.xmin_age DESC NULLS LAST, b.kind, b.pid, b.name
    LIMIT 30
), queue AS (
    SELECT q.datname,
           q.relid,
           q.relation::text AS relation,
           q.state,
           q.reason,
           q.action,
           extract(epoch FROM q.since) * 1000 AS since_ms,
           q.wraparound,
           q.score,
           q.dead_score,
           q.insert_score,
           q.analyze_score,
           q.sweep_score,
           q.xid_score,
           q.mxid_score,
           q.requested, q.urgent
    FROM :pv.parvacuum_queue q
    ORDER BY q.score DESC, q.datname, q.relid
    LIMIT 30
), indexes AS (
    SELECT n.nspname AS schemaname,
           t.relname,
           i.relname AS indexrelname,
           s.pages_total * current_setting('block_size')::bigint AS size_bytes,
           s.pages_reusable * current_setting('block_size')::bigint AS reusable_bytes,
           s.entries_removed,
           s.elapsed_ms,
           s.runs
    FROM :pv.parvacuum_index_stats s
         JOIN pg_class i ON i.oid = s.indexrelid
         JOIN pg_class t ON t.oid = s.relid
         JOIN pg_namespace n ON n.oid = i.relnamespace
    WHERE s.datname = current_database()
    ORDER BY s.pages_total DESC NULLS LAST, i.oid
    LIMIT 20
), wraparound AS (
    SELECT n.nspname AS schemaname,
           c.relname,
           age(c.relfrozenxid) AS xid_age,
           mxid_age(c.relminmxid) AS mxid_age
    FROM pg_class c
         JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm', 't')
    ORDER BY greatest(age(c.relfrozenxid), mxid_age(c.relminmxid)) DESC, n.nspname LIKE E'pg\\_%', c.oid
    LIMIT 15
), findings AS (
    SELECT a.severity,
           a.name,
           a.subject,
           a.relation::text AS relation,
           a.reason,
           a.evidence,
           a.setting,
           a.advice,
           count(*) OVER () AS of
    FROM :pv.parvacuum_check() a
    LIMIT 50
), databases AS (
    SELECT d.datname,
           age(d.datfrozenxid) AS xid_age,
           mxid_age(d.datminmxid) AS mxid_age,
           extract(epoch FROM w.wraparound_at) * 1000 AS wraparound_ms,
           w.xids_per_second
    FROM pg_database d
         LEFT JOIN :pv.parvacuum_wraparound() w ON w.datid = d.oid
    ORDER BY 2 DESC, 1
    LIMIT 15
)
SELECT replace(json_build_object(
    'about', (SELECT to_json(r) FROM about r),
    'left_out', (SELECT to_json(r) FROM left_out r),
    'runs', (SELECT coalesce(json_agg(r), '[]') FROM runs r),
    'running', (SELECT coalesce(json_agg(r), '[]') FROM running r),
    'blockers', (SELECT coalesce(json_agg(r), '[]') FROM blockers r),
    'queue', (SELECT coalesce(json_agg(r), '[]') FROM queue r),
    'indexes', (SELECT coalesce(json_agg(r), '[]') FROM indexes r),
    'wraparound', (SELECT coalesce(json_agg(r), '[]') FROM wraparound r),
    'advice', (SELECT coalesce(json_agg(r), '[]') FROM findings r),
    'databases', (SELECT coalesce(json_agg(r), '[]') FROM databases r))::text, '<', E'\\u003c');
