-- The scheduler's queue, step by step; the database is 1, the owners are 10 and 20.
CREATE FUNCTION list() RETURNS TABLE (rel oid, state text, reason text, requested bool, action text, since float8) LANGUAGE sql AS $$
	SELECT rel, state, reason, requested, concat_ws(' ', CASE WHEN vacuum THEN 'vacuum' END, CASE WHEN "analyze" THEN 'analyze' END), since FROM parvacuum_test_items() ORDER BY rel $$;
-- the first of them as one value, for each value of the argument
CREATE FUNCTION first_is(what text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT concat_ws(', ', state, reason, CASE WHEN requested THEN 'requested' END, action) FROM list() LIMIT 1); END $$;
-- all that worker 0 takes, each done at once
CREATE FUNCTION taken(worker int DEFAULT 0, takes float8 DEFAULT 0) RETURNS SETOF oid LANGUAGE plpgsql AS $$
	DECLARE rel oid;
	BEGIN
		LOOP
			rel := parvacuum_test_take(worker);
			EXIT WHEN rel = 0;
			PERFORM parvacuum_test_queue_wait(takes), parvacuum_test_finish(worker);
			RETURN NEXT rel;
		END LOOP;
	END $$;
-- a scan that offers tables of these OIDs, owners, scores and ages
CREATE FUNCTION scanned(worker int, rels int[], owners int[] DEFAULT '{10}', scores float8[] DEFAULT '{2}', ages float8[] DEFAULT '{0}') RETURNS text LANGUAGE plpgsql AS $$
	DECLARE fits bool := true;
	BEGIN
		IF NOT parvacuum_test_begin_scan(worker) THEN RETURN 'no scan'; END IF;
		FOR i IN 1 .. cardinality(rels) LOOP
			fits := parvacuum_test_offer(worker, rels[i], owners[1 + (i - 1) % cardinality(owners)], scores[1 + (i - 1) % cardinality(scores)], age => ages[1 + (i - 1) % cardinality(ages)]) AND fits;
		END LOOP;
		RETURN concat_ws(', ', CASE WHEN fits THEN 'complete' ELSE 'incomplete' END, CASE WHEN parvacuum_test_end_scan(worker, fits) THEN 'reported' END);
	END $$;

-- A worker scans where a scan was requested, and takes the tables by their turns: the higher score first; those that need nothing leave the queue
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2,3}', scores => '{2,8,4}'), scanned(0, '{}');
SELECT * FROM list();
SELECT taken();
SELECT * FROM list();

-- A score counts as waiting: five minutes for a doubling
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1}'), parvacuum_test_start(1), parvacuum_test_queue_wait(301), scanned(0, '{1,2}', scores => '{2,4}');
SELECT taken();
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1}'), parvacuum_test_start(1), parvacuum_test_queue_wait(299), scanned(0, '{1,2}', scores => '{2,4}');
SELECT taken();

-- In danger of wraparound: the oldest first, before all others
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2,3,4}', scores => '{9,1,1,8}', ages => '{0,1.1,1.2,0}');
SELECT taken();

-- Owners take turns by worker time: 20 has one table, which comes as soon as anything of 10 has taken time, and long tables count for more
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2,3,4,5,6}', '{10,10,10,10,20,20}', '{99,98,97,96,2,1}');
SELECT taken(takes => 5);
SELECT parvacuum_test_owner_charge(10) > 19 AS most_of_20, parvacuum_test_owner_charge(20) > 9 AS most_of_10, parvacuum_test_queue_wait(600), parvacuum_test_owner_charge(10) < 10 AS half_of_it;
-- time at a table that is not done yet counts, also in another database
SELECT parvacuum_test_queue(), parvacuum_test_start(2), scanned(0, '{1}'), parvacuum_test_take(0), parvacuum_test_queue_wait(5), parvacuum_test_start(1), scanned(1, '{1,2}', '{10,20}', '{99,1}');
SELECT taken(1);

-- Requests: before others of the owner, though they need nothing; urgent ones before all but danger.  A scan does not remove them
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2,3}', '{20,10,10}', '{1,9,9}', '{1.1,0,0}'), parvacuum_test_enqueue(1, 4), parvacuum_test_enqueue(1, 5, urgent => true), parvacuum_test_enqueue(1, 3);
SELECT parvacuum_test_enqueue(1, 5) AS before, parvacuum_test_enqueue(1, 4, urgent => true) AS more_urgent, parvacuum_test_start(1), scanned(0, '{1,2,3}', '{20,10,10}', '{1,9,9}', '{1.1,0,0}');
SELECT * FROM list();
SELECT taken();

-- Requested while it is running: queued again; done, failed and canceled it is over, locked it is not
SELECT parvacuum_test_queue(), parvacuum_test_start(1), parvacuum_test_enqueue(1, 1), parvacuum_test_take(0), parvacuum_test_enqueue(1, 1), parvacuum_test_finish(0);
SELECT * FROM list();
SELECT reason, parvacuum_test_take(0), parvacuum_test_finish(0, reason, ''), first_is(reason), parvacuum_test_enqueue(1, 1)
FROM unnest('{lock,error,canceled}'::text[]) reason;

