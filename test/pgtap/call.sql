-- CALL parvacuum(): it commits, waits without a snapshot, and reports by notice.
\ir common.psql

SELECT plan(15);

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
SELECT isnt(backend_xmin::text, NULL, 'the caller of the function holds back the horizon') FROM pg_stat_activity WHERE application_name = 'call' AND backend_type = 'client backend';
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT isnt(result('call'), NULL, 'the vacuum goes on when the lock is released');

-- Dead rows that only a snapshot of a function's caller holds back: CALL removes them.
INSERT INTO a SELECT generate_series(1, 1000);
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN SHARE UPDATE EXCLUSIVE MODE') \g /dev/null
SELECT dblink_send_query('call', 'CALL parvacuum(''a'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
DELETE FROM a;
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT result('call') \g /dev/null
CREATE EXTENSION IF NOT EXISTS pgstattuple;
SELECT is(dead_tuple_count, 0::bigint, 'rows that died while CALL waited are removed') FROM pgstattuple('a');

SELECT dblink_disconnect(c) FROM unnest(ARRAY['lock', 'call']) c \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
