-- What is refused when options of a table are set, with which code, in which
-- words, with which hint; that it leaves nothing behind; and who may set them.
\ir common.psql

SELECT plan(350);

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_outside']) r \g /dev/null
SELECT connect('e') \g /dev/null

CREATE FUNCTION label(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT label FROM pg_seclabel
    WHERE provider = 'parvacuum' AND classoid = 'pg_class'::regclass AND objoid = rel::regclass AND objsubid = 0
$$;
-- all options there are, ours and core's
CREATE FUNCTION everything() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s: %s | %s', c.oid::regclass, array_to_string(reloptions, ', '), label),
        '; ' ORDER BY c.oid::regclass::text)
    FROM pg_class c FULL JOIN pg_seclabel ON provider = 'parvacuum' AND objoid = c.oid
    WHERE (reloptions IS NOT NULL OR label IS NOT NULL) AND coalesce(relnamespace, 't'::regnamespace) = 't'::regnamespace
$$;
CREATE FUNCTION tables() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 't'::regnamespace
    AND relkind IN ('r', 'p', 'm')
$$;

CREATE TABLE a (x int PRIMARY KEY, y text) WITH (parvacuum.enabled, parvacuum.workers = 3, fillfactor = 90);
INSERT INTO a VALUES (1, 'one');
CREATE TABLE p (x int PRIMARY KEY) PARTITION BY LIST (x) WITH (parvacuum.workers = 1);
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS x;
CREATE VIEW a_view AS SELECT 1 AS x;
CREATE SEQUENCE a_sequence;
CREATE TYPE a_type AS (x int);
DROP FOREIGN DATA WRAPPER IF EXISTS pv_none CASCADE;
CREATE FOREIGN DATA WRAPPER pv_none;
CREATE SERVER pv_none FOREIGN DATA WRAPPER pv_none;
CREATE FOREIGN TABLE a_foreign_table (x int) SERVER pv_none;
CREATE FUNCTION a_function() RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT reltoastrelid::regclass::text AS toast, split_part(reltoastrelid::regclass::text, '.', 2) AS toast_name
FROM pg_class WHERE oid = 'a'::regclass \gset

-- the options, and what is to be said of their values
CREATE TABLE options (name text, hint text);
INSERT INTO options VALUES ('enabled', 'Valid values are "true" and "false".'),
    ('workers', 'Valid values are whole numbers between 0 and 1024.'),
    ('buffer_usage_limit', 'Valid values are 0 and sizes between "128kB" and "16GB".'),
    ('window', 'Write spans of time such as "Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00", then a time zone or none.');

SELECT everything(), tables() \gset
SELECT is(:'everything'::text, 'a: fillfactor=90 | enabled=true, workers=3; p:  | workers=1', 'to begin with');

