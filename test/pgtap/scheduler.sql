-- The SQL interface of the scheduler: parvacuum_queue, parvacuum_scheduler_stats(),
-- parvacuum_enqueue() and parvacuum_cancel(); rights, errors, and settings that change
-- by a reload.
\ir common.psql

SELECT plan(163);

------------------------------------------------------------------------------
-- Signature
------------------------------------------------------------------------------

CREATE TEMP VIEW func AS SELECT * FROM pg_proc WHERE proname ~ '^parvacuum_(queue_items|scheduler_stats|cancel|enqueue)$';

SELECT set_eq($$SELECT format('%s(%s) %s', proname, pg_get_function_identity_arguments(oid), pg_get_function_result(oid)) FROM func WHERE proargmodes IS NULL$$,
    ARRAY['parvacuum_cancel(pid integer) boolean', 'parvacuum_cancel(rel regclass) boolean', 'parvacuum_cancel(name text) boolean'], 'the functions without a row as their result');
SELECT is(pg_get_function_arguments(oid), 'rel regclass, urgent boolean DEFAULT false, OUT relid regclass, OUT result text', 'a request is not urgent by default, and a row has the result')
FROM func WHERE proname = 'parvacuum_enqueue';
SELECT is(pg_get_function_arguments(oid), 'OUT datid oid, OUT relid oid, OUT state text, OUT reason text, OUT since timestamp with time zone, '
    'OUT until timestamp with time zone, OUT "position" integer, OUT pid integer, OUT action text, OUT done text, OUT wraparound boolean, OUT size_class text, OUT score double precision, '
    'OUT dead_score double precision, OUT insert_score double precision, OUT analyze_score double precision, OUT xid_score double precision, '
    'OUT mxid_score double precision, OUT sweep_score double precision, OUT requested boolean, OUT urgent boolean, OUT owner_seconds double precision, OUT pages bigint', 'the columns of parvacuum_queue_items()')
FROM func WHERE proname = 'parvacuum_queue_items';
SELECT is(pg_get_function_arguments(oid), 'OUT database_scans bigint, OUT vacuums bigint, OUT analyzes bigint, OUT sweeps bigint, OUT not_needed bigint, OUT skipped_horizon bigint, '
    'OUT skipped_window bigint, OUT skipped_lock bigint, OUT errors bigint, OUT queue_full bigint, OUT cost_units bigint, OUT max_cost bigint, '
    'OUT no_process bigint, OUT runs_refused bigint',
    'the columns of parvacuum_scheduler_stats()')
FROM func WHERE proname = 'parvacuum_scheduler_stats';
SELECT is(format('%s %s %s %s %s', prokind, provolatile, proparallel, proisstrict, proretset),
    CASE proname WHEN 'parvacuum_queue_items' THEN 'f v r t t' WHEN 'parvacuum_scheduler_stats' THEN 'f v r t f' WHEN 'parvacuum_enqueue' THEN 'f v u f t' ELSE 'f v u f f' END,
    format('%s: volatile, and strict where it only looks, beside parallel workers', oid::regprocedure)) FROM func ORDER BY oid::regprocedure::text;
SELECT is(proacl::text, NULL, format('%s may be called by all', oid::regprocedure)) FROM func ORDER BY oid::regprocedure::text;
SELECT ok(obj_description(oid, 'pg_proc') IS NOT NULL, format('%s has a comment', oid::regprocedure)) FROM func ORDER BY oid::regprocedure::text;
SELECT matches(obj_description(oid, 'pg_proc'), 'whether it needs a vacuum or not, and also outside of its window', 'the comment describes the effect of a request')
FROM func WHERE proname = 'parvacuum_enqueue';

SELECT is(array(SELECT attname::text FROM pg_attribute WHERE attrelid = 'parvacuum_queue'::regclass AND attnum > 0 ORDER BY attnum),
    ARRAY['datid', 'datname', 'relid', 'relation'] || (array(SELECT unnest(proargnames) FROM func WHERE proname = 'parvacuum_queue_items'))[3:], 'the columns of parvacuum_queue');
SELECT col_type_is('parvacuum_queue', 'relation', 'regclass', 'parvacuum_queue has the table by name');
SELECT ok(obj_description('parvacuum_queue'::regclass, 'pg_class') IS NOT NULL, 'parvacuum_queue has a comment');
SELECT table_privs_are('parvacuum_queue', 'public', ARRAY['SELECT'], 'all roles may read parvacuum_queue');