-- Requests of one owner leave room to others
SELECT parvacuum_test_queue(100);
SELECT count(*) FILTER (WHERE result = 'queued') AS queued, count(*) FILTER (WHERE result = 'full') AS full FROM (SELECT parvacuum_test_enqueue(1, n::oid) AS result FROM generate_series(1, 100) n) r;
SELECT parvacuum_test_enqueue(1, 1) AS before, parvacuum_test_enqueue(1, 101, owner => 20) AS of_another, parvacuum_test_enqueue(2, 1) AS of_another_database;

-- Given up: queued, running, waiting, against wraparound
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2,3}', ages => '{0,0,1.1}'), parvacuum_test_take(0) AS taken,
	parvacuum_test_withdraw(1, 1) AS queued, parvacuum_test_withdraw(1, 1) AS waiting, parvacuum_test_withdraw(1, 3) AS wraparound, parvacuum_test_withdraw(1, 3, true) AS with_rights, parvacuum_test_withdraw(1, 9) AS none;
SELECT * FROM list();

SELECT parvacuum_test_queue(), parvacuum_test_start(1), parvacuum_test_enqueue(1, 1), parvacuum_test_withdraw(1, 1) AS requested, first_is('');

-- A worker that exits in mid-scan leaves the scan to another, and its table to the next scan
SELECT parvacuum_test_queue(), parvacuum_test_start(1), parvacuum_test_start(1), scanned(0, '{1}'), parvacuum_test_take(1), parvacuum_test_start(1), parvacuum_test_begin_scan(0), parvacuum_test_exit(0), parvacuum_test_exit(1), parvacuum_test_start(1), parvacuum_test_begin_scan(0), first_is('');

-- Large tables: a worker takes one if it was given a place for that, as its first
SELECT parvacuum_test_queue(), parvacuum_test_start(1), parvacuum_test_start(1), parvacuum_test_start(1, large => true), parvacuum_test_start(1, large => true), parvacuum_test_begin_scan(0);
SELECT parvacuum_test_offer(0, n::oid, score => 10 - n, pages => 10000, age => CASE n WHEN 5 THEN 1.1 ELSE 0 END) FROM generate_series(1, 5) n;
SELECT parvacuum_test_offer(0, 6, score => 1.1), parvacuum_test_end_scan(0);
SELECT parvacuum_test_take(0) AS small, parvacuum_test_take(1) AS none, parvacuum_test_take(2) AS in_danger, parvacuum_test_take(3) AS large, parvacuum_test_finish(2), parvacuum_test_take(2) AS no_more;
-- by its file it is small, or large after all: then it goes on if there is a place
SELECT parvacuum_test_recheck(0, 10000) AS goes_on, parvacuum_test_start(1, large => true), parvacuum_test_enqueue(1, 7), parvacuum_test_take(4) AS first, parvacuum_test_recheck(4, 10000) AS put_back;
SELECT parvacuum_test_recheck(3, 10) AS goes_on, parvacuum_test_enqueue(1, 8), parvacuum_test_take(1) AS first, parvacuum_test_recheck(1, 10000) AS goes_on;
SELECT * FROM list();

-- A table in danger that could not be done is in the order of the others, until it is done
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), parvacuum_test_take(0) AS oldest, parvacuum_test_queue_wait(5), parvacuum_test_finish(0, 'error', '');
SELECT parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), taken();
SELECT parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), taken();
-- so is one that has failed with the error of a lock; one that was locked before it was begun is not
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), parvacuum_test_take(0) AS oldest, parvacuum_test_queue_wait(5), parvacuum_test_finish(0, 'lock', '', 100);
SELECT parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), taken();
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), parvacuum_test_take(0) AS oldest, parvacuum_test_queue_wait(5), parvacuum_test_finish(0, 'lock', '');
SELECT parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), taken();
-- so is one of which that is known otherwise, be its entry old or new
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2}', '{10,20}', '{2,2}', '{1.2,1.1}'), parvacuum_test_offer(0, 1, 10, age => 1.2, tried => true), parvacuum_test_take(0) AS first;
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{2}', '{20}', '{2}', '{1.1}'), parvacuum_test_offer(0, 1, 10, age => 1.2, tried => true), parvacuum_test_take(0) AS first;

-- A worker that came for a scan leaves again if the first table is elsewhere, and all workers are in use
SELECT parvacuum_test_queue(workers => 1), parvacuum_test_start(1), scanned(0, '{1}', scores => '{9}'), parvacuum_test_exit(0), parvacuum_test_start(2), scanned(0, '{2}', scores => '{4}'), parvacuum_test_take(0) AS none, parvacuum_test_exit(0);
SELECT parvacuum_test_start(2, false), parvacuum_test_take(0) AS not_for_a_scan;
SELECT parvacuum_test_queue(workers => 2), parvacuum_test_start(1), scanned(0, '{1}', scores => '{9}'), parvacuum_test_exit(0), parvacuum_test_start(2), scanned(0, '{2}', scores => '{4}'), parvacuum_test_take(0) AS another_is_free;

