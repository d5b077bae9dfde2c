-- A store so small that the vacuum needs many index scans, and a server without free
-- workers
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle_sql :abs_srcdir '/test/oracle.sql'
\set ECHO none
\i :oracle_sql
CREATE EXTENSION IF NOT EXISTS parvacuum;

\echo 'ten rounds and more, or as many fillings by participants at the same time'
\o /dev/null
SELECT oracle.trial('many ' || workers, 'scattered', 40000, workers, 'truncate small_store', ARRAY['btree', 'hash'], 200)
FROM unnest(ARRAY[0, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT count(*), min((result->>'index_scans')::int * (1 + (result->>'workers_planned')::int)) >= 10 AS ten, sum((result->>'tuples_removed')::int) AS removed FROM oracle.run;

\echo 'some rounds of each access method'
\o /dev/null
TRUNCATE oracle.run;
SELECT oracle.trial(format('%s %s', indexes, workers), 'scattered', 25000, workers, 'truncate small_store', indexes, 0)
FROM (VALUES (ARRAY['duplicates', 'gist']), (ARRAY['spgist', 'gin', 'brin'])) AS v(indexes), unnest(ARRAY[0, 2]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT count(*), min((result->>'index_scans')::int) > 1 AS some FROM oracle.run;

\echo 'workers planned and none launched'
\o /dev/null
TRUNCATE oracle.run;
SELECT oracle.trial(format('%s %s', kind, wishes), kind, 4000, 3, 'truncate no_workers ' || wishes, ARRAY['btree', 'hash', 'gin'], 800)
FROM unnest(ARRAY['scattered', 'updates', 'tail']) kind, unnest(ARRAY['', 'small_store']) wishes \gexec
\o
SELECT * FROM oracle.finding;
SELECT result->>'workers_planned' AS planned, result->>'workers_launched' AS launched, count(*) FROM oracle.run GROUP BY 1, 2;
DROP TABLE stock, ours;

\echo 'few pages with dead rows, but more of these than the store has room for'
CREATE TABLE few (id int) WITH (autovacuum_enabled = off);
INSERT INTO few SELECT generate_series(1, 40000);
CREATE INDEX ON few (id);
DELETE FROM few WHERE id <= 226;
SET parvacuum.store_limit = 1;
SELECT dead_items, index_scans, index_scan_bypassed FROM parvacuum_run('few', workers => 0) WHERE relid = 'few'::regclass;
RESET parvacuum.store_limit;
DROP TABLE few;

\echo 'pages of a B-tree that share bits, because the bitmaps have no memory for more: empty pages are deleted'
CREATE EXTENSION IF NOT EXISTS pageinspect;
CREATE UNLOGGED TABLE wide (id int, pad text) WITH (autovacuum_enabled = off);
ALTER TABLE wide ALTER pad SET STORAGE PLAIN;
INSERT INTO wide SELECT i, lpad(i::text, 2500, 'x') FROM generate_series(1, 20000) i;
CREATE INDEX wide_pad ON wide (pad);
SELECT oracle.nblocks('wide_pad') > 4096 AS more_pages_than_bits;
DELETE FROM wide WHERE id BETWEEN 9001 AND 19000;
SET parvacuum.store_limit = 0;
SELECT tuples_removed, index_scans > 10 AS many FROM parvacuum_run('wide', workers => 0, index_cleanup => 'on') WHERE relid = 'wide'::regclass;
RESET parvacuum.store_limit;
SELECT count(*) FILTER (WHERE s.type = 'd') > 3000 AS deleted, count(*) FILTER (WHERE s.type = 'l' AND s.live_items <= 1 AND s.btpo_next <> 0) < 20 AS few_left
FROM oracle.used_blocks('wide_pad', 1) blk, bt_page_stats('wide_pad', blk) s;
SELECT * FROM bt_index_check('wide_pad', true);
DROP TABLE wide;
