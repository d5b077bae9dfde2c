-- Random blocks, compared with a naive set.
SELECT parvacuum_test_create(20000, 100000000, shared, handles => handles)
	AS created, shared,
	parvacuum_test_fill(shape, 0, 30, 1) = 30 AS filled,
	parvacuum_test_fill(shape, 50, 107, 2, handles - 1) = 107 AS filled_more,
	shape, parvacuum_test_check() = (parvacuum_test_figures()).items AS checked
FROM (VALUES (false, 1), (true, 2)) s (shared, handles),
	unnest('{one,few,half,runs,full,mixed,same,same sparse,few sparse,half sparse,mixed sparse,rare,rare one}'::text[]) shape
ORDER BY shared, shape;

-- other seeds, and stores of all sizes, with their limits
SELECT parvacuum_test_fuzz(1, 20210707) > 0 AS fuzzed;

-- a seed that depends on the time, which an error would report
SELECT parvacuum_test_fuzz(1, 0) > 0 AS fuzzed;
