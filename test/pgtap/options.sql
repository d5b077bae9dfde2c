-- ALTER TABLE sets and resets the options of tables, partitions and materialized views;
-- which options are in effect; locks and transactions.
\ir common.psql
\ir options.psql

SELECT plan(138);

CREATE FUNCTION locks_of_s(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(DISTINCT mode, ', ' ORDER BY mode) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE application_name = 's' AND relation = rel::regclass
$$;

-- ALTER TABLE
CREATE TABLE a (x int PRIMARY KEY, y text);
SELECT is(label('a'), NULL, 'a new table has no options');
SELECT is(holds('a'), 'f default, - default, 16384 default', 'the defaults are in effect for it');
SELECT is(after('ALTER TABLE a SET (parvacuum.enabled' || value || ')'), 'enabled=true', 'enabled' || value)
FROM unnest(ARRAY['', ' = true', ' = on', ' = 1', ' = yes', ' = ''yes''', ' = ''TRUE''', ' = ''On''', ' = "true"']) value;
SELECT is(after('ALTER TABLE a SET (parvacuum.enabled' || value || ')'), 'enabled=false', 'enabled' || value)
FROM unnest(ARRAY[' = false', ' = off', ' = 0', ' = no', ' = ''no''', ' = ''FALSE''', ' = ''Off''']) value;
SELECT is(after('ALTER TABLE a RESET (parvacuum.enabled)'), NULL, 'RESET of the only option leaves no label');
SELECT is(after('ALTER TABLE a RESET (parvacuum.enabled)'), NULL, 'RESET of an option that is not set');
SELECT is(after('ALTER TABLE a ' || change), label, change)
FROM (VALUES ('SET (parvacuum.sweep)', 'sweep=true'), ('SET (parvacuum.sweep = on, parvacuum.enabled, parvacuum.workers = 1)', 'enabled=true, sweep=true, workers=1'),
    ('SET (parvacuum.sweep = off, parvacuum.window = never)', 'enabled=true, sweep=false, window="never", workers=1'),
    ('RESET (parvacuum.enabled, parvacuum.workers, parvacuum.window)', 'sweep=false'), ('RESET (parvacuum.sweep)', NULL)) x(change, label);
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

-- Windows: in the label they are quoted, and in their normal form.
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

-- Mixed with core's options
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
    'autovacuum_enabled=off', 'the option for the TOAST table is set there');

-- Several subcommands
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

-- Locks: the lock that core would take, and at the beginning
SELECT dblink_exec('s', 'BEGIN; ALTER TABLE a SET (parvacuum.workers = 1)') \g /dev/null
SELECT is(locks_of_s('a'), 'ShareUpdateExclusiveLock', 'the lock of SET');
SELECT is(label('a'), NULL, 'other sessions do not see it before the commit');
SELECT dblink_exec('s', 'ROLLBACK; BEGIN; ALTER TABLE a RESET (parvacuum.workers, fillfactor), SET (autovacuum_enabled = on)') \g /dev/null
SELECT is(locks_of_s('a'), 'ShareUpdateExclusiveLock', 'the lock of RESET and SET, mixed');
SELECT dblink_exec('s', 'ROLLBACK; BEGIN; ALTER TABLE a SET (parvacuum.workers = 1), ADD COLUMN z int') \g /dev/null
SELECT is(locks_of_s('a'), 'AccessExclusiveLock', 'the lock of SET and ADD COLUMN');
SELECT dblink_exec('s', 'ROLLBACK; BEGIN; CREATE TABLE alike (LIKE a INCLUDING ALL)') \g /dev/null
SELECT is(locks_of_s('a'), 'AccessShareLock', 'the lock of LIKE');
SELECT dblink_exec('s', 'ROLLBACK') \g /dev/null

-- Two sessions change one table
SELECT connect('other') \g /dev/null
SELECT dblink_exec('s', 'BEGIN; ALTER TABLE a SET (parvacuum.workers = 2)') \g /dev/null
SELECT dblink_send_query('other', 'ALTER TABLE a SET (parvacuum.enabled)') \g /dev/null
SELECT ok(soon($$EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'other' AND wait_event_type = 'Lock')$$),
    'the second session waits for the first one');
SELECT dblink_exec('s', 'COMMIT') \g /dev/null
SELECT result('other') \g /dev/null
SELECT is(label('a'), 'enabled=true, workers=2', 'the second session changes the options that the first one has set');
SELECT dblink_disconnect('other') \g /dev/null

-- Transactions
ALTER TABLE a RESET (parvacuum.enabled), SET (parvacuum.workers = 1);
BEGIN;
ALTER TABLE a SET (parvacuum.workers = 2, fillfactor = 50);
SELECT is(label('a'), 'workers=2', 'visible in the transaction');
CREATE TABLE undone (x int) WITH (parvacuum.enabled);
SELECT is(label('undone'), 'enabled=true', 'visible in the transaction, of a new table');
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

