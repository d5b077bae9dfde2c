-- Which options of tables are refused, with which code, message and hint; and that a refused
-- statement changes nothing.
\ir common.psql
\ir errors.psql

SELECT plan(214);

SELECT everything(), tables() \gset
SELECT is(:'everything'::text, 'a: fillfactor=90 | enabled=true, workers=3; p:  | workers=1', 'the options before all errors');

-- No such option
SELECT fails('e', statement, '22023', format('unrecognized parameter "parvacuum.%s"', name), valid(), statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.nonesuch = 1)', 'nonesuch'),
    ('ALTER TABLE a SET (parvacuum.nonesuch)', 'nonesuch'),
    ('ALTER TABLE a SET (parvacuum.workers = 9, parvacuum.nonesuch = 1)', 'nonesuch'),
    ('ALTER TABLE a SET (parvacuum."Workers" = 1)', 'Workers'),
    ('ALTER TABLE a SET (parvacuum.engine = off)', 'engine'),
    ('ALTER TABLE a SET (parvacuum.max_workers = 1)', 'max_workers'),
    ('ALTER TABLE a SET (parvacuum.worker = 1)', 'worker'), ('ALTER TABLE a SET (parvacuum.workers1 = 1)', 'workers1'),
    ('ALTER TABLE IF EXISTS nonesuch SET (parvacuum.nonesuch)', 'nonesuch'),
    ('ALTER MATERIALIZED VIEW mv SET (parvacuum.nonesuch)', 'nonesuch'),
    ('CREATE TABLE no (x int) WITH (parvacuum.nonesuch = 1, parvacuum.enabled)', 'nonesuch'),
    ('CREATE TABLE no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('CREATE TABLE IF NOT EXISTS a (x int) WITH (parvacuum.nonesuch)', 'nonesuch'),
    ('CREATE MATERIALIZED VIEW no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('EXPLAIN CREATE TABLE no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('EXPLAIN ANALYZE CREATE TABLE no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('CREATE TABLE no PARTITION OF p DEFAULT WITH (parvacuum.nonesuch)', 'nonesuch'),
    ('CREATE TABLE no (LIKE a INCLUDING ALL) WITH (parvacuum.nonesuch)', 'nonesuch')) x(statement, name);
SELECT is((failure('e', 'ALTER TABLE a RESET (parvacuum.nonesuch)')).message, NULL, 'RESET of an unknown option does nothing, as with those of core');

-- Invalid values
CREATE FUNCTION refused(statement text, name text, value text) RETURNS text LANGUAGE sql AS $$
    SELECT is(format('%s: %s / %s', f.state, CASE
            WHEN f.message IN (format('invalid value for enum option "parvacuum.%s": %s', name, value), format('invalid value for integer option "parvacuum.%s": %s', name, value),
                format('value %s out of bounds for option "parvacuum.%s"', value, name), format('invalid value for parameter "parvacuum.%s": "%s"', name, value))
            THEN 'invalid value' ELSE f.message END, f.hint),
        format('22023: invalid value / %s', valid()), statement)
    FROM failure('e', statement) f
$$;
SELECT refused(format('ALTER TABLE a SET (parvacuum.%s = %L)', name, value), name, value)
FROM (VALUES ('enabled', ARRAY['maybe', '', ' ', '2', '-1', '01', '1.0', 'o', 'truee', 'none', 'NULL',
    'true, workers=1', 'ja']),
    ('workers', ARRAY['-1', '1025', 'many', '', '4kB', '1 2', 'true', '2147483647', '2147483648', '-2147483649',
    '99999999999999999999', '1e10', 'NaN', 'Infinity', '0x401']),
    ('buffer_usage_limit', ARRAY['-1', '1', '127', '127kB', '16777217', '17GB', '2mb', '2 XB', '1TB', '-2MB', 'lots',
    '', 'kB', '10ms', '99999999999999999999', '9999TB', 'off']),
    ('window', ARRAY['always', 'true', '22:00', '22-06', '24:00-06:00', '22:00-24:01', 'Mo 22:00-06:00', 'Mon-Fri',
    '22:00-06:00,', '22:00-06:00 Sat 00:00-24:00', '22:00-06:00 Europe/Nowhere', '"22:00-06:00"', 'never UTC',
    repeat('01:00-02:00, ', 16) || '01:00-02:00'])) x(name, vs),
    unnest(vs) value;
SELECT refused(statement, name, value)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers)', 'workers', 'true'),
    ('ALTER TABLE a SET (parvacuum.buffer_usage_limit)', 'buffer_usage_limit', 'true'),
    ('ALTER TABLE a SET (parvacuum.window)', 'window', 'true'),
    ('ALTER TABLE a SET (parvacuum.window = 22)', 'window', '22'),
    ('ALTER TABLE a SET (parvacuum.window = off)', 'window', 'off'),
    ('ALTER TABLE a SET (parvacuum.workers = -1)', 'workers', '-1'),
    ('ALTER TABLE a SET (parvacuum.workers = 1025)', 'workers', '1025'),
    ('ALTER TABLE a SET (parvacuum.workers = 9999999999)', 'workers', '9999999999'),
    ('ALTER TABLE a SET (parvacuum.workers = none)', 'workers', 'none'),
    ('ALTER TABLE a SET (parvacuum.enabled = 2)', 'enabled', '2'),
    ('ALTER TABLE a SET (parvacuum.enabled = auto)', 'enabled', 'auto'),
    ('ALTER TABLE a SET (parvacuum.sweep = 2)', 'sweep', '2'),
    ('ALTER TABLE a SET (parvacuum.buffer_usage_limit = 100)', 'buffer_usage_limit', '100'),
    ('ALTER TABLE a SET (parvacuum.enabled = off, fillfactor = 50, parvacuum.workers = many)', 'workers', 'many'),
    ('ALTER TABLE a ADD COLUMN z int, SET (parvacuum.enabled = off), SET (parvacuum.workers = many)', 'workers',
    'many'),
    ('ALTER TABLE a SET (parvacuum.workers = many), SET (parvacuum.workers = 1)', 'workers', 'many'),
    ('ALTER TABLE IF EXISTS nonesuch SET (parvacuum.workers = -4)', 'workers', '-4'),
    ('ALTER TABLE p SET (parvacuum.workers = 2000)', 'workers', '2000'),
    ('ALTER MATERIALIZED VIEW mv SET (parvacuum.enabled = perhaps)', 'enabled', 'perhaps'),
    ('CREATE TABLE no (x int) WITH (parvacuum.workers = 1025)', 'workers', '1025'),
    ('CREATE UNLOGGED TABLE no (x serial) WITH (parvacuum.enabled = 3)', 'enabled', '3'),
    ('CREATE TABLE no (x int) WITH (parvacuum.workers)', 'workers', 'true'),
    ('CREATE TABLE no PARTITION OF p DEFAULT WITH (parvacuum.workers = 1025)', 'workers', '1025'),
    ('CREATE TABLE IF NOT EXISTS a (x int) WITH (parvacuum.workers = 1025)', 'workers', '1025'),
    ('CREATE TABLE no WITH (parvacuum.buffer_usage_limit = 1) AS SELECT 1', 'buffer_usage_limit', '1'),
    ('CREATE MATERIALIZED VIEW no WITH (parvacuum.buffer_usage_limit = big) AS SELECT 1', 'buffer_usage_limit', 'big'),
    ('CREATE TABLE no (LIKE a INCLUDING ALL) WITH (parvacuum.workers = 1025)', 'workers', '1025'),
    ('CREATE TABLE no (x int) WITH (parvacuum.window = sometimes)', 'window', 'sometimes')) x(statement, name, value);
