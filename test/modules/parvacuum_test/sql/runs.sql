-- The table of runs: which caller gets a place, when it is free again, and which process is
-- signalled for a table.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on

-- three places; callers 1.. of roles 100 and 200 in database 5, leaders 11..
SELECT parvacuum_test_runs(3);
SELECT 'one role gets two of three places', parvacuum_test_run_enter(1, 5, 100, false, 1000), parvacuum_test_run_enter(2, 5, 100, false, 1000),
    parvacuum_test_run_enter(3, 5, 100, false, 1000);
SELECT 'another gets the third place, the last one', parvacuum_test_run_enter(4, 6, 200, false, 1000), parvacuum_test_run_enter(5, 5, 100, false, 1000),
    parvacuum_test_run_enter(5, 5, 300, true, 1000);

-- a place is free when both have given it up
SELECT 'leaders come', parvacuum_test_run_attach(11, 1), parvacuum_test_run_attach(12, 2), parvacuum_test_run_attach(14, 3);
SELECT parvacuum_test_run_leave(1, 1);
SELECT 'the caller has left, the leader not', parvacuum_test_run_enter(5, 5, 200, false, 1000);
SELECT parvacuum_test_run_exit(11);
SELECT 'both have', parvacuum_test_run_enter(5, 5, 200, false, 1001);
SELECT parvacuum_test_run_exit(12);
SELECT 'the leader has, its caller not', parvacuum_test_run_enter(6, 5, 300, true, 1000);
SELECT parvacuum_test_run_leave(2, 2);
SELECT 'a superuser has no share', parvacuum_test_run_enter(6, 5, 300, true, 1000);
SELECT 'a leader whose run is over, or was another one', parvacuum_test_run_attach(12, 2), parvacuum_test_run_attach(12, 99);

-- which run is at a table: 3 in database 6, 4 and 5 in 5
SELECT 'before they come', parvacuum_test_runs_find(5, 1000), parvacuum_test_runs_find(5, 1001);
SELECT parvacuum_test_run_attach(15, 4), parvacuum_test_run_attach(16, 5);
SELECT 'by the table that was named', parvacuum_test_runs_find(5, 1001), parvacuum_test_runs_find(6, 1000), parvacuum_test_runs_find(5, 0);
SELECT parvacuum_test_run_at(15, 2000), parvacuum_test_run_at(16, 2001, 2000);
SELECT 'by the table at hand, and by that of a TOAST table', parvacuum_test_runs_find(5, 2000), parvacuum_test_runs_find(5, 2001), parvacuum_test_runs_find(6, 2000);
SELECT 'a cancel', parvacuum_test_run_cancel(4, 5, 2000), parvacuum_test_run_cancel(5, 5, 2000), parvacuum_test_run_cancel(5, 5, 2001), parvacuum_test_run_cancel(4, 0, 0);
SELECT 'another database, table, or run', parvacuum_test_run_cancel(4, 6, 2000), parvacuum_test_run_cancel(4, 5, 2001), parvacuum_test_run_cancel(1, 5, 2000), parvacuum_test_run_cancel(99, 5, 2000);
SELECT parvacuum_test_run_at(15, 0);
SELECT 'at another table by then', parvacuum_test_run_cancel(4, 5, 2000), parvacuum_test_runs_find(5, 2000);
SELECT 'by process', parvacuum_test_runs_process(15), parvacuum_test_runs_process(11), parvacuum_test_runs_process(0);
SELECT parvacuum_test_run_exit(15);
SELECT 'gone', parvacuum_test_run_cancel(4, 5, 1001), parvacuum_test_run_cancel(4, 0, 0), parvacuum_test_runs_process(15);

-- with one place any role can have it; with none no role can
SELECT parvacuum_test_runs(1);
SELECT 'one', parvacuum_test_run_enter(1, 5, 100, false, 1000), parvacuum_test_run_enter(2, 5, 200, false, 1000);
SELECT parvacuum_test_runs(0);
SELECT 'none', parvacuum_test_run_enter(1, 5, 100, true, 1000);
SELECT parvacuum_test_runs(1000);
SELECT 'no more than there is room for', count(*), max(n) FROM (SELECT parvacuum_test_run_enter(i, 5, 100, true, 1000) n FROM generate_series(1, 300) i) x WHERE n > 0;
