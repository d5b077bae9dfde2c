-- parvacuum_history, parvacuum_stats, and their like: what they have, who sees it, and who
-- may reset it.
\ir common.psql

SELECT plan(96);

SELECT dblink_exec(conninfo('drop'), 'DROP DATABASE IF EXISTS pv_copy') \g /dev/null
SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_other', 'pv_stats', 'pv_reset']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_other NOLOGIN;
CREATE ROLE pv_stats NOLOGIN IN ROLE pg_read_all_stats;
CREATE ROLE pv_reset NOLOGIN;
SELECT parvacuum_history_reset() \g /dev/null
SELECT parvacuum_stats_reset() \g /dev/null

SELECT is(count(*), 0::bigint, 'a reset leaves no vacuums') FROM parvacuum_history;
SELECT is(count(*), 0::bigint, 'nor indexes of them') FROM parvacuum_index_history;
SELECT is(count(*), 0::bigint, 'nor totals of tables') FROM parvacuum_stats;
SELECT is(count(*), 0::bigint, 'nor totals of indexes') FROM parvacuum_index_stats;
SELECT ok(stats_reset BETWEEN now() - interval '1 minute' AND clock_timestamp() AND history_reset BETWEEN now() - interval '1 minute' AND clock_timestamp()
    AND dealloc = 0, 'the times of the resets') FROM parvacuum_stats_info;

-- The vacuum of a table, as parvacuum_run() returns it
CREATE TABLE plain (a int, b text) WITH (parvacuum.enabled, autovacuum_enabled = off);
INSERT INTO plain SELECT g, repeat('x', 50) FROM generate_series(1, 20000) g;
CREATE INDEX plain_a ON plain (a);
CREATE INDEX plain_hash ON plain USING hash (a);
DELETE FROM plain WHERE a % 4 = 0;
CREATE TABLE r AS SELECT * FROM parvacuum_run('plain', workers => 1);
SELECT is(array_agg(relname::text), '{plain}', 'a vacuum for the table, and none for its TOAST table, which is empty') FROM parvacuum_history;
CREATE TABLE h AS SELECT * FROM parvacuum_history WHERE relation = 'plain'::regclass;
SELECT is(array(SELECT key FROM jsonb_each((SELECT to_jsonb(r) FROM r WHERE relid = 'plain'::regclass)) r JOIN jsonb_each((SELECT to_jsonb(h) FROM h)) h USING (key)
                WHERE key <> 'relid' AND h.value IS DISTINCT FROM r.value), '{}'::text[], 'the columns of parvacuum_run() have the same values');
SELECT is((SELECT count(*) FROM jsonb_object_keys((SELECT to_jsonb(r) FROM r LIMIT 1))),
    (SELECT count(*) FROM jsonb_object_keys((SELECT to_jsonb(r) FROM r LIMIT 1)) k WHERE k IN (SELECT jsonb_object_keys((SELECT to_jsonb(h) FROM h)))),
    'and are all there');
SELECT is(format('%s %s %s %s %s', datname, schemaname, relname, started_by, usename), format('%s t plain function %s', current_database(), session_user), 'what and who') FROM h;
SELECT is(format('%s %s %s', outcome, sqlstate, error), 'done  ', 'how it ended') FROM h;
SELECT ok(by_engine AND NOT wraparound AND indexes = 2 AND pid > 0, 'by the engine') FROM h;
SELECT ok(start_time < end_time AND end_time <= clock_timestamp() AND
    abs(extract(epoch FROM end_time - start_time) * 1000 - elapsed_ms) < 1000, 'from when to when') FROM h;
SELECT is(datid, (SELECT oid FROM pg_database WHERE datname = current_database()), 'datid') FROM h;

