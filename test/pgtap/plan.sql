-- parvacuum_plan(): what a vacuum would do, compared with the vacuum that follows; rights,
-- errors, and what it must not do.
\ir common.psql

SELECT plan(96);

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_other', 'pv_stats']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_other NOLOGIN;
CREATE ROLE pv_stats NOLOGIN IN ROLE pg_read_all_stats;

SELECT is((SELECT count(*) FROM pg_proc WHERE proname = 'parvacuum_plan' AND proretset AND provolatile = 'v' AND proparallel = 'r' AND NOT prosecdef), 1::bigint, 'one function');

-- Fewer pages than the sample has: everything is exact.
CREATE TABLE small (a int, b text) WITH (autovacuum_enabled = off);
CREATE INDEX ON small (a);
INSERT INTO small SELECT g, repeat('x', 50) FROM generate_series(1, 5000) g;
DELETE FROM small WHERE a % 4 = 0;
CREATE TABLE p AS SELECT * FROM parvacuum_plan('small', workers => 0) WHERE relid = 'small'::regclass;
CREATE TABLE r AS SELECT * FROM parvacuum_run('small', workers => 0) WHERE relid = 'small'::regclass;
SELECT is(p.relation, 'small'::regclass, 'relation') FROM p;
SELECT is(p.pages_total, r.pages_total, 'pages_total') FROM p, r;
SELECT is(p.pages_to_scan, r.pages_scanned, 'pages_to_scan') FROM p, r;
SELECT is(p.pages_to_skip, 0::bigint, 'pages_to_skip') FROM p;
SELECT is(p.tuples_to_remove, r.tuples_removed, 'tuples_to_remove') FROM p, r;
SELECT is(p.tuples_recently_dead, 0::bigint, 'tuples_recently_dead') FROM p;
SELECT is(p.dead_items, r.dead_items, 'dead_items') FROM p, r;
SELECT is(p.index_scans, 1, 'index_scans') FROM p;
SELECT is(p.index_scans, r.index_scans, 'index_scans as in the run') FROM p, r;
SELECT ok(p.dead_tuple_bytes BETWEEN 1 AND r.dead_tuple_bytes, 'dead_tuple_bytes: less than with what the run sets aside') FROM p, r;
SELECT is(p.max_dead_tuple_bytes, pg_size_bytes(current_setting('maintenance_work_mem')), 'max_dead_tuple_bytes') FROM p;
SELECT is(p.workers_planned, 0, 'workers_planned') FROM p;
SELECT is(p.indexes, 1, 'indexes') FROM p;
SELECT is(num_nonnulls(heap_scan_ms, index_vacuum_ms, heap_vacuum_ms, elapsed_ms), 0, 'no times without a last vacuum') FROM p;
SELECT ok(NOT aggressive AND pages_to_freeze = 0, 'no freezing') FROM p;
SELECT ok(oldest_xmin IS NOT NULL AND freeze_limit IS NOT NULL AND relfrozenxid IS NOT NULL AND relminmxid IS NOT NULL, 'the cutoffs') FROM p;
SELECT ok(NOT useless AND reason IS NULL, 'useful') FROM p;
SELECT is(format('%s %s %s', pages_to_scan, pages_to_skip, useless), '1 ' || pages_total - 1 || ' t', 'after the run only the last page is read') FROM parvacuum_plan('small') LIMIT 1;
SELECT is(reason, 'There is nothing to remove, to freeze, or to set all-visible.', 'and there is nothing to do') FROM parvacuum_plan('small') LIMIT 1;
SELECT is(format('%s %s', pages_to_skip, aggressive), '0 t', 'disable_page_skipping') FROM parvacuum_plan('small', disable_page_skipping => true) LIMIT 1;

-- Uses up transaction IDs, so that relfrozenxid can advance
CREATE PROCEDURE burn() LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..3 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END';