------------------------------------------------------------------------------
-- While the scheduler is off
------------------------------------------------------------------------------

CREATE FUNCTION off_and_on() RETURNS text LANGUAGE sql AS $$
    SELECT '55000: the scheduler is not running / Set parvacuum.scheduler to on, or use parvacuum_run().'
$$;
CREATE TABLE owned AS SELECT g AS a FROM generate_series(1, 1000) g;
SELECT is(current_setting('parvacuum.scheduler'), 'off', 'the scheduler is off by default');
SELECT is(attempt('RESET ROLE', 'SELECT parvacuum_enqueue(''owned'')'), off_and_on(), 'scheduler off: parvacuum_enqueue() fails with a hint');
SELECT is((SELECT count(*) FROM parvacuum_queue), 0::bigint, 'scheduler off: the queue is empty');
SELECT is(parvacuum_cancel('owned'), false, 'scheduler off: there is nothing to cancel');
SELECT is(attempt('RESET ROLE', format('SELECT parvacuum_enqueue(%s)', arguments)), format('22004: argument "%s" must not be null / %s', name, hint),
    format('enqueue(%s) is refused', arguments))
FROM (VALUES ('NULL', 'rel', 'Name the table to be vacuumed.'), ('NULL, true', 'rel', 'Name the table to be vacuumed.'),
    ('''owned'', NULL', 'urgent', 'Omit the argument to use its default.')) x(arguments, name, hint);
SELECT is(attempt('RESET ROLE', format('SELECT parvacuum_cancel(NULL::%s)', type)), format('22004: argument "%s" must not be null / Name a table, or give the PID of a process.', name),
    format('cancel(NULL::%s) is refused', type))
FROM (VALUES ('regclass', 'rel'), ('int', 'pid'), ('text', 'name')) x(type, name);

-- Together with parallel workers, in which the view cannot run
CREATE TABLE many AS SELECT g::oid AS a FROM generate_series(1, 20000) g;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT lives_ok('SELECT count(*) FROM many LEFT JOIN parvacuum_queue ON relid = a, parvacuum_scheduler_stats()', 'the view can be joined in a parallel query');
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

------------------------------------------------------------------------------
-- Settings that a reload changes
------------------------------------------------------------------------------

-- Changes a setting of the server, and waits until new sessions have it
CREATE PROCEDURE set_for_server(name text, value text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dblink_exec(conninfo('set'), format('ALTER SYSTEM SET %s = %L', name, value));
    IF NOT reloaded(name, value) THEN
        RAISE '% is not %', name, value;
    END IF;
END $$;
CREATE FUNCTION max_cost_is(what text) RETURNS bool LANGUAGE sql AS $$
    SELECT soon(format('(SELECT max_cost = %s FROM parvacuum_scheduler_stats())', what))
$$;
SELECT ok(max_cost_is('100000'), 'scheduler_max_cost at its default: what autovacuum_vacuum_cost_limit and _delay allow');
CALL set_for_server('parvacuum.scheduler_max_cost', '777');
SELECT ok(max_cost_is('777'), 'scheduler_max_cost, at a reload');
CALL set_for_server('parvacuum.scheduler_max_cost', '0');
SELECT ok(max_cost_is('0'), 'scheduler_max_cost 0: no limit');
CALL set_for_server('parvacuum.scheduler_max_cost', '-1');
CALL set_for_server('autovacuum_vacuum_cost_delay', '10ms');
SELECT ok(max_cost_is('20000'), 'the delay of autovacuum');
CALL set_for_server('autovacuum_vacuum_cost_limit', '1000');
SELECT ok(max_cost_is('100000'), 'the limit of autovacuum');
CALL set_for_server('autovacuum_vacuum_cost_delay', '0');
SELECT ok(max_cost_is('0'), 'no delay: no limit');
CALL set_for_server('autovacuum_vacuum_cost_delay', '-1');
CALL set_for_server('vacuum_cost_delay', '5ms');
SELECT ok(max_cost_is('200000'), 'the delay of VACUUM, if autovacuum has none of its own');
ALTER SYSTEM RESET vacuum_cost_delay;
ALTER SYSTEM RESET autovacuum_vacuum_cost_delay;
ALTER SYSTEM RESET autovacuum_vacuum_cost_limit;

SELECT throws_ok(format('SET %s = %s', name, value), state, NULL, format('%s = %s', name, value))
FROM (VALUES ('parvacuum.urgent_score', '0.99', '22023'), ('parvacuum.urgent_score', '1e10', '22023'),
    ('parvacuum.scheduler', 'on', '55P02'), ('parvacuum.scheduler_workers', '2', '55P02'), ('parvacuum.scheduler_max_cost', '5', '55P02'),
    ('parvacuum.queue_limit', '5', '55P02')) x(name, value, state);
SELECT lives_ok('SET parvacuum.urgent_score = 1; RESET parvacuum.urgent_score', 'urgent_score is a session''s, so that ALTER DATABASE can set it');
SELECT is(attempt('RESET ROLE', format('ALTER SYSTEM SET %s = %L', name, value)), format('22023: %s is outside the valid range for parameter "%s" (%s) / ', value, name, range),
    format('%s = %s', name, value))
FROM (VALUES ('parvacuum.scheduler_workers', '0', '1 .. 64'), ('parvacuum.scheduler_workers', '65', '1 .. 64'),
    ('parvacuum.scheduler_max_cost', '-2', '-1 .. 2147483647'), ('parvacuum.queue_limit', '0', '1 .. 32768'), ('parvacuum.queue_limit', '32769', '1 .. 32768')) x(name, value, range);

------------------------------------------------------------------------------
-- Scheduler on, with one worker, which is so slow that it stays at its first table
------------------------------------------------------------------------------

CREATE TABLE slow WITH (autovacuum_analyze_threshold = 2000000000) AS SELECT g AS a, repeat('x', 100) AS b FROM generate_series(1, 300000) g;
CREATE TABLE next_slow AS SELECT g AS a, repeat('x', 100) AS b FROM generate_series(1, 300000) g;
CREATE TABLE toasty (a text);
CREATE TABLE cut AS SELECT g AS a FROM generate_series(1, 20000) g;
CREATE TABLE kept WITH (vacuum_truncate = off) AS SELECT * FROM cut;
DELETE FROM cut WHERE a > 100;
DELETE FROM kept WHERE a > 100;
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS a;
CREATE VIEW a_view AS SELECT 1 AS a;
CREATE SEQUENCE a_sequence;
CREATE INDEX an_index ON owned (a);
CREATE TABLE mixed (a int) PARTITION BY LIST (a);
CREATE TABLE mixed_ours PARTITION OF mixed FOR VALUES IN (1);
CREATE TABLE mixed_theirs PARTITION OF mixed FOR VALUES IN (2);
CREATE TABLE mixed_sub PARTITION OF mixed FOR VALUES IN (3, 4) PARTITION BY LIST (a);
CREATE TABLE mixed_sub_ours PARTITION OF mixed_sub FOR VALUES IN (3);
CREATE TEMP TABLE temporary (a int);
SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_dba', 'pv_super', 'pv_signal', 'pv_signal_all']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_member LOGIN IN ROLE pv_owner;
CREATE ROLE pv_other LOGIN;
CREATE ROLE pv_dba NOLOGIN;
CREATE ROLE pv_super NOLOGIN SUPERUSER;
CREATE ROLE pv_signal NOLOGIN IN ROLE pg_signal_backend;
SELECT current_setting('server_version_num')::int >= 180000 AS has_role_for_all \gset
\set may_all pv_super
\if :has_role_for_all
CREATE ROLE pv_signal_all NOLOGIN IN ROLE pg_signal_autovacuum_worker;
\set may_all pv_signal_all
\endif
ALTER TABLE owned OWNER TO pv_owner;
ALTER TABLE slow OWNER TO pv_owner;
ALTER TABLE mixed OWNER TO pv_owner;
ALTER TABLE mixed_ours OWNER TO pv_owner;
ALTER TABLE mixed_sub_ours OWNER TO pv_owner;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON owned, slow, mixed, mixed_ours, mixed_theirs, mixed_sub, mixed_sub_ours TO pv_other;

-- Only what is asked for: at this cost a catalog would take longer than the test.
CALL set_for_server('autovacuum_vacuum_threshold', '1000000000');
CALL set_for_server('autovacuum_analyze_threshold', '1000000000');
CALL set_for_server('autovacuum_vacuum_insert_threshold', '-1');
CALL set_for_server('autovacuum_naptime', '1h');
CALL set_for_server('parvacuum.scheduler_workers', '1');
CALL set_for_server('parvacuum.scheduler_max_cost', '200');
CALL set_for_server('parvacuum.scheduler', 'on');
SELECT ok(max_cost_is('200'), 'the queue has the state that the tests need');

-- The queued tables by name, without TOAST tables, for which a condition holds
CREATE FUNCTION in_queue(condition text DEFAULT 'true') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r text;
BEGIN
    EXECUTE format($q$SELECT string_agg(coalesce(relation::text, '?'), ' ' ORDER BY relation::text COLLATE "C")
        FROM parvacuum_queue WHERE datname = current_database() AND relid >= 16384 AND relation::text !~ '^pg_toast' AND (%s)$q$, condition) INTO r;
    RETURN coalesce(r, '');
END $$;
SELECT parvacuum_enqueue('slow', urgent => true) \g /dev/null
SELECT ok(soon($$in_queue('state = ''running''') = 'slow'$$), 'a worker takes the enqueued table');
SELECT is(array(SELECT format('%s %s %s %s %s', state, coalesce(reason, '-'), action, size_class, urgent) FROM parvacuum_queue WHERE relid = 'slow'::regclass),
    ARRAY['running - vacuum small t'], 'the view shows the worker at the table');
