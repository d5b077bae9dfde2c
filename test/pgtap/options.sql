-- Each way to set and to reset the options of a table, what they come to, and
-- that they go where the table goes and nowhere else.
\ir common.psql

SELECT plan(325);

DROP SCHEMA IF EXISTS pv_hides, pv_made CASCADE;
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I RESET parvacuum.enabled', current_database());
    EXECUTE format('ALTER DATABASE %I RESET parvacuum."window"', current_database());
END $$;
SELECT connect('s') \g /dev/null

-- what a table says itself, as its label and as core's options; the table by name or OID
CREATE FUNCTION label(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT label FROM pg_seclabel
    WHERE provider = 'parvacuum' AND classoid = 'pg_class'::regclass AND objsubid = 0
        AND objoid = regclassin(rel::cstring)
$$;
CREATE FUNCTION reloptions(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = rel::regclass
$$;
-- what holds for it: enabled, workers, buffer_usage_limit, and where each comes from
CREATE FUNCTION holds(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s %s, %s %s, %s %s', enabled, enabled_from, coalesce(workers::text, '-'), workers_from,
        coalesce(buffer_usage_limit::text, '-'), buffer_usage_limit_from)
    FROM parvacuum_tables WHERE relid = rel::regclass
$$;
-- the window that holds, and where it comes from
CREATE FUNCTION holds_window(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s / %s', vacuum_window, vacuum_window_from) FROM parvacuum_tables WHERE relid = rel::regclass
$$;
-- the label after a statement at the top level of the session s
CREATE FUNCTION after(statement text, rel text DEFAULT 'a') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dblink_exec('s', statement);
    RETURN label(rel);
END $$;
CREATE FUNCTION locks_of_s(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(DISTINCT mode, ', ' ORDER BY mode) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE application_name = 's' AND relation = rel::regclass
$$;

-- ALTER TABLE
CREATE TABLE a (x int PRIMARY KEY, y text);
SELECT is(label('a'), NULL, 'a table has no options');
SELECT is(holds('a'), 'f default, - default, 16384 default', 'and the defaults hold');
SELECT is(after('ALTER TABLE a SET (parvacuum.enabled' || value || ')'), 'enabled=true', 'enabled' || value)
FROM unnest(ARRAY['', ' = true', ' = on', ' = 1', ' = yes', ' = ''yes''', ' = ''TRUE''', ' = ''On''', ' = t', ' = y',
    ' = "true"']) value;
SELECT is(after('ALTER TABLE a SET (parvacuum.enabled' || value || ')'), 'enabled=false', 'enabled' || value)
FROM unnest(ARRAY[' = false', ' = off', ' = 0', ' = no', ' = ''no''', ' = ''FALSE''', ' = ''Off''', ' = f', ' = n',
    ' = of']) value;
SELECT is(after('ALTER TABLE a RESET (parvacuum.enabled)'), NULL, 'RESET of the only option leaves no label');
SELECT is(after('ALTER TABLE a RESET (parvacuum.enabled)'), NULL, 'RESET of what is not set');
SELECT is(after('ALTER TABLE a SET (parvacuum.workers = ' || value || ')'), 'workers=' || label, 'workers = ' || value)
FROM (VALUES ('0', '0'), ('1', '1'), ('1024', '1024'), ('''7''', '7'), ('+3', '3'), ('007', '7')) x(value, label);
SELECT is(after('ALTER TABLE a RESET (parvacuum.workers)'), NULL, 'RESET of workers');
SELECT is(after('ALTER TABLE a SET (parvacuum.buffer_usage_limit = ' || value || ')'), 'buffer_usage_limit=' || label,
    'buffer_usage_limit = ' || value)
FROM (VALUES ('0', '0'), ('128', '128'), ('''128kB''', '128'), ('''2MB''', '2048'), ('''2 MB''', '2048'),
    ('''131072B''', '128'),
    ('16777216', '16777216'), ('''16GB''', '16777216'), ('''0MB''', '0')) x(value, label);
SELECT is(after('ALTER TABLE a RESET (parvacuum.buffer_usage_limit)'), NULL, 'RESET of buffer_usage_limit');

SELECT is(after(statement), label, statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 4, parvacuum.enabled, parvacuum.buffer_usage_limit = ''1MB'')',
    'buffer_usage_limit=1024, enabled=true, workers=4'),
    ('ALTER TABLE a RESET (parvacuum.enabled)', 'buffer_usage_limit=1024, workers=4'),
    ('ALTER TABLE a SET (parvacuum.workers = 5)', 'buffer_usage_limit=1024, workers=5'),
    ('ALTER TABLE a RESET (parvacuum.workers, parvacuum.enabled, parvacuum.buffer_usage_limit)', NULL),
    ('ALTER TABLE t.a SET (PARVACUUM.Workers = 6)', 'workers=6'),
    ('ALTER TABLE ONLY a SET ("parvacuum"."workers" = 7)', 'workers=7'),
    ('ALTER TABLE a * SET (parvacuum.workers = 8)', 'workers=8'),
    ('ALTER TABLE IF EXISTS a SET (parvacuum.workers = 9)', 'workers=9'),
    ('ALTER TABLE IF EXISTS a RESET (parvacuum.workers)', NULL)) x(statement, label);

-- windows: text, in quotes in the label, and in its normal form
SELECT is(holds_window('a'), ' / default', 'a table has no window');
SELECT is(after(format('ALTER TABLE a SET (parvacuum.window = %L)', value)), format('window="%s"', label), 'window = ' || value)
FROM (VALUES ('', ''), ('  ', ''), ('never', 'never'), ('Never ', 'never'), ('22:00-06:00', '22:00-06:00'),
    ('6:00 - 7:00', '06:00-07:00'), ('saturday-SUN 0:00-0:00', 'Sat-Sun 00:00-24:00'),
    ('Mon-Fri 22:00-06:00,Sat-Sun 00:00-24:00 europe/berlin', 'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin'),
    (repeat('Mon-Tue 01:00-02:00, ', 15) || '01:00-02:00', repeat('Mon-Tue 01:00-02:00, ', 15) || '01:00-02:00'))
    x(value, label);
SELECT is(after(statement), label, statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 2, parvacuum.window = ''Mon 01:00-02:00, 03:00-04:00 UTC'', parvacuum.enabled)',
    'enabled=true, window="Mon 01:00-02:00, 03:00-04:00 UTC", workers=2'),
    ('ALTER TABLE a SET (parvacuum.workers = 3)', 'enabled=true, window="Mon 01:00-02:00, 03:00-04:00 UTC", workers=3'),
    ('ALTER TABLE a SET (parvacuum.window = never), RESET (parvacuum.enabled)', 'window="never", workers=3'),
    ('ALTER TABLE a SET (parvacuum.window = "NEVER", fillfactor = 90)', 'window="never", workers=3'),
    ('ALTER TABLE a RESET (parvacuum.window, fillfactor)', 'workers=3'),
    ('ALTER TABLE a SET ("parvacuum"."window" = "01:00-02:00"), RESET (parvacuum.workers)', 'window="01:00-02:00"'))
    x(statement, label);
