-- Options in CREATE TABLE, CREATE TABLE AS, CREATE SCHEMA and LIKE, and other statements that
-- create tables at the same time.
\ir common.psql
\ir options.psql
\ir options_tables.psql

SELECT plan(80);

CREATE TABLE parent (x int) WITH (parvacuum.enabled, parvacuum.workers = 2, parvacuum.buffer_usage_limit = 128);

-- CREATE TABLE
CREATE TABLE c1 (x int) WITH (parvacuum.enabled);
CREATE TABLE c2 (x int) WITH (parvacuum.workers = 2, fillfactor = 80, parvacuum.enabled = off,
    parvacuum.buffer_usage_limit = '2MB');
CREATE TABLE IF NOT EXISTS c3 (x int) WITH (parvacuum.workers = 3);
CREATE UNLOGGED TABLE c4 (x int) WITH (parvacuum.workers = 4);
CREATE TABLE c5 (x serial PRIMARY KEY, y text UNIQUE, z bigint GENERATED ALWAYS AS IDENTITY, CHECK (x > 0))
    WITH (parvacuum.workers = 55, toast.autovacuum_enabled = off);
CREATE TYPE row_type AS (x int, y text);
CREATE TABLE c6 OF row_type WITH (parvacuum.workers = 6);
CREATE TABLE c7 (x int) PARTITION BY LIST (x) WITH (parvacuum.workers = 7);
CREATE TABLE c8 () INHERITS (parent) WITH (parvacuum.workers = 8);
CREATE TABLE c9 (x int REFERENCES c5) WITH (parvacuum.workers = 9);
CREATE TABLE c10 (x int) WITH (fillfactor = 80);
CREATE TABLE c12 (x int) WITH (parvacuum.window = 'monday 1:00-2:00, 3:00-4:00', fillfactor = 80);
SELECT is(format('%s | %s', label(rel), reloptions(rel)), options, rel)
FROM (VALUES ('c1', 'enabled=true | '), ('c2', 'buffer_usage_limit=2048, enabled=false, workers=2 | fillfactor=80'),
    ('c3', 'workers=3 | '), ('c4', 'workers=4 | '),
    ('c5', 'workers=55 | '), ('c6', 'workers=6 | '), ('c7', 'workers=7 | '), ('c8', 'workers=8 | '),
    ('c9', 'workers=9 | '), ('c10', ' | fillfactor=80'),
    ('c12', 'window="Mon 01:00-02:00, 03:00-04:00" | fillfactor=80')) x(rel, options);
SELECT is((SELECT relpersistence FROM pg_class WHERE oid = 'c4'::regclass), 'u', 'an unlogged table is unlogged');
SELECT is(array_agg(objoid::regclass::text ORDER BY objoid::regclass::text), ARRAY['c5'],
    'the table gets the label, but not its sequences, indexes or TOAST table')
FROM pg_seclabel WHERE provider = 'parvacuum' AND label = 'workers=55';
CREATE TABLE IF NOT EXISTS c1 (x int) WITH (parvacuum.workers = 9);
CREATE TABLE IF NOT EXISTS c10 (x int) WITH (parvacuum.workers = 9);
SELECT is(label('c1'), 'enabled=true', 'IF NOT EXISTS does not change the options of an existing table');
SELECT is(label('c10'), NULL, 'IF NOT EXISTS sets no options of an existing table');
CREATE TABLE c11 (x int);
SELECT is(label('c11'), NULL, 'the next table does not get these options');

-- Tables that the engine declines
CREATE TEMP TABLE temporary (x int) WITH (parvacuum.enabled, parvacuum.workers = 2);
SELECT is(holds('temporary'), 't table, 2 table, 16384 default', 'a temporary table');
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'temporary'::regclass), 'The table is temporary.',
    'a temporary table is declined');
ALTER TABLE temporary RESET (parvacuum.enabled);
SELECT is(holds('temporary'), 'f default, 2 table, 16384 default', 'ALTER of a temporary table');
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'temporary'::regclass), NULL,
    'a table that did not opt in is not declined');
DROP ACCESS METHOD IF EXISTS pv_heap;
CREATE ACCESS METHOD pv_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE of_method (x int) USING pv_heap WITH (parvacuum.enabled);
SELECT is((SELECT declined FROM parvacuum_tables WHERE relid = 'of_method'::regclass),
    'The table does not use the access method heap.', 'another access method is declined');