-- no such option
SELECT fails('e', statement, '22023', format('unrecognized parameter "parvacuum.%s"', name),
    'Valid parameters are "parvacuum.buffer_usage_limit", "parvacuum.enabled", "parvacuum.window", and "parvacuum.workers".',
    statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.nonesuch = 1)', 'nonesuch'),
    ('ALTER TABLE a SET (parvacuum.nonesuch)', 'nonesuch'),
    ('ALTER TABLE a SET (parvacuum.workers = 9, parvacuum.nonesuch = 1)', 'nonesuch'),
    ('ALTER TABLE a SET (parvacuum."Workers" = 1)', 'Workers'),
    ('ALTER TABLE a SET (parvacuum.engine = off)', 'engine'),
    ('ALTER TABLE a SET (parvacuum.max_workers = 1)', 'max_workers'),
    ('ALTER TABLE a SET (parvacuum.worker = 1)', 'worker'), ('ALTER TABLE a SET (parvacuum.workers1 = 1)', 'workers1'),
    ('ALTER TABLE a RESET (parvacuum.nonesuch)', 'nonesuch'),
    ('ALTER TABLE a RESET (parvacuum.workers, parvacuum.nonesuch)', 'nonesuch'),
    ('ALTER TABLE IF EXISTS nonesuch SET (parvacuum.nonesuch)', 'nonesuch'),
    ('ALTER MATERIALIZED VIEW mv SET (parvacuum.nonesuch)', 'nonesuch'),
    ('CREATE TABLE no (x int) WITH (parvacuum.nonesuch = 1, parvacuum.enabled)', 'nonesuch'),
    ('CREATE TABLE no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('CREATE TABLE IF NOT EXISTS a (x int) WITH (parvacuum.nonesuch)', 'nonesuch'),
    ('CREATE MATERIALIZED VIEW no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('EXPLAIN CREATE TABLE no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('EXPLAIN ANALYZE CREATE TABLE no WITH (parvacuum.nonesuch) AS SELECT 1', 'nonesuch'),
    ('CREATE TABLE no PARTITION OF p DEFAULT WITH (parvacuum.nonesuch)', 'nonesuch'),
    ('CREATE TABLE no (LIKE a INCLUDING ALL) WITH (parvacuum.nonesuch)', 'nonesuch'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''nonesuch=1''', 'nonesuch'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''enabled=true, nonesuch=1''', 'nonesuch'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''Enabled=true''', 'Enabled'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''fillfactor=90''', 'fillfactor')) x(statement, name);

-- bad values
CREATE FUNCTION refused(statement text, name text, value text) RETURNS text LANGUAGE sql AS $$
    SELECT fails('e', statement, '22023', format('invalid value for parameter "parvacuum.%s": "%s"', name, value), hint,
        statement)
    FROM options o WHERE o.name = refused.name
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
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''enabled=''', 'enabled', ''),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''enabled=maybe''', 'enabled', 'maybe'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''enabled=true, workers=1025''', 'workers', '1025'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''buffer_usage_limit=127''', 'buffer_usage_limit', '127'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''workers=1=2''', 'workers', '1=2'),
    ('CREATE TABLE no (x int) WITH (parvacuum.window = sometimes)', 'window', 'sometimes'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''window=22:00''', 'window', '22:00'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''enabled=true, window="Mon, Tue"''', 'window', 'Mon, Tue'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''window="never"""''', 'window', 'never"'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''window="a ""b"", c"""''', 'window', 'a "b", c"')) x(statement, name, value);
SELECT is((failure('e', statement)).detail, 'A time from 00:00 to 24:00 is expected at "25:00".', 'the detail: ' || statement)
FROM unnest(ARRAY['ALTER TABLE a SET (parvacuum.window = ''22:00-25:00'')',
    'CREATE TABLE no (x int) WITH (parvacuum.window = ''22:00-25:00'')',
    'SECURITY LABEL FOR parvacuum ON TABLE a IS ''window="22:00-25:00"''', 'SET parvacuum."window" = ''22:00-25:00''']) statement;
SELECT is((failure('e', 'ALTER TABLE a SET (parvacuum.workers = many)')).detail, '', 'no detail where the hint says it all');
SELECT refused(format('SET parvacuum."window" = %L', value), 'window', value)
FROM unnest(ARRAY['always', '22:00', '22:00-25:00', '22:00-06:00 Europe/Nowhere']) value;
SELECT refused(format('ALTER DATABASE %I SET parvacuum."window" = ''off''', current_database()), 'window', 'off');

-- repeated
SELECT fails('e', statement, '22023', format('parameter "parvacuum.%s" specified more than once', name),
    'Give each parameter one value.', statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 1, parvacuum.workers = 2)', 'workers'),
    ('ALTER TABLE a SET (parvacuum.enabled, fillfactor = 50, parvacuum.enabled)', 'enabled'),
    ('CREATE TABLE no (x int) WITH (parvacuum.workers = 1, parvacuum.workers = 1)', 'workers'),
    ('CREATE TABLE no WITH (parvacuum.enabled = off, parvacuum.enabled = off) AS SELECT 1', 'enabled'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''workers=1, workers=1''', 'workers'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''enabled=true, workers=1, enabled=false''', 'enabled'),
    ('ALTER TABLE a SET (parvacuum.window = '''', parvacuum.window = '''')', 'window'),
    ('SECURITY LABEL FOR parvacuum ON TABLE a IS ''window="never", window="never"''', 'window'))
    x(statement, name);