-- Which pages are skipped
CREATE TABLE skips (a int, b text) WITH (autovacuum_enabled = off, fillfactor = 90);
INSERT INTO skips SELECT g, repeat('x', 100) FROM generate_series(1, 40000) g;
VACUUM (FREEZE) skips;
CALL burn();
UPDATE skips SET b = b WHERE a BETWEEN 5000 AND 5100 OR a BETWEEN 20000 AND 20200 OR a % 9000 = 0;
CREATE TABLE ps AS SELECT * FROM parvacuum_plan('skips', workers => 0) LIMIT 1;
CREATE TABLE rs AS SELECT * FROM parvacuum_run('skips', workers => 0) LIMIT 1;
SELECT ok(pages_to_skip BETWEEN 1 AND pages_total - 2, 'some pages are skipped') FROM ps;
SELECT is(ps.pages_to_skip, rs.pages_total - rs.pages_scanned, 'the run skips the pages that the plan skips') FROM ps, rs;
SELECT is(ps.tuples_to_remove, rs.tuples_removed, 'and removes the rows') FROM ps, rs;
SELECT is(ps.dead_items, rs.dead_items, 'and as many of them leave dead items, which are not in HOT chains') FROM ps, rs;

-- relfrozenxid, where all skipped pages are all-frozen, and where they are not
SELECT ok(ps.new_relfrozenxid IS NOT NULL AND rs.relfrozenxid_advanced, 'frozen pages are skipped: relfrozenxid advances') FROM ps, rs;
CREATE TABLE unfrozen (a int, b text) WITH (autovacuum_enabled = off);
INSERT INTO unfrozen SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g;
VACUUM (FREEZE) unfrozen;
INSERT INTO unfrozen SELECT g, repeat('x', 100) FROM generate_series(20001, 40000) g;
VACUUM unfrozen;
CALL burn();
DELETE FROM unfrozen WHERE a % 6000 = 0 AND a < 20000 OR (ctid::text::point)[0] = (SELECT max((ctid::text::point)[0]) FROM unfrozen);
CREATE TABLE pu AS SELECT * FROM parvacuum_plan('unfrozen', workers => 0) LIMIT 1;
CREATE TABLE ru AS SELECT * FROM parvacuum_run('unfrozen', workers => 0) LIMIT 1;
SELECT is(format('%s %s', pu.new_relfrozenxid IS NULL, pu.pages_to_scan), format('%s %s', NOT ru.relfrozenxid_advanced, ru.pages_scanned), 'all-visible pages are skipped: relfrozenxid stays') FROM pu, ru;

-- HOT chains that are dead to their end, aborted rows, line pointers that are dead already
CREATE TABLE chains (a int, b int) WITH (autovacuum_enabled = off, fillfactor = 40);
CREATE INDEX ON chains (a);
INSERT INTO chains SELECT g, 0 FROM generate_series(1, 2000) g;
UPDATE chains SET b = 1 WHERE a % 3 = 0;
UPDATE chains SET b = 2 WHERE a % 9 = 0;
DELETE FROM chains WHERE a % 6 = 0;
DO $$ BEGIN INSERT INTO chains SELECT g, 1 FROM generate_series(3000, 3100) g; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END $$;
CREATE TABLE pc AS SELECT * FROM parvacuum_plan('chains', workers => 0);
CREATE TABLE rc AS SELECT * FROM parvacuum_run('chains', workers => 0, index_cleanup => 'off');
SELECT is(pc.tuples_to_remove, rc.tuples_removed, 'chains: tuples_to_remove') FROM pc, rc;
SELECT is(pc.dead_items, rc.dead_items, 'chains: dead_items') FROM pc, rc;
SELECT is(format('%s %s', p.tuples_to_remove, p.dead_items), '0 ' || rc.dead_items, 'chains: dead items that are left from an earlier vacuum') FROM rc, parvacuum_plan('chains', workers => 0) p;
ALTER TABLE chains SET (vacuum_index_cleanup = off);
SELECT is(index_scans, 0, 'the table''s storage parameter counts') FROM parvacuum_plan('chains', workers => 0);