DROP TABLE of_method;
DROP ACCESS METHOD pv_heap;
BEGIN;
CREATE TEMP TABLE short (x int) WITH (parvacuum.enabled) ON COMMIT DROP;
SELECT 'short'::regclass::oid AS short \gset
SELECT is(label('short'), 'enabled=true', 'a temporary table that COMMIT drops');
COMMIT;
SELECT is((SELECT count(*) FROM pg_seclabel WHERE objoid = :short), 0::bigint, 'COMMIT drops the label, too');

-- CREATE TABLE AS
PREPARE q AS SELECT 1 AS x;
CREATE TABLE as1 WITH (parvacuum.workers = 1) AS SELECT 1 AS x;
CREATE TABLE as2 WITH (parvacuum.workers = 2, fillfactor = 80) AS SELECT g AS x, g::text
FROM generate_series(1, 10) g WITH NO DATA;
CREATE TABLE as3 WITH (parvacuum.workers = 3) AS EXECUTE q;
CREATE TABLE as4 WITH (parvacuum.workers = 4) AS TABLE as1;
CREATE TABLE as5 WITH (parvacuum.workers = 5) AS VALUES (1), (2);
CREATE TABLE IF NOT EXISTS as6 WITH (parvacuum.workers = 6) AS SELECT 1 AS x;
CREATE UNLOGGED TABLE as7 WITH (parvacuum.workers = 7) AS SELECT 1 AS x;
CREATE TEMP TABLE as8 WITH (parvacuum.workers = 8) AS SELECT 1 AS x;
EXPLAIN (ANALYZE, COSTS OFF) CREATE TABLE as9 WITH (parvacuum.workers = 9) AS SELECT 1 AS x \g /dev/null
EXPLAIN ANALYZE CREATE TABLE as10 WITH (parvacuum.workers = 10) AS EXECUTE q \g /dev/null
CREATE MATERIALIZED VIEW as11 WITH (parvacuum.workers = 11, fillfactor = 80) AS SELECT 1 AS x;
CREATE MATERIALIZED VIEW IF NOT EXISTS as12 WITH (parvacuum.workers = 12) AS SELECT 1 AS x WITH NO DATA;
EXPLAIN ANALYZE CREATE MATERIALIZED VIEW as13 WITH (parvacuum.workers = 13) AS SELECT 1 AS x \g /dev/null
SELECT is(label('as' || n), 'workers=' || n, 'CREATE TABLE AS: as' || n) FROM generate_series(1, 13) n;
SELECT is(reloptions(rel), 'fillfactor=80', rel || ': core''s option') FROM unnest(ARRAY['as2', 'as11']) rel;
SELECT is((SELECT count(*) FROM as1), 1::bigint, 'CREATE TABLE AS: the data');
SELECT is((SELECT count(*) FROM as2), 0::bigint, 'CREATE TABLE AS: no data');
CREATE TABLE IF NOT EXISTS as1 WITH (parvacuum.workers = 9) AS SELECT 1 AS x;
EXPLAIN ANALYZE CREATE TABLE IF NOT EXISTS as2 WITH (parvacuum.workers = 9) AS SELECT 1 AS x \g /dev/null
CREATE MATERIALIZED VIEW IF NOT EXISTS as11 WITH (parvacuum.workers = 9) AS SELECT 1 AS x;
SELECT is(label('as' || n), 'workers=' || n, 'IF NOT EXISTS does not change the options of as' || n) FROM unnest(ARRAY[1, 2, 11]) n;
EXPLAIN CREATE TABLE planned WITH (parvacuum.workers = 9) AS SELECT 1 AS x \g /dev/null
SELECT is(to_regclass('planned'), NULL, 'EXPLAIN creates nothing');
CREATE TABLE plain AS SELECT 1 AS x;
SELECT * INTO plain_into FROM plain;
SELECT is(label(rel), NULL, 'the next table does not get these options: ' || rel) FROM unnest(ARRAY['plain', 'plain_into']) rel;

-- Queries that create tables
CREATE TABLE outer1 WITH (parvacuum.workers = 1) AS SELECT creates(1);
CREATE TABLE outer2 WITH (parvacuum.workers = 2) AS SELECT creates_early(2);
CREATE MATERIALIZED VIEW outer3 WITH (parvacuum.workers = 3) AS SELECT creates_early(3);
EXPLAIN ANALYZE CREATE TABLE outer4 WITH (parvacuum.workers = 4) AS SELECT creates_early(4) \g /dev/null
EXPLAIN CREATE TABLE outer5 WITH (parvacuum.workers = 5) AS SELECT creates_early(5) \g /dev/null
SELECT is(label('outer' || n), 'workers=' || n, 'a table of a query that creates others: ' || n)
FROM generate_series(1, 4) n;
SELECT is(created(n), ARRAY[format('inner%s ', n), format('inner_as%s ', n), format('inner_mv%s ', n),
    format('inner_own%s workers=100', n)], 'the tables that the query has created: ' || n)
