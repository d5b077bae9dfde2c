-- Errors of parvacuum_run() and CALL parvacuum(): code, message and hint.
\ir common.psql

SELECT plan(58);
SELECT connect('e') \g /dev/null

CREATE TABLE good (a int PRIMARY KEY, b text);
INSERT INTO good SELECT g FROM generate_series(1, 1000) g;
DELETE FROM good WHERE a % 2 = 0;

-- Not a table
CREATE VIEW a_view AS SELECT 1;
CREATE SEQUENCE a_sequence;
CREATE TYPE a_type AS (x int);
DROP FOREIGN DATA WRAPPER IF EXISTS pv_none CASCADE;
CREATE FOREIGN DATA WRAPPER pv_none;
CREATE SERVER pv_none FOREIGN DATA WRAPPER pv_none;
CREATE FOREIGN TABLE a_foreign_table (x int) SERVER pv_none;
CREATE TABLE parent (a int PRIMARY KEY) PARTITION BY RANGE (a);
SELECT dblink_exec('e', 'CREATE TEMP TABLE temporary (a int)') \g /dev/null

SELECT fails('e', format('SELECT parvacuum_run(%L)', name), '42809', format('cannot vacuum "%s"', name),
    'Only tables, partitioned tables, materialized views, and TOAST tables can be vacuumed.', what)
FROM (VALUES ('a_view', 'a view'), ('a_sequence', 'a sequence'), ('a_type', 'a composite type'),
    ('a_foreign_table', 'a foreign table'), ('good_pkey', 'an index'), ('parent_pkey', 'a partitioned index')) x(name, what);
SELECT fails('e', 'CALL parvacuum(''a_view'')', '42809', 'cannot vacuum "a_view"',
    'Only tables, partitioned tables, materialized views, and TOAST tables can be vacuumed.', 'CALL of a view');
SELECT is((failure('e', 'SELECT parvacuum_run(''a_view'')')).detail, 'This operation is not supported for views.', 'the detail has the kind of the relation');
SELECT fails('e', 'SELECT parvacuum_run(NULL)', '22004', 'argument "rel" must not be null', 'Name the table to be vacuumed.', 'null');
SELECT fails('e', 'CALL parvacuum(NULL)', '22004', 'argument "rel" must not be null', 'Name the table to be vacuumed.', 'CALL of null');
SELECT fails('e', 'SELECT parvacuum_run(0)', '42P01', 'relation with OID 0 does not exist', 'Name the table to be vacuumed.', 'no such OID');
SELECT fails('e', 'SELECT parvacuum_run(''nonesuch'')', '42P01', 'relation "nonesuch" does not exist', '', 'no such name');
SELECT fails('e', 'SELECT parvacuum_run(''temporary'')', '0A000', 'cannot vacuum temporary table "temporary" in another process', 'Use VACUUM.', 'a temporary table');

-- Arguments
SELECT fails('e', format('SELECT parvacuum_run(''good'', workers => %s)', n), '22023', 'number of workers must be between 0 and 1024',
    '0 means no workers.  NULL lets parvacuum decide.', format('%s workers', n))
FROM unnest(ARRAY[-1, -2147483648, 1025, 2147483647]) n;
SELECT fails('e', 'CALL parvacuum(''good'', workers => -1)', '22023', 'number of workers must be between 0 and 1024',
    '0 means no workers.  NULL lets parvacuum decide.', 'CALL with -1 workers');
SELECT fails('e', format('SELECT parvacuum_run(''good'', index_cleanup => %L)', word), '22023', format('invalid value for index_cleanup: "%s"', word),
    'Valid values are "auto", "on", and "off".', format('index_cleanup %L', word))
FROM unnest(ARRAY['maybe', '', ' on', '2', 'automatic']) word;
SELECT is((failure('e', format('SELECT parvacuum_run(''good'', index_cleanup => %L)', word))).message, NULL, format('index_cleanup %L is taken', word))
FROM unnest(ARRAY['AUTO', 'On', 'OFF', 'true', 'False', '1', '0', 'yes']) word;

-- Transactions
SELECT dblink_exec('e', 'BEGIN') \g /dev/null
SELECT fails('e', 'SELECT parvacuum_run(''good'')', '25001', 'parvacuum_run() cannot run inside a transaction block',
    'End the transaction first, or use a client with autocommit.', 'in a transaction block');
