-- parvacuum_sweep(): its signature, the rights that it needs, its errors, and indexes that
-- it does not sweep.
\ir common.psql
\ir ../oracle.sql

SELECT plan(49);

------------------------------------------------------------------------------
-- Signature
------------------------------------------------------------------------------

CREATE TEMP VIEW func AS SELECT * FROM pg_proc WHERE proname = 'parvacuum_sweep';

SELECT is(count(*), 1::bigint, 'one parvacuum_sweep') FROM func;
SELECT is(pg_get_function_arguments(oid), 'index regclass, OUT pages_total bigint, OUT pages_visited bigint, OUT pages_changed bigint, OUT tuples_deleted bigint, OUT bytes_freed bigint, '
    'OUT elapsed_ms double precision', 'arguments and columns of the result') FROM func;
SELECT is(format('%s %s %s %s %s', prokind, provolatile, proparallel, proisstrict, proretset), 'f v u f f',
    'a function, volatile, parallel unsafe, not strict, one row') FROM func;
SELECT is(proacl::text, NULL, 'it is executable by PUBLIC, and checks rights itself') FROM func;
SELECT matches(obj_description(oid, 'pg_proc'), 'dead row versions .* snapshot', 'its comment describes what it deletes and what it keeps') FROM func;

------------------------------------------------------------------------------
-- Rights: VACUUM's rule
------------------------------------------------------------------------------

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_dba', 'pv_super']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_member LOGIN IN ROLE pv_owner;
CREATE ROLE pv_other LOGIN;
CREATE ROLE pv_dba NOLOGIN;
CREATE ROLE pv_super NOLOGIN SUPERUSER;

CREATE TABLE owned AS SELECT g AS a FROM generate_series(1, 1000) g;
CREATE INDEX owned_a ON owned (a);
ALTER TABLE owned OWNER TO pv_owner;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON owned TO pv_other;

CREATE FUNCTION refusal(name text) RETURNS text LANGUAGE sql AS $$
    SELECT format('42501: permission denied to vacuum table "%s" / Only its owner, the owner of the database, a superuser, or from PostgreSQL 17 on a role with the privilege MAINTAIN can vacuum a table.', name)
$$;
CREATE FUNCTION unsuitable(name text) RETURNS text LANGUAGE sql AS $$
    SELECT format('42809: cannot sweep index "%s" / VACUUM removes dead versions from their indexes.', name)
$$;

SELECT is(attempt(s, 'SELECT parvacuum_sweep(''owned_a'')'), 'done', s)
FROM unnest(ARRAY['SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_member',
    'SET SESSION AUTHORIZATION pv_member; SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_super']) s;
SELECT is(attempt(s, 'SELECT parvacuum_sweep(''owned_a'')'), refusal('owned'), s)
FROM unnest(ARRAY['SET ROLE pv_other', 'SET SESSION AUTHORIZATION pv_other', 'SET ROLE pv_dba', 'SET SESSION AUTHORIZATION pv_super; SET ROLE pv_other']) s;
CREATE FUNCTION set_owner(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), name);
END $$;
SELECT set_owner('pv_dba') \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''owned_a'')'), 'done', 'the owner of the database');
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''pg_class_oid_index'')'), unsuitable('pg_class_oid_index'), 'the owner of the database may vacuum a catalog, whose index cannot be swept');
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''pg_database_oid_index'')'), refusal('pg_database'), 'the owner of the database may not vacuum a shared catalog');
SELECT set_owner(session_user) \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''owned_a'')'), refusal('owned'), 'no longer the owner of the database');

------------------------------------------------------------------------------
-- Errors
------------------------------------------------------------------------------

SELECT connect('e') \g /dev/null