-- Index scans, if the store is small
CREATE TABLE scans (a int) WITH (autovacuum_enabled = off);
CREATE INDEX ON scans (a);
INSERT INTO scans SELECT g FROM generate_series(1, 200000) g;
DELETE FROM scans WHERE a % 2 = 0;
SET parvacuum.store_limit = '128kB';
CREATE TABLE p3 AS SELECT * FROM parvacuum_plan('scans', workers => 0);
CREATE TABLE r3 AS SELECT * FROM parvacuum_run('scans', workers => 0);
SELECT cmp_ok(index_scans, '>', 2, 'a small store: several index scans') FROM p3;
SELECT ok(abs(p3.index_scans - r3.index_scans) <= 1, 'a small store: about as many as the run has') FROM p3, r3;
SELECT ok(max_dead_tuple_bytes BETWEEN 131072 * 7 / 8 AND 131072, 'a small store: its limit, but for the bitmaps of B-trees') FROM p3;
RESET parvacuum.store_limit;

-- Few pages with dead items: the indexes are bypassed.
DELETE FROM scans WHERE a IN (1, 3, 5);
SELECT is(format('%s %s', dead_items > 0, index_scans), 't 0', 'few dead items: no index scan') FROM parvacuum_plan('scans', workers => 0);

-- Workers, by the rules of a run
SET max_parallel_maintenance_workers = 1;
SELECT is(workers_planned, 2, 'a number of workers') FROM parvacuum_plan('scans', workers => 2);
RESET max_parallel_maintenance_workers;
SET parvacuum.min_parallel_pages = 0;
SET min_parallel_table_scan_size = '1MB';
SELECT is((SELECT workers_planned FROM parvacuum_plan('scans', disable_page_skipping => true)), (SELECT workers_planned FROM parvacuum_run('scans', disable_page_skipping => true)), 'workers by the work there is');
ALTER TABLE scans SET (parvacuum.workers = 1);
SELECT is((SELECT workers_planned FROM parvacuum_plan('scans', disable_page_skipping => true)), 1, 'workers by the option');
RESET parvacuum.min_parallel_pages;
RESET min_parallel_table_scan_size;

-- Freezing
CREATE TABLE young (a int) WITH (autovacuum_enabled = off);
INSERT INTO young SELECT generate_series(1, 5000);
CREATE TABLE pf AS SELECT * FROM parvacuum_plan('young', freeze => true);
SELECT is(format('%s %s', aggressive, pages_to_freeze), 't ' || pages_total, 'freeze: all pages') FROM pf;
VACUUM (FREEZE) young;
SELECT ok(age(c.relfrozenxid) <= age(pf.new_relfrozenxid) AND age(pf.new_relfrozenxid) < age(pf.relfrozenxid), 'freeze: relfrozenxid becomes at least what was planned')
FROM pf, pg_class c WHERE c.oid = 'young'::regclass;
DELETE FROM young WHERE a < 10;
VACUUM young;
SELECT is(format('%s %s', pages_to_freeze, useless), '0 t', 'freeze: nothing is left') FROM parvacuum_plan('young', freeze => true);

