-- The rows of parvacuum_run(), and the effect of its arguments.
\ir common.psql

SELECT plan(72);

CREATE TEMP VIEW block_size AS SELECT current_setting('block_size')::int AS b;

-- One table, with and without workers
CREATE TABLE plain (a int, b varchar(50)) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(n int) RETURNS void LANGUAGE sql AS $$
    TRUNCATE plain;
    INSERT INTO plain SELECT g, repeat('x', 50) FROM generate_series(1, n) g;
    DELETE FROM plain WHERE a % 4 = 0;
$$;
CREATE INDEX ON plain (a);
CREATE INDEX ON plain USING hash (a);

SELECT fill(20000) \g /dev/null
CREATE TABLE r AS SELECT * FROM parvacuum_run('plain', workers => 0);
SELECT is(count(*), 1::bigint, 'one row') FROM r;
SELECT is(relid, 'plain'::regclass, 'relid') FROM r;
SELECT is(workers_planned, 0, '0 workers: no workers are planned') FROM r;
SELECT is(workers_launched, 0, '0 workers: no workers are launched') FROM r;
SELECT is(pages_total, pg_relation_size('plain') / b, 'pages_total') FROM r, block_size;
SELECT is(pages_scanned, pages_total, 'pages_scanned') FROM r;
SELECT is(pages_removed, 0::bigint, 'pages_removed') FROM r;
SELECT is(tuples_removed, 5000::bigint, 'tuples_removed') FROM r;
SELECT is(tuples_remaining, 15000::bigint, 'tuples_remaining') FROM r;
SELECT is(tuples_remaining_estimated, false, 'tuples_remaining_estimated: every page was read') FROM r;
SELECT is(tuples_recently_dead, 0::bigint, 'tuples_recently_dead') FROM r;
SELECT is(tuples_missed, 0::bigint, 'tuples_missed') FROM r;
SELECT is(dead_items, 5000::bigint, 'dead_items') FROM r;
SELECT is(index_scans, 1, 'index_scans') FROM r;
SELECT cmp_ok(dead_tuple_bytes, '>', 0::bigint, 'dead_tuple_bytes') FROM r;
SELECT ok(least(heap_scan_ms, index_vacuum_ms, heap_vacuum_ms) > 0 AND least(index_cleanup_ms, truncate_ms) >= 0, 'times of the phases') FROM r;
SELECT ok(heap_scan_ms + index_vacuum_ms + heap_vacuum_ms + index_cleanup_ms + truncate_ms <= elapsed_ms * 1.01, 'elapsed_ms includes the times of all phases') FROM r;
SELECT ok(wal_records > 0 AND wal_bytes > wal_records AND wal_fpi >= 0, 'WAL') FROM r;
SELECT ok(buffers_hit > pages_total AND buffers_read >= 0 AND buffers_dirtied >= 0, 'buffers') FROM r;
SELECT ok(oldest_xmin::text::bigint > 3, 'oldest_xmin') FROM r;
SELECT ok(NOT index_scan_bypassed, 'index_scan_bypassed') FROM r;

SELECT fill(20000) \g /dev/null
CREATE TABLE r2 AS SELECT * FROM parvacuum_run('plain', workers => 2);
SELECT is(workers_planned, 2, '2 workers: planned') FROM r2;
SELECT cmp_ok(workers_launched, '<=', 2, '2 workers: launched') FROM r2;
SELECT results_eq('SELECT pages_total, pages_scanned, pages_removed, tuples_removed, tuples_remaining, tuples_recently_dead, dead_items, index_scans, index_scan_bypassed FROM r2',
    'SELECT pages_total, pages_scanned, pages_removed, tuples_removed, tuples_remaining, tuples_recently_dead, dead_items, index_scans, index_scan_bypassed FROM r',
    '2 workers: the same result');

-- Not more workers than the settings allow
SELECT is((SELECT workers_planned FROM parvacuum_run('plain', workers => 1024, disable_page_skipping => true)),
    current_setting('parvacuum.max_workers')::int, 'the number of workers is lowered to the limit');
SET max_parallel_maintenance_workers = 0;
SET parvacuum.min_parallel_pages = 0;
SET min_parallel_table_scan_size = 1;
SELECT is((SELECT workers_planned FROM parvacuum_run('plain', workers => 2, disable_page_skipping => true)), 2, 'max_parallel_maintenance_workers does not limit the argument');
SELECT is((SELECT workers_planned FROM parvacuum_run('plain', disable_page_skipping => true)), 0, 'it limits the number without the argument');
SET max_parallel_maintenance_workers = 1;
SELECT is((SELECT workers_planned FROM parvacuum_run('plain', disable_page_skipping => true)), 1, 'which would be higher');
RESET parvacuum.min_parallel_pages;
RESET min_parallel_table_scan_size;
RESET max_parallel_maintenance_workers;

