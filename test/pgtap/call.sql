-- CALL parvacuum(): it commits, waits without a snapshot, and reports by notice.  What the
-- caller of the function holds meanwhile, and what both show.
\ir common.psql

SELECT plan(33);

CREATE TABLE a (x int) WITH (autovacuum_enabled = off);
INSERT INTO a SELECT generate_series(1, 1000);
DELETE FROM a WHERE x <= 500;
CREATE TABLE log (what text);

-- A plain CALL
CALL parvacuum('a', workers => 0);
SELECT is(vacuum_count, 1::bigint, 'the table is vacuumed') FROM pg_stat_all_tables WHERE relid = 'a'::regclass;

-- CALL in a procedure, whose transaction it ends
CREATE PROCEDURE twice() LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    INSERT INTO log VALUES ('before ' || txid_current());
    FOR r IN SELECT 'a'::regclass AS rel FROM generate_series(1, 2) LOOP
        CALL parvacuum(r.rel);
        INSERT INTO log VALUES ('after ' || txid_current());
    END LOOP;
    ROLLBACK;
END $$;
CALL twice();
SELECT is(array_agg(split_part(what, ' ', 1) ORDER BY what), ARRAY['after', 'before'], 'each CALL commits the transaction before it') FROM log;
SELECT is(count(DISTINCT split_part(what, ' ', 2)), 2::bigint, 'each CALL begins a transaction') FROM log;
SELECT is(vacuum_count, 3::bigint, 'the table is vacuumed twice') FROM pg_stat_all_tables WHERE relid = 'a'::regclass;
DO $$ BEGIN CALL parvacuum('a'); END $$;
SELECT is(vacuum_count, 4::bigint, 'CALL in DO') FROM pg_stat_all_tables WHERE relid = 'a'::regclass;