-- Materialized views
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS x;
SELECT is(after(statement, 'mv'), label, statement)
FROM (VALUES ('ALTER MATERIALIZED VIEW mv SET (parvacuum.enabled, fillfactor = 60)', 'enabled=true'),
    ('ALTER TABLE mv SET (parvacuum.workers = 2)', 'enabled=true, workers=2'),
    ('ALTER MATERIALIZED VIEW IF EXISTS mv RESET (parvacuum.enabled)', 'workers=2'),
    ('REFRESH MATERIALIZED VIEW mv', 'workers=2'),
    ('CREATE UNIQUE INDEX ON mv (x); REFRESH MATERIALIZED VIEW CONCURRENTLY mv', 'workers=2')) x(statement, label);
SELECT is(reloptions('mv'), 'fillfactor=60', 'a materialized view: core''s option');
SELECT is(holds('mv'), 'f default, 2 table, 16384 default', 'a materialized view in parvacuum_tables');

-- Partitions: each option comes from the nearest ancestor that has it.
CREATE TABLE p (x int, y int) PARTITION BY LIST (x);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY LIST (y);
CREATE TABLE p21 PARTITION OF p2 FOR VALUES IN (1);
CREATE TABLE p22 PARTITION OF p2 FOR VALUES IN (2) WITH (parvacuum.buffer_usage_limit = 128, fillfactor = 50);
CREATE TABLE p3 (x int, y int) WITH (parvacuum.workers = 3);
ALTER TABLE p SET (parvacuum.enabled, parvacuum.workers = 1);
SELECT is(label(rel), label, 'the label of ' || rel)
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
SELECT is(holds(rel), options, rel || ', with more options on each level')
FROM (VALUES ('p1', 't ancestor, 1 ancestor, 1024 ancestor'), ('p2', 't ancestor, 2 table, 1024 ancestor'),
    ('p21', 'f table, 2 ancestor, 1024 ancestor'), ('p22', 't ancestor, 2 ancestor, 128 table')) x(rel, options);
ALTER TABLE p2 RESET (parvacuum.workers), SET (parvacuum.enabled = off);
ALTER TABLE p21 RESET (parvacuum.enabled);
SELECT is(holds(rel), options, rel || ', with some options reset')
FROM (VALUES ('p2', 'f table, 1 ancestor, 1024 ancestor'), ('p21', 'f ancestor, 1 ancestor, 1024 ancestor'))
    x(rel, options);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES IN (3);
SELECT is(holds('p3'), 't ancestor, 3 table, 1024 ancestor', 'an attached partition');
SELECT is(label('p3'), 'workers=3', 'attaching changes no label');
ALTER TABLE p DETACH PARTITION p3;
SELECT is(holds('p3'), 'f default, 3 table, 16384 default', 'a detached partition');
ALTER TABLE p DETACH PARTITION p2;
SELECT is(holds('p21'), 'f ancestor, - default, 16384 default', 'its ancestor is detached');
SELECT dblink_exec('s', 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY') \g /dev/null
SELECT is(holds('p1'), 'f default, - default, 16384 default', 'a partition that was detached concurrently');
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
SELECT is(holds('p21'), 'f ancestor, 1 ancestor, 1024 ancestor', 'its ancestor is attached again');
CREATE TABLE p4 PARTITION OF p FOR VALUES IN (4) WITH (parvacuum.workers = 4);
SELECT is(holds('p4'), 't ancestor, 4 table, 1024 ancestor', 'a new partition');
CREATE TABLE p5 PARTITION OF p DEFAULT PARTITION BY LIST (y) WITH (parvacuum.workers = 5);
SELECT is(holds('p5'), 't ancestor, 5 table, 1024 ancestor', 'a new partitioned partition');
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'p'::regclass), NULL,
    'a partitioned table is not declined');

-- Windows of partitions
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
    'the window of the nearest ancestor, even if that is empty');
SET parvacuum."window" = 'never';
ALTER TABLE p RESET (parvacuum.window);
ALTER TABLE p4 RESET (parvacuum.window);
SELECT is(windows(),
    'p: never / session, p4: never / session, p2: Sat 10:00-12:00 Asia/Tokyo / table, p21: Sat 10:00-12:00 Asia/Tokyo / ancestor',
    'the window of the setting where no table has one');
RESET parvacuum."window";
ALTER TABLE p2 RESET (parvacuum.window);

-- Ordinary inheritance
CREATE TABLE parent (x int) WITH (parvacuum.enabled, parvacuum.workers = 2);
CREATE TABLE child () INHERITS (parent);
SELECT is(holds('child'), 'f default, - default, 16384 default', 'a child inherits nothing');
ALTER TABLE parent SET (parvacuum.buffer_usage_limit = 128);
SELECT is(label('child'), NULL, 'a child inherits nothing from ALTER TABLE');

SELECT dblink_disconnect('s') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
