-- The background leader and its workers have the settings of the caller's session,
-- whatever these are.
\ir common.psql

SELECT plan(27);

CREATE TABLE a (x int, y varchar(200)) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(n int DEFAULT 40000) RETURNS void LANGUAGE sql AS $$
    TRUNCATE a;
    INSERT INTO a SELECT g, repeat('x', 200) FROM generate_series(1, n) g;
    DELETE FROM a WHERE hashint4(x) % 3 = 0;
$$;
CREATE INDEX ON a (x);

-- A limit of the store for this session causes several index scans.
SELECT fill(200000) \g /dev/null
SELECT is((SELECT index_scans FROM parvacuum_run('a', workers => 2)), 1, 'store_limit at its default');
SELECT fill(200000) \g /dev/null
SET parvacuum.store_limit = 1;
SELECT cmp_ok((SELECT index_scans FROM parvacuum_run('a', workers => 0)), '>', 1, 'store_limit, 0 workers');
SELECT fill(200000) \g /dev/null
SELECT cmp_ok((SELECT index_scans FROM parvacuum_run('a', workers => 2)), '>', 1, 'store_limit, 2 workers');
RESET parvacuum.store_limit;

SELECT fill() \g /dev/null
SET parvacuum.min_parallel_pages = 100000;
SELECT is((SELECT workers_planned FROM parvacuum_run('a')), 0, 'min_parallel_pages above the size of the table: no workers');
SELECT fill() \g /dev/null
SELECT is((SELECT workers_planned FROM parvacuum_run('a', workers => 1)), 1, 'min_parallel_pages does not apply if a number of workers is given');
RESET parvacuum.min_parallel_pages;

SET vacuum_freeze_min_age = 0;
SET vacuum_freeze_table_age = 0;
SELECT ok((SELECT relfrozenxid_advanced FROM parvacuum_run('a')), 'the freeze ages are passed on');
RESET vacuum_freeze_min_age;
RESET vacuum_freeze_table_age;

-- Cost limits slow down the background leader.
SELECT fill() \g /dev/null
SET vacuum_cost_delay = '1ms';
SET vacuum_cost_limit = 10;
SELECT cmp_ok((SELECT elapsed_ms FROM parvacuum_run('a', workers => 0)), '>', 100::float8, 'the cost limit is passed on');
RESET vacuum_cost_delay;
RESET vacuum_cost_limit;

-- Settings that are difficult to pass on
CREATE FUNCTION with_setting(setting text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    f record;
BEGIN
    PERFORM connect('s');
    PERFORM dblink_exec('s', 'SET ' || setting);
    f := failure('s', format('SELECT %I.parvacuum_run(''t.a'', workers => 1)::text',
        (SELECT nspname FROM pg_namespace n JOIN pg_extension e ON e.extnamespace = n.oid WHERE extname = 'parvacuum')));
    PERFORM dblink_disconnect('s');
    RETURN is(f.message, NULL, 'with ' || setting);
END $$;
SELECT with_setting(s) FROM unnest(ARRAY['search_path = ''''', 'default_transaction_isolation = serializable', 'default_transaction_isolation = ''repeatable read''',
    'default_transaction_read_only = on', 'an.unknown_setting = 1', 'client_encoding = latin1', 'client_min_messages = error', 'datestyle = ''german''',
    'session_replication_role = replica', in_workers() || ' = on', 'application_name = ''x''''y"z''']) s;

-- Names that are not ASCII, in a message of the background leader
SELECT connect('s') \g /dev/null
SELECT getdatabaseencoding() = 'UTF8' AS utf8 \gset
\if :utf8
SELECT dblink_exec('s', 'SET client_encoding = utf8; SET lock_timeout = ''50ms''; CREATE TABLE "été" (x int)') \g /dev/null
SELECT connect('lock') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE "été" IN SHARE MODE') \g /dev/null
SELECT matches((failure('s', 'SELECT parvacuum_run(''"été"'')')).context, 'on table "t.été"', 'a name that is not ASCII');
SELECT dblink_disconnect('lock') \g /dev/null
\else
SELECT skip('the database is not in UTF-8', 1);
\endif

-- parvacuum.max_workers is a setting of the cluster.
ALTER SYSTEM SET parvacuum.max_workers = 1;
SELECT reloaded('parvacuum.max_workers', '1') \g /dev/null
SELECT is((SELECT workers_planned FROM parvacuum_run('a', workers => 3, disable_page_skipping => true)), 1, 'max_workers');
ALTER SYSTEM RESET parvacuum.max_workers;
SELECT pg_reload_conf() \g /dev/null

-- Without reading ahead
CREATE TABLE unread AS SELECT g AS x FROM generate_series(1, 20000) g;
DELETE FROM unread WHERE x % 2 = 0;
SELECT is(answer('SET maintenance_io_concurrency = 0', 'SELECT tuples_removed FROM parvacuum_run(''unread'', workers => 1)'), '10000', 'maintenance_io_concurrency = 0');

-- parvacuum.max_runs is a setting of the cluster.
SELECT throws_ok('SET parvacuum.max_runs = 1', '55P02', NULL, 'max_runs cannot be set in a session');
SELECT is(attempt('RESET ROLE', format('ALTER SYSTEM SET parvacuum.max_runs = %s', n)), format('22023: %s is outside the valid range for parameter "parvacuum.max_runs" (0 .. 256) / ', n),
    format('max_runs = %s', n)) FROM unnest(ARRAY[-1, 257]) n;
ALTER SYSTEM SET parvacuum.max_runs = 0;
SELECT reloaded('parvacuum.max_runs', '0') \g /dev/null
SELECT runs_refused AS before FROM parvacuum_scheduler_stats() \gset
SELECT is(attempt('RESET ROLE', statement), '53400: too many runs of parvacuum to vacuum table "t.a" / Use VACUUM, or increase "parvacuum.max_runs".', 'max_runs: ' || statement)
FROM unnest(ARRAY['SELECT parvacuum_run(''a'')', 'CALL parvacuum(''a'')']) statement;
SELECT is(runs_refused, :before + 2::bigint, 'refused runs are counted') FROM parvacuum_scheduler_stats();
ALTER SYSTEM RESET parvacuum.max_runs;
SELECT pg_reload_conf() \g /dev/null

SELECT dblink_disconnect('s') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