-- Rows that another session may still see
CREATE TABLE held (a int) WITH (autovacuum_enabled = off);
INSERT INTO held SELECT generate_series(1, 10000);
-- ... and with indexes for which a vacuum has something to do, whatever may be removed
CREATE TABLE pending (a int[]) WITH (autovacuum_enabled = off);
CREATE INDEX pending_gin ON pending USING gin (a) WITH (fastupdate = on);
CREATE TABLE ranges (a int, pad char(7000)) WITH (autovacuum_enabled = off);
ALTER TABLE ranges ALTER pad SET STORAGE plain;
CREATE INDEX ranges_brin ON ranges USING brin (a) WITH (pages_per_range = 1);
INSERT INTO ranges SELECT a, '' FROM generate_series(1, 1400) a;
VACUUM held, pending, ranges;
SELECT connect('h') \g /dev/null
SELECT dblink_exec('h', 'BEGIN ISOLATION LEVEL REPEATABLE READ') \g /dev/null
SELECT * FROM dblink('h', 'SELECT 1') x(a int) \g /dev/null
DELETE FROM held WHERE a % 2 = 0;
SELECT is(format('%s %s %s', tuples_to_remove, tuples_recently_dead, useless), '0 5000 t', 'an old snapshot: a run would be useless') FROM parvacuum_plan('held');
SELECT matches(reason, '^About 5000 dead rows may still be seen.  The removable cutoff is transaction ID \d+, which is \d+ XIDs old.$', 'an old snapshot: the reason') FROM parvacuum_plan('held');
CREATE FUNCTION is_useless(rel regclass) RETURNS text LANGUAGE sql AS 'SELECT concat_ws('' '', useless, split_part(reason, '' '', 1)) FROM parvacuum_plan(rel) LIMIT 1';
INSERT INTO pending SELECT ARRAY[a] FROM generate_series(1, 10) a;
INSERT INTO ranges SELECT a, '' FROM generate_series(1, 10) a;
SELECT is(is_useless('pending'), 'f', 'an old snapshot: a pending list can be emptied');
SELECT is(is_useless('ranges'), 'f', 'an old snapshot: ranges can be summarized');
ALTER TABLE pending SET (vacuum_index_cleanup = off);
SELECT is(is_useless('pending'), 't Rows', 'an old snapshot: not if vacuums leave the indexes alone');
ALTER TABLE pending RESET (vacuum_index_cleanup);
SELECT gin_clean_pending_list('pending_gin'), brin_summarize_new_values('ranges_brin') \g /dev/null
SELECT is(is_useless('pending'), 't Rows', 'an old snapshot: an empty pending list');
SELECT is(is_useless('ranges'), 't Rows', 'an old snapshot: each range has its summary');
SELECT brin_desummarize_range('ranges_brin', 1390) \g /dev/null
SELECT is(is_useless('ranges'), 'f', 'an old snapshot: a range in the second page of the map has none');
CREATE TABLE loaded (a int) WITH (autovacuum_enabled = off);
INSERT INTO loaded SELECT generate_series(1, 10000);
SELECT matches(reason, format('^Rows on about %s pages may not be visible to all transactions yet.  The removable cutoff is transaction ID \d+, which is \d+ XIDs old.$', pages_total), 'an old snapshot: new rows cannot be set all-visible')
FROM parvacuum_plan('loaded') WHERE useless;
CREATE TABLE none (a int) WITH (autovacuum_enabled = off);
VACUUM none;
SELECT is(reason, 'There is nothing to remove, to freeze, or to set all-visible.', 'an old snapshot: a table that is not old') FROM parvacuum_plan('none');
SET vacuum_freeze_table_age = 0;
SELECT matches(reason, '^The table cannot be frozen any further.  The removable cutoff is transaction ID \d+, which is \d+ XIDs old.$', 'an old snapshot: a table that is too old') FROM parvacuum_plan('none');
RESET vacuum_freeze_table_age;
SELECT is(reason, 'There is nothing to remove, to freeze, or to set all-visible.', 'an old snapshot: a table that is to be frozen without being old') FROM parvacuum_plan('none', freeze => true);
SELECT dblink_exec('h', 'COMMIT') \g /dev/null
SELECT is(format('%s %s', useless, reason), 'f ', 'without it: new rows can be set all-visible') FROM parvacuum_plan('loaded');
SELECT is(format('%s %s %s', tuples_to_remove, tuples_recently_dead, useless), '5000 0 f', 'without it: a run would remove the rows') FROM parvacuum_plan('held');
SELECT dblink_disconnect('h') \g /dev/null