-- index_cleanup
SELECT fill(2000) \g /dev/null
SELECT is((SELECT array[index_scans, dead_items] FROM parvacuum_run('plain', index_cleanup => 'off')), array[0, 500]::bigint[], 'index_cleanup off');
SELECT is((SELECT array[index_scans, dead_items] FROM parvacuum_run('plain', index_cleanup => 'on')), array[1, 500]::bigint[], 'index_cleanup on');
SELECT fill(20000) \g /dev/null
SELECT is((SELECT index_scans FROM parvacuum_run('plain')), 1, 'many dead rows');
DELETE FROM plain WHERE a < 3;
SELECT ok((SELECT index_scans = 0 AND index_scan_bypassed FROM parvacuum_run('plain', index_cleanup => 'auto')), 'index_cleanup auto: few dead rows remain');
SELECT ok((SELECT index_scans = 1 AND NOT index_scan_bypassed FROM parvacuum_run('plain', index_cleanup => 'on', disable_page_skipping => true)), 'index_cleanup on: few dead rows are removed');
ALTER TABLE plain SET (vacuum_index_cleanup = off);
SELECT fill(2000) \g /dev/null
SELECT is((SELECT index_scans FROM parvacuum_run('plain')), 0, 'index_cleanup auto uses the option of the table');
ALTER TABLE plain RESET (vacuum_index_cleanup);

-- truncate
CREATE TABLE tail (a int) WITH (autovacuum_enabled = off);
CREATE FUNCTION cut(keep int) RETURNS void LANGUAGE sql AS $$
    TRUNCATE tail;
    INSERT INTO tail SELECT generate_series(1, 10000);
    DELETE FROM tail WHERE a > keep;
$$;
SELECT cut(1) \g /dev/null
SELECT is((SELECT pages_removed FROM parvacuum_run('tail', truncate => false)), 0::bigint, 'truncate false');
SELECT is((SELECT pages_total - pages_removed FROM parvacuum_run('tail', truncate => true, disable_page_skipping => true)), 1::bigint, 'truncate true');
SELECT is(pg_relation_size('tail'), b::bigint, 'the file is shorter') FROM block_size;
ALTER TABLE tail SET (vacuum_truncate = off);
SELECT cut(0) \g /dev/null
SELECT is((SELECT pages_removed FROM parvacuum_run('tail')), 0::bigint, 'truncate null uses the option of the table');

-- freeze
CREATE TABLE fresh AS SELECT generate_series(1, 1000) a;
SELECT is((SELECT pages_scanned FROM parvacuum_run('fresh')), (SELECT pg_relation_size('fresh') / b FROM block_size), 'pages to vacuum');
SELECT is((SELECT relfrozenxid_advanced FROM parvacuum_run('fresh', freeze => true)), true, 'freeze');
SELECT is(age(relfrozenxid) < 100, true, 'freeze: all pages are frozen') FROM pg_class WHERE oid = 'fresh'::regclass;

-- analyze
SELECT is(count(*), 0::bigint, 'no statistics yet') FROM pg_stats WHERE schemaname = 't' AND tablename = 'fresh';
SELECT is((SELECT count(*) FROM parvacuum_run('fresh', "analyze" => true)), 1::bigint, 'analyze');
SELECT is(count(*), 1::bigint, 'statistics') FROM pg_stats WHERE schemaname = 't' AND tablename = 'fresh';

-- TOAST tables have rows of their own.
CREATE TABLE wide (a int PRIMARY KEY, b text) WITH (autovacuum_enabled = off);
ALTER TABLE wide ALTER b SET STORAGE EXTERNAL;
INSERT INTO wide SELECT g, repeat('abc', 2000) FROM generate_series(1, 400) g;
DELETE FROM wide WHERE a % 2 = 0;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'wide'::regclass \gset
CREATE TABLE w AS SELECT row_number() OVER () AS n, r.* FROM parvacuum_run('wide', workers => 1) r;
SELECT results_eq('SELECT relid FROM w ORDER BY n', format('VALUES (''wide''::regclass), (%L::regclass)', :'toast'), 'TOAST: a row for the table, then one for its TOAST table');
SELECT is(pages_total, pg_relation_size(relid) / b, format('TOAST: pages of row %s', n)) FROM w, block_size ORDER BY n;
SELECT is(tuples_removed, (ARRAY[200, 200 * 4])[n]::bigint, format('TOAST: tuples removed of row %s', n)) FROM w ORDER BY n;
SELECT is(tuples_remaining, (ARRAY[200, 200 * 4])[n]::bigint, format('TOAST: tuples remaining of row %s', n)) FROM w ORDER BY n;
SELECT is(index_scans, 1, format('TOAST: index rounds of row %s', n)) FROM w ORDER BY n;
SELECT ok(workers_planned <= 1, format('TOAST: workers of row %s', n)) FROM w ORDER BY n;
SELECT is(count(*), 2::bigint, 'TOAST: both were vacuumed') FROM pg_class, pg_stat_all_tables s
WHERE oid = 'wide'::regclass AND s.relid IN (oid, reltoastrelid) AND vacuum_count = 1;
SELECT is((SELECT relid FROM parvacuum_run(:'toast')), :'toast'::regclass, 'TOAST: one row by its own name');