SELECT is(holds_window('a'), '01:00-02:00 / table', 'the window of the table');
SELECT is(after('ALTER TABLE a RESET (parvacuum.window)'), NULL, 'RESET of window');

-- mixed with core's options
SELECT is(format('%s | %s', after(statement), reloptions('a')), result, statement)
FROM (VALUES ('ALTER TABLE a SET (fillfactor = 90, parvacuum.workers = 2, autovacuum_enabled = off)',
    'workers=2 | fillfactor=90, autovacuum_enabled=off'),
    ('ALTER TABLE a SET (parvacuum.enabled, toast.autovacuum_enabled = off)',
    'enabled=true, workers=2 | fillfactor=90, autovacuum_enabled=off'),
    ('ALTER TABLE a RESET (fillfactor, parvacuum.enabled)', 'workers=2 | autovacuum_enabled=off'),
    ('ALTER TABLE a SET (fillfactor = 80)', 'workers=2 | autovacuum_enabled=off, fillfactor=80'),
    ('ALTER TABLE a SET (parvacuum.workers = 3)', 'workers=3 | autovacuum_enabled=off, fillfactor=80'),
    ('ALTER TABLE a RESET (parvacuum.workers, autovacuum_enabled, fillfactor)', ' | ')) x(statement, result);
SELECT is(reloptions((SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'a'::regclass)),
    'autovacuum_enabled=off', 'the option for the TOAST table went there');

-- several subcommands
SELECT is(after('ALTER TABLE a SET (parvacuum.workers = 1), ADD COLUMN z int, RESET (parvacuum.enabled), SET (fillfactor = 70)'),
    'workers=1', 'SET, ADD COLUMN, RESET, SET of core');
SELECT is(reloptions('a'), 'fillfactor=70', 'core''s option is set');
SELECT has_column('t', 'a', 'z', 'the column is there');
SELECT is(after(statement), label, statement)
FROM (VALUES ('ALTER TABLE a SET (parvacuum.workers = 2), SET (parvacuum.workers = 3, parvacuum.enabled)',
    'enabled=true, workers=3'),
    ('ALTER TABLE a SET (parvacuum.workers = 4), RESET (parvacuum.workers)', 'enabled=true'),
    ('ALTER TABLE a RESET (parvacuum.enabled), SET (parvacuum.enabled = off, fillfactor = 60), DROP COLUMN z',
    'enabled=false'),
    ('ALTER TABLE a RESET (parvacuum.enabled, fillfactor), ALTER COLUMN x SET STATISTICS 10', NULL))
    x(statement, label);
SELECT is(reloptions('a'), NULL, 'core''s option is reset');
SELECT hasnt_column('t', 'a', 'z', 'the column is gone');

-- locks: no more than core would take, and that at once
SELECT dblink_exec('s', 'BEGIN; ALTER TABLE a SET (parvacuum.workers = 1)') \g /dev/null
SELECT is(locks_of_s('a'), 'ShareUpdateExclusiveLock', 'the lock of SET');
SELECT is(label('a'), NULL, 'nobody else sees it before commit');
SELECT dblink_exec('s', 'ROLLBACK; BEGIN; ALTER TABLE a RESET (parvacuum.workers, fillfactor), SET (autovacuum_enabled = on)') \g /dev/null
SELECT is(locks_of_s('a'), 'ShareUpdateExclusiveLock', 'the lock of RESET and SET, mixed');
SELECT dblink_exec('s', 'ROLLBACK; BEGIN; ALTER TABLE a SET (parvacuum.workers = 1), ADD COLUMN z int') \g /dev/null
SELECT is(locks_of_s('a'), 'AccessExclusiveLock', 'the lock of SET and ADD COLUMN');
SELECT dblink_exec('s', 'ROLLBACK; BEGIN; CREATE TABLE alike (LIKE a INCLUDING ALL)') \g /dev/null
SELECT is(locks_of_s('a'), 'AccessShareLock', 'the lock of LIKE');
SELECT dblink_exec('s', 'ROLLBACK') \g /dev/null

-- two sessions change one table
SELECT connect('other') \g /dev/null
SELECT dblink_exec('s', 'BEGIN; ALTER TABLE a SET (parvacuum.workers = 2)') \g /dev/null
SELECT dblink_send_query('other', 'ALTER TABLE a SET (parvacuum.enabled)') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'other' AND wait_event_type = 'Lock')$$),
    'the second waits for the first');
SELECT dblink_exec('s', 'COMMIT') \g /dev/null
SELECT result('other') \g /dev/null
SELECT is(label('a'), 'enabled=true, workers=2', 'and changes what the first has left');
SELECT dblink_disconnect('other') \g /dev/null

-- transactions
ALTER TABLE a RESET (parvacuum.enabled), SET (parvacuum.workers = 1);
BEGIN;
ALTER TABLE a SET (parvacuum.workers = 2, fillfactor = 50);
SELECT is(label('a'), 'workers=2', 'seen in the transaction');
CREATE TABLE undone (x int) WITH (parvacuum.enabled);
SELECT is(label('undone'), 'enabled=true', 'a new table, too');
SELECT 'undone'::regclass::oid AS undone \gset
ROLLBACK;
SELECT is(format('%s | %s', label('a'), reloptions('a')), 'workers=1 | ', 'rolled back');
SELECT is((SELECT count(*) FROM pg_seclabel WHERE objoid = :undone), 0::bigint, 'the new table''s, too');
BEGIN;
ALTER TABLE a SET (parvacuum.enabled);
SAVEPOINT one;
ALTER TABLE a SET (parvacuum.workers = 3), RESET (parvacuum.enabled);
SELECT is(label('a'), 'workers=3', 'seen in the savepoint');
ROLLBACK TO one;
SELECT is(label('a'), 'enabled=true, workers=1', 'the savepoint rolled back');
ALTER TABLE a SET (parvacuum.buffer_usage_limit = 256);
ALTER TABLE a SET (parvacuum.buffer_usage_limit = 512);
COMMIT;
SELECT is(label('a'), 'buffer_usage_limit=512, enabled=true, workers=1', 'the rest committed');