-- RESET with a value
SELECT fails('e', format('ALTER TABLE a RESET (%s)', list), '42601', 'RESET must not include values for parameters',
    'Write RESET (parvacuum.workers).', 'RESET with a value: ' || list)
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

-- prefixes that are not ours: core refuses them
SELECT fails('e', statement, '22023', message, '', statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 9, vacuum.workers = 9)',
    'unrecognized parameter namespace "vacuum"'),
    ('ALTER TABLE a SET ("Parvacuum".workers = 9)', 'unrecognized parameter namespace "Parvacuum"'),
    ('ALTER TABLE a ALTER COLUMN y SET (parvacuum.workers = 9)', 'unrecognized parameter namespace "parvacuum"'),
    ('CREATE INDEX no ON a (y) WITH (parvacuum.enabled)', 'unrecognized parameter namespace "parvacuum"'),
    ('CREATE VIEW no WITH (parvacuum.enabled) AS SELECT 1', 'unrecognized parameter namespace "parvacuum"'))
    x(statement, message);

-- not a table
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
    'a table is no ' || lower(kind))
FROM unnest(ARRAY['VIEW', 'INDEX', 'SEQUENCE', 'FOREIGN TABLE', 'MATERIALIZED VIEW']) kind;
SELECT fails('e', format('ALTER TABLE %s SET (parvacuum.workers = 9)', name), state, message, '',
    'no such table: ' || name)
FROM (VALUES ('nonesuch', '42P01', 'relation "nonesuch" does not exist'),
    ('t.nonesuch', '42P01', 'relation "t.nonesuch" does not exist'),
    ('nonesuch.a', '3F000', 'schema "nonesuch" does not exist')) x(name, state, message);
SELECT fails('e', 'ALTER TABLE nonesuch SET (parvacuum.workers = many)', '42P01', 'relation "nonesuch" does not exist',
    '', 'no such table, before all else');

-- the label by hand: only what ALTER TABLE would have made
CREATE FUNCTION by_hand(label text, kind text DEFAULT 'TABLE a') RETURNS text LANGUAGE sql AS $$
    SELECT format('SECURITY LABEL FOR parvacuum ON %s IS %s', kind, quote_nullable(label))
$$;
SELECT fails('e', by_hand(label), '22023', format('invalid security label for parvacuum: "%s"', label),
    'Use ALTER TABLE ... SET (parvacuum.enabled), which sets the label.', format('label "%s"', label))
FROM unnest(ARRAY['', ' ', 'enabled', 'enabled=true, workers', 'enabled=true, ', ', enabled=true', ',',
    'enabled=true,,workers=1', 'enabled=true workers=1', 'workers= 1', '"enabled=true', 'nonsense',
    '"workers=1"', 'window="never', 'window="', 'window="""', 'window="never" UTC',
    'window="never"workers=1', 'workers=1, window=Mon 22:00-06:00', 'workers=1 , , enabled=true']) label;
SELECT fails('e', by_hand(label), '22023', format('security label for parvacuum is not in canonical form: "%s"', label),
    format('Write "%s".', canonical), format('label "%s"', label))
