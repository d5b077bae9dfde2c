-- What the views show to which role: everything to members of pg_read_all_stats, and to
-- other roles what core's views show them of their own database.
\ir common.psql

SELECT plan(28);

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_other', 'pv_stats', 'pv_monitor', 'pv_alone']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_other NOLOGIN;
CREATE ROLE pv_stats NOLOGIN IN ROLE pg_read_all_stats;
CREATE ROLE pv_monitor NOLOGIN IN ROLE pg_monitor;
CREATE ROLE pv_alone NOLOGIN NOINHERIT IN ROLE pg_monitor;

CREATE FUNCTION other_database() RETURNS text LANGUAGE sql AS $$
    SELECT replace(conninfo('other'), 'dbname=' || current_database(), 'dbname=pv_visibility')
$$;
SELECT dblink_exec(conninfo('create'), 'DROP DATABASE IF EXISTS pv_visibility') \g /dev/null
SELECT dblink_exec(conninfo('create'), 'CREATE DATABASE pv_visibility') \g /dev/null
SELECT dblink_exec(other_database(), 'CREATE EXTENSION parvacuum; CREATE TABLE theirs AS SELECT 1 AS a') \g /dev/null

-- One worker, which stays at its first table; all other tables remain queued.
CREATE TABLE slow WITH (parvacuum.enabled, autovacuum_analyze_threshold = 2000000000) AS SELECT g AS a, repeat('x', 100) AS b FROM generate_series(1, 300000) g;
CREATE TABLE mine AS SELECT 1 AS a;
ALTER TABLE mine OWNER TO pv_owner;
ALTER SYSTEM SET autovacuum_naptime = '1h';
ALTER SYSTEM SET parvacuum.scheduler_workers = 1;
ALTER SYSTEM SET parvacuum.scheduler_max_cost = 100;
ALTER SYSTEM SET parvacuum.scheduler = on;
SELECT reloaded('parvacuum.scheduler', 'on') \g /dev/null
SELECT ok(soon('(SELECT max_cost = 100 FROM parvacuum_scheduler_stats())'), 'the queue has the state that the tests need');
SELECT parvacuum_enqueue('slow', urgent => true) \g /dev/null
SELECT ok(soon($$(SELECT state = 'running' FROM parvacuum_queue WHERE relid = 'slow'::regclass)$$), 'a worker vacuums a table');
SELECT parvacuum_enqueue('mine') \g /dev/null
SELECT dblink_exec(other_database(), 'DO $$ BEGIN PERFORM parvacuum_enqueue(''theirs''); END $$') \g /dev/null

