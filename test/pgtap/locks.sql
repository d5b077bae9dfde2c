-- Locks of other sessions, and locks of the caller itself, for which the deadlock
-- detector cannot help.
\ir common.psql

SELECT plan(25);

CREATE TABLE a AS SELECT g AS x FROM generate_series(1, 1000) g;
CREATE TABLE part (x int) PARTITION BY LIST (x);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2);
SELECT connect(c) FROM unnest(ARRAY['lock', 'call']) c \g /dev/null
SELECT dblink_exec('call', 'SET deadlock_timeout = ''100ms''') \g /dev/null

-- skip_locked
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a, part_1 IN ACCESS EXCLUSIVE MODE') \g /dev/null
SET client_min_messages = error;
SELECT is((SELECT count(*) FROM parvacuum_run('a', skip_locked => true)), 0::bigint, 'skip_locked: no row');
SELECT is((SELECT array_agg(relid) FROM parvacuum_run('part', skip_locked => true)), ARRAY['part_2'::regclass], 'skip_locked: rows of the partitions that are not locked');
SELECT is((SELECT count(*) FROM parvacuum_run('a', skip_locked => true, "analyze" => true)), 0::bigint, 'skip_locked with analyze');
SET client_min_messages = warning;
SELECT dblink_exec('lock', 'ROLLBACK; BEGIN; LOCK TABLE a IN SHARE MODE') \g /dev/null
SET client_min_messages = error;
SELECT is((SELECT count(*) FROM parvacuum_run('a', skip_locked => true)), 0::bigint, 'skip_locked: a lock that only conflicts with vacuum');
SET client_min_messages = warning;
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null

-- lock_timeout applies to the background leader as well.
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN SHARE MODE') \g /dev/null
SELECT dblink_exec('call', 'SET lock_timeout = ''100ms''') \g /dev/null
SELECT is((failure('call', s)).state, '55P03', 'lock_timeout: ' || s) FROM unnest(ARRAY['SELECT parvacuum_run(''a'')', 'CALL parvacuum(''a'')']) s;
SELECT matches((failure('call', 'SELECT parvacuum_run(''a'')')).context, 'while running parvacuum on table "t.a"', 'an error of the background leader has its context');
SELECT dblink_exec('call', 'RESET lock_timeout') \g /dev/null
SELECT dblink_exec('call', 'SET statement_timeout = ''200ms''') \g /dev/null
SELECT is((failure('call', 'SELECT parvacuum_run(''a'')')).message, 'canceling statement due to statement timeout', 'statement_timeout ends the run');
SELECT is(count(*), 0::bigint, 'statement_timeout ends the background leader') FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader';
SELECT dblink_exec('call', 'RESET statement_timeout') \g /dev/null
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null

-- A table that the caller has locked
CREATE FUNCTION lock(name text, mode text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN %s MODE', name, mode);
    RETURN true;
END $$;
CREATE FUNCTION locked_run(name text, mode text, target text) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT CASE WHEN lock(%L, %L) THEN (SELECT count(*) FROM parvacuum_run(%L))::text END', name, mode, target)
$$;
SELECT fails('call', locked_run('a', mode, 'a'), '55006', 'cannot vacuum table "a" because this session has locked it', 'Release the lock first.',
    'locked by the caller: ' || mode)
FROM unnest(ARRAY['SHARE UPDATE EXCLUSIVE', 'SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE']) mode;
SELECT is((failure('call', locked_run('a', mode, 'a'))).message, NULL, 'locked by the caller, but not against vacuum: ' || mode)
FROM unnest(ARRAY['ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE']) mode;

-- Locks of the caller that are found while waiting
SELECT fails('call', locked_run('part_1', 'SHARE', 'part'), '40P01', 'deadlock detected',
    'Do not use the tables to be vacuumed in the same statement or transaction, or use CALL parvacuum(...).', 'a partition locked by the caller');
CREATE FUNCTION queue_behind() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock('a', 'ACCESS SHARE');
    PERFORM dblink_connect('queue', conninfo('queue'));
    PERFORM dblink_exec('queue', 'BEGIN');
    PERFORM dblink_send_query('queue', 'LOCK TABLE a IN ACCESS EXCLUSIVE MODE');
    RETURN soon('EXISTS (SELECT FROM pg_locks WHERE relation = ''a''::regclass AND NOT granted)');
END $$;
SELECT fails('call', 'SELECT CASE WHEN queue_behind() THEN (SELECT count(*) FROM parvacuum_run(''a''))::text END', '40P01', 'deadlock detected',
    'Do not use the tables to be vacuumed in the same statement or transaction, or use CALL parvacuum(...).', 'the background leader waits behind a session that waits for the caller');
SELECT x FROM dblink('call', 'SELECT dblink_disconnect(''queue'')') y(x text) \g /dev/null
SELECT fails('call', 'SELECT parvacuum_run(''a'', freeze => true)::text FROM a LIMIT 1', '40P01', 'deadlock detected',
    'Do not use the tables to be vacuumed in the same statement or transaction, or use CALL parvacuum(...).', 'a page that the calling statement has pinned');
SELECT is((failure('call', 'SELECT parvacuum_run(''a'', freeze => true)')).message, NULL, 'the next run succeeds');

-- A table that changes while the background leader waits for it
CREATE TABLE old_name (x int);
SELECT 'old_name'::regclass::oid AS oid \gset
SELECT dblink_exec('lock', 'BEGIN; ALTER TABLE old_name RENAME TO new_name; CREATE TABLE old_name (y int)') \g /dev/null
SELECT dblink_send_query('call', 'SELECT relid::oid FROM parvacuum_run(''old_name'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
SELECT dblink_exec('lock', 'COMMIT') \g /dev/null
SELECT is(result('call'), :'oid', 'renamed meanwhile: the same table is vacuumed');
SELECT dblink_exec('lock', 'BEGIN; DROP TABLE new_name') \g /dev/null
SELECT dblink_send_query('call', 'SELECT relid::oid FROM parvacuum_run(''new_name'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
SELECT dblink_exec('lock', 'COMMIT') \g /dev/null
SELECT is(failed_result('call'), format('42P01: relation with OID %s no longer exists', :'oid'), 'dropped meanwhile: an error');

SELECT dblink_disconnect(c) FROM unnest(ARRAY['lock', 'call']) c \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
