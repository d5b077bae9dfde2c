-- parvacuum_progress: its columns, and what it shows of a running vacuum to which role.
\ir common.psql

SELECT plan(39);

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_stats', 'pv_dba']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_member NOLOGIN IN ROLE pv_owner;
CREATE ROLE pv_other NOLOGIN;
CREATE ROLE pv_stats NOLOGIN IN ROLE pg_read_all_stats;
CREATE ROLE pv_dba LOGIN;
ALTER ROLE pv_dba SET parvacuum.wait_at = scan;

-- The columns
SELECT is(array(SELECT attname::text FROM pg_attribute WHERE attrelid = 'parvacuum_progress'::regclass AND attnum > 0
        AND attname NOT IN ('datname', 'relation', 'index_relation') ORDER BY attnum),
    (SELECT proargnames FROM pg_proc WHERE proname = 'parvacuum_progress_items'), 'the columns are those of the function, and names');
SELECT is(array(SELECT format('%s %s', attname, format_type(atttypid, NULL)) FROM pg_attribute WHERE attrelid = 'parvacuum_progress'::regclass
        AND attname IN ('datid', 'datname', 'relid', 'relation', 'indexrelid', 'index_relation', 'eta') ORDER BY attnum),
    ARRAY['datid oid', 'datname name', 'relid oid', 'relation regclass', 'eta timestamp with time zone', 'indexrelid oid', 'index_relation regclass'],
    'objects are shown by OID and by name');
SELECT is(array(SELECT attname::text FROM pg_attribute WHERE attrelid = 'pg_stat_progress_vacuum'::regclass AND attnum > 0
        EXCEPT SELECT attname FROM pg_attribute WHERE attrelid = 'parvacuum_progress'::regclass), '{}', 'no column of pg_stat_progress_vacuum is missing');
SELECT is(array(SELECT attname::text FROM pg_attribute WHERE attrelid = 'parvacuum_progress'::regclass AND attnum > 0
        AND quote_ident(attname) <> attname), '{}', 'no column needs quotes');
SELECT ok(obj_description('parvacuum_progress'::regclass, 'pg_class') IS NOT NULL, 'the view has a comment');
SELECT ok(obj_description(oid, 'pg_proc') IS NOT NULL, 'the function has a comment') FROM pg_proc WHERE proname = 'parvacuum_progress_items';
SELECT table_privs_are('parvacuum_progress', 'public', ARRAY['SELECT'], 'all roles may read the view');
SELECT ok(NOT EXISTS (SELECT FROM parvacuum_progress), 'without a vacuum there is no row');

-- A vacuum with one worker, which waits before the first block
CREATE TABLE slow (a int PRIMARY KEY, b text) WITH (parvacuum.enabled);
INSERT INTO slow SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g;
DELETE FROM slow WHERE a % 2 = 0;
ALTER TABLE slow OWNER TO pv_owner;
SELECT connect(c) FROM unnest(ARRAY['lock', 'run']) c \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; DO $$ BEGIN PERFORM pg_advisory_xact_lock(28790); END $$') \g /dev/null
SELECT dblink_exec('run', 'SET parvacuum.wait_at = scan') \g /dev/null
SELECT dblink_send_query('run', 'VACUUM (PARALLEL 1) slow') \g /dev/null
SELECT ok(soon($$(SELECT count(*) = 2 FROM parvacuum_progress WHERE participant IS NOT NULL AND wait_event = 'advisory')$$), 'both participants wait');
SELECT is(array(SELECT format('%s %s %s %s %s %s', coalesce(participant, -1), p.datname, p.relation, p.started_by, p.phase, p.pid = p.leader_pid)
        FROM parvacuum_progress p ORDER BY participant NULLS FIRST),
    ARRAY[format('-1 %s slow command scanning heap ', current_database()), format('0 %s slow command scanning heap t', current_database()),
          format('1 %s slow command scanning heap f', current_database())], 'a row for the vacuum, and one for each participant');
SELECT is(format('%s %s %s %s %s %s', mode, workers, heap_blks_total, heap_blks_scanned, eta, caller_pid),
    format('normal 1 %s 0  ', pg_relation_size('slow') / current_setting('block_size')::int), 'nothing is done, so no end is known')
