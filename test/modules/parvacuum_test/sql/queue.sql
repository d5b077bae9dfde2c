-- The scheduler's queue: which worker gets which table, and when.  After each step all
-- of its contents are checked.
SELECT large_pages AS large FROM parvacuum_test_policy() \gset
\pset null none

-- One database, one worker: hired for a scan, it finds three tables, takes the best
-- first, and when it has exited nothing is left.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1) AS worker, parvacuum_test_hire(1, false) AS second;
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_attach(0) AS came, parvacuum_test_attach(0) AS twice, parvacuum_test_begin_scan(0) AS wanted;
SELECT parvacuum_test_attach(1) AS came, parvacuum_test_begin_scan(1) AS wanted_twice;
SELECT parvacuum_test_offer(0, 11, 2), parvacuum_test_offer(0, 12, 7), parvacuum_test_offer(0, 13, 5);
SELECT parvacuum_test_end_scan(0);
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_queue_wait(5);
SELECT parvacuum_test_pop(0) AS first, parvacuum_test_pop(1) AS second;
SELECT * FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_finish(0);
SELECT parvacuum_test_claim_update(0) AS over_too_early;
SELECT parvacuum_test_pop(0) AS third, parvacuum_test_finish(1);
SELECT parvacuum_test_pop(1) AS nothing, parvacuum_test_finish(0);
SELECT parvacuum_test_claim_update(1) AS over, parvacuum_test_claim_update(0) AS reported_once;
SELECT parvacuum_test_begin_scan(0) AS wanted, parvacuum_test_exit(0), parvacuum_test_exit(1);
SELECT * FROM parvacuum_test_items();
SELECT * FROM parvacuum_test_summaries();

-- a scan after which nothing was vacuumed is over as well: tables may have been dropped
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 2), parvacuum_test_end_scan(0),
	parvacuum_test_pop(0), parvacuum_test_finish(0, 'none', 0, false), parvacuum_test_claim_update(0) AS over, parvacuum_test_exit(0);

-- Among equal scores the table that has been queued for longer goes first.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_queue_wait(1), parvacuum_test_enqueue(1, 12, 5), parvacuum_test_queue_wait(1),
	parvacuum_test_enqueue(1, 13, 5.5), parvacuum_test_queue_wait(1), parvacuum_test_enqueue(1, 14, 5);
SELECT parvacuum_test_hire(1, false), parvacuum_test_attach(0);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0) FROM generate_series(1, 5);

-- Each database has a queue of its own; the same OID is another table there.
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_enqueue(2, 11, 9), parvacuum_test_enqueue(2, 12, 7);
SELECT parvacuum_test_hire(2, false), parvacuum_test_attach(1);
SELECT parvacuum_test_pop(0) AS of_1, parvacuum_test_pop(0) AS no_more, parvacuum_test_pop(1) AS of_2;
SELECT * FROM parvacuum_test_items() ORDER BY database, rel;

-- Size classes.  With two workers one may be on large tables: the other one gets a small
-- table, however low its score is, and does not put it back.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1, n = 0), parvacuum_test_attach(n), parvacuum_test_begin_scan(n) FROM generate_series(0, 1) n;
SELECT parvacuum_test_offer(0, 21, 100, :large), parvacuum_test_offer(0, 22, 90, :large + 1), parvacuum_test_offer(0, 11, 2, :large - 1), parvacuum_test_end_scan(0);
SELECT parvacuum_test_pop(0) AS large, parvacuum_test_pop(1) AS small;
SELECT parvacuum_test_put_back(1, 1.5) AS not_the_first;
SELECT database, top_score, queued, large FROM parvacuum_test_summaries(1);
SELECT database, top_score, queued, large FROM parvacuum_test_summaries(2);
SELECT parvacuum_test_finish(1), parvacuum_test_pop(1) AS nothing, parvacuum_test_pop(1, 2) AS second_large;
SELECT parvacuum_test_finish(0), parvacuum_test_pop(0) AS nothing;
SELECT parvacuum_test_finish(1), parvacuum_test_exit(1), parvacuum_test_enqueue(1, 23, 5, :large), parvacuum_test_pop(0) AS next_large;

-- large tables of other databases count as well
SELECT parvacuum_test_enqueue(2, 24, 5, :large), parvacuum_test_enqueue(2, 12, 2);
SELECT parvacuum_test_hire(2, false), parvacuum_test_attach(1), parvacuum_test_pop(1) AS small;
SELECT parvacuum_test_exit(0), parvacuum_test_finish(1), parvacuum_test_pop(1) AS large;

-- The last place for a large table is for the one with the highest score of all: the
-- worker of another database takes a small table, or exits.  The place is kept only for
-- the time that a worker may need to come there, and again when it is free the next time.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_enqueue(1, 21, 5, :large), parvacuum_test_enqueue(1, 22, 4, :large), parvacuum_test_enqueue(1, 11, 3), parvacuum_test_enqueue(2, 23, 6, :large),
	parvacuum_test_enqueue(2, 24, 4, :large), parvacuum_test_hire(1, false), parvacuum_test_attach(0);
SELECT parvacuum_test_pop(0) AS small, parvacuum_test_finish(0), parvacuum_test_pop(0) AS kept, parvacuum_test_pop(0, 2) AS not_the_last_place;
SELECT database, top_score, queued, large FROM parvacuum_test_summaries(2);
SELECT parvacuum_test_finish(0), parvacuum_test_hire(2, false), parvacuum_test_attach(1), parvacuum_test_pop(1) AS taken, parvacuum_test_pop(0) AS none;
SELECT database, top_score, queued, large FROM parvacuum_test_summaries(2);
SELECT parvacuum_test_finish(1), parvacuum_test_pop(1) AS not_before_its_like, parvacuum_test_finish(1);
SELECT parvacuum_test_enqueue(2, 25, 9, :large), parvacuum_test_exit(1), parvacuum_test_pop(0) AS kept, parvacuum_test_queue_wait(29), parvacuum_test_pop(0) AS still,
	parvacuum_test_queue_wait(1);
