-- The calling statement shows the blocks and the WAL of the whole run.
\ir common.psql
SELECT count(*) = 1 AS preloaded FROM regexp_split_to_table(current_setting('shared_preload_libraries'), '\s*,\s*') l WHERE l = 'pg_stat_statements' \gset
\if :preloaded
CREATE EXTENSION IF NOT EXISTS pg_stat_statements;
SELECT plan(12);

CREATE TABLE a (x int, y varchar(100)) WITH (autovacuum_enabled = off);
CREATE INDEX ON a (x);
CREATE INDEX ON a (y);
INSERT INTO a SELECT g, md5(g::text) FROM generate_series(1, 50000) g;
DELETE FROM a WHERE x % 3 = 0;
CHECKPOINT;
SELECT pg_stat_statements_reset() \g /dev/null
CREATE TABLE r AS SELECT * FROM parvacuum_run('a', workers => 2);
CREATE VIEW s AS SELECT * FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database());

-- A little more than the row shows, because the background leader also reads catalogs
SELECT is(count(*), 1::bigint, 'one statement') FROM s WHERE query LIKE 'CREATE TABLE r AS%';
SELECT cmp_ok(shared_blks_hit + shared_blks_read, '>=', buffers_hit + buffers_read, 'blocks') FROM s, r WHERE query LIKE 'CREATE TABLE r AS%';
SELECT cmp_ok(shared_blks_hit + shared_blks_read, '<', 2 * (buffers_hit + buffers_read), 'blocks, counted once') FROM s, r WHERE query LIKE 'CREATE TABLE r AS%';
SELECT cmp_ok(shared_blks_dirtied, '>=', buffers_dirtied, 'blocks dirtied') FROM s, r WHERE query LIKE 'CREATE TABLE r AS%';
SELECT cmp_ok(s.wal_records, '>=', r.wal_records, 'WAL records') FROM s, r WHERE query LIKE 'CREATE TABLE r AS%';
SELECT cmp_ok(s.wal_records, '<', 2 * r.wal_records, 'WAL records, counted once') FROM s, r WHERE query LIKE 'CREATE TABLE r AS%';
SELECT cmp_ok(s.wal_bytes, '>=', r.wal_bytes, 'WAL bytes') FROM s, r WHERE query LIKE 'CREATE TABLE r AS%';
SELECT cmp_ok(r.wal_records, '>', pages_total, 'the run has read blocks and written WAL') FROM r;

DELETE FROM a WHERE x % 3 = 1;
SELECT parvacuum_run('a', workers => 2) \g /dev/null
SELECT cmp_ok(s.wal_records, '>', pages_total, 'SELECT: WAL records') FROM s, r WHERE query LIKE 'SELECT parvacuum_run%';
INSERT INTO a SELECT g, md5(g::text) FROM generate_series(1, 50000) g;
DELETE FROM a WHERE x % 3 = 0;
CALL parvacuum('a', workers => 2);
SELECT cmp_ok(s.wal_records, '>', pages_total, 'CALL: WAL records') FROM s, r WHERE query LIKE 'CALL parvacuum%';
SELECT cmp_ok(shared_blks_hit + shared_blks_read, '>', pages_total, 'CALL: blocks') FROM s, r WHERE query LIKE 'CALL parvacuum%';

-- So does EXPLAIN.
CREATE FUNCTION explained() RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    j json;
BEGIN
    SELECT y INTO j FROM dblink('e', 'EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT json) SELECT parvacuum_run(''a'', disable_page_skipping => true)') x(y json);
    RETURN j;
END $$;
SELECT connect('e') \g /dev/null
SELECT cmp_ok((j->0->'Plan'->>'Shared Hit Blocks')::bigint + (j->0->'Plan'->>'Shared Read Blocks')::bigint, '>', pages_total, 'EXPLAIN: blocks')
FROM r, explained() j;
SELECT dblink_disconnect('e') \g /dev/null
\else
SELECT plan(1);
SELECT skip('pg_stat_statements is not preloaded', 1);
\endif

SELECT * FROM finish();
DROP SCHEMA t CASCADE;
