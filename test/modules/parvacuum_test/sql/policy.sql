-- What each table needs, which table goes first, and which database.

-- Nothing to do; then each count below, at, and above its threshold: dead rows
-- 50 + 0.2 * 1000, inserted ones 1000 + 0.2 * 1000, modified ones 50 + 0.1 * 1000.
SELECT s.* FROM parvacuum_test_score() s;
SELECT n AS dead, dead_score, total, vacuum, "analyze" FROM unnest('{0,125,249,250,251,500,250000}'::int[]) n, parvacuum_test_score(dead => n);
SELECT n AS inserted, insert_score, total, vacuum, "analyze" FROM unnest('{0,600,1200,1201,2400}'::int[]) n, parvacuum_test_score(inserted => n);
SELECT n AS modified, analyze_score, total, vacuum, "analyze" FROM unnest('{0,75,150,151,300}'::int[]) n, parvacuum_test_score(modified => n);

-- all at once: the score is the greatest ratio of those that are to be acted on
SELECT dead, inserted, modified, s.* FROM (VALUES (500, 1800, 600), (500, 3600, 600), (1500, 3600, 600), (200, 600, 300), (300, 600, 120))
	x(dead, inserted, modified), parvacuum_test_score(dead => dead, inserted => inserted, modified => modified) s;

-- a threshold of 0: any row exceeds it, and the score is finite
SELECT n, d.dead_score, d.vacuum, i.insert_score, i.vacuum AS vacuum_i, m.analyze_score, m."analyze"
FROM unnest('{0,1,2,1000000}'::int[]) n,
	parvacuum_test_score(dead => n, vacuum_base => 0, vacuum_scale => 0) d,
	parvacuum_test_score(inserted => n, insert_base => 0, insert_scale => 0) i,
	parvacuum_test_score(modified => n, analyze_base => 0, analyze_scale => 0) m;

-- a fraction of a row
SELECT n, dead_score, vacuum FROM unnest('{0,1,2}'::int[]) n, parvacuum_test_score(dead => n, vacuum_base => 0, vacuum_scale => 0.0005);
SELECT n, dead_score, vacuum FROM unnest('{0,1,2}'::int[]) n, parvacuum_test_score(dead => n, vacuum_base => 0, vacuum_scale => 0.001);

-- no vacuum for inserts, unlike a base of 0
SELECT base, insert_score, vacuum FROM unnest('{-1,0}'::int[]) base, parvacuum_test_score(inserted => 1e6, insert_base => base);

-- never counted, and counted as empty: the base alone is the threshold
SELECT n, d.dead_score, d.vacuum, i.insert_score, m.analyze_score FROM unnest('{-1,0}'::int[]) n,
	parvacuum_test_score(dead => 51, reltuples => n) d, parvacuum_test_score(inserted => 500, reltuples => n) i,
	parvacuum_test_score(modified => 50, reltuples => n) m;

-- no statistics: counts do not matter, only ages do
SELECT s.* FROM parvacuum_test_score(dead => 1e6, inserted => 1e6, modified => 1e6, counted => false) s;
SELECT s.* FROM parvacuum_test_score(dead => 1e6, inserted => 1e6, modified => 1e6, counted => false, xid_age => 200000000) s;

-- disabled: the same, except for a vacuum that prevents wraparound
SELECT s.* FROM parvacuum_test_score(dead => 1e6, inserted => 1e6, modified => 1e6, enabled => false, xid_age => 180000000) s;
SELECT s.* FROM parvacuum_test_score(dead => 1e6, inserted => 1e6, modified => 1e6, enabled => false, xid_age => 180000001) s;
SELECT s.* FROM parvacuum_test_score(dead => 1e6, inserted => 1e6, modified => 1e6, enabled => false, mxid_age => 360000001) s;

-- a TOAST table, or pg_statistic: never analyzed
SELECT s.* FROM parvacuum_test_score(modified => 1e6, may_analyze => false) s;
SELECT s.* FROM parvacuum_test_score(dead => 1000, modified => 1e6, may_analyze => false) s;

