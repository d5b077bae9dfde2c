-- Which pages are read, by the visibility map: the rule that docs/internals.md states under
-- "What is read".  Everything is in shared buffers, where nothing is read and
-- measured, so a jump never costs anything.  A sample of what is skipped is read in
-- the last part only: before, the numbers are to be those of the rule.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS parvacuum;
CREATE EXTENSION IF NOT EXISTS pg_visibility;
RESET client_min_messages;
SET parvacuum.sample_pages = 0;

-- one row a page, with room for another version of it; not logged, so that no
-- page is frozen for the sake of its image
CREATE UNLOGGED TABLE pages (id int, v int, pad text) WITH (autovacuum_enabled = off, fillfactor = 10);
ALTER TABLE pages ALTER pad SET STORAGE PLAIN;
CREATE FUNCTION fill(n int) RETURNS void LANGUAGE sql AS $$
    TRUNCATE pages;
    INSERT INTO pages SELECT i, 0, repeat('x', 700) FROM generate_series(1, n) i;
$$;
CREATE VIEW map AS
    SELECT count(*) AS pages, count(*) FILTER (WHERE all_visible) AS all_visible, count(*) FILTER (WHERE all_frozen) AS all_frozen
    FROM pg_visibility_map('pages');

-- All is frozen but every tenth page: nine in a row are skipped, which core reads.
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
SET parvacuum.skip_rule = 'core';
SELECT pages_scanned, tuples_removed, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET parvacuum.skip_rule;
UPDATE pages SET v = 3 WHERE id % 10 = 0;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0, disable_page_skipping => true) WHERE relid = 'pages'::regclass;

-- A hundred pages in a row are not frozen; the row that holds relfrozenxid back
-- is on a page that was changed.  The hundred are few beside those that have to be
-- read, so relfrozenxid advances at little cost.  Core skips them.
SELECT fill(3000);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 1 WHERE id = 1;
UPDATE pages SET v = 1 WHERE id BETWEEN 101 AND 200;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id = 1 OR id > 200;
SELECT * FROM map;
SET parvacuum.skip_rule = 'core';
SELECT pages_scanned, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET parvacuum.skip_rule;
UPDATE pages SET v = 3 WHERE id = 1 OR id > 200;
SELECT pages_scanned, relfrozenxid_advanced FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- Nearly all pages are not frozen.  Reading them to advance relfrozenxid would
-- cost much, and they are skipped, in short runs too; core reads them.
SELECT fill(3000);
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT * FROM map;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id % 10 = 0;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 2) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 3 WHERE id % 10 = 0;
SET parvacuum.skip_rule = 'core';
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET parvacuum.skip_rule;

-- An aggressive vacuum reads them, whatever it costs, and skips what is frozen.
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 4 WHERE id <= 1500;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 5 WHERE id % 500 = 0;
SET vacuum_freeze_table_age = 0;
SELECT * FROM map;
SELECT pages_scanned, tuples_removed FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
RESET vacuum_freeze_table_age;

-- Some megabytes are not frozen, more than an eighth of what has to be read.
-- Core's rule holds for them: read in short runs, skipped in long ones.
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

-- In a table of up to 8 MB core's rule holds, for exact counts.
SELECT fill(1000);
VACUUM (FREEZE) pages;
SELECT pg_current_xact_id() \g /dev/null
UPDATE pages SET v = 1 WHERE id % 10 = 0;
SELECT pages_scanned, tuples_remaining FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;
UPDATE pages SET v = 2 WHERE id % 50 = 0;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- Frozen pages are skipped at the end too, but for the last.
SELECT fill(3000);
VACUUM (FREEZE) pages;
SELECT pages_scanned FROM parvacuum_run('pages', workers => 0) WHERE relid = 'pages'::regclass;

-- A sample of the pages in short runs is read to count rows: of the 2700 here all, until
-- some have shown that they are alike, and then one of thirteen.  Others are left out, so
-- relfrozenxid stays where they are not frozen.
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
SET parvacuum.skip_rule = 'none';
DROP TABLE pages CASCADE;
DROP FUNCTION fill(int);