-- Its indexes
SELECT results_eq($$SELECT indexrelname::text COLLATE "C", indexrelid, i.relation, entries_removed, i.pages_total FROM parvacuum_index_history i JOIN h USING (run) ORDER BY 1$$
    , $$SELECT i::text COLLATE "C", i::regclass::oid, 'plain'::regclass, 5000::bigint, pg_relation_size(i::regclass) / current_setting('block_size')::int
        FROM (VALUES ('plain_a'), ('plain_hash')) x(i) ORDER BY 1$$, 'the indexes');
SELECT ok(bool_and(elapsed_ms > 0 AND pages_newly_deleted >= 0 AND pages_deleted >= 0 AND pages_reusable >= 0), 'times and pages of the indexes') FROM parvacuum_index_history;


-- Commands, and the names as they were
DELETE FROM plain WHERE a % 4 = 1;
VACUUM plain;
ALTER TABLE plain RENAME TO renamed;
SELECT is(format('%s %s %s %s %s', started_by, usename, relname, relation, tuples_removed), format('command %s plain renamed 5000', session_user), 'a command; the name as it was and as it is')
FROM parvacuum_history WHERE relname = 'plain' ORDER BY run DESC LIMIT 1;
SELECT is((SELECT count(*) FROM parvacuum_history WHERE relation = 'renamed'::regclass), 2::bigint, 'two vacuums of it');
CREATE TABLE short WITH (parvacuum.enabled) AS SELECT 1 AS a;
VACUUM short;
DROP TABLE short;
SELECT is(format('%s %s', relname, relation), 'short ', 'a table that is gone') FROM parvacuum_history WHERE relname = 'short';
SELECT is((SELECT count(*) FROM parvacuum_stats WHERE relation IS NULL AND runs = 1), 1::bigint, 'a table that is gone: totals');
CREATE TABLE "odd "" name
of a table" WITH (parvacuum.enabled) AS SELECT 1 AS a;
VACUUM "odd "" name
of a table";
SELECT is(count(*), 1::bigint, 'a name with quotes') FROM parvacuum_history WHERE relation::oid = relid AND relname = E'odd " name\nof a table';

-- Core's code
SELECT elapsed_ms FROM parvacuum_run('pg_catalog.pg_am') \g /dev/null
SELECT ok(NOT by_engine AND outcome = 'done' AND elapsed_ms > 0 AND buffers_hit + buffers_read > 0 AND
    num_nonnulls(pages_total, tuples_removed, indexes, workers_planned, heap_scan_ms, oldest_xmin, relfrozenxid_advanced) = 0, 'by core: what is known')
FROM parvacuum_history WHERE relation = 'pg_am'::regclass;
CREATE TABLE not_ours AS SELECT 1 AS a;
VACUUM not_ours, pg_class;
SET parvacuum.enabled = on;
VACUUM pg_class;
RESET parvacuum.enabled;
SELECT is(count(*), 0::bigint, 'VACUUM of tables that are not ours is not recorded') FROM parvacuum_history WHERE relid IN ('not_ours'::regclass, 'pg_class'::regclass);