-- The times of the last vacuum: the same work takes as long again, half of the pages take half as
-- long, and what it did not do is not known.
CREATE TABLE again (a int) WITH (autovacuum_enabled = off);
CREATE INDEX ON again (a);
INSERT INTO again SELECT generate_series(1, 40000);
DELETE FROM again WHERE a % 3 = 0;
CREATE TABLE ra AS SELECT * FROM parvacuum_run('again', workers => 0);
DELETE FROM again WHERE a % 3 = 1;
CREATE FUNCTION ratios(p anyelement, run ra) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', round((p.heap_scan_ms / run.heap_scan_ms)::numeric, 2), round((p.index_vacuum_ms / run.index_vacuum_ms)::numeric, 2), round((p.heap_vacuum_ms / run.heap_vacuum_ms)::numeric, 2))
$$;
CREATE TABLE pa AS SELECT * FROM parvacuum_plan('again', workers => 0);
SELECT is(ratios(pa, ra), '1.00 1.00 1.00', 'the times are those of the last vacuum') FROM pa, ra;
SELECT is(round(elapsed_ms::numeric, 6), round((heap_scan_ms + index_vacuum_ms + heap_vacuum_ms)::numeric, 6), 'elapsed_ms is their sum') FROM pa;
SELECT parvacuum_run('again', workers => 0) \g /dev/null
DELETE FROM again WHERE (ctid::text::point)[0] < 80;
CREATE TABLE rb AS SELECT * FROM parvacuum_history WHERE relation = 'again'::regclass ORDER BY run DESC LIMIT 1;
SELECT is(round((p.heap_scan_ms / rb.heap_scan_ms)::numeric, 2), round(p.pages_to_scan::numeric / rb.pages_scanned, 2), 'fewer pages take less time') FROM parvacuum_plan('again', workers => 0) p, rb;
SELECT parvacuum_history_reset() \g /dev/null
SELECT is(num_nonnulls(heap_scan_ms, index_vacuum_ms, heap_vacuum_ms, elapsed_ms), 0, 'without history there are no times') FROM parvacuum_plan('again', workers => 0);
SELECT parvacuum_run('again', workers => 0, index_cleanup => 'off') \g /dev/null
SELECT is(format('%s %s %s %s', heap_scan_ms > 0, index_vacuum_ms, heap_vacuum_ms, elapsed_ms), 't   ', 'the last vacuum had no index scan: the time of one is not known') FROM parvacuum_plan('again', workers => 0);

-- A sample of half of the pages.  The last page is in half of the samples.
CREATE FUNCTION plans(rel regclass) RETURNS TABLE (removed bigint, scan bigint) LANGUAGE sql AS $$
    SELECT tuples_to_remove, pages_to_scan FROM generate_series(1, 100) i, parvacuum_plan(rel, workers => i - i) WHERE relid = rel
$$;
CREATE TABLE last_page (a int, b text) WITH (autovacuum_enabled = off);
INSERT INTO last_page SELECT g, repeat('x', 1000) FROM generate_series(1, 7 * 2048) g;
DELETE FROM last_page WHERE (ctid::text::point)[0] = 2047;
SELECT is(format('%s %s', min(scan), max(scan)), '2048 2048', 'a sample: all pages would be read') FROM plans('last_page');
SELECT ok(count(*) FILTER (WHERE removed > 0) BETWEEN 20 AND 80, 'a sample: the last page is in half of the samples') FROM plans('last_page');

