--
-- parvacuum_run() and CALL parvacuum() at work
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parvacuum;
RESET client_min_messages;

CREATE TABLE run_t (a int, b varchar(20)) WITH (autovacuum_enabled = off);
INSERT INTO run_t SELECT g, 'row ' || g FROM generate_series(1, 20000) g;
CREATE INDEX run_t_a ON run_t (a);
CREATE INDEX run_t_b ON run_t (b);

-- a row for the table, with two workers
DELETE FROM run_t WHERE a % 5 = 0;
SELECT relid, workers_planned, workers_launched <= 2 AS launched, pages_total,
       pages_scanned, pages_removed, tuples_removed, tuples_remaining, tuples_remaining_estimated,
       tuples_recently_dead, tuples_missed, dead_items, index_scans, index_scan_bypassed
FROM parvacuum_run('run_t', workers => 2);

-- the same without workers, with the expected phases and usage
DELETE FROM run_t WHERE a % 5 = 1;
SELECT relid, workers_planned, workers_launched, tuples_removed, dead_items,
       index_scans, dead_tuple_bytes > 0 AS store, heap_scan_ms > 0 AS scan,
       index_vacuum_ms > 0 AS index, heap_vacuum_ms > 0 AS heap_vacuum, index_cleanup_ms >= 0 AS cleanup,
       truncate_ms >= 0 AS truncate, elapsed_ms > 0 AS elapsed,
       wal_records > 0 AS wal, buffers_hit + buffers_read > pages_total AS buffers
FROM parvacuum_run('run_t', workers => 0);

-- nothing to vacuum: all-visible pages are not read
SELECT pages_total, pages_scanned < pages_total / 10 AS skipped, tuples_removed,
       index_scans
FROM parvacuum_run('run_t');
SELECT pages_scanned = pages_total AS all_scanned
FROM parvacuum_run('run_t', disable_page_skipping => true);

-- options by position and by name; "analyze" is a reserved word
SELECT relfrozenxid_advanced, index_scans
FROM parvacuum_run('run_t', 1, true, 'off', false, true, true, true, false);
SELECT relfrozenxid_advanced
FROM parvacuum_run(rel => 'run_t', freeze => true, "analyze" => true, verbose => false);
SELECT count(*) FROM pg_stats WHERE tablename = 'run_t';

-- few dead rows: indexes are not vacuumed, unless that is asked for
DELETE FROM run_t WHERE a = 2;
SELECT dead_items, index_scans, index_scan_bypassed FROM parvacuum_run('run_t');
SELECT dead_items, index_scans, index_scan_bypassed
FROM parvacuum_run('run_t', index_cleanup => 'on', disable_page_skipping => true);

-- an empty end of the table
DELETE FROM run_t WHERE a > 100;
SELECT pages_removed FROM parvacuum_run('run_t', truncate => false);
SELECT pages_removed > 50 AS truncated
FROM parvacuum_run('run_t', truncate => true, disable_page_skipping => true);

-- partitions: a row for each table that has rows
CREATE TABLE run_p (a int) PARTITION BY RANGE (a);
CREATE TABLE run_p1 PARTITION OF run_p FOR VALUES FROM (0) TO (10);
CREATE TABLE run_p2 PARTITION OF run_p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (a);
CREATE TABLE run_p21 PARTITION OF run_p2 FOR VALUES FROM (10) TO (20);
INSERT INTO run_p SELECT g % 20 FROM generate_series(1, 1000) g;
DELETE FROM run_p WHERE a % 10 = 0;
SELECT relid, tuples_removed, tuples_remaining FROM parvacuum_run('run_p') ORDER BY relid::text;

-- foreign partitions are left out, at any level; other children are none
CREATE FOREIGN DATA WRAPPER run_w;
CREATE SERVER run_w FOREIGN DATA WRAPPER run_w;
CREATE FOREIGN TABLE run_p22 PARTITION OF run_p2 DEFAULT SERVER run_w;
CREATE FOREIGN TABLE run_p3 PARTITION OF run_p DEFAULT SERVER run_w;
SELECT relid FROM parvacuum_run('run_p') ORDER BY relid::text;
SELECT relid FROM parvacuum_run('run_p2');
SELECT relid FROM parvacuum_run('run_p1');
DROP FOREIGN TABLE run_p3;
\set VERBOSITY terse
CALL parvacuum('run_p');
CALL parvacuum('run_p21');
\set VERBOSITY default
DROP FOREIGN DATA WRAPPER run_w CASCADE;
SELECT relid FROM parvacuum_run('run_p2');

-- a TOAST table has a row of its own
CREATE TABLE run_w (a int, b text) WITH (autovacuum_enabled = off);
ALTER TABLE run_w ALTER b SET STORAGE EXTERNAL;
INSERT INTO run_w SELECT g, repeat('x', 3000) FROM generate_series(1, 100) g;
DELETE FROM run_w WHERE a % 2 = 0;
SELECT CASE WHEN relid = 'run_w'::regclass THEN 'run_w' ELSE 'TOAST' END AS relid,
       tuples_removed, tuples_remaining, dead_items, index_scans
FROM parvacuum_run('run_w');

-- materialized views, unlogged tables
CREATE MATERIALIZED VIEW run_m AS SELECT 1 AS a;
CREATE UNLOGGED TABLE run_u AS SELECT 1 AS a;
SELECT relid, tuples_remaining FROM parvacuum_run('run_m');
SELECT relid, tuples_remaining FROM parvacuum_run('run_u');

-- a catalog is vacuumed by core; the row has its time and usage
SELECT relid, workers_planned, tuples_removed, relfrozenxid_advanced,
       elapsed_ms > 0 AS elapsed, buffers_hit + buffers_read > 0 AS buffers
FROM parvacuum_run('pg_am');

-- several tables in one statement, the result in a table
CREATE TABLE run_r AS
SELECT r.* FROM (VALUES ('run_p1'::regclass), ('run_u')) t(t), parvacuum_run(t) r;
SELECT relid FROM run_r ORDER BY relid::text;

-- a number that is asked for goes beyond the default of the session, not beyond the server's limit
SET max_parallel_maintenance_workers = 0;
SELECT workers_planned FROM parvacuum_run('run_t', workers => 4, disable_page_skipping => true);
SELECT workers_planned FROM parvacuum_run('run_t', workers => 17, disable_page_skipping => true);
RESET max_parallel_maintenance_workers;

-- the procedure; its time is in the detail, which is not shown here
\set VERBOSITY terse
CALL parvacuum('run_t');
CALL parvacuum('run_p', workers => 1, "analyze" => true);
CALL parvacuum('pg_am');
SET client_min_messages = warning;
CALL parvacuum('run_t');
RESET client_min_messages;
\set VERBOSITY default

DROP TABLE run_t, run_p, run_w, run_u, run_r;
DROP MATERIALIZED VIEW run_m;