-- An error.  Its text is cut off between two characters.
CREATE FUNCTION may_fail(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('pv.fail', true) = 'on' THEN
        RAISE 'xx%', repeat('é', 300) USING errcode = 'P1234';
    END IF;
    RETURN i;
END $$;
CREATE TABLE failing (a int) WITH (parvacuum.enabled, autovacuum_enabled = off);
INSERT INTO failing SELECT generate_series(1, 10000);
CREATE INDEX failing_brin ON failing USING brin (may_fail(a)) WITH (pages_per_range = 2);
INSERT INTO failing SELECT generate_series(1, 10000);
DELETE FROM failing WHERE a % 2 = 0;
SELECT connect('v') \g /dev/null
SELECT dblink_exec('v', 'SET pv.fail = on') \g /dev/null
SELECT is((failure('v', 'VACUUM (PARALLEL 0) failing')).state, 'P1234', 'a vacuum fails');
CREATE TABLE f AS SELECT * FROM parvacuum_history WHERE relation = 'failing'::regclass;
SELECT is(format('%s %s', outcome, sqlstate), 'error P1234', 'an error') FROM f;
SELECT is(error, 'xx' || repeat('é', CASE WHEN getdatabaseencoding() = 'UTF8' THEN 126 ELSE 253 END), 'the text of an error, without half characters') FROM f;
SELECT ok(pages_total > 0 AND pages_scanned = pages_total AND tuples_removed = 10000 AND index_scans = 1 AND workers_planned = 0 AND heap_scan_ms > 0 AND elapsed_ms >= heap_scan_ms AND wal_records > 0, 'an error: what was done before') FROM f;
SELECT is(num_nonnulls(tuples_remaining, tuples_remaining_estimated, relfrozenxid_advanced, index_scan_bypassed, indexes), 0, 'an error: what was not known yet') FROM f;
SELECT is(count(*), 0::bigint, 'an error: no indexes') FROM parvacuum_index_history WHERE relation = 'failing'::regclass;
SELECT is((failure('v', 'VACUUM (PARALLEL 2) failing')).state, 'P1234', 'a vacuum fails again, in parallel');
SELECT is(array_agg(outcome ORDER BY run), '{error,error}', 'an error in parallel') FROM parvacuum_history WHERE relation = 'failing'::regclass;

-- Canceled, terminated
SELECT pg_advisory_lock(28790) \g /dev/null
SELECT dblink_exec('v', 'SET parvacuum.wait_at = ''leader scan''') \g /dev/null
SELECT dblink_send_query('v', 'VACUUM (PARALLEL 0) renamed') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)$$), 'a vacuum waits');
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'v' \g /dev/null
SELECT matches(failed_result('v'), '^57014: canceling statement', 'it is canceled');
SELECT is(format('%s %s %s', outcome, sqlstate, error), 'canceled 57014 canceling statement due to user request', 'canceled')
FROM parvacuum_history WHERE relation = 'renamed'::regclass ORDER BY run DESC LIMIT 1;
SELECT dblink_send_query('v', 'SELECT relid FROM parvacuum_run(''renamed'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)$$), 'a run waits');
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'v' AND backend_type = 'client backend' \g /dev/null
SELECT matches(failed_result('v'), '^57014: canceling statement', 'its caller is canceled');
SELECT is(format('%s %s %s %s', started_by, outcome, sqlstate, error), 'function canceled 57014 canceling statement due to user request', 'canceled, by the caller')
FROM parvacuum_history WHERE relation = 'renamed'::regclass ORDER BY run DESC LIMIT 1;
SELECT dblink_exec('v', 'SET statement_timeout = 2000') \g /dev/null
SELECT matches((failure('v', 'SELECT relid FROM parvacuum_run(''renamed'')')).message, 'statement timeout', 'the time of the caller is over');
SELECT dblink_exec('v', 'RESET statement_timeout') \g /dev/null
SELECT is(format('%s %s %s', outcome, sqlstate, error), 'canceled 57014 canceling statement due to statement timeout', 'canceled, with the reason')
FROM parvacuum_history WHERE relation = 'renamed'::regclass ORDER BY run DESC LIMIT 1;
SELECT dblink_send_query('v', 'SELECT relid FROM parvacuum_run(''renamed'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)$$), 'a run waits again');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' \g /dev/null
SELECT matches(failed_result('v'), 'terminat', 'its background leader is terminated');
SELECT is(format('%s %s %s', outcome, sqlstate, error), 'terminated  ', 'terminated, not by the caller')
FROM parvacuum_history WHERE relation = 'renamed'::regclass ORDER BY run DESC LIMIT 1;
SELECT dblink_send_query('v', 'VACUUM (PARALLEL 0) renamed') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)$$), 'a vacuum waits again');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'v' \g /dev/null
SELECT ok(soon($$(SELECT outcome = 'terminated' FROM parvacuum_history WHERE relation = 'renamed'::regclass ORDER BY run DESC LIMIT 1)$$), 'terminated');
SELECT ok(sqlstate IS NULL AND error IS NULL AND elapsed_ms > 0 AND end_time > start_time, 'terminated: the log has the error') FROM parvacuum_history WHERE outcome = 'terminated' AND started_by = 'command';
SELECT dblink_disconnect('v') \g /dev/null
SELECT pg_advisory_unlock(28790) \g /dev/null
VACUUM renamed;
SELECT is(outcome, 'done', 'the next vacuum is complete') FROM parvacuum_history WHERE relation = 'renamed'::regclass ORDER BY run DESC LIMIT 1;

