-- Options and other parts of the server: event triggers, pg_stat_statements, DROP EXTENSION,
-- and parvacuum_reset_options().
\ir common.psql
\ir options.psql

SELECT plan(31);

CREATE TABLE a (x int PRIMARY KEY);
CREATE TABLE plain (x int);
SELECT format('CREATE TABLE with_options_%s (x int) WITH (parvacuum.workers = %s)', n, n) FROM generate_series(1, 12) n \gexec
SELECT replace(conninfo('notices'), '=warning', '=notice') AS conninfo \gset

-- Event triggers.  The one at the start of CREATE TABLE creates other tables, for which no
-- event trigger is called.
CREATE TABLE seen (n serial, event text, tag text, label text, holds text);
CREATE FUNCTION see_start() RETURNS event_trigger LANGUAGE plpgsql SET session_replication_role = replica AS $$
BEGIN
    INSERT INTO seen (event, tag) VALUES (tg_event, tg_tag);
    PERFORM creates(6) WHERE tg_tag = 'CREATE TABLE';
END $$;
CREATE FUNCTION see_end() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen (event, tag, label, holds)
    SELECT tg_event, tg_tag, label(rel), holds(rel)
    FROM (VALUES ('plain', 'ALTER TABLE'), ('seen_new', 'CREATE TABLE'), ('seen_as', 'CREATE TABLE AS')) x(rel, tag)
    WHERE tag = tg_tag;
END $$;
CREATE EVENT TRIGGER pv_start ON ddl_command_start WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE TABLE AS')
    EXECUTE FUNCTION see_start();
CREATE EVENT TRIGGER pv_end ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE TABLE AS')
    EXECUTE FUNCTION see_end();
ALTER TABLE plain SET (parvacuum.workers = 1);
ALTER TABLE plain SET (parvacuum.workers = 2, fillfactor = 90);
ALTER TABLE plain RESET (parvacuum.workers, fillfactor);
CREATE TABLE seen_new (x serial PRIMARY KEY) WITH (parvacuum.workers = 3, parvacuum.enabled);
CREATE TABLE seen_as WITH (parvacuum.workers = 4) AS SELECT 1 AS x;
DROP EVENT TRIGGER pv_start;
DROP EVENT TRIGGER pv_end;
SELECT is((SELECT array_agg(concat_ws(' / ', event, label, holds) ORDER BY n) FROM seen WHERE tag = wanted), events,
    'event triggers: ' || wanted)
FROM (VALUES ('ALTER TABLE', ARRAY['ddl_command_start', 'ddl_command_end / workers=1 / f default, 1 table, 16384 default',
        'ddl_command_start', 'ddl_command_end / workers=2 / f default, 2 table, 16384 default', 'ddl_command_start',
        'ddl_command_end / f default, - default, 16384 default']),
    ('CREATE TABLE', ARRAY['ddl_command_start',
    'ddl_command_end / enabled=true, workers=3 / t table, 3 table, 16384 default']),
    ('CREATE TABLE AS', ARRAY['ddl_command_start', 'ddl_command_end / workers=4 / f default, 4 table, 16384 default']))
    x(wanted, events);
SELECT is(label('seen_new'), 'enabled=true, workers=3', 'a table whose event trigger has created others');
SELECT is(created(6), ARRAY['inner6 ', 'inner_as6 ', 'inner_mv6 ', 'inner_own6 workers=100'], 'the tables that the event trigger has created');
-- An event trigger that hides the table during the statement
CREATE TABLE found (x int);
CREATE FUNCTION hide() RETURNS event_trigger LANGUAGE plpgsql SET session_replication_role = replica AS $$
BEGIN
    CREATE TEMP TABLE found (x int);
END $$;
CREATE EVENT TRIGGER pv_start ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION hide();
ALTER TABLE found SET (parvacuum.workers = 5, fillfactor = 90);
DROP EVENT TRIGGER pv_start;
SELECT is(format('%s | %s', label('t.found'), reloptions('t.found')), 'workers=5 | fillfactor=90',
    'both parts of the statement change the same table');
SELECT is(format('%s | %s', label('pg_temp.found'), reloptions('pg_temp.found')), ' | ', 'the other table is not changed');

-- pg_stat_statements
SELECT count(*) = 1 AS preloaded FROM regexp_split_to_table(current_setting('shared_preload_libraries'), '\s*,\s*') l
    WHERE l = 'pg_stat_statements' \gset
\if :preloaded
CREATE EXTENSION IF NOT EXISTS pg_stat_statements;
SELECT pg_stat_statements_reset() \g /dev/null
ALTER TABLE plain SET (parvacuum.workers = 3);
ALTER TABLE plain SET (parvacuum.workers = 3);
CREATE TABLE counted WITH (parvacuum.workers = 3) AS SELECT 1 AS x;
SELECT is((SELECT sum(calls) FROM pg_stat_statements WHERE query = 'ALTER TABLE plain SET (parvacuum.workers = 3)'),
    2::numeric, 'pg_stat_statements: ALTER TABLE');
SELECT is((SELECT sum(calls) FROM pg_stat_statements
    WHERE query LIKE 'CREATE TABLE counted WITH (parvacuum.workers = 3) AS%'), 1::numeric,
    'pg_stat_statements: CREATE TABLE AS');
\else
SELECT skip('pg_stat_statements is not preloaded', 2);
\endif

-- Labels without their table
SELECT is((SELECT count(*) FROM pg_seclabel l WHERE provider = 'parvacuum'
    AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.objoid)), 0::bigint, 'no label has lost its table');
