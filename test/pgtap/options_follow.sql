-- Options set by functions and procedures, options of tables that are rewritten, moved or
-- renamed, and tables with unusual or hidden names.
\ir common.psql
\ir options.psql

SELECT plan(33);

CREATE SCHEMA pv_made;
CREATE SCHEMA pv_hides;
CREATE TABLE src (x int PRIMARY KEY, y text) WITH (parvacuum.enabled, fillfactor = 70);

-- Functions; the second call uses a cached plan.
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
SELECT is(format('%s | %s', label('f'), reloptions('f')), ' | ', 'in PL/pgSQL: the options are reset');
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

-- The label stays with the table.
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
    'ALTER TABLE by the new name');
DROP TABLE pv_made.moved2;
SELECT is((SELECT count(*) FROM pg_seclabel WHERE objoid = :moved), 0::bigint, 'DROP TABLE');
SELECT is((SELECT count(*) FROM parvacuum_tables WHERE relid = :moved), 0::bigint, 'DROP TABLE: parvacuum_tables');

-- Names
CREATE SCHEMA "pv_hides; ""Too""" CREATE TABLE "A table's ""name"", so = {1}" (x int) WITH (parvacuum.workers = 1);
SELECT '"pv_hides; ""Too"""."A table''s ""name"", so = {1}"'::regclass::oid AS odd \gset
SELECT is(label(:'odd'), 'workers=1', 'a name with special characters');
SELECT is(after('ALTER TABLE "pv_hides; ""Too"""."A table''s ""name"", so = {1}" SET (parvacuum.enabled, fillfactor = 90)', :'odd'),
    'enabled=true, workers=1', 'ALTER TABLE by that name');
SELECT dblink_exec('s', 'SET search_path = "pv_hides; ""Too""", t, public') \g /dev/null
SELECT is(after('ALTER TABLE "A table''s ""name"", so = {1}" RESET (parvacuum.workers)', :'odd'),
    'enabled=true', 'ALTER TABLE by that name, found by search_path');
SELECT dblink_exec('s', 'SET search_path = t, public') \g /dev/null
DROP SCHEMA "pv_hides; ""Too""" CASCADE;

-- A table that hides another one
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

SELECT dblink_disconnect('s') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA pv_hides, pv_made CASCADE;
DROP SCHEMA t CASCADE;
