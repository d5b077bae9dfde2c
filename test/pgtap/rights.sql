-- Rights to vacuum: the rule of VACUUM, as an error for the table that was named and as
-- a warning for a partition; and the role of the background leader.
\ir common.psql

SELECT plan(27);

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_dba', 'pv_super']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_member LOGIN IN ROLE pv_owner;
CREATE ROLE pv_other LOGIN;
CREATE ROLE pv_dba NOLOGIN;
CREATE ROLE pv_super NOLOGIN SUPERUSER;

CREATE TABLE owned AS SELECT g AS a FROM generate_series(1, 1000) g;
DELETE FROM owned WHERE a % 2 = 0;
ALTER TABLE owned OWNER TO pv_owner;

CREATE FUNCTION refusal(name text) RETURNS text LANGUAGE sql AS $$
    SELECT format('42501: permission denied to vacuum table "%s" / Only its owner, the owner of the database, a superuser, or from PostgreSQL 17 on a role with the privilege MAINTAIN can vacuum a table.', name)
$$;

SELECT is(attempt(s, 'SELECT parvacuum_run(''owned'')'), 'done', s)
FROM unnest(ARRAY['SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_owner', 'SET SESSION AUTHORIZATION pv_member',
    'SET SESSION AUTHORIZATION pv_member; SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_super']) s;
SELECT is(attempt(s, 'CALL parvacuum(''owned'')'), 'done', 'CALL: ' || s)
FROM unnest(ARRAY['SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_member']) s;
SELECT is(attempt(s, 'SELECT parvacuum_run(''owned'')'), refusal('owned'), s)
FROM unnest(ARRAY['SET ROLE pv_other', 'SET SESSION AUTHORIZATION pv_other', 'SET SESSION AUTHORIZATION pv_super; SET ROLE pv_other']) s;
SELECT is(attempt('SET ROLE pv_other', 'CALL parvacuum(''owned'')'), refusal('owned'), 'CALL: SET ROLE pv_other');

-- A table that would be in the way of an update of the extension
SELECT alike(attempt('SET ROLE pv_other', 'CREATE TEMP TABLE typed OF parvacuum_result'), '42501: permission denied for type parvacuum_result%',
    'a type of the extension is not for tables of others');

-- The owner of the database, who may vacuum all tables except shared catalogs
CREATE FUNCTION set_owner(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), name);
END $$;
SELECT set_owner('pv_dba') \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_run(''owned'')'), 'done', 'the owner of the database');
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_run(''pg_type'')'), 'done', 'the owner of the database: a catalog');
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_run(''pg_database'')'), refusal('pg_database'), 'the owner of the database: a shared catalog');
SELECT set_owner(session_user) \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_run(''owned'')'), refusal('owned'), 'no longer the owner of the database');

-- Partitions of several owners
CREATE TABLE mixed (a int) PARTITION BY LIST (a);
CREATE TABLE mixed_ours PARTITION OF mixed FOR VALUES IN (1);
CREATE TABLE mixed_theirs PARTITION OF mixed FOR VALUES IN (2);
CREATE TABLE mixed_sub PARTITION OF mixed FOR VALUES IN (3, 4) PARTITION BY LIST (a);
CREATE TABLE mixed_sub_ours PARTITION OF mixed_sub FOR VALUES IN (3);
INSERT INTO mixed VALUES (1), (2), (3);
ALTER TABLE mixed OWNER TO pv_owner;
ALTER TABLE mixed_ours OWNER TO pv_owner;
ALTER TABLE mixed_sub_ours OWNER TO pv_owner;

SET ROLE pv_owner;
SET client_min_messages = error;
CREATE TEMP TABLE rows_of_owner AS SELECT relid FROM parvacuum_run('mixed');
SET client_min_messages = warning;
RESET ROLE;
SELECT set_eq('SELECT relid::text FROM rows_of_owner', ARRAY['mixed_ours', 'mixed_sub_ours'], 'rows of the partitions owned, and of no others');
SELECT is((SELECT count(*) FROM parvacuum_run('mixed')), 3::bigint, 'a superuser gets all rows');
SELECT is(attempt('SET ROLE pv_owner', 'SELECT parvacuum_run(''mixed_theirs'')'), refusal('mixed_theirs'), 'another''s partition by name is an error');
SELECT is(attempt('SET ROLE pv_other', 'SELECT parvacuum_run(''mixed'')'), refusal('mixed'), 'another''s partitioned table is an error');

-- From 17 on there is a privilege for it.
SELECT current_setting('server_version_num')::int >= 170000 AS maintain \gset
\if :maintain
GRANT MAINTAIN ON owned TO pv_other;
REVOKE MAINTAIN ON mixed_ours FROM pv_owner;
\endif
SELECT is(attempt('SET ROLE pv_other', 'SELECT parvacuum_run(''owned'')'), CASE WHEN :'maintain' THEN 'done' ELSE refusal('owned') END, 'a role with the privilege');
SELECT is(attempt('SET ROLE pv_owner', 'SELECT parvacuum_run(''mixed_ours'')'), CASE WHEN :'maintain' THEN refusal('mixed_ours') ELSE 'done' END, 'an owner whose privilege was revoked');

-- The background leader has the role of its caller, and is visible and can be stopped
-- like a process of the caller.
SELECT connect('lock') \g /dev/null
SELECT connect('call') \g /dev/null
SELECT connect('peer') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE owned IN ACCESS EXCLUSIVE MODE') \g /dev/null
SELECT dblink_exec('call', 'SET SESSION AUTHORIZATION pv_member; SET ROLE pv_owner') \g /dev/null
SELECT dblink_exec('peer', 'SET SESSION AUTHORIZATION pv_member') \g /dev/null
SELECT dblink_send_query('call', 'SELECT parvacuum_run(''owned'')') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock')$$), 'the background leader waits');
SELECT is(format('%s %s %s', usename, state, query), 'pv_member active VACUUM t.owned', 'pg_stat_activity shows the caller''s role')
FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader';
SELECT is(a.application_name, format('parvacuum run for PID %s', (SELECT pid FROM pg_stat_activity WHERE application_name = 'call')), 'pg_stat_activity shows whose process it is')
FROM pg_stat_activity a WHERE backend_type = 'parvacuum background leader';
SELECT is((SELECT y FROM dblink('peer', $$SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'$$) x(y bool)),
    true, 'the caller''s role may cancel the background leader');
SELECT is(failed_result('call'), '57014: canceling statement due to user request', 'the caller gets the error');
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT dblink_disconnect(c) FROM unnest(ARRAY['lock', 'call', 'peer']) c \g /dev/null

SELECT * FROM finish();
SELECT forget_role(r) FROM unnest(ARRAY['pv_member', 'pv_owner', 'pv_other', 'pv_dba', 'pv_super']) r \g /dev/null
DROP SCHEMA t CASCADE;
