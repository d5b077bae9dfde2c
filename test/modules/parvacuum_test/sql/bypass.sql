-- The number of blocks with dead items above which indexes are not bypassed: the same as
-- for core, which has another store.  One block in a given number has dead items, a given
-- number of them, the last one at an offset or anywhere up to it.
SELECT every, ndead, last, jitter, work_mem, abs(1.0 * ours / core - 1) <= 0.05 AS alike,
	CASE WHEN abs(1.0 * ours / core - 1) > 0.05 THEN format('%s for core, %s for us', core, ours) END AS but
FROM (VALUES
	(1, 1, 1, false, 64), (1, 3, 291, true, 64), (50, 1, 100, true, 64), (100, 3, 226, true, 64), (300, 1, 226, true, 64),
	(50, 20, 226, true, 64), (60, 60, 60, false, 64), (20, 100, 291, true, 64), (7, 10, 226, true, 64), (1, 200, 226, false, 64),
	(50, 20, 226, true, 1024), (1000, 20, 226, true, 64), (4, 5, 100, true, 16),
	-- nodes that are full, and bitmaps with one bit in their last word
	(8, 1, 1, false, 64), (1, 20, 64, false, 64)) c(every, ndead, last, jitter, work_mem),
	parvacuum_test_bypass(every, ndead, last, jitter, work_mem);