FROM (VALUES ('enabled=1', 'enabled=true'), ('enabled=on', 'enabled=true'), ('enabled=TRUE', 'enabled=true'),
    ('enabled=no', 'enabled=false'), (' enabled=true', 'enabled=true'),
    ('enabled=true ', 'enabled=true'), ('enabled=true,workers=1', 'enabled=true, workers=1'),
    ('workers=1, enabled=true', 'enabled=true, workers=1'),
    ('workers=01', 'workers=1'), ('workers="1"', 'workers=1'), ('enabled="t"', 'enabled=true'),
    ('window=never', 'window="never"'), ('window=', 'window=""'), ('window="6:00-7:00"', 'window="06:00-07:00"'),
    ('workers=1, window="never"', 'window="never", workers=1'), ('window="06:00-07:00 utc"', 'window="06:00-07:00 UTC"'),
    ('window="06:00-07:00,08:00-09:00"', 'window="06:00-07:00, 08:00-09:00"'),
    ('buffer_usage_limit=2MB', 'buffer_usage_limit=2048')) x(label, canonical);
SELECT fails('e', by_hand('enabled=true', kind), '42809', 'cannot set parvacuum options for ' || object,
    'Only tables, partitioned tables, and materialized views can have them.', 'label on ' || object)
FROM (VALUES ('VIEW a_view', '"a_view"'), ('SEQUENCE a_sequence', '"a_sequence"'),
    ('FOREIGN TABLE a_foreign_table', '"a_foreign_table"'),
    ('COLUMN a.y', 'column y of table a'), ('SCHEMA t', 'schema t'), ('TYPE a_type', 'type a_type'),
    ('FUNCTION a_function()', 'function a_function()'),
    ('ROLE ' || quote_ident(current_user), 'role ' || current_user),
    ('DATABASE ' || quote_ident(current_database()), 'database ' || current_database())) x(kind, object);
SELECT fails('e', by_hand('enabled=true', kind), '42809', message, '', 'label on ' || kind)
FROM (VALUES ('INDEX a_pkey', 'security labels are not supported for this type of object'),
    ('TABLE a_view', '"a_view" is not a table'), ('TABLE mv', '"mv" is not a table'),
    ('TABLE a_pkey', '"a_pkey" is not a table'), ('TABLE ' || :'toast', format('"%s" is not a table', :'toast_name')),
    ('MATERIALIZED VIEW a', '"a" is not a materialized view')) x(kind, message);
SELECT fails('e', by_hand('enabled=true', 'TABLE pg_class'), '42501',
    'permission denied: "pg_class" is a system catalog',
    'PostgreSQL''s own VACUUM vacuums system catalogs.', 'label on a catalog');
SELECT fails('e', by_hand('enabled=true', 'TABLE nonesuch'), '42P01', 'relation "nonesuch" does not exist', '',
    'label on a table that does not exist');

-- what core refuses undoes what we did
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
-- a partitioned table has no storage parameters of core's; its words differ between releases
SELECT isnt((failure('e', statement)).state, NULL, statement)
FROM unnest(ARRAY['ALTER TABLE p SET (parvacuum.workers = 9, fillfactor = 90)',
    'CREATE TABLE no (x int) PARTITION BY LIST (x) WITH (parvacuum.workers = 9, fillfactor = 90)']) statement;

-- in a transaction that only reads
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

-- in a parallel worker
CREATE FUNCTION in_worker() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS
    'BEGIN ALTER TABLE t.a SET (parvacuum.workers = 9); RETURN 1; END';
SELECT dblink_exec('e', format('SET %s = on', in_workers())) \g /dev/null
SELECT fails('e', 'SELECT in_worker()', '25000', 'cannot execute ALTER TABLE during a parallel operation', '',
    'in a parallel worker');
SELECT dblink_exec('e', 'RESET ' || in_workers()) \g /dev/null

-- fractions are not rounded, least of all to 0
SELECT fails('e', format('ALTER TABLE a SET (parvacuum.%s = %L)', o.name, value), '22023',
    format('invalid value for parameter "parvacuum.%s": "%s"', o.name, value), o.hint, o.name || ' = ' || value)
FROM options o JOIN (VALUES ('workers', '2.5'), ('workers', '-0.4'), ('workers', '1024.4'), ('workers', 'NaN'),
    ('buffer_usage_limit', '100B'), ('buffer_usage_limit', '-0.4'), ('buffer_usage_limit', '128.5'),
    ('buffer_usage_limit', 'Infinity'), ('buffer_usage_limit', '2mb')) x(name, value) ON x.name = o.name;