SELECT is((failure('e', statement)).detail, 'A time from 00:00 to 24:00 is expected at "25:00".', 'the detail: ' || statement)
FROM unnest(ARRAY['ALTER TABLE a SET (parvacuum.window = ''22:00-25:00'')',
    'CREATE TABLE no (x int) WITH (parvacuum.window = ''22:00-25:00'')',
    'SET parvacuum."window" = ''22:00-25:00''']) statement;
SELECT fails('e', format('SET parvacuum."window" = %L', value), '22023', format('invalid value for parameter "parvacuum.window": "%s"', value),
    'Write spans of time such as "Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00", then a time zone or none.', 'SET: ' || value)
FROM unnest(ARRAY['always', '22:00', '22:00-25:00', '22:00-06:00 Europe/Nowhere']) value;
SELECT is((failure('e', format('ALTER DATABASE %I SET parvacuum."window" = ''off''', current_database()))).message, 'invalid value for parameter "parvacuum.window": "off"', 'ALTER DATABASE');

-- Repeated options
SELECT fails('e', statement, '22023', format('parameter "parvacuum.%s" specified more than once', name),
    valid(), statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 1, parvacuum.workers = 2)', 'workers'),
    ('ALTER TABLE a SET (parvacuum.enabled, fillfactor = 50, parvacuum.enabled)', 'enabled'),
    ('CREATE TABLE no (x int) WITH (parvacuum.workers = 1, parvacuum.workers = 1)', 'workers'),
    ('CREATE TABLE no WITH (parvacuum.enabled = off, parvacuum.enabled = off) AS SELECT 1', 'enabled'),
    ('ALTER TABLE a SET (parvacuum.window = '''', parvacuum.window = '''')', 'window'))
    x(statement, name);

