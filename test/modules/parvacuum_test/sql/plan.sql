-- The launcher's plan for databases d(OID, overdue since, turn of the first table, workers, ...)
CREATE FUNCTION d(database int, overdue float8 DEFAULT -30, turn float8 DEFAULT NULL, workers int DEFAULT 0, charge float8 DEFAULT 0, danger float8 DEFAULT 0,
	age float8 DEFAULT 0.1, may_since float8 DEFAULT 100, failed bool DEFAULT false, counted bool DEFAULT true, expected bool DEFAULT false, large bool DEFAULT false, stayed float8 DEFAULT 100)
RETURNS parvacuum_test_database LANGUAGE sql
AS 'SELECT parvacuum_test_database(database, overdue, turn, workers, charge, danger, age, may_since, failed, counted, expected, large, stayed)';

-- Nothing to do, or a database that is not in use
SELECT parvacuum_test_plan('{}');
SELECT parvacuum_test_plan(ARRAY[d(1), d(2)]);
SELECT parvacuum_test_plan(ARRAY[d(1, counted => false, overdue => 5)]);
SELECT parvacuum_test_plan(ARRAY[d(1, counted => false, overdue => 5, age => 1.1)]);

-- Databases that are due are scanned, the longest overdue first, each by one worker, as far as workers are allowed
SELECT parvacuum_test_plan(ARRAY[d(1, 5), d(2, 7), d(3, 6)]);
SELECT parvacuum_test_plan(ARRAY[d(1, 5), d(2, 7), d(3, 6), d(4, 8), d(5, 4)]);
SELECT parvacuum_test_plan(ARRAY[d(1, 5), d(2, 7, may_since => -1)]);
-- one that was never scanned before all others
SELECT parvacuum_test_plan(ARRAY[d(1, 5), d(2, NULL)]);

-- One that is due and has workers is scanned by one of these, and gets another one if none has come to it
SELECT parvacuum_test_plan(ARRAY[d(1, 0.1, workers => 1)]);
SELECT parvacuum_test_plan(ARRAY[d(1, 5, workers => 1)]);
SELECT parvacuum_test_plan(ARRAY[d(1, 5, workers => 1)], free => 0);

-- A database with tables queued gets a worker, and another one when the queue has lasted for a while, but none while one is expected
SELECT parvacuum_test_plan(ARRAY[d(1, turn => 3), d(2, turn => 4)]);
SELECT parvacuum_test_plan(ARRAY[d(1, turn => 3, workers => 2), d(2, turn => 4, workers => 1, expected => true), d(3, turn => 5, workers => 1, stayed => 0.1), d(4, turn => 6, workers => 1, stayed => 0.3)]);

-- Danger first, the older before the other, then what is due, and of that a dangerous age, then the first in the order: least charged, then the earlier turn
SELECT parvacuum_test_plan(ARRAY[d(1, turn => 9, charge => 2), d(2, turn => 5, charge => 1), d(3, turn => 6, charge => 1), d(4, 5), d(5, 4, age => 1.2), d(6, turn => 1, danger => 1.1), d(7, turn => 1, danger => 1.3)], free => 8);
SELECT parvacuum_test_plan(ARRAY[d(1, turn => 9, charge => 2), d(2, turn => 5, charge => 1), d(3, turn => 6, charge => 1), d(4, 5), d(5, 4, age => 1.2), d(6, turn => 1, danger => 1.1), d(7, turn => 1, danger => 1.3)], free => 4);

-- No more workers are allowed
SELECT parvacuum_test_plan(ARRAY[d(1, 5), d(2, turn => 7), d(3, turn => 1, danger => 1.1)], free => 0);

-- Places at large tables are given to the first of them, as long as there are any
SELECT parvacuum_test_plan(ARRAY[d(1, turn => 3, large => true), d(2, turn => 4, large => true), d(3, turn => 5), d(4, turn => 6, large => true), d(5, 5, turn => 7, large => true)], free => 8);

-- Databases that workers cannot get to: one worker at a time tries, and others get their workers
SELECT parvacuum_test_plan(ARRAY[d(1, 9, failed => true), d(2, 8, failed => true), d(3, 7)]);
SELECT parvacuum_test_plan(ARRAY[d(1, 9, failed => true, workers => 1, expected => true), d(2, 8, failed => true), d(3, 7)]);

-- After ten scans one worker goes to where tables are queued
SELECT parvacuum_test_plan(array_agg(d(n, 50 - n)) || d(21, turn => 1) || d(22, turn => 2), free => 13) FROM generate_series(1, 20) n;

-- Thousands of databases
SELECT p[1], p[3], cardinality(p) FROM parvacuum_test_plan((SELECT array_agg(d(n, n / 1000.0) ORDER BY n) FROM generate_series(1, 5000) n)) p;
DROP FUNCTION d;
