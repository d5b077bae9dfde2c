--
-- What parvacuum_run() and CALL parvacuum() refuse, and with which messages
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parvacuum;
RESET client_min_messages;

CREATE TABLE err_t (a int PRIMARY KEY);

-- no such table
SELECT * FROM parvacuum_run(NULL);
\echo :SQLSTATE
SELECT * FROM parvacuum_run('err_nonesuch');
SELECT * FROM parvacuum_run(1);
\echo :SQLSTATE
SELECT * FROM parvacuum_run();
CALL parvacuum(NULL);

-- not a table
CREATE VIEW err_v AS SELECT 1;
CREATE SEQUENCE err_s;
CREATE TYPE err_c AS (a int);
CREATE FOREIGN DATA WRAPPER err_w;
CREATE SERVER err_w FOREIGN DATA WRAPPER err_w;
CREATE FOREIGN TABLE err_f (a int) SERVER err_w;
SELECT * FROM parvacuum_run('err_v');
\echo :SQLSTATE
SELECT * FROM parvacuum_run('err_s');
SELECT * FROM parvacuum_run('err_c');
SELECT * FROM parvacuum_run('err_f');
SELECT * FROM parvacuum_run('err_t_pkey');
CALL parvacuum('err_v');

-- tables that another process cannot access
CREATE TEMP TABLE err_temp (a int);
SELECT * FROM parvacuum_run('err_temp');
\echo :SQLSTATE

-- invalid arguments
SELECT * FROM parvacuum_run('err_t', workers => -1);
\echo :SQLSTATE
SELECT * FROM parvacuum_run('err_t', workers => 1025);
SELECT * FROM parvacuum_run('err_t', index_cleanup => 'sometimes');
\echo :SQLSTATE

-- missing rights
CREATE ROLE regress_err_role;
SET ROLE regress_err_role;
SELECT * FROM parvacuum_run('err_t');
\echo :SQLSTATE
CALL parvacuum('err_t');
RESET ROLE;

-- rights on the partitioned table and on one partition
CREATE TABLE err_p (a int) PARTITION BY LIST (a);
CREATE TABLE err_p1 PARTITION OF err_p FOR VALUES IN (1);
CREATE TABLE err_p2 PARTITION OF err_p FOR VALUES IN (2);
ALTER TABLE err_p OWNER TO regress_err_role;
ALTER TABLE err_p2 OWNER TO regress_err_role;
SET ROLE regress_err_role;
-- the warning of core has changed since
SET client_min_messages = error;
SELECT relid FROM parvacuum_run('err_p');
RESET client_min_messages;
SELECT relid FROM parvacuum_run('err_p1');
RESET ROLE;

-- inside a transaction
BEGIN;
SELECT * FROM parvacuum_run('err_t');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
CALL parvacuum('err_t');
\echo :SQLSTATE
ROLLBACK;
SELECT 1 \; SELECT * FROM parvacuum_run('err_t');

-- inside a function
CREATE FUNCTION err_plpgsql() RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN PERFORM parvacuum_run('err_t'); END $$;
CREATE FUNCTION err_sql() RETURNS bigint LANGUAGE sql AS
    $$ SELECT count(*) FROM parvacuum_run('err_t') $$;
CREATE FUNCTION err_call() RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN CALL parvacuum('err_t'); END $$;
SELECT err_plpgsql();
\echo :SQLSTATE
SELECT err_sql();
SELECT err_call();

-- tables that the caller's own transaction has locked
CREATE FUNCTION err_lock(rel regclass) RETURNS bool LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE format('LOCK TABLE %s IN SHARE MODE', rel); RETURN true; END $$;
SELECT CASE WHEN err_lock('err_t') THEN (SELECT count(*) FROM parvacuum_run('err_t')) END;
\echo :SQLSTATE
-- a partition locked by the caller, which is found when the background leader waits for
-- it
SET deadlock_timeout = '100ms';
\set VERBOSITY terse
SELECT CASE WHEN err_lock('err_p2') THEN (SELECT count(*) FROM parvacuum_run('err_p')) END;
\set VERBOSITY default
\echo :SQLSTATE
RESET deadlock_timeout;

-- settings
SET parvacuum.engine = off;
SET parvacuum.nonesuch = 1;
SET parvacuum.urgent_score = 0;
\set VERBOSITY sqlstate
SET parvacuum.store_limit = -2;
\set VERBOSITY default

-- the refused statements have changed nothing
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader';
SELECT relid, workers_planned FROM parvacuum_run('err_t', workers => 0);

DROP FUNCTION err_plpgsql(), err_sql(), err_call(), err_lock(regclass);
DROP FOREIGN DATA WRAPPER err_w CASCADE;
DROP VIEW err_v;
DROP SEQUENCE err_s;
DROP TYPE err_c;
DROP TABLE err_t, err_p, err_temp;
DROP ROLE regress_err_role;