FROM parvacuum_progress WHERE participant IS NULL;
SELECT is(p.pid, a.pid, 'the leader is the session') FROM parvacuum_progress p, pg_stat_activity a WHERE p.participant = 0 AND a.application_name = 'run' AND a.backend_type = 'client backend';
SELECT is(array(SELECT pid FROM parvacuum_progress WHERE participant = 1), array(SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker'), 'the worker');
SELECT is(array(SELECT to_jsonb(c) FROM pg_stat_progress_vacuum c), array(SELECT to_jsonb(c) || s FROM pg_stat_progress_vacuum c, LATERAL (
        SELECT jsonb_object_agg(key, value) AS s FROM jsonb_each((SELECT to_jsonb(p) FROM parvacuum_progress p WHERE participant IS NULL))
        WHERE to_jsonb(c) ? key AND key <> 'started_by') x), 'the columns of pg_stat_progress_vacuum have its values');

-- Who sees it
SELECT is(answer('SET ROLE ' || r, 'SELECT format(''%s %s %s %s'', count(*), count(datname), count(relid), count(started_at)) FROM parvacuum_progress'),
    CASE r WHEN 'pv_other' THEN '1 1 0 0' ELSE '3 3 3 3' END, format('%s: rows, and details', r))
FROM unnest(ARRAY[session_user::text, 'pv_stats', 'pv_owner', 'pv_member', 'pv_other']) r;
SELECT is(answer('SET ROLE pv_other', 'SELECT count(*) FROM parvacuum_progress p, LATERAL jsonb_each_text(to_jsonb(p)) WHERE key NOT IN (''pid'', ''datid'', ''datname'') AND value IS NOT NULL'),
    '0', 'pv_other: only process and database');
SELECT is(answer('SET ROLE pv_other', 'SELECT count(*) FROM parvacuum_progress_items() p, LATERAL jsonb_each_text(to_jsonb(p)) WHERE key NOT IN (''pid'', ''datid'') AND value IS NOT NULL'),
    '0', 'pv_other: nor from the function');

SELECT dblink_exec('lock', 'COMMIT') \g /dev/null
SELECT is(result('run'), 'VACUUM', 'the vacuum ends');
SELECT ok(soon('NOT EXISTS (SELECT FROM parvacuum_progress)'), '... and its rows are gone');

-- The owner of the database may vacuum the table, and sees that vacuum.
CREATE FUNCTION set_owner(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), name);
END $$;
SELECT set_owner('pv_dba') \g /dev/null
SELECT dblink_connect('dba', replace(conninfo('dba'), 'user=' || session_user, 'user=pv_dba')) \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; DO $$ BEGIN PERFORM pg_advisory_xact_lock(28790); END $$') \g /dev/null
SELECT dblink_send_query('dba', 'VACUUM (PARALLEL 0) slow') \g /dev/null
SELECT ok(soon($$(SELECT count(*) = 1 FROM parvacuum_progress WHERE participant = 0 AND wait_event = 'advisory')$$), 'a vacuum of a role that does not own the table');
SELECT is(answer('SET ROLE pv_dba', 'SELECT count(relid) FROM parvacuum_progress'), '2', 'the role sees it');
SELECT dblink_exec('lock', 'COMMIT') \g /dev/null
SELECT is(result('dba'), 'VACUUM', 'the vacuum of that role ends');
SELECT dblink_disconnect('dba') \g /dev/null
SELECT set_owner(session_user) \g /dev/null

-- A copy of a database: its tables have the OIDs of the others, and are no others.
CREATE FUNCTION in_database(name text, session text) RETURNS text LANGUAGE sql AS $$
    SELECT replace(conninfo(session), 'dbname=' || current_database(), 'dbname=' || name)
$$;
SELECT dblink_exec(conninfo('create'), 'DROP DATABASE IF EXISTS ' || d) FROM unnest('{pv_model,pv_copy}'::text[]) d \g /dev/null
SELECT dblink_exec(conninfo('create'), 'CREATE DATABASE pv_model') \g /dev/null
SELECT dblink_exec(in_database('pv_model', 'create'), 'CREATE EXTENSION parvacuum; CREATE TABLE slow WITH (parvacuum.enabled) AS SELECT 1 AS a') \g /dev/null
SELECT dblink_exec(conninfo('create'), 'CREATE DATABASE pv_copy TEMPLATE pv_model') \g /dev/null
SELECT dblink_exec(in_database('pv_model', 'create'), 'ALTER TABLE slow OWNER TO pv_owner') \g /dev/null
SELECT dblink_connect(c, in_database('pv_copy', c)) FROM unnest(ARRAY['lock_there', 'run_there']) c \g /dev/null
SELECT dblink_exec('lock_there', 'BEGIN; DO $$ BEGIN PERFORM pg_advisory_xact_lock(28790); END $$') \g /dev/null
SELECT dblink_exec('run_there', 'SET parvacuum.wait_at = scan') \g /dev/null
SELECT dblink_send_query('run_there', 'VACUUM (PARALLEL 0) slow') \g /dev/null
SELECT ok(soon($$(SELECT count(*) = 1 FROM parvacuum_progress WHERE participant = 0 AND wait_event = 'advisory')$$), 'a vacuum in a copy of a database');
SELECT is(x, expected, r || ': what is seen of it in the other')
FROM (VALUES ('pv_owner', '1 0 0'), ('pv_stats', '2 2 0')) v(r, expected),
    LATERAL dblink(in_database('pv_model', 'look'), format('SET ROLE %s; SELECT format(''%%s %%s %%s'', count(*), count(relid), count(relation)) FROM parvacuum_progress', r)) y(x text);
SELECT dblink_exec('lock_there', 'COMMIT') \g /dev/null
SELECT is(result('run_there'), 'VACUUM', 'the vacuum in the copy ends');
SELECT dblink_disconnect(c) FROM unnest(ARRAY['lock_there', 'run_there']) c \g /dev/null
SELECT dblink_exec(conninfo('drop'), 'DROP DATABASE ' || d) FROM unnest('{pv_model,pv_copy}'::text[]) d \g /dev/null

-- A run: its background leader, and its caller
SELECT dblink_exec('lock', 'BEGIN; DO $$ BEGIN PERFORM pg_advisory_xact_lock(28790); END $$') \g /dev/null
SELECT dblink_send_query('run', 'SELECT workers_launched FROM parvacuum_run(''slow'', workers => 0)') \g /dev/null
SELECT ok(soon($$(SELECT count(*) = 1 FROM parvacuum_progress WHERE participant = 0 AND wait_event = 'advisory')$$), 'the background leader waits');
SELECT is(format('%s %s %s %s', count(*), min(started_by), max(started_by), count(*) FILTER (WHERE a.application_name = 'run' AND p.pid <> a.pid)), '2 function function 2',
    'caller_pid is the session that called the function')
FROM parvacuum_progress p JOIN pg_stat_activity a ON a.pid = p.caller_pid;
SELECT is(a.application_name, format('parvacuum run for PID %s', p.caller_pid), 'the background leader names its caller')
FROM parvacuum_progress p JOIN pg_stat_activity a USING (pid) WHERE p.participant IS NULL;

-- An error, too, ends it
SELECT is(dblink_cancel_query('run'), 'OK', 'the caller cancels');
SELECT is(failed_result('run'), '57014: canceling statement due to user request', 'the run is canceled');
SELECT ok(soon('NOT EXISTS (SELECT FROM parvacuum_progress)'), 'canceled: its rows are gone');
SELECT dblink_exec('lock', 'COMMIT') \g /dev/null

-- A block at which a vacuum has stopped because its store was full counts once.
DELETE FROM slow WHERE a % 4 = 1 OR a > 15000;
SELECT dblink_exec('lock', 'BEGIN; DO $$ BEGIN PERFORM pg_advisory_xact_lock(28790); END $$') \g /dev/null
SELECT dblink_exec('run', s) FROM unnest(ARRAY['SET parvacuum.wait_at = truncate', 'SET parvacuum.store_limit = 1']) s \g /dev/null
SELECT dblink_send_query('run', 'VACUUM (PARALLEL 0, TRUNCATE) slow') \g /dev/null
SELECT ok(soon($$(SELECT count(*) = 2 FROM parvacuum_progress WHERE phase = 'truncating heap' AND wait_event = 'advisory')$$), 'the vacuum has scanned the table');
SELECT is(format('%s %s', max(heap_blks_scanned) FILTER (WHERE participant = 0) - max(heap_blks_total), max(index_vacuum_count) > 1), '0 t',
    'in several index scans it has counted each block once')
FROM parvacuum_progress;
SELECT dblink_exec('lock', 'COMMIT') \g /dev/null
SELECT is(result('run'), 'VACUUM', 'that vacuum ends');

SELECT dblink_disconnect(c) FROM unnest(ARRAY['lock', 'run']) c \g /dev/null

SELECT * FROM finish();
SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_stats', 'pv_dba']) r \g /dev/null
DROP SCHEMA t CASCADE;