-- IF EXISTS
SELECT replace(conninfo('notices'), '=warning', '=notice') AS conninfo \gset
\set said `psql -XqAt -d :'conninfo' -c 'ALTER TABLE IF EXISTS nonesuch SET (parvacuum.workers = 1), ADD COLUMN x int' 2>&1`
SELECT is(:'said'::text, 'NOTICE:  relation "nonesuch" does not exist, skipping', 'IF EXISTS of a table that does not');

-- materialized views
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS x;
SELECT is(after(statement, 'mv'), label, statement)
FROM (VALUES ('ALTER MATERIALIZED VIEW mv SET (parvacuum.enabled, fillfactor = 60)', 'enabled=true'),
    ('ALTER TABLE mv SET (parvacuum.workers = 2)', 'enabled=true, workers=2'),
    ('ALTER MATERIALIZED VIEW IF EXISTS mv RESET (parvacuum.enabled)', 'workers=2'),
    ('REFRESH MATERIALIZED VIEW mv', 'workers=2'),
    ('CREATE UNIQUE INDEX ON mv (x); REFRESH MATERIALIZED VIEW CONCURRENTLY mv', 'workers=2')) x(statement, label);
SELECT is(reloptions('mv'), 'fillfactor=60', 'a materialized view: core''s option');
SELECT is(holds('mv'), 'f default, 2 table, 16384 default', 'a materialized view in parvacuum_tables');

-- partitions: each option comes from the nearest that says it
CREATE TABLE p (x int, y int) PARTITION BY LIST (x);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY LIST (y);
CREATE TABLE p21 PARTITION OF p2 FOR VALUES IN (1);
CREATE TABLE p22 PARTITION OF p2 FOR VALUES IN (2) WITH (parvacuum.buffer_usage_limit = 128, fillfactor = 50);
CREATE TABLE p3 (x int, y int) WITH (parvacuum.workers = 3);
ALTER TABLE p SET (parvacuum.enabled, parvacuum.workers = 1);
SELECT is(label(rel), label, rel || ' says itself')
FROM (VALUES ('p', 'enabled=true, workers=1'), ('p1', NULL), ('p2', NULL), ('p21', NULL),
    ('p22', 'buffer_usage_limit=128')) x(rel, label);
SELECT is(reloptions('p22'), 'fillfactor=50', 'core''s option of a partition');
SELECT is(holds(rel), options, rel)
FROM (VALUES ('p', 't table, 1 table, 16384 default'), ('p1', 't ancestor, 1 ancestor, 16384 default'),
    ('p2', 't ancestor, 1 ancestor, 16384 default'),
    ('p21', 't ancestor, 1 ancestor, 16384 default'), ('p22', 't ancestor, 1 ancestor, 128 table')) x(rel, options);
ALTER TABLE p SET (parvacuum.buffer_usage_limit = 1024);
ALTER TABLE p2 SET (parvacuum.workers = 2);
ALTER TABLE p21 SET (parvacuum.enabled = off);
SELECT is(holds(rel), options, rel || ', with more said on each level')
FROM (VALUES ('p1', 't ancestor, 1 ancestor, 1024 ancestor'), ('p2', 't ancestor, 2 table, 1024 ancestor'),
    ('p21', 'f table, 2 ancestor, 1024 ancestor'), ('p22', 't ancestor, 2 ancestor, 128 table')) x(rel, options);
ALTER TABLE p2 RESET (parvacuum.workers), SET (parvacuum.enabled = off);
ALTER TABLE p21 RESET (parvacuum.enabled);
SELECT is(holds(rel), options, rel || ', with some reset')
FROM (VALUES ('p2', 'f table, 1 ancestor, 1024 ancestor'), ('p21', 'f ancestor, 1 ancestor, 1024 ancestor'))
    x(rel, options);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES IN (3);
SELECT is(holds('p3'), 't ancestor, 3 table, 1024 ancestor', 'attached');
SELECT is(label('p3'), 'workers=3', 'attaching changes no label');
ALTER TABLE p DETACH PARTITION p3;
SELECT is(holds('p3'), 'f default, 3 table, 16384 default', 'detached');
ALTER TABLE p DETACH PARTITION p2;
SELECT is(holds('p21'), 'f ancestor, - default, 16384 default', 'its ancestor detached');
SELECT dblink_exec('s', 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY') \g /dev/null
SELECT is(holds('p1'), 'f default, - default, 16384 default', 'detached concurrently');
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
SELECT is(holds('p21'), 'f ancestor, 1 ancestor, 1024 ancestor', 'its ancestor attached again');
CREATE TABLE p4 PARTITION OF p FOR VALUES IN (4) WITH (parvacuum.workers = 4);
SELECT is(holds('p4'), 't ancestor, 4 table, 1024 ancestor', 'a new partition');
CREATE TABLE p5 PARTITION OF p DEFAULT PARTITION BY LIST (y) WITH (parvacuum.workers = 5);
SELECT is(holds('p5'), 't ancestor, 5 table, 1024 ancestor', 'a new partition that has partitions');
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'p'::regclass), NULL,
    'a partitioned table is not declined');

-- their windows
CREATE FUNCTION windows() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(rel || ': ' || holds_window(rel), ', ') FROM unnest(ARRAY['p', 'p4', 'p2', 'p21']) rel
$$;
ALTER TABLE p SET (parvacuum.window = '22:00-06:00');
SELECT is(windows(), 'p: 22:00-06:00 / table, p4: 22:00-06:00 / ancestor, p2: 22:00-06:00 / ancestor, p21: 22:00-06:00 / ancestor',
    'the window of an ancestor');