CREATE FUNCTION tables(what text) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT string_agg(datname, '' '' ORDER BY datname <> ''pv_visibility'') FROM parvacuum_queue WHERE requested AND state = ''queued'' AND coalesce(relation::text, '''') !~ ''toast'' AND %s', what)
$$;
SELECT is(answer('SET ROLE ' || r, tables('true')), format('pv_visibility %s', current_database()), format('%s: tables of all databases', r))
FROM unnest(ARRAY[session_user::text, 'pv_stats', 'pv_monitor']) r;
SELECT is(answer('SET ROLE ' || r, tables('true')), current_database()::text, format('%s: tables of this database', r))
FROM unnest(ARRAY['pv_other', 'pv_owner', 'pv_alone']) r;
SELECT is(answer('SET ROLE ' || r, 'SELECT count(*) FROM parvacuum_queue_items() WHERE datid <> (SELECT oid FROM pg_database WHERE datname = current_database())'),
    CASE WHEN r = 'pv_stats' THEN '1' ELSE '0' END, format('%s: the function shows as much', r))
FROM unnest(ARRAY['pv_stats', 'pv_other', 'pv_owner']) r;
SELECT is(array_agg(relation), ARRAY[NULL::regclass], 'a table of another database is not named by what has its OID here') FROM parvacuum_queue WHERE datname = 'pv_visibility';
SELECT is(x.r, 'pv_visibility', 'there, an ordinary role sees that database''s')
FROM dblink(other_database(), 'SET ROLE pv_other; ' || tables('true')) x(r text);

-- A table that is being vacuumed
SELECT is(answer('SET ROLE ' || r, 'SELECT format(''%s %s %s %s'', state, urgent, pid IS NULL, owner_seconds IS NULL) FROM parvacuum_queue WHERE relid = ''slow''::regclass'),
    CASE WHEN r LIKE 'pv_o%' THEN 'running t t t' ELSE 'running t f f' END, format('%s: all but the pid, and the time of the owner', r))
FROM unnest(ARRAY[session_user::text, 'pv_stats', 'pv_other', 'pv_owner']) r;
SELECT is(answer('SET ROLE pv_other', 'SELECT format(''%s %s'', pages, size_class) FROM parvacuum_queue WHERE relid = ''slow''::regclass'),
    answer('SET ROLE pv_stats', 'SELECT format(''%s %s'', pages, size_class) FROM parvacuum_queue WHERE relid = ''slow''::regclass'), 'size and size class are shown to all roles');

-- Progress, as in core's view
SELECT ok(soon('EXISTS (SELECT FROM parvacuum_progress)'), 'a vacuum in progress');
SELECT is(answer('SET ROLE ' || r, 'SELECT format(''%s %s %s'', count(pid), count(datid), count(relid)) FROM parvacuum_progress WHERE participant IS NULL'),
    CASE WHEN r LIKE 'pv_o%' THEN '1 1 0' ELSE '1 1 1' END, format('%s: parvacuum_progress', r))
FROM unnest(ARRAY['pv_stats', 'pv_monitor', 'pv_other']) r;
SELECT is(answer('SET ROLE pv_other', 'SELECT count(*) FROM parvacuum_progress p FULL JOIN pg_stat_progress_vacuum c USING (pid, datid) '
    'WHERE p.pid IS NULL OR c.pid IS NULL OR p.relid IS DISTINCT FROM c.relid OR num_nulls(p.phase, p.heap_blks_scanned, p.index_blks_total, p.index_blks_visited) <> 4'),
    '0', 'no more than in pg_stat_progress_vacuum');

-- Sums over the cluster, and options, are visible to all roles.
SELECT isnt(answer('SET ROLE pv_other', 'SELECT database_scans FROM parvacuum_scheduler_stats()'), NULL, 'all roles see the counters');
SELECT is(answer('SET ROLE pv_other', 'SELECT count(*) FROM parvacuum_tables WHERE relid IN (''slow''::regclass, ''mine''::regclass)'), '2', 'all roles see options');

-- More entries than the margin of the first attempt
SELECT dblink_exec(conninfo('many'), 'DO $$ BEGIN FOR i IN 1 .. 200 LOOP EXECUTE format(''CREATE TABLE t.many%s ()'', i); PERFORM parvacuum_enqueue(format(''t.many%s'', i)::regclass); END LOOP; END $$') \g /dev/null
SELECT is(count(*), 200::bigint, 'many tables') FROM parvacuum_queue WHERE relation::text ~ 'many';

-- All tables are vacuumed, and no entry remains for other tests.
ALTER SYSTEM SET parvacuum.scheduler_max_cost = 0;
SELECT reloaded('parvacuum.scheduler_max_cost', '0') \g /dev/null
SELECT ok(soon($$NOT EXISTS (SELECT FROM parvacuum_queue WHERE state <> 'waiting')$$), 'all queued tables are vacuumed');
ALTER SYSTEM RESET parvacuum.scheduler;
ALTER SYSTEM RESET parvacuum.scheduler_workers;
ALTER SYSTEM RESET parvacuum.scheduler_max_cost;
ALTER SYSTEM RESET autovacuum_naptime;
SELECT reloaded('parvacuum.scheduler', 'off') \g /dev/null
SELECT ok(soon($$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker')$$), 'the worker ends');
SELECT * FROM finish();
SELECT dblink_exec(conninfo('drop'), 'DROP DATABASE pv_visibility WITH (FORCE)') \g /dev/null
SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_other', 'pv_stats', 'pv_monitor', 'pv_alone']) r \g /dev/null
DROP SCHEMA t CASCADE;