SELECT database, top_score, queued, large FROM parvacuum_test_summaries();
SELECT parvacuum_test_enqueue(1, 26, 2, :large), parvacuum_test_pop(0) AS nobody_came, parvacuum_test_finish(0), parvacuum_test_pop(0) AS kept,
	parvacuum_test_drop_database(2), parvacuum_test_pop(0) AS for_nobody;

-- At its recheck, a table may not be the first any more,
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9), parvacuum_test_offer(0, 12, 7),
	parvacuum_test_end_scan(0);
SELECT parvacuum_test_pop(0) AS first, parvacuum_test_put_back(0, 8) AS still_first, parvacuum_test_put_back(0, 7) AS still_equal,
	parvacuum_test_put_back(0, 6.5) AS not_any_more, parvacuum_test_pop(0) AS other;
SELECT rel, state, score FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_finish(0), parvacuum_test_pop(0) AS first, parvacuum_test_put_back(0, 0.1) AS alone, parvacuum_test_finish(0);

-- or be large: it changes its size class; one that is not large any more is kept
SELECT parvacuum_test_enqueue(1, 11, 9), parvacuum_test_pop(0) AS small, parvacuum_test_put_back(0, 9, :large) AS put_back,
	parvacuum_test_pop(0, 0) AS not_allowed, parvacuum_test_pop(0) AS large, parvacuum_test_put_back(0, 9, :large) AS again, parvacuum_test_put_back(0, 9, 1) AS small_now;

-- an error after that changes nothing
SELECT parvacuum_test_enqueue(1, 12, 10), parvacuum_test_put_back(0, 9), parvacuum_test_finish(0, 'error');
SELECT rel, state, reason FROM parvacuum_test_items() ORDER BY rel;

-- Tables that wait do so until the next scan, which queues them again, or removes them
-- if they need nothing.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0);
SELECT parvacuum_test_offer(0, 11, 9), parvacuum_test_offer(0, 12, 8), parvacuum_test_offer(0, 13, 7), parvacuum_test_offer(0, 14, 6, 1, 'window'), parvacuum_test_end_scan(0);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, reason) FROM unnest('{lock,error,canceled}'::text[]) reason;
SELECT parvacuum_test_queue_wait(60), parvacuum_test_pop(0);
SELECT rel, state, reason, score, since FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0);
SELECT parvacuum_test_offer(0, 11, 5), parvacuum_test_offer(0, 13, 4), parvacuum_test_offer(0, 14, 3, 1, 'window'), parvacuum_test_end_scan(0);
SELECT rel, state, reason, score, since FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 14, 3), parvacuum_test_offer(0, 13, 2, 1, 'window'), parvacuum_test_end_scan(0);
SELECT rel, state, reason, score FROM parvacuum_test_items() ORDER BY rel;

-- The horizon: as long as it has not moved, the table goes on waiting.  If it is to be analyzed,
-- it is queued for ANALYZE, with that score; and for VACUUM as well if a role asks for it.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9, 1, 'none', 500), parvacuum_test_end_scan(0),
	parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 500);
CREATE FUNCTION offered(score float8, horizon int, "analyze" boolean DEFAULT false, wraparound boolean DEFAULT false, mxid float8 DEFAULT 0)
RETURNS TABLE (state text, reason text, new_score float8, only_analyze boolean) LANGUAGE sql AS $$
	SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, score, 1, 'none', horizon, "analyze", wraparound, mxid),
		parvacuum_test_end_scan(0);
	SELECT state, reason, round(score::numeric, 2), only_analyze FROM parvacuum_test_items();
$$;
SELECT * FROM offered(10, 500);
SELECT * FROM offered(11, 500);
SELECT parvacuum_test_pop(0) AS nothing;
SELECT * FROM offered(12, 501);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 501);
SELECT * FROM offered(13, 0);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 0);
SELECT * FROM offered(14, 0);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 501), parvacuum_test_enqueue(1, 11, 50);
SELECT * FROM offered(15, 501);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'error');
SELECT * FROM offered(16, 501);

-- for ANALYZE at each scan, until that is done or not needed any more, or the horizon moves
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 501);
SELECT * FROM offered(13, 501, true);
SELECT * FROM offered(14, 501, true);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 501);
SELECT * FROM offered(15, 501);
SELECT * FROM offered(16, 501, true);
SELECT * FROM offered(17, 501);
SELECT * FROM offered(18, 501, true);
SELECT * FROM offered(19, 502, true);
SELECT * FROM offered(20, 502, true);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 502);

-- enqueued while it is queued or running, or withdrawn, it is not for ANALYZE alone
SELECT * FROM offered(21, 502, true);
SELECT parvacuum_test_enqueue(1, 11, 5);
SELECT state, score, only_analyze FROM parvacuum_test_items();
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 502);
SELECT * FROM offered(22, 502, true);
SELECT parvacuum_test_pop(0), parvacuum_test_enqueue(1, 11, 5), parvacuum_test_put_back(0, 1), parvacuum_test_finish(0, 'horizon', 502);
SELECT state, score, only_analyze FROM parvacuum_test_items();
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 502);
SELECT * FROM offered(23, 502, true);
SELECT parvacuum_test_withdraw(1, 11);
SELECT state, reason, only_analyze FROM parvacuum_test_items();
SELECT * FROM offered(24, 502, true);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 502);