SELECT is((SELECT count(*) FROM pg_seclabel WHERE provider = 'parvacuum'
    AND (classoid <> 'pg_class'::regclass OR objsubid <> 0)), 0::bigint, 'all labels are those of tables');

-- DROP EXTENSION and CREATE EXTENSION
SELECT count(*) AS labels, md5(string_agg(objoid || label, ' ' ORDER BY objoid)) AS sum FROM pg_seclabel
    WHERE provider = 'parvacuum' \gset
BEGIN;
DROP EXTENSION parvacuum;
SELECT is((SELECT md5(string_agg(objoid || label, ' ' ORDER BY objoid)) FROM pg_seclabel WHERE provider = 'parvacuum'),
    :'sum', 'DROP EXTENSION keeps the options');
CREATE EXTENSION parvacuum;
SELECT is((SELECT md5(string_agg(objoid || label, ' ' ORDER BY objoid)) FROM pg_seclabel WHERE provider = 'parvacuum'),
    :'sum', 'CREATE EXTENSION finds them again');
SELECT is(parvacuum_reset_options(), :labels, 'parvacuum_reset_options() returns the number of tables whose options it removes');
SELECT is((SELECT count(*) FROM pg_seclabel WHERE provider = 'parvacuum'), 0::bigint,
    'parvacuum_reset_options() removes all options');
DROP EXTENSION parvacuum;
ALTER TABLE plain SET (parvacuum.workers = 7);
SELECT is(label('plain'), 'workers=7', 'options can be set without the extension');
ALTER TABLE plain RESET (parvacuum.workers);
SELECT is(label('plain'), NULL, 'options can be reset without the extension');
ROLLBACK;
SELECT is((SELECT md5(string_agg(objoid || label, ' ' ORDER BY objoid)) FROM pg_seclabel WHERE provider = 'parvacuum'),
    :'sum', 'a rollback restores the options');
BEGIN;
DROP EXTENSION dblink;
SELECT is((SELECT count(*) FROM pg_seclabel WHERE provider = 'parvacuum'), :labels::bigint,
    'DROP of another extension keeps the options');
ROLLBACK;
-- The notice of DROP EXTENSION
\set said `psql -XqAt -d :'conninfo' -c 'BEGIN; DROP EXTENSION parvacuum; ROLLBACK' 2>&1`
SELECT is(:'said'::text, concat_ws(E'\n', format('NOTICE:  parvacuum options of %s tables stay', :labels),
    'DETAIL:  They apply as long as the library is preloaded, also after the extension is created again.',
    'HINT:  To remove them, call parvacuum_reset_options() before DROP EXTENSION, or after another CREATE EXTENSION parvacuum.'), 'the notice, for several tables');
\set said `psql -XqAt -d :'conninfo' -c 'BEGIN; DELETE FROM pg_seclabel; ALTER TABLE a SET (parvacuum.enabled); DROP EXTENSION parvacuum; ROLLBACK' 2>&1`
SELECT is(split_part(:'said', E'\n', 1), 'NOTICE:  parvacuum options of 1 table stay', 'the notice, for one table');
\set said `psql -XqAt -d :'conninfo' -c 'BEGIN; DELETE FROM pg_seclabel; DROP EXTENSION parvacuum; SELECT $$dropped$$; ROLLBACK' 2>&1`
SELECT is(:'said'::text, 'dropped', 'no notice if no table has options');

-- Rights for parvacuum_reset_options()
SELECT is(obj_description('parvacuum_reset_options()'::regprocedure, 'pg_proc') ~ 'parvacuum options of all tables', true, 'parvacuum_reset_options() has a comment');
SELECT is(format('%s %s %s', provolatile, proparallel, proacl), 'v u ', 'parvacuum_reset_options() is volatile, parallel unsafe, and executable by PUBLIC; it checks rights itself')
FROM pg_proc WHERE oid = 'parvacuum_reset_options()'::regprocedure;
SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_dba', 'pv_super']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_dba NOLOGIN;
CREATE ROLE pv_super NOLOGIN SUPERUSER;
CREATE TABLE of_owner (i int) WITH (parvacuum.workers = 2);
ALTER TABLE of_owner OWNER TO pv_owner;
SELECT is(attempt('SET ROLE ' || r, 'SELECT parvacuum_reset_options()'),
    '42501: permission denied to reset the parvacuum options of all tables / Only the owner of the database and superusers can do that.  The owner of a table can use ALTER TABLE ... RESET.', r || ': not permitted')
FROM unnest(ARRAY['pv_owner', 'pv_dba']) r;
SELECT is(attempt('SET ROLE pv_owner', 'ALTER TABLE of_owner RESET (parvacuum.workers)'), 'done', 'an owner resets the options of his table');
SELECT is(attempt('SET ROLE pv_super', 'BEGIN; SELECT parvacuum_reset_options(); ROLLBACK'), 'done', 'a superuser may reset all options');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO pv_dba', current_database()); END $$;
SELECT is(attempt('SET ROLE pv_dba', 'BEGIN; SELECT parvacuum_reset_options(); ROLLBACK'), 'done', 'the owner of the database may reset all options');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), session_user); END $$;
SELECT is((failure('s', 'BEGIN READ ONLY; SELECT parvacuum_reset_options()')).message, 'cannot execute parvacuum_reset_options() in a read-only transaction', 'parvacuum_reset_options() fails in a read-only transaction');
SELECT cmp_ok(count(*), '>', 10::bigint, 'the options were not changed') FROM pg_seclabel WHERE provider = 'parvacuum';
DROP TABLE of_owner;

SELECT dblink_disconnect('s') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