ALTER TABLE p2 SET (parvacuum.window = 'Sat 10:00-12:00 Asia/Tokyo');
ALTER TABLE p4 SET (parvacuum.window = '');
SELECT is(windows(),
    'p: 22:00-06:00 / table, p4:  / table, p2: Sat 10:00-12:00 Asia/Tokyo / table, p21: Sat 10:00-12:00 Asia/Tokyo / ancestor',
    'of the nearest, also if that says always');
SET parvacuum."window" = 'never';
ALTER TABLE p RESET (parvacuum.window);
ALTER TABLE p4 RESET (parvacuum.window);
SELECT is(windows(),
    'p: never / session, p4: never / session, p2: Sat 10:00-12:00 Asia/Tokyo / table, p21: Sat 10:00-12:00 Asia/Tokyo / ancestor',
    'and the setting''s where no table says anything');
RESET parvacuum."window";
ALTER TABLE p2 RESET (parvacuum.window);

-- ordinary inheritance
CREATE TABLE parent (x int) WITH (parvacuum.enabled, parvacuum.workers = 2);
CREATE TABLE child () INHERITS (parent);
SELECT is(holds('child'), 'f default, - default, 16384 default', 'a child inherits nothing');
ALTER TABLE parent SET (parvacuum.buffer_usage_limit = 128);
SELECT is(label('child'), NULL, 'also from ALTER TABLE');

-- CREATE TABLE
CREATE TABLE c1 (x int) WITH (parvacuum.enabled);
CREATE TABLE c2 (x int) WITH (parvacuum.workers = 2, fillfactor = 80, parvacuum.enabled = off,
    parvacuum.buffer_usage_limit = '2MB');
CREATE TABLE IF NOT EXISTS c3 (x int) WITH (parvacuum.workers = 3);
CREATE UNLOGGED TABLE c4 (x int) WITH (parvacuum.workers = 4);
CREATE TABLE c5 (x serial PRIMARY KEY, y text UNIQUE, z bigint GENERATED ALWAYS AS IDENTITY, CHECK (x > 0))
    WITH (parvacuum.workers = 55, toast.autovacuum_enabled = off);
CREATE TYPE row_type AS (x int, y text);
CREATE TABLE c6 OF row_type WITH (parvacuum.workers = 6);
CREATE TABLE c7 (x int) PARTITION BY LIST (x) WITH (parvacuum.workers = 7);
CREATE TABLE c8 () INHERITS (parent) WITH (parvacuum.workers = 8);
CREATE TABLE c9 (x int REFERENCES c5) WITH (parvacuum.workers = 9);
CREATE TABLE c10 (x int) WITH (fillfactor = 80);
CREATE TABLE c12 (x int) WITH (parvacuum.window = 'monday 1:00-2:00, 3:00-4:00', fillfactor = 80);
SELECT is(format('%s | %s', label(rel), reloptions(rel)), options, rel)
FROM (VALUES ('c1', 'enabled=true | '), ('c2', 'buffer_usage_limit=2048, enabled=false, workers=2 | fillfactor=80'),
    ('c3', 'workers=3 | '), ('c4', 'workers=4 | '),
    ('c5', 'workers=55 | '), ('c6', 'workers=6 | '), ('c7', 'workers=7 | '), ('c8', 'workers=8 | '),
    ('c9', 'workers=9 | '), ('c10', ' | fillfactor=80'),
    ('c12', 'window="Mon 01:00-02:00, 03:00-04:00" | fillfactor=80')) x(rel, options);
SELECT is((SELECT relpersistence FROM pg_class WHERE oid = 'c4'::regclass), 'u', 'an unlogged table is unlogged');
SELECT is(array_agg(objoid::regclass::text ORDER BY objoid::regclass::text), ARRAY['c5'],
    'the table gets the label; not its sequences, indexes or TOAST table')
FROM pg_seclabel WHERE provider = 'parvacuum' AND label = 'workers=55';
CREATE TABLE IF NOT EXISTS c1 (x int) WITH (parvacuum.workers = 9);
CREATE TABLE IF NOT EXISTS c10 (x int) WITH (parvacuum.workers = 9);
SELECT is(label('c1'), 'enabled=true', 'IF NOT EXISTS leaves the options of the table there is');
SELECT is(label('c10'), NULL, 'or leaves it without');
CREATE TABLE c11 (x int);
SELECT is(label('c11'), NULL, 'and the next table does not get them');

-- what core is to do all the same
CREATE TEMP TABLE temporary (x int) WITH (parvacuum.enabled, parvacuum.workers = 2);
SELECT is(holds('temporary'), 't table, 2 table, 16384 default', 'a temporary table');
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'temporary'::regclass), 'The table is temporary.',
    'is declined');
ALTER TABLE temporary RESET (parvacuum.enabled);
SELECT is(holds('temporary'), 'f default, 2 table, 16384 default', 'ALTER of a temporary table');
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'temporary'::regclass), NULL,
    'nothing is declined that is not wanted');
DROP ACCESS METHOD IF EXISTS pv_heap;
CREATE ACCESS METHOD pv_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE of_method (x int) USING pv_heap WITH (parvacuum.enabled);
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'of_method'::regclass),
    'The table does not use the access method heap.', 'another access method is declined');
DROP TABLE of_method;
DROP ACCESS METHOD pv_heap;
BEGIN;
CREATE TEMP TABLE short (x int) WITH (parvacuum.enabled) ON COMMIT DROP;
SELECT 'short'::regclass::oid AS short \gset
SELECT is(label('short'), 'enabled=true', 'a temporary table that COMMIT drops');
COMMIT;
SELECT is((SELECT count(*) FROM pg_seclabel WHERE objoid = :short), 0::bigint, 'and its label');