-- To prevent wraparound it is vacuumed once more, because that reads all pages, and then not
-- before the horizon moves; but each time for the age of its multixacts.
SELECT * FROM offered(25, 502, true, wraparound => true);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 502);
SELECT * FROM offered(26, 502, false, wraparound => true);
SELECT * FROM offered(27, 502, true, wraparound => true);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 502);
SELECT * FROM offered(28, 502, false, wraparound => true);
SELECT * FROM offered(29, 502, false, wraparound => true, mxid => 1.1);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 502);
SELECT * FROM offered(30, 503, true, wraparound => true);

-- Rows that were inserted since ask for a vacuum, and so does an index that has something to do.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9, horizon => 500, dead => 9),
	parvacuum_test_end_scan(0), parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 500);
CREATE FUNCTION item_now() RETURNS text LANGUAGE sql VOLATILE AS $$SELECT format('%s vacuum %s analyze %s', state, vacuum, "analyze") FROM parvacuum_test_items()$$;
SELECT inserted, index_work, parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0),
	parvacuum_test_offer(0, 11, 9, horizon => 500, dead => 9, "analyze" => true, inserted => inserted, index_work => index_work), parvacuum_test_end_scan(0), item_now()
FROM (VALUES (0, false), (1, false), (1.1, false), (0, true), (1, false)) x(inserted, index_work);

-- A table that was analyzed waits for its vacuum, and one that was vacuumed for its ANALYZE.  It has
-- waited since it came to wait for this, whatever was tried in between.
SELECT parvacuum_test_pop(0), parvacuum_test_queue_wait(5), parvacuum_test_finish(0, 'horizon', 500, vacuumed => false, analyzed => true), parvacuum_test_queue_wait(10);
SELECT state, reason, since, vacuum, "analyze" FROM parvacuum_test_items();
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9, horizon => 500, dead => 9, "analyze" => true, inserted => 2), parvacuum_test_end_scan(0),
	parvacuum_test_queue_wait(20), parvacuum_test_pop(0), parvacuum_test_queue_wait(1);
SELECT state, reason, since, vacuum, "analyze" FROM parvacuum_test_items();
SELECT parvacuum_test_finish(0, 'lock'), parvacuum_test_queue_wait(3);
SELECT state, reason, since, vacuum, "analyze" FROM parvacuum_test_items();
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9, horizon => 500, dead => 9), parvacuum_test_end_scan(0),
	parvacuum_test_queue_wait(20);
SELECT state, reason, since, vacuum, "analyze" FROM parvacuum_test_items();
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'lock', vacuumed => false);
SELECT state, reason, since, vacuum, "analyze" FROM parvacuum_test_items();

-- Enqueued by a role: its place is by the priority, for one vacuum, windows do not count,
-- and a scan that finds that the table needs nothing keeps it.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_enqueue(1, 12, 6), parvacuum_test_enqueue(1, 11, 7);
SELECT rel, state, score, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 12, 2, 1, 'window'), parvacuum_test_end_scan(0);
SELECT rel, state, score, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'lock', vacuumed => false), parvacuum_test_pop(0), parvacuum_test_finish(0);
SELECT rel, state, reason, score, priority FROM parvacuum_test_items() ORDER BY rel;

-- A table that was locked only when it was to be analyzed has been vacuumed as requested.
SELECT parvacuum_test_queue(), parvacuum_test_enqueue(1, 11, 5), parvacuum_test_hire(1), parvacuum_test_attach(0);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'lock', vacuumed => true);
SELECT rel, state, reason, priority FROM parvacuum_test_items() ORDER BY rel;

-- Enqueued while a worker is at it: it is queued again afterwards, by the new priority,
-- whether the first vacuum succeeds or not.
SELECT reason, parvacuum_test_queue(), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_enqueue(1, 11, 5), parvacuum_test_enqueue(1, 12, 20),
	parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_pop(0), parvacuum_test_enqueue(1, 11, 50), parvacuum_test_finish(0, reason),
	parvacuum_test_withdraw(1, 12), array(SELECT i::text FROM parvacuum_test_items() i),
	parvacuum_test_pop(0) AS again, parvacuum_test_finish(0), parvacuum_test_pop(0) AS no_more
FROM unnest('{none,lock,horizon,canceled,error}'::text[]) reason;

-- also if the worker puts it back, or exits
SELECT parvacuum_test_queue(), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_enqueue(1, 11, 5), parvacuum_test_pop(0),
	parvacuum_test_enqueue(1, 12, 20), parvacuum_test_enqueue(1, 11, 50), parvacuum_test_put_back(0, 5);
SELECT rel, state, score, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_pop(0) AS no_more;
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_pop(0), parvacuum_test_enqueue(1, 11, 50), parvacuum_test_exit(0);
SELECT rel, state, reason, score, priority, pid FROM parvacuum_test_items();

-- A higher priority is not lowered by any role: neither in the queue, nor while the worker
-- may yet put the table back.  From the recheck on the request is being carried out.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_enqueue(1, 11, 50, role => 20) AS first,
	parvacuum_test_enqueue(1, 11, 5, role => 21) AS lower, parvacuum_test_enqueue(1, 11, 50, role => 21) AS same;
SELECT rel, state, score, priority FROM parvacuum_test_items();
SELECT parvacuum_test_pop(0), parvacuum_test_enqueue(1, 11, 5) AS lower, parvacuum_test_enqueue(1, 12, 1000);
SELECT rel, state, score, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_put_back(0, 1);
SELECT rel, state, score, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_pop(0), parvacuum_test_put_back(0, 50), parvacuum_test_enqueue(1, 11, 7) AS next,
	parvacuum_test_enqueue(1, 11, 6) AS lower;
