-- Which entries parvacuum_sweep() deletes: with all sorts of indexes and relations, and
-- whatever the rows have died of.
\ir common.psql
\ir ../oracle.sql
\ir sweep.psql

SELECT plan(164);

CREATE TABLE parent (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE child PARTITION OF parent FOR VALUES FROM (0) TO (100000);

-- Deletes
CREATE TABLE plain (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('plain', 20000) \g /dev/null
DELETE FROM plain WHERE id % 10 = 0;
SELECT swept('unique', 'plain_pkey', 2000);
DELETE FROM plain WHERE id % 10 = 1;
SELECT swept('unique, the second time', 'plain_pkey', 2000);

-- Posting lists: parts of a list, and all of it
CREATE TABLE twice (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('twice', 20000) \g /dev/null
CREATE INDEX twice_k ON twice (k);
CREATE INDEX twice_not ON twice (k) WITH (deduplicate_items = off);
SELECT cmp_ok(count(*), '<', 1000::bigint, 'the index has posting lists') FROM oracle.nblocks('twice_k') n, generate_series(1, n - 1) b, bt_page_items('twice_k', b);
SELECT cmp_ok(count(*), '>', 20000::bigint, 'the index without deduplication has none') FROM oracle.nblocks('twice_not') n, generate_series(1, n - 1) b, bt_page_items('twice_not', b);
DELETE FROM twice WHERE id % 10 < 3 OR k = 5;
SELECT swept('posting lists', 'twice_k', 6379);
SELECT swept('no posting lists', 'twice_not', 6379);
DELETE FROM twice WHERE id % 10 = 3;
SELECT swept('posting lists, the second time', 'twice_k', 1946);
SELECT swept('no posting lists, the second time', 'twice_not', 1946);

-- Nulls, expressions, predicates, included columns, several columns
CREATE TABLE various (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('various', 20000) \g /dev/null
UPDATE various SET k = NULL, s = NULL WHERE id % 2 = 0;
VACUUM various;
CREATE INDEX various_null ON various (k NULLS FIRST);
CREATE UNIQUE INDEX various_unique ON various (k, id);
CREATE INDEX various_expression ON various (upper(s) DESC);
CREATE INDEX various_partial ON various (id) WHERE k > 10;
CREATE INDEX various_include ON various (id) INCLUDE (s);
DELETE FROM various WHERE id % 7 = 1;
SELECT swept(name, ('various_' || name)::regclass, CASE name WHEN 'partial' THEN partial ELSE 2858 END)
FROM unnest(ARRAY['null', 'unique', 'expression', 'partial', 'include']) name,
    (SELECT count(*) AS partial FROM generate_series(1, 20000) id WHERE id % 2 = 1 AND id % 37 > 10 AND id % 7 = 1) y;

-- Other kinds of relations
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('unlogged', 5000) \g /dev/null
DELETE FROM unlogged WHERE id % 4 = 0;
SELECT swept('unlogged', 'unlogged_pkey', 1250);
CREATE TEMP TABLE temporary (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('temporary', 5000) \g /dev/null
DELETE FROM temporary WHERE id % 4 = 0;
SELECT swept('temporary', 'temporary_pkey', 1250);
INSERT INTO parent SELECT generate_series(1, 5000);
DELETE FROM parent WHERE a % 4 = 0;
SELECT swept('a partition', 'child_pkey', 1250);
CREATE MATERIALIZED VIEW matview AS SELECT id, k FROM plain;
CREATE UNIQUE INDEX matview_id ON matview (id);
UPDATE plain SET k = -1 WHERE id % 8 = 0;
REFRESH MATERIALIZED VIEW CONCURRENTLY matview;
SELECT swept('a materialized view', 'matview_id', count(*)) FROM plain WHERE k = -1;
CREATE TABLE toasted (id int, k int, s text) WITH (autovacuum_enabled = off);
ALTER TABLE toasted ALTER s SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT g, 0, repeat('x', 7000) FROM generate_series(1, 300) g;
DELETE FROM toasted WHERE id % 4 = 0;
SELECT swept('a TOAST table', indexrelid, 75 * 4) FROM pg_index, oracle.toast_of('toasted') o WHERE indrelid = o;
CREATE TABLE nothing (id int PRIMARY KEY);
SELECT is((r.pages_total, r.pages_visited, r.tuples_deleted)::text, '(1,0,0)', 'an empty index') FROM parvacuum_sweep('nothing_pkey') r;

-- Rows that are dead for other reasons
CREATE TABLE churn (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off, fillfactor = 50);
SELECT fill('churn', 5000) \g /dev/null
CREATE INDEX churn_k ON churn (k);
UPDATE churn SET k = k + 100 WHERE id % 5 = 0;
SELECT swept('updates of a key', 'churn_k', 1000);
SELECT swept('updates of a key, the other index', 'churn_pkey', 1000);
UPDATE churn SET s = s || '.' WHERE id % 5 = 1;
UPDATE churn SET s = s || '.' WHERE id % 5 = 1;
SELECT swept('HOT updates', 'churn_k', 0);
DELETE FROM churn WHERE id % 10 = 1;
SELECT swept('the end of HOT chains', 'churn_k', 500);
BEGIN;
INSERT INTO churn SELECT g, g % 37 FROM generate_series(5001, 5700) g;
UPDATE churn SET k = k + 200 WHERE id % 10 = 2;
DELETE FROM churn WHERE id % 10 = 3;
ROLLBACK;
SELECT swept('a rolled back transaction', 'churn_k', 700 + 500 + 70);
BEGIN;
SAVEPOINT s;
INSERT INTO churn SELECT g, g % 37 FROM generate_series(5001, 5700) g;
ROLLBACK TO s;
SELECT swept('a rolled back savepoint', 'churn_k', 700);
DELETE FROM churn WHERE id % 10 = 4;
SELECT untouched('deletes of our own', 'churn_k');
COMMIT;
SELECT swept('committed deletes', 'churn_k', 500);

-- Entries that a vacuum without index cleanup has left, and entries that a scan has marked
REINDEX TABLE churn;
DELETE FROM churn WHERE id % 10 = 6;
SET client_min_messages = error;
SELECT dead_items > 0 AND index_scans = 0 AS stubs FROM parvacuum_run('churn', index_cleanup => 'off') WHERE relid = 'churn'::regclass \gset
SET client_min_messages = warning;
SELECT ok(:'stubs', 'line pointers are dead');
SELECT swept('dead line pointers', 'churn_k', 500);
SELECT swept('dead line pointers, the other index', 'churn_pkey', 500);
REINDEX TABLE churn;
WITH gone AS (DELETE FROM churn WHERE k IN (3, 4, 20, 30) RETURNING 1) SELECT count(*) AS gone FROM gone \gset
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM churn WHERE k >= 0 \g /dev/null
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT cmp_ok(count(*), '>', 0::bigint, 'entries are marked as dead')
FROM oracle.nblocks('churn_k') n, generate_series(1, n - 1) b, bt_page_stats('churn_k', b) s, bt_page_items('churn_k', b) i
WHERE s.type = 'l' AND i.dead;
SELECT swept('entries marked as dead', 'churn_k', :gone);
SELECT is((SELECT string_agg(f::text, ', ') FROM oracle.check_table('churn') f), NULL, 'the table is whole');
VACUUM churn;
INSERT INTO churn SELECT g, g % 37 FROM generate_series(10001, 13000) g;
SELECT is((SELECT string_agg(f::text, ', ') FROM oracle.check_table('churn') f), NULL, 'the table is whole after a vacuum and new rows');

SELECT * FROM finish();
DROP SCHEMA t CASCADE;
DROP SCHEMA oracle CASCADE;