-- CREATE TABLE AS
PREPARE q AS SELECT 1 AS x;
CREATE TABLE as1 WITH (parvacuum.workers = 1) AS SELECT 1 AS x;
CREATE TABLE as2 WITH (parvacuum.workers = 2, fillfactor = 80) AS SELECT g AS x, g::text
FROM generate_series(1, 10) g WITH NO DATA;
CREATE TABLE as3 WITH (parvacuum.workers = 3) AS EXECUTE q;
CREATE TABLE as4 WITH (parvacuum.workers = 4) AS TABLE as1;
CREATE TABLE as5 WITH (parvacuum.workers = 5) AS VALUES (1), (2);
CREATE TABLE IF NOT EXISTS as6 WITH (parvacuum.workers = 6) AS SELECT 1 AS x;
CREATE UNLOGGED TABLE as7 WITH (parvacuum.workers = 7) AS SELECT 1 AS x;
CREATE TEMP TABLE as8 WITH (parvacuum.workers = 8) AS SELECT 1 AS x;
EXPLAIN (ANALYZE, COSTS OFF) CREATE TABLE as9 WITH (parvacuum.workers = 9) AS SELECT 1 AS x \g /dev/null
EXPLAIN ANALYZE CREATE TABLE as10 WITH (parvacuum.workers = 10) AS EXECUTE q \g /dev/null
CREATE MATERIALIZED VIEW as11 WITH (parvacuum.workers = 11, fillfactor = 80) AS SELECT 1 AS x;
CREATE MATERIALIZED VIEW IF NOT EXISTS as12 WITH (parvacuum.workers = 12) AS SELECT 1 AS x WITH NO DATA;
EXPLAIN ANALYZE CREATE MATERIALIZED VIEW as13 WITH (parvacuum.workers = 13) AS SELECT 1 AS x \g /dev/null
SELECT is(label('as' || n), 'workers=' || n, 'CREATE TABLE AS: as' || n) FROM generate_series(1, 13) n;
SELECT is(reloptions(rel), 'fillfactor=80', rel || ': core''s option') FROM unnest(ARRAY['as2', 'as11']) rel;
SELECT is((SELECT count(*) FROM as1), 1::bigint, 'CREATE TABLE AS: the data');
SELECT is((SELECT count(*) FROM as2), 0::bigint, 'CREATE TABLE AS: no data');
CREATE TABLE IF NOT EXISTS as1 WITH (parvacuum.workers = 9) AS SELECT 1 AS x;
EXPLAIN ANALYZE CREATE TABLE IF NOT EXISTS as2 WITH (parvacuum.workers = 9) AS SELECT 1 AS x \g /dev/null
CREATE MATERIALIZED VIEW IF NOT EXISTS as11 WITH (parvacuum.workers = 9) AS SELECT 1 AS x;
SELECT is(label('as' || n), 'workers=' || n, 'IF NOT EXISTS leaves those of as' || n) FROM unnest(ARRAY[1, 2, 11]) n;
EXPLAIN CREATE TABLE planned WITH (parvacuum.workers = 9) AS SELECT 1 AS x \g /dev/null
SELECT is(to_regclass('planned'), NULL, 'EXPLAIN creates nothing');
CREATE TABLE plain AS SELECT 1 AS x;
SELECT * INTO plain_into FROM plain;
SELECT is(label(rel), NULL, 'the next table does not get them: ' || rel) FROM unnest(ARRAY['plain', 'plain_into']) rel;