SELECT rel, state, score, priority FROM parvacuum_test_items();
SELECT parvacuum_test_finish(0);
SELECT rel, state, score, priority FROM parvacuum_test_items();

-- Withdrawn: a queued table waits for the next scan; the worker that is at a table gets a
-- signal; a table that waits, or has no entry, cannot be given up.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9), parvacuum_test_offer(0, 12, 8),
	parvacuum_test_end_scan(0), parvacuum_test_pop(0), parvacuum_test_enqueue(1, 11, 5), parvacuum_test_enqueue(1, 12, 6);
SELECT rel, parvacuum_test_withdraw(1, rel) FROM unnest('{11,12,12,13}'::oid[]) rel;
SELECT parvacuum_test_withdraw(2, 11) AS other_database;
SELECT parvacuum_test_finish(0, 'canceled');
SELECT rel, state, reason, score, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_pop(0);

-- A vacuum that prevents wraparound is given up only for privileged roles, queued or running.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9, wraparound => true),
	parvacuum_test_offer(0, 12, 8), parvacuum_test_offer(0, 13, 7), parvacuum_test_end_scan(0);
SELECT parvacuum_test_withdraw(1, 11, false), parvacuum_test_pop(0), parvacuum_test_withdraw(1, 11, false), parvacuum_test_withdraw(1, 11, true),
	parvacuum_test_put_back(0, 9), parvacuum_test_withdraw(1, 11, false), parvacuum_test_withdraw(1, 11, true), parvacuum_test_is_canceled();
SELECT parvacuum_test_finish(0, 'canceled');

-- Also if the worker finds only at its recheck that it prevents wraparound.  If it does not,
-- the worker cancels itself and does not put the table back; after the recheck it gets the signal.
SELECT parvacuum_test_pop(0), parvacuum_test_withdraw(1, 12, false), parvacuum_test_put_back(0, 8, 1, true), parvacuum_test_is_canceled(), parvacuum_test_finish(0);
SELECT parvacuum_test_pop(0), parvacuum_test_enqueue(1, 14, 50), parvacuum_test_withdraw(1, 13, false), parvacuum_test_put_back(0, 7), parvacuum_test_is_canceled(),
	parvacuum_test_withdraw(1, 13, false), parvacuum_test_finish(0, 'canceled');

-- a cancel of one table does not hit the next one
SELECT parvacuum_test_pop(0), parvacuum_test_put_back(0, 50), parvacuum_test_is_canceled();

-- A worker is cancelled by its PID while it is at a table or scans its database.
SELECT parvacuum_test_cancel(1000), parvacuum_test_cancel(1001), parvacuum_test_finish(0), parvacuum_test_cancel(1000) AS idle;
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_cancel(1000), parvacuum_test_end_scan(0), parvacuum_test_cancel(1000) AS idle;

-- The queue is full: the scan learns so, and when the tables that were queued are done, the
-- worker that finds no other scans again, until all tables have been queued.
SELECT parvacuum_test_queue(2);
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0);
SELECT parvacuum_test_offer(0, 11, 9) AS first, parvacuum_test_offer(0, 12, 8) AS second, parvacuum_test_offer(0, 13, 7) AS no_place,
	parvacuum_test_offer(0, 12, 7.5) AS known, parvacuum_test_enqueue(1, 14, 1000) AS enqueued, parvacuum_test_end_scan(0, false);
SELECT parvacuum_test_begin_scan(0) AS too_early, parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_begin_scan(0) AS too_early,
	parvacuum_test_pop(0), parvacuum_test_begin_scan(0) AS wanted;
SELECT parvacuum_test_offer(0, 13, 7) AS place, parvacuum_test_offer(0, 15, 6) AS no_place, parvacuum_test_end_scan(0, false), parvacuum_test_finish(0),
	parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_begin_scan(0) AS wanted, parvacuum_test_offer(0, 15, 6) AS place, parvacuum_test_end_scan(0);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_begin_scan(0) AS no_more;

-- In such a scan a table is not left out because its score has grown, as ages do, but because
-- it has had its turn; also if its entry was evicted since.
SELECT parvacuum_test_queue(2);
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0);
SELECT parvacuum_test_offer(0, 11, 9), parvacuum_test_offer(0, 12, 8), parvacuum_test_offer(0, 13, 7) AS no_place, parvacuum_test_end_scan(0, false);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'lock'), parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_begin_scan(0) AS goes_on,
	parvacuum_test_offer(0, 11, 9.5) AS waits, parvacuum_test_offer(0, 13, 8.5) AS place;
SELECT rel, state, reason, score FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_offer(0, 14, 6) AS place_of_11, parvacuum_test_offer(0, 15, 5) AS no_place, parvacuum_test_end_scan(0, false);
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_begin_scan(0) AS goes_on,
	parvacuum_test_offer(0, 11, 9.5) AS left_out, parvacuum_test_offer(0, 14, 6) AS last_one, parvacuum_test_offer(0, 15, 5) AS place, parvacuum_test_end_scan(0), parvacuum_test_pop(0);
SELECT rel, state, reason, score FROM parvacuum_test_items() ORDER BY rel;

-- Tables that wait for their window have half of the entries at most, and each gives way to
-- a table that can be begun with.
SELECT parvacuum_test_queue(4);
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0);
SELECT parvacuum_test_offer(0, rel, 5, 1, 'window') AS never FROM unnest('{11,12,13,14,15}'::oid[]) rel;
SELECT parvacuum_test_offer(0, 16, 4, 1, 'none', 500) AS place, parvacuum_test_offer(0, 17, 4, 1, 'none', 500) AS last_place,
	parvacuum_test_offer(0, 18, 4, 1, 'none', 500) AS place_of_11;
