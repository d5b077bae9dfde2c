-- The guarantee of the scheduler, with hostile owners: no table is begun before another table of its database
-- that has been waiting for more than an hour longer, and none that is not in danger of wraparound before one
-- that is.  So each table is begun when an hour has passed and each of the others has had one turn.  The owners
-- here keep all workers busy for ever: then this takes two hours, and three where large tables wait for a place.
-- Tables in danger are begun when their database has been scanned.  At the end no table has waited for longer
-- than others did until they were begun.
CREATE TEMP TABLE simulated AS
SELECT databases, hot_databases, workers, places, begun > 3000 AS busy, danger < 15 * 60 AS danger, quiet < 3 * 3600 AS quiet,
	beside_hot < 2 * 3600 AS beside_hot, never, out_of_order, s::text AS seconds
FROM (VALUES (1, 20, 5, 1, 32768), (2, 20, 5, 3, 32768), (3, 200, 5, 3, 32768), (4, 300, 10, 5, 32768), (5, 300, 10, 5, 256)) v(no, databases, hot_databases, workers, places),
	parvacuum_test_simulate(databases, hot_databases, workers, 6, places) s ORDER BY no;
SELECT databases, hot_databases, workers, places, busy, danger, quiet, beside_hot, never, out_of_order FROM simulated;