-- Ages: a table is vacuumed from 0.9 of the age on at which core would force a vacuum.
SELECT age_share FROM parvacuum_test_policy();
SELECT age, x.xid_score, x.total, x.vacuum, x.wraparound, m.mxid_score, m.total AS mxid_total, m.vacuum AS mxid_vacuum
FROM unnest('{-1,0,1,179999999,180000000,180000001,199999999,200000000,360000000,360000001,1600000000}'::bigint[]) age,
	parvacuum_test_score(xid_age => age) x, parvacuum_test_score(mxid_age => age) m;

-- a table's own limit, and a limit of 0, which many members of multixacts can cause
SELECT age, max, xid_score, wraparound FROM (VALUES (90000, 100000), (90001, 100000), (0, 0), (1, 0), (2, 1)) x(age, max), parvacuum_test_score(xid_age => age, freeze_max_age => max);
SELECT age, max, mxid_score, wraparound FROM (VALUES (0, 0), (1, 0), (1000, 0)) x(age, max), parvacuum_test_score(mxid_age => age, multixact_freeze_max_age => max);

-- Beyond the failsafe's age the score grows faster, without a jump.
SELECT age, xid_score, total FROM unnest('{1600000000,1600000001,1600001000,1601000000,1616000000,2000000000,2147483647}'::bigint[]) age,
	parvacuum_test_score(xid_age => age);
SELECT age, mxid_score, total FROM unnest('{1600000000,1600000001,1616000000,2147483647}'::bigint[]) age, parvacuum_test_score(mxid_age => age);
SELECT xid_score, total FROM parvacuum_test_score(xid_age => 10, freeze_max_age => 1, failsafe_age => 0);

-- Size: among equals the smaller table goes first, by a factor of 2 at most; not for an age.
SELECT pages, d.total AS dead, m.total AS modified, x.total AS age, b.total AS age_and_dead FROM unnest('{0,1,128,1280,8192,131072,4294967294}'::bigint[]) pages,
	parvacuum_test_score(dead => 500, pages => pages) d, parvacuum_test_score(modified => 300, pages => pages) m,
	parvacuum_test_score(xid_age => 360000000, pages => pages) x, parvacuum_test_score(xid_age => 270000000, dead => 500, pages => pages) b;
SELECT count(*) FILTER (WHERE total > prev) AS larger_first, count(*) FILTER (WHERE total = prev) AS equal FROM (
	SELECT total, lag(total) OVER (PARTITION BY dead ORDER BY pages) AS prev
	FROM unnest('{251,1000,100000}'::float8[]) dead, generate_series(0, 100000, 100) pages, parvacuum_test_score(dead => dead, pages => pages)) s;

-- a table that needs nothing has no score, however close to a threshold it is
SELECT total FROM parvacuum_test_score(dead => 250, inserted => 1200, modified => 150, xid_age => 180000000, mxid_age => 360000000);

-- A score never falls as a count or an age grows: each of them takes all its steps, with
-- all combinations of the others.  A table that needs something has a score above 1, and
-- one that needs nothing a score of 0.
CREATE FUNCTION sweep(what text, OUT scores bigint, OUT falls bigint, OUT wrong bigint) LANGUAGE plpgsql AS $$
DECLARE
	steps text := '(SELECT unnest(ARRAY[0, 1, 2, 10, 49, 50, 51, 100, 149, 150, 151, 249, 250, 251, 300, 1199, 1200, 1201, 5000, 1e6, 1e9, 1e15]))';
	age_steps text := '(SELECT unnest(ARRAY[0, 1, 1e5, 179999999, 18e7, 180000001, 2e8, 36e7, 360000001, 4e8, 1e9,
		1599999999, 16e8, 1600000001, 1600000100, 1.7e9, 1.9e9, 2147483647]))';
	few text := '(SELECT unnest(ARRAY[0, 200, 5000]))';
	few_ages text := '(SELECT unnest(ARRAY[0, 181e6, 1.7e9]))';