-- RESET with a value
SELECT fails('e', format('ALTER TABLE a RESET (%s)', list), '42601', 'RESET must not include values for parameters',
    '', 'RESET with a value: ' || list)
FROM unnest(ARRAY['parvacuum.workers = 4', 'parvacuum.enabled, parvacuum.workers = ''''',
    'fillfactor, parvacuum.workers = 4']) list;

-- "toast."
SELECT fails('e', statement, '22023', 'parvacuum has no options for TOAST tables',
    'A TOAST table follows its table.  Leave out "toast.".', statement)
FROM unnest(ARRAY['ALTER TABLE a SET (toast.parvacuum_enabled)',
    'ALTER TABLE a SET (toast."parvacuum.enabled" = on, fillfactor = 50)',
    'ALTER TABLE a SET (parvacuum.workers = 1, toast.parvacuum = 1)',
    'ALTER TABLE a RESET (toast.parvacuum_enabled)', 'CREATE TABLE no (x text) WITH (toast.parvacuum_workers = 1)',
    'CREATE TABLE no WITH (toast.parvacuum_workers = 1) AS SELECT 1',
    'CREATE MATERIALIZED VIEW no WITH (toast.parvacuum_workers = 1) AS SELECT 1']) statement;

-- Other namespaces, which core refuses
SELECT fails('e', statement, '22023', message, '', statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 9, vacuum.workers = 9)',
    'unrecognized parameter namespace "vacuum"'),
    ('ALTER TABLE a SET ("Parvacuum".workers = 9)', 'unrecognized parameter namespace "Parvacuum"'),
    ('ALTER TABLE a ALTER COLUMN y SET (parvacuum.workers = 9)', 'unrecognized parameter namespace "parvacuum"'),
    ('CREATE INDEX no ON a (y) WITH (parvacuum.enabled)', 'unrecognized parameter namespace "parvacuum"'),
    ('CREATE VIEW no WITH (parvacuum.enabled) AS SELECT 1', 'unrecognized parameter namespace "parvacuum"'))
    x(statement, message);

-- Relations that are not tables
SELECT fails('e', format('ALTER %s SET (parvacuum.enabled)', what), '42809',
    format('cannot set parvacuum options for "%s"', name),
    'Only tables, partitioned tables, and materialized views can have them.', 'ALTER ' || what)
FROM (VALUES ('TABLE a_view', 'a_view'), ('VIEW a_view', 'a_view'), ('TABLE a_pkey', 'a_pkey'),
    ('INDEX a_pkey', 'a_pkey'), ('TABLE p_pkey', 'p_pkey'), ('INDEX p_pkey', 'p_pkey'),
    ('TABLE a_sequence', 'a_sequence'), ('SEQUENCE a_sequence', 'a_sequence'),
    ('TABLE a_foreign_table', 'a_foreign_table'),
    ('FOREIGN TABLE a_foreign_table', 'a_foreign_table'), ('TABLE a_type', 'a_type'),
    ('TABLE IF EXISTS a_view', 'a_view')) x(what, name);
SELECT fails('e', 'ALTER TABLE a_view RESET (parvacuum.enabled)', '42809', 'cannot set parvacuum options for "a_view"',
    'Only tables, partitioned tables, and materialized views can have them.', 'RESET, of a view');
SELECT is((failure('e', format('ALTER TABLE %s SET (parvacuum.enabled)', name))).detail,
    format('This operation is not supported for %s.', kind), 'the detail for ' || kind)
FROM (VALUES ('a_view', 'views'), ('a_pkey', 'indexes'), ('p_pkey', 'partitioned indexes'), ('a_sequence', 'sequences'),
    ('a_foreign_table', 'foreign tables'),
    ('a_type', 'composite types')) x(name, kind);
SELECT fails('e', format('ALTER TABLE %s SET (parvacuum.enabled)', :'toast'), '42809',
    format('cannot set parvacuum options for TOAST table "%s"', :'toast_name'),
    'A TOAST table follows its table.  Set the options of the table instead.', 'a TOAST table');
SELECT fails('e', format('ALTER TABLE %s SET (parvacuum.enabled)', name), '42501',
    format('permission denied: "%s" is a system catalog', name),
    'PostgreSQL''s own VACUUM vacuums system catalogs.', 'a catalog: ' || name)
FROM unnest(ARRAY['pg_class', 'pg_seclabel', 'pg_database', 'pg_largeobject']) name;
SELECT fails('e', format('ALTER %s a SET (parvacuum.workers = 9)', kind), '42809',
    format('"a" is not a%s %s', CASE WHEN kind = 'INDEX' THEN 'n' END, lower(kind)), '',
    'a table is not of the kind ' || lower(kind))
FROM unnest(ARRAY['VIEW', 'INDEX', 'SEQUENCE', 'FOREIGN TABLE', 'MATERIALIZED VIEW']) kind;
SELECT fails('e', format('ALTER TABLE %s SET (parvacuum.workers = 9)', name), state, message, '',
    'no such table: ' || name)
FROM (VALUES ('nonesuch', '42P01', 'relation "nonesuch" does not exist'),
    ('t.nonesuch', '42P01', 'relation "t.nonesuch" does not exist'),
    ('nonesuch.a', '3F000', 'schema "nonesuch" does not exist')) x(name, state, message);
SELECT fails('e', 'ALTER TABLE nonesuch SET (parvacuum.workers = many)', '42P01', 'relation "nonesuch" does not exist',
    '', 'no such table: reported before invalid values');

-- If core refuses its part of a statement, our part is undone.
SELECT fails('e', statement, state, message, hint, statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 9, fillfactor = 1)', '22023',
    'value 1 out of bounds for option "fillfactor"', ''),
    ('ALTER TABLE a SET (parvacuum.workers = 9, nonesuch = 1)', '22023', 'unrecognized parameter "nonesuch"', ''),
    ('ALTER TABLE a SET (parvacuum.workers = 9), ADD COLUMN x int', '42701',
    'column "x" of relation "a" already exists', ''),
    ('ALTER TABLE a RESET (parvacuum.workers), ALTER COLUMN y TYPE int USING y::int', '22P02',
    'invalid input syntax for type integer: "one"', ''),
    ('ALTER TABLE a SET (parvacuum.workers = 9), DROP COLUMN nonesuch', '42703',
    'column "nonesuch" of relation "a" does not exist', ''),
    ('ALTER TABLE a RESET (fillfactor = 1, parvacuum.workers)', '42601', 'RESET must not include values for parameters',
    ''),
    ('CREATE TABLE a (x int) WITH (parvacuum.workers = 9)', '42P07', 'relation "a" already exists', ''),
    ('CREATE TABLE a WITH (parvacuum.workers = 9) AS SELECT 1', '42P07', 'relation "a" already exists', ''),
    ('CREATE TABLE no (x int) WITH (parvacuum.workers = 9, fillfactor = 1)', '22023',
    'value 1 out of bounds for option "fillfactor"', ''),
    ('CREATE TABLE no (x int, x int) WITH (parvacuum.workers = 9)', '42701', 'column "x" specified more than once', ''),
    ('CREATE TABLE no (x int CHECK (z > 0)) WITH (parvacuum.workers = 9)', '42703', 'column "z" does not exist', ''),
    ('CREATE TABLE no WITH (parvacuum.workers = 9) AS SELECT 1 / x AS x FROM generate_series(1, 0, -1) x', '22012',
    'division by zero', ''),
    ('CREATE MATERIALIZED VIEW no WITH (parvacuum.workers = 9) AS SELECT 1 / x AS x FROM generate_series(1, 0, -1) x',
    '22012', 'division by zero', ''),
    ('EXPLAIN ANALYZE CREATE TABLE no WITH (parvacuum.workers = 9) AS SELECT 1 / x AS x FROM generate_series(1, 0, -1) x',
    '22012', 'division by zero', ''),
    ('CREATE TABLE no (LIKE nonesuch INCLUDING ALL)', '42P01', 'relation "nonesuch" does not exist', ''),
    ('CREATE TABLE no (LIKE a_sequence INCLUDING ALL)', '42809', 'relation "a_sequence" is invalid in LIKE clause', ''),
    ('CREATE SCHEMA pv_no CREATE TABLE no (x int) WITH (parvacuum.workers = 9) CREATE TABLE no (x int)', '42P07',
    'relation "no" already exists', ''),
    ('CREATE TABLE no (x int); ALTER TABLE no SET (parvacuum.workers = 9); SELECT 1 / 0', '22012', 'division by zero',
    '')) x(statement, state, message, hint);
-- A partitioned table has no storage parameters of core; the message differs between
-- releases.
SELECT isnt((failure('e', statement)).state, NULL, statement)
FROM unnest(ARRAY['ALTER TABLE p SET (parvacuum.workers = 9, fillfactor = 90)',
    'CREATE TABLE no (x int) PARTITION BY LIST (x) WITH (parvacuum.workers = 9, fillfactor = 90)']) statement;

-- Read-only transactions
SELECT dblink_exec('e', 'SET default_transaction_read_only = on') \g /dev/null
SELECT fails('e', statement, '25006', format('cannot execute %s in a read-only transaction', tag), '',
    'read-only: ' || statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 9)', 'ALTER TABLE'),
    ('ALTER TABLE a RESET (parvacuum.workers, fillfactor)', 'ALTER TABLE'),
    ('ALTER TABLE IF EXISTS nonesuch SET (parvacuum.workers = 9)', 'ALTER TABLE'),
    ('ALTER TABLE nonesuch SET (parvacuum.workers = many)', 'ALTER TABLE'),
    ('ALTER MATERIALIZED VIEW mv SET (parvacuum.enabled)', 'ALTER MATERIALIZED VIEW'),
    ('CREATE TABLE no (x int) WITH (parvacuum.enabled)', 'CREATE TABLE'),
    ('CREATE TABLE no WITH (parvacuum.enabled) AS SELECT 1', 'CREATE TABLE AS'),
    (by_hand('enabled=true'), 'SECURITY LABEL')) x(statement, tag);
SELECT dblink_exec('e', 'SET default_transaction_read_only = off') \g /dev/null

-- Parallel workers
CREATE FUNCTION in_worker() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
    'BEGIN ALTER TABLE t.a SET (parvacuum.workers = 9); RETURN 1; END';
SELECT dblink_exec('e', format('SET %s = on', in_workers())) \g /dev/null
SELECT fails('e', 'SELECT in_worker()', '25000', 'cannot execute ALTER TABLE during a parallel operation', '',
    'in a parallel worker');
SELECT dblink_exec('e', 'RESET ' || in_workers()) \g /dev/null

-- Fractions of sizes are not rounded, which could give 0.
SELECT refused(format('ALTER TABLE a SET (parvacuum.buffer_usage_limit = %L)', value), 'buffer_usage_limit', value)
FROM unnest(ARRAY['100B', '-0.4', '128.5', 'Infinity', '2mb']) value;

-- Tables that are in use or locked
SELECT dblink_exec('e', 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM a') \g /dev/null
SELECT fails('e', 'ALTER TABLE a SET (parvacuum.workers = 9)', '55006',
    'cannot ALTER TABLE "a" because it is being used by active queries in this session', '', 'in use by a cursor');
SELECT dblink_exec('e', 'ROLLBACK; SET lock_timeout = ''50ms''') \g /dev/null
SELECT connect('lock') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE a IN SHARE UPDATE EXCLUSIVE MODE') \g /dev/null
SELECT fails('e', statement, '55P03', 'canceling statement due to lock timeout', '', 'locked: ' || statement)
FROM unnest(ARRAY['ALTER TABLE a SET (parvacuum.workers = 9)', 'ALTER TABLE a RESET (parvacuum.workers)',
    by_hand('enabled=true')]) statement;
SELECT dblink_exec('lock', 'ROLLBACK; BEGIN; LOCK TABLE a IN ROW EXCLUSIVE MODE') \g /dev/null
SELECT is((failure('e', 'ALTER TABLE a SET (parvacuum.workers = 3)')).message, NULL, 'writers do not block ALTER TABLE');
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT dblink_disconnect('lock') \g /dev/null
SELECT dblink_exec('e', 'RESET lock_timeout') \g /dev/null

-- The refused statements have changed nothing.
SELECT is(everything(), :'everything', 'all options are the same as before');
SELECT is(tables(), :'tables', 'no table was created');
SELECT dblink_exec('e', 'CREATE TABLE next (x int)') \g /dev/null
SELECT dblink_exec('e', 'CREATE TABLE next_as AS SELECT 1 AS x; CREATE MATERIALIZED VIEW next_mv AS SELECT 1 AS x') \g /dev/null
SELECT is(label(rel), NULL, 'a table created after a failure has no options: ' || rel)
FROM unnest(ARRAY['next', 'next_as', 'next_mv']) rel;

-- A failed block of PL/pgSQL
DO $$
BEGIN
    ALTER TABLE a SET (parvacuum.workers = 9);
    CREATE TABLE no (x int) WITH (parvacuum.workers = 9, fillfactor = 1);
EXCEPTION WHEN invalid_parameter_value THEN
    CREATE TABLE next_in_do (x int);
END $$;
SELECT is(label('a'), 'enabled=true, workers=3', 'the options are undone with the block');
SELECT is(label('next_in_do'), NULL, 'the next table does not get these options');

SELECT dblink_disconnect('e') \g /dev/null
SELECT * FROM finish();
DROP FOREIGN DATA WRAPPER pv_none CASCADE;
DROP SCHEMA t CASCADE;