SELECT dblink_exec('e', 'ROLLBACK; BEGIN; SAVEPOINT s') \g /dev/null
SELECT fails('e', 'CALL parvacuum(''good'')', '25001', 'CALL parvacuum() cannot run inside a transaction block or a function',
    'It commits the transaction, so call it where COMMIT is allowed.', 'CALL in a subtransaction');
SELECT dblink_exec('e', 'ROLLBACK') \g /dev/null
SELECT fails('e', 'SELECT 1; SELECT parvacuum_run(''good'')', '25001', 'parvacuum_run() cannot run inside a transaction block',
    'End the transaction first, or use a client with autocommit.', 'with other statements in one message');

-- Functions
CREATE FUNCTION in_plpgsql() RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM parvacuum_run(''good''); END';
CREATE FUNCTION in_sql() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM parvacuum_run(''good'')';
CREATE FUNCTION in_definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM parvacuum_run(''good'')';
CREATE FUNCTION call_in_function() RETURNS void LANGUAGE plpgsql AS 'BEGIN CALL parvacuum(''good''); END';
CREATE PROCEDURE call_in_definer() LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN CALL parvacuum(''good''); END';
CREATE PROCEDURE call_in_block() LANGUAGE plpgsql AS 'BEGIN BEGIN CALL parvacuum(''good''); EXCEPTION WHEN division_by_zero THEN NULL; END; END';
CREATE TABLE n (n bigint);
SELECT fails('e', statement, '25001', 'parvacuum_run() cannot be executed from a function', 'In a procedure, use CALL parvacuum(...).', what)
FROM (VALUES ('SELECT in_plpgsql()', 'a PL/pgSQL function'), ('DO ''BEGIN PERFORM parvacuum_run(''''good''''); END''', 'DO'),
    ('SELECT in_sql()', 'a SQL function'), ('INSERT INTO n SELECT in_definer()', 'a SECURITY DEFINER function')) x(statement, what);
SELECT fails('e', statement, '25001', 'CALL parvacuum() cannot run inside a transaction block or a function',
    'It commits the transaction, so call it where COMMIT is allowed.', what)
FROM (VALUES ('SELECT call_in_function()', 'CALL in a function'), ('CALL call_in_definer()', 'CALL in a SECURITY DEFINER procedure'),
    ('CALL call_in_block()', 'CALL in a block with an exception handler')) x(statement, what);

-- Null, for arguments where it has no meaning and where it has one
SELECT fails('e', format('%s parvacuum%s(''good'', %I => NULL)', verb, suffix, name), '22004', format('argument "%s" must not be null', name), 'Omit the argument to use its default.',
    format('%s: %s null', verb, name))
FROM (VALUES ('SELECT', '_run'), ('CALL', '')) f(verb, suffix), unnest('{freeze,index_cleanup,analyze,skip_locked,disable_page_skipping,verbose}'::text[]) name;
SELECT is((failure('e', 'SELECT parvacuum_run(''good'', workers => NULL, truncate => NULL)')).message, NULL, 'workers and truncate null: parvacuum decides');

-- Another process cannot access temporary tables.
SELECT fails('e', 'CALL parvacuum(''temporary'')', '0A000', 'cannot vacuum temporary table "temporary" in another process', 'Use VACUUM.', 'CALL of a temporary table');
SELECT is((failure('e', 'SELECT parvacuum_run(''temporary'')')).detail, 'Only the session that created it can vacuum it.', 'the detail has the reason');
SELECT is((failure('e', 'VACUUM temporary')).message, NULL, 'the statement of the hint succeeds');
CREATE TABLE heir_of (a int);
SELECT dblink_exec('e', 'CREATE TEMP TABLE heir () INHERITS (heir_of)') \g /dev/null
CREATE TABLE heirs AS SELECT relid FROM parvacuum_run('heir_of');
SELECT results_eq('SELECT relid FROM heirs', $$VALUES ('heir_of'::regclass)$$, 'a temporary child is skipped');

SELECT dblink_disconnect('e') \g /dev/null
SELECT * FROM finish();
DROP FOREIGN DATA WRAPPER pv_none CASCADE;
DROP SCHEMA t CASCADE;