-- statements within the statement
CREATE FUNCTION creates(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE t.inner%s (x serial PRIMARY KEY)', n);
    EXECUTE format('CREATE TABLE t.inner_as%s AS SELECT 1 AS x', n);
    EXECUTE format('CREATE MATERIALIZED VIEW t.inner_mv%s AS SELECT 1 AS x', n);
    EXECUTE format('REFRESH MATERIALIZED VIEW t.inner_mv%s', n);
    EXECUTE format('CREATE TABLE t.inner_own%s (x int) WITH (parvacuum.workers = 100)', n);
    BEGIN
        EXECUTE format('CREATE TABLE t.inner_bad%s (x int) WITH (parvacuum.workers = 100, fillfactor = 1)', n);
    EXCEPTION WHEN invalid_parameter_value THEN
        NULL;
    END;
    RETURN n;
END $$;
-- called when the query is planned, before the table is there
CREATE FUNCTION creates_early(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN t.creates(n); END';
CREATE TABLE outer1 WITH (parvacuum.workers = 1) AS SELECT creates(1);
CREATE TABLE outer2 WITH (parvacuum.workers = 2) AS SELECT creates_early(2);
CREATE MATERIALIZED VIEW outer3 WITH (parvacuum.workers = 3) AS SELECT creates_early(3);
EXPLAIN ANALYZE CREATE TABLE outer4 WITH (parvacuum.workers = 4) AS SELECT creates_early(4) \g /dev/null
EXPLAIN CREATE TABLE outer5 WITH (parvacuum.workers = 5) AS SELECT creates_early(5) \g /dev/null
SELECT is(label('outer' || n), 'workers=' || n, 'a table of a query that creates others: ' || n)
FROM generate_series(1, 4) n;
CREATE FUNCTION created(n int) RETURNS text[] LANGUAGE sql AS $$
    SELECT array_agg(format('%s %s', relname, label(relname)) ORDER BY relname) FROM pg_class
    WHERE relnamespace = 't'::regnamespace AND relkind IN ('r', 'm') AND relname ~ format('^inner.*%s$', n)
$$;
SELECT is(created(n), ARRAY[format('inner%s ', n), format('inner_as%s ', n), format('inner_mv%s ', n),
    format('inner_own%s workers=100', n)], 'and the others: ' || n)
FROM generate_series(1, 5) n;

-- CREATE SCHEMA
CREATE SCHEMA pv_made
    CREATE TABLE without (x int)
    CREATE TABLE with_some (x serial PRIMARY KEY) WITH (parvacuum.workers = 3)
    CREATE VIEW v AS SELECT * FROM with_some
    CREATE TABLE without_either (x int);
SELECT is(label('pv_made.' || rel), label, 'CREATE SCHEMA: ' || rel)
FROM (VALUES ('without', NULL), ('with_some', 'workers=3'), ('v', NULL), ('without_either', NULL)) x(rel, label);

-- LIKE
CREATE TABLE src (x int PRIMARY KEY, y text) WITH (parvacuum.enabled, parvacuum.workers = 4, fillfactor = 70);
CREATE TABLE src2 (z int) WITH (parvacuum.buffer_usage_limit = 256);
CREATE VIEW a_view AS SELECT 1 AS x;
CREATE TYPE src3 AS (z int);
CREATE TABLE l1 (LIKE src INCLUDING ALL);
CREATE TABLE l2 (LIKE src INCLUDING ALL) WITH (parvacuum.workers = 1, fillfactor = 60);
CREATE TABLE l3 (LIKE src INCLUDING ALL, LIKE src2 INCLUDING ALL);
CREATE TABLE l4 (LIKE src, LIKE src2 INCLUDING ALL);
CREATE TABLE l5 (w int, LIKE t.src INCLUDING ALL) PARTITION BY LIST (x);
CREATE TEMP TABLE l6 (LIKE src INCLUDING ALL);
CREATE TABLE l7 (LIKE src);
CREATE TABLE l8 (LIKE src INCLUDING ALL EXCLUDING COMMENTS);
CREATE TABLE l9 (LIKE src INCLUDING ALL EXCLUDING ALL);
CREATE TABLE l10 (LIKE src INCLUDING STORAGE INCLUDING INDEXES INCLUDING DEFAULTS) WITH (parvacuum.workers = 1);
CREATE TABLE l11 (LIKE p4 INCLUDING ALL);
CREATE TABLE l12 (LIKE p21 INCLUDING ALL);
CREATE TABLE l13 (LIKE p INCLUDING ALL);
CREATE TABLE l14 (LIKE mv INCLUDING ALL);
CREATE TABLE l15 (LIKE a_view INCLUDING ALL, LIKE src3 INCLUDING ALL);
CREATE TABLE l16 (LIKE c10 INCLUDING ALL);
CREATE TABLE l17 (LIKE c12 INCLUDING ALL) WITH (parvacuum.workers = 1);
SELECT is(label('l' || n), label, 'LIKE: l' || n)
FROM (VALUES (1, 'enabled=true, workers=4'), (2, 'enabled=true, workers=1'),
    (3, 'buffer_usage_limit=256, enabled=true, workers=4'), (4, 'buffer_usage_limit=256'),
    (5, 'enabled=true, workers=4'), (6, 'enabled=true, workers=4'), (7, NULL), (8, NULL), (9, NULL), (10, 'workers=1'),
    (11, 'workers=4'), (12, NULL),
    (13, 'buffer_usage_limit=1024, enabled=true, workers=1'), (14, 'workers=2'), (15, NULL), (16, NULL),
    (17, 'window="Mon 01:00-02:00, 03:00-04:00", workers=1')) x(n, label);
SELECT is(reloptions('l2'), 'fillfactor=60', 'LIKE: core''s option');
CREATE TABLE IF NOT EXISTS l7 (LIKE src INCLUDING ALL);
SELECT is(label('l7'), NULL, 'LIKE: IF NOT EXISTS leaves the table there is');
ALTER TABLE src RESET (parvacuum.workers);
SELECT is(label('l1'), 'enabled=true, workers=4', 'LIKE is a copy');
CREATE SCHEMA pv_hides CREATE TABLE l (LIKE t.src INCLUDING ALL);
SELECT is(label('pv_hides.l'), 'enabled=true', 'LIKE in CREATE SCHEMA');

-- functions: the second time with a plan from the cache
CREATE TABLE f (x int);
CREATE FUNCTION in_plpgsql() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r text;
BEGIN
    ALTER TABLE f SET (parvacuum.workers = 1, fillfactor = 90), SET (parvacuum.enabled);
    r := label('f');
    ALTER TABLE f RESET (parvacuum.enabled, fillfactor);
    CREATE TABLE f_made (LIKE src INCLUDING ALL) WITH (parvacuum.workers = 2, fillfactor = 90);
    CREATE TABLE f_made_as WITH (parvacuum.workers = 3) AS SELECT 1 AS x;
    r := concat_ws(' | ', r, label('f'), label('f_made'), reloptions('f_made'), label('f_made_as'));
    DROP TABLE f_made, f_made_as;
    ALTER TABLE f RESET (parvacuum.workers);
    RETURN r;
END $$;
SELECT is(in_plpgsql(), 'enabled=true, workers=1 | workers=1 | enabled=true, workers=2 | fillfactor=90 | workers=3',
    'in PL/pgSQL, call ' || n)
FROM generate_series(1, 3) n;
SELECT is(format('%s | %s', label('f'), reloptions('f')), ' | ', 'and nothing is left');
CREATE FUNCTION in_sql() RETURNS void LANGUAGE sql AS 'ALTER TABLE f SET (parvacuum.workers = 4, fillfactor = 80)';
SELECT in_sql() FROM generate_series(1, 2) \g /dev/null
SELECT is(format('%s | %s', label('f'), reloptions('f')), 'workers=4 | fillfactor=80', 'in SQL');
DO $$
BEGIN
    FOR i IN 5..6 LOOP
        EXECUTE format('ALTER TABLE f SET (parvacuum.workers = %s)', i);
        ALTER TABLE f SET (parvacuum.enabled), RESET (fillfactor);
        BEGIN
            ALTER TABLE f SET (parvacuum.workers = 7, parvacuum.enabled = off);
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT is(format('%s | %s', label('f'), reloptions('f')), 'enabled=true, workers=6 | ', 'in DO');
CREATE PROCEDURE in_procedure() LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE f SET (parvacuum.workers = 8);
    COMMIT;
    ALTER TABLE f SET (parvacuum.workers = 9);
    ROLLBACK;
END $$;
CALL in_procedure();
CALL in_procedure();
SELECT is(label('f'), 'enabled=true, workers=8', 'in a procedure that commits');

-- the label stays with the table
CREATE TABLE moved (x int PRIMARY KEY, y text) WITH (parvacuum.enabled, parvacuum.workers = 3);
INSERT INTO moved VALUES (1, '1');
SELECT 'moved'::regclass::oid AS moved \gset
SELECT is(after(statement, :'moved'), 'enabled=true, workers=3', statement)
FROM unnest(ARRAY['TRUNCATE moved', 'CLUSTER moved USING moved_pkey', 'VACUUM FULL moved', 'VACUUM moved',
    'REINDEX TABLE moved',
    'ALTER TABLE moved ALTER COLUMN x TYPE bigint, ALTER COLUMN y TYPE int USING y::int',
    'ALTER TABLE moved SET UNLOGGED', 'ALTER TABLE moved SET LOGGED',
    'ALTER TABLE moved ADD COLUMN z float DEFAULT random()', 'ALTER TABLE moved DROP CONSTRAINT moved_pkey',
    'ALTER TABLE moved RENAME TO moved2',
    'ALTER TABLE moved2 SET SCHEMA pv_made', 'ALTER SCHEMA pv_made RENAME TO pv_made2',
    'ALTER SCHEMA pv_made2 RENAME TO pv_made',
    'ALTER TABLE pv_made.moved2 SET (fillfactor = 50)']) statement;
SELECT is(after('ALTER TABLE pv_made.moved2 SET (parvacuum.workers = 5)', :'moved'), 'enabled=true, workers=5',
    'under its new name');
DROP TABLE pv_made.moved2;
SELECT is((SELECT count(*) FROM pg_seclabel WHERE objoid = :moved), 0::bigint, 'DROP TABLE');
SELECT is((SELECT count(*) FROM parvacuum_tables WHERE relid = :moved), 0::bigint, 'DROP TABLE: parvacuum_tables');

-- names
CREATE SCHEMA "pv_hides; ""Too""" CREATE TABLE "A table's ""name"", so = {1}" (x int) WITH (parvacuum.workers = 1);
SELECT '"pv_hides; ""Too"""."A table''s ""name"", so = {1}"'::regclass::oid AS odd \gset
SELECT is(label(:'odd'), 'workers=1', 'a name with everything in it');
SELECT is(after('ALTER TABLE "pv_hides; ""Too"""."A table''s ""name"", so = {1}" SET (parvacuum.enabled, fillfactor = 90)', :'odd'),
    'enabled=true, workers=1', 'ALTER under that name');
SELECT dblink_exec('s', 'SET search_path = "pv_hides; ""Too""", t, public') \g /dev/null
SELECT is(after('ALTER TABLE "A table''s ""name"", so = {1}" RESET (parvacuum.workers)', :'odd'),
    'enabled=true', 'found by search_path');
SELECT dblink_exec('s', 'SET search_path = t, public') \g /dev/null
DROP SCHEMA "pv_hides; ""Too""" CASCADE;

-- a table that hides another
CREATE TABLE twin (x int);
CREATE TABLE pv_hides.twin (x int);
SET search_path = pv_hides, t, public;
ALTER TABLE twin SET (parvacuum.workers = 1), SET (fillfactor = 90);
ALTER TABLE t.twin SET (parvacuum.workers = 2, fillfactor = 80);
CREATE TEMP TABLE twin (x int) WITH (parvacuum.workers = 3);
ALTER TABLE twin SET (parvacuum.enabled, fillfactor = 70);
SET search_path = t, pv_hides, pg_temp, public;
ALTER TABLE twin SET (parvacuum.buffer_usage_limit = 0);
CREATE TABLE pv_hides.f (x int) WITH (parvacuum.workers = 9);
SET search_path = t, public;
SELECT is(format('%s | %s', label(rel), reloptions(rel)), options, rel)
FROM (VALUES ('pv_hides.twin', 'workers=1 | fillfactor=90'),
    ('t.twin', 'buffer_usage_limit=0, workers=2 | fillfactor=80'),
    ('pg_temp.twin', 'enabled=true, workers=3 | fillfactor=70'), ('t.f', 'enabled=true, workers=8 | '),
    ('pv_hides.f', 'workers=9 | ')) x(rel, options);

-- parvacuum_tables, and what it does not show
CREATE SEQUENCE a_sequence;
SELECT set_eq($$SELECT relid::text FROM parvacuum_tables
    WHERE relid::text IN ('a', 'mv', 'p', 'p1', 'a_view', 'a_sequence', 'a_pkey', 'row_type', 'temporary', 'pg_class')$$,
    ARRAY['a', 'mv', 'p', 'p1', 'temporary'], 'parvacuum_tables has tables, partitioned tables and materialized views');
SELECT is((SELECT count(*) FROM parvacuum_tables JOIN pg_class c ON c.oid = relid
    WHERE relkind NOT IN ('r', 'p', 'm') OR relnamespace IN (11, 99)), 0::bigint, 'and no others');
SELECT ok((SELECT o IS NULL FROM parvacuum_table_options(regclassin(rel::cstring)) o),
    'parvacuum_table_options(): nulls for ' || rel)
FROM unnest(ARRAY['a_view', 'a_sequence', 'a_pkey', 'row_type', '0']) rel;
SELECT is(o::text, '(16384,setting,f,setting,"",setting,,default,)', 'parvacuum_table_options() of a catalog')
FROM parvacuum_table_options('pg_class') o;

-- the setting, where no table says anything
SELECT is(holds('t.twin'), 'f default, 2 table, 0 table', 'enabled by default: no');
SET parvacuum.enabled = on;
SELECT is(holds(rel), options, 'SET: ' || rel)
FROM (VALUES ('t.twin', 't session, 2 table, 0 table'), ('plain', 't session, - default, 16384 default'),
    ('c1', 't table, - default, 16384 default'),
    ('c2', 'f table, 2 table, 2048 table'), ('p4', 't ancestor, 4 table, 1024 ancestor'),
    ('p21', 'f ancestor, 1 ancestor, 1024 ancestor')) x(rel, options);
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'temporary'::regclass), 'The table is temporary.',
    'a temporary table is wanted now, and declined');