BEGIN
	EXECUTE format($sql$
		SELECT count(*), count(*) FILTER (WHERE total < before),
			count(*) FILTER (WHERE (vacuum OR "analyze") <> (total > 1) OR NOT (vacuum OR "analyze") AND total <> 0
				OR total IN ('NaN', 'Infinity') OR total < 0)
		FROM (SELECT s.*, lag(s.total) OVER (PARTITION BY pages, enabled, own, %s ORDER BY %s) AS before
			FROM %s d(dead), %s i(inserted), %s m(modified), %s x(xid), %s y(mxid),
				unnest('{0,5000}'::int[]) pages, unnest('{true,false}'::boolean[]) enabled, unnest('{1,0.001,0}'::float8[]) own,
				parvacuum_test_score(dead => dead::float8, inserted => inserted::float8, modified => modified::float8,
					xid_age => xid::bigint, mxid_age => mxid::bigint, pages => pages, enabled => enabled,
					vacuum_base => 50 * own, vacuum_scale => 0.2 * own, insert_base => 1000 * own, insert_scale => 0.2 * own,
					analyze_base => 50 * own, analyze_scale => 0.1 * own,
					freeze_max_age => CASE own WHEN 0 THEN 0 ELSE 200000000 END,
					failsafe_age => CASE own WHEN 0 THEN 0 ELSE 1600000000 END) s) t$sql$,
		(SELECT string_agg(c, ', ') FROM unnest('{dead,inserted,modified,xid,mxid}'::text[]) c WHERE c <> what), what,
		CASE what WHEN 'dead' THEN steps ELSE few END, CASE what WHEN 'inserted' THEN steps ELSE few END,
		CASE what WHEN 'modified' THEN steps ELSE few END, CASE what WHEN 'xid' THEN age_steps ELSE few_ages END,
		CASE what WHEN 'mxid' THEN age_steps ELSE few_ages END) INTO scores, falls, wrong;
END $$;
SELECT what, s.* FROM unnest('{dead,inserted,modified,xid,mxid}'::text[]) what, sweep(what) s;

-- and in small steps around the failsafe's age
SELECT count(*), count(*) FILTER (WHERE total <= before) AS falls FROM (
	SELECT total, lag(total) OVER (ORDER BY age) AS before FROM generate_series(1599999900, 1600000100) age, parvacuum_test_score(xid_age => age)) s;

-- Danger is by the server's limits: a table's own limit, which its owner can lower, says when it is
-- vacuumed for its age, but does not put it before others.
SELECT what, d AS wraparound_danger_haste FROM (VALUES ('young', parvacuum_test_danger(179999999)), ('old', parvacuum_test_danger(180000001)), ('old multixacts', parvacuum_test_danger(0, 360000001)),
	('old by its own limit', parvacuum_test_danger(179999999, 0, 100000)), ('by its own for multixacts', parvacuum_test_danger(0, 359999999, 200000000, 10000)),
	('old by both', parvacuum_test_danger(180000001, 0, 100000))) v(what, d);

-- Haste is the share of the way from the server's limit to the failsafe's age, whatever the table's own limit is.
SELECT age, (parvacuum_test_danger(age, 0, 100000)).haste, (parvacuum_test_danger(0, age)).haste AS of_multixacts
FROM unnest('{200000000,200000001,550000000,900000000,1599999999,1600000000,2000000000}'::bigint[]) age;

-- The turn of a table that needs something since 0, in minutes: five minutes earlier for each doubling of its score, an hour
-- at most.  A request has that hour.
SELECT score, parvacuum_test_turn(score) FROM unnest('{0,0.5,1,2,4,64,4096,4097,1e9,1e300}'::float8[]) score;
SELECT score, parvacuum_test_turn(score, requested => true) FROM unnest('{0,1e300}'::float8[]) score;