-- in use, and locked
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
SELECT is((failure('e', 'ALTER TABLE a SET (parvacuum.workers = 3)')).message, NULL, 'writers do not block it');
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT dblink_disconnect('lock') \g /dev/null
SELECT dblink_exec('e', 'RESET lock_timeout') \g /dev/null

-- nothing of all this has left a trace
SELECT is(everything(), :'everything', 'all options are as they were');
SELECT is(tables(), :'tables', 'there is no table more');
SELECT dblink_exec('e', 'CREATE TABLE next (x int)') \g /dev/null
SELECT dblink_exec('e', 'CREATE TABLE next_as AS SELECT 1 AS x; CREATE MATERIALIZED VIEW next_mv AS SELECT 1 AS x') \g /dev/null
SELECT is(label(rel), NULL, 'a table created after a failure has no options: ' || rel)
FROM unnest(ARRAY['next', 'next_as', 'next_mv']) rel;

-- a block of PL/pgSQL that fails
DO $$
BEGIN
    ALTER TABLE a SET (parvacuum.workers = 9);
    CREATE TABLE no (x int) WITH (parvacuum.workers = 9, fillfactor = 1);
EXCEPTION WHEN invalid_parameter_value THEN
    CREATE TABLE next_in_do (x int);
END $$;
SELECT is(label('a'), 'enabled=true, workers=3', 'undone with its block');
SELECT is(label('next_in_do'), NULL, 'and not left for the next table');

-- what is accepted by hand
CREATE FUNCTION after(statement text, rel text DEFAULT 'a') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dblink_exec('e', statement);
    RETURN label(rel);
END $$;
SELECT is(after(by_hand(label)), label, format('label "%s" is accepted', label))
FROM unnest(ARRAY['enabled=false', 'workers=0', 'workers=1024', 'buffer_usage_limit=0',
    'buffer_usage_limit=128, enabled=true', 'buffer_usage_limit=16777216, enabled=true, workers=1',
    'window=""', 'window="never"', 'enabled=true, window="Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin", workers=1',
    NULL]) label;
SELECT is(after(by_hand('enabled=true', 'TABLE p'), 'p'), 'enabled=true', 'label on a partitioned table');
SELECT is(after(by_hand('enabled=true', 'MATERIALIZED VIEW mv'), 'mv'), 'enabled=true', 'label on a materialized view');
SELECT is(after(by_hand(NULL, 'MATERIALIZED VIEW mv'), 'mv'), NULL, 'and none');
SELECT is(after(by_hand(NULL, 'VIEW a_view'), 'a_view'), NULL, 'no label on a view');
SELECT is(after(by_hand('workers=2') || '; ALTER TABLE a SET (parvacuum.enabled)'), 'enabled=true, workers=2',
    'ALTER TABLE goes on from a label by hand');