-- Vacuums that did nothing
CREATE TABLE idle (a int PRIMARY KEY) WITH (parvacuum.enabled, autovacuum_enabled = off);
SELECT 'VACUUM idle' FROM generate_series(1, 20) \gexec
SELECT is(format('%s %s %s', runs, outcome, pages_total), '20 done 0', 'vacuums that did nothing are one row') FROM parvacuum_history WHERE relation = 'idle'::regclass;
SELECT ok(since < start_time AND start_time < end_time AND run = (SELECT max(run) FROM parvacuum_history), 'which has the last of them, and when they began') FROM parvacuum_history WHERE relation = 'idle'::regclass;
INSERT INTO idle SELECT generate_series(1, 1000);
VACUUM idle;
VACUUM idle;
DELETE FROM idle WHERE a <= 500;
VACUUM idle;
VACUUM idle;
SELECT is(array_agg(format('%s %s', runs, tuples_removed) ORDER BY run), '{"1 0","1 500","22 0"}', 'those that did something have rows of their own') FROM parvacuum_history WHERE relation = 'idle'::regclass;

-- Totals
SELECT results_eq($$SELECT datid, relid, runs, runs_by_core, runs_canceled, errors, last_run, last_done, tuples_removed, dead_items, pages_scanned, pages_removed, index_scans,
        round(elapsed_ms::numeric, 2), wal_records, wal_fpi, wal_bytes, buffers_hit, buffers_read, buffers_dirtied FROM parvacuum_stats
    WHERE relid NOT IN (SELECT relid FROM parvacuum_history WHERE runs > 1) ORDER BY relid$$,
    $$SELECT datid, relid, count(*), count(*) FILTER (WHERE NOT by_engine), count(*) FILTER (WHERE outcome IN ('canceled', 'terminated')), count(*) FILTER (WHERE outcome = 'error'),
        max(end_time), max(end_time) FILTER (WHERE outcome = 'done'), coalesce(sum(tuples_removed), 0)::bigint, coalesce(sum(dead_items), 0)::bigint, coalesce(sum(pages_scanned), 0)::bigint,
        coalesce(sum(pages_removed), 0)::bigint, coalesce(sum(index_scans), 0)::bigint, round(sum(elapsed_ms)::numeric, 2), sum(wal_records)::bigint, sum(wal_fpi)::bigint, sum(wal_bytes),
        sum(buffers_hit)::bigint, sum(buffers_read)::bigint, sum(buffers_dirtied)::bigint
    FROM parvacuum_history GROUP BY datid, relid HAVING max(runs) = 1 ORDER BY relid$$, 'the totals are the sums over the history');
SELECT results_eq($$SELECT relid, runs FROM parvacuum_stats ORDER BY relid$$, $$SELECT relid, sum(runs)::bigint FROM parvacuum_history GROUP BY relid ORDER BY relid$$, 'and so are the numbers of vacuums');
SELECT results_eq($$SELECT runs_since_reset, runs_by_core, runs_canceled, errors, tuples_removed, dead_items, pages_scanned, pages_removed, index_scans,
        round(elapsed_ms::numeric, 2), wal_records, wal_fpi, wal_bytes, buffers_hit, buffers_read, buffers_dirtied FROM parvacuum_stats_info$$,
    $$SELECT sum(runs)::bigint, sum(runs_by_core)::bigint, sum(runs_canceled)::bigint, sum(errors)::bigint, sum(tuples_removed)::bigint, sum(dead_items)::bigint, sum(pages_scanned)::bigint,
        sum(pages_removed)::bigint, sum(index_scans)::bigint, round(sum(elapsed_ms)::numeric, 2), sum(wal_records)::bigint, sum(wal_fpi)::bigint, sum(wal_bytes), sum(buffers_hit)::bigint,
        sum(buffers_read)::bigint, sum(buffers_dirtied)::bigint FROM parvacuum_stats$$, 'the totals of all tables are the sums over those');