FROM generate_series(1, 5) n;

-- CREATE SCHEMA
CREATE SCHEMA pv_made
    CREATE TABLE without (x int)
    CREATE TABLE with_some (x serial PRIMARY KEY) WITH (parvacuum.workers = 3)
    CREATE VIEW v AS SELECT * FROM with_some
    CREATE TABLE without_either (x int);
SELECT is(label('pv_made.' || rel), label, 'CREATE SCHEMA: ' || rel)
FROM (VALUES ('without', NULL), ('with_some', 'workers=3'), ('v', NULL), ('without_either', NULL)) x(rel, label);

-- LIKE
CREATE TABLE src (x int PRIMARY KEY, y text) WITH (parvacuum.enabled, parvacuum.workers = 4, fillfactor = 70);
CREATE TABLE src2 (z int) WITH (parvacuum.buffer_usage_limit = 256);
CREATE VIEW a_view AS SELECT 1 AS x;
CREATE TYPE src3 AS (z int);
CREATE TABLE l1 (LIKE src INCLUDING ALL);
CREATE TABLE l2 (LIKE src INCLUDING ALL) WITH (parvacuum.workers = 1, fillfactor = 60);
CREATE TABLE l3 (LIKE src INCLUDING ALL, LIKE src2 INCLUDING ALL);
CREATE TABLE l4 (LIKE src, LIKE src2 INCLUDING ALL);
CREATE TABLE l5 (w int, LIKE t.src INCLUDING ALL) PARTITION BY LIST (x);
CREATE TEMP TABLE l6 (LIKE src INCLUDING ALL);
CREATE TABLE l7 (LIKE src);
CREATE TABLE l8 (LIKE src INCLUDING ALL EXCLUDING COMMENTS);
CREATE TABLE l9 (LIKE src INCLUDING ALL EXCLUDING ALL);
CREATE TABLE l10 (LIKE src INCLUDING STORAGE INCLUDING INDEXES INCLUDING DEFAULTS) WITH (parvacuum.workers = 1);
CREATE TABLE l11 (LIKE p4 INCLUDING ALL);
CREATE TABLE l12 (LIKE p21 INCLUDING ALL);
CREATE TABLE l13 (LIKE p INCLUDING ALL);
CREATE TABLE l14 (LIKE mv INCLUDING ALL);
CREATE TABLE l15 (LIKE a_view INCLUDING ALL, LIKE src3 INCLUDING ALL);
CREATE TABLE l16 (LIKE c10 INCLUDING ALL);
CREATE TABLE l17 (LIKE c12 INCLUDING ALL) WITH (parvacuum.workers = 1);
SELECT is(label('l' || n), label, 'LIKE: l' || n)
FROM (VALUES (1, 'enabled=true, workers=4'), (2, 'enabled=true, workers=1'),
    (3, 'buffer_usage_limit=256, enabled=true, workers=4'), (4, 'buffer_usage_limit=256'),
    (5, 'enabled=true, workers=4'), (6, 'enabled=true, workers=4'), (7, NULL), (8, NULL), (9, NULL), (10, 'workers=1'),
    (11, 'workers=4'), (12, NULL),
    (13, 'buffer_usage_limit=1024, enabled=true, workers=1'), (14, 'workers=2'), (15, NULL), (16, NULL),
    (17, 'window="Mon 01:00-02:00, 03:00-04:00", workers=1')) x(n, label);
SELECT is(reloptions('l2'), 'fillfactor=60', 'LIKE: core''s option');
CREATE TABLE IF NOT EXISTS l7 (LIKE src INCLUDING ALL);
SELECT is(label('l7'), NULL, 'LIKE: IF NOT EXISTS does not change an existing table');
ALTER TABLE src RESET (parvacuum.workers);
SELECT is(label('l1'), 'enabled=true, workers=4', 'LIKE is a copy');
CREATE SCHEMA pv_hides CREATE TABLE l (LIKE t.src INCLUDING ALL);
SELECT is(label('pv_hides.l'), 'enabled=true', 'LIKE in CREATE SCHEMA');

SELECT dblink_disconnect('s') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA pv_hides, pv_made CASCADE;
DROP SCHEMA t CASCADE;