SELECT rel, state, reason FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_offer(0, 19, 3) AS place_of_12, parvacuum_test_offer(0, 20, 2) AS no_place, parvacuum_test_end_scan(0, false);
SELECT rel, state, reason FROM parvacuum_test_items() ORDER BY rel;

-- A table in danger of wraparound evicts one that is not, also one that a role has asked for,
-- the last in the order first; but not a running one, nor another one in danger.
SELECT parvacuum_test_queue(4);
SELECT parvacuum_test_enqueue(1, 11, 50), parvacuum_test_enqueue(1, 12, 40), parvacuum_test_enqueue(1, 13, 60), parvacuum_test_hire(1), parvacuum_test_attach(0),
	parvacuum_test_pop(0) AS in_work, parvacuum_test_hire(1), parvacuum_test_attach(1), parvacuum_test_begin_scan(1), parvacuum_test_offer(1, 14, 45);
SELECT parvacuum_test_offer(1, 15, 44) AS place_of_12, parvacuum_test_offer(1, 16, 2, wraparound => true) AS no_place,
	parvacuum_test_offer(1, 17, 2, danger => true) AS place_of_15, parvacuum_test_offer(1, 18, 2, danger => true) AS place_of_14,
	parvacuum_test_offer(1, 19, 2, danger => true) AS place_of_11, parvacuum_test_offer(1, 20, 2, danger => true) AS no_place, parvacuum_test_end_scan(1, false);
SELECT rel, state, score FROM parvacuum_test_items() ORDER BY rel;

-- If nothing could be queued, there is no other scan at once.
SELECT parvacuum_test_queue(1);
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0) AS wanted,
	parvacuum_test_offer(0, 13, 4) AS no_place, parvacuum_test_end_scan(0, false), parvacuum_test_begin_scan(0) AS not_again, parvacuum_test_exit(0);

-- All queues are in use: one in which all tables wait is given up.
SELECT parvacuum_test_queue();
SELECT count(*) FILTER (WHERE parvacuum_test_enqueue(database::oid, 11, 5) = 'queued') AS queued FROM generate_series(1, 128) database;
SELECT parvacuum_test_enqueue(129, 11, 5) AS no_queue, parvacuum_test_hire(129) AS no_place, parvacuum_test_withdraw(7, 11);
SELECT parvacuum_test_enqueue(129, 12, 5) AS queued;
SELECT count(*), count(DISTINCT database), min(rel) FILTER (WHERE database IN (7, 129)) FROM parvacuum_test_items();

-- The developer setting allows no more queues than tables.
SELECT parvacuum_test_queue(2);
SELECT parvacuum_test_hire(1), parvacuum_test_hire(2), parvacuum_test_hire(3) AS no_queue, parvacuum_test_dismiss(0), parvacuum_test_hire(3) AS free_again;

-- As many workers as there are slots.
SELECT parvacuum_test_queue();
SELECT count(*) FILTER (WHERE worker >= 0) AS workers, max(worker), count(*) FILTER (WHERE worker < 0) AS none
FROM (SELECT parvacuum_test_hire(1 + n % 2) AS worker FROM generate_series(1, 70) n) r;

-- A worker that could not be started is not waited for, and its scan is requested again.
-- One that has not attached, nor exited five seconds after it was ended for that, takes no
-- place from others, but no other worker is sent to its database.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_dismiss(0);
SELECT count(*) FROM parvacuum_test_summaries();
SELECT parvacuum_test_hire(1), parvacuum_test_queue_wait(14);
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_queue_wait(1), parvacuum_test_call_back(1);
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_attach(0) AS late, parvacuum_test_should_leave(0), parvacuum_test_begin_scan(0), parvacuum_test_end_scan(0);
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_call_back(1);
SELECT * FROM parvacuum_test_summaries();

-- The next launcher does not know the workers that have not attached.
SELECT parvacuum_test_hire(1), parvacuum_test_hire(2), parvacuum_test_launcher();
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_attach(1) AS too_late, parvacuum_test_exit(0);
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_hire(1), parvacuum_test_launcher();
SELECT * FROM parvacuum_test_summaries();

-- one that has attached stays, however long, and cannot be dismissed any more
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_dismiss(0), parvacuum_test_queue_wait(1000);
SELECT * FROM parvacuum_test_summaries();

-- A worker exits while it is busy: its table waits, and its scan is not pending any more.
SELECT parvacuum_test_pop(0), parvacuum_test_exit(0);
SELECT rel, state, reason, priority, pid FROM parvacuum_test_items();
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 12, 5), parvacuum_test_exit(0);
SELECT * FROM parvacuum_test_summaries();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_end_scan(0), parvacuum_test_request_scan(1),
	parvacuum_test_exit(0);
SELECT count(*) FROM parvacuum_test_summaries();

-- another worker does the scan that it was hired for
SELECT parvacuum_test_hire(1), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_attach(1), parvacuum_test_exit(0);
SELECT scan_pending FROM parvacuum_test_summaries();
SELECT parvacuum_test_begin_scan(1) AS wanted, parvacuum_test_end_scan(1);

-- without workers no scan can be requested
SELECT parvacuum_test_exit(1), parvacuum_test_request_scan(1), parvacuum_test_enqueue(1, 11, 5), parvacuum_test_request_scan(1);
SELECT * FROM parvacuum_test_summaries();