SELECT is(format('%s %s %s %s', runs, runs_canceled, errors, sweeps), '8 5 0 0', 'numbers of vacuums') FROM parvacuum_stats WHERE relation = 'renamed'::regclass;
SELECT is(array_agg(DISTINCT action), '{vacuum}', 'all of these are vacuums') FROM parvacuum_history;
SELECT results_eq($$SELECT indexrelid, relation, runs, last_run, entries_removed, pages_newly_deleted, round(elapsed_ms::numeric, 2) FROM parvacuum_index_stats WHERE relation IS NOT NULL ORDER BY 1$$,
    $$SELECT indexrelid, i.relation, count(*), max(end_time), sum(entries_removed)::bigint, sum(pages_newly_deleted)::bigint, round(sum(i.elapsed_ms)::numeric, 2)
    FROM parvacuum_index_history i JOIN parvacuum_history h USING (run) WHERE i.relation IS NOT NULL GROUP BY 1, 2 ORDER BY 1$$, 'the totals of indexes are the sums over the history');
SELECT is(array(SELECT index_relation::text FROM parvacuum_index_stats WHERE relation = 'renamed'::regclass ORDER BY 1), '{plain_a,plain_hash}', 'names of indexes');
SELECT is(array(SELECT DISTINCT index_relation::text FROM parvacuum_index_history WHERE relation = 'renamed'::regclass ORDER BY 1), '{plain_a,plain_hash}', 'names of indexes in the history');
SELECT is(array(SELECT DISTINCT format('%s %s', attname, format_type(atttypid, NULL)) FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
    WHERE c.relkind = 'v' AND c.relname LIKE 'parvacuum\_%' AND attname ~ '^(index_?)?rel(id|ation)$' ORDER BY 1),
    '{"index_relation regclass","indexrelid oid","relation regclass","relid oid"}', 'columns with relations have the same names and types in all views');
SELECT is(runs, (SELECT max(run) FROM parvacuum_history), 'the number of vacuums') FROM parvacuum_stats_info;

-- Rights
CREATE TABLE mine WITH (parvacuum.enabled) AS SELECT 1 AS a;
ALTER TABLE mine OWNER TO pv_owner;
CREATE INDEX mine_a ON mine (a);
DELETE FROM mine;
VACUUM (INDEX_CLEANUP on) mine;

-- Who held back the horizon is shown only to those who see all sessions.
SELECT connect('secret') \g /dev/null
SELECT dblink_exec('secret', 'BEGIN; CREATE TEMP TABLE x ()') \g /dev/null
INSERT INTO mine VALUES (1);
DELETE FROM mine;
VACUUM mine;
SELECT dblink_disconnect('secret') \g /dev/null
SELECT is(answer('SET ROLE ' || r, 'SELECT format(''%s %s %s'', tuples_recently_dead, blocker_kind, substring(blocker, ''secret'')) FROM parvacuum_history WHERE relation = ''mine''::regclass ORDER BY run DESC LIMIT 1'),
    CASE r WHEN 'pv_owner' THEN '1  ' ELSE '1 idle in transaction secret' END, format('%s: who held back the horizon', r)) FROM unnest(ARRAY['pv_owner', 'pv_stats']) r;