-- What waits, and since when: tried again in between it has waited all the time; a window is no time of waiting for a turn
SELECT parvacuum_test_queue(), parvacuum_test_start(1), scanned(0, '{1,2}'), parvacuum_test_take(0), parvacuum_test_finish(0, 'lock', ''), parvacuum_test_queue_wait(10), parvacuum_test_take(0), parvacuum_test_finish(0, 'error', '');
SELECT * FROM list();
SELECT parvacuum_test_start(1), scanned(0, '{1,2}'), parvacuum_test_take(0), parvacuum_test_finish(0, 'lock', ''), parvacuum_test_queue_wait(10);
SELECT * FROM list();
SELECT parvacuum_test_queue(), parvacuum_test_start(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 1, reason => 'window'), parvacuum_test_end_scan(0), parvacuum_test_queue_wait(1000);
SELECT * FROM list();
SELECT parvacuum_test_start(1), scanned(0, '{1,2}', scores => '{2,4}'), taken();

-- Held back by the horizon at the last vacuum, or not any more: any worker takes it, to look; if it is large and is to be vacuumed, it waits for a place
SELECT parvacuum_test_queue(), parvacuum_test_start(1), parvacuum_test_start(1, large => true), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 1, pages => 10000), parvacuum_test_end_scan(0);
SELECT parvacuum_test_take(0) AS none, parvacuum_test_take(1) AS large, parvacuum_test_finish(1, 'horizon', 'vacuum', 100), first_is('');
SELECT parvacuum_test_start(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 1, pages => 10000), parvacuum_test_end_scan(0), parvacuum_test_take(0) AS any, parvacuum_test_finish(0, 'horizon', ''), first_is('');
SELECT parvacuum_test_start(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 1, pages => 10000), parvacuum_test_end_scan(0), parvacuum_test_take(0) AS any, parvacuum_test_start(1, large => true), parvacuum_test_start(1, large => true), parvacuum_test_recheck(0, 10000) AS put_back, parvacuum_test_take(0) AS none, parvacuum_test_take(5) AS large;

-- More tables than places: an owner leaves some to another, a database to another; the scan is reported once, and done again when the queue is empty
SELECT parvacuum_test_queue(100), parvacuum_test_start(1);
SELECT scanned(0, array_agg(n), array_agg(CASE WHEN n <= 200 THEN 10 ELSE 20 END)) FROM generate_series(1, 300) n;
SELECT owner, count(*) FROM parvacuum_test_items() GROUP BY 1 ORDER BY 1;
SELECT parvacuum_test_start(2), scanned(1, array_agg(n)) FROM generate_series(1, 100) n;
SELECT database, count(*) FROM parvacuum_test_items() GROUP BY 1 ORDER BY 1;
SELECT parvacuum_test_begin_scan(0) AS while_queued;
SELECT count(*) AS taken FROM taken();
SELECT scanned(0, array_agg(n), array_agg(CASE WHEN n <= 200 THEN 10 ELSE 20 END)) AS when_empty FROM generate_series(1, 300) n;
SELECT count(*) AS taken FROM taken();
SELECT scanned(0, '{1,2}') AS when_empty, scanned(0, '{1,2}') AS complete;

-- Tables that wait give way to those that can be begun
SELECT parvacuum_test_queue(10), parvacuum_test_start(1), parvacuum_test_begin_scan(0);
SELECT count(*) FILTER (WHERE parvacuum_test_offer(0, n::oid, reason => 'window')) FROM generate_series(1, 20) n;
SELECT reason, count(*) FROM list() GROUP BY 1 ORDER BY 1;
SELECT count(*) FILTER (WHERE parvacuum_test_offer(0, n::oid)) FROM generate_series(21, 40) n;
SELECT reason, count(*) FROM list() GROUP BY 1 ORDER BY 1;

-- A worker leaves after ten seconds, or when there are more than allowed
SELECT parvacuum_test_queue(), parvacuum_test_start(1), parvacuum_test_start(1), parvacuum_test_should_leave(0) AS no, parvacuum_test_should_leave(0, 1) AS more_than_allowed, parvacuum_test_queue_wait(10), parvacuum_test_should_leave(0) AS not_yet, parvacuum_test_queue_wait(1), parvacuum_test_should_leave(0) AS later;
DROP FUNCTION list, first_is, taken, scanned;

-- Random steps
SELECT places, parvacuum_test_queue_fuzz(20000, 1, places) > 1000 AS fuzzed FROM unnest('{1,5,30,1000}'::int[]) places;
SELECT parvacuum_test_queue_fuzz(5000, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, 50) > 100 AS fuzzed;