-- A scan that has taken much CPU time is followed by a rest, also when the queue is empty.
-- A scan that fails is not, nor is one that continues the last one.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0) AS wanted, parvacuum_test_queue_wait(7);
SELECT * FROM parvacuum_test_rests();
SELECT parvacuum_test_offer(0, 11, 2), parvacuum_test_end_scan(0, false, 0.2);
SELECT * FROM parvacuum_test_rests();
SELECT parvacuum_test_queue_wait(3), parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_begin_scan(0) AS goes_on,
	parvacuum_test_offer(0, 12, 1), parvacuum_test_end_scan(0, true, 5);
SELECT * FROM parvacuum_test_rests();
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0) AS wanted, parvacuum_test_queue_wait(3), parvacuum_test_exit(0);
SELECT * FROM parvacuum_test_rests();
SELECT parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_exit(0);
SELECT * FROM parvacuum_test_rests();
SELECT parvacuum_test_queue_wait(4), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_exit(0);
SELECT count(*) FROM parvacuum_test_rests();

-- where no table has opted in there is no scan for ten naptimes, until one has
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_end_scan(0, true, 0, true), parvacuum_test_exit(0);
SELECT database, seconds = least(10 * setting::int, 600) AS ten_naptimes FROM parvacuum_test_rests(), pg_settings WHERE name = 'autovacuum_naptime';
SELECT parvacuum_test_queue_wait(600), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_end_scan(0), parvacuum_test_exit(0);
SELECT count(*) FROM parvacuum_test_rests();

-- not for a database that was dropped
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0) AS wanted, parvacuum_test_end_scan(0, true, 0.8), parvacuum_test_exit(0);
SELECT * FROM parvacuum_test_rests();
SELECT parvacuum_test_drop_database(1);
SELECT count(*) FROM parvacuum_test_rests();

-- Called back: one worker of that database for each call.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(database), parvacuum_test_attach(n) FROM (VALUES (0, 1), (1, 2), (2, 2)) x(n, database);
SELECT parvacuum_test_call_back(2);
SELECT parvacuum_test_should_leave(n) FROM generate_series(0, 2) n;
SELECT parvacuum_test_call_back(2), parvacuum_test_call_back(2), parvacuum_test_call_back(3);
SELECT parvacuum_test_should_leave(n) FROM generate_series(0, 2) n;

-- A worker that has been there for ten minutes leaves, unless a scan is requested.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_queue_wait(601), parvacuum_test_should_leave(0) AS to_scan,
	parvacuum_test_begin_scan(0), parvacuum_test_end_scan(0), parvacuum_test_should_leave(0) AS after_it;
SELECT parvacuum_test_exit(0), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_queue_wait(599), parvacuum_test_should_leave(0) AS not_yet,
	parvacuum_test_queue_wait(1), parvacuum_test_should_leave(0) AS long_enough;

-- Workers that can leave soon are called back first: one at a large table cannot, nor one that
-- has been at any table for long, maybe waiting for a lock; nor is it expected to do a scan soon.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_enqueue(1, 12, 4), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_pop(0),
	parvacuum_test_request_scan(1), parvacuum_test_queue_wait(9);
SELECT workers, movable, scan_pending FROM parvacuum_test_summaries();
SELECT parvacuum_test_queue_wait(1);
SELECT workers, movable, scan_pending FROM parvacuum_test_summaries();
SELECT parvacuum_test_hire(1, false), parvacuum_test_attach(1), parvacuum_test_pop(1), parvacuum_test_call_back(1), parvacuum_test_should_leave(0) AS stuck,
	parvacuum_test_should_leave(1) AS free_soon;

-- A dropped database: what is queued and what waits is removed; what is running, when its
-- worker has exited, which DROP DATABASE makes it do.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_enqueue(1, rel, 5) FROM unnest('{11,12,13}'::oid[]) rel;
SELECT parvacuum_test_enqueue(2, 11, 5), parvacuum_test_withdraw(1, 13), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_pop(0);
SELECT parvacuum_test_drop_database(1);
SELECT database, rel, state FROM parvacuum_test_items() ORDER BY database, rel;
SELECT parvacuum_test_exit(0), parvacuum_test_drop_database(1), parvacuum_test_drop_database(3);
SELECT database, rel, state FROM parvacuum_test_items() ORDER BY database, rel;
SELECT * FROM parvacuum_test_summaries();

-- Tables in danger of wraparound go first, whatever the priorities of others; among others five
-- minutes of waiting are worth twice the score.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_enqueue(1, 11, 1e300),
	parvacuum_test_offer(0, 12, 1.1, danger => true), parvacuum_test_offer(0, 13, 4), parvacuum_test_queue_wait(301), parvacuum_test_offer(0, 14, 8),
	parvacuum_test_offer(0, 15, 8.1), parvacuum_test_end_scan(0);
SELECT parvacuum_test_pop(0) AS in_turn, parvacuum_test_finish(0) FROM generate_series(1, 5);

-- A table in danger that could not be completed is not the first again, but goes before all that
-- were needed less than an hour before.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 2, danger => true),
	parvacuum_test_offer(0, 12, 2), parvacuum_test_end_scan(0), parvacuum_test_pop(0), parvacuum_test_finish(0, 'error');
SELECT parvacuum_test_queue_wait(60), parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 2, danger => true),
	parvacuum_test_offer(0, 12, 2), parvacuum_test_offer(0, 13, 1.5, danger => true), parvacuum_test_end_scan(0);
SELECT parvacuum_test_pop(0) AS new_one, parvacuum_test_finish(0), parvacuum_test_pop(0) AS not_removable, parvacuum_test_finish(0, 'error'),
	parvacuum_test_queue_wait(3300), parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 2, danger => true),
	parvacuum_test_offer(0, 12, 2), parvacuum_test_offer(0, 13, 2), parvacuum_test_end_scan(0);