CREATE FUNCTION tables(what text) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT string_agg(DISTINCT CASE WHEN relation::oid = %s THEN ''mine'' ELSE ''others'' END, '' '') FROM %s', 'mine'::regclass::oid, what)
$$;
SELECT is(answer('SET ROLE pv_owner', tables(v)), 'mine', format('%s: an owner sees his tables', v)) FROM unnest(ARRAY['parvacuum_history', 'parvacuum_index_history', 'parvacuum_stats', 'parvacuum_index_stats']) v;
SELECT is(answer('SET ROLE pv_other', tables(v)), NULL, format('%s: others see nothing', v)) FROM unnest(ARRAY['parvacuum_history', 'parvacuum_index_history', 'parvacuum_stats', 'parvacuum_index_stats']) v;
SELECT is(answer('SET ROLE pv_stats', tables(v)), 'mine others', format('%s: pg_read_all_stats sees all', v)) FROM unnest(ARRAY['parvacuum_history', 'parvacuum_index_history', 'parvacuum_stats', 'parvacuum_index_stats']) v;
SELECT is(answer('SET ROLE pv_other', format('SELECT count(*) FROM %s()', f)), '0', format('%s(): as the view', f)) FROM unnest(ARRAY['parvacuum_history_runs', 'parvacuum_history_indexes', 'parvacuum_stats_tables', 'parvacuum_stats_indexes']) f;
SELECT isnt(answer('SET ROLE pv_other', 'SELECT stats_reset FROM parvacuum_stats_info'), NULL, 'all see when there was a reset');
SELECT is((failure('r', format('SELECT %s()', f))).message, format('permission denied for function %s', f), format('%s(): not for all', f))
FROM (SELECT connect('r'), dblink_exec('r', 'SET ROLE pv_other') OFFSET 0) c, unnest(ARRAY['parvacuum_history_reset', 'parvacuum_stats_reset']) f;
SELECT dblink_disconnect('r') \g /dev/null

-- A table that is gone has no owner any more.
CREATE TABLE gone (a int) WITH (parvacuum.enabled);
ALTER TABLE gone OWNER TO pv_owner;
VACUUM gone;
SELECT is(answer('SET ROLE pv_owner', 'SELECT count(*) FROM parvacuum_history WHERE relname = ''gone'''), '1', 'an owner sees his table');
DROP TABLE gone;
SELECT is(answer('SET ROLE pv_owner', 'SELECT count(*) FROM parvacuum_history WHERE relname = ''gone'''), '0', 'but not when it is gone');

-- Another database, with another encoding
CREATE FUNCTION other_database() RETURNS text LANGUAGE sql AS $$
    SELECT replace(conninfo('other'), 'dbname=' || current_database(), 'dbname=pv_history')
$$;
SELECT dblink_exec(conninfo('create'), 'DROP DATABASE IF EXISTS pv_history') \g /dev/null
SELECT dblink_exec(conninfo('create'), 'CREATE DATABASE pv_history TEMPLATE template0 ENCODING ''latin1'' LC_COLLATE ''C'' LC_CTYPE ''C''') \g /dev/null
SELECT dblink_exec(other_database(), E'SET client_encoding = utf8; CREATE EXTENSION parvacuum; CREATE TABLE "tr\u00e4nen" (a int PRIMARY KEY) WITH (parvacuum.enabled); INSERT INTO "tr\u00e4nen" VALUES (1); DELETE FROM "tr\u00e4nen"') \g /dev/null
SELECT dblink_exec(other_database(), 'VACUUM (INDEX_CLEANUP on)') \g /dev/null
SELECT is(format('%s %s %s', datname, relname, relation), 'pv_history tr?nen ', 'a table of another database') FROM parvacuum_history WHERE datname = 'pv_history' AND relname LIKE 'tr%';
SELECT is(format('%s %s', datname, relation), 'pv_history ', 'totals of a table of another database') FROM parvacuum_stats WHERE datname = 'pv_history' LIMIT 1;
SELECT is((SELECT x FROM dblink(other_database(), 'SELECT count(*) FROM parvacuum_history WHERE relation IS NOT NULL') y(x int)), 1, 'there, relations of this one are not shown as those of the same OID');

