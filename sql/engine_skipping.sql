-- Which pages are read, by the visibility map: the rule that docs/internals.md describes
-- under "What is read".  Samples of skipped pages are read in the last part only; before,
-- the numbers are those of the rule.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parvacuum;
CREATE EXTENSION IF NOT EXISTS pg_visibility;
RESET client_min_messages;
SET parvacuum.sample_pages = 0;

-- One row on each page, with room for another version of it.  Unlogged, so that no page
-- is frozen because its image is logged.
CREATE UNLOGGED TABLE pages (id int, v int, pad text) WITH (autovacuum_enabled = off, fillfactor = 10);
ALTER TABLE pages ALTER pad SET STORAGE PLAIN;
CREATE FUNCTION fill(n int) RETURNS void LANGUAGE sql AS $$
    TRUNCATE pages;
    INSERT INTO pages SELECT i, 0, repeat('x', 700) FROM generate_series(1, n) i;
$$;
CREATE VIEW map AS
    SELECT count(*) AS pages, count(*) FILTER (WHERE all_visible) AS all_visible, count(*) FILTER (WHERE all_frozen) AS all_frozen
    FROM pg_visibility_map('pages');

-- All pages are frozen except every tenth: runs of nine pages are skipped, which core
-- reads.
SELECT fill(3000);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT * FROM map;
SELECT pages_scanned, tuples_removed, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
SELECT * FROM map;
SELECT fill(3000);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT pages_scanned, tuples_removed, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 2) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id % 10 = 0;
SELECT pg_current_xact_id() \g /dev/null
SET parvacuum.shortest_skip = 32;
SELECT pages_scanned, tuples_removed, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET parvacuum.shortest_skip;
UPDATE pages SET v = 3 WHERE id % 10 = 0;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0, disable_page_skipping => true) WHERE relid = 'pages'::regclass;

-- Single pages are skipped if half of all pages may be.
SELECT fill(3000);
VACUUM (FREEZE) pages;
UPDATE pages SET v = 1 WHERE id % 2 = 1;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
-- If fewer may be, runs of three are skipped, and two pages between others are read.
SELECT fill(3000);
VACUUM (FREEZE) pages;
UPDATE pages SET v = 1 WHERE id % 12 NOT IN (0, 1, 6, 7, 8);
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- A hundred consecutive pages are not frozen; the row that holds back relfrozenxid is on
-- a page that was changed.  The hundred pages are few beside those that have to be read,
-- so relfrozenxid advances at little cost.  Core skips them.
SELECT fill(3000);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 1 WHERE id = 1;
UPDATE pages SET v = 1 WHERE id BETWEEN 101 AND 200;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id = 1 OR id > 200;
SELECT * FROM map;
SET parvacuum.shortest_skip = 32;
SELECT pages_scanned, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET parvacuum.shortest_skip;
UPDATE pages SET v = 3 WHERE id = 1 OR id > 200;
SELECT pages_scanned, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- Multixacts on pages that are skipped hold back relminmxid.
SELECT fill(3000);
VACUUM (FREEZE) pages;
BEGIN;
SELECT count(*) FROM (SELECT FROM pages WHERE id BETWEEN 101 AND 200 FOR KEY SHARE) locked;
SAVEPOINT s;
SELECT count(*) FROM (SELECT FROM pages WHERE id BETWEEN 101 AND 200 FOR SHARE) locked;
COMMIT;
UPDATE pages SET v = 1 WHERE id = 1;
SELECT * FROM map;
SET parvacuum.shortest_skip = 32;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET parvacuum.shortest_skip;
SELECT relminmxid::text::bigint <= (SELECT min(xmax::text::bigint) FROM pages WHERE id BETWEEN 101 AND 200) AS covered
FROM pg_class WHERE relname = 'pages';

-- Nearly all pages are not frozen.  Reading them to advance relfrozenxid would cost much,
-- and they are skipped, in short runs, too; core reads them.
SELECT fill(3000);
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT * FROM map;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id % 10 = 0;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 2) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 3 WHERE id % 10 = 0;
SET parvacuum.shortest_skip = 32;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET parvacuum.shortest_skip;

-- An aggressive vacuum reads them at any cost, and skips frozen pages.
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 4 WHERE id <= 1500;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 5 WHERE id % 500 = 0;
SET vacuum_freeze_table_age = 0;
SELECT * FROM map;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET vacuum_freeze_table_age;

-- Some megabytes are not frozen, more than an eighth of the pages that have to be read.
-- The rule of core applies to them: read in short runs, skipped in long ones.
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 6 WHERE id = 1;
UPDATE pages SET v = 6 WHERE id % 6 = 0;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 7 WHERE id % 20 = 1;
SELECT * FROM map;
SELECT pages_scanned, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 8 WHERE id % 50 = 1;
SELECT pages_scanned, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- In a table of up to 8 MB the rule of core applies, for exact counts.
SELECT fill(1000);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT pages_scanned, tuples_remaining FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id % 50 = 0;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- Frozen pages are skipped at the end, too, except for the last one.
SELECT fill(3000);
VACUUM (FREEZE) pages;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- A store that is full at each border between segments: the block that is put back, and those
-- after it, are decided about again.  No page with a dead row is skipped with its neighbours.
SELECT fill(3000);
CREATE INDEX ON pages (id);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
DELETE FROM pages WHERE id % 10 = 0;
SET parvacuum.store_limit = 0;
SELECT pages_scanned, tuples_removed, index_scans > 20 AS many, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
DELETE FROM pages WHERE id % 10 = 3 OR id % 10 = 5;
SELECT pages_scanned, tuples_removed, index_scans > 5 AS many, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 2) WHERE relid = 'pages'::regclass;
SELECT * FROM map;
RESET parvacuum.store_limit;
DROP INDEX pages_id_idx;

-- A sample of the pages in short runs is read to count rows: of the 2700 pages here about
-- one of seven.  Others are left out, so relfrozenxid does not advance where they are not
-- frozen.
RESET parvacuum.sample_pages;
SELECT fill(3000);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT pages_scanned BETWEEN 301 + 150 AND 301 + 450 AS a_sample, tuples_remaining FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
SELECT fill(3000);
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT pages_scanned BETWEEN 301 + 150 AND 301 + 450 AS a_sample, tuples_remaining, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id % 10 = 0;
SELECT pages_scanned BETWEEN 301 + 150 AND 301 + 900 AS a_sample, tuples_remaining, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 2) WHERE relid = 'pages'::regclass;

SELECT * FROM pg_check_visible('pages');
SELECT * FROM pg_check_frozen('pages');
SET parvacuum.shortest_skip = -1;
DROP TABLE pages CASCADE;
DROP FUNCTION fill(int);