SELECT parvacuum_test_pop(0) AS not_removable, parvacuum_test_finish(0, 'error'), parvacuum_test_pop(0) AS longer, parvacuum_test_finish(0), parvacuum_test_pop(0) AS last;

-- A large table in danger does not wait for those that are not: there are as many places for such tables.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 21, 100, :large),
	parvacuum_test_offer(0, 22, 90, :large), parvacuum_test_end_scan(0), parvacuum_test_pop(0) AS large;
SELECT parvacuum_test_hire(1), parvacuum_test_attach(1), parvacuum_test_pop(1) AS no_place, parvacuum_test_begin_scan(1),
	parvacuum_test_offer(1, 22, 90, :large), parvacuum_test_offer(1, 23, 2, :large, danger => true), parvacuum_test_offer(1, 24, 2, :large, danger => true),
	parvacuum_test_end_scan(1);
SELECT top_score, queued, large FROM parvacuum_test_summaries();
SELECT parvacuum_test_pop(1) AS at_once, parvacuum_test_hire(1, false), parvacuum_test_attach(2), parvacuum_test_pop(2) AS behind_its_like,
	parvacuum_test_finish(1), parvacuum_test_pop(2) AS next_one, parvacuum_test_finish(0), parvacuum_test_pop(0) AS behind_both;

-- Small tables in danger take no place of a large one in danger.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 2, danger => true),
	parvacuum_test_offer(0, 21, 2, :large), parvacuum_test_end_scan(0), parvacuum_test_pop(0) AS small_in_danger;
SELECT parvacuum_test_hire(1), parvacuum_test_attach(1), parvacuum_test_pop(1) AS large, parvacuum_test_begin_scan(1), parvacuum_test_offer(1, 22, 2, :large, danger => true),
	parvacuum_test_end_scan(1), parvacuum_test_hire(1, false), parvacuum_test_attach(2), parvacuum_test_pop(2) AS large_in_danger;

-- A worker that runs functions of the owner gives its place up, but still is at a large table; no
-- more of these count than could have a place.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 21, 9, :large),
	parvacuum_test_offer(0, 22, 8, :large), parvacuum_test_offer(0, 23, 7, :large), parvacuum_test_end_scan(0), parvacuum_test_pop(0) AS large;
SELECT parvacuum_test_hire(1, false), parvacuum_test_attach(1), parvacuum_test_pop(1) AS no_place, parvacuum_test_leave_place(0), parvacuum_test_pop(1) AS second,
	parvacuum_test_hire(1, false), parvacuum_test_attach(2), parvacuum_test_pop(2) AS no_place;
SELECT large FROM parvacuum_test_summaries(1);
SELECT parvacuum_test_leave_place(1), parvacuum_test_pop(2) AS third, parvacuum_test_leave_place(2);
SELECT large FROM parvacuum_test_summaries(1);

-- A table is not as large as pg_class says: it takes no place from then on.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_enqueue(1, 21, 9, :large), parvacuum_test_enqueue(1, 22, 8, :large),
	parvacuum_test_pop(0) AS large, parvacuum_test_hire(1, false), parvacuum_test_attach(1), parvacuum_test_pop(1) AS no_place,
	parvacuum_test_put_back(0, 9, 1), parvacuum_test_pop(1) AS second;

-- Shares.  One of four databases has all entries: each of the others gets a quarter, from the last
-- of its tables on, and not more.
SELECT parvacuum_test_queue(16);
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0);
SELECT bool_or(parvacuum_test_offer(0, rel::oid, 100 - rel)) AS no_place FROM generate_series(1, 16) rel;
SELECT parvacuum_test_end_scan(0);
SELECT parvacuum_test_hire(db), parvacuum_test_attach(db - 1), parvacuum_test_begin_scan(db - 1) FROM generate_series(2, 4) db;
SELECT db, count(*) FILTER (WHERE parvacuum_test_offer(db - 1, rel::oid, 2)) AS no_place FROM generate_series(2, 4) db, generate_series(1, 6) rel GROUP BY db ORDER BY db;
SELECT database, count(*), min(score), max(score) FROM parvacuum_test_items() GROUP BY 1 ORDER BY 1;

-- Evicted tables are found again when the queue is empty.
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0) FROM generate_series(1, 5);
SELECT parvacuum_test_begin_scan(0) AS wanted, parvacuum_test_offer(0, 4, 96, done => true) AS done_meanwhile, parvacuum_test_offer(0, 5, 95) AS place, parvacuum_test_end_scan(0);
SELECT rel, score FROM parvacuum_test_items() WHERE database = 1 ORDER BY rel;

-- A role has a sixteenth of all entries, unless it may maintain all tables.
SELECT parvacuum_test_queue(32);
SELECT rel, parvacuum_test_enqueue(1, rel::oid, 5, role => 20, limited => true), parvacuum_test_enqueue(1, (rel + 10)::oid, 5, role => 21, limited => true),
	parvacuum_test_enqueue(1, (rel + 20)::oid, 5, role => 22) FROM generate_series(1, 3) rel;
SELECT parvacuum_test_enqueue(1, 2, 7, role => 20, limited => true) AS known, parvacuum_test_enqueue(1, 11, 7, role => 20, limited => true) AS of_other,
	parvacuum_test_enqueue(2, 1, 5, role => 20, limited => true) AS elsewhere;
SELECT parvacuum_test_withdraw(1, 2), parvacuum_test_enqueue(1, 3, 5, role => 20, limited => true);