-- A copy of it, where another role owns the table: the vacuums of the original are not his.
CREATE FUNCTION of_copy(settings text, what text) RETURNS text LANGUAGE sql AS $$
    SELECT x FROM dblink(replace(other_database(), 'dbname=pv_history', 'dbname=pv_copy'), settings || '; ' ||
        (SELECT format('SELECT concat_ws('' '', %s)', string_agg(format('(SELECT count(*) FROM parvacuum_%s WHERE datname = ''pv_history'' AND %s)', v, what), ', '))
         FROM unnest('{history,index_history,stats,index_stats}'::text[]) v)) y(x text)
$$;
SELECT dblink_exec(conninfo('create'), 'CREATE DATABASE pv_copy TEMPLATE pv_history') \g /dev/null
SELECT dblink_exec(replace(other_database(), 'dbname=pv_history', 'dbname=pv_copy'),
    'DO $$ BEGIN EXECUTE (SELECT format(''ALTER TABLE %s OWNER TO pv_owner'', oid::regclass) FROM pg_class WHERE relname LIKE ''tr_nen''); END $$') \g /dev/null
SELECT is(of_copy('SET ROLE pv_stats', 'true'), '1 1 1 1', 'a copy of a database: pg_read_all_stats sees the vacuums of the original');
SELECT is(of_copy('SET ROLE pv_stats', 'relation IS NOT NULL'), '0 0 0 0', 'a copy of a database: they are not shown as those of the tables of the copy');
SELECT is(x, '0 0', 'a copy of a database: nor are indexes') FROM dblink(replace(other_database(), 'dbname=pv_history', 'dbname=pv_copy'),
    'SELECT concat_ws('' '', (SELECT count(index_relation) FROM parvacuum_index_history), (SELECT count(index_relation) FROM parvacuum_index_stats))') y(x text);
SELECT is(of_copy('SET ROLE pv_owner', 'true'), '0 0 0 0', 'a copy of a database: the owner of a table of the copy does not see them');
SELECT dblink_exec(conninfo('create'), 'DROP DATABASE pv_copy') \g /dev/null
SELECT is(answer('SET ROLE pv_other', 'SELECT count(*) FROM parvacuum_history WHERE datname = ''pv_history'''), '0', 'others see nothing of another database');
SELECT dblink_exec(conninfo('create'), 'DROP DATABASE pv_history') \g /dev/null
SELECT is((SELECT count(*) FROM parvacuum_history WHERE datname = 'pv_history' AND relation IS NULL), 1::bigint, 'a database that is gone');

-- Reset
GRANT EXECUTE ON FUNCTION parvacuum_history_reset(), parvacuum_stats_reset() TO pv_reset;
CREATE TABLE before AS SELECT * FROM parvacuum_stats_info;
SELECT is(attempt('SET ROLE pv_reset', 'SELECT parvacuum_history_reset()'), 'done', 'a role with the right resets the history');
SELECT is(format('%s %s %s', (SELECT count(*) FROM parvacuum_history), (SELECT count(*) FROM parvacuum_index_history), (SELECT count(*) > 0 FROM parvacuum_stats)), '0 0 t', 'only the history');
SELECT ok(i.runs >= b.runs AND i.history_reset > b.history_reset AND i.stats_reset = b.stats_reset, 'numbers go on') FROM parvacuum_stats_info i, before b;
SELECT is(attempt('SET ROLE pv_reset', 'SELECT parvacuum_stats_reset()'), 'done', 'and the totals');
SELECT is(format('%s %s', (SELECT count(*) FROM parvacuum_stats), (SELECT count(*) FROM parvacuum_index_stats)), '0 0', 'no totals');
VACUUM renamed;
SELECT is(format('%s %s', h.run > b.runs, s.runs), 't 1', 'it begins anew') FROM parvacuum_history h JOIN parvacuum_stats s USING (relation), before b WHERE relation = 'renamed'::regclass;

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_other', 'pv_stats', 'pv_reset']) r \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