CREATE TABLE good (a int PRIMARY KEY, b text, c int);
INSERT INTO good SELECT g FROM generate_series(1, 1000) g;
CREATE VIEW a_view AS SELECT 1;
CREATE SEQUENCE a_sequence;
CREATE TABLE parent (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE child PARTITION OF parent FOR VALUES FROM (0) TO (100000);

SELECT fails('e', 'SELECT parvacuum_sweep(NULL)', '22004', 'argument "index" must not be null', 'Name an index.', 'null');
SELECT fails('e', 'SELECT parvacuum_sweep(0)', '42P01', 'relation with OID 0 does not exist', 'pg_indexes lists the existing indexes.', 'no such OID');
SELECT fails('e', 'SELECT parvacuum_sweep(''nonesuch'')', '42P01', 'relation "nonesuch" does not exist', '', 'no such name');
SELECT fails('e', format('SELECT parvacuum_sweep(%L)', name), '42809', format('cannot sweep "%s"', name),
    'Only indexes can be swept; of a partitioned index, those of its partitions.', name)
FROM unnest(ARRAY['good', 'a_view', 'a_sequence', 'parent', 'parent_pkey']) name;
SELECT is((failure('e', 'SELECT parvacuum_sweep(''good'')')).detail, 'This operation is not supported for tables.', 'the detail has the kind of the relation');
SELECT is((failure('e', 'SELECT parvacuum_sweep(''child_pkey'')')).message, NULL, 'the index of a partition is accepted');
SELECT is(attempt('RESET ALL', format('SELECT parvacuum_sweep(%L)', name)), unsuitable(split_part(name, '.', -1)), name)
FROM unnest(ARRAY['pg_class_oid_index', 'pg_database_oid_index', 'pg_toast.pg_toast_2604_index']) name;

-- A temporary table of another session; sweep_deletes.sql has one of this session.
SELECT dblink_exec('e', 'CREATE TEMP TABLE theirs (a int PRIMARY KEY); INSERT INTO theirs VALUES (1)') \g /dev/null
SELECT is(attempt('RESET ALL', format('SELECT parvacuum_sweep(%s)', oid)), unsuitable('theirs_pkey'), 'a temporary table of another session')
FROM pg_class WHERE relname = 'theirs_pkey';

-- An invalid index
SELECT failure('e', 'INSERT INTO good SELECT g, NULL, 1 FROM generate_series(1001, 1002) g') \g /dev/null
SELECT is((failure('e', 'CREATE UNIQUE INDEX CONCURRENTLY good_c ON good (c)')).state, '23505', 'an index cannot be built');
SELECT fails('e', 'SELECT parvacuum_sweep(''good_c'')', '55000', 'cannot sweep index "good_c"', 'Wait until that has finished, or REINDEX the index.', 'an invalid index is not swept');
DROP INDEX good_c;

-- A sweep is allowed where parvacuum_run() is not.
CREATE FUNCTION in_plpgsql(index text) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (parvacuum_sweep(index)).pages_total; END';
CREATE FUNCTION in_sql(index text) RETURNS bigint LANGUAGE sql AS 'SELECT pages_total FROM parvacuum_sweep(index)';
SELECT is((failure('e', s)).message, NULL, s) FROM unnest(ARRAY['SELECT in_plpgsql(''good_pkey'')', 'SELECT in_sql(''good_pkey'')',
    'BEGIN; SELECT parvacuum_sweep(''good_pkey'')', 'SAVEPOINT s; SELECT parvacuum_sweep(''good_pkey'')', 'ROLLBACK',
    'BEGIN READ ONLY; SELECT parvacuum_sweep(''good_pkey'')', 'ROLLBACK']) s;

------------------------------------------------------------------------------
-- Other access methods, which cannot be swept
------------------------------------------------------------------------------

CREATE EXTENSION IF NOT EXISTS bloom;
CREATE TABLE other (a int, b int[], c point);
INSERT INTO other SELECT g, ARRAY[g], point(g, g) FROM generate_series(1, 5000) g;
CREATE INDEX other_hash ON other USING hash (a);
CREATE INDEX other_gist ON other USING gist (c);
CREATE INDEX other_gin ON other USING gin (b);
CREATE INDEX other_brin ON other USING brin (a);
CREATE INDEX other_spgist ON other USING spgist (c);
CREATE INDEX other_bloom ON other USING bloom (a);
DELETE FROM other WHERE a % 2 = 0;

SET client_min_messages = error;
CREATE TEMP TABLE other_am AS
SELECT am, pg_relation_size('other_' || am) / current_setting('block_size')::int AS pages
FROM unnest(ARRAY['hash', 'gist', 'gin', 'brin', 'spgist', 'bloom']) am;
CREATE TEMP VIEW other_pages AS SELECT am, f.* FROM other_am, oracle.page_fill('other_' || am) f;
CREATE TEMP TABLE other_before AS SELECT * FROM other_pages;
SELECT is(ARRAY[r.pages_total, r.pages_visited, r.pages_changed, r.tuples_deleted, r.bytes_freed],
    ARRAY[pages, 0, 0, 0, 0], am || ': no page is visited')
FROM other_am, parvacuum_sweep('other_' || am) r;
SET client_min_messages = warning;
SELECT results_eq('SELECT * FROM other_pages', 'SELECT * FROM other_before', 'no index of another access method is changed');

SELECT replace(conninfo('notices'), '=warning', '=notice') AS conninfo \gset
\set said `psql -XqAt -d :'conninfo' -c "SELECT tuples_deleted FROM parvacuum_sweep('other_gin')" 2>&1`
SELECT is(:'said'::text, E'NOTICE:  index "other_gin" is not a B-tree, so there is nothing to sweep\n'
    'DETAIL:  Its access method, "gin", has no deletion outside of VACUUM.\n0', 'a notice for an index that is not a B-tree');
\set said `psql -XqAt -d :'conninfo' -c "SELECT tuples_deleted FROM parvacuum_sweep('good_pkey')" 2>&1`
SELECT is(:'said'::text, '0', 'no notice for a B-tree');

SELECT dblink_disconnect('e') \g /dev/null
SELECT * FROM finish();
SELECT forget_role(r) FROM unnest(ARRAY['pv_member', 'pv_owner', 'pv_other', 'pv_dba', 'pv_super']) r \g /dev/null
DROP SCHEMA t CASCADE;
DROP SCHEMA oracle CASCADE;