-- Requests take half of a database's share: beyond that, the role with the most entries gives one up,
-- for itself only to a table that goes before.
SELECT parvacuum_test_queue(8);
SELECT parvacuum_test_enqueue(1, rel::oid, 5 + rel, role => CASE WHEN rel < 7 THEN 20 ELSE 21 END) FROM generate_series(1, 8) rel;
SELECT parvacuum_test_enqueue(1, 9, 6, role => 20) AS no_place, parvacuum_test_enqueue(1, 10, 7, role => 20) AS place_of_1, parvacuum_test_enqueue(1, 11, 1, role => 21) AS place_of_2;
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0);
SELECT rel, parvacuum_test_offer(0, rel::oid, 1.1) AS no_place FROM generate_series(12, 16) rel;
SELECT parvacuum_test_end_scan(0, false);
SELECT rel, score, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT parvacuum_test_enqueue(1, 17, 1, role => 22) AS place_of_the_largest, parvacuum_test_enqueue(1, 18, 0.5, role => 22) AS of_the_other,
	parvacuum_test_enqueue(1, 19, 0.1, role => 22) AS no_place;
SELECT rel, score, priority FROM parvacuum_test_items() ORDER BY rel;

-- A database that may take a queue gets that of a database without workers whose first table is the
-- last in the order and not in danger.
SELECT parvacuum_test_queue(3);
SELECT parvacuum_test_enqueue(1, 11, 5), parvacuum_test_enqueue(2, 11, 4), parvacuum_test_enqueue(3, 11, 3), parvacuum_test_hire(4) AS no_queue,
	parvacuum_test_hire(3, false), parvacuum_test_hire(4, true, true) AS queue_of_2;
SELECT database, rel FROM parvacuum_test_items() ORDER BY database;
SELECT parvacuum_test_attach(1), parvacuum_test_begin_scan(1), parvacuum_test_offer(1, 11, 1.1, danger => true), parvacuum_test_exit(1),
	parvacuum_test_hire(5, true, true) AS queue_of_1, parvacuum_test_hire(6, true, true) AS no_queue;
SELECT database, rel FROM parvacuum_test_items() ORDER BY database;

-- Many entries are removed in several steps.
SELECT parvacuum_test_queue(1000), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0);
SELECT count(*) FILTER (WHERE parvacuum_test_offer(0, rel::oid, 5)) AS no_place FROM generate_series(1, 500) rel;
SELECT parvacuum_test_end_scan(0), parvacuum_test_pop(0), parvacuum_test_request_scan(1);
SELECT parvacuum_test_finish(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 400, 5), parvacuum_test_enqueue(1, 300, 5), parvacuum_test_end_scan(0);
SELECT rel, state, priority FROM parvacuum_test_items() ORDER BY rel;
SELECT count(*) FILTER (WHERE parvacuum_test_enqueue(1, rel::oid, 5) IN ('queued', 'before')) FROM generate_series(1, 300) rel;
SELECT parvacuum_test_pop(0), parvacuum_test_drop_database(1);
SELECT rel, state FROM parvacuum_test_items();

-- Each worker takes one table at least, even if it was called back before.
SELECT parvacuum_test_queue(), parvacuum_test_enqueue(1, 11, 5), parvacuum_test_enqueue(1, 12, 5), parvacuum_test_hire(1, false), parvacuum_test_attach(0), parvacuum_test_call_back(1),
	parvacuum_test_should_leave(0) AS not_yet, parvacuum_test_pop(0), parvacuum_test_finish(0), parvacuum_test_should_leave(0) AS now;

CREATE FUNCTION state_now() RETURNS text LANGUAGE sql VOLATILE AS 'SELECT state FROM parvacuum_test_items()';
-- A vacuum removes nothing, unless as many rows have died since as were left, and more than a threshold:
-- they may be of transactions that have aborted.  The statistics have after the vacuum what was left.
SELECT parvacuum_test_queue(), parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 9, horizon => 500, dead => 9),
	parvacuum_test_end_scan(0), parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 500);
SELECT dead, parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, dead, horizon => 500, dead => dead), parvacuum_test_end_scan(0),
	state_now() FROM unnest('{3,4,6,6.1}'::float8[]) dead;
SELECT parvacuum_test_pop(0), parvacuum_test_finish(0, 'horizon', 500), parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 0.5, horizon => 500, dead => 0.5),
	parvacuum_test_end_scan(0);
SELECT dead, parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, dead, horizon => 500, dead => dead), parvacuum_test_end_scan(0),
	state_now() FROM unnest('{1.2,1.5,1.6}'::float8[]) dead;

-- Random steps.
SELECT tables, count(*) AS runs, min(parvacuum_test_queue_fuzz(5000, seed, tables)) > 100 AS tried
FROM unnest('{1,3,20,1000}'::int[]) tables, generate_series(1, 4) seed GROUP BY tables ORDER BY tables;

-- A sweep that was cancelled does not count against the vacuum that the table's age demands
-- later: it goes before a table that has waited for longer.  A cancelled vacuum does.
SELECT parvacuum_test_queue();
SELECT parvacuum_test_hire(1), parvacuum_test_attach(0), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 0, sweep => true), parvacuum_test_end_scan(0), parvacuum_test_pop(0) AS to_sweep;
SELECT parvacuum_test_enqueue(1, 12, 4096), parvacuum_test_queue_wait(1), parvacuum_test_finish(0, 'canceled', 0, false), parvacuum_test_queue_wait(1);
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 2, danger => true), parvacuum_test_end_scan(0), parvacuum_test_pop(0) AS in_danger;
SELECT parvacuum_test_finish(0, 'canceled', 0, false), parvacuum_test_queue_wait(1);
SELECT parvacuum_test_request_scan(1), parvacuum_test_begin_scan(0), parvacuum_test_offer(0, 11, 2, danger => true), parvacuum_test_end_scan(0), parvacuum_test_pop(0) AS waited_longer;
