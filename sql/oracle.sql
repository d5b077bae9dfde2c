-- The other tests depend on the oracle, so this test checks that it finds each kind of
-- fault.  Stock VACUUM vacuums both twins; then one of them is damaged.
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle_sql :abs_srcdir '/test/oracle.sql'
\set ECHO none
\i :oracle_sql
CREATE EXTENSION IF NOT EXISTS pg_surgery;
\t on
\a

CREATE FUNCTION faults(ends_may_differ bool DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT coalesce(string_agg(DISTINCT what, ', ' ORDER BY what), 'none')
            FROM (SELECT what FROM oracle.compare('stock', 'ours', ends_may_differ)
                  UNION ALL SELECT what FROM oracle.check_table('ours')) f);
END $$;

-- Twins of a kind; :vacuumed vacuums both of them.
CREATE FUNCTION twins(kind text) RETURNS SETOF text
LANGUAGE sql AS $$
    SELECT oracle.make_twins(kind, 2000, ARRAY['btree', 'hash', 'gin', 'gist'], 60)
    UNION ALL SELECT 'SELECT pg_stat_force_next_flush()';
$$;
-- What this session has counted is in the statistics at once, not when a second is over.
\set counted 'SELECT pg_stat_force_next_flush() \\g /dev/null'
CREATE FUNCTION overwrite(fork text, command text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L',
                   format('cat >/dev/null; { %s; } > %s_%s', command, pg_relation_filepath('ours'), fork));
END $$;

\set both_vacuumed 'SELECT twins(:kind) UNION ALL SELECT \'VACUUM stock, ours\' \\gexec'

\echo 'twins, both vacuumed:'
\set kind '''updates'''
\o /dev/null
:both_vacuumed
\o
SELECT faults();

\echo 'one not vacuumed:'
\o /dev/null
SELECT twins('updates') \gexec
\o
VACUUM stock;
SELECT faults();

\set kind '''fifth'''
\echo 'a row gone:'
\o /dev/null
:both_vacuumed
SELECT heap_force_kill('ours', ARRAY['(3,7)'::tid]);
\o
SELECT faults();

\echo 'a row new:'
\o /dev/null
:both_vacuumed
\o
INSERT INTO ours VALUES (1);
:counted
SELECT faults();

\echo 'a row changed:'
\o /dev/null
:both_vacuumed
\o
UPDATE ours SET pad = 'changed' WHERE id = 333;
:counted
SELECT faults();

\echo 'dead line pointers that should be unused:'
\o /dev/null
SELECT twins('fifth') \gexec
\o
VACUUM stock;
VACUUM (INDEX_CLEANUP off) ours;
SELECT faults();

\echo 'pages that should have been cut off, asked for or not:'
\o /dev/null
SELECT twins('tail') \gexec
\o
VACUUM stock;
VACUUM (TRUNCATE false) ours;
SELECT faults();
SELECT faults(true);

\echo 'rows beyond the end of the twin:'
INSERT INTO ours SELECT i FROM generate_series(1, 2000) i;
:counted
SELECT faults(true);

\echo 'index entries that lead nowhere, and then to other rows:'
\o /dev/null
SELECT twins('fifth') \gexec
\o
VACUUM stock;
-- this vacuum does not know the indexes
UPDATE pg_index SET indisready = false WHERE indrelid = 'ours'::regclass;
VACUUM ours;
UPDATE pg_index SET indisready = true WHERE indrelid = 'ours'::regclass;
UPDATE pg_class SET relhasindex = true WHERE oid = 'ours'::regclass;
SELECT what, left(detail, strpos(detail, ',')) FROM oracle.check_table('ours') ORDER BY detail COLLATE "C";
SELECT faults();
SELECT what, left(detail, strpos(detail, ':')) FROM oracle.refill('ours', 2000, 60);

\echo 'index entries that are missing:'
\o /dev/null
:both_vacuumed
\o
UPDATE pg_index SET indisready = false WHERE indrelid = 'ours'::regclass;
INSERT INTO ours SELECT id + 5000, k FROM ours WHERE id < 20;
INSERT INTO stock SELECT id + 5000, k FROM stock WHERE id < 20;
UPDATE pg_index SET indisready = true WHERE indrelid = 'ours'::regclass;
SELECT faults();
SELECT what, left(detail, strpos(detail, ':')) FROM oracle.refill('ours', 2000, 60);

\echo 'a visibility map that lost its bits:'
\o /dev/null
:both_vacuumed
SELECT pg_truncate_visibility_map('ours');
\o
SELECT faults();

\echo 'a visibility map that has bits which are not true:'
\o /dev/null
SELECT twins('fifth') \gexec
VACUUM (FREEZE) stock;
VACUUM (INDEX_CLEANUP off) ours;
SELECT pg_truncate_visibility_map('ours');
CHECKPOINT;
SELECT overwrite('vm', 'printf ''\000\000\000\000\000\000\000\000\000\000\000\000\030\000\000\040\000\040\004\040\000\000\000\000''; '
                       'head -c 8168 /dev/zero | tr ''\000'' ''\377''');
\o
\c -
\o
SELECT DISTINCT what FROM oracle.check_table('ours') ORDER BY 1;

\echo 'a free space map that knows of no space:'
\set kind '''gaps'''
\o /dev/null
:both_vacuumed
CHECKPOINT;
SELECT overwrite('fsm', ':');
\o
\c -
SELECT faults();

-- in a new cluster no multixact can be older than that of the table
CREATE TABLE burnt AS SELECT 1 AS i;
\o /dev/null
SELECT format('BEGIN; SELECT FROM burnt FOR SHARE; SAVEPOINT s; UPDATE burnt SET i = %s; COMMIT', i) FROM generate_series(1, 5) i \gexec
\o
DROP TABLE burnt;

\echo 'relfrozenxid and relminmxid too old:'
\set kind '''locked'''
\o /dev/null
:both_vacuumed
\o
UPDATE pg_class SET relfrozenxid = '3', relminmxid = '1' WHERE oid = 'ours'::regclass;
SELECT faults();

\echo 'relfrozenxid too new:'
UPDATE pg_class SET relfrozenxid = pg_current_xact_id()::xid WHERE oid = 'ours'::regclass;
SELECT faults();

\echo 'wrong counts in pg_class:'
\o /dev/null
:both_vacuumed
\o
UPDATE pg_class SET reltuples = 7, relpages = 7, relallvisible = 7 WHERE oid = 'ours'::regclass;
UPDATE pg_class SET reltuples = 7 WHERE oid = 'ours_id_idx'::regclass;
SELECT faults();

\echo 'a run that says what is not so:'
INSERT INTO oracle.run VALUES ('lie', '{"pages_total": 7, "pages_removed": 0, "pages_scanned": 7, "tuples_remaining": 7}');
SET oracle.to_visit = 0;
SELECT what FROM oracle.compare_figures('lie', 'ours');

\echo 'a run that has skipped a page that it had to visit, and one that has not:'
INSERT INTO oracle.run
    SELECT 'skipped', jsonb_build_object('pages_total', oracle.nblocks(oid) + oracle.nblocks(reltoastrelid), 'pages_removed', 0, 'pages_scanned', 1, 'tuples_remaining', reltuples)
    FROM pg_class WHERE oid = 'ours'::regclass;
SET oracle.to_visit = 2;
SELECT what FROM oracle.compare_figures('skipped', 'ours');
SET oracle.to_visit = 1;
SELECT what FROM oracle.compare_figures('skipped', 'ours');

DROP TABLE stock, ours;
DROP FUNCTION faults, twins, overwrite;
