-- The options in effect, as parvacuum_tables shows them: those of tables, of ancestors, and
-- of the settings of session, database and configuration file.
\ir common.psql
\ir options.psql
\ir options_tables.psql

SELECT plan(51);

CREATE TABLE a (x int PRIMARY KEY);
CREATE TABLE c1 (x int) WITH (parvacuum.enabled);
CREATE TABLE c2 (x int) WITH (parvacuum.workers = 2, parvacuum.enabled = off, parvacuum.buffer_usage_limit = '2MB');
CREATE TABLE c12 (x int) WITH (parvacuum.window = 'monday 1:00-2:00, 3:00-4:00');
CREATE TABLE plain (x int);
CREATE TABLE twin (x int) WITH (parvacuum.workers = 2, parvacuum.buffer_usage_limit = 0);
CREATE TEMP TABLE temporary (x int) WITH (parvacuum.workers = 2);
CREATE MATERIALIZED VIEW as11 AS SELECT 1 AS x;
CREATE VIEW a_view AS SELECT 1 AS x;
CREATE TYPE row_type AS (x int, y text);

-- The relations that parvacuum_tables shows
CREATE SEQUENCE a_sequence;
SELECT set_eq($$SELECT relation::text FROM parvacuum_tables
    WHERE relation::text IN ('a', 'mv', 'p', 'p1', 'a_view', 'a_sequence', 'a_pkey', 'row_type', 'temporary', 'pg_class')$$,
    ARRAY['a', 'mv', 'p', 'p1', 'temporary'], 'parvacuum_tables has tables, partitioned tables and materialized views');
SELECT is((SELECT count(*) FROM parvacuum_tables JOIN pg_class c ON c.oid = relid
    WHERE relkind NOT IN ('r', 'p', 'm') OR relnamespace IN (11, 99)), 0::bigint, 'parvacuum_tables has no others');
SELECT ok((SELECT o IS NULL FROM parvacuum_table_options(regclassin(rel::cstring)) o),
    'parvacuum_table_options(): nulls for ' || rel)
FROM unnest(ARRAY['a_view', 'a_sequence', 'a_pkey', 'row_type', '0']) rel;
SELECT is(o::text, '(16384,setting,f,setting,f,setting,"",setting,,default,)', 'parvacuum_table_options() of a catalog')
FROM parvacuum_table_options('pg_class') o;

-- The setting, where no table has the option
SELECT is(holds('t.twin'), 'f default, 2 table, 0 table', 'parvacuum.enabled is off by default');
SET parvacuum.enabled = on;
SELECT is(holds(rel), options, 'SET: ' || rel)
FROM (VALUES ('t.twin', 't session, 2 table, 0 table'), ('plain', 't session, - default, 16384 default'),
    ('c1', 't table, - default, 16384 default'),
    ('c2', 'f table, 2 table, 2048 table'), ('p4', 't ancestor, 4 table, 1024 ancestor'),
    ('p21', 'f ancestor, 1 ancestor, 1024 ancestor')) x(rel, options);
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'temporary'::regclass), 'The table is temporary.',
    'a temporary table has the setting, and is declined');
SELECT is(o.declined, 'The table is a system catalog.', 'a catalog is declined')
FROM parvacuum_table_options('pg_class') o;
SET parvacuum.enabled = off;
SELECT is(holds(rel), options, 'SET off: ' || rel)
FROM (VALUES ('plain', 'f session, - default, 16384 default'), ('c1', 't table, - default, 16384 default'),
    ('p4', 't ancestor, 4 table, 1024 ancestor')) x(rel, options);
RESET parvacuum.enabled;
SELECT is(holds('plain'), 'f default, - default, 16384 default', 'RESET');