-- What has which rows
CREATE TABLE p0 (a int, b text) PARTITION BY LIST (a);
CREATE TABLE p1 PARTITION OF p0 FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p0 FOR VALUES IN (2);
CREATE TABLE pr AS SELECT relid FROM parvacuum_run('p0');
SELECT results_eq('SELECT relation FROM parvacuum_plan(''p0'')', 'SELECT relid FROM pr', 'a partitioned table: the rows of a run');
SELECT is((SELECT count(*) FROM parvacuum_plan('p0')), 4::bigint, 'partitions, and their TOAST tables');
SELECT ok(useless AND pages_total IS NULL AND reason ~ '^PostgreSQL''s own VACUUM would vacuum the table.  The table is a system catalog.$', 'a catalog') FROM parvacuum_plan('pg_class');
CREATE TABLE many (a int, b text) PARTITION BY LIST (a);
SELECT format('CREATE TABLE many_%s PARTITION OF many FOR VALUES IN (%s)', i, i) FROM generate_series(1, 500) i \gexec
SELECT connect('m') \g /dev/null
CREATE FUNCTION most_memory() RETURNS int LANGUAGE sql AS $$
    SELECT substring(pg_read_file('/proc/self/status'), 'VmHWM:\s*(\d+) kB')::int
$$;
-- gcc's address sanitizer keeps freed memory for a while, so that nothing uses it.
SELECT CASE WHEN (SELECT setting FROM pg_config WHERE name = 'CFLAGS') LIKE '%sanitize=address%'
    THEN skip('the sanitizer keeps freed memory') ELSE cmp_ok(after - before, '<', 12 * 1024, '1000 tables: memory is freed after each') END
FROM dblink('m', 'SELECT * FROM (SELECT count(*) FROM parvacuum_plan(''p0'')) w, most_memory()') a(n bigint, before int),
    dblink('m', 'SELECT * FROM (SELECT count(*) FROM parvacuum_plan(''many'')) w, most_memory()') b(n bigint, after int);
SELECT dblink_disconnect('m') \g /dev/null
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS a;
SELECT is((SELECT count(*) FROM parvacuum_plan('mv')), 1::bigint, 'a materialized view');
CREATE TABLE empty (a int);
SELECT is(format('%s %s %s', pages_total, elapsed_ms, useless), '0 0 t', 'an empty table') FROM parvacuum_plan('empty');

-- Indexes of all kinds, with pages and without
CREATE TABLE kinds (a int, b int[], c point) WITH (autovacuum_enabled = off);
CREATE INDEX ON kinds (a);
CREATE INDEX ON kinds USING hash (a);
CREATE INDEX ON kinds USING brin (a);
CREATE INDEX ON kinds USING gin (b);
CREATE INDEX ON kinds USING gist (c);
CREATE INDEX ON kinds USING spgist (c);
SELECT is(indexes, 6, 'indexes of all kinds, of an empty table') FROM parvacuum_plan('kinds', workers => 0) LIMIT 1;
INSERT INTO kinds SELECT g, ARRAY[g % 10], point(g, g % 17) FROM generate_series(1, 10000) g;
DELETE FROM kinds WHERE a % 3 = 0;
SELECT is(format('%s %s %s', indexes, dead_items, index_scans), '6 3333 1', 'indexes of all kinds') FROM parvacuum_plan('kinds', workers => 0) LIMIT 1;