-- Which table goes first: danger by age, urgent requests, the owner charged least, the earlier turn.
SELECT what, first FROM (VALUES
	('the earlier turn', parvacuum_test_goes_first(turn => 1, other_turn => 2)),
	('the same', parvacuum_test_goes_first(turn => 1, other_turn => 1)),
	('the owner charged less, later', parvacuum_test_goes_first(charge => 1, turn => 1e6, other_charge => 2)),
	('urgent, of an owner charged more, later', parvacuum_test_goes_first(urgent => true, charge => 9, turn => 1e6)),
	('two that are urgent: the earlier', parvacuum_test_goes_first(urgent => true, charge => 9, turn => 1, other_urgent => true, other_turn => 2)),
	('danger against urgent', parvacuum_test_goes_first(age => 1.1, charge => 9, turn => 1e6, other_urgent => true)),
	('the older of two in danger', parvacuum_test_goes_first(age => 1.3, charge => 9, turn => 1e6, other_age => 1.2, other_urgent => true)),
	('two of the same age: the urgent one', parvacuum_test_goes_first(age => 1.2, urgent => true, turn => 2, other_age => 1.2, other_turn => 1)),
	('two of the same age: the earlier', parvacuum_test_goes_first(age => 1.2, charge => 9, turn => 1, other_age => 1.2, other_turn => 2))) v(what, first);

-- Half of a charge is forgotten in ten minutes.
SELECT elapsed, parvacuum_test_charge_left(100, elapsed) FROM unnest('{-5,0,600,1200,36000}'::int[]) elapsed;

-- Room: an owner, and a database, has four times what is left to others, and an owner a sixteenth of that in any case.  The last numbers of entries that are refused.
SELECT owners, databases, (SELECT min(n) FROM generate_series(0, 1000) n WHERE NOT parvacuum_test_has_room(1000, n, n / databases, n / databases / owners)) AS refused
FROM (VALUES (1, 1), (2, 1), (1, 2), (1, 10)) v(owners, databases);
SELECT parvacuum_test_has_room(1000, 950, 900, 900) AS too_many, parvacuum_test_has_room(1000, 950, 0, 0) AS of_another_database, parvacuum_test_has_room(1000, 800, 800, 12) AS of_another_owner, parvacuum_test_has_room(1000, 800, 800, 13) AS more_of_his,
	parvacuum_test_has_room(1, 0, 0, 0) AS one, parvacuum_test_has_room(1, 1, 0, 0) AS none;

-- After a scan there is none for fifty times the CPU time that it took, up to ten minutes.
SELECT used, parvacuum_test_rest(used) FROM unnest('{-5,0,1,50000,11999999,12000000,12000001,9223372036854775807}'::bigint[]) used;

-- Useless: a vacuum that finds the horizon where the last one did, unless the dead rows have doubled, rows were inserted, or only this one is for its age or its multixacts.
SELECT parvacuum_test_is_useless() AS the_same, parvacuum_test_is_useless(101) AS another_horizon, parvacuum_test_is_useless(dead => 4) AS nearly_twice, parvacuum_test_is_useless(dead => 4.1) AS twice,
	parvacuum_test_is_useless(inserted => 1.1) AS inserted, parvacuum_test_is_useless(old => true) AS old_now, parvacuum_test_is_useless(old => true, was_old => true) AS old_before, parvacuum_test_is_useless(mxid => 1.1, was_old => true) AS multixacts;

-- Sweeps: more dead entries than 50 and 0.05 * 10000000.  A sweep has no score, and an hour
-- less of lead than anything else.
SELECT versions, s.* FROM unnest('{0,500050,500051,1000000}'::int[]) versions, parvacuum_test_sweep(versions) s;

-- only those since the last sweep, unless the statistics were reset; no more than have died
SELECT versions, swept, dead, sweep_score, sweep FROM (VALUES (600000, 99949, 1e6), (600000, 99950, 1e6), (600000, 600000, 1e6), (600000, 600001, 1e6),
	(600000, 0, 500051), (600000, 0, 500050), (600000, 0, 0)) x(versions, swept, dead), parvacuum_test_sweep(versions, swept, dead);