-- The caller and its background leader during the vacuum: no snapshot holds back the
-- horizon.
SELECT connect('lock') \g /dev/null
SELECT connect('call') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN ACCESS EXCLUSIVE MODE') \g /dev/null
SELECT dblink_send_query('call', 'CALL parvacuum(''a'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
SELECT is(backend_xmin::text, NULL, 'the caller of CALL does not hold back the horizon') FROM pg_stat_activity WHERE application_name = 'call' AND backend_type = 'client backend';
SELECT is(backend_xid::text, NULL, 'the caller of CALL is in no transaction that others wait for') FROM pg_stat_activity WHERE application_name = 'call' AND backend_type = 'client backend';
SELECT is(count(*), 0::bigint, 'the caller of CALL holds no lock on the table')
FROM pg_locks l JOIN pg_stat_activity s USING (pid) WHERE s.application_name = 'call' AND s.backend_type = 'client backend' AND l.relation = 'a'::regclass;
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT is(result('call'), 'CALL', 'the vacuum goes on when the lock is released');

SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN ACCESS EXCLUSIVE MODE') \g /dev/null
SELECT dblink_send_query('call', 'SELECT parvacuum_run(''a'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
SELECT is(backend_xmin::text, NULL, 'the caller of the function does not hold back the horizon') FROM pg_stat_activity WHERE application_name = 'call' AND backend_type = 'client backend';
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT isnt(result('call'), NULL, 'the vacuum goes on when the lock is released');

-- A statement that reads a table, or runs under another isolation level, holds its
-- snapshot, and is seen as what it is.
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN ACCESS EXCLUSIVE MODE') \g /dev/null
CREATE FUNCTION holder(settings text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    seen text;
BEGIN
    PERFORM connect('holder'), dblink_exec('holder', settings);
    PERFORM dblink_send_query('holder', statement);
    PERFORM soon($c$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$c$);
    PERFORM pg_stat_clear_snapshot();
    SELECT format('%s %s', CASE WHEN backend_xmin IS NULL THEN 'nothing:' ELSE 'a snapshot:' END, query) INTO seen
    FROM pg_stat_activity WHERE application_name = 'holder' AND backend_type = 'client backend';
    PERFORM dblink_cancel_query('holder'), failed_result('holder'), dblink_disconnect('holder');
    PERFORM soon($c$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader')$c$);
    RETURN seen;
END $$;
SELECT is(holder('SET work_mem = 64', s), 'nothing: VACUUM (PARALLEL 0) t.a /* ' || s || ' */', s)
FROM unnest(ARRAY['SELECT relid FROM parvacuum_run(''a'', workers => 0)', 'SELECT parvacuum_run(''a'', workers => 0)',
    'CALL parvacuum(''a'', workers => 0)', 'DO $$ BEGIN CALL parvacuum(''a'', workers => 0); END $$']) s;
SELECT is(holder('SET work_mem = 64', s), 'a snapshot: ' || s, s)
FROM unnest(ARRAY['SELECT what, parvacuum_run(''a'') FROM log', 'INSERT INTO log SELECT relid::text FROM parvacuum_run(''a'')',
    'EXPLAIN ANALYZE SELECT parvacuum_run(''a'')']) s;
SELECT is(holder('SET default_transaction_isolation = ''repeatable read''', 'SELECT parvacuum_run(''a'')'), 'a snapshot: SELECT parvacuum_run(''a'')', 'repeatable read');
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null

-- The VACUUM that does the same
CREATE TABLE "A b" (x int) WITH (autovacuum_enabled = off);
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE "A b" IN ACCESS EXCLUSIVE MODE') \g /dev/null
SELECT matches(holder('SET work_mem = 64', format('SELECT parvacuum_run(''"A b"'', %s)', arguments)), '^nothing: ' || command, command)
FROM (VALUES ('truncate => NULL', 'VACUUM t."A b" /'),
    ('freeze => true, "analyze" => true, verbose => true, disable_page_skipping => true', 'VACUUM \(FREEZE, ANALYZE, VERBOSE, DISABLE_PAGE_SKIPPING\) t."A b" /'),
    ('index_cleanup => ''off'', truncate => true, workers => 1', 'VACUUM \(INDEX_CLEANUP off, TRUNCATE on, PARALLEL 1\) t."A b" /'),
    ('index_cleanup => ''on'', truncate => false', 'VACUUM \(INDEX_CLEANUP on, TRUNCATE off\) t."A b" /')) v(arguments, command);
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null

-- Dead rows that only a snapshot of the caller would hold back are removed.  The rest of
-- the caller's statement sees what was committed meanwhile, and the caller shows its own
-- statement again.
CREATE FUNCTION live() RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM a); END';
CREATE EXTENSION IF NOT EXISTS pgstattuple;
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN SHARE UPDATE EXCLUSIVE MODE') \g /dev/null
INSERT INTO a SELECT generate_series(1, 1000);
SELECT dblink_send_query('call', 'CALL parvacuum(''a'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
DELETE FROM a;
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT result('call') \g /dev/null
SELECT is(dead_tuple_count, 0::bigint, 'rows that died while CALL waited are removed') FROM pgstattuple('a');
INSERT INTO a SELECT generate_series(1, 1000);
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN SHARE UPDATE EXCLUSIVE MODE') \g /dev/null
SELECT dblink_send_query('call', 'SELECT live() FROM parvacuum_run(''a'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
DELETE FROM a WHERE x > 10;
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT is(result('call'), '10', 'the rest of the statement sees what was committed meanwhile');
SELECT is(dead_tuple_count, 0::bigint, 'rows that died while the function waited are removed') FROM pgstattuple('a');
SELECT is(query, 'SELECT live() FROM parvacuum_run(''a'')', 'the caller shows its own statement again') FROM pg_stat_activity WHERE application_name = 'call' AND backend_type = 'client backend';
SELECT dblink_exec('call', 'SET lock_timeout = ''100ms''') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN SHARE UPDATE EXCLUSIVE MODE') \g /dev/null
SELECT is((failure('call', 'SELECT 1 FROM parvacuum_run(''a'')')).state, '55P03', 'a run that fails');
SELECT is(query, 'SELECT 1 FROM parvacuum_run(''a'')', 'the caller shows its own statement again') FROM pg_stat_activity WHERE application_name = 'call' AND backend_type = 'client backend';
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null

SELECT dblink_disconnect(c) FROM unnest(ARRAY['lock', 'call']) c \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