-- It changes nothing of the caller's transaction.
SELECT connect('c') \g /dev/null
SELECT dblink_exec('c', 'BEGIN READ ONLY') \g /dev/null
SELECT is((SELECT n FROM dblink('c', 'SELECT count(*) FROM parvacuum_plan(''scans'')') x(n bigint)), 1::bigint, 'in a read-only transaction');
SELECT is((SELECT n FROM dblink('c', 'SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN (''scans''::regclass, ''scans_a_idx''::regclass)') x(n bigint)), 0::bigint, 'no lock is left');
SELECT is((SELECT n FROM dblink('c', 'SELECT pg_current_xact_id_if_assigned()') x(n text)), NULL, 'no transaction ID is assigned');
SELECT dblink_disconnect('c') \g /dev/null
CREATE FUNCTION evil(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i; END';
CREATE TABLE owned (a int) WITH (autovacuum_enabled = off);
CREATE INDEX ON owned (evil(a)) WHERE evil(a) > 0 AND evil(3) > 0;
CREATE INDEX ON owned USING brin (evil(a));
INSERT INTO owned SELECT generate_series(1, 5000);
DELETE FROM owned WHERE a % 2 = 0;
CREATE OR REPLACE FUNCTION evil(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE EXCEPTION 'code of the owner'; END$$;
SELECT is((SELECT count(*) FROM parvacuum_plan('owned')), 1::bigint, 'no function of the owner is called');

-- Locks: only those that block readers make it wait.
SELECT connect('l') \g /dev/null
SELECT dblink_exec('l', 'BEGIN; LOCK TABLE held IN EXCLUSIVE MODE') \g /dev/null
SET lock_timeout = '5s';
SELECT is((SELECT count(*) FROM parvacuum_plan('held')), 1::bigint, 'beside an exclusive lock');
SELECT dblink_exec('l', 'ROLLBACK; BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE') \g /dev/null
SET lock_timeout = '50ms';
SELECT throws_ok('SELECT parvacuum_plan(''held'')', '55P03', NULL, 'it waits for a lock that readers wait for');
SELECT is(attempt('SET ROLE pv_other; SET lock_timeout = ''50ms''', 'SELECT parvacuum_plan(''held'')'),
    '42501: permission denied to plan a vacuum of table "held" / Only roles that may vacuum the table, and members of pg_read_all_stats, can do that.', 'roles without rights do not wait');
RESET lock_timeout;
SELECT dblink_disconnect('l') \g /dev/null

-- Rights
CREATE TABLE theirs (a int, b text);
ALTER TABLE theirs OWNER TO pv_owner;
ALTER TABLE p1 OWNER TO pv_owner;
ALTER TABLE p0 OWNER TO pv_owner;
SELECT is(attempt('SET ROLE ' || role, 'SELECT parvacuum_plan(''theirs'')'), result, role)
FROM (VALUES ('pv_owner', 'done'), ('pv_stats', 'done'),
    ('pv_other', '42501: permission denied to plan a vacuum of table "theirs" / Only roles that may vacuum the table, and members of pg_read_all_stats, can do that.')) x(role, result);
SELECT is((SELECT string_agg(relation, ' ') FROM (SELECT dblink_connect('o', conninfo('o')), dblink_exec('o', 'SET ROLE pv_owner')) c,
    dblink('o', 'SELECT relation::text FROM parvacuum_plan(''p0'') WHERE relation = ANY (''{p0,p1,p2}''::regclass[])') x(relation text)), 'p1', 'a partition of another owner is left out');
SELECT dblink_disconnect('o') \g /dev/null

-- The rights on a table count for its TOAST table as well.
SELECT current_setting('server_version_num')::int >= 170000 AS maintain \gset
\if :maintain
GRANT MAINTAIN ON theirs TO pv_other;
\endif
CREATE FUNCTION rows_of(role name, rel text) RETURNS bigint LANGUAGE sql AS $$
    SELECT n FROM (SELECT dblink_connect('o', conninfo('o')), dblink_exec('o', 'SET ROLE ' || quote_ident(role))) c,
        dblink('o', format('SELECT count(*) FROM parvacuum_plan(%L)', rel)) x(n bigint)
$$;
SELECT is(rows_of(CASE WHEN :'maintain' THEN 'pv_other' ELSE 'pv_owner' END, 'theirs'), 2::bigint, 'a role that may vacuum the table: its TOAST table too');
SELECT dblink_disconnect('o') \g /dev/null

-- Errors
SELECT connect('e') \g /dev/null
CREATE VIEW a_view AS SELECT 1 AS x;
CREATE SEQUENCE a_sequence;
CREATE TYPE a_type AS (x int);
DROP FOREIGN DATA WRAPPER IF EXISTS pv_none CASCADE;
CREATE FOREIGN DATA WRAPPER pv_none;
CREATE SERVER pv_none FOREIGN DATA WRAPPER pv_none;
CREATE FOREIGN TABLE a_foreign_table (x int) SERVER pv_none;
SELECT dblink_exec('e', 'CREATE TEMP TABLE temporary (a int)') \g /dev/null
SELECT fails('e', format('SELECT parvacuum_plan(%L)', rel), '42809', format('cannot vacuum "%s"', rel), 'Only tables, partitioned tables, materialized views, and TOAST tables can be vacuumed.', rel)
FROM unnest('{a_view,a_sequence,a_type,a_foreign_table,scans_a_idx}'::text[]) rel;
SELECT fails('e', 'SELECT parvacuum_plan(1::oid)', '42P01', 'relation with OID 1 does not exist', 'Name the table to be vacuumed.', 'no relation');
SELECT fails('e', 'SELECT parvacuum_plan(NULL)', '22004', 'argument "rel" must not be null', 'Name the table to be vacuumed.', 'no table');
SELECT fails('e', format('SELECT parvacuum_plan(''held'', %s => NULL)', name), '22004', format('argument "%s" must not be null', name), 'Omit the argument to use its default.', name)
FROM unnest('{freeze,disable_page_skipping}'::text[]) name;
SELECT fails('e', 'SELECT parvacuum_plan(''held'', workers => -1)', '22023', 'number of workers must be between 0 and 1024', '0 means no workers.  NULL lets parvacuum decide.', 'a negative number of workers');
SELECT is(f.state || ' ' || f.message || ' / ' || f.detail, '0A000 cannot vacuum temporary table "temporary" in another process / Only the session that created it can vacuum it.', 'a temporary table')
FROM failure('e', 'SELECT parvacuum_plan(''temporary'')') f;

-- Partitions and children that cannot be vacuumed are left out with a warning.
CREATE TABLE mixed (x int) PARTITION BY LIST (x);
CREATE TABLE mixed_1 PARTITION OF mixed FOR VALUES IN (1);
CREATE FOREIGN TABLE mixed_2 PARTITION OF mixed FOR VALUES IN (2) SERVER pv_none;
CREATE TABLE heir_of (a int);
SELECT dblink_exec('e', 'CREATE TEMP TABLE heir () INHERITS (heir_of)') \g /dev/null
SELECT replace(conninfo('notices'), '=warning', '=notice') AS conninfo, current_setting('server_version_num')::int >= 180000 AS has_children \gset
SET client_min_messages = error;
SELECT is((SELECT string_agg(relid::regclass::text, ' ') FROM parvacuum_plan('mixed')), 'mixed_1', 'a foreign table as a partition: no row');
RESET client_min_messages;
\if :has_children
\set said `psql -XqAt -d :'conninfo' -c 'SELECT count(*) FROM parvacuum_plan($$heir_of$$)' 2>&1 | grep -v LOCATION`
SELECT is(:'said'::text, $$WARNING:  cannot vacuum temporary table "heir" in another process
DETAIL:  Only the session that created it can vacuum it.
HINT:  Use VACUUM.
1$$, 'a temporary table as a child: a warning, and no row');
\else
SELECT skip('VACUUM does not include children', 1);
\endif
\set said `psql -XqAt -d :'conninfo' -c 'SELECT count(*) FROM parvacuum_plan($$mixed$$)' 2>&1 | head -1`
SELECT is(:'said'::text, 'WARNING:  cannot vacuum "mixed_2"', 'a foreign table as a partition: a warning');

SELECT dblink_disconnect('e') \g /dev/null

SELECT * FROM finish();
DROP FOREIGN DATA WRAPPER pv_none CASCADE;
SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_other', 'pv_stats']) r \g /dev/null
DROP SCHEMA t CASCADE;