-- Rows that a snapshot still sees are dead, and do not remain.
SELECT connect('sees') \g /dev/null
SELECT fill(20000) \g /dev/null
SELECT 1 FROM parvacuum_run('plain') \g /dev/null
SELECT dblink_exec('sees', 'BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE c CURSOR FOR SELECT FROM t.plain') \g /dev/null
DELETE FROM plain WHERE a % 4 = 1;
SELECT is(ARRAY[tuples_removed, tuples_remaining, tuples_recently_dead, tuples_missed], '{0,10000,5000,0}'::bigint[], 'a snapshot: rows that are removed, live, kept, missed')
FROM parvacuum_run('plain', disable_page_skipping => true);
SELECT dblink_exec('sees', 'ROLLBACK') \g /dev/null
SELECT 1 FROM parvacuum_run('plain', index_cleanup => 'on') \g /dev/null
DELETE FROM plain WHERE a < 100;
SELECT is(tuples_remaining_estimated, true, 'tuples_remaining_estimated: pages were skipped') FROM parvacuum_run('plain');
SELECT dblink_disconnect('sees') \g /dev/null

-- Partitions
CREATE TABLE part (a int) PARTITION BY RANGE (a);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (a);
CREATE TABLE part_2_1 PARTITION OF part_2 FOR VALUES FROM (100) TO (150);
CREATE TABLE part_2_2 PARTITION OF part_2 FOR VALUES FROM (150) TO (200);
INSERT INTO part SELECT g % 200 FROM generate_series(1, 2000) g;
DELETE FROM part WHERE a % 2 = 0;
CREATE TABLE p AS SELECT * FROM parvacuum_run('part', "analyze" => true);
SELECT set_eq('SELECT relid::text, tuples_removed FROM p', 'VALUES (''part_1'', 500::bigint), (''part_2_1'', 250), (''part_2_2'', 250)', 'a row for each partition that has rows');
SELECT ok(last_analyze IS NOT NULL, 'the partitioned table is analyzed') FROM pg_stat_all_tables WHERE relid = 'part'::regclass;

-- Tables that the engine does not vacuum
CREATE TABLE c AS SELECT * FROM parvacuum_run('pg_proc');
SELECT set_eq('SELECT relid FROM c', ARRAY['pg_proc'::regclass, (SELECT reltoastrelid FROM pg_class WHERE oid = 'pg_proc'::regclass)], 'a catalog and its TOAST table: two rows');
DELETE FROM c WHERE relid <> 'pg_proc'::regclass;
SELECT ok(num_nonnulls(workers_planned, workers_launched, pages_total, pages_scanned, pages_removed, tuples_removed, tuples_remaining, tuples_remaining_estimated,
    tuples_recently_dead, tuples_missed, dead_items, index_scans, dead_tuple_bytes, heap_scan_ms, index_vacuum_ms, heap_vacuum_ms, index_cleanup_ms, truncate_ms, oldest_xmin,
    relfrozenxid_advanced, index_scan_bypassed) = 0, 'a catalog: no counts of the work of core') FROM c;
SELECT ok(elapsed_ms > 0 AND num_nulls(wal_records, wal_fpi, wal_bytes, buffers_hit, buffers_read, buffers_dirtied) = 0 AND buffers_hit + buffers_read > 0,
    'a catalog: time and usage') FROM c;

ALTER SYSTEM SET parvacuum.engine = off;
SELECT ok(reloaded('parvacuum.engine', 'off'), 'the engine is off');
SELECT is((SELECT pages_total FROM parvacuum_run('plain')), NULL, 'engine off: core vacuums the table');
ALTER SYSTEM RESET parvacuum.engine;
SELECT ok(reloaded('parvacuum.engine', 'on'), 'the engine is on');
SELECT cmp_ok((SELECT pages_total FROM parvacuum_run('plain')), '>', 0::bigint, 'engine on: the engine vacuums the table');

-- Children, as in VACUUM
CREATE TABLE heir_of (a int) WITH (autovacuum_enabled = off);
CREATE TABLE heir () INHERITS (heir_of) WITH (autovacuum_enabled = off);
INSERT INTO heir VALUES (1);
SELECT relid::text INTO heirs FROM parvacuum_run('heir_of');
SELECT relid::text INTO heirs_alone FROM parvacuum_run('heir');
SELECT set_eq('SELECT relid FROM heirs',
    CASE WHEN current_setting('server_version_num')::int >= 180000 THEN ARRAY['heir_of', 'heir'] ELSE ARRAY['heir_of'] END, 'a parent, from 18 on with its children');
SELECT set_eq('SELECT relid FROM heirs_alone', ARRAY['heir'], 'a child alone');

-- The owner of the type can change what no view needs.
ALTER TYPE parvacuum_result ALTER ATTRIBUTE relid TYPE text;
SELECT throws_ok('SELECT * FROM parvacuum_history_runs()', '42804', 'column 1 of a type of extension "parvacuum" has been changed', 'a type that was changed');
ALTER TYPE parvacuum_result ALTER ATTRIBUTE relid TYPE regclass;
SELECT ok((SELECT pages_total > 0 FROM parvacuum_run('plain')), 'the type as it was');

SELECT * FROM finish();
DROP SCHEMA t CASCADE;
