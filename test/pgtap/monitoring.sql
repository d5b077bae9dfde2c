-- parvacuum_blockers and parvacuum_check(): their columns, who may call them, and that names
-- of others cannot change what they do.  test/t/blockers.pl and check.pl make each
-- row.
\ir common.psql

SELECT plan(21);

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_stats']) r \g /dev/null
CREATE ROLE pv_owner;
CREATE ROLE pv_stats IN ROLE pg_read_all_stats;

-- Columns
CREATE FUNCTION columns(what regclass) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s', attname, format_type(atttypid, NULL)), ', ' ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = what AND attnum > 0
$$;
SELECT is(columns('parvacuum_blockers'),
    'kind text, pid integer, name text, usename name, datid oid, datname name, holds text, xmin xid, xmin_age integer, since timestamp with time zone, duration interval, tuples_kept bigint, state text, query text, release text',
    'the columns of parvacuum_blockers');
CREATE VIEW blockers_of AS SELECT * FROM parvacuum_blockers('pg_class');
SELECT is(columns('blockers_of'), columns('parvacuum_blockers'), 'the function has those of the view');
CREATE VIEW advice AS SELECT * FROM parvacuum_check();
SELECT is(columns('advice'),
    'severity text, name text, subject text, relid oid, relation regclass, reason text, evidence text, setting text, advice text',
    'the columns of parvacuum_check()');
SELECT is(count(*), 0::bigint, 'no column needs quotes')
FROM pg_attribute WHERE attrelid IN ('parvacuum_blockers'::regclass, 'advice'::regclass) AND attnum > 0 AND quote_ident(attname) <> attname;

-- Comments and rights
SELECT isnt(obj_description('parvacuum_blockers'::regclass), NULL, 'the view has a comment');
SELECT isnt(obj_description(f::regprocedure), NULL, f || ' has a comment')
FROM unnest(ARRAY['parvacuum_blockers(regclass)', 'parvacuum_check()']) f;
SELECT ok(has_table_privilege('pv_owner', 'parvacuum_blockers', 'SELECT'), 'all roles may read the view');
SELECT ok(has_function_privilege('pv_owner', f, 'EXECUTE'), 'all roles may call ' || f)
FROM unnest(ARRAY['parvacuum_blockers(regclass)', 'parvacuum_check()']) f;

-- A session of a superuser, seen by others
SELECT connect('idle') \g /dev/null
SELECT dblink_exec('idle', 'BEGIN') \g /dev/null
SELECT * FROM dblink('idle', 'SELECT pg_current_xact_id()::text') AS x(y text) \g /dev/null
CREATE VIEW idle AS
    SELECT * FROM parvacuum_blockers WHERE pid = (SELECT pid FROM pg_stat_activity WHERE application_name = 'idle');
GRANT SELECT ON idle TO public;
SELECT is(format('%s %s %s %s', kind, name, usename, holds), format('idle in transaction idle %s one database', session_user), 'a superuser sees who it is') FROM idle;
SET ROLE pv_stats;
SELECT is(format('%s %s', kind, name), 'idle in transaction idle', 'a member of pg_read_all_stats, too') FROM idle;
SET ROLE pv_owner;
SELECT is(format('%s %s', kind, datname), 'session ' || current_database(), 'others see that there is a session') FROM idle;
SELECT is(num_nulls(name, usename, since, duration, tuples_kept, state, query, release), 8, 'and nothing more') FROM idle;
SELECT is(count(*), 0::bigint, 'and no advice about the server') FROM parvacuum_check() WHERE relid IS NULL;
RESET ROLE;

-- The calling session is not shown, whatever it holds.
BEGIN;
SELECT isnt(pg_current_xact_id(), NULL, 'this session has a transaction');
SELECT is(count(*), 0::bigint, 'which is not shown') FROM parvacuum_blockers WHERE pid = pg_backend_pid();
COMMIT;
SELECT dblink_disconnect('idle') \g /dev/null

-- Operators and functions of others are not called.
CREATE FUNCTION trap(text, name) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
CREATE OPERATOR = (LEFTARG = text, RIGHTARG = name, FUNCTION = trap);
CREATE FUNCTION parvacuum_blockers(rel oid) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
SELECT lives_ok('SELECT * FROM parvacuum_blockers', 'objects of others do no harm to the view');
SELECT lives_ok('SELECT * FROM parvacuum_check()', 'nor to the function');

-- A table whose name is not simple, in a schema like that
CREATE SCHEMA "a.b'";
CREATE TABLE "a.b'"."x
"";" WITH (autovacuum_enabled = off) AS SELECT 1 AS a;
UPDATE pg_class SET relpages = 2000000000 WHERE relnamespace = $$"a.b'"$$::regnamespace;
SELECT is(subject, '"a.b''"."x' || E'\n' || '"";"', 'names are quoted') FROM parvacuum_check() WHERE relation IS NOT NULL AND name = 'cost_limits';
SELECT is(relation::text, subject, 'and those of the column relation') FROM parvacuum_check() WHERE name = 'cost_limits';
DROP SCHEMA "a.b'" CASCADE;

SELECT * FROM finish();