SELECT ok(soon($$(SELECT format('%s %s', backend_type, query) FROM parvacuum_queue q JOIN pg_stat_activity a USING (pid) WHERE relid = 'slow'::regclass)
    = 'parvacuum scheduler worker autovacuum: VACUUM t.slow (parvacuum)'$$), 'pg_stat_activity shows it, by the pid of the view');

------------------------------------------------------------------------------
-- Errors
------------------------------------------------------------------------------

SELECT connect('e') \g /dev/null
SELECT dblink_exec('e', 'CREATE TEMP TABLE temporary_too (a int)') \g /dev/null
SELECT fails('e', format('SELECT parvacuum_enqueue(%L)', name), '42809', format('"%s" is not a table or materialized view', split_part(name, '.', greatest(1, 2 * (name ~ '\.')::int))),
    'A TOAST table is queued with its table.', what)
FROM (VALUES ('a_view', 'a view'), ('a_sequence', 'a sequence'), ('an_index', 'an index'),
    ((SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'toasty'::regclass), 'a TOAST table')) x(name, what);
SELECT fails('e', format('SELECT parvacuum_enqueue(%L)', name), '0A000', format('the scheduler cannot vacuum table "%s"', name), 'Use VACUUM.', what)
FROM (VALUES ('temporary_too', 'a temporary table')) x(name, what);
SELECT is((failure('e', format('SELECT parvacuum_enqueue(%s)', 'temporary'::regclass::oid))).detail, 'It is temporary.', 'the temporary table of another session, with the reason');
SELECT is((SELECT min(result) FROM parvacuum_enqueue('pg_tablespace')), 'queued', 'a shared catalog');
SELECT parvacuum_cancel('pg_tablespace') \g /dev/null
SELECT fails('e', 'SELECT parvacuum_enqueue(0)', '42P01', 'relation with OID 0 does not exist', 'Name the table to be vacuumed.', 'no such OID');
SELECT fails('e', 'SELECT parvacuum_enqueue(''nonesuch'')', '42P01', 'relation "nonesuch" does not exist', '', 'no such name');
SELECT is(in_queue(), 'slow', 'no refused table was queued');
SET client_min_messages = error;
SELECT is(parvacuum_cancel(pid), false, format('no process of parvacuum to cancel: %s', what))
FROM (VALUES (0, 'none'), (-1, 'a group of processes'), (pg_backend_pid(), 'this session'), (2147483647, 'no process')) x(pid, what);
RESET client_min_messages;