SELECT is(o.declined, 'The table is a system catalog.', 'and so is a catalog')
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
SELECT is(holds('plain'), 'f default, - default, 16384 default', 'not yet in a session that was there before');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET parvacuum.enabled', current_database()); END $$;
SELECT is(holds_elsewhere('plain'), 'f default, - default, 16384 default', 'ALTER DATABASE RESET');

-- and the setting of windows; its name is a word of SQL
CREATE FUNCTION holds_window_elsewhere(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT y FROM dblink(conninfo('new'), format('SELECT holds_window(%L)', rel)) x(y text)
$$;
SET parvacuum."window" = ' saturday 1:00-2:00,3:00-4:00 utc ';
SELECT is(current_setting('parvacuum.window'), ' saturday 1:00-2:00,3:00-4:00 utc ', 'the setting is as it was written');
SELECT is(holds_window('plain'), 'Sat 01:00-02:00, 03:00-04:00 UTC / session', 'and holds in its normal form');
SELECT is(holds_window('c12'), 'Mon 01:00-02:00, 03:00-04:00 / table', 'where a table does not say something else');
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
SELECT is(holds('c1'), 't table, - default, 16384 default', 'engine off: the options hold as before');
ALTER SYSTEM RESET parvacuum.engine;
SELECT reloaded('parvacuum.engine', 'on') \g /dev/null
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'c1'::regclass), NULL, 'engine on');

