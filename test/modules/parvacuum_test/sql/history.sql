-- The history and the totals as data: which records remain, and what becomes of them in a
-- file.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on

-- which relation has which place
SELECT parvacuum_test_lru(3, 'abcabc');
SELECT 'the least recently used one goes', parvacuum_test_lru(3, 'abcadabca');
SELECT 'one place', parvacuum_test_lru(1, 'aabba');
SELECT 'the group with most places gives up one', parvacuum_test_lru(4, 'abcAdeBfCg');
SELECT 'one group has all', parvacuum_test_lru(3, 'abcABCd');
SELECT parvacuum_test_lru_random(capacity, relations, 20000, groups)
FROM (VALUES (1, 3, 1), (2, 3, 2), (10, 9, 3), (10, 30, 1), (10, 30, 3), (100, 120, 7), (7, 300, 100)) x(capacity, relations, groups);

-- three vacuums, so twelve indexes; two tables, so six indexes with totals
SELECT parvacuum_test_records(3, 2);
SELECT parvacuum_test_records_show();
SELECT parvacuum_test_records_add(4, 2, 11);
SELECT parvacuum_test_records_add(5, 0, 12);
SELECT 'done, and canceled', parvacuum_test_records_show();
SELECT parvacuum_test_records_add(4, 2, 13);
SELECT parvacuum_test_records_add(6, 1, 14);
SELECT 'the first one goes; an error', parvacuum_test_records_show();
SELECT parvacuum_test_records_add(8, 10, 15);
SELECT 'many indexes', parvacuum_test_records_show();

-- what did nothing is one row, for each table and way to end; its indexes are those of the last
SELECT parvacuum_test_records(4, 2), parvacuum_test_records_add(4, 1, 11, 3, removed => 0), parvacuum_test_records_show();
SELECT 'an error of it, twice', parvacuum_test_records_add(6, 1, 12, 2, removed => 0), parvacuum_test_records_add(4, 1, 13), parvacuum_test_records_add(4, 0, 14, removed => 0), parvacuum_test_records_show();
SELECT parvacuum_test_records_reload(4, 2), parvacuum_test_records_show();

-- owners, and failures, take places from those with more only
SELECT parvacuum_test_records(6, 3), parvacuum_test_records_add(4, 1, 11), parvacuum_test_records_add(8, 1, 12), parvacuum_test_records_add(6, 1, 13);
SELECT 'a flood', count(parvacuum_test_records_add((100 + 4 * i)::oid, 2, 20 + i, owner => 11)) FROM generate_series(0, 99) i;
SELECT parvacuum_test_records_show();
SELECT parvacuum_test_records_reload(3, 2), parvacuum_test_records_show();

-- a restart
SELECT parvacuum_test_records(3, 2), parvacuum_test_records_add(4, 2, 11), parvacuum_test_records_add(8, 10, 15), parvacuum_test_records_add(6, 1, 15);
SELECT parvacuum_test_records_reload(3, 2), parvacuum_test_records_show();
SELECT parvacuum_test_records_add(7, 1, 16);
SELECT 'it goes on', parvacuum_test_records_show();
SELECT 'larger', parvacuum_test_records_reload(10, 10), parvacuum_test_records_show();
SELECT parvacuum_test_records_add(7, 1, 17, 2);
SELECT 'smaller', parvacuum_test_records_reload(2, 1), parvacuum_test_records_show();
SELECT 'only totals', parvacuum_test_records_reload(0, 2), parvacuum_test_records_show();
SELECT parvacuum_test_records_add(9, 1, 18);
SELECT 'only a history', parvacuum_test_records_reload(2, 0), parvacuum_test_records_show();
SELECT parvacuum_test_records_add(9, 1, 19);
SELECT 'as much as there was', parvacuum_test_records_show();

-- a reset, also before a restart
SELECT parvacuum_test_records(3, 2), parvacuum_test_records_add(4, 1, 11, 5);
SELECT parvacuum_test_records_reset(true, false), parvacuum_test_records_show();
SELECT parvacuum_test_records_add(4, 1, 12), parvacuum_test_records_show();
SELECT parvacuum_test_records_reload(3, 2), parvacuum_test_records_show();
SELECT parvacuum_test_records_reset(false, true), parvacuum_test_records_show();
SELECT parvacuum_test_records_add(4, 1, 13), parvacuum_test_records_show();

-- files that are damaged, or of others
SELECT parvacuum_test_records_damage();
SELECT parvacuum_test_records_reload(3, 2, 43);
SELECT parvacuum_test_records_show();
SELECT parvacuum_test_records_endless();
SELECT parvacuum_test_records(3, 2), parvacuum_test_records_number(-2), parvacuum_test_records_reload(3, 2);

-- sweeps: they are in the history, leave a mark if they are completed, and add nothing to the
-- totals of vacuums
SELECT parvacuum_test_records(3, 2), parvacuum_test_records_add(4, 1, 11);
SELECT 'no sweep', parvacuum_test_records_mark(4), parvacuum_test_records_mark(5);
SELECT parvacuum_test_records_sweep(4, 2, 12, 1000, true, true), parvacuum_test_records_mark(4), parvacuum_test_records_show();
SELECT 'an error', parvacuum_test_records_sweep(4, 0, 13, 2000, false, false), parvacuum_test_records_mark(4), parvacuum_test_records_show();
SELECT 'a vacuum', parvacuum_test_records_add(4, 3, 14), parvacuum_test_records_mark(4);
SELECT 'a restart', parvacuum_test_records_reload(3, 2), parvacuum_test_records_mark(4), parvacuum_test_records_show();
SELECT 'another sweep', parvacuum_test_records_sweep(4, 4, 15, 3000, false, true), parvacuum_test_records_mark(4);
SELECT 'to look is no use of it', parvacuum_test_records_sweep(5, 1, 16, 7, false, true), parvacuum_test_records_mark(4), parvacuum_test_records_add(8, 0, 17), parvacuum_test_records_mark(4);
SELECT 'others have all places', parvacuum_test_records_mark(5), parvacuum_test_records_mark(8), parvacuum_test_records_mark(9);
SELECT 'a reset', parvacuum_test_records_reset(false, true), parvacuum_test_records_mark(5);
SELECT 'no totals', parvacuum_test_records(3, 0), parvacuum_test_records_sweep(4, 1, 18, 1000, true, true), parvacuum_test_records_mark(4);
