-- Several processes fill one store at the same time.  The contents do not depend on their
-- number; each process checks all of them.
SELECT workers, parvacuum_test_parallel(workers, 'mixed', 40, 1)
	= parvacuum_test_parallel(0, 'mixed', 40, 1) AS same
FROM unnest('{0,1,3}'::int[]) workers;

-- Many leaves of the directory with few entries
SELECT parvacuum_test_parallel(3, 'rare one', 4000, 2)
	= parvacuum_test_parallel(0, 'rare one', 4000, 2) AS same;
SELECT parvacuum_test_parallel(3, 'few sparse', 600, 3)
	= parvacuum_test_parallel(0, 'few sparse', 600, 3) AS same;

-- All processes run out of memory at the same moment: one makes an extent, and the
-- others take chunks from it.
SELECT workers, parvacuum_test_run_dry(workers, 20) AS extents FROM unnest('{0,1,3}'::int[]) workers;

-- What is needed regardless of the limit is needed again after each filling.  It exceeds the
-- limit once.
SELECT times, parvacuum_test_refill(times) BETWEEN 1 AND 132 * 1024 AS once FROM unnest('{1,2,5}'::int[]) times;

-- The last process to leave closes, and none enters after that, whatever comes between two
-- steps of one process.
SELECT parvacuum_test_use_count() > 10 AS every_order;

-- No unit is claimed twice, and none is left out.
SELECT parvacuum_test_claim() > 10000 AS every_order;
