-- The order in which the participants of a vacuum take indexes, and the time that takes.
-- Indexes are numbered from 0; l: only the leader may vacuum it, s: one process can, b:
-- all can.

CREATE FUNCTION run(kinds text, pages int[], processes int, ends int[] DEFAULT NULL,
					OUT work text, OUT ours int, OUT core int) LANGUAGE sql AS $$
	SELECT work, ends_at, parvacuum_test_order_of_core(kinds, pages, e, processes)
	FROM coalesce(ends, array_fill(0, ARRAY[length(kinds)])) e, parvacuum_test_order(kinds, pages, e, processes)
$$;

-- a GIN index a little smaller than a B-tree
SELECT * FROM run('bs', '{1000,960}', 2);
SELECT * FROM run('bs', '{1000,400}', 2);
SELECT * FROM run('bs', '{400,1000}', 2);

-- one among several B-trees, and two
SELECT * FROM run('bbs', '{1000,1000,960}', 2);
SELECT * FROM run('bbs', '{1000,1000,960}', 3);
SELECT * FROM run('bsbs', '{1000,800,960,800}', 2);
SELECT * FROM run('ssss', '{30,20,50,40}', 2);

-- the leader begins with the indexes that only it may vacuum, and then takes the rest
SELECT * FROM run('bls', '{1000,500,500}', 2);
SELECT * FROM run('lsb', '{10,800,500}', 2);
SELECT * FROM run('lslb', '{400,800,300,500}', 2);
SELECT * FROM run('lls', '{30,20,40}', 1);

-- B-trees whose last part is done by one process: others run at the same time
SELECT * FROM run('bb', '{800,800}', 2, '{400,400}');
SELECT * FROM run('bbb', '{800,800,800}', 2, '{400,400,400}');
SELECT * FROM run('bs', '{800,1200}', 2, '{400,0}');

-- Where indexes are in the order of their size, which is the best rule for core, the
-- order is never faster; ranges have 8 pages.
WITH mix AS MATERIALIZED (
	SELECT n, 1 + n % 4 AS processes, string_agg(kind, '' ORDER BY pages DESC, i) AS kinds, array_agg(pages ORDER BY pages DESC, i) AS pages
	FROM generate_series(1, 3000) n,
		LATERAL (SELECT i, substr('lsssbbbb', 1 + abs(hashint4(n * 100 + i)) % 8, 1) AS kind, abs(hashint4(n * 1000 + i)) % 1000 AS pages
			FROM generate_series(1, 1 + n % 7) i) x
	GROUP BY n)
SELECT count(*) AS cases, count(*) FILTER (WHERE ours > core + 8) AS slower,
	count(*) FILTER (WHERE ours < 0.8 * core) > 300 AS often_faster
FROM mix, run(kinds, pages, processes);

DROP FUNCTION run;