-- after splits, at half the threshold
SELECT versions, sweep_score, sweep FROM unnest('{250025,250026}'::int[]) versions, parvacuum_test_sweep(versions, splits => true);

-- small tables, and those never counted
SELECT versions, reltuples, sweep_score, sweep FROM (VALUES (50, 0), (51, 0), (51, -1), (51, 1000), (101, 1000)) x(versions, reltuples),
	parvacuum_test_sweep(versions, reltuples => reltuples, dead => 200);

-- no sweep together with a vacuum, but together with an ANALYZE, and without its lead if that has failed
SELECT dead, modified, analyzed, s.* FROM (VALUES (2000050, 0, false), (2000051, 0, false), (1500000, 2000000, false), (1500000, 2000000, true), (2000051, 2000000, true)) x(dead, modified, analyzed),
	parvacuum_test_sweep(versions => 1e6, dead => dead, modified => modified, analyzed => analyzed) s;
SELECT versions, s.* FROM unnest('{500050,500051}'::int[]) versions, parvacuum_test_sweep(versions, modified => 2000000, analyzed => true) s;

-- not wanted, or disabled
SELECT s.* FROM parvacuum_test_sweep(versions => 1e6, may_sweep => false) s;
SELECT s.* FROM parvacuum_test_sweep(versions => 1e6, enabled => false) s;

-- growth: more than four pages, and more than a fiftieth
SELECT pages, pages_before, parvacuum_test_has_grown(pages, pages_before) FROM (VALUES (0, 0), (4, 0), (5, 0), (104, 100), (105, 100), (1020, 1000), (1021, 1000), (10, 1000)) x(pages, pages_before);

-- How long a worker may be at a table, in seconds: ten minutes, and more where it is large or the rate is low
SELECT pages, rate, workers, round(at_table) AS at_table, round(in_cleanup) AS in_cleanup, round(in_analyze) AS in_analyze
FROM (VALUES (0, 0, 3), (8192, 0, 3), (8192, 100000, 1), (8192, 100000, 3), (8192, 1000000, 3), (8192, 1000, 3), (131072000, 0, 3)) v(pages, rate, workers), parvacuum_test_longest(pages, rate, workers);

-- A table that fails is left alone for a naptime, twice as long after each further failure, an hour at most; in danger of wraparound five minutes
SELECT failures, parvacuum_test_pause(failures, 60) AS pause, parvacuum_test_pause(failures, 60, true) AS in_danger, parvacuum_test_pause(failures, 1) AS short
FROM unnest('{1,2,3,6,7,12,1000}'::int[]) failures;

-- A role with very many failing tables: some are remembered each by itself, the others together.  Those of another role are
-- not affected, and what is old makes room.
SELECT parvacuum_test_fail(20, 1, 1, 3), parvacuum_test_fail(10, 1, 1100), parvacuum_test_fail(20, 2, 2, 2);
SELECT parvacuum_test_failures(10, 1) AS by_itself, parvacuum_test_failures(10, 1024) AS the_last_one, parvacuum_test_failures(10, 1025) AS together, parvacuum_test_failures(10, 5000) AS all_others,
	parvacuum_test_failures(20, 1) AS of_another, parvacuum_test_failures(20, 2) AS new_of_another, parvacuum_test_failures(20, 3) AS none;
SELECT parvacuum_test_fail(30, 1, 1024, 1, 7300), parvacuum_test_fail(30, 2001, 2001), parvacuum_test_failures(30, 2001) AS by_itself, parvacuum_test_failures(30, 1) AS old, parvacuum_test_failures(30, 2002) AS none;
SELECT parvacuum_test_fail(role::oid, 1, 1024) FROM generate_series(40, 50) role;
SELECT parvacuum_test_failures(20, 1) AS of_another, parvacuum_test_failures(50, 1) AS no_room;