-- event triggers; that of a table's start creates others, unnoticed
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
SELECT is(label('seen_new'), 'enabled=true, workers=3', 'a table before which a trigger has created others');
SELECT is(created(6), ARRAY['inner6 ', 'inner_as6 ', 'inner_mv6 ', 'inner_own6 workers=100'], 'and the others');
-- and one that hides the table in mid-statement
CREATE TABLE found (x int);
CREATE FUNCTION hide() RETURNS event_trigger LANGUAGE plpgsql SET session_replication_role = replica AS $$
BEGIN
    CREATE TEMP TABLE found (x int);
END $$;
CREATE EVENT TRIGGER pv_start ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION hide();
ALTER TABLE found SET (parvacuum.workers = 5, fillfactor = 90);
DROP EVENT TRIGGER pv_start;
SELECT is(format('%s | %s', label('t.found'), reloptions('t.found')), 'workers=5 | fillfactor=90',
    'core''s part is done to the table that ours was done to');
SELECT is(format('%s | %s', label('pg_temp.found'), reloptions('pg_temp.found')), ' | ', 'and to no other');

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

-- no label without its table
SELECT is((SELECT count(*) FROM pg_seclabel l WHERE provider = 'parvacuum'
    AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.objoid)), 0::bigint, 'no label is left behind');
SELECT is((SELECT count(*) FROM pg_seclabel WHERE provider = 'parvacuum'
    AND (classoid <> 'pg_class'::regclass OR objsubid <> 0)), 0::bigint, 'all labels are those of tables');

-- DROP EXTENSION, and back again
SELECT count(*) AS labels, md5(string_agg(objoid || label, ' ' ORDER BY objoid)) AS sum FROM pg_seclabel
    WHERE provider = 'parvacuum' \gset
BEGIN;
DROP EXTENSION parvacuum;
SELECT is((SELECT md5(string_agg(objoid || label, ' ' ORDER BY objoid)) FROM pg_seclabel WHERE provider = 'parvacuum'),
    :'sum', 'DROP EXTENSION leaves the options');
CREATE EXTENSION parvacuum;
SELECT is((SELECT md5(string_agg(objoid || label, ' ' ORDER BY objoid)) FROM pg_seclabel WHERE provider = 'parvacuum'),
    :'sum', 'and they are there when it is created again');
SELECT is(parvacuum_reset_options(), :labels, 'parvacuum_reset_options() says of how many tables it removes them');
SELECT is((SELECT count(*) FROM pg_seclabel WHERE provider = 'parvacuum'), 0::bigint,
    'and removes them');
DROP EXTENSION parvacuum;
ALTER TABLE plain SET (parvacuum.workers = 7);
SELECT is(label('plain'), 'workers=7', 'they can be set without the extension');
ALTER TABLE plain RESET (parvacuum.workers);
SELECT is(label('plain'), NULL, 'and reset');
ROLLBACK;
SELECT is((SELECT md5(string_agg(objoid || label, ' ' ORDER BY objoid)) FROM pg_seclabel WHERE provider = 'parvacuum'),
    :'sum', 'and a rollback brings them back');
BEGIN;
DROP EXTENSION dblink;
SELECT is((SELECT count(*) FROM pg_seclabel WHERE provider = 'parvacuum'), :labels::bigint,
    'another extension takes none away');
ROLLBACK;
-- the notice
\set said `psql -XqAt -d :'conninfo' -c 'BEGIN; DROP EXTENSION parvacuum; ROLLBACK' 2>&1`
SELECT is(:'said'::text, concat_ws(E'\n', format('NOTICE:  parvacuum options of %s tables stay', :labels),
    'DETAIL:  They apply as long as the library is preloaded, also after the extension is created again.',
    'HINT:  To remove them, call parvacuum_reset_options() before DROP EXTENSION, or after another CREATE EXTENSION parvacuum.'), 'of all tables');
\set said `psql -XqAt -d :'conninfo' -c 'BEGIN; DELETE FROM pg_seclabel; ALTER TABLE a SET (parvacuum.enabled); DROP EXTENSION parvacuum; ROLLBACK' 2>&1`
SELECT is(split_part(:'said', E'\n', 1), 'NOTICE:  parvacuum options of 1 table stay', 'of one table');
\set said `psql -XqAt -d :'conninfo' -c 'BEGIN; DELETE FROM pg_seclabel; DROP EXTENSION parvacuum; SELECT $$dropped$$; ROLLBACK' 2>&1`
SELECT is(:'said'::text, 'dropped', 'of none');

-- who may reset them all
SELECT is(obj_description('parvacuum_reset_options()'::regprocedure, 'pg_proc') ~ 'parvacuum options of all tables', true, 'parvacuum_reset_options() has a comment');
SELECT is(format('%s %s %s', provolatile, proparallel, proacl), 'v u ', 'it is volatile, parallel unsafe, and may be called by all; rights are checked inside')
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
SELECT is(attempt('SET ROLE pv_owner', 'ALTER TABLE of_owner RESET (parvacuum.workers)'), 'done', 'an owner resets those of his table');
SELECT is(attempt('SET ROLE pv_super', 'BEGIN; SELECT parvacuum_reset_options(); ROLLBACK'), 'done', 'a superuser can');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO pv_dba', current_database()); END $$;
SELECT is(attempt('SET ROLE pv_dba', 'BEGIN; SELECT parvacuum_reset_options(); ROLLBACK'), 'done', 'and the owner of the database');
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), session_user); END $$;
SELECT is((failure('s', 'BEGIN READ ONLY; SELECT parvacuum_reset_options()')).message, 'cannot execute parvacuum_reset_options() in a read-only transaction', 'not in a read-only transaction');
SELECT cmp_ok(count(*), '>', 10::bigint, 'the options are what they were') FROM pg_seclabel WHERE provider = 'parvacuum';
DROP TABLE of_owner;

SELECT dblink_disconnect('s') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA pv_hides, pv_made CASCADE;
DROP SCHEMA t CASCADE;
