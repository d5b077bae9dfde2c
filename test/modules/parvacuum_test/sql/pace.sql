-- The pace of automatic vacuums, on a simulated machine.  Its clients are harmed as much as
-- they may be at the rate "place".

-- Whatever the noise, the rate stays near that place, above the floor of 100000: averages of
-- each second from the sixth on, and of the harm.
SELECT place, noise, avg(rate) BETWEEN 0.6 * place AND 1.4 * place AS near, avg(harm) < 0.12 AS harmless
FROM unnest('{300000,1000000}'::float8[]) place, unnest('{0,0.05,0.15,0.3}'::float8[]) noise, generate_series(1, 5) seed,
	parvacuum_test_pace(100000, 3000000, ARRAY[place], noise, 60, seed)
WHERE second > 5 GROUP BY place, noise ORDER BY place, noise;

-- A machine that vacuums cannot harm, and one without clients, are used in full after five
-- seconds, and so is one that is too slow for the floor.
SELECT place, avg(rate) >= 0.8 * 2000000 AS in_full FROM unnest('{1e9,0}'::float8[]) place, parvacuum_test_pace(100000, 2000000, ARRAY[place], 0.15)
WHERE second > 5 GROUP BY place ORDER BY place;
SELECT min(rate), max(rate), array_agg(DISTINCT limited_by) AS limited_by FROM parvacuum_test_pace(100000, 50000, '{1e9}', 0.15);

-- Load comes, goes and comes: five seconds later the rate is where it belongs.
SELECT part, place, avg(rate) BETWEEN 0.5 * place AND 1.5 * place AS near
FROM generate_series(1, 5) seed, unnest('{2000000,200000,2000000,0,500000,100000}'::float8[]) WITH ORDINALITY AS places(place, i),
	LATERAL (SELECT * FROM parvacuum_test_pace(100000, 2000000, '{2000000,200000,2000000,0,500000,100000}', 0.15, 30, seed) WHERE part = i AND (second - 1) % 30 >= 5) AS x
WHERE place > 0 GROUP BY part, place ORDER BY part;

-- However much harm it does, the rate does not fall below the floor, and says so.  Nor does it
-- rise where nothing can be measured, and when that ends, it does.
SELECT part, min(rate), max(rate), array_agg(DISTINCT limited_by ORDER BY limited_by) AS limited_by
FROM parvacuum_test_pace(100000, 2000000, '{1000,-1,1000}', 0.05) WHERE second > 1 GROUP BY part ORDER BY part;
SELECT max(rate) FILTER (WHERE part = 1) AS blind, max(rate) FILTER (WHERE part = 2) AS seeing FROM parvacuum_test_pace(100000, 2000000, '{-1,0}', 0);

-- Load that comes and goes faster than the rate can follow does no more harm than its mean.
SELECT seconds, avg(harm) < 0.3 AS harmless, avg(rate) > 100000 AS rises
FROM unnest('{1,2,5,10}'::int[]) seconds, parvacuum_test_pace(100000, 2000000, '{2000000,200000,2000000,200000,2000000,200000,2000000,200000}', 0.15, seconds)
GROUP BY seconds ORDER BY seconds;

-- Clients that mostly wait are no less clients: those who run for a thousandth of the time, too.
SELECT run, avg(rate) BETWEEN 0.5 * 500000 AND 1.5 * 500000 AS near FROM unnest('{400,5000,50000}'::float8[]) run, generate_series(1, 5) seed,
	parvacuum_test_pace(100000, 3000000, '{500000}', 0.1, 60, seed, run, 200000 / run) WHERE second > 5 GROUP BY run ORDER BY run;

-- Harm is known only while there are clients that it is measured by, and vacuums that may do some.
SELECT part, bool_and(measured) AS always, bool_or(measured) AS ever FROM parvacuum_test_pace(100000, 2000000, '{500000,0,500000,-1}', 0.1) WHERE (second - 1) % 30 > 3 GROUP BY part ORDER BY part;
SELECT bool_or(measured) AS ever FROM parvacuum_test_pace(100000, 50000, '{1e9}', 0.15);

-- A standby that replays less than the machine can write: it is not much later than it may be, and
-- vacuums are as fast as it is, also where there are no clients.
SELECT place, replay, max(lag) < 12 AS bounded, avg(rate) BETWEEN 0.7 * replay AND 1.1 * replay AS near FROM unnest('{0,1e9}'::float8[]) place, unnest('{200000,500000,1000000}'::float8[]) replay,
	parvacuum_test_pace(100000, 2000000, ARRAY[place], 0.15, 120, replay => replay) WHERE second > 20 GROUP BY place, replay ORDER BY place, replay;