-- a label that somebody wrote into the catalog
SELECT replace(conninfo('notices'), '=warning', '=notice') AS conninfo \gset
CREATE FUNCTION write(label text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM pg_seclabel WHERE provider = 'parvacuum' AND objoid = 'a'::regclass;
    INSERT INTO pg_seclabel VALUES ('a'::regclass, 'pg_class'::regclass, 0, 'parvacuum', label);
$$;
SET client_min_messages = error;
CREATE FUNCTION ignored(label text) RETURNS bool LANGUAGE sql AS $$
    SELECT write(label);
    SELECT (SELECT format('%s %s %s %s', enabled_from, workers_from, buffer_usage_limit_from, vacuum_window_from)
    FROM parvacuum_tables WHERE relid = 'a'::regclass) = 'default default default default'
$$;
SELECT ok(ignored(label), format('label "%s" is ignored', label))
FROM unnest(ARRAY['', 'enabled', 'enabled=maybe', 'workers=2, future=1', 'workers=9999', 'workers=1, workers=2',
    ',', 'window="25:00-26:00"', 'enabled=true, window="never', 'window="22:00-06:00 Europe/Nowhere"']) label;
SELECT write('workers=2, future=1') \g /dev/null
\set said `psql -XqAt -d :'conninfo' -v VERBOSITY=verbose -c 'SELECT count(workers) FROM parvacuum_table_options($$a$$)' 2>&1 | grep -v ^LOCATION`
SELECT is(:'said'::text, $$WARNING:  22023: ignoring the parvacuum options of table "a"
DETAIL:  Its security label cannot be read: "workers=2, future=1".
HINT:  Set the options again with ALTER TABLE.
0$$, 'with a warning');
SELECT is((failure('e', 'VACUUM a')).message, NULL, 'VACUUM goes on');
SELECT is(after('ALTER TABLE a SET (parvacuum.workers = 2)'), 'workers=2', 'ALTER TABLE SET makes it good');
SELECT write('nonsense') \g /dev/null
SELECT is(after('ALTER TABLE a RESET (parvacuum.workers)'), NULL, 'and so does RESET');
SET client_min_messages = warning;

-- rights
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_member LOGIN IN ROLE pv_owner;
CREATE ROLE pv_other LOGIN;
CREATE ROLE pv_outside LOGIN NOINHERIT IN ROLE pv_owner;
CREATE TABLE owned (x int PRIMARY KEY);
CREATE TABLE owned_p (x int) PARTITION BY LIST (x);
CREATE TABLE owned_p1 PARTITION OF owned_p FOR VALUES IN (1);
CREATE MATERIALIZED VIEW owned_mv AS SELECT 1 AS x;
ALTER TABLE owned OWNER TO pv_owner;
ALTER TABLE owned_p OWNER TO pv_owner;
ALTER MATERIALIZED VIEW owned_mv OWNER TO pv_owner;
CREATE TABLE anothers (x int) WITH (parvacuum.workers = 7);
GRANT ALL ON owned, owned_p1, owned_mv TO pv_other;

-- an attempt as that user, without a hint
CREATE FUNCTION attempt_as(who text, statement text) RETURNS text LANGUAGE sql AS $$
    SELECT split_part(attempt('SET SESSION AUTHORIZATION ' || who || '; SET lock_timeout = ''10s''', statement), ' / ', 1)
$$;
SELECT is(attempt_as(who, statement) || ', ' || coalesce(label(rel), 'nothing'), 'done, ' || label,
    who || ': ' || statement)
FROM (VALUES ('pv_owner', 'ALTER TABLE owned SET (parvacuum.enabled, parvacuum.workers = 2)', 'owned',
    'enabled=true, workers=2'),
    ('pv_member', 'ALTER TABLE owned RESET (parvacuum.enabled)', 'owned', 'workers=2'),
    ('pv_outside; SET ROLE pv_owner', 'ALTER TABLE owned SET (parvacuum.workers = 3, fillfactor = 80)', 'owned',
    'workers=3'),
    ('pv_member', by_hand('enabled=true', 'TABLE owned'), 'owned', 'enabled=true'),
    ('pv_owner', by_hand(NULL, 'TABLE owned'), 'owned', 'nothing'),
    ('pv_owner', 'ALTER TABLE owned_p SET (parvacuum.enabled)', 'owned_p', 'enabled=true'),
    ('pv_member', 'ALTER MATERIALIZED VIEW owned_mv SET (parvacuum.workers = 1)', 'owned_mv', 'workers=1'),
    ('pv_owner', 'CREATE TABLE made (x serial PRIMARY KEY) WITH (parvacuum.workers = 4)', 'made', 'workers=4'),
    ('pv_member', 'CREATE TABLE made_as WITH (parvacuum.workers = 5) AS SELECT * FROM owned', 'made_as', 'workers=5'),
    ('pv_other', 'CREATE TABLE made_like (LIKE owned INCLUDING ALL) WITH (parvacuum.enabled = off)', 'made_like',
    'enabled=false')) x(who, statement, rel, label);
SELECT is(attempt_as('pv_owner',
    'CREATE TEMP TABLE mine (x int) WITH (parvacuum.workers = 4); ALTER TABLE mine SET (parvacuum.enabled)'), 'done',
    'pv_owner: a temporary table');
SET ROLE pv_other;
CREATE TEMP TABLE read_by_other AS SELECT * FROM parvacuum_tables
    WHERE relid IN ('owned_p'::regclass, 'owned_p1'::regclass);
RESET ROLE;
SELECT set_eq('SELECT relid::text, enabled_from FROM read_by_other',
    $$VALUES ('owned_p', 'table'), ('owned_p1', 'ancestor')$$, 'everybody may read the options');

ALTER TABLE owned SET (parvacuum.workers = 6);
SELECT everything() \gset
SELECT is(attempt_as(who, statement), '42501: ' || message, who || ': ' || statement)
FROM (VALUES ('pv_other', 'ALTER TABLE owned SET (parvacuum.workers = 9)', 'must be owner of table owned'),
    ('pv_outside', 'ALTER TABLE owned SET (parvacuum.workers = 9)', 'must be owner of table owned'),
    ('pv_other', 'ALTER TABLE owned RESET (parvacuum.workers)', 'must be owner of table owned'),
    ('pv_other', 'ALTER TABLE IF EXISTS owned SET (parvacuum.workers = 9, fillfactor = 50)',
    'must be owner of table owned'),
    ('pv_owner', 'ALTER TABLE owned_p1 SET (parvacuum.workers = 9)', 'must be owner of table owned_p1'),
    ('pv_other', 'ALTER TABLE owned_p SET (parvacuum.workers = 9)', 'must be owner of table owned_p'),
    ('pv_other', 'ALTER MATERIALIZED VIEW owned_mv SET (parvacuum.workers = 9)',
    'must be owner of materialized view owned_mv'),
    ('pv_other', 'ALTER TABLE pg_class SET (parvacuum.workers = 9)', 'must be owner of table pg_class'),
    ('pv_other', 'ALTER TABLE a_view SET (parvacuum.workers = 9)', 'must be owner of view a_view'),
    ('pv_other', by_hand('workers=9', 'TABLE owned'), 'must be owner of table owned'),
    ('pv_other', by_hand(NULL, 'TABLE owned'), 'must be owner of table owned'),
    ('pv_outside', by_hand('workers=9', 'TABLE owned'), 'must be owner of table owned'),
    ('pv_other', 'CREATE TABLE no (LIKE anothers INCLUDING ALL)', 'permission denied for table anothers'),
    ('pv_other', 'CREATE TABLE pg_catalog.no (x int) WITH (parvacuum.workers = 9)',
    'permission denied for schema pg_catalog'),
    ('pv_other', 'CREATE TABLE no WITH (parvacuum.workers = 9) AS SELECT * FROM anothers',
    'permission denied for table anothers')) x(who, statement, message);
-- refused at once, and not when the lock is to be had
SELECT connect('lock') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE owned') \g /dev/null
SELECT is(attempt_as('pv_other', 'SET lock_timeout = ''50ms''; ALTER TABLE owned SET (parvacuum.workers = 9)'),
    '42501: must be owner of table owned', 'nobody waits for a lock that is not his to take');
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT dblink_disconnect('lock') \g /dev/null
SELECT is(everything(), :'everything', 'all options are as they were');
SELECT is(to_regclass('no'), NULL, 'and no table was made');

SELECT dblink_disconnect('e') \g /dev/null
SELECT * FROM finish();
SELECT forget_role(r) FROM unnest(ARRAY['pv_member', 'pv_outside', 'pv_owner', 'pv_other']) r \g /dev/null
DROP FOREIGN DATA WRAPPER pv_none CASCADE;
DROP SCHEMA t CASCADE;