CREATE FUNCTION holds_elsewhere(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT y FROM dblink(conninfo('new'), format('SELECT holds(%L)', rel)) x(y text)
$$;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET parvacuum.enabled = on', current_database()); END $$;
SELECT is(holds_elsewhere(rel), options, 'ALTER DATABASE: ' || rel)
FROM (VALUES ('plain', 't database, - default, 16384 default'), ('c1', 't table, - default, 16384 default'),
    ('c2', 'f table, 2 table, 2048 table'),
    ('p21', 'f ancestor, 1 ancestor, 1024 ancestor'), ('p4', 't ancestor, 4 table, 1024 ancestor')) x(rel, options);
SELECT is(holds('plain'), 'f default, - default, 16384 default', 'ALTER DATABASE: not in effect in an older session');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET parvacuum.enabled', current_database()); END $$;
SELECT is(holds_elsewhere('plain'), 'f default, - default, 16384 default', 'ALTER DATABASE RESET');

-- The setting of sweeps
CREATE FUNCTION holds_sweep(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s %s', sweep, sweep_from) FROM parvacuum_tables WHERE relid = rel::regclass
$$;
CREATE TABLE s1 (x int) WITH (parvacuum.sweep);
ALTER TABLE p2 SET (parvacuum.sweep = off);
SELECT is(holds_sweep(rel), options, 'the setting is off: ' || rel)
FROM (VALUES ('plain', 'f default'), ('s1', 't table'), ('p4', 'f default')) x(rel, options);
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET parvacuum.sweep = on', current_database()); END $$;
SELECT is(y, options, 'the setting is on for the database: ' || rel)
FROM (VALUES ('plain', 't database'), ('s1', 't table'), ('p2', 'f table'), ('p21', 'f ancestor'), ('p4', 't database')) v(rel, options),
    dblink(conninfo('new'), format('SELECT holds_sweep(%L)', rel)) x(y text);
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET parvacuum.sweep', current_database()); END $$;

-- The setting of windows; its name is a keyword of SQL.
CREATE FUNCTION holds_window_elsewhere(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT y FROM dblink(conninfo('new'), format('SELECT holds_window(%L)', rel)) x(y text)
$$;
SET parvacuum."window" = ' saturday 1:00-2:00,3:00-4:00 utc ';
SELECT is(current_setting('parvacuum.window'), ' saturday 1:00-2:00,3:00-4:00 utc ', 'the setting keeps its text');
SELECT is(holds_window('plain'), 'Sat 01:00-02:00, 03:00-04:00 UTC / session', 'the window in effect has its normal form');
SELECT is(holds_window('c12'), 'Mon 01:00-02:00, 03:00-04:00 / table', 'a window of the table overrides the setting');
BEGIN;
SET LOCAL parvacuum."window" = 'never';
SELECT is(holds_window('plain'), 'never / session', 'SET LOCAL');
ROLLBACK;
SELECT is(holds_window('plain'), 'Sat 01:00-02:00, 03:00-04:00 UTC / session', 'ROLLBACK');
RESET parvacuum."window";
SELECT is(holds_window('plain'), ' / default', 'RESET');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET parvacuum."window" = ''22:00-06:00''', current_database()); END $$;
SELECT is(holds_window_elsewhere('plain'), '22:00-06:00 / database', 'ALTER DATABASE');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET parvacuum."window"', current_database()); END $$;
SELECT is(holds_window_elsewhere('plain'), ' / default', 'ALTER DATABASE RESET');
ALTER SYSTEM SET parvacuum."window" = 'Sun 00:00-24:00 UTC';
SELECT reloaded('parvacuum."window"', 'Sun 00:00-24:00 UTC') \g /dev/null
SELECT is(holds_window_elsewhere('plain'), 'Sun 00:00-24:00 UTC / configuration file', 'ALTER SYSTEM');
ALTER SYSTEM RESET parvacuum."window";
SELECT reloaded('parvacuum."window"', '') \g /dev/null

-- parvacuum.engine
ALTER SYSTEM SET parvacuum.engine = off;
SELECT reloaded('parvacuum.engine', 'off') \g /dev/null
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = rel::regclass), declined, 'engine off: ' || rel)
FROM (VALUES ('c1', 'The setting parvacuum.engine is off.'), ('as11', NULL), ('p', NULL),
    ('p4', 'The setting parvacuum.engine is off.')) x(rel, declined);
SELECT is(holds('c1'), 't table, - default, 16384 default', 'engine off: the options in effect are the same');
ALTER SYSTEM RESET parvacuum.engine;
SELECT reloaded('parvacuum.engine', 'on') \g /dev/null
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'c1'::regclass), NULL, 'engine on');

SELECT dblink_disconnect('s') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
