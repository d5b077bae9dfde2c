-- New rows find the free space after a vacuum, also where the free space map of the table
-- has more than one page, because then it is searched from its upper levels.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parvacuum;
RESET client_min_messages;

-- One row on each page
CREATE UNLOGGED TABLE plain_0 (id int, pad text) WITH (autovacuum_enabled = off);
ALTER TABLE plain_0 ALTER pad SET STORAGE PLAIN;
INSERT INTO plain_0 SELECT i, repeat('x', 5000) FROM generate_series(1, 4200) i;
CREATE UNLOGGED TABLE plain_2 (LIKE plain_0 INCLUDING ALL) WITH (autovacuum_enabled = off);
CREATE UNLOGGED TABLE index_0 (LIKE plain_0 INCLUDING ALL) WITH (autovacuum_enabled = off);
CREATE UNLOGGED TABLE index_2 (LIKE plain_0 INCLUDING ALL) WITH (autovacuum_enabled = off);
INSERT INTO plain_2 SELECT * FROM plain_0;
INSERT INTO index_0 SELECT * FROM plain_0;
INSERT INTO index_2 SELECT * FROM plain_0;
CREATE INDEX ON index_0 (id);
CREATE INDEX ON index_2 (id);

-- Without indexes, and with one, in one index scan and in several
DELETE FROM plain_0 WHERE id <= 1000;
DELETE FROM plain_2 WHERE id <= 1000;
DELETE FROM index_0 WHERE id <= 1000;
DELETE FROM index_2 WHERE id <= 1000;
SELECT tuples_removed FROM parvacuum_run('plain_0', workers => 0) WHERE relid = 'plain_0'::regclass;
SELECT tuples_removed FROM parvacuum_run('plain_2', workers => 2) WHERE relid = 'plain_2'::regclass;
SELECT tuples_removed, index_scans FROM parvacuum_run('index_0', workers => 0) WHERE relid = 'index_0'::regclass;
SET parvacuum.store_limit = 1;
SELECT tuples_removed, index_scans > 1 AS some FROM parvacuum_run('index_2', workers => 2) WHERE relid = 'index_2'::regclass;
RESET parvacuum.store_limit;

INSERT INTO plain_0 SELECT i, repeat('x', 5000) FROM generate_series(1, 1000) i;
INSERT INTO plain_2 SELECT i, repeat('x', 5000) FROM generate_series(1, 1000) i;
INSERT INTO index_0 SELECT i, repeat('x', 5000) FROM generate_series(1, 1000) i;
INSERT INTO index_2 SELECT i, repeat('x', 5000) FROM generate_series(1, 1000) i;
SELECT t, pg_relation_size(t) / current_setting('block_size')::int AS pages
FROM unnest(ARRAY['plain_0', 'plain_2', 'index_0', 'index_2']::regclass[]) t;
DROP TABLE plain_0, plain_2, index_0, index_2;

-- The same for the pages of a B-tree.  Deleted pages are free when a later vacuum finds
-- them, after another transaction.
CREATE UNLOGGED TABLE entries (id int) WITH (autovacuum_enabled = off);
INSERT INTO entries SELECT generate_series(1, 50000);
CREATE INDEX entries_id ON entries (id);
SET parvacuum.enabled = on;
DELETE FROM entries WHERE id <= 30000;
VACUUM (PARALLEL 2, INDEX_CLEANUP on) entries;
DELETE FROM entries WHERE id = 30001;
VACUUM (PARALLEL 2, INDEX_CLEANUP on) entries;
SELECT pg_relation_size('entries_id') / current_setting('block_size')::int AS pages \gset
INSERT INTO entries SELECT generate_series(50001, 80000);
SELECT pg_relation_size('entries_id') / current_setting('block_size')::int - :pages < 20 AS few_new_pages;
DROP TABLE entries;
