-- The launcher's plan for databases d(OID, overdue since, ...) and queues q(OID, score of the first table, workers, ...)
CREATE FUNCTION d(database int, overdue float8 DEFAULT -30, age float8 DEFAULT 0.1, stayed float8 DEFAULT 100, may_since float8 DEFAULT 100,
	failed bool DEFAULT false, counted bool DEFAULT true) RETURNS parvacuum_test_database LANGUAGE sql
AS 'SELECT parvacuum_test_database(database, overdue, age, stayed, may_since, failed, counted)';
CREATE FUNCTION q(database int, top_score float8 DEFAULT 0, workers int DEFAULT 0, queued int DEFAULT NULL, movable int DEFAULT NULL,
	top_danger bool DEFAULT false, leaving int DEFAULT 0, free int DEFAULT NULL, expected int DEFAULT 0, scan_pending bool DEFAULT false)
RETURNS parvacuum_test_summary LANGUAGE sql
AS 'SELECT parvacuum_test_summary(database, top_score, workers, queued, movable, top_danger, leaving, free, expected, scan_pending)';

-- Nothing to do, or a database that is not in use
SELECT * FROM parvacuum_test_plan('{}');
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, counted => false, overdue => 5)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, counted => false, overdue => 5, age => 1.1)]);

-- Databases that are due are scanned, the longest overdue first, each by one worker, as far as workers are allowed
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2, 7), d(3, 6)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2, 7), d(3, 6), d(4, 8), d(5, 4)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2, 7, may_since => -1)]);

-- A database with tables queued gets a worker, and another one when the queue has lasted for a while
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, 3), q(2, 4)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, stayed => 0.1)], ARRAY[q(1, 3, workers => 1)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, stayed => 0.3)], ARRAY[q(1, 3, workers => 1)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, stayed => 0.3)], ARRAY[q(1, 3, workers => 2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, stayed => 0.5)], ARRAY[q(1, 3, workers => 2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1)], ARRAY[q(1, 3, workers => 1, expected => 1)]);

-- Danger first, then the age, then what is due, then the score
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2, 5), d(3, 5, age => 1.2), d(4)], ARRAY[q(1, 4096), q(4, 1.1, top_danger => true)], workers => 2);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2, 5), d(3, 5, age => 1.2), d(4)], ARRAY[q(1, 4096), q(4, 1.1, top_danger => true)], workers => 8);

-- Too many workers: the databases with the most give one up, unless they do already; while large tables are vacuumed one more is allowed
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, workers => 3), q(2, workers => 2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, workers => 3, leaving => 2), q(2, workers => 2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, workers => 3), q(2, workers => 2)], workers => 1, large => 4);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1)], ARRAY[q(1, workers => 3)], workers => 1, large => 1);

-- No more are allowed: workers that have time do the scans, and one leaves for a database without workers, if that ranks higher
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2)], ARRAY[q(1, 3, workers => 2), q(2, 3, workers => 1)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2)], ARRAY[q(1, 3, workers => 2, free => 0, movable => 0), q(2, 3, workers => 1, free => 0, movable => 0)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2), d(3)], ARRAY[q(1, 3, workers => 2), q(2, 3, workers => 1), q(3, 2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2), d(3)], ARRAY[q(1, 3, workers => 2), q(2, 3, workers => 1), q(3, 1.2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2), d(3)], ARRAY[q(1, 3, workers => 2, leaving => 1), q(2, 3, workers => 1), q(3, 2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, stayed => 4), d(2), d(3)], ARRAY[q(1, 3, workers => 2), q(2, 3, workers => 1), q(3, 2)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, stayed => 4), d(2, stayed => 4), d(3)], ARRAY[q(1, 3, workers => 2), q(2, 3, workers => 1), q(3, 2, top_danger => true)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 50), d(2), d(3), d(4)], ARRAY[q(2, 3, workers => 1), q(3, 3, workers => 1), q(4, 3, workers => 1)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 70), d(2), d(3), d(4)], ARRAY[q(2, 3, workers => 1), q(3, 3, workers => 1), q(4, 3, workers => 1)]);

-- Databases that workers cannot get to: one worker at a time tries, and others get their workers
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 9, failed => true), d(2, 8, failed => true), d(3, 7)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 9, failed => true), d(2, 8, failed => true), d(3, 7)], ARRAY[q(1, workers => 1, expected => 1)]);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 9, failed => true), d(2, 8, failed => true)], ARRAY[q(1, workers => 1, expected => 1)], workers => 1);

-- The server has no slot for another process: the workers that there are have to suffice, as if no more were allowed.
-- A database that is due is scanned by its own worker, and one worker leaves for a database that displaces its own; none is
-- asked to leave because there are too many
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2)], ARRAY[q(1, 3, workers => 1), q(2, 3)], workers => 8);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2)], ARRAY[q(1, 3, workers => 1), q(2, 3)], workers => 8, no_process => true);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, 3, workers => 2), q(2, 3)], workers => 8, no_process => true);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, 3, workers => 1), q(2, 3)], workers => 8, no_process => true);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, 3, workers => 1), q(2, 7)], workers => 8, no_process => true);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1)], ARRAY[q(1, workers => 2)], workers => 8, no_process => true);
SELECT * FROM parvacuum_test_plan(ARRAY[d(1), d(2)], ARRAY[q(1, workers => 3), q(2, workers => 2)], no_process => true);

-- All queues in use: only a database of a dangerous age may take one
SELECT * FROM parvacuum_test_plan(ARRAY[d(1, 5), d(2), d(3, 5, age => 1.5)], ARRAY[q(2, 3)], queues_full => true);

-- A queue of a database that the launcher does not know yet
SELECT * FROM parvacuum_test_plan(ARRAY[d(2, 5)], ARRAY[q(1, 3, workers => 3)]);

-- Thousands of databases
SELECT cardinality(actions) AS n, actions[1], actions[3], satisfied FROM parvacuum_test_plan(
	(SELECT array_agg(d(n, n / 1000.0) ORDER BY n) FROM generate_series(1, 5000) n), (SELECT array_agg(q(n * 30, n)) FROM generate_series(1, 128) n));
DROP FUNCTION d, q;