------------------------------------------------------------------------------
-- Rights
------------------------------------------------------------------------------

CREATE FUNCTION refusal(name text) RETURNS text LANGUAGE sql AS $$
    SELECT format('42501: permission denied to vacuum table "%s" / Only its owner, the owner of the database, a superuser, or from PostgreSQL 17 on a role with the privilege MAINTAIN can vacuum a table.', name)
$$;
-- Roles that may cancel autovacuum workers
CREATE FUNCTION those_for_all() RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN current_setting('server_version_num')::int >= 180000 THEN 'roles with privileges of pg_signal_autovacuum_worker' ELSE 'superusers' END
$$;
CREATE FUNCTION refusal() RETURNS text LANGUAGE sql AS $$
    SELECT format('42501: permission denied to cancel a vacuum / Only roles that may vacuum the table, and %s, can cancel it.', those_for_all())
$$;
CREATE FUNCTION refusal_of_worker() RETURNS text LANGUAGE sql AS $$
    SELECT format('42501: permission denied to cancel a scheduler worker of parvacuum / Only %s can cancel it by its PID.  Roles that may vacuum a table can cancel the vacuum of that table.', those_for_all())
$$;
CREATE FUNCTION set_owner(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), name);
END $$;

-- Rights to enqueue: the rule of VACUUM; and to cancel queued tables
CREATE FUNCTION may_do_both(s text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT is(attempt(s, 'SELECT parvacuum_enqueue(''owned'')'), 'done', 'enqueue: ' || s);
    RETURN NEXT is(in_queue('state = ''queued'''), 'owned', 'it is queued: ' || s);
    RETURN NEXT is(answer(s, 'SELECT parvacuum_cancel(''owned'')'), 'true', 'cancel: ' || s);
    RETURN NEXT is(in_queue('state = ''waiting'' AND reason = ''canceled'''), 'owned', 'it waits: ' || s);
    RETURN NEXT is(answer(s, 'SELECT parvacuum_cancel(''owned'')'), 'false', 'canceled already: ' || s);
END $$;
SELECT may_do_both(s) FROM unnest(ARRAY['SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_member', 'SET SESSION AUTHORIZATION pv_super']) s;
SELECT is(attempt(s, 'SELECT parvacuum_enqueue(''owned'')'), refusal('owned'), 'enqueue: ' || s)
FROM unnest(ARRAY['SET ROLE pv_other', 'SET SESSION AUTHORIZATION pv_super; SET ROLE pv_other', 'SET ROLE pv_signal', 'SET ROLE pv_dba']) s;
SELECT is(attempt(s, 'SELECT parvacuum_cancel(''owned'')'), refusal(), 'cancel: ' || s)
FROM unnest(ARRAY['SET ROLE pv_other', 'SET SESSION AUTHORIZATION pv_super; SET ROLE pv_other', 'SET ROLE pv_dba', 'SET ROLE pv_signal']) s;
SELECT is(attempt('SET ROLE pv_other', 'SELECT parvacuum_cancel(0::regclass)'), refusal(), 'cancel: a table that is not queued');

SELECT set_owner('pv_dba') \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_enqueue(''owned'')'), 'done', 'enqueue: the owner of the database');
SELECT is(answer('SET ROLE pv_dba', 'SELECT parvacuum_cancel(''owned'')'), 'true', 'cancel: the owner of the database');
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_enqueue(''pg_type'')'), 'done', 'enqueue: the owner of the database, a catalog');
SELECT is(attempt('SET ROLE pv_signal', 'SELECT parvacuum_cancel(''pg_type'')'), refusal(), 'cancel: a member of pg_signal_backend, a queued table');
SELECT is(answer('SET ROLE pv_dba', 'SELECT parvacuum_cancel(''pg_type'')'), 'true', 'cancel: the owner of the database, a catalog');
SELECT set_owner(session_user) \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_cancel(''owned'')'), refusal(), 'cancel: no longer the owner of the database');

-- An urgent request needs more rights.
CREATE FUNCTION refusal_of_urgent() RETURNS text LANGUAGE sql AS $$
    SELECT '42501: permission denied to have a table vacuumed before others / Only superusers, and from PostgreSQL 17 on members of pg_maintain, can make urgent requests.'
$$;
SELECT is(attempt(s, 'SELECT parvacuum_enqueue(''owned'', urgent => true)'), refusal_of_urgent(), 'urgent: ' || s)
FROM unnest(ARRAY['SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_member', 'SET SESSION AUTHORIZATION pv_super; SET ROLE pv_owner']) s;
SELECT is(attempt('SET SESSION AUTHORIZATION pv_super', 'SELECT parvacuum_enqueue(''owned'', urgent => true)'), 'done', 'urgent: a superuser');
SELECT CASE WHEN current_setting('server_version_num')::int >= 170000 THEN dblink_exec(conninfo('maintain'), 'GRANT pg_maintain TO pv_other') END \g /dev/null
SELECT is(attempt('SET ROLE pv_other', 'SELECT parvacuum_enqueue(''owned'', urgent => true)'), CASE WHEN current_setting('server_version_num')::int >= 170000 THEN 'done' ELSE refusal_of_urgent() END,
    'urgent: a member of pg_maintain, where it exists');
SELECT CASE WHEN current_setting('server_version_num')::int >= 170000 THEN dblink_exec(conninfo('maintain'), 'REVOKE pg_maintain FROM pv_other') END \g /dev/null
SELECT is(answer('SET ROLE pv_owner', 'SELECT parvacuum_cancel(''owned'')'), 'true', 'the owner cancels a table that a superuser has enqueued');

-- Partitions of several owners
SELECT is(attempt('SET ROLE pv_other', 'SELECT parvacuum_enqueue(''mixed'')'), refusal('mixed'), 'another''s partitioned table is an error');
SELECT is(attempt('SET ROLE pv_owner; SET client_min_messages = error', 'SELECT parvacuum_enqueue(''mixed'')'), 'done', 'a role''s own partitioned table is enqueued');
SELECT is(in_queue('state = ''queued'''), 'mixed_ours mixed_sub_ours', 'only the partitions of the role are queued');
SELECT is(attempt('SET ROLE pv_owner', 'SELECT parvacuum_enqueue(''mixed_theirs'')'), refusal('mixed_theirs'), 'another''s partition by name is an error');
SELECT set_eq('SELECT relid, result FROM parvacuum_enqueue(''mixed'')', $$VALUES ('mixed_ours'::regclass, 'already queued'), ('mixed_theirs', 'queued'), ('mixed_sub_ours', 'already queued')$$,
    'the result has a row for each partition');
SELECT set_eq('SELECT result, count(*) FROM parvacuum_enqueue(''mixed'') GROUP BY 1', $$VALUES ('already queued', 3::bigint)$$, 'the same request again changes nothing');
SELECT is(answer('SET ROLE pv_owner; SET client_min_messages = error', 'SELECT string_agg(relid || '' '' || result, '', '' ORDER BY relid::text COLLATE "C") FROM parvacuum_enqueue(''mixed'')'),
    'mixed_ours already queued, mixed_sub permission denied, mixed_sub_ours already queued, mixed_theirs permission denied', 'a request of another role changes nothing, and reports the other partitions');
SELECT is(in_queue('state = ''queued'' AND requested AND relation::text ~ ''mixed'''), 'mixed_ours mixed_sub_ours mixed_theirs', 'a superuser enqueues all partitions');
SELECT is(in_queue('relid IN (''mixed''::regclass, ''mixed_sub''::regclass)'), '', 'partitioned tables are not queued themselves');

-- A table with its TOAST table, a materialized view, and requests that become urgent and stay it
SELECT parvacuum_enqueue('toasty'), parvacuum_enqueue('toasty', true), parvacuum_enqueue('mv') \g /dev/null
SELECT set_eq($$SELECT format('%s %s %s %s %s', relid, state, coalesce(reason, '-'), action, size_class) FROM parvacuum_queue WHERE state = 'queued' AND urgent AND relid IN (SELECT unnest(ARRAY[oid, reltoastrelid]) FROM pg_class WHERE oid = 'toasty'::regclass)$$,
    (SELECT ARRAY[format('%s queued - vacuum small', oid), format('%s queued - vacuum small', reltoastrelid)] FROM pg_class WHERE oid = 'toasty'::regclass),
    'a table and its TOAST table, each once');
SELECT is(array(SELECT result FROM parvacuum_enqueue('toasty')), ARRAY['already queued', 'already queued'], 'a row for the TOAST table, too');
SELECT is((SELECT bool_and(urgent) FROM parvacuum_queue WHERE relation::text IN ('toasty', (SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'toasty'::regclass))), true,
    'an urgent request stays urgent');
SELECT is((SELECT format('%s %s', requested, urgent) FROM parvacuum_queue WHERE relid = 'mv'::regclass), 't f', 'a materialized view, which is not urgent');
SELECT is((SELECT bool_and(since BETWEEN now() - interval '10 minutes' AND clock_timestamp() AND until IS NULL AND NOT wraparound) FROM parvacuum_queue
    WHERE datname = current_database()), true, 'queued tables have the time, and no reason to wait');
SELECT is(array_agg("position" ORDER BY "position"), array_agg(place ORDER BY place), 'queued tables have their position in the order')
FROM (SELECT "position", row_number() OVER ()::int AS place FROM parvacuum_queue WHERE state = 'queued' AND datname = current_database()) q;
SELECT ok((SELECT max("position") FROM parvacuum_queue WHERE urgent AND state = 'queued') < (SELECT min("position") FROM parvacuum_queue WHERE NOT urgent), 'urgent requests are before others');
SELECT is(answer('SET ROLE pv_other', 'SELECT string_agg(relation::text, '' '') FROM parvacuum_queue WHERE relid = ''mv''::regclass'), 'mv', 'all roles see the queue');

CREATE TABLE heir_of (a int);
SELECT dblink_exec('e', 'CREATE TEMP TABLE heir () INHERITS (heir_of)') \g /dev/null
SELECT is(answer('RESET ROLE', 'SELECT string_agg(result, '', '' ORDER BY result) FROM parvacuum_enqueue(''heir_of'')'),
    CASE WHEN current_setting('server_version_num')::int >= 180000 THEN 'queued, temporary' ELSE 'queued' END, 'a temporary child is not queued');
SELECT parvacuum_cancel('heir_of') \g /dev/null

-- No place in the queue
CALL set_for_server('parvacuum.queue_limit', '1');
SELECT is(attempt('RESET ROLE', 'SELECT parvacuum_enqueue(''many'')'), '53000: the scheduler''s queue is full / Use parvacuum_run(), or try again later.', 'the queue is full');
SELECT is(attempt('RESET ROLE', 'SELECT parvacuum_enqueue(''mv'')'), 'done', 'the queue is not full for tables that are in it already');

-- The owner of a table, and a superuser
SELECT parvacuum_cancel('mixed_ours'), parvacuum_cancel('mixed_sub_ours') \g /dev/null
CALL set_for_server('parvacuum.queue_limit', '16');
SELECT is(attempt('SET ROLE pv_owner', 'SELECT parvacuum_enqueue(''owned'')'), 'done', 'the owner enqueues a table');
SELECT is(attempt('SET SESSION AUTHORIZATION pv_super', format('SELECT parvacuum_enqueue(%L)', c)), 'done', format('a superuser enqueues %s', c))
FROM unnest('{mixed_ours,mixed_sub_ours}'::text[]) c;
SELECT is(answer('SET ROLE pv_owner', 'SELECT parvacuum_cancel(''owned'')'), 'true', 'the owner cancels it');
CREATE TABLE forty (a int) PARTITION BY LIST (a);
SELECT format('CREATE TABLE forty_%s PARTITION OF forty FOR VALUES IN (%s); ALTER TABLE forty_%s OWNER TO pv_owner', i, i, i) FROM generate_series(1, 40) i \gexec
ALTER TABLE forty OWNER TO pv_owner;
CALL set_for_server('parvacuum.queue_limit', '32');
SELECT is(answer('SET ROLE pv_owner; SET client_min_messages = error', 'SELECT string_agg(DISTINCT result, '', '' ORDER BY result) FROM parvacuum_enqueue(''forty'')'), 'no place, queued', 'partitions without a place');
DROP TABLE forty;
ALTER SYSTEM RESET parvacuum.queue_limit;
SELECT reloaded('parvacuum.queue_limit', '32768') \g /dev/null
SELECT is(current_setting('parvacuum.queue_limit'), '32768', 'the default of parvacuum.queue_limit is the room in shared memory');

-- One more worker, at once; a table that is being vacuumed is queued again.
SELECT parvacuum_enqueue('next_slow', urgent => true) \g /dev/null
CALL set_for_server('parvacuum.scheduler_workers', '2');
SELECT ok(soon($$in_queue('state = ''running''') = 'next_slow slow'$$), 'scheduler_workers, at a reload');
SELECT is(attempt('SET ROLE pv_owner', 'SELECT parvacuum_enqueue(''slow'')'), 'done', 'a table that is being vacuumed can be enqueued');
SELECT is((SELECT format('%s %s', state, requested) FROM parvacuum_queue WHERE relid = 'slow'::regclass), 'running t', 'the table stays with its worker for now');

-- Rights to cancel a table that is being vacuumed
SELECT pid FROM parvacuum_queue WHERE relid = 'slow'::regclass \gset
SELECT is(attempt(s, 'SELECT parvacuum_cancel(''slow'')'), refusal(), s || ': cancel of the table that a scheduler worker is at')
FROM unnest(ARRAY['SET ROLE pv_other', 'SET ROLE pv_dba', 'SET ROLE pv_signal']) s;
SELECT is(attempt(s, format('SELECT parvacuum_cancel(%s)', :pid)), refusal_of_worker(), s || ': cancel of a scheduler worker')
FROM unnest(ARRAY['SET ROLE pv_other', 'SET ROLE pv_dba', 'SET ROLE pv_signal', 'SET ROLE pv_owner']) s;
SELECT is((SELECT result FROM parvacuum_enqueue('slow') LIMIT 1), 'being vacuumed, queued again', 'the result shows that');
SELECT is(answer('SET ROLE pv_owner', 'SELECT parvacuum_cancel(''slow'')'), 'true', 'the owner cancels the vacuum of a table');
SELECT ok(soon($$in_queue('state = ''waiting'' AND reason = ''canceled''') ~ 'slow'$$), 'the canceled table waits, although it was to be vacuumed again');
SELECT is((SELECT count(*) FROM pg_stat_activity WHERE pid = :pid), 1::bigint, 'the worker goes on');
SELECT pid FROM parvacuum_queue WHERE relid = 'next_slow'::regclass \gset
SELECT is(answer('SET ROLE ' || :'may_all', format('SELECT parvacuum_cancel(%s)', :pid)), 'true', 'a role that may cancel autovacuum workers cancels the table of a worker');
SELECT ok(soon($$in_queue('state = ''waiting'' AND reason = ''canceled''') ~ 'next_slow'$$), 'that table waits as well');

------------------------------------------------------------------------------
-- The other tables are vacuumed.
------------------------------------------------------------------------------

SELECT parvacuum_enqueue('cut'), parvacuum_enqueue('kept') \g /dev/null
CALL set_for_server('parvacuum.scheduler_max_cost', '0');
-- By core, which follows a new limit only at the next table
SELECT parvacuum_enqueue('next_slow') \g /dev/null
SELECT ok(soon($$in_queue('state <> ''waiting''') = ''$$), 'all queued tables are vacuumed');
SELECT ok(soon(format($$(SELECT vacuum_count + autovacuum_count > 0 FROM pg_stat_all_tables WHERE relid = %s)$$, c::regclass::oid)), c || ' is vacuumed')
FROM unnest(ARRAY['mv', 'mixed_theirs', 'toasty']) c;
SELECT is(pg_relation_size(c::regclass) > 8192, c = 'kept', 'vacuum_truncate applies: ' || c) FROM unnest(ARRAY['cut', 'kept']) c;

-- Another session has locked it.
SELECT connect('lock') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE owned IN SHARE MODE') \g /dev/null
SELECT skipped_lock AS before FROM parvacuum_scheduler_stats() \gset
SELECT parvacuum_enqueue('owned') \g /dev/null
SELECT ok(soon($$in_queue('state = ''waiting'' AND reason = ''lock''') = 'owned'$$), 'a table that is locked waits');
SELECT is(skipped_lock, (:before + 1)::bigint, 'the locked table is counted') FROM parvacuum_scheduler_stats();
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null

-- Scheduler off again
ALTER SYSTEM RESET parvacuum.scheduler;
ALTER SYSTEM RESET parvacuum.scheduler_workers;
ALTER SYSTEM RESET parvacuum.scheduler_max_cost;
ALTER SYSTEM RESET autovacuum_naptime;
ALTER SYSTEM RESET autovacuum_vacuum_threshold;
ALTER SYSTEM RESET autovacuum_analyze_threshold;
ALTER SYSTEM RESET autovacuum_vacuum_insert_threshold;
SELECT reloaded('parvacuum.scheduler', 'off') \g /dev/null
SELECT is(attempt('RESET ROLE', 'SELECT parvacuum_enqueue(''owned'')'), off_and_on(), 'the scheduler is off after a reload');
SELECT ok(soon($$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker')$$), 'the workers end');

SELECT dblink_disconnect(c) FROM unnest(ARRAY['e', 'lock']) c \g /dev/null
SELECT * FROM finish();
SELECT forget_role(r) FROM unnest(ARRAY['pv_member', 'pv_owner', 'pv_other', 'pv_dba', 'pv_super', 'pv_signal', 'pv_signal_all']) r \g /dev/null
DROP SCHEMA t CASCADE;
